"""Theorem 2 (privacy), by the exact law of what is sent, and Theorem 3 (no bias)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from murmuration.exact.randomness import Rng
from murmuration.reproduce.curves import Curves, Point
from murmuration.reproduce.figure import (
    Exact,
    Figure,
    Finding,
    Job,
    Name,
    Panel,
    Scale,
    agrees,
    beside,
    fact,
    noted,
)
from murmuration.reproduce.hiera.layout import GRADES, LEVELS, audits, hiera
from murmuration.reproduce.means import people

EPSILONS = (0.1, 0.2, 0.5, 1.0)
RATIO, INSIDE = "exact loss over promise, worst pair of ranges", "inside the most private range"

MEANT, PRINTED, CLIPPED = "as meant, not clipped", "step 5 as printed", "as meant, clipped"
FEW = 200
"""People that are few enough for clipping to bite."""


def _losses() -> Sequence[Point]:
    found = []
    for epsilon in EPSILONS:
        law = hiera(epsilon)
        loss = law.loss().pairwise
        promised = np.maximum.outer(np.array(GRADES), np.array(GRADES)) * epsilon
        found.append(Point(RATIO, "HierA", epsilon, float((loss / promised).max())))
        found.append(Point(INSIDE, "HierA", epsilon, float(loss[-1, -1] / promised[-1, -1])))
        kept = hiera(epsilon, "calibrated")
        ratio = float((kept.loss().pairwise / promised).max())
        found.append(Point(RATIO, "HierA, calibrated", epsilon, ratio))
    return found


def _jobs_privacy(scale: Scale) -> Mapping[Name, Job]:
    del scale
    return {("losses",): Job(Exact(_losses))}


def _judge_privacy(curves: Curves) -> list[Finding]:
    ratios = {e: curves.at(RATIO, "HierA", e).value for e in EPSILONS}
    inside = {e: curves.at(INSIDE, "HierA", e).value for e in EPSILONS}
    factor = float(hiera(0.1, "calibrated").factor)
    return [
        fact(
            "two values x, x' cost at most max(eps_x, eps_x')",
            max(ratios.values()) <= 1,
            "loss over promise " + ", ".join(f"{r:.3g} at e = {e:g}" for e, r in ratios.items()),
            ratios[0.1],
        ),
        fact(
            "inside the most private range two values cost at most its budget",
            max(inside.values()) <= 1,
            "loss over promise " + ", ".join(f"{r:.3g} at e = {e:g}" for e, r in inside.items()),
            inside[0.1],
        ),
        beside(
            "the proof bounds the grade and the bit one by one; what is sent is the pair",
            f"to keep the promise at e = .1, all budgets are multiplied by {factor:.3g}",
        ),
    ]


# --- Theorem 3 -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bias:
    """By how much the mean is off, with its sign, read in three ways from the same reports."""

    crowd: str
    n: int
    epsilon: float
    mu: int

    def collect(self, rng: Rng, repetition: int) -> Sequence[Point]:
        """Collect once."""
        law, values = hiera(self.epsilon), people(self.crowd, self.n)
        tally = law.tally(law.privatize(values, rng))
        ways = {
            MEANT: law.aggregate(tally, self.mu, clip=False, seed=repetition),
            PRINTED: law.aggregate(tally, self.mu, clip=False, seed=repetition, as_printed=True),
            CLIPPED: law.aggregate(tally, self.mu, clip=True, seed=repetition),
        }
        return [
            Point(
                f"{self.n:,} people", way, self.mu, found.value - float(values.mean()), repetition
            )
            for way, found in ways.items()
        ]


def _jobs_bias(scale: Scale) -> Mapping[Name, Job]:
    jobs: dict[Name, Job] = {}
    for mu in (1, 2, LEVELS):
        jobs["many", mu] = Job(Bias("uniform", 20_000, 1.0, mu), scale.pick(60, 400, 4000))
        jobs["few", mu] = Job(Bias("gaussian", FEW, 0.1, mu), scale.pick(300, 2000, 20_000))
    return jobs


def _judge_bias(curves: Curves) -> list[Finding]:
    many, few = "20,000 people", f"{FEW:,} people"
    return [
        agrees(
            "with conversions and copies, as the text explains step 5, mu = 2",
            curves.at(many, MEANT, 2),
            0.0,
            "bias",
        ),
        agrees(
            f"the same, mu = {LEVELS}",
            curves.at(many, MEANT, LEVELS),
            0.0,
            "bias",
        ),
        agrees(
            "step 5 as printed (copies in place of conversions), mu = 2",
            curves.at(many, PRINTED, 2),
            0.0,
            "bias",
        ),
        agrees(
            f"with step 6, which clips: {FEW} people, e = .1, mu = 2",
            curves.at(few, CLIPPED, 2),
            0.0,
            "bias",
        ),
        noted(
            f"step 5 as printed, mu = {LEVELS}",
            curves.at(many, PRINTED, LEVELS),
            "bias",
        ),
    ]


FIGURES = {
    "A-T2": Figure(
        id="A-T2",
        where="Theorem 2",
        claim="Algorithm 3 satisfies graded local differential privacy: two values cost at most "
        "the larger of their ranges' budgets.",
        jobs=_jobs_privacy,
        judge=_judge_privacy,
        verdict="false",
        panels=(
            Panel(RATIO, "epsilon (smallest budget)", "loss / promise", log_x=True),
            Panel(INSIDE, "epsilon (smallest budget)", "loss / promise", log_x=True),
        ),
        instead='graded-optimal or graded-bit; HierA with factor="calibrated" keeps the promise '
        "at a larger error.",
        audits=audits,
    ),
    "A-T3": Figure(
        id="A-T3",
        where="Theorem 3",
        claim="The mean that Algorithm 5 estimates is unbiased.",
        jobs=_jobs_bias,
        judge=_judge_bias,
        verdict="in part",
        panels=(
            Panel("20,000 people", "mu", "estimate - truth"),
            Panel(f"{FEW:,} people", "mu", "estimate - truth"),
        ),
        instead="`Hiera.estimate` (mu = 1, not clipped): unbiased, with the least variance of all "
        "mu.",
        choices=(
            "Step 5 as printed puts copies in the place of the last levels; the text below it "
            "needs copies and conversions. Both are run.",
            "The printed probability (p_i + p_j - 1)/(2 p_i - 1) is read as that of keeping a bit.",
        ),
        hours=0.2,
    ),
}
