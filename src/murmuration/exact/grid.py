"""Rounding a real number in [-1, 1] to a grid, at random and without bias.

- `Grid` has 2^g equal cells. The number becomes the integer X = (x+1)*2^51; adding a uniform
  dither below the cell size and cutting the low bits goes up with probability exactly (fraction
  of the cell).
- `UnevenGrid` does the same between points at any places, and can hold two rows at one place:
  what a value there is answered with from below, and from above.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from murmuration.errors import ParameterError
from murmuration.exact.arrays import Floats, Ints, frozen
from murmuration.exact.randomness import FEW, HALF, WHOLE, WORD_BITS, Words, drawn

_BITS_OF_TWO = np.float64(2.0).view(np.int64)


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
