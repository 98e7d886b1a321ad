"""`make bench`: every mechanism beside every peer that installs, in one run.

    make bench          prints tables; writes docs/bench.json, docs/bench.png and a part of
                        docs/speed.md

The same people, the same epsilon, one core, processor time of the best of three rounds (`contest`).
"The best peer" is the fastest of those that have the same protocol, for each side on its own.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import murmuration
from benchmarks import own
from benchmarks.contest import EPSILON, OURS, Entry, run
from benchmarks.peers import PEERS, SIZES
from benchmarks.timing import best_processor_time
from murmuration.files import ANYBODY, write_file
from murmuration.mechanisms.item.base import FrequencyMechanism

DOCS = Path("docs")
BEGIN, END = "<!-- make bench writes from here -->", "<!-- to here -->"
SIDES = ("device", "collector")
LIKE = {
    "hadamard": "hadamard-response",
    **dict.fromkeys(("bassily-smith", "projective"), "olh"),
    "memoised": "grr",
}
"""Mechanisms whose own protocol no peer has, and the nearest that one has."""

Row = dict[str, Any]


def results() -> Row:
    """Measure everything."""
    packages: dict[str, list[Entry]] = {}
    for entry in [*own.everything(), *PEERS]:
        packages.setdefault(entry.package, []).append(entry)
    rows: list[Row] = []
    for package, entries in packages.items():
        start = time.monotonic()
        rows += run(entries)
        print(f"{package:26} {time.monotonic() - start:5.0f} s", flush=True)
    slopes = slopes_of(rows, run(own.fewer()))
    for row in rows:
        _beside(row, rows)
    return {
        "epsilon": EPSILON,
        "rows": [_short(row) for row in rows],
        "slopes": slopes,
        "bare": bare(),
        "learners": learners(),
    }


def _beside(row: Row, rows: Sequence[Row]) -> None:
    """Add theory, and how the row does beside the best peer."""
    if row["task"] == "item" and row.get("n_error") is not None:
        chosen = murmuration.mechanism(row["protocol"], epsilon=EPSILON, k=row["k"])
        assert isinstance(chosen, FrequencyMechanism)
        row["error_over_theory"] = row["n_error"] / chosen.total_variance()
    if row["package"] != OURS:
        return
    for side in SIDES:
        same = [r for r in rows if r["package"] != OURS and side in r and _same(row, r)]
        if same and side in row:
            peer = max(same, key=lambda other: float(other[side]))
            row[f"{side}_peer"], row[f"{side}_ratio"] = peer["package"], row[side] / peer[side]


def _same(ours: Row, theirs: Row) -> bool:
    if (ours["task"], ours["k"]) != (theirs["task"], theirs["k"]):
        return False
    if ours["task"] in ("number", "vector"):
        return True  # they have one way each, ours are all beside it
    return bool(LIKE.get(ours["protocol"], ours["protocol"]) == theirs["protocol"])


def slopes_of(rows: Sequence[Row], few: Sequence[Row]) -> list[Row]:
    """How time grows: d log(seconds) / d log(people), and of a person with items, coordinates."""
    mine = [row for row in rows if row["package"] == OURS and "device" in row]
    found = []
    for small in (row for row in few if "device" in row):
        same = [r for r in mine if (r["task"], r["protocol"]) == (small["task"], small["protocol"])]
        large = next(r for r in same if r["k"] == small["k"])
        row: Row = {"task": small["task"], "protocol": small["protocol"]}
        for side in SIDES:
            ratio = (large["people"] / large[side]) / (small["people"] / small[side])
            row[f"{side}_n"] = math.log(ratio) / math.log(large["people"] / small["people"])
            if len(same) > 1:
                sizes = np.log([r["k"] for r in same])
                row[f"{side}_k"] = float(np.polyfit(sizes, -np.log([r[side] for r in same]), 1)[0])
        found.append(_short(row))
    return found


def bare() -> Row:
    """What cannot be done without: random bytes; counting symbols, and a mean, with numpy."""
    rng, symbols = murmuration.system_rng(), np.zeros(1 << 22, dtype=np.uint8)
    numbers = np.ones(1_000_000)
    pieces = [symbols[i : i + (1 << 18)] for i in range(0, len(symbols), 1 << 18)]

    def draw() -> None:
        for _ in range(256):
            rng.words(1 << 14)

    found = {
        "random_bytes": 256 * 8 * (1 << 14) / best_processor_time(draw),
        "mean": 1e6 / best_processor_time(lambda: np.mean(numbers)),
        "bincount": len(symbols) / best_processor_time(lambda: [*map(np.bincount, pieces)]),
    }
    return _short(found)


def learners() -> list[Row]:
    """Our estimators beside scikit-learn's on the same data, which have no privacy."""
    from sklearn.linear_model import LinearRegression, LogisticRegression

    from murmuration import learn

    draw = np.random.default_rng(1)
    x = draw.uniform(-1, 1, (100_000, 16))
    y = np.clip(x @ draw.normal(0, 0.2, 16) + draw.normal(0, 0.1, len(x)), -1, 1)
    rows = []
    for name, ours, theirs, target in (
        ("linear", learn.LinearRegression, LinearRegression, y),
        ("logistic", learn.LogisticRegression, LogisticRegression, (y > 0).astype(int)),
    ):
        private, plain = ours(2.0, random_state=1), theirs()
        seconds = [best_processor_time(partial(m.fit, x, target), 1) for m in (private, plain)]
        scores = [model.score(x, target) for model in (private, plain)]
        rows.append(
            {
                "model": name,
                **{"seconds": seconds[0], "sklearn_seconds": seconds[1]},
                **{"score": scores[0], "sklearn_score": scores[1]},
            }
        )
    return [_short(row) for row in rows]


def _short(row: Row) -> Row:
    return {
        key: float(f"{value:.4g}") if isinstance(value, float) else value
        for key, value in row.items()
        if key != "secure" and value is not None
    }


# --- what is shown ---------------------------------------------------------------------------


def report(found: Row) -> str:
    """Return the part of docs/speed.md that this run writes."""
    mine = [row for row in found["rows"] if row["package"] == OURS]
    theirs = [row for row in found["rows"] if row["package"] != OURS]
    bare = found["bare"]
    slower = [(r, s) for r in mine for s in SIDES if r.get(f"{s}_ratio", 2) < 1]
    told = ", ".join(
        f"{r['protocol']} ({s}, {r['task']}, {r['k']:,}: {r[f'{s}_ratio']:.2g} of {r[f'{s}_peer']})"
        for r, s in slower
    )
    parts = [
        f"`make bench` on {found['when']}, one core's processor time, epsilon {EPSILON:g}, ours "
        f"with secure randomness; load average {found['load']:.1f} on {os.cpu_count()} cores, "
        f"{found['minutes']:.0f} minutes. All rows: [bench.json](bench.json). Of the random bytes "
        f"that all is made from, {bare['random_bytes'] / 1e9:.1f} billion a second could be had; "
        f"np.bincount counted {bare['bincount'] / 1e6:.0f} million symbols a second. "
        "Packages for numbers have no collector; np.mean of their floats, unchecked and without an "
        f"error, is {bare['mean'] / 1e6:.0f} million a second.",
        f"Slower than a peer on either side: {told or 'none'}. Flower's noise is Gaussian, from "
        "numpy's generator, and keeps no epsilon with delta 0: it is beside the vectors because it "
        "is what is there.",
        "![people a second, ours and the best peer](bench.png)",
        *(_items(mine, side) for side in SIDES),
        _others(mine),
        _errors(mine, theirs),
        _slopes(found["slopes"]),
        _learners(found["learners"]),
    ]
    return "\n\n".join(parts)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _cell(row: Row | None, side: str) -> str:
    if row is None or side not in row:
        return ""
    ratio = row.get(f"{side}_ratio")
    return f"{row[side] / 1e6:.3g}" + (f" ({ratio:.3g}x)" if ratio else "")


def _items(mine: Sequence[Row], side: str) -> str:
    rows = [row for row in mine if row["task"] == "item"]
    names = dict.fromkeys(row["protocol"] for row in rows)
    by = {(row["protocol"], row["k"]): row for row in rows}
    title = f"{side}, million people/s (times the best peer)"
    head = [title, *(f"k = {k:,}" for k in SIZES), "nearest peer"]
    return _table(
        head,
        [
            [
                f"{name}{' (peers: ' + LIKE[name] + ')' if name in LIKE else ''}",
                *(_cell(by.get((name, k)), side) for k in SIZES),
                by[name, 1024].get(f"{side}_peer", ""),
            ]
            for name in names
        ],
    )


def _others(mine: Sequence[Row]) -> str:
    rows = [row for row in mine if row["task"] != "item"]
    return _table(
        [
            "numbers, vectors, surveys",
            "size",
            "device, million people/s",
            "peer",
            "collector",
            "peer",
        ],
        [
            [
                f"{row['task']}: {row['protocol']}",
                "" if row["task"] == "number" else str(row["k"]),
                *(
                    text
                    for side in SIDES
                    for text in (_cell(row, side), row.get(f"{side}_peer", ""))
                ),
            ]
            for row in rows
        ],
    )


def _errors(mine: Sequence[Row], theirs: Sequence[Row]) -> str:
    def line(row: Row) -> list[str]:
        error = row.get("error_over_theory")
        return [
            f"{row['protocol']}, {row['package']}",
            "" if error is None else f"{error:.3g}",
            f"{row['bytes']:,.0f}",
        ]

    rows = [r for r in [*mine, *theirs] if r["task"] == "item" and r["k"] == 128 and "bytes" in r]
    head = ["one of 128 items", "squared error of theory", "most memory, bytes a person"]
    note = (
        "Theory is that of the protocol without clipping; three rounds of 128 items tell it to "
        "about 7%. Proportions that are clipped at 0 and renormalised are nearer to such a "
        "histogram, biased, and without an interval."
    )
    return _table(head, [line(row) for row in rows]) + f"\n\n{note}"


def _slopes(rows: Sequence[Row]) -> str:
    keys = ("device_n", "collector_n", "device_k", "collector_k")
    head = [
        "time grows as",
        "device, people^",
        "collector, people^",
        "device, size^",
        "collector, size^",
    ]
    table = _table(
        head,
        [
            [
                f"{row['task']}: {row['protocol']}",
                *(f"{row[key]:.2f}" if key in row else "" for key in keys),
            ]
            for row in rows
        ],
    )
    return table + "\n\nBelow 1 in people: a part of the time is the same for any number of them."


def _learners(rows: Sequence[Row]) -> str:
    head = ["100,000 people, 16 features", "ours, epsilon 2", "score", "scikit-learn", "score"]
    return _table(
        head,
        [
            [
                row["model"],
                f"{row['seconds']:.2f} s",
                f"{row['score']:.3f}",
                f"{row['sklearn_seconds']:.2f} s, no privacy",
                f"{row['sklearn_score']:.3f}",
            ]
            for row in rows
        ],
    )


def plot(found: Row, path: Path) -> None:
    """Draw people a second against the number of items: ours, and the best peer."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    rows = [row for row in found["rows"] if row["task"] == "item"]
    names = list(dict.fromkeys(r["protocol"] for r in rows if r["package"] != OURS))
    figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), sharey=True, layout="constrained")
    for side, axis in zip(SIDES, axes, strict=True):
        for number, name in enumerate(names):
            for mine, style in ((True, "o-"), (False, "x:")):
                same = [
                    r
                    for r in rows
                    if r["protocol"] == name and (r["package"] == OURS) == mine and side in r
                ]
                best = {
                    k: max(r[side] for r in same if r["k"] == k) for k in {r["k"] for r in same}
                }
                sizes = sorted(best)
                label = name if mine else None
                color = f"C{number}"
                axis.loglog(sizes, [best[k] for k in sizes], style, color=color, label=label)
        axis.set(title=side, xlabel="items", xticks=SIZES, xticklabels=[f"{k:,}" for k in SIZES])
        axis.minorticks_off()
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("people a second")
    axes[0].legend(title="ours -, best peer ···", fontsize=8)
    figure.savefig(path, dpi=100)


def main() -> None:
    """Measure, print, write."""
    start, load = time.monotonic(), os.getloadavg()[0]
    found = results()
    found["when"] = datetime.now(UTC).strftime("%Y-%m-%d, %H:%M UTC")
    found["minutes"] = round((time.monotonic() - start) / 60, 1)
    found["load"] = round(max(load, os.getloadavg()[0]), 1)
    text = report(found)
    print(text)
    lines = ",\n".join(json.dumps(row) for row in found.pop("rows"))
    rest = json.dumps(found)[1:-1]
    write_file(DOCS / "bench.json", f'{{{rest}, "rows": [\n{lines}\n]}}\n', ANYBODY)
    plot({**found, "rows": json.loads(f"[{lines}]")}, DOCS / "bench.png")
    page = (DOCS / "speed.md").read_text()
    before, after = page.split(BEGIN)[0], page.split(END)[1]
    write_file(DOCS / "speed.md", f"{before}{BEGIN}\n\n{text}\n\n{END}{after}", ANYBODY)


if __name__ == "__main__":
    main()
