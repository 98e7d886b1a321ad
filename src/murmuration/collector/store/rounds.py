"""The rounds of a training in a store: each as it was published, in which state it is.

A round is published, is open, and then closed for good (its reports count) or set aside (they do
not). What it has counted is in `tallies`, under a key of its own (`own`). What training has ended
with is one document.
"""

from __future__ import annotations

from dataclasses import dataclass

from murmuration.collector.store.base import Store

OPEN, CLOSED, ASIDE = "open", "closed", "aside"
_COLUMNS = "round, own, digest, document, opened, state"


@dataclass(frozen=True)
class StoredRound:
    """A round as the store has it."""

    number: int
    """From 1 on."""
    own: int
    """The key under which its tallies are, and its reports where they are kept."""
    digest: str
    document: bytes
    opened: int
    """Seconds since 1970."""
    state: str


def rounds(store: Store, key: int) -> list[StoredRound]:
    """Return all rounds of a training, in order."""
    sql = f"SELECT {_COLUMNS} FROM rounds WHERE key = ? ORDER BY round"  # noqa: S608
    return [_kept(*row) for row in store.execute(sql, (key,))]


def latest(store: Store, key: int) -> StoredRound | None:
    """Return the round that was published last."""
    sql = f"SELECT {_COLUMNS} FROM rounds WHERE key = ? ORDER BY round DESC LIMIT 1"  # noqa: S608
    rows = store.execute(sql, (key,))
    return _kept(*rows[0]) if rows else None


def numbered(store: Store, key: int, number: int) -> StoredRound | None:
    """Return the round of that number."""
    sql = f"SELECT {_COLUMNS} FROM rounds WHERE key = ? AND round = ?"  # noqa: S608
    rows = store.execute(sql, (key, number))
    return _kept(*rows[0]) if rows else None


def digests(store: Store, key: int) -> dict[str, int]:
    """Return the numbers of all rounds that were published, by their digests."""
    rows = store.execute("SELECT digest, round FROM rounds WHERE key = ?", (key,))
    return {str(digest): int(number) for digest, number in rows}


def publish(store: Store, key: int, number: int, digest: str, document: bytes, now: int) -> None:
    """Keep a new round, which is open from now on."""
    with store.transaction():
        own = store.open_collection(digest)
        store.execute(
            f"INSERT INTO rounds (key, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)",  # noqa: S608
            (key, number, own, digest, document, now, OPEN),
        )


def settle(store: Store, key: int, number: int, state: str) -> None:
    """Close an open round, or set it aside: for good."""
    with store.transaction():
        store.execute(
            "UPDATE rounds SET state = ? WHERE key = ? AND round = ? AND state = ?",
            (state, key, number, OPEN),
        )


def finish(store: Store, key: int, document: bytes) -> None:
    """Keep what training has ended with."""
    with store.transaction():
        store.execute("INSERT INTO models (key, document) VALUES (?, ?)", (key, document))


def finished(store: Store, key: int) -> bytes | None:
    """Return what training has ended with, if it has."""
    rows = store.execute("SELECT document FROM models WHERE key = ?", (key,))
    return bytes(rows[0][0]) if rows else None


def _kept(
    number: int, own: int, digest: str, document: bytes, opened: int, state: str
) -> StoredRound:
    return StoredRound(int(number), int(own), str(digest), bytes(document), int(opened), str(state))
