"""What open dashboards cost the ingest, and how soon the first state is there.

    python -m benchmarks.run_live

A store that holds millions of reports; then, in turn, the same uploads with nobody watching and
with 20 dashboards open, and the processor time of the collector for each report. The order of the
two changes from round to round; the interval is that of the mean of the rounds' differences.
"""

from __future__ import annotations

import argparse
import json
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import numpy as np
from scipy.stats import t as student

from benchmarks import run_collector
from murmuration.campaign.survey import SurveyCampaign
from murmuration.collector.access.tokens import new_token
from murmuration.collector.store import open_store
from murmuration.definition import load as campaign_file
from murmuration.wire import report
from tests.support import load

PATH = "/v1/campaigns/bench/live"


@contextmanager
def watching(port: int, token: str, viewers: int) -> Iterator[list[int]]:
    """Open so many dashboards, and read what they are sent; yields how many states each got."""
    states, ending = [0] * viewers, threading.Event()

    def read(place: int, line: socket.socket) -> None:
        line.settimeout(0.2)
        while not ending.is_set():
            try:
                states[place] += line.recv(1 << 18).count(b"event: state")
            except TimeoutError:
                continue

    with ExitStack() as stack:
        lines = [stack.enter_context(opened(port, token)) for _ in range(viewers)]
        pairs = enumerate(lines)
        threads = [threading.Thread(target=read, args=(place, line)) for place, line in pairs]
        for thread in threads:
            thread.start()
        try:
            yield states
        finally:
            ending.set()
            for thread in threads:
                thread.join()


@contextmanager
def opened(port: int, token: str) -> Iterator[socket.socket]:
    """Open one dashboard."""
    with socket.create_connection(("127.0.0.1", port)) as line:
        line.sendall(
            f"GET {PATH} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n"
            "accept: text/event-stream\r\n\r\n".encode()
        )
        yield line


def first_state(port: int, token: str) -> tuple[float, int]:
    """Return how long a new dashboard waits for its first state, and how many reports it has."""
    start, found = time.perf_counter(), b""
    with opened(port, token) as line:
        while b"event: state" not in found or not found.endswith(b"\n\n\r\n"):
            found += line.recv(1 << 16)
    seconds = time.perf_counter() - start
    data = found[found.index(b"event: state") :].split(b"data: ", 1)[1].split(b"\n", 1)[0]
    return seconds, int(json.loads(data)["reports"])


def trickle(port: int, tokens: tuple[str, str], args: argparse.Namespace) -> None:
    """Let two reports a second come, so that each look finds news, and print what it costs."""
    campaign = campaign_file.parse(run_collector.CAMPAIGN, SurveyCampaign)
    device, analyst = tokens
    for viewers in (0, args.viewers) * 2:
        uploads = run_collector.made(campaign, device, 1, report.JSON, 100)
        with watching(port, analyst, viewers):
            time.sleep(1.0)
            before, start = run_collector.cpu_seconds(args.process), time.perf_counter()
            for place in range(2 * args.seconds):
                load.run(port, uploads[place : place + 1], 1, 5.0)
                time.sleep(0.5)
            spent = run_collector.cpu_seconds(args.process) - before
            each = 1e3 * spent / (time.perf_counter() - start)
        print(f"{viewers:>3} dashboards: {each:.1f} ms of processor a second, at two reports")


def compare(port: int, tokens: tuple[str, str], args: argparse.Namespace) -> None:
    """Put the same load on it with and without viewers, in turn."""
    campaign = campaign_file.parse(run_collector.CAMPAIGN, SurveyCampaign)
    spent: dict[int, list[float]] = {0: [], args.viewers: []}
    for turn in range(args.rounds + 1):
        for viewers in sorted(spent, reverse=bool(turn % 2)):
            device, analyst = tokens
            uploads = run_collector.made(campaign, device, args.batch, report.JSON, args.reports)
            with watching(port, analyst, viewers) as states:
                if viewers:
                    time.sleep(0.5)
                before = run_collector.cpu_seconds(args.process)
                result = load.run(port, uploads, args.connections, 600.0)
                after = run_collector.cpu_seconds(args.process)
            each = 1e6 * (after - before) / result.good(args.batch)
            if turn:  # the first round warms up
                spent[viewers].append(each)
            seen = f", states {min(states)} to {max(states)}" if states else ""
            took = f"{result.good(args.batch):,} reports in {result.seconds:.1f} s"
            print(f"{viewers:>3} dashboards: {each:7.2f} us a report ({took}{seen})", flush=True)
    summarise(np.array(spent[0]), np.array(spent[args.viewers]), args.viewers)


def summarise(alone: np.ndarray, watched: np.ndarray, viewers: int) -> None:
    """Print the difference, in percent of what a report takes with nobody watching."""
    percent = 100 * (watched - alone) / alone.mean()
    half = student.ppf(0.975, len(percent) - 1) * percent.std(ddof=1) / len(percent) ** 0.5
    print(
        f"{viewers} dashboards: {watched.mean():.2f} us a report, {alone.mean():.2f} without: "
        f"{percent.mean():+.1f}% ({percent.mean() - half:+.1f}% to {percent.mean() + half:+.1f}%)"
    )


def main() -> None:
    """Prepare, then measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stored", type=int, default=5_000_000)
    parser.add_argument("--viewers", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--reports", type=int, default=100_000, help="in each round")
    parser.add_argument("--seconds", type=int, default=20, help="of two reports each")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--connections", type=int, default=64)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=Path(__file__).parent) as name:
        folder, port = Path(name), run_collector.free_port()
        (folder / "bench.toml").write_text(run_collector.CAMPAIGN)
        campaign = campaign_file.parse(run_collector.CAMPAIGN, SurveyCampaign)
        device = run_collector.prefill(campaign, folder / "bench.db", args.stored)
        with closing(open_store(folder / "bench.db")) as store:
            analyst = new_token(store, "analyst")
        command = [sys.executable, "-m", "murmuration.cli", "serve", str(folder / "bench.toml")]
        command += ["--store", str(folder / "bench.db"), "--port", str(port)]
        with run_collector.running(command, port) as args.process:
            for which in ("first", "second", "third"):
                seconds, stored = first_state(port, analyst)
                print(f"{which} dashboard: {1e3 * seconds:.0f} ms to a state of {stored:,} reports")
                time.sleep(1.5)
            trickle(port, (device, analyst), args)
            compare(port, (device, analyst), args)


if __name__ == "__main__":
    main()
