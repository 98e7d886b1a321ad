"""`murmur simulate`: a whole study of simulated collections, on this machine or on Spark."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from murmuration.campaign.survey import SurveyCampaign
from murmuration.cli.extras import require
from murmuration.cli.fit import MOST_MISFITS, measure, name_unknown, require_fitting
from murmuration.cli.options import Json, Plot
from murmuration.cli.output import (
    checked_place,
    checked_plot,
    console,
    emit_json,
    errors,
    explain,
    legend_beside,
    progress_bar,
    remark,
    save_plot,
    table_of,
    two_panels,
)
from murmuration.cli.tables import open_table
from murmuration.errors import ParameterError
from murmuration.files import ANYBODY, private_file
from murmuration.lab import study as studies
from murmuration.lab.study import Line
from murmuration.wire.parquet import arrow


def simulate(
    study: Annotated[Path, typer.Argument(help="The study: a .toml file (docs/scale.md).")],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FOLDER", help="Results go there. Left out: beside the study."
        ),
    ] = None,
    engine: Annotated[str, typer.Option(help="local, or spark.")] = "local",
    master: Annotated[
        str, typer.Option(help="Where Spark runs, as spark://host:7077.")
    ] = "local[*]",
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """Simulate campaigns x epsilon x mechanisms x repetitions; a tidy table of all results.

    Cells that are finished are not run again: a study that was interrupted, or has grown, goes on.
    """
    require("arrow")
    checked_plot(plot)
    if engine not in ("local", "spark"):
        raise ParameterError(f"--engine is local or spark; got {engine!r}")
    with errors.status("choosing mechanisms"):
        asked = studies.read(study, _columns)
    folder = output or study.with_suffix("")
    checked_place(folder / "results.parquet")
    with _session(engine, master) as session, progress_bar() as bar:
        task = bar.add_task("collecting", total=len(asked.cells))
        ran, known = studies.run(asked, folder, lambda n: bar.advance(task, n), session)
    table = studies.results(asked, folder)
    with private_file(folder / "results.parquet", ANYBODY) as file:
        arrow().parquet.write_table(table, file, compression="zstd")
    lines = studies.summary(table.to_pylist())
    if as_json:
        emit_json({"run": ran, "known": known, "lines": [dataclasses.asdict(x) for x in lines]})
    else:
        _print(lines, f"{ran:,} collections, {known:,} known from before")
    remark(f"results: {(folder / 'results.parquet').resolve()}")
    if plot is not None:
        save_plot(draw(lines, asked.confidence), plot)


def _columns(path: Path, campaign: SurveyCampaign) -> dict[str, Any]:
    """Read the columns of a data file that a campaign asks for; refuse one that does not fit."""
    table = open_table(path)
    fits = measure(campaign, table)
    name_unknown(fits)
    require_fitting(fits, MOST_MISFITS, option=False)
    names = [question.name for question in campaign.given]
    columns: dict[str, Any] = table.columns(names)
    return columns


@contextmanager
def _session(engine: str, master: str) -> Iterator[Any]:
    if engine == "local":
        yield None
        return
    require("spark")
    from murmuration.counting.engines.session import session

    with session(master) as started:
        yield started


def _print(lines: Sequence[Line], title: str) -> None:
    words, numbers = ("campaign", "attribute", "epsilon", "mechanism"), ("error", "predicted")
    table = table_of(title, words, (*numbers, "covered"))
    for line in lines:
        law = line.mechanism if line.mechanism == line.laws else f"{line.mechanism}: {line.laws}"
        expected = f"{line.predicted:.3g}" if math.isfinite(line.predicted) else "-"
        cells = (f"{line.rmse:.3g}", expected, f"{100 * line.covered:.1f}%")
        table.add_row(line.campaign, line.attribute, f"{line.epsilon:g}", law, *cells)
    console.print(table)
    explain(
        "error: root of the mean squared error over repetitions and labels, in the attribute's "
        "units"
    )


def draw(lines: Sequence[Line], confidence: float) -> Any:
    """Return a figure: error over what theory expects (left), coverage (right), by epsilon."""
    figure, left, right = two_panels()
    names = list(dict.fromkeys((x.campaign, x.attribute, x.mechanism) for x in lines))
    for place, name in enumerate(names):
        mine = [x for x in lines if (x.campaign, x.attribute, x.mechanism) == name]
        style = {"color": f"C{place % 10}", "marker": "osD^v<>PX*"[place // 10 % 10], "ms": 5}
        epsilons = [x.epsilon for x in mine]
        left.plot(epsilons, [x.rmse / x.predicted for x in mine], label=", ".join(name), **style)
        right.plot(epsilons, [100 * x.covered for x in mine], **style)
    for axes, line in ((left, 1.0), (right, 100 * confidence)):
        axes.set(xscale="log", xlabel="epsilon")
        axes.axhline(line, color="black", lw=1)
    left.set(ylabel="error / predicted error")
    right.set(ylabel=f"% of {100 * confidence:g}% intervals that have the truth")
    if len(names) <= 20:
        legend_beside(figure, left)
    return figure
