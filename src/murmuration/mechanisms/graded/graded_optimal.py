"""The table of least worst-case error under pairwise budgets (LPG)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from murmuration.errors import ParameterError
from murmuration.exact.grid import UnevenGrid
from murmuration.exact.loss import Loss, pairwise_loss
from murmuration.mechanisms.graded.base import GradedMechanism, Matrix, edge_points, range_rows
from murmuration.mechanisms.number.base import Design, unbiased
from murmuration.mechanisms.stored import Solution, integer_weights, stored

MOST_RANGES = 32
"""More take minutes to solve."""
MAX_BUDGET = 8.0
"""Beyond this the linear program is too steep to be solved well in floating point."""


@dataclass(frozen=True)
class GradedOptimal(GradedMechanism):
    """Draw from the table that a linear program finds under the budgets between ranges.

    minimise t  s.t.  Q(y|x) <= e^r(g,h) Q(y|x') for x in range g, x' in range h,
                      sum_y Q = 1,  sum_y a_y Q = x,  sum_y a_y^2 Q - x^2 <= t   on a grid

    whose points include the edges, and an edge keeps the budgets of both its ranges: a value is
    rounded to points of its own range, so it never gets less protection than that promises. The
    range never leaves the device. A new layout takes seconds to build; it is kept in the cache
    folder (MURMUR_CACHE, else the user's) and audited whenever it is read. Where every range has
    a large budget (5 and more) it takes half a minute and is some percent above the limit.

    epsilon: one budget for each range, the lowest range first
    edges: where ranges meet: the k-1 inner edges, or all k+1 with -1 and 1
    semantics: what two values in different ranges may cost: "max" (the larger budget), "min" (the
        smaller), or a symmetric matrix with epsilon on its diagonal

    >>> graded = GradedOptimal(epsilon=(0.5, 0.4, 0.3, 0.2, 0.1), edges=(-0.6, -0.2, 0.2, 0.6))
    >>> graded.loss().holds, graded.worst_variance() < 18
    (True, True)
    """

    name: ClassVar[str] = "graded-optimal"
    paper: ClassVar[str] = "linear program under pairwise budgets (built for this project)"
    summary: ClassVar[str] = "the table of least worst-case error that the budgets allow"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.k > MOST_RANGES:
            raise ParameterError(
                f"graded-optimal takes up to {MOST_RANGES} ranges (graded-bit more); got {self.k}"
            )
        if self.budget > MAX_BUDGET:
            raise ParameterError(
                f"graded-optimal tables go up to a budget of {MAX_BUDGET:g}; beyond that use "
                f"graded-bit; got {self.budget!r}"
            )

    def build(self) -> Design:
        """Read the table, or build it."""
        return _solution(self.edges, self.budgets).design

    @property
    def limit(self) -> float:
        """The certified limit: every unbiased report under these budgets has a worst case above."""
        return _solution(self.edges, self.budgets).limit


@lru_cache(maxsize=64)
def _solution(edges: tuple[float, ...], budgets: Matrix) -> Solution:
    """Return the table of this layout from the cache, or build it."""
    digest = hashlib.sha256(repr((edges, budgets)).encode()).hexdigest()[:16]

    def audited(design: Design) -> Loss:
        rows = range_rows(design.grid, edges)
        return pairwise_loss(design.table, design.grid.points, rows, budgets)

    return stored(
        f"graded-optimal-{digest}.npz",
        audited,
        lambda progress: _build(edges, budgets, progress),
    )


def _build(
    edges: tuple[float, ...], budgets: Matrix, progress: Callable[[float], None]
) -> Solution:
    """Solve the program, round to integers and remove the bias that rounding leaves."""
    from murmuration.mechanisms.solve import graded as graded_program  # here: a device never solves

    borders = edge_points(edges)
    grid = UnevenGrid.at(graded_program.grid_for(borders, budgets))
    solved = graded_program.solve(borders, budgets, grid.points, progress=progress)
    design = unbiased(integer_weights(solved.channel), solved.values, grid)
    return Solution(design, solved.bound)
