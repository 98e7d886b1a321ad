"""Optimised local hashing: hash the item to a few cells, then randomised response on the cell."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from murmuration.errors import ReportError
from murmuration.exact.arrays import Bits, Ints, Reports, Rows
from murmuration.exact.loss import Loss
from murmuration.exact.randomness import Rng, uniform
from murmuration.mechanisms.item.base import FrequencyMechanism
from murmuration.mechanisms.item.grr import Grr
from murmuration.mechanisms.packing import integer_rows, row_integers
from murmuration.mechanisms.tally import Tally
from murmuration.mechanisms.trial import ChanceTrial, Trial, spread_over
from murmuration.statistics.forgery import Evidence, Limits

PRIMES = (65_521, 2_147_483_647)
"""The hash works modulo the first prime above k: 2-byte or 4-byte coefficients."""
REPORTS_PER_PASS = 1 << 16
MOST_CELLS = 1 << 16
MOST_CELLS_TRIED = 32
"""Cells up to which the auditor counts every pair of own cell and answer."""


@dataclass(frozen=True)
class Olh(FrequencyMechanism):
    """Send a hash function (a, b) and a noisy hash of the item; it supports all items that agree.

    h(v) = floor(((a v + b) mod P) g / P) with a, b uniform below the prime P: for two items the
    pair of hashes is exactly independent, so q is exact. g = round(e^eps + 1) cells. The hash is
    drawn without looking at the item; the loss is that of randomised response on g cells. Small
    reports for any k, but the collector's work is k hashes per report.

    epsilon: the budget of one report, 0.001 to 20
    k: how many items there are, 2 or more; an answer is 0 to k-1

    >>> olh = Olh(epsilon=1.0, k=1000)
    >>> olh.report_bytes, olh.g, round(olh.total_variance() / 999)
    (5, 4, 4)
    """

    name: ClassVar[str] = "olh"
    paper: ClassVar[str] = "Wang, Blocki, Li, Jha 2017"
    summary: ClassVar[str] = "a random hash of the item, answered with noise"

    @property
    def g(self) -> int:
        """The number of cells."""
        return min(MOST_CELLS, max(2, round(math.exp(self.epsilon) + 1)))

    @cached_property
    def response(self) -> Grr:
        """Randomised response on the cells: where all the privacy is."""
        return Grr(epsilon=self.epsilon, k=self.g)

    @property
    def prime(self) -> int:
        """The modulus of the hash."""
        return next(prime for prime in PRIMES if prime > self.k and prime > 1000 * self.g)

    @cached_property
    def edges(self) -> Ints:
        """Cell y holds the residues from edges[y] up to edges[y+1]."""
        return -(-np.arange(self.g + 1, dtype=np.int64) * self.prime // self.g)

    @cached_property
    def collision(self) -> Fraction:
        """The probability that two given items have the same hash: sum of (cell/P)^2."""
        return Fraction(sum(size**2 for size in np.diff(self.edges).tolist()), self.prime**2)

    @property
    def p(self) -> Fraction:
        """The answer is the own cell."""
        return self.response.p

    @property
    def q(self) -> Fraction:
        """The answer is another item's cell: both in one cell and true, or in two and that lie."""
        return self.p * self.collision + self.response.q * (1 - self.collision)

    @property
    def counters(self) -> int:
        """One counter per item."""
        return self.k

    @property
    def coefficient_bytes(self) -> int:
        """Bytes of a and of b."""
        return 2 if self.prime < 1 << 16 else 4

    @property
    def report_bytes(self) -> int:
        """a, b and the cell."""
        return 2 * self.coefficient_bytes + self.response.report_bytes

    @property
    def work(self) -> int:
        """A hash for each item."""
        return self.k

    def respond(self, items: Ints, rng: Rng) -> Reports:
        """Draw a and b, in public, hash, then answer: rows of (a, b, cell)."""
        a, b = (uniform(rng.public(), len(items), self.prime) for _ in range(2))
        cell = (a * items + b) % self.prime * self.g // self.prime
        return np.stack([a, b, self.response.respond(cell, rng)], axis=1).astype(np.uint32)

    def shaped(self, reports: ArrayLike) -> Reports:
        """Return rows of (a, b, cell)."""
        rows = np.asarray(reports)
        if rows.ndim != 2 or rows.shape[1] != 3 or rows.dtype.kind not in "ui":
            raise ReportError(f"reports of olh are rows (a, b, cell); got shape {rows.shape}")
        return rows

    def possible(self, reports: Reports) -> Bits:
        """Tell which rows have coefficients below the prime and one of the g cells."""
        below = (reports >= 0) & (reports < np.array([self.prime, self.prime, self.g]))
        return np.asarray(below.all(axis=1))

    def complaint(self, reports: Reports, bad: int) -> str:
        """There is only one way to be wrong."""
        del reports
        return f"report {bad} is outside the alphabet of {self}"

    def to_rows(self, reports: Reports) -> Rows:
        """Write a, b and the cell, little-endian."""
        width, last = self.coefficient_bytes, self.response.report_bytes
        widths = (width, width, last)
        fields = [integer_rows(reports[:, i], size) for i, size in enumerate(widths)]
        return np.concatenate(fields, axis=1)

    def from_rows(self, rows: Rows) -> Reports:
        """Read a, b and the cell."""
        width = self.coefficient_bytes
        parts = (rows[:, :width], rows[:, width : 2 * width], rows[:, 2 * width :])
        return np.stack([row_integers(part) for part in parts], axis=1).astype(np.uint32)

    def count(self, reports: Reports) -> Ints:
        """Count for each item the reports whose cell is its hash."""
        rows = reports.astype(np.uint32, copy=False)
        counts = np.zeros(self.k, dtype=np.int64)
        for start in range(0, len(rows), REPORTS_PER_PASS):
            self._count(rows[start : start + REPORTS_PER_PASS], counts)
        return counts

    def _count(self, rows: NDArray[np.uint32], counts: Ints) -> None:
        """Walk through the items: the residue of the next one is a more, modulo P."""
        a = np.ascontiguousarray(rows[:, 0])
        start = self.edges[rows[:, 2]].astype(np.uint32)
        size = np.diff(self.edges)[rows[:, 2]].astype(np.uint32)
        prime = np.uint32(self.prime)
        residue, spare = rows[:, 1].copy(), np.empty(len(rows), dtype=np.uint32)
        for item in range(self.k):
            np.subtract(residue, start, out=spare)  # wraps below 0, so one comparison does
            counts[item] += np.count_nonzero(spare < size)
            residue += a
            np.subtract(residue, prime, out=spare)
            np.minimum(residue, spare, out=residue)

    def trials(self) -> Iterator[Trial]:
        """The item's own cell with the answer, and the hash function, which tells nothing."""
        cells = np.diff(self.edges) / self.prime
        answers = np.full((self.g, self.g), float(self.response.q))
        np.fill_diagonal(answers, float(self.p))
        quarters = np.diff(np.arange(5) * self.prime // 4) / self.prime
        few = self.g <= MOST_CELLS_TRIED
        for item in spread_over(self.k, 16 if few else 3):
            hashes = np.outer(quarters, quarters).ravel()
            yield ChanceTrial(self, item, self._by_quarter, hashes, "the hash function")
            if few:
                chances = (cells[:, None] * answers).ravel()
                read = partial(self._by_cell, item)
                yield ChanceTrial(self, item, read, chances, "own cell and answer")
        yield from super().trials()

    def _by_quarter(self, reports: Reports) -> Ints:
        ends = np.arange(1, 5) * self.prime // 4
        a, b = (np.searchsorted(ends, reports[:, i], side="right") for i in (0, 1))
        return np.bincount(4 * a + b, minlength=16)

    def _by_cell(self, item: int, reports: Reports) -> Ints:
        a, b, answer = reports.astype(np.int64).T
        own = (a * item + b) % self.prime * self.g // self.prime
        return np.bincount(own * self.g + answer, minlength=self.g**2)

    def evidence(self, tally: Tally) -> Iterator[Evidence]:
        """The support of every item, and of all together: a hash may be made to support all."""
        yield from super().evidence(tally)
        rate = float(self.p + (self.k - 1) * self.q) / self.k
        total = tally.counts.sum(keepdims=True) / self.k
        yield Limits("items that a report supports, of all", total, tally.n, rate, rate)

    def checked_counts(self, counts: Ints, n: int) -> Ints:
        """No item has more support than there are people: checked for every tally already."""
        del n
        return counts

    def exact_loss(self) -> Loss:
        """That of the response: the hash does not depend on the item."""
        return self.response.loss()

    @property
    def blank_support(self) -> Fraction:
        """One of g cells."""
        return Fraction(1, self.g)

    def blank(self, reports: Reports, rng: Rng) -> Reports:
        """The same hash with any cell."""
        cell = uniform(rng, len(reports), self.g).astype(reports.dtype)
        return np.column_stack([reports[:, :2], cell])

    def public_part(self, report: Reports) -> list[int]:
        """The hash."""
        return [int(number) for number in np.ravel(report[:, :2])]

    def law(self) -> dict[str, Any]:
        """The response's weights, the prime and the cells."""
        return {**self.response.law(), "prime": self.prime, "cells": self.g}
