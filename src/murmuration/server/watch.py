"""One campaign, watched: from its tallies to what dashboards are sent.

All that follows from laws is worked out once. A state is worked out once for everybody who looks,
and costs the same whether a thousand reports are counted or a billion: it is made from tallies. The
one thing that takes long, fitting a distribution, is done again only when that could be seen, and
for one attribute at a look.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from murmuration.analysis import read, select
from murmuration.analysis.liars import is_plain, with_liar_bounds
from murmuration.analysis.periods import LAST, Periods
from murmuration.analysis.postprocess import project_simplex
from murmuration.analysis.running import Running, RunningFigures
from murmuration.campaign.form import ByPeriod
from murmuration.campaign.kind import Campaign
from murmuration.campaign.question import ANSWERED, Question
from murmuration.campaign.review import expected_stderr, shares_of
from murmuration.campaign.survey import SurveyCampaign
from murmuration.collector.served import Served
from murmuration.collector.shown import shown
from murmuration.collector.status import Status
from murmuration.collector.store import Store
from murmuration.counting.cohort import enough, needed
from murmuration.counting.periods import pooled
from murmuration.mechanisms.tally import Tally
from murmuration.results.estimate import FrequencyEstimate
from murmuration.results.figure import Figure
from murmuration.server.live import (
    Bin,
    Card,
    Forecast,
    LevelState,
    Liars,
    Live,
    Pace,
    Shown,
    Trail,
    Trails,
    TrendLine,
    TrendPoint,
)
from murmuration.statistics.liars import SHARE
from murmuration.statistics.score import normal_quantile

CONFIDENCE = 0.95
GROWTH = 1.02
"""A distribution is fitted again when there are so many times the answers."""
PACE_SECONDS = 3600.0
MOST_LOOKS = 240
"""Of a trail: with more, every second one of them is dropped."""
MOST_TRAILS = 12
"""Labels of an attribute that have trails; of more labels none has."""

Truths = Mapping[str, Mapping[str, float]]
"""What is really so, by attribute and item: known only where people are simulated."""


class Paced:
    """How fast reports arrive, by looks at how many have."""

    def __init__(self) -> None:
        self._pace: deque[tuple[float, int]] = deque()

    def per_hour(self, received: int) -> Pace | None:
        """Return how fast reports arrive, over the last hour or as long as was watched."""
        now, pace = time.monotonic(), self._pace
        pace.append((now, received))
        while now - pace[0][0] > PACE_SECONDS:
            pace.popleft()
        if len(pace) > MOST_LOOKS:
            kept = [*list(pace)[:-1:2], pace[-1]]
            self._pace = pace = deque(kept)
        seconds = now - pace[0][0]
        if seconds <= 0:
            return None
        return Pace((received - pace[0][1]) / seconds * 3600, seconds)


def head(status: Status, campaign: Campaign, loss: float) -> dict[str, Any]:
    """Return what a state says about any campaign."""
    same = ("version", "digest", "open", "people_expected", "cohort", "received", "outcomes")
    counts = ("balanced", "merged_collectors", "last_report")
    return {
        "campaign": campaign.name,
        "purpose": campaign.terms.purpose,
        "at": int(time.time()),
        "confidence": CONFIDENCE,
        "epsilon": campaign.epsilon,
        "loss": loss,
        **{key: getattr(status, key) for key in (*same, *counts)},
    }


class Watch:
    """What is known about one campaign from look to look; used by one thread at a time."""

    def __init__(self, served: Served[SurveyCampaign], truths: Truths | None = None) -> None:
        campaign = served.campaign
        self._served, self._campaign, self._truths = served, campaign, truths or {}
        self._each = 1 if campaign.every else campaign.max_reports
        """How many reports of one person there may be in what is shown."""
        self._least = needed(campaign)
        self._periods: Periods | None = None
        self._running = RunningFigures(campaign)
        self._shares = shares_of(campaign)
        self._loss = campaign.loss().epsilon
        places = range(len(campaign.questions))
        self._planned = [self._worst_error(place) for place in places]
        self._fitted: dict[int, tuple[int, list[Bin], str]] = {}
        self._due: int | None = None
        """The attribute whose distribution is fitted again at this look."""
        self._paced = Paced()
        self._trails: dict[tuple[str, str], list[Running]] = {}

    def look(self, store: Store) -> tuple[Status, ByPeriod]:
        """Read what has arrived, as of one moment."""
        with store.snapshot():
            return self._served.status(store), shown(store, self._campaign)

    def state(self, status: Status, counted: ByPeriod) -> Live:
        """Return the campaign as it is now, and remember this look.

        `counted` are the tallies that may be shown (`collector.shown`). Where a question comes
        back, it is about the last period that is shown.
        """
        campaign = self._campaign
        period = self._shown(counted)
        tallies = pooled(campaign, counted if period is None else {0: counted[period]})
        enough_of = enough(tallies, self._least)
        reports = campaign.frame.reports(enough_of)
        people = campaign.people(enough_of) if period is None else reports
        groups = campaign.frame.by_group(enough_of)
        if campaign.strategy.gathers:
            groups = groups * len(campaign.questions)
        self._due = self._next_fit(groups)
        once = campaign.every is not None
        parts = read.parts(campaign, tallies, one_each=once, least=self._least)
        rows = zip(parts, groups, strict=True)
        told = {arrived.attribute: arrived.levels for arrived in status.attributes}
        cards = [
            self._card(place, part, own, reports, told.get(campaign.questions[place].name, {}))
            for place, (part, own) in enumerate(rows)
        ]
        self._note(cards)
        return Live(
            **head(status, campaign, self._loss),
            people=people,
            reports=reports,
            pace=self._paced.per_hour(status.received),
            attributes=cards,
            demo=bool(self._truths),
            warnings=status.warnings,
            **self._over_time(period),
        )

    def _shown(self, counted: ByPeriod) -> int | None:
        """Read all periods; return the last one that is shown, None where there are none."""
        if self._campaign.every is None or not counted:
            return None
        how: dict[str, Any] = {"confidence": CONFIDENCE, "together": select.LONG}
        self._periods = Periods(self._campaign, counted, before=self._periods, **how)
        return self._periods.chosen(LAST)

    def _over_time(self, period: int | None) -> dict[str, Any]:
        """Return what a state says about periods."""
        if period is None or self._periods is None:
            return {}
        return {
            "period": self._campaign.name_of(period),
            "periods": self._periods.listed(),
            "changes": self._periods.changes(period) if period in self._periods.shown else [],
            "changed": self._periods.changed(),
        }

    def trails(self) -> Trails:
        """Return how the running figures have come here."""
        trails = self._trails.items()
        return Trails([Trail(attribute, item, looks) for (attribute, item), looks in trails])

    # --- one attribute ---------------------------------------------------------------------------

    def _card(
        self,
        place: int,
        part: read.Part | None,
        own: Sequence[Tally],
        reports: int,
        levels: Mapping[str, int],
    ) -> Card:
        campaign, question = self._campaign, self._campaign.questions[place]
        n, least = 0 if part is None else part.n, self._least
        hidden = part is None or n < least
        figures: list[Shown] = []
        left_out, bins, fitted = 0, list[Bin](), ""
        if part is not None and not hidden:
            figures, left_out = self._figures(place, part, own, reports)
            bins, fitted = self._bins(place, [tally for tally in own if tally.n])
        return Card(
            name=question.name,
            kind=question.kind,
            unit=question.unit if not question.labels else "share",
            low=question.low,
            high=question.high,
            labels=len(question.labels),
            answers=n,
            needed=least,
            hidden=hidden,
            missing=question.missing,
            share_asked=self._shares[place],
            mechanisms=[law.name for law in campaign.laws_of(place)],
            figures=figures,
            left_out=left_out,
            bins=bins,
            bins_note=fitted,
            levels=self._levels(levels),
            assumption=part.note if part is not None and campaign.levels else "",
            steps=["project_simplex"] if any(f.processed is not None for f in figures) else [],
            note="" if part is None or campaign.levels else part.note,
            running_note=self._running.note(place),
            forecast=self._forecast(place, figures, reports),
            liars=self._lying(figures),
            trend=self._trend(question, [figure.item for figure in figures]),
        )

    def _trend(self, question: Question, items: Sequence[str]) -> list[TrendLine]:
        """Return an attribute's figures by period: those that are shown now, the first of many."""
        if self._periods is None:
            return []
        lines: dict[str, list[TrendPoint]] = {item: [] for item in items[:MOST_TRAILS]}
        for line in self._periods.trend(question.name):
            if line.item in lines:
                point = TrendPoint(line.period, line.value, line.low, line.high, line.n)
                lines[line.item].append(point)
        return [TrendLine(item, points) for item, points in lines.items() if points]

    def _figures(
        self, place: int, part: read.Part, own: Sequence[Tally], reports: int
    ) -> tuple[list[Shown], int]:
        """Return an attribute's figures, of many labels the largest, and how many are left out."""
        question, k = self._campaign.questions[place], len(self._campaign.questions[place].labels)
        rows = with_liar_bounds(
            read.in_units(question, part, [], CONFIDENCE, select.LONG),
            *(self._campaign, place, part, own, SHARE * reports),
            plain=is_plain(self._campaign, ""),
        )
        each = 1 - (1 - CONFIDENCE) / k if k > select.LONG else CONFIDENCE
        running = self._running.of(place, own, reports, CONFIDENCE, each)
        tidy = self._processed(question, part)
        truths = self._truths.get(question.name, {})
        kept = _largest(rows) if k > select.LONG else rows
        shown = [
            Shown(
                *(
                    figure.item,
                    figure.value,
                    figure.stderr,
                    figure.low,
                    figure.high,
                    figure.n,
                    figure.unit,
                    figure.note,
                ),
                processed=tidy.get(figure.item),
                running=running.get(figure.item),
                truth=truths.get(figure.item),
                liars=figure.liars,
            )
            for figure in kept
        ]
        return shown, len(rows) - len(kept)

    def _processed(self, question: Question, part: read.Part) -> dict[str, float]:
        """Return shares as the nearest histogram; only a whole one can be projected."""
        if not isinstance(part, FrequencyEstimate):
            return {}
        values = project_simplex(part).value.tolist()
        return dict(zip(question.labels, values, strict=True))

    def _bins(self, place: int, enough: Sequence[Tally]) -> tuple[list[Bin], str]:
        """Return the fitted distribution; the last one while there are hardly more answers."""
        question, n = self._campaign.questions[place], sum(tally.n for tally in enough)
        if question.kind != "distribution" or not n:
            return [], ""
        before = self._fitted.get(place)
        if before is None or place == self._due:
            self._fitted.pop(place, None)  # it is the newest now
            rows = read.bins(question, enough)
            low, high = question.range
            width = (high - low) / max(len(rows), 1)
            bins = [
                Bin(low + i * width, low + (i + 1) * width, row.value) for i, row in enumerate(rows)
            ]
            before = self._fitted[place] = (n, bins, rows[0].note if rows else "")
        return before[1], before[2]

    def _next_fit(self, groups: Sequence[Sequence[Tally]]) -> int | None:
        """Return the attribute that was fitted longest ago, of those with more answers since."""
        for place, (fitted, _, _) in self._fitted.items():
            n = sum(tally.n for tally in groups[place])
            if not fitted <= n < GROWTH * fitted:
                return place
        return None

    def _levels(self, told: Mapping[str, int]) -> list[LevelState]:
        """Return the levels whose answers may be told."""
        levels = self._campaign.levels
        if levels is None:
            return []
        budgets = dict(zip(levels.names, levels.budgets(self._campaign.epsilon), strict=True))
        return [LevelState(name, float(budgets[name]), n) for name, n in told.items()]

    # --- what will come of it --------------------------------------------------------------------

    def _forecast(self, place: int, figures: Sequence[Shown], reports: int) -> Forecast:
        """Return the error at the planned number of people: it falls with the square root."""
        people, planned = self._campaign.terms.people, self._planned[place]
        errors = [
            figure.stderr
            for figure in figures
            if figure.item != ANSWERED and figure.stderr is not None
        ]
        if not errors:
            return Forecast(people, None, None, planned)
        now = math.sqrt(math.fsum(error**2 for error in errors) / len(errors))
        then = now * math.sqrt(reports / (people * self._each))
        return Forecast(people, then, normal_quantile(CONFIDENCE) * then, planned)

    def _worst_error(self, place: int) -> float:
        """Return what the plan allows for: the hardest crowd, at the strictest level."""
        question, share = self._campaign.questions[place], self._shares[place]
        people = self._campaign.terms.people
        return max(
            expected_stderr(law.answering(place), question, share, people)
            for law in self._campaign.laws_of(place)
        )

    @staticmethod
    def _lying(figures: Sequence[Shown]) -> Liars | None:
        """Return the most that liars move any of the figures; the share that answered is apart."""
        moves = [figure.liars for figure in figures if figure.item != ANSWERED]
        known = [move for move in moves if move is not None]
        return Liars(SHARE, max(known)) if known and len(known) == len(moves) else None

    # --- what was before -------------------------------------------------------------------------

    def _note(self, cards: Sequence[Card]) -> None:
        """Add this look to the trails."""
        for card in cards:
            if card.labels > MOST_TRAILS:
                continue
            for figure in card.figures:
                if figure.running is not None:
                    looks = self._trails.setdefault((card.name, figure.item), [])
                    if not looks or looks[-1].n != figure.running.n:
                        looks.append(figure.running)
                    if len(looks) > MOST_LOOKS:
                        looks[:] = [*looks[:-1:2], looks[-1]]


def _largest(rows: Sequence[Figure]) -> list[Figure]:
    """Return the share that answered, if it is there, and the largest of the others."""
    head = [row for row in rows if row.item == ANSWERED]
    ordered = sorted(rows[len(head) :], key=lambda row: -row.value)
    return [*head, *ordered[: select.TOP]]
