"""Open dashboards: each is sent the same state when it has changed, by server-sent events.

Whatever the number of viewers, a campaign is looked at once for all of them: at most once a second,
and so seldom that looking takes a small part of one core (`SHARE`). Nobody looks at a campaign that
nobody watches, but for a glance each minute, from which trails and the pace are made.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Protocol

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from murmuration.collector.store import Store, StoreError
from murmuration.server.fair_use import Part
from murmuration.server.live import Live, Trails
from murmuration.server.page_files import PRIVATE

log = logging.getLogger("murmuration.server")

TICK_SECONDS = 1.0
"""Between two looks, at least."""
SHARE = 0.03
"""Of one core, that looking may take."""
BEAT_SECONDS = 15.0
"""A connection on which nothing is sent is closed by some proxies."""
IDLE_SECONDS = 60.0
STILL = b": still here\n\n"

Books = tuple[Any, Any]
"""A status, and what figures are made from: of one moment."""
Read = Callable[[Callable[[Store], Books]], Awaitable[Books]]
Compute = Callable[..., Awaitable[bytes]]


class Watching(Protocol):
    """Looks at one campaign, and makes states of what was read, for all who look."""

    def look(self, store: Store) -> Books:
        """Read what has arrived, and what figures are made from: of one moment."""

    def state(self, status: Any, counted: Any, /) -> Live:
        """Return the campaign as it is now."""

    def trails(self) -> Trails:
        """Return how it has come here."""


class Watcher:
    """One campaign, looked at for all who watch it."""

    def __init__(self, watch: Watching, read: Read, compute: Compute) -> None:
        self._watch, self._read, self._compute = watch, read, compute
        self._viewers = 0
        self._wanted, self._news = asyncio.Event(), asyncio.Event()
        self._books: Books | None = None
        self._looked = 0.0
        self.version = 0
        self.event = self._json = b""
        self.ended = False

    async def once(self) -> bytes:
        """Return the state as JSON, for whoever asks once; those who watch share it."""
        self._wanted.set()
        if time.monotonic() - self._looked > TICK_SECONDS:
            await self._refresh()
        return self._json

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            if not self._viewers:
                self._wanted.clear()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._wanted.wait(), IDLE_SECONDS)
            began = time.perf_counter()
            try:
                await self._refresh()
            except StoreError:  # the next time, then
                pass
            except Exception as failure:  # a page that stands still is no reason to stop collecting
                log.error("looking at a campaign failed: %s", type(failure).__name__)
            spent = time.perf_counter() - began
            await asyncio.sleep(max(TICK_SECONDS, spent / SHARE))

    async def _refresh(self) -> None:
        """Make a new state if anything has changed, or the last one is no longer fresh."""
        books = await self._read(self._watch.look)
        old = time.monotonic() - self._looked > BEAT_SECONDS
        if self._books is not None and not old and _same(self._books, books):
            return
        self._json = await self._compute(self._state, books)
        self.event = _event("state", self._json)
        self._books, self._looked = books, time.monotonic()
        self.version += 1
        self._tell()

    def _state(self, books: Books) -> bytes:
        return msgspec.json.encode(self._watch.state(*books))

    async def trails(self) -> bytes:
        """Return what a viewer is sent first; made where states are made."""
        return await self._compute(self._trails)

    def _trails(self) -> bytes:
        return _event("trail", msgspec.json.encode(self._watch.trails()))

    def _tell(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()

    async def newer(self, version: int, seconds: float) -> None:
        """Return when there is a newer state, or the time is over."""
        if self.version == version and not self.ended:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), seconds)

    def joined(self) -> None:
        """Note one more viewer: the first one wakes the watcher."""
        self._viewers += 1
        self._wanted.set()

    def left(self) -> None:
        """Note one viewer less."""
        self._viewers -= 1

    def end(self) -> None:
        """Let all viewers go."""
        self.ended = True
        self._tell()


class Events(Response):
    """An answer that goes on while the viewer stays, may look, and the collector runs."""

    media_type = "text/event-stream"

    def __init__(
        self, watcher: Watcher, place: Part, allowed: Callable[[], Awaitable[bool]]
    ) -> None:
        super().__init__(headers={**PRIVATE, "x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._watcher, self._place, self._allowed = watcher, place, allowed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until either side ends it."""
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        self._watcher.joined()
        try:
            await send(start)
            if scope["method"] != "HEAD":
                await _first_of(self._sending(send), _gone(receive))
            await send({"type": "http.response.body", "body": b""})
        finally:
            self._watcher.left()
            self._place.give_back()

    async def _sending(self, send: Send) -> None:
        watcher, seen = self._watcher, 0
        await _write(send, await watcher.trails())
        while not watcher.ended and await self._allowed():
            version = watcher.version
            if version:
                await _write(send, watcher.event if version != seen else STILL)
            seen = version
            await watcher.newer(version, BEAT_SECONDS)


async def _write(send: Send, data: bytes) -> None:
    await send({"type": "http.response.body", "body": data, "more_body": True})


async def _gone(receive: Receive) -> None:
    """Return when the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _first_of(*calls: Awaitable[None]) -> None:
    """Run several until one has ended; the others are given up."""
    tasks = [asyncio.ensure_future(call) for call in calls]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _same(some: Books, others: Books) -> bool:
    """Whether nothing has been counted, refused or merged in between: a status says how much."""
    return bool(some[0] == others[0])


def _event(name: str, data: bytes) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), data)
