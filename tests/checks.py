"""The contract, as functions: each raises AssertionError when a mechanism breaks it.

`test_contract.py` runs them on every mechanism; `test_planted_bugs.py` shows that each planted
bug is caught by at least one of them.
"""

from __future__ import annotations

import math
import os
from fractions import Fraction

import numpy as np
import pytest

from murmuration.audit.empirical import attack, wire
from murmuration.audit.exact import audit
from murmuration.errors import InputError, ReportError
from murmuration.exact.randomness import Rng, ScriptedRng, seeded_rng, system_rng
from murmuration.mechanisms.number.base import NumericMechanism

STANDARD_ERRORS = 4.5  # a bound that 1 in 150,000 fair runs would cross; seeds are fixed anyway


def people(n: int, seed: int = 5) -> np.ndarray:
    """A skewed crowd with some at both ends and most between grid points."""
    rng = np.random.default_rng(seed)
    values = 2 * rng.beta(2, 5, size=n) - 1
    values[: n // 50] = 1.0
    values[n // 50 : n // 25] = -1.0
    return values


def check_loss(mechanism: NumericMechanism) -> None:
    """The exact loss is in (epsilon - 1e-5, epsilon], and the sampler draws from that law."""
    verdict = audit(mechanism)
    assert verdict.loss.holds
    assert mechanism.epsilon - 1e-5 < verdict.loss.epsilon <= mechanism.epsilon
    assert verdict.disagreements == 0


def check_wire(mechanism: NumericMechanism) -> None:
    """Reports have one length, survive the wire, and tell no more than epsilon."""
    values = people(2000)
    reports = mechanism.privatize(values, seeded_rng(3))
    data = mechanism.pack(reports)
    assert len(data) == len(values) * mechanism.report_bytes
    assert mechanism.report_bytes == max(1, math.ceil(math.log2(mechanism.symbols) / 8))
    assert (mechanism.unpack(data) == reports).all()
    evidence = attack(wire(mechanism, seeded_rng(4)), -1.0, 1.0, n=40_000)
    assert evidence.epsilon <= mechanism.budget, evidence


def check_each_person_alone(mechanism: NumericMechanism) -> None:
    """A batch is the same as its people one by one: nobody's report depends on another's value."""
    values = people(300)
    words = seeded_rng(6).words(2 * len(values))
    together = mechanism.privatize(values, ScriptedRng(words))
    rng = ScriptedRng(words)
    alone = [mechanism.privatize([value], rng)[0] for value in values]
    assert together.tolist() == alone


def check_unbiased(mechanism: NumericMechanism) -> None:
    """E[value | x] = x at every grid point, in rationals; and over a simulated crowd."""
    design = mechanism.design
    values = [Fraction(value) for value in design.values.tolist()]
    scale = max(1.0, float(np.abs(design.values).max()))
    rows = range(0, len(design.weights), max(1, len(design.weights) // 8))
    for row in [*rows, len(design.weights) - 1]:
        weights = design.weights[row].tolist()
        mean = sum(w * v for w, v in zip(weights, values, strict=True)) / sum(weights)
        assert abs(float(mean) - design.grid.points[row]) < 1e-13 * scale
    crowd = people(200_000)
    estimate = mechanism.estimate(mechanism.tally(mechanism.privatize(crowd, seeded_rng(11))))
    stderr = math.sqrt(mechanism.variance(crowd).mean() / len(crowd))
    assert abs(estimate.value - crowd.mean()) < STANDARD_ERRORS * stderr


def check_variance(mechanism: NumericMechanism) -> None:
    """The predicted variance is the variance of simulated reports, at and between grid points."""
    n = 100_000
    for x in (-1.0, -0.3, 0.0, 0.777, 1.0):
        reports = mechanism.privatize(np.full(n, x), seeded_rng(17))
        squares = (mechanism.design.values[reports] - x) ** 2
        predicted = float(mechanism.variance(x))
        stderr = squares.std() / math.sqrt(n)
        assert abs(squares.mean() - predicted) < STANDARD_ERRORS * stderr + 1e-9
        assert predicted <= mechanism.worst_variance() + 1e-12


def coverage(mechanism: NumericMechanism, about: str, runs: int, level: float) -> float:
    """The share of runs in which the interval covers what it is about."""
    n, hits = 1500, 0
    rng = seeded_rng(23)
    population = people(100_000)
    draw = np.random.default_rng(29)
    fixed = draw.choice(population, n)
    for _ in range(runs):
        crowd = fixed if about == "participants" else draw.choice(population, n)
        truth = fixed.mean() if about == "participants" else population.mean()
        tally = mechanism.tally(mechanism.privatize(crowd, rng))
        low, high = mechanism.estimate(tally, about=about).interval(level)
        hits += low <= truth <= high
    return hits / runs


def check_coverage(mechanism: NumericMechanism, *, tight: bool = True) -> None:
    """Intervals cover as often as they say; and, where the table can tell, not much more often."""
    level, runs = 0.9, 1000
    slack = 4 * math.sqrt(level * (1 - level) / runs)
    for about in ("participants", "population"):
        share = coverage(mechanism, about, runs, level)
        assert share > level - slack, (about, share)
        if tight or about == "population":
            assert share < level + slack, (about, share)


def check_refusals(mechanism: NumericMechanism) -> None:
    """Bad values and bad reports are refused, and no private value is in the message."""
    for bad in (1.0000001, -1.5, 31.4159, math.nan, math.inf):
        with pytest.raises(InputError) as refused:
            mechanism.privatize([0.5, bad], system_rng())
        assert "31.4159" not in str(refused.value)
    for bad in (mechanism.symbols, -1, 10**9):
        with pytest.raises(ReportError):
            mechanism.tally(np.array([0, bad]))
    with pytest.raises(ReportError):
        mechanism.tally(np.array([0.5]))


def check_fresh_randomness(mechanism: NumericMechanism) -> None:
    """Two runs on the system's generator differ, whoever wrote the mechanism."""
    values = np.zeros(4000)
    first, second = (mechanism.privatize(values, system_rng()) for _ in range(2))
    assert (first != second).any()


def check_fork(rng: Rng) -> None:
    """A forked child never repeats its parent's words."""
    rng.words(4)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, rng.words(4).tobytes())
        os._exit(0)
    os.waitpid(child, 0)
    theirs = np.frombuffer(os.read(read, 64), dtype=np.uint64)
    os.close(read)
    os.close(write)
    assert (theirs != rng.words(4)).all()


MECHANISM_CHECKS = [
    check_loss,
    check_wire,
    check_each_person_alone,
    check_unbiased,
    check_variance,
    check_refusals,
    check_fresh_randomness,
]
