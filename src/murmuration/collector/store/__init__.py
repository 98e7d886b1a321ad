"""The collector's memory: reports, tallies and tokens, durable. SQLite unless told otherwise."""

from __future__ import annotations

from pathlib import Path

from murmuration.collector.store.base import (
    Merged,
    Store,
    StoreError,
    StoreFullError,
    StoreGoneError,
    Token,
)
from murmuration.errors import ParameterError

__all__ = [
    "Merged",
    "Store",
    "StoreError",
    "StoreFullError",
    "StoreGoneError",
    "Token",
    "open_store",
]


def open_store(url: str | Path, *, create: bool = True, readonly: bool = False) -> Store:
    """Open the store at a URL: sqlite:///reports.db (or just a path), or postgresql://...

    `create=False` refuses a file that is not there: reading nothing would look like no reports.
    `readonly=True` creates nothing, and does not wait for programs that write.
    """
    text = str(url)
    if text.startswith(("postgresql://", "postgres://")):
        from murmuration.collector.store.postgres import PostgresStore

        return PostgresStore(text, readonly=readonly)
    if "://" in text and not text.startswith("sqlite:///"):
        scheme = text.split("://")[0]
        raise ParameterError(f"a store is sqlite:///file or postgresql://...; got {scheme}://")
    from murmuration.collector.store.sqlite import SqliteStore

    path = Path(text.removeprefix("sqlite:///"))
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise ParameterError(f"{path} is a pipe or a device: a store is a file")
    if (readonly or not create) and not path.is_file():
        raise ParameterError(f"there is no store at {path}")
    return SqliteStore(path, readonly=readonly)
