"""What one person of a training may be asked: one question, one report, with all of epsilon.

A question is data that the collector publishes: a device computes its value from it, from its
features x and its target y, clips the value to the range of the law, and randomises it. Nobody is
asked two questions, so a person's loss is that of one report, whatever the question was. Values are
worked out by `arithmetic.py`, to the bit: what is simulated here is what devices do elsewhere.

    Target     the target, for the intercept that training starts from
    Spread     how far the target is from that intercept
    Classes    which of k classes
    Column     one attribute: its label, or the nearest of nine points of a number
    Bin        in which part of its range a number to predict is
    Gradient   the slope of the loss at a model, times the features
    Leftover   what the model leaves unexplained, for the intercept that it ends with
    Size       how large predictions are
    Agreement  whether predictions point to where a constant is off
    Gain       by how much the model's loss is below that of a constant, or above it
    Right      whether the model tells the class
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, cast

import numpy as np

from murmuration.exact.arrays import Floats, Ints, Reports
from murmuration.exact.randomness import Rng
from murmuration.mechanisms.base import Mechanism
from murmuration.mechanisms.domain import Ball, Domain, Items, Number
from murmuration.mechanisms.tally import Tally
from murmuration.mechanisms.vector.privunit import PrivUnit
from murmuration.planning.auto import mechanism as planned
from murmuration.results.estimate import Estimate
from murmuration.training.algorithm.arithmetic import HAIR, added, lengths, shortened
from murmuration.training.algorithm.losses import Objective

COLUMN_POINTS, BINS = 9, 16
"""The points that a number of a look is rounded to, and the parts of the target's range."""


@dataclass(frozen=True)
class Attribute:
    """The columns of one attribute: one for a number, one for each label but the last.

    A label's columns are `absent` where it is not the label: 0, or -1. A column that is `declared`
    to be a number is scaled by how far it spreads; others may be labels, whatever they look like.
    """

    first: int
    width: int = 1
    labels: bool = False
    absent: float = 0.0
    declared: bool = True

    @property
    def columns(self) -> slice:
        """Where its columns are."""
        return slice(self.first, self.first + self.width)

    @property
    def items(self) -> int:
        """What a look at it can say."""
        return self.width + 1 if self.labels else COLUMN_POINTS


class Laws:
    """The laws of a training: one for numbers, one for vectors of each length, one for classes.

    `given` are those that were published; others are the planner's choice, made when needed.

    >>> laws = Laws(1.0)
    >>> laws.vector(90).report_bytes, laws.number is laws.number
    (5, True)
    """

    def __init__(self, epsilon: float, given: Iterable[Mechanism] = ()) -> None:
        self.epsilon, self.given = epsilon, tuple(given)
        self._known: dict[Domain, Mechanism] = {
            Number() if law.takes is Number else law.domain: law for law in self.given
        }

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Laws):
            return NotImplemented
        return (self.epsilon, self.given) == (other.epsilon, other.given)

    def __hash__(self) -> int:
        return hash(self.epsilon)

    @property
    def number(self) -> Mechanism:
        """The law for a number."""
        return self._law(Number(), partial(planned, "auto", epsilon=self.epsilon))

    def vector(self, d: int) -> PrivUnit:
        """Return the law for a vector of d numbers: PrivUnit has the least noise."""
        law = self._law(Ball(d), partial(PrivUnit, epsilon=self.epsilon, d=d))
        return cast(PrivUnit, law)  # a training that is published has no other

    def items(self, k: int) -> Mechanism:
        """Return the law for one of k classes."""
        return self._law(Items(k), partial(planned, "auto", epsilon=self.epsilon, k=k))

    def _law(self, domain: Domain, made: Callable[[], Mechanism]) -> Mechanism:
        if domain not in self._known:
            self._known[domain] = made()
        return self._known[domain]


@dataclass(frozen=True, eq=False)
class Model:
    """A linear model of features: scores W (x - centre)/scale + intercept.

    `weights` has a row for each score: one, or one for each of three or more classes. `scale` has
    a number for each feature.
    """

    weights: Floats
    intercept: Floats
    centre: Floats
    scale: Floats

    def scaled(self, x: Floats) -> Floats:
        """Return the features as the weights know them, (x - centre) / scale, a row each."""
        return np.asarray((x.T - self.centre[:, None]) / self.scale[:, None])

    def predictions(self, x: Floats) -> Floats:
        """Return what the features add to the intercept: sums of w (x - centre) / scale, in order.

        A row for each score.
        """
        scaled = self.scaled(x)
        return np.stack([added(weights[:, None] * scaled) for weights in self.weights])

    def scores(self, x: Floats) -> Floats:
        """Return the scores: a number for each person, or a row of them."""
        found = self.predictions(x) + self.intercept[:, None]
        return np.asarray(found[0] if len(self.intercept) == 1 else found.T)


@dataclass(frozen=True, eq=False, kw_only=True)
class Question(ABC):
    """What some people of a round are asked, with epsilon each."""

    ask: ClassVar[str]
    """What it is called in a round's document."""
    numbers: ClassVar[tuple[str, ...]] = ()
    """Its numbers, in the order in which a document has them."""
    lists: ClassVar[tuple[str, ...]] = ()
    """Those of them that there is one of for each score."""
    models: ClassVar[tuple[str, ...]] = ()
    """The models that it is about."""
    wholes: ClassVar[tuple[str, ...]] = ()
    """Its whole numbers: places in lists of the campaign."""

    people: int
    laws: Laws

    @property
    def epsilon(self) -> float:
        """What one answer may cost."""
        return self.laws.epsilon

    @classmethod
    def length(cls, width: int) -> int:
        """Return how many numbers a person is asked for, where there are so many features."""
        del width
        return 1

    @property
    @abstractmethod
    def mechanism(self) -> Mechanism:
        """The law by which a report is drawn."""

    @abstractmethod
    def values(self, x: Floats, y: Floats) -> Floats | Ints:
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

    numbers: ClassVar[tuple[str, ...]] = ("half",)

    half: float = 1.0

    @property
    def mechanism(self) -> Mechanism:
        """The law for a number."""
        return self.laws.number

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

    numbers: ClassVar[tuple[str, ...]] = ("clip",)

    clip: float = 1.0
    dimensions: int = 1

    @property
    def mechanism(self) -> PrivUnit:
        """The law for a vector."""
        return self.laws.vector(self.dimensions)

    @abstractmethod
    def vectors(self, x: Floats, y: Floats) -> Floats:
        """Return a row for each number of the vector, a column for each person."""

    def values(self, x: Floats, y: Floats) -> Floats:
        """The vector in units of `clip`; a hair inside, so that rounding cannot leave the ball."""
        rows = self.vectors(x, y) / self.clip
        return np.ascontiguousarray((rows / np.maximum(lengths(rows) * HAIR, 1.0)).T)

    def read(self, tally: Tally) -> Floats:
        """The mean vector."""
        return np.asarray(self.clip * self.mechanism.mean_vector(tally))

    @property
    def noise(self) -> float:
        """The standard error of one coordinate."""
        spread = self.mechanism.total_noise() / self.dimensions
        return self.clip * math.sqrt(spread / max(self.people, 1))


# --- before training ---------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, kw_only=True)
class Target(NumberQuestion):
    """The target, for its mean."""

    ask: ClassVar[str] = "target"

    def number(self, x: Floats, y: Floats) -> Floats:
        """The target."""
        del x
        return y


@dataclass(frozen=True, eq=False, kw_only=True)
class Spread(NumberQuestion):
    """How far the target is from `intercept`, less `half`: 0 to 2 halves."""

    ask: ClassVar[str] = "spread"
    numbers: ClassVar[tuple[str, ...]] = ("half", "intercept")

    intercept: float = 0.0

    def number(self, x: Floats, y: Floats) -> Floats:
        """The distance, less `half`."""
        del x
        return np.abs(y - self.intercept) - self.half

    def read(self, tally: Tally) -> Floats:
        """The mean distance."""
        return self.half + super().read(tally)


class ItemQuestion(Question):
    """A question about one of some items."""

    @property
    @abstractmethod
    def items(self) -> int:
        """How many items there are."""

    @property
    def mechanism(self) -> Mechanism:
        """The law for so many items."""
        return self.laws.items(self.items)

    def read(self, tally: Tally) -> Floats:
        """The share of each item, not clipped."""
        return np.array(self.mechanism.estimate(tally).value, dtype=np.float64)

    @property
    def noise(self) -> float:
        """The standard error of a share."""
        return math.sqrt(self.mechanism.worst_variance() / max(self.people, 1))


@dataclass(frozen=True, eq=False, kw_only=True)
class Classes(ItemQuestion):
    """Which of k classes a person is in."""

    ask: ClassVar[str] = "classes"

    k: int = 2

    @property
    def items(self) -> int:
        """The classes."""
        return self.k

    def values(self, x: Floats, y: Floats) -> Ints:
        """The number of the class."""
        del x
        return y.astype(np.int64)


@dataclass(frozen=True, eq=False, kw_only=True)
class Column(ItemQuestion):
    """One attribute: the label that is 1 (the last label has no column), or a number's point."""

    ask: ClassVar[str] = "column"
    wholes: ClassVar[tuple[str, ...]] = ("feature",)

    feature: int
    """The attribute's number."""
    attribute: Attribute

    @property
    def items(self) -> int:
        """The labels, or the points of a number."""
        return self.attribute.items

    def values(self, x: Floats, y: Floats) -> Ints:
        """The label's number, or that of the nearest point of -1, -3/4, ..., 1."""
        del y
        columns = x[:, self.attribute.columns]
        if self.attribute.labels:
            own = columns > 0.5
            return np.where(own.any(axis=1), own.argmax(axis=1), self.attribute.width)
        half = (COLUMN_POINTS - 1) / 2
        return np.floor(half * np.clip(columns[:, 0], -1.0, 1.0) + half + 0.5).astype(np.int64)


@dataclass(frozen=True, eq=False, kw_only=True)
class Bin(ItemQuestion):
    """In which of `BINS` equal parts of [-1, 1] the target is."""

    ask: ClassVar[str] = "bin"

    @property
    def items(self) -> int:
        """The parts."""
        return BINS

    def values(self, x: Floats, y: Floats) -> Ints:
        """The part's number."""
        del x
        places = np.floor((np.clip(y, -1.0, 1.0) + 1) * (BINS / 2)).astype(np.int64)
        return np.minimum(places, BINS - 1)


# --- training ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, kw_only=True)
class Gradient(VectorQuestion):
    """The slope of the loss at a model, cut off at `most`, times features no longer than `reach`.

    The model's intercept is nobody's last word here: it is a feature of its own, `constant` large.
    Cutting off the slope lets people with large errors count less than they should, which moves
    the intercept first; so the intercept that training ends with is asked again (`Leftover`).
    """

    ask: ClassVar[str] = "gradient"
    numbers: ClassVar[tuple[str, ...]] = ("most", "reach", "constant", "clip")
    models: ClassVar[tuple[str, ...]] = ("model",)

    model: Model
    objective: Objective
    most: float = 1.0
    reach: float = 1.0
    constant: float = 0.0

    @classmethod
    def length(cls, width: int) -> int:
        """One number for each feature, and one for the constant."""
        return width + 1

    def vectors(self, x: Floats, y: Floats) -> Floats:
        """Slopes times features, and times the constant; class after class."""
        slopes = shortened(_rows(self.objective.smooth(self.model.scores(x), y)), self.most)
        features = shortened(self.model.scaled(x), self.reach)
        whole = np.vstack([features, np.full(len(x), self.constant)])
        return np.concatenate([slope * whole for slope in slopes])


@dataclass(frozen=True, eq=False, kw_only=True)
class Leftover(NumberQuestion):
    """What the model leaves of the target, cut off far out: the intercept's own last question."""

    ask: ClassVar[str] = "leftover"
    models: ClassVar[tuple[str, ...]] = ("model",)

    model: Model
    objective: Objective

    def number(self, x: Floats, y: Floats) -> Floats:
        """Minus the slope: where it is positive on average the intercept is too low."""
        return np.asarray(-self.objective.smooth(self.model.scores(x), y))


@dataclass(frozen=True, eq=False, kw_only=True)
class Leftovers(VectorQuestion):
    """The same as a vector: a slope for each score, shortened to `clip`."""

    ask: ClassVar[str] = "leftovers"
    models: ClassVar[tuple[str, ...]] = ("model",)

    model: Model
    objective: Objective

    def vectors(self, x: Floats, y: Floats) -> Floats:
        """Minus the slopes."""
        return _rows(-self.objective.smooth(self.model.scores(x), y))


# --- after training ----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, kw_only=True)
class Size(NumberQuestion):
    """How large predictions are, without the intercept; `half` on either side of `half`."""

    ask: ClassVar[str] = "size"
    models: ClassVar[tuple[str, ...]] = ("model",)

    model: Model

    def number(self, x: Floats, y: Floats) -> Floats:
        """The length of a person's predictions, less `half`."""
        del y
        return lengths(self.model.predictions(x)) - self.half

    def read(self, tally: Tally) -> Floats:
        """The mean size."""
        return self.half + super().read(tally)


@dataclass(frozen=True, eq=False, kw_only=True)
class Offset(VectorQuestion):
    """What predictions are on average, less the intercept: 0 where features were centred well."""

    ask: ClassVar[str] = "offset"
    models: ClassVar[tuple[str, ...]] = ("model",)

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

    ask: ClassVar[str] = "agreement"
    numbers: ClassVar[tuple[str, ...]] = ("most", "size", "lean", "middle", "half")
    lists: ClassVar[tuple[str, ...]] = ("lean", "middle")
    models: ClassVar[tuple[str, ...]] = ("model", "without")

    model: Model
    without: Model
    objective: Objective
    lean: Floats
    middle: Floats
    most: float
    size: float

    def number(self, x: Floats, y: Floats) -> Floats:
        """Minus the slope at the constant, times the prediction."""
        off = _rows(-self.objective.smooth(self.without.scores(x), y))
        off = shortened(off, self.most) - self.lean[:, None]
        told = shortened(self.model.predictions(x) - self.middle[:, None], self.size)
        return added(off * told)


@dataclass(frozen=True, eq=False, kw_only=True)
class Gain(NumberQuestion):
    """The squared error of a constant less that of a model, cut off at +-`half`.

    Positive is better. Whatever the model is, the error is squared: the same bits everywhere.
    """

    ask: ClassVar[str] = "gain"
    models: ClassVar[tuple[str, ...]] = ("model", "without")

    model: Model
    without: Model

    def number(self, x: Floats, y: Floats) -> Floats:
        """The difference."""
        return np.square(self.without.scores(x) - y) - np.square(self.model.scores(x) - y)


@dataclass(frozen=True, eq=False, kw_only=True)
class Right(NumberQuestion):
    """Whether the model's class is the person's: 1 or -1."""

    ask: ClassVar[str] = "right"
    models: ClassVar[tuple[str, ...]] = ("model",)

    model: Model

    def number(self, x: Floats, y: Floats) -> Floats:
        """1 where it is right, else -1."""
        scores = self.model.scores(x)
        told = scores.argmax(axis=1) if scores.ndim == 2 else np.where(scores > 0, 1.0, -1.0)
        return np.where(told == y, 1.0, -1.0)


def _rows(slopes: Floats) -> Floats:
    """Return slopes with a row for each score; where there is one score, they are flat."""
    return slopes[None] if slopes.ndim == 1 else slopes.T


ROLES: dict[str, type[Question]] = {
    kind.ask: kind
    for kind in (
        *(Column, Bin, Target, Spread, Gradient, Leftover, Leftovers),
        *(Size, Offset, Agreement, Gain, Right),
    )
}
"""What people of a published round may be asked."""
DIVISORS = ("half", "clip", "most", "reach", "size")
"""Numbers of questions that something is divided by: they are above 0."""
