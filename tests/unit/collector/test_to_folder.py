"""Reports that go straight to a folder: acknowledged when log and store have them, counted once."""

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from murmuration.collector.commit import Batch, commit
from murmuration.collector.files import folder, log
from murmuration.collector.files import sink as to_folder
from murmuration.collector.files.sink import ToFolder
from murmuration.collector.publish import serve
from murmuration.collector.served import Served
from murmuration.collector.store import Store, StoreError, StoreFullError, open_store
from murmuration.collector.store.sqlite import SqliteStore
from murmuration.definition.load import parse
from murmuration.errors import ParameterError
from murmuration.wire.report import Incoming, Upload
from tests.support import collectors
from tests.support.accounts import (
    COMMUTE,
    Accounts,
    audited,
    audited_at,
    campaign_of,
    commute,
    made,
)
from tests.support.collectors import BINARY, encoded, one

NOW = datetime(2026, 11, 18, 12, 30, tzinfo=UTC)
GROUP = 40


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "store.db")
    return str(request.getfixturevalue("postgres_url"))


class Sender:
    """Commits groups of reports, as the collector's thread does."""

    def __init__(self, url: str, into: Path) -> None:
        self.store = open_store(url)
        self.served = serve(self.store, commute())
        self.into = into
        self.reports = ToFolder(into, self.store, [self.served])

    def send(self, number: int) -> None:
        """Commit the group of that number: always the same reports."""
        commit(self.store, [batch(self.served, number)], self.reports)

    def seal(self) -> None:
        self.reports.rotate(self.store, always=True)
        for each in [*self.reports.sealing]:
            self.reports.seal(each)
            self.reports.forget(self.store, each)

    def audited(self) -> Accounts:
        return audited(self.store, commute(), reports=self.into)

    def drop(self) -> None:
        """End as if killed: nothing is written any more, and the locks are gone."""
        for each in [*self.reports.sealing, *filter(None, [self.reports._log])]:
            each.close()
        self.store.close()

    def logs(self, ending: str = ".log") -> list[Path]:
        return sorted((self.into / "_logs").glob(f"*{ending}"))


def batch(served: Served, number: int) -> Batch:
    ids, rows = made(served.campaign, GROUP, 1000 + number)
    return Batch(served, Incoming([], Upload(ids, rows, np.zeros(GROUP, np.uint8))))


def ids_of(number: int) -> set[bytes]:
    return {bytes(each) for each in made(commute(), GROUP, 1000 + number)[0]}


def again(sender: Sender, url: str) -> Sender:
    sender.drop()
    return Sender(url, sender.into)


# --- without crashes -----------------------------------------------------------------------------


def test_reports_are_in_the_log_then_in_parts(url: str, tmp_path: Path) -> None:
    sender = Sender(url, tmp_path / "reports")
    for number in (1, 2, 2):
        sender.send(number)
    assert sender.audited().counts == {"received": 120, "stored": 80, "duplicate": 40}
    assert len(sender.logs()) == 1
    (path,) = sender.logs()
    assert path.stat().st_mode & 0o777 == 0o600
    sender.seal()
    assert not sender.logs()
    assert not sender.logs("")
    assert sender.store.execute("SELECT * FROM logs") == []
    sender.send(3)
    assert sender.audited().ids == ids_of(1) | ids_of(2) | ids_of(3)
    assert sender.store.report_count(sender.served.key, kept=True) == 0
    sender.reports.end(sender.store)
    assert len(sender.audited().ids) == 120
    assert not sender.logs("")
    sender.store.close()


def test_what_is_left_behind_is_sealed_by_the_next(url: str, tmp_path: Path) -> None:
    sender = Sender(url, tmp_path / "reports")
    sender.send(1)
    sender = again(sender, url)
    assert len(sender.reports.sealing) == 1
    sender.send(2)
    sender.seal()
    assert sender.audited().ids == ids_of(1) | ids_of(2)
    assert not sender.logs("")
    sender.drop()


def test_a_log_of_somebody_who_lives_is_left_alone(url: str, tmp_path: Path) -> None:
    first, second = (Sender(url, tmp_path / "reports") for _ in range(2))
    first.send(1)
    second.send(2)
    third = Sender(url, tmp_path / "reports")
    assert third.reports.sealing == []
    assert len(third.logs()) == 2
    first.seal()
    second.seal()
    assert third.audited().ids == ids_of(1) | ids_of(2)
    for each in (first, second, third):
        each.drop()


def test_a_log_of_another_store_is_left_alone(tmp_path: Path) -> None:
    first = Sender(str(tmp_path / "one.db"), tmp_path / "reports")
    first.send(1)
    first.drop()
    second = Sender(str(tmp_path / "two.db"), tmp_path / "reports")
    assert second.reports.sealing == []
    assert len(second.logs()) == 1
    second.drop()


def test_logs_end_with_their_hour_and_a_part_has_its_day(tmp_path: Path) -> None:
    sender = Sender(str(tmp_path / "a.db"), tmp_path / "reports")
    late = datetime(2026, 11, 18, 23, 59, tzinfo=UTC)
    for number, minutes in enumerate((0, 0, 2, 3)):
        with sender.store.transaction():
            sender.reports.begin(sender.store, late + timedelta(minutes=minutes))
            ids, rows = made(commute(), 10, number)
            sender.reports.add(commute().digest, ids, rows)
            end = sender.reports.write(sender.store)
        sender.reports.committed(end)
    assert len(sender.reports.sealing) == 1
    sender.reports.rotate(sender.store, now=late + timedelta(minutes=5))
    assert len(sender.reports.sealing) == 1  # its hour is not over
    sender.reports.rotate(sender.store, now=late + timedelta(minutes=70))
    assert len(sender.reports.sealing) == 2
    sender.seal()
    place = folder.place_of(sender.into, commute())
    days = [path.parent.name for path in sorted(place.glob("day=*/*.parquet"))]
    assert days == ["day=2026-11-18", "day=2026-11-19"]
    sender.drop()


def test_an_empty_log_goes_when_its_hour_is_over(tmp_path: Path) -> None:
    sender = Sender(str(tmp_path / "a.db"), tmp_path / "reports")
    with sender.store.transaction():
        sender.reports.begin(sender.store, NOW)
    sender.reports.rotate(sender.store, now=NOW + timedelta(hours=1))
    assert not sender.logs("")
    assert not sender.reports.sealing
    sender.drop()


def test_a_large_log_is_sealed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(to_folder, "MOST_BYTES", 3 * GROUP * 20)
    sender = Sender(str(tmp_path / "a.db"), tmp_path / "reports")
    for number in range(9):
        sender.send(number)
    assert len(sender.reports.sealing) == 2
    assert len(sender.audited().ids) == 9 * GROUP
    sender.drop()


def test_a_promise_not_to_keep_reports_is_kept(tmp_path: Path) -> None:
    terms = {"pets": parse(one("pets", "keep_reports = false")).terms}
    with pytest.raises(ParameterError, match="leave one of the two out"):
        to_folder.check(tmp_path / "reports", terms)
    assert not (tmp_path / "reports").exists()
    (tmp_path / "file").touch()
    with pytest.raises(ParameterError, match="is not one"):
        to_folder.check(tmp_path / "file", {})


def test_campaigns_of_one_group_share_a_log(tmp_path: Path) -> None:
    with closing(open_store(tmp_path / "a.db")) as store:
        both = [serve(store, campaign_of(one(name))) for name in ("cats", "dogs")]
        reports = ToFolder(tmp_path / "reports", store, both)
        commit(store, [batch(each, 1) for each in both], reports)
        reports.end(store)
        for each in both:
            found = audited(store, each.campaign, reports=tmp_path / "reports")
            assert len(found.ids) == GROUP


# --- transactions that fail ----------------------------------------------------------------------


def broken_at(sender: Sender, sql: str, after: bool) -> Callable[[], None]:
    """Let the store fail at a statement, before or after it was run."""
    plain = sender.store.execute

    def execute(asked: str, values: Any = ()) -> Any:
        if asked.startswith(sql):
            if after:
                plain(asked, values)
            raise StoreError("no answer")
        return plain(asked, values)

    sender.store.execute = execute  # type: ignore[method-assign]
    return lambda: setattr(sender.store, "execute", plain)


@pytest.mark.parametrize(
    ("sql", "after"),
    [
        *(("INSERT INTO counts", False), ("INSERT INTO logs", False)),
        *(("COMMIT", False), ("COMMIT", True)),
    ],
)
@pytest.mark.parametrize("first", [False, True])
def test_a_commit_whose_answer_is_lost(
    url: str, tmp_path: Path, sql: str, after: bool, first: bool
) -> None:
    """The store knows whether it counts; the log follows, whoever asks next."""
    for what in ("send", "seal", "restart"):
        sender = Sender(url, tmp_path / "reports")
        start = {"send": 0, "seal": 10, "restart": 20}[what]
        if not first:
            sender.send(start)
        mend = broken_at(sender, sql, after)
        with pytest.raises(StoreError, match="no answer"):
            sender.send(start + 1)
        mend()
        if what == "send":
            sender.send(start + 2)
        elif what == "seal":
            sender.seal()
        sender = again(sender, url)
        assert (ids_of(start + 1) <= sender.audited().ids) == (after and sql == "COMMIT")
        sender.send(start + 1)  # as its device does
        sender.seal()
        assert ids_of(start + 1) <= sender.audited().ids
        sender.drop()


def test_a_full_disk_is_said_and_goes_on_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sender = Sender(str(tmp_path / "a.db"), tmp_path / "reports")
    sender.send(1)
    plain = os.write

    def half(handle: int, data: Any) -> int:
        if len(data) > 10:
            return plain(handle, data[: len(data) // 2])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", half)
    with pytest.raises(StoreFullError):
        sender.send(2)
    monkeypatch.setattr(os, "write", plain)
    assert sender.audited().ids == ids_of(1)
    sender.send(3)
    assert sender.audited().ids == ids_of(1) | ids_of(3)
    sender.drop()


# --- what is found at the start ------------------------------------------------------------------


def test_a_tail_that_a_crash_has_cut_is_dropped(tmp_path: Path) -> None:
    url = str(tmp_path / "a.db")
    sender = Sender(url, tmp_path / "reports")
    sender.send(1)
    (path,) = sender.logs()
    whole = path.read_bytes()
    sender.drop()
    for tail in (b"\0", b"\0" * 500, whole[log.EMPTY :], whole[log.EMPTY : -1], os.urandom(99)):
        path.write_bytes(whole + tail)
        found = Sender(url, sender.into)
        assert path.read_bytes() == whole
        assert found.audited().ids == ids_of(1)
        found.drop()


def test_a_log_is_never_cut_to_a_store_that_has_gone_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Several groups beyond what the store counts were acknowledged: they are kept aside."""
    url = str(tmp_path / "a.db")
    sender = Sender(url, tmp_path / "reports")
    sender.send(1)
    with closing(sqlite3.connect(url)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    shutil.copy(url, tmp_path / "copy.db")
    for number in (2, 3):
        sender.send(number)
    sender.drop()
    (path,) = sender.logs()
    whole = path.read_bytes()
    for left in tmp_path.glob("a.db*"):
        left.unlink()
    shutil.copy(tmp_path / "copy.db", url)
    found = Sender(url, sender.into)
    assert "older copy" in caplog.text
    assert found.reports.sealing == []
    (kept,) = found.logs(".aside")
    assert kept.read_bytes() == whole
    found.send(4)
    found.drop()


@pytest.mark.parametrize("harm", ["flip", "short"])
def test_a_damaged_log_is_kept_and_said(
    tmp_path: Path, harm: str, caplog: pytest.LogCaptureFixture
) -> None:
    url = str(tmp_path / "a.db")
    sender = Sender(url, tmp_path / "reports")
    sender.send(1)
    sender.drop()
    (path,) = sender.logs()
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data[:-5] if harm == "short" else data)
    found = Sender(url, sender.into)
    assert "is kept" in caplog.text
    assert len(found.logs(".aside")) == 1
    assert not list(sender.into.glob("commute/**/*.parquet"))
    found.drop()


def test_what_is_no_log_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "reports" / "_logs").mkdir(parents=True)
    for name, data in (("a.log", b""), ("b.log", b"nothing" * 100), ("c.sealed", b"x")):
        (tmp_path / "reports" / "_logs" / name).write_bytes(data)
    (tmp_path / "reports" / "_logs" / "d.log").symlink_to(tmp_path / "nowhere")
    sender = Sender(str(tmp_path / "a.db"), tmp_path / "reports")
    assert sender.reports.sealing == []
    assert len(sender.logs("")) == 4
    sender.drop()


# --- crashes -------------------------------------------------------------------------------------

STEPS = ("write", "fsync", "fdatasync", "replace", "ftruncate", "open", "unlink", "mkdir")
GROUPS = 4


def died(step: int, url: str, into: Path) -> tuple[bool, int]:
    """Send groups in a process that ends before its n-th step on the disk.

    Return whether it did, and how many groups it has acknowledged.
    """
    hear, say = os.pipe()
    if child := os.fork():
        os.close(say)
        with open(hear, "rb") as heard:
            acknowledged = len(heard.read())
        return bool(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])), acknowledged
    left, plain_write = [step], os.write

    def counted(plain: Any) -> Any:
        def ending(*given: Any, **named: Any) -> Any:
            left[0] -= 1
            if not left[0]:
                os._exit(9)
            return plain(*given, **named)

        return ending

    for name in STEPS:
        setattr(os, name, counted(getattr(os, name)))
    execute = SqliteStore.execute
    committing = counted(execute)

    def steps(self: Store, sql: str, values: Any = ()) -> Any:
        return (committing if sql == "COMMIT" else execute)(self, sql, values)

    SqliteStore.execute = steps  # type: ignore[method-assign]
    try:
        sender = Sender(url, into)
        sender.seal()
        for number in range(step * GROUPS, (step + 1) * GROUPS):
            sender.send(number)
            plain_write(say, b".")
            if number % 4 == 1:
                sender.seal()
        sender.reports.end(sender.store)
    finally:
        os._exit(0)


@pytest.mark.slow
def test_a_kill_at_any_step_loses_and_doubles_nothing(tmp_path: Path) -> None:
    url, into, step = str(tmp_path / "a.db"), tmp_path / "reports", 1
    acknowledged: set[bytes] = set()
    serve(open_store(url), commute())
    going = True
    while going and step < 400:
        going, groups = died(step, url, into)
        first = step * GROUPS
        acknowledged |= set().union(*(ids_of(first + n) for n in range(groups)))
        possible = acknowledged | ids_of(first + groups)
        found = audited_at(url, commute(), reports=into).ids
        assert acknowledged <= found <= possible
        acknowledged = set(found)  # what was on its way, too, is counted for good
        step += 1
    assert 30 < step < 400
    assert not list(into.glob("_logs/*"))


# --- over HTTP -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_collector_writes_to_a_folder(tmp_path: Path) -> None:
    store, into = str(tmp_path / "a.db"), tmp_path / "reports"
    with collectors.running(store, COMMUTE, reports=into) as collector:
        for seed in (1, 1, 2):
            ids, rows = made(commute(), 300, seed)
            body = encoded(commute(), ids, rows, BINARY)
            assert collector.send("commute", body, BINARY).status == 200
        collector.kill()
        collector.start()
        ids, rows = made(commute(), 300, 3)
        assert (
            collector.send("commute", encoded(commute(), ids, rows, BINARY), BINARY).status == 200
        )
        assert collector.status("commute")["people"] == 900
    assert len(audited_at(store, commute(), reports=into).ids) == 900
    assert not list(into.glob("_logs/*"))


@pytest.mark.slow
def test_workers_have_a_log_each(postgres_url: str, tmp_path: Path) -> None:
    into = tmp_path / "reports"
    with collectors.running(postgres_url, COMMUTE, reports=into, workers=2) as collector:
        for seed in range(1, 21):
            ids, rows = made(commute(), 50, seed)
            body = encoded(commute(), ids, rows, BINARY)
            assert collector.send("commute", body, BINARY).status == 200
    assert len(audited_at(postgres_url, commute(), reports=into).ids) == 1000
