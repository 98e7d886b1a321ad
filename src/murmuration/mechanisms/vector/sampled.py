"""Sampling attributes: a few of d, each by any one-attribute mechanism."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from murmuration.errors import ParameterError
from murmuration.mechanisms.base import Mechanism
from murmuration.mechanisms.domain import Items, Number
from murmuration.mechanisms.registry import list_mechanisms, mechanism
from murmuration.mechanisms.vector.base import SampledTuple


@dataclass(frozen=True)
class Sampled(SampledTuple):
    """Answer about `sample` of d attributes with epsilon/sample each, by the mechanisms named.

    n Var = (d/sample)(second moment at epsilon/sample) - x^2. One attribute is right for epsilon
    up to about 3; a second one pays from there on.

    epsilon: the budget of one report, 0.001 to 20
    d: how many numbers a person has, each in [-1, 1]
    domains: in place of d, one entry per attribute: 0 for a number, k for one of k items
    sample: how many attributes each person answers
    numeric: the name of the mechanism for numbers
    categorical: the name of the mechanism for items
    shares: how often each attribute is asked, where one is; all alike if not given (see
        `planning.allocate.sampling`)

    >>> Sampled(epsilon=1.0, d=4, numeric="piecewise").inner[0]
    Piecewise(epsilon=1.0, t='pm')
    """

    name: ClassVar[str] = "sampled"
    paper: ClassVar[str] = "Wang et al. 2019 (k of d)"
    summary: ClassVar[str] = "a few attributes of the tuple, by any mechanism"

    sample: int = 1
    numeric: str = "optimal"
    categorical: str = "subset"
    shares: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.sample, bool) or self.sample not in range(1, len(self.attributes) + 1):
            raise ParameterError(
                f"sample must be 1 to {len(self.attributes)} attributes; got {self.sample!r}"
            )
        if self.shares is not None:
            object.__setattr__(self, "shares", self._checked_shares())
        for chosen, takes in ((self.numeric, Number), (self.categorical, Items)):
            kind = list_mechanisms().get(chosen)
            if kind is None or kind.takes is not takes:
                raise ParameterError(f"sampled cannot use {chosen!r} there")

    def _checked_shares(self) -> tuple[float, ...]:
        given = np.asarray(self.shares)
        fits = given.dtype.kind in "fiu" and given.shape == (len(self.attributes),)
        if self.sample != 1 or not fits or not (np.isfinite(given) & (given > 0)).all():
            raise ParameterError(
                f"shares are {len(self.attributes)} numbers above 0, for sample=1; "
                f"got {self.shares!r}"
            )
        return tuple(float(share) for share in given)

    @cached_property
    def inner(self) -> tuple[Mechanism, ...]:
        """Equal attributes share one mechanism; epsilon/sample is rounded down."""
        share = self.epsilon
        if self.sample > 1:
            share = math.nextafter(self.epsilon / self.sample, 0)
        number = mechanism(self.numeric, epsilon=share)
        return tuple(
            mechanism(self.categorical, epsilon=share, k=k) if k else number
            for k in self.attributes
        )
