"""Frequency mechanisms against their laws, enumerated report by report from the definitions.

`LAWS` says, independently of the sampling code, how likely each report is; the integers are the
mechanism's own. The exact loss, p and q must follow from it, and the device must draw from it.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2

from murmuration import Tally, mechanism, seeded_rng, system_rng
from murmuration.errors import (
    FormatError,
    InputError,
    MismatchError,
    ParameterError,
    ReportError,
)
from murmuration.exact.randomness import WHOLE, Rng
from murmuration.mechanisms.item import bassily_smith, olh
from murmuration.mechanisms.item.base import Labels, walsh_hadamard
from murmuration.mechanisms.item.oue import Oue
from murmuration.mechanisms.item.subset import Subset

CONVERTED = ("grr", "sue", "oue", "subset", "hadamard", "hadamard-response", "projective", "olh")


def make(name: str, epsilon: float, k: int):
    extra = {"people": max(4, round(12 / epsilon**2))} if name == "bassily-smith" and k < 8 else {}
    return mechanism(name, epsilon=epsilon, k=k, **extra)


# --- the laws --------------------------------------------------------------------------------


def grr_law(m, v):
    return {(y,): Fraction(m.truth if y == v else m.lie, WHOLE) for y in range(m.k)}


def memoised_law(m, v):
    """Every permanent answer, times the law of a report about it."""
    memory = grr_law(m.memory, v)
    kept, swapped = Fraction(m.keep, WHOLE), Fraction(m.swap, WHOLE)
    return {
        (y,): sum(memory[a,] * (kept if y == a else swapped) for a in range(m.k))
        for y in range(m.k)
    }


def unary_law(m, v):
    law = {}
    for bits in itertools.product((0, 1), repeat=m.k):
        rates = [m.p if j == v else m.q for j in range(m.k)]
        chance = math.prod(r if b else 1 - r for b, r in zip(bits, rates, strict=True))
        law[bits] = chance
    return law


def subset_law(m, v):
    law = {}
    for members in itertools.combinations(range(m.k), m.w):
        bits = tuple(int(j in members) for j in range(m.k))
        sets = math.comb(m.k - 1, m.w - 1) if v in members else math.comb(m.k - 1, m.w)
        law[bits] = (m.p if v in members else 1 - m.p) / sets
    return law


def entry(i: int, j: int) -> int:
    return bin(i & j).count("1") % 2


def hadamard_law(m, v):
    rows = range(m.rows)
    return {
        (2 * row + bit,): (m.p if bit == entry(row, v) else 1 - m.p) / m.rows
        for row in rows
        for bit in (0, 1)
    }


def response_law(m, v):
    half = Fraction(2, m.symbols)
    return {(y,): half * (1 - m.p if entry(y, v + 1) else m.p) for y in range(m.symbols)}


def projective_law(m, v):
    r, _ = m.space
    points = m.coordinates.tolist()
    on = [sum(a * b for a, b in zip(point, points[v], strict=True)) % r == 0 for point in points]
    inside, outside = m.p / sum(on), (1 - m.p) / (len(on) - sum(on))
    return {(y,): inside if hit else outside for y, hit in enumerate(on)}


def olh_law(m, v):
    law = {}
    for a, b in itertools.product(range(m.prime), repeat=2):
        own = (a * v + b) % m.prime * m.g // m.prime
        for cell in range(m.g):
            law[a, b, cell] = (m.p if cell == own else m.response.q) / m.prime**2
    return law


def projection_law(m, v):
    return {
        (2 * row + bit,): (
            m.p
            if bit == int(bassily_smith.signs(m.seed, np.array([row]), np.array([v]))[0])
            else 1 - m.p
        )
        / m.rows
        for row in range(m.rows)
        for bit in (0, 1)
    }


def converted_law(m, v):
    """Keep each report or make it any report; of bits, keep each bit or toss it."""
    law = LAWS[m.inner](m.source, v)
    for keep in m.keeps:
        part = Fraction(keep, WHOLE)
        if m.inner in ("sue", "oue"):
            law = {
                y: sum(
                    law[z]
                    * math.prod(
                        (1 + part) / 2 if a == b else (1 - part) / 2
                        for a, b in zip(y, z, strict=True)
                    )
                    for z in law
                )
                for y in law
            }
        else:
            law = {y: part * chance + (1 - part) / len(law) for y, chance in law.items()}
    return law


LAWS = {
    "converted": converted_law,
    "grr": grr_law,
    "sue": unary_law,
    "oue": unary_law,
    "subset": subset_law,
    "hadamard": hadamard_law,
    "hadamard-response": response_law,
    "projective": projective_law,
    "olh": olh_law,
    "bassily-smith": projection_law,
    "memoised": memoised_law,
}


NAMES = sorted(LAWS)


@pytest.fixture(autouse=True)
def small_prime(monkeypatch, request):
    """Hash modulo 13 where the law is enumerated."""
    if "enumerated" in request.keywords:
        monkeypatch.setattr(olh.Olh, "prime", 13)


def symbols_of(m, reports) -> dict[tuple[int, ...], int]:
    """Reports as the laws write them, and how often each came."""
    rows = np.asarray(reports)
    if getattr(m, "inner", m.name) in ("sue", "oue", "subset"):
        rows = np.unpackbits(rows, axis=1, count=m.k, bitorder="little")
    different, counts = np.unique(rows.reshape(len(rows), -1), axis=0, return_counts=True)
    return dict(zip(map(tuple, different.tolist()), counts.tolist(), strict=True))


def check_device_draws_from_the_law(m, values=(0, 2, 4), n: int = 60_000) -> None:
    for v in values:
        law = LAWS[m.name](m, v)
        drawn = symbols_of(m, m.privatize(np.full(n, v), seeded_rng(100 + v)))
        assert set(drawn) <= set(law)
        counts = np.array([drawn.get(report, 0) for report in law])
        expected = n * np.array([float(chance) for chance in law.values()])
        statistic = float(((counts - expected) ** 2 / expected).sum())
        assert chi2.sf(statistic, len(law) - 1) > 1e-5, (m, v)


@pytest.mark.enumerated
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("name", NAMES)
def test_the_loss_is_that_of_the_enumerated_law(name: str, epsilon: float) -> None:
    m = make(name, epsilon, 5)
    laws = [LAWS[name](m, v) for v in range(m.k)]
    assert all(sum(law.values()) == 1 for law in laws)
    worst = max(a[y] / b[y] for y in laws[0] for a in laws for b in laws)
    assert worst <= m.loss().ratio
    assert name == "bassily-smith" or worst == m.loss().ratio
    assert m.loss().holds
    assert epsilon - 1e-5 < m.loss().epsilon <= epsilon


@pytest.mark.slow
@pytest.mark.enumerated
@pytest.mark.parametrize("epsilon", [0.5, 3.0])
@pytest.mark.parametrize("name", [name for name in NAMES if name != "bassily-smith"])
def test_p_and_q_are_those_of_the_enumerated_law(name: str, epsilon: float) -> None:
    """Count each possible report once and read its support: E[support] must be p and q exactly."""
    m = make(name, epsilon, 5)
    reports = list(LAWS[name](m, 0))
    rows = np.array(reports)
    if name in ("sue", "oue", "subset"):
        rows = np.packbits(rows.astype(np.uint8), axis=1, bitorder="little")
    supports = [
        m.support(
            m.tally(
                rows[i : i + 1].ravel()
                if rows.shape[1] == 1 and name not in ("sue", "oue", "subset")
                else rows[i : i + 1]
            )
        )
        for i in range(len(rows))
    ]
    for v in range(m.k):
        law = LAWS[name](m, v)
        for w in range(m.k):
            rate = sum(law[y] * int(s[w]) for y, s in zip(reports, supports, strict=True))
            assert rate == (m.p if v == w else m.q)


@pytest.mark.slow
@pytest.mark.enumerated
@pytest.mark.parametrize("epsilon", [0.5, 3.0])
@pytest.mark.parametrize("name", NAMES)
def test_the_device_draws_from_the_law(name: str, epsilon: float) -> None:
    check_device_draws_from_the_law(make(name, epsilon, 5))


@pytest.mark.enumerated
@pytest.mark.parametrize("inner", CONVERTED)
def test_the_loss_of_converted_reports_is_that_of_the_enumerated_law(inner: str) -> None:
    """Two steps down; the loss, p and the drawn reports are those of every report counted."""
    m = mechanism("converted", epsilon=0.5, k=4, inner=inner, steps=(2.0, 1.0))
    laws = [converted_law(m, v) for v in range(m.k)]
    assert all(sum(law.values()) == 1 for law in laws)
    worst = max(a[y] / b[y] for y in laws[0] for a in laws for b in laws)
    assert worst == m.loss().ratio
    assert m.loss().holds
    assert m.loss().epsilon > 0.5 - 1e-5
    check_device_draws_from_the_law(m, values=(0, 3), n=20_000)


# --- estimates -------------------------------------------------------------------------------

CROWD = np.minimum(np.random.default_rng(5).geometric(0.3, 20_000) - 1, 11)
SHARES = np.bincount(CROWD, minlength=24) / len(CROWD)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
@pytest.mark.parametrize("name", NAMES)
def test_coverage_of_seen_and_unseen_items(name: str, epsilon: float) -> None:
    """Items 12 to 23 are never seen; their intervals hold 0 as often as they say."""
    m = make(name, epsilon, 24)
    rng, runs, level = seeded_rng(7), 100, 0.9
    inside = np.zeros(24)
    together = 0
    errors = []
    for run in range(runs):
        if name == "bassily-smith":  # unbiased over its public matrices
            m = mechanism(name, epsilon=epsilon, k=24, people=len(CROWD), seed=run)
        estimate = m.estimate(m.tally(m.privatize(CROWD, rng)))
        low, high = estimate.interval(level)
        inside += (low <= SHARES) & (high >= SHARES)
        low, high = estimate.simultaneous(level)
        together += ((low <= SHARES) & (high >= SHARES)).all()
        errors.append((estimate.value - SHARES) / estimate.stderr)
    slack = 4.5 * math.sqrt(
        level * (1 - level) / (runs * 12)
    )  # items of one run nearly independent
    for group in (slice(0, 12), slice(12, 24)):
        share = inside[group].mean() / runs
        assert share > level - slack
        assert share < level + slack or name == "bassily-smith"
    assert together / runs > level - 4.5 * math.sqrt(level * (1 - level) / runs)
    assert np.abs(np.mean(errors, axis=0)).max() < 4.5 / math.sqrt(runs)
    scale = 0.85 if name == "bassily-smith" else 1.0
    assert np.mean(np.square(errors)) == pytest.approx(scale, abs=0.15)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_population_intervals_are_wider(name: str) -> None:
    m = make(name, 4.0, 24)
    tally = m.tally(m.privatize(CROWD, seeded_rng(1)))
    people, population = m.estimate(tally), m.estimate(tally, about="population")
    assert (population.stderr[:4] > people.stderr[:4]).all()
    assert (population.value == people.value).all()


@pytest.mark.parametrize("name", NAMES)
def test_bad_items_and_reports_are_refused(name: str) -> None:
    m = make(name, 1.0, 21)
    for bad in ([21], [-1], [0.5], [[1]], ["a"], [True]):
        with pytest.raises(InputError):
            m.privatize(bad, system_rng())
    good = np.asarray(m.privatize([3, 4, 5], system_rng()))
    assert len(m.privatize([], system_rng())) == 0
    with pytest.raises((ReportError, FormatError)):
        m.unpack(m.pack(good)[:-1] if m.report_bytes > 1 else b"\xff" * 3)
    for bad in (good.astype(np.float64), np.full_like(good, np.iinfo(good.dtype).max)):
        with pytest.raises(ReportError):
            m.tally(bad)
    with pytest.raises(InputError):
        m.variance([1.5])
    for k in (1, 0, -3, 2.5, None, True, 10**9):
        with pytest.raises(ParameterError):
            mechanism(name, epsilon=1.0, k=k)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_many_items(name: str) -> None:
    """100,000 items where it scales: the hash and the matrix are slow there, the bits are wide."""
    k = {"olh": 2000, "bassily-smith": 2000, "sue": 20_000, "oue": 20_000, "subset": 20_000}.get(
        name, 100_000
    )
    m = make(name, 2.0, k)
    items = np.random.default_rng(1).integers(0, k, 1500)
    items[:500] = k - 1
    estimate = m.estimate(m.tally(m.privatize(items, seeded_rng(3))))
    error = estimate.value[-1] - (items == k - 1).mean()
    assert abs(error) < 4.5 * estimate.stderr[-1]


def test_sets_of_another_size_are_no_tally_of_subset() -> None:
    m = make("subset", 1.0, 16)
    with pytest.raises(FormatError, match="cannot have"):
        Tally(m, np.full(16, 100), 100)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "epsilon", "n", "holders"),
    [("oue", 4.0, 10, 2), ("oue", 8.0, 1000, 2), ("hadamard", 8.0, 10, 9), ("grr", 4.0, 30, 5)],
)
def test_coverage_of_small_crowds(name: str, epsilon: float, n: int, holders: int) -> None:
    m, runs, hits, rng = make(name, epsilon, 64 if name != "grr" else 8), 400, 0, seeded_rng(3)
    crowd = np.repeat([0, 1], [holders, n - holders])
    for _ in range(runs):
        low, high = m.estimate(m.tally(m.privatize(crowd, rng))).interval(0.95)
        hits += low[0] <= holders / n <= high[0]
    assert hits / runs > 0.95 - 4.5 * math.sqrt(0.95 * 0.05 / runs)


def test_more_reports_than_planned_do_not_hide_the_leak() -> None:
    hits = runs = 0
    for seed in range(40):
        m = mechanism("bassily-smith", epsilon=1.0, k=16, people=1000, seed=seed * 7919 + 1)
        found = m.estimate(m.tally(m.privatize(np.zeros(50_000, dtype=int), seeded_rng(seed))))
        low, high = found.interval(0.9)
        hits += int(((low <= 0) & (high >= 0))[1:].sum())
        runs += 15
    assert hits / runs > 0.9 - 4.5 * math.sqrt(0.09 / runs)


class CountingRng(Rng):
    """A seeded stream behind a given first word, which is the coin that protects the item."""

    def __init__(self, seed: int, first: int) -> None:
        self.rest, self.first, self.used = seeded_rng(seed), first, 0

    def words(self, n: int):
        drawn = self.rest.words(n).copy()
        if n and not self.used:
            drawn[0] = self.first
        self.used += n
        return drawn


@pytest.mark.slow
@pytest.mark.parametrize("name", ["subset", "projective"])
@pytest.mark.parametrize("k", [3, 16, 100])
def test_the_number_of_words_does_not_tell_the_coin(name: str, k: int) -> None:
    m = make(name, 1.0, k)
    for seed in range(200):
        coins = [CountingRng(seed, first) for first in (0, 2**64 - 1)]
        for rng in coins:
            m.privatize([k - 1], rng)
        assert coins[0].used == coins[1].used


def test_labels_at_the_edge() -> None:
    phones = Labels(["android", "ios", "other"])
    m = make("grr", 3.0, 3)
    items = phones.items(["ios"] * 3000 + ["other"] * 1000)
    shares = phones.read(m.estimate(m.tally(m.privatize(items, seeded_rng(1)))))
    assert list(shares) == ["android", "ios", "other"]
    value, low, high = shares["ios"]
    assert low < 0.75 < high
    assert low < value < high
    with pytest.raises(InputError) as refused:
        phones.items(["ios", "my secret phone"])
    assert "secret" not in str(refused.value)
    with pytest.raises(MismatchError, match="3 items"):
        phones.read(make("grr", 1.0, 5).estimate(make("grr", 1.0, 5).tally([0])))
    assert "items" in str(make("grr", 1.0, 24).estimate(make("grr", 1.0, 24).tally([0])))
    for level in (0, -0.5, 1, 1.5):
        with pytest.raises(ParameterError, match="confidence level"):
            m.estimate(m.tally([0])).simultaneous(level)
    for wrong in ((), ("a",), ("a", "a"), (["a"], ["b"])):
        with pytest.raises(ParameterError):
            Labels(wrong)


# --- planted bugs ----------------------------------------------------------------------------


class LowestOthers(Subset):
    """Fills the set with the lowest items instead of random ones."""

    def _fill(self, rows, missing, rng):
        bits = np.unpackbits(rows, axis=1, count=self.k, bitorder="little")
        for row, size in zip(bits, missing, strict=True):
            row[np.flatnonzero(row == 0)[:size]] = 1
        rows[:] = np.packbits(bits, axis=1, bitorder="little")


class LoadedCoins(Subset):
    """Starts from coins that like low items."""

    def _coins(self, items, rng):
        rows = super()._coins(items, rng)
        rows[:, 0] |= (rng.words(len(items)) >> np.uint64(63)).astype(np.uint8)
        return rows


class EightBits(Oue):
    @property
    def no(self):
        return super().no >> 24 << 24


class SwappedForOneItem(Oue):
    def respond(self, items, rng):
        return super().respond(np.where(items == 2, 3, np.where(items == 3, 2, items)), rng)


class OnlyTheTruth(Oue):
    """The own bit is always set."""

    yes = (1 << 32) - 1


@pytest.mark.slow
@pytest.mark.parametrize("bug", [LowestOthers, LoadedCoins, SwappedForOneItem])
def test_a_planted_sampler_is_caught(bug) -> None:
    with pytest.raises((AssertionError, KeyError)):
        check_device_draws_from_the_law(bug(epsilon=1.0, k=5))


@pytest.mark.parametrize("bug", [EightBits, OnlyTheTruth])
def test_a_planted_law_is_caught(bug) -> None:
    loss = bug(epsilon=1.0, k=5).loss()
    assert not (loss.holds and loss.epsilon > 1 - 1e-5)


def test_the_transform_is_its_own_inverse() -> None:
    vector = np.arange(16)
    assert (walsh_hadamard(walsh_hadamard(vector)) == 16 * vector).all()
