"""Figure 1: the largest error of shares (a, b) and of means (c, d), against Hybrid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from murmuration.exact.randomness import Rng
from murmuration.lab.census import SHAPES, Census, census
from murmuration.mechanisms.base import Mechanism
from murmuration.mechanisms.registry import vector_mechanism
from murmuration.mechanisms.vector.base import TupleMechanism
from murmuration.planning.auto import mechanism
from murmuration.reproduce.curves import Curves, Point, worst
from murmuration.reproduce.figure import (
    Audited,
    Figure,
    Finding,
    Job,
    Name,
    Panel,
    Scale,
    above,
    audited,
    below,
    between,
)

EPSILONS = (0.5, 1.0, 2.0, 4.0)
BEYOND = 8.0
"""Further than papers on local privacy usually go: where the claim turns."""
PEOPLE = {"us": 9_000_000, "br": 4_000_000}
POOL = 1_000_000
PER_PASS = 100_000
HYBRID, HARMONY, OURS = "Hybrid", "Harmony", "ours: a few attributes, optimal laws"
SHARES, MEANS = "{}: shares", "{}: means"


def law(method: str, epsilon: float, shape: str, people: int) -> Mechanism:
    """Return the mechanism of a method."""
    domains = SHAPES[shape].domains
    if method == HYBRID:
        return vector_mechanism(
            "hybrid-composition", epsilon=epsilon, domains=domains, people=people
        )
    if method == HARMONY:
        return vector_mechanism("harmony", epsilon=epsilon, domains=domains)
    return mechanism("auto", epsilon, domains=domains)


@lru_cache(maxsize=2)
def pool(shape: str, people: int) -> Census:
    """Return the people that collections draw from."""
    return census(shape, people)


@dataclass(frozen=True)
class Collection:
    """Everybody's tuple by one method; the largest error of all shares, and of all means."""

    shape: str
    method: str
    epsilon: float
    people: int

    @cached_property
    def mechanism(self) -> TupleMechanism:
        """The method's law."""
        return law(self.method, self.epsilon, self.shape, self.people)  # type: ignore[return-value]

    def collect(self, rng: Rng, repetition: int) -> Sequence[Point]:
        """Collect once, a part of the people at a time; each is drawn from the pool."""
        everybody = pool(self.shape, min(self.people, POOL))
        columns, domains = everybody.tuples(), everybody.shape.domains
        draw = np.random.default_rng(rng.words(2).tolist())
        tally, truth = self.mechanism.empty(), [np.zeros(k or 1) for k in domains]
        for start in range(0, self.people, PER_PASS):
            size = min(PER_PASS, self.people - start)
            who = draw.integers(0, len(everybody), size)
            part = [column[who] for column in columns]
            tally += self.mechanism.tally(self.mechanism.privatize(part, rng))
            for own, column, k in zip(truth, part, domains, strict=True):
                own += np.bincount(column, minlength=k) if k else column.sum()
        found = self.mechanism.estimate(tally)
        off = [
            float(np.abs(part.value - own / self.people).max())
            for part, own in zip(found.parts, truth, strict=True)
        ]
        numbers = everybody.shape.numbers
        shown = self.shape.upper()
        return [
            Point(SHARES.format(shown), self.method, self.epsilon, max(off[numbers:]), repetition),
            Point(MEANS.format(shown), self.method, self.epsilon, max(off[:numbers]), repetition),
        ]


def _jobs(scale: Scale) -> Mapping[Name, Job]:
    runs = scale.pick(4, 20, 100)
    epsilons = scale.pick((1.0, 4.0), EPSILONS, EPSILONS)
    return {
        (shape, method, epsilon): Job(
            Collection(shape, method, epsilon, scale.pick(20_000, 100_000, people)), runs
        )
        for shape, people in PEOPLE.items()
        for epsilon in (*epsilons, BEYOND)
        for method in (HYBRID, HARMONY, OURS)
    }


def _judge_shares(curves: Curves) -> list[Finding]:
    found = []
    for shape in ("US", "BR"):
        panel = SHARES.format(shape)
        ratios = {x: curves.ratio(panel, HARMONY, HYBRID, x) for x in curves.xs(panel, HARMONY)}
        inside = [mean for x, mean in ratios.items() if x < BEYOND]
        found += [
            below(f"{panel}: below Hybrid's at every epsilon to 4", worst(inside), 1.0, "at worst"),
            between(f"{panel}: about 1/4 (.2 to .3) at epsilon 1", ratios[1.0], 0.2, 0.3),
            between(f"{panel}: about 1/4 (.2 to .3) at epsilon 4", ratios[4.0], 0.2, 0.3),
            below(f"{panel}: below Hybrid's at epsilon 8 too", ratios[BEYOND], 1.0),
        ]
    return found


def _judge_means(curves: Curves) -> list[Finding]:
    found = []
    for shape in ("US", "BR"):
        panel = MEANS.format(shape)
        ratios = {x: curves.ratio(panel, HARMONY, HYBRID, x) for x in curves.xs(panel, HARMONY)}
        found += [
            *(
                below(f"{panel}: below Hybrid's at epsilon {x:g}", ratios[x], 1.0)
                for x in (1.0, 4.0, BEYOND)
            ),
            above(f"{panel}: only slightly (above .8) at epsilon 1", ratios[1.0], 0.8),
        ]
    return found


def _audits() -> Sequence[Audited]:
    return [audited(name, law(name, 1.0, "us", 100_000)) for name in (HYBRID, HARMONY, OURS)]


CHOICES = (
    "IPUMS extracts may not be passed on: people come from a generator of the same shape "
    "(murmuration.lab.census), 6 numbers and 17 (US) or 12 (BR) categories.",
    "The error is the largest over all values of all attributes together, mean of all runs.",
    "The ticks of epsilon are not in the text: .5, 1, 2, 4, and 8 beyond.",
    "Hybrid's numbers go by the repaired law of section 3.1; beta of Bassily-Smith is .05.",
    "Quick: 100,000 people; both errors fall as 1/sqrt(n), so their ratio stays.",
)
INSTEAD = (
    'mechanism("auto", epsilon, domains=...): one attribute (or a few, from epsilon 5 on), with '
    "optimal laws instead of one bit."
)


def _figure(name: str, where: str, claim: str, panel: str, y: str, verdict: str) -> Figure:
    return Figure(
        id=name,
        where=where,
        claim=claim,
        jobs=_jobs,
        judge=_judge_shares if panel == SHARES else _judge_means,
        verdict=verdict,
        panels=tuple(
            Panel(panel.format(shape), "epsilon", y, log_x=True, log_y=True)
            for shape in ("US", "BR")
        ),
        instead=INSTEAD,
        choices=CHOICES,
        audits=_audits,
        family="H-1",
        hours=12,
    )


FIGURES = {
    "H-1ab": _figure(
        "H-1ab",
        "Fig. 1a, 1b",
        "Harmony's largest error of a share is below Hybrid's in all cases, about a quarter of it.",
        SHARES,
        "largest error of a share",
        "in part",
    ),
    "H-1cd": _figure(
        "H-1cd",
        "Fig. 1c, 1d",
        "Harmony's largest error of a mean is slightly below Hybrid's, whatever epsilon is.",
        MEANS,
        "largest error of a mean",
        "in part",
    ),
}
