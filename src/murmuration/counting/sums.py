"""What an engine adds up: for each period all cells' counters in one vector, and what was refused.

Sums are integers that add, so parts of files, processes and machines give the same in any order.
They are small: nothing in them depends on how many reports there are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from murmuration.exact.arrays import Bits, Ints, Rows
from murmuration.mechanisms.base import Mechanism
from murmuration.mechanisms.frame import Frame
from murmuration.mechanisms.strategy import Sample
from murmuration.mechanisms.tally import Tally

ByPeriod = Mapping[int, tuple[Tally, ...]]
"""Tallies, one per cell, of each period; all of period 0 where a question does not come back."""


class Collection(Protocol):
    """What engines have to know of what they count: a campaign, or one mechanism (`Alone`)."""

    @property
    def name(self) -> str:
        """What it is called."""

    @property
    def digest(self) -> str:
        """What its files say that they are of."""

    @property
    def frame(self) -> Frame:
        """The laws."""

    @property
    def row_bytes(self) -> int:
        """The bytes of a report."""

    def valid(self, rows: Rows) -> Bits:
        """Tell for each row whether a device can have sent it."""


@dataclass(frozen=True)
class Alone:
    """Reports of one mechanism without a campaign: of an experiment, or of a model's round.

    >>> from murmuration import mechanism
    >>> Alone(mechanism("duchi", 1.0)).row_bytes
    1
    """

    mechanism: Mechanism

    @property
    def name(self) -> str:
        """The mechanism's."""
        return self.mechanism.name

    @property
    def digest(self) -> str:
        """The mechanism's fingerprint."""
        return self.mechanism.fingerprint

    @cached_property
    def frame(self) -> Frame:
        """One law, which no report has to name."""
        return Frame(((self.mechanism,),), Sample(), numbered=False)

    @property
    def row_bytes(self) -> int:
        """The mechanism's."""
        return self.mechanism.report_bytes

    def valid(self, rows: Rows) -> Bits:
        """As the mechanism says."""
        return self.mechanism.valid(rows)


@dataclass
class Sums:
    """What some reports add up to.

    read: reports that were looked at
    duplicates: of these, how many have an id that was counted already
    refused: how many were not counted, by reason
    periods: for each period every cell's people, then every cell's counters
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
        self.periods = {period: one for period, one in self.periods.items() if one.any()}

    def tallies(self, campaign: Collection) -> ByPeriod:
        """Return the tallies of each period; of period 0 at least."""
        vectors = self.periods or {0: np.zeros(_ends(campaign)[-1], dtype=np.int64)}
        return {period: _tallies(campaign, vectors[period]) for period in sorted(vectors)}

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
    found = Sums()
    for part in parts:
        found.add(part)
    return found


def vector_of(campaign: Collection, people: Ints, counters: list[Ints | None]) -> Ints:
    """Put all cells' people and counters into one vector; None stands for zeros."""
    ends = _ends(campaign)
    vector = np.zeros(ends[-1], dtype=np.int64)
    vector[: len(people)] = people
    for start, end, counts in zip(ends, ends[1:], counters, strict=False):
        if counts is not None:
            vector[start:end] = counts
    return vector


def _tallies(campaign: Collection, vector: Ints) -> tuple[Tally, ...]:
    ends, cells = _ends(campaign), campaign.frame.cells
    return tuple(
        Tally(cell, vector[ends[place] : ends[place + 1]], int(vector[place]))
        for place, cell in enumerate(cells)
    )


def _ends(campaign: Collection) -> list[int]:
    """Return where each cell's counters begin in the vector, and where the last one's end."""
    cells = campaign.frame.cells
    sizes = [len(cells), *(cell.counters for cell in cells)]
    ends: list[int] = np.cumsum(sizes).tolist()
    return ends
