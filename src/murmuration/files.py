"""Files that are whole or not there, and files and folders that only their owner reads."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import IO

from murmuration.errors import ParameterError

OWNER, ANYBODY = 0o600, 0o666
"""Who may read a file, as far as the user's own settings (umask) allow."""
OWNERS = 0o700
"""Who may look into a folder."""


@contextmanager
def draft_of(path: Path, mode: int = OWNER, *, replacing: bool = True) -> Iterator[Path]:
    """Make an empty file beside `path`; when the caller has filled it, it takes the name.

    Only its owner reads it, unless another `mode` is given. What had the name is replaced, and a
    link that somebody planted there is replaced too, never followed; or, if not `replacing`, it
    stays and `FileExistsError` is raised. If anything fails, nothing has changed.
    """
    part = path.with_name(f".{path.name}.{token_hex(8)}.part")
    try:
        os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_WRONLY, mode))
        yield part
        _sync(part)
        if replacing:
            part.replace(path)
        else:
            os.link(part, path)
        sync_folder(path.parent)
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def private_file(path: Path, mode: int = OWNER, *, replacing: bool = True) -> Iterator[IO[bytes]]:
    """Open a new file to write; when it is whole, it takes the name: see `draft_of`."""
    with draft_of(path, mode, replacing=replacing) as part, part.open("wb") as file:
        yield file


def write_file(path: Path, data: bytes | str, mode: int = OWNER, *, replacing: bool = True) -> None:
    """Write a file whole: see `draft_of`."""
    with private_file(path, mode, replacing=replacing) as file:
        file.write(data.encode() if isinstance(data, str) else data)


def private_new(path: Path) -> IO[bytes]:
    """Open a new file, unbuffered, that only its owner reads; a name that is taken is an error."""
    flags = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_WRONLY
    return os.fdopen(os.open(path, flags, OWNER), "wb", buffering=0)


def private_folder(path: Path) -> None:
    """Make a folder that only its owner looks into; one that is there becomes such a folder."""
    path.mkdir(mode=OWNERS, parents=True, exist_ok=True)
    path.chmod(OWNERS)


@contextmanager
def alone(lock: Path, otherwise: str) -> Iterator[None]:
    """Let no other program that asks for this lock go on meanwhile; `otherwise` says what to do."""
    handle = os.open(lock, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, OWNER)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise ParameterError(otherwise) from None
    finally:
        os.close(handle)


def sync_folder(folder: Path) -> None:
    """Make new names in a folder survive a power cut."""
    _sync(folder)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
