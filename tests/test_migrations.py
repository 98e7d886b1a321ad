"""Stores of the past are brought up to date with all they hold; those of the future are refused."""

import sqlite3
import threading
from contextlib import closing
from functools import partialmethod
from pathlib import Path

import pytest

from accounts import audited, commute, made
from murmuration.analysis import read
from murmuration.campaign import document as campaign_document
from murmuration.campaign.model import Campaign
from murmuration.collector.commit import Batch, commit
from murmuration.collector.merge import merge_tallies, take_key
from murmuration.collector.publish import serve
from murmuration.collector.sketch import name_of, sketched
from murmuration.collector.store import Store, StoreError, base, open_store
from murmuration.collector.store.migrations import MIGRATIONS, NEWEST
from murmuration.collector.tallies import CollectorTallies, Part, total
from murmuration.collector.tokens import hashed
from murmuration.device import Ledger
from murmuration.errors import FormatError, MurmurationError, ParameterError
from murmuration.wire import report

PEOPLE = 500
NAME = "00c0ffee00c0ffee"


@pytest.fixture(params=["sqlite", "postgresql"])
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


def _fill(store: Store, campaign: Campaign) -> None:
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
    part = Part(campaign.tally(their_rows), sketched([made(campaign, 100, seed=2)[0]], key))
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
        import psycopg

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
