"""Start the collector: where it listens, and what it refuses to do by oversight."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from murmuration.errors import ParameterError
from murmuration.server.app import Collector, create_app

HEADER_SECONDS = 10.0
IDLE_SECONDS = 30
BACKLOG = 2048
LOG_FORMAT = "%(asctime)s %(levelname)s %(message)s"


@dataclass(frozen=True)
class Address:
    """Where to listen, and whether the way there is protected."""

    host: str = "127.0.0.1"
    port: int = 8750
    certificate: Path | None = None
    key: Path | None = None
    plain_http: bool = False
    """Said in words: something in front of this does TLS, or the network is private."""

    def check(self) -> None:
        """Refuse plain HTTP beyond this machine, unless it is asked for."""
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
        return f"{scheme}://{host}:{self.port}"


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it.

    >>> is_loopback("127.0.0.1"), is_loopback("0.0.0.0"), is_loopback("localhost")
    (True, False, True)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class PatientProtocol(HttpToolsProtocol):
    """HTTP that does not wait for ever for a request's head."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Start the clock with the connection."""
        super().connection_made(transport)
        self._wind()

    def on_message_begin(self) -> None:
        """Start it again with the next request."""
        super().on_message_begin()
        self._wind()

    def on_headers_complete(self) -> None:
        """Stop it: the body has a clock of its own."""
        self._stop()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop it."""
        self._stop()
        super().connection_lost(exc)

    def _wind(self) -> None:
        self._stop()
        self._deadline = self.loop.call_later(HEADER_SECONDS, self._give_up)

    def _stop(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()


def configured(collector: Collector, address: Address) -> uvicorn.Config:
    """Return uvicorn's settings: no access log, as it would hold addresses."""
    address.check()
    return uvicorn.Config(
        create_app(collector),
        host=address.host,
        port=address.port,
        http=PatientProtocol,
        loop="uvloop",
        ws="none",
        lifespan="on",
        access_log=False,
        log_config=None,
        server_header=False,
        backlog=BACKLOG,
        timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=10,
        proxy_headers=False,
        ssl_certfile=address.certificate,
        ssl_keyfile=address.key,
    )


def log_to_stderr(level: int = logging.WARNING) -> None:
    """Log warnings and errors: no request, no address."""
    logging.basicConfig(stream=sys.stderr, level=level, format=LOG_FORMAT, force=True)
    logging.getLogger("uvicorn.error").setLevel(max(level, logging.WARNING))
