"""`murmur serve`: start the collector of one or more campaigns."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from murmuration import sentences
from murmuration.campaign.kind import Campaign
from murmuration.cli.extras import require
from murmuration.cli.options import STORE_HELP
from murmuration.cli.output import console, say
from murmuration.collector.files.sink import check as check_folder
from murmuration.collector.publish import published
from murmuration.collector.publish import serve as publish
from murmuration.collector.store import Store, open_store
from murmuration.definition import load as campaign_file
from murmuration.definition.load import CampaignFile
from murmuration.errors import ParameterError


def serve(
    files: Annotated[list[Path], typer.Argument(help="Campaign files.")],
    store: Annotated[
        str, typer.Option(help=f"{STORE_HELP}. Default: NAME.db beside the file.")
    ] = "",
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to listen on.")] = 8750,
    workers: Annotated[
        int, typer.Option(min=1, max=64, help="Processes; more than one needs PostgreSQL.")
    ] = 1,
    certificate: Annotated[Path | None, typer.Option(help="TLS certificate (PEM).")] = None,
    key: Annotated[Path | None, typer.Option(help="TLS key (PEM).")] = None,
    plain_http: Annotated[
        bool,
        typer.Option("--plain-http", help="Allow plain HTTP beyond this machine (behind a proxy)."),
    ] = False,
    forwarded: Annotated[
        bool,
        typer.Option(
            "--forwarded",
            help="Only a proxy gets here: a client is the last address in its X-Forwarded-For.",
        ),
    ] = False,
    prefix: Annotated[
        str, typer.Option(help="The path of all addresses behind a proxy, such as /study.")
    ] = "",
    truths: Annotated[
        Path | None,
        typer.Option("--demo-truths", hidden=True, help="What is so, where people are simulated."),
    ] = None,
    handed: Annotated[
        int | None, typer.Option("--socket", hidden=True, help="A descriptor that listens there.")
    ] = None,
    reports: Annotated[
        Path | None,
        typer.Option(help="Write reports to this folder as Parquet, not into the store."),
    ] = None,
    new_laws: Annotated[
        bool,
        typer.Option("--new-laws", help="Choose laws anew, though the file asks the same."),
    ] = False,
) -> None:
    """Collect reports over HTTP; each is counted once and acknowledged when it is on the disk.

    Listens on this machine only, unless told otherwise. Ctrl-C ends it after writing what arrived.
    On a terminal it prints a link to the dashboard, which works once.
    """
    require("server")
    from murmuration.server import workers as processes
    from murmuration.server.run import Endpoint

    read = [campaign_file.opened(path) for path in files]
    names = [file.name for file in read]
    if len(set(names)) != len(names):
        raise ParameterError("two of these campaigns have the same name")
    where = store or str(files[0].with_name(f"{names[0]}.db"))
    address = Endpoint(host, port, certificate, key, plain_http, forwarded, prefix, handed)
    processes.check(where, address, workers)
    processes.listening(address).close()  # before a store is made and a token is shown
    if not where.startswith("postgres") and not Path(where.removeprefix("sqlite:///")).exists():
        for file in read:
            _ = file.campaign  # a mistake is found before a store is made
    if reports is not None:
        check_folder(reports, {file.name: file.terms for file in read})
    with closing(open_store(where)) as opened:
        campaigns = [_published(opened, file, address.url, new_laws) for file in read]
        _hand_out(opened, where)
        _link(opened, where, address.url)
    if not where.startswith("postgres"):  # such an address may hold a password
        say(f"  store {where}; Ctrl-C ends the collector")
    if reports is not None:
        say(
            f"  reports go to {reports}: to a log, and within about an hour to Parquet; the store "
            "has ids and tallies"
        )
    known = None if truths is None else json.loads(truths.read_text())
    processes.run(campaigns, where, address, workers, truths=known, reports=reports)


def _published(store: Store, file: CampaignFile, url: str, new_laws: bool) -> Campaign:
    """Publish a campaign, with the laws that it has if its file asks what it asked before."""
    known = None if new_laws else published(store, file)
    campaign = file.campaign if known is None else known
    _introduce(campaign, url)
    if known is not None:
        say("  laws as they are published in the store; `--new-laws` chooses them anew")
    _compare(store, campaign)
    publish(store, campaign, file.asked)
    return campaign


def _introduce(campaign: Campaign, url: str) -> None:
    loss = campaign.loss()
    say(
        f"[bold]{campaign.name}[/]: {url}/v1/campaigns/{campaign.name}\n"
        f"  the exact loss of one report is {sentences.reveals(loss.epsilon, campaign.epsilon)}; "
        f"digest {campaign.digest[:16]}"
    )
    say(f"  {escape(campaign.summary)}")


def _compare(store: Store, campaign: Campaign) -> None:
    """Say what becomes of the reports that answered other questions."""
    others = store.digests(campaign.name) - {campaign.digest}
    keys = [key for key in map(store.key_of, others) if key is not None]
    if reports := sum(map(store.report_count, keys)):
        say(
            f"  [yellow]{reports:,} reports to other questions or laws[/] stay in the store, but "
            "are not in these estimates (the file they came from brings them back); a device that "
            "has answered is asked again only as far as `lifetime` allows"
        )


def _hand_out(store: Store, where: str) -> None:
    """Print an admin's token, once, when the store has no token yet; never into a log."""
    from murmuration.collector.access.sessions import NAME
    from murmuration.collector.access.tokens import ADMIN, new_token

    if any(token.name != NAME for token in store.tokens()):
        return
    if not console.is_terminal:
        name = "STORE" if where.startswith("postgres") else where  # it may hold a password
        say(f"  nobody can read yet: murmur token add {name} admin")
        return
    token = new_token(store, ADMIN, "first")
    say(f"  admin token, shown this once: {token}")


def _link(store: Store, where: str, url: str) -> None:
    """Print a link that signs a browser in, once; never into a log."""
    from murmuration.collector.access.sessions import new_code

    name = "STORE" if where.startswith("postgres") else where
    again = f"murmur token link {name}"
    if console.is_terminal:
        say(f"  dashboard, once and within an hour: {url}/sign-in?code={new_code(store)}")
        say(f"  another link: {again}")
    else:
        say(f"  a link to the dashboard: {again}")
