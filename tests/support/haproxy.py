"""A real HAProxy in front of collectors, with the configuration that the documentation has."""

import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.support.between import HOST, free_port
from tests.support.places import ROOT
from tests.support.tools import require_tool

CONFIGURATION = ROOT / "docs" / "haproxy.cfg"
BACKEND = "collectors"
SECONDS = 20.0


@dataclass(frozen=True)
class Proxy:
    """A running HAProxy: where devices find it, and what its operator can say to it."""

    port: int
    admin: Path

    def say(self, command: str) -> str:
        """Give a command, as `socat` would."""
        with socket.socket(socket.AF_UNIX) as line:
            line.connect(str(self.admin))
            line.sendall(command.encode() + b"\n")
            found = b""
            while part := line.recv(1 << 16):
                found += part
        return found.decode().strip()

    def servers(self) -> dict[str, dict[str, str]]:
        """What it knows of each collector, by name."""
        head, *lines = self.say("show stat").removeprefix("# ").splitlines()
        rows = [dict(zip(head.split(","), line.split(","), strict=True)) for line in lines]
        names = {"FRONTEND", "BACKEND"}
        return {
            row["svname"]: row
            for row in rows
            if row["pxname"] == BACKEND and row["svname"] not in names
        }

    def drain(self, server: str) -> None:
        """Give a collector no new requests; come back when it has answered what it had."""
        self.say(f"set server {BACKEND}/{server} state drain")
        self.wait_until(server, "DRAIN")
        deadline = time.monotonic() + SECONDS
        while int(self.servers()[server]["scur"]) and time.monotonic() < deadline:
            time.sleep(0.02)

    def ready(self, server: str) -> None:
        """Let a collector have requests again; come back when it is found to be well."""
        self.say(f"set server {BACKEND}/{server} state ready")
        self.wait_until(server, "UP")

    def wait_until(self, server: str, state: str) -> None:
        """Come back when it takes a collector for up, down or drained."""
        deadline = time.monotonic() + SECONDS
        while not (found := self.servers()[server]["status"]).startswith(state):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{server} is {found}, not {state}")
            time.sleep(0.02)


@contextmanager
def in_front_of(one: int, two: int) -> Iterator[Proxy]:
    """HAProxy before the collectors at two ports; ended at the end."""
    with (
        tempfile.TemporaryDirectory(prefix="haproxy-") as folder,  # a socket's path is short
        _running(one, two, Path(folder)) as proxy,
    ):
        yield proxy


@contextmanager
def _running(one: int, two: int, folder: Path) -> Iterator[Proxy]:
    proxy = Proxy(free_port(), folder / "admin.sock")
    names = {"FRONT": f"{HOST}:{proxy.port}", "ADMIN": str(proxy.admin)}
    places = {"ONE": f"{HOST}:{one}", "TWO": f"{HOST}:{two}"}
    command = [require_tool("haproxy"), "-q", "-db", "-f", str(CONFIGURATION)]
    with (folder / "haproxy.log").open("w+b") as log:
        process = subprocess.Popen(command, env={**os.environ, **names, **places}, stderr=log)
        try:
            _wait_until_ready(process, proxy, folder)
            yield proxy
        finally:
            process.terminate()
            process.wait(SECONDS)


def _wait_until_ready(process: "subprocess.Popen[bytes]", proxy: Proxy, folder: Path) -> None:
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with suppress(OSError), socket.create_connection((HOST, proxy.port)):
            proxy.servers()
            return
        time.sleep(0.01)
    raise RuntimeError((folder / "haproxy.log").read_text())
