"""What a campaign asks, sends, reveals and costs, for anyone who has to agree to it.

Everything here follows from the campaign's integer laws: losses are exact, errors are what the
planner expects of the number of people that the campaign expects, in each attribute's own units.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from murmuration.audit.exact import Audit, audit
from murmuration.campaign.model import Campaign
from murmuration.campaign.question import Question
from murmuration.errors import MurmurationError
from murmuration.exact.loss import PairwiseLoss
from murmuration.mechanisms.base import Mechanism
from murmuration.mechanisms.domain import Graded
from murmuration.planning.choose import choose_frequency, choose_numeric

Matrix = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Law:
    """One law that an attribute is answered by: the only one, or that of a level."""

    level: str
    """"" where people choose no levels."""
    mechanism: str
    budget: float
    loss: float
    """The exact loss of one entry; infinity if the promise is broken altogether."""
    charge: float
    """What the device's ledger is charged for it."""
    long_run: float | None
    """What any number of reports about one value tell; None if it is asked once."""
    ranges: tuple[str, ...]
    """The ranges of a graded attribute, in its own units."""
    pairs: Matrix | None
    """The exact loss between any two ranges, for a graded attribute."""
    pair_budgets: Matrix | None
    stderr: float
    """Expected at most, in the attribute's units; of a share, in root mean square."""


@dataclass(frozen=True)
class Asked:
    """One attribute: how often it is asked, by which laws, and why by these."""

    question: Question
    share: float
    """How many of the people are asked."""
    laws: tuple[Law, ...]
    reason: str


@dataclass(frozen=True)
class Review:
    """A campaign in numbers."""

    campaign: Campaign
    asked: tuple[Asked, ...]
    loss: float
    """The exact loss of one whole report, at the most open level."""
    charge: float
    """What a device's ledger is charged for one report, at most."""
    audits: tuple[Audit, ...]
    """One for each different law."""

    @property
    def samplers_agree(self) -> bool:
        """Whether every sampler was tried and kept to its law."""
        return all(audit.sampler_agrees for audit in self.audits)

    @property
    def passed(self) -> bool:
        """Whether the promise is kept, or was given up in so many words, and samplers agree."""
        kept = self.loss <= self.campaign.epsilon or self.campaign.accept_loss is not None
        return kept and self.samplers_agree


def review(campaign: Campaign) -> Review:
    """Work out what a campaign reveals and what will come of it; run the audit on every law."""
    shares = shares_of(campaign)
    asked = tuple(
        Asked(question, share, *_laws(campaign, place, share))
        for place, (question, share) in enumerate(zip(campaign.questions, shares, strict=True))
    )
    return Review(
        campaign,
        asked,
        campaign.loss().epsilon,
        math.fsum(law.charge for law in campaign.costliest()),
        tuple(audit(law) for law in dict.fromkeys(campaign.frame.cells)),
    )


def shares_of(campaign: Campaign) -> list[float]:
    """Return how many of the people are asked about each attribute."""
    if campaign.strategy.gathers:
        return campaign.frame.cells[0].shares_asked()
    return campaign.strategy.shares(len(campaign.questions))


def _laws(campaign: Campaign, place: int, share: float) -> tuple[tuple[Law, ...], str]:
    question, people = campaign.questions[place], campaign.terms.people
    names = campaign.levels.names if campaign.levels is not None else ("",)
    laws = []
    for name, found in zip(names, campaign.laws_of(place), strict=True):
        loss, long_run = found.loss(), found.long_run()
        graded = loss if isinstance(loss, PairwiseLoss) else None
        laws.append(
            Law(
                level=name,
                mechanism=found.name,
                budget=found.budget,
                loss=loss.epsilon,
                charge=found.charge,
                long_run=None if long_run is None else long_run.epsilon,
                ranges=_ranges(found, question),
                pairs=None if graded is None else _matrix(graded.pairwise.tolist()),
                pair_budgets=None if graded is None else graded.budgets,
                stderr=_stderr(found.answering(place), question, share, people),
            )
        )
    return tuple(laws), _reason(campaign, found, question, share)


def _ranges(found: Mechanism, question: Question) -> tuple[str, ...]:
    domain = found.domain
    return tuple(domain.ranges(*question.range)) if isinstance(domain, Graded) else ()


def _matrix(rows: Sequence[Sequence[float]]) -> Matrix:
    return tuple(tuple(row) for row in rows)


def _stderr(found: Mechanism, question: Question, share: float, people: int) -> float:
    """Return the expected standard error, for the crowd that is hardest, in the own units."""
    variance = found.cost(share) / share / people / found.domain.figures
    return math.sqrt(variance) * question.scale


def _reason(campaign: Campaign, found: Mechanism, question: Question, share: float) -> str:
    """Say why this mechanism: the planner's words, if it is the planner's choice."""
    if campaign.strategy.gathers:
        return "all attributes are answered by one mechanism for tuples, as the file says"
    if found.asked_again:
        return "the question may be asked again: a permanent answer, with fresh noise each time"
    if found.takes is Graded:
        optimal = found.name == "graded-optimal"
        return "least worst-case error that the budgets allow" if optimal else "as the file says"
    if question.kind == "distribution":
        return "shows the whole distribution, not only the mean"
    asked, people = (1.0 if campaign.levels else share), campaign.terms.people
    try:
        if question.k is None:
            choice = choose_numeric(found.epsilon, asked, people)
        else:
            choice = choose_frequency(found.epsilon, question.k, asked, people)
    except MurmurationError:
        return "as the file says"
    if choice.mechanism.fingerprint == found.fingerprint:
        return choice.reason
    return f"as the file says; the planner would take {choice.mechanism.name}"
