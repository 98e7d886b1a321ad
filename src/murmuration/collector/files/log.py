"""An append log of reports that were counted: the first place on the disk, before Parquet.

    head     "MURMLOG1", the store's name (16 bytes), the day of arrival (days since 1970), checksum
    record   length, checksum, then: the number of the group, digest, how many reports, bytes of a
             row, all ids, all rows

All numbers are little-endian. A group of uploads that is committed together is one record for each
campaign in it, under one number, synced before the store commits. The store notes in the same
transaction up to which byte the log counts (`Store.note_log`), so the two never disagree: what lies
beyond was never acknowledged. A log has one writer, which holds a lock on it as long as it lives.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from secrets import token_hex

import numpy as np

from murmuration.collector.store import StoreError, StoreFullError
from murmuration.errors import FormatError
from murmuration.exact.arrays import Rows
from murmuration.files import draft_of, sync_folder
from murmuration.wire.ids import ID_BYTES, Ids

MAGIC = b"MURMLOG1"
HEAD = struct.Struct("<8s16sII")
EMPTY = HEAD.size
"""Where a log ends in which nothing counts."""
FRAME = struct.Struct("<II")
INNER = struct.Struct("<Q32sII")
FOLDER, ENDING, SEALED = "_logs", ".log", ".sealed"
EPOCH = date(1970, 1, 1)


@dataclass(frozen=True)
class Record:
    """Reports of one campaign that were committed in one group."""

    group: int
    digest: str
    ids: Ids
    rows: Rows
    end: int
    """The first byte after it."""


class Log:
    """One log, open to be written by this process only."""

    def __init__(self, path: Path, handle: int, store: str, day: date, end: int) -> None:
        self.path, self.store, self.day = path, store, day
        self.end = end
        """Up to where it counts."""
        self.group = 0
        self._handle = handle
        self._waiting: list[bytes] = []

    @classmethod
    def new(cls, folder: Path, store: str, now: datetime) -> Log:
        """Make a log; its name is nobody else's."""
        path = folder / f"{token_hex(8)}{ENDING}"
        day = now.astimezone(UTC).date()
        head = HEAD.pack(MAGIC, store.encode(), (day - EPOCH).days, 0)
        head = head[:-4] + struct.pack("<I", zlib.crc32(head[:-4]))
        try:
            with draft_of(path) as draft:
                handle = os.open(draft, os.O_RDWR | os.O_NOFOLLOW)
                fcntl.flock(handle, fcntl.LOCK_EX)  # before it has a name by which others find it
                os.write(handle, head)
        except OSError as problem:
            raise translated(problem) from None
        return cls(path, handle, store, day, EMPTY)

    @property
    def name(self) -> str:
        """By which the store knows it."""
        return self.path.stem

    @property
    def is_empty(self) -> bool:
        """Whether nothing in it counts."""
        return self.end <= EMPTY

    def add(self, digest: str, ids: Ids, rows: Rows) -> None:
        """Let reports wait for `write`."""
        inner = INNER.pack(self.group, bytes.fromhex(digest), len(ids), rows.shape[1])
        body = b"".join((inner, ids.tobytes(), rows.tobytes()))
        self._waiting += (FRAME.pack(len(body), zlib.crc32(body)), body)

    def write(self) -> int:
        """Write what waits after what counts, to the disk; return where that ends."""
        data = b"".join(self._waiting)
        self._waiting.clear()
        if not data:
            return self.end
        try:
            os.lseek(self._handle, self.end, os.SEEK_SET)
            view = memoryview(data)
            while view:
                view = view[os.write(self._handle, view) :]
            os.fdatasync(self._handle)
        except OSError as problem:
            raise translated(problem) from None
        return self.end + len(data)

    def drop(self) -> None:
        """Forget what waits."""
        self._waiting.clear()

    def counted(self, end: int) -> None:
        """What was written is committed."""
        self.end, self.group = end, self.group + 1

    def cut(self, end: int) -> None:
        """Take away what lies beyond: it does not count."""
        self.end, self.group = end, self.group + 1
        try:
            if os.fstat(self._handle).st_size != end:
                os.ftruncate(self._handle, end)
                os.fdatasync(self._handle)
        except OSError as problem:
            raise translated(problem) from None

    def records(self) -> Iterator[Record]:
        """Yield what counts; refuse a log that is damaged before its end."""
        return read(self._handle, self.end)

    @property
    def is_short(self) -> bool:
        """Whether the file ends before what counts does: it is damaged."""
        return os.fstat(self._handle).st_size < self.end

    def beyond(self) -> int:
        """Return how many groups lie beyond what counts, as far as they are whole."""
        size = os.fstat(self._handle).st_size
        groups: set[int] = set()
        with suppress(FormatError):  # what a crash has cut, or scrambled, was never synced
            for record in read(self._handle, size, self.end):
                groups.add(record.group)
        return len(groups)

    def rename(self, ending: str) -> None:
        """Give it another name."""
        new = self.path.with_name(self.name + ending)
        os.replace(self.path, new)
        sync_folder(new.parent)
        self.path = new

    def remove(self) -> None:
        """Take it away, for good."""
        self.path.unlink(missing_ok=True)
        self.close()

    def close(self) -> None:
        """Let go of the lock."""
        if self._handle >= 0:
            os.close(self._handle)
        self._handle = -1


def sweep(folder: Path) -> None:
    """Remove what is left of logs that were never whole."""
    for path in folder.glob(f".*{ENDING}.*.part"):
        with suppress(OSError), path.open("rb") as file:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()


def taken(path: Path) -> Log | None:
    """Take over a log that nobody writes any more; None if somebody does, or it is none."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        head = os.pread(handle, HEAD.size, 0)
        if len(head) == HEAD.size and os.path.samestat(path.stat(), os.fstat(handle)):
            magic, store, day, checksum = HEAD.unpack(head)
            if magic == MAGIC and checksum == zlib.crc32(head[:-4]):
                start = EPOCH + timedelta(days=day)
                return Log(path, handle, store.decode("ascii"), start, EMPTY)
    except (OSError, UnicodeDecodeError, OverflowError):
        pass
    os.close(handle)
    return None


def read(handle: int, end: int, start: int = EMPTY) -> Iterator[Record]:
    """Yield the records of a log between two bytes; refuse what is damaged."""
    place = start
    while place < end:
        frame = os.pread(handle, FRAME.size, place)
        length, checksum = FRAME.unpack(frame) if len(frame) == FRAME.size else (0, 0)
        place += FRAME.size
        body = os.pread(handle, length, place) if place + length <= end else b""
        place += length
        if len(body) < max(length, INNER.size) or zlib.crc32(body) != checksum:
            raise FormatError("a log of reports is damaged")
        yield _record(body, place)


def _record(body: bytes, end: int) -> Record:
    group, digest, n, width = INNER.unpack_from(body)
    if len(body) != INNER.size + n * (ID_BYTES + width):
        raise FormatError("a log of reports is damaged")
    ids = np.frombuffer(body, np.uint8, n * ID_BYTES, INNER.size).reshape(n, ID_BYTES)
    rows = np.frombuffer(body, np.uint8, n * width, INNER.size + n * ID_BYTES).reshape(n, width)
    return Record(group, digest.hex(), ids, rows, end)


def translated(problem: OSError) -> StoreError:
    """Say what happened in our words."""
    if problem.errno in (errno.ENOSPC, errno.EDQUOT):
        return StoreFullError("the disk of the reports is full")
    return StoreError(f"the folder of reports failed: {problem.strerror}")
