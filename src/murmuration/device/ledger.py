"""The durable record of what a person's device has spent.

    charge    one transaction: may it be spent? then the charge and the exact bytes to send
    (send)    whatever the network does
    acknowledge

A device that dies before the charge has sent nothing; one that dies after it finds the report in
`pending` and sends the same bytes again, never fresh noise. So spent is never less than sent.

Entries, limits and pending reports belong to a collector's origin: what one collector was told is
no other's business, and a name that two of them use is two campaigns. Permanent answers follow from
the key (`device.secret`); the ledger only notes, under names that tell nothing without the key and
in no order of time, which of them were paid for. What each campaign has cost is in the key's file,
too, and the larger of both counts: a ledger from a backup brings back no budget.

Costs are exact: a float stands for the decimal number that it prints as (0.1 is one tenth, so
ten of them are 1), sums are fractions, and every decision is made on them. Each call opens the
SQLite file anew, so threads, forks and other processes may share a ledger.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import os
import sqlite3
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

from murmuration.device.secret import Cost, Kept, Secret, Totals, larger, made_whole, read_cost
from murmuration.errors import BudgetError, FormatError, LedgerError, MismatchError, ParameterError
from murmuration.exact.keyed import Key

VERSION = 2
APPLICATION = 0x4D55524D  # "MURM": another program's database is not a ledger
PATIENCE = 30.0
"""Seconds to wait for another process that is writing."""
ANY = ""
"""The origin of entries from before origins were kept: they count for every collector."""
LIMITS: Mapping[str, float] = {"report": 4.0, "collector": 8.0, "lifetime": 16.0}
"""What a new ledger allows, unless told otherwise: one report, one collector, everything."""

# EXTRA is FULL and also syncs the folder when the journal is deleted, which is what commits: with
# FULL a power cut could undo a charge whose report was sent.
_SETTINGS = ("journal_mode = DELETE", "synchronous = EXTRA", "secure_delete = ON")

_ENTRY = """
CREATE TABLE entry (
    number INTEGER PRIMARY KEY,
    origin TEXT NOT NULL,            -- of the collector, empty for any
    campaign TEXT NOT NULL,
    digest TEXT NOT NULL,
    purpose TEXT NOT NULL,
    round TEXT NOT NULL,
    cost TEXT NOT NULL,              -- 1/10, or inf, without permanent answers
    made_at TEXT NOT NULL,
    report_id BLOB NOT NULL UNIQUE,
    report BLOB,                     -- NULL once it was acknowledged and forgotten
    outcome TEXT,                    -- NULL until the collector has answered
    UNIQUE (origin, digest, round)   -- one report for a question and a round, whatever races
);
CREATE TABLE paid (                  -- permanent answers, in the order of names, not of time
    name BLOB NOT NULL PRIMARY KEY,
    origin TEXT NOT NULL,
    campaign TEXT NOT NULL,
    cost TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE kept (                  -- permanent answers of spells, hidden (words.masked)
    name BLOB NOT NULL PRIMARY KEY,
    answer BLOB NOT NULL
) WITHOUT ROWID;
CREATE TABLE total (                 -- what a campaign has ever cost
    origin TEXT NOT NULL,
    campaign TEXT NOT NULL,
    cost TEXT NOT NULL,
    PRIMARY KEY (origin, campaign)
);
"""
_KEPT = """CREATE TABLE IF NOT EXISTS kept (
    name BLOB NOT NULL PRIMARY KEY, answer BLOB NOT NULL) WITHOUT ROWID"""
"""Ledgers of version 2 from before there were spells get it when they are opened."""
_SETTING = "CREATE TABLE setting (name TEXT PRIMARY KEY, value BLOB);"
_OLD_MEMO = """
CREATE TABLE memo (                  -- permanent answers of ledgers of version 1
    digest TEXT NOT NULL,
    attribute TEXT NOT NULL,
    key BLOB NOT NULL,
    answer BLOB NOT NULL,
    PRIMARY KEY (digest, attribute, key)
);
"""
_OURS = f"PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {VERSION};"
_SCHEMA = _SETTING + _ENTRY + _OLD_MEMO + _OURS
_UPGRADE = f"""
ALTER TABLE entry RENAME TO old_entry;
{_ENTRY}
INSERT INTO entry SELECT number, '', campaign, digest, purpose, round, cost, made_at, report_id,
    report, COALESCE(outcome, 'refused:unknown-origin') FROM old_entry;
DROP TABLE old_entry;
{_OURS}
"""  # noqa: S608
_FIELDS = "origin, campaign, digest, purpose, round, cost, made_at, report_id, report, outcome"


@dataclass(frozen=True)
class Entry:
    """One report: what it cost, the bytes that are sent, and what came of it."""

    origin: str
    """Whose collector it is for; empty for entries from before this was kept."""
    campaign: str
    digest: str
    """Of the campaign's document."""
    purpose: str
    round: str
    cost: Cost
    """As `charge` returns it, with the permanent answers that were new; as kept, without."""
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


@dataclass(frozen=True)
class Memo:
    """A permanent answer about one value: charged when it is new to the ledger, and never again.

    `name` follows from the key and the value, and tells neither (`DeviceWords.paid`); in a spell
    from the key and the spell.
    """

    name: bytes = field(repr=False)
    cost: Cost
    answer: bytes | None = field(default=None, repr=False)
    """What is kept until the end of a spell, hidden; None where it follows from key and value."""


class SpellBegunError(Exception):
    """Another call has begun the spell since this one looked: not an error, draw again."""


class Ledger:
    """What a person's device has spent and sent, over all campaigns, in one SQLite file.

    `report`, `collector` and `lifetime` are the person's own limits: on one report, on all reports
    to one collector, and on everything. A new ledger has those of `LIMITS` where none is given; one
    that has a lower limit keeps it, as only `raise_limit` raises one. `math.inf` is no limit.

    `secret` is the person's key: 32 bytes, or a file; `PATH.key` if it is left out, made if new.
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
        wanted = _given(report, collector, lifetime)
        self.path = Path(path).absolute()
        self.secret = Secret.of(secret, self.path)
        if not os.path.lexists(self.path):
            self.secret.make()
            _create(self.path, wanted, self.secret.key)
        with self._writing(upgrading=True) as db:
            if _version(db) < VERSION:
                self.secret.make()
                _upgrade(db, self.secret.key)
            db.execute(_KEPT)
            self._lower(db, wanted)

    def __repr__(self) -> str:
        return f"Ledger({str(self.path)!r})"

    @property
    def key(self) -> Key:
        """The person's key, if it is the one that this ledger was made with."""
        with self._reading() as db:
            return self._key(db)

    def _key(self, db: sqlite3.Connection) -> Key:
        if not self.secret.there:
            raise LedgerError(
                f"{self.secret!r} is gone. With a new key this device would put fresh noise on "
                "answers that it has sent: put the file back, or begin with a new ledger. "
                "Nothing was sent."
            )
        key = self.secret.key
        if _setting(db, "key") != _mark(key):
            raise MismatchError(f"{self.path} was made with another key. Nothing was sent.")
        return key

    # --- limits --------------------------------------------------------------------------------

    def limits(self) -> dict[str, float]:
        """Return the person's limits on a report, on a collector and on everything; inf is none."""
        with self._reading() as db:
            return {name: float(self._limit(db, name)) for name in LIMITS}

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
        wanted = _given(report, collector, lifetime)
        with self._writing() as db:
            self._lower(db, wanted)

    def set_limit(self, name: str, most: float) -> None:
        """Lower a limit. What is already spent stays spent, even if it is more."""
        limit = _limit(name, most)
        with self._writing() as db:
            if limit > self._limit(db, name):
                raise ParameterError(
                    f"{most!r} is above the {name} limit; only the person raises it, with "
                    "raise_limit (murmur ledger --raise-limit)"
                )
            self._keep(db, {name: limit})

    def raise_limit(self, name: str, most: float) -> None:
        """Raise a limit, or take it away with inf. For the person alone, never a campaign."""
        limit = _limit(name, most)
        with self._writing() as db:
            if limit < self._limit(db, name):
                raise ParameterError("that is no higher limit: use set_limit")
            self._keep(db, {name: limit})

    def _limit(self, db: sqlite3.Connection, name: str) -> Cost:
        """Return a limit: the lower of what is noted here and beside the key."""
        here = _kept_limit(db, name)
        return min(here, self.secret.limits().get(name, here))

    def _keep(self, db: sqlite3.Connection, limits: Mapping[str, Cost]) -> None:
        """Note limits here and beside the key: neither an old copy nor a new ledger undoes them."""
        for name, most in limits.items():
            _keep_limit(db, name, most)
        if self.secret.there:
            self.secret.note_limits(limits)

    def _lower(self, db: sqlite3.Connection, limits: Mapping[str, Cost]) -> None:
        """Lower limits as asked for; say so where the person has set a lower one."""
        for name, most in limits.items():
            kept = self._limit(db, name)
            if most > kept:
                warnings.warn(
                    f"the {name} limit stays {float(kept):g}, not {float(most):g}: only the person "
                    "raises it (Ledger.raise_limit, murmur ledger --raise-limit)",
                    stacklevel=4,
                )
        now = {name: min(self._limit(db, name), limits.get(name, math.inf)) for name in LIMITS}
        self._keep(db, now)

    def spent(self, campaign: str | None = None, origin: str | None = None) -> float:
        """Return what was charged: in all, by one collector, or by one campaign.

        It is what was ever charged, also where this ledger is an older copy of itself.
        """
        with self._reading() as db:
            return float(_sum(self._totals(db), origin, campaign))

    def remaining(self) -> float:
        """Return what may still be spent; inf if there is no limit."""
        with self._reading() as db:
            db.execute("BEGIN")  # one state of the file for both
            kept, spent = self._limit(db, "lifetime"), _sum(self._totals(db))
        return max(0.0, float(kept - spent)) if kept != math.inf else math.inf

    def _totals(self, db: sqlite3.Connection) -> Totals:
        """Return what was ever spent: noted here or beside the key, the larger."""
        return larger(_noted(db), self.secret.spent())

    # --- reports -------------------------------------------------------------------------------

    def charge(
        self,
        origin: str,
        campaign: str,
        digest: str,
        purpose: str,
        cost: Cost,
        limit: Cost | None,
        report: bytes,
        report_id: bytes,
        round: str = "",  # noqa: A002
        memos: Sequence[Memo] = (),
        rounds: int | None = None,
        *,
        hold: bool = False,
    ) -> Entry:
        """Charge a report, durably, and return the entry whose `report` is to be sent.

        The charge is `cost`, and the cost of each memo that is new. It is refused, and nothing is
        kept, if with it more than one of the person's limits or (if given) the campaign's `limit`
        would be spent, or if the question has `rounds` reports already. If this question and round
        have a report already, that one is returned and nothing is charged: send what the entry
        holds, not what was passed in. With `hold` it may not be sent before `let_go`, and can be
        taken back until then.
        """
        own, most = exact_cost(cost), math.inf if limit is None else _limit("campaign", limit)
        sent, name = _octets("report", report), _octets("report_id", report_id)
        if not origin:
            raise ParameterError("a charge names the collector's origin")
        with self._writing() as db:
            made = _find(db, origin, digest, round)
            if made is not None:
                return made
            self._key(db)
            _require_same(memos, {**_kept(db), **self.secret.kept()})
            _require_new(db, name)
            _require_round(db, origin, campaign, digest, rounds)
            fresh = _unpaid(db, memos)
            total = own + sum(exact_cost(memo.cost) for memo in fresh)
            ever = self._totals(db)
            limits = {name: self._limit(db, name) for name in ("lifetime", "collector")}
            _require_affordable(ever, (origin, campaign), total, {**limits, "campaign": most})
            now = datetime.now(UTC).isoformat(timespec="seconds")
            made = Entry(origin, campaign, digest, purpose, round, own, now, name, sent, None)
            _insert(db, made, fresh, ever.get((origin, campaign), Fraction(0)) + total)
            if hold:
                _set(db, _held_name(name), 1)
        self.note_total()
        return replace(made, cost=total)

    def note_total(self) -> None:
        """Note the totals beside the key, too: before anything that was charged is sent."""
        with self._writing() as db:  # one process at a time, so that no total goes back
            self.secret.note(_noted_without_held(db), _kept(db))

    def kept(self, name: bytes) -> bytes | None:
        """Return the permanent answer of a spell, hidden, as it is kept here or beside the key.

        What is beside the key was sent, or was about to be: it counts.
        """
        with self._reading() as db:
            return {**_kept(db), **self.secret.kept()}.get(_octets("name", name))

    # --- reports that may still be taken back --------------------------------------------------

    def held(self, report_id: bytes, name: bytes | None = None) -> bool:
        """Tell whether a report was charged, and its bytes were never let go (under that name)."""
        with self._reading() as db:
            held = _is_held(db, report_id)
            return held and (name is None or not self._gone(db, report_id, name))

    def let_go(self, report_id: bytes, name: bytes) -> bool:
        """Let a report's bytes leave, once and for all; False if others have left under the name.

        From here on they count as sent: the charge stays.
        """
        with self._writing() as db:
            found = _select(db, "WHERE report_id = ?", report_id)
            if not found or found[0].report is None:
                return False  # taken back since
            if _is_held(db, report_id):
                if not self.secret.let_go(name, _mark_of(found[0].report)):
                    return False
                db.execute("DELETE FROM setting WHERE name = ?", (_held_name(report_id),))
        self.note_total()
        return True

    def take_back(self, report_id: bytes, name: bytes) -> bool:
        """Delete a report that was never let go, and what it was charged; False if it was."""
        with self._writing() as db:
            if not _is_held(db, report_id) or self._gone(db, report_id, name):
                return False
            (found,) = _select(db, "WHERE report_id = ?", report_id)
            whose = found.origin, found.campaign
            total = _noted(db).get(whose, Fraction(0)) - found.cost
            db.execute("DELETE FROM entry WHERE report_id = ?", (report_id,))
            db.execute("DELETE FROM setting WHERE name = ?", (_held_name(report_id),))
            db.execute("INSERT OR REPLACE INTO total VALUES (?, ?, ?)", (*whose, str(total)))
        return True

    def _gone(self, db: sqlite3.Connection, report_id: bytes, name: bytes) -> bool:
        """Tell whether the key says that these very bytes were let go."""
        found = _select(db, "WHERE report_id = ?", report_id)
        sent = found[0].report if found else None
        return sent is not None and self.secret.gone(name) == _mark_of(sent)

    def find(self, origin: str, digest: str, round: str = "") -> Entry | None:  # noqa: A002
        """Return the report that was already made for this collector, question and round."""
        with self._reading() as db:
            return _find(db, origin, digest, round)

    def pending(self, origin: str | None = None) -> list[Entry]:
        """Return what was charged and not acknowledged, oldest first: send the same bytes again."""
        where = "WHERE outcome IS NULL AND (?1 IS NULL OR origin = ?1)"
        with self._reading() as db:
            return _select(db, where, origin)

    def entries(self) -> list[Entry]:
        """Return everything that was charged, oldest first."""
        with self._reading() as db:
            return _select(db)

    def permanent(self) -> dict[tuple[str, str], float]:
        """Return what permanent answers have cost, by origin and campaign; never when."""
        with self._reading() as db:
            rows = db.execute("SELECT origin, campaign, cost FROM paid").fetchall()
        costs: dict[tuple[str, str], Cost] = {}
        for origin, campaign, cost in rows:
            costs[origin, campaign] = costs.get((origin, campaign), Fraction(0)) + read_cost(cost)
        return {whose: float(cost) for whose, cost in costs.items()}

    def acknowledge(self, report_id: bytes, outcome: str, forget: bool = False) -> Entry:
        """Note the answer: "stored", "duplicate" or "refused:<reason>"; a second one is ignored.

        A refused report stays charged: it has left the device. `forget` deletes its bytes.
        """
        _require_outcome(outcome)
        name = _octets("report_id", report_id)
        with self._writing() as db:
            db.execute(
                "UPDATE entry SET outcome = ? WHERE report_id = ? AND outcome IS NULL",
                (outcome, name),
            )
            if forget:
                db.execute("UPDATE entry SET report = NULL WHERE report_id = ?", (name,))
            found = _select(db, "WHERE report_id = ?", name)
        if not found:
            raise ParameterError(f"no report has the id {name.hex()}")
        return found[0]

    def forget_sent(self) -> int:
        """Delete the bytes of acknowledged reports and return how many; what they cost stays."""
        with self._writing() as db:
            return db.execute(
                "UPDATE entry SET report = NULL WHERE outcome IS NOT NULL AND report IS NOT NULL"
            ).rowcount

    def recall(self, digest: str, attribute: str, value: bytes) -> bytes | None:
        """Return a permanent answer that a ledger of version 1 has kept: it stays what it was."""
        with self._reading() as db:
            if not db.execute("SELECT 1 FROM memo LIMIT 1").fetchone():
                return None
            name = _old_name(db, digest, attribute, value)
            row = db.execute("SELECT answer FROM memo WHERE key = ?", (name,)).fetchone()
        return None if row is None else bytes(row[0])

    # --- the file ------------------------------------------------------------------------------

    @contextmanager
    def _reading(self, upgrading: bool = False) -> Iterator[sqlite3.Connection]:
        with _explained(self.path), closing(_connect(self.path)) as db:
            _require_ours(db, self.path, upgrading)
            _set_up(db)  # not before: another program's file is left as it is
            yield db

    @contextmanager
    def _writing(self, upgrading: bool = False) -> Iterator[sqlite3.Connection]:
        """One transaction that nobody else writes in; closing the file undoes what is not done."""
        with self._reading(upgrading) as db:
            db.execute("BEGIN IMMEDIATE")
            yield db
            db.execute("COMMIT")


# --- amounts -----------------------------------------------------------------------------------


def exact_cost(cost: Cost) -> Cost:
    """Return a cost exactly: a float is the decimal number that it prints as.

    >>> 10 * exact_cost(0.1)
    Fraction(1, 1)
    """
    if isinstance(cost, bool) or not isinstance(cost, int | float | Fraction) or not cost >= 0:
        raise ParameterError(f"a cost is a number, 0 or more; got {cost!r}")
    if isinstance(cost, float):
        return math.inf if math.isinf(cost) else Fraction(repr(float(cost)))
    return Fraction(cost)


def _limit(name: str, most: Cost) -> Cost:
    if name not in (*LIMITS, "campaign"):
        raise ParameterError(f"a limit is one of {', '.join(LIMITS)}; got {name!r}")
    try:
        return exact_cost(most)
    except ParameterError:
        raise ParameterError(
            f"the {name} limit is a number, 0 or more (inf is none); got {most!r}"
        ) from None


def _kept_limit(db: sqlite3.Connection, name: str) -> Cost:
    return read_cost(str(_setting(db, _limit_name(name))))


def _limit_name(name: str) -> str:
    if name not in LIMITS:
        raise ParameterError(f"a limit is one of {', '.join(LIMITS)}; got {name!r}")
    return f"limit {name}"


def _keep_limit(db: sqlite3.Connection, name: str, most: Cost) -> None:
    _set(db, _limit_name(name), str(most))


def _given(
    report: float | None, collector: float | None, lifetime: float | None
) -> dict[str, Cost]:
    given = {"report": report, "collector": collector, "lifetime": lifetime}
    return {name: _limit(name, most) for name, most in given.items() if most is not None}


def _noted(db: sqlite3.Connection) -> Totals:
    """Return what each campaign has cost, as it is noted in the ledger."""
    rows = db.execute("SELECT origin, campaign, cost FROM total").fetchall()
    return {(origin, campaign): read_cost(cost) for origin, campaign, cost in rows}


def _noted_without_held(db: sqlite3.Connection) -> Totals:
    """Return the same without what may still be taken back: beside the key nothing goes down."""
    totals = _noted(db)
    for (name,) in db.execute("SELECT name FROM setting WHERE name LIKE 'held %'").fetchall():
        (held,) = _select(db, "WHERE report_id = ?", bytes.fromhex(name.split()[1]))
        totals[held.origin, held.campaign] -= held.cost
    return totals


def _held_name(report_id: bytes) -> str:
    return f"held {report_id.hex()}"


def _is_held(db: sqlite3.Connection, report_id: bytes) -> bool:
    sql = "SELECT 1 FROM setting WHERE name = ?"
    return db.execute(sql, (_held_name(report_id),)).fetchone() is not None


def _mark_of(report: bytes) -> bytes:
    """Return what bytes that were let go are known by."""
    return hashlib.sha256(report).digest()


def _sum(totals: Totals, origin: str | None = None, campaign: str | None = None) -> Cost:
    """Add up what was spent, without rounding: at one collector, by one campaign."""
    mine = [
        cost
        for (where, name), cost in totals.items()
        if (origin is None or where in (origin, ANY)) and campaign in (None, name)
    ]
    return sum(mine, start=Fraction(0))


def _require_affordable(
    ever: Totals, whose: tuple[str, str], cost: Cost, limits: Mapping[str, Cost]
) -> None:
    """Refuse what would go beyond one of the person's limits, or the campaign's own.

    All count what was ever spent, earlier copies of this ledger included: a report that is made
    again after a restore is the same one only if the answer is, which nobody can know.
    """
    origin, campaign = whose
    spent_on = {
        "lifetime": _sum(ever),
        "collector": _sum(ever, origin),
        "campaign": _sum(ever, origin, campaign),
    }
    for reason, spent in spent_on.items():
        most = limits[reason]
        if most != math.inf and spent + cost > most:
            raise BudgetError(
                f"{campaign}: this report costs {float(cost):g}; {float(spent):g} of the {reason} "
                f"limit {float(most):g} is spent. Nothing was sent.",
                reason,
            )


def _octets(name: str, data: bytes) -> bytes:
    """Refuse what is not bytes, without repeating it: bytes(3) would be three zeros."""
    if not isinstance(data, bytes):
        raise ParameterError(f"{name} must be bytes; got {type(data).__name__}")
    return data


# --- rows --------------------------------------------------------------------------------------


def _setting(db: sqlite3.Connection, name: str) -> object:
    row = db.execute("SELECT value FROM setting WHERE name = ?", (name,)).fetchone()
    if row is None:
        raise FormatError(f"this ledger is damaged: it has no {name}")
    return row[0]


def _set(db: sqlite3.Connection, name: str, value: object) -> None:
    db.execute("INSERT OR REPLACE INTO setting VALUES (?, ?)", (name, value))


def _select(db: sqlite3.Connection, where: str = "", *values: object) -> list[Entry]:
    rows = db.execute(f"SELECT {_FIELDS} FROM entry {where} ORDER BY number", values)  # noqa: S608
    return [_entry(*row) for row in rows.fetchall()]


def _entry(
    origin: str,
    campaign: str,
    digest: str,
    purpose: str,
    turn: str,
    cost: str,
    made_at: str,
    report_id: bytes,
    report: bytes | None,
    outcome: str | None,
) -> Entry:
    head = (origin, campaign, digest, purpose, turn, read_cost(cost))
    return Entry(*head, made_at, report_id, report, outcome)


def _find(db: sqlite3.Connection, origin: str, digest: str, turn: str) -> Entry | None:
    where = "WHERE origin IN (?1, '') AND digest = ?2 AND round = ?3"
    found = _select(db, where, origin, digest, turn)
    return found[0] if found else None


def _insert(db: sqlite3.Connection, made: Entry, memos: Sequence[Memo], total: Cost) -> None:
    """Write an entry, the permanent answers that are new with it, and its campaign's total."""
    db.execute(
        f"INSERT INTO entry ({_FIELDS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608
        (
            *(made.origin, made.campaign, made.digest, made.purpose, made.round, str(made.cost)),
            *(made.made_at, made.report_id, made.report, made.outcome),
        ),
    )
    for memo in memos:
        row = (memo.name, made.origin, made.campaign, str(exact_cost(memo.cost)))
        db.execute("INSERT INTO paid VALUES (?, ?, ?, ?)", row)
        if memo.answer is not None:
            db.execute("INSERT INTO kept VALUES (?, ?)", (memo.name, memo.answer))
    db.execute(
        "INSERT OR REPLACE INTO total VALUES (?, ?, ?)", (made.origin, made.campaign, str(total))
    )


def _require_new(db: sqlite3.Connection, report_id: bytes) -> None:
    if _select(db, "WHERE report_id = ?", report_id):
        raise ParameterError(f"the report id {report_id.hex()} is already in use")


def _require_round(
    db: sqlite3.Connection, origin: str, campaign: str, digest: str, rounds: int | None
) -> None:
    """Refuse more reports than the question asks of one device."""
    made = len(_select(db, "WHERE origin IN (?, '') AND digest = ?", origin, digest))
    if rounds is not None and made >= rounds:
        raise BudgetError(
            f"{campaign}: a device answers {rounds} times at most, and has. Nothing was sent.",
            "rounds",
        )


def _require_outcome(outcome: str) -> None:
    refused = outcome.startswith("refused:") and len(outcome) > len("refused:")
    if outcome not in ("stored", "duplicate") and not refused:
        raise ParameterError(
            f'an outcome is "stored", "duplicate" or "refused:<reason>"; got {outcome!r}'
        )


# --- permanent answers -------------------------------------------------------------------------


def _unpaid(db: sqlite3.Connection, memos: Sequence[Memo]) -> list[Memo]:
    """Return those of these permanent answers that were not paid for yet, each once."""
    different = {_octets("name", memo.name): memo for memo in memos}
    sql = "SELECT 1 FROM paid WHERE name = ?"
    return [memo for name, memo in different.items() if not db.execute(sql, (name,)).fetchone()]


def _kept(db: sqlite3.Connection) -> Kept:
    """Return the permanent answers of spells."""
    rows = db.execute("SELECT name, answer FROM kept").fetchall()
    return {bytes(name): bytes(answer) for name, answer in rows}


def _require_same(memos: Sequence[Memo], kept: Kept) -> None:
    """Refuse a report that rests on another answer than the one that its spell has by now."""
    if any(memo.answer is not None and memo.name in kept for memo in memos):
        raise SpellBegunError("this spell has an answer already: draw with that one")


def _old_name(db: sqlite3.Connection, digest: str, attribute: str, value: bytes) -> bytes:
    """Return what a ledger of version 1 has filed a value under."""
    secret = _setting(db, "secret")
    parts = [digest.encode(), attribute.encode(), _octets("value", value)]
    message = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
    return hmac.digest(bytes(secret), message, hashlib.sha256)  # type: ignore[call-overload]


# --- the file ----------------------------------------------------------------------------------


def _create(path: Path, limits: Mapping[str, Cost], key: Key) -> None:
    """Make a new ledger whole: an empty file is one that was cut short, and is refused."""

    def write(draft: Path) -> None:
        with _explained(path), closing(_connect(draft)) as db:
            _set_up(db)
            db.executescript(f"BEGIN; {_SCHEMA}")
            _set(db, "key", _mark(key))
            for name, usual in LIMITS.items():
                _keep_limit(db, name, limits.get(name, exact_cost(usual)))
            db.execute("COMMIT")

    made_whole(path, write)


def _upgrade(db: sqlite3.Connection, key: Key) -> None:
    """Take over a ledger of version 1: its entries count for every origin.

    What nobody had acknowledged is not sent any more: nobody knows whom it was made for.
    """
    kept = _setting(db, "lifetime")
    for statement in _UPGRADE.split(";"):
        db.execute(statement)
    _set(db, "key", _mark(key))
    costs: Totals = {}
    for entry in _select(db):
        whose = ANY, entry.campaign
        costs[whose] = costs.get(whose, Fraction(0)) + entry.cost
    rows = [(*whose, str(cost)) for whose, cost in costs.items()]
    db.executemany("INSERT INTO total VALUES (?, ?, ?)", rows)
    for name, usual in LIMITS.items():
        _keep_limit(db, name, exact_cost(usual))
    if kept is not None:
        _keep_limit(db, "lifetime", read_cost(str(kept)))


def _mark(key: Key) -> str:
    """Return what a ledger knows its key by; nothing follows from it."""
    return key.name("ledger").hex()


def _connect(path: Path) -> sqlite3.Connection:
    """Open an existing file; one that is gone is not silently made anew."""
    uri = f"{path.as_uri()}?mode=rw"
    return sqlite3.connect(uri, uri=True, timeout=PATIENCE, isolation_level=None)


def _set_up(db: sqlite3.Connection) -> None:
    for setting in _SETTINGS:
        db.execute(f"PRAGMA {setting}")


def _version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def _require_ours(db: sqlite3.Connection, path: Path, upgrading: bool) -> None:
    """Refuse another program's file, and one from a newer release."""
    (application,) = db.execute("PRAGMA application_id").fetchone()
    if application != APPLICATION:
        raise FormatError(f"{path} is not a ledger, or was cut short")
    version = _version(db)
    if version != VERSION and not (upgrading and version == 1):
        raise FormatError(
            f"{path} has schema {version}, this release knows {VERSION}: use a newer release"
        )


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn what SQLite and the file system report into errors of ours."""
    try:
        yield
    except (sqlite3.OperationalError, OSError) as problem:
        raise LedgerError(f"{path} cannot be used: {problem}. Nothing was sent.") from problem
    except sqlite3.DatabaseError as problem:
        raise FormatError(f"{path} is damaged or not a ledger: {problem}") from problem
