"""Answers that do not fit what a campaign asks: the app is told, and nobody else.

A number beyond the range counts as the nearer end, a text that is no label as a label by chance, or
as no answer, by the rule that the campaign published (`outside`). That happens without a word on
the wire, so an app that spells a label otherwise would spoil a figure unseen: so the app is warned
each time, the receipt says so, and the key's record counts it, by attribute and never by value. A
text that is no label fits where the list has a label for all others.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from murmuration.campaign.question import FITS, Question
from murmuration.errors import AnswerError, MisfitWarning, ParameterError

TELL, ERROR = "tell", "error"
"""What is done: tell the app and go on, or raise an error and send nothing."""
REASONS = {FITS.index("clamped"): "outside", FITS.index("unknown"): "unknown"}
WORDS = {"outside": "is beyond the range", "unknown": "is no label, or no number"}


@dataclass(frozen=True)
class Misfit:
    """An answer that does not fit: which attribute's, and why; never the answer."""

    attribute: str
    reason: str
    """"outside" of the range, or "unknown": no label, no number."""

    @property
    def error(self) -> AnswerError:
        """What is raised where such an answer is an error."""
        return AnswerError(
            f"{self.attribute}: the answer {WORDS[self.reason]}. Nothing was sent.",
            self.attribute,
            self.reason,
        )


def misfits_of(questions: Sequence[Question], answers: Mapping[str, Any]) -> tuple[Misfit, ...]:
    """Return the answers that do not fit; one that is missing, where that may be, does.

    >>> phone = Question("phone", "category", labels=("ios", "android"))
    >>> misfits_of([phone], {"phone": "iPhone"})
    (Misfit(attribute='phone', reason='unknown'),)
    """
    found = []
    for question in questions:
        if (answer := answers.get(question.name)) is None:
            continue
        reason = REASONS.get(int(question.fits([answer])[0]))
        rest = reason == "unknown" and question.outside in question.labels
        if reason is not None and not rest:
            found.append(Misfit(question.name, reason))
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


def told(misfits: Sequence[Misfit], misfit: str) -> None:
    """Tell the app: by an error, or by a warning each time."""
    if misfits and misfit == ERROR:
        raise misfits[0].error
    if misfits:
        shown = "; ".join(f"{one.attribute} {WORDS[one.reason]}" for one in misfits)
        warnings.warn(
            f"answers that do not fit what the campaign asks: {shown}. They count by its rule "
            "`outside`, or as no answer. Check labels and ranges: preview raises AnswerError",
            MisfitWarning,
            stacklevel=3,
        )
