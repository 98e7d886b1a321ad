"""Memoised randomised response: one permanent answer, and fresh noise on it for every report."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from murmuration.errors import ParameterError
from murmuration.exact.arrays import Floats, Ints, Reports
from murmuration.exact.exponential import exp_below, log_above
from murmuration.exact.loss import Loss
from murmuration.exact.randomness import WHOLE, Rng, require_rng
from murmuration.mechanisms.base import MAX_EPSILON, checked_epsilon
from murmuration.mechanisms.domain import checked_items
from murmuration.mechanisms.item.base import MOST_TRIED, FrequencyMechanism
from murmuration.mechanisms.item.grr import (
    MOST_WORDS,
    Grr,
    own_or_other,
    own_or_other_words,
    symmetric_channel,
)
from murmuration.mechanisms.packing import SymbolReports
from murmuration.mechanisms.tally import Tally
from murmuration.mechanisms.trial import Trial, WordTrial, spread_over
from murmuration.statistics.forgery import Evidence, Limits

EXACT_REPORTS = 64
"""Up to this many reports, the power in `loss_of` is written out digit by digit."""
MOST_REPORTS = 10**12
CERTAIN_BITS = 256
"""From here on a permanent answer is known: what is left to learn is below 2^-200."""


@dataclass(frozen=True)
class Memoised(FrequencyMechanism, SymbolReports):
    """Draw an answer once (`remember`), keep it, and send it with noise each time (`repeat`).

    The answer A is generalised randomised response at `permanent`: weights P (own) and L (each
    other) out of W = 2^52. A report is A with weight K, each other item with weight S. Together

        W^2 p = P K + (k-1) L S,   W^2 q = L K + P S + (k-2) L S,

    and S is the least whole number with p <= e^epsilon q:

        S = ceil(W (P - e^eps L) / ((P - L) (e^eps + k - 1))),   K = W - (k-1) S.

    One report tells at most `epsilon`, any number of reports about one value at most `permanent`
    (twice epsilon, unless given). Asked once, that is as good as `grr`; asked T times, the
    average keeps the noise of the permanent answers, which no number of rounds takes away. A
    device keeps the answer for each value (`device.Ledger`); a new value costs `permanent` again.

    epsilon: the budget of one report, 0.001 to 20
    k: how many items there are, 2 or more; an answer is 0 to k-1
    permanent: what all reports about one value may cost together; twice epsilon if not given

    >>> memoised = Memoised(epsilon=1.0, k=2, permanent=2.0)
    >>> [round(memoised.loss_of(reports).epsilon, 4) for reports in (1, 2, 3, 100)]
    [1.0, 1.6417, 1.8992, 2.0]
    """

    name: ClassVar[str] = "memoised"
    paper: ClassVar[str] = "Erlingsson, Pihur, Korolova 2014 (RAPPOR); Arcolezi et al. 2022 (L-GRR)"
    summary: ClassVar[str] = "a kept noisy answer with fresh noise: asked again and again"
    memoised: ClassVar[bool] = True

    permanent: float = None  # type: ignore[assignment]  # a number once it is made

    def __post_init__(self) -> None:
        super().__post_init__()
        given: float | None = self.permanent
        limit = min(2 * self.epsilon, MAX_EPSILON) if given is None else checked_epsilon(given)
        if limit <= self.epsilon:
            raise ParameterError(
                f"memoised: permanent, what all reports about one value may cost together, is "
                f"more than epsilon, what one report may cost ({self.epsilon:g}); got {limit:g}"
            )
        object.__setattr__(self, "permanent", limit)

    # --- the law -------------------------------------------------------------------------------

    @cached_property
    def memory(self) -> Grr:
        """The law of the permanent answer."""
        return Grr(epsilon=self.permanent, k=self.k)

    @cached_property
    def swap(self) -> int:
        """S: a report's weight of each item that is not the answer, rounded up."""
        truth, lie, ratio = self.memory.truth, self.memory.lie, exp_below(self.epsilon)
        least = WHOLE * (truth - ratio * lie) / ((truth - lie) * (ratio + self.k - 1))
        return max(1, math.ceil(least))  # where permanent is a hair above epsilon: never 0

    @property
    def keep(self) -> int:
        """K: a report's weight of the answer itself, what is left."""
        return WHOLE - (self.k - 1) * self.swap

    @cached_property
    def p(self) -> Fraction:
        """The report is the own item: kept twice, or changed and changed back."""
        memory = self.memory
        own = memory.truth * self.keep + (self.k - 1) * memory.lie * self.swap
        return Fraction(own, WHOLE**2)

    @cached_property
    def q(self) -> Fraction:
        """The report is another given item: what is left, for each."""
        return (1 - self.p) / (self.k - 1)

    @property
    def symbols(self) -> int:
        """The items."""
        return self.k

    @property
    def balanced(self) -> int:
        """A report is one item."""
        return self.k

    def channel(self) -> Floats:
        """The law of one report: q everywhere, p on the diagonal."""
        return symmetric_channel(self)

    # --- the device ----------------------------------------------------------------------------

    def remember(self, items: ArrayLike, rng: Rng) -> Reports:
        """Draw the permanent answers: once for each person and value; the device keeps them."""
        rng, checked = require_rng(rng), checked_items(items, self.k)
        self.require_promise(rng)
        return self._answers(checked, rng)

    def repeat(self, answers: ArrayLike, rng: Rng) -> Reports:
        """Make one report of each permanent answer, with fresh noise."""
        rng, checked = require_rng(rng), checked_items(answers, self.k)
        self.require_promise(rng)
        return self._reports(checked, rng)

    def respond(self, items: Ints, rng: Rng) -> Reports:
        """Remember and repeat once: a first report whose permanent answer is not kept."""
        return self._reports(self._answers(items, rng).astype(np.int64), rng)

    def _answers(self, items: Ints, rng: Rng) -> Reports:
        return own_or_other(items, self.k, self.memory.lie, rng)

    def _reports(self, answers: Ints, rng: Rng) -> Reports:
        return own_or_other(answers, self.k, self.swap, rng)

    # --- the auditor ---------------------------------------------------------------------------

    def exact_loss(self) -> Loss:
        """What one report tells, against epsilon: p / q, or q / p if ever that were more."""
        ratio = max(self.p / self.q, self.q / self.p)
        return Loss(log_above(ratio), self.epsilon, ratio, (0, 1), 0)

    def long_run(self) -> Loss:
        """What the permanent answer tells, against `permanent`: no number of reports tells more."""
        ratio = self.memory.p / self.memory.q
        return Loss(log_above(ratio), self.permanent, ratio, (0, 1), 0)

    def loss_of(self, reports: int) -> Loss:
        """Return what T reports about one value tell at worst, against `permanent`.

        Reports in which item a comes n_a times have, for values v and w and r = K/S > 1, the ratio

            1 + (P-L) (r^n_v - r^n_w) / (L r^n_v + P r^n_w + L sum of the other r^n_a).

        It grows with n_v and falls with each other count, so the worst is T times v itself:

            (P r^T + (k-1) L) / (L r^T + P + (k-2) L).

        Exact up to 64 reports; beyond that rounded up, in the 50th digit.
        """
        count, odds = checked_count(reports), Fraction(self.keep, self.swap)
        certain = count > EXACT_REPORTS and count * math.log2(odds) > CERTAIN_BITS
        ratio = self.memory.p / self.memory.q if certain else self._ratio(_power(odds, count))
        return Loss(log_above(ratio), self.permanent, ratio, (0, 1), f"0, {count} times")

    def _ratio(self, power: Fraction) -> Fraction:
        """The worst ratio for r^T = power; it grows with it."""
        truth, lie = self.memory.truth, self.memory.lie
        return (truth * power + (self.k - 1) * lie) / (lie * power + truth + (self.k - 2) * lie)

    def told_by_changes(self, reports: int) -> float:
        """Return what T reports tell at least, at worst, between two histories of values.

        A value that alternates between two items i and j, and says i and j in turn (n_i and n_j
        times), against one that stays i, has with r = K/S the ratio

            (P r^n_i + (k-1) L) (P r^n_j + (k-1) L) / (W (P r^n_i + L r^n_j + (k-2) L)).

        Other histories may be further apart: this is reached, and grows by ln(r)/2 a report.
        A value that stays is hidden by `permanent`; *when* it changes is not.
        """
        count = checked_count(reports)
        truth, lie = self.memory.truth, self.memory.lie
        rest = (self.k - 1) * lie

        def told(own: int, odds: Decimal) -> float:
            mine, other = odds**own, odds ** (count - own)
            apart = (truth * mine + rest) * (truth * other + rest)
            return log_of(apart, WHOLE * (truth * mine + lie * other + rest - lie))

        halves = {count // 2, count - count // 2, max(0, count // 2 - 1), 0}
        with localcontext(DIGITS):
            odds = Decimal(self.keep) / self.swap
            return max(told(own, odds) for own in halves)

    @property
    def promise_kept(self) -> bool:
        """Both promises: of one report, and of the answer that is kept."""
        return self.loss().holds and self.long_run().holds

    @property
    def charge(self) -> float:
        """What any number of reports about one value tell."""
        return self.permanent

    def kept_share(self) -> float:
        """The permanent answer's part, at most; between 0 and 1 it is between theirs."""
        ends = np.array([0.0, 1.0])
        return float((self.memory.variance(ends) / self.variance(ends)).max())

    def evidence(self, tally: Tally) -> Iterator[Evidence]:
        """Every item, given the permanent answers: reports of one person are independent then."""
        ends = np.sort([self.swap / WHOLE, self.keep / WHOLE])
        yield Limits("item", tally.counts, tally.n, *ends)

    def trials(self) -> Iterator[Trial]:
        """The words where a permanent answer changes, and where the noise on one does.

        A device draws them apart (`remember`, then `repeat`); `privatize` is tried as a whole.
        """
        for item in spread_over(self.k, MOST_TRIED if self.k <= MOST_WORDS else 2):
            for run, lie in ((self.remember, self.memory.lie), (self.repeat, self.swap)):
                words, expected = own_or_other_words(item, self.k, lie)
                yield WordTrial(self, np.full(len(words), item), words, expected, run)
        yield from super().trials()

    def law(self) -> dict[str, Any]:
        """The permanent answer's weights, and those of the noise on it, out of 2^52."""
        return {"permanent": self.memory.law(), "keep": self.keep, "swap": self.swap}


def checked_count(reports: int) -> int:
    """Return a number of reports, or say what it may be."""
    whole = isinstance(reports, int | np.integer) and not isinstance(reports, bool)
    if not whole or not 1 <= reports <= MOST_REPORTS:
        raise ParameterError(f"reports are 1 to {MOST_REPORTS:,}; got {reports!r}")
    return int(reports)


DIGITS = Context(prec=80, Emax=10**15, Emin=-(10**15))
"""What losses of many reports are worked out in, where powers are too long to be written out."""


def log_of(above: Decimal, below: Decimal) -> float:
    """Return ln(above / below), rounded up to a float."""
    return math.nextafter(float((above / below).ln()), math.inf)


def _power(base: Fraction, exponent: int) -> Fraction:
    """Return base^exponent; if that is long, a fraction above it by less than 1 in 10^50."""
    if exponent <= EXACT_REPORTS:
        return base**exponent
    context = Context(prec=80)
    quotient = context.divide(Decimal(base.numerator), Decimal(base.denominator))
    power = Fraction(context.power(quotient, exponent))
    # The quotient is off by 10^-80 of itself, its power by at most `exponent` times that.
    return power * (1 + Fraction(exponent + 1, 10**78))
