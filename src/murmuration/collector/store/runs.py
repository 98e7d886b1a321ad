"""Reports in sorted runs: random ids are as cheap as any.

In a B-tree each random id changes a page of its own. Here a group of reports is appended as a run,
sorted by id and cut into blocks; runs of about one size are merged into a larger one, up to a size
at which a merge takes a fraction of a second. All of it is part of the transaction that adds the
group, so a crash leaves the runs of before or of after.

    runs      one row per run: its campaign's key, how many reports, the bytes of a row, its filter,
              and the part that it belongs to
    blocks    its reports, 128 to a row: first id, all ids, all rows

To find which ids are known, a process keeps the runs' filters (`filters.py`) and the first id of
each block in memory, 2 to 8 bytes per report. Within a transaction it first takes notice of
the runs that others have made or merged since. An id that some filter takes for known is looked up
in that run's block: what is stored decides.

Merging also takes away the traces of who arrived together: within a run, reports are in the order
of their ids.

What is written to a folder (`collector/files/folder.py`) is closed first: all runs that belong to
no part get the name of a new one, and nothing is added to a part, so its reports stay the same for
good. Only runs of one part are merged.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from murmuration.collector.store import filters
from murmuration.collector.store.filters import Hashes, Shelf, Words
from murmuration.errors import FormatError
from murmuration.wire.ids import ID_BYTES, in_order

Octets = NDArray[np.uint8]
Mask = NDArray[np.bool_]
Texts = NDArray[np.bytes_]

BLOCK = 128
"""Reports in a block: what is read to look up one id."""
TIERS = (1 << 8, 1 << 13, 1 << 18)
"""Runs of up to so many reports count as of one size; none has more."""
MERGED = 64
"""So many runs of a size become one."""
MOST_BYTES = 6 << 20
"""Of a run that was merged: more would keep a commit waiting for seconds."""
MOST_ASKED = 500
"""Blocks that are asked for in one statement."""
CHUNK_BLOCKS = 400
"""Blocks that are read together: about 50,000 reports."""


class Database(Protocol):
    """What runs need of a store."""

    def execute(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run one statement and return its rows."""

    def execute_many(self, sql: str, values: Sequence[Sequence[Any]]) -> None:
        """Run one statement for each row of values."""


@dataclass(frozen=True)
class Run:
    """What is known of a run without reading it."""

    number: int
    n: int
    width: int
    firsts: Texts
    """The first id of each block."""
    part: str = ""
    """The part that it belongs to; none as long as reports are added."""

    @property
    def grows(self) -> bool:
        """Whether it may be merged into a larger one as reports arrive."""
        return not self.part and 4 * self.n <= most(self.width)

    def starts(self, ids: Texts) -> list[bytes]:
        """Return the first ids of the blocks in which ids would be."""
        blocks = np.unique(np.searchsorted(self.firsts, ids, side="right") - 1)
        return [whole(first) for first in self.firsts[blocks[blocks >= 0]]]


@dataclass
class Known:
    """The runs of one key, with their filters."""

    runs: dict[int, Run] = field(default_factory=dict)
    shelves: dict[int, list[Shelf]] = field(default_factory=dict)
    """By the size of their filters."""
    growing: dict[tuple[int, int], list[Run]] = field(default_factory=dict)
    """Runs that may still be merged, by the bytes of a row and by size."""

    def put(self, run: Run, hashes: Hashes | None, words: Words | None = None) -> None:
        """Take notice of a run, by its ids or by its filter."""
        self.runs[run.number] = run
        if run.grows:
            self.growing.setdefault((run.width, tier_of(run.n)), []).append(run)
        bits = filters.bits_for(run.n)
        alike = self.shelves.setdefault(bits, [])
        if not any(shelf.put(run.number, hashes, words) for shelf in alike):
            alike.append(Shelf(bits))
            alike[-1].put(run.number, hashes, words)

    def drop(self, numbers: Collection[int]) -> None:
        """Forget some runs."""
        gone = [self.runs.pop(number) for number in numbers if number in self.runs]
        for kind in {(run.width, tier_of(run.n)) for run in gone} & self.growing.keys():
            self.growing[kind] = [run for run in self.growing[kind] if run.number in self.runs]
        for bits in {filters.bits_for(run.n) for run in gone}:
            for shelf in self.shelves[bits]:
                shelf.drop(numbers)

    def close(self, parts: Mapping[int, str]) -> None:
        """Note that some runs belong to a part now."""
        for number, part in parts.items():
            before, self.runs[number] = self.runs[number], replace(self.runs[number], part=part)
            if before.grows:
                self.growing[before.width, tier_of(before.n)].remove(before)

    def maybe(self, hashes: Hashes) -> dict[int, NDArray[np.int64]]:
        """Return the runs that may hold some of the ids, and which ids."""
        shelves = [shelf for alike in self.shelves.values() for shelf in alike]
        return dict(runs for shelf in shelves for runs in shelf.maybe(hashes))


def whole(text: bytes) -> bytes:
    """Return an id: a text of numpy ends before its zeros, an id does not."""
    return bytes(text).ljust(ID_BYTES, b"\0")


def tier_of(n: int) -> int:
    """Return the size that so many reports count as.

    >>> [tier_of(n) for n in (1, 256, 257, 1 << 18)]
    [0, 0, 1, 2]
    """
    return bisect_left(TIERS, n)


def most(width: int) -> int:
    """Return how many reports of so many bytes a run has at most."""
    return min(TIERS[-1], max(BLOCK, MOST_BYTES // (ID_BYTES + width)))


class Runs:
    """The reports of a store. Whatever is written is written inside a transaction."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._known: dict[int, Known] = {}
        self._secret = b""
        self._current: set[int] = set()
        """Keys whose runs were looked at in this transaction."""
        self._made: list[tuple[int, int]] = []
        """Key and number of the runs that this transaction has made."""

    # --- transactions ----------------------------------------------------------------------------

    def committed(self) -> None:
        """What this transaction has made is there."""
        self._current.clear()
        self._made.clear()

    def rolled_back(self) -> None:
        """What this transaction has made is not there, or at least that is not known."""
        for key in {key for key, _ in self._made}:
            self._known[key].drop([number for of, number in self._made if of == key])
        self._secret = b""
        self.committed()

    # --- adding ----------------------------------------------------------------------------------

    def add(self, key: int, ids: Octets, rows: Octets) -> Mask:
        """Store reports whose ids are all different; tell which were not there before."""
        known = self.noticed(key)
        if not _are_sorted(ids):
            order, _ = in_order(ids)
            new = np.zeros(len(ids), dtype=bool)
            new[order] = self.add(key, picked(ids, order), picked(rows, order))
            return new
        hashes = filters.hashed(ids, self._read_secret())
        new = ~self._stored(known, ids, hashes)
        if not new.all():
            ids, rows, hashes = ids[new], rows[new], hashes.of(new)
        self._append_all(key, ids, rows, hashes)
        self._merge(key, rows.shape[1])
        return new

    def known(self, key: int, ids: Octets) -> Mask:
        """Say which ids are there."""
        if not _are_sorted(ids):
            order, _ = in_order(ids)
            there = np.zeros(len(ids), dtype=bool)
            there[order] = self.known(key, picked(ids, order))
            return there
        return self._stored(self.noticed(key), ids, filters.hashed(ids, self._read_secret()))

    def _append_all(self, key: int, ids: Octets, rows: Octets, hashes: Hashes) -> None:
        """Write a run, or several if one would be too large."""
        size = most(rows.shape[1])
        for start in range(0, len(ids), size):
            part = slice(start, start + size)
            self._append(key, ids[part], rows[part], hashes.of(part))

    def noticed(self, key: int) -> Known:
        """Return the runs of a key, after a look at what others have done since."""
        known = self._known.setdefault(key, Known())
        if key in self._current:
            return known
        sql = "SELECT run, n, width, part FROM runs WHERE key = ?"
        rows = self._db.execute(sql, (key,))
        listed = {int(run): (int(n), int(w)) for run, n, w, _ in rows}
        parts = {int(run): str(part) for run, _, _, part in rows}
        known.drop(known.runs.keys() - listed.keys())
        known.close({n: parts[n] for n, run in known.runs.items() if run.part != parts[n]})
        for number in sorted(listed.keys() - known.runs.keys()):
            ((data,),) = self._db.execute("SELECT filter FROM runs WHERE run = ?", (number,))
            words = np.frombuffer(bytes(data), dtype="<u8")
            run = Run(number, *listed[number], self._firsts(number), parts[number])
            if len(words) != 1 << filters.bits_for(run.n):
                raise FormatError(DAMAGED)
            known.put(run, None, words)
        self._current.add(key)
        return known

    def _read_secret(self) -> bytes:
        if not self._secret:
            self._secret = bytes(self._db.execute("SELECT secret FROM filter_secret")[0][0])
        return self._secret

    def _stored(self, known: Known, ids: Octets, hashes: Hashes) -> Mask:
        """Say which ids are there: the filters say where to look, the blocks decide."""
        stored, texts, maybe = np.zeros(len(ids), dtype=bool), as_texts(ids), known.maybe(hashes)
        if not maybe:
            return stored
        wanted = [
            (number, first)
            for number, some in maybe.items()
            for first in known.runs[number].starts(texts[some])
        ]
        places = np.unique(np.concatenate([*maybe.values()]))
        stored[places] = _are_among(ids[places], self._ids_in(wanted))
        return stored

    def _ids_in(self, blocks: Sequence[tuple[int, bytes]]) -> Octets:
        """Return the ids of some blocks."""
        data = []
        for start in range(0, len(blocks), MOST_ASKED):
            some = blocks[start : start + MOST_ASKED]
            marks = ", ".join(["(?, ?)"] * len(some))
            sql = (  # in this order: with IN, SQLite would look at every block
                f"WITH asked (run, first) AS (VALUES {marks}) SELECT blocks.ids FROM asked "  # noqa: S608
                "CROSS JOIN blocks WHERE blocks.run = asked.run AND blocks.first = asked.first"
            )
            data += self._db.execute(sql, [value for block in some for value in block])
        return _ids_of(b"".join(bytes(row[0]) for row in data))

    def _append(self, key: int, ids: Octets, rows: Octets, hashes: Hashes, part: str = "") -> None:
        """Write a run: its filter, and its reports block by block."""
        number = int(self._db.execute("SELECT COALESCE(MAX(run), 0) + 1 FROM runs")[0][0])
        n, width = rows.shape
        self._db.execute(
            "INSERT INTO runs (run, key, n, width, filter) VALUES (?, ?, ?, ?, ?)",
            (number, key, n, width, filters.made(hashes).astype("<u8").tobytes()),
        )
        if part:
            self._db.execute("UPDATE runs SET part = ? WHERE run = ?", (part, number))
        cuts = [slice(start, start + BLOCK) for start in range(0, n, BLOCK)]
        self._db.execute_many(
            "INSERT INTO blocks (run, first, ids, rows) VALUES (?, ?, ?, ?)",
            [
                (number, ids[cut.start].tobytes(), ids[cut].tobytes(), rows[cut].tobytes())
                for cut in cuts
            ],
        )
        run = Run(number, n, width, as_texts(ids[::BLOCK]), part)
        self._known[key].put(run, hashes)
        self._made.append((key, number))

    # --- merging ---------------------------------------------------------------------------------

    def _merge(self, key: int, width: int) -> None:
        """Make one run of several, if there are enough of a size: at most once a group."""
        for tier in range(len(TIERS)):
            alike = self._known[key].growing.get((width, tier), [])
            if len(alike) >= MERGED or sum(run.n for run in alike) > most(width):
                self._replace(key, _fitting(alike, most(width)))
                return

    def _replace(self, key: int, merged: Sequence[Run]) -> None:
        numbers = tuple(run.number for run in merged)
        marks = ", ".join("?" * len(numbers))
        sql = f"SELECT ids, rows FROM blocks WHERE run IN ({marks}) ORDER BY run, first"  # noqa: S608
        ids, rows = _joined(self._db.execute(sql, numbers), merged[0].width)
        order = np.argsort(_high(ids), kind="stable")  # quick where much is in order already
        ids, rows = picked(ids, order), picked(rows, order)
        if not _are_sorted(ids):
            order, _ = in_order(ids)
            ids, rows = ids[order], rows[order]
        self._append(key, ids, rows, filters.hashed(ids, self._read_secret()), merged[0].part)
        for table in ("blocks", "runs"):
            self._db.execute(f"DELETE FROM {table} WHERE run IN ({marks})", numbers)  # noqa: S608
        self._known[key].drop(numbers)

    # --- parts -----------------------------------------------------------------------------------

    def close(self, key: int, part: str) -> None:
        """Let all reports with rows that belong to no part be those of a new one."""
        sql = "UPDATE runs SET part = ? WHERE key = ? AND part = '' AND width > 0"
        self._db.execute(sql, (part, key))
        self._current.discard(key)

    def merge_part(self, key: int, part: str) -> bool:
        """Make one run of several of a part; return whether there were enough small ones."""
        runs = self.noticed(key).runs.values()
        small = [run for run in runs if run.part == part and 4 * run.n <= most(run.width)]
        small = [run for run in small if run.width == small[0].width]
        if len(small) > 1:
            self._replace(key, _fitting(small, most(small[0].width)))
        return len(small) > 1

    def parts(self, key: int) -> dict[str, int]:
        """Return how many reports each part has."""
        sql = "SELECT part, SUM(n) FROM runs WHERE key = ? AND part <> '' GROUP BY part"
        return {str(part): int(n) for part, n in self._db.execute(sql, (key,))}

    # --- reading ---------------------------------------------------------------------------------

    def count(self, key: int, kept: bool = False) -> int:
        """Return how many reports are stored, or how many of them with their rows."""
        sql = "SELECT COALESCE(SUM(n), 0) FROM runs WHERE key = ? AND width >= ?"
        return int(self._db.execute(sql, (key, int(kept)))[0][0])

    def chunks(self, key: int, part: str = "") -> Iterator[list[tuple[Octets, Octets]]]:
        """Yield all reports in the order of their ids, in ranges of ids: what each run has of it.

        In the order of the runs, it would tell who came early and who came late. With a name, only
        those of that part.
        """
        listed = self._db.execute(
            "SELECT run, n, width FROM runs WHERE key = ? AND (? = '' OR part = ?)",
            (key, part, part),
        )
        runs = [Run(int(r), int(n), int(w), self._firsts(int(r))) for r, n, w in listed]
        if not runs:
            return
        cuts = np.sort(np.concatenate([run.firsts for run in runs]))[::CHUNK_BLOCKS]
        for place, low in enumerate(cuts):
            high = cuts[place + 1] if place + 1 < len(cuts) else None
            yield [self._between(run, low, high) for run in runs]

    def _between(self, run: Run, low: bytes, high: bytes | None) -> tuple[Octets, Octets]:
        """Return the reports of a run from one id up to below another."""
        first = max(0, int(np.searchsorted(run.firsts, low, side="right")) - 1)
        end = len(run.firsts) if high is None else int(np.searchsorted(run.firsts, high))
        if first >= end:
            return np.zeros((0, ID_BYTES), np.uint8), np.zeros((0, run.width), np.uint8)
        sql = (
            "SELECT ids, rows FROM blocks WHERE run = ? AND first >= ? AND first <= ? "
            "ORDER BY first"
        )
        ends = [whole(run.firsts[place]) for place in (first, end - 1)]
        ids, rows = _joined(self._db.execute(sql, (run.number, *ends)), run.width)
        texts = as_texts(ids)
        inside = texts >= low if high is None else (texts >= low) & (texts < high)
        return ids[inside], rows[inside]

    def _firsts(self, number: int) -> Texts:
        sql = "SELECT first FROM blocks WHERE run = ? ORDER BY first"
        rows = self._db.execute(sql, (number,))
        return as_texts(_ids_of(b"".join(bytes(row[0]) for row in rows)))


DAMAGED = "the store has reports of a wrong length: it is damaged"


def as_texts(ids: Octets) -> Texts:
    """Return ids as numpy compares them: byte by byte, as both databases do."""
    return np.ascontiguousarray(ids).view(f"S{ID_BYTES}").reshape(len(ids))


def picked(rows: Octets, places: NDArray[np.int64]) -> Octets:
    """Return rows[places]: numpy is ten times as fast if a row is one thing.

    >>> picked(np.array([[1, 2], [3, 4]], dtype=np.uint8), np.array([1, 0])).tolist()
    [[3, 4], [1, 2]]
    """
    if not rows.shape[1]:
        return rows[places]
    whole = np.ascontiguousarray(rows).view(f"V{rows.shape[1]}")[:, 0]
    return np.take(whole, places).view(np.uint8).reshape(len(places), rows.shape[1])


def _high(ids: Octets) -> NDArray[np.uint64]:
    """Return the first halves of ids as numbers."""
    return np.ascontiguousarray(ids[:, :8]).view(">u8")[:, 0].astype(np.uint64)


def _are_among(ids: Octets, there: Octets) -> Mask:
    """Say which of some sorted ids are among others: their halves first, which are numbers."""
    mine, theirs = _high(ids), _high(there)
    at = np.minimum(np.searchsorted(mine, theirs), max(0, len(mine) - 1))
    alike = np.sort(as_texts(there[mine[at] == theirs]))
    asked = as_texts(ids)
    at = np.searchsorted(alike, asked)
    inside = at < len(alike)
    inside[inside] = alike[at[inside]] == asked[inside]
    return inside


def _are_sorted(ids: Octets) -> bool:
    """Whether ids that are all different come in order."""
    high = _high(ids)
    if (high[:-1] < high[1:]).all():
        return True
    texts = as_texts(ids)
    return bool((texts[:-1] < texts[1:]).all())


def _fitting(runs: Sequence[Run], n: int) -> Sequence[Run]:
    """Return the first of some runs, as many as make one of up to n reports.

    None has more than a quarter of that.
    """
    sums = np.cumsum([run.n for run in runs])
    return runs[: min(MERGED, int(np.searchsorted(sums, n, side="right")))]


def _ids_of(data: bytes) -> Octets:
    if len(data) % ID_BYTES:
        raise FormatError(DAMAGED)
    return np.frombuffer(data, dtype=np.uint8).reshape(-1, ID_BYTES)


def _joined(blocks: Sequence[tuple[Any, ...]], width: int) -> tuple[Octets, Octets]:
    """Return the ids and rows of several blocks."""
    ids = _ids_of(b"".join(bytes(block[0]) for block in blocks))
    rows = np.frombuffer(b"".join(bytes(block[1]) for block in blocks), dtype=np.uint8)
    if len(rows) != len(ids) * width:
        raise FormatError(DAMAGED)
    return ids, rows.reshape(len(ids), width)
