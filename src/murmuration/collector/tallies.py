"""Tallies by the collector that counted them: of a store, and as bytes for another collector.

Bytes: magic, version, length and checksum of a JSON head (campaign, digest, the collectors and the
lengths of their tallies), that head, then the tallies, each with its own head and checksum. Without
the first checksum a damaged collector's name would be another collector, and count twice.
"""

from __future__ import annotations

import json
import re
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from murmuration.campaign.model import Campaign
from murmuration.collector.store import Merged, Store
from murmuration.errors import FormatError, MismatchError, MurmurationError
from murmuration.mechanisms.tally import Tally

MAGIC = b"MURMTLYS"
VERSION = 1
HEAD = struct.Struct("<8sHII")
MOST_HEAD = 1 << 24
NAME = re.compile(r"[0-9a-f]{16}")
"""A collector's: random, given when its store is made."""
ABSORBED = 1 << 62
"""In place of a collector's number of people: its reports were merged, so no tally of it counts."""


@dataclass(frozen=True)
class CollectorTallies:
    """The tallies of one campaign, by the collector that counted them."""

    campaign: Campaign
    parts: Mapping[str, tuple[Tally, ...]]
    absorbed: Mapping[str, str] = field(default_factory=dict)
    """Collectors whose reports were merged one by one, and by whom: in whose tally they count."""

    def total(self) -> tuple[Tally, ...]:
        """Add up all collectors' tallies, cell by cell."""
        columns = zip(*self.parts.values(), strict=True)
        return tuple(Tally.merge(column) for column in columns)

    def to_bytes(self) -> bytes:
        """Serialise; the same tallies are the same bytes."""
        packed = {
            name: [tally.to_bytes() for tally in tallies]
            for name, tallies in sorted(self.parts.items())
        }
        head = {
            "campaign": self.campaign.name,
            "digest": self.campaign.digest,
            "absorbed": dict(sorted(self.absorbed.items())),
            "sources": {name: [len(data) for data in parts] for name, parts in packed.items()},
        }
        text = json.dumps(head, sort_keys=True).encode()
        body = b"".join(data for parts in packed.values() for data in parts)
        return HEAD.pack(MAGIC, VERSION, len(text), zlib.crc32(text)) + text + body

    @classmethod
    def from_bytes(cls, data: bytes, campaign: Campaign) -> CollectorTallies:
        """Read tallies of this campaign; anything else is refused with the reason."""
        head, at = _head(data)
        if head.get("digest") != campaign.digest:
            raise MismatchError("these are tallies of another campaign, or of another version")
        try:
            lengths = {str(c): [int(n) for n in sizes] for c, sizes in head["sources"].items()}
            absorbed = {str(c): str(holder) for c, holder in dict(head["absorbed"]).items()}
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
            raise FormatError("the head of these tallies cannot be read") from None
        named = all(map(NAME.fullmatch, [*absorbed, *absorbed.values()]))
        if not named or absorbed.keys() & lengths.keys():
            raise FormatError("the head of these tallies cannot be read")
        parts = {}
        for collector, sizes in lengths.items():
            if not NAME.fullmatch(collector) or len(sizes) != len(campaign.frame.cells):
                raise FormatError("these tallies do not have one for each cell of the campaign")
            parts[collector], at = _tallies(data, at, sizes, campaign)
        if at != len(data):
            raise FormatError("there are bytes after the last tally")
        return cls(campaign, parts, absorbed)


def _head(data: bytes) -> tuple[dict[str, Any], int]:
    if len(data) < HEAD.size or not data.startswith(MAGIC):
        raise FormatError("these bytes are no tallies")
    _, version, length, checksum = HEAD.unpack_from(data)
    if version != VERSION or length > min(MOST_HEAD, len(data)):
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
    return head, HEAD.size + length


def _tallies(
    data: bytes, at: int, sizes: list[int], campaign: Campaign
) -> tuple[tuple[Tally, ...], int]:
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


# --- of a store ----------------------------------------------------------------------------------


def by_collector(store: Store, campaign: Campaign) -> CollectorTallies:
    """Return the tallies of this collector and of those that were merged into it."""
    mechanisms = campaign.frame.cells
    with store.snapshot():  # a merge in between would count reports twice, or not at all
        parts = {store.collector_name(): store.tallies(campaign.digest, mechanisms)}
        key = store.key_of(campaign.digest)
        known = store.merged(key) if key is not None else []
    for merged in known:
        if merged.n != ABSORBED:
            parts.update(CollectorTallies.from_bytes(merged.tallies, campaign).parts)
    return CollectorTallies(campaign, parts, absorbed(known, campaign))


def total(store: Store, campaign: Campaign) -> tuple[Tally, ...]:
    """Return the tallies of everybody, one per cell."""
    return by_collector(store, campaign).total()


def absorbed(known: Sequence[Merged], campaign: Campaign) -> dict[str, str]:
    """Return the collectors whose reports were merged one by one, and in whose tally they count."""
    holders = {}
    for merged in known:
        if merged.n == ABSORBED:
            (holder,) = CollectorTallies.from_bytes(merged.tallies, campaign).parts
            holders[merged.collector] = holder
    return holders
