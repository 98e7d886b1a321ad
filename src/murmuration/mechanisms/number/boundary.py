"""Where the sampler of a grid and a table is tried: at the words where its answer must change.

Each cumulative weight and the word before it is enough for a sampler that is monotone in its word,
as ours is. Random values and words come on top, next to a slow and obvious sampler.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from fractions import Fraction

import numpy as np

from murmuration.exact.grid import AnyGrid, Grid
from murmuration.exact.randomness import HALF, WHOLE, WORD_BITS, SeededRng
from murmuration.exact.table import Table
from murmuration.mechanisms.base import Mechanism
from murmuration.mechanisms.trial import WordTrial, boundaries

RANDOM = 4096
"""Random values and words to try."""


def boundary_trials(of: Mechanism, grid: AnyGrid, table: Table) -> Iterator[WordTrial]:
    """Yield, for each row and each way to get there, the words where its symbol changes."""
    for row in range(len(grid.points)):
        words, expected = boundaries(table.weights[row], table.total)
        for value, rounding in _ways_to(row, grid):
            pairs = np.stack([np.full_like(words, rounding), words], axis=1)
            yield WordTrial(of, np.full(len(words), value), pairs.ravel(), expected)


def random_trial(of: Mechanism, grid: AnyGrid, table: Table) -> WordTrial:
    """Return random values and words, with what exact fractions and bisection make of them."""
    values = np.random.default_rng(0).uniform(-1, 1, RANDOM)
    words = SeededRng(0).words(2 * RANDOM)
    row_of, ends = _obvious_rounding(grid), table.cumulative.tolist()
    spare = 64 - table.total.bit_length() + 1
    pairs = zip(values.tolist(), words.reshape(-1, 2).tolist(), strict=True)
    expected = [
        bisect_right(ends[row_of(Fraction((value + 3.0) - 2.0), first)], second >> spare)
        for value, (first, second) in pairs
    ]
    return WordTrial(of, values, words, np.array(expected))


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
