"""The tallies of one campaign as bytes: what `murmur tally` writes and collectors send each other.

A *part* is what one collector has counted, by period, and a sketch of the ids that it counts. A
later part of a collector counts all that an earlier one counted, in each period, so the larger
replaces the smaller. Files of reports that nobody's store has counted are one part without a name
and, unless it is asked for, without a sketch. A campaign without periods has one, of the number 0.

Bytes (`mechanisms.tally.sealed`): a JSON head (campaign, digest, length of the published document,
what became of the reports, who wrote it, which key sketches are under, and for each part its
periods and the limit and length of its sketch); the document, if it is there; for each part the
sums of each period (`Frame.sums`) and its sketch. The same tallies are the same bytes.
"""

from __future__ import annotations

import re
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
from murmuration.errors import FormatError, MismatchError
from murmuration.exact.arrays import Ints
from murmuration.mechanisms.tally import UNREADABLE, sealed, unsealed

NAME = re.compile(r"[0-9a-f]{16}")
"""A collector's: random, given when its store is made."""


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
        parts = dict(sorted(self.parts.items()))
        head = {
            "campaign": self.campaign.name,
            "digest": self.campaign.digest,
            "document": len(text),
            "reports": dict(self.reports),
            "collector": self.collector,
            "key": self.key,
            "parts": {name: _listed(part) for name, part in parts.items()},
        }
        return sealed(head, b"".join([text, *map(_body, parts.values())]))

    @classmethod
    def from_bytes(cls, data: bytes, campaign: SurveyCampaign | None = None) -> Self:
        """Read tallies of this campaign, or of the one whose document is in the bytes.

        Anything else is refused with the reason.
        """
        head, body = unsealed(data)
        size = head.get("document")
        if type(size) is not int or not 0 <= size <= len(body):
            raise FormatError(UNREADABLE)
        document, body = body[:size], body[size:]
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
        if len(body) != 8 * sum(part.numbers(campaign) for part in listed.values()):
            raise FormatError("these tallies are cut off, or there is more than they list")
        numbers, parts = np.frombuffer(body, dtype="<i8").astype(np.int64), {}
        for name, part in listed.items():
            own, numbers = np.split(numbers, [part.numbers(campaign)])
            parts[name] = part.read(own, campaign)
        return cls(campaign, parts, collector, key, reports)


def _listed(part: Part) -> dict[str, Any]:
    """Return what a head says of a part."""
    return {
        "periods": list(part.tallies),
        "sketch": [f"{part.sketch.below:x}", len(part.sketch.values)],
    }


def _body(part: Part) -> bytes:
    return b"".join(
        [
            *(_sums(own).astype("<i8").tobytes() for own in part.tallies.values()),
            part.sketch.values.astype("<u8").tobytes(),
        ]
    )


def _sums(tallies: Tallies) -> Ints:
    """Return what `Frame.sums` made these tallies of."""
    people = np.array([tally.n for tally in tallies], dtype=np.int64)
    return np.concatenate([people, *(tally.counts for tally in tallies)])


@dataclass(frozen=True)
class _Listed:
    """What a head says of a part: its periods; of the sketch limit and length."""

    periods: tuple[int, ...]
    below: int
    size: int

    @classmethod
    def of(cls, campaign: SurveyCampaign, said: Any) -> Self:
        """Read it; raise what Python raises where it is something else."""
        periods, (below, size) = tuple(said["periods"]), said["sketch"]
        last = 0 if campaign.every is None else last_possible(campaign.every)
        possible = all(type(period) is int and 0 <= period <= last for period in periods)
        if not possible or periods != tuple(sorted(set(periods))) or type(size) is not int:
            raise ValueError("periods are numbers that are possible, each once, in their order")
        if size < 0:
            raise ValueError("a sketch has 0 ids or more")
        return cls(periods, int(below, 16), size)

    def numbers(self, campaign: SurveyCampaign) -> int:
        """Return how many numbers the part has."""
        return len(self.periods) * campaign.frame.ends[-1] + self.size

    def read(self, numbers: Ints, campaign: SurveyCampaign) -> Part:
        """Return the part."""
        end, each = len(numbers) - self.size, campaign.frame.ends[-1]
        sums, sample = numbers[:end].reshape(-1, each), numbers[end:]
        tallies = zip(self.periods, map(campaign.frame.tallies, sums), strict=True)
        return Part(dict(tallies), Sketch(self.below, sample.view(np.uint64)))
