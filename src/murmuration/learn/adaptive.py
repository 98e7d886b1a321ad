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
Survey and on Adult; `experiments/learning.py` shows what they come to.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from murmuration.errors import ParameterError
from murmuration.exact.arrays import Floats
from murmuration.learn.descent import Leg, largest_step, noise_kept
from murmuration.learn.losses import Objective
from murmuration.learn.questions import (
    Agreement,
    Classes,
    Gain,
    Gradient,
    Leftover,
    Leftovers,
    Length,
    Means,
    Model,
    NumberQuestion,
    Offset,
    Question,
    Right,
    Size,
    Spread,
    Target,
)
from murmuration.mechanisms.tally import Tally
from murmuration.mechanisms.vector.privunit import PrivUnit
from murmuration.planning.auto import mechanism as planned
from murmuration.results.estimate import Estimate

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
ONLY_LEVEL = 0.002
"""Only the level is asked where the mean of all has more variance than this, in [-1, 1]."""
BEYOND = 2.5
"""Standard errors from which on a mean counts as different from 0."""
SURE = 0.75, 2.0
"""Standard errors of agreement: up to the first a model does not count, from the second in full."""


@dataclass(frozen=True)
class Setting:
    """What is public before the first question: the task, how many people, and epsilon."""

    objective: Objective
    people: int
    features: int
    epsilon: float
    scores: int = 1
    """1, or the number of classes where there are three or more."""
    intercept: bool = True
    penalty: float = 0.0
    rounds: int | None = None

    @property
    def number(self) -> bool:
        """Whether the target is a number."""
        return self.objective.name == "squared"

    @property
    def square(self) -> bool:
        """Whether the loss is a square: for the hinge, of how far a person is from the margin."""
        return self.objective.name in ("squared", "hinge")


@dataclass(frozen=True, eq=False)
class Stage:
    """One model of the path, and what the reports say it has gained so far."""

    model: Model
    asked: int
    """How many people were asked so far."""
    gained: float
    doubt: float
    """Parts of what a constant leaves unexplained, by the clipped loss, and the standard error."""


@dataclass(eq=False)
class Trained:
    """What a training ends with."""

    model: Model
    without: Model
    """The constant."""
    path: list[Stage]
    kept: float
    """How much of the trained weights is in the model: 0 where agreement was within noise."""
    noise: float
    """The standard deviation that noise has put into each weight, at most."""
    rounds: int
    score: Estimate | None = None
    question: NumberQuestion | None = None
    """What the people of the score were asked."""


Answers = Generator[tuple[Question, ...], Sequence[Tally], list[Floats]]
Procedure = Generator[tuple[Question, ...], Sequence[Tally], Trained]


class AdaptiveTraining:
    """The collector's state: it publishes rounds of questions until the model is done.

        training = AdaptiveTraining(setting)
        while (questions := training.next_round()) is not None:
            tallies = [q.mechanism.tally(q.answer(x, y, rng)) for q in questions]  # others each
            training.close_round(tallies)
        training.trained

    All of the state follows from the tallies of the rounds that were closed, in order: whoever has
    kept them can build it again.
    """

    def __init__(self, setting: Setting) -> None:
        if setting.people < 1:
            raise ParameterError("nobody is there to be asked")
        self.setting = setting
        self.rounds_done = 0
        self._trained: Trained | None = None
        self._procedure = _procedure(setting)
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
            question.mechanism.answered(tally)  # refused here, the round stays open
            if tally.n != question.people:  # the rules go by the noise of that many
                raise ParameterError(f"{question.people} people were asked; {tally.n} are counted")
        self.rounds_done += 1
        try:
            self._open = self._procedure.send(tallies)
        except StopIteration as done:
            self._open, self._trained = None, done.value
            self._trained.rounds = self.rounds_done

    @property
    def trained(self) -> Trained:
        """What training has ended with."""
        if self._trained is None:
            raise ParameterError("training is not over yet")
        return self._trained


# --- who is asked what -------------------------------------------------------------------------


@dataclass
class Crowd:
    """Who has not been asked yet, and what one answer's noise is."""

    setting: Setting
    left: int = field(init=False)

    def __post_init__(self) -> None:
        self.left = self.setting.people
        epsilon = self.setting.epsilon
        number, vector = planned("auto", epsilon=epsilon), PrivUnit(epsilon=epsilon, d=16)
        people = self.setting.people
        self.level_noise = number.worst_variance() / people
        """The variance of a mean of numbers in [-1, 1], if everybody answered."""
        self.vector_noise = vector.total_noise() / 16 / people
        """That of a coordinate of a mean vector, in units of its greatest length."""

    @property
    def asked(self) -> int:
        """How many people have been asked, or are kept for a question after training."""
        return self.setting.people - self.left

    def take(self, share: float) -> int:
        """Return how many people that part of all is, one at least, and count them as asked."""
        taken = min(max(1, int(share * self.setting.people)), self.left)
        self.left -= taken
        return taken


def between(low: float, value: float, high: float) -> float:
    """Return the value, or the end that it is beyond."""
    return min(max(value, low), high)


def drawn_towards(found: float, noise: float, guess: float, doubt: float) -> float:
    """Return what was read, drawn towards a guess by how noisy it is.

    >>> drawn_towards(1.0, 0.1, 0.0, 0.1), drawn_towards(1.0, 0.0, 0.0, 0.1)
    (0.5, 1.0)
    """
    weight = doubt**2 / (doubt**2 + noise**2)
    return weight * found + (1 - weight) * guess


def beyond_noise(found: float, noise: float) -> float:
    """Return what was read less what noise would make of nothing: 0 up to one standard error.

    >>> beyond_noise(0.5, 1.0), beyond_noise(2.0, 1.0)
    (0.0, 1.5)
    """
    return max(found, 0.0) * max(0.0, 1 - (noise / found) ** 2) if found > 0 else 0.0


def _asked(*questions: Question) -> Answers:
    """Ask a round of questions and read the answers; one that nobody is left for has none."""
    put = tuple(question for question in questions if question.people)
    tallies = (yield put) if put else []
    read = {id(q): q.read(tally) for q, tally in zip(put, tallies, strict=True)}
    return [read.get(id(q), np.array([])) for q in questions]


def _procedure(setting: Setting) -> Procedure:
    """Ask before, in legs, and after."""
    crowd = Crowd(setting)
    scored = crowd.take(0.03)
    if setting.intercept and crowd.level_noise > ONLY_LEVEL:
        return (yield from _only_level(setting, crowd, scored))
    model, start = yield from _before(setting, crowd)
    without = replace(model, level=start.level.copy())
    agreed = crowd.take(between(0.02, 800 * crowd.level_noise, 0.15))
    sized = crowd.take(0.02)
    sloped = crowd.take(0.02)
    levelled = crowd.take(_for_level(setting, crowd)) if setting.intercept else 0
    model, path, noise, spread = yield from _legs(setting, crowd, model, start)
    model, kept, asked = yield from _agreed(setting, model, without, start, agreed, sized)
    gained = kept * between(0.0, beyond_noise(path[-1].gained, path[-1].doubt), 0.9)
    start = replace(start, spread=spread)
    model = yield from _levelled(setting, model, start, gained, levelled // 2)
    model, slope = yield from _sloped(setting, model, start, asked, kept, sloped)
    start = replace(start, doubt=start.doubt / 2)
    model = yield from _levelled(setting, model, start, gained, levelled - levelled // 2)
    without = _constant_of(setting, model, without, asked, kept * slope)
    trained = Trained(model, without, path, kept * slope, kept * slope * noise, 0)
    size = 0.0 if asked is None else kept * asked.size
    yield from _scored(setting, trained, start, size, scored)
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
    return replace(without, level=np.clip(model.level + middle, -1.0, 1.0))


def _only_level(setting: Setting, crowd: Crowd, scored: int) -> Procedure:
    """Ask everybody for the target, and nothing else: the model is the mean, or the shares."""
    question = _of_target(setting, crowd.left)
    (found,) = yield from _asked(question)
    start = _start(setting, question, found)
    zeros = np.zeros((setting.scores, setting.features))
    model = Model(zeros, start.level, zeros[0], 1.0)
    trained = Trained(model, model, [Stage(model, setting.people, 0.0, 0.0)], 0.0, 0.0, 0)
    yield from _scored(setting, trained, start, 0.0, scored)
    return trained


def _for_level(setting: Setting, crowd: Crowd) -> float:
    """Return which part of the people the last question about the level takes."""
    if setting.number:
        return between(0.03, 500 * crowd.level_noise, 0.3)
    return between(0.04, 200 * crowd.level_noise, 0.2)


# --- before ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Start:
    """Where training starts: the level, and how far targets are from it."""

    level: Floats
    doubt: float
    """The level's standard error."""
    spread: float
    """The target's standard deviation; 1 for classes."""
    unexplained: float
    """What a constant's loss is: the variance (for the hinge, that of -1 and 1), or the entropy."""
    curve: float
    """The loss's own curvature by a score, before slopes are cut off."""


def _before(
    setting: Setting, crowd: Crowd
) -> Generator[tuple[Question, ...], Sequence[Tally], tuple[Model, Start]]:
    """Ask for lengths, means, level and spread: features are centred and scaled from then on."""
    d, epsilon = setting.features, setting.epsilon
    longest = math.sqrt(d)
    share = between(0.015, 6 * d * crowd.vector_noise, 0.06)
    length = Length(
        people=crowd.take(0.2 * share), epsilon=epsilon, half=longest / 2, middle=longest / 2
    )
    first = _first_level(setting, crowd)
    asked = [length, *([first] if first is not None else [])]
    answers = yield from _asked(*asked)
    long = between(
        0.1 * longest,
        drawn_towards(_one(answers[0], 0.5 * longest), length.noise, 0.5 * longest, 0.2 * longest),
        longest,
    )
    start = _start(setting, first, answers[-1] if first is not None else np.array([]))
    centre = np.zeros(d)
    means = Means(
        people=crowd.take(0.6 * share) if setting.intercept else 0,
        epsilon=epsilon,
        clip=1.1 * long,
        dimensions=d,
    )
    spread = _spread(setting, crowd, start)
    found = yield from _asked(means, *([spread] if spread is not None else []))
    if found[0].size:
        centre = _means(found[0], means.noise)
    if spread is not None:
        start = _spread_out(start, spread, _one(found[1], 0.25))
    again = replace(length, people=crowd.take(0.2 * share), centre=centre)
    answers = yield from _asked(again)
    guess = math.sqrt(max(long**2 - float(centre @ centre), 0.2 * long**2))
    near = drawn_towards(_one(answers[0], guess), again.noise, guess, 0.15 * long)
    scale = between(0.1 * longest, near, longest)
    model = Model(np.zeros((setting.scores, d)), start.level, centre, scale)
    return model, start


def _one(answer: Floats, guess: float) -> float:
    """Return the only number of an answer, or the guess if nobody was asked."""
    return float(answer[0]) if answer.size else guess


def _means(found: Floats, noise: float) -> Floats:
    """Return the features' means, 0 where noise alone could have made them.

    To centre by noise would make things worse, not better.
    """
    clear = np.abs(found) > BEYOND * noise
    return np.where(
        clear, np.clip(found * (1 - (noise / np.where(clear, found, 1)) ** 2), -1, 1), 0
    )


def _first_level(setting: Setting, crowd: Crowd) -> Question | None:
    """Return the question for the level that training starts from."""
    if not setting.intercept:
        return None
    if setting.number:
        return _of_target(setting, crowd.take(between(0.015, 300 * crowd.level_noise, 0.15)))
    return _of_target(setting, crowd.take(between(0.02, 250 * crowd.level_noise, 0.3)))


def _of_target(setting: Setting, people: int) -> Question:
    """Return the question for the target itself: a number, -1 or 1, or one of several classes."""
    if setting.scores > 1:
        return Classes(people=people, epsilon=setting.epsilon, k=setting.scores)
    return Target(people=people, epsilon=setting.epsilon)


def _start(setting: Setting, first: Question | None, found: Floats) -> Start:
    """Return the start that the first answers say."""
    doubt = 0.0 if first is None else first.noise
    if setting.number:
        level = between(-1.0, _one(found, 0.0), 1.0)
        return Start(np.array([level]), doubt, 0.3, 0.09, 1.0)
    if setting.scores > 1:
        shares = np.clip(found if found.size else np.full(setting.scores, 1.0), 0.01, 1)
        shares = shares / shares.sum()
        curve = float(np.sum(shares * (1 - shares)))
        entropy = float(-np.sum(shares * np.log(shares)))
        return Start(np.log(shares), doubt / (curve / setting.scores), 1.0, entropy, curve)
    share = between(0.02, (1 + _one(found, 0.0)) / 2, 0.98)
    curve = share * (1 - share)
    if setting.objective.name == "hinge":
        spread = 2 * math.sqrt(curve)
        return Start(np.array([2 * share - 1]), doubt, spread, spread**2, 1.0)
    entropy = -share * math.log(share) - (1 - share) * math.log(1 - share)
    level = math.log(share / (1 - share)) if setting.intercept else 0.0
    return Start(np.array([level]), doubt / 2 / curve, 1.0, entropy, max(curve, 0.08))


def _spread(setting: Setting, crowd: Crowd, start: Start) -> Spread | None:
    """Return the question for the spread, where the target is a number."""
    if not setting.number:
        return None
    people = crowd.take(between(0.01, 200 * crowd.level_noise, 0.08))
    return Spread(people=people, epsilon=setting.epsilon, level=float(start.level[0]))


def _spread_out(start: Start, question: Spread, found: float) -> Start:
    """Return the start with the spread: 1.25 mean distances if normal, less the level's own.

    The guess is small: a spread that is too small costs some training, one that is too large
    lets noise in.
    """
    distance = drawn_towards(found, question.noise, 0.1, 0.15)
    distance = math.sqrt(max(distance**2 - 0.64 * start.doubt**2, 0.02**2))
    spread = 1.25 * between(0.02, distance, 1.0)
    return replace(start, spread=spread, unexplained=spread**2)


# --- in legs -----------------------------------------------------------------------------------


def _legs(
    setting: Setting, crowd: Crowd, model: Model, start: Start
) -> Generator[tuple[Question, ...], Sequence[Tally], tuple[Model, list[Stage], float, float]]:
    """Descend in legs; return the model, the path, its noise, and what spread is left."""
    poor = min(1.0, POOR / math.sqrt(crowd.vector_noise))
    allowed = ALLOWED * poor
    rounds = _rounds(setting, crowd.left)
    people, spread = crowd.left, start.spread
    path = [Stage(model, crowd.asked, 0.0, 0.0)]
    gained, variance, noise, last, steep = 0.0, 0.0, 0.0, None, 0.0
    explained = 0.0
    parts = [part for _, part in LEGS[len(LEGS) - len(rounds) :]]
    for part, count in zip(parts, rounds, strict=True):
        task = _Task(setting, start, spread, (1 - explained) * allowed, count)
        each = int(people * part / sum(parts) / count)
        model, leg, steep = yield from _leg(task, model, each, last, steep)
        crowd.left -= each * count
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
    most = min(most, people // 20)
    if most < 9:
        return [most] if most else []
    first = [max(2, round(part * most)) for part, _ in LEGS[:-1]]
    return [*first, most - sum(first)]


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


def _leg(
    task: _Task, model: Model, people: int, last: Leg | None, steep: float
) -> Generator[tuple[Question, ...], Sequence[Tally], tuple[Model, Leg, float]]:
    """Ask for gradients, round by round; return the model, the leg, and how steep it was seen."""
    setting = task.setting
    constant = CONSTANT if setting.intercept else 0.0
    question = Gradient(
        people=people,
        epsilon=setting.epsilon,
        model=model,
        objective=setting.objective,
        most=task.most,
        reach=REACH,
        constant=constant,
        clip=task.most * math.hypot(REACH, constant),
        dimensions=setting.scores * (setting.features + 1),
    )
    leg = Leg(1.0, question.noise, question.dimensions)
    for count in range(task.rounds):
        here = _moved(model, leg.point, constant)
        (gradient,) = yield from _asked(replace(question, model=here))
        gradient = _penalised(setting, gradient, here, constant)
        if count == 0:
            steep = _steepness(task, last, gradient, question.noise, steep)
            curvature = PULL * steep if last is not None else 0.0
            known = _steepest(setting)
            steepest = known if steep == 0 else between(0.02, SAFE * steep, known)
            leg.step = task.step(question.noise, curvature, steepest)
        leg.move(gradient)
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
    rows = move.reshape(len(model.level), -1)
    return replace(
        model, weights=model.weights + rows[:, :-1], level=model.level + constant * rows[:, -1]
    )


def _penalised(setting: Setting, gradient: Floats, model: Model, constant: float) -> Floats:
    """Return the gradient with the penalty's; a level has none, nor noise where there is none."""
    rows = gradient.reshape(len(model.level), -1).copy()
    half = 0.5 if setting.number else 1.0
    rows[:, :-1] += half * setting.penalty / model.scale**2 * model.weights
    if constant == 0:
        rows[:, -1] = 0.0
    return rows.ravel()


# --- after -------------------------------------------------------------------------------------


def _agreed(
    setting: Setting, model: Model, without: Model, start: Start, agreed: int, sized: int
) -> Generator[tuple[Question, ...], Sequence[Tally], tuple[Model, float, Agreement | None]]:
    """Draw the model towards the constant as far as agreement is within noise."""
    long = float(np.linalg.norm(model.weights))
    if long == 0:
        return without, 0.0, None
    question = yield from _agreement(setting, model, without, start, agreed, sized, long)
    kept = 0.0
    if question.people:
        (tally,) = yield (question,)
        seen = question.estimate(tally, about="population")
        none, full = SURE
        kept = between(0.0, (seen.value / seen.stderr - none) / (full - none), 1.0)
    drawn = replace(
        model,
        weights=kept * model.weights,
        level=without.level + kept * (model.level - without.level),
    )
    return drawn, kept, question


def _agreement(
    setting: Setting,
    model: Model,
    without: Model,
    start: Start,
    agreed: int,
    sized: int,
    long: float,
) -> Generator[tuple[Question, ...], Sequence[Tally], Agreement]:
    """Ask how large predictions and leftovers are on average; return the question that needs it."""
    epsilon, k, asked = setting.epsilon, setting.scores, agreed * 3 // 10
    size = Size(people=sized // 2, epsilon=epsilon, model=model, half=long / 2)
    offset = Offset(
        people=sized - sized // 2, epsilon=epsilon, model=model, clip=long, dimensions=k
    )
    most = CUT * start.spread if setting.square else CUT_CLASS
    lean = Leftovers(
        people=asked if setting.intercept else 0,
        epsilon=epsilon,
        model=without,
        objective=setting.objective,
        clip=most,
        dimensions=k,
    )
    mean, middle, off = yield from _asked(size, offset, lean)
    near = drawn_towards(_one(mean, 0.25 * long), size.noise, 0.25 * long, 0.1 * long)
    near = between(0.02 * long, near, long)
    return Agreement(
        people=agreed - lean.people,
        epsilon=epsilon,
        model=model,
        without=without,
        objective=setting.objective,
        middle=_weight(offset.noise, 0.15 * long) * (middle if middle.size else np.zeros(k)),
        lean=_weight(lean.noise, 0.3 * most) * (off if off.size else np.zeros(k)),
        most=most,
        size=near,
        half=most * near,
    )


def _sloped(
    setting: Setting,
    model: Model,
    start: Start,
    asked: Agreement | None,
    kept: float,
    people: int,
) -> Generator[tuple[Question, ...], Sequence[Tally], tuple[Model, float]]:
    """Ask whether predictions are too large or too small, and correct them by one factor.

    Cutting off slopes makes them so. Where predictions are right what is left over has nothing to
    do with them; else the product tells the way, and their size and the loss's curvature how far.
    """
    if asked is None or kept == 0 or people == 0:
        return model, 1.0
    size = kept * asked.size
    most = 2.5 * start.spread if setting.square else 1.0
    question = replace(
        asked,
        people=people,
        model=model,
        without=model,
        lean=np.zeros(setting.scores),
        middle=kept * asked.middle,
        most=most,
        size=2.5 * size,
        half=2.5 * most * size,
    )
    (found,) = yield from _asked(question)
    curve = 1.0 if setting.square else 0.7 * start.curve
    change = 1 / (curve * math.pi / 2 * size**2)  # of normal predictions with that mean size
    expected = 0.07 if setting.square else 0.2
    slope = 1 + _weight(change * question.noise, expected) * change * _one(found, 0.0)
    slope = between(0.5, slope, 2.0)
    return replace(model, weights=slope * model.weights), slope


def _levelled(
    setting: Setting, model: Model, start: Start, gained: float, people: int
) -> Generator[tuple[Question, ...], Sequence[Tally], Model]:
    """Ask what the model leaves over, and move its level by that, as far as it is beyond noise."""
    if people == 0 or not setting.intercept:
        return model
    epsilon, objective = setting.epsilon, setting.objective
    if setting.scores > 1:
        several = Leftovers(
            people=people,
            epsilon=epsilon,
            model=model,
            objective=objective,
            clip=1.0,
            dimensions=setting.scores,
        )
        (found,) = yield from _asked(several)
        shares = np.exp(start.level)
        curve = np.maximum(shares * (1 - shares), 0.01)  # each class's own
        expected = math.hypot(start.doubt, 0.1 + 1.5 * gained)
        weight = expected**2 / (expected**2 + np.square(several.noise / curve))
        return replace(model, level=model.level + weight * (found - found.mean()) / curve)
    if setting.number:
        width = _as_far(epsilon, people, 0.045)
        half = min(max(1.75, width) * start.spread + start.doubt, 2.0)
        curve, expected = 1.0, (0.05 + 0.3 * gained) * start.spread
    else:
        hinge = objective.name == "hinge"
        half = 2.0 if hinge else 1.0
        curve = 0.8 if hinge else 0.75 * start.curve
        expected = 0.1 + 1.5 * gained
    question = Leftover(people=people, epsilon=epsilon, model=model, objective=objective, half=half)
    (found,) = yield from _asked(question)
    weight = _weight(question.noise / curve, math.hypot(start.doubt, expected))
    return replace(model, level=model.level + weight * found / curve)


def _as_far(epsilon: float, people: int, noise: float) -> float:
    """Return where to cut off, so that the mean of so many people has this much noise."""
    return noise * math.sqrt(people / planned("auto", epsilon=epsilon).worst_variance())


def _weight(noise: float, expected: float) -> float:
    """Return how much of what was read counts, if about so much is expected."""
    return expected**2 / (expected**2 + noise**2)


def _scored(
    setting: Setting, trained: Trained, start: Start, size: float, people: int
) -> Generator[tuple[Question, ...], Sequence[Tally], None]:
    """Ask people who had no part in the model how good it is."""
    if people == 0:
        return
    epsilon, model = setting.epsilon, trained.model
    question: NumberQuestion
    if setting.number:
        far = _as_far(epsilon, people, 0.02) * start.spread**2
        half = min(max(6 * start.spread * size, 0.05 * start.spread**2, far), 4.0)
        question = Gain(
            people=people,
            epsilon=epsilon,
            model=model,
            without=trained.without,
            objective=setting.objective,
            half=half,
        )
    else:
        question = Right(people=people, epsilon=epsilon, model=model)
    (tally,) = yield (question,)
    trained.question = question
    trained.score = question.estimate(tally, about="population")
