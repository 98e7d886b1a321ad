"""A queue that is fair by work: each client's part of the time, however much it sends."""

from __future__ import annotations

from collections.abc import Container
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

_Item = TypeVar("_Item")

SPARE = 1024
"""Clients whose work is remembered beyond those that wait."""


class FairQueue(Generic[_Item]):
    """Start-time fair queueing: what is taken next is what would have begun first.

    As if all clients were served at once, each at the same pace: work begins where its client's
    work before it ends, and at the earliest where the queue is now. So a client that sends much
    waits for itself; one that sends a little goes first, whatever the others have sent.

    >>> queue = FairQueue[str]()
    >>> for who, size, item in [("a", 9, "a1"), ("a", 9, "a2"), ("b", 5, "b1"), ("b", 3, "b2")]:
    ...     queue.add(who, size, item)
    >>> [queue.take() for _ in range(len(queue))]
    ['b1', 'a1', 'b2', 'a2']
    """

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, int, str, _Item]] = []
        self._ends: dict[str, int] = {}
        self._now = self._arrived = 0

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, who: str, size: int, item: _Item) -> None:
        """Put in work of a client."""
        start = max(self._now, self._ends.get(who, 0))
        self._ends[who] = end = start + size
        self._arrived += 1
        heappush(self._heap, (start, end, self._arrived, who, item))

    def first(self) -> _Item:
        """Return what would be taken."""
        return self._heap[0][4]

    def take(self) -> _Item:
        """Take out what begins first; of several, what ends first."""
        self._now, _, _, _, item = heappop(self._heap)
        if not self._heap:
            self._ends.clear()
        elif len(self._ends) > 2 * len(self._heap) + SPARE:
            self._ends = {who: end for who, end in self._ends.items() if end > self._now}
        return item

    def drop(self, items: Container[_Item]) -> None:
        """Forget some that wait; their clients have not had that work."""
        for start, end, _, who, item in self._heap:
            if item in items:
                self._ends[who] -= end - start
        self._heap = [entry for entry in self._heap if entry[4] not in items]
        heapify(self._heap)
