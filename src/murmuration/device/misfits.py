"""Answers that do not fit what a campaign asks: the app is told, and nobody else.

An answer that does not fit counts as no answer where the campaign has one, unless its file says
otherwise; else a number beyond the range counts as the nearer end, and a text that is no label as a
label by chance: the published rule is `outside`. That happens without a word on the wire, so an app
that spells a label otherwise would spoil a figure unseen. So the app is warned each time, the
receipt says so, and the key's record counts it, by attribute and never by value. A text that is no
label fits where the list has a label for all others.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from murmuration.campaign.question import FITS, OUTSIDE, UNKNOWN_ANSWER, Question
from murmuration.errors import AnswerError, MisfitWarning, ParameterError

TELL, ERROR = "tell", "error"
"""What is done: tell the app and go on, or raise an error and send nothing."""
REASONS = {FITS.index("clamped"): OUTSIDE, FITS.index("unknown"): UNKNOWN_ANSWER}


@dataclass(frozen=True)
class Misfit:
    """An answer that does not fit: which attribute's, and why; never the answer."""

    attribute: str
    reason: str
    """"outside" of the range, or "unknown": no label, no number."""
    problem: str = field(default="", compare=False)
    """What is wrong, in words, without the answer."""

    @property
    def error(self) -> AnswerError:
        """What is raised where such an answer is an error."""
        return AnswerError(
            f"{self.attribute}: {self.problem}. Nothing was sent.",
            self.attribute,
            self.reason,
        )


def misfits_of(questions: Sequence[Question], answers: Mapping[str, Any]) -> tuple[Misfit, ...]:
    """Return the answers that do not fit; one that is missing, where that may be, does.

    >>> phone = Question("phone", "category", labels=("ios", "android"))
    >>> [misfit.problem for misfit in misfits_of([phone], {"phone": "iPhone"})]
    ['the answer is not one of the labels']
    """
    found = []
    for question in questions:
        if (answer := answers.get(question.name)) is None:
            continue
        fits = question.fits([answer])
        reason = REASONS.get(int(fits[0])) if fits.shape == (1,) else UNKNOWN_ANSWER
        rest = reason == UNKNOWN_ANSWER and question.has_rest
        if reason is not None and not rest:
            found.append(Misfit(question.name, reason, question.problem(reason)))
    return tuple(found)


def require_consent(misfit: str, refuse_outside: bool) -> None:
    """Refuse a rule that does not exist, and one that makes silence tell the answer by accident."""
    if misfit not in (TELL, ERROR):
        raise ParameterError(f'misfit is "{TELL}" or "{ERROR}"; got {misfit!r}')
    if misfit == ERROR and not refuse_outside:
        raise ParameterError(
            'misfit="error" makes a device silent where an answer does not fit, and that can be '
            "seen: it tells that the answer does not fit. Say refuse_outside=True to agree to that"
        )


def require_fitting(misfits: Sequence[Misfit]) -> None:
    """Refuse answers that do not fit."""
    if misfits:
        raise misfits[0].error


def warn(misfits: Sequence[Misfit]) -> None:
    """Tell the app, by a warning each time."""
    if misfits:
        shown = "; ".join(f"{one.attribute}: {one.problem}" for one in misfits)
        warnings.warn(
            f"answers that do not fit what the campaign asks: {shown}. They count as no answer, or "
            "by the rule `outside`, as the campaign says. Check labels and ranges: preview raises "
            "AnswerError",
            MisfitWarning,
            stacklevel=3,
        )
