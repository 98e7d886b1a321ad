"""What every mechanism promises.

A mechanism is a frozen dataclass whose fields are its parameters. It holds no state, no
generator, and does no I/O. The device calls `privatize`, the collector `tally`, the analyst
`estimate`, the auditor `loss`, the planner `variance`.

    values --checked by the domain--> respond --> reports --to_rows--> bytes --from_rows--> count

Reports are integers in whatever shape suits the mechanism (see `packing`); on the wire each is a
row of `report_bytes` bytes. `tally` and `unpack` check what they are given against the alphabet;
`count` and `from_rows` are for what has been checked.
"""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from murmuration.errors import (
    EmptyError,
    FormatError,
    MismatchError,
    ParameterError,
    PromiseError,
    ReportError,
)
from murmuration.exact.arrays import Bits, Floats, Ints, Reports, Rows
from murmuration.exact.loss import Loss
from murmuration.exact.randomness import Rng, require_rng
from murmuration.mechanisms.domain import Domain, Values
from murmuration.mechanisms.tally import Tally, require_same
from murmuration.mechanisms.trial import ChanceTrial, Trial
from murmuration.results.answered import AnswerCounts
from murmuration.results.distribution import Distribution
from murmuration.results.estimate import About, AnyEstimate
from murmuration.statistics.forgery import Evidence
from murmuration.statistics.liars import Reach
from murmuration.statistics.sequence import Terms

MIN_EPSILON = 1e-3
"""Below this, rounding to a 52-bit word is no longer small beside epsilon."""
MAX_EPSILON = 20.0
"""Above this, e^epsilon no longer leaves room for exact weights in a 52-bit word."""


class Task(StrEnum):
    """What a mechanism's reports are for."""

    MEAN = "mean"
    DISTRIBUTION = "distribution"
    FREQUENCY = "frequency"
    VECTOR = "vector"


@dataclass(frozen=True)
class Mechanism(ABC):
    """How one answer is randomised, and how many are read together."""

    name: ClassVar[str]
    answers: ClassVar[Task]
    takes: ClassVar[type[Domain]]
    """What kind of domain it is for; `domain` is the domain itself."""
    paper: ClassVar[str]
    summary: ClassVar[str]
    keeps_promise: ClassVar[bool] = True
    """False only for a mechanism that is built as published although its loss exceeds epsilon."""
    memoised: ClassVar[bool] = False
    """True where it is made for a question that is asked again: no choice for asking once."""
    graded: ClassVar[bool] = False
    """True where `epsilon` has a budget for each range or item."""
    sent: ClassVar[bool] = True
    """False where devices never send it: a collector makes it of what they sent."""
    by_value: ClassVar[bool] = True
    """Where answers are kept: whether each value has one of its own, drawn by words of its own."""
    variants: ClassVar[tuple[Mapping[str, Any], ...]] = ({},)
    """Parameters that are worth a line of their own in a comparison."""
    adds: ClassVar[tuple[int, int]] = (0, 1)
    """The least and the most that one person adds to a counter."""

    epsilon: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", checked_epsilon(self.epsilon))

    @property
    @abstractmethod
    def domain(self) -> Domain:
        """What it takes."""

    @property
    def budget(self) -> float:
        """The most that any two values may be told apart: epsilon, unless it is graded."""
        return self.epsilon

    def answering(self, attribute: int) -> Mechanism:
        """Return the mechanism that answers one attribute: this one, or one inside it."""
        del attribute
        return self

    def shares_asked(self) -> list[float]:
        """Return how many of the people are asked about each attribute."""
        return [1.0]

    @property
    def title(self) -> str:
        """What people are told that it is."""
        return self.name

    def or_none(self) -> Mechanism:
        """Return the law by which the same answer may also be missing."""
        raise ParameterError(f"{self.name} has no law for missing answers")

    def without_none(self) -> Mechanism:
        """Return the law by which the same answer cannot be missing."""
        return self

    def stricter(self, way: tuple[float, ...]) -> Mechanism:
        """Return the law of this one's reports when they were made to tell less.

        way: what they tell when they are sent, and after each step
        """
        del way
        raise ParameterError(f"reports of {self.name} cannot be converted to tell less")

    def convert(self, reports: Reports, step: int, rng: Rng) -> Reports:
        """COLLECTOR. Make reports tell less: take one step of the way down."""
        del reports, step, rng
        raise ParameterError(f"{self.name} is no law of reports that are made to tell less")

    @property
    def parameters(self) -> dict[str, Any]:
        """The fields by name: what makes this mechanism this one."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    # --- device ---

    def privatize(self, values: ArrayLike, rng: Rng) -> Reports:
        """DEVICE. Turn private values into reports, one each. One person is an array of one."""
        rng, checked = require_rng(rng), self.domain.checked(values)
        self.require_promise(rng)
        return self.drawn(checked, rng)

    def drawn(self, checked: Values, rng: Rng) -> Reports:
        """Draw the reports of checked values, so many people at a time."""
        people, step = self.domain.count(checked), self.people_per_pass
        if people <= step:
            return self.respond(checked, rng)
        some = [slice(start, start + step) for start in range(0, people, step)]
        return np.concatenate(
            [self.respond(self.domain.part(checked, who), rng.only(who)) for who in some]
        )

    @abstractmethod
    def respond(self, checked: Values, rng: Rng) -> Reports:
        """Return the reports of checked values: no randomness but the generator's.

        Coins that no answer decides and that the report shows come from `rng.public()`; who draws
        again draws from `rng.only(who)`. Then people together send what each would alone.
        """

    @property
    def people_per_pass(self) -> int:
        """How many people are randomised at once."""
        return 1 << 17

    def remember(self, values: ArrayLike, rng: Rng) -> Reports:
        """DEVICE. Draw permanent answers, for a question that is asked again."""
        del values, rng
        raise ParameterError(f"{self.name} is for asking once: it has no permanent answers")

    def repeat(self, answers: ArrayLike, rng: Rng) -> Reports:
        """DEVICE. Make one report of each permanent answer, with fresh noise."""
        del answers, rng
        raise ParameterError(f"{self.name} is for asking once: it has no permanent answers")

    # --- wire ---

    @property
    @abstractmethod
    def report_bytes(self) -> int:
        """The size of a report on the wire: the same whole number of bytes for every value."""

    @abstractmethod
    def to_rows(self, reports: Reports) -> Rows:
        """Return reports as rows of bytes, unchecked."""

    @abstractmethod
    def from_rows(self, rows: Rows) -> Reports:
        """Return rows of bytes as reports, unchecked."""

    @abstractmethod
    def possible(self, reports: Reports) -> Bits:
        """Tell for each report whether a device can have sent it."""

    @abstractmethod
    def complaint(self, reports: Reports, bad: int) -> str:
        """Say what is wrong with report number `bad`, which is not possible."""

    @abstractmethod
    def shaped(self, reports: ArrayLike) -> Reports:
        """Return reports of the right shape and type, or say what was given instead."""

    def checked_reports(self, reports: ArrayLike) -> Reports:
        """Return the reports, or say which one no device can have sent."""
        shaped = self.shaped(reports)
        if not (possible := self.possible(shaped)).all():
            raise ReportError(self.complaint(shaped, int(possible.argmin())))
        return shaped

    def pack(self, reports: ArrayLike) -> bytes:
        """Serialise reports, `report_bytes` each."""
        return self.to_rows(self.checked_reports(reports)).tobytes()

    def unpack(self, data: bytes) -> Reports:
        """Read what `pack` wrote; refuse a truncated tail and what no device can have sent."""
        if len(data) % self.report_bytes:
            raise FormatError(
                f"{len(data)} bytes are not a whole number of {self.report_bytes}-byte reports"
            )
        rows = np.frombuffer(data, dtype=np.uint8).reshape(-1, self.report_bytes)
        return self.checked_reports(self.from_rows(rows))

    def valid(self, rows: Rows) -> Bits:
        """COLLECTOR. Tell for each row of packed bytes whether a device can have sent it.

        It is so exactly when `unpack` takes the row's bytes.
        """
        checked = checked_rows(rows, self.report_bytes, self.name)
        return self.possible(self.from_rows(checked))

    # --- collector ---

    @property
    @abstractmethod
    def counters(self) -> int:
        """The length of a tally."""

    def tally(self, reports: ArrayLike) -> Tally:
        """COLLECTOR. Check reports against the alphabet, then count them."""
        checked = self.checked_reports(reports)
        return Tally(self, self.count(checked), len(checked))

    @abstractmethod
    def count(self, reports: Reports) -> Ints:
        """Return what checked reports add up to."""

    @abstractmethod
    def checked_counts(self, counts: Ints, n: int) -> Ints:
        """Return the counters, or say why n people cannot have produced them."""

    def empty(self) -> Tally:
        """Return the tally of nobody, which changes nothing when added."""
        return Tally(self, np.zeros(self.counters, dtype=np.int64), 0)

    # --- analyst ---

    @abstractmethod
    def estimate(
        self, tally: Tally, about: str = "participants", everybody: int | None = None
    ) -> AnyEstimate:
        """ANALYST. Read a tally: unbiased, with a standard error.

        `everybody` is how many took part in all, where the people of this tally were drawn from
        them at random: then the estimate is about everybody, and its error allows for that.
        """

    def distribution(
        self, tally: Tally, method: str = "auto", bins: int = 64, replicates: int = 0
    ) -> Distribution:
        """ANALYST. Read the whole distribution of a number, where the reports can show it."""
        del tally, method, bins, replicates
        raise ParameterError(f"{self.name} is not for a number: it shows no distribution")

    def answered(self, tally: Tally) -> int:
        """Return how many people a tally of this mechanism counts; refuse one that counts none."""
        n = require_same(self, tally).n
        if n == 0:
            raise EmptyError("no reports yet: nothing to estimate")
        return n

    def subject(self, tally: Tally, about: str) -> tuple[int, About]:
        """Return how many people a tally counts, and about whom it is to be read."""
        parsed = About.parse(about)
        return self.answered(tally), parsed

    # --- auditor ---

    def loss(self) -> Loss:
        """AUDITOR. The exact worst case, from the integers that `respond` uses."""
        return self._loss

    @cached_property
    def _loss(self) -> Loss:
        return self.exact_loss()

    @abstractmethod
    def exact_loss(self) -> Loss:
        """Work out the loss; `loss` keeps it."""

    @property
    def promise_kept(self) -> bool:
        """Whether the exact loss is within the budget."""
        return self.loss().holds

    @property
    def charge(self) -> float:
        """What one report costs a person's ledger: the budget, or more if the loss is more."""
        return max(self.budget, self.loss().epsilon)

    def long_run(self) -> Loss | None:
        """AUDITOR. What any number of reports about one value tell; None if it is asked once."""
        return None

    def loss_of(self, reports: int) -> Loss:
        """AUDITOR. What so many reports about one value tell, where it is kept."""
        del reports
        raise ParameterError(f"{self.name} is for asking once: it has no permanent answers")

    def told_by_changes(self, reports: int) -> float:
        """AUDITOR. What so many reports tell, where answers are kept and the value changes."""
        del reports
        raise ParameterError(f"{self.name} is for asking once: it has no permanent answers")

    def public_part(self, report: Reports) -> list[int]:
        """AUDITOR. Return what one report shows that no answer decides: its public coins.

        `report` is an array with one report. Nothing, unless `respond` draws from `rng.public()`.
        """
        del report
        return []

    def bias(self) -> float:
        """AUDITOR. Return how far off one report is read on average, at most.

        In parts of the largest reading, where the law tells; else 0, and trials have to tell.
        """
        return 0.0

    @abstractmethod
    def trials(self) -> Iterator[Trial]:
        """AUDITOR. Yield what the sampler is tried on, with what the law says must come out."""

    def chance_trials(self) -> Iterator[ChanceTrial]:
        """AUDITOR. Those of the trials that count reports: they can be run inside a frame, too."""
        for trial in self.trials():
            if isinstance(trial, ChanceTrial):
                yield trial

    # --- planner ---

    @abstractmethod
    def variance(self, x: ArrayLike) -> Floats:
        """PLANNER. Variance of one report's estimate when the true value is x."""

    @abstractmethod
    def worst_variance(self) -> float:
        """PLANNER. The largest variance over all true values."""

    def squared_errors(self, x: Floats, n: int) -> Floats:
        """PLANNER. The variance of estimates from n reports, where the true values are x."""
        return self.variance(x) / n

    def quiet_error(self, n: int) -> float:
        """PLANNER. The variance of an estimate from n reports before anything is known."""
        return self.worst_variance() / n

    def cost(self, share: float = 1.0) -> float:
        """PLANNER. Noise + (1 - share) spread of one report, for the crowd that is hardest.

        Summed over all items of an item mechanism; of one attribute where there are several.
        `share` of the people are asked; that they are a sample themselves is the second part.
        """
        del share
        return self.worst_variance()

    def reach(self) -> Reach | None:
        """PLANNER. The least and the most that one report is read as, and an honest one on average.

        Of one item, or of one attribute where there are several. It bounds what liars can do
        (`statistics.liars`); None where an estimate is no mean of single reports.
        """
        return None

    def evidence(self, tally: Tally) -> Iterator[Evidence]:
        """ANALYST. Yield what is to be looked at to see reports that honest devices never send.

        Every bound holds whatever people have answered. Nothing, where nothing is known.
        """
        del tally
        yield from ()

    def terms(self) -> tuple[Terms, ...]:
        """ANALYST. What single reports are read as, for each number that is their mean.

        Nothing where that is not all: reports that are not independent of each other, or that are
        read together.
        """
        return ()

    def term_sums(self, tally: Tally) -> tuple[Floats, ...]:
        """ANALYST. Return the sums of these terms over the reports of a tally."""
        del tally
        return ()

    def answer_counts(self, tally: Tally) -> AnswerCounts:
        """ANALYST. Return what reports say of the share that answered and of the mean among it."""
        del tally
        raise MismatchError(f"{self.name} has no report for a missing answer")

    def noise_covariance(self, one: ArrayLike, other: ArrayLike) -> Floats:
        """Return n Cov of two items' estimated frequencies, given their true ones."""
        del one, other
        raise MismatchError(f"{self.name} does not read shares of items")

    def sum_noise(self, items: int) -> tuple[float, float]:
        """Return the noise of the sum of so many frequencies, times n: at 0, and how it grows."""
        del items
        raise MismatchError(f"{self.name} does not read shares of items")

    def sum_reach(self, items: int) -> Reach:
        """Return what one report may be read as, for the sum of so many frequencies."""
        del items
        raise MismatchError(f"{self.name} does not read shares of items")

    def lies(self) -> Floats:
        """ANALYST. Return what a report may add to a sum and to the number of people who answered.

        A row of two for each corner of what is possible; here nothing is known.
        """
        return np.full((1, 2), math.inf)

    @property
    def opposition(self) -> float:
        """ANALYST. By how much two reports of a person vary against each other, at most.

        Minus the least covariance of what an estimate reads from them, over any two values. Where
        it is 0 a change between two periods varies by no more than if all reports were independent.
        """
        return 0.0

    def kept_share(self) -> float:
        """PLANNER. The part of a report's variance that comes again in the same person's next."""
        return 0.0

    @property
    def work(self) -> int:
        """PLANNER. About how many steps the collector takes for one report, to count and read."""
        return self.report_bytes

    @property
    def workspace(self) -> int:
        """PLANNER. How many numbers the analyst holds at once while reading a tally."""
        return self.counters

    # --- the law as data ---

    @abstractmethod
    def law(self) -> dict[str, Any]:
        """Return the integers that decide a report, as JSON: a device need not compute them.

        They are below 2^53, so that a browser reads them exactly; larger ones are text.
        """

    def law_bytes(self) -> bytes:
        """Return the law as bytes: part of the fingerprint."""
        return canonical(self.law()).encode()

    def with_law(self, law: Mapping[str, Any]) -> Self:
        """Return this mechanism with the integers that were published for it.

        Here they follow exactly from the parameters: others are refused.
        """
        if canonical(law) != canonical(self.law()):
            raise MismatchError(f"the published law is not that of {self}")
        return self

    def heading(self) -> dict[str, Any]:
        """Return name and parameters as JSON."""
        parameters = json.loads(json.dumps(self.parameters))
        return {"mechanism": self.name, "parameters": parameters}

    def document(self) -> dict[str, Any]:
        """Return all that a device has to know, as JSON: name, parameters and law."""
        return {**self.heading(), "law": self.law()}

    @cached_property
    def fingerprint(self) -> str:
        """A digest of name, parameters and law. Only tallies with equal fingerprints add up."""
        header = json.dumps([self.name, self.parameters], sort_keys=True).encode()
        return hashlib.sha256(header + b"\0" + self.law_bytes()).hexdigest()

    # --- broken promises ---

    @property
    def broken(self) -> bool:
        """Whether it is built as published although its loss exceeds its budget."""
        return not self.keeps_promise

    def require_promise(self, rng: Rng) -> None:
        """Refuse to send anything by a law whose exact loss exceeds its budget.

        A mechanism that is broken as published may be simulated, with a seeded generator. With any
        other it sends only when its loss was accepted in words (`audit.admission`).
        """
        allowed = self.broken and (rng.simulated or self._loss_accepted)
        if not allowed and not self.promise_kept:
            hint = " (simulate with seeded_rng, or see murmuration.admit)" if self.broken else ""
            raise PromiseError(
                f"{self}: the exact loss {self.loss().epsilon!r} exceeds its budget; nothing was "
                f"sent{hint}"
            )

    @property
    def _loss_accepted(self) -> bool:
        return bool(self.__dict__.get("_accepted"))

    @cached_property
    def caveat(self) -> str:
        """What an estimate has to say about its reports: nothing, unless a promise was broken."""
        if not self.broken or self.promise_kept:
            return ""
        return f"the exact loss of these reports is {self.loss().epsilon:.4g}, not {self.budget:g}"

    def accepting_its_loss(self) -> Self:
        """Return the same mechanism, allowed to send although it breaks its promise.

        Only `audit.admission.admit` calls this, after the operator has said what it costs.
        """
        accepted = copy.copy(self)
        object.__setattr__(accepted, "_accepted", True)
        return accepted


def canonical(law: object) -> str:
    """Write a published law as text that is the same for equal laws.

    Some languages write 1.0 as 1, so that must be the same; true is not.

    >>> canonical({"truth": 3.0, "lie": 1})
    '{"lie": 1, "truth": 3}'
    """
    try:
        text = json.dumps(dict(law))  # type: ignore[call-overload]
        return json.dumps(json.loads(text, parse_float=_shortest), sort_keys=True)
    except (TypeError, ValueError, RecursionError):
        raise FormatError("a published law is a JSON object") from None


def _shortest(text: str) -> int | float:
    number = float(text)
    return int(number) if number.is_integer() else number


def checked_rows(reports: ArrayLike, width: int, name: str) -> Rows:
    """Return rows of `width` bytes, or say what was got instead."""
    rows = np.asarray(reports)
    if rows.dtype != np.uint8 or rows.ndim != 2 or rows.shape[1] != width:
        raise ReportError(
            f"reports of {name} are rows of {width} bytes (uint8); got {rows.dtype} of shape "
            f"{rows.shape}"
        )
    return rows


def checked_epsilon(epsilon: object) -> float:
    """Return epsilon as a float, or say what is wrong with it."""
    try:
        value = float(epsilon)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise ParameterError(f"epsilon must be a number; got {epsilon!r}") from None
    if isinstance(epsilon, bool) or not (
        math.isfinite(value) and MIN_EPSILON <= value <= MAX_EPSILON
    ):
        raise ParameterError(
            f"epsilon must be {MIN_EPSILON:g} to {MAX_EPSILON:g} (typical: 0.5 to 4); "
            f"got {epsilon!r}"
        )
    return value
