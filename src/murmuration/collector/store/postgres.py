"""The store on a PostgreSQL server: several collectors may share it.

A transaction begins by taking one lock for the whole store, so workers commit one after the
other: groups are large, and nothing can deadlock. Readers do not take the lock. Nobody waits for
ever: neither for the lock, nor for a statement, nor for a server that has fallen silent.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, ClassVar

from murmuration.collector.store import schema
from murmuration.collector.store.base import (
    ONLY_READ,
    Store,
    StoreError,
    StoreFullError,
    StoreGoneError,
)
from murmuration.errors import FormatError, missing_extra

try:
    import psycopg
except ImportError:  # pragma: no cover - the test environment has it
    raise missing_extra("PostgreSQL", "postgres") from None

logging.getLogger("psycopg").setLevel(logging.ERROR)  # what failed is said by us, once

LOCK = 0x6D75726D  # "murm": the number under which our programs know the lock
CONNECT_SECONDS = 10
LOCK_SECONDS = 5
"""How long a transaction waits for others to commit; uploads are turned away after it."""
PROBE_SECONDS = 2
STATEMENT_SECONDS = 600
"""The longest statement merges runs of reports."""
IDLE_SECONDS = 60
"""A program of ours that hangs in a transaction loses it, and with it the lock."""
SILENCE_SECONDS = 30
"""How long bytes that were sent may stay unanswered by the network."""


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
                self.set_up()
        except BaseException:
            self.close()
            raise

    def _check_ours(self) -> None:
        version = self.schema_version()
        if not version:
            raise FormatError("there is no store in this database")
        schema.require_ours(version)

    def vacuum(self, *tables: str) -> None:
        """Take dead rows out; what cannot be done now is done by autovacuum."""
        with suppress(StoreError):
            for table in tables:
                self.execute(f"VACUUM {table}")

    def probe(self) -> None:
        """Wait for the lock as a transaction would, a little while."""
        with self.snapshot():
            self.execute(f"SET LOCAL lock_timeout = '{PROBE_SECONDS}s'")
            self.execute(f"SELECT pg_advisory_xact_lock_shared({LOCK})")

    def _connection(self) -> psycopg.Connection[Any]:
        """Return the connection; a lost one is made anew, but not in the middle of things."""
        self.require_own_process()
        if self._db is None or self._db.closed:
            if self._inside:
                raise StoreGoneError("the connection to the database was lost")
            try:
                self._db = psycopg.connect(
                    self.url,
                    autocommit=True,
                    connect_timeout=CONNECT_SECONDS,
                    tcp_user_timeout=1000 * SILENCE_SECONDS,
                    keepalives_idle=SILENCE_SECONDS,
                )
                self._db.execute("SET synchronous_commit = on")
                self._db.execute("SET client_min_messages = warning")
                self._db.execute(f"SET lock_timeout = '{LOCK_SECONDS}s'".encode())
                self._db.execute(f"SET statement_timeout = '{STATEMENT_SECONDS}s'".encode())
                if self.readonly:
                    self._db.execute("SET default_transaction_read_only = on")
                else:
                    idle = f"SET idle_in_transaction_session_timeout = '{IDLE_SECONDS}s'"
                    self._db.execute(idle.encode())
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

    def execute_many(self, sql: str, values: Sequence[Sequence[Any]]) -> None:
        """Run one statement for each row of values, without waiting for each."""
        self.require_writable()
        try:
            self._connection().cursor().executemany(sql.replace("?", "%s").encode(), values)
        except psycopg.Error as problem:
            raise _translated(problem) from None

    def schema_version(self) -> int:
        """A table with one number; a new database has none."""
        if self.execute("SELECT to_regclass('murmur_schema')") == [(None,)]:
            return 0
        rows = self.execute("SELECT version FROM murmur_schema")
        return int(rows[0][0]) if rows else 0

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
            if self._db is not None and os.getpid() == self._process:
                self._db.close()
                self._db = None


def _translated(problem: psycopg.Error) -> StoreError:
    """Say what happened in our words; no statement, no value, no address."""
    if isinstance(problem, psycopg.errors.DiskFull):
        return StoreFullError("the disk of the database is full")
    if isinstance(problem, psycopg.errors.ReadOnlySqlTransaction):
        return StoreError(ONLY_READ)
    if isinstance(problem, psycopg.errors.LockNotAvailable):
        return StoreError(f"another program has held the store for {LOCK_SECONDS} seconds or more")
    if isinstance(problem, psycopg.errors.QueryCanceled):
        return StoreError("the database took too long")
    if isinstance(problem, psycopg.OperationalError):
        return StoreGoneError("the database cannot be reached")
    return StoreError(f"the store failed: {type(problem).__name__}")
