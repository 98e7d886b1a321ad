"""Tallies by the collector that counted them: of a store, and as bytes for another collector.

A *part* is one collector's tallies, by period, and the sketch of the ids that they count. A later
part of a collector counts all that an earlier one counted, in each period, so the larger replaces
the smaller. A campaign without periods has one, of the number 0.

Bytes: magic, version, length and checksum of a JSON head (campaign, digest, who wrote it, which key
the sketches are under, and for each collector the lengths of its tallies, by period if there are
periods, and limit, length and checksum of its sketch), that head, then tallies and sketches, each
tally with its own head and checksum. Without the first checksum a damaged collector's name would be
another collector, and count twice.
"""

from __future__ import annotations

import json
import re
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from murmuration.campaign.periods import last_possible
from murmuration.campaign.survey import ByPeriod, SurveyCampaign
from murmuration.collector.merging.sketch import EMPTY, NOTHING, Sketch, name_of, sketched
from murmuration.collector.store import Merged, Store
from murmuration.counting.periods import Tallies, is_anything, plus, pooled
from murmuration.errors import FormatError, MismatchError, MurmurationError
from murmuration.mechanisms.tally import Tally

MAGIC = b"MURMTLYS"
VERSION, BY_PERIOD = 2, 3
"""1 had no sketches; stores may have such parts. 3 is that of a campaign with periods."""
HEAD = struct.Struct("<8sHII")
MOST_HEAD = 1 << 24
NAME = re.compile(r"[0-9a-f]{16}")
"""A collector's: random, given when its store is made."""
ABSORBED = 1 << 62
"""In version 1, in place of a collector's number of people: its reports are in another's tally."""


@dataclass(frozen=True)
class Part:
    """What one collector has counted: tallies by period, only of periods that have any."""

    tallies: ByPeriod
    sketch: Sketch = NOTHING

    def __post_init__(self) -> None:
        some = {p: own for p, own in sorted(self.tallies.items()) if is_anything(own)}
        object.__setattr__(self, "tallies", some)


@dataclass(frozen=True)
class CollectorTallies:
    """The tallies of one campaign, by the collector that counted them."""

    campaign: SurveyCampaign
    parts: Mapping[str, Part]
    collector: str = ""
    """Who wrote them down."""
    key: str = ""
    """The name of the key that sketches are under; "" if there is none."""

    def total(self) -> Tallies:
        """Add up all collectors' tallies of all periods, cell by cell."""
        return pooled(self.campaign, self.by_period())

    def by_period(self) -> ByPeriod:
        """Add up all collectors' tallies, period by period."""
        found: ByPeriod = {}
        for part in self.parts.values():
            found = plus(found, part.tallies)
        return dict(sorted(found.items()))

    def to_bytes(self) -> bytes:
        """Serialise; the same tallies are the same bytes."""
        parts = dict(sorted(self.parts.items()))
        packed = {name: self._packed(part) for name, part in parts.items()}
        sketches = {name: part.sketch for name, part in parts.items()}
        samples = {name: s.values.astype("<u8").tobytes() for name, s in sketches.items()}
        head = {
            "campaign": self.campaign.name,
            "digest": self.campaign.digest,
            "collector": self.collector,
            "key": self.key,
            "sources": {name: self._lengths(found) for name, found in packed.items()},
            "sketches": {
                name: [f"{sketches[name].below:x}", len(data) // 8, zlib.crc32(data)]
                for name, data in samples.items()
            },
        }
        text = json.dumps(head, sort_keys=True).encode()
        body = b"".join(
            b"".join(b"".join(own) for own in packed[name].values()) + samples[name]
            for name in parts
        )
        version = VERSION if self.campaign.every is None else BY_PERIOD
        return HEAD.pack(MAGIC, version, len(text), zlib.crc32(text)) + text + body

    def _packed(self, part: Part) -> dict[int, list[bytes]]:
        """Return tallies as bytes; without periods there is always one for each cell."""
        found = part.tallies
        if self.campaign.every is None:
            found = found or {0: self.campaign.frame.empty()}
        return {period: [tally.to_bytes() for tally in own] for period, own in found.items()}

    def _lengths(self, packed: Mapping[int, list[bytes]]) -> list[int] | dict[str, list[int]]:
        sizes = {str(period): [len(data) for data in own] for period, own in packed.items()}
        return sizes["0"] if self.campaign.every is None else sizes

    @classmethod
    def from_bytes(cls, data: bytes, campaign: SurveyCampaign) -> CollectorTallies:
        """Read tallies of this campaign; anything else is refused with the reason."""
        head, at = _head(data)
        if head.get("digest") != campaign.digest:
            raise MismatchError("these are tallies of another campaign, or of another version")
        try:
            lengths = {str(c): _sizes(campaign, said) for c, said in head["sources"].items()}
            limits = {
                str(c): (int(b, 16), int(n), int(crc))
                for c, (b, n, crc) in head["sketches"].items()
            }
            collector, key = str(head["collector"]), str(head["key"])
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
            raise FormatError("the head of these tallies cannot be read") from None
        names = [*lengths, *filter(None, (collector, key))]
        if limits.keys() != lengths.keys() or not all(map(NAME.fullmatch, names)):
            raise FormatError("the head of these tallies cannot be read")
        parts = {}
        for name, sizes in lengths.items():
            tallies = {}
            for period, own in sizes.items():
                tallies[period], at = _tallies(data, at, own, campaign)
            sketch, at = _sketch(data, at, *limits[name])
            parts[name] = Part(tallies, sketch)
        if at != len(data):
            raise FormatError("there are bytes after the last tally")
        return cls(campaign, parts, collector, key)


def _sizes(campaign: SurveyCampaign, said: Any) -> dict[int, list[int]]:
    """Return the lengths of tallies by period, as a head says them."""
    if campaign.every is None:
        return {0: [int(n) for n in said]}
    found = {int(period): [int(n) for n in sizes] for period, sizes in said.items()}
    last = last_possible(campaign.every)
    if [str(period) for period in found] != list(said) or not all(0 <= p <= last for p in found):
        raise ValueError("periods are numbers, each written in one way")
    return found


def _head(data: bytes) -> tuple[dict[str, Any], int]:
    if len(data) < HEAD.size or not data.startswith(MAGIC):
        raise FormatError("these bytes are no tallies")
    _, version, length, checksum = HEAD.unpack_from(data)
    if version not in (1, VERSION, BY_PERIOD) or length > min(MOST_HEAD, len(data)):
        raise FormatError(f"tallies of version {version} cannot be read")
    text = data[HEAD.size : HEAD.size + length]
    if zlib.crc32(text) != checksum:
        raise FormatError("the head of these tallies is damaged (its checksum does not match)")
    try:
        head = json.loads(text)
    except (ValueError, RecursionError):
        raise FormatError("the head of these tallies cannot be read") from None
    if not isinstance(head, dict):
        raise FormatError("the head of these tallies cannot be read")
    if version == 1 and isinstance(head.get("sources"), dict):
        head |= {
            "collector": "",
            "key": "",
            "sketches": dict.fromkeys(head["sources"], ("0", 0, 0)),
        }
    return head, HEAD.size + length


def _tallies(
    data: bytes, at: int, sizes: list[int], campaign: SurveyCampaign
) -> tuple[Tallies, int]:
    if len(sizes) != len(campaign.frame.cells):
        raise FormatError("these tallies do not have one for each cell of the campaign")
    found = []
    for size, law in zip(sizes, campaign.frame.cells, strict=True):
        if size < 0 or at + size > len(data):
            raise FormatError("these tallies are cut off")
        try:
            found.append(Tally.from_bytes(data[at : at + size], law))
        except (MurmurationError, ValueError, KeyError, TypeError) as problem:
            raise FormatError(f"a tally cannot be read: {problem}") from None
        at += size
    return tuple(found), at


def _sketch(data: bytes, at: int, below: int, size: int, checksum: int) -> tuple[Sketch, int]:
    end = at + 8 * size
    if size < 0 or end > len(data):
        raise FormatError("these tallies are cut off")
    if zlib.crc32(data[at:end]) != checksum:
        raise FormatError("a sketch is damaged (its checksum does not match)")
    return Sketch(below, np.frombuffer(data[at:end], dtype="<u8").astype(np.uint64)), end


# --- of a store ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Known:
    """All that a store has counted of one campaign, or was told.

    mine: this collector's name
    key: the name of its key
    own: what it has counted itself, without a sketch: that takes a look at every id
    counted: what counts of other collectors
    held: of which other collectors it has the reports themselves, and up to which part. Less may
        be counted (the rest is counted under another name, too), or more (a later tally came).
    absorbed: from an earlier release: whose reports are in somebody's tally, and in whose
    """

    campaign: SurveyCampaign
    mine: str
    key: str
    own: Part
    counted: Mapping[str, Part]
    held: Mapping[str, Part]
    absorbed: Mapping[str, str]

    def total(self) -> Tallies:
        """Return the tallies of everybody, over all periods."""
        return self.named().total()

    def by_period(self) -> ByPeriod:
        """Return the tallies of everybody, period by period."""
        return self.named().by_period()

    def named(self) -> CollectorTallies:
        """Return all that counts, by the collector that counted it."""
        parts = {self.mine: self.own, **self.counted}
        return CollectorTallies(self.campaign, parts, self.mine, self.key)

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
        found = self.own.tallies
        for part in self.elsewhere():
            found = plus(found, part.tallies)
        return found

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
    counted = {one.collector: _part(one, campaign, key) for one in told if one.n != ABSORBED}
    held = {one.collector: _part(one, campaign, key) for one in here}
    return Known(campaign, mine, key, Part(own), counted, held, _absorbed(told, campaign))


def _part(merged: Merged, campaign: SurveyCampaign, key: str) -> Part:
    """Read a stored part; a sketch under another key says nothing."""
    found = CollectorTallies.from_bytes(merged.tallies, campaign)
    (part,) = found.parts.values()
    return part if key and found.key == key else Part(part.tallies)


def _absorbed(told: Sequence[Merged], campaign: SurveyCampaign) -> dict[str, str]:
    holders = {}
    for merged in told:
        if merged.n == ABSORBED:
            (holder,) = CollectorTallies.from_bytes(merged.tallies, campaign).parts
            holders[merged.collector] = holder
    return holders


def total(store: Store, campaign: SurveyCampaign) -> Tallies:
    """Return the tallies of everybody, one per cell, over all periods."""
    return known(store, campaign).total()


def by_period(store: Store, campaign: SurveyCampaign) -> ByPeriod:
    """Return the tallies of everybody, period by period."""
    return known(store, campaign).by_period()


def exported(store: Store, campaign: SurveyCampaign) -> CollectorTallies:
    """Return all tallies for another collector, this one's with a sketch of its ids."""
    with store.snapshot():
        found = known(store, campaign)
        own = Part(found.own.tallies, own_sketch(store, campaign))
    return replace(found, own=own).named()


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
        chunks = (ids for ids, _, _ in store.kept_reports(number, campaign.row_bytes))
        found = sketched(chunks, secret)
    for part in others:
        found = found.without(part.sketch)
    return found
