"""Symmetric unary encoding: a noisy bit for each item (basic RAPPOR; the papers' BRR)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from murmuration.exact.arrays import Bits, Ints, Reports, Rows
from murmuration.exact.coins import coin_rows
from murmuration.exact.exponential import exp_below, log_above
from murmuration.exact.loss import Loss
from murmuration.exact.randomness import FEW, Rng, Words, drawn
from murmuration.mechanisms.item.base import BitMechanism
from murmuration.mechanisms.packing import BITS_PER_PASS, bit_of, pack_bits
from murmuration.mechanisms.tally import Tally
from murmuration.mechanisms.trial import Trial, WordTrial, coin_words, spread_over
from murmuration.statistics.forgery import Evidence, Limits

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

    @property
    def blank_support(self) -> Fraction:
        """A fair bit for each item."""
        return Fraction(1, 2)

    def blank(self, reports: Reports, rng: Rng) -> Reports:
        """Fair bits."""
        rows = rng.octets(len(reports), self.report_bytes).copy()
        rows[:, -1] &= 255 >> (8 * self.report_bytes - self.k)
        return rows

    def thinned(self, reports: Reports, keep: int, rng: Rng) -> Reports:
        """Keep each bit by itself: else reports whose other bits are likely would tell more."""
        words = drawn(rng.words(len(reports) * self.k)).reshape(len(reports), self.k)
        kept = pack_bits(words < keep)
        return (reports & kept) | (self.blank(reports, rng) & ~kept)

    def ratio_at(self, p: Fraction, q: Fraction) -> Fraction:
        """Two items differ in two bits."""
        return p * (1 - q) / ((1 - p) * q)

    def respond(self, items: Ints, rng: Rng) -> Reports:
        """Draw a bit for each item: by half words, or by digits where that is no contract."""
        if rng.bulk and len(items) > FEW:
            return self.by_digits(items, rng)
        return self.by_half_words(items, rng)

    def by_half_words(self, items: Ints, rng: Rng) -> Rows:
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

    def by_digits(self, items: Ints, rng: Rng) -> Rows:
        """Draw all bits as if they were others', then the own one of each anew."""
        rows = coin_rows(rng, len(items), self.k, self.no)
        people, own = np.arange(len(items)), bit_of(items)
        set_own = rng.words(len(items)) >> np.uint64(32) < self.yes
        rows[people, items >> 3] = rows[people, items >> 3] & ~own | own * set_own
        return rows

    @property
    def people_per_pass(self) -> int:
        """As many as are fastest: a few hundred kilobytes of packed bits."""
        return max(1, 2 * BITS_PER_PASS // self.k)

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
            items, rows = np.full(PATTERNS, item), pack_bits(bits)
            yield WordTrial(self, items, words, rows)
            yield WordTrial(self, items, self._digits(item, bits), rows, run=self.by_digits)
        yield from super().trials()

    def evidence(self, tally: Tally) -> Iterator[Evidence]:
        """The support of every item, and all bits: how many are set is the same for all items."""
        yield from super().evidence(tally)
        rate = float(self.p + (self.k - 1) * self.q) / self.k
        total = tally.counts.sum(keepdims=True)
        yield Limits("bits that are set", total, tally.n * self.k, rate, rate)

    def _digits(self, item: int, bits: Bits) -> Words:
        """Return the words by which `by_digits` must make these bits: again at each weight."""
        people = len(bits)
        padded = np.zeros((people, 8 * self.report_bytes), dtype=bool)
        padded[:, : self.k] = bits
        size = -(-padded.size // 64) * 64
        drawn = np.full(size, self.no, dtype=np.uint32)
        drawn[: padded.size] -= padded.ravel()  # below the weight the bit is set
        own = self.yes - bits[:, item].astype(np.uint64) << np.uint64(32)
        return np.concatenate([coin_words(drawn, self.no), own])

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
