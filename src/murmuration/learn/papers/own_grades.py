"""Gradients whose components are graded each by its own attribute: HierA's and graded Laplace.

Component j of a gradient has the grade of x_j's range (that of the constant: the range of 1). A
person is asked about one component, drawn at random. These are the HierA paper's experiments: what
is sent with a grade costs more than the grade's budget (`mechanisms.graded.hiera`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from murmuration.exact.arrays import Floats, Ints
from murmuration.exact.grid import Grid, fixed_point
from murmuration.exact.randomness import Rng
from murmuration.exact.table import Table
from murmuration.learn.papers.side_by_side import Sender, drawn_coordinates, summed
from murmuration.mechanisms.graded.hiera import pair_law
from murmuration.mechanisms.number.base import NumericMechanism
from murmuration.mechanisms.registry import numeric_mechanism

Drawn = tuple[Ints, Floats, Ints]
"""For each person: which component, its value, its grade."""


@dataclass(frozen=True)
class Graded(Sender):
    """One component each, with the budget of its attribute's range, the lowest range first."""

    budgets: tuple[float, ...]
    edges: tuple[float, ...]
    """The inner edges of the ranges."""

    def drawn(self, slopes: Floats, x: Floats, rng: Rng) -> Drawn:
        """Draw components, and look up the grade of each."""
        place, values = drawn_coordinates(slopes, x, rng)
        own = np.ascontiguousarray(x[np.arange(len(x)), place])
        inner = fixed_point(np.array(self.edges))
        return place, values, np.searchsorted(inner, fixed_point(own), side="right")


@dataclass(frozen=True)
class GradedLaplace(Graded):
    """The value with Laplace noise of scale 2/budget; the grade is not sent."""

    @cached_property
    def laws(self) -> Sequence[NumericMechanism]:
        """The noise of each grade."""
        return [numeric_mechanism("laplace", epsilon=budget) for budget in self.budgets]

    def means(self, slopes: Floats, x: Floats, runs: int, rng: Rng) -> Floats:
        """Randomise grade by grade; each answer stands for all components."""
        place, values, grade = self.drawn(slopes, x, rng)
        worth = np.zeros(len(x))
        for number, law in enumerate(self.laws):
            who = np.flatnonzero(grade == number)
            if len(who):
                worth[who] = law.read_each(law.respond(values[who], rng))
        return np.asarray(summed(worth, place, runs, x.shape[1]) * (x.shape[1] * runs / len(x)))


@dataclass(frozen=True)
class HieraComponents(Graded):
    """HierA: a randomised grade and a bit with that grade's budget; read by Algorithm 5.

    `mu` is how often a bit is used, `clip` whether sums are cut to what honest bits can be.

    >>> from murmuration import seeded_rng
    >>> sender = HieraComponents((4.0, 2.0), (0.0,), mu=1, clip=False)
    >>> x, slopes = np.full((40_000, 1), 0.5), np.full(40_000, 0.8)
    >>> bool(abs(sender.means(slopes, x, 1, seeded_rng(1))[0, 0] - 0.4) < 0.03)
    True
    """

    mu: int = 2
    clip: bool = True

    @cached_property
    def table(self) -> Table:
        """Two rows a grade, for -1 and 1; a column for each (grade, bit)."""
        budgets, ends = [Fraction(one) for one in self.budgets], (Fraction(-1), Fraction(1))
        rows = [pair_law(budgets, t, end) for t in range(len(budgets)) for end in ends]
        return Table(np.array(rows))

    @cached_property
    def slopes(self) -> Floats:
        """How much of a value is left in the bit of each grade."""
        return np.tanh(np.array(self.budgets) / 2)

    def means(self, slopes: Floats, x: Floats, runs: int, rng: Rng) -> Floats:
        """Randomise, count by component and grade, and read each component by itself."""
        place, values, grade = self.drawn(slopes, x, rng)
        n, d, k = len(x), x.shape[1], len(self.budgets)
        end = Grid(1).round(values, rng.words(n))
        symbol = self.table.draw(2 * grade + end, rng.words(n)).astype(np.int64)
        run = np.repeat(np.arange(runs), n // runs)
        cell = (run * d + place) * 2 * k + symbol
        bits = np.bincount(cell, minlength=runs * d * 2 * k).reshape(runs * d, k, 2)
        draw = np.random.default_rng(rng.words(2).tolist())
        return self._read(bits, draw).reshape(runs, d)

    def _read(self, bits: Ints, draw: np.random.Generator) -> Floats:
        """Convert, copy, clip and add, as `Hiera.aggregate` does; a row for each component."""
        order = np.argsort(-np.array(self.budgets), kind="stable")
        bits, c = bits[:, order], self.slopes[order]
        keep, k, merged = (1 + c) / 2, len(c), np.zeros(bits.shape)
        for i in range(k):
            merged[:, i] += bits[:, i] * max(1, self.mu - k + i + 1)
            for j in range(i + 1, min(k, i + self.mu)):
                q = (keep[i] + keep[j] - 1) / (2 * keep[i] - 1)
                stay = draw.binomial(bits[:, i], q)
                merged[:, j] += stay + (bits[:, i] - stay)[:, ::-1]
        counts = merged.sum(axis=2)
        sums = (merged[:, :, 1] - merged[:, :, 0]) / c
        sums = np.clip(sums, -counts, counts) if self.clip else sums
        return np.asarray(sums.sum(axis=1) / np.maximum(counts.sum(axis=1), 1))
