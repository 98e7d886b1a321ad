"""Duchi's one-bit mechanism; Harmony with one attribute."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from murmuration.mechanisms.number.base import Design, NumericMechanism, ramp


@dataclass(frozen=True)
class Duchi(NumericMechanism):
    """Say + with probability 1/2 + x/(2B), B = (e^eps+1)/(e^eps-1); read the answer as +-B.

    Variance B^2 - x^2. The one to take when people are piled up at the two ends, and it is the
    smallest report there is.

    epsilon: the budget of one report, 0.001 to 20

    >>> duchi = Duchi(epsilon=1.0)
    >>> duchi.symbols, round(duchi.worst_variance(), 3)
    (2, 4.683)
    """

    name: ClassVar[str] = "duchi"
    paper: ClassVar[str] = "Duchi, Jordan, Wainwright 2018; Harmony (Nguyen et al. 2016)"
    summary: ClassVar[str] = "one bit, odds linear in the value"

    def build(self) -> Design:
        """Two grid points, two symbols."""
        return ramp(1, self.epsilon)
