"""`murmur plan graded`: what grades of privacy buy, if anything."""

from __future__ import annotations

from typing import Annotated

import typer

from murmuration.cli.options import Edges, High, Json, Low, Semantics
from murmuration.cli.output import console, emit_json, explain, table_of
from murmuration.cli.parse import (
    parse_edges,
    parse_epsilons,
    parse_numbers,
    parse_ranges,
    parse_value,
)
from murmuration.errors import ParameterError
from murmuration.planning.edges import choose_edges
from murmuration.planning.graded import GradedPlan, plan_graded


def graded(
    epsilon: Annotated[str, typer.Option(help="The budget of each range, as 0.5,0.1.")],
    people: Annotated[int, typer.Option(min=1, help="How many take part.")],
    edges: Edges | None = None,
    prior: Annotated[
        str,
        typer.Option(help="In place of --edges: the shares of people in equal bins, as 4,3,2,1."),
    ] = "",
    between: Annotated[
        str, typer.Option(help="How far each edge may be moved, with a prior: 30000:60000.")
    ] = "",
    shares: Annotated[
        str, typer.Option(help="The share of people that each range holds at least: 0,0.2.")
    ] = "",
    semantics: Semantics = "max",
    low: Low = None,
    high: High = None,
    wanted: Annotated[
        float | None,
        typer.Option(help="Say how many people this error takes (default: 1% of half the domain)."),
    ] = None,
    as_json: Json = False,
) -> None:
    """List what keeps the budgets of graded ranges, and say whether grading buys anything."""
    if (low is None) != (high is None):
        raise ParameterError("--low and --high go together")
    half = 1.0 if low is None or high is None else (high - low) / 2
    error = 0.01 if wanted is None else wanted / half
    budgets, kind = parse_epsilons(epsilon), parse_value(semantics)
    if (edges is None) == (not prior):
        raise ParameterError("give --edges, or a --prior for which they are chosen")
    if edges is not None and (between or shares):
        raise ParameterError("--between and --shares are for edges that are chosen: give --prior")
    places = parse_edges(edges or "", low, high)
    if prior:
        places = choose_edges(
            budgets,
            parse_numbers("--prior", prior),
            parse_ranges("--between", between, low, high) if between else None,
            parse_numbers("--shares", shares) if shares else None,
            kind,
        ).edges
    planned = plan_graded(budgets, places, kind, people, error)
    own = [_in_units(place, low, high) for place in places]
    if as_json:
        emit_json({"edges": own, **_as_data(planned, half), "half_domain": half})
    else:
        if prior:
            shown = ", ".join(f"{place:.6g}" for place in own)
            console.print(f"edges of least error for this prior: {shown}")
        _print(planned, people, error * half, half)


def _in_units(place: float, low: float | None, high: float | None) -> float:
    return place if low is None or high is None else low + (place + 1) / 2 * (high - low)


def _as_data(planned: GradedPlan, half: float) -> dict[str, object]:
    return {
        "advice": planned.advice,
        "gain": planned.gain,
        "limit": planned.limit,
        "options": [
            {
                "mechanism": option.mechanism.name,
                "parameters": option.mechanism.parameters,
                "graded": option.graded,
                "worst_variance": option.worst,
                "stderr": option.stderr * half,
                "people_needed": option.people_needed,
                "bytes": option.mechanism.report_bytes,
                "loss": option.mechanism.loss().epsilon,
            }
            for option in planned.options
        ],
    }


def _print(planned: GradedPlan, people: int, wanted: float, half: float) -> None:
    numbers = ("n·Var", "std error", f"people for {wanted:g}", "bytes", "loss")
    table = table_of(f"what keeps every budget, {people:,} people", ("mechanism",), numbers)
    for option in planned.options:
        table.add_row(
            option.mechanism.name,
            f"{option.worst:.4g}",
            f"{option.stderr * half:.4g}",
            f"{option.people_needed:,}",
            str(option.mechanism.report_bytes),
            f"{option.mechanism.loss().epsilon:.6g}",
        )
    console.print(table)
    console.print(planned.advice, highlight=False, soft_wrap=True)
    units = "in [-1, 1]" if half == 1 else "in your units"
    explain(f"n·Var in [-1, 1]; std error {units}, for the value that is hardest.")
