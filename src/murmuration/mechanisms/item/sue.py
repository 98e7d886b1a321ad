"""Symmetric unary encoding: a noisy bit for each item (basic RAPPOR; the papers' BRR)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from murmuration.exact.arrays import Ints, Reports
from murmuration.exact.exponential import exp_below, log_above
from murmuration.exact.loss import Loss
from murmuration.exact.randomness import Rng
from murmuration.mechanisms.item.base import BitMechanism
from murmuration.mechanisms.packing import pack_bits
from murmuration.mechanisms.tally import Tally
from murmuration.mechanisms.trial import Trial, WordTrial, spread_over
from murmuration.results.crowd import Evidence, Limits

PATTERNS = 64
"""Patterns of bits that the auditor tries, for each item."""
MOST_WORDS = 1 << 12
HALF_WORD = 1 << 32
"""Bits are drawn from half words: two to a word, exact to 2^-32."""


class UnaryMechanism(BitMechanism):
    """An independent bit for each item: set with weight `yes` for the own one, `no` for others."""

    yes: int
    no: int

    @property
    def p(self) -> Fraction:
        """The own bit is set."""
        return Fraction(self.yes, HALF_WORD)

    @property
    def q(self) -> Fraction:
        """Another bit is set."""
        return Fraction(self.no, HALF_WORD)

    def respond(self, items: Ints, rng: Rng) -> Reports:
        """Person i uses ceil(k/2) words; item j compares the j-th half word with its weight."""
        words = rng.words(len(items) * ((self.k + 1) // 2))
        halves = (
            words.astype("<u8", copy=False)
            .view("<u4")
            .reshape(len(items), self.k + self.k % 2)[:, : self.k]
        )
        bits = halves < np.uint32(self.no)
        people = np.arange(len(items))
        bits[people, items] = halves[people, items] < np.uint32(self.yes)
        return pack_bits(bits)

    def trials(self) -> Iterator[Trial]:
        """Half words just below and at each bit's weight, in patterns that no two bits share."""
        coins = np.random.default_rng(0)
        for item in spread_over(self.k, 8 if self.k <= MOST_WORDS else 2):
            weights = np.full(self.k, self.no, dtype=np.uint32)
            weights[item] = self.yes
            bits = coins.random((PATTERNS, self.k)) < 0.5
            halves = np.zeros((PATTERNS, self.k + self.k % 2), dtype="<u4")
            halves[:, : self.k] = weights - bits  # below the weight the bit is set
            words = halves.view("<u8").ravel().astype(np.uint64)
            yield WordTrial(self, np.full(PATTERNS, item), words, pack_bits(bits))
        yield from super().trials()

    def evidence(self, tally: Tally) -> Iterator[Evidence]:
        """The support of every item, and all bits: how many are set is the same for all items."""
        yield from super().evidence(tally)
        rate = float(self.p + (self.k - 1) * self.q) / self.k
        total = tally.counts.sum(keepdims=True)
        yield Limits("bits that are set", total, tally.n * self.k, rate, rate)

    def exact_loss(self) -> Loss:
        """The report with the own bit set and the other's clear: yes(1-no) / (no(1-yes))."""
        ratio = Fraction(self.yes * (HALF_WORD - self.no), self.no * (HALF_WORD - self.yes))
        return Loss(log_above(ratio), self.epsilon, ratio, (0, 1), "bit 0 set, bit 1 clear")

    def law(self) -> dict[str, Any]:
        """The two weights, out of 2^32."""
        return {"yes": self.yes, "no": self.no}


@dataclass(frozen=True)
class Sue(UnaryMechanism):
    """Keep every bit of the one-hot code with probability s/(s+1), s = e^(eps/2), flip it else.

    n Var = s/(s-1)^2 for a rare item. Each of two bits that differ spends half of epsilon.

    epsilon: the budget of one report, 0.001 to 20
    k: how many items there are, 2 or more; an answer is 0 to k-1

    >>> round(Sue(epsilon=1.0, k=16).total_variance(), 1)
    62.7
    """

    name: ClassVar[str] = "sue"
    paper: ClassVar[str] = "Erlingsson, Pihur, Korolova 2014 (basic RAPPOR); MPLDP's BRR"
    summary: ClassVar[str] = "every bit of the one-hot code, flipped alike"

    @cached_property
    def no(self) -> int:  # type: ignore[override]
        """ceil(2^32 / (e^(eps/2) + 1))."""
        return math.ceil(HALF_WORD / (exp_below(Fraction(self.epsilon) / 2) + 1))

    @property
    def yes(self) -> int:  # type: ignore[override]
        """The rest."""
        return HALF_WORD - self.no
