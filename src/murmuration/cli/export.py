"""`murmur export`: a campaign's raw (randomised) reports as Parquet."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from murmuration.cli.output import console, emit_json, progress_bar
from murmuration.cli.serve import STORE_HELP
from murmuration.collector import export as reports_file
from murmuration.collector import publish
from murmuration.collector.store import open_store
from murmuration.errors import ParameterError


def export(
    store: Annotated[str, typer.Argument(help=f"The store: {STORE_HELP}.")],
    out: Annotated[Path, typer.Argument(help="The Parquet file to write.")],
    campaign: Annotated[str, typer.Option(help="Its name, if there are several.")] = "",
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Write one row per report: its id, and for each entry the law's number and the bytes.

    The campaign is in the file's metadata; `murmuration.collector.export.read` reads it.
    """
    if out.exists() and not force:
        raise ParameterError(f"{out} exists already; --force overwrites it")
    reports_file.arrow()
    with closing(open_store(store, readonly=True)) as opened:
        served = publish.served(opened, publish.named_or_only(opened, campaign))
        with progress_bar() as bar:
            task = bar.add_task("exporting", total=opened.report_count(served.key))
            done = reports_file.write(opened, served, out, lambda n: bar.advance(task, n))
    if as_json:
        emit_json(
            {"campaign": served.campaign.name, "written": done.written, "scrubbed": done.scrubbed}
        )
        return
    scrubbed = f"; {done.scrubbed:,} were scrubbed and are left out" if done.scrubbed else ""
    console.print(
        f"{done.written:,} reports of {served.campaign.name}{scrubbed}: {out}",
        highlight=False,
        soft_wrap=True,
        markup=False,
    )
