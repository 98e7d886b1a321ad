"""What is kept beside a tally, so that a grown folder is not read again from the start.

    OUT.state/state.json              which parts were counted, and how they were when they were
    OUT.state/lock                    held by the program that is counting
    OUT.state/part-<16 hex>.npz       what one part adds up to
    OUT.state/part-<16 hex>.spill     its ids and rows (`spill`), .npy its index; with duplicates

The rows are all reports once more: only the owner reads these files. Each has checksums: a state
that is damaged is an error, never a number.
A part whose name, size, time or ends have changed is read again; one that is gone is taken out. A
tally is a function of what the parts hold, and of nothing else: the same bytes as from scratch.
Only files of these names are ever deleted.
"""

from __future__ import annotations

import json
import re
import secrets
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from murmuration.campaign.form import ReportForm
from murmuration.counting.engines.parts import Part
from murmuration.counting.engines.spill import Salt, Spilled, new_salt
from murmuration.counting.sums import Sums
from murmuration.errors import FormatError, ParameterError
from murmuration.files import alone, private_folder, private_new, write_file

FORMAT = 2
NAME, LOCK = "state.json", "lock"
NAMED = re.compile(r"[0-9a-f]{16}")
OURS = re.compile(r"part-[0-9a-f]{16}\.(npz|npy|spill)")


@dataclass(frozen=True)
class Known:
    """A part that was counted, as it was then, and the names of the files that say so."""

    name: str
    size: int
    changed: int
    ends: int
    sums: str
    spills: tuple[str, ...] = ()


@dataclass
class State:
    """A folder of what is known; `begin` reads it, `save` writes it."""

    folder: Path
    digest: str
    dedup: bool
    salt: Salt = field(default_factory=new_salt)
    name: str = field(default_factory=lambda: secrets.token_hex(8))
    """Of these files as a collector, where others merge what they add up to."""
    parts: dict[str, Known] = field(default_factory=dict)

    @classmethod
    @contextmanager
    def begin(cls, folder: Path, form: ReportForm, *, dedup: bool, fresh: bool) -> Iterator[State]:
        """Yield what is known of these reports; nothing, if it is of others or cannot be used.

        Meanwhile no other program may: its unfinished files would be deleted.
        """
        private_folder(folder)
        busy = f"another program is counting with {folder}: wait for it, or take another --output"
        with alone(folder / LOCK, busy):
            yield cls._begun(folder, form, dedup, fresh)

    @classmethod
    def _begun(cls, folder: Path, form: ReportForm, dedup: bool, fresh: bool) -> State:
        state = cls(folder, form.digest, dedup)
        known = None
        with suppress(*(ParameterError,) * fresh):
            known = state._read()
        if known is not None and not fresh:
            state = known
        else:
            state.name = state.name if known is None else known.name
            (folder / NAME).unlink(missing_ok=True)  # first: without it the others mean nothing
        state.tidy()
        return state

    def _read(self) -> State | None:
        try:
            head = json.loads((self.folder / NAME).read_bytes())
            same = (head["format"], head["digest"], head["dedup"]) == (
                FORMAT,
                self.digest,
                self.dedup,
            )
            checked = not same or head.pop("checksum") == _checksum(head)
            first, second = map(int, head["salt"])
            name = head["name"]
            listed = [
                Known(**{**known, "spills": tuple(known["spills"])}) for known in head["parts"]
            ]
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            raise ParameterError(
                f"{self.folder / NAME} cannot be read: --fresh counts from the start"
            ) from None
        files = [file for known in listed for file in (known.sums, *known.spills)]
        own = [isinstance(file, str) and OURS.fullmatch(file) for file in files]
        if not all(own) or not (isinstance(name, str) and NAMED.fullmatch(name)):
            raise ParameterError(f"{self.folder / NAME} names files outside its folder")
        if not same:
            return None
        if not checked:
            raise ParameterError(f"{self.folder / NAME} is damaged: --fresh counts from the start")
        parts = {known.name: known for known in listed}
        return State(self.folder, self.digest, self.dedup, (first, second), name, parts)

    def save(self) -> None:
        """Write which parts are known: from now on their files count."""
        head = {
            "format": FORMAT,
            "digest": self.digest,
            "dedup": self.dedup,
            "salt": list(self.salt),
            "name": self.name,
            "parts": [asdict(self.parts[name]) for name in sorted(self.parts)],
        }
        write_file(self.folder / NAME, json.dumps({**head, "checksum": _checksum(head)}))

    def tidy(self) -> None:
        """Delete our files that no part names: of parts that are gone, or were never finished."""
        used = {name for known in self.parts.values() for name in (known.sums, *known.spills)}
        used |= {Path(name).with_suffix(".npy").name for name in used if name.endswith(".spill")}
        for path in self.folder.iterdir():
            if OURS.fullmatch(path.name) and path.name not in used:
                path.unlink()

    def is_known(self, part: Part) -> bool:
        """Whether a part was counted as it is now."""
        known = self.parts.get(part.name)
        same = known is not None and (known.size, known.changed) == (part.size, part.changed)
        return same and known is not None and known.ends == part.ends()

    def forget(self, names: Iterable[str]) -> None:
        """Leave parts out."""
        for name in names:
            self.parts.pop(name, None)

    def place(self, ending: str) -> Path:
        """Return the path of a new file."""
        return self.folder / f"part-{secrets.token_hex(8)}.{ending}"

    def note(self, part: Part, ends: int, sums: Sums, spills: Iterable[Spilled]) -> None:
        """Keep what a part adds up to."""
        path = self.place("npz")
        _save(path, sums)
        names = tuple(one.path.name for one in spills)
        known = Known(part.name, part.size, part.changed, ends, path.name, names)
        self.parts[part.name] = known

    def sums(self) -> Iterable[Sums]:
        """Yield what each part adds up to."""
        for known in self.parts.values():
            yield _load(self.folder / known.sums)

    def spilled(self, row_bytes: int) -> list[Spilled]:
        """Return all files of ids."""
        names = [name for known in self.parts.values() for name in known.spills]
        return [Spilled.load(self.folder / name, row_bytes) for name in names]


def _checksum(head: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(head, sort_keys=True).encode())


def _save(path: Path, sums: Sums) -> None:
    periods = sorted(sums.periods)
    arrays = {f"period_{period}": sums.periods[period] for period in periods}
    head: dict[str, Any] = {"read": sums.read, "refused": dict(sums.refused), "periods": periods}
    front = np.frombuffer(json.dumps(head).encode(), np.uint8)
    with private_new(path) as file:
        np.savez(file, head=front, **arrays)  # type: ignore[arg-type]


def _load(path: Path) -> Sums:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as data:
            head = json.loads(data["head"].tobytes())
            periods = {int(period): data[f"period_{period}"] for period in head["periods"]}
        return Sums(int(head["read"]), 0, Counter(head["refused"]), periods)
    except Exception as problem:  # a damaged archive fails in many ways
        raise FormatError(f"{path} is damaged ({problem}): --fresh makes it again") from None
