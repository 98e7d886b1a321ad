"""What a model minimises, person by person: squared, logistic, hinge and softmax loss.

A linear model's loss depends on a person through scores alone: one, or one for each of three or
more classes. Its gradient is the slope at these scores times the features. The L2 penalty is the
collector's own affair: no person's data is in it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logsumexp, softmax

from murmuration.errors import ParameterError
from murmuration.exact.arrays import Floats
from murmuration.training.algorithm.arithmetic import logistic


@dataclass(frozen=True)
class Objective:
    """A loss of scores and a target; `slope` is its derivative by the score.

    `smooth` is the slope that the default training uses: for the squared loss half of it (the
    residual), for the hinge the slope of max(0, 1 - ys)^2 / 2, which clipping turns into the
    hinge's own again; for the logistic loss by a published table (`arithmetic.py`), so that all
    devices find the same. Scores are a column (or one for each class).
    """

    name: str
    slope: Callable[[Floats, Floats], Floats]
    smooth: Callable[[Floats, Floats], Floats]
    loss: Callable[[Floats, Floats], Floats]

    def gradients(self, weights: Floats, x: Floats, y: Floats) -> Floats:
        """Return each person's gradient, a row each."""
        return np.asarray(self.slope(x @ weights, y)[:, None] * x)


def _squared(scores: Floats, y: Floats) -> Floats:
    return 2 * (scores - y)


def _residual(scores: Floats, y: Floats) -> Floats:
    return scores - y


def _squared_loss(scores: Floats, y: Floats) -> Floats:
    return np.square(scores - y)


def _logistic(scores: Floats, y: Floats) -> Floats:
    return np.asarray(-y * expit(-y * scores))


def _logistic_smooth(scores: Floats, y: Floats) -> Floats:
    return np.asarray(-y * logistic(-y * scores))


def _logistic_loss(scores: Floats, y: Floats) -> Floats:
    return np.logaddexp(0, -y * scores)


def _hinge(scores: Floats, y: Floats) -> Floats:
    return np.where(y * scores < 1, -y, 0.0)


def _hinge_smooth(scores: Floats, y: Floats) -> Floats:
    return np.asarray(-y * np.maximum(0.0, 1 - y * scores))


def _hinge_loss(scores: Floats, y: Floats) -> Floats:
    return np.maximum(0.0, 1 - y * scores)


def _softmax(scores: Floats, y: Floats) -> Floats:
    """The probability of each class, less 1 for a person's own; y is its number."""
    slopes = softmax(scores, axis=1)
    slopes[np.arange(len(y)), y.astype(np.int64)] -= 1
    return np.asarray(slopes)


def _softmax_loss(scores: Floats, y: Floats) -> Floats:
    own = scores[np.arange(len(y)), y.astype(np.int64)]
    return np.asarray(logsumexp(scores, axis=1) - own)


OBJECTIVES = {
    "squared": Objective("squared", _squared, _residual, _squared_loss),
    "logistic": Objective("logistic", _logistic, _logistic_smooth, _logistic_loss),
    "hinge": Objective("hinge", _hinge, _hinge_smooth, _hinge_loss),
    "softmax": Objective("softmax", _softmax, _softmax, _softmax_loss),
}
"""squared: (s - y)^2; logistic: ln(1 + e^(-ys)); hinge: max(0, 1 - ys); y is -1 or 1 for both;
softmax: ln(sum of e^s) - s of the own class, for three or more classes."""


def objective(name: str) -> Objective:
    """Return the objective of that name.

    >>> found = objective("squared")
    >>> found.gradients(np.zeros(2), np.array([[1.0, -0.5]]), np.array([0.5])).tolist()
    [[-1.0, 0.5]]
    """
    if name not in OBJECTIVES:
        raise ParameterError(f"no loss is called {name!r}; there are {', '.join(OBJECTIVES)}")
    return OBJECTIVES[name]
