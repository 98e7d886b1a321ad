"""What honest devices never send: tests that reports follow a law, whatever people answered.

A law produces each symbol with at least some probability and at most some other, whatever the
answer is. Reports of honest devices are independent, so two bounds hold for every crowd:

    Limits    n reports that add 0 to 1 each, `low` to `high` on average, add up to n m with
              probability at most e^(-n KL(m || high)) for m above `high`, and the same below `low`
              (Hoeffding 1963, Theorem 1)
    Mixture   n symbols are seen with frequencies at a distance KL of all mixtures of the law's rows
              with probability at most C(n+K-1, K-1) e^(-n KL), K the number of symbols

The second holds for people who differ, too: the product of their generating functions is at most
the n-th power of the mean (of the logarithm, which is concave), and then it is the method of types.
Both are bounds, not approximations. An alarm proves that something is wrong; no alarm proves
nothing: who lies within the law is not seen.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import gammaln, rel_entr

from murmuration.exact.arrays import Floats, Ints

FALSE_ALARM = 1e-6
"""The probability of any alarm at one look at a whole campaign, for every crowd, at most."""
MOST_ENTRIES = 1 << 17
"""Of a law whose mixtures are looked at."""
STEPS = 500
"""Of the fit, at most; what it has not reached by then is taken for a fit."""
ROUNDING = 1e-9
"""By what share probabilities may be off: law and sums are 52-bit integers, read as floats."""


@dataclass(frozen=True)
class Alarm:
    """Something that honest devices never send, and a bound on how often an honest one would."""

    what: str
    seen: float
    """What one report adds on average."""
    low: float
    high: float
    """What it adds for every crowd."""
    log_chance: float
    of: str = ""
    """The attribute, and the level if there are any."""

    def __str__(self) -> str:
        if math.isnan(self.seen):
            said = f"{self.what}: no honest answers explain them together"
        else:
            side = "more" if self.seen > self.high else "less"
            end = self.high if self.seen > self.high else self.low
            seen, limit = _percent(self.seen), _percent(end)
            said = f"{self.what}: {seen}, honest devices send no {side} than {limit}"
        head = f"{self.of}: " if self.of else ""
        return f"{head}{said} (p < {_power(self.log_chance)})"


@dataclass(frozen=True, eq=False)
class Evidence(ABC):
    """Something to look at in the reports of one law."""

    what: str

    @property
    @abstractmethod
    def looks(self) -> int:
        """How many tests there are in it."""

    @abstractmethod
    def alarms(self, log_level: float) -> list[Alarm]:
        """Return what has a chance below e^log_level, the least likely first."""


@dataclass(frozen=True, eq=False)
class Limits(Evidence):
    """Sums over independent trials, each adding 0 to 1, on average `low` to `high`.

    >>> coin = Limits("heads", np.array([900.0]), 1000, np.array([0.25]), np.array([0.75]))
    >>> [str(alarm) for alarm in coin.alarms(math.log(1e-6))]
    ['heads: 90%, honest devices send no more than 75% (p < 1e-31)']
    """

    what: str
    totals: Floats | Ints
    trials: int
    low: Floats | float
    high: Floats | float
    names: Sequence[str] = ()
    """What each sum is called; by its number, if there are several without names."""

    @property
    def looks(self) -> int:
        """Two for each sum: too little, and too much."""
        return 2 * len(self.totals)

    def log_chances(self) -> Floats:
        """Return a bound on the logarithm of the chance of each sum, or 0 for one within limits."""
        means = np.asarray(self.totals, dtype=np.float64) / max(self.trials, 1)
        low = np.clip(np.broadcast_to(self.low, means.shape) * (1 - ROUNDING), 0.0, 1.0)
        high = np.clip(np.broadcast_to(self.high, means.shape) * (1 + ROUNDING), 0.0, 1.0)
        nearest = np.clip(means, low, high)
        apart = rel_entr(means, nearest) + rel_entr(1 - means, 1 - nearest)
        return np.where(means == nearest, 0.0, -self.trials * np.asarray(apart))

    def alarms(self, log_level: float) -> list[Alarm]:
        """The sums that are too large or too small."""
        chances = self.log_chances()
        shape = chances.shape
        low, high = np.broadcast_to(self.low, shape), np.broadcast_to(self.high, shape)
        return [
            Alarm(
                self._name(place),
                *(float(self.totals[place]) / self.trials, float(low[place]), float(high[place])),
                log_chance=float(chances[place]),
            )
            for place in np.argsort(chances, kind="stable").tolist()
            if chances[place] < log_level
        ]

    def _name(self, place: int) -> str:
        if self.names:
            return f"{self.what} {self.names[place]}"
        return self.what if len(self.totals) == 1 else f"{self.what} {place}"


@dataclass(frozen=True, eq=False)
class Mixture(Evidence):
    """Counts of symbols, and the law: a row of probabilities for each answer."""

    what: str
    counts: Ints
    law: Floats

    @property
    def looks(self) -> int:
        """One: how far the frequencies are from all mixtures of rows."""
        return 1

    def alarms(self, log_level: float) -> list[Alarm]:
        """Whether no mixture of the rows comes near enough."""
        n, symbols = int(self.counts.sum()), len(self.counts)
        if n == 0 or self.law.size > MOST_ENTRIES:
            return []
        types = float(gammaln(n + symbols) - gammaln(symbols) - gammaln(n + 1))
        chance = types - n * self.distance((types - log_level) / n)
        if chance >= log_level:
            return []
        return [Alarm(self.what, math.nan, math.nan, math.nan, chance)]

    def distance(self, enough: float) -> float:
        """Return a lower bound on the distance, or 0 if it is not as large as `enough`.

        The fit is EM for the weights of the rows. Wherever it stops, the best fit is better by
        log max_x sum_y f_y P(y|x)/fit_y at most, so what is returned never exceeds the distance.
        """
        seen = self.counts > 0
        shares = self.counts[seen] / self.counts.sum()
        law = self.law[:, seen] * (1 + ROUNDING)
        weights = np.full(len(law), 1 / len(law))
        best = 0.0
        for _ in range(STEPS):
            fit = weights @ law
            if not fit.all():
                return math.inf
            apart = float(shares @ np.log(shares / fit))
            if apart <= enough:
                return 0.0
            gains = law @ (shares / fit)
            best = max(best, apart - math.log(max(float(gains.max()), 1.0)))
            if best > enough:
                return best
            weights = weights * gains
            weights /= weights.sum()
        return 0.0


def alarms(
    evidence: Iterable[tuple[str, Evidence]], false_alarm: float = FALSE_ALARM
) -> list[Alarm]:
    """Look at everything, each under the name of what it is about.

    All tests together give a false alarm with probability `false_alarm` at most (Bonferroni).
    """
    named = list(evidence)
    looks = sum(part.looks for _, part in named)
    if not looks:
        return []
    level = math.log(false_alarm / looks)
    return [replace(alarm, of=name) for name, part in named for alarm in part.alarms(level)]


def _percent(share: float) -> str:
    return f"{100 * share:.3g}%"


def _power(log_chance: float) -> str:
    """Return a power of ten that is at least the chance.

    >>> _power(-20.0), _power(-math.inf)
    ('1e-8', '1e-999')
    """
    return f"1e{max(-999, math.ceil(max(log_chance, -1e6) / math.log(10)))}"
