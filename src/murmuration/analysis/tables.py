"""What an analyst asks of a table of two attributes, beside its cells.

    association      Cramer's V with an interval, and the test of independence (every table)
    given            shares of one attribute among those with each item of the other, with intervals
    smoothed         the table that is nearest to the truth on average: shrunk towards independence.
                     It has a bias, and no interval

All are about those who answered both attributes, but for the smoothed table, in which "no answer"
is a row or a column.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from murmuration.analysis.margins import Margin, shares_of, side_margins
from murmuration.analysis.postprocess import nearest_histogram
from murmuration.campaign.question import Question
from murmuration.campaign.survey import SurveyCampaign
from murmuration.campaign.table import Sides
from murmuration.errors import ParameterError
from murmuration.exact.arrays import Floats
from murmuration.mechanisms.tally import Tally
from murmuration.results.estimate import About, FrequencyEstimate
from murmuration.results.figure import Figure
from murmuration.statistics.independence import CellNoise, Dependence
from murmuration.statistics.quotient import quotient
from murmuration.statistics.score import normal_quantile

CELLS, ROWS, COLUMNS, SMOOTHED = "cells", "rows", "columns", "smoothed"
VIEWS = (CELLS, ROWS, COLUMNS, SMOOTHED)
"""What is shown of tables: their cells, shares within each row or column, or the smoothed cells."""
ASSOCIATION = "association (V)"
BIASED = "smoothed towards independence: it has a bias, and no interval"
AMONG = "among those who answered both"
UNBOUNDED = "too few have it to bound this: read nothing into the value"


def checked_view(view: str) -> str:
    """Return a name of what is shown of tables, or say which there are."""
    if view not in VIEWS:
        raise ParameterError(f"tables are shown as {', '.join(VIEWS)}; got {view!r}")
    return view


@dataclass(frozen=True, eq=False)
class ReadTable:
    """A table and its tally.

    everybody: how many took part in all; those who were asked this stand for them
    margins: all that was asked about the rows, and about the columns
    """

    question: Question
    sides: Sides
    tally: Tally
    about: About
    everybody: int
    margins: tuple[Sequence[Margin], Sequence[Margin]]

    @classmethod
    def of(
        cls,
        campaign: SurveyCampaign,
        question: Question,
        groups: Sequence[Sequence[Tally]],
        about: str,
        everybody: int,
    ) -> ReadTable:
        """Return a table of a campaign; `groups` are the tallies of each of its questions."""
        sides, place = campaign.tables[question], campaign.questions.index(question)
        rows, columns = (
            side_margins(campaign, side, groups) for side in (sides.rows, sides.columns)
        )
        tally, subject = groups[place][0], About.parse(about)
        return cls(question, sides, tally, subject, everybody, (rows, columns))

    # --- what it says ---

    @cached_property
    def estimate(self) -> FrequencyEstimate:
        """The cells, one after the other."""
        return shares_of(self.tally, self.about, self.everybody)

    @cached_property
    def cells(self) -> Floats:
        """The cells as a table."""
        return self.estimate.value.reshape(self.sides.shape)

    @cached_property
    def answered(self) -> Floats:
        """The cells of those who answered both."""
        return self.cells[: self.sides.rows.answered, : self.sides.columns.answered]

    @cached_property
    def noise(self) -> CellNoise:
        """What is known of the errors of the cells."""
        law = self.tally.mechanism
        quiet, most = law.variance([0.0, 1.0]).tolist()
        constant = float(law.noise_covariance(0.0, 0.0))
        joint = float(law.noise_covariance(1.0, 0.0)) - constant
        return CellNoise(quiet, most - quiet, constant, joint)

    @cached_property
    def dependence(self) -> Dependence:
        """The table as a test of independence has it."""
        share = float(self.answered.sum())
        sums = self.answered.sum(axis=1), self.answered.sum(axis=0)
        rows, columns = (nearest_histogram(one / share if share > 0 else one) for one in sums)
        return Dependence(self.answered, rows, columns, self.noise, self.tally.n)

    # --- as figures ---

    def association(self, confidence: float) -> Figure:
        """Return the association, with the test in its note."""
        found, p = self.dependence.association(confidence), self.dependence.p_value
        told = "not independent" if p < 1 - confidence else "no dependence is shown"
        note = f"0 is independent; test of independence: p = {p:.2g}, {told}"
        ends = (found.value, None, found.low, found.high)
        return Figure(
            *(self.question.name, ASSOCIATION, *ends, self.tally.n, self.estimate.epsilon),
            note=note,
        )

    def figures(self, view: str, confidence: float) -> list[Figure]:
        """Return what is shown of the table instead of its cells."""
        if view == SMOOTHED:
            return list(self._smoothed())
        return list(self._given(view, confidence))

    def _given(self, view: str, confidence: float) -> Iterator[Figure]:
        """Yield shares within each row, or within each column, among those who answered both."""
        rows = view == ROWS
        inside, outside = self.sides.columns, self.sides.rows
        table, likely = self.answered, self._likely
        if not rows:
            inside, outside, table, likely = outside, inside, table.T, likely.T
        low, high = (self._ends(end, rows) for end in self.estimate.interval(confidence))
        for place, given in enumerate(outside.labels[: outside.answered]):
            whole = float(table[place].sum())
            square, together = self._errors(likely[place])
            reach = normal_quantile(confidence) * math.sqrt(square)
            own = table[place] - low[place], high[place] - table[place]
            spread = np.sqrt(np.maximum(self._squares(likely[place]) * square, 1e-300))
            least, most = quotient(
                *(table[place], whole, own, (reach, reach)),
                np.clip(together / spread, -1, 1),
            )
            for item, label in enumerate(inside.labels[: inside.answered]):
                value = float(table[place, item] / whole) if whole > 0 else 0.0
                ends = (float(least[item]), float(most[item]))
                error = None
                if all(map(math.isfinite, ends)):
                    part = float(self._squares(likely[place])[item]) + value**2 * square
                    error = math.sqrt(max(part - 2 * value * together[item], 0.0)) / abs(whole)
                name = f"{label} given {given}"
                yield self._share(name, value, error, ends)

    def _share(
        self, item: str, value: float, error: float | None, ends: tuple[float, float]
    ) -> Figure:
        low, high = ends if error is not None else (None, None)
        return Figure(
            *(self.question.name, item, value, error, low, high),
            *(self.tally.n, self.estimate.epsilon, "share"),
            note=AMONG if error is not None else f"{AMONG}; {UNBOUNDED}",
        )

    @cached_property
    def _likely(self) -> Floats:
        """Shares of cells from 0 to 1, for their errors."""
        n = self.tally.n
        return np.asarray((n * np.clip(self.answered, 0, 1) + 2) / (n + 4))

    def _ends(self, ends: Floats, rows: bool) -> Floats:
        table = ends.reshape(self.sides.shape)
        table = table[: self.sides.rows.answered, : self.sides.columns.answered]
        return table if rows else table.T

    @property
    def _unseen(self) -> float:
        return self.about.unseen(self.tally.n, self.everybody)

    def _squares(self, cells: Floats) -> Floats:
        """Return the squared errors of cells with these shares."""
        own = self.noise.quiet + self.noise.slope * cells + self._unseen * cells * (1 - cells)
        return np.asarray(own / self.tally.n)

    def _errors(self, cells: Floats) -> tuple[float, Floats]:
        """Return the squared error of a sum of cells, and the covariance of each with the sum."""
        noise, k, total = self.noise, len(cells), float(cells.sum())
        others = (k - 1) * (noise.constant + noise.joint * cells) + noise.joint * (total - cells)
        others -= self._unseen * cells * (total - cells)
        together = self._squares(cells) + others / self.tally.n
        return max(float(together.sum()), 0.0), together

    # --- smoothed ---

    def _smoothed(self) -> Iterator[Figure]:
        head = (self.tally.n, self.estimate.epsilon, "share", BIASED)
        for label, value in zip(self.sides.labels, self.smoothed.ravel().tolist(), strict=True):
            yield Figure(self.question.name, label, value, None, None, None, *head)

    @cached_property
    def smoothed(self) -> Floats:
        """The table shrunk towards the product of its margins.

        Shift it to the margins that all that was asked gives; what is beyond their product has the
        size tau of its noise's excess, spread as the product is; of that, singular values are kept
        as far as they stand out of noise (Gavish, Donoho 2017).
        """
        rows, columns = (_shares(side) for side in self.margins)
        product, (k, m) = np.outer(rows, columns), self.sides.shape
        short, wide = rows - self.cells.sum(axis=1), columns - self.cells.sum(axis=0)
        shifted = self.cells + short[:, None] / m + wide / k - short.sum() / (k * m)
        apart, noise = shifted - product, self.noise.quiet / self.tally.n
        excess = max(0.0, float(np.square(apart).sum()) - (k - 1) * (m - 1) * noise)
        weights = np.sqrt(excess * product / (excess * product + noise))
        kept = _stood_out(apart * weights, noise * float(np.square(weights).mean()))
        return nearest_histogram((product + kept * weights).ravel()).reshape(k, m)


def _shares(margins: Sequence[Margin]) -> Floats:
    """Return the shares of a side, as the nearest histogram."""
    weights = np.array([1 / margin.error() for margin in margins])
    sums = np.array([margin.shares for margin in margins])
    return nearest_histogram(weights @ sums / weights.sum())


def _stood_out(table: Floats, noise: float) -> Floats:
    """Return a table whose singular values are shrunk by what noise of this size makes of them."""
    if noise <= 0:
        return np.zeros_like(table)
    small, large = sorted(side - 1 for side in table.shape)
    left, values, right = np.linalg.svd(table, full_matrices=False)
    unit, beta = math.sqrt(noise * large), small / large
    y = values / unit
    inside = np.maximum(np.square(np.square(y) - beta - 1) - 4 * beta, 0.0)
    kept = np.where(y > 1 + math.sqrt(beta), np.sqrt(inside) / np.maximum(y, 1e-300), 0.0)
    return np.asarray((left * (unit * kept)) @ right)
