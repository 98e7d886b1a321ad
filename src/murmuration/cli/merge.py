"""`murmur merge`: stores of one campaign into one, each report counted exactly once."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict
from typing import Annotated

import typer

from murmuration.cli.options import Json
from murmuration.cli.output import emit_json, progress_bar, say
from murmuration.collector.merge import Joined
from murmuration.collector.merge import merge as merge_one
from murmuration.collector.store import Store, open_store
from murmuration.errors import MismatchError


def merge(
    into: Annotated[str, typer.Argument(help="The store that receives the reports.")],
    others: Annotated[list[str], typer.Argument(help="Stores to merge into it; left as they are.")],
    campaign: Annotated[str, typer.Option(help="Only this one; else all of them.")] = "",
    as_json: Json = False,
) -> None:
    """Merge the reports of other stores into the first, by id: merging again changes nothing."""
    rows = []
    with closing(open_store(into, create=False)) as target:
        for where in others:
            with closing(open_store(where, readonly=True)) as other:
                try:
                    joined = _merged(target, other, campaign)
                except MismatchError as problem:
                    raise MismatchError(f"{where}: {problem}") from None
            rows += [{"store": where, **asdict(one)} for one in joined]
            if not as_json:
                _print(where, joined)
    if as_json:
        emit_json(rows)


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
        return [merge_one(target, other, name, lambda n: bar.advance(task, n)) for name in names]


def _print(where: str, joined: list[Joined]) -> None:
    for one in joined:
        known = f", {one.known:,} were here already" if one.known else ""
        tallies = f", tallies of {one.collectors:,} more collectors" if one.collectors else ""
        say(f"{where}, {one.campaign}: {one.new:,} new reports{known}{tallies}", markup=False)
