"""A collector for tests: a process of its own, on a free port, with a real SQLite file.

    with http_server.running(folder, [TOML], limits={"waiting": 5}) as server:
        server.post("/v1/campaigns/pets/reports", body)

Run as a program it is that process. With `FAULT` in its folder the store raises what the file says.
"""

import gzip
import http.client
import json
import os
import re
import socket
import sqlite3
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from murmuration.campaign.file import load as campaign_file
from murmuration.campaign.model import Campaign
from murmuration.collector.store import StoreError, StoreFullError, open_store
from murmuration.errors import FormatError
from murmuration.exact.randomness import seeded_rng
from murmuration.server.access import new_token
from murmuration.wire import report
from murmuration.wire.ids import Ids, new_ids

JSON, BINARY = report.JSON, report.BINARY
PROBLEM = "application/problem+json"
FAULT = "fault"
SECONDS = 60

PETS = """
name = "pets"
purpose = "To know how people live."
epsilon = 2
cohort = 200
strategy = "sample"
sample = 2
[[attributes]]
name = "pet"
kind = "category"
labels = ["cat", "dog", "none"]
mechanism = "grr"
[[attributes]]
name = "age"
low = 0
high = 100
mechanism = "piecewise"
[[attributes]]
name = "work"
kind = "category"
labels = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"]
mechanism = "oue"
[[attributes]]
name = "sleep"
kind = "distribution"
low = 0
high = 12
bins = 16
"""
ONE = """
name = "{name}"
purpose = "One question."
epsilon = {epsilon}
cohort = 100
{rest}
[[attributes]]
name = "phone"
kind = "category"
labels = ["android", "ios", "other"]
mechanism = "grr"
"""


def one(name: str, rest: str = "", epsilon: float = 1) -> str:
    """A campaign with a single question."""
    return ONE.format(name=name, rest=rest, epsilon=epsilon)


def reports(campaign: Campaign, n: int, seed: int = 1) -> tuple[Ids, report.Rows]:
    """Ids and rows of n people."""
    rng, who = seeded_rng(seed), np.random.default_rng(seed)
    answers: dict[str, Any] = {
        q.name: [q.labels[i] for i in who.integers(len(q.labels), size=n)]
        if q.labels
        else who.uniform(*q.range, size=n)
        for q in campaign.questions
    }
    return new_ids(n), campaign.privatize(campaign.encode(answers), rng)


def uploads(campaign: Campaign, n: int, seed: int = 1) -> list[dict[str, Any]]:
    """n reports as JSON has them."""
    ids, rows = reports(campaign, n, seed)
    found: Any = json.loads(report.to_json(campaign, ids, rows))
    return found if isinstance(found, list) else [found]


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def problem(self) -> str:
        """The name of the problem, after a check of its shape."""
        found = self.json
        assert self.headers["content-type"] == PROBLEM
        assert found["status"] == self.status
        assert set(found) <= {"type", "title", "status", "detail"}
        assert found["title"]
        return str(found["type"]).removeprefix("/problems/")


@dataclass
class Server:
    """A running collector."""

    port: int
    folder: Path
    process: subprocess.Popen[str]
    tls: ssl.SSLContext | None = None
    lines: list[str] = field(default_factory=list)
    """What it has logged."""
    admin: str = ""
    """A token for everything."""

    @property
    def store(self) -> Path:
        return self.folder / "reports.db"

    def token(self, role: str, name: str = "", campaign: str = "", days: float = 1) -> str:
        with closing(open_store(self.store)) as store:
            return new_token(store, role, name, campaign, days)

    def connection(self) -> http.client.HTTPConnection:
        if self.tls is None:
            return http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)
        return http.client.HTTPSConnection(
            "127.0.0.1", self.port, timeout=SECONDS, context=self.tls
        )

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        token: str | None = None,
        **options: Any,
    ) -> Answer:
        """Send one request over a connection of its own."""
        bearer = {} if token is None else {"Authorization": f"Bearer {token}"}
        with closing(self.connection()) as connection:
            connection.request(method, path, body, {**bearer, **(headers or {})}, **options)
            with connection.getresponse() as answer:
                found = {name.lower(): value for name, value in answer.getheaders()}
                return Answer(answer.status, found, answer.read())

    def get(self, path: str, token: str | None = None, **headers: str) -> Answer:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.ask("GET", path, None, named, token or self.admin)

    def post(
        self, path: str, body: Any, kind: str = JSON, token: str | None = None, **headers: str
    ) -> Answer:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.ask("POST", path, data, {"Content-Type": kind, **named}, token)

    def send(self, campaign: str, body: Any, kind: str = JSON, **named: Any) -> Answer:
        return self.post(f"/v1/campaigns/{campaign}/reports", body, kind, **named)

    def status(self, campaign: str) -> dict[str, Any]:
        """The books, which always balance."""
        found = self.get(f"/v1/campaigns/{campaign}/status").json
        assert found["balanced"]
        assert found["received"] == sum(found["outcomes"].values())
        return dict(found)

    def raw(self, data: bytes, seconds: float = 10) -> bytes:
        """Send bytes that need not be HTTP; return what comes until the end."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=seconds) as line:
            found = b""
            with suppress(ConnectionError):  # closed before all was read: what came, came
                line.sendall(data)
                while part := line.recv(1 << 16):
                    found += part
            return found

    @property
    def memory(self) -> int:
        """The most memory that it ever had, in bytes."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        (line,) = [line for line in text.splitlines() if line.startswith("VmHWM")]
        return int(line.split()[1]) * 1024

    def dump(self) -> str:
        """Everything in every table, as text; bytes in hexadecimal and as they are."""
        with closing(sqlite3.connect(self.store)) as db:
            names = [row[0] for row in db.execute("SELECT name FROM sqlite_master")]
            tables = [name for name in names if not name.startswith("sqlite_")]
            rows = [row for name in tables for row in db.execute(f"SELECT * FROM {name}")]  # noqa: S608
        return "\n".join(_shown(value) for row in rows for value in row)


def _shown(value: Any) -> str:
    if isinstance(value, bytes):
        return f"{value.hex()} {value.decode('latin-1')}"
    return str(value)


@contextmanager
def running(
    folder: Path,
    campaigns: Sequence[str],
    limits: Mapping[str, float] | None = None,
    certificate: Path | None = None,
    key: Path | None = None,
) -> Iterator[Server]:
    """Start a collector of these campaign files; it is gone at the end."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = {"certificate": str(certificate or ""), "key": str(key or "")}
    with closing(open_store(folder / "reports.db")) as store:
        admin = new_token(store, "admin", "tests", days=1)
    settings = {"campaigns": list(campaigns), "limits": dict(limits or {}), **paths}
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, __file__, str(folder), json.dumps(settings)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    server = Server(0, folder, process, admin=admin)
    listener = threading.Thread(target=server.lines.extend, args=(process.stderr,))
    listener.start()
    try:
        server.port = int(process.stdout.readline() or 0)
        assert server.port, "".join(server.lines)
        if certificate is not None:
            server.tls = ssl.create_default_context(cafile=str(certificate))
        assert server.ask("GET", "/ready").status == 200
        yield server
    finally:
        process.terminate()
        process.wait(SECONDS)
        listener.join(SECONDS)
        process.stdout.close()
        process.stderr.close()


def answered(line: socket.socket) -> bytes:
    """Read one answer, and no more."""
    line.settimeout(10)
    found = b""
    while b"\r\n\r\n" not in found:
        found += line.recv(1)
    (size,) = re.findall(rb"content-length: (\d+)", found)
    while int(size) > len(found.partition(b"\r\n\r\n")[2]):
        found += line.recv(1)
    return found


def campaign_of(text: str) -> Campaign:
    return campaign_file.parse(text)


def gzipped(data: bytes) -> bytes:
    return gzip.compress(data, 9, mtime=0)


def serve(folder: Path, settings: dict[str, Any]) -> None:
    """Be the collector."""
    from murmuration.campaign.document import publish
    from murmuration.server import workers
    from murmuration.server.limits import Limits
    from murmuration.server.run import Endpoint

    _make_breakable(folder / FAULT)
    paths = [Path(settings[name]) if settings[name] else None for name in ("certificate", "key")]
    endpoint = Endpoint("127.0.0.1", 0, *paths)
    documents = tuple(publish(campaign_file.parse(text)) for text in settings["campaigns"])
    listener = workers.listening(endpoint)
    listener.listen()
    sys.stdout.write(f"{listener.getsockname()[1]}\n")
    sys.stdout.flush()
    limits = Limits(**settings["limits"])
    workers._serve(
        workers.Settings(str(folder / "reports.db"), documents, endpoint, limits), listener
    )


def _make_breakable(fault: Path) -> None:
    """While the file is there, every statement on some tables raises what it says: "kind: text"."""
    from murmuration.collector.store.sqlite import SqliteStore

    execute = SqliteStore.execute
    kinds = {"store": StoreError, "full": StoreFullError, "damaged": FormatError}

    def broken(self: SqliteStore, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        if ("tallies" in sql or "counts" in sql) and fault.exists():
            kind, _, text = fault.read_text().partition(": ")
            raise kinds.get(kind, RuntimeError)(text)
        return execute(self, sql, values)

    SqliteStore.execute = broken  # type: ignore[method-assign]


if __name__ == "__main__":
    serve(Path(sys.argv[1]), json.loads(sys.argv[2]))
