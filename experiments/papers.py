"""The four papers run again, quick: each figure's verdict is the one that it is known to have.

    python -m experiments.evidence papers

A part is a figure of `murmur reproduce`. When a claim flips, this fails.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from experiments.piece import Figures, Piece, Row
from murmuration.reproduce import registry
from murmuration.reproduce.figure import FALSE, HOLDS, IN_PART, UNTOLD, Scale
from murmuration.reproduce.run import Run, summary

IDS = registry.ids()
VERDICTS = (FALSE, IN_PART, HOLDS, UNTOLD)
EXACT = ("H-ctr", "A-T2", "D-L1", "D-var", "M-T2", "M-Th5")
"""What `make test` runs: figures of seconds."""


def part(number: int) -> Row:
    """Run a figure again."""
    with tempfile.TemporaryDirectory() as folder:
        run = Run(IDS[number], Scale("quick"), 1, Path(folder))
        return summary(run.complete(jobs=1))


def figures(rows: Sequence[Row]) -> Figures:
    """Return each figure's verdict (0 false, 1 in part, 2 holds, 3 untold) and its numbers."""
    found: Figures = {}
    for row in rows:
        verdict, expected = row["verdict"], row["expected"]
        assert verdict == expected, f"{row['id']}: {verdict}, not {expected}: {row['findings']}"
        found[f"{row['id']} verdict"] = float(VERDICTS.index(verdict))
        for place, finding in enumerate(row["findings"], start=1):
            found[f"{row['id']} {place}"] = finding["value"]
    return {name: value for name, value in found.items() if value == value}  # no nan in JSON


PIECE = Piece(
    "the claims of the four papers, each beside what is measured (murmur reproduce)",
    part,
    parts=len(IDS),
    sample=[IDS.index(name) for name in EXACT],
    figures=figures,
)
