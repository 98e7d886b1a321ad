"""Tuples: exact loss, no bias, honest intervals, numbers and items mixed."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2

from murmuration import Tally, audit_mechanism, mechanism, seeded_rng, system_rng
from murmuration.errors import (
    EmptyError,
    FormatError,
    InputError,
    MurmurationError,
    ParameterError,
    ReportError,
)
from murmuration.exact.randomness import WHOLE
from murmuration.results.estimate import Estimate, FrequencyEstimate
from tests.support.cases import VECTORS

NAMES = sorted(case.name for case in VECTORS)
HONEST = [name for name in NAMES if name != "duchi-multi-published"]
MIXED = ["harmony", "sampled", "hybrid-composition"]


@pytest.mark.parametrize(("d", "loss"), [(2, 2.099), (4, 1.789), (6, 1.647), (8, 1.561)])
def test_the_published_law_leaks_for_even_d(d: int, loss: float) -> None:
    published = mechanism("duchi-multi-published", epsilon=1.0, d=d)
    assert published.loss().epsilon == pytest.approx(loss, abs=1e-3)
    assert not published.loss().holds
    assert mechanism("duchi-multi-published", epsilon=1.0, d=d + 1).loss().holds


def test_the_published_law_is_biased_and_the_fix_is_not() -> None:
    crowd = np.full((100_000, 2), 0.8)
    for name, bias in (("duchi-multi-published", 0.8 * 1.13), ("duchi-multi", 0.0)):
        chosen = mechanism(name, epsilon=1.0, d=2)
        found = chosen.estimate(chosen.tally(chosen.privatize(crowd, seeded_rng(3))))
        assert np.abs(found.value - 0.8 - bias).max() < 0.05


def corner_law(m, signs):
    """Every corner's probability, from the definition of T+ and T-."""
    law = {}
    d = len(signs)
    for corner in itertools.product((0, 1), repeat=d):
        agree = sum(a == b for a, b in zip(corner, signs, strict=True))
        inside = 2 * agree > d
        chance = Fraction(m.inside if inside else WHOLE - m.inside, WHOLE)
        law[corner] = chance / (m.corners if inside else 2**d - m.corners)
    return law


@pytest.mark.parametrize("name", ["duchi-multi", "duchi-multi-published"])
@pytest.mark.parametrize("d", [3, 4])
def test_corners_follow_their_law(name: str, d: int) -> None:
    m, n = mechanism(name, epsilon=1.0, d=d), 60_000
    laws = [corner_law(m, signs) for signs in itertools.product((0, 1), repeat=d)]
    assert max(a[c] / b[c] for c in laws[0] for a in laws for b in laws) == m.loss().ratio
    rows = m.privatize(np.ones((n, d)), seeded_rng(5))
    corners = np.unpackbits(rows, axis=1, count=d, bitorder="little")
    counts = np.bincount(corners @ (1 << np.arange(d)), minlength=2**d)
    law = corner_law(m, (1,) * d)
    expected = np.array([0.0] * 2**d)
    for corner, chance in law.items():
        expected[sum(bit << j for j, bit in enumerate(corner))] = n * chance
    assert chi2.sf(((counts - expected) ** 2 / expected).sum(), 2**d - 1) > 1e-5


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_block_answers_follow_their_law(size: int) -> None:
    m, n = mechanism("block", epsilon=2.0, d=5, size=size), 60_000
    rows = m.privatize(np.ones((n, 5)), seeded_rng(7))  # at 1 every sign is +
    answers = rows[:, -2].astype(int) | rows[:, -1].astype(int) << 8
    counts = np.bincount(answers, minlength=2**size)
    agree = np.bitwise_count(np.arange(2**size))
    likely = agree >= m.agreements
    share = m.inside / WHOLE
    expected = n * np.where(likely, share / likely.sum(), (1 - share) / (~likely).sum())
    assert chi2.sf(((counts - expected) ** 2 / expected).sum(), 2**size - 1) > 1e-5
    starts = np.bincount(rows[:, 0], minlength=5)
    assert chi2.sf(((starts - n / 5) ** 2 / (n / 5)).sum(), 4) > 1e-5


CROWD = np.clip(np.random.default_rng(2).normal([0.3, -0.6, 0.0, 0.9], 0.4, (6000, 4)), -1, 1)


def fitting(name: str, rows: np.ndarray) -> np.ndarray:
    """The rows, at most 1 long for the mechanism that takes vectors of the unit ball."""
    return rows / 2 if name == "privunit" else rows


@pytest.mark.slow
@pytest.mark.parametrize("name", HONEST)
def test_predicted_variance_of_a_symmetric_crowd(name: str) -> None:
    m, runs, x = mechanism(name, epsilon=2.0, d=4), 150, 0.5
    crowd = np.where(np.arange(2000)[:, None] % 2, x, -x) * np.ones(4)
    rng = seeded_rng(13)
    errors = [m.estimate(m.tally(m.privatize(crowd, rng))).value for _ in range(runs)]
    squares = len(crowd) * np.square(errors).ravel()
    predicted = float(m.variance([x])[0])
    assert abs(squares.mean() - predicted) < 4.5 * squares.std() / math.sqrt(4 * runs)


def mixed_columns(n: int, domains: tuple[int, ...], seed: int = 1) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [
        np.minimum(rng.geometric(0.4, n) - 1, k - 1)
        if k
        else np.clip(rng.normal(0.2, 0.4, n), -1, 1)
        for k in domains
    ]


@pytest.mark.parametrize("name", ["duchi-multi", "block", *MIXED])
def test_standard_errors_are_those_of_the_law(name: str) -> None:
    """All are at one point: what the law predicts there is all that an error can be."""
    m, n, x = mechanism(name, epsilon=1.0, d=4), 20_000, 0.5
    found = m.estimate(m.tally(m.privatize(np.full((n, 4), x), seeded_rng(7))))
    predicted = math.sqrt(m.variance(np.array([x]))[0] / n)
    for part in found.parts:
        assert 0.95 * predicted < part.stderr < 1.01 * predicted
        assert abs(part.value - x) < 4 * predicted


@pytest.mark.parametrize("d", [4, 12])
@pytest.mark.parametrize("name", ["duchi-multi", "block", *MIXED])
def test_the_audit_tries_the_sampler_against_the_law(name: str, d: int) -> None:
    """Every corner of a small cube; of a large one what can be counted."""
    tried = audit_mechanism(mechanism(name, epsilon=1.0, d=d))
    assert tried.tests
    assert tried.sampler_agrees


@pytest.mark.parametrize("name", MIXED)
def test_numbers_and_items_in_one_report(name: str) -> None:
    """Harmony's BR shape: 6 numbers and 12 categorical attributes."""
    domains = (0,) * 6 + (2, 2, 3, 4, 5, 5, 6, 8, 10, 12, 20, 50)
    columns = mixed_columns(60_000, domains)
    m = mechanism(name, epsilon=2.0, domains=domains)
    found = m.estimate(m.tally(m.privatize(columns, seeded_rng(4))))
    assert len(found) == 18
    for j, k in enumerate(domains):
        part = found[j]
        if k:
            assert isinstance(part, FrequencyEstimate)
            truth = np.bincount(columns[j], minlength=k) / len(columns[j])
        else:
            assert isinstance(part, Estimate)
            truth = columns[j].mean()
        assert np.abs((np.asarray(part.value) - truth) / part.stderr).max() < 4.8
    assert isinstance(found.value, list)
    assert isinstance(found.stderr, list)


@pytest.mark.parametrize("name", NAMES)
def test_bad_values_are_refused(name: str) -> None:
    m = mechanism(name, epsilon=1.0, d=3)
    for bad in ([[0.1, 0.2]], [[0.1, 0.2, 1.5]], [[0.1, 0.2, math.nan]], "abc", 0.5):
        with pytest.raises(InputError):
            m.privatize(np.array(bad), system_rng())
    assert len(m.privatize(np.zeros((0, 3)), system_rng())) == 0
    for wrong in (
        {},
        {"d": 0},
        {"d": 2.5},
        {"d": True},
        {"domains": (1,)},
        {"domains": (2.7,)},
        {"domains": "x"},
    ):
        with pytest.raises(ParameterError):
            mechanism(name, epsilon=1.0, **wrong)


@pytest.mark.parametrize("name", ["duchi-multi", "block", "privunit"])
def test_items_need_a_mechanism_that_takes_them(name: str) -> None:
    with pytest.raises(ParameterError, match="numbers only"):
        mechanism(name, epsilon=1.0, domains=(0, 5))


def test_one_bit_travels_when_the_coin_is_public() -> None:
    domains = (0, 5, 100)
    m, columns = mechanism("harmony", epsilon=2.0, domains=domains), mixed_columns(30_000, domains)
    reports = m.privatize(columns, seeded_rng(1), coins=seeded_rng(2))
    sent = np.packbits(m.bits(reports)).tobytes()
    assert len(sent) == 30_000 // 8
    bits = np.unpackbits(np.frombuffer(sent, dtype=np.uint8)).astype(bool)
    again = m.from_bits(bits, coins=seeded_rng(2))
    assert (again == reports).all()
    found = m.estimate(m.tally(again))
    truth = np.bincount(columns[2], minlength=100) / 30_000
    assert np.abs((found[2].value - truth) / found[2].stderr).max() < 4.8
    assert abs(found[0].value - columns[0].mean()) < 4.5 * found[0].stderr
    with pytest.raises(ReportError):
        m.from_bits(np.zeros(3), seeded_rng(2))


def test_rows_columns_and_one_person() -> None:
    m = mechanism("duchi-multi", epsilon=1.0, d=2)
    rows = [[0.5, -0.5], [0.25, 1.0], [0, 0]]
    columns = [np.array([0.5, 0.25, 0]), np.array([-0.5, 1.0, 0])]
    first, second = (m.privatize(values, seeded_rng(1)) for values in (rows, columns))
    assert (first == second).all()
    assert len(m.privatize([0.5, -0.5], seeded_rng(1))) == 1


def test_bad_reports_are_refused() -> None:
    harmony = mechanism("harmony", epsilon=1.0, domains=(0, 0, 5))
    good = harmony.privatize(mixed_columns(50, (0, 0, 5)), seeded_rng(1)).copy()
    for column, value in ((0, 9), (1, 200)):
        bad = good.copy()
        bad[7, column] = value
        with pytest.raises(ReportError):
            harmony.tally(bad)
    pairs = mechanism("sampled", epsilon=2.0, d=4, sample=2, numeric="duchi")
    rows = pairs.privatize(CROWD[:9], seeded_rng(1)).copy()
    rows[:, [0, 2]] = rows[:, [2, 0]]  # descending attributes
    with pytest.raises(ReportError):
        pairs.tally(rows)
    block = mechanism("block", epsilon=2.0, d=4)
    rows = block.privatize(CROWD[:9], seeded_rng(1)).copy()
    for column, value in ((0, 4), (2, 64), (-1, 1)):
        bad = rows.copy()
        bad[3, column] = value
        with pytest.raises(ReportError):
            block.tally(bad)
    with pytest.raises(ReportError):
        block.tally(CROWD)


def test_bad_tallies_are_refused() -> None:
    for name in ("harmony", "block", "sampled"):
        m = mechanism(name, epsilon=1.0, d=3)
        tally = m.tally(m.privatize(np.zeros((20, 3)), seeded_rng(1)))
        counts = tally.counts.copy()
        counts[0] += 1
        with pytest.raises(FormatError):
            Tally(m, counts, tally.n)


def test_answers_about_one_coordinate_only_are_no_tally_of_block() -> None:
    m = mechanism("block", epsilon=4.0, d=10, size=4)
    counts = np.zeros((10, 128), dtype=np.int64)
    counts[0, :4] = 998
    counts[1, 0] = 8
    with pytest.raises(FormatError, match="such answers"):
        Tally(m, counts.ravel(), 1000)


@pytest.mark.slow
def test_one_person_and_few_people() -> None:
    for d, sample in ((1, 1), (2, 2)):
        m = mechanism("sampled", epsilon=8.0, d=d, sample=sample)
        found = m.estimate(m.tally(m.privatize(np.zeros((1, d)), seeded_rng(1))))
        assert np.isfinite(found.stderr).all()
    m, rng, hits, runs = mechanism("sampled", epsilon=8.0, d=4), seeded_rng(2), 0, 300
    crowd = np.where(np.arange(40)[:, None] % 2, 0.9, -0.9) * np.ones(4)
    for _ in range(runs):
        low, high = m.estimate(m.tally(m.privatize(crowd, rng)))[0].interval(0.95)
        hits += low <= 0 <= high
    assert hits / runs > 0.95 - 4.5 * math.sqrt(0.95 * 0.05 / runs)


def test_an_attribute_that_nobody_answered() -> None:
    for name in ("harmony", "block"):
        m = mechanism(name, epsilon=1.0, d=30)
        with pytest.raises(EmptyError, match="nobody"):
            m.estimate(m.tally(m.privatize(np.zeros((1, 30)), seeded_rng(1))))


def test_what_a_tuple_of_items_has_no_answer_for() -> None:
    for name in ("harmony", "hybrid-composition"):
        m = mechanism(name, epsilon=1.0, domains=(3, 4))
        for ask in (lambda m=m: m.variance([0.0]), m.worst_variance):
            with pytest.raises(MurmurationError, match="no attribute is a number"):
                ask()


def test_bad_choices_are_refused() -> None:
    for wrong in (
        {"name": "sampled", "sample": 0},
        {"name": "sampled", "sample": 5},
        {"name": "sampled", "numeric": "grr"},
        {"name": "sampled", "categorical": "duchi"},
        {"name": "sampled", "numeric": "magic"},
        {"name": "block", "size": 9},
        {"name": "block", "kappa": 3},
        {"name": "duchi-multi", "d": 5000},
        {"name": "privunit", "d": 5000},
        {"name": "privunit", "candidates": 3},
        {"name": "privunit", "candidates": 4096},
        {"name": "privunit", "keep": 0},
        {"name": "privunit", "keep": 65},
    ):
        with pytest.raises(ParameterError):
            mechanism(**{"epsilon": 1.0, "d": 4, **wrong})


def test_baselines_of_the_harmony_paper() -> None:
    """Laplace on every number errs in proportion to d; a composite in proportion to the others."""
    laplace = [mechanism("laplace-composition", epsilon=1.0, d=d) for d in (2, 8)]
    assert laplace[1].worst_variance() == pytest.approx(16 * laplace[0].worst_variance(), rel=0.01)
    assert mechanism("harmony", epsilon=1.0, d=8).worst_variance() < laplace[1].worst_variance() / 8
    columns = mixed_columns(6000, (3, 0, 40))
    errors = {}
    for name in ("composite", "harmony"):
        m = mechanism(name, epsilon=3.0, domains=(3, 0, 40))
        errors[name] = m.estimate(m.tally(m.privatize(columns, seeded_rng(5))))[0].stderr.max()
    assert errors["composite"] > 2 * errors["harmony"]
    for bad, why in (
        ({"name": "laplace-composition", "domains": (0, 3)}, "numbers only"),
        ({"name": "composite", "domains": (2000, 2000)}, "4,000,000"),
        ({"name": "composite", "domains": (2, 2), "categorical": "olh"}, "error of sums"),
    ):
        with pytest.raises(ParameterError, match=why):
            mechanism(epsilon=1.0, **bad)


def test_attributes_asked_as_often_as_planned() -> None:
    shares = (0.1, 0.2, 0.7)
    m = mechanism("sampled", epsilon=2.0, domains=(0, 0, 5), shares=shares)
    columns = mixed_columns(40_000, (0, 0, 5))
    tally = m.tally(m.privatize(columns, seeded_rng(3)))
    asked = tally.counts[:3] / tally.n
    assert np.abs(asked - shares).max() < 4.5 * math.sqrt(0.25 / tally.n)
    found = m.estimate(tally)
    for j in range(2):
        assert abs(found[j].value - columns[j].mean()) < 4.5 * found[j].stderr
    whole = mechanism("optimal", epsilon=2.0)
    assert m.variance(0.0) == pytest.approx(10 * whole.variance(0.0))
    for bad in ((0.5, 0.5), (1, 1, 0), (1, 1, math.nan), "abc"):
        with pytest.raises(ParameterError, match="shares"):
            mechanism("sampled", epsilon=2.0, d=3, shares=bad)
    with pytest.raises(ParameterError, match="shares"):
        mechanism("sampled", epsilon=2.0, d=3, sample=2, shares=(1, 1, 1))


def test_auto_is_what_the_planner_says() -> None:
    assert mechanism("auto", 0.5).name in ("optimal", "dithered")
    assert mechanism("auto", epsilon=1.0, k=3).name == "grr"
    assert mechanism("auto", epsilon=1.0, k=200).name == "subset"
    for wrong in ({}, {"epsilon": 1.0, "colour": 3}, {"epsilon": -1.0}, {"epsilon": 1.0, "k": 1}):
        with pytest.raises(ParameterError):
            mechanism("auto", **wrong)
