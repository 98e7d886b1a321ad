"""The HierA paper's baseline: Laplace noise whose scale depends on the value's range."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np

from murmuration.errors import ParameterError
from murmuration.exact.arrays import Ints
from murmuration.exact.grid import UnevenGrid, fixed_point
from murmuration.exact.randomness import WHOLE
from murmuration.mechanisms.graded.base import GradedMechanism
from murmuration.mechanisms.number.base import Design, unbiased
from murmuration.mechanisms.number.laplace import REACH, cells_for, shifted_noise

LARGEST = 20_000_000
"""The most weights that are written out: 160 MB."""


@dataclass(frozen=True)
class GradedLaplace(GradedMechanism):
    """Add Laplace noise of scale 2/eps_g to a value of range g, and send the sum.

    A report far out is e^(|y| (eps_g - eps_h) / 2) times as likely from the range with more noise:
    the ratio has no bound, so the loss between ranges with different budgets is infinite. Here
    the noise is two-sided geometric on a grid, gathered at 12 scales beyond the domain as in
    `laplace`: the noise of a public range cannot reach where that of a private one can.
    Inside a range the loss is eps_g times half its width.

    epsilon: one budget for each range, the lowest range first
    edges: where ranges meet: the k-1 inner edges, or all k+1 with -1 and 1
    semantics: what two values in different ranges may cost: "max" (the larger budget), "min" (the
        smaller), or a symmetric matrix with epsilon on its diagonal

    >>> graded = GradedLaplace(epsilon=(2.0, 1.0), edges=(0.0,))
    >>> graded.loss().pairwise.round(3).tolist()
    [[1.0, inf], [inf, 0.5]]
    """

    name: ClassVar[str] = "graded-laplace"
    paper: ClassVar[str] = "the baseline of Hao, Wu, Wan 2023 (as published)"
    summary: ClassVar[str] = "Laplace noise of each range's own scale"
    keeps_promise: ClassVar[bool] = False

    def build(self) -> Design:
        """Rows at the grid points inside each range and at both its ends, seen from inside."""
        cells = cells_for(max(self.epsilon))
        reach = math.ceil(REACH * cells / min(self.epsilon))
        width = cells + 2 * reach + 1
        if width * (cells + 2 * self.k) > LARGEST:
            raise ParameterError(
                "these budgets are too far apart for one table: the noise of one range is far "
                "coarser than that of another"
            )
        edges = fixed_point(np.array(self.edges)).tolist()
        step = WHOLE // cells
        rows: list[Ints] = []
        places = set(edges)
        for (low, high), epsilon in zip(pairwise(edges), self.epsilon, strict=True):
            inner = range(low // step * step + step, high, step)
            places.update(inner)
            noise = _widened(shifted_noise(cells, epsilon), width)
            rows += [_between(noise, place, step) for place in (low, *inner, high)]
        grid = UnevenGrid(tuple(sorted(places)), tuple(edges[1:-1]))
        positions = np.arange(-reach, cells + reach + 1, dtype=np.float64)
        return unbiased(np.array(rows), positions * 2 / cells - 1, grid)


def _widened(noise: Ints, width: int) -> Ints:
    """Put the noise in the middle of a wider alphabet that it does not fill."""
    margin = (width - noise.shape[1]) // 2
    return np.pad(noise, ((0, 0), (margin, margin)))


def _between(noise: Ints, place: int, step: int) -> Ints:
    """Return the row at a place that need not be a grid point: a mixture of its neighbours' rows.

    Whole numbers of any size, rounded down; the likeliest symbol takes the rest.
    """
    point, above = divmod(place, step)
    if not above:
        return np.asarray(noise[point])
    low, high = (noise[row].astype(object) for row in (point, point + 1))
    row = ((low * (step - above) + high * above) // step).astype(np.int64)
    row[row.argmax()] += WHOLE - row.sum()
    return np.asarray(row)
