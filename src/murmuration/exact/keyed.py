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

`Key` and `KeyedRng` are one person's. `Keys` and `CrowdRng` are many people's at once, each with a
secret and a stream of its own: what a crowd draws is what each of its people would draw alone.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from functools import cached_property
from typing import Final

import numpy as np

from murmuration.errors import ParameterError, SourceError
from murmuration.exact.arrays import Ints, Rows
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

    def each(self, *parts: Part | Rows) -> Keys:
        """Return a key for each person: what `name` makes of parts, of which some are rows."""
        people = next(len(part) for part in parts if isinstance(part, np.ndarray))
        secret = np.frombuffer(self._secret, dtype=np.uint8)
        return Keys(_digests(np.tile(secret, (people, 1)), context_rows(people, *parts)))

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


# --- many people at once -------------------------------------------------------------------------


class Keys:
    """Many people's secrets, a row of bytes each. Parts may be rows, too: a part for each person.

    >>> keys = Key(bytes(32)).each("row", np.array([[1], [2]], dtype=np.uint8))
    >>> alone = Key(Key(bytes(32)).name("row", bytes([2])))
    >>> keys.name("id")[1].tobytes() == alone.name("id")
    True
    >>> keys.rng("answer").words(6)[3:].tolist() == alone.rng("answer").words(3).tolist()
    True
    """

    def __init__(self, secrets: Rows) -> None:
        if secrets.ndim != 2 or secrets.shape[1] != SECRET_BYTES:
            raise ParameterError(f"secrets are rows of {SECRET_BYTES} bytes")
        self._secrets = secrets

    def __len__(self) -> int:
        return len(self._secrets)

    def only(self, who: slice | Ints) -> Keys:
        """Return the keys of some of the people."""
        return Keys(self._secrets[who])

    def name(self, *parts: Part | Rows) -> Rows:
        """Return each person's 32 bytes that stand for these parts."""
        return _digests(self._secrets, context_rows(len(self), *parts))

    def rng(self, *parts: Part | Rows, coins: CrowdRng | None = None) -> CrowdRng:
        """Return the generator in which each person has a stream of its own."""
        return CrowdRng(_Streams(self, parts), np.arange(len(self)), coins)

    def __repr__(self) -> str:
        return f"Keys(... of {len(self):,} people)"


class CrowdRng(Rng):
    """Many people's generators, side by side: n words are as many of each person's stream.

    They come person by person. Someone who is named twice in `only` draws twice in a row.
    """

    def __init__(self, streams: _Streams, who: Ints, coins: CrowdRng | None = None) -> None:
        self._streams, self._who, self._coins = streams, who, coins

    def words(self, n: int) -> Words:
        """Return each person's next words, n in all."""
        if n == 0:
            return np.empty(0, dtype=np.uint64)
        if not len(self._who) or n % len(self._who):
            raise SourceError(f"{len(self._who)} people cannot draw {n} words, as many each")
        person = np.repeat(self._who, n // len(self._who))
        order = np.argsort(person, kind="stable")
        words = np.empty(n, dtype=np.uint64)
        words[order] = self._streams.next(person[order])
        return words

    def public(self) -> Rng:
        """Return the people's generators of coins that must not look at the answer."""
        return self if self._coins is None else self._coins

    def only(self, who: slice | Ints) -> CrowdRng:
        """Return the generators of some of the people: the same streams."""
        coins = None if self._coins is None else self._coins.only(who)
        return CrowdRng(self._streams, self._who[who], coins)

    def octets(self, people: int, each: int) -> Rows:
        """Return rows of random bytes, each from whole words of that person's."""
        words = self.words(people * ((each + 7) // 8)).astype("<u8", copy=False)
        return words.view(np.uint8).reshape(people, -1)[:, :each]

    def __repr__(self) -> str:
        return "CrowdRng(...)"


class _Streams:
    """How far each person's stream is read; nothing is worked out before it is asked for."""

    def __init__(self, keys: Keys, parts: tuple[Part | Rows, ...]) -> None:
        self._keys, self._parts = keys, parts
        self._used = np.zeros(len(keys), dtype=np.int64)
        self._held = np.full(len(keys), -1)
        self._last = np.empty((len(keys), WORDS_PER_BLOCK), dtype=np.uint64)

    @cached_property
    def _names(self) -> Rows:
        return self._keys.name(*self._parts)

    def next(self, person: Ints) -> Words:
        """Return a word for each entry, the next of that person's; equal people are neighbours."""
        starts = np.diff(person, prepend=-1) != 0
        first = np.flatnonzero(starts)
        many = np.diff(first, append=len(person))
        place = self._used[person] + np.arange(len(person)) - np.repeat(first, many)
        self._used[person[first]] += many
        block, word = np.divmod(place, WORDS_PER_BLOCK)
        turns = np.flatnonzero(starts | (np.diff(block, prepend=-1) != 0))
        which = np.repeat(np.arange(len(turns)), np.diff(turns, append=len(person)))
        return np.asarray(self._blocks(person[turns], block[turns])[which, word])

    def _blocks(self, person: Ints, number: Ints) -> Words:
        """Return blocks of words; a person's last one is held, as a part of it may be left."""
        fresh = self._held[person] != number
        words = self._last[person]
        numbers = number[fresh].astype(">u8").view(np.uint8).reshape(-1, 8)
        words[fresh] = _digests(self._names[person[fresh]], numbers).view("<u8")
        self._last[person], self._held[person] = words, number  # of several, the last one
        return words


def context_rows(people: int, *parts: Part | Rows) -> Rows:
    """Write parts as `context` does, a row for each person.

    >>> context_rows(2, "ab", np.array([[3], [4]], dtype=np.uint8))[1].tobytes() == context(
    ...     "ab", bytes([4])
    ... )
    True
    """
    columns = []
    for part in parts:
        if isinstance(part, np.ndarray):
            length = np.frombuffer(part.shape[1].to_bytes(4, "big"), dtype=np.uint8)
            columns += [np.tile(length, (people, 1)), part]
        else:
            text = np.frombuffer(context(part), dtype=np.uint8)
            columns.append(np.tile(text, (people, 1)))
    return np.concatenate(columns, axis=1)


def _digests(keys: Rows, texts: Rows) -> Rows:
    """Return HMAC-SHA-256 (RFC 2104) of each row under its own key, faster than one by one."""
    padded = np.zeros((len(keys), 64), dtype=np.uint8)
    padded[:, :SECRET_BYTES] = keys
    inner = _hashes(np.hstack([padded ^ 0x36, texts]))
    return _hashes(np.hstack([padded ^ 0x5C, inner]))


def _hashes(rows: Rows) -> Rows:
    """Return SHA-256 of each row."""
    octets = rows.view(f"V{rows.shape[1]}").ravel().tolist()
    found = b"".join([one.digest() for one in map(hashlib.sha256, octets)])
    return np.frombuffer(found, dtype=np.uint8).reshape(-1, SECRET_BYTES)
