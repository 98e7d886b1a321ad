"""Several attributes of one person in one report: numbers in [-1, 1] and items.

`domains` says what each attribute is: 0 for a number, k for one of k items. Values are columns:
a list of d arrays, or rows: an n x d array, when all attributes are numbers.

`FramedMechanism`: a report has an entry for each attribute that is answered, by a mechanism of its
own (`frame`). In a `SampledTuple` each person answers a few attributes, drawn at random,
independently of the values (so the draw may be public), with the whole budget.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from murmuration.errors import EmptyError, FormatError, MismatchError, ParameterError
from murmuration.exact.arrays import Bits, Floats, Ints, Reports
from murmuration.exact.loss import Loss
from murmuration.exact.randomness import Rng
from murmuration.mechanisms.base import Mechanism, Task, canonical
from murmuration.mechanisms.domain import Box, Domain, Values
from murmuration.mechanisms.frame import Frame
from murmuration.mechanisms.number.base import NumericMechanism
from murmuration.mechanisms.packing import RowReports
from murmuration.mechanisms.strategy import Sample
from murmuration.mechanisms.tally import Tally
from murmuration.mechanisms.trial import ChanceTrial, Trial, people_for, spread_over
from murmuration.results.estimate import (
    AnsweredEstimate,
    Estimate,
    FrequencyEstimate,
    TupleEstimate,
)
from murmuration.statistics.forgery import Evidence, Limits

PEOPLE_PER_PASS = 1 << 16
MOST_INSIDE = 8
"""Trials of one cell that the auditor runs on whole reports, at most."""
Part = Estimate | FrequencyEstimate


@dataclass(frozen=True)
class TupleMechanism(Mechanism):
    """A mechanism for d attributes at once."""

    answers: ClassVar[Task] = Task.VECTOR
    takes: ClassVar[type[Domain]] = Box

    d: int | None = None
    domains: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        box = Box.of(self.d, self.domains)
        object.__setattr__(self, "domains", box.sizes)
        object.__setattr__(self, "d", len(box.sizes))

    @property
    def attributes(self) -> tuple[int, ...]:
        """The domains: 0 for a number, k for one of k items."""
        return self.domains or ()

    @property
    def domain(self) -> Domain:
        """The box of all attributes."""
        return Box(self.attributes)

    def require_numbers(self, most: int | None = None) -> None:
        """Refuse items, and more numbers than `most`."""
        if any(self.attributes):
            raise ParameterError(f"{self.name} takes numbers only: give d, the number of them")
        if most is not None and len(self.attributes) > most:
            raise ParameterError(f"{self.name} takes at most {most} numbers")

    @abstractmethod
    def estimate(
        self, tally: Tally, about: str = "participants", everybody: int | None = None
    ) -> TupleEstimate:
        """Return every attribute's estimate."""

    def mean_vector(self, tally: Tally) -> Floats:
        """Return the mean of one unbiased vector per report, for attributes that are all numbers.

        Where a report is about some coordinates only, the others of its vector are 0 and these
        stand for all: so it exists, and is unbiased, from the first report on.
        """
        return np.array(self.estimate(tally).value, dtype=np.float64)

    def shares_asked(self) -> list[float]:
        """Return how many of the people are asked about each attribute."""
        return [1.0] * len(self.attributes)

    def people_per_answer(self) -> list[float]:
        """Return for how many people one answer about each attribute stands in `mean_vector`."""
        return [1 / share for share in self.shares_asked()]

    def longest_lie(self, each: Floats) -> float:
        """Return how far one report can move the sum of vectors, as a length.

        `each` is how far it can move each coordinate.
        """
        return float(np.linalg.norm(each))

    def total_noise(self) -> float:
        """Return n times the mean squared length of the error of all coordinates, at most."""
        return self.worst_variance() * len(self.attributes)


class FramedMechanism(TupleMechanism, RowReports):
    """A mechanism whose report is a frame of other mechanisms' reports."""

    @property
    @abstractmethod
    def frame(self) -> Frame:
        """The other mechanisms, and which of them answer."""

    @property
    def broken(self) -> bool:
        """Whether any attribute is asked by a mechanism that breaks its promise."""
        return any(cell.broken for cell in self.frame.cells)

    cells_are_drawn: ClassVar[bool] = False
    """Whether public coins decide which cells answer."""

    def public_part(self, report: Reports) -> list[int]:
        """Which cells answered, where coins decide that, and the public part of each answer."""
        shown: list[int] = []
        for numbers, octets in self.frame.entries(self.to_rows(report)):
            cell = self.frame.cells[int(numbers[0])]
            own = cell.public_part(cell.from_rows(octets[:, : cell.report_bytes]))
            shown += [*numbers.tolist() * self.cells_are_drawn, *own]
        return shown

    @property
    def report_bytes(self) -> int:
        """The entries side by side."""
        return self.frame.row_bytes

    def respond(self, columns: Values, rng: Rng) -> Reports:
        """Let the frame draw."""
        return self.frame.privatize(self.grouped(columns), rng)

    def grouped(self, columns: Values) -> list[Values]:
        """Return the values of each group of the frame."""
        return list(columns)

    def possible(self, reports: Reports) -> Bits:
        """Tell which reports have entries that they can have."""
        return self.frame.valid(self.to_rows(reports), self.name)

    def complaint(self, reports: Reports, bad: int) -> str:
        """Say which attribute is wrong, and what its mechanism has to say about it."""
        return self.frame.complaint(self.to_rows(reports), bad)

    def exact_loss(self) -> Loss:
        """The product of the largest ratios that one report can have."""
        return self.frame.loss(self.epsilon)

    def trials(self) -> Iterator[Trial]:
        """What each of the other mechanisms is tried on: as part of a whole report, then alone."""
        answers = [[group[0].domain.extremes()[0]] for group in self.frame.groups]
        seen: set[Mechanism] = set()
        for number, cell in enumerate(self.frame.cells):
            if cell in seen:
                continue
            seen.add(cell)
            own = list(cell.chance_trials())
            for place in spread_over(len(own), MOST_INSIDE):
                yield self._inside(number, own[place], answers)
            yield from cell.trials()

    def _inside(self, number: int, trial: ChanceTrial, answers: list[Values]) -> ChanceTrial:
        """Return a cell's trial, run on whole reports of people who answer all attributes."""
        whole = self.ungrouped([*answers[:number], [trial.answer], *answers[number + 1 :]])
        share = self.frame.strategy.shares(len(self.frame.groups))[number]
        people = min(round(trial.people / share), people_for(len(self.attributes)))
        among = partial(self._entries_of, number)
        return replace(trial, of=self, answer=tuple(whole), people=max(people, 200), among=among)

    def _entries_of(self, number: int, reports: Reports) -> Reports:
        """Return one cell's own reports, out of whole ones."""
        cell = self.frame.cells[number]
        entries = zip(self.frame.slots, self.frame.entries(self.to_rows(reports)), strict=True)
        parts = [
            octets[numbers == number, : cell.report_bytes]
            for slot, (numbers, octets) in entries
            if number in slot
        ]
        return cell.from_rows(np.concatenate(parts))

    def ungrouped(self, answers: Sequence[Values]) -> list[Any]:
        """Return one person's answers by attribute, from one list per group."""
        return [one for (one,) in answers]

    def law_bytes(self) -> bytes:
        """The strategy and the fingerprints: laws have values in them that machines round."""
        parts = [*self.frame.strategy.settings().values(), *self.frame.fingerprints]
        return " ".join(map(str, parts)).encode()


class SampledTuple(FramedMechanism):
    """Answer about `sample` of the attributes, each by a mechanism of its own.

    A report has for each chosen attribute, in ascending order, the attribute's number and the
    inner report, padded to the longest: every report has the same length.
    """

    cells_are_drawn: ClassVar[bool] = True
    sample: int

    @cached_property
    @abstractmethod
    def inner(self) -> tuple[Mechanism, ...]:
        """Each attribute's mechanism, at epsilon/sample."""

    @property
    def shares(self) -> tuple[float, ...] | None:
        """How often each attribute is asked, when one is asked and not all alike."""
        return None

    @cached_property
    def strategy(self) -> Sample:
        """How attributes are drawn."""
        return Sample(self.sample) if self.shares is None else Sample.by_shares(self.shares)

    @cached_property
    def frame(self) -> Frame:
        """One cell per attribute."""
        return Frame(tuple((inner,) for inner in self.inner), self.strategy)

    @property
    def people_per_pass(self) -> int:
        """Fewer where there are many attributes."""
        return max(1, PEOPLE_PER_PASS // len(self.attributes) * 8)

    def answering(self, attribute: int) -> Mechanism:
        """The attribute's own mechanism."""
        return self.inner[attribute]

    def shares_asked(self) -> list[float]:
        """The sample's."""
        return self.strategy.shares(len(self.inner))

    def accepting_its_loss(self) -> Self:
        """Accept that of every attribute's mechanism, too: they are what sends."""
        accepted = super().accepting_its_loss()
        laws = tuple(one.accepting_its_loss() if one.broken else one for one in self.inner)
        object.__setattr__(accepted, "inner", laws)
        accepted.__dict__.pop("frame", None)
        return accepted

    # --- collector ---

    @property
    def counters(self) -> int:
        """How many answered about each attribute, then the inner counters one after the other."""
        return self.frame.ends[-1]

    def count(self, reports: Reports) -> Ints:
        """Count each attribute's answers by its own mechanism."""
        return self.frame.sums(self.to_rows(reports))

    def split(self, counts: Ints) -> tuple[Tally, ...]:
        """Return each attribute's own tally."""
        return self.frame.tallies(counts)

    def checked_counts(self, counts: Ints, n: int) -> Ints:
        """Everybody answers `sample` times, and each attribute's tally is one."""
        if int(counts[: len(self.inner)].sum()) != self.sample * n:
            raise FormatError(f"{n} people cannot have given these answers")
        self.split(counts)
        return counts

    # --- analyst ---

    def estimate(
        self, tally: Tally, about: str = "participants", everybody: int | None = None
    ) -> TupleEstimate:
        """Return every attribute's estimate, from those who were asked, a part of all at random."""
        n, subject = self.subject(tally, about)
        own = self.split(tally.counts)
        if not all(part.n for part in own):
            raise EmptyError("nobody has answered about one of the attributes yet")
        parts = tuple(self._part(part, about, everybody or n) for part in own)
        return TupleEstimate(parts, n, self.epsilon, subject)

    def _part(self, tally: Tally, about: str, everybody: int) -> Part:
        part = tally.mechanism.estimate(tally, about, everybody)
        if isinstance(part, TupleEstimate | AnsweredEstimate):
            raise ParameterError("an attribute of a tuple is a number or an item, and not missing")
        return replace(part, epsilon=self.epsilon)

    def mean_vector(self, tally: Tally) -> Floats:
        """Return sum of answers / (n share): those asked stand for all (Horvitz and Thompson)."""
        n = self.answered(tally)
        if any(self.attributes):
            raise ParameterError("items have no mean: estimate them one by one")
        sums = [
            float(part.counts @ part.mechanism.design.values)
            for part in self.split(tally.counts)
            if isinstance(part.mechanism, NumericMechanism)
        ]
        return np.asarray(np.array(sums) / (n * np.array(self.shares_asked())))

    def evidence(self, tally: Tally) -> Iterator[Evidence]:
        """How often each attribute is asked, whatever the values are; then each mechanism's."""
        asked, shares = tally.counts[: len(self.inner)], np.array(self.shares_asked())
        yield Limits("answers about attribute", asked, tally.n, shares, shares)
        for number, part in enumerate(self.split(tally.counts)):
            for one in part.mechanism.evidence(part):
                yield replace(one, what=f"attribute {number}, {one.what}")

    # --- auditor and planner ---

    def trials(self) -> Iterator[Trial]:
        """Which attributes are asked, whatever the values are; then each mechanism."""
        chances = np.array(self.shares_asked())
        for answer in self.domain.extremes():
            yield ChanceTrial(
                *(self, answer, self._asked, chances, "which attribute is asked"),
                exclusive=self.sample == 1,
                people=people_for(8 * len(self.inner)),
            )
        yield from super().trials()

    def _asked(self, reports: Reports) -> Ints:
        return self.count(reports)[: len(self.inner)]

    @property
    def _kinds(self) -> tuple[Mechanism, ...]:
        """The different ones among the attributes' mechanisms."""
        return tuple(dict.fromkeys(self.inner))

    def _layout(self, inner: Iterable[object]) -> dict[str, Any]:
        """Lay out the law: `attributes` says which of `inner` each attribute is asked by."""
        place = {kind: number for number, kind in enumerate(self._kinds)}
        return {
            "sample": self.sample,
            "ends": list(self.strategy.ends or ()),
            "attributes": [place[inner] for inner in self.inner],
            "inner": list(inner),
        }

    def law(self) -> dict[str, Any]:
        """How many answer, how often each (cumulative, of 2^52), and the mechanisms' own laws."""
        return self._layout(kind.document() for kind in self._kinds)

    def with_law(self, law: Mapping[str, Any]) -> Self:
        """Return this mechanism with the published laws of the attributes' mechanisms."""
        try:
            laws = [entry["law"] for entry in law["inner"]]
            bare = [{key: entry[key] for key in entry if key != "law"} for entry in law["inner"]]
        except (KeyError, TypeError):
            raise FormatError("a published tuple has a list `inner`, each with a law") from None
        ours = self._layout(kind.heading() for kind in self._kinds)
        if canonical({**law, "inner": bare}) != canonical(ours):
            raise MismatchError(f"the published law is not that of {self}")
        pairs = zip(self._kinds, laws, strict=True)
        planted_laws = {kind: kind.with_law(law) for kind, law in pairs}
        planted = replace(self)
        object.__setattr__(planted, "inner", tuple(planted_laws[inner] for inner in self.inner))
        return planted

    def variance(self, x: ArrayLike) -> Floats:
        """Return n Var of a numeric attribute's mean when people are at +x and -x half and half.

        m (Var(x) + x^2) - x^2, where an answer stands for m = d/sample people.
        """
        squares, scale = np.square(np.asarray(x, dtype=np.float64)), self._people_per_answer()
        return np.asarray(scale * (self._numeric().variance(x) + squares) - squares)

    def worst_variance(self) -> float:
        """Return the largest n Var of a numeric attribute's mean, over such crowds.

        Between grid points it is a parabola; its top is at half the slope of its linear part.
        """
        design = self._numeric().design
        points, scale = design.grid.points, self._people_per_answer()
        slopes = scale * np.diff(design.second_moments) / design.grid.step
        tops = np.clip(slopes / 2, points[:-1], points[1:])
        return float(self.variance(np.concatenate([points, tops])).max())

    def _people_per_answer(self) -> float:
        """For how many people one answer about the first number stands."""
        if self.shares is None:
            return len(self.inner) / self.sample
        return sum(self.shares) / self.shares[self.attributes.index(0)]

    def _numeric(self) -> NumericMechanism:
        for inner in self.inner:
            if isinstance(inner, NumericMechanism):
                return inner
        raise ParameterError("no attribute is a number: ask the attributes' own mechanisms")
