"""Lemmas 1 to 5: privacy, no bias, how the error grows with d, n, k and epsilon; the matrix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from murmuration.exact.randomness import Rng
from murmuration.lab.census import SHAPES
from murmuration.mechanisms.registry import vector_mechanism
from murmuration.reproduce.curves import Curves, Mean, Point
from murmuration.reproduce.figure import (
    Audited,
    Exact,
    Figure,
    Finding,
    Job,
    Name,
    Panel,
    Scale,
    audited,
    below,
    between,
    fact,
)

EPSILONS = (0.5, 1.0, 2.0, 4.0)
DIMENSIONS = (4, 8, 16, 32, 64)
CROWDS = (10_000, 40_000, 160_000)
SIZES = (2, 4, 8, 16, 32)
CATEGORIES = 8
NUMBERS, ITEMS, PEOPLE = "Lemma 3: numbers", "Lemma 4: categories", "Lemma 3: people"
BIAS = "Lemma 2: bias"
SERIES = "Harmony"


@dataclass(frozen=True)
class LargestError:
    """The largest error of all means or shares, and the mean error of the first."""

    panel: str
    x: float
    domains: tuple[int, ...]
    people: int

    def collect(self, rng: Rng, repetition: int) -> Sequence[Point]:
        """Collect once at epsilon 1, from people who are all alike: half of them at each end."""
        harmony = vector_mechanism("harmony", epsilon=1.0, domains=self.domains)
        half = np.arange(self.people)
        columns = [half % k if k else half % 2 - 0.25 for k in self.domains]
        found = harmony.estimate(harmony.tally(harmony.privatize(columns, rng)))
        truths = [
            np.bincount(column, minlength=k) / self.people if k else column.mean()
            for column, k in zip(columns, self.domains, strict=True)
        ]
        off = [np.atleast_1d(p.value - t) for p, t in zip(found.parts, truths, strict=True)]
        largest = max(float(np.abs(one).max()) for one in off)
        first = float(off[0][0]) * np.sqrt(self.people)
        return [
            Point(self.panel, SERIES, self.x, largest, repetition),
            Point(BIAS, f"{self.panel}, n = {self.people:,}", self.x, first, repetition),
        ]


def _orthogonal() -> Sequence[Point]:
    """Multiply Sylvester's matrix by its transpose, as its signs are used: (-1)^popcount(r & c)."""
    found = []
    for bits in range(1, 9):
        size = 1 << bits
        places = np.arange(size)
        signs = 1 - 2 * (np.bitwise_count(places[:, None] & places) & 1).astype(np.int64)
        off = float(np.abs(signs.T @ signs - size * np.eye(size)).max())
        found.append(Point("Lemma 5: columns", "off orthogonal", size, off))
    return found


def _losses() -> Sequence[Point]:
    return [
        Point(
            "Lemma 1: exact loss",
            SERIES,
            epsilon,
            vector_mechanism("harmony", epsilon=epsilon, domains=SHAPES["us"].domains)
            .loss()
            .epsilon,
        )
        for epsilon in EPSILONS
    ]


def _jobs(scale: Scale) -> Mapping[Name, Job]:
    runs = scale.pick(10, 60, 400)
    n = 20_000
    jobs: dict[Name, Job] = {("matrix",): Job(Exact(_orthogonal)), ("loss",): Job(Exact(_losses))}
    for d in DIMENSIONS:
        jobs["d", d] = Job(LargestError(NUMBERS, d, (0,) * d, n), runs)
    for people in CROWDS:
        jobs["n", people] = Job(LargestError(PEOPLE, people, (0,) * 8, people), runs)
    for k in SIZES:
        jobs["k", k] = Job(LargestError(ITEMS, k, (k,) * CATEGORIES, n), runs)
    return jobs


def _flat(curves: Curves, panel: str, scale: object) -> Mean:
    """Return the last error over the first, after dividing by what the lemma says."""
    del scale
    xs = curves.xs(panel, SERIES)
    return curves.quotient((panel, SERIES, xs[-1]), (panel, SERIES, xs[0]))


def _scaled(mean: Mean, by: float) -> Mean:
    return Mean(mean.value / by, mean.stderr / by, mean.runs)


def _judge(curves: Curves) -> list[Finding]:
    over = max(curves.at("Lemma 1: exact loss", SERIES, e).value - e for e in EPSILONS)
    biases = [
        curves.at(BIAS, series, x)
        for series in curves.series(BIAS)
        for x in curves.xs(BIAS, series)
    ]
    largest = max(abs(mean.value) / mean.stderr for mean in biases)
    matrix = max(
        curves.at("Lemma 5: columns", "off orthogonal", size).value
        for size in curves.xs("Lemma 5: columns", "off orthogonal")
    )
    d = DIMENSIONS[-1] / DIMENSIONS[0]
    in_d = np.sqrt(d * np.log(DIMENSIONS[-1]) / np.log(DIMENSIONS[0]))
    logs = np.log(CATEGORIES * SIZES[-1]) / np.log(CATEGORIES * SIZES[0])
    return [
        fact("Lemma 1: privacy", over <= 0, f"exact loss less epsilon {over:.1g}", over),
        fact(
            "Lemma 2: no bias",
            largest < 4,
            f"{len(biases)} means, the furthest {largest:.2f} standard errors off",
            largest,
        ),
        between(
            "Lemma 3: grows as sqrt(d ln d)",
            _scaled(_flat(curves, NUMBERS, None), float(in_d)),
            0.6,
            1.4,
            f"d {DIMENSIONS[0]} to {DIMENSIONS[-1]}, measured over said",
        ),
        between(
            "Lemma 3: falls as 1/sqrt(n)",
            curves.exponent(PEOPLE, SERIES),
            -0.6,
            -0.4,
            "exponent",
        ),
        below(
            "Lemma 4: grows as sqrt(log k) at most",
            _scaled(_flat(curves, ITEMS, None), float(np.sqrt(logs))),
            1.4,
            f"k {SIZES[0]} to {SIZES[-1]}, measured over said",
        ),
        fact("Lemma 5: orthogonal columns", matrix == 0, "sizes 2 to 256, exactly", matrix),
    ]


def _audits() -> Sequence[Audited]:
    return [
        audited(
            f"Harmony, US, epsilon {epsilon:g}",
            vector_mechanism("harmony", epsilon=epsilon, domains=SHAPES["us"].domains),
        )
        for epsilon in EPSILONS
    ]


FIGURES = {
    "H-L1..L5": Figure(
        id="H-L1..L5",
        where="Lemmas 1 to 5",
        claim="Harmony keeps epsilon and has no bias; its largest error is O(sqrt(d log d) / (eps "
        "sqrt n)) for means, O(sqrt(d log k) / (eps sqrt n)) for shares; Algorithm 5's matrix has "
        "orthogonal columns.",
        jobs=_jobs,
        judge=_judge,
        verdict="holds",
        panels=(
            Panel(NUMBERS, "d", "largest error", log_x=True, log_y=True),
            Panel(PEOPLE, "people", "largest error", log_x=True, log_y=True),
            Panel(ITEMS, "k", "largest error", log_x=True, log_y=True),
        ),
        instead="The lemmas are right as bounds. They hide that a bit is worth coth(eps/2), which "
        "does not fall below 1: for large epsilon the error stays at sqrt(d/n), and answering more "
        "attributes is better.",
        choices=(
            "An O has no constant: what is measured is growth, at epsilon 1.",
            "The printed v|(-v) of Algorithm 5 is a misprint for v||(-v).",
        ),
        audits=_audits,
        hours=0.2,
    )
}
