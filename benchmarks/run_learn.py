"""Training on a million people with 90 features: time and memory, beside what it cannot do without.

    .venv/bin/python -m benchmarks.run_learn

The raw limit is the same rounds without privacy: scaling features and averaging gradients.
"""

from __future__ import annotations

import resource
import sys

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


def main() -> None:
    """Print seconds, the ratio to the raw limit, and the most memory that was used."""
    draw = np.random.default_rng(1)
    x = draw.uniform(-1, 1, (PEOPLE, D))
    y = np.clip(x @ draw.normal(0, 0.055, D), -1, 1)
    raw = min(seconds(lambda: plain_rounds(x, y)) for _ in range(2))
    print(f"without privacy {raw:.1f} s")
    for mechanism in ("privunit", "block", "harmony"):
        model = learn.LinearRegression(1.0, mechanism, random_state=1)
        took = seconds(lambda model=model: model.fit(x, y))  # type: ignore[misc]
        print(f"{mechanism:10} {took:6.1f} s, {took / raw:5.1f} times that", flush=True)
    unit = 1 << 20 if sys.platform != "darwin" else 1 << 30
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
    print(f"most memory {most:.2f} GB, of which the data {x.nbytes / 2**30:.2f}")


if __name__ == "__main__":
    main()
