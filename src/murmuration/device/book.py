"""SQLite files of a device: made whole, opened one at a time, left alone if they are not ours."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from murmuration.errors import FormatError, LedgerError
from murmuration.files import draft_of

PATIENCE = 30.0
"""Seconds to wait for another process that is writing."""
# EXTRA is FULL and also syncs the folder when the journal is deleted, which is what commits: with
# FULL a power cut could undo a charge whose report was sent.
SETTINGS = ("journal_mode = DELETE", "synchronous = EXTRA", "secure_delete = ON")


@dataclass(frozen=True)
class Book:
    """One kind of SQLite file: what it is called, how it is known, what is in it."""

    what: str
    application: int
    """SQLite's application_id: another program's database is not taken for ours."""
    version: int
    schema: str

    def make(self, path: Path, fill: Callable[[sqlite3.Connection], None]) -> None:
        """Make a new file whole; one that is there stays as it is."""
        with explained(path), suppress(FileExistsError), draft_of(path, replacing=False) as draft:
            self._write(draft, fill)

    def _write(self, draft: Path, fill: Callable[[sqlite3.Connection], None]) -> None:
        with closing(_connect(draft)) as db:
            _set_up(db)
            db.executescript(f"BEGIN; {self.schema}")
            db.execute(f"PRAGMA application_id = {self.application}")
            db.execute(f"PRAGMA user_version = {self.version}")
            fill(db)
            db.execute("COMMIT")

    @contextmanager
    def opened(self, path: Path) -> Iterator[sqlite3.Connection]:
        """Open a file that is there; closing it undoes what was not committed."""
        with explained(path), closing(_connect(path)) as db:
            self._require_ours(db, path)
            _set_up(db)  # not before: another program's file is left as it is
            yield db

    def _require_ours(self, db: sqlite3.Connection, path: Path) -> None:
        (application,) = db.execute("PRAGMA application_id").fetchone()
        if application != self.application:
            raise FormatError(f"{path} is not a {self.what}, or was cut short")
        (version,) = db.execute("PRAGMA user_version").fetchone()
        if version != self.version:
            raise FormatError(
                f"{path} has schema {version}, this release reads {self.version}: "
                "use the release that wrote it"
            )


@contextmanager
def changing(*books: sqlite3.Connection) -> Iterator[None]:
    """One transaction in each of these files: all of them count, or none.

    They are locked in the order in which they are named, and committed in the other order: the
    first one decides. Whatever fails undoes what is not committed.
    """
    try:
        for book in books:
            book.execute("BEGIN IMMEDIATE")
        yield
        for book in reversed(books):
            book.execute("COMMIT")
    except BaseException:
        for book in books:
            if book.in_transaction:
                book.rollback()
        raise


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn what SQLite and the file system report into errors of ours."""
    try:
        yield
    except FileExistsError:
        raise
    except (sqlite3.OperationalError, OSError) as problem:
        raise LedgerError(f"{path} cannot be used: {problem}. Nothing was sent.") from problem
    except sqlite3.DatabaseError as problem:
        raise FormatError(f"{path} is damaged, or is another program's: {problem}") from problem


def setting(db: sqlite3.Connection, name: str) -> object:
    """Return a row of the table `setting`; None if it is not there."""
    row = db.execute("SELECT value FROM setting WHERE name = ?", (name,)).fetchone()
    return None if row is None else row[0]


def set_setting(db: sqlite3.Connection, name: str, value: object) -> None:
    """Write a row of the table `setting`."""
    db.execute("INSERT OR REPLACE INTO setting VALUES (?, ?)", (name, value))


def _connect(path: Path) -> sqlite3.Connection:
    """Open an existing file; one that is gone is not silently made anew."""
    uri = f"{path.as_uri()}?mode=rw"
    return sqlite3.connect(uri, uri=True, timeout=PATIENCE, isolation_level=None)


def _set_up(db: sqlite3.Connection) -> None:
    for pragma in SETTINGS:
        db.execute(f"PRAGMA {pragma}")
