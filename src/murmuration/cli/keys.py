"""The secret that simulated devices' keys follow from: made for a run, or kept in a file."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

from murmuration.errors import ParameterError
from murmuration.exact.keyed import SECRET_BYTES, Key
from murmuration.files import write_file


def key_of(path: Path | None) -> Key:
    """Return the key that the devices' keys follow from: kept in a file, or made for this run."""
    if path is None:
        return Key.new()
    try:
        _make(path)
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW)) as file:
            shared, text = os.fstat(file.fileno()).st_mode & 0o077, file.read(1 << 10)
        secret = bytes.fromhex(text)
    except OSError as problem:
        raise ParameterError(f"the secret {path} cannot be used: {problem.strerror}") from None
    except ValueError:
        secret, shared = b"", 0
    if len(secret) != SECRET_BYTES:
        raise ParameterError(
            f"{path} does not hold a secret: {2 * SECRET_BYTES} hexadecimal digits"
        )
    if shared:
        raise ParameterError(f"others may read the secret {path}: say chmod 600 {path} first")
    return Key(secret)


def _make(path: Path) -> None:
    """Make a secret, for the owner's eyes only, unless there is a file."""
    if path.is_symlink() or path.exists():
        return
    with suppress(FileExistsError):  # another process was first: its secret is the one
        write_file(path, f"{secrets.token_hex(SECRET_BYTES)}\n", replacing=False)
