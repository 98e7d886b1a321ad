"""One row a mechanism: what the generic tests need to know about it. Add yours here."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import murmuration
from murmuration.mechanisms.number.piecewise import closed_form, plateau_ratio


def bound(epsilon: float) -> float:
    """B = coth(eps/2)."""
    return 1 / math.tanh(epsilon / 2)


def plateau(t: str) -> Callable[[float], float]:
    """The worst-case variance of the continuous piecewise mechanism."""
    return lambda epsilon: closed_form(epsilon, float(plateau_ratio(epsilon, t)), 1.0)


@dataclass(frozen=True)
class Case:
    """A mechanism, with the worst-case variance that its paper gives (a formula or a table)."""

    name: str
    worst: Callable[[float], float] | dict[float, float]
    parameters: dict[str, Any] = field(default_factory=dict)
    tolerance: float = 0.005

    def at(self, epsilon: float) -> murmuration.Mechanism:
        return murmuration.mechanism(self.name, epsilon=epsilon, **self.parameters)

    def __str__(self) -> str:
        return "-".join([self.name, *map(str, self.parameters.values())])


HYBRID = {0.25: 64.668, 0.5: 16.671, 1: 4.289, 2: 1.042, 3: 0.432, 4: 0.219, 5: 0.1215}
THREE = {0.25: 64.668, 0.5: 16.671, 1: 4.455, 2: 1.000, 3: 0.456, 4: 0.318, 5: 0.274}
# The certified lower end of the limit that nobody can beat (see tests/test_optimal.py).
LIMIT = {0.5: 16.00259, 1: 3.99054, 2: 0.86535, 3: 0.30394, 4: 0.12696, 5: 0.05726}

# n times the summed squared error at (epsilon, k), worked out independently of this code.
SUMMED = {
    "grr": {(0.5, 16): 616, (1, 4): 7.56, (1, 16): 98.7, (1, 128): 5654, (2, 16): 10.6},
    "sue": {(0.5, 16): 255, (1, 4): 15.7, (1, 16): 62.7, (1, 128): 501, (2, 128): 118},
    "oue": {(0.5, 16): 252, (1, 16): 59.9, (1, 1024): 3772, (4, 128): 10.7},
    "olh": {(0.5, 16): 255, (1, 16): 60.3, (1, 128): 474, (4, 1024): 78.9},
    "subset": {(0.5, 16): 219, (1, 16): 51.0, (1, 1024): 3763, (2, 128): 90.3, (4, 128): 8.64},
    "hadamard": {(0.5, 16): 266, (1, 16): 73.9, (1, 1024): 4794, (4, 128): 137},
    "hadamard-response": {(1, 16): 73.9, (2, 128): 220},
    "projective": {(1, 4): 7.56, (4, 1024): 78.1},
    "bassily-smith": {},
    "memoised": {(0.5, 16): 616, (1, 4): 7.56, (1, 16): 98.7, (1, 128): 5654, (2, 16): 10.6},
}

# The worst n Var of a coordinate at (d, epsilon), worked out independently of this code.
TUPLES = {
    "harmony": {(10, 1): 46.83, (10, 2): 17.24, (10, 4): 10.76, (100, 1): 468.3},
    "duchi-multi": {(10, 1): 60.73, (10, 2): 18.80, (10, 4): 10.34, (100, 2): 240.2},
    "duchi-multi-published": {},
    "block": {(10, 1): 45.86, (10, 2): 12.29, (10, 4): 3.35, (100, 2): 131.2, (100, 4): 41.2},
    "sampled": {},
    "hybrid-composition": {(10, 1): 60.73},
    "privunit": {(10, 0.5): 26.26, (10, 1): 7.328, (90, 2): 2.622, (90, 4): 1.420},
}

CASES = [
    Case("laplace", lambda epsilon: 8 / epsilon**2),
    Case("duchi", lambda epsilon: bound(epsilon) ** 2),
    Case("piecewise", plateau("pm")),
    Case("piecewise", plateau("sub"), {"t": "sub"}),
    Case("piecewise", plateau("optimal"), {"t": "optimal"}),
    Case("hybrid", HYBRID),
    Case("three-output", THREE),
    Case("dithered", lambda epsilon: bound(epsilon) ** 2 - 2 / 3, tolerance=0.001),
    Case("square-wave", {}),
    Case("optimal", LIMIT, tolerance=0.005),
]

PAPER = (-0.6, -0.2, 0.2, 0.6)


@dataclass(frozen=True)
class GradedCase:
    """A graded mechanism on one layout, with the worst-case variance worked out elsewhere."""

    name: str
    epsilon: tuple[float, ...]
    edges: tuple[float, ...] = PAPER
    parameters: dict[str, Any] = field(default_factory=dict)
    worst: float | None = None

    def make(self) -> murmuration.Mechanism:
        return murmuration.mechanism(
            self.name, epsilon=self.epsilon, edges=self.edges, **self.parameters
        )

    def __str__(self) -> str:
        budgets = ",".join(f"{budget:g}" for budget in self.epsilon)
        named = [str(value) for value in self.parameters.values() if isinstance(value, str)]
        other = "" if len(named) == len(self.parameters) else "matrix"
        return "-".join(filter(None, [self.name, budgets, *named, other]))


def fives(epsilon: float) -> tuple[float, ...]:
    """The HierA paper's budgets, least private range first."""
    return tuple(i * epsilon for i in (5, 4, 3, 2, 1))


MIN = {"semantics": "min"}
UNEVEN = (-0.9, 0.123)
MATRIX = {"semantics": ((1.0, 0.6, 2.5), (0.6, 0.4, 0.9), (2.5, 0.9, 3.0))}
LAYOUTS = [
    (fives(0.1), PAPER, {}),
    (fives(0.5), PAPER, {}),
    (fives(1.0), PAPER, MIN),
    ((0.5, 0.2, 0.1, 0.2, 0.5), PAPER, MIN),
    ((1.0, 0.4, 3.0), UNEVEN, MATRIX),
    ((0.3, 2.0, 0.7), UNEVEN, {}),
]
KEPT = [
    GradedCase(name, *layout) for name in ("graded-bit", "graded-optimal") for layout in LAYOUTS
]
"""Graded mechanisms that keep their promise."""

PUBLISHED = {"hiera", "graded-laplace", "dct"}
"""Built as published: their audit must say what they cost (tests/test_graded.py)."""
