"""The person's key, in a file of its own beside the ledger, with their limits and what was spent.

The key decides every word that the device draws (`device.words`). It lies apart from the ledger for
two reasons: a ledger that is copied, lost or stolen tells nothing about answers without it, and one
that is restored from a backup does not bring back a budget that was spent since. A key file and its
ledger that are both restored cannot know better: what they send again is the same, byte for byte,
but what they sent since then to other campaigns is forgotten. The permanent answers of spells
(`campaign.spells`) are noted in both, too: what a device has said in a spell it says until its end.
"""

from __future__ import annotations

import json
import math
import os
import stat
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Final

from murmuration.errors import FormatError, LedgerError
from murmuration.exact.keyed import SECRET_BYTES, Key

FORMAT: Final = 1
Cost = Fraction | float
"""A fraction, or infinity (the only float that is kept)."""
Kept = dict[bytes, bytes]
"""The permanent answers of spells, hidden, by the names that follow from the key."""
Totals = dict[tuple[str, str], Cost]
"""What was ever spent, by collector's origin and campaign."""


class Secret:
    """A key in memory, and no file: only the ledger knows what was spent.

    >>> Secret(Key(bytes(32))).spent()
    {}
    """

    def __init__(self, key: Key) -> None:
        self._key = key

    @classmethod
    def of(cls, given: bytes | str | Path | None, ledger: Path) -> Secret:
        """Return the secret that was named: 32 bytes, or a file, `LEDGER.key` by default."""
        if isinstance(given, bytes):
            return Secret(Key(given))
        return SecretFile(Path(f"{ledger}.key") if given is None else Path(given))

    @property
    def key(self) -> Key:
        """The key."""
        return self._key

    @property
    def there(self) -> bool:
        """Whether it has been made."""
        return True

    def make(self) -> None:
        """Make the key if there is none."""

    def spent(self) -> Totals:
        """Return the totals that were noted."""
        return {}

    def note(self, totals: Totals, kept: Kept | None = None) -> None:
        """Note totals that are more than before, and answers of spells that are new."""

    def kept(self) -> Kept:
        """Return the permanent answers of spells that were noted."""
        return {}

    def gone(self, name: bytes) -> bytes | None:
        """Return the mark of what was let go under a name; None: nothing was, or nobody knows."""
        del name
        return None

    def let_go(self, name: bytes, mark: bytes) -> bool:
        """Note, once and for all, what is let go under a name; False if it is something else."""
        del name, mark
        return True

    def limits(self) -> dict[str, Cost]:
        """Return the person's limits, as they were noted last."""
        return {}

    def note_limits(self, limits: Mapping[str, Cost]) -> None:
        """Note the person's limits."""


class SecretFile(Secret):
    """A key in a file that only its owner reads; made by the operating system, once."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()

    @property
    def there(self) -> bool:
        """Whether the file has been made."""
        return os.path.lexists(self.path)

    def make(self) -> None:
        """Make the file if there is none."""
        if not self.there:
            text = _text(_Noted(os.urandom(SECRET_BYTES)))
            made_whole(self.path, lambda draft: draft.write_text(text))

    @property
    def key(self) -> Key:
        """The key."""
        return Key(self._read().secret)

    def spent(self) -> Totals:
        """Return the totals that were noted; none, if the file has not been made."""
        return self._read().spent if self.there else {}

    def kept(self) -> Kept:
        """Return the permanent answers of spells that were noted; none, if there is no file."""
        return self._read().kept if self.there else {}

    def note(self, totals: Totals, kept: Kept | None = None) -> None:
        """Note larger totals durably: written aside, then put in place of the old ones.

        The answer of a spell that was noted first stays: it may have been sent.
        """
        before = self._read()
        after = replace(
            before, spent=larger(before.spent, totals), kept={**(kept or {}), **before.kept}
        )
        if after != before:
            self._write(_text(after))

    def gone(self, name: bytes) -> bytes | None:
        """Return the mark of what was let go under a name: a file beside the key, made once."""
        try:
            return bytes.fromhex(self._gone(name).read_text(encoding="ascii"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError):
            raise LedgerError(
                f"{self._gone(name)} cannot be read: it says what was sent. Nothing was sent."
            ) from None

    def let_go(self, name: bytes, mark: bytes) -> bool:
        """Note what is let go, durably; of several at once the first counts, for everybody."""
        path = self._gone(name)
        try:
            path.parent.mkdir(mode=0o700, exist_ok=True)
            _sync(path.parent.parent)
        except OSError as problem:
            raise LedgerError(
                f"{path.parent} cannot be made: {problem.strerror}. Nothing was sent."
            ) from None
        made_whole(path, lambda draft: draft.write_text(mark.hex(), encoding="ascii"))
        return self.gone(name) == mark

    def _gone(self, name: bytes) -> Path:
        """The file of a name; beside the key itself, by whichever link it was named."""
        key = self.path.resolve()
        return key.parent / f"{key.name}.sent" / name.hex()

    def limits(self) -> dict[str, Cost]:
        """Return the person's limits, as they were noted last; none, if there is no file."""
        return self._read().limits if self.there else {}

    def note_limits(self, limits: Mapping[str, Cost]) -> None:
        """Note the person's limits durably: an old copy of the ledger does not undo them."""
        before = self._read()
        after = replace(before, limits={**before.limits, **limits})
        if after != before:
            self._write(_text(after))

    def _write(self, text: str) -> None:
        # The file itself, by whichever link it was named: a link is not put in its place.
        made_whole(self.path.resolve(), lambda draft: draft.write_text(text), over=True)

    def _read(self) -> _Noted:
        try:
            with open(self.path, encoding="utf-8") as file:
                _require_private(self.path, os.fstat(file.fileno()))
                found = json.load(file)
            if found["murmuration"] != "key" or found["format"] != FORMAT:
                raise ValueError
            secret = bytes.fromhex(found["secret"])
            Key(secret)  # of the right length
            spent = {(origin, name): read_cost(cost) for origin, name, cost in found["spent"]}
            limits = {name: read_cost(most) for name, most in found["limits"].items()}
            kept = found.get("kept", {}).items()
            return _Noted(
                secret, spent, limits, {bytes.fromhex(n): bytes.fromhex(a) for n, a in kept}
            )
        except OSError as problem:
            raise LedgerError(
                f"the key {self.path} cannot be read: {problem.strerror}. Nothing was sent."
            ) from None
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise FormatError(f"{self.path} is not a device's key, or is damaged") from None

    def __repr__(self) -> str:
        return f"SecretFile({str(self.path)!r})"


@dataclass(frozen=True)
class _Noted:
    """What a key's file says."""

    secret: bytes = field(repr=False)
    spent: Totals = field(default_factory=dict)
    limits: dict[str, Cost] = field(default_factory=dict)
    kept: Kept = field(default_factory=dict, repr=False)


def _text(noted: _Noted) -> str:
    spent = sorted(noted.spent.items())
    table: dict[str, object] = {
        "murmuration": "key",
        "format": FORMAT,
        "secret": noted.secret.hex(),
        "limits": {name: str(most) for name, most in noted.limits.items()},
        "spent": [[origin, name, str(cost)] for (origin, name), cost in spent],
    }
    if noted.kept:  # by name: in no order of time
        table["kept"] = {name.hex(): answer.hex() for name, answer in sorted(noted.kept.items())}
    return json.dumps(table) + "\n"


def larger(one: Totals, other: Totals) -> Totals:
    """Return the larger of the totals of each campaign.

    >>> larger({("a", "x"): Fraction(1)}, {("a", "x"): Fraction(2), ("b", "x"): Fraction(1)})
    {('a', 'x'): Fraction(2, 1), ('b', 'x'): Fraction(1, 1)}
    """
    return {**one, **{whose: max(cost, one.get(whose, cost)) for whose, cost in other.items()}}


def _require_private(path: Path, found: os.stat_result) -> None:
    if os.name == "posix" and stat.S_IMODE(found.st_mode) & 0o077:
        raise LedgerError(
            f"others on this machine can read the key {path}: chmod 600 it. Nothing was sent."
        )


def read_cost(text: str) -> Cost:
    """Return a cost that was written: a fraction such as 1/10, or inf.

    >>> read_cost("1/10")
    Fraction(1, 10)
    """
    try:
        cost = math.inf if text == "inf" else Fraction(text)
    except (TypeError, ValueError, ZeroDivisionError):
        raise FormatError("a cost that was noted cannot be read") from None
    if not cost >= 0:
        raise FormatError("a cost that was noted is below 0")
    return cost


def made_whole(path: Path, write: Callable[[Path], object], over: bool = False) -> None:
    """Make a file whole, readable by its owner only, then give it its name, durably.

    So a file of that name is never half made. Where there is one already, it stays, unless this one
    is to replace it.
    """
    try:
        with tempfile.TemporaryDirectory(prefix=".murmur-", dir=path.parent) as folder:
            draft = Path(folder) / "draft"
            os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            write(draft)
            _sync(draft)
            if over:
                os.replace(draft, path)
            else:
                os.link(draft, path)
            _sync(path.parent)
    except FileExistsError:
        return  # another process was first: its file is the one
    except OSError as problem:
        raise LedgerError(f"{path} cannot be made: {problem.strerror}. Nothing was sent.") from None


def _sync(path: Path) -> None:
    """Make a file, or new names in a folder, survive a power cut."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
