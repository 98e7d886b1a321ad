"""`make bench`: device and collector speed of every mechanism, as ratios measured in one run.

Ratios, because machines differ: the device's people per second over the rate at which the same
number of random words can be had at all; the collector's over np.bincount of the same reports;
both over the peers. The best of several interleaved rounds counts, one core, no threads.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import murmuration
import run_frequency
from murmuration.mechanisms.domain import Number
from murmuration.mechanisms.number.base import WORDS_PER_PERSON, NumericMechanism
from murmuration.mechanisms.packing import COUNT_CHUNK
from murmuration.mechanisms.registry import mechanisms_for
from peers import PEERS, rate
from timing import fastest

PEOPLE = 1 << 22
ROUNDS = 7
EPSILON = 1.0
CHUNK = 1 << 17
"""People per pass, as in `Mechanism.people_per_pass`."""
OUT = Path("out/bench.json")


def raw_words() -> None:
    """Draw the words that PEOPLE people use, in the same pieces, and do nothing with them."""
    rng = murmuration.system_rng()
    for _ in range(PEOPLE // CHUNK):
        rng.words(WORDS_PER_PERSON * CHUNK)


def raw_counts(reports: Any, symbols: int) -> Any:
    """Count the reports without checking anything."""
    pieces = range(0, len(reports), COUNT_CHUNK)
    return sum(np.bincount(reports[i : i + COUNT_CHUNK], minlength=symbols) for i in pieces)


def measure(name: str, values: Any) -> dict[str, Any]:
    """Return the four rates of one mechanism, in people per second, and their two ratios."""
    chosen = murmuration.mechanism(name, epsilon=EPSILON)
    assert isinstance(chosen, NumericMechanism)
    rng = murmuration.system_rng()
    reports = chosen.privatize(values, rng)
    tasks: dict[str, Callable[[], object]] = {
        "raw_words": raw_words,
        "device": lambda: chosen.privatize(values, rng),
        "bincount": lambda: raw_counts(reports, chosen.symbols),
        "collector": lambda: chosen.estimate(chosen.tally(reports)),
    }
    rates = {task: PEOPLE / time for task, time in fastest(tasks, ROUNDS).items()}
    return {
        "mechanism": name,
        **rates,
        "device_over_raw": rates["device"] / rates["raw_words"],
        "collector_over_bincount": rates["collector"] / rates["bincount"],
    }


def main() -> None:
    """Measure everything, print the tables, save JSON."""
    values = np.random.default_rng(1).uniform(-1, 1, PEOPLE)
    rows = [measure(name, values) for name in mechanisms_for(Number, kept=True)]
    peers = [{"peer": peer.name, "secure": peer.secure, "device": rate(peer)} for peer in PEERS]
    frequency = run_frequency.results()
    console = Console(width=110)  # wide tables, whatever the terminal
    console.print(_own(rows), _theirs(rows, peers), *run_frequency.tables(frequency))
    found = {"people": PEOPLE, "mechanisms": rows, "peers": peers, "frequency": frequency}
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps({**found, "load_average": os.getloadavg()}, indent=1))
    console.print(f"saved {OUT}; load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


def _own(rows: list[dict[str, Any]]) -> Table:
    table = Table(title=f"million people/s at epsilon {EPSILON:g}, {PEOPLE:,} people, one core")
    for heading in ("mechanism", "device", "of raw words", "collector", "of bincount"):
        table.add_column(heading, justify="left" if heading == "mechanism" else "right")
    for row in rows:
        table.add_row(
            row["mechanism"],
            f"{row['device'] / 1e6:.0f}",
            f"{row['device_over_raw']:.2f}",
            f"{row['collector'] / 1e6:.0f}",
            f"{row['collector_over_bincount']:.2f}",
        )
    return table


def _theirs(rows: list[dict[str, Any]], peers: list[dict[str, Any]]) -> Table:
    ours = next(row["device"] for row in rows if row["mechanism"] == "laplace")
    table = Table(title="Laplace on the device, beside peers")
    for heading in ("peer", "randomness", "million people/s", "ours is faster by"):
        table.add_column(heading, justify="left" if heading in ("peer", "randomness") else "right")
    for peer in peers:
        speed = peer["device"]
        table.add_row(
            peer["peer"],
            "secure" if peer["secure"] else "not secure",
            "does not install" if speed is None else f"{speed / 1e6:.2f}",
            "" if speed is None else f"{ours / speed:.1f}x",
        )
    return table


if __name__ == "__main__":
    main()
