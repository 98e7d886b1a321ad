"""Descent by gradients of known noise: how much of it is kept, how far to step, what it brought."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from murmuration.testing.expected import STANDARD_ERRORS
from murmuration.training.algorithm.descent import Leg, largest_step, mixed, noise_kept

CURVES = np.array([0.9, 0.4, 0.1, 0.02])
"""Of a loss that is a square, along each coordinate."""
BEST = np.array([1.0, -0.5, 0.8, 0.3])
"""Where it is least."""


def gradient(w: np.ndarray) -> np.ndarray:
    return CURVES * (w - BEST)


def loss(w: np.ndarray) -> np.ndarray:
    return (CURVES * (w - BEST) ** 2).sum(axis=-1) / 2


def gone(step: float, rounds: int, noise: float = 0.0, draw=None) -> tuple[Leg, np.ndarray]:
    """A leg from 0, and the point at which its last gradient was asked."""
    leg, there = Leg(step, len(BEST)), np.zeros(len(BEST))
    for _ in range(rounds):
        there = leg.point
        error = 0.0 if draw is None else draw.normal(0, noise, len(BEST))
        leg.move(gradient(there) + error, noise)
    return leg, there


def many(step: float, rounds: int, noise: float, seed: int, repeats: int) -> list:
    draw = np.random.default_rng(seed)
    return [gone(step, rounds, noise, draw) for _ in range(repeats)]


# --- noise -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rounds", "step", "curvature"), [(1, 2.0, 0.0), (6, 0.5, 0.0), (6, 0.5, 0.2), (10, 1.5, 0.3)]
)
def test_the_noise_that_is_kept(rounds: int, step: float, curvature: float) -> None:
    """Legs of 20,000 coordinates that are noise and nothing else."""
    many = 20_000
    draw, leg = np.random.default_rng(4), Leg(step, many)
    for _ in range(rounds):
        leg.move(curvature * leg.point + draw.normal(size=many), 1.0)
    expected = noise_kept(rounds, step, curvature)
    assert abs(np.mean(leg.average**2) / expected - 1) < STANDARD_ERRORS * math.sqrt(2 / many)
    assert abs(leg.average.mean()) < STANDARD_ERRORS * math.sqrt(expected / many)


@given(
    rounds=st.integers(1, 12),
    step=st.floats(0.01, 2.0),
    curvature=st.floats(0.0, 1.0),
)
def test_curvature_only_pulls_noise_back(rounds: int, step: float, curvature: float) -> None:
    """As long as the step is one that the curvature allows: 1 / (2 curvature)."""
    allowed = min(step, 1 / (2 * curvature)) if curvature > 0.1 else step
    assert noise_kept(rounds, allowed, curvature) <= noise_kept(rounds, allowed) * (1 + 1e-12)
    assert noise_kept(rounds, 2 * step) == pytest.approx(4 * noise_kept(rounds, step))


@given(
    rounds=st.integers(1, 12),
    allowed=st.floats(1e-6, 1e6),
    curvature=st.floats(0.0, 0.5),
    most=st.floats(0.1, 1.0),
)
def test_the_largest_step_keeps_within_the_allowance(
    rounds: int, allowed: float, curvature: float, most: float
) -> None:
    step = largest_step(rounds, allowed, curvature, most)
    assert 0 <= step <= most
    assert noise_kept(rounds, step, curvature) <= allowed
    longer = step + most * 2.0**-24
    assert step == most or noise_kept(rounds, longer, curvature) > allowed


def test_the_newest_weights_are_two_of_k_plus_one() -> None:
    leg = Leg(1.0, 1)
    path = []
    for slope in (1.0, -2.0, 0.5):
        leg.move(np.array([slope]), 0.0)
        path.append(float(leg.newest[0]))
    assert path == [-1.0, 3.0, 1.5]  # the k-th gradient moves by k steps
    assert [mixed(k) for k in (1, 2, 3)] == [1.0, 2 / 3, 0.5]
    assert leg.average[0] == pytest.approx((1 * path[0] + 2 * path[1] + 3 * path[2]) / 6)
    assert leg.point[0] == pytest.approx(0.6 * leg.average[0] + 0.4 * path[2])


# --- what a leg brings -------------------------------------------------------------------------


def test_without_noise_a_leg_reaches_the_least_loss() -> None:
    """It closes in as the square of the rounds: 2 |best|^2 / (step k (k + 1)) at most."""
    step = 1 / (2 * CURVES.max())
    for rounds in (5, 20, 100, 400):
        leg, _ = gone(step, rounds)
        assert loss(leg.average) <= 2 * (BEST @ BEST) / (step * rounds * (rounds + 1))
    assert np.allclose(leg.average[:3], BEST[:3], atol=0.01)
    assert leg.doubt == 0


@pytest.mark.parametrize("rounds", [1, 2, 7, 40])
def test_without_noise_what_has_fallen_is_the_fall(rounds: int) -> None:
    """Of a square the mean of both ends' gradients is exact, up to where the last was asked."""
    leg, there = gone(0.5, rounds)
    assert leg.fallen == pytest.approx(loss(np.zeros(len(BEST))) - loss(there), abs=1e-12)
    assert leg.rounds == rounds


@pytest.mark.parametrize(
    ("rounds", "noise", "step"),
    [
        (4, 0.05, 0.5),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in ((8, 0.05, 1.0), (8, 0.2, 0.5))),
        pytest.param(10, 1.0, 1.0, marks=pytest.mark.slow),
    ],
)
def test_with_noise_what_has_fallen_is_right_on_average(
    rounds: int, noise: float, step: float
) -> None:
    """And its standard error is known within 15%, from each leg's own moves."""
    legs = many(step, rounds, noise, seed=3, repeats=3000)
    start = loss(np.zeros(len(BEST)))
    off = np.array([leg.fallen - (start - loss(there)) for leg, there in legs])
    told = math.sqrt(np.mean([leg.doubt**2 for leg, _ in legs]))
    assert abs(off.mean()) < STANDARD_ERRORS * off.std() / math.sqrt(len(off))
    assert abs(told / off.std() - 1) < 0.15


def test_noise_not_taken_off_would_be_seen() -> None:
    """The planted bug: what a gradient's own noise adds to the product of it and its move."""

    class Naive(Leg):
        def _count(self, gradient, here, noise) -> None:
            before, there, *_ = self._last
            self.fallen -= float((gradient + before) @ (here - there)) / 2

    draw, off = np.random.default_rng(3), []
    for _ in range(1000):
        leg, there = Naive(0.5, len(BEST)), np.zeros(len(BEST))
        for _ in range(8):
            there = leg.point
            leg.move(gradient(there) + draw.normal(0, 0.2, len(BEST)), 0.2)
        off.append(leg.fallen - (loss(np.zeros(len(BEST))) - loss(there)))
    assert np.mean(off) > 2 * STANDARD_ERRORS * np.std(off) / math.sqrt(len(off))


# --- steepness ---------------------------------------------------------------------------------


def along(leg: Leg) -> float:
    """The true curvature along a leg."""
    return float(CURVES @ leg.average**2 / (leg.average @ leg.average))


def test_steepness_is_the_curvature_along_the_leg() -> None:
    leg, _ = gone(0.5, 6)
    assert leg.steepness(gradient(leg.average), 0.0) == pytest.approx(along(leg))


def test_steepness_bounds_the_curvature_in_nearly_every_leg() -> None:
    """It is two standard errors above on average: 97.7% if they are normal."""
    noise, draw, below, seen = 0.02, np.random.default_rng(5), 0, 0
    for leg, _ in many(0.5, 6, noise, seed=5, repeats=2000):
        told = leg.steepness(gradient(leg.average) + draw.normal(0, noise, len(BEST)), noise)
        if told is not None:
            seen += 1
            below += told < along(leg)
    assert seen > 1900
    assert below / seen < 0.0228 + STANDARD_ERRORS * math.sqrt(0.0228 / seen)


def test_a_leg_that_noise_has_made_says_nothing() -> None:
    assert Leg(0.5, 3).steepness(np.ones(3), 0.1) is None
    draw, told = np.random.default_rng(6), 0
    for _ in range(500):
        leg = Leg(0.5, 20)
        for _ in range(6):
            leg.move(draw.normal(size=20), 1.0)
        told += leg.steepness(draw.normal(size=20), 1.0) is not None
    assert told <= 5
