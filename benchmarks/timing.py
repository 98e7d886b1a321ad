"""How long calls take."""

from __future__ import annotations

import time
from collections.abc import Callable


def seconds(task: Callable[[], object]) -> float:
    """Return how long one call takes."""
    start = time.perf_counter()
    task()
    return time.perf_counter() - start


def best_processor_time(task: Callable[[], object], rounds: int = 5) -> float:
    """Return the least processor time of a call, in seconds: other work hardly changes it."""
    best = float("inf")
    for _ in range(rounds):
        start = time.process_time()
        task()
        best = min(best, time.process_time() - start)
    return best
