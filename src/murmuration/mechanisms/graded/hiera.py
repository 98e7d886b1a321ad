"""HierA as published: a perturbed grade, a bit with that grade's budget, and bits used again."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np

from murmuration.errors import ParameterError
from murmuration.exact.arrays import Floats
from murmuration.exact.exponential import exp_below
from murmuration.exact.grid import UnevenGrid
from murmuration.exact.randomness import HALF, WHOLE
from murmuration.mechanisms.graded.base import GradedMechanism
from murmuration.mechanisms.number.base import Design, unbiased
from murmuration.mechanisms.tally import Tally
from murmuration.results.estimate import Estimate
from murmuration.results.likelihood import LikelihoodEstimate, fit_mean

BISECTIONS = 40


@dataclass(frozen=True)
class Hiera(GradedMechanism):
    """Send the grade through randomised response, then a bit with the *sent* grade's budget.

        P(grade d, bit s | x in grade t) = G(d|t) (1 + s c_d x) / 2,   c_d = tanh(eps_d / 2),
        G(d|t) = e^eps_t / (e^eps_t + k - 1) for d = t, else 1 / (e^eps_t + k - 1).

    The report 2d + 1 stands for (d, +), 2d for (d, -). Each (d, s) is worth s/c_d, which is
    unbiased. The paper bounds the two parts one by one; what is sent is the pair, and its exact
    loss is far above the claim (max): 1.8 times at eps = .1, 3.4 times at 1 for its own layout,
    and even two values inside the most private range are told apart by more than its budget.

    `factor` multiplies all budgets. "calibrated" is the largest one for which the pair keeps the
    promised matrix: what hiera costs when it keeps its word.

    epsilon: one budget for each range, the lowest range first
    edges: where ranges meet: the k-1 inner edges, or all k+1 with -1 and 1
    semantics: what two values in different ranges may cost: "max" (the larger budget), "min" (the
        smaller), or a symmetric matrix with epsilon on its diagonal
    factor: multiplies all budgets, above 0 and up to 1; or "calibrated"

    >>> hiera = Hiera(epsilon=(0.5, 0.4, 0.3, 0.2, 0.1), edges=(-0.6, -0.2, 0.2, 0.6))
    >>> loss = hiera.loss()
    >>> loss.holds, loss.claimed, round(loss.epsilon, 3)
    (False, 0.5, 0.899)
    """

    name: ClassVar[str] = "hiera"
    paper: ClassVar[str] = "Hao, Wu, Wan 2023 (as published)"
    summary: ClassVar[str] = "a perturbed grade, then one bit with that grade's budget"
    keeps_promise: ClassVar[bool] = False

    factor: float | str = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.factor == "calibrated":
            object.__setattr__(self, "factor", _calibrated(self))
        number = isinstance(self.factor, int | float) and not isinstance(self.factor, bool)
        if not number or not 0 < float(self.factor) <= 1:
            raise ParameterError(
                f"factor is above 0 and up to 1, or 'calibrated'; got {self.factor!r}"
            )
        object.__setattr__(self, "factor", float(self.factor))

    def build(self) -> Design:
        """Two rows a range: its lower and its upper end, seen from inside."""
        grid = UnevenGrid.at(self.edges, jumps=self.edges[1:-1])
        ends = [Fraction(place, HALF) - 1 for place in grid.places]
        budgets = [Fraction(self.factor) * Fraction(budget) for budget in self.epsilon]
        weights = np.array(
            [pair_law(budgets, t, x) for t in range(self.k) for x in ends[t : t + 2]]
        )
        signs = np.tile([-1.0, 1.0], self.k)
        return unbiased(weights, signs / np.repeat(self.slopes, 2), grid)

    @cached_property
    def slopes(self) -> Floats:
        """c_d = tanh(eps_d/2): how much of the value is left in the bit of grade d."""
        return np.tanh(np.array(self.epsilon) * float(self.factor) / 2)

    @property
    def order(self) -> list[int]:
        """The grades from the least to the most private: the paper's levels 1 .. k."""
        return sorted(range(self.k), key=lambda grade: -self.epsilon[grade])

    # --- the collector's side, as published ---

    def aggregate(
        self,
        tally: Tally,
        mu: int = 2,
        *,
        clip: bool = True,
        seed: int = 0,
        as_printed: bool = False,
    ) -> Estimate:
        """Return the paper's Algorithm 5: convert bits to more private levels, merge, clip, add.

        Every bit is used `mu` times: as it is, and perturbed again as if it had come from each of
        the mu-1 next levels. Levels near the last have too few after them; their own bits are
        counted mu - k + i times instead (step 5), so that everybody counts mu times. `clip` is
        step 6. A bit that is perturbed again carries nothing new, only noise:

            n Var = E_d[1/c_d^2] - x^2 + mu^-2 E_d sum_j (1/c_j^2 - 1/c_d^2),   j = d+1 .. d+mu-1.

        mu = 1 without clipping is `estimate`. The clipping is biased when people are few; the
        standard error knows of the reuse but not of the clipping.

        `as_printed` takes step 5 by its letter: copies take the place of the last mu-1 levels, so
        that bits which were converted into them are lost, and the mean is biased.
        """
        base = self.estimate(tally)
        if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
            raise ParameterError(f"seed must be a whole number, 0 or more; got {seed!r}")
        if isinstance(mu, bool) or not isinstance(mu, int) or not 1 <= mu <= self.k:
            raise ParameterError(f"mu, how often a bit is used, is 1 to {self.k}; got {mu!r}")
        plus, minus = self._converted(tally, mu, np.random.default_rng(seed), as_printed)
        n, c = plus + minus, self.slopes[self.order]
        # n1* - n2* = (n1 - n2)/c; n1* cut to [0, N] cuts the difference to [-N, N].
        sums = (plus - minus) / c
        sums = np.clip(sums, -n, n) if clip else sums
        sent = tally.counts.reshape(self.k, 2).sum(axis=1) / tally.n
        variance = base.stderr**2 + self._reuse_variance(sent, mu) / tally.n
        mean = float(sums.sum() / n.sum())
        return dataclasses.replace(base, value=mean, stderr=math.sqrt(variance))

    def _converted(
        self, tally: Tally, mu: int, rng: np.random.Generator, as_printed: bool = False
    ) -> tuple[Floats, Floats]:
        """Return the + and - bits at each level, in order, after conversion and compensation."""
        bits = tally.counts.reshape(self.k, 2)[self.order]
        keep = (1 + self.slopes[self.order]) / 2
        merged = np.zeros((self.k, 2))
        for i in range(self.k):
            copies = max(1, mu - self.k + i + 1)
            if as_printed and copies > 1:
                merged[i] = 0  # what was converted into this level is lost
            merged[i] += bits[i] * copies
            for j in range(i + 1, min(self.k, i + mu)):
                q = (keep[i] + keep[j] - 1) / (2 * keep[i] - 1)
                stay = rng.binomial(bits[i], q)
                merged[j] += stay + (bits[i] - stay)[::-1]
        return merged[:, 1], merged[:, 0]

    def reused_variance(self, values: Floats, mu: int) -> float:
        """Return n Var of the mean of these values when every bit is used mu times, unclipped."""
        grades = self.design.table.probabilities.reshape(-1, self.k, 2).sum(axis=2)
        between = self.design.grid.interpolate
        sent = np.array([between(grades[:, d], values).mean() for d in range(self.k)])
        return float(self.variance(values).mean()) + self._reuse_variance(sent, mu)

    def _reuse_variance(self, sent: Floats, mu: int) -> float:
        """What perturbing bits again adds to n Var, given how many send each grade."""
        shares = sent[self.order]
        spread = 1 / self.slopes[self.order] ** 2
        added = [
            shares[i] * (spread[j] - spread[i])
            for i in range(self.k)
            for j in range(i + 1, min(self.k, i + mu))
        ]
        return float(sum(added)) / mu**2

    # --- for data that was already collected ---

    def likelihood(self, tally: Tally) -> LikelihoodEstimate:
        """Return the mean by maximum likelihood: the better reading of reports already collected.

        What can be behind 2k counters is a mixture of the 2k rows: people at both ends of each
        range. The most likely mixture's mean uses what the unbiased estimate ignores: that no
        range has a negative number of people, and that values lie inside their ranges.
        """
        raw, design = self.estimate(tally), self.design
        return fit_mean(design.table.probabilities, design.grid.points, tally.counts, raw)


def pair_law(budgets: list[Fraction], t: int, x: Fraction) -> list[int]:
    """Return the weights of (grade, bit) for the value x of grade t; the largest takes the rest."""
    ratios = [exp_below(budget) for budget in budgets]
    whole = ratios[t] + len(ratios) - 1
    weights = []
    for d, ratio in enumerate(ratios):
        grade = (ratios[t] if d == t else 1) / whole
        slope = (ratio - 1) / (ratio + 1)
        weights += [round(WHOLE * grade * (1 + s * slope * x) / 2) for s in (-1, 1)]
    weights[weights.index(max(weights))] += WHOLE - sum(weights)
    return weights


def _calibrated(hiera: Hiera) -> float:
    """Return the largest factor, to 12 digits, for which the exact loss keeps every budget."""
    low, high = 0.0, 1.0

    def keeps(factor: float) -> bool:
        return Hiera(hiera.epsilon, hiera.edges, hiera.semantics, factor).loss().holds

    if keeps(high):
        return high
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if keeps(middle) else (low, middle)
    if not low:
        raise ParameterError("no factor makes hiera keep these budgets")
    return low
