"""What the readers of all kinds of collections share: the text in a published document."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from murmuration.campaign.kind import Campaign
from murmuration.campaign.question import Question
from murmuration.campaign.terms import Terms


class Collection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Everything that affects a report. A device knows every key of it, or refuses all of it."""

    wire: int


Form = TypeVar("Form", bound=Collection)


@dataclass(frozen=True)
class Reader(Generic[Form]):
    """How the collection of one kind of campaign is read.

    form: its keys; those at their default are left out
    campaign: makes the campaign of a collection, with laws that were audited
    excess: says in what it is larger than a device reads, if it is
    """

    form: type[Form]
    campaign: Callable[[Form, Terms], Campaign]
    excess: Callable[[Form], str] = lambda _: ""


def question_of(table: dict[str, Any]) -> Question:
    """Return an attribute; a range is in floats, and 0 has no sign: one form for one range."""
    given = dict(table)
    for key in {"labels", "markers"} & set(given):
        given[key] = tuple(given[key])
    for key in ("low", "high"):
        if type(given.get(key)) in (int, float):
            given[key] = float(given[key]) + 0.0
    return Question(**given)
