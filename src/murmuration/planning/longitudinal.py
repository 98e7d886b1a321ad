"""Laws for a question that comes back: what all reports of one person tell.

    fresh       new noise for every report: T reports tell T times epsilon
    permanent   a kept answer with fresh noise: a value that stays is hidden for good, by
                `permanent`; when it changes is not hidden
    spells      a kept answer for each of C + 1 spells of time: when a value changes is hidden, too,
                all histories of values cost at most (C + 1) `permanent`

Losses are exact, from the laws' integers, and rounded up to a float. That of spells is a sum: the
reports of different spells are drawn apart, so their ratios multiply, and some reports and
histories reach the product.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from murmuration.errors import ParameterError
from murmuration.mechanisms.base import MIN_EPSILON, Mechanism
from murmuration.mechanisms.domain import Items, Number
from murmuration.planning.auto import mechanism
from murmuration.planning.candidates import ASKED_AGAIN
from murmuration.planning.choose import choose_frequency, choose_numeric

MOST_PERIODS = 1 << 20


@dataclass(frozen=True)
class OverTime(ABC):
    """A law, and what its reports tell over time."""

    law: Mechanism

    @property
    @abstractmethod
    def name(self) -> str:
        """What it is called."""

    @abstractmethod
    def stays(self, periods: int) -> float:
        """Return what the reports of so many periods tell about a value that does not change."""

    @abstractmethod
    def changes(self, periods: int) -> float:
        """Return what they tell between histories of values, at worst."""

    @property
    def bounded(self) -> bool:
        """Whether `changes` is the exact worst case of all histories; else what is reached."""
        return True

    def stderr(self, people: int) -> float:
        """Return the expected error of one period's figure, for the crowd that is hardest."""
        return math.sqrt(self.law.cost() / people / self.law.domain.figures)

    def change_stderr(self, people: int) -> float:
        """Return the error that the interval of a change between two periods allows for."""
        return math.sqrt(2 * self.stderr(people) ** 2)


@dataclass(frozen=True)
class Fresh(OverTime):
    """New noise each time.

    >>> law = Fresh(mechanism("duchi", epsilon=1.0))
    >>> law.stays(52) == law.changes(52), round(law.stays(52), 3)
    (True, 52.0)
    """

    @property
    def name(self) -> str:
        """Fresh noise."""
        return "fresh noise"

    def stays(self, periods: int) -> float:
        """T times the loss of one report."""
        return added([self.law.loss().epsilon], periods)

    def changes(self, periods: int) -> float:
        """The same: every report is about the value that there is."""
        return self.stays(periods)


@dataclass(frozen=True)
class Permanent(OverTime):
    """A permanent answer for each value, with fresh noise each time.

    >>> law = Permanent(mechanism("memoised-bit", epsilon=1.0, permanent=2.0))
    >>> round(law.stays(52), 3), round(law.changes(52), 1)
    (2.0, 36.8)
    """

    @property
    def name(self) -> str:
        """Permanent."""
        return "permanent"

    def stays(self, periods: int) -> float:
        """What so many reports about one value tell."""
        return self.law.loss_of(periods).epsilon

    def changes(self, periods: int) -> float:
        """What they tell where values change: nothing bounds it."""
        return max(self.law.told_by_changes(periods), self.stays(periods))

    @property
    def bounded(self) -> bool:
        """Exact for a number; of an item, what is reached."""
        return not self.law.by_value

    def change_stderr(self, people: int) -> float:
        """Return the same; of a number as if every value had gone from one end to the other.

        >>> law = mechanism("memoised-bit", epsilon=1.0, permanent=1.2)
        >>> [round(one.change_stderr(10_000), 4) for one in (Permanent(law), InSpells(law, 13))]
        [0.0378, 0.0306]
        """
        return math.sqrt(2 * self.stderr(people) ** 2 + 2 * self.law.opposition / people)


@dataclass(frozen=True)
class InSpells(OverTime):
    """A permanent answer for each spell of `length` periods, whatever the value does in it.

    >>> law = InSpells(mechanism("memoised-bit", epsilon=1.0, permanent=2.0), 13)
    >>> [round(law.changes(periods), 2) for periods in (1, 2, 13, 14, 52)]
    [1.0, 1.64, 2.0, 3.0, 8.0]
    """

    length: int

    @property
    def name(self) -> str:
        """Spells, and how long they are."""
        return f"spells of {self.length}"

    def stays(self, periods: int) -> float:
        """What all spells tell: each has an answer of its own, also for a value that stays."""
        whole, rest = divmod(periods, self.length)
        parts = [self.law.loss_of(self.length).epsilon] * bool(whole)
        total = added(parts, whole) if whole else 0.0
        return added([total, self.law.loss_of(rest).epsilon]) if rest else total

    def changes(self, periods: int) -> float:
        """The same: reports tell what spells began with, and not when a value changed in one."""
        return self.stays(periods)


def added(losses: Iterable[float], times: int = 1) -> float:
    """Add up losses, each so many times, and round up.

    >>> added([0.1], 3) >= 0.3
    True
    """
    total = times * sum(map(Fraction, losses))
    loss = float(total)
    return loss if Fraction(loss) >= total else math.nextafter(loss, math.inf)


# --- a choice ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Comparison:
    """The laws that one question could be asked by, over so many periods."""

    laws: tuple[OverTime, ...]
    periods: int
    people: int

    @property
    def shown(self) -> list[int]:
        """Numbers of periods that are worth a column."""
        lengths = [law.length for law in self.laws if isinstance(law, InSpells)]
        counts = {1, 2, 4, *lengths, self.periods // 2, self.periods}
        return sorted(count for count in counts if 1 <= count <= self.periods)


def compared(
    epsilon: float,
    permanent: float | None,
    k: int | None,
    periods: int,
    people: int,
    changes: Sequence[int],
) -> Comparison:
    """Return fresh noise, a permanent answer, and spells for each number of changes.

    And fresh noise that costs as much as the first spells: what their promise would buy without.

    >>> found = compared(1.0, 2.0, None, 52, 50_000, [3])
    >>> [law.name for law in found.laws]
    ['fresh noise', 'permanent', 'spells of 13', 'fresh noise, as dear']
    """
    if not 2 <= periods <= MOST_PERIODS or people < 1:
        raise ParameterError(f"there are 2 to {MOST_PERIODS:,} periods, and 1 person or more")
    if wrong := [change for change in changes if not 1 <= change < periods]:
        raise ParameterError(f"changes are 1 to {periods - 1}; got {wrong[0]}")
    size = {} if k is None else {"k": k}
    kept = ASKED_AGAIN[Number if k is None else Items]
    law = mechanism(kept, epsilon=epsilon, permanent=permanent, **size)
    spells = [InSpells(law, -(-periods // (change + 1))) for change in changes]
    laws: list[OverTime] = [Fresh(_once(epsilon, k, people)), Permanent(law), *spells]
    for total in [spell.changes(periods) for spell in spells[:1]]:
        share = math.nextafter(total / periods, 0)
        if MIN_EPSILON <= share < epsilon:
            laws.append(AsDear(_once(share, k, people)))
    return Comparison(tuple(laws), periods, people)


@dataclass(frozen=True)
class AsDear(Fresh):
    """Fresh noise whose total is that of spells."""

    @property
    def name(self) -> str:
        """Fresh noise, and why at that epsilon."""
        return "fresh noise, as dear"


def _once(epsilon: float, k: int | None, people: int) -> Mechanism:
    """Return the best mechanism for asking once."""
    if k is None:
        return choose_numeric(epsilon, 1.0, people).mechanism
    return choose_frequency(epsilon, k, 1.0, people).mechanism
