"""Many trainings of one schedule side by side: the papers' experiments, as fast as they can be.

    race = SideBySide(objective("squared"), MiniBatches(), OneCoordinate(law), x, y, people=10**6)
    weights = race.train(runs=8, rng=seeded_rng(1))        a row for each training

Trainings differ in who is asked and in the noise, as folds of a cross validation do. People are
drawn from a pool: (x, y) may have far fewer rows than `people`. A batch has nobody twice; another
batch may have somebody again. Only what a report says of a gradient is computed: one coordinate
where a mechanism asks for one. For simulations: devices of a collection go by `rounds.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from murmuration.errors import ParameterError
from murmuration.exact.arrays import Floats, Ints
from murmuration.exact.randomness import Rng, uniform
from murmuration.learn.papers.schedule import AsPublished, MiniBatches
from murmuration.mechanisms.number.base import NumericMechanism
from murmuration.mechanisms.vector.duchi_multi import DuchiMulti
from murmuration.training.algorithm.losses import Objective

HUGE = 1e12
"""Weights beyond that are held there: a training that diverges stays a number."""


class Sender(ABC):
    """How the mean gradient of a batch reaches the collector.

    A person's gradient is slope times x, each coordinate clipped to [-1, 1].
    """

    @abstractmethod
    def means(self, slopes: Floats, x: Floats, runs: int, rng: Rng) -> Floats:
        """Return a row for each run, of people who come run by run, as many in each."""


class InTheClear(Sender):
    """Nothing is randomised: what a schedule reaches without privacy."""

    def means(self, slopes: Floats, x: Floats, runs: int, rng: Rng) -> Floats:
        """Average clipped gradients.

        >>> from murmuration import seeded_rng
        >>> x = np.array([[1.0, 0.5], [1.0, -1.0]])
        >>> InTheClear().means(np.array([3.0, 0.5]), x, 1, seeded_rng(1)).tolist()
        [[0.75, 0.25]]
        """
        del rng
        clipped = np.clip(slopes[:, None] * x, -1, 1)
        return np.asarray(clipped.reshape(runs, -1, x.shape[1]).mean(axis=1))


@dataclass(frozen=True)
class OneCoordinate(Sender):
    """Each person is asked about one coordinate, drawn at random, with all of epsilon."""

    law: NumericMechanism

    def means(self, slopes: Floats, x: Floats, runs: int, rng: Rng) -> Floats:
        """Draw coordinates, randomise them, and let each answer stand for all."""
        place, values = drawn_coordinates(slopes, x, rng)
        worth = self.law.read_each(self.law.respond(values, rng))
        return np.asarray(summed(worth, place, runs, x.shape[1]) * (x.shape[1] * runs / len(x)))


@dataclass(frozen=True)
class WholeVector(Sender):
    """Each person sends all signs of the gradient at once, by Duchi's mechanism for vectors."""

    law: DuchiMulti

    def means(self, slopes: Floats, x: Floats, runs: int, rng: Rng) -> Floats:
        """Randomise whole gradients."""
        clipped = np.clip(slopes[:, None] * x, -1, 1)
        worth = self.law.read_each(self.law.respond(list(clipped.T), rng))
        return np.asarray(worth.reshape(runs, -1, x.shape[1]).mean(axis=1))


def drawn_coordinates(slopes: Floats, x: Floats, rng: Rng) -> tuple[Ints, Floats]:
    """Draw a coordinate for each person; return which, and the clipped gradient there."""
    place = uniform(rng.public(), len(x), x.shape[1])
    return place, np.clip(slopes * x[np.arange(len(x)), place], -1, 1)


def summed(worth: Floats, place: Ints, runs: int, d: int) -> Floats:
    """Add up answers by run and coordinate; people come run by run."""
    run = np.repeat(np.arange(runs), len(worth) // runs)
    sums: Floats = np.bincount(run * d + place, weights=worth, minlength=runs * d)  # type: ignore[assignment]
    return sums.reshape(runs, d)


@dataclass(frozen=True, eq=False)
class SideBySide:
    """Trainings of one schedule, from a pool of features x and targets y.

    `people` is how many each training asks. `participations` m: everybody takes part m times, with
    epsilon/m each (the sender's law is that of epsilon/m; batches are as large as it needs).
    `still` ends a training whose weights moved less than that, in length, over a batch.
    """

    objective: Objective
    schedule: AsPublished
    sender: Sender
    x: Floats
    y: Floats
    people: int
    epsilon: float = 1.0
    penalty: float = 0.0
    participations: int = 1
    still: float = 0.0

    def __post_init__(self) -> None:
        if self.batch > len(self.x):
            raise ParameterError(
                f"a batch has {self.batch:,} people; the pool has {len(self.x):,}: enlarge it"
            )

    @property
    def batch(self) -> int:
        """How many people a round of one training asks."""
        if not isinstance(self.schedule, MiniBatches):
            return 1
        each = self.epsilon / self.participations
        return self.schedule.batch(self.x.shape[1], each, self.people * self.participations)

    @property
    def rounds(self) -> int:
        """How many rounds there are."""
        return self.people * self.participations // self.batch

    def train(self, runs: int, rng: Rng) -> Floats:
        """Return the last weights of each training, a row each."""
        steps = self.schedule.steps(self.rounds)
        clip = self.schedule.clip
        weights = np.zeros((runs, self.x.shape[1]))
        draw = np.random.default_rng(rng.words(4).tolist())
        going = np.ones(runs, dtype=bool)
        for size, starts in zip(steps, self._starts(draw, runs), strict=True):
            x, y = self._blocks(starts)
            scores = np.matmul(x.reshape(runs, self.batch, -1), weights[:, :, None])
            slopes = self.objective.slope(scores.reshape(-1), y) / clip
            means = clip * self.sender.means(slopes, x, runs, rng)
            moved = (weights - size * means) / (1 + size * self.penalty)
            moved = np.clip(moved, -HUGE, HUGE)
            far = np.linalg.norm(moved - weights, axis=1)
            weights[going] = moved[going]
            if self.still:
                going &= far >= self.still
                if not going.any():
                    break
        return weights

    def _starts(self, draw: np.random.Generator, runs: int) -> Ints:
        """Where in the pool each batch of each run begins."""
        return draw.integers(0, len(self.x) - self.batch + 1, (self.rounds, runs))

    def _blocks(self, starts: Sequence[int] | Ints) -> tuple[Floats, Floats]:
        if self.batch == 1:
            return self.x[starts], self.y[starts]
        parts = [slice(start, start + self.batch) for start in np.asarray(starts).tolist()]
        if len(parts) == 1:
            return self.x[parts[0]], self.y[parts[0]]
        return (
            np.concatenate([self.x[part] for part in parts]),
            np.concatenate([self.y[part] for part in parts]),
        )
