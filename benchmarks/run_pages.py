"""What pages of 16 KiB are worth: groups of reports with random ids into the store.

python -m benchmarks.run_pages
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np

from murmuration.collector.store import sqlite
from murmuration.wire.ids import new_ids

GROUP = 6_400
SECONDS = 4.0


def milliseconds(folder: Path, page: int) -> float:
    """Return the median time of a group's commit, with pages of so many bytes."""
    sqlite.PAGE_BYTES, sqlite.CHECKPOINT_PAGES = page, (32 << 20) // page
    store = sqlite.SqliteStore(folder / f"{page}.db")
    rows, took = np.zeros((GROUP, 3), dtype=np.uint8), []
    end = time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        ids = new_ids(GROUP)
        start = time.perf_counter()
        with store.transaction():
            store.add_reports(1, ids, rows)
        took.append(time.perf_counter() - start)
    store.close()
    return 1e3 * float(np.median(took))


def main() -> None:
    """Print one line for each choice."""
    with tempfile.TemporaryDirectory(dir=Path(__file__).parent) as name:
        for page in (16_384, 4_096):
            found = milliseconds(Path(name), page)
            print(f"pages of {page:>6,} bytes: {found:5.1f} ms for {GROUP:,}")


if __name__ == "__main__":
    main()
