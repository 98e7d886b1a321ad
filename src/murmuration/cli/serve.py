"""`murmur serve`: start the collector of one or more campaigns."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from murmuration.campaign.file import load as campaign_file
from murmuration.campaign.model import Campaign
from murmuration.cli.extras import require
from murmuration.cli.options import STORE_HELP
from murmuration.cli.output import console, say
from murmuration.collector.store import Store, open_store
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
) -> None:
    """Collect reports over HTTP: answered when they are on the disk, counted once.

    Listens on this machine only, unless told otherwise. Ctrl-C ends it after writing what arrived.
    """
    require("server")
    from murmuration.server import workers as processes
    from murmuration.server.run import Endpoint

    campaigns = [campaign_file.load(path) for path in files]
    names = [campaign.name for campaign in campaigns]
    if len(set(names)) != len(names):
        raise ParameterError("two of these campaigns have the same name")
    where = store or str(files[0].with_name(f"{names[0]}.db"))
    address = Endpoint(host, port, certificate, key, plain_http, forwarded)
    processes.check(where, address, workers)
    processes.listening(address).close()  # before a store is made and a token is shown
    with closing(open_store(where)) as opened:
        for campaign in campaigns:
            _introduce(campaign, address.url)
            _compare(opened, campaign)
        _hand_out(opened, where)
    if not where.startswith("postgres"):  # such an address may hold a password
        say(f"  store {where}; Ctrl-C ends the collector")
    processes.run(campaigns, where, address, workers)


def _introduce(campaign: Campaign, url: str) -> None:
    loss = campaign.loss()
    say(
        f"[bold]{campaign.name}[/]: {url}/v1/campaigns/{campaign.name}\n"
        f"  one report reveals at most {loss.epsilon:.6g} (exact; promised {campaign.epsilon:g}); "
        f"digest {campaign.digest[:16]}"
    )


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
    from murmuration.collector.tokens import ADMIN, new_token

    if store.tokens():
        return
    if not console.is_terminal:
        name = "STORE" if where.startswith("postgres") else where  # it may hold a password
        say(f"  nobody can read yet: murmur token add {name} admin")
        return
    token = new_token(store, ADMIN, "first")
    say(f"  admin token, shown this once: {token}")
