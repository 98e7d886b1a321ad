"""What private learning costs, by defaults only, on simulated and on real people.

    .venv/bin/python -m experiments.learning --quick          some of it, two minutes
    .venv/bin/python -m experiments.learning                  all of it, with two processes
    .venv/bin/python -m experiments.learning --parts tasks --tasks income hours --epsilons 1 4
    .venv/bin/python -m experiments.learning --plot --json learning.json

Four parts, one after the other:

- tasks     each task by epsilon: the constant, ours (defaults only), an oracle, and the model
            without privacy; ours' private score with its interval beside the true one
- rounds    accuracy against `rounds=`, which caps how often people are asked
- coverage  how often the interval of the private score has the true one, over 200 fits
- papers    the papers' mechanisms and schedules, and `FewRounds`, on simulated numbers

Everything is the mean of five runs; a run is an order of people and its noise (for simulated
people also a data set). The oracle is a fixed setting of PrivUnit that was found by search on the
held-out people themselves (`learning_oracle.py`). Progress goes to stderr. --plot writes
docs/learning.png from the parts `tasks` and `rounds`.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from experiments import learning_tasks as tasks
from experiments.learning_oracle import averaged, oracle
from experiments.learning_tasks import REAL, TASKS, fitted, measured, people, told
from murmuration import learn
from murmuration.files import ANYBODY, write_file

EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
RUNS = (1, 2, 3, 4, 5)
CAPS = (10, 14, 20, None)
ROUND_EPSILONS = (1.0, 4.0)
FITS, SMALL, JUDGES = 200, 6_000, 200_000
"""Of the coverage: how often, how many people, and how many tell the true score."""

Row = dict[str, Any]


@dataclass
class Wanted:
    """What is run."""

    tasks: Sequence[str] = tuple(TASKS)
    epsilons: Sequence[float] = EPSILONS
    runs: Sequence[int] = RUNS
    caps: Sequence[int | None] = CAPS
    round_tasks: Sequence[str] = REAL
    fits: int = FITS
    dimensions: Sequence[int] = (10, 90)
    found: dict[str, list[Row]] = field(default_factory=dict)


def quick() -> Wanted:
    """Return what two minutes suffice for."""
    return Wanted(
        tasks=("linear-10", "income", "hours"),
        epsilons=(1.0, 4.0),
        runs=(1, 2),
        caps=(10, None),
        round_tasks=("income",),
        fits=20,
        dimensions=(10,),
    )


# --- what a process is given to do -------------------------------------------------------------


def ours(task: str, epsilon: float, run: int, cap: int | None = None) -> Row:
    """Return the measures of one private model, and its private score beside the true one."""
    data = people(task, run)
    before = time.perf_counter()
    model = fitted(data, epsilon, run, rounds=cap)
    seconds = time.perf_counter() - before
    low, high = model.score_.interval()
    return {
        **measured(data, told(model, data)),
        "rounds": model.n_iter_,
        "seconds": seconds,
        "score": model.score_.value,
        "low": low,
        "high": high,
        "true": model.true_score(data.x_test, data.y_test),
    }


def known(task: str, epsilon: float, runs: Sequence[int]) -> Row:
    """Return the constant, the oracle, the model without privacy, and what the level costs."""
    every = [people(task, run) for run in runs] if task not in REAL else [people(task, 0)]
    setting, best = oracle(task, epsilon, runs)
    return {
        "constant": averaged([tasks.constant(data) for data in every]),
        "oracle": best,
        "setting": setting,
        "without privacy": averaged([tasks.without_privacy(data) for data in every]),
        "level": tasks.level_cost(every[0], epsilon),
    }


def covered(kind: str, fit: int) -> Row:
    """Return whether the interval of a small model's score has the true one."""
    make = tasks.linear if kind == "number" else tasks.logistic
    x, y = make(3, SMALL + JUDGES, 10_000 + fit)
    data = tasks.Data(x[:SMALL], y[:SMALL], x[SMALL:], y[SMALL:])
    model = fitted(data, 4.0, fit)
    low, high = model.score_.interval()
    true = model.true_score(data.x_test, data.y_test)
    return {"covered": bool(low <= true <= high), "width": high - low, "true": true}


CONTESTANTS: tuple[tuple[str, str, Any], ...] = (
    ("default", "auto", None),
    ("privunit, FewRounds", "privunit", learn.FewRounds()),
    ("block, FewRounds", "block", learn.FewRounds()),
    ("harmony, FewRounds", "harmony", learn.FewRounds()),
    ("piecewise, FewRounds", "piecewise", learn.FewRounds()),
    ("duchi-multi, FewRounds", "duchi-multi", learn.FewRounds()),
    ("harmony, papers' schedule", "harmony", learn.MiniBatches()),
    ("piecewise, papers' schedule", "piecewise", learn.MiniBatches()),
    ("duchi-multi, papers' schedule", "duchi-multi", learn.MiniBatches()),
)


def contest(place: int, d: int, epsilon: float, run: int) -> float:
    """Return the error of one way to train, on simulated numbers."""
    _, mechanism, schedule = CONTESTANTS[place]
    data = people(f"linear-{d}", run)
    model = fitted(data, epsilon, run, mechanism=mechanism, schedule=schedule)
    return measured(data, told(model, data))["MSE"]


class Workers:
    """Some processes that do jobs; each keeps to one core."""

    def __init__(self, pool: ProcessPoolExecutor) -> None:
        self.pool = pool

    @staticmethod
    def started(processes: int) -> ProcessPoolExecutor:
        """Return processes that have read how many threads they may use."""
        os.environ["OPENBLAS_NUM_THREADS"] = "1"
        return ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn"))

    def all(
        self, title: str, job: Callable[..., Any], given: Iterable[tuple[Any, ...]]
    ) -> list[Any]:
        """Return what each job returns, in order; say on stderr how far it is."""
        started = time.perf_counter()
        jobs = [self.pool.submit(job, *arguments) for arguments in given]
        for done, future in enumerate(as_completed(jobs), start=1):
            future.result()  # a failure ends all
            took = time.perf_counter() - started
            print(f"\r{title}: {done} of {len(jobs)}, {took:.0f} s ", end="", file=sys.stderr)
        print(file=sys.stderr)
        return [future.result() for future in jobs]


# --- the parts ---------------------------------------------------------------------------------


def run_tasks(wanted: Wanted, workers: Workers) -> None:
    """Print every task by epsilon, then what the issue asks for."""
    rows: list[Row] = []
    for task in wanted.tasks:
        cells = [(task, epsilon) for epsilon in wanted.epsilons]
        best = workers.all(f"{task}, oracle", known, [(*cell, wanted.runs) for cell in cells])
        each = [(*cell, run) for cell in cells for run in wanted.runs]
        fits = workers.all(f"{task}, ours", ours, each)
        for place, (_, epsilon) in enumerate(cells):
            runs = fits[place * len(wanted.runs) : (place + 1) * len(wanted.runs)]
            rows.append({"task": task, "epsilon": epsilon, **best[place], "runs": runs})
            rows[-1]["ours"] = averaged([_measures(task, run) for run in runs])
        print_task(task, rows[-len(cells) :])
    wanted.found["tasks"] = rows
    print_shares(rows)


def _measures(task: str, run: Row) -> dict[str, float]:
    return {name: float(run[name]) for name in TASKS[task].measures}


WHO = ("constant", "ours", "oracle", "without privacy")


def print_task(task: str, rows: list[Row]) -> None:
    """Print one table for each measure, and the private scores."""
    data = people(task, 1)
    n, d = data.x.shape
    print(f"\n{TASKS[task].title}: {n:,} people, {d} columns, {len(data.y_test):,} held out")
    for measure in TASKS[task].measures:
        print(f"\n  {measure:24}" + "".join(f"{f'eps {e:g}':>10}" for e in _epsilons(rows)))
        for who in WHO:
            print(f"  {who:24}" + "".join(f"{row[who][measure]:10.4f}" for row in rows))
    print()
    for name, form in (("rounds", "10.1f"), ("seconds", "10.1f")):
        means = [np.mean([run[name] for run in row["runs"]]) for row in rows]
        print(f"  {name:24}" + "".join(f"{mean:{form}}" for mean in means))
    print("\n  the oracle's settings")
    for row in rows:
        print(f"  eps {row['epsilon']:<6g}{row['setting']}")
    print("\n  private score of the first run, beside the same score of those held out")
    for row in rows:
        one = row["runs"][0]
        interval = f"{one['low']:.4f} to {one['high']:.4f}"
        print(
            f"  eps {row['epsilon']:<6g}{one['score']:10.4f}   {interval:22} true {one['true']:.4f}"
        )
    sys.stdout.flush()


def print_shares(rows: list[Row]) -> None:
    """Print how ours compares to the constant and to the oracle, cell by cell."""
    print(
        "\nbelow the constant (at most .01 in R2, .005 otherwise, or what the level alone costs),"
    )
    print("and the part of the oracle's gain over the constant, where that is .05 or more")
    print(f"  {'task':14}{'measure':10}" + "".join(f"{f'eps {e:g}':>18}" for e in _epsilons(rows)))
    missed = 0
    for task in dict.fromkeys(row["task"] for row in rows):
        mine = [row for row in rows if row["task"] == task]
        for measure in TASKS[task].measures:
            if measure != "MSE":  # it says what R2 says
                cells = [share(row, measure) for row in mine]
                missed += sum("!" in cell for cell in cells)
                print(f"  {task:14}{measure:10}" + "".join(f"{cell:>18}" for cell in cells))
    print(f"  ! marks what falls short of the constant, or of 80% of the oracle: {missed} cells")


def _epsilons(rows: list[Row]) -> list[float]:
    return list(dict.fromkeys(row["epsilon"] for row in rows))


def share(row: Row, measure: str) -> str:
    """Return by how much ours is above the constant, and which part of the oracle's gain that is.

    >>> row = {"constant": {"R2": 0.0}, "ours": {"R2": 0.3}, "oracle": {"R2": 0.4}, "level": 0.001}
    >>> share(row, "R2")
    '+0.3000 75%!'
    """
    sign = -1 if measure == "log loss" else 1
    mine, best = (
        sign * (row[who][measure] - row["constant"][measure]) for who in ("ours", "oracle")
    )
    least = {"R2": -max(0.01, row["level"]), "log loss": -max(0.005, row["level"])}
    text = f"{mine:+.4f}" + ("!" if mine < least.get(measure, -0.005) else "")
    if best < 0.05:
        return text
    return f"{text} {mine / best:.0%}" + ("!" if mine < 0.8 * best else "")


def run_rounds(wanted: Wanted, workers: Workers) -> None:
    """Print the first measure of real tasks against the cap of rounds."""
    epsilons = [epsilon for epsilon in ROUND_EPSILONS if epsilon in wanted.epsilons]
    print(
        "\nrounds=, which caps how often people are asked: the measure, and how many rounds it took"
    )
    heads = ["default" if cap is None else str(cap) for cap in wanted.caps]
    print(f"  {'task':12}{'measure':10}{'eps':>5}" + "".join(f"{head:>16}" for head in heads))
    rows: list[Row] = []
    for task in wanted.round_tasks:
        for epsilon in epsilons:
            each = [(task, epsilon, run, cap) for cap in wanted.caps for run in wanted.runs]
            fits = workers.all(f"{task}, rounds", ours, each)
            measure, runs = TASKS[task].measures[0], len(wanted.runs)
            for place, cap in enumerate(wanted.caps):
                some = fits[place * runs : (place + 1) * runs]
                means = {
                    name: float(np.mean([fit[name] for fit in some]))
                    for name in (measure, "rounds")
                }
                rows.append({"task": task, "epsilon": epsilon, "cap": cap, **means})
            line = [
                f"{row[measure]:.4f} ({row['rounds']:.1f})" for row in rows[-len(wanted.caps) :]
            ]
            print(f"  {task:12}{measure:10}{epsilon:5g}" + "".join(f"{cell:>16}" for cell in line))
    wanted.found["rounds"] = rows


def run_coverage(wanted: Wanted, workers: Workers) -> None:
    """Print how often the interval of the private score has the true one."""
    print(f"\nthe private score's 95% interval, {SMALL:,} people, 3 features, epsilon 4")
    rows: list[Row] = []
    for kind in ("number", "classes"):
        each = [(kind, fit) for fit in range(wanted.fits)]
        fits = workers.all(f"coverage, {kind}", covered, each)
        inside = sum(fit["covered"] for fit in fits)
        width = float(np.mean([fit["width"] for fit in fits]))
        rows.append({"kind": kind, "covered": inside, "fits": len(fits), "width": width})
        print(f"  {kind:10} has the true score in {inside} of {len(fits)} fits, width {width:.4f}")
    wanted.found["coverage"] = rows


def run_papers(wanted: Wanted, workers: Workers) -> None:
    """Print held-out errors of simulated numbers by mechanism and schedule."""
    cells = [(10, 0.5), (10, 1.0), (90, 1.0), (90, 2.0), (90, 4.0)]
    cells = [cell for cell in cells if cell[0] in wanted.dimensions]
    print("\nmean squared error of simulated numbers (noise .010, without a model .10)")
    print(f"  {'':30}" + "".join(f"{f'd={d}, eps {e:g}':>16}" for d, e in cells))
    rows: list[Row] = []
    for place, (label, *_) in enumerate(CONTESTANTS):
        each = [(place, d, epsilon, run) for d, epsilon in cells for run in wanted.runs]
        errors = np.reshape(workers.all(label, contest, each), (len(cells), -1)).mean(axis=1)
        rows += [
            {"label": label, "d": d, "epsilon": epsilon, "MSE": float(error)}
            for (d, epsilon), error in zip(cells, errors, strict=True)
        ]
        print(f"  {label:30}" + "".join(f"{error:16.4f}" for error in errors), flush=True)
    wanted.found["papers"] = rows


PARTS: dict[str, Callable[[Wanted, Workers], None]] = {
    "tasks": run_tasks,
    "rounds": run_rounds,
    "coverage": run_coverage,
    "papers": run_papers,
}


# --- the figure --------------------------------------------------------------------------------


def draw(found: dict[str, list[Row]], path: Path) -> None:
    """Plot the first measure of real tasks against epsilon and against rounds."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    real = [task for task in REAL if any(row["task"] == task for row in found.get("tasks", []))]
    if not real:
        raise SystemExit("--plot needs the part `tasks` with a real task")
    figure, panels = plt.subplots(2, len(real), figsize=(4.2 * len(real), 7.6), squeeze=False)
    for column, task in enumerate(real):
        by_epsilon(panels[0, column], task, [row for row in found["tasks"] if row["task"] == task])
        curve = [row for row in found.get("rounds", []) if row["task"] == task]
        if curve:
            by_rounds(panels[1, column], task, curve)
        else:
            panels[1, column].axis("off")
    figure.suptitle("Real people, defaults only, mean of the runs")
    figure.tight_layout()
    figure.savefig(path, dpi=110, bbox_inches="tight")


STYLES: dict[str, dict[str, Any]] = {
    "ours": {"marker": "o"},
    "oracle": {"marker": ".", "ls": "--", "color": "gray"},
    "without privacy": {"color": "black", "ls": "--", "lw": 1},
    "constant": {"color": "black", "ls": ":", "lw": 1},
}


def by_epsilon(axes: Any, task: str, rows: list[Row]) -> None:
    """Draw ours between the constant, the oracle and no privacy."""
    measure = TASKS[task].measures[0]
    epsilons = [row["epsilon"] for row in rows]
    for who, style in STYLES.items():
        axes.plot(epsilons, [row[who][measure] for row in rows], label=who, **style)
    axes.set(xscale="log", xlabel="epsilon", ylabel=measure, title=TASKS[task].title)
    axes.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)


def by_rounds(axes: Any, task: str, rows: list[Row]) -> None:
    """Draw the measure against the rounds that were needed."""
    measure = TASKS[task].measures[0]
    for epsilon in dict.fromkeys(row["epsilon"] for row in rows):
        line = [row for row in rows if row["epsilon"] == epsilon]
        xs, ys = [row["rounds"] for row in line], [row[measure] for row in line]
        axes.plot(xs, ys, marker="o", label=f"epsilon {epsilon:g}")
    axes.set(xlabel="rounds (rounds= caps them)", ylabel=measure)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)


# --- the command -------------------------------------------------------------------------------


def chosen(arguments: argparse.Namespace) -> Wanted:
    """Return what the arguments ask for."""
    wanted = quick() if arguments.quick else Wanted()
    wanted.tasks = arguments.tasks or wanted.tasks
    wanted.epsilons = arguments.epsilons or wanted.epsilons
    wanted.runs = wanted.runs if arguments.runs is None else range(1, arguments.runs + 1)
    return wanted


def parsed() -> argparse.Namespace:
    """Return the arguments."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a subset, in two minutes")
    parser.add_argument("--parts", nargs="+", choices=tuple(PARTS), default=tuple(PARTS))
    parser.add_argument("--tasks", nargs="+", choices=tuple(TASKS))
    parser.add_argument("--epsilons", nargs="+", type=float)
    parser.add_argument("--runs", type=int, help="how many instead of five")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    parser.add_argument("--plot", action="store_true", help="write docs/learning.png")
    return parser.parse_args()


def main() -> None:
    """Run the parts that are asked for."""
    arguments, started = parsed(), time.perf_counter()
    wanted = chosen(arguments)
    with Workers.started(arguments.processes) as pool:
        for part in arguments.parts:
            PARTS[part](wanted, Workers(pool))
    if arguments.json is not None:
        write_file(arguments.json, json.dumps(wanted.found, indent=1) + "\n", ANYBODY)
    if arguments.plot:
        draw(wanted.found, Path("docs/learning.png"))
    print(f"\n{time.perf_counter() - started:.0f} s with {arguments.processes} processes")


if __name__ == "__main__":
    main()
