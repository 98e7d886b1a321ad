"""What is answered as JSON: these types are encoded, and OpenAPI is written from them."""

from __future__ import annotations

from typing import Literal

import msgspec


class Answer(msgspec.Struct, frozen=True):
    """Anything that is answered."""


class Listed(Answer, frozen=True):
    """A campaign in the list."""

    campaign: str
    version: int
    digest: str
    purpose: str
    open: bool


class Listing(Answer, frozen=True):
    """All campaigns."""

    campaigns: list[Listed]


class Failure(Answer, frozen=True):
    """One report that was not counted."""

    index: int
    type: str
    title: str


class Receipt(Answer, frozen=True):
    """What became of an upload; received = stored + len(failures)."""

    received: int
    stored: int
    failures: list[Failure]


class Merging(Answer, frozen=True):
    """How many collectors' tallies were news, of how many.

    Others were left out: they are not this token's to bring, or are of the collector itself.
    """

    merged: int
    collectors: int
    left_out: int


class Alive(Answer, frozen=True):
    """The process answers."""

    status: Literal["alive"] = "alive"


class Ready(Answer, frozen=True):
    """Reports can be taken."""

    waiting: int
    status: Literal["ready"] = "ready"


class Described(Answer, frozen=True, omit_defaults=True):
    """A problem, as RFC 9457 has it."""

    type: str
    title: str
    status: int
    detail: str = ""
