"""HierA's gradients, as published: one coordinate, by the privacy grade of a chosen attribute.

The grade is that of the person's attribute, not of the gradient: the device looks up the range of
the attribute, sends the grade through randomised response and one bit about one coordinate of
the gradient with the sent grade's budget, as `hiera` does for a value. The exact loss of that pair
exceeds what the paper claims; it is here to be compared with.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from murmuration.errors import FormatError, ParameterError
from murmuration.exact.arrays import Bits, Floats, Ints, Reports
from murmuration.exact.grid import Grid, fixed_point
from murmuration.exact.loss import PairwiseLoss, pairwise_loss
from murmuration.exact.randomness import Rng, uniform
from murmuration.exact.table import Table
from murmuration.mechanisms.domain import Values
from murmuration.mechanisms.graded.base import (
    Matrix,
    checked_budgets,
    checked_edges,
    pairwise_budgets,
)
from murmuration.mechanisms.graded.hiera import pair_law
from murmuration.mechanisms.packing import RowReports, integer_rows, row_integers
from murmuration.mechanisms.tally import Tally
from murmuration.mechanisms.trial import ChanceTrial, Trial
from murmuration.mechanisms.vector.base import TupleMechanism
from murmuration.results.estimate import Estimate, TupleEstimate


@dataclass(frozen=True)
class HieraGradient(TupleMechanism, RowReports):
    """A gradient of d coordinates in [-1, 1], graded by an attribute in front of it: d+1 columns.

    P(grade g, bit s | attribute in range t, coordinate v) = G(g|t) (1 + s c_g v) / 2 as in hiera,
    with v anywhere in [-1, 1] whatever the grade. A report is the coordinate's number (2 bytes)
    and 2g + bit; (g, s) is worth s d / c_g for its coordinate.
    """

    name: ClassVar[str] = "hiera-gradient"
    paper: ClassVar[str] = "Hao, Wu, Wan 2023, section 5 (as published)"
    summary: ClassVar[str] = "one coordinate of a gradient, graded by an attribute"
    keeps_promise: ClassVar[bool] = False

    budgets: tuple[float, ...] = ()
    edges: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "budgets", checked_budgets(self.budgets))
        object.__setattr__(self, "edges", checked_edges(self.edges, len(self.budgets)))

    @property
    def k(self) -> int:
        """How many grades there are."""
        return len(self.budgets)

    @property
    def coordinates(self) -> int:
        """How many coordinates the gradient has: all columns but the first."""
        return len(self.attributes) - 1

    @cached_property
    def table(self) -> Table:
        """Two rows a grade, for v = -1 and v = 1; a column for each (grade, bit)."""
        budgets, ends = [Fraction(budget) for budget in self.budgets], (Fraction(-1), Fraction(1))
        return Table(np.array([pair_law(budgets, t, v) for t in range(self.k) for v in ends]))

    @cached_property
    def values(self) -> Floats:
        """What (grade, bit) is worth for its coordinate: +-d/c."""
        slopes = np.tanh(np.array(self.budgets) / 2)
        return np.asarray(np.tile([-1.0, 1.0], self.k) * self.coordinates / np.repeat(slopes, 2))

    # --- device ---

    def respond(self, columns: Values, rng: Rng) -> Reports:
        """Draw a coordinate, in public, look up the grade, draw the pair of grade and bit."""
        rows = np.stack(columns, axis=1).astype(np.float64)
        n = len(rows)
        place = uniform(rng.public(), n, self.coordinates)
        inner = fixed_point(np.array(self.edges[1:-1]))
        grade = np.searchsorted(inner, fixed_point(np.ascontiguousarray(rows[:, 0])), side="right")
        end = Grid(1).round(rows[np.arange(n), place + 1], rng.words(n))
        symbol = self.table.draw(2 * grade + end, rng.words(n))
        return np.hstack([integer_rows(place, 2), symbol[:, None]])

    # --- collector ---

    @property
    def report_bytes(self) -> int:
        """The coordinate and the pair."""
        return 3

    @property
    def counters(self) -> int:
        """One for each coordinate and pair."""
        return self.coordinates * 2 * self.k

    def possible(self, reports: Reports) -> Bits:
        """Coordinate and pair have their ranges."""
        place, symbol = self._fields(reports)
        return np.asarray((place < self.coordinates) & (symbol < 2 * self.k))

    def complaint(self, reports: Reports, bad: int) -> str:
        """Coordinate and pair have their ranges."""
        del reports
        return f"report {bad} is outside the alphabet of {self.name}"

    def _fields(self, reports: Reports) -> tuple[Ints, Ints]:
        rows = self.to_rows(reports)
        return row_integers(rows[:, :2]).astype(np.int64), rows[:, 2].astype(np.int64)

    def count(self, reports: Reports) -> Ints:
        """Count pairs by coordinate."""
        place, symbol = self._fields(reports)
        return np.bincount(place * 2 * self.k + symbol, minlength=self.counters)

    def checked_counts(self, counts: Ints, n: int) -> Ints:
        """Everybody is counted once."""
        if int(counts.sum()) != n:
            raise FormatError(f"{n} people cannot have sent {int(counts.sum())} reports")
        return counts

    # --- analyst, auditor, planner ---

    def mean_vector(self, tally: Tally) -> Floats:
        """Return the mean gradient: sum of the pairs' values / n, coordinate by coordinate."""
        n = self.answered(tally)
        return np.asarray(tally.counts.reshape(self.coordinates, -1) @ self.values / n)

    def estimate(
        self, tally: Tally, about: str = "participants", everybody: int | None = None
    ) -> TupleEstimate:
        """Return each coordinate's mean; its error bar is the worst case."""
        del everybody
        n, subject = self.subject(tally, about)
        stderr = float(np.sqrt(self.worst_variance() / n))
        parts = tuple(
            Estimate(float(mean), stderr, tally.n, self.budget, subject, self.caveat)
            for mean in self.mean_vector(tally)
        )
        return TupleEstimate(parts, tally.n, self.budget, subject)

    @property
    def pairwise(self) -> Matrix:
        """What is claimed: the larger of two budgets."""
        return pairwise_budgets(self.budgets, "max")

    def exact_loss(self) -> PairwiseLoss:
        """Return the exact loss between and inside grades; the coordinate tells nothing."""
        points = np.tile([-1.0, 1.0], self.k)
        rows = [np.array([2 * t, 2 * t + 1]) for t in range(self.k)]
        return pairwise_loss(self.table, points, rows, self.pairwise)

    def trials(self) -> Iterator[Trial]:
        """Every pair, for people in the middle of each range with coordinates at both ends."""
        middles = [(low + high) / 2 for low, high in pairwise(self.edges)]
        for row, chances in enumerate(self.table.probabilities):
            grade, end = divmod(row, 2)
            answer = (middles[grade], *((2.0 * end - 1,) * self.coordinates))
            yield ChanceTrial(self, answer, self._pairs, chances, "every grade and bit")

    def _pairs(self, reports: Reports) -> Ints:
        return np.bincount(self._fields(reports)[1], minlength=2 * self.k)

    def variance(self, x: ArrayLike) -> Floats:
        """Return n Var of a coordinate at x for the grade that has the most noise."""
        second = float((self.table.probabilities @ self.values**2).max()) / self.coordinates
        return np.asarray(second - np.square(np.asarray(x, dtype=np.float64)))

    def worst_variance(self) -> float:
        """Return the largest n Var of a coordinate's mean."""
        return float(self.variance(0.0))

    def public_part(self, report: Reports) -> list[int]:
        """Which two columns."""
        return [int(number) for number in np.ravel(report[:, :2])]

    def law(self) -> dict[str, Any]:
        """The weights, two rows a grade, the grades' edges in fixed point, and the coordinates."""
        return {
            "weights": self.table.weights.tolist(),
            "edges": fixed_point(np.array(self.edges)).tolist(),
            "coordinates": self.coordinates,
        }


@dataclass(frozen=True)
class ByAttribute:
    """How HierA's gradients are graded: budgets in units of epsilon, by one feature's range.

    Edges are in [-1, 1], where features are once they are scaled from their bounds.

    >>> graded = ByAttribute(attribute=0, grades=(2.0, 1.0), edges=(0.0,)).mechanism(0.5, 3)
    >>> graded.budgets, graded.loss().holds
    ((1.0, 0.5), False)
    """

    attribute: int
    grades: tuple[float, ...]
    edges: tuple[float, ...]

    def mechanism(self, epsilon: float, d: int) -> HieraGradient:
        """Return the mechanism for gradients of d coordinates."""
        if not isinstance(self.attribute, int) or isinstance(self.attribute, bool):
            raise ParameterError(f"attribute is a feature's number; got {self.attribute!r}")
        try:
            budgets = tuple(float(grade) * epsilon for grade in self.grades)
        except (TypeError, ValueError):
            raise ParameterError(f"grades are numbers, one a range; got {self.grades!r}") from None
        if not budgets:
            raise ParameterError("there is at least one range, with a grade")
        return HieraGradient(epsilon=max(budgets), d=d + 1, budgets=budgets, edges=self.edges)
