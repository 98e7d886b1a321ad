"""How far training should go: what more steps will gain, and what their noise will cost.

Features are scaled to a mean squared length of 1, and t is the length of the descent so far: the
sum of its steps. With B(t) = |gradient|^2, going on from t to t + s gains the integral of 2 B, and
noise of variance v in each coordinate of a mean gradient of everybody costs about s^2 v, whatever
the number of features (the mean of z z' has trace 1). So training should stop where B(t) = v t.

B is not known. It falls like B(t) = start (1 + curve t)^-2, and what start and curve are is a
posterior on a grid: a stated prior, and squared gradients as the rounds have shown them, read
without bias from products of gradients of different people.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from murmuration.exact.arrays import Floats

LOWER, DOUBT = 0.2, 0.45
"""The prior of the first squared gradient: decades below its guess, and their deviation."""
CURVE_DOUBT = 0.5
"""Decades, as well: of how fast it falls. The guess is sqrt(.1/d)."""
FORM_DOUBT = 0.2
"""The form of B is off by so much, as a part of B."""
LENGTHS = np.concatenate([[0.0], np.logspace(-1, 3.3, 90)])
"""How much further may be gone."""


@dataclass(frozen=True)
class Ahead:
    """How much further to go, and what that is expected to gain, its noise taken off."""

    length: float
    gain: float


class Outlook:
    """The posterior of what training will gain.

    >>> outlook = Outlook(1.0, 10)
    >>> much, little = outlook.ahead(0.0, 0.001), outlook.ahead(0.0, 1.0)
    >>> much.length > little.length, much.gain > little.gain
    (True, True)
    """

    def __init__(self, guess: float, features: int) -> None:
        self._starts: Floats = guess * 10 ** np.linspace(-2.5, 1.2, 38)
        curve = math.sqrt(0.1 / max(features, 2))
        self._curves: Floats = curve * 10 ** np.linspace(-1.3, 1.0, 16)
        starts = -0.5 * ((np.log10(self._starts / guess) + LOWER) / DOUBT) ** 2
        curves = -0.5 * (np.log10(self._curves / curve) / CURVE_DOUBT) ** 2
        self._log: Floats = starts[:, None] + curves[None, :]
        self._kept = 1.0

    def rescaled(self, kept: float) -> None:
        """Say that features were weighed anew: so much of the first squared gradient is left."""
        self._kept = kept

    def seen(self, length: float, squared: float, doubt: float) -> None:
        """Learn from a squared gradient after that length, and its standard error."""
        expected = self._squared(length)
        variance = doubt**2 + (FORM_DOUBT * expected) ** 2
        self._log = self._log - 0.5 * (squared - expected) ** 2 / variance - 0.5 * np.log(variance)

    def ahead(self, length: float, noise: float) -> Ahead:
        """Return how much further to go where a step of everybody's has noise of that variance."""
        share = self._share()
        so_far = self._gained(length)
        best = Ahead(0.0, 0.0)
        for further in LENGTHS.tolist():
            gain = float((share * (self._gained(length + further) - so_far)).sum())
            gain -= further**2 * noise
            if gain > best.gain:
                best = Ahead(further, gain)
        return best

    def gained(self, length: float) -> float:
        """Return what a descent of that length is expected to have gained, before noise."""
        return float((self._share() * self._gained(length)).sum())

    def gain_and_doubt(self, length: float) -> tuple[float, float]:
        """Return what a descent of that length has gained, and the standard deviation."""
        share, gained = self._share(), self._gained(length)
        mean = float((share * gained).sum())
        return mean, math.sqrt(max(float((share * (gained - mean) ** 2).sum()), 0.0))

    def _share(self) -> Floats:
        share = np.exp(self._log - self._log.max())
        return np.asarray(share / share.sum())

    def _falls(self, length: float) -> Floats:
        return np.asarray(1 + self._kept * self._curves * length)

    def _squared(self, length: float) -> Floats:
        return np.asarray(self._kept * self._starts[:, None] * self._falls(length)[None, :] ** -2)

    def _gained(self, length: float) -> Floats:
        """The integral of 2 B from 0 to that length."""
        over = 2 / (self._kept * self._curves) * (1 - 1 / self._falls(length))
        return np.asarray(self._kept * self._starts[:, None] * over[None, :])
