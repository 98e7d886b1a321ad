"""Linear models in scikit-learn's shape, trained from randomised gradients only.

`fit` plays all parties: it shares the people out over rounds, lets each round's devices answer
with the weights so far, and steps. Nothing but reports goes into the model. What must be known
beforehand is public: the range of the features (`bounds`) and, for a number, of the target
(`target_bounds`). Devices clip to it; anyone who knows better ranges gets a better model.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from numbers import Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from rich.console import Console
from rich.progress import track
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from murmuration.errors import InputError, ParameterError
from murmuration.exact.arrays import Floats, Ints
from murmuration.exact.loss import Loss
from murmuration.exact.randomness import Rng, seeded_rng, system_rng
from murmuration.learn.gradients import courier_for
from murmuration.learn.hiera import ByAttribute
from murmuration.learn.losses import objective
from murmuration.learn.rounds import Training
from murmuration.learn.schedule import FewRounds, Schedule
from murmuration.mechanisms.base import checked_epsilon
from murmuration.mechanisms.vector.base import TupleMechanism
from murmuration.mechanisms.vector.block import Block

NOT_NUMBERS = "features, and targets of a regression, must be numbers"
PUBLIC_SEED = 1
"""Of the projection: everybody knows it."""


class LinearModel(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """What the three models share: features in, weights out, by rounds of reports."""

    _objective: str
    loss_: Loss

    def __init__(
        self,
        epsilon: float = 1.0,
        mechanism: str | ByAttribute = "auto",
        schedule: Schedule | None = None,
        random_state: int | np.random.RandomState | None = None,
        *,
        alpha: float = 0.0,
        fit_intercept: bool = True,
        bounds: tuple[ArrayLike, ArrayLike] = (-1.0, 1.0),
        projection: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.epsilon = epsilon
        self.mechanism = mechanism
        self.schedule = schedule
        self.random_state = random_state
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.bounds = bounds
        self.projection = projection
        self.verbose = verbose

    # --- training ---

    def _train(self, x: Floats, y: Floats) -> Floats:
        """Return the weights of the scaled features, and of the constant if there is one."""
        basis = self._projected(x.shape[1] + bool(self.fit_intercept))
        training = self._training(len(x), len(basis))
        rng, order = self._randomness(len(x))
        self.loss_ = replace(self.loss_, simulated=rng.simulated)
        training.courier.mechanism.require_promise(rng)  # before anybody is asked for anything
        for people in self._people(training, order):
            model = training.next_round()
            if model is not None:
                features = self._features(x[people]) @ basis.T  # each device does this for itself
                reports = training.answer(model, features, y[people], rng)
                training.close_round(training.tally(reports))
        self.n_iter_, self.plan_ = training.rounds_done, training.plan
        whole = [self._uncentred(w, training.centre) for w in training.history]
        self.history_ = [weights @ basis for weights in whole]
        return np.asarray(self._uncentred(training.weights, training.centre) @ basis)

    def _uncentred(self, weights: Floats, centre: Floats) -> Floats:
        """Return the weights for features that are not centred: the constant makes up for it."""
        if not centre.any():
            return weights
        moved = weights.copy()
        moved[-1] -= float(weights @ centre)
        return moved

    def _training(self, people: int, d: int) -> Training:
        """Set up the rounds, and verify what they cost a person."""
        schedule = FewRounds() if self.schedule is None else self.schedule
        if not isinstance(schedule, Schedule):
            raise ParameterError(f"schedule is one of learn.schedule; got {schedule!r}")
        epsilon = checked_epsilon(self.epsilon)
        if isinstance(self.mechanism, ByAttribute):
            self._require_attribute(self.mechanism.attribute, d)
        courier = courier_for(self.mechanism, epsilon, d, schedule.clip_for)
        centring = self._centring(schedule, people, d, epsilon)
        asked = 0 if centring is None else centring[1]
        plan = schedule.plan(people - asked, epsilon, courier)
        self.mechanism_ = courier.mechanism
        # Nobody is in two rounds, so a person's loss is the larger of the two mechanisms'.
        used = [courier.mechanism, *([] if centring is None else [centring[0]])]
        losses = [one.loss() for one in used]
        self.loss_ = max(losses, key=lambda loss: (not loss.holds, loss.epsilon))
        return Training(objective(self._objective), courier, plan, self._penalty(d), centring)

    def _penalty(self, d: int) -> Floats:
        """Return alpha for each weight; the constant is free (unless it is projected too)."""
        number = isinstance(self.alpha, Real) and not isinstance(self.alpha, bool)
        if not number or not 0 <= float(self.alpha) < np.inf:
            raise ParameterError(f"alpha, the penalty, is 0 or more; got {self.alpha!r}")
        penalty = np.full(d, float(self.alpha))
        if self.fit_intercept and self.projection is None:
            penalty[-1] = 0.0
        return penalty

    def _require_attribute(self, attribute: int, d: int) -> None:
        """Refuse grades by a column that is not a feature as the device knows it."""
        features = d - bool(self.fit_intercept)
        if self.projection is not None:
            raise ParameterError("features that are projected have no ranges to grade by")
        if attribute not in range(features):
            raise ParameterError(f"attribute is a feature's number, below {features}")

    def _centring(
        self, schedule: Schedule, people: int, d: int, epsilon: float
    ) -> tuple[TupleMechanism, int] | None:
        """Who is asked for features: only where a constant can make up for what is taken off."""
        asked = int(schedule.centre * people)
        if isinstance(self.mechanism, ByAttribute):  # its grades are not the features' means'
            return None
        if not (self.fit_intercept and self.projection is None and d > 1 and asked):
            return None
        return Block(epsilon=epsilon, d=d - 1), asked

    def _people(self, training: Training, order: Ints) -> Iterator[Ints]:
        """Yield each round's people; nobody is in two rounds."""
        first = [] if training.centring is None else [training.centring[1]]
        ends = np.cumsum([*first, *training.plan.batches])
        rounds = np.split(order[: ends[-1]], ends[:-1])
        if self.verbose:
            console = Console(stderr=True)
            console.print(f"privacy of each person: {self.loss_}", highlight=False)
            yield from track(rounds, "training", console=console, transient=True)
        else:
            yield from rounds

    def _randomness(self, people: int) -> tuple[Rng, Ints]:
        """Return the devices' generator, and the (public) order in which people are asked."""
        if self.random_state is None:
            rng: Rng = system_rng()
        else:
            rng = seeded_rng(int(check_random_state(self.random_state).randint(2**31)))
        return rng, np.random.default_rng(rng.words(4).tolist()).permutation(people)

    def _features(self, x: Floats) -> Floats:
        """DEVICE. Scale features from their bounds to [-1, 1], clip, and add the constant."""
        low, high = self._ends(x.shape[1])
        scaled = np.clip(2 * (x - low) / (high - low) - 1, -1, 1)
        return np.column_stack([scaled, np.ones(len(x))]) if self.fit_intercept else scaled

    def _ends(self, d: int) -> tuple[Floats, Floats]:
        try:
            low, high = (np.broadcast_to(np.asarray(end, np.float64), (d,)) for end in self.bounds)
        except (TypeError, ValueError):
            raise ParameterError(
                "bounds are (low, high): numbers, or one for each feature"
            ) from None
        if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
            raise ParameterError("bounds are finite, low < high")
        return (low, high) if self.fit_intercept else _symmetric(low, high)

    def _projected(self, d: int) -> Floats:
        """Return the rows that features are projected to: all of them, or Harmony's r of +-1/d."""
        if self.projection is None:
            return np.eye(d)
        whole = isinstance(self.projection, int | np.integer) and not isinstance(
            self.projection, bool
        )
        if not whole or not 1 <= self.projection <= d:
            raise ParameterError(f"projection is 1 to {d} dimensions; got {self.projection!r}")
        signs = np.random.default_rng(PUBLIC_SEED).choice([-1.0, 1.0], (self.projection, d))
        return np.asarray(signs / d)

    def _unscaled(self, weights: Floats, d: int) -> tuple[Floats, float]:
        """Return coefficients and intercept for features in their own units."""
        low, high = self._ends(d)
        coefficients = 2 * weights[:d] / (high - low)
        constant = float(weights[d]) if self.fit_intercept else 0.0
        return coefficients, constant - float(coefficients @ (low + high) / 2)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        return tags


def _symmetric(low: Any, high: Any) -> tuple[Any, Any]:
    """Widen a range to both sides of 0: a model without a constant must not shift anything."""
    half = np.maximum(np.abs(low), np.abs(high))
    return -half, half


def _validated(model: LinearModel, *data: ArrayLike, **options: Any) -> Any:
    """Let scikit-learn check the data, but never repeat a value that is no number."""
    try:
        return validate_data(model, *data, dtype=np.float64, **options)
    except ValueError as problem:
        if "could not convert" in str(problem):
            raise InputError(NOT_NUMBERS) from None
        raise


class LinearRegression(RegressorMixin, LinearModel):  # type: ignore[misc]
    """Least squares from randomised gradients: minimises (w x + b - y)^2 + alpha/2 |w|^2.

    w is that of features scaled to [-1, 1]. Gradients are clipped, so people with large errors
    count less than they should: for very skewed targets the model leans to the median.

    >>> x = np.random.default_rng(1).uniform(-1, 1, (20_000, 3))
    >>> model = LinearRegression(epsilon=4.0, random_state=1).fit(x, x @ [0.5, -0.2, 0.1])
    >>> model.coef_.round(1).tolist(), model.loss_.verdict  # the noise of a seed hides nothing
    ([0.5, -0.2, 0.1], 'simulated')
    """

    _objective = "squared"

    def __init__(
        self,
        epsilon: float = 1.0,
        mechanism: str | ByAttribute = "auto",
        schedule: Schedule | None = None,
        random_state: int | np.random.RandomState | None = None,
        *,
        alpha: float = 0.0,
        fit_intercept: bool = True,
        bounds: tuple[ArrayLike, ArrayLike] = (-1.0, 1.0),
        target_bounds: tuple[float, float] = (-1.0, 1.0),
        projection: int | None = None,
        verbose: bool = False,
    ) -> None:
        super().__init__(
            epsilon,
            mechanism,
            schedule,
            random_state,
            alpha=alpha,
            fit_intercept=fit_intercept,
            bounds=bounds,
            projection=projection,
            verbose=verbose,
        )
        self.target_bounds = target_bounds

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:  # noqa: N803
        """Train on people with features X and targets y: a row, a number each."""
        x, target = _validated(self, X, y, y_numeric=True)
        if target.dtype.kind not in "fiub":
            raise InputError(NOT_NUMBERS)
        low, high = self._target_ends()
        scaled = np.clip(2 * (np.asarray(target, np.float64) - low) / (high - low) - 1, -1, 1)
        weights = self._train(x, scaled)
        coefficients, constant = self._unscaled(weights, x.shape[1])
        half = (high - low) / 2
        self.coef_, self.intercept_ = coefficients * half, low + (constant + 1) * half
        return self

    def _target_ends(self) -> tuple[float, float]:
        try:
            low, high = (float(end) for end in self.target_bounds)
        except (TypeError, ValueError):
            raise ParameterError("target_bounds are (low, high), two numbers") from None
        if not (np.isfinite(low) and np.isfinite(high) and low < high):
            raise ParameterError(
                f"target_bounds are finite, low < high; got {self.target_bounds!r}"
            )
        return (low, high) if self.fit_intercept else _symmetric(low, high)

    def predict(self, X: ArrayLike) -> Floats:  # noqa: N803
        """Return the predicted targets."""
        check_is_fitted(self)
        x = _validated(self, X, reset=False)
        return np.asarray(x @ self.coef_ + self.intercept_)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # a few hundred people are not enough for anybody
        return tags


class LinearClassifier(ClassifierMixin, LinearModel):  # type: ignore[misc]
    """What the two classifiers share: two classes, the sign of a score."""

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:  # noqa: N803
        """Train on people with features X and one of two classes y."""
        x, labels = _validated(self, X, y)
        check_classification_targets(labels)
        self.classes_, place = np.unique(labels, return_inverse=True)
        if type_of_target(labels, input_name="y") not in ("binary",) and len(self.classes_) > 2:
            raise ValueError(
                "Only binary classification is supported. The type of the target is "
                f"{type_of_target(labels)}."
            )
        if len(self.classes_) < 2:
            raise InputError("this classifier needs two classes; the data has one class")
        weights = self._train(x, np.asarray(2.0 * place - 1, np.float64))
        coefficients, constant = self._unscaled(weights, x.shape[1])
        self.coef_, self.intercept_ = coefficients[None, :], np.array([constant])
        return self

    def decision_function(self, X: ArrayLike) -> Floats:  # noqa: N803
        """Return scores: above 0 speaks for the second class."""
        check_is_fitted(self)
        x = _validated(self, X, reset=False)
        return np.asarray(x @ self.coef_[0] + self.intercept_[0])

    def predict(self, X: ArrayLike) -> Any:  # noqa: N803
        """Return the predicted classes."""
        second = (self.decision_function(X) > 0).astype(np.int64)
        return self.classes_[second]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True  # a few hundred people are not enough for anybody
        return tags


class LogisticRegression(LinearClassifier):
    """Logistic regression from randomised gradients: minimises ln(1 + e^(-y s)) + alpha/2 |w|^2.

    Gradients are clipped and rounds are few: scores rank people well, but the probabilities made
    of them are not calibrated. The two classes themselves are taken to be public.

    >>> x = np.random.default_rng(1).uniform(-1, 1, (20_000, 2))
    >>> model = LogisticRegression(epsilon=4.0, random_state=1).fit(x, x[:, 0] > x[:, 1])
    >>> model.score(x, x[:, 0] > x[:, 1]) > 0.95
    True
    """

    _objective = "logistic"

    def predict_proba(self, X: ArrayLike) -> Floats:  # noqa: N803
        """Return the probability of each class."""
        second = expit(self.decision_function(X))
        return np.column_stack([1 - second, second])


class LinearSVC(LinearClassifier):
    """A linear SVM from randomised gradients: minimises max(0, 1 - y s) + alpha/2 |w|^2."""

    _objective = "hinge"
