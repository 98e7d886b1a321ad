"""Linear models in scikit-learn's shape, trained from randomised gradients only.

`fit` plays all parties: it shares the people out over questions, lets each device answer one, and
steps. Nothing but reports goes into the model. What must be known beforehand is public: the range
of the features (`bounds`, or `columns` for a table of numbers and categories) and, for a number, of
the target (`target_bounds`). Values outside are refused, or with outside="clamp" moved to the end
and counted; anyone who knows better ranges gets a better model.

By default training adapts itself (`adaptive.py`). With a `schedule`, another `mechanism` or a
`projection` it is one of `schedule.py`, as in the papers.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import replace
from numbers import Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from rich.console import Console
from rich.progress import track
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from murmuration.errors import InputError, ParameterError
from murmuration.exact.arrays import Floats, Ints
from murmuration.exact.loss import Loss
from murmuration.exact.randomness import Rng, seeded_rng, system_rng
from murmuration.learn.columns import Declared
from murmuration.learn.encode import EncodedTable, Encoder
from murmuration.learn.papers.gradients import courier_for
from murmuration.learn.papers.hiera import ByAttribute
from murmuration.learn.papers.rounds import Training
from murmuration.learn.papers.schedule import FewRounds, Schedule
from murmuration.mechanisms.base import checked_epsilon
from murmuration.mechanisms.tally import Tally
from murmuration.mechanisms.vector.base import TupleMechanism
from murmuration.mechanisms.vector.block import Block
from murmuration.results.estimate import About, Estimate
from murmuration.training.algorithm.adaptive import AdaptiveTraining
from murmuration.training.algorithm.legs import OTHERS
from murmuration.training.algorithm.losses import objective
from murmuration.training.algorithm.questions import (
    Attribute,
    Gradient,
    Model,
    NumberQuestion,
    Question,
)
from murmuration.training.algorithm.state import Setting, Trained

NOT_NUMBERS = "features, and targets of a regression, must be numbers"
PUBLIC_SEED = 1
"""Of the projection: everybody knows it."""
NUMBERS_PER_PASS = 1 << 20
"""So many people's features are there at a time, as rows of numbers, whatever their number is."""
People = Floats | EncodedTable
"""Rows of numbers, or a table that is turned into them when people are asked."""


class LinearModel(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """What the three models share: features in, weights out, by rounds of reports."""

    _objective: str
    loss_: Loss
    score_: Estimate | None
    """How good the model is, by people who had no part in it: see `true_score`."""

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
        outside: str = "refuse",
        columns: Encoder | Mapping[str, Declared] | None = None,
        rounds: int | None = None,
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
        self.outside = outside
        self.columns = columns
        self.rounds = rounds
        self.projection = projection
        self.verbose = verbose

    # --- training ---

    def _train(self, x: People, y: Floats, scores: int = 1) -> Floats:
        """Return the weights of the scaled features, and of the constant if there is one.

        Where there are three or more classes, a row for each of them.
        """
        self.score_, self.kept_ = None, 1.0
        self.noise_: Floats | None = None
        if self._adapts:
            return self._adapted(x, y, scores)
        return self._scheduled(x, y)

    @property
    def _adapts(self) -> bool:
        """Whether training adapts itself: unless a schedule is asked for in one way or another."""
        usual = isinstance(self.mechanism, str) and self.mechanism in ("auto", "privunit")
        return usual and self.schedule is None and self.projection is None

    def _adapted(self, x: People, y: Floats, scores: int) -> Floats:
        """Ask round by round, as `AdaptiveTraining` says; nobody is asked twice."""
        training = AdaptiveTraining(self._setting(len(x), x.shape[1], scores))
        rng, order = self._randomness(len(x))
        asked: list[Question] = []
        with Console(stderr=True, quiet=not self.verbose).status("training") as status:
            while (questions := training.next_round()) is not None:
                status.update(f"training: round {training.rounds_done + 1}")
                tallies = []
                for question in questions:
                    people, order = np.split(order, [question.people])
                    tallies.append(self._tallied(question, x, y, people, rng))
                training.close_round(tallies)
                asked.extend(questions)
        self._account(asked, rng)
        self._remember(training.trained)
        return self._whole(training.trained.model)

    def _tallied(self, question: Question, x: People, y: Floats, people: Ints, rng: Rng) -> Tally:
        """Let these people answer a question, some at a time, and count the reports."""
        question.mechanism.require_promise(rng)
        tally = question.mechanism.empty()
        for some in _passes(len(people), x.shape[1]):
            own = people[some]
            tally = tally + self._answered(question, x[own], y[own], rng)
        return tally

    def _answered(self, question: Question, x: Floats, y: Floats, rng: Rng) -> Tally:
        """Let devices answer a question, and count the reports."""
        features = self._features(x)[:, : x.shape[1]]
        return question.mechanism.tally(question.answer(features, y, rng))

    def _setting(self, people: int, features: int, scores: int) -> Setting:
        """Return what is public before the first question."""
        whole = isinstance(self.rounds, int | np.integer) and not isinstance(self.rounds, bool)
        if self.rounds is not None and not (whole and self.rounds > OTHERS):
            raise ParameterError(
                f"rounds, the most there are, is {OTHERS + 1} or more; got {self.rounds!r}"
            )
        return Setting(
            objective=objective("softmax" if scores > 1 else self._objective),
            people=people,
            features=features,
            epsilon=checked_epsilon(self.epsilon),
            scores=scores,
            intercept=bool(self.fit_intercept),
            penalty=self._alpha(),
            rounds=None if self.rounds is None else int(self.rounds),
            attributes=self._attributes(),
        )

    def _account(self, asked: list[Question], rng: Rng) -> None:
        """Note what one report costs, whatever was asked: the largest loss of all."""
        laws = {question.mechanism.fingerprint: question.mechanism for question in asked}
        losses = [law.loss() for law in laws.values()]
        worst = max(losses, key=lambda loss: (not loss.holds, loss.epsilon))
        self.loss_ = replace(worst, simulated=rng.simulated)
        gradients = [question for question in asked if isinstance(question, Gradient)]
        self.mechanism_ = (gradients or asked)[0].mechanism
        self.asked_ = [(type(question).__name__.lower(), question.people) for question in asked]
        if self.verbose:
            Console(stderr=True).print(f"privacy of each person: {self.loss_}", highlight=False)

    def _remember(self, trained: Trained) -> None:
        """Keep the path, and what people were asked about how good the model is."""
        self.n_iter_ = trained.rounds
        self.path_ = trained.path
        self.history_ = [self._whole(stage.model) for stage in trained.path]
        self.kept_, self.noise_ = trained.kept, trained.noise
        self._question = trained.question
        self.score_ = trained.score and self._told(trained.score)

    def _whole(self, model: Model) -> Floats:
        """Return the weights for features that are not centred, and the constant."""
        weights = model.weights / model.scale
        constant = model.intercept - weights @ model.centre
        rows = np.column_stack([weights, constant]) if self.fit_intercept else weights
        return np.asarray(rows[0] if len(rows) == 1 else rows)

    def true_score(self, X: ArrayLike, y: ArrayLike) -> float:  # noqa: N803
        """Return what `score_` estimates, for these people, in the clear: for simulations.

        Of a number it is by how much the squared error of the mean is larger than the model's,
        each person's cut off at what the people of the score were asked; of classes, the share
        that is told right.
        """
        check_is_fitted(self)
        question: NumberQuestion | None = self._question
        if question is None:
            raise ParameterError("nobody was asked how good this model is")
        x, target = self._rows(X), self._targets(y)
        parts = [
            question.values(self._features(x[some])[:, : x.shape[1]], target[some])
            for some in _passes(*x.shape)
        ]
        mean = float(np.concatenate(parts).mean()) * question.half
        return self._told(Estimate(mean, 0.0, len(x), self.epsilon, About.PARTICIPANTS)).value

    @abstractmethod
    def _targets(self, y: ArrayLike) -> Floats:
        """Return targets as devices know them."""

    @abstractmethod
    def _told(self, score: Estimate) -> Estimate:
        """Return the score in units that a reader expects."""

    def _scheduled(self, x: People, y: Floats) -> Floats:
        """Train by a schedule, as the papers do."""
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

    def _alpha(self) -> float:
        number = isinstance(self.alpha, Real) and not isinstance(self.alpha, bool)
        if not number or not 0 <= float(self.alpha) < np.inf:
            raise ParameterError(f"alpha, the penalty, is 0 or more; got {self.alpha!r}")
        return float(self.alpha)

    def _penalty(self, d: int) -> Floats:
        """Return alpha for each weight; the constant is free (unless it is projected too)."""
        penalty = np.full(d, self._alpha())
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

    # --- features ---

    def _rows(self, X: Any, reset: bool = False) -> People:  # noqa: N803
        """Return the features as scikit-learn checks them, or as the columns are declared."""
        encoder = self._encoder
        if encoder is None:
            return np.asarray(_validated(self, X, reset=reset))
        x = encoder.table(X)
        if reset:
            self.feature_names_in_ = np.array(list(encoder.asked), dtype=object)
            self.n_features_in_ = len(encoder.asked)
            self.feature_names_out_ = np.array(encoder.names, dtype=object)
            self.clamped_ = sum(encoder.clamped(X).values())
        return x

    @property
    def _encoder(self) -> Encoder | None:
        """The encoder of the columns, if they are declared."""
        if self.columns is None or isinstance(self.columns, Encoder):
            return self.columns
        return Encoder(self.columns)

    def _with_target(self, X: Any, y: Any, numbers: bool = False) -> tuple[People, Any]:  # noqa: N803
        """Return features and target of the people whom a model is fitted to."""
        if self.columns is None:
            x, target = _validated(self, X, y=y, y_numeric=numbers)
            return x, target
        table, target = self._rows(X, reset=True), column_or_1d(y)
        if len(target) != len(table):
            raise InputError(f"{len(table)} people have features, {len(target)} a target")
        return table, target

    def _require_inside(self, x: People) -> None:
        """Refuse values beyond their bounds, or count them; never say which."""
        if self.outside not in ("refuse", "clamp"):
            raise ParameterError(f'outside is "refuse" or "clamp"; got {self.outside!r}')
        if isinstance(x, EncodedTable):
            return  # counted when the table was checked
        self.clamped_ = 0
        low, high = self._ends(x.shape[1])
        rows = (x[some] for some in _passes(*x.shape))
        beyond = sum(int(((part < low) | (part > high)).sum()) for part in rows)
        self.clamped_ = self._beyond(beyond, x.size, "features", "bounds")

    def _beyond(self, beyond: int, of: int, what: str, option: str) -> int:
        if beyond and self.outside == "refuse":
            raise InputError(
                f"{beyond:,} of {of:,} values of the {what} are beyond {option}: declare the "
                f'range, as {option}=(0, 90), or say outside="clamp" to move them to its end'
            )
        if beyond:
            warnings.warn(
                f"{beyond:,} of {of:,} values of the {what} are beyond {option} and were moved to "
                "its end",
                UserWarning,
                stacklevel=4,
            )
        return beyond

    def _features(self, x: Floats) -> Floats:
        """DEVICE. Scale features from their bounds to [-1, 1], clip, and add the constant."""
        scaled = x
        if self.columns is None:
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
        low, high = self._ends(d) if self.columns is None else (np.full(d, -1.0), np.full(d, 1.0))
        coefficients = 2 * weights[:d] / (high - low)
        constant = float(weights[d]) if self.fit_intercept else 0.0
        return coefficients, constant - float(coefficients @ (low + high) / 2)

    def coefficients(self) -> list[dict[str, Any]]:
        """Return a row for each coefficient, in the columns' own units, with its standard error.

        A category's is what it adds to the last value of its list.
        """
        check_is_fitted(self)
        rows, names = np.atleast_2d(self.coef_), self._names(np.atleast_2d(self.coef_).shape[1])
        errors = np.atleast_2d(getattr(self, "coef_stderr_", np.full(rows.shape, np.nan)))
        units = self._units(rows.shape[1])
        classes = list(getattr(self, "classes_", []))[-len(rows) :] if len(rows) > 1 else [""]
        return [
            {
                **({"class": kind} if len(rows) > 1 else {}),
                "name": name,
                "value": float(value * unit),
                "stderr": float(error * unit),
            }
            for kind, row, error_row in zip(classes or [""], rows, errors, strict=True)
            for name, value, error, unit in zip(names, row, error_row, units, strict=True)
        ]

    def _names(self, d: int) -> list[str]:
        """Return the features' names, or x0, x1, ... where they have none."""
        found = getattr(self, "feature_names_out_", getattr(self, "feature_names_in_", None))
        return [f"x{place}" for place in range(d)] if found is None else [str(n) for n in found]

    def _units(self, d: int) -> list[float]:
        """Return how much of an encoded column one unit of a declared one is."""
        encoder = self._encoder
        return [1.0] * d if encoder is None else list(encoder.units)

    def _noise_each(self, d: int, noise: Floats) -> Floats:
        """Return what noise has put into each coefficient, in the features' own units."""
        return self._unscaled(np.append(noise, 0.0), d)[0]

    def _attributes(self) -> tuple[Attribute, ...]:
        """Return which columns are whose; none: each column is an attribute of its own."""
        encoder = self._encoder
        return () if encoder is None else encoder.attributes

    def _predicted(self, X: Any) -> Floats:  # noqa: N803
        """Return what coefficients and intercepts come to: a number for each person, or a row."""
        check_is_fitted(self)
        x = self._rows(X)
        if not isinstance(x, EncodedTable):
            return np.asarray(x @ self.coef_.T + self.intercept_)
        parts = [
            x[some] @ self.coef_.T + self.intercept_ for some in _passes(max(len(x), 1), x.shape[1])
        ]
        return np.concatenate(parts)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        return tags


def _passes(people: int, width: int) -> Iterator[slice]:
    """Yield all people, some at a time."""
    step = max(1, NUMBERS_PER_PASS // max(width, 1))
    for start in range(0, people, step):
        yield slice(start, start + step)


def _symmetric(low: Any, high: Any) -> tuple[Any, Any]:
    """Widen a range to both sides of 0: a model without a constant must not shift anything."""
    half = np.maximum(np.abs(low), np.abs(high))
    return -half, half


def _refuse_extras(extras: Mapping[str, Any]) -> None:
    """Refuse what other models take, and say why."""
    if "sample_weight" in extras:
        raise ParameterError(
            "sample_weight is refused: a report is clipped and randomised before anybody could "
            "weigh it, and a weight of one's own would be one more private number to protect"
        )
    if extras:
        raise ParameterError(f"fit takes X and y; got {', '.join(sorted(extras))}")


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

    w is that of features scaled to [-1, 1]. Slopes are cut off while the weights are learnt, so
    people with large errors count less for them; the level is asked again without.

    After `fit`: `coef_` and `intercept_` in the units of the data, `coef_stderr_` (what noise alone
    has put into a coefficient, at most), `score_` (by how much the squared error is below that of
    the mean, each person's cut off, with its interval), `loss_`, `path_`, `asked_`, `n_iter_`.

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
        outside: str = "refuse",
        columns: Encoder | Mapping[str, Declared] | None = None,
        rounds: int | None = None,
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
            outside=outside,
            columns=columns,
            rounds=rounds,
            projection=projection,
            verbose=verbose,
        )
        self.target_bounds = target_bounds

    def fit(self, X: Any, y: ArrayLike, **extras: Any) -> Self:  # noqa: N803
        """Train on people with features X and targets y: a row, a number each."""
        _refuse_extras(extras)
        x, target = self._with_target(X, y, numbers=True)
        if target.dtype.kind not in "fiub" or not np.isfinite(target.astype(np.float64)).all():
            raise InputError(NOT_NUMBERS)
        low, high = self._target_ends()
        self._require_inside(x)
        beyond = int(((target < low) | (target > high)).sum())
        self.clamped_ += self._beyond(beyond, target.size, "target", "target_bounds")
        self._take(self._train(x, self._targets(target)), x.shape[1])
        return self

    def _take(self, weights: Floats, d: int) -> None:
        """Keep weights of scaled features as coefficients in the data's units."""
        low, high = self._target_ends()
        coefficients, constant = self._unscaled(weights, d)
        half = (high - low) / 2
        self.coef_, self.intercept_ = coefficients * half, low + (constant + 1) * half
        if self.noise_ is not None:
            self.coef_stderr_ = self._noise_each(d, self.noise_) * half

    def _targets(self, y: ArrayLike) -> Floats:
        """DEVICE. Scale the target from its bounds to [-1, 1], and clip."""
        low, high = self._target_ends()
        return np.clip(2 * (np.asarray(y, np.float64) - low) / (high - low) - 1, -1, 1)

    def _told(self, score: Estimate) -> Estimate:
        """Squared errors in the target's own units."""
        low, high = self._target_ends()
        half = (high - low) / 2
        note = "squared error of the mean less the model's, each person's cut off"
        return replace(score, value=score.value * half**2, stderr=score.stderr * half**2, note=note)

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

    def predict(self, X: Any) -> Floats:  # noqa: N803
        """Return the predicted targets."""
        return self._predicted(X)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # a few hundred people are not enough for anybody
        return tags


class LinearClassifier(ClassifierMixin, LinearModel):  # type: ignore[misc]
    """What the two classifiers share: classes by the largest score, or by the sign of one."""

    _several = False
    """Whether three or more classes can be told apart."""

    def fit(self, X: Any, y: ArrayLike, **extras: Any) -> Self:  # noqa: N803
        """Train on people with features X and one of the classes y."""
        _refuse_extras(extras)
        x, labels = self._with_target(X, y)
        check_classification_targets(labels)
        self.classes_ = np.unique(labels)
        if len(self.classes_) > 2 and not (self._several and self._adapts):
            raise ValueError(
                "Only binary classification is supported. The type of the target is "
                f"{type_of_target(labels)}."
            )
        if len(self.classes_) < 2:
            raise InputError("this classifier needs two classes; the data has one class")
        self._require_inside(x)
        scores = len(self.classes_) if len(self.classes_) > 2 else 1
        self._take(self._train(x, self._targets(labels), scores), x.shape[1])
        return self

    def _take(self, weights: Floats, d: int) -> None:
        """Keep weights of scaled features as coefficients in the data's units."""
        rows = np.atleast_2d(weights)
        found = [self._unscaled(row, d) for row in rows]
        self.coef_ = np.array([coefficients for coefficients, _ in found])
        self.intercept_ = np.array([constant for _, constant in found])
        if self.noise_ is not None:
            self.coef_stderr_ = np.tile(self._noise_each(d, self.noise_), (len(rows), 1))

    def _targets(self, y: ArrayLike) -> Floats:
        """DEVICE. Return -1 or 1, or the number of the class where there are three or more."""
        place = np.searchsorted(self.classes_, np.asarray(y)).astype(np.float64)
        return place if len(self.classes_) > 2 else 2 * place - 1

    def _told(self, score: Estimate) -> Estimate:
        """The share that is told right."""
        note = "share of people whose class is told right"
        return replace(score, value=(score.value + 1) / 2, stderr=score.stderr / 2, note=note)

    def decision_function(self, X: Any) -> Floats:  # noqa: N803
        """Return scores: above 0 speaks for the second of two classes; else one for each class."""
        scores = self._predicted(X)
        return np.asarray(scores[:, 0] if len(self.intercept_) == 1 else scores)

    def predict(self, X: Any) -> Any:  # noqa: N803
        """Return the predicted classes."""
        scores = self.decision_function(X)
        place = scores.argmax(axis=1) if scores.ndim == 2 else (scores > 0).astype(np.int64)
        return self.classes_[place]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = self._several and self._adapts
        tags.classifier_tags.poor_score = True  # a few hundred people are not enough for anybody
        return tags


class LogisticRegression(LinearClassifier):
    """Logistic regression from randomised gradients: minimises ln(1 + e^(-y s)) + alpha/2 |w|^2.

    Three classes or more have a score each (softmax). Level and scale of the scores are asked again
    after training, so that probabilities are right on average; which classes there are is taken to
    be public. `score_` is the share of people whose class is told right.

    >>> x = np.random.default_rng(1).uniform(-1, 1, (20_000, 2))
    >>> model = LogisticRegression(epsilon=4.0, random_state=1).fit(x, x[:, 0] > x[:, 1])
    >>> model.score(x, x[:, 0] > x[:, 1]) > 0.95
    True
    """

    _objective = "logistic"
    _several = True

    def predict_proba(self, X: Any) -> Floats:  # noqa: N803
        """Return the probability of each class."""
        scores = self.decision_function(X)
        if scores.ndim == 2:
            return np.asarray(softmax(scores, axis=1))
        second = expit(scores)
        return np.column_stack([1 - second, second])


class LinearSVC(LinearClassifier):
    """A linear SVM from randomised gradients: minimises max(0, 1 - y s) + alpha/2 |w|^2."""

    _objective = "hinge"
