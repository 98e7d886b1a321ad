"""A table of two attributes: one more question, whose items are pairs.

Nobody is asked for it: the device makes the answer from those to the two attributes. A side of a
table is one attribute: the labels of a category, or the bins that a number is cut into; where
answers may be missing, "no answer" is one more. Item i of the first side and item j of the second
are item i k + j of the table, where the second has k.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from murmuration.campaign.question import MOST_LABELS, NO_ANSWER, TABLE, Question
from murmuration.errors import ParameterError
from murmuration.exact.arrays import Floats, Ints


@dataclass(frozen=True)
class Side:
    """One attribute of a table.

    question: the attribute
    cuts: of a number, where it is cut, in its own units, going up; a value at a cut is above it

    >>> age = Side(Question("age", low=18, high=98, missing=True), (30.0, 60.0))
    >>> age.labels
    ('18 to 30', '30 to 60', '60 to 98', 'no answer')
    >>> age.places(np.array([-1.0, 0.0, np.nan])).tolist()
    [0, 1, 3]
    """

    question: Question
    cuts: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        name = self.question.name
        if self.question.derived:
            raise ParameterError(f"{name}: a table is of attributes that people answer")
        if self.question.kind == "graded":
            raise ParameterError(f"{name}: its ranges have budgets of their own: no table has it")
        if not self.question.has_range:
            if self.cuts:
                raise ParameterError(f"{name}: a category has labels, and is not cut")
            return
        low, high = self.question.range
        numbers = all(type(cut) is float for cut in self.cuts)
        if not self.cuts or not numbers or not _rising((low, *self.cuts, high)):
            raise ParameterError(
                f"{name}: cuts are numbers between {low:g} and {high:g}, going up, at least one"
            )
        if not _rising(self._encoded.tolist()):
            raise ParameterError(f"{name}: two cuts are too near to each other")

    @property
    def labels(self) -> tuple[str, ...]:
        """What its items are called."""
        if self.question.has_range:
            low, high = self.question.range
            own = [f"{start:g} to {end:g}" for start, end in pairwise((low, *self.cuts, high))]
        else:
            own = [*self.question.labels]
        return (*own, *[NO_ANSWER] * self.question.missing)

    @property
    def items(self) -> int:
        """How many items it has, "no answer" included."""
        return len(self.labels)

    @property
    def answered(self) -> int:
        """How many items it has without "no answer", which is the last one."""
        return self.items - self.question.missing

    @property
    def _encoded(self) -> Floats:
        """The cuts where the range is [-1, 1], by the rule that encodes answers."""
        low, high = self.question.range
        return np.array([2 * ((cut - low) / (high - low)) - 1 for cut in self.cuts])

    def places(self, column: NDArray[np.generic]) -> Ints:
        """Return the item of each encoded answer."""
        if not self.question.has_range:
            return column.astype(np.int64)
        numbers = column.astype(np.float64)
        below = np.searchsorted(self._encoded, numbers, side="right")
        return np.where(np.isnan(numbers), len(self.cuts) + 1, below)


@dataclass(frozen=True)
class Sides:
    """Both attributes of a table."""

    rows: Side
    columns: Side

    @classmethod
    def of(cls, table: Question, questions: Sequence[Question]) -> Sides:
        """Return the sides of a table among the questions of a campaign; refuse other attributes.

        The names are of two different ones of them.
        """
        by_name = {question.name: question for question in questions}
        if len(set(table.of)) != 2 or not set(table.of) <= set(by_name):
            raise ParameterError(f"{table.name}: a table is of two attributes of the campaign")
        pairs = zip(table.of, table.cuts, strict=True)
        return cls(*(Side(by_name[name], cuts) for name, cuts in pairs))

    @property
    def shape(self) -> tuple[int, int]:
        """How many items each side has."""
        return self.rows.items, self.columns.items

    @property
    def labels(self) -> tuple[str, ...]:
        """What the cells are called, row by row."""
        return tuple(map(", ".join, product(self.rows.labels, self.columns.labels)))

    def question(self) -> Question:
        """Return the question that is the table."""
        cells = self.shape[0] * self.shape[1]
        names = self.rows.question.name, self.columns.question.name
        name = name_of(names)
        if cells > MOST_LABELS:
            raise ParameterError(
                f"{name}: a table has {MOST_LABELS:,} cells at most; got {cells:,}"
            )
        cuts = self.rows.cuts, self.columns.cuts
        return Question(name, TABLE, labels=self.labels, of=names, cuts=cuts)

    def cells(self, rows: NDArray[np.generic], columns: NDArray[np.generic]) -> Ints:
        """Return the item of each person, from the encoded answers to both attributes."""
        return self.rows.places(rows) * self.columns.items + self.columns.places(columns)


def name_of(names: Sequence[str]) -> str:
    """Return what the table of these attributes is called.

    >>> name_of(["age", "phone"])
    'age by phone'
    """
    return " by ".join(names)


def completed(tables: Sequence[Mapping[str, Any]], plain: Sequence[Question]) -> list[Question]:
    """Return the questions of published tables, from the attributes of the same campaign."""
    by_name = {question.name: question for question in plain}
    found = []
    for table in tables:
        names = table["of"]
        if len(names) != 2 or len(set(names)) != 2 or not set(names) <= set(by_name):
            raise ParameterError("a table is of two different attributes of the campaign")
        if len(table["cuts"]) != 2:
            raise ParameterError("a table has cuts for each of its attributes")
        pairs = zip(names, table["cuts"], strict=True)
        found.append(Sides(*(Side(by_name[name], tuple(cuts)) for name, cuts in pairs)).question())
    return found


def _rising(numbers: Sequence[float]) -> bool:
    return all(a < b for a, b in pairwise(numbers))
