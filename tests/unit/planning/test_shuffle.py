"""The clone bound against its table, and against the definition summed up term by term."""

from __future__ import annotations

import math
from collections import defaultdict

import pytest

from murmuration.errors import ParameterError
from murmuration.planning.shuffle import central_epsilon

# Worked out independently: (n, epsilon) -> central epsilon.
TABLE = {
    (10**4, 0.5): "0.0204",
    (10**4, 1): "0.0530",
    (10**4, 2): "0.155",
    (10**4, 4): "0.601",
    (10**5, 0.5): "0.0058",
    (10**5, 1): "0.0153",
    (10**5, 2): "0.0450",
    (10**5, 4): "0.170",
    (10**6, 0.5): "0.0016",
    (10**6, 1): "0.0043",
    (10**6, 2): "0.0130",
    (10**6, 4): "0.0493",
}


@pytest.mark.slow
@pytest.mark.parametrize(("n", "epsilon"), TABLE)
def test_the_table(n, epsilon) -> None:
    text = TABLE[n, epsilon]
    half_a_digit = 0.501 * 10.0 ** -len(text.partition(".")[2])
    assert central_epsilon(epsilon, n) == pytest.approx(float(text), abs=half_a_digit)


def two_laws(local: float, n: int):
    """The laws of the two counts under the person's two inputs, from the definition."""
    clone, truth = math.exp(-local), math.exp(local) / (math.exp(local) + 1)
    first, second = defaultdict(float), defaultdict(float)
    for c in range(n):
        clones = math.comb(n - 1, c) * clone**c * (1 - clone) ** (n - 1 - c)
        for a in range(c + 1):
            chance = clones * math.comb(c, a) / 2**c
            for own, rate in ((1, truth), (0, 1 - truth)):
                first[a + own, c - a + 1 - own] += chance * rate
                second[a + 1 - own, c - a + own] += chance * rate
    return first, second


def divergence(epsilon: float, laws) -> float:
    first, second = laws
    return sum(max(0.0, p - math.exp(epsilon) * second[y]) for y, p in first.items())


def brute_force(local: float, n: int, delta: float) -> float:
    laws = two_laws(local, n)
    low, high = 0.0, local
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if divergence(middle, laws) <= delta else (middle, high)
    return high


@pytest.mark.parametrize("n", [2, 3, 10, 40])
@pytest.mark.parametrize("local", [0.1, 0.7, 1.0, 3.0])
@pytest.mark.parametrize("delta", [1e-6, 1e-3, 0.05])
def test_small_crowds_by_brute_force(n, local, delta) -> None:
    """Equal to the definition, and on the safe side of it."""
    exact = brute_force(local, n, delta)
    assert exact - 1e-9 <= central_epsilon(local, n, delta) <= exact + 1e-6


@pytest.mark.slow
def test_more_people_hide_more_and_never_less_than_alone() -> None:
    for local in (0.2, 1.0, 5.0):
        found = [central_epsilon(local, n) for n in (1, 10, 1000, 10**5, 10**7, 10**9)]
        assert found == sorted(found, reverse=True)
        assert found[0] == local
    assert central_epsilon(1.0, 10**4, 1e-9) > central_epsilon(1.0, 10**4, 1e-4)


@pytest.mark.parametrize("epsilon", [20.0, 39.0, 40.5, 700.0])
def test_no_clone_no_gain(epsilon) -> None:
    """Nobody looks like a person with a huge epsilon; overflow must not say otherwise."""
    assert epsilon - 1e-5 < central_epsilon(epsilon, 10**6) <= epsilon


@pytest.mark.parametrize(
    ("epsilon", "n", "delta", "message"),
    [
        (0.0, 10, 1e-6, "epsilon must be finite and above 0"),
        (-1.0, 10, 1e-6, "epsilon must be"),
        (math.nan, 10, 1e-6, "epsilon must be"),
        (math.inf, 10, 1e-6, "epsilon must be"),
        ("1", 10, 1e-6, "epsilon must be"),
        (1.0, 0, 1e-6, "number of people"),
        (1.0, 10.0, 1e-6, "number of people"),
        (1.0, True, 1e-6, "number of people"),
        (1.0, 10, 0.0, "delta must be between"),
        (1.0, 10, 1.0, "delta must be between"),
        (1.0, 10, None, "delta must be between"),
    ],
)
def test_mistakes_are_named(epsilon, n, delta, message) -> None:
    with pytest.raises(ParameterError, match=message):
        central_epsilon(epsilon, n, delta)
