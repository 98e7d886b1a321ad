"""`make tables`: build the LP-optimal tables that the package carries (minutes; run on purpose)."""

from __future__ import annotations

import sys
import time
from functools import partial
from itertools import product
from pathlib import Path

from murmuration.files import ANYBODY, write_file
from murmuration.mechanisms.number import optimal
from murmuration.mechanisms.number.optimal_sampled import CAP, FLAT

EPSILONS = (
    0.1,
    0.2,
    0.25,
    0.3,
    0.5,
    0.75,
    1.0,
    1.25,
    1.5,
    2.0,
    2.5,
    3.0,
    3.5,
    4.0,
    5.0,
    6.0,
    8.0,
    10.0,
)
FOLDER = Path("src/murmuration/mechanisms/tables")


def main() -> None:
    """Build what is missing; a table that is there is never changed: reports depend on it."""
    FOLDER.mkdir(exist_ok=True)
    kinds = ((None, None), (FLAT, CAP))  # optimal, optimal-sampled
    for epsilon, (prior, cap) in product(EPSILONS, kinds):
        path = FOLDER / optimal.file_name(epsilon, prior, cap)
        if path.exists():
            continue
        start = time.perf_counter()
        built = optimal.build(epsilon, prior, cap=cap)
        audit = partial(optimal.audited, epsilon=epsilon)
        solution = built.checked(audit, squares=cap is not None)
        write_file(path, solution.to_bytes(), ANYBODY)
        shape = solution.design.weights.shape
        print(f"{path} {shape} {time.perf_counter() - start:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
