"""`murmur export`: a campaign's raw (randomised) reports as Parquet."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from murmuration.cli.options import CampaignOption, Force, Json, StoreArgument
from murmuration.cli.output import emit_json, progress_bar, say
from murmuration.collector import export as reports_file
from murmuration.collector import publish
from murmuration.collector.store import open_store
from murmuration.errors import ParameterError


def export(
    store: StoreArgument,
    out: Annotated[Path, typer.Argument(help="The Parquet file to write.")],
    campaign: CampaignOption = "",
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write a campaign's randomised reports to a Parquet file that only you can read.

    One row per report: its id, and for each entry the number of its law and the bytes. The
    campaign is in the file's metadata; `murmuration.collector.export.read` yields columns of it.
    """
    if out.suffix.lower() != ".parquet":
        raise ParameterError(
            f"an export is a Parquet file: name one that ends in .parquet; got {out}"
        )
    if os.path.lexists(out) and not force:
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
    say(f"{done.written:,} reports of {served.campaign.name}{scrubbed}: {out}", markup=False)
