"""What has changed between two periods, with an interval; and whether anything has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import overload

from murmuration.results.table import Columns, Table

SMALLEST = 1e-12
"""A chance below that is said to be below."""


@dataclass(frozen=True)
class Change:
    """By how much one figure is larger in one period than in an earlier one."""

    attribute: str
    item: str
    before: str
    after: str
    value: float
    """The later figure less the earlier one; of shares, 0.05 is five points."""
    stderr: float
    low: float
    high: float
    unit: str = ""
    note: str = ""

    @property
    def certain(self) -> bool:
        """Whether the interval leaves out no change at all."""
        return not self.low <= 0 <= self.high


@dataclass(frozen=True)
class Changed:
    """Whether anything has changed over all periods: one test of all figures at once.

    about: "population" if it allows for other people who report in other periods; else those who
        reported, who differ where other people report, too
    p_value: how likely such a difference, or a larger one, is where nothing has changed, at most
    significance: how often, at most, the test reports a change where nothing has changed
    comparisons: how many differences were looked at
    attribute, item, before, after: the clearest of them
    """

    changed: bool
    p_value: float
    significance: float
    comparisons: int
    attribute: str = ""
    item: str = ""
    before: str = ""
    after: str = ""
    about: str = "population"
    reporters: Changed | None = None
    """The sharper test, of those who reported."""

    def __str__(self) -> str:
        """Say in words what was found.

        >>> print(Changed(False, 1.0, 0.05, 3, "pet", "dog", "2026-W46", "2026-W47"))
        Has anything changed? No change is certain (p = 1, 3 comparisons, significance 0.05).
        >>> print(Changed(True, 1e-3, 0.05, 3, "pet", "dog", "2026-W46", "2026-W47"))
        Has anything changed? Yes: pet, dog, 2026-W46 against 2026-W47 (p = 0.001, 3 comparisons, \
significance 0.05).
        """
        where = f"Yes: {self._where}" if self.changed else "No change is certain"
        said = f"Has anything changed? {where} ({self._chance})."
        if self.reporters is None:
            return said
        other = self.reporters
        if not other.changed:
            return f"{said} Nor is a difference of those who reported ({other._chance})."
        return (
            f"{said} Those who reported differ: {other._where} ({other._chance}). Other people may "
            "have reported in each."
        )

    @property
    def _where(self) -> str:
        return f"{self.attribute}, {self.item}, {self.before} against {self.after}"

    @property
    def _chance(self) -> str:
        small = self.p_value < SMALLEST
        chance = f"p below {SMALLEST:g}" if small else f"p = {self.p_value:.2g}"
        return f"{chance}, {self.comparisons:,} comparisons, significance {self.significance:g}"


class Changes(Sequence[Change], Table):
    """Changes in their order, which are a table too: one row each.

    >>> found = Changes([Change("pet", "dog", "2026-W46", "2026-W47", 0.05, 0.01, 0.03, 0.07)])
    >>> found
    Changes(1: pet)
    >>> found.columns()["after"]
    ['2026-W47']
    """

    def __init__(self, changes: Iterable[Change] = (), changed: Changed | None = None) -> None:
        """Take changes, and the test of whether anything has changed."""
        self._changes, self.changed = tuple(changes), changed

    @overload
    def __getitem__(self, place: int) -> Change: ...

    @overload
    def __getitem__(self, place: slice) -> Changes: ...

    def __getitem__(self, place: int | slice) -> Change | Changes:
        chosen = self._changes[place]
        return Changes(chosen, self.changed) if isinstance(chosen, tuple) else chosen

    def __len__(self) -> int:
        return len(self._changes)

    def columns(self) -> Columns:
        """Return a column for each field of a change."""
        names = [field.name for field in fields(Change)]
        return {name: [getattr(change, name) for change in self] for name in names}

    def __repr__(self) -> str:
        names = list(dict.fromkeys(change.attribute for change in self))
        return f"Changes({len(self)}: {', '.join(names)})"
