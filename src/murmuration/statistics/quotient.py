"""Intervals of quotients S/N, from those of S and of N (Fieller; Donner and Zou 2012).

Every t for which S - t N is not too far from 0:

    (S - t N)^2 <= s^2 - 2 t rho s a + t^2 a^2,

where s and a are how far the intervals of S and N reach, rho the correlation of their errors. For
normal intervals that is Fieller's. Where they reach further to one side than to the other, each end
of the quotient takes the sides that can have made it: t is below S/N if S is too large or N too
small. It needs no division and holds for any N; it has ends if the interval of N leaves out 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from murmuration.exact.arrays import Floats
from murmuration.statistics.score import Shape, normal_quantile

Sides = tuple[Floats, Floats]
"""How far an interval reaches below and above."""


def quotient(
    sums: Floats, share: float, of_sums: Sides, of_share: tuple[float, float], correlation: Floats
) -> Sides:
    """Return the ends of the intervals of sums/share; infinite if that of the share has 0.

    >>> one = np.ones(1)
    >>> ends = quotient(0.2 * one, 0.8, (0.02 * one, 0.02 * one), (0.02, 0.02), 0 * one)
    >>> [end.round(4).tolist() for end in ends]
    [[0.2244], [0.2759]]
    """
    if share - of_share[0] <= 0:
        return np.full(len(sums), -np.inf), np.full(len(sums), np.inf)
    low = _lower(sums, share, of_sums[0], of_share, correlation)
    return low, -_lower(-sums, share, of_sums[1], of_share, -correlation)


def _lower(
    sums: Floats, share: float, down: Floats, of_share: tuple[float, float], correlation: Floats
) -> Floats:
    """Return the least t. Above 0 the true share is larger than the estimate, below smaller."""
    below, above = of_share
    apart = np.where(sums > down, above, below)
    a = share**2 - apart**2
    b = sums * share - correlation * down * apart
    c = sums**2 - down**2
    root = np.sqrt(np.maximum(b**2 - a * c, 0.0))
    # The roots of a t^2 - 2 b t + c; this form holds for a = 0 too.
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(b + root > 0, c / (b + root), (b - root) / a)


@dataclass(frozen=True, eq=False)
class Beside:
    """How far intervals reach: normal ones of sums, and that of the share that answered."""

    sums: int
    share: Shape

    def reach(self, confidence: float) -> tuple[Any, Any]:
        """Return those of all, one after the other."""
        z = np.full(self.sums, normal_quantile(confidence))
        below, above = self.share.reach(confidence)
        return np.append(z, below), np.append(z, above)


@dataclass(frozen=True, eq=False)
class LastTurned:
    """Of shares of labels and of no answer, the last of which becomes the share that answered."""

    shares: Shape

    def reach(self, confidence: float) -> tuple[Any, Any]:
        """Return those of the labels, and that of no answer the other way round."""
        below, above = self.shares.reach(confidence)
        return np.append(below[:-1], above[-1]), np.append(above[:-1], below[-1])


@dataclass(frozen=True, eq=False)
class LastOnly:
    """How far the interval of the last of several numbers reaches."""

    shape: Shape

    def reach(self, confidence: float) -> tuple[float, float]:
        """Return the last of both."""
        below, above = self.shape.reach(confidence)
        return float(below[-1]), float(above[-1])
