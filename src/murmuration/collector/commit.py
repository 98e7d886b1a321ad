"""What a collector does with reports, whatever brought them: count each once, durably.

`commit` takes a group of uploads and decides each report's fate in one transaction:

    received = stored + duplicate + refused(reason), at all times, crashes included.

Reports of a group are sorted by id, looked up, stored, counted into tallies and accounted for
together; when `commit` returns, all of it is on the disk.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np

from murmuration.analysis.figures import Estimates
from murmuration.campaign import document as campaign_document
from murmuration.campaign.model import Campaign, utc_now
from murmuration.collector.store import Merged, Store
from murmuration.collector.tallies import Sources
from murmuration.errors import CohortError, FormatError, MismatchError, ParameterError
from murmuration.exact.arrays import Ints
from murmuration.mechanisms.tally import Tally
from murmuration.wire.report import CODES, FINE, REASONS, Codes, Ids, Incoming, Upload, joined

DUPLICATE = CODES["duplicate"]
ABSORBED = 1 << 62
"""In place of a collector's number of people: its reports were merged, so no tally of it counts."""
OUTCOMES = ("stored", *REASONS)
"""What can become of a report, by the code of its problem."""


@dataclass(frozen=True)
class Served:
    """A campaign that is being collected, and where its reports go."""

    campaign: Campaign
    version: int
    document: bytes
    key: int
    older: frozenset[str]
    """Digests of its earlier versions."""


@dataclass
class Batch:
    """One upload on its way to the store."""

    served: Served
    incoming: Incoming
    unreadable: int = 0
    """1 for a body that could not be read: it counts as one report, refused."""
    in_time: bool = True
    """Whether it arrived while the campaign was open."""
    problems: Codes = field(default_factory=lambda: np.zeros(0, dtype=np.uint8))
    """After `commit`: what is wrong with each report, in the order of the upload; 0 is stored."""

    def __len__(self) -> int:
        return len(self.incoming)


def serve(store: Store, campaign: Campaign) -> Served:
    """Publish a campaign in a store, as a new version if anything has changed."""
    with store.transaction():
        latest = store.latest(campaign.name)
        version = 1 if latest is None else latest[0]
        document = campaign_document.publish(campaign, version)
        if latest is not None and latest[2] != document:
            document = campaign_document.publish(campaign, version + 1)
        version = store.publish(campaign.name, campaign.digest, document)
        older = frozenset(store.digests(campaign.name) - {campaign.digest})
        return Served(campaign, version, document, store.open_collection(campaign.digest), older)


def commit(store: Store, group: Sequence[Batch]) -> None:
    """Decide the fate of every report of a group: one transaction, durable on return."""
    by_campaign: dict[int, list[Batch]] = {}
    for batch in sorted(group, key=lambda batch: batch.incoming.columns is not None):
        by_campaign.setdefault(batch.served.key, []).append(batch)
    uploads = [_checked(batches) for batches in by_campaign.values()]
    with store.transaction():
        for batches, upload in zip(by_campaign.values(), uploads, strict=True):
            _commit_campaign(store, batches, upload)
    # Only now is it true: a transaction that failed has made no report a duplicate.
    for batches, upload in zip(by_campaign.values(), uploads, strict=True):
        ends = np.cumsum([len(batch) for batch in batches])[:-1]
        for batch, problems in zip(batches, np.split(upload.problems, ends), strict=True):
            batch.problems = problems


def _checked(batches: Sequence[Batch]) -> Upload:
    """Put one campaign's uploads together and check them."""
    served = batches[0].served
    upload = joined(served.campaign, [batch.incoming for batch in batches], served.older)
    start = 0
    for batch in batches:
        if not batch.in_time:
            mine = upload.problems[start : start + len(batch)]
            mine[mine == FINE] = CODES["outside-window"]
        start += len(batch)
    return upload


def _commit_campaign(store: Store, batches: Sequence[Batch], upload: Upload) -> None:
    """Store one campaign's reports and account for them; mark duplicates."""
    served, problems = batches[0].served, upload.problems
    fine = np.flatnonzero(problems == FINE)
    ids, rows = upload.ids[fine], upload.rows[fine]
    order, first = in_order(ids)
    chosen = order[first]
    kept = rows[chosen] if served.campaign.terms.keep_reports else rows[chosen, :0]
    new = chosen[store.add_reports(served.key, ids[chosen], kept)]
    store.add_tallies(served.key, served.campaign.tally(rows[new]))
    again = np.ones(len(ids), dtype=bool)
    again[new] = False
    problems[fine[again]] = DUPLICATE
    unreadable = sum(batch.unreadable for batch in batches)
    store.add_counts(served.campaign.name, outcomes(problems, unreadable))


def in_order(ids: Ids) -> tuple[Ints, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """Return the order of ids, and which of them, in that order, are the first of their kind.

    >>> ids = np.zeros((3, 16), dtype=np.uint8)
    >>> ids[0, 0] = 9
    >>> order, first = in_order(ids)
    >>> order.tolist(), first.tolist()
    ([1, 2, 0], [True, False, True])
    """
    halves = np.ascontiguousarray(ids).view(">u8").reshape(len(ids), 2)
    high = halves[:, 0].astype(np.uint64)
    order = np.argsort(high)
    alike = np.flatnonzero(np.diff(high[order]) == 0)
    first = np.ones(len(ids), dtype=bool)
    if len(alike):  # rare, but then the other half decides, and arrival among equals
        order = np.lexsort((halves[:, 1], high))
        first[1:] = (halves[order[1:]] != halves[order[:-1]]).any(axis=1)
    return order, first


def outcomes(problems: Codes, unreadable: int) -> Counter[str]:
    """Count what became of reports; "received" is counted apart, so that it can be checked."""
    found = np.bincount(problems, minlength=len(OUTCOMES)).tolist()
    counts = Counter({outcome: n for outcome, n in zip(OUTCOMES, found, strict=True) if n})
    if unreadable:
        counts["malformed"] += unreadable
    counts["received"] = len(problems) + unreadable
    return counts


# --- reading -----------------------------------------------------------------------------------


def sources(store: Store, campaign: Campaign) -> Sources:
    """Return the tallies of this collector and of those that were merged into it."""
    mechanisms = [cell.mechanism for cell in campaign.cells]
    found = {store.collector_name(): store.tallies(campaign.digest, mechanisms)}
    key = store.key_of(campaign.digest)
    known = store.merged(key) if key is not None else []
    for merged in known:
        if merged.n != ABSORBED:
            found.update(Sources.from_bytes(merged.tallies, campaign).parts)
    return Sources(campaign, found, absorbed(known, campaign))


def absorbed(known: Sequence[Merged], campaign: Campaign) -> dict[str, str]:
    """Return the collectors whose reports were merged one by one, and in whose tally they count."""
    found = {}
    for merged in known:
        if merged.n == ABSORBED:
            (found[merged.source],) = Sources.from_bytes(merged.tallies, campaign).parts
    return found


def require_one_holder(ours: Mapping[str, str], theirs: Mapping[str, str]) -> None:
    """Refuse reports that are counted already, in the tally of another collector.

    Unless that collector was merged one by one itself, by the same one.
    """
    for source, holder in theirs.items():
        known = ours.get(source, holder)
        if known != holder and theirs.get(known) != holder:
            raise MismatchError(
                f"the reports of collector {source} are counted already, in the tally of "
                f"{known}: they would count twice"
            )


def total(store: Store, campaign: Campaign) -> tuple[Tally, ...]:
    """Return the tallies of everybody, one a cell."""
    return sources(store, campaign).total()


def served(store: Store, name: str) -> Served:
    """Return a campaign of a store as it was last published, to read what was collected."""
    latest = store.latest(name)
    if latest is None:
        raise ParameterError(f"there is no campaign {name!r}; {_listed(store)}")
    version, digest, document = latest
    key, older = store.key_of(digest) or 0, frozenset(store.digests(name) - {digest})
    return Served(campaign_document.read(document), version, document, key, older)


def named_or_only(store: Store, name: str = "") -> str:
    """Return the name of a campaign; it may be left out where there is only one."""
    names = store.campaigns()
    if name or len(names) == 1:
        return name or names[0]
    raise ParameterError(f"say which campaign: {_listed(store)}")


def _listed(store: Store) -> str:
    names = store.campaigns()
    return f"this store has {', '.join(names)}" if names else "this store has none"


def estimates(
    served: Served, tallies: Sequence[Tally], about: str = "participants", level: float = 0.95
) -> Estimates:
    """Return what is known about the crowd, and about whom; nothing below the cohort."""
    campaign = served.campaign
    found = campaign.read(tallies, about, level)
    if not found:
        since = " since the questions or their laws were changed" if served.older else ""
        raise CohortError(
            f"too few people have answered{since}: nothing is shown about fewer than "
            f"{campaign.terms.cohort:,}"
        )
    people = campaign.people(tallies)
    return Estimates(campaign.name, served.version, campaign.digest, people, level, about, found)


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
    campaign, counts = served.campaign, store.counts(served.campaign.name)
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
        merged_collectors=len(sources(store, campaign).parts) - 1,
        people=campaign.people(total(store, campaign)),
    )


# --- other collectors ----------------------------------------------------------------------------


def merge_sources(store: Store, served: Served, other: Sources) -> int:
    """Take over other collectors' tallies; return how many of them were news.

    A collector's tally is all it has ever counted, so a later one replaces an earlier one, and
    sending one again changes nothing. What comes back to where it was counted is left out.
    """
    mine, news = store.collector_name(), 0
    if mine in other.absorbed:
        raise MismatchError(
            "that collector has merged the reports of this one: they would count twice"
        )
    with store.transaction():
        merged_here = store.merged(served.key)
        known = {merged.source: merged.n for merged in merged_here}
        require_one_holder(absorbed(merged_here, served.campaign), other.absorbed)
        for source, tallies in other.parts.items():
            n = served.campaign.reports(tallies)
            if source == mine or n == known.get(source):
                continue
            if known.get(source) == ABSORBED:
                raise MismatchError(
                    f"the reports of collector {source} were merged one by one: merge its store "
                    "again, and not its tallies"
                )
            if n < known.get(source, 0):
                raise MismatchError(f"collector {source} has sent a later tally than this one")
            only = Sources(served.campaign, {source: tallies})
            store.set_merged(served.key, Merged(source, n, only.to_bytes()))
            news += 1
        for source, holder in other.absorbed.items():
            absorb(store, served.key, source, holder, served.campaign)
        _check_sum(store, served.campaign)
    return news


def absorb(store: Store, key: int, source: str, holder: str, campaign: Campaign) -> None:
    """Note in whose tally a collector's reports are counted: its own tallies no more count."""
    nobody = Sources(campaign, {holder: campaign.empty()})
    store.set_merged(key, Merged(source, ABSORBED, nobody.to_bytes()))


def _check_sum(store: Store, campaign: Campaign) -> None:
    """Refuse tallies that could be stored but never be read again."""
    try:
        total(store, campaign)
    except FormatError:
        raise MismatchError("with these tallies there are more people than can be") from None
