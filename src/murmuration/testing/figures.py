"""Checks of what analysts read: estimates without bias, variances, coverage of intervals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from murmuration.exact.arrays import Floats
from murmuration.exact.randomness import Rng, seeded_rng
from murmuration.mechanisms.base import Mechanism
from murmuration.mechanisms.domain import Number, Values
from murmuration.mechanisms.tally import Tally
from murmuration.results.estimate import AnyEstimate
from murmuration.testing.expected import STANDARD_ERRORS, crowd, expect

MOST_BIAS = 1e-13
"""In parts of the largest reading: what is left when the last bits are rounded."""
CONFIDENCE = 0.9
"""Of the intervals whose coverage is tried."""
PLACES = (-1.0, -0.3, 0.0, 0.777, 1.0)
"""At and between grid points."""


def flat(numbers: Any) -> Floats:
    """Return a number, an array, or a list of them as one array."""
    parts = numbers if isinstance(numbers, list) else [numbers]
    return np.concatenate([np.atleast_1d(part) for part in parts])


def ends(estimate: AnyEstimate, confidence: float) -> tuple[Floats, Floats]:
    """Return the ends of all intervals of an estimate."""
    intervals: Any = estimate.interval(confidence)
    pairs = intervals if isinstance(intervals, list) else [intervals]
    low, high = (flat([pair[end] for pair in pairs]) for end in (0, 1))
    return low, high


def collected(
    mechanism: Mechanism, values: Values, rng: Rng, about: str = "participants"
) -> AnyEstimate:
    """Return the estimate of one collection."""
    return mechanism.estimate(mechanism.tally(mechanism.privatize(values, rng)), about)


def check_unbiased(mechanism: Mechanism) -> None:
    """E[reading | value] = value by the law, where it tells; and every estimate of a crowd."""
    bias = mechanism.bias()
    expect(
        bias < MOST_BIAS,
        f"by the law, a report is read {bias:.2g} of its largest reading off: move the symbols' "
        "values (number.base.unbiased)",
    )
    values = crowd(mechanism, 60_000)
    estimate = collected(mechanism, values, seeded_rng(11))
    apart = flat(estimate.value) - mechanism.domain.truths(values)
    scores = apart / flat(estimate.stderr)
    worst = int(np.abs(scores).argmax())
    expect(
        abs(scores[worst]) < STANDARD_ERRORS,
        f"figure {worst} of 60,000 simulated people is {apart[worst]:+.4g} off, "
        f"{abs(scores[worst]):.1f} standard errors: the estimate is biased, or its error too small",
    )


def check_variance(mechanism: Mechanism) -> None:
    """Where a report is a symbol that is read as a number: its variance is the predicted one.

    That of others is checked by the width of their intervals.
    """
    readings = _readings(mechanism)
    if readings is None:
        return
    n = 50_000
    for x in PLACES:
        counts = mechanism.tally(mechanism.privatize(np.full(n, x), seeded_rng(17))).counts
        squares = (readings - x) ** 2
        mean = float(counts @ squares) / n
        stderr = math.sqrt(float(counts @ (squares - mean) ** 2) / n / n)
        predicted = float(mechanism.variance(x))
        expect(
            abs(mean - predicted) < STANDARD_ERRORS * stderr + 1e-9,
            f"variance({x}) is {predicted:.6g}; simulated reports have {mean:.6g} +- {stderr:.2g}",
        )
        worst = mechanism.worst_variance()
        text = f"variance({x}) is {predicted:.6g}, above worst_variance() = {worst:.6g}"
        expect(predicted <= worst + 1e-12, text)


def _readings(mechanism: Mechanism) -> Floats | None:
    """Return what each symbol is read as, for a number; None where reports are something else."""
    if not mechanism.domain.fits(Number()) or mechanism.adds != (0, 1):
        return None
    each = np.eye(mechanism.counters, dtype=np.int64)
    sums = [mechanism.term_sums(Tally(mechanism, counts, 1)) for counts in each]
    return np.array([float(found[0][0]) for found in sums]) if all(sums) else None


def coverage(mechanism: Mechanism, about: str, runs: int, people: int) -> Floats:
    """Return for each figure the share of runs in which its interval covers what it is about."""
    rng, domain = seeded_rng(23), mechanism.domain
    population = crowd(mechanism, 30_000)
    draw = np.random.default_rng(29)
    fixed = domain.part(population, draw.integers(0, 30_000, people))
    same = about == "participants"
    truths = domain.truths(fixed if same else population)
    hits = np.zeros(len(truths))
    for _ in range(runs):
        drawn = domain.part(population, draw.integers(0, 30_000, people))
        low, high = ends(collected(mechanism, fixed if same else drawn, rng, about), CONFIDENCE)
        hits += (low <= truths) & (truths <= high)
    return np.asarray(hits / runs)


def check_coverage(
    mechanism: Mechanism, *, tight: bool = True, runs: int = 500, people: int = 1500
) -> None:
    """Intervals cover as often as they say; and where they are `tight`, not much more often.

    Over all figures together, which are nearly independent where there are many.
    """
    for about in ("participants", "population"):
        shares = coverage(mechanism, about, runs, people)
        slack = 4 * math.sqrt(CONFIDENCE * (1 - CONFIDENCE) / runs)
        worst = slack * (1 + 0.1 * math.log2(len(shares)))  # of many, one is further off
        least, mean = float(shares.min()), float(shares.mean())
        text = f"{CONFIDENCE:.0%} intervals about the {about} cover"
        expect(least > CONFIDENCE - worst, f"{text} only {least:.1%} for one figure")
        expect(mean > CONFIDENCE - slack, f"{text} only {mean:.1%} on average")
        if tight or (about == "population" and mechanism.takes is Number):
            too_wide = f"{text} {mean:.1%}: they are wider than they need to be"
            expect(mean < CONFIDENCE + slack, too_wide)
