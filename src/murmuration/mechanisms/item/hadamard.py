"""Harmony's Hadamard mechanism: one noisy bit of the item's column, in a random public row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from murmuration.exact.arrays import Floats, Ints, Reports
from murmuration.exact.loss import Loss
from murmuration.exact.randomness import WORD_BITS, Rng, Words, drawn
from murmuration.mechanisms.item.base import (
    FrequencyMechanism,
    parity,
    power_of_two,
    require_small_channel,
    walsh_hadamard,
)
from murmuration.mechanisms.item.grr import Grr
from murmuration.mechanisms.packing import SymbolReports
from murmuration.mechanisms.tally import Tally
from murmuration.statistics.forgery import Evidence, Limits

MOST_SYMBOLS = 1 << 16
"""Of an alphabet whose every symbol is looked at."""


class OneBit(FrequencyMechanism, SymbolReports):
    """A report that supports half of the items, by one bit of randomised response."""

    @property
    def response(self) -> Grr:
        """Randomised response on the bit: where all the privacy is."""
        return Grr(epsilon=self.epsilon, k=2)

    @property
    def p(self) -> Fraction:
        """The bit is the truth."""
        return self.response.p

    @property
    def q(self) -> Fraction:
        """Two items agree in half of all cases."""
        return Fraction(1, 2)

    def exact_loss(self) -> Loss:
        """That of the response: the rest does not depend on the item."""
        return self.response.loss()

    def evidence(self, tally: Tally) -> Iterator[Evidence]:
        """The support of every item, and every symbol: p or 1-p, in one half of the alphabet."""
        lie, truth = float(1 - self.p), float(self.p)
        yield Limits("support of item", self.support(tally), tally.n, self.least_support, truth)
        if self.symbols <= MOST_SYMBOLS:
            each = 2 / self.symbols
            yield Limits("symbol", tally.counts, tally.n, lie * each, truth * each)

    @property
    def least_support(self) -> float:
        """How often a report supports an item that is not its own, at least."""
        return float(self.q)


@dataclass(frozen=True)
class Hadamard(OneBit):
    """Pick a row of a K x K Hadamard matrix, send its entry at the item's column, lie as usual.

    The columns are orthogonal, so other items cancel: p = E/(E+1), q = 1/2, n Var = B^2 - f. The
    row does not depend on the item: it may come from a public coin, and then one bit travels.
    Right for one-bit budgets and eps up to 1; above that it wastes epsilon.

    epsilon: the budget of one report, 0.001 to 20
    k: how many items there are, 2 or more; an answer is 0 to k-1

    >>> round(Hadamard(epsilon=1.0, k=16).total_variance(), 1)
    73.9
    """

    name: ClassVar[str] = "hadamard"
    paper: ClassVar[str] = "Harmony (Nguyen et al. 2016)"
    summary: ClassVar[str] = "one bit of the item's column in a random row"

    @property
    def rows(self) -> int:
        """The size of the matrix: k, rounded up to a power of two."""
        return power_of_two(self.k)

    @property
    def symbols(self) -> int:
        """Row and bit: 2 * row + bit."""
        return 2 * self.rows

    def channel(self) -> Floats:
        """Every row is as likely; its bit is the item's entry with probability p."""
        require_small_channel(self)
        entry = parity(np.arange(self.k)[:, None] & np.arange(self.rows))
        right = entry[:, :, None] == np.arange(2)
        chance = np.where(right, float(self.p), float(1 - self.p)) / self.rows
        return chance.reshape(self.k, self.symbols)

    def respond(self, items: Ints, rng: Rng) -> Reports:
        """Two words a person: the row, in public, and the coin of the response."""
        words = rng.words_each(len(items), public=1, own=1)
        row = drawn(words[:, 0]) >> (WORD_BITS - self.rows.bit_length() + 1)
        symbol = 2 * row + self._bits(items, row, words[:, 1])
        return symbol.astype(np.min_scalar_type(self.symbols - 1))

    def bits(self, items: Ints, rows: Ints, rng: Rng) -> Ints:
        """Return the noisy entries at these items' columns, in rows that were drawn elsewhere."""
        return self._bits(items, rows, rng.words(len(items)))

    def _bits(self, items: Ints, rows: Ints, words: Words) -> Ints:
        return parity(rows & items) ^ (drawn(words) >= self.response.truth)

    def support(self, tally: Tally) -> Ints:
        """C_v = (n + sum of +-1 in v's column) / 2, all items at once by the fast transform."""
        zero, one = tally.counts.reshape(-1, 2).T
        return (tally.n + walsh_hadamard(zero - one)[: self.k]) // 2

    @property
    def blank_support(self) -> Fraction:
        """A fair bit."""
        return Fraction(1, 2)

    def blank(self, reports: Reports, rng: Rng) -> Reports:
        """The same row with a fair bit."""
        bit = (rng.words(len(reports)) >> np.uint64(63)).astype(reports.dtype)
        return (reports & ~np.array(1, reports.dtype)) | bit

    def public_part(self, report: Reports) -> list[int]:
        """The row."""
        return [int(number) for number in np.ravel(report >> 1)]

    def law(self) -> dict[str, Any]:
        """The response's weights and the rows."""
        return {**self.response.law(), "rows": self.rows}
