"""How long calls take: the best of several rounds, taken in turn so that load hits all alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping


def seconds(task: Callable[[], object]) -> float:
    """Return how long one call takes."""
    start = time.perf_counter()
    task()
    return time.perf_counter() - start


def fastest(tasks: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Return the shortest time of each task, in seconds."""
    best = dict.fromkeys(tasks, float("inf"))
    for _ in range(rounds):
        for name, task in tasks.items():
            best[name] = min(best[name], seconds(task))
    return best
