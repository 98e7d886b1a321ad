"""What a store shows: kept beside its tallies, in the transactions that change these.

Figures, states of dashboards and answers by level are read from here, whoever asks and in whatever
form: all of them are made of the same sums, and a restart changes nothing. What was counted here
and what other collectors have counted follow the rules (`counting.cohort`) apart from each other.
"""

from __future__ import annotations

from collections.abc import Iterable

from murmuration.campaign.form import ByPeriod
from murmuration.campaign.survey import SurveyCampaign
from murmuration.collector.merging.known import known
from murmuration.collector.store import Store
from murmuration.counting.cohort import advanced, due, needed
from murmuration.counting.periods import plus, pooled


def shown(store: Store, campaign: SurveyCampaign) -> ByPeriod:
    """Return the tallies that figures are made of, period by period."""
    with store.snapshot():
        key = store.key_of(campaign.digest)
        if key is None:
            return {}
        cells = campaign.frame.cells
        own, merged = (store.shown(key, cells, merged=merged) for merged in (False, True))
    return dict(sorted(plus(own, merged).items()))


def waiting(store: Store, campaign: SurveyCampaign) -> int:
    """Return how many reports are counted and not shown yet: they wait for others of their cell."""
    with store.snapshot():
        counted = pooled(campaign, known(store, campaign).by_period())
        told = pooled(campaign, shown(store, campaign))
    return max(0, campaign.frame.reports(counted) - campaign.frame.reports(told))


def show_counted(
    store: Store, key: int, campaign: SurveyCampaign, periods: Iterable[int] | None = None
) -> None:
    """Show what was counted here as it is now, where it is due; all periods unless some are named.

    Inside the transaction that has counted it.
    """
    frame, least = campaign.frame, needed(campaign)
    cells = frame.cells
    for period in store.periods(key) if periods is None else periods:
        before = store.shown_people(key, period, len(cells), merged=False)
        if due(frame, before, store.people(key, period, len(cells)), least):
            shown_now = store.shown(key, cells, period, merged=False)
            last = shown_now.get(period) or frame.empty()
            now = store.tallies(campaign.digest, cells, period)[period]
            store.show(key, period, advanced(frame, last, now, least), merged=False)


def show_merged(store: Store, key: int, campaign: SurveyCampaign) -> None:
    """Show what other collectors have counted as it is now, where it is due."""
    frame, least = campaign.frame, needed(campaign)
    now: ByPeriod = {}
    for part in known(store, campaign).counted.values():
        now = plus(now, part.tallies)
    before = store.shown(key, frame.cells, merged=True)
    for period in sorted({*before, *now}):
        last, new = (some.get(period) or frame.empty() for some in (before, now))
        then = advanced(frame, last, new, least)
        if then != last:
            store.show(key, period, then, merged=True)


def show(store: Store, key: int, campaign: SurveyCampaign) -> None:
    """Show everything as it is now, where it is due: the cohort may be another one since."""
    with store.transaction():
        show_counted(store, key, campaign)
        show_merged(store, key, campaign)
