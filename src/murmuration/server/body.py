"""Bodies, read with a limit on size (decompressed, too), on time, and on all."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from starlette.requests import ClientDisconnect, Request

from murmuration.server.fair_use import Part, Share
from murmuration.server.limits import Limits
from murmuration.server.problems import Problem

GZIP = 16 + zlib.MAX_WBITS
PIECE = 1 << 18
"""What is decompressed at once."""
SMALL = 1 << 14
"""What takes up to this takes no room: large bodies that never end must not keep out a report."""


PAUSE_SECONDS = 1.0
"""How long it takes to say that there is no room."""


class Unreadable(Problem):
    """A body that came to its end and is not what it was said to be."""

    def __init__(self, detail: str) -> None:
        super().__init__("unreadable-body", detail)


class Room:
    """The memory that bodies and answers on their way may take, and each client its share of it."""

    def __init__(self, most: int) -> None:
        self._share = Share(most, "overloaded")

    @property
    def used(self) -> int:
        """Bytes that are taken."""
        return self._share.used

    def part(self, who: str) -> Part:
        """Return what a client has of it for one request: nothing yet, and `SMALL` is free."""
        return Part(self._share, who, SMALL)

    @contextmanager
    def hold(self, who: str = "") -> Iterator[Part]:
        """Give back what was taken when the request ends."""
        held = self.part(who)
        try:
            yield held
        finally:
            held.give_back()


async def read(request: Request, held: Part, limits: Limits) -> bytes:
    """Return the body, decompressed; refuse what is too large as soon as it is."""
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", "gzip", ""):
        raise Problem("unsupported-type", "bodies are plain or gzip")
    if int(request.headers.get("content-length", 0)) > limits.body_bytes:
        raise Problem("too-large")
    try:
        async with asyncio.timeout(limits.body_seconds):
            data = await _gathered(request, held, limits.body_bytes)
    except TimeoutError:
        raise Problem("too-slow") from None
    except ClientDisconnect:
        raise Problem("unreadable-body") from None
    return await _inflated(data, held, limits.body_bytes) if encoding == "gzip" else data


async def read_past(request: Request) -> None:
    """Read on without keeping anything, for a while, before there being no room is answered.

    Who asks again at once, whatever the answer says, does so once in this time.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(PAUSE_SECONDS):
            while (await request.receive())["type"] != "http.disconnect":
                pass


async def _gathered(request: Request, held: Part, most: int) -> bytes:
    body = bytearray()
    async for part in request.stream():
        if len(body) + len(part) > most:
            raise Problem("too-large")
        held.take(len(part))
        body += part
    return bytes(body)


async def _inflated(data: bytes, held: Part, most: int) -> bytes:
    """Decompress a piece at a time; others are served in between.

    Not while it comes: an unfinished body would hold the 48 kilobytes that zlib works in.
    """
    engine, body = zlib.decompressobj(GZIP), bytearray()
    for start in range(0, len(data), PIECE):
        part, more = data[start : start + PIECE], True
        while more:
            plain = _piece(engine, part)
            if len(body) + len(plain) > most:
                raise Problem("too-large")
            held.take(len(plain))
            body += plain
            part = engine.unconsumed_tail
            more = bool(part) or len(plain) == PIECE
            if more:
                await asyncio.sleep(0)
    if not engine.eof:
        raise Unreadable("the gzip data is cut off")
    return bytes(body)


def _piece(engine: zlib._Decompress, part: bytes) -> bytes:
    try:
        plain = engine.decompress(part, PIECE)
    except zlib.error:
        raise Unreadable("the body is not gzip data") from None
    if engine.eof and (engine.unused_data or engine.unconsumed_tail):
        raise Unreadable("there is more after the end of the gzip data")
    return plain
