"""The key that collectors share: in a store, and as a file that only its owner reads.

Whoever has it could make reports that every sketch has, and so keep tallies from being merged, and
could work out the noise by which exported reports were made to tell less (`campaign.stricter`).
It opens nothing else.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from secrets import token_bytes

from murmuration.collector.store import Store
from murmuration.errors import ParameterError
from murmuration.files import write_file

FEW = 1 << 10
SECRET_BYTES = 32


def shared_key(store: Store, others: bytes | None = None) -> bytes:
    """Return the key of a store; if it has none it takes the others', or makes one."""
    with store.transaction():
        secret = store.merge_secret()
        if secret is None:
            secret = others or token_bytes(SECRET_BYTES)
            store.set_merge_secret(secret)
        return secret


def take_key(store: Store, secret: bytes) -> None:
    """Give a store the key that others have. Sketches under another key say nothing any more."""
    if len(secret) != SECRET_BYTES:
        raise ParameterError(f"a key is {SECRET_BYTES} bytes; this one has {len(secret)}")
    if store.merge_secret() == secret:
        return
    if store.merge_secret_pinned():
        raise ParameterError(
            "reports of this store were exported with --at-most, by noise that follows from its "
            "key: under another key they would be exported with noise of its own, which averages "
            "out. Give this store's key to the other collectors instead"
        )
    store.set_merge_secret(secret)


def write(path: Path, secret: bytes) -> None:
    """Write a key to a new file; one that is there is left alone."""
    write_file(path, f"{secret.hex()}\n", replacing=False)


def read(path: Path) -> bytes:
    """Read a key; refuse a file that others may read, and say nothing of what is in it."""
    with path.open("rb") as file:
        mode = os.fstat(file.fileno()).st_mode
        if not stat.S_ISREG(mode) or mode & 0o077:
            raise ParameterError(f"others may read {path}, and a key is a secret: chmod 600 {path}")
        data = file.read(FEW)
    try:
        secret = bytes.fromhex(data.decode("ascii"))
    except ValueError:
        raise ParameterError(f"{path} has no key in it") from None
    if len(secret) != SECRET_BYTES:
        raise ParameterError(f"a key is {SECRET_BYTES} bytes; {path} has {len(secret)}")
    return secret
