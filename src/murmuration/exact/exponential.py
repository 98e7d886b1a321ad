"""e^epsilon and ln, never guessed: fractions that are certainly below or above.

A weight ratio capped by `exp_below(epsilon)` never exceeds e^epsilon, and a loss that `log_above`
returns is never understated.
"""

from __future__ import annotations

import math
from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache

_DIGITS = 60


@lru_cache(maxsize=4096)
def exp_bounds(exponent: Fraction) -> tuple[Fraction, Fraction]:
    """Return fractions just below and just above e^exponent, 60 digits apart from it.

    >>> low, high = exp_bounds(Fraction(1))
    >>> low < high, float(low)
    (True, 2.718281828459045)
    """
    context = Context(prec=_DIGITS + 10)
    power = context.divide(Decimal(exponent.numerator), Decimal(exponent.denominator))
    value = Context(prec=_DIGITS).exp(power)
    margin = Fraction(1, 10 ** (_DIGITS - 2))
    return Fraction(value) * (1 - margin), Fraction(value) * (1 + margin)


@lru_cache(maxsize=4096)
def exp_below(exponent: float | Fraction) -> Fraction:
    """Return a fraction just below e^exponent: ratios capped by it never exceed the budget."""
    return exp_bounds(Fraction(exponent))[0]


def within(ratio: Fraction, epsilon: float) -> bool:
    """Tell whether ratio <= e^epsilon, decided exactly.

    >>> within(Fraction(271828, 100000), 1.0), within(Fraction(271829, 100000), 1.0)
    (True, False)
    """
    # e^epsilon is irrational, so a ratio is never equal to it; one that came within 58 digits
    # below it would be refused.
    return ratio <= exp_below(epsilon)


def log_above(ratio: Fraction) -> float:
    """Return the smallest float that is at least ln(ratio): a loss is never understated."""
    context = Context(prec=_DIGITS)
    quotient = context.divide(Decimal(ratio.numerator), Decimal(ratio.denominator))
    exact = context.ln(quotient)
    nearest = float(exact)
    return nearest if Decimal(nearest) >= exact else math.nextafter(nearest, math.inf)
