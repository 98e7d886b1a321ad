"""A single report that comes at once is answered as one that takes the ordinary way."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Iterator
from contextlib import closing
from types import SimpleNamespace
from typing import Any, cast

import pytest

from murmuration.collector.access.participants import new_batch, tokens_of
from murmuration.collector.publish import serve
from murmuration.collector.store import open_store
from murmuration.server.app import Collector as State
from murmuration.server.singles import Singles
from tests.support.accounts import campaign_of
from tests.support.collectors import (
    JSON,
    Collector,
    answered,
    one,
    running,
    uploads,
)

OPEN, TOKEN = one("open"), one("guarded", 'upload = "token"')
OWN = one("own", 'upload = "one-device"')
CLOSED = one("closed", "closes = 2020-01-01T00:00:00Z")
PAGES = one("pages", 'origins = ["https://study.example"]')
TEXTS = (OPEN, TOKEN, OWN, CLOSED, PAGES)
PIECES = 0.05
"""Seconds between head and body: they are two pieces then."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collector]:
    with running(tmp_path_factory.mktemp("singles") / "store.db", *TEXTS) as found:
        yield found


def request(campaign: str, body: bytes, *fields: str, kind: str = JSON) -> tuple[bytes, bytes]:
    """The head and the body of an upload."""
    lines = [f"POST /v1/campaigns/{campaign}/reports HTTP/1.1", "Host: x", f"Content-Type: {kind}"]
    lines += [*fields, f"Content-Length: {len(body)}", "\r\n"]
    return "\r\n".join(lines).encode(), body


def answer(server: Collector, *pieces: bytes) -> bytes:
    """What is answered, but for the date and how long to wait."""
    with server.connected() as line:
        for piece in pieces:
            line.sendall(piece)
            time.sleep(PIECES)
        return re.sub(rb"(date|retry-after): [^\r]*", rb"\1: ", answered(line))


def report(text: str, **other: Any) -> bytes:
    """A report alone."""
    return json.dumps({**uploads(campaign_of(text), 1)[0], **other}).encode()


BODIES = {
    "fine": lambda text: report(text),
    "of another campaign": lambda text: report(text, digest="0" * 64),
    "with a bad id": lambda text: report(text, id="x"),
    "with bad entries": lambda text: report(text, entries=[]),
    "with a bad symbol": lambda text: report(text, entries=[[0, 200]]),
    "with a period": lambda text: report(text, period=3),
    "that is none": lambda text: b"{}",
    "cut off": lambda text: report(text)[:-1],
    "a list": lambda text: b"[" + report(text) + b"]",
    "empty": lambda text: b"",
}


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("text", [OPEN, CLOSED], ids=["open", "closed"])
def test_every_body_is_answered_alike(server: Collector, text: str, name: str) -> None:
    campaign = campaign_of(text).name
    head, body = request(campaign, BODIES[name](text))
    before = server.status(campaign)["received"]
    at_once = answer(server, head + body)
    head, body = request(campaign, BODIES[name](text))  # with an id of its own
    assert at_once == answer(server, head, body)
    assert server.status(campaign)["received"] - before in (0, 2)


def test_a_report_is_counted_once_whichever_way_it_comes(server: Collector) -> None:
    before = server.status("open")["people"]
    head, body = request("open", report(OPEN))
    assert b'"stored":1' in answer(server, head + body)
    again = answer(server, head, body)
    assert b"/problems/duplicate" in again
    assert answer(server, head + body) == again
    assert server.status("open")["people"] == before + 1


def test_every_token_is_answered_alike(server: Collector) -> None:
    tokens = {
        "none": [],
        "of no form": ["Authorization: Bearer x"],
        "unknown": ["Authorization: Bearer murmur_" + "x" * 43],
        "another scheme": ["Authorization: Basic eDp5"],
        "of another campaign": [f"Authorization: Bearer {server.token('device', 'a', 'open')}"],
        "for merging": [f"Authorization: Bearer {server.token('merge', sources=['0' * 16])}"],
        "fine": [f"Authorization: Bearer {server.token('device', 'b', 'guarded')}"],
        "twice": [f"Authorization: Bearer {server.token('device', 'c')}"] * 2,
    }
    expected = {"none": 401, "fine": 200, "for merging": 403, "of another campaign": 403}
    for name, fields in tokens.items():
        at_once = answer(server, b"".join(request("guarded", report(TOKEN), *fields)))
        assert at_once == answer(server, *request("guarded", report(TOKEN), *fields)), name
        if name in expected:
            assert at_once.startswith(b"HTTP/1.1 %d " % expected[name])


def test_a_participants_token_counts_once(server: Collector) -> None:
    with closing(open_store(server.store)) as store:
        token, other = tokens_of(new_batch(store, "own"), 2)
    field = f"Authorization: Bearer {token}"
    assert b'"stored":1' in answer(server, b"".join(request("own", report(OWN), field)))
    again = answer(server, b"".join(request("own", report(OWN), field)))
    assert b"/problems/token-used" in again
    assert again == answer(server, *request("own", report(OWN), field))
    field = f"Authorization: Bearer {other}"
    assert b'"stored":1' in answer(server, b"".join(request("own", report(OWN), field)))


@pytest.mark.parametrize(
    "fields",
    [
        ["Origin: https://study.example"],
        ["Origin: https://other.example"],
        ["Content-Encoding: identity"],
        ["Content-Encoding: gzip"],
        ["Connection: close"],
        ["X-Anything: x"],
        ["Accept: text/html"],
    ],
    ids=lambda fields: fields[0],
)
def test_every_head_is_answered_alike(server: Collector, fields: list[str]) -> None:
    at_once = answer(server, b"".join(request("pages", report(PAGES), *fields)))
    assert at_once == answer(server, *request("pages", report(PAGES), *fields))


def test_reports_in_a_row_are_answered_in_order(server: Collector) -> None:
    """On one connection: single ones, a list, and something else, all sent at once."""
    body = report(OPEN)
    listed = b"[" + report(OPEN) + b"," + report(OPEN) + b"]"
    health = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
    last = b"".join(request("open", report(OPEN), "Connection: close"))
    sent = [*request("open", body), *request("open", body), *request("open", listed), health, last]
    found = server.raw(b"".join(sent))
    told = re.findall(rb'"stored":\d|"alive"|/problems/[a-z]+', found)
    alone = rb'"stored":1'
    assert told == [
        alone,
        rb'"stored":0',
        b"/problems/duplicate",
        rb'"stored":2',
        b'"alive"',
        alone,
    ]
    assert found.count(b"connection: close") == 1


def test_one_that_hangs_up_is_counted(server: Collector) -> None:
    before = server.status("open")["people"]
    with server.connected() as line:
        line.sendall(b"".join(request("open", report(OPEN))))
        line.shutdown(socket.SHUT_RDWR)
    end = time.monotonic() + 10
    while server.status("open")["people"] == before:
        assert time.monotonic() < end
    assert b"murmur_open_requests 1\n" in server.get("/metrics").body


def test_a_head_of_another_kind_takes_the_ordinary_way(tmp_path: Any) -> None:
    """What is asked for is known only where nothing is unusual."""
    with closing(open_store(tmp_path / "store.db")) as store:
        served = {"pages": serve(store, campaign_of(PAGES))}
        singles = Singles(cast(State, SimpleNamespace(served=served)), "/study")
        url, usual = b"/v1/campaigns/pages/reports", (b"content-type", JSON.encode())
        for fine in (url, b"/study" + url):
            assert singles.asked(fine, [usual]) is not None
        assert singles.asked(url, [usual, (b"origin", b"https://other.example")]) is not None
        for other in (url + b"?x", url + b"/", b"/other" + url, url.replace(b"pages", b"p%61ges")):
            assert singles.asked(other, [usual]) is None
        for field in (
            (b"origin", b"https://study.example"),
            (b"content-encoding", b"gzip"),
            (b"transfer-encoding", b"chunked"),
            (b"expect", b"100-continue"),
            (b"content-type", b"text/plain"),
        ):
            assert singles.asked(url, [usual, field]) is None
        assert singles.asked(url, []) is None
