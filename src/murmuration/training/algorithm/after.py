"""After training: by how much predictions count, the intercept again, and how good the model is."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from murmuration.exact.arrays import Floats
from murmuration.mechanisms.tally import Tally
from murmuration.training.algorithm.before import Mean, _class_shares, of_target
from murmuration.training.algorithm.factor import FORM, Predictions, mean_of, prior, updated
from murmuration.training.algorithm.legs import Along, Way
from murmuration.training.algorithm.questions import (
    Agreement,
    Gain,
    Leftover,
    Leftovers,
    Model,
    NumberQuestion,
    Offset,
    Question,
    Right,
    Size,
    Target,
)
from murmuration.training.algorithm.state import (
    NOBODY,
    Answer,
    Setting,
    Start,
    Trained,
    ask,
    between,
    drawn_towards,
    weight_of,
)

OFFSET, CUT_OFFSET = 0.12, 0.6
"""Predictions are off by so much on average, and cut off there, in lengths of the weights."""
SIZE, DOUBT_SIZE, CUT_SIZE = 0.18, 0.1, 0.5
"""The mean size of predictions, the doubt, and where it is cut off, in the same unit."""
FEW = 0.8
"""Of few features predictions are larger: this, over the root of how many features there are."""
SLOPE = {"squared": 0.5, "hinge": 0.5, "logistic": 0.45, "softmax": 0.9}
"""Where slopes at the constant are cut off: in spreads of the target, or in probabilities."""
SPREAD = 0.4
"""The standard deviation of a product from person to person, in units of its half."""
CUT_MUCH = 0.1
"""How often what is cut off changes the mean of a number, before it is asked."""
CHEAP = 0.05
"""Slopes are cut no closer than costs that much noise, in spreads of a number."""
STEPS = 2
"""So often the factor and the intercept are asked at the model."""
LEAST_FACTOR = 0.05
"""Where predictions count less, their factor is not asked again."""
DIRECTION = 0.1
"""Where gradients were asked predictions are other ones: the factor that follows is off by that."""
KNOWN = 0.12
"""The second question about the factor is cut so far out that it gives the factor to that."""


@dataclass(frozen=True, eq=False)
class Sized:
    """Predictions without what they are on average: their offset, its variance, and how large."""

    offset: Floats
    doubt: float
    predictions: Predictions


@dataclass(frozen=True)
class People:
    """How many are kept for each question after training."""

    offset: int
    size: int
    agreement: int
    scale: int
    intercept: int
    score: int
    wide: int = 0
    """For the mean of a number in its whole range."""


def size_up(
    setting: Setting, model: Model, start: Start, long: float, people: People
) -> Generator[tuple[Question, ...], Sequence[Tally], Sized]:
    """Ask how large predictions are, and what they are on average."""
    laws, k = setting.laws, setting.scores
    usual = max(SIZE, FEW / math.sqrt(setting.features)) / SIZE
    far, cut = max(CUT_OFFSET, CUT_SIZE * usual) * long, CUT_SIZE * usual * long
    asked = people.offset if setting.intercept else 0
    offset = Offset(people=asked, laws=laws, model=model, clip=far, dimensions=k)
    size = Size(people=people.size, laws=laws, model=model, half=cut / 2)
    middle, mean = yield from ask(offset, size)
    weight = weight_of(middle.noise, OFFSET * long) if middle.known else 0.0
    off = weight * middle.value if middle.known else np.zeros(k)
    doubt = math.sqrt(weight) * middle.noise if middle.known else OFFSET * long
    guess = SIZE * usual * long
    near = drawn_towards(mean.single(guess), mean.noise, guess, DOUBT_SIZE * usual * long)
    near = between(0.03 * long, near, cut)
    spread = near * (1.25 if k == 1 else 1.1)
    return Sized(np.asarray(off), doubt, Predictions(setting, start, spread, near))


@dataclass(frozen=True, eq=False)
class Calibrated:
    """A model whose predictions were multiplied, and by how much."""

    model: Model
    factor: float


def calibrated(
    setting: Setting, way: Way, without: Model, sized: Sized, people: People
) -> Generator[tuple[Question, ...], Sequence[Tally], Calibrated]:
    """Multiply predictions, and ask the intercept again, by what other people say of both."""
    predictions, model = sized.predictions, way.model
    first = _agreement(setting, model, without, sized, people.agreement)
    (answer,) = yield from ask(first)
    log = prior()
    if answer.known:
        expected = predictions.agreement(first.most) / first.half
        mean, noise = _read(answer, first.half)
        noise = math.hypot(noise, predictions.cut_off(0.0, first.most) / first.half)
        log = updated(log, mean, noise, expected, FORM[0])
    if way.along is not None:
        log = _of_descent(log, predictions, way.along)
    factor = mean_of(log)
    intercept = Intercept.first(setting, sized, factor)
    steps = (in_steps(each, STEPS, setting.least) for each in (people.scale, people.intercept))
    whole = NOBODY
    for multiplying, levelling in zip(*steps, strict=True):
        now = multiplied(model, intercept.value, sized.offset, factor)
        product = _product(setting, predictions, factor, replace(first, without=now), multiplying)
        off = _level(setting, predictions, now, factor, levelling)
        once = 0 if whole.known else people.wide
        mean_of_all = Target(people=once, laws=setting.laws)
        about_product, about_level, *others = yield from ask(product, off, mean_of_all)
        whole = whole if whole.known else others[0]
        intercept = intercept.pooled(predictions, about_level, factor)
        if about_product.known:
            wide = product.size / predictions.size
            expected = predictions.leftover(factor, product.most, wide) / product.half
            mean, noise = _read(about_product, product.half)
            noise = math.hypot(noise, predictions.cut_off(factor, product.most) / product.half)
            log = updated(log, mean, noise, expected, FORM[1])
            before, factor = factor, mean_of(log)
            intercept = intercept.moved(predictions, before, factor)
    intercept = intercept.checked(whole, predictions.left(factor), factor * sized.doubt)
    if setting.penalty:
        before, factor = factor, factor * _penalised(setting, predictions, model, factor)
        intercept = intercept.moved(predictions, before, factor)
    return Calibrated(multiplied(model, intercept.value, sized.offset, factor), factor)


def _penalised(setting: Setting, predictions: Predictions, model: Model, factor: float) -> float:
    """Return by what a penalty multiplies the factor that people's losses alone would have."""
    curve = float(np.mean(predictions.curve(factor))) * predictions.spread**2
    half = 0.5 if setting.number else 1.0
    return curve / (
        curve + half * setting.penalty * float(np.square(model.weights / model.scale).sum())
    )


def in_steps(people: int, steps: int, least: int) -> list[int]:
    """Share people out over steps; the last one has all of them where they are too few.

    >>> in_steps(300, 2, 100), in_steps(150, 2, 100)
    ([150, 150], [0, 150])
    """
    each = people // steps
    return [each] * steps if each >= least else [*[0] * (steps - 1), people]


def _of_descent(log: Floats, predictions: Predictions, along: Along) -> Floats:
    """Return the posterior of the factor after what gradients along the predictions have shown."""
    variance = predictions.spread**2
    expected = -predictions.leftover(along.ratio, along.most, 4.0) / (along.left * variance)
    off = predictions.cut_off(along.ratio, along.most) / (along.left * variance)
    noise = math.hypot(along.noise / variance, DIRECTION, off)
    return updated(log, along.value / variance, noise, expected, FORM[1])


def _read(answer: Answer, half: float) -> tuple[float, float]:
    """Return a mean product in units of its half, and its noise with that of who was asked."""
    noise = math.hypot(answer.noise / half, SPREAD / math.sqrt(answer.people))
    return answer.single(0.0) / half, noise


def _agreement(
    setting: Setting, model: Model, without: Model, sized: Sized, people: int
) -> Agreement:
    """Return the question whether predictions point to where the constant is off."""
    start, size = sized.predictions.start, sized.predictions.size
    most = SLOPE[setting.objective.name] * (start.spread if setting.square else 1.0)
    lean = sized.predictions.lean(0.0, most)
    return Agreement(
        people=people,
        laws=setting.laws,
        model=model,
        without=without,
        objective=setting.objective,
        middle=sized.offset,
        lean=lean,
        most=most,
        size=size,
        half=_half(most, lean) * size,
    )


def _product(
    setting: Setting, predictions: Predictions, factor: float, at: Agreement, people: int
) -> Agreement:
    """Return the question whether what a model leaves over still goes with its predictions."""
    each = people if factor > LEAST_FACTOR else 0
    most, wide = _wide(setting, predictions, factor, at, max(each, 1))
    size = wide * predictions.size
    lean = predictions.lean(factor, most)
    return replace(at, people=each, lean=lean, most=most, size=size, half=_half(most, lean) * size)


def _half(most: float, lean: Floats) -> float:
    """Return how large a slope can be, less what slopes are on average."""
    return most + float(np.linalg.norm(lean))


@dataclass(frozen=True, eq=False)
class Intercept:
    """The intercept so far, and the variance of each score's."""

    value: Floats
    variance: Floats

    @classmethod
    def first(cls, setting: Setting, sized: Sized, factor: float) -> Intercept:
        """Return the intercept before any is asked again."""
        start, predictions = sized.predictions.start, sized.predictions
        spread = (factor * predictions.spread) ** 2
        curve = predictions.curve(factor)
        share, least = (0.01, 0.0) if setting.square else (0.04, 0.03**2)
        variance = (start.doubt / curve) ** 2 + (factor * sized.doubt) ** 2 + share * spread + least
        return cls(predictions.intercept(factor), np.zeros(setting.scores) + variance)

    def pooled(self, predictions: Predictions, answer: Answer, factor: float) -> Intercept:
        """Return the intercept after a mean of leftovers was read."""
        if not answer.known:
            return self
        curve = predictions.curve(factor)
        off = answer.value - (answer.value.mean() if len(answer.value) > 1 else 0.0)
        noise = (answer.noise / curve) ** 2
        weight = self.variance / (self.variance + noise)
        return Intercept(self.value + weight * off / curve, weight * noise)

    def checked(self, whole: Answer, spread: float, doubt: float) -> Intercept:
        """Return the intercept of a number, held against its mean in the whole range.

        Where few people are far out, what is cut off may be much of the mean. Either nothing is, or
        it is about the spread of what is left over: what was read says which. Predictions are not
        0 on average, by `doubt`.
        """
        if not whole.known:
            return self
        off, nothing = whole.single(0.0) - float(self.value[0]), float(self.variance[0])
        nothing += whole.noise**2 + doubt**2
        something = nothing + spread**2
        log = 0.5 * off**2 * (1 / nothing - 1 / something) - 0.5 * math.log(something / nothing)
        chance = 1 / (1 + (1 - CUT_MUCH) / CUT_MUCH * math.exp(-min(log, 50.0)))
        return Intercept(self.value + chance * off * spread**2 / something, self.variance)

    def moved(self, predictions: Predictions, before: float, after: float) -> Intercept:
        """Return the intercept after the factor has changed."""
        value = self.value + predictions.intercept(after) - predictions.intercept(before)
        return Intercept(value, self.variance + 0.04 * ((after - before) * predictions.spread) ** 2)


def _level(
    setting: Setting, predictions: Predictions, model: Model, factor: float, people: int
) -> Question:
    """Return the question for what a model leaves over on average."""
    laws, objective = setting.laws, setting.objective
    asked = people if setting.intercept else 0
    if setting.scores > 1:
        return Leftovers(
            people=asked,
            laws=laws,
            model=model,
            objective=objective,
            clip=1.1,
            dimensions=setting.scores,
        )
    half = 1.0
    if setting.square:
        far = _reach(setting, people) * predictions.left(factor) + predictions.start.doubt
        half = min(max(far, _cheap(setting, predictions.left(factor), people)), 2.0)
    return Leftover(people=asked, laws=laws, model=model, objective=objective, half=half)


def _wide(
    setting: Setting, predictions: Predictions, factor: float, asked: Agreement, people: int
) -> tuple[float, float]:
    """Return where slopes and predictions are cut off, and what the first question weighs then.

    As far out as lets the noise give the factor to `KNOWN`: what is cut off less is more right.
    """
    start = predictions.start
    if setting.square:
        far, near, curve = 3 * start.spread, 0.8 * predictions.left(factor), 1.0
    elif setting.scores > 1:
        shares = start.shares
        far, near = 1.2, 0.8
        curve = 0.8 * float((shares * (1 - shares)).sum()) / (len(shares) - 1)
    else:
        far, near, curve = 1.0, 0.5, 0.8 * float(start.shares[0] * start.shares[1])
    error = replace(asked, people=people).noise / asked.half
    room = KNOWN * factor * curve * predictions.spread**2 / error
    if setting.square:  # what lies far out is what a normal law knows least about
        most = between(near, room / (1.4 * predictions.size), far)
        return most, between(1.4, room / (most * predictions.size), 4.0)
    wide = between(1.4, room / (near * predictions.size), 4.0)
    return between(near, room / (wide * predictions.size), far), wide


def multiplied(model: Model, intercept: Floats, offset: Floats, factor: float) -> Model:
    """Return the model whose predictions, less their offset, are multiplied."""
    return replace(model, weights=factor * model.weights, intercept=intercept - factor * offset)


def _reach(setting: Setting, people: int) -> float:
    """Return where targets are cut off, in spreads: further out the less noise there is."""
    noise = math.sqrt(setting.laws.number.worst_variance() / max(people, 1))
    return between(1.25, 0.6 * math.log(1 / min(noise, 1.0)), 4.0)


def _cheap(setting: Setting, spread: float, people: int) -> float:
    """Return how far out a number may be cut off at little cost."""
    return CHEAP * spread / math.sqrt(setting.laws.number.worst_variance() / max(people, 1))


def only_level(
    setting: Setting, model: Model, start: Start, people: int
) -> Generator[tuple[Question, ...], Sequence[Tally], Model]:
    """Ask everybody who is left for the target, and for nothing else."""
    laws, objective = setting.laws, setting.objective
    if setting.number:
        half = 1.3 * _reach(setting, people) * start.spread + 2 * start.doubt
        half = min(max(half, _cheap(setting, start.spread, people)), 2.0)
        if start.doubt > 1:  # nothing is known but the range: the spread is half of it
            half = start.spread
        question: Question = Leftover(
            people=people, laws=laws, model=model, objective=objective, half=half
        )
        (answer,) = yield from ask(question)
        mean = Mean(float(model.intercept[0]), start.doubt**2)
        if answer.known:
            mean = mean.with_another(mean.value + answer.single(0.0), answer.noise**2)
        return replace(model, intercept=np.array([between(-1.0, mean.value, 1.0)]))
    (answer,) = yield from ask(of_target(setting, people))
    if not answer.known:
        return model
    if setting.scores > 1:
        weight = start.doubt**2 / (start.doubt**2 + answer.noise**2)
        value = start.shares + weight * (answer.value - start.shares)
        pooled = Answer(value, answer.noise * math.sqrt(weight), people)
        return replace(model, intercept=np.log(_class_shares(setting.scores, pooled)))
    variance = answer.noise**2 / 4
    mean = Mean(float(start.shares[1]), start.doubt**2)
    share = mean.with_another((1 + answer.single(0.0)) / 2, variance).value
    share = between(0.02, share, 0.98)
    hinge = objective.name == "hinge"
    return replace(
        model, intercept=np.array([2 * share - 1 if hinge else math.log(share / (1 - share))])
    )


def score(
    setting: Setting, trained: Trained, start: Start, size: float, people: int
) -> Generator[tuple[Question, ...], Sequence[Tally], None]:
    """Ask people who had no part in the model how good it is."""
    if people == 0:
        return
    laws, model = setting.laws, trained.model
    question: NumberQuestion
    if setting.number:
        noise = math.sqrt(laws.number.worst_variance() / people)
        far = 0.02 * start.spread**2 / noise
        half = min(max(6 * start.spread * size, 0.05 * start.spread**2, far), 4.0)
        question = Gain(
            people=people,
            laws=laws,
            model=model,
            without=trained.without,
            half=half,
        )
    else:
        question = Right(people=people, laws=laws, model=model)
    (tally,) = yield (question,)
    if tally.n == 0:
        return
    trained.question = question
    trained.score = question.estimate(tally, about="population")
