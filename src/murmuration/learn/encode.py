"""Mixed data as numbers in [-1, 1], from what is public: declared ranges and lists of values.

Nothing is fitted. A range that is measured on private data tells something about the person at
its end, so a campaign declares its columns before anyone answers:

- `Number(low, high)` is one column, 2 (x - low) / (high - low) - 1;
- `Category` of k values is k - 1 columns: the l-th value is 1 in column l and `absent` in the
  others, the last value is `absent` in all of them.

`absent` is -1, as in Harmony (section 5.3), or 0, as in DCT (section 5.4). We take -1: mechanisms
for numbers protect all of [-1, 1] with the same noise whether it is used or not, and the share of
a value is half of its column's mean plus a half, so it has half the error. With an intercept both
describe the same linear models. 0 keeps the columns of rare values away from the intercept's,
which gradient descent likes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from murmuration.campaign.answers import Reading
from murmuration.errors import InputError, ParameterError
from murmuration.exact.arrays import Floats, Ints

LARGEST = 1 << 62


@dataclass(frozen=True)
class Number:
    """A number between two public ends; with `clamp` values beyond an end are moved to it.

    >>> Number(0, 100).encode([0, 25, 100])[:, 0].tolist()
    [-1.0, -0.5, 1.0]
    """

    low: float
    high: float
    clamp: bool = False

    def __post_init__(self) -> None:
        ends = (self.low, self.high)
        real = all(isinstance(end, int | float | np.number) for end in ends)
        if not real or not self.low < self.high or not math.isfinite(self.high - self.low):
            raise ParameterError(f"a range has finite ends, low below high; got {ends}")

    @property
    def width(self) -> int:
        """One column."""
        return 1

    def names(self, name: str) -> tuple[str, ...]:
        """Return the name itself."""
        return (name,)

    def encode(self, values: ArrayLike) -> Floats:
        """Return one column in [-1, 1]; a value that is missing or outside is not repeated."""
        array = flat(values)
        if array.size and array.dtype.kind not in "fiu":
            raise InputError(f"values must be real numbers from {self.low} to {self.high}")
        numbers = array.astype(np.float64)
        if self.clamp:
            numbers = np.clip(numbers, self.low, self.high)
        refuse(~((numbers >= self.low) & (numbers <= self.high)), self._advice)
        return np.asarray(2 * ((numbers - self.low) / (self.high - self.low)) - 1)[:, None]

    @property
    def _advice(self) -> str:
        if self.clamp:
            return "not numbers; leave those people out first"
        return f"not numbers from {self.low} to {self.high}; clamp=True moves them to the ends"


@dataclass(frozen=True)
class Category:
    """One of k public values, all words or all whole numbers.

    With `other` the last value stands for everything that is not in the list.

    >>> Category(("rent", "own", "else"), other=True).encode(["own", "boat", "rent"]).tolist()
    [[-1.0, 1.0], [-1.0, -1.0], [1.0, -1.0]]
    """

    values: tuple[str, ...] | tuple[int, ...]
    other: bool = False
    absent: float = -1.0

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

    def names(self, name: str) -> tuple[str, ...]:
        """Return name=value for every value but the last."""
        return tuple(f"{name}={value}" for value in self.values[:-1])

    def encode(self, values: ArrayLike) -> Floats:
        """Return k - 1 columns of 1 and `absent`."""
        items = self.items(values)
        return np.where(items[:, None] == np.arange(self.width), 1.0, float(self.absent))

    def items(self, values: ArrayLike) -> Ints:
        """Return the place of each value in the list, 0 .. k-1: what mechanisms for items take."""
        array, words = flat(values), isinstance(self.values[0], str)
        if array.size and array.dtype.kind not in ("OTU" if words else "ui"):
            raise InputError(f"values must be {'words' if words else 'whole numbers'}")
        found = self._reading.places(array.tolist()) if words else self._counted(array)
        if not self.other:
            refuse(found < 0, f"none of the {len(self.values)} declared ones")
        return np.where(found < 0, len(self.values) - 1, found)

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
class Encoder:
    """Turns people's answers into rows of numbers in [-1, 1].

    >>> people = Encoder({"age": Number(0, 100), "home": Category(("rent", "own", "else"))})
    >>> people.names
    ('age', 'home=rent', 'home=own')
    >>> people.encode({"age": [25, 50], "home": ["own", "else"]}).tolist()
    [[-0.5, -1.0, 1.0], [0.0, -1.0, -1.0]]
    >>> people.encode([(25, "own")]).tolist()
    [[-0.5, -1.0, 1.0]]
    """

    columns: Mapping[str, Column]

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", dict(self.columns))
        known = (isinstance(column, Number | Category) for column in self.columns.values())
        if not self.columns or not all(known):
            raise ParameterError("columns are one or more names, each with a Number or a Category")
        if len(set(self.names)) != self.width:
            raise ParameterError("two encoded columns have the same name: rename one")

    @property
    def width(self) -> int:
        """How many numbers a person becomes."""
        return sum(column.width for column in self.columns.values())

    @property
    def names(self) -> tuple[str, ...]:
        """The encoded columns: `age`, `home=rent`, ..."""
        parts = (column.names(name) for name, column in self.columns.items())
        return tuple(name for part in parts for name in part)

    def encode(self, table: Any) -> Floats:
        """Return a matrix with one row per person, from arrays by name (a data frame too) or rows.

        Columns by name that were not declared are left out; rows have the declared order.
        """
        parts = [self._encoded(name, values) for name, values in self._by_name(table).items()]
        if len({len(part) for part in parts}) != 1:
            raise InputError("columns differ in length")
        return np.concatenate(parts, axis=1)

    def _encoded(self, name: str, values: ArrayLike) -> Floats:
        try:
            return self.columns[name].encode(values)
        except InputError as error:
            raise InputError(f"{name}: {error}") from None

    def _by_name(self, table: Any) -> dict[str, Any]:
        if hasattr(table, "keys"):
            missing = [name for name in self.columns if name not in table]
            if missing:
                raise InputError(f"no column {', '.join(missing)}")
            return {name: table[name] for name in self.columns}
        rows = table if isinstance(table, np.ndarray) else list(table)
        if len(rows) == 0:
            return {name: [] for name in self.columns}
        try:
            return dict(zip(self.columns, transposed(rows), strict=True))
        except (TypeError, ValueError):
            raise InputError(f"a row has {len(self.columns)} values, one a column") from None


def transposed(rows: Any) -> Any:
    """Return the columns of rows; each keeps the type of its own values."""
    return rows.T if isinstance(rows, np.ndarray) else list(zip(*rows, strict=True))


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


def refuse(bad: NDArray[np.bool_], rule: str) -> None:
    """Say how many values break the rule and where the first one is, not what it is."""
    if bad.any():
        raise InputError(
            f"{int(bad.sum())} of {bad.size} values are {rule} (first at position "
            f"{int(bad.argmax())}). Nothing was sent."
        )
