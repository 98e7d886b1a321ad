"""PrivUnit: the exact law report by report, no bias beyond what is said, bugs that must be seen."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import binom, chi2

from murmuration import Tally, mechanism, seeded_rng, system_rng
from murmuration.errors import FormatError, InputError, PromiseError, ReportError
from murmuration.exact.randomness import WHOLE, Rng, ScriptedRng
from murmuration.exact.table import Table
from murmuration.mechanisms.vector.directions import COORDINATES, HADAMARD, SCALE
from murmuration.mechanisms.vector.privunit import PrivUnit

TINY = PrivUnit(epsilon=1.0, d=2, candidates=4, keep=1)
MASK = (1 << 64) - 1


def splitmix(state: int) -> int:
    """One output, from Steele, Lea, Flood 2014, in Python's integers."""
    z = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & MASK
    return z ^ (z >> 31)


def octets(m: PrivUnit, seed: int, base: int) -> list[int]:
    """A vector's bytes, one word at a time."""
    words = -(-m.d // 16) * 2
    states = [(seed << 32) + (base * words + w + 1) * 0x9E3779B97F4A7C15 for w in range(words)]
    return [octet for z in states for octet in splitmix(z & MASK).to_bytes(8, "little")]


def turned(vector: list[int]) -> list[int]:
    """Every 16 coordinates times a Hadamard matrix."""
    return [
        sum((-1) ** (i & j % 16).bit_count() * vector[j // 16 * 16 + i] for i in range(16))
        for j in range(len(vector))
    ]


def signs(m: PrivUnit, seed: int) -> list[int]:
    return [1 if octet >= 128 else -1 for octet in octets(m, seed, m.size // 2)]


def candidate(m: PrivUnit, seed: int, number: int) -> list[int]:
    """A candidate's coordinates, turned."""
    sign = 1 if number < m.size // 2 else -1
    return [sign * int(COORDINATES[octet]) for octet in octets(m, seed, number % (m.size // 2))]


def turned_back(m: PrivUnit, seed: int, number: int) -> list[int]:
    pairs = zip(turned(candidate(m, seed, number)), signs(m, seed), strict=True)
    return [a * b for a, b in pairs][: m.d]


def ordered(m: PrivUnit, seed: int, u: np.ndarray) -> list[int]:
    """The candidates, nearest to u first, equal ones by number."""
    fine = [round(x * 2**30) for x in u.tolist()] + [0] * (-m.d % 16)
    flipped = [a * b for a, b in zip(fine, signs(m, seed), strict=True)]
    aim = [round(x * (m.unit / 2**32)) for x in turned(flipped)]
    product = {
        c: sum(a * b for a, b in zip(candidate(m, seed, c), aim, strict=True))
        for c in range(m.size)
    }
    return sorted(product, key=lambda c: (-product[c], c))


def words_of(seed: int, signs: list[int], ranks: list[int]) -> np.ndarray:
    """Three words a person: seed, sign and rank; the last two are numbers of 52 bits."""
    words = np.zeros((len(ranks), 3), dtype=np.uint64)
    words[:, 0] = seed << 32
    words[:, 1] = np.array(signs, dtype=np.uint64) << np.uint64(12)
    words[:, 2] = np.array(ranks, dtype=np.uint64) << np.uint64(12)
    return words.ravel()


def sent_on(m: PrivUnit, u: np.ndarray, seed: int, signs: list[int], ranks: list[int]) -> list[int]:
    """The candidates that a device at u sends on these words."""
    rows = m.privatize(np.tile(u, (len(ranks), 1)), ScriptedRng(words_of(seed, signs, ranks)))
    assert (rows[:, :4].copy().view("<u4")[:, 0] == seed).all()
    return rows[:, 4].tolist()


def law_at(m: PrivUnit, u: np.ndarray, seed: int, sign: int = 0) -> dict[int, Fraction]:
    """Each candidate's probability, run on both ends of every interval of words."""
    ends = [0, *m.ranks.cumulative[0].tolist()]
    starts = sent_on(m, u, seed, [sign] * m.size, ends[:-1])
    stops = sent_on(m, u, seed, [sign] * m.size, [end - 1 for end in ends[1:]])
    assert starts == stops
    assert sorted(starts) == list(range(m.size))
    sizes = np.diff(ends).tolist()
    return {c: Fraction(size, WHOLE) for c, size in zip(starts, sizes, strict=True)}


DIRECTIONS = [np.array([math.cos(t), math.sin(t)]) for t in np.linspace(0, 2 * math.pi, 24)]


def check_law(m: PrivUnit) -> None:
    """Over directions, no candidate is more than the said ratio as likely, and one is that."""
    for seed in (0, 1, 2**32 - 1):
        laws = [law_at(m, 0.999 * u, seed) for u in DIRECTIONS]
        worst = max(a[c] / b[c] for c in range(m.size) for a in laws for b in laws)
        assert worst == m.loss().ratio
        assert m.loss().holds


def check_sign(m: PrivUnit) -> None:
    """A vector of length r goes forward on exactly (1 + r) 2^51 of the words."""
    for r in (0.3, 0.001, 0.999):
        u, last = np.array([0.0, r]), round((1 + r) * 2**51)
        forward, backward = (sent_on(m, s * u / r, 7, [0], [5])[0] for s in (1, -1))
        assert forward != backward
        assert sent_on(m, u, 7, [last - 1, last], [5, 5]) == [forward, backward]


def departures(m: PrivUnit, u: np.ndarray, n: int = 60_000) -> np.ndarray:
    """How many standard errors each mean is off when everybody is at u."""
    found = m.estimate(m.tally(m.privatize(np.tile(u, (n, 1)), seeded_rng(8))))
    return (found.value - u) / found.stderr


def check_bias(m: PrivUnit) -> None:
    u = np.linspace(1, 2, m.d)
    assert np.abs(departures(m, u / np.linalg.norm(u))).max() < 4.5


# --- the law -----------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 2.0, 4.0, 8.0])
@pytest.mark.parametrize("d", [2, 10, 90, 200])
@pytest.mark.parametrize("candidates", [2, 16, 128, 512, 2048])
def test_the_exact_loss_is_epsilon(epsilon: float, d: int, candidates: int) -> None:
    m = PrivUnit(epsilon, d=d, candidates=candidates)
    assert m.loss().holds
    assert epsilon - 1e-5 < m.loss().epsilon <= epsilon
    weights = m.ranks.weights[0].tolist()
    assert sum(weights) == WHOLE
    assert len(set(weights[: m.near])) == 1
    assert max(weights[m.near :]) - min(weights[m.near :]) <= 1


def test_the_coordinates_are_the_means_of_the_cells_of_a_normal_law() -> None:
    density = np.exp(-(ndtri(np.arange(257) / 256) ** 2) / 2)
    means = density[:-1] - density[1:]
    assert (np.rint(means * 127 / means[-1]) == COORDINATES).all()
    assert (-COORDINATES[::-1] == COORDINATES).all()


@pytest.mark.parametrize(
    "m",
    [TINY, PrivUnit(2.0, d=2, candidates=8), PrivUnit(0.5, d=2, candidates=16, keep=5)],
    ids=str,
)
def test_the_law_enumerated(m: PrivUnit) -> None:
    check_law(m)
    check_sign(m)


def test_short_vectors_and_equal_products_keep_the_law() -> None:
    """Two vectors mix the laws of two directions each: never easier to tell apart."""
    for u in (np.zeros(2), np.array([1e-200, 0]), np.array([0.3, 0.0]), np.array([0.0, -1.0])):
        for sign in (0, WHOLE - 1):
            law = law_at(TINY, u, 5, sign)
            assert max(law.values()) / min(law.values()) == TINY.loss().ratio


def test_candidates_follow_their_law_for_each_seed() -> None:
    n, u = 20_000, np.array([0.6, -0.8])
    for seed in (3, 4_000_000_000):
        ranks = (seeded_rng(seed).words(n) >> np.uint64(12)).tolist()
        counts = np.bincount(sent_on(TINY, u, seed, [0] * n, ranks), minlength=4)
        expected = n * TINY.ranks.probabilities[0]
        score = ((counts[ordered(TINY, seed, u)] - expected) ** 2 / expected).sum()
        assert chi2.sf(score, 3) > 1e-5


@pytest.mark.parametrize("d", [1, 3, 8, 21])
def test_the_device_is_the_one_in_plain_integers(d: int) -> None:
    m = PrivUnit(2.0, d=d, candidates=16)
    u = np.random.default_rng(d).normal(size=d)
    u /= math.sqrt(np.square(u).sum())
    u = np.array([0.6, -0.8, 0.0][:d]) if 1 < d < 4 else np.sign(u) if d == 1 else u
    for seed in (0, 12345, 2**32 - 1):
        starts = [0, *m.ranks.cumulative[0].tolist()][:-1]
        sent = sent_on(m, u, seed, [0] * m.size, starts)
        assert sent == ordered(m, seed, u)
        rows = np.array([[*seed.to_bytes(4, "little"), c] for c in sent], dtype=np.uint8)
        assert m.vectors(rows).tolist() == [turned_back(m, seed, c) for c in sent]


@pytest.mark.parametrize("d", [1, 2, 16, 17, 90, 200, 1000, 1024])
def test_products_are_exact_in_32_bit_floats(d: int) -> None:
    m = PrivUnit(1.0, d=d)
    padded = -(-d // 16) * 16
    assert 127 * (m.unit * math.sqrt(padded) + padded / 2) < 2**24
    assert m.unit >= 4096


@pytest.mark.parametrize(
    ("epsilon", "candidates"), [(4.9, 128), (5.0, 256), (6.0, 512), (7.0, 1024), (20.0, 1024)]
)
def test_more_candidates_where_they_leave_less_noise(epsilon: float, candidates: int) -> None:
    """Within 5% of what 2,048 leave up to epsilon 8, within 20% beyond."""
    m = PrivUnit(epsilon, d=90)
    assert m.candidates == candidates
    most = PrivUnit(epsilon, d=90, candidates=2048)
    assert m.total_noise() < (1.05 if epsilon <= 8 else 1.2) * most.total_noise()


def test_numbers_of_many_candidates_are_two_bytes() -> None:
    m = PrivUnit(8.0, d=3)
    assert (m.candidates, m.report_bytes) == (1024, 6)
    rows = m.privatize(np.tile([0.6, -0.3, 0.1], (3000, 1)), seeded_rng(2))
    assert (rows[:, 5] > 0).any()
    assert (rows[:, 5] < 4).all()
    assert (m.unpack(m.pack(rows)) == rows).all()
    bad = rows.copy()
    bad[6, 4:] = 0, 4
    with pytest.raises(ReportError, match="report 6 names candidate 1024 of 1024"):
        m.tally(bad)
    for seed in (0, 2**32 - 1):
        row = np.array([[*seed.to_bytes(4, "little"), 0x2B, 0x03]], dtype=np.uint8)
        assert m.vectors(row).tolist() == [turned_back(m, seed, 0x32B)]


def test_one_person_is_many_people() -> None:
    m, crowd = PrivUnit(1.0, d=90), np.random.default_rng(1).normal(0, 0.05, (50, 90))
    words = seeded_rng(4).words(150)
    whole = m.privatize(crowd, ScriptedRng(words))
    single = [
        m.privatize(row, ScriptedRng(words[3 * i : 3 * i + 3])) for i, row in enumerate(crowd)
    ]
    assert (np.concatenate(single) == whole).all()


# --- the estimate ------------------------------------------------------------------------------

D = 6
SHAPES = {
    "axis": np.eye(D)[2],
    "diagonal": np.full(D, -1 / math.sqrt(D)),
    "pair": (np.eye(D)[0] - np.eye(D)[5]) / math.sqrt(2),
    "random": np.array([0.5, -0.3, 0.1, 0.7, -0.2, 0.34]),
    "short": np.array([0.1, 0.2, 0.0, -0.3, 0.05, 0.0]),
    "zero": np.zeros(D),
}


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.5, 2.0, 4.0, 8.0])
@pytest.mark.parametrize("shape", SHAPES)
def test_no_bias(shape: str, epsilon: float) -> None:
    assert np.abs(departures(PrivUnit(epsilon, d=D), SHAPES[shape])).max() < 4.5


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [1.0, 4.0, 8.0])
def test_the_pull_is_the_same_in_all_directions(epsilon: float) -> None:
    """E v given the seed, averaged over seeds: far more exact than reports are."""
    m = PrivUnit(epsilon, d=D)
    seeds = np.arange(30_000 * 128 // m.size, dtype=np.uint64) * np.uint64(99_991)
    shares = m.ranks.probabilities[0]
    weights = (shares - shares[::-1])[: m.size // 2]
    vectors = m.directions.expand(seeds, np.arange(m.size // 2)[None, :]).astype(np.float32)
    for shape in ("axis", "diagonal", "pair", "random", "near an axis"):
        u = SHAPES.get(shape, np.array([1, 0.02, 0, 0, 0, 0])) / 1
        u = u / np.linalg.norm(u)
        products = vectors @ m._aim(seeds, np.tile(u, (len(seeds), 1)), np.ones(1))[:, :, None]
        place = np.argsort(-np.abs(products[:, :, 0]), axis=1)
        lean = np.zeros(place.shape, dtype=np.float32)
        np.put_along_axis(lean, place, np.float32(weights)[None, :], axis=1)
        lean *= np.sign(products[:, :, 0])
        mean = (lean[:, None, :] @ vectors)[:, 0].reshape(-1, 16) @ HADAMARD
        found = mean.reshape(len(seeds), -1)[:, :D] * m.directions.signs(seeds)[:, :D] / m.pull
        slack = 4.5 * found.std(axis=0) / math.sqrt(len(seeds))
        assert (np.abs(found.mean(axis=0) - u) < m.departure + slack).all()


def axis_pull(m: PrivUnit) -> float:
    """E<v, u> on an axis without sampling: there 4<v, u> adds up 16 coordinates."""
    one = np.bincount(COORDINATES.astype(int) + 127, minlength=255) / 256
    law = one
    for _ in range(15):
        law = np.convolve(law, one)
    middle, half = len(law) // 2, m.size // 2
    exceeding = np.cumsum(2 * law[:middle])  # the chance to be beyond, from the far end
    firsts = binom.sf(np.arange(half)[:, None], half, exceeding[None, :]).sum(axis=1)
    shares = m.ranks.probabilities[0]
    return float((shares - shares[::-1])[:half] @ firsts)


@pytest.mark.parametrize(
    ("epsilon", "off"),
    [(0.1, 2e-4), (1.0, 2e-4), (2.0, 2e-4), (4.0, 2e-4), (6.0, 4e-4), (8.0, 7e-4), (20.0, 9e-4)],
)
def test_the_pull_on_an_axis_is_nearly_the_normal_one(epsilon: float, off: float) -> None:
    m = PrivUnit(epsilon, d=5)
    assert abs(axis_pull(m) / m.pull - 1) < off


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.5, 4.0])
@pytest.mark.parametrize("d", [1, 5])
def test_variance_as_predicted(d: int, epsilon: float) -> None:
    m, n = PrivUnit(epsilon, d=d), 100_000
    u = np.sqrt(np.arange(1, d + 1) / (d * (d + 1) / 2))
    reports = m.vectors(m.privatize(np.tile(u, (n, 1)), seeded_rng(9))) / m.pull
    squares = (reports - u) ** 2
    slack = 4.5 * squares.std(axis=0) / math.sqrt(n)
    assert (np.abs(squares.mean(axis=0) - m.variance(u)) < slack + 0.001 * m.variance(u)).all()
    assert (m.variance(u) <= m.worst_variance()).all()
    still = m.vectors(m.privatize(np.zeros((n, d)), seeded_rng(9))) / m.pull
    assert (still**2).sum(axis=1).mean() < 1.01 * m.total_variance()


@pytest.mark.parametrize(
    ("epsilon", "ideal", "cost"),
    [
        (0.5, 2254, 0.02),
        (1, 567, 0.02),
        (2, 145, 0.03),
        (4, 39.5, 0.05),
        (5, 26.6, 0.05),
        (6, 19.5, 0.06),
        (8, 12.4, 0.08),
    ],
)
def test_little_is_lost_against_all_directions_as_candidates(epsilon, ideal, cost) -> None:
    assert ideal < PrivUnit(epsilon, d=90).total_variance() < (1 + cost) * ideal
    kept = PrivUnit(epsilon, d=90)
    for other in (kept.near - 1, kept.near + 1):
        assert PrivUnit(epsilon, d=90, keep=other).pull < kept.pull * (1 + 1e-9)


@pytest.mark.slow
def test_coverage_of_a_crowd_on_an_axis() -> None:
    """Everybody at one place, few people and many, small and large epsilon."""
    for epsilon, n, runs, size in (
        (8.0, 40, 300, 1024),
        (8.0, 4000, 100, 128),
        (1.0, 2000, 200, 128),
    ):
        m, rng = PrivUnit(epsilon, d=3, candidates=size), seeded_rng(12)
        crowd = np.tile([0.0, 1.0, 0.0], (n, 1))
        for about in ("participants", "population"):
            hits = 0
            for _ in range(runs):
                found = m.estimate(m.tally(m.privatize(crowd, rng)), about=about)
                hits += sum(
                    a <= x <= b for x, (a, b) in zip(crowd[0], found.interval(), strict=True)
                )
            assert hits / (3 * runs) > 0.95 - 4.5 * math.sqrt(0.95 * 0.05 / (3 * runs))


# --- refusals ----------------------------------------------------------------------------------


def test_long_vectors_are_refused_and_not_repeated() -> None:
    m = PrivUnit(1.0, d=2)
    for long in ([0.8, 0.61234], [0.7071, 0.7072], [1.0, 0.01]):
        with pytest.raises(InputError, match="at most 1") as caught:
            m.privatize([[0.1, 0.1], long], system_rng())
        assert not any(str(number) in str(caught.value) for number in long)
    rounded = np.full(2, math.sqrt(0.5), dtype=np.float32)
    assert len(m.privatize(rounded[None, :], system_rng())) == 1


def test_the_wire_is_strict() -> None:
    m = PrivUnit(1.0, d=3, candidates=64)
    rows = m.privatize(np.zeros((10, 3)), seeded_rng(1))
    data = m.pack(rows)
    assert len(data) == 50
    assert (m.unpack(data) == rows).all()
    with pytest.raises(FormatError, match="whole number"):
        m.unpack(data[:-1])
    bad = rows.copy()
    bad[6, 4] = 64
    with pytest.raises(ReportError, match="report 6 names candidate 64 of 64"):
        m.unpack(bad.tobytes())
    for wrong in (rows.astype(np.int64), rows[:, :4], rows[0]):
        with pytest.raises(ReportError, match="rows of 5 bytes"):
            m.tally(wrong)


def test_sums_that_nobody_can_have_sent() -> None:
    m = PrivUnit(1.0, d=2)
    tally = m.tally(m.privatize(np.zeros((20, 2)), seeded_rng(1)))
    for place, count in (
        (0, 20 * 2032 + 1),
        (0, -20 * 2032 - 1),
        (2, -1),
        (2, 20 * 2032**2 + 1),
        (3, 0),
    ):
        counts = tally.counts.copy()
        counts[place] = count
        with pytest.raises(FormatError):
            Tally(m, counts, 20)
    assert Tally.from_bytes(tally.to_bytes(), m) == tally


def test_other_candidates_are_another_law() -> None:
    laws = [PrivUnit(1.0, d=2), PrivUnit(1.0, d=3), PrivUnit(1.0, d=2, keep=9), TINY]
    assert len({m.fingerprint for m in laws}) == 4
    assert mechanism("privunit", epsilon=1.0, d=2).fingerprint == laws[0].fingerprint
    assert 160 < SCALE < 180


# --- bugs that must be seen --------------------------------------------------------------------


@dataclass(frozen=True)
class MoreThanE(PrivUnit):
    @property
    def ranks(self) -> Table:
        high = int(1.1 * PrivUnit.ranks.func(self).weights[0, 0])
        low, over = divmod(WHOLE - self.near * high, self.size - self.near)
        return Table(
            np.array([[high] * self.near + [low + over] + [low] * (self.size - self.near - 1)])
        )


@dataclass(frozen=True)
class OneMoreIsNear(PrivUnit):
    def respond(self, rows, rng):
        other = PrivUnit(self.epsilon, self.d, None, self.size, self.near + 1)
        device = other if rows[0, 0] > 0.5 else super()
        return device.respond(rows, rng)


class EightBits(Rng):
    """The sign's word has only eight random bits."""

    simulated = True

    def __init__(self, rng: Rng) -> None:
        self.rng = rng

    def words(self, n: int) -> np.ndarray:
        words = self.rng.words(n).copy()
        words[1::3] &= np.uint64(0xFF << 56)
        return words


@dataclass(frozen=True)
class EightBitSign(PrivUnit):
    def respond(self, rows, rng):
        return super().respond(rows, EightBits(rng))


@dataclass(frozen=True)
class OtherSeedAtTheCollector(PrivUnit):
    def vectors(self, rows):
        return super().vectors(rows ^ np.array([1, 0, 0, 0, 0], dtype=np.uint8))


@dataclass(frozen=True)
class TwoPlaces(PrivUnit):
    """One candidate is in two places of the order, for some vectors."""

    def _ordered(self, seeds, aim):
        order = super()._ordered(seeds, aim).copy()
        order[aim[:, 0] > 0, 0] = order[aim[:, 0] > 0, -1]
        return order


def test_the_bugs_are_seen() -> None:
    fields = (1.0, 2, None, 4, 1)
    with pytest.raises(PromiseError):
        MoreThanE(*fields).privatize([0.5, 0.5], seeded_rng(1))
    assert not MoreThanE(*fields).loss().holds
    for check in (check_law, check_sign, check_bias):
        check(PrivUnit(*fields))
    with pytest.raises(AssertionError):
        check_law(OneMoreIsNear(*fields))
    with pytest.raises(AssertionError):
        check_sign(EightBitSign(*fields))
    with pytest.raises(AssertionError):
        check_bias(OtherSeedAtTheCollector(*fields))
    with pytest.raises(AssertionError):
        check_law(TwoPlaces(*fields))
