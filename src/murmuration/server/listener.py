"""Take connections, many at a time."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress

log = logging.getLogger("murmuration.server")

AT_ONCE = 256
"""Connections that are taken before those that are there are looked at again."""
PAUSE_SECONDS = 1.0
"""After the system could give no connection."""


class Listener:
    """A listening socket.

    uvloop's own takes one connection each time that it looks at all of them. When those that are
    there keep it busy, others would wait for seconds.
    """

    def __init__(
        self,
        listening: socket.socket,
        backlog: int,
        protocol: Callable[[], asyncio.Protocol],
        secure: ssl.SSLContext | None = None,
    ) -> None:
        self._socket, self._protocol, self._secure = listening, protocol, secure
        self._loop = asyncio.get_running_loop()
        self._opening: set[asyncio.Task[None]] = set()
        listening.setblocking(False)
        listening.listen(backlog)
        self._loop.add_reader(listening, self._take)

    def close(self) -> None:
        """Take no more."""
        self._loop.remove_reader(self._socket)

    def _take(self) -> None:
        for _ in range(AT_ONCE):
            try:
                line, _ = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as problem:
                log.error("a connection cannot be taken: %s", problem.strerror)
                self._loop.remove_reader(self._socket)
                self._loop.call_later(PAUSE_SECONDS, self._again)
                return
            task = self._loop.create_task(self._open(line))
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)

    def _again(self) -> None:
        with suppress(OSError, ValueError):  # it was closed meanwhile
            self._loop.add_reader(self._socket, self._take)

    async def _open(self, line: socket.socket) -> None:
        """Give a connection its protocol, after TLS if there is any."""
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with suppress(OSError):  # it has ended, or was no TLS
            await self._loop.connect_accepted_socket(self._protocol, line, ssl=self._secure)
