"""The kernel: columns of reports become sums. All engines call it, so all count alike.

A batch is an Arrow RecordBatch with the columns of `wire.parquet`. Any type that holds the same
values will do. A value that none of our devices can have sent is refused with its row, and counted
under its reason; what is no table of reports at all is an error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from murmuration.campaign.form import ReportForm
from murmuration.counting.sums import Sums
from murmuration.errors import FormatError
from murmuration.exact.arrays import Bits, Rows
from murmuration.mechanisms.packing import row_integers
from murmuration.wire.ids import ID_BYTES, Ids
from murmuration.wire.parquet import Column, arrow, layout

ID = Column("id", 0, ID_BYTES, 0)


@dataclass(frozen=True)
class CountedReports:
    """The reports of a batch that were counted, for whoever looks at their ids afterwards."""

    ids: Ids
    rows: Rows


def count(form: ReportForm, batch: Any, *, ids: bool) -> tuple[Sums, CountedReports | None]:
    """Count a batch; with `ids` also return what was counted, so that duplicates can be found."""
    sums, columns = Sums(read=batch.num_rows), layout(form)
    fine = np.ones(batch.num_rows, dtype=bool)
    read = []
    for column in (ID,) * ids + columns:
        octets, good = _octets(batch, column)
        if good is not None:
            sums.refuse("bad-id" if column is ID else "bad-entries", int((fine & ~good).sum()))
            fine &= good
        read.append(octets)
    if not fine.all():
        read = [octets[fine] for octets in read]
    names = read.pop(0) if ids else None
    possible = _counted(form, sums, columns, read)
    sums.refuse("bad-symbol", int((~possible).sum()))
    if names is None:
        return sums, None
    rows = _rows(form, columns, read)
    if not possible.all():
        names, rows = names[possible], rows[possible]
    return sums, CountedReports(names, rows)


def _counted(form: ReportForm, sums: Sums, columns: tuple[Column, ...], read: list[Rows]) -> Bits:
    """Count what is possible, and tell which reports are."""
    if form.every is not None:
        rows = _rows(form, columns, read)
        possible = form.valid(rows)
        sums.periods = form.sums(rows[possible])
        return possible
    pairs = zip(read[::2], read[1::2], strict=True)
    added, possible = form.frame.sift([(row_integers(cells), octets) for cells, octets in pairs])
    sums.periods = {0: added} if possible.any() else {}
    return possible


def count_rows(form: ReportForm, rows: Rows) -> Sums:
    """Count rows of bytes that are known to be valid."""
    return Sums(read=len(rows), periods=form.sums(rows))


# --- columns as bytes ----------------------------------------------------------------------------


def _octets(batch: Any, column: Column) -> tuple[Rows, Bits | None]:
    """Return a column as rows of bytes, and where it holds what it may; None if everywhere."""
    pa = arrow()
    place = batch.schema.get_field_index(column.name)
    if place < 0:
        raise FormatError(f"there is no column {column.name}, or more than one")
    values = batch.column(place)
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if isinstance(values, pa.DictionaryArray):
        values = values.dictionary_decode()
    if values.null_count:
        raise FormatError(f"{values.null_count:,} rows have nothing in column {column.name}")
    if not column.integer:
        return _bytes(pa, values, column)
    if not pa.types.is_integer(values.type):
        raise FormatError(f"column {column.name} has whole numbers; got {values.type}")
    return _whole(values.to_numpy(zero_copy_only=False), column)


def _whole(numbers: Any, column: Column) -> tuple[Rows, Bits | None]:
    """Return integers as little-endian bytes."""
    kind, good = np.dtype(f"<u{column.integer}"), None
    if numbers.dtype != kind or column.width < column.integer:
        bits = 8 * min(column.integer, column.width or column.integer)
        if len(numbers) and (numbers.min() < 0 or numbers.max() >= 1 << bits):
            good = (numbers >= 0) & (numbers < 1 << bits)
            numbers = np.where(good, numbers, 0)
        numbers = numbers.astype(kind, copy=False)
    octets = np.ascontiguousarray(numbers).view(np.uint8).reshape(len(numbers), column.integer)
    return octets[:, : column.width or column.integer], good


def _bytes(pa: Any, values: Any, column: Column) -> tuple[Rows, Bits | None]:
    """Return bytes as rows of one length; shorter and longer ones are refused."""
    kind, width, n = values.type, column.width, len(values)
    if pa.types.is_fixed_size_binary(kind):
        if kind.byte_width != width:
            raise FormatError(f"column {column.name} has {width} bytes a row; got {kind}")
        start, data = width * values.offset, values.buffers()[1]
        return np.frombuffer(data, np.uint8)[start : start + width * n].reshape(n, width), None
    if not (pa.types.is_binary(kind) or pa.types.is_large_binary(kind)):
        raise FormatError(f"column {column.name} has bytes; got {kind}")
    values = values.cast(pa.large_binary())
    _, ends_data, data = values.buffers()
    ends = np.frombuffer(ends_data, np.int64)[values.offset : values.offset + n + 1]
    good = np.diff(ends) == width
    rows = np.zeros((n, width), dtype=np.uint8)
    if good.any():
        places = ends[:-1][good][:, None] + np.arange(width)
        rows[good] = np.frombuffer(data, np.uint8)[places]
    return rows, None if good.all() else good


def _rows(form: ReportForm, columns: tuple[Column, ...], read: list[Rows]) -> Rows:
    """Return what was sent."""
    rows = np.empty((len(read[0]), form.row_bytes), dtype=np.uint8)
    for column, octets in zip(columns, read, strict=True):
        rows[:, column.start : column.start + column.width] = octets[:, : column.width]
    return rows
