"""Group commit: uploads wait together for one transaction, and are answered after it.

While a thread commits one group, the next one gathers; so the disk is asked as often as it can
answer, and no more. Uploads wait as bytes, in a queue that is fair by work (`fair_queue`): clients
share the writer's time, and one that is alone has all of it. Nobody is turned away for how much
waits, only after having waited too long. What waits takes memory: large bodies have their share of
it (`body.Room`), small ones are as many as there are connections.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar, TypeVarTuple, Unpack

from murmuration.collector.commit import Batch, commit
from murmuration.collector.files.sink import ToFolder
from murmuration.collector.store import Store, StoreError, StoreFullError
from murmuration.errors import FormatError
from murmuration.server.fair_queue import FairQueue
from murmuration.server.problems import Problem
from murmuration.wire import report

log = logging.getLogger("murmuration.server")

MOST_SECONDS = 5.0
"""How long an upload may wait for its group."""
MOST_GROUP_BYTES = 2 << 20
"""Bodies in one transaction: what they become is there several times meanwhile."""
LOOK_SECONDS = 0.25
"""Between two looks at which uploads have waited too long."""

Tell = Callable[[Problem | None], None]
"""Says why an upload was not committed; None if it was."""
_T = TypeVar("_T")
_Values = TypeVarTuple("_Values")


@dataclass(eq=False, slots=True)
class Arrived:
    """An upload that has come to its end: what to commit, and whom to tell."""

    batch: Batch
    body: bytes = b""
    """What is decoded with the group, if that has not been done."""
    kind: str = ""
    """The body's media type; empty if there is nothing to decode."""
    problem: Problem | None = None
    """Why it could not be read, once that is known."""
    size: int = field(init=False)
    """Bytes of its body: the work that it makes."""
    since: float = 0.0
    """When it was put into the queue."""
    tell: Tell | None = None

    def __post_init__(self) -> None:
        self.size = max(1, len(self.body))

    @classmethod
    def unreadable(cls, batch: Batch, problem: Problem) -> Arrived:
        """Return one that cannot be read: it counts as one report, refused."""
        batch.unreadable = 1
        return cls(batch, problem=problem)

    def decode(self) -> None:
        """Decode the body, once; one that cannot be read counts as one report, refused."""
        if not self.kind:
            return
        try:
            intake = self.batch.intake
            self.batch.incoming = report.decode(intake.form, self.body, self.kind, intake.older)
        except FormatError as problem:
            self.batch.unreadable = 1
            self.problem = Problem("unreadable-body", str(problem))
        self.body, self.kind = b"", ""


class Ingest:
    """The queue before the store, and the one thread that writes."""

    def __init__(
        self,
        store: Store,
        most_seconds: float = MOST_SECONDS,
        reports: ToFolder | None = None,
    ) -> None:
        self._store, self._reports = store, reports
        self._most_seconds = most_seconds
        self._queue = FairQueue[Arrived]()
        self._waiting: dict[Arrived, None] = {}
        """The same uploads, in the order in which they came."""
        self._arrived = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="murmur-store")
        self._tasks: list[asyncio.Task[None]] = []
        self.commits = 0
        self.commit_seconds = 0.0
        self.failures = 0

    def start(self) -> None:
        """Begin to write."""
        self._tasks = [asyncio.create_task(self._run()), asyncio.create_task(self._watch())]

    async def stop(self) -> None:
        """Write what has arrived, then end."""
        while self._queue:
            await asyncio.sleep(0.01)
        for task in self._tasks:
            task.cancel()
        self._thread.shutdown(wait=True)

    @property
    def uploads_waiting(self) -> int:
        """How many uploads wait for their group."""
        return len(self._waiting)

    @property
    def is_overloaded(self) -> bool:
        """Whether some have waited for half of the time after which they are turned away."""
        first = next(iter(self._waiting), None)
        return first is not None and time.monotonic() - first.since > self._most_seconds / 2

    async def submit(self, arrived: Arrived, who: str = "") -> None:
        """Return when a client's upload is committed; raise the problem if it is not."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.put(arrived, who, partial(_settle, done))
        await done  # a client that hangs up has been counted all the same

    def put(self, arrived: Arrived, who: str, tell: Tell) -> None:
        """Put a client's upload into the queue; `tell` is called when it is decided."""
        arrived.since, arrived.tell = time.monotonic(), tell
        self._queue.add(who, arrived.size, arrived)
        self._waiting[arrived] = None
        self._arrived.set()

    async def write(self, change: Callable[[Store, Unpack[_Values]], _T], *values: *_Values) -> _T:
        """Change something else in the store, between two groups: only this thread writes."""
        call = partial(change, self._store, *values)
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)

    async def _run(self) -> None:
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            while self._queue:
                await self._write(self._next_group())

    async def _watch(self) -> None:
        """Turn away what has waited too long, whatever the writer is doing."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            last = time.monotonic() - self._most_seconds
            late = set()
            for arrived in self._waiting:
                if arrived.since > last:
                    break
                late.add(arrived)
            if late:
                self._queue.drop(late)
                for arrived in late:
                    del self._waiting[arrived]
                _answer(late, Problem("overloaded"))

    async def _write(self, group: list[Arrived]) -> None:
        """Commit a group and answer it; if one upload breaks it, the others go in without it."""
        start, problem = time.perf_counter(), None
        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._commit, group)
        except asyncio.CancelledError:
            raise
        except BaseException as failure:
            problem = _problem_of(failure)
            self.failures += 1
        self.commits += 1
        self.commit_seconds += time.perf_counter() - start
        if problem is not None and problem.name == "internal" and len(group) > 1:
            for arrived in group:
                await self._write([arrived])
        else:
            _answer(group, problem)

    def _commit(self, group: list[Arrived]) -> None:
        for arrived in group:
            arrived.decode()
        commit(self._store, [arrived.batch for arrived in group], self._reports)

    def _next_group(self) -> list[Arrived]:
        group = [self._queue.take()]
        size = group[0].size
        while self._queue and (size := size + self._queue.first().size) <= MOST_GROUP_BYTES:
            group.append(self._queue.take())
        for arrived in group:
            del self._waiting[arrived]
        return group


def _answer(group: Iterable[Arrived], problem: Problem | None) -> None:
    """Tell each what became of it: of all together, or of its own."""
    for arrived in group:
        if arrived.tell is not None:
            arrived.tell(problem or arrived.problem)


def _settle(done: asyncio.Future[None], problem: Problem | None) -> None:
    if done.cancelled():
        return
    if problem is None:
        done.set_result(None)
    else:
        done.set_exception(problem)
        done.exception()  # a client that hung up does not fetch it


def _problem_of(failure: BaseException) -> Problem:
    if isinstance(failure, StoreFullError):
        return Problem("store-full")
    if isinstance(failure, StoreError):
        return Problem("store-unavailable")
    log.error("a commit failed: %s", type(failure).__name__)
    return Problem("internal")
