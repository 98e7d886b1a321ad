"""By how much predictions should be multiplied: one posterior from two questions.

Predictions are taken to be normal, with a standard deviation that was asked. With a factor a, the
product of a prediction (cut off) and what is left of the target (cut off) is expected to be a known
function of a; two such products are asked, of other people than trained. The prior says that the
factor is about 1, or that there is nothing in the predictions at all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from murmuration.exact.arrays import Floats
from murmuration.training.algorithm.state import Setting, Start

FACTORS: Floats = np.linspace(0, 4, 161)
NORMAL: Floats = np.linspace(-3.5, 3.5, 71)
CHANCES: Floats = np.exp(-(NORMAL**2) / 2) / np.exp(-(NORMAL**2) / 2).sum()
TRAINED, NOTHING = (0.65, 0.45), (0.35, 0.08)
"""The prior: the share of trainings whose factor is log-normal around 1 and by how much; the share
of those that have learnt nothing, and how far from 0 their factor is."""
FORM = 0.3, 0.15
"""The expected product is off by so much, as a part of it: at the constant, and at a model."""
TAIL = 0.5
"""The factor is off by so much where slopes are cut off close to 0."""
STEPS = 25
"""Of Newton's method, for the intercept at which chances have a given mean."""


def prior() -> Floats:
    """Return the logarithm of the prior of `FACTORS`."""
    share, spread = TRAINED
    near = np.exp(-0.5 * (np.log(np.maximum(FACTORS, 1e-3)) / spread) ** 2)
    trained = share * near / (np.maximum(FACTORS, 0.02) * spread)
    share, spread = NOTHING
    nothing = 2 * share * np.exp(-0.5 * (FACTORS / spread) ** 2) / spread
    return np.log(trained + nothing)


def mean_of(log: Floats) -> float:
    """Return the mean factor of a posterior, of which the logarithm is given.

    >>> 0.5 < mean_of(prior()) < 1.0
    True
    """
    share = np.exp(log - log.max())
    return float((share * FACTORS).sum() / share.sum())


@dataclass(frozen=True)
class Predictions:
    """What is known of predictions: their standard deviation, mean size, and the task.

    `size` is where they are cut off in the first question.
    """

    setting: Setting
    start: Start
    spread: float
    size: float

    @property
    def _values(self) -> Floats:
        return self.spread * NORMAL

    @property
    def _class_curve(self) -> float:
        shares = self.start.shares
        return float((shares * (1 - shares)).sum()) / (len(shares) - 1)

    def intercepts(self, factors: Floats) -> Floats:
        """Return, for two classes, the intercept at which chances have the right mean."""
        intercept = np.full(len(factors), float(self.start.intercept[0]))
        share = float(self.start.shares[1])
        values = factors[:, None] * self._values
        for _ in range(STEPS):
            chance = expit(intercept[:, None] + values)
            off = (CHANCES * chance).sum(axis=1) - share
            intercept -= np.clip(off / (CHANCES * chance * (1 - chance)).sum(axis=1), -1, 1)
        return intercept

    def intercept(self, factor: float) -> Floats:
        """Return the intercept of the model with that factor, before it is asked again."""
        if self.setting.objective.name != "logistic":
            return self.start.intercept
        return self.intercepts(np.array([factor]))

    def agreement(self, most: float) -> Floats:
        """Return the expected product for each factor, at the constant, slopes cut at `most`."""
        cut = np.clip(self._values, -self.size, self.size)
        if self.setting.square:
            left = math.erf(most / self.start.spread / math.sqrt(2))
            ratio = self.spread / self.start.spread
            product = float((CHANCES * self._values * cut).sum())
            return left * product * np.arcsin(np.clip(FACTORS * ratio, 0, 1)) / ratio
        if self.setting.scores > 1:
            reach = self._class_curve * 0.75 * self.spread * self.size
            return FACTORS * reach / np.sqrt(1 + 0.25 * (FACTORS * self.spread) ** 2)
        share = float(self.start.shares[1])
        up, down = min(1 - share, most), min(share, most)
        chance = expit(self.intercepts(FACTORS)[:, None] + FACTORS[:, None] * self._values)
        return np.asarray((CHANCES * (chance * (up + down) - down) * cut).sum(axis=1))

    def leftover(self, factor: float, most: float, wide: float) -> Floats:
        """Return the expected product for each factor, at the model with `factor`."""
        size = wide * self.size
        cut = np.clip(self._values, -size, size)
        apart = FACTORS - factor
        if self.setting.square:
            left = math.erf(most / self.left(factor) / math.sqrt(2))
            return np.asarray(apart * left * float((CHANCES * self._values * cut).sum()))
        if self.setting.scores > 1:
            curve = self._class_curve * self.spread**2 * 0.85
            return np.asarray(apart * curve / math.sqrt(1 + 0.25 * (factor * self.spread) ** 2))
        chance = expit(self.intercepts(FACTORS)[:, None] + FACTORS[:, None] * self._values)
        return np.asarray((CHANCES * self._slopes(factor, most, chance) * cut).sum(axis=1))

    def _slopes(self, factor: float, most: float, chance: Floats) -> Floats:
        """Return slopes at the model with `factor`, cut at `most`, where chances are these."""
        now = expit(float(self.intercept(factor)[0]) + factor * self._values)
        up, down = np.minimum(1 - now, most), np.minimum(now, most)
        return np.asarray(chance * (up + down) - down)

    def lean(self, factor: float, most: float) -> Floats:
        """Return what slopes at the model with `factor` are on average, cut at `most`."""
        if self.setting.square or self.setting.scores > 1:
            return np.zeros(self.setting.scores)
        chance = expit(float(self.intercept(factor)[0]) + factor * self._values)
        return np.array([float((CHANCES * self._slopes(factor, most, chance)).sum())])

    def curve(self, factor: float) -> Floats:
        """Return how fast leftovers fall as the intercept grows; for several classes, of each."""
        if self.setting.square:
            return np.ones(1)
        if self.setting.scores > 1:
            return 0.8 * np.maximum(self.start.shares * (1 - self.start.shares), 0.02)
        chance = expit(float(self.intercept(factor)[0]) + factor * self._values)
        return np.array([(CHANCES * chance * (1 - chance)).sum()])

    def cut_off(self, factor: float, most: float) -> float:
        """Return how far a product is off, as slopes beyond `most` may go with predictions.

        Where a number is skewed or has heavy tails, its mean may depend on features by what is
        cut off. The less is left over, the less that can be.
        """
        if not self.setting.square:
            return 0.0
        left = self.left(factor)
        kept = math.erf(most / left / math.sqrt(2)) * self.spread**2
        return TAIL * math.exp(-most / left / 1.5) * (left / self.start.spread) ** 2 * kept

    def left(self, factor: float) -> float:
        """Return what spread the model with that factor leaves of a target."""
        square = self.start.spread**2
        return math.sqrt(max(square - (factor * self.spread) ** 2, 0.06 * square))


def updated(log: Floats, read: float, noise: float, expected: Floats, form: float) -> Floats:
    """Return a posterior after a product was read, with that noise."""
    variances = noise**2 + (form * expected) ** 2
    return np.asarray(log - 0.5 * (read - expected) ** 2 / variances - 0.5 * np.log(variances))
