"""A campaign: what is asked, by which laws, and what people are told.

The laws are a `Frame`: one group of cells per attribute (one cell per level, if people choose
levels), or one cell for all attributes together. What affects a report is one JSON text, and its
digest is on every report.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from murmuration.audit import admission
from murmuration.campaign.form import ReportForm
from murmuration.campaign.kind import WIRE
from murmuration.campaign.levels import FREELY, Levels
from murmuration.campaign.periods import (
    EVERY,
    name_of,
    number_of,
    open_at,
    period_of,
)
from murmuration.campaign.question import Question
from murmuration.campaign.spells import Spells
from murmuration.campaign.table import Sides
from murmuration.campaign.terms import ONE_DEVICE, Terms
from murmuration.errors import InputError, ParameterError, PromiseError
from murmuration.exact.arrays import Rows
from murmuration.exact.exponential import within
from murmuration.exact.loss import Loss
from murmuration.exact.randomness import Rng, require_rng
from murmuration.mechanisms.base import Mechanism
from murmuration.mechanisms.domain import Box, Domain, described, table_columns
from murmuration.mechanisms.frame import Asked, Frame
from murmuration.mechanisms.registry import to_document
from murmuration.mechanisms.strategy import Strategy
from murmuration.mechanisms.tally import Tally

DEFAULTS = {
    **{"sample": 1, "ends": None, "levels": None, "chosen": FREELY},
    **{"limit": None, "accept_loss": None, "rounds": 1, "every": None},
    **{"first": None, "spell": None},
}
"""What settings are that are left out."""
MOST_ATTRIBUTES = 1000
SHOWN = 5
"""How many attributes a summary names."""


@dataclass(frozen=True)
class SurveyCampaign:
    """Questions and laws; all that a device, a collector and an analyst go by.

    name: what it is called, in addresses too
    terms: what people are told
    questions: the attributes
    frame: the laws, and which of them a report names
    epsilon: what one report may cost
    levels: the levels that people choose from, if any
    limit: the most that this campaign may ever cost one device; None: one report
    accept_loss: the sentence by which the operator accepts a broken promise
    max_reports: the most reports that one device sends: more than one only of permanent answers
    every: "day", "week" or "month": a report is about one, and a device sends one for each
    spells: the periods in which one permanent answer is said each, if values may change unseen
    """

    name: str
    terms: Terms
    questions: tuple[Question, ...]
    frame: Frame
    epsilon: float
    levels: Levels | None = None
    limit: float | None = None
    accept_loss: str | None = None
    max_reports: int = 1
    every: str | None = None
    spells: Spells | None = None

    kind = "survey"
    lasting = ()
    use = (
        "asks for figures, and trains no model: a device answers it with `report` (`murmur send` "
        "plays devices), `murmur estimate` reads it"
    )

    def __post_init__(self) -> None:
        d = len(self.questions)
        if not 0 < d <= MOST_ATTRIBUTES:
            raise ParameterError(f"a campaign has 1 to {MOST_ATTRIBUTES:,} attributes")
        if len({question.name for question in self.questions}) != d:
            raise ParameterError("two attributes have the same name")
        self._require_checks()
        self._require_tables()
        if self.limit is not None and not self.limit > 0:
            raise ParameterError(
                f"the limit, the most that a device may spend, must be above 0; got {self.limit!r}"
            )
        if self.terms.upload == ONE_DEVICE and self.max_reports > 1 and self.every is None:
            raise ParameterError(
                'with upload = "one-device" one report per token and period counts: a repeated '
                "question needs periods (set `every` under `[repeat]`)"
            )
        if self.max_reports < 1 or (self.max_reports > 1 and not self.repeated):
            raise ParameterError(
                "max_reports above 1 needs a repeated question: mechanisms with permanent answers"
            )
        if self.every is not None and (self.every not in EVERY or not self.repeated):
            raise ParameterError(
                f"every must be {', '.join(EVERY[:-1])} or {EVERY[-1]}, and needs a repeated "
                "question"
            )
        spells = self.spells
        if spells and (self.every is None or spells.periods != self.max_reports):
            raise ParameterError(
                "spells need periods (`every`), and max_reports is the number of their periods"
            )
        if self.spells is not None and self.levels is not None:
            raise ParameterError("spells take no levels: at each level a spell would begin anew")
        if self.max_reports > 1 and self.levels is not None and self.levels.by_lot:
            raise ParameterError(
                "levels by lot stay with a device, and would tell its reports of many periods from "
                "others': ask once, or let people choose"
            )
        if self.strategy.gathers and self.levels is not None:
            raise ParameterError("levels need a law for each attribute: sample or split")
        if self.strategy.gathers and any(question.missing for question in self.questions):
            raise ParameterError("missing answers need a law for each attribute: sample or split")
        per = 1 if self.levels is None else len(self.levels)
        groups = self.strategy.grouped(d)
        if [len(group) for group in self.frame.groups] != [per] * len(groups):
            raise ParameterError(
                f"this campaign has {len(groups)} groups of {per} cells; got "
                f"{len(self.frame.cells)} cells"
            )
        for group, attributes in zip(self.frame.groups, groups, strict=True):
            self._check_group(group, self._asked(attributes))

    def _require_checks(self) -> None:
        """Refuse a check of an attribute that there is not, or that may be missing otherwise."""
        checked = {question.name: question.missing for question in self.given}
        for question in self.questions:
            if question.checks and checked.pop(question.checks, None) != question.missing:
                raise ParameterError(
                    f"{question.name}: it checks one attribute of the campaign, once, and may be "
                    "missing where that one may"
                )

    def _require_tables(self) -> None:
        """Refuse tables whose figures could not be read, and such as are not of these attributes.

        Each person answers one question, once: what is asked of whom is then independent.
        """
        if not self.tables:
            return
        if self.strategy.gathers or self.strategy.entries(len(self.questions)) != 1:
            raise ParameterError(
                'tables need strategy = "sample", and one attribute or table for each person'
            )
        if self.max_reports > 1 or any(law.memoised for law in self.frame.cells):
            raise ParameterError("tables cannot be combined with [repeat]: ask them once")
        if self.levels is not None:
            raise ParameterError("tables cannot be combined with levels")
        for question, sides in self.tables.items():
            if sides.question() != question:
                raise ParameterError(f"{question.name}: this is no table of {question.of}")
        own = {name for sides in self.tables for name in sides.of}
        for place, question in enumerate(self.questions):
            if question.name in own and any(law.graded for law in self.laws_of(place)):
                raise ParameterError(
                    f"{question.name}: its answers have budgets of their own, which a table would "
                    "not keep: no table has it"
                )

    @cached_property
    def tables(self) -> dict[Question, Sides]:
        """The questions that are tables, each with its two attributes."""
        return {one: Sides.of(one, self.given) for one in self.questions if one.of}

    def _asked(self, attributes: tuple[int, ...]) -> Domain:
        """Return the domain of what a group of attributes asks."""
        if self.strategy.gathers:
            return Box(tuple(self.questions[place].k or 0 for place in attributes))
        return self.questions[attributes[0]].domain

    def _check_group(self, group: tuple[Mechanism, ...], asked: Domain) -> None:
        """Refuse a law that is not for all answers of its question.

        A device would refuse some answers of such a question only, and its silence tell which.
        """
        for law in group:
            if not law.domain.fits(asked):
                raise ParameterError(f"{law.name} does not take the answers of this attribute")

    # --- what it is -----------------------------------------------------------------------------

    @property
    def given(self) -> tuple[Question, ...]:
        """The questions that people answer; devices answer the others, from these answers."""
        return tuple(question for question in self.questions if not question.derived)

    @property
    def strategy(self) -> Strategy:
        """Which attributes a report is about."""
        return self.frame.strategy

    @property
    def summary(self) -> str:
        """What it asks of whom, in one sentence without its name."""
        names = [question.name for question in self.given[:SHOWN]]
        more = f" and {len(self.given) - SHOWN} more" if len(self.given) > SHOWN else ""
        more += f" ({len(self.tables)} of two together)" if self.tables else ""
        again = f", again each {self.every}" if self.every else ""
        return f"asks {self.terms.people:,} people about {', '.join(names)}{more}{again}"

    @cached_property
    def text(self) -> str:
        """Everything that affects a report, as JSON: what is published and what is digested.

        Keys at their default are left out: a key that is added later changes no digest. There is
        one form only: a document that is written otherwise is refused.
        """
        return json.dumps(self._collection(), separators=(",", ":"), allow_nan=False)

    def _collection(self) -> dict[str, Any]:
        levels = self.levels and dict(zip(self.levels.names, self.levels.factors, strict=True))
        settings = {
            **self.strategy.settings(),
            "levels": levels,
            "chosen": self.levels.chosen if self.levels else FREELY,
            "limit": self.limit,
            "accept_loss": self.accept_loss,
            "rounds": self.max_reports,
            "every": self.every,
            "first": self.spells and self.spells.first,
            "spell": self.spells and self.spells.length,
        }
        return {
            "wire": WIRE,
            "campaign": self.name,
            "epsilon": self.epsilon,
            **{key: value for key, value in settings.items() if value != DEFAULTS.get(key, key)},
            "attributes": [unusual(question) for question in self.questions],
            "cells": self._cells(),
        }

    def _cells(self) -> list[dict[str, Any]]:
        """Return each law with the attributes that it answers and the level that it is for."""
        groups = zip(self.strategy.grouped(len(self.questions)), self.frame.groups, strict=True)
        return [
            {
                "attributes": attributes,
                **({} if self.levels is None else {"level": level}),
                **to_document(law),
            }
            for attributes, group in groups
            for level, law in enumerate(group)
        ]

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the text. It is on every report: another campaign's report is refused."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def repeated(self) -> bool:
        """Whether the question may be asked again: its answers are permanent ones with noise."""
        return all(law.memoised for law in self.frame.cells)

    @property
    def can_say_none(self) -> bool:
        """Whether "no answer" can take the place of any answer.

        A device without budget says that, so that a report tells whether there was any by at most
        its epsilon. Otherwise the device is silent, and that can be seen.
        """
        return all(question.missing for question in self.questions)

    @property
    def prepays_none(self) -> bool:
        """Whether the first report also pays for "no answer", to be said once values run out.

        With spells nobody runs out by the values that they have.
        """
        return self.repeated and self.spells is None and self.can_say_none

    def laws_of(self, attribute: int) -> tuple[Mechanism, ...]:
        """Return an attribute's laws, one per level; the one law of all of them, if that is so."""
        return self.frame.groups[0 if self.strategy.gathers else attribute]

    def with_terms(self, terms: Terms) -> SurveyCampaign:
        """Return this campaign with other terms: what affects a report stays the same text."""
        changed = replace(self, terms=terms)
        changed.__dict__["text"] = self.text
        return changed

    # --- auditor ---------------------------------------------------------------------------------

    def loss(self, level: int | None = None) -> Loss:
        """Return the exact loss of one report, at a level or at the most open one."""
        return self._loss if level is None else self.frame.loss(self.epsilon, level)

    @cached_property
    def _loss(self) -> Loss:
        return self.frame.loss(self.epsilon)

    def admitted(self) -> SurveyCampaign:
        """Return this campaign with laws that may be sent, or refuse it with the numbers.

        Every law keeps its own budget, or its loss is accepted in words; all entries of a report
        together keep epsilon, and at each level that level's part of it.
        """
        if self.accept_loss is not None and not any(law.broken for law in self.frame.cells):
            raise PromiseError("accept_loss is for a mechanism that breaks its promise: none does")
        groups = tuple(tuple(map(self._admitted, group)) for group in self.frame.groups)
        parts = self.levels.budgets(self.epsilon) if self.levels else ()
        for level, promised in [(None, self.epsilon), *enumerate(parts)]:
            if self.accept_loss is None:
                self._require_kept(self.loss(level), promised)
            elif self.frame.budget(level) > Fraction(promised):
                # What was accepted is about single laws: budgets, kept or not, must add up.
                raise PromiseError(
                    f"{self.name}: the budgets of a report's entries come to more than {promised!r}"
                )
        return replace(self, frame=replace(self.frame, groups=groups))

    def _admitted(self, law: Mechanism) -> Mechanism:
        return admission.admit(law, self.accept_loss if law.broken else None)

    def _require_kept(self, loss: Loss, promised: float) -> None:
        if loss.ratio is None or not within(loss.ratio, promised):
            raise PromiseError(
                f"{self.name}: a report costs {loss.epsilon!r} where {promised!r} is promised"
            )

    @property
    def charge(self) -> float:
        """What a device's ledger is charged for one report, at most."""
        return math.fsum(law.charge for law in self.costliest())

    def costliest(self, size: Callable[[Mechanism], float] | None = None) -> list[Mechanism]:
        """Return the laws that one report can name at worst, by what they are charged."""
        by = size or (lambda law: law.charge)
        return self.strategy.costliest([max(group, key=by) for group in self.frame.groups], by)

    # --- device ----------------------------------------------------------------------------------

    def encode(
        self,
        answers: Any,
        rng: Rng | Mapping[str, Rng],
        never_silent: bool = False,
    ) -> list[NDArray[np.generic]]:
        """Return one column per attribute from answers by name.

        Answers are a mapping, a DataFrame (pandas, polars) or an Arrow table. Where answers may be
        missing (`Question.missing`), a name that is left out, or None for all of a column, is no
        answer of anybody; elsewhere it is refused. `rng` draws labels for answers that are none;
        or there is one for each attribute's name. `never_silent`: answers that a question would
        refuse count by its other rule.
        """
        return encoded(self.questions, answers, rng, never_silent)

    def privatize(
        self,
        columns: Sequence[NDArray[np.generic]],
        rng: Rng,
        levels: ArrayLike | None = None,
        period: int | None = None,
    ) -> Rows:
        """DEVICE. Turn encoded columns into reports, one row of bytes per person.

        `period` is the number of the one that they are about, where there are periods; now, unless
        told otherwise.
        """
        picked = self.picked(levels, len(columns[0]))
        rows = self.frame.privatize(self._grouped(columns), require_rng(rng), picked)
        return self.form.dated(rows, self.period_at(utc_now()) if period is None else period)

    def asked(
        self,
        columns: Sequence[NDArray[np.generic]],
        rng: Rng,
        levels: ArrayLike | None = None,
    ) -> Iterator[Asked]:
        """DEVICE. Draw who answers what, for a device that answers some cells in its own way."""
        picked = self.picked(levels, len(columns[0]))
        return self.frame.asked(self._grouped(columns), require_rng(rng), picked)

    def _grouped(self, columns: Sequence[NDArray[np.generic]]) -> list[Any]:
        """Return the values of each group."""
        return [list(columns)] if self.strategy.gathers else list(columns)

    def picked(self, levels: ArrayLike | None, people: int) -> NDArray[np.int64] | None:
        """DEVICE. Return the level of each person and question as a number; None without.

        Levels are one for each attribute that people answer: a check has that of what it checks.
        """
        if self.levels is None:
            if levels is not None:
                raise InputError("this campaign offers no levels")
            return None
        if levels is None:
            raise InputError(f"each person picks a level: {', '.join(self.levels.names)}")
        names = [question.name for question in self.given]
        places = [names.index(question.checks or question.name) for question in self.questions]
        return self.levels.picked(levels, people, len(names))[:, places]

    # --- collector -------------------------------------------------------------------------------

    @cached_property
    def form(self) -> ReportForm:
        """What its reports are made for."""
        return ReportForm(self.name, self.digest, self.frame, self.every)

    def tally(self, rows: Rows) -> tuple[Tally, ...]:
        """COLLECTOR. Count reports, of all periods together: one tally per cell.

        Refuses what no device can have sent.
        """
        return self.form.tally(rows)

    # --- periods ---------------------------------------------------------------------------------

    def period_at(self, moment: datetime) -> int | None:
        """Return the period that a moment lies in; None where there are none."""
        return None if self.every is None else period_of(self.every, moment)

    def period_named(self, text: str) -> int:
        """Return the number of a period by its name, or by a date in it."""
        return number_of(self._every(), text)

    def name_of(self, period: int) -> str:
        """Return the name of a period."""
        return name_of(self._every(), period)

    def open_periods(self, now: datetime) -> range:
        """Return the periods of which reports are taken at that time; 0 where there are none."""
        if self.every is None:
            return range(1)
        open_now = open_at(self.every, now, self.terms.opens, self.terms.grace)
        if self.spells is None:
            return open_now
        return range(
            max(open_now.start, self.spells.first), min(open_now.stop, self.spells.last + 1)
        )

    def spell_of(self, period: int | None) -> int | None:
        """Return the spell that a period is in; None where there are none."""
        if self.spells is None or period is None:
            return None
        spell = self.spells.of(period)
        if spell is None:
            raise ParameterError(
                f"{self.name} runs from {self.name_of(self.spells.first)} to "
                f"{self.name_of(self.spells.last)}: {self.name_of(period)} is outside"
            )
        return spell

    def _every(self) -> str:
        if self.every is None:
            raise ParameterError(
                f"{self.name} has no periods: set `every` under `[repeat]` in its file"
            )
        return self.every

    # --- analyst ---------------------------------------------------------------------------------

    def people(self, tallies: Sequence[Tally]) -> int:
        """Return how many people sent them; where a person sends several, at least how many."""
        return -(-self.frame.reports(tallies) // self.max_reports)


def encoded(
    questions: Sequence[Question],
    answers: Any,
    rng: Rng | Mapping[str, Rng],
    never_silent: bool = False,
) -> list[NDArray[np.generic]]:
    """Return one column per question from answers by name: see `Campaign.encode`."""
    if (named := table_columns(answers)) is None:
        raise InputError(
            f"answers must be a mapping by name, or a DataFrame; got {described(answers)}"
        )
    answers = dict(named)
    names = [question.name for question in questions if not question.derived]
    given = {name: column for name, column in answers.items() if column is not None}
    people_answer = [q for q in questions if not q.derived]
    if missing := [q.name for q in people_answer if q.name not in given and not q.missing]:
        raise InputError(
            f"no answer for {', '.join(missing)}. Nothing was sent. (If an answer may "
            "be missing, set missing = true in the campaign file.)"
        )
    if unknown := [name for name in answers if name not in names]:
        raise InputError(
            f"the campaign has no attribute {', '.join(map(str, unknown))}. Nothing was sent."
        )
    asked = [q.never_silent() if never_silent else q for q in people_answer]
    given_columns = {
        q.name: q.encode(given[q.name], rng if isinstance(rng, Rng) else rng[q.name])
        for q in asked
        if q.name in given
    }
    people = {len(column) for column in given_columns.values()} or {1}
    if len(people) != 1:
        raise InputError("all columns must have the same length, one row per person")
    by_name = {q.name: q for q in people_answer}
    for check in [q for q in questions if q.checks in given]:
        given_columns[check.name] = by_name[check.checks].fitted(given[check.checks])
    open_ones = [q for q in questions if q.name not in given_columns and not q.of]
    columns = given_columns | {q.name: q.no_answers(*people) for q in open_ones}
    for table in [q for q in questions if q.of]:
        sides = Sides.of(table, people_answer)
        columns[table.name] = sides.cells(*(columns[name] for name in table.of))
    return [columns[question.name] for question in questions]


def unusual(question: Question) -> dict[str, Any]:
    """Return a question's fields that are not at their default; of a table no labels.

    They are made of those of its attributes.
    """
    fields = dataclasses.fields(question)
    pairs = ((field, getattr(question, field.name)) for field in fields)
    made = ("labels", "outside") if question.of else ()
    return {
        field.name: value
        for field, value in pairs
        if value != field.default and field.name not in made
    }


def utc_now() -> datetime:
    """Return the time, with its zone."""
    return datetime.now(UTC)
