"""The key's own record: what was reserved under a key, by whichever ledger. It decides.

It is one SQLite file beside the key, for all ledgers of that key, on one disk or restored from
copies. A report may leave the device only after its id, a mark of its bytes and its cost are
reserved here. To reserve the same bytes again is free; other bytes under the same id are refused.
So there are never two reports for one question and period, no limit is passed, and what was not
reserved has cost nothing.

    reserved   id and mark of each report, its collector, campaign and cost
    paid       names of permanent answers that were charged (they tell nothing without the key)
    kept       permanent answers of spells, hidden under the key
    aside      what is set aside at first contact for all reports of a question that comes back
    misfit     how often answers did not fit, by attribute: for the person
    setting    the key's mark, and the person's limits

Nothing in it is in the order of time, and none of it says when.
"""

from __future__ import annotations

import os
import sqlite3
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

from murmuration.device.book import Book, set_setting, setting
from murmuration.device.costs import (
    LIMITS,
    Cost,
    Price,
    Totals,
    added,
    exact_cost,
    exact_limit,
    larger,
    read_cost,
    spent_at,
    spent_on,
)
from murmuration.errors import (
    BudgetError,
    FormatError,
    LedgerError,
    MismatchError,
    ParameterError,
)
from murmuration.exact.keyed import Key

BOOK = Book(
    "key's record",
    0x4D55524B,  # "MURK"
    1,
    """
CREATE TABLE setting (name TEXT PRIMARY KEY, value);
CREATE TABLE reserved (
    report_id BLOB NOT NULL PRIMARY KEY,
    mark BLOB NOT NULL,              -- follows from the key and the report's bytes
    origin TEXT NOT NULL,
    campaign TEXT NOT NULL,
    digest TEXT NOT NULL,
    cost TEXT NOT NULL               -- 1/10, or inf, without permanent answers
) WITHOUT ROWID;
CREATE TABLE paid (
    name BLOB NOT NULL PRIMARY KEY,
    origin TEXT NOT NULL,
    campaign TEXT NOT NULL,
    cost TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE kept (
    name BLOB NOT NULL PRIMARY KEY,
    answer BLOB NOT NULL             -- hidden (words.hidden)
) WITHOUT ROWID;
CREATE TABLE aside (                 -- what all reports of a question may cost
    origin TEXT NOT NULL,
    campaign TEXT NOT NULL,
    digest TEXT NOT NULL,
    cost TEXT NOT NULL,
    PRIMARY KEY (origin, digest)
) WITHOUT ROWID;
CREATE TABLE misfit (
    origin TEXT NOT NULL,
    campaign TEXT NOT NULL,
    attribute TEXT NOT NULL,
    reason TEXT NOT NULL,
    times INTEGER NOT NULL,
    PRIMARY KEY (origin, campaign, attribute, reason)
) WITHOUT ROWID;
""",
)


@dataclass(frozen=True)
class Memo:
    """A permanent answer: charged when it is new to the record, and never again.

    `name` follows from the key and the value, and tells neither (`DeviceWords.paid`); in a spell
    from the key and the spell.
    """

    name: bytes = field(repr=False)
    cost: Cost
    answer: bytes | None = field(default=None, repr=False)
    """What is kept until the end of a spell, hidden; None where it follows from key and value."""


@dataclass(frozen=True)
class Charge:
    """A report that is about to be reserved: for whom, what it costs, and its bytes."""

    origin: str
    """Of the collector."""
    campaign: str
    digest: str
    """Of the campaign's document."""
    purpose: str
    cost: Cost
    """Without permanent answers."""
    report: bytes
    report_id: bytes
    period: str = ""
    memos: Sequence[Memo] = ()
    """The permanent answers that it rests on."""
    limit: Cost | None = None
    """The most that the campaign may ever cost; None: whatever the person allows."""
    max_reports: int | None = None
    """How often a device answers the question, at most."""
    aside: Cost | None = None
    """What all reports of the question may cost, set aside with the first one; None: nothing."""
    misfits: Sequence[tuple[str, str]] = ()
    """Attribute and reason of each answer that did not fit: counted here, and sent nowhere."""

    def __post_init__(self) -> None:
        if not self.origin:
            raise ParameterError("a charge names the collector's origin")
        for name in ("report", "report_id"):
            require_bytes(name, getattr(self, name))
        for memo in self.memos:
            require_bytes("name", memo.name)
        exact_cost(self.cost)
        if self.limit is not None:
            exact_cost(self.limit)


def require_bytes(name: str, data: object) -> None:
    """Refuse what is not bytes, without repeating it: bytes(3) would be three zeros."""
    if not isinstance(data, bytes):
        raise ParameterError(f"{name} must be bytes; got {type(data).__name__}")


def make(path: Path) -> None:
    """Make a record for a key that is about to be made, with the usual limits."""

    def fill(db: sqlite3.Connection) -> None:
        for name, most in LIMITS.items():
            set_setting(db, _limit_name(name), str(exact_cost(most)))

    BOOK.make(path, fill)


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a record. Without it nobody knows what was spent under the key: it is not made anew."""
    if not os.path.lexists(path):
        raise LedgerError(
            f"{path} is gone: it says what was spent under this key. Put it back, or begin with a "
            "new ledger and a new key. Nothing was sent."
        )
    with BOOK.opened(path) as db:
        yield db


class Record:
    """An open record. What changes it is called in a transaction (`book.changing`)."""

    def __init__(self, db: sqlite3.Connection, path: Path) -> None:
        self._db, self._path = db, path

    # --- the key -------------------------------------------------------------------------------

    @property
    def bound(self) -> bool:
        """Whether it knows its key."""
        return setting(self._db, "key") is not None

    def bind(self, key: Key) -> None:
        """Take a key as its own, if it has none yet; refuse another one."""
        if not self.bound:
            set_setting(self._db, "key", key.name("record"))
        self.require(key)

    def require(self, key: Key) -> None:
        """Refuse another key than the one that this record is of."""
        if setting(self._db, "key") != key.name("record"):
            raise MismatchError(f"{self._path} is the record of another key. Nothing was sent.")

    # --- limits --------------------------------------------------------------------------------

    def limits(self) -> dict[str, Cost]:
        """Return the person's limits."""
        return {name: self._limit(name) for name in LIMITS}

    def _limit(self, name: str) -> Cost:
        text = setting(self._db, _limit_name(name))
        if not isinstance(text, str):
            raise FormatError(f"{self._path} is damaged: it has no {name} limit")
        return read_cost(text)

    def set_limit(self, name: str, most: Cost) -> None:
        """Write a limit."""
        set_setting(self._db, _limit_name(name), str(exact_limit(name, most)))

    def lower(self, limits: Mapping[str, Cost]) -> None:
        """Lower limits as asked for; say so where there is a lower one."""
        for name, most in limits.items():
            kept = self._limit(name)
            if most > kept:
                warnings.warn(
                    f"the {name} limit stays {float(kept):g}, not {float(most):g}: only the person "
                    "raises it (Ledger.raise_limit, murmur ledger --raise-limit)",
                    stacklevel=2,
                )
            else:
                self.set_limit(name, most)

    # --- what was spent ------------------------------------------------------------------------

    def totals(self) -> Totals:
        """Return what was reserved, by origin and campaign, permanent answers included."""
        return added([*self._costs("reserved"), *self._costs("paid")])

    def committed(self) -> Totals:
        """Return what was reserved or is set aside, the larger, by origin and campaign."""
        return larger(self.totals(), added(self._costs("aside")))

    def permanent(self) -> Totals:
        """Return what permanent answers have cost, by origin and campaign; never when."""
        return added(self._costs("paid"))

    def _costs(self, table: str) -> list[tuple[str, str, Cost]]:
        rows = self._db.execute(
            f"SELECT origin, campaign, cost, COUNT(*) FROM {table} "  # noqa: S608
            "GROUP BY origin, campaign, cost ORDER BY origin, campaign"
        ).fetchall()
        return [(origin, campaign, read_cost(cost) * many) for origin, campaign, cost, many in rows]

    def misfits(self) -> list[tuple[str, str, str, str, int]]:
        """Return origin, campaign, attribute, reason and how often an answer did not fit."""
        return self._db.execute("SELECT * FROM misfit").fetchall()

    # --- reports -------------------------------------------------------------------------------

    def mark_of(self, report_id: bytes) -> bytes | None:
        """Return the mark of the report that was reserved under an id; None if none was."""
        row = self._db.execute(
            "SELECT mark FROM reserved WHERE report_id = ?", (report_id,)
        ).fetchone()
        return None if row is None else bytes(row[0])

    def reserve(self, charge: Charge, key: Key) -> Cost:
        """Reserve a report and return its cost, which is charged once however often it is reserved.

        Refused, with nothing changed: other bytes under an id that is reserved, more reports than
        the question asks for, a cost beyond one of the person's limits or the campaign's own.
        """
        mark = marked(key, charge.report_id, charge.report)
        known = self.mark_of(charge.report_id)
        if known == mark:
            return exact_cost(charge.cost)
        if known is not None:
            raise BudgetError(
                f"{charge.campaign}: this question was answered before under this key, and "
                "otherwise: a second answer is not sent.",
                "answered",
            )
        self._require_asked(charge)
        fresh = self._unpaid(charge.memos)
        total = exact_cost(charge.cost) + sum(exact_cost(memo.cost) for memo in fresh)
        self._require_affordable(charge, total)
        self._write(charge, mark, fresh)
        return total

    def _require_asked(self, charge: Charge) -> None:
        """Refuse more reports than the question asks of one device."""
        (made,) = self._db.execute(
            "SELECT COUNT(*) FROM reserved WHERE origin = ? AND digest = ?",
            (charge.origin, charge.digest),
        ).fetchone()
        if charge.max_reports is not None and made >= charge.max_reports:
            raise BudgetError(
                f"{charge.campaign}: a device answers {charge.max_reports} times at most, and has. "
                "Nothing was sent.",
                "max_reports",
            )

    def _require_affordable(self, charge: Charge, total: Cost) -> None:
        """Refuse what goes beyond a limit, with all that has to be set aside for later."""
        whose, totals, before = (charge.origin, charge.campaign), self.totals(), self.committed()
        spent, aside = (
            sums.get(whose, Fraction(0)) for sums in (totals, added(self._costs("aside")))
        )
        gone = before.get(whose, Fraction(0))
        after = max(spent + total, aside + self._new_aside(charge))
        more = Price(*whose, after - gone if after != gone else Fraction(0))
        limits = self.limits()
        more.require_within("lifetime", spent_on(before), limits["lifetime"])
        more.require_within("collector", spent_at(before, charge.origin), limits["collector"])
        if charge.limit is not None:
            Price(*whose, total).require_within("campaign", spent, exact_cost(charge.limit))

    def _new_aside(self, charge: Charge) -> Cost:
        """Return what this report has to set aside: nothing, if an earlier one has."""
        row = self._db.execute(
            "SELECT 1 FROM aside WHERE origin = ? AND digest = ?", (charge.origin, charge.digest)
        ).fetchone()
        return Fraction(0) if row or charge.aside is None else exact_cost(charge.aside)

    def _write(self, charge: Charge, mark: bytes, fresh: Iterable[Memo]) -> None:
        whose = charge.origin, charge.campaign
        row = (charge.report_id, mark, *whose, charge.digest, str(exact_cost(charge.cost)))
        self._db.execute("INSERT INTO reserved VALUES (?, ?, ?, ?, ?, ?)", row)
        for memo in fresh:
            paid = (memo.name, *whose, str(exact_cost(memo.cost)))
            self._db.execute("INSERT INTO paid VALUES (?, ?, ?, ?)", paid)
            if memo.answer is not None:
                self._db.execute("INSERT INTO kept VALUES (?, ?)", (memo.name, memo.answer))
        if charge.aside is not None:
            self._db.execute(
                "INSERT OR IGNORE INTO aside VALUES (?, ?, ?, ?)",
                (*whose, charge.digest, str(exact_cost(charge.aside))),
            )
        for attribute, reason in charge.misfits:
            self._db.execute(
                "INSERT INTO misfit VALUES (?, ?, ?, ?, 1) "
                "ON CONFLICT DO UPDATE SET times = times + 1",
                (*whose, attribute, reason),
            )

    # --- permanent answers ---------------------------------------------------------------------

    def _unpaid(self, memos: Sequence[Memo]) -> list[Memo]:
        """Return those of these permanent answers that were not paid for yet, each once."""
        different = {memo.name: memo for memo in memos}.values()
        fresh = [memo for memo in different if not self._is_paid(memo.name)]
        for memo in different:
            if memo.answer is not None and memo not in fresh:
                raise MismatchError("this spell has an answer already: draw with that one")
        return fresh

    def _is_paid(self, name: bytes) -> bool:
        row = self._db.execute("SELECT 1 FROM paid WHERE name = ?", (name,)).fetchone()
        return row is not None

    def kept(self, name: bytes) -> bytes | None:
        """Return the permanent answer of a spell, hidden; None if it has not begun."""
        row = self._db.execute("SELECT answer FROM kept WHERE name = ?", (name,)).fetchone()
        return None if row is None else bytes(row[0])


def marked(key: Key, report_id: bytes, report: bytes) -> bytes:
    """Return what a report's bytes are known by; nothing follows from it without the key."""
    return key.name("reserved", report_id, report)


def _limit_name(name: str) -> str:
    return f"limit {name}"
