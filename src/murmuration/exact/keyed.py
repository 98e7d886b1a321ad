"""Words that follow from a secret: the same again for the same purpose, random to everybody else.

A device that is restored from a backup, or that lost an acknowledgement, must not draw fresh noise
on an answer that it has sent: whoever sees both reports learns as much again. So a device's words
are a pseudorandom function of its secret and of what they are for:

    key    = HMAC-SHA-256(secret, context)
    block  = HMAC-SHA-256(key, number of the block from 0 on, 8 bytes, big-endian)
    words  = 4 of 64 bits from each block, little-endian, in order

`context` is a list of parts, each written as its length (4 bytes, big-endian) and its bytes, so
that two lists are never the same text. That HMAC-SHA-256 cannot be told from random by anybody
without the secret is assumed, and is all that is assumed; browsers have it, too.
"""

from __future__ import annotations

import hmac
import secrets
from typing import Final

import numpy as np

from murmuration.errors import ParameterError
from murmuration.exact.randomness import Rng, Words

SECRET_BYTES: Final = 32
WORDS_PER_BLOCK: Final = 4

Part = str | bytes


def context(*parts: Part) -> bytes:
    r"""Write parts so that no two lists of them are the same text.

    >>> context("ab", b"c")
    b'\x00\x00\x00\x02ab\x00\x00\x00\x01c'
    """
    octets = [part.encode() if isinstance(part, str) else part for part in parts]
    return b"".join(len(part).to_bytes(4, "big") + part for part in octets)


class Key:
    """One person's secret, from which names and generators follow.

    >>> key = Key(bytes(32))
    >>> bool((key.rng("phones", "answer").words(3) == key.rng("phones", "answer").words(3)).all())
    True
    """

    def __init__(self, secret: bytes) -> None:
        if not isinstance(secret, bytes) or len(secret) != SECRET_BYTES:
            raise ParameterError(f"a secret is {SECRET_BYTES} bytes")
        self._secret = secret

    @classmethod
    def new(cls) -> Key:
        """Return a key that the operating system made."""
        return cls(secrets.token_bytes(SECRET_BYTES))

    def name(self, *parts: Part) -> bytes:
        """Return 32 bytes that stand for these parts, and tell nothing about them."""
        return hmac.digest(self._secret, context(*parts), "sha256")

    def rng(self, *parts: Part, coins: Rng | None = None) -> KeyedRng:
        """Return the generator for a purpose; `coins` is the one for what must not see the answer.

        Parts that hold an answer make words that follow from it; `coins` is made without it.
        """
        return KeyedRng(self.name(*parts), coins)

    def __repr__(self) -> str:
        return "Key(...)"  # never the secret


class KeyedRng(Rng):
    """The words that follow from one key, from the first on."""

    def __init__(self, key: bytes, coins: Rng | None = None) -> None:
        self._key, self._coins = key, coins
        self._block, self._left = 0, np.empty(0, dtype="<u8")

    def words(self, n: int) -> Words:
        """Return the next n words."""
        blocks = -(-max(0, n - len(self._left)) // WORDS_PER_BLOCK)
        numbers = range(self._block, self._block + blocks)
        data = b"".join(hmac.digest(self._key, i.to_bytes(8, "big"), "sha256") for i in numbers)
        self._block += blocks
        known = np.concatenate([self._left, np.frombuffer(data, dtype="<u8")])
        self._left = known[n:]
        return known[:n]

    def public(self) -> Rng:
        """Return the generator of coins that must not look at the answer."""
        return self if self._coins is None else self._coins

    def __repr__(self) -> str:
        return "KeyedRng(...)"
