"""`murmur export`: a campaign's raw (randomised) reports as Parquet."""

from __future__ import annotations

import os
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from murmuration.campaign.stricter import Stricter, budgets_of
from murmuration.campaign.survey import SurveyCampaign
from murmuration.cli.options import CampaignOption, Force, Json, StoreArgument
from murmuration.cli.output import emit_json, progress_bar, say
from murmuration.collector import publish
from murmuration.collector.files import export as reports_file
from murmuration.collector.files import rounds as rounds_files
from murmuration.collector.store import open_store
from murmuration.errors import ParameterError
from murmuration.training.campaign import TrainingCampaign
from murmuration.wire import parquet


def export(
    store: StoreArgument,
    out: Annotated[
        Path, typer.Argument(help="A file that ends in .parquet, or a folder of Parquet parts.")
    ],
    campaign: CampaignOption = "",
    force: Force = False,
    at_most: Annotated[
        float | None,
        typer.Option(help="Make each report tell this much at most, for people who may see less."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write a campaign's randomised reports as Parquet that only you can read.

    One row per report: its id, and for each entry the number of its law and what was sent.
    A file has all reports, and the campaign in its metadata. A folder gets parts by digest and day,
    and only what it does not have yet; the campaign lies beside them. docs/files.md has the schema.

    A training is written to a folder: a file for each round that is closed, by the round's laws.

    With --at-most 0.5, each report is kept or made blank at random, so that it tells 0.5 at most: a
    file with new ids, and with the exact laws that its reports have then.
    """
    parquet.arrow()
    if out.suffix.lower() != ".parquet" or out.is_dir():
        if at_most is not None:
            raise ParameterError("--at-most writes one file: give it a name that ends in .parquet")
        _to_folder(store, out, campaign, as_json)
        return
    _require_survey(store, campaign)
    if os.path.lexists(out) and not force:
        raise ParameterError(f"{out} exists already; --force overwrites it")
    if at_most is not None:
        _stricter(store, out, campaign, at_most, as_json)
        return
    with closing(open_store(store, readonly=True)) as opened:
        name = publish.named_or_only(opened, campaign)
        served = publish.served(opened, name).of_kind(SurveyCampaign)
        with progress_bar() as bar:
            task = bar.add_task("exporting", total=opened.report_count(served.key))
            done = reports_file.write(opened, served, out, lambda n: bar.advance(task, n))
    if as_json:
        emit_json(
            {"campaign": served.campaign.name, "written": done.written, "scrubbed": done.scrubbed}
        )
        return
    say(f"{done.written:,} reports of {served.campaign.name}{_left_out(done)}: {out}", markup=False)


def _require_survey(store: str, campaign: str) -> None:
    """Refuse one file for a training, whose rounds have laws of their own."""
    with closing(open_store(store, readonly=True)) as opened:
        found = publish.served(opened, publish.named_or_only(opened, campaign)).campaign
    if found.kind == TrainingCampaign.kind:
        raise ParameterError(
            f"{found.name} trains a model: its rounds go to a folder, a file for each; say a name "
            "without a dot"
        )


def _stricter(store: str, out: Path, campaign: str, at_most: float, as_json: bool) -> None:
    """Write reports that tell less, and say how much."""
    with closing(open_store(store, create=False)) as opened:
        name = publish.named_or_only(opened, campaign)
        served = publish.served(opened, name).of_kind(SurveyCampaign)
        stricter = Stricter.at_most(served.campaign, at_most)
        with progress_bar() as bar:
            task = bar.add_task("converting", total=opened.report_count(served.key))
            done = reports_file.write_stricter(
                opened, served, out, stricter, lambda n: bar.advance(task, n)
            )
    loss = stricter.converted.loss()
    if as_json:
        told = {"epsilon": stricter.step, "loss": loss.epsilon}
        digest = stricter.converted.digest
        counts = {"written": done.written, "scrubbed": done.scrubbed}
        emit_json({"campaign": name, **counts, **told, "digest": digest})
        return
    say(
        f"{done.written:,} reports of {name}{_left_out(done)}: {out}\n"
        f"each tells {loss.epsilon:.6g} at most (step {stricter.step:g}; sent with "
        f"{max(budgets_of(served.campaign)):g}). A person's one report tells no more by all "
        "exports together than by the one that tells most.",
        markup=False,
    )


def _to_folder(store: str, out: Path, campaign: str, as_json: bool) -> None:
    """Write what a folder does not have yet."""
    if not out.is_dir() and (out.suffix or os.path.lexists(out)):
        raise ParameterError(
            "an export is a file that ends in .parquet, or a folder (a name without a dot); "
            f"got {out}"
        )
    with closing(open_store(store, create=False)) as opened:
        name = publish.named_or_only(opened, campaign)
        found = publish.served(opened, name)
        with progress_bar() as bar:
            task = bar.add_task("exporting", total=None)
            advance = partial(bar.advance, task)
            if found.campaign.kind == TrainingCampaign.kind:
                training = found.of_kind(TrainingCampaign)
                done = rounds_files.write(opened, training, out, advance)
            else:
                done = reports_file.write_folder(opened, name, out, advance)
    if as_json:
        counts = {"written": done.written, "before": done.before, "scrubbed": done.scrubbed}
        emit_json({"campaign": name, **counts})
        return
    before = f" ({done.before:,} were there)" if done.before else ""
    say(
        f"{done.written:,} new reports of {name}{_left_out(done)}: {out / name}{before}",
        markup=False,
    )


def _left_out(done: reports_file.Exported) -> str:
    return f"; {done.scrubbed:,} are known by their id only" if done.scrubbed else ""
