"""The HTTP client of this package: one address, one connection, limits on time and on size.

Redirects are not followed, so a token goes to the host that it was given for and nowhere else.
Each step has a timeout, each exchange a deadline, and an answer may have so many bytes and no
more, unpacked. Nothing here is logged, and no error repeats a body or a token.

A request is sent a second time only when a connection that was kept has been closed meanwhile.
When to try again after that is the caller's decision: see `device.sending`.
"""

from __future__ import annotations

import base64
import http.client
import re
import socket
import ssl
import threading
import time
import zlib
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import Self
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

import msgspec

from murmuration.errors import ParameterError, SendError
from murmuration.wire.address import Address, is_loopback
from murmuration.wire.report import MOST_TOKEN

SECONDS = 30.0
"""How long each step of a request (connecting, writing, reading) may take."""
MOST_STEPS = 10
"""How many times as long a whole exchange may take: who drips holds nobody for ever."""
MOST_ANSWER = 64 << 20
JSON = "application/json"
REASON = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
TOKEN = re.compile(rf"[\x21-\x7e]{{1,{MOST_TOKEN}}}")


class Problem(msgspec.Struct):
    """A problem document (RFC 9457), as far as it is one; every field may be missing."""

    type: str = ""
    title: str = ""
    status: int = 0
    detail: str = ""

    @property
    def name(self) -> str:
        """The last part of its type, if that has the usual form; otherwise nothing."""
        name = self.type.rpartition("/")[2]
        return name if REASON.fullmatch(name) else ""


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    data: bytes
    retry_after: float | None = None
    """Seconds, if the collector named a time."""
    kind: str = ""
    """Its media type, in small letters."""

    @property
    def problem(self) -> Problem | None:
        """The problem document in it; None if it has something else."""
        try:
            return msgspec.json.decode(self.data, type=Problem)
        except (msgspec.MsgspecError, RecursionError, UnicodeError):
            return None

    @property
    def reason(self) -> str:
        """The name of the problem if it has one of the usual form, else the status."""
        problem = self.problem
        return (problem and problem.name) or f"http-{self.status}"


class Connection:
    """One connection to a host, kept open between requests; for one thread."""

    def __init__(
        self,
        address: Address,
        token: str | None = None,
        seconds: float = SECONDS,
        *,
        proxied: bool = False,
    ) -> None:
        """`proxied`: by the proxy that the environment names, as analysts' tools do."""
        require_token(token)
        self.address, self._token, self._seconds = address, token, seconds
        self._proxy = _proxy_to(address) if proxied else None
        self._open: http.client.HTTPConnection | None = None
        self.ends: float | None = None
        """When all exchanges end, by the clock that never goes back; None: each by itself."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Hang up."""
        if self._open is not None:
            self._open.close()
            self._open = None

    def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
        *,
        token: str | None = None,
        most: int = MOST_ANSWER,
    ) -> Answer:
        """Return the answer of this host, of `most` bytes; `SendError` if there is none."""
        require_token(token)
        packed = {"Accept-Encoding": "gzip"} if body is None else {}
        shown = {"Accept": JSON, **packed, **(headers or {})}
        if token is not None:
            shown["Authorization"] = f"Bearer {token}"
        kept = self._open is not None
        try:
            return self._exchange(method, path, body, shown, most)
        except (ConnectionError, http.client.RemoteDisconnected) as problem:
            if not kept:
                raise self._failed(problem) from None
        except (OSError, http.client.HTTPException) as problem:
            raise self._failed(problem) from None
        # A connection that was kept may have been closed since: the same bytes on a new one.
        try:
            return self._exchange(method, path, body, shown, most)
        except (OSError, http.client.HTTPException) as problem:
            raise self._failed(problem) from None

    def _exchange(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str], most: int
    ) -> Answer:
        done = False
        if self._open is None:
            self._open = connect(self.address, self._seconds, self._proxy)
        late = threading.Timer(self._left(), _hang_up, [self._open])
        late.daemon = True
        late.start()
        try:
            if self._proxy is not None and not self.address.secure:
                path, headers = self.address.origin + path, {**headers, **self._proxy.headers}
            self._open.request(method, path, body, headers)
            response = self._open.getresponse()
            data = response.read(most + 1)
            if len(data) > most:
                raise SendError(f"the answer of {self.address} is longer than {most:,} bytes")
            if response.length:  # it said that there would be more
                raise http.client.IncompleteRead(b"", response.length)
            data = self._plain(data, response.headers.get("Content-Encoding", ""), most)
            done = not response.will_close
            again = _seconds(response.headers.get("Retry-After"))
            return Answer(response.status, data, again, response.headers.get_content_type())
        finally:
            late.cancel()
            if not done:
                self.close()

    def _left(self) -> float:
        """Return how many seconds an exchange may take now."""
        most = MOST_STEPS * self._seconds
        return most if self.ends is None else max(0.0, min(most, self.ends - time.monotonic()))

    def _plain(self, data: bytes, encoding: str, most: int) -> bytes:
        """Return an answer inflated, if it is packed; no more of it than the most is unpacked."""
        if encoding.strip().lower() in ("", "identity"):
            return data
        engine = zlib.decompressobj(16 + zlib.MAX_WBITS)
        try:
            if encoding.strip().lower() != "gzip":
                raise zlib.error
            plain = engine.decompress(data, most + 1)
        except zlib.error:
            raise SendError(
                f"the answer of {self.address} is compressed, but not as gzip"
            ) from None
        if len(plain) > most:
            raise SendError(f"the answer of {self.address} is longer than {most:,} bytes")
        if not engine.eof or engine.unused_data:
            raise SendError(f"the answer of {self.address} is cut off, or goes on after its end")
        return plain

    def _failed(self, problem: Exception) -> SendError:
        """Say what went wrong in the system's words, which hold nothing of what was sent."""
        if isinstance(problem, ssl.SSLCertVerificationError):
            return SendError(
                f"{self.address} cannot be reached: its certificate is not trusted "
                f"({problem.verify_message}); SSL_CERT_FILE can name a private authority's"
            )
        if isinstance(problem, TimeoutError):
            return SendError(f"{self.address} cannot be reached: no answer in time")
        known = isinstance(problem, OSError) and problem.strerror
        words = problem.strerror if known else type(problem).__name__  # type: ignore[attr-defined]
        return SendError(f"{self.address} cannot be reached: {words}")


def require_token(token: str | None) -> None:
    """Refuse a token that could not be a header, without repeating it."""
    if token is not None and not TOKEN.fullmatch(token):
        raise ParameterError("a token is one word of printable characters")


# --- connections ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Proxy:
    """What stands between this machine and a host."""

    host: str
    port: int
    headers: dict[str, str]
    """How it knows who asks."""


def connect(
    address: Address, seconds: float, proxy: Proxy | None = None
) -> http.client.HTTPConnection:
    """Return a connection, not yet opened; whom it trusts is the system's, or SSL_CERT_FILE's."""
    host, port = (address.host, address.port) if proxy is None else (proxy.host, proxy.port)
    if not address.secure:
        return http.client.HTTPConnection(host, port, timeout=seconds)
    trusted = ssl.create_default_context()
    connection = http.client.HTTPSConnection(host, port, timeout=seconds, context=trusted)
    if proxy is not None:
        connection.set_tunnel(address.host, address.port, proxy.headers)
    return connection


def _proxy_to(address: Address) -> Proxy | None:
    """Return the proxy that the environment names; what stays on this machine goes to none."""
    if is_loopback(address.host) or proxy_bypass(address.host):
        return None
    named = getproxies().get("https" if address.secure else "http", "")
    parts = urlsplit(named if "://" in named else f"http://{named}")
    if not parts.hostname:
        return None
    headers = {}
    if parts.username is not None:
        user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers["Proxy-Authorization"] = f"Basic {base64.b64encode(user.encode()).decode()}"
    return Proxy(parts.hostname, parts.port or 80, headers)


def _hang_up(connection: http.client.HTTPConnection) -> None:
    """End an exchange that takes too long, from another thread."""
    with suppress(OSError):
        if connection.sock is not None:
            connection.sock.shutdown(socket.SHUT_RDWR)


def _seconds(text: str | None) -> float | None:
    """Read Retry-After: seconds, or a date."""
    if text is None:
        return None
    if text.strip().isdecimal():
        return float(text.strip()[:9])
    try:
        moment = parsedate_to_datetime(text)
        zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return max(0.0, (zoned - datetime.now(UTC)).total_seconds())
    except (ValueError, OverflowError, TypeError):
        return None
