"""Who may do what: every route against every kind of token, and the way there."""

import asyncio
import base64
import hashlib
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from murmuration.collector.access.tokens import PREFIX, new_token
from murmuration.collector.publish import serve
from murmuration.collector.store import Token, open_store
from murmuration.errors import ParameterError
from murmuration.server import workers
from murmuration.server.access import REFRESH_SECONDS, Gate
from murmuration.server.problems import Problem
from murmuration.server.routes import ROUTES, Route, routed
from murmuration.server.run import Endpoint
from tests.support.accounts import campaign_of
from tests.support.collectors import JSON, Collector, one, running, uploads
from tests.support.tools import require_tool

REFRESHED = {
    "murmuration.server.access.REFRESH_SECONDS": 0.3,
    "murmuration.server.app.END_SECONDS": 0.1,
}
"""How old what a collector knows of tokens may be, here."""
MOST_SECONDS = REFRESH_SECONDS + 1.0
"""How long a change of tokens may take to be known by any collector."""
OPEN, GUARDED = one("open"), one("guarded", 'upload = "token"')
RANKS = {"": 0, "merge": 0, "device": 1, "analyst": 2, "admin": 3}
NEEDED = {"public": 0, "device": 1, "reader": 2, "analyst": 2, "admin": 3, "merge": 9}
BODIES = {"upload": (b"[]", JSON), "merge": (b"x", "application/octet-stream")}


@dataclass(frozen=True)
class Caller:
    """Somebody with a token, or without one."""

    name: str
    token: str | None
    role: str = ""
    campaign: str = ""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collector]:
    store = tmp_path_factory.mktemp("access") / "store.db"
    with running(store, OPEN, GUARDED, constants=REFRESHED) as found:
        yield found


@pytest.fixture(scope="module")
def callers(server: Collector) -> list[Caller]:
    found = [
        Caller("nobody", None),
        Caller("garbage", "garbage"),
        Caller("empty", ""),
        Caller("like a token", PREFIX + "x" * 43),
        Caller("only the prefix", PREFIX),
    ]
    for role in ("device", "analyst", "admin", "merge"):
        named = ["0123456789abcdef"] if role == "merge" else []
        for campaign in ("", "open", "guarded", "elsewhere"):
            token = server.token(role, campaign=campaign, sources=named)
            found.append(Caller(f"{role} of {campaign or 'all'}", token, role, campaign))
        found.append(Caller(f"{role}, expired", server.token(role, "expired", sources=named)))
    with closing(open_store(server.store)) as store:
        assert store.expire_tokens("expired", int(time.time())) == 4
    return found


def expected(route: Route, caller: Caller, campaign: str) -> int:
    """0 for whoever may, else the status; from the declared policy alone."""
    if route.policy == "public" or (route.policy == "device" and campaign == "open"):
        return 0
    if not caller.role:
        return 401
    inside = route.policy == "reader" or (
        "{campaign}" in route.path and caller.campaign == campaign
    )
    enough = RANKS[caller.role] >= NEEDED[route.policy] or caller.role == route.policy
    return 0 if enough and (inside or not caller.campaign) else 403


@pytest.mark.slow
@pytest.mark.parametrize("campaign", ["open", "guarded"])
@pytest.mark.parametrize("route", ROUTES, ids=[f"{r.method} {r.path}" for r in ROUTES])
def test_every_route_and_every_caller(
    server: Collector, callers: list[Caller], route: Route, campaign: str
) -> None:
    assert route.policy in NEEDED
    path = route.path.format(campaign=campaign, problem="internal", file="none.js", number=1)
    body, kind = BODIES.get(route.handler.__name__, (None, ""))
    headers = {"Sec-Fetch-Site": "same-origin", **({"Content-Type": kind} if kind else {})}
    for caller in callers:
        answer = server.ask(route.method, path, body, headers, caller.token)
        refused = expected(route, caller, campaign)
        if refused:
            assert answer.status == refused, caller
            assert answer.problem == ("unauthorized" if refused == 401 else "forbidden")
            assert ("www-authenticate" in answer.headers) == (refused == 401)
        else:
            assert answer.status in (200, 204, 303, 400, 404, 409, 422), caller


def test_there_is_no_route_beside_the_table() -> None:
    app = routed(cast(Any, SimpleNamespace(running=None)))
    found = {
        (method, cast(Any, route).path)
        for route in app.routes
        for method in cast(Any, route).methods - {"HEAD"}
    }
    assert found == {(route.method, route.path) for route in ROUTES}
    assert len(found) == len(ROUTES)


@pytest.mark.slow
def test_a_head_request_needs_what_get_needs(server: Collector) -> None:
    for route in ROUTES:
        if route.method == "GET" and route.policy != "public":
            path = route.path.format(campaign="open", number=1)
            assert server.ask("HEAD", path).status == 401


@pytest.mark.slow
@pytest.mark.parametrize(
    "header", ["Basic {}", "{}", "Bearer", "Bearer  ", "Bearer x {}", "Token {}"]
)
def test_other_headers_are_no_token(server: Collector, header: str) -> None:
    headers = {"Authorization": header.format(server.admin)}
    answer = server.ask("GET", "/v1/campaigns/open/status", None, headers)
    assert (answer.status, answer.problem) == (401, "unauthorized")


def test_the_scheme_is_of_any_case(server: Collector) -> None:
    headers = {"Authorization": f"bEARER {server.admin}"}
    assert server.ask("GET", "/v1/campaigns/open/status", None, headers).status == 200


def test_a_refused_upload_is_not_counted(server: Collector) -> None:
    campaign = campaign_of(GUARDED)
    batch = uploads(campaign, 5)
    before = server.status("guarded")
    assert server.send("guarded", batch).status == 401
    assert server.status("guarded") == before
    device = server.token("device", campaign="guarded")
    assert within(lambda: server.send("guarded", batch, token=device).status == 200)
    assert server.status("guarded")["people"] == before["people"] + 5


# --- tokens come, go and change ------------------------------------------------------------------


def within(test: Callable[[], bool], seconds: float = MOST_SECONDS) -> bool:
    """Whether it comes true in that time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if test():
            return True
        time.sleep(0.05)
    return test()


def works(server: Collector, token: str) -> bool:
    status = server.get("/v1/campaigns/open/status", token).status
    assert status in (200, 401)
    return status == 200


def test_changes_are_soon_known() -> None:
    assert REFRESH_SECONDS <= 2.0


@pytest.mark.slow
def test_a_revoked_token_stops(server: Collector) -> None:
    token, other = server.token("analyst", "leaving"), server.token("analyst", "staying")
    assert within(lambda: works(server, token))
    with closing(open_store(server.store)) as store:
        assert store.expire_tokens("leaving") == 1
        assert store.expire_tokens("leaving") == 0
    assert within(lambda: not works(server, token))
    assert works(server, other)


@pytest.mark.slow
def test_rotation(server: Collector) -> None:
    """The old token goes on for a while beside the new one."""
    old = server.token("analyst", "rotating")
    assert within(lambda: works(server, old))
    end = int(time.time()) + 3
    with closing(open_store(server.store)) as store:
        store.expire_tokens("rotating", end)
    new = server.token("analyst", "rotating")
    assert within(lambda: works(server, new))
    assert works(server, old)
    assert time.time() < end
    time.sleep(max(0.0, end - time.time()))
    assert not works(server, old)
    assert works(server, new)


def token_row(server: Collector, name: str) -> int:
    """When the token of that name ends, as the store has it."""
    with closing(open_store(server.store, readonly=True)) as store:
        return next(one.expires for one in store.tokens() if one.name == name)


@pytest.mark.slow
def test_an_ended_token_is_marked_so_no_clock_revives_it(server: Collector) -> None:
    """By hand at once, by time soon after: below 0 it is before any time that a clock can show."""
    by_hand = server.token("analyst", "by hand")
    with closing(open_store(server.store)) as store:
        assert store.expire_tokens("by hand") == 1
    assert token_row(server, "by hand") < 0
    by_time = server.token("analyst", "by time", days=1 / 86_400)
    assert within(lambda: token_row(server, "by time") < 0)
    assert not works(server, by_hand)
    assert not works(server, by_time)


@pytest.mark.parametrize("back", [1, 3600, 400 * 86_400])
def test_a_clock_that_steps_back_revives_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, back: int
) -> None:
    """Before anybody has marked it, in a collector that was running when its time came."""
    store, real = open_store(tmp_path / "store.db"), time.time
    with closing(store):
        serve(store, campaign_of(OPEN))
        text = new_token(store, "analyst", days=2 / 86_400)

        async def load() -> list[Token]:
            return store.tokens()

        async def allowed(gate: Gate) -> bool:
            try:
                await gate.check("analyst", f"Bearer {text}", None)
            except Problem:
                return False
            return True

        async def run() -> list[bool]:
            gate = Gate(load)
            found = [await allowed(gate)]
            monkeypatch.setattr(time, "time", lambda: real() + 3)
            found.append(await allowed(gate))
            monkeypatch.setattr(time, "time", lambda: real() - back)
            found.append(await allowed(gate))
            store.end_overdue(int(real()) + 3)  # as a collector does before it is started again
            return [*found, await allowed(Gate(load))]

        assert asyncio.run(run()) == [True, False, False, False]


def test_only_hashes_are_stored(server: Collector) -> None:
    tokens = [server.admin, *(server.token(role) for role in ("device", "analyst"))]
    for token in tokens:
        server.get("/v1/campaigns/open/status", token)
    files = [path.read_bytes() for path in Path(server.store).parent.glob("store.db*")]
    for token in tokens:
        secret = base64.urlsafe_b64decode(token.removeprefix(PREFIX) + "=")
        assert any(hashlib.sha256(token.encode()).digest() in data for data in files)
        for data in files:
            assert token.encode() not in data
            assert token.removeprefix(PREFIX).encode() not in data
            assert secret not in data
    assert not any(PREFIX.encode() in data for data in files)


@pytest.mark.parametrize(("role", "days"), [("boss", 1), ("", 1), ("admin", 0), ("admin", 1e9)])
def test_tokens_that_cannot_be_made(tmp_path: Path, role: str, days: float) -> None:
    with closing(open_store(tmp_path / "x.db")) as store:
        with pytest.raises(ParameterError):
            new_token(store, role, days=days)
        assert store.tokens() == []


def test_the_first_requests_all_wait_for_the_tokens() -> None:
    """Right after the start, a valid token is never unknown just because another came first."""
    import asyncio

    text = PREFIX + "a" * 43
    token = Token(hashlib.sha256(text.encode()).digest(), "x", "admin", "", 0, 1 << 40)
    loads = []

    async def load() -> list[Token]:
        loads.append(1)
        await asyncio.sleep(0.05)
        if len(loads) == 1:
            raise Problem("store-unavailable")
        return [token]

    async def ask() -> list[Any]:
        gate = Gate(load)
        checks = [gate.check("admin", f"Bearer {text}", None) for _ in range(20)]
        return await asyncio.gather(*checks, return_exceptions=True)

    answers = asyncio.run(ask())
    assert [str(answer) for answer in answers if answer is not token] == ["store-unavailable"]
    assert len(answers) == 20
    assert len(loads) == 2


# --- the way there -------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.org", ""])  # noqa: S104
def test_plain_http_beyond_this_machine_is_refused(host: str, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="plain HTTP"):
        Endpoint(host).check()
    with pytest.raises(ParameterError, match="plain HTTP"):
        workers.run([], str(tmp_path / "x.db"), Endpoint(host))
    assert list(tmp_path.iterdir()) == []
    Endpoint(host, plain_http=True).check()
    Endpoint(host, certificate=Path("c"), key=Path("k")).check()


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "127.8.9.1"])
def test_this_machine_needs_no_tls(host: str) -> None:
    Endpoint(host).check()
    assert Endpoint().host == "127.0.0.1"


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660, 0o610, 0o602])
def test_a_key_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    certificate, key = tmp_path / "c.pem", tmp_path / "k.pem"
    certificate.touch()
    key.touch(0o600)
    endpoint = Endpoint(certificate=certificate, key=key)
    workers.check("store.db", endpoint)
    key.chmod(mode)
    with pytest.raises(ParameterError, match=f"mode {mode:o}.*chmod 600 {key}"):
        workers.check("store.db", endpoint)


def test_a_certificate_needs_its_key() -> None:
    for endpoint in (Endpoint(certificate=Path("c")), Endpoint(key=Path("k"), plain_http=True)):
        with pytest.raises(ParameterError, match="both"):
            endpoint.check()


@pytest.mark.slow
def test_tls(tmp_path: Path) -> None:
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    subprocess.run(
        [
            *(
                require_tool("openssl"),
                "req",
                "-x509",
                "-newkey",
                "rsa:2048",
                "-nodes",
                "-days",
                "2",
            ),
            *("-keyout", str(key), "-out", str(certificate), "-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=IP:127.0.0.1"),
        ],
        check=True,
        capture_output=True,
    )
    campaign = campaign_of(OPEN)
    with running(tmp_path / "store.db", OPEN, certificate=certificate, key=key) as server:
        assert server.send("open", uploads(campaign, 3)).json["stored"] == 3
        assert server.status("open")["people"] == 3
        assert not server.raw(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n").startswith(
            b"HTTP/1.1 200"
        )
