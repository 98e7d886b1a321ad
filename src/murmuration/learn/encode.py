"""Mixed data as rows of numbers, from what is public: declared ranges and lists of values.

Nothing is fitted. A range that is measured on private data tells something about the person at
its end, so a campaign declares its columns before anyone answers:

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
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags

from murmuration.campaign.answers import Reading
from murmuration.errors import InputError, ParameterError
from murmuration.exact.arrays import Bits, Floats, Ints
from murmuration.mechanisms.domain import described, real_numbers, table_columns

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

    def encode(self, values: ArrayLike) -> Floats:
        """Return one column; a value that is missing or outside is not repeated."""
        numbers = self._numbers(values)
        if self.clamp:
            numbers = np.clip(numbers, self.low, self.high)
        refuse(~((numbers >= self.low) & (numbers <= self.high)), self._advice)
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

    def encode(self, values: ArrayLike) -> Floats:
        """Return k - 1 columns of 1 and `absent`."""
        items = self.items(values)
        return np.where(items[:, None] == np.arange(self.width), 1.0, float(self.absent))

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


class Encoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Turns people's answers into rows of numbers; a transformer of scikit-learn that fits nothing.

    `columns` has a `Number` or a `Category` for each name.

    >>> people = Encoder({"age": Number(0, 100), "home": Category(("rent", "own", "else"))})
    >>> people.names
    ('age', 'home=rent', 'home=own')
    >>> people.encode({"age": [25, 50], "home": ["own", "else"]}).tolist()
    [[-0.5, 0.0, 1.0], [0.0, 0.0, 0.0]]
    >>> people.encode([(25, "own")]).tolist()
    [[-0.5, 0.0, 1.0]]
    """

    def __init__(self, columns: Mapping[str, Column]) -> None:
        self.columns = columns  # as it was given: scikit-learn's clone compares
        self._require_columns()

    def _require_columns(self) -> None:
        """Refuse columns that are none; again in `fit`, as `set_params` may have changed them."""
        columns = self.columns if isinstance(self.columns, Mapping) else {}
        known = all(isinstance(column, Number | Category) for column in columns.values())
        if not columns or not known:
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
        """Return a matrix with one row per person, from columns by name (a DataFrame too) or rows.

        Columns by name that were not declared are left out; rows have the declared order. A
        warning says how many values were moved to an end of their range, if any were.
        """
        answers = self._by_name(table)
        matrix = self._matrix(answers)
        self._warn(self._moved(answers), len(matrix))
        return matrix

    def clamped(self, table: Any) -> dict[str, int]:
        """Return how many values `encode` moves to an end, for each column that is clamped."""
        return self._moved(self._by_name(table))

    def _moved(self, answers: dict[str, Any]) -> dict[str, int]:
        return {
            name: column.clamped(answers[name])
            for name, column in self.columns.items()
            if isinstance(column, Number) and column.clamp
        }

    def _warn(self, moved: dict[str, int], people: int) -> None:
        told = [f"{name} {count:,} of {people:,}" for name, count in moved.items() if count]
        if told:
            warnings.warn(
                f"values beyond their declared range were moved to its end: {', '.join(told)}",
                UserWarning,
                stacklevel=3,
            )

    def _matrix(self, answers: dict[str, Any]) -> Floats:
        parts = [self._encoded(name, values) for name, values in answers.items()]
        if len({len(part) for part in parts}) != 1:
            raise InputError("columns differ in length")
        return np.concatenate(parts, axis=1)

    def _encoded(self, name: str, values: ArrayLike) -> Floats:
        try:
            return self.columns[name].encode(values)
        except InputError as error:
            raise InputError(f"{name}: {error}") from None

    def _by_name(self, table: Any) -> dict[str, Any]:
        """Return the declared columns of a table in the declared order."""
        named = table_columns(table)
        if named is None:
            return self._of_rows(table)
        given = [name for name, _ in named]
        if absent := [name for name in self.columns if name not in given]:
            raise InputError(f"the table has no column {', '.join(absent)}")
        if twice := [name for name in self.columns if given.count(name) > 1]:
            raise InputError(f"the table has more than one column called {', '.join(twice)}")
        return {name: dict(named)[name] for name in self.columns}

    def _of_rows(self, table: Any) -> dict[str, Any]:
        several = hasattr(table, "__iter__") and not isinstance(table, str)
        if not several or getattr(table, "ndim", 2) == 0:
            raise InputError(f"people are columns by name or rows; got {described(table)}")
        rows = table if isinstance(table, np.ndarray) else list(table)
        if len(rows) == 0:
            return {name: [] for name in self.columns}
        try:
            return dict(zip(self.columns, transposed(rows), strict=True))
        except (TypeError, ValueError):
            raise InputError(f"a row has {len(self.columns)} values, one a column") from None

    # --- as a transformer of scikit-learn ---

    def fit(self, X: Any, y: object = None) -> Self:  # noqa: N803
        """Check that the table can be encoded, and note its names; nothing is fitted."""
        del y
        self._matrix(self._noted(X))
        return self

    def transform(self, X: Any) -> Floats:  # noqa: N803
        """Do what `encode` does; a DataFrame after `set_output(transform="pandas")`."""
        return self.encode(X)

    def fit_transform(self, X: Any, y: object = None) -> Floats:  # noqa: N803
        """Note the table's names and encode it, once."""
        del y
        self._noted(X)
        return self.encode(X)

    def get_feature_names_out(self, input_features: object = None) -> NDArray[np.object_]:
        """Return the names of the encoded columns; they follow from what is declared alone."""
        del input_features
        return np.array(self.names, dtype=object)

    def _noted(self, table: Any) -> dict[str, Any]:
        """Return the declared columns, and note what scikit-learn wants to know of a table."""
        self._require_columns()
        answers, named = self._by_name(table), table_columns(table)
        self.n_features_in_ = len(self.columns) if named is None else len(named)
        if named is not None:
            self.feature_names_in_ = np.array([name for name, _ in named], dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_  # of a table before this one
        return answers

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.input_tags.string = tags.input_tags.categorical = True
        return tags


def transposed(rows: Any) -> Any:
    """Return the columns of rows; each keeps the type of its own values."""
    if isinstance(rows, np.ndarray):
        if rows.dtype.kind != "O" or rows.ndim != 2:
            return rows.T
        rows = rows.tolist()  # of a mixed table: each column has its own type again
    return list(zip(*rows, strict=True))


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
