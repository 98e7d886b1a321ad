"""The same examples on every run: a red test is a change, not bad luck."""

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tools import NOT_TESTED

settings.register_profile("fixed", derandomize=True, deadline=None, max_examples=200)
settings.load_profile("fixed")

# Tests must not depend on, or write to, the cache of whoever runs them.
os.environ["MURMUR_CACHE"] = tempfile.mkdtemp(prefix="murmur-test-cache-")
atexit.register(shutil.rmtree, os.environ["MURMUR_CACHE"], ignore_errors=True)


@pytest.fixture(scope="session")
def postgres_socket() -> Iterator[str]:
    """A PostgreSQL server: one for each process that runs tests, started when first needed."""
    import postgres  # here, so that tests without a database need no psycopg

    with postgres.server() as socket:
        yield socket


@pytest.fixture
def postgres_url(postgres_socket: str) -> Iterator[str]:
    """The postgresql:// URL of an empty database that only this test has."""
    import postgres

    with postgres.fresh_database(postgres_socket) as url:
        yield url


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say once more, where everybody looks, what this machine could not test."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = {str(report.longrepr[2]) for report in skipped if NOT_TESTED in str(report.longrepr)}
    for reason in sorted(reasons):
        terminalreporter.write_line(reason, red=True, bold=True)
