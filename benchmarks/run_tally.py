"""How fast files of reports are tallied, beside pyarrow and numpy, and on Spark; peak memory.

    .venv/bin/python -m benchmarks.run_tally --reports 1e7,1e8 --spark

Each measurement is a process of its own. Reports are made once, by a law (grr, 8 labels), in parts
of ten millions, and deleted at the end unless `--keep` names a folder.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.timing import fastest
from murmuration.campaign.survey import SurveyCampaign
from murmuration.definition.document import publish
from murmuration.definition.load import parse
from murmuration.exact.randomness import system_rng
from murmuration.files import ANYBODY, draft_of, write_file
from murmuration.wire.ids import new_ids
from murmuration.wire.parquet import arrow, batch, schema, writer

CAMPAIGN = """
name = "bench"
purpose = "To measure."
epsilon = 1
[[attributes]]
name = "device"
kind = "category"
labels = ["a", "b", "c", "d", "e", "f", "g", "h"]
mechanism = "grr"
"""
PER_PART = 10_000_000
PER_BATCH = 1 << 20


def make(folder: Path, reports: int) -> None:
    """Write parts of reports that devices can have sent."""
    folder.mkdir(parents=True, exist_ok=True)
    campaign = parse(CAMPAIGN, SurveyCampaign)
    write_file(folder / "_campaign.json", publish(campaign, 1), ANYBODY)
    starts = range(0, reports, PER_PART)
    with ThreadPoolExecutor() as pool:
        for _ in pool.map(lambda at: _part(campaign, folder, at, reports), starts):
            pass


def _part(campaign: SurveyCampaign, folder: Path, at: int, reports: int) -> None:
    path, rng = folder / f"part-{at // PER_PART:05}.parquet", system_rng()
    made = schema(campaign.form)
    if path.exists():
        return
    with draft_of(path, ANYBODY) as draft, writer(draft, made) as file:
        end = min(reports, at + PER_PART)
        for start in range(at, end, PER_BATCH):
            n = min(PER_BATCH, end - start)
            rows = campaign.privatize([np.arange(start, start + n) % 8], rng)
            file.write_batch(batch(campaign.form, new_ids(n), rows, made))


# --- what is measured, each in a process of its own ----------------------------------------------


class Clock:
    """Time on the wall, and of all processors: the second does not mind other programs."""

    def __init__(self) -> None:
        self.start, self.used = time.perf_counter(), time.process_time()

    def read(self) -> dict[str, Any]:
        """Return the seconds so far."""
        wall, used = time.perf_counter() - self.start, time.process_time() - self.used
        return {"seconds": wall, "processor": used}


def bare(folder: str, columns: str) -> dict[str, Any]:
    """Read with pyarrow's own threads, count with np.bincount: nothing is checked."""
    parquet = arrow().parquet
    counts, clock = np.zeros(8, dtype=np.int64), Clock()
    for path in sorted(Path(folder).glob("*.parquet")):
        with parquet.ParquetFile(path) as file:
            for one in file.iter_batches(1 << 18, columns=columns.split(",")):
                counts += np.bincount(one.column("entry_0_report"), minlength=8)
    return {**clock.read(), "counted": int(counts.sum())}


def tallied(folder: str, *options: str) -> dict[str, Any]:
    """Run `murmur tally`, without the second that Python takes to start."""
    from murmuration.counting.engines import local, parts

    dedup, state = "--no-dedup" not in options, "--state" in options
    found = parts.find([Path(folder)])
    campaign = parts.campaign_of([Path(folder)])
    arrow()
    with tempfile.TemporaryDirectory(dir=Path(folder).parent) as place:
        tempfile.tempdir = place  # spills go to the disk that has the reports
        kept = Path(place, "state") if state else None
        clock = Clock()
        done = local.tally(campaign.form, found, kept, local.How(dedup=dedup))
        took, clock = clock.read(), Clock()
        if state:
            local.tally(campaign.form, found, kept, local.How(dedup=dedup))
            took["again"] = clock.read()["seconds"]
    return {**took, **done.sums.to_json()}


def _warm(_: int) -> str:
    """Let a worker import what it needs."""
    from murmuration.counting.engines import spark

    return f"{spark.__name__} {arrow().parquet.__name__}"


def on_spark(folder: str, *options: str) -> dict[str, Any]:
    """Count on two workers and here, in turn, so that load hits both; start-up is told apart."""
    from murmuration.counting.engines import local, parts, spark
    from murmuration.counting.engines.session import session

    campaign = parts.campaign_of([Path(folder)])
    found = parts.find([Path(folder)])
    start = time.perf_counter()
    with session("local-cluster[2,1,3072]", {"spark.executor.memory": "2g"}) as started:
        context = started.sparkContext
        context.parallelize(range(8), 8).map(_warm).collect()
        up = time.perf_counter() - start
        dedup = "--no-dedup" not in options
        tasks: dict[str, Callable[[], object]] = {}
        tasks["spark"] = lambda: spark.tally(started, campaign.form, found, dedup=dedup)
        tasks["local"] = lambda: local.tally(campaign.form, found, how=local.How(dedup=dedup))
        best = fastest(tasks, 1 if dedup else 4)
        sums = spark.tally(started, campaign.form, found, dedup=False)
        ratio = best["local"] / best["spark"]
        more = {"seconds": best["spark"], "processor": 0.0, "start_up": up, "of_local": ratio}
        return {**more, **sums.to_json()}


JOBS: dict[str, Callable[..., dict[str, Any]]] = {
    "bare": bare,
    "tallied": tallied,
    "on_spark": on_spark,
}


def measured(job: str, *arguments: str) -> dict[str, Any]:
    """Run a job in a process, and note its peak of memory."""
    command = [sys.executable, "-m", "benchmarks.run_tally", "--job", job, *arguments]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603 - ours
    assert child.stdout is not None
    said = child.stdout.read()
    _, status, used = os.wait4(child.pid, 0)
    if status:
        raise SystemExit(f"{job} failed")
    found: dict[str, Any] = json.loads(said)
    return {**found, "megabytes": used.ru_maxrss / 1024}


def main() -> None:
    """Measure at each number of reports, and print a table and JSON."""
    if sys.argv[1:2] == ["--job"]:
        job, *given = sys.argv[2:]
        print(json.dumps(JOBS[job](*given)))
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reports", default="1e7")
    parser.add_argument("--spark", action="store_true")
    parser.add_argument("--only", default="", help="names of what is measured, commas between")
    parser.add_argument("--keep", type=Path, help="a folder for the reports, not deleted")
    asked = parser.parse_args()
    needed = "entry_0_cell,entry_0_report"
    jobs: dict[str, tuple[str, ...]] = {
        "pyarrow + bincount": ("bare", needed),
        "pyarrow + bincount with ids": ("bare", f"id,{needed}"),
        "tally --no-dedup": ("tallied", "--no-dedup"),
        "tally": ("tallied",),
        "tally with state": ("tallied", "--state"),
    }
    if asked.spark:
        jobs |= {"spark --no-dedup": ("on_spark", "--no-dedup"), "spark": ("on_spark",)}
    chosen = asked.only.split(",") if asked.only else list(jobs)
    results = []
    for reports in (int(float(text)) for text in asked.reports.split(",")):
        folder = (asked.keep or Path(tempfile.mkdtemp(dir=Path.cwd()))) / f"{reports}"
        try:
            start = time.perf_counter()
            make(folder, reports)
            print(f"{reports:,} reports, made in {time.perf_counter() - start:.0f} s", flush=True)
            for name in chosen:
                job, *more = jobs[name]
                found = measured(job, str(folder), *more)
                rate = reports / found["seconds"] / 1e6
                results.append({"what": name, "reports": reports, "rate": rate, **found})
                up = f", started in {found['start_up']:.0f} s" if "start_up" in found else ""
                up += f", {found['of_local']:.2f} of local" if "of_local" in found else ""
                up += f", again {found['again']:.1f} s" if found.get("again") else ""
                print(
                    f"{name:30} {rate:7.1f} M/s {found['processor'] / reports * 1e9:6.1f} ns of "
                    f"processor a report {found['megabytes']:6.0f} MB{up}",
                    flush=True,
                )
        finally:
            if asked.keep is None:
                shutil.rmtree(folder.parent)
    print(json.dumps(results))


if __name__ == "__main__":
    main()
