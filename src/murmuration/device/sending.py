"""How bytes get to a collector: one address, one connection, one rule for trying again.

    429, 503           the collector is busy: wait (its Retry-After, and jitter), same bytes again
    200                what became of each report
    a problem of ours  about these bytes (`wire.report`: FINAL), in the form in which
                       collectors answer: they are refused, and would be every time
    anything else      no answer about them (a token, an address, a proxy's page, a fault, no
                       network): `SendError`; they stay as they are, to be sent again

Redirects are not followed, so a token goes to the host that it was given for and nowhere else.
Nothing here is logged, and no error repeats a body, a token or a collector's own words.
"""

from __future__ import annotations

import http.client
import random
import re
import socket
import ssl
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import Self

import msgspec

from murmuration.errors import ParameterError, SendError
from murmuration.wire.address import Address
from murmuration.wire.report import BUSY, EARLY, FINAL, MOST_TOKEN, PROBLEM, PROBLEM_TYPE

SECONDS = 30.0
"""How long each step of a request (connecting, writing, reading) may take."""
MOST_STEPS = 10
"""How many times as long a whole exchange may take: who drips holds nobody for ever."""
MOST_ANSWER = 64 << 20
REASON = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
TOKEN = re.compile(rf"[\x21-\x7e]{{1,{MOST_TOKEN}}}")
STORED, DUPLICATE, REFUSED = "stored", "duplicate", "refused:"


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    data: bytes
    retry_after: float | None = None
    """Seconds, if the collector named a time."""
    kind: str = ""
    """Its media type, in small letters."""


class Link:
    """One connection to a collector, kept open between requests; for one thread."""

    def __init__(self, address: Address, token: str | None = None, seconds: float = SECONDS):
        _require_token(token)
        self.address, self._token, self._seconds = address, token, seconds
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

    def get(self, most: int, below: str = "") -> Answer:
        """Fetch the campaign's document, up to so many bytes; it is public: no token goes along.

        `below` is the rest of the path to another document of the campaign.
        """
        headers = {"Accept": "application/json", "Accept-Encoding": "gzip"}
        return self._request("GET", self.address.path + below, None, headers, most)

    def post(self, body: bytes, kind: str, token: str | None = None) -> Answer:
        """Send reports, once; with this token, or with the one that the link has."""
        headers = {"Content-Type": kind, "Accept": "application/json"}
        _require_token(token)
        if (shown := token or self._token) is not None:
            headers["Authorization"] = f"Bearer {shown}"
        return self._request("POST", f"{self.address.path}/reports", body, headers)

    def _request(
        self,
        method: str,
        path: str,
        body: bytes | None,
        headers: dict[str, str],
        most: int = MOST_ANSWER,
    ) -> Answer:
        kept = self._open is not None
        try:
            return self._exchange(method, path, body, headers, most)
        except (ConnectionError, http.client.RemoteDisconnected) as problem:
            if not kept:
                raise self._failed(problem) from None
        except (OSError, http.client.HTTPException) as problem:
            raise self._failed(problem) from None
        # A connection that was kept may have been closed since: the same bytes on a new one.
        try:
            return self._exchange(method, path, body, headers, most)
        except (OSError, http.client.HTTPException) as problem:
            raise self._failed(problem) from None

    def _exchange(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str], most: int
    ) -> Answer:
        done = False
        if self._open is None:
            self._open = connect(self.address, self._seconds)
        late = threading.Timer(self._left(), _hang_up, [self._open])
        late.daemon = True
        late.start()
        try:
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
            raise SendError(f"the answer of {self.address} is packed, and not as gzip") from None
        if len(plain) > most:
            raise SendError(f"the answer of {self.address} is longer than {most:,} bytes")
        if not engine.eof or engine.unused_data:
            raise SendError(f"the answer of {self.address} is cut off, or has more behind its end")
        return plain

    def _failed(self, problem: Exception) -> SendError:
        """Say what went wrong in the system's words, which hold nothing of what was sent."""
        if isinstance(problem, ssl.SSLCertVerificationError):
            return SendError(
                f"no answer from {self.address}: its certificate is not trusted "
                f"({problem.verify_message}); SSL_CERT_FILE can name a private authority's"
            )
        known = isinstance(problem, OSError) and problem.strerror
        words = problem.strerror if known else type(problem).__name__  # type: ignore[attr-defined]
        return SendError(f"no answer from {self.address}: {words}")


def _require_token(token: str | None) -> None:
    if token is not None and not TOKEN.fullmatch(token):
        raise ParameterError("a token is one word of printable characters")


def _hang_up(connection: http.client.HTTPConnection) -> None:
    """End an exchange that takes too long, from another thread."""
    with suppress(OSError):
        if connection.sock is not None:
            connection.sock.shutdown(socket.SHUT_RDWR)


def connect(address: Address, seconds: float) -> http.client.HTTPConnection:
    """Return a connection, not yet opened; whom it trusts is the system's, or SSL_CERT_FILE's."""
    if not address.secure:
        return http.client.HTTPConnection(address.host, address.port, timeout=seconds)
    trusted = ssl.create_default_context()
    return http.client.HTTPSConnection(address.host, address.port, timeout=seconds, context=trusted)


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


def _jitter(most: float) -> float:
    return random.SystemRandom().uniform(0, most)


@dataclass(frozen=True)
class Patience:
    """How often, and after how long, to try again when a collector is busy.

    Waits double, and each is drawn anew between 0 and that (full jitter), so that devices which
    were turned away together do not come back together. What the collector asks for comes first.
    """

    attempts: int = 6
    first: float = 0.5
    most: float = 60.0
    whole: float = 120.0
    """Seconds for everything: all attempts, all waits, whatever a collector asks for or drips."""
    sleep: Callable[[float], None] = time.sleep
    jitter: Callable[[float], float] = _jitter

    def wait(self, attempt: int, asked: float | None, left: float) -> bool:
        """Wait before the next attempt; False, and no wait, if there is none to be made now."""
        if attempt + 1 >= self.attempts or (asked or 0.0) > self.most:
            return False
        seconds = (asked or 0.0) + self.jitter(min(self.most, self.first * 2**attempt))
        if seconds >= left:
            return False
        self.sleep(seconds)
        return True


def deliver(
    link: Link, body: bytes, kind: str, patience: Patience, token: str | None = None
) -> Answer:
    """Send bytes, the same ones again while the collector is busy; all of it within one time."""
    attempt, link.ends = 0, time.monotonic() + patience.whole
    while True:
        answer = link.post(body, kind, token)
        if answer.status not in BUSY:
            return answer
        if not patience.wait(attempt, answer.retry_after, link.ends - time.monotonic()):
            raise SendError(f"{link.address} is busy (after {attempt + 1} attempts)")
        attempt += 1


class _Failure(msgspec.Struct):
    index: int
    type: str


class _Receipt(msgspec.Struct):
    received: int
    stored: int
    failures: list[_Failure]


class _Problem(msgspec.Struct):
    type: str = ""
    title: str = ""
    status: int = 0


def outcomes(answer: Answer, count: int) -> Counter[str]:
    """Return what became of so many reports: stored, duplicate, refused:<reason>."""
    if (refusal := final(answer)) is not None:
        return Counter({REFUSED + refusal: count})
    if answer.status != 200:
        raise SendError(f"the collector did not take it: {reason(answer)}")
    try:
        receipt = msgspec.json.decode(answer.data, type=_Receipt)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        raise SendError("the answer cannot be read: this is no collector") from None
    failed = len({failure.index for failure in receipt.failures})
    balanced = len(receipt.failures) == failed and receipt.stored + failed == count
    if receipt.received != count or not balanced or receipt.stored < 0:
        raise SendError("the answer is about other reports: this is no collector")
    names = [_named(failure.type) or "unnamed" for failure in receipt.failures]
    if names == [EARLY] and count == 1:
        raise SendError("its period has not begun at the collector: it is taken once it has")
    found = Counter(name if name == DUPLICATE else REFUSED + name for name in names)
    if receipt.stored:
        found[STORED] = receipt.stored
    return found


def final(answer: Answer) -> str | None:
    """Return why a collector refuses these bytes for good; None if nobody has said so.

    A proxy's 400, 413 or 422 is none: it may be gone tomorrow, and a report is made once. Only a
    problem document as collectors write it counts, about a reason that is in the list.
    """
    problem = _problem(answer)
    if answer.kind != PROBLEM or problem is None or not problem.title:
        return None
    name = problem.type.removeprefix(PROBLEM_TYPE)
    ours = (
        PROBLEM_TYPE + name == problem.type and FINAL.get(name) == problem.status == answer.status
    )
    return name if ours else None


def reason(answer: Answer) -> str:
    """Return the name of a problem if it has one of the usual form, else the status."""
    problem = _problem(answer)
    return (problem and _named(problem.type)) or f"http-{answer.status}"


def _problem(answer: Answer) -> _Problem | None:
    try:
        return msgspec.json.decode(answer.data, type=_Problem)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return None


def _named(kind: str) -> str | None:
    name = kind.rpartition("/")[2]
    return name if REASON.fullmatch(name) else None
