"""PrivUnit in five bytes: a random direction out of a public few, near the vector more often."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import bdtrc, ndtr

from murmuration.errors import EmptyError, FormatError, InputError, ParameterError
from murmuration.exact.arrays import Bits, Floats, Ints, Reports, Rows, frozen
from murmuration.exact.exponential import exp_below, log_above
from murmuration.exact.grid import fixed_point
from murmuration.exact.loss import Loss
from murmuration.exact.randomness import WHOLE, Rng, Words, drawn, require_rng
from murmuration.exact.table import Table
from murmuration.mechanisms.number.base import ENOUGH, checked_values
from murmuration.mechanisms.packing import RowReports
from murmuration.mechanisms.tally import Tally, require_same
from murmuration.mechanisms.vector.base import TupleMechanism
from murmuration.results.estimate import About, Estimate, TupleEstimate

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
"""By what share m may be off; as a standard error it covers twice that. With 128 candidates:
0.0003 up to epsilon 4 and 0.0011 at epsilon 8, worked out for four equal coordinates."""
FINE = float(1 << 30)
"""What 1 is in fixed point before the vector is turned: then turning it is exact."""

BLOCK = 16
"""Coordinates that are turned together."""
HADAMARD = frozen(1.0 - 2.0 * (np.bitwise_count(np.arange(BLOCK)[:, None] & np.arange(BLOCK)) % 2))
"""Times itself it is BLOCK times the identity."""

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
SCALE = math.sqrt(BLOCK * float(np.square(COORDINATES.astype(np.float64)).mean()))
"""The standard deviation of a coordinate of a candidate, turned back."""
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

        n Var = (1 + (S - 1) u_j^2) / m^2 - u_j^2    for |u| = 1, in standard deviations,

    S = E<v, u>^2. That it is unbiased rests on the expansion being as good as random and on <v, u>
    being normal. So that it is, whatever u is, the seed also turns u: random signs, then a
    Hadamard matrix for every 16 coordinates; the collector turns candidates back. Then m is off by
    0.0002 of itself on an axis up to epsilon 4, by 0.0005 at epsilon 8; standard errors include
    0.001.

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
    adds: ClassVar[tuple[int, int]] = (-BLOCK * TOP, (BLOCK * TOP) ** 2)

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
        keep = _best_keep(self.epsilon, self.size) if self.keep is None else self.keep
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
        root = math.isqrt(self._padded - 1) + 1  # the sum of all |u_j| is at most sqrt(d) |u|
        fits = [bits for bits in range(16) if TOP * root * ((1 << bits) + root) < 1 << 24]
        return 1 << fits[-1]

    @property
    def report_bytes(self) -> int:
        """The seed and the candidate's number."""
        return SEED_BYTES + 1

    @property
    def _padded(self) -> int:
        """The dimension, rounded up to whole blocks."""
        return -(-len(self.attributes) // BLOCK) * BLOCK

    def _stream(self, seeds: Words, bases: Ints) -> bytes:
        """Return the bytes of some of each seed's vectors.

        SplitMix64 from the state 2^32 seed: no two seeds share a state.
        """
        words = self._padded // 8
        count = bases[:, :, None] * words + np.arange(1, words + 1)
        state = count.astype(np.uint64) * np.uint64(_GAMMA)
        stream = _mixed(state + (seeds << np.uint64(32))[:, None, None])
        return stream.astype("<u8", copy=False).tobytes()

    def expand(self, seeds: Words, bases: Ints) -> NDArray[np.int8]:
        """Return some of each seed's M/2 vectors, in the coordinates of the turned u."""
        octets = self._stream(seeds, bases).translate(_TRANSLATION)
        return np.frombuffer(octets, np.int8).reshape(len(seeds), bases.shape[1], self._padded)

    def signs(self, seeds: Words) -> Floats:
        """Return each seed's random signs: the first bits of one more vector."""
        octets = np.frombuffer(self._stream(seeds, np.array([[self.size // 2]])), np.uint8)
        return np.where(octets >> 7, 1.0, -1.0).reshape(len(seeds), self._padded)

    # --- device ---

    def privatize(self, values: ArrayLike, rng: Rng) -> Reports:
        """Turn rows of d numbers, each row at most 1 long, into reports."""
        rng, rows = require_rng(rng), np.stack(self.columns(values), axis=1).astype(np.float64)
        lengths = checked_lengths(rows)
        self.require_promise(rng)
        step = max(1, BYTES_PER_PASS // (self.size // 2 * self._padded))
        parts = [
            self._respond(rows[i : i + step], lengths[i : i + step], rng)
            for i in range(0, len(rows), step)
        ]
        return np.concatenate(parts or [np.zeros((0, self.report_bytes), dtype=np.uint8)])

    def _respond(self, rows: Floats, lengths: Floats, rng: Rng) -> Rows:
        """Draw seed, sign and rank; order the candidates; send the one of that rank."""
        n = len(rows)
        words = rng.words(WORDS_PER_PERSON * n).reshape(n, WORDS_PER_PERSON)
        seeds = words[:, 0] >> np.uint64(32)
        forward = drawn(words[:, 1]) < fixed_point(lengths)
        rank = self.ranks.draw(np.zeros(n, dtype=np.int64), words[:, 2])
        aim = np.where(forward, 1.0, -1.0)[:, None] * self._aim(seeds, rows, lengths)
        sent = self._ordered(seeds, aim)[np.arange(n), rank]
        octets = seeds.astype("<u4")[:, None].view(np.uint8)
        return np.hstack([octets, sent.astype(np.uint8)[:, None]])

    def _aim(self, seeds: Words, rows: Floats, lengths: Floats) -> Floats:
        """Return each row's turned direction in fixed point; nowhere for a row that has none."""
        scale = np.divide(FINE, lengths, out=np.zeros(len(rows)), where=lengths > TOO_SHORT)
        fine = np.zeros((len(rows), self._padded))
        fine[:, : rows.shape[1]] = np.rint(rows * scale[:, None])
        turned = _turned(fine * self.signs(seeds))
        return np.rint(turned * (self.unit / (FINE * math.sqrt(BLOCK))))

    def _ordered(self, seeds: Words, aim: Floats) -> Ints:
        """Return each seed's candidates, the nearest first; equal products go by number."""
        vectors = self.expand(seeds, np.arange(self.size // 2)[None, :]).astype(np.float32)
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

    def _possible(self, rows: Rows) -> Bits:
        return np.asarray(rows[:, SEED_BYTES] < self.size)

    def complaint(self, rows: Rows, bad: int) -> str:
        """Name the candidate that there is not."""
        return f"report {bad} names candidate {rows[bad, SEED_BYTES]} of {self.size}"

    def tally(self, reports: ArrayLike) -> Tally:
        """Add up the coordinates of the candidates that were sent, and their squares."""
        rows = self.checked_reports(reports)
        counts = np.zeros(self.counters, dtype=np.int64)
        step = max(1, BYTES_PER_PASS // self._padded)
        for start in range(0, len(rows), step):
            vectors = self.vectors(rows[start : start + step])
            counts[: self.d] += vectors.sum(axis=0, dtype=np.int64)
            counts[self.d :] += np.square(vectors).sum(axis=0, dtype=np.int64)
        return Tally(self, counts, len(rows))

    def vectors(self, rows: Rows) -> NDArray[np.int32]:
        """Return the candidates that were sent; the second half are opposites of the first."""
        seeds = np.ascontiguousarray(rows[:, :SEED_BYTES]).view("<u4")[:, 0].astype(np.uint64)
        number, half = rows[:, SEED_BYTES].astype(np.int64), self.size // 2
        found = self.expand(seeds, (number % half)[:, None])[:, 0].astype(np.float64)
        back = _turned(found) * self.signs(seeds) * np.where(number < half, 1, -1)[:, None]
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

    def estimate(self, tally: Tally, about: str = "participants") -> TupleEstimate:
        """Return the d means, mean coordinates over m, with errors from their squares."""
        subject = About.parse(about)
        n = require_same(self, tally).n
        if n == 0:
            raise EmptyError("no reports yet: nothing to estimate")
        means, seconds = tally.counts.reshape(2, -1) / (n * np.array([[self.pull], [self.pull**2]]))
        spreads = np.maximum(seconds - means**2, 0.0) * n / max(1, n - 1)
        if n < ENOUGH:
            spreads[:] = self.worst_variance()
        # The people's own spread is in there as well: a bound for participants. What m may be off
        # by matters from about a million people on.
        doubt = DEPARTURE * min(1.0, float(np.linalg.norm(means)))
        errors = np.sqrt(spreads / n + doubt**2)
        parts = tuple(
            Estimate(mean, error, n, self.epsilon, subject)
            for mean, error in zip(means.tolist(), errors.tolist(), strict=True)
        )
        return TupleEstimate(parts, n, self.epsilon, subject)

    def loss(self) -> Loss:
        """A candidate that is near for one vector and far for its opposite; the seed is public."""
        weights = self.ranks.weights
        ratio = Fraction(int(weights.max()), int(weights.min()))
        where = "a candidate near the one vector and far from the other"
        return Loss(log_above(ratio), self.epsilon, ratio, (1, -1), where)

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

    def law_bytes(self) -> bytes:
        """The weights, the coordinates, the fixed point, the names of expansion and turn."""
        weights = " ".join(map(str, self.ranks.weights[0].tolist()))
        return f"splitmix64 hadamard{BLOCK} {self.unit} {weights} ".encode() + _TRANSLATION

    def law(self) -> dict[str, Any]:
        """The weights by rank, what bytes are, the fixed points, SplitMix64's numbers as text."""
        return {
            "weights": self.ranks.weights[0].tolist(),
            "coordinates": COORDINATES.tolist(),
            "unit": self.unit,
            "fine": int(FINE),
            "block": BLOCK,
            "splitmix64": [str(number) for number in (_GAMMA, _FIRST, _SECOND)],
        }


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


def _turned(rows: Floats) -> Floats:
    """Return the rows with every block times the Hadamard matrix: sums of whole numbers, exact."""
    blocks = rows.reshape(-1, BLOCK) @ HADAMARD
    return np.asarray(blocks.reshape(rows.shape))


# --- order statistics --------------------------------------------------------------------------


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
