"""What a collector puts up with: how many at once, how much, and for how long."""

from __future__ import annotations

from dataclasses import dataclass

from murmuration.server.ingest import MOST_SECONDS
from murmuration.wire.report import MOST_BODY


@dataclass(frozen=True)
class Limits:
    """Beyond each of these a client is turned away, so that the others are served.

    Of requests, connections, dashboards and bytes of bodies, each client gets its share
    (`fair_use`); of the writer's time, too, but there nobody is turned away for it (`ingest`).
    """

    requests: int = 2000
    """Requests that are being answered at once, other than uploads."""
    connections: int = 8000
    streams: int = 256
    """Dashboards that are open; one address may have half of what is left."""
    waiting_seconds: float = MOST_SECONDS
    """How long an upload may wait for the store: then it is turned away."""
    body_bytes: int = MOST_BODY
    """Of one body, decompressed."""
    bodies_bytes: int = 128 << 20
    """Of all bodies that are being read or waiting."""
    head_bytes: int = 16 << 10
    head_fields: int = 100
    pipelined: int = 16
    """Requests that wait on one connection for the answer to the one before; with more of them,
    the connection is closed after so many answers."""
    head_seconds: float = 10.0
    """From the connection, or the first byte of a request, to the end of its head."""
    body_seconds: float = 20.0
    idle_seconds: float = 30.0
    """From an answer to the next request, or for the rest of a body that was refused."""
