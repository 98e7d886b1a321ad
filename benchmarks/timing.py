"""How long calls take."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping


def seconds(task: Callable[[], object]) -> float:
    """Return how long one call takes."""
    start = time.perf_counter()
    task()
    return time.perf_counter() - start


def fastest(tasks: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Return the shortest time of each task, in seconds: they take turns."""
    best = dict.fromkeys(tasks, float("inf"))
    for _ in range(rounds):
        for name, task in tasks.items():
            best[name] = min(best[name], seconds(task))
    return best


def best_processor_time(task: Callable[[], object], rounds: int = 5) -> float:
    """Return the least processor time of a call, in seconds: other work hardly changes it."""
    best = float("inf")
    for _ in range(rounds):
        start = time.process_time()
        task()
        best = min(best, time.process_time() - start)
    return best
