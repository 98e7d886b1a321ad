"""Work that regressions share: eight trainings side by side, their error on people held out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from murmuration.exact.arrays import Floats
from murmuration.exact.randomness import Rng
from murmuration.lab.census import census
from murmuration.learn.papers.schedule import AsPublished
from murmuration.learn.papers.side_by_side import HUGE, Sender, SideBySide
from murmuration.reproduce.curves import Point
from murmuration.training.algorithm.losses import objective

HELD_OUT = 20_000
RUNS = 8
"""Trainings of each kind: no verdict rests on fewer."""
PENALTY = 1e-4
MSE, WRONG = "squared", "classes"


@dataclass(frozen=True, eq=False)
class Task:
    """People to learn from, and people held out; y is income, or 1 and -1 by its mean."""

    x: Floats
    y: Floats
    x_test: Floats
    y_test: Floats

    def error(self, weights: Floats, loss: str) -> Floats:
        """Return the mean squared error, or the part that is told wrong, of each row of weights."""
        scores = self.x_test @ np.clip(weights, -HUGE, HUGE).T
        if loss == "squared":
            return np.asarray(((scores - self.y_test[:, None]) ** 2).mean(axis=0))
        return np.asarray(((scores >= 0) != (self.y_test[:, None] > 0)).mean(axis=0))

    def constant(self, loss: str) -> float:
        """Return the error of the best constant."""
        if loss == "squared":
            return float(self.y_test.var())
        share = float((self.y_test > 0).mean())
        return min(share, 1 - share)

    def least_squares(self) -> float:
        """Return the error of the least-squares weights, found in the clear."""
        weights, *_ = np.linalg.lstsq(self.x, self.y, rcond=None)
        return float(self.error(np.asarray(weights[None], np.float64), "squared")[0])


@lru_cache(maxsize=3)
def task(
    shape: str,
    pool: int,
    coding: str = "signs",
    every: bool = False,
    intercept: bool = False,
    classes: bool = False,
    projected: int = 0,
) -> Task:
    """Return people of a census shape: features, and total income to be told.

    `projected` r: features go through a public matrix of r rows of +-1/d, as Harmony's do.
    """
    people = census(shape, pool + HELD_OUT)
    x, y = people.features(coding, every), people.income
    if intercept:
        x = np.column_stack([x, np.ones(len(x))])
    if projected:
        signs = np.random.default_rng(1).choice([-1.0, 1.0], (projected, x.shape[1]))
        x = x @ (signs / x.shape[1]).T
    if classes:
        y = np.where(y >= y.mean(), 1.0, -1.0)
    return Task(x[:pool], y[:pool], x[pool:], y[pool:])


Make = Callable[[int], Sender]
"""From the number of coordinates to how gradients are sent."""


@dataclass(frozen=True)
class Trained:
    """Trainings of one method side by side: a point for each."""

    panel: str
    series: str
    at: float
    """Where on the x axis."""
    task: tuple[Any, ...]
    """Arguments of `task`."""
    loss: str
    schedule: AsPublished
    sender: Make
    people: int
    epsilon: float
    participations: int = 1
    options: tuple[tuple[str, Any], ...] = ()

    def collect(self, rng: Rng, repetition: int) -> Sequence[Point]:
        """Train, and measure on those held out."""
        found = task(*self.task, **dict(self.options))
        race = SideBySide(
            objective=objective(self.loss),
            schedule=self.schedule,
            sender=self.sender(found.x.shape[1]),
            x=found.x,
            y=found.y,
            people=self.people,
            epsilon=self.epsilon,
            penalty=PENALTY,
            participations=self.participations,
        )
        errors = found.error(race.train(RUNS, rng), self.loss)
        return [
            Point(self.panel, self.series, self.at, float(error), RUNS * repetition + run)
            for run, error in enumerate(errors)
        ]


@dataclass(frozen=True)
class Default:
    """The library's own default, on as many people as the pool has."""

    panel: str
    series: str
    at: float
    task: tuple[Any, ...]
    loss: str
    epsilon: float
    options: tuple[tuple[str, Any], ...] = ()

    def collect(self, rng: Rng, repetition: int) -> Sequence[Point]:
        """Fit once."""
        from murmuration import learn

        found = task(*self.task, **dict(self.options))
        kinds = {
            "squared": learn.LinearRegression,
            "logistic": learn.LogisticRegression,
            "hinge": learn.LinearSVC,
        }
        model = kinds[self.loss](epsilon=self.epsilon, random_state=int(rng.words(1)[0] >> 33))
        model.fit(found.x, found.y)
        told = model.predict(found.x_test)
        wrong = (told - found.y_test) ** 2 if self.loss == "squared" else told != found.y_test
        return [Point(self.panel, self.series, self.at, float(np.mean(wrong)), repetition)]


@dataclass(frozen=True)
class References:
    """The best constant, and for a number the least-squares weights."""

    panel: str
    xs: tuple[float, ...]
    task: tuple[Any, ...]
    loss: str
    options: tuple[tuple[str, Any], ...] = ()

    def collect(self, rng: Rng, repetition: int) -> Sequence[Point]:
        """Compute."""
        del rng, repetition
        found = task(*self.task, **dict(self.options))
        lines = {CONSTANT: found.constant(self.loss)}
        if self.loss == "squared":
            lines[LEAST] = found.least_squares()
        return [Point(self.panel, name, x, value) for name, value in lines.items() for x in self.xs]


CONSTANT, LEAST = "best constant", "least squares, in the clear"
OURS = "ours: the default, {:,} people"
