"""Answers that stay the same: compressed once, kept in every encoding, with a tag for each.

A document of half a megabyte is some ten kilobytes on the wire. Nothing is compressed for a
request: a client that asks often costs no more than one that asks once.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from murmuration.server.accept import encoding
from murmuration.server.body import GZIP

try:
    import brotli
except ImportError:  # an extra: gzip is always there
    brotli = None

PLAIN = "identity"
BROTLI_QUALITY = 9
"""The best takes ten times as long and saves a tenth."""


def compressed(data: bytes) -> dict[str, bytes]:
    """Return data in every encoding that makes it smaller, the one that clients should take first.

    >>> list(compressed(bytes(1000)))[-1], list(compressed(b""))
    ('identity', ['identity'])
    """
    forms = {} if brotli is None else {"br": brotli.compress(data, quality=BROTLI_QUALITY)}
    engine = zlib.compressobj(9, wbits=GZIP)
    forms["gzip"] = engine.compress(data) + engine.flush()
    smaller = {name: form for name, form in forms.items() if len(form) < len(data)}
    return {**smaller, PLAIN: data}


@dataclass(frozen=True)
class Encoded:
    """An answer in its forms.

    tag: what names its content; each form has a tag of its own
    """

    tag: str
    media: str
    forms: Mapping[str, bytes]
    headers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, data: bytes, media: str, tag: str = "", **headers: Any) -> Encoded:
        """Compress an answer; its tag is its digest unless told otherwise."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return cls(tag or hashlib.sha256(data).hexdigest()[:32], media, compressed(data), named)

    def answer(self, request: Request) -> Response:
        """Answer in the form that the client likes best; without a body if it has that form."""
        form = encoding(request.headers.get("accept-encoding", ""), self.forms)
        suffix = "" if form == PLAIN else f"-{form}"
        headers = {**self.headers, "etag": f'"{self.tag}{suffix}"', "vary": "accept-encoding"}
        if headers["etag"] in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        if form != PLAIN:
            headers["content-encoding"] = form
        return Response(self.forms[form], headers=headers, media_type=self.media)
