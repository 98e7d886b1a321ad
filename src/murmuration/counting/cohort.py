"""What may be said of a crowd: nothing about fewer people than the cohort, at any look.

Figures are functions of integer sums, and a printed figure has one solution in whole numbers: who
sees it knows the sums that it was made of, and who sees it twice knows their difference. So figures
are made of *shown* tallies, which follow three rules. With `needed` reports (the cohort, times the
reports that one person may send):

    a cell     (a law: an attribute, at a level, in a period) is empty until it has as many, and
               from then on changes only by as many further reports, or more;
    an         attribute changes when all of its cells that are shown have as many further reports,
               and all of them change at that moment: levels keep the proportions that they have
               among those who had reported by then, so that a small one does not lag;
    a count    of answers by level is told if what remains of the attribute without those that are
               told is nothing, or as many.

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


def due(frame: Frame, before: Sequence[int], now: Sequence[int], least: int) -> list[range]:
    """Return the cells of every attribute whose figures change now, given reports by cell."""
    least = max(least, 1)
    return [
        cells for cells in frame.cells_of if _is_due([(before[c], now[c]) for c in cells], least)
    ]


def _is_due(cells: Sequence[tuple[int, int]], least: int) -> bool:
    """Whether all that is shown has as many further reports, or as many less.

    Of an attribute of which nothing is shown yet, one cell has to have as many.

    >>> _is_due([(0, 99), (0, 100)], 100)
    True
    >>> _is_due([(100, 200), (100, 150)], 100), _is_due([(0, 300), (100, 150)], 100)
    (False, False)
    """
    changes = [abs(new - old) for old, new in cells if old]
    return min(changes) >= least if changes else any(new >= least for _, new in cells)


def advanced(frame: Frame, before: Sequence[Tally], now: Sequence[Tally], least: int) -> Tallies:
    """Return what is shown next: attributes that are due as they are now, the others as before."""
    sizes = [tally.n for tally in before], [tally.n for tally in now]
    changed = {cell for cells in due(frame, *sizes, least) for cell in cells}
    pairs = enumerate(zip(before, now, strict=True))
    return enough([new if cell in changed else old for cell, (old, new) in pairs], least)


def told(counts: Sequence[int], whole: int, least: int) -> list[int | None]:
    """Return the answers at each level that may be told, of `whole` in all; None for the others.

    Those of the smallest levels are kept back until what is not told is nothing, or as many.

    >>> told([400, 0, 0], 403, 100), told([500, 400, 0], 902, 100), told([500, 400, 0], 900, 100)
    ([None, None, None], [500, None, None], [500, 400, None])
    """
    shown = sorted((n, place) for place, n in enumerate(counts) if n >= least)
    rest = whole - sum(n for n, _ in shown)
    while shown and rest in range(1, least):
        rest += shown.pop(0)[0]
    places = {place for _, place in shown}
    return [n if place in places else None for place, n in enumerate(counts)]
