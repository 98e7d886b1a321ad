"""What browsers need of a collector: small documents, pages of other sites, and the client's files.

A browser's own rules are tried in a real one elsewhere; here is what it goes by.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from collections.abc import Iterator
from pathlib import Path

import brotli
import pytest
from starlette.requests import Request

from murmuration.definition.document import MOST_BYTES, publish
from murmuration.definition.load import parse
from murmuration.device.loading import load
from murmuration.errors import SendError
from murmuration.server.client_files import client_files
from murmuration.server.encoded import Encoded, compressed
from murmuration.server.routes import ROUTES
from tests.support.between import answering
from tests.support.collectors import CAMPAIGNS, Answer, Collection, Collector, one, running

APP, OTHER = "https://app.example", "https://evil.example"
OPEN = one("open", f'origins = ["{APP}", "http://localhost:3000"]')
GUARDED = one("guarded", f'upload = "token"\norigins = ["{APP}"]')
CLOSED_TO_PAGES = one("own-pages")
LARGE = """
name = "large"
purpose = "A law that is long."
epsilon = 4
[[attributes]]
name = "hours"
kind = "distribution"
low = 0
high = 24
"""
CORS = "access-control-"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collector]:
    store = tmp_path_factory.mktemp("pages") / "store.db"
    with running(store, OPEN, GUARDED, CLOSED_TO_PAGES, LARGE) as found:
        yield found


def permissions(answer: Answer) -> dict[str, str]:
    """What an answer lets pages of other sites do."""
    return {name: value for name, value in answer.headers.items() if name.startswith(CORS)}


# --- small documents -----------------------------------------------------------------------------


def fetched(server: Collector, accept: str | None, tag: str = "") -> Answer:
    headers = {} if accept is None else {"Accept-Encoding": accept}
    headers |= {"If-None-Match": tag} if tag else {}
    return server.ask("GET", f"{CAMPAIGNS}/large", None, headers)


UNPACKED = {"": lambda data: data, "gzip": gzip.decompress, "br": brotli.decompress}
ACCEPTED = [
    *((None, ""), ("", ""), ("identity", ""), ("deflate", ""), ("gzip;q=0", "")),
    *(("gzip", "gzip"), ("GZIP", "gzip"), ("gzip, deflate", "gzip"), ("gzip, br;q=0.5", "gzip")),
    *(("br", "br"), ("gzip, deflate, br, zstd", "br"), ("*", "br"), ("br;q=0, *", "gzip")),
]


@pytest.mark.parametrize(("accept", "form"), ACCEPTED)
def test_a_document_in_every_encoding(server: Collector, accept: str | None, form: str) -> None:
    plain = fetched(server, None)
    answer = fetched(server, accept)
    assert answer.headers.get("content-encoding", "") == form
    assert "accept-encoding" in answer.headers["vary"]
    assert UNPACKED[form](answer.body) == plain.body
    assert len(plain.body) > 200_000
    assert form == "" or len(answer.body) < 4_000
    assert int(answer.headers["content-length"]) == len(answer.body)


def test_each_encoding_has_its_tag(server: Collector) -> None:
    tags = {form: fetched(server, form).headers["etag"] for form in ("identity", "gzip", "br")}
    assert len(set(tags.values())) == 3
    for form, tag in tags.items():
        again = fetched(server, form, tag)
        assert (again.status, again.body, again.headers["etag"]) == (304, b"", tag)
        assert "content-encoding" not in again.headers
        for other in set(tags) - {form}:
            assert fetched(server, other, tag).status == 200


SIX = 'name = "six"\npurpose = "Six numbers."\nepsilon = 4.0\n' + "".join(
    f'[[attributes]]\nname = "q{place}"\nlow = 0\nhigh = 1\nmechanism = "optimal"\n'
    for place in range(6)
)


def test_six_attributes_at_epsilon_4_are_small() -> None:
    """Half a megabyte of tables is at most 40 KB on the wire (benchmarks/run_document.py)."""
    forms = compressed(publish(parse(SIX)))
    assert len(forms["identity"]) > 400_000
    assert len(forms["br"]) < len(forms["gzip"]) < 40_000


def test_nothing_is_packed_for_a_request() -> None:
    """Whoever asks again and again gets the same bytes, which are packed once."""
    answer = Encoded.of(bytes(10_000), "text/plain")
    asked = Request({"type": "http", "headers": [(b"accept-encoding", b"gzip")]})
    assert answer.answer(asked).body is answer.answer(asked).body is answer.forms["gzip"]


def test_a_device_takes_the_packed_document(server: Collector) -> None:
    campaign, _ = load(Collection(server, "large").url)
    assert campaign.digest == json.loads(fetched(server, None).body)["digest"]


def packed(data: bytes) -> bytes:
    return gzip.compress(data, 1, mtime=0)


BOMBS = {
    "longer than the most": (packed(bytes(MOST_BYTES + 1)), "gzip", "longer than"),
    "much longer": (packed(bytes(1 << 26)), "gzip", "longer than"),
    "cut off": (packed(b"{}" * 1000)[:-9], "gzip", "cut off"),
    "more behind": (packed(b"{}") + b"{}", "gzip", "goes on after its end"),
    "no gzip": (b"{}", "gzip", "not as gzip"),
    "another packing": (zlib.compress(b"{}"), "deflate", "not as gzip"),
    "packed twice": (packed(packed(b"{}")), "gzip, gzip", "not as gzip"),
}


@pytest.mark.parametrize("case", BOMBS)
def test_a_hostile_collector_packs_a_document(case: str) -> None:
    data, encoding, words = BOMBS[case]
    server = answering(lambda *_: (200, {}, b""), data, {"Content-Encoding": encoding})
    with server as seen, pytest.raises(SendError, match=words):
        load(seen.url)


def test_a_packed_document_of_another_server_is_read() -> None:
    campaign = parse(one("phones"))
    with answering(
        lambda *_: (200, {}, b""), packed(publish(campaign)), {"Content-Encoding": "gzip"}
    ) as seen:
        assert load(seen.url)[0].digest == campaign.digest


# --- pages of other sites ------------------------------------------------------------------------


def asked(server: Collector, path: str, origin: str | None, method: str = "POST") -> Answer:
    """What a browser asks before a page's request."""
    headers = {} if origin is None else {"Origin": origin, f"{CORS}request-method": method}
    return server.ask("OPTIONS", path, None, headers)


@pytest.mark.parametrize(("end", "method"), [("", "GET"), ("/reports", "POST")])
def test_a_page_that_is_named_may_take_part(server: Collector, end: str, method: str) -> None:
    answer = asked(server, f"{CAMPAIGNS}/guarded{end}", APP, method)
    assert (answer.status, answer.body) == (204, b"")
    assert permissions(answer) == {
        "access-control-allow-origin": APP,
        "access-control-allow-methods": method,
        "access-control-allow-headers": (
            "authorization, content-encoding, content-type, if-none-match"
        ),
        "access-control-max-age": "7200",
        "access-control-expose-headers": "etag, retry-after",
    }
    assert "origin" in answer.headers["vary"]


@pytest.mark.parametrize("origin", [OTHER, "null", "https://app.example:8443", APP.upper(), ""])
@pytest.mark.parametrize("end", ["", "/reports"])
def test_other_pages_may_not(server: Collector, origin: str, end: str) -> None:
    path = f"{CAMPAIGNS}/open{end}"
    answer = asked(server, path, origin)
    assert (answer.status, answer.problem) == (403, "origin-not-named")
    assert permissions(answer) == {}
    shown = server.ask("GET", f"{CAMPAIGNS}/open", None, {"Origin": origin})
    assert (shown.status, permissions(shown)) == (200, {})  # the page itself cannot read it
    assert shown.headers["vary"] == "accept-encoding, origin"


def test_a_campaign_that_names_nobody_is_for_our_own_pages(server: Collector) -> None:
    path = f"{CAMPAIGNS}/own-pages"
    own = f"http://127.0.0.1:{server.port}"
    for origin in (APP, own):
        assert asked(server, path, origin).status == 403
        answer = server.ask("GET", path, None, {"Origin": origin})
        assert (answer.status, permissions(answer)) == (200, {})
    assert asked(server, path, None).headers["allow"] == "GET, OPTIONS"


READABLE = {
    "access-control-allow-origin": APP,
    "access-control-expose-headers": "etag, retry-after",
}


def test_a_page_reads_what_became_of_its_report(server: Collector) -> None:
    """Also what is wrong with it: a device has to tell a refusal from a network that is down."""
    headers = {"Origin": APP, "Content-Type": "application/json"}
    for name, body, status in (("open", "[]", 200), ("open", "no", 400), ("guarded", "[]", 401)):
        answer = server.ask("POST", f"{CAMPAIGNS}/{name}/reports", body, headers)
        assert (answer.status, permissions(answer)) == (status, READABLE)
        assert answer.headers["vary"] == "origin"
    shown = server.ask("GET", f"{CAMPAIGNS}/open", None, {"Origin": APP})
    assert permissions(shown) == READABLE
    tag = {"Origin": APP, "If-None-Match": shown.headers["etag"]}
    unchanged = server.ask("GET", f"{CAMPAIGNS}/open", None, tag)
    assert (unchanged.status, permissions(unchanged)) == (304, READABLE)


def test_a_page_is_let_into_nothing_else(server: Collector) -> None:
    """Pages of other sites can read no answer of another address, and no answer has cookies."""
    for route in ROUTES:
        path = route.path.format(campaign="open", problem="internal", file="none.js", number=1)
        answer = server.ask(route.method, path, b"", {"Origin": APP}, server.admin)
        assert bool(permissions(answer)) == route.pages, route.path
        assert not {"set-cookie", "access-control-allow-credentials"} & set(answer.headers)
        if not route.pages:
            assert asked(server, path, APP).status == 405
    nowhere = asked(server, f"{CAMPAIGNS}/nothing", APP)
    assert (nowhere.status, permissions(nowhere)) == (404, {})


# --- the client's files --------------------------------------------------------------------------


def test_the_clients_files_are_those_of_the_package(server: Collector) -> None:
    for name, file in client_files().items():
        answer = server.ask("GET", f"/client/{name}")
        assert answer.body == file.forms["identity"]
        assert answer.headers["content-type"].startswith(("text/", "application/json"))
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["access-control-allow-origin"] == "*"
        again = server.ask(
            "GET", f"/client/{name}", None, {"If-None-Match": answer.headers["etag"]}
        )
        assert (again.status, again.body) == (304, b"")


@pytest.mark.parametrize(
    "name", ["none.js", "__init__.py", "..%2f__init__.py", "../routes.py", "%2e%2e/routes.py", ""]
)
def test_no_other_file_is_served(server: Collector, name: str) -> None:
    answer = server.ask("GET", f"/client/{name}")
    assert (answer.status, answer.problem) == (404, "not-found")


def test_files_are_read_once_and_tagged_by_what_is_in_them(tmp_path: Path) -> None:
    script = b"export const answer = 42;\n" * 100
    (tmp_path / "a.js").write_bytes(script)
    (tmp_path / "notes.txt").write_text("not served")
    (tmp_path / "folder.js").mkdir()
    found = client_files(tmp_path)
    assert list(found) == ["a.js"]
    assert found["a.js"].media == "text/javascript"
    assert found["a.js"].tag == hashlib.sha256(script).hexdigest()[:32]
    assert gzip.decompress(found["a.js"].forms["gzip"]) == script
    assert client_files(tmp_path / "nowhere") == {}
