"""Generalised randomised response: the truth, or any other item."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from murmuration.exact.arrays import Floats, Ints, Reports
from murmuration.exact.exponential import exp_below, log_above
from murmuration.exact.loss import Loss
from murmuration.exact.randomness import WHOLE, Rng, Words, drawn, uniform
from murmuration.mechanisms.item.base import (
    MOST_TRIED,
    FrequencyMechanism,
    require_small_channel,
)
from murmuration.mechanisms.packing import SymbolReports
from murmuration.mechanisms.trial import Trial, WordTrial, boundaries, spread_over

MOST_WORDS = 1 << 12
"""Items up to which the auditor tries the words of many of them."""


@dataclass(frozen=True)
class Grr(FrequencyMechanism, SymbolReports):
    """Say the own item with probability E/(E+k-1), each other one with 1/(E+k-1), E = e^eps.

    n Var = (E+k-2)/(E-1)^2 for a rare item: better than oue when k < 3E+2, poor for many items.

    epsilon: the budget of one report, 0.001 to 20
    k: how many items there are, 2 or more; an answer is 0 to k-1

    >>> grr = Grr(epsilon=1.0, k=4)
    >>> round(float(grr.p), 4), round(grr.total_variance(), 2)
    (0.4754, 7.56)
    """

    name: ClassVar[str] = "grr"
    paper: ClassVar[str] = "Warner 1965; Kairouz, Bonawitz, Ramage 2016"
    summary: ClassVar[str] = "the own item, or any other"

    @cached_property
    def lie(self) -> int:
        """The weight of each other item out of 2^52, rounded up: towards more noise."""
        return math.ceil(WHOLE / (exp_below(self.epsilon) + self.k - 1))

    @property
    def truth(self) -> int:
        """The weight of the own item: what is left."""
        return WHOLE - (self.k - 1) * self.lie

    @property
    def symbols(self) -> int:
        """The items."""
        return self.k

    @property
    def p(self) -> Fraction:
        """The own item's weight."""
        return Fraction(self.truth, WHOLE)

    @property
    def q(self) -> Fraction:
        """Another item's weight."""
        return Fraction(self.lie, WHOLE)

    @property
    def balanced(self) -> int:
        """A report is one item."""
        return self.k

    def channel(self) -> Floats:
        """The lie everywhere, the truth on the diagonal."""
        return symmetric_channel(self)

    def respond(self, items: Ints, rng: Rng) -> Reports:
        """One word a person, compared with the two weights."""
        return own_or_other(items, self.k, self.lie, rng)

    @property
    def blank_support(self) -> Fraction:
        """One of k."""
        return Fraction(1, self.k)

    def blank(self, reports: Reports, rng: Rng) -> Reports:
        """Any item."""
        return uniform(rng, len(reports), self.k).astype(reports.dtype)

    def exact_loss(self) -> Loss:
        """Truth / lie."""
        ratio = Fraction(self.truth, self.lie)
        return Loss(log_above(ratio), self.epsilon, ratio, (0, 1), 0)

    def trials(self) -> Iterator[Trial]:
        """The words where the answer changes, then every report."""
        for item in spread_over(self.k, MOST_TRIED if self.k <= MOST_WORDS else 2):
            words, expected = own_or_other_words(item, self.k, self.lie)
            yield WordTrial(self, np.full(len(words), item), words, expected)
        yield from super().trials()

    def law(self) -> dict[str, Any]:
        """The two weights, out of 2^52."""
        return {"truth": self.truth, "lie": self.lie}


def own_or_other(items: Ints, k: int, lie: int, rng: Rng) -> Reports:
    """Answer each item with itself, or with any one other of k with weight `lie` out of 2^52.

    One word a person: below the weight of the own item that item, above it the others in turn.

    >>> from murmuration.exact.randomness import ScriptedRng
    >>> own_or_other(np.array([1, 1]), 3, 1 << 50, ScriptedRng([0, 2**64 - 1])).tolist()
    [1, 2]
    """
    word = drawn(rng.words(len(items))) - (WHOLE - (k - 1) * lie)
    other = word // lie
    other += other >= items
    reports = np.where(word < 0, items, other)
    return reports.astype(np.min_scalar_type(k - 1))


def own_or_other_words(item: int, k: int, lie: int) -> tuple[Words, Ints]:
    """Return the words at which `own_or_other` must change its answer, and what it must be."""
    weights = np.full(k, lie, dtype=np.int64)
    weights[0] = WHOLE - (k - 1) * lie
    words, places = boundaries(weights, WHOLE)
    others = np.array([item, *(other for other in range(k) if other != item)])
    return words, others[places]


def symmetric_channel(mechanism: FrequencyMechanism) -> Floats:
    """Return the table with p on the diagonal and q everywhere else."""
    require_small_channel(mechanism)
    law = np.full((mechanism.k, mechanism.k), float(mechanism.q))
    np.fill_diagonal(law, float(mechanism.p))
    return law
