"""Training in rounds: the collector asks, devices answer, the collector takes a step.

    training = Training(...)
    while (model := training.next_round()) is not None:     COLLECTOR publishes the model
        reports = training.answer(model, x, y, rng)         DEVICES of this round's people
        training.close_round(training.tally(reports))       COLLECTOR steps
    training.weights

A simulation and a real collection run the same code: only who calls `answer` differs.

The first round may be about the features instead of gradients: their means, with all of epsilon
of the people of that round, are what features are centred by from then on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from murmuration.errors import ParameterError
from murmuration.exact.arrays import Floats, Reports
from murmuration.exact.randomness import Rng
from murmuration.learn.papers.gradients import Courier
from murmuration.learn.papers.schedule import Plan
from murmuration.mechanisms.tally import Tally
from murmuration.mechanisms.vector.base import TupleMechanism
from murmuration.training.algorithm.losses import Objective

BEYOND = 2.5
"""Standard errors from which on a mean counts as different from 0."""


@dataclass(frozen=True, eq=False)
class Model:
    """What the devices of one round are sent: the weights so far, and how many are to answer."""

    round: int
    weights: Floats
    people: int
    centre: Floats
    """What is taken off the features first."""
    asks_features: bool = False


class Training:
    """The collector's state: weights, and the rounds that are still to come.

    `centring` is a mechanism for the features and how many people answer by it.
    """

    def __init__(
        self,
        objective: Objective,
        courier: Courier,
        plan: Plan,
        penalty: float | Floats = 0.0,
        centring: tuple[TupleMechanism, int] | None = None,
    ) -> None:
        if not (np.all(np.asarray(penalty) >= 0) and np.all(np.isfinite(penalty))):
            raise ParameterError(f"the penalty is 0 or more; got {penalty!r}")
        self.objective, self.courier, self.plan, self.penalty = objective, courier, plan, penalty
        self.centring = centring
        self.centre: Floats = np.zeros(courier.dimensions)
        self.history: list[Floats] = [np.zeros(courier.dimensions)]
        self._open: Model | None = None
        self._centred = centring is None

    @property
    def rounds_done(self) -> int:
        """How many rounds of gradients are closed."""
        return len(self.history) - 1

    def next_round(self) -> Model | None:
        """COLLECTOR. Return the model of the next round, or None when there is none left.

        Asked again before the round is closed, it is the same model, for devices that have not
        answered. One that has must send the same report again, never a new one.
        """
        if self._open is None and self.rounds_done < len(self.plan.batches):
            people = self.plan.batches[self.rounds_done]
            if self.centring is not None and not self._centred:
                people = self.centring[1]
            self._open = Model(
                self.rounds_done, self.history[-1], people, self.centre, not self._centred
            )
        return self._open

    def answer(self, model: Model, x: Floats, y: Floats, rng: Rng) -> Reports:
        """DEVICE. Return the randomised gradients of people with features x and targets y.

        In a round about the features, the randomised features; they are in [-1, 1].
        """
        if model.asks_features and self.centring is not None:
            return self.centring[0].privatize(x[:, : self._features], rng)
        gradients = self.objective.gradients(model.weights, x - model.centre, y)
        return self.courier.send(gradients, x, rng)

    @property
    def _features(self) -> int:
        """How many features are centred: all but the constant."""
        return 0 if self.centring is None else len(self.centring[0].attributes)

    def tally(self, reports: Reports) -> Tally:
        """COLLECTOR. Check and count reports; tallies of one round add up."""
        if self.centring is not None and not self._centred:
            return self.centring[0].tally(reports)
        return self.courier.mechanism.tally(reports)

    def close_round(self, tally: Tally) -> None:
        """COLLECTOR. Take a step against the mean gradient (or note the means): a round is over."""
        if self._open is None:
            raise ParameterError("no round is open: call next_round first")
        if self.centring is not None and not self._centred:
            self.centre = np.zeros(self.courier.dimensions)
            self.centre[: self._features] = _means_beyond_noise(self.centring[0], tally)
            self._centred = True
        else:
            step = self.plan.steps[self._open.round]
            moved = self._open.weights - step * self.courier.read(tally)
            # The penalty's own step is taken backwards, which no step size can make overshoot.
            self.history.append(moved / (1 + step * self.penalty))
        self._open = None

    @property
    def weights(self) -> Floats:
        """The model so far: the mean of the last weights, as many as the plan averages."""
        tail = min(self.plan.tail, max(self.rounds_done, 1))
        return np.asarray(np.mean(self.history[-tail:], axis=0))


def _means_beyond_noise(mechanism: TupleMechanism, tally: Tally) -> Floats:
    """Return the features' means, 0 where noise alone could have made them.

    To centre by noise would make things worse, not better.
    """
    means = np.clip(mechanism.mean_vector(tally), -1, 1)
    noise = math.sqrt(mechanism.worst_variance() / tally.n)
    return np.where(np.abs(means) > BEYOND * noise, means, 0.0)
