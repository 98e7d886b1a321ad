"""The schema, step by step. A step that was released never changes; a change is a new step.

    campaigns   every version of every campaign file that was served, as published
    reports     one row per report: its id, and its bytes unless the campaign scrubs them
    tallies     one row per cell: what the reports add up to
    counts      what became of every report that arrived, by campaign and outcome
    tokens      who may do what: hashes of tokens, never tokens
    merged      what counts of other collectors, the latest of each
    held        of which other collectors the reports are here too, and up to which tallies
    merge_key   the secret under which collectors compare their ids, if they share one

BLOB and INTEGER are what SQLite calls them; PostgreSQL says BYTEA and BIGINT.
"""

from __future__ import annotations

MIGRATIONS: tuple[tuple[str, ...], ...] = (
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
)

NEWEST = len(MIGRATIONS)
