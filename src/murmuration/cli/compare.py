"""`murmur compare`: every mechanism's error, measured, predicted, and against the limit."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from murmuration.cli.options import CrowdSize, Epsilons, Json, Mechanisms, Plot, Runs, Seed
from murmuration.cli.output import (
    checked_plot,
    console,
    emit_json,
    explain,
    legend_beside,
    progress_bar,
    pyplot,
    remark,
    save_plot,
    style_of,
    table_of,
    two_panels,
)
from murmuration.cli.parse import parse_epsilons
from murmuration.cli.tables import open_table
from murmuration.errors import ParameterError
from murmuration.exact.arrays import Floats
from murmuration.lab.compare import CROWDS, Comparison, contestants, crowd
from murmuration.lab.compare import compare as run_compare

Data = Annotated[str, typer.Option(help=f"A CSV or Parquet file, or one of: {', '.join(CROWDS)}.")]
Column = Annotated[str | None, typer.Option(help="The column of the file.")]


def compare(
    context: typer.Context,
    epsilon: Epsilons = "0.5,1,2,4",
    data: Data = "uniform",
    column: Column = None,
    low: Annotated[
        float | None, typer.Option(help="Lower end of the range (default: min).")
    ] = None,
    high: Annotated[float | None, typer.Option(help="Upper end (default: max).")] = None,
    mechanism: Mechanisms = None,
    people: CrowdSize = 2000,
    runs: Runs = 500,
    seed: Seed = 1,
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """Simulate collections with every numeric mechanism and compare error, theory and limit.

    `murmur compare graded` and `murmur compare levels` do the same for graded and personal privacy.
    """
    if context.invoked_subcommand:
        return
    checked_plot(plot)
    epsilons = parse_epsilons(epsilon)
    values = private_values(data, column, low, high, people, seed)
    jobs = len(epsilons) * len(contestants(mechanism))
    rows: list[Comparison] = []
    with progress_bar() as bar:
        task = bar.add_task("comparing", total=jobs)
        for row in run_compare(values, epsilons, runs, seed, mechanism):
            rows.append(row)
            bar.advance(task)
    title = f"{data}{f' {column}' if column else ''}, {len(values):,} people, {runs} runs"
    if as_json:
        emit_json([{**dataclasses.asdict(row), "above_limit": row.above_limit} for row in rows])
    else:
        _print(rows, title)
    if plot is not None:
        save_plot(draw(rows, title), plot)


def private_values(
    data: str, column: str | None, low: float | None, high: float | None, people: int, seed: int
) -> Floats:
    """Return private values in [-1, 1] from a named crowd or a file's column."""
    if data in CROWDS:
        if (column, low, high) != (None, None, None):
            raise ParameterError("--column, --low and --high go with a file, not a named crowd")
        return crowd(data, people, seed)
    numbers = read_column(Path(data), column)
    bottom = float(numbers.min()) if low is None else low
    top = float(numbers.max()) if high is None else high
    if low is None or high is None:
        remark(
            f"range [{bottom:g}, {top:g}] taken from the data: fine for a simulation, impossible "
            "in a collection. Give --low and --high."
        )
    if not bottom < top:
        raise ParameterError(f"the range [{bottom}, {top}] is empty; give --low and --high")
    clamped = np.clip(numbers, bottom, top)
    if moved := int((clamped != numbers).sum()):
        remark(f"{moved:,} of {len(numbers):,} values clamped to [{bottom:g}, {top:g}]")
    return np.clip(2 * (clamped - bottom) / (top - bottom) - 1, -1, 1)


def read_column(path: Path, column: str | None) -> Floats:
    """Read a numeric column of a file; a file of one column needs no name."""
    if not path.is_file():
        raise ParameterError(f"{path} is neither a file nor one of {', '.join(CROWDS)}")
    table = open_table(path)
    if column is None and len(table.names) != 1:
        raise ParameterError(f"--column must be one of {', '.join(table.names)}")
    wanted = table.names[0] if column is None else column
    numbers = np.array([_finite(value) for value in table.columns([wanted])[wanted]])
    bad = np.flatnonzero(np.isnan(numbers))
    if len(bad):
        raise ParameterError(
            f"{len(bad)} of {len(numbers)} values in column {wanted} of {path} are not numbers, "
            f"the first {table.place(int(bad[0]))}; leave those people out first"
        )
    if not len(numbers):
        raise ParameterError(f"column {wanted} of {path} is empty")
    return numbers


def _finite(value: Any) -> float:
    """Read a number; anything else, infinity too, is nan."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return math.nan
    return number if math.isfinite(number) else math.nan


def _print(rows: list[Comparison], title: str) -> None:
    numbers = ("measured", "predicted", "worst", "worst/limit")
    table = table_of(f"n·MSE of the mean: {title}", ("epsilon", "mechanism"), numbers)
    for epsilon in dict.fromkeys(row.epsilon for row in rows):
        for row in (row for row in rows if row.epsilon == epsilon):
            known = math.isfinite(row.limit)
            table.add_row(
                f"{epsilon:g}",
                row.mechanism,
                f"{row.measured:.3g} ± {row.stderr:.1g}",
                f"{row.predicted:.4g}",
                f"{row.worst:.4g}",
                f"{row.above_limit:.3f}" if known else "-",
            )
        table.add_section()
    console.print(table)
    explain(
        "worst: for the value that is hardest for the mechanism; limit: no unbiased report has a "
        "smaller worst case."
    )


def draw(rows: list[Comparison], title: str) -> Any:
    """Return a figure, in units of the limit: error on this crowd (left), worst case (right)."""
    plt, (figure, left, right) = pyplot(), two_panels()
    for index, label in enumerate(dict.fromkeys(row.mechanism for row in rows)):
        mine = [row for row in rows if row.mechanism == label and math.isfinite(row.limit)]
        x = [row.epsilon for row in mine]
        style = style_of(index)
        bars = [row.stderr / row.limit for row in mine]
        points = [row.measured / row.limit for row in mine]
        left.plot(x, [row.predicted / row.limit for row in mine], color=style["color"])
        left.errorbar(x, points, yerr=bars, fmt="none", color=style["color"])
        left.plot(x, points, ls="", label=label, **style)
        right.plot(x, [row.above_limit for row in mine], **style)
    for axes in (left, right):
        axes.set(xscale="log", yscale="log", xlabel="epsilon", ylabel="n·MSE / certified limit")
        axes.set_xticks(sorted({row.epsilon for row in rows}))
        axes.get_xaxis().set_major_formatter(plt.FormatStrFormatter("%g"))
        axes.get_yaxis().set_major_locator(plt.LogLocator(subs=(1, 1.5, 2, 3, 5, 7)))
        axes.get_yaxis().set_major_formatter(plt.FormatStrFormatter("%g"))
        axes.minorticks_off()
        axes.axhline(1, color="black", lw=1)
    left.set_title(f"on this crowd: {title}\nmarks measured (± s.e.), lines predicted", fontsize=10)
    right.set_title("worst case over all values\n1 is the limit for unbiased reports", fontsize=10)
    legend_beside(figure, left)
    return figure
