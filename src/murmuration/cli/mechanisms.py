"""`murmur mechanisms`: what there is, what it is for, what it costs."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from murmuration.cli.options import Json
from murmuration.cli.output import console, emit_json, errors, explain, table_of
from murmuration.errors import ParameterError
from murmuration.mechanisms.base import checked_epsilon
from murmuration.mechanisms.registry import list_mechanisms as registry
from murmuration.mechanisms.registry import mechanism


def mechanisms(
    epsilon: Annotated[float, typer.Option(help="Show error and loss at this epsilon.")] = 1.0,
    k: Annotated[int, typer.Option(min=2, help="Items, for frequency mechanisms.")] = 16,
    d: Annotated[int, typer.Option(min=1, help="Numbers, for tuple mechanisms.")] = 4,
    as_json: Json = False,
) -> None:
    """List the mechanisms with report size, worst-case error and exact loss."""
    checked_epsilon(epsilon)
    rows = []
    for name in registry():
        try:
            rows.append(_describe(name, epsilon, k, d))
        except ParameterError as problem:
            left = f"left out: {name}: {problem}"
            errors.print(left, highlight=False, markup=False, soft_wrap=True)
    if as_json:
        emit_json(rows)
        return
    title = f"mechanisms at epsilon {epsilon:g}, {k} items, tuples of {d}"
    table = table_of(title, ("name", "for"), ("bytes", "n·MSE", "exact loss"))
    table.add_column("how")
    for row in rows:
        table.add_row(
            row["name"],
            row["answers"],
            str(row["bytes"]),
            f"{row['n_mse']:.4g}",
            f"{row['loss']:.6f}" if row["kept"] else f"[bold red]{row['loss']:.6f} ![/]",
            row["summary"],
        )
    console.print(table)
    explain(
        "n·MSE: of a mean in the worst case, of a frequency on average over the items; "
        "!: the loss exceeds epsilon. graded: epsilon below 0, half of it above."
    )


def _describe(name: str, epsilon: float, k: int, d: int) -> dict[str, Any]:
    kind = registry()[name]
    chosen = mechanism(name, **kind.takes.example(epsilon, k, d))
    worst = chosen.worst_variance()
    return {
        "name": name,
        "answers": chosen.answers.value,
        "summary": chosen.summary,
        "paper": chosen.paper,
        "parameters": chosen.parameters,
        "counters": chosen.counters,
        "bytes": chosen.report_bytes,
        "n_mse": chosen.cost() / chosen.domain.figures,
        "worst_variance": worst,
        "loss": chosen.loss().epsilon,
        "kept": chosen.loss().holds,
    }
