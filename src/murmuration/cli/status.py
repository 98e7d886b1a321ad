"""`murmur status`: what has arrived, what became of it, and whether the books balance."""

from __future__ import annotations

from contextlib import closing
from time import sleep
from typing import Annotated

import msgspec
import typer
from rich.live import Live
from rich.table import Table

from murmuration.analysis.open import open_source
from murmuration.cli.options import CampaignArgument, Json, PlainHttp, Source, TokenOption
from murmuration.cli.output import console, emit_json
from murmuration.collector.status import Status
from murmuration.errors import ParameterError
from murmuration.wire.report import REASONS

WATCH_SECONDS = 2.0


def status(
    source: Source,
    campaign: CampaignArgument = "",
    watch: Annotated[
        bool, typer.Option("--watch", help="Look again every 2 s, to Ctrl-C.")
    ] = False,
    token: TokenOption = "",
    plain_http: PlainHttp = False,
    as_json: Json = False,
) -> None:
    """Print what a campaign has received: stored, duplicates, and refused by reason."""
    if watch and as_json:
        raise ParameterError("--watch is for people: leave --json out")
    with closing(open_source(source, campaign, token, plain_http=plain_http)) as opened:
        now = opened.status()
        if as_json:
            emit_json(msgspec.to_builtins(now))
        elif not watch:
            console.print(shown(now))
        else:
            try:
                with Live(shown(now), console=console, auto_refresh=False) as live:
                    while True:
                        sleep(WATCH_SECONDS)
                        live.update(shown(opened.status()), refresh=True)
            except KeyboardInterrupt:
                return


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
    table.add_row("people", f"{now.people:,} of {now.people_expected:,}")
    earlier = outcomes.get("stored", 0) - now.people
    if earlier > 0 and not now.merged_collectors:
        table.add_row("stored for earlier questions, not in the estimates", f"{earlier:,}")
    cohort = now.cohort
    table.add_row("shown from", f"{cohort:,} answers to an attribute on")
    if now.merged_collectors:
        table.add_row("collectors whose tallies were merged", f"{now.merged_collectors:,}")
    table.add_row("digest", now.digest[:16])
    table.add_row("name of this collector", now.collector)
    return table
