"""Raw reports as one Parquet file, to be counted elsewhere: one row per report.

The columns are those of `wire.parquet`. The file's metadata hold the campaign's digest and its
published document, so that a file can be read and counted by itself: `read` yields columns, one set
for each cell, `rows` what was sent. `folder.py` writes a folder of such files instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from secrets import token_hex
from typing import Any

import numpy as np

from murmuration.campaign.stricter import Stricter
from murmuration.campaign.survey import SurveyCampaign
from murmuration.collector import publish
from murmuration.collector.files import folder
from murmuration.collector.merging.key_file import shared_key
from murmuration.collector.served import Served
from murmuration.collector.store import Store
from murmuration.definition import document as campaign_document
from murmuration.errors import FormatError, ParameterError
from murmuration.exact.arrays import Reports, Rows
from murmuration.files import private_file
from murmuration.mechanisms.base import Mechanism
from murmuration.results.table import Columns, Table
from murmuration.wire import parquet
from murmuration.wire.ids import ID_BYTES, Ids, in_order

DOCUMENT = b"murmuration.campaign"
ROWS_PER_BATCH = 1 << 16


@dataclass(frozen=True)
class Exported:
    """How many reports were written, and how many are known by their id only."""

    written: int
    scrubbed: int
    before: int = 0
    """Reports that the folder had already."""


def write(
    store: Store,
    served: Served[SurveyCampaign],
    path: Path,
    advance: Callable[[int], None] | None = None,
) -> Exported:
    """Write all reports of a campaign, chunk by chunk; the file is there when it is whole.

    Only its owner reads it.
    """
    campaign = served.campaign
    schema = parquet.schema(campaign.form, {DOCUMENT: served.document})
    written = scrubbed = 0
    with private_file(path) as file:
        with parquet.writer(file, schema) as writer:
            for ids, rows, without in _kept(store, served):
                if len(ids):
                    writer.write_batch(parquet.batch(campaign.form, ids, rows, schema))
                written, scrubbed = written + len(ids), scrubbed + without
                if advance is not None:
                    advance(len(ids) + without)
        if scrubbed and not written:
            raise _nothing_kept(campaign.name, scrubbed)
    return Exported(written, scrubbed)


def write_stricter(
    store: Store,
    served: Served[SurveyCampaign],
    path: Path,
    stricter: Stricter,
    advance: Callable[[int], None] | None = None,
) -> Exported:
    """Write all reports of a campaign after a conversion by which they tell less.

    They are in the order of their new ids, which says nothing of the order of the others: so all
    of them are in memory for a moment. The file is that of a campaign with laws of its own.
    """
    secret = shared_key(store)
    store.pin_merge_secret()
    done: list[tuple[Ids, Rows]] = []
    scrubbed = 0
    for ids, rows, without in _kept(store, served):
        done.append(stricter.reports(secret, ids, rows))
        scrubbed += without
        if advance is not None:
            advance(len(ids) + without)
    if not sum(len(ids) for ids, _ in done):
        if scrubbed:
            raise _nothing_kept(served.campaign.name, scrubbed)
        raise ParameterError(f"this store has no reports of {served.campaign.name}")
    ids, rows = (np.concatenate(part) for part in zip(*done, strict=True))
    order, _ = in_order(ids)
    document = campaign_document.publish(stricter.converted, served.version)
    form = stricter.converted.form
    schema = parquet.schema(form, {DOCUMENT: document})
    with private_file(path) as file, parquet.writer(file, schema) as writer:
        for part in np.array_split(order, max(1, len(order) // ROWS_PER_BATCH)):
            writer.write_batch(parquet.batch(form, ids[part], rows[part], schema))
    return Exported(len(ids), scrubbed)


def _nothing_kept(name: str, scrubbed: int) -> ParameterError:
    return ParameterError(
        f"this store has no reports of {name}: all {scrubbed:,} were scrubbed after counting "
        "(keep_reports = false), or went to the folder that its collector was given (--reports). "
        "`murmur estimate` reads what they add up to."
    )


def _kept(store: Store, served: Served[SurveyCampaign]) -> Iterator[tuple[Ids, Rows, int]]:
    """Yield ids and rows as of one moment, and how many rows were scrubbed."""
    with store.snapshot():
        for ids, rows, kept in store.kept_reports(served.key, served.campaign.form.row_bytes):
            yield ids[kept], rows, len(ids) - len(kept)


# --- a folder ------------------------------------------------------------------------------------


def write_folder(
    store: Store,
    name: str,
    into: Path,
    advance: Callable[[int], None] | None = None,
    day: date | None = None,
) -> Exported:
    """Write what a folder does not have yet of a campaign's reports, to all its questions so far.

    What the store has now is closed as a part under a name of its own (`Store.close_part`); which
    parts are in the folder is read off its names. So each report is written once, whatever is
    killed in the middle, and while a collector runs. `day` is that of the export: a store does not
    know on which day a report came.
    """
    day = day or datetime.now(UTC).date()
    written = scrubbed = before = 0
    for served in _versions(store, name):
        kept, without = _waiting(store, served)
        scrubbed += without
        if not kept:
            continue
        place = folder.described(into, served.campaign, served.document)
        with folder.alone(place):
            store.close_part(served.key, token_hex(8))
            for part, n in sorted(store.parts(served.key).items()):
                if place.parts().keys() >= set(folder.names(part, n)):
                    before += n
                    continue
                done = folder.write(place, day, part, _rows_of(store, served, part), advance)
                written, before = written + done, before + n - done
    if scrubbed and not written + before:
        raise _nothing_kept(name, scrubbed)
    return Exported(written, scrubbed, before)


def _versions(store: Store, name: str) -> list[Served[SurveyCampaign]]:
    """Return the newest version of each digest of a campaign."""
    newest = {digest: version for version, digest in store.versions(name).items()}
    return [
        publish.served(store, name, version).of_kind(SurveyCampaign)
        for version in sorted(newest.values())
    ]


def _waiting(store: Store, served: Served[SurveyCampaign]) -> tuple[int, int]:
    """Return how many reports are kept, and how many are known by their id only."""
    kept = store.report_count(served.key, kept=True)
    return kept, store.report_count(served.key) - kept


def _rows_of(store: Store, served: Served[SurveyCampaign], part: str) -> folder.Chunks:
    with store.snapshot():
        for ids, rows, _ in store.kept_reports(served.key, served.campaign.form.row_bytes, part):
            yield ids, rows


# --- reading -------------------------------------------------------------------------------------


def campaign_of(path: Path) -> SurveyCampaign:
    """Return the campaign whose reports a file holds; its digest and its laws are checked."""
    metadata = _opened(path).schema_arrow.metadata or {}
    if DOCUMENT not in metadata:
        raise FormatError(f"{path} was not written by `murmur export`")
    campaign = campaign_document.read(metadata[DOCUMENT], SurveyCampaign)
    if campaign.digest.encode() != metadata.get(parquet.DIGEST):
        raise FormatError(f"{path}: the digest is not that of the campaign")
    return campaign


@dataclass(frozen=True, eq=False)
class CellReports(Table):
    """Some reports by one cell's law, as columns."""

    attribute: str
    """What it asks; all names, if it asks several attributes at once."""
    level: str
    """The level that these people chose; "" where there are none to choose."""
    mechanism: Mechanism
    ids: Ids
    reports: Reports
    """As the mechanism has them: symbols in a flat array, or rows of bits or bytes."""

    def columns(self) -> Columns:
        """Return id (hexadecimal), attribute, level, mechanism and the report, one row each."""
        n = len(self.ids)
        text = np.ascontiguousarray(self.ids).tobytes().hex()
        width = 2 * ID_BYTES
        return {
            "id": [text[start : start + width] for start in range(0, width * n, width)],
            "attribute": [self.attribute] * n,
            "level": [self.level] * n,
            "mechanism": [self.mechanism.name] * n,
            "symbol" if self.reports.ndim == 1 else "report": self.reports.tolist(),
        }

    def __repr__(self) -> str:
        at = f" at {self.level}" if self.level else ""
        return f"CellReports({self.attribute}{at}, {self.mechanism.name}, {len(self.ids):,})"


def read(path: Path | str, campaign: SurveyCampaign | None = None) -> Iterator[CellReports]:
    """Yield the reports of each cell as columns, batch by batch.

    Refuses what no device can have sent.
    """
    campaign = campaign or campaign_of(Path(path))
    for ids, sent in rows(path, campaign):
        for numbers, octets in campaign.form.entries(sent):
            for cell in np.unique(numbers).tolist():
                yield _of_cell(campaign, cell, ids[numbers == cell], octets[numbers == cell])


def _of_cell(campaign: SurveyCampaign, cell: int, ids: Ids, octets: Rows) -> CellReports:
    group = int(campaign.frame.group_of[cell])
    law, place = campaign.frame.cells[cell], cell - campaign.frame.cells_of[group].start
    asked = campaign.strategy.grouped(len(campaign.questions))[group]
    return CellReports(
        attribute=", ".join(campaign.questions[number].name for number in asked),
        level=campaign.levels.names[place] if campaign.levels else "",
        mechanism=law,
        ids=ids,
        reports=law.checked_reports(law.from_rows(octets[:, : law.report_bytes])),
    )


def rows(path: Path | str, campaign: SurveyCampaign | None = None) -> Iterator[tuple[Ids, Rows]]:
    """Yield ids and rows of bytes, as they were sent; `campaign.tally` counts them again."""
    path = Path(path)
    campaign = campaign or campaign_of(path)
    for batch in _opened(path).iter_batches(ROWS_PER_BATCH):
        yield parquet.rows_of(campaign.form, batch)


def _opened(path: Path) -> Any:
    pa = parquet.arrow()
    try:
        return pa.parquet.ParquetFile(path)
    except pa.ArrowException as problem:
        raise FormatError(f"{path} is not a Parquet file: {problem}") from None
