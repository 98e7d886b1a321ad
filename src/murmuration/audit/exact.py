"""The exact audit: the law's loss in rational arithmetic, and the sampler held against the law.

The loss is a property of the integer table. It is worth something only if the sampler draws from
that table, so the real device code is run on the words where the law says that the answer
changes (each cumulative weight and the word before it: enough for a sampler that is monotone in
its word, as ours is), and on random values and words, next to a slow and obvious sampler.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from murmuration.errors import PromiseError
from murmuration.exact.arrays import Floats, Ints
from murmuration.exact.grid import AnyGrid, Grid
from murmuration.exact.loss import Loss
from murmuration.exact.randomness import HALF, WHOLE, WORD_BITS, ScriptedRng, SeededRng, Words
from murmuration.mechanisms.base import Mechanism
from murmuration.mechanisms.number.base import NumericMechanism


@dataclass(frozen=True)
class Audit:
    """The verdict on one mechanism."""

    loss: Loss
    words_tried: int
    disagreements: int

    @property
    def passed(self) -> bool:
        """Whether the law keeps its epsilon and the sampler keeps to the law."""
        return self.loss.holds and self.disagreements == 0


def audit(mechanism: Mechanism) -> Audit:
    """Compute the exact loss and, for numeric mechanisms, run the sampler next to the law.

    (The samplers of the others draw until a draw fits, so no list of words decides; the tests
    hold them against laws that are enumerated report by report.)

    >>> import murmuration
    >>> audit(murmuration.mechanism("duchi", epsilon=1.0)).passed
    True
    """
    if not isinstance(mechanism, NumericMechanism):
        return Audit(mechanism.loss(), 0, 0)
    boundary, random = _boundary_words(mechanism), _random_words(mechanism)
    return Audit(mechanism.loss(), boundary[0] + random[0], boundary[1] + random[1])


def _sent(mechanism: NumericMechanism, values: Floats, words: Words) -> Ints:
    """Return what arrives when these words decide: through the device, the wire and back."""
    try:
        reports = mechanism.privatize(values, ScriptedRng(words.ravel()))
    except PromiseError:  # a device refuses the law; its sampler can be looked at all the same
        reports = mechanism.respond(values, words)
    return mechanism.unpack(mechanism.pack(reports)).astype(np.int64)


def _random_words(mechanism: NumericMechanism, n: int = 4096) -> tuple[int, int]:
    """Compare random values and words with the obvious sampler: exact fractions, then bisection."""
    values = np.random.default_rng(0).uniform(-1, 1, n)
    words = SeededRng(0).words(2 * n).reshape(n, 2)
    table, row_of = mechanism.design.table, _obvious_rounding(mechanism.design.grid)
    spare = 64 - table.total.bit_length() + 1
    ends = table.cumulative.tolist()
    wrong = 0
    for value, (first, second), symbol in zip(
        values.tolist(), words.tolist(), _sent(mechanism, values, words).tolist(), strict=True
    ):
        row = row_of(Fraction((value + 3.0) - 2.0), first)
        wrong += bisect_right(ends[row], second >> spare) != symbol
    return n, wrong


def _obvious_rounding(grid: AnyGrid) -> Callable[[Fraction, int], int]:
    """Return the slow way from x+1 and a word to a row: exact fractions, cell by cell."""
    if isinstance(grid, Grid):
        cell_bits = WORD_BITS - grid.cells.bit_length() + 1
        half = Fraction(grid.cells, 2)
        return lambda x, word: int(x * half + Fraction(word >> (64 - cell_bits), 1 << cell_bits))
    places, rows = grid.places, grid.low_rows.tolist()

    def row_of(x: Fraction, word: int) -> int:
        cell = bisect_right(places[1:-1], x * HALF)
        fraction = (x * HALF - places[cell]) / (places[cell + 1] - places[cell])
        return int(rows[cell]) + (fraction + Fraction(word >> (64 - WORD_BITS), WHOLE) >= 1)

    return row_of


def _boundary_words(mechanism: NumericMechanism) -> tuple[int, int]:
    """Return how many boundary words were tried and how many gave another symbol than the law."""
    table, grid = mechanism.design.table, mechanism.design.grid
    tried = wrong = 0
    for row in range(len(grid.points)):
        drawn, expected = _boundaries(table.weights[row])
        words = _as_words(drawn, table.total)
        for value, rounding in _ways_to(row, grid):
            pairs = np.stack([np.full_like(words, rounding), words], axis=1)
            received = _sent(mechanism, np.full(len(words), value), pairs)
            wrong += int((received != expected).sum())
            tried += len(words)
    return tried, wrong


def _ways_to(row: int, grid: AnyGrid) -> list[tuple[float, int]]:
    """Return values and rounding words that must end in this row of the table.

    On a grid point the rounding word must not matter; halfway to a neighbour it must decide.
    """
    lowest, highest = 0, (1 << 64) - 1
    points, low_rows = grid.points, grid.low_rows.tolist()
    ways: list[tuple[float, int]] = []
    if row in low_rows:
        ways += [(float(points[row]), lowest), (float(points[row]), highest)]
        ways.append((float(points[row] + points[row + 1]) / 2, lowest))
    if row - 1 in low_rows:
        ways.append((float(points[row] + points[row - 1]) / 2, highest))
    if row == len(points) - 1:
        ways += [(1.0, lowest), (1.0, highest)]
    return ways


def _boundaries(weights: Ints) -> tuple[Ints, Ints]:
    """Return the first and the last word of every symbol that has any, and those symbols."""
    ends = np.cumsum(weights)
    symbols = np.flatnonzero(weights)
    drawn = np.concatenate([ends[symbols] - weights[symbols], ends[symbols] - 1])
    return drawn, np.concatenate([symbols, symbols])


def _as_words(drawn: Ints, total: int) -> Words:
    """Put the law's words in the top bits, and ones below: the low bits must not matter."""
    spare = np.uint64(64 - total.bit_length() + 1)
    return (drawn.astype(np.uint64) << spare) | ((np.uint64(1) << spare) - np.uint64(1))
