"""`mechanism("auto", ...)`: the planner's own choice, by the same name as any other mechanism."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from murmuration.errors import ParameterError
from murmuration.mechanisms.base import Mechanism, checked_epsilon
from murmuration.mechanisms.registry import mechanism as _named
from murmuration.planning.choose import choose_frequency, choose_numeric


def mechanism(
    name: str, epsilon: float | Sequence[float] | None = None, **parameters: Any
) -> Mechanism:
    """Return the mechanism of that name, or for "auto" the one that the planner recommends.

    With `k` that is for one of k items, without for a number; `people` (expected) may be given.

    >>> mechanism("auto", epsilon=1.0)
    Optimal(epsilon=1.0, prior=None)
    >>> mechanism("auto", epsilon=1.0, k=100).name
    'subset'
    """
    if name != "auto":
        return _named(name, epsilon, **parameters)
    if epsilon is None:
        raise ParameterError("auto: epsilon is missing")
    epsilon = checked_epsilon(epsilon)
    if unknown := set(parameters) - {"k", "people"}:
        raise ParameterError(f"auto takes epsilon, k and people; got {', '.join(sorted(unknown))}")
    if "k" in parameters:
        return choose_frequency(epsilon, **parameters).mechanism
    return choose_numeric(epsilon, **parameters).mechanism
