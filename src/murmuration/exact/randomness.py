"""The one source of randomness.

A generator here does one thing: hand out 64-bit words, of which laws use the top 52 bits. 52 is
the largest width at which a word plus a word is still exact in a browser (integers up to 2^53), so
a TypeScript client makes the same reports from the same words.

`SystemRng` is the operating system's. `KeyedRng` (`exact.keyed`) is what devices use: words that
follow from a key which the operating system made. `SeededRng` repeats itself, for tests and
simulation only; it has to be asked for by name, and it says what it is when printed.
"""

from __future__ import annotations

import os
import ssl
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from murmuration.errors import ParameterError, SourceError
from murmuration.exact.arrays import Ints, Rows

Words = NDArray[np.uint64]

WORD_BITS = 52
WHOLE = 1 << WORD_BITS
HALF = WHOLE >> 1
FEW = 16
"""Up to this many draws at once take the same steps whatever they draw: time tells nothing."""

BULK = 1 << 15
"""From this many bytes on, OpenSSL's generator is used: 20 times as fast as asking the kernel."""


class Rng(ABC):
    """A stream of independent, uniformly distributed 64-bit words."""

    simulated: ClassVar[bool] = False
    """Whether its words can be repeated: then nobody's real value may depend on them."""
    bulk: bool = False
    """Whether nobody can ever ask for its words again. Then which word decides what is no contract
    with another program, and large crowds are drawn by the fastest exact way (`exact.coins`)."""

    @abstractmethod
    def words(self, n: int) -> Words:
        """Return the next n words."""

    def public(self) -> Rng:
        """Return the generator for coins that everybody may see and no answer decides.

        Which hash, which attribute: where words follow from the answer (`exact.keyed`), these must
        not. A coin is public if the report shows it whole and the law keeps its loss *given* the
        coin. Every other word is the answer's: two answers that shared a hidden word could be told
        apart by what both reports say about it.
        """
        return self

    def only(self, who: slice | Ints) -> Rng:
        """Return the generator of some of the people; one stream for all serves any of them."""
        del who
        return self

    def words_each(self, people: int, public: int, own: int) -> Words:
        """Return a row of words for each person: first public coins, then the answer's own."""
        coins = self.public()
        if coins is self:
            return self.words(people * (public + own)).reshape(people, public + own)
        first = coins.words(people * public).reshape(people, public)
        return np.hstack([first, self.words(people * own).reshape(people, own)])

    def octets(self, people: int, each: int) -> Rows:
        """Return rows of random bytes, lowest byte of each word first; no word is left in part."""
        words = self.words((people * each + 7) // 8)
        octets = words.astype("<u8", copy=False).view(np.uint8)
        return octets[: people * each].reshape(people, each)


class SystemRng(Rng):
    """The operating system's generator; keeps no state, so a fork cannot repeat words.

    A device's few words come straight from the kernel. Bulk draws come from OpenSSL's AES-256
    counter generator, which the kernel seeds and which reseeds itself in a forked child.

    >>> len(SystemRng().words(3))
    3
    """

    bulk = True

    def words(self, n: int) -> Words:
        """Return n fresh words."""
        size = 8 * n
        data = os.urandom(size) if size < BULK else ssl.RAND_bytes(size)
        return np.frombuffer(data, dtype="<u8")

    def __repr__(self) -> str:
        return "SystemRng()"


class SeededRng(Rng):
    """A repeatable generator. Reports made with it are NOT private: the seed undoes the noise.

    >>> bool(SeededRng(7).words(1) == SeededRng(7).words(1))
    True
    """

    simulated: ClassVar[bool] = True

    def __init__(self, seed: int, bulk: bool = False) -> None:
        if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
            raise ParameterError(f"seed must be a whole number, 0 or more; got {seed!r}")
        self.seed, self.bulk = seed, bulk
        self._bits = np.random.PCG64(seed)

    def words(self, n: int) -> Words:
        """Return the next n words of the seed's stream."""
        return self._bits.random_raw(n)

    def __repr__(self) -> str:
        return f"SeededRng({self.seed})  # repeatable: for tests and simulation only"


class ScriptedRng(Rng):
    """Hands out the words it was given, then stops: golden vectors and exhaustive enumeration.

    >>> ScriptedRng([5, 6]).words(2).tolist()
    [5, 6]
    """

    simulated: ClassVar[bool] = True

    def __init__(self, words: Sequence[int] | Words) -> None:
        self._words = np.asarray(words, dtype=np.uint64)
        self._next = 0

    def words(self, n: int) -> Words:
        """Return the next n words of the script."""
        start, self._next = self._next, self._next + n
        if self._next > len(self._words):
            raise SourceError(f"the script holds {len(self._words)} words, {self._next} were asked")
        return self._words[start : self._next]


def system_rng() -> SystemRng:
    """Return the operating system's generator."""
    return SystemRng()


def seeded_rng(seed: int) -> SeededRng:
    """Return a repeatable generator, for tests and simulation only."""
    return SeededRng(seed)


def require_rng(rng: object) -> Rng:
    """Refuse every source but ours: a numpy Generator on a device would be guessable."""
    if isinstance(rng, Rng):
        return rng
    raise SourceError(
        f"rng must come from murmuration.system_rng() (or seeded_rng(seed) in a simulation); "
        f"got {type(rng).__name__}"
    )


def drawn(words: Words) -> Ints:
    """Return the 52 bits of each word that laws are compared with."""
    return (words >> np.uint64(64 - WORD_BITS)).view(np.int64)


def uniform(rng: Rng, n: int, bound: int, each: int = 1) -> Ints:
    """Return integers below bound, exactly uniform, `each` for each of n people.

    Words past the last whole turn are drawn again.

    >>> from murmuration import seeded_rng
    >>> uniform(seeded_rng(1), 4, 6).max() < 6
    np.True_
    """
    turns = (1 << WORD_BITS) // bound * bound
    found = drawn(rng.words(n * each))
    while len(late := np.flatnonzero(found >= turns)):
        found[late] = drawn(rng.only(late // each).words(len(late)))
    return found % bound
