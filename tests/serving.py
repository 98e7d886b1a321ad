"""A real collector in a process of its own: started, killed, and started again on the same store.

    with serving(store_url, campaign_text) as collector:
        collector.upload(body, report.JSON)
        collector.kill()
        collector.start()

Importing the collector takes a second, so a supervisor (this file, run as a program) imports it
once and forks it from itself, before any thread is started. The forked process does all that
`murmur serve` does: it binds the port, opens the store and publishes the campaign. It is that
process, which holds the store, that is killed.
"""

import contextlib
import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from murmuration.collector.store import open_store

HOST = "127.0.0.1"
PORTS = range(20_000, 32_000)
"""Below those that the system gives to clients: a client that tries a port could get it itself."""
SECONDS = 60.0
NAMED = "/v1/campaigns/"
COVERAGE = ("COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG")
"""How coverage finds its way into other processes."""


@dataclass(frozen=True)
class Answer:
    """What came back, read to its end."""

    status: int
    headers: Mapping[str, str]
    data: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.data)

    @property
    def problem(self) -> str:
        """The name of the problem."""
        return str(self.json["type"]).removeprefix("/problems/")


class Client:
    """One connection that is kept, and made again when it is lost."""

    def __init__(self, port: int, token: str = "", timeout: float = SECONDS) -> None:
        self._token = token
        self._connection = http.client.HTTPConnection(HOST, port, timeout=timeout)

    def ask(self, method: str, path: str, body: bytes | None = None, kind: str = "") -> Answer:
        """Ask and read the answer to its end; OSError or HTTPException if there is none."""
        headers = {"content-type": kind} if kind else {}
        if self._token:
            headers["authorization"] = f"Bearer {self._token}"
        try:
            self._connection.request(method, path, body, headers)
            answer = self._connection.getresponse()
            return Answer(answer.status, dict(answer.getheaders()), answer.read())
        except BaseException:
            self.close()
            raise

    @property
    def local_port(self) -> int:
        """The port at this end of the connection; 0 if there is none."""
        return self._connection.sock.getsockname()[1] if self._connection.sock else 0

    def close(self) -> None:
        self._connection.close()


class Serving:
    """A collector process and its supervisor."""

    def __init__(
        self,
        store: str,
        campaigns: Sequence[str],
        workers: int = 1,
        sqlite: Mapping[str, Any] | None = None,
        token: bool = True,
        before: Sequence[str] = (),
        measured: bool = False,
    ) -> None:
        """`sqlite` are constants of the SQLite store, `before` is put before the command.

        `measured`: coverage is measured there too. It is slow, and lost when a signal ends it.
        """
        self.store, self.port, self.pid = store, free_port(), 0
        self.token = _new_token(store) if token else ""
        settings = {
            **{"store": store, "campaigns": list(campaigns), "port": self.port},
            **{"workers": workers, "sqlite": dict(sqlite or {})},
        }
        self._supervisor = subprocess.Popen(
            [*before, sys.executable, __file__, json.dumps(settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={k: v for k, v in os.environ.items() if measured or k not in COVERAGE},
        )

    def client(self, timeout: float = SECONDS) -> Client:
        return Client(self.port, self.token, timeout)

    def ask(self, method: str, path: str, body: bytes | None = None, kind: str = "") -> Answer:
        """One request on a connection of its own."""
        with contextlib.closing(self.client()) as client:
            return client.ask(method, path, body, kind)

    def get(self, path: str) -> Answer:
        return self.ask("GET", path)

    def about(self, campaign: str, what: str) -> Answer:
        return self.get(f"{NAMED}{campaign}/{what}")

    def upload(self, campaign: str, body: bytes, kind: str) -> Answer:
        return self.ask("POST", f"{NAMED}{campaign}/reports", body, kind)

    # --- its life --------------------------------------------------------------------------------

    def start(self) -> None:
        """Start it and come back when it is ready."""
        self.fork()
        self.wait_until_ready()

    def fork(self) -> None:
        """Start it and come back at once."""
        self.pid = int(self._tell("start"))

    def wait_until_ready(self) -> None:
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError, http.client.HTTPException):
                if self.get("/ready").status == 200:
                    return
            if self._tell("look") != "":
                self.pid = 0
                raise RuntimeError("the collector ended before it was ready")
            time.sleep(0.005)
        raise TimeoutError("the collector is not ready")

    def kill(self) -> int:
        """SIGKILL; come back when the process is gone."""
        return self._end(signal.SIGKILL)

    def stop(self) -> int:
        """Ask it to end, as Ctrl-C does; come back when it has."""
        return self._end(signal.SIGTERM)

    def _end(self, number: int) -> int:
        if not self.pid:
            return 0
        os.kill(self.pid, number)
        self.pid = 0
        return int(self._tell("wait"))

    def _tell(self, command: str) -> str:
        assert self._supervisor.stdin is not None
        assert self._supervisor.stdout is not None
        self._supervisor.stdin.write(f"{command}\n")
        self._supervisor.stdin.flush()
        answer = self._supervisor.stdout.readline()
        if not answer.endswith("\n"):
            raise RuntimeError("the supervisor has ended")
        return answer.strip()

    def close(self) -> None:
        """End everything: the supervisor goes, and takes the collector along, when stdin ends."""
        assert self._supervisor.stdin is not None
        assert self._supervisor.stdout is not None
        if self.pid and self._supervisor.poll() is None:
            with contextlib.suppress(OSError, RuntimeError):
                self.stop()
        self._supervisor.stdin.close()
        self._supervisor.wait(SECONDS)
        self._supervisor.stdout.close()


@contextlib.contextmanager
def serving(store: str, *campaigns: str, **options: Any) -> Iterator[Serving]:
    """A collector that is ready; ended at the end."""
    collector = Serving(store, campaigns, **options)
    try:
        collector.start()
        yield collector
    finally:
        collector.close()


def free_port() -> int:
    """A port that nobody listens on."""
    for port in random.SystemRandom().sample(PORTS, 100):
        with contextlib.suppress(OSError), socket.create_server((HOST, port)):
            return port
    raise OSError("there is no free port")


def _new_token(store: str) -> str:
    from murmuration.server.access import ADMIN, new_token

    with contextlib.closing(open_store(store)) as opened:
        return new_token(opened, ADMIN, "test")


# ------------------------------------------------------------------------------- the supervisor


def supervise(settings: Mapping[str, Any]) -> None:
    """Do what standard input says, until it ends: start a collector, look at it, wait for it."""
    collect = _imported(settings)
    child = 0
    for line in sys.stdin:
        command = line.strip()
        if command == "start":
            sys.stdout.flush()
            child = os.fork()
            if child == 0:
                os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
                os.dup2(2, 1)
                collect()
                raise SystemExit
            answer = f"{child}"
        else:
            gone, status = os.waitpid(child, 0 if command == "wait" else os.WNOHANG)
            answer = f"{os.waitstatus_to_exitcode(status)}" if gone else ""
            child = 0 if gone else child
        print(answer, flush=True)  # noqa: T201 - this is how it answers
    if child:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _imported(settings: Mapping[str, Any]) -> "partial[None]":
    """Import everything, and return what starts the collector."""
    from murmuration.campaign.file import load as campaign_file
    from murmuration.collector.store import sqlite
    from murmuration.server.run import Endpoint
    from murmuration.server.workers import run

    if str(settings["store"]).startswith("postgres"):
        import murmuration.collector.store.postgres  # noqa: F401 - so that a start need not
    for name, value in settings["sqlite"].items():
        assert hasattr(sqlite, name)
        setattr(sqlite, name, value)
    campaigns = [campaign_file.parse(text) for text in settings["campaigns"]]
    endpoint = Endpoint(HOST, int(settings["port"]))
    return partial(run, campaigns, str(settings["store"]), endpoint, int(settings["workers"]))


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    supervise(json.loads(sys.argv[1]))
