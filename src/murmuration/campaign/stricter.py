"""Reports for people who may see less: each is made to tell less, by laws that are audited.

A campaign's reports tell up to epsilon. An analyst with less clearance gets the same reports after
a conversion: every entry is kept or replaced by a blank one (`mechanisms.item.converted`,
`mechanisms.number.converted_number`). The laws after that are a campaign of their own, with its own
digest, that can be audited, counted and read as any other.

What decides is a secret of the collector, the report's id, and the step of the chain. So the same
report is converted in the same way each time, and by every collector that shares the secret; and
conversions to 0.5 and to 0.25 tell no more together than the one to 0.5, of which the other is
made. Ids are new, so that reports cannot be joined with those of another export.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from murmuration.campaign.levels import Levels
from murmuration.campaign.survey import SurveyCampaign
from murmuration.errors import ParameterError
from murmuration.exact.arrays import Rows
from murmuration.exact.keyed import Key, Keys
from murmuration.mechanisms.base import Mechanism
from murmuration.mechanisms.chain import step_below, way_down

ID_BYTES = 16
PURPOSE = "reports that tell less"


@dataclass(frozen=True)
class Stricter:
    """The conversion of a campaign's reports."""

    campaign: SurveyCampaign
    step: float
    """What a report tells at most after the conversion."""

    @classmethod
    def at_most(cls, campaign: SurveyCampaign, epsilon: float) -> Stricter:
        """Return the conversion to the largest step of the chain that is not above epsilon."""
        step = step_below(epsilon)
        if campaign.accept_loss is not None:
            raise ParameterError(
                f"{campaign.name} has a law whose loss is above its budget: its reports cannot be "
                "converted to a smaller one"
            )
        if campaign.repeated:
            raise ParameterError(
                f"{campaign.name} asks again, and all reports of a person share an answer that is "
                "kept: single reports that tell less would say the same of it all together"
            )
        if any(law.graded for law in campaign.frame.cells):
            raise ParameterError(
                f"{campaign.name} has ranges or labels with budgets of their own: its reports "
                "cannot be converted to one that is smaller"
            )
        if max(budgets_of(campaign)) <= step:
            raise ParameterError(
                f"reports of {campaign.name} tell {max(budgets_of(campaign)):g} at most: export "
                "them as they are"
            )
        found = cls(campaign, step)
        _ = found.converted
        return found

    @cached_property
    def converted(self) -> SurveyCampaign:
        """The campaign of the converted reports: the same questions, other laws, another digest."""
        campaign, levels = self.campaign, self.campaign.levels
        if levels is not None:
            factors = tuple(_factor(min(own, self.step), self.step) for own in budgets_of(campaign))
            levels = Levels(levels.names, factors, levels.chosen)
        groups = tuple(
            tuple(self._law(law, level) for level, law in enumerate(group))
            for group in campaign.frame.groups
        )
        frame = replace(campaign.frame, groups=groups)
        made = replace(campaign, frame=frame, epsilon=self.step, levels=levels, limit=None)
        return made.admitted()

    def _law(self, law: Mechanism, level: int) -> Mechanism:
        """Return the law of the reports of a cell after the conversion."""
        way = self._ways[level]
        if len(way) == 1:
            return law
        return law.stricter((law.epsilon, *(_part(law, one, way[0]) for one in way[1:])))

    @cached_property
    def _ways(self) -> list[tuple[float, ...]]:
        """What a report at each level tells, and after each step."""
        return [way_down(own, min(own, self.step)) for own in budgets_of(self.campaign)]

    def reports(self, secret: bytes, ids: Rows, rows: Rows) -> tuple[Rows, Rows]:
        """COLLECTOR. Return new ids and converted reports."""
        keys = Key(secret).each(PURPOSE, self.campaign.digest, ids)
        step = min(law.people_per_pass for law in self.converted.frame.cells)
        some = [slice(start, start + step) for start in range(0, len(ids), step)]
        made = [self._rows(keys.only(who), rows[who]) for who in some]
        return keys.name("id", self.converted.digest)[:, :ID_BYTES], np.concatenate(made)

    def _rows(self, keys: Keys, rows: Rows) -> Rows:
        """Convert each entry of some reports, by the words that follow from their ids."""
        frame, converted = self.campaign.frame, self.converted.frame
        levels = 1 if self.campaign.levels is None else len(self.campaign.levels)
        made, start = rows.copy(), self.campaign.form.head_bytes + frame.index_bytes
        for entry, (numbers, octets) in enumerate(frame.entries(rows)):
            for cell in np.unique(numbers).tolist():
                way, law = self._ways[cell % levels], converted.cells[cell]
                who, width = np.flatnonzero(numbers == cell), law.report_bytes
                reports = law.from_rows(octets[who, :width])
                for place, step in enumerate(way[1:]):
                    rng = keys.only(who).rng("step", repr(step), str(entry))
                    reports = law.convert(reports, place, rng)
                made[who, start : start + width] = law.to_rows(reports)
            start += frame.widths[entry]
        return made


def budgets_of(campaign: SurveyCampaign) -> tuple[float, ...]:
    """Return what a report at each level may tell."""
    if campaign.levels is None:
        return (campaign.epsilon,)
    return campaign.levels.budgets(campaign.epsilon)


def _part(law: Mechanism, step: float, whole: float) -> float:
    """Return what an entry may tell after a step: its part of the whole, rounded down."""
    exact = Fraction(law.epsilon) * Fraction(step) / Fraction(whole)
    part = float(exact)
    return part if Fraction(part) <= exact else math.nextafter(part, 0.0)


def _factor(own: float, whole: float) -> float:
    """Return the factor of a level, large enough that the level keeps what it had."""
    factor = own / whole
    while Levels(("one",), (factor,)).budgets(whole)[0] < own:
        factor = math.nextafter(factor, 1.0)
    return factor
