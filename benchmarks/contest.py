"""Ours and other packages by one procedure: the same people, clock, error and memory for all.

An `Entry` is a few lines for one protocol of one package, which only call its public names:

    prepare   runs once with `np`, `X` (what people have), `K` (how many items or coordinates) and
              `EPS` in its namespace, and compiles what the package compiles lazily
    device    randomises everybody in `X` into `R`
    collect   turns `R` into the estimate `H` (shares, means); it may be run again

Each package runs in a process and a folder of its own, .bench/NAME (they pin versions against each
other); ours in this Python. What counts is the processor time of the best of a few rounds, as other
work may be on the machine; the clock on the wall where a package starts processes of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

HOME = Path(".bench")
OURS = "murmuration"
EPSILON = 1.0
SECONDS = 240.0
"""What one package may take for all that it is tried on."""


@dataclass(frozen=True)
class Entry:
    """One protocol of one package."""

    package: str
    requires: tuple[str, ...]
    task: str
    """number, item, vector or survey (items of several attributes)."""
    protocol: str
    prepare: str
    device: str
    collect: str = ""
    people: int = 100_000
    """How many are timed, at 1,024 items or coordinates at most."""
    sizes: tuple[int, ...] = (1,)
    wide: bool = False
    """Whether a report's cost grows with K: then fewer people are timed at the largest."""
    secure: bool = False
    wall: bool = False


SCRIPT = r"""
import json, sys, time, tracemalloc
import numpy as np

def people_of(task, k, n):
    draw = np.random.default_rng(1)
    if task == "number":
        return draw.uniform(-1, 1, n)
    if task == "item":
        shares = 1 / np.arange(1, k + 1)
        return draw.choice(k, n, p=shares / shares.sum())
    if task == "vector":
        return draw.uniform(-1, 1, (n, k))
    return draw.integers(0, 16, (n, k))

def peak(entry, space):
    # bytes a person that both sides hold at most, beside what the people have
    tracemalloc.start()
    for code in (entry["device"], entry["collect"]):
        exec(code, space)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most / len(space["X"])

def error(task, x, h, k):
    if task != "item":
        return None
    h = np.asarray(h, dtype=float)
    return float(len(x) * ((h - np.bincount(x, minlength=k) / len(x)) ** 2).sum())

def tried(entry, k, n, eps, rounds):
    space = {"np": np, "X": people_of(entry["task"], k, n), "K": k, "EPS": eps}
    exec(entry["prepare"], space)
    clock = time.perf_counter if entry["wall"] else time.process_time
    best, errors = {}, []
    for _ in range(rounds):
        for side, code in (("device", entry["device"]), ("collector", entry["collect"])):
            if code:
                start = clock()
                exec(code, space)
                best[side] = min(best.get(side, 1e9), clock() - start)
        if entry["collect"]:
            errors.append(error(entry["task"], space["X"], space["H"], k))
    mean = None if None in errors or not errors else sum(errors) / len(errors)
    rates = {side: n / max(taken, 1e-9) for side, taken in best.items()}
    return {**rates, "n_error": mean, "bytes": peak(entry, space)}

for job in json.load(sys.stdin):
    entry, (k, n) = job["entry"], job["size"]
    row = {"package": entry["package"], "task": entry["task"], "protocol": entry["protocol"]}
    row |= {"k": k, "people": n, "secure": entry["secure"]}
    try:
        row |= tried(entry, k, n, job["epsilon"], job["rounds"])
    except Exception as problem:
        row["fails"] = f"{type(problem).__name__}: {problem}"[:120]
    print(json.dumps(row), flush=True)
"""


def timed(entry: Entry, k: int) -> int:
    """Return how many people to time."""
    return max(200, entry.people * 1024 // k) if entry.wide and k > 1024 else entry.people


def run(entries: Sequence[Entry], rounds: int = 3) -> list[dict[str, Any]]:
    """Try all entries of one package, all their sizes; a row of numbers for each."""
    package, requires = entries[0].package, entries[0].requires
    jobs = [
        {"entry": asdict(e), "size": (k, timed(e, k)), "epsilon": EPSILON, "rounds": rounds}
        for e in entries
        for k in e.sizes
    ]
    try:
        python = sys.executable if package == OURS else _installed(package, requires)
        done = subprocess.run(  # noqa: S603
            [python, "-c", SCRIPT],
            input=json.dumps(jobs),
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        lines, said = done.stdout, done.stderr
    except subprocess.TimeoutExpired as late:
        lines, said = bytes(late.stdout or b"").decode(), f"stopped after {SECONDS:g} s"
    except subprocess.CalledProcessError as problem:
        lines, said = "", problem.stderr
    rows = [json.loads(line) for line in lines.splitlines() if line.startswith("{")]
    if len(rows) < len(jobs):
        print(f"{package}: {len(jobs) - len(rows)} not measured: {said[-300:]}", file=sys.stderr)
    return rows


def _installed(package: str, requires: tuple[str, ...]) -> str:
    """Return the package's own Python; installed when it is first asked for."""
    python = HOME / package / "bin" / "python"
    if not python.exists():
        for command in (
            [sys.executable, "-m", "venv", str(HOME / package)],
            [str(python), "-m", "pip", "install", "-q", *requires],
        ):
            subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
    return str(python)
