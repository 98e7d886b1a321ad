"""Python processes that start in milliseconds: forked from one that has imported everything.

    done = warm.run("import sys; print(sys.argv[1])", "hello")
    with warm.start(SCRIPT, path, stdout=PIPE) as child:
        child.kill()

Both take the place of `[sys.executable, "-c", script, *arguments]` with `subprocess`, where a test
is not about how a process begins. What they give is a process like any other: it has its own pid,
streams, environment, folder, signals and exit code. It is forked before any thread is started.

The process that forks is this file, run as a program: one for each process that runs tests, made
when it is first needed, gone when that one is. The command line is imported by each process itself,
as it looks at the terminal when it is imported.
"""

import atexit
import functools
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from subprocess import PIPE
from types import CodeType
from typing import IO, Any, NoReturn

from tests.support.places import ROOT

SECONDS = 60.0
MOST_BYTES = 1 << 17
"""Of one request."""
MEASURING = ("COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG")
"""How coverage finds its way into other processes."""
MURMUR = "from murmuration.cli import main; main()"
Stream = int | IO[Any] | None


def _import_path(env: Mapping[str, str]) -> str:
    """The repository first: the process that forks is a module of it."""
    return os.pathsep.join([str(ROOT), *filter(None, [env.get("PYTHONPATH")])])


class Forker:
    """The process that forks, as the others see it."""

    def __init__(self, before: Sequence[str] = (), env: Mapping[str, str] = os.environ) -> None:
        """`before` is put before its command: strace, say."""
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = threading.Lock()
        with theirs:
            self._process = subprocess.Popen(
                [*before, sys.executable, "-m", "tests.support.warm", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                env={**env, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": _import_path(env)},
                start_new_session=True,  # Ctrl-C is for whoever runs the tests
            )

    def ask(self, request: Mapping[str, Any], streams: Sequence[int] = ()) -> int:
        """Ask it to fork, or how a process ended."""
        with self._lock:
            socket.send_fds(self._line, [json.dumps(request).encode()], streams)
            answer = self._line.recv(64)
        if not answer:
            raise RuntimeError("the process that forks has ended")
        return int(answer)

    def close(self) -> None:
        """End it, and whatever it has forked and is still there."""
        self._line.close()
        self._process.wait(SECONDS)


@functools.cache
def usual() -> Forker:
    """The one that this process has."""
    forker = Forker()
    atexit.register(forker.close)
    return forker


class Process:
    """A process that was forked; what it has of subprocess.Popen is as there."""

    def __init__(self, forker: Forker, pid: int, stdout: IO[str] | None = None) -> None:
        self._forker, self.pid, self.stdout = forker, pid, stdout
        self.returncode: int | None = None

    def poll(self, seconds: float = 0.0) -> int | None:
        """The exit code, or None if it is still running after so long."""
        if self.returncode is None:
            descriptor = os.pidfd_open(self.pid)
            try:
                if select.select([descriptor], [], [], seconds)[0]:
                    self.returncode = self._forker.ask({"ended": self.pid})
            finally:
                os.close(descriptor)
        return self.returncode

    def wait(self, seconds: float = SECONDS) -> int:
        """The exit code, when it has ended."""
        code = self.poll(seconds)
        if code is None:
            raise TimeoutError(f"process {self.pid} does not end")
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def __enter__(self) -> "Process":
        return self

    def __exit__(self, *raised: object) -> None:
        if self.stdout:
            self.stdout.close()
        self.wait()


def start(
    script: str,
    *arguments: object,
    env: Mapping[str, str] | None = None,
    cwd: str | Path | None = None,
    stdout: Stream = None,
    stderr: Stream = None,
    forker: Forker | None = None,
) -> Process:
    """Start a script. Its input is empty; what it writes goes to these files, else to ours."""
    request = {
        "script": script,
        "arguments": [str(one) for one in arguments],
        "environment": dict(os.environ if env is None else env),
        "folder": str(cwd or Path.cwd()),
    }
    if stdout != PIPE:
        return _forked(forker or usual(), request, stdout, stderr)
    ours, theirs = os.pipe()
    with os.fdopen(theirs, "wb") as written:
        child = _forked(forker or usual(), request, written, stderr)
    child.stdout = os.fdopen(ours, encoding="utf-8")
    return child


def _forked(forker: Forker, request: Mapping[str, Any], stdout: Stream, stderr: Stream) -> Process:
    given = [1 if stdout is None else stdout, 2 if stderr is None else stderr]
    out, err = (one if isinstance(one, int) else one.fileno() for one in given)
    with Path(os.devnull).open("rb") as empty:
        return Process(forker, forker.ask(request, [empty.fileno(), out, err]))


def run(script: str, *arguments: object, **options: Any) -> "subprocess.CompletedProcess[str]":
    """Run a script to its end, and return what it said."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        code = start(script, *arguments, **{"stdout": out, "stderr": err, **options}).wait()
        for stream in (out, err):
            stream.seek(0)
        return subprocess.CompletedProcess(
            [str(value) for value in arguments], code, out.read(), err.read()
        )


def murmur(*arguments: object, **options: Any) -> "subprocess.CompletedProcess[str]":
    """Run a command of ours."""
    return run(MURMUR, *arguments, **options)


def unmeasured() -> dict[str, str]:
    """This environment, for a process whose coverage is not measured: that is slow."""
    return {name: value for name, value in os.environ.items() if name not in MEASURING}


# --------------------------------------------------------------------------- the process that forks


def forking(line: socket.socket) -> Callable[[], None] | None:
    """Fork whenever asked. Return, in a forked process, what it has to do; else None at the end."""
    running: set[int] = set()
    while True:
        data, descriptors, _, _ = socket.recv_fds(line, MOST_BYTES, 3)
        if not data:
            break
        request = json.loads(data)
        if "ended" in request:
            _, status = os.waitpid(request["ended"], 0)
            running.discard(request["ended"])
            line.send(str(os.waitstatus_to_exitcode(status)).encode())
            continue
        child = os.fork()
        if child == 0:
            line.close()
            return functools.partial(become, request, descriptors)
        running.add(child)
        for descriptor in descriptors:
            os.close(descriptor)
        line.send(str(child).encode())
    for child in running:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return None


def become(request: Mapping[str, Any], descriptors: Sequence[int]) -> NoReturn:
    """Be the process that was asked for."""
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
    for descriptor in set(descriptors) - {0, 1, 2}:
        os.close(descriptor)
    if not any(name in request["environment"] for name in MEASURING):
        _stop_measuring()
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    sys.argv = ["-c", *request["arguments"]]
    code = _exit_code(compile(request["script"], "<script>", "exec"))
    # As Python ends, but without taking all modules apart: that takes longer than most tests.
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _exit_code(script: CodeType) -> int:
    """Run a script, and say how it ended, as Python does."""
    try:
        exec(script, {"__name__": "__main__"})  # noqa: S102
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        sys.stderr.write(f"{end.code}\n")
        return 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 1
    return 0


def _stop_measuring() -> None:
    if "coverage" in sys.modules:
        from coverage import Coverage

        if measuring := Coverage.current():
            measuring.stop()


def _import_everything() -> None:
    """Import the package but for machine learning, which is slow, and forget the command line."""
    import murmuration
    from tests.support import collectors

    del collectors
    top = Path(str(murmuration.__file__)).parent
    for path in sorted(top.rglob("*.py")):
        parts = path.relative_to(top).with_suffix("").parts
        if parts[0] != "learn" and not parts[-1].startswith("__"):
            importlib.import_module(".".join(("murmuration", *parts)))
    for name in [name for name in sys.modules if name.startswith("murmuration.cli")]:
        del sys.modules[name]
    del murmuration.cli
    assert threading.active_count() == 1
    gc.collect()
    gc.freeze()  # what is never looked at again is never copied


if __name__ == "__main__":
    _import_everything()
    if act := forking(socket.socket(fileno=int(sys.argv[1]))):
        act()
