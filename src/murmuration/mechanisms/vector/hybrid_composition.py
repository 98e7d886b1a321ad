"""The baseline of the Harmony paper: all attributes answered, the budget divided among them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from murmuration.mechanisms.base import Mechanism
from murmuration.mechanisms.domain import Values
from murmuration.mechanisms.item.bassily_smith import BassilySmith
from murmuration.mechanisms.vector.composition import Composition
from murmuration.mechanisms.vector.duchi_multi import DuchiMulti
from murmuration.results.estimate import AnyEstimate, TupleEstimate


@dataclass(frozen=True)
class HybridComposition(Composition):
    """Numbers by `duchi-multi` with d_n eps/d, every item by `bassily-smith` with eps/d.

    What one would do without Harmony; here to be compared with it.

    epsilon: the budget of one report, 0.001 to 20
    d: how many numbers a person has, each in [-1, 1]
    domains: in place of d, one entry per attribute: 0 for a number, k for one of k items
    people: how many are expected, for the items' matrix

    >>> [part.name for part in HybridComposition(epsilon=1.0, domains=(0, 0, 5)).parts]
    ['duchi-multi', 'bassily-smith']
    """

    name: ClassVar[str] = "hybrid-composition"
    paper: ClassVar[str] = "Harmony (Nguyen et al. 2016), its baseline Hybrid"
    summary: ClassVar[str] = "every attribute answered with its share of epsilon"

    people: int = 100_000

    @cached_property
    def numbers(self) -> list[int]:
        """Which attributes are numbers."""
        return [j for j, k in enumerate(self.attributes) if k == 0]

    @cached_property
    def items(self) -> list[int]:
        """Which attributes are items."""
        return [j for j, k in enumerate(self.attributes) if k]

    @cached_property
    def vector(self) -> tuple[Mechanism, ...]:
        """The mechanism of all numbers together, if there are any."""
        d, dn = len(self.attributes), len(self.numbers)
        together = math.nextafter(self.epsilon * dn / d, 0)
        return (DuchiMulti(epsilon=together, d=dn),) if dn else ()

    @cached_property
    def parts(self) -> tuple[Mechanism, ...]:
        """The numbers' mechanism, if there are any, then one for each categorical attribute."""
        share = math.nextafter(self.epsilon / len(self.attributes), 0)
        return (*self.vector, *(self._item(share, self.attributes[j]) for j in self.items))

    def _item(self, share: float, k: int) -> Mechanism:
        return BassilySmith(epsilon=share, k=k, people=self.people)

    def grouped(self, columns: Values) -> list[Values]:
        """Return each part's values: those of all numbers together, then each item's."""
        *vector, items = self.numbers_and_items(columns)
        return [*vector, *items]

    def numbers_and_items(self, columns: Values) -> list[Values]:
        """Return the columns of all numbers, if there are any, then those of all items."""
        vector = [[columns[j] for j in self.numbers]] if self.numbers else []
        return [*vector, [columns[j] for j in self.items]]

    def ungrouped(self, answers: Sequence[Values]) -> list[Any]:
        """The numbers are one group."""
        vector = list(answers[0][0]) if self.numbers else []
        items = [one for (one,) in answers[bool(self.numbers) :]]
        whole = dict(zip([*self.numbers, *self.items], [*vector, *items], strict=True))
        return [whole[place] for place in range(len(self.attributes))]

    def answering(self, attribute: int) -> Mechanism:
        """The numbers' mechanism, or the item's own."""
        if attribute in self.numbers:
            return self.parts[0]
        return self.parts[bool(self.numbers) + self.items.index(attribute)]

    def by_attribute(self, found: list[AnyEstimate], unseen: float) -> tuple[Any, ...]:
        """The numbers' estimates come together."""
        del unseen  # the parts\' own errors include it
        each = [one.parts if isinstance(one, TupleEstimate) else (one,) for one in found]
        order = np.argsort([*self.numbers, *self.items])
        return tuple([*itertools.chain(*each)][place] for place in order)
