"""Sharing one epsilon out, against the published numbers and an optimiser that knows nothing."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from murmuration.errors import ParameterError
from murmuration.mechanisms.item.sue import Sue
from murmuration.planning import allocate

SIZES = [5, 10, 15, 20, 25]
RULES = [allocate.equal, allocate.cube_root, allocate.optimal]


def slope(k, e):
    """k V'(e) by the quotient rule on V = s/(s-1)^2, s = e^(e/2): not the code's formula."""
    s = np.exp(e / 2)
    return -np.asarray(k) * s * (s + 1) / (2 * (s - 1) ** 3)


sizes_of_a_campaign = st.lists(st.integers(2, 100_000), min_size=1, max_size=12)


@pytest.mark.slow
@settings(max_examples=60, deadline=None, derandomize=True)
@given(k=sizes_of_a_campaign, log_epsilon=st.floats(math.log(1e-3), math.log(20)))
def test_shares_add_up_and_never_to_more(k, log_epsilon) -> None:
    epsilon = math.exp(log_epsilon)
    for rule in RULES:
        shares = rule(k, epsilon)
        exact = sum(map(Fraction, shares.tolist()))
        assert epsilon * (1 - 1e-13) < exact <= Fraction(epsilon)
        assert max(float(shares.sum()), sum(shares.tolist()), math.fsum(shares)) <= epsilon
        assert (shares > 0).all()


@settings(max_examples=60, deadline=None, derandomize=True)
@given(k=sizes_of_a_campaign, log_epsilon=st.floats(math.log(0.01), math.log(20)))
def test_the_optimum_satisfies_the_lagrange_condition(k, log_epsilon) -> None:
    epsilon = math.exp(log_epsilon)
    shares = allocate.optimal(k, epsilon)
    slopes = slope(k, shares)
    assert slopes.max() == pytest.approx(slopes.min(), rel=1e-7)
    best = allocate.summed_variance(k, shares)
    for rule in (allocate.equal, allocate.cube_root):
        assert best <= allocate.summed_variance(k, rule(k, epsilon)) * (1 + 1e-12)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 6.0, 10.0, 40.0])
def test_the_optimum_is_what_a_blind_optimiser_finds(epsilon) -> None:
    def error(logits):
        shares = np.exp(logits) / np.exp(logits).sum() * epsilon
        return math.log(allocate.summed_variance(SIZES, shares))

    found = minimize(error, np.zeros(5), method="Nelder-Mead", options={"maxfev": 4000})
    best = allocate.summed_variance(SIZES, allocate.optimal(SIZES, epsilon))
    assert best == pytest.approx(math.exp(found.fun), rel=1e-5)
    assert best <= math.exp(found.fun) * (1 + 1e-12)


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1, 2, 4, 6])
def test_gain_over_equal_and_over_the_cube_root_rule(epsilon) -> None:
    """Worked out independently: 8.6 to 8.8%, and four equal digits up to epsilon 6."""
    even, rule, best = (allocate.summed_variance(SIZES, f(SIZES, epsilon)) for f in RULES)
    assert 0.0855 < 1 - best / even < 0.0885
    assert rule == pytest.approx(best, rel=1e-4)


def test_summed_variance_is_that_of_the_mechanism() -> None:
    shares = allocate.optimal(SIZES, 6.0)
    pairs = zip(SIZES, shares.tolist(), strict=True)
    exact = sum(Sue(epsilon=e, k=k).total_variance() for k, e in pairs)
    assert allocate.summed_variance(SIZES, shares) == pytest.approx(exact, rel=1e-6)


@pytest.mark.parametrize(
    ("epsilon", "split", "subset", "sampled"),
    [(1, 6852, None, 1104), (6, 184, None, 20), (10, 62.7, 36.5, 18.2)],
)
def test_advice_has_the_published_numbers(epsilon, split, subset, sampled) -> None:
    advice = allocate.advise(SIZES, epsilon)
    assert advice.split_unary == pytest.approx(split, rel=0.003)
    assert subset is None or advice.split_subset == pytest.approx(subset, rel=0.003)
    assert advice.sampled == pytest.approx(sampled, rel=0.006)
    assert advice.better == "sample"
    assert advice.gain == advice.split / advice.sampled
    assert str(advice).startswith("ask each person one attribute")


def test_splitting_wins_when_epsilon_is_large_and_ties_are_splits() -> None:
    large = allocate.advise([2, 2], 20.0)
    assert large.better == "split"
    assert large.split < large.sampled
    assert "split epsilon" in str(large)
    alone = allocate.advise([10], 1.0)
    assert alone.better == "split"
    assert alone.gain == pytest.approx(1)
    tiny = allocate.advise([2] * 20, 0.01)  # 0.0005 each: no mechanism can be built for that
    assert (tiny.better, tiny.split) == ("sample", math.inf)


@pytest.mark.slow
def test_sampled_error_is_that_of_a_simulated_campaign() -> None:
    """Ask 400 people one of two attributes each, 4000 times, with subset selection."""
    from murmuration import mechanism, seeded_rng

    k, n, runs, epsilon = [3, 6], 402, 1500, 3.0
    advice = allocate.advise(k, epsilon)
    rng = np.random.default_rng(8)
    squares = np.zeros(runs)
    for j, size in enumerate(k):
        m = mechanism("subset", epsilon=epsilon, k=size)
        crowd = np.arange(n) % size
        for run in range(runs):
            asked = crowd[rng.random(n) < advice.probabilities[j]]
            estimate = m.estimate(m.tally(m.privatize(asked, seeded_rng(run))))
            squares[run] += n * ((estimate.value - 1 / size) ** 2).sum()
    error = abs(squares.mean() - advice.sampled)
    assert error < 4 * squares.std() / math.sqrt(runs) + 0.01 * advice.sampled


def test_sampling_is_the_best_choice() -> None:
    costs = np.array([1.0, 5.0, 40.0])
    shares = allocate.sampling(costs)
    assert shares.sum() == pytest.approx(1)
    least = (costs / shares).sum()
    assert least == pytest.approx(np.sqrt(costs).sum() ** 2)
    others = np.random.default_rng(1).dirichlet(np.ones(3), 500)
    assert least <= (costs / others).sum(axis=1).min()


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    ("k", "epsilon", "message"),
    [
        ([], 1.0, "number of items of each attribute"),
        ([1, 5], 1.0, "2 to 1,048,576; got"),
        ([2.5], 1.0, "number of items"),
        ([[2, 3]], 1.0, "number of items"),
        (["a"], 1.0, "number of items"),
        ([2, 1 << 21], 1.0, "2 to 1,048,576"),
        ([2, 3], 0.0, "above 0"),
        ([2, 3], -1.0, "above 0"),
        ([2, 3], math.nan, "above 0"),
        ([2, 3], math.inf, "at most 20 for each attribute"),
        ([2, 3], 41.0, "at most 20 for each attribute"),
        ([2, 3], "much", "above 0"),
        ([2, 3], True, "above 0"),
    ],
)
def test_mistakes_are_named(rule, k, epsilon, message) -> None:
    with pytest.raises(ParameterError, match=message):
        rule(k, epsilon)


def test_other_mistakes_are_named() -> None:
    for shares in ([1.0], [1.0, 0.0], [1.0, math.nan], [[1.0, 1.0]]):
        with pytest.raises(ParameterError, match="one epsilon above 0 for each of 2"):
            allocate.summed_variance([2, 3], shares)
    for costs in ([], [0.0], [-1.0], [math.inf], [[1.0]]):
        with pytest.raises(ParameterError, match="costs are one number above 0"):
            allocate.sampling(costs)
    with pytest.raises(ParameterError, match=r"0\.001 to 20"):
        allocate.advise([2, 3], 30.0)
