"""Projective geometry response: a point that lies on the item's hyperplane more often than not."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from murmuration.errors import ParameterError
from murmuration.exact.arrays import Floats, Ints, Reports
from murmuration.exact.exponential import exp_below, log_above
from murmuration.exact.loss import Loss
from murmuration.exact.randomness import WHOLE, Rng, drawn, uniform
from murmuration.mechanisms.item.base import FrequencyMechanism, require_small_channel
from murmuration.mechanisms.packing import SymbolReports
from murmuration.mechanisms.tally import Tally

MOST_VECTORS = 1 << 26
"""The largest space: its Fourier transform takes a gigabyte."""


@dataclass(frozen=True)
class Projective(FrequencyMechanism, SymbolReports):
    """Send a point of a projective space over a prime field, e^eps times as likely on v's plane.

    Item v is a hyperplane; K = (r^t-1)/(r-1) points, c = (r^(t-1)-1)/(r-1) on each plane, c2 =
    (r^(t-2)-1)/(r-1) on two. With Z = (E-1)c + K: p = Ec/Z, q = (E c2 + c - c2)/Z. For a prime r
    near E+1 the error is almost that of subset selection, and a report is one number: right for
    very many items. r and t are the prime field and the dimension of least error.

    epsilon: the budget of one report, 0.001 to 20
    k: how many items there are, 2 or more; an answer is 0 to k-1

    >>> space = Projective(epsilon=1.0, k=1024)
    >>> space.report_bytes, round(space.total_variance() / 1024, 1)
    (2, 3.8)
    """

    name: ClassVar[str] = "projective"
    paper: ClassVar[str] = "Feldman, Nelson, Nguyen, Talwar 2022 (prime fields only)"
    summary: ClassVar[str] = "a point, more often on the item's hyperplane"

    @cached_property
    def space(self) -> tuple[int, int]:
        """The prime r and the dimension t of least error among the spaces with k points or more."""
        ideal = math.exp(self.epsilon) + 1
        primes = _primes_below(int(min(4 * ideal, 2 * self.k)) + 4)  # a line of k points is enough
        spaces = [(r, _dimension(r, self.k)) for r in primes]
        spaces = [(r, t) for r, t in spaces if r**t <= MOST_VECTORS]
        if not spaces:
            raise ParameterError(f"no space of {MOST_VECTORS:,} vectors has {self.k} planes")
        return min(spaces, key=self._error)

    def _error(self, space: tuple[int, int]) -> float:
        p, q = _rates(space, math.exp(self.epsilon))
        return (p * (1 - p) + (self.k - 1) * q * (1 - q)) / (p - q) ** 2

    @property
    def symbols(self) -> int:
        """The points."""
        return _points(*self.space)

    @property
    def balanced(self) -> int:
        """A point is on the same number of planes, of as many as there are points."""
        return self.symbols

    @property
    def workspace(self) -> int:
        """All r^t vectors, for the Fourier transform."""
        return int(self.space[0] ** self.space[1])

    @cached_property
    def inside(self) -> int:
        """The weight, out of 2^52, of a point on the own plane; rounded down."""
        ratio = exp_below(self.epsilon)
        r, t = self.space
        on_plane = _points(r, t - 1)
        return int(WHOLE * ratio * on_plane / ((ratio - 1) * on_plane + self.symbols))

    @property
    def p(self) -> Fraction:
        """The point is on the own plane."""
        return Fraction(self.inside, WHOLE)

    @property
    def q(self) -> Fraction:
        """The point is on another plane: on both, or on that one only."""
        r, t = self.space
        plane, both = _points(r, t - 1), _points(r, t - 2)
        return self.p * Fraction(both, plane) + (1 - self.p) * Fraction(
            plane - both, self.symbols - plane
        )

    @cached_property
    def coordinates(self) -> Ints:
        """The points' coordinates, first non-zero one 1: item v is the plane orthogonal to v."""
        r, t = self.space
        rows = [np.zeros((0, t), dtype=np.int64)]
        for lead in range(t):
            free = t - 1 - lead
            tail = np.arange(r**free)[:, None] // r ** np.arange(free - 1, -1, -1) % r
            head = np.zeros((len(tail), lead + 1), dtype=np.int64)
            head[:, lead] = 1
            rows.append(np.hstack([head, tail]))
        return np.vstack(rows)

    @property
    def blank_support(self) -> Fraction:
        """The share of all points that are on a plane."""
        r, t = self.space
        return Fraction(_points(r, t - 1), self.symbols)

    def blank(self, reports: Reports, rng: Rng) -> Reports:
        """Any point."""
        return uniform(rng, len(reports), self.symbols).astype(reports.dtype)

    def channel(self) -> Floats:
        """P spread over the points of the own plane, 1-p over all others."""
        require_small_channel(self)
        r, t = self.space
        plane = _points(r, t - 1)
        on = self.coordinates[: self.k] @ self.coordinates.T % r == 0
        outside = (1 - self.p) / (self.symbols - plane)
        return np.where(on, float(self.p / plane), float(outside))

    def respond(self, items: Ints, rng: Rng) -> Reports:
        """Decide inside or outside, draw a vector with product 0 or 1 with v, name its point.

        All coordinates but v's leading one are free. Inside they must not all be zero, or the
        vector would be; outside they may. One word each, whatever comes of it.
        """
        r, t = self.space
        outside = drawn(rng.words(len(items))) >= self.inside
        free = np.empty(len(items), dtype=np.int64)
        off, on = np.flatnonzero(outside), np.flatnonzero(~outside)
        free[off] = uniform(rng.only(off), len(off), r ** (t - 1))
        free[on] = 1 + uniform(rng.only(on), len(on), r ** (t - 1) - 1)
        vectors = self._vectors(items, free, outside.astype(np.int64))
        return _index(vectors, r).astype(np.min_scalar_type(self.symbols - 1))

    def _vectors(self, items: Ints, free: Ints, product: Ints) -> Ints:
        """Lay the free coordinates around v's leading one, which then makes the product right."""
        r, t = self.space
        planes = self.coordinates[items]
        lead = (planes != 0).argmax(axis=1)[:, None]
        places = np.arange(t - 1)
        vectors = np.zeros((len(items), t), dtype=np.int64)
        digits = free[:, None] // r**places % r
        np.put_along_axis(vectors, places + (places >= lead), digits, axis=1)
        rest = (product - (vectors * planes).sum(axis=1)) % r
        np.put_along_axis(vectors, lead, rest[:, None], axis=1)
        return vectors

    def support(self, tally: Tally) -> Ints:
        """C_v = (n + F(v)) / r, F the r-ary Fourier transform of the counts on all multiples.

        A point's multiples add up to r-1 where v is orthogonal to it and to -1 elsewhere.
        """
        r, t = self.space
        grid = np.zeros((r,) * t)
        for scale in range(1, r):
            grid[tuple((self.coordinates * scale % r).T)] = tally.counts
        spectrum = np.fft.fftn(grid).real[tuple(self.coordinates[: self.k].T)]
        return np.asarray((np.rint(spectrum).astype(np.int64) + tally.n) // r)

    def exact_loss(self) -> Loss:
        """inside/c against (1-inside)/(K-c)."""
        r, t = self.space
        plane = _points(r, t - 1)
        ratio = Fraction(self.inside, WHOLE - self.inside) * Fraction(self.symbols - plane, plane)
        point = int((self.coordinates[:, 0] == 0).argmax())
        return Loss(log_above(ratio), self.epsilon, ratio, (0, 1), point)

    def law(self) -> dict[str, Any]:
        """The weight of the own plane, out of 2^52, and the space."""
        r, t = self.space
        return {"inside": self.inside, "prime": r, "dimension": t}


def _points(r: int, t: int) -> int:
    """The points of the projective space of t-vectors over the field of r elements."""
    return int((r**t - 1) // (r - 1))


def _dimension(r: int, k: int) -> int:
    """The smallest t (at least 2) with k points or more."""
    t = 2
    while _points(r, t) < k:
        t += 1
    return t


def _rates(space: tuple[int, int], ratio: float) -> tuple[float, float]:
    """P and q before rounding."""
    r, t = space
    points, plane, both = (_points(r, d) for d in (t, t - 1, t - 2))
    total = (ratio - 1) * plane + points
    return ratio * plane / total, (ratio * both + plane - both) / total


def _index(vectors: Ints, r: int) -> Ints:
    """Return the number of each vector's point: scale to a leading 1, then read off the place."""
    t = vectors.shape[1]
    lead = (vectors != 0).argmax(axis=1)
    first = vectors[np.arange(len(vectors)), lead]
    inverse = np.array([0, *(pow(x, -1, r) for x in range(1, r))])
    scaled = vectors * inverse[first][:, None] % r
    scaled[np.arange(len(vectors)), lead] = 0
    tail = scaled @ (r ** np.arange(t - 1, -1, -1))
    before = np.array([sum(r ** (t - 1 - i) for i in range(j)) for j in range(t)])
    return np.asarray(before[lead] + tail)


def _primes_below(bound: int) -> list[int]:
    """Return the primes below a bound, by Eratosthenes' sieve.

    >>> _primes_below(14)
    [2, 3, 5, 7, 11, 13]
    """
    prime = np.ones(bound, dtype=np.bool_)
    prime[:2] = False
    for d in range(2, math.isqrt(bound) + 1):
        prime[d * d :: d] = False
    return [int(r) for r in np.flatnonzero(prime)]
