"""Estimates in three forms: JSON, CSV and Parquet, all with the same columns."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import fields

import msgspec

from murmuration.errors import ParameterError
from murmuration.results.estimate import About
from murmuration.results.figure import Figure

COLUMNS = tuple(field.name for field in fields(Figure))
JSON, CSV, PARQUET = "application/json", "text/csv", "application/vnd.apache.parquet"
MOST_LEVEL = 0.999999
"""Beyond that an interval is soon the whole line."""
ABOUT = tuple(about.value for about in About)
FORMATS = {"json": JSON, "csv": CSV, "parquet": PARQUET}


class Estimates(msgspec.Struct, frozen=True):
    """The crowd's answer."""

    campaign: str
    version: int
    digest: str
    people: int
    level: float
    about: str
    estimates: list[Figure]


def rendered(found: Estimates, form: str) -> bytes:
    """Return estimates in one of the forms; the head (campaign, people, ...) is in JSON only."""
    if form == "csv":
        return _csv(found.estimates)
    if form == "parquet":
        return _parquet(found.estimates)
    return msgspec.json.encode(found)


def _csv(figures: Sequence[Figure]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for figure in figures:
        writer.writerow(_cell(getattr(figure, column)) for column in COLUMNS)
    return text.getvalue().encode()


def _cell(value: object) -> object:
    """Write numbers so that they come back bit for bit."""
    if isinstance(value, float):
        return repr(value)
    return "" if value is None else value


def _parquet(figures: Sequence[Figure]) -> bytes:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise ParameterError("Parquet needs: pip install 'murmuration[arrow]'") from None
    table = pyarrow.table(
        {column: [getattr(figure, column) for figure in figures] for column in COLUMNS}
    )
    sink = io.BytesIO()
    pyarrow.parquet.write_table(table, sink)
    return sink.getvalue()
