"""Edges of graded ranges, chosen for a declared prior."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from murmuration import mechanism
from murmuration.errors import ParameterError
from murmuration.mechanisms.graded.base import pairwise_budgets
from murmuration.planning.edges import Crowd, Search, choose_edges

PRIOR = (4.0, 3.0, 2.0, 1.0)
FIVE = (0.5, 0.4, 0.3, 0.2, 0.1)


def over_prior(epsilon: tuple[float, ...], edges: tuple[float, ...], semantics: str) -> float:
    """The mean over the prior of what the mechanism itself says."""
    law = mechanism("graded-bit", epsilon=epsilon, edges=edges, semantics=semantics)
    x = (np.arange(256) + 0.5) / 128 - 1
    return float(law.variance(x) @ np.repeat(PRIOR, 64) / (64 * sum(PRIOR)))


@pytest.mark.parametrize("semantics", ["max", "min"])
def test_no_layout_that_is_allowed_is_better(semantics: str) -> None:
    budgets, allowed = (0.2, 1.0, 0.4), [(-0.8, -0.4), (0.1, 0.7)]
    found = choose_edges(budgets, PRIOR, between=allowed, semantics=semantics)
    assert found.variance == pytest.approx(over_prior(budgets, found.edges, semantics), rel=1e-3)
    layouts = itertools.product(*(np.linspace(low, high, 9) for low, high in allowed))
    errors = [over_prior(budgets, edges, semantics) for edges in layouts]
    assert found.variance <= min(errors) * (1 + 1e-3)
    for (low, high), edge in zip(allowed, found.edges, strict=True):
        assert low <= edge <= high


def test_every_range_holds_its_share_of_the_people() -> None:
    found = choose_edges(FIVE, PRIOR, shares=[0.1] * 5)
    assert min(found.shares) >= 0.1 - 1e-9
    assert sum(found.shares) == pytest.approx(1)
    draw = np.random.default_rng(1)
    layouts = np.sort(draw.uniform(-1, 1, (4000, 4)), axis=1)
    crowd = Crowd.of(PRIOR)
    allowed = [edges for edges in layouts if crowd.held(edges).min() >= 0.1]
    ratios = np.exp(np.array(pairwise_budgets(FIVE, "max")))
    search = Search(crowd, ratios, np.zeros(5))
    assert len(allowed) > 100
    assert found.variance <= min(map(search.variance, allowed))
    assert choose_edges((1.0, 0.1), PRIOR, shares=[0, 0.3]).edges == (0.0,)  # 30% are above 0


def test_what_cannot_be_chosen() -> None:
    for more, why in (
        ({}, "would vanish"),
        ({"between": [(0.5, 0.1)]}, "two places"),
        ({"between": [(0, 1), (0, 1)]}, "each of 1 edges"),
        ({"shares": [0.7, 0.7]}, "at most 1 in all"),
        ({"shares": [0.5]}, "each of 2 ranges"),
        ({"shares": [0, 0.9], "between": [(0.5, 0.9)]}, "no edges keep"),
        ({"prior": [-1, 1], "shares": [0, 0.1]}, "0 or more"),
    ):
        with pytest.raises(ParameterError, match=why):
            choose_edges(**{"epsilon": (1.0, 0.1), "prior": PRIOR, **more})
    with pytest.raises(ParameterError, match="no edges keep"):
        choose_edges(FIVE, PRIOR, between=[(0.9, 0.95), (-0.5, 0), (0, 0.1), (0.2, 0.3)])
