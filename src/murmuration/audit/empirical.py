"""The empirical audit: nothing on the wire may tell two values apart better than epsilon allows.

A backstop for what no law shows: a length, an order, a low bit that depends on the value. It
knows nothing about the mechanism. It looks at bytes: how many, which at each position, their
low bits, repeats, order, the whole report. On one half of the reports it picks the set of
observations that separates the two values best; on the other half it counts, and a
Clopper-Pearson bound turns the two counts into a loss that is certain to the stated confidence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from murmuration.exact.arrays import Floats, Ints
from murmuration.exact.randomness import Rng
from murmuration.mechanisms.base import Mechanism

Send = Callable[[Any, int], Sequence[bytes]]
"""What n people who all have the value x send, one bytes object each."""

POSITIONS = 16
"""How many bytes from the start of a report are looked at one by one."""


@dataclass(frozen=True)
class Evidence:
    """At least this much privacy loss, with this confidence, by this observation."""

    epsilon: float
    confidence: float
    feature: str
    inputs: tuple[Any, Any]


def wire(mechanism: Mechanism, rng: Rng) -> Send:
    """Return what a mechanism's devices put on the wire."""

    def send(x: Any, n: int) -> list[bytes]:
        reports = mechanism.privatize(mechanism.domain.repeated(x, n), rng)
        data, width = mechanism.pack(reports), mechanism.report_bytes
        if len(data) != n * width:  # not of one length: then each person's is looked at
            return [mechanism.pack(reports[i : i + 1]) for i in range(n)]
        return [data[start : start + width] for start in range(0, len(data), width)]

    return send


def attack(send: Send, x: Any, y: Any, n: int = 100_000, confidence: float = 0.9999) -> Evidence:
    """Return a lower bound on the loss between x and y, from n reports of each.

    >>> from murmuration import mechanism, seeded_rng
    >>> found = attack(wire(mechanism("duchi", epsilon=1.0), seeded_rng(1)), -1.0, 1.0, n=20_000)
    >>> 0.8 < found.epsilon <= 1.0
    True
    """
    first, second = send(x, n), send(y, n)
    best = Evidence(0.0, confidence, "nothing", (x, y))
    observations = _observations([*first, *second])
    # The best of many looks is reported, so each look has to be that much surer.
    miss = (1 - confidence) / (2 * len(observations))
    for name, symbols in observations.items():
        for a, b, inputs in ((0, n, (x, y)), (n, 0, (y, x))):
            bound = _bound(symbols[a : a + n], symbols[b : b + n], miss)
            if bound > best.epsilon:
                best = Evidence(bound, confidence, name, inputs)
    return best


def _bound(ours: Ints, theirs: Ints, miss: float) -> float:
    """Pick the separating set on the even reports, bound its log ratio on the odd ones."""
    size = int(max(ours.max(), theirs.max())) + 1
    seen = [np.bincount(part, minlength=size) for part in (ours[::2], theirs[::2])]
    order = np.argsort(-(seen[0] + 0.5) / (seen[1] + 0.5), kind="stable")
    hits = [np.cumsum(part[order]) for part in seen]
    ratios = _log_ratio(hits[0], hits[1], len(ours[::2]), miss)
    chosen = order[: int(ratios.argmax()) + 1]
    fresh = [int(np.isin(part[1::2], chosen).sum()) for part in (ours, theirs)]
    bound = _log_ratio(np.array([fresh[0]]), np.array([fresh[1]]), len(ours[1::2]), miss)
    return float(bound[0])


def _log_ratio(ours: Ints, theirs: Ints, n: int, miss: float) -> Floats:
    """Return ln(low/high): Clopper-Pearson below for our hits, above for theirs, miss/2 each."""
    miss /= 2
    low = np.where(ours > 0, betaincinv(np.maximum(ours, 1), n - ours + 1, miss), 0.0)
    high = np.where(theirs < n, betaincinv(theirs + 1, np.maximum(n - theirs, 1), 1 - miss), 1.0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(low / high))


def _observations(reports: Sequence[bytes]) -> dict[str, Ints]:
    """Return everything that is looked at: a name and a small integer for each report."""
    lengths = np.array([len(report) for report in reports])
    widest = max(int(lengths.max()), 1)
    padded = np.frombuffer(b"".join(r.ljust(widest, b"\0") for r in reports), dtype=np.uint8)
    octets = padded.reshape(len(reports), widest)
    views: dict[str, NDArray[np.generic]] = {"length": lengths, "whole report": _whole(octets)}
    for p in range(min(widest, POSITIONS)):
        views[f"byte {p}"] = octets[:, p]
        views[f"low bits of byte {p}"] = octets[:, p] & 15
    views["repeats"] = (np.diff(np.sort(octets, axis=1), axis=1) == 0).sum(axis=1)
    views["order"] = np.diff(octets.astype(np.int16), axis=1).clip(-1, 1).sum(axis=1)
    views["place of the largest byte"] = octets.argmax(axis=1)
    # Floats: the size of a number (its last bytes) together with how fine it is (the first).
    ends = octets[:, -min(2, widest) :].astype(np.int64)
    views["size and low bits"] = ((ends[:, -1] << 8 | ends[:, 0]) << 4) | (octets[:, 0] & 15)
    return {name: np.unique(values, return_inverse=True)[1] for name, values in views.items()}


def _whole(octets: NDArray[np.uint8]) -> NDArray[np.generic]:
    """Return each report as one comparable item."""
    return np.ascontiguousarray(octets).view(f"V{octets.shape[1]}").ravel()
