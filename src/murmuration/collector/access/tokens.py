"""Tokens: who may do what with a collector, until when. Only hashes are stored.

A token is 32 random bytes and is stored as its SHA-256 (a token is no password: it cannot be
guessed, so a slow hash would gain nothing). It ends by itself. Rotation: a new token of the same
name, while the old one goes on for a while.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from secrets import token_urlsafe

from murmuration.collector.store import Store, Token
from murmuration.counting.container import NAME
from murmuration.errors import ParameterError

DEVICE, ANALYST, ADMIN, MERGE = "device", "analyst", "admin", "merge"
RANKS = {DEVICE: 1, ANALYST: 2, ADMIN: 3}
"""A higher role may do what a lower one may; a merge token may merge, and nothing else."""
ROLES = (*RANKS, MERGE)
PREFIX = "murmur_"
DAY = 86_400


def new_token(
    store: Store,
    role: str,
    name: str = "",
    campaign: str = "",
    days: float = 90,
    sources: Sequence[str] = (),
) -> str:
    """Make a token, keep its hash, and return it: this is the only time it is seen.

    `sources`: the collectors whose tallies a merge token may bring.
    """
    if role not in ROLES:
        raise ParameterError(f"a role is {', '.join(ROLES)}, or participant; got {role!r}")
    if (role == MERGE) != bool(sources) or not all(map(NAME.fullmatch, sources)):
        raise ParameterError(
            "a merge token, and no other, names the collectors whose tallies it may bring: "
            "`murmur status` shows a collector's name, 16 digits and letters a to f"
        )
    if not 0 < days <= 3660:
        raise ParameterError(f"a token lasts up to ten years; got {days!r} days")
    text, now = PREFIX + token_urlsafe(32), int(time.time())
    expires = now + max(1, round(days * DAY))
    store.add_token(
        Token(hashed(text), name or role, role, campaign, now, expires, " ".join(sources))
    )
    return text


def hashed(token: str) -> bytes:
    """Return what is stored of a token."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
