"""Mechanisms side by side: measured error, predicted error, and the limit that nobody can beat.

The unit is n * MSE: the squared error of the estimated mean times the number of people, which is
the variance of one report. It does not depend on the size of the crowd, so mechanisms compare
at any.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from murmuration.errors import ParameterError
from murmuration.exact.arrays import Floats
from murmuration.exact.randomness import Rng
from murmuration.lab.census import ages
from murmuration.lab.engine import measured
from murmuration.mechanisms.base import Mechanism
from murmuration.mechanisms.domain import Graded, Number
from murmuration.mechanisms.number.base import NumericMechanism
from murmuration.mechanisms.number.optimal import limit
from murmuration.mechanisms.registry import list_mechanisms, mechanisms_for, numeric_mechanism

CROWDS: dict[str, Callable[[np.random.Generator, int], Floats]] = {
    "uniform": lambda rng, n: rng.uniform(-1, 1, n),
    "gaussian": lambda rng, n: np.clip(rng.normal(0.3, 0.2, n), -1, 1),
    "exponential": lambda rng, n: np.clip(2 * rng.exponential(0.15, n) - 1, -1, 1),
    "gaussian-narrow": lambda rng, n: np.clip(rng.normal(0, 0.25, n), -1, 1),
    "exponential-0.3": lambda rng, n: np.clip(rng.exponential(0.3, n), -1, 1),
    "exponential-0.5": lambda rng, n: np.clip(rng.exponential(0.5, n), -1, 1),
    "exponential-low": lambda rng, n: np.clip(rng.exponential(0.3, n) - 1, -1, 1),
    "ages": ages,
    "ends": lambda rng, n: rng.choice([-1.0, 1.0], n),
    "middle": lambda rng, n: rng.uniform(-0.1, 0.1, n),
}
"""Named crowds on [-1, 1]: how private values may be spread.

`gaussian` and `exponential-0.3` are the HierA paper's (or `exponential-low`: it does not say),
`gaussian-narrow` and `exponential-0.5` the DCT paper's, `ages` those of a census, 0 to 90 years.
"""


@dataclass(frozen=True)
class Comparison:
    """One mechanism at one epsilon, all errors as n * MSE."""

    mechanism: str
    epsilon: float
    measured: float
    stderr: float
    predicted: float
    worst: float
    limit: float

    @property
    def above_limit(self) -> float:
        """How many times the least possible worst-case error this mechanism's worst case is."""
        return self.worst / self.limit


def crowd(name: str, n: int, seed: int = 1) -> Floats:
    """Return n private values of a named crowd.

    >>> len(crowd("uniform", 3))
    3
    """
    if name not in CROWDS:
        raise ParameterError(f"no crowd is called {name!r}; there are {', '.join(CROWDS)}")
    return CROWDS[name](np.random.default_rng(seed), n)


def contestants(names: Sequence[str] | None = None) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the numeric mechanisms to compare, variants included."""
    kept = mechanisms_for(Number, kept=True)
    chosen = {name: _numeric(name, list(kept)) for name in names} if names else kept
    return [(name, variant) for name, kind in chosen.items() for variant in kind.variants]


def _numeric(name: str, known: list[str]) -> type[Mechanism]:
    kind = list_mechanisms().get(name)
    if kind is not None and kind.takes is Graded:
        raise ParameterError(f"{name} has ranges: see `murmur compare graded`")
    if kind is None or kind.takes is not Number:
        there = ", ".join([*known, "dct"])
        raise ParameterError(f"no numeric mechanism is called {name!r}; there are {there}")
    return kind


@dataclass(frozen=True)
class MeanOf:
    """A contest: the mean of these values, by one mechanism."""

    mechanism: NumericMechanism
    values: Floats

    def collect(self, rng: Rng, repetition: int) -> list[float]:
        """Return n times the squared error of the mean."""
        del repetition
        tally = self.mechanism.tally(self.mechanism.privatize(self.values, rng))
        error = self.mechanism.estimate(tally).value - float(self.values.mean())
        return [len(self.values) * error**2]


def compare(
    values: Floats,
    epsilons: Sequence[float],
    runs: int,
    seed: int,
    names: Sequence[str] | None = None,
) -> Iterator[Comparison]:
    """Yield a row for each epsilon and mechanism, from `runs` collections of all the values.

    >>> row, = compare(crowd("ends", 1000), [1.0], 400, 1, ["duchi"])
    >>> abs(row.measured - row.predicted) < 4 * row.stderr
    True
    """
    contests: dict[tuple[str, float], MeanOf] = {}
    for epsilon in epsilons:
        for name, parameters in contestants(names):
            law = numeric_mechanism(name, epsilon=epsilon, **parameters)
            label = "-".join([name, *map(str, parameters.values())])
            label += "" if law.loss().holds else " (promise broken)"
            contests[label, epsilon] = MeanOf(law, values)
    for (label, epsilon), (error,) in measured(contests, runs, seed):
        law = contests[label, epsilon].mechanism
        yield Comparison(
            label,
            law.epsilon,
            error.mean,
            error.stderr,
            float(law.variance(values).mean()),
            law.worst_variance(),
            limit(law.epsilon),
        )
