"""A table of integer weights: what the sampler compares words with and what the auditor reads.

`Table` draws a symbol from one row of weights: the number of cumulative weights that are <= the
word. All rows of a table have the same power-of-two total. `worst_ratio` is the exact privacy
loss of a table, as a fraction (see `loss.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from murmuration.errors import ParameterError
from murmuration.exact.arrays import Floats, Ints, frozen
from murmuration.exact.randomness import FEW, WHOLE, Words


@dataclass(frozen=True, eq=False)
class _Guide:
    """What the first bits of a word say, by row and bits; it only speeds drawing up.

    `settled` is the symbol, or the number of symbols where the bits leave a choice; then it is
    one from `low` to `high`.
    """

    bits: int
    settled: NDArray[np.unsignedinteger]
    low: NDArray[np.unsignedinteger]
    high: NDArray[np.unsignedinteger]


class Table:
    """Rows of integer weights, each row the law of a symbol; all rows have the same total.

    >>> table = Table(np.array([[3, 1], [1, 3]]))
    >>> table.draw(np.array([0, 1]), np.array([2**63, 2**63], "u8"))
    array([0, 1], dtype=uint8)
    """

    def __init__(self, weights: Ints) -> None:
        self.weights = frozen(np.array(weights, dtype=np.int64))
        if self.weights.min() < 0 or self.weights.max() > WHOLE:
            raise ParameterError("weights must be between 0 and 2^52")
        # Python's integers: a sum of 64-bit ones could wrap around to the wanted total.
        totals = {sum(row) for row in self.weights.tolist()}
        self.total = totals.pop()
        if totals:
            raise ParameterError("every row of weights must have the same total")
        if self.total & (self.total - 1) or not 0 < self.total <= WHOLE:
            raise ParameterError(f"the total must be a power of two up to 2^52; got {self.total}")

    @property
    def symbols(self) -> int:
        """The size of the alphabet."""
        return int(self.weights.shape[1])

    @cached_property
    def dtype(self) -> np.dtype[np.unsignedinteger]:
        """The smallest unsigned integer that holds a symbol."""
        return np.dtype(np.min_scalar_type(self.symbols - 1))

    @cached_property
    def cumulative(self) -> Ints:
        """Cumulative weights: a word draws the number of entries of its row that are <= it."""
        return frozen(np.cumsum(self.weights, axis=1))

    @cached_property
    def probabilities(self) -> Floats:
        """The weights as probabilities (exact: a weight below 2^53 over a power of two)."""
        return frozen(self.weights / self.total)

    def draw(self, rows: Ints, words: Words) -> NDArray[np.unsignedinteger]:
        """Draw one symbol for each row index, each from its own word."""
        if len(rows) <= FEW:
            return self._search(rows, self._of_total(words), 0, self.symbols - 1).astype(self.dtype)
        guide = self._guide
        slot = rows << guide.bits
        slot |= (words >> np.uint64(64 - guide.bits)).view(np.int64)
        symbols = guide.settled.take(slot)
        hard = np.flatnonzero(symbols == self.symbols)
        if len(hard):
            drawn = self._of_total(words[hard])
            low, high = guide.low.take(slot[hard]), guide.high.take(slot[hard])
            symbols[hard] = self._search(rows[hard], drawn, low, high)
        return symbols.astype(self.dtype, copy=False)

    def _of_total(self, words: Words) -> Ints:
        """The first bits of each word, as many as the total has."""
        return (words >> np.uint64(64 - self.total.bit_length() + 1)).view(np.int64)

    def _search(self, rows: Ints, drawn: Ints, least: ArrayLike, most: ArrayLike) -> Ints:
        """Halve each range of possible symbols until one is left; the steps do not depend on it."""
        flat, base = self.cumulative.ravel(), rows * self.symbols
        low, high = base + np.asarray(least), base + np.asarray(most)
        for _ in range(int(np.max(high - low, initial=0)).bit_length()):
            middle = (low + high) >> 1
            passed = (flat.take(middle) <= drawn) & (low < high)
            low = np.where(passed, middle + 1, low)
            high = np.where(passed, high, middle)
        return np.asarray(low - base)

    @cached_property
    def _guide(self) -> _Guide:
        """Sort every row's words by their first 12 bits: most are settled by them."""
        bits = min(12, self.total.bit_length() - 1)
        width = self.total >> bits
        starts = np.arange(1 << bits, dtype=np.int64) * width
        inner = [row[:-1] for row in self.cumulative]
        low = np.stack([np.searchsorted(row, starts, side="right") for row in inner])
        high = np.stack([np.searchsorted(row, starts + width - 1, side="right") for row in inner])
        settled = np.where(low == high, low, self.symbols).astype(np.min_scalar_type(self.symbols))
        return _Guide(
            bits,
            settled.ravel(),
            low.astype(self.dtype).ravel(),
            high.astype(self.dtype).ravel(),
        )

    def worst_ratio(self) -> tuple[Fraction | None, tuple[int, int], int]:
        """Return the largest ratio between two rows on one symbol, the two rows and the symbol.

        The ratio is None (infinite) when a symbol is possible for one row and not for another.
        """
        top, bottom = self.weights.max(axis=0), self.weights.min(axis=0)
        symbol = largest_ratio(top, bottom)
        column = self.weights[:, symbol]
        rows = int(column.argmax()), int(column.argmin())
        high, low = int(column[rows[0]]), int(column[rows[1]])
        return (Fraction(high, low) if low else None), rows, symbol


def largest_ratio(top: Ints, bottom: Ints) -> int:
    """Return the index of the largest top/bottom, compared without rounding; 0/0 never wins."""
    unbounded = np.flatnonzero((bottom == 0) & (top > 0))
    if len(unbounded):
        return int(unbounded[0])
    ratios = np.divide(top, bottom, out=np.zeros(len(top)), where=bottom > 0)
    # Weights are exact as doubles and a quotient is off by 2^-53 of itself: the largest is here.
    near = np.flatnonzero(ratios >= ratios.max() * (1 - 1e-12)).tolist()
    return max(near, key=lambda index: Fraction(int(top[index]), int(bottom[index]) or 1))
