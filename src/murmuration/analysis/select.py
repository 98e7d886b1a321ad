"""Which figures are looked at: attributes and labels by name, and of long lists the largest."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from msgspec.structs import replace

from murmuration.analysis.figures import Attribute, Estimates
from murmuration.campaign.question import ANSWERED, TABLE
from murmuration.errors import ParameterError
from murmuration.results.figure import Figure

LONG, TOP = 30, 20
"""Of more labels than that, people are shown so many."""
TOGETHER = "the sum of their values; it has no interval"


def chosen(estimates: Estimates, where: Sequence[str]) -> Estimates:
    """Return the figures that are named: "age", "phone=ios", "income*", "city=R*".

    `*` stands for anything, `?` for one character. A name that fits nothing is refused.
    """
    if not where:
        return estimates
    attributes = [
        attribute
        for attribute in estimates.attributes
        if any(_asks(name, attribute.name) for name in where)
    ]
    figures = [
        figure for figure in estimates.estimates if any(_picks(name, figure) for name in where)
    ]
    for name in where:
        hidden = any(attribute.hidden and _asks(name, attribute.name) for attribute in attributes)
        if not hidden and not any(_picks(name, figure) for figure in figures):
            raise ParameterError(
                f"no attribute or label is called {name!r}; there is "
                f"{', '.join(each.name for each in estimates.attributes)}, and labels are written "
                "as ATTRIBUTE=LABEL"
            )
    kept = {(figure.attribute, figure.item) for figure in figures}
    changes = [change for change in estimates.changes if (change.attribute, change.item) in kept]
    return replace(estimates, attributes=attributes, estimates=figures, changes=changes)


def _asks(name: str, attribute: str) -> bool:
    """Whether a name is about an attribute, or about labels of it."""
    return _fits(attribute, name) or _fits(attribute, name.partition("=")[0])


def _picks(name: str, figure: Figure) -> bool:
    whole = f"{figure.attribute}={figure.item}"
    return _fits(figure.attribute, name) or _fits(whole, name)


def _fits(text: str, name: str) -> bool:
    """Whether a name, or a pattern, is that of a text.

    >>> _fits("income [k]", "income [k]"), _fits("income", "inc*"), _fits("income", "inc")
    (True, True, False)
    """
    return text == name or fnmatchcase(text, name)


def largest(estimates: Estimates, top: int | None = None) -> Estimates:
    """Return the largest shares of each long list, sorted, and what the others are together.

    Without `top`, lists of up to LONG labels stay as they are, and longer ones are cut to TOP.
    """
    figures: list[Figure] = []
    for attribute, rows in estimates.by_attribute():
        head = rows[: _head(attribute, rows)]
        labels = rows[len(head) :]
        most = top if top is not None else TOP if len(labels) > LONG else len(labels)
        table = attribute.kind == TABLE and len(labels) == attribute.labels
        cut = (attribute.kind == "category" or table) and len(labels) > most
        figures += [*head, *_cut(labels, most)] if cut else rows
    return replace(estimates, estimates=figures)


def _head(attribute: Attribute, rows: Sequence[Figure]) -> int:
    """Return how many figures come before those of labels: who answered, or an association."""
    if attribute.kind == TABLE:
        return 1
    return int(attribute.missing and bool(rows) and rows[0].item == ANSWERED)


def _cut(labels: Sequence[Figure], most: int) -> list[Figure]:
    ordered = sorted(labels, key=lambda figure: -figure.value)
    rest = ordered[most:]
    return [*ordered[:most], _sum(rest)]


def _sum(rest: Sequence[Figure]) -> Figure:
    first, together = rest[0], sum(figure.value for figure in rest)
    return Figure(
        *(first.attribute, f"{len(rest):,} more", together, None, None, None),
        *(first.n, first.epsilon, first.unit, f"{len(rest):,} more: {TOGETHER}"),
    )
