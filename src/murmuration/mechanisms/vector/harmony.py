"""Harmony: one attribute of the tuple, one bit about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from murmuration.errors import ReportError
from murmuration.exact.arrays import Bits, Ints, Reports
from murmuration.exact.randomness import Rng, drawn, require_rng
from murmuration.mechanisms.base import Mechanism
from murmuration.mechanisms.domain import Values
from murmuration.mechanisms.item.hadamard import Hadamard
from murmuration.mechanisms.number.duchi import Duchi
from murmuration.mechanisms.packing import integer_rows
from murmuration.mechanisms.vector.base import SampledTuple


@dataclass(frozen=True)
class Harmony(SampledTuple):
    """Pick one of d attributes; a number is answered by Duchi's bit, an item by a Hadamard bit.

    n Var = d B^2 - x^2 for numbers. The attribute and the Hadamard row do not depend on the
    values. Drawn from a public coin (`coins`: any generator that the collector can repeat, such
    as one seeded with the report's number) they need not be sent: one bit a person travels.

    epsilon: the budget of one report, 0.001 to 20
    d: how many numbers a person has, each in [-1, 1]
    domains: in place of d, one entry per attribute: 0 for a number, k for one of k items

    >>> from murmuration import seeded_rng, system_rng
    >>> harmony = Harmony(epsilon=1.0, domains=(0, 0, 12))
    >>> columns = [np.array([0.1, -0.2]), np.array([1.0, 0.3]), np.array([4, 11])]
    >>> reports = harmony.privatize(columns, system_rng(), coins=seeded_rng(7))
    >>> sent = harmony.bits(reports)  # all that has to travel
    >>> bool((harmony.from_bits(sent, coins=seeded_rng(7)) == reports).all())
    True
    """

    name: ClassVar[str] = "harmony"
    paper: ClassVar[str] = "Harmony (Nguyen et al. 2016)"
    summary: ClassVar[str] = "one bit about one attribute of the tuple"
    sample: ClassVar[int] = 1  # type: ignore[misc]

    @cached_property
    def inner(self) -> tuple[Mechanism, ...]:
        """Duchi for numbers, Hadamard for items, at the whole epsilon."""
        return tuple(
            Hadamard(epsilon=self.epsilon, k=k) if k else Duchi(epsilon=self.epsilon)
            for k in self.attributes
        )

    @property
    def people_per_pass(self) -> int:
        """All at once: a public coin is tossed for everybody in one go."""
        return 1 << 62

    def privatize(self, values: ArrayLike, rng: Rng, coins: Rng | None = None) -> Reports:
        """Turn columns of values into reports; attribute and row come from `coins` if given."""
        if coins is None:
            return super().privatize(values, rng)
        rng, columns = require_rng(rng), self.domain.checked(values)
        self.require_promise(rng)
        return self._answered(columns, rng, require_rng(coins))

    def respond(self, columns: Values, rng: Rng) -> Reports:
        """Draw attribute and row in public."""
        return self._answered(columns, rng, rng.public())

    def _answered(self, columns: Values, rng: Rng, coins: Rng) -> Reports:
        attributes, rows = self._public(len(columns[0]), coins)
        bits = np.zeros(len(attributes), dtype=np.bool_)
        for attribute, inner in enumerate(self.inner):
            asked = np.flatnonzero(attributes == attribute)
            private: Any = columns[attribute][asked]
            own = rng.only(asked)
            bits[asked] = (
                inner.bits(private, rows[asked], own)
                if isinstance(inner, Hadamard)
                else inner.privatize(private, own)
            )
        return self._assembled(attributes, rows, bits)

    def _public(self, n: int, coins: Rng) -> tuple[Ints, Ints]:
        """Draw each person's attribute and, for an item, its Hadamard row: two words each."""
        attributes = self.strategy.asked(len(self.inner), n, coins)[:, 0]
        sizes = np.array([i.rows if isinstance(i, Hadamard) else 1 for i in self.inner])
        return attributes, drawn(coins.words(n)) & (sizes[attributes] - 1)

    def _assembled(self, attributes: Ints, rows: Ints, bits: Bits) -> Reports:
        """Write attribute and inner report, 2 row + bit, side by side."""
        index = self.frame.index_bytes
        width = self.frame.row_bytes - index
        return np.hstack([integer_rows(attributes, index), integer_rows(2 * rows + bits, width)])

    def with_law(self, law: Mapping[str, Any]) -> Self:
        """Return this mechanism: a number is one bit by Duchi's own table, no other fits."""
        return Mechanism.with_law(self, law)

    def bits(self, reports: ArrayLike) -> Bits:
        """Return the one bit of each report that does not come from the public coin."""
        rows = self.checked_reports(reports)
        return (rows[:, self.frame.index_bytes] & 1).astype(np.bool_)

    def from_bits(self, bits: NDArray[np.bool_], coins: Rng) -> Reports:
        """Make whole reports of the bits that arrived, with the same public coin."""
        sent = np.asarray(bits)
        if sent.ndim != 1 or sent.dtype != np.bool_:
            raise ReportError("one bit per person: a flat array of truth values")
        attributes, rows = self._public(len(sent), require_rng(coins))
        return self._assembled(attributes, rows, sent)
