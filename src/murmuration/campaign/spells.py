"""Spells: a permanent answer for so many periods, then a new one, whatever the value does.

    period   first ........ first + length ........ first + 2 length ....
    spell    0              1                       2
    told     the value when the device first reports in the spell, and nothing of what comes after

Where spells begin is published, so a new answer tells nobody that a value changed. What all reports
of all periods tell about *any* two histories of values is at most what the answers cost, one for
each spell, exactly: spells are drawn apart, and in each the device says one answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from murmuration.errors import ParameterError


@dataclass(frozen=True)
class Spells:
    """The periods of a campaign, cut into spells.

    first: the number of the first period
    length: how many periods a spell has; the last one may have fewer
    periods: how many periods there are in all

    >>> spells = Spells(2968, 13, 50)
    >>> spells.number, spells.of(2980), spells.of(2981), spells.of(3018)
    (4, 0, 1, None)
    """

    first: int
    length: int
    periods: int

    def __post_init__(self) -> None:
        if self.first < 0 or not 1 <= self.length <= self.periods:
            raise ParameterError(
                "spells begin with a period, and have 1 to as many periods as there are"
            )

    @classmethod
    def allowing(cls, changes: int, first: int, periods: int) -> Spells:
        """Return the shortest spells, all of one length, that are no more than changes + 1.

        >>> Spells.allowing(3, 0, 50).length, Spells.allowing(3, 0, 5).number
        (13, 3)
        """
        return cls(first, -(-periods // (changes + 1)), periods)

    @property
    def number(self) -> int:
        """How many spells there are."""
        return -(-self.periods // self.length)

    @property
    def last(self) -> int:
        """The number of the last period."""
        return self.first + self.periods - 1

    def of(self, period: int) -> int | None:
        """Return the spell that a period is in; None before the first and after the last."""
        if not self.first <= period <= self.last:
            return None
        return (period - self.first) // self.length

    def sizes(self) -> Iterator[int]:
        """Yield how many periods each spell has."""
        return (
            min(self.length, self.periods - start) for start in range(0, self.periods, self.length)
        )
