"""Confidence sequences: intervals that stay honest however often one looks.

A 95% interval is right in 95% of looks, if one looks once. Who watches a figure sharpen looks a
thousand times, and the truth is outside of some interval much more often. A confidence sequence is
a row of intervals that are *all* right, with probability 95%.

Report i is read as a number t_i that is the person's own x_i on average. Whatever these are,

    M_n(h) = exp(h sum_i (t_i - x_i) - sum_i psi(h, x_i)),   psi(h, x) = log E exp(h (t - x)),

is 1 on average, now and given all reports before: a martingale. So is a mixture of several h with
weights that add up to 1, and it reaches 2/alpha at any time at all with probability alpha/2 at most
(Ville). With psi(h, x) <= a(h) + b(h) x, the truth m_n = mean of x_1 .. x_n is, at all n, among the
m with

    sum_h w(h) exp(n (h (mean t - m) - a(h) - b(h) m)) < 2/alpha,

which is an interval, for h > 0 and for h < 0 in the same way. a and b are worked out from the law
itself, so nothing is assumed about the people, about their order, or that n is large; all that has
to be known of the reports is n and their mean. The weights favour the number of people that is
planned: there the interval is 1.5 to 1.8 times as wide as one for a single look, elsewhere a little
more. (Robbins 1970; Howard, Ramdas, McAuliffe, Sekhon 2021.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from murmuration.errors import ParameterError
from murmuration.exact.arrays import Floats, Ints

FEWEST, STEPS = 32, 32
"""The least h is for 2^STEPS times as many people as the largest."""
DEFAULTS = 5.5
"""About log(2/alpha w): h is best where n h^2 variance / 2 is that."""
LARGEST = 300.0
"""What h may make of a term, as a logarithm: no overflow."""
NEWTON = 6
"""Steps towards an end, all from outside: each one is valid already."""

Bounds = tuple[Floats, Floats]
"""a and b, for each h."""


@dataclass(frozen=True, eq=False)
class Terms:
    """What reports are read as, and how likely that is for people at some points.

    points: what is true of somebody, one for each row of the law
    law: the probability of each report, in rows
    values: what each report is read as; on average the point
    cells: rows at which a cell starts, and ends at the next: people in between mix the two

    >>> coin = Terms(np.array([0.0, 1.0]), np.array([[0.75, 0.25], [0.25, 0.75]]),
    ...              np.array([-0.5, 1.5]))
    >>> coin.variance
    0.75
    """

    points: Floats
    law: Floats
    values: Floats
    cells: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def asked(self, share: float) -> Terms:
        """Return the terms of all people where only a share of them, drawn at random, is asked.

        Not being asked is one more report, read as 0; answers count 1/share times.
        """
        if share == 1:
            return self
        law = np.column_stack([share * self.law, np.full(len(self.law), 1 - share)])
        return Terms(self.points, law, np.append(self.values / share, 0.0), self.cells)

    @property
    def variance(self) -> float:
        """About the largest variance: at the points, and in the middle of each cell."""
        squares, start = self.law @ self.values**2, self.cells
        middle = (self.points[start] + self.points[start + 1]) / 2 if len(start) else start
        between = (squares[start] + squares[start + 1]) / 2 - middle**2 if len(start) else start
        return float(max((squares - self.points**2).max(), between.max(initial=0)))

    def bounds(self, h: Floats) -> Bounds:
        """Return a and b with psi(h, x) <= a + b x, for people at any of the points or between.

        Where nobody is between two points, the line through both is the least bound on average.
        """
        apart = self.values - self.points[:, None]
        grown = np.array([(self.law * np.expm1(one * apart)).sum(axis=1) for one in h])
        psi = np.log1p(grown)
        if len(self.points) == 2 and not len(self.cells):
            slope = (psi[:, 1] - psi[:, 0]) / (self.points[1] - self.points[0])
            return psi[:, 0] - slope * self.points[0], slope
        most = np.maximum(psi.max(axis=1), self._between(h, psi).max(axis=1, initial=0.0))
        return most, np.zeros(len(h))

    def _between(self, h: Floats, psi: Floats) -> Floats:
        """Return the largest psi inside each cell.

        With u = x - start, E exp(h (t - start)) is a line g + s u, and log(g + s u) - h u is
        largest where g + s u = s/h.
        """
        start, end = self.cells, self.cells + 1
        width, rate = self.points[end] - self.points[start], h[:, None]
        first = np.exp(psi[:, start])
        slope = (np.exp(psi[:, end] + rate * width) - first) / width
        with np.errstate(divide="ignore", invalid="ignore"):
            top = np.nan_to_num(1 / rate - first / slope)
        inside = np.clip(top, 0.0, width)
        return np.asarray(np.log(first + slope * inside) - rate * inside)


@dataclass(frozen=True, eq=False)
class ConfidenceSequence:
    """The intervals of a running mean, over all looks.

    groups: the terms of each group of reports (of a level, say)
    people: the number of reports at which the intervals should be narrowest

    >>> coin = Terms(np.array([0.0, 1.0]), np.array([[0.75, 0.25], [0.25, 0.75]]),
    ...              np.array([-0.5, 1.5]))
    >>> low, high = ConfidenceSequence((coin,), 10_000).interval(0.5, [10_000])
    >>> round(float(low), 3), round(float(high), 3)  # for one look: 0.483 to 0.517
    (0.474, 0.526)
    """

    groups: tuple[Terms, ...]
    people: int

    @cached_property
    def _rates(self) -> Floats:
        """The h > 0: each for twice as many people as the one before."""
        variance = max(terms.variance for terms in self.groups)
        furthest = max(float(np.abs(terms.values).max()) + 1.0 for terms in self.groups)
        largest = math.sqrt(2 * DEFAULTS / (FEWEST * max(variance, 1e-12)))
        return min(largest, LARGEST / furthest) * 2.0 ** (-np.arange(STEPS + 1) / 2)

    @cached_property
    def _weights(self) -> Floats:
        """The logarithms of the weights: most near the planned number of people."""
        best = math.log2(max(self.people, FEWEST) / FEWEST)
        near = 1 / (1 + ((np.arange(STEPS + 1) - best) / 1.5) ** 2)
        return np.asarray(np.log(near / near.sum()))

    @cached_property
    def _bounds(self) -> tuple[list[Bounds], list[Bounds]]:
        """A and b of each group, for h > 0 and for h < 0."""
        up = [terms.bounds(self._rates) for terms in self.groups]
        return up, [terms.bounds(-self._rates) for terms in self.groups]

    def interval(
        self, value: Any, counts: Sequence[int], confidence: float = 0.95
    ) -> tuple[Any, Any]:
        """Return the ends at this look, from the mean of all terms and how many each group has.

        `value` may be an array: one for each of several figures with the same terms.
        """
        if not 0 < confidence < 1:
            raise ParameterError(f"a confidence level is between 0 and 1; got {confidence!r}")
        up, down = self._bounds
        below = self._least(np.asarray(value, dtype=np.float64), up, counts, confidence)
        above = -self._least(
            -np.asarray(value, dtype=np.float64), _mirrored(down), counts, confidence
        )
        return below, above

    def _least(
        self, value: Floats, bounds: Sequence[Bounds], counts: Sequence[int], confidence: float
    ) -> Floats:
        """Return the least m: from the best single h on, which is outside, by Newton's steps.

        The logarithm of the sum is convex in m, so a step from outside does not go too far.
        """
        n = sum(counts)
        a = sum(count * one for count, (one, _) in zip(counts, bounds, strict=True))
        b = sum(count * one for count, (_, one) in zip(counts, bounds, strict=True))
        wanted = math.log(2 / (1 - confidence))
        slope = n * self._rates + b
        head = self._weights + n * self._rates * value[..., None] - a
        m = ((head - wanted) / slope).max(axis=-1)
        for _ in range(NEWTON):
            parts = head - slope * m[..., None]
            top = parts.max(axis=-1, keepdims=True)
            share = np.exp(parts - top)
            total = share.sum(axis=-1)
            reached = top[..., 0] + np.log(total) - wanted
            m = m + np.maximum(reached, 0.0) * total / (share * slope).sum(axis=-1)
        return np.asarray(m)


def _mirrored(bounds: Sequence[Bounds]) -> list[Bounds]:
    """Return the bounds for -m in place of m."""
    return [(a, -b) for a, b in bounds]
