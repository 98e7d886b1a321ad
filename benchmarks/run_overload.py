"""More than a collector can take: 1, 3 and 10 times the load, from one and many addresses.

    python -m benchmarks.run_overload

The load is closed: so many connections send one upload after the other, and send what was refused
again at once. Goodput is what was answered 200; it is compared with that of the same connections
at 1 times the load from one address, in the same round. Meanwhile a client at another address sends
single reports, each over a connection of its own.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.run_collector import (
    CAMPAIGN,
    KINDS,
    cpu_seconds,
    free_port,
    made,
    peak_mb,
    prefill,
    running,
)
from murmuration.campaign.survey import SurveyCampaign
from murmuration.definition import load as campaign_file
from murmuration.wire import report
from tests.support import load

MURMUR = str(Path(sys.executable).with_name("murmur"))
TIMES = (1, 3, 10)


Kind = tuple[str, int, str, int, int]
"""A row of `KINDS`."""


@dataclass(frozen=True)
class Seen:
    """What came of one load."""

    rate: float
    """Reports a second that were taken."""
    processor: float
    """Microseconds of the collector for each of them."""
    p99: float
    """Seconds of an upload that was taken."""
    single: float
    """The longest time that the other client waited."""
    refused: int


def main() -> None:
    """Prepare, then measure each kind of upload in turn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--stored", type=int, default=500_000)
    args = parser.parse_args()
    campaign = campaign_file.parse(CAMPAIGN, SurveyCampaign)
    with tempfile.TemporaryDirectory(dir=Path(__file__).parent) as name:
        folder, port = Path(name), free_port()
        token = prefill(campaign, folder / "bench.db", args.stored)
        (folder / "bench.toml").write_text(CAMPAIGN)
        command = [MURMUR, "serve", str(folder / "bench.toml")]
        command += ["--store", str(folder / "bench.db"), "--port", str(port)]
        with running(command, port) as process:
            for kind in KINDS:
                rounds = [each(campaign, token, kind, port, process, args.seconds)]
                for _ in range(args.rounds - 1):
                    rounds.append(each(campaign, token, kind, port, process, args.seconds))
                report_on(kind[0], rounds)
            print(f"memory of the collector, peak: {peak_mb(process):.0f} MB")
            print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


def each(
    campaign: SurveyCampaign,
    token: str,
    kind: Kind,
    port: int,
    process: subprocess.Popen[bytes],
    seconds: float,
) -> dict[str, Seen]:
    """Put each load of one kind on the collector, in turn."""
    name, batch, form, connections, most = kind
    found = {}
    for where in ("one", "many"):
        for times in TIMES:
            uploads = made(campaign, token, batch, form, int(most * seconds))
            singles = made(campaign, token, 1, report.JSON, int(seconds / load.EVERY))
            lines, before = times * connections, cpu_seconds(process)
            with load.somebody_else(port, singles, seconds) as other:
                result = load.run(port, uploads, lines, seconds, lines if where == "many" else 1)
            spent = cpu_seconds(process) - before
            found[f"{times:>2} x load, {where}"] = seen = Seen(
                result.rate(batch),
                1e6 * spent / max(1, result.good(batch)),
                result.p99 if result.latencies else np.inf,
                max(other.latencies, default=np.inf),
                sum(result.refused.values()) + sum(other.refused.values()),
            )
            said = f"{seen.processor:6.2f} us of processor; singles {seen.single:.2f} s at most"
            print(f"{name:<26} {times:>2} x, {where:<4} {result.line(batch)} {said}", flush=True)
    return found


def report_on(name: str, rounds: list[dict[str, Seen]]) -> None:
    """Print the median over rounds of what each load gave, beside the first one."""
    first, *_ = rounds[0]
    for label in rounds[0]:
        found = [(one[label], one[first]) for one in rounds]
        rate = np.median([seen.rate / base.rate for seen, base in found])
        work = np.median([base.processor / seen.processor for seen, base in found])
        p99 = np.median([seen.p99 for seen, _ in found])
        single = np.median([seen.single for seen, _ in found])
        print(
            f"{name:<26} {label:<16} goodput {rate:.2f}, by processor time {work:.2f}, p99 "
            f"{p99:.2f} s, somebody else's single report {single:.2f} s at most, refused "
            f"{sum(seen.refused for seen, _ in found)}",
            flush=True,
        )


if __name__ == "__main__":
    main()
