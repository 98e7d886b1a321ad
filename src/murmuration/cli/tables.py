"""The one reader of data files: CSV and Parquet, column by column.

    table = open_table(path, form)
    table.names                      the columns
    table.chunks(["age", "phone"])   a piece at a time
    table.columns(["age"])           all of it

CSV gives texts, Parquet what is stored; `texts` makes both alike. How a CSV file is written is a
`Form`; what it leaves open is found in the file's beginning, where it is obvious.
"""

from __future__ import annotations

import csv
import io
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

from murmuration.campaign.answers import NUMBER, text_of, tidy
from murmuration.cli.extras import require
from murmuration.errors import ParameterError

CHUNK = 50_000
"""Rows that are read together."""
PARQUET = (".parquet", ".pq")
SAMPLE = 1 << 18
"""Characters of a file that are looked at to find out how it is written."""
DELIMITERS = ("\t", "|", ";", ",")
"""In this order: commas also stand inside numbers."""
NAMED = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "pipe": "|"}
ALIKE = 0.95
"""The share of rows that have as many fields as the first, if the delimiter is the right one."""
COMMA = re.compile(r"[+-]?[0-9]+,[0-9]+(?:[eE][+-]?[0-9]+)?")
WHOLE = re.compile(r"[+-]?[0-9]+")
MARKERS = ("?", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "-")
"""What obviously stands for no value, besides an empty text."""
UTF_16 = (b"\xff\xfe", b"\xfe\xff")

Columns = dict[str, list[Any]]


@dataclass(frozen=True)
class Form:
    """How a CSV file is written; what is empty, or None, is found.

    delimiter: what stands between fields
    encoding: of its letters; UTF-8 (UTF-16 with its mark) unless it is said
    header: whether line 1 has the columns' names
    names: the columns' names, where line 1 has none; c1, c2, ... if they are left out
    decimal: what stands before the fraction of a number, "." or ","
    """

    delimiter: str = ""
    encoding: str = ""
    header: bool | None = None
    names: tuple[str, ...] = ()
    decimal: str = ""

    @classmethod
    def said(
        cls, delimiter: str, encoding: str, header: bool | None, columns: str, decimal: str
    ) -> Form:
        """Return the form that the options of a command say.

        >>> Form.said("semicolon", "", None, "", "").delimiter
        ';'
        """
        mark = NAMED.get(delimiter, delimiter)
        if len(mark) > 1 or mark in ("\r", "\n", '"'):
            raise ParameterError(f"--delimiter is one character, or tab; got {delimiter!r}")
        if decimal not in ("", ".", ","):
            raise ParameterError(f"--decimal is . or ,; got {decimal!r}")
        names = tuple(tidy(name) for name in columns.split(",")) if columns else ()
        if names and header is not False:
            raise ParameterError("--columns names the columns of a file with --no-header")
        try:
            "".encode(encoding or "utf-8")
        except LookupError:
            raise ParameterError(
                f"--encoding is one that Python knows, as utf-8, latin-1 or cp1252; got "
                f"{encoding!r}"
            ) from None
        return cls(mark, encoding, header, names, decimal)


class Table(ABC):
    """A file of rows and named columns."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def names(self) -> list[str]:
        """The columns, in the file's order."""
        names = self._header()
        if not names:
            raise ParameterError(f"{self.path} has no columns; a CSV file names them in line 1")
        return names

    def chunks(
        self, names: Sequence[str] | None = None, most: int | None = None
    ) -> Iterator[Columns]:
        """Read these columns (all, if none are named) of the first `most` rows, in pieces."""
        wanted = list(self.names if names is None else names)
        for name in wanted:
            if (times := self.names.count(name)) != 1:
                wrong = f"{times} columns called" if times else "no column"
                raise ParameterError(
                    f"{self.path} has {wrong} {name!r}; its columns are {', '.join(self.names)}"
                )
        left = most
        for part in self._parts(wanted):
            taken = {name: column[:left] for name, column in part.items()}
            yield taken
            if left is not None and (left := left - len(taken[wanted[0]])) <= 0:
                return

    def columns(self, names: Sequence[str] | None = None, most: int | None = None) -> Columns:
        """Read these columns (all, if none are named) of the first `most` rows."""
        whole: Columns = {name: [] for name in (self.names if names is None else names)}
        for part in self.chunks(names, most):
            for name, values in part.items():
                whole[name] += values
        return whole

    def rows(self) -> int:
        """Count the rows."""
        return sum(len(part[self.names[0]]) for part in self._parts(self.names[:1]))

    @property
    def form(self) -> str:
        """Say how the file is written."""
        return "Parquet"

    @abstractmethod
    def place(self, row: int) -> str:
        """Say where the row of that number is; the first is number 0."""

    @abstractmethod
    def _header(self) -> list[str]: ...

    @abstractmethod
    def _parts(self, names: list[str]) -> Iterator[Columns]: ...


def open_table(path: Path, form: Form | None = None) -> Table:
    """Open a data file: Parquet by the end of its name, anything else as CSV."""
    if not path.is_file():
        raise ParameterError(f"there is no file {path}")
    if path.suffix.lower() not in PARQUET:
        return _CsvTable(path, form or Form(header=True))
    if form not in (None, Form()):
        raise ParameterError(
            f"{path} is Parquet, which needs no --delimiter, --encoding or --decimal"
        )
    require("arrow")
    return _ParquetTable(path)


def texts(values: Sequence[Any]) -> list[str]:
    """Return values as CSV has them; one that is missing is an empty text."""
    return [text_of(value) or "" for value in values]


class _CsvTable(Table):
    def __init__(self, path: Path, form: Form) -> None:
        super().__init__(path)
        self._said = form

    @property
    def form(self) -> str:
        form = self._form
        names = {mark: name for name, mark in NAMED.items() if name.isalpha()}
        between = names.get(form.delimiter, repr(form.delimiter))
        comma = ", a comma in numbers" if form.decimal == "," else ""
        head = "" if form.header else ", no header"
        return f"CSV, {between} between fields, {form.encoding.removesuffix('-sig')}{comma}{head}"

    def place(self, row: int) -> str:
        return f"on line {row + (2 if self._form.header else 1)}"

    def _header(self) -> list[str]:
        with self._rows() as rows:
            first = next(rows, [])
        if self._form.header:
            return [tidy(name) for name in first]
        names = list(self._form.names) or [f"c{place + 1}" for place in range(len(first))]
        if len(names) != len(first):
            raise ParameterError(
                f"{self.path} has {len(first)} columns, and --columns names {len(names)}"
            )
        return names

    def _parts(self, names: list[str]) -> Iterator[Columns]:
        places = {name: self.names.index(name) for name in names}
        with self._rows() as rows:
            if self._form.header:
                next(rows)
            while part := list(islice(rows, CHUNK)):
                full = [row or [""] for row in part if row or self._single]
                self._require_width(full)
                yield {name: self._column(full, place) for name, place in places.items()}

    @property
    def _single(self) -> bool:
        """Whether there is one column: then a blank line is a row without a value, else no row."""
        return len(self.names) == 1

    def _column(self, rows: Sequence[Sequence[str]], place: int) -> list[str]:
        cells = [row[place] if place < len(row) else "" for row in rows]
        return list(map(_pointed, cells)) if self._form.decimal == "," else cells

    def _require_width(self, rows: Sequence[Sequence[str]]) -> None:
        """Refuse rows with more than there are columns for: all after that would be moved."""
        width = len(self.names)
        if wide := sum(any(row[width:]) for row in rows if len(row) > width):
            raise ParameterError(
                f"{self.path}: {wide} of {len(rows)} rows have more fields than the {width} of "
                "line 1: say its --delimiter, or put texts that contain it in quotes"
            )

    # --- how it is written -----------------------------------------------------------------------

    @cached_property
    def _form(self) -> Form:
        """What was said, and what was found where nothing was."""
        said = self._said
        encoding = said.encoding or self._marked()
        with self._lines(encoding) as lines:
            sample, more = lines.read(SAMPLE), bool(lines.read(1))
        delimiter = said.delimiter or self._between(sample, more)
        rows = _split(sample, delimiter, more)
        header = self._has_header(rows) if said.header is None else said.header
        decimal = said.decimal or ("," if delimiter == ";" and _has_commas(rows) else ".")
        return replace(said, delimiter=delimiter, encoding=encoding, header=header, decimal=decimal)

    def _marked(self) -> str:
        """Return the encoding that the first bytes show."""
        with self.path.open("rb") as file:
            return "utf-16" if file.read(2) in UTF_16 else "utf-8-sig"

    def _between(self, sample: str, more: bool) -> str:
        """Return the delimiter by which all rows have as many fields as the first."""
        for mark in DELIMITERS:
            widths = [len(row) for row in _split(sample, mark, more)]
            alike = sum(width == widths[0] for width in widths) if widths else 0
            if widths and widths[0] > 1 and alike >= ALIKE * len(widths):
                return mark
        first = sample.splitlines()[0] if sample.strip() else ""
        if "," not in first and any(mark in first for mark in DELIMITERS):
            raise ParameterError(f"{self.path}: its delimiter is not clear: say --delimiter")
        return ","

    def _has_header(self, rows: Sequence[Sequence[str]]) -> bool:
        if any(NUMBER.fullmatch(tidy(name)) for name in (rows[0] if rows else ())):
            raise ParameterError(
                f"{self.path} has numbers in line 1, where the columns' names are expected: say "
                "--no-header, or --header if these are names"
            )
        return True

    @contextmanager
    def _rows(self) -> Iterator[Iterator[list[str]]]:
        """Read the file from the start."""
        form = self._form
        with self._lines(form.encoding) as lines:
            yield csv.reader(lines, delimiter=form.delimiter, skipinitialspace=True)

    @contextmanager
    def _lines(self, encoding: str) -> Iterator[io.TextIOWrapper]:
        """Open the file; what is wrong with it is said in one line."""
        with self.path.open(newline="", encoding=encoding) as lines:
            try:
                yield lines
            except UnicodeError:
                name = "UTF-8" if encoding == "utf-8-sig" else encoding
                raise ParameterError(
                    f"{self.path} is not {name} text: say its --encoding, as latin-1 or cp1252"
                ) from None
            except csv.Error as problem:
                raise ParameterError(f"{self.path} is not a CSV file: {problem}") from None


def _split(sample: str, delimiter: str, more: bool) -> list[list[str]]:
    """Return the rows at the beginning of a file; the last one may have been cut."""
    lines = csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter, skipinitialspace=True)
    try:
        rows = [row for row in lines if row]
    except csv.Error:
        return []
    return rows[:-1] if more else rows


def _has_commas(rows: Sequence[Sequence[str]]) -> bool:
    """Whether a column has numbers with a comma in them, and nothing but numbers."""
    width = max(map(len, rows), default=0)
    for place in range(width):
        column = {tidy(row[place]) for row in rows[1:] if place < len(row)} - {"", *MARKERS}
        comma = {text for text in column if COMMA.fullmatch(text)}
        if comma and all(WHOLE.fullmatch(text) for text in column - comma):
            return True
    return False


def _pointed(text: str) -> str:
    """Return a number with a comma as one with a point."""
    return text.replace(",", ".") if COMMA.fullmatch(tidy(text)) else text


class _ParquetTable(Table):
    def place(self, row: int) -> str:
        return f"in row {row + 1}"

    def rows(self) -> int:
        with self._file() as file:
            return int(file.metadata.num_rows)

    def _header(self) -> list[str]:
        with self._file() as file:
            return list(file.schema_arrow.names)

    def _parts(self, names: list[str]) -> Iterator[Columns]:
        with self._file() as file:
            for part in file.iter_batches(CHUNK, columns=names):
                yield part.to_pydict()

    @contextmanager
    def _file(self) -> Iterator[Any]:
        arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
        try:
            with parquet.ParquetFile(self.path) as file:
                yield file
        except arrow.ArrowException as problem:
            raise ParameterError(f"{self.path} is not a Parquet file: {problem}") from None
