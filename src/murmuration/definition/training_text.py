"""The collection of a campaign that trains a model: its keys, and the campaign of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from murmuration.campaign.terms import Terms
from murmuration.definition.text import Collection, Reader, question_of
from murmuration.errors import FormatError
from murmuration.mechanisms.base import checked_epsilon
from murmuration.mechanisms.registry import from_document
from murmuration.training.campaign import MOST_COLUMNS, MOST_LAWS, Feature, TrainingCampaign


class TrainingCollection(Collection, frozen=True, kw_only=True):
    """What affects a report of any round: keys in the order in which they are written."""

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


def _campaign(collection: TrainingCollection, terms: Terms) -> TrainingCampaign:
    if len(collection.features) > MOST_COLUMNS or len(collection.laws) > MOST_LAWS:
        raise FormatError(f"a training has {MOST_LAWS} laws and 1,023 features at most")
    if collection.people != terms.people:
        raise FormatError("people, which a training is planned by, differ inside and outside")
    return TrainingCampaign(
        name=collection.campaign,
        terms=terms,
        model=collection.model,
        features=tuple(map(_feature, collection.features)),
        target=question_of(collection.target),
        epsilon=checked_epsilon(collection.epsilon),
        laws=tuple(map(from_document, collection.laws)),
        rounds=collection.rounds,
        deadline=collection.deadline,
    ).admitted()


def _feature(table: dict[str, Any]) -> Feature:
    given = dict(table)
    typical: Sequence[Any] | None = given.pop("typical", None)
    if typical is None:
        return Feature(question_of(given))
    low, high = typical
    if type(low) not in (int, float) or type(high) not in (int, float):
        raise FormatError("a typical range must be two numbers")
    return Feature(question_of(given), (float(low) + 0.0, float(high) + 0.0))


READER = Reader(TrainingCollection, _campaign)
