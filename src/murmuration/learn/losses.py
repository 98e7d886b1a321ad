"""What a model minimises, person by person: the squared, the logistic and the hinge loss.

A linear model's loss depends on a person through the score s = <w, x> alone, so its gradient is
the slope at that score times x. The L2 penalty is the collector's own affair: no person's data
is in it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from murmuration.errors import ParameterError
from murmuration.exact.arrays import Floats


@dataclass(frozen=True)
class Objective:
    """A loss of a score and a target; `slope` is its derivative by the score."""

    name: str
    slope: Callable[[Floats, Floats], Floats]

    def gradients(self, weights: Floats, x: Floats, y: Floats) -> Floats:
        """Return each person's gradient, a row each."""
        return np.asarray(self.slope(x @ weights, y)[:, None] * x)


def _squared(scores: Floats, y: Floats) -> Floats:
    return 2 * (scores - y)


def _logistic(scores: Floats, y: Floats) -> Floats:
    return np.asarray(-y * expit(-y * scores))


def _hinge(scores: Floats, y: Floats) -> Floats:
    return np.where(y * scores < 1, -y, 0.0)


OBJECTIVES = {
    "squared": Objective("squared", _squared),
    "logistic": Objective("logistic", _logistic),
    "hinge": Objective("hinge", _hinge),
}
"""squared: (s - y)^2; logistic: ln(1 + e^(-ys)); hinge: max(0, 1 - ys); y is -1 or 1 for both."""


def objective(name: str) -> Objective:
    """Return the objective of that name.

    >>> found = objective("squared")
    >>> found.gradients(np.zeros(2), np.array([[1.0, -0.5]]), np.array([0.5])).tolist()
    [[-1.0, 0.5]]
    """
    if name not in OBJECTIVES:
        raise ParameterError(f"no loss is called {name!r}; there are {', '.join(OBJECTIVES)}")
    return OBJECTIVES[name]
