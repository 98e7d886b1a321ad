"""Score intervals: every true value that the estimate is not too far from.

The variance of an estimate from n reports is V(m)/n, where m is the true value and V is known from
the law. The interval of a level has every m with

    (value - m)^2 <= z^2 (V(m)/n + (jump/2n)^2),

not, as the usual one, every m within z standard errors that were guessed from the same reports. So
it needs no minimum of people: reports that all agree have V(value) near 0, yet a few steps away
from the value V is not. `jump` is how far one report can move the sum, about two standard errors
of it: where reports that differ are so rare that fewer than one is expected, whether there is one
makes all the difference.

A shape says how far the interval reaches to either side, in standard errors of the estimate it
belongs to: in other units, or with a larger error, it stays the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy.special import ndtri

from murmuration.errors import ParameterError
from murmuration.exact.arrays import Floats, Ints
from murmuration.exact.grid import AnyGrid

RARE = 0.25
"""What happens in less than this part of the runs that an interval may miss anyway is ignored."""

CAUTION = 1.0
"""By how many of its standard errors a variance that is read off reports is raised."""
LIKELY = 0.95
"""For this confidence a variance is read."""
HULL_POINTS = 512
"""About how many points the largest noise is worked out at."""
OFFSETS = 2.0 ** -np.arange(30)
"""Where, from an estimate on, its variance is looked at besides."""


def normal_quantile(confidence: float) -> float:
    """Return z such that a normal deviate is within +-z with probability `confidence`.

    >>> round(normal_quantile(0.95), 3)
    1.96
    """
    if not 0 < confidence < 1:
        raise ParameterError(
            f"a confidence level is between 0 and 1, such as 0.95; got {confidence!r}"
        )
    return float(ndtri((1 + confidence) / 2))


class Shape(Protocol):
    """How far an interval reaches below and above, in standard errors."""

    def reach(self, confidence: float) -> tuple[Any, Any]:
        """Return how far, for an interval that covers with probability `confidence`."""


# --- shares ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class QuadraticScore:
    """The score interval where V(m) = a + b m + c m^2 between `low` and `high`, c <= 0.

    Values and standard errors may be arrays: all items of a histogram are solved at once.

    >>> shape = QuadraticScore(np.array([0.0, 0.5]), np.ones(2), 100, (0.0, 1.0, -1.0), 0.0, 1.0)
    >>> [ends.round(3).tolist() for ends in shape.reach(0.95)]  # Wilson's interval: .037, .404 ...
    [[0.0, 0.096], [0.037, 0.096]]
    """

    value: Any
    stderr: Any
    n: int
    variance: tuple[float, float, float]
    low: float
    high: float
    jump: float = 0.0

    def reach(self, confidence: float) -> tuple[Any, Any]:
        """Solve the quadratic equation; beyond the ends V is what it is there."""
        z = normal_quantile(confidence)
        square = z**2 / self.n
        jump = (z * self.jump / (2 * self.n)) ** 2
        a, b, c = self.variance
        below = self._below(self.value, (a, b, c), (self.low, self.high), square, jump)
        above = self._below(-self.value, (a, -b, c), (-self.high, -self.low), square, jump)
        return below / self.stderr, above / self.stderr

    def _below(
        self,
        value: Any,
        variance: tuple[float, float, float],
        ends: tuple[float, float],
        square: float,
        jump: float,
    ) -> Any:
        """Return how far the least m is below the value."""
        a, b, c = variance
        first, last = (np.sqrt(square * (a + b * m + c * m * m) + jump) for m in ends)
        lead, half = 1 - square * c, value + square * b / 2
        inside = half**2 - lead * (value**2 - square * a - jump)
        root = (half - np.sqrt(np.maximum(inside, 0.0))) / lead
        fits = (inside >= 0) & (root >= ends[0]) & (root <= ends[1])
        return np.where(value - first < ends[0], first, np.where(fits, value - root, last))


# --- sums --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class SumScore:
    """The interval of a weighted sum of estimates, from each one's own (Zou and Donner 2008).

    To either side the squared distances of the parts add up, each with its weight squared; what
    comes on top (`rest`) is normal.

    >>> parts = (QuadraticScore(0.5, 0.05, 100, (0.0, 1.0, -1.0), 0.0, 1.0), None)
    >>> [round(float(end), 2) for end in SumScore(parts, np.array([0.0, 0.1])).reach(0.95)]
    [1.96, 1.96]
    """

    parts: tuple[Shape | None, ...]
    squares: Floats
    """What each part adds to the squared standard error; a row each, if there are many items."""
    rest: Any = 0.0

    def reach(self, confidence: float) -> tuple[Any, Any]:
        """Return the root mean square of what the parts reach, by what they add."""
        z = normal_quantile(confidence)
        reaches = [(z, z) if part is None else part.reach(confidence) for part in self.parts]
        below, above = (self._side([reach[side] for reach in reaches], z) for side in (0, 1))
        return below, above

    def _side(self, reaches: Sequence[Any], z: float) -> Any:
        far = np.array([np.broadcast_to(reach, self.squares[0].shape) for reach in reaches])
        square = (self.squares * far**2).sum(axis=0) + z**2 * self.rest
        return np.sqrt(square / (self.squares.sum(axis=0) + self.rest))


# --- means -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Tail:
    """How often a report is further off than that: P(|report - x| > far), at most, for any x."""

    far: Floats
    """Rising distances; nothing is further off than the last."""
    chance: Floats

    def jump(self, n: int, confidence: float) -> float:
        """Return how far off one of n reports is, leaving out what hardly ever happens."""
        often = n * self.chance > RARE * (1 - confidence)
        return float(self.far[min(int(often.sum()), len(self.far) - 1)])


@dataclass(frozen=True, eq=False)
class Score:
    """The score interval where V is given at some points, a line between two of them.

    >>> points = np.linspace(-1, 1, 201)
    >>> tail = Tail(np.zeros(1), np.zeros(1))
    >>> shape = Score(0.0, 1.0, 100, points, 1 - points**2, tail)
    >>> [round(end, 3) for end in shape.reach(0.95)]  # Wilson's interval again, on [-1, 1]
    [0.192, 0.192]
    """

    value: float
    stderr: float
    n: int
    points: Floats
    variance: Floats
    tail: Tail
    apart: float = 0.0
    """How far apart two people can be, where the people are drawn by chance too."""
    most: float = math.inf
    """No report is further off than that."""

    def reach(self, confidence: float) -> tuple[float, float]:
        """Find the least and the largest m."""
        below, above = self.distances(normal_quantile(confidence), confidence)
        return below / self.stderr, above / self.stderr

    def distances(self, z: float, confidence: float) -> tuple[float, float]:
        """Return how far the interval reaches to either side, with z and a level of their own."""
        points, squares = self._squares(z, confidence)
        return self.value - _least(self.value, points, squares), self._above(points, squares)

    def above(self, z: float, confidence: float) -> float:
        """Return how far it reaches upwards: where only that is asked, it is half the work."""
        return self._above(*self._squares(z, confidence))

    def _above(self, points: Floats, squares: Floats) -> float:
        return -_least(-self.value, -points[::-1], squares[::-1]) - self.value

    def _squares(self, z: float, confidence: float) -> tuple[Floats, Floats]:
        """Return the points, with the value among them, and how far off each may be, squared."""
        jump = min(self.tail.jump(self.n, confidence) + self.apart, self.most)
        inside = min(max(self.value, float(self.points[0])), float(self.points[-1]))
        at = int(np.searchsorted(self.points, inside))
        here = float(np.interp(inside, self.points, self.variance))
        points = np.concatenate((self.points[:at], (inside,), self.points[at:]))
        variance = np.concatenate((self.variance[:at], (here,), self.variance[at:]))
        return points, z**2 * (variance / self.n + (jump / (2 * self.n)) ** 2)


def _least(value: float, points: Floats, squares: Floats) -> float:
    """Return the least m with (value - m)^2 <= squares(m); constant beyond the points."""
    far = value - math.sqrt(squares[0])
    if far <= points[0]:
        return far
    near = (value - points) ** 2 <= squares
    place = int(near.argmax())
    if not near[place]:
        return value - math.sqrt(squares[-1])
    if place == 0:
        return float(points[0])
    start, gap = points[place - 1], points[place] - points[place - 1]
    slope = (squares[place] - squares[place - 1]) / gap if gap > 0 else 0.0
    # With m = start + t: t^2 - (2 d + slope) t + d^2 - squares = 0, d = value - start.
    d = value - start
    half = d + slope / 2
    root = half - math.sqrt(max(half**2 - d**2 + squares[place - 1], 0.0))
    return float(start + min(max(root, 0.0), gap))


def concave_hull(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Return the corners of the least concave function that is nowhere below the points.

    >>> concave_hull(np.array([0.0, 1, 2, 3]), np.array([0.0, 0, 3, 0]))[0].tolist()
    [0.0, 2.0, 3.0]
    """
    order = np.lexsort((y, x))
    kept: list[tuple[float, float]] = []
    for x2, y2 in zip(x[order].tolist(), y[order].tolist(), strict=True):
        if kept and kept[-1][0] == x2:
            kept.pop()
        while len(kept) > 1:  # in one function: every estimate of a mean passes here
            (x0, y0), (x1, y1) = kept[-2:]
            if (y1 - y0) * (x2 - x0) > (y2 - y0) * (x1 - x0):
                break
            kept.pop()  # the last corner is on or below the line from the one before it to here
        kept.append((x2, y2))
    corners = np.array(kept)
    return corners[:, 0], corners[:, 1]


def largest_moments(grid: AnyGrid, moments: Floats) -> tuple[Floats, Floats, Floats]:
    """Return points m, and of all crowds with mean m the largest noise and the largest E[value^2].

    A crowd's noise is the average of its people's, so the largest is the concave hull of the noise
    at x, over all x. E[value^2 | x], given at the grid points, is a line between them, noise a
    parabola.
    """
    low = grid.low_rows
    inside = np.linspace(0, 1, max(3, HULL_POINTS // len(low) + 1))[:, None]
    start, end = grid.points[low], grid.points[low + 1]
    x = (start + (end - start) * inside).ravel()
    squares = (moments[low] + (moments[low + 1] - moments[low]) * inside).ravel()
    points = np.unique(x)
    noisiest = np.interp(points, *concave_hull(x, squares - x**2))
    largest = np.interp(points, *concave_hull(grid.points, moments))
    return points, noisiest, largest


@dataclass(frozen=True, eq=False)
class Reading:
    """A number read off each report: what its average is at each point of a law, and how sure.

    The average over reports of `read` has, at a true average a, the variance V(a)/n at most, with
    V from the concave hull of (E[read | x], E[read^2 | x]) over all x.
    """

    read: Floats
    points: Floats
    variance: Floats
    tail: Tail

    @classmethod
    def of(cls, law: Floats, read: Floats) -> Reading:
        """Read these numbers, one a symbol, off reports of this law, one row a point."""
        means = law @ read
        return cls.by_moments(read, means, law @ read**2, tail_of(law, read, means))

    @classmethod
    def by_moments(cls, read: Floats, means: Floats, squares: Floats, tail: Tail) -> Reading:
        """Read these numbers, whose mean and mean square at each point of a law are known."""
        x, y = concave_hull(means, squares)
        points = np.unique(np.concatenate([x, np.linspace(x[0], x[-1], 65)]))
        variance = np.maximum(np.interp(points, x, y) - points**2, 0.0)
        return cls(read, points, variance, tail)

    def at_most(self, counts: Ints, n: int) -> float:
        """Return an upper end for the true average, CAUTION standard errors up."""
        value = float(counts @ self.read) / n
        shape = Score(value, 1.0, n, self.points, self.variance, self.tail)
        return value + shape.above(CAUTION, LIKELY)


def tail_of(law: Floats, values: Floats, means: Floats, steps: int = 48) -> Tail:
    """Return how often values are far from their mean, in the row where that is most often."""
    off = np.abs(values[None, :] - means[:, None])
    far = np.linspace(0.0, float(off.max(initial=0.0, where=law > 0)), steps)
    chance = np.array([float((law * (off > distance)).sum(axis=1).max()) for distance in far])
    return Tail(far, chance)
