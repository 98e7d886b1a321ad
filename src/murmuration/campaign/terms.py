"""The terms of a campaign: what people are told, and what the collector goes by, in one struct.

A term is one field of `Told`, and nothing else: a campaign file's keys, the published document, the
comments that `murmur init` writes, what may change while a collection goes on, and what
`murmur check --json` prints are all made from its fields.

**What may be a term.** Whatever changes what a device sends, asks, or shows before it sends stands
in the document's `collection`, of which a device knows every key or refuses all of it. A term that
is added here only informs: devices of earlier releases do not know it, pass over it, and do the
same as before. It has a default, and is left out of the document where it is at that.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Any, Literal, get_args

import msgspec

from murmuration.campaign.origins import checked_origins
from murmuration.campaign.periods import GRACE
from murmuration.errors import ParameterError

LEAST_COHORT, COHORT = 100, 1000
ONE_DEVICE = "one-device"
Upload = Literal["open", "token", "one-device"]
UPLOADS: tuple[Upload, ...] = get_args(Upload)
"""Who may send reports: anyone; whoever has a token for devices; each by a token of its own."""
WRITTEN = ("purpose", "people", "opens", "closes", "cohort", "keep_reports", "upload")
"""The terms that a document always has; the others are left out at their default."""
READ = (*WRITTEN, "origins", "grace")
"""The terms that devices read. It is complete: what a device has to know is in the collection."""


def _in_file(comment: str = "", example: str = "") -> msgspec.Meta:
    """Return what `murmur init` writes about a term, and an example of it as TOML.

    A term without a comment stands right below the one before it.
    """
    return msgspec.Meta(description=comment, extra={"example": example})


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """The terms that stand at the top of a campaign file; not checked yet."""

    purpose: Annotated[str, _in_file("plain words: people read this before they agree")]
    people: Annotated[
        int, _in_file("how many are expected; only plans and predictions depend on it")
    ] = 100_000
    cohort: Annotated[
        int,
        _in_file(f"Nothing is shown about fewer people than that ({LEAST_COHORT} is the least)."),
    ] = COHORT
    opens: Annotated[
        datetime | None,
        _in_file(
            "When reports are accepted, with the time zone. Left out: always.",
            "2027-01-01T00:00:00Z",
        ),
    ] = None
    closes: Annotated[datetime | None, _in_file(example="2027-02-01T00:00:00Z")] = None
    keep_reports: Annotated[
        bool,
        _in_file("Whether the collector keeps randomised reports after counting them.", "true"),
    ] = True
    upload: Annotated[
        Upload,
        _in_file(
            'Who may send reports: "open" is anyone, "token" anyone who holds a device\'s token,\n'
            '"one-device" each who holds a token of their own: one report of it per period counts.',
            '"open"',
        ),
    ] = "open"
    origins: Annotated[
        tuple[str, ...],
        _in_file(
            "Other sites whose pages may take part, in a browser. Left out: only pages of the "
            "collector itself.",
            '["https://app.example"]',
        ),
    ] = ()


class Terms(Told, frozen=True, kw_only=True):
    """The terms of a campaign, checked.

    purpose: what the data is for, in plain words
    people: how many are expected
    opens, closes: when reports are accepted
    cohort: nothing is shown about fewer people than that
    keep_reports: whether the collector keeps reports after counting them
    upload: "open"; "token": devices need one; "one-device": each has a token of its own, of
        which one report per period counts
    origins: web origins, beside the collector's own, whose pages may take part in a browser
    grace: for how many periods after its end reports of one are taken, if there are periods
    """

    grace: int = GRACE

    def __post_init__(self) -> None:
        checked_origins(self.origins)
        for key, message in mistakes(self):
            raise ParameterError(f"{key}: {message}")
        if self.grace < 0:
            raise ParameterError(
                "grace, the number of periods for which one stays open, is 0 or more"
            )

    @classmethod
    def of(cls, told: Told, grace: int = GRACE) -> Terms:
        """Return the terms of a campaign file."""
        values = {name: getattr(told, name) for name in Told.__struct_fields__}
        return cls(**values | {"purpose": told.purpose.strip()}, grace=grace)

    @classmethod
    def keys(cls) -> list[str]:
        """Return the terms in the order in which a document has them."""
        return [*READ, *(key for key in cls.__struct_fields__ if key not in READ)]

    def document(self) -> dict[str, Any]:
        """Return the terms as the published document has them."""
        usual = {field.name: field.default for field in msgspec.structs.fields(Terms)}
        values = {key: getattr(self, key) for key in self.keys()}
        return {
            key: value for key, value in values.items() if key in WRITTEN or value != usual[key]
        }

    def accepts(self, now: datetime) -> bool:
        """Whether reports are accepted at that time."""
        started = self.opens is None or self.opens <= now
        return started and (self.closes is None or now < self.closes)


def mistakes(told: Told) -> Iterator[tuple[str, str]]:
    """Say what is wrong with terms, each by its key; origins are apart (`campaign.origins`)."""
    zone = "say date, time and time zone: 2026-11-16T09:00:00Z"
    rules = [
        ("cohort", told.cohort >= LEAST_COHORT, f"a cohort is {LEAST_COHORT} people or more"),
        ("people", 1 <= told.people < 1 << 40, "people, how many are expected, is 1 or more"),
        ("opens", _has_zone(told.opens), zone),
        ("closes", _has_zone(told.closes), zone),
        ("upload", told.upload in UPLOADS, f"upload is one of {', '.join(UPLOADS)}"),
    ]
    yield from ((key, message) for key, fine, message in rules if not fine)
    zoned = _has_zone(told.opens) and _has_zone(told.closes)
    if told.opens and told.closes and zoned and told.opens >= told.closes:
        yield "closes", "it closes before it opens"


def _has_zone(moment: datetime | None) -> bool:
    return moment is None or moment.tzinfo is not None
