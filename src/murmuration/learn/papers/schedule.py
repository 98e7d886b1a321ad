"""Who is asked when, how far gradients are clipped, and how large the steps are.

Everybody takes part in one round at most, so people are what a schedule spends. A schedule looks
at public numbers only (people, coordinates, epsilon, the mechanism's noise), never at data.

`FewRounds` is ours and the default. Three in a hundred people are asked for features instead of a
gradient, to centre them (`Training`): without that, features that are not 0 on average make one
direction so steep that every step overshoots. Then 20 rounds of equal size. Gradients are clipped
to 0.1 sqrt(d) (0.3 a coordinate where coordinates are clipped alone): harder clipping is less
noise, but people whose gradient is clipped all count alike, and a model of skewed data needs
to tell them apart. A step is as large as lets its noise have length 0.09 (weights on [-1, 1]
data are a few tenths), unless that would overshoot; the last 12 rounds' weights are averaged. All
this was chosen by trial on one simulated data set and on public census data (their held-out people
included); `experiments/learning.py` measures it on data sets that had no part in that.

`MiniBatches` and `OneByOne` are the papers': batches of max(2 d ln d / eps^2, n/1000) people (or
one), clip 1, steps 1/sqrt(t), the last weights, nothing centred.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

from murmuration.errors import ParameterError
from murmuration.learn.papers.gradients import Courier


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

    centre: float = 0.0
    """The part of the people who are asked for their features, to centre them."""

    @abstractmethod
    def clip_for(self, d: int, ball: bool) -> float:
        """Return the bound that gradients are clipped to: their length, or each coordinate."""

    @abstractmethod
    def plan(self, people: int, epsilon: float, courier: Courier) -> Plan:
        """Return the rounds for this many people and gradients that travel like this."""


def _require(good: bool, words: str) -> None:
    if not good:
        raise ParameterError(words)


def _positive(number: object) -> bool:
    return isinstance(number, int | float) and 0 < number < math.inf


@dataclass(frozen=True)
class FewRounds(Schedule):
    """A few rounds of many people, steps that fit the noise, the tail averaged.

    `noise` is the length of the noise that one step may put into the weights; `clip` None is the
    public default (see above).
    """

    rounds: int = 20
    clip: float | None = None
    noise: float = 0.09
    tail: float = 0.6
    centre: float = 0.03

    def __post_init__(self) -> None:
        whole = isinstance(self.rounds, int) and not isinstance(self.rounds, bool)
        _require(whole and self.rounds >= 1, f"rounds must be 1 or more; got {self.rounds!r}")
        _require(self.clip is None or _positive(self.clip), f"clip is above 0; got {self.clip!r}")
        _require(_positive(self.noise), f"noise is above 0; got {self.noise!r}")
        _require(0 < self.tail <= 1, f"tail is the part that is averaged; got {self.tail!r}")
        _require(0 <= self.centre < 1, f"centre is a part of the people; got {self.centre!r}")

    def clip_for(self, d: int, ball: bool) -> float:
        """Return the clip, or its default.

        >>> FewRounds().clip_for(100, ball=True), FewRounds().clip_for(100, ball=False)
        (1.0, 0.3)
        """
        if self.clip is not None:
            return self.clip
        return 0.1 * math.sqrt(d) if ball else 0.3

    def plan(self, people: int, epsilon: float, courier: Courier) -> Plan:
        """Share the people out equally; one step size for all rounds."""
        del epsilon
        rounds = min(self.rounds, people)
        size, more = divmod(people, rounds)
        batches = tuple(size + (place < more) for place in range(rounds))
        sigma = math.sqrt(courier.noise * rounds / people)  # of a round's mean, in clips
        step = min(self.noise / sigma, courier.reach) / courier.clip
        return Plan(batches, (step,) * rounds, max(1, round(self.tail * rounds)))


@dataclass(frozen=True)
class AsPublished(Schedule):
    """What the papers' schedules share: clip 1, steps of rate/sqrt(t), the last weights."""

    clip: float = 1.0
    rate: float = 1.0

    def __post_init__(self) -> None:
        _require(_positive(self.clip) and _positive(self.rate), "clip and rate are above 0")

    def clip_for(self, d: int, ball: bool) -> float:
        """Return the clip, whatever the mechanism."""
        del d, ball
        return self.clip


class MiniBatches(AsPublished):
    """The papers' schedule: batches of max(2 d ln d / eps^2, n/1000), steps 1/sqrt(t)."""

    def plan(self, people: int, epsilon: float, courier: Courier) -> Plan:
        """Full batches only, as the papers do; those left over are not asked."""
        d = courier.dimensions
        size = max(2 * d * math.log(max(d, 2)) / epsilon**2, people / 1000)
        size = min(people, max(1, math.ceil(size)))
        return _plain(size, people // size, self.rate)


class OneByOne(AsPublished):
    """Private stochastic gradient descent: one person a round, steps 1/sqrt(t)."""

    def plan(self, people: int, epsilon: float, courier: Courier) -> Plan:
        """As many rounds as people."""
        del epsilon, courier
        return _plain(1, people, self.rate)


def _plain(size: int, rounds: int, rate: float) -> Plan:
    """Rounds of one size, steps that fall as 1/sqrt(t), the last weights."""
    steps = tuple(rate / math.sqrt(t) for t in range(1, rounds + 1))
    return Plan((size,) * rounds, steps, 1)
