"""Signing in by a browser: which cookie, and which requests it counts for.

The cookie is for this server's own pages only: scripts cannot read it, other sites' pages cannot
send it (SameSite=Strict), and beyond this machine it travels by TLS only. A request that a page of
another site made counts as one without a cookie, whatever the cookie says: browsers tell where a
request comes from (Sec-Fetch-Site; older ones by Origin). So there are no tokens in forms.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from murmuration.collector.access.sessions import SESSION_SECONDS
from murmuration.wire.address import is_loopback

PREFIX = re.compile(r"(/[A-Za-z0-9._~-]+)*")
"""The path under which a proxy has this server."""
OWN = ("same-origin", "none")
"""Where a request may come from: our pages, or a person who typed or opened the address."""
SAFE = ("GET", "HEAD")


@dataclass(frozen=True)
class Front:
    """What is in front of this server."""

    prefix: str = ""
    tls: bool = False
    forwarded: bool = False
    """Whether only a proxy gets here, whose X-Forwarded headers can be believed."""

    def path(self, request: Request) -> str:
        """Return the path of all pages, as the browser sees it."""
        told = request.headers.get("x-forwarded-prefix", "") if self.forwarded else ""
        path = self.prefix or told.rstrip("/")
        return f"{path}/" if PREFIX.fullmatch(path) else "/"

    def secure(self, request: Request) -> bool:
        """Whether the cookie must travel by TLS only: beyond this machine, always.

        A proxy may hide that it is beyond: by a name of its own for this server, and TLS.
        """
        if self.tls or (self.forwarded and request.headers.get("x-forwarded-proto") == "https"):
            return True
        names = self.hosts(request)
        return not names or not all(is_loopback(_host(name)) for name in names)

    def hosts(self, request: Request) -> set[str]:
        """Return what the server is called, by the browser and by a proxy that is trusted."""
        names = {request.headers.get("host", "")}
        if self.forwarded:
            names.add(request.headers.get("x-forwarded-host", ""))
        return names - {""}


def cookie_name(collector: str) -> str:
    """Return the cookie's name: collectors on one host do not get into each other's way."""
    return f"murmur-{collector[:8]}"


def session_of(request: Request, name: str, front: Front) -> str | None:
    """Return the session that a request shows, if it comes from a page of our own."""
    session = request.cookies.get(name)
    return session if session and is_own(request, front) else None


def is_own(request: Request, front: Front) -> bool:
    """Whether a request comes from our own pages, or from the person directly."""
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site in OWN
    origin = request.headers.get("origin")
    if origin is None:
        return request.method in SAFE
    return urlsplit(origin).netloc in front.hosts(request)


def keep(response: Response, request: Request, name: str, front: Front, session: str) -> None:
    """Give the browser its session."""
    _set(response, request, name, front, session, SESSION_SECONDS)


def drop(response: Response, request: Request, name: str, front: Front) -> None:
    """Take it away."""
    _set(response, request, name, front, "", 0)


def _set(
    response: Response, request: Request, name: str, front: Front, value: str, seconds: int
) -> None:
    response.set_cookie(
        name,
        value,
        max_age=seconds,
        path=front.path(request),
        secure=front.secure(request),
        httponly=True,
        samesite="strict",
    )


def _host(header: str) -> str:
    """Return the host without its port.

    >>> _host("[::1]:8750"), _host("localhost:8750")
    ('::1', 'localhost')
    """
    return urlsplit(f"//{header}").hostname or "" if "@" not in header else ""
