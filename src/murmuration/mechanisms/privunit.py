"""PrivUnit in five bytes: a random direction out of a public few, near the vector more often."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import bdtrc, ndtr

from murmuration.contract import Reports, Tally, require_same
from murmuration.errors import EmptyError, FormatError, InputError, ParameterError, ReportError
from murmuration.estimate import About, Estimate, TupleEstimate
from murmuration.law import (
    WHOLE,
    Floats,
    Ints,
    Table,
    drawn,
    exp_below,
    fixed_point,
    frozen,
    log_above,
)
from murmuration.loss import Loss
from murmuration.numeric import ENOUGH, checked_values
from murmuration.packed import RowReports, checked_rows
from murmuration.randomness import Rng, Words, require_rng
from murmuration.tuples import TupleMechanism

LARGEST = 1024
CANDIDATES = 128
MOST_CANDIDATES = 256
SEED_BYTES = 4
WORDS_PER_PERSON = 3
"""One for the public seed, one for the sign of a short vector, one for the rank that is sent."""
BYTES_PER_PASS = 1 << 18
"""Coordinates that one pass expands: they stay in the processor's cache."""
TOO_LONG = 1 + 1e-6
"""Longer vectors are refused; less than that is rounding, as in 32-bit gradients."""
TOO_SHORT = 1e-100
"""Shorter vectors have no direction: their squares are not exact."""
DEPARTURE = 1e-3
"""m was never found further off than this share, up to epsilon 4 (beyond, see `bias`)."""

_UPPER_HALF = bytes.fromhex(
    "000101010202030304040405050606070707080809090a0a0a0b0b0c0c0d0d0d"
    "0e0e0f0f1010111111121213131414151516161717181819191a1a1b1b1c1c1d"
    "1d1e1e1f1f20202121222323242425262627282829292a2b2c2c2d2e2e2f3031"
    "3232333435363738393a3b3c3d3e404142444547494a4c4f5154575a5e646c7f"
)
COORDINATES = frozen(
    np.concatenate(
        [-np.frombuffer(_UPPER_HALF, np.int8)[::-1], np.frombuffer(_UPPER_HALF, np.int8)]
    )
)
"""What a byte is as a coordinate: the mean of the normal law in each of 256 equally likely cells,
the last one 127. Written out, because it is part of the law."""
TOP = int(COORDINATES[-1])
SCALE = math.sqrt(float(np.square(COORDINATES.astype(np.float64)).mean()))
"""The standard deviation of a coordinate."""
_TRANSLATION = COORDINATES.tobytes()

_GAMMA, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


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

        n Var = (1 + (S - 1) u_j^2) / m^2 - u_j^2    for |u| = 1, m in standard deviations,

    S = E<v, u>^2. That it is unbiased rests on the expansion being as good as random and on <v, u>
    being normal. Up to epsilon 4, m was off by less than 0.1% for axes, diagonals and random
    directions; at epsilon 8 by up to 0.8% (for an axis it is worked out, `bias`). And u/r is
    rounded to steps of 1/`unit`. Standard errors include both (`doubt`), which tells from about
    a million people on. For d = 1 there is neither.

    K is the one of least variance. At d = 90 the summed n Var is 2275, 574, 148 and 41.2 for
    epsilon 0.5, 1, 2 and 4; PrivUnit with every direction as a candidate has 2254, 567, 145, 39.5.

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
    adds: ClassVar[tuple[int, int]] = (-TOP, TOP**2)

    candidates: int | None = None
    keep: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if any(self.attributes):
            raise ParameterError(f"{self.name} takes numbers only: give d, the number of them")
        if len(self.attributes) > LARGEST:
            raise ParameterError(f"{self.name} takes at most {LARGEST} numbers")
        size = CANDIDATES if self.candidates is None else self.candidates
        powers = [1 << bits for bits in range(1, MOST_CANDIDATES.bit_length())]
        if isinstance(size, bool) or size not in powers:
            raise ParameterError(f"candidates must be one of {powers}; got {size!r}")
        object.__setattr__(self, "candidates", int(size))
        keep = (
            _best_keep(self.epsilon, self.size, self._moments) if self.keep is None else self.keep
        )
        if isinstance(keep, bool) or keep not in range(1, self.size // 2 + 1):
            raise ParameterError(f"keep must be 1 to {self.size // 2} candidates; got {keep!r}")
        object.__setattr__(self, "keep", int(keep))

    # --- the law ---

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
        root = math.isqrt(len(self.attributes) - 1) + 1  # the sum of |u_j| is at most sqrt(d)
        fits = [bits for bits in range(16) if TOP * root * ((1 << bits) + root) < 1 << 24]
        return 1 << fits[-1]

    @property
    def report_bytes(self) -> int:
        """The seed and the candidate's number."""
        return SEED_BYTES + 1

    @property
    def _words(self) -> int:
        """How many words a candidate's coordinates take, one byte each."""
        return (len(self.attributes) + 7) // 8

    def expand(self, seeds: Words, bases: Ints) -> NDArray[np.int8]:
        """Return the coordinates of some of each seed's M/2 vectors, padded to whole words.

        SplitMix64 from the state 2^32 seed: no two seeds share a state.
        """
        count = bases[:, :, None] * self._words + np.arange(1, self._words + 1)
        state = count.astype(np.uint64) * np.uint64(_GAMMA)
        stream = _mixed(state + (seeds << np.uint64(32))[:, None, None])
        octets = stream.astype("<u8", copy=False).tobytes().translate(_TRANSLATION)
        return np.frombuffer(octets, np.int8).reshape(len(seeds), bases.shape[1], -1)

    # --- device ---

    def privatize(self, values: ArrayLike, rng: Rng) -> Reports:
        """Turn rows of d numbers, each row at most 1 long, into reports."""
        rng, rows = require_rng(rng), np.stack(self.columns(values), axis=1).astype(np.float64)
        lengths = checked_lengths(rows)
        self.require_promise(rng)
        step = max(1, BYTES_PER_PASS // (4 * self.size * self._words))
        parts = [
            self._respond(rows[i : i + step], lengths[i : i + step], rng)
            for i in range(0, len(rows), step)
        ]
        return np.concatenate(parts or [np.zeros((0, self.report_bytes), dtype=np.uint8)])

    def _respond(self, rows: Floats, lengths: Floats, rng: Rng) -> NDArray[np.uint8]:
        """Draw seed, sign and rank; order the candidates; send the one of that rank."""
        n = len(rows)
        words = rng.words(WORDS_PER_PERSON * n).reshape(n, WORDS_PER_PERSON)
        seeds = words[:, 0] >> np.uint64(32)
        forward = drawn(words[:, 1]) < fixed_point(lengths)
        rank = self.ranks.draw(np.zeros(n, dtype=np.int64), words[:, 2])
        aim = np.where(forward, 1.0, -1.0)[:, None] * self._aim(rows, lengths)
        sent = self._ordered(seeds, aim)[np.arange(n), rank]
        octets = seeds.astype("<u4")[:, None].view(np.uint8)
        return np.hstack([octets, sent.astype(np.uint8)[:, None]])

    def _aim(self, rows: Floats, lengths: Floats) -> Floats:
        """Return each row's direction in fixed point; nowhere for a row that has none."""
        scale = np.divide(self.unit, lengths, out=np.zeros(len(rows)), where=lengths > TOO_SHORT)
        return np.rint(rows * scale[:, None])

    def _ordered(self, seeds: Words, aim: Floats) -> Ints:
        """Return each seed's candidates, the nearest first; equal products go by number."""
        half = self.size // 2
        vectors = self.expand(seeds, np.arange(half)[None, :])
        aims = np.zeros((len(aim), vectors.shape[2]), dtype=np.float32)
        aims[:, : aim.shape[1]] = aim
        products = (vectors.astype(np.float32) @ aims[:, :, None])[:, :, 0].astype(np.int64)
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

    def checked_reports(self, reports: ArrayLike) -> NDArray[np.uint8]:
        """Return rows of bytes, or say which row names a candidate that there is not."""
        rows = checked_rows(reports, self.report_bytes, self.name)
        if len(bad := np.flatnonzero(rows[:, SEED_BYTES] >= self.size)):
            raise ReportError(
                f"report {int(bad[0])} names candidate {rows[bad[0], SEED_BYTES]} of {self.size}"
            )
        return rows

    def tally(self, reports: ArrayLike) -> Tally:
        """Add up the coordinates of the candidates that were sent, and their squares."""
        rows = self.checked_reports(reports)
        counts = np.zeros(self.counters, dtype=np.int64)
        step = max(1, BYTES_PER_PASS // (8 * self._words))
        for start in range(0, len(rows), step):
            vectors = self.vectors(rows[start : start + step])
            counts[: self.d] += vectors.sum(axis=0, dtype=np.int64)
            counts[self.d :] += np.square(vectors).sum(axis=0, dtype=np.int64)
        return Tally(self, counts, len(rows))

    def vectors(self, rows: NDArray[np.uint8]) -> NDArray[np.int16]:
        """Return the candidates that were sent; the second half are opposites of the first."""
        seeds = np.ascontiguousarray(rows[:, :SEED_BYTES]).view("<u4")[:, 0].astype(np.uint64)
        number, half = rows[:, SEED_BYTES].astype(np.int64), self.size // 2
        found = self.expand(seeds, (number % half)[:, None])[:, 0, : self.d]
        return np.where(number < half, 1, -1).astype(np.int16)[:, None] * found

    def checked_counts(self, counts: Ints, n: int) -> Ints:
        """No coordinate is beyond 127, and a sum is at most what its squares allow."""
        sums, squares = counts[: self.d].tolist(), counts[self.d :].tolist()
        most = max(map(abs, sums))
        fits = all(s * s <= n * q for s, q in zip(sums, squares, strict=True))
        if most > TOP * n or min(squares) < 0 or not fits:
            raise FormatError(f"{n} people cannot have sent vectors with these sums")
        return counts

    # --- analyst, auditor, planner ---

    @property
    def _moments(self) -> tuple[Floats, Floats]:
        return _alone(self.size // 2) if self.d == 1 else _normal(self.size // 2)

    def _mean_product(self, firsts: Floats) -> float:
        """E<v, u> when <v, u> has these means by rank; from the far end they are the opposites."""
        shares = self.ranks.probabilities[0]
        return float((shares - shares[::-1])[: len(firsts)] @ firsts)

    @cached_property
    def pull(self) -> float:
        """m: E<v, u> for |u| = 1."""
        return self._mean_product(self._moments[0])

    @cached_property
    def pull_squared(self) -> float:
        """S: E<v, u>^2 for |u| = 1."""
        shares, seconds = self.ranks.probabilities[0], self._moments[1]
        return float((shares + shares[::-1])[: len(seconds)] @ seconds)

    @cached_property
    def bias(self) -> float:
        """By what share the estimate is too long when everybody is at the end of an axis.

        There <v, u> is one coordinate, with its 256 steps: of all directions the least normal.
        """
        return self._mean_product(_alone(self.size // 2)[0]) / self.pull - 1

    def estimate(self, tally: Tally, about: str = "participants") -> TupleEstimate:
        """Return the d means: the mean coordinate over m."""
        subject = About.parse(about)
        n = require_same(self, tally).n
        if n == 0:
            raise EmptyError("no reports yet: nothing to estimate")
        pairs = tally.counts.reshape(2, -1).T.tolist()
        parts = tuple(self._mean(total, squares, n, subject) for total, squares in pairs)
        return TupleEstimate(parts, n, self.epsilon, subject)

    def _mean(self, total: int, squares: int, n: int, subject: About) -> Estimate:
        """The spread of the reports is noise plus the people's own spread: a bound for both.

        What m and the fixed point may be off by is added: it matters from millions of people on.
        """
        mean = total / (n * self.pull)
        spread = (squares / (n * self.pull**2) - mean**2) * n / max(1, n - 1)
        if n < ENOUGH:
            spread = self.worst_variance()
        stderr = math.hypot(math.sqrt(spread / n), self.doubt(mean))
        return Estimate(mean, stderr, n, self.epsilon, subject)

    def doubt(self, mean: float) -> float:
        """How far from unbiased a mean may be: nothing when there is one attribute alone."""
        if self.d == 1:
            return 0.0
        return max(DEPARTURE, abs(self.bias)) * abs(mean) + 0.5 / self.unit

    def loss(self) -> Loss:
        """A candidate that is near for one vector and far for its opposite; the seed is public."""
        weights = self.ranks.weights
        ratio = Fraction(int(weights.max()), int(weights.min()))
        where = "a candidate near the one vector and far from the other"
        return Loss(log_above(ratio), self.epsilon, ratio, (1, -1), where)

    def variance(self, x: ArrayLike) -> Floats:
        """Return n Var of a coordinate's mean when everybody is at x there and 1 long."""
        squares = checked_values(x).reshape(np.shape(x)) ** 2
        along = squares if self.d != 1 else np.ones_like(squares)
        second = SCALE**2 * (1 - along) + self.pull_squared * along
        return np.asarray(second / self.pull**2 - squares)

    def worst_variance(self) -> float:
        """Return S/m^2, that of a short vector along the axis."""
        return self.pull_squared / self.pull**2

    def total_variance(self) -> float:
        """Return n times the mean squared length of the error for short vectors."""
        rest = (len(self.attributes) - 1) * SCALE**2
        return (rest + self.pull_squared) / self.pull**2

    def law_bytes(self) -> bytes:
        """The weights, the coordinates, the fixed point and the name of the expansion."""
        weights = " ".join(map(str, self.ranks.weights[0].tolist()))
        return f"splitmix64 {self.unit} {weights} ".encode() + _TRANSLATION


def checked_lengths(rows: Floats) -> Floats:
    """Return the length of each row, at most 1, or say that it is more, without repeating it."""
    lengths = np.sqrt(np.square(rows).sum(axis=1))
    if len(bad := np.flatnonzero(lengths > TOO_LONG)):
        raise InputError(
            f"a row's squares must add up to at most 1; {len(bad)} of {len(rows)} do not (first at "
            f"position {int(bad[0])}). Scale or clip gradients first; nothing was sent."
        )
    return np.asarray(np.minimum(lengths, 1.0))


def _mixed(state: Words) -> Words:
    """Return SplitMix64's output for each state.

    >>> hex(int(_mixed(np.array([0x9E3779B97F4A7C15], dtype=np.uint64))[0]))
    '0xe220a8397b1dcdaf'
    """
    state ^= state >> np.uint64(30)
    state *= np.uint64(_FIRST)
    state ^= state >> np.uint64(27)
    state *= np.uint64(_SECOND)
    state ^= state >> np.uint64(31)
    return state


# --- order statistics --------------------------------------------------------------------------


def _best_keep(epsilon: float, size: int, moments: tuple[Floats, Floats]) -> int:
    """Return the K of largest m = (E-1) (sum of the K largest) / (KE + M-K)."""
    top, keep = math.exp(epsilon), np.arange(1, size // 2 + 1)
    pull = np.cumsum(moments[0]) / (keep * top + size - keep)
    return int(keep[pull.argmax()])


@lru_cache(maxsize=16)
def _normal(count: int) -> tuple[Floats, Floats]:
    """Return means and mean squares of `count` absolute normal deviates by rank, largest first.

    E X_r = integral of Pr[more than r of them exceed x], in coordinates.

    >>> [round(float(found[0]) / scale, 4) for found, scale in zip(_normal(1), (SCALE, SCALE**2))]
    [0.7979, 1.0]
    """
    nodes, weights = np.polynomial.legendre.leggauss(64)
    ends = np.linspace(0.0, 9.0, 17)  # beyond 9 standard deviations there is nothing
    half = (ends[1] - ends[0]) / 2
    x = (ends[:-1, None] + half * (nodes + 1)).ravel()
    step = np.tile(half * weights, len(ends) - 1)
    exceeding = bdtrc(np.arange(count)[:, None], count, 2 * ndtr(-x))
    return SCALE * (exceeding @ step), SCALE**2 * (exceeding @ (2 * x * step))


@lru_cache(maxsize=16)
def _alone(count: int) -> tuple[Floats, Floats]:
    """Return the same for `count` absolute coordinates: the sum over their steps is exact.

    >>> bool(np.isclose(_alone(1)[1][0], SCALE**2))
    True
    """
    values, cells = np.unique(np.abs(COORDINATES).astype(np.float64), return_counts=True)
    chance = cells[::-1].cumsum()[::-1][1:] / cells.sum()
    exceeding = bdtrc(np.arange(count)[:, None], count, chance)
    return exceeding @ np.diff(values), exceeding @ np.diff(values**2)
