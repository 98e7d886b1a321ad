"""New connections are taken many at a time, and again after the system could give none."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
import uvloop

from murmuration.server import listener as listeners
from murmuration.server.listener import Listener


class Seen(asyncio.Protocol):
    """Notes that it was given a connection."""

    def __init__(self, made: list[asyncio.BaseTransport]) -> None:
        self._made = made

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._made.append(transport)


async def ended(listener: Listener, made: list[asyncio.BaseTransport]) -> None:
    """Close everything."""
    listener.close()
    for transport in made:
        transport.close()
    await asyncio.sleep(0.01)


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        yield found


def test_many_connections_are_taken_at_once(listening: socket.socket) -> None:
    """All that wait have a protocol after a few turns of the loop, however many they are."""
    made: list[asyncio.BaseTransport] = []

    async def run(stack: ExitStack) -> None:
        listener = Listener(listening, 200, lambda: Seen(made))
        for _ in range(100):
            stack.enter_context(socket.create_connection(listening.getsockname()))
        for _ in range(10):
            await asyncio.sleep(0)
        assert len(made) == 100
        await ended(listener, made)

    with ExitStack() as stack:
        uvloop.run(run(stack))


class Short:
    """A listening socket of a process that has no file descriptor left, for a while."""

    def __init__(self, real: socket.socket, failures: int) -> None:
        self._real, self.failures = real, failures

    def accept(self) -> tuple[socket.socket, object]:
        if self.failures:
            self.failures -= 1
            raise OSError(errno.EMFILE, "too many open files")
        return self._real.accept()

    def __getattr__(self, name: str) -> object:
        return getattr(self._real, name)


def test_a_system_that_gives_no_connection_is_asked_again(
    listening: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listeners, "PAUSE_SECONDS", 0.01)
    made: list[asyncio.BaseTransport] = []
    short = Short(listening, 2)

    async def run() -> None:
        listener = Listener(short, 10, lambda: Seen(made))  # type: ignore[arg-type]
        with socket.create_connection(listening.getsockname()):
            while not made:
                await asyncio.sleep(0.01)
            await ended(listener, made)

    asyncio.run(asyncio.wait_for(run(), 10))
    assert short.failures == 0
