"""Frames: which rows are valid and what they add up to, judged here one row at a time."""

from __future__ import annotations

import numpy as np
import pytest

from murmuration import mechanism, seeded_rng
from murmuration.errors import ReportError
from murmuration.exact.arrays import Rows
from murmuration.mechanisms.base import Mechanism
from murmuration.mechanisms.frame import Frame
from murmuration.mechanisms.strategy import Sample, Split

GRR, BIT, WIDE = (
    mechanism("grr", epsilon=1.0, k=3),
    mechanism("duchi", epsilon=1.0),
    mechanism("sue", epsilon=1.0, k=12),
)
FRAMES = {
    "one": Frame(((GRR,),), Sample()),
    "unnumbered": Frame(((GRR,),), Sample(), numbered=False),
    "levels": Frame(((GRR, GRR), (BIT, BIT)), Sample()),
    "split": Frame(((GRR, GRR), (WIDE, WIDE), (BIT, BIT)), Split()),
    "two-of-three": Frame(((WIDE,), (GRR,), (BIT,)), Sample(2)),
}


def entries_of(frame: Frame, row: bytes) -> list[tuple[int, bytes]] | None:
    """Return the cells and their reports; None if no device can have sent this row."""
    said, last, start = [], -1, 0
    for slot, width in zip(frame.slots, frame.widths, strict=True):
        entry, start = row[start : start + width], start + width
        head = frame.index_bytes
        number = int.from_bytes(entry[:head], "little") if head else slot.start
        if number not in slot:
            return None
        (group,) = (place for place, cells in enumerate(frame.cells_of) if number in cells)
        law = frame.cells[number]
        own, rest = entry[head:][: law.report_bytes], entry[head:][law.report_bytes :]
        if group <= last or any(rest) or not is_report(law, own):
            return None
        said.append((number, own))
        last = group
    return said


def is_report(law: Mechanism, own: bytes) -> bool:
    try:
        law.unpack(own)
    except ReportError:
        return False
    return True


def rows_of(frame: Frame, n: int) -> Rows:
    """Rows as devices send them, and after each the same with one byte or number that is not."""
    rng = np.random.default_rng(3)
    groups = [group[0] for group in frame.groups]
    columns = [rng.integers(0, law.domain.items or 2, n) for law in groups]
    levels = rng.integers(0, len(frame.groups[0]), (n, len(groups)))
    sent = frame.privatize([np.asarray(c) for c in columns], seeded_rng(1), levels)
    bad = sent.copy()
    places = rng.integers(0, frame.row_bytes, n)
    bad[np.arange(n), places] = rng.integers(0, 18, n)
    return np.concatenate([sent, bad])


@pytest.mark.parametrize("name", FRAMES)
def test_rows_are_judged_and_counted_as_one_at_a_time(name: str) -> None:
    frame = FRAMES[name]
    rows = rows_of(frame, 400)
    said = [entries_of(frame, row.tobytes()) for row in rows]
    possible = np.array([entries is not None for entries in said])
    assert possible[:400].all()
    assert 0 < possible[400:].sum() < 400
    assert (frame.valid(rows) == possible).all()
    sums, fine = frame.sift(frame.entries(rows))
    assert (fine == possible).all()
    expected = [cell.empty() for cell in frame.cells]
    for number, own in (entry for entries in said if entries for entry in entries):
        law = frame.cells[number]
        expected[number] += law.tally(law.unpack(own))
    assert list(frame.tallies(sums)) == expected
    assert (frame.sums(rows[possible]) == sums).all()
    with pytest.raises(ReportError, match=f"^report {int(possible.argmin())}"):
        frame.tally(rows)


@pytest.mark.parametrize("name", FRAMES)
def test_all_rows_of_one_number(name: str) -> None:
    """The bounds themselves: nothing else in the batch is wrong."""
    frame = FRAMES[name]
    if not frame.index_bytes:
        return
    sent = rows_of(frame, 40)[:40]
    for number in range(len(frame.cells) + 2):
        rows = sent.copy()
        rows[:, 0] = number
        possible = [entries_of(frame, row.tobytes()) is not None for row in rows]
        assert frame.valid(rows).tolist() == possible
        assert frame.sift(frame.entries(rows))[1].tolist() == possible
