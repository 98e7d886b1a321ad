"""What a store has counted of a campaign, and what other collectors have told it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from murmuration.campaign.form import ByPeriod
from murmuration.campaign.survey import SurveyCampaign
from murmuration.collector.store import Merged, Store
from murmuration.counting.container import CampaignTallies, Part
from murmuration.counting.periods import Tallies, plus
from murmuration.counting.sketch import EMPTY, NOTHING, Sketch, name_of, sketched


@dataclass(frozen=True)
class Known:
    """All that a store has counted of one campaign, or was told.

    mine: this collector's name
    key: the name of its key
    own: what it has counted itself, without a sketch: that takes a look at every id
    counted: what counts of other collectors
    held: of which other collectors it has the reports themselves, and up to which part. Less may
        be counted (the rest is counted under another name, too), or more (a later tally came).
    """

    campaign: SurveyCampaign
    mine: str
    key: str
    own: Part
    counted: Mapping[str, Part]
    held: Mapping[str, Part]

    def total(self) -> Tallies:
        """Return the tallies of everybody, over all periods."""
        return self.named().total()

    def by_period(self) -> ByPeriod:
        """Return the tallies of everybody, period by period."""
        return self.named().by_period()

    def named(self) -> CampaignTallies:
        """Return all that counts, by the collector that counted it."""
        parts = {self.mine: self.own, **self.counted}
        return CampaignTallies(self.campaign, parts, self.mine, self.key)

    def n(self, part: Part | None) -> int:
        """Return how many reports a part counts."""
        if part is None:
            return 0
        return sum(self.campaign.frame.reports(own) for own in part.tallies.values())

    def is_reduced(self, collector: str) -> bool:
        """Whether some of a collector's reports count under another name here."""
        return self.n(self.counted.get(collector)) < self.n(self.held.get(collector))

    def is_whole(self, collector: str) -> bool:
        """Whether all that is counted of a collector is here, report by report."""
        return self.n(self.counted.get(collector)) <= self.n(self.held.get(collector))

    def physical(self) -> ByPeriod:
        """Return the tallies of the reports that are in the store."""
        tallies = self.own.tallies
        for part in self.elsewhere():
            tallies = plus(tallies, part.tallies)
        return tallies

    def elsewhere(self) -> list[Part]:
        """Return what is in the store and counts under the names of others."""
        return [
            self.counted[name] if self.is_reduced(name) else part
            for name, part in self.held.items()
        ]


def known(store: Store, campaign: SurveyCampaign) -> Known:
    """Return what a store knows of a campaign, as of one moment."""
    with store.snapshot():  # a merge in between would count reports twice, or not at all
        own = store.tallies(campaign.digest, campaign.frame.cells)
        number = store.key_of(campaign.digest)
        told, here = (
            ([], []) if number is None else (store.merged(number), store.merged(number, held=True))
        )
        mine, key = store.collector_name(), name_of(store.merge_secret())
    counted = {merged.collector: _part(merged, campaign, key) for merged in told}
    held = {merged.collector: _part(merged, campaign, key) for merged in here}
    return Known(campaign, mine, key, Part(own), counted, held)


def _part(merged: Merged, campaign: SurveyCampaign, key: str) -> Part:
    """Read a stored part; a sketch under another key says nothing."""
    stored = CampaignTallies.from_bytes(merged.tallies, campaign)
    (part,) = stored.parts.values()
    return part if key and stored.key == key else Part(part.tallies)


def stored(name: str, part: Part, ours: Known) -> Merged:
    """Return a collector's part as a store keeps it."""
    only = CampaignTallies(ours.campaign, {name: part}, name, ours.key)
    return Merged(name, ours.n(part), only.to_bytes(document=False))


def total(store: Store, campaign: SurveyCampaign) -> Tallies:
    """Return the tallies of everybody, one per cell, over all periods."""
    return known(store, campaign).total()


def by_period(store: Store, campaign: SurveyCampaign) -> ByPeriod:
    """Return the tallies of everybody, period by period."""
    return known(store, campaign).by_period()


def exported(store: Store, campaign: SurveyCampaign) -> CampaignTallies:
    """Return all tallies for another collector, this one's with a sketch of its ids."""
    with store.snapshot():
        ours = known(store, campaign)
        own = Part(ours.own.tallies, own_sketch(store, campaign))
    return replace(ours, own=own).named()


def own_sketch(store: Store, campaign: SurveyCampaign) -> Sketch:
    """Return the sketch of the ids that a store has counted itself: all it has, but those held.

    Which ids are held is known as far as their sketch goes.
    """
    secret, number = store.merge_secret(), store.key_of(campaign.digest)
    if secret is None:
        return NOTHING
    if number is None:
        return EMPTY
    with store.snapshot():
        others = known(store, campaign).elsewhere()
        chunks = (ids for ids, _, _ in store.kept_reports(number, campaign.form.row_bytes))
        sketch = sketched(chunks, secret)
    for part in others:
        sketch = sketch.without(part.sketch)
    return sketch
