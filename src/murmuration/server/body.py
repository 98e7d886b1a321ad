"""Bodies, read with a limit on size (decompressed, while it streams), on time, and on all."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

from starlette.requests import ClientDisconnect, Request

from murmuration.server.limits import Limits
from murmuration.server.problems import Problem

GZIP = 16 + zlib.MAX_WBITS
PIECE = 1 << 18
"""What is decompressed at once."""
SMALL = 1 << 16
"""A body up to this size takes no room: a few large ones that never end must not keep it out."""


class Room:
    """The memory that bodies may take together."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.used = 0

    @contextmanager
    def hold(self) -> Iterator[Held]:
        """Give back what was taken when the request ends."""
        held = Held(self)
        try:
            yield held
        finally:
            self.used -= held.taken

    def take(self, size: int) -> None:
        """Take room, or say that there is none."""
        if self.used + size > self._most:
            raise Problem("overloaded")
        self.used += size


class Held:
    """What one request has taken: what its body has beyond a small one."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._size = self.taken = 0

    def take(self, size: int) -> None:
        """Take some more."""
        self._size += size
        more = max(0, self._size - SMALL) - self.taken
        self._room.take(more)
        self.taken += more


async def read(request: Request, held: Held, limits: Limits) -> bytes:
    """Return the body, decompressed; refuse what is too large as soon as it is."""
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", "gzip", ""):
        raise Problem("unsupported-type", "bodies are plain or gzip")
    if int(request.headers.get("content-length", 0)) > limits.body_bytes:
        raise Problem("too-large")
    try:
        async with asyncio.timeout(limits.body_seconds):
            parts = _gunzipped(request) if encoding == "gzip" else request.stream()
            return await _gathered(parts, held, limits.body_bytes)
    except TimeoutError:
        raise Problem("too-slow") from None
    except ClientDisconnect:
        raise Problem("unreadable-body") from None


async def _gathered(parts: AsyncIterator[bytes], held: Held, most: int) -> bytes:
    found, size = [], 0
    async for part in parts:
        size += len(part)
        if size > most:
            raise Problem("too-large")
        held.take(len(part))
        found.append(part)
    return found[0] if len(found) == 1 else b"".join(found)


async def _gunzipped(request: Request) -> AsyncIterator[bytes]:
    """Decompress as it comes, a piece at a time."""
    engine = zlib.decompressobj(GZIP)
    try:
        async for part in request.stream():
            more = bool(part)
            while more:
                plain = engine.decompress(part, PIECE)
                yield plain
                if engine.eof and (engine.unused_data or engine.unconsumed_tail):
                    raise Problem("unreadable-body", "there is more after the end of the gzip data")
                part = engine.unconsumed_tail
                more = bool(part) or len(plain) == PIECE
    except zlib.error:
        raise Problem("unreadable-body", "the body is not gzip data") from None
    if not engine.eof:
        raise Problem("unreadable-body", "the gzip data is cut off")
