"""kill -9 in the middle of everything; `make torture` does it 500 times."""

from pathlib import Path

import pytest

from tests.support.torture import torture

pytestmark = pytest.mark.slow


@pytest.mark.slow
def test_sqlite_survives_fifty_kills(tmp_path: Path) -> None:
    notes = torture(str(tmp_path / "store.db"), kills=50)
    assert notes.cut_off > 50
    assert len(notes.acknowledged) > 5000


@pytest.mark.slow
def test_postgresql_survives_ten_kills(postgres_url: str) -> None:
    notes = torture(postgres_url, kills=10, seed=2)
    assert notes.cut_off > 10
    assert len(notes.acknowledged) > 200


@pytest.mark.slow
def test_being_asked_to_end_loses_nothing_either(tmp_path: Path) -> None:
    notes = torture(str(tmp_path / "store.db"), kills=5, seed=3, gently=True)
    assert len(notes.acknowledged) > 500


@pytest.mark.slow
def test_reports_that_go_to_a_folder_survive_thirty_kills(tmp_path: Path) -> None:
    reports = tmp_path / "reports"
    notes = torture(str(tmp_path / "store.db"), kills=30, seed=4, reports=reports)
    assert notes.cut_off > 30
    assert len(notes.acknowledged) > 3000
    assert not list(reports.glob("_logs/*"))  # it was asked to end, and has sealed them
