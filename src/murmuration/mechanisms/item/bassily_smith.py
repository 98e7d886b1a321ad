"""Bassily and Smith's random projection, as Harmony's Algorithm 3 gives it: a baseline."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from murmuration.errors import ParameterError
from murmuration.exact.arrays import Floats, Ints, Reports
from murmuration.exact.randomness import Rng, drawn, uniform
from murmuration.mechanisms.item.base import MOST_TRIED, FrequencyMechanism
from murmuration.mechanisms.item.hadamard import OneBit
from murmuration.mechanisms.packing import BITS_PER_PASS
from murmuration.mechanisms.tally import Tally
from murmuration.mechanisms.trial import ChanceTrial, Trial, spread_over
from murmuration.statistics.score import QuadraticScore, Shape
from murmuration.statistics.sequence import Terms

MOST_ROWS = 1 << 22
ROW_CLASSES = 64
"""Parts of the matrix that the auditor tells apart."""


@dataclass(frozen=True)
class BassilySmith(OneBit):
    """Pick a row of a random m x k sign matrix, send its entry at the item's column, with noise.

    m = log(k+1) log(2/beta) eps^2 n / log(2k/beta), for n people and confidence 1-beta. Columns
    are orthogonal only on average, so other items leak in: that adds up to 1/m to the variance,
    which is why Harmony replaces the matrix by an orthogonal one (`hadamard`). The matrix is
    public, made from `seed` by a 32-bit mixing function; unbiased over the choice of the seed.

    epsilon: the budget of one report, 0.001 to 20
    k: how many items there are, 2 or more; an answer is 0 to k-1
    people: how many are expected; more rows of the matrix are used for more
    beta: the confidence is 1 - beta
    seed: of the public matrix

    >>> BassilySmith(epsilon=1.0, k=16, people=10_000).rows
    16175
    """

    name: ClassVar[str] = "bassily-smith"
    paper: ClassVar[str] = "Bassily, Smith 2015; Harmony (Nguyen et al. 2016), Algorithm 3"
    summary: ClassVar[str] = "one bit of the item's column in a random sign matrix"

    people: int = 100_000
    beta: float = 0.05
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (isinstance(self.people, int) and self.people >= 1):
            raise ParameterError(f"people must be 1 or more; got {self.people!r}")
        if not 0 < self.beta < 1:
            raise ParameterError(f"beta must be between 0 and 1; got {self.beta!r}")
        if not (isinstance(self.seed, int) and 0 <= self.seed < 1 << 32):
            raise ParameterError(f"seed must be a whole number below 2^32; got {self.seed!r}")

    @property
    def rows(self) -> int:
        """m, at most 2^22 (beyond that nothing is gained)."""
        logs = math.log(self.k + 1) * math.log(2 / self.beta) / math.log(2 * self.k / self.beta)
        return max(2, min(MOST_ROWS, math.ceil(logs * self.epsilon**2 * self.people)))

    @property
    def symbols(self) -> int:
        """Row and bit: 2 * row + bit."""
        return 2 * self.rows

    @property
    def work(self) -> int:
        """An entry of the matrix for each item, when the tally is read."""
        return self.k

    def variance(self, x: ArrayLike) -> Floats:
        """Add what the other items leak in, for the planned number of people."""
        leak = self.people / self.rows * (1 - np.asarray(x, dtype=np.float64)) ** 2
        return np.asarray(super().variance(x) + leak)

    def squared_errors(self, shares: Floats, n: int) -> Floats:
        """The response's noise falls with n; the leak, at most (1-x)^2/m, does not."""
        return np.asarray(
            FrequencyMechanism.variance(self, shares) / n + (1 - shares) ** 2 / self.rows
        )

    def _shape(self, support: Ints, n: int, errors: Floats, unseen: float) -> Shape:
        """The leak comes on top of n Var = b + (a-b) f; its (1-f)^2 is below the line 1-f."""
        (own, other), gap = self._own_and_other, self._rates.gap
        other += n / self.rows
        variance = (other, own - other + unseen, -unseen)
        shares = (support / n - self._rates.other) / gap
        return QuadraticScore(shares, errors, n, variance, 0.0, 1.0, 1 / gap)

    @property
    def least_support(self) -> float:
        """Columns are not orthogonal: an item may be any other's opposite. So it is one bit's."""
        return float(1 - self.p)

    def terms(self) -> tuple[Terms, ...]:
        """Nothing: what other items leak in is no noise that reports draw anew."""
        return ()

    def respond(self, items: Ints, rng: Rng) -> Reports:
        """Draw a row, in public, and the coin of the response."""
        row = uniform(rng.public(), len(items), self.rows)
        lie = drawn(rng.words(len(items))) >= self.response.truth
        bit = signs(self.seed, row, items) ^ lie
        return (2 * row + bit).astype(np.min_scalar_type(self.symbols - 1))

    def trials(self) -> Iterator[Trial]:
        """The bit is the item's entry in its row with p, and the row tells nothing."""
        sizes = np.diff(np.arange(ROW_CLASSES + 1) * self.rows // ROW_CLASSES) / self.rows
        for item in spread_over(self.k, MOST_TRIED):
            chances = np.outer(sizes, [1 - float(self.p), float(self.p)]).ravel()
            read = partial(self._agreeing, item)
            yield ChanceTrial(self, item, read, chances, "the bit, by the part of the rows")

    def _agreeing(self, item: int, reports: Reports) -> Ints:
        """Count reports by the part of the matrix that their row is in, and by their bit."""
        row, bit = reports.astype(np.int64) >> 1, reports.astype(np.int64) & 1
        ends = np.arange(1, ROW_CLASSES + 1) * self.rows // ROW_CLASSES
        part = np.searchsorted(ends, row, side="right")
        right = bit == signs(self.seed, row, np.full(len(row), item))
        return np.bincount(2 * part + right, minlength=2 * ROW_CLASSES)

    def support(self, tally: Tally) -> Ints:
        """Count the reports whose bit is the item's entry in their row, over the rows in use."""
        used = np.flatnonzero(tally.counts.reshape(-1, 2).any(axis=1))
        zero, one = tally.counts.reshape(-1, 2)[used].T
        support = np.zeros(self.k, dtype=np.int64)
        step = max(1, BITS_PER_PASS // max(1, len(used)))
        for start in range(0, self.k, step):
            items = np.arange(start, min(self.k, start + step))
            entries = signs(self.seed, used[:, None], items[None, :])
            support[items] = zero @ (1 - entries) + one @ entries
        return support

    def public_part(self, report: Reports) -> list[int]:
        """The row."""
        return [int(number) for number in np.ravel(report >> 1)]

    def law(self) -> dict[str, Any]:
        """The response's weights and the matrix."""
        return {**self.response.law(), "rows": self.rows, "seed": self.seed}


def signs(seed: int, rows: Ints, items: Ints) -> Ints:
    """Return the matrix's entries, 0 or 1: the lowest bit of mix(mix(mix(seed) ^ row) + item).

    >>> signs(0, np.array([3, 4]), np.array([5, 5])).tolist()
    [0, 0]
    """
    key = _mix(np.array([seed], dtype=np.uint32))
    inner = _mix(np.atleast_1d(rows).astype(np.uint32) ^ key)
    outer = _mix(inner + np.atleast_1d(items).astype(np.uint32))
    return (outer & np.uint32(1)).astype(np.int64)


def _mix(numbers: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Stir 32 bits: shifts and odd multipliers, modulo 2^32, as a browser can do them too."""
    mixed = numbers + np.uint32(0x9E3779B9)
    for shift, multiplier in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        mixed = (mixed ^ (mixed >> np.uint32(shift))) * np.uint32(multiplier)
    return mixed ^ (mixed >> np.uint32(16))
