"""One number of a result: a mean, an item's share, or a bin's share, with its interval."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any, overload

from murmuration.results import plot
from murmuration.results.table import Columns, Table, text_table

SHOWN = ("attribute", "item", "period", "value", "low", "high", "n", "unit")
"""The columns that `print` shows."""


@dataclass(frozen=True)
class Figure:
    """One number of a result, in the attribute's own units."""

    attribute: str
    item: str
    """The label or the bin; "mean" for a mean."""
    value: float
    stderr: float | None
    """None where there is no honest one (a bin of a fitted distribution)."""
    low: float | None
    high: float | None
    n: int
    epsilon: float
    """What one report may reveal about it, at most."""
    unit: str = ""
    note: str = ""
    period: str = ""
    """The name of the period that it is about, where a question comes back; "all" for several."""
    liars: float | None = None
    """How far the share of liars that was asked about can have moved it; None: no bound."""
    permanent: float | None = None
    """Of a repeated question, what all reports about one value may reveal together."""


class Figures(Sequence[Figure], Table):
    """Figures in their order, which are a table too: one row each.

    >>> found = Figures([Figure("age", "mean", 48.4, 0.16, 48.1, 48.7, 1000, 1.0, "years")])
    >>> found
    Figures(1: age)
    >>> print(found)
    attribute  item  value    low   high      n  unit
    age        mean  48.40  48.10  48.70  1,000  years
    >>> found.to_pandas().loc[0, "high"].item()
    48.7
    """

    def __init__(self, figures: Iterable[Figure] = (), notes: Iterable[str] = ()) -> None:
        """Take figures, and what is to be said about those that are not there."""
        self._figures, self.notes = tuple(figures), tuple(notes)

    @overload
    def __getitem__(self, place: int) -> Figure: ...

    @overload
    def __getitem__(self, place: slice) -> Figures: ...

    def __getitem__(self, place: int | slice) -> Figure | Figures:
        chosen = self._figures[place]
        return Figures(chosen) if isinstance(chosen, tuple) else chosen

    def __len__(self) -> int:
        return len(self._figures)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._figures == tuple(other)

    def __hash__(self) -> int:
        return hash(self._figures)

    @property
    def attributes(self) -> list[str]:
        """The attributes, in order."""
        return list(dict.fromkeys(figure.attribute for figure in self))

    def of(self, attribute: str) -> Figures:
        """Return the figures of one attribute."""
        return Figures(figure for figure in self if figure.attribute == attribute)

    def columns(self) -> Columns:
        """Return a column for each field of a figure."""
        names = [field.name for field in fields(Figure)]
        return {name: [getattr(figure, name) for figure in self] for name in names}

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame; the notes are in its `attrs`."""
        frame = super().to_pandas()
        frame.attrs["notes"] = self.notes
        return frame

    def plot(self, ax: Any = None) -> Any:
        """Draw means with their intervals and shares as bars; return the axis.

        Each attribute has a scale, and so an axis, of its own: where there are several, the result
        is a list of axes.
        """
        return plot.figures(self, ax)

    def _repr_html_(self) -> str:
        said = "".join(f"<p>{html.escape(note)}</p>" for note in self.notes)
        return super()._repr_html_() + said

    def __str__(self) -> str:
        """Return a small table: value, interval and answers of each figure, and the notes."""
        columns = self.columns()
        shown = {name: columns[name] for name in SHOWN if any(c != "" for c in columns[name])}
        return "\n".join([*text_table(shown, columns["stderr"]), *self.notes])

    def __repr__(self) -> str:
        names = self.attributes
        shown = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
        return "; ".join([f"Figures({len(self)}: {shown}", *self.notes]) + ")"


class Result:
    """An estimate, as a table of figures."""

    __slots__ = ()

    def figures(self, confidence: float = 0.95, attribute: str = "") -> Figures:
        """Return all numbers with their intervals, under this attribute's name."""
        raise NotImplementedError

    def to_pandas(self, confidence: float = 0.95) -> Any:
        """Return a pandas DataFrame, one row per number, with intervals of this confidence."""
        return self.figures(confidence).to_pandas()

    def to_arrow(self, confidence: float = 0.95) -> Any:
        """Return an Arrow table with the same columns."""
        return self.figures(confidence).to_arrow()

    def plot(self, ax: Any = None, confidence: float = 0.95) -> Any:
        """Draw it with matplotlib, on this axis or on a new one, which is returned.

        Where only the largest of many shares are drawn, the intervals of all are right at once.
        """
        return self.drawn(confidence).plot(ax)

    def drawn(self, confidence: float, attribute: str = "") -> Figures:
        """Return the figures that a plot shows."""
        return self.figures(confidence, attribute)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any:
        return self.figures().__arrow_c_stream__(requested_schema)

    def _repr_html_(self) -> str:
        return self.figures()._repr_html_()
