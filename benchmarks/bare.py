"""The same stack without any of our logic: Starlette reads a body, SQLite appends it, durably.

What a collector on this stack could do at most: no tokens, no checks, no duplicates, no tallies;
group commit with the same settings, and the answer after it. `bodies` appends each body as one
blob; `rows` decodes it and appends each report (id and octets) as a row of a table.
"""

from __future__ import annotations

import asyncio
import gc
import sqlite3
import sys
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from itertools import chain

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from murmuration.wire import report
from murmuration.wire.ids import ID_BYTES


class Appender:
    """A table that grows, written group by group."""

    def __init__(self, path: str, rows: bool) -> None:
        self._rows = rows
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        for setting in ("journal_mode = WAL", "synchronous = FULL", "wal_autocheckpoint = 8000"):
            self._db.execute(f"PRAGMA {setting}")
        self._db.execute("CREATE TABLE IF NOT EXISTS bodies (body BLOB)")
        self._db.execute("CREATE TABLE IF NOT EXISTS reports (id BLOB, report BLOB)")
        self._waiting: list[tuple[bytes, str, asyncio.Future[None]]] = []
        self._arrived = asyncio.Event()
        self._thread = ThreadPoolExecutor(1)

    def _commit(self, group: list[tuple[bytes, str]]) -> None:
        self._db.execute("BEGIN")
        if self._rows:
            rows = chain.from_iterable(_reports(body, kind) for body, kind in group)
            self._db.executemany("INSERT INTO reports VALUES (?, ?)", rows)
        else:
            self._db.executemany("INSERT INTO bodies VALUES (?)", ((body,) for body, _ in group))
        self._db.execute("COMMIT")

    async def run(self) -> None:
        """Write whatever waits, for ever."""
        loop = asyncio.get_running_loop()
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            group, self._waiting = self._waiting, []
            parts = [(body, kind) for body, kind, _ in group]
            await loop.run_in_executor(self._thread, self._commit, parts)
            for _, _, done in group:
                done.set_result(None)

    async def upload(self, request: Request) -> Response:
        """Append a body and answer when it is on the disk."""
        body = b"".join([part async for part in request.stream()])
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((body, request.headers["content-type"], done))
        self._arrived.set()
        await done
        return Response(b'{"received":1,"stored":1,"failures":[]}', media_type="application/json")


def _reports(body: bytes, kind: str) -> list[tuple[bytes, bytes]]:
    """Return ids and octets; nothing is checked."""
    if kind == report.JSON:
        found = DECODER.decode(body)
        listed = found if isinstance(found, list) else [found]
        return [(bytes.fromhex(one.id), bytes(one.entries[0])) for one in listed]
    count = int.from_bytes(body[42:46], "little")
    at, width = report.HEAD.size, ID_BYTES
    first = at + width * count
    size = (len(body) - first) // count
    return [
        (
            body[at + i * width : at + (i + 1) * width],
            body[first + i * size : first + (i + 1) * size],
        )
        for i in range(count)
    ]


DECODER = msgspec.json.Decoder(report.Report | list[report.Report])


def main(path: str, port: int, rows: bool) -> None:
    """Serve."""
    appender = Appender(path, rows)
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)  # as the collector does

    @asynccontextmanager
    async def running(app: Starlette) -> AsyncIterator[None]:
        del app
        task = asyncio.create_task(appender.run())
        yield
        task.cancel()

    routes = [Route("/v1/campaigns/{campaign}/reports", appender.upload, methods=["POST"])]
    app = Starlette(routes=routes, lifespan=running)
    uvicorn.run(app, port=port, log_level="critical", access_log=False, loop="uvloop", ws="none")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3] == "rows")
