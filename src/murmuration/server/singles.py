"""The path of a single report: straight from the connection into the queue.

Nearly all requests are like this: a device sends one report as one JSON object, head and body at
once. Such a request needs no task, no routes, no clock for its body, and no request and response
objects. Whatever else comes takes the ordinary way, and a single report may take that, too: it is
answered the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from starlette.responses import Response

from murmuration.campaign.kind import Campaign
from murmuration.campaign.survey import utc_now
from murmuration.collector.commit import Batch
from murmuration.collector.served import Served
from murmuration.server.app import Collector
from murmuration.server.cors import vary
from murmuration.server.ingest import Arrived
from murmuration.server.problems import Problem
from murmuration.server.receipts import short
from murmuration.wire import report
from murmuration.wire.report import FINE, Incoming

ROUTE = "/v1/campaigns/{campaign}/reports"
MOST_BYTES = report.SMALL
UNUSUAL = frozenset((b"content-encoding", b"transfer-encoding", b"expect", b"upgrade"))
"""Headers with which a body is read in another way."""
Answer = Callable[[int, bytes], None]
"""Sends a status, and what follows the general headers: the others, an empty line, the body."""


@dataclass(frozen=True, slots=True)
class Single:
    """What the head of a request for one report says."""

    served: Served[Campaign]
    authorization: str | None


class Singles:
    """Takes single reports of the campaigns of a collector."""

    def __init__(self, collector: Collector, prefix: str = "") -> None:
        self._collector = collector
        self._served = {
            f"{start}{ROUTE.format(campaign=name)}".encode(): served
            for start in ("", prefix)
            for name, served in collector.served.items()
        }
        self._stored = written(short(np.zeros(1, dtype=np.uint8)))

    def asked(self, url: bytes, headers: Sequence[tuple[bytes, bytes]]) -> Single | None:
        """Return what a POST asks for, if it may be one report and nothing is unusual."""
        served = self._served.get(url)
        named = dict(headers)
        if served is None or len(named) < len(headers) or not UNUSUAL.isdisjoint(named):
            return None
        origin = named.get(b"origin", b"").decode("latin-1")
        if named.get(b"content-type") != report.JSON.encode() or (
            origin and origin in served.campaign.terms.origins
        ):
            return None
        shown = named.get(b"authorization")
        return Single(served, None if shown is None else shown.decode("latin-1"))

    def take(self, single: Single, body: bytes, who: str, answer: Answer) -> bool:
        """Put a report into the queue; say whether that was done. It is answered later."""
        collector, campaign = self._collector, single.served.campaign
        intake = collector.runners[campaign.name].always
        if intake is None or not body.startswith(b"{"):
            return False
        try:
            token = collector.gate.check_upload(single.authorization, single.served)
        except Problem:  # the ordinary way looks for news, and says what is wrong
            return False
        now = utc_now()
        batch = Batch(
            *(intake, Incoming([])),
            in_time=campaign.terms.accepts(now),
            periods=campaign.open_periods(now),
            token=token.own if token else b"",
        )
        arrived = Arrived(batch, body, report.JSON)
        collector.open_requests += 1
        collector.ingest.put(arrived, who, partial(self._answer, batch, answer))
        return True

    def _answer(self, batch: Batch, answer: Answer, problem: Problem | None) -> None:
        self._collector.open_requests -= 1
        status, said = 200, self._stored
        if problem is not None:
            response = problem.response()
            status, said = response.status_code, written(response)
        elif batch.problems[0] != FINE:
            said = written(short(batch.problems))
        self._collector.answers[ROUTE, status] += 1
        answer(status, said)


def written(response: Response) -> bytes:
    """Return an answer's own headers and its body, as they are sent."""
    vary(response.headers)
    fields = [b"%s: %s\r\n" % field for field in response.raw_headers]
    return b"".join([*fields, b"\r\n", bytes(response.body)])
