"""The collector that a command starts for itself: its port, its start, its end."""

from __future__ import annotations

import errno
import socket
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from murmuration.cli import local_collector
from murmuration.cli.local_collector import HOST, collecting
from murmuration.errors import MurmurationError

CAMPAIGN = """\
name = "phones"
purpose = "Which phone people have."
epsilon = 1.0
people = 1000
[[attributes]]
name = "phone"
kind = "category"
labels = ["android", "ios"]
"""


@pytest.mark.slow
def test_nobody_else_gets_the_port_while_the_collector_starts(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "phones.toml").write_text(CAMPAIGN)
    taken: list[int | None] = []

    class Slow(subprocess.Popen[bytes]):
        def __init__(self, command: list[str], **options: Any) -> None:
            try:
                socket.create_server((HOST, int(command[command.index("--port") + 1]))).close()
            except OSError as problem:
                taken.append(problem.errno)
            super().__init__(command, **options)

    monkeypatch.setattr(local_collector.subprocess, "Popen", Slow)
    with collecting(tmp_path / "phones.toml", str(tmp_path / "a.db"), 0) as (process, port):
        assert taken == [errno.EADDRINUSE]
        assert process.poll() is None
        with urllib.request.urlopen(f"http://{HOST}:{port}/ready", timeout=30) as answer:
            assert answer.status == 200
    assert process.returncode is not None
    with socket.create_server((HOST, 0)) as busy:  # a port that is in use is not waited for
        wanted = int(busy.getsockname()[1])
        with collecting(tmp_path / "phones.toml", str(tmp_path / "a.db"), wanted) as (_, port):
            assert port != wanted


def test_a_collector_that_ends_at_once_is_not_waited_for(tmp_path: Path) -> None:
    start = time.monotonic()
    with (
        pytest.raises(MurmurationError, match="did not start"),
        collecting(tmp_path / "none.toml", str(tmp_path / "a.db"), 0),
    ):
        pass
    assert time.monotonic() - start < local_collector.START_SECONDS / 2
