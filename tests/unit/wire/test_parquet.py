"""Reports as columns: the same bytes there and back, whatever a campaign asks."""

import numpy as np
import pytest

from murmuration.errors import FormatError
from murmuration.exact.arrays import Rows
from murmuration.wire import parquet
from murmuration.wire.ids import Ids
from tests.support.accounts import campaign_of, made
from tests.support.collectors import PETS, one

pa = parquet.arrow()

SPLIT = PETS.replace('"sample"', '"split"').replace("sample = 2", "")
WIDE = one("wide").replace("grr", "oue").replace('["android', f"{[str(n) for n in range(90)]} #")
MANY = PETS[: PETS.index("[[")] + "".join(
    f'[[attributes]]\nname = "n{i}"\nlow = 0\nhigh = 1\nmechanism = "duchi"\n' for i in range(300)
)
CAMPAIGNS = {"one": one("one"), "sample": PETS, "split": SPLIT, "wide": WIDE, "many": MANY}
ASKED = pytest.mark.parametrize("text", CAMPAIGNS.values(), ids=CAMPAIGNS)


def some(text: str, n: int = 200) -> tuple[parquet.SurveyCampaign, Ids, Rows]:
    campaign = campaign_of(text)
    return (campaign, *made(campaign, n, 3))


@ASKED
def test_rows_come_back_as_they_were(text: str) -> None:
    campaign, ids, rows = some(text)
    batch = parquet.batch(campaign.form, ids, rows)
    assert batch.schema.names == [
        "id",
        *(column.name for column in parquet.layout(campaign.form)),
    ]
    assert batch.schema.metadata == {b"murmuration.digest": campaign.digest.encode()}
    for table, where in [
        (batch, slice(None)),
        (batch.slice(7, 50), slice(7, 57)),
        (batch.slice(3, 0), slice(3, 3)),
        (pa.Table.from_batches([batch.slice(0, 9), batch.slice(9)]), slice(None)),
        (pa.Table.from_pandas(batch.to_pandas()), slice(None)),
    ]:
        again, sent = parquet.rows_of(campaign.form, table)
        assert (again == ids[where]).all()
        assert (sent == rows[where]).all()


@ASKED
def test_a_column_says_what_the_entry_says(text: str) -> None:
    campaign, ids, rows = some(text)
    batch = parquet.batch(campaign.form, ids, rows)
    for entry, (numbers, octets) in enumerate(campaign.frame.entries(rows)):
        assert batch.column(f"entry_{entry}_cell").to_pylist() == numbers.tolist()
        sent = batch.column(f"entry_{entry}_report")
        plain = [bytes(row) for row in octets]
        if octets.shape[1] <= 4:
            assert sent.to_pylist() == [int.from_bytes(row, "little") for row in plain]
        else:
            assert sent.to_pylist() == plain
    assert not any(batch.column(name).null_count for name in batch.schema.names)
    assert not any(field.nullable for field in batch.schema)


def test_types_are_the_smallest_that_hold_a_report() -> None:
    kinds = {
        name: [c.kind for c in parquet.layout(some(t)[0].form)] for name, t in CAMPAIGNS.items()
    }
    assert kinds["one"] == ["uint16", "uint8"]
    assert kinds["wide"] == ["uint16", "fixed_size_binary[12]"]
    assert kinds["sample"] == ["uint16", "uint16"] * 2
    assert kinds["split"] == ["uint16", "uint8", "uint16", "uint8"] + ["uint16"] * 2 + [
        *("uint16", "uint8")
    ]


def test_cells_are_named() -> None:
    found = parquet.cells(some(PETS)[0])
    assert [cell["attribute"] for cell in found] == ["pet", "age", "work", "sleep"]
    assert [cell["report"] for cell in found] == ["symbol", "symbol", "bytes", "symbol"]
    assert found[2] == {
        **{"cell": 2, "attribute": "work", "level": "", "mechanism": "oue"},
        **{"report": "bytes", "report_bytes": 2, "counters": 12},
    }


def test_other_types_that_hold_the_same_values_will_do() -> None:
    campaign, ids, rows = some(PETS)
    batch = parquet.batch(campaign.form, ids, rows)
    wide = [pa.field("id", pa.large_binary())]
    wide += [pa.field(name, pa.int64()) for name in batch.schema.names[1:]]
    again, sent = parquet.rows_of(
        campaign.form, pa.Table.from_batches([batch]).cast(pa.schema(wide))
    )
    assert (again == ids).all()
    assert (sent == rows).all()


@pytest.mark.parametrize(
    ("name", "values", "why"),
    [
        ("entry_0_cell", [256, 0], "column entry_0_cell has values that no"),
        ("entry_0_cell", [-1, 0], "column entry_0_cell has values that no"),
        ("entry_0_report", [1 << 16, 0], "column entry_0_report has values that no"),
        ("entry_0_report", [None, 0], "1 rows have nothing in column entry_0_report"),
        ("entry_0_report", ["secret", "y"], "column entry_0_report has whole numbers; got string$"),
        ("id", [b"short", b"0" * 16], "column id has values that no report has$"),
        ("id", None, "there is no column id"),
        ("entry_1_report", None, "there is no column entry_1_report"),
    ],
)
def test_what_no_row_can_be_is_refused(name: str, values: list[object] | None, why: str) -> None:
    campaign, ids, rows = some(PETS, 2)
    table = pa.Table.from_batches([parquet.batch(campaign.form, ids, rows)])
    place = table.schema.names.index(name)
    table = table.remove_column(place)
    if values is not None:
        table = table.add_column(place, name, pa.array(values))
    with pytest.raises(FormatError, match=f"not reports of pets: {why}"):
        parquet.rows_of(campaign.form, table)


def test_random_bytes_pass_unchanged() -> None:
    campaign = some(WIDE)[0]
    rows = np.random.default_rng(5).integers(0, 256, (300, campaign.form.row_bytes), dtype=np.uint8)
    ids = np.random.default_rng(6).integers(0, 256, (300, 16), dtype=np.uint8)
    again, sent = parquet.rows_of(campaign.form, parquet.batch(campaign.form, ids, rows))
    assert (again == ids).all()
    assert (sent == rows).all()
