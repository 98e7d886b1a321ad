"""What an upload is answered: how many were counted, and why the others were not.

Ten thousand refused reports fit an upload of some bytes, and their receipt has more than a million.
So a long one is written as it is read: whoever does not read it does not make it stay in memory.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from murmuration.server.answers import Failure, Receipt
from murmuration.server.problems import type_of
from murmuration.wire.report import JSON, REASONS, Codes

PIECE = 64
"""Failures in a piece."""

_FAILURES = [Failure(0, "", "")] + [
    Failure(0, type_of(reason), title) for reason, title in REASONS.items()
]


def receipt(problems: Codes) -> Response:
    """Return the answer to an upload: failures in the order of the request."""
    failed = np.flatnonzero(problems)
    if len(failed) > PIECE:
        return Pieces(_pieces(problems, failed))
    whole = Receipt(len(problems), len(problems) - len(failed), _failures(problems, failed))
    return Response(msgspec.json.encode(whole), media_type=JSON)


def _failures(problems: Codes, failed: np.ndarray[tuple[int], np.dtype[np.int64]]) -> list[Failure]:
    return [
        Failure(place, _FAILURES[code].type, _FAILURES[code].title)
        for place, code in zip(failed.tolist(), problems[failed].tolist(), strict=True)
    ]


def _pieces(problems: Codes, failed: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Iterator[bytes]:
    """Yield the same receipt a piece at a time."""
    stored = len(problems) - len(failed)
    before = b'{"received":%d,"stored":%d,"failures":[' % (len(problems), stored)
    for start in range(0, len(failed), PIECE):
        yield before + msgspec.json.encode(_failures(problems, failed[start : start + PIECE]))[1:-1]
        before = b","
    yield b"]}"


class Pieces(Response):
    """An answer in pieces: each is made when the one before is on its way."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        super().__init__(media_type=JSON)
        del self.headers["content-length"]
        self._pieces = pieces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send them; uvicorn waits before each while the client does not read."""
        del scope, receive
        start = {"type": "http.response.start", "status": self.status_code}
        await send({**start, "headers": self.raw_headers})
        for piece in self._pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
