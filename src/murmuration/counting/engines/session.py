"""A Spark session: quiet, with this Python on its workers, and nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from murmuration.errors import MurmurationError, ParameterError, missing_extra

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.python.worker.reuse": "true",
    "spark.driver.maxResultSize": "0",
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(1 << 16),
}
QUIET = """
rootLogger.level = {level}
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = spark: %m%n%throwable{{0}}
"""


class SparkError(MurmurationError):
    """Spark could not do it; in one line, without Java's traceback."""


@contextmanager
def session(master: str, settings: Mapping[str, str] | None = None) -> Iterator[Any]:
    """Start Spark at a master (`local[2]`, `spark://host:7077`, ...), and stop it at the end."""
    if find_spec("pyspark") is None or find_spec("pandas") is None:
        raise missing_extra("Spark", "spark")
    from pyspark import SparkContext

    if SparkContext._active_spark_context is not None:
        raise ParameterError("there is a Spark session already: give that one to the engine")
    with tempfile.TemporaryDirectory(prefix="murmur-spark-") as name, _environment(master, name):
        with tidy_errors():
            session = _started(master, Path(name), settings or {})
        before = signal.getsignal(signal.SIGINT)
        try:
            yield session
        finally:
            _end(session)
            with suppress(ValueError):  # in a thread nobody hears signals
                signal.signal(signal.SIGINT, before)


def _end(session: Any) -> None:
    """Stop Spark, and Java with it: the next session starts one of its own."""
    from pyspark import SparkContext

    gateway = session.sparkContext._gateway
    with suppress(Exception):  # it may be gone already
        session.stop()
    with suppress(Exception):
        gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = None
    if (java := getattr(gateway, "proc", None)) is not None:
        with suppress(OSError):
            java.stdin.close()  # that ends it
        try:
            java.wait(10)
        except subprocess.TimeoutExpired:
            java.kill()
            java.wait()


def _started(master: str, folder: Path, settings: Mapping[str, str]) -> Any:
    """Start Spark. A Ctrl-C meanwhile is heard when Java can be ended: else Java would stay."""
    before, heard = signal.getsignal(signal.SIGINT), []
    with suppress(ValueError):
        signal.signal(signal.SIGINT, lambda number, _: heard.append(number))
    try:
        session = _made(master, folder, settings)
    finally:
        with suppress(ValueError):  # Spark's own would make a cancelled job of a Ctrl-C
            signal.signal(signal.SIGINT, before)
    if heard:
        _end(session)
        raise KeyboardInterrupt
    return session


def _made(master: str, folder: Path, settings: Mapping[str, str]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master(master).appName("murmuration")
        quiet = f"-Dlog4j2.configurationFile=file:{folder / 'log4j2.properties'}"
        more = {"spark.driver.extraJavaOptions": quiet, "spark.local.dir": str(folder / "local")}
        for key, value in {**SETTINGS, **more, **settings}.items():
            builder = builder.config(key, value)
        with _unheard(folder / "said"):
            return builder.getOrCreate()


@contextmanager
def _unheard(path: Path) -> Iterator[None]:
    """Let what Java says on standard error go to a file: it is not for the user's terminal."""
    sys.stderr.flush()
    with path.open("wb") as file:
        before = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            yield
        except Exception as problem:
            lines = path.read_text(errors="replace").strip().splitlines()
            if "JAVA_GATEWAY" not in str(problem):
                raise
            said = [line for line in lines if "rror" in line or "xception" in line] or lines[-1:]
            why = said[0].strip()[:300] if said else "nothing was said"
            raise SparkError(f"Spark did not start (it needs Java 17): {why}") from None
        finally:
            os.dup2(before, 2)
            os.close(before)


@contextmanager
def _environment(master: str, folder: str) -> Iterator[None]:
    """Let workers run this Python; for a cluster within this machine, keep its folders here."""
    Path(folder, "log4j2.properties").write_text(QUIET.format(level="fatal"))
    ours = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    ours["SPARK_LOCAL_DIRS"] = f"{folder}/local"
    if master.startswith("local"):
        ours["SPARK_LOCAL_IP"] = "127.0.0.1"
    if master.startswith("local-cluster"):
        ours["SPARK_HOME"] = _home(Path(folder, "home"))
    before = {key: os.environ.get(key) for key in ours}
    os.environ.update(ours)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                os.environ.pop(key, None)
            else:
                os.environ[key] = value


def _home(folder: Path) -> str:
    """Return a home that is links to the installed one: workers make their folders in it."""
    spec = find_spec("pyspark")
    folder.mkdir()
    for path in Path(str(spec and spec.origin)).parent.iterdir():
        (folder / path.name).symlink_to(path)
    return str(folder)


@contextmanager
def tidy_errors() -> Iterator[None]:
    """Say what went wrong in one line; a Ctrl-C stays one, whatever py4j makes of it."""
    heard, before = [], signal.getsignal(signal.SIGINT)

    def hear(number: int, _frame: Any) -> None:
        heard.append(number)
        raise KeyboardInterrupt

    with suppress(ValueError):
        signal.signal(signal.SIGINT, hear)
    try:
        yield
    except MurmurationError:
        if heard:
            raise KeyboardInterrupt from None
        raise
    except Exception as problem:
        if heard:
            raise KeyboardInterrupt from None
        raise SparkError(f"Spark failed: {_first_line(problem)}") from None
    finally:
        with suppress(ValueError):
            signal.signal(signal.SIGINT, before)


def _first_line(problem: Exception) -> str:
    """Return the line of an error that says most."""
    java = getattr(problem, "java_exception", None)
    text = str(problem)
    if java is not None:
        with suppress(Exception):
            text = str(java.getMessage()) or text
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    named = [line for line in lines if "Error: " in line and not line.startswith(("at ", "File "))]
    return (named or lines or [type(problem).__name__])[-1 if named else 0][:300]
