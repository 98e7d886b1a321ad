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
from murmuration.exact.arrays import Bits, Rows
from murmuration.mechanisms.packing import row_integers
from murmuration.wire.ids import Ids
from murmuration.wire.parquet import ID, as_rows, layout, octets_of


@dataclass(frozen=True)
class CountedReports:
    """The reports of a batch that were counted, for whoever looks at their ids afterwards."""

    ids: Ids
    rows: Rows


def count(form: ReportForm, batch: Any, *, ids: bool) -> tuple[Sums, CountedReports | None]:
    """Count a batch; with `ids` also return what was counted, so that duplicates can be found."""
    sums = Sums(read=batch.num_rows)
    fine = np.ones(batch.num_rows, dtype=bool)
    read = []
    for column in (ID,) * ids + layout(form):
        octets, good = octets_of(batch, column)
        if good is not None:
            sums.refuse("bad-id" if column is ID else "bad-entries", int((fine & ~good).sum()))
            fine &= good
        read.append(octets)
    if not fine.all():
        read = [octets[fine] for octets in read]
    names = read.pop(0) if ids else None
    possible = _counted(form, sums, read)
    sums.refuse("bad-symbol", int((~possible).sum()))
    if names is None:
        return sums, None
    rows = as_rows(form, read)
    if not possible.all():
        names, rows = names[possible], rows[possible]
    return sums, CountedReports(names, rows)


def _counted(form: ReportForm, sums: Sums, read: list[Rows]) -> Bits:
    """Count what is possible, and tell which reports are."""
    if form.every is not None:
        rows = as_rows(form, read)
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
