"""Stores into one: report by report, by their ids, each counted exactly once.

What is merged is one campaign of another store, in one transaction. A report whose id is here
already is left alone, so merging again changes nothing. Where the other store has scrubbed its
reports, only its tallies tell what they said; those can be added if none of the scrubbed ids is
known here, and not if some are: nobody can take single reports out of a sum.

Reports that are new here count as received and stored. What the other collector refused, or
received twice, stays in its own books.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from murmuration.campaign import document as campaign_document
from murmuration.campaign.model import Campaign, Rows
from murmuration.collector.commit import absorb, absorbed, require_one_holder, served, sources
from murmuration.collector.store import Merged, Store
from murmuration.collector.store.sqlite import SqliteStore
from murmuration.collector.tallies import Sources
from murmuration.errors import FormatError, MismatchError
from murmuration.exact.arrays import Ints
from murmuration.mechanisms.tally import Tally
from murmuration.wire.report import Ids

Advance = Callable[[int], None]


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
    if _same(into, other):
        raise MismatchError("a store cannot be merged into itself")
    with other.snapshot(), into.transaction():
        joined = Joined(name)
        for digest in _digests(into, other, name):
            _merge_digest(into, other, name, digest, joined, advance)
        into.add_counts(name, Counter(received=joined.new, stored=joined.new))
    return joined


def _same(one: Store, other: Store) -> bool:
    if isinstance(one, SqliteStore) and isinstance(other, SqliteStore):
        return one.path.samefile(other.path)  # a copy of a store has the same name
    return one.collector_name() == other.collector_name()


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
    joined.collectors += _merge_tallies(into, other, campaign, ours)


def _merge_reports(
    into: Store,
    other: Store,
    campaign: Campaign,
    keys: tuple[int, int],
    joined: Joined,
    advance: Advance | None,
) -> None:
    ours, theirs = keys
    mechanisms = [cell.mechanism for cell in campaign.cells]
    left = other.tallies(campaign.digest, mechanisms)
    scrubbed_new = scrubbed_known = 0
    for ids, rows, kept in _chunks(other, theirs, campaign):
        left = _minus(left, campaign.tally(rows))
        stored = rows if campaign.terms.keep_reports else rows[:, :0]
        fresh = into.add_reports(ours, ids[kept], stored)
        into.add_tallies(ours, campaign.tally(rows[fresh]))
        empty = np.zeros((len(ids) - len(kept), 0), dtype=np.uint8)
        unread = into.add_reports(ours, np.delete(ids, kept, axis=0), empty)
        scrubbed_new += int(unread.sum())
        scrubbed_known += int((~unread).sum())
        joined.new += int(fresh.sum()) + int(unread.sum())
        joined.known += int((~fresh).sum()) + int((~unread).sum())
        if advance is not None:
            advance(len(ids))
    if campaign.reports(left) != scrubbed_new + scrubbed_known:
        raise FormatError(f"{campaign.name}: the other store's reports and tallies do not agree")
    if scrubbed_new and scrubbed_known:
        raise MismatchError(
            f"{campaign.name}: the other store keeps no reports, only their sum, and of these "
            f"{scrubbed_known:,} are counted here already and {scrubbed_new:,} are not: they "
            "cannot be told apart in a sum. Nothing was merged."
        )
    if scrubbed_new:
        into.add_tallies(ours, left)


def _chunks(other: Store, key: int, campaign: Campaign) -> Iterator[tuple[Ids, Rows, Ints]]:
    """Yield ids, the rows of those that were kept, and the places of these."""
    for ids, listed in other.reports(key):
        kept = np.flatnonzero(np.fromiter(map(len, listed), dtype=np.int64, count=len(listed)))
        data = np.frombuffer(b"".join(listed), dtype=np.uint8)
        if len(data) != len(kept) * campaign.row_bytes:
            raise FormatError(f"{campaign.name}: the other store has reports of a wrong length")
        rows = data.reshape(len(kept), campaign.row_bytes)
        if not campaign.valid(rows).all():
            raise FormatError(f"{campaign.name}: the other store has reports that nobody can send")
        yield ids, rows, kept


def _minus(tallies: tuple[Tally, ...], counted: tuple[Tally, ...]) -> tuple[Tally, ...]:
    """Take tallies out of larger ones; refuse what does not fit."""
    try:
        return tuple(
            Tally(whole.mechanism, whole.counts - part.counts, whole.n - part.n)
            for whole, part in zip(tallies, counted, strict=True)
        )
    except (FormatError, ValueError):
        raise FormatError("the other store's reports and tallies do not agree") from None


def _merge_tallies(into: Store, other: Store, campaign: Campaign, key: int) -> int:
    """Take over what other collectors had sent there; forget sums of what is counted here now."""
    mine, theirs, news = into.collector_name(), other.collector_name(), 0
    merged_here, found = into.merged(key), sources(other, campaign)
    known = {merged.source: merged.n for merged in merged_here}
    # What was counted in the other store's tally is counted in this one's from now on.
    taken = {s: mine if holder == theirs else holder for s, holder in found.absorbed.items()}
    taken |= {theirs: mine}
    require_one_holder({**absorbed(merged_here, campaign), mine: mine}, taken)
    taken.pop(mine, None)
    for source, tallies in found.parts.items():
        n = campaign.reports(tallies)
        if source not in (mine, theirs) and n > known.get(source, 0):
            only = Sources(campaign, {source: tallies})
            into.set_merged(key, Merged(source, n, only.to_bytes()))
            news += 1
    for source, holder in taken.items():
        absorb(into, key, source, holder, campaign)
    return news
