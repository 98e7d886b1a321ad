"""The verdict on a law: the exact worst-case privacy loss, and where it is reached.

One number for an ordinary mechanism; a matrix, range against range, for a graded one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from murmuration.exact.arrays import Floats, Ints
from murmuration.exact.exponential import log_above, within
from murmuration.exact.table import Table, largest_ratio


@dataclass(frozen=True)
class Loss:
    """The exact worst-case privacy loss, and where it is reached.

    `epsilon` is ln(ratio), rounded up to a float, or infinity; `claimed` is what the mechanism
    was asked to keep; `inputs` are the two values that are easiest to tell apart (nan: no
    answer), by `output`.
    `simulated` says that reports were drawn with a generator that can be repeated: then nothing is
    kept, as whoever knows the seed can undo the noise.

    >>> Loss(0.5, 0.5, Fraction(3, 2), (0, 1), 0, simulated=True).verdict
    'simulated'
    """

    epsilon: float
    claimed: float
    ratio: Fraction | None
    inputs: tuple[float, float]
    output: int | str
    simulated: bool = field(default=False, kw_only=True)

    @property
    def holds(self) -> bool:
        """Whether ratio <= e^claimed, decided in rational arithmetic; not in a simulation."""
        return not self.simulated and self.ratio is not None and within(self.ratio, self.claimed)

    @property
    def verdict(self) -> str:
        """Whether the promise is kept or BROKEN; or that nothing was promised: simulated."""
        return "simulated" if self.simulated else "kept" if self.holds else "BROKEN"

    @property
    def pairwise(self) -> Floats:
        """The loss between the ranges of the domain; there is one range, unless graded."""
        return np.array([[self.epsilon]])

    def __str__(self) -> str:
        high, low = map(_input, self.inputs)
        return (
            f"exact loss {self.epsilon!r}, promised {self.claimed!r}: {self.verdict} "
            f"({high} against {low}, report {self.output})"
        )


@dataclass(frozen=True)
class PairwiseLoss(Loss):
    """The exact loss between any two of several ranges of the domain, against its own budget.

    `ratios[g][h]` is the largest ratio between a value in range g and one in range h, either way
    (None: infinite); the diagonal is the loss inside a range. `epsilon` and `claimed` are the
    largest entries. The promise holds when every entry keeps within its own budget.
    """

    ratios: tuple[tuple[Fraction | None, ...], ...]
    budgets: tuple[tuple[float, ...], ...]

    @property
    def holds(self) -> bool:
        """Whether every ratio <= e^budget, decided in rational arithmetic; not in a simulation."""
        cells = zip(itertools.chain(*self.ratios), itertools.chain(*self.budgets), strict=True)
        return not self.simulated and all(
            ratio is not None and within(ratio, budget) for ratio, budget in cells
        )

    @property
    def pairwise(self) -> Floats:
        """The matrix of losses, ln(ratio) rounded up."""
        return np.array([[_log_or_infinite(ratio) for ratio in row] for row in self.ratios])

    def __str__(self) -> str:
        g, h = self.worst_pair
        where = f"inside range {g + 1}" if g == h else f"between ranges {g + 1} and {h + 1}"
        return (
            f"{super().__str__()}; nearest to its budget {where}: "
            f"{float(self.pairwise[g, h])!r} of {self.budgets[g][h]!r}"
        )

    @property
    def worst_pair(self) -> tuple[int, int]:
        """The two ranges whose loss is the largest multiple of its budget."""
        share = self.pairwise / np.array(self.budgets)
        g, h = np.unravel_index(int(share.argmax()), share.shape)
        return int(g), int(h)


def _input(value: float) -> str:
    """Name an input; nan stands for no answer."""
    return "no answer" if math.isnan(value) else f"x = {value:g}"


def _log_or_infinite(ratio: Fraction | None) -> float:
    return math.inf if ratio is None else log_above(ratio)


def product(losses: Sequence[Loss], claimed: float, output: str | int | None = None) -> Loss:
    """Return the loss of reports that are sent together: the ratios multiply.

    >>> half = Loss(0.5, 0.5, Fraction(3, 2), (0, 1), 0)
    >>> product([half, half], 1.0).ratio
    Fraction(9, 4)
    """
    first = losses[0]
    where = first.output if output is None else output
    ratio = Fraction(1)
    for loss in losses:
        if loss.ratio is None:
            return Loss(math.inf, claimed, None, loss.inputs, loss.output)
        ratio *= loss.ratio
    return Loss(log_above(ratio), claimed, ratio, first.inputs, where)


def size(loss: Loss) -> tuple[bool, Fraction]:
    """Order losses by their ratio, the infinite ones last."""
    return _sort_key(loss.ratio)


def pairwise_loss(
    table: Table,
    points: Floats,
    ranges: Sequence[Ints],
    budgets: tuple[tuple[float, ...], ...],
) -> PairwiseLoss:
    """Return the exact losses between ranges; `ranges` are the rows that each one's values mix.

    A value mixes rows of its own range only, and a mixture is never easier to tell from another
    than the rows are: for each pair of ranges the largest weight of one over the least of the
    other, symbol by symbol, is the loss.
    """
    tops = [table.weights[rows].max(axis=0) for rows in ranges]
    bottoms = [table.weights[rows].min(axis=0) for rows in ranges]
    found = [[_ratio(top, bottom) for bottom in bottoms] for top in tops]
    size = range(len(ranges))
    ratios = tuple(tuple(_larger(found[g][h][0], found[h][g][0]) for h in size) for g in size)
    g, h = max(
        itertools.product(size, size), key=lambda pair: _sort_key(found[pair[0]][pair[1]][0])
    )
    ratio, symbol = found[g][h]
    column = table.weights[:, symbol]
    high, low = ranges[g][column[ranges[g]].argmax()], ranges[h][column[ranges[h]].argmin()]
    reached = float(points[high]), float(points[low])
    claimed = max(max(row) for row in budgets)
    return PairwiseLoss(_log_or_infinite(ratio), claimed, ratio, reached, symbol, ratios, budgets)


def _ratio(top: Ints, bottom: Ints) -> tuple[Fraction | None, int]:
    """The largest top/bottom, exactly, and its symbol."""
    symbol = largest_ratio(top, bottom)
    high, low = int(top[symbol]), int(bottom[symbol])
    return (Fraction(high, low) if low else None), symbol


def _larger(one: Fraction | None, other: Fraction | None) -> Fraction | None:
    return None if one is None or other is None else max(one, other)


def _sort_key(ratio: Fraction | None) -> tuple[bool, Fraction]:
    """Order ratios with the infinite one last."""
    return ratio is None, ratio or Fraction(0)


def table_loss(table: Table, points: Floats, claimed: float) -> Loss:
    """Return the exact loss of a table whose rows answer for the given input points.

    A value between two points mixes their rows, and a mixture is never easier to tell from
    another mixture than the rows themselves are: the points decide.
    """
    ratio, (high, low), symbol = table.worst_ratio()
    inputs = float(points[high]), float(points[low])
    return Loss(_log_or_infinite(ratio), claimed, ratio, inputs, symbol)
