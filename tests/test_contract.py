"""Every mechanism keeps the contract, at small and large epsilon."""

from __future__ import annotations

import numpy as np
import pytest

import murmuration
from cases import CASES, KEPT, PUBLISHED, SUMMED, TUPLES, Case
from checks import MECHANISM_CHECKS, check_coverage
from murmuration import seeded_rng

EPSILONS = [0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 5.0]


def test_every_mechanism_has_a_row() -> None:
    named = {case.name for case in [*CASES, *KEPT]} | {*SUMMED, *TUPLES, *PUBLISHED}
    assert named == set(murmuration.list_mechanisms())


@pytest.mark.parametrize("check", MECHANISM_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_contract(case: Case, epsilon: float, check) -> None:
    check(case.at(epsilon))


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 0.7, 1.7, 10.0])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_loss_at_unusual_epsilon(case: Case, epsilon: float) -> None:
    loss = case.at(epsilon).loss()
    assert loss.holds
    assert epsilon - 1e-5 < loss.epsilon <= epsilon


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_worst_variance_is_the_published_one(case: Case, epsilon: float) -> None:
    expected = case.worst(epsilon) if callable(case.worst) else case.worst.get(epsilon)
    if expected is not None:
        assert case.at(epsilon).worst_variance() == pytest.approx(expected, rel=case.tolerance)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_coverage(case: Case, epsilon: float) -> None:
    # With three grid points nobody can tell how people spread between them: a bound is used.
    check_coverage(case.at(epsilon), tight=not (case.name == "three-output" and epsilon > 1))


@pytest.mark.parametrize("n", [50, 2000])
@pytest.mark.parametrize("epsilon", [1.0, 5.0, 8.0])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_coverage_when_everybody_is_at_one_end(case: Case, epsilon: float, n: int) -> None:
    """Reports that nearly all agree must not make the error vanish."""
    mechanism, rng, runs = case.at(epsilon), seeded_rng(31), 200
    for about in ("participants", "population"):
        hits = 0
        for _ in range(runs):
            tally = mechanism.tally(mechanism.privatize(np.ones(n), rng))
            low, high = mechanism.estimate(tally, about=about).interval(0.95)
            hits += low <= 1.0 <= high
        assert hits / runs > 0.95 - 4 * (0.95 * 0.05 / runs) ** 0.5
