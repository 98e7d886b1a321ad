"""Who may do what. Every route declares a policy; there is no route without one.

    public    anyone
    device    anyone with a device's token, or anyone at all if the campaign's uploads are open;
              where each device has a token of its own, only with one of these
    reader    anyone who reads estimates of any campaign here
    analyst   reads estimates and status
    admin     reads raw state
    merge     brings the tallies of the collectors that its token names

A higher role may do what a lower one may (`collector.access.tokens`); merging is a role apart.
Readers, analysts and admins may come by a browser that is signed in (`signing`); nobody else may.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace

from murmuration.campaign.kind import Campaign
from murmuration.campaign.terms import ONE_DEVICE
from murmuration.collector.access.participants import (
    BATCH_BYTES,
    OWN_BYTES,
    is_genuine,
    parsed,
    row_of,
)
from murmuration.collector.access.sessions import SESSION_PREFIX
from murmuration.collector.access.tokens import ADMIN, ANALYST, DEVICE, MERGE, PREFIX, RANKS, hashed
from murmuration.collector.served import Served
from murmuration.collector.store import Token
from murmuration.server.problems import Problem

PUBLIC, READER = "public", "reader"
BY_BROWSER = (READER, ANALYST, ADMIN)
"""What a session counts for: not for sending reports, and not for merging."""
REFRESH_SECONDS = 2.0
"""How old what is known may be."""
NEWS_SECONDS = 0.2
"""How often news is asked for because of tokens that are not known: they wait until then."""


class Clock:
    """The time, as it never goes back: what has passed here passes, whatever the system's says."""

    def __init__(self) -> None:
        self._latest, self._seen = time.time(), time.monotonic()

    def now(self) -> float:
        """Return the latest time that is known to have come."""
        seen = time.monotonic()
        self._latest = max(time.time(), self._latest + seen - self._seen)
        self._seen = seen
        return self._latest


class Unknown(Problem):
    """A token of which nothing is known; there may be news of it."""

    def __init__(self) -> None:
        super().__init__("unauthorized")


class Gate:
    """Checks requests against policies; knows the tokens as they were a moment ago."""

    def __init__(self, load: Callable[[], Awaitable[list[Token]]]) -> None:
        self._load, self._clock = load, Clock()
        self._tokens: dict[bytes, Token] | None = None
        self._ended: set[bytes] = set()
        self._loaded = 0.0
        self._first = asyncio.Lock()

    async def check(
        self,
        policy: str,
        header: str | None,
        served: Served[Campaign] | None,
        session: str | None = None,
    ) -> Token | None:
        """Let the request pass, and return the token that it needed; or raise the problem.

        A session is looked at where there is no header.
        """
        if not _needs_token(policy, served):
            return None
        if header is not None or policy not in BY_BROWSER:
            session = None
        try:
            return self._passed(await self._known(), policy, header, served, session)
        except Unknown:  # it may be a new one
            return self._passed(await self._news(), policy, header, served, session)

    def check_upload(self, header: str | None, served: Served[Campaign]) -> Token | None:
        """Let an upload pass by what is known now: where nothing is known of it, raise Unknown."""
        if not _needs_token(DEVICE, served):
            return None
        if self._tokens is None or time.monotonic() - self._loaded > REFRESH_SECONDS:
            raise Unknown
        return self._passed(self._tokens, DEVICE, header, served, None)

    def _passed(
        self,
        tokens: Mapping[bytes, Token],
        policy: str,
        header: str | None,
        served: Served[Campaign] | None,
        session: str | None,
    ) -> Token:
        """Return the token that a request may pass by, of these."""
        campaign = None if served is None else served.campaign
        if policy == DEVICE and campaign is not None and campaign.terms.upload == ONE_DEVICE:
            return self._participant(tokens, header, campaign.name)
        text = _bearer(header, PREFIX) if session is None else self._session(session)
        token = self._valid(tokens, hashed(text))
        anywhere = policy == READER or token.campaign == ""
        mine = anywhere or token.campaign == ("" if campaign is None else campaign.name)
        if not _allows(token.role, policy) or not mine:
            raise Problem("forbidden")
        return token

    def _valid(self, tokens: Mapping[bytes, Token], key: bytes) -> Token:
        """Return the token of a key, if it has not ended."""
        if key not in tokens:
            raise Unknown
        if tokens[key].expires <= self._clock.now():
            raise Problem("unauthorized")
        return tokens[key]

    def _participant(
        self, tokens: Mapping[bytes, Token], header: str | None, campaign: str
    ) -> Token:
        """Let a participant's token pass that its batch has made for this campaign, and not ended.

        No other token counts here: it would be many devices'.
        """
        data = parsed(_bearer(header))
        if data is None:
            raise Problem("unauthorized")
        batch = self._valid(tokens, row_of(data[:BATCH_BYTES]))
        if not is_genuine(batch, data):
            raise Problem("unauthorized")
        if batch.campaign != campaign:
            raise Problem("forbidden")
        return replace(batch, own=data[:OWN_BYTES])

    def forget(self, session: str) -> None:
        """Take a session for ended from now on, whatever was read of it before."""
        self._ended.add(hashed(session))

    async def signed_in(self, session: str) -> Token | None:
        """Return what a session may do; None if there is no such session."""
        try:
            key = hashed(self._session(session))
        except Problem:
            return None
        return (await self._known()).get(key) or (await self._news()).get(key)

    def _session(self, session: str) -> str:
        """Return a session's text, if it can be one and was not ended here."""
        if not session.startswith(SESSION_PREFIX) or hashed(session) in self._ended:
            raise Problem("unauthorized")
        return session

    async def _known(self) -> dict[bytes, Token]:
        """Return the tokens; while one request asks for news, others go on with what is known."""
        if self._tokens is None:
            return await self._news()
        if time.monotonic() - self._loaded > REFRESH_SECONDS:
            self._loaded = time.monotonic()
            return await self._refreshed()
        return self._tokens

    async def _news(self) -> dict[bytes, Token]:
        """Return the tokens as they are now, or a moment later: all who ask meanwhile share it."""
        asked = time.monotonic()
        async with self._first:
            if self._tokens is None:
                return await self._refreshed()
            if self._loaded >= asked:
                return self._tokens
            await asyncio.sleep(max(0.0, self._loaded + NEWS_SECONDS - time.monotonic()))
            return await self._refreshed()

    async def _refreshed(self) -> dict[bytes, Token]:
        began = time.monotonic()
        self._tokens = {token.hash: token for token in await self._load()}
        self._loaded = began
        return self._tokens


def _needs_token(policy: str, served: Served[Campaign] | None) -> bool:
    """Whether not everybody may do what a policy is for."""
    if policy == DEVICE and served is not None:
        return served.campaign.terms.upload != "open"
    return policy != PUBLIC


def _bearer(header: str | None, prefix: str = "") -> str:
    """Return what an Authorization header shows, if it begins so."""
    scheme, _, text = (header or "").partition(" ")
    if scheme.lower() != "bearer" or not text.startswith(prefix):
        raise Problem("unauthorized")
    return text.strip()


def _allows(role: str, policy: str) -> bool:
    """Whether a role may do what a policy is for."""
    if MERGE in (role, policy):
        return role == policy
    return RANKS.get(role, 0) >= RANKS[ANALYST if policy == READER else policy]
