"""The exact audit: the law's loss in rational arithmetic, and proof that the sampler obeys the law.

The loss is a property of the integer table. It is worth something only if the sampler draws from
that table, so `disagreements` runs the real device code, down to the bytes on the wire, on the
words where the law says that the answer changes: each cumulative weight and the word before it.
Between two such words the answer cannot change without one of them being wrong.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from murmuration.law import Floats, Ints, Loss
from murmuration.numeric import NumericMechanism
from murmuration.randomness import ScriptedRng, Words


@dataclass(frozen=True)
class Audit:
    """The verdict on one mechanism."""

    loss: Loss
    words_tried: int
    disagreements: int

    @property
    def passed(self) -> bool:
        """Whether the law keeps its epsilon and the sampler keeps to the law."""
        return self.loss.holds and self.disagreements == 0


def audit(mechanism: NumericMechanism) -> Audit:
    """Compute the exact loss and run the sampler on every word where its answer must change.

    >>> import murmuration
    >>> audit(murmuration.mechanism("duchi", epsilon=1.0)).passed
    True
    """
    tried, wrong = _compare(mechanism)
    return Audit(mechanism.loss(), tried, wrong)


def _compare(mechanism: NumericMechanism) -> tuple[int, int]:
    """Return how many boundary words were tried and how many gave another symbol than the law."""
    table, points = mechanism.design.table, mechanism.design.grid.points
    tried = wrong = 0
    for row in range(len(points)):
        drawn, expected = _boundaries(table.weights[row])
        words = _as_words(drawn, table.total)
        for value, rounding in _ways_to(row, points):
            pairs = np.stack([np.full_like(words, rounding), words], axis=1)
            rng = ScriptedRng(pairs.ravel())
            reports = mechanism.privatize(np.full(len(words), value), rng)
            received = mechanism.unpack(mechanism.pack(reports))
            wrong += int((received != expected).sum())
            tried += len(words)
    return tried, wrong


def _ways_to(row: int, points: Floats) -> list[tuple[float, int]]:
    """Return values and rounding words that must end in this row of the table.

    On a grid point the rounding word must not matter; halfway to a neighbour it must decide.
    """
    lowest, highest = 0, (1 << 64) - 1
    ways = [(float(points[row]), lowest), (float(points[row]), highest)]
    if row + 1 < len(points):
        ways.append((float(points[row] + points[row + 1]) / 2, lowest))
    if row > 0:
        ways.append((float(points[row] + points[row - 1]) / 2, highest))
    return ways


def _boundaries(weights: Ints) -> tuple[Ints, Ints]:
    """Return the first and the last word of every symbol that has any, and those symbols."""
    ends = np.cumsum(weights)
    symbols = np.flatnonzero(weights)
    drawn = np.concatenate([ends[symbols] - weights[symbols], ends[symbols] - 1])
    return drawn, np.concatenate([symbols, symbols])


def _as_words(drawn: Ints, total: int) -> Words:
    """Put the law's words in the top bits, and ones below: the low bits must not matter."""
    spare = np.uint64(64 - total.bit_length() + 1)
    return (drawn.astype(np.uint64) << spare) | ((np.uint64(1) << spare) - np.uint64(1))
