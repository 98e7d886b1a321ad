"""Which words a device draws with: they follow from its secret, and from what they are for.

    id          origin, digest, round                  the report's name: the same when sent again
    which       origin, digest, round                  which attributes are asked: no answer in it
    answer      origin, digest, cell, answer, round    the noise on an answer
    coin        origin, digest, cell, round            what must not look at the answer: a hash
    permanent   origin, digest, cell, answer           an answer that is kept for all rounds
    spread      origin, digest, attribute              the label that stands for an unfit answer

So an answer that is asked for again under the same conditions has the same report, also on a
device that was restored from a backup; no two purposes share words; and two collectors never see
the same ones.
"""

from __future__ import annotations

from dataclasses import dataclass

from murmuration.exact.keyed import Key, KeyedRng
from murmuration.wire.ids import ID_BYTES


@dataclass(frozen=True)
class DeviceWords:
    """The words of one person's device in one collection at one collector.

    >>> words = DeviceWords(Key(bytes(32)), "https://collector.example:443", "d1")
    >>> words.report_id("monday").hex() == words.report_id("monday").hex()
    True
    """

    key: Key
    origin: str
    digest: str

    def report_id(self, turn: str) -> bytes:
        """Return the id of the report of a round."""
        return self.key.name(self.origin, self.digest, "id", turn)[:ID_BYTES]

    def which(self, turn: str) -> KeyedRng:
        """Return the generator that draws which attributes are asked."""
        return self._rng("which", turn)

    def answer(self, cell: int, written: bytes, turn: str) -> KeyedRng:
        """Return the generator of the noise on an answer, as its domain writes it."""
        coins = self._rng("coin", str(cell), turn)
        return self._rng("answer", str(cell), written, turn, coins=coins)

    def permanent(self, cell: int, written: bytes) -> KeyedRng:
        """Return the generator of an answer that is kept for all rounds."""
        coins = self._rng("permanent coin", str(cell))
        return self._rng("permanent", str(cell), written, coins=coins)

    def spread(self, attribute: str) -> KeyedRng:
        """Return the generator of the label that stands for an answer that is none."""
        return self._rng("spread", attribute)

    def _rng(self, purpose: str, *parts: str | bytes, coins: KeyedRng | None = None) -> KeyedRng:
        return self.key.rng(self.origin, self.digest, purpose, *parts, coins=coins)
