"""`murmur compare levels`: ways to combine the privacy levels that people choose."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

import typer

from murmuration.campaign.levels import Levels
from murmuration.cli.options import Epsilons, Json, Plot, Runs, Seed
from murmuration.cli.output import (
    checked_plot,
    console,
    emit_json,
    explain,
    legend_beside,
    progress_bar,
    save_plot,
    style_of,
    table_of,
    two_panels,
)
from murmuration.cli.parse import parse_epsilons
from murmuration.errors import ParameterError
from murmuration.lab.levels import COLLECTIONS, CROWDS, LevelComparison, Setting, compare_levels


def levels(
    epsilon: Epsilons = "1,3,6",
    shift: Annotated[
        str,
        typer.Option(
            help="Percentage points by which people with a head item (the first fifth) pick the "
            "most open level more often; a list, tried at the last epsilon."
        ),
    ] = "0,2,5,10,20",
    offered: Annotated[
        str, typer.Option("--levels", help="The levels and their parts of epsilon.")
    ] = "high=1/3,medium=1/2,low=1",
    data: Annotated[str, typer.Option(help=f"One of: {', '.join(CROWDS)}.")] = "flat",
    people: Annotated[int, typer.Option(min=100, help="How many simulated people.")] = 10_000,
    runs: Runs = 20,
    oracle: Annotated[
        bool, typer.Option("--oracle", help="Also OP, which needs the true histogram.")
    ] = False,
    seed: Seed = 1,
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """Simulate collections in which people choose their privacy level, and compare the errors.

    Five attributes of 5 to 25 items, as in the MPLDP paper; NSE is the squared error of all
    counts, divided by the number of people.
    """
    checked_plot(plot)
    setting = Setting(people, data, levels=Levels.parse(offered), seed=seed)
    rows = _simulate(setting, parse_epsilons(epsilon), parse_shifts(shift), runs, oracle)
    title = f"{data}, {people:,} people, {runs} runs"
    if as_json:
        emit_json([dataclasses.asdict(row) for row in rows])
    else:
        _print(rows, title)
    if plot is not None:
        save_plot(draw(rows, title), plot)


def parse_shifts(text: str) -> list[float]:
    """Read a comma-separated list of percentage points; 0 is always among them.

    >>> parse_shifts("5,10")
    [0.0, 5.0, 10.0]
    """
    try:
        return sorted({0.0, *(float(part) for part in text.split(","))})
    except ValueError:
        raise ParameterError(f"--shift takes numbers with commas between; got {text!r}") from None


def _simulate(
    setting: Setting, epsilons: list[float], shifts: list[float], runs: int, oracle: bool
) -> list[LevelComparison]:
    """Run all epsilons without a shift, then the other shifts at the last epsilon."""
    parts = [(epsilons, shifts[:1]), (epsilons[-1:], shifts[1:])]
    lines = sum(len(collection.readers) for collection in COLLECTIONS) + oracle
    rows: list[LevelComparison] = []
    with progress_bar() as bar:
        jobs = lines * sum(len(some) * len(moved) for some, moved in parts)
        task = bar.add_task("comparing", total=jobs)
        for some, moved in parts:
            for row in compare_levels(setting, some, runs, moved, oracle):
                rows.append(row)
                bar.advance(task)
    return rows


def _print(rows: list[LevelComparison], title: str) -> None:
    table = table_of(
        f"NSE of all histograms: {title}", ("epsilon", "shift", "method"), ("NSE", "of BRR")
    )
    for place in dict.fromkeys((row.epsilon, row.shift) for row in rows):
        mine = [row for row in rows if (row.epsilon, row.shift) == place]
        for row in mine:
            table.add_row(
                f"{row.epsilon:g}",
                f"{row.shift:g}",
                row.method,
                f"{_plain(row.nse)} ± {_plain(row.stderr)}",
                f"{row.nse / mine[0].nse:.3f}",
            )
        table.add_section()
    console.print(table)
    explain(
        "BRR, OC: the MPLDP paper's plain sum, and least noise, which trusts that levels do not "
        "depend on the data; GLS: least error, guarded. sue inside unless subset is named; sample "
        "1: each person answers one attribute. shift: how many percentage points more often people "
        "with a head item (the first fifth) pick the most open level."
    )


def _plain(number: float) -> str:
    """Write three digits or the whole number, never an exponent for thousands.

    >>> _plain(36170.4), _plain(2.6489)
    ('36,170', '2.65')
    """
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def draw(rows: list[LevelComparison], title: str) -> Any:
    """Return a figure: error against epsilon (left) and against the shift (right)."""
    (figure, left, right), last = two_panels(row.epsilon for row in rows), rows[-1].epsilon
    for index, method in enumerate(dict.fromkeys(row.method for row in rows)):
        style = {**style_of(index), "lw": 1}
        mine = [row for row in rows if row.method == method]
        still = [row for row in mine if row.shift == 0]
        moved = [row for row in mine if row.epsilon == last]
        _curve(left, [row.epsilon for row in still], still, label=method, **style)
        _curve(right, [row.shift for row in moved], moved, **style)
    for axes in (left, right):
        axes.set(yscale="log", ylabel="NSE = squared error of counts / n")
    right.set(xlabel="shift: how much more often people with a head item pick the most open level")
    right.set_xticks(sorted({row.shift for row in rows}))
    left.set_title(f"levels that do not depend on the data\n{title}", fontsize=10)
    right.set_title(f"levels that do, at epsilon {last:g}\n{title}", fontsize=10)
    legend_beside(figure, left)
    return figure


def _curve(axes: Any, x: list[float], rows: list[LevelComparison], **style: Any) -> None:
    """Draw means with their standard errors."""
    bars = [row.stderr for row in rows]
    axes.errorbar(x, [row.nse for row in rows], yerr=bars, **style)
