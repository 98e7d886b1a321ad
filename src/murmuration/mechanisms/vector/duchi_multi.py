"""Duchi's mechanism for vectors: a corner of the cube that leans towards the vector."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from murmuration.exact.arrays import Bits, Floats, Ints, Reports
from murmuration.exact.exponential import exp_below, log_above
from murmuration.exact.grid import Grid
from murmuration.exact.loss import Loss
from murmuration.exact.randomness import WHOLE, Rng, drawn
from murmuration.mechanisms.domain import Values, checked_values
from murmuration.mechanisms.packing import BitReports, pack_bits, unpack_bits
from murmuration.mechanisms.tally import Tally
from murmuration.mechanisms.trial import ChanceTrial, Trial, people_for
from murmuration.mechanisms.vector.base import TupleMechanism
from murmuration.results.estimate import About, Estimate, TupleEstimate
from murmuration.statistics.forgery import Evidence, Limits
from murmuration.statistics.liars import Reach
from murmuration.statistics.score import QuadraticScore

LARGEST = 1024
SMALL_CUBE = 10
"""Dimensions up to which the auditor counts every corner."""


@dataclass(frozen=True)
class DuchiMulti(TupleMechanism, BitReports):
    """Round each coordinate to a sign, then send a corner that agrees with most of the signs.

    T+ holds the corners that agree in more than half of the coordinates, T- all others; a corner
    of T+ is e^eps times as likely as one of T-. Pr[T+] = E|T+| / ((E-1)|T+| + 2^d): for even d the
    published law is another one, which leaks and is biased (`duchi-multi-published`).
    Var = B_d^2 - x^2 with B_d = 1/E[share agreeing - share disagreeing].

    epsilon: the budget of one report, 0.001 to 20
    d: how many numbers a person has, each in [-1, 1]
    domains: the same as zeros, one per number; items are not taken

    >>> round(DuchiMulti(epsilon=1.0, d=10).worst_variance(), 2)
    60.73
    """

    name: ClassVar[str] = "duchi-multi"
    paper: ClassVar[str] = "Duchi, Jordan, Wainwright 2018; with Harmony's fix for even d"
    summary: ClassVar[str] = "a corner of the cube that leans towards the vector"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_numbers(LARGEST)

    @property
    def bits(self) -> int:
        """One sign per coordinate."""
        return len(self.attributes)

    @cached_property
    def corners(self) -> int:
        """|T+|: the corners that agree with given signs in more than half of the coordinates."""
        d = self.bits
        return int(2**d - (math.comb(d, d // 2) if d % 2 == 0 else 0)) // 2

    @cached_property
    def inside(self) -> int:
        """The weight of T+ out of 2^52, rounded down."""
        ratio = exp_below(self.epsilon)
        return int(WHOLE * ratio * self.corners / ((ratio - 1) * self.corners + 2**self.bits))

    @cached_property
    def agreement(self) -> Fraction:
        """The mean of (agreeing - disagreeing)/d, over coordinates."""
        d, inside = self.bits, Fraction(self.inside, WHOLE)
        # Summed over T+; over T- the sum is the same with the other sign, ties adding nothing.
        lean = Fraction(sum(math.comb(d, a) * (2 * a - d) for a in range(d // 2 + 1, d + 1)), d)
        outside = Fraction(1 - inside) / (2**d - self.corners)
        return Fraction(lean * (inside / self.corners - outside))

    @cached_property
    def bound(self) -> float:
        """B_d: one over the agreement."""
        return float(1 / self.agreement)

    def reach(self) -> Reach:
        """A sign is read as B or -B; one that leans as far as it can, as B times that."""
        most = self.bound * float(self.agreement)
        return Reach(-self.bound, self.bound, -most, most)

    def evidence(self, tally: Tally) -> Iterator[Evidence]:
        """Every sign: it agrees with the rounded value with (1 + agreement)/2."""
        lean = float(self.agreement)
        yield Limits("sign of number", tally.counts, tally.n, (1 - lean) / 2, (1 + lean) / 2)

    def respond(self, columns: Values, rng: Rng) -> Reports:
        """Round to signs, choose the side, then draw corners until they are on that side."""
        rows = np.stack(columns, axis=1).astype(np.float64)
        n, d = rows.shape
        signs = Grid(1).round(rows.ravel(), rng.words(n * d)).reshape(n, d).astype(np.bool_)
        wanted = drawn(rng.words(n)) < self.inside
        corners = np.empty((n, d), dtype=np.bool_)
        todo = np.arange(n)
        while len(todo):
            corners[todo] = _fair_bits(len(todo), d, rng.only(todo))
            agree = (corners[todo] == signs[todo]).sum(axis=1)
            todo = todo[(2 * agree > d) != wanted[todo]]
        return pack_bits(corners)

    def read_each(self, reports: Reports) -> Floats:
        """Return what each report is read as: a vector of B and -B, on average the one sent."""
        bits = unpack_bits(self.to_rows(reports), self.bits)
        return np.where(bits, self.bound, -self.bound)

    def estimate(
        self, tally: Tally, about: str = "participants", everybody: int | None = None
    ) -> TupleEstimate:
        """Return the d means: B_d (2 share of set bits - 1)."""
        del everybody  # every report has all of the spread in it
        n, subject = self.subject(tally, about)
        parts = tuple(self._mean(int(count), n, subject) for count in tally.counts)
        return TupleEstimate(parts, n, self.epsilon, subject)

    def _mean(self, count: int, n: int, subject: About) -> Estimate:
        """Every report reads +-B, so its variance is B^2 - mean^2, for people and population.

        With two more of each sign: reports that nearly all agree are not certainty.
        """
        mean = self.bound * (2 * count / n - 1)
        share = (count + 2) / (n + 4)
        stderr = self.bound * math.sqrt(4 * share * (1 - share) / n)
        variance = (self.bound**2, 0.0, -1.0)
        shape = QuadraticScore(mean, stderr, n, variance, -1.0, 1.0, 2 * self.bound)
        return Estimate(mean, stderr, n, self.epsilon, subject, shape=shape)

    def exact_loss(self) -> Loss:
        """A corner of one vector's T+ against the same corner in another's T-."""
        outside = 2**self.bits - self.corners
        ratio = Fraction(self.inside, WHOLE - self.inside) * Fraction(outside, self.corners)
        where = "the corner of all ones"
        return Loss(log_above(ratio), self.epsilon, ratio, (1, -1), where)

    def trials(self) -> Iterator[Trial]:
        """Every corner of a small cube; else how many signs agree, and how often each does."""
        d, inside = self.bits, Fraction(self.inside, WHOLE)
        sides = ((1 - inside) / (2**d - self.corners), inside / self.corners)
        corners = [float(sides[2 * a > d]) for a in range(d + 1)]
        numbers = np.array([float(math.comb(d, a) * sides[2 * a > d]) for a in range(d + 1)])
        rate = float(numbers @ np.arange(d + 1)) / d
        people = people_for(16 * d)
        for answer, sign in zip(self.domain.extremes(), (False, True), strict=True):
            more = {"answer": answer, "people": people}
            if d <= SMALL_CUBE:
                agreeing = np.bitwise_count(np.arange(2**d) ^ (0 if sign else 2**d - 1))
                each, read = np.array(corners)[agreeing], self._by_corner
                yield ChanceTrial(self, read=read, chances=each, what="every corner", **more)
                continue
            read = partial(self._agreeing, sign)
            yield ChanceTrial(self, read=read, chances=numbers, what="how many agree", **more)
            bits = partial(self._each_agrees, sign)
            rates = np.full(d, rate)
            yield ChanceTrial(
                self, read=bits, chances=rates, what="each sign", exclusive=False, **more
            )

    def _by_corner(self, reports: Reports) -> Ints:
        bits = unpack_bits(self.to_rows(reports), self.bits).astype(np.int64)
        return np.bincount(bits @ (1 << np.arange(self.bits)), minlength=2**self.bits)

    def _agreeing(self, sign: bool, reports: Reports) -> Ints:
        bits = unpack_bits(self.to_rows(reports), self.bits)
        return np.bincount((bits == sign).sum(axis=1), minlength=self.bits + 1)

    def _each_agrees(self, sign: bool, reports: Reports) -> Ints:
        bits = unpack_bits(self.to_rows(reports), self.bits)
        return np.asarray((bits == sign).sum(axis=0, dtype=np.int64))

    def variance(self, x: ArrayLike) -> Floats:
        """Return n Var of a coordinate's mean when everybody is at x: B_d^2 - x^2."""
        return np.asarray(self.bound**2 - checked_values(x).reshape(np.shape(x)) ** 2)

    def worst_variance(self) -> float:
        """Return B_d^2."""
        return self.bound**2

    def law(self) -> dict[str, Any]:
        """The weight of T+, out of 2^52, and the dimension."""
        return {"inside": self.inside, "bits": self.bits}


def _fair_bits(n: int, d: int, rng: Rng) -> Bits:
    """Return n rows of d fair coins."""
    words = rng.words(n * ((d + 63) // 64)).astype("<u8", copy=False)
    octets = words.view(np.uint8).reshape(n, (d + 63) // 64 * 8)
    return np.unpackbits(octets, axis=1, count=d, bitorder="little").astype(np.bool_)
