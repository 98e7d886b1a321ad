"""Raw reports as Parquet, to be counted elsewhere: one row per report, two columns per entry.

    id                fixed_size_binary(16)
    period            its name, where the campaign has periods: string
    entry_0_cell      the number of the cell (the law) that this entry is by: uint16
    entry_0_report    that cell's own report, without padding: binary
    entry_1_cell ...

The file's metadata hold the campaign's digest and its published document, so that a file can be
read and counted by itself: `read` yields columns, one set for each cell, `rows` what was sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from murmuration.campaign import document as campaign_document
from murmuration.campaign.model import Campaign
from murmuration.campaign.periods import PERIOD_BYTES
from murmuration.collector.aside import aside
from murmuration.collector.publish import Served
from murmuration.collector.store import Store
from murmuration.errors import FormatError, ParameterError
from murmuration.exact.arrays import Ints, Reports, Rows
from murmuration.mechanisms.base import Mechanism
from murmuration.mechanisms.packing import integer_rows
from murmuration.results.table import Columns, Table
from murmuration.wire.ids import ID_BYTES, Ids

DIGEST, DOCUMENT = b"murmuration.digest", b"murmuration.campaign"
ROWS_PER_BATCH = 1 << 16


@dataclass(frozen=True)
class Exported:
    """How many reports were written, and how many are known by their id only."""

    written: int
    scrubbed: int


def arrow() -> Any:
    """Return pyarrow with its Parquet part, or say how to install it."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise ParameterError("Parquet needs: pip install 'murmuration[arrow]'") from None
    return pyarrow


def write(
    store: Store, served: Served, path: Path, advance: Callable[[int], None] | None = None
) -> Exported:
    """Write all reports of a campaign, chunk by chunk; the file is there when it is whole.

    Only its owner reads it.
    """
    pa, campaign = arrow(), served.campaign
    schema = _schema(pa, served)
    written = scrubbed = 0
    with aside(path) as file:
        with pa.parquet.ParquetWriter(file, schema, compression="zstd") as writer:
            for ids, rows, without in _kept(store, served):
                if len(ids):
                    writer.write_batch(_batch(pa, schema, campaign, ids, rows))
                written, scrubbed = written + len(ids), scrubbed + without
                if advance is not None:
                    advance(len(ids) + without)
        if scrubbed and not written:
            raise ParameterError(
                f"{campaign.name} keeps no reports: all {scrubbed:,} were scrubbed after counting "
                "(keep_reports = false). `murmur estimate` reads what they add up to."
            )
    return Exported(written, scrubbed)


def _kept(store: Store, served: Served) -> Iterator[tuple[Ids, Rows, int]]:
    """Yield ids and rows as of one moment, and how many rows were scrubbed."""
    with store.snapshot():
        for ids, rows, kept in store.kept_reports(served.key, served.campaign.row_bytes):
            yield ids[kept], rows, len(ids) - len(kept)


def _schema(pa: Any, served: Served) -> Any:
    fields = [pa.field("id", pa.binary(ID_BYTES), nullable=False)]
    if served.campaign.every is not None:
        fields.append(pa.field("period", pa.string(), nullable=False))
    for entry in range(len(served.campaign.frame.widths)):
        fields.append(pa.field(f"entry_{entry}_cell", pa.uint16(), nullable=False))
        fields.append(pa.field(f"entry_{entry}_report", pa.binary(), nullable=False))
    metadata = {DIGEST: served.campaign.digest.encode(), DOCUMENT: served.document}
    return pa.schema(fields, metadata)


def _sizes(campaign: Campaign) -> Ints:
    return campaign.frame.sizes


def _batch(pa: Any, schema: Any, campaign: Campaign, ids: Ids, rows: Rows) -> Any:
    """Return reports as columns; each entry without the zeros after it."""
    flat = pa.py_buffer(np.ascontiguousarray(ids).tobytes())
    columns = [pa.Array.from_buffers(pa.binary(ID_BYTES), len(ids), [None, flat])]
    sizes = _sizes(campaign)
    if campaign.every is not None:
        columns.append(pa.array(_names(campaign, rows)))
    for number, octets in campaign.entries(rows):
        lengths = sizes[number]
        ends = np.zeros(len(ids) + 1, dtype="<i4")
        ends[1:] = np.cumsum(lengths)
        inside = np.arange(octets.shape[1]) < lengths[:, None]
        buffers = [None, pa.py_buffer(ends.tobytes()), pa.py_buffer(octets[inside].tobytes())]
        columns.append(pa.array(number.astype(np.uint16)))
        columns.append(pa.Array.from_buffers(pa.binary(), len(ids), buffers))
    return pa.record_batch(columns, schema=schema)


def _names(campaign: Campaign, rows: Rows) -> list[str]:
    periods, place = np.unique(campaign.periods_of(rows), return_inverse=True)
    names = [campaign.name_of(period) for period in periods.tolist()]
    return [names[which] for which in place.tolist()]


# --- reading -------------------------------------------------------------------------------------


def campaign_of(path: Path) -> Campaign:
    """Return the campaign whose reports a file holds; its digest and its laws are checked."""
    metadata = _opened(path).schema_arrow.metadata or {}
    if DOCUMENT not in metadata:
        raise FormatError(f"{path} was not written by `murmur export`")
    campaign = campaign_document.read(metadata[DOCUMENT])
    if campaign.digest.encode() != metadata.get(DIGEST):
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


def read(path: Path | str, campaign: Campaign | None = None) -> Iterator[CellReports]:
    """Yield the reports of each cell as columns, batch by batch.

    Refuses what no device can have sent.
    """
    campaign = campaign or campaign_of(Path(path))
    for ids, sent in rows(path, campaign):
        for numbers, octets in campaign.entries(sent):
            for cell in np.unique(numbers).tolist():
                yield _of_cell(campaign, cell, ids[numbers == cell], octets[numbers == cell])


def _of_cell(campaign: Campaign, cell: int, ids: Ids, octets: Rows) -> CellReports:
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


def rows(path: Path | str, campaign: Campaign | None = None) -> Iterator[tuple[Ids, Rows]]:
    """Yield ids and rows of bytes, as they were sent; `campaign.tally` counts them again."""
    path = Path(path)
    campaign = campaign or campaign_of(path)
    for batch in _opened(path).iter_batches(ROWS_PER_BATCH):
        ids = np.frombuffer(b"".join(batch.column("id").to_pylist()), dtype=np.uint8)
        parts = []
        try:
            if campaign.every is not None:
                parts.append(_heads(campaign, batch.column("period").to_pylist()))
            for entry, width in enumerate(campaign.frame.widths):
                numbers = np.asarray(batch.column(f"entry_{entry}_cell"), dtype=np.int64)
                texts = batch.column(f"entry_{entry}_report").to_pylist()
                parts.append(_entry(campaign, width, numbers, texts))
        except (KeyError, IndexError, ValueError, TypeError):
            raise FormatError(f"{path} does not hold reports of {campaign.name}") from None
        yield ids.reshape(-1, ID_BYTES), np.concatenate(parts, axis=1)


def _heads(campaign: Campaign, names: list[str]) -> Rows:
    """Return periods as bytes, as they stand before the entries."""
    numbers = {name: campaign.period_named(name) for name in set(names)}
    return integer_rows(np.array([numbers[name] for name in names], dtype=np.int64), PERIOD_BYTES)


def _entry(campaign: Campaign, width: int, numbers: Ints, texts: list[bytes]) -> Rows:
    """Return one entry of all reports as bytes of one length."""
    index, lengths = campaign.frame.index_bytes, _sizes(campaign)[numbers]
    if any(len(text) != length for text, length in zip(texts, lengths.tolist(), strict=True)):
        raise ValueError("a report has the length that its law says")
    part = np.zeros((len(numbers), width), dtype=np.uint8)
    part[:, 0] = numbers & 255
    if index == 2:
        part[:, 1] = numbers >> 8
    inside = np.arange(width - index) < lengths[:, None]
    part[:, index:][inside] = np.frombuffer(b"".join(texts), dtype=np.uint8)
    return part


def _opened(path: Path) -> Any:
    pa = arrow()
    try:
        return pa.parquet.ParquetFile(path)
    except pa.ArrowException as problem:
        raise FormatError(f"{path} is no Parquet file: {problem}") from None
