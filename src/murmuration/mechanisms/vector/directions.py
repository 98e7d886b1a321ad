"""Public random directions that a seed expands to, and a random turn of the vector.

A seed of 32 bits expands, by SplitMix64, to vectors of near-normal whole coordinates. The same seed
also turns the private vector: random signs, then a Hadamard matrix for every 16 coordinates. All of
it is exact in integers, and it is part of a published law.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from murmuration.exact.arrays import Floats, Ints, frozen
from murmuration.exact.randomness import Words

BLOCK = 16
"""Coordinates that are turned together."""
HADAMARD = frozen(1.0 - 2.0 * (np.bitwise_count(np.arange(BLOCK)[:, None] & np.arange(BLOCK)) % 2))
"""Times itself it is BLOCK times the identity."""

_UPPER_HALF = bytes.fromhex(
    "000101010202030304040405050606070707080809090a0a0a0b0b0c0c0d0d0d"
    "0e0e0f0f1010111111121213131414151516161717181819191a1a1b1b1c1c1d"
    "1d1e1e1f1f20202121222323242425262627282829292a2b2c2c2d2e2e2f3031"
    "3232333435363738393a3b3c3d3e404142444547494a4c4f5154575a5e646c7f"
)
COORDINATES = frozen(
    np.concatenate(
        [-np.frombuffer(_UPPER_HALF, np.int8)[::-1], np.frombuffer(_UPPER_HALF, np.int8)]
    )
)
"""What a byte is as a coordinate: the mean of the normal law in each of 256 equally likely cells,
the last one 127. Written out, because it is part of the law."""
TOP = int(COORDINATES[-1])
SCALE = math.sqrt(BLOCK * float(np.square(COORDINATES.astype(np.float64)).mean()))
"""The standard deviation of a coordinate of a candidate, turned back."""
TRANSLATION = COORDINATES.tobytes()

GAMMA, FIRST, SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


@dataclass(frozen=True)
class Directions:
    """The vectors of d coordinates that a seed expands to, `count` of them."""

    d: int
    count: int

    @property
    def padded(self) -> int:
        """The dimension, rounded up to whole blocks."""
        return -(-self.d // BLOCK) * BLOCK

    def _stream(self, seeds: Words, numbers: Ints) -> bytes:
        """Return the bytes of some of each seed's vectors.

        SplitMix64 from the state 2^32 seed: no two seeds share a state.
        """
        words = self.padded // 8
        count = numbers[:, :, None] * words + np.arange(1, words + 1)
        state = count.astype(np.uint64) * np.uint64(GAMMA)
        stream = mixed(state + (seeds << np.uint64(32))[:, None, None])
        return stream.astype("<u8", copy=False).tobytes()

    def expand(self, seeds: Words, numbers: Ints) -> NDArray[np.int8]:
        """Return some of each seed's vectors, in the coordinates of the turned vector."""
        octets = self._stream(seeds, numbers).translate(TRANSLATION)
        return np.frombuffer(octets, np.int8).reshape(len(seeds), numbers.shape[1], self.padded)

    def signs(self, seeds: Words) -> Floats:
        """Return each seed's random signs: the first bits of one more vector."""
        octets = np.frombuffer(self._stream(seeds, np.array([[self.count]])), np.uint8)
        return np.where(octets >> 7, 1.0, -1.0).reshape(len(seeds), self.padded)


def mixed(state: Words) -> Words:
    """Return SplitMix64's output for each state.

    >>> hex(int(mixed(np.array([0x9E3779B97F4A7C15], dtype=np.uint64))[0]))
    '0xe220a8397b1dcdaf'
    """
    state ^= state >> np.uint64(30)
    state *= np.uint64(FIRST)
    state ^= state >> np.uint64(27)
    state *= np.uint64(SECOND)
    state ^= state >> np.uint64(31)
    return state


def turned(rows: Floats) -> Floats:
    """Return the rows with every block times the Hadamard matrix: sums of whole numbers, exact."""
    blocks = rows.reshape(-1, BLOCK) @ HADAMARD
    return np.asarray(blocks.reshape(rows.shape))
