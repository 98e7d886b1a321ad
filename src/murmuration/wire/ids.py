"""Ids of reports: 16 bytes that look random and carry no time.

A device's clock is a fingerprint: with the time in its ids, two reports of one device could be
linked. An id names the report, not the person: a report that is sent again has the same id and is
counted once. A device's ids follow from its key (`device.words`); these are for everything else.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from murmuration.exact.arrays import Ints
from murmuration.exact.randomness import Rng, system_rng

ID_BYTES = 16

Ids = NDArray[np.uint8]


def new_ids(n: int, rng: Rng | None = None) -> Ids:
    """Return n random ids.

    >>> new_ids(2).shape
    (2, 16)
    """
    words = (rng or system_rng()).words(2 * n)
    return words.astype("<u8").view(np.uint8).reshape(n, ID_BYTES)


def in_order(ids: Ids) -> tuple[Ints, NDArray[np.bool_]]:
    """Return the order of ids, and which of them, in that order, are the first of their kind.

    >>> ids = np.zeros((3, 16), dtype=np.uint8)
    >>> ids[0, 0] = 9
    >>> order, first = in_order(ids)
    >>> order.tolist(), first.tolist()
    ([1, 2, 0], [True, False, True])
    """
    halves = np.ascontiguousarray(ids).view(">u8").reshape(len(ids), 2)
    high = halves[:, 0].astype(np.uint64)
    order = np.argsort(high)
    alike = np.flatnonzero(np.diff(high[order]) == 0)
    first = np.ones(len(ids), dtype=bool)
    if len(alike):  # rare, but then the other half decides, and arrival among equals
        order = np.lexsort((halves[:, 1], high))
        first[1:] = (halves[order[1:]] != halves[order[:-1]]).any(axis=1)
    return order, first
