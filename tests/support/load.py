"""A load generator for this machine: connections that each send, wait for the answer, send again.

Uploads are built before the clock starts, with random ids, as a device has them. It only ever sends
to 127.0.0.1, over as many connections and for as long as it is told, and then stops by itself.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from subprocess import PIPE
from tempfile import NamedTemporaryFile
from typing import Any

import numpy as np
import uvloop

from murmuration.campaign.survey import SurveyCampaign
from murmuration.exact.arrays import Rows
from murmuration.wire import report
from murmuration.wire.ids import new_ids
from tests.support import warm

HOST = "127.0.0.1"
PATIENCE = 60.0
"""Seconds that the last answers may take."""
ELSEWHERE = "127.99.99.99"
"""Where the client comes from that the load is no part of."""
EVERY = 0.05
"""Seconds between two single reports of that client."""


def requests(
    campaign: SurveyCampaign, rows: Rows, batch: int, kind: str, token: str, path: str
) -> list[bytes]:
    """Return uploads of `batch` reports each, with fresh ids."""
    ids = new_ids(len(rows))
    made = []
    for start in range(0, len(rows) - batch + 1, batch):
        part = slice(start, start + batch)
        pack = report.to_json if kind == report.JSON else report.to_binary
        body = pack(campaign.form, ids[part], rows[part])
        head = (
            f"POST {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n"
            f"content-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n"
        ).encode()
        made.append(head + body)
    return made


@dataclass
class Result:
    """What the clients saw."""

    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    """Of uploads that were taken, from the first byte sent to the last byte of the answer."""
    statuses: dict[int, int] = field(default_factory=dict)

    def add(self, status: int, seconds: float) -> None:
        """Note an answer."""
        self.statuses[status] = self.statuses.get(status, 0) + 1
        if status == 200:
            self.latencies.append(seconds)

    def line(self, batch: int) -> str:
        """Say it in one line."""
        ms = 1e3 * np.percentile(self.latencies or [np.inf], [50, 99])
        good = self.statuses.get(200, 0)
        return (
            f"{good * batch / self.seconds:>10,.0f} reports/s  {good / self.seconds:>7,.0f} "
            f"requests/s  p50 {ms[0]:6.1f} ms  p99 {ms[1]:6.1f} ms  {self.refused or ''}"
        )

    @property
    def refused(self) -> dict[int, int]:
        """How many uploads were not taken, by status."""
        return {status: n for status, n in self.statuses.items() if status != 200}

    def good(self, batch: int) -> int:
        """Return how many reports were taken."""
        return self.statuses.get(200, 0) * batch

    def rate(self, batch: int) -> float:
        """Return reports a second."""
        return self.good(batch) / self.seconds

    @property
    def p99(self) -> float:
        """Return the 99th percentile of the times of uploads that were taken, in seconds."""
        return float(np.percentile(self.latencies, 99))


def run(
    port: int, uploads: Sequence[bytes], connections: int, seconds: float, addresses: int = 1
) -> Result:
    """Send until the time is over or the uploads are used up.

    The connections come from so many addresses. What is refused is sent again at once, whatever
    the answer says about when: the worst client.
    """
    return uvloop.run(_run(port, uploads, connections, seconds, addresses))


async def _run(
    port: int, uploads: Sequence[bytes], connections: int, seconds: float, addresses: int
) -> Result:
    loop, result, left = asyncio.get_running_loop(), Result(), deque(uploads)
    start = time.perf_counter()
    lines: list[_Line] = []
    for place in range(connections):
        where = (_address(place % addresses), 0) if addresses > 1 else None
        _, line = await loop.create_connection(
            lambda: _Line(left, start + seconds, result), HOST, port, local_addr=where
        )
        lines.append(line)
    async with asyncio.timeout(seconds + PATIENCE):
        await asyncio.gather(*(line.ended for line in lines))
    result.seconds = time.perf_counter() - start
    return result


def _address(place: int) -> str:
    """Return one of many addresses of this machine."""
    return f"127.1.{place // 250}.{1 + place % 250}"


class _Line(asyncio.Protocol):
    """A connection: one upload after the other."""

    def __init__(self, left: deque[bytes], end: float, result: Result) -> None:
        self._left, self._end, self._result = left, end, result
        self._upload, self._answer, self._since = b"", b"", 0.0
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        self._transport: asyncio.Transport = transport
        self._next()

    def _next(self) -> None:
        self._since, self._answer = time.perf_counter(), b""
        if self._since >= self._end or not (self._upload or self._left):
            self._transport.close()
            return
        self._upload = self._upload or self._left.popleft()
        self._transport.write(self._upload)

    def data_received(self, data: bytes) -> None:
        self._answer += data
        head, found, body = self._answer.partition(b"\r\n\r\n")
        if not found:
            return
        length = head[head.index(b"content-length: ") + 16 :].split(b"\r\n", 1)[0]
        if len(body) < int(length):
            return
        status = int(head[9:12])
        self._result.add(status, time.perf_counter() - self._since)
        if status == 200:
            self._upload = b""
        self._next()

    def connection_lost(self, problem: Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_result(None)


# --- somebody else, who sends single reports meanwhile -------------------------------------------


@contextmanager
def somebody_else(port: int, uploads: Sequence[bytes], seconds: float) -> Iterator[Result]:
    """Send single reports from another address meanwhile, one by one; the result is there after."""
    result = Result()
    with NamedTemporaryFile("w", suffix=".json") as file:
        json.dump([upload.decode() for upload in uploads], file)
        file.flush()
        with warm.start(
            "import sys; from tests.support import load; load.singles(*sys.argv[1:])",
            *(port, file.name, seconds),
            env=warm.unmeasured(),
            stdout=PIPE,
        ) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == "begun\n"
            yield result
            for status, latency in json.loads(child.stdout.read()):
                result.add(status, latency)
    result.seconds = seconds


def singles(port: str, uploads: str, seconds: str) -> None:
    """Be that client: each report over a connection of its own."""
    with open(uploads, encoding="utf-8") as file:
        bodies = [upload.encode() for upload in json.load(file)]
    sys.stdout.write("begun\n")
    sys.stdout.flush()
    json.dump(asyncio.run(_singles(int(port), bodies, float(seconds))), sys.stdout)


async def _singles(port: int, uploads: Sequence[bytes], seconds: float) -> list[tuple[int, float]]:
    found, end = [], time.perf_counter() + seconds
    for upload in uploads:
        start = time.perf_counter()
        if start > end:
            break
        reader, writer = await asyncio.open_connection(HOST, port, local_addr=(ELSEWHERE, 0))
        writer.write(upload)
        status = int((await reader.readuntil(b"\r\n\r\n"))[9:12])
        writer.close()
        found.append((status, time.perf_counter() - start))
        await asyncio.sleep(max(0.0, start + EVERY - time.perf_counter()))
    return found
