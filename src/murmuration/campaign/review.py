"""What a campaign asks, sends, reveals and costs, for whoever has to agree to it.

Everything here follows from the campaign's integer laws: losses are exact, errors are what the
planner expects of the number of people that the campaign expects, in each attribute's own units.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from murmuration.audit.exact import audit
from murmuration.campaign.model import Campaign
from murmuration.campaign.question import Question
from murmuration.errors import MurmurationError
from murmuration.exact.loss import PairwiseLoss
from murmuration.exact.randomness import WHOLE
from murmuration.mechanisms.base import Mechanism
from murmuration.mechanisms.graded.base import GradedMechanism
from murmuration.mechanisms.item.base import FrequencyMechanism
from murmuration.mechanisms.item.memoised import Memoised
from murmuration.mechanisms.vector.base import SampledTuple
from murmuration.mechanisms.vector.hybrid_composition import HybridComposition
from murmuration.planning.choose import choose_frequency, choose_numeric, cost

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
    words_tried: int
    disagreements: int
    """On how many of those words a sampler departs from its law."""

    @property
    def passed(self) -> bool:
        """Whether the promise is kept, or was given up in so many words, and samplers agree."""
        kept = self.loss <= self.campaign.epsilon or self.campaign.accept_loss is not None
        return kept and self.disagreements == 0


def review(campaign: Campaign) -> Review:
    """Work out what a campaign reveals and what will come of it; run the audit on every law."""
    verdicts = [audit(one) for one in dict.fromkeys(cell.mechanism for cell in campaign.cells)]
    shares = shares_of(campaign)
    asked = tuple(
        Asked(question, share, *_laws(campaign, place, share))
        for place, (question, share) in enumerate(zip(campaign.questions, shares, strict=True))
    )
    return Review(
        campaign,
        asked,
        campaign.loss().epsilon,
        _charge(campaign),
        sum(verdict.words_tried for verdict in verdicts),
        sum(verdict.disagreements for verdict in verdicts),
    )


def shares_of(campaign: Campaign) -> list[float]:
    """Return how many of the people are asked about each attribute."""
    d = len(campaign.questions)
    if campaign.strategy == "split":
        return [1.0] * d
    if campaign.strategy == "sample":
        if campaign.ends is None:
            return [campaign.sample / d] * d
        return [float(part) for part in np.diff([0, *campaign.ends, WHOLE]) / WHOLE]
    law = campaign.cells[0].mechanism
    return [law.sample / d if isinstance(law, SampledTuple) else 1.0] * d


def _charge(campaign: Campaign) -> float:
    """Return the most that a device is charged for one report."""
    attributes = 1 if campaign.strategy == "together" else len(campaign.questions)
    most = [max(campaign.cells[c].cost for c in campaign.cells_of(q)) for q in range(attributes)]
    return math.fsum(sorted(most, reverse=True)[: len(campaign.slots)])


def _laws(campaign: Campaign, place: int, share: float) -> tuple[tuple[Law, ...], str]:
    question, people = campaign.questions[place], campaign.terms.people
    cells = [campaign.cells[number] for number in campaign.cells_of(place)]
    names = campaign.levels.names if campaign.levels is not None else ("",)
    laws = []
    for name, cell in zip(names, cells, strict=True):
        found, loss = cell.mechanism, cell.mechanism.loss()
        graded = loss if isinstance(loss, PairwiseLoss) else None
        laws.append(
            Law(
                level=name,
                mechanism=found.name,
                budget=found.budget,
                loss=loss.epsilon,
                charge=cell.cost,
                long_run=found.long_run().epsilon if isinstance(found, Memoised) else None,
                ranges=_ranges(found, question),
                pairs=None if graded is None else _matrix(graded.pairwise.tolist()),
                pair_budgets=None if graded is None else graded.budgets,
                stderr=_stderr(_answering(found, place), question, share, people),
            )
        )
    return tuple(laws), _reason(campaign, cells[-1].mechanism, question, share)


def _ranges(found: Mechanism, question: Question) -> tuple[str, ...]:
    if not isinstance(found, GradedMechanism):
        return ()
    low, high = question.range
    ends = [f"{low + (edge + 1) / 2 * (high - low):.6g}" for edge in found.edges]
    return tuple(f"{start} to {end}" for start, end in pairwise(ends))


def _matrix(rows: Sequence[Sequence[float]]) -> Matrix:
    return tuple(tuple(row) for row in rows)


def _answering(found: Mechanism, place: int) -> Mechanism:
    """Return the mechanism that answers one attribute of a tuple."""
    if isinstance(found, SampledTuple):
        return found.inner[place]
    if isinstance(found, HybridComposition):
        if place in found.numbers:
            return found.parts[0]
        return found.parts[bool(found.numbers) + found.items.index(place)]
    return found


def _stderr(found: Mechanism, question: Question, share: float, people: int) -> float:
    """Return the expected standard error, for the crowd that is hardest, in the own units."""
    variance = cost(found, share) / share / people
    if isinstance(found, FrequencyMechanism):
        return math.sqrt(variance / found.k)
    low, high = question.range
    return math.sqrt(variance) * (high - low) / 2


def _reason(campaign: Campaign, found: Mechanism, question: Question, share: float) -> str:
    """Say why this mechanism: the planner's words, if it is the planner's choice."""
    if campaign.strategy == "together":
        return "all attributes are answered by one mechanism for tuples, as the file says"
    if isinstance(found, Memoised):
        return "the question may be asked again: a kept noisy answer, with fresh noise each time"
    if isinstance(found, GradedMechanism):
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
