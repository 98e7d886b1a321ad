"""Real households: what there is to learn, and means and shares collected from them.

    python -m experiments.census [--runs 10]

First what a linear model finds without privacy: the mark for private learning. Then Harmony's
first experiment on this data: one report from each household about its 14 attributes, numbers and
items mixed. `hybrid-composition` is the paper's baseline, a part of the budget for every attribute.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from experiments.census_data import Census, load
from murmuration import Mechanism, mechanism, seeded_rng
from murmuration.exact.arrays import Floats
from murmuration.exact.randomness import Rng
from murmuration.learn.columns import Category

EPSILONS = (0.5, 1.0, 2.0, 4.0)
METHODS: dict[str, dict[str, Any]] = {
    "hybrid-composition": {},
    "harmony": {},
    "sampled": {"sample": 1, "numeric": "hybrid"},
}


def describe(data: Census) -> None:
    """Print the size of the data and what least squares and its sign get right."""
    n, width = data.x.shape
    print(f"{n:,} households, {len(data.encoder.columns)} attributes, {width} encoded columns")
    wages, label = fitted(data.x, data.wages), fitted(data.x, data.labels.astype(np.float64))
    mse, variance = np.mean((wages - data.wages) ** 2), np.var(data.wages)
    print(f"wages: variance {variance:.4f}; least squares leaves {mse:.4f}")
    wrong, fewer = np.mean(np.sign(label) != data.labels), np.mean(data.labels == 1)
    print(f"50,000 or more: {fewer:.1%}; the sign of least squares is wrong for {wrong:.1%}\n")


def fitted(x: Floats, y: Floats) -> Floats:
    """Return what the best linear function of x, with an intercept, says about y."""
    columns = np.column_stack([x, np.ones(len(x))])
    return np.asarray(columns @ np.linalg.lstsq(columns, y, rcond=None)[0])


def attributes(data: Census) -> tuple[tuple[int, ...], list[np.ndarray]]:
    """Return each attribute's domain (0 or k) and its values (numbers in [-1, 1] or items)."""
    domains: list[int] = []
    values: list[np.ndarray] = []
    for name, column in data.encoder.asked.items():
        if isinstance(column, Category):
            domains.append(len(column.values))
            values.append(column.items(data.table[name]))
        else:
            domains.append(0)
            values.append(column.encode(data.table[name])[:, 0])
    return tuple(domains), values


def errors(law: Mechanism, values: list[np.ndarray], truth: list[Any], rng: Rng) -> list[float]:
    """Collect once; return the mean squared error of means and the largest error of a share."""
    reports = law.privatize(values, rng)
    value: Any = law.estimate(law.tally(reports)).value
    gaps = [found - true for found, true in zip(value, truth, strict=True)]
    means = [gap**2 for gap in gaps if np.ndim(gap) == 0]
    shares = [np.abs(gap).max() for gap in gaps if np.ndim(gap) == 1]
    return [float(np.mean(means)), float(max(shares))]


def collect(data: Census, runs: int, rng: Rng) -> None:
    """Print the errors of every method at every epsilon."""
    domains, values = attributes(data)
    pairs = list(zip(domains, values, strict=True))
    truth = [np.bincount(v, minlength=k) / len(v) if k else float(v.mean()) for k, v in pairs]
    print(f"mean squared error of the means | largest error of a share; {runs} runs\n")
    print(f"{'epsilon':8}" + "".join(f"{name:>24}" for name in METHODS))
    for epsilon in EPSILONS:
        cells = []
        for name, settings in METHODS.items():
            law = mechanism(name, epsilon=epsilon, domains=domains, **settings)
            found = [errors(law, values, truth, rng) for _ in range(runs)]
            mse, largest = np.mean(found, axis=0)
            cells.append(f"{f'{mse:.2e} | {largest:.4f}':>24}")
        print(f"{epsilon:<8g}" + "".join(cells), flush=True)


def main() -> None:
    """Read the number of runs and print everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10, help="collections for each number")
    runs = parser.parse_args().runs
    data = load()
    describe(data)
    collect(data, runs, seeded_rng(1))


if __name__ == "__main__":
    main()
