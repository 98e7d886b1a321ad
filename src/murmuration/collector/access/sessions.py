"""Sign-in for browsers: a code that works once becomes a session. Only hashes are stored.

Behind a session there is a token: the session may do what the token may, and ends with it. A code
travels in an address, which ends up in a browser's history; so it works once, and not for long.
Several workers share what the store has.
"""

from __future__ import annotations

import time
from secrets import token_urlsafe

from murmuration.collector.access.tokens import ANALYST, hashed, new_token
from murmuration.collector.store import Store
from murmuration.errors import ParameterError

NAME = "sign-in"
"""Of the tokens behind links: `murmur token end STORE sign-in` ends all their sessions."""
CODE, SESSION = "code", "session"
SESSION_PREFIX = "session_"
CODE_SECONDS = 3600
SESSION_SECONDS = 12 * 3600


def new_code(store: Store, token: str = "", campaign: str = "") -> str:
    """Make a code and return it: this is the only time it is seen.

    `token` names the token that its session is to be like; without one, it is an analyst of all
    campaigns, or of one, by a token that nobody knows and that can be ended as any other.
    """
    now = int(time.time())
    behind = _named(store, token, now) if token else _made(store, campaign)
    code = token_urlsafe(32)
    store.add_session(CODE, hashed(code), behind, now, now + CODE_SECONDS)
    return code


def signed_in(store: Store, code: str) -> str | None:
    """Turn a code into a session and return what the cookie says; None if it is not valid."""
    now = int(time.time())
    with store.transaction():
        behind = store.take_code(hashed(code), now)
        valid = [token.hash for token in store.tokens() if token.expires > now]
        if behind not in valid or behind is None:
            return None
        text = SESSION_PREFIX + token_urlsafe(32)
        store.add_session(SESSION, hashed(text), behind, now, now + SESSION_SECONDS)
        return text


def signed_out(store: Store, text: str) -> None:
    """End a session."""
    store.end_session(hashed(text))


def _made(store: Store, campaign: str) -> bytes:
    """Return the hash of a token whose text is thrown away: only sessions are like it."""
    late = int(time.time()) + CODE_SECONDS + SESSION_SECONDS
    own = (ANALYST, NAME, campaign)
    for token in store.tokens():
        if (token.role, token.name, token.campaign) == own and token.expires > late:
            return token.hash
    return hashed(new_token(store, *own, days=7))


def _named(store: Store, name: str, now: int) -> bytes:
    valid = [token for token in store.tokens() if token.name == name and token.expires > now]
    if not valid:
        raise ParameterError(f"there is no valid token called {name!r}")
    return valid[-1].hash
