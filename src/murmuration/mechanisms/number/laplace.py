"""Discrete Laplace noise on a grid, with a finite alphabet: the baseline, made safe."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import ClassVar

import numpy as np

from murmuration.exact.arrays import Ints
from murmuration.exact.exponential import exp_below
from murmuration.exact.randomness import WHOLE
from murmuration.mechanisms.number.base import Design, NumericMechanism, unbiased

REACH = 12
"""Noise beyond e^-12 of the peak is gathered on the two end symbols."""


@dataclass(frozen=True)
class Laplace(NumericMechanism):
    """Add two-sided geometric noise on a grid; what runs off the alphabet falls on its ends.

    Floating-point Laplace noise gives the input away by its low bits; integers do not. Gathering
    the tails costs nothing: by memorylessness the noise beyond an end has the same mean whoever
    sent it, so that mean is the end symbol's value and the estimate stays unbiased. Variance
    8/eps^2. Never the best choice on a bounded range; here to be compared with.

    epsilon: the budget of one report, 0.001 to 20

    >>> round(Laplace(epsilon=1.0).worst_variance(), 2)
    8.0
    """

    name: ClassVar[str] = "laplace"
    paper: ClassVar[str] = "Dwork et al. 2006; discrete: Ghosh, Roughgarden, Sundararajan 2009"
    summary: ClassVar[str] = "two-sided geometric noise on a grid, tails gathered at the ends"

    def build(self) -> Design:
        """Row i is the noise shifted by i; the ends hold the tails."""
        cells = cells_for(self.epsilon)
        reach = math.ceil(REACH * cells / self.epsilon)
        beyond = float(1 / (exp_below(Fraction(self.epsilon) / cells) - 1))
        places = np.arange(-reach, cells + reach + 1, dtype=np.float64)
        places[0] -= beyond
        places[-1] += beyond
        return unbiased(shifted_noise(cells, self.epsilon), places * 2 / cells - 1)


def cells_for(epsilon: float) -> int:
    """Return the grid's size: steps of at most a tenth of the noise's scale 2/epsilon."""
    return 1 << max(0, math.ceil(math.log2(10 * epsilon)))


def shifted_noise(cells: int, epsilon: float) -> Ints:
    """Return the noise around each of the cells+1 grid points, with the tails on the end symbols.

    The alphabet reaches 12 scales beyond the domain on either side.
    """
    reach = math.ceil(REACH * cells / epsilon)
    noise, tails = _noise(cells, reach, epsilon)
    distance = np.arange(-reach, cells + reach + 1) - np.arange(cells + 1)[:, None]
    weights = noise[np.abs(distance)]
    weights[:, 0] = tails[np.arange(cells + 1)]
    weights[:, -1] = tails[cells - np.arange(cells + 1)]
    return np.asarray(weights)


def _noise(cells: int, reach: int, epsilon: float) -> tuple[Ints, Ints]:
    """Return integer weights by distance 0 .. reach+cells, and the tails from distance reach+i on.

    b_k ~ e^(-eps k/cells). The first `cells` of them are rounded up, then b_(k+cells) =
    ceil(b_k / e^eps), so two inputs at opposite ends differ by at most e^eps at every distance.
    The tail is closed so that the same holds for the end symbols, and b_0 takes what is left.
    """
    ratio = exp_below(epsilon)
    decay = exp_below(Fraction(-epsilon) / cells)
    peak = WHOLE * (1 - decay) / (1 + decay)
    powers = accumulate(
        [decay] * (cells - 1), lambda power, step: _short(power * step), initial=Fraction(1)
    )
    weights = [math.ceil(peak * power) for power in powers]
    for k in range(reach):
        weights.append(math.ceil(weights[k] / ratio))
    last = math.ceil(sum(weights[reach:]) / (ratio - 1))
    tails = [last + sum(weights[reach + i :]) for i in range(cells + 1)]
    weights[0] = WHOLE - 2 * (sum(weights[1:]) + last)
    return np.array([*weights, last]), np.array(tails)


def _short(number: Fraction) -> Fraction:
    """Keep 200 bits of a fraction: products of long fractions grow without end."""
    return Fraction(math.floor(number * (1 << 200)), 1 << 200)
