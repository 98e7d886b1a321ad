"""The published document of a campaign that trains a model: written, and read without trust."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import msgspec

from murmuration.campaign.survey import WIRE, Terms
from murmuration.definition import document as ordinary
from murmuration.errors import FormatError, MurmurationError, ParameterError
from murmuration.mechanisms.base import checked_epsilon
from murmuration.mechanisms.registry import from_document
from murmuration.training.campaign import MOST_COLUMNS, Feature, TrainingCampaign


class Collection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What affects a report of any round: keys in the order in which they are written."""

    wire: int
    kind: str
    campaign: str
    model: str
    epsilon: float
    people: int
    deadline: int
    rounds: int | None = None
    logistic: list[int] | None = None
    features: list[dict[str, Any]]
    target: dict[str, Any]
    laws: list[dict[str, Any]]


class _Kind(msgspec.Struct, frozen=True):
    kind: str = ""


def trains(data: bytes) -> bool:
    """Tell whether a document is that of a training, without trusting anything in it."""
    try:
        found = ordinary.decoded(data)
        return msgspec.json.decode(found.collection, type=_Kind).kind == TrainingCampaign.kind
    except (MurmurationError, msgspec.MsgspecError, RecursionError, UnicodeError):
        return False


def publish(campaign: TrainingCampaign, version: int = 1) -> bytes:
    """Return the document of a training: the same form as any campaign's."""
    terms = {field.name: getattr(campaign.terms, field.name) for field in fields(Terms)}
    document = ordinary.Document(
        format=ordinary.FORMAT,
        campaign=campaign.name,
        version=version,
        digest=campaign.digest,
        collection=campaign.text,
        **terms,
    )
    data = msgspec.json.encode(document)
    if len(data) > ordinary.MOST_BYTES:
        raise ParameterError(f"this campaign's document would have {len(data):,} bytes")
    return data


def read(data: bytes) -> TrainingCampaign:
    """Return the training of a document, or say what is wrong with it. Nothing is trusted."""
    if len(data) > ordinary.MOST_BYTES:
        raise FormatError(f"the campaign's document has {len(data):,} bytes")
    document = ordinary.decoded(data)
    if hashlib.sha256(document.collection.encode()).hexdigest() != document.digest:
        raise FormatError("the campaign's digest is not that of its text: it was changed")
    try:
        found = msgspec.json.decode(document.collection, type=Collection)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as problem:
        raise FormatError(f"the campaign's collection cannot be read: {problem}") from None
    if document.format != ordinary.FORMAT or found.wire != WIRE or found.kind != "model":
        raise FormatError("the campaign is no training in a format that this program reads")
    try:
        campaign = _campaign(document, found)
    except MurmurationError as problem:
        raise FormatError(f"the campaign cannot be used: {problem}") from None
    except (TypeError, ValueError, LookupError, OverflowError, RecursionError) as problem:
        raise FormatError(f"the campaign cannot be read: {problem}") from None
    if campaign.name != document.campaign or found.people != document.people:
        raise FormatError("the campaign says two things of its name, or of its people")
    if campaign.text != document.collection:
        raise FormatError(
            "the campaign is not written as it is published: another spelling of the same words "
            "has another digest, which could tell devices apart"
        )
    return campaign


def _campaign(document: ordinary.Document, found: Collection) -> TrainingCampaign:
    if len(found.features) > MOST_COLUMNS or len(found.laws) > 4:
        raise FormatError("a training has four laws and 1,023 features at most")
    return TrainingCampaign(
        name=found.campaign,
        terms=Terms(**{field.name: getattr(document, field.name) for field in fields(Terms)}),
        model=found.model,
        features=tuple(map(_feature, found.features)),
        target=ordinary.question_of(found.target),
        epsilon=checked_epsilon(found.epsilon),
        laws=tuple(map(from_document, found.laws)),
        rounds=found.rounds,
        deadline=found.deadline,
    ).admitted()


def _feature(table: dict[str, Any]) -> Feature:
    given = dict(table)
    typical: Sequence[Any] | None = given.pop("typical", None)
    if typical is None:
        return Feature(ordinary.question_of(given))
    low, high = typical
    if type(low) not in (int, float) or type(high) not in (int, float):
        raise FormatError("a typical range is two numbers")
    return Feature(ordinary.question_of(given), (float(low) + 0.0, float(high) + 0.0))
