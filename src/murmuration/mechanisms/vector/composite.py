"""A baseline of the Harmony paper: all items of a person as one item of their product."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, cast

import numpy as np

from murmuration.errors import ParameterError
from murmuration.exact.arrays import Floats
from murmuration.mechanisms.base import Mechanism
from murmuration.mechanisms.domain import MAX_ITEMS, Values
from murmuration.mechanisms.item.base import FrequencyMechanism
from murmuration.mechanisms.registry import made
from murmuration.mechanisms.vector.hybrid_composition import HybridComposition
from murmuration.results.estimate import AnyEstimate, FrequencyEstimate
from murmuration.statistics.score import QuadraticScore

SUMMED = ("bassily-smith", "grr", "hadamard", "oue", "subset", "sue")
"""Mechanisms whose reports support items independently of each other, or a set of one size."""


@dataclass(frozen=True)
class Composite(HybridComposition):
    """One answer about the combination of all items; numbers as in `hybrid-composition`.

    The share of one attribute's value is the sum of the shares of all m combinations that have it,
    and each of them has the error of a rare item:

        n Var = m b + m(m-1) c + (a - b + 2 d (m-1)) F,

    where b + (a-b) f is n Var of one combination and c + d (f + f') n Cov of two. So it is good
    about combinations and poor about attributes.

    epsilon: the budget of one report, 0.001 to 20
    d: how many numbers a person has, each in [-1, 1]
    domains: in place of d, one entry per attribute: 0 for a number, k for one of k items
    people: how many are expected, for the matrix of `bassily-smith`
    categorical: the name of the mechanism for the combination

    >>> composite = Composite(epsilon=1.0, domains=(3, 4))
    >>> composite.parts[0].k, composite.parts[0].name
    (12, 'bassily-smith')
    """

    name: ClassVar[str] = "composite"
    paper: ClassVar[str] = "Harmony (Nguyen et al. 2016), section 3.2: the composite attribute"
    summary: ClassVar[str] = "all items of a person as one item of their product"

    categorical: str = "bassily-smith"

    def __post_init__(self) -> None:
        super().__post_init__()
        if (size := math.prod(self.sizes)) > MAX_ITEMS:
            raise ParameterError(
                f"composite has an item for each combination of items, at most {MAX_ITEMS:,}; "
                f"these attributes have {size:,}"
            )
        if self.categorical not in SUMMED:
            raise ParameterError(
                f"composite knows the error of sums for {', '.join(SUMMED)}; "
                f"got {self.categorical!r}"
            )

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many items each categorical attribute has."""
        return tuple(self.attributes[j] for j in self.items)

    @cached_property
    def parts(self) -> tuple[Mechanism, ...]:
        """The numbers' mechanism, if there are any, then that of the combination."""
        vector = self.vector
        if not self.items:
            return vector
        share = self.epsilon * len(self.items) / len(self.attributes)
        given = {
            "epsilon": math.nextafter(share, 0) if vector else self.epsilon,
            "k": math.prod(self.sizes),
            "people": self.people,
        }
        return (*vector, made(self.categorical, given, {}))

    def grouped(self, columns: Values) -> list[Values]:
        """Return the numbers, and each person's combination: the last item changes fastest."""
        *vector, items = self.numbers_and_items(columns)
        if not items:
            return vector
        return [*vector, np.ravel_multi_index(tuple(items), self.sizes)]

    def ungrouped(self, answers: Sequence[Values]) -> list[Any]:
        """Return a combination as its items."""
        if not self.items:
            return super().ungrouped(answers)
        items = np.unravel_index(int(answers[-1][0]), self.sizes)
        return super().ungrouped([*answers[:-1], *([int(item)] for item in items)])

    def answering(self, attribute: int) -> Mechanism:
        """The numbers' mechanism, or the combination's."""
        return self.parts[0 if attribute in self.numbers else -1]

    def by_attribute(self, found: list[AnyEstimate], unseen: float) -> tuple[Any, ...]:
        """Sum the shares of the combinations over all other attributes."""
        if not self.items:
            return super().by_attribute(found, unseen)
        shares = np.asarray(found[-1].value).reshape(self.sizes)
        axes = range(len(self.sizes))
        sums = [shares.sum(axis=tuple(j for j in axes if j != own)) for own in axes]
        items = [self._shares(value, found[-1], unseen) for value in sums]
        return super().by_attribute([*found[:-1], *items], unseen)

    def _shares(self, value: Floats, whole: AnyEstimate, unseen: float) -> FrequencyEstimate:
        """Return one attribute's shares with their errors."""
        law = cast(FrequencyMechanism, self.parts[-1])
        n, together = whole.n, law.k // len(value)
        quiet, slope = summed_noise(law, together, n)
        likely = (n * np.clip(value, 0, 1) + 2) / (n + 4)
        errors = np.sqrt((quiet + slope * likely + unseen * likely * (1 - likely)) / n)
        jump = math.sqrt(together) / float(law.p - law.q)
        variance = (quiet, slope + unseen, -unseen)
        return FrequencyEstimate(
            *(value, errors, n, self.epsilon, whole.about),
            noise=math.sqrt(quiet / n),
            shape=QuadraticScore(value, errors, n, variance, 0.0, 1.0, jump),
        )


def summed_noise(law: FrequencyMechanism, together: int, n: int) -> tuple[float, float]:
    """Return n Var of the sum of so many items' shares: if nobody has any, and what more does.

    >>> from murmuration.mechanisms.item.grr import Grr
    >>> law = Grr(epsilon=1.0, k=4)
    >>> abs(sum(summed_noise(law, 4, 1000))) < 1e-9  # the shares of all add up to 1
    True
    """
    quiet, own = n * law.squared_errors(np.array([0.0, 1.0]), n)
    slope = own - quiet
    if together == 1:
        return float(quiet), float(slope)
    rare, tilted = law.noise_covariance([0.0, 1.0], [0.0, 0.0])
    pairs = together * (together - 1)
    more = 2 * (together - 1) * (tilted - rare)
    return float(together * quiet + pairs * rare), float(slope + more)
