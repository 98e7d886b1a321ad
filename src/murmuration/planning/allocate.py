"""One budget, several categorical attributes: split epsilon, or ask each person only one of them.

Split with symmetric unary encoding: attribute i has k_i items and gets e_i of the epsilon, and the
squared error of all its frequencies together, times the number of people, is k_i V(e_i) with

    V(e) = e^(e/2) / (e^(e/2) - 1)^2 = 1 / (4 sinh^2(e/4)).

`equal`, `cube_root` and `optimal` say how to share epsilon out. The other way is to ask person by
person one attribute at random, with all of epsilon: `sampling` says how often to ask which.
`advise` compares the two.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from murmuration.errors import ParameterError
from murmuration.exact.arrays import Floats
from murmuration.mechanisms.base import MAX_EPSILON, MIN_EPSILON
from murmuration.mechanisms.domain import MAX_ITEMS
from murmuration.mechanisms.item.base import FrequencyMechanism
from murmuration.mechanisms.item.subset import Subset
from murmuration.mechanisms.item.sue import Sue

ROUNDING = 2.0**-52
"""The largest relative error of one floating-point step."""
NEWTON_STEPS = 60
"""More than enough: about eight are used, as each doubles the number of right digits."""


def equal(k: Sequence[int], epsilon: float) -> Floats:
    """Give every attribute the same share, whatever its size.

    >>> equal([5, 10, 25], 3.0).round(9).tolist()
    [1.0, 1.0, 1.0]
    """
    sizes, total = _checked(k, epsilon)
    return _shared(np.ones(len(sizes)), total)


def cube_root(k: Sequence[int], epsilon: float) -> Floats:
    """Give attribute i a share that grows as the cube root of its size: e_i ~ k_i^(1/3).

    This is where the optimum goes for a small epsilon, since then V(e) is 4/e^2.

    >>> cube_root([2, 16], 3.0).round(9).tolist()
    [1.0, 2.0]
    """
    sizes, total = _checked(k, epsilon)
    return _shared(np.cbrt(sizes), total)


def optimal(k: Sequence[int], epsilon: float) -> Floats:
    """Return the shares of least summed error (OBRR of the MPLDP paper), to rounding.

    At the optimum no attribute gains more from a little epsilon than another: -k_i V'(e_i) is the
    same for all. Each e_i falls as that price rises, so one root find on the logarithm of the
    price remains. The prices at which one attribute alone would take an equal share enclose it.

    >>> optimal([2, 16], 3.0).round(4).tolist()
    [1.0008, 1.9992]
    """
    from scipy.optimize import brentq  # here: it takes a third of a second

    sizes, total = _checked(k, epsilon)
    prices = np.log(sizes) + _log_slope(total / len(sizes))
    low, high = float(prices.min()), float(prices.max())
    if low == high:
        return _shared(np.ones(len(sizes)), total)

    def too_much(price: float) -> float:

        return float(_taken(sizes, price).sum()) - total

    price = brentq(too_much, low - 1e-9, high + 1e-9, xtol=1e-13, rtol=1e-14)
    return _shared(_taken(sizes, price), total)


def _log_slope(epsilon: float) -> float:
    """Return ln(-8 V'(e)) = ln(cosh(e/4) / sinh^3(e/4)), without overflow.

    >>> round(_log_slope(4.0), 6), round(math.log(math.cosh(1) / math.sinh(1) ** 3), 6)
    (-0.050537, -0.050537)
    """
    quarter = epsilon / 4
    log_cosh = quarter + math.log1p(math.exp(-2 * quarter)) - math.log(2)
    log_sinh = quarter + math.log(-math.expm1(-2 * quarter)) - math.log(2)
    return log_cosh - 3 * log_sinh


def _taken(sizes: Floats, price: float) -> Floats:
    """Return e_i with -8 k_i V'(e_i) = e^price: what each attribute takes at this price.

    With u = coth(e/4) - 1 this is the cubic u (u+1) (u+2) = e^price / k_i. Its left side is convex
    and above 2u and u^3, so Newton from min(y/2, y^(1/3)) comes down to the root and cannot miss.
    """
    y = np.exp(price - np.log(sizes))
    u = np.minimum(y / 2, np.cbrt(y))
    for _ in range(NEWTON_STEPS):
        step = (u * (u + 1) * (u + 2) - y) / (3 * u**2 + 6 * u + 2)
        u = u - step
        if (np.abs(step) <= 4 * ROUNDING * u).all():
            break
    return np.asarray(2 * np.log1p(2 / u))


def _shared(weights: Floats, epsilon: float) -> Floats:
    """Share epsilon out by weight; what rounding could add up to is taken off first."""
    safe = epsilon * (1 - (len(weights) + 4) * ROUNDING)
    return np.asarray(weights / weights.sum() * safe)


def summed_variance(k: Sequence[int], epsilons: ArrayLike) -> float:
    """Return sum k_i V(e_i): n times the squared error of all frequencies of all attributes.

    >>> sizes = [5, 10, 15, 20, 25]
    >>> round(summed_variance(sizes, equal(sizes, 1.0)))
    7494
    >>> round(summed_variance(sizes, optimal(sizes, 1.0)))
    6852
    """
    sizes = _checked_sizes(k)
    shares = np.asarray(epsilons, dtype=np.float64)
    if shares.shape != sizes.shape or not (np.isfinite(shares) & (shares > 0)).all():
        raise ParameterError(
            f"there must be one epsilon above 0 for each of {len(sizes)} attributes; "
            f"got {epsilons!r}"
        )
    return float((sizes / (2 * np.sinh(shares / 4)) ** 2).sum())


def sampling(costs: ArrayLike) -> Floats:
    """Return how often to ask each attribute: in proportion to the square root of its cost.

    Cost is n times the squared error if everybody were asked. Asking a share pi_i makes it
    cost_i / pi_i, and the sum of these is least, (sum sqrt(cost))^2, for pi_i ~ sqrt(cost_i).

    >>> sampling([1.0, 9.0]).tolist()
    [0.25, 0.75]
    """
    given = np.asarray(costs, dtype=np.float64)
    if given.ndim != 1 or not given.size or not (np.isfinite(given) & (given > 0)).all():
        raise ParameterError(f"costs are one number above 0 for each attribute; got {costs!r}")
    roots = np.sqrt(given)
    return np.asarray(roots / roots.sum())


@dataclass(frozen=True, eq=False)
class Advice:
    """Split or sample? All errors are n times the summed squared error of all frequencies."""

    epsilons: Floats
    """How to split epsilon, if at all."""
    probabilities: Floats
    """How often to ask each attribute, if one is asked of each person."""
    split_unary: float
    """Error when everybody answers everything with symmetric unary encoding."""
    split_subset: float
    """Error when everybody answers everything with subset selection."""
    sampled: float
    """Error when each person answers one attribute with subset selection and all of epsilon."""

    @property
    def split(self) -> float:
        """The error of the better way to split."""
        return min(self.split_unary, self.split_subset)

    @property
    def better(self) -> Literal["split", "sample"]:
        """Which one to use; with nothing between them, everybody answers everything."""
        return "split" if self.split <= self.sampled * (1 + 1e-9) else "sample"

    @property
    def gain(self) -> float:
        """How many times smaller the error of the better one is."""
        worse, best = max(self.split, self.sampled), min(self.split, self.sampled)
        return worse / best

    def __str__(self) -> str:
        ways = {
            "sample": ("ask each person one attribute with all of epsilon", "splitting it"),
            "split": ("split epsilon over all attributes", "asking each person one of them"),
        }
        do, instead = ways[self.better]
        if math.isinf(self.split):
            return f"{do}: {instead} leaves too little for each"
        errors = f"n·MSE {self.split:.4g} split, {self.sampled:.4g} sampled"
        return f"{do}: {self.gain:.3g} times less squared error than {instead} ({errors})"


def advise(k: Sequence[int], epsilon: float) -> Advice:
    """Compare splitting epsilon with asking each person one attribute, for these sizes.

    The people asked about an attribute are themselves a sample: besides the mechanism's noise
    their own histogram differs from everybody's. The error about all people is
    (noise + spread)/pi - spread, with the spread 1 - 1/k of a flat histogram, the largest.

    >>> advice = advise([5, 10, 15, 20, 25], 1.0)
    >>> advice.better, round(advice.split_unary), round(advice.sampled)
    ('sample', 6852, 1104)
    """
    sizes, total = _checked(k, epsilon)
    if not MIN_EPSILON <= total <= MAX_EPSILON:
        raise ParameterError(
            f"epsilon must be {MIN_EPSILON:g} to {MAX_EPSILON:g}, as for a mechanism; got {total!r}"
        )
    whole = [int(size) for size in sizes]
    epsilons = optimal(whole, total)
    noise = np.array([Subset(epsilon=total, k=size).total_variance() for size in whole])
    spread = 1 - 1 / sizes
    shares = sampling(noise + spread)
    sampled = float(((noise + spread) / shares - spread).sum())
    unary, subset = (_split_error(kind, whole, epsilons) for kind in (Sue, Subset))
    return Advice(epsilons, shares, unary, subset, sampled)


def _split_error(kind: type[FrequencyMechanism], sizes: list[int], epsilons: Floats) -> float:
    """Add up the exact errors; infinite if a share is one that no mechanism can be built for."""
    if not ((epsilons >= MIN_EPSILON) & (epsilons <= MAX_EPSILON)).all():
        return math.inf
    pairs = zip(sizes, epsilons.tolist(), strict=True)
    return sum(kind(epsilon=share, k=size).total_variance() for size, share in pairs)


def _checked(k: Sequence[int], epsilon: float) -> tuple[Floats, float]:
    """Return sizes and epsilon, or say what is wrong with them."""
    sizes = _checked_sizes(k)
    try:
        total = math.nan if isinstance(epsilon, bool) else float(epsilon)
    except (TypeError, ValueError):
        total = math.nan
    if not 0 < total <= MAX_EPSILON * len(sizes):
        raise ParameterError(
            f"epsilon must be above 0 and at most {MAX_EPSILON:g} for each attribute; "
            f"got {epsilon!r} for {len(sizes)}"
        )
    return sizes, total


def _checked_sizes(k: Sequence[int]) -> Floats:
    """Return the numbers of items, each a whole number of at least 2."""
    sizes = np.asarray(k)
    whole = sizes.ndim == 1 and sizes.size > 0 and sizes.dtype.kind in "iu"
    if not whole or sizes.min() < 2 or sizes.max() > MAX_ITEMS:
        raise ParameterError(
            f"k is a list with the number of items of each attribute, 2 to {MAX_ITEMS:,}; got {k!r}"
        )
    return sizes.astype(np.float64)
