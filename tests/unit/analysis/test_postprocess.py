"""Processed histograms: what they are, what they gain, and that their intervals keep their word."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq

from murmuration import mechanism, seeded_rng
from murmuration.analysis import postprocess
from murmuration.analysis.postprocess import (
    base_cut,
    bayes,
    exact_update,
    project_simplex,
    support_update,
)
from murmuration.errors import EmptyError, MismatchError, ParameterError
from murmuration.results.estimate import About, FrequencyEstimate
from tests.unit.mechanisms.test_frequency import LAWS, NAMES, make

STANDARD_ERRORS = 4.5
ONE_SYMBOL = [name for name in NAMES if make(name, 1.0, 5).channel() is not None]
CROWD = np.minimum(np.random.default_rng(5).geometric(0.3, 20_000) - 1, 11)


def zipf(k: int, power: float = 1.2) -> np.ndarray:
    weights = np.arange(1, k + 1) ** -power
    return weights / weights.sum()


def shares_of(items: np.ndarray, k: int) -> np.ndarray:
    return np.bincount(items, minlength=k) / len(items)


def collect(m, items: np.ndarray, seed: int):
    return m.tally(m.privatize(items, seeded_rng(1_000_000 + seed)))


def by_hand(value, noise: float | None = 0.1) -> FrequencyEstimate:
    value = np.asarray(value, dtype=np.float64)
    stderr = np.full(len(value), 0.1)
    return FrequencyEstimate(value, stderr, 400, 1.0, About.PARTICIPANTS, noise=noise)


def squared_error(estimate: FrequencyEstimate, truth: np.ndarray) -> float:
    return float(((estimate.value - truth) ** 2).sum())


# --- the projection ----------------------------------------------------------------------------

VALUES = st.lists(st.floats(-50, 50), min_size=2, max_size=40)


@pytest.mark.slow
@given(VALUES)
def test_the_projection_is_the_nearest_histogram(value: list[float]) -> None:
    """The shift is the root of sum max(value - t, 0) = 1, found here by bisection instead."""
    raw = by_hand(value)
    found = project_simplex(raw).value
    t = brentq(lambda t: np.maximum(raw.value - t, 0).sum() - 1, min(value) - 1, max(value))
    assert found == pytest.approx(np.maximum(raw.value - t, 0), abs=1e-9)
    assert found.min() >= 0
    assert found.sum() == pytest.approx(1, abs=1e-12)
    assert project_simplex(by_hand(found)).value == pytest.approx(found, abs=1e-12)


@pytest.mark.slow
@given(VALUES, st.integers(0, 2**32))
def test_the_projection_never_moves_away_from_a_histogram(value: list[float], seed: int) -> None:
    truth = np.random.default_rng(seed).dirichlet(np.full(len(value), 0.3))
    raw = by_hand(value)
    assert squared_error(project_simplex(raw), truth) <= squared_error(raw, truth) + 1e-9


# epsilon: the ratio on 80 runs with other seeds (stderr 0.007 or less), an independent one.
RATIOS = {0.5: (0.309, 0.29), 1.0: (0.458, 0.50), 2.0: (0.653, 0.68)}


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", RATIOS)
def test_the_error_falls_as_predicted(epsilon: float) -> None:
    """Zipf 1.2, k=128, n=1e5, subset selection."""
    m, n, runs = mechanism("subset", epsilon=epsilon, k=128), 100_000, 8
    found = []
    for run in range(runs):
        items = np.random.default_rng(run).choice(128, n, p=zipf(128))
        tally, truth = collect(m, items, run), shares_of(items, 128)
        raw = m.estimate(tally)
        shown = [raw, project_simplex(raw), bayes(m, tally)]
        found.append([squared_error(estimate, truth) for estimate in shown])
    errors = np.array(found)
    before, after, updated = errors.mean(axis=0)
    noise = STANDARD_ERRORS * math.sqrt(2 / 128 / runs)  # of a sum of 128 squares, in `runs` runs
    assert before * n / m.total_variance() == pytest.approx(1, abs=noise)
    ratio, (measured, sheet) = after / before, RATIOS[epsilon]
    stderr = (errors[:, 1] - ratio * errors[:, 0]).std(ddof=1) / before / math.sqrt(runs)
    assert abs(ratio - measured) < STANDARD_ERRORS * math.hypot(stderr, 0.007)
    assert ratio == pytest.approx(sheet, rel=0.2)
    assert updated < after  # on this crowd; not a law


# --- intervals ---------------------------------------------------------------------------------


def hits(estimate: FrequencyEstimate, truth: np.ndarray, level: float) -> np.ndarray:
    low, high = estimate.interval(level)
    return (low <= truth) & (truth <= high)


@pytest.mark.slow
@pytest.mark.parametrize("n", [60, 20_000])
@pytest.mark.parametrize(("name", "epsilon"), [("grr", 3.0), ("subset", 1.0), ("oue", 0.5)])
def test_coverage_after_processing(name: str, epsilon: float, n: int) -> None:
    """Items 12 to 23 are never seen. Theirs can only miss by being too high: half as often."""
    m, runs, level = make(name, epsilon, 24), 120, 0.9
    truth = shares_of(CROWD[:n], 24)
    inside, together = [], []
    for run in range(runs):
        tidy = project_simplex(m.estimate(collect(m, CROWD[:n], run)))
        inside.append(hits(tidy, truth, level))
        low, high = tidy.simultaneous(level)
        together.append(((low <= truth) & (truth <= high)).all())
    for seen, promised in ((truth > 0, level), (truth == 0, (1 + level) / 2)):
        share = np.mean(np.array(inside)[:, seen])
        slack = STANDARD_ERRORS * math.sqrt(promised * (1 - promised) / (runs * seen.sum()))
        assert share > promised - slack, (seen.sum(), share)
        assert share < promised + slack or n < 1000, (seen.sum(), share)
    assert np.mean(together) > level - STANDARD_ERRORS * math.sqrt(level * (1 - level) / runs)


@pytest.mark.parametrize("about", ["participants", "population"])
def test_processing_loses_no_coverage_in_any_run(about: str) -> None:
    """Where the raw interval holds the truth, so does the processed one; and it is never longer."""
    m = make("subset", 1.0, 24)
    truth = shares_of(CROWD[:300], 24)
    for run in range(40):
        tally = collect(m, CROWD[:300], run)
        raw = m.estimate(tally, about)
        for tidy in (project_simplex(raw), base_cut(raw), bayes(m, tally, about=about)):
            low, high = tidy.interval(0.5)
            assert (low >= 0).all()
            assert (low <= high).all()
            assert (high <= 1).all()
            assert (high - low <= raw.interval(0.5)[1] - raw.interval(0.5)[0] + 1e-12).all()
            assert (hits(tidy, truth, 0.5) >= hits(raw, truth, 0.5)).all()
            assert tidy.about == raw.about == about


def test_an_interval_outside_becomes_the_nearer_end() -> None:
    low, high = project_simplex(by_hand([-3.0, 0.5, 4.0])).interval()
    assert low.tolist() == pytest.approx([0, 0.304, 1], abs=1e-3)
    assert high.tolist() == pytest.approx([0, 0.696, 1], abs=1e-3)


def test_steps_are_named_and_the_raw_estimate_is_kept() -> None:
    raw = by_hand([0.8, 0.4, 0.2, -0.3])
    both = project_simplex(base_cut(raw))
    assert both.steps == ("base_cut", "project_simplex")
    assert both.raw is raw
    assert raw.steps == ()
    assert raw.raw is None
    assert (both.stderr == raw.stderr).all()
    assert raw.value.tolist() == [0.8, 0.4, 0.2, -0.3]


# --- the cut -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["grr", "oue", "hadamard"])
def test_the_cut_leaves_no_item_that_nobody_has(name: str) -> None:
    """100 of 128 items have nobody; all of them must go, in `level` of the runs."""
    m, runs, level = mechanism(name, epsilon=2.0, k=128), 120, 0.8
    items = np.random.default_rng(3).choice(28, 4000, p=zipf(28))
    clean = []
    for run in range(runs):
        cut = base_cut(m.estimate(collect(m, items, run)), level)
        clean.append(not cut.value[28:].any())
        assert cut.value[0] > 0
    assert np.mean(clean) > level - STANDARD_ERRORS * math.sqrt(level * (1 - level) / runs)


@pytest.mark.parametrize("used", [8, 128])
def test_the_cut_helps_when_few_items_are_in_use_and_hurts_when_all_are(used: int) -> None:
    m = mechanism("hadamard", epsilon=2.0, k=128)
    items = np.random.default_rng(1).integers(0, used, 100_000)
    raw, truth = m.estimate(collect(m, items, 0)), shares_of(items, 128)
    ratio = squared_error(base_cut(raw), truth) / squared_error(raw, truth)
    assert ratio < 0.5 if used == 8 else ratio > 2


def test_the_cut_keeps_values_as_they_are() -> None:
    raw = by_hand([0.75, 0.24, 0.22, -0.5])  # thresholds 2.498 * 0.1 and 2.241 * 0.1
    assert base_cut(raw).value.tolist() == [0.75, 0, 0, 0]
    assert base_cut(raw, 0.9).value.tolist() == [0.75, 0.24, 0, 0]
    with pytest.raises(ParameterError, match="noise"):
        base_cut(by_hand([0.75, 0.25], noise=None))
    with pytest.raises(ParameterError, match="confidence"):
        base_cut(raw, 1.0)


@pytest.mark.parametrize("name", NAMES)
def test_the_noise_is_the_standard_error_of_an_absent_item(name: str) -> None:
    m = make(name, 1.0, 24)
    estimate = m.estimate(collect(m, CROWD, 1))
    below = estimate.value <= 0
    assert below.any()
    assert estimate.stderr[below] == pytest.approx(estimate.noise, rel=1e-3)


# --- Bayesian updating -------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("k", [5, 24])
@pytest.mark.parametrize("name", ONE_SYMBOL)
def test_the_channel_is_the_enumerated_law(name: str, k: int) -> None:
    m = make(name, 1.0, k)
    laws = [LAWS[name](m, v) for v in range(m.k)]
    law = [[float(law[y,]) for y in range(m.symbols)] for law in laws]
    assert m.channel() == pytest.approx(np.array(law), rel=1e-14)


def test_which_mechanisms_have_a_channel() -> None:
    expected = {"grr", "hadamard", "hadamard-response", "memoised", "projective"}
    assert expected == set(ONE_SYMBOL)


@pytest.mark.parametrize("name", ONE_SYMBOL)
def test_a_channel_that_is_too_large_is_refused_before_it_is_made(name: str) -> None:
    m = mechanism(name, epsilon=1.0, k=100_000)
    tally = m.tally(np.zeros(3, dtype=np.uint8))
    with pytest.raises(ParameterError, match=r"100,000 x .* more than 4,000,000: use project"):
        bayes(m, tally)


@pytest.mark.parametrize("name", NAMES)
def test_bayes_explains_the_reports(name: str) -> None:
    """A histogram, nearer to the truth than the raw estimate, from every mechanism's tally."""
    m = make(name, 1.0, 24)
    tally, truth = collect(m, CROWD, 2), shares_of(CROWD, 24)
    found = bayes(m, tally)
    assert found.value.min() >= 0
    assert found.value.sum() == pytest.approx(1)
    assert found.steps == ("bayes",)
    assert squared_error(found, truth) < squared_error(m.estimate(tally), truth)


@pytest.mark.parametrize("name", ONE_SYMBOL)
def test_exact_updates_never_lower_the_likelihood(name: str) -> None:
    m = make(name, 1.0, 24)
    tally = collect(m, CROWD[:500], 3)
    update = exact_update(m.channel(), tally)
    shares, likelihoods = np.full(24, 1 / 24), []
    for _ in range(300):
        shares, likelihood = update(shares)
        likelihoods.append(likelihood)
    assert np.diff(likelihoods).min() > -1e-9
    logs = np.log(m.channel().T @ np.full(24, 1 / 24))
    assert likelihoods[0] == pytest.approx(float(tally.counts @ logs))


@pytest.mark.parametrize("name", ["grr", "subset", "sue", "olh"])
def test_updates_from_support_stay_at_the_truth(name: str, monkeypatch) -> None:
    """With exactly the support that is expected at f, the step from f leads to f."""
    m, shares = make(name, 1.0, 24), zipf(24)
    expected = 1000 * (float(m.q) + float(m.p - m.q) * shares)
    monkeypatch.setattr(type(m), "support", lambda self, tally: expected)
    update = support_update(m, m.tally(m.privatize(np.zeros(1000, dtype=int), seeded_rng(1))))
    assert update(shares)[0] == pytest.approx(shares, rel=1e-12)
    assert update(zipf(24, 1.3))[0] != pytest.approx(shares, rel=1e-3)


@pytest.mark.parametrize("name", ["grr", "subset"])
def test_bayes_leads_to_the_raw_estimate_where_that_is_a_histogram(name: str, monkeypatch) -> None:
    monkeypatch.setattr(postprocess, "LEAST_GAIN", 1e-12)
    m = make(name, 3.0, 4)
    items = np.repeat(np.arange(4), [4000, 3000, 2000, 1000])
    tally = collect(m, items, 4)
    raw = m.estimate(tally)
    assert raw.value.min() > 0
    assert raw.value.sum() == pytest.approx(1, abs=1e-9)  # both send sets of one size
    assert bayes(m, tally).value == pytest.approx(raw.value, abs=1e-6)


def test_updating_from_support_is_close_to_exact_updating() -> None:
    """On randomised response both are possible: they differ by much less than the noise."""
    m = make("grr", 2.0, 24)
    tally = collect(m, CROWD, 5)
    exact = postprocess._repeat(exact_update(m.channel(), tally), 24, 5000)
    support = postprocess._repeat(support_update(m, tally), 24, 5000)
    assert (np.abs(exact - support) < 0.5 * m.estimate(tally).stderr).all()


def test_a_slow_start_is_no_reason_to_stop() -> None:
    """Randomised response over many items: the first gains are far below the limit, and rise."""
    m = mechanism("grr", epsilon=0.5, k=128)
    items = np.random.default_rng(0).choice(128, 100_000, p=zipf(128))
    tally = collect(m, items, 0)
    update = exact_update(m.channel(), tally)
    start, first, last = (
        update(shares)[1]
        for shares in (np.full(128, 1 / 128), bayes(m, tally, steps=1).value, bayes(m, tally).value)
    )
    assert 0 < first - start < postprocess.LEAST_GAIN
    assert last - start > 10


def test_bayes_refuses() -> None:
    m = make("grr", 1.0, 4)
    tally = m.tally([0, 1, 2])
    for steps in (0, -1, 1.5, True, None):
        with pytest.raises(ParameterError, match="steps"):
            bayes(m, tally, steps=steps)
    with pytest.raises(EmptyError):
        bayes(m, m.empty())
    with pytest.raises(MismatchError):
        bayes(dataclasses.replace(m, epsilon=2.0), tally)
    with pytest.raises(ParameterError, match="items"):
        bayes(mechanism("duchi", epsilon=1.0), tally)


def test_only_a_histogram_can_be_projected() -> None:
    m = mechanism("harmony", epsilon=1.0, d=2)
    found = m.estimate(m.tally(m.privatize(np.zeros((50, 2)), seeded_rng(1))))
    assert str(found).startswith("0: ")
    with pytest.raises(ParameterError, match="one attribute"):
        project_simplex(found)
