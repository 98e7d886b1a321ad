"""Optimised unary encoding: a fair coin for the own item, a rare lie for the others."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from murmuration.exact.exponential import exp_below
from murmuration.mechanisms.item.sue import HALF_WORD, UnaryMechanism


@dataclass(frozen=True)
class Oue(UnaryMechanism):
    """Set the own bit with probability 1/2, every other with 1/(e^eps+1).

    n Var = 4E/(E-1)^2 for a rare item, whatever k: the limit for many items, at k bits a report.

    epsilon: the budget of one report, 0.001 to 20
    k: how many items there are, 2 or more; an answer is 0 to k-1

    >>> round(Oue(epsilon=1.0, k=16).total_variance(), 1)
    59.9
    """

    name: ClassVar[str] = "oue"
    paper: ClassVar[str] = "Wang, Blocki, Li, Jha 2017"
    summary: ClassVar[str] = "a bit for each item: a coin for the own, a rare lie for others"

    @property
    def no(self) -> int:  # type: ignore[override]
        """ceil(2^32 / (E+1))."""
        return math.ceil(HALF_WORD / (exp_below(self.epsilon) + 1))

    @property
    def yes(self) -> int:  # type: ignore[override]
        """One half."""
        return HALF_WORD // 2
