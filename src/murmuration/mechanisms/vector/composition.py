"""What the baselines of the Harmony paper share: parts side by side answer all attributes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from murmuration.errors import ParameterError
from murmuration.exact.arrays import Floats, Ints, Reports
from murmuration.mechanisms.base import Mechanism
from murmuration.mechanisms.frame import Frame
from murmuration.mechanisms.strategy import Split
from murmuration.mechanisms.tally import Tally
from murmuration.mechanisms.vector.base import FramedMechanism
from murmuration.results.estimate import AnyEstimate, TupleEstimate
from murmuration.statistics.forgery import Evidence


class Composition(FramedMechanism):
    """Every part answers, with its own part of epsilon."""

    @cached_property
    @abstractmethod
    def parts(self) -> tuple[Mechanism, ...]:
        """The mechanism of each part."""

    @cached_property
    def frame(self) -> Frame:
        """The parts side by side; which is which needs no number."""
        return Frame(tuple((part,) for part in self.parts), Split(), numbered=False)

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
        own = self.split(tally.counts, n)
        found = [part.mechanism.estimate(part, about, everybody) for part in own]
        parts = self.by_attribute(found, subject.unseen(n, everybody))
        return TupleEstimate(parts, n, self.epsilon, subject)

    @abstractmethod
    def by_attribute(self, found: list[AnyEstimate], unseen: float) -> tuple[Any, ...]:
        """Return each attribute's estimate, from those of the parts.

        `unseen` is how much of the people's own spread an error includes.
        """

    def evidence(self, tally: Tally) -> Iterator[Evidence]:
        """Each part's."""
        for number, part in enumerate(self.split(tally.counts, tally.n)):
            for one in part.mechanism.evidence(part):
                yield replace(one, what=f"part {number}, {one.what}")

    def variance(self, x: ArrayLike) -> Floats:
        """Return n Var of a numeric attribute's mean when everybody is at x."""
        return self._of_numbers().variance(x)

    def worst_variance(self) -> float:
        """Return the largest n Var of a numeric attribute's mean."""
        return self._of_numbers().worst_variance()

    def _of_numbers(self) -> Mechanism:
        if all(self.attributes):
            raise ParameterError("no attribute is a number: ask the attributes' own mechanisms")
        return self.answering(self.attributes.index(0))

    def law(self) -> dict[str, Any]:
        """The parts' names, parameters and laws, in the order of their bytes."""
        return {"parts": [part.document() for part in self.parts]}
