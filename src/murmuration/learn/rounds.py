"""Training in rounds: the collector asks, devices answer, the collector takes a step.

    training = Training(...)
    while (model := training.next_round()) is not None:     COLLECTOR publishes the model
        reports = training.answer(model, x, y, rng)         DEVICES of this round's people
        training.close_round(training.tally(reports))       COLLECTOR steps
    training.weights

A simulation and a real collection run the same code: only who calls `answer` differs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from murmuration.contract import Reports, Tally
from murmuration.errors import ParameterError
from murmuration.law import Floats
from murmuration.learn.gradients import Courier
from murmuration.learn.losses import Objective
from murmuration.learn.schedule import Plan
from murmuration.randomness import Rng


@dataclass(frozen=True, eq=False)
class Model:
    """What the devices of one round are sent: the weights so far, and how many are to answer."""

    round: int
    weights: Floats
    people: int


class Training:
    """The collector's state: weights, and the rounds that are still to come."""

    def __init__(
        self, objective: Objective, courier: Courier, plan: Plan, penalty: float = 0.0
    ) -> None:
        if not 0 <= penalty < np.inf:
            raise ParameterError(f"the penalty is 0 or more; got {penalty!r}")
        self.objective, self.courier, self.plan, self.penalty = objective, courier, plan, penalty
        self.history: list[Floats] = [np.zeros(courier.dimensions)]
        self._open: Model | None = None

    @property
    def rounds_done(self) -> int:
        """How many rounds are closed."""
        return len(self.history) - 1

    def next_round(self) -> Model | None:
        """COLLECTOR. Return the model of the next round, or None when there is none left.

        Asked again before the round is closed, it is the same model: devices that failed to
        answer may be sent it again.
        """
        if self.rounds_done == len(self.plan.batches):
            return None
        if self._open is None:
            place = self.rounds_done
            self._open = Model(place, self.history[-1], self.plan.batches[place])
        return self._open

    def answer(self, model: Model, x: Floats, y: Floats, rng: Rng) -> Reports:
        """DEVICE. Return the randomised gradients of people with features x and targets y."""
        return self.courier.send(self.objective.gradients(model.weights, x, y), x, rng)

    def tally(self, reports: Reports) -> Tally:
        """COLLECTOR. Check and count reports; tallies of one round add up."""
        return self.courier.mechanism.tally(reports)

    def close_round(self, tally: Tally) -> None:
        """COLLECTOR. Take a step against the mean gradient, and end the round."""
        if self._open is None:
            raise ParameterError("no round is open: call next_round first")
        gradient = self.courier.read(tally) + self.penalty * self._open.weights
        step = self.plan.steps[self._open.round]
        self.history.append(self._open.weights - step * gradient)
        self._open = None

    @property
    def weights(self) -> Floats:
        """The model so far: the mean of the last weights, as many as the plan averages."""
        tail = min(self.plan.tail, max(self.rounds_done, 1))
        return np.asarray(np.mean(self.history[-tail:], axis=0))
