"""A piece of evidence: what takes longer than a test may, cut into parts that can be resumed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]
"""What one part measures, as JSON."""
Figures = dict[str, float]
"""What pages quote, by name."""


@dataclass(frozen=True)
class Piece:
    """A measurement in parts."""

    what: str
    part: Callable[[int], Row]
    """Measure one part. Its number is its seed: the same number, the same row."""
    parts: int
    sample: Sequence[int]
    """The parts that `make test` runs; five seconds, more or less."""
    figures: Callable[[Sequence[Row]], Figures]
    """Turn rows into figures; AssertionError where a promise is broken."""
    table: Callable[[Figures], str] | None = None
    """A table of the figures, as a page shows it."""
    alone: bool = False
    """Whether parts run one at a time, because they start processes of their own."""


def totals(rows: Sequence[Row]) -> Figures:
    """Add counts by name.

    >>> totals([{"lives": 2, "lost": 1}, {"lives": 2}])
    {'lives': 4, 'lost': 1}
    """
    counts: Counter[str] = Counter()
    for row in rows:
        counts.update(row)
    return dict(sorted(counts.items()))


def require_share(share: float, promised: float, tries: int, what: str) -> None:
    """Refuse a share that is more than 4 standard errors below the promised one."""
    least = promised - 4 * math.sqrt(promised * (1 - promised) / tries)
    assert share >= least, f"{what}: {share:.4f} of {tries}, {promised:g} is promised"


def markdown(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Return a table.

    >>> print(markdown(["", "error"], [["duchi", "1.2"]]))
    | | error |
    |---|---|
    | duchi | 1.2 |
    """
    rows = ["".join(f"| {cell} " if cell else "| " for cell in row) + "|" for row in (head, *lines)]
    return "\n".join([rows[0], "|---" * len(head) + "|", *rows[1:]])
