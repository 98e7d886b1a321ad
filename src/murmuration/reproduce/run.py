"""Run figures: every job as often as the scale says, on all cores, each run written down once.

What comes of a run follows from the seed, the figure, the job's name and the number of the run, and
from nothing else. Runs are appended to a file that is named after the scale, the seed and the code;
so a reproduction that was stopped goes on where it was, and one of other code begins anew.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property, lru_cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from murmuration.lab.engine import Cell, Engine
from murmuration.reproduce import registry
from murmuration.reproduce.curves import Curves, Point
from murmuration.reproduce.figure import Audited, Figure, Finding, Job, Name, Scale, verdict

SOURCE = Path(__file__).parents[1]
MOST_AT_ONCE = 16
"""Runs that a process is handed at once: many are done in milliseconds."""


@dataclass(frozen=True)
class Task:
    """Some runs of one job of a figure; it travels to another process."""

    figure: str
    scale: str
    seed: int
    cell: Cell


@dataclass(frozen=True)
class Outcome:
    """A figure that was run: its points, findings and verdict, and how long it took."""

    id: str
    figure: Figure
    curves: Curves
    findings: list[Finding]
    audits: Sequence[Audited]
    seconds: float
    """Of one core."""
    runs: int

    @property
    def verdict(self) -> str:
        """What the findings come to."""
        return verdict(self.findings)

    @property
    def as_expected(self) -> bool:
        """Whether it is the verdict that the figure is known to have."""
        return self.verdict == self.figure.verdict


@dataclass
class Run:
    """A figure at a scale, in a folder where its runs are kept."""

    id: str
    scale: Scale
    seed: int
    folder: Path
    seconds: float = field(default=0.0, init=False)

    @cached_property
    def figure(self) -> Figure:
        """What is run."""
        return registry.figure(self.id)

    @cached_property
    def jobs(self) -> Mapping[Name, Job]:
        """The jobs by name."""
        return _jobs(self.id, self.scale.name)

    @property
    def cells(self) -> list[Cell]:
        """All runs, those of a job one after another."""
        return [Cell(name, run) for name, job in self.jobs.items() for run in range(job.runs)]

    @property
    def notes(self) -> Path:
        """The file of what is done."""
        name = self.figure.family or self.id
        return self.folder / "runs" / f"{name}-{self.scale.name}-{self.seed}-{code()}.jsonl"

    def known(self) -> dict[Cell, tuple[float, list[Point]]]:
        """Return the runs that are written down; a line that was cut off is left out."""
        if not self.notes.exists():
            return {}
        found = {}
        for line in self.notes.read_text(encoding="utf-8").split("\n")[:-1]:
            note = json.loads(line)
            cell = Cell(tuple(note["job"]), note["run"])
            found[cell] = note["seconds"], [Point(*point) for point in note["points"]]
        return found

    def complete(
        self, jobs: int, advance: Callable[[int], None] = lambda _: None, session: Any = None
    ) -> Outcome:
        """Run what is missing, and return the figure's outcome."""
        known = self.known()
        left = [cell for cell in self.cells if cell not in known]
        advance(len(self.cells) - len(left))
        if left:
            self.notes.parent.mkdir(parents=True, exist_ok=True)
            with self.notes.open("a", encoding="utf-8") as file:
                for cell, (seconds, points) in self._outcomes(left, jobs, session):
                    known[cell] = seconds, points
                    file.write(_line(cell, seconds, points))
                    file.flush()
                    advance(1)
        points = [point for cell in self.cells for point in known[cell][1]]
        curves = Curves(points)
        return Outcome(
            id=self.id,
            figure=self.figure,
            curves=curves,
            findings=self.figure.judge(curves),
            audits=self.figure.audits(),
            seconds=sum(known[cell][0] for cell in self.cells),
            runs=len({point.run for point in points}),
        )

    def _outcomes(
        self, cells: Sequence[Cell], jobs: int, session: Any
    ) -> Iterator[tuple[Cell, tuple[float, list[Point]]]]:
        tasks = [Task(self.id, self.scale.name, self.seed, cell) for cell in cells]
        if session is not None:
            rows = session.sparkContext.parallelize(tasks, len(tasks)).map(measured)
            yield from zip(cells, rows.toLocalIterator(), strict=True)
        elif jobs == 1 or len(tasks) == 1:
            yield from zip(cells, map(measured, tasks), strict=True)
        else:
            several = max(1, min(MOST_AT_ONCE, len(tasks) // (8 * jobs)))
            found = _pool(jobs).map(measured, tasks, chunksize=several)
            yield from zip(cells, found, strict=True)


@lru_cache(maxsize=1)
def _pool(jobs: int) -> ProcessPoolExecutor:
    """Start processes once for all figures; each computes with one thread."""
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    return ProcessPoolExecutor(jobs, get_context("spawn"))


@lru_cache(maxsize=4)
def _jobs(name: str, scale: str) -> Mapping[Name, Job]:
    return registry.figure(name).jobs(Scale(scale))


def measured(task: Task) -> tuple[float, list[Point]]:
    """Run one cell, in whatever process; return its points with the seconds that it took."""
    start = time.process_time()
    jobs = _jobs(task.figure, task.scale)
    engine = Engine({task.cell.name: jobs[task.cell.name].work}, 1, task.seed)
    points = list(engine.run(task.cell))
    return time.process_time() - start, points


def _line(cell: Cell, seconds: float, points: Sequence[Point]) -> str:
    rows = [[point.panel, point.series, point.x, point.value, point.run] for point in points]
    note = {"job": cell.name, "run": cell.repetition, "seconds": round(seconds, 4), "points": rows}
    return json.dumps(note) + "\n"


@lru_cache(maxsize=1)
def code() -> str:
    """Return a digest of this package's code: runs of other code are not mixed in."""
    digest = hashlib.sha256()
    for path in sorted(SOURCE.rglob("*.py")):
        digest.update(path.relative_to(SOURCE).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def tidy(outcome: Outcome) -> dict[str, list[Any]]:
    """Return all points as columns: one row for each run of each series at each x."""
    names = [one.name for one in fields(Point)]
    rows = [asdict(point) for point in outcome.curves.points]
    columns: dict[str, list[Any]] = {"figure": [outcome.id] * len(rows)}
    return columns | {name: [row[name] for row in rows] for name in names}


def summary(outcome: Outcome) -> dict[str, Any]:
    """Return what was found, as JSON."""
    return {
        "id": outcome.id,
        "paper": registry.paper_of(outcome.id),
        "where": outcome.figure.where,
        "claim": outcome.figure.claim,
        "verdict": outcome.verdict,
        "expected": outcome.figure.verdict,
        "findings": [asdict(finding) for finding in outcome.findings],
        "audits": [asdict(one) for one in outcome.audits],
        "runs": outcome.runs,
        "seconds": round(outcome.seconds, 2),
    }
