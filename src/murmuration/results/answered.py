"""What reports say about people some of whom have no answer: two means and two covariances."""

from __future__ import annotations

import math
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
