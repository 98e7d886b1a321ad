"""What a person's device has answered: the reports, and what became of them, in one SQLite file.

    reserve      one transaction: the bytes go into the ledger, id, mark and cost into the key's
                 record (`device.record`), which decides; refused here, nothing leaves
    (send)       whatever the network does
    acknowledge  what the collector said

The ledger is the outbox, the record the account. Both commit before anything is sent, the record
last: from its commit on a report may have left, and the same bytes are sent again and again, never
fresh noise. A device that dies before that commit has charged nothing; what it has left in the
ledger is a draft that nobody reads. So spent is never less than sent, and nothing is charged for
what could not leave.

Several ledgers may have one key: they share its record, and so its limits, its costs and its
answers. A ledger that is lost, or restored from a copy, brings back no budget, and makes the same
reports again. Entries belong to a collector's origin: what one collector was told is no other's
business, and a name that two of them use is two campaigns.

Each call opens the files anew, so threads, forks and other processes may share a ledger.
"""

from __future__ import annotations

import json
import math
import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from murmuration.device import record as records
from murmuration.device.book import Book, changing, set_setting, setting
from murmuration.device.costs import (
    Cost,
    Totals,
    exact_cost,
    exact_limit,
    given_limits,
    read_cost,
    spent_on,
)
from murmuration.device.record import Charge, Record, marked, require_bytes
from murmuration.device.secret import Secret
from murmuration.errors import LedgerError, MismatchError, ParameterError
from murmuration.exact.keyed import Key

BOOK = Book(
    "ledger",
    0x4D55524D,  # "MURM"
    3,
    """
CREATE TABLE setting (name TEXT PRIMARY KEY, value);
CREATE TABLE entry (
    number INTEGER PRIMARY KEY,
    origin TEXT NOT NULL,            -- of the collector
    campaign TEXT NOT NULL,
    digest TEXT NOT NULL,
    purpose TEXT NOT NULL,
    period TEXT NOT NULL,
    cost TEXT NOT NULL,              -- 1/10, or inf, without permanent answers
    made_at TEXT NOT NULL,
    report_id BLOB NOT NULL UNIQUE,
    report BLOB,                     -- NULL once it was acknowledged and forgotten
    outcome TEXT,                    -- NULL until the collector has answered
    UNIQUE (origin, digest, period)
);
""",
)
_FIELDS = "origin, campaign, digest, purpose, period, cost, made_at, report_id, report, outcome"


@dataclass(frozen=True)
class Entry:
    """One report: what it cost, the bytes that are sent, and what came of it."""

    origin: str
    """Whose collector it is for."""
    campaign: str
    digest: str
    """Of the campaign's document."""
    purpose: str
    period: str
    cost: Cost
    """As `reserve` returns it, with the permanent answers that were new; as kept, without."""
    made_at: str
    """UTC, in ISO 8601."""
    report_id: bytes
    report: bytes | None
    """None once it was acknowledged and forgotten."""
    outcome: str | None
    """What the collector answered (see `acknowledge`); None while nobody has."""

    @property
    def epsilon(self) -> float:
        """The cost as a float."""
        return float(self.cost)


class Session:
    """A ledger and the key's record, opened once for all that one report needs.

    `find`, `reserve` and what they rest on belong into one transaction: `with session.deciding():`.
    """

    def __init__(self, ledger: Ledger, db: sqlite3.Connection, account: sqlite3.Connection) -> None:
        self.record = Record(account, ledger.secret.record)
        self._ledger, self._db, self._account = ledger, db, account

    @cached_property
    def key(self) -> Key:
        """The person's key, if it is the one of this ledger and this record."""
        secret = self._ledger.secret
        if not secret.there:
            raise LedgerError(
                f"{secret!r} is gone. With a new key this device would put fresh noise on "
                "answers that it has sent: put the file back, or begin with a new ledger. "
                "Nothing was sent."
            )
        key = secret.read()
        if setting(self._db, "key") != key.name("ledger"):
            raise MismatchError(f"{self._ledger.path} was made with another key. Nothing was sent.")
        self.record.require(key)
        return key

    @contextmanager
    def deciding(self) -> Iterator[None]:
        """One transaction in both files: all that is done in it counts, or nothing.

        The record is locked first and committed last. While it is locked no other ledger of this
        key decides anything.
        """
        with changing(self._account, self._db):
            yield

    # --- rounds of trainings -------------------------------------------------------------------

    def rounds(self, origin: str, digest: str) -> dict[int, str]:
        """Return the digests of the rounds of a training that this device was shown."""
        kept = setting(self._db, f"rounds {origin} {digest}")
        return {} if kept is None else _by_number(json.loads(str(kept)))

    def note_rounds(self, origin: str, digest: str, shown: Mapping[int, str]) -> None:
        """Keep the digests of rounds that this device was shown."""
        with self.deciding():
            known = {**self.rounds(origin, digest), **shown}
            set_setting(self._db, f"rounds {origin} {digest}", json.dumps(known))

    # --- reports -------------------------------------------------------------------------------

    def find(self, origin: str, digest: str, period: str = "") -> Entry | None:
        """Return the report that was reserved for this collector, question and period."""
        where = "WHERE origin = ? AND digest = ? AND period = ?"
        found = self._select(where, origin, digest, period)
        return found[0] if found else None

    def reserve(self, charge: Charge) -> Entry:
        """Reserve a report; return the entry whose `report` is to be sent.

        It may leave when the transaction has ended. What is charged is `cost`, and the cost of each
        memo that is new; nothing, if this key has reserved the same bytes before. Refused, and
        nothing kept: see `Record.reserve`.
        """
        cost = self.record.reserve(charge, self.key)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        entry = Entry(
            charge.origin,
            charge.campaign,
            charge.digest,
            charge.purpose,
            charge.period,
            exact_cost(charge.cost),
            now,
            charge.report_id,
            charge.report,
            None,
        )
        self._write(entry)
        return replace(entry, cost=cost)

    def _write(self, entry: Entry) -> None:
        """Write an entry in the place of a draft of the same question, if there is one."""
        whose = entry.origin, entry.digest, entry.period
        self._db.execute("DELETE FROM entry WHERE origin = ? AND digest = ? AND period = ?", whose)
        self._db.execute(
            f"INSERT INTO entry ({_FIELDS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608
            (
                *(entry.origin, entry.campaign, entry.digest, entry.purpose, entry.period),
                *(str(entry.cost), entry.made_at, entry.report_id, entry.report, entry.outcome),
            ),
        )

    def entries(self) -> list[Entry]:
        """Return everything that was reserved, oldest first."""
        return self._select()

    def pending(self, origin: str | None = None) -> list[Entry]:
        """Return what was not acknowledged, oldest first: send the same bytes again."""
        return self._select("WHERE outcome IS NULL AND (?1 IS NULL OR origin = ?1)", origin)

    def acknowledge(self, report_id: bytes, outcome: str, forget: bool = False) -> Entry:
        """Note the answer: "stored", "duplicate" or "refused:<reason>"; a second one is ignored.

        A refused report stays charged: it has left the device. `forget` deletes its bytes.
        """
        _require_outcome(outcome)
        require_bytes("report_id", report_id)
        with changing(self._db):
            self._db.execute(
                "UPDATE entry SET outcome = ? WHERE report_id = ? AND outcome IS NULL",
                (outcome, report_id),
            )
            if forget:
                self._db.execute("UPDATE entry SET report = NULL WHERE report_id = ?", (report_id,))
            found = self._select("WHERE report_id = ?", report_id)
        if not found:
            raise ParameterError(f"no report has the id {report_id.hex()}")
        return found[0]

    def forget_sent(self) -> int:
        """Delete the bytes of acknowledged reports and return how many; what they cost stays."""
        with changing(self._db):
            return self._db.execute(
                "UPDATE entry SET report = NULL WHERE outcome IS NOT NULL AND report IS NOT NULL"
            ).rowcount

    def _select(self, where: str = "", *values: object) -> list[Entry]:
        """Return entries, and no drafts: what was not reserved was never sent, and is not read."""
        rows = self._db.execute(
            f"SELECT {_FIELDS} FROM entry {where} ORDER BY number",  # noqa: S608
            values,
        ).fetchall()
        entries = [_entry(*row) for row in rows]
        return [entry for entry in entries if entry.outcome or self._reserved(entry)]

    def _reserved(self, entry: Entry) -> bool:
        mark = self.record.mark_of(entry.report_id)
        return mark is not None and mark == marked(self.key, entry.report_id, entry.report or b"")


class Ledger:
    """What a person's device has spent and sent, over all campaigns.

    `report`, `collector` and `lifetime` lower the person's limits: on one report, on all reports to
    one collector, and on everything. A new key has those of `LIMITS`, and nothing but `raise_limit`
    raises one. `math.inf` is no limit.

    `secret` is the person's key: 32 bytes, or a file; `PATH.key` if it is left out, made if new.
    What was spent under it is in its record, `KEY.record` (`PATH.record`, if it is 32 bytes).
    """

    def __init__(
        self,
        path: str | Path,
        lifetime: float | None = None,
        *,
        collector: float | None = None,
        report: float | None = None,
        secret: bytes | str | Path | None = None,
    ) -> None:
        wanted = given_limits(report, collector, lifetime)
        self.path = Path(path).absolute()
        self.secret = Secret.of(secret, self.path)
        if not os.path.lexists(self.path):
            self._make()
        with self.session() as session:
            if wanted:
                with session.deciding():
                    session.record.lower(wanted)

    def __repr__(self) -> str:
        return f"Ledger({str(self.path)!r})"

    def _make(self) -> None:
        """Make the ledger; with it the key and its record, if the key is new."""
        if self.secret.may_be_new:
            records.make(self.secret.record)
        key = self._bound_key()
        BOOK.make(self.path, lambda db: set_setting(db, "key", key.name("ledger")))

    def _bound_key(self) -> Key:
        """Return the key, known to its record. A key that its record misses is not made anew."""
        with records.opened(self.secret.record) as db:
            record = Record(db, self.secret.record)
            if not record.bound:
                self.secret.make()
            key = self.secret.read()
            with changing(db):
                record.bind(key)
        return key

    @contextmanager
    def session(self) -> Iterator[Session]:
        """Open ledger and record for all that one report needs."""
        with BOOK.opened(self.path) as db, records.opened(self.secret.record) as account:
            yield Session(self, db, account)

    @property
    def key(self) -> Key:
        """The person's key, if it is the one that this ledger was made with."""
        with self.session() as session:
            return session.key

    # --- limits --------------------------------------------------------------------------------

    def limits(self) -> dict[str, float]:
        """Return the person's limits on a report, on a collector and on everything; inf is none."""
        with self.session() as session:
            return {name: float(most) for name, most in session.record.limits().items()}

    @property
    def lifetime(self) -> float:
        """The person's limit on everything; inf is no limit."""
        return self.limits()["lifetime"]

    def lower(
        self,
        lifetime: float | None = None,
        *,
        collector: float | None = None,
        report: float | None = None,
    ) -> None:
        """Lower those of the limits that are given; a lower one that the person has set stays."""
        wanted = given_limits(report, collector, lifetime)
        with self.session() as session, session.deciding():
            session.record.lower(wanted)

    def set_limit(self, name: str, most: float) -> None:
        """Lower a limit. What is already spent stays spent, even if it is more."""
        limit = exact_limit(name, most)
        with self.session() as session, session.deciding():
            if limit > session.record.limits()[name]:
                raise ParameterError(
                    f"{most!r} is above the {name} limit; only the person raises it, with "
                    "raise_limit (murmur ledger --raise-limit)"
                )
            session.record.set_limit(name, limit)

    def raise_limit(self, name: str, most: float) -> None:
        """Raise a limit, or take it away with inf. For the person alone, never a campaign."""
        limit = exact_limit(name, most)
        with self.session() as session, session.deciding():
            if limit < session.record.limits()[name]:
                raise ParameterError(
                    f"{most!r} is below the {name} limit: lower it with set_limit "
                    "(murmur ledger --limit)"
                )
            session.record.set_limit(name, limit)

    # --- what was spent ------------------------------------------------------------------------

    def totals(self) -> Totals:
        """Return exactly what was spent under the key, by collector's origin and campaign."""
        with self.session() as session:
            return session.record.totals()

    def spent(self, campaign: str | None = None, origin: str | None = None) -> float:
        """Return what was charged: in all, by one collector, or by one campaign.

        It is what was ever charged under the key, also where this ledger is an older copy.
        """
        return float(spent_on(self.totals(), origin, campaign))

    def remaining(self) -> float:
        """Return what is neither spent nor set aside; inf if there is no limit."""
        with self.session() as session:
            most = session.record.limits()["lifetime"]
            spent = spent_on(session.record.committed())
        return max(0.0, float(most - spent)) if most != math.inf else math.inf

    def permanent(self) -> dict[tuple[str, str], float]:
        """Return what permanent answers have cost, by origin and campaign; never when."""
        with self.session() as session:
            return {whose: float(cost) for whose, cost in session.record.permanent().items()}

    def misfits(self) -> list[tuple[str, str, str, str, int]]:
        """Return origin, campaign, attribute, reason and how often an answer did not fit."""
        with self.session() as session:
            return session.record.misfits()

    # --- reports -------------------------------------------------------------------------------

    def reserve(self, charge: Charge) -> Entry:
        """Reserve a report durably, and return the entry whose `report` is to be sent.

        If this question and period have a report already, that one is returned and nothing is
        charged: send what the entry holds, not what was passed in. See `Session.reserve`.
        """
        with self.session() as session, session.deciding():
            known = session.find(charge.origin, charge.digest, charge.period)
            return known or session.reserve(charge)

    def find(self, origin: str, digest: str, period: str = "") -> Entry | None:
        """Return the report that was reserved for this collector, question and period."""
        with self.session() as session:
            return session.find(origin, digest, period)

    def pending(self, origin: str | None = None) -> list[Entry]:
        """Return what was not acknowledged, oldest first: send the same bytes again."""
        with self.session() as session:
            return session.pending(origin)

    def entries(self) -> list[Entry]:
        """Return everything that was reserved, oldest first."""
        with self.session() as session:
            return session.entries()

    def acknowledge(self, report_id: bytes, outcome: str, forget: bool = False) -> Entry:
        """Note the collector's answer: see `Session.acknowledge`."""
        with self.session() as session:
            return session.acknowledge(report_id, outcome, forget)

    def forget_sent(self) -> int:
        """Delete the bytes of acknowledged reports and return how many; what they cost stays."""
        with self.session() as session:
            return session.forget_sent()


def _by_number(kept: dict[str, str]) -> dict[int, str]:
    return {int(number): digest for number, digest in kept.items()}


def _entry(
    origin: str,
    campaign: str,
    digest: str,
    purpose: str,
    period: str,
    cost: str,
    made_at: str,
    report_id: bytes,
    report: bytes | None,
    outcome: str | None,
) -> Entry:
    head = (origin, campaign, digest, purpose, period, read_cost(cost))
    return Entry(*head, made_at, report_id, report, outcome)


def _require_outcome(outcome: str) -> None:
    refused = outcome.startswith("refused:") and len(outcome) > len("refused:")
    if outcome not in ("stored", "duplicate") and not refused:
        raise ParameterError(
            f'an outcome is "stored", "duplicate" or "refused:<reason>"; got {outcome!r}'
        )
