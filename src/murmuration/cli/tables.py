"""The one reader of data files: CSV with a header, and Parquet, column by column.

    table = open_table(path)
    table.names                      the header
    table.chunks(["age", "phone"])   a piece at a time
    table.columns(["age"])           all of it

CSV gives texts, Parquet what is stored; `texts` makes both alike.
"""

from __future__ import annotations

import csv
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

from murmuration.cli.extras import require
from murmuration.errors import ParameterError

CHUNK = 50_000
"""Rows that are read together."""
PARQUET = (".parquet", ".pq")

Columns = dict[str, list[Any]]


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
            if self.names.count(name) != 1:
                raise ParameterError(
                    f"{self.path} has no column {name!r}, or two of that name; "
                    f"its columns are {', '.join(self.names)}"
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

    @abstractmethod
    def place(self, row: int) -> str:
        """Say where the row of that number is; the first is number 0."""

    @abstractmethod
    def _header(self) -> list[str]: ...

    @abstractmethod
    def _parts(self, names: list[str]) -> Iterator[Columns]: ...


def open_table(path: Path) -> Table:
    """Open a data file: Parquet by the end of its name, anything else as CSV."""
    if not path.is_file():
        raise ParameterError(f"there is no file {path}")
    if path.suffix.lower() not in PARQUET:
        return _CsvTable(path)
    require("arrow")
    return _ParquetTable(path)


def texts(values: Sequence[Any]) -> list[str]:
    """Return values as CSV has them; one that is missing is an empty text."""
    return ["" if value is None else str(value) for value in values]


class _CsvTable(Table):
    def place(self, row: int) -> str:
        return f"on line {row + 2}"

    def _header(self) -> list[str]:
        with self._rows() as rows:
            names = next(rows, [])
        if len(names) == 1 and any(mark in names[0] for mark in ";\t"):
            raise ParameterError(
                f"{self.path} has one column, {names[0]!r}: put commas between columns"
            )
        return names

    def _parts(self, names: list[str]) -> Iterator[Columns]:
        places = {name: self.names.index(name) for name in names}
        with self._rows() as rows:
            next(rows)
            while part := list(islice(rows, CHUNK)):
                full = [row for row in part if row]  # a blank line is no row
                yield {
                    name: [row[place] if place < len(row) else "" for row in full]
                    for name, place in places.items()
                }

    @contextmanager
    def _rows(self) -> Iterator[Iterator[list[str]]]:
        """Open the file from the start; what is wrong with it is said in one line."""
        with self.path.open(newline="", encoding="utf-8-sig") as lines:
            try:
                yield csv.reader(lines)
            except UnicodeDecodeError:
                raise ParameterError(f"{self.path} is not UTF-8 text") from None
            except csv.Error as problem:
                raise ParameterError(f"{self.path} is not a CSV file: {problem}") from None


class _ParquetTable(Table):
    def place(self, row: int) -> str:
        return f"in row {row + 1}"

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
