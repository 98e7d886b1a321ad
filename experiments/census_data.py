"""Real households to learn from: 280,005 tax units of the Current Population Survey.

The file `cps.csv.gz` is part of the package `taxcalc` (public domain, CC0): answers to the US
census bureau's survey about 2012 to 2014, one row for people who file taxes together. Only the
file is read; the package is not imported and nothing is downloaded. Deductions, state taxes and
means-tested benefits are left out: they were imputed or follow from income and would tell the
answer. Interest and pensions, which we keep, are in part imputed by the authors too.

Ranges and lists are declared here, not measured. Rows come in the survey's order, state after
state: shuffle them before they are taken in turns. Survey weights are not used, so shares are
those of the sample.
"""

from __future__ import annotations

import gzip
import warnings
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import numpy as np

from murmuration.exact.arrays import Floats, Ints
from murmuration.learn.columns import Category, Column, Number
from murmuration.learn.encode import Encoder

PEOPLE = 280_005
THRESHOLD = 50_000
WAGES = Number(0, 150_000, clamp=True)

AGES = ("under 18", "18-24", "25-34", "35-44", "45-54", "55-64", "65-74", "75 or more")
AGE_EDGES = (18, 25, 35, 45, 55, 65, 75)
FILING = ("single", "joint", "separate", "head of household")
DIVISIONS: dict[str, tuple[int, ...]] = {
    "New England": (9, 23, 25, 33, 44, 50),
    "Middle Atlantic": (34, 36, 42),
    "East North Central": (17, 18, 26, 39, 55),
    "West North Central": (19, 20, 27, 29, 31, 38, 46),
    "South Atlantic": (10, 11, 12, 13, 24, 37, 45, 51, 54),
    "East South Central": (1, 21, 28, 47),
    "West South Central": (5, 22, 40, 48),
    "Mountain": (4, 8, 16, 30, 32, 35, 49, 56),
    "Pacific": (2, 6, 15, 41, 53),
}
STATES = tuple(sorted(state for states in DIVISIONS.values() for state in states))

ATTRIBUTES: dict[str, Column] = {
    "age": Category(AGES),
    "spouse_age": Number(0, 85),
    "filing": Category(FILING),
    "size": Number(1, 8, clamp=True),
    "children": Number(0, 5, clamp=True),
    "small_children": Number(0, 3, clamp=True),
    "blind": Category(("yes", "no")),
    "dependent": Category(("yes", "no")),
    "interest": Number(0, 5_000, clamp=True),
    "social_security": Number(0, 50_000, clamp=True),
    "pension": Number(0, 50_000, clamp=True),
    "unemployment": Number(0, 20_000, clamp=True),
    "business": Number(-50_000, 100_000, clamp=True),
}
PLAIN = {
    "spouse_age": "age_spouse",
    "size": "XTOT",
    "children": "nu18",
    "small_children": "nu06",
    "interest": "e00300",
    "social_security": "e02400",
    "pension": "e01500",
    "unemployment": "e02300",
    "business": "e00900",
}
"""Our names of the columns that are taken as they are."""
CODED = ("e00200", "age_head", "MARS", "blind_head", "DSI", "fips")


@dataclass(frozen=True)
class Census:
    """What to learn from: x in [-1, 1], wages in [-1, 1], and 1 or -1 for 50,000 and more.

    `clamped` counts what is beyond the declared range, by column, wages included.
    """

    encoder: Encoder
    table: dict[str, np.ndarray]
    x: Floats
    wages: Floats
    labels: Ints
    clamped: dict[str, int]


def load(states: bool = False, absent: float = 0.0) -> Census:
    """Return all households, with the nine census divisions or (71 columns) with all states."""
    raw = read()
    encoder = declared(states, absent)
    table = named(raw, states)
    wages = WAGES.encode(raw["e00200"])[:, 0]
    labels = np.where(raw["e00200"] >= THRESHOLD, 1, -1)
    clamped = {**encoder.clamped(table), "wages": WAGES.clamped(raw["e00200"])}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # it says what `clamped` has
        x = encoder.encode(table)
    return Census(encoder, table, x, wages, labels, clamped)


def declared(states: bool, absent: float) -> Encoder:
    """Return the encoder of all attributes; `absent` is explained in `learn/columns.py`."""
    columns = {**ATTRIBUTES, "place": place(states)}
    return Encoder(
        {
            name: replace(column, absent=absent) if isinstance(column, Category) else column
            for name, column in columns.items()
        }
    )


def installed() -> Path | None:
    """Return where the data file is, or None without the package."""
    try:
        return Path(str(distribution("taxcalc").locate_file("taxcalc/cps.csv.gz")))
    except PackageNotFoundError:
        return None


def read() -> dict[str, Ints]:
    """Return the columns that we use, as the file has them: all are whole numbers."""
    path = installed()
    if path is None:
        raise SystemExit("this experiment needs real data: pip install 'murmuration-ldp[data]'")
    wanted = (*PLAIN.values(), *CODED)
    with gzip.open(path, "rt", encoding="ascii") as file:
        header = file.readline().strip().split(",")
        places = [header.index(name) for name in wanted]
        numbers = np.loadtxt(file, dtype=np.int64, delimiter=",", usecols=places)
    return dict(zip(wanted, numbers.T, strict=True))


def named(raw: dict[str, Ints], states: bool) -> dict[str, np.ndarray]:
    """Return the attributes with words for codes."""
    table: dict[str, np.ndarray] = {ours: raw[theirs] for ours, theirs in PLAIN.items()}
    table["age"] = np.array(AGES)[np.digitize(raw["age_head"], AGE_EDGES)]
    table["filing"] = np.array(FILING)[raw["MARS"] - 1]
    table["blind"] = np.where(raw["blind_head"] == 1, "yes", "no")
    table["dependent"] = np.where(raw["DSI"] == 1, "yes", "no")
    table["place"] = raw["fips"] if states else divisions()[raw["fips"]]
    return table


def place(states: bool) -> Category:
    """Return what a place is: one of 51 states (their FIPS codes) or of nine divisions."""
    return Category(STATES) if states else Category(tuple(DIVISIONS))


def divisions() -> np.ndarray:
    """Return the division of each state's FIPS code; codes in between have none."""
    names = np.full(max(STATES) + 1, "", dtype="U32")
    for name, states in DIVISIONS.items():
        names[list(states)] = name
    return names
