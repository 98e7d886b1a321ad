"""What siblings of the default lose or gain: fewer rounds, the hinge instead of the logistic loss.

    python -m experiments.evidence siblings

Two classes: Adult's income (26,049 people, 43 columns) and simulated people (26,000, 20 columns),
at epsilon 1 and 4, eight runs, a fifth held out. Each row is a difference within a run, with its
standard error over runs: the log loss with so many rounds less that with all; the share that a
LinearSVC tells right less that of a LogisticRegression. `slope` is that of the truth's log odds by
those of `predict_proba` (1 is calibrated), `off` the mean probability less the share.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scipy.special import logit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from experiments import adult_data
from experiments.piece import Figures, Piece, Row
from murmuration import learn
from murmuration.exact.arrays import Bits, Floats

EPSILONS, RUNS, ROUNDS = (1.0, 4.0), range(8), (17, 25, None)
PEOPLE, WIDTH = 26_000, 20


def adult() -> tuple[Floats, Bits]:
    """Return people, and who has more than 50,000 a year."""
    found = adult_data.load()
    return found.x, found.labels > 0


def simulated() -> tuple[Floats, Bits]:
    """Return uniform features, and classes whose log odds are linear."""
    draw = np.random.default_rng(1)
    x = draw.uniform(-1, 1, (PEOPLE, WIDTH))
    odds = x @ (np.random.default_rng(9).normal(0, 1, (WIDTH, 1)) * 3 / np.sqrt(WIDTH))
    return x, odds[:, 0] + draw.logistic(size=PEOPLE) > 0


TASKS: dict[str, Callable[[], tuple[Floats, Bits]]] = {"Adult": adult, "simulated": simulated}
CELLS = [(task, epsilon) for task in TASKS for epsilon in EPSILONS]


def one_run(
    people: tuple[Floats, Bits], epsilon: float, run: int, rounds: Sequence[int | None] = ROUNDS
) -> Row:
    """Train on four fifths of the people in each way; tell how good it is on the others."""
    x, y = people
    order = np.random.default_rng(100 + run).permutation(len(y))
    test, train = np.split(order, [len(y) // 5])
    found: Row = {}
    for most in rounds:
        model = learn.LogisticRegression(epsilon, random_state=run, rounds=most)
        told = model.fit(x[train], y[train]).predict_proba(x[test])[:, 1]
        found[f"log loss, {most or 'all'} rounds"] = float(log_loss(y[test], told))
    svm = learn.LinearSVC(epsilon, random_state=run).fit(x[train], y[train])
    right = {name: one.predict(x[test]) == y[test] for name, one in (("svm", svm), ("ours", model))}
    found["right, svm"], found["right"] = float(right["svm"].mean()), float(right["ours"].mean())
    found["off"] = float(told.mean() - y[test].mean())
    odds = logit(np.clip(told, 1e-6, 1 - 1e-6))[:, None]
    if np.ptp(odds) > 0:
        found["slope"] = float(LogisticRegression(C=1e6).fit(odds, y[test]).coef_[0, 0])
    return found


def part(number: int) -> Row:
    """Measure one run of one task at one epsilon."""
    place, run = divmod(number, len(RUNS))
    task, epsilon = CELLS[place]
    return {"task": task, "epsilon": epsilon, **one_run(TASKS[task](), epsilon, run)}


def figures(rows: Sequence[Row]) -> Figures:
    """Return differences within runs with standard errors; none may be worse than its sibling."""
    found: Figures = {}
    for task, epsilon in CELLS:
        runs = [row for row in rows if (row["task"], row["epsilon"]) == (task, epsilon)]
        for what, each in _values(runs).items() if runs else ():
            name = f"{task}, epsilon {epsilon:g}: {what}"
            found[name] = float(each.mean())
            if len(each) > 1:
                found[f"{name}, standard error"] = float(each.std(ddof=1) / np.sqrt(len(each)))
    for name in [name for name in found if name.endswith("standard error")]:
        base = name.removesuffix(", standard error")
        if "25 rounds" in base:
            assert found[base] < 0.005 + 4 * found[name], f"{base}: {found[base]:.4f}"
        if "svm" in base:
            assert found[base] > -0.005 - 4 * found[name], f"{base}: {found[base]:.4f}"
    return found


def _values(runs: Sequence[Row]) -> dict[str, Floats]:
    base = np.array([run["log loss, all rounds"] for run in runs])
    fewer = {
        f"log loss, {most} rounds less all": np.array(
            [run[f"log loss, {most} rounds"] for run in runs]
        )
        - base
        for most in ROUNDS
        if most is not None
    }
    right = np.array([run["right, svm"] - run["right"] for run in runs])
    slopes = np.array([run["slope"] for run in runs if "slope" in run])
    return {
        **fewer,
        "told right, svm less logistic": right,
        "off": np.array([run["off"] for run in runs]),
        **({"slope": slopes} if len(slopes) else {}),
    }


PIECE = Piece(
    what="fewer rounds, and the hinge loss, beside the default",
    part=part,
    parts=len(CELLS) * len(RUNS),
    sample=(len(CELLS) * len(RUNS) - 1,),
    figures=figures,
)
