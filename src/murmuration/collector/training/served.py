"""Trainings at the collector: uploads are for one of their rounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from murmuration.campaign.survey import utc_now
from murmuration.collector.served import Served
from murmuration.collector.status import HOUR, RoundStatus, Status, TrainingStatus
from murmuration.collector.store import Store, rounds
from murmuration.collector.store.rounds import StoredRound
from murmuration.collector.training.model import from_json
from murmuration.collector.training.rounds import (
    RoundIntake,
    counted,
    deadline_of,
    round_of,
    size_of,
    taking,
)
from murmuration.training.campaign import TrainingCampaign


@dataclass(frozen=True)
class ServedTraining(Served[TrainingCampaign]):
    """A training that is being collected for, and where its rounds are."""

    def intake(self, store: Store, digest: str = "") -> RoundIntake | None:
        """Return the round of a digest, or the last that was published; None before the first."""
        return taking(store, self, digest)

    def is_over(self, store: Store) -> bool:
        """Whether training has ended."""
        return rounds.finished(store, self.key) is not None

    def status(self, store: Store) -> Status:
        """Return what has arrived for a training, and how far it is."""
        campaign = self.campaign
        with store.snapshot():
            counts, hour = store.counts(campaign.name), store.last_hour(campaign.digest)
            statuses = [_round(store, campaign, kept) for kept in rounds.rounds(store, self.key)]
            ending = rounds.finished(store, self.key)
            name = store.collector_name()
        received, people = counts.pop("received", 0), sum(status.people for status in statuses)
        notes = [] if ending is None else [*from_json(ending).notes]
        return Status(
            campaign=campaign.name,
            version=self.version,
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
                campaign.model,
                campaign.target.name,
                ending is not None,
                statuses,
                notes + _aside(statuses),
            ),
        )


def _round(store: Store, campaign: TrainingCampaign, kept: StoredRound) -> RoundStatus:
    asked_round = round_of(campaign, kept)
    tallies = counted(store, kept, asked_round)
    asks = zip(asked_round.asks, tallies, strict=True)
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


def _aside(statuses: Sequence[RoundStatus]) -> list[str]:
    """Say which rounds do not count."""
    return [
        f"Round {status.number} is set aside: {status.people:,} reports were too few when the "
        "campaign closed"
        for status in statuses
        if status.state == rounds.ASIDE
    ]
