"""What the reports of one person tell, and what people are told of that, in sentences."""

from __future__ import annotations

from dataclasses import dataclass

from murmuration.campaign.survey import SurveyCampaign
from murmuration.mechanisms.base import Mechanism
from murmuration.planning.longitudinal import added

MOST_ALIKE = 512
"""Of so many reports about one value devices work out the exact loss; of more, what any number of
them tells."""


@dataclass(frozen=True)
class Bound:
    """What all reports of a question that comes back tell together."""

    loss: float
    hidden: bool
    """It holds whatever the answers do; else as long as each stays as it is."""


def bound_of(campaign: SurveyCampaign) -> Bound | None:
    """Return the bound on all reports of one device; None where it reports once.

    Each law has a permanent answer of its own (in each spell). No more laws are asked than there
    are entries in all reports: the costliest.
    """
    reports, spells = campaign.max_reports, campaign.spells
    if not campaign.repeated or reports < 2:
        return None
    length = reports if spells is None else spells.length
    losses = sorted((over_time(law, reports, length) for law in campaign.frame.cells), reverse=True)
    asked = reports * len(campaign.frame.slots)
    return Bound(added(losses[:asked]), spells is not None)


def over_time(law: Mechanism, reports: int, length: int) -> float:
    """Return what so many reports tell about a value that stays; answers last for `length`."""
    whole, rest = divmod(reports, length)
    parts = [added([alike(law, length)], whole)] if whole else []
    return added([*parts, *([alike(law, rest)] if rest else [])])


def alike(law: Mechanism, reports: int) -> float:
    """Return what so many reports of one permanent answer tell."""
    loss = law.loss_of(reports) if reports <= MOST_ALIKE else law.long_run()
    if loss is None:
        raise TypeError(f"{law.name} has no permanent answers")
    return loss.epsilon


def reserved(campaign: SurveyCampaign) -> float:
    """Return what the first report costs more, so that "no answer" can be said later."""
    return added([law.charge for law in campaign.frame.cells if campaign.prepays_none] or [0.0])
