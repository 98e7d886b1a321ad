"""In training: three legs of descent, each as long as its noise allows."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace

from murmuration.exact.arrays import Floats
from murmuration.mechanisms.tally import Tally
from murmuration.training.algorithm.descent import Leg, largest_step, noise_kept, parts_kept
from murmuration.training.algorithm.questions import (
    Gradient,
    Model,
    Question,
)
from murmuration.training.algorithm.state import (
    Crowd,
    Pull,
    Setting,
    Stage,
    Start,
    Trained,
    ask,
    between,
    beyond_noise,
)

ROUNDS = 24
"""Of gradients, at most; before and after them come a few others."""
OTHERS = 9
"""Rounds that are not about gradients: three before, six after."""
LEGS = ((0.25, 0.25), (1 / 3, 0.30), (5 / 12, 0.45))
"""Each leg's part of the rounds, and of the people who answer with gradients."""
ALLOWED, MOST_ALLOWED, PART_OF_GAIN = 0.03, 0.15, 1.0
"""What a leg's noise may cost, in parts of what a constant leaves unexplained."""
POOR = 0.016
"""Where a mean gradient of everybody has more noise than this, in clips, less is allowed."""
CUT, CUT_CLASS = 0.4, 0.45
"""Slopes are cut off here: in standard deviations of the target, or of probabilities."""
REACH, CONSTANT = 0.6, 0.2
"""The longest features, and the level as a feature, in mean lengths."""
STEEPEST = 0.6
"""The curvature in the steepest direction, of features of length 1, until reports show it."""
SAFE, PULL = 2.5, 0.5
"""The steepest direction is so much steeper than the leg's own; noise is pulled back by so much."""


def descend(
    setting: Setting, crowd: Crowd, model: Model, start: Start
) -> Generator[tuple[Question, ...], Sequence[Tally], tuple[Model, list[Stage], float, float]]:
    """Descend in legs; return the model, the path, its noise, and what spread is left."""
    poor = min(1.0, POOR / math.sqrt(crowd.vector_noise))
    allowed = ALLOWED * poor
    rounds = _rounds(setting, crowd.left)
    spread = start.spread
    path = [Stage(model, crowd.asked, 0.0, 0.0)]
    gained, variance, noise, last, steep = 0.0, 0.0, 0.0, None, 0.0
    explained, curve, pulls = 0.0, list[Stage](), list[Pull]()
    for people, count in zip(_each(crowd.left, rounds), rounds, strict=True):
        task = _Task(setting, start, spread, (1 - explained) * allowed, count)
        each = int(people)

        def reached(
            moved: Model,
            leg: Leg,
            each: int = each,
            task: _Task = task,
            before: tuple[float, float, float] = (noise, gained, variance),
            pulled: tuple[Pull, ...] = tuple(pulls),
        ) -> None:
            unit, (noise, gained, variance) = task.share_of(1.0), before
            doubt = math.sqrt(variance + (unit * leg.doubt) ** 2)
            asked = crowd.asked + each * leg.rounds
            curve.append(Stage(moved, asked, gained + unit * leg.fallen, doubt))
            noise = math.hypot(noise, task.noise_of(leg))
            crowd.reached = Trained(
                *(moved, path[0].model, path, 1.0, noise, 0, None, None, True, curve),
                pulls=[*pulled, *task.pulls(leg)],
            )

        model, leg, steep = yield from _leg(task, model, each, last, steep, reached)
        crowd.left -= each * count
        pulls += task.pulls(leg)
        unit = task.share_of(1.0)
        gained += unit * leg.fallen
        variance += (unit * leg.doubt) ** 2
        noise = math.hypot(noise, task.noise_of(leg))
        explained = between(0.0, beyond_noise(gained, math.sqrt(variance)), 0.9)
        path.append(Stage(model, crowd.asked, gained, math.sqrt(variance)))
        step = PART_OF_GAIN * beyond_noise(unit * leg.fallen, unit * leg.doubt)
        allowed = between(ALLOWED * poor, step, MOST_ALLOWED)
        if setting.square:
            spread = start.spread * math.sqrt(max(0.05, 1 - explained))
        last = leg
    return model, path, noise, spread


def _rounds(setting: Setting, people: int) -> list[int]:
    """Return the rounds of each leg: fewer legs where there are few rounds or few people."""
    most = ROUNDS if setting.rounds is None else max(1, setting.rounds - OTHERS)
    most = min(most, people // 20, people // setting.least)
    while most >= 9:
        first = [max(2, round(part * most)) for part, _ in LEGS[:-1]]
        legs = [*first, most - sum(first)]
        if min(map(int, _each(people, legs))) >= setting.least:
            return legs
        most -= 1
    return [most] if most else []


def _each(people: int, rounds: list[int]) -> list[float]:
    """Return how many people each leg asks in a round."""
    parts = [part for _, part in LEGS[len(LEGS) - len(rounds) :]]
    return [people * part / sum(parts) / count for part, count in zip(parts, rounds, strict=True)]


@dataclass(frozen=True, eq=False)
class _Task:
    """What a leg knows beforehand: slopes, units, and what its noise may cost."""

    setting: Setting
    start: Start
    spread: float
    allowed: float
    rounds: int

    @property
    def most(self) -> float:
        """Where slopes are cut off."""
        if self.setting.square:
            return CUT * self.spread
        return CUT_CLASS

    @property
    def curve(self) -> float:
        """The curvature by a score, once slopes are cut off: those beyond have none."""
        if self.setting.square:
            return min(1.0, 0.75 * self.most / self.spread)
        return self.start.curve

    def share_of(self, fallen: float) -> float:
        """Return what a fall of the loss, slopes cut off, is in parts of a constant's loss."""
        if self.setting.square:
            return 2 * fallen / (self.curve * self.start.unexplained)
        return fallen / self.start.unexplained / min(1.0, self.most / 0.45)

    def step(self, noise: float, curvature: float, steepest: float) -> float:
        """Return the leg's step for gradients with this noise.

        Features are about 1 long, so a weight's variance is also what it costs, in half losses.
        """
        half = 0.5 * self.start.curve
        if self.setting.square:
            half = 1.0
        variance = self.allowed * self.start.unexplained / half
        most = 1 / (2 * steepest * self.curve)
        return largest_step(self.rounds, variance / noise**2, curvature * self.curve, most)

    def noise_of(self, leg: Leg) -> float:
        """Return the standard deviation that the leg's noise has put into a weight, at most."""
        return leg.noise * math.sqrt(noise_kept(leg.rounds, leg.step))

    @property
    def constant(self) -> float:
        """The level as a feature."""
        return CONSTANT if self.setting.intercept else 0.0

    @property
    def clip(self) -> float:
        """The longest gradient."""
        return self.most * math.hypot(REACH, self.constant)

    def pulls(self, leg: Leg) -> list[Pull]:
        """Return what a lie in each of a leg's rounds does to a weight; a penalty would add to it.

        It is read as a coordinate, which is in [-1, 1] for the truth, in units of `clip`.
        """
        if self.setting.penalty:
            return []
        one = self.clip * self.setting.laws.vector(leg.dimensions).reach().most_moved
        parts = parts_kept(leg.rounds, leg.step)
        return [Pull(part * one, n) for part, n in zip(parts, leg.people, strict=True)]


def _leg(
    task: _Task,
    model: Model,
    people: int,
    last: Leg | None,
    steep: float,
    reached: Callable[[Model, Leg], None],
) -> Generator[tuple[Question, ...], Sequence[Tally], tuple[Model, Leg, float]]:
    """Ask for gradients, round by round; return the model, the leg, and how steep it was seen."""
    setting = task.setting
    constant = task.constant
    question = Gradient(
        people=people,
        laws=setting.laws,
        model=model,
        objective=setting.objective,
        most=task.most,
        reach=REACH,
        constant=constant,
        clip=task.clip,
        dimensions=setting.scores * (setting.features + 1),
    )
    leg = Leg(1.0, question.dimensions)
    for _ in range(task.rounds):
        here = _moved(model, leg.point, constant)
        (answer,) = yield from ask(replace(question, model=here))
        if not answer.known:
            continue  # a round that nobody answered is as if it had not been
        gradient = _penalised(setting, answer.value, here, constant)
        if leg.rounds == 0:
            steep = _steepness(task, last, gradient, answer.noise, steep)
            curvature = PULL * steep if last is not None else 0.0
            known = _steepest(setting)
            steepest = known if steep == 0 else between(0.02, SAFE * steep, known)
            leg.step = task.step(answer.noise, curvature, steepest)
        leg.people.append(answer.people)
        leg.move(gradient, answer.noise)
        reached(_moved(model, leg.average, constant), leg)
    return _moved(model, leg.average, constant), leg, steep


def _steepest(setting: Setting) -> float:
    """Return the curvature in the steepest direction that is reckoned with, before any report.

    One feature is all there is; features that are not centred share a direction, their mean.
    """
    return STEEPEST if setting.intercept and setting.features > 1 else 1.0


def _steepness(
    task: _Task, last: Leg | None, gradient: Floats, noise: float, steep: float
) -> float:
    """Return the largest curvature along a leg that reports have shown, 0 if they show none."""
    seen = None if last is None else last.steepness(gradient, noise)
    return steep if seen is None else max(steep, seen / task.curve)


def _moved(model: Model, move: Floats, constant: float) -> Model:
    """Return the model after a move; the level moves by the constant's weight."""
    rows = move.reshape(len(model.intercept), -1)
    return replace(
        model,
        weights=model.weights + rows[:, :-1],
        intercept=model.intercept + constant * rows[:, -1],
    )


def _penalised(setting: Setting, gradient: Floats, model: Model, constant: float) -> Floats:
    """Return the gradient with the penalty's; a level has none, nor noise where there is none."""
    rows = gradient.reshape(len(model.intercept), -1).copy()
    half = 0.5 if setting.number else 1.0
    rows[:, :-1] += half * setting.penalty / model.scale**2 * model.weights
    if constant == 0:
        rows[:, -1] = 0.0
    return rows.ravel()
