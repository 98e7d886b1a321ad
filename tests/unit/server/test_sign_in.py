"""Browsers that sign in: by a code that works once, for as long as the token behind it lasts."""

from __future__ import annotations

import json
import os
import pty
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from murmuration.collector.access import sessions
from murmuration.collector.access.sessions import (
    CODE_SECONDS,
    NAME,
    SESSION_SECONDS,
    new_code,
    signed_in,
)
from murmuration.collector.access.tokens import hashed, new_token
from murmuration.collector.publish import serve
from murmuration.collector.store import Store, open_store
from murmuration.errors import ParameterError
from murmuration.server.routes import ROUTES
from tests.support.accounts import campaign_of
from tests.support.between import free_port
from tests.support.collectors import Answer, Collector, one, running, uploads
from tests.support.command import COMMAND, murmur

OPEN, SECRET = one("open"), one("secret")
OWN = {"Sec-Fetch-Site": "same-origin"}
HTML = {"Accept": "text/html", **OWN}
FRESH = {"murmuration.server.access.REFRESH_SECONDS": 0.05}
LIVE = "/v1/campaigns/open/live"
BEHIND = ("/", "/plan", "/v1/session", LIVE, "/v1/campaigns/open/estimates", "/metrics")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collector]:
    store = tmp_path_factory.mktemp("sign-in") / "store.db"
    with running(store, OPEN, SECRET, constants=FRESH) as found:
        yield found


def entered(server: Collector, code: str, **headers: str) -> Answer:
    return server.ask("GET", f"/sign-in?code={code}", None, {**headers})


def cookie(answer: Answer) -> dict[str, str]:
    return {"Cookie": answer.headers["set-cookie"].partition(";")[0]}


def session(server: Collector, token: str = "", campaign: str = "") -> dict[str, str]:
    answer = entered(server, server.code(token, campaign))
    assert answer.status == 303
    return {**cookie(answer), **OWN}


# --- a code, once --------------------------------------------------------------------------------


def test_a_code_becomes_a_session_once(server: Collector) -> None:
    code = server.code()
    answer = entered(server, code)
    assert (answer.status, answer.headers["location"]) == (303, "./")
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["referrer-policy"] == "no-referrer"
    name, *rules = answer.headers["set-cookie"].split("; ")
    assert set(rules) == {"HttpOnly", "SameSite=strict", "Path=/", f"Max-Age={SESSION_SECONDS}"}
    found = server.ask("GET", "/v1/session", None, {"Cookie": name, **OWN}).json
    assert found["role"] == "analyst"
    assert found["campaigns"] == ["open", "secret"]
    assert entered(server, code).problem == "bad-code"


def test_guessing_makes_the_store_write_nothing(tmp_path: Path) -> None:
    """Nobody who is not known makes the thread work that stores reports."""
    with running(tmp_path / "s.db", OPEN) as found:
        wrong = {"Cookie": f"murmur-{found.name[:8]}=session_{'x' * 43}", **OWN}
        with closing(open_store(found.store)) as held, held.transaction():  # nobody else can write
            for code in ("x", "x" * 43):
                assert entered(found, code).problem == "bad-code"
            assert found.ask("POST", "/sign-out", b"", wrong).status == 303


def test_codes_that_are_none(server: Collector) -> None:
    for code in ("", "x", "session_" + "x" * 43, server.admin, "%00"):
        answer = entered(server, code)
        assert answer.problem == "bad-code"
        assert "set-cookie" not in answer.headers


def test_a_code_that_another_site_opens_is_not_used_up(server: Collector) -> None:
    """Nor one that a browser fetches ahead; so nobody is signed in without wanting to be."""
    code = server.code()
    for headers in (
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "https://evil.example"},
        {"Sec-Purpose": "prefetch;prerender"},
    ):
        assert server.ask("GET", f"/sign-in?code={code}", None, headers).problem == "bad-code"
    assert server.ask("HEAD", f"/sign-in?code={code}").status == 200
    assert entered(server, code, **{"Sec-Fetch-Site": "none"}).status == 303


def test_without_a_code_there_is_a_page_that_says_where_codes_come_from(server: Collector) -> None:
    answer = server.ask("GET", "/sign-in", None, HTML)
    assert answer.status == 200
    assert b'class="sign-in"' in answer.body


# --- what a session may do -----------------------------------------------------------------------


def test_a_session_reads_what_its_token_may_read(server: Collector) -> None:
    whole, only = session(server), session(server, campaign="open")
    for path in BEHIND:
        assert server.ask("GET", path, None, whole).status in (200, 409), path
        assert server.ask("GET", path).status == 401
    assert server.ask("GET", LIVE, None, only).status == 200
    assert server.ask("GET", LIVE.replace("open", "secret"), None, only).problem == "forbidden"
    assert server.ask("GET", "/v1/session", None, only).json["campaigns"] == ["open"]
    assert server.ask("GET", "/", None, only).status == 200


def test_a_session_is_no_more_than_its_token(server: Collector) -> None:
    analyst, admin = session(server), session(server, "tests")
    assert server.ask("GET", "/v1/campaigns/open/tally", None, analyst).problem == "forbidden"
    assert server.ask("GET", "/v1/campaigns/open/tally", None, admin).status == 200
    answer = server.ask("POST", "/v1/campaigns/open/tally", b"x", admin)
    assert answer.problem == "unauthorized"  # merging is not for browsers


def test_a_session_sends_no_reports(tmp_path: Path) -> None:
    with running(tmp_path / "s.db", one("guarded", 'upload = "token"'), constants=FRESH) as found:
        answer = found.ask("POST", "/v1/campaigns/guarded/reports", b"[]", session(found, "tests"))
        assert answer.problem == "unauthorized"


def test_a_session_is_no_token_and_a_token_is_no_session(server: Collector) -> None:
    signed = session(server)
    name, _, text = signed["Cookie"].partition("=")
    assert server.ask("GET", "/v1/session", None, OWN, text).status == 401
    swapped = {"Cookie": f"{name}={server.admin}", **OWN}
    assert server.ask("GET", "/v1/session", None, swapped).status == 401
    assert server.ask("GET", "/v1/session", None, signed, "garbage").status == 401


def test_a_page_of_another_site_has_no_session(server: Collector) -> None:
    """Whatever cookie its requests carry: reading, planning, signing out."""
    signed = {"Cookie": session(server)["Cookie"]}
    plan = b'{"epsilon": 1, "people": 1000, "attributes": [{"name": "age"}]}'
    for foreign in (
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
    ):
        headers = {**signed, **foreign}
        assert server.ask("GET", LIVE, None, headers).status == 401
        assert server.ask("POST", "/v1/plan", plan, headers).status == 401
        assert server.ask("POST", "/sign-out", b"", headers).problem == "other-page"
    assert server.ask("POST", "/v1/plan", plan, signed).status == 401  # no word on where from
    own = {**signed, "Origin": f"http://127.0.0.1:{server.port}"}
    assert server.ask("POST", "/v1/plan", plan, own).status == 200
    assert server.ask("GET", "/v1/session", None, {**signed, **OWN}).status == 200


# --- its end -------------------------------------------------------------------------------------


def test_signing_out_ends_it(server: Collector) -> None:
    signed, other = session(server), session(server)
    answer = server.ask("POST", "/sign-out", b"", signed)
    assert (answer.status, answer.headers["location"]) == (303, "./")
    assert "Max-Age=0" in answer.headers["set-cookie"]
    assert server.ask("GET", "/v1/session", None, signed).status == 401
    assert server.ask("GET", "/v1/session", None, other).status == 200
    with closing(open_store(server.store, readonly=True)) as store:
        text = signed["Cookie"].partition("=")[2]
        assert hashed(text) not in [one.hash for one in store.sessions()]


def test_ending_the_token_ends_its_sessions_and_codes(server: Collector) -> None:
    server.token("analyst", "short-lived")
    signed, code = session(server, "short-lived"), server.code("short-lived")
    with closing(open_store(server.store)) as store:
        store.expire_tokens("short-lived")
    deadline = time.monotonic() + 10
    while server.ask("GET", "/v1/session", None, signed).status == 200:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert entered(server, code).problem == "bad-code"


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    with closing(open_store(store_url)) as found:
        yield found


def test_codes_and_sessions_end_by_themselves(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In both kinds of store: what several workers share."""
    now, late = time.time(), new_code(store)
    monkeypatch.setattr(sessions.time, "time", lambda: now + CODE_SECONDS + 1)
    assert signed_in(store, late) is None
    monkeypatch.setattr(sessions.time, "time", lambda: now)
    text = signed_in(store, new_code(store))
    assert text is not None
    (found,) = store.sessions()
    assert (found.hash, found.role, found.name) == (hashed(text), "analyst", NAME)
    assert abs(found.expires - now - SESSION_SECONDS) < 2
    assert not store.has_sessions(int(now))
    assert store.has_sessions(found.expires)
    store.end_overdue(found.expires)
    assert store.sessions() == []
    assert len(store.tokens()) == 1  # one for all links


def test_a_code_is_for_one_of_several_who_hold_it(store: Store) -> None:
    code = new_code(store)
    assert [signed_in(store, code) is None for _ in range(3)] == [False, True, True]


def test_a_code_needs_a_token_that_lasts(store: Store) -> None:
    with pytest.raises(ParameterError, match="no valid token called 'nobody'"):
        new_code(store, "nobody")
    new_token(store, "analyst", "reader", "open")
    code = new_code(store, "reader")
    store.expire_tokens("reader")
    assert signed_in(store, code) is None


@pytest.mark.slow
def test_workers_share_sessions(postgres_url: str) -> None:
    with running(postgres_url, OPEN, workers=2) as found:
        signed = session(found)
        for _ in range(12):  # a connection each: some come to the other worker
            assert found.ask("GET", "/v1/session", None, signed).status == 200


# --- what is kept, and said ----------------------------------------------------------------------


def test_only_hashes_are_stored_and_nothing_is_logged(server: Collector) -> None:
    code = server.code()
    signed = session(server)
    assert entered(server, code).status == 303
    server.ask("GET", f"/sign-in?code={code}")
    text = signed["Cookie"].partition("=")[2]
    files = [path.read_bytes() for path in Path(server.store).parent.glob("store.db*")]
    for secret in (code, text, text.removeprefix("session_")):
        assert not any(secret.encode() in data for data in files)
        assert secret not in server.log
    assert any(hashed(text) in data for data in files)


def test_beyond_this_machine_the_cookie_travels_by_tls_only(server: Collector) -> None:
    for host, secure in (
        ("collector.example", True),
        ("10.1.2.3:8750", True),
        ("[::1]:8750", False),
        ("localhost", False),
        ("127.0.0.1@evil.example", True),
    ):
        answer = entered(server, server.code(), Host=host)
        assert ("Secure" in answer.headers["set-cookie"]) == secure, host


def test_pages_say_what_a_browser_may_do_with_them(server: Collector) -> None:
    """Nothing inline, nothing from elsewhere, in nobody's frame; private ones are kept nowhere."""
    signed = session(server)
    for route in (found for found in ROUTES if found.page):
        path = route.path.format(campaign="open")
        for headers in (HTML, {**HTML, **signed}):
            answer = server.ask("GET", path, None, headers)
            policy = answer.headers["content-security-policy"]
            for rule in ("default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'"):
                assert rule in policy
            assert "unsafe" not in policy
            assert "http" not in policy
            assert answer.headers["x-frame-options"] == "DENY"
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["content-type"].startswith("text/html")
            if route.policy != "public":
                assert answer.headers["cache-control"] == "no-store"


def test_what_is_behind_sign_in_is_kept_nowhere(server: Collector) -> None:
    signed = session(server)
    for path in BEHIND:
        for headers in (signed, {}):
            answer = server.ask("GET", path, None, headers)
            assert answer.headers["cache-control"] == "no-store", path


def test_who_is_not_signed_in_is_shown_the_sign_in_page(server: Collector) -> None:
    for path in ("/", "/plan"):
        answer = server.ask("GET", path, None, HTML)
        assert answer.status == 401
        assert b'class="sign-in"' in answer.body
        assert server.ask("GET", path).problem == "unauthorized"


def test_open_pages_need_nothing(server: Collector) -> None:
    for path, kind in (("/c/open", b"participant"), ("/c/open/proof", b"proof")):
        answer = server.ask("GET", path, None, HTML)
        assert (answer.status, b'class="%s"' % kind in answer.body) == (200, True)
        assert "set-cookie" not in answer.headers
    assert server.ask("GET", "/c/nothing", None, HTML).status == 404
    style = server.ask("GET", "/pages/pages.css")
    assert style.status == 200
    again = server.ask("GET", "/pages/pages.css", None, {"If-None-Match": style.headers["etag"]})
    assert again.status == 304
    for file in ("nothing.js", "..%2Fmurmuration-client.js", "%2e%2e"):
        assert server.ask("GET", f"/pages/{file}").status == 404


def test_estimates_are_downloaded_with_a_session(server: Collector) -> None:
    assert server.send("open", uploads(campaign_of(OPEN), 200)).status == 200
    signed = session(server)
    for form, media in (("csv", "text/csv"), ("parquet", "application/vnd.apache.parquet")):
        answer = server.ask("GET", f"/v1/campaigns/open/estimates?format={form}", None, signed)
        assert answer.headers["content-type"].startswith(media)


# --- behind a proxy ------------------------------------------------------------------------------


def test_pages_under_a_path(tmp_path: Path) -> None:
    """A proxy that passes the path on: --prefix; one that takes it away, and says so."""
    with running(tmp_path / "a.db", OPEN, prefix="/study/one") as found:
        answer = found.ask("GET", f"/study/one/sign-in?code={found.code()}")
        assert "Path=/study/one/;" in answer.headers["set-cookie"]
        signed = {**cookie(answer), **OWN}
        assert found.ask("GET", "/study/one/v1/session", None, signed).status == 200
        assert found.ask("GET", "/study/one/c/open", None, HTML).status == 200
        assert found.send("open", []).status == 200
        assert (
            found.ask(
                "POST",
                "/study/one/v1/campaigns/open/reports",
                b"[]",
                {"Content-Type": "application/json"},
            ).status
            == 200
        )
        assert found.ask("GET", "/study/onex/health").status == 404


def test_only_a_proxy_that_is_trusted_says_the_path(server: Collector, tmp_path: Path) -> None:
    told = {"X-Forwarded-Prefix": "/study/"}
    plain = entered(server, server.code(), **told)
    assert "Path=/;" in plain.headers["set-cookie"]
    with running(tmp_path / "b.db", OPEN, forwarded=True) as found:
        answer = entered(found, found.code(), **told)
        assert "Path=/study/;" in answer.headers["set-cookie"]
        assert "Secure" not in answer.headers["set-cookie"]
        for named in ({"X-Forwarded-Proto": "https"}, {"X-Forwarded-Host": "a.example"}):
            assert "Secure" in entered(found, found.code(), **named).headers["set-cookie"]
            assert "Secure" not in entered(server, server.code(), **named).headers["set-cookie"]
        odd = entered(found, found.code(), **{"X-Forwarded-Prefix": "/a; Domain=evil.example"})
        assert "Path=/;" in odd.headers["set-cookie"]
        signed = {**cookie(answer), "Origin": "https://a.example", "X-Forwarded-Host": "a.example"}
        assert found.ask("POST", "/sign-out", b"", signed).status == 303


# --- the commands --------------------------------------------------------------------------------


def wait_for(port: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise TimeoutError


def served_on(place: int | None, folder: Path, port: int) -> str:
    """Return what `murmur serve` prints until it answers, on a terminal or into a file."""
    (folder / "campaign.toml").write_text(OPEN)
    with (folder / "said").open("wb") as file:
        running = subprocess.Popen(
            [*COMMAND, "serve", "campaign.toml", "--port", str(port)],
            cwd=folder,
            stdout=file if place is None else place,
            stderr=subprocess.STDOUT,
        )
    try:
        wait_for(port)
        return (folder / "said").read_text() if place is None else ""
    finally:
        running.terminate()
        running.wait(30)


@pytest.mark.slow
def test_a_link_is_printed_on_a_terminal_and_into_no_log(tmp_path: Path) -> None:
    port = free_port()
    said = served_on(None, tmp_path, port)
    assert "code=" not in said
    assert "murmur token link" in said
    ours, theirs = pty.openpty()
    served_on(theirs, tmp_path, port)
    os.close(theirs)
    shown = os.read(ours, 1 << 16).decode()
    os.close(ours)
    code = re.findall(rf"http://127\.0\.0\.1:{port}/sign-in\?code=([\w-]{{43}})", shown)
    with closing(open_store(tmp_path / "open.db")) as store:
        assert signed_in(store, *code) is not None


def test_a_link_by_a_command(tmp_path: Path) -> None:
    with closing(open_store(tmp_path / "s.db")) as store:
        serve(store, campaign_of(OPEN))
        new_token(store, "admin", "boss")
    options = ("token", "link", tmp_path / "s.db", "--url", "https://a.example/study/", "--json")
    link = json.loads(murmur(*options, "--name", "boss").stdout)["link"]
    address, _, code = link.partition("?code=")
    assert address == "https://a.example/study/sign-in"
    with closing(open_store(tmp_path / "s.db")) as store:
        assert signed_in(store, code) is not None
        assert store.sessions()[0].role == "admin"
    for wrong in (
        ("--name", "nobody"),
        ("--campaign", "no"),
        ("--name", "boss", "--campaign", "c"),
    ):
        murmur(*options, *wrong, code=2)
