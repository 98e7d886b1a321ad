"""A collector of one's own on this machine, for as long as a command runs."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from murmuration.errors import MurmurationError

HOST = "127.0.0.1"
START_SECONDS = 30.0


@contextmanager
def collecting(
    campaign: Path, store: str, port: int, *options: str
) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Run `murmur serve` in a process of its own; yield it and its port, and end it.

    The port is any that is free if the one that is wanted is not, or is 0.
    """
    port = port if port and _is_free(port) else _free_port()
    command = [sys.executable, "-m", "murmuration.cli", "serve", str(campaign)]
    command += ["--store", store, "--port", str(port), *options]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)  # noqa: S603
    try:
        _wait_for(process, port)
        yield process, port
    finally:
        process.terminate()
        process.wait()


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _wait_for(process: subprocess.Popen[bytes], port: int) -> None:
    """Wait until the collector answers."""
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex((HOST, port)) == 0:
                return
        time.sleep(0.05)
    raise MurmurationError("the collector did not start; see its message above")
