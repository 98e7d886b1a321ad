"""The schema, step by step. A step that was released never changes; a change is a new step.

    campaigns   every version of every campaign file that was served, as published
    collections a small number for each digest, and the hour of the last report that was stored
    runs        sorted runs of reports, with a filter of their ids, and what was exported together
    blocks      the reports of a run, some hundred to a row: ids, and bytes unless they are scrubbed
    tallies     one row per period and cell: what the reports add up to
    counts      what became of every report that arrived, by campaign and outcome
    tokens      who may do what: hashes of tokens, never tokens; secrets of participants' batches
    used_tokens, period_secrets
                which participants' tokens were used in a period, as hashes under its secret; both
                are deleted when it closes (an empty secret: closed)
    sessions    who is signed in by a browser, and codes that let one sign in: hashes, too
    merged      what counts of other collectors, the latest of each
    held        of which other collectors the reports are here too, and up to which tallies
    logs        of reports that are on their way to a folder: up to which byte they count
    merge_key   the secret under which collectors compare their ids, if they share one
    rounds      of a training: every round as it was published, and what became of it
    models      of a training: what it has ended with

BLOB and INTEGER are what SQLite calls them; PostgreSQL says BYTEA and BIGINT.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from murmuration.collector.store import runs
from murmuration.collector.store.filters import new_secret
from murmuration.collector.store.runs import Database, Octets, Runs
from murmuration.wire.ids import ID_BYTES

ROWS_AT_ONCE = 50_000


def sort_into_runs(store: Database, into: Runs) -> None:
    """Turn a table of reports into runs, a few thousand reports at a time."""
    store.execute("INSERT INTO filter_secret (secret) VALUES (?)", (new_secret(),))
    for (key,) in store.execute("SELECT key FROM collections ORDER BY key"):
        waiting: dict[int, list[tuple[Octets, Octets]]] = {}
        for ids, rows in _of_one_width(store, int(key)):
            mine = waiting.setdefault(rows.shape[1], [])
            mine.append((ids, rows))
            if sum(len(each) for each, _ in mine) + ROWS_AT_ONCE > runs.most(rows.shape[1]):
                into.append(int(key), *_joined(mine))
                mine.clear()
        for mine in filter(None, waiting.values()):
            into.append(int(key), *_joined(mine))


def _of_one_width(store: Database, key: int) -> Iterator[tuple[Octets, Octets]]:
    """Yield old reports in the order of their ids; scrubbed ones apart from the others."""
    last = b""
    while found := store.execute(
        "SELECT id, report FROM reports WHERE key = ? AND id > ? ORDER BY id LIMIT ?",
        (key, last, ROWS_AT_ONCE),
    ):
        last = bytes(found[-1][0])
        by_width: dict[int, list[tuple[bytes, bytes]]] = {}
        for each, row in found:
            by_width.setdefault(len(row), []).append((bytes(each), bytes(row)))
        for width, some in by_width.items():
            ids = np.frombuffer(b"".join(each for each, _ in some), dtype=np.uint8)
            rows = np.frombuffer(b"".join(row for _, row in some), dtype=np.uint8)
            yield ids.reshape(-1, ID_BYTES), rows.reshape(len(some), width)


def _joined(parts: list[tuple[Octets, Octets]]) -> tuple[Octets, Octets]:
    ids, rows = zip(*parts, strict=True)
    return np.concatenate(ids), np.concatenate(rows)


Step = tuple[str | Callable[[Database, Runs], None], ...]

MIGRATIONS: tuple[Step, ...] = (
    (
        "CREATE TABLE collector (name TEXT NOT NULL)",
        """CREATE TABLE campaigns (
            campaign TEXT NOT NULL,
            version INTEGER NOT NULL,
            digest TEXT NOT NULL,
            document BLOB NOT NULL,
            published TEXT NOT NULL,
            PRIMARY KEY (campaign, version)
        )""",
        """CREATE TABLE collections (
            key INTEGER NOT NULL PRIMARY KEY,
            digest TEXT NOT NULL UNIQUE
        )""",
        """CREATE TABLE reports (
            key INTEGER NOT NULL,
            id BLOB NOT NULL,
            report BLOB NOT NULL,
            PRIMARY KEY (key, id)
        ){clustered}""",
        """CREATE TABLE tallies (
            key INTEGER NOT NULL,
            cell INTEGER NOT NULL,
            n INTEGER NOT NULL,
            counts BLOB NOT NULL,
            PRIMARY KEY (key, cell)
        )""",
        """CREATE TABLE counts (
            campaign TEXT NOT NULL,
            outcome TEXT NOT NULL,
            n INTEGER NOT NULL,
            PRIMARY KEY (campaign, outcome)
        )""",
        """CREATE TABLE tokens (
            hash BLOB NOT NULL PRIMARY KEY,
            name TEXT NOT NULL,
            role TEXT NOT NULL,
            campaign TEXT NOT NULL,
            created INTEGER NOT NULL,
            expires INTEGER NOT NULL
        )""",
    ),
    (
        """CREATE TABLE merged (
            key INTEGER NOT NULL,
            source TEXT NOT NULL,
            n INTEGER NOT NULL,
            tallies BLOB NOT NULL,
            PRIMARY KEY (key, source)
        )""",
    ),
    (
        """CREATE TABLE held (
            key INTEGER NOT NULL,
            source TEXT NOT NULL,
            n INTEGER NOT NULL,
            tallies BLOB NOT NULL,
            PRIMARY KEY (key, source)
        )""",
        "CREATE TABLE merge_key (secret BLOB NOT NULL)",
        "ALTER TABLE tokens ADD COLUMN sources TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE campaigns ADD COLUMN asked TEXT NOT NULL DEFAULT ''",
    ),
    (
        "CREATE TABLE filter_secret (secret BLOB NOT NULL)",
        """CREATE TABLE runs (
            run INTEGER NOT NULL PRIMARY KEY,
            key INTEGER NOT NULL,
            n INTEGER NOT NULL,
            width INTEGER NOT NULL,
            filter BLOB NOT NULL
        )""",
        "CREATE INDEX runs_of_key ON runs (key, run, n, width)",
        """CREATE TABLE blocks (
            run INTEGER NOT NULL,
            first BLOB NOT NULL,
            ids BLOB NOT NULL,
            rows BLOB NOT NULL,
            PRIMARY KEY (run, first)
        )""",
        sort_into_runs,
        "DROP TABLE reports",
    ),
    ("ALTER TABLE collections ADD COLUMN last_hour INTEGER NOT NULL DEFAULT 0",),
    (
        """CREATE TABLE sessions (
            hash BLOB NOT NULL PRIMARY KEY,
            kind TEXT NOT NULL,
            token BLOB NOT NULL,
            created INTEGER NOT NULL,
            expires INTEGER NOT NULL
        )""",
    ),
    (
        """CREATE TABLE tallies_by_period (
            key INTEGER NOT NULL,
            period INTEGER NOT NULL,
            cell INTEGER NOT NULL,
            n INTEGER NOT NULL,
            counts BLOB NOT NULL,
            PRIMARY KEY (key, period, cell)
        )""",
        "INSERT INTO tallies_by_period (key, period, cell, n, counts) "
        "SELECT key, 0, cell, n, counts FROM tallies",
        "DROP TABLE tallies",
        "ALTER TABLE tallies_by_period RENAME TO tallies",
    ),
    (
        "ALTER TABLE runs ADD COLUMN part TEXT NOT NULL DEFAULT ''",
        "DROP INDEX runs_of_key",
        "CREATE INDEX runs_of_key ON runs (key, run, n, width, part)",
        """CREATE TABLE logs (
            log TEXT NOT NULL PRIMARY KEY,
            bytes INTEGER NOT NULL
        )""",
    ),
    (
        """CREATE TABLE rounds (
            key INTEGER NOT NULL,
            round INTEGER NOT NULL,
            own INTEGER NOT NULL,
            digest TEXT NOT NULL,
            document BLOB NOT NULL,
            opened INTEGER NOT NULL,
            state TEXT NOT NULL,
            PRIMARY KEY (key, round)
        )""",
        """CREATE TABLE models (
            key INTEGER NOT NULL PRIMARY KEY,
            document BLOB NOT NULL
        )""",
    ),
    (
        "ALTER TABLE tokens ADD COLUMN secret BLOB",
        """CREATE TABLE period_secrets (
            key INTEGER NOT NULL,
            period INTEGER NOT NULL,
            secret BLOB NOT NULL,
            PRIMARY KEY (key, period)
        ){clustered}""",
        """CREATE TABLE used_tokens (
            key INTEGER NOT NULL,
            period INTEGER NOT NULL,
            hash BLOB NOT NULL,
            PRIMARY KEY (key, period, hash)
        ){clustered}""",
    ),
)

NEWEST = len(MIGRATIONS)
