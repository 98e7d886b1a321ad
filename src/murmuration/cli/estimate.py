"""`murmur estimate`: the crowd's answer, with intervals, from a store or a collector."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from contextlib import closing
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.markup import escape
from rich.table import Table

from murmuration.analysis import figures
from murmuration.analysis.combine import checked_name
from murmuration.analysis.figures import Estimates
from murmuration.analysis.open import open_source
from murmuration.cli.extras import require
from murmuration.cli.options import CampaignArgument, Json, PlainHttp, Plot, Source, TokenOption
from murmuration.cli.output import (
    checked_plot,
    console,
    emit_json,
    errors,
    pyplot,
    remark,
    save_plot,
)
from murmuration.errors import ParameterError
from murmuration.results.figure import Figure

MOST_PANELS = 12


def estimate(
    source: Source,
    campaign: CampaignArgument = "",
    level: Annotated[float, typer.Option(help="The confidence level of the intervals.")] = 0.95,
    about: Annotated[
        str, typer.Option(help="participants, or population: those they were drawn from.")
    ] = "participants",
    combine: Annotated[
        str,
        typer.Option(
            help="How levels become one estimate: total (the plain sum: assumes nothing), or "
            "generalised (sharper, if nobody's level depends on the answer)."
        ),
    ] = "",
    csv: Annotated[
        str, typer.Option("--csv", help="Write CSV there; - prints it.", metavar="FILE")
    ] = "",
    parquet: Annotated[Path | None, typer.Option(help="Write Parquet there.")] = None,
    plot: Plot = None,
    token: TokenOption = "",
    plain_http: PlainHttp = False,
    as_json: Json = False,
) -> None:
    """Print means and shares with their intervals, once enough people have answered."""
    if not 0 < level < 1:
        raise ParameterError(f"--level is between 0 and 1, such as 0.95; got {level:g}")
    checked_name(combine)
    checked_plot(plot)
    if parquet is not None:
        require("arrow")
    with (
        errors.status("reading"),
        closing(open_source(source, campaign, token, plain_http=plain_http)) as opened,
    ):
        results = opened.estimates(about, level, combine)
    if csv == "-":
        sys.stdout.write(figures.rendered(results, "csv").decode())
    elif as_json:
        emit_json(msgspec.to_builtins(results))
    else:
        _print(results)
    for path, form in ((Path(csv) if csv not in ("", "-") else None, "csv"), (parquet, "parquet")):
        if path is not None:
            path.write_bytes(figures.rendered(results, form))
            remark(f"{form}: {path.resolve()}")
    if plot is not None:
        save_plot(draw(results), plot)


def _print(results: Estimates) -> None:
    title = f"{results.campaign}: {results.people:,} people, {100 * results.level:.6g}% intervals"
    table = Table(title=title)
    table.add_column("attribute", overflow="fold")
    table.add_column("", overflow="fold")
    for heading in ("value", "interval", "answers"):
        table.add_column(heading, justify="right", no_wrap=True)
    for attribute, group in groupby(results.estimates, key=lambda figure: figure.attribute):
        for place, figure in enumerate(group):
            unit = f" ({figure.unit})" if figure.unit else ""
            name = escape(f"{attribute}{unit}") if place == 0 else ""
            table.add_row(name, escape(figure.item), *_cells(figure))
        table.add_section()
    console.print(table)
    for attribute, note in dict.fromkeys(
        (f.attribute, f.note) for f in results.estimates if f.note
    ):
        console.print(f"{escape(attribute)}: {escape(note)}", style="dim", highlight=False)
    console.print(f"digest {results.digest[:16]}, about {results.about}", style="dim")


def _cells(figure: Figure) -> tuple[str, str, str]:
    """Return value ± half the interval, the interval, and how many answers; digits that matter."""
    if figure.low is None or figure.high is None or figure.stderr is None:
        return f"{figure.value:.4f}", "", f"{figure.n:,}"
    half = (figure.high - figure.low) / 2
    digits = max(0, 1 - math.floor(math.log10(half))) if half > 0 else 6
    shown = f"{figure.value:,.{digits}f} ± {half:,.{digits}f}"
    return shown, f"{figure.low:,.{digits}f} to {figure.high:,.{digits}f}", f"{figure.n:,}"


def draw(results: Estimates) -> Any:
    """Return a figure: one panel per attribute, with intervals; distributions as histograms."""
    plt = pyplot()
    groups = [
        (name, list(rows))
        for name, rows in groupby(results.estimates, key=lambda one: one.attribute)
    ]
    shown = groups[:MOST_PANELS]
    columns = min(3, len(shown))
    lines = math.ceil(len(shown) / columns)
    figure, panels = plt.subplots(
        lines, columns, figsize=(4.6 * columns, 3.4 * lines), squeeze=False, layout="constrained"
    )
    for axes, (name, rows) in zip(panels.flat, shown, strict=False):
        _panel(axes, rows)
        axes.set_title(name.replace("$", r"\$"), fontsize=10)
    for axes in panels.flat[len(shown) :]:
        axes.set_axis_off()
    more = f" (the first {len(shown)} of {len(groups)})" if len(groups) > len(shown) else ""
    figure.suptitle(
        f"{results.campaign}, {results.people:,} people, {100 * results.level:.6g}% intervals{more}"
    )
    return figure


def _panel(axes: Any, rows: Sequence[Figure]) -> None:
    bins = [row for row in rows if row.low is None]
    exact = [row for row in rows if row.low is not None]
    half = [((row.high or 0.0) - (row.low or 0.0)) / 2 for row in exact]
    if bins:
        ends = [[float(end) for end in row.item.split(" to ")] for row in bins]
        edges = [ends[0][0], *(end for _, end in ends)]
        axes.stairs([row.value for row in bins], edges, fill=True, alpha=0.5)
        for row in exact:
            axes.axvline(row.value, color="black", lw=1)
            axes.axvspan(row.low, row.high, color="black", alpha=0.2)
        axes.set_ylabel("share of people")
        axes.set_xlabel(exact[0].unit if exact else "")
    elif exact[0].item == "mean":
        axes.errorbar([row.value for row in exact], [0], xerr=half, fmt="o", capsize=4)
        axes.set_yticks([])
        axes.set_xlabel(f"mean {exact[0].unit}".strip())
    else:
        labels = [row.item.replace("$", r"\$") for row in exact]
        places = range(len(exact))
        axes.barh(places, [row.value for row in exact], xerr=half, capsize=3, alpha=0.6)
        axes.set_yticks(places, labels, fontsize=8 if len(labels) <= 20 else 4)
        axes.invert_yaxis()
        axes.axvline(0, color="black", lw=0.8)
        axes.set_xlabel("share")
