"""Start the collector: where it listens, and what it refuses to do by oversight."""

from __future__ import annotations

import asyncio
import logging
import resource
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from murmuration.errors import ParameterError
from murmuration.server.app import Collector
from murmuration.server.fair_use import Share
from murmuration.server.protocol import PatientProtocol
from murmuration.server.routes import create_app
from murmuration.server.signing import PREFIX, Front
from murmuration.server.singles import Singles
from murmuration.wire.address import is_loopback

log = logging.getLogger("murmuration.server")

SPARE_FILES = 64
"""File descriptors that are not connections."""
BACKLOG = 2048
LOG_FORMAT = "%(asctime)s %(levelname)s %(message)s"


@dataclass(frozen=True)
class Endpoint:
    """Where to listen, and whether the way there is protected."""

    host: str = "127.0.0.1"
    port: int = 8750
    certificate: Path | None = None
    key: Path | None = None
    plain_http: bool = False
    """Said in words: something in front of this does TLS, or the network is private."""
    forwarded: bool = False
    """Said in words: only a proxy gets here, and it adds the client to X-Forwarded-For."""
    prefix: str = ""
    """The path that this server has behind a proxy that passes it on, such as /study."""
    socket: int | None = None
    """The descriptor of a socket that already listens there; None: a new one."""

    def check(self) -> None:
        """Refuse plain HTTP beyond this machine, unless it is asked for."""
        if not PREFIX.fullmatch(self.prefix):
            raise ParameterError(f"a prefix is a path, such as /study; got {self.prefix!r}")
        if (self.certificate is None) != (self.key is None):
            raise ParameterError("TLS needs both a certificate and its key")
        if self.certificate is None and not self.plain_http and not is_loopback(self.host):
            raise ParameterError(
                f"{self.host} is reachable from other machines and this is plain HTTP: tokens and "
                "reports could be read on the way. Give --certificate and --key, or say "
                "--plain-http if a proxy in front of it does TLS."
            )

    @property
    def url(self) -> str:
        """The address to print."""
        scheme = "http" if self.certificate is None else "https"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{scheme}://{host}:{self.port}{self.prefix}"

    @property
    def front(self) -> Front:
        """What pages have to know of the way here."""
        return Front(self.prefix, self.certificate is not None, self.forwarded)


def configured(collector: Collector, endpoint: Endpoint) -> uvicorn.Config:
    """Return uvicorn's settings: no access log, as it would hold addresses."""
    endpoint.check()
    most = connections(collector.limits.connections)
    limits = collector.limits
    return uvicorn.Config(
        under(endpoint.prefix, create_app(collector)),
        host=endpoint.host,
        port=endpoint.port,
        http=partial(  # type: ignore[arg-type]
            PatientProtocol,
            limits=limits,
            places=Share(most, "too-many-requests"),
            singles=Singles(collector, endpoint.prefix),
            forwarded=endpoint.forwarded,
        ),
        loop="uvloop",
        ws="none",
        lifespan="on",
        access_log=False,
        log_config=None,
        server_header=False,
        backlog=BACKLOG,
        timeout_keep_alive=limits.idle_seconds,  # type: ignore[arg-type]
        timeout_graceful_shutdown=10,
        proxy_headers=False,
        ssl_certfile=endpoint.certificate,
        ssl_keyfile=endpoint.key,
    )


def under(prefix: str, app: ASGIApp) -> ASGIApp:
    """Take requests under a path as if they were at the root; others are taken as they are."""
    if not prefix:
        return app

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        if path.startswith(f"{prefix}/"):
            scope = {**scope, "path": path[len(prefix) :], "raw_path": None}
        await app(scope, receive, send)

    return answer


def connections(most: int) -> int:
    """Return how many connections there can be: each takes a file descriptor.

    >>> connections(10)
    10
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    endless, wanted = resource.RLIM_INFINITY, most + SPARE_FILES
    if soft != endless and soft < wanted:
        soft = wanted if hard == endless else min(hard, wanted)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return most if soft == endless else max(1, min(most, soft - SPARE_FILES))


class Discreet(logging.Formatter):
    """Log lines without what an exception says: it might repeat what was sent."""

    def formatException(self, ei: Any) -> str:  # noqa: N802 - the name that logging calls
        """Name the exception."""
        return f"({ei[0].__name__})" if ei[0] is not None else ""


def discreet(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log what failed in the event loop: its own message would show the client's address."""
    del loop
    log.error("the event loop: %s", type(context.get("exception")).__name__)


def log_to_stderr(level: int = logging.WARNING) -> None:
    """Log warnings and errors: no request, no address."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Discreet(LOG_FORMAT))
    logging.basicConfig(level=level, handlers=[handler], force=True)
    logging.getLogger("uvicorn.error").setLevel(
        max(level, logging.ERROR)
    )  # no line per bad request
