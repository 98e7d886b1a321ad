"""Pages of other sites: which may take part, and what a browser is told so that they can.

A browser lets a page read an answer of another site, and send it JSON, only if that site says so
(CORS). A campaign names these pages' origins. They may have its document and send it reports, and
nothing else; a page of this server needs no permission. No cookie counts here, and none is asked
for: what a page of another site sends is what anybody could send.
"""

from __future__ import annotations

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import Response

from murmuration.campaign.kind import Campaign
from murmuration.collector.served import Served
from murmuration.server.problems import Problem

SECONDS = 7200
"""How long a browser may remember that a page may send: the most that any of them does."""
SENT = "authorization, content-encoding, content-type, if-none-match"
READ = "etag, retry-after"
"""Headers that a page may send and read, beside those that every page may."""


def allowed(request: Request, served: Served[Campaign] | None) -> str | None:
    """Return the origin of the page that asks, if the campaign names it."""
    origin = request.headers.get("origin")
    named = () if served is None else served.campaign.terms.origins
    return origin if origin in named else None


def permitted(response: Response, request: Request, served: Served[Campaign] | None) -> Response:
    """Let a page that may take part read an answer; caches must not mix up pages."""
    vary(response.headers)
    if (origin := allowed(request, served)) is not None:
        response.headers["access-control-allow-origin"] = origin
        response.headers["access-control-expose-headers"] = READ
    return response


def preflight(request: Request, served: Served[Campaign], method: str) -> Response:
    """Answer a browser that asks, before a page's request, whether it may be sent."""
    origin = allowed(request, served)
    if origin is None and "origin" in request.headers:
        raise Problem("origin-not-named")
    response = Response(status_code=204, headers={"allow": f"{method}, OPTIONS"})
    if origin is not None:
        response.headers["access-control-allow-methods"] = method
        response.headers["access-control-allow-headers"] = SENT
        response.headers["access-control-max-age"] = str(SECONDS)
    return response


def vary(headers: MutableHeaders) -> None:
    """Say that an answer depends on the page that asks."""
    varies = headers.get("vary")
    headers["vary"] = f"{varies}, origin" if varies else "origin"
