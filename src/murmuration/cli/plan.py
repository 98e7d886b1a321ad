"""`murmur plan`: which mechanism for which attribute, and what to expect of it."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import typer
from rich.markup import escape
from rich.table import Table

from murmuration.cli.options import Json, Plot
from murmuration.cli.output import checked_plot, console, emit_json, explain, pyplot, save_plot
from murmuration.errors import ParameterError
from murmuration.planning.choose import SAMPLINGS, Attribute, Plan, Planned
from murmuration.planning.choose import plan as work_out


def plan(
    context: typer.Context,
    epsilon: Annotated[
        float | None, typer.Option(help="The privacy of each person, in all.")
    ] = None,
    people: Annotated[int | None, typer.Option(min=1, help="How many take part.")] = None,
    numeric: Annotated[
        list[str] | None, typer.Option(help="Name of a number; may be repeated.")
    ] = None,
    categorical: Annotated[
        list[str] | None, typer.Option(help="NAME=K, one of K items; may be repeated.")
    ] = None,
    wanted: Annotated[float, typer.Option(help="Say how many people this error takes.")] = 0.01,
    sampling: Annotated[
        str, typer.Option(help=f"How often each attribute is asked: {' or '.join(SAMPLINGS)}.")
    ] = "cost",
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """Choose a mechanism for each attribute and predict error, cost and privacy.

    `murmur plan graded` is for one number whose ranges have budgets of their own, `murmur plan
    repeat` for a question that comes back.
    """
    if context.invoked_subcommand:
        return
    if epsilon is None or people is None:
        raise ParameterError("a plan needs --epsilon and --people")
    attributes = [Attribute(name) for name in numeric or []]
    attributes += [parse_categorical(text) for text in categorical or []]
    if not attributes:
        raise ParameterError("name what is asked: --numeric NAME or --categorical NAME=K")
    checked_plot(plot)
    planned = work_out(attributes, epsilon, people, wanted=wanted, sampling=sampling)
    if as_json:
        emit_json(planned.data())
    else:
        _print(planned)
    if plot is not None:
        save_plot(draw(planned), plot)


def parse_categorical(text: str) -> Attribute:
    """Read NAME=K.

    >>> parse_categorical("colour=5").k
    5
    """
    name, _, size = text.rpartition("=")
    try:
        return Attribute(name, int(size))
    except ValueError as problem:
        if isinstance(problem, ParameterError) and name:
            raise
        raise ParameterError(f"--categorical takes NAME=K, such as city=50; got {text!r}") from None


def _print(planned: Plan) -> None:
    who = f"{planned.people:,} {'person' if planned.people == 1 else 'people'}"
    console.print(_errors_table(planned, f"error at epsilon {planned.epsilon:g}, {who}"))
    console.print(_privacy_table(planned, "privacy and cost of a report"))
    for row in planned.rows:
        name, chosen = escape(row.attribute.name), row.choice.mechanism.name
        console.print(f"[bold]{name}[/]: {chosen}: {row.choice.reason}", highlight=False)
    for note in _notes(planned):
        explain(note)


def _errors_table(planned: Plan, title: str) -> Table:
    headings = [
        "asked",
        "std error",
        f"people for {planned.wanted:g}",
        f"{planned.malicious:.0%} liars",
    ]
    table = _table(title, ["attribute", "mechanism"], headings)
    for row in planned.rows:
        table.add_row(
            escape(row.attribute.name),
            row.choice.mechanism.name,
            f"{row.share:.1%}",
            f"{row.stderr:.4g}",
            f"{row.people_needed:,}",
            f"±{row.malicious_shift:.2g}",
        )
    return table


def _privacy_table(planned: Plan, title: str) -> Table:
    headings = ["exact loss", "shuffled", "bytes"]
    table = _table(title, ["attribute", "answer"], headings)
    for row in planned.rows:
        kind = "a number" if row.attribute.k is None else f"{row.attribute.k:,} items"
        table.add_row(
            escape(row.attribute.name),
            kind,
            f"{row.loss:.7f}",
            f"{row.central_epsilon:.3g}",
            f"{row.choice.mechanism.report_bytes:,}",
        )
    return table


def _table(title: str, words: list[str], numbers: list[str]) -> Table:
    table = Table(title=title)
    for place, heading in enumerate(words):
        table.add_column(heading, overflow="fold", no_wrap=place > 0)
    for heading in numbers:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _notes(planned: Plan) -> list[str]:
    """What the columns mean, in words."""
    several = "Each person is asked one attribute, with all of epsilon (how often: --sampling)."
    return [
        *([several] if len(planned.rows) > 1 else []),
        *([f"Advice: {planned.advice}."] if planned.advice else []),
        "std error: worst case, of a mean in [-1, 1] (times half the range in its own units) or of "
        "one item's frequency, root mean square. "
        f"{planned.malicious:.0%} liars: how far they can move it. shuffled: epsilon at delta "
        f"{planned.delta:g}, if someone honest shuffles the reports of those asked.",
    ]


def _curves(planned: Plan) -> list[tuple[str, Planned]]:
    """Return a label and a row for each line of the plot; equal errors share one."""
    groups: dict[tuple[str, float], list[Planned]] = {}
    for row in planned.rows:
        groups.setdefault((row.choice.mechanism.name, row.stderr), []).append(row)
    curves = []
    for (chosen, _), rows in groups.items():
        names = ", ".join(row.attribute.name for row in rows[:3])
        names += f" and {len(rows) - 3} more" if len(rows) > 3 else ""
        curves.append((f"{names}: {chosen}".replace("$", r"\$"), rows[0]))
    return curves


def draw(planned: Plan) -> Any:
    """Return a figure: each attribute's standard error against the number of people."""
    plt = pyplot()
    figure, axes = plt.subplots(figsize=(7.5, 5))
    needed = [row.people_needed for row in planned.rows]
    low, high = min(planned.people, *needed) / 10, max(planned.people, *needed) * 10
    people = np.geomspace(max(1, low), high, 50)
    for label, row in _curves(planned):
        (line,) = axes.plot(people, [row.error(n) for n in people], label=label)
        axes.plot([planned.people], [row.stderr], "o", color=line.get_color())
    axes.axhline(planned.wanted, color="black", lw=1, ls="--")
    axes.annotate("wanted", (people[0], planned.wanted), xytext=(2, 3), textcoords="offset points")
    axes.axvline(planned.people, color="grey", lw=1, ls=":")
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="people",
        ylabel="standard error of a mean, or of a frequency (rms)",
    )
    axes.set_title(f"epsilon {planned.epsilon:g}; marks: as planned, n = {planned.people:,}")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=9)
    return figure
