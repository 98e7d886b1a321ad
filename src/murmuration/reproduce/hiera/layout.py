"""What all of HierA's figures share: five ranges, budgets 5e to e, and the crowds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from murmuration.lab.graded import Layout
from murmuration.mechanisms.graded.hiera import Hiera
from murmuration.mechanisms.registry import numeric_mechanism
from murmuration.reproduce.figure import Audited, audited

GRADES, EDGES = (5.0, 4.0, 3.0, 2.0, 1.0), (-0.6, -0.2, 0.2, 0.6)
LAYOUT = Layout(GRADES, EDGES)
LEVELS = len(GRADES)


def hiera(epsilon: float, factor: float | str = 1.0) -> Hiera:
    """Return HierA in the paper's layout; epsilon is the smallest budget."""
    return cast(Hiera, LAYOUT.at("hiera", epsilon, factor=factor))


def audits() -> Sequence[Audited]:
    """Return the exact losses at the smallest and the largest epsilon of the figures."""
    found = []
    for epsilon in (0.1, 1.0):
        found.append(audited(f"HierA, e = {epsilon:g} (largest budget 5e)", hiera(epsilon)))
        graded = LAYOUT.at("graded-laplace", epsilon)
        found.append(audited(f"graded Laplace, e = {epsilon:g}", graded))
        optimal = numeric_mechanism("optimal", epsilon=epsilon)
        found.append(audited(f"ours: optimal, one budget {epsilon:g}", optimal))
    return found
