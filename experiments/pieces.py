"""All pieces of evidence, by name. To add one, write a module with a `PIECE`, and a line here."""

from __future__ import annotations

from experiments import (
    changes,
    coverage,
    graded,
    interrupted,
    intervals,
    learning_gain,
    levels,
    longrun,
    papers,
    periods,
    scores,
    siblings,
    training,
)
from experiments.piece import Piece

PIECES: dict[str, Piece] = {
    "coverage": coverage.PIECE,
    "intervals": intervals.PIECE,
    "lives": interrupted.LIVES,
    "interleavings": interrupted.INTERLEAVINGS,
    "kills": interrupted.KILLS,
    "trainings": interrupted.TRAININGS,
    "periods": periods.PIECE,
    "longrun": longrun.PIECE,
    "changes": changes.PIECE,
    "graded": graded.PIECE,
    "levels": levels.PIECE,
    "training": training.PIECE,
    "learning": learning_gain.PIECE,
    "scores": scores.PIECE,
    "siblings": siblings.PIECE,
    "papers": papers.PIECE,
}
