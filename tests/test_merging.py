"""Several collectors: whatever way tallies and reports take, each report counts once."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, nullcontext
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

from accounts import commute, made
from murmuration.collector.commit import Batch, commit
from murmuration.collector.merge import merge, merge_tallies, take_key
from murmuration.collector.publish import serve
from murmuration.collector.store import open_store
from murmuration.collector.tallies import CollectorTallies, exported, known, total
from murmuration.errors import MismatchError
from murmuration.wire import report

KEY = bytes(range(32))
CAMPAIGN = commute()
IDS, ROWS = made(CAMPAIGN, 700)


class One:
    """A collector that shares the key, with some of the people."""

    def __init__(self, folder: Path, name: str, *people: slice, key: bytes | None = KEY) -> None:
        self.path = folder / f"{name}.db"
        self.store = open_store(self.path)
        self.served = serve(self.store, CAMPAIGN)
        if key is not None:
            take_key(self.store, key)
        for some in people:
            self.take(some)

    @property
    def name(self) -> str:
        return self.store.collector_name()

    def take(self, some: slice) -> None:
        """Reports of some of the people arrive."""
        body = report.to_binary(CAMPAIGN, IDS[some], ROWS[some])
        commit(self.store, [Batch(self.served, report.decode(CAMPAIGN, body, report.BINARY))])

    def told(self) -> CollectorTallies:
        """What it tells others, as it travels."""
        return CollectorTallies.from_bytes(exported(self.store, CAMPAIGN).to_bytes(), CAMPAIGN)

    def hears(self, told: CollectorTallies, *sources: str) -> int:
        """Take over tallies; return how many were news."""
        return merge_tallies(self.store, self.served, told, sources or None).news

    def absorbs(self, other: One) -> None:
        merge(self.store, other.store, "commute")

    def copied(self, folder: Path, name: str) -> One:
        """A copy of the store's file."""
        self.store.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        shutil.copy(self.path, folder / f"{name}.db")
        return One(folder, name, key=None)

    @property
    def people(self) -> int:
        return CAMPAIGN.people(total(self.store, CAMPAIGN))

    def counts(self, *people: slice) -> bool:
        """Whether it counts these people, each once, bit for bit."""
        chosen = np.unique(np.concatenate([np.arange(700)[some] for some in people]))
        return total(self.store, CAMPAIGN) == CAMPAIGN.tally(ROWS[chosen])


@pytest.fixture
def one(tmp_path: Path) -> Iterator[object]:
    opened = []

    def new(name: str, *people: slice, **options: object) -> One:
        opened.append(One(tmp_path, name, *people, **options))
        return opened[-1]

    yield new
    for each in opened:
        each.store.close()


A, B, C, D = (slice(start, start + 100) for start in range(0, 400, 100))
LATER = slice(400, 450)


def test_a_third_collector_counts_absorbed_reports_once(one) -> None:
    a, b, c = one("a", A), one("b", B), one("c", C)
    assert c.hears(b.told()) == 1
    assert c.counts(B, C)
    a.absorbs(b)
    assert a.counts(A, B)
    assert c.hears(a.told()) == 1
    assert c.counts(A, B, C)
    assert c.hears(b.told()) == 0
    assert b.hears(a.told()) == 1  # its own come back, and count once
    assert b.counts(A, B)


def test_a_tally_that_came_by_another_way_is_merged_one_by_one_too(one) -> None:
    a, b, c = one("a", A), one("b", B), one("c", C)
    a.absorbs(c)
    for _ in range(2):  # again changes nothing
        b.hears(a.told())
        assert b.counts(A, B, C)
    for _ in range(2):
        b.absorbs(c)
        assert b.counts(A, B, C)
    b.absorbs(a)  # with those of c among its own
    b.absorbs(c)
    assert b.counts(A, B, C)
    assert b.store.report_count(b.served.key) == 300


def test_two_that_merged_the_same_store_add_up(one) -> None:
    a, b, c = one("a", A), one("b", B), one("c", C)
    b.hears(a.told())
    for each in (a, b):
        each.absorbs(c)
    assert b.hears(a.told()) == 0
    assert a.hears(b.told()) == 1
    assert a.counts(A, B, C)
    assert b.counts(A, B, C)


def test_a_chain_of_stores_and_tallies_counts_once(one) -> None:
    a, b, c, d = one("a", A), one("b", B), one("c", C), one("d", D)
    a.absorbs(d)
    c.hears(a.told())
    b.absorbs(a)
    c.hears(b.told())
    assert c.counts(A, B, C, D)


def test_tallies_are_those_of_one_moment(one, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports that move from one collector's tally to another's while both are read count once."""
    a, b = one("a", A), one("b", B)
    a.hears(b.told())
    with closing(a.store.reader()) as reader:
        read = reader.tallies

        def read_then_merged(*given):
            found = read(*given)
            a.absorbs(b)
            return found

        monkeypatch.setattr(reader, "tallies", read_then_merged)
        assert CAMPAIGN.people(total(reader, CAMPAIGN)) == 200
        monkeypatch.undo()
        assert CAMPAIGN.people(total(reader, CAMPAIGN)) == 200


# --- in any order --------------------------------------------------------------------------------


def test_what_was_absorbed_early_does_not_shrink_what_came_later(one) -> None:
    """X grows after A has absorbed it; B knows X's later tally, and then A's comes."""
    a, b, x = one("a", A), one("b", B), one("x", C)
    a.absorbs(x)
    x.take(LATER)
    b.hears(x.told())
    assert b.counts(B, C, LATER)
    b.hears(a.told())
    assert b.counts(A, B, C, LATER)
    other_way = one("b2", B)
    other_way.hears(a.told())
    other_way.hears(x.told())
    assert other_way.counts(A, B, C, LATER)


def test_any_order_of_tallies_gives_the_same(one) -> None:
    a, b, x = one("a", A), one("b", B), one("x", C)
    told = [x.told()]
    a.absorbs(x)
    told.append(a.told())
    x.take(LATER)
    b.hears(x.told())
    told.append(b.told())
    a.take(D)
    told.append(a.told())
    ends = set()
    for place, order in enumerate(permutations(range(4))):
        target = one(f"target{place}")
        for which in order:
            _heard(target, told[which])
        assert target.counts(A, B, C, D, LATER)
        ends.add(CollectorTallies(CAMPAIGN, known(target.store, CAMPAIGN).counted).to_bytes())
    assert len(ends) == 1


def _heard(target: One, told: CollectorTallies) -> None:
    """Tell it; it may answer that it knows better."""
    before, after = known(target.store, CAMPAIGN).counted, told.parts[told.collector]
    reports = CAMPAIGN.frame.reports
    old = told.collector in before and reports(before[told.collector].tallies) > reports(
        after.tallies
    )
    with pytest.raises(MismatchError, match="a later tally") if old else nullcontext():
        target.hears(told)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_random_sequences_count_what_was_merged(one, seed: int) -> None:
    """Reports arrive, stores and tallies are merged, old tallies come late.

    In every other sequence reports arrive at the wrong collectors, too, so that tallies overlap.
    """
    random = np.random.default_rng(seed)
    sites = [one(f"s{place}", slice(100 * place, 100 * place + 40)) for place in range(4)]
    has = [set(range(100 * place, 100 * place + 40)) for place in range(4)]
    sent: list[tuple[CollectorTallies, set[int]]] = []
    refused: list[str] = []
    for _ in range(60):
        here, there = random.choice(4, 2, replace=False).tolist()
        match random.choice(["take", "tell", "hear", "hear", "absorb"]):
            case "take":
                home = there if seed % 2 and random.random() < 0.3 else here
                start = 100 * home + 5 * int(random.integers(20))
                some = slice(start, start + 5)
                if not has[here] & set(range(700)[some]):
                    sites[here].take(some)
                    has[here] |= set(range(700)[some])
            case "tell":
                sent.append((sites[here].told(), set(has[here])))
            case "hear" if sent:
                told, ids = sent[int(random.integers(len(sent)))]
                refused += _tried(
                    sites[here], has[here], ids, lambda h=here, t=told: sites[h].hears(t)
                )
            case "absorb":
                absorb = lambda h=here, t=there: sites[h].absorbs(sites[t])  # noqa: E731
                refused += _tried(sites[here], has[here], has[there], absorb)
    assert any("twice" in problem for problem in refused) <= seed % 2
    if seed % 2 == 0:  # each report at one collector: nothing is refused but what is old
        assert all("a later tally" in problem for problem in refused)


def _tried(site: One, has: set[int], ids: set[int], act: Callable[[], object]) -> list[str]:
    """Merge; afterwards it counts both, each once, or it was refused and counts what it did."""
    try:
        act()
    except MismatchError as problem:
        return [str(problem)]
    else:
        has |= ids
        return []
    finally:
        assert total(site.store, CAMPAIGN) == CAMPAIGN.tally(ROWS[sorted(has)])
