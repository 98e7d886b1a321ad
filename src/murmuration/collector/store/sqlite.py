"""The embedded store: one SQLite file. A commit is on the disk when it returns.

WAL with synchronous=FULL: every commit syncs the log, so a power cut loses nothing that was
acknowledged. A new file is made whole before it gets its name: an empty file is never taken for a
store in which nothing was counted.

Readers see what was committed when they began, and wait for no writer.

Where reports are scrubbed, no earlier state may be read again: the difference of two tallies is a
report. So a tally that is replaced is overwritten (secure_delete), and after such a commit the log
is written into the file and cut to nothing, as soon as nobody reads from it.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar

from murmuration.collector.store import schema
from murmuration.collector.store.base import (
    ONLY_READ,
    Store,
    StoreError,
    StoreFullError,
)
from murmuration.errors import FormatError
from murmuration.files import draft_of

APPLICATION = 0x6D75726D
"""What SQLite writes into the head of a store: "murm"."""
SYNCHRONOUS = "FULL"
"""With NORMAL a power cut loses acknowledged reports: tests/durability/test_durability.py."""
PAGE_BYTES = 16 << 10
"""Of a new file: three blocks of small reports (benchmarks/run_pages.py)."""
CHECKPOINT_PAGES = 2000
CACHE_KIB = 64 << 10
BUSY_SECONDS = 30.0
FORGET_SECONDS = 0.05
"""How long a commit waits for readers before it cuts the log; if in vain, the next one tries."""
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
            if not self.path.exists():
                _make(self.path)
        self._db = self._connected()
        try:
            self._check_ours()
            if not readonly:
                self._set_up()
        except BaseException:
            self.close()
            raise

    def _connected(self) -> sqlite3.Connection:
        mode = "rw"  # a file that is gone is not made anew
        if self.readonly:
            self._frozen = _is_frozen(self.path)
            mode = "ro" + "&immutable=1" * self._frozen
        try:
            return sqlite3.connect(
                f"{self.path.absolute().as_uri()}?mode={mode}",
                uri=True,
                timeout=BUSY_SECONDS,
                isolation_level=None,
                check_same_thread=False,
            )
        except sqlite3.Error as problem:
            raise _translated(problem, self.path) from None

    def _set_up(self) -> None:
        self._keep_log()
        for setting in (
            f"synchronous = {SYNCHRONOUS}",
            f"wal_autocheckpoint = {CHECKPOINT_PAGES}",
            f"cache_size = -{CACHE_KIB}",
            "temp_store = MEMORY",
            "secure_delete = FAST",
        ):
            self.execute(f"PRAGMA {setting}")
        self.set_up()
        self._scrubbed = not self.forget()  # what a collector that was killed has left

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
        """Refuse what another program, or another release, made, before anything is changed."""
        if self.path.stat().st_size == 0:
            raise FormatError(
                f"{self.path} is not a store of ours, or it was cut to nothing: it is empty. Bring "
                "back a copy, or take the empty file away to begin anew."
            )
        with self.snapshot():
            application = self.execute("PRAGMA application_id")[0][0]
            version = self.schema_version()
        if application != APPLICATION:
            raise FormatError(f"{self.path} is a database, but not a store of ours")
        if version or self.readonly:
            schema.require_ours(version)

    def execute(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run one statement."""
        self.require_own_process()
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

    def execute_many(self, sql: str, values: Sequence[Sequence[Any]]) -> None:
        """Run one statement for each row of values."""
        self.require_own_process()
        try:
            self._db.executemany(sql, values)
        except sqlite3.Error as problem:
            raise _translated(problem, self.path) from None

    @contextmanager
    def overwriting(self) -> Iterator[None]:
        """Fill freed pages with zeros; for all that is deleted, it would double what is written."""
        self.execute("PRAGMA secure_delete = ON")
        try:
            yield
        finally:
            self.execute("PRAGMA secure_delete = FAST")

    def forget(self) -> bool:
        """Write the log into the file and cut it to nothing; later, if somebody reads from it."""
        try:
            self.execute(f"PRAGMA busy_timeout = {int(1e3 * FORGET_SECONDS)}")
            return not int(self.execute("PRAGMA wal_checkpoint(TRUNCATE)")[0][0])
        except StoreError:  # a full disk, say: what was committed stays so
            return False
        finally:
            self.execute(f"PRAGMA busy_timeout = {int(1e3 * BUSY_SECONDS)}")

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
        """Close the file; not in a process that has only inherited it."""
        if os.getpid() == self._process:
            self._db.close()


def _make(path: Path) -> None:
    """Make a new store aside, whole and on the disk, then give it its name.

    If another process is first, its store is the one.
    """
    try:
        with suppress(FileExistsError), draft_of(path, replacing=False) as draft:
            _write_schema(draft)
    except OSError as problem:
        if problem.errno == errno.ENOSPC:
            raise StoreFullError("the disk is full") from None
        raise StoreError(f"{path} cannot be opened: {problem.strerror}") from None


def _write_schema(draft: Path) -> None:
    """Write an empty store into an empty file."""
    try:
        with closing(sqlite3.connect(draft)) as db:
            db.execute(f"PRAGMA page_size = {PAGE_BYTES}")  # before anything is written
            db.execute(f"PRAGMA application_id = {APPLICATION}")
    except sqlite3.Error as problem:
        raise _translated(problem, draft) from None
    SqliteStore(draft).close()


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
    file = path.stat()
    return file.st_mtime_ns, file.st_size


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
