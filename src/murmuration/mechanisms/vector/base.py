"""Several attributes of one person: some numbers in [-1, 1], some items, in one report.

`domains` says what each attribute is: 0 for a number, k for one of k items. Values are columns:
a list of d arrays, or rows: an n x d array, when all attributes are numbers.

`SampledTuple`: each person answers about a few attributes, chosen by a coin that does not look
at the values (so it may be public), with the whole budget. A mean is estimated from those who
were asked; that they are a random part of all participants is in the standard error.
"""

from __future__ import annotations

import math
import operator
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from murmuration.errors import EmptyError, FormatError, InputError, MismatchError, ParameterError
from murmuration.exact.arrays import Bits, Floats, Ints, Reports, Rows
from murmuration.exact.exponential import log_above
from murmuration.exact.loss import Loss
from murmuration.exact.randomness import WHOLE, Rng, drawn, require_rng, uniform
from murmuration.mechanisms.base import Mechanism, Task, canonical
from murmuration.mechanisms.item.base import checked_items
from murmuration.mechanisms.number.base import ENOUGH, NumericMechanism, checked_values
from murmuration.mechanisms.packing import RowReports, unpack_rows
from murmuration.mechanisms.tally import Tally, require_same
from murmuration.results.estimate import About, Estimate, FrequencyEstimate, TupleEstimate

PEOPLE_PER_PASS = 1 << 16
MAX_ATTRIBUTES = 1 << 16
Part = Estimate | FrequencyEstimate


@dataclass(frozen=True)
class TupleMechanism(Mechanism):
    """A mechanism for d attributes at once."""

    answers: ClassVar[Task] = Task.VECTOR

    d: int | None = None
    domains: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        domains = checked_domains(self.d, self.domains)
        object.__setattr__(self, "domains", domains)
        object.__setattr__(self, "d", len(domains))

    @property
    def attributes(self) -> tuple[int, ...]:
        """The domains: 0 for a number, k for one of k items."""
        return self.domains or ()

    def mean_vector(self, tally: Tally) -> Floats:
        """Return the mean of one unbiased vector a report, for attributes that are all numbers.

        Where a report is about some coordinates only, the others of its vector are 0 and these
        stand for all: so it exists, and is unbiased, from the first report on.
        """
        return np.array(self.estimate(tally).value, dtype=np.float64)

    def columns(self, values: Any) -> list[NDArray[np.generic]]:
        """Return one checked array an attribute, all of one length.

        All attributes are checked, asked about or not: an error must not tell which one was.
        """
        d = len(self.attributes)
        if not (isinstance(values, list | tuple) and all(map(_is_array, values))):
            rows = np.asarray(values)
            rows = rows.reshape(1, -1) if rows.ndim == 1 else rows
            values = list(rows.T) if rows.ndim == 2 and rows.dtype.kind in "fiu" else []
        if len(values) != d:
            raise InputError(f"values must be rows of {d} numbers, or {d} arrays, one an attribute")
        arrays: list[NDArray[np.generic]] = [
            checked_items(column, k) if k else checked_values(column)
            for column, k in zip(values, self.attributes, strict=True)
        ]
        if len({len(array) for array in arrays}) != 1:
            raise InputError("all columns must be of one length, a row a person")
        return arrays


def checked_domains(d: object, domains: object) -> tuple[int, ...]:
    """Return the attributes' domains from `d` (all numbers) or `domains`."""
    if domains is None:
        if isinstance(d, bool) or not isinstance(d, int) or not 1 <= d <= MAX_ATTRIBUTES:
            raise ParameterError(f"d, the number of attributes, must be 1 or more; got {d!r}")
        return (0,) * d
    try:
        sizes = tuple(operator.index(size) for size in domains)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        raise ParameterError("domains lists 0 for a number, k for one of k items") from None
    fits = 0 < len(sizes) <= MAX_ATTRIBUTES and d in (None, len(sizes))
    if not fits or any(size < 0 or size == 1 for size in sizes):
        raise ParameterError(f"domains lists 0 for a number, k >= 2 for k items; got {sizes}")
    return sizes


def _is_array(column: object) -> bool:
    return isinstance(column, np.ndarray) and column.ndim == 1


@dataclass(frozen=True, eq=False)
class _Sent:
    """What came in about one attribute: from whom, the bytes, and whether more bytes follow."""

    attribute: int
    inner: Mechanism
    people: Ints
    reports: Rows
    longer: Bits

    @cached_property
    def valid(self) -> Bits:
        """Which reports the attribute's mechanism takes."""
        return self.inner.valid(self.reports)

    def tally(self) -> Tally:
        """Count the reports by the attribute's mechanism."""
        return self.inner.tally(self.inner.unpack(self.reports.tobytes()))


class SampledTuple(TupleMechanism, RowReports):
    """Answer about `sample` of the attributes, each by a mechanism of its own.

    A report has for each chosen attribute, in ascending order, the attribute's number and the
    inner report, padded to the longest: every report has the same length.
    """

    sample: int

    @cached_property
    @abstractmethod
    def inner(self) -> tuple[Mechanism, ...]:
        """Each attribute's mechanism, at epsilon/sample."""

    @property
    def published(self) -> bool:
        """Whether any attribute is asked by a mechanism that breaks its promise."""
        return any(inner.published for inner in self.inner)

    # --- the shape of a report ---

    @cached_property
    def _index_bytes(self) -> int:
        return max(1, (len(self.inner).bit_length() + 7) // 8)

    @cached_property
    def _slot_bytes(self) -> int:
        return self._index_bytes + max(inner.report_bytes for inner in self.inner)

    @property
    def report_bytes(self) -> int:
        """`sample` slots."""
        return self.sample * self._slot_bytes

    @property
    def counters(self) -> int:
        """How many answered about each attribute, then the inner counters one after the other."""
        return len(self.inner) + sum(inner.counters for inner in self.inner)

    # --- device ---

    def privatize(self, values: ArrayLike, rng: Rng) -> Reports:
        """Turn columns of values into reports, one a person."""
        rng, columns = require_rng(rng), self.columns(values)
        self.require_promise(rng)
        n = len(columns[0])
        reports = np.zeros((n, self.sample, self._slot_bytes), dtype=np.uint8)
        step = max(1, PEOPLE_PER_PASS // len(columns) * 8)
        for start in range(0, n, step):
            part = slice(start, start + step)
            self._respond([column[part] for column in columns], reports[part], rng)
        return reports.reshape(n, self.report_bytes)

    def _respond(self, columns: list[NDArray[np.generic]], slots: Rows, rng: Rng) -> None:
        """Fill in the slots: choose attributes, then let each attribute's mechanism answer."""
        chosen = self._choose(len(slots), rng)
        width = self._index_bytes
        slots[:, :, :width] = chosen.astype("<u4")[:, :, None].view(np.uint8)[:, :, :width]
        for attribute, inner in enumerate(self.inner):
            person, slot = np.nonzero(chosen == attribute)
            reports = inner.privatize(columns[attribute][person], rng)
            sent = unpack_rows(inner.pack(reports), inner.report_bytes)
            slots[person, slot, width : width + inner.report_bytes] = sent

    @property
    def shares(self) -> tuple[float, ...] | None:
        """How often each attribute is asked, when one is asked and not all alike."""
        return None

    @cached_property
    def _share_ends(self) -> Ints:
        """The shares as cumulative weights out of 2^52."""
        ends = np.cumsum(np.asarray(self.shares)) / sum(self.shares or (1.0,))
        return np.rint(ends[:-1] * WHOLE).astype(np.int64)

    def _choose(self, n: int, rng: Rng) -> Ints:
        """Draw which attributes each person answers about, in ascending order."""
        d = len(self.inner)
        if self.shares is not None:
            return np.searchsorted(self._share_ends, drawn(rng.words(n)), side="right")[:, None]
        if self.sample == 1:
            return uniform(rng, n, d)[:, None]
        order = np.argsort(drawn(rng.words(n * d)).reshape(n, d), axis=1)
        return np.sort(order[:, : self.sample], axis=1)

    # --- collector ---

    def _possible(self, rows: Rows) -> Bits:
        """Attributes exist and go up, and each one's mechanism takes its report."""
        possible = self._exist(rows)
        for sent in self._sent(rows):
            possible[sent.people[sent.longer | ~sent.valid]] = False
        return possible

    def complaint(self, rows: Rows, bad: int) -> str:
        """Say which attribute is wrong, and what its mechanism has to say about it."""
        if not self._exist(rows)[bad]:
            return f"report {bad} names attributes that it cannot have"
        wrong = (sent for sent in self._sent(rows) if sent.longer.any() or not sent.valid.all())
        sent = next(wrong)
        if sent.longer.any():
            return f"a report on attribute {sent.attribute} is longer than it can be"
        problem = sent.inner.complaint(sent.reports, int(sent.valid.argmin()))
        return f"of those on attribute {sent.attribute}, {problem}"

    def _exist(self, rows: Rows) -> Bits:
        """Tell which rows name attributes that there are, in ascending order."""
        chosen = self._chosen(rows)
        rising = (np.diff(chosen, axis=1) > 0).all(axis=1)
        return np.asarray((chosen < len(self.inner)).all(axis=1) & rising)

    def _sent(self, rows: Rows) -> Iterator[_Sent]:
        """Return what was sent on each attribute in turn."""
        slots = rows.reshape(len(rows), self.sample, self._slot_bytes)[:, :, self._index_bytes :]
        chosen = self._chosen(rows)
        for attribute, inner in enumerate(self.inner):
            people, slot = np.nonzero(chosen == attribute)
            sent, width = slots[people, slot], inner.report_bytes
            longer = np.asarray(sent[:, width:].any(axis=1))
            yield _Sent(attribute, inner, people, sent[:, :width], longer)

    def _chosen(self, rows: Rows) -> Ints:
        slots = rows.reshape(len(rows), self.sample, self._slot_bytes)
        octets = np.zeros((len(rows), self.sample, 4), dtype=np.uint8)
        octets[:, :, : self._index_bytes] = slots[:, :, : self._index_bytes]
        return octets.view("<u4")[:, :, 0].astype(np.int64)

    def tally(self, reports: ArrayLike) -> Tally:
        """Count each attribute's answers by its own mechanism."""
        rows = self.checked_reports(reports)
        tallies = [sent.tally() for sent in self._sent(rows)]
        people = np.array([tally.n for tally in tallies], dtype=np.int64)
        counts = np.concatenate([people, *(tally.counts for tally in tallies)])
        return Tally(self, counts, len(rows))

    def split(self, counts: Ints) -> list[Tally]:
        """Return each attribute's own tally."""
        ends = np.cumsum([len(self.inner), *(inner.counters for inner in self.inner)])
        return [
            Tally(inner, counts[start:end], int(n))
            for inner, n, start, end in zip(self.inner, counts, ends[:-1], ends[1:], strict=False)
        ]

    def checked_counts(self, counts: Ints, n: int) -> Ints:
        """Everybody answers `sample` times, and each attribute's tally is one."""
        if int(counts[: len(self.inner)].sum()) != self.sample * n:
            raise FormatError(f"{n} people cannot have given these answers")
        self.split(counts)
        return counts

    # --- analyst ---

    def estimate(self, tally: Tally, about: str = "participants") -> TupleEstimate:
        """Return every attribute's estimate."""
        subject = About.parse(about)
        n = require_same(self, tally).n
        if n == 0:
            raise EmptyError("no reports yet: nothing to estimate")
        parts = tuple(
            part_of_all(part, n, subject, self.epsilon) for part in self.split(tally.counts)
        )
        return TupleEstimate(parts, n, self.epsilon, subject)

    def mean_vector(self, tally: Tally) -> Floats:
        """Return sum of answers / (n share): those asked stand for all (Horvitz and Thompson)."""
        n = require_same(self, tally).n
        if n == 0:
            raise EmptyError("no reports yet: nothing to estimate")
        if any(self.attributes):
            raise ParameterError("items have no mean: estimate them one by one")
        shares = np.ones(len(self.inner)) if self.shares is None else np.array(self.shares)
        shares = self.sample * shares / shares.sum()
        sums = [
            float(part.counts @ part.mechanism.design.values)
            for part in self.split(tally.counts)
            if isinstance(part.mechanism, NumericMechanism)
        ]
        return np.asarray(np.array(sums) / (n * shares))

    # --- auditor and planner ---

    def loss(self) -> Loss:
        """The product of the `sample` largest inner ratios: the choice tells nothing."""
        losses = sorted((inner.loss() for inner in self.inner), key=lambda loss: -loss.epsilon)
        worst = losses[: self.sample]
        ratio = Fraction(1)
        for loss in worst:
            if loss.ratio is None:
                return Loss(math.inf, self.epsilon, None, loss.inputs, loss.output)
            ratio *= loss.ratio
        where = f"each of {self.sample} chosen attributes: report {worst[0].output}"
        return Loss(log_above(ratio), self.epsilon, ratio, worst[0].inputs, where)

    def law_bytes(self) -> bytes:
        """The inner mechanisms' fingerprints, how many answer, and how often each."""
        ends = [] if self.shares is None else self._share_ends.tolist()
        parts = [self.sample, *ends, *(inner.fingerprint for inner in self.inner)]
        return " ".join(map(str, parts)).encode()

    @property
    def _kinds(self) -> tuple[Mechanism, ...]:
        """The different ones among the attributes' mechanisms."""
        return tuple(dict.fromkeys(self.inner))

    def _frame(self, inner: Iterable[object]) -> dict[str, Any]:
        """Lay out the law: `attributes` says which of `inner` each attribute is asked by."""
        place = {kind: number for number, kind in enumerate(self._kinds)}
        return {
            "sample": self.sample,
            "ends": [] if self.shares is None else self._share_ends.tolist(),
            "attributes": [place[inner] for inner in self.inner],
            "inner": list(inner),
        }

    def law(self) -> dict[str, Any]:
        """How many answer, how often each (cumulative, of 2^52), and the mechanisms' own laws."""
        return self._frame(kind.document() for kind in self._kinds)

    def with_law(self, law: Mapping[str, Any]) -> Self:
        """Return this mechanism with the published laws of the attributes' mechanisms."""
        try:
            laws = [entry["law"] for entry in law["inner"]]
            bare = [{key: entry[key] for key in entry if key != "law"} for entry in law["inner"]]
        except (KeyError, TypeError):
            raise FormatError("a published tuple has a list `inner`, each with a law") from None
        ours = self._frame(kind.heading() for kind in self._kinds)
        if canonical({**law, "inner": bare}) != canonical(ours):
            raise MismatchError(f"the published law is not that of {self}")
        pairs = zip(self._kinds, laws, strict=True)
        found = {kind: kind.with_law(law) for kind, law in pairs}
        planted = replace(self)
        object.__setattr__(planted, "inner", tuple(found[inner] for inner in self.inner))
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


def part_of_all(tally: Tally, n: int, subject: About, epsilon: float) -> Part:
    """Estimate one attribute from those who answered about it, a random part of n participants.

    They are n_j of n: variance = noise/n_j + spread/n_j (1 - n_j/n).
    """
    if tally.n == 0:
        raise EmptyError("nobody has answered about one of the attributes yet")
    people, population = (tally.mechanism.estimate(tally, about) for about in About)
    if isinstance(people, TupleEstimate) or isinstance(population, TupleEstimate):
        raise ParameterError("a tuple cannot be an attribute of a tuple")
    share = 1 - tally.n / n if subject is About.PARTICIPANTS else 1.0
    extra = np.maximum(np.square(population.stderr) - np.square(people.stderr), 0.0)
    if tally.n < ENOUGH and isinstance(people, Estimate):
        extra = 1 / tally.n  # few people cannot tell how far apart all of them are
    stderr: Any = np.sqrt(np.square(people.stderr) + (extra * share if share else 0.0))
    stderr = float(stderr) if isinstance(people, Estimate) else stderr
    return replace(people, stderr=stderr, epsilon=epsilon, about=subject)
