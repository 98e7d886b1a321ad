"""Privacy levels that people choose: the table and the dependence study, with fixed seeds.

    python -m experiments.levels [--runs 50]

First the setting of the MPLDP paper (five attributes of 5 to 25 items, three levels): the paper's
BRR, OC and OP against what can be deployed. OP is an oracle: its weights are fitted to the true
histogram. Then one attribute of many people, whose choice of a level depends more and more on
what they have: the plain sum does not mind, OC does, the guarded GLS must never be worse.
"""

from __future__ import annotations

import argparse

from murmuration.lab.levels import LevelComparison, Setting, compare_levels

EPSILONS = (1.0, 3.0, 6.0)
SHIFTS = (0.0, 2.0, 5.0, 10.0, 20.0)
METHODS = (
    "BRR",
    "OC",
    "OP (oracle)",
    "GLS + simplex",
    "subset + GLS + simplex",
    "sample 1 + subset + GLS + simplex",
)
STUDIED = ("BRR", "OC", "GLS", "subset + GLS")


def paper_table(runs: int, data: str) -> None:
    """Print the NSE of every method for 1,000 and for 10,000 people."""
    print(f"NSE, {data} data, n = 1,000 | 10,000, mean of {runs} runs (standard error)\n")
    print(f"{'epsilon':8}" + "".join(f"{method:>40}" for method in METHODS))
    settings = [Setting(people=people, data=data) for people in (1_000, 10_000)]
    for epsilon in EPSILONS:
        found = [
            list(compare_levels(setting, [epsilon], runs, with_oracle=True)) for setting in settings
        ]
        cells = (" | ".join(_cell(rows, method) for rows in found) for method in METHODS)
        print(f"{epsilon:<8g}" + "".join(f"{cell:>40}" for cell in cells), flush=True)
    print()


def dependence_study(runs: int, data: str) -> None:
    """Print the NSE of one attribute of 100,000 people for levels that depend on the data."""
    print(f"NSE of one attribute of 10 items, {data} data, n = 100,000, {runs} runs\n")
    print(f"{'epsilon':8}{'shift':>6}" + "".join(f"{method:>24}" for method in STUDIED))
    setting = Setting(people=100_000, data=data, sizes=(10,), seed=2)
    for epsilon in (1.0, 3.0):
        for shift in SHIFTS:
            rows = list(compare_levels(setting, [epsilon], runs, [shift]))
            cells = (f"{_cell(rows, method):>24}" for method in STUDIED)
            print(f"{epsilon:<8g}{shift:>6g}" + "".join(cells), flush=True)
    print()


def _cell(rows: list[LevelComparison], method: str) -> str:
    row = next(row for row in rows if row.method == method)
    return f"{row.nse:.4g} ({row.stderr:.2g})"


def main() -> None:
    """Read the number of runs and print everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=50, help="collections for each number")
    runs = parser.parse_args().runs
    for data in ("flat", "zipf"):
        paper_table(runs, data)
    for data in ("flat", "zipf"):
        dependence_study(runs, data)


if __name__ == "__main__":
    main()
