"""The instruments of the other tests: programs, small disks, processes, a database server."""

import errno
import os
import signal
from pathlib import Path
from subprocess import PIPE

import psycopg
import pytest

from tests.support import warm
from tests.support.tools import require_tool, small_disk


def test_a_tool_that_is_there_is_found() -> None:
    assert Path(require_tool("sh")).exists()


def test_strict_runs_fail_where_others_skip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.delenv("CI_STRICT", raising=False)
    with pytest.raises(pytest.skip.Exception, match="NOT TESTED: no-such-tool is missing"):
        require_tool("no-such-tool")
    monkeypatch.setenv("CI_STRICT", "1")
    with pytest.raises(pytest.fail.Exception, match="NOT TESTED: no-such-tool is missing"):
        require_tool("no-such-tool")


APT_GET = """#!/bin/sh
echo "$@" >> {folder}/asked
case "$*" in
  *update*) touch {folder}/lists ;;
  *install*) [ -e {folder}/lists ] && cp /bin/true {folder}/new-tool ;;
esac
"""


def test_root_installs_a_missing_tool_with_new_lists_if_need_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    apt_get = tmp_path / "apt-get"
    apt_get.write_text(APT_GET.format(folder=tmp_path))
    apt_get.chmod(0o755)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert require_tool("new-tool", "its-package") == f"{tmp_path}/new-tool"
    asked = [line.split()[4:] for line in (tmp_path / "asked").read_text().splitlines()]
    install = ["install", "--no-install-recommends", "its-package"]
    assert asked == [install, ["update"], install]


def test_a_small_disk_is_soon_full() -> None:
    with small_disk(1) as folder:
        (folder / "fits").write_bytes(bytes(900_000))
        with pytest.raises(OSError, match="No space left") as caught:
            (folder / "too much").write_bytes(bytes(900_000))
        assert caught.value.errno == errno.ENOSPC
    assert not folder.exists()


def test_a_small_disk_goes_even_if_a_file_on_it_is_open() -> None:
    with small_disk(1) as folder, (folder / "open").open("wb") as held:
        held.write(b"x")
        folder_while_open = folder
    assert not folder_while_open.exists()


@pytest.mark.parametrize(
    ("script", "code", "err"),
    [
        *(("pass", 0, ""), ("raise SystemExit", 0, ""), ("raise SystemExit(3)", 3, "")),
        *(("raise SystemExit('bad')", 1, "bad\n"), ("1 / 0", 1, "ZeroDivisionError")),
        ("import os; os.kill(os.getpid(), 9)", -signal.SIGKILL, ""),
        ("import atexit, sys; atexit.register(sys.stderr.write, 'end')", 0, "end"),
    ],
)
def test_a_warm_process_ends_as_any_other(script: str, code: int, err: str) -> None:
    done = warm.run(script)
    assert (done.returncode, err in done.stderr, bool(err)) == (code, True, bool(done.stderr))


def test_a_warm_process_has_its_own_surroundings(tmp_path: Path) -> None:
    script = "import os, sys; print(sys.argv[1:], os.getcwd(), *os.environ, sys.stdin.read())"
    done = warm.run(script, "a", 1, cwd=tmp_path, env={"ONE": "1"})
    assert done.stdout == f"['a', '1'] {tmp_path} ONE \n"
    script = "import sys; print([f'murmuration.{one}' in sys.modules for one in ('cli', 'server')])"
    assert warm.run(script).stdout == "[False, True]\n"


def test_a_warm_process_is_heard_while_it_runs() -> None:
    script = "import time; print('here', flush=True); time.sleep(60)"
    with warm.start(script, stdout=PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "here\n"
        assert child.poll() is None
        child.kill()
        assert child.wait() == -signal.SIGKILL


@pytest.mark.parametrize("time", [1, 2])
def test_every_test_has_an_empty_database(postgres_url: str, time: int) -> None:
    with psycopg.connect(postgres_url) as connection:
        connection.execute("CREATE TABLE reports (id integer PRIMARY KEY)")  # not there yet
        connection.execute("INSERT INTO reports VALUES (%s)", [time])
    with psycopg.connect(postgres_url) as connection:
        assert connection.execute("SELECT id FROM reports").fetchall() == [(time,)]
        assert connection.execute("SHOW fsync").fetchone() == ("on",)
        assert connection.execute("SHOW synchronous_commit").fetchone() == ("on",)
