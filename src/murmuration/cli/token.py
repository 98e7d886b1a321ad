"""`murmur token`: who may send, read and merge. A token is shown once and stored as a hash."""

from __future__ import annotations

import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import typer
from rich.markup import escape
from rich.table import Table

from murmuration.cli.options import Json, StoreArgument
from murmuration.cli.output import checked_place, console, emit_json, errors, say
from murmuration.collector.access.participants import PARTICIPANT, new_batch, tokens_of
from murmuration.collector.access.sessions import new_code
from murmuration.collector.access.tokens import new_token
from murmuration.collector.store import Token, open_store
from murmuration.errors import ParameterError
from murmuration.files import private_file

HOUR = 3600
Name = Annotated[str, typer.Argument(help="The token's name.")]
Days = Annotated[float, typer.Option(help="How long it lasts.")]


def token(context: typer.Context) -> None:
    """Make, list, rotate and end the tokens of a collector."""
    if context.invoked_subcommand is None:
        raise ParameterError("say what to do: murmur token add, list, link, rotate or end")


def add(
    store: StoreArgument,
    role: Annotated[str, typer.Argument(help="device, analyst, admin, merge or participant.")],
    name: Annotated[str, typer.Option(help="Whose it is; default: the role.")] = "",
    campaign: Annotated[str, typer.Option(help="For this campaign only.")] = "",
    source: Annotated[
        list[str] | None,
        typer.Option(help="Of a merge token: a collector whose tallies it may bring, by name."),
    ] = None,
    count: Annotated[
        int, typer.Option(help="Of participants' tokens: how many, each for one device.")
    ] = 1,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Write participants' tokens there, for you only."
        ),
    ] = None,
    url: Annotated[
        str,
        typer.Option(help="Write links to the participants' page, as browsers see the collector."),
    ] = "",
    days: Days = 90,
    as_json: Json = False,
) -> None:
    """Make a token and print it: this is the only time it is shown.

    Participants' tokens are made many at a time, a line each: one for each device, of which one
    report per period counts, in a campaign whose upload is "one-device".
    """
    if role == PARTICIPANT:
        _participants(store, campaign, name, count, days, output, url, as_json)
        return
    if count != 1 or output is not None or url:
        raise ParameterError("--count, --output and --url are for participants' tokens")
    with closing(open_store(store, create=False)) as opened:
        if campaign and campaign not in opened.campaigns():
            raise ParameterError(f"this store has no campaign {campaign!r}")
        text = new_token(opened, role, name, campaign, days, source or ())
    _hand_over(text, name or role, as_json)


def _participants(
    store: str,
    campaign: str,
    name: str,
    count: int,
    days: float,
    output: Path | None,
    url: str,
    as_json: bool,
) -> None:
    """Make tokens for one device each, and write them as they are made."""
    if output is not None:
        checked_place(output)
    with closing(open_store(store, create=False)) as opened:
        names = opened.campaigns()
        batch = new_batch(opened, campaign or (names[0] if len(names) == 1 else ""), name, days)
    made = tokens_of(batch, count)
    head = f"{url.rstrip('/')}/c/{quote(batch.campaign)}#token=" if url else ""
    lines = (f"{head}{token}" for token in made)
    if output is not None:
        with errors.status("making tokens"), private_file(output) as file:
            file.writelines(f"{line}\n".encode() for line in lines)
    if as_json:
        more = {} if output is not None else {"tokens": list(lines)}
        emit_json({"name": batch.name, "campaign": batch.campaign, "count": count, **more})
        return
    if output is None:
        for line in lines:
            say(line, markup=False)
    where = "shown this once" if output is None else f"in {output}, for its owner only"
    errors.print(
        f"{count:,} tokens for {batch.campaign}, {where}: give each to one device", style="dim"
    )


def rotate(
    store: StoreArgument,
    name: Name,
    overlap: Annotated[float, typer.Option(min=0, help="Hours that old ones go on.")] = 24,
    days: Days = 90,
    as_json: Json = False,
) -> None:
    """Make a new token of the same name and role; the old ones end after the overlap."""
    with closing(open_store(store, create=False)) as opened, opened.transaction():
        now = time.time()
        valid = [token for token in opened.tokens() if token.name == name and token.expires > now]
        kinds = {(token.role, token.campaign, token.sources) for token in valid}
        if any(role == PARTICIPANT for role, _, _ in kinds):
            raise ParameterError(f"{name!r} are participants' tokens: use add, and end")
        if len(kinds) != 1:
            problem = "is no valid token" if not kinds else "are tokens of several roles"
            raise ParameterError(f"there {problem} called {name!r}: use add and end")
        opened.expire_tokens(name, int(now + overlap * HOUR))
        ((role, campaign, sources),) = kinds
        text = new_token(opened, role, name, campaign, days, sources.split())
    _hand_over(text, name, as_json)


def end(store: StoreArgument, name: Name, as_json: Json = False) -> None:
    """End all tokens of a name now (collectors notice in seconds)."""
    with closing(open_store(store, create=False)) as opened:
        ended = opened.expire_tokens(name)
    if not ended:
        raise ParameterError(f"there is no valid token called {name!r}")
    if as_json:
        emit_json({"name": name, "ended": ended})
    else:
        console.print(f"{ended} ended", highlight=False)


def link(
    store: StoreArgument,
    url: Annotated[
        str, typer.Option(help="Where the collector is, as the browser sees it.")
    ] = "http://127.0.0.1:8750",
    name: Annotated[str, typer.Option(help="Sign in as this token; default: an analyst.")] = "",
    campaign: Annotated[str, typer.Option(help="To read this campaign only.")] = "",
    as_json: Json = False,
) -> None:
    """Print a link that signs a browser in: it works once, within an hour."""
    if name and campaign:
        raise ParameterError("a token that is named has its campaigns: leave --campaign out")
    with closing(open_store(store, create=False)) as opened:
        if campaign and campaign not in opened.campaigns():
            raise ParameterError(f"this store has no campaign {campaign!r}")
        code = new_code(opened, name, campaign)
    address = f"{url.rstrip('/')}/sign-in?code={code}"
    if as_json:
        emit_json({"link": address})
        return
    say(address, markup=False)
    errors.print("shown this once; it works once, within an hour", style="dim")


def list_tokens(store: StoreArgument, as_json: Json = False) -> None:
    """List names, roles and times; the tokens themselves are not kept."""
    with closing(open_store(store, readonly=True)) as opened:
        tokens = opened.tokens()
    if as_json:
        emit_json([_data(token) for token in tokens])
        return
    table = Table("name", "role", "campaign", "made (UTC)", "ends (UTC)", "state")
    for token in tokens:
        state = "valid" if token.expires > time.time() else "ended"
        times = (_moment(when)[:16].replace("T", " ") for when in (token.created, token.expires))
        role = token.role if token.role == PARTICIPANT else f"{token.role} {token.sources}".strip()
        table.add_row(escape(token.name), role, escape(token.campaign) or "all", *times, state)
    console.print(table)


def _hand_over(text: str, name: str, as_json: bool) -> None:
    if as_json:
        emit_json({"name": name, "token": text})
        return
    say(text, markup=False)
    errors.print("shown this once; a reader puts it into MURMUR_TOKEN", style="dim")


def _data(token: Token) -> dict[str, object]:
    return {
        "name": token.name,
        "role": token.role,
        "campaign": token.campaign or None,
        "sources": [] if token.role == PARTICIPANT else token.sources.split(),
        "created": _moment(token.created),
        "expires": _moment(token.expires),
        "valid": token.expires > time.time(),
    }


def _moment(seconds: int) -> str:
    """Write a time; one below 0 is that of a token that has ended."""
    return datetime.fromtimestamp(abs(seconds), UTC).isoformat(timespec="minutes")
