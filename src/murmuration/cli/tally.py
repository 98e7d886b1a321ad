"""`murmur tally`: files of reports become a file of tallies, on this machine or on Spark."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from murmuration.campaign.survey import SurveyCampaign
from murmuration.cli.extras import require
from murmuration.cli.options import Json
from murmuration.cli.output import checked_place, emit_json, errors, progress_bar, say
from murmuration.collector.merging import key_file
from murmuration.counting.container import CampaignTallies
from murmuration.counting.engines import local, parts
from murmuration.counting.engines.parts import Part
from murmuration.counting.sketch import Sketch, name_of
from murmuration.counting.sums import Sums
from murmuration.errors import ParameterError
from murmuration.files import write_file

UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def tally(
    context: typer.Context,
    reports: Annotated[
        list[Path], typer.Argument(help="Folders, or files: Parquet, Arrow (IPC) or CSV.")
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The file to write.", metavar="FILE")
    ],
    campaign: Annotated[
        Path | None,
        typer.Option(
            help="The campaign: as published (.json), or campaign.toml. Left out: the folder's."
        ),
    ] = None,
    dedup: Annotated[
        bool,
        typer.Option("--dedup/--no-dedup", help="Whether an id counts once, over all files."),
    ] = True,
    keep: Annotated[
        bool,
        typer.Option(
            "--state/--no-state",
            help="Whether FILE.state is kept, so that the next time only new parts are read.",
        ),
    ] = True,
    fresh: Annotated[bool, typer.Option("--fresh", help="Read all parts again.")] = False,
    memory: Annotated[
        str, typer.Option(help="What finding duplicates may take, as 500M or 2G.")
    ] = "256M",
    threads: Annotated[
        int | None, typer.Option(min=1, help="How many work at once. Left out: all cores.")
    ] = None,
    engine: Annotated[str, typer.Option(help="local, or spark.")] = "local",
    master: Annotated[
        str, typer.Option(help="Where Spark runs, as spark://host:7077.")
    ] = "local[*]",
    key: Annotated[
        Path | None,
        typer.Option(
            help="The key that collectors share: with it, `murmur merge` takes FILE.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Count files of reports, each id once, and write the tallies; `murmur estimate` reads them.

    A folder that has grown is not read again from the start. Reports that cannot be counted are
    listed by reason.
    """
    require("arrow")
    if engine not in ("local", "spark"):
        raise ParameterError(f"--engine is local or spark; got {engine!r}")
    _require_used(context, engine)
    room = _bytes(memory)
    checked_place(output)
    files = parts.find(reports)
    asked = parts.campaign_of(reports, campaign)
    secret = None if key is None else key_file.read(key)
    start = time.perf_counter()
    sketched: tuple[Sketch, str, str] | tuple[()] = ()
    if engine == "spark":
        require("spark")
        if secret is not None:
            raise ParameterError("--key needs the ids on this machine: count with --engine local")
        sums = _on_spark(asked, files, master, dedup=dedup)
        about = {"parts": len(files), "parts_read": len(files), "parts_gone": 0}
    else:
        with progress_bar() as bar:
            how = local.How(dedup, room, **_threads(threads), fresh=fresh, secret=secret, bar=bar)
            place = output.with_name(f"{output.name}.state") if keep else None
            done = local.tally(asked.form, files, place, how)
        sums = done.sums
        sketched = () if secret is None else (done.sketch, done.name, name_of(secret))
        about = {"parts": len(files), "parts_read": len(done.read), "parts_gone": len(done.gone)}
    _require_counted(asked, sums)
    made = CampaignTallies.of_files(asked, sums.tallies(asked.frame), sums.to_json(), *sketched)
    write_file(output, made.to_bytes())
    _tell(asked, sums, about, output, time.perf_counter() - start, as_json=as_json)


def _require_used(context: typer.Context, engine: str) -> None:
    """Refuse options that the engine has no use for."""
    own = {"local": ("keep", "fresh", "memory", "threads"), "spark": ("master",)}
    options = {option.name: option.opts[0] for option in context.command.params}
    for other, names in own.items():
        for name in names:
            source = context.get_parameter_source(name)
            if engine != other and source is not None and source.name == "COMMANDLINE":
                raise ParameterError(f"{options[name]} is for --engine {other}: leave it out")


def _require_counted(campaign: SurveyCampaign, sums: Sums) -> None:
    """Refuse to write tallies of nothing, if there was something to count."""
    if sums.read and not sums.counted:
        reasons = ", ".join(f"{reason}: {n:,}" for reason, n in sorted(sums.refused.items()))
        raise ParameterError(
            f"none of {sums.read:,} reports counts as one of {campaign.name} ({reasons}). Nothing "
            "was written. If they are of another campaign, name its file by --campaign"
        )


def _threads(threads: int | None) -> dict[str, Any]:
    return {} if threads is None else {"threads": threads}


def _bytes(text: str) -> int:
    """Read a size.

    >>> _bytes("2G") == 2 << 30
    True
    """
    match = re.fullmatch(r"([0-9]{1,12})\s*([KMG]?)i?B?", text.strip(), flags=re.I)
    if match is None:
        raise ParameterError(f"--memory is a size as 500M or 2G; got {text!r}")
    return int(match[1]) * UNITS[match[2].upper()]


def _on_spark(campaign: SurveyCampaign, parts: list[Part], master: str, *, dedup: bool) -> Sums:
    from murmuration.counting.engines import spark
    from murmuration.counting.engines.session import session

    with errors.status("starting Spark") as status, session(master) as started:
        status.update("counting on Spark")
        return spark.tally(started, campaign.form, parts, dedup=dedup)


def _tell(
    campaign: SurveyCampaign,
    sums: Sums,
    about: dict[str, int],
    output: Path,
    seconds: float,
    *,
    as_json: bool,
) -> None:
    """Say what became of the reports."""
    if as_json:
        head = {"campaign": campaign.name, "digest": campaign.digest}
        emit_json({**head, **sums.to_json(), **about, "seconds": round(seconds, 3)})
        return
    say(f"{sums.counted:,} reports of {campaign.name} counted: {output}", markup=False)
    known, gone = about["parts"] - about["parts_read"], about["parts_gone"]
    unread = f", {known:,} of them known from before" if known else ""
    left = f"; {gone:,} that were counted before are gone" if gone else ""
    say(f"  {sums.read:,} in {about['parts']:,} files{unread}{left}", markup=False)
    if sums.duplicates:
        say(f"  {sums.duplicates:,} have an id that counts already", markup=False)
    for reason, n in sorted(sums.refused.items()):
        say(f"  {n:,} refused: {reason}", markup=False)
