"""The tables of a store are made at once; stores of other releases, and no stores, are refused."""

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from murmuration.collector.store import StoreError, open_store, schema
from murmuration.device import Ledger
from murmuration.errors import FormatError, MurmurationError, ParameterError


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "store.db")
    return str(request.getfixturevalue("postgres_url"))


def test_tables_that_cannot_all_be_made_are_not_made(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(schema, "TABLES", (*schema.TABLES, "NO SUCH STATEMENT"))
        with pytest.raises(StoreError):
            open_store(url)
    with closing(open_store(url)) as store:
        assert store.schema_version() == schema.VERSION
        assert store.campaigns() == []


@pytest.mark.parametrize("version", [schema.VERSION + 1, schema.VERSION + 98])
@pytest.mark.parametrize("readonly", [False, True])
def test_another_schema_is_refused_and_left_alone(url: str, version: int, readonly: bool) -> None:
    with closing(open_store(url)) as store, store.transaction():
        store.set_schema_version(version)
    before = _files(url)
    said = f"has schema {version}, and this program reads and writes schema {schema.VERSION}: open"
    for _ in range(2):
        with pytest.raises(FormatError, match=said):
            open_store(url, readonly=readonly)
    after = _files(url)
    assert {name: after[name] for name in before} == before
    assert len(after) == len(before) or readonly  # SQLite makes what it needs to read
    assert _version(url) == version


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


def test_a_store_of_another_release_in_another_mode_is_left_in_it(tmp_path: Path) -> None:
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
