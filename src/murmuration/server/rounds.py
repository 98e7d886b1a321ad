"""A training behind the routes: which round an upload is for, and when a round is closed.

Each worker looks after its trainings: after reports were counted, and once a second. Whoever is
first closes a round (`collector.training.rounds`); the others find it closed.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from murmuration.collector.served import Served
from murmuration.collector.store import Store, StoreError
from murmuration.collector.store import rounds as stored
from murmuration.collector.training import rounds
from murmuration.collector.training.rounds import RoundIntake
from murmuration.server.access import Clock
from murmuration.training.campaign import TrainingCampaign
from murmuration.wire import report

log = logging.getLogger("murmuration.server")

LOOK_SECONDS = 1.0
"""Between two looks at the clock."""
_DIGEST = re.compile(rb'"digest"\s*:\s*"([0-9a-f]{64})"')

Ask = Callable[..., Awaitable[Any]]


class TrainingRunner:
    """One training in this process."""

    def __init__(self, served: Served[TrainingCampaign], read: Ask, write: Ask) -> None:
        self.served, self._read, self._write = served, read, write
        self._known: dict[str, RoundIntake] = {}
        self._news, self._clock = asyncio.Event(), Clock()
        self._failed = ""

    async def intake(self, data: bytes, kind: str) -> RoundIntake | None:
        """Return the round that a body names, or the one that was published last; None before."""
        intake: RoundIntake | None = await self._read(self._intake, digest_in(data, kind))
        return intake

    def _intake(self, store: Store, digest: str) -> RoundIntake | None:
        """Look for it in the reading thread; what was read of a document is kept."""
        numbers = stored.digests(store, self.served.key)
        if digest not in numbers:
            digest = max(numbers, key=numbers.__getitem__, default="")
        known = self._known.get(digest)
        if known is None or len(known.older) + 1 != len(numbers):
            taking = rounds.taking(store, self.served, digest)
            if taking is None:
                return None
            self._known[digest] = known = taking
        return known

    @property
    def always(self) -> None:
        """It depends on the round that a body names."""
        return None

    def counted(self) -> None:
        """Note that reports were counted: perhaps the round is full."""
        self._news.set()

    async def begin(self) -> None:
        """Do what is due before the first request: publish a round, or close one."""
        with suppress(StoreError):
            await self._step()

    async def run(self) -> None:
        """Look after the training, until cancelled."""
        while True:
            try:
                while await self._step():
                    pass
            except StoreError as problem:
                self._say(str(problem))
            except Exception as failure:  # collecting goes on
                self._say(type(failure).__name__)
            self._news.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), LOOK_SECONDS)

    async def _step(self) -> bool:
        """Do what is due; say whether anything was."""
        now = self._clock.now()
        if not await self._read(rounds.is_due, self.served, now):
            return False
        await self._write(rounds.advance, self.served, now)
        self._failed = ""
        return True

    def _say(self, problem: str) -> None:
        """Log the problem, once."""
        if problem != self._failed:
            log.error("%s: a round cannot be closed: %s", self.served.campaign.name, problem)
        self._failed = problem


def digest_in(data: bytes, kind: str) -> str:
    """Return the digest that the first report of a body names, if it names one.

    >>> digest_in(b'[{"wire": 1, "digest": "%s"}]' % (b"ab" * 32), "application/json")[:4]
    'abab'
    """
    if kind == report.BINARY:
        return data[10:42].hex()
    match = _DIGEST.search(data)
    return match[1].decode() if match else ""
