"""The store on a PostgreSQL server: several collectors may share it.

A transaction begins by taking one lock for the whole store, so workers commit one after the
other: groups are large, and nothing can deadlock. Reports go in by COPY, then into their table
with ON CONFLICT DO NOTHING, which says which of them are new. Readers do not take the lock.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from murmuration.collector.store.base import (
    ONLY_READ,
    Mask,
    Octets,
    Store,
    StoreError,
    StoreFullError,
    StoreGoneError,
)
from murmuration.errors import FormatError, ParameterError

try:
    import psycopg
except ImportError:  # pragma: no cover - the test environment has it
    raise ParameterError("PostgreSQL needs: pip install 'murmuration[postgres]'") from None

LOCK = 0x6D75726D  # "murm": the number under which our programs know the lock
CONNECT_SECONDS = 10


class PostgresStore(Store):
    """A store in a PostgreSQL database."""

    begin_transaction: ClassVar[tuple[str, ...]] = (
        "BEGIN",
        f"SELECT pg_advisory_xact_lock({LOCK})",  # to the end of the transaction
    )
    begin_snapshot: ClassVar[str] = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"

    def __init__(self, url: str, *, readonly: bool = False) -> None:
        super().__init__(readonly)
        self.url = url
        self._db: psycopg.Connection[Any] | None = None
        self._closing = threading.Lock()
        try:
            if readonly:
                self._check_ours()
            else:
                self.migrate()
        except BaseException:
            self.close()
            raise

    def _check_ours(self) -> None:
        version = self.schema_version()
        if not version:
            raise FormatError("there is no store in this database")
        self.require_readable(version)

    def _connection(self) -> psycopg.Connection[Any]:
        """Return the connection; a lost one is made anew, but not in the middle of things."""
        if self._db is None or self._db.closed:
            if self._inside:
                raise StoreGoneError("the connection to the database was lost")
            try:
                self._db = psycopg.connect(
                    self.url, autocommit=True, connect_timeout=CONNECT_SECONDS
                )
                self._db.execute("SET synchronous_commit = on")
                self._db.execute("SET client_min_messages = warning")
                if self.readonly:
                    self._db.execute("SET default_transaction_read_only = on")
            except psycopg.Error as problem:
                raise _translated(problem) from None
        return self._db

    def execute(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run one statement."""
        try:
            cursor = self._connection().execute(sql.replace("?", "%s").encode(), values or None)
            return cursor.fetchall() if cursor.description else []
        except psycopg.Error as problem:
            raise _translated(problem) from None

    def roll_back(self) -> None:
        """Leave the transaction; a connection that cannot is given up."""
        try:
            self._connection().rollback()
        except (psycopg.Error, StoreError):
            self.close()

    def add_reports(self, key: int, ids: Octets, rows: Octets) -> Mask:
        """Copy into a table that ends with the transaction, then insert what is new."""
        self.require_writable()
        db = self._connection()
        try:
            db.execute(
                "CREATE TEMP TABLE IF NOT EXISTS arriving (place BIGINT, id BYTEA, report BYTEA) "
                "ON COMMIT DELETE ROWS"
            )
            db.execute("DELETE FROM arriving")
            with db.cursor().copy("COPY arriving FROM STDIN (FORMAT BINARY)") as copy:
                copy.write(_copy_rows(ids, rows))
            found = db.execute(
                "INSERT INTO reports (key, id, report) SELECT %s, id, report FROM arriving "
                "ORDER BY id ON CONFLICT DO NOTHING",
                (key,),
            ).rowcount
            if found == len(ids):
                return np.ones(len(ids), dtype=bool)
            return self._new(db, key, ids)
        except psycopg.Error as problem:
            raise _translated(problem) from None

    def _new(self, db: psycopg.Connection[Any], key: int, ids: Octets) -> Mask:
        """Say which rows this transaction inserted: those that carry its number."""
        rows = db.execute(
            "SELECT place FROM arriving JOIN reports ON reports.id = arriving.id "
            "WHERE reports.key = %s AND reports.xmin::text = "
            "(pg_current_xact_id()::xid)::text",
            (key,),
        ).fetchall()
        new = np.zeros(len(ids), dtype=bool)
        new[[int(row[0]) for row in rows]] = True
        return new

    def schema_version(self) -> int:
        """A table with one number; a new database has none."""
        if self.execute("SELECT to_regclass('murmur_schema')") == [(None,)]:
            return 0
        found = self.execute("SELECT version FROM murmur_schema")
        return int(found[0][0]) if found else 0

    def set_schema_version(self, version: int) -> None:
        """Write the number."""
        self.execute("CREATE TABLE IF NOT EXISTS murmur_schema (version BIGINT NOT NULL)")
        self.execute("DELETE FROM murmur_schema")
        self.execute("INSERT INTO murmur_schema (version) VALUES (?)", (version,))

    def clustered(self, sql: str) -> str:
        """Say BYTEA and BIGINT."""
        sql = sql.replace(" BLOB", " BYTEA").replace(" INTEGER", " BIGINT")
        return sql.replace("{clustered}", "")

    def reader(self) -> Store:
        """Return another connection, which only reads."""
        return PostgresStore(self.url, readonly=True)

    def close(self) -> None:
        """Close the connection."""
        with self._closing:
            if self._db is not None:
                self._db.close()
                self._db = None


def _copy_rows(ids: Octets, rows: Octets) -> bytes:
    """Return reports in PostgreSQL's binary COPY format.

    For each row the number of fields, and for each field its length and its bytes, big-endian.
    """
    fields = np.dtype(
        [
            ("fields", ">i2"),
            ("place_bytes", ">i4"),
            ("place", ">i8"),
            ("id_bytes", ">i4"),
            ("id", np.uint8, (ids.shape[1],)),
            ("report_bytes", ">i4"),
            ("report", np.uint8, (rows.shape[1],)),
        ]
    )
    table = np.zeros(len(ids), dtype=fields)
    table["fields"], table["place_bytes"], table["place"] = 3, 8, np.arange(len(ids))
    table["id_bytes"], table["id"] = ids.shape[1], ids
    table["report_bytes"], table["report"] = rows.shape[1], rows
    head = b"PGCOPY\n\xff\r\n\0" + bytes(8)
    return head + table.tobytes() + b"\xff\xff"


def _translated(problem: psycopg.Error) -> StoreError:
    """Say what happened in our words; no statement, no value, no address."""
    if isinstance(problem, psycopg.errors.DiskFull):
        return StoreFullError("the disk of the database is full")
    if isinstance(problem, psycopg.errors.ReadOnlySqlTransaction):
        return StoreError(ONLY_READ)
    if isinstance(problem, psycopg.OperationalError):
        return StoreGoneError("the database cannot be reached")
    return StoreError(f"the store failed: {type(problem).__name__}")
