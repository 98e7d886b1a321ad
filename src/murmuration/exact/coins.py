"""Many coins of one exact rate at once, from as few random bytes as their rate allows.

A coin of rate T / 2^32 compares a fraction that is drawn digit by digit with the digits of T: the
first digit that differs decides. Words of 64 fair bits draw one digit of 64 coins: after 8 digits
all but one of 256 coins are decided, and those few draw the rest. So a coin takes one random byte,
not four, and never leaves its bit; the rate is exact all the same.

For generators whose words nobody can ask for again (`Rng.bulk`): which word decides which coin is
written nowhere, and is no contract with other programs.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from murmuration.exact.arrays import Ints, Rows
from murmuration.exact.randomness import Rng, Words

RATE_BITS: Final = 32
FIRST: Final = 8
"""Digits that are drawn for all coins: fewer leave more coins over, more are mostly in vain."""
LATER: Final = RATE_BITS - FIRST


def packed_coins(rng: Rng, n: int, rate: int) -> Words:
    """Return n words of independent bits, each set with probability exactly rate / 2^32.

    >>> from murmuration.exact.randomness import ScriptedRng
    >>> half_of_half = packed_coins(ScriptedRng([0b1100, 0b1010]), 1, 1 << 30)
    >>> bin(half_of_half[0])
    '0b1000'
    """
    found = np.zeros(n, dtype=np.uint64)
    open_, spare = ~found, np.empty_like(found)
    for digit in range(RATE_BITS - 1, LATER - 1, -1):
        if not rate & ((2 << digit) - 1):
            return found  # no digit is left in which a fraction could be lower
        fair = rng.words(n)
        if rate >> digit & 1:
            np.bitwise_and(open_, fair, out=spare)
            found |= spare
            open_ ^= spare
        else:
            open_ &= fair
    _refine(rng, found, open_, rate & ((1 << LATER) - 1))
    return found


def coin_rows(rng: Rng, n: int, bits: int, rate: int) -> Rows:
    """Return n rows of so many coins each, packed lowest first; what is left of a byte is 0.

    >>> from murmuration import seeded_rng
    >>> coin_rows(seeded_rng(1), 3, 11, 1 << 31).shape
    (3, 2)
    """
    width = (bits + 7) // 8
    words = packed_coins(rng, (n * width + 7) // 8, rate).astype("<u8", copy=False)
    rows = words.view(np.uint8)[: n * width].reshape(n, width)
    rows[:, -1] &= 255 >> (8 * width - bits)
    return rows


def _refine(rng: Rng, found: Words, open_: Words, rest: int) -> None:
    """Decide the coins whose first digits are those of the rate: the lowest of each word first."""
    where = np.flatnonzero(open_ != 0)  # of bools: four times as fast as of words
    left = open_[where]
    while len(where):
        lowest = left & -left
        lower = rng.words(len(where)) >> np.uint64(64 - LATER) < rest
        found[where] |= lowest * lower
        left ^= lowest
        more = left != 0
        where, left = where[more], left[more]


def below(rng: Rng, n: int, bound: int) -> Ints:
    """Return n integers below bound, exactly uniform: the high half of a half word times bound.

    Products whose low half is among the first 2^32 mod bound are drawn again, so that as many are
    left of each.

    >>> from murmuration import seeded_rng
    >>> below(seeded_rng(1), 4, 6).max() < 6
    np.True_
    """
    few = np.uint64((1 << RATE_BITS) % bound)
    halves = rng.words((n + 1) // 2).astype("<u8", copy=False).view("<u4")[:n]
    found = halves * np.uint64(bound)
    while len(late := np.flatnonzero(found & np.uint64(0xFFFFFFFF) < few)):
        found[late] = (rng.words(len(late)) >> np.uint64(RATE_BITS)) * np.uint64(bound)
    return (found >> np.uint64(RATE_BITS)).view(np.int64)
