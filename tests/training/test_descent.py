"""Descent by gradients of known noise: how much of it is kept, how far it goes, when it stops."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from murmuration.testing.expected import STANDARD_ERRORS
from murmuration.training.algorithm.descent import Descent, mixed, noise_kept
from murmuration.training.algorithm.legs import Along, Cut
from murmuration.training.algorithm.outlook import Outlook

CURVES = np.array([0.9, 0.4, 0.1, 0.02])
"""Of a loss that is a square, along each coordinate."""
BEST = np.array([1.0, -0.5, 0.8, 0.3])
"""Where it is least."""
BOTH = pytest.mark.parametrize("accelerated", [False, True])


def gone(step: float, rounds: int, *, accelerated: bool) -> Descent:
    """A leg from 0, without noise."""
    leg = Descent(step, (len(BEST),), accelerated=accelerated)
    for _ in range(rounds):
        leg.move(CURVES * (leg.point - BEST), 1)
    return leg


def loss(w: np.ndarray) -> float:
    return float(CURVES @ (w - BEST) ** 2) / 2


@BOTH
@pytest.mark.parametrize(("rounds", "step"), [(1, 2.0), (6, 0.5), (10, 1.5)])
def test_the_noise_that_is_kept(rounds: int, step: float, accelerated: bool) -> None:
    """Legs of 20,000 coordinates that are noise and nothing else."""
    many, draw = 20_000, np.random.default_rng(4)
    leg = Descent(step, (many,), accelerated=accelerated)
    for _ in range(rounds):
        leg.move(draw.normal(size=many), 1)
    assert abs(np.mean(leg.reached**2) / leg.noise**2 - 1) < STANDARD_ERRORS * math.sqrt(2 / many)
    assert abs(leg.reached.mean()) < STANDARD_ERRORS * leg.noise / math.sqrt(many)
    assert leg.length == pytest.approx(leg.noise * math.sqrt(rounds))


@BOTH
def test_parts_of_gradients_are_what_a_leg_adds_up(accelerated: bool) -> None:
    gradients = np.random.default_rng(1).normal(size=(7, 3))
    leg = Descent(0.3, (3,), accelerated=accelerated)
    for place, gradient in enumerate(gradients, 1):
        leg.move(gradient, 10)
        assert np.allclose(leg.reached, -np.array(leg.parts) @ gradients[:place])
        assert leg.people == [10] * place


@BOTH
def test_without_noise_a_leg_reaches_the_least_loss(accelerated: bool) -> None:
    """An accelerated one closes in as the square of the rounds, a plain one as the rounds."""
    step = 1 / (2 * CURVES.max())
    for rounds in (5, 20, 100, 400):
        leg = gone(step, rounds, accelerated=accelerated)
        falls = rounds * (rounds + 1) / 2 if accelerated else rounds
        assert loss(leg.reached) <= (BEST @ BEST) / (step * falls)


@given(
    length=st.floats(0.0, 1e4),
    rounds=st.integers(1, 40),
    steepest=st.floats(0.3, 1.0),
)
def test_no_step_is_longer_than_the_curvature_allows(
    length: float, rounds: int, steepest: float
) -> None:
    leg = Descent.of(length, rounds, (1,), steepest, 0.25)
    assert leg.step <= (0.5 if leg.accelerated else 0.25) / steepest
    for _ in range(rounds):
        leg.move(np.ones(1), 1)
    assert leg.length <= length * (1 + 1e-9) + 1e-12
    assert leg.accelerated or leg.length == pytest.approx(length)


def test_the_newest_weights_are_two_of_k_plus_one() -> None:
    leg = Descent(1.0, (1,), accelerated=True)
    for slope in (1.0, -2.0, 0.5):
        leg.move(np.array([slope]), 1)
    path = [-1.0, 3.0, 1.5]  # the k-th gradient moves by k steps
    assert [mixed(k) for k in (1, 2, 3)] == [1.0, 2 / 3, 0.5]
    assert leg.reached[0] == pytest.approx((1 * path[0] + 2 * path[1] + 3 * path[2]) / 6)
    assert leg.point[0] == pytest.approx(0.6 * leg.reached[0] + 0.4 * path[2])
    assert noise_kept(3, 2.0) == pytest.approx(4 * noise_kept(3, 1.0))


# --- how far it pays ---------------------------------------------------------------------------


def squared(start: float, curve: float, length: float) -> float:
    return start * (1 + curve * length) ** -2


@pytest.mark.parametrize("noise", [1e-4, 1e-3, 1e-2])
@pytest.mark.parametrize(("start", "curve"), [(0.01, 0.05), (0.05, 0.1)])
def test_it_stops_where_the_gradient_is_its_noise_times_the_length(
    start: float, curve: float, noise: float
) -> None:
    """Once reports have shown how the squared gradient falls: B(t) = noise t, within a third."""
    outlook = Outlook(0.012, 30)
    for length in (0.0, 1.0, 5.0, 20.0, 60.0) * 3:
        outlook.seen(length, squared(start, curve, length), 0.01 * squared(start, curve, length))
    ends = outlook.ahead(0.0, noise).length
    assert squared(start, curve, ends * 1.4) < noise * ends * 1.4
    assert squared(start, curve, ends / 1.4) > noise * ends / 1.4


def test_where_noise_is_all_there_is_it_does_not_go() -> None:
    outlook = Outlook(0.012, 30)
    far = outlook.ahead(0.0, 0.001).length
    for _ in range(4):
        outlook.seen(0.0, -0.002, 0.001)
    assert outlook.ahead(0.0, 0.001).length < 0.5 * far
    assert outlook.ahead(0.0, 1e3).gain < 1e-3


def test_gains_add_up() -> None:
    outlook = Outlook(0.012, 30)
    gained = [outlook.gained(length) for length in (0.0, 1.0, 4.0, 100.0)]
    assert gained[0] == 0
    assert (np.diff(gained) > 0).all()
    assert outlook.gain_and_doubt(4.0)[0] == pytest.approx(gained[2])


def test_late_gradients_say_how_much_too_long_weights_are() -> None:
    """Weights of twice the best length, and of the same direction, which noise has no part in."""
    cut, best, end = Cut(0.4, 0.3), np.array([[1.0, -0.5]]), np.array([[2.0, -1.0]])
    asked = [0.1 * end, 0.5 * end, 0.8 * end, end]
    said = Along.of(asked, [CURVES[:2] * (w - best) for w in asked], 0.1, end, cut)
    assert said is not None
    squares = float(CURVES[:2] @ end[0] ** 2)
    assert said.value == pytest.approx(squares * (said.ratio - 0.5))
    assert said.ratio == pytest.approx(0.9)
    assert said.noise == pytest.approx(0.1 * np.linalg.norm(end) / math.sqrt(2))
    assert Along.of([0 * end], [best], 0.1, end, cut) is None, "asked too early"
    assert Along.of(asked, asked, 0.1, 0 * end, cut) is None, "there is no model"
