"""What the auditor tries a sampler on, and what the law says must come out.

    WordTrial     these words must make these reports: for laws that are tables, tried at the words
                  where the answer changes
    ChanceTrial   reports of one answer, counted by class; the law gives each class's probability

Each mechanism yields its own (`Mechanism.trials`); `audit.exact` runs them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from murmuration.exact.arrays import Floats, Ints, Reports
from murmuration.exact.coins import FIRST, LATER, RATE_BITS
from murmuration.exact.randomness import Rng, Words

if TYPE_CHECKING:
    from murmuration.mechanisms.base import Mechanism


@dataclass(frozen=True, eq=False)
class WordTrial:
    """Values, the words that decide, and the reports that these must make of those."""

    of: Mechanism
    values: Any
    words: Words
    expected: Reports | Ints
    run: Callable[[Any, Rng], Reports] | None = None
    """What is run on them; `privatize` unless told otherwise."""


@dataclass(frozen=True, eq=False)
class ChanceTrial:
    """One answer, given by many people, and how often the law puts their reports in each class."""

    of: Mechanism
    answer: Any
    read: Callable[[Reports], Ints]
    """Reports to counts, one per class."""
    chances: Floats
    """The probability of each class."""
    what: str
    exclusive: bool = True
    """Whether every report is in exactly one class; else each class is a coin of its own."""
    people: int = 20_000
    among: Callable[[Reports], Reports] | None = None
    """Which reports are counted; all of them unless told otherwise."""
    bulk: bool = False
    """Whether they are drawn as from a generator whose words nobody asks for again."""


Trial = WordTrial | ChanceTrial


MOST_STEPS = 1 << 26
"""About how many numbers one trial may look at."""


def people_for(steps: int) -> int:
    """Return how many people to try, where each takes so many steps: the more, the sharper.

    >>> people_for(10), people_for(1 << 20)
    (20000, 200)
    """
    return min(20_000, max(200, MOST_STEPS // steps))


def spread_over(size: int, most: int = 8) -> list[int]:
    """Return up to `most` of the numbers below `size`, the first and the last among them.

    >>> spread_over(100, 3), spread_over(2)
    ([0, 50, 99], [0, 1])
    """
    return sorted({round(place) for place in np.linspace(0, size - 1, min(size, most)).tolist()})


def boundaries(weights: Ints, total: int) -> tuple[Words, Ints]:
    """Return the first and the last word of every symbol that has any, and those symbols.

    The law's bits are on top, with ones below them: the low bits must not matter.
    """
    ends, symbols = np.cumsum(weights), np.flatnonzero(weights)
    drawn = np.concatenate([ends[symbols] - weights[symbols], ends[symbols] - 1])
    spare = np.uint64(64 - total.bit_length() + 1)
    words = (drawn.astype(np.uint64) << spare) | ((np.uint64(1) << spare) - np.uint64(1))
    return words, np.concatenate([symbols, symbols])


def coin_words(fractions: NDArray[np.uint32], rate: int) -> Words:
    """Return the words from which `packed_coins` draws these fractions, of 32 binary digits each.

    64 to a word. A fair bit is 1 where the digit is 0. Who is not decided by the first digits
    draws the others at once, the first of each word, then the second: ones below must not matter.
    """
    drawn = fractions.reshape(-1, 64)
    first = []
    for digit in range(RATE_BITS - 1, LATER - 1, -1):
        if rate & ((2 << digit) - 1):
            clear = (drawn >> np.uint32(digit) & 1) == 0
            first.append(np.packbits(clear, axis=1, bitorder="little").view("<u8").ravel())
    undecided = drawn >> np.uint32(LATER) == rate >> LATER
    word, place = np.nonzero(undecided if len(first) == FIRST else undecided & False)
    turn = undecided.cumsum(axis=1)[word, place]
    order = np.lexsort((word, turn))
    rest = drawn[word, place][order].astype(np.uint64) << np.uint64(64 - LATER)
    return np.concatenate([*first, rest | np.uint64((1 << (64 - LATER)) - 1)])
