"""HTTP/1.1 by uvicorn, with a clock for everything that a client might never finish."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from murmuration.server.fair_use import Part, Share, client
from murmuration.server.limits import Limits
from murmuration.server.problems import Problem
from murmuration.server.singles import MOST_BYTES, Single, Singles

WRITE_BYTES = 1 << 14
"""Of an answer, that wait for the client to read them."""


class SingleCycle:
    """What uvicorn may ask of a request, of a single report that waits for its answer."""

    message_event = asyncio.Event()
    """Nobody waits for more of the request."""

    def __init__(self) -> None:
        self.response_complete = self.disconnected = False
        self.keep_alive = True


class PatientProtocol(HttpToolsProtocol):
    """A connection that waits for nothing for ever, and reads no head without end.

    A head has a clock; a body has one of its own, see `body.read`. After the answer the connection
    may be idle for a while; what still comes of a body that was refused is read past meanwhile, so
    that the client can see the answer.

    A request's client is what counts as one (`fair_use.client`), not an address and a port. With
    `forwarded` it is the last one that X-Forwarded-For names: the one that spoke to the proxy.

    A single report that has come at once goes to `singles`, past the application.
    """

    def __init__(
        self,
        *values: Any,
        limits: Limits,
        places: Share,
        singles: Singles,
        forwarded: bool = False,
        **named: Any,
    ) -> None:
        super().__init__(*values, **named)
        self._limits, self._places, self._forwarded = limits, places, forwarded
        self._singles = singles
        self._single: Single | None = None
        self._body = b""
        self._place: Part | None = None
        self._refusal = "bad-request"
        self._full = False
        self._clock: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        self._in_head = True
        self._head_bytes = self._parsed_bytes = 0

    def connection_made(self, transport: Any) -> None:
        """Start the clock with the connection, if there is room for one more."""
        super().connection_made(transport)
        transport.set_write_buffer_limits(WRITE_BYTES)
        self.client = (client(self.client[0] if self.client else ""), 0)
        self._wind(self._limits.head_seconds)
        place = Part(self._places, hex(id(self)) if self._forwarded else self.client[0])
        try:
            place.take()
            self._place = place
        except Problem as problem:
            self._refuse(problem.name)

    def data_received(self, data: bytes) -> None:
        """Read; count the bytes of a head, and never be left without a clock."""
        if self._full:
            return
        super().data_received(data)
        if self.transport.is_closing() or self._full:
            return
        if self._single is not None:
            self._go_ordinary_way()
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > self._limits.head_bytes:
                self._refuse("head-too-large")
        elif self._at_rest() and self._clock is None:
            self._wind(self._limits.idle_seconds)

    def on_message_begin(self) -> None:
        """Start the clock again with the next request, if not too many wait already."""
        if len(self.pipeline) >= self._limits.pipelined:
            self._full = True
            raise OverflowError
        super().on_message_begin()
        self._in_head, self._head_bytes, self._parsed_bytes = True, 0, 0
        self._wind(self._limits.head_seconds)

    def on_url(self, url: bytes) -> None:
        """Count the bytes of a head that came at once, too."""
        self._parsed(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count bytes and fields: a field takes more memory than its bytes."""
        self._parsed(len(name) + len(value) + 4)
        super().on_header(name, value)
        if len(self.headers) > self._limits.head_fields:
            self._parsed(self._limits.head_bytes)

    def _parsed(self, size: int) -> None:
        self._parsed_bytes += size
        if self._parsed_bytes > self._limits.head_bytes:
            self._refusal = "head-too-large"
            raise OverflowError

    def on_headers_complete(self) -> None:
        """Stop it: the body has a clock of its own."""
        self._in_head = False
        self._stop()
        if self._forwarded:
            named = [value for name, value in self.headers if name == b"x-forwarded-for"]
            if named:
                last = named[-1].rpartition(b",")[2].strip().decode("latin-1")
                self.scope["client"] = (client(last), 0)
        self._single = self._asked()
        if self._single is None:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Keep what may be a single report."""
        if self._single is None:
            super().on_body(body)
            return
        self._body += body
        if len(self._body) > min(MOST_BYTES, self._limits.body_bytes):
            self._go_ordinary_way()

    def on_message_complete(self) -> None:
        """Stop the one that runs where the answer came before the end of the body."""
        self._stop()
        single, waiting = self._single, SingleCycle()
        if single is not None:
            who = (self.scope["client"] or ("", 0))[0]
            if self._singles.take(single, self._body, who, partial(self._answer, waiting)):
                self.cycle = cast(RequestResponseCycle, waiting)
                self._single, self._body = None, b""
                return
            self._go_ordinary_way()
        super().on_message_complete()

    def _asked(self) -> Single | None:
        """Return what a request asks for, if it may go past the application."""
        parser, free = self.parser, self.cycle is None or self.cycle.response_complete
        if not free or self.flow.write_paused or parser.get_method() != b"POST":
            return None
        if parser.get_http_version() != "1.1" or not parser.should_keep_alive():
            return None
        return self._singles.asked(self.url, self.headers)

    def _go_ordinary_way(self) -> None:
        """Hand a request on that is no single report, or has not come at once."""
        body, self._single, self._body = self._body, None, b""
        super().on_headers_complete()
        if body:
            super().on_body(body)

    def _answer(self, cycle: SingleCycle, status: int, said: bytes) -> None:
        """Answer a single report."""
        cycle.response_complete = True
        if cycle.disconnected or self.transport.is_closing():
            return
        general = [b"%s: %s\r\n" % field for field in self.server_state.default_headers]
        end = [] if cycle.keep_alive else [b"connection: close\r\n"]
        self.transport.write(b"".join([STATUS_LINE[status], *general, *end, said]))
        if not cycle.keep_alive:
            self.transport.close()
        self.on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clocks."""
        self._stop()
        self._is_read()
        if self._place is not None:
            self._place.give_back()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Wait for a client that does not read its answer, but not for ever."""
        super().pause_writing()
        self._is_read()
        self._unread = self.loop.call_later(self._limits.idle_seconds, self._give_up)

    def resume_writing(self) -> None:
        """It does read."""
        self._is_read()
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP in the shape of all problems; what is too much ends later."""
        del msg
        if self._full:
            self.cycle.keep_alive = False
        else:
            self._refuse(self._refusal)

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection, also one whose client does not read the answer."""
        self._give_up()

    def _at_rest(self) -> bool:
        """Whether the latest request has been answered."""
        return self.cycle is not None and self.cycle.response_complete

    def _refuse(self, name: str) -> None:
        """Answer without the application, and close."""
        response = Problem(name).response()
        fields = [*response.raw_headers, (b"connection", b"close")]
        head = b"".join(b"%s: %s\r\n" % field for field in fields)
        line = STATUS_LINE[response.status_code]
        self.transport.write(b"".join([line, head, b"\r\n", bytes(response.body)]))
        self.transport.close()

    def _wind(self, seconds: float) -> None:
        self._stop()
        self._clock = self.loop.call_later(seconds, self._give_up)

    def _stop(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None

    def _is_read(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _give_up(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()
            self.loop.call_later(self._limits.body_seconds, self.transport.abort)
