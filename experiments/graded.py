"""HierA's setting: five ranges, budgets 5e .. e, and everything that can be asked of it.

    python -m experiments.evidence graded

Mean absolute error x 10,000 of the mean, n = 100,000, 400 collections, on the paper's three kinds
of data. The exponential data are clip(Exp(0.3), -1, 1).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from experiments.piece import Figures, Piece, Row, markdown
from murmuration import seeded_rng
from murmuration.exact.arrays import Floats
from murmuration.lab.graded import GradedComparison, Layout, compare
from murmuration.mechanisms.graded.hiera import Hiera

PEOPLE, RUNS = 100_000, 20
KINDS = ("uniform", "gaussian", "exponential")
EPSILONS = (0.1, 0.5, 1.0)
LAYOUT = Layout((5.0, 4.0, 3.0, 2.0, 1.0), (-0.6, -0.2, 0.2, 0.6))


def compared(values: Floats, runs: int, seed: int) -> Iterator[list[GradedComparison]]:
    """Yield the rows of each epsilon."""
    return compare(values, LAYOUT, EPSILONS, runs, seed)


def crowds() -> dict[str, Floats]:
    """Return the people of the paper's three kinds of data: the same at each call."""
    draw = np.random.default_rng(1)
    return {
        "uniform": draw.uniform(-1, 1, PEOPLE),
        "gaussian": np.clip(draw.normal(0.3, 0.2, PEOPLE), -1, 1),
        "exponential": np.clip(draw.exponential(0.3, PEOPLE), -1, 1),
    }


def likelihood(values: Floats, runs: int, seed: int) -> float:
    """Return the error of the likelihood reading of hiera's reports by the usual one's, e = .1."""
    hiera, rng = Hiera(LAYOUT.budgets(0.1), LAYOUT.edges), seeded_rng(seed)
    errors = np.zeros((runs, 2))
    for run in range(runs):
        tally = hiera.tally(hiera.privatize(values, rng))
        found = hiera.estimate(tally).value, hiera.likelihood(tally).value
        errors[run] = np.abs(np.array(found) - values.mean())
    plain, likely = errors.mean(axis=0)
    return float(likely / plain)


def part(number: int) -> Row:
    """Compare all ways on one kind of data."""
    turn, kind = divmod(number, len(KINDS))
    values = crowds()[KINDS[kind]]
    rows = [row for rows in compared(values, RUNS, number) for row in rows]
    errors = {f"epsilon {row.epsilon:g}, {row.label}": row.error * 1e4 for row in rows}
    losses = {f"epsilon {row.epsilon:g}, {row.label}": row.loss for row in rows}
    likely = likelihood(values, RUNS, 700 + number)
    return {"kind": KINDS[kind], "turn": turn, "errors": errors, "losses": losses, "likely": likely}


def figures(rows: Sequence[Row]) -> Figures:
    """Return mean absolute errors x 10,000 and exact losses."""
    found: Figures = {}
    for kind in dict.fromkeys(row["kind"] for row in rows):
        own = [row for row in rows if row["kind"] == kind]
        for name in own[0]["errors"]:
            found[f"{name}, {kind}"] = float(np.mean([row["errors"][name] for row in own]))
            found[f"{name}, loss"] = own[0]["losses"][name]
        found[f"likelihood, {kind}"] = float(np.mean([row["likely"] for row in own]))
    return found


def table(found: Figures) -> str:
    """Return a table with a line for each way, at e = 0.1."""
    names = [
        name.removesuffix(", loss")
        for name in found
        if name.startswith("epsilon 0.1, ") and name.endswith(", loss")
    ]
    lines = [
        [
            name.removeprefix("epsilon 0.1, "),
            " / ".join(f"{found[f'{name}, {kind}']:.0f}" for kind in KINDS),
            f"{found[f'{name}, loss']:.4g}",
        ]
        for name in names
    ]
    return markdown(["", "error, " + " / ".join(KINDS), "exact loss where 0.5 is promised"], lines)


PIECE = Piece(
    "errors of the mean on graded ranges, in the layout of the HierA paper",
    part,
    parts=20 * len(KINDS),
    sample=(0,),
    figures=figures,
    table=table,
)
