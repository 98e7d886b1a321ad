"""The published campaign: one JSON document with all that a device needs, and nothing it computes.

    format, campaign, version, digest   what it is
    purpose, people, opens, closes, ... what people are told
    collection                          everything that affects a report, integer laws included

`collection` is JSON inside a string: its digest is that of the string's bytes, so that every
language finds the same one without agreeing on how to write a number. A document is not trusted:
its digest is checked, every law is audited, and a law that leaks is refused by the device.
"""

from __future__ import annotations

import json
from dataclasses import fields
from datetime import datetime
from operator import index
from typing import Any

import msgspec

from murmuration.campaign.levels import Levels
from murmuration.campaign.model import WIRE, Campaign, Cell, Terms
from murmuration.campaign.question import Question
from murmuration.errors import FormatError, MurmurationError
from murmuration.mechanisms.base import checked_epsilon
from murmuration.mechanisms.registry import published

FORMAT = 1


class Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A published campaign as it travels."""

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
    collection: str


class _Collection(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    wire: int
    campaign: str
    epsilon: float
    strategy: str
    sample: int
    ends: list[int] | None
    levels: dict[str, float] | None
    limit: float | None
    accept_loss: str | None
    rounds: int
    attributes: list[dict[str, Any]]
    cells: list[dict[str, Any]]


def publish(campaign: Campaign, version: int = 1) -> bytes:
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
    return msgspec.json.encode(document)


def read(data: bytes) -> Campaign:
    """Return the campaign of a document, or say what is wrong with it."""
    document = decoded(data)
    try:
        found = msgspec.json.decode(document.collection, type=_Collection)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as problem:
        raise FormatError(f"the campaign's collection cannot be read: {problem}") from None
    if document.format != FORMAT or found.wire != WIRE:
        raise FormatError(
            f"the campaign is in format {document.format}, reports in {found.wire}; this program "
            f"reads {FORMAT} and {WIRE}: a newer one is needed"
        )
    try:
        campaign = _campaign(document, found)
    except MurmurationError as problem:
        raise FormatError(f"the campaign cannot be used: {problem}") from None
    except (TypeError, ValueError, KeyError, OverflowError, RecursionError) as problem:
        raise FormatError(f"the campaign cannot be read: {problem}") from None
    if campaign.name != document.campaign:
        raise FormatError("the campaign has two names: one outside, and one in its collection")
    if campaign.digest != document.digest:
        raise FormatError("the campaign's digest is not that of its text: it was changed")
    return campaign


def decoded(data: bytes) -> Document:
    """Return the document's parts, unchecked."""
    try:
        return msgspec.json.decode(data, type=Document)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as problem:
        raise FormatError(f"this is not a published campaign: {problem}") from None


def _campaign(document: Document, found: _Collection) -> Campaign:
    levels = None if found.levels is None else Levels.checked(found.levels)
    terms = Terms(**{field.name: getattr(document, field.name) for field in fields(Terms)})
    campaign = Campaign(
        name=found.campaign,
        terms=terms,
        questions=tuple(_question(table) for table in found.attributes),
        cells=tuple(_cell(table) for table in found.cells),
        epsilon=checked_epsilon(found.epsilon),
        strategy=found.strategy,
        sample=found.sample,
        ends=None if found.ends is None else tuple(found.ends),
        levels=levels,
        limit=found.limit,
        accept_loss=found.accept_loss,
        rounds=found.rounds,
    ).admitted()
    # What is digested is the text that came, not one that this program would write.
    campaign.__dict__["text"] = document.collection
    return campaign


def _question(table: dict[str, Any]) -> Question:
    return Question(**{**table, "labels": tuple(table["labels"])})


def _cell(table: dict[str, Any]) -> Cell:
    rest = dict(table)
    attributes, level = tuple(map(index, rest.pop("attributes"))), rest.pop("level")
    return Cell(attributes, level, published(rest))


def pretty(data: bytes) -> str:
    """Return a document for people to read, its collection opened."""
    document = json.loads(data)
    document["collection"] = json.loads(document["collection"])
    return json.dumps(document, indent=2)
