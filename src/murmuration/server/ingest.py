"""Group commit: uploads wait together for one transaction, and are answered after it.

While a thread commits one group, the next one gathers; so the disk is asked as often as it can
answer, and no more. What waits is bounded: beyond that, uploads are turned away at once.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar, TypeVarTuple, Unpack

from murmuration.collector.commit import Batch, commit
from murmuration.collector.store import Store, StoreError, StoreFullError
from murmuration.server.problems import Problem

log = logging.getLogger("murmuration.server")

MOST_WAITING = 200_000
"""Reports that may wait for the store."""
MOST_GROUP = 65_536
"""Reports in one transaction."""
MOST_GROUP_BYTES = 8 << 20
"""Of their ids and rows, of which there are several copies meanwhile."""

_T = TypeVar("_T")
_Values = TypeVarTuple("_Values")
Waiting = tuple[Batch, "asyncio.Future[None]"]


class Ingest:
    """The queue before the store, and the one thread that writes."""

    def __init__(self, store: Store, most_waiting: int = MOST_WAITING) -> None:
        self._store = store
        self._most = most_waiting
        self._waiting: deque[Waiting] = deque()
        self._arrived = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="murmur-store")
        self._task: asyncio.Task[None] | None = None
        self.reports_waiting = 0
        self.commits = 0
        self.commit_seconds = 0.0
        self.failures = 0

    def start(self) -> None:
        """Begin to write."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Write what has arrived, then end."""
        while self._waiting:
            await asyncio.sleep(0.01)
        if self._task is not None:
            self._task.cancel()
        self._thread.shutdown(wait=True)

    async def submit(self, batch: Batch) -> None:
        """Return when the upload is committed; raise the problem if it is not."""
        size = max(1, len(batch))
        if self.reports_waiting + size > self._most and self._waiting:
            raise Problem("overloaded")
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((batch, done))
        self.reports_waiting += size
        self._arrived.set()
        await asyncio.shield(done)  # a client that hangs up has been counted all the same

    async def write(self, change: Callable[[Store, Unpack[_Values]], _T], *values: *_Values) -> _T:
        """Change something else in the store, between two groups: only this thread writes."""
        call = partial(change, self._store, *values)
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)

    async def _run(self) -> None:
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            while self._waiting:
                await self._write(self._next_group())

    async def _write(self, group: list[Waiting]) -> None:
        """Commit a group and answer it; if one upload breaks it, the others go in without it."""
        start, problem = time.perf_counter(), None
        try:
            batches = [batch for batch, _ in group]
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._thread, commit, self._store, batches)
        except asyncio.CancelledError:
            raise
        except BaseException as failure:
            problem = _problem_of(failure)
            self.failures += 1
        self.commits += 1
        self.commit_seconds += time.perf_counter() - start
        if problem is not None and problem.name == "internal" and len(group) > 1:
            for one in group:
                await self._write([one])
        else:
            self._settle(group, problem)

    def _next_group(self) -> list[Waiting]:
        group = [self._waiting.popleft()]
        size, weight = len(group[0][0]), group[0][0].weight
        while self._waiting:
            following = self._waiting[0][0]
            size, weight = size + len(following), weight + following.weight
            if size > MOST_GROUP or weight > MOST_GROUP_BYTES:
                break
            group.append(self._waiting.popleft())
        return group

    def _settle(self, group: list[Waiting], problem: Problem | None) -> None:
        for batch, done in group:
            self.reports_waiting -= max(1, len(batch))
            if done.cancelled():
                continue
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
