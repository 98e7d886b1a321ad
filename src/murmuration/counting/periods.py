"""Tallies of all periods, cell by cell: added, taken out again, and pooled."""

from __future__ import annotations

from collections.abc import Sequence

from murmuration.campaign.form import ByPeriod
from murmuration.campaign.survey import SurveyCampaign
from murmuration.errors import FormatError
from murmuration.mechanisms.tally import Tally

Tallies = tuple[Tally, ...]


def pooled(campaign: SurveyCampaign, tallies: ByPeriod) -> Tallies:
    """Add up all periods, cell by cell."""
    columns = zip(campaign.frame.empty(), *tallies.values(), strict=True)
    return tuple(Tally.merge(column) for column in columns)


def plus(some: ByPeriod, more: ByPeriod) -> ByPeriod:
    """Add tallies, period by period and cell by cell."""
    together = dict(some)
    for period, own in more.items():
        here = together.get(period)
        together[period] = own if here is None else _added(here, own)
    return together


def minus(whole: ByPeriod, part: ByPeriod) -> ByPeriod:
    """Take tallies out of larger ones; refuse what is not in them, in each period."""
    rest = dict(whole)
    for period, own in part.items():
        if period in rest:
            rest[period] = _less(rest[period], own)
        elif is_anything(own):
            raise FormatError("the second tallies are not part of the first")
    return {period: own for period, own in rest.items() if is_anything(own)}


def least_people(campaign: SurveyCampaign, by_period: ByPeriod) -> int:
    """Return how many people there are at least: as many as in the largest period."""
    sizes = [campaign.frame.reports(own) for own in by_period.values()]
    least: int = -(-sum(sizes) // campaign.max_reports)
    return max([least, *sizes]) if campaign.every else least


def is_anything(tallies: Sequence[Tally]) -> bool:
    """Whether tallies count anything."""
    return any(tally.n or tally.counts.any() for tally in tallies)


def _added(some: Sequence[Tally], more: Sequence[Tally]) -> Tallies:
    return tuple(tally + addend for tally, addend in zip(some, more, strict=True))


def _less(whole: Sequence[Tally], part: Sequence[Tally]) -> Tallies:
    try:
        return tuple(
            Tally(tally.mechanism, tally.counts - other.counts, tally.n - other.n)
            for tally, other in zip(whole, part, strict=True)
        )
    except ValueError:
        raise FormatError("the second tallies are not part of the first") from None
