"""The default training: how much is asked, and how far it goes, follows from the noise.

Every person answers one question (`questions.py`), so people are what training spends, and the
noise of every answer is known before it is asked. The rules, all of them by public numbers (people,
features, epsilon) and by what reports have shown, none by data:

1. *Before*: how long features are and their means, to centre and scale them; the target's level
   and spread. What is asked with much noise is drawn towards a stated guess, by how noisy it is; a
   mean that noise could have made counts as 0.
2. *Three legs* of descent (`descent.py`). A leg goes as far as lets its noise cost `ALLOWED` of
   what a constant leaves unexplained; once reports show a gain, the next leg may cost a part of
   it. Slopes are cut off at about half of the target's spread (`CUT`): that is where the most is
   learnt for the noise. What is cut off shrinks as the model explains more.
3. *After*: whether predictions point to where the constant is off, asked of other people. As far as
   that is not beyond noise the model is drawn towards the constant: it is never much worse.
   Then the level, since cut-off slopes move it. Last, of people who had no part in any of it, how
   good the model is: the score.

The numbers below were chosen by trial on simulated data, on households of the Current Population
Survey and on Adult; `experiments.learning` shows what they come to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from murmuration.errors import ParameterError
from murmuration.mechanisms.tally import Tally, require_same
from murmuration.training.algorithm.after import confirm, level_again, rescale, score
from murmuration.training.algorithm.before import ask_before, of_target, started
from murmuration.training.algorithm.legs import descend
from murmuration.training.algorithm.questions import (
    Agreement,
    Model,
    Question,
)
from murmuration.training.algorithm.state import (
    Crowd,
    Procedure,
    Setting,
    Stage,
    Trained,
    ask,
    between,
    beyond_noise,
)

ONLY_LEVEL = 0.002
"""Only the level is asked where the mean of all has more variance than this, in [-1, 1]."""


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
    if setting.intercept and crowd.level_noise > ONLY_LEVEL:
        return (yield from _only_level(setting, crowd, scored))
    model, start = yield from ask_before(setting, crowd)
    without = replace(model, intercept=start.intercept.copy())
    crowd.reached = Trained(model, without, [], 1.0, 0.0, 0, early=True)
    agreed = crowd.parted(crowd.take(between(0.02, 800 * crowd.level_noise, 0.15), 2), 3, 10)
    sized = crowd.parted(crowd.take(0.02, 2), 1, 2)
    sloped = crowd.take(0.02)
    levelled = crowd.take(for_level(setting, crowd), 2) if setting.intercept else 0
    levels = crowd.parted(levelled, 1, 2)
    model, path, noise, spread = yield from descend(setting, crowd, model, start)
    model, kept, asked = yield from confirm(setting, model, without, start, agreed, sized)
    curve = [] if crowd.reached is None else crowd.reached.curve
    pulls = [] if crowd.reached is None else crowd.reached.pulls
    reached = Trained(
        *(model, without, path, kept, kept * noise, 0), early=True, curve=curve, pulls=pulls
    )
    crowd.reached = reached
    gained = kept * between(0.0, beyond_noise(path[-1].gained, path[-1].doubt), 0.9)
    start = replace(start, spread=spread)
    model = yield from level_again(setting, model, start, gained, levels[0])
    crowd.reached = replace(reached, model=model)
    model, slope = yield from rescale(setting, model, start, asked, kept, sloped)
    crowd.reached = replace(reached, model=model, kept=kept * slope, noise=kept * slope * noise)
    start = replace(start, doubt=start.doubt / 2)
    model = yield from level_again(setting, model, start, gained, levels[1])
    without = _constant_of(setting, model, without, asked, kept * slope)
    whole = kept * slope
    trained = Trained(*(model, without, path, whole, whole * noise, 0), curve=curve, pulls=pulls)
    crowd.reached = replace(trained, early=True)
    size = 0.0 if asked is None else kept * asked.size
    yield from score(setting, trained, start, size, scored)
    return trained


def _constant_of(
    setting: Setting, model: Model, without: Model, asked: Agreement | None, kept: float
) -> Model:
    """Return the constant that the model is held against: its own mean, which was asked last.

    The level that training began with is of fewer people, and would flatter the model.
    """
    if not setting.number or not setting.intercept:
        return without
    middle = np.zeros(1) if asked is None else kept * asked.middle
    return replace(without, intercept=np.clip(model.intercept + middle, -1.0, 1.0))


def _only_level(setting: Setting, crowd: Crowd, scored: int) -> Procedure:
    """Ask everybody for the target, and nothing else: the model is the mean, or the shares."""
    question = of_target(setting, crowd.left)
    (found,) = yield from ask(question)
    start = started(setting, found)
    zeros = np.zeros((setting.scores, setting.features))
    model = Model(zeros, start.intercept, zeros[0], 1.0)
    trained = Trained(model, model, [Stage(model, setting.people, 0.0, 0.0)], 0.0, 0.0, 0)
    crowd.reached = replace(trained, early=True)
    yield from score(setting, trained, start, 0.0, scored)
    return trained


def for_level(setting: Setting, crowd: Crowd) -> float:
    """Return which part of the people the last question about the level takes."""
    if setting.number:
        return between(0.03, 500 * crowd.level_noise, 0.3)
    return between(0.04, 200 * crowd.level_noise, 0.2)
