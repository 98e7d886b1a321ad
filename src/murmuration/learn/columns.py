"""What becomes of one answer: a column for a number, a few for a category or for an interaction.

- `Number(low, high)` is one column, 2 (x - low) / (high - low) - 1, so in [-1, 1]. With
  `typical=(a, b)` it is 2 (x - a) / (b - a) - 1: most people are in [-1, 1], a few beyond.
- `Category` of k values is k - 1 columns: the l-th value is 1 in column l and `absent` in the
  others, the last value is `absent` in all of them.

`absent` is 0, as in DCT (section 5.4), or -1, as in Harmony (section 5.3). With an intercept both
describe the same linear models, and once columns are centred they differ by a factor of 2 only.
What they differ in is how long a person is, and for the ball the length is what costs: the noise is
that of the longest vector that may come. With -1 every column has length 1 whatever the answers
are: the square root of the number of columns. With 0 an attribute has length 1 at most, however
many values are listed: the square root of the number of attributes. -1 is for mechanisms that
randomise one number at a time: they protect all of [-1, 1] whether it is used or not, and a share
read off -1 and 1 has half the error.

`typical` is for numbers whose hard range says little about where people are, such as gains of 0 to
99,999 that are 0 for nearly everybody. Learners clip a person by the length of the whole vector, so
the few who are far out cost no more than anybody else.

`Interaction("age", "home")` is what two of them come to together: the product of each column of the
one with each of the other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from murmuration.campaign.answers import Reading
from murmuration.errors import InputError, ParameterError
from murmuration.exact.arrays import Bits, Floats, Ints
from murmuration.mechanisms.domain import real_numbers
from murmuration.training.algorithm.questions import Attribute

LARGEST = 1 << 62


@dataclass(frozen=True)
class Number:
    """A number between two public ends; `typical` is where most people are said to be.

    With `clamp` values beyond an end are moved to it and counted; without, they are an error.

    >>> Number(0, 100).encode([0, 25, 100])[:, 0].tolist()
    [-1.0, -0.5, 1.0]
    >>> Number(0, 100, typical=(20, 40)).encode([20, 40, 100])[:, 0].tolist()
    [-1.0, 1.0, 7.0]
    """

    low: float
    high: float
    clamp: bool = False
    typical: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if not _range(self.low, self.high):
            raise ParameterError(
                f"a range has finite ends, low below high; got {(self.low, self.high)}"
            )
        if self.typical is not None:
            self._require_typical()

    def _require_typical(self) -> None:
        """Refuse a typical range that is none, or so narrow that its scale is no number."""
        try:
            low, high = self.typical  # type: ignore[misc]  # whatever a caller gave
        except (TypeError, ValueError):
            raise ParameterError(f"typical is (low, high); got {self.typical!r}") from None
        inside = _range(low, high) and self.low <= low and high <= self.high
        if not inside or not np.isfinite(self._scaled(np.array([self.low, self.high]))).all():
            raise ParameterError(
                f"typical is a range within {self.low} to {self.high}; got {self.typical!r}"
            )
        object.__setattr__(self, "typical", (low, high))

    @property
    def width(self) -> int:
        """One column."""
        return 1

    @property
    def units(self) -> tuple[float, ...]:
        """How far one unit of the number moves the column."""
        low, high = (self.low, self.high) if self.typical is None else self.typical
        return (2 / (high - low),)

    def names(self, name: str) -> tuple[str, ...]:
        """Return the name itself."""
        return (name,)

    def attributes(self, first: int) -> tuple[Attribute, ...]:
        """Return what a training asks about: a number, in the column `first`."""
        return (Attribute(first),)

    def encode(self, values: ArrayLike) -> Floats:
        """Return one column; a value that is missing or outside is not repeated."""
        return self.columns_of(self.checked(values))

    def checked(self, values: ArrayLike) -> NDArray[np.generic]:
        """Return the values, all of them numbers of the range, in the type that they came in."""
        numbers = self._numbers(values)
        inside = (numbers >= self.low) & (numbers <= self.high)
        refuse(np.isnan(numbers) if self.clamp else ~inside, self._advice)
        given = np.atleast_1d(np.asarray(values))
        return given if given.dtype.kind in "fiu" else numbers

    def columns_of(self, checked: NDArray[np.generic]) -> Floats:
        """Return the column of values that were checked."""
        numbers = checked.astype(np.float64, copy=False)
        if self.clamp:
            numbers = np.clip(numbers, self.low, self.high)
        return self._scaled(numbers)[:, None]

    def clamped(self, values: ArrayLike) -> int:
        """Return how many values are beyond an end: those that `encode` moves."""
        numbers = self._numbers(values)
        return int(((numbers < self.low) | (numbers > self.high)).sum())

    def _numbers(self, values: ArrayLike) -> Floats:
        return real_numbers(values, f"from {self.low} to {self.high}")

    def _scaled(self, numbers: Floats) -> Floats:
        low, high = (self.low, self.high) if self.typical is None else self.typical
        with np.errstate(over="ignore"):  # refused when the column is declared
            return np.asarray(2 * ((numbers - low) / (high - low)) - 1)

    @property
    def _advice(self) -> str:
        if self.clamp:
            return "not numbers; leave those people out first"
        return f"not numbers from {self.low} to {self.high}; clamp=True moves them to the ends"


def _range(low: object, high: object) -> bool:
    """Tell whether these are two finite ends, low below high."""
    if not isinstance(low, int | float | np.number) or not isinstance(
        high, int | float | np.number
    ):
        return False
    return bool(low < high and math.isfinite(high - low))


@dataclass(frozen=True)
class Category:
    """One of k public values, all words or all whole numbers.

    With `other` the last value stands for everything that is not in the list.

    >>> Category(("rent", "own", "else"), other=True).encode(["own", "boat", "rent"]).tolist()
    [[0.0, 1.0], [0.0, 0.0], [1.0, 0.0]]
    """

    values: tuple[str, ...] | tuple[int, ...]
    other: bool = False
    absent: float = 0.0

    def __post_init__(self) -> None:
        if isinstance(self.values, str):
            raise ParameterError("values are a list of words, not one word")
        values: tuple[Any, ...] = tuple(self.values)
        whole = all(isinstance(v, int | np.integer) and not isinstance(v, bool) for v in values)
        if not whole and not all(isinstance(value, str) for value in values):
            raise ParameterError("values are all words or all whole numbers")
        if whole and any(abs(int(value)) > LARGEST for value in values):
            raise ParameterError("whole numbers are at most 2^62 in size")
        if len(values) < 2 or len(set(values)) != len(values):
            raise ParameterError("values are two or more, all different")
        if self.absent not in (-1, 0):
            raise ParameterError(f"absent is -1 or 0; got {self.absent!r}")
        object.__setattr__(self, "values", values)

    @property
    def width(self) -> int:
        """One column less than there are values."""
        return len(self.values) - 1

    @property
    def units(self) -> tuple[float, ...]:
        """How far a value's column is from `absent` where it is given."""
        return (1.0 - self.absent,) * self.width

    def names(self, name: str) -> tuple[str, ...]:
        """Return name=value for every value but the last."""
        return tuple(f"{name}={value}" for value in self.values[:-1])

    def attributes(self, first: int) -> tuple[Attribute, ...]:
        """Return what a training asks about: which label, of the columns from `first` on."""
        return (Attribute(first, self.width, True, self.absent),)

    def encode(self, values: ArrayLike) -> Floats:
        """Return k - 1 columns of 1 and `absent`."""
        return self.columns_of(self.checked(values))

    def checked(self, values: ArrayLike) -> NDArray[np.generic]:
        """Return the place of each value, in the smallest type that holds it."""
        return self.items(values).astype(np.min_scalar_type(self.width))

    def columns_of(self, checked: NDArray[np.generic]) -> Floats:
        """Return the columns of values that were checked."""
        return np.where(checked[:, None] == np.arange(self.width), 1.0, float(self.absent))

    def items(self, values: ArrayLike) -> Ints:
        """Return the place of each value in the list, 0 .. k-1: what mechanisms for items take."""
        array, words = flat(values), isinstance(self.values[0], str)
        if array.size and array.dtype.kind not in ("OTU" if words else "ui"):
            raise InputError(f"values must be {'words' if words else 'whole numbers'}")
        places = self._reading.places(array.tolist()) if words else self._counted(array)
        if not self.other:
            refuse(places < 0, f"none of the {len(self.values)} declared ones")
        return np.where(places < 0, len(self.values) - 1, places)

    def _counted(self, array: NDArray[np.generic]) -> Ints:
        """Return the place of each whole number, -1 if it has none."""
        if array.dtype == np.uint64:  # 2^64 - 1 must not become -1
            array = np.minimum(array, np.uint64(LARGEST + 1))
        numbers, (ours, order) = array.astype(np.int64), self._sorted
        place = np.minimum(np.searchsorted(ours, numbers), len(ours) - 1)
        return np.where(ours[place] == numbers, order[place], -1)

    @cached_property
    def _reading(self) -> Reading:
        """How words are read: by the one rule, as campaigns do."""
        return Reading(tuple(map(str, self.values)))

    @cached_property
    def _sorted(self) -> tuple[NDArray[Any], Ints]:
        ours = np.array(self.values)
        order = np.argsort(ours)
        return ours[order], order


Column = Number | Category


@dataclass(frozen=True)
class Interaction:
    """Two columns together, by their names: what one adds depends on the other.

    >>> Interaction("age", "home").names(Number(0, 90), Category(("rent", "own", "else")))
    ('age x home=rent', 'age x home=own')
    """

    first: str
    second: str

    def __post_init__(self) -> None:
        if not isinstance(self.first, str) or not isinstance(self.second, str):
            raise ParameterError("an interaction is of two columns, by their names")

    def names(self, one: Column, other: Column) -> tuple[str, ...]:
        """Return the names of the products."""
        pairs = ((a, b) for a in one.names(self.first) for b in other.names(self.second))
        return tuple(f"{a} x {b}" for a, b in pairs)

    def units(self, one: Column, other: Column) -> tuple[float, ...]:
        """Return how far a unit of both moves each product."""
        return tuple(a * b for a in one.units for b in other.units)

    def attributes(self, one: Column, other: Column, first: int) -> tuple[Attribute, ...]:
        """Return what a training asks about: two categories make one, others numbers."""
        width = one.width * other.width
        if (
            isinstance(one, Category)
            and isinstance(other, Category)
            and not (one.absent or other.absent)
        ):
            return (Attribute(first, width, True),)
        return tuple(Attribute(place) for place in range(first, first + width))

    def columns_of(self, one: Floats, other: Floats) -> Floats:
        """Return the products of the columns of one with those of the other."""
        return np.asarray((one[:, :, None] * other[:, None, :]).reshape(len(one), -1))


Declared = Number | Category | Interaction


def flat(values: ArrayLike) -> NDArray[np.generic]:
    """Return a flat array, one value a person; one value alone is one person."""
    if isinstance(values, np.ma.MaskedArray):
        raise InputError("masked values have no code: leave those people out first")
    try:
        array = np.atleast_1d(np.asarray(values))
    except ValueError:
        raise InputError("values must be a flat array, one a person") from None
    if array.ndim != 1:
        raise InputError(f"values must be a flat array, one a person; got {array.ndim}-d")
    return array


def refuse(bad: Bits, rule: str) -> None:
    """Say how many values break the rule and where the first one is, not what it is."""
    if bad.any():
        raise InputError(
            f"{int(bad.sum())} of {bad.size} values are {rule} (first at position "
            f"{int(bad.argmax())}). Nothing was sent."
        )
