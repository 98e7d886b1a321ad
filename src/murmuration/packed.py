"""Reports that are rows of bits: packed eight to a byte on the wire, counted bit by bit."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from numpy.typing import ArrayLike, NDArray

from murmuration.contract import Mechanism, Reports, Tally
from murmuration.errors import FormatError, ReportError
from murmuration.law import Ints

BITS_PER_PASS = 1 << 20
"""Bits that one pass holds unpacked: memory is bounded whatever the sizes are."""
Bits = NDArray[np.bool_]


class RowReports(Mechanism):
    """A mechanism whose report is a row of `report_bytes` bytes."""

    @abstractmethod
    def checked_reports(self, reports: ArrayLike) -> NDArray[np.uint8]:
        """Return the rows, or say which one no device can have sent."""

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

    def checked_reports(self, reports: ArrayLike) -> NDArray[np.uint8]:
        """Return rows of bytes, or say which row no device can have sent."""
        rows = checked_rows(reports, self.report_bytes, self.name)
        spare = 8 * self.report_bytes - self.bits
        if spare and len(bad := np.flatnonzero(rows[:, -1] >> (8 - spare))):
            raise ReportError(f"report {int(bad[0])} of {self.name} has more than {self.bits} bits")
        return rows

    def tally(self, reports: ArrayLike) -> Tally:
        """Count the set bits."""
        rows = self.checked_reports(reports)
        return Tally(self, count_bits(rows, self.bits), len(rows))

    def checked_counts(self, counts: Ints, n: int) -> Ints:
        """No bit is set more often than there are people: checked for every tally already."""
        del n
        return counts


def checked_rows(reports: ArrayLike, width: int, name: str) -> NDArray[np.uint8]:
    """Return rows of `width` bytes, or say what was got instead."""
    rows = np.asarray(reports)
    if rows.dtype != np.uint8 or rows.ndim != 2 or rows.shape[1] != width:
        raise ReportError(
            f"reports of {name} are rows of {width} bytes (uint8); got {rows.dtype} of shape "
            f"{rows.shape}"
        )
    return rows


def unpack_rows(data: bytes, width: int) -> NDArray[np.uint8]:
    """Cut bytes into rows; refuse a truncated tail."""
    if len(data) % width:
        raise FormatError(f"{len(data)} bytes are not a whole number of {width}-byte reports")
    return np.frombuffer(data, dtype=np.uint8).reshape(-1, width)


def pack_bits(bits: Bits) -> NDArray[np.uint8]:
    """Pack rows of bits, lowest bit first."""
    return np.packbits(bits, axis=1, bitorder="little")


def count_bits(rows: NDArray[np.uint8], bits: int) -> Ints:
    """Return how many rows have each bit set; 255 rows at a time fit a byte's worth of counting."""
    counts = np.zeros(bits, dtype=np.int64)
    step = max(255, BITS_PER_PASS // bits // 255 * 255)
    for start in range(0, len(rows), step):
        spread = np.unpackbits(rows[start : start + step], axis=1, count=bits, bitorder="little")
        whole = len(spread) // 255 * 255
        stacked = spread[:whole].reshape(-1, 255, bits).sum(axis=1, dtype=np.uint8)
        counts += stacked.sum(axis=0, dtype=np.int64) + spread[whole:].sum(axis=0, dtype=np.int64)
    return counts
