"""Exact integer laws: what the sampler compares against and what the auditor reads.

Randomness arrives in 64-bit words of which the top 52 bits count. 52 is the largest width at
which a word plus a word is still exact in a browser (integers up to 2^53), so a TypeScript
client makes the same reports from the same words.

- `Grid` rounds a real number in [-1, 1] at random to one of its two neighbours on a grid of
  2^g cells. The number becomes the integer X = (x+1)*2^51; adding a uniform dither below the
  cell size and cutting the low bits goes up with probability exactly (fraction of the cell).
- `UnevenGrid` does the same between points at any places, and can hold two rows at one place:
  what a value there is answered with from below, and from above.
- `Table` draws a symbol from one row of integer weights: the number of cumulative weights that
  are <= the word. All rows of a table have the same power-of-two total.
- `worst_ratio` is the exact privacy loss of a table, as a fraction (see `loss.py`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from murmuration.errors import ParameterError
from murmuration.randomness import Rng, Words

WORD_BITS = 52
WHOLE = 1 << WORD_BITS
HALF = WHOLE >> 1

_Array = TypeVar("_Array", bound=NDArray[np.generic])
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_DIGITS = 60
FEW = 16
"""Up to this many draws at once take the same steps whatever they draw: time tells nothing."""
_BITS_OF_TWO = np.float64(2.0).view(np.int64)


# --- e^epsilon, never guessed ------------------------------------------------------------------


@lru_cache(maxsize=4096)
def exp_bounds(exponent: Fraction) -> tuple[Fraction, Fraction]:
    """Return fractions just below and just above e^exponent, 60 digits apart from it.

    >>> low, high = exp_bounds(Fraction(1))
    >>> low < high, float(low)
    (True, 2.718281828459045)
    """
    context = Context(prec=_DIGITS + 10)
    power = context.divide(Decimal(exponent.numerator), Decimal(exponent.denominator))
    value = Context(prec=_DIGITS).exp(power)
    margin = Fraction(1, 10 ** (_DIGITS - 2))
    return Fraction(value) * (1 - margin), Fraction(value) * (1 + margin)


def exp_below(exponent: float | Fraction) -> Fraction:
    """Return a fraction just below e^exponent: ratios capped by it never exceed the budget."""
    return exp_bounds(Fraction(exponent))[0]


def within(ratio: Fraction, epsilon: float) -> bool:
    """Tell whether ratio <= e^epsilon, decided exactly.

    >>> within(Fraction(271828, 100000), 1.0), within(Fraction(271829, 100000), 1.0)
    (True, False)
    """
    # e^epsilon is irrational, so a ratio is never equal to it; one that came within 58 digits
    # below it would be refused.
    return ratio <= exp_below(epsilon)


def log_above(ratio: Fraction) -> float:
    """Return the smallest float that is at least ln(ratio): a loss is never understated."""
    context = Context(prec=_DIGITS)
    quotient = context.divide(Decimal(ratio.numerator), Decimal(ratio.denominator))
    exact = context.ln(quotient)
    nearest = float(exact)
    return nearest if Decimal(nearest) >= exact else math.nextafter(nearest, math.inf)


def drawn(words: Words) -> Ints:
    """Return the 52 bits of each word that laws are compared with."""
    return (words >> np.uint64(64 - WORD_BITS)).view(np.int64)


def uniform(rng: Rng, n: int, bound: int) -> Ints:
    """Return n integers below bound, exactly uniform: words past the last whole turn are redrawn.

    >>> from murmuration import seeded_rng
    >>> uniform(seeded_rng(1), 4, 6).max() < 6
    np.True_
    """
    turns = (1 << WORD_BITS) // bound * bound
    found = drawn(rng.words(n))
    while len(late := np.flatnonzero(found >= turns)):
        found[late] = drawn(rng.words(len(late)))
    return found % bound


# --- rounding to a grid ------------------------------------------------------------------------


@dataclass(frozen=True)
class Grid:
    """Evenly spaced points from -1 to 1 with a power of two of cells between them.

    >>> Grid(4).points.tolist()
    [-1.0, -0.5, 0.0, 0.5, 1.0]
    """

    cells: int

    def __post_init__(self) -> None:
        if self.cells < 1 or self.cells & (self.cells - 1):
            raise ParameterError(f"a grid needs a power of two of cells; got {self.cells}")

    @property
    def step(self) -> float:
        """The (largest) distance between neighbouring points."""
        return 2.0 / self.cells

    @cached_property
    def points(self) -> Floats:
        """The points, -1 first."""
        return np.linspace(-1.0, 1.0, self.cells + 1)

    @property
    def reached(self) -> Floats:
        """A value that each row answers for: its point."""
        return self.points

    @property
    def low_rows(self) -> Ints:
        """The row at the lower end of each cell; the next row is at its upper end."""
        return np.arange(self.cells)

    def round(self, values: Floats, words: Words) -> Ints:
        """Round each value to a neighbouring grid point, up with probability (its fraction).

        X + dither, cut at the cell size: exact and unbiased for the fixed-point value X.

        >>> Grid(2).round(np.array([-1.0, 0.5, 1.0]), np.array([0, 2**63, 2**64 - 1], "u8"))
        array([0, 2, 2])
        """
        cell_bits = WORD_BITS - self.cells.bit_length() + 1
        index = fixed_point(values)
        index += (words >> np.uint64(64 - cell_bits)).view(np.int64)
        index >>= cell_bits
        return index

    def interpolate(self, at_points: Floats, x: Floats) -> Floats:
        """Return the expectation of a function of the rounded value, given at the grid points."""
        return np.interp(x, self.points, at_points)


@dataclass(frozen=True)
class UnevenGrid:
    """Points at any places of [-1, 1], given in fixed point; the law may jump at some of them.

    `places` are the ends of the cells, from 0 to 2^52. At a place in `jumps` there are two rows:
    the upper end of the cell below it and the lower end of the cell above. A value at a jump
    belongs to the cell above.

    >>> grid = UnevenGrid.at([-1.0, 0.5, 1.0], jumps=[0.5])
    >>> grid.points.tolist()
    [-1.0, 0.5, 0.5, 1.0]
    >>> grid.round(np.array([-1.0, 0.5, 0.75]), np.array([0, 0, 2**63], "u8"))
    array([0, 2, 3])
    """

    places: tuple[int, ...]
    jumps: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        rising = all(a < b for a, b in itertools.pairwise(self.places))
        if len(self.places) < 2 or not rising or (self.places[0], self.places[-1]) != (0, WHOLE):
            raise ParameterError("a grid's places go up from -1 to 1")
        if not set(self.jumps) <= set(self.places[1:-1]):
            raise ParameterError("a grid jumps at its inner places only")

    @classmethod
    def at(cls, points: Sequence[float] | Floats, jumps: Sequence[float] = ()) -> UnevenGrid:
        """Return the grid with these points, to the nearest 2^-51."""
        places, breaks = (
            tuple(fixed_point(np.array(p, dtype=np.float64)).tolist()) for p in (points, jumps)
        )
        return cls(places, breaks)

    @cached_property
    def _starts(self) -> Ints:
        """Where each cell starts."""
        return np.array(self.places[:-1], dtype=np.int64)

    @cached_property
    def _widths(self) -> Ints:
        return np.array(self.places[1:], dtype=np.int64) - self._starts

    @property
    def step(self) -> float:
        """The largest distance between neighbouring points."""
        return float(self._widths.max()) / HALF

    @cached_property
    def low_rows(self) -> Ints:
        """The row at the lower end of each cell; the next row is at its upper end."""
        jumped = np.isin(self._starts, self.jumps)
        return frozen(np.arange(len(self._starts)) + np.cumsum(jumped))

    @cached_property
    def points(self) -> Floats:
        """The point of each row: a jump comes twice."""
        rows = np.zeros(int(self.low_rows[-1]) + 2, dtype=np.int64)
        rows[self.low_rows] = self._starts
        rows[self.low_rows + 1] = self._starts + self._widths
        return frozen(rows / HALF - 1.0)

    @property
    def reached(self) -> Floats:
        """A value that each row answers for; below a jump, the last one before it."""
        below = np.append(np.diff(self.points) == 0, False)
        return np.where(below, self.points - 1 / HALF, self.points)

    def locate(self, values: Floats) -> tuple[Ints, Floats]:
        """Return the cell of each value and how far up in it the value is, from 0 to 1."""
        index = fixed_point(values)
        inner = self._starts[1:]
        if len(values) <= FEW:  # every place is looked at, whatever the value
            cell = (index[:, None] >= inner).sum(axis=1)
        else:
            cell = np.searchsorted(inner, index, side="right")
        # Integers up to 2^52 are exact as doubles and the division is correctly rounded, so a
        # browser finds the same number.
        return cell, (index - self._starts[cell]) / self._widths[cell]

    def round(self, values: Floats, words: Words) -> Ints:
        """Round each value to an end of its cell, up with probability (its fraction), to 2^-52."""
        cell, fraction = self.locate(values)
        up = drawn(words) + np.floor(fraction * WHOLE).astype(np.int64) >= WHOLE
        return np.asarray(self.low_rows[cell] + up)

    def interpolate(self, at_points: Floats, x: Floats) -> Floats:
        """Return the expectation of a function of the rounded value, given at the rows."""
        cell, fraction = self.locate(x.ravel())
        low = self.low_rows[cell]
        between = at_points[low] + fraction * (at_points[low + 1] - at_points[low])
        return np.asarray(between.reshape(x.shape))


AnyGrid = Grid | UnevenGrid


def fixed_point(values: Floats) -> Ints:
    """Return X = (x+1)*2^51, an integer in [0, 2^52], rounded to nearest.

    x+3 lies in [2, 4], where the bit pattern of a double counts steps of 2^-51: the pattern
    minus that of 2.0 is X. (A browser computes ((x+3)-2)*2^51, which is the same number.)

    >>> fixed_point(np.array([-1.0, 0.0, 1.0])).tolist() == [0, 2**51, 2**52]
    True
    """
    shifted: Ints = (values + 3.0).view(np.int64)
    shifted -= _BITS_OF_TWO
    return shifted


def frozen(array: _Array) -> _Array:
    """Return the array, no longer writable: it is shared by everyone who uses the mechanism."""
    array.setflags(write=False)
    return array


# --- drawing from a table ----------------------------------------------------------------------


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
        for _ in range(int(np.max(high - low)).bit_length()):
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
