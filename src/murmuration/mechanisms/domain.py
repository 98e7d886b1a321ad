"""What a mechanism takes: the domain of one person's private value.

    Number           a number in [-1, 1]
    Graded(edges)    a number in [-1, 1] whose ranges have budgets of their own
    NumberOrNone     a number in [-1, 1], or nan: no answer
    Items(k)         one of k items, 0 to k-1
    Box(sizes)       several attributes at once: 0 for a number, k for one of k items
    Ball(d)          a vector of d numbers whose squares add up to at most 1

A domain checks values, says how a mechanism for it is made, and knows crowds to try one on. Anyone
who wants to know what a mechanism is for asks its domain.
"""

from __future__ import annotations

import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from murmuration.errors import InputError, ParameterError
from murmuration.exact.arrays import Floats, Ints, Rows
from murmuration.exact.grid import fixed_point

MAX_ITEMS = 1 << 20
MAX_ATTRIBUTES = 1 << 16
TOO_LONG = 1 + 1e-6
"""Longer vectors are refused; less than that is rounding, as in 32-bit gradients."""

Values = Any
"""What `checked` returns: an array with one entry per person, or for a box a list of them."""


class Domain(ABC):
    """What one person may answer."""

    noun: ClassVar[str]
    """What one answer is, in words."""

    @abstractmethod
    def checked(self, values: Any) -> Values:
        """Return the values as arrays, or refuse them without repeating any."""

    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """Return what a mechanism for this domain is told about it, besides epsilon."""

    @abstractmethod
    def crowd(self, n: int, rng: np.random.Generator) -> Values:
        """Return the values of n simulated people, spread over the whole domain."""

    @abstractmethod
    def extremes(self) -> tuple[Any, Any]:
        """Return two answers of one person that are as far apart as they can be."""

    @classmethod
    @abstractmethod
    def example(cls, epsilon: float, k: int, d: int) -> dict[str, Any]:
        """Return the parameters of an example: k items, d numbers, epsilon in all."""

    @abstractmethod
    def truths(self, values: Values) -> Floats:
        """Return what these values come to: the numbers that estimates are about, as one array."""

    @abstractmethod
    def unfit(self) -> Iterator[Any]:
        """Yield values that are refused; numbers in them that are far off are 31 and more."""

    def fits(self, asked: Domain) -> bool:
        """Whether a mechanism for this domain answers a question with that one."""
        return self == asked

    @property
    def items(self) -> int:
        """How many items an answer is one of; 0 where it is none."""
        return 0

    def ranges(self, low: float = -1.0, high: float = 1.0) -> list[str]:
        """Return the ranges that have budgets of their own, in the units of low to high."""
        del low, high
        return []

    @property
    def figures(self) -> int:
        """How many numbers are estimated; of one attribute, where there are several."""
        return 1

    def count(self, values: Values) -> int:
        """Return how many people these are."""
        return len(values)

    def part(self, values: Values, who: slice | Ints) -> Values:
        """Return the values of some of the people."""
        return values[who]

    def written(self, values: Values) -> Rows:
        """Return each person's checked value as a row of bytes: what keyed words follow from.

        64-bit little-endian: a whole number for an item, a float for a number (0 for -0), one after
        the other where there are several.

        >>> Items(3).written(np.array([2])).tolist()
        [[2, 0, 0, 0, 0, 0, 0, 0]]
        """
        columns = values if isinstance(values, list) else [values]
        return np.concatenate([_octets(np.asarray(column)) for column in columns], axis=1)

    def repeated(self, answer: Any, n: int) -> Values:
        """Return the values of n people who all have this answer."""
        return self.checked([answer] * n)

    def told_apart(self, inputs: tuple[float, float]) -> tuple[Any, Any]:
        """Return two answers that are told apart as a loss says, which names them as numbers."""
        return inputs

    def place(self, answer: Any) -> str:
        """Name an answer, for people."""
        return f"x = {answer:g}" if isinstance(answer, int | float) else f"x = {answer}"


def _octets(column: NDArray[Any]) -> Rows:
    kind = "<i8" if column.dtype.kind in "iu" else "<f8"
    plain = np.ascontiguousarray(column + 0, dtype=kind)  # -0.0 + 0 is 0.0
    return plain.reshape(len(column), -1).view(np.uint8)


@dataclass(frozen=True)
class Number(Domain):
    """A number in [-1, 1].

    >>> Number().checked([0.5]).tolist()
    [0.5]
    """

    noun: ClassVar[str] = "a number"

    def checked(self, values: Any) -> Floats:
        """Return floats."""
        return checked_values(values)

    def parameters(self) -> dict[str, Any]:
        """Nothing."""
        return {}

    def crowd(self, n: int, rng: np.random.Generator) -> Floats:
        """A skewed crowd, with some at both ends and most between grid points."""
        values = 2 * rng.beta(2, 5, size=n) - 1
        values[: n // 50] = 1.0
        values[n // 50 : n // 25] = -1.0
        return values

    def extremes(self) -> tuple[float, float]:
        """The two ends."""
        return -1.0, 1.0

    def truths(self, values: Values) -> Floats:
        """The mean."""
        return np.array([np.mean(values)])

    def unfit(self) -> Iterator[Any]:
        """Numbers outside, and what is no list of numbers."""
        yield from ([0.5, 1.0000001], [-1.5], [31.4159], [math.nan], [math.inf], [[0.5]], ["a"])

    @classmethod
    def example(cls, epsilon: float, k: int, d: int) -> dict[str, Any]:
        """Epsilon is all."""
        del k, d
        return {"epsilon": epsilon}


@dataclass(frozen=True)
class Graded(Number):
    """A number in [-1, 1] whose ranges, between these edges, have budgets of their own."""

    noun: ClassVar[str] = "a number with graded ranges"

    edges: tuple[float, ...]

    def fits(self, asked: Domain) -> bool:
        """It answers about any number."""
        return type(asked) in (Number, Graded)

    @classmethod
    def example(cls, epsilon: float, k: int, d: int) -> dict[str, Any]:
        """Epsilon below 0, half of it above."""
        del k, d
        return {"epsilon": (epsilon, epsilon / 2), "edges": (0.0,)}

    def ranges(self, low: float = -1.0, high: float = 1.0) -> list[str]:
        """Return the ranges in words, in the units of a domain from low to high.

        >>> Graded((-1.0, 0.5, 1.0)).ranges(0, 100)
        ['0 to 75', '75 to 100']
        """
        ends = [f"{low + (edge + 1) / 2 * (high - low):.6g}" for edge in self.edges]
        return [f"{start} to {end}" for start, end in pairwise(ends)]

    def place(self, answer: Any) -> str:
        """Name a value and its range."""
        return f"x = {answer:g} in range {self.range_of(answer) + 1}"

    def range_of(self, x: float) -> int:
        """Return the range of a value, from 0 on, as the device decides it."""
        inner = fixed_point(np.array(self.edges[1:-1]))
        return int(np.searchsorted(inner, fixed_point(np.array([x]))[0], side="right"))


@dataclass(frozen=True)
class NumberOrNone(Domain):
    """A number in [-1, 1], or nan: no answer. `edges` are those of graded ranges, if there are any.

    >>> NumberOrNone().checked([0.5, math.nan]).tolist()
    [0.5, nan]
    """

    noun: ClassVar[str] = "a number or no answer"

    edges: tuple[float, ...] = ()

    def checked(self, values: Any) -> Floats:
        """Return floats, nan where there is no answer."""
        numbers = real_numbers(values)
        silent = np.isnan(numbers)
        _require_inside(np.where(silent, 0.0, numbers))
        return numbers

    def written(self, values: Values) -> Rows:
        """A number as ever, and no answer as the number 2, which nobody has.

        >>> NumberOrNone().written(np.array([math.nan])).tolist()
        [[0, 0, 0, 0, 0, 0, 0, 64]]
        """
        return super().written(np.where(np.isnan(values), 2.0, values))

    def parameters(self) -> dict[str, Any]:
        """Nothing."""
        return {}

    def fits(self, asked: Domain) -> bool:
        """It answers about any number that may be missing, with ranges or without."""
        return type(asked) is NumberOrNone

    def crowd(self, n: int, rng: np.random.Generator) -> Floats:
        """The crowd of a number, three in ten of them without an answer."""
        values = Number().crowd(n, rng)
        values[rng.random(n) < 0.3] = math.nan
        return values

    def extremes(self) -> tuple[float, float]:
        """One end, and no answer."""
        return -1.0, math.nan

    def truths(self, values: Values) -> Floats:
        """The mean over all people, with 0 for no answer, and the share that answered."""
        return np.array([np.mean(np.nan_to_num(values)), np.mean(~np.isnan(values))])

    def unfit(self) -> Iterator[Any]:
        """As of a number, but for nan."""
        yield from ([0.5, 1.0000001], [-1.5], [31.4159], [math.inf], [[0.5]], ["a"], [None])

    def ranges(self, low: float = -1.0, high: float = 1.0) -> list[str]:
        """Return the ranges in words, and no answer, which is one of its own."""
        return [*Graded(self.edges).ranges(low, high), "no answer"] if self.edges else []

    def place(self, answer: Any) -> str:
        """Name a value and its range, or no answer."""
        if math.isnan(answer):
            return "no answer"
        return Graded(self.edges).place(answer) if self.edges else super().place(answer)

    @classmethod
    def example(cls, epsilon: float, k: int, d: int) -> dict[str, Any]:
        """Epsilon is all."""
        del k, d
        return {"epsilon": epsilon}


@dataclass(frozen=True)
class Items(Domain):
    """One of k items, 0 to k-1.

    >>> Items(3).checked([2, 0]).tolist()
    [2, 0]
    """

    noun: ClassVar[str] = "one of k items"

    k: int

    def checked(self, values: Any) -> Ints:
        """Return integers."""
        return checked_items(values, self.k)

    def parameters(self) -> dict[str, Any]:
        """How many items."""
        return {"k": self.k}

    @property
    def items(self) -> int:
        """All k."""
        return self.k

    @property
    def figures(self) -> int:
        """A share for each item."""
        return self.k

    def told_apart(self, inputs: tuple[float, float]) -> tuple[int, int]:
        """Two items."""
        return int(inputs[0]), int(inputs[1])

    def crowd(self, n: int, rng: np.random.Generator) -> Ints:
        """Items of falling frequency; where there are more items than people, some are missing."""
        return np.minimum(rng.geometric(min(0.9, 4 / self.k), n) - 1, self.k - 1)

    def extremes(self) -> tuple[int, int]:
        """The first item and the last."""
        return 0, self.k - 1

    def truths(self, values: Values) -> Floats:
        """The share of each item."""
        return np.asarray(np.bincount(values, minlength=self.k) / len(values))

    def unfit(self) -> Iterator[Any]:
        """Items that there are not, and what is no list of items."""
        yield from ([0, self.k], [0, 31_415_926], [-1], [0.5], [[1]], ["a"], [True])

    @classmethod
    def example(cls, epsilon: float, k: int, d: int) -> dict[str, Any]:
        """K items."""
        del d
        return {"epsilon": epsilon, "k": k}


@dataclass(frozen=True)
class Box(Domain):
    """Several attributes at once; `sizes` has 0 for a number in [-1, 1], k for one of k items.

    >>> [column.tolist() for column in Box((0, 3)).checked([np.array([0.5]), np.array([2])])]
    [[0.5], [2]]
    """

    noun: ClassVar[str] = "several attributes"

    sizes: tuple[int, ...]

    @classmethod
    def of(cls, d: object, domains: object) -> Box:
        """Return the box of `d` numbers, or of `domains`, whichever is given."""
        return cls(checked_sizes(d, domains))

    @property
    def parts(self) -> list[Number | Items]:
        """Each attribute's own domain."""
        return [Items(k) if k else Number() for k in self.sizes]

    def checked(self, values: Any) -> list[NDArray[np.generic]]:
        """Return one array per attribute, all of one length.

        All attributes are checked, asked about or not: an error must not tell which one was.
        """
        columns = _columns(values)
        d = len(self.sizes)
        if len(columns) != d:
            raise InputError(
                f"values must be rows of {d} numbers, {d} arrays or Series in a list, one per "
                f"attribute, or a DataFrame of {d} columns; got {described(values)}"
            )
        arrays: list[NDArray[np.generic]] = [
            part.checked(column) for part, column in zip(self.parts, columns, strict=True)
        ]
        if len(lengths := sorted({len(array) for array in arrays})) != 1:
            raise InputError(
                "all columns must be of one length, one row per person; got lengths "
                f"{', '.join(map(str, lengths))}"
            )
        return arrays

    def parameters(self) -> dict[str, Any]:
        """The sizes."""
        return {"domains": self.sizes}

    def count(self, values: Values) -> int:
        """The length of any column."""
        return len(values[0])

    def part(self, values: Values, who: slice | Ints) -> Values:
        """Some of each column."""
        return [column[who] for column in values]

    def repeated(self, answer: Any, n: int) -> Values:
        """One column per attribute."""
        return self.checked(
            [part.repeated(a, n) for part, a in zip(self.parts, answer, strict=True)]
        )

    def told_apart(self, inputs: tuple[float, float]) -> tuple[Any, Any]:
        """The extremes: no loss names a whole tuple."""
        del inputs
        return self.extremes()

    def crowd(self, n: int, rng: np.random.Generator) -> list[NDArray[np.generic]]:
        """Independent attributes."""
        return [part.crowd(n, rng) for part in self.parts]

    def truths(self, values: Values) -> Floats:
        """Those of each attribute, one after the other."""
        columns = zip(self.parts, values, strict=True)
        return np.concatenate([part.truths(column) for part, column in columns])

    def unfit(self) -> Iterator[Any]:
        """One column too many, what is not a table, and an invalid value."""
        yield from (np.zeros((1, len(self.sizes) + 1)), "abc", 0.5)
        for wrong in (1.5, math.nan, 31.4159):
            columns = [
                np.array(column, dtype=float) for column in self.repeated(self.extremes()[0], 3)
            ]
            columns[0][1] = wrong
            yield columns

    def extremes(self) -> tuple[Any, Any]:
        """One end of every attribute, and the other."""
        ends = [part.extremes() for part in self.parts]
        return tuple(low for low, _ in ends), tuple(high for _, high in ends)

    @classmethod
    def example(cls, epsilon: float, k: int, d: int) -> dict[str, Any]:
        """D numbers."""
        del k
        return {"epsilon": epsilon, "d": d}


@dataclass(frozen=True)
class Ball(Domain):
    """One vector of d numbers, at most 1 long: a gradient.

    >>> Ball(2).checked([[0.6, -0.8]]).tolist()
    [[0.6, -0.8]]
    """

    noun: ClassVar[str] = "a vector of length at most 1"

    d: int

    def checked(self, values: Any) -> Floats:
        """Return rows of floats."""
        rows = np.stack(Box((0,) * self.d).checked(values), axis=1).astype(np.float64)
        lengths = np.sqrt(np.square(rows).sum(axis=1))
        if len(bad := np.flatnonzero(lengths > TOO_LONG)):
            raise InputError(
                f"a row's squares must add up to at most 1; {len(bad)} of {len(rows)} do not "
                f"(first at position {int(bad[0])}). Scale or clip gradients first; nothing was "
                "sent."
            )
        return rows

    def parameters(self) -> dict[str, Any]:
        """The number of coordinates."""
        return {"d": self.d}

    def told_apart(self, inputs: tuple[float, float]) -> tuple[Any, Any]:
        """The extremes: no loss names a whole tuple."""
        del inputs
        return self.extremes()

    def crowd(self, n: int, rng: np.random.Generator) -> Floats:
        """Vectors of all lengths up to 1, in all directions."""
        rows = rng.normal(size=(n, self.d))
        return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True) * rng.random((n, 1)))

    def truths(self, values: Values) -> Floats:
        """The mean vector."""
        return np.asarray(np.mean(values, axis=0))

    def unfit(self) -> Iterator[Any]:
        """One number too many, what is no table, and a vector that is too long."""
        yield from (np.zeros((1, self.d + 1)), "abc", 0.5)
        for wrong in (1.5, math.nan, 31.4159):
            rows = np.zeros((3, self.d))
            rows[1, 0] = wrong
            yield rows

    def extremes(self) -> tuple[Any, Any]:
        """Both ends of the first axis."""
        axis = (1.0, *(0.0,) * (self.d - 1))
        return axis, tuple(-x for x in axis)

    @classmethod
    def example(cls, epsilon: float, k: int, d: int) -> dict[str, Any]:
        """D coordinates."""
        del k
        return {"epsilon": epsilon, "d": d}


# --- checking values ---------------------------------------------------------------------------


def checked_values(values: ArrayLike) -> Floats:
    """Return the values as floats in [-1, 1], or say that they are not, without repeating them."""
    return _require_inside(real_numbers(values))


def real_numbers(values: Any, fit: str = "in [-1, 1]") -> Floats:
    """Return a flat array of floats, or say that these are none; nan for what a column has not.

    >>> real_numbers([1, 2]).tolist()
    [1.0, 2.0]
    """
    _refuse_masked(values)
    try:
        array = np.atleast_1d(_array(values))
        if array.dtype.kind not in "fiu" and array.size:
            raise TypeError
        numbers = array.astype(np.float64, copy=False)
    except (TypeError, ValueError):
        raise InputError(
            f"values must be real numbers {fit}, one per person; got {described(values)}"
        ) from None
    if numbers.ndim != 1:
        raise InputError(
            f"values must be a flat array, one per person; got {described(values)}, which is "
            f"{numbers.ndim}-d"
        )
    return numbers


def _array(values: Any) -> NDArray[Any]:
    """Return an array; of a column of numbers some of which are missing, one with nan for them."""
    array = np.asarray(values)
    kind = getattr(getattr(values, "dtype", None), "kind", "")
    if array.dtype.kind == "O" and kind in ("f", "i", "u"):  # pandas with NA
        return np.asarray(values.to_numpy(dtype=np.float64, na_value=math.nan))
    return array


def _refuse_masked(values: Any) -> None:
    if isinstance(values, np.ma.MaskedArray):
        raise InputError("masked values have no answer: leave those people out first")


def _require_inside(numbers: Floats) -> Floats:
    """Return the numbers, or say how many are outside [-1, 1]."""
    if numbers.size and not (numbers.min() >= -1 and numbers.max() <= 1):
        outside = ~((numbers >= -1) & (numbers <= 1))
        missing = int(np.isnan(numbers).sum())
        if missing == outside.sum():
            raise InputError(
                f"{missing} of {numbers.size} values are missing (nan): leave these people out, or "
                "take a law for no answer (or-none). Nothing was sent."
            )
        said = f", {missing} of them missing (nan)" if missing else ""
        raise InputError(
            f"values must be in [-1, 1]; {int(outside.sum())} of {numbers.size} are not (first at "
            f"position {int(outside.argmax())}{said}). Rescale and clamp first, or give the "
            "mechanism their units=(low, high); nothing was sent."
        )
    return numbers


def checked_items(values: ArrayLike, k: int) -> Ints:
    """Return items as integers in 0 .. k-1, or say that they are not, without repeating them."""
    _refuse_masked(values)
    try:
        array = np.atleast_1d(np.asarray(values))
    except ValueError:  # rows of different lengths
        array = np.empty(0, dtype=object).reshape(0, 0)
    if array.ndim != 1 or (array.dtype.kind not in "ui" and array.size):
        raise InputError(
            f"values must be a flat array of whole numbers, items 0 to {k - 1}; got "
            f"{described(values)}"
        )
    if array.size and not (array.min() >= 0 and array.max() < k):
        outside = (array < 0) | (array >= k)
        raise InputError(
            f"items are 0 to {k - 1}; {int(outside.sum())} of {array.size} are not (first at "
            f"position {int(outside.argmax())}). Nothing was sent."
        )
    return array.astype(np.int64, copy=False)


def checked_sizes(d: object, domains: object) -> tuple[int, ...]:
    """Return the attributes' sizes from `d` (all numbers) or `domains`."""
    if domains is None:
        if isinstance(d, bool) or not isinstance(d, int) or not 1 <= d <= MAX_ATTRIBUTES:
            raise ParameterError(f"d, the number of attributes, must be 1 or more; got {d!r}")
        return (0,) * d
    try:
        sizes = tuple(operator.index(size) for size in domains)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        raise ParameterError("domains lists 0 for a number, k for one of k items") from None
    fits = 0 < len(sizes) <= MAX_ATTRIBUTES and d in (None, len(sizes))
    if not fits or any(size < 0 or size == 1 for size in sizes):
        raise ParameterError(f"domains lists 0 for a number, k >= 2 for k items; got {sizes}")
    return sizes


# --- what may come -----------------------------------------------------------------------------


def table_columns(values: Any) -> list[tuple[str, Any]] | None:
    """Return names and columns of a table: a DataFrame (pandas, polars), an Arrow table, a mapping.

    None for what is no table.

    >>> table_columns({"age": [41, 58]}), table_columns([41, 58])
    ([('age', [41, 58])], None)
    """
    if hasattr(values, "column_names"):  # Arrow
        return list(zip(values.column_names, values.columns, strict=True))
    if hasattr(values, "get_columns"):  # polars
        return [(column.name, column) for column in values.get_columns()]
    if isinstance(values, Mapping) or (hasattr(values, "columns") and hasattr(values, "items")):
        return [(str(name), column) for name, column in values.items()]
    return None


def described(values: Any) -> str:
    """Say what was given, without any value of it.

    >>> described([np.zeros(3), np.zeros((2, 2))])
    'a list of 2 (ndarray of float64, shape (3,); ndarray of float64, shape (2, 2))'
    """
    kind = type(values).__name__
    if isinstance(values, list | tuple):
        inside = [described(one) for one in values[:4] if hasattr(one, "__len__")]
        more = f" ({'; '.join(inside)})" if inside else ""
        return f"a {kind} of {len(values)}{more}"
    if (named := table_columns(values)) is not None:
        return f"a {kind} of {len(named)} columns"
    dtype, shape = getattr(values, "dtype", None), getattr(values, "shape", None)
    return kind if dtype is None else f"{kind} of {dtype}, shape {shape}"


def _columns(values: Any) -> list[Any]:
    """Return columns as they are, and rows of numbers column by column."""
    if (named := table_columns(values)) is not None:
        return [column for _, column in named]
    if isinstance(values, list | tuple) and all(map(_is_array, values)):
        return list(values)
    try:
        rows = np.asarray(values)
    except ValueError:  # rows of different lengths
        return []
    rows = rows.reshape(1, -1) if rows.ndim == 1 else rows
    return list(rows.T) if rows.ndim == 2 and rows.dtype.kind in "fiu" else []


def _is_array(column: Any) -> bool:
    """Whether this is a column: a flat array, or a Series of whatever library."""
    listed = hasattr(column, "__array__") and hasattr(column, "__len__")
    return listed and np.asarray(column).ndim == 1
