"""Tallies that overlap, part or lie, over real HTTP: refused with their size, nothing changes."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import numpy as np
import pytest

from murmuration.campaign.survey import SurveyCampaign
from murmuration.collector.merging.reports import Joined, merge
from murmuration.collector.merging.tallies import MOST_MERGED, remove
from murmuration.collector.store import open_store
from murmuration.counting.container import CampaignTallies, Part
from murmuration.counting.sketch import MOST, WHOLE, Sketch, name_of, sketched
from murmuration.errors import FormatError
from murmuration.mechanisms.tally import Tally
from murmuration.wire import report
from murmuration.wire.ids import new_ids
from tests.support.accounts import campaign_of, made
from tests.support.collectors import BINARY, PETS, Answer, Collector, one, running

TEXT = one("merging")
CAMPAIGN = campaign_of(TEXT)
OCTETS = "application/octet-stream"
TALLY, ESTIMATES = (f"/v1/campaigns/merging/{what}" for what in ("tally", "estimates"))
KEY = bytes(range(32))
IDS, ROWS = made(CAMPAIGN, 4000)
STRANGER = "0123456789abcdef"


class Site:
    """A collector, and who may bring it tallies."""

    def __init__(self, collector: Collector) -> None:
        self.collector = collector
        self.name = collector.name
        self._tokens: dict[tuple[str, ...], str] = {}

    def take(self, some: slice) -> None:
        body = report.to_binary(CAMPAIGN.form, IDS[some], ROWS[some])
        assert self.collector.send("merging", body, BINARY).status == 200

    def told(self) -> bytes:
        return self.collector.get(TALLY).body

    def hears(self, told: bytes, *sources: str) -> Answer:
        """Somebody brings tallies, with a token for these collectors."""
        if sources not in self._tokens:
            self._tokens[sources] = self.collector.token("merge", sources=sources)
        return self.collector.post(TALLY, told, OCTETS, self._tokens[sources])

    @property
    def people(self) -> int:
        assert self.collector.get(ESTIMATES).status == 200
        return int(self.collector.status("merging")["people"])

    def copied(self, path: Path) -> Path:
        """Copy its store as a file, as a backup does."""
        with closing(sqlite3.connect(self.collector.store)) as db:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        shutil.copy(self.collector.store, path)
        return path


@pytest.fixture
def site(tmp_path: Path) -> Iterator[object]:
    with ExitStack() as stack:

        def new(name: str, *people: slice, key: bytes | None = KEY) -> Site:
            path = tmp_path / f"{name}.db"
            found = Site(stack.enter_context(running(path, TEXT, measured=False)))
            if key is not None:
                found.collector.share(key)
            for some in people:
                found.take(some)
            return found

        yield new


def merged(one: Site, other: Site) -> Joined:
    """Merge the other's store into that of the one, as `murmur merge` does."""
    stores = (one.collector.store, other.collector.store)
    with (
        closing(open_store(stores[0])) as into,
        closing(open_store(stores[1], readonly=True)) as source,
    ):
        return merge(into, source, "merging")


def refused(answer: Answer, *words: str) -> bool:
    """Whether it was refused in these words; nothing is counted twice."""
    assert (answer.status, answer.problem) == (409, "mismatched-tally")
    assert all(word in answer.json["detail"] for word in words), answer.json
    return True


@pytest.mark.slow
def test_the_same_reports_at_two_collectors_are_not_added(site) -> None:
    a, b = site("a", slice(1000)), site("b", slice(1000))
    assert refused(a.hears(b.told(), b.name), "reports would count twice")
    assert a.people == 1000
    b.take(slice(1000, 1010))
    a.take(slice(1010, 2000))
    assert refused(a.hears(b.told(), b.name), "about 1,000", "the 1,010 of")
    assert "1,990" not in a.hears(b.told(), b.name).json["detail"]
    joined = merged(a, b)  # where both have the ids, they decide
    assert (joined.new, joined.known) == (10, 1000)
    assert a.people == 2000


@pytest.mark.slow
def test_a_copy_of_a_store_that_went_on_is_found(site, tmp_path) -> None:
    """A store is copied at 1,000 people; the original gets 500 more, the copy 1,000 others."""
    a, c = site("a", slice(1000)), site("c", slice(3000, 3100))
    a.copied(tmp_path / "copy.db")
    copy = site("copy", slice(1500, 2500), key=None)
    assert copy.name == a.name
    a.take(slice(1000, 1500))
    sizes = ("have parted", "of the 2,000 reports that came, about 1,000 are known")
    assert refused(a.hears(copy.told(), a.name), "by the name of this collector", "a copy")
    assert c.hears(a.told(), a.name).json["merged"] == 1
    assert refused(c.hears(copy.told(), a.name), *sizes)
    assert (a.people, c.people) == (1500, 1600)
    merged(a, copy)
    assert a.people == 2500
    assert c.hears(a.told(), a.name).json["merged"] == 1  # which contains both
    assert c.people == 2600


@pytest.mark.slow
def test_an_old_copy_that_comes_back_is_found(site, tmp_path) -> None:
    a, c = site("a", slice(500)), site("c", slice(3000, 3100))
    old = a.copied(tmp_path / "backup.db")
    a.take(slice(500, 800))
    c.hears(a.told(), a.name)
    a.collector.stop()
    for ending in ("", "-wal", "-shm"):
        Path(a.collector.store + ending).unlink(missing_ok=True)
    shutil.copy(old, a.collector.store)
    a.collector.start()
    assert a.people == 500
    assert "are not here" not in a.collector.log
    answer = a.hears(c.told(), c.name)  # which tells nothing of what is here
    assert answer.json == {"merged": 1, "collectors": 1, "left_out": 1}
    assert "another collector has counted reports of this one that are not" in a.collector.log
    assert refused(c.hears(a.told(), a.name), "a later tally than this one of 500 reports")
    a.take(slice(900, 1000))
    assert refused(c.hears(a.told(), a.name), "have parted", "about 500 are known")
    assert (a.people, c.people) == (700, 900)


@pytest.mark.slow
def test_without_a_shared_key_nothing_is_merged(site) -> None:
    a, b = site("a", slice(100)), site("b", slice(100, 200), key=None)
    assert refused(a.hears(b.told(), b.name), "share a key", "murmur merge STORE --key FILE")
    b.collector.share(bytes(32))
    assert refused(a.hears(b.told(), b.name), "share a key")
    b.collector.share(KEY)
    assert a.hears(b.told(), b.name).json == {"merged": 1, "collectors": 1, "left_out": 0}
    assert a.people == 200
    assert KEY.hex().encode() not in b.told()
    assert KEY not in b.told()


# --- what a merge token can do -------------------------------------------------------------------


def forged(campaign: SurveyCampaign, name: str, tallies, sketch: Sketch) -> bytes:
    """What somebody may send who knows the key, and lies."""
    parts = {name: Part({0: tuple(tallies)}, sketch)}
    return CampaignTallies(campaign, parts, name, name_of(KEY)).to_bytes()


def invented(n: int) -> Sketch:
    """A sketch that n reports can have."""
    if n <= MOST:
        return sketched([new_ids(n)], KEY)
    values = np.random.default_rng(n).integers(0, WHOLE * MOST // n, MOST, dtype=np.uint64)
    return Sketch(WHOLE * MOST // n, np.unique(values))


def counted(n: int) -> tuple[Tally, ...]:
    (law,) = CAMPAIGN.frame.cells
    return (Tally(law, np.array([n, 0, 0]), n),)


@pytest.mark.slow
def test_a_merge_token_brings_its_sources_and_nothing_else(site) -> None:
    a, b, c = site("a", slice(100)), site("b", slice(100, 300)), site("c", slice(300, 600))
    assert b.hears(c.told(), c.name).json["merged"] == 1
    answer = a.hears(b.told(), b.name)
    assert answer.json == {"merged": 1, "collectors": 1, "left_out": 1}
    assert a.people == 300
    lie = forged(CAMPAIGN, c.name, counted(300), invented(300))
    assert a.hears(lie, b.name).json == {"merged": 0, "collectors": 0, "left_out": 1}
    assert a.people == 300
    for role in ("admin", "analyst", "device"):
        token = a.collector.token(role)
        assert a.collector.post(TALLY, c.told(), OCTETS, token).status == 403
    merger = a.collector.token("merge", sources=[c.name])
    for what in ("tally", "estimates", "status"):
        assert a.collector.get(f"/v1/campaigns/merging/{what}", merger).status == 403


@pytest.mark.slow
def test_a_merge_token_learns_nothing_of_the_sums_here(site) -> None:
    """Parts under its own name, larger and smaller than its sums: one answer for all."""
    a = site("a", slice(57))
    (law,), (tally,) = CAMPAIGN.frame.cells, CAMPAIGN.tally(ROWS[:57])
    n = int(tally.counts[0])
    answers = set()
    for sources in ((STRANGER,), (STRANGER, a.name)):
        for guess in (0, 1, n - 1, n, n + 1, 57, 58, 1000):
            for sketch in (Sketch(1), invented(guess), sketched([IDS[:guess]], KEY)):
                part = Part({0: (Tally(law, np.array([guess, 0, 0]), guess),)}, sketch)
                parts = CampaignTallies(CAMPAIGN, {a.name: part}, STRANGER, name_of(KEY))
                answers.add(a.hears(parts.to_bytes(), *sources).body)
    assert answers == {b'{"merged":0,"collectors":0,"left_out":1}'}
    whole = forged(CAMPAIGN, STRANGER, counted(1000), sketched([IDS[:1000]], KEY))
    answer = a.hears(whole, STRANGER)
    assert refused(answer, "about 57 reports would count twice", "the 1,000 of one collector")
    nothing = forged(CAMPAIGN, STRANGER, counted(1000), Sketch(1))
    assert refused(a.hears(nothing, STRANGER), "an empty sketch is that of no reports")
    assert a.collector.status("merging")["people"] == 57


@pytest.mark.slow
def test_nothing_that_is_merged_spoils_the_sum_for_ever(site) -> None:
    a = site("a", slice(200))
    for n in (MOST_MERGED + 1, 1 << 40):
        answer = a.hears(forged(CAMPAIGN, STRANGER, counted(n), invented(n)), STRANGER)
        assert refused(answer, "more people than can be")
    assert refused(
        a.hears(forged(CAMPAIGN, STRANGER, counted(9000), invented(90)), STRANGER),
        "a sketch of 90 reports is not that of 9,000",
    )
    empty = forged(CAMPAIGN, STRANGER, counted(9000), Sketch())
    assert refused(a.hears(empty, STRANGER), "has none")
    most = forged(CAMPAIGN, STRANGER, counted(MOST_MERGED), invented(MOST_MERGED))
    assert a.hears(most, STRANGER).json["merged"] == 1  # its sender may lie about itself
    a.take(slice(200, 300))
    assert a.people == MOST_MERGED + 300
    another = forged(CAMPAIGN, "f" * 16, counted(1000), invented(1000))
    assert refused(a.hears(another, "f" * 16), "more people than can be")
    with closing(open_store(a.collector.store)) as store:
        assert remove(store, "merging", STRANGER) == MOST_MERGED
    assert a.people == 300  # its own are all there
    assert a.hears(another, "f" * 16).json["merged"] == 1


@pytest.mark.slow
def test_no_forged_tally_makes_estimates_fail(tmp_path) -> None:
    """Counters of every kind of question, at the ends of what is possible and anywhere between."""
    campaign, random = campaign_of(PETS), np.random.default_rng(1)
    with running(tmp_path / "store.db", PETS, measured=False) as server:
        server.share(KEY)
        token = server.token("merge", sources=[STRANGER])
        accepted = 0
        for n, about in ((7, "participants"), (1 << 20, "population"), (1 << 38, "participants")):
            for form in ("json", "csv", "json"):
                body = forged(campaign, STRANGER, _any_tallies(campaign, n, random), invented(n))
                answer = server.post("/v1/campaigns/pets/tally", body, OCTETS, token)
                assert answer.status in (200, 409)
                accepted += answer.status == 200
                path = f"/v1/campaigns/pets/estimates?format={form}&about={about}"
                assert server.get(path).status in (200, 409)
                assert server.get("/v1/campaigns/pets/status").status == 200
                with closing(open_store(server.store)) as store:
                    store.drop_merged(store.key_of(campaign.digest) or 0, STRANGER)
        assert accepted > 4


def _any_tallies(campaign: SurveyCampaign, n: int, random: np.random.Generator) -> list[Tally]:
    """Tallies of n reports with two entries each that a program can write, honest or not."""
    half = n // 2
    shares = [n, n, 0, 0] if random.random() < 0.5 else [half, half, n - half, n - half]
    found = []
    for law, share in zip(campaign.frame.cells, random.permutation(shares).tolist(), strict=True):
        counts = np.zeros(law.counters, dtype=np.int64)
        places = random.choice(law.counters, random.integers(1, law.counters + 1), replace=False)
        counts[places] = [share // len(places)] * len(places)
        counts[places[0]] += share - counts.sum()
        try:
            found.append(Tally(law, counts, share))
        except FormatError:
            found.append(Tally(law, np.full(law.counters, share // 2), share))
    return found
