"""How much of an oracle's gain over the constant private learning has, by defaults only.

    python -m experiments.evidence learning

Every task is a real table (or a simulated one) with a number or one of two classes to predict. None
of them had a part in choosing the default's numbers, but for those marked so in `TASKS`. A fifth
of the people is held out. The oracle is the best of 588 fixed settings of noisy gradient descent:
it is chosen on the held-out people themselves, in two runs, and then *run again with fresh noise*;
it knows means, lengths, curvature and level, and asks everybody for gradients.

The gain is the constant's loss less the model's, on the people held out: of a number in parts of
its variance (R2), of classes log loss. Standard errors are those of the eight runs. With `mixed`
targets there is nothing to learn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np
from sklearn import datasets
from sklearn.metrics import roc_auc_score

from experiments import adult_data, census_data, piece
from experiments.learning_oracle import CLIPS, ROUNDS, STEPS, Known, descended
from experiments.learning_tasks import Data, fitted, level_cost, linear, told
from murmuration.exact.arrays import Floats
from murmuration.learn import Number

EPSILONS = (1.0, 2.0, 4.0)
RUNS = range(1, 9)
CHOSEN_IN = (1, 2)
"""The runs in which the oracle's setting is chosen; its noise there is not used again."""
FRESH = 1000
LEAST = 0.02
"""Shares are those of tasks in which the oracle gains so much."""
MOST, RESAMPLED = 60_000, 40_000
"""People of a table that are used, and how many are drawn (again and again) from a small one."""
ADULT = adult_data.ATTRIBUTES
Row = dict[str, Any]


@dataclass(frozen=True)
class Task:
    """What is predicted, and the people of a run; some tasks had a part in choosing defaults."""

    title: str
    people: Callable[[int], Data]
    tuned: bool = False
    mixed: bool = False


# --- people ------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _adult() -> adult_data.Adult:
    return adult_data.load()


@lru_cache(maxsize=1)
def _census() -> census_data.Census:
    return census_data.load()


def _held_out(x: Floats, y: Floats, seed: int = 1) -> Data:
    order = np.random.default_rng(seed).permutation(len(x))[: MOST + MOST // 5]
    test, train = order[: len(order) // 5], order[len(order) // 5 :]
    return Data(x[train], y[train], x[test], y[test])


def _kept(x: Floats, names: Sequence[str], without: Sequence[str]) -> Floats:
    """Leave out the columns of attributes that would tell the target."""
    kept = [place for place, name in enumerate(names) if name.split("=")[0] not in without]
    return x[:, kept]


def adult(target: str, *without: str, label: str = "") -> Data:
    """Return Adult with another target: one of its attributes, or whether it has a label."""
    found = _adult()
    x = _kept(found.x, found.encoder.names, (target, *without))
    if label:
        return _held_out(x, np.where(found.table[target] == label, 1.0, -1.0))
    column = ADULT[target]
    assert isinstance(column, Number)
    return _held_out(x, column.encode(found.table[target])[:, 0])


def census(target: str, *without: str, above: float | None = None, label: str = "") -> Data:
    """Return households: a number, whether it is above something, or whether it has a label."""
    found = _census()
    x, y = _kept(found.x, found.encoder.names, (target, *without)), found.table[target]
    if label or above is not None:
        return _held_out(x, np.where(y == label if label else y > above, 1.0, -1.0))
    column = census_data.ATTRIBUTES[target]
    assert isinstance(column, Number)
    return _held_out(x, column.encode(np.clip(y, column.low, column.high))[:, 0])


def small(name: str) -> Data:
    """Return a table that scikit-learn carries: a fifth is held out, people are drawn of others."""
    found = getattr(datasets, f"load_{name}")()
    x, y = found.data, found.target.astype(np.float64)
    low, high = x.min(axis=0), x.max(axis=0)
    x = 2 * (x - low) / np.maximum(high - low, 1e-9) - 1
    if name == "digits":
        y = np.where(y % 2 == 0, 1.0, -1.0)
    elif name == "diabetes":
        y = 2 * y / 350 - 1
    else:
        y = 2 * y - 1
    data = _held_out(x, y)
    drawn = np.random.default_rng(2).integers(0, len(data.x), RESAMPLED)
    return Data(data.x[drawn], data.y[drawn], data.x_test, data.y_test)


def simulated(d: int, run: int) -> Data:
    """Return 100,000 people of uniform features, and 20,000 more."""
    x, y = linear(d, 120_000, 700 + run)
    return Data(x[:100_000], y[:100_000], x[100_000:], y[100_000:])


def mixed(data: Data, run: int) -> Data:
    """Return people whose targets have nothing to do with their features."""
    draw = np.random.default_rng(run)
    return Data(data.x, draw.permutation(data.y), data.x_test, draw.permutation(data.y_test))


FAMILY = ("marital-status", "relationship")


def married() -> Data:
    """Return Adult with whether a person is married; the family's columns would tell."""
    return adult(*FAMILY, "gender", label="Married-civ-spouse")


TASKS: dict[str, Task] = {
    "education": Task("Adult: years of education", lambda _: adult("education-num")),
    "age": Task("Adult: age", lambda _: adult("age")),
    "married": Task("Adult: married", lambda _: married()),
    "women": Task("Adult: women", lambda _: adult("gender", *FAMILY, label="Female")),
    "interest": Task("households: interest", lambda _: census("interest")),
    "pension": Task("households: pension", lambda _: census("pension")),
    "retired": Task("households: social security", lambda _: census("social_security", above=0.0)),
    "joint": Task(
        "households: file jointly", lambda _: census("filing", "spouse_age", "size", label="joint")
    ),
    "diabetes": Task("diabetes (442 drawn again)", lambda _: small("diabetes")),
    "cancer": Task("breast cancer (569 drawn again)", lambda _: small("breast_cancer")),
    "digits": Task("even digits (1,797 drawn again)", lambda _: small("digits")),
    "linear-10": Task("simulated, 10 features", lambda run: simulated(10, run), tuned=True),
    "linear-90": Task("simulated, 90 features", lambda run: simulated(90, run), tuned=True),
    "income": Task(
        "Adult: more than 50,000 a year",
        lambda _: _held_out(_adult().x, _adult().labels.astype(np.float64)),
        tuned=True,
    ),
    "age, mixed": Task("Adult: age, mixed", lambda run: mixed(adult("age"), run), mixed=True),
    "married, mixed": Task("Adult: married, mixed", lambda run: mixed(married(), run), mixed=True),
}
REAL = tuple(name for name, task in TASKS.items() if not (task.tuned or task.mixed))


@lru_cache(maxsize=4)
def people(task: str, run: int) -> Data:
    """Return the people of a run."""
    return TASKS[task].people(run)


# --- gains -------------------------------------------------------------------------------------


def gain(data: Data, guesses: Floats) -> float:
    """Return by how much guesses are better than the constant, on the people held out."""
    if data.number:
        level = np.square(data.y_test - data.y.mean()).mean()
        return float(1 - np.square(data.y_test - guesses).mean() / level)
    share, own = (data.y == 1).mean(), data.y_test == 1
    level = np.where(own, share, 1 - share)
    chance = np.maximum(np.where(own, guesses, 1 - guesses), 1e-12)
    return float(np.log(chance / level).mean())


def ours(task: str, epsilon: float, run: int) -> Row:
    """Train one model by defaults."""
    data = people(task, run if _differs(task) else 0)
    model = fitted(data, epsilon, run)
    guesses = told(model, data)
    found = {"gain": gain(data, guesses), "kept": float(model.kept_), "rounds": model.n_iter_}
    if model.score_ is not None:
        low, high = model.score_.interval()
        found["covered"] = low <= model.true_score(data.x_test, data.y_test) <= high
    if not data.number:
        found["AUC"] = float(roc_auc_score(data.y_test == 1, guesses))
    return found


def _differs(task: str) -> bool:
    return task.startswith("linear") or TASKS[task].mixed


def oracle(task: str, epsilon: float) -> list[float]:
    """Return the gains of the best setting of descent, by runs with fresh noise."""
    known = {run: Known(people(task, run if _differs(task) else 0)) for run in CHOSEN_IN}
    losses = np.zeros(len(ROUNDS) * 2 * len(STEPS) * len(CLIPS))
    for run, one in known.items():
        tried = [descended(one, epsilon, rounds, run) for rounds in ROUNDS]
        losses += one.losses(np.hstack(tried))
    place = int(losses.argmin())
    rounds, column = (
        ROUNDS[place // (losses.size // len(ROUNDS))],
        place % (losses.size // len(ROUNDS)),
    )
    gains = []
    for run in RUNS:
        one = known[CHOSEN_IN[run % 2]]
        weights = descended(one, epsilon, rounds, FRESH + run)[:, [column]]
        gains.append(gain(one.data, one.told(weights)[:, 0]))
    return gains


# --- evidence ----------------------------------------------------------------------------------

CASES = list(product(TASKS, EPSILONS))


def part(number: int) -> Row:
    """Train by defaults in each run, and find what the oracle does."""
    task, epsilon = CASES[number]
    runs = [ours(task, epsilon, run) for run in RUNS]
    row: Row = {"task": task, "epsilon": epsilon, "runs": runs}
    if TASKS[task].mixed:
        return row | {"level": level_cost(people(task, 1), epsilon)}
    return row | {"oracle": oracle(task, epsilon)}


def figures(rows: Sequence[Row]) -> piece.Figures:
    """Return gains by task and epsilon, and the median share of the oracle's."""
    values: piece.Figures = {}
    shares: dict[float, list[float]] = {}
    for row in rows:
        task, epsilon = row["task"], row["epsilon"]
        name = f"{task}, epsilon {epsilon:g}"
        gains = np.array([run["gain"] for run in row["runs"]])
        values[f"{name}, gain"] = float(gains.mean())
        values[f"{name}, standard error"] = float(gains.std(ddof=1) / np.sqrt(len(gains)))
        values[f"{name}, worst"] = float(gains.min())
        if "AUC" in row["runs"][0]:
            values[f"{name}, AUC"] = float(np.mean([run["AUC"] for run in row["runs"]]))
        if "level" in row:
            values[f"{name}, level alone"] = -float(row["level"])
            continue
        best = float(np.mean(row["oracle"]))
        values[f"{name}, oracle"] = best
        if task in REAL and best >= LEAST:
            shares.setdefault(epsilon, []).append(float(gains.mean()) / best)
    for epsilon, some in shares.items():
        values[f"median share, epsilon {epsilon:g}"] = float(np.median(some))
        values[f"worst share, epsilon {epsilon:g}"] = float(np.min(some))
    return values


def table(found: piece.Figures) -> str:
    """Return a table: gains of the default and of the oracle, by task and epsilon."""
    lines = []
    for task, one in TASKS.items():
        cells = []
        for epsilon in EPSILONS:
            name = f"{task}, epsilon {epsilon:g}"
            own = f"{found[f'{name}, gain']:.3f} ± {found[f'{name}, standard error']:.3f}"
            last = "level alone" if one.mixed else "oracle"
            cells.append(f"{own} ({found[f'{name}, {last}']:.3f})")
        lines.append([one.title + ("*" if one.tuned else ""), *cells])
    shares = [f"{found[f'median share, epsilon {epsilon:g}']:.0%}" for epsilon in EPSILONS]
    lines.append(["median share of the oracle's gain", *shares])
    return piece.markdown(["task", *(f"epsilon {epsilon:g}" for epsilon in EPSILONS)], lines)


PIECE = piece.Piece(
    "private models of real people, by defaults: their gain over a constant, beside an oracle's",
    part,
    parts=len(CASES),
    sample=(CASES.index(("married, mixed", 1.0)),),
    figures=figures,
    table=table,
)
