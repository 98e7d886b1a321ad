"""Known ids: random ones are cheap, crafted ones too, and what is stored decides."""

import os
import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from murmuration.collector.commit import DUPLICATE, Batch, commit
from murmuration.collector.publish import serve
from murmuration.collector.store import Store, StoreError, filters, open_store, runs
from murmuration.collector.store.runs import Octets
from murmuration.errors import FormatError
from murmuration.exact.randomness import seeded_rng
from murmuration.wire import report
from murmuration.wire.ids import new_ids
from tests.support.accounts import audited, commute, made

CAMPAIGN = commute()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "store.db")
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of few reports, merged often."""
    for name, value in {"BLOCK": 4, "TIERS": (8, 64, 256), "MERGED": 3, "CHUNK_BLOCKS": 5}.items():
        monkeypatch.setattr(runs, name, value)


def octets(texts: list[bytes]) -> Octets:
    return np.frombuffer(b"".join(texts), dtype=np.uint8).reshape(len(texts), 16)


def odd_ids(chance: random.Random) -> Iterator[bytes]:
    """Ids that nobody would draw: few differ in their first half, many end in zeros."""
    while True:
        half = chance.choice([bytes(8), b"\xff" * 8, chance.randbytes(2) + bytes(6)])
        yield half + chance.choice([bytes(8), chance.randbytes(1) + bytes(7), chance.randbytes(8)])


def stored(store: Store, key: int, width: int = 2) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = {}
    for ids, rows, kept in store.kept_reports(key, width):
        listed = [bytes(one) for one in ids]
        assert listed == sorted(set(listed))
        assert not found or max(found) < listed[0]  # in the order of the ids, chunk after chunk
        found |= dict.fromkeys(listed, b"")
        found |= {listed[at]: bytes(row) for at, row in zip(kept.tolist(), rows, strict=True)}
    assert store.report_count(key) == len(found)
    return found


@pytest.mark.slow
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("seed", range(3))
def test_runs_hold_what_a_dictionary_would(url: str, seed: int) -> None:
    """Over two connections, with failures in between, and rows that are kept or scrubbed."""
    chance, model = random.Random(seed), dict[int, dict[bytes, bytes]]({1: {}, 2: {}})
    odd, groups = odd_ids(chance), 80
    with closing(open_store(url)) as first, closing(open_store(url)) as second:
        for group in range(groups):
            store, key = chance.choice([first, second]), chance.choice([1, 1, 1, 2])
            fresh = [chance.randbytes(16) for _ in range(chance.randint(0, 30))]
            some = [next(odd) for _ in range(chance.randint(0, 6))]
            again = chance.sample(sorted(model[key]), min(len(model[key]), chance.randint(0, 9)))
            texts = list({*fresh, *some, *again})
            chance.shuffle(texts)
            rows = octets([chance.randbytes(16) for _ in texts])[:, : chance.choice([2, 2, 0])]
            if group % 7 == 3:
                with pytest.raises(StoreError, match="a test"), store.transaction():  # noqa: PT012
                    store.add_reports(key, octets(texts), rows)
                    raise StoreError("this is a test")
            new = store.add_reports(key, octets(texts), rows)
            assert new.tolist() == [text not in model[key] for text in texts]
            for text, row in zip(texts, rows, strict=True):
                model[key].setdefault(text, bytes(row))
        assert {key: stored(second, key) for key in model} == model
        sizes = [int(n) for (n,) in first.execute("SELECT n FROM runs")]
        assert len(sizes) < groups / 2
        assert max(sizes) <= 256


def test_random_ids_change_few_pages(tmp_path: Path) -> None:
    """In a B-tree, each random id changes a page of its own: 16 KiB for 19 bytes."""
    path, rng = tmp_path / "store.db", seeded_rng(1)
    with closing(open_store(path)) as store:
        for _ in range(4):
            store.add_reports(1, new_ids(50_000, rng), np.zeros((50_000, 3), dtype=np.uint8))
        store.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        store.add_reports(1, new_ids(500, rng), np.zeros((500, 3), dtype=np.uint8))
        assert path.with_name("store.db-wal").stat().st_size < 20 * (16 << 10)


def test_no_merge_is_larger_than_it_may_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However large a row is: what one commit rewrites is bounded."""
    monkeypatch.setattr(runs, "MOST_BYTES", 1 << 20)
    rng = seeded_rng(2)
    with closing(open_store(tmp_path / "store.db")) as store:
        for _ in range(120):
            store.add_reports(1, new_ids(100, rng), np.zeros((100, 1000), dtype=np.uint8))
        sizes = [int(n) for (n,) in store.execute("SELECT n FROM runs")]
    assert sum(sizes) == 12_000
    assert max(sizes) * 1016 <= 1 << 20
    assert len(sizes) < 30


@pytest.mark.parametrize("step", [1, 1 << 16, 1 << 32, 1 << 96, (1 << 63) + (1 << 127)])
def test_crafted_ids_fill_no_filter(step: int) -> None:
    """Ids in steps fall into a filter as random ones do, if its secret is not known."""
    n, secret = 1 << 14, seeded_rng(3).words(15).tobytes()
    numbers = [(step * each) % (1 << 128) for each in range(2 * n)]
    ids = octets(list({number.to_bytes(16, "little") for number in numbers}))
    taken, others = ids[: len(ids) // 2], ids[len(ids) // 2 :]
    shelf = filters.Shelf(filters.bits_for(len(taken)))
    hashes = filters.hashed(taken, secret)
    assert shelf.put(7, None, filters.made(hashes))
    assert shelf.put(8, hashes)
    found = dict(shelf.maybe(filters.hashed(taken, secret)))
    assert {run: len(places) for run, places in found.items()} == dict.fromkeys((7, 8), len(taken))
    shelf.drop([8])
    for strangers in (others, new_ids(n, seeded_rng(4))):
        wrong = sum(len(places) for _, places in shelf.maybe(filters.hashed(strangers, secret)))
        assert wrong <= 0.01 * len(strangers) + 5


def test_stores_have_secrets_of_their_own(tmp_path: Path) -> None:
    secrets = set()
    for name in "ab":
        with closing(open_store(tmp_path / name)) as store:
            secrets.add(bytes(store.execute("SELECT secret FROM filter_secret")[0][0]))
    assert len(secrets) == 2


def test_what_is_stored_decides_and_not_the_filter(url: str) -> None:
    ids, rows = made(CAMPAIGN, 600)
    with closing(open_store(url)) as store:
        store.add_reports(1, ids[:400], rows[:400])
        ((words,),) = store.execute("SELECT filter FROM runs")
        full = b"\xff" * len(words)  # a filter that says "maybe" to all
        store.execute("UPDATE runs SET filter = ?", (full,))
    with closing(open_store(url)) as store:
        new = store.add_reports(1, ids[200:], rows[200:])
        assert new.tolist() == [False] * 200 + [True] * 200


def test_ids_in_any_order_and_beside_each_other(url: str) -> None:
    """The largest and the smallest id, and neighbours, are told apart."""
    numbers = [0, 1, 255, 256, (1 << 64) - 1, 1 << 64, (1 << 128) - 2, (1 << 128) - 1]
    texts = [number.to_bytes(16, "big") for number in numbers]
    with closing(open_store(url)) as store:
        for some in (texts[1::2], texts[::-1], texts):
            known = set(stored(store, 1, 0))
            new = store.add_reports(1, octets(some), np.zeros((len(some), 0), dtype=np.uint8))
            assert new.tolist() == [text not in known for text in some]
        assert set(stored(store, 1, 0)) == set(texts)


@pytest.mark.usefixtures("small")
def test_a_run_that_was_tampered_with_is_refused(url: str) -> None:
    ids, rows = made(CAMPAIGN, 20)
    with closing(open_store(url)) as store:
        key = serve(store, CAMPAIGN).key
        store.add_reports(key, ids, rows)
        with pytest.raises(FormatError, match="damaged"):
            list(store.kept_reports(key, CAMPAIGN.form.row_bytes + 1))
        store.execute("UPDATE blocks SET rows = ids")
        with pytest.raises(FormatError, match="damaged"):
            list(store.kept_reports(key, CAMPAIGN.form.row_bytes))
        store.execute("UPDATE runs SET filter = ids FROM blocks WHERE runs.run = blocks.run")
    with closing(open_store(url)) as store, pytest.raises(FormatError, match="damaged"):
        store.add_reports(key, ids, rows)


def test_a_store_is_of_the_process_that_opened_it(url: str) -> None:
    """A child that speaks on its parent's connection would spoil both."""
    ids, rows = made(CAMPAIGN, 40)
    with closing(open_store(url)) as store:
        served = serve(store, CAMPAIGN)
        store.add_reports(served.key, ids[:1], rows[:1])
        child = os.fork()
        if child == 0:
            code = 1
            try:
                for attempt in (store.collector_name, lambda: store.add_reports(1, ids, rows)):
                    with pytest.raises(StoreError, match="opened by another process"):
                        attempt()
                store.close()
                code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        body = report.to_binary(CAMPAIGN.form, ids[1:], rows[1:])
        batch = Batch(served, report.decode(CAMPAIGN.form, body, report.BINARY))
        commit(store, [batch])
        assert not (batch.problems == DUPLICATE).any()
        assert store.report_count(served.key) == 40


def test_a_child_may_open_the_store_for_itself(url: str) -> None:
    ids, rows = made(CAMPAIGN, 40)
    with closing(open_store(url)) as store:
        served = serve(store, CAMPAIGN)
        body = report.to_binary(CAMPAIGN.form, ids[:20], rows[:20])
        commit(store, [Batch(served, report.decode(CAMPAIGN.form, body, report.BINARY))])
        child = os.fork()
        if child == 0:
            code = 1
            try:
                with closing(open_store(url)) as mine:
                    body = report.to_binary(CAMPAIGN.form, ids[10:30], rows[10:30])
                    commit(mine, [Batch(served, report.decode(CAMPAIGN.form, body, report.BINARY))])
                code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        body = report.to_binary(CAMPAIGN.form, ids, rows)
        commit(store, [Batch(served, report.decode(CAMPAIGN.form, body, report.BINARY))])
        found = audited(store, CAMPAIGN)
        assert found.counts == {"received": 80, "stored": 40, "duplicate": 40}
