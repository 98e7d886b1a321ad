"""After training: is it more than noise, level and scale again, and how good it is."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import replace

import numpy as np

from murmuration.exact.arrays import Floats
from murmuration.mechanisms.tally import Tally
from murmuration.training.algorithm.legs import CUT, CUT_CLASS
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
)
from murmuration.training.algorithm.state import (
    Answer,
    Setting,
    Start,
    Trained,
    ask,
    between,
    drawn_towards,
    weight_of,
)

SURE = 0.75, 2.0
"""Standard errors of agreement: up to the first a model does not count, from the second in full."""

Parted = tuple[int, int]
"""The people of two questions."""


def confirm(
    setting: Setting, model: Model, without: Model, start: Start, agreed: Parted, sized: Parted
) -> Generator[tuple[Question, ...], Sequence[Tally], tuple[Model, float, Agreement | None]]:
    """Draw the model towards the constant as far as agreement is within noise."""
    long = float(np.linalg.norm(model.weights))
    if long == 0:
        return without, 0.0, None
    question = yield from _agreement(setting, model, without, start, agreed, sized, long)
    kept = 0.0
    tally = (yield (question,))[0] if question.people else None
    if tally is not None and tally.n:
        seen = question.estimate(tally, about="population")
        none, full = SURE
        kept = between(0.0, (seen.value / seen.stderr - none) / (full - none), 1.0)
    drawn = replace(
        model,
        weights=kept * model.weights,
        intercept=without.intercept + kept * (model.intercept - without.intercept),
    )
    return drawn, kept, question


def _agreement(
    setting: Setting,
    model: Model,
    without: Model,
    start: Start,
    agreed: Parted,
    sized: Parted,
    long: float,
) -> Generator[tuple[Question, ...], Sequence[Tally], Agreement]:
    """Ask how large predictions and leftovers are on average; return the question that needs it."""
    laws, k, (asked, agreeing) = setting.laws, setting.scores, agreed
    if not setting.intercept:
        asked, agreeing = 0, asked + agreeing
    size = Size(people=sized[0], laws=laws, model=model, half=long / 2)
    offset = Offset(people=sized[1], laws=laws, model=model, clip=long, dimensions=k)
    most = CUT * start.spread if setting.square else CUT_CLASS
    lean = Leftovers(
        people=asked,
        laws=laws,
        model=without,
        objective=setting.objective,
        clip=most,
        dimensions=k,
    )
    mean, middle, off = yield from ask(size, offset, lean)
    near = drawn_towards(mean.single(0.25 * long), mean.noise, 0.25 * long, 0.1 * long)
    near = between(0.02 * long, near, long)
    return Agreement(
        people=agreeing,
        laws=laws,
        model=model,
        without=without,
        objective=setting.objective,
        middle=_weighed(middle, 0.15 * long, k),
        lean=_weighed(off, 0.3 * most, k),
        most=most,
        size=near,
        half=most * near,
    )


def _weighed(answer: Answer, expected: float, k: int) -> Floats:
    """Return what was read as far as it counts; zeros if nobody has answered."""
    if not answer.known:
        return np.zeros(k)
    return np.asarray(weight_of(answer.noise, expected) * answer.value)


def rescale(
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
    (found,) = yield from ask(question)
    curve = 1.0 if setting.square else 0.7 * start.curve
    change = 1 / (curve * math.pi / 2 * size**2)  # of normal predictions with that mean size
    expected = 0.07 if setting.square else 0.2
    slope = 1 + weight_of(change * found.noise, expected) * change * found.single(0.0)
    slope = between(0.5, slope, 2.0)
    return replace(model, weights=slope * model.weights), slope


def level_again(
    setting: Setting, model: Model, start: Start, gained: float, people: int
) -> Generator[tuple[Question, ...], Sequence[Tally], Model]:
    """Ask what the model leaves over, and move its level by that, as far as it is beyond noise."""
    if people == 0 or not setting.intercept:
        return model
    laws, objective = setting.laws, setting.objective
    if setting.scores > 1:
        several = Leftovers(
            people=people,
            laws=laws,
            model=model,
            objective=objective,
            clip=1.0,
            dimensions=setting.scores,
        )
        (found,) = yield from ask(several)
        if not found.known:
            return model
        shares = np.exp(start.intercept)
        curve = np.maximum(shares * (1 - shares), 0.01)  # each class's own
        expected = math.hypot(start.doubt, 0.1 + 1.5 * gained)
        weight = expected**2 / (expected**2 + np.square(found.noise / curve))
        off = found.value - found.value.mean()
        return replace(model, intercept=model.intercept + weight * off / curve)
    if setting.number:
        width = _as_far(setting, people, 0.045)
        half = min(max(1.75, width) * start.spread + start.doubt, 2.0)
        curve, expected = 1.0, (0.05 + 0.3 * gained) * start.spread
    else:
        hinge = objective.name == "hinge"
        half = 2.0 if hinge else 1.0
        curve = 0.8 if hinge else 0.75 * start.curve
        expected = 0.1 + 1.5 * gained
    question = Leftover(people=people, laws=laws, model=model, objective=objective, half=half)
    (found,) = yield from ask(question)
    if not found.known:
        return model
    weight = weight_of(found.noise / curve, math.hypot(start.doubt, expected))
    return replace(model, intercept=model.intercept + weight * found.value / curve)


def _as_far(setting: Setting, people: int, noise: float) -> float:
    """Return where to cut off, so that the mean of so many people has this much noise."""
    return noise * math.sqrt(people / setting.laws.number.worst_variance())


def score(
    setting: Setting, trained: Trained, start: Start, size: float, people: int
) -> Generator[tuple[Question, ...], Sequence[Tally], None]:
    """Ask people who had no part in the model how good it is."""
    if people == 0:
        return
    laws, model = setting.laws, trained.model
    question: NumberQuestion
    if setting.number:
        far = _as_far(setting, people, 0.02) * start.spread**2
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
