"""How reports travel: whole bytes, the same number for every report of a mechanism.

Three shapes of a report, each with its packing, checking and counting:

    SymbolMechanism   one integer of a small alphabet
    RowReports        a row of bytes with a meaning of its own
    PackedReports     bits, packed eight to a byte, counted bit by bit
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from numpy.typing import ArrayLike, NDArray

from murmuration.errors import FormatError, ReportError
from murmuration.exact.arrays import Bits, Ints, Reports, Rows
from murmuration.mechanisms.base import Mechanism
from murmuration.mechanisms.tally import Tally

COUNT_CHUNK = 1 << 18
"""Reports per counting pass: bincount makes a copy of eight bytes per report."""
BITS_PER_PASS = 1 << 20
"""Bits that one pass holds unpacked: memory is bounded whatever the sizes are."""


class SymbolMechanism(Mechanism):
    """A mechanism whose report is one integer in 0 .. symbols-1, and whose tally counts them."""

    @property
    @abstractmethod
    def symbols(self) -> int:
        """The size of the alphabet."""

    @property
    def counters(self) -> int:
        """One counter a symbol."""
        return self.symbols

    @property
    def report_bytes(self) -> int:
        """The fewest whole bytes that hold any symbol."""
        return max(1, (max(self.symbols - 1, 1).bit_length() + 7) // 8)

    def pack(self, reports: ArrayLike) -> bytes:
        """Serialise reports, little-endian, `report_bytes` each."""
        return pack_integers(self.checked_reports(reports), self.report_bytes)

    def unpack(self, data: bytes) -> Reports:
        """Read what `pack` wrote; refuse a truncated tail and symbols outside the alphabet."""
        return self.checked_reports(unpack_integers(data, self.report_bytes))

    def checked_reports(self, reports: ArrayLike) -> Reports:
        """Return the reports in the smallest type, or say which one no device can have sent."""
        array = np.asarray(reports)
        if array.ndim != 1 or (array.dtype.kind not in "ui" and array.size):
            raise ReportError(
                f"reports are a flat array of integers; got {array.dtype} of shape {array.shape}"
            )
        if not (inside := self._inside(array)).all():
            raise ReportError(self._outside(array, int(inside.argmin())))
        return array.astype(np.min_scalar_type(self.symbols - 1), copy=False)

    def _inside(self, symbols: NDArray[np.integer]) -> Bits:
        """Tell which symbols are in the alphabet."""
        return np.asarray((symbols >= 0) & (symbols < self.symbols))

    def _outside(self, symbols: NDArray[np.integer], bad: int) -> str:
        return (
            f"report {symbols[bad]} at position {bad} is outside the alphabet "
            f"0..{self.symbols - 1} of {self.name}"
        )

    def _possible(self, rows: Rows) -> Bits:
        return self._inside(unpack_integers(rows.tobytes(), self.report_bytes))

    def complaint(self, rows: Rows, bad: int) -> str:
        """Name the symbol, its place and the alphabet."""
        return self._outside(unpack_integers(rows.tobytes(), self.report_bytes), bad)

    def tally(self, reports: ArrayLike) -> Tally:
        """Count each symbol."""
        checked = self.checked_reports(reports)
        counts = np.zeros(self.symbols, dtype=np.int64)
        for start in range(0, len(checked), COUNT_CHUNK):
            chunk = checked[start : start + COUNT_CHUNK]
            counts += np.bincount(chunk, minlength=self.symbols)
        return Tally(self, counts, len(checked))

    def checked_counts(self, counts: Ints, n: int) -> Ints:
        """Every person is counted once."""
        if int(counts.sum()) != n:
            raise FormatError(f"{n} people cannot have sent {int(counts.sum())} reports")
        return counts


class RowReports(Mechanism):
    """A mechanism whose report is a row of `report_bytes` bytes."""

    def checked_reports(self, reports: ArrayLike) -> Rows:
        """Return the rows, or say which one no device can have sent."""
        rows = np.asarray(reports)
        if not (valid := self.valid(rows)).all():
            raise ReportError(self.complaint(rows, int(valid.argmin())))
        return rows

    def pack(self, reports: ArrayLike) -> bytes:
        """Serialise the rows one after the other."""
        return self.checked_reports(reports).tobytes()

    def unpack(self, data: bytes) -> Reports:
        """Read what `pack` wrote; refuse a truncated tail and what no device can have sent."""
        return self.checked_reports(unpack_rows(data, self.report_bytes))


class PackedReports(RowReports):
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
        """One counter a bit: the reports that have it set."""
        return self.bits

    def _possible(self, rows: Rows) -> Bits:
        spare = 8 * self.report_bytes - self.bits
        return np.asarray(rows[:, -1] <= 255 >> spare)

    def complaint(self, rows: Rows, bad: int) -> str:
        """Bits beyond the last one are never set."""
        del rows
        return f"report {bad} of {self.name} has more than {self.bits} bits"

    def tally(self, reports: ArrayLike) -> Tally:
        """Count the set bits."""
        rows = self.checked_reports(reports)
        return Tally(self, count_bits(rows, self.bits), len(rows))

    def checked_counts(self, counts: Ints, n: int) -> Ints:
        """No bit is set more often than there are people: checked for every tally already."""
        del n
        return counts


def unpack_rows(data: bytes, width: int) -> Rows:
    """Cut bytes into rows; refuse a truncated tail."""
    if len(data) % width:
        raise FormatError(f"{len(data)} bytes are not a whole number of {width}-byte reports")
    return np.frombuffer(data, dtype=np.uint8).reshape(-1, width)


def pack_bits(bits: Bits) -> Rows:
    """Pack rows of bits, lowest bit first."""
    return np.packbits(bits, axis=1, bitorder="little")


def count_bits(rows: Rows, bits: int) -> Ints:
    """Return how many rows have each bit set; 255 rows at a time fit a byte's worth of counting."""
    counts = np.zeros(bits, dtype=np.int64)
    step = max(255, BITS_PER_PASS // bits // 255 * 255)
    for start in range(0, len(rows), step):
        spread = np.unpackbits(rows[start : start + step], axis=1, count=bits, bitorder="little")
        whole = len(spread) // 255 * 255
        stacked = spread[:whole].reshape(-1, 255, bits).sum(axis=1, dtype=np.uint8)
        counts += stacked.sum(axis=0, dtype=np.int64) + spread[whole:].sum(axis=0, dtype=np.int64)
    return counts


def pack_integers(reports: Reports, width: int) -> bytes:
    """Serialise integers little-endian in `width` bytes each."""
    if reports.dtype.itemsize == width:
        return reports.astype(reports.dtype.newbyteorder("<"), copy=False).tobytes()
    octets = reports.astype("<u8").view(np.uint8).reshape(-1, 8)
    return octets[:, :width].tobytes()


def unpack_integers(data: bytes, width: int) -> Reports:
    """Read what `pack_integers` wrote."""
    if len(data) % width:
        raise FormatError(f"{len(data)} bytes are not a whole number of {width}-byte reports")
    if width in (1, 2, 4):
        return np.frombuffer(data, dtype=f"<u{width}")
    octets = np.zeros((len(data) // width, 8), dtype=np.uint8)
    octets[:, :width] = np.frombuffer(data, dtype=np.uint8).reshape(-1, width)
    return octets.view("<u8").ravel()
