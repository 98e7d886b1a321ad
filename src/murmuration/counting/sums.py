"""What an engine adds up: for each period all cells' counters in one vector, and what was refused.

Sums are integers that add, so parts of files, processes and machines give the same in any order.
They are small: nothing in them depends on how many reports there are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from murmuration.campaign.form import ByPeriod
from murmuration.exact.arrays import Ints
from murmuration.mechanisms.frame import Frame


@dataclass
class Sums:
    """What some reports add up to.

    read: reports that were looked at
    duplicates: of these, how many have an id that was counted already
    refused: how many were not counted, by reason
    periods: for each period the sums of the frame (`Frame.sums`)
    """

    read: int = 0
    duplicates: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    periods: dict[int, Ints] = field(default_factory=dict)

    @property
    def counted(self) -> int:
        """Reports that are in the tallies."""
        return self.read - self.duplicates - self.refused.total()

    def add(self, other: Sums) -> Sums:
        """Add other reports to these, in place."""
        self.read += other.read
        self.duplicates += other.duplicates
        self.refused.update(other.refused)
        for period, vector in other.periods.items():
            held = self.periods.get(period)
            self.periods[period] = vector.copy() if held is None else held + vector
        return self

    def refuse(self, reason: str, n: int) -> None:
        """Note that n reports are not counted."""
        if n:
            self.refused[reason] += n

    def without(self, extra: Sums) -> None:
        """Take reports out again that were counted before: the others of their ids stay."""
        self.duplicates += extra.read
        for period, vector in extra.periods.items():
            self.periods[period] = self.periods[period] - vector
        self.periods = {p: vector for p, vector in self.periods.items() if vector.any()}

    def tallies(self, frame: Frame) -> ByPeriod:
        """Return the tallies of each period; of period 0 at least."""
        periods = {p: frame.tallies(vector) for p, vector in sorted(self.periods.items())}
        return periods or {0: frame.empty()}

    def to_json(self) -> dict[str, Any]:
        """Return what became of the reports, for people and machines."""
        return {
            "read": self.read,
            "counted": self.counted,
            "duplicates": self.duplicates,
            "refused": dict(sorted(self.refused.items())),
        }


def total(parts: Iterable[Sums]) -> Sums:
    """Add up.

    >>> total([Sums(read=2), Sums(read=3, duplicates=1)]).counted
    4
    """
    whole = Sums()
    for part in parts:
        whole.add(part)
    return whole
