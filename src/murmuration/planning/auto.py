"""`mechanism("auto", ...)`: the planner's own choice, by the same name as any other mechanism."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from murmuration.errors import ParameterError
from murmuration.mechanisms.base import Mechanism, checked_epsilon
from murmuration.mechanisms.domain import Box
from murmuration.mechanisms.number.optimal import MAX_EPSILON
from murmuration.mechanisms.registry import mechanism as _named
from murmuration.planning.choose import choose_frequency, choose_numeric


def mechanism(
    name: str, epsilon: float | Sequence[float] | None = None, **parameters: Any
) -> Mechanism:
    """Return the mechanism of that name, or for "auto" the one that the planner recommends.

    With `k` that is for one of k items, with `domains` (0 for a number, k for one of k items) or
    `d` for a tuple, without for a number; `people` (expected) may be given.

    >>> mechanism("auto", epsilon=1.0)
    Optimal(epsilon=1.0, prior=None)
    >>> mechanism("auto", epsilon=1.0, k=100).name
    'subset'
    >>> mechanism("auto", epsilon=1.0, domains=(0, 0, 5)).name
    'sampled'
    """
    if name != "auto":
        return _named(name, epsilon, **parameters)
    if epsilon is None:
        raise ParameterError("auto: epsilon is missing")
    epsilon = checked_epsilon(epsilon)
    if unknown := set(parameters) - {"k", "people", "d", "domains"}:
        raise ParameterError(
            f"auto takes epsilon, k, d, domains and people; got {', '.join(sorted(unknown))}"
        )
    if {"d", "domains"} & set(parameters):
        if "k" in parameters:
            raise ParameterError("auto takes k for one attribute, d or domains for several")
        return _for_tuples(epsilon, parameters.get("d"), parameters.get("domains"))
    if "k" in parameters:
        return choose_frequency(epsilon, **parameters).mechanism
    return choose_numeric(epsilon, **parameters).mechanism


PER_ANSWER = 2.5
"""Epsilon from which on one more attribute is answered (Wang et al. 2019)."""


def _for_tuples(epsilon: float, d: int | None, domains: tuple[int, ...] | None) -> Mechanism:
    """Ask each person a few attributes: as many as each have 2.5 of epsilon, one at least."""
    sizes = Box.of(d, domains).sizes
    sample = max(1, min(len(sizes), int(epsilon / PER_ANSWER)))
    numeric = "optimal" if epsilon / sample <= MAX_EPSILON else "piecewise"
    return _named("sampled", epsilon, domains=sizes, sample=sample, numeric=numeric)
