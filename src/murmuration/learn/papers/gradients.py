"""How one person's gradient travels: clipped, scaled to the mechanism's domain, randomised.

Mechanisms for several numbers take a box, each coordinate in [-1, 1]; `privunit` takes the unit
ball. A gradient is clipped to `clip` in that norm and divided by it, so that whatever the data,
the privacy holds; the collector multiplies the mean by `clip` again.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from murmuration.errors import ParameterError
from murmuration.exact.arrays import Floats, Reports
from murmuration.exact.randomness import Rng
from murmuration.learn.papers.hiera import ByAttribute
from murmuration.mechanisms.domain import Ball, Box, Number
from murmuration.mechanisms.registry import list_mechanisms, vector_mechanism
from murmuration.mechanisms.tally import Tally
from murmuration.mechanisms.vector.base import TupleMechanism
from murmuration.mechanisms.vector.sampled import Sampled


@dataclass(frozen=True)
class Courier:
    """Carries gradients of d coordinates: a mechanism and the bound that they are clipped to."""

    mechanism: TupleMechanism
    clip: float
    graded_by: int | None = None
    """The feature whose range decides the grade, for `hiera`."""

    @property
    def ball(self) -> bool:
        """Whether gradients are clipped as a whole, by their length, or each coordinate alone."""
        return self.mechanism.takes is Ball

    def clipped(self, gradients: Floats) -> Floats:
        """Return gradients in the mechanism's domain.

        >>> courier = Courier(gradient_mechanism("harmony", 1.0, 2), clip=0.5)
        >>> courier.clipped(np.array([[0.25, -3.0]])).tolist()
        [[0.5, -1.0]]
        """
        scaled = gradients / self.clip
        if not self.ball:
            return np.clip(scaled, -1, 1)
        length = np.linalg.norm(scaled, axis=1, keepdims=True)
        # A hair inside, so that rounding cannot leave the ball.
        return np.asarray(scaled / np.maximum(length * (1 + 1e-9), 1.0))

    def send(self, gradients: Floats, x: Floats, rng: Rng) -> Reports:
        """DEVICE. Clip and randomise gradients, one a person; x are the features."""
        values = self.clipped(gradients)
        if self.graded_by is not None:
            values = np.column_stack([x[:, self.graded_by], values])
        return self.mechanism.privatize(values, rng)

    def read(self, tally: Tally) -> Floats:
        """COLLECTOR. Return the mean gradient of those who reported, unbiased but for clipping."""
        return np.asarray(self.clip * self.mechanism.mean_vector(tally))

    @cached_property
    def noise(self) -> float:
        """N times the squared length of the mean's noise, in units of the clip, at most."""
        return self.mechanism.total_noise() * self.dimensions / len(self.mechanism.attributes)

    @property
    def reach(self) -> float:
        """How far the weights may move in a step, clip times step, without overshooting.

        Near the optimum the mean of gradients clipped to a ball bends the less the longer the
        features are, about as 1/sqrt(d); by coordinates it does not depend on d.
        """
        return 0.15 * math.sqrt(self.dimensions) if self.ball else 0.45

    @property
    def dimensions(self) -> int:
        """How many coordinates a gradient has."""
        return len(self.mechanism.attributes) - (self.graded_by is not None)


def courier_for(
    mechanism: str | ByAttribute, epsilon: float, d: int, clip: Callable[[int, bool], float]
) -> Courier:
    """Return the courier of a mechanism's name, or of HierA's grades; `clip` is a schedule's."""
    if isinstance(mechanism, ByAttribute):
        return Courier(mechanism.mechanism(epsilon, d), clip(d, False), mechanism.attribute)
    made = gradient_mechanism(mechanism, epsilon, d)
    return Courier(made, clip(d, made.takes is Ball))


def gradient_mechanism(name: str, epsilon: float, d: int) -> TupleMechanism:
    """Return the mechanism of that name for d coordinates; "auto" is privunit.

    A mechanism for one number (piecewise, hybrid, optimal, dct, ...) is asked about one coordinate
    that is drawn at random, independently of the gradient.

    >>> gradient_mechanism("piecewise", 1.0, 3).numeric
    'piecewise'
    """
    chosen = "privunit" if name == "auto" else name
    kind = list_mechanisms().get(chosen)
    if kind is not None and kind.takes in (Box, Ball):
        return vector_mechanism(chosen, epsilon=epsilon, d=d)
    if kind is not None and kind.takes is Number:
        return Sampled(epsilon=epsilon, d=d, numeric=chosen)
    raise ParameterError(f"no mechanism for gradients is called {name!r}")
