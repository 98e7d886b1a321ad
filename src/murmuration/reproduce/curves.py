"""Points that runs have measured, and the curves that they make: means with standard errors."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from murmuration.errors import ParameterError
from murmuration.exact.arrays import Floats


class Mean(NamedTuple):
    """The mean of a number over runs, and its standard error."""

    value: float
    stderr: float
    runs: int


@dataclass(frozen=True, order=True)
class Point:
    """The value of a series at x, from one run."""

    panel: str
    series: str
    x: float
    value: float
    run: int = 0


def mean_of(values: Floats) -> Mean:
    """Return the mean of runs; one run has no standard error (what is computed needs none).

    >>> mean_of(np.array([1.0, 3.0]))
    Mean(value=2.0, stderr=1.0, runs=2)
    """
    n = len(values)
    spread = float(np.std(values, ddof=1)) / math.sqrt(n) if n > 1 else 0.0
    return Mean(float(np.mean(values)), spread, n)


class Curves:
    """All points of a figure.

    >>> curves = Curves([Point("a", "ours", 1.0, 2.0, 0), Point("a", "ours", 1.0, 4.0, 1)])
    >>> curves.at("a", "ours", 1.0)
    Mean(value=3.0, stderr=1.0, runs=2)
    """

    def __init__(self, points: Iterable[Point]) -> None:
        self.points = tuple(points)

    @cached_property
    def _found(self) -> dict[tuple[str, str, float], dict[int, float]]:
        found: dict[tuple[str, str, float], dict[int, float]] = {}
        for point in self.points:
            found.setdefault((point.panel, point.series, point.x), {})[point.run] = point.value
        return found

    def panels(self) -> list[str]:
        """Return the panels, in the order of their points."""
        return list(dict.fromkeys(point.panel for point in self.points))

    def series(self, panel: str) -> list[str]:
        """Return the series of a panel, in the order of their points."""
        return list(dict.fromkeys(point.series for point in self.points if point.panel == panel))

    def xs(self, panel: str, series: str) -> list[float]:
        """Return where a series was measured, in order."""
        return sorted({x for one, name, x in self._found if (one, name) == (panel, series)})

    def runs(self, panel: str, series: str, x: float) -> dict[int, float]:
        """Return the value of each run."""
        try:
            return self._found[panel, series, float(x)]
        except KeyError:
            raise ParameterError(
                f"nothing was measured of {series!r} in {panel!r} at {x}"
            ) from None

    def at(self, panel: str, series: str, x: float) -> Mean:
        """Return the mean of all runs."""
        return mean_of(np.array(list(self.runs(panel, series, x).values())))

    def ratio(self, panel: str, top: str, bottom: str, x: float) -> Mean:
        """Return how many times one series is another: quotient of means, error by linearising.

        Runs of the same number are taken as pairs where both series have the same.

        >>> points = [Point("", name, 0, v, run) for run, (v, w) in enumerate([(1, 2), (3, 6)])
        ...           for name, v in (("a", v), ("b", w))]
        >>> Curves(points).ratio("", "a", "b", 0)
        Mean(value=0.5, stderr=0.0, runs=2)
        """
        return self.quotient((panel, top, x), (panel, bottom, x))

    def quotient(self, top: tuple[str, str, float], bottom: tuple[str, str, float]) -> Mean:
        """Return the same for points anywhere: (panel, series, x) each."""
        own, other = self.runs(*top), self.runs(*bottom)
        a, b = self.at(*top), self.at(*bottom)
        value = a.value / b.value
        if own.keys() == other.keys() and len(own) > 1:
            left = np.array([own[run] - value * other[run] for run in own])
            return Mean(value, mean_of(left).stderr / abs(b.value), len(own))
        return over(a, b)

    def exponent(self, panel: str, series: str) -> Mean:
        """Return the slope of log value against log x, weighted by how sure each value is."""
        xs = self.xs(panel, series)
        means = [self.at(panel, series, x) for x in xs]
        logs = np.log([mean.value for mean in means])
        errors = np.array([max(mean.stderr / mean.value, 1e-9) for mean in means])
        place = np.log(xs)
        weights = 1 / errors**2
        centred = place - weights @ place / weights.sum()
        spread = float(weights @ centred**2)
        return Mean(float(weights @ (centred * logs)) / spread, spread**-0.5, means[0].runs)


def worst(means: Sequence[Mean]) -> Mean:
    """Return the largest of some means."""
    return max(means, key=lambda mean: mean.value)


def least(means: Sequence[Mean]) -> Mean:
    """Return the smallest of some means."""
    return min(means, key=lambda mean: mean.value)


def over(top: Mean, bottom: Mean) -> Mean:
    """Return the quotient of two numbers that know nothing of each other.

    >>> over(Mean(1.0, 0.0, 5), Mean(2.0, 0.0, 4))
    Mean(value=0.5, stderr=0.0, runs=4)
    """
    value = top.value / bottom.value
    spread = math.hypot(top.stderr / bottom.value, value * bottom.stderr / bottom.value)
    return Mean(value, spread, min(top.runs, bottom.runs))
