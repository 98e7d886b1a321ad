"""Reports about a number that were made to tell less than they did when they were sent."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from murmuration.errors import FormatError, MismatchError, ParameterError
from murmuration.exact.arrays import Floats, Reports
from murmuration.exact.exponential import exp_below, log_above
from murmuration.exact.loss import Loss
from murmuration.exact.randomness import WHOLE, Rng, drawn
from murmuration.exact.table import Table
from murmuration.mechanisms.chain import checked_steps, kept_or_blank
from murmuration.mechanisms.domain import Number
from murmuration.mechanisms.number.base import Design, NumericMechanism, unbiased
from murmuration.mechanisms.registry import list_mechanisms, mechanism
from murmuration.mechanisms.trial import Trial

OWN_LAW = ("keep", "blank")
"""What the published law has besides the inner one's."""


class Step(NamedTuple):
    """One step of a conversion: the weight of a kept report, and the law of a blank one."""

    keep: int
    blank: tuple[int, ...]


@dataclass(frozen=True)
class ConvertedNumber(NumericMechanism):
    """A report of `inner`, kept with probability a, else replaced by a blank one, step by step.

    A blank report is drawn from one law R whatever the value is. With M(y) and m(y) the largest
    and the least probability of a symbol over all values,

        P(y|x) = a Q(y|x) + (1-a) R(y),   (1-a)/a R(y) >= (M(y) - E m(y))/(E - 1),   E = e^step,

    and the left side adds up to (1-a)/a: so a is the largest that any R allows. The exact ratio is
    that of whole numbers out of 2^52 for the table, the keeping and R. Symbols are read as
    (value - (1-a) r)/a, r = sum R value, which is unbiased again. Devices never send it: a
    collector makes it of what was sent (`murmur export --at-most`).

    epsilon: what one report tells at most after the last step
    inner: the name of the mechanism by which it was sent
    settings: the parameters of that mechanism besides epsilon, as pairs of name and value
    steps: what it told when it was sent, and after each step but the last; twice epsilon if not
        given

    >>> law = ConvertedNumber(epsilon=0.5, inner="duchi", steps=(1.0,))
    >>> duchi = mechanism("duchi", epsilon=0.5)  # its bit, flipped, is its own law once more
    >>> law.loss().holds, abs(law.worst_variance() / duchi.worst_variance() - 1) < 1e-9
    (True, True)
    """

    name: ClassVar[str] = "converted-number"
    paper: ClassVar[str] = (
        "Nie et al. 2020 (reports for less clearance); HierA's conversion of bits"
    )
    summary: ClassVar[str] = "a report about a number, made to tell less after it was sent"
    sent: ClassVar[bool] = False

    inner: str = "duchi"
    settings: tuple[tuple[str, Any], ...] = ()
    steps: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "steps", checked_steps(self.steps, self.epsilon))
        object.__setattr__(self, "settings", tuple((name, value) for name, value in self.settings))
        kind = list_mechanisms().get(self.inner)
        if kind is None or kind.takes is not Number or kind.memoised or kind is type(self):
            raise ParameterError(f"{self.inner} is not a mechanism for numbers that are asked once")

    @classmethod
    def of(cls, source: NumericMechanism, steps: tuple[float, ...]) -> Self:
        """Return the law of a mechanism's reports after these steps, the first one its own."""
        unusual = [
            (field.name, getattr(source, field.name))
            for field in dataclasses.fields(source)
            if field.name != "epsilon" and getattr(source, field.name) != field.default
        ]
        made = cls(steps[-1], source.name, tuple(unusual), steps[:-1])
        object.__setattr__(made, "source", source)
        return made

    @cached_property
    def source(self) -> NumericMechanism:
        """The law by which reports were sent."""
        found = mechanism(self.inner, epsilon=self.steps[0], **dict(self.settings))
        if not isinstance(found, NumericMechanism) or found.broken or not found.design.unbiased:
            raise ParameterError(f"reports of {self.inner} cannot be converted to tell less")
        return found

    @property
    def title(self) -> str:
        """The mechanism inside, and that it was converted."""
        return f"{self.inner}, converted"

    # --- the law -------------------------------------------------------------------------------

    @cached_property
    def _walk(self) -> tuple[tuple[Step, ...], list[list[int]], int]:
        """The steps, and what the law of reports is after them: whole numbers, and their total."""
        rows = self.source.design.weights.tolist()
        total, walked = sum(rows[0]), []
        for epsilon in (*self.steps[1:], self.epsilon):
            step = _largest(rows, total, exp_below(epsilon))
            rest = WHOLE - step.keep
            noise = [rest * weight * total for weight in step.blank]
            rows = [
                [step.keep * WHOLE * w + n for w, n in zip(row, noise, strict=True)] for row in rows
            ]
            total *= WHOLE**2
            walked.append(step)
        return tuple(walked), rows, total

    @property
    def walked(self) -> tuple[Step, ...]:
        """The steps."""
        return self._walk[0]

    @cached_property
    def design(self) -> Design:
        """The law of reports after all steps, to 2^-52, and the values that read it."""
        return self.build()

    def build(self) -> Design:
        """Undo the mean of blank reports, then what rounding leaves."""
        steps, rows, total = self._walk
        weights = np.array([[w * WHOLE // total for w in row] for row in rows], dtype=np.int64)
        weights[np.arange(len(weights)), weights.argmax(axis=1)] += WHOLE - weights.sum(axis=1)
        values = self.source.design.values
        for step in steps:
            part = step.keep / WHOLE
            middle = float(np.array(step.blank, dtype=np.float64) @ values) / WHOLE
            values = (values - (1 - part) * middle) / part
        return unbiased(weights, values, self.source.design.uneven)

    def exact_loss(self) -> Loss:
        """The largest ratio of the whole numbers, which nothing has rounded."""
        _, rows, _ = self._walk
        points = self.source.design.grid.points
        tops = [max(column) for column in zip(*rows, strict=True)]
        ends = [min(column) for column in zip(*rows, strict=True)]
        ratios = [Fraction(top, end) for top, end in zip(tops, ends, strict=True)]
        symbol = max(range(len(ratios)), key=ratios.__getitem__)
        column = [row[symbol] for row in rows]
        high, low = column.index(tops[symbol]), column.index(ends[symbol])
        inputs = float(points[high]), float(points[low])
        return Loss(log_above(ratios[symbol]), self.epsilon, ratios[symbol], inputs, symbol)

    def law(self) -> dict[str, Any]:
        """The law by which reports were sent, and of each step `keep` and `blank`, out of 2^52."""
        own = {"keep": [s.keep for s in self.walked], "blank": [list(s.blank) for s in self.walked]}
        return {**self.source.law(), **own}

    def law_bytes(self) -> bytes:
        """The inner law's bytes, then the steps."""
        own = np.array([[s.keep, *s.blank] for s in self.walked], dtype="<i8")
        return self.source.law_bytes() + own.tobytes()

    def with_law(self, law: Mapping[str, Any]) -> Self:
        """Return this mechanism with a published inner table; the steps follow from it exactly."""
        if not isinstance(law, Mapping) or not set(OWN_LAW) <= set(law):
            raise FormatError(f"a published law of {self.name} has {' and '.join(OWN_LAW)}")
        inner = {key: value for key, value in law.items() if key not in OWN_LAW}
        planted = dataclasses.replace(self)
        object.__setattr__(planted, "source", self.source.with_law(inner))
        if not planted.source.promise_kept:
            raise FormatError(f"the published law of {self} breaks its promise")
        own = planted.law()
        if any(law[key] != own[key] for key in OWN_LAW):
            raise MismatchError(f"the published law is not that of {self}")
        return planted

    # --- making it -----------------------------------------------------------------------------

    def respond(self, values: Floats, rng: Rng) -> Reports:
        """Answer by the inner law, then convert."""
        reports = self.source.respond(values, rng)
        for step in range(len(self.walked)):
            reports = self.convert(reports, step, rng)
        return reports

    def convert(self, reports: Reports, step: int, rng: Rng) -> Reports:
        """COLLECTOR. Take one step: keep each report, or make it blank."""
        keep, blank = self.walked[step]
        kept = drawn(rng.words(len(reports))) < keep
        first = np.zeros(len(reports), dtype=np.int64)
        others = Table(np.array([blank])).draw(first, rng.words(len(reports)))
        return kept_or_blank(kept, reports, others)

    def trials(self) -> Iterator[Trial]:
        """Every symbol, at the ends and in the middle: words are those of two laws."""
        yield from self.chance_trials()


def _largest(rows: list[list[int]], total: int, ratio: Fraction) -> Step:
    """Return the step that keeps the most reports and no ratio above this one.

    c(y) = max(0, M(y) - E m(y))/(E - 1); what is left after rounding goes to the commonest blank.
    """
    tops, ends = (
        np.array(rows, dtype=object).max(axis=0),
        np.array(rows, dtype=object).min(axis=0),
    )
    least = [
        max(Fraction(0), (top - ratio * end) / (ratio - 1) / total)
        for top, end in zip(tops, ends, strict=True)
    ]
    whole = sum(least, start=Fraction(0))
    if not whole:
        raise ParameterError("these reports tell no more than that already: nothing to convert")
    keep = math.floor(WHOLE / (1 + whole)) - len(least)
    if keep <= 0:
        raise ParameterError("this epsilon is too small to convert reports to")
    scale = Fraction(keep * WHOLE, WHOLE - keep)
    blank = [math.ceil(one * scale) for one in least]
    blank[blank.index(max(blank))] += WHOLE - sum(blank)
    return Step(keep, tuple(blank))
