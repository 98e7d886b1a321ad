"""A load generator: many connections that each send, wait for the answer, and send again.

Requests are built before the clock starts, with random ids, as a device has them.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

import numpy as np
import uvloop

from murmuration.campaign.survey import SurveyCampaign
from murmuration.exact.arrays import Rows
from murmuration.wire import report
from murmuration.wire.ids import new_ids


def requests(
    campaign: SurveyCampaign, rows: Rows, batch: int, kind: str, token: str, path: str
) -> list[bytes]:
    """Return uploads of `batch` reports each, with fresh ids."""
    ids = new_ids(len(rows))
    made = []
    for start in range(0, len(rows) - batch + 1, batch):
        part = slice(start, start + batch)
        pack = report.to_json if kind == report.JSON else report.to_binary
        body = pack(campaign, ids[part], rows[part])
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
    statuses: dict[int, int] = field(default_factory=dict)

    def line(self, batch: int) -> str:
        """Say it in one line."""
        ms = 1e3 * np.percentile(self.latencies, [50, 99])
        good = self.statuses.get(200, 0)
        rest = {status: n for status, n in self.statuses.items() if status != 200}
        return (
            f"{good * batch / self.seconds:>10,.0f} reports/s  {good / self.seconds:>7,.0f} "
            f"requests/s  p50 {ms[0]:6.1f} ms  p99 {ms[1]:6.1f} ms  {rest or ''}"
        )

    def good(self, batch: int) -> int:
        """Return how many reports were taken."""
        return self.statuses.get(200, 0) * batch

    def rate(self, batch: int) -> float:
        """Return reports a second."""
        return self.statuses.get(200, 0) * batch / self.seconds

    @property
    def p99(self) -> float:
        """Return the 99th percentile of the answers' times, in seconds."""
        return float(np.percentile(self.latencies, 99))


def run(port: int, uploads: list[bytes], connections: int, seconds: float) -> Result:
    """Send until the time is over or the uploads are used up."""
    return uvloop.run(_run(port, uploads, connections, seconds))


async def _run(port: int, uploads: list[bytes], connections: int, seconds: float) -> Result:
    result, left = Result(), iter(uploads)
    start = time.perf_counter()
    end = start + seconds
    await asyncio.gather(*(_client(port, left, end, result) for _ in range(connections)))
    result.seconds = time.perf_counter() - start
    return result


async def _client(port: int, left: object, end: float, result: Result) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while (now := time.perf_counter()) < end:
        request = next(left, None)  # type: ignore[call-overload]
        if request is None:
            break
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head[head.index(b"content-length: ") + 16 :].split(b"\r\n", 1)[0])
        if length:
            await reader.readexactly(length)
        result.latencies.append(time.perf_counter() - now)
        status = int(head[9:12])
        result.statuses[status] = result.statuses.get(status, 0) + 1
    writer.close()
