"""Group commit: uploads wait together for one transaction, and are answered after it.

While a thread commits one group, the next one gathers; so the disk is asked as often as it can
answer, and no more. What waits is bounded, and each client has its share of it (`shares`): beyond
that, uploads are turned away at once. Clients take turns: one that sends much waits longest.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TypeVar, TypeVarTuple, Unpack

from murmuration.collector.commit import Batch, commit
from murmuration.collector.files.sink import ToFolder
from murmuration.collector.store import Store, StoreError, StoreFullError
from murmuration.server.fair_use import Part, Share
from murmuration.server.problems import Problem

log = logging.getLogger("murmuration.server")

MOST_WAITING = 200_000
"""Reports that may wait for the store."""
MOST_GROUP = 65_536
"""Reports in one transaction."""
MOST_GROUP_BYTES = 8 << 20
"""Of their ids and rows, of which there are several copies meanwhile."""
FREE = 1
"""Reports of an upload that are nobody's share: a full queue must not keep out a single one."""

_T = TypeVar("_T")
_Values = TypeVarTuple("_Values")


@dataclass(frozen=True, slots=True)
class Waiting:
    """An upload in the queue: what to commit, whom to tell, and its part of the client's share."""

    batch: Batch
    done: asyncio.Future[None]
    part: Part

    @property
    def size(self) -> int:
        """How many reports wait; a body that could not be read is one."""
        return max(1, len(self.batch))


class Queue:
    """Uploads that wait, by client: each client in turn, and each one's in the order they came.

    >>> queue = Queue()
    >>> for who, upload in [("a", 1), ("a", 2), ("a", 3), ("b", 4)]:
    ...     queue.add(who, upload)
    >>> [queue.take() for _ in range(4)]
    [1, 4, 2, 3]
    """

    def __init__(self) -> None:
        self._by: dict[str, deque[Waiting]] = {}

    def __bool__(self) -> bool:
        return bool(self._by)

    def add(self, who: str, one: Waiting) -> None:
        """Put an upload behind the others of its client."""
        self._by.setdefault(who, deque()).append(one)

    def first(self) -> Waiting:
        """Return the upload whose turn it is."""
        return next(iter(self._by.values()))[0]

    def take(self) -> Waiting:
        """Take it out; its client is the last to have another turn."""
        who = next(iter(self._by))
        uploads = self._by.pop(who)
        one = uploads.popleft()
        if uploads:
            self._by[who] = uploads
        return one


class Ingest:
    """The queue before the store, and the one thread that writes."""

    def __init__(
        self,
        store: Store,
        most_waiting: int = MOST_WAITING,
        reports: ToFolder | None = None,
    ) -> None:
        self._store, self._reports = store, reports
        self._most = most_waiting
        self._share = Share(most_waiting, "overloaded")
        self._waiting = Queue()
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

    async def submit(self, batch: Batch, who: str = "") -> None:
        """Return when a client's upload is committed; raise the problem if it is not.

        One that is larger than an address may have counts as all of that, so that it can come in.
        """
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        one = Waiting(batch, done, Part(self._share, who, FREE))
        one.part.take(min(one.size, FREE + self._most // 2))
        self._waiting.add(who, one)
        self.reports_waiting += one.size
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
            batches = [one.batch for one in group]
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._thread, commit, self._store, batches, self._reports)
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
        group = [self._waiting.take()]
        size, weight = len(group[0].batch), group[0].batch.weight
        while self._waiting:
            following = self._waiting.first().batch
            size, weight = size + len(following), weight + following.weight
            if size > MOST_GROUP or weight > MOST_GROUP_BYTES:
                break
            group.append(self._waiting.take())
        return group

    def _settle(self, group: list[Waiting], problem: Problem | None) -> None:
        for one in group:
            done = one.done
            one.part.give_back()
            self.reports_waiting -= one.size
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
