"""Mechanisms for graded ranges side by side: error, and whether the promise behind it is kept.

The measure is the HierA paper's: the mean absolute error of the mean over many collections.
Everything about HierA is read from the same reports: as unbiased, with reuse and clipping as
published, and by maximum likelihood. Ordinary mechanisms compete at the smallest budget of the
matrix, the largest single epsilon that keeps all of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from murmuration.errors import ParameterError
from murmuration.exact.arrays import Floats
from murmuration.exact.randomness import Rng
from murmuration.lab.engine import Measured, Name, measured
from murmuration.mechanisms.graded.base import GradedMechanism, Matrix
from murmuration.mechanisms.graded.hiera import Hiera
from murmuration.mechanisms.number.base import NumericMechanism
from murmuration.mechanisms.registry import graded_mechanism, numeric_mechanism
from murmuration.mechanisms.tally import Tally


@dataclass(frozen=True)
class Reading:
    """A way from a tally to the mean, and n Var of it where there is a formula for it.

    `read` takes the tally and the number of the run, `variance` the private values.
    """

    label: str
    read: Callable[[Tally, int], float]
    variance: Callable[[Floats], float] | None = None
    mu: int = 0


Contest = tuple[NumericMechanism, list[Reading]]
"""A mechanism, and the ways to read its tallies."""

GRADED = ("graded-laplace", "graded-bit", "graded-optimal")
UNGRADED = ("duchi", "piecewise", "optimal")


@dataclass(frozen=True)
class GradedComparison:
    """One way to the mean at one epsilon: its error on the data, and the promise's state."""

    label: str
    epsilon: float
    error: float
    stderr: float
    predicted: float | None
    worst: float
    loss: float
    budget: float
    kept: bool
    mu: int
    """How often hiera uses a bit; 0 when it is not about reuse."""


@dataclass(frozen=True)
class Layout:
    """Ranges and how their budgets relate: budget g is `grades[g]` times epsilon."""

    grades: tuple[float, ...]
    edges: tuple[float, ...]
    semantics: str | Matrix = "max"

    def __post_init__(self) -> None:
        if not self.grades or not all(math.isfinite(g) and g > 0 for g in self.grades):
            raise ParameterError(f"grades are numbers above 0, as 5,4,3,2,1; got {self.grades}")

    def at(self, name: str, epsilon: float, **parameters: Any) -> GradedMechanism:
        """Return the graded mechanism of that name at this epsilon."""
        semantics = self.semantics
        if not isinstance(semantics, str):  # a matrix is in units of epsilon, like the grades
            semantics = tuple(tuple(entry * epsilon for entry in row) for row in semantics)
        return graded_mechanism(
            name,
            epsilon=self.budgets(epsilon),
            edges=self.edges,
            semantics=semantics,
            **parameters,
        )

    def budgets(self, epsilon: float) -> tuple[float, ...]:
        """The budget of each range."""
        return tuple(grade * epsilon for grade in self.grades)


def contests(
    layout: Layout, epsilon: float, left_out: Callable[[str], None] = lambda _: None
) -> list[Contest]:
    """Return each mechanism with the ways to read it; say which cannot be built, and why."""
    first = layout.at("hiera", epsilon)
    hiera = Hiera(first.epsilon, first.edges, first.semantics)
    contest: list[Contest] = [(hiera, _hiera_readings(hiera))]
    wanted: dict[str, Callable[[], NumericMechanism]] = {
        "hiera, calibrated": partial(layout.at, "hiera", epsilon, factor="calibrated"),
        **{name: partial(layout.at, name, epsilon) for name in GRADED},
        **{
            f"{name}, one budget": partial(numeric_mechanism, name, epsilon=hiera.least_budget)
            for name in UNGRADED
        },
    }
    for label, make in wanted.items():
        try:
            made = make()
            _ = made.design  # some refuse only when the table is made
            contest.append((made, [_plain(made, label)]))
        except ParameterError as problem:
            left_out(f"{label} at epsilon {epsilon:g}: {problem}")
    return contest


def _plain(chosen: NumericMechanism, label: str, mu: int = 0) -> Reading:
    """The mechanism's own unbiased estimate."""
    return Reading(
        label,
        lambda tally, _: chosen.estimate(tally).value,
        lambda values: float(chosen.variance(values).mean()),
        mu,
    )


def _hiera_readings(hiera: Hiera) -> list[Reading]:
    """The ways to read hiera: mu = 1 .. k, as published (mu = 2, clipped), and by likelihood."""
    readings = [_plain(hiera, "hiera mu=1", mu=1)]
    for mu in range(2, hiera.k + 1):
        readings.append(
            Reading(
                f"hiera mu={mu}",
                partial(_reused, hiera, mu, False),
                partial(hiera.reused_variance, mu=mu),
                mu,
            )
        )
    published = min(2, hiera.k)
    clipped = Reading(
        f"hiera as published (mu={published})", partial(_reused, hiera, published, True)
    )
    likely = Reading("hiera, likelihood", lambda tally, _: hiera.likelihood(tally).value)
    return [*readings, clipped, likely]


def _reused(hiera: Hiera, mu: int, clip: bool, tally: Tally, run: int) -> float:
    return hiera.aggregate(tally, mu, clip=clip, seed=run).value


@dataclass(frozen=True)
class Read:
    """A contest: the mean of these values by one mechanism, and the ways to read its tallies."""

    mechanism: NumericMechanism
    readings: list[Reading]
    values: Floats

    def collect(self, rng: Rng, repetition: int) -> list[float]:
        """Return the absolute error of each reading."""
        tally = self.mechanism.tally(self.mechanism.privatize(self.values, rng))
        truth = float(self.values.mean())
        return [abs(reading.read(tally, repetition) - truth) for reading in self.readings]


def compare(
    values: Floats,
    layout: Layout,
    epsilons: Sequence[float],
    runs: int,
    seed: int,
    left_out: Callable[[str], None] = lambda _: None,
) -> Iterator[list[GradedComparison]]:
    """Yield the rows of each mechanism at each epsilon, from `runs` collections of the values.

    >>> import numpy as np
    >>> layout = Layout(grades=(2.0, 1.0), edges=(0.0,))
    >>> rows = next(compare(np.linspace(-1, 1, 1000), layout, [1.0], 20, 1))
    >>> [row.label for row in rows]
    ['hiera mu=1', 'hiera mu=2', 'hiera as published (mu=2)', 'hiera, likelihood']
    """
    for epsilon in epsilons:
        read: dict[Name, Read] = {
            (readings[0].label, epsilon): Read(law, readings, values)
            for law, readings in contests(layout, epsilon, left_out)
        }
        for name, errors in measured(read, runs, seed):
            yield _rows(read[name], epsilon, errors)


def _rows(contest: Read, epsilon: float, errors: Sequence[Measured]) -> list[GradedComparison]:
    loss, worst = contest.mechanism.loss(), contest.mechanism.worst_variance()
    return [
        GradedComparison(
            reading.label,
            epsilon,
            error.mean,
            error.stderr,
            _predicted(reading, contest.values),
            worst,
            loss.epsilon,
            loss.claimed,
            loss.holds,
            reading.mu,
        )
        for reading, error in zip(contest.readings, errors, strict=True)
    ]


def _predicted(reading: Reading, values: Floats) -> float | None:
    """The mean absolute error of a normal deviate with the formula's variance."""
    if reading.variance is None:
        return None
    return math.sqrt(2 / math.pi * reading.variance(values) / len(values))
