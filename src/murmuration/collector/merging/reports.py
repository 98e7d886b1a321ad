"""The reports of another store into this one: each counts exactly once, in one transaction.

A report whose id is here already is left alone, so merging again changes nothing. What is new
counts under the name of the store that it came from, so that this store's tallies, and those of the
other, still fit together everywhere else. Where the other store has scrubbed its reports, only its
tallies tell what they said; those can be added if none of the scrubbed ids is known here, and not
if some are: nobody can take single reports out of a sum.

Reports that are new here count as received and stored. What the other collector refused, or
received twice, stays in its own books.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np

from murmuration.campaign.form import ByPeriod
from murmuration.campaign.survey import SurveyCampaign
from murmuration.collector.merging.key_file import shared_key
from murmuration.collector.merging.known import Known, known, own_sketch
from murmuration.collector.merging.tallies import (
    check_sum,
    keep,
    require_apart,
    require_contained,
    require_current,
    require_possible,
)
from murmuration.collector.publish import served
from murmuration.collector.shown import show
from murmuration.collector.store import Store
from murmuration.counting.container import Part
from murmuration.counting.periods import minus, plus
from murmuration.counting.sketch import EMPTY, Sketch, Sketching
from murmuration.definition import document as campaign_document
from murmuration.errors import FormatError, MismatchError

Advance = Callable[[int], None]
NOBODY = Part({}, EMPTY)


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
    fresh = _add_reports(into, other, theirs, secret, joined, advance)
    after, changed = _attributed(ours, theirs, fresh)
    told = [name for name in theirs.counted if _is_told(after, theirs, name)]
    for collector in told:
        require_possible(campaign, theirs.counted[collector])
    after = replace(after, counted={**after.counted, **{c: theirs.counted[c] for c in told}})
    _require_fitting(after, changed | set(told))
    check_sum(after, after.counted)
    into.add_tallies(key, minus(after.own.tallies, ours.own.tallies))
    for collector in changed - {after.mine}:
        keep(into, key, collector, after.held[collector], after, held=True)
    for collector in (changed | set(told)) - {after.mine}:
        keep(into, key, collector, after.counted[collector], after)
    show(into, key, campaign)
    joined.collectors += len(told)


def _without_sketches(theirs: Known) -> Known:
    """Return what a store with another key knows: its sketches say nothing here."""
    counted, held = (
        {name: Part(part.tallies) for name, part in parts.items()}
        for parts in (theirs.counted, theirs.held)
    )
    return replace(theirs, counted=counted, held=held)


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
    for ids, rows, kept in other.kept_reports(number, campaign.form.row_bytes):
        if not campaign.form.valid(rows).all():
            raise FormatError(f"{campaign.name}: the other store has reports that nobody can send")
        left = _minus(left, campaign.form.tallies(rows))
        stored = rows if campaign.terms.keep_reports else rows[:, :0]
        fresh = into.add_reports(ours, ids[kept], stored)
        counted = plus(counted, campaign.form.tallies(rows[fresh]))
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
    require_contained(after, counted, part)
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
    )


def _is_told(after: Known, theirs: Known, name: str) -> bool:
    """Whether the other store has a later tally of a further collector."""
    part = theirs.counted[name]
    if theirs.is_whole(name) or after.is_reduced(name):
        return False
    known_part = after.own if name == after.mine else after.counted.get(name)
    if known_part is None:
        return True
    require_contained(after, known_part, part)
    if name == after.mine:
        require_current(after, part)
    return after.n(part) > after.n(known_part)


def _require_fitting(after: Known, changed: Iterable[str]) -> None:
    """Refuse tallies that overlap; where the reports are here, none of them counts twice."""
    parts = {**after.counted, after.mine: after.own}
    whole = {name for name in parts if name == after.mine or after.is_whole(name)}
    for name in changed:
        for other in parts.keys() - {name}:
            if name not in whole or other not in whole:
                require_apart(after, parts[name], parts[other])
