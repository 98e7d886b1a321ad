"""Which words a device draws with: they follow from its secret, and from what they are for.

    id          origin, digest, period                 the report's name: the same when sent again
    which       origin, digest, period                 which attributes are asked: no answer in it
    answer      origin, digest, cell, answer, period   the noise on an answer
    coin        origin, digest, cell, period           what must not look at the answer: a hash
    permanent   origin, digest, cell, answer           an answer that is kept for all periods
    spell       origin, digest, cell, answer, spell    one that is kept for a spell
    paid        origin, digest, cell, answer           what the ledger calls it: no word is drawn
    kept        origin, digest, cell, spell            what it calls that of a spell
    mask        origin, digest, cell, spell, nonce     what hides that one where it is kept
    spread      origin, digest, attribute              the label that stands for an unfit answer

So an answer that is asked for again under the same conditions has the same report, also on a
device that was restored from a backup; no two purposes share words; and two collectors never see
the same ones. A number that is asked again has one threshold and one lie for all its values: the
answer in `permanent`, `spell` and `paid` is empty then. Its noise, and all noise in a spell,
follows from the permanent answer instead of the value: a value that has changed since makes the
same report.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from murmuration.exact.arrays import Ints, Reports, Rows
from murmuration.exact.keyed import CrowdRng, Key, KeyedRng, Keys
from murmuration.mechanisms.base import Mechanism
from murmuration.mechanisms.frame import Asked
from murmuration.wire.ids import ID_BYTES, Ids

NONCE_BYTES = 16
"""Of each mask: two that hide answers of one spell are different, whatever copies there are."""


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
        """Return the id of the report of a period."""
        return self.key.name(self.origin, self.digest, "id", turn)[:ID_BYTES]

    def which(self, turn: str) -> KeyedRng:
        """Return the generator that draws which attributes are asked."""
        return self._rng("which", turn)

    def answer(self, cell: int, written: bytes | Rows, turn: str) -> KeyedRng:
        """Return the generator of the noise on an answer, as its domain writes it."""
        coins = self._rng("coin", str(cell), turn)
        return self._rng("answer", str(cell), _octets(written), turn, coins=coins)

    def permanent(self, cell: int, written: bytes | Rows, spell: int | None = None) -> KeyedRng:
        """Return the generator of an answer that is kept for all periods, or for one spell."""
        if spell is not None:
            return self._rng("spell", str(cell), _octets(written), str(spell))
        return self._rng("permanent", str(cell), _octets(written))

    def paid(self, cell: int, written: bytes | Rows) -> bytes:
        """Return the name by which the ledger knows a permanent answer."""
        return self.key.name(self.origin, self.digest, "paid", str(cell), _octets(written))

    def kept(self, cell: int, spell: int) -> bytes:
        """Return the name by which the ledger knows the permanent answer of a spell."""
        return self.key.name(self.origin, self.digest, "kept", str(cell), str(spell))

    def hidden(self, cell: int, spell: int, answer: bytes) -> bytes:
        """Hide a permanent answer of 8 bytes, each time under another mask; it takes the key."""
        nonce = os.urandom(NONCE_BYTES)
        return nonce + self.masked(cell, spell, nonce, answer)

    def shown(self, cell: int, spell: int, hidden: bytes) -> bytes:
        """Return a permanent answer that was hidden."""
        nonce, masked = hidden[:NONCE_BYTES], hidden[NONCE_BYTES:]
        return self.masked(cell, spell, nonce, masked)

    def masked(self, cell: int, spell: int, nonce: bytes, answer: bytes) -> bytes:
        """Hide 8 bytes, or show them: the two are one."""
        mask = self.key.name(self.origin, self.digest, "mask", str(cell), str(spell), nonce)
        return bytes(a ^ b for a, b in zip(answer, mask, strict=False))

    def spread(self, attributes: Iterable[str]) -> dict[str, KeyedRng]:
        """Return the generators of the labels that stand for invalid answers, by name."""
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
        """Return the ids of the reports of a period."""
        return self.keys.name(self.origin, self.digest, "id", turn)[:, :ID_BYTES]

    def which(self, turn: str) -> CrowdRng:
        """Return the generator that draws which attributes are asked."""
        return self._rng("which", turn)

    def answer(self, cell: int, written: Rows, turn: str) -> CrowdRng:
        """Return the generator of the noise on answers, as their domain writes them."""
        coins = self._rng("coin", str(cell), turn)
        return self._rng("answer", str(cell), written, turn, coins=coins)

    def permanent(self, cell: int, written: Rows, spell: int | None = None) -> CrowdRng:
        """Return the generator of answers that are kept for all periods, or for one spell."""
        if spell is not None:
            return self._rng("spell", str(cell), written, str(spell))
        return self._rng("permanent", str(cell), written)

    def spread(self, attributes: Iterable[str]) -> dict[str, CrowdRng]:
        """Return the generators of the labels that stand for invalid answers, by name."""
        return {name: self._rng("spread", name) for name in attributes}

    def _rng(self, purpose: str, *parts: str | Rows, coins: CrowdRng | None = None) -> CrowdRng:
        return self.keys.rng(self.origin, self.digest, purpose, *parts, coins=coins)


def answered(
    asked: Asked,
    law: Mechanism,
    words: DeviceWords | CrowdWords,
    turn: str,
    kept: Reports | None = None,
    spell: int | None = None,
) -> Rows:
    """Return the reports of one device or many on one cell, each by its own words.

    `kept` are permanent answers that are known: the spell's. The noise on them must not follow from
    the value that there is now.
    """
    written = law.domain.written(law.domain.checked(asked.values))
    if not law.memoised:
        return asked.answered(law, words.answer(asked.cell, written, turn))
    if kept is None:
        kept = remembered(asked, law, words, spell)
    said = written if law.by_value and spell is None else as_octets(kept)
    return law.to_rows(law.repeat(kept, words.answer(asked.cell, said, turn)))


def remembered(
    asked: Asked, law: Mechanism, words: DeviceWords | CrowdWords, spell: int | None = None
) -> Reports:
    """Return the permanent answers to the values that there are now."""
    written = owned(law, law.domain.written(law.domain.checked(asked.values)))
    return law.remember(asked.values, words.permanent(asked.cell, written, spell))


def owned(law: Mechanism, written: Rows) -> Rows:
    """Return what a permanent answer belongs to: the value, or nothing where one is for all."""
    return written if law.by_value else written[:, :0]


def as_octets(answers: Reports) -> Rows:
    """Return permanent answers as rows of 8 bytes."""
    return answers.astype("<i8").view(np.uint8).reshape(len(answers), 8)


def _octets(written: bytes | Rows) -> bytes:
    """Return one person's answer as it is written."""
    return written.tobytes() if isinstance(written, np.ndarray) else written
