"""Campaigns that ask for figures, at the collector: each of their reports is counted once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from murmuration.campaign.alarms import warnings_by_period
from murmuration.campaign.form import ByPeriod, ReportForm
from murmuration.campaign.survey import SurveyCampaign, utc_now
from murmuration.collector.access.participants import counts_once
from murmuration.collector.merging.known import known
from murmuration.collector.served import Served, Sink
from murmuration.collector.shown import show, show_counted, shown
from murmuration.collector.status import HOUR, Arrived, PeriodArrived, Status
from murmuration.collector.store import Store
from murmuration.collector.store.runs import picked
from murmuration.counting.cohort import enough, needed, told
from murmuration.counting.periods import least_people, pooled
from murmuration.exact.arrays import Ints
from murmuration.mechanisms.tally import Tally
from murmuration.wire.ids import in_order
from murmuration.wire.report import CODES, FINE, Codes, Upload, copy_first_outcome

DUPLICATE = CODES["duplicate"]


@dataclass(frozen=True)
class ServedSurvey(Served[SurveyCampaign]):
    """A campaign that asks for figures: all uploads are for the campaign itself."""

    number = 0
    outdated = "superseded"

    def intake(self, store: Store, digest: str = "") -> ServedSurvey:
        """All uploads are for the campaign: its own digest, or they are refused."""
        del store, digest
        return self

    def keys_of_older(self, store: Store) -> list[int]:
        """Each version has a number of its own."""
        return [key for digest in self.older if (key := store.key_of(digest)) is not None]

    def resume(self, store: Store) -> None:
        """Show what is due now: the cohort may be another one since."""
        show(store, self.key, self.campaign)

    @property
    def form(self) -> ReportForm:
        """What reports are made for."""
        return self.campaign.form

    # --- counting --------------------------------------------------------------------------------

    def take(
        self, store: Store, upload: Upload, tokens: Sequence[bytes], reports: Sink | None
    ) -> Codes:
        """Store a campaign's reports and add them to its tallies; return all problems."""
        problems, ids, rows = upload.problems.copy(), upload.ids, upload.rows
        fine = np.flatnonzero(problems == FINE)
        order, first = in_order(ids)
        chosen = order[first]
        if tokens:
            chosen, refused = self._once(store, tokens, upload, chosen)
            for reason, which in refused.items():
                problems[fine[which]] = CODES[reason]
        elsewhere = reports is not None
        kept = rows if self.campaign.terms.keep_reports and not elsewhere else rows[:, :0]
        mine = picked(ids, chosen), picked(kept, chosen)
        new = chosen[store.add_reports(self.key, *mine, elsewhere=elsewhere)]
        counted = picked(rows, new)
        tallies = self.form.tallies(counted)
        store.add_tallies(self.key, tallies)
        show_counted(store, self.key, self.campaign, tallies)
        if reports is not None:
            reports.add(self.campaign.digest, picked(ids, new), counted)
        if len(new):
            store.note_hour(self.key)
        again = problems[fine] == FINE
        again[new] = False
        problems[fine[again]] = DUPLICATE
        problems[fine] = copy_first_outcome(problems[fine], order, first)
        return problems

    def _once(
        self, store: Store, tokens: Sequence[bytes], upload: Upload, chosen: Ints
    ) -> tuple[Ints, dict[str, Ints]]:
        """Leave the first report of each token in each period; say why others are refused.

        One that is stored already is a duplicate, and uses nothing up.
        """
        known = store.known_reports(self.key, picked(upload.ids, chosen))
        arrived = np.sort(chosen[~known])  # in this order: the first one counts
        campaign = self.campaign
        periods = np.zeros(len(arrived), dtype=np.int64)
        if campaign.every is not None:
            periods = self.form.periods_of(upload.rows[arrived])
        mine = [tokens[place] for place in arrived.tolist()]
        first, closed = counts_once(store, self.key, mine, periods)
        late = "outside-window" if campaign.every is None else "wrong-period"
        kept = np.zeros(len(upload.ids), dtype=bool)
        kept[arrived[first]] = True
        refused = {late: arrived[closed], "token-used": arrived[~first & ~closed]}
        return chosen[kept[chosen]], refused

    # --- what has arrived ------------------------------------------------------------------------

    def status(self, store: Store) -> Status:
        """Return what has arrived, what became of it, and whether the books balance."""
        campaign = self.campaign
        with store.snapshot():
            counts, books = store.counts(campaign.name), known(store, campaign)
            figures, hour = shown(store, campaign), store.last_hour(campaign.digest)
        by_period = books.by_period()
        tallies, now = pooled(campaign, by_period), utc_now()
        in_figures = pooled(campaign, figures)
        last, whole = in_figures, tallies
        if campaign.every and figures:
            last, whole = (some[max(figures)] for some in (figures, by_period))
        received = counts.pop("received", 0)
        return Status(
            campaign=campaign.name,
            version=self.version,
            digest=campaign.digest,
            open=campaign.terms.accepts(now),
            cohort=campaign.terms.cohort,
            people_expected=campaign.terms.people,
            received=received,
            outcomes=counts,
            balanced=received == sum(counts.values()),
            merged_collectors=sum(not books.is_whole(name) for name in books.counted),
            people=least_people(campaign, by_period),
            collector=books.mine,
            attributes=_arrived(campaign, last, whole),
            last_report=hour.strftime(HOUR) if hour else "",
            warnings=warnings_by_period(campaign, figures, by_period),
            reports=campaign.frame.reports(tallies),
            waiting=max(0, campaign.frame.reports(tallies) - campaign.frame.reports(in_figures)),
            periods=_periods(campaign, by_period, figures, now),
        )


def _periods(
    campaign: SurveyCampaign, by_period: ByPeriod, figures: ByPeriod, now: datetime
) -> list[PeriodArrived]:
    if campaign.every is None:
        return []
    taken = campaign.open_periods(now) if campaign.terms.accepts(now) else range(0)
    frame, least = campaign.frame, needed(campaign)
    return [
        PeriodArrived(
            campaign.name_of(period),
            frame.reports(enough(figures[period], least)) if period in figures else 0,
            period in taken,
        )
        for period in by_period
    ]


def _arrived(
    campaign: SurveyCampaign, shown: Sequence[Tally], counted: Sequence[Tally]
) -> list[Arrived]:
    """Return the answers to each attribute that are shown, level by level."""
    groups, whole = campaign.frame.by_group(shown), campaign.frame.by_group(counted)
    if campaign.strategy.gathers:
        groups, whole = (some * len(campaign.questions) for some in (groups, whole))
    least = needed(campaign)
    return [
        Arrived(
            *(question.name, sum(tally.n for tally in enough(own, least)), least),
            levels=_levels(campaign, own, sum(tally.n for tally in every)),
        )
        for question, own, every in zip(campaign.questions, groups, whole, strict=True)
    ]


def _levels(campaign: SurveyCampaign, own: Sequence[Tally], whole: int) -> dict[str, int]:
    """Return the answers at each level that may be told, of `whole` to an attribute in all."""
    if campaign.levels is None:
        return {}
    counts = told([tally.n for tally in own], whole, needed(campaign))
    names = zip(campaign.levels.names, counts, strict=True)
    return {name: n for name, n in names if n is not None}
