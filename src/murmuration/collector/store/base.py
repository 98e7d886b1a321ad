"""What every store does, in SQL that SQLite and PostgreSQL share.

A store is used by one thread at a time. Everything that one group of uploads changes (reports,
tallies, counts) is one transaction: after a crash all of it is there, or none of it.

A store that is opened to be read waits for nobody and changes nothing.
"""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from secrets import token_hex
from typing import Any, ClassVar, Literal

import numpy as np

from murmuration.collector.store import schema
from murmuration.collector.store.filters import new_secret
from murmuration.collector.store.runs import DAMAGED, Mask, Octets, Runs
from murmuration.errors import FormatError, MurmurationError
from murmuration.exact.arrays import Ints
from murmuration.mechanisms.base import Mechanism
from murmuration.mechanisms.tally import Tally
from murmuration.wire.ids import in_order

HOUR = 3600
ONLY_READ = "this store is open for reading only: nothing can be written to it"


class StoreError(MurmurationError):
    """The store cannot do it now."""


class StoreFullError(StoreError):
    """The disk is full; it goes on by itself when there is room again."""


class StoreGoneError(StoreError):
    """The database cannot be reached."""


@dataclass(frozen=True)
class Token:
    """Who may do what, until when. Only the hash is stored."""

    hash: bytes
    name: str
    role: str
    campaign: str
    """"" for all campaigns."""
    created: int
    expires: int
    """Below 0 it has ended for good, at that second."""
    sources: str = ""
    """Of a merge token: the collectors whose tallies it may bring, by name, with spaces. Of a batch
    of participants' tokens: its number."""
    secret: bytes = field(default=b"", repr=False)
    """Of a batch: what its tokens are made with."""
    own: bytes = field(default=b"", repr=False)
    """Of a participant's token that was shown: what it is known by. Never stored."""


@dataclass(frozen=True)
class Merged:
    """Another collector's tallies, as they were last sent here."""

    collector: str
    n: int
    tallies: bytes


class Store(ABC):
    """A database with our tables, opened to write and read, or (`readonly`) to read."""

    begin_transaction: ClassVar[tuple[str, ...]]
    """The statements that begin writing: other writers wait from now on."""
    begin_snapshot: ClassVar[str] = "BEGIN"
    """The statement that begins reading as of one moment."""

    def __init__(self, readonly: bool) -> None:
        self.readonly = readonly
        self._inside: Literal["", "transaction", "snapshot"] = ""
        self._runs = Runs(self)
        self._process = os.getpid()
        self._scrubbed = False
        """Whether something was committed of which no earlier state may be read again."""

    # --- what each kind of database does its own way ---------------------------------------------

    @abstractmethod
    def execute(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run one statement (values as ?) and return its rows."""

    @abstractmethod
    def execute_many(self, sql: str, values: Sequence[Sequence[Any]]) -> None:
        """Run one statement for each row of values."""

    @abstractmethod
    def roll_back(self) -> None:
        """Leave a transaction or a snapshot; what went wrong before matters more than this."""

    @abstractmethod
    def schema_version(self) -> int:
        """Return the version of the tables; 0 where there are none."""

    @abstractmethod
    def set_schema_version(self, version: int) -> None:
        """Note it."""

    @abstractmethod
    def reader(self) -> Store:
        """Return another connection to the same database, to read in another thread."""

    @abstractmethod
    def close(self) -> None:
        """Close the connection."""

    @contextmanager
    def overwriting(self) -> Iterator[None]:
        """What is replaced inside is overwritten, where the database can."""
        yield

    def forget(self) -> bool:
        """Take away what the database keeps of earlier states; return whether that is done."""
        return True

    def scrub_log(self) -> None:
        """Take away what the database keeps of earlier states, after this transaction."""
        self._scrubbed = True

    def vacuum(self, *tables: str) -> None:
        """Let the database forget what was deleted from tables, where that is a step of its own."""
        del tables

    def probe(self) -> None:
        """Raise `StoreError` if nothing can be committed now."""
        self.collector_name()

    def clustered(self, sql: str) -> str:
        """Write a statement in this database's words."""
        return sql

    def is_same(self, other: Store) -> bool:
        """Whether both are connections to one store."""
        return self.collector_name() == other.collector_name()

    # --- transactions ----------------------------------------------------------------------------

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Everything inside is committed durably, or not at all.

        A transaction inside another is part of it.
        """
        self.require_writable()
        if self._inside:
            yield
            return
        begin, *locks = self.begin_transaction
        self.execute(begin)
        self._inside = "transaction"
        try:
            for statement in locks:
                self.execute(statement)
            yield
            self.execute("COMMIT")
        except BaseException:
            self.roll_back()
            self._runs.rolled_back()
            raise
        finally:
            self._inside = ""
        self._runs.committed()
        if self._scrubbed:
            self._scrubbed = not self.forget()

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Read as of one moment, whatever others write meanwhile; nobody has to wait.

        A snapshot inside another, or inside a transaction, is part of it.
        """
        if self._inside:
            yield
            return
        self.execute(self.begin_snapshot)
        self._inside = "snapshot"
        try:
            yield
        finally:
            self.roll_back()
            self._inside = ""

    def require_writable(self) -> None:
        """Refuse to write to what is only read; in a snapshot it would be lost at its end."""
        if self.readonly or self._inside == "snapshot":
            raise StoreError(ONLY_READ)

    def require_own_process(self) -> None:
        """Refuse a connection that a process has inherited: both would speak on it."""
        if os.getpid() != self._process:
            raise StoreError("this store was opened by another process: open it again in this one")

    # --- schema ----------------------------------------------------------------------------------

    def set_up(self) -> None:
        """Make the tables of a new store; refuse a store of another version."""
        with self.transaction():
            if version := self.schema_version():
                schema.require_ours(version)
                return
            for statement in schema.TABLES:
                self.execute(self.clustered(statement))
            self.execute("INSERT INTO collector (name) VALUES (?)", (token_hex(8),))
            self.execute("INSERT INTO filter_secret (secret) VALUES (?)", (new_secret(),))
            self.set_schema_version(schema.VERSION)

    def collector_name(self) -> str:
        """Return this collector's random name: whose tallies these are."""
        return str(self.execute("SELECT name FROM collector")[0][0])

    # --- campaigns -------------------------------------------------------------------------------

    def publish(self, campaign: str, digest: str, document: bytes, asked: str = "") -> int:
        """Note a campaign as it is served now; a changed one is a new version.

        `asked` is the digest of what its file asks.
        """
        with self.transaction():
            latest = self.latest(campaign)
            if latest is not None and latest[1] == digest and latest[2] == document:
                self._note_asked(campaign, latest[0], asked)
                return latest[0]
            version = 1 if latest is None else latest[0] + 1
            self.execute(
                "INSERT INTO campaigns (campaign, version, digest, document, published, asked) "
                "VALUES (?, ?, ?, ?, ?, ?)",
                (campaign, version, digest, document, datetime.now(UTC).isoformat(), asked),
            )
            return version

    def _note_asked(self, campaign: str, version: int, asked: str) -> None:
        """Note what the file of a version asks, if that is news."""
        if asked:
            self.execute(
                "UPDATE campaigns SET asked = ? WHERE campaign = ? AND version = ? AND asked <> ?",
                (asked, campaign, version, asked),
            )

    def document_asking(self, campaign: str, asked: str) -> bytes | None:
        """Return the newest document of a campaign whose file asked the same."""
        rows = self.execute(
            "SELECT document FROM campaigns WHERE campaign = ? AND asked = ? "
            "ORDER BY version DESC LIMIT 1",
            (campaign, asked),
        )
        return bytes(rows[0][0]) if rows else None

    def latest(self, campaign: str) -> tuple[int, str, bytes] | None:
        """Return the newest version of a campaign, its digest and its document."""
        rows = self.execute(
            "SELECT version, digest, document FROM campaigns WHERE campaign = ? "
            "ORDER BY version DESC LIMIT 1",
            (campaign,),
        )
        return (int(rows[0][0]), str(rows[0][1]), bytes(rows[0][2])) if rows else None

    def versions(self, campaign: str) -> dict[int, str]:
        """Return the digest of every version of a campaign, in the order of versions."""
        sql = "SELECT version, digest FROM campaigns WHERE campaign = ? ORDER BY version"
        return {int(version): str(digest) for version, digest in self.execute(sql, (campaign,))}

    def document(self, campaign: str, version: int) -> bytes | None:
        """Return the document of one version of a campaign."""
        sql = "SELECT document FROM campaigns WHERE campaign = ? AND version = ?"
        rows = self.execute(sql, (campaign, version))
        return bytes(rows[0][0]) if rows else None

    def campaigns(self) -> list[str]:
        """Return the names of all campaigns."""
        rows = self.execute("SELECT DISTINCT campaign FROM campaigns ORDER BY campaign")
        return [str(row[0]) for row in rows]

    def digests(self, campaign: str) -> set[str]:
        """Return the digests of all versions of a campaign."""
        sql = "SELECT digest FROM campaigns WHERE campaign = ?"
        return {str(row[0]) for row in self.execute(sql, (campaign,))}

    def document_of(self, campaign: str, digest: str) -> bytes | None:
        """Return the newest document of a campaign that has this digest."""
        rows = self.execute(
            "SELECT document FROM campaigns WHERE campaign = ? AND digest = ? "
            "ORDER BY version DESC LIMIT 1",
            (campaign, digest),
        )
        return bytes(rows[0][0]) if rows else None

    def document_with(self, digest: str) -> bytes | None:
        """Return the newest document with this digest, of whichever campaign."""
        sql = "SELECT document FROM campaigns WHERE digest = ? ORDER BY version DESC LIMIT 1"
        rows = self.execute(sql, (digest,))
        return bytes(rows[0][0]) if rows else None

    def key_of(self, digest: str) -> int | None:
        """Return the number under which the reports of a digest are stored, if there are any."""
        rows = self.execute("SELECT key FROM collections WHERE digest = ?", (digest,))
        return int(rows[0][0]) if rows else None

    def open_collection(self, digest: str) -> int:
        """Return the number of a digest; give it one if it has none."""
        with self.transaction():
            key = self.key_of(digest)
            if key is None:
                key = int(self.execute("SELECT COALESCE(MAX(key), 0) + 1 FROM collections")[0][0])
                self.execute("INSERT INTO collections (key, digest) VALUES (?, ?)", (key, digest))
            self._runs.noticed(key)  # now, so that the first upload does not wait for it
            return key

    def note_hour(self, key: int) -> None:
        """Note that a report was stored in this hour; no time is kept that is finer."""
        hour = int(time.time()) // HOUR
        self.execute(
            "UPDATE collections SET last_hour = ? WHERE key = ? AND last_hour < ?",
            (hour, key, hour),
        )

    def last_hour(self, digest: str) -> datetime | None:
        """Return the hour in which the last report of a digest was stored here."""
        rows = self.execute("SELECT last_hour FROM collections WHERE digest = ?", (digest,))
        hour = int(rows[0][0]) if rows else 0
        return datetime.fromtimestamp(hour * HOUR, UTC) if hour else None

    # --- tallies and counts ----------------------------------------------------------------------

    def add_tallies(self, key: int, tallies: Mapping[int, Sequence[Tally]]) -> None:
        """Add what new reports count to, by period, inside the transaction that stores them."""
        for period, own in tallies.items():
            for cell, tally in enumerate(own):
                if tally.n == 0:
                    continue
                total = self._tally(key, period, cell, tally.mechanism) + tally
                with self.overwriting():
                    self.execute(
                        "INSERT INTO tallies (key, period, cell, n, counts) VALUES (?, ?, ?, ?, ?) "
                        "ON CONFLICT (key, period, cell) "
                        "DO UPDATE SET n = excluded.n, counts = excluded.counts",
                        (key, period, cell, total.n, total.counts.astype("<i8").tobytes()),
                    )

    def _tally(self, key: int, period: int, cell: int, mechanism: Mechanism) -> Tally:
        sql = "SELECT n, counts FROM tallies WHERE key = ? AND period = ? AND cell = ?"
        rows = self.execute(sql, (key, period, cell))
        if not rows:
            return mechanism.empty()
        counts = np.frombuffer(bytes(rows[0][1]), dtype="<i8")
        return Tally(mechanism, counts, int(rows[0][0]))

    def tallies(
        self, digest: str, mechanisms: Sequence[Mechanism], period: int | None = None
    ) -> dict[int, tuple[Tally, ...]]:
        """Return this collector's own tallies by period, one per cell, as of one moment.

        Periods in their order, those that have any, or one that is named; 0 is that of a campaign
        without periods.
        """
        key = self.key_of(digest)
        if key is None:
            return {}
        sql = "SELECT period, cell, n, counts FROM tallies WHERE key = ?"
        only, values = _only(period)
        by_period: dict[int, dict[int, Tally]] = {}
        for number, cell, n, data in self.execute(f"{sql}{only} ORDER BY period", (key, *values)):
            counts, law = np.frombuffer(bytes(data), dtype="<i8"), mechanisms[int(cell)]
            by_period.setdefault(int(number), {})[int(cell)] = Tally(law, counts, int(n))
        return {
            number: tuple(
                own[cell] if cell in own else law.empty() for cell, law in enumerate(mechanisms)
            )
            for number, own in by_period.items()
        }

    def periods(self, key: int) -> list[int]:
        """Return the periods that have reports, in their order."""
        sql = "SELECT DISTINCT period FROM tallies WHERE key = ? ORDER BY period"
        return [int(period) for (period,) in self.execute(sql, (key,))]

    def people(self, key: int, period: int, cells: int) -> list[int]:
        """Return how many reports each cell's own tally counts in a period."""
        sql = "SELECT cell, n FROM tallies WHERE key = ? AND period = ?"
        people = {int(cell): int(n) for cell, n in self.execute(sql, (key, period))}
        return [people.get(cell, 0) for cell in range(cells)]

    # --- what figures are made of ----------------------------------------------------------------

    def shown_people(self, key: int, period: int, cells: int, *, merged: bool) -> list[int]:
        """Return how many reports each cell shows in a period."""
        sql = "SELECT people FROM shown WHERE key = ? AND merged = ? AND period = ?"
        rows = self.execute(sql, (key, int(merged), period))
        return np.frombuffer(bytes(rows[0][0]), "<i8").tolist() if rows else [0] * cells

    def shown(
        self,
        key: int,
        mechanisms: Sequence[Mechanism],
        period: int | None = None,
        *,
        merged: bool,
    ) -> dict[int, tuple[Tally, ...]]:
        """Return what is shown, by period: of what was counted here, or of what was merged."""
        sql = "SELECT period, people, counts FROM shown WHERE key = ? AND merged = ?"
        only, values = _only(period)
        ends = np.cumsum([law.counters for law in mechanisms])[:-1]
        shown = {}
        rows = self.execute(f"{sql}{only} ORDER BY period", (key, int(merged), *values))
        for number, people, counts in rows:
            parts = np.split(np.frombuffer(bytes(counts), "<i8"), ends)
            each = np.frombuffer(bytes(people), "<i8").tolist()
            cells = zip(mechanisms, parts, each, strict=True)
            shown[int(number)] = tuple(Tally(law, own, n) for law, own, n in cells)
        return shown

    def show(self, key: int, period: int, tallies: Sequence[Tally], *, merged: bool) -> None:
        """Show these tallies from now on, inside the transaction in which they became due."""
        people = np.array([tally.n for tally in tallies], dtype="<i8")
        counts = np.concatenate([tally.counts for tally in tallies]).astype("<i8")
        with self.overwriting():
            self.execute(
                "INSERT INTO shown (key, merged, period, people, counts) VALUES (?, ?, ?, ?, ?) "
                "ON CONFLICT (key, merged, period) "
                "DO UPDATE SET people = excluded.people, counts = excluded.counts",
                (key, int(merged), period, people.tobytes(), counts.tobytes()),
            )

    # --- counts ----------------------------------------------------------------------------------

    def add_counts(self, campaign: str, outcomes: Mapping[str, int]) -> None:
        """Count what became of reports, inside the transaction that decides it."""
        for outcome in sorted(outcomes):
            self.execute(
                "INSERT INTO counts (campaign, outcome, n) VALUES (?, ?, ?) "
                "ON CONFLICT (campaign, outcome) DO UPDATE SET n = counts.n + excluded.n",
                (campaign, outcome, int(outcomes[outcome])),
            )

    def counts(self, campaign: str) -> dict[str, int]:
        """Return how many reports were received, stored, duplicates, and refused by reason."""
        sql = "SELECT outcome, n FROM counts WHERE campaign = ? ORDER BY outcome"
        return {str(outcome): int(n) for outcome, n in self.execute(sql, (campaign,))}

    # --- raw reports -----------------------------------------------------------------------------

    def add_reports(self, key: int, ids: Octets, rows: Octets, *, elsewhere: bool = False) -> Mask:
        """Store reports whose ids are all different; tell which were not there before.

        Rows without bytes are of reports that are scrubbed, unless they are kept `elsewhere`.
        """
        with self.transaction():
            new = self._runs.add(key, ids, rows)
            self._scrubbed |= not elsewhere and rows.shape[1] == 0 and bool(new.any())
            return new

    def note_ids(self, key: int, ids: Octets) -> Mask:
        """Note ids that are all different; tell which were not there before."""
        with self.transaction():
            return self._runs.add(key, ids, np.zeros((len(ids), 0), dtype=np.uint8))

    def known_reports(self, key: int, ids: Octets) -> Mask:
        """Tell which ids, all different, are those of reports that are stored."""
        return self._runs.known(key, ids)

    def report_count(self, key: int, *, kept: bool = False) -> int:
        """Return how many reports are stored: scrubbed ones too, or only those that are kept."""
        return self._runs.count(key, kept)

    def kept_reports(
        self, key: int, width: int, part: str = ""
    ) -> Iterator[tuple[Octets, Octets, Ints]]:
        """Yield ids in chunks, the rows of those that were not scrubbed, and which ones these are.

        In the order of the ids; `width` is the length of a row. With a name, only of that part.
        """
        with self.snapshot():
            for parts in self._runs.chunks(key, part):
                if any(rows.shape[1] not in (0, width) for _, rows in parts):
                    raise FormatError(DAMAGED)
                yield _in_order(parts, width)

    def close_part(self, key: int, part: str) -> None:
        """Let all kept reports that belong to no part be those of a new one, for good."""
        with self.transaction():
            self._runs.close(key, part)
        merging = True
        while merging:  # one after the other: a collector that runs does not wait for long
            with self.transaction():
                merging = self._runs.merge_part(key, part)

    def parts(self, key: int) -> dict[str, int]:
        """Return the parts that were closed, and how many reports each has."""
        return self._runs.parts(key)

    # --- logs of reports that go to a folder -----------------------------------------------------

    def note_log(self, log: str, end: int) -> None:
        """Note up to which byte a log counts, inside the transaction that counts its reports."""
        self.execute(
            "INSERT INTO logs (log, bytes) VALUES (?, ?) "
            "ON CONFLICT (log) DO UPDATE SET bytes = excluded.bytes",
            (log, end),
        )

    def log_end(self, log: str) -> int | None:
        """Return up to which byte a log counts; None if nothing in it does."""
        rows = self.execute("SELECT bytes FROM logs WHERE log = ?", (log,))
        return int(rows[0][0]) if rows else None

    def forget_log(self, log: str) -> None:
        """Forget a log whose reports are in parts."""
        with self.transaction():
            self.execute("DELETE FROM logs WHERE log = ?", (log,))

    # --- other collectors ------------------------------------------------------------------------

    def merged(self, key: int, *, held: bool = False) -> list[Merged]:
        """Return what counts of other collectors, or of which their reports are held here."""
        table = "held" if held else "merged"
        sql = f"SELECT source, n, tallies FROM {table} WHERE key = ? ORDER BY source"  # noqa: S608
        return [Merged(str(c), int(n), bytes(data)) for c, n, data in self.execute(sql, (key,))]

    def set_merged(self, key: int, merged: Merged, *, held: bool = False) -> None:
        """Keep another collector's tallies, instead of what was kept of it before."""
        table = "held" if held else "merged"
        with self.overwriting():
            self.execute(
                f"INSERT INTO {table} (key, source, n, tallies) VALUES (?, ?, ?, ?) ON CONFLICT "  # noqa: S608
                "(key, source) DO UPDATE SET n = excluded.n, tallies = excluded.tallies",
                (key, merged.collector, merged.n, merged.tallies),
            )
        self._scrubbed = True

    def drop_merged(self, key: int, collector: str) -> None:
        """Forget another collector's tallies."""
        with self.overwriting():
            self.execute("DELETE FROM merged WHERE key = ? AND source = ?", (key, collector))
        self._scrubbed = True

    def merge_secret(self) -> bytes | None:
        """Return the secret that collectors share, if this one has it."""
        rows = self.execute("SELECT secret FROM merge_key")
        return bytes(rows[0][0]) if rows else None

    def set_merge_secret(self, secret: bytes) -> None:
        """Keep the secret that collectors share."""
        with self.transaction():
            self.execute("DELETE FROM merge_key")
            self.execute("INSERT INTO merge_key (secret) VALUES (?)", (secret,))

    def pin_merge_secret(self) -> None:
        """Note that what was handed out depends on the secret: it stays."""
        with self.transaction():
            self.execute("UPDATE merge_key SET pinned = 1")

    def merge_secret_pinned(self) -> bool:
        """Tell whether it was pinned."""
        return bool(self.execute("SELECT 1 FROM merge_key WHERE pinned = 1"))

    # --- tokens ----------------------------------------------------------------------------------

    def tokens(self) -> list[Token]:
        """Return all tokens' hashes and what they allow."""
        sql = (
            "SELECT hash, name, role, campaign, created, expires, sources, secret FROM tokens "
            "ORDER BY created"
        )
        return [
            Token(bytes(own), name, role, campaign, made, end, sources, bytes(secret or b""))
            for own, name, role, campaign, made, end, sources, secret in self.execute(sql)
        ]

    def add_token(self, token: Token) -> None:
        """Keep a token's hash."""
        with self.transaction():
            self.execute(
                "INSERT INTO tokens (hash, name, role, campaign, created, expires, sources, secret)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    *(token.hash, token.name, token.role, token.campaign),
                    *(token.created, token.expires, token.sources, token.secret or None),
                ),
            )

    def expire_tokens(self, name: str, when: int | None = None) -> int:
        """Let all tokens of that name end, now or then; return how many there were."""
        now = int(time.time())
        end = now if when is None else when
        with self.transaction():
            sql = "SELECT COUNT(*) FROM tokens WHERE name = ? AND expires > ?"
            ended = int(self.execute(sql, (name, end))[0][0])
            sql = "UPDATE tokens SET expires = ? WHERE name = ? AND expires > ?"
            self.execute(sql, (end if end > now else -end, name, end))
            return ended

    def end_overdue(self, now: int) -> None:
        """Mark the tokens whose time has come: no clock that steps back brings them to life."""
        with self.transaction():
            sql = "UPDATE tokens SET expires = -expires WHERE expires > 0 AND expires <= ?"
            self.execute(sql, (now,))
            self.execute("DELETE FROM sessions WHERE expires <= ?", (now,))

    # --- browsers that are signed in -------------------------------------------------------------

    def sessions(self) -> list[Token]:
        """Return all sessions: each allows what the token behind it does, as long as both last."""
        by_hash = {token.hash: token for token in self.tokens()}
        sql = "SELECT hash, token, created, expires FROM sessions WHERE kind = 'session'"
        return [
            replace(behind, hash=bytes(own), created=created, expires=min(expires, behind.expires))
            for own, token, created, expires in self.execute(sql)
            if (behind := by_hash.get(bytes(token))) is not None
        ]

    def add_session(self, kind: str, own: bytes, token: bytes, created: int, expires: int) -> None:
        """Keep the hash of a session, or of a code that becomes one."""
        with self.transaction():
            self.execute(
                "INSERT INTO sessions (hash, kind, token, created, expires) VALUES (?, ?, ?, ?, ?)",
                (own, kind, token, created, expires),
            )

    def has_code(self, own: bytes) -> bool:
        """Whether there is such a code, valid or not."""
        sql = "SELECT 1 FROM sessions WHERE hash = ? AND kind = 'code'"
        return bool(self.execute(sql, (own,)))

    def take_code(self, own: bytes, now: int) -> bytes | None:
        """Take a code out, for good; return the token behind it if the code was still valid."""
        with self.transaction():
            sql = "SELECT token, expires FROM sessions WHERE hash = ? AND kind = 'code'"
            rows = self.execute(sql, (own,))
            self.execute("DELETE FROM sessions WHERE hash = ? AND kind = 'code'", (own,))
        return bytes(rows[0][0]) if rows and int(rows[0][1]) > now else None

    def end_session(self, own: bytes) -> None:
        """Forget a session."""
        with self.transaction():
            self.execute("DELETE FROM sessions WHERE hash = ? AND kind = 'session'", (own,))

    def has_sessions(self, until: int) -> bool:
        """Whether there are sessions or codes that end by then."""
        return bool(self.execute("SELECT 1 FROM sessions WHERE expires <= ? LIMIT 1", (until,)))


def _only(period: int | None) -> tuple[str, tuple[int, ...]]:
    """Return the end of a condition that leaves one period, and its value."""
    return ("", ()) if period is None else (" AND period = ?", (period,))


def _in_order(parts: Sequence[tuple[Octets, Octets]], width: int) -> tuple[Octets, Octets, Ints]:
    """Join reports of several runs; scrubbed ones have no row."""
    ids = np.concatenate([ids for ids, _ in parts])
    kept = np.concatenate([np.full(len(ids), rows.shape[1] > 0) for ids, rows in parts])
    nothing = np.zeros((0, width), dtype=np.uint8)
    rows = np.concatenate([nothing, *(rows for _, rows in parts if rows.shape[1])])
    order, _ = in_order(ids)
    row_of = np.cumsum(kept) - 1
    return ids[order], rows[row_of[order[kept[order]]]], np.flatnonzero(kept[order])
