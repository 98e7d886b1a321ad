"""`murmur plan repeat`: which law for a question that comes back, and what all periods tell."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.table import Table

from murmuration.cli.options import Json, Plot
from murmuration.cli.output import (
    checked_plot,
    console,
    emit_json,
    explain,
    pyplot,
    save_plot,
    table_of,
)
from murmuration.errors import ParameterError
from murmuration.planning.longitudinal import Comparison, InSpells, compared

MOST_DRAWN = 200
"""Points of a line."""


def repeat(
    epsilon: Annotated[float, typer.Option(help="What one report may cost.")],
    periods: Annotated[int, typer.Option(min=2, help="How often it is asked.")],
    people: Annotated[int, typer.Option(min=1, help="How many answer in a period.")],
    permanent: Annotated[
        float | None,
        typer.Option(help="What a permanent answer may cost: twice epsilon if left out."),
    ] = None,
    changes: Annotated[
        str, typer.Option(help="Changes that spells allow for: a list such as 1,3,11.")
    ] = "1,3",
    categorical: Annotated[
        int | None,
        typer.Option(min=2, help="One of so many items; left out: a number.", metavar="K"),
    ] = None,
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """Compare laws for a question that comes back: loss against periods, error of one period.

    --plot draws the loss of each law against the number of periods.
    """
    checked_plot(plot)
    comparison = compared(epsilon, permanent, categorical, periods, people, _counts(changes))
    if as_json:
        emit_json(as_data(comparison))
    else:
        _print(comparison)
    if plot is not None:
        save_plot(draw(comparison), plot)


def _counts(text: str) -> list[int]:
    """Read numbers of changes.

    >>> _counts("1,3")
    [1, 3]
    """
    try:
        return sorted({int(part) for part in text.split(",") if part.strip()})
    except ValueError:
        raise ParameterError(f"--changes takes whole numbers, as 1,3; got {text!r}") from None


def as_data(comparison: Comparison) -> dict[str, Any]:
    """Return a choice as plain data."""
    return {
        "periods": comparison.periods,
        "people": comparison.people,
        "laws": [
            {
                "law": law.name,
                "mechanism": law.law.name,
                "epsilon": law.law.epsilon,
                "spell": law.length if isinstance(law, InSpells) else None,
                "stderr": law.stderr(comparison.people),
                "change_stderr": law.change_stderr(comparison.people),
                "exact": law.bounded,
                "loss": [
                    {"periods": count, "stays": law.stays(count), "changes": law.changes(count)}
                    for count in comparison.shown
                ],
            }
            for law in comparison.laws
        ],
    }


def _print(comparison: Comparison) -> None:
    console.print(_table(comparison, "a value that does not change", False))
    console.print(_table(comparison, "values that may change, at worst", True))
    notes = [
        "loss: exact, of all reports of one person together, after so many periods (>=: reached; "
        "other histories may tell more).",
        "std error: worst case, of one period's mean in [-1, 1] or of one item's frequency in it.",
        "of a change: what the interval of a change between two periods rests on. It allows for "
        "values of a number that go from one end to the other, which spells need not, and it is "
        "too wide where all report always and few values change: nobody can know that.",
        "spells: a period's figure is about the values that people had when its spell began: up to "
        "the length of a spell, less one period, ago.",
        "as dear: fresh noise that tells over all periods what the longest spells do.",
    ]
    for note in notes:
        explain(note)


def _table(comparison: Comparison, title: str, changing: bool) -> Table:
    numbers = ("std error", "of a change", *(f"{count:,}" for count in comparison.shown))
    table = table_of(f"loss of all reports so far: {title}", ("law",), numbers)
    for law in comparison.laws:
        told, sign = (law.changes, "" if law.bounded else ">=") if changing else (law.stays, "")
        losses = [f"{sign}{told(count):.3g}" for count in comparison.shown]
        errors = [f"{error(comparison.people):.4g}" for error in (law.stderr, law.change_stderr)]
        table.add_row(law.name, *errors, *losses)
    return table


def draw(comparison: Comparison) -> Any:
    """Return a figure: each law's loss against periods, and the error of one period's figure."""
    plt = pyplot()
    figure, axes = plt.subplots(figsize=(8, 5), layout="constrained")
    step = max(1, comparison.periods // MOST_DRAWN)
    counts = sorted({*range(1, comparison.periods + 1, step), comparison.periods})
    for law in comparison.laws:
        label = f"{law.name} (one period ±{law.stderr(comparison.people):.2g})"
        (line,) = axes.plot(counts, [law.stays(count) for count in counts], label=label)
        worst = [law.changes(count) for count in counts]
        if worst[-1] > law.stays(comparison.periods):
            more = "a value that changes" + ("" if law.bounded else ", at least")
            axes.plot(counts, worst, ls="--", color=line.get_color(), label=f"{law.name}, {more}")
    axes.set(xlabel="periods", ylabel="loss of all reports of one person", yscale="log")
    axes.set_title(f"what {comparison.periods} periods tell; {comparison.people:,} people in each")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    return figure
