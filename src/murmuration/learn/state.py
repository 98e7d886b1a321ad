"""What the parts of a training share: the task, who is left to ask, what was found so far."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field

import numpy as np

from murmuration.exact.arrays import Floats
from murmuration.learn.losses import Objective
from murmuration.learn.questions import (
    Model,
    NumberQuestion,
    Question,
)
from murmuration.mechanisms.tally import Tally
from murmuration.mechanisms.vector.privunit import PrivUnit
from murmuration.planning.auto import mechanism as planned
from murmuration.results.estimate import Estimate


@dataclass(frozen=True)
class Setting:
    """What is public before the first question: the task, how many people, and epsilon."""

    objective: Objective
    people: int
    features: int
    epsilon: float
    scores: int = 1
    """1, or the number of classes where there are three or more."""
    intercept: bool = True
    penalty: float = 0.0
    rounds: int | None = None

    @property
    def number(self) -> bool:
        """Whether the target is a number."""
        return self.objective.name == "squared"

    @property
    def square(self) -> bool:
        """Whether the loss is a square: for the hinge, of how far a person is from the margin."""
        return self.objective.name in ("squared", "hinge")


@dataclass(frozen=True, eq=False)
class Stage:
    """One model of the path, and what the reports say it has gained so far."""

    model: Model
    asked: int
    """How many people were asked so far."""
    gained: float
    doubt: float
    """Parts of what a constant leaves unexplained, by the clipped loss, and the standard error."""


@dataclass(eq=False)
class Trained:
    """What a training ends with."""

    model: Model
    without: Model
    """The constant."""
    path: list[Stage]
    kept: float
    """How much of the trained weights is in the model: 0 where agreement was within noise."""
    noise: float
    """The standard deviation that noise has put into each weight, at most."""
    rounds: int
    score: Estimate | None = None
    question: NumberQuestion | None = None
    """What the people of the score were asked."""


Answers = Generator[tuple[Question, ...], Sequence[Tally], list[Floats]]
Procedure = Generator[tuple[Question, ...], Sequence[Tally], Trained]


@dataclass(frozen=True, eq=False)
class Start:
    """Where training starts: the level, and how far targets are from it."""

    level: Floats
    doubt: float
    """The level's standard error."""
    spread: float
    """The target's standard deviation; 1 for classes."""
    unexplained: float
    """What a constant's loss is: the variance (for the hinge, that of -1 and 1), or the entropy."""
    curve: float
    """The loss's own curvature by a score, before slopes are cut off."""


@dataclass
class Crowd:
    """Who has not been asked yet, and what one answer's noise is."""

    setting: Setting
    left: int = field(init=False)

    def __post_init__(self) -> None:
        self.left = self.setting.people
        epsilon = self.setting.epsilon
        number, vector = planned("auto", epsilon=epsilon), PrivUnit(epsilon=epsilon, d=16)
        people = self.setting.people
        self.level_noise = number.worst_variance() / people
        """The variance of a mean of numbers in [-1, 1], if everybody answered."""
        self.vector_noise = vector.total_noise() / 16 / people
        """That of a coordinate of a mean vector, in units of its greatest length."""

    @property
    def asked(self) -> int:
        """How many people have been asked, or are kept for a question after training."""
        return self.setting.people - self.left

    def take(self, share: float) -> int:
        """Return how many people that part of all is, one at least, and count them as asked."""
        taken = min(max(1, int(share * self.setting.people)), self.left)
        self.left -= taken
        return taken


def between(low: float, value: float, high: float) -> float:
    """Return the value, or the end that it is beyond."""
    return min(max(value, low), high)


def drawn_towards(found: float, noise: float, guess: float, doubt: float) -> float:
    """Return what was read, drawn towards a guess by how noisy it is.

    >>> drawn_towards(1.0, 0.1, 0.0, 0.1), drawn_towards(1.0, 0.0, 0.0, 0.1)
    (0.5, 1.0)
    """
    weight = doubt**2 / (doubt**2 + noise**2)
    return weight * found + (1 - weight) * guess


def beyond_noise(found: float, noise: float) -> float:
    """Return what was read less what noise would make of nothing: 0 up to one standard error.

    >>> beyond_noise(0.5, 1.0), beyond_noise(2.0, 1.0)
    (0.0, 1.5)
    """
    return max(found, 0.0) * max(0.0, 1 - (noise / found) ** 2) if found > 0 else 0.0


def ask(*questions: Question) -> Answers:
    """Ask a round of questions and read the answers; one that nobody is left for has none."""
    put = tuple(question for question in questions if question.people)
    tallies = (yield put) if put else []
    read = {id(q): q.read(tally) for q, tally in zip(put, tallies, strict=True)}
    return [read.get(id(q), np.array([])) for q in questions]


def single(answer: Floats, guess: float) -> float:
    """Return the only number of an answer, or the guess if nobody was asked."""
    return float(answer[0]) if answer.size else guess


def weight_of(noise: float, expected: float) -> float:
    """Return how much of what was read counts, if about so much is expected."""
    return expected**2 / (expected**2 + noise**2)
