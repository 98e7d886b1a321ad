"""The chain of epsilons through which reports are made to tell less.

A report that is converted to 0.5 today and to 0.25 tomorrow must not tell more by both than by the
first: the second is made of the first. So there is one chain, and every conversion walks it down
from what the report told to the step that is wanted, with the same words at each step. Then all
conversions of a report together tell what the largest of them tells.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from murmuration.errors import ParameterError
from murmuration.exact.arrays import Bits, Reports
from murmuration.mechanisms.base import MAX_EPSILON, MIN_EPSILON, checked_epsilon

CHAIN = tuple(
    factor * 2.0**power
    for power in range(4, -10, -1)
    for factor in (1.5, 1.0)
    if MIN_EPSILON <= factor * 2.0**power <= MAX_EPSILON
)
"""16, 12, 8, 6, 4, 3, 2, 1.5, 1, 0.75, 0.5, 0.375, 0.25 ... down to 1/512."""


def step_below(epsilon: float) -> float:
    """Return the largest step of the chain that is not above this.

    >>> step_below(0.6), step_below(3.0)
    (0.5, 3.0)
    """
    epsilon = checked_epsilon(epsilon)
    fits = [step for step in CHAIN if step <= epsilon]
    if not fits:
        raise ParameterError(f"reports are converted to {CHAIN[-1]:g} at least; got {epsilon!r}")
    return fits[0]


def way_down(start: float, end: float) -> tuple[float, ...]:
    """Return the steps from what a report told to `end`, both with it; `end` is one of the chain.

    >>> way_down(1.2, 0.5)
    (1.2, 1.0, 0.75, 0.5)
    >>> way_down(0.5, 0.5)
    (0.5,)
    """
    return (start, *(step for step in CHAIN if end <= step < start))


def checked_steps(steps: object, epsilon: float) -> tuple[float, ...]:
    """Return what a report told before each step: falling, the last above epsilon."""
    try:
        found = tuple(map(checked_epsilon, steps))  # type: ignore[call-overload]
    except TypeError:
        raise ParameterError(f"steps are epsilons that fall; got {steps!r}") from None
    found = found or (min(2 * epsilon, MAX_EPSILON),)
    if any(low >= high for high, low in pairwise((*found, epsilon))):
        raise ParameterError(f"steps fall, and end above {epsilon:g}; got {steps!r}")
    return found


def kept_or_blank(kept: Bits, reports: Reports, blank: Reports) -> Reports:
    """Return each report where it is kept, else the blank one.

    >>> kept_or_blank(np.array([True, False]), np.array([3, 4]), np.array([1, 2])).tolist()
    [3, 2]
    """
    choice = kept.reshape(-1, *[1] * (reports.ndim - 1))
    return np.where(choice, reports, blank).astype(reports.dtype, copy=False)
