"""DCT as published: its class bit is a fair coin, so all it does is add uniform noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from murmuration.errors import ParameterError
from murmuration.exact.arrays import Ints
from murmuration.exact.randomness import WHOLE
from murmuration.mechanisms.number.base import Design, NumericMechanism

FINEST = 1024
FINE = 32
"""Grid steps in d, where the grid allows it: rounding then adds less than 0.1% to the variance."""


@dataclass(frozen=True)
class Dct(NumericMechanism):
    """Send x plus uniform noise on [-d, d], d = 1/(alpha eps).

    The paper cuts [x-d, x+d] into a middle half (class 1) and two outer quarters (class 0), draws
    the class by a fair coin that does not depend on x, flips it by randomised response, and sends
    a uniform number from the half that it names. A fair coin is still fair when it is flipped,
    and both halves are equally long: the report is uniform on [x-d, x+d], whatever the response.
    epsilon enters through d alone.

    Two values have different supports, so some reports give the value away: the loss is infinite
    for every two values and every epsilon. Var = d^2/3. There is no repair that keeps that error;
    what keeps the promise is `piecewise`, `dithered` or `optimal`.

    epsilon: the budget of one report, 0.001 to 20
    alpha: how much narrower than 1/epsilon the noise reaches; the paper takes 5

    >>> dct = Dct(epsilon=1.0)
    >>> dct.loss().epsilon, round(dct.worst_variance(), 4)
    (inf, 0.0133)
    """

    name: ClassVar[str] = "dct"
    paper: ClassVar[str] = "Zhu, Wang, Sun 2022 (as published)"
    summary: ClassVar[str] = "uniform noise of half-width 1/(alpha epsilon)"
    keeps_promise: ClassVar[bool] = False

    alpha: float = 5.0

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            alpha = float(self.alpha)
        except (TypeError, ValueError):
            alpha = math.nan
        if isinstance(self.alpha, bool) or not 0.01 <= alpha <= 100:
            raise ParameterError(f"alpha is a number from 0.01 to 100; got {self.alpha!r}")
        object.__setattr__(self, "alpha", alpha)

    @property
    def half_width(self) -> float:
        """Half of the noise's support: d = 1/(alpha epsilon)."""
        return 1 / (self.alpha * self.epsilon)

    def build(self) -> Design:
        """A plateau that slides over nothing; its outermost symbols are as likely as d says."""
        cells = min(FINEST, 1 << max(0, math.ceil(math.log2(2 * FINE / self.half_width))))
        plateau = _plateau(self.half_width * cells / 2)
        weights = np.zeros((cells + 1, cells + len(plateau)), dtype=np.int64)
        for row, place in enumerate(weights):
            place[row : row + len(plateau)] = plateau
        positions = np.arange(cells + len(plateau), dtype=np.float64) - (len(plateau) - 1) / 2
        return Design(weights, positions * 2 / cells - 1)


def _plateau(d: float) -> Ints:
    """Return the weights of a uniform law on [-d, d] (in grid steps) on the whole numbers.

    A real number falls on its nearest whole number; the middle takes what rounding leaves.
    """
    reach = math.floor(d + 0.5)
    side = d + 0.5 - reach  # how much of the outermost number's cell is inside
    widths = np.concatenate([[side], np.ones(max(0, 2 * reach - 1)), [side]]) if reach else [1.0]
    weights = np.floor(np.asarray(widths) / np.sum(widths) * WHOLE).astype(np.int64)
    weights[len(weights) // 2] += WHOLE - weights.sum()
    return np.asarray(weights)
