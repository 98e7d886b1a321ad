"""Subset selection: a random set of items that holds the own one more often than not."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from murmuration.contract import Reports
from murmuration.errors import ReportError
from murmuration.frequency import PackedMechanism
from murmuration.law import WHOLE, Ints, Loss, drawn, exp_below, log_above, uniform
from murmuration.packed import BITS_PER_PASS, Bits, pack_bits
from murmuration.randomness import Rng


@dataclass(frozen=True)
class Subset(PackedMechanism):
    """Send w of the k items; sets that hold the own item are e^eps times as likely as others.

    p = wE/(wE+k-w), q = (p(w-1) + (1-p)w)/(k-1), w near k/(E+1). No channel is better for any k
    and eps (checked against a semidefinite program). The set travels as k bits, so its members
    have no order that could tell.

    >>> subset = Subset(epsilon=1.0, k=16)
    >>> subset.w, round(subset.total_variance(), 1)
    (4, 51.0)
    """

    name: ClassVar[str] = "subset"
    paper: ClassVar[str] = "Ye, Barg 2018; Wang et al. 2016"
    summary: ClassVar[str] = "a random set of items that often holds the own one"

    @cached_property
    def w(self) -> int:
        """The size of the set: of the two next to k/(E+1), the one of least error."""
        ideal = self.k / (math.exp(self.epsilon) + 1)
        sizes = {min(self.k - 1, max(1, size)) for size in (math.floor(ideal), math.ceil(ideal))}
        return min(sizes, key=self._error)

    def _error(self, w: int) -> float:
        p = Fraction(self._holds(w), WHOLE)
        q = (p * (w - 1) + (1 - p) * w) / (self.k - 1)
        own, other = p * (1 - p), q * (1 - q)
        return float((own + (self.k - 1) * other) / (p - q) ** 2)

    def _holds(self, w: int) -> int:
        """The weight, out of 2^52, of a set that holds the own item; rounded down."""
        ratio = exp_below(self.epsilon)
        return int(WHOLE * w * ratio / (w * ratio + self.k - w))

    @cached_property
    def holds(self) -> int:
        """The weight of holding the own item."""
        return self._holds(self.w)

    @property
    def p(self) -> Fraction:
        """The own item is in the set."""
        return Fraction(self.holds, WHOLE)

    @property
    def q(self) -> Fraction:
        """Another item is in the set."""
        return (self.p * (self.w - 1) + (1 - self.p) * self.w) / (self.k - 1)

    @property
    def people_per_pass(self) -> int:
        """More than other packed reports: the sets are filled up in rounds over all people."""
        return max(1, 8 * BITS_PER_PASS // self.k)

    def respond(self, items: Ints, rng: Rng) -> Reports:
        """Decide on the own item, then draw the rest of the set among all others, uniformly.

        Nothing after the first line treats one other item differently from another, so every
        set of the wanted size is exactly as likely as any other.
        """
        holds = drawn(rng.words(len(items))) < self.holds
        wanted = self.w - holds
        bits = self._too_few(items, wanted, rng)
        self._fill(bits, items, wanted, rng)
        bits[np.arange(len(items)), items] = holds
        return pack_bits(bits)

    def _too_few(self, items: Ints, wanted: Ints, rng: Rng) -> Bits:
        """Start from independent bits; whoever has more than wanted draws all of them again."""
        bits = np.empty((len(items), self.k), dtype=np.bool_)
        todo = np.arange(len(items))
        step = max(1, BITS_PER_PASS // self.k)
        while len(todo):
            for start in range(0, len(todo), step):
                people = todo[start : start + step]
                bits[people] = self._coins(len(people), rng)
            bits[todo, items[todo]] = False
            todo = todo[set_sizes(pack_bits(bits[todo])) > wanted[todo]]
        return bits

    def _coins(self, n: int, rng: Rng) -> Bits:
        """Bits at a rate 1.5 standard deviations below what w of k needs: few are drawn again."""
        rate = self.w - 1.5 * math.sqrt(self.w * (1 - self.w / self.k))
        words = rng.words(n * ((self.k + 1) // 2))
        halves = (
            words.astype("<u8", copy=False).view("<u4").reshape(n, self.k + self.k % 2)[:, : self.k]
        )
        return np.asarray(halves < np.uint32(max(0.0, rate) / self.k * (1 << 32)))

    def _fill(self, bits: Bits, items: Ints, wanted: Ints, rng: Rng) -> None:
        """Draw as many items as are missing and add them; repeat for those that were there."""
        todo = np.arange(len(items))
        while len(todo):
            missing = wanted[todo] - set_sizes(pack_bits(bits[todo])).astype(np.int64)
            people = np.repeat(todo, missing)
            place = uniform(rng, len(people), self.k)
            other = place != items[people]
            bits[people[other], place[other]] = True
            todo = todo[missing > 0]

    def checked_reports(self, reports: ArrayLike) -> NDArray[np.uint8]:
        """Every set has w members."""
        rows = super().checked_reports(reports)
        sizes = set_sizes(rows)
        if len(bad := np.flatnonzero(sizes != self.w)):
            raise ReportError(f"report {int(bad[0])} has {int(sizes[bad[0]])} items, not {self.w}")
        return rows

    def loss(self) -> Loss:
        """A set with 0 and without 1: holds/C(k-1,w-1) against (1-holds)/C(k-1,w)."""
        odds = Fraction(self.holds, WHOLE - self.holds)
        ratio = odds * Fraction(self.k - self.w, self.w)
        return Loss(log_above(ratio), self.epsilon, ratio, (0, 1), "a set with 0 and without 1")

    def law_bytes(self) -> bytes:
        """The weight and the size."""
        return f"{self.holds} {self.w}".encode()


def set_sizes(rows: NDArray[np.uint8]) -> Ints:
    """Return how many bits each row has set."""
    whole = rows.shape[1] // 8 * 8
    sizes: Ints = np.bitwise_count(rows[:, whole:]).sum(axis=1, dtype=np.int64)
    if whole:
        wide = np.ascontiguousarray(rows[:, :whole]).view(np.uint64)
        sizes += np.bitwise_count(wide).sum(axis=1, dtype=np.int64)
    return sizes
