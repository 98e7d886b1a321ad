"""How often the interval of a private model's score has the true score.

    python -m experiments.evidence scores

Small models (6,000 people, 3 features, epsilon 4); 200,000 more people tell the true score.
"""

from __future__ import annotations

from collections.abc import Sequence

from experiments import learning
from experiments.piece import Figures, Piece, Row, require_share, totals

FITS = 10
KINDS = ("number", "classes")


def part(number: int) -> Row:
    """Train ten models of each kind."""
    fits = range(FITS * number, FITS * (number + 1))
    covered = {kind: sum(learning.covered(kind, fit)["covered"] for fit in fits) for kind in KINDS}
    return {"fits": FITS, **covered}


def figures(rows: Sequence[Row]) -> Figures:
    """Count fits, and those whose interval has the true score."""
    found = totals(rows)
    for kind in KINDS:
        require_share(found[kind] / found["fits"], 0.95, int(found["fits"]), kind)
    return found


PIECE = Piece(
    "the interval of a private model's score beside the true score",
    part,
    parts=20,
    sample=(0, 1),
    figures=figures,
)
