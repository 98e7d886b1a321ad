"""Other collectors' counts into a store: each report counts exactly once, whatever way it takes.

By tallies (`merge_tallies`): a collector's tally is all it has ever counted, so of two of one
collector the later one, which contains the earlier, counts. The latest of each collector is kept
under its name; so the order in which tallies come, and whether they come again, changes nothing.
Sums cannot be told apart, so nothing is added that may count a report twice: sketches of ids
(`collector.merging.sketch`) show when tallies of two collectors overlap, and when two of one
collector do not contain one another (its store was copied and both went on, or an old copy came
back). What comes back to the collector that counted it is left out: whoever sends tallies could
learn this collector's sums by whether they fit. For the same reason refusals tell how much came,
and how much of it is here too, but not how much there is.

By reports (`merge`): one campaign of another store, in one transaction. A report whose id is here
already is left alone, so merging again changes nothing. What is new counts under the name of the
store that it came from, so that this store's tallies, and those of the other, still fit together
everywhere else. Where the other store has scrubbed its reports, only its tallies tell what they
said; those can be added if none of the scrubbed ids is known here, and not if some are: nobody can
take single reports out of a sum.

Reports that are new here count as received and stored. What the other collector refused, or
received twice, stays in its own books.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from secrets import token_bytes

import numpy as np

from murmuration.campaign.survey import ByPeriod, SurveyCampaign
from murmuration.collector.merging.sketch import EMPTY, Sketch, Sketching, name_of
from murmuration.collector.merging.tallies import (
    CollectorTallies,
    Known,
    Part,
    known,
    own_sketch,
)
from murmuration.collector.publish import served
from murmuration.collector.served import Served
from murmuration.collector.store import Merged, Store
from murmuration.counting.periods import Tallies, minus, plus
from murmuration.definition import document as campaign_document
from murmuration.errors import FormatError, MismatchError, ParameterError
from murmuration.mechanisms.tally import MAX_PEOPLE

Advance = Callable[[int], None]
MOST_MERGED = MAX_PEOPLE >> 1
"""More people than that are not taken over: there must be room for this collector's own."""
SECRET_BYTES = 32
NOBODY = Part({}, EMPTY)
NO_KEY = (
    "tallies without reports are merged by collectors that share a key, by which they see whether "
    "both count the same reports: `murmur merge STORE --key FILE`, with the same file for each"
)
OWN_NAME = (
    "these tallies are from a store that goes by the name of this collector: it is this one, or a "
    "copy of it. Merge a copy by its reports: `murmur merge STORE COPY`"
)


# --- the key -------------------------------------------------------------------------------------


def shared_key(store: Store, others: bytes | None = None) -> bytes:
    """Return the key of a store; if it has none it takes the others', or makes one."""
    with store.transaction():
        secret = store.merge_secret()
        if secret is None:
            secret = others or token_bytes(SECRET_BYTES)
            store.set_merge_secret(secret)
        return secret


def take_key(store: Store, secret: bytes) -> None:
    """Give a store the key that others have. Sketches under another key say nothing any more."""
    if len(secret) != SECRET_BYTES:
        raise ParameterError(f"a key is {SECRET_BYTES} bytes; this one has {len(secret)}")
    store.set_merge_secret(secret)


# --- by tallies ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Taken:
    """What came of merging tallies.

    news, known: how many were news, and how many were not
    left_out: how many were this collector's own, or not for this sender to bring
    is_behind: whether others have counted reports of this collector that it does not have: its
        store is an old copy, or was copied and both went on. For its operator, not for the sender.
    """

    news: int
    known: int
    left_out: int
    is_behind: bool = False


def merge_tallies(
    store: Store,
    served: Served[SurveyCampaign],
    other: CollectorTallies,
    sources: Collection[str] | None = None,
    sketch: Sketch | None = None,
) -> Taken:
    """Take over other collectors' tallies, those of `sources` if they are named.

    `sketch` is that of this store's own ids; taking it beforehand keeps nobody waiting.
    """
    secret = store.merge_secret()
    if secret is None or other.key != name_of(secret):
        raise MismatchError(NO_KEY)
    with store.transaction():
        ours = known(store, served.campaign)
        if other.collector == ours.mine:
            raise MismatchError(OWN_NAME)
        wanted = set(other.parts if sources is None else sources) - {ours.mine}
        brought = {name: part for name, part in other.parts.items() if name in wanted}
        for part in brought.values():
            require_possible(served.campaign, part)
            _require_sampled(ours, part)
        own = Part(
            ours.own.tallies, own_sketch(store, served.campaign) if sketch is None else sketch
        )
        news = _later_ones(ours, own, brought, other.collector)
        _check_sum(ours, {**ours.counted, **news})
        for name, part in news.items():
            _keep(store, served.key, name, part, ours)
    left, back = len(other.parts) - len(brought), other.parts.get(ours.mine)
    is_behind = back is not None and _is_more(ours, back, own)
    return Taken(len(news), len(brought) - len(news), left, is_behind)


def require_possible(campaign: SurveyCampaign, part: Part) -> None:
    """Refuse what no collector can have counted: entries without reports, a sketch of others."""
    n = sum(_possible_reports(campaign, own) for own in part.tallies.values())
    if n and not part.sketch.below:
        raise MismatchError(
            "a tally comes with a sketch of its ids, and this one has none: let its collector send "
            "it again with the key that both share, after merging again what it had merged before"
        )
    if not part.sketch.fits(n):
        raise MismatchError(f"a sketch of {part.sketch.people:,} reports is not that of {n:,}")


def _possible_reports(campaign: SurveyCampaign, tallies: Tallies) -> int:
    """Return how many reports one period's tallies count; refuse entries without reports."""
    frame = campaign.frame
    n = frame.reports(tallies)
    groups = [sum(tally.n for tally in group) for group in frame.by_group(tallies)]
    if sum(groups) != n * len(frame.slots) or max(groups) > n:
        raise MismatchError("no reports have so many entries of each kind")
    return n


def _require_sampled(ours: Known, part: Part) -> None:
    """Refuse a sketch that shows nothing of the reports that it is said to be of."""
    if ours.n(part) and not len(part.sketch.values):
        raise MismatchError(
            f"an empty sketch is that of no reports, and this tally has {ours.n(part):,}: merge "
            "the stores, by their reports"
        )


def _is_more(ours: Known, back: Part, own: Part) -> bool:
    """Whether what comes back has reports that this collector has not. Sums are not looked at."""
    return ours.n(back) > ours.n(own) or len(back.sketch.without(own.sketch).values) > 0


def _later_ones(
    ours: Known, own: Part, brought: Mapping[str, Part], sender: str
) -> dict[str, Part]:
    """Return the parts that are later than what is known; refuse what does not fit together."""
    before = {**ours.counted, ours.mine: own}
    news = {}
    for name, part in brought.items():
        if name in ours.absorbed:
            raise MismatchError(
                "the reports of that collector were merged one by one: merge its store again, and "
                "not its tallies"
            )
        if _is_news(ours, before, name, part, sender):
            news[name] = part
    after = {**before, **news}
    for name in news:
        for other in after.keys() - {name}:
            if other not in news or name < other:
                _require_apart(ours, after[name], after[other])
    return news


def _is_news(ours: Known, before: Mapping[str, Part], name: str, part: Part, sender: str) -> bool:
    """Whether a part counts more than what is known of its collector."""
    if name not in before:
        return True
    old, n = before[name], ours.n(part)
    if n > ours.n(old) and ours.is_reduced(name):
        if name == sender:
            raise MismatchError(
                "some reports of that collector are counted here under another name: merge its "
                "store, and not its tallies"
            )
        return False
    _require_contained(ours, old, part)
    if name == sender and n < ours.n(old):
        raise MismatchError(
            f"that collector has sent a later tally than this one of {n:,} reports: an old copy of "
            "its store came back, or an old tally"
        )
    return n > ours.n(old)


def _require_current(ours: Known, part: Part) -> None:
    """Refuse to go on as a store that has counted less than others know of it."""
    if ours.n(part) > ours.n(ours.own):
        raise MismatchError(
            f"others have counted {ours.n(part):,} reports of this collector, and it has "
            f"{ours.n(ours.own):,}: its store is an old copy. Make a new store, and merge this one "
            "into it"
        )


def _require_contained(ours: Known, one: Part, other: Part) -> None:
    """Refuse two tallies of one collector of which neither contains the other; `other` came."""
    small, large = sorted((one, other), key=ours.n)
    missing = small.sketch.without(large.sketch)
    try:
        grown = minus(large.tallies, small.tallies)
    except FormatError:
        grown = None
    if grown is None or len(missing.values) or (ours.n(small) == ours.n(large) and grown):
        both = small.sketch.shared(large.sketch).people
        raise MismatchError(
            "two stores go by the name of one collector and have parted: of the "
            f"{ours.n(other):,} reports that came, about {both:,} are known here, and there are "
            "others. Merge the stores, by their reports"
        )


def _require_apart(ours: Known, one: Part, other: Part) -> None:
    """Refuse tallies of two collectors that count the same reports; `one` came."""
    both = one.sketch.shared(other.sketch)
    if len(both.values):
        raise MismatchError(
            f"about {both.people:,} reports would count twice: they are among the {ours.n(one):,} "
            "of one collector, and another has counted them, too. Merge the stores, by their "
            "reports"
        )


def _keep(store: Store, key: int, name: str, part: Part, ours: Known, held: bool = False) -> None:
    """Keep a collector's part, instead of the one before."""
    only = CollectorTallies(ours.campaign, {name: part}, name, ours.key)
    store.set_merged(key, Merged(name, ours.n(part), only.to_bytes()), held=held)


def _check_sum(ours: Known, counted: Mapping[str, Part]) -> None:
    """Refuse more people than leave room for this collector's own."""
    if sum(map(ours.n, counted.values())) > MOST_MERGED:
        raise MismatchError("with these tallies there are more people than can be")


def remove(store: Store, name: str, source: str) -> int | None:
    """Forget the tallies of a source; its reports that were merged one by one stay.

    Return how many reports count no more, or None if nothing was known of that source. This
    collector's own are not touched.
    """
    gone = found = 0
    with store.transaction():
        for digest in store.digests(name):
            key, document = store.key_of(digest), store.document_of(name, digest)
            if key is None or document is None:
                continue
            ours = known(store, campaign_document.read(document, SurveyCampaign))
            counted, held = ours.counted.get(source), ours.held.get(source)
            found += counted is not None or source in ours.absorbed
            if held is None and counted is not None:
                store.drop_merged(key, source)
                gone += ours.n(counted)
            elif held is not None and not ours.is_whole(source):
                _keep(store, key, source, held, ours)
                gone += ours.n(counted) - ours.n(held)
    return gone if found else None


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


@dataclass(frozen=True)
class Fresh:
    """The reports of another store that were not here, and a sketch of all that it has."""

    tallies: ByPeriod
    sketch: Sketch
    all: Sketch


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
    theirs = served(other, name).of_kind(SurveyCampaign)
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
    campaign, key, secret = (
        campaign_document.read(document, SurveyCampaign),
        into.open_collection(digest),
        shared_key(into, other.merge_secret()),
    )
    ours, theirs = known(into, campaign), known(other, campaign)
    ours = replace(ours, own=Part(ours.own.tallies, own_sketch(into, campaign)))
    theirs = theirs if theirs.key == ours.key else _without_sketches(theirs)
    _require_not_absorbed(ours, theirs)
    fresh = _add_reports(into, other, theirs, secret, joined, advance)
    after, changed = _attributed(ours, theirs, fresh)
    told = [name for name in theirs.counted if _is_told(after, theirs, name)]
    for collector in told:
        require_possible(campaign, theirs.counted[collector])
    after = replace(after, counted={**after.counted, **{c: theirs.counted[c] for c in told}})
    _require_fitting(after, changed | set(told))
    _check_sum(after, after.counted)
    into.add_tallies(key, minus(after.own.tallies, ours.own.tallies))
    for collector in changed - {after.mine}:
        _keep(into, key, collector, after.held[collector], after, held=True)
    for collector in (changed | set(told)) - {after.mine}:
        _keep(into, key, collector, after.counted[collector], after)
    joined.collectors += len(told)


def _without_sketches(theirs: Known) -> Known:
    """Return what a store with another key knows: its sketches say nothing here."""
    counted, held = (
        {name: Part(part.tallies) for name, part in parts.items()}
        for parts in (theirs.counted, theirs.held)
    )
    return replace(theirs, counted=counted, held=held)


def _require_not_absorbed(ours: Known, theirs: Known) -> None:
    """Refuse what an earlier release has counted in another collector's tally."""
    holder = ours.absorbed.get(theirs.mine, ours.mine)
    inside = [name for name, by in theirs.absorbed.items() if by == theirs.mine]
    if holder in ours.counted or any(name in ours.counted for name in inside):
        raise MismatchError(
            "reports of that store are counted already, in the tally of another collector: they "
            "would count twice. `murmur merge --remove` forgets such a tally"
        )


def _add_reports(
    into: Store,
    other: Store,
    theirs: Known,
    secret: bytes,
    joined: Joined,
    advance: Advance | None,
) -> Fresh:
    """Add the reports that are not here yet, but to no tally; return what they count."""
    campaign = theirs.campaign
    ours, number = into.open_collection(campaign.digest), other.key_of(campaign.digest) or 0
    counted: ByPeriod = {}
    left = theirs.physical()
    new, everything = Sketching(secret), Sketching(secret)
    scrubbed_new = scrubbed_known = 0
    for ids, rows, kept in other.kept_reports(number, campaign.row_bytes):
        if not campaign.valid(rows).all():
            raise FormatError(f"{campaign.name}: the other store has reports that nobody can send")
        left = _minus(left, campaign.counted(rows))
        stored = rows if campaign.terms.keep_reports else rows[:, :0]
        fresh = into.add_reports(ours, ids[kept], stored)
        counted = plus(counted, campaign.counted(rows[fresh]))
        scrubbed = np.delete(ids, kept, axis=0)
        unread = into.add_reports(ours, scrubbed, np.zeros((len(scrubbed), 0), dtype=np.uint8))
        for added in (ids[kept][fresh], scrubbed[unread]):
            new.add(added)
        everything.add(ids)
        scrubbed_new += int(unread.sum())
        scrubbed_known += int((~unread).sum())
        joined.new += int(fresh.sum()) + int(unread.sum())
        joined.known += int((~fresh).sum()) + int((~unread).sum())
        if advance is not None:
            advance(len(ids))
    if theirs.n(Part(left)) != scrubbed_new + scrubbed_known:
        raise FormatError(f"{campaign.name}: the other store's reports and tallies do not agree")
    if scrubbed_new and scrubbed_known:
        raise MismatchError(
            f"{campaign.name}: the other store keeps no reports, only their sum, and of these "
            f"{scrubbed_known:,} are counted here already and {scrubbed_new:,} are not: they "
            "cannot be told apart in a sum. Nothing was merged."
        )
    return Fresh(plus(counted, left) if scrubbed_new else counted, new.sketch, everything.sketch)


def _minus(tallies: ByPeriod, counted: ByPeriod) -> ByPeriod:
    """Take tallies out of larger ones; refuse what does not fit."""
    try:
        return minus(tallies, counted)
    except FormatError:
        raise FormatError("the other store's reports and tallies do not agree") from None


# --- under whose name ----------------------------------------------------------------------------


def _attributed(ours: Known, theirs: Known, fresh: Fresh) -> tuple[Known, set[str]]:
    """Count fresh reports under the names of the collectors that counted them.

    The other store says how much of each further collector it holds. What is fresh and not
    explained by that was counted by the other store itself. If less is fresh than it has counted,
    the rest is here already, under another name, and stays there.
    """
    after, rest, changed = ours, fresh.tallies, {theirs.mine}
    for name, part in theirs.held.items():
        more = _more_of(after, name, part)
        left = None if more is None else _taken(rest, more)
        if more is not None and left is not None:
            after, rest = _grown(after, name, part, more), left
            changed.add(name)
        elif ours.n(part) > ours.n(ours.held.get(name)) and not ours.is_whole(name):
            raise MismatchError(
                "a tally that is counted here and reports of that store are of one collector, and "
                "do not fit together: merge that collector's store first"
            )
    new, pure = _only(theirs, fresh.sketch), _only(theirs, fresh.all)
    return _with_own(after, theirs.mine, Part(theirs.own.tallies, pure), Part(rest, new)), changed


def _only(theirs: Known, sketch: Sketch) -> Sketch:
    """Return the sketch of what a store has counted itself, from one of all that it has."""
    for part in theirs.elsewhere():
        sketch = sketch.without(part.sketch)
    return sketch


def _taken(whole: ByPeriod, part: ByPeriod) -> ByPeriod | None:
    """Take a part out of tallies; None if it is not in them."""
    try:
        return minus(whole, part)
    except FormatError:
        return None


def _here(after: Known, name: str) -> Part:
    """Return what is here of a collector, report by report."""
    return after.own if name == after.mine else after.held.get(name, NOBODY)


def _more_of(after: Known, name: str, part: Part) -> ByPeriod | None:
    """Return by how much a part is more than what is here; None if it is not, or does not fit."""
    here = _here(after, name)
    if after.n(part) <= after.n(here) or len(here.sketch.without(part.sketch).values):
        return None
    return _taken(part.tallies, here.tallies)


def _grown(after: Known, name: str, part: Part, more: ByPeriod) -> Known:
    """Return what is known when the reports of a later part are here."""
    here = _here(after, name)
    if name == after.mine:
        return replace(after, own=part)
    counted = after.counted.get(name, here)
    if after.is_reduced(name):
        new = part.sketch.without(here.sketch)
        counted = Part(plus(counted.tallies, more), counted.sketch.joined(new))
    else:
        counted = max(part, counted, key=after.n)
    return _updated(after, name, counted, part)


def _with_own(after: Known, name: str, part: Part, new: Part) -> Known:
    """Return what is known with what the other store has counted itself, of which `new` is new."""
    here = _here(after, name)
    union = Part(plus(here.tallies, new.tallies), here.sketch.joined(new.sketch))
    if name == after.mine:  # a copy of this store
        return replace(after, own=union)
    counted = after.counted.get(name, NOBODY)
    if after.n(counted) <= after.n(here):
        held = max(part, here, union, key=after.n)
        counted = Part(plus(counted.tallies, new.tallies), counted.sketch.joined(new.sketch))
        counted = held if counted.tallies == held.tallies else counted
        return _updated(after, name, counted, held)
    _require_contained(after, counted, part)
    held = max(part, here, key=after.n)
    if union.tallies == held.tallies:
        return _updated(after, name, max(held, counted, key=after.n), held)
    if after.n(part) < after.n(counted):
        raise MismatchError(
            f"a tally of {after.n(counted):,} reports of that store is known, and it has "
            f"{after.n(part):,}: merge the store as it is now"
        )
    return _updated(after, name, union, held)


def _updated(after: Known, name: str, counted: Part, held: Part) -> Known:
    return replace(
        after,
        counted={**after.counted, name: counted},
        held={**after.held, name: held},
        absorbed={other: by for other, by in after.absorbed.items() if other != name},
    )


def _is_told(after: Known, theirs: Known, name: str) -> bool:
    """Whether the other store has a later tally of a further collector."""
    part = theirs.counted[name]
    if theirs.is_whole(name) or name in after.absorbed or after.is_reduced(name):
        return False
    known_part = after.own if name == after.mine else after.counted.get(name)
    if known_part is None:
        return True
    _require_contained(after, known_part, part)
    if name == after.mine:
        _require_current(after, part)
    return after.n(part) > after.n(known_part)


def _require_fitting(after: Known, changed: Iterable[str]) -> None:
    """Refuse tallies that overlap; where the reports are here, none of them counts twice."""
    parts = {**after.counted, after.mine: after.own}
    whole = {name for name in parts if name == after.mine or after.is_whole(name)}
    for name in changed:
        for other in parts.keys() - {name}:
            if name not in whole or other not in whole:
                _require_apart(after, parts[name], parts[other])
