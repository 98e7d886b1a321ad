"""One bit whose odds are linear in the value, as steep as pairwise budgets allow (G1B)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from murmuration.exact.exponential import exp_below
from murmuration.exact.grid import UnevenGrid
from murmuration.exact.loss import pairwise_loss
from murmuration.exact.randomness import HALF, WHOLE
from murmuration.mechanisms.graded.base import GradedMechanism
from murmuration.mechanisms.number.base import Design, unbiased


@dataclass(frozen=True)
class GradedBit(GradedMechanism):
    """Send + with probability (rho + x) / (rho + sigma); the estimate is -rho or sigma.

    The bit must not tell x in range g from x' in range h by more than E = e^r(g,h). For + that is
    rho + x <= E (rho + x'), for - it is sigma - x <= E (sigma - x'), so

        rho   = max (x - E x') / (E - 1),    sigma = max (E x' - x) / (E - 1),

    over all pairs of ranges and the ends of both. Both as small as possible is the steepest line
    there is. The range never leaves the device. Var(x) = (rho + x) (sigma - x).

    epsilon: one budget for each range, the lowest range first
    edges: where ranges meet: the k-1 inner edges, or all k+1 with -1 and 1
    semantics: what two values in different ranges may cost: "max" (the larger budget), "min" (the
        smaller), or a symmetric matrix with epsilon on its diagonal

    >>> bit = GradedBit(epsilon=(0.5, 0.4, 0.3, 0.2, 0.1), edges=(-0.6, -0.2, 0.2, 0.6))
    >>> bit.loss().holds, round(bit.worst_variance(), 1)
    (True, 19.7)
    """

    name: ClassVar[str] = "graded-bit"
    paper: ClassVar[str] = "built for this project, in place of HierA"
    summary: ClassVar[str] = "one bit, as steep as the budgets between ranges allow"

    def build(self) -> Design:
        """Rows at the edges; the line is a little flatter where rounding needs it to be."""
        for spare_bits in (48, 40, 32, 24, 16):
            design = self._line(1 - Fraction(1, 1 << spare_bits))
            rows = [np.array([g, g + 1]) for g in range(self.k)]
            points = design.grid.points
            if pairwise_loss(design.table, points, rows, self.budgets).holds:
                break
        return design

    def _line(self, shrink: Fraction) -> Design:
        """The steepest line when every e^r - 1 is shrunk by this factor, in integers."""
        grid = UnevenGrid.at(self.edges)
        x = [Fraction(place, HALF) - 1 for place in grid.places]
        pairs = [(a, b, 1 + (ratio - 1) * shrink) for a, b, ratio in self._pairs(x)]
        rho = max(Fraction(1), *((a - ratio * b) / (ratio - 1) for a, b, ratio in pairs))
        sigma = max(Fraction(1), *((ratio * b - a) / (ratio - 1) for a, b, ratio in pairs))
        plus = np.array([round(WHOLE * (rho + place) / (rho + sigma)) for place in x])
        weights = np.stack([WHOLE - plus, plus], axis=1)
        return unbiased(weights, np.array([-float(rho), float(sigma)]), grid)

    def _pairs(self, x: list[Fraction]) -> Iterator[tuple[Fraction, Fraction, Fraction]]:
        """Every two ends of every two ranges, and e^r of the ranges."""
        for g, h in itertools.product(range(self.k), repeat=2):
            ratio = exp_below(self.budgets[g][h])
            for a, b in itertools.product(x[g : g + 2], x[h : h + 2]):
                yield a, b, ratio
