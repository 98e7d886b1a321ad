"""What all mechanisms for items share: who supports what, and how that becomes a histogram.

A private value is an item 0 .. k-1. A report *supports* some items: its own with probability p,
any other with probability q, both known exactly. C_v, the number of reports that support v, is
all that the estimate needs:

    f_v = (C_v/n - q) / (p - q),   n Var(f_v) = (f p(1-p) + (1-f) q(1-q)) / (p-q)^2.

The other files in this folder say how reports are drawn and counted. Two kinds of report are shared
by several of them: `BitMechanism` (k bits) and those that use the Walsh-Hadamard transform.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from murmuration.errors import InputError, MismatchError, ParameterError
from murmuration.exact.arrays import Floats, Ints, Reports
from murmuration.exact.randomness import Rng, drawn
from murmuration.mechanisms.base import Mechanism, Task
from murmuration.mechanisms.chain import kept_or_blank
from murmuration.mechanisms.domain import MAX_ITEMS, Domain, Items
from murmuration.mechanisms.packing import BitReports
from murmuration.mechanisms.tally import Tally
from murmuration.mechanisms.trial import ChanceTrial, Trial, people_for, spread_over
from murmuration.results.estimate import FrequencyEstimate
from murmuration.statistics.forgery import Evidence, Limits, Mixture
from murmuration.statistics.liars import Reach
from murmuration.statistics.score import Shape
from murmuration.statistics.sequence import Terms
from murmuration.statistics.supports import SupportShape

MOST_ENUMERATED = 1 << 16
"""Entries of a channel up to which the auditor tries every report."""
MOST_TRIED = 64
"""Items that the auditor tries, at most."""
MAX_CHANNEL = 4_000_000
"""The most entries of a channel that is written out: 32 MB, read twice by each step of `bayes`."""


class Rates(NamedTuple):
    """p and q as estimates need them."""

    own: float
    """p."""
    other: float
    """q."""
    gap: float
    """p - q."""


@dataclass(frozen=True)
class FrequencyMechanism(Mechanism):
    """A mechanism for one of k items: it estimates their shares."""

    answers: ClassVar[Task] = Task.FREQUENCY
    takes: ClassVar[type[Domain]] = Items
    largest: ClassVar[int] = MAX_ITEMS
    """The most items that this mechanism can take."""

    k: int

    def __post_init__(self) -> None:
        super().__post_init__()
        whole = isinstance(self.k, int | np.integer) and not isinstance(self.k, bool)
        if not whole or not 2 <= self.k <= self.largest:
            raise ParameterError(
                f"{self.name}: k, the number of items, is 2 to {self.largest:,}; got {self.k!r}"
            )
        object.__setattr__(self, "k", int(self.k))

    @property
    def domain(self) -> Items:
        """The items."""
        return Items(self.k)

    @property
    @abstractmethod
    def p(self) -> Fraction:
        """The probability that a report supports its own item."""

    @property
    @abstractmethod
    def q(self) -> Fraction:
        """The probability that a report supports any one other item."""

    def support(self, tally: Tally) -> Ints:
        """Return C_v: how many reports support each item. By default these are the counters."""
        return tally.counts

    def channel(self) -> Floats | None:
        """Return P(counter | item), one row per item, where a report adds one to one counter.

        None where a report is more than that (bits, hashes): then counters do not tell all.
        """
        return None

    # --- reports that are made to tell less (`converted`) ---

    def stricter(self, way: tuple[float, ...]) -> Mechanism:
        """Its reports, kept or made blank."""
        from murmuration.mechanisms.item.converted import Converted  # which is built on this module

        return Converted(way[-1], self.k, self.name, way[:-1])

    @property
    def blank_support(self) -> Fraction:
        """The probability that a blank report supports an item, the same for each."""
        raise ParameterError(f"reports of {self.name} cannot be converted to tell less")

    def blank(self, reports: Reports, rng: Rng) -> Reports:
        """Return these reports with what the items decide drawn anew, whatever the items are."""
        del reports, rng
        raise ParameterError(f"reports of {self.name} cannot be converted to tell less")

    def thinned(self, reports: Reports, keep: int, rng: Rng) -> Reports:
        """Return each report with weight `keep` out of 2^52, else a blank one."""
        kept = drawn(rng.words(len(reports))) < keep
        return kept_or_blank(kept, reports, self.blank(reports, rng))

    def ratio_at(self, p: Fraction, q: Fraction) -> Fraction:
        """Return the largest ratio of a law of this kind with such p and q, above blank reports.

        A report says one thing, of which the share s (`blank_support`) supports an item.
        """
        del q
        return p * (1 - self.blank_support) / ((1 - p) * self.blank_support)

    # --- analyst ---

    def estimate(
        self, tally: Tally, about: str = "participants", everybody: int | None = None
    ) -> FrequencyEstimate:
        """Return all k frequencies: unbiased, so some may be below 0; see `postprocess`."""
        n, subject = self.subject(tally, about)
        support, rates = self.support(tally), self._rates
        shares = (support / n - rates.other) / rates.gap
        # Two people more with the item and two without: reports that agree are not certainty.
        likely = (n * np.clip(shares, 0, 1) + 2) / (n + 4)
        unseen = subject.unseen(n, everybody)
        squares = self.squared_errors(likely, n) + unseen * likely * (1 - likely) / n
        errors, noise = np.sqrt(squares), math.sqrt(self.quiet_error(n))
        shape = self._shape(support, n, errors, unseen)
        return FrequencyEstimate(shares, errors, n, self.epsilon, subject, noise=noise, shape=shape)

    def terms(self) -> tuple[Terms, ...]:
        """Support of one item, read as its share: of somebody who has another one, and of its own.

        Nothing where the question is asked again: reports of one person share a permanent answer.
        """
        if self.memoised:
            return ()
        p, q = float(self.p), float(self.q)
        law = np.array([[1 - q, q], [1 - p, p]])
        return (Terms(np.array([0.0, 1.0]), law, np.array([-q, 1 - q]) / (p - q)),)

    def term_sums(self, tally: Tally) -> tuple[Floats, ...]:
        """The sum of all shares that reports are read as, one for each item."""
        gap = float(self.p - self.q)
        return (np.asarray((self.support(tally) - tally.n * float(self.q)) / gap),)

    def lies(self) -> Floats:
        """The corners of a box: an item and no answer are two items, each supported or not."""
        reach = self.reach()
        ends = (reach.low, reach.high)
        return np.array([[own, 1 - none] for own in ends for none in ends])

    def or_none(self) -> Self:
        """Itself: no answer is one of its items."""
        return self

    def without_none(self) -> Self:
        """One item less."""
        return replace(self, k=self.k - 1)

    def _shape(self, support: Ints, n: int, errors: Floats, unseen: float) -> Shape:
        """How far the intervals reach: by the tails of the supports themselves."""
        own, other, _ = self._rates
        whole = unseen == 0 and not self.memoised
        return SupportShape(support, errors, n, own, other, unseen, whole=whole)

    @property
    def balanced(self) -> int | None:
        """Of how many items every report supports the same number, so that their shares add up.

        None where reports support items independently of each other.
        """
        return None

    def noise_covariance(self, one: ArrayLike, other: ArrayLike) -> Floats:
        """Return n Cov of two items' estimated frequencies, given their true ones.

        All pairs are alike, and over all K items that are balanced the covariances with one of them
        add up to minus its variance, b + (a-b) f: they are c + d (f + f') with d = -(a-b)/(K-2),
        c = -(b + d)/(K-1).

        >>> from murmuration import mechanism
        >>> grr = mechanism("grr", epsilon=1.0, k=3)
        >>> float(grr.noise_covariance(0.2, 0.3)) < 0
        True
        """
        shares = np.asarray(one, dtype=np.float64) + np.asarray(other, dtype=np.float64)
        if self.balanced is None:
            return np.zeros_like(shares)
        own, rest = self._own_and_other
        slope = -(own - rest) / (self.balanced - 2)
        return np.asarray(slope * shares - (rest + slope) / (self.balanced - 1))

    def sum_noise(self, items: int) -> tuple[float, float]:
        """Return the noise of the sum of so many frequencies, times n: at 0, and how it grows to 1.

        The variances, and the covariances of all pairs: those are linear in the frequencies.

        >>> from murmuration import mechanism
        >>> subset = mechanism("subset", epsilon=1.0, k=12)
        >>> abs(sum(subset.sum_noise(12))) < 1e-9  # of all items: nothing is noise
        True
        """
        own, other = self._own_and_other
        if items == 1:
            return other, own - other
        constant = float(self.noise_covariance(0.0, 0.0))
        slope = float(self.noise_covariance(1.0, 0.0)) - constant
        quiet = items * (other + (items - 1) * constant)
        return quiet, own - other + 2 * (items - 1) * slope

    def sum_reach(self, items: int) -> Reach:
        """Return what one report may be read as, for the sum of so many frequencies.

        A balanced report supports as many items as any: they lie in the sum, or outside.
        """
        one = self.reach()
        if items == 1 or self.balanced is None:
            return Reach(items * one.low, items * one.high, 0.0, 1.0)
        held, gap = float(self.p + (self.k - 1) * self.q), one.high - one.low
        least, most = max(0.0, held - (self.k - items)), min(float(items), held)
        return Reach(items * one.low + least * gap, items * one.low + most * gap, 0.0, 1.0)

    def quiet_error(self, n: int) -> float:
        """The noise of an item that nobody has."""
        return float(self.squared_errors(np.zeros(1), n)[0])

    def variance(self, x: ArrayLike) -> Floats:
        """Return n Var of an item's estimated frequency when its true frequency is x."""
        shares = np.asarray(x, dtype=np.float64)
        if not ((shares >= 0) & (shares <= 1)).all():
            raise InputError("a frequency is between 0 and 1")
        own, other = self._own_and_other
        return np.asarray(shares * own + (1 - shares) * other)

    @cached_property
    def _rates(self) -> Rates:
        """What estimates read off p and q; kept, as exact fractions take their time."""
        return Rates(float(self.p), float(self.q), float(self.p - self.q))

    @cached_property
    def _own_and_other(self) -> tuple[float, float]:
        """r(1-r)/(p-q)^2 for r = p and r = q."""
        gap = float((self.p - self.q) ** 2)
        return float(self.p * (1 - self.p)) / gap, float(self.q * (1 - self.q)) / gap

    def worst_variance(self) -> float:
        """Return the largest n Var of one item, over all its true frequencies."""
        return float(self.variance([0.0, 1.0]).max())

    def total_variance(self) -> float:
        """Return n times the summed squared error over all items; the same for every histogram."""
        own, other = self.variance([1.0, 0.0])
        return float(own + (self.k - 1) * other)

    def cost(self, share: float = 1.0) -> float:
        """The spread of k items is 1 - 1/k, that of a flat histogram.

        >>> from murmuration import mechanism
        >>> grr = mechanism("grr", epsilon=1.0, k=4)
        >>> round(grr.cost(), 2), round(grr.cost(0.0), 2)
        (7.56, 8.31)
        """
        return self.total_variance() + (1 - share) * (1 - 1 / self.k)

    def reach(self) -> Reach:
        """A report supports an item or does not: (1-q)/(p-q) or -q/(p-q); honest ones 0 to 1.

        >>> from murmuration import mechanism
        >>> e = math.exp(1)
        >>> reach = mechanism("grr", epsilon=1.0, k=9).reach()
        >>> abs(reach.most_moved - (e + 9 - 2) / (e - 1)) < 1e-9
        True
        """
        gap = self.p - self.q
        return Reach(float(-self.q / gap), float((1 - self.q) / gap), 0.0, 1.0)

    def evidence(self, tally: Tally) -> Iterator[Evidence]:
        """The support of every item, from q to p; and every counter of a small alphabet.

        Nothing where a question is asked again: one person's reports share a permanent answer.
        """
        if self.memoised:
            return
        ends = np.sort([float(self.p), float(self.q)])
        yield Limits("support of item", self.support(tally), tally.n, *ends)
        small = self.counters * self.k <= MOST_ENUMERATED
        if small and (law := self.channel()) is not None:
            yield Limits("symbol", tally.counts, tally.n, law.min(axis=0), law.max(axis=0))
            yield Mixture("all symbols", tally.counts, law)

    def trials(self) -> Iterator[Trial]:
        """Every counter of a small alphabet, else the support of every item, for some items."""
        small = self.counters * self.k <= MOST_ENUMERATED
        channel = self.channel() if small else None
        for item in spread_over(self.k, MOST_TRIED if channel is not None else 16 if small else 3):
            if channel is not None:
                people = max(20_000, 20 * self.counters)
                yield ChanceTrial(
                    self, item, self.count, channel[item], "every report", people=people
                )
            else:
                yield from self._support_trials(item)

    def _support_trials(self, item: int) -> Iterator[Trial]:
        """The support of the own item, which all privacy rests on; then that of the others."""
        people = people_for(max(self.k, self.counters, 8 * self.report_bytes))
        others = np.flatnonzero(np.arange(self.k) != item)
        for what, which, rate in (
            ("the support of the own item", np.array([item]), self.p),
            ("the support of the others", others, self.q),
        ):
            read = partial(self._supported, which)
            rates = np.full(len(which), float(rate))
            yield ChanceTrial(self, item, read, rates, what, exclusive=False, people=people)

    def _supported(self, items: Ints, reports: Reports) -> Ints:
        return self.support(Tally(self, self.count(reports), len(reports)))[items]


def require_small_channel(mechanism: FrequencyMechanism) -> None:
    """Refuse to write out a table of probabilities that would not fit, before it is made."""
    k, counters = mechanism.k, mechanism.counters
    if k * counters > MAX_CHANNEL:
        raise ParameterError(
            f"the channel of {mechanism} has {k:,} x {counters:,} entries, more than "
            f"{MAX_CHANNEL:,}: use project_simplex, which needs no channel, or fewer items"
        )


@dataclass(frozen=True)
class Labels:
    """Names of the items, for people: labels at the edge, integers 0 .. k-1 inside.

    >>> phones = Labels(("android", "ios", "other"))
    >>> phones.items(["ios", "android"]).tolist()
    [1, 0]
    """

    names: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", tuple(self.names))
        words = all(isinstance(name, str) for name in self.names)
        if not words or len(self.names) < 2 or len(set(self.names)) != len(self.names):
            raise ParameterError("labels are two or more words, all different")

    def items(self, values: Iterable[str]) -> Ints:
        """Return the items' numbers; a label that is not one of ours is not repeated."""
        numbers = {name: number for number, name in enumerate(self.names)}
        places = np.array([numbers.get(str(value), -1) for value in values], dtype=np.int64)
        if len(bad := np.flatnonzero(places < 0)):
            raise InputError(
                f"{len(bad)} values are not among the {len(self.names)} labels (first at position "
                f"{int(bad[0])}). Nothing was sent."
            )
        return places

    def read(
        self, estimate: FrequencyEstimate, confidence: float = 0.95
    ) -> dict[str, tuple[float, ...]]:
        """Return label -> (share, low, high)."""
        if not isinstance(estimate, FrequencyEstimate) or len(estimate.value) != len(self.names):
            raise MismatchError(f"these labels are for shares of {len(self.names)} items")
        low, high = estimate.interval(confidence)
        columns = (estimate.value.tolist(), low.tolist(), high.tolist())
        return dict(zip(self.names, zip(*columns, strict=True), strict=True))


class BitMechanism(FrequencyMechanism, BitReports):
    """A mechanism whose report is a bit for each item; the counters are the items' support."""

    @property
    def bits(self) -> int:
        """One bit per item."""
        return self.k


# --- Walsh-Hadamard ----------------------------------------------------------------------------


def walsh_hadamard(vector: Ints) -> Ints:
    """Return H @ vector in exact integers, where H[i, j] = (-1)^(number of bits in i and j).

    >>> walsh_hadamard(np.array([1, 0, 0, 2])).tolist()
    [3, -1, -1, 3]
    """
    out = np.array(vector, dtype=np.int64)
    half = 1
    while half < len(out):
        pairs = out.reshape(-1, 2, half)
        out = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1).ravel()
        half *= 2
    return out


def parity(numbers: Ints) -> Ints:
    """Return 1 where a number has an odd count of set bits."""
    return (np.bitwise_count(numbers) & 1).astype(np.int64)


def power_of_two(at_least: int) -> int:
    """Return the smallest power of two that is at least the given number."""
    return 1 << math.ceil(math.log2(at_least))
