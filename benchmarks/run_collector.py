"""The collector under load, beside the same stack without our logic.

    python -m benchmarks.run_collector

A store that already holds reports; uploads with a device's token and random ids; everything
answered after its commit. Client and collector share this machine's cores. What else runs there
changes the reports a second, and less so the processor time that a report takes. With --scrub the
campaign keeps no reports.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np

from murmuration import system_rng
from murmuration.campaign.survey import SurveyCampaign
from murmuration.collector.access.tokens import new_token
from murmuration.collector.commit import Batch, commit
from murmuration.collector.publish import serve
from murmuration.collector.store import open_store
from murmuration.definition import load as campaign_file
from murmuration.exact.arrays import Rows
from murmuration.wire import report
from murmuration.wire.ids import new_ids
from tests.support import load

CAMPAIGN = """
name = "bench"
purpose = "To see how fast it is."
epsilon = 2.0
upload = "token"
[[attributes]]
name = "age"
low = 18
high = 98
[[attributes]]
name = "phone"
kind = "category"
labels = ["android", "ios", "other", "none"]
"""
HERE = Path(__file__).parent
PREFILL_CHUNK = 50_000


def reports(campaign: SurveyCampaign, n: int) -> Rows:
    """Return n people's reports."""
    crowd = np.random.default_rng(1)
    labels = np.array(campaign.questions[1].labels)
    answers = {"age": crowd.uniform(18, 98, n), "phone": labels[crowd.integers(0, 4, n)]}
    rng = system_rng()
    return campaign.privatize(campaign.encode(answers, rng), rng)


def prefill(campaign: SurveyCampaign, path: Path, n: int) -> str:
    """Fill a store with n reports of earlier hours; return a device's token."""
    store = open_store(path)
    intake = serve(store, campaign).intake(store)
    assert intake is not None
    rows = reports(campaign, PREFILL_CHUNK)
    for _ in range(0, n, PREFILL_CHUNK):
        ids = new_ids(PREFILL_CHUNK)
        columns = report.Upload(ids, rows.copy(), np.zeros(len(ids), dtype=np.uint8))
        commit(store, [Batch(intake, report.Incoming([], columns))])
    token = new_token(store, "device")
    store.close()
    return token


def free_port() -> int:
    """Return a port that nobody uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(command: list[str], port: int) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server until the block ends."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)  # noqa: S603
    try:
        for _ in range(200):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        time.sleep(0.5)
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()


def peak_mb(process: subprocess.Popen[bytes]) -> float:
    """Return the most memory that a process had, in MB."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


KINDS = (
    ("single reports, JSON", 1, report.JSON, 128, 25_000),
    ("batches of 100, JSON", 100, report.JSON, 128, 400_000),
    ("batches of 1,000, columns", 1000, report.BINARY, 64, 1_500_000),
)
"""Name, reports in an upload, form, connections, and reports to have ready for each second."""


def cpu_seconds(process: subprocess.Popen[bytes]) -> float:
    """Return the processor time that a process has used."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(folder: Path, campaign: SurveyCampaign, token: str, args: argparse.Namespace) -> None:
    """Put every kind of load on all three, in turn; then three times as much on the collector."""
    ports = {name: free_port() for name in ("collector", "rows", "bodies")}
    (folder / "bench.toml").write_text(text_of(args))
    murmur = str(Path(sys.executable).with_name("murmur"))
    commands = {
        "collector": [murmur, "serve", str(folder / "bench.toml")],
        "rows": [sys.executable, str(HERE / "bare.py"), str(folder / "rows.db")],
        "bodies": [sys.executable, str(HERE / "bare.py"), str(folder / "bodies.db")],
    }
    commands["collector"] += ["--store", str(folder / "bench.db"), "--port"]
    with ExitStack() as stack:
        processes = {
            name: stack.enter_context(
                running(
                    [*commands[name], str(port), *([name] if name != "collector" else [])], port
                )
            )
            for name, port in ports.items()
        }
        for kind in KINDS:
            compare(campaign, token, (ports, processes), kind, args)
        print(f"memory of the collector, peak: {peak_mb(processes['collector']):.0f} MB")
        for name, batch, form, connections, most in KINDS[1:]:
            uploads = made(campaign, token, batch, form, int(most * args.seconds))
            result = load.run(ports["collector"], uploads, 3 * connections, args.seconds)
            print(f"{name:<26} 3 x load   {result.line(batch)}", flush=True)
        print(f"memory of the collector, peak: {peak_mb(processes['collector']):.0f} MB")


def compare(
    campaign: SurveyCampaign,
    token: str,
    servers: tuple[dict[str, int], dict[str, subprocess.Popen[bytes]]],
    kind: tuple[str, int, str, int, int],
    args: argparse.Namespace,
) -> None:
    """Put one kind of load on all three, in turn, several times."""
    name, batch, form, connections, most = kind
    ports, processes = servers
    rates: dict[str, list[float]] = {server: [] for server in ports}
    for _ in range(args.rounds):
        for server, port in ports.items():
            uploads = made(campaign, token, batch, form, int(most * args.seconds))
            before = cpu_seconds(processes[server])
            result = load.run(port, uploads, connections, args.seconds)
            spent = (cpu_seconds(processes[server]) - before) / max(1, result.good(batch))
            rates[server].append(result.rate(batch))
            line = f"{result.line(batch)} {1e6 * spent:7.2f} us of processor"
            print(f"{name:<26} {server:<10} {line}", flush=True)
    best = {server: max(found) for server, found in rates.items()}
    print(
        f"{name:<26} of rows appended {best['collector'] / best['rows']:.2f}, of bodies appended "
        f"{best['collector'] / best['bodies']:.2f}",
        flush=True,
    )


def made(campaign: SurveyCampaign, token: str, batch: int, form: str, n: int) -> list[bytes]:
    """Return uploads of n people."""
    path = "/v1/campaigns/bench/reports"
    return load.requests(campaign, reports(campaign, n), batch, form, token, path)


def text_of(args: argparse.Namespace) -> str:
    """Return the campaign file."""
    return f"keep_reports = {'false' if args.scrub else 'true'}\n{CAMPAIGN}"


def main() -> None:
    """Prepare, then measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--stored", type=int, default=5_000_000)
    parser.add_argument("--scrub", action="store_true")
    args = parser.parse_args()
    campaign = campaign_file.parse(text_of(args), SurveyCampaign)
    with tempfile.TemporaryDirectory(dir=HERE) as name:
        folder = Path(name)
        start = time.perf_counter()
        token = prefill(campaign, folder / "bench.db", args.stored)
        spent = time.perf_counter() - start
        print(f"store with {args.stored:,} reports, made in {spent:.0f} s; {os.cpu_count()} cores")
        measure(folder, campaign, token, args)


if __name__ == "__main__":
    main()
