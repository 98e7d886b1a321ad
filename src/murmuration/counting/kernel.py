"""The kernel: columns of reports become sums. All engines call it, so all count alike.

A batch is an Arrow RecordBatch with the columns of `wire.parquet`. Any type that holds the same
values will do. A value that none of our devices can have sent is refused with its row, and counted
under its reason; what is no table of reports at all is an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from murmuration.campaign.survey import SurveyCampaign
from murmuration.counting.sums import Collection, Sums, vector_of
from murmuration.errors import FormatError
from murmuration.exact.arrays import Bits, Ints, Rows
from murmuration.wire.ids import ID_BYTES, Ids
from murmuration.wire.parquet import Column, arrow, layout

ID = Column("id", 0, ID_BYTES, 0)
Entry = tuple[NDArray[np.unsignedinteger[Any]], Rows]
"""The cells' numbers, and the cells' own bytes, zeros included."""


@dataclass(frozen=True)
class CountedReports:
    """The reports of a batch that were counted, for whoever looks at their ids afterwards."""

    ids: Ids
    rows: Rows


def columns_of(campaign: Collection) -> tuple[Column, ...]:
    """Return the columns beside the id."""
    return layout(cast(SurveyCampaign, campaign))


def count(campaign: Collection, batch: Any, *, ids: bool) -> tuple[Sums, CountedReports | None]:
    """Count a batch; with `ids` also return what was counted, so that duplicates can be found."""
    sums, columns = Sums(read=batch.num_rows), columns_of(campaign)
    fine = np.ones(batch.num_rows, dtype=bool)
    found = []
    for column, reason in [(ID, "bad-id")] * ids + [(one, "bad-entries") for one in columns]:
        octets, good = _octets(batch, column)
        if good is not None:
            sums.refuse(reason, int((fine & ~good).sum()))
            fine &= good
        found.append(octets)
    if not fine.all():
        found = [octets[fine] for octets in found]
    names = found.pop(0) if ids else None
    if campaign.row_bytes > campaign.frame.row_bytes:  # the period comes first
        kept = _counted_rows(campaign, sums, names, _rows(campaign, columns, found))
        return sums, kept if ids else None
    entries = [_entry(*pair) for pair in zip(found[::2], found[1::2], strict=True)]
    if (good := _count(campaign, sums, entries)) is not None:
        sums.refuse("bad-symbol", int((~good).sum()))
        found = [octets[good] for octets in found]
        names = None if names is None else names[good]
        entries = [(numbers[good], octets[good]) for numbers, octets in entries]
        if _count(campaign, sums, entries) is not None:
            raise AssertionError("valid reports are valid")
    return sums, None if names is None else CountedReports(names, _rows(campaign, columns, found))


def _counted_rows(
    campaign: Collection, sums: Sums, names: Ids | None, rows: Rows
) -> CountedReports:
    """Count rows that say their period."""
    good = campaign.valid(rows)
    sums.refuse("bad-symbol", int((~good).sum()))
    sums.periods = count_rows(campaign, rows[good]).periods
    return CountedReports(rows[:0] if names is None else names[good], rows[good])


def count_rows(campaign: Collection, rows: Rows) -> Sums:
    """Count rows of bytes that are known to be valid."""
    sums, head = Sums(read=len(rows)), campaign.row_bytes - campaign.frame.row_bytes
    periods = _integers(rows[:, :head])
    for period in np.unique(periods).tolist():
        tallies = campaign.frame.tally_valid(rows[periods == period][:, head:])
        people = np.array([tally.n for tally in tallies])
        sums.periods[period] = vector_of(campaign, people, [tally.counts for tally in tallies])
    return sums


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


def _integers(octets: Rows) -> Ints:
    """Read little-endian integers of up to four bytes; of none, zeros."""
    wide = np.zeros((len(octets), 8), dtype=np.uint8)
    wide[:, : octets.shape[1]] = octets
    return wide.view("<i8")[:, 0]


def _rows(campaign: Collection, columns: tuple[Column, ...], found: list[Rows]) -> Rows:
    """Return what was sent."""
    rows = np.empty((len(found[0]), campaign.row_bytes), dtype=np.uint8)
    for column, octets in zip(columns, found, strict=True):
        rows[:, column.start : column.start + column.width] = octets[:, : column.width]
    return rows


# --- which are possible, and what they add up to -------------------------------------------------


def _entry(numbers: Rows, octets: Rows) -> Entry:
    """Return an entry with its numbers as such."""
    if numbers.shape[1] == 1:
        return numbers[:, 0], octets
    return np.ascontiguousarray(numbers).view("<u2")[:, 0], octets


def _count(campaign: Collection, sums: Sums, entries: list[Entry]) -> Bits | None:
    """Add entries to the sums, unless some are not possible: then add none, say which are."""
    frame = campaign.frame
    good = _named(campaign, entries)
    if good is not None:
        return good & _possible(campaign, [(np.where(good, n, 0), o) for n, o in entries], good)
    people = np.zeros(len(frame.cells), dtype=np.int64)
    counters: list[Ints | None] = [None] * len(frame.cells)
    for numbers, octets in entries:
        for cell, _, own in _by_cell(numbers, octets):
            law = frame.cells[cell]
            width = law.report_bytes
            reports = law.from_rows(own[:, :width])
            if own[:, width:].any() or not law.possible(reports).all():
                return _possible(campaign, entries, np.ones(len(numbers), dtype=bool))
            counts, before = law.count(reports), counters[cell]
            counters[cell] = counts if before is None else before + counts
            people[cell] += len(own)
    if people.any():
        vector = vector_of(campaign, people, counters)
        sums.periods[0] = sums.periods[0] + vector if 0 in sums.periods else vector
    return None


def _named(campaign: Collection, entries: list[Entry]) -> Bits | None:
    """Tell which reports name cells that their entries can have; None if all do."""
    frame, fine, last = campaign.frame, None, None
    for slot, (numbers, _) in zip(frame.slots, entries, strict=True):
        if not len(numbers):
            return None
        if numbers.min() < slot.start or numbers.max() >= slot.stop:
            inside = (numbers >= slot.start) & (numbers < slot.stop)
            fine = inside if fine is None else fine & inside
        if len(entries) > 1:
            group = frame.group_of[np.minimum(numbers, len(frame.cells) - 1)]
            if last is not None and not (later := group > last).all():
                fine = later if fine is None else fine & later
            last = group
    return fine


def _possible(campaign: Collection, entries: list[Entry], fine: Bits) -> Bits:
    """Tell which reports their cells' devices can have sent."""
    fine = fine.copy()
    for numbers, octets in entries:
        for cell, who, own in _by_cell(numbers, octets):
            law = campaign.frame.cells[cell]
            width = law.report_bytes
            possible = law.possible(law.from_rows(own[:, :width]))
            fine[who] &= possible & ~own[:, width:].any(axis=1)
    return fine


def _by_cell(
    numbers: NDArray[np.unsignedinteger[Any]], octets: Rows
) -> Iterator[tuple[int, slice | Ints, Rows]]:
    """Yield each cell, who answers by it, and the bytes of these people."""
    if not len(numbers):
        return
    if numbers.min() == numbers.max():
        yield int(numbers[0]), slice(None), octets
        return
    order = np.argsort(numbers, kind="stable")  # of small integers: by counting, in linear time
    sizes = np.bincount(numbers)
    ends, ordered = np.cumsum(sizes), octets[order]
    for cell in np.flatnonzero(sizes).tolist():
        mine = slice(int(ends[cell] - sizes[cell]), int(ends[cell]))
        yield cell, order[mine], ordered[mine]
