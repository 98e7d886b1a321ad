"""Estimates in three forms: JSON, CSV and Parquet, all with the same columns."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields

import msgspec

from murmuration.errors import ParameterError
from murmuration.estimate import About
from murmuration.question import Figure

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


def preferred(accept: str) -> str | None:
    """Return the form that an Accept header likes best; None if it likes none.

    >>> preferred("text/csv, */*;q=0.1"), preferred("text/html, */*"), preferred("text/html")
    ('csv', 'json', None)
    """
    ranges = dict(_range(part) for part in accept.lower().split(","))
    qualities = {form: _quality(ranges, media) for form, media in FORMATS.items()}
    best = max(qualities, key=lambda form: qualities[form])
    return best if qualities[best] else None


def _range(part: str) -> tuple[str, float]:
    name, _, parameters = part.partition(";")
    found = re.search(r"\bq=(0(?:\.\d*)?|1)", parameters)
    return name.strip(), float(found[1]) if found else 1.0


def _quality(ranges: Mapping[str, float], media: str) -> float:
    """Return how welcome a media type is, by the most specific range that has it."""
    names = (media, f"{media.partition('/')[0]}/*", "*/*")
    return next((ranges[name] for name in names if name in ranges), 0.0)


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
