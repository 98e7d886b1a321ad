"""The entry point: what a shell sees of it, what it imports, and what it says without an extra."""

from __future__ import annotations

import inspect
import os
import re
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from murmuration.cli import COMMANDS, PANELS
from murmuration.cli.extras import EXTRAS
from murmuration.cli.lazy import Entry
from tests.support.command import murmur, process
from tests.support.places import ROOT

MURMUR = str(Path(sys.executable).with_name("murmur"))

# --- a real process ------------------------------------------------------------------------------


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "COLUMNS": "100"}
    return subprocess.run([MURMUR, *arguments], capture_output=True, text=True, env=environment)


@pytest.mark.slow
def test_the_installed_command_has_help_a_version_and_exit_codes() -> None:
    overview = run("--help")
    assert overview.returncode == 0
    for name in COMMANDS:
        assert re.search(rf"^│ {name} ", overview.stdout, re.MULTILINE)
    assert run("--version").stdout.startswith("murmur 0.")
    broken = run("audit", "dct", "--epsilon", "1")
    assert (broken.returncode, "BROKEN" in broken.stdout) == (1, True)
    mistake = run("audit", "magic", "--epsilon", "1")
    assert (mistake.returncode, mistake.stdout) == (2, "")
    assert mistake.stderr.startswith("murmur: no mechanism is called 'magic'")
    assert run("compare", "--data", "/proc/self/mem").returncode == 3


@pytest.mark.slow
def test_ctrl_c_ends_a_question_and_a_computation(tmp_path) -> None:
    asking = process("init", folder=tmp_path, stdin=subprocess.PIPE)
    asking.stdout.read(1)  # it asks
    (tmp_path / "people.csv").write_text("age\n" + "".join(f"{i % 90}\n" for i in range(50_000)))
    working = process(  # as a shell's background job, which ignores SIGINT until we listen
        *("compare", "--data", tmp_path / "people.csv", "--runs", "100000"),
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )
    with asking, working:
        while "taken from the data" not in working.stderr.readline():
            assert working.poll() is None  # it has read the file, and says so
        for running in (asking, working):
            assert "Traceback" not in interrupted(running)
            assert running.returncode == 130
    assert not (tmp_path / "campaign.toml").exists()


def interrupted(running: subprocess.Popen[str]) -> str:
    """Press Ctrl-C, once; what it has said at its end."""
    running.send_signal(signal.SIGINT)
    try:
        return running.communicate(timeout=60)[1]
    finally:
        running.kill()


FINALISER = """
import os, signal, time
import murmuration.cli

class Thing:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(1000):  # it is raised here, and Python drops it
            pass

def app(prog_name):
    Thing()
    time.sleep(60)

murmuration.cli.app = app
murmuration.cli.main()
"""


@pytest.mark.slow
def test_a_ctrl_c_within_a_finaliser_is_heard() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FINALISER], capture_output=True, text=True, timeout=50
    )
    assert (done.returncode, done.stderr) == (130, "")


@pytest.mark.slow
def test_a_pipe_that_nobody_reads_is_no_traceback() -> None:
    running = process("mechanisms", "--json")
    running.stdout.close()
    assert "Traceback" not in running.stderr.read()
    assert running.wait(30) == 1
    running.stderr.close()


# --- the table of commands -----------------------------------------------------------------------


def every(entries: Mapping[str, Entry], above: tuple[str, ...] = ()) -> Iterator:
    for name, entry in entries.items():
        yield (*above, name), entry
        yield from every(entry.parts, (*above, name))


def test_the_overview_groups_the_commands() -> None:
    parts = re.split(r"╭─ (.+?) ─+╮", murmur("--help").stdout)
    shown = dict(zip(parts[1::2], parts[2::2], strict=True))
    assert [title for title in shown if title != "Options"] == list(PANELS)
    for title, entries in PANELS.items():
        assert re.findall(r"^│ ([a-z]\S*) ", shown[title], re.MULTILINE) == list(entries)


ALL = [pytest.param(path, entry, id=" ".join(path)) for path, entry in every(COMMANDS)]


@pytest.mark.parametrize(("path", "entry"), ALL)
def test_the_overview_says_what_the_command_says(path, entry: Entry) -> None:
    first, *_ = inspect.getdoc(entry.load()).splitlines()
    assert entry.help == first
    shown = " ".join(re.sub("[│╭╮╰╯─]", " ", murmur(*path, "--help", columns=160).stdout).split())
    assert first in shown
    assert f"Usage: murmur {' '.join(path)} " in shown


def test_commands_share_the_options_of_machines() -> None:
    no_json = {"token", "init", "serve"}
    for name in COMMANDS.keys() - no_json:
        assert "--json" in murmur(name, "--help").stdout


def test_a_name_that_is_no_command_gets_a_suggestion() -> None:
    assert "Did you mean 'estimate'" in murmur("estimat", code=2).stderr
    assert "No such command 'x'" in murmur("plan", "x", code=2).stderr
    assert "Usage: murmur" in murmur(code=2).stdout


def test_completion_knows_the_commands_without_importing_them() -> None:
    environment = {**os.environ, "_MURMUR_COMPLETE": "complete_bash", "COMP_CWORD": "1"}
    script = (
        "import sys, murmuration; before = set(sys.modules); from murmuration.cli import app\n"
        "try: app(prog_name='murmur')\n"
        "finally: print(*(set(sys.modules) - before), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**environment, "COMP_WORDS": "murmur est"},
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == ["estimate"]
    assert "murmuration.cli.estimate" not in done.stderr.split()


def test_the_version_is_known_without_loading_what_commands_need() -> None:
    """What `import murmuration` itself loads is tested elsewhere; this is what the command adds."""
    script = (
        "import sys, murmuration; before = set(sys.modules); sys.argv = ['murmur', '--version']\n"
        "from murmuration.cli import main\n"
        "try: main()\n"
        "except SystemExit: print(*(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    version, *loaded = done.stdout.splitlines()
    assert version.startswith("murmur 0.")
    names = set(loaded[0].split())
    ours = {name for name in names if name.startswith("murmuration.")}
    assert ours <= {"murmuration.cli", "murmuration.cli.lazy", "murmuration.errors"}
    assert not names & {"numpy", "scipy", "rich", "pydantic", "msgspec", "sqlite3"}


# --- without extras ------------------------------------------------------------------------------

WITHOUT = f"""\
import sys
from pathlib import Path
sys.path.insert(0, {str(ROOT)!r})
sys.modules.update(dict.fromkeys({[name for _, names in EXTRAS.values() for name in names]}))
from tests.support.command import murmur
from murmuration.cli import COMMANDS
from murmuration.collector.store import open_store

def needs(extra, *arguments):
    done = murmur(*arguments, code=2)
    assert done.problem.endswith(f"needs: pip install 'murmuration-ldp[{{extra}}]'"), done
    assert len(done.stderr.splitlines()) == 1, done

Path("people.csv").write_text("age,home\\n" + "20,rent\\n30,own\\n" * 20)
Path("people.parquet").write_bytes(b"PAR1")
open_store("a.db").close()

for name in COMMANDS:
    murmur(name, "--help")
murmur("mechanisms", "--json")
murmur("audit", "duchi", "--epsilon", "1")
murmur("plan", "--epsilon", "1", "--people", "1000", "--numeric", "age")
murmur("plan", "graded", "--epsilon", "1,0.5", "--edges", "0", "--people", "1000")
murmur("compare", "--epsilon", "1", "--runs", "2", "--mechanism", "duchi")
murmur("tuples", "--people", "1000", "--mechanism", "sampled")
murmur("init", "--data", "people.csv", "--yes")
murmur("check")
murmur("token", "list", "a.db")
assert "campaign" in murmur("status", "a.db", code=2).problem
assert "no ledger" in murmur("ledger", "none.db", code=2).problem

needs("server", "serve", "campaign.toml")
needs("server", "demo", "--once")
murmur("token", "add", "a.db", "admin")
needs("learn", "learn")
needs("plots", "learn", "--plot", "x.png")
needs("plots", "compare", "--plot", "x.png")
needs("plots", "estimate", "a.db", "--plot", "x.png")
needs("arrow", "init", "b.toml", "--data", "people.parquet", "--yes")
needs("arrow", "compare", "--data", "people.parquet")
needs("arrow", "send", "campaign.toml", "people.parquet", "--to", "http://127.0.0.1:1/v1")
needs("arrow", "export", "a.db", "x.parquet")
needs("arrow", "estimate", "a.db", "--parquet", "x.parquet")
needs("postgres", "status", "postgresql://127.0.0.1:1/none")
assert not Path("out").exists(), list(Path("out").iterdir())
"""


@pytest.mark.slow
def test_without_extras_commands_work_or_name_theirs(tmp_path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_every_package_of_an_extra_is_known() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    distributions = {"sklearn": "scikit-learn"}
    for extra, (_, packages) in EXTRAS.items():
        required = project["optional-dependencies"][extra]
        names = {re.split(r"[\[>=<]", text)[0] for text in required}
        assert {distributions.get(package, package) for package in packages} == names
    assert set(project["optional-dependencies"]) - set(EXTRAS) == {"brotli", "data", "dev"}
