"""Both stores, asked directly: each id once, all of a group or none of it."""

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from murmuration.collector.commit import DUPLICATE, OUTCOMES, Batch, commit, refuse
from murmuration.collector.publish import serve
from murmuration.collector.served import Served
from murmuration.collector.store import (
    Store,
    StoreError,
    StoreFullError,
    StoreGoneError,
    open_store,
)
from murmuration.collector.store.postgres import _translated as postgres_said
from murmuration.exact.arrays import Rows
from murmuration.wire import report
from murmuration.wire.ids import Ids, in_order
from tests.support.accounts import audited, commute, made

CAMPAIGN = commute()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "store.db")
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with closing(open_store(url)) as opened:
        yield opened


def columns(served: Served, ids: Ids, rows: Rows) -> Batch:
    body = report.to_binary(served.campaign.form, ids, rows)
    return Batch(served, report.decode(served.campaign.form, body, report.BINARY))


def outcomes(batch: Batch) -> set[str]:
    return {OUTCOMES[code] for code in batch.problems.tolist()}


def test_a_body_that_is_refused_as_a_whole_counts_as_one_report(store: Store) -> None:
    serve(store, CAMPAIGN)
    for _ in range(3):
        refuse(store, CAMPAIGN.name, "refused:unreadable-body")
    assert store.counts(CAMPAIGN.name) == {"received": 3, "refused:unreadable-body": 3}


def test_scrubbed_reports_count_once_too(store: Store) -> None:
    campaign = CAMPAIGN.with_terms(msgspec.structs.replace(CAMPAIGN.terms, keep_reports=False))
    served, (ids, rows) = serve(store, campaign), made(campaign, 300)
    for expected in ("stored", "duplicate", "duplicate"):
        batch = columns(served, ids, rows)
        commit(store, [batch])
        assert outcomes(batch) == {expected}
    found = audited(store, campaign)
    assert found.counts == {"received": 900, "stored": 300, "duplicate": 600}
    assert found.tallies[campaign.digest] == campaign.tally(rows)
    assert set(found.rows.values()) == {b""}


def test_of_a_digest_that_was_never_stored_no_hour_is_known(store: Store) -> None:
    assert store.last_hour("0" * 64) is None


def test_ids_are_known_after_the_campaign_begins_to_scrub(store: Store) -> None:
    ids, rows = made(CAMPAIGN, 50)
    scrubbing = CAMPAIGN.with_terms(msgspec.structs.replace(CAMPAIGN.terms, keep_reports=False))
    versions = []
    for campaign, expected in ((CAMPAIGN, "stored"), (scrubbing, "duplicate")):
        served = serve(store, campaign)
        versions.append(served.version)
        batch = columns(served, ids, rows)
        commit(store, [batch])
        assert outcomes(batch) == {expected}
    assert versions == [1, 2]


def test_a_group_that_fails_can_be_tried_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All or nothing, and a failure makes no report a duplicate."""
    served, (ids, rows) = serve(store, CAMPAIGN), made(CAMPAIGN, 20)
    batch = columns(served, ids, rows)

    def fail(*given: object) -> None:
        raise StoreError("this is a test")

    for name in ("add_tallies", "add_counts"):
        with monkeypatch.context() as patch:
            patch.setattr(store, name, fail)
            with pytest.raises(StoreError, match="a test"):
                commit(store, [batch])
        assert audited(store, CAMPAIGN).counts == {}
    commit(store, [batch])
    assert outcomes(batch) == {"stored"}
    assert audited(store, CAMPAIGN).counts == {"received": 20, "stored": 20}


def test_a_group_with_duplicates_that_fails_can_be_tried_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The upload is the same afterwards: what the failure took for a duplicate may be none."""
    served, (ids, rows) = serve(store, CAMPAIGN), made(CAMPAIGN, 20)
    commit(store, [columns(served, ids[:5], rows[:5])])
    batch = columns(served, ids, rows)

    def fail(*given: object) -> None:
        raise StoreError("this is a test")

    for _ in range(2):
        with monkeypatch.context() as patch:
            patch.setattr(store, "add_counts", fail)
            with pytest.raises(StoreError, match="a test"):
                commit(store, [batch])
    commit(store, [batch])
    assert (batch.problems == DUPLICATE).tolist() == [True] * 5 + [False] * 15
    found = audited(store, CAMPAIGN)
    assert found.counts == {"received": 25, "stored": 20, "duplicate": 5}


def test_large_groups_with_some_known(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("murmuration.collector.store.runs.TIERS", (16, 256, 1024))  # several runs
    served, (ids, rows) = serve(store, CAMPAIGN), made(CAMPAIGN, 5000)
    commit(store, [columns(served, ids[::3], rows[::3])])
    batch = columns(served, ids, rows)
    commit(store, [batch])
    known = np.arange(5000) % 3 == 0
    assert ((batch.problems == DUPLICATE) == known).all()
    assert audited(store, CAMPAIGN).ids == {one.tobytes() for one in ids}


def test_two_connections_commit_in_turn(store: Store, url: str) -> None:
    served, (ids, rows) = serve(store, CAMPAIGN), made(CAMPAIGN, 200)
    with closing(open_store(url)) as other:
        for start in range(0, 150, 10):
            batches = [columns(served, ids[start:][:50], rows[start:][:50]) for _ in range(2)]
            for each, batch in zip((store, other), batches, strict=True):
                commit(each, [batch])
            assert outcomes(batches[1]) == {"duplicate"}
    assert len(audited(store, CAMPAIGN).ids) == 190


def test_campaigns_in_one_group_do_not_mix(store: Store) -> None:
    other = replace(CAMPAIGN, name="other")
    both = [serve(store, campaign) for campaign in (CAMPAIGN, other)]
    ids, rows = made(CAMPAIGN, 30)
    batches = [columns(served, ids, rows) for served in (*both, *both)]
    commit(store, batches)
    assert [outcomes(batch) for batch in batches] == [{"stored"}] * 2 + [{"duplicate"}] * 2
    for campaign in (CAMPAIGN, other):
        assert audited(store, campaign).counts == {"received": 60, "stored": 30, "duplicate": 30}


def test_a_connection_lost_in_a_transaction_is_not_replaced_inside_it(postgres_url: str) -> None:
    """What comes after would be committed without what came before."""
    with closing(open_store(postgres_url)) as store:
        served, (ids, rows) = serve(store, CAMPAIGN), made(CAMPAIGN, 20)
        with pytest.raises(StoreGoneError), store.transaction():  # noqa: PT012
            store.add_reports(served.key, ids, rows)
            store.close()
            store.add_counts(CAMPAIGN.name, {"received": 20, "stored": 20})
        assert audited(store, CAMPAIGN).counts == {}


def test_a_store_that_others_write_to_says_so_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("murmuration.collector.store.sqlite.BUSY_SECONDS", 0.05)
    with closing(open_store(tmp_path / "store.db")) as store:
        with (
            closing(open_store(tmp_path / "store.db")) as other,
            other.transaction(),
            pytest.raises(StoreError, match="in use by another program"),
        ):
            serve(store, CAMPAIGN)
        assert serve(store, CAMPAIGN).version == 1


@pytest.mark.slow
def test_the_log_is_begun_when_others_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("murmuration.collector.store.sqlite.BUSY_SECONDS", 0.05)
    open_store(tmp_path / "store.db").close()
    with closing(sqlite3.connect(tmp_path / "store.db", check_same_thread=False)) as other:
        other.execute("PRAGMA journal_mode = DELETE")
        other.execute("BEGIN")
        other.execute("SELECT * FROM sqlite_master").fetchall()
        with monkeypatch.context() as patch:
            patch.setattr("murmuration.collector.store.sqlite.WAL_TRIES", 3)
            with pytest.raises(StoreError, match="in use by another program"):
                open_store(tmp_path / "store.db")
        letting_go = threading.Timer(0.2, other.rollback)
        letting_go.start()
        open_store(tmp_path / "store.db").close()
        letting_go.join()


def test_a_database_that_is_not_there_says_so_without_its_address() -> None:
    with pytest.raises(StoreGoneError) as told:
        open_store("postgresql://postgres:secret@/x?host=/nowhere")
    assert str(told.value) == "the database cannot be reached"


def test_what_databases_say_in_our_words() -> None:
    assert isinstance(postgres_said(psycopg.errors.DiskFull("path")), StoreFullError)
    assert isinstance(postgres_said(psycopg.errors.AdminShutdown("why")), StoreGoneError)
    assert str(postgres_said(psycopg.DataError("secret"))) == "the store failed: DataError"


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=20))
def test_ids_in_order(pairs: list[tuple[int, int]]) -> None:
    texts = [bytes([high] * 8 + [low] * 8) for high, low in pairs]
    ids = np.frombuffer(b"".join(texts), dtype=np.uint8).reshape(-1, 16)
    order, first = in_order(ids)
    found = [texts[place] for place in order]
    assert found == sorted(texts)
    chosen = order[first].tolist()
    assert [texts[place] for place in chosen] == sorted(set(texts))
    if len(set(texts)) < len(texts):
        assert chosen == [texts.index(text) for text in sorted(set(texts))]


def test_only_its_owner_reads_a_store(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        with closing(open_store(tmp_path / "new.db")) as opened:
            opened.execute("INSERT INTO counts VALUES ('c', 'stored', 1)")
            made = sorted(tmp_path.iterdir())
            assert len(made) == 3  # and the log, and its index
            assert {path.stat().st_mode & 0o777 for path in made} == {0o600}
    finally:
        os.umask(before)
