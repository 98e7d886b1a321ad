"""Models from randomised gradients: exact privacy, scikit-learn's contract, the promised error."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression as PlainLogistic
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from murmuration import seeded_rng, system_rng
from murmuration.errors import MismatchError, ParameterError, PromiseError
from murmuration.learn import (
    ByAttribute,
    FewRounds,
    LinearRegression,
    LinearSVC,
    LogisticRegression,
    MiniBatches,
    OneByOne,
    Training,
)
from murmuration.learn.papers.gradients import Courier, courier_for, gradient_mechanism
from murmuration.learn.papers.schedule import Plan
from murmuration.testing.expected import STANDARD_ERRORS
from murmuration.training.algorithm.losses import OBJECTIVES, objective

MECHANISMS = [
    "privunit",
    "block",
    "harmony",
    "duchi-multi",
    "sampled",
    "piecewise",
    "hybrid",
    "dithered",
]
GRADED = ByAttribute(0, (5.0, 4.0, 3.0, 2.0, 1.0), (-0.6, -0.2, 0.2, 0.6))


WIDE = (-2.0, 2.0)
"""Of targets: nobody of the simulated people is beyond."""


def linear(d: int, n: int, seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """x uniform in [-1, 1]^d, y = <w, x> + noise of variance .010; y without x has .10.

    A few in a thousand are beyond [-1, 1]: whoever fits them says so, or declares `WIDE`.
    """
    draw = np.random.default_rng(seed)
    w, x = draw.normal(size=d), draw.uniform(-1, 1, (n, d))
    score = x @ w
    return x, score * (0.3 / score.std()) + draw.normal(0, 0.1, n)


def logistic(d: int, n: int, seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Labels drawn with odds e^score; the score's standard deviation is 1.75."""
    draw = np.random.default_rng(seed)
    w, x = draw.normal(size=d), draw.uniform(-1, 1, (n, d))
    score = x @ w
    score *= 1.75 / score.std()
    return x, np.where(draw.random(n) < 1 / (1 + np.exp(-score)), 1, -1)


def split(x: np.ndarray, y: np.ndarray, train: int):
    return x[:train], y[:train], x[train:], y[train:]


# --- losses ------------------------------------------------------------------------------------


def smooth_hinge(scores, y):
    return np.maximum(0, 1 - y * scores) ** 2 / 2


LOSSES = {
    "squared": lambda s, y: (s - y) ** 2,
    "logistic": lambda s, y: np.log1p(np.exp(-y * s)),
    "hinge": lambda s, y: np.maximum(0, 1 - y * s),
}
SMOOTH = {
    "squared": lambda s, y: (s - y) ** 2 / 2,
    "logistic": LOSSES["logistic"],
    "hinge": smooth_hinge,
}


@pytest.mark.parametrize("name", LOSSES)
def test_slopes_are_the_derivatives(name: str) -> None:
    scores, step = np.linspace(-3.01, 2.97, 200), 1e-6
    for y in (-1.0, 1.0):
        targets = np.full(200, y)
        for loss, slope in ((LOSSES, "slope"), (SMOOTH, "smooth")):
            numeric = (loss[name](scores + step, y) - loss[name](scores - step, y)) / (2 * step)
            found = getattr(objective(name), slope)(scores, targets)
            table = (name, slope) == ("logistic", "smooth")  # lines between its entries
            assert np.allclose(found, numeric, atol=5e-5 if table else 1e-6)
        assert np.allclose(objective(name).loss(scores, targets), LOSSES[name](scores, targets))


def test_slopes_of_several_classes_are_the_derivatives() -> None:
    draw, step = np.random.default_rng(2), 1e-6
    scores, y, several = draw.normal(0, 2, (100, 4)), draw.integers(0, 4, 100), objective("softmax")
    shares = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    assert np.allclose(several.loss(scores, y), -np.log(shares[np.arange(100), y]))
    for place in range(4):
        move = step * np.eye(4)[place]
        numeric = (several.loss(scores + move, y) - several.loss(scores - move, y)) / (2 * step)
        assert np.allclose(several.slope(scores, y)[:, place], numeric, atol=1e-6)
        assert np.allclose(several.smooth(scores, y)[:, place], numeric, atol=1e-6)


def test_every_objective_is_tested() -> None:
    assert set(OBJECTIVES) == {*LOSSES, "softmax"}


def test_an_unknown_loss_is_refused() -> None:
    with pytest.raises(ParameterError, match="squared, logistic, hinge"):
        objective("absolute")


# --- gradients ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_every_gradient_mechanism_keeps_epsilon_exactly(name: str, epsilon: float) -> None:
    loss = gradient_mechanism(name, epsilon, 12).loss()
    assert loss.holds
    assert epsilon - 2e-5 < loss.epsilon <= epsilon


@pytest.mark.slow
@pytest.mark.parametrize("name", [*MECHANISMS, "dct", GRADED], ids=str)
def test_the_mean_gradient_is_unbiased(name) -> None:
    courier = courier_for(name, 2.0, 6, lambda d, ball: 0.7)
    draw = np.random.default_rng(5)
    n = 40_000
    gradients = np.clip(draw.normal([0.1, -0.2, 0, 0.05, 0.2, 0], 0.1, (n, 6)), -0.25, 0.25)
    x = draw.uniform(-1, 1, (n, 6))
    assert np.allclose(courier.clipped(gradients), gradients / 0.7)  # none is clipped
    found = courier.read(courier.mechanism.tally(courier.send(gradients, x, seeded_rng(7))))
    bound = 0.7 * math.sqrt(courier.mechanism.worst_variance() / n)
    assert (np.abs(found - gradients.mean(axis=0)) < STANDARD_ERRORS * bound).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["harmony", "block", "sampled", "privunit", GRADED], ids=str)
def test_one_report_is_already_unbiased(name) -> None:
    """The mean over many single reports: coordinates that were not asked about count as 0."""
    courier = courier_for(name, 3.0, 3, lambda d, ball: 1.0)
    gradient, people = np.array([[0.5, -0.25, 0.1]]), 2000
    many = np.repeat(gradient, people, axis=0)
    reports, tally = courier.send(many, many, seeded_rng(9)), courier.mechanism.tally
    found = np.array([courier.read(tally(reports[i : i + 1])) for i in range(people)])
    spread = found.std(axis=0) / math.sqrt(len(found))
    assert (np.abs(found.mean(axis=0) - gradient[0]) < STANDARD_ERRORS * spread).all()


def test_clipping_by_coordinate_and_by_length() -> None:
    wild = np.array([[3.0, -0.2], [0.1, 0.1], [0.0, -9.0]])
    box = Courier(gradient_mechanism("block", 1.0, 2), 0.5).clipped(wild)
    assert box.tolist() == [[1.0, -0.4], [0.2, 0.2], [0.0, -1.0]]
    ball = Courier(gradient_mechanism("privunit", 1.0, 2), 0.5).clipped(wild)
    assert (np.linalg.norm(ball, axis=1) <= 1).all()
    assert np.allclose(ball[0] / ball[0, 0], wild[0] / wild[0, 0])
    assert np.allclose(ball[1], 0.2)


def test_what_is_no_gradient_mechanism_is_refused() -> None:
    for name in ("grr", "nothing"):
        with pytest.raises(ParameterError, match="gradients"):
            gradient_mechanism(name, 1.0, 3)


# --- hiera's gradients -------------------------------------------------------------------------


def test_hieras_gradients_cost_more_than_they_claim() -> None:
    mechanism = GRADED.mechanism(0.1, 4)
    loss = mechanism.loss()
    assert not loss.holds
    assert loss.claimed == 0.5
    assert loss.epsilon > 0.5
    with pytest.raises(PromiseError):
        mechanism.privatize(np.zeros((1, 5)), system_rng())
    for bad in ([[9, 0, 0]], [[0, 0, 99]]):
        with pytest.raises(ValueError, match="outside the alphabet"):
            mechanism.tally(np.array(bad, dtype=np.uint8))
    assert len(mechanism.estimate(mechanism.tally(np.zeros((3, 3), dtype=np.uint8)))) == 4
    with pytest.raises(ParameterError, match="feature's number"):
        ByAttribute("age", (1.0,), ()).mechanism(1.0, 3)


def test_hieras_grades_follow_the_attribute() -> None:
    """People of the most private range keep their grade with that range's probability."""
    mechanism = ByAttribute(0, (8.0, 1.0), (0.0,)).mechanism(1.0, 2)
    n = 40_000
    for attribute, budget, grade in ((-0.5, 8.0, 0), (0.5, 1.0, 1)):
        rows = np.column_stack([np.full(n, attribute), np.zeros((n, 2))])
        sent = mechanism.privatize(rows, seeded_rng(3))[:, 2] // 2
        share = math.exp(budget) / (math.exp(budget) + 1)
        bound = STANDARD_ERRORS * math.sqrt(share * (1 - share) / n) + 1e-9
        assert abs((sent == grade).mean() - share) < bound


# --- schedules ---------------------------------------------------------------------------------


def courier(d: int, epsilon: float = 1.0, name: str = "harmony") -> Courier:
    return courier_for(name, epsilon, d, FewRounds().clip_for)


def test_the_papers_batches() -> None:
    plan = MiniBatches().plan(100_000, 1.0, courier(90))
    assert plan.batches[0] == math.ceil(2 * 90 * math.log(90))
    assert plan.steps[3] == 0.5
    assert plan.tail == 1
    assert sum(plan.batches) <= 100_000
    assert MiniBatches().plan(1_000_000, 4.0, courier(2, 4.0)).batches[0] == 1000
    assert MiniBatches().clip_for(50, True) == OneByOne().clip_for(5, False) == 1.0


def test_everybody_is_asked_once_and_steps_fit_the_noise() -> None:
    unit = courier(25, 1.0, "privunit")
    assert unit.clip == pytest.approx(0.5)
    plan = FewRounds().plan(100_003, 1.0, unit)
    assert sum(plan.batches) == 100_003
    assert max(plan.batches) - min(plan.batches) <= 1
    noise = plan.steps[0] * unit.clip * math.sqrt(unit.noise * 20 / 100_003)
    assert noise == pytest.approx(0.09)
    far = FewRounds().plan(10**9, 1.0, unit)
    assert far.steps[0] * unit.clip == pytest.approx(0.15 * 5)  # more people, no longer steps
    assert FewRounds().plan(3, 1.0, unit).batches == (1, 1, 1)
    assert OneByOne().plan(4, 1.0, unit).batches == (1, 1, 1, 1)


@pytest.mark.parametrize(
    "make",
    [
        lambda: FewRounds(rounds=0),
        lambda: FewRounds(clip=0.0),
        lambda: FewRounds(clip=math.inf),
        lambda: FewRounds(noise="a"),
        lambda: FewRounds(tail=1.5),
        lambda: FewRounds(noise=0.0),
        lambda: FewRounds(centre=1.0),
        lambda: MiniBatches(rate=0.0),
        lambda: OneByOne(clip=-1.0),
        lambda: Plan((), (), 1),
        lambda: Plan((5,), (1.0,), 2),
    ],
)
def test_bad_schedules_are_refused(make) -> None:
    with pytest.raises(ParameterError):
        make()


# --- rounds ------------------------------------------------------------------------------------


def training(rounds: int = 4, people: int = 8000) -> Training:
    courier = courier_for("block", 4.0, 3, lambda d, ball: 0.5)
    plan = FewRounds(rounds).plan(people, 4.0, courier)
    return Training(objective("squared"), courier, plan, penalty=0.01)


def test_rounds_by_hand_are_the_estimators_fit() -> None:
    """The collector's loop over HTTP will be this loop; two collectors' tallies add up."""
    x, y = linear(3, 8000)
    run, rng, start = training(), seeded_rng(1), 0
    while (model := run.next_round()) is not None:
        assert run.next_round() is model  # asked again, it is the same round
        people = slice(start, start + model.people)
        half = start + model.people // 2
        east = run.tally(run.answer(model, x[start:half], y[start:half], rng))
        west = run.tally(run.answer(model, x[half : people.stop], y[half : people.stop], rng))
        run.close_round(east + west)
        start = people.stop
    assert start == 8000
    assert run.rounds_done == 4
    assert np.allclose(run.weights, np.mean(run.history[-2:], axis=0))
    with pytest.raises(ParameterError, match="no round is open"):
        run.close_round(east)


def test_features_are_centred_beyond_noise() -> None:
    """The first round asks for features; a mean that noise could have made is left alone."""
    draw = np.random.default_rng(4)
    x = np.column_stack([draw.uniform(0.6, 1.0, 9000), draw.uniform(-1, 1, 9000), np.ones(9000)])
    run = training()
    asked = 3000
    run = Training(
        run.objective, run.courier, run.plan, centring=(gradient_mechanism("block", 4.0, 2), asked)
    )
    model = run.next_round()
    assert model.asks_features
    assert model.people == asked
    run.close_round(run.tally(run.answer(model, x[:asked], np.zeros(asked), seeded_rng(1))))
    assert run.rounds_done == 0
    assert abs(run.centre[0] - 0.8) < 0.1
    assert run.centre[1:].tolist() == [0.0, 0.0]
    assert not run.next_round().asks_features


@pytest.mark.slow
def test_centring_does_not_change_what_is_predicted() -> None:
    """Features far from 0: the model is for features as they are, and much better for it."""
    draw = np.random.default_rng(5)
    x = draw.uniform(0.5, 1.0, (60_000, 6))
    y = x @ np.array([0.5, -0.4, 0.3, 0.2, -0.3, 0.1]) + draw.normal(0, 0.05, 60_000)
    errors = {
        centre: np.mean(
            (
                LinearRegression(4.0, schedule=FewRounds(centre=centre), random_state=1)
                .fit(x[:50_000], y[:50_000])
                .predict(x[50_000:])
                - y[50_000:]
            )
            ** 2
        )
        for centre in (0.0, 0.03)
    }
    assert errors[0.03] < errors[0.0]
    assert errors[0.03] < y.var()


def test_a_tally_of_another_law_does_not_close_a_round() -> None:
    run = training()
    run.next_round()
    other = gradient_mechanism("block", 2.0, 3)
    with pytest.raises(MismatchError):
        run.close_round(other.tally(other.privatize(np.zeros((5, 3)), seeded_rng(1))))
    with pytest.raises(ParameterError, match="penalty"):
        Training(objective("squared"), run.courier, run.plan, penalty=-1.0)


# --- estimators --------------------------------------------------------------------------------


@pytest.mark.slow
@parametrize_with_checks(
    [
        model(random_state=1, bounds=(-200.0, 200.0), **targets, **options)
        for model, targets in (
            (LinearRegression, {"target_bounds": (-1000.0, 1000.0)}),
            (LogisticRegression, {}),
            (LinearSVC, {}),
        )
        for options in (
            {},
            {"schedule": FewRounds(rounds=3)},
            {"schedule": FewRounds(rounds=3), "mechanism": "block"},
        )
    ]
)
def test_scikit_learns_own_checks(estimator, check) -> None:
    """All apply. (Two are skipped by scikit-learn: array API off, pipelines of random models.)

    Bounds are wider than what scikit-learn fits: nothing is beyond them, so nothing warns.
    """
    check(estimator)


# Settings were chosen on the data of seed 3. Promises are held on data that they never saw.
UNSEEN = range(101, 109)


def mean_error(d: int, epsilon: float, seeds, schedule=None) -> float:
    """The squared error on 20,000 others of models of 100,000 people, over some seeds."""
    errors = []
    for seed in seeds:
        x, y, test_x, test_y = split(*linear(d, 120_000, seed), 100_000)
        model = LinearRegression(epsilon, schedule=schedule, random_state=seed)
        model.fit(x, y.clip(-1, 1))
        errors.append(np.mean((model.predict(test_x) - test_y) ** 2))
        assert model.mechanism_.loss().holds
        assert model.loss_.epsilon <= epsilon
    return float(np.mean(errors))


# The default asks for level, spread, means and a score besides, and keeps to the constant where it
# is not sure: on these data that costs something. Measured over seeds 101 to 108 (116 for d = 10):
# 0.0153, 0.0687, 0.0153, with standard deviations of a seed of 0.0050, 0.0076, 0.0022. The bounds
# are these means and two standard errors of the mean of the seeds that are fitted here.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("d", "epsilon", "seeds", "most"),
    [
        (10, 0.5, UNSEEN[:4], 0.0203),
        (90, 1.0, UNSEEN[:2], 0.0795),
        (90, 4.0, UNSEEN[:2], 0.0184),
    ],
)
def test_the_error_of_default_settings(d: int, epsilon: float, seeds, most: float) -> None:
    assert mean_error(d, epsilon, seeds) <= most


@pytest.mark.slow
@pytest.mark.parametrize(
    ("d", "epsilon", "seeds", "most"),
    [
        (10, 0.5, UNSEEN, 0.0120),
        (90, 1.0, UNSEEN[:2], 0.060),
        (90, 4.0, UNSEEN[:2], 0.0125),
    ],
)
def test_few_rounds_reach_the_promised_error(d: int, epsilon: float, seeds, most: float) -> None:
    assert mean_error(d, epsilon, seeds, FewRounds()) <= most


@pytest.mark.slow
def test_default_logistic_regression_in_ninety() -> None:
    x, y, test_x, test_y = split(*logistic(90, 120_000, UNSEEN[0]), 100_000)
    best = 1 - PlainLogistic(C=1e3).fit(x, y).score(test_x, test_y)
    assert 0.22 < best < 0.26  # as hard as the setting that the promise is about
    for model in (LogisticRegression, LinearSVC):
        assert 1 - model(epsilon=4.0, random_state=1).fit(x, y).score(test_x, test_y) <= 0.285


@pytest.mark.slow
def test_the_papers_schedule_is_far_worse() -> None:
    x, y, test_x, test_y = split(*linear(10, 60_000), 50_000)
    errors = {
        schedule: np.mean(
            (
                LinearRegression(1.0, "harmony", schedule, random_state=1)
                .fit(x, y.clip(-1, 1))
                .predict(test_x)
                - test_y
            )
            ** 2
        )
        for schedule in (FewRounds(), MiniBatches())
    }
    assert errors[FewRounds()] < errors[MiniBatches()] / 3


@pytest.mark.slow
@pytest.mark.parametrize("name", [*MECHANISMS, "dct", GRADED], ids=str)
def test_every_mechanism_learns(name) -> None:
    x, y, test_x, test_y = split(*linear(4, 60_000), 50_000)
    model = LinearRegression(2.0, name, FewRounds(), random_state=1).fit(x, y.clip(-1, 1))
    assert np.mean((model.predict(test_x) - test_y) ** 2) < 0.02
    assert model.mechanism_.loss().holds == (name in MECHANISMS)


@pytest.mark.slow
def test_bounds_and_units() -> None:
    """Features and targets in their own units give the model in their own units."""
    x, y = linear(3, 30_000)
    plain = LinearRegression(4.0, random_state=1).fit(x, y)
    bounds = (np.array([0.0, -10.0, 5.0]), np.array([100.0, 10.0, 6.0]))
    own = bounds[0] + (x + 1) / 2 * (bounds[1] - bounds[0])
    scaled = LinearRegression(4.0, random_state=1, bounds=bounds, target_bounds=(0, 2000))
    scaled.fit(own, 1000 * (y.clip(-1, 1) + 1))
    assert np.allclose(scaled.predict(own), 1000 * (plain.predict(x) + 1), atol=1e-6)


@pytest.mark.parametrize("kind", [LinearRegression, LogisticRegression, LinearSVC])
def test_a_seed_makes_it_a_simulation(kind) -> None:
    """Whoever knows the seed can undo the noise: nothing is kept, and it says so."""
    x, y = linear(3, 2000)
    y = y if kind is LinearRegression else np.where(y > 0, 1, 0)
    for seed in (0, np.random.RandomState(1)):
        seeded = kind(random_state=seed).fit(x, y)
        assert seeded.loss_.simulated
        assert not seeded.loss_.holds
        assert "simulated" in str(seeded.loss_)
        assert "kept" not in str(seeded.loss_)
    private = kind().fit(x, y)
    assert private.loss_.holds
    assert private.loss_.verdict == "kept"
    assert private.loss_.epsilon == seeded.loss_.epsilon


def test_projection_and_no_intercept() -> None:
    x, y = linear(8, 20_000)
    model = LinearRegression(4.0, "harmony", projection=3, fit_intercept=False, random_state=1)
    model.fit(x, y.clip(-1, 1))
    assert model.intercept_ == 0
    assert np.linalg.matrix_rank(np.array(model.history_)) <= 3


@pytest.mark.slow
def test_a_penalty_shrinks() -> None:
    x, y = linear(3, 30_000)
    y = y.clip(-1, 1)
    free, tied = (
        LinearRegression(4.0, alpha=alpha, random_state=1).fit(x, y) for alpha in (0.0, 2.0)
    )
    assert np.linalg.norm(tied.coef_) < np.linalg.norm(free.coef_) / 2


@pytest.mark.parametrize("schedule", [None, FewRounds()], ids=["default", "few rounds"])
def test_without_an_intercept_nothing_is_shifted(schedule) -> None:
    draw = np.random.default_rng(6)
    x = draw.uniform(0, 1, (60_000, 2))
    y = 5 * (x @ np.array([0.5, 0.3]))
    options = {"fit_intercept": False, "bounds": (0.0, 1.0), "target_bounds": (0.0, 5.0)}
    model = LinearRegression(8.0, schedule=schedule, random_state=1, **options).fit(x, y)
    assert model.intercept_ == 0
    assert np.allclose(model.coef_, [2.5, 1.5], atol=0.3)


@pytest.mark.slow
def test_the_penalty_leaves_the_intercept_alone() -> None:
    x = np.random.default_rng(7).uniform(-1, 1, (60_000, 3))
    model = LinearRegression(8.0, random_state=1, alpha=0.5).fit(x, 0.6 + 0.3 * x[:, 0])
    assert model.intercept_ == pytest.approx(0.6, abs=0.05)


def test_grades_by_attribute_are_of_a_feature_and_are_not_centred() -> None:
    x, y = linear(3, 2000)
    for attribute in (-1, 3, 9):
        with pytest.raises(ParameterError, match="feature's number"):
            LinearRegression(1.0, ByAttribute(attribute, (2.0, 1.0), (0.5,)), random_state=1).fit(
                x, y
            )
    graded = ByAttribute(0, (0.1, 0.25), (0.0,))
    with pytest.raises(ParameterError, match="projected"):
        LinearRegression(1.0, graded, random_state=1, projection=2).fit(x, y)
    model = LinearRegression(4.0, graded, random_state=1).fit(x, y)
    assert not model.mechanism_.loss().holds
    assert sum(model.plan_.batches) == 2000  # nobody was asked for features
    for grades in (2.0, ("a",), ()):
        with pytest.raises(ParameterError, match="grade"):
            ByAttribute(0, grades, ()).mechanism(1.0, 2)


def test_no_value_is_repeated_in_an_error() -> None:
    for x, y in (([["1", "secret"], ["2", "3"]], [1, 2]), ([[1.0], [2.0]], ["secret", "b"])):
        with pytest.raises(ValueError, match="must be numbers") as refused:
            LinearRegression().fit(x, y)
        assert "secret" not in str(refused.value)


@pytest.mark.slow
def test_in_pipelines_and_searches() -> None:
    x, y = linear(3, 6000)
    # Fitted to the others, the scaler may put somebody a hair beyond: the bounds leave room.
    model = LinearRegression(4.0, random_state=1, bounds=(-1.1, 1.1), target_bounds=WIDE)
    pipeline = make_pipeline(MinMaxScaler((-1, 1)), model)
    assert cross_val_score(pipeline, x * 7, y, cv=3).min() > 0.3
    model = LinearRegression(random_state=1, target_bounds=WIDE)
    search = GridSearchCV(model, {"epsilon": [0.1, 8.0]}, cv=3)
    assert search.fit(x, y).best_params_ == {"epsilon": 8.0}
    again = pickle.loads(pickle.dumps(pipeline.fit(x, y)))  # noqa: S301
    assert (again.predict(x) == pipeline.predict(x)).all()


def test_probabilities_and_classes() -> None:
    x, y = logistic(3, 30_000)
    model = LogisticRegression(4.0, random_state=1).fit(x, np.where(y > 0, "yes", "no"))
    assert model.classes_.tolist() == ["no", "yes"]
    shares = model.predict_proba(x)
    assert np.allclose(shares.sum(axis=1), 1)
    assert ((shares[:, 1] > 0.5) == (model.predict(x) == "yes")).all()


def test_without_a_seed_two_fits_differ() -> None:
    x, y = linear(2, 2000)
    first, second = (LinearRegression(4.0).fit(x, y).coef_ for _ in range(2))
    assert (first != second).all()


def test_mistakes_are_named() -> None:
    x, y = linear(2, 500)
    for arguments, message in (
        ({"epsilon": 0.0}, "epsilon must be"),
        ({"mechanism": "nothing"}, "gradients"),
        ({"schedule": "fast"}, "schedule is one of"),
        ({"bounds": (1.0, -1.0)}, "low < high"),
        ({"bounds": 3}, "bounds are"),
        ({"target_bounds": (1.0, 1.0)}, "low < high"),
        ({"target_bounds": 5}, "two numbers"),
        ({"alpha": "much"}, "penalty"),
        ({"alpha": -1.0}, "penalty"),
        ({"projection": 9}, "projection is"),
        ({"projection": True}, "projection is"),
    ):
        with pytest.raises(ParameterError, match=message):
            LinearRegression(random_state=1, **arguments).fit(x, y)
    with pytest.raises(PromiseError):
        LinearRegression(1.0, "dct").fit(x, y)  # no seed: real randomness, a broken law


def test_verbose_prints_the_privacy(capsys) -> None:
    x, y = linear(2, 500)
    LinearRegression(1.0, "block", random_state=1, verbose=True).fit(x, y)
    assert "exact loss 0.99" in capsys.readouterr().err
