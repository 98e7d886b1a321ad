"""Reports in CSV: ids and bytes in hexadecimal, numbers in decimal; line 1 names the columns.

A line that is no report is refused and counted; the others count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from murmuration.campaign.form import ReportForm
from murmuration.counting.sums import Sums
from murmuration.errors import FormatError
from murmuration.exact.arrays import Rows
from murmuration.wire.parquet import ID, Column, arrow, layout

BLOCK = 1 << 22
"""Bytes that are read together; no line is longer."""
_VALUES = np.full(256, 255, dtype=np.uint8)
for _place, _digit in enumerate("0123456789abcdef"):
    _VALUES[ord(_digit)] = _VALUES[ord(_digit.upper())] = _place


def batches(path: Path, form: ReportForm, *, ids: bool) -> Iterator[tuple[Any, Sums]]:
    """Yield Arrow batches of a CSV file, and what was refused beside them."""
    pa = arrow()
    import pyarrow.csv  # not in what `arrow` imports

    wanted = [*(ID,) * ids, *layout(form)]
    short: Counter[str] = Counter()

    def skipped(row: Any) -> str:
        del row
        short["malformed"] += 1
        return "skip"

    with pyarrow.csv.open_csv(
        path,
        pyarrow.csv.ReadOptions(use_threads=False, block_size=BLOCK),
        pyarrow.csv.ParseOptions(invalid_row_handler=skipped),
        pyarrow.csv.ConvertOptions(
            column_types={column.name: pa.string() for column in wanted}, strings_can_be_null=False
        ),
    ) as stream:
        for column in wanted:
            if stream.schema.get_field_index(column.name) < 0:
                raise FormatError(f"line 1 does not name a column {column.name}, or more than one")
        for batch in stream:
            refused, short = short, Counter()
            before = Sums(read=batch.num_rows + refused.total(), refused=refused)
            parsed = _parsed(pa, batch, wanted, before)
            before.read -= parsed.num_rows  # the kernel counts these itself
            yield parsed, before
    if short:
        yield None, Sums(read=short.total(), refused=short)


def _parsed(pa: Any, batch: Any, wanted: list[Column], sums: Sums) -> Any:
    """Return the lines that are reports, with their values."""
    import pyarrow.compute as pc

    fine = np.ones(batch.num_rows, dtype=bool)
    for column in wanted:
        digits = rf"^[0-9a-fA-F]{{{2 * column.width}}}$"
        written = r"^[0-9]{1,10}$" if column.integer else digits
        good = np.asarray(pc.match_substring_regex(batch.column(column.name), written))
        reason = "bad-id" if column.name == "id" else "bad-entries"
        sums.refuse(reason, int((fine & ~good).sum()))
        fine &= good
    kept = batch.filter(pa.array(fine))
    arrays = []
    for column in wanted:
        values = kept.column(column.name)
        if column.integer:
            arrays.append(values.cast(pa.int64()))
        else:
            octets = _decoded(values, column.width)
            flat = pa.py_buffer(np.ascontiguousarray(octets))
            kind = pa.binary(column.width)
            arrays.append(pa.Array.from_buffers(kind, len(octets), [None, flat]))
    return pa.record_batch(arrays, names=[column.name for column in wanted])


def _decoded(values: Any, width: int) -> Rows:
    """Return the bytes of hexadecimal texts, all of one length."""
    text = b"".join(value.encode() for value in values.to_pylist())
    digits = _VALUES[np.frombuffer(text, np.uint8)].reshape(-1, width, 2)
    return np.asarray(digits[:, :, 0] << 4 | digits[:, :, 1], dtype=np.uint8)
