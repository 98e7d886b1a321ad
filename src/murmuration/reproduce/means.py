"""Work that several figures share: how far the estimated mean of some values is off."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from murmuration.exact.arrays import Floats
from murmuration.exact.randomness import Rng
from murmuration.lab.compare import crowd
from murmuration.mechanisms.number.base import NumericMechanism
from murmuration.reproduce.curves import Point

PER_PASS = 500_000


@lru_cache(maxsize=8)
def people(name: str, n: int) -> Floats:
    """Return the values of a named crowd, the same at each call."""
    values = crowd(name, n)
    values.setflags(write=False)
    return values


@dataclass(frozen=True)
class AbsoluteError:
    """The absolute error of the mean of a crowd's values, by one mechanism."""

    panel: str
    series: str
    x: float
    law: NumericMechanism
    crowd: str
    n: int

    def collect(self, rng: Rng, repetition: int) -> Sequence[Point]:
        """Collect once."""
        values = people(self.crowd, self.n)
        tally = self.law.empty()
        for start in range(0, self.n, PER_PASS):
            part = values[start : start + PER_PASS]
            tally += self.law.tally(self.law.privatize(part, rng))
        error = abs(self.law.estimate(tally).value - float(values.mean()))
        return [Point(self.panel, self.series, self.x, error, repetition)]
