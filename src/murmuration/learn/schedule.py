"""Who is asked when, how far gradients are clipped, and how large the steps are.

Everybody takes part in one round at most, so people are what a schedule spends. A schedule looks
at public numbers only (people, coordinates, epsilon, the mechanism's noise), never at data.

`FewRounds` is ours and the default: 20 rounds of equal size, gradients clipped hard (0.3), steps
of 0.3/sigma with sigma = sqrt(noise * rounds / people) the length of the noise in one round's
mean gradient, in units of the clip (no larger than what does not overshoot). So a step's noise has
length 0.3 * 0.3 = 0.09 whatever the budget: weights of a model on [-1, 1] data are a few tenths,
and the noise of the last rounds is averaged away (tail averaging). It was chosen on simulated
linear models, not on anybody's data; `experiments/learning.py` shows what it gives.

`MiniBatches` and `OneByOne` are the papers': batches of max(2 d ln d / eps^2, n/1000) people (or
one), clip 1, steps 1/sqrt(t), the last weights.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

from murmuration.errors import ParameterError


@dataclass(frozen=True)
class Plan:
    """What a schedule comes to: rounds of so many people, steps, and what is averaged."""

    batches: tuple[int, ...]
    steps: tuple[float, ...]
    tail: int
    """How many of the last weights are averaged."""

    def __post_init__(self) -> None:
        if len(self.batches) != len(self.steps) or not self.batches or min(self.batches) < 1:
            raise ParameterError("a plan has a step for each round, and somebody in each round")
        if not 1 <= self.tail <= len(self.batches):
            raise ParameterError("a plan averages the weights of one round or more")


class Schedule(ABC):
    """How people are spent."""

    clip: float

    @abstractmethod
    def plan(self, people: int, d: int, epsilon: float, noise: float, largest: float = 1.5) -> Plan:
        """Return the rounds for this many people and a mechanism of this noise.

        `largest` is the largest step that does not overshoot (see `Courier`).
        """


def _require(good: bool, words: str) -> None:
    if not good:
        raise ParameterError(words)


@dataclass(frozen=True)
class FewRounds(Schedule):
    """A few rounds of many people, steps that fit the noise, the tail averaged.

    >>> plan = FewRounds().plan(people=100_000, d=90, epsilon=1.0, noise=600.0)
    >>> len(plan.batches), plan.batches[0], round(plan.steps[0], 2), plan.tail
    (20, 5000, 0.87, 12)
    """

    rounds: int = 20
    clip: float = 0.3
    step: float = 0.3
    tail: float = 0.6

    def __post_init__(self) -> None:
        whole = isinstance(self.rounds, int) and not isinstance(self.rounds, bool)
        _require(whole and self.rounds >= 1, f"rounds must be 1 or more; got {self.rounds!r}")
        _require(self.clip > 0 and self.step > 0, "clip and step are above 0")
        _require(0 < self.tail <= 1, f"tail is the part that is averaged; got {self.tail!r}")

    def plan(self, people: int, d: int, epsilon: float, noise: float, largest: float = 1.5) -> Plan:
        """Share the people out equally; one step size for all rounds."""
        del d, epsilon
        rounds = min(self.rounds, people)
        size, more = divmod(people, rounds)
        batches = tuple(size + (place < more) for place in range(rounds))
        sigma = math.sqrt(noise * rounds / people)
        step = min(self.step / sigma, largest)
        return Plan(batches, (step,) * rounds, max(1, round(self.tail * rounds)))


@dataclass(frozen=True)
class MiniBatches(Schedule):
    """The papers' schedule: batches of max(2 d ln d / eps^2, n/1000), steps 1/sqrt(t).

    >>> MiniBatches().plan(people=100_000, d=10, epsilon=1.0, noise=47.0).batches[0]
    100
    """

    clip: float = 1.0
    rate: float = 1.0

    def __post_init__(self) -> None:
        _require(self.clip > 0 and self.rate > 0, "clip and rate are above 0")

    def plan(self, people: int, d: int, epsilon: float, noise: float, largest: float = 1.5) -> Plan:
        """Full batches only, as the papers do; those left over are not asked."""
        del noise, largest
        size = max(2 * d * math.log(max(d, 2)) / epsilon**2, people / 1000)
        size = min(people, max(1, math.ceil(size)))
        return _plain(size, people // size, self.rate)


@dataclass(frozen=True)
class OneByOne(Schedule):
    """Private stochastic gradient descent: one person a round, steps 1/sqrt(t)."""

    clip: float = 1.0
    rate: float = 1.0

    def __post_init__(self) -> None:
        _require(self.clip > 0 and self.rate > 0, "clip and rate are above 0")

    def plan(self, people: int, d: int, epsilon: float, noise: float, largest: float = 1.5) -> Plan:
        """As many rounds as people."""
        del d, epsilon, noise, largest
        return _plain(1, people, self.rate)


def _plain(size: int, rounds: int, rate: float) -> Plan:
    """Rounds of one size, steps that fall as 1/sqrt(t), the last weights."""
    steps = tuple(rate / math.sqrt(t) for t in range(1, rounds + 1))
    return Plan((size,) * rounds, steps, 1)
