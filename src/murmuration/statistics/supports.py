"""Intervals of shares from supports: every share at which such a count is not too unlikely.

A report supports an item with probability p if the person has it, with probability q if not. So of
n reports about an item that F people have, the number that support it is

    Bin(F, p) + Bin(n - F, q)          about the people who sent them,
    Bin(n, q + f (p - q))              about a population in which a share f has it,

and an interval has every F, or every f, for which neither tail of the count that was seen is below
(1 - confidence)/2. The second is Clopper and Pearson's. The tails are those of the counts
themselves: a normal tail is far too short where few reports support an item and where each of
1,000 labels has to be right with probability 1 - 0.05/1,000.

Where the n people were drawn from everybody, so that a part `unseen` of their spread is uncertain,
the holders among them are hypergeometric: as many trials M of the rate t as have its mean and its
variance, t = 1 - unseen (1 - f) and M = n f/t. Then the count is Bin(M, q + t (p - q)) +
Bin(n - M, q): two binomial numbers again, and exact at both ends, `unseen` 0 and 1. (Where more
than half have the item it is those without it who are counted.)

The tails of such sums are saddlepoint approximations with Lugannani and Rice's correction, for
whole numbers (Daniels 1987): off by some percent of the tail at most, 1,000 labels in
milliseconds. Beyond 0 and 1 an interval goes on as if the noise stayed what it is there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv

from murmuration.exact.arrays import Floats, Ints
from murmuration.statistics.score import normal_quantile

MOST_STEPS = 60
NEAR_ENOUGH = 1e-9
"""How exact the roots are: by how many standard deviations a tail is off."""
EDGE = 1e-9
"""What numbers may be off by, where they are compared with whole ones."""
ROUNDING = 1e-12
"""By how much intervals are widened: an end that is the truth must not be rounded to miss it."""
MIDDLE = 1e-5
"""Nearer than that to the mean the correction is left out: it would be 0/0."""


@dataclass(frozen=True, eq=False)
class SupportShape:
    """The intervals of the shares of several items, from how many of n reports support each.

    unseen: how much of the people's own spread is uncertain: 0 about them, 1 about a population
    whole: whether the ends are whole numbers of people, as the truth about n people is

    >>> shape = SupportShape(np.array([0, 12, 60]), np.ones(3), 100, 0.9, 0.1)
    >>> [end.round(3).tolist() for end in shape.ends(0.95)]
    [[-0.209, -0.059, 0.546], [-0.051, 0.1, 0.707]]
    >>> population = SupportShape(np.array([12]), np.ones(1), 100, 1 - 1e-9, 1e-9, unseen=1.0)
    >>> [end.round(3).tolist() for end in population.ends(0.95)]  # Clopper and Pearson's
    [[0.064], [0.2]]
    """

    support: Floats | Ints
    stderr: Floats
    n: int
    p: float
    q: float
    unseen: float = 0.0
    whole: bool = False

    @property
    def value(self) -> Floats:
        """The estimated shares."""
        return np.asarray((self.support / self.n - self.q) / (self.p - self.q))

    def reach(self, confidence: float) -> tuple[Floats, Floats]:
        """Return how far the intervals reach to either side, in standard errors."""
        low, high = self.ends(confidence)
        below, above = self.value - low + ROUNDING, high - self.value + ROUNDING
        return below / self.stderr, above / self.stderr

    def ends(self, confidence: float) -> tuple[Floats, Floats]:
        """Return the ends of the intervals."""
        z = normal_quantile(confidence)
        if self.unseen == 1:
            return self._clopper_pearson((1 - confidence) / 2)
        low, high = np.empty(len(self.support)), np.empty(len(self.support))
        many = self.value > 0.5
        if (few := ~many).any():
            law = Supports(self.n, self.p, self.q, self.unseen)
            low[few], high[few] = self._ends_of(law, self.support[few], z)
        if many.any():  # those without the item are the few
            law = Supports(self.n, 1 - self.q, 1 - self.p, self.unseen)
            most, least = self._ends_of(law, self.n - self.support[many], z)
            low[many], high[many] = 1 - least, 1 - most
        return self._of_whole_people(low, high) if self.whole else (low, high)

    @staticmethod
    def _ends_of(law: Supports, seen: Floats | Ints, z: float) -> tuple[Floats, Floats]:
        """Return the shares at which so many or more, and so many or fewer, are z away."""
        return law.share_at(seen, z), law.share_at(seen + 1, -z)

    def _clopper_pearson(self, tail: float) -> tuple[Floats, Floats]:
        """Return the ends about a population; each rate is read as a share."""
        seen, n, gap = self.support, self.n, self.p - self.q
        low = np.where(seen > 0, betaincinv(np.maximum(seen, 1), n - seen + 1, tail), 0.0)
        high = np.where(seen < n, betaincinv(seen + 1, np.maximum(n - seen, 1), 1 - tail), 1.0)
        return (low - self.q) / gap, (high - self.q) / gap

    def _of_whole_people(self, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """Shorten intervals to whole numbers of people; the estimate itself stays inside."""
        up, down = (np.ceil(self.n * low - EDGE) / self.n, np.floor(self.n * high + EDGE) / self.n)
        low = np.where((low > 0) & (low < 1), np.minimum(up, self.value), low)
        high = np.where((high > 0) & (high < 1), np.maximum(down, self.value), high)
        return low, high


@dataclass(frozen=True)
class Supports:
    """The law of how many of n reports support an item, for every share of people who have it."""

    n: int
    p: float
    q: float
    unseen: float

    def share_at(self, counts: Floats | Ints, z: float) -> Floats:
        """Return the shares at which so many supports or more are z normal deviations up."""
        counts = np.asarray(counts, dtype=np.float64)
        possible = np.clip(counts, 1.0, self.n)
        none, everybody = (self.deviation(possible, np.array([share])) for share in (0.0, 1.0))
        low, high = (counts < 1) | (none <= z), (counts > self.n) | (everybody >= z)
        shares = np.zeros(len(counts))
        reports = self.n * (self.p - self.q)
        if low.any():
            shares[low] = (counts[low] - self._count_at(0.0, z)) / reports
        if high.any():
            shares[high] = 1 + (counts[high] - self._count_at(1.0, z)) / reports
        inside = ~(low | high)
        if inside.any():
            own = counts[inside]
            ends = np.zeros(len(own)), np.ones(len(own))
            shares[inside] = root(lambda share: self.deviation(own, share) - z, *ends)
        return shares

    def _count_at(self, share: float, z: float) -> float:
        """Return the count at which a share has z; mostly it lies between two whole numbers."""
        at = np.array([share])
        least, most = (self.deviation(np.array([end]), at)[0] for end in (1.0, float(self.n)))
        if most <= z:  # more than all reports
            return self.n + 0.5
        if least >= z:  # less than one
            return 1.0
        ends = np.ones(1), np.full(1, float(self.n))
        return float(root(lambda count: self.deviation(count, at) - z, *ends)[0])

    def deviation(self, seen: Floats, share: Floats) -> Floats:
        """Return the normal deviate whose upper tail is that of so many supports, or more.

        With o_1 and o_2 the odds of a support in either part, tilted by e^s so that the mean is
        k = seen - 1/2, w^2/2 = s k - K(s) and u = 2 sinh(s/2) sqrt(K''(s)), it is w + log(u/w)/w.
        """
        rate = 1 - self.unseen * (1 - share)
        trials = self.n * share / np.maximum(rate, EDGE)
        own, other = self.q + rate * (self.p - self.q), self.q
        k = seen - 0.5
        odds, odds_other = own / (1 - own), other / (1 - other)
        tilt = _tilt(k, self.n, trials, odds, odds_other)
        s = np.log(tilt)
        rest, first, second = self.n - trials, odds * tilt, odds_other * tilt
        logs = trials * np.log1p(own * (tilt - 1)) + rest * np.log1p(other * (tilt - 1))
        spread = trials * first / (1 + first) ** 2 + rest * second / (1 + second) ** 2
        w = np.sign(s) * np.sqrt(np.maximum(2 * (s * k - logs), 0.0))
        far = np.abs(w) > MIDDLE
        safe = np.where(far, w, 1.0)
        u = np.where(far, 2 * np.sinh(s / 2) * np.sqrt(spread), 1.0)
        return np.where(far, w + np.log(u / safe) / safe, w)


def _tilt(k: Floats, n: int, trials: Floats, odds: Floats, other: float) -> Floats:
    """Return e^s: the positive root of trials o t/(1 + o t) + (n - trials) o' t/(1 + o' t) = k."""
    a = odds * other * (n - k)
    b = trials * odds + (n - trials) * other - k * (odds + other)
    square = np.sqrt(b * b + 4 * a * k)
    small = b > 0
    return np.where(small, 2 * k / np.where(small, b + square, 1.0), (square - b) / (2 * a))


def root(function: Callable[[Floats], Floats], low: Floats, high: Floats) -> Floats:
    """Return where a function of arrays is 0, which it passes once between both ends (Illinois).

    >>> root(lambda x: x**2 - np.array([2.0, 9.0]), np.zeros(2), np.full(2, 5.0)).round(6).tolist()
    [1.414214, 3.0]
    """
    before, after = function(low), function(high)
    for _ in range(MOST_STEPS):
        apart = after - before
        between = np.where(apart == 0, high, (low * after - high * before) / (apart + (apart == 0)))
        reached = function(between)
        same = np.sign(reached) == np.sign(after)
        before = np.where(same, before / 2, after)
        low = np.where(same, low, high)
        high, after = between, reached
        if np.abs(after).max() < NEAR_ENOUGH:
            break
    return high
