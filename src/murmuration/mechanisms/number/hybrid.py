"""The hybrid mechanism: a coin chooses between the piecewise mechanism and Duchi's bit."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from murmuration.exact.exponential import exp_below
from murmuration.exact.randomness import WHOLE
from murmuration.mechanisms.number.base import Design, NumericMechanism, ramp, window
from murmuration.mechanisms.number.piecewise import cells_for, plateau_ratio

SWITCH = 0.61
"""Below this epsilon (0.609 in the paper) the bit alone is better and is used alone."""


@dataclass(frozen=True)
class Hybrid(NumericMechanism):
    """Piecewise with probability 1 - e^(-eps/2), Duchi's bit otherwise; the report says which.

    The two variances bend in opposite ways: mixed like this the sum is the same for every x.

    epsilon: the budget of one report, 0.001 to 20

    >>> hybrid = Hybrid(epsilon=2.0)
    >>> round(float(hybrid.variance(0.0)), 2), round(float(hybrid.variance(1.0)), 2)
    (1.04, 1.04)
    """

    name: ClassVar[str] = "hybrid"
    paper: ClassVar[str] = "Wang et al. 2019 (HM)"
    summary: ClassVar[str] = "a coin picks the piecewise mechanism or Duchi's bit"

    def build(self) -> Design:
        """Lay the piecewise table and the bit's table side by side."""
        if self.epsilon <= SWITCH:
            return ramp(1, self.epsilon)
        cells = cells_for(self.epsilon)
        total = int(WHOLE * (1 - 1 / exp_below(Fraction(self.epsilon) / 2)))
        plateau = window(cells, cells / plateau_ratio(self.epsilon, "pm"), self.epsilon, total)
        bit = ramp(cells, self.epsilon, WHOLE - total)
        return Design(
            np.hstack([plateau.weights, bit.weights]),
            np.concatenate([plateau.values, bit.values]),
        )
