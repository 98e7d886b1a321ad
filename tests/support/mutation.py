"""Do the tests see small faults? Plants them one at a time and runs the tests that reach the line.

    python -m tests.support.mutation map                      # which test reaches which line
    python -m tests.support.mutation run --sample 300 --seed 1 --out evidence/mutation.json

A fault is one operator, bound, constant or condition of the rooms below that is another one. The
faults are a seeded sample of all. Each is planted in a copy of `src`; the tests that reach its line
run there, nearest and quickest first, until one fails. What survives is either a gap in the tests
or changes nothing that can be seen: those are judged, by hand, in `evidence/mutation-judged.json`.
"""

from __future__ import annotations

import argparse
import ast
import compileall
import copy
import importlib.util
import json
import os
import py_compile
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

from tests.support.places import ROOT

SRC = ROOT / "src"
PACKAGE = SRC / "murmuration"
ROOMS = ("exact", "mechanisms", "counting", "device", "collector", "analysis")
CACHE = ROOT / ".mutation"
"""The map: not committed."""
JUDGED = ROOT / "evidence" / "mutation-judged.json"
BUDGET = 60.0
"""Seconds of tests, as measured when the map was made, that one fault is tried by."""
MOST_TESTS = 150
SLOWER = 8
"""A run that takes so many times as long as it should is a fault that was seen, too."""
SPARE = 60.0


# --- faults --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fault:
    """One node of a file, and what it becomes."""

    file: str
    """Below src/murmuration."""
    line: int
    was: str
    becomes: str
    start: int
    """Where the node's text starts and ends in the file, in characters."""
    end: int

    def planted(self, text: str) -> str:
        """The file's text with the fault in it."""
        return f"{text[: self.start]}({self.becomes}){text[self.end :]}"

    @property
    def key(self) -> tuple[str, str, str]:
        """What it is called where line numbers may change."""
        return self.file, self.was, self.becomes


COMPARED: Mapping[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
OPERATED: Mapping[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitOr,
}
CALLED = {
    "min": "max",
    "max": "min",
    "minimum": "maximum",
    "maximum": "minimum",
    "ceil": "floor",
    "floor": "ceil",
    "any": "all",
    "all": "any",
}


def changed(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what a node may become: a copy for each fault."""
    if isinstance(node, ast.Compare):
        for place, operator in enumerate(node.ops):
            other = copy.deepcopy(node)
            other.ops[place] = COMPARED[type(operator)]()
            yield other
    elif isinstance(node, ast.BoolOp):
        yield ast.BoolOp(ast.And() if isinstance(node.op, ast.Or) else ast.Or(), node.values)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        yield node.operand
    elif isinstance(node, ast.BinOp) and type(node.op) in OPERATED and not _text(node):
        yield ast.BinOp(node.left, OPERATED[type(node.op)](), node.right)
    elif isinstance(node, ast.Constant):
        yield from map(ast.Constant, _other(node.value))
    elif isinstance(node, ast.Call):
        yield from _other_call(node)


def _other_call(node: ast.Call) -> Iterator[ast.AST]:
    """Yield the call of the opposite, as max for min."""
    other = copy.deepcopy(node)
    if isinstance(other.func, ast.Attribute) and other.func.attr in CALLED:
        other.func.attr = CALLED[other.func.attr]
        yield other
    elif isinstance(other.func, ast.Name) and other.func.id in CALLED:
        other.func.id = CALLED[other.func.id]
        yield other


def _other(value: object) -> Iterator[Any]:
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield value + 1
    elif isinstance(value, float):
        yield 2 * value if value else 1.0


def _text(node: ast.BinOp) -> bool:
    """Whether texts are put together."""
    parts = (node.left, node.right)
    return any(
        isinstance(part, ast.JoinedStr)
        or (isinstance(part, ast.Constant) and isinstance(part.value, str | bytes))
        for part in parts
    )


PASSED_OVER = (ast.JoinedStr, ast.Raise, ast.Import, ast.ImportFrom)
"""Messages, whose words no test repeats; texts in which nodes have no place."""
NAMED_OVER = {"strict", "frozen", "eq", "slots", "allow_nan", "copy"}
"""Arguments that only guard against mistakes of callers, or save time."""


def _walked(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes in which a fault is one of behaviour."""
    if isinstance(node, PASSED_OVER) or _only_for_types(node):
        return
    yield node
    for name, field in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "bases"):
            continue
        if isinstance(node, ast.keyword) and node.arg in NAMED_OVER:
            continue
        for child in field if isinstance(field, list) else [field]:
            if isinstance(child, ast.AST):
                yield from _walked(child)


def _only_for_types(node: ast.AST) -> bool:
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        return True
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("isinstance", "issubclass"):
        return True
    alias = isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr)
    return alias and bool(re.match(r"[A-Z]\w*(\[|\b)", ast.unparse(node)))


def faults_of(file: str, text: str) -> Iterator[Fault]:
    """Yield all faults of a file, in its order."""
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for node in _walked(ast.parse(text)):
        for other in changed(node):
            first = _place(text, starts, node.lineno, node.col_offset)  # type: ignore[attr-defined]
            last = _place(text, starts, node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]
            was, becomes = text[first:last], ast.unparse(ast.fix_missing_locations(other))
            yield Fault(file, node.lineno, was, becomes, first, last)  # type: ignore[attr-defined]


def _place(text: str, starts: Sequence[int], line: int, column: int) -> int:
    """Return where a node is, in characters: ast counts bytes of UTF-8."""
    row = text[starts[line - 1] : starts[line]]
    return starts[line - 1] + len(row.encode()[:column].decode())


def all_faults() -> list[Fault]:
    """Return all faults of the rooms."""
    return [
        fault
        for room in ROOMS
        for path in sorted((PACKAGE / room).rglob("*.py"))
        for fault in faults_of(str(path.relative_to(PACKAGE)), path.read_text(encoding="utf-8"))
    ]


def sampled(faults: Sequence[Fault], number: int, seed: int) -> list[Fault]:
    """Return so many of the faults, as many of each room as of the others, in random order."""
    rng = random.Random(seed)
    by_room: dict[str, list[Fault]] = defaultdict(list)
    for fault in faults:
        by_room[fault.file.split("/")[0]].append(fault)
    each = -(-number // max(1, len(by_room)))
    chosen = [one for room in by_room.values() for one in rng.sample(room, min(each, len(room)))]
    rng.shuffle(chosen)
    return chosen[:number]


# --- which tests ---------------------------------------------------------------------------------


class Recorder:
    """A plugin that notes how long each test takes, and says which one runs to what it starts."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        os.environ["MURMUR_TEST"] = item.nodeid

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if "PYTEST_XDIST_WORKER" not in os.environ:
            row = [report.nodeid, report.when, report.outcome, report.duration]
            with self._path.open("a") as file:
                file.write(json.dumps(row) + "\n")


def pytest_configure(config: pytest.Config) -> None:
    """Register the recorder: `-p tests.support.mutation`."""
    if path := os.environ.get("MURMUR_TIMES"):
        config.pluginmanager.register(Recorder(Path(path)))


SETTINGS = """[run]
source = murmuration
parallel = true
patch = subprocess
sigterm = true
context = ${MURMUR_TEST-}
"""


def make_map(arguments: Sequence[str]) -> None:
    """Run the tests with coverage, and write for each line which tests reach it."""
    from coverage import CoverageData

    shutil.rmtree(CACHE, ignore_errors=True)
    CACHE.mkdir()
    (CACHE / "rc").write_text(SETTINGS)
    environment = {
        **os.environ,
        "COVERAGE_FILE": str(CACHE / "data"),
        "MURMUR_TIMES": str(CACHE / "times"),
        "OPENBLAS_NUM_THREADS": "1",
    }
    chosen = arguments or ["-m", "not slow", "tests"]
    options = ["-q", "-p", "tests.support.mutation", "--cov", "--cov-context=test"]
    command = [sys.executable, "-m", "pytest", *options, f"--cov-config={CACHE / 'rc'}"]
    subprocess.run([*command, "--cov-report=", *chosen], cwd=ROOT, env=environment, check=False)
    data = CoverageData(str(CACHE / "data"))
    data.read()
    numbers: dict[str, int] = {}
    reached: dict[str, dict[int, list[int]]] = {}
    for file in data.measured_files():
        name = file.rpartition("/murmuration/")[2]
        for line, contexts in data.contexts_by_lineno(file).items():
            tests = [numbers.setdefault(test, len(numbers)) for test in sorted(_tests(contexts))]
            reached.setdefault(name, {})[line] = tests
    (CACHE / "map.json").write_text(json.dumps({"tests": [*numbers], "reached": reached}))


def _tests(contexts: Iterable[str]) -> set[str]:
    return {context.split("|")[0] for context in contexts} - {""}


@dataclass(frozen=True)
class Map:
    """Which tests reach which line, and how long they take."""

    names: Sequence[str]
    reached: Mapping[str, Mapping[str, Sequence[int]]]
    """File and line to the places of tests in `names`."""
    seconds: Mapping[str, float]

    @classmethod
    def read(cls) -> Map:
        """Read what `make_map` wrote; tests that did not pass are left out."""
        seconds: dict[str, float] = defaultdict(float)
        failed = set()
        for line in (CACHE / "times").read_text().splitlines():
            name, _, outcome, duration = json.loads(line)
            seconds[name] += duration
            if outcome != "passed":
                failed.add(name)
        kept = {name: took for name, took in seconds.items() if name not in failed}
        known = json.loads((CACHE / "map.json").read_text())
        return cls(known["tests"], known["reached"], kept)

    def tests(self, fault: Fault, lines: range, budget: float) -> list[str]:
        """Return the tests to run, those of the same room and the quickest first.

        A line that runs on import is reached by no test: then it is the whole file's tests.
        """
        own = self.reached.get(fault.file, {})
        found = {place for line in lines for place in own.get(str(line), ())}
        if not found:
            found = {place for places in own.values() for place in places}
        room, names = fault.file.split("/")[0], (self.names[place] for place in found)
        near = sorted(
            (name for name in names if name in self.seconds),
            key=lambda name: (f"/{room}/" not in name, self.seconds[name]),
        )
        return list(_within(near, self.seconds, budget))


def _within(names: Sequence[str], seconds: Mapping[str, float], budget: float) -> Iterator[str]:
    """Yield names until time is up; of each file a few first, as they look at different things."""
    by_file: dict[str, list[str]] = defaultdict(list)
    for name in names:
        by_file[name.split("::")[0]].append(name)
    left, count = budget, 0
    while by_file and left > 0 and count < MOST_TESTS:
        for file in [*by_file]:
            for name in by_file[file][:5]:
                left, count = left - seconds[name], count + 1
                yield name
            by_file[file] = by_file[file][5:]
            if not by_file[file]:
                del by_file[file]


# --- trying them ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tried:
    """A fault and what came of it."""

    file: str
    line: int
    was: str
    becomes: str
    outcome: str
    """killed, timeout, survived, equivalent (as judged), or unreached: no test gets there."""
    by: str
    """The test that saw it; or why it cannot be seen."""
    tests: int
    seconds: float


class Copies:
    """Copies of `src`, one for each process that tries faults, compiled once."""

    def __init__(self, folder: Path, number: int) -> None:
        self.free: Queue[Path] = Queue()
        for place in range(number):
            copied = folder / str(place)
            shutil.copytree(SRC, copied, ignore=shutil.ignore_patterns("__pycache__"))
            mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
            compileall.compile_dir(copied, quiet=2, invalidation_mode=mode)
            self.free.put(copied)


def tried(
    fault: Fault, tests: Sequence[str], limit: float, copies: Copies
) -> tuple[str, str, float]:
    """Plant a fault, run the tests, take it out again; return outcome, test and seconds."""
    folder = copies.free.get()
    path = folder / "murmuration" / fault.file
    text = path.read_text(encoding="utf-8")
    compiled = Path(importlib.util.cache_from_source(str(path)))
    kept = compiled.read_bytes()
    try:
        compiled.unlink()
        path.write_text(fault.planted(text), encoding="utf-8")
        return ran(tests, folder, limit)
    finally:
        path.write_text(text, encoding="utf-8")
        compiled.write_bytes(kept)
        copies.free.put(folder)


def ran(tests: Sequence[str], folder: Path, limit: float) -> tuple[str, str, float]:
    """Run tests on a copy of the source until one fails."""
    options = ["-x", "-q", "--no-header", "--tb=no", "-rfE", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *options, *tests]
    environment = {
        **os.environ,
        "PYTHONPATH": str(folder),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    start = time.monotonic()
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        process.wait()
        return "timeout", f"after {limit:.0f} s", time.monotonic() - start
    seconds = time.monotonic() - start
    if process.returncode == 0:
        return "survived", "", seconds
    seen = re.search(r"^(?:FAILED|ERROR) (\S+)", output, flags=re.M)
    return "killed", seen[1] if seen else output.strip().splitlines()[-1][:200], seconds


@dataclass(frozen=True)
class Judged:
    """Faults that change nothing that can be seen, and why."""

    rows: Sequence[Mapping[str, str]]

    @classmethod
    def read(cls) -> Judged:
        """Read what is judged; `at` is a part of the line, where a node alone says too little."""
        return cls(json.loads(JUDGED.read_text()) if JUDGED.exists() else [])

    def why(self, fault: Fault) -> str:
        """Return why a fault cannot be seen; empty if that is not known."""
        line = (PACKAGE / fault.file).read_text(encoding="utf-8").splitlines()[fault.line - 1]
        for row in self.rows:
            if (row["file"], row["was"], row["becomes"]) == fault.key and row.get("at", "") in line:
                return row["why"]
        return ""


def run(
    sample: int, seed: int, processes: int, budget: float, only: str, out: Path | None
) -> list[Tried]:
    """Try a sample of all faults and write the table."""
    everything = [fault for fault in all_faults() if fault.file.startswith(only)]
    chosen = sampled(everything, sample, seed)
    known, reached = Judged.read(), Map.read()
    with tempfile.TemporaryDirectory() as folder:
        copies = Copies(Path(folder), processes)

        def one(fault: Fault) -> Tried:
            head = (fault.file, fault.line, fault.was, fault.becomes)
            if why := known.why(fault):
                return Tried(*head, "equivalent", why, 0, 0.0)
            lines = range(fault.line, fault.line + fault.was.count("\n") + 1)
            tests = reached.tests(fault, lines, budget)
            if not tests:
                return Tried(*head, "unreached", "", 0, 0.0)
            expected = sum(reached.seconds[name] for name in tests)
            outcome, by, seconds = tried(fault, tests, SPARE + SLOWER * expected, copies)
            return Tried(*head, outcome, by, len(tests), round(seconds, 1))

        rows = []
        with ThreadPoolExecutor(processes) as pool:
            for row in pool.map(one, chosen):
                rows.append(row)
                text = f"{row.outcome:10} {row.file}:{row.line}  {row.was!r} -> {row.becomes!r}"
                print(f"{len(rows):4} {text[:150]} {row.by}", flush=True)  # noqa: T201
                if out is not None:
                    out.write_text(table(rows, seed, len(everything)))
    return rows


def table(rows: Sequence[Tried], seed: int, of: int) -> str:
    """Write what came of a sample as JSON."""
    counts = Counter(row.outcome for row in rows)
    seen = counts["killed"] + counts["timeout"]
    asked = len(rows) - counts["equivalent"]
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"],  # noqa: S607
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    head = {
        "commit": commit.stdout.strip(),
        "seed": seed,
        "sampled": len(rows),
        "of": of,
        "rooms": ROOMS,
        "outcomes": dict(sorted(counts.items())),
        "found": round(seen / max(1, asked), 4),
        "faults": [asdict(row) for row in rows],
    }
    return json.dumps(head, indent=1) + "\n"


def main() -> None:
    """Read the command line; what follows `map` is given to pytest."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["map", "run"])
    parser.add_argument("--sample", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--budget", type=float, default=BUDGET)
    parser.add_argument("--only", default="", help="files that begin with this")
    parser.add_argument("--out", type=Path)
    asked, given = parser.parse_known_args()
    if asked.what == "map":
        make_map(given)
        return
    if given:
        parser.error(f"unknown: {' '.join(given)}")
    if not (CACHE / "map.json").exists():
        make_map([])
    run(asked.sample, asked.seed, asked.processes, asked.budget, asked.only, asked.out)


if __name__ == "__main__":
    main()
