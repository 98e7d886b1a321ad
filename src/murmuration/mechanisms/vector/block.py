"""Dithered block response (DBHR): a block of coordinates against thresholds, answered together."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from murmuration.errors import EmptyError, FormatError, ParameterError
from murmuration.exact.arrays import Bits, Floats, Ints, Reports
from murmuration.exact.exponential import exp_below, log_above
from murmuration.exact.grid import Grid
from murmuration.exact.loss import Loss
from murmuration.exact.randomness import WHOLE, Rng, drawn, uniform
from murmuration.mechanisms.domain import Values, checked_values
from murmuration.mechanisms.packing import RowReports, integer_rows, row_integers
from murmuration.mechanisms.tally import Tally
from murmuration.mechanisms.trial import ChanceTrial, Trial, people_for
from murmuration.mechanisms.vector.base import TupleMechanism
from murmuration.results.estimate import About, Estimate, TupleEstimate
from murmuration.statistics.forgery import Evidence, Limits
from murmuration.statistics.liars import Reach
from murmuration.statistics.score import CAUTION, QuadraticScore

LARGEST_BLOCK = 12
THRESHOLDS = 64
PEOPLE_PER_PASS = 1 << 15


@dataclass(frozen=True)
class Block(TupleMechanism, RowReports):
    """Compare a random block of coordinates with random thresholds; answer all signs at once.

    Answers that agree with at least `agreements` of the signs are e^eps times as likely as
    others. Block and thresholds do not depend on the values. Read per coordinate as
    sqrt(h) y + kappa threshold, with h from the law:

        n Var = (d/size)(h + kappa^2/3 - kappa(1 - x^2)) - x^2,

    the same for every x with kappa = size/d, the default; kappa = 1 is better for values known
    to be near 0. Size and agreements are those of least h/size: 1 (dithered on one coordinate)
    up to epsilon 1, then larger.

    epsilon: the budget of one report, 0.001 to 20
    d: how many numbers a person has, each in [-1, 1]
    domains: the same as zeros, one per number; items are not taken
    size: how many coordinates a block has; that of least error if not given
    kappa: how much of the threshold is subtracted again, 0 to 2; size/d if not given

    >>> block = Block(epsilon=4.0, d=10)
    >>> block.size, round(block.worst_variance(), 2)
    (4, 3.35)
    """

    name: ClassVar[str] = "block"
    paper: ClassVar[str] = "dithered block-Hamming response (derived for this project)"
    summary: ClassVar[str] = "the signs of a block of coordinates, answered together"

    size: int | None = None
    kappa: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_numbers()
        largest = min(LARGEST_BLOCK, len(self.attributes))
        if self.size is None:
            chosen = min(range(1, largest + 1), key=lambda k: _best(self.epsilon, k)[0] / k)
            object.__setattr__(self, "size", chosen)
        if isinstance(self.size, bool) or self.size not in range(1, largest + 1):
            raise ParameterError(f"size must be 1 to {largest} coordinates; got {self.size!r}")
        kappa = self.block / len(self.attributes) if self.kappa is None else self.kappa
        if not (isinstance(kappa, int | float) and 0 <= kappa <= 2):
            raise ParameterError(f"kappa must be between 0 and 2; got {self.kappa!r}")
        object.__setattr__(self, "kappa", float(kappa))

    @property
    def block(self) -> int:
        """The number of coordinates in a block."""
        return self.size or 1

    @cached_property
    def agreements(self) -> int:
        """How many signs an answer must agree with to be a likely one."""
        return _best(self.epsilon, self.block)[1]

    @cached_property
    def likely(self) -> int:
        """How many of the 2^size answers are likely ones."""
        return sum(math.comb(self.block, a) for a in range(self.agreements, self.block + 1))

    @cached_property
    def inside(self) -> int:
        """The weight, out of 2^52, of a likely answer; rounded down."""
        ratio = exp_below(self.epsilon)
        others = 2**self.block - self.likely
        return int(WHOLE * ratio * self.likely / (ratio * self.likely + others))

    @cached_property
    def response_variance(self) -> float:
        """h: one over the square of the mean of (agreeing - disagreeing)/size."""
        k, inside = self.block, Fraction(self.inside, WHOLE)
        lean = Fraction(
            sum(math.comb(k, a) * (2 * a - k) for a in range(self.agreements, k + 1)), k
        )
        mean = lean * (inside / self.likely - (1 - inside) / (2**k - self.likely))
        return float(1 / mean**2)

    # --- device ---

    @cached_property
    def patterns(self) -> Ints:
        """All ways to disagree, as bits, those with the fewest disagreements first."""
        every = np.arange(2**self.block)
        return every[np.argsort(np.bitwise_count(every), kind="stable")]

    @property
    def report_bytes(self) -> int:
        """Where the block starts (2 bytes), its thresholds (1 byte each), its signs (2 bytes)."""
        return 4 + self.block

    @property
    def people_per_pass(self) -> int:
        """They stay in the processor's cache."""
        return PEOPLE_PER_PASS

    def respond(self, columns: Values, rng: Rng) -> Reports:
        """Choose block and thresholds, take the signs, flip them by a pattern of the law.

        Block and thresholds are public: the report shows them, and the law of the flips is the
        same for all of them. The words that round the values are not.
        """
        rows = np.stack(columns, axis=1).astype(np.float64)
        n, k = len(rows), self.block
        start = uniform(rng.public(), n, rows.shape[1])
        values = rows[np.arange(n)[:, None], self._members(start)]
        places = Grid(THRESHOLDS).round(values.ravel(), rng.words(n * k)).reshape(n, k)
        thresholds = uniform(rng.public(), n, THRESHOLDS, each=k).reshape(n, k)
        signs = ((places > thresholds) << np.arange(k)).sum(axis=1)
        answer = signs ^ self._flips(n, rng)
        ends = [integer_rows(part, 2) for part in (start, answer)]
        return np.hstack([ends[0], thresholds.astype(np.uint8), ends[1]])

    def _members(self, start: Ints) -> Ints:
        """The block's coordinates: from its start on, around the end."""
        return np.asarray((start[:, None] + np.arange(self.block)) % len(self.attributes))

    def _flips(self, n: int, rng: Rng) -> Ints:
        """Draw which signs to flip: a likely pattern with the weight `inside`, else another."""
        inside = drawn(rng.words(n)) < self.inside
        place = np.empty(n, dtype=np.int64)
        near, far = np.flatnonzero(inside), np.flatnonzero(~inside)
        place[near] = uniform(rng.only(near), len(near), self.likely)
        others = 2**self.block - self.likely
        place[far] = self.likely + uniform(rng.only(far), len(far), others)
        return self.patterns[place]

    # --- collector ---

    @property
    def counters(self) -> int:
        """For each coordinate, threshold and sign: how many answers."""
        return len(self.attributes) * THRESHOLDS * 2

    def possible(self, reports: Reports) -> Bits:
        """Start, thresholds and answer have their ranges."""
        start, thresholds, answer = self._fields(reports)
        fits = (start < len(self.attributes)) & (answer < 2**self.block)
        return np.asarray(fits & (thresholds < THRESHOLDS).all(axis=1))

    def complaint(self, reports: Reports, bad: int) -> str:
        """Start, thresholds and answer have their ranges."""
        del reports
        return f"report {bad} is outside the alphabet of {self}"

    def _fields(self, reports: Reports) -> tuple[Ints, Ints, Ints]:
        rows = self.to_rows(reports)
        start, answer = (
            row_integers(part).astype(np.int64) for part in (rows[:, :2], rows[:, -2:])
        )
        return start, rows[:, 2:-2].astype(np.int64), answer

    def count(self, reports: Reports) -> Ints:
        """Count answers by coordinate, threshold and sign."""
        counts = np.zeros(self.counters, dtype=np.int64)
        for first in range(0, len(reports), PEOPLE_PER_PASS):
            start, thresholds, answer = self._fields(reports[first : first + PEOPLE_PER_PASS])
            sign = answer[:, None] >> np.arange(self.block) & 1
            cell = (self._members(start) * THRESHOLDS + thresholds) * 2 + sign
            counts += np.bincount(cell.ravel(), minlength=self.counters)
        return counts

    def checked_counts(self, counts: Ints, n: int) -> Ints:
        """Everybody answers about a block of coordinates."""
        asked = counts.reshape(len(self.attributes), -1).sum(axis=1)
        if int(asked.sum()) != self.block * n or int(asked.max()) > n:
            raise FormatError(f"{n} people cannot have given {int(asked.sum())} such answers")
        return counts

    # --- analyst, auditor, planner ---

    @property
    def dither(self) -> float:
        """How much of the threshold is subtracted again."""
        return self.kappa or 0.0

    @cached_property
    def values(self) -> Floats:
        """What (threshold, sign) is read as: +-sqrt(h) + kappa threshold."""
        middles = self.dither * (-1 + (2 * np.arange(THRESHOLDS) + 1) / THRESHOLDS)
        root = math.sqrt(self.response_variance)
        return np.stack([middles - root, middles + root], axis=1).ravel()

    def estimate(
        self, tally: Tally, about: str = "participants", everybody: int | None = None
    ) -> TupleEstimate:
        """Return the d means, each from the answers about it."""
        n, subject = self.subject(tally, about)
        rows = tally.counts.reshape(len(self.attributes), -1)
        if not rows.any(axis=1).all():
            raise EmptyError("nobody has answered about one of the coordinates yet")
        total = n if everybody is None else everybody
        parts = tuple(self._mean(row, subject, total) for row in rows)
        return TupleEstimate(parts, n, self.epsilon, subject)

    def people_per_answer(self) -> list[float]:
        """d/size: a report is about one block."""
        return [len(self.attributes) / self.block] * len(self.attributes)

    def reach(self) -> Reach:
        """What an answer about one coordinate is read as."""
        return Reach(float(self.values.min()), float(self.values.max()))

    def evidence(self, tally: Tally) -> Iterator[Evidence]:
        """Every coordinate and threshold is asked as often; a sign is right with (1 + 1/sqrt h)/2.

        What is asked does not depend on the values.
        """
        asked = self.block / len(self.attributes)
        rows = tally.counts.reshape(len(self.attributes), -1)
        yield Limits("answers about number", rows.sum(axis=1), tally.n, asked, asked)
        each, right = asked / THRESHOLDS, (1 + 1 / math.sqrt(self.response_variance)) / 2
        ends = each * (1 - right), each * right
        yield Limits("answer by number, threshold and sign", tally.counts, tally.n, *ends)

    def mean_vector(self, tally: Tally) -> Floats:
        """Return sum of answers d / (n size): those asked stand for all."""
        n, d = self.answered(tally), len(self.attributes)
        return np.asarray(tally.counts.reshape(d, -1) @ self.values * d / (n * self.block))

    def _mean(self, counts: Ints, subject: About, everybody: int) -> Estimate:
        """Return the mean of one coordinate, from the answers of those who were asked about it.

        With s the mean square of everybody's values an answer is read as something of the mean
        square g + kappa s, g = h + kappa^2/3 - kappa: its noise is g - (1-kappa) s, and what people
        differ by is s - m^2. So n Var = g + (unseen + kappa - 1) s - unseen m^2, where s is m^2 at
        least and 1 at most, and these answers may show that it is less.
        """
        asked, squares, kappa = int(counts.sum()), self.values**2, self.dither
        mean = float(counts @ self.values) / asked
        unseen, noise = subject.unseen(asked, everybody), self._least_square
        inside, lean = min(max(mean, -1.0), 1.0), unseen + kappa - 1
        square, end = 0.0, 1.0
        if lean > 0 and kappa > 0:
            shown = float(counts @ squares) / asked
            unsure = math.sqrt(float(counts @ (squares - shown) ** 2)) / asked
            read = (shown + CAUTION * unsure - noise) / kappa if asked > 1 else 1.0
            square = min(max(read, inside**2), 1.0)
            end = math.sqrt(square)  # no mean is further out
        variance = (noise + max(lean, 0.0) * square, 0.0, min(lean, 0.0) - unseen)
        likely = asked * inside / (asked + 4)
        stderr = math.sqrt((variance[0] + variance[2] * likely**2) / asked)
        jump = 2 * math.sqrt(self.response_variance) + 2 * kappa
        shape = QuadraticScore(mean, stderr, asked, variance, -end, end, jump)
        return Estimate(mean, stderr, asked, self.epsilon, subject, shape=shape)

    @property
    def _least_square(self) -> float:
        """The mean square of what an answer of people at 0 is read as."""
        return self.response_variance + self.dither**2 / 3 - self.dither

    def exact_loss(self) -> Loss:
        """A likely answer against the same answer when it is not likely."""
        others = 2**self.block - self.likely
        ratio = Fraction(self.inside, WHOLE - self.inside) * Fraction(others, self.likely)
        return Loss(log_above(ratio), self.epsilon, ratio, (1, -1), "all signs of the block set")

    def trials(self) -> Iterator[Trial]:
        """Every answer, given the thresholds that were sent; and that these tell nothing.

        For people at the ends and at grid points between, whose true signs the thresholds decide.
        """
        agreeing = self.block - np.bitwise_count(np.arange(2**self.block)).astype(np.int64)
        inside, others = self.inside / WHOLE, 2**self.block - self.likely
        near = agreeing >= self.agreements
        chances = np.where(near, inside / self.likely, (1 - inside) / others)
        d, even = len(self.attributes), np.full(THRESHOLDS, 1 / THRESHOLDS)
        for x in (-1.0, -0.5, 0.25, 1.0):
            more: dict[str, Any] = {"answer": (x,) * d, "people": people_for(8 * d)}
            flips = partial(self._flipped, round((x + 1) / 2 * THRESHOLDS))
            yield ChanceTrial(self, read=flips, chances=chances, what="every answer", **more)
            yield ChanceTrial(
                self, read=self._starts, chances=np.full(d, 1 / d), what="the blocks", **more
            )
            for place in range(self.block):
                read = partial(self._threshold, place)
                yield ChanceTrial(self, read=read, chances=even, what="the thresholds", **more)

    def _flipped(self, place: int, reports: Reports) -> Ints:
        """Count which signs are not those of people at this grid point."""
        _, thresholds, answer = self._fields(reports)
        signs = ((place > thresholds) << np.arange(self.block)).sum(axis=1)
        return np.bincount(answer ^ signs, minlength=2**self.block)

    def _starts(self, reports: Reports) -> Ints:
        return np.bincount(self._fields(reports)[0], minlength=len(self.attributes))

    def _threshold(self, place: int, reports: Reports) -> Ints:
        return np.bincount(self._fields(reports)[1][:, place], minlength=THRESHOLDS)

    def variance(self, x: ArrayLike) -> Floats:
        """Return n Var of a coordinate's mean when people are at +x and -x half and half."""
        squares, kappa = checked_values(x).reshape(np.shape(x)) ** 2, self.dither
        second = self.response_variance + kappa**2 / 3 - kappa * (1 - squares)
        return np.asarray(len(self.attributes) / self.block * second - squares)

    def worst_variance(self) -> float:
        """Return the largest n Var, which such a crowd in the middle or at the ends has."""
        return float(self.variance([0.0, 1.0]).max())

    def public_part(self, report: Reports) -> list[int]:
        """Where the block starts, and its thresholds."""
        return [int(number) for number in np.ravel(report[:, :-2])]

    def law(self) -> dict[str, Any]:
        """The weight of a likely pattern, out of 2^52, and the sizes. kappa decides no report."""
        return {
            "inside": self.inside,
            "size": self.block,
            "agreements": self.agreements,
            "likely": self.likely,
            "thresholds": THRESHOLDS,
        }


def _best(epsilon: float, size: int) -> tuple[float, int]:
    """Return the least h for blocks of this size and the number of agreements that reaches it."""
    top = math.exp(epsilon)
    candidates = []
    for least in range(size // 2 + 1, size + 1):
        combs = [(math.comb(size, a), a) for a in range(least, size + 1)]
        likely = sum(ways for ways, _ in combs)
        lean = sum(ways * (2 * a - size) for ways, a in combs) / size
        mean = (top - 1) * lean / (top * likely + 2**size - likely)
        candidates.append((1 / mean**2, least))
    return min(candidates)
