"""The durable record of what a person's device has spent.

    charge    one transaction: may it be spent? then the charge and the exact bytes to send
    (send)    whatever the network does
    acknowledge

A device that dies before the charge has sent nothing; one that dies after it finds the report in
`pending` and sends the same bytes again, never fresh noise. So spent is never less than sent.

Costs are exact: a float stands for the decimal number that it prints as (0.1 is one tenth, so
ten of them are 1), sums are fractions, and every decision is made on them. Each call opens the
SQLite file anew, so threads, forks and other processes may share a ledger.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import os
import secrets
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

from murmuration.errors import BudgetError, FormatError, LedgerError, MismatchError, ParameterError

Cost = Fraction | float
"""A fraction, or infinity (the only float that is kept)."""

VERSION = 1
APPLICATION = 0x4D55524D  # "MURM": another program's database is not a ledger
PATIENCE = 30.0
"""Seconds to wait for another process that is writing."""

# EXTRA is FULL and also syncs the folder when the journal is deleted, which is what commits: with
# FULL a power cut could undo a charge whose report was sent.
_SETTINGS = ("journal_mode = DELETE", "synchronous = EXTRA", "secure_delete = ON")

_SCHEMA = f"""
CREATE TABLE setting (
    name TEXT PRIMARY KEY,
    value BLOB
);
CREATE TABLE entry (
    number INTEGER PRIMARY KEY,
    campaign TEXT NOT NULL,
    digest TEXT NOT NULL,
    purpose TEXT NOT NULL,
    round TEXT NOT NULL,
    cost TEXT NOT NULL,              -- a fraction such as 1/10, or inf
    made_at TEXT NOT NULL,
    report_id BLOB NOT NULL UNIQUE,
    report BLOB,                     -- NULL once it was acknowledged and forgotten
    outcome TEXT,                    -- NULL until the collector has answered
    UNIQUE (digest, round)           -- one report for a question and a round, whatever races
);
CREATE TABLE memo (
    digest TEXT NOT NULL,
    attribute TEXT NOT NULL,
    key BLOB NOT NULL,
    answer BLOB NOT NULL,
    PRIMARY KEY (digest, attribute, key)
);
PRAGMA application_id = {APPLICATION};
PRAGMA user_version = {VERSION};
"""
_FIELDS = "campaign, digest, purpose, round, cost, made_at, report_id, report, outcome"


@dataclass(frozen=True)
class Entry:
    """One report: what it cost, the bytes that are sent, and what came of it."""

    campaign: str
    digest: str
    """Of the campaign's document."""
    purpose: str
    round: str
    cost: Cost
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
    """A permanent answer about one value of a memoised attribute (see `mechanisms.item.memoised`).

    `cost` is charged when the value is new to the ledger, and never again.
    """

    attribute: str
    value: bytes = field(repr=False)
    answer: bytes = field(repr=False)
    cost: Fraction | float


class Ledger:
    """What a person's device has spent and sent, over all campaigns, in one SQLite file.

    `lifetime` is the person's own limit over everything. A ledger that has a lower one keeps it:
    only `raise_lifetime` raises it.
    """

    def __init__(self, path: str | Path, lifetime: float | None = None) -> None:
        limit = _limit("lifetime", lifetime)
        self.path = Path(path).absolute()
        if not os.path.lexists(self.path):
            _create(self.path)
        with self._writing() as db:
            if _is_lower(limit, _lifetime(db)):
                _set_lifetime(db, limit)

    def __repr__(self) -> str:
        return f"Ledger({str(self.path)!r})"

    # --- limits --------------------------------------------------------------------------------

    @property
    def lifetime(self) -> float | None:
        """The person's limit over everything; None is no limit."""
        with self._reading() as db:
            kept = _lifetime(db)
        return None if kept is None else float(kept)

    def set_lifetime(self, lifetime: float) -> None:
        """Set or lower the limit. What is already spent stays spent, even if it is more."""
        limit = _required_limit("lifetime", lifetime)
        with self._writing() as db:
            kept = _lifetime(db)
            if _is_lower(kept, limit):
                raise ParameterError(
                    f"{lifetime!r} is above the lifetime limit; only the person raises it, with "
                    "raise_lifetime (murmur ledger --raise-lifetime)"
                )
            _set_lifetime(db, limit)

    def raise_lifetime(self, lifetime: float | None) -> None:
        """Raise the limit, or take it away with None. For the person alone, never a campaign."""
        limit = _limit("lifetime", lifetime)
        with self._writing() as db:
            kept = _lifetime(db)
            if _is_lower(limit, kept):
                raise ParameterError("that is no higher limit: use set_lifetime")
            _set_lifetime(db, limit)

    def spent(self, campaign: str | None = None) -> float:
        """Return what was charged, in all or by one campaign."""
        with self._reading() as db:
            return float(_spent(db, campaign))

    def remaining(self) -> float | None:
        """Return what may still be spent; None if there is no limit."""
        with self._reading() as db:
            db.execute("BEGIN")  # one state of the file for both
            kept, spent = _lifetime(db), _spent(db)
        return None if kept is None else max(0.0, float(kept - spent))

    # --- reports -------------------------------------------------------------------------------

    def charge(
        self,
        campaign: str,
        digest: str,
        purpose: str,
        cost: Fraction | float,
        limit: Fraction | float | None,
        report: bytes,
        report_id: bytes,
        round: str = "",  # noqa: A002
        memos: Sequence[Memo] = (),
        rounds: int | None = None,
    ) -> Entry:
        """Charge a report, durably, and return the entry whose `report` is to be sent.

        The charge is `cost`, and the cost of each memo whose value is new. It is refused, and
        nothing is kept, if with it more than the lifetime limit or (if given) the campaign's
        `limit` would be spent, or if the question has `rounds` reports already. If this question
        and round have a report already, that one is returned and nothing is charged: send what
        the entry holds, not what was passed in.
        """
        own, most = _cost(cost), _limit("limit", limit)
        sent, name = _octets("report", report), _octets("report_id", report_id)
        with self._writing() as db:
            made = _find(db, digest, round)
            if made is not None:
                return made
            _require_new(db, name)
            _require_round(db, campaign, digest, rounds)
            total = own + sum(_remember(db, digest, memo) for memo in memos)
            _require_affordable(db, campaign, total, most)
            now = datetime.now(UTC).isoformat(timespec="seconds")
            made = Entry(campaign, digest, purpose, round, total, now, name, sent, None)
            _insert(db, made)
        return made

    def find(self, digest: str, round: str = "") -> Entry | None:  # noqa: A002
        """Return the report that was already made for this question and round."""
        with self._reading() as db:
            return _find(db, digest, round)

    def pending(self) -> list[Entry]:
        """Return what was charged and not acknowledged, oldest first: send the same bytes again."""
        with self._reading() as db:
            return _select(db, "WHERE outcome IS NULL")

    def entries(self) -> list[Entry]:
        """Return everything that was charged, oldest first."""
        with self._reading() as db:
            return _select(db)

    def acknowledge(self, report_id: bytes, outcome: str) -> Entry:
        """Note the answer: "stored", "duplicate" or "refused:<reason>"; a second one is ignored.

        A refused report stays charged: it has left the device.
        """
        _require_outcome(outcome)
        name = _octets("report_id", report_id)
        with self._writing() as db:
            db.execute(
                "UPDATE entry SET outcome = ? WHERE report_id = ? AND outcome IS NULL",
                (outcome, name),
            )
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
        """Return the permanent answer for a value, or None: then draw one and charge a `Memo`.

        Permanent answers are never forgotten: a second one would tell as much again.
        """
        with self._reading() as db:
            return _recall(db, digest, attribute, _key(db, digest, attribute, value))

    # --- the file ------------------------------------------------------------------------------

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with _explained(self.path), closing(_connect(self.path)) as db:
            _require_ours(db, self.path)
            yield db

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction that nobody else writes in; closing the file undoes what is not done."""
        with self._reading() as db:
            db.execute("BEGIN IMMEDIATE")
            yield db
            db.execute("COMMIT")


# --- amounts -----------------------------------------------------------------------------------


def _cost(cost: Fraction | float) -> Cost:
    """Return a cost exactly: a float is the decimal number that it prints as.

    >>> 10 * _cost(0.1)
    Fraction(1, 1)
    """
    if isinstance(cost, bool) or not isinstance(cost, int | float | Fraction) or not cost >= 0:
        raise ParameterError(f"a cost is a number, 0 or more; got {cost!r}")
    if isinstance(cost, float):
        return math.inf if math.isinf(cost) else Fraction(repr(float(cost)))
    return Fraction(cost)


def _limit(name: str, limit: Fraction | float | None) -> Fraction | None:
    return None if limit is None else _required_limit(name, limit)


def _required_limit(name: str, limit: Fraction | float) -> Fraction:
    exact = _cost(limit)
    if not isinstance(exact, Fraction):
        raise ParameterError(f"{name} is a finite number; None is no limit")
    return exact


def _is_lower(one: Fraction | None, other: Fraction | None) -> bool:
    """Tell whether a limit is stricter than another; None is none."""
    return one is not None and (other is None or one < other)


def _spent(db: sqlite3.Connection, campaign: str | None = None) -> Cost:
    """Add up what was charged, without rounding."""
    rows = db.execute(
        "SELECT cost, COUNT(*) FROM entry WHERE ?1 IS NULL OR campaign = ?1 GROUP BY cost",
        (campaign,),
    ).fetchall()
    return sum((_read_cost(cost) * count for cost, count in rows), start=Fraction(0))


def _read_cost(text: str) -> Cost:
    try:
        return math.inf if text == "inf" else Fraction(text)
    except (TypeError, ValueError):
        raise FormatError("this ledger is damaged: a cost cannot be read") from None


def _require_affordable(
    db: sqlite3.Connection, campaign: str, cost: Cost, limit: Fraction | None
) -> None:
    """Refuse what would go beyond the person's limit, or the campaign's own."""
    checks = (("lifetime", None, _lifetime(db)), ("campaign", campaign, limit))
    for reason, whose, most in checks:
        if most is None:
            continue
        spent = _spent(db, whose)
        if spent + cost > most:
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


def _lifetime(db: sqlite3.Connection) -> Fraction | None:
    (value,) = db.execute("SELECT value FROM setting WHERE name = 'lifetime'").fetchone()
    return None if value is None else Fraction(_read_cost(value))


def _set_lifetime(db: sqlite3.Connection, limit: Fraction | None) -> None:
    value = None if limit is None else str(limit)
    db.execute("UPDATE setting SET value = ? WHERE name = 'lifetime'", (value,))


def _select(db: sqlite3.Connection, where: str = "", *values: object) -> list[Entry]:
    rows = db.execute(f"SELECT {_FIELDS} FROM entry {where} ORDER BY number", values)  # noqa: S608
    return [_entry(*row) for row in rows.fetchall()]


def _entry(
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
    exact = _read_cost(cost)
    return Entry(campaign, digest, purpose, turn, exact, made_at, report_id, report, outcome)


def _find(db: sqlite3.Connection, digest: str, turn: str) -> Entry | None:
    found = _select(db, "WHERE digest = ? AND round = ?", digest, turn)
    return found[0] if found else None


def _insert(db: sqlite3.Connection, made: Entry) -> None:
    db.execute(
        f"INSERT INTO entry ({_FIELDS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608
        (
            *(made.campaign, made.digest, made.purpose, made.round, str(made.cost)),
            *(made.made_at, made.report_id, made.report, made.outcome),
        ),
    )


def _require_new(db: sqlite3.Connection, report_id: bytes) -> None:
    if _select(db, "WHERE report_id = ?", report_id):
        raise ParameterError(f"the report id {report_id.hex()} is already in use")


def _require_round(db: sqlite3.Connection, campaign: str, digest: str, rounds: int | None) -> None:
    """Refuse more reports than the question asks of one device."""
    (made,) = db.execute("SELECT COUNT(*) FROM entry WHERE digest = ?", (digest,)).fetchone()
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


def _key(db: sqlite3.Connection, digest: str, attribute: str, value: bytes) -> bytes:
    """Return what a value is filed under.

    The secret lies in the same file, so this hides a value from a casual look only (a backup, a
    support log, a search over the disk). The device itself knows the value anyway.
    """
    (secret,) = db.execute("SELECT value FROM setting WHERE name = 'secret'").fetchone()
    parts = [digest.encode(), attribute.encode(), _octets("value", value)]
    message = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
    return hmac.digest(secret, message, hashlib.sha256)


def _recall(db: sqlite3.Connection, digest: str, attribute: str, key: bytes) -> bytes | None:
    row = db.execute(
        "SELECT answer FROM memo WHERE digest = ? AND attribute = ? AND key = ?",
        (digest, attribute, key),
    ).fetchone()
    return None if row is None else bytes(row[0])


def _remember(db: sqlite3.Connection, digest: str, memo: Memo) -> Cost:
    """Keep a permanent answer and return what that costs: nothing if it is known already."""
    cost, key = _cost(memo.cost), _key(db, digest, memo.attribute, memo.value)
    kept = _recall(db, digest, memo.attribute, key)
    if kept is None:
        row = (digest, memo.attribute, key, _octets("answer", memo.answer))
        db.execute("INSERT INTO memo VALUES (?, ?, ?, ?)", row)
        return cost
    if kept != memo.answer:  # another process was first: its answer is the permanent one
        raise MismatchError(
            f"{memo.attribute}: another permanent answer is kept for this value; recall it and "
            f"make the report from that one. Nothing was sent."
        )
    return Fraction(0)


# --- the file ----------------------------------------------------------------------------------


def _create(path: Path) -> None:
    """Make a new ledger whole, readable by its owner only, then give it its name.

    So a file of that name is never half made: an empty one has been cut short, and is refused
    rather than taken for a ledger on which nothing was spent.
    """
    with (
        _explained(path),
        tempfile.TemporaryDirectory(prefix=".ledger-", dir=path.parent) as folder,
    ):
        draft = Path(folder) / "ledger"
        os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        with closing(_connect(draft)) as db:
            db.executescript(f"BEGIN; {_SCHEMA}")
            settings = [("lifetime", None), ("secret", secrets.token_bytes(32))]
            db.executemany("INSERT INTO setting VALUES (?, ?)", settings)
            db.execute("COMMIT")
        try:
            os.link(draft, path)
        except FileExistsError:
            return  # another process was first: its ledger is the one
        _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Make a new name in a folder survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _connect(path: Path) -> sqlite3.Connection:
    """Open an existing file; one that is gone is not silently made anew."""
    uri = f"{path.as_uri()}?mode=rw"
    db = sqlite3.connect(uri, uri=True, timeout=PATIENCE, isolation_level=None)
    for setting in _SETTINGS:
        db.execute(f"PRAGMA {setting}")
    return db


def _require_ours(db: sqlite3.Connection, path: Path) -> None:
    """Refuse another program's file, and one from a newer release."""
    (application,) = db.execute("PRAGMA application_id").fetchone()
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION:
        raise FormatError(f"{path} is not a ledger, or was cut short")
    if version != VERSION:
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
