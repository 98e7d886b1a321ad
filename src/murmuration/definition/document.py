"""The published campaign: one JSON document with all that a device needs, and nothing it computes.

    format, campaign, version, digest   what it is
    purpose, people, opens, closes, ... the terms: what people are told
    collection                          everything that affects a report, integer laws included

`collection` is JSON inside a string: its digest is that of the string's bytes, so that every
language finds the same one without agreeing on how to write a number. A document is not trusted:
its digest is checked, every law is audited, and a law that leaks is refused by the device.

Keys of the collection must all be known. Keys beside it that are not known are terms of a later
release: they only inform, and are passed over (`campaign.terms`).
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, TypeVar, overload

import msgspec

from murmuration.campaign.kind import WIRE, Campaign, Kind, of_kind
from murmuration.campaign.survey import SurveyCampaign
from murmuration.campaign.terms import READ, WRITTEN, Terms
from murmuration.definition import survey_text, training_text
from murmuration.definition.text import Collection, Reader
from murmuration.errors import FormatError, MurmurationError, ParameterError
from murmuration.training.campaign import TrainingCampaign

FORMAT = 1
MOST_BYTES = 8 << 20
"""Of a document: a device reads no more."""
READERS: dict[str, Reader[Any]] = {
    SurveyCampaign.kind: survey_text.READER,
    TrainingCampaign.kind: training_text.READER,
}
"""The kinds of campaigns: a collection that names none is a survey's."""


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """A published campaign as it travels; its terms stand between the digest and the collection."""

    format: int
    campaign: str
    version: int
    digest: str
    collection: str


_Part = TypeVar("_Part")


KEYS = (*Document.__struct_fields__[:-1], *READ, "collection")
"""The keys that devices read, in their order."""


class _Kind(msgspec.Struct, frozen=True):
    kind: str = SurveyCampaign.kind


def publish(campaign: Campaign, version: int = 1) -> bytes:
    """Return the document of a campaign."""
    document = {
        "format": FORMAT,
        "campaign": campaign.name,
        "version": version,
        "digest": campaign.digest,
        **campaign.terms.document(),
        "collection": campaign.text,
    }
    data, reader = msgspec.json.encode(document), READERS[campaign.kind]
    size = _excess(data) or reader.excess(msgspec.json.decode(campaign.text, type=reader.form))
    if size:
        raise ParameterError(
            f"this campaign's document would have {size}: ask for fewer attributes, labels or "
            "levels, or name mechanisms with smaller laws (duchi, dithered or optimal)"
        )
    return data


def _excess(data: bytes) -> str:
    if len(data) <= MOST_BYTES:
        return ""
    return f"{len(data):,} bytes, and devices read {MOST_BYTES:,} at most"


@overload
def read(data: bytes) -> Campaign: ...


@overload
def read(data: bytes, wanted: type[Kind]) -> Kind: ...


def read(data: bytes, wanted: type[Kind] | None = None) -> Campaign:
    """Return the campaign of a document, of the wanted kind, or say what is wrong with it."""
    if size := _excess(data):
        raise FormatError(f"the campaign's document has {size}")
    document, terms = decoded(data), terms_in(data)
    reader = _reader_of(document)
    collection = _collection(document, reader)
    if hashlib.sha256(document.collection.encode()).hexdigest() != document.digest:
        raise FormatError("the campaign's digest is not that of its text: it was changed")
    try:
        if size := reader.excess(collection):
            raise FormatError(f"the campaign's document has {size}")
        campaign = reader.campaign(collection, terms)
    except MurmurationError as problem:
        raise FormatError(f"the campaign cannot be used: {problem}") from None
    except (TypeError, ValueError, LookupError, OverflowError, RecursionError) as problem:
        raise FormatError(f"the campaign cannot be read: {problem}") from None
    if campaign.name != document.campaign:
        raise FormatError("the campaign's name differs inside and outside its collection")
    if campaign.text != document.collection:
        raise FormatError(
            "the campaign is not written as it is published: another spelling of the same words "
            "has another digest, which could tell devices apart"
        )
    return campaign if wanted is None else of_kind(campaign, wanted)


def decoded(data: bytes) -> Document:
    """Return the document's own parts, unchecked."""
    return _decoded(data, Document)


def terms_in(data: bytes) -> Terms:
    """Return the terms in a document. Those that this release does not know are passed over."""
    keys = _decoded(data, dict[str, msgspec.Raw])
    if missing := [key for key in WRITTEN if key not in keys]:
        raise FormatError(f"this is not a published campaign: it has no {missing[0]}")
    return _decoded(data, Terms)


def _decoded(data: bytes, form: type[_Part]) -> _Part:
    try:
        return msgspec.json.decode(data, type=form)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as problem:
        raise FormatError(f"this is not a published campaign: {problem}") from None


def _reader_of(document: Document) -> Reader[Any]:
    """Return the reader for the kind that a collection names."""
    try:
        kind = msgspec.json.decode(document.collection, type=_Kind).kind
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as problem:
        raise FormatError(f"the campaign's collection cannot be read: {problem}") from None
    if kind not in READERS:
        raise FormatError(
            f"the campaign is of the kind {kind!r}; this program knows {', '.join(READERS)}: a "
            "newer one is needed"
        )
    return READERS[kind]


def _collection(document: Document, reader: Reader[Any]) -> Collection:
    """Return what a collection says, every key of it known."""
    try:
        collection: Collection = msgspec.json.decode(document.collection, type=reader.form)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as problem:
        raise FormatError(f"the campaign's collection cannot be read: {problem}") from None
    if document.format != FORMAT or collection.wire != WIRE:
        raise FormatError(
            f"the campaign is in format {document.format}, reports in {collection.wire}; this "
            f"program reads {FORMAT} and {WIRE}: a newer one is needed"
        )
    return collection


def pretty(data: bytes) -> str:
    """Return a document for people to read, its collection opened."""
    document = json.loads(data)
    document["collection"] = json.loads(document["collection"])
    return json.dumps(document, indent=2)
