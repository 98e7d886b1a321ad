"""The state behind the routes: campaigns, the queue to the store, a reader, and their threads."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TypeVar, TypeVarTuple, Unpack

from starlette.applications import Starlette

from murmuration.campaign.kind import Campaign
from murmuration.collector.access.participants import close_periods, has_closed
from murmuration.collector.files.sink import ToFolder
from murmuration.collector.served import Served
from murmuration.collector.store import Store, StoreError, Token
from murmuration.errors import MurmurationError
from murmuration.server.access import Gate
from murmuration.server.body import Room
from murmuration.server.client_files import client_files
from murmuration.server.encoded import Encoded
from murmuration.server.fair_use import Share
from murmuration.server.ingest import Ingest
from murmuration.server.kinds import Runner, kind_of
from murmuration.server.limits import Limits
from murmuration.server.page_files import page_files
from murmuration.server.signing import Front, cookie_name
from murmuration.server.streams import Watcher
from murmuration.server.watch import Truths
from murmuration.wire.report import JSON

log = logging.getLogger("murmuration.server")

SEAL_SECONDS = 5.0
"""Between two looks at which logs of reports can be sealed."""
END_SECONDS = 30.0
"""Between two looks at which tokens have ended."""

_T = TypeVar("_T")
_Values = TypeVarTuple("_Values")


class Collector:
    """All that requests share.

    The store is written to by one thread (`Ingest`) and read by another, through a connection that
    only reads. Figures are computed, and large bodies parsed, in two more, so that neither keeps
    the others waiting.
    """

    def __init__(
        self,
        store: Store,
        served: Sequence[Served[Campaign]],
        limits: Limits | None = None,
        front: Front | None = None,
        truths: Truths | None = None,
        reports: ToFolder | None = None,
    ) -> None:
        self.limits = limits or Limits()
        self._reports = reports
        self.served = {each.campaign.name: each for each in served}
        self.documents = {each.campaign.name: _document(each) for each in served}
        self.client_files, self.pages = client_files(), page_files()
        self.front, self._truths = front or Front(), truths
        self.room = Room(self.limits.bodies_bytes)
        self.turns = Share(self.limits.requests, "too-many-requests")
        self.streams = Share(self.limits.streams, "too-many-requests")
        self.planning = asyncio.Lock()
        self.open_requests = 0
        self.answers: Counter[tuple[str, int]] = Counter()
        self.started = time.time()
        self._store = store
        self._reader = store.reader()
        self.cookie = cookie_name(store.collector_name())
        self.watchers: dict[str, Watcher] = {}
        self.runners: dict[str, Runner] = {}
        self._reading = ThreadPoolExecutor(1, thread_name_prefix="murmur-read")
        self._figures = ThreadPoolExecutor(1, thread_name_prefix="murmur-figures")
        self._parsing = ThreadPoolExecutor(1, thread_name_prefix="murmur-parse")
        self._sealing = ThreadPoolExecutor(1, thread_name_prefix="murmur-seal")
        self.gate = Gate(self._tokens)

    @asynccontextmanager
    async def running(self, app: Starlette) -> AsyncIterator[None]:
        """Start writing; at the end write what has arrived."""
        del app
        self.ingest = Ingest(self._store, self.limits.waiting_seconds, self._reports)
        self.ingest.start()
        running = [self._end_tokens()]
        if self._reports is not None:
            running.append(self._seal(self._reports))
        for name, served in self.served.items():
            watch = kind_of(served).watch(served, self._truths)
            self.watchers[name] = watcher = Watcher(watch, self.read, self.compute)
            self.runners[name] = runner = kind_of(served).runner(
                served, self.read, self.ingest.write
            )
            await runner.begin()
            running += [watcher.run(), runner.run()]
        tasks = [asyncio.create_task(each) for each in running]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self.ingest.stop()
            for threads in (self._reading, self._figures, self._parsing, self._sealing):
                threads.shutdown(wait=True)
            if self._reports is not None:
                self._reports.end(self._store)
            self._reader.close()
            self._store.close()

    async def read(self, ask: Callable[[Store, Unpack[_Values]], _T], *values: *_Values) -> _T:
        """Ask the reading connection, in its own thread."""
        return await _in(self._reading, partial(ask, self._reader, *values))

    async def compute(self, figure: Callable[[Unpack[_Values]], _T], *values: *_Values) -> _T:
        """Compute figures, in their own thread."""
        return await _in(self._figures, partial(figure, *values))

    async def parse(self, decode: Callable[[Unpack[_Values]], _T], *values: *_Values) -> _T:
        """Parse a large body, in a thread of its own."""
        return await _in(self._parsing, partial(decode, *values))

    def end_streams(self) -> None:
        """Let all viewers go: the server waits for open answers before it ends."""
        for watcher in self.watchers.values():
            watcher.end()

    async def _tokens(self) -> list[Token]:
        """Return tokens and sessions; what a text may do is known by its hash."""
        return await self.read(lambda store: [*store.tokens(), *store.sessions()])

    async def _seal(self, reports: ToFolder) -> None:
        """Make Parquet parts of logs, now and then; what fails is tried again."""
        while True:
            try:
                await self.ingest.write(reports.rotate)
                for log_file in [*reports.sealing]:
                    await _in(self._sealing, partial(reports.seal, log_file))
                    await self.ingest.write(reports.forget, log_file)
            except (OSError, MurmurationError) as problem:
                log.error("a log of reports is not sealed yet: %s", problem)
            await asyncio.sleep(SEAL_SECONDS)

    async def _end_tokens(self) -> None:
        """Mark tokens that have ended, now and then: a clock that steps back revives none.

        And delete which participants' tokens were used in periods that are over.
        """
        while True:
            now = int(time.time())
            with suppress(StoreError):  # the next time, then
                if await self.read(_overdue, now):
                    await self.ingest.write(Store.end_overdue, now)
                for served in self.served.values():
                    if await self.read(has_closed, served.campaign):
                        await self.ingest.write(close_periods, served.campaign)
            await asyncio.sleep(END_SECONDS)


def _overdue(store: Store, now: int) -> bool:
    """Whether tokens have ended that are not marked yet, or sessions that are still kept."""
    return store.has_sessions(now) or any(0 < token.expires <= now for token in store.tokens())


def _document(served: Served[Campaign]) -> Encoded:
    """Return a campaign's document as it is answered."""
    tag = f"{served.campaign.digest[:32]}-{served.version}"
    return Encoded.of(served.document, JSON, tag, cache_control="public, max-age=60")


async def _in(threads: ThreadPoolExecutor, call: Callable[[], _T]) -> _T:
    return await asyncio.get_running_loop().run_in_executor(threads, call)
