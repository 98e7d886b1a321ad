"""What a report is made for: a campaign that asks for figures, a round of a training, or one law.

A report is a row of bytes: the number of its period, if the question comes back, then the entries
of a `Frame`. Whether a row is valid, and what rows add up to, is worked out here and in the frame,
for devices, collectors and engines alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from murmuration.campaign.periods import PERIOD_BYTES, last_possible
from murmuration.errors import ReportError
from murmuration.exact.arrays import Bits, Ints, Rows
from murmuration.mechanisms.base import Mechanism, checked_rows
from murmuration.mechanisms.frame import Entry, Frame
from murmuration.mechanisms.strategy import Sample
from murmuration.mechanisms.tally import Tally

ByPeriod = Mapping[int, tuple[Tally, ...]]
"""Tallies, one per cell, of each period that has any; all of period 0 where there are none."""


@dataclass(frozen=True)
class ReportForm:
    """What a report is made for.

    name: whose reports they are, for messages
    digest: what every report names
    frame: the laws, and which of them a report names
    every: how long a period is; None where there are none

    >>> from murmuration import mechanism
    >>> ReportForm.of(mechanism("duchi", 1.0)).row_bytes
    1
    """

    name: str
    digest: str
    frame: Frame
    every: str | None = None

    @classmethod
    def of(cls, mechanism: Mechanism) -> Self:
        """Return the form of one mechanism's reports, which do not have to name their law."""
        frame = Frame(((mechanism,),), Sample(), numbered=False)
        return cls(mechanism.name, mechanism.fingerprint, frame)

    @property
    def head_bytes(self) -> int:
        """The bytes before a report's entries: those of its period, where there are periods."""
        return 0 if self.every is None else PERIOD_BYTES

    @cached_property
    def row_bytes(self) -> int:
        """The bytes of a report: the same for everybody."""
        return self.head_bytes + self.frame.row_bytes

    def periods_of(self, rows: Rows) -> Ints:
        """Return the period of each report; 0 where there are none."""
        if self.every is None:
            return np.zeros(len(rows), dtype=np.int64)
        head = np.ascontiguousarray(rows[:, :PERIOD_BYTES])
        return head.view("<u4").astype(np.int64).reshape(-1)

    def entries(self, rows: Rows) -> list[Entry]:
        """Cut rows into entries."""
        return self.frame.entries(rows[:, self.head_bytes :])

    # --- device ----------------------------------------------------------------------------------

    def dated(self, rows: Rows, period: int | None) -> Rows:
        """DEVICE. Put a period before entries that are laid out; nothing where there is none."""
        if self.every is None or period is None:
            return rows
        head = np.frombuffer(period.to_bytes(PERIOD_BYTES, "little"), dtype=np.uint8)
        return np.concatenate([np.broadcast_to(head, (len(rows), PERIOD_BYTES)), rows], axis=1)

    # --- collector -------------------------------------------------------------------------------

    def valid(self, rows: Rows) -> Bits:
        """COLLECTOR. Tell for each row whether a device can have sent it, at some time."""
        rows = checked_rows(rows, self.row_bytes, self.name)
        fine = self.frame.valid(rows[:, self.head_bytes :], self.name)
        return fine if self.every is None else fine & self._named(rows)

    def _named(self, rows: Rows) -> Bits:
        """Tell which periods have a name."""
        return np.asarray(self.periods_of(rows) <= last_possible(self.every or ""))

    def tally(self, rows: Rows) -> tuple[Tally, ...]:
        """COLLECTOR. Count reports, of all periods together: one tally per cell.

        Refuses what no device can have sent.
        """
        rows = checked_rows(rows, self.row_bytes, self.name)
        if self.every is not None and not self._named(rows).all():
            raise ReportError("the period number of a report is out of range")
        return self.frame.tally(rows[:, self.head_bytes :], self.name)

    def sums(self, rows: Rows) -> dict[int, Ints]:
        """COLLECTOR. Add up reports that are known to be valid, by period: `Frame.sums` of each.

        Without periods all are of the number 0.
        """
        entries = rows[:, self.head_bytes :]
        if self.every is None:
            return {0: self.frame.sums(entries)} if len(rows) else {}
        periods = self.periods_of(rows)
        return {
            period: self.frame.sums(entries[periods == period])
            for period in np.unique(periods).tolist()
        }

    def tallies(self, rows: Rows) -> ByPeriod:
        """COLLECTOR. Count reports that are known to be valid: the tallies of each period."""
        return {period: self.frame.tallies(sums) for period, sums in self.sums(rows).items()}
