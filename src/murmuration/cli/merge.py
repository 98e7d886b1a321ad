"""`murmur merge`: stores of one campaign into one, each report counted exactly once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from murmuration.campaign.survey import SurveyCampaign
from murmuration.cli.options import Json
from murmuration.cli.output import emit_json, progress_bar, say
from murmuration.collector.merging import key_file
from murmuration.collector.merging.key_file import shared_key, take_key
from murmuration.collector.merging.reports import Joined
from murmuration.collector.merging.reports import merge as merge_reports
from murmuration.collector.merging.rounds import merge_rounds
from murmuration.collector.merging.tallies import (
    merge_tallies,
    remove,
    removed_in_figures,
)
from murmuration.collector.publish import served
from murmuration.collector.store import Store, open_store
from murmuration.counting.container import CampaignTallies
from murmuration.errors import MismatchError, ParameterError
from murmuration.sources.file import campaign_tallies
from murmuration.training.campaign import TrainingCampaign

MERGES: dict[str, Callable[..., Joined]] = {
    SurveyCampaign.kind: merge_reports,
    TrainingCampaign.kind: merge_rounds,
}
"""How the reports of each kind of campaign are merged."""
STILL_IN_FIGURES = (
    "Figures still contain them. Those of an attribute change once what is merged differs from "
    "what they show by {:,} answers (the cohort) at each level: the difference of fewer people "
    "would tell about these."
)


def merge(
    into: Annotated[str, typer.Argument(help="The store that receives the reports.")],
    others: Annotated[
        list[str] | None,
        typer.Argument(help="Stores, or files of tallies, to merge into it; left as they are."),
    ] = None,
    campaign: Annotated[str, typer.Option(help="Only this one; else all of them.")] = "",
    key: Annotated[
        Path | None,
        typer.Option(help="Share the key in this file; one that is not there is written."),
    ] = None,
    without: Annotated[
        str, typer.Option("--remove", help="Forget the tallies of a collector, by its name.")
    ] = "",
    as_json: Json = False,
) -> None:
    """Merge other stores into the first, by the ids of their reports, or files of tallies.

    Merging again changes nothing.
    """
    if not others and key is None and not without:
        raise ParameterError("say which stores to merge, or --key, or --remove")
    rows: list[dict[str, object]] = []
    with closing(open_store(into, create=False)) as target:
        for row in _done(target, into, others or [], campaign, key, without):
            rows.append(row)
            if not as_json:
                _print(row)
    if as_json:
        emit_json(rows)


def _done(
    target: Store, into: str, others: list[str], campaign: str, key: Path | None, without: str
) -> Iterator[dict[str, object]]:
    """Do one thing after the other, and say what came of each."""
    if key is not None:
        yield {"store": into, "key": _share(target, key)}
    if without:
        yield from _remove(target, into, campaign, without)
    for where in others:
        yield from _merge_store(target, where, campaign)


def _share(target: Store, path: Path) -> str:
    """Take the key of a file, or write this store's into a new one."""
    if path.exists():
        take_key(target, key_file.read(path))
        return f"taken from {path}"
    key_file.write(path, shared_key(target))
    return f"written to {path}: hand it to the other collectors, and to nobody else"


def _remove(target: Store, into: str, campaign: str, source: str) -> list[dict[str, object]]:
    names = [campaign] if campaign else target.campaigns()
    removed = {name: remove(target, name, source) for name in names}
    if None in removed.values() and not any(gone is not None for gone in removed.values()):
        raise ParameterError(f"this store has no tallies of a collector {source!r}")
    return [
        {
            **{"store": into, "campaign": name, "removed": gone},
            "waits_for": removed_in_figures(target, name),
        }
        for name, gone in removed.items()
        if gone is not None
    ]


def _merge_store(target: Store, where: str, campaign: str) -> list[dict[str, object]]:
    try:
        if (data := campaign_tallies(where)) is not None:
            return [{"tallies": where, **_merge_tallies(target, data, campaign)}]
        with closing(open_store(where, readonly=True)) as other:
            joined = _merged(target, other, campaign)
    except MismatchError as problem:
        raise MismatchError(f"{where}: {problem}") from None
    return [{"store": where, **asdict(source)} for source in joined]


def _merge_tallies(target: Store, data: bytes, campaign: str) -> dict[str, object]:
    """Merge what `murmur tally --key` or a collector wrote."""
    told = CampaignTallies.from_bytes(data)
    name, digest = told.campaign.name, told.campaign.digest
    if campaign not in ("", name):
        raise MismatchError(f"these are tallies of {name}")
    versions = [v for v, own in target.versions(name).items() if own == digest]
    if not versions:
        raise MismatchError(
            f"these are tallies of {name}, digest {digest[:16]}, which this store does not have: "
            "serve the same campaign from it first"
        )
    asked = served(target, name, max(versions)).of_kind(SurveyCampaign)
    taken = merge_tallies(target, asked, told)
    return {"campaign": name, "news": taken.news, "known": taken.known, "own": taken.left_out}


def _merged(target: Store, other: Store, campaign: str) -> list[Joined]:
    names = [campaign] if campaign else other.campaigns()
    if not names:
        raise MismatchError("this store has no campaign")
    total = sum(
        other.report_count(other.key_of(digest) or 0)
        for name in names
        for digest in other.digests(name)
    )
    with progress_bar() as bar:
        task = bar.add_task("merging", total=total)
        return [
            MERGES[served(other, name).campaign.kind](
                target, other, name, lambda n: bar.advance(task, n)
            )
            for name in names
        ]


def _collectors(n: object) -> str:
    """Return whose tallies these are.

    >>> _collectors(1), _collectors(2)
    ('the tallies of 1 collector were', 'the tallies of 2 collectors were')
    """
    return f"the tallies of {n:,} collector{'s' * (n != 1)} were"


def _print(row: dict[str, object]) -> None:
    if "tallies" in row:
        said = f"{_collectors(row['news'])} added"
        if row["known"]:
            said += f"; {_collectors(row['known'])} known already"
        say(f"{row['tallies']}, {row['campaign']}: {said}", markup=False)
    elif "key" in row:
        say(f"{row['store']}: key {row['key']}", markup=False)
    elif "removed" in row:
        say(f"{row['store']}, {row['campaign']}: {row['removed']:,} reports less", markup=False)
        if row["waits_for"]:
            say(STILL_IN_FIGURES.format(row["waits_for"]), markup=False)
    else:
        known = f", {row['known']:,} were here already" if row["known"] else ""
        more = f", tallies of {row['collectors']:,} more collectors" if row["collectors"] else ""
        closed = f", {row['rounds']:,} rounds closed" if row.get("rounds") else ""
        closed += f", {row['late']:,} came too late" if row.get("late") else ""
        closed += f", no room in the round for {row['full']:,}" if row.get("full") else ""
        text = f"{row['store']}, {row['campaign']}: {row['new']:,} new reports{known}{more}{closed}"
        say(text, markup=False)
