"""Reports as columns of a table, for Parquet and every engine that reads it without us.

    id               fixed_size_binary(16)
    period           uint32, where the question comes back: which period the report is about
    entry_0_cell     uint16: the number of the cell (the law) that this entry is by
    entry_0_report   what that cell's device sent: its bytes as an unsigned little-endian integer
                     (a symbol, or bits with the lowest first), where no report of the entry has
                     more than four; else bytes of one length, with zeros after shorter ones
    entry_1_cell ...

Nothing is null. Columns and rows of bytes (`wire.report`) say the same: `batch` makes columns of
rows, `rows_of` rows of columns, both array by array. `cells` says what each cell's number means.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from murmuration.campaign.form import ReportForm
from murmuration.campaign.survey import SurveyCampaign
from murmuration.errors import FormatError, missing_extra
from murmuration.exact.arrays import Bits, Rows
from murmuration.mechanisms.base import Mechanism
from murmuration.wire.ids import ID_BYTES, Ids

DIGEST = b"murmuration.digest"
"""In a file's metadata: the digest of the campaign whose reports it holds."""
CELL_BYTES, MOST_INTEGER = 2, 4


@dataclass(frozen=True)
class Column:
    """One column beside the id: where its bytes are in a row, and what it is in a table."""

    name: str
    start: int
    width: int
    integer: int
    """The bytes of its unsigned integers; 0 if it has plain bytes."""

    @property
    def kind(self) -> str:
        """The name of its type.

        >>> Column("entry_0_cell", 0, 1, 2).kind, Column("entry_0_report", 1, 9, 0).kind
        ('uint16', 'fixed_size_binary[9]')
        """
        return f"uint{8 * self.integer}" if self.integer else f"fixed_size_binary[{self.width}]"


ID = Column("id", 0, ID_BYTES, 0)


def layout(form: ReportForm) -> tuple[Column, ...]:
    """Return the columns of reports, in their order."""
    frame, columns = form.frame, []
    start = form.head_bytes
    if start:
        columns.append(Column("period", 0, start, start))
    index = frame.index_bytes
    for entry, width in enumerate(frame.widths):
        columns.append(Column(f"entry_{entry}_cell", start, index, CELL_BYTES))
        size = width - index
        columns.append(Column(f"entry_{entry}_report", start + index, size, _integer_bytes(size)))
        start += width
    return tuple(columns)


def _is_symbol(law: Mechanism) -> bool:
    """Whether a report of this law is one integer."""
    return law.from_rows(np.zeros((1, law.report_bytes), dtype=np.uint8)).ndim == 1


def _integer_bytes(width: int) -> int:
    """Return the bytes of the integer type for reports of so many bytes; 0 if there is none.

    >>> [_integer_bytes(width) for width in (1, 2, 3, 4, 5)]
    [1, 2, 4, 4, 0]
    """
    return 0 if width > MOST_INTEGER else 4 if width == 3 else width


def cells(campaign: SurveyCampaign) -> list[dict[str, Any]]:
    """Say what each cell's number means: what it asks, at which level, by which law."""
    groups = campaign.strategy.grouped(len(campaign.questions))
    names = campaign.levels.names if campaign.levels else ("",)
    return [
        {
            "cell": number,
            "attribute": ", ".join(campaign.questions[place].name for place in groups[group]),
            "level": names[number - campaign.frame.cells_of[group].start],
            "mechanism": law.name,
            "report": "symbol" if _is_symbol(law) else "bytes",
            "report_bytes": law.report_bytes,
            "counters": law.counters,
        }
        for number, (law, group) in enumerate(
            zip(campaign.frame.cells, campaign.frame.group_of.tolist(), strict=True)
        )
    ]


def arrow() -> Any:
    """Return pyarrow with its Parquet part, or say how to install it."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise missing_extra("Parquet", "arrow") from None
    return pyarrow


def schema(form: ReportForm, metadata: Mapping[bytes, bytes] | None = None) -> Any:
    """Return the pyarrow schema of reports; its digest is in the metadata."""
    pa = arrow()
    fields = [pa.field("id", pa.binary(ID_BYTES), nullable=False)]
    fields += [pa.field(column.name, _type(pa, column), nullable=False) for column in layout(form)]
    return pa.schema(fields, {DIGEST: form.digest.encode(), **(metadata or {})})


def _type(pa: Any, column: Column) -> Any:
    if column.integer:
        return getattr(pa, column.kind)()
    return pa.binary(column.width)


def writer(file: Any, made: Any) -> Any:
    """Return a writer of a Parquet file with this schema; its metadata are written once."""
    opened = arrow().parquet.ParquetWriter(file, made, compression="zstd", store_schema=False)
    opened.add_key_value_metadata(made.metadata)
    return opened


def batch(form: ReportForm, ids: Ids, rows: Rows, made: Any = None) -> Any:
    """Return reports as a pyarrow RecordBatch; `made` is their schema, if it is there already."""
    pa = arrow()
    made = schema(form) if made is None else made
    arrays = [_fixed(pa, pa.binary(ID_BYTES), ids)]
    for column in layout(form):
        octets = rows[:, column.start : column.start + column.width]
        if column.integer > column.width:
            wide = np.zeros((len(rows), column.integer), dtype=np.uint8)
            wide[:, : column.width] = octets
            octets = wide
        arrays.append(_fixed(pa, _type(pa, column), octets))
    return pa.record_batch(arrays, schema=made)


def _fixed(pa: Any, kind: Any, octets: NDArray[np.uint8]) -> Any:
    """Return values of one length, little-endian, as an array: their bytes are what it holds."""
    flat = np.ascontiguousarray(octets).reshape(-1)
    return pa.Array.from_buffers(kind, len(octets), [None, pa.py_buffer(flat)])


def rows_of(form: ReportForm, batch: Any) -> tuple[Ids, Rows]:
    """Return the ids and rows of a RecordBatch (or Table) that has these columns.

    Other types that hold the same values will do, as engines write them back: wider integers,
    bytes of any length where all have the one. Columns besides are left alone.
    """
    read = []
    for column in (ID, *layout(form)):
        try:
            octets, good = octets_of(batch, column)
        except FormatError as problem:
            raise FormatError(f"these are not reports of {form.name}: {problem}") from None
        if good is not None:
            raise FormatError(
                f"these are not reports of {form.name}: column {column.name} has values that no "
                "report has"
            )
        read.append(octets)
    return read[0], as_rows(form, read[1:])


def octets_of(batch: Any, column: Column) -> tuple[Rows, Bits | None]:
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
    if not n:
        return np.zeros((0, width), dtype=np.uint8), None
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


def as_rows(form: ReportForm, read: Sequence[Rows]) -> Rows:
    """Return rows from the bytes of their columns, in the order of `layout`."""
    rows = np.empty((len(read[0]), form.row_bytes), dtype=np.uint8)
    for column, octets in zip(layout(form), read, strict=True):
        rows[:, column.start : column.start + column.width] = octets[:, : column.width]
    return rows
