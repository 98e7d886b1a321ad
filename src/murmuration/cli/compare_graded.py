"""`murmur compare graded`: mechanisms for graded ranges, their errors and whose promise is kept."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

import typer

from murmuration.cli.compare import Column, Data, private_values
from murmuration.cli.options import (
    CrowdSize,
    Edges,
    Epsilons,
    High,
    Json,
    Low,
    Plot,
    Runs,
    Seed,
    Semantics,
)
from murmuration.cli.output import (
    checked_plot,
    console,
    emit_json,
    explain,
    progress_bar,
    pyplot,
    remark,
    save_plot,
    style_of,
    table_of,
    two_panels,
)
from murmuration.cli.parse import parse_edges, parse_epsilons, parse_numbers, parse_value
from murmuration.errors import ParameterError
from murmuration.lab.graded import GradedComparison, Layout, contests
from murmuration.lab.graded import compare as run_compare


def graded(
    epsilon: Epsilons = "0.1,0.2,0.5,1",
    grades: Annotated[
        str, typer.Option(help="The budget of each range, in units of epsilon.")
    ] = "5,4,3,2,1",
    edges: Edges = "-0.6,-0.2,0.2,0.6",
    semantics: Semantics = "max",
    data: Data = "uniform",
    column: Column = None,
    low: Low = None,
    high: High = None,
    people: CrowdSize = 100_000,
    runs: Runs = 150,
    seed: Seed = 1,
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """Simulate collections on graded ranges: error of the mean, exact loss, budget kept or not."""
    checked_plot(plot)
    if (low is None) != (high is None):
        raise ParameterError("--low and --high go together")
    ends = parse_edges(edges, low, high)
    layout = Layout(parse_numbers("--grades", grades), ends, parse_value(semantics))
    layout.at("graded-bit", 1.0)  # refuses a layout that makes no sense, before the work
    epsilons = parse_epsilons(epsilon)
    values = private_values(data, column, low, high, people, seed)
    rows: list[GradedComparison] = []
    with progress_bar() as bar:
        task = bar.add_task("comparing", total=sum(len(contests(layout, e)) for e in epsilons))
        for measured in run_compare(values, layout, epsilons, runs, seed, _left_out):
            rows += measured
            bar.advance(task)
    title = f"{data}{f' {column}' if column else ''}, {len(values):,} people, {runs} runs"
    if as_json:
        emit_json([dataclasses.asdict(row) for row in rows])
    else:
        where = ", ".join(f"{edge:g}" for edge in parse_numbers("--edges", edges))
        console.print(f"ranges meet at {where}; budgets {grades} times epsilon; {semantics}")
        _print(rows, title)
    if plot is not None:
        save_plot(draw(rows, title), plot)


def _left_out(reason: str) -> None:
    remark(f"left out: {reason}")


def _print(rows: list[GradedComparison], title: str) -> None:
    title = f"mean absolute error of the mean x 10,000: {title}"
    table = table_of(title, ("eps", "mechanism"), ("error", "predicted", "loss", "promised"))
    for epsilon in dict.fromkeys(row.epsilon for row in rows):
        for row in (row for row in rows if row.epsilon == epsilon):
            loss = f"{row.loss:.4g}"
            table.add_row(
                f"{epsilon:g}",
                row.label,
                f"{row.error * 1e4:.0f} ± {row.stderr * 1e4:.0f}",
                "-" if row.predicted is None else f"{row.predicted * 1e4:.0f}",
                loss if row.kept else f"[bold red]!{loss}[/]",
                f"{row.budget:.4g}",
            )
        table.add_section()
    console.print(table)
    explain(
        "loss: the largest between any two values; !: some pair of ranges exceeds its own budget. "
        "predicted: by formula, in [-1, 1]. one budget: everyone has the smallest one."
    )


def draw(rows: list[GradedComparison], title: str) -> Any:
    """Return a figure: error against epsilon (left), against how often hiera uses a bit (right)."""
    plt, (figure, left, right) = pyplot(), two_panels(row.epsilon for row in rows)
    plain = [row for row in rows if row.mu in (0, 1)]
    for index, label in enumerate(dict.fromkeys(row.label for row in plain)):
        mine = [row for row in plain if row.label == label]
        left.errorbar(
            [row.epsilon for row in mine],
            [row.error for row in mine],
            yerr=[row.stderr for row in mine],
            label=label + ("" if all(row.kept for row in mine) else " (promise broken)"),
            ls="-" if all(row.kept for row in mine) else "--",
            **style_of(index),
        )
    left.set(yscale="log", ylabel="mean absolute error")
    left.set_title(f"error against epsilon: {title}", fontsize=10)
    epsilons = list(dict.fromkeys(row.epsilon for row in rows))
    for place, epsilon in enumerate(epsilons):
        mine = [row for row in rows if row.mu and row.predicted and row.epsilon == epsilon]
        x = [row.mu for row in mine]
        colour = plt.get_cmap("cividis")(0.9 * place / max(1, len(epsilons) - 1))
        predicted = [(row.predicted or 0) / (mine[0].predicted or 1) for row in mine]
        right.plot(x, predicted, color=colour)
        share = [row.error / mine[0].error for row in mine]
        right.plot(x, share, "o", color=colour, label=f"{epsilon:g}")
    right.axhline(1, color="black", lw=1)
    right.set(xlabel="mu: how often hiera uses a bit", ylabel="error / error with mu = 1")
    right.set_xticks(sorted({row.mu for row in rows if row.mu}))
    right.set_title("reuse only adds noise: lines predicted, marks measured", fontsize=10)
    right.legend(title="epsilon", loc="upper left", fontsize=9)
    left.get_yaxis().set_major_locator(plt.LogLocator(subs=(1, 2, 5)))
    left.get_yaxis().set_major_formatter(plt.FormatStrFormatter("%g"))
    left.minorticks_off()
    left.legend(loc="upper right", fontsize=8)
    return figure
