"""The tally: the collector's only state, integers that add.

tally(a ++ b) == tally(a) + tally(b), bit for bit, in any order, on any machine.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from murmuration.errors import FormatError, MismatchError
from murmuration.exact.arrays import Ints

if TYPE_CHECKING:
    from murmuration.mechanisms.base import Mechanism

MAX_PEOPLE = 1 << 40
"""More people than that cannot be counted: sums of counters stay below 2^63."""

MAGIC, VERSION = b"MURMTLYS", 1
HEAD = struct.Struct("<8sHII")
"""Magic, version, length of the JSON head, checksum of all that follows."""
UNREADABLE = "the head of these tallies cannot be read"


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
        """Serialise: mechanism, fingerprint and people in the head, then little-endian counts."""
        head = {
            "mechanism": self.mechanism.name,
            "parameters": self.mechanism.parameters,
            "fingerprint": self.mechanism.fingerprint,
            "n": self.n,
        }
        return sealed(head, self.counts.astype("<i8").tobytes())

    @classmethod
    def from_bytes(cls, data: bytes, mechanism: Mechanism | None = None) -> Self:
        """Read a tally of this mechanism; anything else is refused with the reason.

        Without a mechanism it is the one that the bytes name, if its law comes out the same here: a
        table that was solved elsewhere may not.
        """
        fits = mechanism is None or hasattr(mechanism, "fingerprint")
        if not isinstance(data, bytes) or not fits:
            raise FormatError("from_bytes takes the bytes, then the mechanism they belong to")
        head, body = unsealed(data)
        if "mechanism" not in head or type(head.get("n")) is not int:
            raise FormatError("these bytes are not the tally of one mechanism")
        mechanism = mechanism or _named(head)
        if head.get("fingerprint") != mechanism.fingerprint:
            theirs = f"{head.get('mechanism')} {head.get('parameters')}"
            raise MismatchError(f"this is a tally of {theirs}, not of {mechanism}")
        if len(body) != 8 * mechanism.counters:
            raise FormatError(f"this tally should hold {mechanism.counters} counters")
        return cls(mechanism, np.frombuffer(body, dtype="<i8"), head["n"])


def sealed(head: Mapping[str, Any], body: bytes) -> bytes:
    """Return tallies as bytes: of one mechanism, or of a campaign (`counting.container`).

    The same head and body are the same bytes.
    """
    text = json.dumps(head, sort_keys=True).encode()
    return HEAD.pack(MAGIC, VERSION, len(text), zlib.crc32(text + body)) + text + body


def unsealed(data: bytes) -> tuple[dict[str, Any], bytes]:
    """Return the head and the body, which anyone may have written, or say what is wrong."""
    if len(data) < HEAD.size or not data.startswith(MAGIC):
        raise FormatError("these bytes are not tallies")
    _, version, length, checksum = HEAD.unpack_from(data)
    if version != VERSION:
        raise FormatError(f"tally format {version} is unknown; this release reads {VERSION}")
    rest = data[HEAD.size :]
    if length > len(rest) or zlib.crc32(rest) != checksum:
        raise FormatError("these tallies are cut off or damaged (their checksum does not match)")
    try:
        head = json.loads(rest[:length])
    except (ValueError, RecursionError):
        head = None
    if not isinstance(head, dict):
        raise FormatError(UNREADABLE)
    return head, rest[length:]


def _named(head: dict[str, Any]) -> Mechanism:
    """Make the mechanism that a head names."""
    from murmuration.mechanisms.registry import from_heading  # here: it imports every mechanism

    return from_heading({key: head.get(key) for key in ("mechanism", "parameters")})


def require_same(mechanism: Mechanism, tally: Tally) -> Tally:
    """Refuse a tally of another mechanism, or of the same one with other parameters."""
    if not isinstance(tally, Tally):
        raise MismatchError(f"expected a tally; got {type(tally).__name__}")
    if tally.mechanism.fingerprint != mechanism.fingerprint:
        raise MismatchError(f"a tally of {tally.mechanism} does not belong to {mechanism}")
    return tally
