"""Devices, collectors and trainings that are interrupted: nothing is lost, nothing counts twice.

The tests have a few of them; these are the pieces of evidence with many.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from experiments.piece import Piece, Row, totals
from tests.support import schedules, training_torture
from tests.support.interleavings import CASES, explore, fast_files
from tests.support.torture import torture

PER_PART = 50
KILLS_PER_PART = 25
WALKS = [replace(case, copies=copies) for copies in (False, True) for case in CASES.values()]


def lives(part: int) -> Row:
    """Let devices live: one report per answer, and no limit is passed."""
    return {"lives": PER_PART, **schedules.run(PER_PART, first=PER_PART * part)}


def interleavings(part: int) -> Row:
    """Visit every state that two ledgers of one key can be in."""
    with tempfile.TemporaryDirectory() as folder, fast_files():
        happened = explore(WALKS[part], Path(folder))
    states = happened.pop("states")
    return {"cases": 1, "states": states, "steps": happened.total()}


def kills(part: int) -> Row:
    """Kill a collector under load, and compare its store with what it acknowledged."""
    with tempfile.TemporaryDirectory() as folder:
        notes = torture(f"{folder}/store.db", KILLS_PER_PART, seed=1000 + part)
    stored = {"uploads": notes.uploads, "acknowledged": len(notes.acknowledged)}
    return {"kills": KILLS_PER_PART, "lost": 0, "double": 0, **stored}


def trainings(part: int) -> Row:
    """Kill a collector during a training, and compare rounds and model bit for bit."""
    with tempfile.TemporaryDirectory() as folder:
        done = training_torture.train(f"{folder}/store.db", KILLS_PER_PART, 1000, part)
    return {"trainings": 1, "kills": done, "differences": 0}


LIVES = Piece(
    "random lives of devices: one report per answer, and no limit is passed",
    lives,
    parts=200,
    sample=(0, 100),
    figures=totals,
)
INTERLEAVINGS = Piece(
    "two ledgers of one key, every interleaving of steps, kills and copies in small cases",
    interleavings,
    parts=len(WALKS),
    sample=(0,),
    figures=totals,
)
KILLS = Piece(
    "a collector that is killed under load: nothing is lost, nothing counts twice",
    kills,
    parts=20,
    sample=(0,),
    figures=totals,
    alone=True,
)
TRAININGS = Piece(
    "a collector that is killed during trainings: the same rounds and the same model",
    trainings,
    parts=4,
    sample=(0,),
    figures=totals,
    alone=True,
)
