"""What has arrived at a collector, and whether its books balance."""

from __future__ import annotations

import msgspec

from murmuration.campaign.model import utc_now
from murmuration.collector.publish import Served
from murmuration.collector.store import Store
from murmuration.collector.tallies import by_collector


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
    people: int


def status(store: Store, served: Served) -> Status:
    """Return what has arrived, what became of it, and whether the books balance."""
    campaign = served.campaign
    with store.snapshot():
        counts, tallies = store.counts(campaign.name), by_collector(store, campaign)
    received = counts.pop("received", 0)
    return Status(
        campaign=campaign.name,
        version=served.version,
        digest=campaign.digest,
        open=campaign.terms.accepts(utc_now()),
        cohort=campaign.terms.cohort,
        people_expected=campaign.terms.people,
        received=received,
        outcomes=counts,
        balanced=received == sum(counts.values()),
        merged_collectors=len(tallies.parts) - 1,
        people=campaign.people(tallies.total()),
    )
