"""A campaign's tallies as one file that says what was asked: `murmur tally` writes, anyone reads.

Bytes: magic, version, length and checksum of a JSON head; the head (how long the document is, the
periods and the lengths of their tallies, what became of the reports); the published document; the
tallies, each with its own head and checksum. The same reports are the same bytes on every engine.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from murmuration.campaign.survey import SurveyCampaign
from murmuration.definition import document as campaign_document
from murmuration.errors import FormatError
from murmuration.mechanisms.tally import Tally

MAGIC = b"MURMCAMP"
VERSION = 1
HEAD = struct.Struct("<8sHII")
MOST_HEAD = 1 << 24


@dataclass(frozen=True)
class TallyFile:
    """Tallies of each period (of period 0, if there are none), and what became of the reports."""

    campaign: SurveyCampaign
    tallies: Mapping[int, tuple[Tally, ...]]
    reports: Mapping[str, Any]
    """read, counted, duplicates, and refused by reason."""

    def to_bytes(self) -> bytes:
        """Serialise."""
        document = campaign_document.publish(self.campaign, 1)
        packed = {
            period: [tally.to_bytes() for tally in self.tallies[period]]
            for period in sorted(self.tallies)
        }
        head = {
            "campaign": self.campaign.name,
            "digest": self.campaign.digest,
            "document": [len(document), zlib.crc32(document)],
            "periods": {str(one): [len(data) for data in found] for one, found in packed.items()},
            "reports": dict(self.reports),
        }
        text = json.dumps(head, sort_keys=True).encode()
        body = b"".join(b"".join(found) for found in packed.values())
        return HEAD.pack(MAGIC, VERSION, len(text), zlib.crc32(text)) + text + document + body

    @classmethod
    def from_bytes(cls, data: bytes) -> TallyFile:
        """Read what `to_bytes` wrote; anything else is refused with the reason."""
        head, at = _head(data)
        try:
            size, checksum = map(int, head["document"])
            periods = {int(one): [int(n) for n in sizes] for one, sizes in head["periods"].items()}
            reports = dict(head["reports"])
        except (AttributeError, KeyError, TypeError, ValueError):
            raise FormatError("the head of this file of tallies cannot be read") from None
        document, at = data[at : at + size], at + size
        if size < 0 or zlib.crc32(document) != checksum:
            raise FormatError("the campaign in this file of tallies is damaged")
        campaign = campaign_document.read(document, SurveyCampaign)
        tallies = {}
        for period in sorted(periods):
            if len(periods[period]) != len(campaign.frame.cells) or min(periods[period]) < 0:
                raise FormatError("this file has not one tally for each law of its campaign")
            found = []
            for cell, length in zip(campaign.frame.cells, periods[period], strict=True):
                found.append(Tally.from_bytes(data[at : at + length], cell))
                at += length
            tallies[period] = tuple(found)
        if at != len(data) or not tallies:
            raise FormatError("this file of tallies is not as long as its head says")
        return cls(campaign, tallies, reports)


def _head(data: bytes) -> tuple[dict[str, Any], int]:
    if len(data) < HEAD.size or not data.startswith(MAGIC):
        raise FormatError("these bytes are no tallies of a campaign")
    _, version, length, checksum = HEAD.unpack_from(data)
    if version != VERSION:
        raise FormatError(f"tallies of version {version} cannot be read")
    text = data[HEAD.size : HEAD.size + length]
    if length > MOST_HEAD or zlib.crc32(text) != checksum:
        raise FormatError("the head of this file of tallies is damaged")
    try:
        head = json.loads(text)
    except (ValueError, RecursionError):
        head = None
    if not isinstance(head, dict):
        raise FormatError("the head of this file of tallies cannot be read")
    return head, HEAD.size + length
