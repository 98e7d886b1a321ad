"""A small stand-in for the collector, to be run as a process: group commits, then acknowledgements.

Usage: sqlite_workload.py FOLDER ACKS FULL|NORMAL GROUPS
"""

import os
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

REOPEN = 40  # groups between two openings: closing removes the log, opening makes a new one


def connect(folder: Path, synchronous: str) -> sqlite3.Connection:
    connection = sqlite3.connect(folder / "store.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    connection.execute("PRAGMA wal_autocheckpoint = 20")
    connection.execute("CREATE TABLE IF NOT EXISTS reports (id INTEGER, report BLOB)")
    return connection


def commit(connection: sqlite3.Connection, ids: range) -> None:
    connection.execute("BEGIN IMMEDIATE")
    rows = [(each, each.to_bytes(4, "big") * 60) for each in ids]
    connection.executemany("INSERT INTO reports VALUES (?, ?)", rows)
    connection.execute("COMMIT")


def main(folder: Path, acks: Path, synchronous: str, groups: int) -> None:
    out = os.open(acks, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    first = 0
    for start in range(0, groups, REOPEN):
        with closing(connect(folder, synchronous)) as connection:
            for group in range(start, min(start + REOPEN, groups)):
                ids = range(first, first + 1 + group % 8)
                commit(connection, ids)
                os.write(out, "".join(f"{each}\n" for each in ids).encode())
                first = ids.stop


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
