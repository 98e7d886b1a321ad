"""What every mechanism promises.

A mechanism is a frozen dataclass whose fields are its parameters. It holds no state, no
generator, and does no I/O. The device calls `privatize`, the collector `tally`, the analyst
`estimate`, the auditor `loss`, the planner `variance`.
"""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from murmuration.errors import (
    FormatError,
    MismatchError,
    ParameterError,
    PromiseError,
    ReportError,
)
from murmuration.exact.arrays import Bits, Floats, Ints, Reports, Rows
from murmuration.exact.loss import Loss
from murmuration.exact.randomness import Rng
from murmuration.mechanisms.tally import Tally
from murmuration.results.estimate import AnyEstimate

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
    paper: ClassVar[str]
    summary: ClassVar[str]
    keeps_promise: ClassVar[bool] = True
    """False only for a mechanism that is built as published although its loss exceeds epsilon."""
    adds: ClassVar[tuple[int, int]] = (0, 1)
    """The least and the most that one person adds to a counter."""

    epsilon: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", checked_epsilon(self.epsilon))

    @property
    def budget(self) -> float:
        """The most that any two values may be told apart: epsilon, unless it is graded."""
        return self.epsilon

    @property
    @abstractmethod
    def report_bytes(self) -> int:
        """The size of a report on the wire: the same whole number of bytes for every value."""

    @property
    @abstractmethod
    def counters(self) -> int:
        """The length of a tally."""

    @abstractmethod
    def privatize(self, values: ArrayLike, rng: Rng) -> Reports:
        """DEVICE. Turn private values into reports, one each. One person is an array of one."""

    @abstractmethod
    def tally(self, reports: ArrayLike) -> Tally:
        """COLLECTOR. Check reports against the alphabet, then count them."""

    @abstractmethod
    def estimate(self, tally: Tally, about: str = "participants") -> AnyEstimate:
        """ANALYST. Read a tally: unbiased, with a standard error."""

    @abstractmethod
    def loss(self) -> Loss:
        """AUDITOR. The exact worst case, from the integers that `privatize` uses."""

    @abstractmethod
    def variance(self, x: ArrayLike) -> Floats:
        """PLANNER. Variance of one report's estimate when the true value is x."""

    @abstractmethod
    def worst_variance(self) -> float:
        """PLANNER. The largest variance over all true values."""

    @property
    def work(self) -> int:
        """PLANNER. About how many steps the collector takes for one report, to count and read."""
        return self.report_bytes

    @property
    def workspace(self) -> int:
        """PLANNER. How many numbers the analyst holds at once while reading a tally."""
        return self.counters

    @abstractmethod
    def law_bytes(self) -> bytes:
        """Return the integers that decide a report, as bytes: part of the fingerprint."""

    @abstractmethod
    def law(self) -> dict[str, Any]:
        """Return the integers that decide a report, as JSON: a device need not compute them.

        They are below 2^53, so that a browser reads them exactly; larger ones are text.
        """

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

    @property
    def parameters(self) -> dict[str, Any]:
        """The fields by name: what makes this mechanism this one."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    @cached_property
    def fingerprint(self) -> str:
        """A digest of name, parameters and law. Only tallies with equal fingerprints add up."""
        header = json.dumps([self.name, self.parameters], sort_keys=True).encode()
        return hashlib.sha256(header + b"\0" + self.law_bytes()).hexdigest()

    @abstractmethod
    def pack(self, reports: ArrayLike) -> bytes:
        """Serialise reports, `report_bytes` each."""

    @abstractmethod
    def unpack(self, data: bytes) -> Reports:
        """Read what `pack` wrote; refuse a truncated tail and what no device can have sent."""

    def valid(self, rows: Rows) -> Bits:
        """COLLECTOR. Tell for each row of packed bytes whether a device can have sent it.

        It is so exactly when `unpack` takes the row's bytes.
        """
        return self._possible(checked_rows(rows, self.report_bytes, self.name))

    @abstractmethod
    def _possible(self, rows: Rows) -> Bits:
        """Return `valid` of rows that have the right width."""

    @abstractmethod
    def complaint(self, rows: Rows, bad: int) -> str:
        """Say what is wrong with row number `bad`, which is not valid."""

    @abstractmethod
    def checked_counts(self, counts: Ints, n: int) -> Ints:
        """Return the counters, or say why n people cannot have produced them."""

    @property
    def published(self) -> bool:
        """Whether it is built as published although its loss exceeds its budget."""
        return not self.keeps_promise

    def require_promise(self, rng: Rng) -> None:
        """Refuse to send anything by a law whose exact loss exceeds its budget.

        A mechanism that is built as published may be simulated, with a seeded generator. With the
        operating system's it sends only when its loss was accepted in words (`audit.admission`).
        """
        allowed = self.published and (rng.simulated or self._loss_accepted)
        if not allowed and not self._promise_kept:
            hint = " (simulate with seeded_rng, or see admission)" if self.published else ""
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
        if not self.published or self._promise_kept:
            return ""
        return f"the exact loss of these reports is {self.loss().epsilon:.4g}, not {self.budget:g}"

    def accepting_its_loss(self) -> Self:
        """Return the same mechanism, allowed to send although it breaks its promise.

        Only `audit.admission.admit` calls this, after the operator has said what it costs.
        """
        accepted = copy.copy(self)
        object.__setattr__(accepted, "_accepted", True)
        return accepted

    @cached_property
    def _promise_kept(self) -> bool:
        return self.loss().holds

    def empty(self) -> Tally:
        """Return the tally of nobody, which changes nothing when added."""
        return Tally(self, np.zeros(self.counters, dtype=np.int64), 0)


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
