"""`murmur simulate`: a study is seeded, resumed, the same on every engine, and near its theory."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from murmuration.exact.randomness import Rng
from murmuration.lab import study as studies
from murmuration.lab.engine import Engine, Measured, measured
from tests.support.command import murmur

CAMPAIGN = """
name = "habits"
purpose = "A study."
epsilon = 9
[[attributes]]
name = "sleep"
low = 0
high = 12
mechanism = "laplace"
[[attributes]]
name = "pet"
kind = "category"
labels = ["cat", "dog", "none"]
"""
STUDY = """
people = 2000
repetitions = {repetitions}
epsilon = [1, 4]
mechanism = ["auto", "duchi+grr"]
[[campaigns]]
file = "habits.toml"
"""


@pytest.fixture
def study(tmp_path: Path) -> Path:
    (tmp_path / "habits.toml").write_text(CAMPAIGN)
    (tmp_path / "study.toml").write_text(STUDY.format(repetitions=3))
    return tmp_path / "study.toml"


def of_data(repetitions: int, file: str = "people.csv") -> str:
    """Return a study of the people in a file."""
    text = STUDY.format(repetitions=repetitions).replace("people = 2000\n", "")
    return f'{text}data = "{file}"\n'


def rows(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return found


@pytest.mark.slow
def test_a_study_goes_on_where_it_was(study: Path) -> None:
    first = json.loads(murmur("simulate", study, "--json").stdout)
    assert (first["run"], first["known"]) == (12, 0)
    before = rows(study.with_suffix("") / "results.parquet")
    assert len(before) == 12 * 4  # a mean and three labels
    study.write_text(STUDY.format(repetitions=5))
    cells = sorted((study.with_suffix("") / "cells").iterdir())
    cells[0].unlink()
    again = json.loads(murmur("simulate", study, "--json").stdout)
    assert (again["run"], again["known"]) == (9, 11)
    after = rows(study.with_suffix("") / "results.parquet")
    assert [row for row in after if row["repetition"] < 3] == before
    study.write_text(of_data(5))
    lines = [f"{hours},{pet}" for hours, pet in [(8, "cat"), (6, "dog"), (7, "none")] * 400]
    (study.parent / "people.csv").write_text("\n".join(["sleep,pet", *lines]) + "\n")
    other = json.loads(murmur("simulate", study, "--json").stdout)
    assert (other["run"], other["known"]) == (20, 0)  # other people: nothing is known of them
    found = rows(study.with_suffix("") / "results.parquet")
    assert {round(row["truth"], 9) for row in found if row["attribute"] == "sleep"} == {7.0}


@pytest.mark.slow
def test_what_is_in_a_row(study: Path) -> None:
    study.write_text(STUDY.format(repetitions=60))
    murmur("simulate", study, "--plot", study.parent / "study.png")
    assert (study.parent / "study.png").stat().st_size > 10_000
    found = rows(study.with_suffix("") / "results.parquet")
    assert {row["laws"] for row in found if row["mechanism"] == "duchi+grr"} == {"duchi", "grr"}
    for row in found:
        assert row["covered"] == (row["low"] <= row["truth"] <= row["high"])
        assert row["squared_error"] == (row["estimate"] - row["truth"]) ** 2
    covered = np.mean([row["covered"] for row in found])
    assert covered > 0.93
    for line in studies.summary(found):  # 60 squares of a mean: their mean is within 18% (1 s.e.)
        assert 0.6 < line.rmse / line.predicted < 1.4, line


def test_mistakes_are_told(study: Path) -> None:
    for text, said in (
        ("people = 3", "not a study"),
        (STUDY.format(repetitions=0), "repetitions"),
        (STUDY.format(repetitions=1).replace("duchi+grr", "duchy"), "no mechanism is called duchy"),
        (STUDY.format(repetitions=1).replace("habits.toml", "x.toml"), "no such file"),
        (of_data(1, "x.csv"), "there is no file"),
        (STUDY.format(repetitions=1) + 'data = "x.csv"\n', "leave people out"),
        (STUDY.format(repetitions=1) + "colour = 1\n", "unknown field"),
    ):
        study.write_text(text)
        assert said in murmur("simulate", study, code=2).problem
    assert "local or spark" in murmur("simulate", study, "--engine", "dask", code=2).problem


def test_data_that_does_not_fit_is_refused_as_check_does(study: Path) -> None:
    study.write_text(of_data(1))
    lines = [f"{hours},{pet}" for hours, pet in [(8, "cat"), (6, "dog"), (7, "?")] * 40]
    (study.parent / "people.csv").write_text("\n".join(["sleep,pet", *lines]) + "\n")
    said = murmur("simulate", study, code=2).problem
    assert "pet: unknown are '?' 40" in said
    assert "more than 1% of the values do not fit: pet 33.33%" in said
    assert "--allow-misfits" not in said


def test_the_truth_is_that_of_those_who_answered(study: Path) -> None:
    """`murmur init` writes missing = true: a study of its campaigns is no mistake."""
    missing = 'missing = true\nmarkers = ["?"]\n'
    campaign = CAMPAIGN.replace('mechanism = "laplace"\n', missing) + missing
    (study.parent / "habits.toml").write_text(campaign)
    study.write_text(of_data(2))
    people = [(8, "cat"), (6, "dog"), ("?", "none"), (7, "?")]
    lines = [f"{hours},{pet}" for hours, pet in people * 500]
    (study.parent / "people.csv").write_text("\n".join(["sleep,pet", *lines, "7,fish"]) + "\n")
    murmur("simulate", study)
    truths = {
        (row["attribute"], row["item"]): round(row["truth"], 3)
        for row in rows(study.with_suffix("") / "results.parquet")
    }
    shares = {("pet", label): 0.333 for label in ("cat", "dog", "none")}
    assert truths["sleep", "mean"] == 7.0
    assert {key: truths[key] for key in shares} == shares
    assert (truths["pet", "answered"], truths["sleep", "answered"]) == (0.75, 0.75)


# --- the engine ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Coins:
    """A contest that says what it was given."""

    def collect(self, rng: Rng, repetition: int) -> list[float]:
        return [float(rng.words(1)[0] >> np.uint64(40)), float(repetition)]


def test_a_cell_follows_from_the_seed_its_name_and_its_number() -> None:
    contests = {("a", 1.0): Coins(), ("b", 1.0): Coins()}
    engine = Engine(contests, 3, seed=5)
    assert [cell.repetition for cell in engine.cells] == [0, 0, 1, 1, 2, 2]
    found = dict(engine.outcomes(engine.cells))
    assert found == dict(engine.outcomes(engine.cells[::-1]))
    assert len({outcome[0] for outcome in found.values()}) == 6
    other = Engine({("b", 1.0): Coins()}, 3, seed=5)
    assert dict(other.outcomes(other.cells)) == {cell: found[cell] for cell in other.cells}
    assert Engine(contests, 3, seed=6).run(engine.cells[0]) != found[engine.cells[0]]


def test_errors_are_averaged_over_repetitions() -> None:
    ((name, (_, count)),) = measured({("a", 1.0): Coins()}, 5, 1)
    assert name == ("a", 1.0)
    assert count == Measured(2.0, math.sqrt(2.0) / math.sqrt(5))
