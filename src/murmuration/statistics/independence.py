"""Whether two attributes of a table are independent, and how far they are from it.

The cells r of a table are unbiased; their covariance is known from the law and the shares. With the
margins p and q of those who answered both, and s the share that did,

    d = r - (r 1)(1' r)/s,    dd = L dr,    L = (I - p 1') x (I - q 1')    (Kronecker's product),

so that L r = 0 where the attributes are independent. The covariance of two cells is that of noise,
c + d (f + f'), and of people who are drawn, -f f': L takes all of it but c away. So

    C = L Sigma L'
      = (g0 (PP' x QQ') + g1 s (P diag(p) P' x Q diag(q) Q') + c (P1 1'P' x Q1 1'Q'))/n,

g0 and g1 the noise and the sampling on the diagonal, at a cell of share 0 and beyond. Traces of
products of such sums are products of traces of the sides.

    test         |d|^2 times tr C / tr C^2 against chi-square with (tr C)^2 / tr C^2 degrees
    association  phi^2 = sum d^2 / (p q s^2), less what noise adds to it; V = sqrt(phi^2/(m - 1))
                 for the smaller side of m items (Cramer)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import chdtrc

from murmuration.exact.arrays import Floats
from murmuration.statistics.score import normal_quantile

RARE = 2.0
"""A row counts as if it had at least so many standard errors of its share."""


@dataclass(frozen=True)
class CellNoise:
    """What is known of the errors of cells, times the number of reports.

    quiet: the variance of a cell that nobody has
    slope: by how much it grows to that of a cell that everybody has
    constant, joint: c and d of the covariance of two cells, c + d (f + f')
    """

    quiet: float
    slope: float
    constant: float = 0.0
    joint: float = 0.0


@dataclass(frozen=True)
class Association:
    """How far two attributes are from independent, as Cramer's V: 0 to 1."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Dependence:
    """A table of those who answered both attributes.

    cells: unbiased shares, of all people
    rows, columns: the margins of those who answered both, none below 0, adding up to 1
    noise: of the cells
    n: reports

    >>> cells = np.array([[0.4, 0.1], [0.1, 0.4]])
    >>> found = Dependence(cells, np.full(2, 0.5), np.full(2, 0.5), CellNoise(3.7, 1.0), 10_000)
    >>> found.p_value < 1e-9, [round(end, 2) for end in (found.association().value,)]
    (True, [0.6])
    """

    cells: Floats
    rows: Floats
    columns: Floats
    noise: CellNoise
    n: int

    @cached_property
    def share(self) -> float:
        """The share that answered both."""
        return float(self.cells.sum())

    @cached_property
    def apart(self) -> Floats:
        """The cells less the product of their own margins."""
        product = np.outer(self.cells.sum(axis=1), self.cells.sum(axis=0))
        return np.asarray(self.cells - product / self.share)

    @cached_property
    def p_value(self) -> float:
        """How likely independent attributes would be so far apart, or further."""
        first, second = self._traces(np.ones(len(self.rows)), np.ones(len(self.columns)))
        if not second > 0 or not self.share > 0:
            return 1.0
        statistic = float(np.square(self.apart).sum()) * first / second
        return float(chdtrc(first**2 / second, statistic))

    def association(self, confidence: float = 0.95) -> Association:
        """Return Cramer's V with an interval; rows that hardly anybody has count less."""
        z, over = normal_quantile(confidence), min(len(self.rows), len(self.columns)) - 1
        if not self.share > 0:
            return Association(0.0, 0.0, 1.0)
        rows, columns = (self._weights(side) for side in (self.rows, self.columns))
        square = self.share**2
        weighed = self.apart * np.sqrt(np.outer(rows, columns))
        seen = float(np.square(weighed).sum()) / square
        first, second = (
            t / power
            for t, power in zip(self._traces(rows, columns), (square, square**2), strict=True)
        )
        beyond = seen - first
        along = self._along(rows, columns) / square
        middle, quiet = beyond + 2 * z**2 * along, 2 * second
        root = math.sqrt(max(middle**2 - beyond**2 + z**2 * quiet, 0.0))
        ends = [_root(end / over) for end in (beyond, middle - root, middle + root)]
        return Association(*ends)

    def _along(self, rows: Floats, columns: Floats) -> float:
        """Return the variance of the weighed cells in the direction in which they are apart."""
        deviation = self.apart * np.outer(rows, columns)
        length = float((self.apart * deviation).sum())
        if length <= 0:
            return 0.0
        sides = np.eye(len(rows)), np.eye(len(columns))
        total = 0.0
        for weight, left, right in self._terms(*sides):
            total += weight * float((deviation * (left @ deviation @ right)).sum())
        return max(total, 0.0) / length

    def _weights(self, margin: Floats) -> Floats:
        """Return 1/p; of rare items, 1 over what they can be told from 0."""
        other = max(1, self.cells.size // len(margin))
        quiet = other * (self.noise.quiet + (other - 1) * self.noise.constant)
        least = RARE * math.sqrt(max(quiet, 0.0) / self.n) / self.share
        return np.asarray(1 / np.maximum(margin, least))

    def _traces(self, rows: Floats, columns: Floats) -> tuple[float, float]:
        """Return tr WC and tr (WC)^2 for weights of rows and columns."""
        terms = list(self._terms(np.diag(np.sqrt(rows)), np.diag(np.sqrt(columns))))
        first = sum(weight * np.trace(left) * np.trace(right) for weight, left, right in terms)
        second = sum(
            one * other * np.sum(left * up.T) * np.sum(right * down.T)
            for one, left, right in terms
            for other, up, down in terms
        )
        return float(first), float(second)

    def _terms(self, left: Floats, right: Floats) -> list[tuple[float, Floats, Floats]]:
        """Return C as a sum of products of sides, each side between weights."""
        p, q, noise = self.rows, self.columns, self.noise
        sides = [left @ _centred(p), right @ _centred(q)]
        sloped = [side * np.sqrt(margin) for side, margin in zip(sides, (p, q), strict=True)]
        summed = [side.sum(axis=1, keepdims=True) for side in sides]
        rest = noise.slope + 1 - 2 * noise.joint
        weights = (noise.quiet - noise.constant, rest * self.share, noise.constant)
        kinds = zip(weights, (sides, sloped, summed), strict=True)
        return [(weight / self.n, a @ a.T, b @ b.T) for weight, (a, b) in kinds]


def _centred(margin: Floats) -> Floats:
    """Return I - p 1'."""
    return np.asarray(np.eye(len(margin)) - np.outer(margin, np.ones(len(margin))))


def _root(square: float) -> float:
    return math.sqrt(min(max(square, 0.0), 1.0))
