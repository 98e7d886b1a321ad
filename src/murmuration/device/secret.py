"""The person's key: 32 bytes in a file of its own, or in the app's keeping.

It decides every word that the device draws (`device.words`), and never changes. It lies apart from
the ledger: a ledger that is copied, lost or stolen tells nothing about answers without it. What was
spent under a key is in its record (`device.record`), one file beside it.
"""

from __future__ import annotations

import json
import os
import stat
from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path
from typing import Final

from murmuration.errors import FormatError, LedgerError
from murmuration.exact.keyed import SECRET_BYTES, Key
from murmuration.files import private_file

FORMAT: Final = 1


class Secret(ABC):
    """Where a key is, and where its record lies."""

    @staticmethod
    def of(given: bytes | str | Path | None, ledger: Path) -> Secret:
        """Return the secret that was named: 32 bytes, or a file, `LEDGER.key` by default."""
        if isinstance(given, bytes):
            return SecretBytes(Key(given), ledger)
        return SecretFile(Path(f"{ledger}.key") if given is None else Path(given))

    @property
    @abstractmethod
    def record(self) -> Path:
        """The file that says what was spent under the key."""

    @property
    @abstractmethod
    def there(self) -> bool:
        """Whether the key has been made."""

    @property
    @abstractmethod
    def may_be_new(self) -> bool:
        """Whether it may be that nothing was ever spent under it."""

    @abstractmethod
    def make(self) -> None:
        """Make the key if there is none."""

    @abstractmethod
    def read(self) -> Key:
        """Return the key."""


class SecretBytes(Secret):
    """A key that the app brings; its record lies beside the ledger."""

    def __init__(self, key: Key, ledger: Path) -> None:
        self._key, self._ledger = key, ledger

    @property
    def record(self) -> Path:
        """The file that says what was spent, as far as this ledger knows."""
        return Path(f"{self._ledger}.record")

    @property
    def there(self) -> bool:
        """It is."""
        return True

    @property
    def may_be_new(self) -> bool:
        """Nobody can tell: a key without a file and without a ledger is taken for new."""
        return True

    def make(self) -> None:
        """It is there."""

    def read(self) -> Key:
        """Return the key."""
        return self._key


class SecretFile(Secret):
    """A key in a file that only its owner reads; made by the operating system, once."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()

    @property
    def record(self) -> Path:
        """The file beside the key itself, by whichever link it was named."""
        return Path(f"{self.path.resolve()}.record")

    @property
    def there(self) -> bool:
        """Whether the file has been made."""
        return os.path.lexists(self.path)

    @property
    def may_be_new(self) -> bool:
        """Only before its file is made."""
        return not self.there

    def make(self) -> None:
        """Make the file if there is none; of several at once, the first counts for everybody."""
        text = {"murmuration": "key", "format": FORMAT, "secret": os.urandom(SECRET_BYTES).hex()}
        try:
            with (
                suppress(FileExistsError),
                private_file(self.path, replacing=False) as file,
            ):
                file.write(f"{json.dumps(text)}\n".encode())
        except OSError as problem:
            raise LedgerError(
                f"the key {self.path} cannot be made: {problem.strerror}. Nothing was sent."
            ) from None

    def read(self) -> Key:
        """Return the key, if nobody else on this machine can read it."""
        try:
            with open(self.path, encoding="utf-8") as file:
                _require_private(self.path, os.fstat(file.fileno()))
                table = json.load(file)
            if table["murmuration"] != "key" or table["format"] != FORMAT:
                raise ValueError
            return Key(bytes.fromhex(table["secret"]))
        except OSError as problem:
            raise LedgerError(
                f"the key {self.path} cannot be read: {problem.strerror}. Nothing was sent."
            ) from None
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise FormatError(f"{self.path} is not a device's key, or is damaged") from None

    def __repr__(self) -> str:
        return f"SecretFile({str(self.path)!r})"


def _require_private(path: Path, status: os.stat_result) -> None:
    if os.name == "posix" and stat.S_IMODE(status.st_mode) & 0o077:
        raise LedgerError(
            f"others on this machine can read the key {path}: chmod 600 it. Nothing was sent."
        )
