"""Which runs may hold an id: a Bloom filter for each run, asked in memory.

A filter says "no" for certain and "maybe" otherwise: about one unknown id in a thousand is a maybe.
Only a maybe is looked up, so exactness never rests on a filter.

A 16-byte id is four 32-bit words x. With 64-bit numbers a and b that only the store knows,

    h = (a1*x1 + a2*x2 + a3*x3 + a4*x4 + b mod 2^64) >> 32

is strongly universal: any two ids, however they were chosen, fall together as rarely as random
ones do. So nobody who does not know the secret can fill a filter with ids of his making.

An id sets three bits in each of two words of its run's filter. The second word is looked at only
if the first one says maybe. In memory the filters of several runs are turned: a number has the same
bit of each of them, so three numbers say which of 8 (or 64, if they are small) may hold an id.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from secrets import token_bytes
from typing import Any

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
Octets = NDArray[np.uint8]
Places = NDArray[np.int64]

SECRET_SHAPE = (5, 3)
"""Four factors and a summand, for each of three hashes."""
FEWEST_BITS, SMALL_BITS = 7, 12
"""A filter has 2^7 words or more; up to 2^12, it is small."""
WORD = 64
NOBODY = 0
"""Instead of a run's number."""


@dataclass(frozen=True)
class Hashes:
    """For each id, twice: a place (32 bits; the high ones say which word), and three bits there."""

    places: tuple[Places, Places]
    bits: tuple[tuple[Places, Places, Places], tuple[Places, Places, Places]]

    def of(self, chosen: NDArray[np.bool_] | Places | slice) -> Hashes:
        """Return those of some of the ids."""
        (p, q), ((a, b, c), (d, e, f)) = self.places, self.bits
        places = p[chosen], q[chosen]
        bits = (a[chosen], b[chosen], c[chosen]), (d[chosen], e[chosen], f[chosen])
        return Hashes(places, bits)


def new_secret() -> bytes:
    """Return the numbers of a new store."""
    return token_bytes(8 * SECRET_SHAPE[0] * SECRET_SHAPE[1])


def hashed(ids: Octets, secret: bytes) -> Hashes:
    """Hash ids.

    >>> ids = np.arange(32, dtype=np.uint8).reshape(2, 16)
    >>> hashed(ids, new_secret()).places[0].shape
    (2,)
    """
    numbers = np.frombuffer(secret, dtype="<u8").reshape(SECRET_SHAPE)
    words = np.ascontiguousarray(np.ascontiguousarray(ids).view("<u4").T).astype(np.uint64)
    mixed = np.ascontiguousarray(numbers[:4].T) @ words
    mixed += numbers[4][:, None]
    mixed >>= np.uint64(32)
    hashes = mixed.view(np.int64)  # numpy takes indices with a sign
    (a, b, c), (d, e, f) = hashes & 63, hashes >> 6 & 63
    return Hashes((hashes[0], hashes[1]), ((a, d, c), (b, e, f)))


def bits_for(n: int) -> int:
    """Return the logarithm of the number of words in a filter of n ids.

    32 bits for each id in a small filter (there are many of them), 16 in a large one, or up to
    twice as many.

    >>> [bits_for(n) for n in (1, 256, 257, 1 << 13, 1 << 14, 1 << 15)]
    [7, 7, 8, 12, 13, 13]
    """
    small = (-(-n // 2) - 1).bit_length()
    return max(FEWEST_BITS, small if small <= SMALL_BITS else max(SMALL_BITS + 1, small - 1))


def made(hashes: Hashes) -> Words:
    """Return the filter of a run."""
    bits, unit = bits_for(len(hashes.places[0])), np.uint64(1)
    words = np.zeros(1 << bits, dtype=np.uint64)
    for places, three in zip(hashes.places, hashes.bits, strict=True):
        a, b, c = (unit << bit.view(np.uint64) for bit in three)
        np.bitwise_or.at(words, _word(places, bits), a | b | c)
    return words


def bits_of(hashes: Hashes) -> Places:
    """Return the numbers of the bits that these ids set, some of them twice."""
    bits = bits_for(len(hashes.places[0]))
    lines = [_word(places, bits) << 6 for places in hashes.places]
    each = [line + bit for line, three in zip(lines, hashes.bits, strict=True) for bit in three]
    return np.concatenate(each)


def _word(places: Places, bits: int) -> Places:
    return places >> (32 - bits)


class Shelf:
    """The filters of several runs of one size, bit by bit side by side."""

    def __init__(self, bits: int) -> None:
        kind: type[np.uint64 | np.uint8] = np.uint64 if bits <= SMALL_BITS else np.uint8
        self._bits = bits
        self._turned = np.zeros(WORD << bits, dtype=kind)
        self._runs: list[int] = [NOBODY] * (8 * self._turned.itemsize)

    def put(self, run: int, hashes: Hashes | None, words: Words | None = None) -> bool:
        """Take the filter of some ids, or one that was made; return whether there was room."""
        if NOBODY not in self._runs:
            return False
        slot = self._runs.index(NOBODY)
        if hashes is not None:
            self._turned[bits_of(hashes)] |= self._mark(slot)
        if words is not None:
            each = np.unpackbits(words.astype("<u8").view(np.uint8), bitorder="little")
            self._turned |= each.astype(self._turned.dtype, copy=False) << self._turned.dtype.type(
                slot
            )
        self._runs[slot] = run
        return True

    def drop(self, runs: Collection[int]) -> None:
        """Forget the filters of some runs."""
        gone = [slot for slot, run in enumerate(self._runs) if run in runs]
        if gone:
            marks = [self._mark(slot) for slot in gone]
            self._turned &= ~np.bitwise_or.reduce(np.array(marks, dtype=self._turned.dtype))
            for slot in gone:
                self._runs[slot] = NOBODY

    def _mark(self, slot: int) -> Any:
        return self._turned.dtype.type(1 << slot)

    def maybe(self, hashes: Hashes) -> Iterator[tuple[int, Places]]:
        """Yield the runs that may hold some of the ids, and the numbers of these ids."""
        maybe = self._all_three(hashes, 0)
        ids = np.flatnonzero(maybe)
        if not len(ids):
            return
        both = maybe[ids] & self._all_three(hashes.of(ids), 1)
        marked = int(np.bitwise_or.reduce(both))
        for slot, run in enumerate(self._runs):
            if marked >> slot & 1:
                yield run, ids[both & self._mark(slot) != 0]

    def _all_three(self, hashes: Hashes, which: int) -> NDArray[Any]:
        """Return for each id, as the bits of a number, which runs have all three of its bits."""
        line = _word(hashes.places[which], self._bits) << 6
        a, b, c = hashes.bits[which]
        bits: NDArray[Any] = self._turned.take(line + a)
        bits &= self._turned.take(line + b)
        bits &= self._turned.take(line + c)
        return bits
