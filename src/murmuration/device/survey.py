"""What a device says in a survey: one report, drawn by its words, and what is charged for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from murmuration.campaign.kind import Campaign
from murmuration.campaign.survey import SurveyCampaign
from murmuration.device.costs import Cost, exact_cost
from murmuration.device.misfits import Misfit
from murmuration.device.record import Charge, Memo, Record
from murmuration.device.words import DeviceWords, answered, as_octets, owned, remembered
from murmuration.exact.arrays import Reports, Rows
from murmuration.mechanisms.base import Mechanism
from murmuration.mechanisms.frame import Asked
from murmuration.wire import report

Columns = list[NDArray[np.generic]]
"""One person's encoded answers, a column of one value for each attribute."""
Levels = list[list[str]] | None
"""The level of each attribute, as `SurveyCampaign.privatize` takes them."""


def most_of(campaign: Campaign) -> Cost:
    """Return the most that one report can cost: the costliest cells that it may have."""
    return cost_of(campaign, campaign.costliest())


def cost_of(campaign: Campaign, laws: Sequence[Mechanism]) -> Cost:
    """Add up costs, in the decimals that the record goes by.

    All entries of a report together were audited to keep the campaign's epsilon, so what decimals
    add to that in the last digit is no cost.
    """
    total: Cost = sum((exact_cost(law.charge) for law in laws), start=Fraction(0))
    if campaign.accept_loss or any(law.memoised for law in laws):
        return total
    return min(total, exact_cost(campaign.epsilon))


def limit_of(campaign: SurveyCampaign) -> Cost | None:
    """Return the most that a campaign may cost in all: its own limit, or one report's."""
    if campaign.limit is not None:
        return campaign.limit
    most = most_of(campaign)
    return most if isinstance(most, Fraction) else None  # an infinite loss, said in words


def aside_of(campaign: SurveyCampaign) -> Cost | None:
    """Return what a device sets aside at first contact, for all reports of a question.

    A device that runs out in the middle is silent, and what it has spent elsewhere decides when: so
    it takes part only if its limits hold all reports. Where "no answer" is paid for with the first
    report, nothing needs to be set aside.
    """
    if campaign.max_reports == 1 or campaign.prepays_none:
        return None
    return limit_of(campaign)


@dataclass(frozen=True)
class SurveyReport:
    """The report of one person about one period: what is sent follows from the words.

    record: where the answers that spells began with are kept
    turn: the name of the period; empty where a question is asked once
    misfits: answers that do not fit: they are counted in the record
    """

    campaign: SurveyCampaign
    words: DeviceWords
    record: Record
    turn: str
    misfits: tuple[Misfit, ...] = ()

    @property
    def period(self) -> int | None:
        """The number of the period; None where there are none."""
        campaign = self.campaign
        return None if campaign.every is None else campaign.period_named(self.turn)

    def charge(self, columns: Columns, levels: Levels) -> Charge:
        """Draw the report of these answers, and say what is to be charged for it."""
        campaign, words = self.campaign, self.words
        rows, memos = self.drawn(columns, levels)
        report_id = words.report_id(self.turn)
        name = np.frombuffer(report_id, dtype=np.uint8)[None]
        return Charge(
            origin=words.origin,
            campaign=campaign.name,
            digest=campaign.digest,
            purpose=campaign.terms.purpose,
            cost=self._cost(rows),
            report=report.to_json(campaign.form, name, rows),
            report_id=report_id,
            period=self.turn,
            memos=memos,
            limit=limit_of(campaign),
            max_reports=campaign.max_reports,
            aside=aside_of(campaign),
            misfits=[(misfit.attribute, misfit.reason) for misfit in self.misfits],
        )

    def no_answers(self) -> Columns:
        """Return the answers of a person who has none."""
        return [question.no_answers(1) for question in self.campaign.questions]

    def without_budget(self, levels: Levels) -> Charge:
        """Draw "no answer", and charge nothing for it: it is the same whatever the answers are.

        It tells nothing of them. That there is no budget it tells as any answer is told.
        """
        charge = self.charge(self.no_answers(), levels)
        free = [replace(memo, cost=Fraction(0)) for memo in charge.memos if memo.answer is not None]
        return replace(charge, cost=Fraction(0), memos=free, limit=None, aside=None)

    def drawn(self, columns: Columns, levels: Levels) -> tuple[Rows, list[Memo]]:
        """Draw one report, and say which permanent answers it rests on."""
        words, frame = self.words, self.campaign.frame
        period = self.period
        spell = self.campaign.spell_of(period)
        memos: list[Memo] = []
        answers = []
        for asked in self.campaign.asked(columns, words.which(self.turn), levels):
            law, kept = frame.cells[asked.cell], None
            if law.memoised:
                kept, fresh = self._remembered(asked, law, spell)
                memos += fresh
            answers.append((asked, answered(asked, law, words, self.turn, kept, spell)))
        rows = self.campaign.form.dated(frame.laid_out(answers), period)
        return rows, [*memos, *self._prepaid()]

    def _remembered(
        self, asked: Asked, law: Mechanism, spell: int | None
    ) -> tuple[Reports | None, list[Memo]]:
        """Return the permanent answer, if it is kept, and what is to be paid for it.

        In a spell the answer is what the spell began with: kept, as it does not follow from the
        value that there is now.
        """
        if spell is None:
            return None, [self._memo(asked.cell, law, asked.values)]
        words = self.words
        name = words.kept(asked.cell, spell)
        if (hidden := self.record.kept(name)) is not None:
            octets = words.shown(asked.cell, spell, hidden)
            return np.frombuffer(octets, dtype="<i8"), []
        begun = remembered(asked, law, words, spell)
        octets = words.hidden(asked.cell, spell, as_octets(begun).tobytes())
        return begun, [Memo(name, law.charge, octets)]

    def _prepaid(self) -> list[Memo]:
        """Return the permanent "no answer" of every cell: paid for with the first report.

        So it can be said for good when nothing else can be, at any level: each is one answer, drawn
        once.
        """
        if not self.campaign.prepays_none:
            return []
        frame, none = self.campaign.frame, self.no_answers()
        cells = zip(frame.group_of.tolist(), frame.cells, strict=True)
        return [self._memo(cell, law, none[group]) for cell, (group, law) in enumerate(cells)]

    def _memo(self, cell: int, law: Mechanism, values: NDArray[np.generic]) -> Memo:
        """Return what the record notes of a permanent answer that follows from key and value."""
        written = law.domain.written(law.domain.checked(values))
        return Memo(self.words.paid(cell, owned(law, written)), law.charge)

    def _cost(self, rows: Rows) -> Cost:
        """Return what a report costs besides its permanent answers."""
        named = [entry[0] for entry in report.entries_of(self.campaign.form, rows[0])]
        laws = [self.campaign.frame.cells[cell] for cell in named]
        return cost_of(self.campaign, [law for law in laws if not law.memoised])
