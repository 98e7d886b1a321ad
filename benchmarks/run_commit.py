"""What each part of counting a report costs, from decoded bytes to the disk, without HTTP.

    python -m benchmarks.run_commit [--reports]

Groups as a busy collector has them: 64 uploads of 100 reports in JSON, 32 of 1,000 in columns. The
times are of the processor, so that other programs matter less.
With --reports, reports go to a folder and not into the store.
"""

from __future__ import annotations

import argparse
import gc
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import run_collector
from murmuration.campaign.survey import SurveyCampaign
from murmuration.collector import commit as committing
from murmuration.collector.commit import Batch, commit
from murmuration.collector.files.sink import ToFolder
from murmuration.collector.publish import serve
from murmuration.collector.served import Served
from murmuration.collector.store import Store, open_store
from murmuration.collector.store.runs import Runs
from murmuration.definition import load as campaign_file
from murmuration.wire import report
from murmuration.wire.ids import new_ids

KINDS = (
    ("batches of 100, JSON", 64, 100, report.JSON),
    ("batches of 1,000, columns", 32, 1000, report.BINARY),
)
PARTS: dict[str, tuple[Any, str]] = {
    "decode": (report, "decode"),
    "lay out and check": (committing, "_checked"),
    "find duplicates": (Runs, "_stored"),
    "append a run, with its filter": (Runs, "_append_all"),
    "merge runs": (Runs, "_merge"),
    "tallies": (Store, "add_tallies"),
    "log": (ToFolder, "write"),
}
SPENT: defaultdict[str, float] = defaultdict(float)


def watch() -> None:
    """Let each part note the processor time that it takes."""
    for part, (owner, name) in PARTS.items():
        setattr(owner, name, timed(part, getattr(owner, name)))


def timed(part: str, plain: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that does the same, and notes how long it took."""

    def noted(*given: Any) -> Any:
        start = time.process_time()
        try:
            return plain(*given)
        finally:
            SPENT[part] += time.process_time() - start

    return noted


def bodies(campaign: SurveyCampaign, uploads: int, size: int, form: str) -> list[bytes]:
    """Return the uploads of one group."""
    write = report.to_binary if form == report.BINARY else report.to_json
    rows = run_collector.reports(campaign, uploads * size)
    return [
        write(campaign.form, new_ids(size), rows[start : start + size])
        for start in range(0, len(rows), size)
    ]


def measured(
    store: Store, served: Served[SurveyCampaign], kind: tuple[str, int, int, str], args: Args
) -> None:
    """Commit some groups, and print what each part took."""
    name, uploads, size, form = kind
    campaign = served.campaign
    groups = [bodies(campaign, uploads, size, form) for _ in range(args.groups)]
    reports = ToFolder(args.folder, store, [served]) if args.folder else None
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)  # as the collector does
    SPENT.clear()
    intake = served.intake(store)
    assert intake is not None
    start = time.process_time()
    for group in groups:
        commit(
            store, [Batch(intake, report.decode(campaign.form, b, form)) for b in group], reports
        )
    total, n = time.process_time() - start, args.groups * uploads * size
    print(f"{name}: {1e6 * total / n:.2f} us of processor a report")
    for part in PARTS:
        print(f"  {part:<32} {1e6 * SPENT[part] / n:.3f}")
    print(f"  {'the rest: sorting, SQLite':<32} {1e6 * (total - sum(SPENT.values())) / n:.3f}")


class Args(argparse.Namespace):
    """What the command line says."""

    groups: int
    stored: int
    folder: Path | None


def main() -> None:
    """Prepare, then measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=40)
    parser.add_argument("--stored", type=int, default=2_000_000)
    parser.add_argument("--reports", action="store_true")
    args = parser.parse_args(namespace=Args())
    campaign = campaign_file.parse(run_collector.CAMPAIGN, SurveyCampaign)
    watch()
    with tempfile.TemporaryDirectory(dir=Path(__file__).parent) as name:
        args.folder = Path(name, "reports") if args.reports else None
        run_collector.prefill(campaign, Path(name, "bench.db"), args.stored)
        store = open_store(Path(name, "bench.db"))
        served = serve(store, campaign)
        for kind in KINDS:
            measured(store, served, kind, args)
        store.close()


if __name__ == "__main__":
    main()
