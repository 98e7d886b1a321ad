"""`[check_fit]`: a share of the devices says whether answers fitted, planned for a stated error.

For each attribute whose answers are clamped or spread there is one more attribute, a category of
the labels "fitted" and "did not fit", which devices answer by themselves. A report is about one
attribute, drawn independently of the answers: so the others lose the share of devices that are
drawn for this one, nobody spends more, and the loss of a report is that of one law.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from murmuration.campaign.levels import Levels
from murmuration.campaign.question import Question
from murmuration.campaign.review import expected_stderr
from murmuration.definition.schema import CampaignTable, Mistake
from murmuration.mechanisms.base import Mechanism
from murmuration.mechanisms.domain import Items
from murmuration.planning.auto import mechanism as named
from murmuration.planning.candidates import ASKED_AGAIN

MOST_SHARE = 0.5
"""Of the devices, for all checks together."""
LAW = "grr"
"""Of least error for two labels, and within a hundredth for three."""
KEY = ("check_fit", "error")


@dataclass(frozen=True)
class FitCheck:
    """One attribute that checks another: its laws, one per level, and its share of the devices."""

    question: Question
    laws: tuple[Mechanism, ...]
    share: float


def fit_checks(
    table: CampaignTable,
    questions: Sequence[Question],
    budgets: Sequence[float],
    levels: Levels | None,
) -> list[FitCheck]:
    """Return what the file says is to be checked; refuse an error that cannot be met."""
    if table.check_fit is None:
        return []
    checks = [
        (question, _laws(table, place, Question.checking(question), budgets[place], levels))
        for place, question in enumerate(questions)
        if question.hides_misfits
    ]
    if not checks:
        message = "no attribute's answers are clamped or spread: there is nothing to check"
        raise Mistake(message, *KEY)
    error, least = table.check_fit.error, _for_cohort(table, levels)
    made = []
    for question, laws in checks:
        asked = Question.checking(question)
        made.append(FitCheck(asked, laws, max(least, _share(table, asked, laws, error))))
    if sum(check.share for check in made) > MOST_SHARE:
        raise Mistake(_too_many(table, made, least), *KEY)
    return made


def _laws(
    table: CampaignTable, place: int, asked: Question, budget: float, levels: Levels | None
) -> tuple[Mechanism, ...]:
    """Return the laws of a check, with the budgets of the attribute that it checks."""
    attribute = table.attributes[place]
    if attribute.budgets:  # what does not fit may lie in any range, or be any item
        matrix = [] if isinstance(attribute.semantics, str) else attribute.semantics
        budget = min(chain(attribute.budgets, *matrix))
    name, permanent = LAW, {}
    if table.repeat is not None:
        name, permanent = ASKED_AGAIN[Items], {"permanent": table.repeat.permanent}
    parts = (budget,) if levels is None else levels.budgets(budget)
    return tuple(named(name, epsilon=part, k=asked.k, **permanent) for part in parts)


def _share(table: CampaignTable, asked: Question, laws: Sequence[Mechanism], error: float) -> float:
    """Return the share of devices for a standard error, at the most private level.

    The variance of an estimate from a share s of n people is (a - b s) / (s n), see
    `Mechanism.cost`: a and b follow from it at two shares.
    """
    shares = []
    for law in laws:
        half = expected_stderr(law, asked, 0.5, table.people) ** 2
        whole = expected_stderr(law, asked, 1.0, table.people) ** 2
        shares.append((half - whole) / (error**2 + half - 2 * whole))
    return max(shares)


def _for_cohort(table: CampaignTable, levels: Levels | None) -> float:
    """Return the share with which a check almost surely reaches the cohort, at every level."""
    enough = table.cohort + 4 * math.sqrt(table.cohort)
    return enough * (1 if levels is None else len(levels)) / table.people


def _too_many(table: CampaignTable, checks: Sequence[FitCheck], least: float) -> str:
    """Say what error could be met, or that none can."""
    wanted = sum(check.share for check in checks)
    which = ", ".join(check.question.checks for check in checks)
    text = (
        f"to tell how many answers to {which} did not fit takes {wanted:.0%} of the "
        f"{table.people:,} people expected, and {MOST_SHARE:.0%} is the most"
    )
    if least * len(checks) > MOST_SHARE:
        return f"{text}: with a cohort of {table.cohort:,} no error can be met. Ask more people"
    error = 0.0
    for percent in range(1, 100):
        error = percent / 200
        shares = [_share(table, check.question, check.laws, error) for check in checks]
        if sum(max(least, share) for share in shares) <= MOST_SHARE:
            return f"{text}. An error of {error:g} can be met; or ask more people"
    return f"{text}. Ask more people"
