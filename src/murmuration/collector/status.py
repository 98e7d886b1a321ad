"""What has arrived at a collector, and whether its books balance."""

from __future__ import annotations

import msgspec

from murmuration.campaign.model import utc_now
from murmuration.collector.publish import Served
from murmuration.collector.store import Store
from murmuration.collector.tallies import known


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


def status(store: Store, served: Served) -> Status:
    """Return what has arrived, what became of it, and whether the books balance."""
    campaign = served.campaign
    with store.snapshot():
        counts, books = store.counts(campaign.name), known(store, campaign)
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
        merged_collectors=sum(not books.is_whole(name) for name in books.counted),
        people=campaign.people(books.total()),
        collector=books.mine,
    )
