"""The embedded store: one SQLite file. A commit is on the disk when it returns.

WAL with synchronous=FULL: every commit syncs the log, so a power cut loses nothing that was
acknowledged. Ids start with their time, so reports of one moment lie on the same few pages.
A group of reports is one statement: Python is not asked row by row.

Readers see what was committed when they began, and wait for no writer.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from murmuration.collector.store.base import (
    ONLY_READ,
    Mask,
    Octets,
    Store,
    StoreError,
    StoreFullError,
)
from murmuration.errors import FormatError

MOST_ROWS = 1 << 16
"""Reports in one statement."""
APPLICATION = 0x6D75726D
"""What SQLite writes into the head of a store: "murm"."""
SYNCHRONOUS = "FULL"
"""With NORMAL a power cut loses reports that were acknowledged: tests/test_durability.py."""
PAGE_BYTES = 16 << 10
"""Of a new file: groups of reports go in faster than with 4 KiB (benchmarks/run_pages.py)."""
CHECKPOINT_PAGES = 2000
CACHE_KIB = 64 << 10
BUSY_SECONDS = 30.0
WAL_TRIES, WAL_PAUSE = 20, 0.05
LOGS = ("-wal", "-journal")
"""What SQLite puts after a file's name while the file is written to."""
FULL = ("SQLITE_FULL", "SQLITE_IOERR_WRITE", "SQLITE_IOERR_SHMSIZE")
"""What SQLite calls a full disk; the last is no room for the index of the log."""


class SqliteStore(Store):
    """A store in one file, which only its owner reads."""

    begin_transaction: ClassVar[tuple[str, ...]] = ("BEGIN IMMEDIATE",)

    def __init__(self, path: Path | str, *, readonly: bool = False) -> None:
        super().__init__(readonly)
        self.path = Path(path)
        self._frozen = False
        if not readonly:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with suppress(OSError):  # what cannot be made, SQLite cannot open: it says so
                os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        self._db = self._connected()
        try:
            self._check_ours()
            if not readonly:
                self._set_up()
        except BaseException:
            self.close()
            raise

    def _connected(self) -> sqlite3.Connection:
        where = str(self.path)
        if self.readonly:
            self._frozen = _is_frozen(self.path)
            where = self.path.absolute().as_uri() + "?mode=ro" + "&immutable=1" * self._frozen
        try:
            return sqlite3.connect(
                where,
                uri=self.readonly,
                timeout=BUSY_SECONDS,
                isolation_level=None,
                check_same_thread=False,
            )
        except sqlite3.Error as problem:
            raise _translated(problem, self.path) from None

    def _set_up(self) -> None:
        self.execute(f"PRAGMA page_size = {PAGE_BYTES}")  # before anything is written
        self._keep_log()
        for setting in (
            f"synchronous = {SYNCHRONOUS}",
            f"wal_autocheckpoint = {CHECKPOINT_PAGES}",
            f"cache_size = -{CACHE_KIB}",
            "temp_store = MEMORY",
        ):
            self.execute(f"PRAGMA {setting}")
        self.migrate()
        self.execute("CREATE TEMP TABLE places (place INTEGER PRIMARY KEY)")
        self.execute(
            "WITH RECURSIVE up (p) AS (SELECT 0 UNION ALL SELECT p + 1 FROM up WHERE p < ?) "
            "INSERT INTO places SELECT p FROM up",
            (MOST_ROWS - 1,),
        )

    def _keep_log(self) -> None:
        """Switch to WAL. Here SQLite does not wait for others that do the same, so we do."""
        for tries_left in reversed(range(WAL_TRIES)):
            try:
                mode = self.execute("PRAGMA journal_mode = WAL")
                break
            except StoreError:
                if not tries_left:
                    raise
                time.sleep(WAL_PAUSE)
        if mode != [("wal",)]:
            raise StoreError(f"{self.path} is on a disk where SQLite cannot keep a log (WAL)")

    def _check_ours(self) -> None:
        """Refuse another program's database, or a newer one's, before anything is changed."""
        with self.snapshot():
            application = self.execute("PRAGMA application_id")[0][0]
            tables = self.execute("SELECT COUNT(*) FROM sqlite_master")[0][0]
            version = self.schema_version()
        empty = not (application or tables)
        if application != APPLICATION and (self.readonly or not empty):
            raise FormatError(f"{self.path} is a database, but not a store of ours")
        if self.readonly:
            self.require_readable(version)
        else:
            self.refuse_newer(version)

    def execute(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run one statement."""
        try:
            return self._db.execute(sql, values).fetchall()
        except sqlite3.Error as problem:
            raise _translated(problem, self.path) from None

    def roll_back(self) -> None:
        """Leave the transaction; a full disk may have done so already."""
        with suppress(sqlite3.Error):
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Read as of one moment; a frozen file is opened anew, as it may have changed since."""
        if self._inside or not self._frozen:
            with super().snapshot():
                yield
            return
        self.close()
        before, self._db = _changed(self.path), self._connected()
        with super().snapshot():
            yield
        if self._frozen and (not _is_frozen(self.path) or _changed(self.path) != before):
            raise StoreError("the store was written to while it was read: try again")

    def add_reports(self, key: int, ids: Octets, rows: Octets) -> Mask:
        """Insert all; only if some were there, take it back and look which."""
        self.require_writable()
        new = np.ones(len(ids), dtype=bool)
        for start in range(0, len(ids), MOST_ROWS):
            part = slice(start, start + MOST_ROWS)
            new[part] = self._add(key, ids[part], rows[part])
        return new

    def _add(self, key: int, ids: Octets, rows: Octets) -> Mask:
        new = np.ones(len(ids), dtype=bool)
        self.execute("SAVEPOINT arriving")
        if self._insert(key, ids, rows) < len(ids):
            self.execute("ROLLBACK TO arriving")
            new[self._known(key, ids)] = False
            if self._insert(key, ids[new], rows[new]) != new.sum():
                raise StoreError("the store did not take every new report")
        self.execute("RELEASE arriving")
        return new

    def _insert(self, key: int, ids: Octets, rows: Octets) -> int:
        """Cut two byte strings into rows inside SQLite; return how many rows are new."""
        values = (key, ids.tobytes(), ids.shape[1], rows.tobytes(), rows.shape[1], len(ids))
        try:
            return self._db.execute(
                "INSERT INTO reports (key, id, report) SELECT ?1, "
                "substr(?2, place * ?3 + 1, ?3), "
                "CASE WHEN ?5 THEN substr(?4, place * ?5 + 1, ?5) ELSE X'' END "  # never NULL
                "FROM places WHERE place < ?6 ON CONFLICT DO NOTHING",
                values,
            ).rowcount
        except sqlite3.Error as problem:
            raise _translated(problem, self.path) from None

    def _known(self, key: int, ids: Octets) -> list[int]:
        """Return the places of ids that are there already."""
        found = self.execute(
            "SELECT place FROM places WHERE place < ?4 AND EXISTS "
            "(SELECT 1 FROM reports WHERE key = ?1 AND id = substr(?2, place * ?3 + 1, ?3))",
            (key, ids.tobytes(), ids.shape[1], len(ids)),
        )
        return [int(row[0]) for row in found]

    def schema_version(self) -> int:
        """SQLite keeps a number for that in its head."""
        return int(self.execute("PRAGMA user_version")[0][0])

    def set_schema_version(self, version: int) -> None:
        """Write it into the head, and whose file it is."""
        self.execute(f"PRAGMA application_id = {APPLICATION}")
        self.execute(f"PRAGMA user_version = {int(version)}")

    def clustered(self, sql: str) -> str:
        """Keep a table in the order of its key."""
        return sql.format(clustered=" WITHOUT ROWID")

    def reader(self) -> Store:
        """Return another connection, which only reads: it does not wait for the writer."""
        return SqliteStore(self.path, readonly=True)

    def is_same(self, other: Store) -> bool:
        """Whether both are the same file: a copy of a store has the same name."""
        if isinstance(other, SqliteStore):
            return self.path.samefile(other.path)
        return super().is_same(other)

    def close(self) -> None:
        """Close the file."""
        self._db.close()


def _is_frozen(path: Path) -> bool:
    """Whether a file has no log beside it, and this user can make none: nobody changes it now.

    To read a file in WAL mode, SQLite needs two more files beside it, and makes them if they are
    missing. Where it cannot, it has to be told that the file does not change (immutable). It is
    told so, too, where only the file is not ours to write: what a reader makes belongs to the
    reader, and could lock out the collector.
    """
    file = path.resolve()
    if any(Path(f"{file}{ending}").exists() for ending in LOGS):
        return False
    return not (os.access(file, os.W_OK) and os.access(file.parent, os.W_OK))


def _changed(path: Path) -> tuple[int, int]:
    """Return what is different after a file was written to."""
    found = path.stat()
    return found.st_mtime_ns, found.st_size


def _translated(problem: sqlite3.Error, path: Path) -> Exception:
    """Say what happened in our words; no statement, no value."""
    code = getattr(problem, "sqlite_errorname", "") or ""
    if code in FULL:
        return StoreFullError("the disk is full")
    if code in ("SQLITE_NOTADB", "SQLITE_CORRUPT"):
        return FormatError(f"{path} is not a store of ours, or it is damaged")
    if code == "SQLITE_READONLY":
        return StoreError(ONLY_READ)
    if code == "SQLITE_READONLY_DIRECTORY":
        return StoreError(f"{path} is in a folder that cannot be written to")
    if code.startswith("SQLITE_CANTOPEN"):
        return StoreError(f"{path} cannot be opened")
    if code in ("SQLITE_BUSY", "SQLITE_LOCKED"):
        return StoreError("the store is in use by another program")
    return StoreError(f"the store failed: {code or type(problem).__name__}")
