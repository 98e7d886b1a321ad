"""Own units in and out: a mechanism for ages 18 to 98, for named labels, for named columns.

A mechanism takes numbers in [-1, 1] and items 0 to k-1; its fields are its law and nothing else.
`InUnits` stands around one and translates: answers on their way in, estimates on their way out.

    ages --2 (age - low)/(high - low) - 1--> privatize, tally, estimate --scaled--> years
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from murmuration.errors import InputError, MismatchError, ParameterError
from murmuration.exact.arrays import Floats, Ints, Reports
from murmuration.exact.loss import Loss
from murmuration.exact.randomness import Rng
from murmuration.mechanisms.base import Mechanism
from murmuration.mechanisms.domain import (
    Box,
    Domain,
    Items,
    Number,
    NumberOrNone,
    described,
    real_numbers,
    table_columns,
)
from murmuration.mechanisms.item.base import Labels
from murmuration.mechanisms.tally import Tally
from murmuration.results.distribution import Distribution
from murmuration.results.estimate import (
    AnsweredEstimate,
    AnyEstimate,
    Estimate,
    FrequencyEstimate,
    TupleEstimate,
    middle_and_half,
)

REFUSE, CLAMP = "refuse", "clamp"
Unit = Sequence[float] | Sequence[str] | Labels
Units = Unit | Mapping[str, Unit]
"""(low, high) of a number, labels of an item; by name, where there are several attributes."""


@dataclass(frozen=True)
class Range:
    """A number from low to high.

    >>> Range(18, 98).encoded([18, 58, 98], "refuse")[0].tolist()
    [-1.0, 0.0, 1.0]
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        middle_and_half(self.low, self.high)

    def __str__(self) -> str:
        return f"{self.low:g} to {self.high:g}"

    @property
    def size(self) -> int:
        """What a box calls it: 0 for a number."""
        return 0

    @property
    def ends(self) -> tuple[float, float]:
        """The least and the largest number."""
        return self.low, self.high

    def fits(self, domain: Domain) -> bool:
        """Whether a mechanism for this domain takes it."""
        return domain.fits(Number()) or domain.fits(NumberOrNone())

    def encoded(self, values: Any, outside: str) -> tuple[Floats, int]:
        """Return numbers in [-1, 1], and how many are at an end because they were outside."""
        numbers = real_numbers(values, f"from {self}")
        beyond = (numbers < self.low) | (numbers > self.high)
        if (count := int(beyond.sum())) and outside != CLAMP:
            raise InputError(
                f"values are {self}; {count} of {numbers.size} are not (first at position "
                f'{int(beyond.argmax())}). With outside="clamp" they count as the nearer end. '
                "Nothing was sent."
            )
        inside = np.clip(numbers, self.low, self.high)
        share = (inside - self.low) / (self.high - self.low)
        return np.clip(2 * share - 1, -1.0, 1.0), count

    def read(self, estimate: AnyEstimate) -> AnyEstimate:
        """Return an estimate in these units."""
        if not isinstance(estimate, Estimate | AnsweredEstimate):
            raise MismatchError(f"{type(estimate).__name__} is not about a number")
        return estimate.scaled(self.low, self.high)


@dataclass(frozen=True)
class Named:
    """One of some labels."""

    labels: Labels

    def __str__(self) -> str:
        names = self.labels.names
        return ", ".join(names[:4]) + (f", ... ({len(names)})" if len(names) > 4 else "")

    @property
    def size(self) -> int:
        """How many."""
        return len(self.labels.names)

    @property
    def ends(self) -> tuple[float, float]:
        """Refused: labels have no order."""
        raise ParameterError("edges are those of a number, whose units are (low, high)")

    def fits(self, domain: Domain) -> bool:
        """Whether a mechanism for this domain takes it."""
        return domain.fits(Items(self.size))

    def encoded(self, values: Any, outside: str) -> tuple[Ints, int]:
        """Return items; what is no label is refused, as no label is nearer than another."""
        del outside
        return self.labels.items(values), 0

    def read(self, estimate: AnyEstimate) -> AnyEstimate:
        """Return shares with their labels."""
        if not isinstance(estimate, FrequencyEstimate):
            raise MismatchError(f"{type(estimate).__name__} is not about items")
        return estimate.labelled(self.labels.names)


@dataclass(frozen=True)
class InUnits:
    """A mechanism that takes answers, and gives estimates, in the attribute's own units.

    mechanism: the mechanism itself: its loss, its law, its fingerprint are what they were
    units: what each attribute is in
    names: the attributes' names, where there are several
    outside: what becomes of numbers out of range: "refuse", or "clamp" to the nearer end. How many
        were clamped is in the warning that `privatize` gives.

    >>> from murmuration import mechanism, seeded_rng
    >>> ages = mechanism("optimal", epsilon=1.0, units=(18, 98))
    >>> reports = ages.privatize(np.full(10_000, 58.0), seeded_rng(1))
    >>> ages.estimate(ages.tally(reports))
    Estimate(57.8823 [56.3159, 59.4487] (95%, participants, n=10,000))
    """

    mechanism: Mechanism
    units: tuple[Range | Named, ...]
    names: tuple[str, ...] = ()
    outside: str = REFUSE

    @classmethod
    def of(cls, mechanism: Mechanism, units: Units, outside: str = REFUSE) -> InUnits:
        """Return a mechanism in these units; refuse units that are not for it."""
        if isinstance(units, Mapping):
            return cls(mechanism, tuple(map(unit_of, units.values())), tuple(units), outside)
        return cls(mechanism, (unit_of(units),), (), outside)

    def __post_init__(self) -> None:
        if self.outside not in (REFUSE, CLAMP):
            raise ParameterError(f"outside is {REFUSE!r} or {CLAMP!r}; got {self.outside!r}")
        domain = self.mechanism.domain
        box = Box(tuple(unit.size for unit in self.units))
        if not (domain.fits(box) if self.names else self.units[0].fits(domain)):
            raise ParameterError(
                f"{self.mechanism.name} takes {domain.noun}: units are (low, high) for a number, "
                "labels for items (as many as there are), and for several attributes one of these "
                f"by name; got {self._said()}"
            )

    def _said(self) -> str:
        if not self.names:
            return str(self.units[0])
        return "; ".join(f"{n}: {u}" for n, u in zip(self.names, self.units, strict=True))

    def __repr__(self) -> str:
        return f"InUnits({self.mechanism}, {self._said()})"

    # --- device ---

    def encode(self, values: Any) -> tuple[Any, dict[str, int]]:
        """DEVICE. Return what the mechanism takes, and how many of each attribute were clamped.

        Several attributes come as a table: a DataFrame (pandas, polars), an Arrow table or a
        mapping, whose columns are found by their names (others stay where they are), or as a list
        of columns in the order of the units.

        >>> from murmuration import mechanism
        >>> ages = mechanism("duchi", epsilon=1.0, units=(18, 98), outside="clamp")
        >>> values, clamped = ages.encode([18, 58, 120])
        >>> values.tolist(), clamped
        ([-1.0, 0.0, 1.0], {'': 1})
        """
        if not self.names:
            values, count = self.units[0].encoded(values, self.outside)
            return values, {"": count} if count else {}
        columns: list[Any] = []
        clamped: dict[str, int] = {}
        for name, unit, column in zip(self.names, self.units, self._columns(values), strict=True):
            try:
                encoded, count = unit.encoded(column, self.outside)
            except InputError as problem:
                raise InputError(f"{name}: {problem}") from None
            columns.append(encoded)
            clamped |= {name: count} if count else {}
        return columns, clamped

    def _columns(self, values: Any) -> list[Any]:
        named = table_columns(values)
        if named is None:
            if isinstance(values, list | tuple) and len(values) == len(self.names):
                return list(values)
            raise InputError(
                f"values are a table with the columns {', '.join(self.names)}, or a list of "
                f"{len(self.names)} columns; got {described(values)}"
            )
        columns = dict(named)
        if missing := [name for name in self.names if name not in columns]:
            raise InputError(f"no column is called {', '.join(missing)}. Nothing was sent.")
        return [columns[name] for name in self.names]

    def privatize(self, values: Any, rng: Rng) -> Reports:
        """DEVICE. Turn answers into reports, one for each person."""
        encoded, clamped = self.encode(values)
        reports = self.mechanism.privatize(encoded, rng)
        for name, count in clamped.items():
            unit = self.units[self.names.index(name) if self.names else 0]
            warnings.warn(
                f"{name + ': ' if name else ''}{count:,} of {len(reports):,} values were not "
                f"{unit} and count as the nearer end",
                stacklevel=2,
            )
        return reports

    # --- collector ---

    def tally(self, reports: ArrayLike) -> Tally:
        """COLLECTOR. Count reports; the tally is the mechanism's own."""
        return self.mechanism.tally(reports)

    # --- analyst ---

    def estimate(
        self, tally: Tally, about: str = "participants", everybody: int | None = None
    ) -> AnyEstimate:
        """ANALYST. Read a tally, in the attributes' own units and under their names."""
        estimate = self.mechanism.estimate(tally, about, everybody)
        if not self.names:
            return self.units[0].read(estimate)
        if not isinstance(estimate, TupleEstimate):
            raise MismatchError(f"{self.mechanism.name} is not for several attributes")
        pairs = zip(self.units, estimate.parts, strict=True)
        parts: Any = tuple(unit.read(part) for unit, part in pairs)
        return dataclasses.replace(estimate, parts=parts).named(self.names)

    def distribution(
        self, tally: Tally, method: str = "auto", bins: int = 64, replicates: int = 0
    ) -> Distribution:
        """ANALYST. Read the whole distribution of a number, over its own range."""
        unit = self.units[0]
        if self.names or not isinstance(unit, Range):
            raise ParameterError(f"{self.mechanism.name} is not for a number: no distribution")
        whole = self.mechanism.distribution(tally, method, bins, replicates)
        return whole.scaled(unit.low, unit.high)

    # --- auditor ---

    def loss(self) -> Loss:
        """AUDITOR. The mechanism's: units change nothing about it."""
        return self.mechanism.loss()


def unit_of(unit: Units) -> Range | Named:
    """Return a range or labels, or say what a unit is."""
    if isinstance(unit, Labels):
        return Named(unit)
    given: list[Any] = (
        list(unit) if isinstance(unit, Sequence) and not isinstance(unit, str) else []
    )
    if len(given) == 2 and all(_is_number(end) for end in given):
        return Range(float(given[0]), float(given[1]))
    if given and all(isinstance(label, str) for label in given):
        return Named(Labels(tuple(map(str, given))))
    raise ParameterError(f"units are (low, high) or a list of labels; got {unit!r}")


def _is_number(end: object) -> bool:
    """Whether it can be the end of a range."""
    real = isinstance(end, int | float | np.integer | np.floating)
    return real and not isinstance(end, bool)


def parameters_of(units: Units) -> dict[str, Any]:
    """Return what a mechanism for these units is told about its domain.

    >>> parameters_of(["yes", "no"]), parameters_of({"age": (18, 98), "phone": ["ios", "other"]})
    ({'k': 2}, {'domains': (0, 2)})
    """
    if isinstance(units, Mapping):
        return Box(tuple(unit_of(unit).size for unit in units.values())).parameters()
    size = unit_of(units).size
    return {"k": size} if size else {}
