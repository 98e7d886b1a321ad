"""What has changed between two periods, with an interval; and whether anything has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import overload

from murmuration.results.table import Columns, Table


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
        found = self._changes[place]
        return Changes(found, self.changed) if isinstance(found, tuple) else found

    def __len__(self) -> int:
        return len(self._changes)

    def columns(self) -> Columns:
        """Return a column for each field of a change."""
        names = [field.name for field in fields(Change)]
        return {name: [getattr(change, name) for change in self] for name in names}

    def __repr__(self) -> str:
        names = list(dict.fromkeys(change.attribute for change in self))
        return f"Changes({len(self)}: {', '.join(names)})"
