"""The collector's HTTP interface. `ROUTES` is all of it: address, policy, and what it does."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as StarletteRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from murmuration.analysis.figures import Estimates, Trend
from murmuration.campaign.kind import Campaign
from murmuration.collector.access.tokens import ADMIN, ANALYST, DEVICE, MERGE
from murmuration.collector.served import Served
from murmuration.collector.status import Status
from murmuration.collector.store import StoreError, StoreFullError
from murmuration.collector.training.model import TrainedModel
from murmuration.definition.document import Document
from murmuration.server import handlers
from murmuration.server.access import BY_BROWSER, PUBLIC, READER
from murmuration.server.app import Collector
from murmuration.server.chunks import Pieces, in_pieces
from murmuration.server.cors import permitted
from murmuration.server.fair_use import Part
from murmuration.server.handlers import HTML, OCTETS, SCRIPT, TEXT, Call, shown, who
from murmuration.server.live import Live, SessionState
from murmuration.server.openapi import described
from murmuration.server.page_files import PRIVATE, SIGN_IN, shell
from murmuration.server.planner import Planning
from murmuration.server.problems import Problem
from murmuration.server.responses import Alive, Described, Listing, Merging, Ready, Receipt
from murmuration.server.streams import Events
from murmuration.training.round import RoundDocument

log = logging.getLogger("murmuration.server")

Handler = Callable[[Call], Awaitable[Response]]
Responder = Callable[[Request], Awaitable[Response]]
"""A handler with all that goes around it."""
_UPLOAD = re.compile(r"/v1/campaigns/([^/]+)/reports")


@dataclass(frozen=True)
class Route:
    """One address: who may use it, and what answers."""

    method: str
    path: str
    handler: Handler
    policy: str
    answer: Any
    """The type of its JSON, a media type, or None where there is no body."""
    summary: str
    pages: bool = False
    """Whether pages of other sites may use it, if the campaign names them."""
    page: str = ""
    """The page of ours that is here: it is shown with problems, too, and says what they are."""


async def openapi(call: Call) -> Response:
    """Describe all this to programs."""
    del call  # it needs the table, so it is not among the handlers
    return Response(_interface(), media_type="application/json")


@cache
def _interface() -> bytes:
    return msgspec.json.encode(described(ROUTES))


_ONE = "/v1/campaigns/{campaign}"
ROUTES = (
    Route(
        "GET",
        "/v1/campaigns",
        handlers.campaigns,
        PUBLIC,
        Listing,
        "The campaigns that are collected",
    ),
    Route(
        "GET",
        _ONE,
        handlers.document,
        PUBLIC,
        Document,
        "What a device needs, laws included",
        pages=True,
    ),
    Route("POST", f"{_ONE}/reports", handlers.upload, DEVICE, Receipt, "Send reports", pages=True),
    Route(
        "GET",
        f"{_ONE}/round",
        handlers.open_round,
        PUBLIC,
        RoundDocument,
        "Of a training: the round that takes reports now",
        pages=True,
    ),
    Route(
        "GET",
        f"{_ONE}/rounds/{{number}}",
        handlers.earlier_round,
        PUBLIC,
        RoundDocument,
        "Of a training: any round, as it was published",
        pages=True,
    ),
    Route(
        "OPTIONS",
        f"{_ONE}/round",
        handlers.ask_round,
        PUBLIC,
        None,
        "Whether a page may have the round",
        pages=True,
    ),
    Route(
        "GET",
        f"{_ONE}/model",
        handlers.model,
        ANALYST,
        TrainedModel,
        "Of a training: what it has ended with",
    ),
    Route(
        "OPTIONS",
        _ONE,
        handlers.ask_document,
        PUBLIC,
        None,
        "Whether a page may have the document",
        pages=True,
    ),
    Route(
        "OPTIONS",
        f"{_ONE}/reports",
        handlers.ask_upload,
        PUBLIC,
        None,
        "Whether a page may send reports",
        pages=True,
    ),
    Route(
        "GET",
        "/client/{file}",
        handlers.client,
        PUBLIC,
        SCRIPT,
        "The client for browsers",
    ),
    Route(
        "GET",
        f"{_ONE}/estimates",
        handlers.estimates,
        ANALYST,
        Estimates,
        "Estimates with intervals",
    ),
    Route(
        "GET",
        f"{_ONE}/trend",
        handlers.trend,
        ANALYST,
        Trend,
        "Figures by period, and whether anything has changed",
    ),
    Route("GET", f"{_ONE}/status", handlers.status, ANALYST, Status, "What has arrived"),
    Route(
        "GET",
        f"{_ONE}/live",
        handlers.live,
        ANALYST,
        Live,
        "The state now, and again whenever it has changed",
    ),
    Route("POST", "/v1/plan", handlers.plan, READER, Planning, "What a collection would give"),
    Route("GET", "/v1/session", handlers.session, READER, SessionState, "Who is signed in"),
    Route("GET", "/", handlers.dashboard, READER, HTML, "The dashboard", page="dashboard.html"),
    Route("GET", "/plan", handlers.planner, READER, HTML, "The planner", page="plan.html"),
    Route(
        "GET",
        "/c/{campaign}",
        handlers.participant,
        PUBLIC,
        HTML,
        "Take part in a campaign",
        page="participant.html",
    ),
    Route(
        "GET",
        "/c/{campaign}/proof",
        handlers.proof,
        PUBLIC,
        HTML,
        "The audit of a campaign's laws",
        page="proof.html",
    ),
    Route("GET", "/pages/{file}", handlers.page_file, PUBLIC, SCRIPT, "The files of pages"),
    Route("GET", "/sign-in", handlers.sign_in, PUBLIC, HTML, "Sign in by a code", page=SIGN_IN),
    Route("POST", "/sign-out", handlers.sign_out, PUBLIC, None, "Sign out"),
    Route(
        "GET",
        f"{_ONE}/tally",
        handlers.tally,
        ADMIN,
        OCTETS,
        "All tallies, to be merged elsewhere",
    ),
    Route(
        "POST",
        f"{_ONE}/tally",
        handlers.merge,
        MERGE,
        Merging,
        "Merge another collector's tallies",
    ),
    Route("GET", "/health", handlers.health, PUBLIC, Alive, "Whether the process is alive"),
    Route("GET", "/ready", handlers.ready, PUBLIC, Ready, "Whether it can take reports"),
    Route("GET", "/metrics", handlers.metrics, ANALYST, TEXT, "Prometheus metrics"),
    Route(
        "GET",
        "/v1/openapi.json",
        openapi,
        PUBLIC,
        dict[str, Any],
        "This interface, for programs",
    ),
    Route(
        "GET",
        "/problems/{problem}",
        handlers.problem,
        PUBLIC,
        Described,
        "What a type of problem means",
    ),
)


UNLIMITED = (handlers.health, handlers.upload)
"""What takes no place among the requests: too many is not dead, and uploads have a queue."""


def create_app(collector: Collector) -> ASGIApp:
    """Return the ASGI application."""
    upload = next(route for route in ROUTES if route.handler is handlers.upload)
    return _short_way(routed(collector), _responder(collector, upload))


def routed(collector: Collector) -> Starlette:
    """Return all routes of the table, and no other."""
    paths: dict[str, dict[str, Responder]] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method] = _responder(collector, route)
    app = Starlette(
        routes=[
            StarletteRoute(path, _by_method(responders), methods=list(responders))
            for path, responders in paths.items()
        ],
        lifespan=collector.running,
        exception_handlers={HTTPException: _http_problem, Exception: _internal},
    )
    app.router.redirect_slashes = False  # an address is what it is, and a redirect repeats it
    return app


def _by_method(responders: dict[str, Responder]) -> Responder:
    async def answer(request: Request) -> Response:
        return await responders["GET" if request.method == "HEAD" else request.method](request)

    return answer


def _short_way(app: ASGIApp, uploads: Responder) -> ASGIApp:
    """Take uploads past Starlette's router: nearly all requests are uploads, and many are small."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        match = _UPLOAD.fullmatch(scope["path"]) if scope["type"] == "http" else None
        if match is None or scope["method"] != "POST":
            await app(scope, receive, send)
            return
        scope["path_params"] = {"campaign": match[1]}
        response = await uploads(Request(scope, receive, send))
        await response(scope, receive, send)

    return answer


def _responder(collector: Collector, route: Route) -> Responder:
    """Wrap a handler: campaign, policy, one shape for problems, and a count of answers."""

    async def answer(request: Request) -> Response:
        collector.open_requests += 1
        turn = Part(collector.turns, who(request))
        try:
            if route.handler not in UNLIMITED:
                turn.take()
            served = _served(collector, request)
            token = await collector.gate.check(route.policy, *shown(collector, request, served))
            response = await route.handler(Call(collector, request, served, token))
            if not isinstance(response, Pieces | Events):
                response = in_pieces(response, collector.room.part(who(request)))
        except Problem as problem:
            response = _refused(collector, request, route, problem)
        except StoreFullError:
            response = Problem("store-full").response()
        except StoreError:
            response = Problem("store-unavailable").response()
        except Exception as failure:
            _note(route, failure)
            response = Problem("internal").response()
        finally:
            turn.give_back()
            collector.open_requests -= 1
        if route.policy in BY_BROWSER:
            response.headers.update(PRIVATE)
        if route.pages:
            served = collector.served.get(request.path_params.get("campaign", ""))
            permitted(response, request, served)
        collector.answers[route.path, response.status_code] += 1
        return response

    return answer


def _refused(collector: Collector, request: Request, route: Route, problem: Problem) -> Response:
    """Answer a problem: in a page if a person asked for one, who may have to sign in first."""
    refusal = problem.response()
    if not route.page or "text/html" not in request.headers.get("accept", ""):
        return refusal
    unknown = problem.name in ("unauthorized", "forbidden")
    name = SIGN_IN if unknown else route.page
    return shell(request, collector.pages, name, refusal.status_code) or refusal


def _note(route: Route, failure: BaseException) -> None:
    """Log what failed and where in our code: no message, as it might repeat what was sent."""
    trace = failure.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = "" if trace is None else f"{trace.tb_frame.f_code.co_qualname}:{trace.tb_lineno}"
    log.error("%s %s failed: %s in %s", route.method, route.path, type(failure).__name__, where)


def _served(collector: Collector, request: Request) -> Served[Campaign] | None:
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
