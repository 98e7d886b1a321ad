"""HTTP/1.1 by uvicorn, with a clock for everything that a client might never finish."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from murmuration.server.limits import Limits
from murmuration.server.problems import Problem


class PatientProtocol(HttpToolsProtocol):
    """A connection that waits for nothing for ever, and reads no head without end.

    A head has a clock; a body has one of its own, see `body.read`. After the answer the connection
    may be idle for a while; what still comes of a body that was refused is read past meanwhile, so
    that the client can see the answer.
    """

    def __init__(self, *values: Any, limits: Limits, **named: Any) -> None:
        super().__init__(*values, **named)
        self._limits = limits
        self._clock: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        self._in_head = True
        self._head_bytes = 0

    def connection_made(self, transport: Any) -> None:
        """Start the clock with the connection, if there is room for one more."""
        super().connection_made(transport)
        self._wind(self._limits.head_seconds)
        if len(self.connections) > self._limits.connections:
            self._refuse("too-many-requests")

    def data_received(self, data: bytes) -> None:
        """Read; count the bytes of a head, and never be left without a clock."""
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > self._limits.head_bytes:
                self._refuse("head-too-large")
        elif self._at_rest() and self._clock is None:
            self._wind(self._limits.idle_seconds)

    def on_message_begin(self) -> None:
        """Start the clock again with the next request."""
        super().on_message_begin()
        self._in_head, self._head_bytes = True, 0
        self._wind(self._limits.head_seconds)

    def on_headers_complete(self) -> None:
        """Stop it: the body has a clock of its own."""
        self._in_head = False
        self._stop()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Stop the one that runs where the answer came before the end of the body."""
        self._stop()
        super().on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clocks."""
        self._stop()
        self._is_read()
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
        """Answer what is no HTTP in the shape of all problems."""
        del msg
        self._refuse("bad-request")

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
