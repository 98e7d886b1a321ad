"""Mixed data as rows of numbers, from what is public: declared ranges and lists of values.

Nothing is fitted. A range that is measured on private data tells something about the person at
its end, so a campaign declares its columns before anyone answers (`columns.py`).

Answers are checked at once and kept as they came; the rows of numbers that they become are made for
as many people as are asked at a time (`EncodedTable`). So the whole matrix, which for categories of
many labels is far larger than the table, is never there.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags

from murmuration.errors import InputError, ParameterError
from murmuration.exact.arrays import Floats, Ints
from murmuration.learn.columns import Category, Column, Declared, Interaction, Number
from murmuration.mechanisms.domain import described, table_columns
from murmuration.training.algorithm.questions import Attribute

PEOPLE_PER_PASS = 1 << 13
"""Of a whole matrix, so many rows are made at a time."""


@dataclass(frozen=True, eq=False)
class EncodedTable:
    """People's answers, checked; `table[people]` are rows of numbers of some of them."""

    columns: Mapping[str, Declared]
    answers: Mapping[str, NDArray[np.generic]]
    shape: tuple[int, int]

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, people: slice | Ints) -> Floats:
        """Return a row of numbers for each of these people."""
        own = {
            name: column.columns_of(self.answers[name][people])
            for name, column in self.columns.items()
            if not isinstance(column, Interaction)
        }
        blocks = (
            column.columns_of(own[column.first], own[column.second])
            if isinstance(column, Interaction)
            else own[name]
            for name, column in self.columns.items()
        )
        return np.concatenate([*blocks], axis=1)

    def whole(self) -> Floats:
        """Return everybody's rows."""
        matrix = np.empty(self.shape)
        for start in range(0, len(self), PEOPLE_PER_PASS):
            people = slice(start, start + PEOPLE_PER_PASS)
            matrix[people] = self[people]
        return matrix


class Encoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Turns people's answers into rows of numbers; a transformer of scikit-learn that fits nothing.

    `columns` has a `Number` or a `Category` for each name, and maybe an `Interaction` of two names.

    >>> people = Encoder({"age": Number(0, 100), "home": Category(("rent", "own", "else"))})
    >>> people.names
    ('age', 'home=rent', 'home=own')
    >>> people.encode({"age": [25, 50], "home": ["own", "else"]}).tolist()
    [[-0.5, 0.0, 1.0], [0.0, 0.0, 0.0]]
    >>> people.encode([(25, "own")]).tolist()
    [[-0.5, 0.0, 1.0]]
    """

    def __init__(self, columns: Mapping[str, Declared]) -> None:
        self.columns = columns  # as it was given: scikit-learn's clone compares
        self._require_columns()

    def _require_columns(self) -> None:
        """Refuse invalid columns; again in `fit`, as `set_params` may have changed them."""
        columns = self.columns if isinstance(self.columns, Mapping) else {}
        known = all(isinstance(one, Number | Category | Interaction) for one in columns.values())
        if not self.asked or not known:
            raise ParameterError(
                "columns are one or more names, each with a Number or a Category, and Interactions "
                "of them"
            )
        for name, column in columns.items():
            if isinstance(column, Interaction):
                self._require_pair(name, column)
        if len(set(self.names)) != self.width:
            raise ParameterError("two encoded columns have the same name: rename one")

    def _require_pair(self, name: str, pair: Interaction) -> None:
        """Refuse an interaction of what is not there, or of a category with itself."""
        if absent := [one for one in (pair.first, pair.second) if one not in self.asked]:
            raise ParameterError(
                f"{name}: an interaction is of two declared columns; there is no {absent[0]}"
            )
        if pair.first == pair.second and isinstance(self.asked[pair.first], Category):
            raise ParameterError(f"{name}: a category with itself is the category")

    @property
    def asked(self) -> dict[str, Column]:
        """The columns that people answer: all but interactions."""
        columns = self.columns if isinstance(self.columns, Mapping) else {}
        return {n: one for n, one in columns.items() if isinstance(one, Number | Category)}

    @property
    def width(self) -> int:
        """How many numbers a person becomes."""
        return len(self.units)

    @property
    def names(self) -> tuple[str, ...]:
        """The encoded columns: `age`, `home=rent`, ..., `age x home=rent`."""
        parts = (
            column.names(*self._pair(column))
            if isinstance(column, Interaction)
            else column.names(name)
            for name, column in self.columns.items()
        )
        return tuple(name for part in parts for name in part)

    @property
    def units(self) -> tuple[float, ...]:
        """How much of an encoded column one unit of what was declared is."""
        parts = (
            column.units(*self._pair(column)) if isinstance(column, Interaction) else column.units
            for column in self.columns.values()
        )
        return tuple(unit for part in parts for unit in part)

    @property
    def attributes(self) -> tuple[Attribute, ...]:
        """What a training may ask about, and which columns are whose."""
        found: list[Attribute] = []
        for column in self.columns.values():
            first = found[-1].first + found[-1].width if found else 0
            found += (
                column.attributes(*self._pair(column), first)
                if isinstance(column, Interaction)
                else column.attributes(first)
            )
        return tuple(found)

    def _pair(self, interaction: Interaction) -> tuple[Column, Column]:
        return self.asked[interaction.first], self.asked[interaction.second]

    def encode(self, table: Any) -> Floats:
        """Return a matrix with one row per person, from columns by name (a DataFrame too) or rows.

        Columns by name that were not declared are left out; rows have the declared order. A
        warning says how many values were moved to an end of their range, if any were.
        """
        return self.table(table).whole()

    def table(self, table: Any) -> EncodedTable:
        """Return the answers, checked, with a warning about those that were moved to an end."""
        answers = self._by_name(table)
        found = self._checked(answers)
        self._warn(self._moved(answers), len(found))
        return found

    def clamped(self, table: Any) -> dict[str, int]:
        """Return how many values `encode` moves to an end, for each column that is clamped."""
        return self._moved(self._by_name(table))

    def _moved(self, answers: dict[str, Any]) -> dict[str, int]:
        return {
            name: column.clamped(answers[name])
            for name, column in self.asked.items()
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

    def _checked(self, answers: dict[str, Any]) -> EncodedTable:
        checked = {name: self._of_column(name, values) for name, values in answers.items()}
        people = {len(one) for one in checked.values()}
        if len(people) != 1:
            raise InputError("columns differ in length")
        return EncodedTable(self.columns, checked, (people.pop(), self.width))

    def _of_column(self, name: str, values: ArrayLike) -> NDArray[np.generic]:
        try:
            return self.asked[name].checked(values)
        except InputError as error:
            raise InputError(f"{name}: {error}") from None

    def _by_name(self, table: Any) -> dict[str, Any]:
        """Return the declared columns of a table in the declared order."""
        named = table_columns(table)
        if named is None:
            return self._of_rows(table)
        given = [name for name, _ in named]
        if absent := [name for name in self.asked if name not in given]:
            raise InputError(f"the table has no column {', '.join(absent)}")
        if twice := [name for name in self.asked if given.count(name) > 1]:
            raise InputError(f"the table has more than one column called {', '.join(twice)}")
        return {name: dict(named)[name] for name in self.asked}

    def _of_rows(self, table: Any) -> dict[str, Any]:
        several = hasattr(table, "__iter__") and not isinstance(table, str)
        if not several or getattr(table, "ndim", 2) == 0:
            raise InputError(f"people are columns by name or rows; got {described(table)}")
        rows = table if isinstance(table, np.ndarray) else list(table)
        if len(rows) == 0:
            return {name: [] for name in self.asked}
        try:
            return dict(zip(self.asked, transposed(rows), strict=True))
        except (TypeError, ValueError):
            raise InputError(f"a row has {len(self.asked)} values, one a column") from None

    # --- as a transformer of scikit-learn ---

    def fit(self, X: Any, y: object = None) -> Self:  # noqa: N803
        """Check that the table can be encoded, and note its names; nothing is fitted."""
        del y
        self._checked(self._noted(X))
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
        self.n_features_in_ = len(self.asked) if named is None else len(named)
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
