"""Training on a million people with 90 features: time and memory, beside what it cannot do without.

    .venv/bin/python -m benchmarks.run_learn

The raw limit is the same rounds without privacy: scaling features and averaging gradients. Each
training runs in a process of its own, whose memory is told.
"""

from __future__ import annotations

import resource
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from importlib import import_module
from multiprocessing import get_context

import numpy as np

from benchmarks.timing import seconds
from murmuration import learn
from murmuration.exact.arrays import Floats
from murmuration.training.algorithm.losses import objective

PEOPLE, D, ROUNDS = 1_000_000, 90, 20


def plain_rounds(x: Floats, y: Floats) -> Floats:
    """Gradient descent over the same batches with nothing randomised."""
    weights, squared = np.zeros(D), objective("squared")
    order = np.random.default_rng(1).permutation(len(x))
    for people in np.array_split(order, ROUNDS):
        features = np.clip(x[people], -1, 1)
        gradients = squared.gradients(weights, features, y[people])
        length = np.linalg.norm(gradients, axis=1, keepdims=True)
        weights = weights - (gradients / np.maximum(length, 1)).mean(axis=0)
    return weights


def memory() -> float:
    """Return the most memory that this process has used, in GB."""
    unit = 1 << 20 if sys.platform != "darwin" else 1 << 30
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def trained(kind: str) -> tuple[float, float]:
    """Return seconds and memory of a training: of a mechanism on an array, or on a DataFrame."""
    x, y = people()
    if kind != "frame":
        model = learn.LinearRegression(1.0, kind, random_state=1)
        return seconds(lambda: model.fit(x, y)), memory()
    names = [f"x{place}" for place in range(D)]
    columns = dict.fromkeys(names, learn.Number(-1, 1))
    frame = import_module("pandas").DataFrame(x, columns=names, copy=False)
    model = learn.LinearRegression(1.0, random_state=1, columns=columns)
    return seconds(lambda: model.fit(frame, y)), memory()


def people() -> tuple[Floats, Floats]:
    """Return features and targets, drawn without a second copy of them."""
    draw = np.random.default_rng(1)
    x = draw.uniform(-1, 1, (PEOPLE, D))
    return x, np.clip(x @ draw.normal(0, 0.055, D), -1, 1)


def main() -> None:
    """Print seconds, the ratio to the raw limit, and the most memory that was used."""
    raw = min(seconds(partial(plain_rounds, *people())) for _ in range(2))
    print(f"without privacy {raw:.1f} s; the data are {PEOPLE * (D + 1) * 8 / 2**30:.2f} GB")
    for kind in ("privunit", "frame", "block", "harmony"):
        with ProcessPoolExecutor(1, get_context("spawn")) as process:
            took, most = process.submit(trained, kind).result()
        print(f"{kind:10} {took:6.1f} s, {took / raw:5.1f} times that, {most:.2f} GB", flush=True)


if __name__ == "__main__":
    main()
