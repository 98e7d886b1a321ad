"""Before a collection with graded ranges: what the grades buy, if they buy anything.

The alternative to grading is one budget for everybody: the smallest entry of the matrix, which
keeps all of them. Grading is worth its words only where it beats that. Often it does not: if the
two ends of the domain must be as hard to tell apart as the smallest budget says, they alone fix
the error, and no graded mechanism can do better.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from murmuration.errors import ParameterError
from murmuration.mechanisms.base import Mechanism
from murmuration.mechanisms.domain import Graded
from murmuration.mechanisms.graded.base import GradedMechanism, Matrix
from murmuration.mechanisms.graded.graded_bit import GradedBit
from murmuration.mechanisms.graded.graded_optimal import MAX_BUDGET, MOST_RANGES, GradedOptimal
from murmuration.mechanisms.registry import mechanism
from murmuration.planning.choose import choose_numeric

NOTHING = 0.05
"""A smaller gain in variance than this is not worth the grading."""


@dataclass(frozen=True)
class Option:
    """A mechanism that keeps every budget, and its worst standard error with these people."""

    mechanism: Mechanism
    worst: float
    stderr: float
    people_needed: int
    graded: bool


@dataclass(frozen=True)
class GradedPlan:
    """The options, best first; the advice in a sentence; the certified floor where there is one."""

    options: tuple[Option, ...]
    gain: float
    """How many times the best graded option's worst variance the best ungraded one's is."""
    limit: float | None
    """No unbiased report that keeps the budgets has a smaller worst variance."""
    advice: str


def plan_graded(
    epsilon: Sequence[float],
    edges: Sequence[float],
    semantics: str | Matrix = "max",
    people: int = 100_000,
    wanted: float = 0.01,
) -> GradedPlan:
    """Return what keeps these budgets and at what error, and say whether grading buys anything.

    >>> plan_graded([0.5, 0.1], [0.0], "min").advice.split(":")[0]
    'grading buys nothing'
    >>> found = plan_graded([0.5, 0.4, 0.3, 0.2, 0.1], [-0.6, -0.2, 0.2, 0.6])
    >>> found.options[0].mechanism.name, round(found.gain, 1)
    ('graded-optimal', 22.5)
    """
    whole = isinstance(people, int) and not isinstance(people, bool)
    if not whole or people < 1 or not 1e-9 <= wanted <= 2:
        raise ParameterError("people is a whole number, 1 or more; the wanted error 1e-9 to 2")
    bit = GradedBit(epsilon, edges, semantics)  # type: ignore[arg-type]  # it checks them
    graded: list[GradedMechanism] = [bit]
    limit = None
    if bit.budget <= MAX_BUDGET and bit.k <= MOST_RANGES:
        table = GradedOptimal(bit.epsilon, bit.edges, bit.semantics)
        graded, limit = [table, bit], table.limit
    single = choose_numeric(bit.least_budget, people=people).mechanism
    ungraded = {single, mechanism("duchi", epsilon=bit.least_budget)}
    options = [_option(chosen, people, wanted) for chosen in [*graded, *ungraded]]
    best = min(option.worst for option in options if option.graded)
    alone = min(option.worst for option in options if not option.graded)
    ordered = sorted(options, key=lambda option: (option.worst, option.mechanism.report_bytes))
    return GradedPlan(tuple(ordered), alone / best, limit, _advice(bit, best, alone, limit))


def _option(chosen: Mechanism, people: int, wanted: float) -> Option:
    worst = chosen.worst_variance()
    return Option(
        chosen,
        worst,
        math.sqrt(worst / people),
        math.ceil(worst / wanted**2),
        chosen.takes is Graded,
    )


def _advice(bit: GradedBit, best: float, alone: float, limit: float | None) -> str:
    """Say whether grading pays, and why not when it does not."""
    least = bit.least_budget
    if alone / best - 1 >= NOTHING:
        return (
            f"grading pays: one budget of {least:g} for everybody has {alone / best:.3g} times "
            "the variance"
        )
    floor = "" if limit is None else f", and no unbiased report can have less than {limit:.4g}"
    ends = bit.budgets[0][-1]
    why = (
        f" The two ends of the domain must be as hard to tell apart as {ends:g}: they alone "
        "decide the error."
        if math.isclose(ends, least)
        else ""
    )
    return (
        f"grading buys nothing: one budget of {least:g} for everybody has n·Var {alone:.4g}, "
        f"graded {best:.4g}{floor}.{why}"
    )
