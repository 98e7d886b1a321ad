"""Raw reports of a training as Parquet: a folder with one file for each closed round.

The columns are those of `wire.parquet`, by the round's own laws: `entry_0_cell` is the role. Each
file's metadata hold the round's digest, its document as published, and that of the campaign, so
that a file can be read and counted by itself (`read`). A closed round never changes, so its file is
written once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from murmuration.collector.files.export import DOCUMENT, ROWS_PER_BATCH, Exported
from murmuration.collector.store import Store, rounds
from murmuration.collector.store.rounds import CLOSED, StoredRound
from murmuration.collector.training.rounds import Training, round_of
from murmuration.definition import document as campaign_document
from murmuration.errors import FormatError, ParameterError
from murmuration.exact.arrays import Rows
from murmuration.files import private_file
from murmuration.mechanisms.tally import Tally
from murmuration.training import round as round_document
from murmuration.training.campaign import TrainingCampaign
from murmuration.training.round import Round
from murmuration.wire import parquet
from murmuration.wire.ids import Ids

ROUND = b"murmuration.round"


def write(
    store: Store,
    served: Training,
    into: Path,
    advance: Callable[[int], None] | None = None,
) -> Exported:
    """Write the closed rounds that a folder does not have yet; only its owner reads them."""
    folder = into / served.campaign.name
    written = before = scrubbed = 0
    with store.snapshot():
        for kept in rounds.rounds(store, served.key):
            if kept.state != CLOSED:
                continue
            path = folder / f"round-{kept.number:03}.parquet"
            asked = round_of(served.campaign, kept)
            people = sum(
                tally.n for tally in store.tallies(kept.digest, asked.frame.cells).get(0, ())
            )
            if os.path.lexists(path):
                before += _require_same(path, kept)
                continue
            reports = store.report_count(kept.own, kept=True)
            scrubbed += people - reports
            if reports:
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                written += _write_round(store, served, kept, asked, path)
                if advance is not None:
                    advance(reports)
    if scrubbed and not written + before:
        raise ParameterError(
            f"this store has no reports of {served.campaign.name}: all {scrubbed:,} were scrubbed "
            "after counting (keep_reports = false)"
        )
    return Exported(written, scrubbed, before)


def _write_round(
    store: Store, served: Training, kept: StoredRound, asked: Round, path: Path
) -> int:
    form, written = asked.form, 0
    schema = parquet.schema(form, {DOCUMENT: served.document, ROUND: kept.document})
    with private_file(path) as file, parquet.writer(file, schema) as writer:
        for ids, rows, numbers in store.kept_reports(kept.own, form.row_bytes):
            writer.write_batch(parquet.batch(form, ids[numbers], rows, schema))
            written += len(numbers)
    return written


def _require_same(path: Path, kept: StoredRound) -> int:
    """Return how many reports a file has; refuse one of another round."""
    opened = _opened(path)
    if (opened.schema_arrow.metadata or {}).get(parquet.DIGEST) != kept.digest.encode():
        raise FormatError(f"{path} is of another training: export to another folder")
    return int(opened.metadata.num_rows)


@dataclass(frozen=True, eq=False)
class RoundReports:
    """The reports of one round, as they were sent."""

    campaign: TrainingCampaign
    round: Round
    path: Path

    def rows(self) -> Iterator[tuple[Ids, Rows]]:
        """Yield ids and rows of bytes."""
        for batch in _opened(self.path).iter_batches(ROWS_PER_BATCH):
            yield parquet.rows_of(self.round.form, batch)

    def tallies(self) -> tuple[Tally, ...]:
        """Return what they count to, for each role; refuse what no device can have sent."""
        total = self.round.frame.empty()
        for _, rows in self.rows():
            if not self.round.form.valid(rows).all():
                raise FormatError(f"{self.path} has reports that nobody can send")
            more = self.round.form.tallies(rows).get(0) or self.round.frame.empty()
            total = tuple(one + other for one, other in zip(total, more, strict=True))
        return total


def read(path: Path | str) -> RoundReports:
    """Open the file of a round; its digest and its laws are checked."""
    path = Path(path)
    metadata = _opened(path).schema_arrow.metadata or {}
    if DOCUMENT not in metadata or ROUND not in metadata:
        raise FormatError(f"{path} is not a round that `murmur export` wrote")
    campaign = campaign_document.read(metadata[DOCUMENT], TrainingCampaign)
    asked = round_document.read(metadata[ROUND], campaign)
    if asked.digest.encode() != metadata.get(parquet.DIGEST):
        raise FormatError(f"{path}: the digest is not that of the round")
    return RoundReports(campaign, asked, path)


def _opened(path: Path) -> Any:
    pa = parquet.arrow()
    try:
        return pa.parquet.ParquetFile(path)
    except pa.ArrowException as problem:
        raise FormatError(f"{path} is not a Parquet file: {problem}") from None
