"""Spark with two workers in processes of their own: the same bytes as on this machine."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from murmuration import mechanism, seeded_rng
from murmuration.campaign.form import ReportForm
from murmuration.campaign.survey import SurveyCampaign
from murmuration.counting.engines import local, parts, spark
from murmuration.counting.engines.session import session
from murmuration.counting.sums import Sums
from murmuration.errors import FormatError, ParameterError
from murmuration.exact.arrays import Rows
from murmuration.lab import study as studies
from murmuration.wire.ids import Ids, new_ids
from tests.support.accounts import campaign_of, made
from tests.support.cases import CASES
from tests.support.collectors import PETS
from tests.support.command import murmur, process
from tests.support.reported import folder, levels, of_levels, of_mechanism, write
from tests.support.tools import require_tool
from tests.unit.lab.test_simulate import CAMPAIGN, STUDY

pytestmark = pytest.mark.slow
CLUSTER = "local-cluster[2,1,1024]"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """One for all tests here: it takes seconds to start."""
    require_tool("java", "openjdk-17-jre-headless")
    with session(CLUSTER, {"spark.executor.memory": "800m"}) as started:
        yield started


@pytest.fixture(scope="module")
def pets() -> SurveyCampaign:
    return campaign_of(PETS)


def some(campaign: SurveyCampaign, n: int, seed: int = 1) -> tuple[Ids, Rows]:
    return new_ids(n, seeded_rng(seed)), made(campaign, n, seed)[1]


def alike(one: Sums, other: Sums, form: ReportForm) -> bool:
    """Whether two engines have found the same."""
    tallies, others = (sums.tallies(form.frame) for sums in (one, other))
    return one.to_json() == other.to_json() and [
        [tally.to_bytes() for tally in level] for level in tallies.values()
    ] == [[tally.to_bytes() for tally in level] for level in others.values()]


# --- the same bytes ------------------------------------------------------------------------------


def test_every_mechanism(cluster: Any, tmp_path: Path) -> None:
    """One test, so that no two processes of pytest start a cluster each for their half of it."""
    for number, case in enumerate(CASES):
        alone, ids, rows = of_mechanism(case.all()[-1], 300)
        place = tmp_path / str(number)
        write(alone, ids[:200], rows[:200], place / "a.parquet")
        write(alone, ids[150:], rows[150:], place / "b.parquet")
        found = parts.find([place])
        there = spark.tally(cluster, alone, found)
        assert alike(there, local.tally(alone, found).sums, alone), case
        assert there.duplicates == 50


@pytest.mark.parametrize("dedup", [True, False])
def test_levels_and_several_entries(
    cluster: Any, pets: SurveyCampaign, tmp_path: Path, dedup: bool
) -> None:
    chosen = levels()
    for campaign, (ids, rows) in ((pets, some(pets, 3000)), (chosen, of_levels(chosen, 3000))):
        place = folder(campaign, [(ids, rows), (ids[:40], rows[9:49])], tmp_path / campaign.name)
        found = parts.find([place])
        here = local.tally(campaign.form, found, how=local.How(dedup=dedup)).sums
        assert alike(spark.tally(cluster, campaign.form, found, dedup=dedup), here, campaign.form)
        frame = cluster.read.parquet(str(place))
        there = spark.tally_frame(cluster, campaign.form, frame, dedup=dedup)
        assert alike(there, here, campaign.form)


def test_a_gradient_sum_of_a_round(cluster: Any, tmp_path: Path) -> None:
    """What a model's step needs is a tally as any other."""
    law = mechanism("privunit", epsilon=4.0, d=8)
    alone, ids, rows = of_mechanism(law, 2000)
    write(alone, ids, rows, tmp_path / "round.parquet")
    (tally,) = spark.tally(cluster, alone, parts.find([tmp_path])).tallies(alone.frame)[0]
    assert tally == law.tally(rows)
    assert np.isfinite(law.estimate(tally).value).all()


# --- what goes wrong -----------------------------------------------------------------------------


def test_a_file_that_cannot_be_read_is_told_in_one_line(
    cluster: Any, pets: SurveyCampaign, tmp_path: Path
) -> None:
    write(pets.form, *some(pets, 100), tmp_path / "a.arrow")
    (tmp_path / "b.arrow").write_bytes(b"\xff" * 4096)
    for dedup in (True, False):
        with pytest.raises(FormatError, match=r"b\.arrow cannot be read") as told:
            spark.tally(cluster, pets.form, parts.find([tmp_path]), dedup=dedup)
        assert "\n" not in str(told.value)
    frame = cluster.createDataFrame([(1,)], "x int")
    with pytest.raises(ParameterError, match="has no column id"):
        spark.tally_frame(cluster, pets.form, frame)
    wrong = cluster.sql("select 1 as x")
    for name in ("id", "entry_0_cell", "entry_0_report", "entry_1_cell", "entry_1_report"):
        wrong = wrong.withColumn(name, wrong.x.cast("string"))
    with pytest.raises(FormatError, match="column id has bytes; got string"):
        spark.tally_frame(cluster, pets.form, wrong)


def children(of: int, named: bytes) -> list[int]:
    """The processes below a process whose command has a name in it."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            name = (entry / "cmdline").read_bytes()
        except (OSError, ValueError, IndexError):
            continue
        if parent == of and named in name:
            found.append(int(entry.name))
    return sorted(found)


def test_an_executor_that_is_killed_changes_nothing(
    cluster: Any, pets: SurveyCampaign, tmp_path: Path
) -> None:
    ids, rows = some(pets, 20_000)
    for part in range(40):
        own = slice(500 * part, 500 * part + 600)
        write(pets.form, ids[own], rows[own], tmp_path / f"{part:02}.parquet")
    found = parts.find([tmp_path])
    here = local.tally(pets.form, found).sums
    java = cluster.sparkContext._gateway.proc.pid
    killed: list[int] = []

    def kill() -> None:
        tracker = cluster.sparkContext.statusTracker()
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            stages = [tracker.getStageInfo(one) for one in tracker.getActiveStageIds()]
            if any(one is not None and 1 <= one.numCompletedTasks < 30 for one in stages):
                killed.append(children(java, b"CoarseGrainedExecutorBackend")[0])
                os.kill(killed[0], signal.SIGKILL)
                return
            time.sleep(0.005)

    for _ in range(3):  # a stage may be over before it is seen
        killer = threading.Thread(target=kill)
        killer.start()
        there = spark.tally(cluster, pets.form, found)
        assert alike(there, here, pets.form)
        killer.join(1)
        if killed:
            break
    assert killed
    assert alike(spark.tally(cluster, pets.form, found), here, pets.form)  # and it goes on


# --- privatising, and the command ----------------------------------------------------------------


def test_privatising_on_the_workers(cluster: Any, tmp_path: Path) -> None:
    campaign = campaign_of(
        'name = "one"\npurpose = "x"\nepsilon = 2\ncohort = 100\n[[attributes]]\nname = "x"\n'
        'low = 0\nhigh = 1\nmechanism = "duchi"\n'
    )

    def crowd(first: int, last: int) -> list[Any]:
        return [np.linspace(-1, 1, 20_000)[first:last]]

    for name, seed in (("a", 5), ("b", 5), ("c", None)):
        made_there = spark.privatize(
            cluster, campaign, crowd, 20_000, tmp_path / name, parts=4, seed=seed
        )
        assert len(made_there) == 4
    sums = [local.tally(campaign.form, parts.find([tmp_path / name])).sums for name in "abc"]
    assert alike(sums[0], sums[1], campaign.form)
    assert [one.counted for one in sums] == [20_000] * 3
    (tally,) = sums[0].tallies(campaign.frame)[0]
    found = tally.mechanism.estimate(tally)
    assert abs(found.value) < 5 * found.stderr


def test_spark_leaves_no_folder_where_it_is_installed(cluster: Any) -> None:
    import pyspark

    assert not Path(pyspark.__file__).with_name("work").exists()


def test_what_spark_says_is_one_line(pets: SurveyCampaign, tmp_path: Path) -> None:
    reports = folder(pets, [some(pets, 10)], tmp_path / "r")
    told = process(
        "tally", reports, "-o", tmp_path / "x.bin", "--engine", "spark", "--master", "nowhere://x"
    )
    _, err = told.communicate(timeout=120)
    assert told.returncode == 2
    assert err.startswith("murmur: Spark did not start")
    assert "Master must either be" in err
    assert len(err.splitlines()) == 1


def test_a_second_session_is_refused(cluster: Any) -> None:
    with pytest.raises(ParameterError, match="already"), session("local[1]"):
        pass


def test_the_command_and_ctrl_c(pets: SurveyCampaign, tmp_path: Path) -> None:
    ids, rows = some(pets, 2000)
    reports = folder(pets, [(ids, rows)], tmp_path / "r")
    murmur("tally", reports, "-o", tmp_path / "here.bin", "--no-state")
    there = process(
        "tally", reports, "-o", tmp_path / "there.bin", "--engine", "spark", "--master", "local[2]"
    )
    out, err = there.communicate(timeout=120)
    assert there.returncode == 0, err
    assert "2,000 reports of pets counted" in out
    assert (tmp_path / "there.bin").read_bytes() == (tmp_path / "here.bin").read_bytes()
    stopped = process(
        "tally", reports, "-o", tmp_path / "x.bin", "--engine", "spark", "--master", "local[2]"
    )
    deadline = time.monotonic() + 60
    while not children(stopped.pid, b"java") and time.monotonic() < deadline:
        time.sleep(0.01)
    stopped.send_signal(signal.SIGINT)
    out, err = stopped.communicate(timeout=60)
    assert "Traceback" not in err
    assert stopped.returncode == 130, err
    assert not (tmp_path / "x.bin").exists()


def test_a_study_on_spark_is_the_same(cluster: Any, tmp_path: Path) -> None:
    (tmp_path / "habits.toml").write_text(CAMPAIGN)
    (tmp_path / "study.toml").write_text(STUDY.format(repetitions=2))
    asked = studies.read(tmp_path / "study.toml", lambda path, names: {})
    for name, started in (("here", None), ("there", cluster)):
        assert studies.run(asked, tmp_path / name, lambda n: None, started) == (8, 0)
    here, there = (studies.results(asked, tmp_path / name) for name in ("here", "there"))
    assert here.equals(there)
