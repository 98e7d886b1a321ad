"""Trainings side by side: each sender is unbiased, and learns what a training by rounds learns."""

from __future__ import annotations

import numpy as np
import pytest

from murmuration import seeded_rng
from murmuration.errors import ParameterError
from murmuration.learn.papers.own_grades import GradedLaplace, HieraComponents
from murmuration.learn.papers.schedule import MiniBatches, OneByOne
from murmuration.learn.papers.side_by_side import (
    InTheClear,
    OneCoordinate,
    Sender,
    SideBySide,
    WholeVector,
)
from murmuration.mechanisms.registry import numeric_mechanism
from murmuration.mechanisms.vector.duchi_multi import DuchiMulti
from murmuration.training.algorithm.losses import objective

D = 3
BUDGETS, EDGES = (4.0, 2.0, 1.0), (-0.3, 0.3)
SENDERS: dict[str, Sender] = {
    "in the clear": InTheClear(),
    "duchi": OneCoordinate(numeric_mechanism("duchi", epsilon=1.0)),
    "piecewise": OneCoordinate(numeric_mechanism("piecewise", epsilon=1.0)),
    "corner": WholeVector(DuchiMulti(epsilon=1.0, d=D)),
    "graded laplace": GradedLaplace(BUDGETS, EDGES),
    "hiera, mu 1": HieraComponents(BUDGETS, EDGES, mu=1, clip=False),
    "hiera, mu 2": HieraComponents(BUDGETS, EDGES, mu=2, clip=False),
}


def people(n: int) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(1)
    x = draw.uniform(-1, 1, (n, D))
    return x, x @ np.array([0.5, -0.3, 0.1])


@pytest.mark.parametrize("name", SENDERS)
def test_a_sender_is_unbiased_for_each_run(name: str) -> None:
    """Whoever has which attribute: a person's gradient is slope times x, cut at 1."""
    runs, each = 400, 150
    x, _ = people(runs * each)
    slopes = np.random.default_rng(2).uniform(-2, 2, len(x))
    truth = np.clip(slopes[:, None] * x, -1, 1).reshape(runs, each, D).mean(axis=1)
    found = SENDERS[name].means(slopes, x, runs, seeded_rng(3))
    off = found - truth
    stderr = np.maximum(off.std(axis=0) / np.sqrt(runs), 1e-12)
    assert found.shape == (runs, D)
    assert (np.abs(off.mean(axis=0)) <= 4 * stderr).all()


@pytest.mark.parametrize("name", ["in the clear", "duchi", "corner"])
def test_trainings_find_the_rule(name: str) -> None:
    x, y = people(20_000)
    race = SideBySide(
        objective("squared"), MiniBatches(size=1000), SENDERS[name], x, y, people=200_000
    )
    weights = race.train(4, seeded_rng(1))
    assert race.rounds == 200
    assert np.abs(weights - [0.5, -0.3, 0.1]).max() < 0.25
    assert len(np.unique(weights[:, 0])) == 4  # each asked other people
    assert (race.train(4, seeded_rng(1)) == weights).all()


def test_one_by_one_and_a_penalty() -> None:
    x, y = people(5000)
    free, held = (
        SideBySide(objective("squared"), OneByOne(), InTheClear(), x, y, 3000, penalty=penalty)
        for penalty in (0.0, 5.0)
    )
    assert (free.batch, free.rounds) == (1, 3000)
    lengths = [np.linalg.norm(one.train(2, seeded_rng(1))) for one in (free, held)]
    assert lengths[1] < lengths[0] / 2


def test_m_participations_ask_everybody_m_times_in_larger_batches() -> None:
    x, y = people(30_000)
    one, two = (
        SideBySide(
            *(objective("squared"), MiniBatches(), SENDERS["duchi"], x, y, 100_000, 0.2),
            participations=m,
        )
        for m in (1, 2)
    )
    assert two.batch == pytest.approx(4 * one.batch, abs=4)  # each with half of epsilon
    assert two.rounds == 200_000 // two.batch


def test_a_training_that_stands_still_ends() -> None:
    x, y = people(5000)
    race = SideBySide(
        *(objective("squared"), MiniBatches(size=100), InTheClear(), x, y, 100_000), still=10.0
    )
    assert np.linalg.norm(race.train(2, seeded_rng(1))) < 10
    with pytest.raises(ParameterError, match="enlarge it"):
        SideBySide(objective("squared"), MiniBatches(size=6000), InTheClear(), x, y, 10_000)


def test_the_papers_batches_and_steps_are_parameters() -> None:
    assert MiniBatches(factor=1, part=0).batch(90, 1.0, 10**6) == 405
    assert MiniBatches(part=0.01).batch(2, 4.0, 10**6) == 10_000
    assert MiniBatches(size=7).batch(90, 1.0, 10**6) == 7
    assert MiniBatches(rate=0.01, constant=True).steps(3).tolist() == [0.01] * 3
    for wrong in ({"factor": 0}, {"part": 2}, {"size": 0}, {"size": True}):
        with pytest.raises(ParameterError):
            MiniBatches(**wrong)  # type: ignore[arg-type]
