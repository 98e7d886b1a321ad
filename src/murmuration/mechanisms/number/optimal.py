"""The LP-optimal table: the least worst-case error that any unbiased report can have."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from murmuration.errors import ParameterError
from murmuration.exact.arrays import Floats
from murmuration.exact.loss import Loss, table_loss
from murmuration.mechanisms.number.base import Design, NumericMechanism, unbiased
from murmuration.mechanisms.stored import MARGIN, Solution, integer_weights, stored

MAX_EPSILON = 10.0
"""Beyond this the linear program is too steep to be solved in floating point."""


@dataclass(frozen=True)
class Optimal(NumericMechanism):
    """Draw from the table that a linear program finds: worst-case error within 0.5% of the limit.

    (Up to epsilon 7; 1% at 8 and 4% at 10, where the grid shows.)

    minimise t  s.t.  L_y <= Q(y|x) <= e^eps L_y,  sum_y Q = 1,  sum_y a_y Q = x,
                      sum_y a_y^2 Q - x^2 <= t   for x on a grid.

    With a `prior` (shares of people in equal bins from -1 to 1) the average error over it is
    minimised instead; the privacy and the absence of bias do not rest on the prior being right.
    Tables for common epsilons are shipped; others take seconds to a minute and are kept in a
    cache folder (MURMUR_CACHE, else the user's). Every table is audited when it is read.

    epsilon: the budget of one report, 0.001 to 20
    prior: the shares of people in equal bins from -1 to 1, to lower the average error; None: the
        worst case counts

    >>> optimal = Optimal(epsilon=2.0)
    >>> round(optimal.worst_variance(), 3)
    0.866
    """

    name: ClassVar[str] = "optimal"
    paper: ClassVar[str] = "linear program over all unbiased tables (built for this project)"
    summary: ClassVar[str] = "the table of least worst-case error"

    prior: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.epsilon > MAX_EPSILON:
            raise ParameterError(
                f"optimal tables go up to epsilon {MAX_EPSILON:g}; beyond that use piecewise with "
                f"t=optimal; got {self.epsilon!r}"
            )
        if self.prior is not None:
            object.__setattr__(self, "prior", checked_prior(self.prior))

    def build(self) -> Design:
        """Read the table, or build it."""
        return solution(self.epsilon, self.prior).design


def limit(epsilon: float) -> float:
    """Return the certified limit: every unbiased epsilon-LDP report has a worst case above it.

    Not a number above epsilon 10, where none has been computed.

    >>> round(limit(1.0), 2)
    3.99
    """
    return solution(float(epsilon), None).limit if epsilon <= MAX_EPSILON else math.nan


@lru_cache(maxsize=64)
def solution(epsilon: float, prior: tuple[float, ...] | None, cap: float | None = None) -> Solution:
    """Return the table from the package, else from the cache, else built now."""
    return stored(
        file_name(epsilon, prior, cap),
        lambda design: audited(design, epsilon),
        lambda progress: build(epsilon, prior, progress, cap),
        squares=cap is not None,
    )


def audited(design: Design, epsilon: float) -> Loss:
    """Return the exact loss of a table against epsilon."""
    return table_loss(design.table, design.grid.points, epsilon)


def file_name(epsilon: float, prior: tuple[float, ...] | None, cap: float | None = None) -> str:
    """Return the file name of a table: epsilon as it is written, and the prior's digest.

    >>> file_name(1.0, None), file_name(1.0, (1.0,), 1.02)
    ('optimal-1.0.npz', 'optimal-sampled-1.0.npz')
    """
    if cap is not None:
        return f"optimal-sampled-{epsilon!r}.npz"
    digest = "" if prior is None else "-" + hashlib.sha256(repr(prior).encode()).hexdigest()[:16]
    return f"optimal-{epsilon!r}{digest}.npz"


def build(
    epsilon: float,
    prior: tuple[float, ...] | None = None,
    progress: Callable[[float], None] | None = None,
    cap: float | None = None,
) -> Solution:
    """Solve the program, round to integers and remove the bias that rounding leaves."""
    from murmuration.mechanisms.solve import linear as linear_program  # here: a device never solves

    cells = linear_program.cells_for(epsilon)
    on_grid = None if prior is None else prior_on_grid(prior, cells)
    margin = min(MARGIN, epsilon / 1000)
    channel = linear_program.solve(epsilon, cells, on_grid, progress, margin, cap)
    design = unbiased(integer_weights(channel.channel), channel.values)
    return Solution(design, channel.limit)


def prior_on_grid(prior: Sequence[float], cells: int) -> Floats:
    """Return the share of people that rounding sends to each grid point.

    >>> prior_on_grid((1.0,), 2).round(3).tolist()
    [0.25, 0.5, 0.25]
    """
    fine = 64 * cells * len(prior)
    places = (np.arange(fine) + 0.5) / fine * cells
    shares = np.repeat(np.asarray(prior, dtype=np.float64) / sum(prior), fine // len(prior))
    low = places.astype(np.int64)
    up = places - low
    size = cells + 1
    points = np.bincount(low, shares * (1 - up), size) + np.bincount(low + 1, shares * up, size)
    return np.asarray(points / points.sum())


def checked_prior(prior: object) -> tuple[float, ...]:
    """Return the shares of a prior as numbers, or say what is wrong with them."""
    try:
        shares = tuple(float(share) for share in prior)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        raise ParameterError("a prior is a list of shares of people in equal bins") from None
    if not shares or not all(math.isfinite(s) and s >= 0 for s in shares) or sum(shares) == 0:
        raise ParameterError(f"a prior's shares are 0 or more, not all 0; got {prior!r}")
    return shares
