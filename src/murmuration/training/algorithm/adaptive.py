"""The default training: how much is asked, and how far it goes, follows from the noise.

Every person answers one question (`questions.py`), so people are what training spends, and the
noise of every answer is known before it is asked. The rules, all of them by public numbers (people,
features, epsilon) and by what reports have shown, none by data:

1. *Whether* (`legs.pays`): where half of the people are not expected to gain as much as `WORTH` of
   a constant's loss, everybody is asked for the target alone.
2. *Before* (`before.py`, `look.py`): one attribute of each of some people, to centre and scale the
   columns; the target's level and spread, in ever narrower ranges.
3. *Three legs* of descent (`legs.py`, `descent.py`), as far as the gradient is above its noise
   (`outlook.py`). Between two of them columns are weighed by what their attributes have shown
   (`relevance.py`).
4. *After* (`after.py`, `factor.py`): of other people, by how much predictions should be multiplied,
   and the level, together. Last, of people who had no part in any of it, how good the model is.

What is asked with much noise is drawn towards a stated guess, by how noisy it is; what is asked
twice is pooled by precision. The numbers were chosen by trial on simulated data, on households of
the Current Population Survey and on Adult; `experiments.learning` shows what they come to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from murmuration.errors import ParameterError
from murmuration.mechanisms.tally import Tally, require_same
from murmuration.training.algorithm.after import (
    People,
    Sized,
    calibrated,
    only_level,
    score,
    size_up,
)
from murmuration.training.algorithm.before import ask_before, ask_level, guessed
from murmuration.training.algorithm.legs import Way, descend, pays
from murmuration.training.algorithm.questions import Model, Question
from murmuration.training.algorithm.state import (
    Crowd,
    Procedure,
    Setting,
    Stage,
    Start,
    Trained,
    between,
)

WIDE = 0.15
"""The mean of a number in its whole range is asked with that noise, in spreads, if it can be."""


class AdaptiveTraining:
    """The collector's state: it publishes rounds of questions until the model is done.

        training = AdaptiveTraining(setting)
        while (questions := training.next_round()) is not None:
            tallies = [q.mechanism.tally(q.answer(x, y, rng)) for q in questions]  # others each
            training.close_round(tallies)
        training.trained

    All of the state follows from the tallies of the rounds that were closed, in order: whoever has
    kept them can build it again. `question.people` is how many are expected; as many as a tally
    has count, with the noise of so many. An empty tally is as if nobody had been asked.
    """

    def __init__(self, setting: Setting) -> None:
        if setting.people < 1:
            raise ParameterError("nobody is there to be asked")
        self.setting = setting
        self.rounds_done = 0
        self._trained: Trained | None = None
        self._crowd = Crowd(setting)
        self._procedure = _procedure(setting, self._crowd)
        self._open: tuple[Question, ...] | None = next(self._procedure)

    def next_round(self) -> tuple[Question, ...] | None:
        """COLLECTOR. Return the questions of the open round, or None when training is over."""
        return self._open

    def close_round(self, tallies: Sequence[Tally]) -> None:
        """COLLECTOR. Take the tallies of the open round's questions, in their order."""
        if self._open is None:
            raise ParameterError("no round is open: training is over")
        if len(tallies) != len(self._open):
            raise ParameterError(
                f"{len(self._open)} questions are open; got {len(tallies)} tallies"
            )
        for question, tally in zip(self._open, tallies, strict=True):
            require_same(question.mechanism, tally)  # refused here, the round stays open
        self.rounds_done += 1
        try:
            self._open = self._procedure.send(tallies)
        except StopIteration as done:
            self._open, self._trained = None, done.value
            self._trained.rounds = self.rounds_done

    def end(self) -> None:
        """COLLECTOR. End now, with what was reached: nobody is asked any more.

        Before there is a model, it is the constant that is known so far.
        """
        done = self.rounds_done
        while self._open is not None and self._crowd.reached is None:
            self.close_round([question.mechanism.empty() for question in self._open])
        if self._open is not None and self._crowd.reached is not None:
            self._procedure.close()
            self._open = None
            self._trained = replace(self._crowd.reached, rounds=done)

    @property
    def curve(self) -> list[Stage]:
        """What reports say was gained so far, after every round of gradients."""
        return [] if self._crowd.reached is None else self._crowd.reached.curve

    @property
    def trained(self) -> Trained:
        """What training has ended with."""
        if self._trained is None:
            raise ParameterError("training is not over yet")
        return self._trained


def _procedure(setting: Setting, crowd: Crowd) -> Procedure:
    """Ask before, in legs, and after."""
    scored = crowd.take(0.03)
    if setting.intercept and not pays(setting, guessed(setting), crowd.left // 2):
        return (yield from _constant(setting, crowd, scored))
    model, start = yield from ask_before(setting, crowd)
    without = model
    nothing = np.zeros(setting.features)
    crowd.reached = Trained(model, without, [], 1.0, nothing, 0, early=True)
    people = _kept_back(setting, crowd, scored, start)
    left = crowd.left
    if not pays(setting, start, left):
        return (yield from _only_level(setting, crowd, model, start, people))
    way = yield from descend(setting, crowd, model, start)
    long = float(np.linalg.norm(way.model.weights * way.base / way.model.scale))
    if long == 0:
        return (yield from _only_level(setting, crowd, model, start, people))
    sized = yield from size_up(setting, way.model, start, long, people)
    done = yield from calibrated(setting, way, without, sized, people)
    factor = done.factor
    without = _constant_of(setting, done.model, without, sized, factor)
    trained = way_reached(way, done.model, without, factor)
    crowd.reached = replace(trained, early=True)
    yield from score(setting, trained, start, factor * sized.predictions.size, people.score)
    return trained


def way_reached(way: Way, model: Model, without: Model, factor: float) -> Trained:
    """Return the training that has come so far, its predictions multiplied."""
    reached = way.crowd.reached
    noise = np.zeros(way.setting.features) if reached is None else reached.noise
    pulls = [] if reached is None else reached.pulls
    return Trained(
        *(model, without, way.path, factor, factor * noise, 0), curve=way.curve, pulls=pulls
    )


def _kept_back(setting: Setting, crowd: Crowd, scored: int, start: Start) -> People:
    """Return how many are kept for each question after training, and count them as asked."""
    noise = crowd.level_noise
    sized = crowd.take(0.04, 2)
    agreed = crowd.take(between(0.05, 250 * noise, 0.12), 2)
    intercept = crowd.take(between(0.025, 250 * noise, 0.12)) if setting.intercept else 0
    wide = 0
    if setting.intercept and setting.number:
        wide = crowd.take(between(0.02, noise / (WIDE * start.spread) ** 2, 0.05))
    asked = *crowd.parted(sized, 1, 2), *crowd.parted(agreed, 1, 3)
    return People(*asked, intercept, scored, wide)


def _constant_of(
    setting: Setting, model: Model, without: Model, sized: Sized, factor: float
) -> Model:
    """Return the constant that the model is held against: its own mean, which was asked last.

    The intercept that training began with is of fewer people, and would flatter the model.
    """
    if not setting.number or not setting.intercept:
        return without
    return replace(without, intercept=np.clip(model.intercept + factor * sized.offset, -1.0, 1.0))


def _constant(setting: Setting, crowd: Crowd, scored: int) -> Procedure:
    """Ask for the target only, from the start: too few people, or too much noise, to train."""
    zeros = np.zeros((setting.scores, setting.features))
    model = Model(zeros, np.zeros(setting.scores), zeros[0], np.ones(setting.features))
    start = yield from ask_level(setting, crowd)
    model = replace(model, intercept=start.intercept)
    crowd.reached = Trained(model, model, [], 0.0, zeros[0], 0, early=True)
    return (yield from _only_level(setting, crowd, model, start, People(0, 0, 0, 0, 0, scored)))


def _only_level(
    setting: Setting, crowd: Crowd, model: Model, start: Start, people: People
) -> Procedure:
    """Ask everybody who is left for the target, and nothing else: the model is a constant."""
    everybody = crowd.left + people.offset + people.size + people.agreement + people.scale
    everybody, crowd.left = everybody + people.intercept + people.wide, 0
    if setting.intercept:
        model = yield from only_level(setting, model, start, everybody)
    nothing = np.zeros(setting.features)
    trained = Trained(model, model, [Stage(model, setting.people, 0.0, 0.0)], 0.0, nothing, 0)
    crowd.reached = replace(trained, early=True)
    yield from score(setting, trained, start, 0.0, people.score)
    return trained
