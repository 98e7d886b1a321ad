"""What all frequency mechanisms share: who supports what, and how that becomes a histogram.

A private value is an item 0 .. k-1. A report *supports* some items: its own with probability p,
any other with probability q, both known exactly. C_v, the number of reports that support v, is
all that the estimate needs:

    f_v = (C_v/n - q) / (p - q),   n Var(f_v) = (f p(1-p) + (1-f) q(1-q)) / (p-q)^2.

The files in `mechanisms/` say how reports are drawn and counted. Two kinds of report are shared
by several of them and live here: `PackedMechanism` (k bits) and the Walsh-Hadamard transform.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from murmuration.contract import Mechanism, Reports, Tally, Task, require_same
from murmuration.errors import EmptyError, FormatError, InputError, ParameterError, ReportError
from murmuration.estimate import About, FrequencyEstimate
from murmuration.law import WORD_BITS, Floats, Ints
from murmuration.randomness import Rng, Words, require_rng

MAX_ITEMS = 1 << 20
BITS_PER_PASS = 1 << 20
"""Bits that one pass holds unpacked: memory is bounded whatever n and k are."""
Bits = NDArray[np.bool_]


@dataclass(frozen=True)
class FrequencyMechanism(Mechanism):
    """A mechanism for one of k items."""

    answers: ClassVar[Task] = Task.FREQUENCY
    largest: ClassVar[int] = MAX_ITEMS
    """The most items that this mechanism can take."""

    k: int

    def __post_init__(self) -> None:
        super().__post_init__()
        whole = isinstance(self.k, int | np.integer) and not isinstance(self.k, bool)
        if not whole or not 2 <= self.k <= self.largest:
            raise ParameterError(
                f"{self.name}: k, the number of items, is 2 to {self.largest:,}; got {self.k!r}"
            )
        object.__setattr__(self, "k", int(self.k))

    @property
    @abstractmethod
    def p(self) -> Fraction:
        """The probability that a report supports its own item."""

    @property
    @abstractmethod
    def q(self) -> Fraction:
        """The probability that a report supports any one other item."""

    def support(self, tally: Tally) -> Ints:
        """Return C_v: how many reports support each item. By default these are the counters."""
        return tally.counts

    @abstractmethod
    def respond(self, items: Ints, rng: Rng) -> Reports:
        """Return the reports of checked items."""

    @property
    def people_per_pass(self) -> int:
        """How many people are randomised at once."""
        return 1 << 17

    def privatize(self, values: ArrayLike, rng: Rng) -> Reports:
        """Turn items 0 .. k-1 into reports, one each."""
        rng, items = require_rng(rng), checked_items(values, self.k)
        self.require_promise()
        step = self.people_per_pass
        parts = [self.respond(items[i : i + step], rng) for i in range(0, len(items), step)]
        return np.concatenate(parts) if parts else self.respond(items, rng)

    def estimate(self, tally: Tally, about: str = "participants") -> FrequencyEstimate:
        """Return all k frequencies: unbiased, so some may be below 0; see `postprocess`."""
        subject = About.parse(about)
        n = require_same(self, tally).n
        if n == 0:
            raise EmptyError("no reports yet: nothing to estimate")
        shares = (self.support(tally) / n - float(self.q)) / float(self.p - self.q)
        spread = self.variance(np.clip(shares, 0, 1))
        if subject is About.POPULATION:
            spread = spread + np.clip(shares, 0, 1) * (1 - np.clip(shares, 0, 1))
        return FrequencyEstimate(shares, np.sqrt(spread / n), n, self.epsilon, subject)

    def variance(self, x: ArrayLike) -> Floats:
        """Return n Var of an item's estimated frequency when its true frequency is x."""
        shares = np.atleast_1d(np.asarray(x, dtype=np.float64))
        if not ((shares >= 0) & (shares <= 1)).all():
            raise InputError("a frequency is between 0 and 1")
        gap = float((self.p - self.q) ** 2)
        own, other = (float(r * (1 - r)) / gap for r in (self.p, self.q))
        return shares * own + (1 - shares) * other

    def worst_variance(self) -> float:
        """Return the largest n Var of one item, over all its true frequencies."""
        return float(self.variance([0.0, 1.0]).max())

    def total_variance(self) -> float:
        """Return n times the summed squared error over all items; the same for every histogram."""
        return float(self.variance(1.0)[0] + (self.k - 1) * self.variance(0.0)[0])


def checked_items(values: ArrayLike, k: int) -> Ints:
    """Return items as integers in 0 .. k-1, or say that they are not, without repeating them."""
    if isinstance(values, np.ma.MaskedArray):
        raise InputError("masked values have no answer: leave those people out first")
    array = np.atleast_1d(np.asarray(values))
    if array.ndim != 1 or (array.dtype.kind not in "ui" and array.size):
        raise InputError(f"values must be a flat array of whole numbers, items 0 to {k - 1}")
    if array.size and not (array.min() >= 0 and array.max() < k):
        outside = (array < 0) | (array >= k)
        raise InputError(
            f"items are 0 to {k - 1}; {int(outside.sum())} of {array.size} are not (first at "
            f"position {int(outside.argmax())}). Nothing was sent."
        )
    return array.astype(np.int64, copy=False)


def drawn(words: Words) -> Ints:
    """Return the 52 bits of each word that laws are compared with."""
    return (words >> np.uint64(64 - WORD_BITS)).view(np.int64)


def uniform(rng: Rng, n: int, bound: int) -> Ints:
    """Return n integers below bound, exactly uniform: words past the last whole turn are redrawn.

    >>> from murmuration import seeded_rng
    >>> uniform(seeded_rng(1), 4, 6).max() < 6
    np.True_
    """
    turns = (1 << WORD_BITS) // bound * bound
    found = drawn(rng.words(n))
    while len(late := np.flatnonzero(found >= turns)):
        found[late] = drawn(rng.words(len(late)))
    return found % bound


# --- reports of k bits -------------------------------------------------------------------------


class PackedMechanism(FrequencyMechanism):
    """A mechanism whose report is a bit for each item, packed eight to a byte, lowest bit first."""

    @property
    def report_bytes(self) -> int:
        """K bits, rounded up."""
        return (self.k + 7) // 8

    @property
    def counters(self) -> int:
        """One counter an item: the reports that have its bit set."""
        return self.k

    @property
    def people_per_pass(self) -> int:
        """Bounded by the bits that they need."""
        return max(1, BITS_PER_PASS // self.k)

    def checked_reports(self, reports: ArrayLike) -> NDArray[np.uint8]:
        """Return rows of bytes, or say which row no device can have sent."""
        rows = np.asarray(reports)
        if rows.dtype != np.uint8 or rows.ndim != 2 or rows.shape[1] != self.report_bytes:
            raise ReportError(
                f"reports of {self.name} are rows of {self.report_bytes} bytes (uint8); got "
                f"{rows.dtype} of shape {rows.shape}"
            )
        spare = 8 * self.report_bytes - self.k
        if spare and len(bad := np.flatnonzero(rows[:, -1] >> (8 - spare))):
            raise ReportError(f"report {int(bad[0])} has bits beyond item {self.k - 1}")
        return rows

    def pack(self, reports: ArrayLike) -> bytes:
        """Serialise the rows one after the other."""
        return self.checked_reports(reports).tobytes()

    def unpack(self, data: bytes) -> Reports:
        """Read what `pack` wrote."""
        if len(data) % self.report_bytes:
            raise FormatError(
                f"{len(data)} bytes are not a whole number of {self.report_bytes}-byte reports"
            )
        return self.checked_reports(
            np.frombuffer(data, dtype=np.uint8).reshape(-1, self.report_bytes)
        )

    def tally(self, reports: ArrayLike) -> Tally:
        """Count the set bits of each item."""
        rows = self.checked_reports(reports)
        return Tally(self, count_bits(rows, self.k), len(rows))

    def checked_counts(self, counts: Ints, n: int) -> Ints:
        """No item has more support than there are people."""
        if (counts > n).any():
            raise FormatError(f"an item has {int(counts.max())} supporters among {n} people")
        return counts


def pack_bits(bits: Bits) -> NDArray[np.uint8]:
    """Pack rows of bits, lowest bit first."""
    return np.packbits(bits, axis=1, bitorder="little")


def count_bits(rows: NDArray[np.uint8], k: int) -> Ints:
    """Return how many rows have each bit set; 255 rows at a time fit a byte's worth of counting."""
    counts = np.zeros(k, dtype=np.int64)
    step = max(255, BITS_PER_PASS // max(k, 1) // 255 * 255)
    for start in range(0, len(rows), step):
        bits = np.unpackbits(rows[start : start + step], axis=1, count=k, bitorder="little")
        whole = len(bits) // 255 * 255
        stacked = bits[:whole].reshape(-1, 255, k).sum(axis=1, dtype=np.uint8)
        counts += stacked.sum(axis=0, dtype=np.int64) + bits[whole:].sum(axis=0, dtype=np.int64)
    return counts


# --- Walsh-Hadamard ----------------------------------------------------------------------------


def walsh_hadamard(vector: Ints) -> Ints:
    """Return H @ vector in exact integers, where H[i, j] = (-1)^(number of bits in i and j).

    >>> walsh_hadamard(np.array([1, 0, 0, 2])).tolist()
    [3, -1, -1, 3]
    """
    out = np.array(vector, dtype=np.int64)
    half = 1
    while half < len(out):
        pairs = out.reshape(-1, 2, half)
        out = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1).ravel()
        half *= 2
    return out


def parity(numbers: Ints) -> Ints:
    """Return 1 where a number has an odd count of set bits."""
    return (np.bitwise_count(numbers) & 1).astype(np.int64)


def power_of_two(at_least: int) -> int:
    """Return the smallest power of two that is at least the given number."""
    return 1 << math.ceil(math.log2(at_least))
