"""What reports cost, and the rules by which a charge is allowed. Nothing here reads a file.

Costs are exact: a float stands for the decimal number that it prints as (0.1 is one tenth, so ten
of them are 1), sums are fractions, and every decision is made on them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from murmuration.errors import BudgetError, FormatError, ParameterError
from murmuration.wire.address import collector_of

Cost = Fraction | float
"""A fraction, or infinity (the only float that is kept)."""
Totals = dict[tuple[str, str], Cost]
"""What was spent, by the collector's origin and the campaign."""
LIMITS: Mapping[str, float] = {"report": 4.0, "collector": 8.0, "lifetime": 16.0}
"""What a new key allows: for one report, for one collector (a host), for everything together."""


def exact_cost(cost: Cost) -> Cost:
    """Return a cost exactly: a float is the decimal number that it prints as.

    >>> 10 * exact_cost(0.1)
    Fraction(1, 1)
    """
    if isinstance(cost, bool) or not isinstance(cost, int | float | Fraction) or not cost >= 0:
        raise ParameterError(f"a cost is a number, 0 or more; got {cost!r}")
    if isinstance(cost, float):
        return math.inf if math.isinf(cost) else Fraction(repr(float(cost)))
    return Fraction(cost)


def read_cost(text: str) -> Cost:
    """Return a cost that was written: a fraction such as 1/10, or inf.

    >>> read_cost("1/10")
    Fraction(1, 10)
    """
    try:
        cost = math.inf if text == "inf" else Fraction(text)
    except (TypeError, ValueError, ZeroDivisionError):
        raise FormatError("a cost that was noted cannot be read") from None
    if not cost >= 0:
        raise FormatError("a cost that was noted is below 0")
    return cost


def exact_limit(name: str, most: Cost) -> Cost:
    """Return one of the limits exactly, or say what is wrong with it."""
    if name not in LIMITS:
        raise ParameterError(f"a limit is one of {', '.join(LIMITS)}; got {name!r}")
    try:
        return exact_cost(most)
    except ParameterError:
        raise ParameterError(
            f"the {name} limit is a number, 0 or more (inf is none); got {most!r}"
        ) from None


def given_limits(
    report: float | None, collector: float | None, lifetime: float | None
) -> dict[str, Cost]:
    """Return the limits that are given, exactly."""
    given = {"report": report, "collector": collector, "lifetime": lifetime}
    return {name: exact_limit(name, most) for name, most in given.items() if most is not None}


def added(costs: Iterable[tuple[str, str, Cost]]) -> Totals:
    """Add up costs by origin and campaign.

    >>> added([("a", "x", Fraction(1)), ("a", "x", Fraction(2))])
    {('a', 'x'): Fraction(3, 1)}
    """
    totals: Totals = {}
    for origin, campaign, cost in costs:
        totals[origin, campaign] = totals.get((origin, campaign), Fraction(0)) + cost
    return totals


def larger(totals: Totals, others: Totals) -> Totals:
    """Return the larger of the totals of each campaign.

    >>> larger({("a", "x"): Fraction(1)}, {("a", "x"): Fraction(2), ("b", "x"): Fraction(1)})
    {('a', 'x'): Fraction(2, 1), ('b', 'x'): Fraction(1, 1)}
    """
    return {
        **totals,
        **{whose: max(cost, totals.get(whose, cost)) for whose, cost in others.items()},
    }


def spent_on(totals: Totals, origin: str | None = None, campaign: str | None = None) -> Cost:
    """Add up what was spent, without rounding: in all, at one origin, or by one campaign."""
    mine = [
        cost
        for (where, name), cost in totals.items()
        if origin in (None, where) and campaign in (None, name)
    ]
    return sum(mine, start=Fraction(0))


def spent_at(totals: Totals, origin: str) -> Cost:
    """Add up what was spent at the collector of an origin: at all ports of its host.

    >>> spent_at({("https://a:1", "x"): Fraction(1), ("http://a:2", "y"): Fraction(2)}, "https://a:3")
    Fraction(3, 1)
    """
    here = collector_of(origin)
    mine = [cost for (where, _), cost in totals.items() if collector_of(where) == here]
    return sum(mine, start=Fraction(0))


@dataclass(frozen=True)
class Price:
    """A cost that is about to be charged, and whom it is charged for."""

    origin: str
    campaign: str
    cost: Cost

    def require_within(self, reason: str, before: Cost, most: Cost) -> None:
        """Refuse what would go beyond a limit, with what counts for it already."""
        if most != math.inf and before + self.cost > most:
            raise BudgetError(
                f"{self.campaign}: this report costs {float(self.cost):g} (with what is set aside "
                f"for later reports); {float(before):g} of the {reason} limit {float(most):g} is "
                "spent. Nothing was sent.",
                reason,
            )
