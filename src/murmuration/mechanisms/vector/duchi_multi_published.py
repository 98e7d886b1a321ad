"""Duchi's mechanism for vectors as it was first published: wrong for an even number of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from murmuration.exact.exponential import exp_below
from murmuration.exact.randomness import WHOLE
from murmuration.mechanisms.vector.duchi_multi import DuchiMulti


@dataclass(frozen=True)
class DuchiMultiPublished(DuchiMulti):
    """Choose T+ with probability e^eps/(e^eps+1) whatever its size: here to be compared with.

    For odd d that is right. For even d T+ is smaller than T- (ties are in T-), so its corners are
    too likely: the exact loss is eps + ln(|T-|/|T+|), and means come out biased.

    epsilon: the budget of one report, 0.001 to 20
    d: how many numbers a person has, each in [-1, 1]
    domains: the same as zeros, one per number; items are not taken

    >>> published = DuchiMultiPublished(epsilon=1.0, d=2)
    >>> round(published.loss().epsilon, 3), published.loss().holds
    (2.099, False)
    """

    name: ClassVar[str] = "duchi-multi-published"
    paper: ClassVar[str] = "Duchi, Jordan, Wainwright 2018, as printed"
    summary: ClassVar[str] = "as printed: leaks and is biased for even d"
    keeps_promise: ClassVar[bool] = False

    @cached_property
    def inside(self) -> int:
        """e^eps/(e^eps+1)."""
        ratio = exp_below(self.epsilon)
        return int(WHOLE * ratio / (ratio + 1))

    @cached_property
    def bound(self) -> float:
        """The printed B: (2^d + |T+| (E-1)) / (C(d-1, floor(d/2)) (E-1)), right for odd d only."""
        d, ratio = self.bits, exp_below(self.epsilon)
        middle = math.comb(d - 1, d // 2 if d % 2 == 0 else (d - 1) // 2)
        return float((2**d + self.corners * (ratio - 1)) / (middle * (ratio - 1)))
