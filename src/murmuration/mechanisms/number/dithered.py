"""Dithered randomised response (SDRR): compare with a public random threshold, flip, subtract."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from murmuration.errors import ParameterError
from murmuration.exact.exponential import exp_below
from murmuration.exact.randomness import WHOLE
from murmuration.mechanisms.number.base import Design, NumericMechanism


@dataclass(frozen=True)
class Dithered(NumericMechanism):
    """Draw a threshold, say whether the value is above it, lie with probability 1/(e^eps+1).

    Read as B*bit + kappa*threshold, B = (e^eps+1)/(e^eps-1). The threshold does not depend on
    the value, so the loss is that of the one bit. With kappa = 1 the variance is B^2 - 2/3 for
    every value: nothing has to be known about the people to state the error, and at epsilon
    up to 0.5 nobody can do better by more than 0.02%. kappa = 1.5 gains a little when values are
    known to be near 0. The counts by threshold also show the distribution.

    epsilon: the budget of one report, 0.001 to 20
    thresholds: how many thresholds there are, a power of two
    kappa: how much of the threshold is subtracted again, 0 to 2

    >>> dithered = Dithered(epsilon=0.5)
    >>> round(dithered.worst_variance(), 2), round(float(dithered.variance(0.3)), 2)
    (16.0, 16.0)
    """

    name: ClassVar[str] = "dithered"
    paper: ClassVar[str] = "subtractive dither on randomised response (derived for this project)"
    summary: ClassVar[str] = "one bit against a random threshold, which is subtracted again"

    thresholds: int = 64
    kappa: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.thresholds not in [1 << g for g in range(1, 15)]:
            raise ParameterError(
                f"thresholds must be a power of two from 2 to 16384; got {self.thresholds!r}"
            )
        if not (isinstance(self.kappa, int | float) and 0 <= self.kappa <= 2):
            raise ParameterError(f"kappa must be between 0 and 2; got {self.kappa!r}")
        object.__setattr__(self, "kappa", float(self.kappa))

    def build(self) -> Design:
        """Symbol 2j says "below threshold j", 2j+1 "above"; thresholds are equally likely."""
        cells = self.thresholds
        share = WHOLE // cells
        lie = math.ceil(share / (exp_below(self.epsilon) + 1))
        above = np.arange(cells + 1)[:, None] > np.arange(cells)[None, :]
        yes = np.where(above, share - lie, lie)
        weights = np.stack([share - yes, yes], axis=2).reshape(cells + 1, 2 * cells)
        bound = share / (share - 2 * lie)
        middles = -1 + (2 * np.arange(cells) + 1) / cells
        values = np.stack([self.kappa * middles - bound, self.kappa * middles + bound], axis=1)
        return Design(weights, values.ravel())
