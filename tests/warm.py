"""Python processes that start in milliseconds: forked from one that has imported everything.

    done = warm.run("import sys; print(sys.argv[1])", "hello", stdout=PIPE)
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
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from subprocess import PIPE, STDOUT
from types import CodeType
from typing import IO, Any, NoReturn

SECONDS = 60.0
MOST_BYTES = 1 << 17
"""Of one request."""
MEASURING = ("COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG")
"""How coverage finds its way into other processes."""
MURMUR = "from murmuration.cli import main; main()"


class Forker:
    """The process that forks, as the others see it."""

    def __init__(self, before: Sequence[str] = (), environment: Mapping[str, str] | None = None):
        """`before` is put before its command: strace, say."""
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = threading.Lock()
        with theirs:
            self._process = subprocess.Popen(
                [*before, sys.executable, __file__, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                env={**(os.environ if environment is None else environment), **ONE_THREAD},
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


ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1"}


@functools.cache
def usual() -> Forker:
    """The one that this process has."""
    forker = Forker()
    atexit.register(forker.close)
    return forker


class Process:
    """A process that was forked; what it has of subprocess.Popen is as there."""

    def __init__(self, forker: Forker, request: Mapping[str, Any], streams: "Streams") -> None:
        self._forker, self._arguments = forker, request["arguments"]
        self.returncode: int | None = None
        self.stdin, self.stdout, self.stderr = streams.ours
        try:
            self.pid = forker.ask(request, streams.theirs)
        finally:
            streams.begun()

    def poll(self) -> int | None:
        """The exit code, or None if it is still running."""
        return self._ended(0)

    def wait(self, timeout: float = SECONDS) -> int:
        """The exit code, when it has ended."""
        code = self._ended(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(self._arguments, timeout)
        return code

    def _ended(self, seconds: float) -> int | None:
        if self.returncode is None:
            descriptor = os.pidfd_open(self.pid)
            try:
                if select.select([descriptor], [], [], seconds)[0]:
                    self.returncode = self._forker.ask({"ended": self.pid})
            finally:
                os.close(descriptor)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def communicate(self) -> tuple[str, str]:
        """What it has to say, to its end: its errors first, which nobody else is waiting for."""
        found = ["", ""]

        def read(place: int, stream: IO[str] | None) -> None:
            found[place] = stream.read() if stream else ""

        reader = threading.Thread(target=read, args=(1, self.stderr))
        reader.start()
        read(0, self.stdout)
        reader.join()
        self._close()
        self.wait()
        return found[0], found[1]

    def __enter__(self) -> "Process":
        return self

    def __exit__(self, *raised: object) -> None:
        self._close()
        self.wait()

    def _close(self) -> None:
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream:
                stream.close()


class Streams:
    """Standard streams: the ends that a process gets, and the ends that stay here."""

    def __init__(self, *given: int | IO[Any] | None) -> None:
        self.theirs: list[int] = []
        self.ours: list[IO[str] | None] = []
        self._to_close: list[int] = []
        for number, one in enumerate(given):
            self._add(number, one)

    def _add(self, number: int, given: int | IO[Any] | None) -> None:
        if given == PIPE:
            ends = os.pipe() if number else os.pipe()[::-1]
            self.ours.append(os.fdopen(ends[0], "r" if number else "w", encoding="utf-8"))
            self.theirs.append(ends[1])
            self._to_close.append(ends[1])
            return
        self.ours.append(None)
        if given == STDOUT:
            self.theirs.append(self.theirs[1])
        elif given is None and number == 0:
            self._to_close.append(os.open(os.devnull, os.O_RDONLY))
            self.theirs.append(self._to_close[-1])
        else:
            stream = number if given is None else given
            self.theirs.append(stream if isinstance(stream, int) else stream.fileno())

    def begun(self) -> None:
        """The process has its ends now."""
        for descriptor in self._to_close:
            os.close(descriptor)


def start(
    script: str,
    *arguments: object,
    env: Mapping[str, str] | None = None,
    cwd: str | Path | None = None,
    stdin: int | IO[Any] | None = None,
    stdout: int | IO[Any] | None = None,
    stderr: int | IO[Any] | None = None,
    forker: Forker | None = None,
) -> Process:
    """Start a script; standard input is empty unless something is given, the rest as here."""
    request = {
        "script": script,
        "arguments": [str(one) for one in arguments],
        "environment": dict(os.environ if env is None else env),
        "folder": str(cwd or Path.cwd()),
    }
    return Process(forker or usual(), request, Streams(stdin, stdout, stderr))


def run(script: str, *arguments: object, **options: Any) -> "subprocess.CompletedProcess[str]":
    """Run a script to its end, and return what it said."""
    with start(script, *arguments, **{"stdout": PIPE, "stderr": PIPE, **options}) as child:
        out, err = child.communicate()
    return subprocess.CompletedProcess(list(arguments), child.wait(), out, err)


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


def become(request: Mapping[str, Any], descriptors: Sequence[int]) -> None:
    """Be the process that was asked for."""
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
    for descriptor in set(descriptors) - {0, 1, 2}:
        os.close(descriptor)
    environment = request["environment"]
    if not any(name in environment for name in MEASURING):
        _stop_measuring()
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(request["folder"])
    sys.argv = ["-c", *request["arguments"]]
    _end(_exit_code(compile(request["script"], "<script>", "exec")))


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


def _end(code: int) -> NoReturn:
    """End as Python does, but without taking all modules apart: that takes longer than the test."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _stop_measuring() -> None:
    if "coverage" in sys.modules:
        from coverage import Coverage

        if measuring := Coverage.current():
            measuring.stop()


def _import_everything() -> None:
    """Import the package but for machine learning, which is slow, and forget the command line."""
    import collectors
    import murmuration

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
