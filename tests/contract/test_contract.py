"""Every mechanism keeps the contract: numbers, graded ranges, items, tuples and vectors."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

import murmuration
from murmuration import seeded_rng
from murmuration.learn.papers.hiera import HieraGradient
from murmuration.mechanisms.registry import from_document, to_document
from murmuration.testing import CHECKS, check_coverage, check_mechanism
from murmuration.testing.figures import collected, ends
from tests.support.cases import (
    BROKEN,
    CASES,
    GRADED,
    ITEMS,
    NUMBERS,
    PAPER,
    VECTORS,
    Case,
    Parameters,
    fives,
    named,
)

RUNS = [  # one of each is quick, the others are slow
    pytest.param(
        *(case, parameters),
        id=f"{case}-{named(parameters)}",
        marks=[pytest.mark.slow] * (case.name == "dct" or parameters is not case.tried[-1]),
    )
    for case in CASES
    for parameters in case.tried
]


def test_every_mechanism_has_a_row() -> None:
    kinds = murmuration.list_mechanisms()
    assert {case.name for case in CASES} == set(kinds)
    assert {name for name, kind in kinds.items() if not kind.keeps_promise} == BROKEN


def test_every_parameter_is_documented() -> None:
    """`help()` and editors show what each is for: a line `name: ...` in the class's docstring."""
    for name, kind in murmuration.list_mechanisms().items():
        lines = [line.strip() for line in (kind.__doc__ or "").splitlines()]
        for field in dataclasses.fields(kind):
            documented = [line for line in lines if line.startswith(f"{field.name}: ")]
            assert len(documented) == 1, (name, field.name)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize(("case", "parameters"), RUNS)
def test_contract(case: Case, parameters: Parameters, check) -> None:
    if case.name == "duchi-multi-published" and check.__name__ == "check_unbiased":
        pytest.skip("biased as published: tests/unit/mechanisms/test_tuples.py shows by how much")
    check(case.at(parameters))


@pytest.mark.parametrize(("case", "parameters"), RUNS)
def test_a_document_makes_the_mechanism_by_its_name(case: Case, parameters: Parameters) -> None:
    mechanism = case.at(parameters)
    document = json.loads(json.dumps(to_document(mechanism)))
    again = from_document(document)
    assert (again, again.fingerprint) == (mechanism, mechanism.fingerprint)
    assert to_document(again) == to_document(mechanism)


@pytest.mark.slow
def test_contract_of_gradients_graded_by_an_attribute() -> None:
    """It estimates all its columns but the first: see test_learn."""
    mechanism = HieraGradient(epsilon=2.5, d=301, budgets=fives(0.5), edges=PAPER)
    check_mechanism(mechanism, skip=["unbiased"])


@pytest.mark.slow
@pytest.mark.parametrize(("case", "parameters"), RUNS)
def test_coverage(case: Case, parameters: Parameters) -> None:
    if case.name == "duchi-multi-published":
        pytest.skip("biased as published")
    if parameters.get("d", 1) > 100:
        pytest.skip("the same law as with fewer attributes: only its layout is another")
    runs = 500 if case in NUMBERS else 200 if case in GRADED else 100
    asked = case.name in ("harmony", "sampled", "block")  # about a part of the attributes each
    people = 1500 * (
        min(4, parameters.get("d", len(parameters.get("domains", "1")))) if asked else 1
    )
    check_coverage(case.at(parameters), tight=case.tight(parameters), runs=runs, people=people)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_error_is_the_published_one(case: Case) -> None:
    for parameters, error in case.errors:
        assert case.at(parameters).cost() == pytest.approx(error, rel=case.tolerance), parameters


def _unusual() -> list:
    """Epsilons and sizes that nothing else is tried at."""
    numbers = [
        (case, {**case.tried[0], "epsilon": epsilon})
        for case in NUMBERS
        if case.kept
        for epsilon in (0.01, 0.1, 0.7, 1.7, 10.0)
    ]
    items = [
        (case, {**case.tried[0], "epsilon": epsilon, "k": k})
        for case in ITEMS
        for epsilon in (0.05, 0.3, 1.7, 4.0, 8.0)
        for k in (2, 3, 17, 1000)
    ]
    vectors = [
        (case, {"epsilon": epsilon, "d": d})
        for case in VECTORS
        if case.kept
        for epsilon in (0.1, 1.0, 3.3, 6.0)
        for d in (1, 2, 5, 8, 30)
    ]
    return [
        pytest.param(*one, id=f"{one[0]}-{named(one[1])}") for one in [*numbers, *items, *vectors]
    ]


@pytest.mark.parametrize(("case", "parameters"), _unusual())
def test_the_loss_is_just_within_epsilon_at_any_size(case: Case, parameters: Parameters) -> None:
    loss = case.at(parameters).loss()
    assert loss.holds
    assert parameters["epsilon"] - 1e-5 < loss.epsilon <= parameters["epsilon"]


@pytest.mark.slow
@pytest.mark.parametrize("n", [50, 2000])
@pytest.mark.parametrize("epsilon", [1.0, 5.0, 8.0])
@pytest.mark.parametrize("case", NUMBERS, ids=str)
def test_coverage_when_everybody_is_at_one_end(case: Case, epsilon: float, n: int) -> None:
    """Reports that nearly all agree must not make the error vanish."""
    mechanism = case.at({**case.tried[0], "epsilon": epsilon})
    values, rng, runs = np.ones(n), seeded_rng(31), 120
    one = mechanism.domain.truths(values)
    for about in ("participants", "population"):
        hits = 0
        for _ in range(runs):
            low, high = ends(collected(mechanism, values, rng, about), 0.95)
            hits += int(((low <= one) & (one <= high)).all())
        assert hits / runs > 0.95 - 4 * (0.95 * 0.05 / runs) ** 0.5
