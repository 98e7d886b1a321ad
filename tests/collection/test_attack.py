"""What anonymous clients can make a collector hold: less than 512 MB, whatever they send.

Each attack is what one address can do with as much at once as it is allowed, against a collector
with the usual limits, whose reports are long (1,024 items) and whose uploads are open.
"""

from __future__ import annotations

import gzip
import json
import resource
import socket
import ssl
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from murmuration.server.body import SMALL
from murmuration.server.chunks import WAITING
from murmuration.server.limits import Limits
from murmuration.wire import report
from tests.support.accounts import campaign_of
from tests.support.collectors import BINARY, JSON, Answer, Collector, one, running, uploads
from tests.unit.server.test_tls import Authority

MOST_MEMORY = 512 << 20
ITEMS = 1024
LABELS = json.dumps([f"item {n}" for n in range(ITEMS)])
WIDE = one("wide").replace('["android", "ios", "other"]', LABELS).replace('"grr"', '"oue"')
CAMPAIGN = campaign_of(WIDE)
REPORTS = "/v1/campaigns/wide/reports"
MOST = Limits().body_bytes
ELSEWHERE = "127.0.0.2"


@pytest.fixture
def wide(tmp_path) -> Iterator[Collector]:
    """A collector that nobody has attacked yet."""
    with running(tmp_path / "store.db", WIDE, measured=False) as found:
        yield found


def front(**other: object) -> bytes:
    """A report up to its entries."""
    return json.dumps({**uploads(CAMPAIGN, 1)[0], **other, "entries": []}).encode()[:-2]


def filled(before: bytes, unit: bytes, after: bytes) -> bytes:
    """As many units as fit a body."""
    return before + unit * ((MOST - len(before) - len(after)) // len(unit)) + after


def counted(before: bytes, unit: bytes, after: bytes, times: int) -> bytes:
    return before + unit * times + after


def listed(reports: Sequence[bytes]) -> bytes:
    return b"[" + b",".join(reports) + b"]"


WORST = "300,"
"""A number that no report has: Python keeps those up to 256, and makes others anew."""


NUMBER = WORST.encode()
BODIES: dict[str, Callable[[], bytes]] = {
    "one report with a million numbers": lambda: filled(front() + b"[0,", NUMBER, b"1]]}"),
    "the same in a list": lambda: filled(b"[" + front() + b"[0,", b"-9,", b"1]]}]"),
    "a million numbers that fit ten thousand reports": lambda: counted(
        b"[" + front() + b"[0,", NUMBER, b"1]]}]", 1_290_000
    ),
    "many empty entries": lambda: filled(b"[" + front(), b"[],", b"[]]}]"),
    "reports of the right length": lambda: listed(
        [front() + b"[0," + NUMBER * (ITEMS // 8 - 1) + b"300]]}"] * 10_000
    ),
    "ten thousand of nothing": lambda: listed([b"1"] * 10_000),
    "millions of nothing": lambda: filled(b"[", b"1,", b"1]"),
    "lists in lists": lambda: b"[" + b"[" * (MOST // 2) + b"]" * (MOST // 2 - 8) + b"]",
    "empty objects": lambda: filled(b"[", b"{},", b"{}]"),
    "a long name": lambda: filled(b'[{"id":"\xf0\x9f\x90\xa6', b"x", b'"}]'),
    "a long id": lambda: filled(
        b'[{"digest":"","wire":1,"entries":[],"id":"\xf0\x9f\x90\xa6', b"x", b'"}]'
    ),
    "white space": lambda: filled(b"[", b" ", b"]"),
}
"""Bodies in JSON that become as many objects as they can: up to 16 MB, made when they are sent."""


def columns() -> bytes:
    """Ten thousand ids of another campaign, without rows."""
    head = report.HEAD.pack(report.MAGIC, 1, bytes(32), 10_000)
    return head + bytes(16 * 10_000)


def sent_often(server: Collector, body: bytes, kind: str, at_once: int, times: int) -> set[int]:
    """Send one body over and over, packed, over as many connections."""
    packed = gzip.compress(body, 6)

    def send(_: int) -> int:
        return server.send("wide", packed, kind, Content_Encoding="gzip").status

    with ThreadPoolExecutor(at_once) as pool:
        return set(pool.map(send, range(times)))


@pytest.mark.slow
@pytest.mark.parametrize("name", [*BODIES, "columns"])
def test_bodies(wide: Collector, name: str) -> None:
    body, kind = (columns(), BINARY) if name == "columns" else (BODIES[name](), JSON)
    statuses = sent_often(wide, body, kind, at_once=60, times=60)
    assert statuses <= {200, 400, 413, 429, 503}
    assert wide.memory < MOST_MEMORY
    assert wide.status("wide")["people"] == 0
    assert wide.send("wide", uploads(CAMPAIGN, 5)).json["stored"] == 5


def bomb(times: int = 64) -> bytes:
    """So often 16 MB of blanks, packed; only its check sum, at the very end, is that of less.

    After a full flush nothing refers to what came before: the same bytes unpack to as much again.
    """
    plain = zlib.compressobj(9, zlib.DEFLATED, 31)
    first, again = (
        plain.compress(b" " * (1 << 24)) + plain.flush(zlib.Z_FULL_FLUSH) for _ in range(2)
    )
    return first + again * (times - 1) + plain.flush()


def test_a_bomb_is_as_large_as_it_says() -> None:
    assert zlib.decompressobj(31).decompress(bomb(3)[:-8]) == b" " * (3 << 24)


@pytest.mark.slow
def test_bombs(wide: Collector) -> None:
    packed = bomb()

    def send(_: int) -> int:
        return wide.send("wide", packed, JSON, Content_Encoding="gzip").status

    with ThreadPoolExecutor(60) as pool:
        assert set(pool.map(send, range(60))) <= {413, 503}
    assert wide.memory < MOST_MEMORY


# --- connections ---------------------------------------------------------------------------------


@contextmanager
def many_files() -> Iterator[int]:
    """As many connections as one address may have and this process can."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = Limits().connections
    most = wanted if before[1] == resource.RLIM_INFINITY else min(before[1], wanted)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, before[1]))
    try:
        yield most - 200
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def post(size: int, *fields: str) -> bytes:
    lines = [f"POST {REPORTS} HTTP/1.1", "Host: x", f"Content-Type: {JSON}", *fields]
    return "\r\n".join([*lines, f"Content-Length: {size}", "\r\n"]).encode()


NOTHINGS = gzip.compress(b"[" + b"1," * 9_999 + b"1]")
FIELDS = "".join(f"{n:x}:\r\n" for n in range(3000))
ALL, SOME = 20_000, 500
LINES = {
    "heads of one long field": (b"GET / HTTP/1.1\r\nX: " + b"x" * 15_000, ALL),
    "heads of many fields": (b"GET / HTTP/1.1\r\n" + FIELDS.encode()[:15_000], ALL),
    "bodies that are small": (post(16_000) + b" " * 15_000, ALL),
    "bodies that are large": (post(1 << 24) + b" " * 250_000, SOME),
    "packed bodies": (post(1 << 20, "Content-Encoding: gzip") + NOTHINGS[:40], ALL),
    "requests in a row": (b"GET /v1/openapi.json HTTP/1.1\r\n\r\n" * 7_000, SOME),
    "receipts that nobody reads": (
        post(len(NOTHINGS), "Content-Encoding: gzip") + NOTHINGS,
        SOME,
    ),
}
"""What is sent, and over how many connections, if one address may have so many."""


@pytest.mark.slow
@pytest.mark.parametrize("name", LINES)
def test_connections(wide: Collector, name: str) -> None:
    """Held as long as they are let; another address is served meanwhile."""
    data, times = LINES[name]
    with many_files() as most, ExitStack() as stack:
        for _ in range(min(most, times)):
            line = stack.enter_context(socket.socket())
            line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            line.connect(("127.0.0.1", wide.port))
            line.setblocking(False)
            with suppress(OSError):
                line.send(data)
        with closing(wide.client(source=ELSEWHERE)) as honest:
            assert honest.send("wide", uploads(CAMPAIGN, 5)).json["stored"] == 5
    assert wide.memory < MOST_MEMORY


# --- documents -----------------------------------------------------------------------------------

PRODUCTS = json.dumps([f"product-number-{n:06d}" for n in range(30_000)])
LONG = "".join(
    f'[[attributes]]\nname = "x{n}"\nkind = "category"\nlabels = {PRODUCTS}\nmechanism = "olh"\n'
    for n in range(4)
)
DOCUMENT = b"GET /v1/campaigns/long HTTP/1.1\r\nHost: x\r\n\r\n"
"""Of 3 MB."""


@contextmanager
def long_document(folder: Path, **options: Any) -> Iterator[Collector]:
    """A collector whose campaign has a long document."""
    text = f'name = "long"\npurpose = "Products."\nepsilon = 1\n{LONG}'
    with running(folder / "store.db", text, measured=False, **options) as found:
        yield found


def unread(stack: ExitStack, server: Collector, times: int) -> None:
    """Ask for the document over so many connections, and do not read it."""
    for _ in range(times):
        line = stack.enter_context(socket.socket())
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        line.connect(("127.0.0.1", server.port))
        if server.tls is not None:
            line = stack.enter_context(server.tls.wrap_socket(line, server_hostname="127.0.0.1"))
        line.sendall(DOCUMENT)


@pytest.mark.slow
def test_documents_that_nobody_reads_over_tls(tmp_path) -> None:
    """TLS keeps an encrypted copy of what was written: so little is written at once."""
    certificate, key = Authority(tmp_path, "ours").make().signed("here")
    anybody = ssl.create_default_context()
    anybody.check_hostname, anybody.verify_mode = False, ssl.CERT_NONE
    secure = {"certificate": certificate, "key": key, "tls": anybody}
    with long_document(tmp_path, **secure) as server, ExitStack() as stack:
        unread(stack, server, 150)
        with closing(server.client(source=ELSEWHERE)) as honest:
            assert len(honest.ask("GET", "/v1/campaigns/long").body) > 3_000_000
        assert server.memory < MOST_MEMORY


@pytest.mark.slow
def test_documents_on_their_way_take_the_share_of_their_address(tmp_path) -> None:
    room = 10 * (WAITING - SMALL)
    with long_document(tmp_path, limits={"bodies_bytes": room}) as server:
        with ExitStack() as stack:
            unread(stack, server, 5)
            refused = until(server, "/v1/campaigns/long", lambda answer: answer.status == 503)
            assert refused.problem == "overloaded"
            assert int(refused.headers["retry-after"]) >= 1
            with closing(server.client(source=ELSEWHERE)) as honest:
                assert len(honest.ask("GET", "/v1/campaigns/long").body) > 3_000_000
        until(server, "/metrics", lambda answer: b"murmur_body_bytes 0\n" in answer.body)
        assert server.get("/v1/campaigns/long").status == 200


def until(server: Collector, path: str, fits: Callable[[Answer], bool]) -> Answer:
    """Ask until the answer fits: what others have asked or closed arrives in its own time."""
    for _ in range(500):
        answer = server.get(path)
        if fits(answer):
            return answer
    raise AssertionError(f"the answer is {answer.status}")
