"""What every mechanism promises, and the tally: the collector's only state.

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
import struct
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from murmuration.errors import (
    FormatError,
    MismatchError,
    ParameterError,
    PromiseError,
    ReportError,
)
from murmuration.estimate import AnyEstimate
from murmuration.law import Floats, Ints
from murmuration.loss import Loss
from murmuration.randomness import Rng

Reports = NDArray[np.unsignedinteger]
Rows = NDArray[np.uint8]
Bits = NDArray[np.bool_]

MIN_EPSILON = 1e-3
"""Below this, rounding to a 52-bit word is no longer small beside epsilon."""
MAX_EPSILON = 20.0
"""Above this, e^epsilon no longer leaves room for exact weights in a 52-bit word."""
MAX_PEOPLE = 1 << 40
"""More people than that cannot be counted: sums of counters stay below 2^63."""
COUNT_CHUNK = 1 << 18
"""Reports per counting pass: bincount makes a copy of eight bytes a report."""


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


class SymbolMechanism(Mechanism):
    """A mechanism whose report is one integer in 0 .. symbols-1, and whose tally counts them."""

    @property
    @abstractmethod
    def symbols(self) -> int:
        """The size of the alphabet."""

    @property
    def counters(self) -> int:
        """One counter a symbol."""
        return self.symbols

    @property
    def report_bytes(self) -> int:
        """The fewest whole bytes that hold any symbol."""
        return max(1, (max(self.symbols - 1, 1).bit_length() + 7) // 8)

    def pack(self, reports: ArrayLike) -> bytes:
        """Serialise reports, little-endian, `report_bytes` each."""
        return pack_integers(self.checked_reports(reports), self.report_bytes)

    def unpack(self, data: bytes) -> Reports:
        """Read what `pack` wrote; refuse a truncated tail and symbols outside the alphabet."""
        return self.checked_reports(unpack_integers(data, self.report_bytes))

    def checked_reports(self, reports: ArrayLike) -> Reports:
        """Return the reports in the smallest type, or say which one no device can have sent."""
        array = np.asarray(reports)
        if array.ndim != 1 or (array.dtype.kind not in "ui" and array.size):
            raise ReportError(
                f"reports are a flat array of integers; got {array.dtype} of shape {array.shape}"
            )
        if not (inside := self._inside(array)).all():
            raise ReportError(self._outside(array, int(inside.argmin())))
        return array.astype(np.min_scalar_type(self.symbols - 1), copy=False)

    def _inside(self, symbols: NDArray[np.integer]) -> Bits:
        """Tell which symbols are in the alphabet."""
        return np.asarray((symbols >= 0) & (symbols < self.symbols))

    def _outside(self, symbols: NDArray[np.integer], bad: int) -> str:
        return (
            f"report {symbols[bad]} at position {bad} is outside the alphabet "
            f"0..{self.symbols - 1} of {self.name}"
        )

    def _possible(self, rows: Rows) -> Bits:
        return self._inside(unpack_integers(rows.tobytes(), self.report_bytes))

    def complaint(self, rows: Rows, bad: int) -> str:
        """Name the symbol, its place and the alphabet."""
        return self._outside(unpack_integers(rows.tobytes(), self.report_bytes), bad)

    def tally(self, reports: ArrayLike) -> Tally:
        """Count each symbol."""
        checked = self.checked_reports(reports)
        counts = np.zeros(self.symbols, dtype=np.int64)
        for start in range(0, len(checked), COUNT_CHUNK):
            chunk = checked[start : start + COUNT_CHUNK]
            counts += np.bincount(chunk, minlength=self.symbols)
        return Tally(self, counts, len(checked))

    def checked_counts(self, counts: Ints, n: int) -> Ints:
        """Every person is counted once."""
        if int(counts.sum()) != n:
            raise FormatError(f"{n} people cannot have sent {int(counts.sum())} reports")
        return counts


def pack_integers(reports: Reports, width: int) -> bytes:
    """Serialise integers little-endian in `width` bytes each."""
    if reports.dtype.itemsize == width:
        return reports.astype(reports.dtype.newbyteorder("<"), copy=False).tobytes()
    octets = reports.astype("<u8").view(np.uint8).reshape(-1, 8)
    return octets[:, :width].tobytes()


def unpack_integers(data: bytes, width: int) -> Reports:
    """Read what `pack_integers` wrote."""
    if len(data) % width:
        raise FormatError(f"{len(data)} bytes are not a whole number of {width}-byte reports")
    if width in (1, 2, 4):
        return np.frombuffer(data, dtype=f"<u{width}")
    octets = np.zeros((len(data) // width, 8), dtype=np.uint8)
    octets[:, :width] = np.frombuffer(data, dtype=np.uint8).reshape(-1, width)
    return octets.view("<u8").ravel()


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


# --- the tally ---------------------------------------------------------------------------------

_MAGIC = b"MURMTALY"
_VERSION = 1
_HEAD = struct.Struct("<8sHI")  # magic, version, length of the JSON header
_CRC = struct.Struct("<I")


@dataclass(frozen=True, eq=False)
class Tally:
    """A mechanism, its counters, and how many people they count. Adding tallies is adding people.

    tally(a ++ b) == tally(a) + tally(b), bit for bit, in any order, on any machine.
    """

    mechanism: Mechanism
    counts: Ints
    n: int

    def __post_init__(self) -> None:
        given = np.asarray(self.counts)
        whole = given.dtype.kind in "iu" and isinstance(self.n, int)
        if given.shape != (self.mechanism.counters,) or not whole:
            raise FormatError(
                f"{self.mechanism.name} has {self.mechanism.counters} whole counters; got "
                f"{given.dtype} of shape {given.shape}"
            )
        low, high = (self.n * most for most in self.mechanism.adds)
        if not 0 <= self.n <= MAX_PEOPLE or not low <= given.min() <= given.max() <= high:
            raise FormatError(f"counters of {self.n} people are between {low} and {high}")
        counts = self.mechanism.checked_counts(given.astype(np.int64), self.n)
        counts.setflags(write=False)
        object.__setattr__(self, "counts", counts)

    def __add__(self, other: Tally) -> Tally:
        if not isinstance(other, Tally):
            return NotImplemented
        require_same(self.mechanism, other)
        return Tally(self.mechanism, self.counts + other.counts, self.n + other.n)

    def __radd__(self, other: object) -> Tally:
        return self if other == 0 else NotImplemented  # so that sum(tallies) works

    def __repr__(self) -> str:
        return f"Tally({self.mechanism}, n={self.n:,})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tally) and self.to_bytes() == other.to_bytes()

    def __hash__(self) -> int:
        return hash(self.to_bytes())

    @staticmethod
    def merge(parts: Iterable[Tally]) -> Tally:
        """Add up tallies of one mechanism, in any order."""
        if isinstance(parts, Tally):
            raise MismatchError("Tally.merge takes a list of tallies; two of them add with +")
        tallies = list(parts)
        if not tallies:
            raise FormatError("there is nothing to merge: a tally belongs to a mechanism")
        return sum(tallies[1:], start=tallies[0])

    def to_bytes(self) -> bytes:
        """Magic, version, JSON header, little-endian counts, checksum."""
        header = json.dumps(
            {
                "mechanism": self.mechanism.name,
                "parameters": self.mechanism.parameters,
                "fingerprint": self.mechanism.fingerprint,
                "counters": self.mechanism.counters,
                "n": self.n,
            },
            sort_keys=True,
        ).encode()
        body = (
            _HEAD.pack(_MAGIC, _VERSION, len(header)) + header + self.counts.astype("<i8").tobytes()
        )
        return body + _CRC.pack(zlib.crc32(body))

    @classmethod
    def from_bytes(cls, data: bytes, mechanism: Mechanism) -> Self:
        """Read a tally of this mechanism; anything else is refused with the reason."""
        if not isinstance(data, bytes) or not isinstance(mechanism, Mechanism):
            raise FormatError("from_bytes takes the bytes, then the mechanism they belong to")
        header, counts = _split(data)
        if header.get("fingerprint") != mechanism.fingerprint:
            theirs = f"{header.get('mechanism')} {header.get('parameters')}"
            raise MismatchError(f"this is a tally of {theirs}, not of {mechanism}")
        return cls(mechanism, np.frombuffer(counts, dtype="<i8"), header["n"])


def _split(data: bytes) -> tuple[dict[str, Any], bytes]:
    """Return header and counts of a serialised tally, or say why they cannot be read."""
    if len(data) < _HEAD.size + _CRC.size or not data.startswith(_MAGIC):
        raise FormatError("these bytes are not a tally")
    _, version, length = _HEAD.unpack_from(data)
    if version != _VERSION:
        raise FormatError(f"tally format {version} is unknown; this release reads {_VERSION}")
    body, (crc,) = data[: -_CRC.size], _CRC.unpack(data[-_CRC.size :])
    if zlib.crc32(body) != crc:
        raise FormatError("this tally is truncated or damaged (its checksum does not match)")
    header, counts = _parsed(body[_HEAD.size : _HEAD.size + length]), body[_HEAD.size + length :]
    if len(counts) != 8 * header["counters"]:
        raise FormatError(f"this tally should hold {header['counters']} counters")
    return header, counts


def _parsed(text: bytes) -> dict[str, Any]:
    """Read the JSON header, whoever wrote it."""
    try:
        header = json.loads(text)
        if isinstance(header, dict) and all(type(header[key]) is int for key in ("counters", "n")):
            return header
    except (ValueError, KeyError, RecursionError):
        pass
    raise FormatError("this tally's header cannot be read")


def require_same(mechanism: Mechanism, tally: Tally) -> Tally:
    """Refuse a tally of another mechanism, or of the same one with other parameters."""
    if not isinstance(tally, Tally):
        raise MismatchError(f"expected a tally; got {type(tally).__name__}")
    if tally.mechanism.fingerprint != mechanism.fingerprint:
        raise MismatchError(f"a tally of {tally.mechanism} does not belong to {mechanism}")
    return tally
