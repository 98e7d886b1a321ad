"""The engine of every study: the same collection again and again, and how far each was off.

    contest    what is collected from whom, and the ways to read what comes back
    cell       one collection of a contest: the contest's name, and which repetition it is

What comes out of a cell follows from the seed, the contest's name and the repetition, and from
nothing else: cells are run in any order, in threads or on Spark, and give the same results.
`murmur simulate` runs the contests of a study file; `murmur compare`, `compare graded` and
`compare levels` are its short forms, for a contest that is written on the command line.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from murmuration.exact.arrays import Floats
from murmuration.exact.randomness import Rng, seeded_rng

Outcome = TypeVar("Outcome", covariant=True)
Name = tuple[str | float, ...]
Named = TypeVar("Named", bound=Name)
AT_ONCE = 64
"""Cells that are handed to the threads at once; on Spark 16 per core."""


class Contest(Protocol[Outcome]):
    """One way to collect."""

    def collect(self, rng: Rng, repetition: int) -> Outcome:
        """Collect once and return what came of it."""


@dataclass(frozen=True, order=True)
class Cell:
    """One collection of a contest."""

    name: Name
    repetition: int


@dataclass(frozen=True)
class Engine(Generic[Outcome]):
    """Contests by name, how often each is run, and the seed that all randomness follows from."""

    contests: Mapping[Any, Contest[Outcome]]
    repetitions: int
    seed: int

    @property
    def cells(self) -> list[Cell]:
        """All cells, repetitions last: the first results are about every contest."""
        return [Cell(name, time) for time in range(self.repetitions) for name in self.contests]

    def run(self, cell: Cell) -> Outcome:
        """Collect once."""
        named = json.dumps([self.seed, *cell.name, cell.repetition]).encode()
        rng = seeded_rng(int.from_bytes(hashlib.sha256(named).digest()[:8], "little"))
        return self.contests[cell.name].collect(rng, cell.repetition)

    def outcomes(
        self, cells: Sequence[Cell], session: Any = None
    ) -> Iterator[tuple[Cell, Outcome]]:
        """Run cells in threads, or on Spark where there is a session; yield them in order."""
        if session is None:
            with ThreadPoolExecutor() as pool:
                for some in _batched(cells, AT_ONCE):
                    yield from zip(some, pool.map(self.run, some), strict=True)
            return
        from murmuration.counting.engines.session import tidy_errors

        context = session.sparkContext
        held = context.broadcast(self)
        for some in _batched(cells, 16 * context.defaultParallelism):
            with tidy_errors():
                work = context.parallelize(some, len(some))
                outcomes = work.map(lambda cell: (cell, held.value.run(cell))).collect()
            yield from outcomes


def _batched(cells: Sequence[Cell], n: int) -> Iterator[Sequence[Cell]]:
    for start in range(0, len(cells), n):
        yield cells[start : start + n]


# --- contests whose outcome is a list of errors --------------------------------------------------

Errors = Sequence[float]
"""How far each way to read one collection was off."""


@dataclass(frozen=True)
class Measured:
    """The mean of one reading's errors over all repetitions, and its standard error."""

    mean: float
    stderr: float


def measured(
    contests: Mapping[Named, Contest[Errors]], repetitions: int, seed: int
) -> Iterator[tuple[Named, list[Measured]]]:
    """Yield each contest's name with the mean error of each of its readings, one after another."""
    for name in contests:
        engine = Engine({name: contests[name]}, repetitions, seed)
        errors: Floats = np.array([outcome for _, outcome in engine.outcomes(engine.cells)])
        means, spreads = errors.mean(axis=0), errors.std(axis=0) / math.sqrt(repetitions)
        pairs = zip(means.tolist(), spreads.tolist(), strict=True)
        yield name, [Measured(mean, spread) for mean, spread in pairs]
