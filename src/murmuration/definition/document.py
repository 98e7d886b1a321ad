"""The published campaign: one JSON document with all that a device needs, and nothing it computes.

    format, campaign, version, digest   what it is
    purpose, people, opens, closes, ... what people are told
    collection                          everything that affects a report, integer laws included

`collection` is JSON inside a string: its digest is that of the string's bytes, so that every
language finds the same one without agreeing on how to write a number. A document is not trusted:
its digest is checked, every law is audited, and a law that leaks is refused by the device.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import fields, replace
from datetime import datetime
from typing import Any

import msgspec

from murmuration.campaign.levels import FREELY, Levels
from murmuration.campaign.periods import GRACE
from murmuration.campaign.question import Question
from murmuration.campaign.spells import Spells
from murmuration.campaign.survey import WIRE, SurveyCampaign, Terms
from murmuration.errors import FormatError, MurmurationError, ParameterError
from murmuration.mechanisms.base import Mechanism, checked_epsilon
from murmuration.mechanisms.frame import Frame
from murmuration.mechanisms.registry import from_document
from murmuration.mechanisms.strategy import strategy_of

FORMAT = 1
MOST_BYTES, MOST_CELLS, MOST_ITEMS = 8 << 20, 2048, 1 << 18
"""Of a document, of its laws, and of items over all laws: a device looks at no more, before it has
read anything. What is as large as that takes some seconds to audit."""
MOST_COMPARED, PER_PAIR = 1 << 24, 64
"""Of comparisons between ranges, over all laws: each two ranges, symbol by symbol, and `PER_PAIR`
more for what is done once."""


class Document(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True
):
    """A published campaign as it travels; a key that is added later is left out at its default."""

    format: int
    campaign: str
    version: int
    digest: str
    purpose: str
    people: int
    opens: datetime | None
    closes: datetime | None
    cohort: int
    keep_reports: bool
    upload: str
    origins: tuple[str, ...] = ()
    grace: int = GRACE
    collection: str


class Cell(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A law, and what it is for; keys in the order in which they are written."""

    attributes: tuple[int, ...]
    level: int | None = None
    mechanism: str
    parameters: dict[str, Any]
    law: dict[str, Any]


class Collection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What affects a report: keys in the order in which they are written; not at their default."""

    wire: int
    campaign: str
    epsilon: float
    strategy: str
    sample: int = 1
    ends: tuple[int, ...] | None = None
    levels: dict[str, float] | None = None
    chosen: str = FREELY
    limit: float | None = None
    accept_loss: str | None = None
    rounds: int = 1
    every: str | None = None
    first: int | None = None
    spell: int | None = None
    attributes: list[dict[str, Any]]
    cells: list[Cell]


def publish(campaign: SurveyCampaign, version: int = 1) -> bytes:
    """Return the document of a campaign."""
    terms = {field.name: getattr(campaign.terms, field.name) for field in fields(Terms)}
    document = Document(
        format=FORMAT,
        campaign=campaign.name,
        version=version,
        digest=campaign.digest,
        collection=campaign.text,
        **terms,
    )
    data = msgspec.json.encode(document)
    items = [len(q.labels) for q in campaign.questions]
    groups = zip(campaign.strategy.grouped(len(items)), campaign.frame.groups, strict=True)
    cells = [[items[place] for place in places] for places, group in groups for _ in group]
    laws = msgspec.json.decode(campaign.text, type=Collection).cells
    if size := _too_large(data, cells) or _too_many_ranges(laws):
        raise ParameterError(
            f"this campaign's document would have {size}: ask for fewer attributes, labels or "
            "levels, or name mechanisms with smaller laws (duchi, dithered or optimal)"
        )
    return data


def _too_large(data: bytes, cells: Sequence[Sequence[int]]) -> str:
    """Say in what a document is larger than a device reads, if it is; cells have sizes."""
    found = (len(data), "bytes"), (len(cells), "laws"), (sum(map(sum, cells)), "items")
    for (many, what), most in zip(found, (MOST_BYTES, MOST_CELLS, MOST_ITEMS), strict=True):
        if many > most:
            return f"{many:,} {what}, and devices read {most:,} at most"
    return ""


def _too_many_ranges(cells: Sequence[Cell]) -> str:
    """Say that laws with ranges compare more than a device does, if they do."""
    compared = sum(map(_comparisons, cells))
    if compared <= MOST_COMPARED:
        return ""
    return f"{compared:,} comparisons between ranges, and devices make {MOST_COMPARED:,} at most"


def _comparisons(cell: Cell) -> int:
    ranges, symbols = cell.parameters.get("epsilon"), cell.law.get("values")
    if not isinstance(ranges, list) or not isinstance(symbols, list):
        return 0
    return len(ranges) ** 2 * (len(symbols) + PER_PAIR)


def read(data: bytes) -> SurveyCampaign:
    """Return the campaign of a document, or say what is wrong with it."""
    if size := _too_large(data, ()):
        raise FormatError(f"the campaign's document has {size}")
    document = decoded(data)
    if '"kind":"model"' in document.collection[:40]:
        raise FormatError("this campaign trains a model: it has no figures, and other documents")
    try:
        found = msgspec.json.decode(document.collection, type=Collection)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as problem:
        raise FormatError(f"the campaign's collection cannot be read: {problem}") from None
    if document.format != FORMAT or found.wire != WIRE:
        raise FormatError(
            f"the campaign is in format {document.format}, reports in {found.wire}; this program "
            f"reads {FORMAT} and {WIRE}: a newer one is needed"
        )
    try:
        sizes = [len(table.get("labels", ())) for table in found.attributes]
        items = [[sizes[a] for a in cell.attributes] for cell in found.cells]
        if size := _too_large(b"", items) or _too_many_ranges(found.cells):
            raise FormatError(f"the campaign's document has {size}")
        campaign = _campaign(document, found)
    except MurmurationError as problem:
        raise FormatError(f"the campaign cannot be used: {problem}") from None
    except (TypeError, ValueError, LookupError, OverflowError, RecursionError) as problem:
        raise FormatError(f"the campaign cannot be read: {problem}") from None
    if campaign.name != document.campaign:
        raise FormatError("the campaign has two names: one outside, and one in its collection")
    if hashlib.sha256(document.collection.encode()).hexdigest() != document.digest:
        raise FormatError("the campaign's digest is not that of its text: it was changed")
    if campaign.text != document.collection:
        raise FormatError(
            "the campaign is not written as it is published: another spelling of the same words "
            "has another digest, which could tell devices apart"
        )
    return campaign


def decoded(data: bytes) -> Document:
    """Return the document's parts, unchecked."""
    try:
        return msgspec.json.decode(data, type=Document)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as problem:
        raise FormatError(f"this is not a published campaign: {problem}") from None


def _campaign(document: Document, found: Collection) -> SurveyCampaign:
    levels = None if found.levels is None else Levels.checked(found.levels)
    if levels is None and found.chosen != FREELY:
        raise FormatError("levels are chosen, and there are none")
    levels = levels and replace(levels, chosen=found.chosen)
    terms = Terms(**{field.name: getattr(document, field.name) for field in fields(Terms)})
    questions = tuple(question_of(table) for table in found.attributes)
    strategy = strategy_of(found.strategy, found.sample, found.ends)
    epsilon = checked_epsilon(found.epsilon)
    for part in levels.budgets(epsilon) if levels else ():
        checked_epsilon(part)
    return SurveyCampaign(
        name=found.campaign,
        terms=terms,
        questions=questions,
        frame=Frame(_groups(found.cells, strategy.grouped(len(questions)), levels), strategy),
        epsilon=epsilon,
        levels=levels,
        limit=found.limit,
        accept_loss=found.accept_loss,
        max_reports=found.rounds,
        every=found.every,
        spells=_spells(found),
    ).admitted()


def _spells(found: Collection) -> Spells | None:
    if found.first is None and found.spell is None:
        return None
    if found.first is None or found.spell is None:
        raise FormatError("spells have a first period and a length")
    return Spells(found.first, found.spell, found.rounds)


def _groups(
    cells: Sequence[Cell], groups: Sequence[tuple[int, ...]], levels: Levels | None
) -> tuple[tuple[Mechanism, ...], ...]:
    """Return the laws by group, if each is where it says it belongs."""
    choices = [None] if levels is None else range(len(levels))
    places = [(attributes, level) for attributes in groups for level in choices]
    if [(cell.attributes, cell.level) for cell in cells] != places:
        raise FormatError(f"this campaign has {len(places)} cells, by attribute and level")
    laws = [from_document(_law(cell)) for cell in cells]
    per = len(choices)
    return tuple(tuple(laws[start : start + per]) for start in range(0, len(laws), per))


def _law(cell: Cell) -> dict[str, Any]:
    return {"mechanism": cell.mechanism, "parameters": cell.parameters, "law": cell.law}


def question_of(table: dict[str, Any]) -> Question:
    """Return an attribute; a range is in floats, and 0 has no sign: one form for one range."""
    given = dict(table)
    for key in {"labels", "markers"} & set(given):
        given[key] = tuple(given[key])
    for key in ("low", "high"):
        if type(given.get(key)) in (int, float):
            given[key] = float(given[key]) + 0.0
    return Question(**given)


def pretty(data: bytes) -> str:
    """Return a document for people to read, its collection opened."""
    document = json.loads(data)
    document["collection"] = json.loads(document["collection"])
    return json.dumps(document, indent=2)
