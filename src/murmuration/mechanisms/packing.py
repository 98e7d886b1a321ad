"""How reports travel: whole bytes, the same number for every report of a mechanism.

Three shapes of a report, each with its packing, checking and counting:

    SymbolReports   one integer of a small alphabet; one counter per symbol
    RowReports      a row of bytes with a meaning of its own
    BitReports      bits, packed eight to a byte; one counter per bit
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from numpy.typing import ArrayLike

from murmuration.errors import FormatError, ReportError
from murmuration.exact.arrays import Bits, Ints, Reports, Rows
from murmuration.mechanisms.base import Mechanism, checked_rows

COUNT_CHUNK = 1 << 18
"""Reports per counting pass: bincount makes a copy of eight bytes per report."""
BITS_PER_PASS = 1 << 20
"""Bits that one pass holds unpacked: memory is bounded whatever the sizes are."""


class SymbolReports(Mechanism):
    """A mechanism whose report is one integer in 0 .. symbols-1, and whose tally counts them."""

    @property
    @abstractmethod
    def symbols(self) -> int:
        """The size of the alphabet."""

    @property
    def counters(self) -> int:
        """One counter per symbol."""
        return self.symbols

    @property
    def report_bytes(self) -> int:
        """The fewest whole bytes that hold any symbol."""
        return max(1, (max(self.symbols - 1, 1).bit_length() + 7) // 8)

    def to_rows(self, reports: Reports) -> Rows:
        """Write symbols little-endian."""
        return integer_rows(reports, self.report_bytes)

    def from_rows(self, rows: Rows) -> Reports:
        """Read symbols."""
        return row_integers(rows)

    def shaped(self, reports: ArrayLike) -> Reports:
        """Return a flat array of integers."""
        array = np.asarray(reports)
        if array.ndim != 1 or (array.dtype.kind not in "ui" and array.size):
            raise ReportError(
                f"reports are a flat array of integers; got {array.dtype} of shape {array.shape}"
            )
        return array

    def checked_reports(self, reports: ArrayLike) -> Reports:
        """Return the reports in the smallest type."""
        checked = super().checked_reports(reports)
        return checked.astype(np.min_scalar_type(self.symbols - 1), copy=False)

    def possible(self, reports: Reports) -> Bits:
        """Tell which symbols are in the alphabet."""
        return np.asarray((reports >= 0) & (reports < self.symbols))

    def complaint(self, reports: Reports, bad: int) -> str:
        """Name the symbol, its place and the alphabet."""
        return (
            f"report {reports[bad]} at position {bad} is outside the alphabet "
            f"0..{self.symbols - 1} of {self.name}"
        )

    def count(self, reports: Reports) -> Ints:
        """Count each symbol."""
        counts = np.zeros(self.symbols, dtype=np.int64)
        for start in range(0, len(reports), COUNT_CHUNK):
            chunk = reports[start : start + COUNT_CHUNK]
            counts += np.bincount(chunk, minlength=self.symbols)
        return counts

    def checked_counts(self, counts: Ints, n: int) -> Ints:
        """Every person is counted once."""
        if int(counts.sum()) != n:
            raise FormatError(f"{n} people cannot have sent {int(counts.sum())} reports")
        return counts


class RowReports(Mechanism):
    """A mechanism whose report is a row of `report_bytes` bytes."""

    def to_rows(self, reports: Reports) -> Rows:
        """They are rows."""
        return reports.astype(np.uint8, copy=False)

    def from_rows(self, rows: Rows) -> Reports:
        """They are rows."""
        return rows

    def shaped(self, reports: ArrayLike) -> Reports:
        """Return rows of bytes."""
        return checked_rows(reports, self.report_bytes, self.name)


class BitReports(RowReports):
    """A mechanism whose report is a fixed number of bits, lowest bit first; a counter each."""

    @property
    @abstractmethod
    def bits(self) -> int:
        """How many bits a report has."""

    @property
    def report_bytes(self) -> int:
        """The bits, rounded up to bytes."""
        return (self.bits + 7) // 8

    @property
    def counters(self) -> int:
        """One counter per bit: the reports that have it set."""
        return self.bits

    @property
    def people_per_pass(self) -> int:
        """Bounded by the bits that they need."""
        return max(1, BITS_PER_PASS // self.bits)

    def possible(self, reports: Reports) -> Bits:
        """Tell which rows have no bit beyond the last one."""
        spare = 8 * self.report_bytes - self.bits
        return np.asarray(reports[:, -1] <= 255 >> spare)

    def complaint(self, reports: Reports, bad: int) -> str:
        """Bits beyond the last one are never set."""
        del reports
        return f"report {bad} of {self.name} has more than {self.bits} bits"

    def count(self, reports: Reports) -> Ints:
        """Count the set bits; 255 rows at a time fit a byte's worth of counting."""
        rows = self.to_rows(reports)
        counts = np.zeros(self.bits, dtype=np.int64)
        step = max(255, BITS_PER_PASS // self.bits // 255 * 255)
        for start in range(0, len(rows), step):
            bits = unpack_bits(rows[start : start + step], self.bits)
            whole = len(bits) // 255 * 255
            stacked = bits[:whole].reshape(-1, 255, self.bits).sum(axis=1, dtype=np.uint8)
            counts += stacked.sum(axis=0, dtype=np.int64) + bits[whole:].sum(axis=0, dtype=np.int64)
        return counts

    def checked_counts(self, counts: Ints, n: int) -> Ints:
        """No bit is set more often than there are people: checked for every tally already."""
        del n
        return counts


def integer_rows(numbers: Reports | Ints, width: int) -> Rows:
    """Write integers little-endian, `width` bytes each.

    >>> integer_rows(np.array([258, 3]), 2).tolist()
    [[2, 1], [3, 0]]
    """
    if numbers.dtype.itemsize == width and numbers.dtype.kind == "u":
        little = np.ascontiguousarray(numbers.astype(numbers.dtype.newbyteorder("<"), copy=False))
        return little.view(np.uint8).reshape(len(numbers), width)
    return numbers.astype("<u8").view(np.uint8).reshape(-1, 8)[:, :width]


def row_integers(rows: Rows) -> Reports:
    """Read what `integer_rows` wrote."""
    width = rows.shape[1]
    if width in (1, 2, 4):
        return np.ascontiguousarray(rows).view(f"<u{width}")[:, 0]
    octets = np.zeros((len(rows), 8), dtype=np.uint8)
    octets[:, :width] = rows
    return octets.view("<u8")[:, 0]


def pack_bits(bits: Bits) -> Rows:
    """Pack rows of bits, lowest bit first."""
    return np.packbits(bits, axis=1, bitorder="little")


def unpack_bits(rows: Rows, bits: int) -> Rows:
    """Return rows of bits, one byte each."""
    return np.unpackbits(rows, axis=1, count=bits, bitorder="little")


def bit_of(items: Ints) -> Rows:
    """Return the bit of each item in its byte."""
    return np.left_shift(np.uint8(1), (items & 7).astype(np.uint8))
