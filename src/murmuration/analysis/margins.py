"""The shares of a category from all that was asked about it: by itself, and in tables.

Each tally reads the shares without bias: its own, and the sums of a table's rows or columns. They
are of different people, drawn at random. Least squares weighs them by one over their variance for
a flat histogram, which is known before anybody has answered: so the sum has no bias.

With b + (a-b) f the noise of a cell of share f (times n), and c + d (f + f') the covariance of two,
the sum of m cells with share F in all has

    noise       m b + m (m-1) c + ((a-b) + 2 (m-1) d) F
    covariance  m^2 c + m d (F + F')      with the sum of m other cells

both known from the law; a tally of its own is m = 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from murmuration.analysis import answered
from murmuration.analysis.combine import shape_in_a_sum
from murmuration.campaign.question import Question
from murmuration.campaign.survey import SurveyCampaign
from murmuration.campaign.table import Side
from murmuration.errors import MismatchError
from murmuration.exact.arrays import Floats
from murmuration.mechanisms.base import Mechanism
from murmuration.mechanisms.tally import Tally
from murmuration.results.estimate import About, AnsweredEstimate, FrequencyEstimate
from murmuration.statistics.liars import Piece, Reach
from murmuration.statistics.score import Shape, SumScore


@dataclass(frozen=True, eq=False)
class Margin:
    """What one tally says of the shares of a category.

    tally: of the category itself, or of a table
    cells: how many cells are added up for each share; 1 for a tally of its own
    shares: the sums
    shape: how far intervals of a tally of its own reach; sums of cells have normal ones
    """

    tally: Tally
    cells: int
    shares: Floats
    shape: Shape | None = None

    @classmethod
    def of(cls, tally: Tally, place: int | None, shape: tuple[int, int]) -> Margin:
        """Return a side of a table: 0 for its rows; None for a tally of its own."""
        found = shares_of(tally)
        if place is None:
            return cls(tally, 1, found.value, shape_in_a_sum(found))
        cells = found.value.reshape(shape)
        return cls(tally, shape[1 - place], cells.sum(axis=1 - place))

    @property
    def n(self) -> int:
        """The reports."""
        return self.tally.n

    @property
    def law(self) -> Mechanism:
        """The law of the tally."""
        return self.tally.mechanism

    @cached_property
    def _pairs(self) -> tuple[float, float]:
        """Covariance of two cells, times n: c, and d of c + d (f + f')."""
        constant = float(self.law.noise_covariance(0.0, 0.0))
        return constant, float(self.law.noise_covariance(1.0, 0.0)) - constant

    def noise(self, shares: Floats) -> Floats:
        """Return n times the variance of the noise of shares."""
        quiet, slope = self.law.sum_noise(self.cells)
        return np.asarray(np.maximum(quiet + slope * shares, 0.0))

    def covariance(self, shares: Floats, other: float) -> Floats:
        """Return n times the covariance of the noise of shares with that of another one."""
        constant, slope = self._pairs
        return np.asarray(self.cells**2 * constant + self.cells * slope * (shares + other))

    def error(self) -> float:
        """Return the squared error of a share of a flat histogram, about a population."""
        flat = 1 / len(self.shares)
        noise = self.noise(np.array([flat]))
        return float(noise[0] + flat * (1 - flat)) / self.n

    @property
    def reach(self) -> Reach:
        """What one report adds to a share, read as such."""
        return self.law.sum_reach(self.cells)


def shares_of(
    tally: Tally, about: str = "participants", everybody: int | None = None
) -> FrequencyEstimate:
    """Return the shares of items that a tally gives."""
    found = tally.mechanism.estimate(tally, about, everybody)
    if not isinstance(found, FrequencyEstimate):
        raise MismatchError(f"{tally.mechanism.name} is not for items")
    return found


def margins_of(
    campaign: SurveyCampaign, question: Question, groups: Sequence[Sequence[Tally]]
) -> list[Margin]:
    """Return all that was asked about a category; nothing for numbers, and for what is in no table.

    `groups` are the tallies of each question of the campaign.
    """
    if question.has_range or question.derived:
        return []
    if not any(question.name in one.of for one in campaign.tables):
        return []
    return side_margins(campaign, Side(question), groups)


def side_margins(
    campaign: SurveyCampaign, side: Side, groups: Sequence[Sequence[Tally]]
) -> list[Margin]:
    """Return all that was asked about a side of tables: of a number, all tables that cut it so."""
    places = {one.name: place for place, one in enumerate(campaign.questions)}
    found = []
    own = groups[places[side.question.name]][0]
    if own.n and not side.question.has_range:
        found.append(Margin.of(own, None, (0, 0)))
    for one, sides in campaign.tables.items():
        tally = groups[places[one.name]][0]
        for place, other in enumerate((sides.rows, sides.columns)):
            if other == side and tally.n:
                found.append(Margin.of(tally, place, sides.shape))
    return found


def together(
    question: Question, margins: Sequence[Margin], about: str, everybody: int
) -> FrequencyEstimate | AnsweredEstimate:
    """ANALYST. Return the shares of a category by least squares over all that was asked."""
    subject, n = About.parse(about), sum(margin.n for margin in margins)
    weights = np.array([1 / margin.error() for margin in margins])
    weights /= weights.sum()
    value = np.sum([w * m.shares for w, m in zip(weights, margins, strict=True)], axis=0)
    likely = (n * np.clip(value, 0, 1) + 2) / (n + 4)
    spread = likely * (1 - likely)
    parts = [w**2 * (m.noise(likely) + spread) / m.n for w, m in zip(weights, margins, strict=True)]
    # People of different tallies are different ones: together they lack less of everybody.
    known = 0.0 if subject is About.POPULATION else 1 / max(everybody, n)
    squares = np.array(parts)
    rest = -spread * known
    stderr = np.sqrt(np.maximum(squares.sum(axis=0) + rest, 0.0))
    quiet = [
        w**2 * float(m.noise(np.zeros(1))[0]) / m.n for w, m in zip(weights, margins, strict=True)
    ]
    shape = SumScore(tuple(m.shape for m in margins), squares, rest)
    found = FrequencyEstimate(
        *(value, stderr, n, max(m.law.budget for m in margins), subject),
        noise=float(np.sqrt(sum(quiet))),
        note=_note(margins),
        shape=shape,
        pieces=tuple(Piece(m.reach, float(w), m.n) for w, m in zip(weights, margins, strict=True)),
    )
    if not question.missing:
        return found
    none = float(likely[-1])
    noise = np.sum(
        [
            w**2 * m.covariance(likely[:-1], none) / m.n
            for w, m in zip(weights, margins, strict=True)
        ],
        axis=0,
    )
    drawn = sum(w**2 / m.n for w, m in zip(weights, margins, strict=True)) - known
    return answered.of_shares(found, noise - drawn * likely[:-1] * none)


def _note(margins: Sequence[Margin]) -> str:
    tables = sum(margin.cells > 1 for margin in margins)
    own = "own answers and " if tables < len(margins) else ""
    return f"by least squares from {own}{tables} table{'s' * (tables != 1)}"
