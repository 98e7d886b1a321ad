"""Privacy levels that people choose: the paper's setting, and levels that depend on the values.

    python -m experiments.evidence levels

First the setting of the MPLDP paper (five attributes of 5 to 25 items, three levels): the paper's
BRR, OC and OP against what can be deployed. OP is an oracle: its weights are fitted to the true
histogram. Then one attribute of many people, whose choice of a level depends more and more on
what they have: the plain sum does not mind, OC does, the guarded GLS must never be worse.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

from experiments.piece import Figures, Piece, Row, markdown
from murmuration.lab.levels import Setting, compare_levels

EPSILONS = (1.0, 3.0, 6.0)
SHIFTS = (0.0, 2.0, 5.0, 10.0, 20.0)
RUNS = 50
PAPER = list(product(("flat", "zipf"), EPSILONS, (1_000, 10_000)))
"""The paper's setting: data, epsilon, people."""
SHIFTED = list(product(("flat", "zipf"), (1.0, 3.0), SHIFTS))
"""One attribute of 100,000 people: data, epsilon, and how far levels depend on the values."""


def part(number: int) -> Row:
    """Measure the normalised squared error of each method in one setting."""
    if number < len(PAPER):
        data, epsilon, people = PAPER[number]
        setting, shifts = Setting(people=people, data=data), [0.0]
        case = f"{data}, epsilon {epsilon:g}, {people:,} people"
    else:
        data, epsilon, shift = SHIFTED[number - len(PAPER)]
        setting, shifts = Setting(people=100_000, data=data, sizes=(10,)), [shift]
        case = f"{data}, epsilon {epsilon:g}, shift {shift:g}"
    oracle = number < len(PAPER)
    setting = replace(setting, seed=number + 1)
    found = compare_levels(setting, [epsilon], RUNS, shifts, with_oracle=oracle)
    return {"case": case, "errors": {row.method: row.nse for row in found}}


def figures(rows: Sequence[Row]) -> Figures:
    """Return the error of each method in each setting."""
    return {f"{row['case']}, {name}": e for row in rows for name, e in row["errors"].items()}


SHOWN = {
    "plain sum (BRR)": "BRR",
    "OC, as published": "OC",
    "subset + generalised + simplex": "subset + GLS + simplex",
    "one attribute per person, subset + generalised + simplex": "sample 1 + subset + GLS + simplex",
}


def table(found: Figures) -> str:
    """Return the errors for 10,000 people at epsilon 1, flat and Zipf data."""

    def errors(method: str) -> list[float]:
        return [found[f"{data}, epsilon 1, 10,000 people, {method}"] for data in ("flat", "zipf")]

    published = errors("OC")
    lines = []
    for label, method in SHOWN.items():
        own = errors(method)
        parts = [error / oc for error, oc in zip(own, published, strict=True)]
        shares = " / ".join(f"{share:.2f}" for share in parts)
        lines.append([label, " / ".join(f"{error:,.0f}" for error in own), shares])
    return markdown(["", "NSE", "of OC"], lines)


PIECE = Piece(
    "ways to combine privacy levels that people choose: errors beside the MPLDP paper's",
    part,
    parts=len(PAPER) + len(SHIFTED),
    sample=(0, 12),
    figures=figures,
    table=table,
)
