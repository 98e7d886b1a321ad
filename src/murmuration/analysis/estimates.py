"""Tallies become estimates, unless too few people have answered."""

from __future__ import annotations

from collections.abc import Sequence

from murmuration.analysis import read
from murmuration.analysis.figures import Estimates
from murmuration.collector.publish import Served
from murmuration.errors import CohortError
from murmuration.mechanisms.tally import Tally


def estimates(
    served: Served,
    tallies: Sequence[Tally],
    about: str = "participants",
    level: float = 0.95,
    combine: str = "",
) -> Estimates:
    """Return what is known about the crowd, and about whom; nothing below the cohort."""
    campaign = served.campaign
    found = read.figures(campaign, tallies, about, level, combine=combine)
    if not found:
        since = " since the questions or their laws were changed" if served.older else ""
        raise CohortError(
            f"too few people have answered{since}: nothing is shown about fewer than "
            f"{campaign.terms.cohort:,}"
        )
    people = campaign.people(tallies)
    return Estimates(campaign.name, served.version, campaign.digest, people, level, about, found)
