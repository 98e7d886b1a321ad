"""`murmur status`: what has arrived, what became of it, and whether the books balance."""

from __future__ import annotations

import signal
from contextlib import closing, suppress
from datetime import UTC, datetime
from time import sleep
from typing import Annotated

import msgspec
import typer
from rich.console import Group
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from murmuration.cli.options import CampaignArgument, Json, LiveSource, PlainHttp, TokenOption
from murmuration.cli.output import NO_CROWD, console, emit_json, fitted
from murmuration.collector.status import RoundStatus, Status, TrainingStatus
from murmuration.errors import ParameterError
from murmuration.sources.base import Source
from murmuration.sources.open import open_source
from murmuration.wire.report import REASONS

WATCH_SECONDS = 2.0


def status(
    source: LiveSource,
    campaign: CampaignArgument = "",
    watch: Annotated[
        bool, typer.Option("--watch", help="Look again every 2 s, to Ctrl-C.")
    ] = False,
    token: TokenOption = "",
    plain_http: PlainHttp = False,
    as_json: Json = False,
) -> None:
    """Print how many reports were received, stored and refused, and each attribute's answers."""
    if watch and as_json:
        raise ParameterError("--watch is for people: leave --json out")
    with closing(open_source(source, campaign, token, plain_http=plain_http)) as opened:
        now = opened.status()
        if as_json:
            emit_json(msgspec.to_builtins(now))
        elif not watch:
            for table in tables(now):
                console.print(table)
            for warning in now.warnings:
                console.print(f"{NO_CROWD} {escape(warning)}", style="bold red", highlight=False)
        else:
            _watch(now, opened)


def _watch(now: Status, opened: Source) -> None:
    """Print the status again and again, until Ctrl-C or SIGTERM; a file gets one after another."""
    with suppress(ValueError):  # a thread cannot listen; the main one does
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        if not console.is_terminal:
            while True:
                console.print(both(now))
                console.file.flush()
                sleep(WATCH_SECONDS)
                now = opened.status()
        with Live(both(now), console=console, auto_refresh=False) as live:
            while True:
                sleep(WATCH_SECONDS)
                live.update(both(opened.status()), refresh=True)
    except KeyboardInterrupt:
        return


def both(now: Status) -> Group:
    """Return the tables of a status, as wide as the terminal is now."""
    said = [Text(f"{NO_CROWD} {warning}", style="bold red") for warning in now.warnings]
    return Group(*(fitted(table, console.width) for table in tables(now)), *said)


def tables(now: Status) -> list[Table]:
    """Return what has arrived, and the answers to each attribute, or the rounds of a training."""
    if now.training is not None:
        return [shown(now), rounds(now.training)]
    return [shown(now), answers(now), *([periods(now)] if now.periods else ())]


def rounds(training: TrainingStatus) -> Table:
    """Return the rounds of a training."""
    about = f"{training.model} model of {escape(training.target)}"
    state = "training is over" if training.ended else "training goes on"
    table = Table(title=f"{about}: {state}", caption="\n".join(training.notes) or None)
    table.add_column("round", justify="right")
    table.add_column("asks", overflow="fold")
    for heading in ("people", "size"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("state")
    for each in training.rounds:
        asks = ", ".join(f"{ask} {n:,}" for ask, n in each.asks.items())
        table.add_row(str(each.number), asks, f"{each.people:,}", f"{each.size:,}", _state(each))
    return table


def _state(status: RoundStatus) -> str:
    if status.state == "aside":
        return "set aside: too few"
    if status.state == "closed" or status.closes is None:
        return status.state
    moment = datetime.fromtimestamp(status.closes, UTC)
    return f"open, to {moment:%Y-%m-%d %H:%M} UTC"


def periods(now: Status) -> Table:
    """Return how many people have reported in each period, the last ones first."""
    table = Table(title="people by period")
    table.add_column("period")
    table.add_column("people", justify="right")
    table.add_column("reports are")
    for period in reversed(now.periods):
        table.add_row(
            period.name, _told(period.people), "taken" if period.open else "taken no more"
        )
    return table


def answers(now: Status) -> Table:
    """Return how many answers to each attribute are shown, by level too."""
    names = [period.name for period in now.periods if period.people]
    last = f" in {names[-1]}" if names else ""
    table = Table(title=f"answers to each attribute{last}")
    table.add_column("attribute", overflow="fold")
    levels = list(dict.fromkeys(name for attribute in now.attributes for name in attribute.levels))
    for heading in (*map(escape, levels), "answers"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("shown", justify="right")
    for attribute in now.attributes:
        by_level = [_told(attribute.levels.get(name, 0)) for name in levels]
        state = "yes" if attribute.answers else f"from {attribute.needed:,} on"
        table.add_row(escape(attribute.attribute), *by_level, _told(attribute.answers), state)
    return table


def _told(answers: int) -> str:
    """Return a number of answers; of too few nothing is told.

    >>> _told(1200), _told(0)
    ('1,200', 'hidden')
    """
    return f"{answers:,}" if answers else "hidden"


def shown(now: Status) -> Table:
    """Return the status as a table."""
    state = "open" if now.open else "closed"
    title = f"{now.campaign}, version {now.version}, {state}"
    table = Table(title=title, show_header=False)
    table.add_column(overflow="fold")
    table.add_column(justify="right", no_wrap=True)
    table.add_row("[bold]received[/]", f"{now.received:,}", end_section=True)
    outcomes = now.outcomes
    table.add_row("stored", f"{outcomes.get('stored', 0):,}")
    table.add_row("duplicates (counted once)", f"{outcomes.get('duplicate', 0):,}")
    for reason, n in outcomes.items():
        if reason not in ("stored", "duplicate"):
            table.add_row(f"refused, {reason}: {REASONS.get(reason, '')}", f"{n:,}")
    books = "they add up" if now.balanced else "[bold red]THEY DO NOT ADD UP[/]"
    table.add_row("received = stored + duplicates + refused", books, end_section=True)
    most = f" to {now.reports:,}" if now.reports > now.people else ""
    table.add_row("people", f"{now.people:,}{most} of {now.people_expected:,}")
    earlier = outcomes.get("stored", 0) - now.reports
    if earlier > 0 and not now.merged_collectors:
        table.add_row("stored for earlier questions, not in the estimates", f"{earlier:,}")
    if now.waiting:
        table.add_row("of these in no figure yet: they wait for whole cohorts", f"{now.waiting:,}")
    table.add_row("last report stored here (UTC, to the hour)", _hour(now.last_report))
    cohort = now.cohort
    of = "an attribute" if now.training is None else "a question of a round"
    table.add_row("shown from", f"{cohort:,} answers to {of} on")
    if now.merged_collectors:
        table.add_row("collectors whose tallies were merged", f"{now.merged_collectors:,}")
    table.add_row("digest", now.digest[:16])
    table.add_row("name of this collector", now.collector)
    return table


def _hour(last: str) -> str:
    """Return an hour for people.

    >>> _hour("2026-11-18T01:00Z"), _hour("")
    ('2026-11-18 01:00', 'none')
    """
    return last.replace("T", " ").removesuffix("Z") or "none"
