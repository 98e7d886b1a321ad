"""The device's ledger: never less spent than sent, whatever dies and whoever races."""

from __future__ import annotations

import math
import os
import pickle
import shutil
import signal
import sqlite3
import stat
import sys
import tempfile
import textwrap
import threading
import time
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from murmuration.device import Charge, Entry, Ledger, Memo, book
from murmuration.device.costs import LIMITS
from murmuration.errors import (
    BudgetError,
    FormatError,
    LedgerError,
    MurmurationError,
    ParameterError,
)
from tests.support import warm
from tests.support.power_loss import acked, cut_points, power_cuts, record, write_files

CANARY = b"the-true-value-of-a-person"
HERE = "https://collector.example:443"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


def charge(ledger: Ledger, number: int, cost: Fraction | float = 0.1, **other) -> Entry:
    """Reserve report `number`, a question and a period of its own unless told otherwise."""
    given = {
        "origin": HERE,
        "campaign": "phones",
        "digest": "d1",
        "purpose": "survey",
        "cost": cost,
        "limit": None,
        "report": b"report %d" % number,
        "report_id": b"id %d" % number,
        "period": str(number),
    }
    return ledger.reserve(Charge(**(given | other)))


def unlimited(path: Path) -> Ledger:
    """A ledger of a person who has taken the limits away."""
    ledger = Ledger(path)
    for name in LIMITS:
        ledger.raise_limit(name, math.inf)
    return ledger


def start(script: str, *arguments: object) -> warm.Process:
    return warm.start(textwrap.dedent(script), *arguments, stdout=warm.PIPE)


def ended(script: str, *arguments: object) -> int:
    return warm.run(textwrap.dedent(script), *arguments, stderr=None).returncode


# --- limits ----------------------------------------------------------------------------------


def test_ten_tenths_are_one_and_the_eleventh_is_refused(path: Path) -> None:
    ledger = Ledger(path, lifetime=1.0)
    for number in range(10):
        charge(ledger, number)
    assert (ledger.spent(), ledger.remaining()) == (1.0, 0.0)
    for cost in (0.1, 1e-300, Fraction(1, 10**40), math.inf):
        with pytest.raises(BudgetError) as refused:
            charge(ledger, 10, cost)
        assert refused.value.reason == "lifetime"
    assert len(ledger.entries()) == 10
    assert charge(ledger, 11, 0.0).epsilon == 0.0


@pytest.mark.parametrize("cost", [0.1, 0.3, 0.7, Fraction(1, 3), np.float64(0.1)])
def test_sums_do_not_drift(path: Path, cost) -> None:
    """30 charges against exactly their sum: all allowed, and nothing beyond."""
    exact = cost if isinstance(cost, Fraction) else Fraction(str(float(cost)))
    ledger = unlimited(path)
    for number in range(30):
        charge(ledger, number, cost, limit=30 * exact)
    with pytest.raises(BudgetError):
        charge(ledger, 30, Fraction(1, 10**30), limit=30 * exact)
    assert sum(entry.cost for entry in ledger.entries()) == 30 * exact


def test_the_lifetime_is_over_all_campaigns(path: Path) -> None:
    ledger = Ledger(path, lifetime=2.0)
    charge(ledger, 1, 1.0, campaign="a", limit=1.0)
    with pytest.raises(BudgetError) as refused:
        charge(ledger, 2, 0.5, campaign="a", limit=1.0)
    assert refused.value.reason == "campaign"
    charge(ledger, 3, 0.75, campaign="b", limit=1.0)
    with pytest.raises(BudgetError) as refused:
        charge(ledger, 4, 0.75, campaign="c", limit=1.0)
    assert refused.value.reason == "lifetime"
    assert (ledger.spent("a"), ledger.spent("b"), ledger.spent("c")) == (1.0, 0.75, 0.0)
    assert ledger.remaining() == 0.25
    assert pickle.loads(pickle.dumps(refused.value)).reason == "lifetime"  # noqa: S301


@pytest.mark.parametrize("name", LIMITS)
def test_only_the_person_raises_a_limit(path: Path, name: str) -> None:
    assert Ledger(path).limits() == LIMITS
    assert Ledger(path, **{name: 3.0}).limits()[name] == 3.0
    with pytest.warns(UserWarning, match="only the person raises"):
        ledger = Ledger(path, **{name: 5.0})  # what a campaign's code might try
    assert ledger.limits()[name] == 3.0
    with pytest.raises(ParameterError, match="raise_limit"):
        ledger.set_limit(name, 3.5)
    ledger.set_limit(name, 2.0)
    assert Ledger(path).limits() == {**LIMITS, name: 2.0}
    ledger.raise_limit(name, 4.0)
    assert Ledger(path).limits()[name] == 4.0
    with pytest.raises(ParameterError, match="set_limit"):
        ledger.raise_limit(name, 1.0)
    ledger.raise_limit(name, math.inf)
    assert ledger.limits()[name] == math.inf
    with pytest.raises(ParameterError, match="one of report, collector, lifetime"):
        ledger.raise_limit("monthly", 1.0)


def test_without_a_lifetime_limit_all_of_it_remains(path: Path) -> None:
    ledger = unlimited(path)
    charge(ledger, 1, 1e6)
    assert (ledger.lifetime, ledger.remaining()) == (math.inf, math.inf)


def test_a_limit_below_what_is_spent_stops_everything(path: Path) -> None:
    ledger = Ledger(path)
    charge(ledger, 1, 1.0)
    ledger.set_limit("lifetime", 0.5)
    assert ledger.remaining() == 0.0
    with pytest.raises(BudgetError):
        charge(ledger, 2, 0.0)


def test_an_infinite_cost_needs_the_absence_of_limits(path: Path) -> None:
    ledger = unlimited(path)
    with pytest.raises(BudgetError) as refused:
        charge(ledger, 1, math.inf, limit=1000.0)
    assert refused.value.reason == "campaign"
    assert charge(ledger, 1, math.inf).cost == math.inf
    charge(ledger, 2, 1.0)
    assert Ledger(path).spent() == math.inf
    ledger.set_limit("lifetime", 10.0)
    assert ledger.remaining() == 0.0
    with pytest.raises(BudgetError):
        charge(ledger, 3, 0.0)


@pytest.mark.parametrize("cost", [-0.1, math.nan, True, "1", None, -math.inf])
def test_costs_and_limits_are_numbers(path: Path, cost) -> None:
    ledger = Ledger(path)
    with pytest.raises(ParameterError):
        charge(ledger, 1, cost)
    if cost is not None:
        with pytest.raises(ParameterError):
            charge(ledger, 1, 0.1, limit=cost)
        with pytest.raises(ParameterError):
            Ledger(path, lifetime=cost)
    assert ledger.entries() == []


# --- reports ---------------------------------------------------------------------------------


def test_a_retry_sends_the_same_bytes(path: Path) -> None:
    ledger = Ledger(path, lifetime=0.1)
    assert ledger.find(HERE, "d1", "7") is None
    made = charge(ledger, 7)
    again = charge(ledger, 8, report=b"fresh noise", period="7")
    assert again == made == Ledger(path).find(HERE, "d1", "7") == ledger.pending()[0]
    assert made.report == b"report 7"
    assert ledger.spent() == 0.1
    assert ledger.find(HERE, "d2", "7") is None
    assert ledger.find(HERE, "d1") is None


def test_an_entry_says_what_was_sent(path: Path) -> None:
    made = charge(Ledger(path), 1, 0.25)
    assert (made.campaign, made.digest, made.purpose, made.period) == (
        "phones",
        "d1",
        "survey",
        "1",
    )
    assert (made.cost, made.epsilon, made.outcome) == (Fraction(1, 4), 0.25, None)
    assert made.made_at.endswith("+00:00")
    assert Ledger(path).entries() == [made]


def test_acknowledged_reports_are_not_sent_again_and_stay_charged(path: Path) -> None:
    ledger = Ledger(path)
    for number in range(3):
        charge(ledger, number)
    assert ledger.acknowledge(b"id 0", "stored").outcome == "stored"
    assert ledger.acknowledge(b"id 0", "duplicate").outcome == "stored"
    assert ledger.acknowledge(b"id 1", "refused:closed").outcome == "refused:closed"
    assert None not in [entry.report for entry in ledger.entries()]  # nothing is forgotten unasked
    assert [entry.report_id for entry in ledger.pending()] == [b"id 2"]
    assert ledger.spent() == 0.3
    for wrong in ("", "refused:", "lost", "refused"):
        with pytest.raises(ParameterError, match="outcome"):
            ledger.acknowledge(b"id 2", wrong)
    with pytest.raises(ParameterError, match="no report"):
        ledger.acknowledge(b"id 9", "stored")


def test_forgotten_bytes_are_gone_and_their_cost_is_not(path: Path) -> None:
    ledger = Ledger(path)
    for number in range(3):
        charge(ledger, number, report=b"some-report-bytes-%d" % number)
    ledger.acknowledge(b"id 0", "stored")
    ledger.acknowledge(b"id 1", "refused:late")
    assert ledger.forget_sent() == 2
    assert ledger.forget_sent() == 0
    assert [entry.report for entry in ledger.entries()] == [None, None, b"some-report-bytes-2"]
    assert ledger.spent() == 0.3
    assert b"some-report-bytes-0" not in path.read_bytes()
    assert ledger.find(HERE, "d1", "0").report is None


def test_report_ids_and_bytes_are_checked(path: Path) -> None:
    ledger = Ledger(path)
    charge(ledger, 1)
    with pytest.raises(BudgetError, match="and otherwise") as refused:
        charge(ledger, 1, period="2", report=b"other bytes")
    assert refused.value.reason == "answered"
    for wrong in ({"report": 3}, {"report_id": "id"}, {"report": "text"}):
        with pytest.raises(ParameterError, match="must be bytes"):
            charge(ledger, 2, **wrong)
    assert len(ledger.entries()) == 1


# --- permanent answers -----------------------------------------------------------------------


def memo(name: bytes, cost: float = 2.0) -> Memo:
    return Memo(name, cost)


def test_a_permanent_answer_is_paid_for_once(path: Path) -> None:
    ledger = Ledger(path, lifetime=4.0)
    assert charge(ledger, 1, 0, memos=[memo(b"one"), memo(b"one")]).epsilon == 2.0
    for number in range(2, 6):
        assert charge(ledger, number, 0, memos=[memo(b"one")]).epsilon == 0.0
    assert charge(ledger, 6, 0, memos=[memo(b"another")]).epsilon == 2.0
    assert (ledger.spent(), ledger.remaining()) == (4.0, 0.0)
    assert ledger.permanent() == {(HERE, "phones"): 4.0}
    with pytest.raises(BudgetError):
        charge(ledger, 7, 0, memos=[memo(b"a third")])
    charge(ledger, 8, 0, memos=[memo(b"one")])
    with pytest.raises(ParameterError, match="must be bytes"):
        charge(ledger, 9, 0, memos=[memo("text")])


def test_permanent_answers_and_the_rest_of_a_report_add_up(path: Path) -> None:
    ledger = Ledger(path)
    both = [memo(b"x"), memo(b"y", cost=1.0)]
    assert charge(ledger, 1, 0.5, memos=both).epsilon == 3.5
    assert charge(ledger, 2, 0.5, memos=both).epsilon == 0.5
    assert ledger.spent("phones", HERE) == 4.0
    with pytest.raises(BudgetError) as refused:
        charge(ledger, 3, 0.5, limit=4.0)
    assert refused.value.reason == "campaign"


def test_a_refused_charge_keeps_no_answer(path: Path) -> None:
    ledger = Ledger(path, lifetime=1.0)
    with pytest.raises(BudgetError):
        charge(ledger, 1, 0, memos=[memo(b"one")])
    assert ledger.permanent() == {}
    assert ledger.find(HERE, "d1", "1") is None


def test_a_ledger_does_not_tell_when_a_value_changed(path: Path) -> None:
    """Two people, whose value changed on the third day and on the seventh: the same ledger."""
    found = []
    for changed in (3, 7):
        folder = path.parent / str(changed)
        folder.mkdir()
        ledger = Ledger(folder / "ledger.db", secret=bytes(32))
        for day in range(10):
            charge(ledger, day, 0, memos=[memo(b"new" if day >= changed else b"old")])
        with sqlite3.connect(folder / "ledger.db") as db:
            db.execute("UPDATE entry SET made_at = ''")  # the days are the same; seconds differ
            found.append(list(db.iterdump()))
        db.close()
    assert found[0] == found[1]


# --- what dies, and who races ----------------------------------------------------------------

KILLED = """
    import os, signal, sqlite3, sys
    from murmuration.device import Charge, Ledger, Memo
    path, point = sys.argv[1:]
    def die():
        os.kill(os.getpid(), signal.SIGKILL)
    class Dying(sqlite3.Connection):
        def execute(self, sql, *values):
            if point == "begun" and sql.startswith("INSERT INTO entry"):
                die()
            if point == "inserted" and sql == "COMMIT":
                die()
            done = super().execute(sql, *values)
            commits.append(sql == "COMMIT")
            if point == ["", "drafted", "committed"][sum(commits)]:
                die()
            return done
    ledger, commits = Ledger(path), []
    connect = sqlite3.connect
    sqlite3.connect = lambda *a, **k: connect(*a, factory=Dying, **k)
    memos = [Memo(b"value", 0.25)]
    ledger.reserve(
        Charge("a", "phones", "d1", "survey", 0.5, b"the bytes", b"id", memos=memos)
    )
    die()  # reserved, not sent
"""


@pytest.mark.parametrize("point", ["begun", "inserted", "drafted", "committed", "returned"])
def test_a_killed_device_has_charged_all_or_nothing(path: Path, point: str) -> None:
    ledger = Ledger(path, lifetime=1.0)
    assert ended(KILLED, path, point) == -signal.SIGKILL
    if point in ("begun", "inserted", "drafted"):
        assert (ledger.spent(), ledger.pending()) == (0.0, [])
        assert ledger.permanent() == {}
    else:
        assert ledger.spent() == 0.75
        assert [entry.report for entry in ledger.pending()] == [b"the bytes"]
        assert ledger.permanent() == {("a", "phones"): 0.25}
        assert ledger.find("a", "d1").report_id == b"id"
    charge(ledger, 1)  # and the ledger goes on


SENDING = """
    import sys
    from murmuration.device import Charge, Ledger
    ledger = Ledger(sys.argv[1])
    for number in range(100_000):
        name = b"%d" % number
        ledger.reserve(Charge("a", "c", "d", "p", 0.1, b"bytes " + name, name, str(number)))
        print(number, flush=True)  # "sent"
"""


def test_what_was_sent_before_a_kill_is_charged(path: Path) -> None:
    ledger, sent = unlimited(path), -1
    for wait in (0.05, 0.11, 0.17):
        with start(SENDING, path) as child:
            first = int(child.stdout.readline())
            time.sleep(wait)
            child.kill()
            sent = max([sent, first, *map(int, child.stdout.read().split())])
        charged = [int(entry.report_id) for entry in ledger.entries()]
        assert charged == list(range(len(charged)))
        assert len(charged) in (sent + 1, sent + 2)
        assert all(entry.report == b"bytes " + entry.report_id for entry in ledger.pending())


POWERED = """
    import os, sys
    from murmuration.device import Charge, Ledger, book
    path, acks, synchronous = sys.argv[1:]
    book.SETTINGS = ("journal_mode = DELETE", f"synchronous = {synchronous}")
    out = os.open(acks, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    ledger = Ledger(path)
    for number in range(25):
        name = b"%d" % number
        ledger.reserve(Charge("a", "c", "d", "p", 0.1, b"bytes " + name, name, str(number)))
        os.write(out, name + b"\\n")  # "sent"
        if number % 5 == 4:
            ledger.acknowledge(name, "stored")
"""


def lost_reports(folder: Path, synchronous: str) -> int:
    """Cut the power at many places: in how many states is a report sent and not charged?"""
    data, acks, lost = folder / "data", folder / "acks", 0
    data.mkdir()
    script = [sys.executable, "-c", textwrap.dedent(POWERED), str(data / "db"), str(acks)]
    operations = record([*script, synchronous], data, folder / "strace.log", acks)
    rng = np.random.default_rng(4)
    for cut, state in power_cuts(operations, cut_points(operations, 150, rng), rng):
        sent = {line.encode() for line in acked(operations, cut)}
        with tempfile.TemporaryDirectory() as fresh:
            write_files(state, Path(fresh))
            if (key := Path(fresh) / "db.key").exists():
                key.chmod(0o600)
            ledger = Ledger(Path(fresh) / "db")  # whatever is there can be read
            if synchronous == "EXTRA":  # noted before it was sent
                assert ledger.spent() >= len(sent) / 10
            entries = ledger.entries()
            assert all(entry.report == b"bytes " + entry.report_id for entry in entries)
            lost += not sent <= {entry.report_id for entry in entries}
    return lost


@pytest.mark.slow
def test_a_power_cut_undoes_nothing_that_was_sent(tmp_path: Path) -> None:
    assert lost_reports(tmp_path, "EXTRA") == 0


@pytest.mark.slow
def test_a_weaker_setting_is_caught(tmp_path: Path) -> None:
    assert lost_reports(tmp_path, "FULL") > 0


RACING = """
    import pathlib, sys, time
    from murmuration.device import Charge, Ledger
    from murmuration.errors import BudgetError
    path, name = sys.argv[1:]
    ledger = Ledger(path)
    pathlib.Path(path + name).touch()
    while not pathlib.Path(path + "go").exists():
        pass
    wins = 0
    for turn in range(20):
        try:
            report_id = f"{name} {turn}".encode()
            ledger.reserve(
                Charge("a", "c", "d", "p", 0.1, b"r", report_id, report_id.decode())
            )
            wins += 1
        except BudgetError:
            pass
    print(wins)
"""


@pytest.mark.parametrize("left", [1, 13])
def test_processes_race_for_the_last_of_the_budget(path: Path, left: int) -> None:
    ledger = Ledger(path, lifetime=Fraction(left, 10))
    with start(RACING, path, "a") as first, start(RACING, path, "b") as second:
        while not all(Path(f"{path}{name}").exists() for name in "ab"):
            assert all(racer.poll() is None for racer in (first, second))
            time.sleep(0.01)
        Path(f"{path}go").touch()
        wins = [int(racer.stdout.read()) for racer in (first, second)]
    assert sum(wins) == left == len(ledger.entries())
    assert ledger.remaining() == 0.0


def test_threads_race_for_one_question_and_for_the_budget(path: Path) -> None:
    ledger, made, refused = Ledger(path, lifetime=1.0), [], []

    def run(number: int) -> None:
        made.append(charge(ledger, number, period="the same"))
        try:
            charge(Ledger(path), 100 + number, 0.3)
        except BudgetError:
            refused.append(number)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 8
    assert len(set(made)) == 1
    assert len(refused) == 5
    assert ledger.spent() == 1.0


@pytest.mark.filterwarnings("ignore:the lifetime limit stays")
def test_racing_to_make_the_ledger(path: Path) -> None:
    gate, found = threading.Barrier(8), []

    def run(number: int) -> None:
        gate.wait()
        ledger = Ledger(path, lifetime=1.0 + number)
        charge(ledger, number)
        found.append(number)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(Ledger(path).entries()) == len(found) == 8
    assert Ledger(path).lifetime == 1.0
    assert sorted(f.name for f in path.parent.iterdir()) == [
        "ledger.db",
        "ledger.db.key",
        "ledger.db.key.record",
    ]


# --- the file --------------------------------------------------------------------------------


def test_only_the_owner_reads_it(path: Path) -> None:
    before = os.umask(0)
    try:
        charge(Ledger(path), 1)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_commits_survive_a_power_cut(path: Path) -> None:
    with Ledger(path).session() as session:
        for db in (session._db, session._account):
            assert db.execute("PRAGMA synchronous").fetchone() == (3,)  # EXTRA
            assert db.execute("PRAGMA journal_mode").fetchone() == ("delete",)


def test_a_newer_schema_is_refused(path: Path) -> None:
    ledger = Ledger(path)
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 4")
    db.close()
    for call in (lambda: Ledger(path), ledger.pending, lambda: charge(ledger, 1)):
        with pytest.raises(FormatError, match="schema 4"):
            call()


@pytest.mark.parametrize("damage", ["empty", "text", "cut", "scrambled", "other", "cost"])
@pytest.mark.parametrize("ending", ["", ".key.record"])
def test_a_damaged_file_is_never_a_fresh_one(path: Path, damage: str, ending: str) -> None:
    first, ledger = path, Ledger(path, lifetime=1.0)
    for number in range(10):
        charge(ledger, number, report=bytes(2000))
    path = Path(f"{first}{ending}")
    whole = path.read_bytes()
    if damage == "other":
        path.unlink()
        with sqlite3.connect(path) as db:
            db.execute("CREATE TABLE entry (cost TEXT)")
        db.close()
    elif damage == "cost":
        with sqlite3.connect(path) as db:
            table = "reserved" if ending else "entry"
            db.execute(f"UPDATE {table} SET cost = 'a lot'")  # noqa: S608
        db.close()
    else:
        path.write_bytes(
            {
                "empty": b"",
                "text": b"dear diary\n" * 100,
                "cut": whole[: len(whole) // 2],
                "scrambled": whole[:100] + bytes(len(whole) - 100),
            }[damage]
        )
    with pytest.raises(MurmurationError):
        charge(Ledger(first), 10, 1e-9)
    with pytest.raises(MurmurationError):
        (ledger.spent if ending else ledger.entries)()


def test_a_record_that_is_gone_is_not_made_anew(path: Path) -> None:
    ledger, record = Ledger(path), Path(f"{path}.key.record")
    charge(ledger, 1)
    record.rename(f"{path}.aside")
    for call in (lambda: Ledger(path), ledger.spent, lambda: charge(ledger, 2)):
        with pytest.raises(LedgerError, match="Nothing was sent"):
            call()
    path.unlink()
    with pytest.raises(LedgerError, match="what was spent under this key"):
        Ledger(path)
    Path(f"{path}.aside").rename(record)
    assert Ledger(path).spent() == 0.1


def test_a_ledger_that_cannot_be_used(path: Path, monkeypatch) -> None:
    with pytest.raises(LedgerError):
        Ledger(path.parent / "no" / "such" / "folder")
    with pytest.raises(MurmurationError):
        Ledger(path.parent)
    ledger = Ledger(path)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    monkeypatch.setattr(book, "PATIENCE", 0.05)
    with pytest.raises(LedgerError, match="locked"):
        charge(ledger, 1)
    holder.close()
    path.unlink()
    with pytest.raises(LedgerError):
        charge(ledger, 1)
    assert not path.exists()


def test_another_programs_file_is_left_as_it_is(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("CREATE TABLE other (x)")
    db.close()
    before = path.read_bytes()
    with pytest.raises(FormatError, match="not a ledger"):
        Ledger(path)
    assert path.read_bytes() == before


def test_odd_names(tmp_path: Path) -> None:
    for name in ("a?mode=memory", "100%", ":memory:", "a#b", "ä b"):
        charge(Ledger(tmp_path / name), 1)
        assert len(Ledger(str(tmp_path / name)).entries()) == 1
    assert "ä b" in repr(Ledger(tmp_path / "ä b"))


# --- against a simple model ------------------------------------------------------------------

COSTS = st.sampled_from([0.0, 0.1, 0.3, 1.0, Fraction(1, 3), math.inf])
OWN_LIMITS = st.sampled_from([None, 0.7, 2.0])
CAMPAIGNS = st.sampled_from(["a", "b"])
ROUNDS = st.sampled_from(["1", "2", "3", "4", "5"])
VALUES = st.sampled_from([None, b"x", b"y"])
ORIGINS = st.sampled_from(["https://a.example:443", "https://b.example:443"])


class LedgerModel(RuleBasedStateMachine):
    """The ledger beside a list: campaign, round, exact cost, bytes, outcome."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.mkdtemp()
        self.ledger = Ledger(f"{self.folder}/ledger.db", collector=2.5)
        self.ledger.raise_limit("lifetime", math.inf)
        self.rows: dict[tuple[str, str, str], list] = {}
        self.lifetime: Fraction | float = math.inf
        self.values: set[tuple[str, str, bytes]] = set()
        self.made = 0

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    def spent(self, origin: str | None = None, campaign: str | None = None) -> Fraction | float:
        return sum(
            (
                row[3]
                for key, row in self.rows.items()
                if origin in (None, key[0]) and campaign in (None, key[1])
            ),
            Fraction(0),
        )

    @rule(
        origin=ORIGINS, campaign=CAMPAIGNS, turn=ROUNDS, cost=COSTS, limit=OWN_LIMITS, value=VALUES
    )
    def charge(self, origin, campaign, turn, cost, limit, value) -> None:
        self.made += 1
        name = b"%d" % self.made
        whose = origin, campaign, value
        new = value is not None and whose not in self.values
        total = exact(cost) + (Fraction(1, 2) if new else 0)
        memos = [] if value is None else [Memo(repr(whose).encode(), 0.5)]

        def call() -> Entry:
            head = (origin, campaign, f"digest {campaign}", "p", cost)
            return self.ledger.reserve(Charge(*head, b"r" + name, name, turn, memos, limit))

        if (origin, campaign, turn) in self.rows:
            assert call().report_id == self.rows[origin, campaign, turn][1]
        elif over(self.spent() + total, self.lifetime):
            assert reason(call) == "lifetime"
        elif over(self.spent(origin) + total, Fraction(5, 2)):
            assert reason(call) == "collector"
        elif over(self.spent(origin, campaign) + total, exact(limit)):
            assert reason(call) == "campaign"
        else:
            assert call().cost == total
            self.rows[origin, campaign, turn] = [exact(cost), name, None, total]
            self.values |= {whose} if new else set()

    @rule(lifetime=st.sampled_from([0.5, 1.0, 1.4, 3.0]))
    def lower(self, lifetime) -> None:
        if exact(lifetime) <= self.lifetime:
            self.ledger.set_limit("lifetime", lifetime)
            self.lifetime = exact(lifetime)
        else:
            with pytest.warns(UserWarning, match="only the person"):
                self.ledger = Ledger(self.ledger.path, lifetime)  # changes nothing

    @rule()
    def lift(self) -> None:
        self.ledger.raise_limit("lifetime", math.inf)
        self.lifetime = math.inf

    @precondition(lambda self: self.rows)
    @rule(data=st.data(), outcome=st.sampled_from(["stored", "refused:late"]))
    def acknowledge(self, data, outcome) -> None:
        row = self.rows[data.draw(st.sampled_from(sorted(self.rows)))]
        row[2] = row[2] or outcome
        assert self.ledger.acknowledge(row[1], outcome).outcome == row[2]

    @rule()
    def forget(self) -> None:
        self.ledger.forget_sent()

    @invariant()
    def same(self) -> None:
        entries = self.ledger.entries()
        rows = [row[:3] for row in self.rows.values()]
        assert [[e.cost, e.report_id, e.outcome] for e in entries] == rows
        assert [e.report_id for e in self.ledger.pending()] == [
            row[1] for row in self.rows.values() if row[2] is None
        ]
        assert self.ledger.spent() == float(self.spent())
        assert all(e.report == b"r" + e.report_id for e in self.ledger.pending())


def exact(number):
    return Fraction(str(number)) if isinstance(number, float) and math.isfinite(number) else number


def over(total, limit) -> bool:
    return limit is not None and limit != math.inf and total > limit


def reason(call) -> str:
    with pytest.raises(BudgetError) as refused:
        call()
    return refused.value.reason


LedgerModel.TestCase.settings = settings(max_examples=30, stateful_step_count=25, deadline=None)
TestLedgerModel = pytest.mark.slow(LedgerModel.TestCase)
