"""Before training: a look at the features, the target's level, and how far targets are from it.

The level of a number is asked in steps, each with a narrower range than the last: in which of 16
parts of its range the target is, its mean within the parts that are in use, the mean distance from
that, and the mean once more. What is asked twice is pooled by precision.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from murmuration.exact.arrays import Floats
from murmuration.mechanisms.tally import Tally
from murmuration.training.algorithm.look import look, simplex
from murmuration.training.algorithm.questions import (
    BINS,
    Bin,
    Classes,
    Leftover,
    Model,
    Question,
    Spread,
    Target,
)
from murmuration.training.algorithm.state import (
    NOBODY,
    Answer,
    Crowd,
    Setting,
    Start,
    ask,
    between,
    drawn_towards,
)

Asking = Generator[tuple[Question, ...], Sequence[Tally], tuple[Model, Start]]
SURE, INSIDE, SURELY_INSIDE = 3.0, 0.98, 0.7
"""A part is in use from so many standard errors on; the parts in use hold that share of all."""
CUT_DISTANCE, GUESS_DISTANCE, DOUBT_DISTANCE = 0.7, 0.16, 0.13
"""Of the mean distance, in half ranges: where it is cut off, its guess, and the guess's doubt."""
NORMAL = 1.25
"""Standard deviations in a mean distance, for a normal target."""
LEAST_SHARE = 0.015
"""No class is rarer than that."""


def ask_before(setting: Setting, crowd: Crowd) -> Asking:
    """Ask for the features and the target: features are centred and scaled from then on."""
    first = _first(setting, crowd)
    seen, answers = yield from look(setting, crowd, *first)
    zeros = np.zeros((setting.scores, setting.features))
    model = Model(zeros, np.zeros(setting.scores), seen.centre, seen.scale)
    start = started(setting, answers[0] if setting.intercept else None)
    if setting.number and setting.intercept:
        start = yield from _number(setting, crowd, model, answers[0])
    elif setting.number:
        spread = _spread(answers[0], 1.0, 0.0)
        start = replace(start, spread=spread, unexplained=spread**2)
    return replace(model, intercept=start.intercept), replace(start, columns=seen.spread)


def _first(setting: Setting, crowd: Crowd) -> list[Question]:
    """Return the first question about the target: of a number without an intercept, its size."""
    if not setting.intercept:
        far = CUT_DISTANCE / 2
        people = 2 * _share(crowd) if setting.number else 0
        return [Spread(people=crowd.take(people), laws=setting.laws, half=far)] if people else []
    if setting.number:
        return [Bin(people=crowd.take(0.5 * _share(crowd)), laws=setting.laws)]
    noise = crowd.level_noise
    share = between(0.015, 100 * noise, 0.12)
    if setting.scores > 1:
        share = between(0.03, 120 * setting.scores * noise, 0.2)
    return [of_target(setting, crowd.take(share))]


def _share(crowd: Crowd) -> float:
    """Return the part of the people who are asked a question about a number to predict."""
    return between(0.015, 220 * crowd.level_noise, 0.09)


@dataclass(frozen=True)
class Mean:
    """A mean that is known so far, and its variance."""

    value: float
    variance: float

    def with_another(self, value: float, variance: float) -> Mean:
        """Pool two readings by precision.

        >>> Mean(0.0, 1.0).with_another(1.0, 1.0)
        Mean(value=0.5, variance=0.5)
        """
        if not math.isfinite(variance):
            return self
        if not math.isfinite(self.variance):
            return Mean(value, variance)
        weight = self.variance / (self.variance + variance)
        return Mean(self.value + weight * (value - self.value), weight * variance)


def _number(
    setting: Setting, crowd: Crowd, model: Model, bins: Answer
) -> Generator[tuple[Question, ...], Sequence[Tally], Start]:
    """Ask for the intercept of a number and its spread, in ever narrower ranges."""
    laws, share = setting.laws, _share(crowd)
    low, high = _in_use(bins)
    half, middle = (high - low) / 2, (high + low) / 2
    first = _off(setting, model, crowd.take(share), middle, half)
    (answer,) = yield from ask(first)
    mean = Mean(between(low, middle + answer.single(0.0), high), answer.noise**2)
    if not answer.known:
        mean = Mean(middle, half**2)
    cut = CUT_DISTANCE * half
    distance = Spread(people=crowd.take(share), laws=laws, intercept=mean.value, half=cut / 2)
    (answer,) = yield from ask(distance)
    spread = _spread(answer, half, mean.variance)
    reach = min(2 * spread + 2 * math.sqrt(mean.variance), 2.0)
    (answer,) = yield from ask(_off(setting, model, crowd.take(1.5 * share), mean.value, reach))
    mean = mean.with_another(mean.value + answer.single(0.0), answer.noise**2)
    intercept = np.array([between(-1.0, mean.value, 1.0)])
    return Start(intercept, math.sqrt(mean.variance), spread, spread**2, 1.0)


def guessed(setting: Setting) -> Start:
    """Return what is taken for the start before anybody is asked."""
    if setting.number:
        return Start(np.zeros(1), 1.0, 0.3, 0.09, 1.0)
    if setting.scores > 1:
        return started(setting, NOBODY)
    return started(setting, Answer(np.array([-0.4]), 0.0, 1))


def ask_level(
    setting: Setting, crowd: Crowd
) -> Generator[tuple[Question, ...], Sequence[Tally], Start]:
    """Ask a few for the intercept, to narrow its range; everybody else is asked again."""
    if not setting.number:
        (answer,) = yield from ask(of_target(setting, crowd.take(0.2)))
        return started(setting, answer)
    (bins,) = yield from ask(Bin(people=crowd.take(0.1), laws=setting.laws))
    low, high = _in_use(bins)
    half = (high - low) / 2
    # Unknown within the range; the next question is cut off at its ends.
    return Start(np.array([(low + high) / 2]), 10.0, half, half**2, 1.0)


def _in_use(bins: Answer) -> tuple[float, float]:
    """Return the range of the parts that people are surely in, and one more at either end."""
    if not bins.known:
        return -1.0, 1.0
    sure = np.flatnonzero(bins.value > SURE * bins.noise)
    if not len(sure):
        return -1.0, 1.0
    first, last = int(sure[0]), int(sure[-1])
    inside = float(bins.value[first : last + 1].sum())
    doubt = bins.noise * math.sqrt(last - first + 1)
    if inside <= INSIDE - 0.5 * doubt or inside - 1.5 * doubt <= SURELY_INSIDE:
        return -1.0, 1.0
    part = 2 / BINS
    return max(-1.0, -1 + part * (first - 1)), min(1.0, -1 + part * (last + 2))


def _off(setting: Setting, model: Model, people: int, intercept: float, half: float) -> Leftover:
    """Return the question for how far targets are from an intercept, on average."""
    return Leftover(
        people=people,
        laws=setting.laws,
        model=replace(model, intercept=np.array([intercept])),
        objective=setting.objective,
        half=half,
    )


def _spread(answer: Answer, half: float, variance: float) -> float:
    """Return the standard deviation, for a normal target, less what the intercept's doubt adds."""
    guess = GUESS_DISTANCE * half
    distance = drawn_towards(answer.single(guess), answer.noise, guess, DOUBT_DISTANCE * half)
    square = max(distance**2 - 0.64 * variance, 0.2 * (0.1 * half) ** 2)
    return NORMAL * between(0.03 * half, math.sqrt(square), half)


def started(setting: Setting, answer: Answer | None) -> Start:
    """Return the start that the first answers say; None: there is no intercept to ask for.

    Where nobody has answered, nothing is known: the intercept may be anywhere.
    """
    known = NOBODY if answer is None else answer
    doubt = 0.0 if answer is None else min(known.noise, 1.0)
    if setting.number:
        return Start(np.array([between(-1.0, known.single(0.0), 1.0)]), doubt, 0.3, 0.09, 1.0)
    if setting.scores > 1:
        shares = _class_shares(setting.scores, known)
        curve = float(np.sum(shares * (1 - shares)))
        entropy = float(-np.sum(shares * np.log(shares)))
        return Start(np.log(shares), doubt, 1.0, entropy, curve, shares)
    variance = doubt**2 / (doubt**2 + 0.3)
    share = between(0.03, (1 + known.single(0.0) * (1 - variance)) / 2, 0.97)
    curve = share * (1 - share)
    shares = np.array([1 - share, share])
    if setting.objective.name == "hinge":
        spread = 2 * math.sqrt(curve)
        return Start(np.array([2 * share - 1]), doubt, spread, spread**2, 1.0, shares)
    entropy = -share * math.log(share) - (1 - share) * math.log(1 - share)
    intercept = math.log(share / (1 - share)) if setting.intercept else 0.0
    return Start(np.array([intercept]), doubt / 2, 1.0, entropy, curve, shares)


def _class_shares(k: int, answer: Answer) -> Floats:
    """Return the shares of k classes, drawn towards equal ones by how noisy they are."""
    equal = np.full(k, 1 / k)
    if not answer.known:
        return equal
    apart = answer.value - equal
    expected = max(float(np.mean(apart**2)) - answer.noise**2, 1e-4)
    weight = expected / (expected + answer.noise**2)
    shares = np.maximum(simplex(equal + weight * apart), LEAST_SHARE)
    return np.asarray(shares / shares.sum())


def of_target(setting: Setting, people: int) -> Question:
    """Return the question for the target itself: a number, -1 or 1, or one of several classes."""
    if setting.scores > 1:
        return Classes(people=people, laws=setting.laws, k=setting.scores)
    return Target(people=people, laws=setting.laws)
