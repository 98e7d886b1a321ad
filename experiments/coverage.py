"""How often intervals cover, and how wide they are, from 20 people on: a table, with fixed seeds.

    python -m experiments.coverage [--runs 200] [--only duchi,grr] [--cases]

Every mechanism for a number or an item, epsilon .5 to 16, 20 to 900 people, about the participants
and about a population they are drawn from, for crowds that are easy (spread out) and hard (nearly
all alike). Coverage is at nominal 95%, width in that of an interval of 1.96 true standard errors:
what one could have who knew the variance. A quarter of an hour on one core.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

import numpy as np

from experiments.piece import Figures, Piece, Row, markdown, require_share
from murmuration import mechanism, seeded_rng
from murmuration.mechanisms.tally import Tally

NUMBERS = (
    *("duchi", "three-output", "piecewise", "hybrid"),
    *("square-wave", "laplace", "dithered", "optimal"),
)
ITEMS = (
    *("grr", "oue", "sue", "subset", "olh"),
    *("hadamard", "hadamard-response", "projective", "memoised"),
)
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 16.0)
PEOPLE = (20, 100, 300, 900)
ABOUT = ("participants", "population")
K = 8
AGAIN = 10


@dataclass(frozen=True)
class Measured:
    """One case: a mechanism, a crowd, a number of people."""

    name: str
    epsilon: float
    crowd: str
    n: int
    about: str
    covered: float
    """On average over items."""
    lowest: float
    """The item that is covered least often."""
    width: float


def crowds(items: bool, draw: np.random.Generator) -> dict[str, Any]:
    """Return populations of 20,000 people."""
    n = 20_000
    if items:
        zipf = np.arange(1, K + 1) ** -1.2
        return {
            "flat": np.arange(n) % K,
            "zipf": draw.choice(K, n, p=zipf / zipf.sum()),
            "nearly all one": np.where(np.arange(n) % 50 == 0, 1, 0),
            "all one": np.zeros(n, dtype=int),
        }
    return {
        "uniform": np.linspace(-1, 1, n),
        "beta(5, 2)": 2 * draw.beta(5, 2, n) - 1,
        "95% at 1, 5% at -1": np.where(np.arange(n) % 20 == 0, -1.0, 1.0),
        "all at 0.3": np.full(n, 0.3),
        "all at 1": np.ones(n),
    }


def measure(
    name: str, epsilon: float, n: int, about: str, runs: int, seed: int = 7
) -> Iterator[Measured]:
    """Yield one row for each crowd."""
    items = name in ITEMS
    size = {"k": K} if items else {}
    law: Any = mechanism(name, epsilon=epsilon, **size)
    draw, rng = np.random.default_rng(5), seeded_rng(seed)
    for crowd, population in crowds(items, draw).items():
        # The same people in each run, or others each time.
        fixed = population[draw.integers(0, len(population), n)]
        people = (
            np.tile(fixed, runs)
            if about == "participants"
            else population[draw.integers(0, len(population), n * runs)]
        )
        reports = law.privatize(people, rng)
        counted = fixed if about == "participants" else population
        if items:
            truth: Any = np.bincount(counted, minlength=K) / len(counted)
            variance = law.variance(truth)
            spread = truth * (1 - truth)
        else:
            truth = np.array([counted.mean()])
            variance, spread = law.variance(counted).mean(), counted.var()
        ideal = 2 * 1.96 * np.sqrt((variance + (about == "population") * spread) / n)
        hits, widths = np.zeros(len(truth)), np.zeros(len(truth))
        for run in range(runs):
            tally = Tally(law, law.count(reports[run * n : (run + 1) * n]), n)
            low, high = (np.atleast_1d(end) for end in law.estimate(tally, about).interval())
            hits += (low <= truth) & (truth <= high)
            widths += high - low
        covered = hits / runs
        width = float(np.mean(widths / runs) / np.mean(ideal))
        yield Measured(
            name, epsilon, crowd, n, about, float(covered.mean()), float(covered.min()), width
        )


CASES = [
    case
    for case in product((*NUMBERS, *ITEMS), EPSILONS, PEOPLE, ABOUT)
    if not (case[0] == "optimal" and case[1] > 10)
]
RUNS = 200


def part(number: int) -> Row:
    """Measure one mechanism at one epsilon, for so many people, for each crowd."""
    return {"rows": [asdict(row) for row in measure(*CASES[number], RUNS, seed=1000 + number)]}


GROUPS: dict[str, tuple[str, tuple[float, ...]]] = {
    **{f"{n} people": ("n", (n,)) for n in PEOPLE},
    "epsilon .5 to 2": ("epsilon", (0.5, 1.0, 2.0)),
    **{f"epsilon {epsilon:g}": ("epsilon", (epsilon,)) for epsilon in (4.0, 8.0, 16.0)},
}
"""Cases that are shown together: by which column, and which values."""


def figures(parts: Sequence[Row]) -> Figures:
    """Return average coverage and median width of each group of cases."""
    cases = [case for row in parts for case in row["rows"]]
    found: Figures = {"cases": len(cases), "runs": RUNS}
    for kind in ("items", "numbers"):
        some = [case for case in cases if (case["name"] in ITEMS) == (kind == "items")]
        share = float(np.mean([case["covered"] for case in some]))
        require_share(share, 0.95, len(some) * RUNS, kind)
        found |= {f"{kind}, coverage": share, f"{kind}, lowest": min(c["lowest"] for c in some)}
        for group, (column, values) in GROUPS.items():
            if own := [case for case in some if case[column] in values]:
                found[f"{kind}, coverage, {group}"] = float(np.mean([c["covered"] for c in own]))
                found[f"{kind}, width, {group}"] = float(np.median([c["width"] for c in own]))
    return found


def table(found: Figures) -> str:
    """Return a table with a line for coverage and one for width."""
    lines = [
        [f"{kind}: {what}", *(f"{found[f'{kind}, {what}, {group}']:{form}}" for group in GROUPS)]
        for kind in ("items", "numbers")
        for what, form in (("coverage", ".3f"), ("width", ".2f"))
    ]
    return markdown(["", *GROUPS], lines)


PIECE = Piece(
    "how often intervals have the true value, by mechanism, epsilon, people and crowd",
    part,
    parts=len(CASES),
    sample=range(0, len(CASES), 41),
    figures=figures,
    table=table,
)


def show(rows: list[Measured], by: str) -> None:
    """Print average and lowest coverage and the widths, by one of the columns."""
    print(f"{by:22}{'coverage':>9}{'lowest':>9}{'width':>8}{'widest':>8}")
    for value in dict.fromkeys(getattr(row, by) for row in rows):
        some = [row for row in rows if getattr(row, by) == value]
        widths = [row.width for row in some]
        covered = [row.covered for row in some]
        print(
            f"{value!s:22}{np.mean(covered):9.3f}{min(row.lowest for row in some):9.3f}"
            f"{np.median(widths):8.2f}{max(widths):8.2f}"
        )
    print()


def _line(row: Measured) -> str:
    head = f"{row.name:18}{row.epsilon:<6g}{row.n:<5}{row.about:13}{row.crowd:22}"
    return f"{head}{row.covered:7.3f}{row.lowest:7.3f}{row.width:8.2f}"


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--only", default="")
    parser.add_argument("--cases", action="store_true", help="print every case")
    options = parser.parse_args()
    wanted = options.only.split(",") if options.only else [*NUMBERS, *ITEMS]
    rows = [
        row
        for name in wanted
        for epsilon in EPSILONS
        if not (name == "optimal" and epsilon > 10)
        for n in PEOPLE
        for about in ABOUT
        for row in measure(name, epsilon, n, about, options.runs)
    ]
    if options.cases:
        for row in rows:
            print(_line(row))
    noise = 4 * math.sqrt(0.95 * 0.05 / options.runs)
    print(f"{len(rows)} cases, {options.runs} runs each: one case is known to {noise:.3f}\n")
    for by in ("about", "n", "epsilon", "name", "crowd"):
        for items in (False, True):
            some = [row for row in rows if (row.name in ITEMS) == items]
            if some:
                print("items" if items else "numbers")
                show(some, by)
    print(f"the {AGAIN} lowest, measured again with {AGAIN} times the runs and another seed")
    for row in sorted(rows, key=lambda row: row.lowest)[:AGAIN]:
        case = (row.name, row.epsilon, row.n, row.about)
        (again,) = (
            one for one in measure(*case, AGAIN * options.runs, 8) if one.crowd == row.crowd
        )
        print(_line(row), "->", f"{again.covered:.3f} {again.lowest:.3f}", flush=True)


if __name__ == "__main__":
    main()
