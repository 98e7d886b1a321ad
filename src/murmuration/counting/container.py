"""The tallies of one campaign as bytes: what `murmur tally` writes and collectors send each other.

A *part* is what one collector has counted, by period, and a sketch of the ids that it counts. A
later part of a collector counts all that an earlier one counted, in each period, so the larger
replaces the smaller. Files of reports that nobody's store has counted are one part without a name
and, unless it is asked for, without a sketch. A campaign without periods has one, of the number 0.

Bytes: magic, version, length and checksum of a JSON head; the head (campaign, digest, length and
checksum of the published document, what became of the reports, who wrote it, which key sketches
are under, and for each part the lengths of its tallies by period and the limit, length and checksum
of its sketch); the document, if it is there; tallies and sketches. Each tally has its own head and
checksum. Without the first checksum a damaged name would be another collector, and count twice. The
same tallies are the same bytes.
"""

from __future__ import annotations

import json
import re
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from murmuration.campaign.form import ByPeriod
from murmuration.campaign.periods import last_possible
from murmuration.campaign.survey import SurveyCampaign
from murmuration.counting.periods import Tallies, is_anything, plus, pooled
from murmuration.counting.sketch import NOTHING, Sketch
from murmuration.definition import document as campaign_document
from murmuration.errors import FormatError, MismatchError, MurmurationError
from murmuration.mechanisms.tally import Tally

MAGIC = b"MURMTLYS"
VERSION = 1
HEAD = struct.Struct("<8sHII")
MOST_HEAD = 1 << 24
NAME = re.compile(r"[0-9a-f]{16}")
"""A collector's: random, given when its store is made."""
UNREADABLE = "the head of these tallies cannot be read"


@dataclass(frozen=True)
class Part:
    """What one collector has counted: tallies by period, only of periods that have any."""

    tallies: ByPeriod
    sketch: Sketch = NOTHING

    def __post_init__(self) -> None:
        counted = {p: own for p, own in sorted(self.tallies.items()) if is_anything(own)}
        object.__setattr__(self, "tallies", counted)


@dataclass(frozen=True)
class CampaignTallies:
    """The tallies of one campaign, by the collector that counted them."""

    campaign: SurveyCampaign
    parts: Mapping[str, Part]
    """By the collector's name; "" for files that were counted without one."""
    collector: str = ""
    """Who wrote them down."""
    key: str = ""
    """The name of the key that sketches are under; "" if there is none."""
    reports: Mapping[str, Any] = field(default_factory=dict)
    """Of files: how many reports were read, counted, duplicates, and refused by reason."""

    @classmethod
    def of_files(
        cls,
        campaign: SurveyCampaign,
        tallies: ByPeriod,
        reports: Mapping[str, Any],
        sketch: Sketch = NOTHING,
        name: str = "",
        key: str = "",
    ) -> Self:
        """Return what files of reports add up to; others can merge it if it has name and key."""
        return cls(campaign, {name: Part(tallies, sketch)}, name, key, reports)

    def total(self) -> Tallies:
        """Add up all parts and all periods, cell by cell."""
        return pooled(self.campaign, self.by_period())

    def by_period(self) -> ByPeriod:
        """Add up all parts, period by period."""
        whole: ByPeriod = {}
        for part in self.parts.values():
            whole = plus(whole, part.tallies)
        return dict(sorted(whole.items()))

    def to_bytes(self, document: bool = True) -> bytes:
        """Serialise; without the `document` only who has the campaign can read it."""
        text = campaign_document.publish(self.campaign, 1) if document else b""
        parts = {name: _packed(part) for name, part in sorted(self.parts.items())}
        head = {
            "campaign": self.campaign.name,
            "digest": self.campaign.digest,
            "document": [len(text), zlib.crc32(text)],
            "reports": dict(self.reports),
            "collector": self.collector,
            "key": self.key,
            "parts": {name: part.head for name, part in parts.items()},
        }
        front = json.dumps(head, sort_keys=True).encode()
        start = HEAD.pack(MAGIC, VERSION, len(front), zlib.crc32(front))
        return b"".join([start, front, text, *(part.body for part in parts.values())])

    @classmethod
    def from_bytes(cls, data: bytes, campaign: SurveyCampaign | None = None) -> Self:
        """Read tallies of this campaign, or of the one whose document is in the bytes.

        Anything else is refused with the reason.
        """
        head, at = _head(data)
        document, at = _document(head, data, at)
        if campaign is None and not document:
            raise MismatchError(
                "these tallies do not say what was asked: give the campaign, as in "
                'murmuration.open(file, campaign=murmuration.load("campaign.toml"))'
            )
        campaign = campaign or campaign_document.read(document, SurveyCampaign)
        if head.get("digest") != campaign.digest:
            raise MismatchError("these are tallies of another campaign, or of another version")
        try:
            collector, key, reports = str(head["collector"]), str(head["key"]), {**head["reports"]}
            listed = {str(name): _Listed.of(campaign, said) for name, said in head["parts"].items()}
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
            raise FormatError(UNREADABLE) from None
        if not all(map(NAME.fullmatch, filter(None, (*listed, collector, key)))):
            raise FormatError(UNREADABLE)
        parts = {}
        for name, part in listed.items():
            parts[name], at = part.read(data, at, campaign)
        if at != len(data):
            raise FormatError("there are bytes after the last tally")
        return cls(campaign, parts, collector, key, reports)


@dataclass(frozen=True)
class _Packed:
    """A part as bytes, and what the head says of it."""

    head: dict[str, Any]
    body: bytes


def _packed(part: Part) -> _Packed:
    tallies = {p: [tally.to_bytes() for tally in own] for p, own in part.tallies.items()}
    sample = part.sketch.values.astype("<u8").tobytes()
    head = {
        "tallies": {str(period): [len(data) for data in own] for period, own in tallies.items()},
        "sketch": [f"{part.sketch.below:x}", len(part.sketch.values), zlib.crc32(sample)],
    }
    return _Packed(head, b"".join([*(data for own in tallies.values() for data in own), sample]))


@dataclass(frozen=True)
class _Listed:
    """What a head says of a part: lengths of tallies by period; of the sketch limit, size, sum."""

    tallies: dict[int, list[int]]
    below: int
    size: int
    checksum: int

    @classmethod
    def of(cls, campaign: SurveyCampaign, said: Any) -> Self:
        """Read it; raise what Python raises where it is something else."""
        tallies = {int(period): [int(n) for n in own] for period, own in said["tallies"].items()}
        last = 0 if campaign.every is None else last_possible(campaign.every)
        if [*map(str, tallies)] != [*said["tallies"]] or not all(0 <= p <= last for p in tallies):
            raise ValueError("periods are numbers that are possible, each written in one way")
        below, size, checksum = said["sketch"]
        return cls(tallies, int(below, 16), int(size), int(checksum))

    def read(self, data: bytes, at: int, campaign: SurveyCampaign) -> tuple[Part, int]:
        """Return the part, and where it ends."""
        tallies = {}
        for period, sizes in self.tallies.items():
            tallies[period], at = _tallies(data, at, sizes, campaign)
        end = at + 8 * self.size
        if self.size < 0 or end > len(data):
            raise FormatError("these tallies are cut off")
        if zlib.crc32(data[at:end]) != self.checksum:
            raise FormatError("a sketch is damaged (its checksum does not match)")
        sample = np.frombuffer(data[at:end], dtype="<u8").astype(np.uint64)
        return Part(tallies, Sketch(self.below, sample)), end


def _head(data: bytes) -> tuple[dict[str, Any], int]:
    if len(data) < HEAD.size or not data.startswith(MAGIC):
        raise FormatError("these bytes are no tallies of a campaign")
    _, version, length, checksum = HEAD.unpack_from(data)
    if version != VERSION or length > min(MOST_HEAD, len(data)):
        raise FormatError(f"tallies of version {version} cannot be read")
    text = data[HEAD.size : HEAD.size + length]
    if zlib.crc32(text) != checksum:
        raise FormatError("the head of these tallies is damaged (its checksum does not match)")
    try:
        head = json.loads(text)
    except (ValueError, RecursionError):
        raise FormatError(UNREADABLE) from None
    if not isinstance(head, dict):
        raise FormatError(UNREADABLE)
    return head, HEAD.size + length


def _document(head: dict[str, Any], data: bytes, at: int) -> tuple[bytes, int]:
    """Return the campaign's document, and where it ends."""
    try:
        size, checksum = map(int, head["document"])
    except (KeyError, TypeError, ValueError, OverflowError):
        raise FormatError(UNREADABLE) from None
    document = data[at : at + size]
    if size < 0 or len(document) < size or zlib.crc32(document) != checksum:
        raise FormatError("the campaign in these tallies is damaged")
    return document, at + size


def _tallies(
    data: bytes, at: int, sizes: list[int], campaign: SurveyCampaign
) -> tuple[Tallies, int]:
    if len(sizes) != len(campaign.frame.cells):
        raise FormatError("these tallies do not have one for each cell of the campaign")
    tallies = []
    for size, law in zip(sizes, campaign.frame.cells, strict=True):
        if size < 0 or at + size > len(data):
            raise FormatError("these tallies are cut off")
        try:
            tallies.append(Tally.from_bytes(data[at : at + size], law))
        except (MurmurationError, ValueError, KeyError, TypeError) as problem:
            raise FormatError(f"a tally cannot be read: {problem}") from None
        at += size
    return tuple(tallies), at
