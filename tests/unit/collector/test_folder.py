"""A folder of reports: each report once, whatever is killed in the middle, and read without us."""

import csv
import json
import os
import threading
from contextlib import closing
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from murmuration.campaign.survey import SurveyCampaign
from murmuration.collector.commit import Batch, commit
from murmuration.collector.files import export, folder
from murmuration.collector.publish import serve
from murmuration.collector.store import open_store
from murmuration.errors import FormatError, ParameterError
from murmuration.wire import parquet
from murmuration.wire.report import Incoming, Upload
from tests.support.accounts import audited, campaign_of, made
from tests.support.collectors import PETS, one

DAY = date(2026, 11, 18)
PHONES = one("phones")


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "store.db")
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of few reports, so that there are many."""
    monkeypatch.setattr(folder, "GROUP_ROWS", 100)
    monkeypatch.setattr(folder, "PART_ROWS", 200)


def fill(url: str, text: str, n: int, seed: int, groups: int = 3) -> None:
    """Commit some reports, in several groups."""
    campaign = campaign_of(text)
    ids, rows = made(campaign, n, seed)
    with closing(open_store(url)) as store:
        served = serve(store, campaign)
        for part in np.array_split(np.arange(n), groups):
            upload = Upload(ids[part], rows[part], np.zeros(len(part), np.uint8))
            commit(store, [Batch(served, Incoming([], upload))])


def exported(url: str, into: Path, text: str = PETS, day: date = DAY) -> export.Exported:
    with closing(open_store(url)) as store:
        return export.write_folder(store, campaign_of(text).name, into, day=day)


def read(place: Path, campaign: SurveyCampaign) -> dict[bytes, bytes]:
    """All reports of a folder, after a check that each is there once and parts are in order."""
    found: dict[bytes, bytes] = {}
    for path in sorted(place.glob("day=*/*.parquet")):
        table = parquet.arrow().parquet.read_table(path, partitioning=None)
        assert table.schema == parquet.schema(campaign.form)
        ids, rows = parquet.rows_of(campaign.form, table)
        listed = [bytes(each) for each in ids]
        assert listed == sorted(listed)
        assert not found.keys() & set(listed)
        found |= dict(zip(listed, map(bytes, rows), strict=True))
        assert path.stat().st_mode & 0o077 == 0
    return found


def same(url: str, into: Path, text: str = PETS) -> int:
    """Assert that a folder has exactly what the store has; return how many."""
    campaign = campaign_of(text)
    with closing(open_store(url)) as store:
        kept = audited(store, campaign).rows
    assert read(folder.place_of(into, campaign), campaign) == kept
    return len(kept)


def names(into: Path) -> set[str]:
    return {str(path.relative_to(into)) for path in into.rglob("*") if path.is_file()}


def test_only_what_is_new_is_written(url: str, tmp_path: Path, small: None) -> None:
    into = tmp_path / "reports"
    fill(url, PETS, 500, 1)
    assert exported(url, into) == export.Exported(500, 0, 0)
    before = names(into)
    assert same(url, into) == 500
    assert exported(url, into) == export.Exported(0, 0, 500)
    assert names(into) == before
    fill(url, PETS, 130, 2)
    assert exported(url, into, day=date(2026, 11, 19)) == export.Exported(130, 0, 500)
    assert same(url, into) == 630
    assert names(into) > before
    days = sorted(path.name for path in folder.place_of(into, campaign_of(PETS)).glob("day=*"))
    assert days == ["day=2026-11-18", "day=2026-11-19"]


def test_another_folder_gets_all_of_it(url: str, tmp_path: Path, small: None) -> None:
    fill(url, PETS, 300, 1)
    exported(url, tmp_path / "one")
    fill(url, PETS, 300, 2)
    assert exported(url, tmp_path / "two") == export.Exported(600, 0, 0)
    assert exported(url, tmp_path / "one") == export.Exported(300, 0, 300)
    assert same(url, tmp_path / "two") == same(url, tmp_path / "one") == 600


def test_a_closed_part_stays_as_it_is_and_its_runs_are_few(url: str, tmp_path: Path) -> None:
    fill(url, PETS, 400, 1, groups=40)
    exported(url, tmp_path / "reports")
    with closing(open_store(url)) as store:
        ((part, n),) = store.parts(1).items()
        assert n == 400
        assert store.execute("SELECT part, n FROM runs") == [(part, 400)]
    fill(url, PETS, 300, 2, groups=70)  # as many as are merged
    with closing(open_store(url)) as store:
        assert store.parts(1) == {part: 400}
        assert not store.add_reports(1, made(campaign_of(PETS), 400, 1)[0], ROWLESS).any()
    assert exported(url, tmp_path / "reports").written == 300
    assert same(url, tmp_path / "reports") == 700


ROWLESS = np.zeros((400, 0), dtype=np.uint8)


def test_a_folder_describes_itself(tmp_path: Path) -> None:
    url, into = str(tmp_path / "store.db"), tmp_path / "reports"
    fill(url, PETS, 50, 1)
    exported(url, into)
    place = folder.opened(folder.place_of(into, campaign_of(PETS)))
    assert place.campaign.digest == campaign_of(PETS).digest
    assert json.loads((place.path / "_campaign.json").read_bytes())["digest"]
    with (place.path / "_cells.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["attribute"] for row in rows] == ["pet", "age", "work", "sleep"]
    assert place.path.stat().st_mode & 0o777 == 0o700
    with pytest.raises(ParameterError, match="not a folder of reports"):
        folder.opened(into)
    wrong = place.path.rename(place.path.with_name("digest=0123456789abcdef"))
    with pytest.raises(FormatError, match="another digest"):
        folder.opened(wrong)


def test_every_version_of_the_questions_has_a_folder(url: str, tmp_path: Path) -> None:
    other = PETS.replace("high = 100", "high = 99")
    fill(url, PETS, 60, 1)
    fill(url, other, 70, 2)
    assert exported(url, tmp_path).written == 130
    for text, n in ((PETS, 60), (other, 70)):
        campaign = campaign_of(text)
        assert len(read(folder.place_of(tmp_path, campaign), campaign)) == n


def test_the_group_reads_what_its_owner_has_let_it(tmp_path: Path) -> None:
    url, into = str(tmp_path / "store.db"), tmp_path / "reports"
    fill(url, PETS, 50, 1)
    into.mkdir()
    into.chmod(0o2750)
    before = os.umask(0o022)
    try:
        exported(url, into)
    finally:
        os.umask(before)
    for path in into.rglob("*"):
        wanted = 0o2750 if path.is_dir() else 0o600 if path.name == "_lock" else 0o640
        assert path.stat().st_mode & 0o7777 == wanted


def test_two_programs_do_not_write_to_one_place_at_once(tmp_path: Path) -> None:
    url = str(tmp_path / "store.db")
    fill(url, PETS, 50, 1)
    exported(url, tmp_path)
    place = folder.opened(folder.place_of(tmp_path, campaign_of(PETS)))
    with folder.alone(place), pytest.raises(ParameterError, match="another program"):
        exported(url, tmp_path)


@pytest.mark.slow
def test_exports_while_reports_arrive(url: str, tmp_path: Path, small: None) -> None:
    """Each report once, wherever the exports fall."""
    filling = threading.Thread(target=fill, args=(url, PHONES, 6000, 3, 150))
    fill(url, PHONES, 10, 1)
    filling.start()
    done = []
    while filling.is_alive():
        done.append(exported(url, tmp_path / "reports", PHONES).written)
    filling.join()
    done.append(exported(url, tmp_path / "reports", PHONES).written)
    assert sum(done) == same(url, tmp_path / "reports", PHONES) == 6010


# --- crashes -------------------------------------------------------------------------------------


def died(call: int, url: str, into: Path) -> bool:
    """Export in a process that ends at its n-th step on the disk; return whether it did."""
    child = os.fork()
    if child:
        return bool(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    left = [call]

    def counted(plain: Any) -> Any:
        def ending(*given: Any, **named: Any) -> Any:
            left[0] -= 1
            if not left[0]:
                os._exit(9)
            return plain(*given, **named)

        return ending

    for name in ("fsync", "replace", "mkdir", "open"):
        setattr(os, name, counted(getattr(os, name)))
    try:
        exported(url, into, day=date(2026, 11, call % 28 + 1))
    finally:
        os._exit(0)


@pytest.mark.slow
def test_a_kill_at_any_step_costs_nothing(tmp_path: Path, small: None) -> None:
    url, into = str(tmp_path / "store.db"), tmp_path / "reports"
    fill(url, PETS, 1, 1)
    call, deaths = 1, 0
    while died(call, url, into):
        fill(url, PETS, 37, 100 + call)
        read(folder.place_of(into, campaign_of(PETS)), campaign_of(PETS))  # no part is half
        call, deaths = call + 1, deaths + 1
    assert deaths > 10
    exported(url, into)
    assert same(url, into) == 1 + 37 * deaths
    assert not [name for name in names(into) if name.endswith(".part")]


# --- other programs ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def phones(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[int]]:
    """A folder of one question's reports, and how many there are of each symbol."""
    home = tmp_path_factory.mktemp("phones")
    fill(str(home / "store.db"), PHONES, 3000, 1)
    exported(str(home / "store.db"), home / "reports", PHONES)
    fill(str(home / "store.db"), PHONES, 500, 2)
    exported(str(home / "store.db"), home / "reports", PHONES, date(2026, 11, 19))
    with closing(open_store(home / "store.db")) as store:
        asked = campaign_of(PHONES)
        (tally,) = store.tallies(asked.digest, asked.frame.cells)[0]
    return home / "reports" / "phones", tally.counts.tolist()


def test_pandas_reads_a_folder(phones: tuple[Path, list[int]]) -> None:
    import pandas

    table = pandas.read_parquet(phones[0])
    assert table.groupby("entry_0_report").size().tolist() == phones[1]
    assert table.groupby("day", observed=True).size().tolist() == [3000, 500]
    assert table["id"].map(len).eq(16).all()


def test_duckdb_reads_a_folder(phones: tuple[Path, list[int]]) -> None:
    duckdb = pytest.importorskip("duckdb")
    sql = (
        "SELECT entry_0_report, count(*) FROM read_parquet(?, hive_partitioning = true) "
        "WHERE day >= DATE '2026-11-18' GROUP BY 1 ORDER BY 1"
    )
    found = duckdb.execute(sql, [f"{phones[0]}/**/*.parquet"]).fetchall()
    assert [n for _, n in found] == phones[1]
    cells = duckdb.execute(f"SELECT attribute FROM '{phones[0]}/*/_cells.csv'").fetchall()  # noqa: S608
    assert cells == [("phone",)]
