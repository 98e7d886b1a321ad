"""`murmur ledger`: what a person's device has spent and sent."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from murmuration.campaign.question import OUTSIDE
from murmuration.cli.options import Json
from murmuration.cli.output import console, emit_json, say
from murmuration.device.ledger import Entry, Ledger
from murmuration.errors import ParameterError


def ledger(
    file: Annotated[Path, typer.Argument(help="The device's ledger.")],
    limit: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=EPSILON",
            help="Lower a limit: report=, collector= or lifetime=. Repeat it for several.",
        ),
    ] = None,
    raise_limit: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=EPSILON",
            help="Raise a limit (inf: none): the person's decision alone.",
        ),
    ] = None,
    reports: Annotated[
        bool, typer.Option("--reports", help="Also print the bytes of every report.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show a device's ledger: each report, what it cost, and whether it was delivered."""
    if not file.is_file():
        raise ParameterError(f"there is no ledger {file}")
    kept = Ledger(file)
    for name, most in map(_named, limit or ()):
        kept.set_limit(name, most)
    for name, most in map(_named, raise_limit or ()):
        kept.raise_limit(name, most)
    if as_json:
        emit_json(_as_dict(kept))
    else:
        _print(kept, reports)


def _named(text: str) -> tuple[str, float]:
    """Read a limit such as lifetime=8."""
    name, equals, number = text.partition("=")
    try:
        if equals:
            return name.strip(), float(number)
    except ValueError:
        pass
    raise ParameterError(f"a limit is NAME=EPSILON, such as lifetime=8; got {text!r}")


def _as_dict(kept: Ledger) -> dict[str, Any]:
    entries = kept.entries()
    return {
        "limits": {name: _finite(most) for name, most in kept.limits().items()},
        "spent": kept.spent(),
        "remaining": _finite(kept.remaining()),
        "campaigns": [
            {"collector": origin, "campaign": name, "spent": float(cost)}
            for (origin, name), cost in kept.totals().items()
        ],
        "misfits": [
            {
                "collector": origin,
                "campaign": name,
                "attribute": attribute,
                "reason": reason,
                "times": times,
            }
            for origin, name, attribute, reason, times in kept.misfits()
        ],
        "entries": [
            {
                "collector": entry.origin,
                "campaign": entry.campaign,
                "digest": entry.digest,
                "purpose": entry.purpose,
                "period": entry.period,
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


def _finite(number: float) -> float | None:
    """Return a number for JSON, which has no infinity: None is no limit."""
    return None if math.isinf(number) else number


def _print(kept: Ledger, reports: bool) -> None:
    entries = kept.entries()
    table = Table(title=_shown(str(kept.path)))
    for heading in ("campaign", "purpose", "period", "when (UTC)", "charged", "outcome"):
        table.add_column(heading, justify="right" if heading == "charged" else "left")
    lasting = kept.permanent()
    for entry in entries:
        when = entry.made_at.removesuffix("+00:00").replace("T", " ")
        apart = not entry.epsilon and (entry.origin, entry.campaign) in lasting
        charged = "in the sum" if apart else f"{entry.epsilon:g}"
        words = (entry.campaign, entry.purpose, entry.period, when, charged)
        outcome = _shown(entry.outcome) if entry.outcome else "[yellow]not acknowledged[/]"
        table.add_row(*map(_shown, words), outcome)
    console.print(table)
    if reports:
        for entry in entries:
            say(_shown(_text(entry) or "forgotten"))
    for (origin, name), cost in kept.totals().items():
        whose = f"{name} at {origin}"
        console.print(f"{_shown(whose)}: {float(cost):g}", highlight=False)
    for _, name, attribute, reason, times in kept.misfits():
        word = "outside the range" if reason == OUTSIDE else "not a label, or not a number"
        say(
            f"{_shown(name)}: {times} answer{'s' * (times != 1)} to {_shown(attribute)} did not "
            f"fit ({word}). Only this device knows."
        )
    if lasting:
        say(
            "Permanent answers are in the sums, not in the lines: when a value changed is not kept."
        )
    say(_summary(kept))


def _summary(kept: Ledger) -> str:
    waiting, limits = len(kept.pending()), kept.limits()
    most = limits["lifetime"]
    rest = "no lifetime limit" if math.isinf(most) else f"{kept.remaining():g} of {most:g} is left"
    aside = 0.0 if math.isinf(most) else most - kept.spent() - kept.remaining()
    if aside > 1e-9:
        rest += f", {aside:g} is set aside for later reports"
    pending = f"; {waiting} not acknowledged yet, kept to be sent again" if waiting else ""
    others = ", ".join(
        f"{'no limit' if math.isinf(limits[name]) else f'{limits[name]:g}'} for one {name}"
        for name in ("report", "collector")
    )
    return f"spent in all: {kept.spent():g}, {rest} ({others}){pending}"


def _shown(text: str) -> str:
    """Return text for a terminal: campaigns are named by others, so no markup, no control codes."""
    return escape("".join(c if c.isprintable() else " " for c in text))
