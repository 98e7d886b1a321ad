"""The baseline of the Harmony paper: all attributes answered, the budget divided among them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from murmuration.errors import EmptyError, ParameterError
from murmuration.exact.arrays import Bits, Floats, Ints, Reports, Rows
from murmuration.exact.exponential import log_above
from murmuration.exact.loss import Loss
from murmuration.exact.randomness import Rng, require_rng
from murmuration.mechanisms.base import Mechanism
from murmuration.mechanisms.item.bassily_smith import BassilySmith
from murmuration.mechanisms.packing import RowReports, unpack_rows
from murmuration.mechanisms.tally import Tally, require_same
from murmuration.mechanisms.vector.base import TupleMechanism
from murmuration.mechanisms.vector.duchi_multi import DuchiMulti
from murmuration.results.estimate import About, Estimate, FrequencyEstimate, TupleEstimate


@dataclass(frozen=True)
class HybridComposition(TupleMechanism, RowReports):
    """Numbers by `duchi-multi` with d_n eps/d, every item by `bassily-smith` with eps/d.

    What one would do without Harmony; here to be compared with it.

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

    def _inputs(self, values: ArrayLike) -> list[NDArray[np.generic]]:
        """Return each part's values."""
        columns = self.columns(values)
        vector = [np.stack([columns[j] for j in self.numbers], axis=1)] if self.numbers else []
        return [*vector, *(columns[j] for j in self.items)]

    def privatize(self, values: ArrayLike, rng: Rng) -> Reports:
        """Turn columns of values into the parts' reports, side by side."""
        rng, inputs = require_rng(rng), self._inputs(values)
        self.require_promise(rng)
        sent = [
            unpack_rows(part.pack(part.privatize(value, rng)), part.report_bytes)
            for part, value in zip(self.parts, inputs, strict=True)
        ]
        return np.hstack(sent)

    @property
    def report_bytes(self) -> int:
        """The parts', side by side."""
        return sum(part.report_bytes for part in self.parts)

    @property
    def counters(self) -> int:
        """The parts', one after the other."""
        return sum(part.counters for part in self.parts)

    def _pieces(self, rows: Rows) -> Iterator[tuple[Mechanism, Rows]]:
        """Cut reports into those of each part."""
        ends = np.cumsum([part.report_bytes for part in self.parts])
        return zip(self.parts, np.split(rows, ends[:-1], axis=1), strict=True)

    def _possible(self, rows: Rows) -> Bits:
        valid = [part.valid(piece) for part, piece in self._pieces(rows)]
        return np.asarray(np.all(valid, axis=0))

    def complaint(self, rows: Rows, bad: int) -> str:
        """Say what the first part that refuses the row has to say."""
        refused = (
            (part, piece) for part, piece in self._pieces(rows) if not part.valid(piece)[bad]
        )
        part, piece = next(refused)
        return part.complaint(piece, bad)

    def tally(self, reports: ArrayLike) -> Tally:
        """Count every part by its own mechanism."""
        rows = self.checked_reports(reports)
        pieces = self._pieces(rows)
        tallies = [part.tally(part.unpack(piece.tobytes())) for part, piece in pieces]
        return Tally(self, np.concatenate([tally.counts for tally in tallies]), len(rows))

    def split(self, counts: Ints, n: int) -> list[Tally]:
        """Return the parts' own tallies."""
        ends = np.cumsum([part.counters for part in self.parts])
        pieces = np.split(counts, ends[:-1])
        return [Tally(part, piece, n) for part, piece in zip(self.parts, pieces, strict=True)]

    def checked_counts(self, counts: Ints, n: int) -> Ints:
        """Every part's tally is one."""
        self.split(counts, n)
        return counts

    def estimate(self, tally: Tally, about: str = "participants") -> TupleEstimate:
        """Return every attribute's estimate, in the order of the attributes."""
        n = require_same(self, tally).n
        if n == 0:
            raise EmptyError("no reports yet: nothing to estimate")
        estimates: list[Estimate | FrequencyEstimate] = []
        for part in self.split(tally.counts, n):
            found = part.mechanism.estimate(part, about)
            estimates.extend(found.parts if isinstance(found, TupleEstimate) else [found])
        order = np.argsort([*self.numbers, *self.items])
        parts = tuple(estimates[j] for j in order)
        return TupleEstimate(parts, n, self.epsilon, About.parse(about))

    def loss(self) -> Loss:
        """The product of the parts' ratios: all of them answer."""
        losses = [part.loss() for part in self.parts]
        ratio = Fraction(1)
        for loss in losses:
            if loss.ratio is None:
                return Loss(math.inf, self.epsilon, None, loss.inputs, loss.output)
            ratio *= loss.ratio
        return Loss(log_above(ratio), self.epsilon, ratio, losses[0].inputs, "the worst of each")

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

    def law_bytes(self) -> bytes:
        """The parts' fingerprints."""
        return " ".join(part.fingerprint for part in self.parts).encode()

    def law(self) -> dict[str, Any]:
        """The parts' names, parameters and laws, in the order of their bytes."""
        return {"parts": [part.document() for part in self.parts]}
