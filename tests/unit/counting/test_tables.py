"""One reader for CSV and Parquet, and the commands that use it."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

from murmuration.cli import tables
from murmuration.cli.tables import open_table, texts
from murmuration.errors import ParameterError
from murmuration.wire import parquet
from tests.support.command import murmur

PEOPLE = {"age": [20.5, 31.0, None, 40.0, 55.25], "home": ["rent", "own", "own", None, "Łódź"]}


def write(path, columns):
    """Write the same columns as CSV or as Parquet."""
    if path.suffix == ".csv":
        with path.open("w", newline="", encoding="utf-8-sig") as lines:  # as spreadsheets do
            csv.writer(lines).writerows([columns, *zip(*map(texts, columns.values()), strict=True)])
    else:
        arrow = parquet.arrow()
        arrow.parquet.write_table(arrow.table(columns), path, row_group_size=2)
    return path


@pytest.fixture(params=[".csv", ".parquet", ".PQ"])
def path(request, tmp_path):
    return tmp_path / f"people{request.param}"


def test_both_formats_read_the_same(path, monkeypatch) -> None:
    table = open_table(write(path, PEOPLE))
    assert table.names == ["age", "home"]
    whole = table.columns()
    assert {name: texts(values) for name, values in whole.items()} == {
        name: texts(values) for name, values in PEOPLE.items()
    }
    assert table.columns(["home"], most=3) == {"home": ["rent", "own", "own"]}
    monkeypatch.setattr(tables, "CHUNK", 2)
    for most in (None, 1, 2, 3, 99):
        chunks = list(table.chunks(["home", "age"], most))
        assert all(len(part["age"]) == len(part["home"]) <= 2 for part in chunks)
        ages = [age for part in chunks for age in part["age"]]
        assert ages == whole["age"][:most]
    assert table.columns(["age"], 3) == {"age": whole["age"][:3]}


def test_rows_of_a_csv_file_that_are_short_or_blank(tmp_path) -> None:
    path = tmp_path / "people.csv"
    path.write_text('a,b\n1\n\n2,"x\ny",\n')
    assert open_table(path).columns() == {"a": ["1", "2"], "b": ["", "x\ny"]}
    path.write_text("a,b\n1,2\n1,2,3\n")  # before, what came after was dropped in silence
    with pytest.raises(ParameterError, match="1 of 2 rows have more fields than the 2 of line 1"):
        open_table(path).columns()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("none.csv", None, "there is no file"),
        ("none.parquet", None, "there is no file"),
        ("a.csv", b"age,home,home\n1,2,3\n", "2 columns called 'home'; its columns"),
        ("a.csv", b"age\n1\n", "no column 'home'; its columns are age"),
        ("a.csv", b"", "has no columns"),
        ("a.csv", b"age;home\n1;2\n1;2;3\n", "say --delimiter"),
        ("a.csv", b"home\n\xff\n", "is not UTF-8 text"),
        ("a.csv", b"home\n" + b"x" * 200_000, "is not a CSV file: field larger"),
        ("a.parquet", b"home\n1\n", "is not a Parquet file"),
        ("a.parquet", b"", "is not a Parquet file"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_in_one_line(tmp_path, name, content, message) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ParameterError, match=message):
        open_table(path).columns(["home"])


def test_a_damaged_parquet_file_is_named(tmp_path) -> None:
    path = write(tmp_path / "a.parquet", {"age": list(range(10_000))})
    path.write_bytes(path.read_bytes()[:-300] + b"PAR1")
    with pytest.raises(ParameterError, match="is not a Parquet file"):
        open_table(path).columns()


# --- the commands --------------------------------------------------------------------------------


def test_compare(path) -> None:
    write(path, {"name": ["a", "b"] * 50, "age": [20 + i % 60 for i in range(100)]})
    options = ("--column", "age", "--low", 25, "--high", 70, "--epsilon", 1, "--runs", 20)
    few = ("compare", "--data", path, *options, "--mechanism", "duchi", "--json")
    done = murmur(*few)
    (row,) = json.loads(done.stdout)
    assert row["predicted"] > 0
    assert "clamped to [25, 70]" in done.stderr
    assert "one of name, age" in murmur("compare", "--data", path, code=2).problem
    assert "no column 'x'" in murmur("compare", "--data", path, "--column", "x", code=2).problem


def test_compare_says_where_a_number_is_missing(path) -> None:
    write(path, {"age": [3.0, None, 4.0]})
    place = "first on line 3;" if path.suffix == ".csv" else "first in row 2;"
    assert place in murmur("compare", "--data", path, code=2).problem
    write(path, {"age": [3.0, 4.0, None]})
    assert "1 of 3 values in column age" in murmur("compare", "--data", path, code=2).problem


@pytest.mark.slow
def test_learn(path) -> None:
    draw = np.random.default_rng(1)
    ages = draw.uniform(18, 98, 2000).round(1).tolist()
    homes = draw.choice(["rent", "own"], 2000).tolist()
    wages = [400 * age + 9000 * (home == "own") for age, home in zip(ages, homes, strict=True)]
    write(path, {"age": ages, "home": homes, "wage": wages})
    columns = ("--number", "age=18:98", "--category", "home=rent|own", "--target", "wage=0:60000")
    learnt = json.loads(murmur("learn", "--data", path, *columns, "--epsilon", 8, "--json").stdout)
    assert learnt["error"] < learnt["without_model"]
    mistake = ("learn", "--data", path, "--number", "home=0:1", "--target", "wage=0:60000")
    assert "column home is said to be a number" in murmur(*mistake, code=2).problem


@pytest.mark.slow
def test_init(path, tmp_path) -> None:
    write(path, {"height": [1.5, 2.01, None] * 9, "sport": ["run", "swim", None] * 9})
    murmur("init", "--data", path, "--yes", folder=tmp_path)
    text = (tmp_path / "campaign.toml").read_text(encoding="utf-8")
    assert 'labels = ["run", "swim"]' in text
    assert "low = 1.5\nhigh = 2.1" in text
