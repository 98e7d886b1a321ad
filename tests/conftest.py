"""What all tests share: the same examples on every run, one folder, a database, a last word.

The folder is removed at the end; `--basetemp=FOLDER` keeps what tests have written.
"""

import atexit
import os
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.support.tools import NOT_TESTED

settings.register_profile("fixed", derandomize=True, deadline=None, max_examples=200)
settings.load_profile("fixed")  # a red test is a change, not bad luck

MEMORY = Path("/dev/shm")  # noqa: S108 - only where we make a folder of our own
ROOM = 2 << 30
"""Bytes that tests could fill."""
LONG, SHOWN = 1.5, 10
"""Seconds of a test that should be marked as slow, and how many are named."""


def _begin() -> None:
    """Make the folder of this run: for temporary files, and for tables that were solved.

    One for all processes that run tests: those of xdist find it in their environment. Tests must
    not depend on, or write to, the cache of whoever runs them. It is in memory if that can be, as
    half of the time would be waiting for a disk; programs sync their files as always.
    """
    folder = tempfile.mkdtemp(prefix="murmur-tests-", dir=MEMORY if _fits(MEMORY) else None)
    os.chmod(folder, 0o755)  # noqa: S103 - the database has another owner
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ["MURMUR_CACHE"] = f"{folder}/cache"
    os.environ["TMPDIR"], tempfile.tempdir = folder, None


def _fits(folder: Path) -> bool:
    """Whether there is room, and programs can be run there."""
    if not os.access(folder, os.W_OK):
        return False
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize > ROOM and not disk.f_flag & os.ST_NOEXEC


if "PYTEST_XDIST_WORKER" not in os.environ:
    _begin()


@pytest.fixture(scope="session")
def postgres_socket() -> Iterator[str]:
    """A PostgreSQL server: one for each process that runs tests, started when first needed."""
    from tests.support import postgres  # here, so that tests without a database need no psycopg

    with postgres.server() as socket:
        yield socket


@pytest.fixture
def postgres_url(postgres_socket: str) -> Iterator[str]:
    """The postgresql:// URL of an empty database that only this test has."""
    from tests.support import postgres

    with postgres.fresh_database(postgres_socket) as url:
        yield url


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty store of each kind."""
    if request.param == "sqlite":
        return str(tmp_path / "store.db")
    return str(request.getfixturevalue("postgres_url"))


MEASURED = {
    f"test_{name}"
    for name in (
        *("campaign_cli", "cli", "data_in", "device", "entry", "figures", "library", "merging"),
        *("engines_spark", "longitudinal", "period_figures", "periods", "periods_http", "plan"),
        *("readonly", "rounds", "simulate", "spells_http", "store", "tables", "train_cli"),
    )
}
"""Files whose slow tests reach lines that no quick test does: of those, coverage is measured."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever asks for a database is slow: it may be the one that starts the server."""
    for item in items:
        if "postgres_socket" in getattr(item, "fixturenames", ()):
            item.add_marker("slow")
        if item.get_closest_marker("slow") and item.path.stem not in MEASURED:
            item.add_marker("unmeasured")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say, where everybody looks, what was not tested, and what makes a quick run long."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = {str(report.longrepr[2]) for report in skipped if NOT_TESTED in str(report.longrepr)}
    for reason in sorted(reasons):
        terminalreporter.write_line(reason, red=True, bold=True)
    if "not slow" in str(terminalreporter.config.option.markexpr):
        _name_the_slowest(terminalreporter)


def _name_the_slowest(terminalreporter: pytest.TerminalReporter) -> None:
    """Name the tests that should be marked as slow, or made faster."""
    phases: dict[str, dict[str, float]] = defaultdict(dict)
    for outcome in ("", "passed", "failed"):  # "": that of set-ups and tear-downs
        for report in terminalreporter.stats.get(outcome, []):
            phases[report.nodeid][report.when] = report.duration
    slowest = sorted(phases, key=lambda name: -sum(phases[name].values()))[:SHOWN]
    for name in slowest:
        if (seconds := sum(phases[name].values())) > LONG:
            setup = phases[name].get("setup", 0.0)
            terminalreporter.write_line(
                f"not marked slow: {seconds:.1f} s, {setup:.1f} of it to set up: {name}"
            )
