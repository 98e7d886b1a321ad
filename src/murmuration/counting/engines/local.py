"""Tally files on this machine: all cores, bounded memory, each id once.

Threads read and count: Arrow and numpy mostly let go of the interpreter while they work, and
threads share everything. Each takes some millions of reports at a time.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any, Protocol, TypeVar

from murmuration.campaign.form import ReportForm
from murmuration.counting.engines import spill
from murmuration.counting.engines.parts import Part, Unit, counted, units
from murmuration.counting.engines.spill import Spill, Spilled
from murmuration.counting.engines.state import State
from murmuration.counting.kernel import CountedReports
from murmuration.counting.sketch import NOTHING, Sketch, sketched
from murmuration.counting.sums import Sums, total
from murmuration.errors import FormatError, ParameterError

MEMORY = 1 << 28
"""Bytes that finding duplicates may take, about, over all threads."""
LEAST_MEMORY = 1 << 24
_Given = TypeVar("_Given")
_Made = TypeVar("_Made")


class Bar(Protocol):
    """What shows how far the work is: a `rich.progress.Progress` is one."""

    def add_task(self, description: str, *, total: float | None) -> Any:
        """Begin a line for a kind of work; return its name."""

    def advance(self, task_id: Any, advance: float) -> None:
        """Note that so much more of it is done."""


@dataclass(frozen=True)
class How:
    """How files are counted.

    dedup: whether an id counts once; without, all ids are taken to be different
    memory: bytes that finding duplicates may take
    threads: how many work at once; all cores unless told otherwise
    fresh: read all parts again, whatever is known of them
    secret: the key under which collectors compare ids; with it, `Done` has a sketch of them
    bar: where to show how far it is
    """

    dedup: bool = True
    memory: int = MEMORY
    threads: int = field(default_factory=lambda: os.cpu_count() or 1)
    fresh: bool = False
    secret: bytes | None = None
    bar: Bar | None = None
    _tasks: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.secret is not None and not self.dedup:
            raise ParameterError("a sketch of ids needs them: count each id once (--dedup)")
        if self.threads < 1 or self.memory < LEAST_MEMORY:
            raise ParameterError(f"threads are 1 or more, memory {LEAST_MEMORY:,} bytes or more")

    def told(self, what: str, more: int, of: int) -> None:
        """Say how far it is: so many reports more, of so many in all (0: not known)."""
        if self.bar is None:
            return
        if what not in self._tasks:
            self._tasks[what] = self.bar.add_task(what, total=of or None)
        self.bar.advance(self._tasks[what], more)


@dataclass(frozen=True)
class Done:
    """What files add up to, and which of them had to be read for it."""

    sums: Sums
    read: tuple[str, ...]
    known: tuple[str, ...]
    gone: tuple[str, ...]
    name: str
    """Of these files as a collector of their own; it stays with the state."""
    sketch: Sketch
    """Of the ids that were counted, where there is a secret."""


def tally(
    form: ReportForm, parts: Sequence[Part], state: Path | None = None, how: How | None = None
) -> Done:
    """Count the reports of files; with a `state` folder only what is new or changed is read.

    Of reports with one id and different bytes the smallest counts.
    """
    how = how or How()
    with _folder(state, form, how) as kept:
        gone = sorted(set(kept.parts) - {part.name for part in parts})
        kept.forget(gone)
        new = [part for part in parts if not kept.is_known(part)]
        kept.forget(part.name for part in new)
        _count(form, new, kept, how)
        kept.save()
        sums = total(kept.sums())
        spilled = kept.spilled(form.row_bytes)
        if how.dedup:
            _deduct(form, sums, spilled, how)
        sketch = NOTHING if how.secret is None else _sketched(spilled, how.secret)
        kept.tidy()
    read = tuple(part.name for part in new)
    again = set(read)
    known = tuple(part.name for part in parts if part.name not in again)
    return Done(sums, read, known, tuple(gone), kept.name, sketch)


@contextmanager
def _folder(state: Path | None, form: ReportForm, how: How) -> Iterator[State]:
    """Yield the state; one that is not to be kept is in a folder that goes."""
    if state is not None:
        with State.begin(state, form, dedup=how.dedup, fresh=how.fresh) as begun:
            yield begun
        return
    with (
        tempfile.TemporaryDirectory(prefix="murmur-tally-") as folder,
        State.begin(Path(folder), form, dedup=how.dedup, fresh=False) as begun,
    ):
        yield begun


# --- counting ------------------------------------------------------------------------------------


def _count(form: ReportForm, parts: Sequence[Part], state: State, how: How) -> None:
    """Count parts, and note each when all of it is counted."""
    ends = {part.name: part.ends() for part in parts}
    work = [unit for part in parts for unit in units(part)]
    waiting = Counter(unit.part.name for unit in work)
    counted_units: dict[str, list[tuple[Sums, Spilled | None]]] = {part.name: [] for part in parts}
    expected = sum(unit.reports for unit in work)
    stop = Event()

    def work_on(unit: Unit) -> tuple[Unit, Sums, Spilled | None]:
        return (unit, *_unit(form, unit, state, how, expected, stop))

    try:
        for unit, sums, spilled in _spread(work_on, work, how.threads):
            counted_units[unit.part.name].append((sums, spilled))
            waiting[unit.part.name] -= 1
            if not waiting[unit.part.name]:
                _note(state, unit.part, ends[unit.part.name], counted_units.pop(unit.part.name))
    except BaseException:
        stop.set()
        raise


def _note(
    state: State, part: Part, ends: int, units_counted: Sequence[tuple[Sums, Spilled | None]]
) -> None:
    about = part.path.stat()
    if (about.st_size, about.st_mtime_ns) != (part.size, part.changed):
        raise FormatError(f"{part.path} was changed while it was read")
    spilled = [file for _, file in units_counted if file is not None]
    for file in spilled:
        file.save()
    state.note(part, ends, total(sums for sums, _ in units_counted), spilled)


def _unit(
    form: ReportForm, unit: Unit, state: State, how: How, expected: int, stop: Event
) -> tuple[Sums, Spilled | None]:
    """Count one unit; where ids count once, write them down."""
    sums = Sums()

    def steps() -> Iterator[CountedReports | None]:
        for added, kept in counted(unit, form, ids=how.dedup):
            if stop.is_set():  # another thread failed, or somebody pressed Ctrl-C
                raise KeyboardInterrupt
            how.told("counting", added.read, expected)
            sums.add(added)
            yield kept

    if not how.dedup:
        for _ in steps():
            pass
        return sums, None
    with Spill(state.place("spill"), form.row_bytes, state.salt) as file:
        for kept in steps():
            if kept is not None and len(kept.ids):
                file.add(kept)
        return sums, file.done()


def _deduct(form: ReportForm, sums: Sums, files: Sequence[Spilled], how: How) -> None:
    """Take out the reports whose id counts already."""
    reports = sum(file.reports for file in files)
    ranges = spill.shares(reports, how.memory // how.threads)

    def surplus_of(piece: tuple[int, int]) -> Sums:
        return spill.surplus(form, files, *piece)

    for extra in _spread(surplus_of, ranges, how.threads):
        sums.without(extra)
        how.told("finding duplicates", 1, len(ranges))


def _sketched(files: Sequence[Spilled], secret: bytes) -> Sketch:
    """Return the sketch of all ids."""
    step = spill.PARTITIONS >> 4
    ranges = [(start, start + step) for start in range(0, spill.PARTITIONS, step)]
    return sketched((file.ids(*piece) for file in files for piece in ranges), secret)


def _spread(
    work: Callable[[_Given], _Made], given: Iterable[_Given], threads: int
) -> Iterator[_Made]:
    """Yield results as they come, with no more under way than there are threads and as many."""
    left = iter(given)
    with ThreadPoolExecutor(threads, thread_name_prefix="murmur-tally") as pool:
        running: set[Future[_Made]] = set()
        try:
            while True:
                for one in left:
                    running.add(pool.submit(work, one))
                    if len(running) >= 2 * threads:
                        break
                if not running:
                    return
                done, running = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    yield future.result()
        finally:
            for future in running:
                future.cancel()
