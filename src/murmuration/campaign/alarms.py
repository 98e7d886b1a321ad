"""Reports that honest devices never send: a look at all tallies of a campaign.

Each law says what its reports add up to, whatever people have answered (`Mechanism.evidence`); how
often a report is about an attribute is drawn independently of the answers, too, and is looked at
where all attributes cost the same: a device whose limit is nearly spent may be silent about dear
ones. All tests of one look together raise a false alarm with probability 1e-6 at most, for every
crowd. Nothing is ever removed because of an alarm.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from murmuration.campaign.form import ByPeriod
from murmuration.campaign.survey import SurveyCampaign
from murmuration.mechanisms.tally import Tally
from murmuration.statistics.forgery import Alarm, Evidence, Limits, alarms

MOST_SAID = 5
"""Alarms of one look that are written out."""


def alarms_of(
    campaign: SurveyCampaign, tallies: Sequence[Tally], least: int = 0, *, lots: bool = True
) -> list[Alarm]:
    """ANALYST. Return what honest devices never send, at laws with at least so many answers.

    Of a repeated question, reports that share a permanent answer are independent given it. With
    `lots`, how often each attribute is answered is looked at, too: tallies are of one moment.
    """
    shares = _lots(campaign, tallies, least) if lots else ()
    return alarms([*shares, *_laws(campaign, tallies, least)])


def warnings_of(
    campaign: SurveyCampaign, tallies: Sequence[Tally], least: int, *, lots: bool = True
) -> list[str]:
    """ANALYST. Say it in words; of many alarms the first few."""
    return _said(alarms_of(campaign, tallies, least, lots=lots))


def warnings_by_period(campaign: SurveyCampaign, shown: ByPeriod, counted: ByPeriod) -> list[str]:
    """ANALYST. Say it of all periods, in one look; without periods, of everything.

    By what is shown of the answers, and by how many reports of each kind were counted.
    """
    least = campaign.terms.cohort * (1 if campaign.every else campaign.max_reports)
    evidence: list[tuple[str, Evidence]] = []
    for tallies, look in ((counted, _lots), (shown, _laws)):
        for period, own in tallies.items():
            when = campaign.name_of(period) if campaign.every else ""
            for name, warning in look(campaign, own, least):
                evidence.append((", ".join(filter(None, [when, name])), warning))
    return _said(alarms(evidence))


def _said(alarms: Sequence[Alarm]) -> list[str]:
    more = [f"and {len(alarms) - MOST_SAID:,} more"] if len(alarms) > MOST_SAID else []
    return [*map(str, alarms[:MOST_SAID]), *more]


def _lots(
    campaign: SurveyCampaign, tallies: Sequence[Tally], least: int
) -> Iterator[tuple[str, Evidence]]:
    """Look at how often each attribute was drawn."""
    groups, reports = campaign.frame.by_group(tallies), campaign.frame.reports(tallies)
    asked = np.array([sum(tally.n for tally in own) for own in groups])
    alike = len({law.charge for law in campaign.frame.cells}) == 1 and not campaign.repeated
    if alike and reports >= max(least, 1):
        shares = np.array(campaign.strategy.shares(len(groups)))
        names = [_name(campaign, group) for group in range(len(groups))]
        yield "", Limits("reports about", asked, reports, shares, shares, names)


def _laws(
    campaign: SurveyCampaign, tallies: Sequence[Tally], least: int
) -> Iterator[tuple[str, Evidence]]:
    """Look at what each law's reports add up to."""
    for group, own in enumerate(campaign.frame.by_group(tallies)):
        for level, tally in enumerate(own):
            if tally.n >= max(least, 1):
                name = _name(campaign, group, level)
                for evidence in tally.mechanism.evidence(tally):
                    yield name, evidence


def _name(campaign: SurveyCampaign, group: int, level: int | None = None) -> str:
    """Return the attribute, or that it is all of them; and the level."""
    several = campaign.strategy.gathers
    name = "all attributes" if several else campaign.questions[group].name
    if level is None or campaign.levels is None:
        return name
    return f"{name}, {campaign.levels.names[level]}"
