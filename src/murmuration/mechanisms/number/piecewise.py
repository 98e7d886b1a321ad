"""The piecewise mechanism: a plateau around the value, a floor everywhere else."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from murmuration.errors import ParameterError
from murmuration.exact.exponential import exp_below
from murmuration.mechanisms.number.base import Design, NumericMechanism, window

NAMED = ("pm", "sub", "optimal")


@dataclass(frozen=True)
class Piecewise(NumericMechanism):
    """Answer near the value e^eps times as likely as elsewhere; t sets how narrow "near" is.

    The plateau is 1/t as wide as the range it slides over: t = e^(eps/2) is the published
    mechanism ("pm"), e^(eps/3) its variant PM-SUB ("sub"), and "optimal" minimises the variance
    at |x| = 1, which is the worst case:

        Var(x) = (t+1)/(E-1) x^2 + (t+E)((t+1)^3+E-1) / (3 t^2 (E-1)^2),   E = e^eps.

    Best of the closed forms when people are near the middle and epsilon is 2 or more.

    epsilon: the budget of one report, 0.001 to 20
    t: how narrow the plateau is: "pm", "sub", "optimal", or a number

    >>> round(Piecewise(epsilon=2.0).worst_variance(), 2)
    1.23
    >>> round(Piecewise(epsilon=2.0, t="optimal").worst_variance(), 2)
    1.09
    """

    name: ClassVar[str] = "piecewise"
    paper: ClassVar[str] = "Wang et al. 2019 (PM); Zhao et al. 2020 (PM-SUB)"
    summary: ClassVar[str] = "a plateau around the value, a floor elsewhere"
    variants: ClassVar[tuple[Mapping[str, Any], ...]] = ({}, {"t": "sub"}, {"t": "optimal"})

    t: str | float = "pm"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.t not in NAMED:
            object.__setattr__(self, "t", _checked_t(self.t))

    def build(self) -> Design:
        """Slide a plateau of 1/t of the cells."""
        cells = cells_for(self.epsilon)
        return window(cells, cells / plateau_ratio(self.epsilon, self.t), self.epsilon)


def cells_for(epsilon: float) -> int:
    """Return a grid fine enough to meet the closed form to 0.5%, up to epsilon 10."""
    return 64 if epsilon <= 1 else 128 if epsilon <= 5 else 256 if epsilon <= 7 else 512


def plateau_ratio(epsilon: float, t: str | float) -> Fraction:
    """Return t as a fraction."""
    if t == "pm":
        return exp_below(Fraction(epsilon) / 2)
    if t == "sub":
        return exp_below(Fraction(epsilon) / 3)
    if t == "optimal":
        return _optimal_t(epsilon)
    return Fraction(t)


def _optimal_t(epsilon: float) -> Fraction:
    """Return the t of least worst-case variance, in 1/1024ths so that every machine agrees."""
    from scipy.optimize import minimize_scalar  # here: it takes a third of a second

    bounds = (1.0, math.exp(epsilon))
    best = minimize_scalar(lambda t: closed_form(epsilon, t, 1.0), bounds=bounds, method="bounded")
    return Fraction(round(1024 * float(best.x)), 1024)


def closed_form(epsilon: float, t: float, x: float) -> float:
    """Return the variance of the continuous mechanism at x (the formula above)."""
    top = math.exp(epsilon)
    slope = (t + 1) / (top - 1)
    return slope * x * x + (t + top) * ((t + 1) ** 3 + top - 1) / (3 * t**2 * (top - 1) ** 2)


def _checked_t(t: object) -> float:
    number = t if isinstance(t, int | float) and not isinstance(t, bool) else math.nan
    if not (math.isfinite(number) and number > 0):
        raise ParameterError(f"t must be one of {', '.join(NAMED)} or a number above 0; got {t!r}")
    return float(number)
