"""Other collectors' counts into a store: each report counts exactly once, whatever way it takes.

By tallies (`merge_tallies`): a collector's tally is all it has ever counted, so a later one
replaces an earlier one, and sending one again changes nothing.

By reports (`merge`): one campaign of another store, in one transaction. A report whose id is here
already is left alone, so merging again changes nothing. Where the other store has scrubbed its
reports, only its tallies tell what they said; those can be added if none of the scrubbed ids is
known here, and not if some are: nobody can take single reports out of a sum.

Reports that are new here count as received and stored. What the other collector refused, or
received twice, stays in its own books.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from murmuration.campaign import document as campaign_document
from murmuration.campaign.model import Campaign
from murmuration.collector.publish import Served, served
from murmuration.collector.store import Merged, Store
from murmuration.collector.tallies import ABSORBED, CollectorTallies, absorbed, by_collector, total
from murmuration.errors import FormatError, MismatchError
from murmuration.mechanisms.tally import Tally

Advance = Callable[[int], None]


# --- by tallies ----------------------------------------------------------------------------------


def merge_tallies(store: Store, served: Served, other: CollectorTallies) -> int:
    """Take over other collectors' tallies; return how many of them were news.

    What comes back to the collector that counted it is left out.
    """
    mine, campaign, news = store.collector_name(), served.campaign, 0
    if mine in other.absorbed:
        raise MismatchError(
            "that collector has merged the reports of this one: they would count twice"
        )
    with store.transaction():
        merged_here = store.merged(served.key)
        known = {merged.collector: merged.n for merged in merged_here}
        require_one_holder(absorbed(merged_here, campaign), other.absorbed)
        for collector, tallies in other.parts.items():
            n = campaign.frame.reports(tallies)
            if collector != mine and n != known.get(collector):
                _require_later(collector, n, known.get(collector, 0))
                _keep(store, served.key, collector, tallies, campaign)
                news += 1
        for collector, holder in other.absorbed.items():
            absorb(store, served.key, collector, holder, campaign)
        _check_sum(store, campaign)
    return news


def _require_later(collector: str, n: int, known: int) -> None:
    """Refuse a tally that is older than what is known, or whose reports count elsewhere."""
    if known == ABSORBED:
        raise MismatchError(
            f"the reports of collector {collector} were merged one by one: merge its store "
            "again, and not its tallies"
        )
    if n < known:
        raise MismatchError(f"collector {collector} has sent a later tally than this one")


def _keep(
    store: Store, key: int, collector: str, tallies: Sequence[Tally], campaign: Campaign
) -> None:
    """Keep a collector's tallies, instead of those it sent before."""
    only = CollectorTallies(campaign, {collector: tuple(tallies)})
    store.set_merged(key, Merged(collector, campaign.frame.reports(tallies), only.to_bytes()))


def absorb(store: Store, key: int, collector: str, holder: str, campaign: Campaign) -> None:
    """Note in whose tally a collector's reports are counted: its own tallies no longer count."""
    nobody = CollectorTallies(campaign, {holder: campaign.frame.empty()})
    store.set_merged(key, Merged(collector, ABSORBED, nobody.to_bytes()))


def require_one_holder(ours: Mapping[str, str], theirs: Mapping[str, str]) -> None:
    """Refuse reports that are counted already, in the tally of another collector.

    Unless that collector was merged one by one itself, by the same one.
    """
    for collector, holder in theirs.items():
        known = ours.get(collector, holder)
        if known != holder and theirs.get(known) != holder:
            raise MismatchError(
                f"the reports of collector {collector} are counted already, in the tally of "
                f"{known}: they would count twice"
            )


def _check_sum(store: Store, campaign: Campaign) -> None:
    """Refuse tallies that could be stored but never be read again."""
    try:
        total(store, campaign)
    except FormatError:
        raise MismatchError("with these tallies there are more people than can be") from None


# --- by reports ----------------------------------------------------------------------------------


@dataclass
class Joined:
    """What came of merging one campaign."""

    campaign: str
    new: int = 0
    known: int = 0
    """Reports that were here already."""
    collectors: int = 0
    """Other collectors whose tallies the other store had, and that were news here."""


def merge(into: Store, other: Store, name: str, advance: Advance | None = None) -> Joined:
    """Merge one campaign of another store into this one, all of it or nothing."""
    if into.is_same(other):
        raise MismatchError("a store cannot be merged into itself")
    with other.snapshot(), into.transaction():
        joined = Joined(name)
        for digest in _digests(into, other, name):
            _merge_digest(into, other, name, digest, joined, advance)
        into.add_counts(name, Counter(received=joined.new, stored=joined.new))
    return joined


def _digests(into: Store, other: Store, name: str) -> list[str]:
    """Return the versions to merge: all that have reports, and this store must know each."""
    if name not in into.campaigns():
        raise MismatchError(f"this store does not have the campaign {name}")
    theirs = served(other, name)
    wanted = [theirs.campaign.digest, *sorted(theirs.older)]
    keys = {digest: other.key_of(digest) for digest in wanted}
    used = [d for d, key in keys.items() if key and (other.report_count(key) or other.merged(key))]
    if unknown := sorted(set(used) - into.digests(name)):
        raise MismatchError(
            f"{name}: the other store has reports of another campaign, or of a version that is "
            f"unknown here (digest {unknown[0][:16]}); only the same questions and laws add up"
        )
    return used


def _merge_digest(
    into: Store, other: Store, name: str, digest: str, joined: Joined, advance: Advance | None
) -> None:
    document = into.document_of(name, digest)
    if document is None:  # pragma: no cover - `_digests` has looked
        raise MismatchError(f"{name}: digest {digest[:16]} is unknown here")
    campaign = campaign_document.read(document)
    ours, theirs = into.open_collection(digest), other.key_of(digest) or 0
    _merge_reports(into, other, campaign, (ours, theirs), joined, advance)
    joined.collectors += _take_over(into, other, campaign, ours)


def _merge_reports(
    into: Store,
    other: Store,
    campaign: Campaign,
    keys: tuple[int, int],
    joined: Joined,
    advance: Advance | None,
) -> None:
    ours, theirs = keys
    mechanisms = campaign.frame.cells
    left = other.tallies(campaign.digest, mechanisms)
    scrubbed_new = scrubbed_known = 0
    for ids, rows, kept in other.kept_reports(theirs, campaign.row_bytes):
        if not campaign.valid(rows).all():
            raise FormatError(f"{campaign.name}: the other store has reports that nobody can send")
        left = _minus(left, campaign.frame.tally_valid(rows))
        stored = rows if campaign.terms.keep_reports else rows[:, :0]
        fresh = into.add_reports(ours, ids[kept], stored)
        into.add_tallies(ours, campaign.frame.tally_valid(rows[fresh]))
        empty = np.zeros((len(ids) - len(kept), 0), dtype=np.uint8)
        unread = into.add_reports(ours, np.delete(ids, kept, axis=0), empty)
        scrubbed_new += int(unread.sum())
        scrubbed_known += int((~unread).sum())
        joined.new += int(fresh.sum()) + int(unread.sum())
        joined.known += int((~fresh).sum()) + int((~unread).sum())
        if advance is not None:
            advance(len(ids))
    if campaign.frame.reports(left) != scrubbed_new + scrubbed_known:
        raise FormatError(f"{campaign.name}: the other store's reports and tallies do not agree")
    if scrubbed_new and scrubbed_known:
        raise MismatchError(
            f"{campaign.name}: the other store keeps no reports, only their sum, and of these "
            f"{scrubbed_known:,} are counted here already and {scrubbed_new:,} are not: they "
            "cannot be told apart in a sum. Nothing was merged."
        )
    if scrubbed_new:
        into.add_tallies(ours, left)


def _minus(tallies: tuple[Tally, ...], counted: tuple[Tally, ...]) -> tuple[Tally, ...]:
    """Take tallies out of larger ones; refuse what does not fit."""
    try:
        return tuple(
            Tally(whole.mechanism, whole.counts - part.counts, whole.n - part.n)
            for whole, part in zip(tallies, counted, strict=True)
        )
    except (FormatError, ValueError):
        raise FormatError("the other store's reports and tallies do not agree") from None


def _take_over(into: Store, other: Store, campaign: Campaign, key: int) -> int:
    """Take over what other collectors had sent there; forget sums of what is counted here now."""
    mine, theirs, news = into.collector_name(), other.collector_name(), 0
    merged_here, there = into.merged(key), by_collector(other, campaign)
    known = {merged.collector: merged.n for merged in merged_here}
    # What was counted in the other store's tally is counted in this one's from now on.
    taken = {c: mine if holder == theirs else holder for c, holder in there.absorbed.items()}
    taken |= {theirs: mine}
    require_one_holder({**absorbed(merged_here, campaign), mine: mine}, taken)
    taken.pop(mine, None)
    for collector, tallies in there.parts.items():
        n = campaign.frame.reports(tallies)
        if collector not in (mine, theirs) and n > known.get(collector, 0):
            _keep(into, key, collector, tallies, campaign)
            news += 1
    for collector, holder in taken.items():
        absorb(into, key, collector, holder, campaign)
    return news
