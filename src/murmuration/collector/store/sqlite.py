"""The embedded store: one SQLite file. A commit is on the disk when it returns.

WAL with synchronous=FULL: every commit syncs the log, so a power cut loses nothing that was
acknowledged. Ids start with their time, so reports of one moment lie on the same few pages.
A group of reports is one statement: Python is not asked row by row.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from murmuration.collector.store.base import Mask, Octets, Store, StoreError, StoreFullError
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
FULL = ("SQLITE_FULL", "SQLITE_IOERR_WRITE", "SQLITE_IOERR_SHMSIZE")
"""What SQLite calls a full disk; the last is no room for the index of the log."""


class SqliteStore(Store):
    """A store in one file, which only its owner reads."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._inside = False
        with suppress(OSError):  # what cannot be made, SQLite cannot open: it says so
            os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        try:
            self._db = sqlite3.connect(
                self.path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
        except sqlite3.Error as problem:
            raise _translated(problem, self.path) from None
        try:
            self._set_up()
        except BaseException:
            self.close()
            raise

    def _set_up(self) -> None:
        self._check_ours()
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
        self.execute("BEGIN")  # what follows is read as of one moment
        application = self.execute("PRAGMA application_id")[0][0]
        tables = self.execute("SELECT COUNT(*) FROM sqlite_master")[0][0]
        version = self.schema_version()
        self.execute("COMMIT")
        if application != APPLICATION and (application or tables):
            raise FormatError(f"{self.path} is a database, but not a store of ours")
        self.refuse_newer(version)

    def execute(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run one statement."""
        try:
            return self._db.execute(sql, values).fetchall()
        except sqlite3.Error as problem:
            raise _translated(problem, self.path) from None

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Begin at once with the write lock; a transaction inside another is part of it."""
        if self._inside:
            yield
            return
        self.execute("BEGIN IMMEDIATE")
        self._inside = True
        try:
            yield
            self.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:  # a full disk may have rolled back already
                with suppress(sqlite3.Error):  # what went wrong first is what matters
                    self._db.execute("ROLLBACK")
            raise
        finally:
            self._inside = False

    def add_reports(self, key: int, ids: Octets, rows: Octets) -> Mask:
        """Insert all; only if some were there, take it back and look which."""
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
        """Return another connection: readers do not wait for the writer."""
        return SqliteStore(self.path)

    def close(self) -> None:
        """Close the file."""
        self._db.close()


def _translated(problem: sqlite3.Error, path: Path) -> Exception:
    """Say what happened in our words; no statement, no value."""
    code = getattr(problem, "sqlite_errorname", "") or ""
    if code in FULL:
        return StoreFullError("the disk is full")
    if code in ("SQLITE_NOTADB", "SQLITE_CORRUPT"):
        return FormatError(f"{path} is not a store of ours, or it is damaged")
    if code.startswith("SQLITE_CANTOPEN"):
        return StoreError(f"{path} cannot be opened")
    if code in ("SQLITE_BUSY", "SQLITE_LOCKED"):
        return StoreError("the store is in use by another program")
    return StoreError(f"the store failed: {code or type(problem).__name__}")
