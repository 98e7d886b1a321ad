"""Descent by noisy gradients: many small steps, or few large ones that are averaged.

Plain descent goes against each gradient by the same step. Where that step would be large beside
the curvature of the loss, the leg is accelerated stochastic approximation (Lan, 2012): in round
k = 1, 2, ... the gradient g_k is asked at m_k = (1 - a_k) s + a_k w, with a_k = 2/(k + 1); then

    w <- w - step k g_k,        s <- (1 - a_k) s + a_k w.

s is what the leg ends with: an average, so that the noise of every round counts, and of a few
rounds goes as far as plain descent in many. A leg's length is what plain descent of as much noise
would have gone: its noise is length^2 v / rounds for gradients of variance v.
"""

from __future__ import annotations

import math

import numpy as np

from murmuration.exact.arrays import Floats


def mixed(k: int) -> float:
    """Return a_k, the part of the newest weights in the average.

    >>> [round(mixed(k), 2) for k in (1, 2, 3)]
    [1.0, 0.67, 0.5]
    """
    return 2.0 / (k + 1)


def noise_kept(rounds: int, step: float) -> float:
    """Return the variance of a coordinate of s, for gradients with noise of variance 1.

    >>> noise_kept(1, 2.0)
    4.0
    """
    return float(np.square(parts_kept(rounds, step)).sum())


def parts_kept(rounds: int, step: float) -> list[float]:
    """Return how much of each round's gradient is in s after so many: s = -sum of part times g.

    >>> parts_kept(1, 2.0), [round(part, 3) for part in parts_kept(3, 1.0)]
    ([2.0], [1.0, 1.667, 1.5])
    """
    newest, average = np.zeros(rounds), np.zeros(rounds)
    for k in range(1, rounds + 1):
        newest[k - 1] = step * k
        average = (1 - mixed(k)) * average + mixed(k) * newest
    return [float(part) for part in average]


class Descent:
    """A few rounds from one point on: moves are counted from there.

    >>> leg = Descent.of(1.0, 4, (1, 2), 0.3, 0.25)
    >>> for _ in range(4):
    ...     leg.move(np.ones((1, 2)), 10)
    >>> leg.reached.tolist(), leg.length
    ([[-1.0, -1.0]], 1.0)
    """

    def __init__(self, step: float, shape: tuple[int, ...], *, accelerated: bool) -> None:
        self.step, self.accelerated = step, accelerated
        self.people: list[int] = []
        """How many have answered in each of its rounds."""
        self._newest: Floats = np.zeros(shape)
        self._average: Floats = np.zeros(shape)

    @classmethod
    def of(
        cls, length: float, rounds: int, shape: tuple[int, ...], steepest: float, large: float
    ) -> Descent:
        """Return a leg of that length in so many rounds, where the loss curves so much at most."""
        step = length / max(rounds, 1)
        if step <= large / steepest:
            return cls(step, shape, accelerated=False)
        wanted = length / math.sqrt(rounds * noise_kept(rounds, 1.0))
        return cls(min(wanted, 0.5 / steepest), shape, accelerated=True)

    @property
    def rounds(self) -> int:
        """How many have been answered."""
        return len(self.people)

    @property
    def parts(self) -> list[float]:
        """How much of each round's gradient is in the move."""
        if self.accelerated:
            return parts_kept(self.rounds, self.step)
        return [self.step] * self.rounds

    @property
    def noise(self) -> float:
        """What noise of standard deviation 1 in each gradient puts into the move."""
        return math.sqrt(sum(part**2 for part in self.parts))

    @property
    def length(self) -> float:
        """The length of plain descent with as much noise."""
        return self.noise * math.sqrt(self.rounds)

    @property
    def middle(self) -> float:
        """How much of the length is still to come, on average, in the second half of the rounds."""
        return 0.3 if self.accelerated else 0.25

    @property
    def point(self) -> Floats:
        """Where the next gradient is asked: the move so far."""
        if not self.accelerated:
            return self._newest
        a = mixed(self.rounds + 1)
        return np.asarray((1 - a) * self._average + a * self._newest)

    @property
    def reached(self) -> Floats:
        """The move that the leg ends with."""
        return self._average if self.accelerated else self._newest

    def move(self, gradient: Floats, people: int) -> None:
        """Take a step against a gradient at `point`, of so many people."""
        self.people.append(people)
        k = self.rounds if self.accelerated else 1
        self._newest = self._newest - self.step * k * gradient
        a = mixed(self.rounds)
        self._average = (1 - a) * self._average + a * self._newest
