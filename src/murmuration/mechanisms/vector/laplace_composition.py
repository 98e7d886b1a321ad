"""The first design that the Harmony paper names: Laplace noise on every number of the tuple."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from murmuration.mechanisms.base import Mechanism
from murmuration.mechanisms.number.laplace import Laplace
from murmuration.mechanisms.vector.composition import Composition
from murmuration.results.estimate import AnyEstimate


@dataclass(frozen=True)
class LaplaceComposition(Composition):
    """Every number by `laplace` with epsilon/d: noise of scale 2d/epsilon on each.

    n Var = 8 d^2/eps^2, linear in d as an error; to be compared with `harmony`, whose error grows
    with the square root of d.

    epsilon: the budget of one report, 0.001 to 20
    d: how many numbers a person has, each in [-1, 1]
    domains: the same as zeros, one per number; items are not taken

    >>> round(LaplaceComposition(epsilon=1.0, d=3).worst_variance(), 1)
    72.0
    """

    name: ClassVar[str] = "laplace-composition"
    paper: ClassVar[str] = "Harmony (Nguyen et al. 2016), section 3.1: the naive design"
    summary: ClassVar[str] = "Laplace noise on every number, each with its share of epsilon"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_numbers()

    @cached_property
    def parts(self) -> tuple[Mechanism, ...]:
        """The same for every number."""
        d = len(self.attributes)
        share = self.epsilon if d == 1 else math.nextafter(self.epsilon / d, 0)
        return (Laplace(epsilon=share),) * d

    def answering(self, attribute: int) -> Mechanism:
        """The same for every number."""
        return self.parts[attribute]

    def by_attribute(self, found: list[AnyEstimate], unseen: float) -> tuple[Any, ...]:
        """As they come."""
        del unseen  # the parts\' own errors include it
        return tuple(found)
