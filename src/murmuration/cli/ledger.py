"""`murmur ledger`: what a person's device has spent and sent."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from murmuration.cli.options import Json
from murmuration.cli.output import console, emit_json, say
from murmuration.device.ledger import Entry, Ledger
from murmuration.errors import ParameterError


def ledger(
    file: Annotated[Path, typer.Argument(help="The device's ledger.")],
    lifetime: Annotated[
        float | None, typer.Option(min=0, help="Set the limit over all campaigns, or lower it.")
    ] = None,
    raise_lifetime: Annotated[
        float | None, typer.Option(min=0, help="Raise the limit: the person's decision alone.")
    ] = None,
    reports: Annotated[
        bool, typer.Option("--reports", help="Also print the bytes of every report.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show what was spent and sent: every report, what it cost, and what became of it."""
    if not file.is_file():
        raise ParameterError(f"there is no ledger {file}")
    kept = Ledger(file)
    if lifetime is not None and raise_lifetime is not None:
        raise ParameterError("either --lifetime or --raise-lifetime")
    if lifetime is not None:
        kept.set_lifetime(lifetime)
    if raise_lifetime is not None:
        kept.raise_lifetime(raise_lifetime)
    if as_json:
        emit_json(_as_dict(kept))
    else:
        _print(kept, reports)


def _as_dict(kept: Ledger) -> dict[str, Any]:
    entries = kept.entries()
    return {
        "lifetime": kept.lifetime,
        "spent": kept.spent(),
        "remaining": kept.remaining(),
        "campaigns": {name: float(cost) for name, cost in _by_campaign(entries).items()},
        "entries": [
            {
                "campaign": entry.campaign,
                "digest": entry.digest,
                "purpose": entry.purpose,
                "round": entry.round,
                "made_at": entry.made_at,
                "epsilon": entry.epsilon,
                "outcome": entry.outcome,
                "report_id": entry.report_id.hex(),
                "report": _text(entry),
            }
            for entry in entries
        ],
    }


def _text(entry: Entry) -> str | None:
    return None if entry.report is None else entry.report.decode(errors="backslashreplace")


def _by_campaign(entries: list[Entry]) -> dict[str, Fraction | float]:
    """Add up exactly what each campaign has cost."""
    costs: dict[str, Fraction | float] = {}
    for entry in entries:
        costs[entry.campaign] = costs.get(entry.campaign, Fraction(0)) + entry.cost
    return costs


def _print(kept: Ledger, reports: bool) -> None:
    entries = kept.entries()
    table = Table(title=_shown(str(kept.path)))
    for heading in ("campaign", "purpose", "round", "when (UTC)", "epsilon", "outcome"):
        table.add_column(heading, justify="right" if heading == "epsilon" else "left")
    for entry in entries:
        when = entry.made_at.removesuffix("+00:00").replace("T", " ")
        words = (entry.campaign, entry.purpose, entry.round, when, f"{entry.epsilon:g}")
        outcome = _shown(entry.outcome) if entry.outcome else "[yellow]not acknowledged[/]"
        table.add_row(*map(_shown, words), outcome)
    console.print(table)
    if reports:
        for entry in entries:
            say(_shown(_text(entry) or "forgotten"))
    for name, cost in _by_campaign(entries).items():
        console.print(f"{_shown(name)}: {float(cost):g}", highlight=False)
    say(_summary(kept))


def _summary(kept: Ledger) -> str:
    waiting, limit = len(kept.pending()), kept.lifetime
    rest = "no lifetime limit" if limit is None else f"{kept.remaining():g} of {limit:g} is left"
    pending = f"; {waiting} not acknowledged yet, kept to be sent again" if waiting else ""
    return f"spent in all: {kept.spent():g}, {rest}{pending}"


def _shown(text: str) -> str:
    """Return text for a terminal: campaigns are named by others, so no markup, no control codes."""
    return escape("".join(c if c.isprintable() else " " for c in text))
