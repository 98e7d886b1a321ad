"""A number that is asked again: a kept threshold, a kept lie, and fresh noise for every report."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal, localcontext
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from murmuration.errors import MismatchError
from murmuration.exact.arrays import Floats, Ints, Reports
from murmuration.exact.grid import Grid
from murmuration.exact.loss import Loss
from murmuration.exact.randomness import WHOLE, Rng, drawn, require_rng
from murmuration.mechanisms.base import canonical
from murmuration.mechanisms.domain import checked_items, checked_values
from murmuration.mechanisms.item.grr import own_or_other, own_or_other_words
from murmuration.mechanisms.item.memoised import DIGITS, Memoised, checked_count, log_of
from murmuration.mechanisms.number.base import Design, NumericMechanism
from murmuration.mechanisms.tally import Tally
from murmuration.mechanisms.trial import Trial, WordTrial
from murmuration.statistics.forgery import Evidence
from murmuration.statistics.sequence import Terms

ENDS = Grid(1)
LAST_WORD = (1 << 64) - 1


@dataclass(frozen=True)
class MemoisedBit(NumericMechanism):
    """Keep a threshold U, uniform in [-1, 1], and a lie F; send [x > U] xor F, with fresh noise.

    U and F are drawn once for a person and never look at the value, so the same value and values
    near to it have the same permanent answer A = [x > U] xor F, whatever comes between them. F is
    1 with the weight L of randomised response at `permanent` on two items, and the noise on A is
    that of `memoised` with k = 2. Read as +-B, B = 1/(1 - 2 P(a report is not [x > U])): unbiased,
    as P(x > U) = (1 + x)/2; the variance of one report is B^2 - x^2, as good as `duchi`.

    One report tells at most `epsilon`; any number of reports about a number that stays on one side
    of U (one that does not change, above all) at most `permanent`. *When* a number passes U is not
    hidden (`told_by_changes`); on which side it was before and after is, by F, for good.

    epsilon: the budget of one report, 0.001 to 20
    permanent: what all reports about a number that stays may cost; twice epsilon if not given

    >>> law = MemoisedBit(epsilon=1.0, permanent=2.0)
    >>> [round(law.loss_of(reports).epsilon, 4) for reports in (1, 2, 3, 100)]
    [1.0, 1.6417, 1.8992, 2.0]
    >>> round(law.told_by_changes(52), 1), round(law.worst_variance(), 3)
    (36.8, 4.683)
    """

    name: ClassVar[str] = "memoised-bit"
    paper: ClassVar[str] = (
        "Ding, Kulkarni, Yekhanin 2017 (1BitMean, memoisation); Erlingsson et al. 2014"
    )
    summary: ClassVar[str] = "a kept noisy bit of a number, with fresh noise: asked again and again"
    memoised: ClassVar[bool] = True
    by_value: ClassVar[bool] = False

    permanent: float = None  # type: ignore[assignment]  # a number once it is made

    def __post_init__(self) -> None:
        super().__post_init__()
        given: float | None = self.permanent
        object.__setattr__(self, "permanent", Memoised(self.epsilon, 2, given).permanent)  # type: ignore[arg-type]

    # --- the law -------------------------------------------------------------------------------

    @cached_property
    def bits(self) -> Memoised:
        """The law of the bit, once it is rounded: permanent answer and noise."""
        return Memoised(self.epsilon, 2, self.permanent)

    def build(self) -> Design:
        """One report's law, for the analyst: to 2^-52, as the exact weights are out of 2^104."""
        lie = round(self.bits.q * WHOLE)
        bound = float(1 / (1 - 2 * self.bits.q))
        weights = np.array([[WHOLE - lie, lie], [lie, WHOLE - lie]], dtype=np.int64)
        return Design(weights, np.array([-bound, bound]))

    def law(self) -> dict[str, Any]:
        """The weights of the lie that is kept, and of the noise, out of 2^52."""
        return self.bits.law()

    def law_bytes(self) -> bytes:
        """Return the law as bytes: part of the fingerprint."""
        return canonical(self.law()).encode()

    def with_law(self, law: Mapping[str, Any]) -> Self:
        """Return this mechanism, if the published law is what follows from its parameters."""
        if canonical(law) != canonical(self.law()):
            raise MismatchError(f"the published law is not that of {self}")
        return self

    # --- the device ----------------------------------------------------------------------------

    def remember(self, values: ArrayLike, rng: Rng) -> Reports:
        """Return the permanent answers: two words a person, the same ones for all of its values."""
        rng, checked = require_rng(rng), checked_values(values)
        self.require_promise(rng)
        return self._answers(checked, rng)

    def repeat(self, answers: ArrayLike, rng: Rng) -> Reports:
        """Make one report of each permanent answer, with fresh noise: one word."""
        return self.bits.repeat(checked_items(answers, 2), rng)

    def respond(self, values: Floats, rng: Rng) -> Reports:
        """Remember and repeat once: a first report whose threshold and lie are not kept."""
        answers = self._answers(values, rng).astype(np.int64)
        return own_or_other(answers, 2, self.bits.swap, rng)

    def _answers(self, values: Floats, rng: Rng) -> Reports:
        words = rng.words(2 * len(values)).reshape(len(values), 2)
        return self.kept_bit(values, words)

    def kept_bit(self, values: Floats, words: np.ndarray[Any, np.dtype[np.uint64]]) -> Reports:
        """Return [x > U] xor F: a first word decides the threshold, a second the lie."""
        above = ENDS.round(values, words[:, 0])
        lied: Ints = (drawn(words[:, 1]) >= self.bits.memory.truth).astype(np.int64)
        return (above ^ lied).astype(np.uint8)

    # --- the auditor ---------------------------------------------------------------------------

    def exact_loss(self) -> Loss:
        """What one report tells, against epsilon: the two ends are furthest apart."""
        return _between_ends(self.bits.loss())

    def long_run(self) -> Loss:
        """What any number of reports about a number that stays tell, against `permanent`."""
        return _between_ends(self.bits.long_run())

    def loss_of(self, reports: int) -> Loss:
        """Return what T reports about a number that stays tell at worst, against `permanent`.

        A value between the ends mixes the bits of both, so no two values are further apart.
        """
        return _between_ends(self.bits.loss_of(reports))

    def told_by_changes(self, reports: int) -> float:
        """Return what T reports tell at worst between any two histories of values, rounded up.

        Given U, a history is bits b; with r = K/S and m reports that agree with b,

            P(reports | b) = (P r^m + L r^(T-m)) S^T / W^(T+1),

        at most for m = T, at least for some m below T/2: histories between the ends mix these.
        There are reports that agree with one history always and with another m times, so this is
        the exact worst case. It grows by ln(r)/2 with each report: nothing bounds it.
        """
        count, law = checked_count(reports), self.bits
        truth, lie = law.memory.truth, law.memory.lie

        def agreeing(m: int, odds: Decimal) -> Decimal:
            return truth * odds**m + lie * odds ** (count - m)

        with localcontext(DIGITS):
            odds = Decimal(law.keep) / law.swap
            # Convex in m: the least is next to where both parts are equal.
            middle = math.floor((count - (Decimal(truth) / lie).ln() / odds.ln()) / 2)
            near = {min(count, max(0, middle + step)) for step in range(-1, 3)}
            return log_of(agreeing(count, odds), min(agreeing(m, odds) for m in near))

    @property
    def promise_kept(self) -> bool:
        """Both promises: of one report, and of the bit that is kept."""
        return self.bits.promise_kept

    @property
    def charge(self) -> float:
        """What any number of reports about a number that stays tell."""
        return self.permanent

    def evidence(self, tally: Tally) -> Iterator[Evidence]:
        """Both symbols, given the kept bits: reports of one person are independent then."""
        yield from self.bits.evidence(tally)

    def kept_share(self) -> float:
        """The threshold's and the lie's part of a report's variance, at most: for people at 0."""
        kept = 1 / (1 - 2 * self.bits.memory.q)
        return float(kept / self.design.values[1]) ** 2

    @property
    def opposition(self) -> float:
        """Of a value that goes from one end to the other: the lie stays, the bit turns round.

        With L = 1 - 2 P(lie), values x and y have the covariance (1 - |x-y|)/L^2 - x y, as U lies
        between them with probability |x-y|/2: at least 1 - 1/L^2, at both ends.

        >>> law = MemoisedBit(epsilon=1.0, permanent=2.0)
        >>> round(law.opposition, 3), round(law.worst_variance(), 3)
        (0.724, 4.683)
        """
        return float(1 / (1 - 2 * self.bits.memory.q) ** 2) - 1

    def trials(self) -> Iterator[Trial]:
        """The words where the kept bit changes, and where the noise on it does."""
        words, expected = own_or_other_words(0, 2, self.bits.memory.lie)
        for value, threshold, above in TRIED:
            pairs = np.stack([np.full_like(words, threshold), words], axis=1)
            answers = expected ^ above
            yield WordTrial(self, np.full(len(words), value), pairs.ravel(), answers, self.remember)
        for bit in (0, 1):
            words, expected = own_or_other_words(bit, 2, self.bits.swap)
            yield WordTrial(self, np.full(len(words), bit), words, expected, self.repeat)
        yield from self.chance_trials()

    # --- the analyst ---------------------------------------------------------------------------

    def terms(self) -> tuple[Terms, ...]:
        """Nothing: reports of one person share a threshold and a lie."""
        return ()


def _between_ends(loss: Loss) -> Loss:
    """Return a loss about two bits as one about the two ends of the range."""
    return replace(loss, inputs=(-1.0, 1.0))


TRIED = [
    (-1.0, 0, 0),
    (-1.0, LAST_WORD, 0),
    (1.0, 0, 1),
    (1.0, LAST_WORD, 1),
    (0.0, (1 << 63) - 1, 0),
    (0.0, 1 << 63, 1),
]
"""Values and words of the threshold, and on which side the value must be."""
