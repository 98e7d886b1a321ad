"""Files of reports for the tests of engines: of a campaign, of one mechanism, with bad ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from murmuration import Mechanism, seeded_rng
from murmuration.campaign.form import ReportForm
from murmuration.campaign.survey import SurveyCampaign
from murmuration.definition.document import publish
from murmuration.exact.arrays import Rows
from murmuration.testing.expected import crowd
from murmuration.wire.ids import Ids, new_ids
from murmuration.wire.parquet import batch, writer
from tests.support.accounts import campaign_of

LEVELS = """
name = "levels"
purpose = "Levels that people choose."
epsilon = 2
cohort = 200
[levels]
high = "1/3"
low = 1
[[attributes]]
name = "pet"
kind = "category"
labels = ["cat", "dog", "none"]
mechanism = "grr"
[[attributes]]
name = "age"
low = 0
high = 100
mechanism = "piecewise"
"""


def levels() -> SurveyCampaign:
    return campaign_of(LEVELS)


def of_levels(campaign: SurveyCampaign, n: int, seed: int = 1) -> tuple[Ids, Rows]:
    """Reports of people, half of them at each level."""
    numbers = np.random.default_rng(seed)
    columns = [numbers.integers(0, 3, n), numbers.uniform(-1, 1, n)]
    rng = seeded_rng(seed)
    rows = campaign.privatize(columns, rng, numbers.integers(0, 2, (n, 2)))
    return new_ids(n, rng), rows


def of_mechanism(mechanism: Mechanism, n: int, seed: int = 1) -> tuple[ReportForm, Ids, Rows]:
    """Reports by one law."""
    rng = seeded_rng(seed)
    rows = mechanism.to_rows(mechanism.privatize(crowd(mechanism, n, seed), rng))
    return ReportForm.of(mechanism), new_ids(n, rng), rows


def write(form: ReportForm, ids: Ids, rows: Rows, path: Path) -> Path:
    """Write a part, in the form that its ending says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.Table.from_batches([batch(form, ids, rows)])
    if path.suffix == ".parquet":
        with writer(path, table.schema) as file:
            file.write_table(table, row_group_size=1000)
    elif path.suffix == ".arrow":
        with pa.ipc.new_file(path, table.schema) as file:
            file.write_table(table, max_chunksize=700)
    else:
        names = table.column_names
        lines = [",".join(names)]
        lines += [
            ",".join(v.hex() if isinstance(v, bytes) else str(v) for v in line.values())
            for line in table.to_pylist()
        ]
        path.write_text("\n".join(lines) + "\n")
    return path


def folder(collection: SurveyCampaign, parts: list[tuple[Ids, Rows]], where: Path) -> Path:
    """Write parts, and the campaign as it was published, into a folder."""
    where.mkdir(parents=True, exist_ok=True)
    (where / "_campaign.json").write_bytes(publish(collection, 1))
    for number, (ids, rows) in enumerate(parts):
        write(collection.form, ids, rows, where / f"day={number}" / f"part-{number}.parquet")
    return where
