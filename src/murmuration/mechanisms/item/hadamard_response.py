"""Hadamard response: a number whose bits agree with the item's more often than not."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from murmuration.exact.arrays import Floats, Ints, Reports
from murmuration.exact.randomness import WORD_BITS, Rng, drawn
from murmuration.mechanisms.item.base import (
    parity,
    power_of_two,
    require_small_channel,
    walsh_hadamard,
)
from murmuration.mechanisms.item.hadamard import OneBit
from murmuration.mechanisms.tally import Tally


@dataclass(frozen=True)
class HadamardResponse(OneBit):
    """Send y in 0 .. K-1; half of all y agree with the item and are e^eps times as likely.

    y agrees with item v when y and v+1 share an even number of bits; two items agree on half of
    their y. p = E/(E+1), q = 1/2, n Var about B^2.

    epsilon: the budget of one report, 0.001 to 20
    k: how many items there are, 2 or more; an answer is 0 to k-1

    >>> HadamardResponse(epsilon=1.0, k=16).symbols
    32
    """

    name: ClassVar[str] = "hadamard-response"
    paper: ClassVar[str] = "Acharya, Sun, Zhang 2019"
    summary: ClassVar[str] = "a row whose entry at the item's column is +1 more often"

    @property
    def symbols(self) -> int:
        """The smallest power of two above k: column 0 is no good, all its entries agree."""
        return power_of_two(self.k + 1)

    def channel(self) -> Floats:
        """P spread over the half of all y that agree, 1-p over the other half."""
        require_small_channel(self)
        differs = parity(np.arange(1, self.k + 1)[:, None] & np.arange(self.symbols))
        return np.where(differs, float(1 - self.p), float(self.p)) * 2 / self.symbols

    def respond(self, items: Ints, rng: Rng) -> Reports:
        """Draw any y and whether to agree; if it does not fit, flip a bit that the item has.

        The first y is no public coin: what is sent may be another, and given the first one it
        would tell the item.
        """
        words = rng.words(2 * len(items)).reshape(-1, 2)
        y = drawn(words[:, 0]) >> (WORD_BITS - self.symbols.bit_length() + 1)
        lie = drawn(words[:, 1]) >= self.response.truth
        column = items + 1
        y ^= np.where(parity(y & column) != lie, column & -column, 0)
        return y.astype(np.min_scalar_type(self.symbols - 1))

    def support(self, tally: Tally) -> Ints:
        """C_v = (n + sum of +-1 in v's column) / 2, all items at once by the fast transform."""
        return (tally.n + walsh_hadamard(tally.counts)[1 : self.k + 1]) // 2

    @property
    def blank_support(self) -> Fraction:
        """Half of all y."""
        return Fraction(1, 2)

    def blank(self, reports: Reports, rng: Rng) -> Reports:
        """Any y."""
        y = drawn(rng.words(len(reports))) >> (WORD_BITS - self.symbols.bit_length() + 1)
        return y.astype(reports.dtype)

    def law(self) -> dict[str, Any]:
        """The response's weights and the alphabet."""
        return {**self.response.law(), "symbols": self.symbols}
