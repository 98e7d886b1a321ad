"""Every interleaving of two ledgers of one key, for small cases: all states are visited.

A device is in one of a few places: it has decided on a report (both files have committed), it has
sent it, it has noted the answer. Between any two of these it may be killed, also between the two
commits; a ledger may be copied, and restored from the copy, or lost. `explore` takes every step
from every state that can be reached, on real files, and looks at each state once.

What must hold in all of them is in `State.check` and `Walk.decide`.
"""

from __future__ import annotations

import hashlib
import math
import sqlite3
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest import mock

from murmuration.device import Charge, Ledger, Memo, book
from murmuration.device import ledger as ledgers
from murmuration.device.record import marked
from murmuration.errors import BudgetError
from murmuration.exact.keyed import Key

DEVICES = ("first", "second")
Files = dict[str, bytes]
KEY = Key(bytes(32))


@dataclass(frozen=True)
class Report:
    """What a device says to a question: id and bytes follow from key, question and answer."""

    question: str
    answer: str
    spell: str = ""

    @property
    def report_id(self) -> bytes:
        return KEY.name("id", self.question)[:16]

    @property
    def body(self) -> bytes:
        return f"{self.question}: {self.answer}".encode()


@dataclass(frozen=True)
class Case:
    """Questions, and the answers that a device may have to each; what is asked of the account."""

    reports: tuple[Report, ...]
    cost: Fraction
    limit: Fraction
    """For everything."""
    spells: bool = False
    """Whether an answer is the one that the spell began with, kept in the record."""
    copies: bool = True
    """Whether a ledger is copied, restored and lost."""


@dataclass(frozen=True)
class State:
    """Files, what devices hold in their hands, and what the world has seen."""

    files: tuple[tuple[str, bytes], ...]
    held: tuple[tuple[bytes, bytes] | None, ...] = (None, None)
    """Id and bytes that each device is about to send, or has sent and not noted."""
    acked: tuple[bool, ...] = (False, False)
    seen: frozenset[tuple[bytes, bytes]] = frozenset()
    """Id and bytes of everything that has left."""
    forgotten: bool = False
    """Whether a ledger was restored or lost, or a device killed before it had sent."""


@contextmanager
def killed_between_commits(first: str) -> Iterator[None]:
    """The first file has committed, the other one has not, and the device is gone."""

    @contextmanager
    def cut(*books: sqlite3.Connection) -> Iterator[None]:
        account, db = books
        account.execute("BEGIN IMMEDIATE")
        db.execute("BEGIN IMMEDIATE")
        yield
        (db if first == "ledger" else account).execute("COMMIT")
        raise KilledError

    with mock.patch.object(ledgers, "changing", cut):
        yield


class KilledError(BaseException):
    pass


@dataclass
class Walk:
    """Takes steps from states, on files in a folder."""

    case: Case
    folder: Path
    first: str = "ledger"
    """Which of the two files commits first."""
    happened: Counter[str] = field(default_factory=Counter)

    def start(self) -> State:
        for device in DEVICES:
            self.ledger(device)
        ledger = self.ledger(DEVICES[0])
        ledger.set_limit("lifetime", float(self.case.limit))
        return State(self.read())

    def ledger(self, device: str) -> Ledger:
        return Ledger(self.folder / f"{device}.db", secret=self.folder / "person.key")

    def read(self) -> tuple[tuple[str, bytes], ...]:
        return tuple((path.name, path.read_bytes()) for path in sorted(self.folder.iterdir()))

    def write(self, state: State) -> None:
        for path in self.folder.iterdir():
            path.unlink()
        for name, data in state.files:
            (self.folder / name).write_bytes(data)
            (self.folder / name).chmod(0o600)

    # --- steps ---------------------------------------------------------------------------------

    def steps(self, state: State) -> Iterator[tuple[str, State]]:
        """Every state that one step leads to."""
        for place, device in enumerate(DEVICES):
            if state.held[place] is None:
                for report in self.case.reports:
                    yield self.decide(state, place, report)
                    yield self.die_between(state, place, report)
                yield from self.files_change(state, device)
            else:
                yield self.send(state, place)
                yield self.die(state, place)
                if state.acked[place]:
                    yield self.acknowledge(state, place)

    def decide(self, state: State, place: int, report: Report) -> tuple[str, State]:
        self.write(state)
        ledger = self.ledger(DEVICES[place])
        before, known = ledger.totals(), self.reserved()
        try:
            entry = self.reserve(ledger, report)
        except BudgetError as refused:
            assert ledger.totals() == before
            self.require_right(refused, report, known)
            return f"refused: {refused.reason}", state
        new = report.report_id not in known
        spent = sum(ledger.totals().values()) - sum(before.values())
        free = not new or (self.case.spells and known)
        assert spent == (0 if free else self.case.cost), "a cost is not that of the report"
        if entry.outcome:
            return "known", state
        held = list(state.held)
        held[place] = entry.report_id, entry.report or b""
        return "reserved", replace(state, files=self.read(), held=tuple(held))

    def reserve(self, ledger: Ledger, report: Report) -> ledgers.Entry:
        with ledger.session() as session, session.deciding():
            known = session.find("https://a:443", report.question)
            return known or session.reserve(self.charge(session, report))

    def charge(self, session: ledgers.Session, report: Report) -> Charge:
        head = ("https://a:443", "campaign", report.question, "purpose")
        if not self.case.spells:
            return Charge(*head, self.case.cost, report.body, report.report_id)
        name = KEY.name("spell", report.spell)
        begun = session.record.kept(name)
        answer = report.answer.encode() if begun is None else begun
        memos = [Memo(name, self.case.cost, answer)] if begun is None else []
        return Charge(*head, 0, answer, report.report_id, memos=memos)

    def require_right(
        self, refused: BudgetError, report: Report, known: dict[bytes, bytes]
    ) -> None:
        """A report is refused only if another one was reserved, or the limit is spent."""
        assert not self.case.spells, "in a spell nothing is refused"
        if refused.reason == "answered":
            assert known[report.report_id] != report.body
        else:
            assert refused.reason == "lifetime"
            assert (len(known) + 1) * self.case.cost > self.case.limit, "a budget was lost"

    def die_between(self, state: State, place: int, report: Report) -> tuple[str, State]:
        self.write(state)
        ledger = self.ledger(DEVICES[place])
        before = ledger.totals()
        with killed_between_commits(self.first), suppress(BudgetError, KilledError):
            self.reserve(ledger, report)
        assert ledger.totals() == before, "a report that cannot leave is charged"
        return "killed between the commits", replace(state, files=self.read())

    def send(self, state: State, place: int) -> tuple[str, State]:
        held = state.held[place]
        assert held is not None
        acked = list(state.acked)
        acked[place] = True
        return "sent", replace(state, acked=tuple(acked), seen=state.seen | {held})

    def acknowledge(self, state: State, place: int) -> tuple[str, State]:
        self.write(state)
        ledger = self.ledger(DEVICES[place])
        for entry in ledger.pending():
            if (entry.report_id, entry.report) == state.held[place]:
                ledger.acknowledge(entry.report_id, "stored")
        return "acknowledged", replace(self.let_go(state, place), files=self.read())

    def die(self, state: State, place: int) -> tuple[str, State]:
        sent = state.acked[place]
        state = self.let_go(state, place)
        return "killed", state if sent else replace(state, forgotten=True)

    def let_go(self, state: State, place: int) -> State:
        held, acked = list(state.held), list(state.acked)
        held[place], acked[place] = None, False
        return replace(state, held=tuple(held), acked=tuple(acked))

    def files_change(self, state: State, device: str) -> Iterator[tuple[str, State]]:
        """The first device's ledger is copied once, restored from the copy, or lost."""
        files, name, copy = dict(state.files), f"{device}.db", f"{device}.copy"
        if name not in files or device != DEVICES[0] or not self.case.copies:
            return
        if copy not in files:
            yield "copied", replace(state, files=tuple({**files, copy: files[name]}.items()))
        else:
            restored = tuple({**files, name: files[copy]}.items())
            yield "restored", replace(state, files=restored, forgotten=True)
        lost = tuple((key, data) for key, data in files.items() if key != name)
        yield "lost", replace(state, files=lost, forgotten=True)

    # --- what is looked at ---------------------------------------------------------------------

    def rows(self, name: str, question: str) -> list[tuple[Any, ...]]:
        if not (self.folder / name).exists():
            return []
        with closing(sqlite3.connect(self.folder / name)) as db:
            return db.execute(question).fetchall()

    def reserved(self) -> dict[bytes, bytes]:
        """The bytes that are reserved under each id."""
        marks = dict(self.rows("person.key.record", "SELECT report_id, mark FROM reserved"))
        key = self.ledger(DEVICES[0]).key
        bodies = {report.body for report in self.case.reports}
        bodies |= {report.answer.encode() for report in self.case.reports}
        found = {
            (report_id, marked(key, report_id, body)): body
            for report_id in marks
            for body in bodies
        }
        return {report_id: found[report_id, mark] for report_id, mark in marks.items()}

    def check(self, state: State) -> None:
        """What holds in every state."""
        self.write(state)
        by_id: dict[bytes, set[bytes]] = {}
        for report_id, body in state.seen:
            by_id.setdefault(report_id, set()).add(body)
        assert all(len(bodies) == 1 for bodies in by_id.values()), "two reports under one id"
        if self.case.spells:
            assert len({body for _, body in state.seen}) <= 1, "two answers in one spell"
        known = self.reserved()
        assert state.seen <= set(known.items()), "a report has left that was not reserved"
        spent = sum(self.ledger(DEVICES[0]).totals().values())
        assert spent <= self.case.limit, "beyond the limit"
        if not state.forgotten:
            there = set(by_id) | {
                row[0]
                for device in DEVICES
                for row in self.rows(f"{device}.db", "SELECT report_id FROM entry")
            }
            assert set(known) <= there, "a budget was lost"

    def mark(self, state: State) -> bytes:
        """What two states are taken for the same by: contents, without times."""
        self.write(state)
        parts: list[object] = [state.held, state.acked, sorted(state.seen), state.forgotten]
        for name, _ in sorted(state.files):
            if name.endswith((".db", ".copy")):
                question = "SELECT report_id, report, outcome FROM entry ORDER BY report_id"
                parts.append((name, self.rows(name, question)))
        for question in ("SELECT report_id, mark FROM reserved", "SELECT * FROM kept"):
            parts.append(self.rows("person.key.record", question))
        return hashlib.sha256(repr(parts).encode()).digest()


def explore(
    case: Case, folder: Path, first: str = "ledger", most: float = math.inf
) -> Counter[str]:
    """Visit all states, those of few steps first, or so many; return how often steps were taken."""
    walk = Walk(case, folder, first)
    state = walk.start()
    known, waiting = {walk.mark(state)}, deque([state])
    while waiting and len(known) < most:
        state = waiting.popleft()
        for what, then in walk.steps(state):
            walk.happened[what] += 1
            if then is not state and (mark := walk.mark(then)) not in known:
                walk.check(then)
                known.add(mark)
                waiting.append(then)
    return walk.happened + Counter({"states": len(known)})


@contextmanager
def fast_files() -> Iterator[None]:
    """Nobody cuts the power of files that are written a thousand times."""
    with mock.patch.object(book, "SETTINGS", ("journal_mode = MEMORY", "synchronous = OFF")):
        yield


ONE = Case((Report("q", "yes"), Report("q", "no")), Fraction(1), Fraction(1))
TWO = Case((Report("q", "yes"), Report("r", "no")), Fraction(1), Fraction(1))
BOTH = Case((Report("q", "yes"), Report("q", "no"), Report("r", "no")), Fraction(1), Fraction(2))
SPELL = Case(
    (Report("q", "yes", "s"), Report("r", "no", "s")),
    *(Fraction(1), Fraction(1), True),
)

CASES = {"one answer": ONE, "a limit for one": TWO, "a spell": SPELL, "a limit for two": BOTH}
