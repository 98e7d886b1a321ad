"""In training: three legs of descent, as far as the outlook says that it pays.

A leg of many small steps is plain descent; where its steps would be large it is accelerated
(`descent.py`). Between two legs columns are weighed by what their attributes have shown
(`relevance.py`).
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from murmuration.exact.arrays import Floats
from murmuration.mechanisms.tally import Tally
from murmuration.training.algorithm.descent import Descent
from murmuration.training.algorithm.outlook import Outlook
from murmuration.training.algorithm.questions import Gradient, Model, Question
from murmuration.training.algorithm.relevance import relevance
from murmuration.training.algorithm.state import (
    Crowd,
    Pull,
    Setting,
    Stage,
    Start,
    Trained,
    ask,
    between,
)

ROUNDS = 32
"""Of gradients, at most; before and after them come a few others."""
OTHERS = 9
"""Rounds that are not about gradients, where a number is predicted: four before, five after."""
OTHERS_CLASS = 6
"""The same for classes: one before, five after."""
LEGS = (0.3, 0.3, 0.4)
"""Each leg's part of the rounds, and of the people who answer with gradients."""
REACH, CONSTANT = 0.6, 0.2
"""The longest features, and the intercept as a feature, in mean lengths."""
CUT = 0.4
"""Slopes of a square are cut off here, in standard deviations of what is left of the target."""
CUT_CLASS = (0.1, 0.45)
"""Slopes of two classes: at the rarer share within these, in the first leg; then at the last."""
GUESS = {"squared": 0.012, "hinge": 0.012, "logistic": 0.08, "softmax": 0.06}
"""The first squared gradient, before reports show it: in squared spreads, or for each class."""
STEEPEST = 0.3
"""The curvature in the steepest direction that is reckoned with, for features of length 1; where
there are few features, 2 for each of them, and 1 at most: it is no more than the whole length."""
LONG_ENOUGH = 0.5
"""Gradients say how long the model should be if asked at weights of so much of its length."""
BACK, SURE = 2.0, 3.0
"""A leg is taken back after which the squared gradient is larger by `BACK`, for sure."""
LARGE = 0.25
"""A leg whose steps would be larger than this, in 1/STEEPEST, is accelerated."""
SURE_GAIN = 0.8
WORTH = 0.015
"""Where less than that of a constant's loss can be gained, only the intercept is asked."""


@dataclass(frozen=True)
class Cut:
    """Where slopes are cut off, and how much of a slope is left on average."""

    most: float
    left: float

    @classmethod
    def of(cls, setting: Setting, start: Start, spread: float, leg: int) -> Cut:
        """Return the cut of a leg, where targets still spread so much."""
        if setting.square:
            return cls(CUT * spread, math.erf(CUT / math.sqrt(2)))
        if setting.scores > 1:
            return cls(*_of_classes(start.shares))
        rarer = float(start.shares.min())
        low, high = CUT_CLASS
        most = between(low, rarer, high) if leg == 0 else high
        q = float(start.shares[1])
        return cls(most, q * (1 - q) * (min(q, most) + min(1 - q, most)))


def _of_classes(shares: Floats) -> tuple[float, float]:
    """Return the shortest slope that anybody of a class has at the start, and what is left."""
    squares = float((shares**2).sum())
    most = math.sqrt(float(((1 - shares) ** 2 + squares - shares**2).min()))
    return most, float((shares * (1 - shares)).sum()) / (len(shares) - 1)


def unit_of(setting: Setting, start: Start) -> float:
    """Return what a squared gradient is in parts of a constant's loss."""
    if setting.square:
        return 1 / start.spread**2
    if setting.scores > 1:
        return 0.25
    return float(start.shares[0] * start.shares[1])


def outlook_of(setting: Setting, start: Start) -> Outlook:
    """Return what is expected of training before its first round."""
    guess = GUESS[setting.objective.name]
    guess *= start.spread**2 if setting.square else setting.scores if setting.scores > 1 else 1.0
    return Outlook(guess, setting.features)


def noise_of_all(setting: Setting, start: Start, people: int) -> float:
    """Return the variance of a coordinate of a mean gradient of so many, in unit features."""
    cut = Cut.of(setting, start, start.spread, 0)
    law = setting.laws.vector(setting.scores * (setting.features + 1))
    own = law.total_noise() / (setting.scores * (setting.features + 1)) / max(people, 1)
    return own * (cut.most * math.hypot(REACH, _constant(setting)) / (REACH * cut.left)) ** 2


def pays(setting: Setting, start: Start, people: int) -> bool:
    """Tell whether training by so many people is expected to gain more than `WORTH`."""
    if people < 20:
        return False
    noise = noise_of_all(setting, start, people)
    return outlook_of(setting, start).ahead(0.0, noise).gain * unit_of(setting, start) >= WORTH


def _constant(setting: Setting) -> float:
    return CONSTANT if setting.intercept else 0.0


@dataclass
class _Readings:
    """Mean gradients of all legs by column, in the columns' own units, pooled by precision."""

    sums: Floats
    weights: Floats

    def add(self, gradient: Floats, noise: float, scale: Floats) -> None:
        """Add a mean gradient (a row for each score) of features that were scaled so."""
        precision = 1 / (noise**2 * scale**2)
        self.sums = self.sums + gradient * scale * precision
        self.weights = self.weights + precision

    def factors(self, setting: Setting, start: Start) -> tuple[Floats, float]:
        """Return the columns' relevance, and how much of the gradient their weighing keeps."""
        read, noise = self.sums / self.weights, 1 / self.weights
        free = 1 - 1 / setting.scores if setting.scores > 1 else 1.0
        noise = noise * free
        columns = [attribute.columns for attribute in setting.attributes]
        factors = relevance(read, noise, start.columns**2, columns)
        signal = np.maximum(np.square(read) - noise, 0)
        return factors, float((signal * factors**2).sum() / max(float(signal.sum()), 1e-30))


@dataclass(frozen=True)
class Along:
    """What the late gradients of the last leg say along the model, which they had no part in.

    A gradient that is asked at w has w' Sigma (w - w*) along w. So it says by how much w is too
    long, and its noise is none that is in w.
    """

    value: float
    """The mean of w' gradient, for a w that is as long as the model's."""
    noise: float
    ratio: float
    """How long w is, in lengths of the model."""
    most: float
    left: float
    """Where slopes were cut off, and by what they were divided."""

    @classmethod
    def of(
        cls,
        asked: Sequence[Floats],
        gradients: Sequence[Floats],
        noise: float,
        end: Floats,
        cut: Cut,
    ) -> Along | None:
        """Return what gradients (without a penalty) that were asked at these weights say."""
        long = float(np.linalg.norm(end))
        late = range(len(asked) // 2, len(asked))
        ratios = {k: float(np.linalg.norm(asked[k])) / long for k in late if long}
        used = [k for k, ratio in ratios.items() if ratio > LONG_ENOUGH]
        if not used:
            return None
        value = np.mean([float((asked[k] * gradients[k]).sum()) / ratios[k] for k in used])
        ratio = np.mean([ratios[k] for k in used])
        doubt = noise * long / math.sqrt(len(used))
        return cls(float(value), doubt, float(ratio), cut.most, cut.left)


@dataclass(eq=False)
class Way:
    """What the legs know together: how far they have come, what is read, what noise there is."""

    setting: Setting
    start: Start
    crowd: Crowd
    model: Model
    people: int
    outlook: Outlook = field(init=False)
    readings: _Readings = field(init=False)
    base: Floats = field(init=False)
    length: float = 0.0
    """Of the descent so far, in the units of the first leg."""
    shrunk: float = 1.0
    """What those units have become by weighing columns."""
    noise: float = 0.0
    """What noise has cost so far, in squared scores."""
    spread: float = 0.0
    path: list[Stage] = field(default_factory=list)
    curve: list[Stage] = field(default_factory=list)
    pulls: list[Pull] = field(default_factory=list)
    steepest: float = field(init=False)
    """The curvature that is reckoned with."""
    along: Along | None = None
    """What the last leg says along the model."""
    put_in: Floats = field(init=False)
    """The standard deviation that noise has put into each weight, in the columns' own units."""

    def __post_init__(self) -> None:
        self.outlook = outlook_of(self.setting, self.start)
        shape = self.model.weights.shape
        self.readings = _Readings(np.zeros(shape), np.zeros(shape[1]))
        self.base, self.spread = self.model.scale, self.start.spread
        self.put_in = np.zeros(shape[1])
        self.steepest = between(STEEPEST, 2 / self.setting.features, 1.0)
        self.path.append(Stage(self.model, self.crowd.asked, 0.0, 0.0))

    def gained(self) -> tuple[float, float]:
        """Return what was gained so far in parts of a constant's loss, and a standard error."""
        unit = unit_of(self.setting, self.start)
        mean, deviation = self.outlook.gain_and_doubt(self.length / self.shrunk)
        return unit * (mean - self.noise), unit * deviation


def descend(
    setting: Setting, crowd: Crowd, model: Model, start: Start
) -> Generator[tuple[Question, ...], Sequence[Tally], Way]:
    """Descend in legs; return how far that went."""
    rounds = _rounds(setting, crowd.left)
    way = Way(setting, start, crowd, model, crowd.left)
    parts = LEGS[len(LEGS) - len(rounds) :]
    for leg, (part, count) in enumerate(zip(parts, rounds, strict=True)):
        people = int(way.people * part / sum(parts))
        after = int(way.people * sum(parts[leg:]) / sum(parts))
        yield from _leg(way, leg, people // count, count, after)
        if leg + 1 < len(rounds) and setting.features > 1:
            _weigh(way)
    return way


def _rounds(setting: Setting, people: int) -> list[int]:
    """Return the rounds of each leg: fewer legs where there are few rounds or few people."""
    others = OTHERS if setting.number else OTHERS_CLASS
    most = ROUNDS if setting.rounds is None else max(1, setting.rounds - others)
    most = min(most, people // 20, people // setting.least)
    if most < 1:
        return []
    if most < 6:
        return [most]
    first = [max(2, round(part * most)) for part in LEGS[:-1]]
    legs = [*first, most - sum(first)]
    fewest = min(int(people * part / count) for part, count in zip(LEGS, legs, strict=True))
    return legs if fewest >= setting.least else [most]


def _leg(
    way: Way, leg: int, people: int, count: int, after: int
) -> Generator[tuple[Question, ...], Sequence[Tally], None]:
    """Ask for gradients, round by round."""
    setting, model = way.setting, way.model
    constant = _constant(setting)
    cut = Cut.of(setting, way.start, way.spread, leg)
    question = Gradient(
        people=people,
        laws=setting.laws,
        model=model,
        objective=setting.objective,
        most=cut.most,
        reach=REACH,
        constant=constant,
        clip=cut.most * math.hypot(REACH, constant),
        dimensions=setting.scores * (setting.features + 1),
    )
    unit = 1 / (REACH * cut.left)
    noise = (unit * question.noise) ** 2 * people
    ahead = way.outlook.ahead(way.length / way.shrunk, noise / after)
    shape = (setting.scores, setting.features + 1)
    further = ahead.length * people * count / after
    descent = Descent.of(further, count, shape, way.steepest, LARGE)
    asked: list[Floats] = []
    gradients: list[Floats] = []
    errors: list[float] = []
    put_in, pulls = way.put_in, way.pulls
    for _ in range(count):
        here = _moved(model, descent.point, constant)
        way.crowd.left -= people
        (answer,) = yield from ask(replace(question, model=here))
        if not answer.known:
            continue  # a round that nobody answered is as if it had not been
        gradient = _gradient(setting, unit * answer.value, here, constant)
        descent.move(gradient, answer.people)
        asked.append(here.weights)
        gradients.append(gradient[:, :-1])
        errors.append(unit * answer.noise)
        way.model = _moved(model, descent.reached, constant)
        put_in, pulls = _note(way, descent, unit * answer.noise, question, unit)
    if gradients and _went_too_far(setting, np.array(gradients), float(np.mean(errors))):
        way.model, way.steepest, way.along = model, 3 * way.steepest, None
        _taken_back(way)
    elif gradients:
        way.put_in, way.pulls = put_in, pulls
        half = 0.5 if setting.number else 1.0
        penalty = half * setting.penalty / model.scale**2
        raw = [gradient - penalty * at for gradient, at in zip(gradients, asked, strict=True)]
        way.along = Along.of(asked, raw, float(np.mean(errors)), way.model.weights, cut)
        _learn(way, descent, np.array(gradients), np.array(errors))
    gain, doubt = way.gained()
    way.path.append(Stage(way.model, way.crowd.asked, gain, doubt))


def _gradient(setting: Setting, read: Floats, model: Model, constant: float) -> Floats:
    """Return the gradient by score and column, with the penalty's; a row for each score."""
    rows = read.reshape(setting.scores, -1).copy()
    if setting.scores > 1:
        rows -= rows.mean(axis=0)
    half = 0.5 if setting.number else 1.0
    rows[:, :-1] += half * setting.penalty / model.scale**2 * model.weights
    if constant == 0:
        rows[:, -1] = 0.0
    return rows


def _went_too_far(setting: Setting, gradients: Floats, noise: float) -> bool:
    """Tell whether gradients have become larger: steps were too long for how steep the loss is."""
    half = len(gradients) // 2
    if half < 2:
        return False
    rows = gradients.reshape(len(gradients), -1)
    (first, _), (last, doubt) = (
        _squared(setting, part, noise) for part in (rows[:half], rows[-half:])
    )
    return last > BACK * max(first, 0.0) + SURE * doubt


def _taken_back(way: Way) -> None:
    """End with the model before the last leg, if training ended now."""
    if way.crowd.reached is not None:
        way.crowd.reached = replace(
            way.crowd.reached, model=way.model, noise=way.put_in, pulls=way.pulls
        )


def _learn(way: Way, descent: Descent, gradients: Floats, errors: Floats) -> None:
    """Take from a leg's gradients what they say: how large they are, and by which columns."""
    setting = way.setting
    noise = float(np.mean(errors))
    length = descent.length
    way.noise += length**2 * noise**2 / len(gradients)
    way.length += length * way.shrunk
    late = gradients[-max(2, len(gradients) // 2) :].reshape(-1, gradients[0].size)
    if len(late) > 1:
        at = way.length / way.shrunk - length * descent.middle
        way.outlook.seen(at, *_squared(setting, late, noise))
    way.readings.add(-gradients.mean(axis=0), noise / math.sqrt(len(gradients)), way.model.scale)
    if setting.square:
        unit = unit_of(setting, way.start)
        gain = unit * (way.outlook.gained(way.length / way.shrunk) - way.noise)
        way.spread = way.start.spread * math.sqrt(1 - between(0.0, SURE_GAIN * gain, 0.9))


def _squared(setting: Setting, gradients: Floats, noise: float) -> tuple[float, float]:
    """Return the squared gradient without its noise, and the standard error."""
    count = len(gradients)
    total = gradients.sum(axis=0)
    pairs = float(total @ total) - float(np.square(gradients).sum())
    square = pairs / (count * (count - 1))
    free = gradients.shape[1] * (1 - 1 / setting.scores if setting.scores > 1 else 1.0)
    variance = noise**2 / count
    return square, variance * math.sqrt(2 * free) + 2 * math.sqrt(max(square, 0.0) * variance)


def _weigh(way: Way) -> None:
    """Scale columns anew, by the relevance of their attributes; predictions stay as they are."""
    if not way.readings.weights.all():
        return
    factors, kept = way.readings.factors(way.setting, way.start)
    smaller = way.base / factors
    longest = math.sqrt(float(np.square(way.start.columns / smaller).sum()))
    scale = smaller * longest
    way.shrunk = between(0.3, kept, 1.0) / longest**2
    way.outlook.rescaled(way.shrunk)
    model = way.model
    way.model = replace(model, weights=model.weights * scale / model.scale, scale=scale)


def _moved(model: Model, move: Floats, constant: float) -> Model:
    """Return the model after a move; the intercept moves by the constant's weight."""
    rows = move.reshape(len(model.intercept), -1)
    return replace(
        model,
        weights=model.weights + rows[:, :-1],
        intercept=model.intercept + constant * rows[:, -1],
    )


def _note(
    way: Way, descent: Descent, noise: float, question: Gradient, unit: float
) -> tuple[Floats, list[Pull]]:
    """Keep what training would end with if it ended now; return its noise, and what lies do."""
    gain, doubt = way.gained()
    way.curve.append(Stage(way.model, way.crowd.asked, gain, doubt))
    put_in = np.hypot(way.put_in, noise * descent.noise / way.model.scale)
    pulls = [*way.pulls, *_pulls(way, descent, question, unit)]
    way.crowd.reached = Trained(
        *(way.model, way.path[0].model, way.path, 1.0, put_in, 0),
        early=True,
        curve=way.curve,
        pulls=pulls,
    )
    return put_in, pulls


def _pulls(way: Way, descent: Descent, question: Gradient, unit: float) -> Iterator[Pull]:
    """Return what a lie in each of a leg's rounds does to a weight; a penalty would add to it."""
    if way.setting.penalty:
        return
    far = unit * question.clip * question.mechanism.reach().most_moved
    for part, people in zip(descent.parts, descent.people, strict=True):
        yield Pull(part * far / float(way.model.scale.min()), people)
