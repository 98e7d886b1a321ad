"""The collector over HTTP: what is counted, what is refused and why, and what analysts read."""

import csv
import io
import json
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest

from murmuration.analysis.read import figures as figures_of
from murmuration.campaign.survey import SurveyCampaign
from murmuration.counting.container import CampaignTallies, Part
from murmuration.counting.sketch import Sketch, name_of
from murmuration.mechanisms.tally import HEAD, MAGIC, VERSION
from murmuration.wire import report
from tests.support.accounts import campaign_of
from tests.support.collectors import (
    BINARY,
    JSON,
    PETS,
    Answer,
    Asking,
    Collector,
    gzipped,
    one,
    reports,
    running,
    uploads,
)

MOST_BYTES = 16 << 20
CLOSED = one("closed", "closes = 2020-01-01T00:00:00Z")
FUTURE = one("future", "opens = 2120-01-01T00:00:00Z")
EXACT = PETS.replace('"pets"', '"exact"')
FEW = PETS.replace('"pets"', '"few"').replace("cohort = 200", "cohort = 500")
MERGING = one("merging")
TEXTS = [PETS, one("phone"), CLOSED, FUTURE, EXACT, FEW, MERGING]
CAMPAIGNS = {c.name: c for c in map(campaign_of, TEXTS)}
PETS_CAMPAIGN = CAMPAIGNS["pets"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collector]:
    with running(tmp_path_factory.mktemp("http") / "store.db", *TEXTS) as found:
        yield found


@pytest.fixture
def steady(server: Collector) -> Iterator[Collector]:
    """The same, where the test must not change what pets has counted."""
    before = server.status("pets")
    yield server
    after = server.status("pets")
    assert after["people"] == before["people"]
    stored = [status["outcomes"].get("stored", 0) for status in (before, after)]
    assert stored[0] == stored[1]


def good(n: int = 1, campaign: str = "pets") -> list[dict[str, Any]]:
    return uploads(CAMPAIGNS[campaign], n, seed=n)


def reasons(server: Collector, batch: list[Any], campaign: str = "pets") -> list[str]:
    """What became of each report: "stored", or why not; the books are checked on the way."""
    before = server.status(campaign)
    answer = server.send(campaign, batch)
    assert answer.status == 200
    receipt = answer.json
    failures = receipt["failures"]
    assert receipt["received"] == len(batch) == receipt["stored"] + len(failures)
    places = [failure["index"] for failure in failures]
    assert places == sorted(set(places))
    found = ["stored"] * len(batch)
    for failure in failures:
        found[failure["index"]] = failure["type"].removeprefix("/problems/")
        assert failure["title"] == report.REASONS[found[failure["index"]]]
    after = server.status(campaign)
    assert after["received"] - before["received"] == len(batch)
    for outcome in {*before["outcomes"], *after["outcomes"], *found}:
        grown = after["outcomes"].get(outcome, 0) - before["outcomes"].get(outcome, 0)
        assert grown == found.count(outcome), outcome
    return found


# --- reports that are refused, one by one --------------------------------------------------------


@pytest.mark.slow
def test_every_refusal_in_one_batch(server: Collector) -> None:
    old = good()[0]
    assert reasons(server, [old]) == ["stored"]
    a, b, c, d, e, f, g, h, i, j = good(10)
    batch = [
        a,
        {**b, "extra": 1},
        {**c, "digest": "0" * 64},
        d,
        {**e, "wire": 2},
        {**f, "id": "12"},
        {**g, "entries": [[0, 1]]},
        {**h, "entries": [[0, 200], [1, 1]]},
        old,
        i,
        "no report",
        j,
    ]
    assert reasons(server, batch) == [
        *("stored", "malformed", "unknown-digest", "stored", "unknown-wire", "bad-id"),
        *("bad-entries", "bad-symbol", "duplicate", "stored", "malformed", "stored"),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("closed", ["closed", "future"])
def test_outside_the_window(server: Collector, closed: str) -> None:
    fine, bad = good(2, closed)
    assert reasons(server, [fine, {**bad, "id": ""}], closed) == ["outside-window", "bad-id"]
    assert server.status(closed)["open"] is False
    assert server.status(closed)["people"] == 0


IDS = [
    *("", "0" * 31, "0" * 33, "g" * 32, " " * 32, "0x" + "0" * 30, "٠" * 32, "０" * 32),
    *("0" * 30 + " 0", "\x00" * 32, "é" * 16, "-" + "0" * 31, "𝟘" * 32),
]


def test_ids(steady: Collector) -> None:
    batch = [{**fine, "id": text} for fine, text in zip(good(len(IDS)), IDS, strict=True)]
    assert reasons(steady, batch) == ["bad-id"] * len(IDS)


def test_the_case_of_an_id_does_not_matter(server: Collector) -> None:
    fine = good()[0]
    fine["id"] = "ABCDEF" + fine["id"][6:]
    small = {**fine, "id": fine["id"].lower()}
    assert reasons(server, [fine, small, fine]) == ["stored", "duplicate", "duplicate"]
    assert reasons(server, [small]) == ["duplicate"]


def test_the_first_of_equal_ids_counts(server: Collector) -> None:
    a, b, c = good(3)
    b["id"] = a["id"]
    assert reasons(server, [{**a, "entries": []}, a, c, b]) == [
        *("bad-entries", "stored", "stored", "duplicate")
    ]


MALFORMED: list[Any] = [
    *(None, 1, "x", [], {}, True, 1.5),
    *({"digest": 5}, {"wire": "1"}, {"wire": 1.5}, {"wire": True}, {"wire": None}, {"version": 1}),
    *({"id": 7}, {"id": None}, {"id": ["0" * 32]}, {"entries": None}, {"entries": {}}),
    *({"entries": [0, 1]}, {"entries": [[0, 1.5], [1, 1]]}, {"entries": [[True, 1], [1, 1]]}),
    *({"entries": [["0", 1], [1, 1]]}, {"entries": [[[0], 1], [1, 1]]}, {"entries": "[[0, 1]]"}),
    *({"entries": [[0, None], [1, 1]]}, {"name": "x"}),
]


def test_malformed_reports_in_a_list(steady: Collector) -> None:
    fields = good()[0]
    batch = [{**fields, **bad} if isinstance(bad, dict) and bad else bad for bad in MALFORMED]
    missing = [{k: v for k, v in fields.items() if k != key} for key in fields]
    assert reasons(steady, batch + missing) == ["malformed"] * (len(batch) + 4)


HUGE = (2**31, 2**63 - 1, 2**63, 2**64, 2**70, -(2**63), -(2**63) - 1, -(2**70))
ENTRIES: list[list[list[int]]] = [
    *([], [[]], [[], []], [[0], [1]], [[0, 1]], [[0, 1], [1, 1], [3, 1]], [[0, 1], []]),
    *([[4, 1], [1, 1]], [[0, 1], [4, 1]], [[-1, 1], [1, 1]], [[256, 1], [1, 1]]),
    *([[0, 1, 0], [1, 1]], [[0, 1], [2, 1]], [[0, 1], [2, 1, 1, 1]], [[0, -1], [1, 1]]),
    *([[0, 256], [1, 1]], [[0, 1]] * 1000, [[0] * 10_000, [1, 1]]),
    *([[0, n], [1, 1]] for n in HUGE),
    *([[n, 1], [1, 1]] for n in HUGE),
]
SYMBOLS = [
    *([[0, 3], [1, 1]], [[0, 255], [1, 1]], [[0, 1], [1, 255]], [[0, 1], [2, 255, 255]]),
    *([[1, 1], [0, 1]], [[0, 1], [0, 1]], [[1, 1], [1, 1]], [[3, 1], [2, 0, 0]]),
]


def test_entries_that_do_not_fit(steady: Collector) -> None:
    batch = [{**f, "entries": e} for f, e in zip(good(len(ENTRIES)), ENTRIES, strict=True)]
    assert reasons(steady, batch) == ["bad-entries"] * len(ENTRIES)


def test_entries_outside_the_alphabet(steady: Collector) -> None:
    """Bad symbols, and cells that these places of a report cannot name together."""
    batch = [{**f, "entries": e} for f, e in zip(good(len(SYMBOLS)), SYMBOLS, strict=True)]
    assert reasons(steady, batch) == ["bad-symbol"] * len(SYMBOLS)


def test_huge_numbers_spoil_nobody_elses_report(server: Collector) -> None:
    a, b, c = good(3)
    assert reasons(server, [a, {**b, "wire": 2**70}, {**c, "entries": [[2**70]]}]) == [
        *("stored", "unknown-wire", "bad-entries")
    ]


# --- sizes and forms of uploads ------------------------------------------------------------------


def test_one_report_alone(server: Collector) -> None:
    assert server.send("pets", good()[0]).json == {"received": 1, "stored": 1, "failures": []}
    assert reasons(server, []) == []


def test_the_largest_batch(server: Collector) -> None:
    batch = good(10_000, "phone")
    receipt = server.send("phone", batch).json
    assert receipt == {"received": 10_000, "stored": 10_000, "failures": []}
    again = server.send("phone", batch).json
    assert again["stored"] == 0
    assert [failure["index"] for failure in again["failures"]] == list(range(10_000))
    before = server.status("phone")
    people, bad = before["people"], before["outcomes"].get("malformed", 0)
    too_many = server.send("phone", [*batch, batch[0]])
    assert (too_many.status, too_many.problem) == (400, "unreadable-body")
    assert server.send("phone", [1] * 10_001).status == 400
    after = server.status("phone")
    assert after["people"] == people
    assert after["outcomes"]["malformed"] == bad + 2  # a body that cannot be read is one


BODIES = [
    *(
        b"",
        b"{",
        b"[",
        b"null",
        b"1",
        b'"x"',
        b"{}",
        b"[1,]",
        b"[]x",
        b"\xff\xfe",
        b"\xef\xbb\xbf[]",
    ),
    *(b"[" * 100_000, b'{"a":' * 50_000, b'[{"id":"\xff"}]', b"[1e999999]", b"[NaN]", b"\x00" * 99),
]


@pytest.mark.parametrize("body", BODIES, ids=[str(b[:9]) for b in BODIES])
def test_bodies_that_are_no_reports(steady: Collector, body: bytes) -> None:
    answer = steady.send("pets", body)
    if answer.status == 200:  # a list, whatever is in it
        assert answer.json["stored"] == 0
        assert len(answer.json["failures"]) == 1
    else:
        assert (answer.status, answer.problem) == (400, "unreadable-body")


def test_lone_surrogates_are_malformed(steady: Collector) -> None:
    body = json.dumps([{**good()[0], "id": "\ud800" * 32}]).encode()
    answer = steady.send("pets", body)
    assert answer.status in (200, 400)


def test_binary(server: Collector) -> None:
    ids, rows = reports(PETS_CAMPAIGN, 50, 7)
    body = report.to_binary(PETS_CAMPAIGN.form, ids, rows)
    assert server.send("pets", body, BINARY).json["stored"] == 50
    again = server.send("pets", report.to_json(PETS_CAMPAIGN.form, ids, rows)).json
    assert {failure["type"] for failure in again["failures"]} == {"/problems/duplicate"}
    none = report.to_binary(PETS_CAMPAIGN.form, ids[:0], rows[:0])
    assert server.send("pets", none, BINARY).json["received"] == 0


def test_binary_reports_are_checked_one_by_one(server: Collector) -> None:
    ids, rows = reports(PETS_CAMPAIGN, 6, 8)
    rows[1, 0], rows[2, 2] = 9, 1  # no such cell; and padding that is not zero
    rows[2, :2] = (0, 1)
    rows[3] = (1, 1, 0, 0, 1, 0)  # in the wrong order
    ids[5] = ids[4]
    receipt = server.send("pets", report.to_binary(PETS_CAMPAIGN.form, ids, rows), BINARY).json
    found = [(failure["index"], failure["type"][10:]) for failure in receipt["failures"]]
    assert found == [*((1, "bad-symbol"), (2, "bad-symbol"), (3, "bad-symbol"), (5, "duplicate"))]


def test_binary_that_cannot_be_read(steady: Collector) -> None:
    body = report.to_binary(PETS_CAMPAIGN.form, *reports(PETS_CAMPAIGN, 3, 9))
    count = report.HEAD.size - 4
    bad = [body[:n] for n in (0, 1, 8, 10, 42, 45, 46, 47, 60, len(body) - 1)]
    bad += [body + b"\x00", b"MURMTLYS" + body[8:], b"[]"]
    bad += [body[:count] + n.to_bytes(4, "little") + body[count + 4 :] for n in (2, 4, 2**32 - 1)]
    for one_of_them in bad:
        answer = steady.send("pets", one_of_them, BINARY)
        assert (answer.status, answer.problem) == (400, "unreadable-body")


@pytest.mark.slow
def test_damaged_uploads_never_break_anything(server: Collector) -> None:
    """Bytes changed, cut out, doubled, in both forms and packed: refused, and the books fit."""
    who = np.random.default_rng(5)
    ids, rows = reports(PETS_CAMPAIGN, 3, 10)
    forms = [(report.to_json, JSON), (report.to_binary, BINARY)]
    bodies = [(write(PETS_CAMPAIGN.form, ids, rows), kind) for write, kind in forms]
    with closing(server.client()) as client:
        for turn in range(600):
            body, kind = bodies[turn % 2]
            packed = turn % 5 == 0
            damaged = _changed(gzipped(body) if packed else body, who)
            headers = {"Content-Type": kind, **({"Content-Encoding": "gzip"} if packed else {})}
            answer = client.ask("POST", "/v1/campaigns/pets/reports", damaged, headers)
            assert answer.status in (200, 400, 413), damaged
    server.status("pets")


def _changed(body: bytes, who: np.random.Generator) -> bytes:
    found = bytearray(body)
    for _ in range(who.integers(1, 4)):
        start, length = int(who.integers(len(found))), int(who.integers(1, 9))
        part = bytes(found[start : start + length])
        new = [who.bytes(len(part)), b"", part * 2, b"9" * length, b"[]", b'"'][who.integers(6)]
        found[start : start + length] = new
    return bytes(found)


@pytest.mark.parametrize(
    ("place", "octet", "reason"), [(8, 2, "unknown-wire"), (12, 255, "unknown-digest")]
)
def test_binary_of_another_kind(steady: Collector, place: int, octet: int, reason: str) -> None:
    body = bytearray(report.to_binary(PETS_CAMPAIGN.form, *reports(PETS_CAMPAIGN, 3, 9)))
    body[place] ^= octet
    receipt = steady.send("pets", bytes(body), BINARY).json
    assert [failure["type"] for failure in receipt["failures"]] == [f"/problems/{reason}"] * 3


@pytest.mark.slow
def test_a_changed_campaign(tmp_path: Path) -> None:
    old, new = (campaign_of(one("phone", epsilon=e)) for e in (1, 1.5))
    with running(tmp_path / "store.db", one("phone")) as first:
        assert first.send("phone", uploads(old, 2)).json["stored"] == 2
    with running(tmp_path / "store.db", one("phone", epsilon=1.5)) as server:
        strange = {**uploads(new, 1)[0], "digest": "f" * 64}
        batch = [*uploads(old, 1), *uploads(new, 1), strange]
        assert reasons(server, batch, "phone") == ["superseded", "stored", "unknown-digest"]
        body = report.to_binary(old.form, *reports(old, 2))
        receipt = server.send("phone", body, BINARY).json
        assert {failure["type"] for failure in receipt["failures"]} == {"/problems/superseded"}
        status = server.status("phone")
        assert (status["version"], status["people"]) == (2, 1)


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        *((JSON, 200), (f"{JSON}; charset=utf-8", 200), ("Application/JSON;charset=UTF-8", 200)),
        *((f" {JSON} ; x=y", 200), ("text/json", 415), ("", 415), ("application/json5", 415)),
        *(("text/plain", 415), ("multipart/form-data", 415), (f"{JSON}, {JSON}", 415)),
        *((OCTETS := "application/octet-stream", 415), ("é", 415), (";", 415)),
    ],
)
def test_content_types(server: Collector, kind: str, status: int) -> None:
    answer = server.send("pets", [], kind)
    assert answer.status == status
    assert status == 200 or answer.problem == "unsupported-type"


def test_no_content_type(server: Collector) -> None:
    answer = server.ask("POST", "/v1/campaigns/pets/reports", b"[]")
    assert answer.problem == "unsupported-type"


# --- compressed and large bodies -----------------------------------------------------------------


def squeezed(server: Collector, body: bytes, encoding: str = "gzip", kind: str = JSON) -> Answer:
    return server.send("phone", body, kind, Content_Encoding=encoding)


def test_gzip(server: Collector) -> None:
    batch = good(2000, "phone")
    answer = squeezed(server, gzipped(json.dumps(batch).encode()))
    assert answer.json == {"received": 2000, "stored": 2000, "failures": []}
    binary = report.to_binary(CAMPAIGNS["phone"].form, *reports(CAMPAIGNS["phone"], 9, 3))
    assert squeezed(server, gzipped(binary), "GZIP", BINARY).json["stored"] == 9
    assert squeezed(server, b"[]", "identity").status == 200


def test_gzip_that_ends_at_any_byte_of_a_part(server: Collector) -> None:
    """Sent byte by byte, so that every border between parts is tried."""
    packed = gzipped(json.dumps(good(2, "phone")).encode())
    parts = (packed[i : i + 1] for i in range(len(packed)))
    answer = server.ask(
        "POST",
        "/v1/campaigns/phone/reports",
        parts,
        {"Content-Type": JSON, "Content-Encoding": "gzip"},
        encode_chunked=True,
    )
    assert answer.json["stored"] == 2


def test_gzip_that_is_none(steady: Collector) -> None:
    fine = gzipped(b"[]")
    bad = [
        b"",
        b"[]",
        fine[:-1],
        fine[:-8],
        fine[:5],
        fine + b"x",
        fine + fine,
        zlib.compress(b"[]"),
    ]
    bad += [fine[:12] + bytes([fine[12] ^ 255]) + fine[13:], fine[:-1] + bytes([fine[-1] ^ 1])]
    before = steady.status("phone")
    for body in bad:
        answer = squeezed(steady, body)
        assert (answer.status, answer.problem) == (400, "unreadable-body"), body
    after = steady.status("phone")
    assert after["received"] == before["received"] + len(bad)
    refused = [one["outcomes"].get("malformed", 0) for one in (before, after)]
    assert refused[1] == refused[0] + len(bad)
    for encoding in ("br", "deflate", "gzip, gzip", "x-gzip", "zstd", "*"):
        answer = squeezed(steady, fine, encoding)
        assert (answer.status, answer.problem) == (415, "unsupported-type")


@pytest.mark.slow
def test_gzip_bombs_cost_nothing(steady: Collector) -> None:
    plain = zlib.compressobj(9, zlib.DEFLATED, 31)
    bomb = b"".join(plain.compress(b" " * (1 << 24)) for _ in range(8)) + plain.flush()
    assert len(bomb) < 2e5  # 128 megabytes, packed
    squeezed(steady, gzipped(b" " * (MOST_BYTES - 2) + b"[]"))  # what is allowed is allowed once
    before, start = steady.memory, time.monotonic()
    for _ in range(5):
        answer = squeezed(steady, bomb)
        assert (answer.status, answer.problem) == (413, "too-large")
    assert time.monotonic() - start < 10
    assert steady.memory - before < 3 * MOST_BYTES
    for size, status in ((MOST_BYTES, 200), (MOST_BYTES + 1, 413)):
        assert squeezed(steady, gzipped(b"[]" + b" " * (size - 2))).status == status


def test_many_small_values_cost_no_more_than_reports(steady: Collector) -> None:
    """A megabyte of brackets or digits must not become forty of objects."""
    before = steady.memory
    front = json.dumps({**good()[0], "entries": []}).encode().removesuffix(b"]}")
    for body in (
        b"[" + b"1," * (MOST_BYTES // 2 - 2) + b"1]",
        front + b"[]," * 5_000_000 + b"[]]}",
    ):
        answer = steady.send("pets", body)
        assert (answer.status, answer.problem) == (400, "unreadable-body")
    assert steady.memory - before < 5 * MOST_BYTES


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("more", [0, 1, MOST_BYTES])
def test_large_bodies(steady: Collector, more: int, chunked: bool) -> None:
    body = b"[]" + b" " * (MOST_BYTES - 2 + more)
    parts = (body[i : i + 65_536] for i in range(0, len(body), 65_536))
    answer = steady.ask(
        "POST",
        "/v1/campaigns/pets/reports",
        parts if chunked else body,
        {"Content-Type": JSON},
        encode_chunked=chunked,
    )
    assert answer.status == (413 if more else 200)
    assert not more or answer.problem == "too-large"


def test_a_body_that_is_announced_too_large_is_not_waited_for(steady: Collector) -> None:
    head = f"POST /v1/campaigns/pets/reports HTTP/1.1\r\nHost: x\r\nContent-Type: {JSON}\r\n"
    start = time.monotonic()
    with steady.connected() as line:
        line.sendall(f"{head}Content-Length: {10**15}\r\n\r\n".encode())
        assert b" 413 " in line.recv(100)
    assert time.monotonic() - start < 2


def test_chunked(server: Collector) -> None:
    body = json.dumps(good(20)).encode()
    parts = (body[i : i + 7] for i in range(0, len(body), 7))
    path, headers = "/v1/campaigns/pets/reports", {"Content-Type": JSON}
    answer = server.ask("POST", path, parts, headers, encode_chunked=True)
    assert answer.json["stored"] == 20


# --- addresses and methods -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "status", "problem"),
    [
        ("GET", "/nowhere", 404, "not-found"),
        ("GET", "/v1", 404, "not-found"),
        ("GET", "/v1/campaigns/", 404, "not-found"),
        ("GET", "/v1/campaigns/nobody", 404, "unknown-campaign"),
        ("GET", "/v1/campaigns/%00", 404, "unknown-campaign"),
        ("GET", "/v1/campaigns/..%2f..%2fetc", 404, "not-found"),
        ("GET", "/v1/campaigns/PETS", 404, "unknown-campaign"),
        ("POST", "/v1/campaigns/nobody/reports", 404, "unknown-campaign"),
        ("GET", "/problems/nothing", 404, "not-found"),
        ("GET", "/v1/campaigns/pets/reports", 405, "method-not-allowed"),
        ("PUT", "/v1/campaigns/pets/tally", 405, "method-not-allowed"),
        ("DELETE", "/v1/campaigns/pets", 405, "method-not-allowed"),
        ("OPTIONS", "/v1/campaigns", 405, "method-not-allowed"),
        ("PATCH", "/health", 405, "method-not-allowed"),
        ("PROPFIND", "/health", 405, "method-not-allowed"),
    ],
)
def test_what_is_not_there(
    steady: Collector, method: str, path: str, status: int, problem: str
) -> None:
    answer = steady.ask(method, path, token=steady.admin)
    assert (answer.status, answer.problem) == (status, problem)


def test_allowed_methods_are_named(server: Collector) -> None:
    answer = server.ask("PUT", "/v1/campaigns/pets/tally")
    assert set(answer.headers["allow"].split(", ")) == {"GET", "HEAD", "POST"}


def test_head(server: Collector) -> None:
    whole = server.get("/v1/campaigns/pets")
    head = server.ask("HEAD", "/v1/campaigns/pets")
    assert (head.status, head.body) == (200, b"")
    assert head.headers["content-length"] == str(len(whole.body))
    assert server.ask("HEAD", "/nothing").status == 404


@pytest.mark.parametrize(
    "data",
    [
        *(b"nonsense\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET \xff HTTP/1.1\r\n\r\n"),
        *(b"GET / HTTP/1.1\r\nHost x\r\n\r\n", b"CONNECT x:1 HTTP/1.1\r\n\r\n"),
        b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
)
def test_what_is_no_http(server: Collector, data: bytes) -> None:
    answer = server.raw(data)
    assert answer.startswith(b"HTTP/1.1 400 "), answer
    assert b"application/problem+json" in answer or b"/problems/" in answer


def test_a_head_without_end(server: Collector) -> None:
    answer = server.raw(b"GET /health HTTP/1.1\r\nX: " + b"x" * 300_000)
    assert answer.startswith(b"HTTP/1.1 431 ")
    assert b"/problems/head-too-large" in answer


@pytest.mark.parametrize(
    "fields",
    [b"X: " + b"x" * 100_000, b"X: y\r\n" * 15_000, b"a:\r\n" * 101, b"X: " + b"x" * 17_000],
    ids=["one field", "many fields", "more than a hundred", "just too long"],
)
@pytest.mark.parametrize("more", [b"\r\n", b"\r\nContent-Length: 2\r\n\r\n[]"], ids=["get", "post"])
def test_a_head_that_is_too_large_although_it_ends(
    server: Collector, fields: bytes, more: bytes
) -> None:
    """In one piece, so that it has come to its end before anybody could have counted."""
    method = b"POST" if b"[]" in more else b"GET"
    answer = server.raw(
        method + b" /health HTTP/1.1\r\nHost: x\r\n" + fields.rstrip() + more + b"\r\n"
    )
    assert answer.startswith(b"HTTP/1.1 431 ")
    assert answer.count(b"HTTP/1.1 ") == 1
    long = b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\n\r\n"
    assert server.raw(long).startswith(b"HTTP/1.1 431 ")


def test_a_large_head_that_is_not_too_large(server: Collector) -> None:
    head = b"GET /health HTTP/1.1\r\nConnection: close\r\nX: " + b"x" * 15_000
    assert server.raw(head + b"\r\n\r\n").startswith(b"HTTP/1.1 200 ")


def test_more_requests_in_a_row_than_are_kept(server: Collector) -> None:
    """Some are answered, in order; then the connection ends, as HTTP allows."""
    found = server.raw(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n" * 1000)
    assert 16 <= found.count(b"HTTP/1.1 200 ") < 1000
    assert found.count(b"HTTP/1.1 ") == found.count(b"HTTP/1.1 200 ")


def test_every_problem_explains_itself(server: Collector) -> None:
    from murmuration.server.problems import PROBLEMS

    for name, (status, title) in PROBLEMS.items():
        answer = server.ask("GET", f"/problems/{name}")
        assert answer.json == {"type": f"/problems/{name}", "title": title, "status": status}


# --- what is published ---------------------------------------------------------------------------


def test_the_document_and_its_tag(server: Collector) -> None:
    first = server.get("/v1/campaigns/pets")
    tag = first.headers["etag"]
    assert first.json["digest"] == PETS_CAMPAIGN.digest
    for match in (tag, f"W/{tag}", f'"x", {tag}'):
        again = server.get("/v1/campaigns/pets", If_None_Match=match)
        assert (again.status, again.body, again.headers["etag"]) == (304, b"", tag)
    for match in ('"x"', "", tag.strip('"')):
        assert server.get("/v1/campaigns/pets", If_None_Match=match).status == 200
    listed = {one["campaign"]: one for one in server.get("/v1/campaigns").json["campaigns"]}
    assert set(listed) == set(CAMPAIGNS)
    assert [name for name, one in listed.items() if not one["open"]] == ["closed", "future"]


# --- estimates -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def exact(server: Collector) -> tuple[SurveyCampaign, np.ndarray[Any, Any]]:
    """A campaign with reports that we know, in both forms."""
    campaign = CAMPAIGNS["exact"]
    ids, rows = reports(campaign, 3000, 11)
    one_half = report.to_json(campaign.form, ids[:1000], rows[:1000])
    assert server.send("exact", one_half).json["stored"] == 1000
    rest = report.to_binary(campaign.form, ids[1000:], rows[1000:])
    assert server.send("exact", rest, BINARY).json["stored"] == 2000
    return campaign, rows


@pytest.mark.slow
@pytest.mark.parametrize("about", ["participants", "population"])
@pytest.mark.parametrize("confidence", [0.95, 0.5, 1e-9, 0.999999])
def test_estimates_are_the_librarys(
    server: Collector, exact: tuple[SurveyCampaign, Any], confidence: float, about: str
) -> None:
    campaign, rows = exact
    expected = [asdict(f) for f in figures_of(campaign, campaign.tally(rows), about, confidence)]
    path = f"/v1/campaigns/exact/estimates?confidence={confidence}&about={about}"
    answer = server.get(path).json
    assert answer.pop("estimates") == expected
    asked = [question.name for question in campaign.questions]
    assert [one["name"] for one in answer.pop("attributes")] == asked
    head = {"campaign": "exact", "version": 1, "digest": campaign.digest, "people": 3000}
    once = {"reports": 3000, "period": "", "periods": [], "changes": [], "changed": None}
    assert answer == {
        **head,
        "confidence": confidence,
        "about": about,
        **once,
        "liars": 0.01,
        "warnings": [],
        "waiting": 0,
    }
    table = pyarrow.parquet.read_table(io.BytesIO(server.get(f"{path}&format=parquet").body))
    assert table.to_pylist() == expected
    text = server.get(f"{path}&format=csv").body.decode()
    read = list(csv.DictReader(io.StringIO(text)))
    assert [_typed(row) for row in read] == expected


def _typed(row: dict[str, str]) -> dict[str, Any]:
    numbers = {"value": float, "stderr": float, "low": float, "high": float, "epsilon": float}
    numbers |= {"liars": float, "permanent": float}
    kinds: dict[str, Callable[[str], Any]] = {**numbers, "n": int}
    return {
        key: (None if text == "" and key in numbers else kinds.get(key, str)(text))
        for key, text in row.items()
    }


@pytest.mark.parametrize(
    "query",
    [
        *(
            "confidence=0",
            "confidence=1",
            "confidence=-1",
            "confidence=nan",
            "confidence=inf",
            "confidence=x",
            "confidence=",
        ),
        *(
            "confidence=0.9999999999",
            "about=everybody",
            "about=",
            "format=xml",
            "format=",
            "format=JSON",
        ),
        *("about=%00", "confidence=0.9%00", "format=json%0d%0a"),
        *("combine=optimal", "combine=total%00"),
    ],
)
def test_parameters_that_make_no_sense(server: Collector, exact: Any, query: str) -> None:
    answer = server.get(f"/v1/campaigns/exact/estimates?{query}")
    assert (answer.status, answer.problem) == (422, "bad-parameter")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("accept", "status", "kind"),
    [
        *(("*/*", 200, JSON), ("text/csv", 200, "text/csv; charset=utf-8"), ("image/png", 406, "")),
        *(("text/html, */*;q=0.1", 200, JSON), ("application/*", 200, JSON)),
        ("application/vnd.apache.parquet", 200, "application/vnd.apache.parquet"),
        ("application/json;q=0.1, text/csv", 200, "text/csv; charset=utf-8"),
        ("text/*", 200, "text/csv; charset=utf-8"),
        *(("text/csv;q=0", 406, ""), ("", 406, ""), ("q=;;,/,*", 406, "")),
    ],
)
def test_accept(server: Collector, exact: Any, accept: str, status: int, kind: str) -> None:
    answer = server.get("/v1/campaigns/exact/estimates", Accept=accept)
    assert answer.status == status
    assert status == 406 or answer.headers["content-type"] == kind


def test_nothing_is_shown_about_few(server: Collector) -> None:
    """Nobody, then too few for all, then enough for some attributes only."""
    campaign = CAMPAIGNS["few"]
    path = "/v1/campaigns/few/estimates"
    assert (server.get(path).status, server.get(path).problem) == (409, "cohort-too-small")
    server.send("few", report.to_binary(campaign.form, *reports(campaign, 499, 3)), BINARY)
    for form in ("json", "csv", "parquet"):
        assert server.get(f"{path}?format={form}").problem == "cohort-too-small"
    ids, rows = reports(campaign, 4000, 4)
    pet_and_age = np.flatnonzero((rows[:, 0] == 0) & (rows[:, 3] == 1))
    body = report.to_binary(campaign.form, ids[pet_and_age], rows[pet_and_age])
    assert server.send("few", body, BINARY).json["stored"] == len(pet_and_age)
    shown = {figure["attribute"]: figure["n"] for figure in server.get(path).json["estimates"]}
    assert set(shown) == {"pet", "age"}
    assert min(shown.values()) >= 500


# --- tallies of other collectors -----------------------------------------------------------------

TALLY = "/v1/campaigns/merging/tally"


KEY = bytes(32)
ANYBODY = "0" * 16
"""The name of a collector that a token may bring, and that there is not."""


@pytest.fixture(scope="module")
def other(server: Collector, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collector]:
    with running(tmp_path_factory.mktemp("other") / "store.db", MERGING) as found:
        for one in (server, found):
            one.share(KEY)
        yield found


@pytest.fixture(scope="module")
def merge(server: Collector, other: Collector) -> Callable[[Asking, bytes], Answer]:
    names = [server.name, other.name, ANYBODY]
    tokens = {one.port: one.token("merge", sources=names) for one in (server, other)}
    tokens[0] = tokens[server.port]

    def merged(target: Asking, body: bytes) -> Answer:
        return target.post(TALLY, body, OCTETS, tokens[getattr(target, "port", 0)])

    return merged


def test_merging(server: Collector, other: Collector, merge) -> None:
    campaign = CAMPAIGNS["merging"]
    ids, rows = reports(campaign, 900, 5)
    server.send("merging", report.to_json(campaign.form, ids[:300], rows[:300]))
    other.send("merging", report.to_json(campaign.form, ids[300:500], rows[300:500]))
    early = other.get(TALLY).body
    assert merge(server, early).json == {"merged": 1, "collectors": 1, "left_out": 0}
    assert merge(server, early).json == {"merged": 0, "collectors": 1, "left_out": 0}
    other.send("merging", report.to_json(campaign.form, ids[500:], rows[500:]))
    late = other.get(TALLY).body
    assert merge(server, late).json == {"merged": 1, "collectors": 1, "left_out": 0}
    older = merge(server, early)
    assert (older.status, older.problem) == (409, "mismatched-tally")
    own = server.get(TALLY).body
    assert merge(server, own).problem == "mismatched-tally"  # it is itself, or a copy of it
    status = server.status("merging")
    assert (status["people"], status["merged_collectors"], status["received"]) == (900, 1, 300)
    expected = [asdict(figure) for figure in figures_of(campaign, campaign.tally(rows))]
    assert server.get("/v1/campaigns/merging/estimates").json["estimates"] == expected
    assert merge(other, own).json == {"merged": 1, "collectors": 1, "left_out": 1}
    assert other.get("/v1/campaigns/merging/estimates").json["estimates"] == expected
    again = merge(server, other.get(TALLY).body).json
    assert again == {"merged": 0, "collectors": 1, "left_out": 1}


def test_another_campaigns_tally(server: Collector, merge) -> None:
    answer = merge(server, server.get("/v1/campaigns/pets/tally").body)
    assert (answer.status, answer.problem) == (409, "mismatched-tally")
    assert merge(server, b"").problem == "unreadable-body"


@pytest.mark.slow
def test_damaged_tallies_change_nothing(server: Collector, other: Collector, merge) -> None:
    other.send("merging", uploads(CAMPAIGNS["merging"], 50, 6))  # so that it would be news
    fine, before = other.get(TALLY).body, server.get(TALLY).body
    with closing(server.client()) as client:
        for damaged in _damaged(fine):
            assert merge(client, damaged).status in (400, 409), damaged
    assert server.get(TALLY).body == before
    assert merge(server, fine).json["merged"] == 1


def _damaged(fine: bytes) -> Iterator[bytes]:
    for place in range(0, len(fine), 1 + len(fine) // 300):
        yield fine[:place] + bytes([fine[place] ^ (1 + place % 255)]) + fine[place + 1 :]
        yield fine[:place]
    yield fine + b"\x00"


@pytest.mark.parametrize(
    "parts",
    [
        "{}x",
        "[]",
        '{"x": {}}',
        '{"0123456789abcdef": {"periods": [Infinity], "sketch": ["0", 0]}}',
        '{"0123456789abcdef": {"periods": [0, 0], "sketch": ["0", 0]}}',
        '{"0123456789abcdef": {"periods": ["0"], "sketch": ["0", 0]}}',
        '{"0123456789abcdef": {"periods": [1], "sketch": ["0", 0]}}',
        '{"0123456789abcdef": {"periods": [], "sketch": ["0", 1e999]}}',
        '{"0123456789abcdef": {"periods": [], "sketch": ["0", -1]}}',
        '{"0123456789abcdef": {"periods": [0], "sketch": ["0", 0]}}',
    ],
)
def test_heads_that_make_no_sense(server: Collector, merge, parts: str) -> None:
    digest = CAMPAIGNS["merging"].digest
    rest = '"document": 0, "reports": {}, "collector": "", "key": ""'
    head = f'{{"digest": "{digest}", {rest}, "parts": {parts}}}'.encode()
    data = HEAD.pack(MAGIC, VERSION, len(head), zlib.crc32(head)) + head
    answer = merge(server, data)
    assert (answer.status, answer.problem) == (400, "unreadable-body")


def test_a_tally_of_too_many_people_is_refused(server: Collector, merge) -> None:
    """It would be read, but what is here and it would not add up any more."""
    from murmuration.mechanisms.tally import MAX_PEOPLE, Tally

    campaign = CAMPAIGNS["merging"]
    server.send("merging", uploads(campaign, 100, 8))
    mechanism = campaign.frame.cells[0]
    counts = np.array([MAX_PEOPLE, 0, 0])
    sketch = Sketch(2, np.ones(1, dtype=np.uint64))
    part = Part({0: (Tally(mechanism, counts, MAX_PEOPLE),)}, sketch)
    forged = CampaignTallies(campaign, {ANYBODY: part}, ANYBODY, name_of(KEY))
    before = server.get(TALLY).body
    answer = merge(server, forged.to_bytes())
    assert (answer.status, answer.problem) == (409, "mismatched-tally")
    assert "more people than can be" in answer.json["detail"]
    assert server.get(TALLY).body == before
    assert server.get("/v1/campaigns/merging/estimates").status == 200


# --- what machines read --------------------------------------------------------------------------


def test_health_and_metrics(server: Collector) -> None:
    assert server.ask("GET", "/health").json == {"status": "alive"}
    assert server.ask("GET", "/ready").json == {"status": "ready", "waiting": 0}
    answer = server.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = [line for line in answer.body.decode().splitlines() if not line.startswith("#")]
    numbers = {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}
    status = server.status("pets")
    for outcome, n in status["outcomes"].items():
        key = f'murmur_reports_total{{campaign="pets",outcome="{outcome}"}}'
        assert numbers[key] == n
    assert numbers["murmur_commit_failures_total"] == 0
    assert numbers["murmur_body_bytes"] == 0
    assert not [key for key in numbers if 'status="5' in key]
