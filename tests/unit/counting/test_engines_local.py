"""Files of reports on this machine: the same integers, each id once, bounded, resumed."""

from __future__ import annotations

import json
import os
import stat
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from murmuration import open as opened
from murmuration.campaign.survey import SurveyCampaign
from murmuration.collector.commit import Batch, commit
from murmuration.collector.files.export import DOCUMENT
from murmuration.collector.merging.known import total
from murmuration.collector.publish import serve
from murmuration.collector.store import open_store
from murmuration.counting import kernel
from murmuration.counting.container import CampaignTallies
from murmuration.counting.engines import local, parts, spill
from murmuration.counting.engines.local import How
from murmuration.counting.engines.spill import Spill
from murmuration.counting.engines.state import State
from murmuration.counting.sums import Sums
from murmuration.definition.document import publish
from murmuration.definition.load import load
from murmuration.errors import FormatError, ParameterError
from murmuration.exact.arrays import Rows
from murmuration.exact.randomness import seeded_rng
from murmuration.wire import parquet
from murmuration.wire.ids import Ids, new_ids
from murmuration.wire.parquet import batch
from murmuration.wire.report import Incoming, Upload
from tests.support.accounts import campaign_of, made
from tests.support.cases import CASES, Case
from tests.support.collectors import PETS
from tests.support.command import murmur
from tests.support.reported import folder, levels, of_levels, of_mechanism, write
from tests.support.vectors import VECTORS

LEAST = local.LEAST_MEMORY


@pytest.fixture(scope="module")
def pets() -> SurveyCampaign:
    return campaign_of(PETS)


def some(campaign: SurveyCampaign, n: int, seed: int = 1) -> tuple[Ids, Rows]:
    """Reports of n people; ids are those of the seed, too."""
    return new_ids(n, seeded_rng(seed)), made(campaign, n, seed)[1]


def counted(campaign: SurveyCampaign, place: Path, **how: Any) -> Sums:
    return local.tally(campaign.form, parts.find([place]), how=How(**how)).sums


# --- the same integers ---------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_mechanism_counts_as_it_does_itself(case: Case, tmp_path: Path) -> None:
    mechanism = case.all()[-1]
    alone, ids, rows = of_mechanism(mechanism, 300)
    write(alone, ids[:200], rows[:200], tmp_path / "a.parquet")
    write(alone, ids[150:], rows[150:], tmp_path / "b.arrow")
    sums = local.tally(alone, parts.find([tmp_path])).sums
    (tally,) = sums.tallies(alone.frame)[0]
    assert tally.to_bytes() == mechanism.tally(mechanism.from_rows(rows)).to_bytes()
    assert (sums.read, sums.counted, sums.duplicates) == (350, 300, 50)


@pytest.mark.parametrize("ending", ["parquet", "arrow", "csv"])
@pytest.mark.parametrize("dedup", [True, False])
def test_a_campaign_in_every_form(
    pets: SurveyCampaign, tmp_path: Path, ending: str, dedup: bool
) -> None:
    ids, rows = some(pets, 3000)
    for part in range(3):
        own = slice(1000 * part, 1000 * part + 1000)
        write(pets.form, ids[own], rows[own], tmp_path / f"{part}.{ending}")
    sums = counted(pets, tmp_path, dedup=dedup, threads=2)
    assert sums.tallies(pets.frame)[0] == pets.tally(rows)


def test_each_group_of_rows_is_in_one_unit(
    pets: SurveyCampaign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids, rows = some(pets, 1000)
    table = pa.Table.from_batches([batch(pets.form, ids, rows)])
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=100)
    monkeypatch.setattr(parts, "UNIT_ROWS", 300)
    (part,) = parts.find([tmp_path])
    assert [unit.reports for unit in parts.units(part)] == [300, 300, 300, 100]
    assert counted(pets, tmp_path, threads=2).tallies(pets.frame)[0] == pets.tally(rows)


def test_a_large_group_of_rows_is_not_taken_for_damage(
    pets: SurveyCampaign, tmp_path: Path
) -> None:
    """Ids alone are more than the megabyte that any group may have."""
    ids, rows = some(pets, 80_000)
    table = pa.Table.from_batches([batch(pets.form, ids, rows)])
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=80_000)
    assert counted(pets, tmp_path).counted == 80_000


def test_a_bar_is_told_how_far_it_is(pets: SurveyCampaign, tmp_path: Path) -> None:
    totals, done = {}, dict.fromkeys(("counting", "finding duplicates"), 0)

    class Bar:
        def add_task(self, description: str, *, total: float | None) -> str:
            totals[description] = total
            return description

        def advance(self, task_id: str, advance: int) -> None:
            done[task_id] += advance

    for name in "ab":
        write(pets.form, *some(pets, 100), tmp_path / f"{name}.parquet")
    assert counted(pets, tmp_path, bar=Bar()).duplicates == 100
    assert done == {"counting": 200, "finding duplicates": totals["finding duplicates"]}


def test_the_threads_share_the_memory(
    pets: SurveyCampaign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    shares = spill.shares
    monkeypatch.setattr(
        spill, "shares", lambda n, memory: asked.append(memory) or shares(n, memory)
    )
    for name in "ab":
        write(pets.form, *some(pets, 100), tmp_path / f"{name}.parquet")
    assert counted(pets, tmp_path, threads=4, memory=4 * LEAST).duplicates == 100
    assert asked == [LEAST]


def test_levels(tmp_path: Path) -> None:
    campaign = levels()
    ids, rows = of_levels(campaign, 2000)
    write(campaign.form, ids, rows, tmp_path / "a.parquet")
    assert counted(campaign, tmp_path).tallies(campaign.frame)[0] == campaign.tally(rows)


def test_other_types_with_the_same_values_will_do(pets: SurveyCampaign) -> None:
    ids, rows = some(pets, 500)
    one = batch(pets.form, ids, rows)
    wide = pa.table(
        {
            name: column.cast(pa.int64() if pa.types.is_integer(column.type) else pa.binary())
            for name, column in zip(one.schema.names, one.columns, strict=True)
        }
    ).to_batches()[0]
    sums, kept = kernel.count(pets.form, wide, ids=True)
    assert kept is not None
    assert (kept.ids == ids).all()
    assert (kept.rows == rows).all()
    assert sums.tallies(pets.frame)[0] == pets.tally(rows)


@pytest.mark.parametrize("name", ["plain", "pets"])
def test_every_cell_number_and_every_spoiled_byte_is_judged_alike(
    name: str, pets: SurveyCampaign
) -> None:
    """The fast path takes what the campaign takes: next to both ends of what entries can name."""
    pets = pets if name == "pets" else load(VECTORS / "reports" / "plain.toml")
    ids, rows = some(pets, 600)
    cells = len(pets.frame.cells)
    for place in range(0, 600, 2):  # every other row: a number from 0 to two beyond, odd bytes
        rows[place, 0] = place // 2 % (cells + 3)
        rows[place, 1 + place // 2 % (pets.form.row_bytes - 1)] ^= place % 5
    good = pets.form.valid(rows)
    assert 0 < good.sum() < 600
    sums, kept = kernel.count(pets.form, batch(pets.form, ids, rows), ids=True)
    assert kept is not None
    assert (kept.rows == rows[good]).all()
    assert sums.refused["bad-symbol"] == (~good).sum()
    assert sums.tallies(pets.frame)[0] == pets.tally(rows[good])
    for number in range(cells + 2):  # all of one number: the bound itself
        alike = rows[good].copy()
        alike[:, 0] = number
        sums, _ = kernel.count(pets.form, batch(pets.form, ids[good], alike), ids=True)
        assert sums.refused.get("bad-symbol", 0) == (~pets.form.valid(alike)).sum()


# --- each id once --------------------------------------------------------------------------------


def once(campaign: SurveyCampaign, ids: Ids, rows: Rows) -> Any:
    """What must come out, said in the slowest way: of each id the smallest bytes."""
    smallest: dict[bytes, bytes] = {}
    for each, row in zip(ids, rows, strict=True):
        name, found = each.tobytes(), row.tobytes()
        smallest[name] = min(found, smallest.get(name, found))
    kept = np.frombuffer(b"".join(smallest.values()), np.uint8)
    return campaign.tally(kept.reshape(-1, campaign.form.row_bytes))


def test_of_one_id_the_smallest_bytes_count(pets: SurveyCampaign, tmp_path: Path) -> None:
    ids, rows = some(pets, 4000)
    again = np.random.default_rng(3).integers(0, 300, 4000)
    ids = ids[again]
    ids[:900, 8:] = 0  # first halves that are equal where the others are not
    ids[::7, :8] = ids[0, :8]
    for part in range(4):
        write(pets.form, ids[part::4], rows[part::4], tmp_path / f"{part}.parquet")
    sums = counted(pets, tmp_path, memory=LEAST, threads=2)
    assert sums.tallies(pets.frame)[0] == once(pets, ids, rows)
    assert sums.counted == len({each.tobytes() for each in ids})
    assert sums.counted + sums.duplicates == sums.read == 4000


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.binary(min_size=9, max_size=9))))
def test_what_does_not_count(reports: list[tuple[int, int, bytes]]) -> None:
    high = np.array([one[0] for one in reports], np.uint64)
    low = np.array([one[1] for one in reports], np.uint64)
    rows = np.frombuffer(b"".join(one[2] for one in reports), np.uint8).reshape(-1, 9)
    surplus = set(spill.surplus_of(high, low, rows).tolist())
    left = [one for place, one in enumerate(reports) if place not in surplus]
    assert sorted(left) == sorted(min(o for o in reports if o[:2] == key) for key in {
        one[:2] for one in reports
    })  # fmt: skip


def test_a_file_that_is_read_in_short_pieces_gives_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "block").write_bytes(bytes(range(100)))
    read = os.pread
    monkeypatch.setattr(os, "pread", lambda file, size, at: read(file, min(size, 7), at))
    with (tmp_path / "block").open("rb") as file:
        assert spill._exactly(file, 10, 40) == bytes(range(10, 50))
        with pytest.raises(FormatError, match="shorter than its index"):
            spill._exactly(file, 90, 11)


def test_partitions_are_found_again_in_every_share() -> None:
    high, low = spill.halves(new_ids(5000, seeded_rng(2)))
    where = spill.partition(high, low, (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F))
    assert where.max() < spill.PARTITIONS
    assert len(np.unique(where)) > 900  # 5,000 ids into 1,024: about 8 stay empty
    for reports in (1, 10**6, 10**9, 10**11):
        ranges = spill.shares(reports, 1 << 26)
        assert [start for start, _ in ranges[1:]] == [end for _, end in ranges[:-1]]
        assert (ranges[0][0], ranges[-1][1]) == (0, spill.PARTITIONS)


# --- what cannot be counted ----------------------------------------------------------------------


def test_bad_rows_are_counted_by_reason(pets: SurveyCampaign, tmp_path: Path) -> None:
    ids, rows = some(pets, 100)
    bad = rows.copy()
    bad[3, 0] = 200  # no such cell
    bad[5, 1:] = 255  # outside every alphabet
    write(pets.form, ids, bad, tmp_path / "a.parquet")
    sums = counted(pets, tmp_path)
    assert sums.to_json()["refused"] == {"bad-symbol": 2}
    assert sums.tallies(pets.frame)[0] == pets.tally(rows[pets.form.valid(bad)])


def test_a_part_of_another_campaign_is_refused_and_said(
    pets: SurveyCampaign, tmp_path: Path
) -> None:
    ids, rows = some(pets, 100)
    write(pets.form, ids, rows, tmp_path / "a.parquet")
    other = levels()
    write(other.form, *of_levels(other, 50), tmp_path / "b.parquet")
    sums = counted(pets, tmp_path)
    assert sums.to_json() == {
        "read": 150,
        "counted": 100,
        "duplicates": 0,
        "refused": {"unknown-digest": 50},
    }


def test_lines_of_csv_that_are_no_reports(pets: SurveyCampaign, tmp_path: Path) -> None:
    ids, rows = some(pets, 50)
    path = write(pets.form, ids, rows, tmp_path / "a.csv")
    lines = path.read_text().splitlines()
    lines[3] = lines[3].replace(lines[3][:4], "xyz ", 1)
    lines[5] += ",9"
    lines[7] = lines[7].rsplit(",", 1)[0] + ",-1"
    path.write_text("\n".join(lines) + "\n")
    refused = counted(pets, tmp_path).to_json()["refused"]
    assert refused == {"bad-id": 1, "malformed": 1, "bad-entries": 1}


def hostile(pets: SurveyCampaign) -> dict[str, tuple[Any, str]]:
    """Tables that are none of ours, and what is said of them."""
    ids, rows = some(pets, 10)
    good = pa.table(batch(pets.form, ids, rows).to_pydict())
    ours = pa.Table.from_batches([batch(pets.form, ids, rows)])
    names = ours.column_names

    def changed(name: str, column: Any) -> Any:
        return ours.set_column(names.index(name), name, column)

    none = pa.array([None, *range(9)], pa.uint16())
    return {
        "nulls": (changed("entry_0_cell", none), "1 rows have nothing in column entry_0_cell"),
        "floats": (changed("entry_0_cell", pa.array([0.0] * 10)), "whole numbers; got double"),
        "texts": (changed("id", pa.array(["x" * 16] * 10)), "column id has bytes; got string"),
        "short": (changed("id", pa.array([b"x" * 8] * 10, pa.binary(8))), "16 bytes a row"),
        "missing": (ours.drop_columns(["entry_1_report"]), "no column entry_1_report"),
        "lists": (changed("id", pa.array([[1]] * 10)), "column id has bytes; got list"),
        "twice": (good.append_column("id", good.column("id")), "more than one"),
    }


@pytest.mark.parametrize("kind", ["nulls", "floats", "texts", "short", "missing", "lists", "twice"])
def test_files_of_strangers_are_told_in_plain_words(
    pets: SurveyCampaign, tmp_path: Path, kind: str
) -> None:
    table, said = hostile(pets)[kind]
    pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(FormatError, match=r"a\.parquet") as told:
        counted(pets, tmp_path)
    assert said in str(told.value)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("data", [b"", b"PAR1", b"PAR1" + bytes(1000) + b"PAR1", b"\xff" * 4096])
@pytest.mark.parametrize("ending", ["parquet", "arrow", "csv"])
def test_what_is_no_such_file(
    pets: SurveyCampaign, tmp_path: Path, data: bytes, ending: str
) -> None:
    (tmp_path / f"a.{ending}").write_bytes(data)
    with pytest.raises(FormatError, match=rf"a\.{ending}"):
        counted(pets, tmp_path)


def test_a_column_that_would_fill_memory_is_not_read(pets: SurveyCampaign, tmp_path: Path) -> None:
    ids, rows = some(pets, 10)
    table = pa.Table.from_batches([batch(pets.form, ids, rows)])
    long = pa.array([bytes(1 << 20)] * 10, pa.binary())
    table = table.set_column(table.column_names.index("entry_0_report"), "entry_0_report", long)
    pq.write_table(table, tmp_path / "a.parquet", compression="zstd", use_dictionary=False)
    assert (tmp_path / "a.parquet").stat().st_size < 1 << 17
    with pytest.raises(FormatError, match=r"10,\d+,\d+ bytes for 10 rows"):
        counted(pets, tmp_path)


# --- running again -------------------------------------------------------------------------------


def test_a_grown_folder_is_not_read_again(pets: SurveyCampaign, tmp_path: Path) -> None:
    ids, rows = some(pets, 3000)
    ids[2000:2100] = ids[:100]  # the new part repeats ids of the first
    state, reports = tmp_path / "state", tmp_path / "reports"
    for part in range(3):
        own = slice(1000 * part, 1000 * part + 1000)
        write(pets.form, ids[own], rows[own], reports / f"{part}.parquet")
        done = local.tally(pets.form, parts.find([reports]), state)
        assert done.read == (f"{part}.parquet",)
        scratch = local.tally(pets.form, parts.find([reports]))
        assert done.sums.to_json() == scratch.sums.to_json()
        assert done.sums.tallies(pets.frame) == scratch.sums.tallies(pets.frame)
    assert done.sums.duplicates == 100
    assert local.tally(pets.form, parts.find([reports]), state).read == ()


def test_parts_that_changed_or_went_are_noticed(pets: SurveyCampaign, tmp_path: Path) -> None:
    ids, rows = some(pets, 3000)
    state, reports = tmp_path / "state", tmp_path / "reports"
    for part in range(3):
        own = slice(1000 * part, 1000 * part + 1000)
        write(pets.form, ids[own], rows[own], reports / f"{part}.parquet")
    local.tally(pets.form, parts.find([reports]), state)
    (reports / "0.parquet").unlink()
    write(pets.form, ids[500:1500], rows[500:1500], reports / "1.parquet")
    done = local.tally(pets.form, parts.find([reports]), state)
    assert (done.read, done.gone) == (("1.parquet",), ("0.parquet",))
    assert done.sums.tallies(pets.frame)[0] == pets.tally(
        np.concatenate([rows[500:1500], rows[2000:]])
    )
    left = [path for path in state.iterdir() if path.suffix == ".spill"]
    assert len(left) == 2  # of what went nothing stays


def test_a_part_with_the_same_size_and_time_but_other_ends(
    pets: SurveyCampaign, tmp_path: Path
) -> None:
    ids, rows = some(pets, 200)
    state, path = tmp_path / "state", tmp_path / "a.csv"
    write(pets.form, ids, rows, path)
    local.tally(pets.form, parts.find([path]), state)
    before, lines = path.stat(), path.read_text().splitlines()
    path.write_text("\n".join([lines[0], *lines[:0:-1]]) + "\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size
    assert local.tally(pets.form, parts.find([path]), state).read == ("a.csv",)


def test_a_state_deletes_only_its_own(pets: SurveyCampaign, tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    (state / "thesis.txt").write_text("mine")
    write(pets.form, *some(pets, 100), tmp_path / "a.parquet")
    found = parts.find([tmp_path / "a.parquet"])
    local.tally(pets.form, found, state)
    local.tally(pets.form, found, state, How(fresh=True))
    assert (state / "thesis.txt").read_text() == "mine"
    head = json.loads((state / "state.json").read_text())
    head["parts"][0]["sums"] = "../a.parquet"
    (state / "state.json").write_text(json.dumps(head))
    with pytest.raises(ParameterError, match="outside its folder"):
        local.tally(pets.form, found, state)
    (state / "state.json").write_text("{")
    with pytest.raises(ParameterError, match="--fresh"):
        local.tally(pets.form, found, state)
    assert local.tally(pets.form, found, state, How(fresh=True)).sums.counted == 100


@pytest.mark.parametrize("ending", ["npz", "spill", "npy"])
def test_a_state_that_is_damaged_is_an_error(
    pets: SurveyCampaign, tmp_path: Path, ending: str
) -> None:
    write(pets.form, *some(pets, 100), tmp_path / "a.parquet")
    found = parts.find([tmp_path / "a.parquet"])
    local.tally(pets.form, found, tmp_path / "state")
    (path,) = (tmp_path / "state").glob(f"*.{ending}")
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(FormatError, match=r"damaged|cannot be read|as long as"):
        local.tally(pets.form, found, tmp_path / "state")


@pytest.mark.parametrize("kind", ["high", "low", "rows"])
def test_a_state_with_a_spoilt_byte_is_an_error(
    pets: SurveyCampaign, tmp_path: Path, kind: str
) -> None:
    """Files that have all reports twice: a spoilt id would count as one more person."""
    for name in "ab":
        write(pets.form, *some(pets, 100), tmp_path / "r" / f"{name}.parquet")
    found, state = parts.find([tmp_path / "r"]), tmp_path / "state"
    assert local.tally(pets.form, found, state).sums.counted == 100
    path = next(state.glob("*.spill"))
    data = bytearray(path.read_bytes())
    data[{"high": 0, "low": 800, "rows": 1600}[kind]] ^= 1
    path.write_bytes(data)
    with pytest.raises(FormatError, match=r"\.spill is damaged: --fresh"):
        local.tally(pets.form, found, state)
    assert local.tally(pets.form, found, state, How(fresh=True)).sums.counted == 100


def test_an_index_or_a_list_of_parts_that_was_changed_is_an_error(
    pets: SurveyCampaign, tmp_path: Path
) -> None:
    for name in "ab":
        write(pets.form, *some(pets, 100), tmp_path / "r" / f"{name}.parquet")
    found, state = parts.find([tmp_path / "r"]), tmp_path / "state"
    local.tally(pets.form, found, state)
    path = next(state.glob("*.npy"))
    whole, index = path.read_bytes(), np.load(path)
    for place, more in ((0, 8), (500, 1), (500, -200)):
        other = index.copy()
        other[0, place] += more
        np.save(path, other)
        with pytest.raises(FormatError, match=r"damaged|shorter"):
            local.tally(pets.form, found, state)
    path.write_bytes(whole)
    listed = state / "state.json"
    head = json.loads(listed.read_text())
    listed.write_text(json.dumps({**head, "salt": [head["salt"][0] ^ 2, head["salt"][1]]}))
    with pytest.raises(ParameterError, match=r"state\.json is damaged: --fresh"):
        local.tally(pets.form, found, state)


def test_two_programs_do_not_count_with_one_state(pets: SurveyCampaign, tmp_path: Path) -> None:
    begin = partial(State.begin, tmp_path / "state", pets.form, dedup=True, fresh=False)
    with begin() as state, Spill(state.place("spill"), pets.form.row_bytes, state.salt) as file:
        with pytest.raises(ParameterError, match="another program is counting with"), begin():
            pass
        assert file.path.exists()
    with begin():
        assert not file.path.exists()


# --- which files ---------------------------------------------------------------------------------


def test_a_file_is_one_part_whatever_leads_to_it(
    pets: SurveyCampaign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for number, name in enumerate(("r/a", "r/b", "two/a")):
        write(pets.form, *some(pets, 100, number), tmp_path / f"{name}.parquet")
    (tmp_path / "link").symlink_to(tmp_path / "r")
    for places, names in (
        (["r", "r/a.parquet"], ["r/a.parquet", "r/b.parquet"]),
        (["r", tmp_path / "r", "link/b.parquet"], ["r/a.parquet", "r/b.parquet"]),
        (["r/a.parquet", "two/a.parquet"], ["r/a.parquet", "two/a.parquet"]),
    ):
        found = parts.find([Path(place) for place in places])
        assert [part.name for part in found] == names
        assert local.tally(pets.form, found, None, How(dedup=False)).sums.read == 200


def test_a_file_has_the_campaign_inside_it_not_that_of_a_folder_beside_it(
    pets: SurveyCampaign, tmp_path: Path
) -> None:
    ids, rows = some(pets, 300)
    alone, out = tmp_path / "alone.parquet", tmp_path / "t"
    kept = parquet.schema(pets.form, {DOCUMENT: publish(pets, 1)})
    with alone.open("wb") as file, parquet.writer(file, kept) as writer:
        writer.write_batch(parquet.batch(pets.form, ids, rows, kept))
    other = folder(levels(), [], tmp_path / "other")
    (tmp_path / "campaign.json").write_bytes((other / "_campaign.json").read_bytes())
    assert parts.campaign_of([alone]).digest == pets.digest
    assert parts.campaign_of([other]).digest == levels().digest
    bare = write(pets.form, ids, rows, tmp_path / "x" / "bare.parquet")
    assert parts.campaign_of([bare]).digest == levels().digest  # the nearest above
    problem = murmur("tally", bare, "-o", out, code=2).problem
    assert "none of 300 reports counts as one of levels (unknown-digest: 300)" in problem
    assert not out.exists()


# --- the command ---------------------------------------------------------------------------------


def test_tally_then_estimate(pets: SurveyCampaign, tmp_path: Path) -> None:
    ids, rows = some(pets, 4000)
    reports = folder(pets, [(ids[:2500], rows[:2500]), (ids[2000:], rows[2000:])], tmp_path / "r")
    out = tmp_path / "tally.bin"
    said = murmur("tally", reports, "-o", out).stdout
    assert "4,000 reports of pets counted" in said
    assert "500 have an id that counts already" in said
    again = json.loads(murmur("tally", reports, "-o", out, "--json").stdout)
    assert (again["counted"], again["duplicates"], again["parts_read"]) == (4000, 500, 0)
    first = out.read_bytes()
    murmur("tally", reports, "-o", out, "--no-state", "--memory", "16M", "--threads", "1")
    assert out.read_bytes() == first
    assert CampaignTallies.from_bytes(first).total() == pets.tally(rows)
    assert "dog" in murmur("estimate", out).stdout
    figures = opened(out).estimates()
    assert {figure.attribute for figure in figures} == {"pet", "age", "work", "sleep"}
    assert "no status" in murmur("status", out, code=2).problem
    for path in (reports, next(reports.rglob("*.parquet"))):
        said = murmur("estimate", path, code=2).problem
        assert f"{path} has reports, and no sums of them: first `murmur tally" in said


def test_only_the_owner_reads_what_a_tally_keeps(pets: SurveyCampaign, tmp_path: Path) -> None:
    """The state has all reports once more, and the tallies are sums that no cohort hides."""
    reports = folder(pets, [some(pets, 300)], tmp_path / "r")
    before = os.umask(0o022)
    try:
        for options in ((), ("--fresh",)):
            (tmp_path / "t.state").mkdir(0o755, exist_ok=True)
            murmur("tally", reports, "-o", tmp_path / "t", *options)
    finally:
        os.umask(before)
    made = [tmp_path / "t", *(tmp_path / "t.state").iterdir()]
    assert {path.suffix for path in made} == {"", ".json", ".npz", ".spill", ".npy"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in made} == {0o600}
    assert stat.S_IMODE((tmp_path / "t.state").stat().st_mode) == 0o700


def test_what_was_counted_with_the_key_is_merged(pets: SurveyCampaign, tmp_path: Path) -> None:
    """A folder that grew is a later tally of one collector; one of other files is another's."""
    key, out = tmp_path / "merge.key", tmp_path / "t"
    with closing(open_store(tmp_path / "pets.db")) as store:
        served, mine = serve(store, pets), some(pets, 400, 9)
        commit(store, [Batch(served, Incoming([], Upload(*mine, np.zeros(400, dtype=np.uint8))))])
    murmur("merge", tmp_path / "pets.db", "--key", key)
    first, second = some(pets, 500, 1), some(pets, 700, 2)
    reports = folder(pets, [first], tmp_path / "r")
    murmur("tally", reports, "-o", out)
    assert "murmur tally --key" in murmur("merge", tmp_path / "pets.db", out, code=2).problem
    for _ in range(2):
        murmur("tally", reports, "-o", out, "--key", key)
        murmur("merge", tmp_path / "pets.db", out)
    folder(pets, [first, second], tmp_path / "r")
    murmur("tally", reports, "-o", out, "--key", key, "--fresh")
    merged = murmur("merge", tmp_path / "pets.db", out).stdout
    assert "the tallies of 1 collector were added" in merged
    murmur("tally", reports, "-o", tmp_path / "other", "--key", key)
    said = murmur("merge", tmp_path / "pets.db", tmp_path / "other", code=2).problem
    assert "reports would count twice: all, or nearly all, of the 1,200" in said
    with closing(open_store(tmp_path / "pets.db", readonly=True)) as store:
        expected = pets.tally(np.concatenate([mine[1], first[1], second[1]]))
        assert total(store, pets) == expected
    assert (
        "--engine local"
        in murmur("tally", reports, "-o", out, "--key", key, "--engine", "spark", code=2).problem
    )
    assert (
        "--dedup" in murmur("tally", reports, "-o", out, "--key", key, "--no-dedup", code=2).problem
    )


def test_what_a_store_exports_counts_to_its_tallies(pets: SurveyCampaign, tmp_path: Path) -> None:
    store = open_store(tmp_path / "pets.db")
    served = serve(store, pets)
    for seed in (1, 2):
        ids, rows = some(pets, 500, seed)
        upload = Upload(ids, rows, np.zeros(500, dtype=np.uint8))
        commit(store, [Batch(served, Incoming([], upload))])
        murmur("export", tmp_path / "pets.db", tmp_path / "reports")
        out = tmp_path / "tally.bin"
        done = json.loads(murmur("tally", tmp_path / "reports", "-o", out, "--json").stdout)
        assert (done["counted"], done["parts_read"]) == (500 * seed, 1)
        assert CampaignTallies.from_bytes(out.read_bytes()).total() == total(store, pets)
    store.close()
    mine, theirs = opened(out).estimates(), opened(tmp_path / "pets.db").estimates()
    assert list(mine) == list(theirs)
    murmur("export", tmp_path / "pets.db", tmp_path / "one.parquet")
    murmur("tally", tmp_path / "one.parquet", "-o", tmp_path / "one.bin")
    assert CampaignTallies.from_bytes((tmp_path / "one.bin").read_bytes()).total() == total_of(out)


def total_of(path: Path) -> Any:
    return CampaignTallies.from_bytes(path.read_bytes()).total()


def test_a_file_of_tallies_that_is_damaged_is_refused(pets: SurveyCampaign, tmp_path: Path) -> None:
    _, rows = some(pets, 1000)
    data = CampaignTallies.of_files(pets, {0: pets.tally(rows)}, {}).to_bytes()
    assert CampaignTallies.from_bytes(data).total() == pets.tally(rows)
    for at in range(0, len(data), 997):
        worse = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        with pytest.raises((FormatError, ParameterError)):
            CampaignTallies.from_bytes(worse)
    for short in (data[:-1], data[:100], data + b"x"):
        with pytest.raises(FormatError):
            CampaignTallies.from_bytes(short)


def test_mistakes_are_told(pets: SurveyCampaign, tmp_path: Path) -> None:
    out = tmp_path / "t.bin"
    assert "no file or folder" in murmur("tally", tmp_path / "x", "-o", out, code=2).problem
    reports = tmp_path / "r"
    reports.mkdir()
    assert "no reports in" in murmur("tally", reports, "-o", out, code=2).problem
    write(pets.form, *some(pets, 10), reports / "a.parquet")
    assert "no campaign with these" in murmur("tally", reports, "-o", out, code=2).problem
    folder(pets, [], reports)
    for option, said in ((("--memory", "much"), "500M"), (("--engine", "ray"), "local or spark")):
        assert said in murmur("tally", reports, "-o", out, *option, code=2).problem
    for option in (("--fresh",), ("--memory", "1G"), ("--threads", "2"), ("--no-state",)):
        told = murmur("tally", reports, "-o", out, "--engine", "spark", *option, code=2).problem
        said = "--state" if option[0] == "--no-state" else option[0]
        assert f"{said} is for --engine local: leave it out" in told
    told = murmur("tally", reports, "-o", out, "--master", "local[1]", code=2).problem
    assert "--master is for --engine spark" in told
    (tmp_path / "c.json").write_text("{}")
    done = murmur("tally", reports, "-o", out, "--campaign", tmp_path / "c.json", code=2)
    assert "not a published campaign" in done.problem
    assert not out.exists()
