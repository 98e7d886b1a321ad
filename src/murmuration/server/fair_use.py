"""Shares: how much of something one client may have while others want some, too.

Nobody may take more than is left over: one address alone gets half of it, and there is always some
left for one that has nothing yet. Addresses that go on asking end up with about as much as each
other. So nothing has to be set for the size of a crowd, and an address that holds all it can, for
as long as it can, keeps nobody else out.

Addresses are held in memory while something is held for them; they are not logged and not stored.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from ipaddress import IPv6Address, ip_address

from murmuration.server.problems import Problem

NETWORK = 64
"""Bits of an IPv6 address that count: one subscriber has all that begin with these."""
LOOK_SECONDS = 0.1
"""Between two looks of who waits for something."""


class Share:
    """So much of something, for all clients together."""

    def __init__(self, most: int, problem: str) -> None:
        self._most, self._problem = most, problem
        self._by: Counter[str] = Counter()
        self.used = 0

    def take(self, who: str, size: int) -> None:
        """Take some, or raise the problem."""
        if not size:
            return
        if self._by[who] + size > self._most - self.used:
            raise Problem(self._problem)
        self._by[who] += size
        self.used += size

    def give_back(self, who: str, size: int) -> None:
        """Give back, and forget whoever has nothing left."""
        self.used -= size
        self._by[who] -= size
        if not self._by[who]:
            del self._by[who]


class Part:
    """What one request or connection has of a share."""

    def __init__(self, share: Share, who: str, free: int = 0) -> None:
        self._share, self._who, self._free = share, who, free
        self._size = self._taken = 0

    def take(self, size: int = 1) -> None:
        """Take some more; the first `free` of it are nobody's share."""
        more = max(0, self._size + size - self._free) - self._taken
        self._share.take(self._who, more)
        self._size += size
        self._taken += more

    async def wait(self, size: int, seconds: float) -> None:
        """Take some more as soon as there is some, or raise the problem after so long."""
        end = time.monotonic() + seconds
        while True:
            try:
                return self.take(size)
            except Problem:
                if time.monotonic() > end:
                    raise
            await asyncio.sleep(LOOK_SECONDS)

    def give_back(self) -> None:
        """Give everything back."""
        self._share.give_back(self._who, self._taken)
        self._size = self._taken = 0


def client(host: str) -> str:
    """Return what counts as one client: an address, or the network of an IPv6 address.

    >>> client("192.0.2.7"), client("2001:db8::1:2:3:4") == client("2001:db8::5"), client("?")
    ('192.0.2.7', True, '')
    """
    try:
        address = ip_address(host)
    except ValueError:
        return ""
    if not isinstance(address, IPv6Address):
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return hex(int(address) >> (128 - NETWORK))
