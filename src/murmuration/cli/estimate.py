"""`murmur estimate`: the crowd's answer, with intervals, from a store or a collector."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from murmuration.analysis import figures, select
from murmuration.analysis.combine import checked_name
from murmuration.analysis.estimates import Query
from murmuration.analysis.figures import Attribute, Estimates, misfits_in, waiting_note
from murmuration.analysis.tables import CELLS, checked_view
from murmuration.cli.estimate_plot import draw, draw_trend
from murmuration.cli.extras import require
from murmuration.cli.options import CampaignArgument, Json, PlainHttp, Plot, Source, TokenOption
from murmuration.cli.output import (
    NO_CROWD,
    PICTURES,
    Screen,
    checked_place,
    checked_plot,
    console,
    emit,
    emit_json,
    errors,
    save,
    save_plot,
)
from murmuration.errors import ParameterError
from murmuration.results.change import Change
from murmuration.results.figure import Figure
from murmuration.sources.open import open_source
from murmuration.statistics.liars import SHARE, checked_share

ENDINGS = {
    **{".json": "json", ".csv": "csv", ".parquet": "parquet", ".txt": "txt"},
    **dict.fromkeys(PICTURES, "plot"),
}
NO_DIFFERENCE = "~ 0"
"""The mark of a share whose interval has 0."""
MOST_DIGITS = 12


def estimate(
    source: Source,
    campaign: CampaignArgument = "",
    confidence: Annotated[float, typer.Option(help="The confidence of the intervals.")] = 0.95,
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
    where: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Only this attribute, or this label as ATTRIBUTE=LABEL; * stands for anything. "
            "May be repeated.",
        ),
    ] = None,
    top: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Only so many labels of an attribute, the largest first (the terminal and plots: "
            f"{select.TOP} of more than {select.LONG}).",
        ),
    ] = None,
    period: Annotated[
        str,
        typer.Option(
            help="Where a question comes back: a period by its name, last (unless told otherwise), "
            "or all of them together."
        ),
    ] = "",
    since: Annotated[
        str, typer.Option(help="Say what has changed since that period; else since the one before.")
    ] = "",
    liars: Annotated[
        float, typer.Option(help="The share of liars whose power over each figure is shown.")
    ] = SHARE,
    tables: Annotated[
        str,
        typer.Option(
            help="What is shown of tables: cells; shares within each of the rows, or columns; or "
            "smoothed, which has a bias and no intervals."
        ),
    ] = CELLS,
    version: Annotated[
        int | None, typer.Option(min=1, help="An earlier version of the campaign, from a store.")
    ] = None,
    output: Annotated[
        list[Path] | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help=f"Write there too, as its ending says: {', '.join(ENDINGS)}. May be repeated.",
        ),
    ] = None,
    csv: Annotated[
        str, typer.Option("--csv", help="Write CSV there; - prints it.", metavar="FILE")
    ] = "",
    parquet: Annotated[Path | None, typer.Option(help="Write Parquet there.")] = None,
    plot: Plot = None,
    token: TokenOption = "",
    plain_http: PlainHttp = False,
    as_json: Json = False,
) -> None:
    """Print means and shares with confidence intervals; list what too few have answered.

    Of long lists the largest shares are shown, with intervals that are right all at once. JSON,
    CSV and Parquet have all labels, each with its own interval, unless --top is given. Where a
    question comes back, figures are about one period, and what has changed since the one before is
    printed, too; --plot then draws the trend.
    """
    if not 0 < confidence < 1:
        raise ParameterError(f"--confidence is between 0 and 1, such as 0.95; got {confidence:g}")
    checked_name(combine)
    checked_view(tables)
    checked_share(liars)
    wanted = [(path, _form(path)) for path in output or ()]
    wanted += [(Path(csv), "csv")] if csv not in ("", "-") else []
    wanted += [(parquet, "parquet")] if parquet is not None else []
    wanted += [(plot, "plot")] if plot is not None else []
    for path, form in wanted:
        _check(path, form)
    opened = open_source(source, campaign, token, plain_http=plain_http, version=version)

    @cache
    def read(long: bool) -> Estimates:
        """Return the figures for people, or long lists too."""
        together = top if top is not None or long else select.LONG
        with errors.status("reading"):
            query = Query(about, confidence, combine, together, period, since, liars, tables)
            results = opened.asked(query)
        results = select.chosen(results, where or ())
        return results if top is None and long else select.largest(results, top)

    with closing(opened):
        if csv == "-":
            emit(figures.rendered(read(True), "csv").decode())
        elif as_json:
            emit_json(msgspec.to_builtins(read(True)))
        else:
            show(read(False), console)
        for path, form in wanted:
            if form == "plot" and read(False).period:
                trend = opened.trend(Query(about, confidence, combine, select.LONG))
                save_plot(draw_trend(trend, read(False)), path)
            else:
                _write(path, form, read)


def _form(path: Path) -> str:
    try:
        return ENDINGS[path.suffix.lower()]
    except KeyError:
        raise ParameterError(
            f"the ending says in which form: {', '.join(ENDINGS)}; got {path}"
        ) from None


def _check(path: Path, form: str) -> None:
    """Say before the work that a file cannot be written."""
    if form == "parquet":
        require("arrow")
    if form == "plot":
        checked_plot(path)
    else:
        checked_place(path)


def _write(path: Path, form: str, read: Callable[[bool], Estimates]) -> None:
    if form == "plot":
        save_plot(draw(read(False)), path)
    elif form == "txt":
        text = io.StringIO()
        show(read(False), Screen(file=text, width=console.width, color_system=None))
        save(text.getvalue().encode(), path, form)
    else:
        save(figures.rendered(read(True), form), path, form)


# --- as a table ----------------------------------------------------------------------------------


def show(results: Estimates, screen: Console) -> None:
    """Print all figures, and what is hidden."""
    when = {"": "", "all": f", {len(results.periods)} periods"}.get(
        results.period, f" in {results.period}"
    )
    title = (
        f"{results.campaign}: {people_in(results)}{when}, {100 * results.confidence:.6g}% intervals"
    )
    table = Table(title=title)
    table.add_column("attribute", overflow="fold")
    table.add_column("", overflow="fold")
    for heading in ("value", "interval", "answers", f"{100 * results.liars:.3g}% liars"):
        table.add_column(heading, justify="right")
    marked = any(map(indistinct, results.estimates))
    if marked:
        table.add_column("", no_wrap=True)
    for about, rows in results.by_attribute():
        _add(table, about, rows)
        table.add_section()
    screen.print(table)
    for warning in results.warnings:
        screen.print(f"{NO_CROWD} {escape(warning)}", style="bold red", highlight=False)
    if marked:
        screen.print(f"{NO_DIFFERENCE}: not distinguishable from 0", style="dim", highlight=False)
    notes = [(figure.attribute, figure.note) for figure in results.estimates if figure.note]
    notes += [
        (attribute.name, attribute.note) for attribute in results.attributes if attribute.note
    ]
    for text in misfits_in(results.attributes, results.estimates):
        screen.print(escape(text), highlight=False)
    for attribute, note in dict.fromkeys(notes):
        screen.print(f"{escape(attribute)}: {escape(note)}", style="dim", highlight=False)
    if note := waiting_note(results):
        screen.print(note, style="dim", highlight=False)
    screen.print(f"digest {results.digest[:16]}, about {results.about}", style="dim")
    if results.period:
        _show_changes(results, screen)


def people_in(results: Estimates) -> str:
    """Say how many people there are: where a person sends several reports, between what.

    A collector cannot tell whose reports they are.
    """
    if results.reports <= results.people:
        return f"{results.people:,} people"
    return f"{results.people:,} to {results.reports:,} people, {results.reports:,} reports"


def _show_changes(results: Estimates, screen: Console) -> None:
    """Print what has changed since the period before, and whether anything has over all."""
    if results.changes:
        first = results.changes[0]
        table = Table(title=f"change from {first.before} to {first.after}")
        table.add_column("attribute", overflow="fold")
        table.add_column("", overflow="fold")
        table.add_column("change", justify="right")
        table.add_column("interval", justify="right")
        table.add_column("", no_wrap=True)
        shown = {(figure.attribute, figure.item) for figure in results.estimates}
        for change in results.changes:
            if (change.attribute, change.item) in shown:
                table.add_row(escape(change.attribute), escape(change.item), *_change(change))
        screen.print(table)
        for attribute, note in dict.fromkeys(
            (change.attribute, change.note) for change in results.changes
        ):
            screen.print(f"{escape(attribute)}: {escape(note)}", style="dim", highlight=False)
    if results.changed is not None:
        over = f"Over all {len(results.periods)} periods: " if len(results.periods) > 2 else ""
        screen.print(f"{over}{escape(str(results.changed))}", highlight=False)


def _change(change: Change) -> tuple[str, str, str]:
    scale, sign = _scale(change.unit), " pp" if change.unit == "share" else ""
    digits = min(max(0, 1 - math.floor(math.log10(change.stderr * scale))), MOST_DIGITS)
    low, high = (f"{scale * end:+,.{digits}f}" for end in (change.low, change.high))
    mark = "" if change.certain else NO_DIFFERENCE
    return f"{scale * change.value:+,.{digits}f}{sign}", f"{low} to {high}{sign}", mark


def _add(table: Table, attribute: Attribute, rows: Sequence[Figure]) -> None:
    """Add an attribute's rows; one that is hidden says how many answers it needs."""
    name = escape(f"{attribute.name} ({attribute.unit})" if attribute.unit else attribute.name)
    if attribute.hidden:
        table.add_row(name, "", "hidden", attribute.note, f"fewer than {attribute.needed:,}")
    for place, figure in enumerate(rows):
        digits = decimals(rows, figure.unit)
        mark = [NO_DIFFERENCE] if indistinct(figure) else []
        cells = (
            *(_value(figure, digits), _interval(figure, digits), f"{figure.n:,}"),
            *(_liars(figure), *mark),
        )
        item = f"and {figure.item}" if figure.note.endswith(select.TOGETHER) else figure.item
        table.add_row("" if place else name, escape(item), *cells)


def _liars(figure: Figure) -> str:
    """Return how far liars can have moved a figure, to two digits.

    >>> _liars(Figure("pet", "dog", 0.38, 0.02, 0.34, 0.42, 900, 1.0, "share", liars=0.0213))
    '± 2.1 pp'
    """
    if figure.liars is None:
        return "no bound"
    unit = " pp" if figure.unit == "share" else ""
    return f"± {_scale(figure.unit) * figure.liars:,.2g}{unit}"


def indistinct(figure: Figure) -> bool:
    """Whether a share cannot be told from 0: its interval has 0."""
    return figure.unit == "share" and figure.low is not None and figure.low <= 0


def decimals(rows: Sequence[Figure], unit: str) -> int:
    """Return how many decimals show two digits of the least standard error; shares in percent.

    >>> decimals([Figure("age", "mean", 38.0, 0.213, 37.6, 38.4, 900, 1.0, "years")], "years")
    2
    >>> decimals([Figure("pet", "dog", 0.38, 0.0213, 0.34, 0.42, 900, 1.0, "share")], "share")
    1
    """
    errors = [figure.stderr for figure in rows if figure.unit == unit and figure.stderr]
    if not errors:
        return 2
    return min(max(0, 1 - math.floor(math.log10(min(errors) * _scale(unit)))), MOST_DIGITS)


def _scale(unit: str) -> float:
    return 100.0 if unit == "share" else 1.0


def _value(figure: Figure, digits: int) -> str:
    """Return value ± half the interval; shares in percent, ± in percentage points."""
    scale, share = _scale(figure.unit), figure.unit == "share"
    value = f"{scale * figure.value:,.{digits}f}{'%' if share else ''}"
    if figure.low is None or figure.high is None:
        return value
    half = scale * (figure.high - figure.low) / 2
    return f"{value} ± {half:,.{digits}f}{' pp' if share else ''}"


def _interval(figure: Figure, digits: int) -> str:
    if figure.low is None or figure.high is None:
        return ""
    scale, sign = _scale(figure.unit), "%" if figure.unit == "share" else ""
    ends = (f"{scale * end:,.{digits}f}{sign}" for end in (figure.low, figure.high))
    return " to ".join(ends)
