"""Stores of the past are brought up to date with all they hold; those of the future are refused."""

import gzip
import json
import os
import signal
import sqlite3
import threading
import tracemalloc
from collections.abc import Sequence
from contextlib import closing
from functools import partialmethod
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest

from murmuration.analysis import read
from murmuration.campaign.survey import SurveyCampaign
from murmuration.collector.access.tokens import hashed
from murmuration.collector.commit import Batch, commit
from murmuration.collector.merging.merge import merge_tallies, take_key
from murmuration.collector.merging.sketch import name_of, sketched
from murmuration.collector.merging.tallies import CollectorTallies, Part, total
from murmuration.collector.publish import serve
from murmuration.collector.publish import served as published
from murmuration.collector.store import Store, StoreError, base, open_store
from murmuration.collector.store.migrations import MIGRATIONS, NEWEST
from murmuration.collector.store.postgres import PostgresStore
from murmuration.collector.store.sqlite import SqliteStore
from murmuration.counting.periods import pooled
from murmuration.definition import document as campaign_document
from murmuration.device import Ledger
from murmuration.errors import FormatError, MurmurationError, ParameterError
from murmuration.wire import report
from tests.support.accounts import audited, commute, made
from tests.support.places import SUPPORT

PEOPLE = 500
NAME = "00c0ffee00c0ffee"
BEFORE = SUPPORT / "stores" / "schema-2.db"
"""A store that commit 009abad wrote, and what it held."""


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "store.db")
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture
def old(url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A store as schema 1 was, with a campaign, 500 reports and a token, written as SQL."""
    campaign = commute()
    with monkeypatch.context() as patch:
        patch.setattr(Store, "migrate", partialmethod(Store.migrate, upto=1))
        with closing(open_store(url)) as store:
            assert store.schema_version() == 1
            with store.transaction():
                _fill(store, campaign)
    return url


def _fill(store: Store, campaign: SurveyCampaign) -> None:
    document = campaign_document.publish(campaign, 1)
    ids, rows = made(campaign, PEOPLE)
    store.execute("UPDATE collector SET name = ?", (NAME,))
    store.execute(
        "INSERT INTO campaigns VALUES (?, ?, ?, ?, ?)",
        (campaign.name, 1, campaign.digest, document, "2026-01-01T00:00:00+00:00"),
    )
    store.execute("INSERT INTO collections VALUES (?, ?)", (1, campaign.digest))
    for one, row in zip(ids, rows, strict=True):
        store.execute("INSERT INTO reports VALUES (?, ?, ?)", (1, one.tobytes(), row.tobytes()))
    for cell, tally in enumerate(campaign.tally(rows)):
        counts = tally.counts.astype("<i8").tobytes()
        store.execute("INSERT INTO tallies VALUES (?, ?, ?, ?)", (1, cell, tally.n, counts))
    for outcome, n in {"received": 510, "stored": PEOPLE, "bad-id": 10}.items():
        store.execute("INSERT INTO counts VALUES (?, ?, ?)", (campaign.name, outcome, n))
    store.execute(
        "INSERT INTO tokens VALUES (?, ?, ?, ?, ?, ?)",
        (hashed("murmur_old"), "old", "admin", "", 1, 1 << 40),
    )


@pytest.mark.slow
def test_an_old_store_is_brought_up_to_date_with_all_it_holds(old: str) -> None:
    campaign = commute()
    ids, rows = made(campaign, PEOPLE)
    with closing(open_store(old)) as store:
        assert store.schema_version() == NEWEST > 1
        assert store.collector_name() == NAME
        assert store.tokens()[0].hash == hashed("murmur_old")
        served = serve(store, campaign)
        assert (served.version, served.key, served.older) == (1, 1, frozenset())
        found = audited(store, campaign)
        assert found.rows == {i.tobytes(): r.tobytes() for i, r in zip(ids, rows, strict=True)}
        assert found.counts == {"received": 510, "stored": PEOPLE, "bad-id": 10}
        library = campaign.tally(rows)
        assert read.figures(campaign, total(store, campaign)) == read.figures(campaign, library)


@pytest.mark.slow
def test_an_old_store_goes_on(old: str) -> None:
    """Its ids are still known, and what is new since then works."""
    campaign = commute()
    ids, rows = made(campaign, PEOPLE)
    others, their_rows = made(campaign, 100, seed=1)
    name, key = "0123456789abcdef", bytes(32)
    part = Part(campaign.counted(their_rows), sketched([made(campaign, 100, seed=2)[0]], key))
    theirs = CollectorTallies(campaign, {name: part}, name, name_of(key))
    with closing(open_store(old)) as store:
        served = serve(store, campaign)
        for these, reports in ((ids, rows), (others, their_rows)):
            body = report.to_binary(campaign, these, reports)
            batch = Batch(served, report.decode(campaign, body, report.BINARY))
            commit(store, [batch])
        take_key(store, key)
        assert merge_tallies(store, served, theirs).news == 1
        assert audited(store, campaign).counts["duplicate"] == PEOPLE
        assert campaign.people(total(store, campaign)) == PEOPLE + 200
    with closing(open_store(old)) as store:  # once more: there is nothing left to do
        assert campaign.people(total(store, campaign)) == PEOPLE + 200


def test_a_migration_that_fails_changes_nothing(old: str, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = (*MIGRATIONS, ("CREATE TABLE extra (a INTEGER)", "NO SUCH STATEMENT"))
    monkeypatch.setattr(base, "MIGRATIONS", steps)
    with monkeypatch.context() as patch:
        patch.setattr(Store, "migrate", partialmethod(Store.migrate, upto=len(steps)))
        with pytest.raises(StoreError):
            open_store(old)
    with closing(open_store(old)) as store:
        assert store.schema_version() == NEWEST
        assert len(audited(store, commute()).ids) == PEOPLE
        with pytest.raises(StoreError):
            store.execute("SELECT * FROM extra")


def test_a_newer_schema_is_refused_and_left_alone(old: str) -> None:
    with closing(open_store(old)) as store, store.transaction():
        store.set_schema_version(NEWEST + 1)
    before = _files(old)
    for _ in range(2):
        with pytest.raises(
            FormatError, match=f"schema {NEWEST + 1}, .* up to {NEWEST}: use a newer"
        ):
            open_store(old)
    assert _files(old) == before
    assert _version(old) == NEWEST + 1


def _files(url: str) -> dict[str, bytes]:
    """All files of a SQLite store."""
    if url.startswith("postgres"):
        return {}
    return {path.name: path.read_bytes() for path in Path(url).parent.iterdir()}


def _version(url: str) -> int:
    if url.startswith("postgres"):
        with psycopg.connect(url) as connection:
            return int(connection.execute("SELECT version FROM murmur_schema").fetchall()[0][0])
    with closing(sqlite3.connect(url)) as connection:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])


def test_a_newer_store_in_another_mode_is_left_in_it(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with closing(open_store(path)) as store:
        store.set_schema_version(99)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA journal_mode = DELETE").fetchone() == ("delete",)
    before = _files(str(path))
    with pytest.raises(FormatError, match="schema 99"):
        open_store(path)
    assert _files(str(path)) == before


def test_what_is_no_store_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello " * 1000)
    with closing(sqlite3.connect(tmp_path / "other")) as connection:
        connection.execute("CREATE TABLE reports (id INTEGER)")
    with closing(sqlite3.connect(tmp_path / "numbered")) as connection:
        connection.execute("CREATE TABLE notes (id INTEGER)")
        connection.execute("PRAGMA user_version = 1")
    Ledger(tmp_path / "ledger", lifetime=5.0)
    before = _files(str(tmp_path / "any"))
    for name in before:
        with pytest.raises(FormatError, match=f"{name} is (a database, but )?not a store of ours"):
            open_store(tmp_path / name)
    assert _files(str(tmp_path / "any")) == before


def test_a_place_where_no_store_can_be_says_so(tmp_path: Path) -> None:
    with pytest.raises(MurmurationError, match="cannot be opened"):
        open_store(tmp_path)
    with pytest.raises(ParameterError, match="there is no store at"):
        open_store(tmp_path / "nowhere.db", create=False)
    with pytest.raises(ParameterError, match="got mysql://"):
        open_store("mysql://root:secret@host/db")


def test_a_damaged_store_is_found_out(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    open_store(path).close()
    data = bytearray(path.read_bytes())
    data[100:4096] = b"\xff" * 3996
    path.write_bytes(data)
    with pytest.raises(FormatError, match="damaged"):
        open_store(path)


def test_a_store_that_was_cut_to_nothing_is_no_new_store(tmp_path: Path) -> None:
    """All its reports would count again, and nobody would notice."""
    path = tmp_path / "store.db"
    open_store(path).close()
    for size in (0, 1, 99):
        path.write_bytes(path.read_bytes()[:size])
        for readonly in (False, True):
            with pytest.raises(FormatError, match="not a store of ours"):
                open_store(path, readonly=readonly)
        assert path.stat().st_size == size
        path.unlink()
        open_store(path).close()
    assert [file.name for file in tmp_path.iterdir()] == ["store.db"]


# --- stores of the version before ----------------------------------------------------------------


def test_a_store_that_the_version_before_wrote(tmp_path: Path) -> None:
    """Written by the program itself: kept and scrubbed reports, a merged tally, a token."""
    path, expected = tmp_path / "store.db", json.loads(BEFORE.with_suffix(".json").read_text())
    path.write_bytes(gzip.decompress(BEFORE.with_suffix(".db.gz").read_bytes()))
    with pytest.raises(FormatError, match="the store has schema 2, and this program reads"):
        open_store(path, readonly=True)
    for _ in range(2):
        with closing(open_store(path)) as store:
            assert expected["schema"] == 2 < store.schema_version()
            served = published(store, "commute")
            campaign, reports = served.campaign, dict[str, str]()
            for ids, rows, kept in store.kept_reports(served.key, campaign.row_bytes):
                hexes = dict(zip(kept.tolist(), (bytes(row).hex() for row in rows), strict=True))
                reports |= {bytes(one).hex(): hexes.get(at, "") for at, one in enumerate(ids)}
            assert reports == expected["reports"]
            assert store.report_count(served.key) == len(reports)
            assert store.counts("commute") == expected["counts"]
            own = store.tallies(campaign.digest, campaign.frame.cells)
            tallies = pooled(campaign, own)
            assert [tally.to_bytes().hex() for tally in tallies] == expected["tallies"]
            assert campaign.people(total(store, campaign)) == expected["people"]
            assert store.collector_name() == expected["collector"]
            assert [token.hash for token in store.tokens()] == [hashed("murmur_old")]
            known = np.frombuffer(bytes.fromhex("".join(reports)), dtype=np.uint8).reshape(-1, 16)
            nothing = np.zeros((len(known), 0), dtype=np.uint8)
            assert not store.add_reports(served.key, known, nothing).any()


def before(
    url: str, campaign: SurveyCampaign, people: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Make a store of schema 2: half of its reports scrubbed."""
    ids, rows = made(campaign, people)
    with monkeypatch.context() as patch:
        patch.setattr(Store, "migrate", partialmethod(Store.migrate, upto=2))
        with closing(open_store(url)) as store, store.transaction():
            _fill(store, campaign)
            store.execute("DELETE FROM reports")
            store.execute_many(
                "INSERT INTO reports VALUES (?, ?, ?)",
                [
                    (1, one.tobytes(), row.tobytes() * (place % 2))
                    for place, (one, row) in enumerate(zip(ids, rows, strict=True))
                ],
            )


@pytest.mark.slow
def test_a_migration_that_is_killed_at_any_point_can_be_done_again(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign, people = commute(), 3000
    for name, value in {"runs.BLOCK": 16, "runs.TIERS": (64, 256, 512)}.items():
        monkeypatch.setattr(f"murmuration.collector.store.{name}", value)
    monkeypatch.setattr("murmuration.collector.store.migrations.ROWS_AT_ONCE", 100)
    before(url, campaign, people, monkeypatch)
    kills = 0
    while _killed_after(url, statements=1 + 4 * kills):
        if (version := _version(url)) != 2:
            assert version == NEWEST  # it was killed after its last step
            break
        kills += 1
        assert _old_reports(url) == people
    assert kills > 15
    ids, rows = made(campaign, people)
    with closing(open_store(url)) as store:
        assert store.schema_version() == NEWEST
        found = [(ids, rows, kept) for ids, rows, kept in store.kept_reports(1, campaign.row_bytes)]
        assert {bytes(one) for some, _, _ in found for one in some} == {bytes(one) for one in ids}
        whole = {bytes(some[at]) for some, _, kept in found for at in kept.tolist()}
        assert whole == {bytes(one) for one in ids[1::2]}
        assert not store.add_reports(1, ids, rows).any()


def _killed_after(url: str, statements: int) -> bool:
    """Open a store in a process that is killed with -9 after so many statements, if there are."""
    child = os.fork()
    if child == 0:
        left, kind = statements, PostgresStore if url.startswith("postgres") else SqliteStore
        execute = kind.execute

        def counted(self: Store, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
            nonlocal left
            left -= 1
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)
            return execute(self, sql, values)  # type: ignore[arg-type]

        kind.execute = counted  # type: ignore[method-assign,assignment]
        try:
            open_store(url)
        finally:
            os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, -signal.SIGKILL)
    return code != 0


def _old_reports(url: str) -> int:
    sql = "SELECT COUNT(*) FROM reports"
    if url.startswith("postgres"):
        with psycopg.connect(url) as connection:
            return int(connection.execute(sql).fetchall()[0][0])
    with closing(sqlite3.connect(url)) as connection:
        return int(connection.execute(sql).fetchone()[0])


@pytest.mark.slow
def test_a_large_store_is_brought_up_to_date_in_little_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """450,000 reports of 100 bytes are 52 MB; what Python holds meanwhile is a part of that."""
    path, n = str(tmp_path / "store.db"), 450_000
    with monkeypatch.context() as patch:
        patch.setattr(Store, "migrate", partialmethod(Store.migrate, upto=2))
        open_store(path).close()
    with closing(sqlite3.connect(path)) as db:
        db.execute("INSERT INTO collections VALUES (1, 'x')")
        rows = ((1, one.to_bytes(16, "big"), bytes(100)) for one in range(n))
        db.executemany("INSERT INTO reports VALUES (?, ?, ?)", rows)
        db.commit()
    tracemalloc.start()
    try:
        with closing(open_store(path)) as store:
            _, peak = tracemalloc.get_traced_memory()
            assert store.report_count(1) == n
    finally:
        tracemalloc.stop()
    assert peak < 48 << 20


@pytest.mark.slow
def test_many_open_a_new_store_at_once(url: str) -> None:
    names: list[str] = []

    def opened() -> None:
        with closing(open_store(url)) as store:
            names.append(store.collector_name())

    threads = [threading.Thread(target=opened) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(names) == 8
    assert len(set(names)) == 1
