"""Tallies become estimates, unless too few people have answered."""

from __future__ import annotations

from collections.abc import Sequence

from murmuration.analysis import read
from murmuration.analysis.figures import Attribute, Estimates
from murmuration.collector.publish import Served
from murmuration.errors import CohortError
from murmuration.mechanisms.tally import Tally

NAMED = 20
"""How many attributes an error names."""


def estimates(
    served: Served,
    tallies: Sequence[Tally],
    about: str = "participants",
    level: float = 0.95,
    combine: str = "",
    together: int | None = None,
    cohort: int | None = None,
) -> Estimates:
    """Return what is known about the crowd, and about whom; nothing below the cohort."""
    campaign = served.campaign
    found = read.reading(campaign, tallies, about, level, cohort, combine, together)
    if not found.figures:
        since = " since the questions or their laws were changed" if served.older else ""
        least = campaign.terms.cohort if cohort is None else cohort
        raise CohortError(
            f"too few people have answered{since}: nothing is shown about fewer than {least:,}. "
            f"{_so_far(found.attributes)}"
        )
    head = (campaign.name, served.version, campaign.digest, campaign.people(tallies))
    return Estimates(*head, level, about, found.figures, found.attributes)


def _so_far(attributes: Sequence[Attribute]) -> str:
    """Say how many answers each attribute has and needs.

    >>> _so_far([Attribute("age", "number", answers=99, needed=1000, hidden=True)])
    'Answers so far: age 99 of 1,000.'
    """
    listed = [f"{one.name} {one.answers:,} of {one.needed:,}" for one in attributes[:NAMED]]
    more = f"; and {len(attributes) - NAMED:,} more" if len(attributes) > NAMED else ""
    return f"Answers so far: {'; '.join(listed)}{more}."
