"""A real collector in a process of its own, and what can stand between it and a device."""

from __future__ import annotations

import http.server
import json
import os
import re
import socket
import socketserver
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from murmuration.collector.store import open_store
from murmuration.server.access import new_token

MURMUR = (sys.executable, "-c", "from murmuration.cli import main; main()")
START_SECONDS = 60.0


@dataclass(frozen=True)
class Running:
    """A collector that runs."""

    base: str
    name: str
    store: Path
    admin: str
    process: subprocess.Popen[str]

    @property
    def url(self) -> str:
        """The campaign's address."""
        return f"{self.base}/v1/campaigns/{self.name}"

    def status(self) -> dict[str, Any]:
        """What has arrived, as the collector says."""
        request = urllib.request.Request(f"{self.url}/status")
        request.add_header("Authorization", f"Bearer {self.admin}")
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    @property
    def received(self) -> int:
        """How many reports have arrived, counted or not."""
        return self.status()["received"]

    @property
    def outcomes(self) -> dict[str, int]:
        """What became of them."""
        return self.status()["outcomes"]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def running_collector(folder: Path, campaign_toml: str, **options: str) -> Iterator[Running]:
    """Start `murmur serve` on a free port with a SQLite file; ended, and waited for, at the end.

    `options` are those of the command, such as `host="127.0.0.1"`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file, store, output = folder / "campaign.toml", folder / "store.db", folder / "serve.out"
    file.write_text(campaign_toml, encoding="utf-8")
    port = int(options.pop("port", 0)) or free_port()
    more = [text for key, value in options.items() for text in (f"--{key}", value)]
    command = [*MURMUR, "serve", str(file), "--store", str(store), "--port", str(port), *more]
    with output.open("w+", encoding="utf-8") as written:
        process = subprocess.Popen(
            command, stdout=written, stderr=subprocess.STDOUT, env={**os.environ, "COLUMNS": "200"}
        )
        try:
            base = f"http://127.0.0.1:{port}"
            _wait_for(f"{base}/ready", process, output)
            with closing(open_store(store)) as opened:
                token = new_token(opened, "admin")
            name = re.search(r"^name = \"(.+)\"", campaign_toml, re.M)
            assert name is not None
            yield Running(base, name[1], store, token, process)
        finally:
            process.terminate()
            process.wait(30)


def _wait_for(url: str, process: subprocess.Popen[str], output: Path) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        assert process.poll() is None, output.read_text(encoding="utf-8")
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.05)
    raise AssertionError(f"the collector did not start: {output.read_text(encoding='utf-8')}")


# --- in between ----------------------------------------------------------------------------------


@dataclass
class Seen:
    """What passed by."""

    url: str
    bodies: list[bytes] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    times: list[float] = field(default_factory=list)


Answers = Callable[[int, bytes], tuple[int, dict[str, str], bytes]]
"""The number of the request and its body; status, headers and body of the answer."""


@contextmanager
def answering(answer: Answers, document: bytes = b"") -> Iterator[Seen]:
    """A small HTTP server: GET returns the document, POST whatever is told."""
    seen, lock = Seen(""), threading.Lock()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._reply(200, {}, document)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            with lock:
                number = len(seen.bodies)
                seen.bodies.append(body)
                seen.headers.append(dict(self.headers))
                seen.times.append(time.monotonic())
            self._reply(*answer(number, body))

        def _reply(self, status: int, headers: dict[str, str], body: bytes) -> None:
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        seen.url = f"http://127.0.0.1:{server.server_port}/v1/campaigns/phones"
        yield seen
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def cutting_proxy(to: str, cuts: int = 1) -> Iterator[Seen]:
    """Pass requests on, but hang up on the first `cuts` of them instead of passing the answer.

    The collector has then stored the report, and the device cannot know.
    """
    host, port = re.search(r"//([^:/]+):(\d+)", to).groups()  # type: ignore[union-attr]
    seen, left, lock = Seen(""), [cuts], threading.Lock()

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            request = _whole(self.request)
            if not request:
                return
            with socket.create_connection((host, int(port)), timeout=30) as onward:
                onward.sendall(request)
                answer = _whole(onward)
            with lock:
                cut = request.startswith(b"POST") and left[0] > 0
                left[0] -= cut
                if request.startswith(b"POST"):
                    seen.bodies.append(request.partition(b"\r\n\r\n")[2])
            if not cut:
                self.request.sendall(answer)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            here = f"http://127.0.0.1:{server.server_address[1]}"
            seen.url = here + to.partition(f":{port}")[2]
            yield seen
        finally:
            server.shutdown()
            thread.join()


def _whole(stream: socket.socket) -> bytes:
    """Read one HTTP message: its head, and as much body as the head says."""
    data = b""
    while b"\r\n\r\n" not in data:
        part = stream.recv(65536)
        if not part:
            return data
        data += part
    length = re.search(rb"(?i)content-length: (\d+)", data)
    size = data.index(b"\r\n\r\n") + 4 + (int(length[1]) if length else 0)
    while len(data) < size:
        part = stream.recv(65536)
        if not part:
            break
        data += part
    return data
