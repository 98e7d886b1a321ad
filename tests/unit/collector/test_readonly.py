"""Readers: they wait for nobody, change nothing, and see what was committed."""

import json
import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest

from murmuration.analysis.estimates import estimates
from murmuration.cli import main
from murmuration.collector.access.tokens import new_token
from murmuration.collector.commit import Batch, commit
from murmuration.collector.files import export
from murmuration.collector.merging.known import total
from murmuration.collector.publish import serve
from murmuration.collector.served import Served
from murmuration.collector.store import Store, StoreError, open_store, postgres
from murmuration.errors import FormatError, ParameterError
from murmuration.wire.report import BINARY, decode, to_binary
from tests.support.accounts import commute, made

CAMPAIGN = commute()
PEOPLE = 500
IDS, ROWS = made(CAMPAIGN, 2 * PEOPLE)
NOBODY = 65534
HOLD = """
import sqlite3, sys
held = sqlite3.connect(sys.argv[1], isolation_level=None)
held.execute("BEGIN IMMEDIATE")
held.execute("UPDATE counts SET n = n + 1000000")
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A store with 500 people; waiting for a lock is an error in no time."""
    if request.param == "sqlite":
        where = str(tmp_path / "store.db")
    else:
        where = f"{request.getfixturevalue('postgres_url')}&options=-c%20lock_timeout%3D50ms"
    fill(where)
    monkeypatch.setattr("murmuration.collector.store.sqlite.BUSY_SECONDS", 0.05)
    return where


def fill(url: str | Path) -> None:
    with closing(open_store(url)) as store:
        collect(store, slice(0, PEOPLE))
        new_token(store, "analyst", "ann")


def collect(store: Store, who: slice) -> Served:
    served = serve(store, CAMPAIGN)
    body = to_binary(CAMPAIGN.form, IDS[who], ROWS[who])
    commit(store, [Batch(served, decode(CAMPAIGN.form, body, BINARY))])
    return served


def people(store: Store) -> int:
    return CAMPAIGN.people(total(store, CAMPAIGN))


@contextmanager
def locked(url: str) -> Iterator[None]:
    """Another process, or another session, is writing and has not committed yet."""
    if url.startswith("postgres"):
        with psycopg.connect(url) as session:
            session.execute(f"SELECT pg_advisory_xact_lock({postgres.LOCK})")
            session.execute("UPDATE counts SET n = n + 1000000")
            yield
            session.rollback()
        return
    command = [sys.executable, "-c", HOLD, url]
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as process:
        assert process.stdout.readline() == "held\n"
        yield
        process.stdin.close()


Murmur = Callable[..., str]


@pytest.fixture
def murmur(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Murmur:
    """Run a command in this process."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["murmur", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        assert not ended.value.code, printed
        return printed.out

    return run


# --- they do not wait ----------------------------------------------------------------------------


@pytest.mark.slow
def test_analysts_do_not_wait_for_who_writes(url: str, murmur: Murmur, tmp_path: Path) -> None:
    with closing(open_store(url)) as store:
        served = serve(store, CAMPAIGN)
        expected = estimates(CAMPAIGN, CAMPAIGN.form.tallies(ROWS[:PEOPLE]), version=1)
        books = served.status(store)
    assert books.outcomes == {"stored": PEOPLE}
    with locked(url), pytest.raises(StoreError):
        open_store(url)  # as a writer it would have to wait
    with locked(url):
        assert json.loads(murmur("estimate", url, "--json")) == msgspec.to_builtins(expected)
        assert json.loads(murmur("status", url, "--json")) == msgspec.to_builtins(books)
        murmur("export", url, "out.parquet")
        assert [one["name"] for one in json.loads(murmur("token", "list", url, "--json"))] == [
            "ann"
        ]
    found = [rows for _, rows in export.rows(tmp_path / "out.parquet")]
    assert b"".join(sorted(map(bytes, found[0]))) == b"".join(sorted(map(bytes, ROWS[:PEOPLE])))


@pytest.mark.slow
def test_a_store_that_is_merged_into_another_is_only_read(
    url: str, murmur: Murmur, tmp_path: Path
) -> None:
    with closing(open_store(tmp_path / "into.db")) as into:
        collect(into, slice(PEOPLE, 2 * PEOPLE))
    with locked(url):
        murmur("merge", "into.db", url)
    with closing(open_store(tmp_path / "into.db", readonly=True)) as into:
        assert total(into, CAMPAIGN) == CAMPAIGN.tally(ROWS)


# --- they see what was committed -----------------------------------------------------------------


def test_what_is_committed_later_is_seen(url: str) -> None:
    with closing(open_store(url)) as store, closing(store.reader()) as reader:
        assert reader.readonly
        assert people(reader) == PEOPLE
        with reader.snapshot():
            assert people(reader) == PEOPLE
            collect(store, slice(PEOPLE, PEOPLE + 10))
            assert people(reader) == PEOPLE
        assert people(reader) == PEOPLE + 10
    with closing(open_store(url, readonly=True)) as reader:
        assert people(reader) == PEOPLE + 10


# --- they write nothing --------------------------------------------------------------------------


def test_nothing_is_written_through_a_reader(url: str) -> None:
    with closing(open_store(url, readonly=True)) as reader:
        before = reader.counts(CAMPAIGN.name)
        attempts: list[Callable[[], object]] = [
            lambda: serve(reader, CAMPAIGN),
            lambda: new_token(reader, "admin"),
            lambda: reader.expire_tokens("ann"),
            lambda: reader.add_reports(1, IDS[-1:], ROWS[-1:]),
            lambda: reader.add_tallies(1, CAMPAIGN.form.tallies(ROWS)),
            lambda: reader.add_counts(CAMPAIGN.name, {"received": 1}),
            lambda: reader.execute("DELETE FROM runs"),
            lambda: reader.set_schema_version(1),
            reader.set_up,
        ]
        for attempt in attempts:
            with pytest.raises(StoreError, match="reading only: nothing can be written"):
                attempt()
        assert reader.counts(CAMPAIGN.name) == before
        assert people(reader) == PEOPLE


def test_nothing_is_written_inside_a_snapshot(url: str) -> None:
    """It would be lost at the snapshot's end."""
    with closing(open_store(url)) as store:
        with store.snapshot(), pytest.raises(StoreError, match="reading only"):
            collect(store, slice(PEOPLE, 2 * PEOPLE))
        collect(store, slice(PEOPLE, 2 * PEOPLE))
        assert people(store) == 2 * PEOPLE


def state(path: Path) -> tuple[bytes, int]:
    return path.read_bytes(), path.stat().st_mtime_ns


def read_all(path: Path, murmur: Murmur) -> None:
    """Everything that reads."""
    with closing(open_store(path.with_name("into.db"))) as into:
        serve(into, CAMPAIGN)
    for command in ("estimate", "status"):
        assert f"{PEOPLE}" in murmur(command, str(path))
    murmur("export", str(path), "out.parquet", "--force")
    murmur("token", "list", str(path))
    murmur("merge", "into.db", str(path))


def test_reading_changes_no_byte(tmp_path: Path, murmur: Murmur) -> None:
    path = tmp_path / "store.db"
    fill(path)
    before = state(path)
    read_all(path, murmur)
    assert state(path) == before


def test_reading_what_a_crash_has_left_changes_no_byte(tmp_path: Path, murmur: Murmur) -> None:
    """The newest reports are in the log only: they are read, and stay there."""
    path, crashed = tmp_path / "store.db", tmp_path / "crashed"
    crashed.mkdir()
    with closing(open_store(path)) as store:
        collect(store, slice(0, PEOPLE))
        files = [crashed / name for name in ("store.db", "store.db-wal")]
        for file in files:
            file.write_bytes((tmp_path / file.name).read_bytes())
    before = [state(file) for file in files]
    assert len(before[1][0]) > 100_000
    murmur("estimate", str(files[0]))
    assert json.loads(murmur("status", str(files[0]), "--json"))["people"] == PEOPLE
    assert [state(file) for file in files] == before


# --- what they refuse ----------------------------------------------------------------------------


def test_a_database_without_a_store_is_refused_and_left_empty(postgres_url: str) -> None:
    for _ in range(2):
        with pytest.raises(FormatError, match="no store in this database"):
            open_store(postgres_url, readonly=True)
    with psycopg.connect(postgres_url) as session:
        tables = "SELECT COUNT(*) FROM pg_tables WHERE schemaname = 'public'"
        assert session.execute(tables).fetchall() == [(0,)]


def test_files_that_are_no_store_are_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello " * 1000)
    (tmp_path / "empty").touch()
    with closing(sqlite3.connect(tmp_path / "other")) as connection:
        connection.execute("CREATE TABLE reports (id INTEGER)")
    before = {path.name: state(path) for path in tmp_path.iterdir()}
    for name in before:
        with pytest.raises(FormatError, match=f"{name} is (a database, but )?not a store of ours"):
            open_store(tmp_path / name, readonly=True)
    with pytest.raises(FormatError, match="it is empty"):
        open_store(tmp_path / "empty", readonly=True)
    for missing in (tmp_path / "missing", tmp_path):
        with pytest.raises(ParameterError, match="there is no store at"):
            open_store(missing, readonly=True)
    assert {path.name: state(path) for path in tmp_path.iterdir()} == before


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a b", "a?mode=rwc", "a#b", "100%", "%41", "ä&x=1", "a\udcff"])
def test_any_file_name(tmp_path: Path, name: str) -> None:
    path = tmp_path / f"{name}.db"
    fill(path)
    (tmp_path / "link.db").symlink_to(path)
    before = {each.name for each in tmp_path.iterdir()}
    for each in (path, tmp_path / "link.db", f"sqlite:///{path}"):
        with closing(open_store(each, readonly=True)) as reader:
            assert people(reader) == PEOPLE
    logs = {f"{path.name}-wal", f"{path.name}-shm"}
    assert {each.name for each in tmp_path.iterdir()} <= before | logs


# --- where nothing can be written ----------------------------------------------------------------


@pytest.fixture
def shelf() -> Iterator[Path]:
    """A folder that other users can read."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)  # noqa: S103
        yield Path(name)


@contextmanager
def unwritable(folder: Path) -> Iterator[None]:
    """Nothing in this folder can be written by this process, even if it is root's."""
    root = os.geteuid() == 0
    for path in folder.iterdir():
        path.chmod(0o444)
    folder.chmod(0o555)
    if root:
        os.setresuid(NOBODY, NOBODY, 0)
    try:
        assert not os.access(folder, os.W_OK)
        yield
    finally:
        if root:
            os.setresuid(0, 0, 0)
        folder.chmod(0o755)
        for path in folder.iterdir():
            path.chmod(0o644)


def test_a_store_that_cannot_be_written_is_read(shelf: Path) -> None:
    fill(shelf / "store.db")
    before = state(shelf / "store.db")
    with unwritable(shelf):
        with closing(open_store(shelf / "store.db", readonly=True)) as reader:
            assert people(reader) == PEOPLE
        with pytest.raises(StoreError, match="in a folder that cannot be written to"):
            open_store(shelf / "store.db")
    assert state(shelf / "store.db") == before
    assert [path.name for path in shelf.iterdir()] == ["store.db"]


def test_what_its_owner_commits_to_it_is_seen(shelf: Path) -> None:
    """While the collector runs, and after it has ended."""
    path = shelf / "store.db"
    fill(path)
    with unwritable(shelf):
        reader = open_store(path, readonly=True)
        assert people(reader) == PEOPLE
    with closing(open_store(path)) as store:
        collect(store, slice(PEOPLE, PEOPLE + 10))
        with unwritable(shelf), closing(reader):
            assert people(reader) == PEOPLE + 10
    with unwritable(shelf):
        reader = open_store(path, readonly=True)
    with closing(open_store(path)) as store:
        collect(store, slice(PEOPLE, PEOPLE + 20))
    with unwritable(shelf), closing(reader):
        assert people(reader) == PEOPLE + 20


def test_a_file_that_changes_while_it_is_read_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "store.db"
    fill(path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "access", lambda *given: False)
        with closing(open_store(path, readonly=True)) as reader:
            with (
                pytest.raises(StoreError, match="while it was read: try again"),
                reader.snapshot(),
                closing(open_store(path)) as store,
            ):
                collect(store, slice(PEOPLE, 2 * PEOPLE))
            assert people(reader) == 2 * PEOPLE
