"""Clients that are slow, silent or too many: they are turned away, and the others are served."""

import json
import re
import socket
import sqlite3
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from murmuration.server.limits import Limits
from tests.support.accounts import campaign_of
from tests.support.collectors import Answer, Collector, answered, one, running, uploads

HEAD_SECONDS, BODY_SECONDS, IDLE_SECONDS = 0.4, 0.7, 0.5
CLOCKS = {
    "head_seconds": HEAD_SECONDS,
    "body_seconds": BODY_SECONDS,
    "idle_seconds": IDLE_SECONDS,
}
CROWD = {"requests": 30, "connections": 100, "bodies_bytes": 1 << 20}
WAITING_SECONDS = 0.5
SLACK = 2.0
"""For a machine that is busy."""
EARLY = 0.05
"""Between two clocks."""
CAMPAIGN = campaign_of(one("phone"))
REPORTS = "/v1/campaigns/phone/reports"
HEALTH = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collector]:
    """A collector that is soon out of patience."""
    store = tmp_path_factory.mktemp("hasty") / "store.db"
    guarded = one("guarded", 'upload = "token"')
    with running(store, one("phone"), guarded, limits=CLOCKS) as found:
        yield found


@pytest.fixture(scope="module")
def hurried(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collector]:
    """A collector whose queue nobody waits in for long."""
    store = tmp_path_factory.mktemp("hurried") / "store.db"
    with running(store, one("phone"), limits={"waiting_seconds": WAITING_SECONDS}) as found:
        yield found


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collector]:
    """A collector that has little room."""
    with running(
        tmp_path_factory.mktemp("small") / "store.db", one("phone"), limits=CROWD
    ) as found:
        yield found


def post(size: int, campaign: str = "phone") -> bytes:
    """The head of an upload."""
    return (
        f"POST /v1/campaigns/{campaign}/reports HTTP/1.1\r\nHost: x\r\n"
        f"Content-Type: application/json\r\nContent-Length: {size}\r\n\r\n"
    ).encode()


def until_closed(
    line: socket.socket, since: float, drip: bytes = b"", every: float = 0.05
) -> tuple[bytes, float]:
    """Send a byte now and then until the other side closes; return what came, and the time."""
    start, found = time.monotonic(), bytearray()
    line.settimeout(every)
    while time.monotonic() - start < 10:
        try:
            if drip:
                line.send(drip)
            part = line.recv(1 << 16)
            if not part:
                break
            found += part
        except TimeoutError:
            continue
        except ConnectionError:
            break
    return bytes(found), time.monotonic() - since


def test_the_usual_limits() -> None:
    usual = Limits()
    assert (usual.head_seconds, usual.body_seconds, usual.idle_seconds) == (10, 20, 30)
    assert usual.body_bytes == 16 << 20


@pytest.mark.slow
@pytest.mark.parametrize("drip", [b"", b"x"], ids=["silent", "a byte at a time"])
@pytest.mark.parametrize("sent", [b"", b"GET /health HT", b"GET /health HTTP/1.1\r\nX: "])
def test_slow_heads(hasty: Collector, sent: bytes, drip: bytes) -> None:
    start = time.monotonic()
    with hasty.connected() as line:
        line.sendall(sent)
        found, seconds = until_closed(line, start, drip)
    assert b" 200 " not in found
    assert seconds < HEAD_SECONDS + SLACK
    assert found or seconds > HEAD_SECONDS - EARLY  # "xxxx" is soon known not to be HTTP


@pytest.mark.slow
def test_a_slow_head_after_a_good_request(hasty: Collector) -> None:
    with hasty.connected() as line:
        line.sendall(HEALTH)
        assert b" 200 " in answered(line)
        start = time.monotonic()
        line.sendall(HEALTH[:-2] + b"X: ")
        found, seconds = until_closed(line, start, b"x")
    assert found == b""
    assert HEAD_SECONDS - EARLY < seconds < HEAD_SECONDS + SLACK


@pytest.mark.slow
@pytest.mark.parametrize("drip", [b"", b" "], ids=["silent", "a byte at a time"])
def test_slow_bodies(hasty: Collector, drip: bytes) -> None:
    """The answer is 408, and soon after it the connection is closed, also to who goes on."""
    before, start = hasty.status("phone"), time.monotonic()
    with hasty.connected() as line:
        line.sendall(post(1000) + b"[")
        found, seconds = until_closed(line, start, drip)
    assert found.startswith(b"HTTP/1.1 408 ")
    assert b"/problems/too-slow" in found
    least = BODY_SECONDS + IDLE_SECONDS - EARLY
    assert least < seconds < BODY_SECONDS + IDLE_SECONDS + SLACK
    assert hasty.status("phone") == before


@pytest.mark.slow
@pytest.mark.parametrize("more", [b"", b"\r\n"], ids=["silent", "an empty line"])
def test_idle_connections_are_closed(hasty: Collector, more: bytes) -> None:
    with hasty.connected() as line:
        start = time.monotonic()
        line.sendall(HEALTH)
        assert b" 200 " in answered(line)
        line.sendall(more)
        found, seconds = until_closed(line, start)
    assert found == b""
    assert IDLE_SECONDS - EARLY < seconds < IDLE_SECONDS + SLACK


@pytest.mark.slow
def test_whoever_is_refused_early_cannot_stay(hasty: Collector) -> None:
    """Answered before the body came: one more byte, and then silence."""
    with hasty.connected() as line:
        line.sendall(post(1000, "guarded"))
        assert b" 401 " in answered(line)
        line.sendall(b"[")
        _, seconds = until_closed(line, time.monotonic())
    assert seconds < IDLE_SECONDS + SLACK


def test_whoever_is_refused_early_can_go_on(hasty: Collector) -> None:
    """The rest of the body is read past, and the connection is good for another request."""
    body = b" " * 3_000_000
    with hasty.connected() as line:
        line.sendall(post(len(body), "guarded") + body)
        assert b" 401 " in answered(line)
        line.sendall(HEALTH)
        assert b" 200 " in answered(line)


def test_an_upgrade_does_not_hold_the_connection(hasty: Collector) -> None:
    head = b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    with hasty.connected() as line:
        line.sendall(head)
        assert b" 200 " in answered(line)
        line.sendall(b"x")
        _, seconds = until_closed(line, time.monotonic())
    assert seconds < IDLE_SECONDS + SLACK


@pytest.mark.slow
def test_pipelined_requests(hasty: Collector) -> None:
    body = json.dumps(uploads(CAMPAIGN, 2)).encode()
    with hasty.connected() as line:
        line.sendall((post(len(body)) + body) * 2 + HEALTH * 3)
        found, _ = until_closed(line, 0.0)
    assert found.count(b"HTTP/1.1 200 ") == 5
    assert found.count(b'"stored":2') == 1


@pytest.mark.slow
def test_answers_that_nobody_reads(hasty: Collector) -> None:
    asked = 3000
    with hasty.connected() as line:
        line.sendall(b"GET /v1/openapi.json HTTP/1.1\r\nHost: x\r\n\r\n" * asked)
        time.sleep(IDLE_SECONDS + BODY_SECONDS + 0.5)
        found, _ = until_closed(line, 0.0)
    assert 0 < found.count(b"HTTP/1.1 200 ") < asked


def test_many_slow_clients_stop_nobody(hasty: Collector) -> None:
    with ExitStack() as stack:
        for place in range(400):
            line = stack.enter_context(hasty.connected())
            line.sendall(post(1000) + b"[" if place % 2 else b"GET /")
        start = time.monotonic()
        assert hasty.send("phone", uploads(CAMPAIGN, 10)).json["stored"] == 10
        assert hasty.get("/v1/campaigns/phone/status").status == 200
        assert time.monotonic() - start < 1


# --- too many ------------------------------------------------------------------------------------


@contextmanager
def writing_stopped(server: Collector) -> Iterator[None]:
    """While somebody else writes to the file, the collector waits."""
    with closing(sqlite3.connect(server.store, isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            db.execute("ROLLBACK")


def from_address(server: Collector, place: int, batch: list[dict[str, Any]]) -> Answer:
    """Send as somebody else."""
    with closing(server.client(source=f"127.0.0.{place}")) as client:
        return client.send("phone", batch)


def test_uploads_that_wait_too_long_are_turned_away(hurried: Collector) -> None:
    """What was answered 200 is counted, what was answered 503 is not, and can be sent again."""
    batches = [uploads(CAMPAIGN, 10, seed) for seed in range(12)]
    before = hurried.status("phone")["people"]
    with ThreadPoolExecutor(13) as pool:
        with writing_stopped(hurried):
            first = pool.submit(hurried.send, "phone", uploads(CAMPAIGN, 5, 12))
            _wait(hurried, "murmur_open_requests", 1)
            answers = [
                pool.submit(from_address, hurried, 2 + place, batch)
                for place, batch in enumerate(batches)
            ]
            _wait(hurried, "murmur_uploads_waiting", 10)
            turned_away = [answer.result() for answer in answers]
        assert first.result().json["stored"] == 5  # the writer had taken it
    for answer in turned_away:
        assert (answer.status, answer.problem) == (503, "overloaded")
        assert 1 <= int(answer.headers["retry-after"]) <= 8
    assert len({answer.headers["retry-after"] for answer in turned_away}) > 1
    assert hurried.status("phone")["people"] == before + 5
    again = [hurried.send("phone", batch).json["stored"] for batch in batches]
    assert again == [10] * 12
    assert hurried.status("phone")["people"] == before + 125


def test_a_collector_whose_uploads_wait_long_is_not_ready(hurried: Collector) -> None:
    with ThreadPoolExecutor(2) as pool:
        with writing_stopped(hurried):
            sent = [pool.submit(hurried.send, "phone", uploads(CAMPAIGN, 1, 20))]
            _wait(hurried, "murmur_open_requests", 1)
            sent += [pool.submit(hurried.send, "phone", uploads(CAMPAIGN, 1, 21))]
            _wait(hurried, "murmur_uploads_waiting", 0)
            while (ready := hurried.ask("GET", "/ready")).status == 200:
                assert not sent[1].done()
            assert (ready.status, ready.problem) == (503, "overloaded")
            assert hurried.ask("GET", "/health").status == 200
            assert sent[1].result().status == 503
        assert sent[0].result().status == 200
    assert hurried.ask("GET", "/ready").status == 200


def test_one_address_alone_may_fill_the_queue(small: Collector) -> None:
    """Nobody is turned away for how much waits; a single report of another's is taken, too."""
    batches = [uploads(CAMPAIGN, 100, seed) for seed in range(30)]
    with ThreadPoolExecutor(31) as pool:
        with writing_stopped(small):
            answers = [pool.submit(small.send, "phone", batch) for batch in batches]
            _wait(small, "murmur_open_requests", 30)
            assert small.ask("GET", "/ready").status == 200
            other = pool.submit(from_address, small, 2, uploads(CAMPAIGN, 1, 31))
            _wait(small, "murmur_open_requests", 31)
        assert [answer.result().json["stored"] for answer in answers] == [100] * 30
        assert other.result().json["stored"] == 1


def test_a_large_upload_is_taken_when_nothing_waits(small: Collector) -> None:
    assert small.send("phone", uploads(CAMPAIGN, 500)).json["stored"] == 500


def test_too_many_requests(small: Collector) -> None:
    """One address may have half of all that are being answered."""
    codes = [small.code() for _ in range(CROWD["requests"] // 2)]
    with ExitStack() as stack:
        stack.enter_context(writing_stopped(small))
        for code in codes:  # each has to be written down as used
            line = stack.enter_context(small.connected())
            line.sendall(f"GET /sign-in?code={code} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        answer = _first(small, 429)
        assert small.ask("GET", "/health").status == 200
        assert answer.problem == "too-many-requests"
        assert int(answer.headers["retry-after"]) >= 1
        with closing(small.client(source="127.0.0.2")) as other:
            assert other.ask("GET", "/v1/campaigns").status == 200
    assert _first(small, 200).status == 200


def slow_body(stack: ExitStack, server: Collector, *fields: str) -> None:
    """An upload that stops after a byte."""
    line = stack.enter_context(server.connected())
    head = post(100).removesuffix(b"\r\n")
    line.sendall(head + "".join(f"{field}\r\n" for field in fields).encode() + b"\r\n[")


def test_slow_bodies_count_against_nobody(small: Collector) -> None:
    """They are connections, and no requests that are being answered."""
    with ExitStack() as stack:
        for _ in range(CROWD["requests"] + 10):
            slow_body(stack, small)
        _wait(small, "murmur_open_requests", CROWD["requests"] + 10)
        assert small.send("phone", uploads(CAMPAIGN, 3)).json["stored"] == 3


def _wait(server: Collector, metric: str, least: int) -> None:
    """Wait until a metric is above that: what was sent arrives in its own time."""
    end = time.monotonic() + 10
    while time.monotonic() < end:
        found = server.get("/metrics").body.decode()
        if int(found.partition(f"\n{metric} ")[2].split()[0]) > least:
            return
        time.sleep(0.02)
    raise AssertionError("it has not arrived")


def test_one_address_leaves_room_for_others(small: Collector) -> None:
    """An attacker holds all slow bodies that it can; a device elsewhere is served, every time."""
    with ExitStack() as stack:
        for _ in range(2 * CROWD["connections"]):
            slow_body(stack, small)
        assert small.raw(HEALTH).startswith(b"HTTP/1.1 429 ")
        for turn in range(20):
            with closing(small.client(source="127.0.0.2")) as device:
                assert device.send("phone", uploads(CAMPAIGN, 1, turn)).json["stored"] == 1
    assert _first(small, 200).status == 200


def test_clients_behind_a_proxy(tmp_path: Path) -> None:
    """Told to trust it, each client has its share by the address that the proxy adds last."""
    limits = {**CROWD, "bodies_bytes": 600_000}
    large = b"[]" + b" " * 150_000

    def statuses(server: Collector) -> list[int]:
        with ExitStack() as stack:
            line = stack.enter_context(server.connected())
            head = post(300_000).removesuffix(b"\r\n") + b"X-Forwarded-For: 192.0.2.1\r\n\r\n"
            line.sendall(head + b" " * 250_000)
            _wait(server, "murmur_body_bytes", 200_000)
            named = ["9.9.9.9, 192.0.2.1", "192.0.2.1, 192.0.2.2", "192.0.2.1, 2001:db8::1"]
            return [server.send("phone", large, X_Forwarded_For=one).status for one in named]

    with running(tmp_path / "a.db", one("phone"), limits=limits, forwarded=True) as behind:
        assert statuses(behind) == [503, 200, 200]
    with running(tmp_path / "b.db", one("phone"), limits=limits) as open_to_all:
        assert statuses(open_to_all) == [503, 503, 503]


def test_too_many_connections(small: Collector) -> None:
    with ExitStack() as stack:
        for _ in range(CROWD["connections"]):
            stack.enter_context(small.connected())
        found = small.raw(HEALTH)
        assert found.startswith(b"HTTP/1.1 429 ")
        assert re.search(rb"retry-after: [1-3]\r\n", found)
    assert _first(small, 200).status == 200


@pytest.mark.slow
def test_too_many_bytes_together(small: Collector) -> None:
    """Bodies that are still on their way take room, and give it back."""
    with ExitStack() as stack:
        for _ in range(7):
            line = stack.enter_context(small.connected())
            line.sendall(post(300_000) + b" " * 200_000)
        time.sleep(0.3)
        answer = small.send("phone", b"[]" + b" " * 300_000)
        assert (answer.status, answer.problem) == (503, "overloaded")
        assert int(answer.headers["retry-after"]) >= 1
        assert small.send("phone", b"[]" + b" " * 900).status == 200  # a small one always fits
    assert _first(small, 200).status == 200
    metrics = small.get("/metrics").body.decode()
    assert "murmur_body_bytes 0\n" in metrics
    assert "murmur_open_requests 1\n" in metrics


def _first(server: Collector, status: int) -> Answer:
    """Ask until that is the answer: what others have sent or closed arrives in its own time."""
    end = time.monotonic() + 5
    while time.monotonic() < end:
        try:
            answer = server.ask("GET", "/v1/campaigns")
        except ConnectionError:  # closed at once: there are too many
            continue
        if answer.status == status:
            return answer
        time.sleep(0.02)
    raise AssertionError(f"the answer is {answer.status}")
