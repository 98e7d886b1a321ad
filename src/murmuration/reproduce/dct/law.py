"""Lemma 1 (privacy) and the variance of section 5.1, computed from the law that is sampled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from murmuration.mechanisms.registry import numeric_mechanism
from murmuration.reproduce.curves import Curves, Point
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
    beside,
    fact,
)

EPSILONS = (0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 10.0)
VALUES = (0.0, 0.5, 1.0)
LOSS, VARIANCE = "exact loss", "variance of a report"
TRUE, PRINTED, PM = "measured", "printed formula", "PM, worst case"


def printed(epsilon: float, value: float) -> float:
    """Return the noise variance that section 5.1 states for alpha = 5.

    >>> round(printed(1.0, 0.0) * 375, 9)
    2.0
    """
    return (15 * epsilon * value**2 * (5 * epsilon - 1) + 2) / (3 * (5 * epsilon) ** 3)


def _losses() -> Sequence[Point]:
    return [
        Point(LOSS, name, epsilon, numeric_mechanism(law, epsilon=epsilon).loss().epsilon)
        for epsilon in EPSILONS
        for name, law in (("DCT", "dct"), ("PM", "piecewise"), ("Duchi", "duchi"))
    ]


def _variances() -> Sequence[Point]:
    found = []
    for epsilon in EPSILONS:
        law = numeric_mechanism("dct", epsilon=epsilon)
        for value in VALUES:
            panel = f"{VARIANCE}, value {value:g}"
            own = float(law.variance(np.array([value]))[0])
            found.append(Point(panel, TRUE, epsilon, own))
            found.append(Point(panel, PRINTED, epsilon, printed(epsilon, value)))
            worst = numeric_mechanism("piecewise", epsilon=epsilon).worst_variance()
            found.append(Point(panel, PM, epsilon, worst))
    return found


def _jobs_loss(scale: Scale) -> Mapping[Name, Job]:
    del scale
    return {("losses",): Job(Exact(_losses))}


def _jobs_variance(scale: Scale) -> Mapping[Name, Job]:
    del scale
    return {("variances",): Job(Exact(_variances))}


def _judge_loss(curves: Curves) -> list[Finding]:
    losses = {epsilon: curves.at(LOSS, "DCT", epsilon).value for epsilon in EPSILONS}
    kept = sum(loss <= epsilon for epsilon, loss in losses.items())
    values = ", ".join(f"{loss:g}" for loss in losses.values())
    return [
        fact(
            "Algorithm 3 keeps epsilon",
            kept == len(EPSILONS),
            f"exact loss {values} at epsilon {', '.join(f'{e:g}' for e in EPSILONS)}: a report is "
            "uniform around the value, so some reports give the value away",
            losses[1.0],
        ),
        beside(
            "Property 1 prints f = 2/(1 + eps); the proof needs 2/(1 + e^eps), which Algorithm 3 "
            "uses; the class bit is a fair coin, so neither changes a report",
            "ratio of randomised response with the printed f: eps, not e^eps",
        ),
    ]


def _judge_variance(curves: Curves) -> list[Finding]:
    true = {
        (e, v): curves.at(f"{VARIANCE}, value {v:g}", TRUE, e).value
        for e in EPSILONS
        for v in VALUES
    }
    off = {key: printed(*key) / value for key, value in true.items()}
    near = sum(abs(ratio - 1) < 0.05 for ratio in off.values())
    above_pm = [
        e for e in EPSILONS if printed(e, 1.0) > curves.at(f"{VARIANCE}, value 1", PM, e).value
    ]
    shape = max(abs(value * 75 * e**2 - 1) for (e, _), value in true.items())
    smaller = all(
        value < curves.at(f"{VARIANCE}, value {v:g}", PM, e).value for (e, v), value in true.items()
    )
    return [
        fact(
            "the printed formula is the variance",
            near == len(off),
            f"printed over measured: {min(off.values()):.3g} to {max(off.values()):.3g}; within 5% "
            f"at {near} of {len(off)} places",
            max(off.values()),
        ),
        fact(
            "the printed variance is below PM's worst case at every epsilon to 10",
            not above_pm,
            f"above it at epsilon {', '.join(f'{e:g}' for e in above_pm) or 'none'}",
        ),
        beside(
            "the variance is d^2/3 = 1/(75 eps^2), whatever the value",
            f"off by {shape:.2g} at most (rounding to a grid); "
            f"{'below' if smaller else 'not below'} PM's worst case everywhere",
        ),
    ]


def _audits() -> Sequence[Audited]:
    return [
        audited(f"{law}, epsilon {e:g}", numeric_mechanism(law, epsilon=e))
        for law in ("dct", "optimal")
        for e in (0.5, 1.0, 4.0)
    ]


FIGURES = {
    "D-L1": Figure(
        id="D-L1",
        where="Lemma 1",
        claim="DCT (Algorithm 3) satisfies epsilon-local differential privacy.",
        jobs=_jobs_loss,
        judge=_judge_loss,
        verdict="false",
        panels=(Panel(LOSS, "epsilon", "exact loss", log_x=True, log_y=True),),
        instead="optimal, piecewise or dithered: they keep what they promise. DCT has no repair "
        "that keeps its error.",
        audits=_audits,
    ),
    "D-var": Figure(
        id="D-var",
        where="section 5.1",
        claim="With alpha = 5 the noise variance is (15 eps v^2 (5 eps - 1) + 2) / (3 (5 eps)^3), "
        "and that is below PM's worst case.",
        jobs=_jobs_variance,
        judge=_judge_variance,
        verdict="false",
        panels=tuple(
            Panel(f"{VARIANCE}, value {v:g}", "epsilon", VARIANCE, log_x=True, log_y=True)
            for v in VALUES
        ),
        instead="The variance that the library states follows from the law that is sampled "
        "(`variance`).",
        audits=_audits,
    ),
}
