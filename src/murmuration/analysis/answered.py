"""Attributes whose answers may be missing: the share that answered, and figures among those.

numbers      S and N from the same reports (`Mechanism.answer_counts`); the mean is S/N
categories   no answer is the last item: f_v / (1 - f_none)
levels       the plain sum, which rests on no assumption; others are not defined for quotients
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from murmuration.analysis import combine
from murmuration.campaign.question import ANSWERED, Question
from murmuration.errors import EmptyError, MismatchError
from murmuration.exact.arrays import Floats
from murmuration.mechanisms.tally import Tally
from murmuration.results.answered import Quotient
from murmuration.results.estimate import About, AnsweredEstimate, FrequencyEstimate
from murmuration.results.figure import Figure
from murmuration.statistics.quotient import LastTurned

AMONG = "among those who answered"
UNBOUNDED = "too few answered to bound it: read nothing into the value"


def estimated(tallies: Sequence[Tally], about: str, everybody: int) -> AnsweredEstimate:
    """ANALYST. Return the estimate of one attribute from its tallies, one per level."""
    answered = [tally for tally in tallies if tally.n]
    if not answered:
        raise EmptyError("no reports yet: nothing to estimate")
    if answered[0].mechanism.domain.items:
        return _of_items(answered, about, everybody)
    return _of_numbers(answered, about, everybody)


def _of_numbers(tallies: Sequence[Tally], about: str, everybody: int) -> AnsweredEstimate:
    subject, n = About.parse(about), sum(tally.n for tally in tallies)
    epsilon = max(tally.mechanism.budget for tally in tallies)
    counts = [tally.mechanism.answer_counts(tally) for tally in tallies]
    together = Quotient(counts, subject.unseen(n, everybody))
    return together.estimate(epsilon, subject)


def _of_items(tallies: Sequence[Tally], about: str, everybody: int) -> AnsweredEstimate:
    """Return shares of labels and of all answers; the covariance is that of two items' noise."""
    part = combine.total(tallies, about, everybody).estimate
    if not isinstance(part, FrequencyEstimate):
        raise MismatchError("these are not shares of items")
    n = part.n
    likely = (n * np.clip(part.value, 0, 1) + 2) / (n + 4)
    labels, none = likely[:-1], likely[-1]
    noise = np.zeros(len(labels))
    for tally in tallies:
        noise += tally.n / n * tally.mechanism.noise_covariance(labels, none)
    sampled = -part.about.unseen(n, everybody) * labels * none
    return of_shares(part, (noise + sampled) / n)


def of_shares(part: FrequencyEstimate, covariances: Floats) -> AnsweredEstimate:
    """Return shares whose last item is no answer, as shares of all and of who answered.

    `covariances` are those of the errors of each label with that of no answer.
    """
    return AnsweredEstimate(
        sums=part.value[:-1],
        variances=part.stderr[:-1] ** 2,
        share=1 - float(part.value[-1]),
        share_variance=float(part.stderr[-1]) ** 2,
        covariances=-covariances,
        n=part.n,
        epsilon=part.epsilon,
        about=part.about,
        note=part.note,
        shape=None if part.shape is None else LastTurned(part.shape),
        pieces=part.pieces,
    )


def figures(
    question: Question, part: AnsweredEstimate, confidence: float, each: float
) -> list[Figure]:
    """Return the share that answered, and the mean or the shares of labels among those.

    Intervals of the latter have the level `each`.
    """
    share = part.answered
    head = Figure(
        *(question.name, ANSWERED, share.value, share.stderr, *share.interval(confidence)),
        *(part.n, part.epsilon, "share", part.note),
    )
    return [head, *_among(question, part, each)]


def _among(question: Question, part: AnsweredEstimate, confidence: float) -> Iterator[Figure]:
    start, scale = _units(question)
    bounded = part.bounded(confidence)
    columns = (part.among, *part.among_interval(confidence))
    values, lows, highs = ((start + scale * column).tolist() for column in columns)
    errors = (scale * part.among_stderr).tolist()
    names = question.labels or ("mean",)
    unit = "share" if question.labels else question.unit
    note = "; ".join(
        filter(None, [part.note, AMONG, question.clamps, "" if bounded else UNBOUNDED])
    )
    for place, name in enumerate(names):
        yield Figure(
            attribute=question.name,
            item=name,
            value=values[place],
            stderr=errors[place] if bounded else None,
            low=lows[place] if bounded else None,
            high=highs[place] if bounded else None,
            n=part.n,
            epsilon=part.epsilon,
            unit=unit,
            note=note,
        )


def _units(question: Question) -> tuple[float, float]:
    """Return what 0 and 1 of a mechanism are in the attribute's own units."""
    if question.labels:
        return 0.0, 1.0
    low, high = question.range
    return (low + high) / 2, question.scale
