"""The key that collectors share, as a file: readable by its owner alone, never printed.

Whoever has it could make reports that every sketch has, and so keep tallies from being merged; it
opens nothing else.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from murmuration.errors import ParameterError

FEW = 1 << 10


def write(path: Path, secret: bytes) -> None:
    """Write a key to a new file; one that is there is left alone."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o600), "w", encoding="ascii") as file:
        file.write(secret.hex() + "\n")
        file.flush()
        os.fsync(file.fileno())


def read(path: Path) -> bytes:
    """Read a key; refuse a file that others may read, and say nothing of what is in it."""
    with path.open("rb") as file:
        mode = os.fstat(file.fileno()).st_mode
        if not stat.S_ISREG(mode) or mode & 0o077:
            raise ParameterError(f"others may read {path}, and a key is a secret: chmod 600 {path}")
        data = file.read(FEW)
    try:
        return bytes.fromhex(data.decode("ascii"))
    except ValueError:
        raise ParameterError(f"{path} has no key in it") from None
