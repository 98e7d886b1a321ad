"""What `learning.py` learns: simulated people, real households and Adult, and how well it is told.

Features and numbers to predict are in [-1, 1], classes are -1 and 1. Simulated people come from
seeds 501 and later, one data set for each run; nothing was ever chosen on them. Real people are the
same in each run, a fifth of them held out: what differs is who is asked what, and the noise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score

from experiments import adult_data, census_data
from murmuration import learn, mechanism
from murmuration.exact.arrays import Floats

BEFORE_FIRST_SEED = 500
PEOPLE, HELD_OUT = 100_000, 20_000
MEASURES = {"number": ("R2", "MSE"), "classes": ("log loss", "AUC", "accuracy")}
"""The first of each is what settings are compared by."""


@dataclass(frozen=True, eq=False)
class Data:
    """People to learn from, and people held out."""

    x: Floats
    y: Floats
    x_test: Floats
    y_test: Floats

    @cached_property
    def number(self) -> bool:
        """Whether a number is told, or which of two classes."""
        return len(np.unique(self.y)) > 2


@dataclass(frozen=True)
class Task:
    """A kind (`number` or `classes`) and the people of each run."""

    title: str
    kind: str
    people: Callable[[int], Data]

    @property
    def measures(self) -> tuple[str, ...]:
        """How well a model tells it."""
        return MEASURES[self.kind]


# --- people ------------------------------------------------------------------------------------


def linear(d: int, n: int, seed: int) -> tuple[Floats, Floats]:
    """Return uniform features and a linear rule: noise .010 of a variance of .10, in [-1, 1]."""
    x, score, draw = _rule(d, n, seed)
    return x, np.clip(0.3 * score + draw.normal(0, 0.1, n), -1, 1)


def logistic(d: int, n: int, seed: int) -> tuple[Floats, Floats]:
    """Return uniform features and classes whose log odds are linear, with standard deviation 2."""
    x, score, draw = _rule(d, n, seed)
    return x, np.where(draw.random(n) < expit(2 * score), 1.0, -1.0)


def _rule(d: int, n: int, seed: int) -> tuple[Floats, Floats, np.random.Generator]:
    draw = np.random.default_rng(seed)
    w, x = draw.normal(size=d), draw.uniform(-1, 1, (n, d))
    score = x @ w
    return x, score / score.std(), draw


def _simulated(make: Callable[[int, int, int], tuple[Floats, Floats]], d: int, run: int) -> Data:
    x, y = make(d, PEOPLE + HELD_OUT, BEFORE_FIRST_SEED + run)
    return Data(x[:PEOPLE], y[:PEOPLE], x[PEOPLE:], y[PEOPLE:])


def _split(x: Floats, y: Floats) -> Data:
    """A fifth is held out, the same in each run."""
    order = np.random.default_rng(1).permutation(len(x))
    test, train = order[: len(x) // 5], order[len(x) // 5 :]
    return Data(x[train], y[train], x[test], y[test])


@lru_cache(maxsize=1)
def _census() -> census_data.Census:
    return census_data.load()


@lru_cache(maxsize=1)
def _adult() -> adult_data.Adult:
    return adult_data.load()


TASKS = {
    "linear-10": Task(
        "simulated, a number, 10 features", "number", lambda run: _simulated(linear, 10, run)
    ),
    "linear-90": Task(
        "simulated, a number, 90 features", "number", lambda run: _simulated(linear, 90, run)
    ),
    "logistic-90": Task(
        "simulated, two classes, 90 features", "classes", lambda run: _simulated(logistic, 90, run)
    ),
    "wages": Task("households: wages", "number", lambda _: _split(_census().x, _census().wages)),
    "wages-50": Task(
        "households: wages of 50,000 or more",
        "classes",
        lambda _: _split(_census().x, _census().labels.astype(np.float64)),
    ),
    "income": Task(
        "Adult: more than 50,000 a year",
        "classes",
        lambda _: _split(_adult().x, _adult().labels.astype(np.float64)),
    ),
    "hours": Task(
        "Adult: hours a week", "number", lambda _: _split(_adult().x_without_hours, _adult().hours)
    ),
}
REAL = ("wages", "wages-50", "income", "hours")


def people(task: str, run: int) -> Data:
    """Return the people of a run; real ones are the same in each."""
    return _people(task, 0 if task in REAL else run)


@lru_cache(maxsize=2)
def _people(task: str, run: int) -> Data:
    return TASKS[task].people(run)


def fitted(data: Data, epsilon: float, run: int, **options: Any) -> Any:
    """Return the private model of these people: the default, but for the options."""
    if data.number:
        model: Any = learn.LinearRegression(
            epsilon, random_state=run, bounds=(-1.0, 1.0), target_bounds=(-1.0, 1.0), **options
        )
    else:
        model = learn.LogisticRegression(epsilon, random_state=run, bounds=(-1.0, 1.0), **options)
    return model.fit(data.x, data.y)


def told(model: Any, data: Data) -> Floats:
    """Return what a model tells about those held out: numbers, or probabilities of class 1."""
    if data.number:
        return np.asarray(model.predict(data.x_test))
    return np.asarray(model.predict_proba(data.x_test)[:, 1])


# --- how well ----------------------------------------------------------------------------------


def measured(data: Data, guesses: Floats) -> dict[str, float]:
    """Return all measures of numbers, or probabilities, for those held out."""
    if data.number:
        error = float(np.mean((guesses - data.y_test) ** 2))
        return {"R2": 1 - error / float(data.y_test.var()), "MSE": error}
    classes = data.y_test == 1
    return {
        "log loss": float(log_loss(classes, guesses)),
        "AUC": float(roc_auc_score(classes, guesses)),
        "accuracy": float(np.mean((guesses > 0.5) == classes)),
    }


def constant(data: Data) -> dict[str, float]:
    """Return the measures of the training people's mean, or share."""
    level = data.y.mean() if data.number else (data.y == 1).mean()
    return measured(data, np.full(len(data.y_test), level))


def without_privacy(data: Data) -> dict[str, float]:
    """Return the measures of the same model, trained by scikit-learn on everything."""
    if data.number:
        return measured(data, LinearRegression().fit(data.x, data.y).predict(data.x_test))
    model = LogisticRegression(C=1e3, solver="newton-cholesky").fit(data.x, data.y)
    return measured(data, model.predict_proba(data.x_test)[:, 1])


def level_cost(data: Data, epsilon: float) -> float:
    """Return what asking everybody for the mean or share alone would cost: in R2, or log loss."""
    variance = mechanism("auto", epsilon=epsilon).worst_variance() / len(data.y)
    if data.number:
        return float(variance / data.y.var())
    share = float((data.y == 1).mean())
    return float(variance / 4 / (2 * share * (1 - share)))  # -1 and 1 are twice as far as shares
