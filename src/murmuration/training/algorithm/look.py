"""A look at the features before training: each person says one attribute, by the law for items.

What it gives is each column's mean, to centre it, and how far it spreads, to scale it. Shares are
drawn towards equal ones by how noisy they are; how much attributes differ from equal shares is
pooled over all of them.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass

import numpy as np

from murmuration.exact.arrays import Floats
from murmuration.mechanisms.tally import Tally
from murmuration.training.algorithm.questions import COLUMN_POINTS, Attribute, Column, Question
from murmuration.training.algorithm.state import Answer, Crowd, Setting, ask, between

LEAST_SPREAD, LEAST_SPREAD_LABEL = 0.06, 0.1
"""A number's column spreads at least so much, and a label's."""
WIDEST = 6.0
"""A number's column is made larger by so much at most."""
MOST_LOOKED = 0.2
"""Where attributes need more of all people than that, none is looked at."""
ROUNDED = (2 / (COLUMN_POINTS - 1)) ** 2 / 12
"""What rounding to points adds to a number's variance."""
FROM_EQUAL = 1e-4
"""Shares differ from equal ones by so much at least: squared, on average."""


@dataclass(frozen=True, eq=False)
class Seen:
    """What was seen of the columns: their means, spreads, and the scale to divide them by."""

    centre: Floats
    spread: Floats
    scale: Floats


def look(
    setting: Setting, crowd: Crowd, *beside: Question
) -> Generator[tuple[Question, ...], Sequence[Tally], tuple[Seen, list[Answer]]]:
    """Ask for the attributes, and other people what is asked beside, which is answered in order.

    Where too few are there to ask, columns are taken as declared.
    """
    attributes = setting.attributes
    noise = setting.laws.items(COLUMN_POINTS).worst_variance() / setting.people
    share = between(0.02, 6 * setting.features * noise, 0.12)
    few = len(attributes) * setting.least > MOST_LOOKED * setting.people
    people = 0 if few or not setting.intercept else crowd.take(share, len(attributes))
    each = people // len(attributes)
    asked = [
        Column(people=each, laws=setting.laws, feature=place, attribute=attribute)
        for place, attribute in enumerate(attributes)
        if each
    ]
    answers = yield from ask(*beside, *asked)
    others, answers = answers[: len(beside)], answers[len(beside) :]
    if not answers:
        seen = _scaled(np.zeros(setting.features), np.full(setting.features, 0.5), setting)
    else:
        seen = _seen(setting, _drawn(attributes, answers))
    return seen, others


def _drawn(attributes: Sequence[Attribute], answers: Sequence[Answer]) -> list[Floats]:
    """Return shares that are drawn towards equal ones; labels and numbers are pooled apart."""
    drawn: list[Floats] = [np.full(a.items, 1 / a.items) for a in attributes]
    for labels in (False, True):
        places = [p for p, a in enumerate(attributes) if a.labels == labels and answers[p].known]
        if not places:
            continue
        apart = [np.square(answers[p].value - drawn[p]) - answers[p].noise ** 2 for p in places]
        expected = max(float(np.concatenate(apart).mean()), FROM_EQUAL)
        for p in places:
            weight = expected / (expected + answers[p].noise ** 2)
            drawn[p] = simplex(drawn[p] + weight * (answers[p].value - drawn[p]))
    return drawn


def simplex(shares: Floats) -> Floats:
    """Return the nearest shares that are 0 or more and add up to 1.

    >>> simplex(np.array([0.6, 0.6, -0.3])).tolist()
    [0.5, 0.5, 0.0]
    """
    falling = np.sort(shares)[::-1]
    over = (np.cumsum(falling) - 1) / np.arange(1, len(shares) + 1)
    return np.asarray(np.maximum(shares - over[np.flatnonzero(falling > over)[-1]], 0.0))


def _seen(setting: Setting, shares: Sequence[Floats]) -> Seen:
    centre, spread = np.zeros(setting.features), np.zeros(setting.features)
    points = np.linspace(-1, 1, COLUMN_POINTS)
    for attribute, share in zip(setting.attributes, shares, strict=True):
        columns = attribute.columns
        if attribute.labels:
            own, apart = share[: attribute.width], 1 - attribute.absent
            centre[columns] = attribute.absent + apart * own
            spread[columns] = apart * np.maximum(np.sqrt(own * (1 - own)), LEAST_SPREAD_LABEL)
        else:
            mean = float(share @ points)
            centre[columns] = mean
            square = float(share @ np.square(points - mean)) - ROUNDED
            spread[columns] = math.sqrt(max(square, LEAST_SPREAD**2))
    return _scaled(centre, spread, setting)


def _scaled(centre: Floats, spread: Floats, setting: Setting) -> Seen:
    """Scale numbers to one spread, labels as they are, and all to a mean squared length of 1."""
    larger = np.ones(setting.features)
    for attribute in setting.attributes:
        larger[attribute.columns] = 1 / (1 - attribute.absent)
        if attribute.declared and not attribute.labels:
            larger[attribute.columns] = np.minimum(0.5 / spread[attribute.columns], WIDEST)
    length = math.sqrt(float(np.square(larger * spread).sum()))
    return Seen(centre, spread, length / larger)
