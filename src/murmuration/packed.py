"""Reports that are rows of bits: packed eight to a byte on the wire, counted bit by bit."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from numpy.typing import ArrayLike

from murmuration.contract import Bits, Mechanism, Reports, Rows, Tally
from murmuration.errors import FormatError, ReportError
from murmuration.law import Ints

BITS_PER_PASS = 1 << 20
"""Bits that one pass holds unpacked: memory is bounded whatever the sizes are."""


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
