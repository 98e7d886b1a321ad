"""What has arrived at a collector, and whether its books balance."""

from __future__ import annotations

import msgspec

HOUR = "%Y-%m-%dT%H:00Z"


class Arrived(msgspec.Struct, frozen=True):
    """How many answers to an attribute are shown (`counting.cohort`), and how many it needs."""

    attribute: str
    answers: int
    """0 where fewer than `needed` have answered."""
    needed: int
    levels: dict[str, int] = {}
    """The answers by level, where people choose levels: of those levels that may be told."""


class PeriodArrived(msgspec.Struct, frozen=True):
    """How many people a period shows, and whether reports of it are still taken."""

    name: str
    people: int
    """0 where fewer than the cohort have reported."""
    open: bool


class RoundStatus(msgspec.Struct, frozen=True):
    """A round of a training: how many have answered what."""

    number: int
    state: str
    """"open", "closed", or "aside": too few had answered when the campaign closed."""
    people: int
    size: int
    """With so many it is closed."""
    opened: int
    """Seconds since 1970."""
    closes: int | None
    """From then on it is closed with fewer, if each question has as many as the cohort."""
    asks: dict[str, int]
    """How many have answered each question."""


class TrainingStatus(msgspec.Struct, frozen=True):
    """How far a training is."""

    model: str
    target: str
    ended: bool
    rounds: list[RoundStatus]
    notes: list[str] = []


class Status(msgspec.Struct, frozen=True):
    """What has arrived and what became of it."""

    campaign: str
    version: int
    digest: str
    open: bool
    cohort: int
    people_expected: int
    received: int
    outcomes: dict[str, int]
    balanced: bool
    """Whether received is the sum of the outcomes."""
    merged_collectors: int
    """Of how many others tallies count whose reports are not all here."""
    people: int
    collector: str = ""
    """This collector's name, by which others may be told to take its tallies."""
    attributes: list[Arrived] = []
    last_report: str = ""
    """The hour (UTC) in which a report was last stored here; no finer time is kept."""
    warnings: list[str] = []
    """Reports that honest devices never send, if there are any; nothing was removed."""
    reports: int = 0
    """How many reports are counted: more than people where a device sends several."""
    waiting: int = 0
    """How many of them are in no figure yet: an attribute's figures change by a cohort."""
    periods: list[PeriodArrived] = []
    """Where a question comes back: each period that has reports. `attributes` is about the last."""
    training: TrainingStatus | None = None
    """Of a campaign that trains a model: its rounds, and no attributes."""
