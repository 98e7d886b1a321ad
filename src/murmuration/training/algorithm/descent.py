"""Descent by noisy gradients whose noise is known: how far to step, and what it has brought.

One *leg* is accelerated stochastic approximation (Lan, 2012). In round k = 1, 2, ... the gradient
g_k is asked at m_k = (1 - a_k) s + a_k w, with a_k = 2/(k + 1); then

    w <- w - step k g_k,        s <- (1 - a_k) s + a_k w.

s is what a leg ends with: an average, so that the noise of every round counts, and of a few
rounds goes as far as plain descent in many. `step` is the largest that keeps the variance that
noise puts into s below an allowance (worked out exactly, as all of this is linear), and not larger
than the curvature allows.

What a leg has brought is read off the same reports: between two rounds the loss falls by the
mean of both gradients times the move. A gradient's noise is in the moves after it; what that adds
to the product on average is known and taken off.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from murmuration.exact.arrays import Floats

HALVINGS = 25
"""Of the interval in which the step is looked for."""
CLEAR = 4.0
"""Standard errors from which on the slope along a leg is no noise."""


def mixed(k: int) -> float:
    """Return a_k, the part of the newest weights in the average.

    >>> [round(mixed(k), 2) for k in (1, 2, 3)]
    [1.0, 0.67, 0.5]
    """
    return 2.0 / (k + 1)


def noise_kept(rounds: int, step: float, curvature: float = 0.0) -> float:
    """Return the variance of a coordinate of s, for gradients with noise of variance 1.

    A loss that curves pulls noise back: without curvature it is the most that it can be.

    >>> noise_kept(1, 2.0), noise_kept(6, 0.5, 0.2) < noise_kept(6, 0.5)
    (4.0, True)
    """
    spread = np.zeros((2, 2))
    for k in range(1, rounds + 1):
        a, pull = mixed(k), step * k * curvature
        moved = np.array([1 - pull * a, -pull * (1 - a)])
        turn = np.array([moved, a * moved + [0.0, 1 - a]])
        spread = turn @ spread @ turn.T + (step * k) ** 2 * np.outer([1, a], [1, a])
    return float(spread[1, 1])


def largest_step(rounds: int, allowed: float, curvature: float, most: float) -> float:
    """Return the largest step up to `most` whose noise stays within what is allowed.

    >>> round(largest_step(1, 4.0, 0.0, 10.0), 6)
    2.0
    """
    if noise_kept(rounds, most, curvature) <= allowed:
        return most
    low, high = 0.0, most
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if noise_kept(rounds, middle, curvature) <= allowed:
            low = middle
        else:
            high = middle
    return low


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


@dataclass
class Leg:
    """A few rounds from one point on: moves are counted from there.

    A gradient's `noise` is the standard error of one of its coordinates.
    """

    step: float
    dimensions: int
    rounds: int = 0
    noise: float = 0.0
    """The largest of its rounds."""

    def __post_init__(self) -> None:
        self.newest: Floats = np.zeros(self.dimensions)
        self.average: Floats = np.zeros(self.dimensions)
        self.first: Floats | None = None
        """The gradient at the point where the leg began."""
        self._first_noise = 0.0
        self._last: tuple[Floats, Floats, float, float] | None = None
        self._moved: Floats = np.zeros(self.dimensions)
        self.fallen, self._variance = 0.0, 0.0
        self.people: list[int] = []
        """How many have answered in each of its rounds."""

    @property
    def doubt(self) -> float:
        """The standard error of `fallen`."""
        return math.sqrt(max(self._variance, 0.0))

    @property
    def point(self) -> Floats:
        """Where the next gradient is asked: the move so far."""
        a = mixed(self.rounds + 1)
        return np.asarray((1 - a) * self.average + a * self.newest)

    def move(self, gradient: Floats, noise: float) -> None:
        """Take a step against a gradient at `point`, with that noise."""
        here = self.point
        if self._last is not None:
            self._count(gradient, here, noise)
        if self.first is None:
            self.first, self._first_noise = gradient, noise
        self.noise = max(self.noise, noise)
        self.rounds += 1
        k, a, b = self.rounds, mixed(self.rounds), mixed(self.rounds + 1)
        self.newest = self.newest - self.step * k * gradient
        self.average = (1 - a) * self.average + a * self.newest
        # How much of this gradient, and so of its noise, is in the next move.
        self._last = gradient, here, self.step * k * ((1 - b) * a + b), noise

    def _count(self, gradient: Floats, here: Floats, noise: float) -> None:
        """Add what the last move has brought: the mean of the gradients at both ends, times it."""
        if self._last is None:
            return
        before, there, own, its = self._last
        moved, squared = here - there, max(its, noise) ** 2
        known = own * its**2 * self.dimensions  # the noise of `before` times itself, in the move
        self.fallen -= (float(gradient @ moved) + float(before @ moved) + known) / 2
        # The gradient between two moves, and so its noise, is in the products with both.
        self._variance += squared * float(moved @ moved + self._moved @ moved) / 2
        self._variance += (own * squared) ** 2 * self.dimensions / 2
        self._moved = moved

    def steepness(self, gradient: Floats, noise: float) -> float | None:
        """Return what the curvature along the leg is at most, by the gradient at its end.

        It is how much the slope along the leg has changed, for the length of the leg, and two
        standard errors. None where noise alone could have made the leg: it says nothing then.
        """
        length = float(self.average @ self.average)
        if self.first is None or length == 0:
            return None
        # Of the first gradient, and so of its noise, one step is in the average.
        known = self.step * self._first_noise**2 * self.dimensions
        start = -float(self.first @ self.average) - known
        doubt = math.hypot(noise, self._first_noise) * math.sqrt(length)
        if start < CLEAR * doubt:
            return None
        change = start + float(gradient @ self.average)
        return (max(change, 0.0) + 2 * doubt) / length
