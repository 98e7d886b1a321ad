"""What an upload is answered: how many were counted, and why the others were not.

Ten thousand refused reports fit an upload of some bytes, and their receipt has more than a million.
So a long one is written as it is read: whoever does not read it does not make it stay in memory.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np
from starlette.responses import Response

from murmuration.server.chunks import WAITING, Pieces
from murmuration.server.fair_use import Part
from murmuration.server.problems import type_of
from murmuration.server.responses import Failure, Receipt
from murmuration.wire.report import JSON, REASONS, Codes

PIECE = 64
"""Failures in a piece."""
ROOM_SECONDS = 10.0
"""How long a receipt waits for room. Without one an upload is sent again: all duplicates."""

_FAILURES = [Failure(0, "", "")] + [
    Failure(0, type_of(reason), title) for reason, title in REASONS.items()
]


async def receipt(problems: Codes, held: Part) -> Response:
    """Return the answer to an upload: failures in the order of the request.

    A long one waits for room: its upload was counted, so it is too late to refuse.
    """
    failed = np.flatnonzero(problems)
    if len(failed) > PIECE:
        await held.wait(WAITING, ROOM_SECONDS)
        return Pieces(_pieces(problems, failed), held)
    return short(problems)


def short(problems: Codes) -> Response:
    """Return the answer to an upload with few failures."""
    failed = np.flatnonzero(problems)
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
