"""How fast `oue`, `sue` and `subset` make reports of 1,024 bits, beside one random byte a bit.

    python -m benchmarks.run_bits

From words that a device can have again, and from the system's generator: the two ways that there
are. Processor time, the best of some rounds.
"""

from __future__ import annotations

import argparse
import os
import ssl

import numpy as np

import murmuration
from benchmarks.timing import best_processor_time
from murmuration.exact.randomness import Rng, seeded_rng, system_rng

K, NAMES = 1024, ("oue", "sue", "subset")
PIECE = 1 << 16
"""Bytes that are drawn at once: more would be slower, as memory is had anew each time."""


def rate(name: str, rng: Rng, people: int, rounds: int) -> float:
    """Return how many million people a second a mechanism makes reports for."""
    law = murmuration.mechanism(name, epsilon=1.0, k=K)
    items = np.arange(people) % K
    return people / best_processor_time(lambda: law.privatize(items, rng), rounds) / 1e6


def drawn(size: int) -> None:
    """Draw so many bytes, piece by piece, and do nothing with them."""
    for _ in range(0, size, PIECE):
        ssl.RAND_bytes(PIECE)


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, default=65_536)
    parser.add_argument("--rounds", type=int, default=7)
    asked = parser.parse_args()
    bare = best_processor_time(lambda: drawn(K * asked.people), asked.rounds)
    print(f"load average {os.getloadavg()[0]:.1f}")
    print(f"one random byte a bit: {asked.people / bare / 1e6:.1f} million people/s")
    for name in NAMES:
        again = rate(name, seeded_rng(1), asked.people, asked.rounds)
        bulk = rate(name, system_rng(), asked.people, asked.rounds)
        print(f"{name}: {again:.2f} from words that can be had again, {bulk:.2f} from the system")


if __name__ == "__main__":
    main()
