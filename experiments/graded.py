"""HierA's setting: five ranges, budgets 5e .. e, and everything that can be asked of it.

    .venv/bin/python -m experiments.graded

Mean absolute error x 10,000 of the mean, n = 100,000, 400 collections, on the paper's three kinds
of data. The exponential data are clip(Exp(0.3), -1, 1), as in the design sheet. Takes about two
minutes.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from murmuration import seeded_rng
from murmuration.exact.arrays import Floats
from murmuration.lab.graded import GradedComparison, Layout, compare
from murmuration.mechanisms.graded.hiera import Hiera

PEOPLE, RUNS = 100_000, 400
EPSILONS = (0.1, 0.5, 1.0)
LAYOUT = Layout((5.0, 4.0, 3.0, 2.0, 1.0), (-0.6, -0.2, 0.2, 0.6))


def _compared(values: Floats, seed: int) -> Iterator[list[GradedComparison]]:
    return compare(values, LAYOUT, EPSILONS, RUNS, seed)


def main() -> None:
    """Print one table: a line for each way to the mean, a column for each kind of data."""
    draw = np.random.default_rng(1)
    crowds = {
        "uniform": draw.uniform(-1, 1, PEOPLE),
        "gaussian(.3, .2)": np.clip(draw.normal(0.3, 0.2, PEOPLE), -1, 1),
        "exponential(.3)": np.clip(draw.exponential(0.3, PEOPLE), -1, 1),
    }
    found = {
        name: [row for rows in _compared(values, seed) for row in rows]
        for seed, (name, values) in enumerate(crowds.items())
    }
    print(f"{'epsilon':8}{'':24}" + "".join(f"{name:>20}" for name in crowds) + "   kept")
    for lines in zip(*found.values(), strict=True):
        errors = "".join(f"{row.error * 1e4:14.0f} ± {row.stderr * 1e4:3.0f}" for row in lines)
        print(f"{lines[0].epsilon:<8g}{lines[0].label:24}{errors}   {lines[0].kept}")


def likelihood(runs: int = 2500) -> None:
    """Print how much of hiera's error the likelihood reading of the same reports has, at e = .1."""
    hiera, draw = Hiera(LAYOUT.budgets(0.1), LAYOUT.edges), np.random.default_rng(900)
    crowds = (
        draw.uniform(-1, 1, PEOPLE),
        np.clip(draw.normal(0.3, 0.2, PEOPLE), -1, 1),
        np.clip(draw.exponential(0.3, PEOPLE), -1, 1),
    )
    for seed, values in enumerate(crowds):
        rng, errors = seeded_rng(700 + seed), np.zeros((runs, 2))
        for run in range(runs):
            tally = hiera.tally(hiera.privatize(values, rng))
            found = hiera.estimate(tally).value, hiera.likelihood(tally).value
            errors[run] = np.abs(np.array(found) - values.mean())
        plain, likely = errors.mean(axis=0)
        print(f"likelihood / unbiased, {runs} runs: {likely / plain:.3f}", flush=True)


if __name__ == "__main__":
    main()
    likelihood()
