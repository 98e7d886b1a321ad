"""What reports say about people some of whom have no answer: two means and two covariances."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from murmuration.exact.arrays import Floats
from murmuration.results.estimate import About, AnsweredEstimate


@dataclass(frozen=True, eq=False)
class Moments:
    """S and N of some people, and per report the covariance of noise and of the people's own."""

    n: int
    mean: Floats
    noise: Floats
    apart: Floats

    @classmethod
    def together(cls, parts: Sequence[Moments]) -> Moments:
        """Return those of several groups of people as one crowd, each with its own noise."""
        n = sum(part.n for part in parts)
        weights = [part.n / n for part in parts]
        pairs = list(zip(weights, parts, strict=True))
        mean = np.sum([w * part.mean for w, part in pairs], axis=0)
        square = np.sum([w * (p.apart + np.outer(p.mean, p.mean)) for w, p in pairs], axis=0)
        noise = np.sum([w * part.noise for w, part in pairs], axis=0)
        return cls(n, mean, noise, square - np.outer(mean, mean))

    def estimate(self, unseen: float, epsilon: float, about: About) -> AnsweredEstimate:
        """Return the estimate; `unseen` is how much of the people's own spread is in its error."""
        (first, mixed), (_, second) = (self.noise + unseen * self.apart).tolist()
        # No covariance is larger than the two variances allow.
        most = math.sqrt(max(first, 0.0) * max(second, 0.0))
        return AnsweredEstimate(
            sums=self.mean[:1],
            variances=np.array([max(first, 0.0)]) / self.n,
            share=float(self.mean[1]),
            share_variance=max(second, 0.0) / self.n,
            covariances=np.array([min(max(mixed, -most), most)]) / self.n,
            n=self.n,
            epsilon=epsilon,
            about=about,
        )
