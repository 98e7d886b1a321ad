"""What learning costs: simulated models by epsilon and mechanism, and real households.

    .venv/bin/python experiments/learning.py            the tables, about three minutes
    .venv/bin/python experiments/learning.py --plot     also docs/learning.png

The default settings were chosen by trying some dozens on the data set of the first table and on the
census data below, scored on their held-out fifth: read those two for how mechanisms compare. What
the default promises is measured by the lines in between, on data sets that it never saw.

Simulated: x uniform in [-1, 1]^d, y linear in x with noise of variance .010 (without a model .10),
100,000 people, 20,000 held out, the same default settings everywhere, the mean of 16 runs for 10
coordinates and 3 for 90. Real:
280,005 households of the Current Population Survey (`census_data.py`), wages and whether they are
50,000 or more, a fifth held out.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LinearRegression as PlainLinear
from sklearn.linear_model import LogisticRegression as PlainLogistic

from census_data import load
from murmuration import learn
from murmuration.exact.arrays import Floats

RUNS = 3
RUNS_OF_FEW = 16
"""With few coordinates a run takes half a second, and one differs from another more."""
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
CONTESTANTS: tuple[tuple[str, Any, Any], ...] = (
    ("privunit", "privunit", None),
    ("block", "block", None),
    ("harmony", "harmony", None),
    ("piecewise", "piecewise", None),
    ("duchi-multi", "duchi-multi", None),
    ("harmony, papers' schedule", "harmony", learn.MiniBatches()),
)


def linear(d: int, n: int, seed: int = 3) -> tuple[Floats, Floats]:
    """Return features and targets of a random linear rule; the defaults were chosen on seed 3."""
    draw = np.random.default_rng(seed)
    w, x = draw.normal(size=d), draw.uniform(-1, 1, (n, d))
    score = x @ w
    return x, score * (0.3 / score.std()) + draw.normal(0, 0.1, n)


def simulated() -> None:
    """Print held-out errors by mechanism."""
    print("mean squared error, held out (noise floor .010, without a model .10)\n")
    settings = ((10, 0.5), (10, 1.0), (90, 1.0), (90, 2.0), (90, 4.0))
    print(f"{'':28}" + "".join(f"{f'd={d}, eps {e:g}':>16}" for d, e in settings))
    for label, mechanism, schedule in CONTESTANTS:
        cells = []
        for d, epsilon in settings:
            x, y = linear(d, 120_000)
            scores = [
                np.mean((_fit(mechanism, schedule, epsilon, run, x, y) - y[100_000:]) ** 2)
                for run in range(RUNS if d > 10 else RUNS_OF_FEW)
            ]
            cells.append(f"{np.mean(scores):16.4f}")
        print(f"{label:28}" + "".join(cells), flush=True)


def _fit(mechanism: str, schedule: Any, epsilon: float, run: int, x: Floats, y: Floats) -> Floats:
    model = learn.LinearRegression(epsilon, mechanism, schedule, random_state=run)
    return np.asarray(model.fit(x[:100_000], y[:100_000]).predict(x[100_000:]))


def unseen() -> None:
    """Print the default's errors on data sets that had no part in choosing it."""
    print("\nthe default on unseen data sets (seeds from 101 on), each the mean of 2 or 3 runs")
    for d, epsilon, sets, runs in ((10, 0.5, 8, 3), (90, 1.0, 3, 2), (90, 4.0, 3, 2)):
        errors = []
        for seed in range(101, 101 + sets):
            x, y = linear(d, 120_000, seed)
            told = [_fit("auto", None, epsilon, run, x, y) for run in range(runs)]
            errors.append(np.mean([np.mean((t - y[100_000:]) ** 2) for t in told]))
        each = " ".join(f"{error:.4f}" for error in errors)
        print(f"d={d}, epsilon {epsilon:g}: {np.mean(errors):.4f}   ({each})", flush=True)


def census() -> dict[str, list[float]]:
    """Print and return errors on real households, next to the models without privacy."""
    data = load(absent=0.0)
    order = np.random.default_rng(1).permutation(len(data.x))
    x, wages, labels = data.x[order], data.wages[order], data.labels[order]
    cut = len(x) // 5
    train, test = slice(cut, None), slice(0, cut)
    plain = PlainLinear().fit(x[train], wages[train])
    plain_labels = PlainLogistic(C=1e3, max_iter=300).fit(x[train], labels[train])
    found: dict[str, list[float]] = {"wages": [], "labels": []}
    for epsilon in EPSILONS:
        runs = [
            (
                learn.LinearRegression(epsilon, random_state=run).fit(x[train], wages[train]),
                learn.LogisticRegression(epsilon, random_state=run).fit(x[train], labels[train]),
            )
            for run in range(RUNS)
        ]
        found["wages"].append(
            float(np.mean([np.mean((m.predict(x[test]) - wages[test]) ** 2) for m, _ in runs]))
        )
        found["labels"].append(
            float(np.mean([1 - m.score(x[test], labels[test]) for _, m in runs]))
        )
    found["plain"] = [
        float(np.mean((plain.predict(x[test]) - wages[test]) ** 2)),
        float(1 - plain_labels.score(x[test], labels[test])),
    ]
    found["nothing"] = [float(wages[test].var()), float((labels[test] == 1).mean())]
    _print_census(found)
    return found


def _print_census(found: dict[str, list[float]]) -> None:
    print(f"\n280,005 real households\n{'epsilon':24}" + "".join(f"{e:>10g}" for e in EPSILONS))
    for name, kind in (("wages", "mean squared error"), ("labels", "share wrong (50,000)")):
        print(f"{kind:24}" + "".join(f"{error:10.4f}" for error in found[name]))
    print(f"without privacy: {found['plain'][0]:.4f} and {found['plain'][1]:.4f}; ", end="")
    print(f"without a model: {found['nothing'][0]:.4f} and {found['nothing'][1]:.4f}")


def draw(found: dict[str, list[float]], path: Path) -> None:
    """Plot error against epsilon, beside the models without privacy."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 2, figsize=(12, 4.6))
    titles = ("wages: mean squared error", "wages of 50,000 or more: share wrong")
    for place, (axes, name) in enumerate(zip(panels, ("wages", "labels"), strict=True)):
        axes.plot(EPSILONS, found[name], marker="o", label="from randomised gradients")
        axes.axhline(found["plain"][place], color="black", ls="--", lw=1, label="without privacy")
        axes.axhline(found["nothing"][place], color="black", ls=":", lw=1, label="without a model")
        axes.set(xscale="log", xlabel="epsilon", title=titles[place])
        axes.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
        axes.minorticks_off()
        axes.grid(alpha=0.3)
        axes.legend(fontsize=9)
    figure.suptitle("280,005 households (CPS), a fifth held out, default settings, mean of 3 runs")
    figure.savefig(path, dpi=120, bbox_inches="tight")


def main() -> None:
    """Run all of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plot", action="store_true")
    wanted = parser.parse_args()
    simulated()
    unseen()
    found = census()
    if wanted.plot:
        draw(found, Path("docs/learning.png"))


if __name__ == "__main__":
    main()
