"""A campaign: what is asked, by which laws, and what a report of it looks like.

Every law of a campaign is a *cell*: an attribute (at a level, if people choose levels) and its
mechanism, or all attributes together and one mechanism for tuples. A report is a few *entries*,
each the number of a cell and that mechanism's own report; a collector keeps one tally a cell.
Which cells a report may name is the campaign's *strategy*:

    sample    each person answers a few attributes (one, unless told otherwise), drawn by a public
              coin that looks at nothing, with all of epsilon
    split     everybody answers everything; epsilon is shared out
    together  everybody answers everything in one entry, by a mechanism for tuples

Reports are rows of bytes of one length: for each entry the cell's number, the cell's report, and
zeros up to the longest that the entry can be. So no length depends on a value.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from murmuration.analysis import combine
from murmuration.audit import admission
from murmuration.campaign.levels import Levels, of_all
from murmuration.campaign.question import Figure, Part, Question
from murmuration.errors import EmptyError, InputError, MismatchError, ParameterError, PromiseError
from murmuration.exact.arrays import Ints
from murmuration.exact.exponential import log_above, within
from murmuration.exact.loss import Loss
from murmuration.exact.randomness import Rng, drawn, require_rng, uniform
from murmuration.mechanisms.base import Mechanism, checked_rows
from murmuration.mechanisms.item.base import FrequencyMechanism
from murmuration.mechanisms.item.memoised import Memoised
from murmuration.mechanisms.number.base import NumericMechanism
from murmuration.mechanisms.packing import unpack_rows
from murmuration.mechanisms.registry import publish
from murmuration.mechanisms.tally import Tally
from murmuration.mechanisms.vector.base import TupleMechanism, part_of_all
from murmuration.mechanisms.vector.privunit import PrivUnit
from murmuration.results.estimate import About, FrequencyEstimate, TupleEstimate

WIRE = 1
"""The version of the report format, on every report."""
STRATEGIES = ("sample", "split", "together")
MOST_CELLS = 1 << 16
MOST_ATTRIBUTES = 1000
LEAST_COHORT, COHORT = 100, 1000

Rows = NDArray[np.uint8]
Mask = NDArray[np.bool_]
Answer = Callable[["Cell", NDArray[np.generic]], bytes]
"""How a cell's values become packed reports; the device keeps permanent answers this way."""


@dataclass(frozen=True)
class Cell:
    """One law: the attributes it answers, the level it is for, and the mechanism."""

    attributes: tuple[int, ...]
    level: int | None
    mechanism: Mechanism

    @cached_property
    def cost(self) -> float:
        """What an entry of this cell costs a person: its budget, or more if the loss is more.

        A permanent answer costs what any number of reports on it can tell.
        """
        if isinstance(self.mechanism, Memoised):
            return self.mechanism.permanent
        return max(self.mechanism.budget, self.mechanism.loss().epsilon)


@dataclass(frozen=True)
class Terms:
    """What people are told, and what the collector goes by; nothing here changes a report."""

    purpose: str
    people: int = 100_000
    opens: datetime | None = None
    closes: datetime | None = None
    cohort: int = COHORT
    """Nothing is shown about fewer people than that."""
    keep_reports: bool = True
    """Whether the collector keeps reports after counting them."""
    upload: str = "open"
    """"open", or "token": devices need one."""

    def __post_init__(self) -> None:
        zones = all(m is None or m.tzinfo is not None for m in (self.opens, self.closes))
        sane = self.cohort >= LEAST_COHORT and 1 <= self.people < 1 << 40
        if not zones or not sane or self.upload not in ("open", "token"):
            raise ParameterError(
                f"a campaign's times have a zone, its cohort is {LEAST_COHORT} or more, people 1 "
                'or more, and uploads are "open" or by "token"'
            )

    def accepts(self, now: datetime) -> bool:
        """Whether reports are accepted at that time."""
        started = self.opens is None or self.opens <= now
        return started and (self.closes is None or now < self.closes)


@dataclass(frozen=True)
class Campaign:
    """Questions, cells and strategy; all that a device, a collector and an analyst go by."""

    name: str
    terms: Terms
    questions: tuple[Question, ...]
    cells: tuple[Cell, ...]
    epsilon: float
    strategy: str = "sample"
    sample: int = 1
    ends: tuple[int, ...] | None = None
    """How often each attribute is asked, as cumulative weights out of 2^52; None: all alike."""
    levels: Levels | None = None
    limit: float | None = None
    """The most that this campaign may ever cost one device; None: one report."""
    accept_loss: str | None = None
    rounds: int = 1
    """The most reports that one device sends: more than one only of permanent answers."""

    def __post_init__(self) -> None:
        if self.strategy not in STRATEGIES:
            raise ParameterError(f"a strategy is {', '.join(STRATEGIES)}; got {self.strategy!r}")
        together = self.strategy == "together"
        expected = 1 if together else len(self.questions) * len(self.levels or " ")
        if not 0 < len(self.questions) <= MOST_ATTRIBUTES:
            raise ParameterError(f"there are 1 to {MOST_ATTRIBUTES:,} attributes")
        if len({question.name for question in self.questions}) != len(self.questions):
            raise ParameterError("two attributes have one name")
        if len(self.cells) != expected or not 0 < len(self.cells) <= MOST_CELLS:
            raise ParameterError(f"this campaign has {expected} cells; got {len(self.cells)}")
        if not 1 <= self.sample <= len(self.questions):
            raise ParameterError(f"sample is 1 to {len(self.questions)}; got {self.sample}")
        if self.ends is not None:
            self._check_ends(self.ends)
        if self.rounds < 1 or (self.rounds > 1 and not self.repeated):
            raise ParameterError("only a repeated question is asked more than once")
        if together and self.levels is not None:
            raise ParameterError("levels need a law for each attribute: sample or split")
        for number, cell in enumerate(self.cells):
            self._check_cell(number, cell)

    def _check_cell(self, number: int, cell: Cell) -> None:
        """Refuse a law that is not where it belongs, or not for all answers of its question.

        A device would refuse some answers of such a question only, and its silence tell which.
        """
        place, level = divmod(number, len(self.levels or " "))
        where: tuple[tuple[int, ...], int | None]
        law, size = cell.mechanism, self.questions[place].k
        if self.strategy == "together":
            where = tuple(range(len(self.questions))), None
            domains = tuple(question.k or 0 for question in self.questions)
            tuples = isinstance(law, TupleMechanism) and law.attributes == domains
            fits = tuples and not isinstance(law, PrivUnit)  # which is for vectors of length 1
        else:
            where = (place,), None if self.levels is None else level
            items = isinstance(law, FrequencyMechanism) and law.k == size
            fits = items if size is not None else isinstance(law, NumericMechanism)
        if not fits or (cell.attributes, cell.level) != where:
            raise ParameterError(f"cell {number}, {law.name}, is not for the answers it is asked")

    def _check_ends(self, ends: tuple[int, ...]) -> None:
        rising = all(a <= b for a, b in zip((0, *ends), (*ends, 1 << 52), strict=True))
        if len(ends) != len(self.questions) - 1 or not rising or self.sample != 1:
            raise ParameterError("shares are one for each attribute, where one of them is asked")

    # --- what it is -----------------------------------------------------------------------------

    @cached_property
    def text(self) -> str:
        """Everything that affects a report, as JSON: what is published and what is digested."""
        return json.dumps(self._collection(), separators=(",", ":"), allow_nan=False)

    def _collection(self) -> dict[str, Any]:
        levels = self.levels and dict(zip(self.levels.names, self.levels.factors, strict=True))
        return {
            "wire": WIRE,
            "campaign": self.name,
            "epsilon": self.epsilon,
            "strategy": self.strategy,
            "sample": self.sample,
            "ends": self.ends,
            "levels": levels,
            "limit": self.limit,
            "accept_loss": self.accept_loss,
            "rounds": self.rounds,
            "attributes": [asdict(question) for question in self.questions],
            "cells": [
                {"attributes": c.attributes, "level": c.level, **publish(c.mechanism)}
                for c in self.cells
            ],
        }

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the text. It is on every report: another campaign's report is refused."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def repeated(self) -> bool:
        """Whether the question may be asked again: its answers are permanent ones with noise."""
        return all(isinstance(cell.mechanism, Memoised) for cell in self.cells)

    def cells_of(self, attribute: int) -> tuple[int, ...]:
        """Return the numbers of an attribute's cells, one a level."""
        if self.strategy == "together":
            return (0,)
        per = len(self.levels or " ")
        return tuple(range(attribute * per, (attribute + 1) * per))

    # --- auditor ---------------------------------------------------------------------------------

    def loss(self, level: int | None = None) -> Loss:
        """Return the exact loss of one report, at a level or of whoever picks the most open one.

        Sampled: the product of the `sample` largest ratios, as the coin tells nothing. Split: the
        product over all attributes.
        """
        only = slice(None) if level is None else slice(level, level + 1)
        worst = [
            max((self.cells[c].mechanism.loss() for c in self.cells_of(q)[only]), key=_size)
            for q in range(1 if self.strategy == "together" else len(self.questions))
        ]
        if self.strategy == "sample":
            worst = sorted(worst, key=_size, reverse=True)[: self.sample]
        if any(loss.ratio is None for loss in worst):
            return Loss(math.inf, self.epsilon, None, worst[0].inputs, worst[0].output)
        ratio = math.prod((loss.ratio or Fraction(0) for loss in worst), start=Fraction(1))
        return Loss(log_above(ratio), self.epsilon, ratio, worst[0].inputs, worst[0].output)

    def admitted(self) -> Campaign:
        """Return this campaign with laws that may be sent, or refuse it with the numbers.

        Every cell keeps its own budget, or its loss is accepted in words; all entries of a report
        together keep epsilon, and at each level that level's part of it.
        """
        if self.accept_loss is not None and not any(c.mechanism.published for c in self.cells):
            raise PromiseError("accept_loss is for a mechanism that breaks its promise: none does")
        cells = tuple(
            Cell(c.attributes, c.level, admission.admit(c.mechanism, self.accept_loss))
            if c.mechanism.published
            else Cell(c.attributes, c.level, admission.admit(c.mechanism))
            for c in self.cells
        )
        if self.accept_loss is not None:  # what was accepted is about single laws, not about this
            self._require_budgets()
        else:
            self._require_kept(self.loss(), self.epsilon)
            for level, factor in enumerate(self.levels.factors if self.levels else ()):
                self._require_kept(self.loss(level), self.epsilon * factor)
        return replace(self, cells=cells)

    def _require_budgets(self) -> None:
        """Refuse laws whose budgets, kept or not, come to more than epsilon."""
        one_each = range(1 if self.strategy == "together" else len(self.questions))
        worst = [max(self.cells[c].mechanism.budget for c in self.cells_of(q)) for q in one_each]
        asked = sorted(map(Fraction, worst), reverse=True)
        if sum(asked[: len(self.slots)]) > Fraction(self.epsilon):
            raise PromiseError(
                f"{self.name}: the budgets of a report's entries come to more than {self.epsilon!r}"
            )

    def _require_kept(self, loss: Loss, promised: float) -> None:
        if loss.ratio is None or not within(loss.ratio, promised):
            raise PromiseError(
                f"{self.name}: a report costs {loss.epsilon!r} where {promised!r} is promised"
            )

    # --- the shape of a report -------------------------------------------------------------------

    @cached_property
    def index_bytes(self) -> int:
        """Bytes of a cell's number."""
        return 1 if len(self.cells) <= 1 << 8 else 2

    @cached_property
    def slots(self) -> tuple[tuple[int, ...], ...]:
        """The cells that each entry of a report can name."""
        if self.strategy == "sample":
            return (tuple(range(len(self.cells))),) * self.sample
        if self.strategy == "together":
            return ((0,),)
        return tuple(self.cells_of(attribute) for attribute in range(len(self.questions)))

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """The bytes of each entry."""
        sizes = [cell.mechanism.report_bytes for cell in self.cells]
        return tuple(self.index_bytes + max(sizes[c] for c in slot) for slot in self.slots)

    @property
    def row_bytes(self) -> int:
        """The bytes of a report: the same for everybody."""
        return sum(self.widths)

    def entries(self, rows: Rows) -> list[tuple[Ints, Rows]]:
        """Cut rows into entries: the cells' numbers and the cells' own bytes."""
        cut = []
        for part in np.split(rows, np.cumsum(self.widths)[:-1], axis=1):
            number = part[:, 0].astype(np.int64)
            if self.index_bytes == 2:
                number |= part[:, 1].astype(np.int64) << 8
            cut.append((number, part[:, self.index_bytes :]))
        return cut

    # --- device ----------------------------------------------------------------------------------

    def encode(
        self, answers: Mapping[str, Any], never_silent: bool = False
    ) -> list[NDArray[np.generic]]:
        """Return one column an attribute from answers by name; refuse what is missing.

        `never_silent`: answers that a question would refuse count by its other rule.
        """
        names = [question.name for question in self.questions]
        if missing := [name for name in names if name not in answers]:
            raise InputError(f"no answer for {', '.join(missing)}. Nothing was sent.")
        if unknown := [name for name in answers if name not in names]:
            raise InputError(f"nobody asks for {', '.join(map(str, unknown))}. Nothing was sent.")
        asked = [q.never_silent() if never_silent else q for q in self.questions]
        columns = [question.encode(answers[question.name]) for question in asked]
        if len({len(column) for column in columns}) != 1:
            raise InputError("all columns must be of one length, a row a person")
        return columns

    def privatize(
        self,
        columns: Sequence[NDArray[np.generic]],
        rng: Rng,
        levels: ArrayLike | None = None,
        answer: Answer | None = None,
    ) -> Rows:
        """DEVICE. Turn encoded columns into reports, one row of bytes a person."""
        rng, people = require_rng(rng), len(columns[0])
        picked = self._picked(levels, people)
        answer = answer or (lambda cell, values: _answered(cell, values, rng))
        parts = []
        for slot, asked in enumerate(self._asked(people, rng).T):
            part = np.zeros((people, self.widths[slot]), dtype=np.uint8)
            for attribute in np.unique(asked).tolist():
                for place, cell in enumerate(self.cells_of(attribute)):
                    mine = (asked == attribute) & (picked[:, attribute] == place)
                    who = np.flatnonzero(mine)
                    if len(who):
                        self._fill(part, who, cell, columns, answer)
            parts.append(part)
        return np.concatenate(parts, axis=1)

    def _fill(
        self,
        part: Rows,
        who: Ints,
        number: int,
        columns: Sequence[NDArray[np.generic]],
        answer: Answer,
    ) -> None:
        """Write the entries of these people, by one cell."""
        cell, start = self.cells[number], self.index_bytes
        part[who, 0] = number & 255
        if start == 2:
            part[who, 1] = number >> 8
        mine = [columns[attribute][who] for attribute in cell.attributes]
        sent = answer(cell, mine[0] if len(mine) == 1 else mine)  # type: ignore[arg-type]
        width = cell.mechanism.report_bytes
        part[who, start : start + width] = unpack_rows(sent, width)

    def _asked(self, people: int, rng: Rng) -> Ints:
        """Draw which attributes each person answers, in ascending order: a column an entry."""
        d = len(self.questions)
        if self.strategy == "together":
            return np.zeros((people, 1), dtype=np.int64)
        if self.strategy == "split":
            return np.tile(np.arange(d), (people, 1))
        if self.ends is not None:
            words = drawn(rng.words(people))
            return np.searchsorted(np.array(self.ends, dtype=np.int64), words, side="right")[
                :, None
            ]
        if self.sample == 1:
            return uniform(rng, people, d)[:, None]
        order = np.argsort(drawn(rng.words(people * d)).reshape(people, d), axis=1)
        return np.sort(order[:, : self.sample], axis=1)

    def _picked(self, levels: ArrayLike | None, people: int) -> Ints:
        """Return the level that each person picked for each attribute; 0 where there are none."""
        d = len(self.questions)
        if self.levels is None:
            if levels is not None:
                raise InputError("this campaign offers no levels")
            return np.zeros((people, d), dtype=np.int64)
        if levels is None:
            raise InputError(f"each person picks a level: {', '.join(self.levels.names)}")
        picked = self.levels.indices(levels)
        if picked.shape == (people,):
            picked = np.repeat(picked[:, None], d, axis=1)
        if picked.shape != (people, d):
            raise InputError("levels are one a person, or one for each attribute of a person")
        return picked

    # --- collector -------------------------------------------------------------------------------

    def valid(self, rows: Rows) -> Mask:
        """COLLECTOR. Tell for each row whether a device can have sent it."""
        rows = checked_rows(rows, self.row_bytes, self.name)
        fine = np.ones(len(rows), dtype=bool)
        last = np.full(len(rows), -1, dtype=np.int64)
        per = len(self.levels or " ")
        for slot, (number, octets) in enumerate(self.entries(rows)):
            cells = self.slots[slot]
            fine &= (number >= cells[0]) & (number <= cells[-1])
            fine &= number // per > last
            last = number // per
            for cell in np.unique(number[fine]).tolist():
                who = np.flatnonzero(fine & (number == cell))
                fine[who] = self._valid_entries(cell, octets[who])
        return fine

    def _valid_entries(self, cell: int, octets: Rows) -> Mask:
        width = self.cells[cell].mechanism.report_bytes
        fits: Mask = self.cells[cell].mechanism.valid(np.ascontiguousarray(octets[:, :width]))
        return fits & ~octets[:, width:].any(axis=1)

    def tally(self, rows: Rows) -> tuple[Tally, ...]:
        """COLLECTOR. Count reports: one tally a cell. Refuses what no device can have sent."""
        rows = checked_rows(rows, self.row_bytes, self.name)
        entries, tallies = self.entries(rows), []
        for number, cell in enumerate(self.cells):
            width = cell.mechanism.report_bytes
            data = b"".join(
                octets[asked == number, :width].tobytes()
                for slot, (asked, octets) in zip(self.slots, entries, strict=True)
                if slot[0] <= number <= slot[-1]
            )
            tallies.append(cell.mechanism.tally(cell.mechanism.unpack(data)))
        counted = sum(tally.n for tally in tallies)
        if counted != len(rows) * len(entries):
            raise MismatchError(f"{len(rows)} reports have {counted} entries that can be counted")
        return tuple(tallies)

    def empty(self) -> tuple[Tally, ...]:
        """Return the tallies of nobody."""
        return tuple(cell.mechanism.empty() for cell in self.cells)

    # --- analyst ---------------------------------------------------------------------------------

    def reports(self, tallies: Sequence[Tally]) -> int:
        """Return how many reports these tallies count."""
        return sum(tally.n for tally in tallies) // len(self.slots)

    def people(self, tallies: Sequence[Tally]) -> int:
        """Return how many people sent them; where a person sends several, at least how many."""
        return -(-self.reports(tallies) // self.rounds)

    def parts(self, tallies: Sequence[Tally], about: str = "participants") -> list[Part | None]:
        """ANALYST. Return each attribute's estimate in its mechanism's domain; None for nobody."""
        subject = About.parse(about)
        if [t.mechanism.fingerprint for t in tallies] != self._fingerprints:
            raise MismatchError("these tallies are not this campaign's, one for each cell")
        if self.strategy == "together":
            return self._together(tallies[0], about)
        everybody = self.reports(tallies)
        found: list[Part | None] = []
        for attribute in range(len(self.questions)):
            own = [tallies[cell] for cell in self.cells_of(attribute)]
            try:
                found.append(self._part(own, everybody, subject))
            except EmptyError:
                found.append(None)
        return found

    @cached_property
    def _fingerprints(self) -> list[str]:
        return [cell.mechanism.fingerprint for cell in self.cells]

    def _together(self, tally: Tally, about: str) -> list[Part | None]:
        if tally.n == 0:
            return [None] * len(self.questions)
        found = tally.mechanism.estimate(tally, about)
        return list(found.parts) if isinstance(found, TupleEstimate) else [found]

    def _part(self, own: Sequence[Tally], everybody: int, subject: About) -> Part:
        """Estimate one attribute; where it is sampled, those asked stand for all."""
        asked = sum(tally.n for tally in own)
        if self.levels is None:
            part = part_of_all(own[0], everybody, subject, own[0].mechanism.budget)
        elif asked == everybody or subject is About.POPULATION:
            part = combine.generalised(own, subject).estimate
        else:
            part = of_all(lambda about: combine.generalised(own, about), asked, everybody).estimate
        return self._widened(part, [tally.mechanism for tally in own], subject)

    def _widened(self, part: Part, laws: Sequence[Mechanism], subject: About) -> Part:
        """Allow for reports of one person that share a permanent answer: up to `rounds` of them.

        With T_i <= R reports of person i, sum T_i^2 <= R n, so that

            n Var <= R Var(permanent answer) + Var(one report) - Var(permanent answer),

        and about the population, where a person's own answer is a draw too, R times everything.
        """
        if self.rounds == 1 or not isinstance(part, FrequencyEstimate):
            return part
        factor = float(self.rounds)
        if subject is About.PARTICIPANTS:
            ratios = [
                float(law.memory.variance(x) / law.variance(x))
                for law in laws
                if isinstance(law, Memoised)
                for x in (0.0, 1.0)  # between them the ratio is between theirs
            ]
            factor = 1 + (self.rounds - 1) * max(ratios)
        note = f"up to {self.rounds} reports a person: error and epsilon allow for all of them"
        return replace(
            part,
            stderr=part.stderr * math.sqrt(factor),
            epsilon=max(law.permanent for law in laws if isinstance(law, Memoised)),
            note="; ".join(filter(None, [part.note, note])),
        )

    def read(
        self,
        tallies: Sequence[Tally],
        about: str = "participants",
        level: float = 0.95,
        cohort: int | None = None,
    ) -> list[Figure]:
        """ANALYST. Return all figures, each attribute's in its own units.

        Attributes that fewer people than the cohort have answered are left out.
        """
        least = self.terms.cohort if cohort is None else cohort
        together, figures = self.strategy == "together", []
        for place, part in enumerate(self.parts(tallies, about)):
            own = [tallies[cell] for cell in self.cells_of(place)]
            # A mechanism for tuples may have asked each person about some attributes only.
            answered = part.n if together and part is not None else sum(t.n for t in own)
            if part is not None and answered >= least * self.rounds:
                # A fitted distribution is read from one level, whose people must be enough.
                enough = [tally for tally in own if tally.n >= least * self.rounds]
                figures += self.questions[place].decode(part, enough, level)
        return figures


def _answered(cell: Cell, values: Any, rng: Rng) -> bytes:
    return cell.mechanism.pack(cell.mechanism.privatize(values, rng))


def _size(loss: Loss) -> tuple[bool, Fraction]:
    return loss.ratio is None, loss.ratio or Fraction(0)


def utc_now() -> datetime:
    """Return the time, with its zone."""
    return datetime.now(UTC)
