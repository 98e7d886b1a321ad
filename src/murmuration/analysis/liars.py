"""How far a share of liars can have moved each figure, at most, in the attribute's units.

A share s of all reports is made up. Whoever makes reports up answers the attribute that counts, at
the level at which a report moves most: of the n reports about an attribute, up to s N are lies,
where N is the number of all reports. The bounds compare a figure with what it would be if each lie
were read as the liar's true answer; nothing is assumed about the truth.

    mean, share            lies/n times the most that one report moves the sum (`statistics.liars`)
    share that answered    the same
    among those            S/N is a quotient: its extremes are at the corners of what lies can add
    by plain sum           the levels that move most first
    other combinations     no bound: their weights follow from the reports
    fitted bins            no bound
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from murmuration.campaign.question import ANSWERED, Question
from murmuration.campaign.survey import SurveyCampaign
from murmuration.exact.arrays import Floats
from murmuration.mechanisms.base import Mechanism
from murmuration.mechanisms.tally import Tally
from murmuration.mechanisms.vector.base import TupleMechanism
from murmuration.results.estimate import AnsweredEstimate, Estimate, FrequencyEstimate
from murmuration.results.figure import Figure
from murmuration.statistics.liars import Reach, checked_share, moved, moved_sum

Part = Estimate | FrequencyEstimate | AnsweredEstimate


def with_liar_bounds(
    figures: Sequence[Figure],
    campaign: SurveyCampaign,
    place: int,
    part: Part,
    own: Sequence[Tally],
    lies: float,
    *,
    plain: bool,
) -> list[Figure]:
    """Return an attribute's figures with how far so many lies can have moved each.

    `plain`: whether every report counts alike, which combinations of levels may not.
    """
    if not plain and not isinstance(part, AnsweredEstimate):  # which is a plain sum, always
        return list(figures)
    question, labels = campaign.questions[place], campaign.questions[place].labels
    names = [*labels] or ["mean"]
    if isinstance(part, FrequencyEstimate) and part.pieces:
        shift = moved_sum(part.pieces, lies)
        return [replace(figure, liars=shift) for figure in figures]
    laws = [(tally.mechanism.answering(place), tally.n) for tally in own]
    if isinstance(part, AnsweredEstimate):
        bounds = _quotients(part, [law for law, _ in laws], question, lies)
    else:
        counts = [part.n] if len(laws) == 1 else [n for _, n in laws]
        reaches = [law.reach() for law, _ in laws]
        known = [reach for reach in reaches if reach is not None]
        if len(known) < len(reaches):
            return list(figures)
        shift = moved(list(zip(known, counts, strict=True)), min(lies, sum(counts)))
        bounds = dict.fromkeys(names, shift * question.scale)
    return [replace(figure, liars=bounds.get(figure.item)) for figure in figures]


def is_plain(campaign: SurveyCampaign, combine: str) -> bool:
    """Whether the levels are simply added up, so that every report counts alike."""
    if campaign.levels is None or combine == "total":
        return True
    return not (combine or campaign.levels.by_lot)


# --- quotients -----------------------------------------------------------------------------------


def _quotients(
    part: AnsweredEstimate, laws: Sequence[Mechanism], question: Question, lies: float
) -> dict[str, float | None]:
    """Return how far the share that answered, and each figure among those, can have been moved.

    What a lie adds to (S, N), less what the truth would have, is in the hull of some corners. S/N
    is monotone along every line on which N stays above 0, so its extremes are at corners too.
    """
    honest = np.array([[-1.0, 1.0], [1.0, 1.0], [0.0, 0.0]])
    if question.labels:
        honest = np.array([[1.0, 1.0], [0.0, 1.0], [0.0, 0.0]])
    moves = _moves(part, laws, honest, lies)
    answered = float(np.abs(moves[:, 1]).max())
    without = part.share - moves[:, 1]
    if part.share <= 0 or without.min() <= 0:
        return {ANSWERED: answered}
    apart = (part.sums[:, None] - moves[:, 0]) / without - part.among[:, None]
    most = (question.scale * np.abs(apart).max(axis=1)).tolist()
    return {ANSWERED: answered, **dict(zip(question.labels or ("mean",), most, strict=True))}


def _moves(
    part: AnsweredEstimate, laws: Sequence[Mechanism], honest: Floats, lies: float
) -> Floats:
    """Return the corners of what so many lies can add to (S, N)."""
    if not part.pieces:
        lying = np.concatenate([law.lies() for law in laws])
        return np.asarray(min(1.0, lies / part.n) * (lying[:, None] - honest).reshape(-1, 2))
    moves = []
    for piece in part.pieces:
        ends = (piece.reach.low, piece.reach.high)
        lying = np.array([[own, 1 - none] for own in ends for none in ends])
        counted = min(lies, piece.n) * piece.pull
        moves.append(counted * (lying[:, None] - honest).reshape(-1, 2))
    return np.concatenate(moves)


# --- rounds of a training ------------------------------------------------------------------------


@dataclass(frozen=True)
class VectorShift:
    """How far lies can move the mean of vectors, at most."""

    coordinate: float
    """Each coordinate of it."""
    length: float
    """The whole vector, as a Euclidean length."""


def vector_shift(law: TupleMechanism, share: float) -> VectorShift:
    """Return how far a share of lies moves `law.mean_vector`, from what their truths would give.

    Where a report is about a part of the coordinates, those asked stand for all, d/size of them:
    a lie moves its own coordinates by so much more, and no others. For `privunit` a lie is the
    longest vector that any candidate can be, whatever its seed.

    >>> from murmuration import mechanism
    >>> found = vector_shift(mechanism("duchi-multi", epsilon=1.0, d=4), 0.01)
    >>> round(found.coordinate, 3), round(found.length, 3)
    (0.058, 0.115)
    """
    share, d = checked_share(share), len(law.attributes)
    reaches = [law.answering(place).reach() for place in range(d)]
    pairs = zip(reaches, law.people_per_answer(), strict=True)
    each = np.array([_stretched(reach, people) for reach, people in pairs])
    return VectorShift(share * float(each.max()), share * law.longest_lie(each))


def _stretched(reach: Reach | None, times: float) -> float:
    """Return how far one report, read `times` what it says, is from what the truth would add."""
    if reach is None:
        return math.inf
    return max(times * reach.high - reach.least, reach.most - times * reach.low)
