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
one), clip 1, steps 1/sqrt(t), the last weights, nothing centred; batch and step are parameters.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from murmuration.errors import ParameterError
from murmuration.exact.arrays import Floats
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
    """What the papers' schedules share: clip 1, steps of rate/sqrt(t), the last weights.

    `constant` steps are all as large as the first (the DCT paper's rate is .01).
    """

    clip: float = 1.0
    rate: float = 1.0
    constant: bool = False

    def __post_init__(self) -> None:
        _require(_positive(self.clip) and _positive(self.rate), "clip and rate are above 0")

    def clip_for(self, d: int, ball: bool) -> float:
        """Return the clip, whatever the mechanism."""
        del d, ball
        return self.clip

    def steps(self, rounds: int) -> Floats:
        """Return how large each round's step is.

        >>> MiniBatches(rate=0.5).steps(4).round(3).tolist()
        [0.5, 0.354, 0.289, 0.25]
        """
        t = np.ones(rounds) if self.constant else np.arange(1, rounds + 1, dtype=np.float64)
        return np.asarray(self.rate / np.sqrt(t))

    def in_batches(self, size: int, people: int) -> Plan:
        """Return rounds of one size: full ones only, the last weights."""
        rounds = people // size
        return Plan((size,) * rounds, tuple(self.steps(rounds).tolist()), 1)


@dataclass(frozen=True)
class MiniBatches(AsPublished):
    """The papers' schedule: batches of max(2 d ln d / eps^2, n/1000), steps 1/sqrt(t).

    That is Harmony's; HierA's has factor 1 and part 0, DCT's too, with a constant step of .01.
    `size` asks for batches of that many people instead.
    """

    factor: float = 2.0
    part: float = 0.001
    size: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _require(_positive(self.factor), f"factor is above 0; got {self.factor!r}")
        _require(0 <= self.part <= 1, f"part, of the people, is 0 to 1; got {self.part!r}")
        whole = isinstance(self.size, int) and not isinstance(self.size, bool)
        _require(self.size is None or (whole and self.size >= 1), "size is 1 or more people")

    def batch(self, d: int, epsilon: float, people: int) -> int:
        """Return how many people a round asks.

        >>> MiniBatches().batch(85, 1.0, 100_000), MiniBatches(factor=1).batch(90, 0.5, 100_000)
        (756, 1620)
        """
        if self.size is not None:
            return min(people, self.size)
        wanted = max(self.factor * d * math.log(max(d, 2)) / epsilon**2, self.part * people)
        return min(people, max(1, math.ceil(wanted)))

    def plan(self, people: int, epsilon: float, courier: Courier) -> Plan:
        """Full batches only, as the papers do; those left over are not asked."""
        return self.in_batches(self.batch(courier.dimensions, epsilon, people), people)


@dataclass(frozen=True)
class OneByOne(AsPublished):
    """Private stochastic gradient descent: one person a round, steps 1/sqrt(t)."""

    def plan(self, people: int, epsilon: float, courier: Courier) -> Plan:
        """As many rounds as people."""
        del epsilon, courier
        return self.in_batches(1, people)
