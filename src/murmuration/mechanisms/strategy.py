"""Which attributes a report is about, and how that is drawn.

    Sample     each person answers a few attributes (one, unless told otherwise), drawn at random,
               independently of the answers, with all of epsilon
    Split      everybody answers every attribute; epsilon is shared out
    Together   everybody answers every attribute in one entry, by one mechanism for all of them

A strategy deals in *groups*: the laws of one attribute (one per level, where people choose levels),
or the one law of all attributes together. A report has one entry for each group that it names.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, TypeVar

import numpy as np

from murmuration.errors import ParameterError
from murmuration.exact.arrays import Ints
from murmuration.exact.randomness import WHOLE, Rng, drawn, uniform

_T = TypeVar("_T")


class Strategy(ABC):
    """How a report names groups."""

    name: ClassVar[str]
    gathers: ClassVar[bool] = False
    """Whether all attributes are one group."""

    @abstractmethod
    def entries(self, groups: int) -> int:
        """Return how many entries a report has."""

    @abstractmethod
    def asked(self, groups: int, people: int, rng: Rng) -> Ints:
        """Draw the groups that each person answers, in ascending order: one column per entry."""

    @abstractmethod
    def may_name(self, groups: Sequence[range]) -> tuple[range, ...]:
        """Return the cells that each entry can name, where groups are ranges of cells."""

    def check(self, groups: int) -> None:
        """Refuse a strategy that does not go with so many groups."""
        del groups

    def shares(self, groups: int) -> list[float]:
        """Return how many of the people answer each group."""
        return [1.0] * groups

    def grouped(self, attributes: int) -> list[tuple[int, ...]]:
        """Return the attributes of each group."""
        everything = tuple(range(attributes))
        return [everything] if self.gathers else [(attribute,) for attribute in everything]

    def costliest(self, groups: Sequence[_T], size: Callable[[_T], Any]) -> list[_T]:
        """Return those that one report can name at worst, the largest first."""
        return sorted(groups, key=size, reverse=True)[: self.entries(len(groups))]

    @abstractmethod
    def in_words(self, attributes: int) -> str:
        """Say what a report is, for people."""

    def settings(self) -> dict[str, Any]:
        """Return the strategy as it is published."""
        return {"strategy": self.name}


class _Everything(Strategy):
    """Every report names every group."""

    def entries(self, groups: int) -> int:
        """One per group."""
        return groups

    def asked(self, groups: int, people: int, rng: Rng) -> Ints:
        """Draw nothing."""
        del rng
        return np.tile(np.arange(groups), (people, 1))

    def may_name(self, groups: Sequence[range]) -> tuple[range, ...]:
        """Each entry has its own group."""
        return tuple(groups)


@dataclass(frozen=True)
class Split(_Everything):
    """Everybody answers every attribute."""

    name: ClassVar[str] = "split"

    def in_words(self, attributes: int) -> str:
        """Each attribute is answered."""
        each = f" about each of {attributes} attributes" if attributes > 1 else ""
        return f"a randomised answer{each}"


@dataclass(frozen=True)
class Together(_Everything):
    """Everybody answers every attribute in one entry."""

    name: ClassVar[str] = "together"
    gathers: ClassVar[bool] = True

    def in_words(self, attributes: int) -> str:
        """One answer is about all attributes."""
        return f"one randomised answer about all {attributes} attributes together"


@dataclass(frozen=True)
class Sample(Strategy):
    """Each person answers `sample` groups.

    sample: how many groups each person answers
    ends: how often each is asked, as cumulative weights out of 2^52; None: all alike

    >>> Sample.by_shares([1, 3]).ends == (WHOLE // 4,)
    True
    """

    name: ClassVar[str] = "sample"

    sample: int = 1
    ends: tuple[int, ...] | None = None

    @classmethod
    def by_shares(cls, shares: Iterable[float], sample: int = 1) -> Sample:
        """Return the strategy that asks groups in proportion to these shares."""
        parts = [Fraction(share) for share in shares]
        if len(set(parts)) == 1:
            return cls(sample)
        whole, upto, ends = sum(parts), Fraction(0), []
        for part in parts[:-1]:
            upto += part
            ends.append(math.floor(upto / whole * WHOLE))
        return cls(sample, tuple(ends))

    def check(self, groups: int) -> None:
        """As many as there are; shares only where one is asked."""
        if not 1 <= self.sample <= groups:
            raise ParameterError(f"sample is 1 to {groups}; got {self.sample}")
        if self.ends is None:
            return
        rising = all(a < b for a, b in zip((0, *self.ends), (*self.ends, WHOLE), strict=True))
        if len(self.ends) != groups - 1 or not rising or self.sample != 1:
            raise ParameterError(
                "shares are one for each attribute, above 0, where one of them is asked"
            )

    def entries(self, groups: int) -> int:
        """The sample."""
        del groups
        return self.sample

    def asked(self, groups: int, people: int, rng: Rng) -> Ints:
        """One word per person, or one per person and group where several are asked."""
        if self.ends is not None:
            ends = np.array(self.ends, dtype=np.int64)
            return np.searchsorted(ends, drawn(rng.words(people)), side="right")[:, None]
        if self.sample == 1:
            return uniform(rng, people, groups)[:, None]
        order = np.argsort(drawn(rng.words(people * groups)).reshape(people, groups), axis=1)
        return np.sort(order[:, : self.sample], axis=1)

    def may_name(self, groups: Sequence[range]) -> tuple[range, ...]:
        """Any cell, in every entry."""
        return (range(groups[-1].stop),) * self.sample

    def shares(self, groups: int) -> list[float]:
        """The sample's share, or that of the weights."""
        if self.ends is None:
            return [self.sample / groups] * groups
        return [float(part) for part in np.diff([0, *self.ends, WHOLE]) / WHOLE]

    def in_words(self, attributes: int) -> str:
        """Which attributes are answered is drawn."""
        many = "one attribute" if self.sample == 1 else f"{self.sample} attributes"
        return (
            f"a randomised answer about {many} of {attributes}, drawn at random, independently of "
            "the answers; which one is visible"
        )

    def settings(self) -> dict[str, Any]:
        """Sample and ends are published where they are not the usual ones."""
        return {"strategy": self.name, "sample": self.sample, "ends": self.ends}


def strategy_of(name: str, sample: int = 1, ends: Sequence[int] | None = None) -> Strategy:
    """Return the strategy of a published campaign.

    >>> strategy_of("sample", 2).entries(5)
    2
    """
    if name == Sample.name:
        return Sample(sample, None if ends is None else tuple(ends))
    for other in (Split(), Together()):
        if name == other.name and sample == 1 and ends is None:
            return other
    names = ", ".join(kind.name for kind in (Sample, Split, Together))
    raise ParameterError(f"a strategy is {names}, and only sample has a sample; got {name!r}")
