"""The baseline of the Harmony paper: all attributes answered, the budget divided among them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from murmuration.errors import ParameterError
from murmuration.exact.arrays import Floats, Ints, Reports
from murmuration.mechanisms.base import Mechanism
from murmuration.mechanisms.domain import Values
from murmuration.mechanisms.frame import Frame
from murmuration.mechanisms.item.bassily_smith import BassilySmith
from murmuration.mechanisms.strategy import Split
from murmuration.mechanisms.tally import Tally
from murmuration.mechanisms.vector.base import FramedMechanism
from murmuration.mechanisms.vector.duchi_multi import DuchiMulti
from murmuration.results.estimate import (
    AnsweredEstimate,
    Estimate,
    FrequencyEstimate,
    TupleEstimate,
)
from murmuration.statistics.forgery import Evidence


@dataclass(frozen=True)
class HybridComposition(FramedMechanism):
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
    def parts(self) -> tuple[Mechanism, ...]:
        """The numbers' mechanism, if there are any, then one for each categorical attribute."""
        d, dn = len(self.attributes), len(self.numbers)
        share = math.nextafter(self.epsilon / d, 0)
        together = math.nextafter(self.epsilon * dn / d, 0)
        vector = [DuchiMulti(epsilon=together, d=dn)] if dn else []
        return (*vector, *(self._item(share, self.attributes[j]) for j in self.items))

    def _item(self, share: float, k: int) -> Mechanism:
        return BassilySmith(epsilon=share, k=k, people=self.people)

    @cached_property
    def frame(self) -> Frame:
        """The parts side by side; which is which needs no number."""
        return Frame(tuple((part,) for part in self.parts), Split(), numbered=False)

    def grouped(self, columns: Values) -> list[Values]:
        """Return each part's values: those of all numbers together, then each item's."""
        vector = [[columns[j] for j in self.numbers]] if self.numbers else []
        return [*vector, *(columns[j] for j in self.items)]

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

    @property
    def counters(self) -> int:
        """The parts', one after the other."""
        return sum(part.counters for part in self.parts)

    def count(self, reports: Reports) -> Ints:
        """Count every part by its own mechanism."""
        return self.frame.sums(self.to_rows(reports))[len(self.parts) :]

    def split(self, counts: Ints, n: int) -> list[Tally]:
        """Return the parts' own tallies."""
        ends = np.cumsum([part.counters for part in self.parts])
        pieces = np.split(counts, ends[:-1])
        return [Tally(part, piece, n) for part, piece in zip(self.parts, pieces, strict=True)]

    def checked_counts(self, counts: Ints, n: int) -> Ints:
        """Every part's tally is one."""
        self.split(counts, n)
        return counts

    def estimate(
        self, tally: Tally, about: str = "participants", everybody: int | None = None
    ) -> TupleEstimate:
        """Return every attribute's estimate, in the order of the attributes."""
        n, subject = self.subject(tally, about)
        estimates: list[Estimate | FrequencyEstimate] = []
        for part in self.split(tally.counts, n):
            one = part.mechanism.estimate(part, about, everybody)
            found = one.parts if isinstance(one, TupleEstimate) else (one,)
            estimates += [each for each in found if not isinstance(each, AnsweredEstimate)]
        order = np.argsort([*self.numbers, *self.items])
        parts = tuple(estimates[j] for j in order)
        return TupleEstimate(parts, n, self.epsilon, subject)

    def evidence(self, tally: Tally) -> Iterator[Evidence]:
        """Each part's."""
        for number, part in enumerate(self.split(tally.counts, tally.n)):
            for one in part.mechanism.evidence(part):
                yield replace(one, what=f"part {number}, {one.what}")

    def variance(self, x: ArrayLike) -> Floats:
        """Return n Var of a numeric attribute's mean when everybody is at x."""
        return self._vector().variance(x)

    def worst_variance(self) -> float:
        """Return the largest n Var of a numeric attribute's mean."""
        return self._vector().worst_variance()

    def _vector(self) -> Mechanism:
        if not self.numbers:
            raise ParameterError("no attribute is a number: ask the attributes' own mechanisms")
        return self.parts[0]

    def law(self) -> dict[str, Any]:
        """The parts' names, parameters and laws, in the order of their bytes."""
        return {"parts": [part.document() for part in self.parts]}
