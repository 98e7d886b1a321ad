"""Long answers, a piece at a time: whoever does not read one does not make it stay in memory.

A piece is written when the one before is on its way. What then waits for the client is bounded, and
with TLS there is an encrypted copy of it; that much is taken of the client's share of memory
(`body.Room`) until the answer has gone out, or the connection has ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from murmuration.server.fair_use import Part
from murmuration.wire.report import JSON

PIECE = 1 << 14
"""Bytes of an answer that are written at once; an answer up to this is written whole."""
WAITING = 1 << 17
"""Bytes that one answer may take while its client does not read: pieces in the buffers of the
connection and of TLS, with what they are made of."""


class Pieces(Response):
    """An answer in pieces: each is made when the one before is on its way."""

    def __init__(self, pieces: Iterable[bytes], held: Part) -> None:
        super().__init__(media_type=JSON)
        del self.headers["content-length"]
        self._pieces, self._held = pieces, held

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send them; uvicorn waits before each while the client does not read."""
        del scope, receive
        start = {"type": "http.response.start", "status": self.status_code}
        try:
            await send({**start, "headers": self.raw_headers})
            for piece in self._pieces:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        finally:
            self._held.give_back()


def in_pieces(whole: Response, held: Part) -> Response:
    """Return an answer that goes out in pieces if it is long, as a part of its client's share."""
    data = bytes(whole.body)
    if len(data) <= PIECE:
        return whole
    held.take(min(len(data), WAITING))
    pieces = Pieces(_cut(data), held)
    pieces.status_code = whole.status_code
    pieces.raw_headers[:] = whole.raw_headers  # in place: `headers` is a view of this list
    return pieces


def _cut(data: bytes) -> Iterator[bytes]:
    """Yield bytes a piece at a time."""
    for start in range(0, len(data), PIECE):
        yield data[start : start + PIECE]
