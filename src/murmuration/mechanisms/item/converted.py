"""Reports about an item that were made to tell less than they did when they were sent."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, cast

from numpy.typing import ArrayLike

from murmuration.errors import ParameterError
from murmuration.exact.arrays import Bits, Ints, Reports, Rows
from murmuration.exact.exponential import exp_below, log_above
from murmuration.exact.loss import Loss
from murmuration.exact.randomness import WHOLE, Rng
from murmuration.mechanisms.chain import checked_steps
from murmuration.mechanisms.domain import Items
from murmuration.mechanisms.item.base import FrequencyMechanism
from murmuration.mechanisms.registry import list_mechanisms, made
from murmuration.mechanisms.tally import Tally


@dataclass(frozen=True)
class Converted(FrequencyMechanism):
    """A report of `inner`, kept with probability a, else replaced by a blank one, step by step.

    (Of `oue` and `sue` each bit is kept by itself, or replaced by a fair one.) A blank report
    supports each item with the probability s and follows from no item. So

        p' = a p + (1-a) s,   q' = a q + (1-a) s,

    and a is the largest, out of 2^52, at which the exact ratio is within e^step. Of `grr`,
    `hadamard`, `oue` and `sue` that is the law that they have at the smaller epsilon; of others the
    error is larger than theirs there, 1.6 times from epsilon 2 to 0.5. Devices never send it: a
    collector makes it of what was sent (`murmur export --at-most`), for people who may see less.

    epsilon: what one report tells at most after the last step
    k: how many items there are, 2 or more; an answer is 0 to k-1
    inner: the name of the mechanism by which it was sent
    steps: what it told when it was sent, and after each step but the last; twice epsilon if not
        given

    >>> law = Converted(epsilon=0.5, k=4, inner="grr", steps=(1.0,))
    >>> from murmuration.mechanisms.item.grr import Grr
    >>> abs(float(law.p - Grr(epsilon=0.5, k=4).p)) < 1e-12, law.loss().holds
    (True, True)
    """

    name: ClassVar[str] = "converted"
    paper: ClassVar[str] = (
        "Nie et al. 2020 (reports for less clearance); HierA's conversion of bits"
    )
    summary: ClassVar[str] = "a report about an item, made to tell less after it was sent"
    sent: ClassVar[bool] = False

    inner: str = "grr"
    steps: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "steps", checked_steps(self.steps, self.epsilon))
        kind = list_mechanisms().get(self.inner)
        if kind is None or kind.takes is not Items or kind.memoised or kind is type(self):
            raise ParameterError(f"{self.inner} is not a mechanism for items that are asked once")
        _ = self.keeps

    @cached_property
    def source(self) -> FrequencyMechanism:
        """The law by which reports were sent."""
        found = made(self.inner, {"epsilon": self.steps[0], "k": self.k}, {})
        return cast(FrequencyMechanism, found)  # it takes items

    @property
    def title(self) -> str:
        """The mechanism inside, and that it was converted."""
        return f"{self.inner}, converted"

    # --- the law -------------------------------------------------------------------------------

    @cached_property
    def _law(self) -> tuple[tuple[int, ...], Fraction, Fraction]:
        """The weight of a kept report in each step, out of 2^52, and p and q after the last."""
        source, blank = self.source, self.source.blank_support
        p, q, keeps = source.p, source.q, []
        for step in (*self.steps[1:], self.epsilon):
            keep = self._largest(p, q, exp_below(step))
            part = Fraction(keep, WHOLE)
            p, q = (part * rate + (1 - part) * blank for rate in (p, q))
            keeps.append(keep)
        return tuple(keeps), p, q

    def _largest(self, p: Fraction, q: Fraction, ratio: Fraction) -> int:
        """Return the largest weight of a kept report at which no ratio is above this one."""
        blank, low, high = self.source.blank_support, 0, WHOLE + 1
        while high - low > 1:
            middle = (low + high) // 2
            part = Fraction(middle, WHOLE)
            own, other = (part * rate + (1 - part) * blank for rate in (p, q))
            fits = self.source.ratio_at(own, other) <= ratio
            low, high = (middle, high) if fits else (low, middle)
        if low == 0:
            raise ParameterError(f"epsilon {self.epsilon!r} is too small to convert {self.inner}")
        return low

    @property
    def keeps(self) -> tuple[int, ...]:
        """The weight of a kept report in each step, out of 2^52."""
        return self._law[0]

    @property
    def p(self) -> Fraction:
        """Kept and right, or blank and right."""
        return self._law[1]

    @property
    def q(self) -> Fraction:
        """Kept and wrong, or blank."""
        return self._law[2]

    @property
    def balanced(self) -> int | None:
        """As of the inner mechanism: a blank report supports as many."""
        return self.source.balanced

    def exact_loss(self) -> Loss:
        """The inner mechanism's ratio at these p and q."""
        ratio = self.source.ratio_at(self.p, self.q)
        return Loss(log_above(ratio), self.epsilon, ratio, (0, 1), "blank or not")

    def law(self) -> dict[str, Any]:
        """The law by which reports were sent, and `keep`."""
        return {**self.source.law(), "keep": list(self.keeps)}

    # --- making it -----------------------------------------------------------------------------

    def respond(self, items: Ints, rng: Rng) -> Reports:
        """Answer by the inner law, then convert."""
        reports = self.source.respond(items, rng)
        for step in range(len(self.keeps)):
            reports = self.convert(reports, step, rng)
        return reports

    def convert(self, reports: Reports, step: int, rng: Rng) -> Reports:
        """COLLECTOR. Take one step: keep each report, or make it blank."""
        return self.source.thinned(reports, self.keeps[step], rng)

    # --- the rest is the inner mechanism's -----------------------------------------------------

    @property
    def report_bytes(self) -> int:
        """As it was sent."""
        return self.source.report_bytes

    @property
    def counters(self) -> int:
        """As it was sent."""
        return self.source.counters

    @property
    def people_per_pass(self) -> int:
        """As of the inner mechanism."""
        return self.source.people_per_pass

    @property
    def work(self) -> int:
        """As of the inner mechanism."""
        return self.source.work

    @property
    def workspace(self) -> int:
        """As of the inner mechanism."""
        return self.source.workspace

    def to_rows(self, reports: Reports) -> Rows:
        """As it was sent."""
        return self.source.to_rows(reports)

    def from_rows(self, rows: Rows) -> Reports:
        """As it was sent."""
        return self.source.from_rows(rows)

    def possible(self, reports: Reports) -> Bits:
        """As it was sent."""
        return self.source.possible(reports)

    def complaint(self, reports: Reports, bad: int) -> str:
        """As it was sent."""
        return self.source.complaint(reports, bad)

    def shaped(self, reports: ArrayLike) -> Reports:
        """As it was sent."""
        return self.source.shaped(reports)

    def checked_reports(self, reports: ArrayLike) -> Reports:
        """As it was sent."""
        return self.source.checked_reports(reports)

    def count(self, reports: Reports) -> Ints:
        """As it was sent."""
        return self.source.count(reports)

    def checked_counts(self, counts: Ints, n: int) -> Ints:
        """As it was sent."""
        return self.source.checked_counts(counts, n)

    def support(self, tally: Tally) -> Ints:
        """As it was sent."""
        return self.source.support(Tally(self.source, tally.counts, tally.n))

    def public_part(self, report: Reports) -> list[int]:
        """As of the inner mechanism: what is public stays."""
        return self.source.public_part(report)
