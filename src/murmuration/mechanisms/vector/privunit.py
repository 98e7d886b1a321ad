"""PrivUnit in a few bytes: a random direction out of a public few, near the vector more often."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import bdtrc, ndtr

from murmuration.errors import FormatError, ParameterError
from murmuration.exact.arrays import Bits, Floats, Ints, Reports, Rows
from murmuration.exact.exponential import exp_below, log_above
from murmuration.exact.grid import fixed_point
from murmuration.exact.loss import Loss
from murmuration.exact.randomness import WHOLE, Rng, SeededRng, Words, drawn
from murmuration.exact.table import Table
from murmuration.mechanisms.domain import Ball, Domain, checked_values
from murmuration.mechanisms.packing import RowReports, integer_rows, row_integers
from murmuration.mechanisms.tally import Tally
from murmuration.mechanisms.trial import Trial, WordTrial, boundaries
from murmuration.mechanisms.vector.base import TupleMechanism
from murmuration.mechanisms.vector.directions import (
    BLOCK,
    COORDINATES,
    FIRST,
    GAMMA,
    SCALE,
    SECOND,
    TOP,
    Directions,
    turned,
)
from murmuration.results.estimate import Estimate, TupleEstimate
from murmuration.statistics.forgery import Evidence, Limits
from murmuration.statistics.liars import Reach
from murmuration.statistics.score import CAUTION

LARGEST = 1024
CANDIDATES = ((7.0, 1024), (6.0, 512), (5.0, 256), (0.0, 128))
"""From which epsilon on there are so many, if not said: the noise is within 5% of what 16,384 would
leave, up to epsilon 8."""
MOST_CANDIDATES = 2048
ONE_BYTE = 256
"""The number of one of so many candidates is a byte; of more, two."""
SEED_BYTES = 4
WORDS_PER_PERSON = 3
"""One for the public seed, one for the sign of a short vector, one for the rank that is sent."""
BYTES_PER_PASS = 1 << 18
"""Coordinates that one pass expands: they stay in the processor's cache."""
TOO_SHORT = 1e-100
"""Shorter vectors have no direction: their squares are not exact."""
DEPARTURE, DEPARTURE_OF_MORE = 1e-3, 2e-3
"""By what share m may be off, with up to 128 candidates and with more; as a standard error it
covers twice that. Worked out for eight equal coordinates: 0.0002 up to epsilon 4 and 0.0013 at
epsilon 8 with 128 candidates, 0.0020 at epsilon 8 and 0.0031 at 20 with 1,024."""
FINE = float(1 << 30)
"""What 1 is in fixed point before the vector is turned: then turning it is exact."""


@dataclass(frozen=True)
class PrivUnit(TupleMechanism, RowReports):
    """Send one of M public random vectors: the K nearest to u are e^eps times as likely.

    For one vector u in the unit ball, sum of squares <= 1 (a gradient). A random seed that does
    not look at u is sent along. It expands to M/2 vectors of near-normal whole coordinates;
    they and their opposites are the candidates. Sent is the number of one: each of the K with
    the largest <v, u> has weight E, each other one 1. Equal products go by number, so K are near
    for every u. A vector of length r < 1 counts as u/r or -u/r with probability (1 +- r)/2.

    Privacy: given the seed, every candidate's weight is 1 or E whatever u is. It rests on no
    property of the expansion.

    Estimate: the mean of v/m, where m = E<v, u> from the order statistics of M/2 normal deviates,

        n Var = (1 + (S - 1) u_j^2) / m^2 - u_j^2    for |u| = 1, in standard deviations,

    S = E<v, u>^2. That it is unbiased rests on the expansion being as good as random and on <v, u>
    being normal. So that it is, whatever u is, the seed also turns u: random signs, then a
    Hadamard matrix for every 16 coordinates; the collector turns candidates back. Then m is off by
    0.0002 of itself on an axis up to epsilon 4, by 0.0007 at epsilon 8; standard errors include
    0.001, from epsilon 5 on 0.002.

    K is the one of least variance. At d = 90 the summed n Var is 2275, 574, 148, 41.2 and 13.3 for
    epsilon 0.5, 1, 2, 4 and 8; PrivUnit with every direction as a candidate has 2254, 567, 145,
    39.5 and 12.4. The larger epsilon is, the more candidates that takes: 128 leave 15.4 at 8.

    epsilon: the budget of one report, 0.001 to 20
    d: how many numbers a person has, each in [-1, 1]
    domains: the same as zeros, one per number; items are not taken
    candidates: M, how many public vectors there are, a power of two up to 2,048; if not given 128,
        from epsilon 5 on 256, from 6 on 512, from 7 on 1,024
    keep: K, how many of them count as near; the number of least variance if not given

    >>> from murmuration import system_rng
    >>> unit = PrivUnit(epsilon=1.0, d=90)
    >>> unit.candidates, unit.keep, unit.report_bytes, round(unit.total_variance())
    (128, 45, 5, 574)
    >>> unit.privatize(np.full((3, 90), 0.1), system_rng()).shape
    (3, 5)
    """

    name: ClassVar[str] = "privunit"
    paper: ClassVar[str] = "Bhowmick et al. 2018 (PrivUnit); Shah et al. 2022 (candidates)"
    summary: ClassVar[str] = "one of a few public random directions, near the vector's own"
    takes: ClassVar[type[Domain]] = Ball
    adds: ClassVar[tuple[int, int]] = (-BLOCK * TOP, (BLOCK * TOP) ** 2)

    candidates: int | None = None
    keep: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_numbers(LARGEST)
        size = _usual(self.epsilon) if self.candidates is None else self.candidates
        powers = [1 << bits for bits in range(1, MOST_CANDIDATES.bit_length())]
        if isinstance(size, bool) or size not in powers:
            raise ParameterError(f"candidates must be one of {powers}; got {size!r}")
        object.__setattr__(self, "candidates", int(size))
        keep = _best_keep(self.epsilon, self.size) if self.keep is None else self.keep
        if isinstance(keep, bool) or keep not in range(1, self.size // 2 + 1):
            raise ParameterError(f"keep must be 1 to {self.size // 2} candidates; got {keep!r}")
        object.__setattr__(self, "keep", int(keep))

    # --- the law ---

    @property
    def domain(self) -> Ball:
        """The unit ball."""
        return Ball(len(self.attributes))

    @cached_property
    def directions(self) -> Directions:
        """The vectors that seeds expand to: they and their opposites are the candidates."""
        return Directions(len(self.attributes), self.size // 2)

    @property
    def size(self) -> int:
        """M: how many candidates there are."""
        return self.candidates or 2

    @property
    def near(self) -> int:
        """K: how many of them are near."""
        return self.keep or 1

    @cached_property
    def ranks(self) -> Table:
        """The weight of each candidate by rank, the nearest first, out of 2^52.

        What rounding leaves over lies on those that are far: it only adds noise.
        """
        ratio, far = exp_below(self.epsilon), self.size - self.near
        high = int(ratio * int(WHOLE / (ratio * self.near + far)))
        low, over = divmod(WHOLE - self.near * high, far)
        weights = [high] * self.near + [low + 1] * over + [low] * (far - over)
        return Table(np.array([weights], dtype=np.int64))

    @cached_property
    def unit(self) -> int:
        """What 1 is in fixed point: no product reaches 2^24, so 32-bit floats add them exactly."""
        root = (
            math.isqrt(self.directions.padded - 1) + 1
        )  # the sum of all |u_j| is at most sqrt(d) |u|
        fits = [bits for bits in range(16) if TOP * root * ((1 << bits) + root) < 1 << 24]
        return 1 << fits[-1]

    @property
    def report_bytes(self) -> int:
        """The seed and the candidate's number."""
        return SEED_BYTES + (1 if self.size <= ONE_BYTE else 2)

    # --- device ---

    @property
    def people_per_pass(self) -> int:
        """What they expand stays in the processor's cache."""
        return max(1, BYTES_PER_PASS // (self.size // 2 * self.directions.padded))

    def respond(self, rows: Floats, rng: Rng) -> Reports:
        """Draw seed, in public, sign and rank; order the candidates; send the one of that rank."""
        n = len(rows)
        words = rng.words_each(n, public=1, own=WORDS_PER_PERSON - 1)
        seeds = words[:, 0] >> np.uint64(32)
        rank = self.ranks.draw(np.zeros(n, dtype=np.int64), words[:, 2])
        sent = self._order(rows, seeds, words[:, 1])[np.arange(n), rank]
        return self._rows(seeds, sent)

    def _rows(self, seeds: Words, sent: Ints) -> Rows:
        """Return reports: the seed's bytes, then those of the candidate's number, lowest first."""
        number = integer_rows(sent, self.report_bytes - SEED_BYTES)
        return np.hstack([integer_rows(seeds, SEED_BYTES), number])

    def _order(self, rows: Floats, seeds: Words, coins: Words) -> Ints:
        """Return the candidates, the nearest to u or, for a short u, maybe to -u first."""
        # One after the other, as every program does it: `sum` would add in an order of its own.
        squares = np.cumsum(np.square(rows), axis=1)[:, -1]
        lengths = np.minimum(np.sqrt(squares), 1.0)
        forward = drawn(coins) < fixed_point(lengths)
        aim = np.where(forward, 1.0, -1.0)[:, None] * self._aim(seeds, rows, lengths)
        return self._ordered(seeds, aim)

    def _aim(self, seeds: Words, rows: Floats, lengths: Floats) -> Floats:
        """Return each row's turned direction in fixed point; nowhere for a row that has none."""
        scale = np.divide(FINE, lengths, out=np.zeros(len(rows)), where=lengths > TOO_SHORT)
        fine = np.zeros((len(rows), self.directions.padded))
        fine[:, : rows.shape[1]] = np.rint(rows * scale[:, None])
        aligned = turned(fine * self.directions.signs(seeds))
        return np.rint(aligned * (self.unit / (FINE * math.sqrt(BLOCK))))

    def _ordered(self, seeds: Words, aim: Floats) -> Ints:
        """Return each seed's candidates, the nearest first; equal products go by number."""
        vectors = self.directions.expand(seeds, np.arange(self.size // 2)[None, :]).astype(
            np.float32
        )
        products = (vectors @ aim.astype(np.float32)[:, :, None])[:, :, 0].astype(np.int64)
        products *= self.size
        keys = np.hstack([-products, products]) + np.arange(self.size)
        keys.sort(axis=1)
        return np.asarray(keys & (self.size - 1))

    # --- collector ---

    @property
    def counters(self) -> int:
        """The sum of each coordinate, then the sum of its squares."""
        return 2 * len(self.attributes)

    @property
    def work(self) -> int:
        """The coordinates of one candidate."""
        return len(self.attributes)

    def possible(self, reports: Reports) -> Bits:
        """Tell which reports name a candidate."""
        return np.asarray(row_integers(reports[:, SEED_BYTES:]) < self.size)

    def complaint(self, reports: Reports, bad: int) -> str:
        """Name the candidate that does not exist."""
        (number,) = row_integers(reports[bad : bad + 1, SEED_BYTES:])
        return f"report {bad} names candidate {number} of {self.size}"

    def count(self, reports: Reports) -> Ints:
        """Add up the coordinates of the candidates that were sent, and their squares."""
        rows = self.to_rows(reports)
        counts = np.zeros(self.counters, dtype=np.int64)
        step = max(1, BYTES_PER_PASS // self.directions.padded)
        for start in range(0, len(rows), step):
            vectors = self.vectors(rows[start : start + step])
            counts[: self.d] += vectors.sum(axis=0, dtype=np.int64)
            counts[self.d :] += np.square(vectors).sum(axis=0, dtype=np.int64)
        return counts

    def vectors(self, rows: Rows) -> NDArray[np.int32]:
        """Return the candidates that were sent; the second half are opposites of the first."""
        seeds = row_integers(rows[:, :SEED_BYTES]).astype(np.uint64)
        number, half = row_integers(rows[:, SEED_BYTES:]).astype(np.int64), self.size // 2
        directions = self.directions.expand(seeds, (number % half)[:, None])[:, 0].astype(
            np.float64
        )
        back = (
            turned(directions)
            * self.directions.signs(seeds)
            * np.where(number < half, 1, -1)[:, None]
        )
        return back[:, : self.d].astype(np.int32)

    def checked_counts(self, counts: Ints, n: int) -> Ints:
        """No coordinate is beyond 16 * 127, and a sum is at most what its squares allow."""
        sums, squares = counts[: self.d].tolist(), counts[self.d :].tolist()
        most = max(map(abs, sums))
        fits = all(s * s <= n * q for s, q in zip(sums, squares, strict=True))
        if most > BLOCK * TOP * n or min(squares) < 0 or not fits:
            raise FormatError(f"{n} people cannot have sent vectors with these sums")
        return counts

    # --- analyst, auditor, planner ---

    @cached_property
    def pull(self) -> float:
        """m: E<v, u> for |u| = 1. By rank, from the far end, products are the opposites."""
        shares, firsts = self.ranks.probabilities[0], _order_moments(self.size // 2)[0]
        return SCALE * float((shares - shares[::-1])[: len(firsts)] @ firsts)

    @cached_property
    def pull_squared(self) -> float:
        """S: E<v, u>^2 for |u| = 1."""
        shares, seconds = self.ranks.probabilities[0], _order_moments(self.size // 2)[1]
        return SCALE**2 * float((shares + shares[::-1])[: len(seconds)] @ seconds)

    @property
    def departure(self) -> float:
        """By what share m may be off."""
        return DEPARTURE if self.size <= CANDIDATES[-1][1] else DEPARTURE_OF_MORE

    def estimate(
        self, tally: Tally, about: str = "participants", everybody: int | None = None
    ) -> TupleEstimate:
        """Return the d means, mean coordinates over m, with errors from their squares."""
        del everybody  # the people's own spread is in every error already
        n, subject = self.subject(tally, about)
        means, seconds = tally.counts.reshape(2, -1) / (n * np.array([[self.pull], [self.pull**2]]))
        # Coordinates are nearly normal: what the squares show is known to sqrt(2/n) of itself.
        spreads = np.maximum(seconds - means**2, 0.0) * (1 + CAUTION * math.sqrt(2 / n))
        spreads = np.minimum(spreads, self.worst_variance())
        if n == 1:
            spreads[:] = self.worst_variance()
        # The people's own spread is in there as well: a bound for participants. What m may be off
        # by matters from about a million people on.
        doubt = self.departure * min(1.0, float(np.linalg.norm(means)))
        errors = np.sqrt(spreads / n + doubt**2)
        parts = tuple(
            Estimate(mean, error, n, self.epsilon, subject)
            for mean, error in zip(means.tolist(), errors.tolist(), strict=True)
        )
        return TupleEstimate(parts, n, self.epsilon, subject)

    def reach(self) -> Reach:
        """No coordinate of a candidate, turned back, is beyond 16 * 127."""
        most = BLOCK * TOP / self.pull
        return Reach(-most, most)

    @property
    def longest(self) -> float:
        """How long a vector a report is read as, at most: turning makes it 4 times as long."""
        return math.sqrt(BLOCK * self.directions.padded) * TOP / self.pull

    def longest_lie(self, each: Floats) -> float:
        """The longest candidate, whatever its seed, against an honest vector of length 1."""
        del each
        return self.longest + 1

    def evidence(self, tally: Tally) -> Iterator[Evidence]:
        """The squares of the coordinates: the law pulls along one direction only.

        On average a square is from SCALE^2 to S, and of no candidate above (16 * 127)^2. All of
        them together are (d-1) SCALE^2 + S for a whole vector, by the same normal law as the
        estimate; twice `departure` is left for that.
        """
        d, top = len(self.attributes), float((BLOCK * TOP) ** 2)
        low, high = sorted((SCALE**2, self.pull_squared))
        squares, spare = tally.counts[d:].astype(np.float64), 2 * self.departure
        ends = np.array([low * (1 - spare), high * (1 + spare)])
        yield Limits("square of number", squares / top, tally.n, *(ends / top))
        longest = min(d * top, self.directions.padded * BLOCK * TOP**2)
        total, whole = squares.sum(keepdims=True), (d - 1) * SCALE**2 + ends
        yield Limits("squared length", total / longest, tally.n, *(whole / longest))

    def exact_loss(self) -> Loss:
        """A candidate that is near for one vector and far for its opposite; the seed is public."""
        weights = self.ranks.weights
        ratio = Fraction(int(weights.max()), int(weights.min()))
        where = "a candidate near the one vector and far from the other"
        return Loss(log_above(ratio), self.epsilon, ratio, (1, -1), where)

    def trials(self) -> Iterator[Trial]:
        """The words where the rank changes, for some vectors: the candidate of that rank is sent.

        The candidates are in some order whatever the vector is, each of them once; the weight of a
        candidate is that of its rank.
        """
        ranks, expected = boundaries(self.ranks.weights[0], WHOLE)
        public = SeededRng(0).words(2 * len(ranks)).reshape(-1, 2)
        values = self.domain.crowd(len(ranks), np.random.default_rng(0))
        values[: len(ranks) // 2] /= np.linalg.norm(values[: len(ranks) // 2], axis=1)[:, None]
        values[: len(ranks) // 2] *= 1 - 1e-9
        seeds, words = public[:, 0] >> np.uint64(32), np.column_stack([public, ranks])
        order = self._order(values, seeds, public[:, 1])
        each_once = (np.sort(order, axis=1) == np.arange(self.size)).all(axis=1)
        nearest = np.take_along_axis(order, expected[:, None], axis=1)[:, 0]
        sent = np.where(each_once, nearest, -1)  # -1 is never sent: no order, nothing is right
        report = self._rows(seeds, np.maximum(sent, 0)).astype(np.int64)
        report[sent < 0] = -1
        yield WordTrial(self, values, words.ravel(), report)

    def total_noise(self) -> float:
        """That of short vectors."""
        return self.total_variance()

    def variance(self, x: ArrayLike) -> Floats:
        """Return n Var of a coordinate's mean when everybody is at x there and 1 long."""
        squares = checked_values(x).reshape(np.shape(x)) ** 2
        along = squares if self.d != 1 else np.ones_like(squares)  # alone, it has all the length
        second = SCALE**2 * (1 - along) + self.pull_squared * along
        return np.asarray(second / self.pull**2 - squares)

    def worst_variance(self) -> float:
        """Return S/m^2, that of a short vector along the axis."""
        return self.pull_squared / self.pull**2

    def total_variance(self) -> float:
        """Return n times the mean squared length of the error for short vectors."""
        rest = (len(self.attributes) - 1) * SCALE**2
        return (rest + self.pull_squared) / self.pull**2

    def public_part(self, report: Reports) -> list[int]:
        """The seed."""
        return [int(number) for number in np.ravel(report[:, :SEED_BYTES])]

    def law(self) -> dict[str, Any]:
        """The weights by rank, what bytes are, the fixed points, SplitMix64's numbers as text."""
        return {
            "weights": self.ranks.weights[0].tolist(),
            "coordinates": COORDINATES.tolist(),
            "unit": self.unit,
            "fine": int(FINE),
            "block": BLOCK,
            "splitmix64": [str(number) for number in (GAMMA, FIRST, SECOND)],
        }


# --- order statistics --------------------------------------------------------------------------


def _usual(epsilon: float) -> int:
    """Return how many candidates there are where nobody says."""
    return next(count for least, count in CANDIDATES if epsilon >= least)


def _best_keep(epsilon: float, size: int) -> int:
    """Return the K of largest m = (E-1) (sum of the K largest) / (KE + M-K)."""
    top, keep = math.exp(epsilon), np.arange(1, size // 2 + 1)
    pull = np.cumsum(_order_moments(size // 2)[0]) / (keep * top + size - keep)
    return int(keep[pull.argmax()])


@lru_cache(maxsize=16)
def _order_moments(count: int) -> tuple[Floats, Floats]:
    """Return means and mean squares of `count` absolute normal deviates by rank, largest first.

    E X_r = integral of Pr[more than r of them exceed x].

    >>> [round(float(found[0]), 4) for found in _order_moments(1)]
    [0.7979, 1.0]
    """
    nodes, weights = np.polynomial.legendre.leggauss(64)
    ends = np.linspace(0.0, 9.0, 17)  # beyond 9 standard deviations there is nothing
    half = (ends[1] - ends[0]) / 2
    x = (ends[:-1, None] + half * (nodes + 1)).ravel()
    step = np.tile(half * weights, len(ends) - 1)
    exceeding = bdtrc(np.arange(count)[:, None], count, 2 * ndtr(-x))
    return exceeding @ step, exceeding @ (2 * x * step)
