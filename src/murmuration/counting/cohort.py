"""What may be said of a crowd: nothing about fewer people than the cohort, at any look.

Figures are functions of integer sums, and a printed figure has one solution in whole numbers: who
sees it knows the sums that it was made of, and who sees it twice knows their difference. So figures
are made of *shown* tallies, which follow three rules. With `needed` reports (the cohort, times the
reports that one person may send):

    a cell     (a law: an attribute, at a level) is empty until it has as many, and from then on
               changes only by as many further reports, or more;
    a period   (all reports, where a question does not come back) changes when every attribute that
               is shown has as many further answers: so all cells are of one moment, but those of
               levels that few people chose since, which stay as they were;
    a count    of answers by level is told if what remains of the attribute without it is nothing,
               or as many.

Between two looks a shown cell differs by at least a cohort of people, and no figure depends on what
fewer have answered (`tests/collection/test_cohort.py` plays it).
"""

from __future__ import annotations

from collections.abc import Sequence

from murmuration.campaign.survey import SurveyCampaign
from murmuration.counting.periods import Tallies
from murmuration.mechanisms.frame import Frame
from murmuration.mechanisms.tally import Tally


def needed(campaign: SurveyCampaign, cohort: int | None = None) -> int:
    """Return how many reports a cell needs for anything to be said of it, in a period if any."""
    least = campaign.terms.cohort if cohort is None else cohort
    return least if campaign.every else least * campaign.max_reports


def enough(tallies: Sequence[Tally], least: int) -> Tallies:
    """Return tallies without those of fewer reports.

    >>> from murmuration import mechanism
    >>> law = mechanism("grr", 1.0, k=2)
    >>> [tally.n for tally in enough([law.tally([0, 1]), law.tally([1])], 2)]
    [2, 0]
    """
    return tuple(tally if tally.n >= least else tally.mechanism.empty() for tally in tallies)


def is_due(frame: Frame, before: Sequence[int], now: Sequence[int], least: int) -> bool:
    """Whether every group of cells that is shown has as many further reports, or as many less.

    A group of which nothing is shown yet has to have as many, to be shown.
    """
    least = max(least, 1)
    pairs = [
        (sum(before[c] for c in cells), sum(now[c] for c in cells)) for cells in frame.cells_of
    ]
    changes = [abs(new - old) for old, new in pairs if old or new >= least]
    return bool(changes) and min(changes) >= least


def advanced(before: Sequence[Tally], now: Sequence[Tally], least: int) -> Tallies:
    """Return what is shown next: each cell as it is now, if it has changed by enough reports."""
    moved = [abs(new.n - old.n) >= least for old, new in zip(before, now, strict=True)]
    chosen = [new if is_new else old for old, new, is_new in zip(before, now, moved, strict=True)]
    return enough(chosen, least)


def told(counts: Sequence[int], whole: int, least: int) -> list[int | None]:
    """Return the answers at each level that may be told, of `whole` in all; None for the others.

    >>> told([400, 0, 0], 403, 100), told([500, 400, 0], 902, 100)
    ([None, None, None], [500, 400, None])
    """
    return [n if n >= least and whole - n not in range(1, least) else None for n in counts]
