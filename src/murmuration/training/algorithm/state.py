"""What the parts of a training share: the task, who is left to ask, what was found so far."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from murmuration.errors import ParameterError
from murmuration.exact.arrays import Floats
from murmuration.mechanisms.tally import Tally
from murmuration.results.estimate import Estimate
from murmuration.training.algorithm.losses import Objective
from murmuration.training.algorithm.questions import (
    Attribute,
    Laws,
    Model,
    NumberQuestion,
    Question,
)


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
    least: int = 1
    """Nothing is asked of fewer people than that: what is published would be about too few."""
    laws: Laws = field(default=None)  # type: ignore[assignment]  # the planner's, if left out
    attributes: tuple[Attribute, ...] = ()
    """Whose columns the features are; left out: each column is one of its own."""

    def __post_init__(self) -> None:
        if self.laws is None:
            object.__setattr__(self, "laws", Laws(self.epsilon))
        if not self.attributes:
            places = range(self.features)
            each = tuple(Attribute(place, declared=False) for place in places)
            object.__setattr__(self, "attributes", each)
        ends = [0, *(attribute.first + attribute.width for attribute in self.attributes)]
        if [*(attribute.first for attribute in self.attributes), self.features] != ends:
            raise ParameterError(f"attributes are those of {self.features} columns, in order")

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


@dataclass(frozen=True)
class Pull:
    """How far one made-up report of a round moves a weight, times that round's people, at most.

    Along the path that was taken: with the questions, steps and scales as they were.
    """

    far: float
    people: int


@dataclass(eq=False)
class Trained:
    """What a training ends with."""

    model: Model
    without: Model
    """The constant."""
    path: list[Stage]
    kept: float
    """How much of the trained weights is in the model: 0 where agreement was within noise."""
    noise: Floats
    """The standard deviation that noise has put into each weight, as a column's own unit has it."""
    rounds: int
    score: Estimate | None = None
    question: NumberQuestion | None = None
    """What the people of the score were asked."""
    early: bool = False
    """Whether it was ended before its last question: nothing has shown that it is no noise."""
    curve: list[Stage] = field(default_factory=list)
    """The learning curve: the same as the path, after every round of gradients."""
    pulls: list[Pull] = field(default_factory=list)
    """What lies in each round of gradients do to the weights, before `kept`; none: not known."""


@dataclass(frozen=True, eq=False)
class Answer:
    """What a question has come to: the mean, and the noise of as many as did answer.

    Nobody, asked or answering: the mean is empty and its noise has no end.
    """

    value: Floats
    noise: float
    people: int = 0

    @property
    def known(self) -> bool:
        """Whether anybody has answered."""
        return self.value.size > 0

    def single(self, guess: float) -> float:
        """Return the only number, or the guess if nobody has answered."""
        return float(self.value[0]) if self.known else guess


NOBODY = Answer(np.array([]), math.inf)
Answers = Generator[tuple[Question, ...], Sequence[Tally], list[Answer]]
Procedure = Generator[tuple[Question, ...], Sequence[Tally], Trained]


@dataclass(frozen=True, eq=False)
class Start:
    """Where training starts: the intercept, and how far targets are from it."""

    intercept: Floats
    doubt: float
    """The intercept's standard error."""
    spread: float
    """The target's standard deviation; 1 for classes."""
    unexplained: float
    """What a constant's loss is: the variance (for the hinge, that of -1 and 1), or the entropy."""
    curve: float
    """The loss's own curvature by a score, before slopes are cut off."""
    shares: Floats = field(default_factory=lambda: np.full(2, 0.5))
    """Of the classes, where there are any."""
    columns: Floats = field(default_factory=lambda: np.zeros(0))
    """The standard deviation of each column, as the look has it."""


@dataclass
class Crowd:
    """Who has not been asked yet, and what one answer's noise is."""

    setting: Setting
    left: int = field(init=False)
    reached: Trained | None = field(init=False, default=None)
    """What training would end with if it ended now."""

    def __post_init__(self) -> None:
        self.left = self.setting.people
        number, vector = self.setting.laws.number, Laws(self.setting.epsilon).vector(16)
        people = self.setting.people
        self.level_noise = number.worst_variance() / people
        """The variance of a mean of numbers in [-1, 1], if everybody answered."""
        self.vector_noise = vector.total_noise() / 16 / people
        """That of a coordinate of a mean vector, in units of its greatest length."""

    @property
    def asked(self) -> int:
        """How many people have been asked, or are kept for a question after training."""
        return self.setting.people - self.left

    def take(self, share: float, questions: int = 1) -> int:
        """Return how many people that part of all is, and count them as asked.

        They are as many as `questions` need at least; nobody, where so many are not left.
        """
        fewest = questions * self.setting.least
        taken = max(fewest, int(share * self.setting.people))
        if self.left < taken:
            taken = self.left if self.left >= fewest else 0
        self.left -= taken
        return taken

    def parted(self, people: int, some: int, of: int) -> tuple[int, int]:
        """Share people out over two questions, `some` of `of` to the first.

        All are the second's where they are too few for both.

        >>> from murmuration.training.algorithm.losses import objective
        >>> crowd = Crowd(Setting(objective("squared"), 1000, 2, 1.0, least=100))
        >>> [crowd.parted(people, 3, 10) for people in (1000, 210, 199)]
        [(300, 700), (100, 110), (0, 199)]
        """
        least = self.setting.least
        first = max(people * some // of, least)
        return (first, people - first) if people - first >= least else (0, people)


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
    """Ask a round of questions and read the answers; one that nobody is left for has none.

    The noise is that of the people who did answer, be they fewer or more than were expected.
    """
    put = tuple(question for question in questions if question.people)
    tallies = (yield put) if put else []
    read = {
        id(q): Answer(q.read(tally), replace(q, people=tally.n).noise, tally.n)
        for q, tally in zip(put, tallies, strict=True)
        if tally.n
    }
    return [read.get(id(q), NOBODY) for q in questions]


def weight_of(noise: float, expected: float) -> float:
    """Return how much of what was read counts, if about so much is expected."""
    return expected**2 / (expected**2 + noise**2)
