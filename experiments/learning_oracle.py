"""The best that a fixed setting of PrivUnit does, found by search on those held out: an oracle.

No collection could do this. It knows the features' means, their length and curvature and the level
that training starts from, for free; it is told which of some hundreds of settings is the best by
the very people on whom it is scored. What it does not know better is noise: everybody answers once,
with a gradient that is clipped and has PrivUnit's noise.

Two families are tried, and the better one counts: gradient descent with Gaussian noise of
PrivUnit's size (rounds x step x clip, the last weights or the last half's average), and
`learn.FewRounds` with PrivUnit itself (rounds x clip x noise).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
from scipy.special import expit

from experiments.learning_tasks import TASKS, Data, fitted, measured, people, told
from murmuration import learn
from murmuration.exact.arrays import Floats
from murmuration.mechanisms.vector.privunit import PrivUnit

ROUNDS = (3, 6, 12, 25, 50, 100, 200, 400)
STEPS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
"""In units of the largest step that plain descent could take."""
CLIPS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
"""In units of how far the target is from its level, times how long features are."""
FEW = tuple(itertools.product((10, 40), (0.2, 0.8), (0.05, 0.15, 0.5)))
"""Rounds, clip (in the same units), noise."""
CONSTANT = 0.5
"""How long the constant is beside features of length 1: classes need a level that moves."""


SETTINGS = tuple(
    f"{rounds} rounds, step {step:g}, clip {clip:g}, {end}"
    for rounds in ROUNDS
    for end in ("last", "average")
    for step, clip in itertools.product(STEPS, CLIPS)
)
"""In the order of `by_descent`."""


class Known:
    """What the oracle knows: features centred and of length 1, the level, spread and curvature."""

    def __init__(self, data: Data) -> None:
        self.data, self.centre = data, data.x.mean(axis=0)
        self.length = math.sqrt(np.square(data.x - self.centre).sum(axis=1).mean())
        self.number = data.number
        mean = float(data.y.mean())
        share = (1 + mean) / 2
        self.level = mean if data.number else math.log(share / (1 - share))
        self.spread = float(data.y.std()) if data.number else math.sqrt(share * (1 - share))
        self.z, self.z_test = self._scaled(data.x), self._scaled(data.x_test)
        self.lengths = np.linalg.norm(self.z, axis=1)[:, None]
        curve = 1.0 if data.number else self.spread**2
        self.steepest = curve * float(np.linalg.eigvalsh(self.z.T @ self.z / len(self.z))[-1])

    def _scaled(self, x: Floats) -> Floats:
        z = (x - self.centre) / self.length
        return z if self.number else np.column_stack([z, np.full(len(z), CONSTANT)])

    def slopes(self, scores: Floats, y: Floats) -> Floats:
        """Return the derivative of the loss by the score."""
        if self.number:
            return scores - y[:, None]
        return np.asarray(expit(scores) - (y[:, None] + 1) / 2)

    def told(self, weights: Floats) -> Floats:
        """Return what models (columns of weights) tell about those held out."""
        scores = self.level + self.z_test @ weights
        return scores if self.number else np.asarray(expit(scores))

    def losses(self, weights: Floats) -> Floats:
        """Return the loss of each model on those held out."""
        told, y = self.told(weights), self.data.y_test[:, None]
        if self.number:
            return np.asarray(np.square(told - y).mean(axis=0))
        own = np.where(y == 1, told, 1 - told)
        return np.asarray(-np.log(np.maximum(own, 1e-15)).mean(axis=0))


def descended(known: Known, epsilon: float, rounds: int, seed: int) -> Floats:
    """Return the weights of every step and clip, last and averaged: a column each."""
    draw = np.random.default_rng(seed)
    pairs = np.array(list(itertools.product(STEPS, CLIPS)))
    steps, clips = pairs[:, 0] / known.steepest, pairs[:, 1] * known.spread
    d, order = known.z.shape[1], draw.permutation(len(known.z))
    noise = math.sqrt(PrivUnit(epsilon=epsilon, d=d).total_noise() / d)
    weights, tail = np.zeros((d, len(pairs))), np.zeros((d, len(pairs)))
    for done, batch in enumerate(np.array_split(order, rounds)):
        z = known.z[batch]
        slopes = known.slopes(known.level + z @ weights, known.data.y[batch])
        slopes /= np.maximum(np.abs(slopes) * known.lengths[batch] / clips, 1.0)
        heard = draw.normal(0, noise / math.sqrt(len(batch)), weights.shape) * clips
        weights = weights - steps * (z.T @ slopes / len(batch) + heard)
        if done >= rounds // 2:
            tail += weights / (rounds - rounds // 2)
    return np.hstack([weights, tail])


def by_descent(task: str, epsilon: float, runs: Sequence[int]) -> tuple[str, dict[str, float]]:
    """Return the best setting of gradient descent and its measures, mean of the runs."""
    kept, losses = [], []
    for run in runs:
        known = Known(people(task, run))
        weights = np.hstack([descended(known, epsilon, rounds, run) for rounds in ROUNDS])
        losses.append(known.losses(weights))
        kept.append((known.data, known.told, weights))
    best = int(np.mean(losses, axis=0).argmin())
    found = [measured(data, told(weights[:, best])) for data, told, weights in kept]
    return SETTINGS[best], averaged(found)


def by_few_rounds(task: str, epsilon: float, runs: Sequence[int]) -> tuple[str, dict[str, float]]:
    """Return the same for `FewRounds`: settings are tried on the first run, the best on all."""
    first, *rest = runs
    tried = {setting: _few(task, epsilon, first, *setting) for setting in FEW}
    best = min(tried, key=lambda setting: loss(task, tried[setting]))
    found = averaged([tried[best], *(_few(task, epsilon, run, *best) for run in rest)])
    return "FewRounds: {} rounds, clip {:g}, noise {:g}".format(*best), found


def _few(
    task: str, epsilon: float, run: int, rounds: int, clip: float, noise: float
) -> dict[str, float]:
    data = people(task, run)
    spread = float(data.y.std()) * (
        2 if data.number else 0.5
    )  # the slope of (s - y)^2 is twice that
    length = math.sqrt(1 + np.square(data.x - data.x.mean(axis=0)).sum(axis=1).mean())
    schedule = learn.FewRounds(rounds, clip * spread * length, noise)
    return measured(data, told(fitted(data, epsilon, run, schedule=schedule), data))


def loss(task: str, found: dict[str, float]) -> float:
    """Return what settings are compared by: less is better."""
    return found["MSE" if TASKS[task].kind == "number" else "log loss"]


def averaged(found: list[dict[str, float]]) -> dict[str, float]:
    """Return the mean of each measure."""
    return {name: float(np.mean([one[name] for one in found])) for name in found[0]}


def oracle(task: str, epsilon: float, runs: Sequence[int]) -> tuple[str, dict[str, float]]:
    """Return the better family's setting and measures."""
    families = (by_descent(task, epsilon, runs), by_few_rounds(task, epsilon, runs))
    return min(families, key=lambda family: loss(task, family[1]))
