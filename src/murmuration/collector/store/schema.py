"""The tables of a store.

    campaigns   every version of every campaign file that was served, as published
    collections a small number for each digest, and the hour of the last report that was stored
    runs        sorted runs of reports, with a filter of their ids, and what was exported together
    blocks      the reports of a run, some hundred to a row: ids, and bytes unless they are scrubbed
    filter_secret
                the numbers that the filters hash ids with
    tallies     one row per period and cell: what the reports add up to
    shown       the sums that figures are made of, by period: see `counting.cohort`; those of other
                collectors apart
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

from murmuration.errors import FormatError

VERSION = 1
"""Of these tables: a store of another version is refused."""

TABLES = (
    "CREATE TABLE collector (name TEXT NOT NULL)",
    """CREATE TABLE campaigns (
        campaign TEXT NOT NULL,
        version INTEGER NOT NULL,
        digest TEXT NOT NULL,
        document BLOB NOT NULL,
        published TEXT NOT NULL,
        asked TEXT NOT NULL,
        PRIMARY KEY (campaign, version)
    )""",
    """CREATE TABLE collections (
        key INTEGER NOT NULL PRIMARY KEY,
        digest TEXT NOT NULL UNIQUE,
        last_hour INTEGER NOT NULL DEFAULT 0
    )""",
    "CREATE TABLE filter_secret (secret BLOB NOT NULL)",
    """CREATE TABLE runs (
        run INTEGER NOT NULL PRIMARY KEY,
        key INTEGER NOT NULL,
        n INTEGER NOT NULL,
        width INTEGER NOT NULL,
        filter BLOB NOT NULL,
        part TEXT NOT NULL DEFAULT ''
    )""",
    "CREATE INDEX runs_of_key ON runs (key, run, n, width, part)",
    """CREATE TABLE blocks (
        run INTEGER NOT NULL,
        first BLOB NOT NULL,
        ids BLOB NOT NULL,
        rows BLOB NOT NULL,
        PRIMARY KEY (run, first)
    )""",
    """CREATE TABLE tallies (
        key INTEGER NOT NULL,
        period INTEGER NOT NULL,
        cell INTEGER NOT NULL,
        n INTEGER NOT NULL,
        counts BLOB NOT NULL,
        PRIMARY KEY (key, period, cell)
    )""",
    """CREATE TABLE shown (
        key INTEGER NOT NULL,
        merged INTEGER NOT NULL,
        period INTEGER NOT NULL,
        people BLOB NOT NULL,
        counts BLOB NOT NULL,
        PRIMARY KEY (key, merged, period)
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
        expires INTEGER NOT NULL,
        sources TEXT NOT NULL,
        secret BLOB
    )""",
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
    """CREATE TABLE sessions (
        hash BLOB NOT NULL PRIMARY KEY,
        kind TEXT NOT NULL,
        token BLOB NOT NULL,
        created INTEGER NOT NULL,
        expires INTEGER NOT NULL
    )""",
    """CREATE TABLE merged (
        key INTEGER NOT NULL,
        source TEXT NOT NULL,
        n INTEGER NOT NULL,
        tallies BLOB NOT NULL,
        PRIMARY KEY (key, source)
    )""",
    """CREATE TABLE held (
        key INTEGER NOT NULL,
        source TEXT NOT NULL,
        n INTEGER NOT NULL,
        tallies BLOB NOT NULL,
        PRIMARY KEY (key, source)
    )""",
    """CREATE TABLE logs (
        log TEXT NOT NULL PRIMARY KEY,
        bytes INTEGER NOT NULL
    )""",
    "CREATE TABLE merge_key (secret BLOB NOT NULL, pinned INTEGER NOT NULL DEFAULT 0)",
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
)


def require_ours(version: int) -> None:
    """Refuse a store of another version: it is left as it is."""
    if version != VERSION:
        raise FormatError(
            f"the store has schema {version}, and this program reads and writes schema {VERSION}: "
            "open it with the release of murmuration that made it"
        )
