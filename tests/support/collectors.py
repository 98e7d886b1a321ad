"""Real collectors for tests: each a process of its own, with real HTTP and a real store.

    with collectors.running(folder / "store.db", TOML, limits={"connections": 5}) as collector:
        collector.send("pets", reports)
        collector.kill()
        collector.start()

The process does all that `murmur serve` does once it has read its command line and its files: it
binds the port, opens the store, publishes the campaigns and serves them. It is forked from one that
has imported everything (see warm.py).
"""

import gzip
import http.client
import importlib
import json
import re
import signal
import socket
import sqlite3
import ssl
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from murmuration.campaign.survey import SurveyCampaign
from murmuration.collector.access.sessions import new_code
from murmuration.collector.access.tokens import new_token
from murmuration.collector.merging.key_file import take_key
from murmuration.collector.store import StoreError, StoreFullError, open_store
from murmuration.definition.document import publish, read
from murmuration.definition.load import parse
from murmuration.errors import FormatError
from murmuration.exact.arrays import Rows
from murmuration.training.campaign import TrainingCampaign
from murmuration.wire import report
from murmuration.wire.ids import Ids, new_ids
from tests.support import warm
from tests.support.accounts import campaign_of, made
from tests.support.between import HOST, free_port

JSON, BINARY = report.JSON, report.BINARY
PROBLEM = "application/problem+json"
CAMPAIGNS = "/v1/campaigns"
SECONDS = 60.0

# --- campaigns and uploads -----------------------------------------------------------------------

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


def reports(campaign: SurveyCampaign, n: int, seed: int = 1) -> tuple[Ids, Rows]:
    """Reports of n people, the same ones for the same seed, with ids that are always new."""
    return new_ids(n), made(campaign, n, seed)[1]


def uploads(campaign: SurveyCampaign, n: int, seed: int = 1) -> list[dict[str, Any]]:
    """n reports as JSON has them."""
    found: Any = json.loads(report.to_json(campaign.form, *reports(campaign, n, seed)))
    return found if isinstance(found, list) else [found]


def encoded(campaign: SurveyCampaign, ids: Ids, rows: Rows, kind: str) -> bytes:
    """Reports in one form or the other."""
    write = report.to_binary if kind == BINARY else report.to_json
    return write(campaign.form, ids, rows)


def gzipped(data: bytes) -> bytes:
    return gzip.compress(data, 9, mtime=0)


# --- asking --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Answer:
    """What came back, read to its end."""

    status: int
    headers: Mapping[str, str]
    """By name in small letters."""
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


class Asking:
    """What can be asked of a collector, by whoever knows how to ask."""

    admin: str = ""
    """A token for everything."""

    def ask(self, method: str, path: str, *given: Any, **options: Any) -> Answer:
        """Ask as Client does; OSError or HTTPException if there is no answer."""
        raise NotImplementedError

    def get(self, path: str, token: str | None = None, **headers: str) -> Answer:
        """Ask as the admin, unless with another token."""
        return self.ask("GET", path, None, _named(headers), token or self.admin)

    def post(
        self, path: str, body: Any, kind: str = JSON, token: str | None = None, **headers: str
    ) -> Answer:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.ask("POST", path, data, {"Content-Type": kind, **_named(headers)}, token)

    def send(self, campaign: str, body: Any, kind: str = JSON, **named: Any) -> Answer:
        """Upload reports."""
        return self.post(f"{CAMPAIGNS}/{campaign}/reports", body, kind, **named)

    def about(self, campaign: str, what: str) -> Answer:
        return self.get(f"{CAMPAIGNS}/{campaign}/{what}")

    def status(self, campaign: str) -> dict[str, Any]:
        """The books, which always balance."""
        found = self.about(campaign, "status").json
        assert found["balanced"]
        assert found["received"] == sum(found["outcomes"].values())
        return dict(found)


def _named(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


class Client(Asking):
    """One connection that is kept, and made again when it is lost."""

    def __init__(
        self,
        port: int,
        admin: str = "",
        timeout: float = SECONDS,
        tls: ssl.SSLContext | None = None,
        source: str = HOST,
    ) -> None:
        """`source` is the address that it comes from: on loopback there are many."""
        self.admin = admin
        kind = http.client.HTTPConnection if tls is None else http.client.HTTPSConnection
        secure: dict[str, Any] = {} if tls is None else {"context": tls}
        if source != HOST:
            secure["source_address"] = (source, 0)
        self._connection = kind(HOST, port, timeout=timeout, **secure)

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        token: str | None = None,
        **options: Any,
    ) -> Answer:
        bearer = {} if token is None else {"Authorization": f"Bearer {token}"}
        try:
            self._connection.request(method, path, body, {**bearer, **(headers or {})}, **options)
            answer = self._connection.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, found, answer.read())
        except BaseException:
            self.close()
            raise

    @property
    def local_port(self) -> int:
        """The port at this end of the connection; 0 if there is none."""
        return self._connection.sock.getsockname()[1] if self._connection.sock else 0

    def close(self) -> None:
        self._connection.close()


def answered(line: socket.socket) -> bytes:
    """Read one answer from a bare connection, and no more."""
    line.settimeout(10)
    found = b""
    while b"\r\n\r\n" not in found:
        found += line.recv(1)
    (size,) = re.findall(rb"content-length: (\d+)", found)
    while int(size) > len(found.partition(b"\r\n\r\n")[2]):
        found += line.recv(1)
    return found


# --- collectors ----------------------------------------------------------------------------------


class Collector(Asking):
    """A collector process: started, asked, killed, and started again on the same store."""

    def __init__(
        self,
        store: str | Path,
        campaigns: Sequence[str],
        *,
        limits: Mapping[str, float] | None = None,
        workers: int = 1,
        certificate: Path | None = None,
        key: Path | None = None,
        tls: ssl.SSLContext | None = None,
        constants: Mapping[str, Any] | None = None,
        fault: Path | None = None,
        forwarded: bool = False,
        prefix: str = "",
        truths: Mapping[str, Mapping[str, float]] | None = None,
        reports: Path | None = None,
        token: bool = True,
        measured: bool = True,
        before: Sequence[str] = (),
    ) -> None:
        """Choose how it runs; it is not started yet.

        `constants` are other values of constants by their full name. While the file `fault` is
        there, the store raises what it says. `before` is put before the command. Coverage is
        `measured` in the process too, which is slow, and lost when it is killed. The admin's token
        is in the store before the process is started, unless it is not wanted. With `tls` it is
        asked, else with its certificate as the authority.
        """
        self.store, self.port = str(store), free_port()
        own = ssl.create_default_context(cafile=str(certificate)) if certificate else None
        self.tls = tls or own
        self.admin = self.token("admin", "tests") if token else ""
        self._home = tempfile.TemporaryDirectory(prefix="collector-")
        self._said: str | None = None
        self._measured = measured
        self._process: warm.Process | None = None
        self._forker = warm.Forker(before, warm.unmeasured()) if before else None
        settings = {
            **{"store": self.store, "port": self.port, "workers": workers},
            **{"limits": dict(limits or {}), "constants": dict(constants or {})},
            **{"certificate": str(certificate or ""), "key": str(key or "")},
            **{"fault": str(fault or ""), "forwarded": forwarded},
            **{"prefix": prefix, "truths": truths, "reports": str(reports or "")},
            "documents": [publish(_campaign(text)).decode() for text in campaigns],
        }
        self._settings.write_text(json.dumps(settings), encoding="utf-8")
        self._log.touch()

    # --- asking ----------------------------------------------------------------------------------

    def client(self, timeout: float = SECONDS, source: str = HOST) -> Client:
        return Client(self.port, self.admin, timeout, self.tls, source)

    def ask(self, method: str, path: str, *given: Any, **options: Any) -> Answer:
        """Send one request over a connection of its own."""
        with closing(self.client()) as client:
            return client.ask(method, path, *given, **options)

    def raw(self, data: bytes, seconds: float = 10) -> bytes:
        """Send bytes that need not be HTTP; return what comes until the end."""
        with self.connected(seconds) as line:
            found = b""
            with suppress(ConnectionError):  # closed before all was read: what came, came
                line.sendall(data)
                while part := line.recv(1 << 16):
                    found += part
            return found

    def connected(self, seconds: float = 10) -> socket.socket:
        """A bare connection."""
        return socket.create_connection((HOST, self.port), timeout=seconds)

    def collection(self, name: str) -> "Collection":
        return Collection(self, name)

    # --- looking ---------------------------------------------------------------------------------

    def token(
        self,
        role: str,
        name: str = "",
        campaign: str = "",
        days: float = 1,
        sources: Sequence[str] = (),
    ) -> str:
        """A new token."""
        with closing(open_store(self.store)) as store:
            return new_token(store, role, name, campaign, days, sources)

    def code(self, token: str = "", campaign: str = "") -> str:
        """A new code that signs a browser in."""
        with closing(open_store(self.store)) as store:
            return new_code(store, token, campaign)

    @property
    def name(self) -> str:
        """The collector's name, as its store has it."""
        with closing(open_store(self.store, readonly=True)) as store:
            return store.collector_name()

    def share(self, secret: bytes) -> None:
        """Give it the key that collectors share."""
        with closing(open_store(self.store)) as store:
            take_key(store, secret)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def log(self) -> str:
        """What it has logged."""
        return self._log.read_text(encoding="utf-8") if self._said is None else self._said

    @property
    def memory(self) -> int:
        """The most memory that it ever had, in bytes."""
        text = Path(f"/proc/{self.pid}/status").read_text()
        (line,) = [line for line in text.splitlines() if line.startswith("VmHWM")]
        return int(line.split()[1]) * 1024

    def dump(self) -> str:
        """Everything in every table of the file, as text; bytes in hexadecimal and as they are."""
        with closing(sqlite3.connect(self.store)) as db:
            names = [
                row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            ]
            tables = [name for name in names if not name.startswith("sqlite_")]
            rows = [row for name in tables for row in db.execute(f"SELECT * FROM {name}")]  # noqa: S608
        return "\n".join(_shown(value) for row in rows for value in row)

    # --- its life --------------------------------------------------------------------------------

    @property
    def _settings(self) -> Path:
        return Path(self._home.name, "settings.json")

    @property
    def _log(self) -> Path:
        return Path(self._home.name, "log")

    def start(self) -> None:
        """Start it and come back when it is ready."""
        self.fork()
        self.wait_until_ready()

    def fork(self) -> None:
        """Start it and come back at once."""
        with self._log.open("ab") as log:
            self._process = warm.start(
                "import sys; from tests.support import collectors; collectors.serve(sys.argv[1])",
                self._settings,
                env=None if self._measured else warm.unmeasured(),
                stdout=log,
                stderr=log,
                forker=self._forker,
            )

    def wait_until_ready(self) -> None:
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            with suppress(OSError, http.client.HTTPException):
                if self.ask("GET", "/ready").status == 200:
                    return
            assert self._process is not None
            if self._process.poll() is not None:
                raise RuntimeError(f"the collector ended before it was ready: {self.log}")
            time.sleep(0.002)
        raise TimeoutError(f"the collector is not ready: {self.log}")

    def kill(self) -> int:
        """SIGKILL; come back when the process is gone."""
        return self._end(signal.SIGKILL)

    def stop(self) -> int:
        """Ask it to end, as Ctrl-C does; come back when it has."""
        return self._end(signal.SIGTERM)

    def _end(self, number: int) -> int:
        if self._process is None:
            return 0
        self._process.send_signal(number)
        return self._process.wait(SECONDS)

    def close(self) -> None:
        """End everything."""
        try:
            self.stop()
        finally:
            if self._forker:
                self._forker.close()
            self._said = self.log
            self._home.cleanup()


@contextmanager
def running(store: str | Path, *campaigns: str, **options: Any) -> Iterator[Collector]:
    """A collector that is ready; ended at the end."""
    with closing(Collector(store, campaigns, **options)) as collector:
        collector.start()
        yield collector


@dataclass(frozen=True)
class Collection:
    """One campaign of a collector, as its devices and its analysts see it."""

    collector: Collector
    name: str

    @property
    def url(self) -> str:
        """The campaign's address."""
        scheme = "http" if self.collector.tls is None else "https"
        return f"{scheme}://{HOST}:{self.collector.port}{CAMPAIGNS}/{self.name}"

    @property
    def admin(self) -> str:
        return self.collector.admin

    def status(self) -> dict[str, Any]:
        """What has arrived, as the collector says."""
        return self.collector.status(self.name)

    @property
    def received(self) -> int:
        """How many reports have arrived, counted or not."""
        return int(self.status()["received"])


def _campaign(text: str) -> SurveyCampaign | TrainingCampaign:
    """The campaign of a file, of either kind; laws of questions are chosen once."""
    return parse(text, TrainingCampaign) if 'kind = "model"' in text else campaign_of(text)


def _shown(value: Any) -> str:
    if isinstance(value, bytes):
        return f"{value.hex()} {value.decode('latin-1')}"
    return str(value)


# --- in the process ------------------------------------------------------------------------------


def serve(settings: str) -> None:
    """Be the collector."""
    from murmuration.server.limits import Limits
    from murmuration.server.run import Endpoint
    from murmuration.server.workers import run

    given = json.loads(Path(settings).read_text(encoding="utf-8"))
    for place, value in given["constants"].items():
        module, _, name = place.rpartition(".")
        assert hasattr(importlib.import_module(module), name)
        setattr(sys.modules[module], name, value)
    if given["fault"]:
        _make_breakable(Path(given["fault"]))
    certificate, key = (
        Path(given[name]) if given[name] else None for name in ("certificate", "key")
    )
    campaigns = [read(document.encode()) for document in given["documents"]]
    front = {name: given[name] for name in ("forwarded", "prefix")}
    address = Endpoint(HOST, given["port"], certificate, key, **front)
    limits = Limits(**given["limits"])
    folder = Path(given["reports"]) if given["reports"] else None
    run(campaigns, given["store"], address, given["workers"], limits, given["truths"], folder)


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
