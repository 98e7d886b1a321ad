"""The most likely mean behind counters of a known law, with the interval of its likelihood.

Counters c_y of n reports are drawn from sum_i w_i P(y|i), a mixture of the law's rows with shares
w on the simplex. The most likely mixture has the mean sum_i w_i x_i. A mean m is in the interval
of a level when some mixture with that mean is not much less likely than the best one:

    2 (max L(w) - max { L(w) : sum w_i x_i = m }) <= chi-square quantile (1 degree of freedom).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from murmuration.exact.arrays import Floats, Ints
from murmuration.results.estimate import Estimate
from murmuration.statistics.score import normal_quantile

MOST_STEPS = 200
TIGHT = 1e-9
"""Stop when no mixture can be more likely by more than this, in log-likelihood per report."""
NOBODY = 1e-12
"""A report that nobody sent counts this much, so that its logarithm is finite."""


@dataclass(frozen=True, eq=False)
class LikelihoodEstimate:
    """A mean by maximum likelihood: not unbiased, but inside the domain, and with an interval.

    Treats the people as drawn from a population, so about the participants alone the interval is
    a little wider than it needs to be. Where the unbiased estimate's interval reaches an end of the
    domain, likelihood alone would be too sure of itself: there that interval is added.
    """

    value: float
    n: int
    epsilon: float
    raw: Estimate
    """The unbiased estimate from the same counters."""
    shares: Floats
    """The most likely share of each row of the law."""
    law: Floats
    points: Floats
    counts: Ints

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Return the means that some mixture of nearly the same likelihood has."""
        drop = normal_quantile(confidence) ** 2 / (2 * self.n)
        shares = _observed(self.counts)
        best = _likelihood(self.shares @ self.law, shares)

        def excess(mean: float) -> float:
            return best - _profile(self.law, self.points, shares, mean) - drop

        ends = float(self.points.min()), float(self.points.max())
        low, high = (_crossing(excess, self.value, end) for end in ends)
        raw_low, raw_high = self.raw.interval(confidence)
        if raw_low > ends[0] and raw_high < ends[1]:
            return low, high
        return max(min(low, raw_low), ends[0]), min(max(high, raw_high), ends[1])

    def __str__(self) -> str:
        low, high = self.interval()
        return f"{self.value:.6g} [{low:.6g}, {high:.6g}] (95%, likelihood, n={self.n:,})"


def fit_mean(law: Floats, points: Floats, counts: Ints, raw: Estimate) -> LikelihoodEstimate:
    """Return the mean of the most likely mixture of the law's rows, which answer for `points`.

    >>> from murmuration.results.estimate import About
    >>> law, raw = np.array([[0.75, 0.25], [0.25, 0.75]]), Estimate(0.5, 0.07, 800, 1.1, About(
    ...     "participants"))
    >>> round(fit_mean(law, np.array([-1.0, 1.0]), np.array([300, 500]), raw).value, 6)
    0.5
    """
    mixture = most_likely(law, _observed(counts))
    mean = float(mixture @ points)
    return LikelihoodEstimate(mean, raw.n, raw.epsilon, raw, mixture, law, points, counts)


def most_likely(law: Floats, observed: Floats) -> Floats:
    """Return shares w >= 0 of the rows, adding up to 1, that maximise sum_y f_y ln(w P)_y.

    Newton's method: near the reports' law p the logarithm is a parabola, and the best w >= 0 for
    it is a non-negative least squares problem; the sum comes out as 1 by itself. The slope g_i =
    sum_y f_y P(y|i) / p_y tells how far the best can still be: ln(max g).
    """
    w: Floats = np.full(len(law), 1 / len(law))
    for _ in range(MOST_STEPS):
        p = w @ law
        slope = law @ (observed / p)
        if slope.max() - 1 < TIGHT:
            break
        w = _uphill(w, _newton(law, observed, p), law, observed)
        w = np.asarray(w * (law @ (observed / (w @ law))))  # EM: never downhill, never stuck
        w /= w.sum()
    return w


def _newton(law: Floats, observed: Floats, p: Floats) -> Floats:
    """Return the best shares for the parabola at p."""
    from scipy.optimize import nnls  # here: it takes a third of a second

    scale = np.sqrt(observed) / p
    shares, _ = nnls((law * scale).T, 2 * scale * p - 1 / scale)
    total = shares.sum()
    return np.asarray(shares / total) if total > 0 else np.full(len(law), 1 / len(law))


def _uphill(start: Floats, end: Floats, law: Floats, observed: Floats) -> Floats:
    """Go towards `end`, half as far until it is uphill."""
    before = _likelihood(start @ law, observed)
    for halvings in range(12):
        there = start + (end - start) / 2**halvings
        if _likelihood(there @ law, observed) > before:
            return np.asarray(there)
    return start


def _profile(law: Floats, points: Floats, observed: Floats, mean: float) -> float:
    """Return the largest log-likelihood of a mixture with this mean.

    Mixtures with a given mean are mixtures of pairs: one row at or below it, one at or above,
    in the proportion that has this mean. So the pairs are the rows of another law.
    """
    low, high = np.nonzero((points[:, None] <= mean) & (points[None, :] >= mean))
    gap = points[high] - points[low]
    up = np.where(gap > 0, (mean - points[low]) / np.where(gap > 0, gap, 1.0), 0.5)
    pairs = law[low] * (1 - up)[:, None] + law[high] * up[:, None]
    return _likelihood(most_likely(pairs, observed) @ pairs, observed)


def _observed(counts: Ints) -> Floats:
    """Return the reports' shares, none of them quite 0."""
    shares = counts / counts.sum() + NOBODY
    return np.asarray(shares / shares.sum())


def _likelihood(p: Floats, observed: Floats) -> float:
    """Return the log-likelihood per report."""
    with np.errstate(divide="ignore"):
        return float(observed @ np.log(p))


def _crossing(excess: Callable[[float], float], inside: float, end: float) -> float:
    """Return where the excess turns positive between a point inside and an end of the domain."""
    from scipy.optimize import brentq  # here: it takes a third of a second

    if excess(end) <= 0 or inside == end:
        return end
    return float(brentq(excess, inside, end, xtol=1e-7))
