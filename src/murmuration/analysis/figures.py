"""Estimates in three forms: JSON, CSV and Parquet, all with the same columns."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import msgspec

from murmuration.campaign.question import FIT_LABELS
from murmuration.errors import missing_extra
from murmuration.results.change import Change, Changed
from murmuration.results.estimate import About
from murmuration.results.figure import Figure
from murmuration.results.table import csv_cell
from murmuration.statistics.liars import SHARE

COLUMNS = tuple(field.name for field in fields(Figure))
JSON, CSV, PARQUET = "application/json", "text/csv", "application/vnd.apache.parquet"
MOST_CONFIDENCE = 0.999999
"""Beyond that an interval is soon the whole line."""
ABOUT = tuple(about.value for about in About)
FORMATS = {"json": JSON, "csv": CSV, "parquet": PARQUET}


class Period(msgspec.Struct, frozen=True):
    """One period: its name, how many people it shows, and whether anything is shown of it."""

    name: str
    people: int
    shown: bool


class Attribute(msgspec.Struct, frozen=True):
    """One attribute that was asked, shown or not: what it is, and how many answers are shown."""

    name: str
    kind: str
    answers: int
    """Those that figures are made of; 0 where it is hidden."""
    needed: int
    """Of fewer answers nothing is shown."""
    hidden: bool
    low: float | None = None
    high: float | None = None
    unit: str = ""
    labels: int = 0
    missing: bool = False
    """Whether answers may be missing: then the first figure is the share that answered."""
    note: str = ""
    """What of it is not shown, and why."""
    checks: str = ""
    """The attribute of which it says whether answers fitted; empty for others."""


class Trend(msgspec.Struct, frozen=True):
    """Every figure of every period that is shown, and whether anything has changed.

    Of an attribute with more than 30 labels there are the 20 that were last the largest.
    """

    campaign: str
    version: int
    digest: str
    every: str
    confidence: float
    about: str
    periods: list[Period]
    estimates: list[Figure]
    changed: Changed | None = None


class Estimates(msgspec.Struct, frozen=True):
    """The crowd's answer."""

    campaign: str
    version: int
    digest: str
    people: int
    confidence: float
    about: str
    estimates: list[Figure]
    attributes: list[Attribute] = []
    """Every one that was asked: of those that are hidden there are no figures."""
    reports: int = 0
    """How many reports are in the figures; more than `people`, which is then the least that there
    are, where a person sends several."""
    period: str = ""
    """The period that the figures are about, where a question comes back; "all": all of them."""
    periods: list[Period] = []
    """Every period that has reports."""
    changes: list[Change] = []
    """What has changed since the period before, or since the one that was asked for."""
    changed: Changed | None = None
    """Whether anything has changed over all periods."""
    liars: float = SHARE
    """The share of liars that each figure's `liars` is about."""
    warnings: list[str] = []
    """Reports that honest devices never send, if there are any; nothing was removed."""
    waiting: int = 0
    """Reports that are stored, and in no figure yet: an attribute's figures change by a cohort."""

    def by_attribute(self) -> list[tuple[Attribute, list[Figure]]]:
        """Return every attribute with its figures: none if it is hidden."""
        rows: dict[str, list[Figure]] = {attribute.name: [] for attribute in self.attributes}
        for figure in self.estimates:
            rows[figure.attribute].append(figure)
        return [(attribute, rows[attribute.name]) for attribute in self.attributes]

    @property
    def hidden(self) -> list[Attribute]:
        """The attributes that fewer people than the cohort have answered."""
        return [attribute for attribute in self.attributes if attribute.hidden]


def rendered(estimates: Estimates, form: str) -> bytes:
    """Return estimates in one of the forms; the head (campaign, people, ...) is in JSON only.

    In CSV and Parquet a hidden attribute is a row without a value, whose note says why.
    """
    if form == "csv":
        return _csv(rows(estimates))
    if form == "parquet":
        return _parquet(rows(estimates))
    return msgspec.json.encode(estimates)


def rows(estimates: Estimates) -> list[dict[str, Any]]:
    """Return one row for each figure, and one for each attribute that is hidden."""
    shown = [
        {column: getattr(figure, column) for column in COLUMNS} for figure in estimates.estimates
    ]
    nothing = dict.fromkeys(COLUMNS)
    return shown + [
        {**nothing, "attribute": attribute.name, "item": "", "unit": attribute.unit}
        | {"note": why_hidden(attribute)}
        for attribute in estimates.hidden
    ]


def why_hidden(attribute: Attribute) -> str:
    """Say how many answers a hidden attribute needs.

    >>> why_hidden(Attribute("age", "number", answers=0, needed=1000, hidden=True))
    'hidden: fewer than 1,000 answers'
    """
    return f"hidden: {attribute.note or f'fewer than {attribute.needed:,} answers'}"


def waiting_note(estimates: Estimates) -> str:
    """Say how many reports are stored and in no figure yet; nothing if there are none.

    >>> found = Estimates("c", 1, "", 500, 0.95, "population", [], waiting=40)
    >>> waiting_note(found)
    '40 more reports are stored and in no figure yet: figures change by whole cohorts'
    """
    if not estimates.waiting:
        return ""
    least = {attribute.needed for attribute in estimates.attributes}
    size = f" (of {max(least):,})" if least else ""
    return (
        f"{estimates.waiting:,} more reports are stored and in no figure yet: figures change by "
        f"whole cohorts{size}"
    )


def notes_on(attributes: Sequence[Attribute], figures: Sequence[Figure] = ()) -> list[str]:
    """Say of each attribute what of it is not shown, if anything, and how many answers fitted."""
    hidden = [
        f"{attribute.name}: {why_hidden(attribute)}" for attribute in attributes if attribute.hidden
    ]
    return (
        misfits_in(attributes, figures)
        + hidden
        + [
            f"{attribute.name}: {attribute.note}"
            for attribute in attributes
            if attribute.note and not attribute.hidden
        ]
    )


def misfits_in(attributes: Sequence[Attribute], figures: Sequence[Figure]) -> list[str]:
    """Say of each attribute that is checked how many of its answers did not fit.

    >>> found = Figure("age: fit", FIT_LABELS[1], 0.11, 0.02, 0.07, 0.15, 2000, 1.0, "share")
    >>> misfits_in([Attribute("age: fit", "category", 2000, 1000, False, checks="age")], [found])
    ['age: 11% of answers did not fit (standard error 2%, interval 7% to 15%)']
    """
    checks = {attribute.name: attribute.checks for attribute in attributes if attribute.checks}
    sentences = []
    for figure in figures:
        if figure.attribute in checks and figure.item == FIT_LABELS[1]:
            about = [] if figure.stderr is None else [f"standard error {_percent(figure.stderr)}"]
            if figure.low is not None and figure.high is not None:
                about.append(f"interval {_percent(figure.low)} to {_percent(figure.high)}")
            more = f" ({', '.join(about)})" if about else ""
            name = checks[figure.attribute]
            sentences.append(f"{name}: {_percent(figure.value)} of answers did not fit{more}")
    return sentences


def _percent(share: float) -> str:
    return f"{100 * share:.3g}%"


def _csv(table_rows: Sequence[dict[str, Any]]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in table_rows:
        writer.writerow(csv_cell(value) for value in row.values())
    return text.getvalue().encode()


def _parquet(table_rows: Sequence[dict[str, Any]]) -> bytes:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise missing_extra("Parquet", "arrow") from None
    table = pyarrow.table({column: [row[column] for row in table_rows] for column in COLUMNS})
    sink = io.BytesIO()
    pyarrow.parquet.write_table(table, sink)
    return sink.getvalue()
