"""Before training: lengths and means of the features, level and spread of the target."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import replace

import numpy as np

from murmuration.exact.arrays import Floats
from murmuration.mechanisms.tally import Tally
from murmuration.training.algorithm.questions import (
    Classes,
    Length,
    Means,
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

BEYOND = 2.5
"""Standard errors from which on a mean counts as different from 0."""


def ask_before(
    setting: Setting, crowd: Crowd
) -> Generator[tuple[Question, ...], Sequence[Tally], tuple[Model, Start]]:
    """Ask for lengths, means, level and spread: features are centred and scaled from then on."""
    d, laws = setting.features, setting.laws
    longest = math.sqrt(d)
    share = between(0.015, 6 * d * crowd.vector_noise, 0.06)
    length = Length(
        people=crowd.take(0.2 * share),
        laws=laws,
        half=longest / 2,
        middle=longest / 2,
        centre=np.zeros(d),
    )
    first = _first_level(setting, crowd)
    asked = [length, *([first] if first is not None else [])]
    answers = yield from ask(*asked)
    guess = 0.5 * longest
    near = drawn_towards(answers[0].single(guess), answers[0].noise, guess, 0.2 * longest)
    long = between(0.1 * longest, near, longest)
    start = started(setting, answers[-1] if first is not None else None)
    centre = np.zeros(d)
    means = Means(
        people=crowd.take(0.6 * share) if setting.intercept else 0,
        laws=laws,
        clip=1.1 * long,
        dimensions=d,
    )
    spread = _spread(setting, crowd, start)
    found = yield from ask(means, *([spread] if spread is not None else []))
    if found[0].known:
        centre = _means(found[0].value, found[0].noise)
    if spread is not None:
        start = _spread_out(start, found[1])
    again = replace(length, people=crowd.take(0.2 * share), centre=centre)
    answers = yield from ask(again)
    guess = math.sqrt(max(long**2 - float(centre @ centre), 0.2 * long**2))
    near = drawn_towards(answers[0].single(guess), answers[0].noise, guess, 0.15 * long)
    scale = between(0.1 * longest, near, longest)
    model = Model(np.zeros((setting.scores, d)), start.intercept, centre, scale)
    return model, start


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
        return of_target(setting, crowd.take(between(0.015, 300 * crowd.level_noise, 0.15)))
    if setting.scores > 1:  # shares of rare classes are what costs most where they are off
        share = between(0.05, 500 * setting.scores * crowd.level_noise, 0.4)
        return of_target(setting, crowd.take(share))
    return of_target(setting, crowd.take(between(0.02, 250 * crowd.level_noise, 0.3)))


def started(setting: Setting, answer: Answer | None) -> Start:
    """Return the start that the first answers say; None: there is no level to ask for.

    Where nobody has answered, nothing is known: the level may be anywhere.
    """
    found = NOBODY if answer is None else answer
    doubt = 0.0 if answer is None else min(found.noise, 1.0)
    if setting.number:
        level = between(-1.0, found.single(0.0), 1.0)
        return Start(np.array([level]), doubt, 0.3, 0.09, 1.0)
    if setting.scores > 1:
        shares = np.clip(found.value if found.known else np.full(setting.scores, 1.0), 0.01, 1)
        shares = shares / shares.sum()
        curve = float(np.sum(shares * (1 - shares)))
        entropy = float(-np.sum(shares * np.log(shares)))
        return Start(np.log(shares), doubt / (curve / setting.scores), 1.0, entropy, curve)
    share = between(0.02, (1 + found.single(0.0)) / 2, 0.98)
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
    return Spread(people=people, laws=setting.laws, intercept=float(start.intercept[0]))


def _spread_out(start: Start, found: Answer) -> Start:
    """Return the start with the spread: 1.25 mean distances if normal, less the level's own.

    The guess is small: a spread that is too small costs some training, one that is too large
    lets noise in.
    """
    distance = drawn_towards(found.single(0.25), found.noise, 0.1, 0.15)
    distance = math.sqrt(max(distance**2 - 0.64 * start.doubt**2, 0.02**2))
    spread = 1.25 * between(0.02, distance, 1.0)
    return replace(start, spread=spread, unexplained=spread**2)


def of_target(setting: Setting, people: int) -> Question:
    """Return the question for the target itself: a number, -1 or 1, or one of several classes."""
    if setting.scores > 1:
        return Classes(people=people, laws=setting.laws, k=setting.scores)
    return Target(people=people, laws=setting.laws)
