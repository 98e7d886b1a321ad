"""The tally: the collector's only state, integers that add.

tally(a ++ b) == tally(a) + tally(b), bit for bit, in any order, on any machine.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from murmuration.errors import FormatError, MismatchError
from murmuration.exact.arrays import Ints

if TYPE_CHECKING:
    from murmuration.mechanisms.base import Mechanism

MAX_PEOPLE = 1 << 40
"""More people than that cannot be counted: sums of counters stay below 2^63."""

MAGIC = b"MURMTALY"
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
            _HEAD.pack(MAGIC, _VERSION, len(header)) + header + self.counts.astype("<i8").tobytes()
        )
        return body + _CRC.pack(zlib.crc32(body))

    @classmethod
    def from_bytes(cls, data: bytes, mechanism: Mechanism | None = None) -> Self:
        """Read a tally of this mechanism; anything else is refused with the reason.

        Without a mechanism it is the one that the bytes name, if its law comes out the same here: a
        table that was solved elsewhere may not.
        """
        fits = mechanism is None or hasattr(mechanism, "fingerprint")
        if not isinstance(data, bytes) or not fits:
            raise FormatError("from_bytes takes the bytes, then the mechanism they belong to")
        header, counts = _split(data)
        mechanism = mechanism or _named(header)
        if header.get("fingerprint") != mechanism.fingerprint:
            theirs = f"{header.get('mechanism')} {header.get('parameters')}"
            raise MismatchError(f"this is a tally of {theirs}, not of {mechanism}")
        return cls(mechanism, np.frombuffer(counts, dtype="<i8"), header["n"])


def _split(data: bytes) -> tuple[dict[str, Any], bytes]:
    """Return header and counts of a serialised tally, or say why they cannot be read."""
    if len(data) < _HEAD.size + _CRC.size or not data.startswith(MAGIC):
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
    """Read the JSON header, which anyone may have written."""
    try:
        header = json.loads(text)
        if isinstance(header, dict) and all(type(header[key]) is int for key in ("counters", "n")):
            return header
    except (ValueError, KeyError, RecursionError):
        pass
    raise FormatError("this tally's header cannot be read")


def _named(header: dict[str, Any]) -> Mechanism:
    """Make the mechanism that a header names."""
    from murmuration.mechanisms.registry import from_heading  # here: it imports every mechanism

    return from_heading({key: header.get(key) for key in ("mechanism", "parameters")})


def require_same(mechanism: Mechanism, tally: Tally) -> Tally:
    """Refuse a tally of another mechanism, or of the same one with other parameters."""
    if not isinstance(tally, Tally):
        raise MismatchError(f"expected a tally; got {type(tally).__name__}")
    if tally.mechanism.fingerprint != mechanism.fingerprint:
        raise MismatchError(f"a tally of {tally.mechanism} does not belong to {mechanism}")
    return tally
