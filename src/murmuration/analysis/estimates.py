"""Tallies become estimates, unless too few people have answered (`counting.cohort`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import structs

from murmuration.analysis import read
from murmuration.analysis.figures import Estimates, Trend
from murmuration.analysis.periods import ALL, LAST, Periods
from murmuration.analysis.select import LONG, TOP
from murmuration.analysis.tables import CELLS
from murmuration.campaign.form import ByPeriod
from murmuration.campaign.question import ANSWERED
from murmuration.campaign.survey import SurveyCampaign
from murmuration.counting.cohort import enough, needed
from murmuration.counting.periods import pooled
from murmuration.errors import CohortError, ParameterError
from murmuration.results.figure import Figure
from murmuration.statistics.liars import SHARE


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
    tables: what is shown of tables: "cells", shares within "rows" or "columns", or "smoothed"
    """

    about: str = "participants"
    confidence: float = 0.95
    combine: str = ""
    together: int | None = None
    period: str = ""
    since: str = ""
    liars: float = SHARE
    tables: str = CELLS

    def named(self) -> dict[str, str]:
        """Return what is not as usual, as an address says it."""
        named = {"combine": self.combine, "period": self.period, "since": self.since}
        if self.together is not None:
            named["together"] = str(self.together)
        if self.liars != SHARE:
            named["liars"] = repr(self.liars)
        if self.tables != CELLS:
            named["tables"] = self.tables
        head = {"about": self.about, "confidence": repr(self.confidence)}
        return head | {key: value for key, value in named.items() if value}


def estimates(
    campaign: SurveyCampaign,
    tallies: ByPeriod,
    query: Query | None = None,
    *,
    version: int = 0,
    cohort: int | None = None,
    waiting: int = 0,
) -> Estimates:
    """Return what is known about the crowd, and about whom; nothing below the cohort.

    `version` is the one that was published and whose tallies these are; 0 where nobody knows.
    `waiting` reports are stored, and not in the tallies yet.
    """
    query = query or Query()
    if campaign.every is not None:
        of_period = _of_periods(campaign, tallies, query, version, cohort)
        return structs.replace(of_period, waiting=waiting)
    if query.period or query.since:
        raise ParameterError(
            f"{campaign.name} has no periods: set `every` under `[repeat]` in its file"
        )
    everything = pooled(campaign, tallies)
    how = (query.about, query.confidence, cohort, query.combine, query.together, query.liars)
    reading = read.reading(campaign, everything, *how, tables=query.tables)
    _require_figures(campaign, reading, version, cohort)
    everything = enough(everything, needed(campaign, cohort))
    people, reports = campaign.people(everything), campaign.frame.reports(everything)
    return _estimates(campaign, version, people, query, reading, reports=reports, waiting=waiting)


def trend(
    campaign: SurveyCampaign,
    tallies: ByPeriod,
    query: Query | None = None,
    *,
    version: int = 0,
    cohort: int | None = None,
) -> Trend:
    """Return every figure of every period that is shown, and whether anything has changed."""
    query = query or Query()
    periods = _periods(campaign, tallies, query, cohort)
    head = (campaign.name, version, campaign.digest, campaign.every or "")
    how = (query.confidence, query.about)
    return Trend(*head, *how, periods.listed(), _largest(periods.trend()), periods.changed())


def _largest(figures: Sequence[Figure]) -> list[Figure]:
    """Leave out, of attributes with long lists, all labels but those that are now the largest."""
    last = {(figure.attribute, figure.item): figure.value for figure in figures}
    kept: set[tuple[str, str]] = set()
    for attribute in dict.fromkeys(figure.attribute for figure in figures):
        own = {item: value for item, value in last.items() if item[0] == attribute}
        ordered = sorted(own, key=lambda item: (item[1] != ANSWERED, -own[item]))
        kept |= set(ordered if len(own) <= LONG else ordered[:TOP])
    return [figure for figure in figures if (figure.attribute, figure.item) in kept]


def _periods(
    campaign: SurveyCampaign, tallies: ByPeriod, query: Query, cohort: int | None
) -> Periods:
    how = (query.about, query.confidence, query.combine, query.together)
    return Periods(campaign, tallies, *how, cohort=cohort, liars=query.liars)


def _of_periods(
    campaign: SurveyCampaign, tallies: ByPeriod, query: Query, version: int, cohort: int | None
) -> Estimates:
    """Return the figures of a period, or of all of them, and what has changed."""
    periods = _periods(campaign, tallies, query, cohort)
    more: dict[str, Any] = {"periods": periods.listed(), "changed": periods.changed()}
    if query.period == ALL:
        if query.since:
            raise ParameterError("a change is between two periods: name one of them")
        whole = periods.pooled()
        _require_figures(campaign, whole, version, cohort)
        people, reports = periods.least_people(), sum(periods.people.values())
        more |= {"reports": reports, "period": ALL}
        return _estimates(campaign, version, people, query, whole, **more)
    period = periods.chosen(query.period or LAST)
    since = periods.chosen(query.since) if query.since else None
    for shown in (period,) if since is None else (since, period):
        when = f" in {campaign.name_of(shown)}"
        _require_figures(campaign, periods.reading(shown), version, cohort, when)
    people = periods.people[period]
    more |= {"reports": people, "period": campaign.name_of(period)}
    more["changes"] = periods.changes(period, since)
    return _estimates(campaign, version, people, query, periods.reading(period), **more)


def _estimates(
    campaign: SurveyCampaign,
    version: int,
    people: int,
    query: Query,
    reading: read.Reading,
    **more: Any,
) -> Estimates:
    head = (campaign.name, version, campaign.digest, people)
    more |= {"liars": query.liars, "warnings": reading.warnings}
    return Estimates(
        *head, query.confidence, query.about, reading.figures, reading.attributes, **more
    )


def _require_figures(
    campaign: SurveyCampaign,
    reading: read.Reading,
    version: int,
    cohort: int | None,
    when: str = "",
) -> None:
    """Refuse to answer where nothing can be shown, and say how many answers there are."""
    if reading.figures:
        return
    which = f" version {version} of {campaign.name}" if version else ""
    least = needed(campaign, cohort)
    each = "each level of an attribute" if campaign.levels else "an attribute"
    raise CohortError(
        f"too few people have answered{which}{when}: nothing is shown about fewer than {least:,}, "
        f"and {each} needs as many. `murmur status` says how many reports have arrived"
    )
