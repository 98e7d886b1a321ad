"""What can stand between a device and a collector, or in a collector's place."""

from __future__ import annotations

import contextlib
import http.server
import itertools
import random
import re
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

HOST = "127.0.0.1"
PORTS = range(20_000, 32_000)
"""Below those that the system gives to clients: a client that tries a port could get it itself."""


def free_port() -> int:
    """A port that nobody listens on."""
    for port in random.SystemRandom().sample(PORTS, 100):
        with contextlib.suppress(OSError), socket.create_server((HOST, port)):
            return port
    raise OSError("there is no free port")


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
def answering(
    answer: Answers,
    document: bytes | Callable[[int], bytes] = b"",
    headers: Mapping[str, str] | None = None,
) -> Iterator[Seen]:
    """A small HTTP server: GET returns the document (or one for each time), POST what is told.

    `headers` are those of the document.
    """
    seen, lock, times = Seen(""), threading.Lock(), itertools.count()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            found = document(next(times)) if callable(document) else document
            self._reply(200, dict(headers or {}), found)

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

    server = http.server.ThreadingHTTPServer((HOST, 0), Handler)
    with _serving(server) as here:
        seen.url = f"{here}/v1/campaigns/phones"
        yield seen


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

    with _serving(socketserver.ThreadingTCPServer((HOST, 0), Handler)) as here:
        seen.url = here + to.partition(f":{port}")[2]
        yield seen


@contextmanager
def _serving(
    server: http.server.ThreadingHTTPServer | socketserver.ThreadingTCPServer,
) -> Iterator[str]:
    """Serve in a thread; gives the address."""
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://{HOST}:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


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
