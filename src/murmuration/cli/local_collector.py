"""A collector of one's own on this machine, for as long as a command runs.

The command listens and hands the socket to the collector's process: nobody else can have the port
meanwhile, and whoever connects waits until the collector answers, however long it takes to start.
"""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from murmuration.errors import MurmurationError, SendError
from murmuration.wire.address import Address
from murmuration.wire.http import Connection

HOST = "127.0.0.1"
START_SECONDS = 300.0
"""For a collector that runs and does not answer: a busy machine takes long to start one."""


@contextmanager
def collecting(
    campaign: Path, store: str, port: int, *options: str
) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Run `murmur serve` in a process of its own; yield it and its port, and end it.

    The port is any that is free if the one that is wanted is not, or is 0.
    """
    listener = _listening(port)
    port = int(listener.getsockname()[1])
    command = [sys.executable, "-m", "murmuration.cli", "serve", str(campaign)]
    command += ["--store", store, "--port", str(port), "--socket", str(listener.fileno()), *options]
    with listener:  # once the process has it, its end is the end of those who wait
        process = subprocess.Popen(  # noqa: S603
            command, stdout=subprocess.DEVNULL, pass_fds=[listener.fileno()]
        )
    try:
        _wait_for(port)
        yield process, port
    finally:
        process.terminate()
        process.wait()


def _listening(port: int) -> socket.socket:
    try:
        return socket.create_server((HOST, port))
    except OSError:
        return socket.create_server((HOST, 0))


def _wait_for(port: int) -> None:
    """Return when the collector answers; its process may end before it does."""
    address = Address.parse(f"http://{HOST}:{port}")
    try:
        with Connection(address, seconds=START_SECONDS) as connection:
            connection.request("GET", "/ready")
    except SendError:
        raise MurmurationError("the collector did not start; see its message above") from None
