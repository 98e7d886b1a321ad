"""The three-output mechanism: minus, nothing, plus."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from murmuration.exact.exponential import exp_below
from murmuration.exact.randomness import WHOLE
from murmuration.mechanisms.number.base import Design, NumericMechanism, ramp


@dataclass(frozen=True)
class ThreeOutput(NumericMechanism):
    """Answer -C, 0 or C; P(0|x) falls linearly from P0 at x = 0 to P0/e^eps at |x| = 1.

    C = 1/(P(C|1) - P(-C|1)) with P(C|1) = e^eps P(-C|1). P0 is chosen for the least worst-case
    variance; it is 0 (two outputs, Duchi) for epsilon below ln 2.

    epsilon: the budget of one report, 0.001 to 20

    >>> round(ThreeOutput(epsilon=2.0).worst_variance(), 3)
    1.0
    """

    name: ClassVar[str] = "three-output"
    paper: ClassVar[str] = "Zhao et al. 2020"
    summary: ClassVar[str] = "minus, nothing or plus"

    def build(self) -> Design:
        """Three grid points (-1, 0, 1), three symbols; every weight rounded towards more noise."""
        zero = best_zero(self.epsilon)
        if not zero:
            return ramp(1, self.epsilon)
        ratio = exp_below(self.epsilon)
        zero_at_end = math.ceil(zero * WHOLE / ratio)
        side = math.ceil((WHOLE - int(ratio * zero_at_end)) / 2)
        lie = math.ceil((WHOLE - zero_at_end) / (ratio + 1))
        truth = WHOLE - zero_at_end - lie
        weights = np.array(
            [
                [truth, zero_at_end, lie],
                [side, WHOLE - 2 * side, side],
                [lie, zero_at_end, truth],
            ]
        )
        bound = WHOLE / (truth - lie)
        return Design(weights, np.array([-bound, 0.0, bound]))


def worst_case(epsilon: float, zero: float) -> float:
    """Return the worst variance over x for this P0.

    Var(x) = C^2 (1 - P0 + (P0 - P0/E) |x|) - x^2, a parabola in |x|.
    """
    top = math.exp(epsilon)
    at_end = zero / top
    bound = (top + 1) / ((1 - at_end) * (top - 1))
    slope = bound**2 * (zero - at_end)
    x = min(1.0, slope / 2)
    return bound**2 * (1 - zero) + slope * x - x * x


def best_zero(epsilon: float) -> Fraction:
    """Return the best P0 in 1/4096ths, so that every machine builds the same table.

    P0 is at most E/(E+2): beyond that, plus at x = 1 would be more than E times plus at x = 0.
    """
    from scipy.optimize import minimize_scalar  # here: it takes a third of a second

    if epsilon <= math.log(2):
        return Fraction(0)
    top = exp_below(epsilon)
    best = minimize_scalar(lambda zero: worst_case(epsilon, zero), bounds=(0, 1), method="bounded")
    return Fraction(min(round(4096 * float(best.x)), int(4096 * top / (top + 2))), 4096)
