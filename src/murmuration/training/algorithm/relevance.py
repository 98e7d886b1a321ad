"""Which attributes matter: weights for the next leg, from the gradients of the last ones.

Attribute g has coefficients b_j that are drawn from N(0, r_g s_j), with s_j the variance of column
j; each is read with noise of known variance. r_g is log-normal around the mean of all attributes;
its posterior mean follows on a grid. Columns of attributes that matter little are made smaller:
steps along them are smaller, so that less noise comes in by them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from murmuration.exact.arrays import Floats

DOWN, SPREAD = 0.3, 0.9
"""The prior of log10(r_g / mean): its mean is so far below 0, and its standard deviation."""
LEAST = 0.03
"""The smallest relevance, as a part of the largest."""


def relevance(read: Floats, noise: Floats, spread: Floats, attributes: Sequence[slice]) -> Floats:
    """Return a factor for each column: the root of its attribute's relevance; 1 for the largest.

    `read` has a row for each score, `noise` is the variance of each column's reading, `spread`
    the variance of the column itself.

    >>> parts = [slice(0, 1), slice(1, 2)]
    >>> factors = relevance(np.array([[1.0, 0.0]]), np.full(2, 0.01), np.ones(2), parts)
    >>> bool(factors[0] == 1 and factors[1] < 0.5)
    True
    """
    scores = len(read)
    squares = np.square(read).sum(axis=0)
    least = 0.3 * math.sqrt(2 * float(np.square(noise).sum())) / spread.sum()
    mean = max(float((squares - scores * noise).sum()) / (scores * spread.sum()), least)
    decades = np.linspace(-2.5, 1.8, 44)
    grid = mean * 10**decades
    prior = -0.5 * ((decades + DOWN) / SPREAD) ** 2
    means = np.array(
        [_mean(squares[a], noise[a], spread[a], grid, prior, scores) for a in attributes]
    )
    factors = np.ones(len(spread))
    for part, value in zip(attributes, np.clip(means / means.max(), LEAST, 1.0), strict=True):
        factors[part] = math.sqrt(value)
    return factors


def _mean(
    squares: Floats, noise: Floats, spread: Floats, grid: Floats, prior: Floats, scores: int
) -> float:
    """Return the posterior mean of one attribute's relevance."""
    variance = noise[:, None] + grid[None, :] * spread[:, None]
    log = prior - 0.5 * (scores * np.log(variance) + squares[:, None] / variance).sum(axis=0)
    share = np.exp(log - log.max())
    return float((share * grid).sum() / share.sum())
