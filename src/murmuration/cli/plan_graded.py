"""`murmur plan graded`: what grades of privacy buy, if anything."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from murmuration.cli.output import console, emit_json, parse_epsilons, parse_numbers
from murmuration.plan_graded import GradedPlan, plan_graded


def graded(
    epsilon: Annotated[str, typer.Option(help="The budget of each range, as 0.5,0.1.")],
    edges: Annotated[str, typer.Option(help="Where ranges meet, between -1 and 1.")],
    people: Annotated[int, typer.Option(min=1, help="How many take part.")],
    semantics: Annotated[str, typer.Option(help="max or min: two different ranges.")] = "max",
    wanted: Annotated[float, typer.Option(help="Say how many people this error takes.")] = 0.01,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List what keeps the budgets of graded ranges, and say whether grading buys anything."""
    found = plan_graded(
        parse_epsilons(epsilon), parse_numbers("--edges", edges), semantics, people, wanted
    )
    if as_json:
        emit_json(_as_data(found))
    else:
        _print(found, people, wanted)


def _as_data(found: GradedPlan) -> dict[str, object]:
    return {
        "advice": found.advice,
        "gain": found.gain,
        "limit": found.limit,
        "options": [
            {
                "mechanism": option.mechanism.name,
                "parameters": option.mechanism.parameters,
                "graded": option.graded,
                "worst_variance": option.worst,
                "stderr": option.stderr,
                "people_needed": option.people_needed,
                "bytes": option.mechanism.report_bytes,
                "loss": option.mechanism.loss().epsilon,
            }
            for option in found.options
        ],
    }


def _print(found: GradedPlan, people: int, wanted: float) -> None:
    table = Table(title=f"what keeps every budget, {people:,} people")
    table.add_column("mechanism", no_wrap=True)
    for heading in ("n·Var", "std error", f"people for {wanted:g}", "bytes", "loss"):
        table.add_column(heading, justify="right", no_wrap=True)
    for option in found.options:
        table.add_row(
            option.mechanism.name,
            f"{option.worst:.4g}",
            f"{option.stderr:.4g}",
            f"{option.people_needed:,}",
            str(option.mechanism.report_bytes),
            f"{option.mechanism.loss().epsilon:.6g}",
        )
    console.print(table)
    console.print(found.advice, highlight=False, soft_wrap=True)
