"""Nothing that a client sends comes out again: not in logs, tables, metrics or errors.

A canary is put wherever a client can put something, through every way in which a request can fail.
"""

import json
import re
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest

from murmuration.counting.container import CampaignTallies, Part
from murmuration.counting.sketch import name_of, sketched
from murmuration.mechanisms.tally import Tally, sealed
from murmuration.server.problems import PROBLEMS
from murmuration.wire import report
from murmuration.wire.ids import new_ids
from tests.support.accounts import campaign_of
from tests.support.collectors import (
    BINARY,
    JSON,
    Answer,
    Collector,
    answered,
    gzipped,
    one,
    running,
    uploads,
)
from tests.support.trainings import LOGISTIC

WORD = "canaryq7w3z"
NUMBER = 739_174_628_503
HEX = "c0ffeec0deca4a71c0ffeec0deca4a71"
TRACES = (WORD, str(NUMBER), HEX[:16], WORD.encode().hex())
OPEN, GUARDED = one("open"), one("guarded", 'upload = "token"')
CLOSED = one("closed", "closes = 2020-01-01T00:00:00Z")
CAMPAIGN = campaign_of(OPEN)
TRAINING = LOGISTIC.replace('deadline = "6 h"', 'deadline = "6 h"\nopens = 2100-01-01T00:00:00Z')
LIMITS = {"connections": 12, "body_bytes": 1 << 20, "body_seconds": 0.5}
REPORTS = "/v1/campaigns/open/reports"
STATUS = "/v1/campaigns/open/status"
TALLY = "/v1/campaigns/open/tally"
SOURCE = "f" * 16
"""A collector whose tallies may be merged, and are refused."""
OCTETS = "application/octet-stream"


@dataclass
class Heard:
    """All that came out of the collector while it was fed with canaries."""

    answers: list[Answer] = field(default_factory=list)
    raw: list[bytes] = field(default_factory=list)
    ports: list[int] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    before: str = ""
    """The tables before any canary: laws have numbers that may be a port's, too."""
    metrics: str = ""
    tables: str = ""
    files: bytes = b""
    logs: str = ""

    @property
    def problems(self) -> set[str]:
        """The names of all problems, those of single reports too."""
        text = "".join(answer.body.decode("latin-1") for answer in self.answers)
        text += b"".join(self.raw).decode("latin-1")
        return set(re.findall(r'"/problems/([a-z-]+)"', text))


@pytest.fixture(scope="module")
def heard(tmp_path_factory: pytest.TempPathFactory) -> Heard:
    found = Heard()
    folder = tmp_path_factory.mktemp("canary")
    with running(
        *(folder / "store.db", OPEN, GUARDED, CLOSED, TRAINING),
        limits=LIMITS,
        fault=folder / "fault",
    ) as server:
        found.before = server.dump()
        found.tokens = [
            server.admin,
            server.token("device", campaign="guarded"),
            server.token("merge", sources=[SOURCE]),
        ]
        for feed in (_reports, _bodies, _addresses, _trainings, _tokens, _tallies, _lines):
            feed(server, found)
        for feed in (_crowd, _faults):
            feed(server, found)
        found.metrics = server.get("/metrics").body.decode()
        assert server.status("open")["people"] == 0
        found.tables = server.dump()
    found.files = b"".join(path.read_bytes() for path in folder.glob("store.db*"))
    found.logs = server.log
    return found


def _send(
    server: Collector, heard: Heard, method: str, path: str, body: Any = None, **h: str
) -> None:
    """Send a request that also has a canary in a header of its own and in its query."""
    headers = {"X-" + WORD: WORD, **{name.replace("_", "-"): value for name, value in h.items()}}
    joint = "&" if "?" in path else "?"
    heard.answers.append(server.ask(method, f"{path}{joint}{WORD}={WORD}", body, headers))


def _reports(server: Collector, heard: Heard) -> None:
    """Every reason for which a single report is refused."""
    fine = {**uploads(CAMPAIGN, 1)[0], "id": HEX}
    bad: list[Any] = [
        {WORD: WORD},
        {**fine, WORD: NUMBER},
        {**fine, "digest": WORD},
        {**fine, "wire": NUMBER},
        {**fine, "id": WORD},
        {**fine, "entries": [[NUMBER, NUMBER]]},
        {**fine, "entries": [[0, 200]]},
        {**fine, "entries": [[0, WORD]]},
        {**fine, "period": NUMBER},
        *(WORD, NUMBER, [WORD], None),
    ]
    _send(server, heard, "POST", REPORTS, json.dumps(bad), Content_Type=JSON)
    closed = campaign_of(CLOSED)
    late = [{**uploads(closed, 1)[0], "id": HEX}]
    path = "/v1/campaigns/closed/reports"
    _send(server, heard, "POST", path, json.dumps(late), Content_Type=JSON)


def _bodies(server: Collector, heard: Heard) -> None:
    """Bodies that cannot be read."""
    word = WORD.encode()
    post = partial(_send, server, heard, "POST", REPORTS)
    for body in (word, b'{"' + word + b'": 1}', b'["' + word, b"[" * 9999 + word):
        post(body, Content_Type=JSON)
    head = report.HEAD.pack(report.MAGIC, 1, bytes.fromhex(CAMPAIGN.digest), 5)
    for body in (word, word * 10, head + word, b"MURMRPTS" + word * 9):
        post(body, Content_Type=BINARY)
    strange = report.HEAD.pack(report.MAGIC, 1, word.ljust(32, b"q"), 1)
    post(strange + bytes.fromhex(HEX), Content_Type=BINARY)
    for packed in (word, gzipped(word), gzipped(word)[:-3], gzipped(word) + word):
        post(packed, Content_Type=JSON, Content_Encoding="gzip")
    post(gzipped(word * 200_000), Content_Type=JSON, Content_Encoding="gzip")
    post(word * 200_000, Content_Type=JSON)
    post(b"[]", Content_Type=JSON, Content_Encoding=WORD)
    post(b"[]", Content_Type=WORD)
    post(b"[]", Content_Type=f"text/{WORD}; charset={WORD}")
    post(None)


def _addresses(server: Collector, heard: Heard) -> None:
    """Paths, methods and parameters."""
    send = partial(_send, server, heard)
    token = f"Bearer {server.admin}"
    for method in ("GET", "PUT", WORD.upper()):
        for path in (
            f"/{WORD}",
            f"/v1/campaigns/{WORD}",
            f"/problems/{WORD}",
            f"{STATUS}/",
            STATUS,
        ):
            send(method, path, Authorization=token, Host=WORD)
    for name in ("confidence", "about", "format"):
        for value in (WORD, str(NUMBER), quote("é" + WORD)):
            send("GET", f"/v1/campaigns/open/estimates?{name}={value}", Authorization=token)
    send("GET", "/v1/campaigns/open/estimates", Authorization=token)
    send("GET", "/v1/campaigns/open/estimates", Authorization=token, Accept=WORD)
    send("GET", "/v1/campaigns/open", If_None_Match=WORD, Accept_Encoding=WORD, Origin=WORD)
    send("OPTIONS", REPORTS, Origin=f"https://{WORD}", Access_Control_Request_Headers=WORD)
    send("GET", f"/client/{WORD}")


def _trainings(server: Collector, heard: Heard) -> None:
    """A training that has not opened, and what is asked of it, or of another campaign, in vain."""
    send, token = partial(_send, server, heard), f"Bearer {server.admin}"
    training = "/v1/campaigns/buys"
    for path in ("estimates", "model", "round", f"rounds/{WORD}", f"rounds/{NUMBER}"):
        send("GET", f"{training}/{path}", Authorization=token)
        send("GET", f"/v1/campaigns/open/{path}", Authorization=token)
    for body in (WORD, json.dumps([{WORD: WORD}]), json.dumps([{"digest": WORD}])):
        send("POST", f"{training}/reports", body, Content_Type=JSON)


def _tokens(server: Collector, heard: Heard) -> None:
    """Tokens that are none, and one that does not suffice."""
    for header in (WORD, f"Bearer {WORD}", f"Bearer murmur_{WORD}", f"Basic {WORD}"):
        _send(server, heard, "GET", STATUS, Authorization=header)
    _send(server, heard, "GET", STATUS, Authorization=f"Bearer {heard.tokens[1]}")


def _tallies(server: Collector, heard: Heard) -> None:
    """Tallies of somebody else, whose names are canaries."""
    server.share(bytes(32))
    merger = f"Bearer {heard.tokens[2]}"
    send = partial(_send, server, heard, "POST", TALLY, Authorization=merger)
    other = campaign_of(OPEN.replace('"open"', f'"{WORD}"').replace("ios", WORD))
    send(
        CampaignTallies(other, {HEX[:16]: Part({})}).to_bytes(),
        Content_Type=OCTETS,
    )
    few, none = (_counted(n) for n in (9, 3))
    send(few, Content_Type=OCTETS, Authorization=f"Bearer {heard.tokens[1]}")
    word = WORD.encode()
    send(few, Content_Type=OCTETS)
    for body in (none, word, b"MURMTLYS" + word * 9, few[:-4] + b"\0" * 4, *_strange()):
        send(body, Content_Type=OCTETS)
    send(none, Content_Type=OCTETS, Content_Encoding=WORD)


def _counted(n: int) -> bytes:
    mechanism = CAMPAIGN.frame.cells[0]
    part = Part(
        {0: (Tally(mechanism, np.array([n, 0, 0]), n),)}, sketched([new_ids(n + 1)], bytes(32))
    )
    key = name_of(bytes(32))
    return CampaignTallies(CAMPAIGN, {HEX[:16]: part, SOURCE: part}, HEX[:16], key).to_bytes()


def _strange() -> list[bytes]:
    """Tallies of a mechanism whose name is a canary, and a head with one."""
    head = {"mechanism": WORD, "parameters": {WORD: WORD}, "fingerprint": WORD, "n": 0}
    top = {"digest": CAMPAIGN.digest, "document": 0, "reports": {}, "collector": "", "key": ""}
    top |= {"parts": {HEX[:16]: {"periods": [0], "sketch": ["0", 0]}}, WORD: WORD}
    return [sealed(said, word_bytes) for said in (head, top) for word_bytes in (b"", WORD.encode())]


@contextmanager
def _line(server: Collector, heard: Heard) -> Iterator[socket.socket]:
    with server.connected() as line:
        heard.ports.append(line.getsockname()[1])
        yield line


def _lines(server: Collector, heard: Heard) -> None:
    """What is no HTTP, what is too long, what never ends and what is broken off."""
    word = WORD.encode()
    for data in (
        word + b"\r\n\r\n",
        b"GET /" + word + b"\xff HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + word + b"\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: " + word + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + word + b": " + word * 20_000,
    ):
        heard.raw.append(server.raw(data))
    head = f"POST {REPORTS} HTTP/1.1\r\nX-Forwarded-For: {WORD}\r\nContent-Type: {JSON}\r\n"
    with _line(server, heard) as line:
        line.sendall(f"{head}Content-Length: 99\r\n\r\n{WORD}".encode())
        heard.raw.append(answered(line))  # 408
    upgrade = (
        f"GET /{WORD} HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: {WORD}\r\n\r\n{WORD}".encode()
    )
    with _line(server, heard) as line:
        line.sendall(upgrade)
        heard.raw.append(answered(line))
    for size in (5, 99):  # gone in the middle, with a reset
        with _line(server, heard) as line:
            line.sendall(f"{head}Content-Length: {size}\r\n\r\n{WORD}"[: len(head) + 40].encode())
            line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def _crowd(server: Collector, heard: Heard) -> None:
    """More connections than one address may have."""
    request = f"GET /{WORD} HTTP/1.1\r\nHost: {WORD}\r\nConnection: close\r\n\r\n".encode()
    with ExitStack() as stack:
        for _ in range(LIMITS["connections"]):
            stack.enter_context(_line(server, heard))
        heard.raw.append(server.raw(request))


def _faults(server: Collector, heard: Heard) -> None:
    """The store fails, and its message has a canary."""
    fault, bearer = Path(server.store).with_name("fault"), f"Bearer {server.admin}"
    fine = json.dumps([{**uploads(CAMPAIGN, 1)[0], "id": HEX}])
    merger = f"Bearer {heard.tokens[2]}"
    for kind in ("bug", "store", "full", "damaged"):
        fault.write_text(f"{kind}: {WORD} {NUMBER} {server.admin} 127.0.0.1")
        try:
            _send(server, heard, "POST", REPORTS, fine, Content_Type=JSON)
            _send(server, heard, "POST", REPORTS, WORD, Content_Type=JSON)
            _send(server, heard, "GET", STATUS, Authorization=bearer)
            _send(server, heard, "GET", TALLY, Authorization=bearer)
            _send(server, heard, "POST", TALLY, _counted(9), Authorization=merger)
            _send(server, heard, "GET", "/metrics", Authorization=bearer)
        finally:
            fault.unlink()
    assert [answer.status for answer in heard.answers[-24:-18]] == [500] * 6


# --- what must be nowhere ------------------------------------------------------------------------


@pytest.mark.slow
def test_every_problem_was_met(heard: Heard) -> None:
    elsewhere = {"overloaded", "superseded", "duplicate"}
    elsewhere |= {"early-period"}  # test_periods_http.py
    elsewhere |= {"other-page", "bad-code", "bad-plan"}  # pages: test_sign_in.py, test_live.py
    elsewhere |= {"stale-round", "round-full", "token-used"}  # test_rounds.py, test_participants.py
    assert set(PROBLEMS) - elsewhere <= heard.problems


@pytest.mark.slow
def test_errors_repeat_nothing(heard: Heard) -> None:
    for answer in heard.answers:
        assert_clean(answer.body.decode("latin-1") + str(dict(answer.headers)), heard)
    for data in heard.raw:
        assert_clean(data.decode("latin-1"), heard)


def test_logs_repeat_nothing(heard: Heard) -> None:
    assert "failed: RuntimeError" in heard.logs  # it does say what failed
    assert "a commit failed: RuntimeError" in heard.logs
    assert_clean(heard.logs, heard)


def test_metrics_and_tables_repeat_nothing(heard: Heard) -> None:
    assert 'status="500"' in heard.metrics
    assert_clean(heard.metrics, heard)
    assert "malformed" in heard.tables
    assert_clean(heard.tables, heard)
    assert_clean(heard.files.decode("latin-1"), heard)


def assert_clean(text: str, heard: Heard) -> None:
    for trace in (*TRACES, *heard.tokens, "127.0.0.1"):
        assert trace.lower() not in text.lower(), trace
    for port in heard.ports:
        named = re.compile(rf"[:, ]{port}\b")
        assert not named.search(text) or named.search(heard.before), port


def test_the_check_itself(heard: Heard) -> None:
    for text in (WORD.upper(), f"x{NUMBER}", heard.tokens[0], f"('127.0.0.9', {heard.ports[0]})"):
        with pytest.raises(AssertionError):
            assert_clean(f"something {text} something", heard)
