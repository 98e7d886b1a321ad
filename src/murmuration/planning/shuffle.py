"""What a crowd adds: the central privacy of shuffled reports, by the numeric clone bound.

Each of the other n - 1 people sends, with probability exp(-ε₀), a report that looks like one of
two clones of the person in question, either one equally likely. With C clones, A of them of the
first kind, anyone who tries to tell two inputs of that person apart sees no more than

    P = (A + Δ, C - A + 1 - Δ)    or    Q = (A + 1 - Δ, C - A + Δ),

where C ~ Bin(n - 1, exp(-ε₀)), A ~ Bin(C, 1/2) and Δ ~ Bern(e^ε₀ / (e^ε₀ + 1)). The central ε is
the smallest one for which the hockey-stick divergence of P from Q is at most δ. Exchanging the two
counts exchanges P and Q, so one direction is enough.

Source: Feldman, McMillan and Talwar, "Hiding among the clones" (2021).
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, betaincc

from murmuration.errors import ParameterError

Floats = NDArray[np.float64]

TAIL_ERROR = 1e-11
"""Relative error allowed to a tail probability, on the safe side (measured: 3e-12 for 1e8)."""
LARGEST_CROWD = 10**8
"""A larger crowd counts as this many: more people never hide less, so the bound stays valid."""
LARGEST_EPSILON = 40.0
"""Above this ε₀ not one clone is expected in the largest crowd, and ε₀ itself is returned."""
COARSENESS = 4e-5
"""Width of an interval of values of C, as a share of its mean; costs 1e-5 of the central ε."""
HALVINGS = 44
"""Halvings of [0, ε₀]."""


def central_epsilon(epsilon: float, n: int, delta: float = 1e-6) -> float:
    """Return an ε that n shuffled reports, each ε₀-locally private, satisfy centrally at δ.

    The answer is an upper bound, and never above ε₀ = ``epsilon``. It holds only if the shuffler
    is honest and all n people send an honest report.

    >>> round(central_epsilon(1.0, 10_000), 4)
    0.053
    >>> central_epsilon(1.0, 1)
    1.0
    """
    _check(epsilon, n, delta)
    if n == 1 or epsilon > LARGEST_EPSILON:
        return float(epsilon)
    return _halved(float(epsilon), int(n), float(delta))


@lru_cache(maxsize=256)
def _halved(epsilon: float, n: int, delta: float) -> float:
    """Halve [0, ε₀] until ε is known; kept, as every attribute of a plan asks the same."""
    clones, weights = _clone_counts(epsilon, min(n, LARGEST_CROWD) - 1, delta)
    too_small, enough = 0.0, epsilon
    for _ in range(HALVINGS):
        middle = (too_small + enough) / 2
        if float(weights @ _divergence(middle, epsilon, clones)) <= delta * (1 - TAIL_ERROR):
            enough = middle
        else:
            too_small = middle
    return enough


def _check(epsilon: float, n: int, delta: float) -> None:
    """Raise ParameterError unless epsilon is finite and positive, n whole and 0 < delta < 1.

    >>> _check(1.0, 0, 1e-6)
    Traceback (most recent call last):
    murmuration.errors.ParameterError: n, the number of people, is 1 or more; got 0
    """
    if not (_is_number(epsilon) and math.isfinite(epsilon) and epsilon > 0):
        raise ParameterError(f"epsilon must be finite and above 0; got {epsilon!r}")
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
        raise ParameterError(f"n, the number of people, is 1 or more; got {n!r}")
    if not (_is_number(delta) and 0 < delta < 1):
        raise ParameterError(f"delta must be between 0 and 1, such as 1e-6; got {delta!r}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def _clone_counts(epsilon: float, others: int, delta: float) -> tuple[Floats, Floats]:
    """Return values c of C, and with each the probability that C lies from it to below the next.

    Fewer clones never hide more. Replacing C by the value at the start of its interval therefore
    only raises the divergence, and no probability is cut off: the first interval starts at 0 and
    the last one has no end.

    >>> clones, weights = _clone_counts(math.log(2), 2, 1e-6)
    >>> clones.tolist(), weights.round(12).tolist()
    ([0.0, 1.0, 2.0], [0.25, 0.5, 0.25])
    """
    share = math.exp(-epsilon)
    mean = others * share
    reach = _reach(mean * -math.expm1(-epsilon), delta)
    low = max(1, math.floor(mean - reach))
    high = min(others, math.ceil(mean + reach))
    step = max(1, math.floor(mean * COARSENESS))
    starts = np.arange(low, high + 1, step, dtype=np.float64)
    below = _fewer_clones(epsilon, others, starts)
    clones = np.concatenate(([0.0], starts))
    weights = np.diff(np.concatenate(([0.0], below, [1.0])))
    return clones, weights


def _fewer_clones(epsilon: float, others: int, counts: Floats) -> Floats:
    """Return P(C < count) for C ~ Bin(others, exp(-ε₀)) and each count from 1 to others.

    The smaller of exp(-ε₀) and 1 - exp(-ε₀) is handed over, as the larger one has lost digits.

    >>> _fewer_clones(math.log(2), 2, np.array([1.0, 2.0])).round(12).tolist()
    [0.25, 0.75]
    """
    rest = others - counts + 1
    if epsilon < math.log(2):
        return np.asarray(betainc(rest, counts, -math.expm1(-epsilon)), dtype=np.float64)
    return np.asarray(betaincc(counts, rest, math.exp(-epsilon)), dtype=np.float64)


def _reach(variance: float, delta: float) -> float:
    """Return a distance t from its mean that C exceeds with a probability far below δ.

    Bernstein: P(|C - mean| > t) <= 2 exp(-L) for t = L/3 + sqrt(L²/9 + 2 L variance); here
    L = ln(10⁶/δ). The distance decides how tight the bound is, not whether it holds.

    >>> round(_reach(100.0, 1e-6), 1)
    84.1
    """
    exponent = math.log(1e6) - math.log(delta)
    return exponent / 3 + math.sqrt(exponent**2 / 9 + 2 * exponent * variance)


def _divergence(epsilon: float, local: float, clones: Floats) -> Floats:
    """Return for each c the hockey-stick divergence of P from Q, given C = c, rounded up.

    With q = e^ε₀ / (e^ε₀ + 1), a = q - e^ε (1 - q) and b = e^ε q - (1 - q), the sum of the
    positive parts of P - e^ε Q runs over the second counts j < (c + 1) a / (a + b) and equals

        a P(A >= k - 1) - b P(A >= k)    for the largest such j and the first count k = c + 1 - j.

    The bound is on j, not on k, because near k = c + 1 a bound on k is lost in rounding.

    >>> float(_divergence(0.0, math.log(3), np.array([0.0])).round(9)[0])
    0.5
    """
    q = 1 / (1 + math.exp(-local))
    a = -q * math.expm1(epsilon - local)
    b = a + math.expm1(epsilon)
    second = np.ceil((clones + 1) * (a / (a + b))) - 1
    first = clones + 1 - second
    gain = a * (1 + TAIL_ERROR) * _upper_tail(clones, first - 1)
    loss = b * (1 - TAIL_ERROR) * _upper_tail(clones, first)
    return np.maximum(gain - loss, 0.0)


def _upper_tail(trials: Floats, count: Floats) -> Floats:
    """Return P(Bin(trials, 1/2) >= count), which is the incomplete beta function at 1/2.

    ``scipy.special.bdtr`` is not used: at a million trials it is a thousand times less accurate.

    >>> _upper_tail(np.array([2.0, 2.0, 2.0, 2.0]), np.array([0.0, 1.0, 2.0, 3.0])).tolist()
    [1.0, 0.75, 0.25, 0.0]
    """
    inside = (count >= 1) & (count <= trials)
    safe = np.where(inside, count, 1.0)
    tail = betainc(safe, np.where(inside, trials - count + 1, 1.0), 0.5)
    return np.where(inside, tail, np.where(count < 1, 1.0, 0.0))
