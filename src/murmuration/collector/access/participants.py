"""Tokens for one device each, of which one report per period counts (`upload = "one-device"`).

A token is a batch's number, 16 random bytes, and a MAC of both under the batch's secret:

    murmur1_ + base64url(batch (8 bytes), nonce (16), HMAC-SHA-256(secret, batch nonce) (16 of 32))

So a million tokens need one row (the batch's, in `tokens`) and a request needs no look into the
store to see that one is genuine; the store has no list of people. A batch is for one campaign, and
ends as a whole, by its name.

What is kept of a token that was used is HMAC-SHA-256(secret of the period, batch nonce), in a
table of its own, in the order of these hashes, written by the transaction that counts the report.
When the period closes (a training has one, which ends with it), its hashes and its secret are
deleted: nothing tells any more whether a token was used in it, and no two periods have a hash in
common. A closed period stays closed, whatever the clock or the campaign file say later: its reports
could count twice.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from secrets import token_bytes

import numpy as np
from numpy.typing import NDArray

from murmuration.campaign.kind import Campaign
from murmuration.campaign.survey import utc_now
from murmuration.campaign.terms import ONE_DEVICE
from murmuration.collector.access.tokens import DAY
from murmuration.collector.store import Store, Token, rounds
from murmuration.errors import ParameterError
from murmuration.exact.arrays import Ints

PARTICIPANT = "participant"
"""The role of a batch."""
PREFIX = "murmur1_"
BATCH_BYTES, NONCE_BYTES, MAC_BYTES, SECRET_BYTES = 8, 16, 16, 32
OWN_BYTES = BATCH_BYTES + NONCE_BYTES
"""Of a token, what it is known by; the rest shows that it is genuine."""
TEXT = 4 * -(-(OWN_BYTES + MAC_BYTES) // 3)
"""Characters after the prefix, with what base64 fills up."""
MOST_TOKENS = 100_000_000
AT_ONCE = 1 << 14
ASKED_AT_ONCE = 500
CLOSED = b""
"""Where a period had its secret."""


# --- making --------------------------------------------------------------------------------------


def new_batch(store: Store, campaign: str, name: str = "", days: float = 90) -> Token:
    """Make a batch, whose tokens are good for this campaign, and keep its secret."""
    if campaign not in store.campaigns():
        raise ParameterError(
            f"participants' tokens are for one campaign (--campaign), and this store has "
            f"{', '.join(store.campaigns()) or 'none'}; got {campaign!r}"
        )
    if not 0 < days <= 3660:
        raise ParameterError(f"a token lasts up to ten years; got {days!r} days")
    now = int(time.time())
    number = token_bytes(BATCH_BYTES)
    batch = Token(
        *(row_of(number), name or PARTICIPANT, PARTICIPANT, campaign),
        *(now, now + max(1, round(days * DAY)), number.hex()),
        secret=token_bytes(SECRET_BYTES),
    )
    store.add_token(batch)
    return batch


def tokens_of(batch: Token, count: int) -> Iterator[str]:
    """Yield so many new tokens of a batch; nothing of them is kept."""
    if not 1 <= count <= MOST_TOKENS:
        raise ParameterError(f"1 to {MOST_TOKENS:,} tokens are made at once; got {count:,}")
    number = bytes.fromhex(batch.sources)
    for start in range(0, count, AT_ONCE):
        random = os.urandom(NONCE_BYTES * min(AT_ONCE, count - start))
        for place in range(0, len(random), NONCE_BYTES):
            own = number + random[place : place + NONCE_BYTES]
            data = own + _mac(batch.secret, own)
            yield PREFIX + base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def row_of(number: bytes) -> bytes:
    """Return under what the row of a batch is kept."""
    return hashlib.sha256(b"participants" + number).digest()


def _mac(secret: bytes, own: bytes) -> bytes:
    return hmac.digest(secret, own, "sha256")[:MAC_BYTES]


# --- reading -------------------------------------------------------------------------------------


def parsed(text: str) -> bytes | None:
    """Return the bytes of a participant's token; None for what is none.

    There is one text for each: a token that could be written in two ways would count twice.
    """
    body = text.removeprefix(PREFIX)
    if not text.startswith(PREFIX) or not body.isascii():
        return None
    try:
        data = base64.b64decode(body + "=" * (TEXT - len(body)), altchars=b"-_", validate=True)
    except ValueError:
        return None
    fits = len(data) == OWN_BYTES + MAC_BYTES
    return data if fits and base64.urlsafe_b64encode(data).rstrip(b"=") == body.encode() else None


def is_genuine(batch: Token, data: bytes) -> bool:
    """Whether a token was made by a batch."""
    own, mac = data[:OWN_BYTES], data[OWN_BYTES:]
    return batch.role == PARTICIPANT and hmac.compare_digest(_mac(batch.secret, own), mac)


# --- one report per period -----------------------------------------------------------------------


@dataclass(frozen=True)
class Uses:
    """Tokens of reports, in the order of their arrival, before any is noted as used.

    first: whose report is the first of its token in its period
    closed: whose period was closed before
    hashes: what is noted of each; nothing of those whose period was closed
    """

    key: int
    periods: Ints
    hashes: tuple[bytes, ...]
    first: NDArray[np.bool_]
    closed: NDArray[np.bool_]

    def note(self, store: Store, which: NDArray[np.bool_]) -> None:
        """Note that some were used, inside the transaction that counts their reports."""
        if not which.any():
            return
        places = np.flatnonzero(which).tolist()
        store.execute_many(
            "INSERT INTO used_tokens (key, period, hash) VALUES (?, ?, ?)",
            sorted((self.key, int(self.periods[place]), self.hashes[place]) for place in places),
        )
        store.scrub_log()  # a log tells which hash was written with which report


def uses(store: Store, key: int, owns: Sequence[bytes], periods: Ints) -> Uses:
    """Look up whether tokens were used, inside the transaction that counts their reports."""
    first, closed = np.zeros(len(owns), dtype=bool), np.zeros(len(owns), dtype=bool)
    hashes = [b""] * len(owns)
    for period in np.unique(periods).tolist():
        mine = np.flatnonzero(periods == period).tolist()
        secret = _secret(store, key, period)
        if secret == CLOSED:
            closed[mine] = True
            continue
        for place in mine:
            hashes[place] = hmac.digest(secret, owns[place], "sha256")
        known = _known(store, key, period, sorted({hashes[place] for place in mine}))
        for place in mine:
            first[place] = hashes[place] not in known
            known.add(hashes[place])
    return Uses(key, periods, tuple(hashes), first, closed)


def counts_once(
    store: Store, key: int, owns: Sequence[bytes], periods: Ints
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Note that tokens were used, inside the transaction that counts their reports.

    Of reports in the order of their arrival, say which are the first of their token in their
    period; and which come after their period was closed.
    """
    used = uses(store, key, owns, periods)
    used.note(store, used.first)
    return used.first, used.closed


def _secret(store: Store, key: int, period: int) -> bytes:
    """Return a period's secret, made when it is first asked for."""
    sql = "SELECT secret FROM period_secrets WHERE key = ? AND period = ?"
    rows = store.execute(sql, (key, period))
    if rows:
        return bytes(rows[0][0])
    secret = token_bytes(SECRET_BYTES)
    store.execute(
        "INSERT INTO period_secrets (key, period, secret) VALUES (?, ?, ?)", (key, period, secret)
    )
    return secret


def _known(store: Store, key: int, period: int, hashes: Sequence[bytes]) -> set[bytes]:
    """Return which of some hashes are there."""
    known: set[bytes] = set()
    for start in range(0, len(hashes), ASKED_AT_ONCE):
        some = hashes[start : start + ASKED_AT_ONCE]
        marks = ", ".join("?" * len(some))
        sql = f"SELECT hash FROM used_tokens WHERE key = ? AND period = ? AND hash IN ({marks})"  # noqa: S608
        known |= {bytes(row[0]) for row in store.execute(sql, (key, period, *some))}
    return known


# --- closing -------------------------------------------------------------------------------------


def has_closed(store: Store, campaign: Campaign) -> bool:
    """Whether hashes are kept of a period that is over."""
    return any(_over(store, campaign))


def close_periods(store: Store, campaign: Campaign) -> int:
    """Delete hashes and secrets of all periods that are over, for good; return of how many."""
    with store.transaction():
        over = list(_over(store, campaign))
        with store.overwriting():
            for key, period in over:
                where = (key, period)
                store.execute("DELETE FROM used_tokens WHERE key = ? AND period = ?", where)
                sql = "UPDATE period_secrets SET secret = ? WHERE key = ? AND period = ?"
                store.execute(sql, (CLOSED, *where))
        if over:
            store.scrub_log()
    if over:
        store.vacuum("used_tokens", "period_secrets")
    return len(over)


def _over(store: Store, campaign: Campaign) -> Iterator[tuple[int, int]]:
    """Yield key and period of what has a secret and is over, in any version of a campaign."""
    if campaign.terms.upload != ONE_DEVICE:
        return
    keys = [store.key_of(digest) for digest in sorted(store.digests(campaign.name))]
    now = utc_now()
    late = campaign.terms.closes is not None and campaign.terms.closes <= now
    first = campaign.open_periods(now).start
    for key in (key for key in keys if key is not None):
        ended = late or rounds.finished(store, key) is not None  # a training is one period
        sql = "SELECT period, secret FROM period_secrets WHERE key = ? ORDER BY period"
        for period, secret in store.execute(sql, (key,)):
            if bytes(secret) != CLOSED and (ended or int(period) < first):
                yield key, int(period)
