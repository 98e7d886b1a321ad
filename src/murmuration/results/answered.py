"""The mean of a number among those who answered: a quotient of two means, with a score interval.

Each report y is read as s(y), whose mean over all people is S (0 for no answer), and as a(y), whose
mean is N, the share that answered. The mean among those is t = S/N, which is where the mean of

    r(y) = s(y) - t a(y)

is 0. So the interval has every t in [-1, 1] with

    (S - t N)^2 <= z^2 (V(t)/n + (jump/2n)^2),

V(t) the most that r varies from report to report in a crowd with that mean: it needs no minimum of
people. E[s a] and E[a^2] are known functions of S and N. E[s^2] is at most that of the crowd whose
values vary most, and less where the reports show so. (With N = 1 this is what numbers without
missing answers have: `NumericMechanism.estimate`.)

Where people choose levels, those of one level may have any mean: only what all levels together say
is t, so that V is what the reports of each level show.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from murmuration.exact.arrays import Floats, Ints
from murmuration.exact.grid import AnyGrid
from murmuration.results.estimate import About, AnsweredEstimate, Estimate
from murmuration.statistics.quotient import Beside
from murmuration.statistics.score import (
    LIKELY,
    OFFSETS,
    Reading,
    Score,
    Shape,
    SumScore,
    Tail,
    largest_moments,
    tail_of,
)
from murmuration.statistics.supports import SupportShape

HALVES = 2
"""Tails are worked out for t = -1, -1/2, 0, 1/2 and 1."""
POINTS = np.linspace(-1, 1, 129)
"""Where V is worked out, besides next to the estimate."""


@dataclass(frozen=True, eq=False)
class AnswerLaw:
    """What reports are read as, and how that varies.

    probabilities: P(report | grid point), a row each; the last row is that of no answer
    readings: what each report is read as, for S (first row) and for N
    grid: the points that values are rounded to
    """

    probabilities: Floats
    readings: Floats
    grid: AnyGrid

    @cached_property
    def targets(self) -> Floats:
        """S and N of a person at each grid point, and of one without an answer."""
        points = np.append(self.grid.points, 0.0)
        return np.stack([points, np.append(np.ones(len(points) - 1), 0.0)])

    @cached_property
    def products(self) -> Floats:
        """E[s^2], E[s a] and E[a^2], at each grid point and for no answer."""
        s, a = self.readings
        return np.asarray(np.stack([s * s, s * a, a * a]) @ self.probabilities.T)

    @cached_property
    def noise(self) -> Floats:
        """Variance of s, covariance, variance of a, at each grid point and for no answer."""
        x, one = self.targets
        return np.asarray(self.products - np.stack([x * x, x * one, one * one]))

    @cached_property
    def noise_reading(self) -> Reading | None:
        """Numbers whose average over reports is the average noise of s; None if there are none.

        As `Design.noise_reading`, with one more row.
        """
        scale = np.sqrt(self.probabilities.mean(axis=0))
        scaled, *_ = np.linalg.lstsq(self.probabilities / scale, self.noise[0], rcond=1e-10)
        reading = scaled / scale
        exact = np.allclose(self.probabilities @ reading, self.noise[0], rtol=1e-6, atol=1e-9)
        return Reading.of(self.probabilities, reading) if exact else None

    @cached_property
    def most(self) -> tuple[Floats, Floats, Floats]:
        """Points, and of those who answer with that mean the most noise of s and E[s^2]."""
        return largest_moments(self.grid, self.products[0, :-1])

    @cached_property
    def answer_rates(self) -> tuple[float, float]:
        """How often a report says an answer, of people who have one and of people who have none."""
        return 1 - float(self.probabilities[0, -1]), 1 - float(self.probabilities[-1, -1])

    def mixed(self, which: int, sums: Floats | float, share: float) -> Floats:
        """Return E[s a] (1) or E[a^2] (2) of people with this S and N: both are linear."""
        first, last, none = self.products[which, [0, -2, -1]]
        own = share * (first + last) / 2 + (last - first) / 2 * np.asarray(sums)
        return np.asarray(own + (1 - share) * none)


@dataclass(frozen=True, eq=False)
class AnswerCounts:
    """How often each report of one law was sent."""

    law: AnswerLaw
    counts: Ints

    @cached_property
    def n(self) -> int:
        """How many reports there are."""
        return int(self.counts.sum())

    @cached_property
    def mean(self) -> Floats:
        """S and N."""
        return np.asarray(self.law.readings @ self.counts / self.n)

    def spread(
        self, points: Floats, centre: float, share: float, unseen: float, *, alone: bool
    ) -> Floats:
        """Return V at these t, where a share has answered; `centre` is the estimate of t."""
        law, rest = self.law, 1 - share
        places, noisiest, largest = law.most
        if alone:
            sums = share * points
            noisiest, largest = (np.interp(points, places, most) for most in (noisiest, largest))
        else:
            sums = np.full(len(points), self.mean[0])
            noisiest, largest = noisiest.max(), largest.max()
        quiet = rest * law.products[0, -1]
        mixed, counted = law.mixed(1, sums, share), law.mixed(2, sums, share)
        known = points**2 * counted - 2 * points * mixed
        shown = self._shown(points - centre, centre, mixed, counted)
        whole = np.minimum(share * largest + quiet + known, shown)
        own = known + 2 * points * sums - points**2 * share  # of the noise: without people's own
        noise = np.minimum(share * noisiest + quiet + own, whole)
        if law.noise_reading is not None:
            rounding = share * law.grid.step**2 / 4
            read = law.noise_reading.at_most(self.counts, self.n)
            noise = np.minimum(noise, read + rounding + own)
        least = share * float(law.noise[0, :-1].min()) + quiet + own
        found = np.maximum((1 - unseen) * noise + unseen * whole, np.maximum(least, 0.0))
        return np.asarray(found)

    def _shown(self, apart: Floats, centre: float, mixed: Floats, counted: Floats) -> Floats:
        """Return E[(s - t a)^2] as these reports show it, with what is uncertain about it added.

        It is read off at the estimate; from there to any t, `apart` of it, by known moments. Where
        it is due to few reports at one end, a crowd whose mean is nearer to it has more of them.
        """
        read = self.law.readings[0] - centre * self.law.readings[1]
        far = min(
            tail_about(self.law, centre).jump(self.n, LIKELY) + 2.0, float(np.abs(read).max())
        )
        once = Tail(np.array([far**2]), np.zeros(1))
        means, squares = self.law.probabilities @ read**2, self.law.probabilities @ read**4
        square = Reading.by_moments(read**2, means, squares, once).at_most(self.counts, self.n)
        off = read - float(self.counts @ read) / self.n
        second, third = (float(self.counts @ off**power) for power in (2, 3))
        lean = third / second if second > 0 else 0.0
        straight = lean * self.mean[1] - 2 * (mixed - centre * counted)
        return np.asarray(square + apart * straight + apart**2 * counted)

    def share_noise(self) -> tuple[float, float]:
        """Return the covariance of the noise of s and a, and the noise of a."""
        share = (self.n * float(np.clip(self.mean[1], 0, 1)) + 2) / (self.n + 4)
        sums = float(np.clip(self.mean[0], -share, share))
        mixed, counted = (float(self.law.mixed(which, sums, share)) for which in (1, 2))
        return mixed - sums, counted - share

    def supports(self, stderr: float, unseen: float) -> SupportShape:
        """Return how far the interval of N reaches: by how many reports say an answer."""
        said = np.array([self.n - self.counts[-1]])
        return SupportShape(said, np.array([stderr]), self.n, *self.law.answer_rates, unseen)


@dataclass(frozen=True, eq=False)
class Quotient:
    """S/N from the reports of one law, or of one law for each level.

    unseen: how much of the people's own spread is uncertain (`About.unseen`)
    """

    groups: Sequence[AnswerCounts]
    unseen: float

    @cached_property
    def n(self) -> int:
        """How many reports there are."""
        return sum(group.n for group in self.groups)

    @cached_property
    def weights(self) -> Floats:
        """Each law's part of the reports."""
        return np.array([group.n / self.n for group in self.groups])

    @cached_property
    def mean(self) -> tuple[float, float]:
        """S and N."""
        sums, share = (self.weights @ np.array([group.mean for group in self.groups])).tolist()
        return sums, share

    @cached_property
    def likely(self) -> float:
        """N, with two people more who answered and two who did not."""
        return (self.n * min(max(self.mean[1], 0.0), 1.0) + 2) / (self.n + 4)

    @cached_property
    def centre(self) -> float:
        """S/N, within what a mean can be."""
        sums, share = self.mean
        return min(max(sums / share, -1.0), 1.0) if share > 0 else 0.0

    @cached_property
    def spread(self) -> tuple[Floats, Floats]:
        """Points t, and V there: the larger one of N a standard error up and down."""
        near = np.concatenate([self.centre - OFFSETS, self.centre + OFFSETS])
        points = np.unique(np.concatenate([POINTS, np.clip(near, -1, 1), [self.centre]]))
        error = math.sqrt(self.share_variance)
        largest = [
            self._spread(points, share) for share in (self.likely - error, self.likely + error)
        ]
        return points, np.maximum(*largest)

    def _spread(self, points: Floats, share: float) -> Floats:
        inside, alone = min(max(share, 0.0), 1.0), len(self.groups) == 1
        parts = [
            group.spread(points, self.centre, inside, self.unseen, alone=alone)
            for group in self.groups
        ]
        return np.asarray(self.weights @ np.array(parts))

    @cached_property
    def share_noise(self) -> tuple[float, float]:
        """The covariance of the noise of S and N from one report, and the noise of N."""
        noise = np.array([group.share_noise() for group in self.groups])
        mixed, counted = (self.weights @ noise).tolist()
        return mixed, counted

    @property
    def share_variance(self) -> float:
        """The squared standard error of N."""
        return (self.share_noise[1] + self.unseen * self.likely * (1 - self.likely)) / self.n

    @property
    def covariance(self) -> float:
        """The covariance of S and N: people who answer add to both."""
        own = self.centre * self.likely * (1 - self.likely)
        return (self.share_noise[0] + self.unseen * own) / self.n

    def estimate(self, epsilon: float, about: About) -> AnsweredEstimate:
        """Return S and N, and the mean of those who answered."""
        (sums, share), c = self.mean, self.centre
        square = float(np.interp(c, *self.spread)) / self.n
        variance = square + 2 * c * self.covariance - c**2 * self.share_variance
        return AnsweredEstimate(
            sums=np.array([sums]),
            variances=np.array([max(variance, 0.0)]),
            share=share,
            share_variance=self.share_variance,
            covariances=np.array([self.covariance]),
            n=self.n,
            epsilon=epsilon,
            about=about,
            shape=Beside(1, self._share_shape()),
            mean=self._mean(epsilon, about) if share > 0 else None,
        )

    def _mean(self, epsilon: float, about: About) -> Estimate:
        """Return S/N, its error as if two people more had answered at either end."""
        (sums, share), (points, variance) = self.mean, self.spread
        likely = self.centre * self.n * self.likely / (self.n * self.likely + 4)
        stderr = math.sqrt(float(np.interp(likely, points, variance)) / self.n) / share
        far = max((tail_about(group.law, self.centre) for group in self.groups), key=_furthest)
        tail, apart = Tail(far.far / share, far.chance), 2.0 if self.unseen else self._step
        value, most = sums / share, float(far.far[-1] + 2.0) / share
        parts = (value, stderr, self.n, points, variance / share**2, tail, apart / share, most)
        return Estimate(value, stderr, self.n, epsilon, about, shape=Score(*parts))

    @property
    def _step(self) -> float:
        return max(group.law.grid.step for group in self.groups)

    def _share_shape(self) -> Shape:
        """Return how far the interval of N reaches: that of one law, or of a sum over levels."""
        errors = [
            (group.share_noise()[1] + self.unseen * self.likely * (1 - self.likely)) / group.n
            for group in self.groups
        ]
        parts = [
            group.supports(math.sqrt(error), self.unseen)
            for group, error in zip(self.groups, errors, strict=True)
        ]
        if len(parts) == 1:
            return parts[0]
        return SumScore(tuple(parts), (self.weights**2 * errors)[:, None])


def _furthest(tail: Tail) -> float:
    return float(tail.far[-1])


def tail_about(law: AnswerLaw, centre: float) -> Tail:
    """Return how far s - t a is off, and how often, for t next to the centre."""
    return _tail(law, round(HALVES * centre))


@lru_cache(maxsize=256)
def _tail(law: AnswerLaw, halves: int) -> Tail:
    t, means = halves / HALVES, law.targets
    read = law.readings[0] - t * law.readings[1]
    return tail_of(law.probabilities, read, means[0] - t * means[1])
