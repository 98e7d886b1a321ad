"""One shape for everything that goes wrong: RFC 9457, with a type that a program can read.

`PROBLEMS` is the whole list; a problem that is not in it cannot be answered. Details never repeat
what was sent.
"""

from __future__ import annotations

from secrets import randbelow

import msgspec
from starlette.responses import Response

from murmuration.server.responses import Described
from murmuration.wire.report import PROBLEM, PROBLEM_TYPE, REASONS, WHOLE

PROBLEMS: dict[str, tuple[int, str]] = {
    **{reason: (422, title) for reason, title in REASONS.items()},
    "bad-request": (400, "This is not HTTP as it is spoken here."),
    "head-too-large": (431, "The head of the request is larger than is accepted."),
    "unreadable-body": (
        WHOLE["unreadable-body"],
        "The body cannot be read as reports, or as a tally.",
    ),
    "unsupported-type": (
        WHOLE["unsupported-type"],
        "This media type or encoding is not read here.",
    ),
    "too-large": (WHOLE["too-large"], "The body, decompressed, is larger than is accepted."),
    "too-slow": (408, "The body did not arrive in time."),
    "unauthorized": (401, "A valid token is needed: Authorization: Bearer ..., or sign in."),
    "forbidden": (403, "This token does not allow that."),
    "bad-plan": (422, "This cannot be planned."),
    "other-page": (403, "Only pages of this collector itself may do that."),
    "bad-code": (403, "This sign-in link was used, is too old, or was never given out."),
    "origin-not-named": (403, "This campaign's origins do not name the site of this page."),
    "unknown-campaign": (404, "There is no campaign of that name here."),
    "not-found": (404, "There is nothing here."),
    "method-not-allowed": (405, "This method is not for this address."),
    "not-acceptable": (406, "Estimates come as JSON, CSV or Parquet."),
    "bad-parameter": (422, "A parameter of the address is not one that is understood."),
    "no-round": (404, "No round of this training takes reports now: come back later."),
    "no-model": (404, "There is no model yet: training goes on."),
    "no-training": (409, "This campaign trains no model."),
    "is-training": (409, "This campaign trains a model: it has rounds and a model, nothing else."),
    "cohort-too-small": (409, "Too few people have answered for anything to be shown."),
    "mismatched-tally": (409, "This tally does not fit to what is counted here."),
    "too-many-requests": (429, "More requests are open than can be served. Try again."),
    "overloaded": (503, "More is sent than can be taken now. Try again."),
    "store-unavailable": (503, "The store cannot be reached. Try again."),
    "store-full": (507, "The disk is full. It goes on by itself when there is room."),
    "internal": (500, "Something went wrong here. It was noted without the request."),
}
RETRY_AFTER = {"too-many-requests": 3, "overloaded": 8, "store-unavailable": 4, "store-full": 20}
"""The most seconds that are named: each answer names any number from 1 to that, so that those who
were turned away together do not come back together."""


class Problem(Exception):  # noqa: N818 - the name that RFC 9457 gives it
    """Raised anywhere in a request; answered in the one shape."""

    def __init__(self, name: str, detail: str = "") -> None:
        super().__init__(name)
        self.name, self.detail = name, detail

    def response(self) -> Response:
        """Return the answer."""
        status, _ = PROBLEMS[self.name]
        headers = {}
        if self.name in RETRY_AFTER:
            headers["retry-after"] = str(1 + randbelow(RETRY_AFTER[self.name]))
        if status == 401:
            headers["www-authenticate"] = "Bearer"
        body = msgspec.json.encode(described(self.name, self.detail))
        return Response(body, status, headers, PROBLEM)


def type_of(name: str) -> str:
    """Return the type: an address under which this collector explains it."""
    return PROBLEM_TYPE + name


def described(name: str, detail: str = "") -> Described:
    """Return a problem as RFC 9457 has it."""
    status, title = PROBLEMS[name]
    return Described(type_of(name), title, status, detail)
