"""What one person of a training may be asked: one question, one report, with all of epsilon.

A question is data that the collector publishes: a device computes its value from it, from its
features x and its target y, clips the value to the range of the law, and randomises it. Nobody is
asked two questions, so a person's loss is that of one report, whatever the question was.

    Length     how long the features are
    Means      the features themselves, to centre them
    Target     the target, for the level that training starts from
    Spread     how far the target is from that level
    Classes    which of k classes
    Gradient   the slope of the loss at a model, times the features
    Leftover   what the model leaves unexplained, for the level that it ends with
    Size       how large predictions are
    Agreement  whether predictions point to where a constant is off
    Gain       by how much the model's loss is below that of a constant, or above it
    Right      whether the model tells the class
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from murmuration.exact.arrays import Floats, Reports
from murmuration.exact.randomness import Rng
from murmuration.learn.losses import Objective
from murmuration.mechanisms.base import Mechanism
from murmuration.mechanisms.tally import Tally
from murmuration.mechanisms.vector.privunit import PrivUnit
from murmuration.planning.auto import mechanism as planned
from murmuration.results.estimate import Estimate


@dataclass(frozen=True, eq=False)
class Model:
    """A linear model of features that are centred and scaled: scores W (x - centre)/scale + level.

    `weights` has a row for each score: one, or one for each of three or more classes.
    """

    weights: Floats
    level: Floats
    centre: Floats
    scale: float

    def scaled(self, x: Floats) -> Floats:
        """Return the features as the weights know them."""
        return np.asarray((x - self.centre) / self.scale)

    def scores(self, x: Floats) -> Floats:
        """Return the scores: a number for each person, or a row of them."""
        found = self.scaled(x) @ self.weights.T + self.level
        return np.asarray(found[:, 0] if len(self.level) == 1 else found)

    def predictions(self, x: Floats) -> Floats:
        """Return what the features add to the level, a row for each person."""
        return np.asarray(self.scaled(x) @ self.weights.T)


@dataclass(frozen=True, eq=False, kw_only=True)
class Question(ABC):
    """What some people of a round are asked, with epsilon each."""

    people: int
    epsilon: float

    @cached_property
    @abstractmethod
    def mechanism(self) -> Mechanism:
        """The law by which a report is drawn."""

    @abstractmethod
    def values(self, x: Floats, y: Floats) -> Floats:
        """DEVICE. Return what is randomised, in the law's domain, for people with x and y."""

    def answer(self, x: Floats, y: Floats, rng: Rng) -> Reports:
        """DEVICE. Return one report for each person."""
        return self.mechanism.privatize(self.values(x, y), rng)

    @abstractmethod
    def read(self, tally: Tally) -> Floats:
        """COLLECTOR. Return the mean of what was asked, in its own units; only clips bias it."""

    @property
    @abstractmethod
    def noise(self) -> float:
        """The standard error of what is read, of each number in it, at most."""


@dataclass(frozen=True, eq=False, kw_only=True)
class NumberQuestion(Question):
    """A question about one number, which is cut off at +-`half`."""

    half: float = 1.0

    @cached_property
    def mechanism(self) -> Mechanism:
        """The planner's choice for a number."""
        return planned("auto", epsilon=self.epsilon)

    @abstractmethod
    def number(self, x: Floats, y: Floats) -> Floats:
        """Return the number, in its own units."""

    def values(self, x: Floats, y: Floats) -> Floats:
        """The number in units of `half`, cut off at +-1."""
        return np.clip(self.number(x, y) / self.half, -1.0, 1.0)

    def estimate(self, tally: Tally, about: str = "participants") -> Estimate:
        """COLLECTOR. Return the mean with its interval, in its own units."""
        found = self.mechanism.estimate(tally, about=about)
        if not isinstance(found, Estimate):
            raise TypeError("a number's mechanism estimates a mean")
        return found.scaled(-self.half, self.half)

    def read(self, tally: Tally) -> Floats:
        """The mean."""
        return np.array([self.estimate(tally).value])

    @property
    def noise(self) -> float:
        """`half` standard errors of the law, in the worst case."""
        return self.half * math.sqrt(self.mechanism.worst_variance() / max(self.people, 1))


@dataclass(frozen=True, eq=False, kw_only=True)
class VectorQuestion(Question):
    """A question about a vector, which is shortened to `clip` where it is longer."""

    clip: float = 1.0
    dimensions: int = 1

    @cached_property
    def mechanism(self) -> PrivUnit:
        """PrivUnit: the least noise for a vector in a ball."""
        return PrivUnit(epsilon=self.epsilon, d=self.dimensions)

    @abstractmethod
    def vectors(self, x: Floats, y: Floats) -> Floats:
        """Return a row for each person, in its own units."""

    def values(self, x: Floats, y: Floats) -> Floats:
        """The vector in units of `clip`; a hair inside, so that rounding cannot leave the ball."""
        rows = self.vectors(x, y) / self.clip
        return np.asarray(rows / np.maximum(_lengths(rows) * (1 + 1e-9), 1.0))

    def read(self, tally: Tally) -> Floats:
        """The mean vector."""
        return np.asarray(self.clip * self.mechanism.mean_vector(tally))

    @property
    def noise(self) -> float:
        """The standard error of one coordinate."""
        spread = self.mechanism.total_noise() / self.dimensions
        return self.clip * math.sqrt(spread / max(self.people, 1))


def _lengths(rows: Floats) -> Floats:
    """Return the length of each row, as a column."""
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", rows, rows))[:, None])


# --- before training ---------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, kw_only=True)
class Length(NumberQuestion):
    """How long x - centre is: `half` on either side of `middle`."""

    centre: Floats | float = 0.0
    middle: float = 0.0

    def number(self, x: Floats, y: Floats) -> Floats:
        """The length, less the middle."""
        del y
        return _lengths(np.asarray(x - self.centre))[:, 0] - self.middle

    def read(self, tally: Tally) -> Floats:
        """The mean length."""
        return self.middle + super().read(tally)


@dataclass(frozen=True, eq=False, kw_only=True)
class Means(VectorQuestion):
    """The features themselves."""

    def vectors(self, x: Floats, y: Floats) -> Floats:
        """The features."""
        del y
        return x


@dataclass(frozen=True, eq=False, kw_only=True)
class Target(NumberQuestion):
    """The target, for its mean."""

    def number(self, x: Floats, y: Floats) -> Floats:
        """The target."""
        del x
        return y


@dataclass(frozen=True, eq=False, kw_only=True)
class Spread(NumberQuestion):
    """How far the target is from `level`, less `half`: 0 to 2 halves."""

    level: float = 0.0

    def number(self, x: Floats, y: Floats) -> Floats:
        """The distance, less `half`."""
        del x
        return np.abs(y - self.level) - self.half

    def read(self, tally: Tally) -> Floats:
        """The mean distance."""
        return self.half + super().read(tally)


@dataclass(frozen=True, eq=False, kw_only=True)
class Classes(Question):
    """Which of k classes a person is in."""

    k: int = 2

    @cached_property
    def mechanism(self) -> Mechanism:
        """The planner's choice for k items."""
        return planned("auto", epsilon=self.epsilon, k=self.k)

    def values(self, x: Floats, y: Floats) -> Floats:
        """The number of the class."""
        del x
        return y.astype(np.int64)

    def read(self, tally: Tally) -> Floats:
        """The share of each class, not clipped."""
        return np.array(self.mechanism.estimate(tally).value, dtype=np.float64)

    @property
    def noise(self) -> float:
        """The standard error of a share."""
        return math.sqrt(self.mechanism.worst_variance() / max(self.people, 1))


# --- training ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, kw_only=True)
class Gradient(VectorQuestion):
    """The slope of the loss at a model, cut off at `most`, times features no longer than `reach`.

    The model's level is nobody's last word here: it is a feature of its own, `constant` large.
    Cutting off the slope lets people with large errors count less than they should, which moves
    the level first; so the level that training ends with is asked again (`Leftover`).
    """

    model: Model
    objective: Objective
    most: float = 1.0
    reach: float = 1.0
    constant: float = 0.0

    def vectors(self, x: Floats, y: Floats) -> Floats:
        """Slopes times features, and times the constant; class after class."""
        slopes = self.objective.smooth(self.model.scores(x), y).reshape(len(x), -1)
        slopes = slopes / np.maximum(_lengths(slopes) / self.most, 1.0)
        features = self.model.scaled(x)
        features /= np.maximum(_lengths(features) / self.reach, 1.0)
        whole = np.column_stack([features, np.full(len(x), self.constant)])
        return np.asarray((slopes[:, :, None] * whole[:, None, :]).reshape(len(x), -1))


@dataclass(frozen=True, eq=False, kw_only=True)
class Leftover(NumberQuestion):
    """What is left of the target by the model, cut off far out: the level's own last question."""

    model: Model
    objective: Objective

    def number(self, x: Floats, y: Floats) -> Floats:
        """Minus the slope: where it is positive on average the level is too low."""
        return np.asarray(-self.objective.smooth(self.model.scores(x), y))


@dataclass(frozen=True, eq=False, kw_only=True)
class Leftovers(VectorQuestion):
    """The same as a vector: a slope for each score, shortened to `clip`."""

    model: Model
    objective: Objective

    def vectors(self, x: Floats, y: Floats) -> Floats:
        """Minus the slopes."""
        return np.asarray(-self.objective.smooth(self.model.scores(x), y)).reshape(len(x), -1)


# --- after training ----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, kw_only=True)
class Size(NumberQuestion):
    """How large predictions are, without the level; `half` on either side of `half`."""

    model: Model

    def number(self, x: Floats, y: Floats) -> Floats:
        """The length of a person's predictions, less `half`."""
        del y
        return _lengths(self.model.predictions(x))[:, 0] - self.half

    def read(self, tally: Tally) -> Floats:
        """The mean size."""
        return self.half + super().read(tally)


@dataclass(frozen=True, eq=False, kw_only=True)
class Offset(VectorQuestion):
    """What predictions are on average, without the level: 0 where features were centred well."""

    model: Model

    def vectors(self, x: Floats, y: Floats) -> Floats:
        """The predictions."""
        del y
        return self.model.predictions(x)


@dataclass(frozen=True, eq=False, kw_only=True)
class Agreement(NumberQuestion):
    """Whether a model's predictions point to where a constant is off: their product, cut off.

    It is 0 on average where the predictions have nothing to do with the target. The slope is cut
    off at `most`, a prediction at `size`; what both are on average, `lean` and `middle`, is taken
    off first, so that it does not count.
    """

    model: Model
    without: Model
    objective: Objective
    lean: Floats
    middle: Floats
    most: float
    size: float

    def number(self, x: Floats, y: Floats) -> Floats:
        """Minus the slope at the constant, times the prediction."""
        off = -self.objective.smooth(self.without.scores(x), y).reshape(len(x), -1)
        told = self.model.predictions(x) - self.middle
        off = off / np.maximum(_lengths(off) / self.most, 1.0) - self.lean
        told = told / np.maximum(_lengths(told) / self.size, 1.0)
        return np.asarray(np.einsum("ij,ij->i", off, told))


@dataclass(frozen=True, eq=False, kw_only=True)
class Gain(NumberQuestion):
    """The loss of a constant less that of a model, cut off at +-`half`: positive is better."""

    model: Model
    without: Model
    objective: Objective

    def number(self, x: Floats, y: Floats) -> Floats:
        """The difference."""
        loss = self.objective.loss
        return loss(self.without.scores(x), y) - loss(self.model.scores(x), y)


@dataclass(frozen=True, eq=False, kw_only=True)
class Right(NumberQuestion):
    """Whether the model's class is the person's: 1 or -1."""

    model: Model

    def number(self, x: Floats, y: Floats) -> Floats:
        """1 where it is right, else -1."""
        scores = self.model.scores(x)
        told = scores.argmax(axis=1) if scores.ndim == 2 else np.where(scores > 0, 1.0, -1.0)
        return np.where(told == y, 1.0, -1.0)
