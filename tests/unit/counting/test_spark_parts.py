"""What the engine on Spark works out by itself, before there is any Spark."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from murmuration import mechanism
from murmuration.campaign.form import ReportForm
from murmuration.counting.engines import session, spark
from murmuration.counting.engines.spill import PARTITIONS

FORM = ReportForm.of(mechanism("duchi", epsilon=1.0))


@pytest.mark.parametrize(
    ("reports", "cores", "keys"),
    [(0, 1, 2), (10, 2, 4), (10, 3, 8), (10**7, 4, 8), (10**9, 2, 256), (10**12, 2, PARTITIONS)],
)
def test_partitions_are_a_power_of_two_for_all_cores(reports: int, cores: int, keys: int) -> None:
    assert spark._keys(reports, FORM, SimpleNamespace(defaultParallelism=cores)) == keys


def test_the_home_of_workers_is_links_to_the_installed_one(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    home = Path(session._home(tmp_path / "home"))
    assert (home / "sql").resolve().is_dir()
    assert all(path.is_symlink() for path in home.iterdir())
