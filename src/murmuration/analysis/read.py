"""From a campaign's tallies to figures: each attribute's estimate, in its own units.

Where each person answers some attributes only, those asked stand for all. Where people choose
levels, the levels are combined. Where answers may be missing, figures are about those who
answered. Attributes that fewer people than the cohort have been asked have no figures, and are
listed with what they have and need. A collector's estimates are this file's, bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from murmuration.analysis import answered
from murmuration.analysis.combine import PLAIN, checked_name, of_campaign
from murmuration.analysis.figures import Attribute, notes_on
from murmuration.analysis.liars import is_plain, with_liar_bounds
from murmuration.analysis.margins import margins_of
from murmuration.analysis.margins import together as margins_together
from murmuration.analysis.tables import CELLS, ReadTable, checked_view
from murmuration.campaign.alarms import warnings_of
from murmuration.campaign.question import Question
from murmuration.campaign.survey import SurveyCampaign
from murmuration.counting.cohort import enough
from murmuration.errors import EmptyError, MismatchError
from murmuration.mechanisms.tally import Tally
from murmuration.results.estimate import (
    About,
    AnsweredEstimate,
    Estimate,
    FrequencyEstimate,
    TupleEstimate,
)
from murmuration.results.figure import Figure, Figures
from murmuration.statistics.liars import SHARE, checked_share

Part = Estimate | FrequencyEstimate | AnsweredEstimate


def figures(
    campaign: SurveyCampaign,
    tallies: Sequence[Tally],
    about: str = "participants",
    confidence: float = 0.95,
    cohort: int | None = None,
    combine: str = "",
    one_each: bool = False,
    liars: float = SHARE,
    tables: str = CELLS,
) -> Figures:
    """ANALYST. Return all figures, each attribute's in its own units.

    Attributes that fewer people than the cohort have answered have none: the notes name them.
    `combine` says how levels become one estimate: "total", the plain sum, is right whatever made
    people choose theirs; "generalised" is sharper, and right if nobody's level depends on the
    answer. Without a name it is the plain sum, unless the campaign says that levels are drawn by
    lot. `one_each`: nobody has sent two of these reports, as in one period (`analysis.periods`).
    Each figure says how far a share of `liars` can have moved it; the notes say what honest
    devices never send. `tables` says what is shown of tables: their "cells"; shares within each of
    the "rows", or of the "columns"; or, with a bias and no interval, the "smoothed" cells.
    """
    how = (about, confidence, cohort, combine, None, liars)
    said = reading(campaign, tallies, *how, one_each=one_each, tables=tables)
    return Figures(said.figures, [*said.warnings, *notes_on(said.attributes, said.figures)])


@dataclass(frozen=True)
class Reading:
    """All figures, and every attribute that was asked, whether it has figures or not."""

    figures: list[Figure]
    attributes: list[Attribute]
    warnings: list[str]
    """What honest devices never send."""


def reading(
    campaign: SurveyCampaign,
    tallies: Sequence[Tally],
    about: str = "participants",
    confidence: float = 0.95,
    cohort: int | None = None,
    combine: str = "",
    together: int | None = None,
    liars: float = SHARE,
    *,
    one_each: bool = False,
    tables: str = CELLS,
) -> Reading:
    """ANALYST. Return all figures, and what is hidden.

    Of a category with more labels than `together`, all intervals at once are right with probability
    `confidence` (Bonferroni: each at 1 - (1-confidence)/k); without it, each by itself.
    """
    each = 1 if one_each else campaign.max_reports
    least = (campaign.terms.cohort if cohort is None else cohort) * each
    lies = checked_share(liars) * campaign.frame.reports(tallies)
    plain = is_plain(campaign, combine)
    view, read_tables = checked_view(tables), read_tables_of(campaign, tallies, about, least)
    figures: list[Figure] = []
    attributes = []
    for place, (part, own) in enumerate(_parts(campaign, tallies, about, combine, each, least)):
        question, n = campaign.questions[place], 0 if part is None else part.n
        if part is not None and n >= least:
            answered_by = [tally for tally in own if tally.n]
            rows = _lasting(in_units(question, part, answered_by, confidence, together), own)
            rows = with_liar_bounds(rows, campaign, place, part, own, lies, plain=plain)
            figures += _of_table(rows, read_tables.get(question.name), confidence, view)
        attributes.append(_attribute(campaign, question, n, least))
    lots = _is_whole(campaign, tallies)
    return Reading(figures, attributes, warnings_of(campaign, tallies, least, lots=lots))


def _of_table(
    rows: list[Figure],
    table: ReadTable | None,
    confidence: float,
    view: str,
) -> list[Figure]:
    """Return the figures of a table as they are wanted, its association first."""
    if table is None:
        return rows
    first = table.association(confidence)
    return [first, *(rows if view == CELLS else table.figures(view, confidence))]


def read_tables_of(
    campaign: SurveyCampaign, tallies: Sequence[Tally], about: str, least: int
) -> dict[str, ReadTable]:
    """Return each table that enough people have answered, by its name."""
    some = enough(tallies, least)
    if not campaign.tables:
        return {}
    groups, everybody = campaign.frame.by_group(some), campaign.frame.reports(some)
    read = (ReadTable.of(campaign, one, groups, about, everybody) for one in campaign.tables)
    return {table.question.name: table for table in read if table.tally.n}


def _attribute(campaign: SurveyCampaign, question: Question, n: int, least: int) -> Attribute:
    hidden = n < least
    return Attribute(
        *(question.name, question.kind, n, least, hidden),
        *(question.low, question.high, question.unit),
        labels=len(question.labels),
        missing=question.missing,
        checks=question.checks,
        note=f"no level has {least:,} answers" if hidden and campaign.levels else "",
    )


def parts(
    campaign: SurveyCampaign,
    tallies: Sequence[Tally],
    about: str = "participants",
    combine: str = "",
    one_each: bool = False,
    least: int = 0,
) -> list[Part | None]:
    """ANALYST. Return each attribute's estimate in its mechanism's domain; None for nobody.

    From laws that at least so many people have answered by.
    """
    each = 1 if one_each else campaign.max_reports
    return [part for part, _ in _parts(campaign, tallies, about, combine, each, least)]


def _parts(
    campaign: SurveyCampaign,
    tallies: Sequence[Tally],
    about: str,
    combine: str,
    each: int,
    least: int,
) -> list[tuple[Part | None, list[Tally]]]:
    """Return each attribute's estimate and the tallies that it was read from.

    Those of fewer than `least` reports are empty: a figure with them would tell what they are.
    """
    About.parse(about)
    checked_name(combine)
    some = enough(tallies, least)
    groups = campaign.frame.by_group(some)
    if campaign.strategy.gathers:
        return [(part, groups[0]) for part in _together(campaign, groups[0][0], about)]
    shares = campaign.strategy.shares(len(groups))
    whole = _is_whole(campaign, tallies)
    reports = campaign.frame.reports(tallies if whole else some)
    parts: list[tuple[Part | None, list[Tally]]] = []
    for question, own, share in zip(campaign.questions, groups, shares, strict=True):
        if margins := margins_of(campaign, question, groups):
            parts.append((margins_together(question, margins, about, reports), own))
            continue
        everybody = reports
        if not whole:
            everybody = max(reports, math.ceil(sum(tally.n for tally in own) / share))
        part = _part(campaign, question.missing, own, everybody, about, combine, each)
        parts.append((_without(campaign, part, own, least), own))
    return parts


def _is_whole(campaign: SurveyCampaign, tallies: Sequence[Tally]) -> bool:
    """Whether tallies are of one moment for sure, all attributes and all levels."""
    return campaign.levels is None and all(tally.n for tally in tallies)


def _without(
    campaign: SurveyCampaign, part: Part | None, own: Sequence[Tally], least: int
) -> Part | None:
    """Say in the note which levels are left out."""
    if part is None or campaign.levels is None or least <= 1:
        return part
    names = zip(campaign.levels.names, own, strict=True)
    left = [name for name, tally in names if not tally.n]
    said = f"without level {', '.join(left)}: fewer than {least:,} answers" if left else ""
    return replace(part, note="; ".join(filter(None, [part.note, said])))


def _together(campaign: SurveyCampaign, tally: Tally, about: str) -> list[Part | None]:
    """Read all attributes from the tally of one mechanism."""
    if tally.n == 0:
        return [None] * len(campaign.questions)
    estimate = tally.mechanism.estimate(tally, about)
    return list(estimate.parts) if isinstance(estimate, TupleEstimate) else [estimate]


def _part(
    campaign: SurveyCampaign,
    missing: bool,
    own: Sequence[Tally],
    everybody: int,
    about: str,
    combine: str,
    each: int,
) -> Part | None:
    """Estimate one attribute from its tallies, one per level."""
    part: Part
    try:
        if missing:
            part = answered.estimated(own, about, everybody)
            part = part if campaign.levels is None else replace(part, note=PLAIN)
        elif campaign.levels is not None:
            by_lot = campaign.levels.by_lot
            part = of_campaign(own, about, everybody, combine, by_lot=by_lot)
        else:
            (tally,) = own
            estimate = tally.mechanism.estimate(tally, about, everybody)
            if isinstance(estimate, TupleEstimate | AnsweredEstimate):
                raise MismatchError(f"{tally.mechanism.name} is not for one attribute")
            part = estimate
    except EmptyError:
        return None
    return _widened(part, own, each)


def _widened(part: Part, own: Sequence[Tally], max_reports: int) -> Part:
    """Allow for reports of one person that share a permanent answer: up to `max_reports` of them.

    With T_i <= R reports of person i, sum T_i^2 <= R n, so that

        n Var <= R Var(permanent answer) + Var(one report) - Var(permanent answer),

    and about the population, where a person's own answer is a draw too, R times everything.
    """
    if max_reports == 1:
        return part
    share = max(tally.mechanism.kept_share() for tally in own)
    factor = max_reports if part.about is About.POPULATION else 1 + (max_reports - 1) * share
    told = f"up to {max_reports} reports per person: the error allows for all of them"
    note = "; ".join(filter(None, [part.note, told]))
    if isinstance(part, AnsweredEstimate):
        return replace(part.widened(factor), note=note)
    stderr: Any = part.stderr * math.sqrt(factor)
    return replace(part, stderr=stderr, note=note)


def _lasting(rows: Sequence[Figure], own: Sequence[Tally]) -> list[Figure]:
    """Say beside figures of a repeated question what its permanent answers may reveal."""
    costs = [tally.mechanism.charge for tally in own if tally.mechanism.memoised]
    return [replace(row, permanent=max(costs)) for row in rows] if costs else list(rows)


# --- in the attribute's own units ----------------------------------------------------------------


def in_units(
    question: Question,
    part: Part,
    tallies: Sequence[Tally],
    confidence: float = 0.95,
    together: int | None = None,
) -> list[Figure]:
    """Return an estimate in the attribute's own units, one figure for each number."""
    fitted = bins(question, tallies) if question.kind == "distribution" else []
    k = len(question.labels)
    at_once = together is not None and k > together
    each = 1 - (1 - confidence) / k if at_once else confidence
    if at_once:
        said = f"intervals that are right all at once, over all {k:,} labels (Bonferroni)"
        part = replace(part, note="; ".join(filter(None, [part.note, said])))
    if isinstance(part, AnsweredEstimate):
        return [*answered.figures(question, part, confidence, each), *fitted]
    if isinstance(part, FrequencyEstimate):
        return _shares(question, part, each)
    mean = part.scaled(*question.range)
    low, high = mean.interval(confidence)
    figure = Figure(
        *(question.name, "mean", mean.value, mean.stderr, low, high, mean.n, mean.epsilon),
        *(question.unit, "; ".join(filter(None, [mean.note, question.clamps]))),
    )
    return [figure, *fitted]


def _shares(question: Question, part: FrequencyEstimate, confidence: float) -> list[Figure]:
    columns = (part.value, part.stderr, *part.interval(confidence))
    rows = zip(question.labels, *(column.tolist() for column in columns), strict=True)
    head = (part.n, part.epsilon, "share", part.note)
    return [
        Figure(question.name, label, value, stderr, low, high, *head)
        for label, value, stderr, low, high in rows
    ]


def bins(question: Question, tallies: Sequence[Tally]) -> list[Figure]:
    """Return the fitted histogram: no interval, as smoothing has a bias that none covers.

    Where people choose levels, it is read from the one that tells most: n epsilon^2.
    """
    tally = max(tallies, key=lambda part: part.n * part.mechanism.budget**2, default=None)
    if tally is None:
        return []
    shape = tally.mechanism.distribution(tally, bins=question.bins).scaled(*question.range)
    among = f", {answered.AMONG}" if question.missing else ""
    note = f"fitted ({shape.method.upper()}){among}; read it as a shape"
    edges = zip(shape.edges[:-1].tolist(), shape.edges[1:].tolist(), strict=True)
    return [
        Figure(
            *(question.name, f"{start:g} to {end:g}", share, None, None, None),
            *(tally.n, shape.epsilon, "share", note),
        )
        for (start, end), share in zip(edges, shape.histogram.tolist(), strict=True)
    ]
