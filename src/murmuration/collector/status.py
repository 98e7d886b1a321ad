"""What has arrived at a collector, and whether its books balance."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from murmuration.campaign.alarms import warnings_by_period
from murmuration.campaign.survey import ByPeriod, SurveyCampaign, utc_now
from murmuration.collector.merging.tallies import known
from murmuration.collector.publish import ServedTraining, Serving
from murmuration.collector.store import Store, rounds
from murmuration.collector.store.rounds import StoredRound
from murmuration.collector.training.model import from_json
from murmuration.collector.training.rounds import counted, deadline_of, round_of, size_of
from murmuration.counting.periods import least_people, pooled
from murmuration.mechanisms.tally import Tally
from murmuration.training.campaign import TrainingCampaign

HOUR = "%Y-%m-%dT%H:00Z"


class Arrived(msgspec.Struct, frozen=True):
    """How many answers an attribute has, and needs to be shown."""

    attribute: str
    answers: int
    needed: int
    levels: dict[str, int] = {}
    """The answers by level, where people choose levels."""

    @property
    def short(self) -> int:
        """How many answers are still missing.

        >>> Arrived("age", answers=99, needed=1000).short
        901
        """
        return max(0, self.needed - self.answers)


class PeriodArrived(msgspec.Struct, frozen=True):
    """How many people have reported in a period, and whether reports of it are still taken."""

    name: str
    people: int
    open: bool


class RoundStatus(msgspec.Struct, frozen=True):
    """A round of a training: how many have answered what."""

    number: int
    state: str
    """"open", "closed", or "aside": too few had answered when the campaign closed."""
    people: int
    size: int
    """With so many it is closed."""
    opened: int
    """Seconds since 1970."""
    closes: int | None
    """From then on it is closed with fewer, if each question has as many as the cohort."""
    asks: dict[str, int]
    """How many have answered each question."""


class TrainingStatus(msgspec.Struct, frozen=True):
    """How far a training is."""

    model: str
    target: str
    ended: bool
    rounds: list[RoundStatus]
    notes: list[str] = []


class Status(msgspec.Struct, frozen=True):
    """What has arrived and what became of it."""

    campaign: str
    version: int
    digest: str
    open: bool
    cohort: int
    people_expected: int
    received: int
    outcomes: dict[str, int]
    balanced: bool
    """Whether received is the sum of the outcomes."""
    merged_collectors: int
    """Of how many others tallies count whose reports are not all here."""
    people: int
    collector: str = ""
    """This collector's name, by which others may be told to take its tallies."""
    attributes: list[Arrived] = []
    last_report: str = ""
    """The hour (UTC) in which a report was last stored here; no finer time is kept."""
    warnings: list[str] = []
    """Reports that no crowd sends, if there are any; nothing was removed."""
    reports: int = 0
    """How many reports are in the estimates: more than people where a device sends several."""
    periods: list[PeriodArrived] = []
    """Where a question comes back: each period that has reports. `attributes` is about the last."""
    training: TrainingStatus | None = None
    """Of a campaign that trains a model: its rounds, and no attributes."""


def status(store: Store, served: Serving) -> Status:
    """Return what has arrived, what became of it, and whether the books balance."""
    if isinstance(served, ServedTraining):
        return training_status(store, served)
    campaign = served.campaign
    with store.snapshot():
        counts, books = store.counts(campaign.name), known(store, campaign)
        hour = store.last_hour(campaign.digest)
    by_period = books.by_period()
    tallies, now = pooled(campaign, by_period), utc_now()
    last = by_period[max(by_period)] if campaign.every and by_period else tallies
    received = counts.pop("received", 0)
    return Status(
        campaign=campaign.name,
        version=served.version,
        digest=campaign.digest,
        open=campaign.terms.accepts(now),
        cohort=campaign.terms.cohort,
        people_expected=campaign.terms.people,
        received=received,
        outcomes=counts,
        balanced=received == sum(counts.values()),
        merged_collectors=sum(not books.is_whole(name) for name in books.counted),
        people=least_people(campaign, by_period),
        collector=books.mine,
        attributes=_arrived(campaign, last),
        last_report=hour.strftime(HOUR) if hour else "",
        warnings=warnings_by_period(campaign, by_period),
        reports=campaign.frame.reports(tallies),
        periods=_periods(campaign, by_period, now),
    )


def _periods(campaign: SurveyCampaign, by_period: ByPeriod, now: datetime) -> list[PeriodArrived]:
    if campaign.every is None:
        return []
    taken = campaign.open_periods(now) if campaign.terms.accepts(now) else range(0)
    return [
        PeriodArrived(campaign.name_of(period), campaign.frame.reports(own), period in taken)
        for period, own in by_period.items()
    ]


def training_status(store: Store, served: ServedTraining) -> Status:
    """Return what has arrived for a training, and how far it is."""
    campaign = served.campaign
    with store.snapshot():
        counts, hour = store.counts(campaign.name), store.last_hour(campaign.digest)
        found = [_round(store, campaign, kept) for kept in rounds.rounds(store, served.key)]
        ending = rounds.finished(store, served.key)
        name = store.collector_name()
    received, people = counts.pop("received", 0), sum(one.people for one in found)
    notes = [] if ending is None else [*from_json(ending).notes]
    return Status(
        campaign=campaign.name,
        version=served.version,
        digest=campaign.digest,
        open=campaign.terms.accepts(utc_now()) and ending is None,
        cohort=campaign.terms.cohort,
        people_expected=campaign.terms.people,
        received=received,
        outcomes=counts,
        balanced=received == sum(counts.values()),
        merged_collectors=0,
        people=people,
        collector=name,
        last_report=hour.strftime(HOUR) if hour else "",
        reports=people,
        training=TrainingStatus(
            campaign.model, campaign.target.name, ending is not None, found, notes + _aside(found)
        ),
    )


def _round(store: Store, campaign: TrainingCampaign, kept: StoredRound) -> RoundStatus:
    found = round_of(campaign, kept)
    tallies = counted(store, kept, found)
    asks = zip((question.ask for question in found.questions), tallies, strict=True)
    closes = deadline_of(kept)
    return RoundStatus(
        number=kept.number,
        state=kept.state,
        people=sum(tally.n for tally in tallies),
        size=size_of(kept),
        opened=kept.opened,
        closes=None if closes is None else int(closes.timestamp()),
        asks={ask: tally.n for ask, tally in asks},
    )


def _aside(found: Sequence[RoundStatus]) -> list[str]:
    """Say which rounds do not count."""
    return [
        f"Round {one.number} is set aside: {one.people:,} reports were too few when the campaign "
        "closed"
        for one in found
        if one.state == rounds.ASIDE
    ]


def _arrived(campaign: SurveyCampaign, tallies: Sequence[Tally]) -> list[Arrived]:
    """Count the answers to each attribute, level by level."""
    groups = campaign.frame.by_group(tallies)
    if campaign.strategy.gathers:
        groups = groups * len(campaign.questions)
    names = campaign.levels.names if campaign.levels else ()
    needed = campaign.terms.cohort * (1 if campaign.every else campaign.max_reports)
    return [
        Arrived(
            *(question.name, sum(tally.n for tally in own), needed),
            levels=dict(zip(names, (tally.n for tally in own), strict=False)),
        )
        for question, own in zip(campaign.questions, groups, strict=True)
    ]
