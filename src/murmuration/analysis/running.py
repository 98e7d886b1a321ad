"""Running figures: for whoever watches a collection, with intervals over all looks.

What `read` works out is for one look. Here the same tallies become confidence sequences
(`statistics.sequence`), for the live view only:

whom it is about   all who sent a report. Where each person is asked some attributes, not being
                   asked is one more report, so the value is that of all reports and may differ a
                   little from the figure's own. Where people choose levels it is about those who
                   were asked: at which level the others would have answered is not known.
missing answers    the mean, or a share, of those who answered is a quotient; both parts have a
                   sequence at half of what may go wrong
none               where all attributes are in one report, or questions are asked again
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import msgspec
import numpy as np

from murmuration.campaign.question import ANSWERED, Question
from murmuration.campaign.review import shares_of
from murmuration.campaign.survey import SurveyCampaign
from murmuration.exact.arrays import Floats
from murmuration.mechanisms.tally import Tally
from murmuration.statistics.sequence import ConfidenceSequence, Terms

ABOUT_ALL = "about all who sent a report"
ABOUT_ASKED = "about those who were asked this"
TOGETHER = "none: all attributes are answered together, by one mechanism"
AGAIN = "none: a person answers several times, and these answers depend on each other"
OTHERWISE = "none: reports by this mechanism are not read one by one"


class Running(msgspec.Struct, frozen=True):
    """A running figure with the ends of its confidence sequence, in the attribute's units."""

    n: int
    """Reports behind it."""
    value: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Interval:
    """Means of terms and their ends: one for each label of a category."""

    value: Floats
    low: Floats
    high: Floats


class RunningFigures:
    """The running figures of a campaign: laws are looked at once, tallies as often as one likes."""

    def __init__(self, campaign: SurveyCampaign) -> None:
        shares = [1.0] * len(campaign.questions) if campaign.levels else shares_of(campaign)
        self._campaign = campaign
        self._watched = [Watched(campaign, place, share) for place, share in enumerate(shares)]

    def note(self, place: int) -> str:
        """Say whom an attribute's running figures are about, or why there are none."""
        return self._watched[place].note

    def of(
        self, place: int, own: Sequence[Tally], reports: int, confidence: float, each: float
    ) -> dict[str, Running]:
        """Return an attribute's running figures by item; each label's at a level of its own.

        `own` are its tallies, one per level; `reports` is how many there are in all.
        """
        watched, n = self._watched[place], sum(tally.n for tally in own)
        if not watched.groups or not n:
            return {}
        return watched.figures(own, n if self._campaign.levels else reports, confidence, each)


@dataclass(frozen=True)
class Watched:
    """One attribute of a campaign, and the part of the people who are asked it."""

    campaign: SurveyCampaign
    place: int
    share: float

    @property
    def question(self) -> Question:
        """What is asked."""
        return self.campaign.questions[self.place]

    @cached_property
    def note(self) -> str:
        """Whom it is about; or why there is nothing."""
        if self.campaign.strategy.gathers:
            return TOGETHER
        if self.campaign.repeated or self.campaign.max_reports > 1:
            return AGAIN
        if not self.groups:
            return OTHERWISE
        return ABOUT_ASKED if self.campaign.levels else ABOUT_ALL

    @cached_property
    def groups(self) -> tuple[tuple[Terms, ...], ...]:
        """For each number that is averaged, the terms of each level; () where there are none."""
        campaign = self.campaign
        if campaign.strategy.gathers or campaign.max_reports > 1:
            return ()
        terms = [law.terms() for law in campaign.laws_of(self.place)]
        if not all(terms):
            return ()
        return tuple(
            tuple(terms.asked(self.share) for terms in group) for group in zip(*terms, strict=True)
        )

    @cached_property
    def sequences(self) -> tuple[ConfidenceSequence, ...]:
        """One for each number that is averaged."""
        return tuple(ConfidenceSequence(group, self.campaign.terms.people) for group in self.groups)

    def figures(
        self, own: Sequence[Tally], n: int, confidence: float, each: float
    ) -> dict[str, Running]:
        """Return the figures by item, from tallies that are not empty."""
        counts = [tally.n for tally in own] if self.campaign.levels else [n]
        means = _means(own, n * self.share)
        question = self.question
        if question.missing:
            return self._among(means, counts, confidence, each)
        (intervals,) = self._intervals(means, counts, each)
        return _in_units(question, question.labels or ("mean",), intervals, n)

    def _intervals(
        self, means: Sequence[Floats], counts: Sequence[int], confidence: float
    ) -> list[Interval]:
        pairs = zip(self.sequences, means, strict=True)
        return [
            Interval(mean, *sequence.interval(mean, counts, confidence)) for sequence, mean in pairs
        ]

    def _among(
        self, means: Sequence[Floats], counts: Sequence[int], confidence: float, each: float
    ) -> dict[str, Running]:
        """Return the share that answered, and figures among those: S/N within both intervals."""
        question, n = self.question, sum(counts)
        half, whole = (1 + each) / 2, self._intervals(means, counts, confidence)
        parts = self._intervals(means, counts, half)
        if question.labels:  # no answer is the last item
            none, all_of = whole[0], parts[0]
            answered = Interval(1 - none.value[-1:], 1 - none.high[-1:], 1 - none.low[-1:])
            over = Interval(1 - all_of.value[-1:], 1 - all_of.high[-1:], 1 - all_of.low[-1:])
            sums = Interval(all_of.value[:-1], all_of.low[:-1], all_of.high[:-1])
        else:
            answered, over, sums = whole[1], parts[1], parts[0]
        head = Running(n, *(float(end[0]) for end in _columns(answered)))
        if not over.low[0] > 0:
            return {ANSWERED: head}
        names = question.labels or ("mean",)
        return {ANSWERED: head, **_in_units(question, names, _quotient(sums, over), n)}


def _means(own: Sequence[Tally], n: float) -> list[Floats]:
    """Return the mean of all terms over n reports, for each number that is averaged."""
    sums = [tally.mechanism.term_sums(tally) for tally in own if tally.n]
    return [np.sum(parts, axis=0) / n for parts in zip(*sums, strict=True)]


def _quotient(sums: Interval, over: Interval) -> Interval:
    """Return sums/over with the ends that both allow; `over` is above 0."""
    corners = [end / part for end in (sums.low, sums.high) for part in (over.low, over.high)]
    return Interval(sums.value / over.value, np.min(corners, axis=0), np.max(corners, axis=0))


def _columns(interval: Interval) -> tuple[Floats, Floats, Floats]:
    return interval.value, interval.low, interval.high


def _in_units(
    question: Question, names: Sequence[str], interval: Interval, n: int
) -> dict[str, Running]:
    """Return intervals in the attribute's own units, by item."""
    start, scale = 0.0, 1.0
    if not question.labels:
        low, high = question.range
        start, scale = (low + high) / 2, question.scale
    rows = zip(
        names, *((start + scale * column).tolist() for column in _columns(interval)), strict=True
    )
    return {name: Running(n, value, low, high) for name, value, low, high in rows}
