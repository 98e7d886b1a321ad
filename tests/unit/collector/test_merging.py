"""Several collectors: whatever way tallies and reports take, each report counts once."""

from __future__ import annotations

import hashlib
import hmac
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, nullcontext
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

from murmuration.collector.commit import Batch, commit
from murmuration.collector.merging import key_file
from murmuration.collector.merging.key_file import take_key
from murmuration.collector.merging.known import exported, known, total
from murmuration.collector.merging.reports import merge
from murmuration.collector.merging.tallies import merge_tallies, remove, removed_in_figures
from murmuration.collector.publish import serve
from murmuration.collector.shown import shown
from murmuration.collector.store import open_store
from murmuration.counting import sketch
from murmuration.counting.container import CampaignTallies
from murmuration.counting.sketch import MOST, WHOLE, sketched
from murmuration.errors import MismatchError, ParameterError
from murmuration.exact.randomness import seeded_rng
from murmuration.wire import report
from murmuration.wire.ids import new_ids
from tests.support.accounts import commute, made
from tests.support.command import murmur

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
        body = report.to_binary(CAMPAIGN.form, IDS[some], ROWS[some])
        commit(self.store, [Batch(self.served, report.decode(CAMPAIGN.form, body, report.BINARY))])

    def told(self) -> CampaignTallies:
        """What it tells others, as it travels."""
        return CampaignTallies.from_bytes(exported(self.store, CAMPAIGN).to_bytes(), CAMPAIGN)

    def hears(self, told: CampaignTallies, *sources: str) -> int:
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


@pytest.mark.slow
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
        ends.add(CampaignTallies(CAMPAIGN, known(target.store, CAMPAIGN).counted).to_bytes())
    assert len(ends) == 1


def _heard(target: One, told: CampaignTallies) -> None:
    """Tell it; it may answer that it knows better."""
    before, after = known(target.store, CAMPAIGN).counted, told.parts[told.collector]
    ours = known(target.store, CAMPAIGN)
    old = ours.n(before.get(told.collector)) > ours.n(after)
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
    sent: list[tuple[CampaignTallies, set[int]]] = []
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
    if (
        seed % 2 == 0
    ):  # each report at one collector: nothing is refused but what is old, or its own
        old_or_own = ("a later tally", "by the name of this collector")
        assert all(any(words in problem for words in old_or_own) for problem in refused)


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


def test_both_kinds_of_store_merge_alike(one, postgres_url: str) -> None:
    """Tallies into PostgreSQL and out of it again, and a store into it."""
    a, b, c = one("a", A), one("b", B), one("c", C)
    with closing(open_store(postgres_url)) as store:
        target = serve(store, CAMPAIGN)
        take_key(store, KEY)
        assert merge_tallies(store, target, a.told()).news == 1
        merge(store, b.store, "commute")
        assert total(store, CAMPAIGN) == CAMPAIGN.tally(ROWS[:200])
        with closing(store.reader()) as reader:
            assert c.hears(exported(reader, CAMPAIGN)) == 3
        assert c.counts(A, B, C)
        assert remove(store, "commute", a.name) == 100
        assert total(store, CAMPAIGN) == CAMPAIGN.tally(ROWS[B])


# --- what a store does not know ------------------------------------------------------------------


def test_reports_that_count_under_another_name_stay_there(one) -> None:
    """Some reports of X are here as A's own: X's store adds the others, its tally is refused."""
    a, b, x = one("a", A, C), one("b", B), one("x", C, D)
    a.absorbs(x)
    assert a.counts(A, C, D)
    told = a.told()
    assert {CAMPAIGN.frame.reports(part.tallies[0]) for part in told.parts.values()} == {200, 100}
    assert b.hears(told) == 2  # A's 200, and those of X that are not among them
    assert b.counts(A, B, C, D)
    x.take(LATER)
    for each in (a, b):
        with pytest.raises(MismatchError, match=r"under another name|would count twice"):
            each.hears(x.told())
    assert b.counts(A, B, C, D)
    a.absorbs(x)
    assert a.counts(A, C, D, LATER)
    assert b.hears(a.told()) == 1
    assert b.counts(A, B, C, D, LATER)


def test_a_copy_of_a_store_is_merged_by_its_reports(one, tmp_path) -> None:
    a, b = one("a", A), one("b", B)
    copy = a.copied(tmp_path, "copy")
    copy.take(C)
    a.take(D)
    with pytest.raises(MismatchError, match="goes by the name of this collector"):
        a.hears(copy.told())
    assert b.hears(a.told()) == 1
    with pytest.raises(MismatchError, match="of the 200 reports that came, about 100 are known"):
        b.hears(copy.told())
    a.absorbs(copy)
    assert a.counts(A, C, D)
    assert b.hears(a.told()) == 1
    assert b.hears(a.told()) == 0
    assert b.counts(A, B, C, D)
    copy.store.close()


def test_an_old_copy_is_merged_into_a_new_store(one, tmp_path) -> None:
    a, b = one("a", A), one("b", B)
    old = a.copied(tmp_path, "old")
    a.take(C)
    b.hears(a.told())
    assert merge_tallies(old.store, old.served, b.told()).is_behind
    assert not merge_tallies(a.store, a.served, b.told()).is_behind
    with pytest.raises(MismatchError, match="a later tally than this one of 100 reports"):
        b.hears(old.told())
    with pytest.raises(MismatchError, match="200 reports of this collector, and it has 100"):
        old.absorbs(b)
    new = one("new", D)
    new.absorbs(old)
    new.hears(b.told())
    assert new.counts(A, B, C, D)
    old.store.close()


def test_what_was_merged_can_be_taken_out_again(one) -> None:
    """The tallies of a source are forgotten; this store's own reports, and merged ones, stay."""
    a, b, c = one("a", A), one("b", B), one("c", C)
    a.hears(b.told())
    a.absorbs(c)
    c.take(LATER)
    a.hears(c.told())
    assert a.counts(A, B, C, LATER)
    assert remove(a.store, "commute", b.name) == 100
    assert a.counts(A, C, LATER)
    assert remove(a.store, "commute", c.name) == 50
    assert a.counts(A, C)
    assert remove(a.store, "commute", c.name) == 0
    assert remove(a.store, "commute", a.name) is None
    assert a.counts(A, C)
    a.hears(b.told())
    a.hears(c.told())
    assert a.counts(A, B, C, LATER)


# --- sketches ------------------------------------------------------------------------------------


def test_small_sketches_miss_nothing() -> None:
    one, other = sketched([IDS[:300], IDS[300:350]], KEY), sketched([IDS[340:]], KEY)
    assert (one.people, other.people, one.shared(other).people) == (350, 360, 10)
    assert one.without(other).people == 340
    assert one.joined(other).people == 700
    assert one.fits(350)
    assert not one.fits(349)
    assert sketched([IDS[::-1]], KEY).values.tolist() == sketched([IDS], KEY).values.tolist()
    assert sketched([IDS], bytes(32)).shared(sketched([IDS], KEY)).people == 0


def test_a_sketch_has_the_smallest_macs() -> None:
    macs = [hmac.digest(KEY, one.tobytes(), "sha256")[:8] for one in IDS]
    values = sorted(int.from_bytes(mac, "little") for mac in macs)
    assert sketched([IDS], KEY).values.tolist() == values


@pytest.mark.slow
def test_large_sketches_tell_sizes() -> None:
    """A sample of MOST in 100,000: estimates within 4 standard errors of the truth."""
    n, both = 100_000, 20_000
    ids = new_ids(2 * n - both, seeded_rng(3))
    one, other = sketched([ids[:n]], KEY), sketched([ids[n - both :]], KEY)
    assert len(one.values) == len(other.values) == MOST
    share = min(one.below, other.below) / WHOLE
    shared = one.shared(other)
    assert abs(shared.people - both) < 4 * (both * (1 - share) / share) ** 0.5
    assert one.fits(n)
    assert not one.fits(2 * n)
    assert not one.fits(n // 2)
    assert not len(one.without(one).values)


@pytest.mark.slow
def test_what_share_of_an_overlap_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """As docs/campaigns.md says: v of N reports are missed with probability (1 - m/N)^v."""
    monkeypatch.setattr(sketch, "MOST", 64)
    n, v, tries = 1000, 20, 200
    crowds = new_ids(2 * n * tries, seeded_rng(5)).reshape(tries, 2, n, 16)
    missed = 0
    for one, other in crowds:
        overlapping = np.concatenate([other[v:], one[:v]])
        missed += not len(sketched([one], KEY).shared(sketched([overlapping], KEY)).values)
    expected = tries * (1 - 64 / n) ** v
    assert abs(missed - expected) < 4 * expected**0.5


def test_crafted_ids_are_in_no_more_sketches_than_others() -> None:
    """Of 20,000 ids, the 500 with the smallest plain hashes: by the secret they are like any."""
    octets = [hashlib.sha256(number.to_bytes(4, "big")).digest()[:16] for number in range(20_000)]
    crafted = sorted(octets, key=lambda one: hashlib.sha256(one).digest())[:500]
    ids = np.frombuffer(b"".join(octets), dtype=np.uint8).reshape(-1, 16)
    chosen = np.frombuffer(b"".join(crafted), dtype=np.uint8).reshape(-1, 16)
    whole = sketched([ids], KEY)
    inside = len(whole.shared(sketched([chosen], KEY)).values)
    share = MOST / 20_000
    assert abs(inside - 500 * share) < 4 * (500 * share * (1 - share)) ** 0.5


# --- the key -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_key_is_a_file_that_only_its_owner_reads(one, tmp_path: Path) -> None:
    a, b = one("a", A, key=None), one("b", B, key=None)
    path = tmp_path / "merge.key"
    said = murmur("merge", a.path, "--key", path).stdout
    assert path.stat().st_mode & 0o777 == 0o600
    murmur("merge", b.path, "--key", path)
    assert a.store.merge_secret() == b.store.merge_secret() == key_file.read(path)
    assert path.read_text().strip() not in said
    path.chmod(0o644)
    assert "chmod 600" in murmur("merge", b.path, "--key", path, code=2).problem
    path.chmod(0o600)
    path.write_text("no key")
    assert "no key in it" in murmur("merge", b.path, "--key", path, code=2).problem
    path.write_text("ab")
    assert "a key is 32 bytes" in murmur("merge", b.path, "--key", path, code=2).problem
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "nowhere")
    murmur("merge", b.path, "--key", link, code=3)
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("size", [0, 1, 31, 33])
def test_a_key_of_another_size_is_refused_before_anything_is_counted(
    tmp_path: Path, size: int
) -> None:
    path = tmp_path / "merge.key"
    key_file.write(path, bytes(size))
    with pytest.raises(ParameterError, match=f"a key is 32 bytes; .*merge.key has {size}"):
        key_file.read(path)


def test_another_key_makes_old_sketches_say_nothing(one) -> None:
    a, b, c = one("a", A), one("b", B), one("c", C)
    a.absorbs(b)
    take_key(a.store, bytes(32))
    take_key(c.store, bytes(32))
    with pytest.raises(MismatchError, match="has none"):
        c.hears(a.told())
    a.absorbs(b)  # whose ids are looked at once more
    assert c.hears(a.told()) == 2
    assert c.counts(A, B, C)


def test_tallies_under_another_key_do_not_come_along_with_a_store(one) -> None:
    a, b, c = one("a", A, key=bytes(32)), one("b", B), one("c", A)
    b.hears(c.told())
    with pytest.raises(MismatchError, match="has none"):
        a.absorbs(b)
    assert a.counts(A)
    new = one("new", key=None)
    new.absorbs(b)  # takes its key
    assert new.counts(A, B)
    assert new.store.merge_secret() == KEY
    with pytest.raises(
        MismatchError, match="reports would count twice: all, or nearly all, of the 100"
    ):
        one("a2", A).absorbs(b)


def test_murmur_merge_takes_out_what_was_merged(one) -> None:
    a, b = one("a", A), one("b", B)
    a.hears(b.told())
    said = murmur("merge", a.path, "--remove", b.name, "--json").stdout
    row = {"store": str(a.path), "campaign": "commute", "removed": 100, "waits_for": 0}
    assert json.loads(said) == [row]
    problem = murmur("merge", a.path, "--remove", "f" * 16, code=2).problem
    assert "no tallies of a collector" in problem
    assert "say which stores" in murmur("merge", a.path, code=2).problem


def test_figures_may_still_contain_what_was_taken_out(one) -> None:
    """The difference of 50 people would tell about these, and the command says so."""
    a, b, c = one("a"), one("b", slice(0, 300)), one("c", slice(300, 350))
    b.hears(c.told())
    a.hears(b.told())
    both = CAMPAIGN.tally(ROWS[:350])
    assert shown(a.store, CAMPAIGN)[0] == both
    said = " ".join(murmur("merge", a.path, "--remove", c.name).stdout.split())
    assert "50 reports less Figures still contain them." in said
    assert "differs from what they show by 100 answers (the cohort) at each level" in said
    assert removed_in_figures(a.store, "commute") == 100
    assert shown(a.store, CAMPAIGN)[0] == both
    b.take(slice(350, 700))
    a.hears(b.told(), b.name)
    assert removed_in_figures(a.store, "commute") == 0
    assert shown(a.store, CAMPAIGN)[0] == CAMPAIGN.tally(np.delete(ROWS, slice(300, 350), axis=0))


def test_a_merge_token_names_its_sources(one) -> None:
    a = one("a", A)
    for wrong in (["merge"], ["merge", "--source", "east"], ["admin", "--source", "f" * 16]):
        assert "names the collectors" in murmur("token", "add", a.path, *wrong, code=2).problem
    murmur("token", "add", a.path, "merge", "--name", "east", "--source", "f" * 16)
    murmur("token", "rotate", a.path, "east")
    listed = json.loads(murmur("token", "list", a.path, "--json").stdout)
    assert [one["sources"] for one in listed] == [["f" * 16]] * 2
