"""The parts of a training, each held against what it is to do."""

from __future__ import annotations

import numpy as np
import pytest

from murmuration.errors import ParameterError
from murmuration.learn import LinearRegression
from murmuration.testing.expected import STANDARD_ERRORS
from murmuration.training.algorithm import factor as factors
from murmuration.training.algorithm.after import Intercept
from murmuration.training.algorithm.before import ask_before
from murmuration.training.algorithm.factor import Predictions
from murmuration.training.algorithm.look import Seen, look, simplex
from murmuration.training.algorithm.losses import objective
from murmuration.training.algorithm.questions import Attribute
from murmuration.training.algorithm.relevance import relevance
from murmuration.training.algorithm.state import Answer, Crowd, Setting, Start
from tests.support.trainings import answered_all

ATTRIBUTES = (Attribute(0), Attribute(1, 2, labels=True), Attribute(3), Attribute(4, 1, True, -1.0))


def people(n: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """A number that uses a tenth of its range, three labels, a number, two labels; a target."""
    draw = np.random.default_rng(seed)
    item = draw.choice(3, n, p=[0.2, 0.5, 0.3])
    x = np.column_stack(
        [
            draw.normal(0.5, 0.1, n).clip(-1, 1),
            *(item == 0, item == 1),
            draw.uniform(-1, 1, n),
            np.where(draw.random(n) < 0.25, 1.0, -1.0),
        ]
    ).astype(float)
    return x, np.clip(draw.normal(0.3, 0.05, n), -1, 1)


def setting(n: int, epsilon: float, **options) -> Setting:
    return Setting(objective("squared"), n, 5, epsilon, attributes=ATTRIBUTES, **options)


def looked(epsilon: float, n: int, seed: int) -> Seen:
    what = setting(n, epsilon)
    seen, _ = answered_all(look(what, Crowd(what)), *people(n, seed), seed)
    return seen


def test_a_look_finds_means_and_spreads() -> None:
    x, _ = people(200_000)
    seen = looked(4.0, 200_000, 1)
    assert np.abs(seen.centre - x.mean(axis=0)).max() < 0.08  # 1,000 people an attribute
    assert np.abs(seen.spread / x.std(axis=0) - 1).max() < 0.15
    scaled = ((x - seen.centre) / seen.scale).std(axis=0)
    assert np.square(scaled).sum() == pytest.approx(1, abs=0.1)
    assert scaled[0] == pytest.approx(scaled[3], rel=0.2)  # numbers are scaled to one spread
    labels = seen.scale[[1, 2, 4]]
    assert labels / labels[0] == pytest.approx([1, 1, 2])  # labels are as they are: 0 or -1, and 1


def test_columns_that_were_not_declared_are_not_scaled_apart() -> None:
    plain = Setting(objective("squared"), 200_000, 5, 4.0)
    seen, _ = answered_all(look(plain, Crowd(plain)), *people(200_000), 1)
    assert seen.scale == pytest.approx(np.full(5, seen.scale[0]))


def test_a_look_that_is_noise_is_drawn_towards_equal_shares() -> None:
    found = np.mean([looked(0.25, 5000, seed).centre for seed in range(8)], axis=0)
    assert np.abs(found[1:3] - 1 / 3).max() < 0.12
    assert all(0 <= looked(0.25, 5000, seed).centre[1] <= 1 for seed in range(8))


def test_no_attribute_is_looked_at_where_they_need_too_many_people() -> None:
    what = setting(3000, 1.0, least=200)
    seen, _ = answered_all(look(what, Crowd(what)), *people(3000), 1)
    assert not seen.centre.any()


def test_attributes_are_those_of_all_columns() -> None:
    for attributes in (ATTRIBUTES[:3], (*ATTRIBUTES, Attribute(5)), ATTRIBUTES[::-1]):
        with pytest.raises(ParameterError, match="5 columns"):
            Setting(objective("squared"), 100, 5, 1.0, attributes=attributes)


@pytest.mark.parametrize("shares", [[0.5, 0.5], [2.0, -1.0, 0.1], [0.0, 0.0, 0.0, 0.0]])
def test_shares_are_shares(shares: list[float]) -> None:
    found = simplex(np.array(shares))
    assert (found >= 0).all()
    assert found.sum() == pytest.approx(1)


def test_the_level_of_a_narrow_target_is_found() -> None:
    """A target that uses a twentieth of its range: within .25 of its own spreads on average."""
    off = []
    for seed in range(10):
        what, (x, y) = setting(20_000, 1.0), people(20_000, seed)
        model, start = answered_all(ask_before(what, Crowd(what)), x, y, seed)
        off.append((float(model.intercept[0]) - 0.3) / 0.05)
        assert 0.02 < start.spread < 0.3
    assert np.sqrt(np.mean(np.square(off))) < 1.0


# --- relevance ---------------------------------------------------------------------------------


def test_attributes_that_say_nothing_become_small() -> None:
    draw, parts = np.random.default_rng(2), [slice(i, i + 1) for i in range(20)]
    truth = np.where(np.arange(20) < 3, 1.0, 0.0)
    read = truth + draw.normal(0, 0.3, 20)
    found = relevance(read[None], np.full(20, 0.09), np.ones(20), parts)
    assert found.max() == 1
    assert found[:3].min() > 1.6 * np.median(found[3:])


def test_where_all_matter_alike_none_becomes_small() -> None:
    """As on simulated people: weights that differ cost more than they save."""
    draw, parts = np.random.default_rng(3), [slice(i, i + 1) for i in range(90)]
    read = draw.normal(0, 1, 90) + draw.normal(0, 0.1, 90)
    found = relevance(read[None], np.full(90, 0.01), np.ones(90), parts)
    assert np.median(found) > 0.3


def test_readings_that_are_noise_leave_columns_alike() -> None:
    draw, parts = np.random.default_rng(4), [slice(i, i + 1) for i in range(30)]
    found = relevance(draw.normal(0, 1, (1, 30)), np.ones(30), np.ones(30), parts)
    assert found.min() > 0.5


# --- the factor --------------------------------------------------------------------------------


def told(kind: str, factor: float, n: int = 400_000) -> tuple[Predictions, float, float, float]:
    """What people answer whose target follows from predictions by a factor."""
    draw, spread = np.random.default_rng(5), 0.4 if kind == "squared" else 0.8
    f = draw.normal(0, spread, n)
    start = Start(np.zeros(1), 0.0, 1.0, 1.0, 0.25, np.array([0.5, 0.5]))
    if kind == "squared":
        y = factor * f + draw.normal(0, np.sqrt(1 - (factor * spread) ** 2), n)
        slope = y
    else:
        y = draw.random(n) < 1 / (1 + np.exp(-factor * f))
        slope = y - 0.5
    what = Setting(objective(kind), n, 5, 1.0)
    predictions = Predictions(what, start, spread, 0.8 * spread)
    most = 0.5 if kind == "squared" else 0.45
    product = np.clip(slope, -most, most) * np.clip(f, -predictions.size, predictions.size)
    return predictions, most, float(product.mean()), float(product.std() / np.sqrt(n))


@pytest.mark.parametrize("kind", ["squared", "logistic"])
@pytest.mark.parametrize("factor", [0.0, 0.5, 1.0, 1.5])
def test_the_expected_product_is_the_one_that_people_answer(kind: str, factor: float) -> None:
    predictions, most, mean, error = told(kind, factor)
    expected = predictions.agreement(most)
    found = float(np.interp(factor, factors.FACTORS, expected))
    assert abs(found - mean) < STANDARD_ERRORS * error + 0.01 * abs(found)


@pytest.mark.parametrize("kind", ["squared", "logistic"])
def test_the_factor_is_read_where_noise_is_small_and_the_prior_where_it_is_not(kind: str) -> None:
    for factor in (0.0, 0.5, 1.0, 1.5):
        predictions, most, mean, _ = told(kind, factor)
        expected = predictions.agreement(most)
        near = factors.updated(factors.prior(), mean, 0.01 * expected[40], expected, 0.02)
        far = factors.updated(factors.prior(), mean, 100 * expected[40], expected, 0.3)
        assert factors.mean_of(near) == pytest.approx(factor, abs=0.08)
        assert factors.mean_of(far) == pytest.approx(factors.mean_of(factors.prior()), abs=0.02)


def test_an_intercept_is_held_against_the_mean_in_the_whole_range() -> None:
    """A mean that is off by as much as targets spread moves it; one within noise hardly does."""
    own = Intercept(np.array([-0.9]), np.array([1e-4]))
    far, near = (
        own.checked(Answer(np.array([mean]), 0.02, 500), 0.3, 0.0) for mean in (-0.6, -0.88)
    )
    assert far.value[0] == pytest.approx(-0.6, abs=0.01)
    assert near.value[0] == pytest.approx(-0.9, abs=0.005)
    assert own.checked(Answer(np.array([]), 0.0), 0.3, 0.0) is own
    unsure = own.checked(Answer(np.array([-0.6]), 0.02, 500), 0.3, 0.3)
    assert unsure.value[0] < -0.8, "predictions may be what is off"


def test_a_number_that_few_have_is_told_no_worse_than_by_its_mean() -> None:
    """Nine in ten have none of it. Seeds 0 to 5 have .008, .002, .007, -.004, .004 and .005."""
    draw, n = np.random.default_rng(5), 80_000
    x = draw.uniform(-1, 1, (n, 5))
    some = draw.random(n) < 1 / (1 + np.exp(3 - 2 * x[:, 0]))
    y = np.where(some, draw.uniform(-1, 1, n), -1.0)
    fits = (LinearRegression(4.0, random_state=s).fit(x[:60_000], y[:60_000]) for s in range(3))
    assert min(fit.score(x[60_000:], y[60_000:]) for fit in fits) > -0.01
