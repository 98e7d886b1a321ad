"""Tallies become estimates, unless too few people have answered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from murmuration.analysis import read
from murmuration.analysis.figures import Attribute, Estimates, Trend
from murmuration.analysis.periods import ALL, LAST, Periods
from murmuration.analysis.select import LONG, TOP
from murmuration.campaign.question import ANSWERED
from murmuration.campaign.survey import ByPeriod
from murmuration.collector.publish import Served
from murmuration.collector.status import least_people
from murmuration.collector.tallies import pooled
from murmuration.errors import CohortError, ParameterError
from murmuration.results.figure import Figure
from murmuration.statistics.liars import SHARE

NAMED = 20
"""How many attributes an error names."""


@dataclass(frozen=True)
class Query:
    """What is asked about the crowd.

    about: "participants", or "population"
    confidence: the confidence level of the intervals
    combine: how levels become one estimate
    together: of categories with more labels than that, intervals are right all at once
    period: where a question comes back, the name of a period, "last" (the last one that is shown,
        unless told otherwise), or "all" of them together
    since: the period since which changes are said; the one before, unless told otherwise
    liars: the share of liars; each figure says how far they can have moved it
    """

    about: str = "participants"
    confidence: float = 0.95
    combine: str = ""
    together: int | None = None
    period: str = ""
    since: str = ""
    liars: float = SHARE

    def named(self) -> dict[str, str]:
        """Return what is not as usual, as an address says it."""
        found = {"combine": self.combine, "period": self.period, "since": self.since}
        if self.together is not None:
            found["together"] = str(self.together)
        if self.liars != SHARE:
            found["liars"] = repr(self.liars)
        head = {"about": self.about, "confidence": repr(self.confidence)}
        return head | {key: value for key, value in found.items() if value}


def estimates(
    served: Served, tallies: ByPeriod, query: Query | None = None, cohort: int | None = None
) -> Estimates:
    """Return what is known about the crowd, and about whom; nothing below the cohort."""
    query = query or Query()
    if served.campaign.every is not None:
        return _of_periods(served, tallies, query, cohort)
    if query.period or query.since:
        raise ParameterError(
            f"{served.campaign.name} has no periods: [repeat] every, in its file, says them"
        )
    campaign, everything = served.campaign, pooled(served.campaign, tallies)
    how = (query.about, query.confidence, cohort, query.combine, query.together, query.liars)
    found = read.reading(campaign, everything, *how)
    _require_figures(served, found, cohort)
    people, reports = campaign.people(everything), campaign.frame.reports(everything)
    return _estimates(served, people, query, found, reports=reports)


def trend(
    served: Served, tallies: ByPeriod, query: Query | None = None, cohort: int | None = None
) -> Trend:
    """Return every figure of every period that is shown, and whether anything has changed."""
    query, campaign = query or Query(), served.campaign
    found = _periods(served, tallies, query, cohort)
    head = (campaign.name, served.version, campaign.digest, campaign.every or "")
    how = (query.confidence, query.about)
    return Trend(*head, *how, found.listed(), _largest(found.trend()), found.changed())


def _largest(figures: Sequence[Figure]) -> list[Figure]:
    """Leave out, of attributes with long lists, all labels but those that are now the largest."""
    last = {(one.attribute, one.item): one.value for one in figures}
    kept: set[tuple[str, str]] = set()
    for attribute in dict.fromkeys(one.attribute for one in figures):
        own = {item: value for item, value in last.items() if item[0] == attribute}
        ordered = sorted(own, key=lambda item: (item[1] != ANSWERED, -own[item]))
        kept |= set(ordered if len(own) <= LONG else ordered[:TOP])
    return [one for one in figures if (one.attribute, one.item) in kept]


def _periods(served: Served, tallies: ByPeriod, query: Query, cohort: int | None) -> Periods:
    how = (query.about, query.confidence, query.combine, query.together)
    return Periods(served.campaign, tallies, *how, cohort=cohort, liars=query.liars)


def _of_periods(served: Served, tallies: ByPeriod, query: Query, cohort: int | None) -> Estimates:
    """Return the figures of a period, or of all of them, and what has changed."""
    campaign, found = served.campaign, _periods(served, tallies, query, cohort)
    more: dict[str, Any] = {"periods": found.listed(), "changed": found.changed()}
    if query.period == ALL:
        if query.since:
            raise ParameterError("a change is one between two periods: name one of them")
        whole = found.pooled()
        _require_figures(served, whole, cohort)
        reports = sum(found.people.values())
        people = least_people(campaign, tallies)
        more |= {"reports": reports, "period": ALL}
        return _estimates(served, people, query, whole, **more)
    period = found.chosen(query.period or LAST)
    since = found.chosen(query.since) if query.since else None
    if since is not None:
        _require_figures(served, found.reading(since), cohort, f" in {campaign.name_of(since)}")
    own = found.reading(period)
    _require_figures(served, own, cohort, f" in {campaign.name_of(period)}")
    people = found.people[period]
    more |= {"reports": people, "period": campaign.name_of(period)}
    more["changes"] = found.changes(period, since)
    return _estimates(served, people, query, own, **more)


def _estimates(
    served: Served, people: int, query: Query, found: read.Reading, **more: Any
) -> Estimates:
    head = (served.campaign.name, served.version, served.campaign.digest, people)
    more |= {"liars": query.liars, "warnings": found.warnings}
    return Estimates(*head, query.confidence, query.about, found.figures, found.attributes, **more)


def _require_figures(
    served: Served, found: read.Reading, cohort: int | None, when: str = ""
) -> None:
    """Refuse to answer where nothing can be shown, and say how many answers there are."""
    if found.figures:
        return
    since = " since the questions or their laws were changed" if served.older else ""
    least = served.campaign.terms.cohort if cohort is None else cohort
    raise CohortError(
        f"too few people have answered{when}{since}: nothing is shown about fewer than {least:,}. "
        f"{_so_far(found.attributes)}"
    )


def _so_far(attributes: Sequence[Attribute]) -> str:
    """Say how many answers each attribute has and needs.

    >>> _so_far([Attribute("age", "number", answers=99, needed=1000, hidden=True)])
    'Answers so far: age 99 of 1,000.'
    """
    listed = [f"{one.name} {one.answers:,} of {one.needed:,}" for one in attributes[:NAMED]]
    more = f"; and {len(attributes) - NAMED:,} more" if len(attributes) > NAMED else ""
    return f"Answers so far: {'; '.join(listed)}{more}."
