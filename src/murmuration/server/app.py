"""The collector's HTTP interface. `ROUTES` is all of it: address, policy, and what it does."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, TypeVar

import msgspec
import numpy as np
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as StarletteRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from murmuration.analysis import figures
from murmuration.analysis.figures import Estimates
from murmuration.campaign.document import Document
from murmuration.campaign.model import utc_now
from murmuration.collector import commit as collect
from murmuration.collector.commit import Batch, Served, Status
from murmuration.collector.store import Store, StoreError, StoreFullError
from murmuration.collector.tallies import Sources
from murmuration.errors import CohortError, FormatError, MismatchError, ParameterError
from murmuration.mechanisms.tally import Tally
from murmuration.server import body, openapi
from murmuration.server.accept import preferred
from murmuration.server.access import ADMIN, ANALYST, DEVICE, PUBLIC, Gate
from murmuration.server.answers import (
    Alive,
    Described,
    Failure,
    Listed,
    Listing,
    Merging,
    Ready,
    Receipt,
)
from murmuration.server.ingest import Ingest
from murmuration.server.limits import Limits
from murmuration.server.metrics import exposition
from murmuration.server.problems import PROBLEMS, Problem, described, type_of
from murmuration.wire import report
from murmuration.wire.report import REASONS, Incoming

log = logging.getLogger("murmuration.server")

LARGE = 1 << 18
"""A body from this size on is read in a thread, so that others do not wait for it."""
OCTETS, TEXT = "application/octet-stream", "text/plain"

_T = TypeVar("_T")
Endpoint = Callable[[Request], Awaitable[Response]]
Handler = Callable[["Collector", Request, Served | None], Awaitable[Response]]
_UPLOAD = re.compile(r"/v1/campaigns/([^/]+)/reports")


class Collector:
    """The state behind the routes: campaigns, the queue to the store, and a reader."""

    def __init__(
        self, store: Store, served: Sequence[Served], limits: Limits | None = None
    ) -> None:
        self.limits = limits or Limits()
        self.served = {one.campaign.name: one for one in served}
        self.room = body.Room(self.limits.bodies_bytes)
        self.open_requests = 0
        self.answers: Counter[tuple[str, int]] = Counter()
        self.started = time.time()
        self._store = store
        self._reader = store.reader()
        self._read_thread = ThreadPoolExecutor(1, thread_name_prefix="murmur-read")
        self._figure_thread = ThreadPoolExecutor(1, thread_name_prefix="murmur-figures")
        self._parse_thread = ThreadPoolExecutor(1, thread_name_prefix="murmur-parse")
        self.gate = Gate(partial(self.read, self._reader.tokens))

    @asynccontextmanager
    async def running(self, app: Starlette) -> AsyncIterator[None]:
        """Start writing; at the end write what has arrived."""
        del app
        self.ingest = Ingest(self._store, self.limits.waiting)
        self.ingest.start()
        try:
            yield
        finally:
            await self.ingest.stop()
            self._read_thread.shutdown(wait=True)
            self._figure_thread.shutdown(wait=True)
            self._parse_thread.shutdown(wait=True)
            self._reader.close()
            self._store.close()

    async def read(self, ask: Callable[..., _T], *values: Any) -> _T:
        """Ask the reading connection, in its own thread."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._read_thread, partial(ask, *values))

    # --- what devices use ----------------------------------------------------------------------

    async def campaigns(self, request: Request, served: Served | None) -> Response:
        """List the campaigns."""
        del request, served
        now = utc_now()
        found = [
            Listed(name, one.version, one.campaign.digest, terms.purpose, terms.accepts(now))
            for name, one in self.served.items()
            for terms in [one.campaign.terms]
        ]
        return _json(Listing(found))

    async def document(self, request: Request, served: Served | None) -> Response:
        """Return the published campaign: all that a device needs."""
        one = _known(served)
        tag = f'"{one.campaign.digest[:32]}-{one.version}"'
        headers = {"etag": tag, "cache-control": "public, max-age=60"}
        if tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return Response(one.document, headers=headers, media_type="application/json")

    async def upload(self, request: Request, served: Served | None) -> Response:
        """Take one report or many; answer when they are on the disk."""
        one = _known(served)
        kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
        if kind not in (report.JSON, report.BINARY):
            raise Problem("unsupported-type", f"send {report.JSON} or {report.BINARY}")
        with self.room.hold() as held:
            data = await body.read(request, held, self.limits)
            try:
                incoming = await self._decoded(one, data, kind)
            except FormatError as problem:
                await self.ingest.submit(Batch(one, Incoming([], []), unreadable=1))
                raise Problem("unreadable-body", str(problem)) from None
            batch = Batch(one, incoming, in_time=one.campaign.terms.accepts(utc_now()))
            await self.ingest.submit(batch)
        return Response(_receipt(batch), media_type="application/json")

    async def _decoded(self, served: Served, data: bytes, kind: str) -> Incoming:
        decode = partial(report.decode, served.campaign, data, kind, served.older)
        if len(data) < LARGE:
            return decode()
        return await asyncio.get_running_loop().run_in_executor(self._parse_thread, decode)

    # --- what analysts use -----------------------------------------------------------------------

    async def estimates(self, request: Request, served: Served | None) -> Response:
        """Read the crowd's answer as it is now."""
        one = _known(served)
        form = _form(request)
        level, about = _level(request), _about(request)
        tallies = await self.read(collect.total, self._reader, one.campaign)
        ask = partial(_estimates, one, tallies, about, level, form)
        data = await asyncio.get_running_loop().run_in_executor(self._figure_thread, ask)
        return Response(data, media_type=figures.FORMATS[form])

    async def status(self, request: Request, served: Served | None) -> Response:
        """Say what has arrived and what became of it."""
        del request
        one = _known(served)
        return _json(await self.read(collect.status, self._reader, one))

    # --- what admins and other collectors use ----------------------------------------------------

    async def tally(self, request: Request, served: Served | None) -> Response:
        """Return all tallies, by the collector that counted them."""
        del request
        one = _known(served)
        found = await self.read(collect.sources, self._reader, one.campaign)
        return Response(found.to_bytes(), media_type=OCTETS)

    async def merge(self, request: Request, served: Served | None) -> Response:
        """Take over another collector's tallies; sending them again changes nothing."""
        one = _known(served)
        with self.room.hold() as held:
            data = await body.read(request, held, self.limits)
            other = await self.read(_sources, data, one)
            try:
                news = await self.read(collect.merge_sources, self._reader, one, other)
            except MismatchError:
                detail = "it is older than what is known, or does not add up with it"
                raise Problem("mismatched-tally", detail) from None
        return _json(Merging(news, len(other.parts)))

    # --- what machines use -----------------------------------------------------------------------

    async def health(self, request: Request, served: Served | None) -> Response:
        """Alive."""
        del request, served
        return _json(Alive())

    async def ready(self, request: Request, served: Served | None) -> Response:
        """Ready when the store answers and the queue has room."""
        del request, served
        await self.read(self._reader.collector_name)
        if self.ingest.reports_waiting >= self.limits.waiting:
            raise Problem("overloaded")
        return _json(Ready(self.ingest.reports_waiting))

    async def metrics(self, request: Request, served: Served | None) -> Response:
        """Numbers for Prometheus."""
        del request, served
        counts = {name: await self.read(self._reader.counts, name) for name in self.served}
        return Response(exposition(self, counts), media_type=f"{TEXT}; version=0.0.4")

    async def openapi(self, request: Request, served: Served | None) -> Response:
        """Describe all this to programs."""
        del request, served
        return Response(_interface(), media_type="application/json")

    async def problem(self, request: Request, served: Served | None) -> Response:
        """Explain a type of problem."""
        del served
        name = request.path_params["problem"]
        if name not in PROBLEMS:
            raise Problem("not-found")
        return _json(described(name))


@dataclass(frozen=True)
class Route:
    """One address: who may use it, and what answers."""

    method: str
    path: str
    handler: Handler
    policy: str
    answer: Any
    """The type of its JSON, or a media type."""
    summary: str


_ONE = "/v1/campaigns/{campaign}"
ROUTES = (
    Route(
        "GET",
        "/v1/campaigns",
        Collector.campaigns,
        PUBLIC,
        Listing,
        "The campaigns that are collected",
    ),
    Route("GET", _ONE, Collector.document, PUBLIC, Document, "What a device needs, laws included"),
    Route("POST", f"{_ONE}/reports", Collector.upload, DEVICE, Receipt, "Send reports"),
    Route(
        "GET",
        f"{_ONE}/estimates",
        Collector.estimates,
        ANALYST,
        Estimates,
        "Estimates with intervals",
    ),
    Route("GET", f"{_ONE}/status", Collector.status, ANALYST, Status, "What has arrived"),
    Route(
        "GET",
        f"{_ONE}/tally",
        Collector.tally,
        ADMIN,
        OCTETS,
        "All tallies, to be merged elsewhere",
    ),
    Route(
        "POST",
        f"{_ONE}/tally",
        Collector.merge,
        ADMIN,
        Merging,
        "Merge another collector's tallies",
    ),
    Route("GET", "/health", Collector.health, PUBLIC, Alive, "Whether the process is alive"),
    Route("GET", "/ready", Collector.ready, PUBLIC, Ready, "Whether it can take reports"),
    Route("GET", "/metrics", Collector.metrics, ANALYST, TEXT, "Prometheus metrics"),
    Route(
        "GET",
        "/v1/openapi.json",
        Collector.openapi,
        PUBLIC,
        dict[str, Any],
        "This interface, for programs",
    ),
    Route(
        "GET",
        "/problems/{problem}",
        Collector.problem,
        PUBLIC,
        Described,
        "What a type of problem means",
    ),
)


def create_app(collector: Collector) -> ASGIApp:
    """Return the ASGI application."""
    upload = next(route for route in ROUTES if route.handler is Collector.upload)
    return _short_way(routed(collector), _endpoint(collector, upload))


def routed(collector: Collector) -> Starlette:
    """Return all routes of the table, and no other."""
    paths: dict[str, dict[str, Endpoint]] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method] = _endpoint(collector, route)
    app = Starlette(
        routes=[
            StarletteRoute(path, _by_method(found), methods=list(found))
            for path, found in paths.items()
        ],
        lifespan=collector.running,
        exception_handlers={HTTPException: _http_problem, Exception: _internal},
    )
    app.router.redirect_slashes = False  # an address is what it is, and a redirect repeats it
    return app


def _by_method(found: dict[str, Endpoint]) -> Endpoint:
    async def answer(request: Request) -> Response:
        return await found["GET" if request.method == "HEAD" else request.method](request)

    return answer


def _short_way(app: ASGIApp, uploads: Endpoint) -> ASGIApp:
    """Take uploads past Starlette's router: nearly all requests are uploads, and many are small."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        found = _UPLOAD.fullmatch(scope["path"]) if scope["type"] == "http" else None
        if found is None or scope["method"] != "POST":
            await app(scope, receive, send)
            return
        scope["path_params"] = {"campaign": found[1]}
        response = await uploads(Request(scope, receive, send))
        await response(scope, receive, send)

    return answer


def _endpoint(collector: Collector, route: Route) -> Endpoint:
    """Wrap a handler: campaign, policy, one shape for problems, and a count of answers."""

    async def answer(request: Request) -> Response:
        collector.open_requests += 1
        try:
            crowded = collector.open_requests > collector.limits.requests
            if crowded and route.handler is not Collector.health:  # too many is not dead
                raise Problem("too-many-requests")
            served = _served(collector, request)
            await collector.gate.check(route.policy, request.headers.get("authorization"), served)
            response = await route.handler(collector, request, served)
        except Problem as problem:
            response = problem.response()
        except StoreFullError:
            response = Problem("store-full").response()
        except StoreError:
            response = Problem("store-unavailable").response()
        except Exception as failure:
            _note(route, failure)
            response = Problem("internal").response()
        finally:
            collector.open_requests -= 1
        collector.answers[route.path, response.status_code] += 1
        return response

    return answer


def _note(route: Route, failure: BaseException) -> None:
    """Log what failed and where in our code: no message, as it might repeat what was sent."""
    trace = failure.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = "" if trace is None else f"{trace.tb_frame.f_code.co_qualname}:{trace.tb_lineno}"
    log.error("%s %s failed: %s in %s", route.method, route.path, type(failure).__name__, where)


def _served(collector: Collector, request: Request) -> Served | None:
    name = request.path_params.get("campaign")
    if name is None:
        return None
    served = collector.served.get(name)
    if served is None:
        raise Problem("unknown-campaign")
    return served


async def _http_problem(request: Request, failure: Exception) -> Response:
    status = failure.status_code if isinstance(failure, HTTPException) else 500
    names = {404: "not-found", 405: "method-not-allowed"}
    response = Problem(names.get(status, "internal")).response()
    if isinstance(failure, HTTPException) and failure.headers:
        response.headers.update(failure.headers)
    del request
    return response


async def _internal(request: Request, failure: Exception) -> Response:
    del request, failure  # which uvicorn logs
    return Problem("internal").response()


# --- small things --------------------------------------------------------------------------------


def _known(served: Served | None) -> Served:
    if served is None:
        raise Problem("unknown-campaign")
    return served


@cache
def _interface() -> bytes:
    return msgspec.json.encode(openapi.described(ROUTES))


def _json(data: Any) -> Response:
    return Response(msgspec.json.encode(data), media_type="application/json")


_FAILURES = [Failure(0, "", "")] + [
    Failure(0, type_of(reason), title) for reason, title in REASONS.items()
]


def _receipt(batch: Batch) -> bytes:
    """Return the answer to an upload: failures in the order of the request."""
    failed = np.flatnonzero(batch.problems).tolist()
    failures = [
        Failure(place, _FAILURES[code].type, _FAILURES[code].title)
        for place, code in zip(failed, batch.problems[failed].tolist(), strict=True)
    ]
    received = len(batch)
    return msgspec.json.encode(Receipt(received, received - len(failures), failures))


def _form(request: Request) -> str:
    """Return the form that is asked for: by `format`, else by the Accept header."""
    asked = request.query_params.get("format")
    if asked is not None:
        if asked not in figures.FORMATS:
            raise Problem("bad-parameter", f"format is {', '.join(figures.FORMATS)}")
        return asked
    form = preferred(request.headers.get("accept", "*/*"))
    if form is None:
        raise Problem("not-acceptable")
    return form


def _level(request: Request) -> float:
    try:
        level = float(request.query_params.get("level", "0.95"))
    except ValueError:
        level = -1.0
    if not 0 < level <= figures.MOST_LEVEL:
        raise Problem("bad-parameter", f"level is above 0 and up to {figures.MOST_LEVEL}")
    return level


def _about(request: Request) -> str:
    about = request.query_params.get("about", "participants")
    if about not in figures.ABOUT:
        raise Problem("bad-parameter", f"about is {' or '.join(figures.ABOUT)}")
    return about


def _sources(data: bytes, served: Served) -> Sources:
    """Read tallies; what is wrong with them is not said in the words of whoever made them."""
    try:
        return Sources.from_bytes(data, served.campaign)
    except MismatchError:
        raise Problem("mismatched-tally", "it is of another campaign, or version") from None
    except FormatError:
        raise Problem("unreadable-body", "it is damaged, or no tally at all") from None


def _estimates(
    served: Served, tallies: Sequence[Tally], about: str, level: float, form: str
) -> bytes:
    try:
        return figures.rendered(collect.estimates(served, tallies, about, level), form)
    except CohortError:
        least = served.campaign.terms.cohort
        raise Problem("cohort-too-small", f"at least {least:,} people are needed") from None
    except ParameterError:
        raise Problem("not-acceptable", "Parquet is not installed here") from None
