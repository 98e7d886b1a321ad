"""The frequency part of `make bench`: both sides of every mechanism, beside the same protocol.

Ours draws from the operating system's secure generator; no peer's code asks for one. A peer's
collector gives the same histogram, or a clipped one (see `peers_frequency`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from rich.table import Table

import murmuration
from murmuration.mechanisms.base import Task
from peers import output
from peers_frequency import FREQUENCY_PEERS, FrequencyPeer
from timing import fastest

EPSILON = 1.0
SIZES = (16, 128, 1024)
ROUNDS = 5
SIDES = ("device", "collector")
COMPARED_WITH = {"hadamard": "hadamard-response"}
"""Mechanisms whose own protocol no peer has, and the nearest that one has."""

Rates = dict[str, Any]

TIMER = """
import json, time
import numpy as np
K = {k}
X = np.random.default_rng(1).integers(0, K, {people})
space = {{"np": np, "X": X, "K": K}}
exec({prepare!r}, space)
best = {{}}
for _ in range(3):
    for side, code in (("device", {device!r}), ("collector", {collect!r})):
        start = time.perf_counter()
        exec(code, space)
        best[side] = min(best.get(side, float("inf")), time.perf_counter() - start)
print(json.dumps({{side: {people} / taken for side, taken in best.items()}}))
"""


def people(k: int) -> int:
    """Return how many of our people to time: fewer where reports are wide."""
    return min(1 << 20, (1 << 27) // k)


def frequency_names() -> list[str]:
    """Return the names of the mechanisms that take one of k items."""
    kinds = murmuration.list_mechanisms().items()
    return [name for name, kind in kinds if kind.answers is Task.FREQUENCY]


def measure(name: str, k: int) -> Rates:
    """Return people per second on both sides of one mechanism."""
    chosen = murmuration.mechanism(name, epsilon=EPSILON, k=k)
    rng, n = murmuration.system_rng(), people(k)
    items = np.random.default_rng(1).integers(0, k, n)
    reports = chosen.privatize(items, rng)
    tasks = {
        "device": lambda: chosen.privatize(items, rng),
        "collector": lambda: chosen.estimate(chosen.tally(reports)),
    }
    best = fastest(tasks, ROUNDS)
    return {"mechanism": name, "k": k, "people": n, **{side: n / best[side] for side in SIDES}}


def measure_peer(peer: FrequencyPeer, k: int) -> Rates:
    """Return people per second on both sides of one peer; None where it does not run."""
    script = TIMER.format(
        k=k, people=peer.people, prepare=peer.prepare, device=peer.device, collect=peer.collect
    )
    rates = output(peer.package, peer.requires, script) or dict.fromkeys(SIDES)
    return {"peer": peer.package, "protocol": peer.protocol, "k": k, "people": peer.people, **rates}


def best_peer(row: Rates, peers: Iterable[Rates], side: str) -> Rates | None:
    """Return the fastest peer with the same protocol and k, if there is one."""
    protocol = COMPARED_WITH.get(row["mechanism"], row["mechanism"])
    same = [p for p in peers if p["protocol"] == protocol and p["k"] == row["k"] and p[side]]
    return max(same, key=lambda peer: float(peer[side]), default=None)


def results() -> dict[str, Any]:
    """Measure everything: for each k, ours and then the peers."""
    rows: list[Rates] = []
    peers: list[Rates] = []
    for k in SIZES:
        rows += [measure(name, k) for name in frequency_names()]
        peers += [measure_peer(peer, k) for peer in FREQUENCY_PEERS]
    for row in rows:
        for side in SIDES:
            best = best_peer(row, peers, side)
            row[f"{side}_best_peer"] = best and best["peer"]
            row[f"{side}_over_best_peer"] = best and row[side] / best[side]
    return {"epsilon": EPSILON, "mechanisms": rows, "peers": peers}


def tables(found: dict[str, Any]) -> list[Table]:
    """Return three tables: ours, the peers, and how they compare at the largest k."""
    return [_ours(found["mechanisms"]), _theirs(found["peers"]), _ratios(found["mechanisms"])]


def _ours(rows: list[Rates]) -> Table:
    table = Table(title=f"million people/s at epsilon {EPSILON:g}, one core, secure randomness")
    _side_columns(table, ["mechanism"])
    for name in dict.fromkeys(row["mechanism"] for row in rows):
        mine = [row for row in rows if row["mechanism"] == name]
        table.add_row(name, *(_millions(row[side]) for side in SIDES for row in mine))
    return table


def _theirs(peers: list[Rates]) -> Table:
    table = Table(title="peers, million people/s")
    _side_columns(table, ["protocol", "peer"])
    for protocol, name in sorted({(row["protocol"], row["peer"]) for row in peers}):
        same = [row for row in peers if (row["protocol"], row["peer"]) == (protocol, name)]
        table.add_row(protocol, name, *(_millions(row[side]) for side in SIDES for row in same))
    return table


def _ratios(rows: list[Rates]) -> Table:
    table = Table(title=f"faster than the best peer with the same protocol, k={SIZES[-1]}")
    for heading in ("mechanism", "device", "peer", "collector", "peer"):
        left = heading in ("mechanism", "peer")
        table.add_column(heading, justify="left" if left else "right", no_wrap=True)
    for row in (row for row in rows if row["k"] == SIZES[-1]):
        cells = [row["mechanism"]]
        for side in SIDES:
            ratio, peer = row[f"{side}_over_best_peer"], row[f"{side}_best_peer"]
            cells += [f"{ratio:.1f}x", peer] if ratio else ["", "none has it"]
        table.add_row(*cells)
    return table


def _side_columns(table: Table, first: list[str]) -> None:
    for heading in first:
        table.add_column(heading, no_wrap=True)
    for side in SIDES:
        for k in SIZES:
            table.add_column(f"{side}\nk={k}", justify="right", no_wrap=True)


def _millions(rate: float | None) -> str:
    return "fails" if rate is None else f"{rate / 1e6:.3g}"
