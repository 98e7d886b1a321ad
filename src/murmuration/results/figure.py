"""One number of a result: a mean, an item's share, or a bin's share, with its interval."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """One number of a result, in the attribute's own units."""

    attribute: str
    item: str
    """The label or the bin; "mean" for a mean."""
    value: float
    stderr: float | None
    """None where there is no honest one (a bin of a fitted distribution)."""
    low: float | None
    high: float | None
    n: int
    epsilon: float
    unit: str = ""
    note: str = ""
