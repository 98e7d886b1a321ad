"""Quotients: figures among those who answered, where few did and where nearly all reports agree."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import binom

from murmuration import mechanism, seeded_rng
from murmuration.analysis import answered
from murmuration.exact.arrays import Floats
from murmuration.mechanisms.number.or_none import OrNone
from murmuration.statistics.quotient import quotient

CONFIDENCE, UNLIKELY = 0.95, 1e-4
RUNS = 250


def often_enough(covered: float, runs: int = RUNS) -> bool:
    """Whether so many intervals are no sign, by an exact test, that fewer than 95% hold."""
    return float(binom.cdf(round(covered * runs), runs, CONFIDENCE)) > UNLIKELY


# --- the equation --------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.9, 0.3, 0.15])
@pytest.mark.parametrize("correlation", [-0.7, 0.0, 0.7])
def test_the_ends_are_where_the_equation_says(share: float, correlation: float) -> None:
    """By trying every t; above 0 a smaller quotient needs a larger share, below 0 a smaller one."""
    grid = np.linspace(-40, 40, 400_001)
    for value in (-0.5, -0.02, 0.0, 0.01, 0.2, 0.8):
        sums, sides, of_share = np.array([value]), (0.05, 0.03), (0.1, 0.2)
        arms = (np.array([sides[0]]), np.array([sides[1]]))
        low, high = quotient(sums, share, arms, of_share, np.array([correlation]))
        apart = value - share * grid
        arm = np.where(apart > 0, *sides)
        of_n = np.where((apart > 0) == (grid > 0), of_share[1], of_share[0])
        inside = apart**2 <= arm**2 - 2 * grid * correlation * arm * of_n + (grid * of_n) ** 2
        assert_allclose([low[0], high[0]], [grid[inside].min(), grid[inside].max()], atol=5e-4)


def test_without_a_share_there_are_no_ends() -> None:
    one = np.ones(1)
    low, high = quotient(one, 0.1, (one, one), (0.1, 0.1), 0 * one)
    assert (low[0], high[0]) == (-math.inf, math.inf)


# --- labels --------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [8.0, 10.0])
def test_shares_among_those_who_answered_where_nearly_all_reports_agree(epsilon: float) -> None:
    """By standard errors alone .83 of the shares that answered were held, .88 of those among."""
    n, law, rng = 300, mechanism("subset", epsilon=epsilon, k=7), seeded_rng(4)
    items = np.repeat(np.arange(7), [90, 60, 40, 20, 5, 1, 84])
    shares = np.bincount(items) / n
    found = np.zeros(7)
    for _ in range(RUNS):
        part = answered.estimated([law.tally(law.privatize(items, rng))], "participants", n)
        (low, high), (least, most) = part.among_interval(), part.answered.interval()
        truth = shares[:6] / (1 - shares[6])
        found[:6] += (low <= truth + 1e-12) & (truth - 1e-12 <= high)
        found[6] += least - 1e-12 <= 1 - shares[6] <= most + 1e-12
    assert all(often_enough(covered) for covered in (found / RUNS).tolist())


# --- numbers -------------------------------------------------------------------------------------


def widths_and_cover(
    law: OrNone, crowd: Floats, n: int, about: str, seed: int
) -> tuple[float, float, float]:
    """Return how often the mean is held, and N, and the width in that of the middle 95%."""
    draw, rng = np.random.default_rng(seed), seeded_rng(seed)
    fixed = draw.choice(crowd, n)
    held, widths, errors = np.zeros(2), [], []
    for _ in range(RUNS):
        people = fixed if about == "participants" else draw.choice(crowd, n)
        true = fixed if about == "participants" else crowd
        part = answered.estimated([law.tally(law.privatize(people, rng))], about, n)
        (low, high), share = part.among_interval(), part.answered.interval()
        held[0] += low[0] <= np.nanmean(true) <= high[0]
        held[1] += share[0] <= np.mean(~np.isnan(true)) + 1e-12 <= share[1] + 2e-12
        if np.isfinite(low[0]):
            widths.append(high[0] - low[0])
            errors.append(part.among[0] - np.nanmean(true))
    middle = np.quantile(errors, 0.975) - np.quantile(errors, 0.025)
    return held[0] / RUNS, held[1] / RUNS, float(np.median(widths) / middle)


@pytest.mark.slow
@pytest.mark.parametrize("about", ["participants", "population"])
@pytest.mark.parametrize(
    ("epsilon", "share", "widest"),
    [(2.0, 0.6, 1.3), (4.0, 0.6, 1.35), (4.0, 0.1, 1.5), (8.0, 0.6, 1.6)],
)
def test_means_of_few_are_held_and_no_wider_than_they_need_to_be(
    epsilon: float, share: float, widest: float, about: str
) -> None:
    """Below 1,000 reports their errors were those of the worst case: up to 10 times too wide."""
    draw = np.random.default_rng(3)
    crowd = np.where(draw.random(20_000) < share, 2 * draw.beta(2, 5, 20_000) - 1, math.nan)
    held, answers, width = widths_and_cover(OrNone(epsilon, "optimal"), crowd, 300, about, 5)
    assert often_enough(held)
    assert often_enough(answers)
    assert width < widest


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.0, 0.5])
def test_levels_that_follow_the_answers_are_held_together(share: float) -> None:
    """Who earns much picks the first level: of one level alone the mean among is another one."""
    n, rng, draw = 400, seeded_rng(6), np.random.default_rng(6)
    laws = [OrNone(epsilon, "optimal") for epsilon in (1.5, 4.0)]
    values = np.where(draw.random(n) < share, math.nan, np.linspace(-1, 1, n))
    first = np.nan_to_num(values, nan=0.0) > 0.2
    held = 0
    for _ in range(RUNS):
        tallies = [
            law.tally(law.privatize(values[who], rng))
            for law, who in zip(laws, (first, ~first), strict=True)
        ]
        part = answered.estimated(tallies, "participants", n)
        low, high = part.among_interval()
        held += low[0] <= np.nanmean(values) <= high[0]
    assert often_enough(held / RUNS)


def test_a_mean_has_an_error_wherever_there_is_a_share() -> None:
    """From the first report on, whatever it says; in other units in the same place."""
    law = OrNone(4.0, "optimal")
    for values in ([0.5], [math.nan], [1.0] * 30, [math.nan] * 30 + [0.2]):
        found = law.estimate(law.tally(law.privatize(values, seeded_rng(1))))
        low, high = found.among_interval()
        assert (found.mean is None) == (found.share <= 0)
        if found.mean is not None:
            assert 0 < found.mean.stderr < math.inf
            assert low[0] <= found.among[0] <= high[0]
            scaled = found.scaled(10, 20).among_interval()
            assert_allclose(scaled, 15 + 5 * np.array([low, high]))
