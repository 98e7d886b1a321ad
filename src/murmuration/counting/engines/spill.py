"""Reports on the disk, in partitions by id, so that each id counts once in bounded memory.

A block of reports is written in the order of its partitions: all first halves of ids, all second
halves, all rows, and a checksum of each partition's part of each; an index says where each
partition begins. Whatever is read is held against its checksums. To find duplicates, the first
halves of one partition are read from all blocks and sorted: where no two are equal, as nearly
always, that is all. Rows were counted as they came; of those with one id all but the smallest, byte
by byte, are taken out again. So nothing depends on the order in which reports are read.

Which partition an id is in follows from a secret of the folder: whoever makes up ids cannot put all
of them into one.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import numpy as np
from numpy.typing import NDArray

from murmuration.campaign.form import ReportForm
from murmuration.counting.kernel import CountedReports, count_rows
from murmuration.counting.sums import Sums
from murmuration.errors import FormatError
from murmuration.exact.arrays import Bits, Ints, Rows
from murmuration.files import private_new
from murmuration.wire.ids import ID_BYTES

BITS = 10
PARTITIONS = 1 << BITS
BLOCK_ROWS, BLOCK_BYTES = 1 << 18, 1 << 26
"""The most reports, and about the most bytes, that a block has."""
HALF = ID_BYTES // 2
KINDS = ("high", "low", "rows")
"""What a block has, in this order: halves of ids, and rows."""
CHECK = np.dtype("<u4")
CHECKS_BYTES = len(KINDS) * PARTITIONS * CHECK.itemsize
"""The bytes of a block's checksums."""
WORKING = 5
"""About how many times the bytes of its first halves a partition takes while it is sorted."""

Halves = NDArray[np.uint64]
Salt = tuple[int, int]
"""Two odd numbers that decide which partition an id is in."""


def new_salt() -> Salt:
    """Return the secret of a folder."""
    first, second = (int.from_bytes(os.urandom(8), "little") | 1 for _ in range(2))
    return first, second


@dataclass(frozen=True)
class Spilled:
    """A file of blocks. `index` has a row per block: where it is, then where partitions begin."""

    path: Path
    index: Ints
    row_bytes: int

    @property
    def reports(self) -> int:
        """How many there are."""
        return int(self.index[:, -1].sum())

    @property
    def size(self) -> int:
        """The bytes that the file must have."""
        return self.reports * (ID_BYTES + self.row_bytes) + len(self.index) * CHECKS_BYTES

    def save(self) -> None:
        """Write the index beside the file."""
        with private_new(self.path.with_suffix(".npy")) as file:
            np.save(file, self.index)

    @classmethod
    def load(cls, path: Path, row_bytes: int) -> Spilled:
        """Read what `save` wrote."""
        try:
            index = np.load(path.with_suffix(".npy"), allow_pickle=False)
            found = cls(path, index, row_bytes)
            whole = index.shape[1] == PARTITIONS + 2 and path.stat().st_size == found.size
            ordered = bool((np.diff(index[:, 1:]) >= 0).all() and (index[:, :2] >= 0).all())
        except (OSError, ValueError, IndexError) as problem:
            raise FormatError(f"{path} cannot be read: {problem}") from None
        if not whole:
            raise FormatError(f"{path} is not as long as its index says")
        if index.dtype != np.int64 or not ordered:
            raise _damaged(path)
        return found

    def slices(self, first: int, last: int, kind: str) -> list[bytes]:
        """Return the bytes of some partitions, block by block: high and low halves, or rows."""
        width = self.row_bytes if kind == "rows" else HALF
        place = KINDS.index(kind)
        slices = []
        with self.path.open("rb", buffering=0) as file:
            for block in self.index:
                at, n = int(block[0]), int(block[-1])
                cuts = (width * block[1 + first : 2 + last]).tolist()
                data = _exactly(file, at + HALF * place * n + cuts[0], cuts[-1] - cuts[0])
                at += n * (ID_BYTES + self.row_bytes) + CHECK.itemsize * (
                    PARTITIONS * place + first
                )
                told = _exactly(file, at, CHECK.itemsize * (last - first))
                if _checks(memoryview(data), cuts).tobytes() != told:
                    raise _damaged(self.path)
                if data:
                    slices.append(data)
        return slices

    def ids(self, first: int, last: int) -> Rows:
        """Return the ids of some partitions."""
        both = [
            np.frombuffer(b"".join(self.slices(first, last, kind)), "<u8")
            for kind in ("high", "low")
        ]
        return np.stack(both, axis=1).view(np.uint8).reshape(-1, ID_BYTES)


def _checks(data: memoryview, cuts: Sequence[int]) -> NDArray[np.uint32]:
    """Return a checksum of each piece of some bytes; the first begins where the bytes do."""
    pieces = pairwise(cut - cuts[0] for cut in cuts)
    return np.array([zlib.crc32(data[start:end]) for start, end in pieces], CHECK)


def _damaged(path: Path) -> FormatError:
    return FormatError(f"{path} is damaged: --fresh makes it again")


def _exactly(file: IO[bytes], at: int, size: int) -> bytes:
    data = os.pread(file.fileno(), size, at)
    while len(data) < size:
        more = os.pread(file.fileno(), size - len(data), at + len(data))
        if not more:
            raise FormatError(f"{file.name} is shorter than its index says")
        data += more
    return data


class Spill:
    """A file of blocks that is being written."""

    def __init__(self, path: Path, row_bytes: int, salt: Salt) -> None:
        self.path, self.row_bytes, self.salt = path, row_bytes, salt
        self._file = private_new(path)
        self._waiting: list[CountedReports] = []
        self._rows, self._at = 0, 0
        self._index: list[Ints] = []
        self._most = max(1, min(BLOCK_ROWS, BLOCK_BYTES // (ID_BYTES + row_bytes)))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: Any, trace: TracebackType | None
    ) -> None:
        self._file.close()
        if kind is not None:
            self.path.unlink(missing_ok=True)

    def add(self, kept: CountedReports) -> None:
        """Add reports; a block is written when it is full."""
        self._waiting.append(kept)
        self._rows += len(kept.ids)
        if self._rows >= self._most:
            self._flush()

    def done(self) -> Spilled:
        """Write what is left, and return what there is now."""
        self._flush()
        index = np.array(self._index, dtype=np.int64).reshape(-1, PARTITIONS + 2)
        return Spilled(self.path, index, self.row_bytes)

    def _flush(self) -> None:
        if not self._rows:
            return
        high, low = halves(np.concatenate([kept.ids for kept in self._waiting]))
        rows = np.concatenate([kept.rows for kept in self._waiting])
        self._waiting, self._rows = [], 0
        where = partition(high, low, self.salt)
        order = np.argsort(where, kind="stable")
        ends = np.concatenate([[0], np.cumsum(np.bincount(where, minlength=PARTITIONS))])
        self._index.append(np.concatenate([[self._at], ends]).astype(np.int64))
        checks = []
        for part in (high[order], low[order], np.take(rows, order, axis=0)):
            data = memoryview(np.ascontiguousarray(part).data).cast("B")
            checks.append(_checks(data, (ends * (len(data) // len(part))).tolist()))
            self._write(data)
        self._write(memoryview(np.concatenate(checks).tobytes()))

    def _write(self, data: memoryview) -> None:
        while len(data):
            wrote = self._file.write(data) or 0
            data, self._at = data[wrote:], self._at + wrote


def halves(ids: Rows) -> tuple[Halves, Halves]:
    """Return the two halves of ids as numbers: only whether they are equal matters.

    >>> [half.tolist() for half in halves(np.arange(16, dtype=np.uint8).reshape(1, 16) // 15)]
    [[0], [72057594037927936]]
    """
    both = np.ascontiguousarray(ids).view("<u8").reshape(-1, 2)
    return both[:, 0].astype(np.uint64), both[:, 1].astype(np.uint64)


def partition(high: Halves, low: Halves, salt: Salt) -> NDArray[np.uint16]:
    """Return the partition of each id."""
    mixed = high * np.uint64(salt[0])
    mixed += low * np.uint64(salt[1])
    mixed >>= np.uint64(64 - BITS)  # the top bits of multiples by secret odd numbers
    return mixed.astype(np.uint16)


def shares(reports: int, memory: int) -> list[tuple[int, int]]:
    """Return ranges of partitions, each of which takes about so many bytes of memory.

    >>> shares(1000, 1 << 20)
    [(0, 1024)]
    >>> len(shares(10**9, 64 << 20))
    1024
    """
    wanted = min(PARTITIONS, max(1, -(-reports * HALF * WORKING // memory)))
    pieces = 1 << (wanted - 1).bit_length()
    step = PARTITIONS // pieces
    return [(start, start + step) for start in range(0, PARTITIONS, step)]


def surplus(form: ReportForm, files: Sequence[Spilled], first: int, last: int) -> Sums:
    """Return what the reports of some partitions add up to that must not count."""
    high = _numbers(files, first, last, "high")
    again = np.sort(high)
    again = np.unique(again[1:][again[1:] == again[:-1]])
    if not len(again):
        return Sums()
    who = among(high, again)
    high, low = high[who], _numbers(files, first, last, "low")[who]
    rows = np.concatenate(
        [
            np.frombuffer(data, np.uint8).reshape(-1, form.row_bytes)
            for file in files
            for data in file.slices(first, last, "rows")
        ]
    )[who]
    rows = rows[later(high, low, rows)]
    if not form.valid(rows).all():
        raise FormatError("the state beside the tally is damaged; --fresh makes it again")
    return count_rows(form, rows)


def _numbers(files: Sequence[Spilled], first: int, last: int, kind: str) -> Halves:
    parts = [data for file in files for data in file.slices(first, last, kind)]
    return np.concatenate([np.zeros(0, np.uint64), *(np.frombuffer(data, "<u8") for data in parts)])


def later(high: Halves, low: Halves, rows: Rows) -> Ints:
    """Return which reports do not count: of each id all but the one with the smallest bytes.

    >>> one, same = np.zeros(3, np.uint64), np.array([7, 7, 8], np.uint64)
    >>> later(one, same, np.array([[2], [1], [5]], np.uint8)).tolist()
    [0]
    """
    wide = np.zeros((len(rows), -(-rows.shape[1] // 8) * 8), dtype=np.uint8)
    wide[:, : rows.shape[1]] = rows
    words = wide.view(">u8").astype(np.uint64)
    order = np.lexsort((*words.T[::-1], low, high))
    again: Bits = np.zeros(len(order), dtype=bool)
    again[1:] = (np.diff(high[order]) == 0) & (np.diff(low[order]) == 0)
    return order[again]


def surplus_of(high: Halves, low: Halves, rows: Rows) -> Ints:
    """Return which reports do not count, quickly where no two ids are equal."""
    again = np.sort(high)
    again = np.unique(again[1:][again[1:] == again[:-1]])
    if not len(again):
        return np.zeros(0, dtype=np.int64)
    who = among(high, again)
    return who[later(high[who], low[who], rows[who])]


def among(high: Halves, again: Halves) -> Ints:
    """Return which halves are among some sorted ones."""
    places = np.minimum(np.searchsorted(again, high), len(again) - 1)
    return np.flatnonzero(again[places] == high)
