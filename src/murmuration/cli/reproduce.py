"""`murmur reproduce`: the four papers' tables, figures and theorems, run again."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from murmuration.cli.extras import require
from murmuration.cli.options import Json, Seed
from murmuration.cli.output import (
    checked_place,
    console,
    emit_json,
    progress_bar,
    pyplot,
    remark,
    save,
)
from murmuration.errors import ParameterError
from murmuration.files import ANYBODY, private_file, write_file
from murmuration.reproduce import registry
from murmuration.reproduce.draw import picture
from murmuration.reproduce.figure import PAPERS, Scale
from murmuration.reproduce.report import page
from murmuration.reproduce.run import Outcome, Run, summary, tidy
from murmuration.wire.parquet import arrow

COLOURS = {"holds": "green", "in part": "yellow", "false": "red"}


def reproduce(
    paper: Annotated[
        str, typer.Argument(help=f"One of: {', '.join(PAPERS)}. Left out: all four.")
    ] = "",
    figure: Annotated[
        list[str] | None, typer.Option("--figure", help="Only this id; may be repeated.")
    ] = None,
    full: Annotated[
        bool, typer.Option("--full/--quick", help="The papers' sizes (hours), or all in minutes.")
    ] = False,
    report: Annotated[
        bool, typer.Option("--report", help="Write report.html: plots, claims, verdicts, audits.")
    ] = False,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="Results go there.")
    ] = Path("reproduced"),
    jobs: Annotated[int, typer.Option(min=0, help="Processes; 0: as many as there are cores.")] = 0,
    engine: Annotated[str, typer.Option(help="local, or spark.")] = "local",
    master: Annotated[
        str, typer.Option(help="Where Spark runs, as spark://host:7077.")
    ] = "local[*]",
    listed: Annotated[bool, typer.Option("--list", help="List the ids; run nothing.")] = False,
    seed: Seed = 1,
    as_json: Json = False,
) -> None:
    """Run the four papers' tables, figures and theorems again; each claim beside its verdict.

    Runs that are done are not run again. Each figure leaves its points (Parquet) and a plot.
    """
    chosen = _chosen(paper, figure)
    if listed:
        _list(chosen, as_json)
        return
    require("arrow")
    pyplot()
    if engine not in ("local", "spark"):
        raise ParameterError(f"--engine is local or spark; got {engine!r}")
    checked_place(output / "report.html")
    scale = Scale("full" if full else "quick")
    if full:
        hours = registry.hours(chosen)
        remark(f"about {hours:.1f} hours of one core in all; what is done is kept")
    outcomes = _all(chosen, scale, seed, output, jobs or os.cpu_count() or 1, engine, master)
    found = json.dumps([summary(outcome) for outcome in outcomes], indent=1)
    write_file(output / "verdicts.json", found + "\n", ANYBODY)
    if report:
        save(page(outcomes, scale.name, seed).encode(), output / "report.html", "report")
    if as_json:
        emit_json([summary(outcome) for outcome in outcomes])
    else:
        _print(outcomes)
    remark(f"results: {output.resolve()}")


def _chosen(paper: str, figures: Sequence[str] | None) -> list[str]:
    known = registry.ids(paper or None)
    if unknown := [name for name in figures or () if name not in known]:
        raise ParameterError(f"no figure has the id {unknown[0]!r}; there are {', '.join(known)}")
    return [name for name in known if not figures or name in figures]


def _list(chosen: Sequence[str], as_json: bool) -> None:
    found = [(name, registry.paper_of(name), registry.figure(name)) for name in chosen]
    if as_json:
        emit_json(
            [
                {"id": name, "paper": paper, "where": one.where, "claim": one.claim}
                for name, paper, one in found
            ]
        )
        return
    table = Table("id", "paper", "where", "claim", title=f"{len(found)} figures")
    for name, paper, one in found:
        table.add_row(name, paper, escape(one.where), escape(one.claim))
    console.print(table)


def _all(
    chosen: Sequence[str],
    scale: Scale,
    seed: int,
    folder: Path,
    jobs: int,
    engine: str,
    master: str,
) -> list[Outcome]:
    """Run figure after figure; what each has found is written before the next begins."""
    outcomes = []
    with _session(engine, master) as session, progress_bar() as bar:
        for name in chosen:
            run = Run(name, scale, seed, folder)
            task = bar.add_task(name, total=len(run.cells))
            outcome = run.complete(jobs, partial(bar.advance, task), session)
            _write(outcome, folder)
            outcomes.append(outcome)
            bar.remove_task(task)
    return outcomes


@contextmanager
def _session(engine: str, master: str) -> Iterator[Any]:
    if engine == "local":
        yield None
        return
    require("spark")
    from murmuration.counting.engines.session import session

    with session(master) as started:
        yield started


def _write(outcome: Outcome, folder: Path) -> None:
    with private_file(folder / f"{outcome.id}.parquet", ANYBODY) as file:
        arrow().parquet.write_table(arrow().table(tidy(outcome)), file, compression="zstd")
    if drawn := picture(outcome):
        write_file(folder / f"{outcome.id}.svg", drawn, ANYBODY)


def _print(outcomes: Sequence[Outcome]) -> None:
    table = Table(title="what the papers claim, and what is measured")
    for heading in ("id", "verdict", "measured", "so it is"):
        table.add_column(heading, no_wrap=heading in ("id", "verdict"))
    table.add_column("seconds", justify="right", no_wrap=True)
    words = {True: "yes", False: "no", None: "undecided"}
    for outcome in outcomes:
        found = outcome.verdict
        first = (outcome.id, f"[{COLOURS.get(found, 'dim')}]{found}[/]")
        for place, finding in enumerate(outcome.findings):
            lead = first if place == 0 else ("", "")
            seconds = f"{outcome.seconds:.1f}" if place == 0 else ""
            says = f"{finding.says}: {finding.measured}"
            word = words[finding.holds] if finding.counts else "beside"
            table.add_row(*lead, escape(says), word, seconds)
        table.add_section()
    console.print(table)
    for outcome in outcomes:
        if not outcome.as_expected:
            remark(
                f"{outcome.id}: this run says {outcome.verdict!r}; the evidence of this version "
                f"says {outcome.figure.verdict!r}"
            )
