"""Which words a device draws with: they follow from its secret, and from what they are for.

    id          origin, digest, round                  the report's name: the same when sent again
    which       origin, digest, round                  which attributes are asked: no answer in it
    answer      origin, digest, cell, answer, round    the noise on an answer
    coin        origin, digest, cell, round            what must not look at the answer: a hash
    permanent   origin, digest, cell, answer           an answer that is kept for all rounds
    paid        origin, digest, cell, answer           what the ledger calls it: no word is drawn
    spread      origin, digest, attribute              the label that stands for an unfit answer

So an answer that is asked for again under the same conditions has the same report, also on a
device that was restored from a backup; no two purposes share words; and two collectors never see
the same ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from murmuration.exact.arrays import Ints, Reports, Rows
from murmuration.exact.keyed import CrowdRng, Key, KeyedRng, Keys
from murmuration.mechanisms.base import Mechanism
from murmuration.mechanisms.frame import Asked
from murmuration.wire.ids import ID_BYTES, Ids


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

    def answer(self, cell: int, written: bytes | Rows, turn: str) -> KeyedRng:
        """Return the generator of the noise on an answer, as its domain writes it."""
        coins = self._rng("coin", str(cell), turn)
        return self._rng("answer", str(cell), _octets(written), turn, coins=coins)

    def permanent(self, cell: int, written: bytes | Rows) -> KeyedRng:
        """Return the generator of an answer that is kept for all rounds."""
        coins = self._rng("permanent coin", str(cell))
        return self._rng("permanent", str(cell), _octets(written), coins=coins)

    def paid(self, cell: int, written: bytes | Rows) -> bytes:
        """Return the name by which the ledger knows a permanent answer."""
        return self.key.name(self.origin, self.digest, "paid", str(cell), _octets(written))

    def spread(self, attributes: Iterable[str]) -> dict[str, KeyedRng]:
        """Return the generators of the labels that stand for answers that are none, by name."""
        return {name: self._rng("spread", name) for name in attributes}

    def _rng(self, purpose: str, *parts: str | bytes, coins: KeyedRng | None = None) -> KeyedRng:
        return self.key.rng(self.origin, self.digest, purpose, *parts, coins=coins)


@dataclass(frozen=True)
class CrowdWords:
    """The same for many people's devices at once, by the same contexts: a key and a row for each.

    >>> import numpy as np
    >>> keys = Keys(np.zeros((1, 32), dtype=np.uint8))
    >>> alone = DeviceWords(Key(bytes(32)), "https://collector.example:443", "d1")
    >>> CrowdWords(keys, alone.origin, alone.digest).ids("").tobytes() == alone.report_id("")
    True
    """

    keys: Keys
    origin: str
    digest: str

    def only(self, who: Ints) -> CrowdWords:
        """Return the words of some of the devices."""
        return replace(self, keys=self.keys.only(who))

    def ids(self, turn: str) -> Ids:
        """Return the ids of the reports of a round."""
        return self.keys.name(self.origin, self.digest, "id", turn)[:, :ID_BYTES]

    def which(self, turn: str) -> CrowdRng:
        """Return the generator that draws which attributes are asked."""
        return self._rng("which", turn)

    def answer(self, cell: int, written: Rows, turn: str) -> CrowdRng:
        """Return the generator of the noise on answers, as their domain writes them."""
        coins = self._rng("coin", str(cell), turn)
        return self._rng("answer", str(cell), written, turn, coins=coins)

    def permanent(self, cell: int, written: Rows) -> CrowdRng:
        """Return the generator of answers that are kept for all rounds."""
        coins = self._rng("permanent coin", str(cell))
        return self._rng("permanent", str(cell), written, coins=coins)

    def spread(self, attributes: Iterable[str]) -> dict[str, CrowdRng]:
        """Return the generators of the labels that stand for answers that are none, by name."""
        return {name: self._rng("spread", name) for name in attributes}

    def _rng(self, purpose: str, *parts: str | Rows, coins: CrowdRng | None = None) -> CrowdRng:
        return self.keys.rng(self.origin, self.digest, purpose, *parts, coins=coins)


def answered(
    asked: Asked,
    law: Mechanism,
    words: DeviceWords | CrowdWords,
    turn: str,
    kept: Reports | None = None,
) -> Rows:
    """Return the reports of one device or many on one cell, each by its own words.

    `kept` are permanent answers from before they followed from a key.
    """
    written = law.domain.written(law.domain.checked(asked.values))
    noise = words.answer(asked.cell, written, turn)
    if not law.asked_again:
        return asked.answered(law, noise)
    if kept is None:
        kept = law.remember(asked.values, words.permanent(asked.cell, written))
    return law.to_rows(law.repeat(kept, noise))


def _octets(written: bytes | Rows) -> bytes:
    """Return one person's answer as it is written."""
    return written.tobytes() if isinstance(written, np.ndarray) else written
