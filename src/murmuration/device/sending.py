"""How bytes get to a collector: one address, one connection, one rule for trying again.

    429, 503           the collector is busy: wait (its Retry-After, and jitter), same bytes again
    200                what became of each report
    a problem of ours  about these bytes (`wire.report`: FINAL), in the form in which
                       collectors answer: they are refused, and would be every time
    anything else      no answer about them (a token, an address, a proxy's page, a fault, no
                       network): `SendError`; they stay as they are, to be sent again

No error repeats a body, a token or a collector's own words; see `wire.http` for the client.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from murmuration.errors import SendError
from murmuration.wire.http import Answer, Connection, Problem
from murmuration.wire.report import BUSY, EARLY, FINAL, PROBLEM, PROBLEM_TYPE

STORED, DUPLICATE, REFUSED = "stored", "duplicate", "refused:"


class Link(Connection):
    """A connection to one campaign of a collector."""

    def get(self, most: int, below: str = "") -> Answer:
        """Fetch the campaign's document, up to so many bytes; it is public: no token goes along.

        `below` is the rest of the path to another document of the campaign.
        """
        return self.request("GET", self.address.path + below, most=most)

    def post(self, body: bytes, kind: str, token: str | None = None) -> Answer:
        """Send reports, once; with this token, or with the one that the link has."""
        path, headers = f"{self.address.path}/reports", {"Content-Type": kind}
        return self.request("POST", path, body, headers, token=token or self._token)


def _jitter(most: float) -> float:
    return random.SystemRandom().uniform(0, most)


@dataclass(frozen=True)
class Patience:
    """How often, and after how long, to try again when a collector is busy.

    Waits double, and each is drawn anew between 0 and that (full jitter), so that devices which
    were turned away together do not come back together. What the collector asks for comes first.
    """

    attempts: int = 6
    first: float = 0.5
    most: float = 60.0
    whole: float = 120.0
    """Seconds for everything: all attempts, all waits, whatever a collector asks for or drips."""
    sleep: Callable[[float], None] = time.sleep
    jitter: Callable[[float], float] = _jitter

    def wait(self, attempt: int, asked: float | None, left: float) -> bool:
        """Wait before the next attempt; False, and no wait, if there is none to be made now."""
        if attempt + 1 >= self.attempts or (asked or 0.0) > self.most:
            return False
        seconds = (asked or 0.0) + self.jitter(min(self.most, self.first * 2**attempt))
        if seconds >= left:
            return False
        self.sleep(seconds)
        return True


def deliver(
    link: Link, body: bytes, kind: str, patience: Patience, token: str | None = None
) -> Answer:
    """Send bytes, the same ones again while the collector is busy; all of it within one time."""
    attempt, link.ends = 0, time.monotonic() + patience.whole
    while True:
        answer = link.post(body, kind, token)
        if answer.status not in BUSY:
            return answer
        if not patience.wait(attempt, answer.retry_after, link.ends - time.monotonic()):
            raise SendError(f"{link.address} is busy (after {attempt + 1} attempts)")
        attempt += 1


class _Failure(msgspec.Struct):
    index: int
    type: str


class _Receipt(msgspec.Struct):
    received: int
    stored: int
    failures: list[_Failure]


def outcomes(answer: Answer, count: int) -> Counter[str]:
    """Return what became of so many reports: stored, duplicate, refused:<reason>."""
    if (refusal := final(answer)) is not None:
        return Counter({REFUSED + refusal: count})
    if answer.status != 200:
        raise SendError(f"the collector did not take it: {answer.reason}")
    try:
        receipt = msgspec.json.decode(answer.data, type=_Receipt)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        raise SendError("the answer cannot be read: this is not a collector") from None
    failed = len({failure.index for failure in receipt.failures})
    balanced = len(receipt.failures) == failed and receipt.stored + failed == count
    if receipt.received != count or not balanced or receipt.stored < 0:
        raise SendError("the answer is about other reports: this is not a collector")
    names = [Problem(failure.type).name or "unnamed" for failure in receipt.failures]
    if names == [EARLY] and count == 1:
        raise SendError("its period has not begun at the collector: try again when it has")
    found = Counter(name if name == DUPLICATE else REFUSED + name for name in names)
    if receipt.stored:
        found[STORED] = receipt.stored
    return found


def final(answer: Answer) -> str | None:
    """Return why a collector refuses these bytes for good; None if nobody has said so.

    A proxy's 400, 413 or 422 is none: it may be gone tomorrow, and a report is made once. Only a
    problem document as collectors write it counts, about a reason that is in the list.
    """
    problem = answer.problem
    if answer.kind != PROBLEM or problem is None or not problem.title:
        return None
    name = problem.type.removeprefix(PROBLEM_TYPE)
    ours = (
        PROBLEM_TYPE + name == problem.type and FINAL.get(name) == problem.status == answer.status
    )
    return name if ours else None
