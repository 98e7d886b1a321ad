"""The pages: a shell of HTML for each, and the files that shells load. No page is made here.

They are built from `web/pages` (`make web`) and travel in the package. What a page may do is said
to the browser by headers: only files of this server, nothing inline, in nobody's frame.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib.resources import files
from importlib.resources.abc import Traversable

from starlette.requests import Request
from starlette.responses import Response

from murmuration.server.encoded import Encoded

MEDIA = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
}
POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self' data:",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "form-action 'self'",
    ]
)
GUARDED = {
    "content-security-policy": POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
OPEN = "no-cache"
"""Kept, and asked for again each time."""
PRIVATE = {"cache-control": "no-store"}
"""For everything behind sign-in."""
SIGN_IN = "sign-in.html"


def page_files(folder: Traversable | None = None) -> dict[str, Encoded]:
    """Return what is served, by file name."""
    folder_of_files = files("murmuration.server") / "static" / "pages" if folder is None else folder
    if not folder_of_files.is_dir():
        return {}
    return {
        file.name: replace(
            Encoded.of(file.read_bytes(), MEDIA[_ending(file.name)]),
            headers={**GUARDED, "cache-control": OPEN},
        )
        for file in sorted(folder_of_files.iterdir(), key=lambda file: file.name)
        if file.is_file() and _ending(file.name) in MEDIA
    }


def shell(
    request: Request, pages: Mapping[str, Encoded], name: str, status: int = 200
) -> Response | None:
    """Return a page's HTML; one that was refused, or is private, is kept nowhere."""
    page = pages.get(name)
    if page is None:
        return None
    if status == 200:
        return page.answer(request)
    response = Response(page.forms["identity"], status, media_type=page.media)
    response.headers.update({**GUARDED, **PRIVATE})
    return response


def _ending(name: str) -> str:
    return name[name.rfind(".") :]
