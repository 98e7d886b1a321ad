"""Results as tables: for pandas, polars and Arrow, and for a notebook's page.

None of these libraries is needed to make a result; each is imported when it is asked for.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

from murmuration.errors import ParameterError

Columns = Mapping[str, Sequence[Any]]
MOST_ROWS = 40
"""Rows that a notebook shows."""
ALIKE = ("value", "stderr", "low", "high")
"""Columns that are shown with the decimals that the standard error has."""
STARTS = ("=", "+", "-", "@", "\t", "\r")
"""With these a spreadsheet takes a cell for a formula."""
NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def csv_cell(value: object) -> object:
    """Return a value as a cell of CSV: numbers bit for bit, and no text that is a formula.

    A text that begins like one has a ' before it; a text that is a number stays as it is.

    >>> csv_cell("=HYPERLINK(1)"), csv_cell("-1.5"), csv_cell(-0.1), csv_cell(None)
    ("'=HYPERLINK(1)", '-1.5', '-0.1', '')
    """
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, str) and value.startswith(STARTS) and not NUMBER.fullmatch(value):
        return f"'{value}"
    return "" if value is None else value


def needed(module: str, what: str, install: str) -> Any:
    """Return a module that this package does without until now, or say how to install it.

    >>> needed("math", "a sine", "pip install python").sin(0.0)
    0.0
    """
    try:
        return import_module(module)
    except ImportError:
        raise ParameterError(f"{what} needs {module.split('.')[0]}: {install}") from None


class Table:
    """What has columns: `columns` says which, all else follows.

    polars and Arrow take it as it is (`polars.DataFrame(result)`, `pyarrow.table(result)`), by the
    Arrow stream of `__arrow_c_stream__`.
    """

    __slots__ = ()

    def columns(self) -> Columns:
        """Return the columns by name, all of one length."""
        raise NotImplementedError

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame."""
        pandas = needed("pandas", "to_pandas", "pip install pandas")
        return pandas.DataFrame({name: _plain(column) for name, column in self.columns().items()})

    def to_arrow(self) -> Any:
        """Return an Arrow table."""
        arrow = needed("pyarrow", "an Arrow table", "pip install 'murmuration-ldp[arrow]'")
        return arrow.table({name: _plain(column) for name, column in self.columns().items()})

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def _repr_html_(self) -> str:
        """Return the table for a notebook; what is in it stays text, whatever it says."""
        return html_table(self.columns())


def _plain(column: Sequence[Any]) -> list[Any]:
    """Return a list; nan stands for None where the others are numbers."""
    values = list(column)
    numbers = [value for value in values if value is not None]
    if len(numbers) < len(values) and all(isinstance(value, float) for value in numbers):
        return [math.nan if value is None else value for value in values]
    return values


# --- a terminal ----------------------------------------------------------------------------------


def text_table(columns: Columns, stderr: Sequence[Any]) -> list[str]:
    """Return the first rows as lines of text; numbers with two digits of their standard error."""
    names = list(columns)
    rows = [
        [_cell(name, value, error) for name, value in zip(names, row, strict=True)]
        for row, error in zip(zip(*columns.values(), strict=True), stderr[:MOST_ROWS], strict=False)
    ]
    numbers = [
        all(v is None or isinstance(v, int | float) for v in columns[name]) for name in names
    ]
    widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
    lines = [
        "  ".join(
            cell.rjust(width) if number else cell.ljust(width)
            for cell, width, number in zip(row, widths, numbers, strict=True)
        ).rstrip()
        for row in (names, *rows)
    ]
    more = len(stderr) - MOST_ROWS
    return [*lines, f"... and {more:,} more rows"] if more > 0 else lines


# --- a notebook's page ---------------------------------------------------------------------------


def html_table(columns: Columns) -> str:
    """Return the first rows as HTML, without columns that say nothing.

    >>> html_table({"item": ["<b>"], "note": [""]})
    '<table><thead><tr><th>item</th></tr></thead><tbody><tr><td>&lt;b&gt;</td></tr></tbody></table>'
    """
    said = {name: column for name, column in columns.items() if any(c != "" for c in column)}
    head = "".join(f"<th>{html.escape(name)}</th>" for name in said)
    body = "".join(
        f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>"
        for row in _rows(said)
    )
    page = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    rows = len(next(iter(columns.values()), ()))
    more = f"<p>... and {rows - MOST_ROWS:,} more rows</p>" if rows > MOST_ROWS else ""
    return page + more


def _rows(columns: Columns) -> Iterator[list[str]]:
    for row in zip(*(column[:MOST_ROWS] for column in columns.values()), strict=True):
        by_name = dict(zip(columns, row, strict=True))
        yield [_cell(name, value, by_name.get("stderr")) for name, value in by_name.items()]


def _cell(name: str, value: Any, stderr: Any) -> str:
    """Write a number with two digits of its standard error, where it has one."""
    if value is None:
        return ""
    if isinstance(value, float):
        known = name in ALIKE and isinstance(stderr, float)
        return to_error(value, stderr) if known else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def to_error(value: float, stderr: float) -> str:
    """Return a number with as many decimals as its standard error has two digits for.

    >>> to_error(48.4712, 0.158), to_error(0.5, 0.0), to_error(123456.7, 210.0)
    ('48.47', '0.5', '123,457')
    """
    if not (math.isfinite(value) and math.isfinite(stderr) and stderr > 0):
        return f"{value:.6g}"
    places = min(max(1 - math.floor(math.log10(stderr)), 0), 12)
    return f"{value:,.{places}f}"
