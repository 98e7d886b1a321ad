"""The one HTTP client: what it follows, what it takes, and what it says when nothing comes."""

from __future__ import annotations

import gzip
import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from murmuration.errors import ParameterError, SendError
from murmuration.wire.address import Address
from murmuration.wire.http import Answer, Connection, Problem
from tests.support.between import HOST, free_port


class _Host(http.server.ThreadingHTTPServer):
    """Answers every request in the same way, and keeps what was asked."""

    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.answer, self.asked = (status, headers, body), list[tuple[str, dict[str, str]]]()
        super().__init__((HOST, 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.server_port}/v1/campaigns/x"


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Host

    def do_GET(self) -> None:
        self.server.asked.append((self.path, dict(self.headers)))
        status, headers, body = self.server.answer
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        pass


@contextmanager
def host(
    status: int = 200, headers: dict[str, str] | None = None, body: bytes = b"{}"
) -> Iterator[_Host]:
    with _Host(status, headers or {}, body) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def test_a_redirect_is_an_answer_and_takes_no_token_along() -> None:
    with host() as other, host(302, {"Location": other.url}) as first:
        with Connection(Address.parse(first.url)) as connection:
            answer = connection.request("GET", "/x", token="murmur_secret")  # noqa: S106
        assert answer.status == 302
        assert first.asked[0][1]["Authorization"] == "Bearer murmur_secret"
        assert other.asked == []


def get(url: str, **options: Any) -> Answer:
    with Connection(Address.parse(url), **options) as connection:
        return connection.request("GET", "/x")


@pytest.mark.parametrize("packed", [False, True])
def test_an_answer_has_a_largest_size_before_and_after_unpacking(packed: bool) -> None:
    body, headers = bytes(1000), dict[str, str]()
    if packed:
        body, headers = gzip.compress(body), {"Content-Encoding": "gzip"}
    with host(200, headers, body) as server, Connection(Address.parse(server.url)) as connection:
        assert connection.request("GET", "/x", most=1000).data == bytes(1000)
        with pytest.raises(SendError, match="longer than 999 bytes"):
            connection.request("GET", "/x", most=999)


def test_a_problem_has_a_name_only_in_the_usual_form() -> None:
    assert Problem("/problems/no-model").name == "no-model"
    assert Problem("/problems/\x1b[31m").name == ""
    with host(404, {}, b'{"type": "/problems/no-model", "title": "There is none."}') as server:
        answer = get(server.url)
        assert (answer.reason, answer.problem) == (
            "no-model",
            Problem("/problems/no-model", "There is none."),
        )
    with host(404, {}, b"<html>") as server:
        assert get(server.url).reason == "http-404"


def test_nobody_there() -> None:
    with pytest.raises(SendError, match="cannot be reached: Connection refused"):
        get(f"http://{HOST}:{free_port()}/x")


def test_a_token_that_could_not_be_a_header_is_not_repeated() -> None:
    with pytest.raises(ParameterError, match="printable") as refused:
        Connection(Address.parse("https://host/x"), "secret\r\nHost: elsewhere")
    assert "secret" not in str(refused.value)


def test_an_analyst_goes_by_the_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("no_proxy", "NO_PROXY", "HTTP_PROXY", "REQUEST_METHOD"):
        monkeypatch.delenv(name, raising=False)
    address = Address.parse("http://collector.example/x", allow_plain_http=True)
    with host() as proxy:
        monkeypatch.setenv("http_proxy", f"http://ann:pass@{HOST}:{proxy.server_port}")
        with Connection(address, proxied=True) as connection:
            assert connection.request("GET", "/x").status == 200
    ((path, headers),) = proxy.asked
    assert path == "http://collector.example:80/x"
    assert headers["Host"] == "collector.example:80"
    assert headers["Proxy-Authorization"] == "Basic YW5uOnBhc3M="
