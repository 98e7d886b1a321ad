"""Tables of many people: rows of numbers are made when they are asked for; interactions by name."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pandas
import pytest

from murmuration import learn
from murmuration.errors import InputError, ParameterError
from murmuration.learn.columns import Category, Interaction, Number
from murmuration.learn.encode import EncodedTable, Encoder

HOMES = ("rent", "own", "else")
DECLARED = {
    "age": Number(0, 100, typical=(20, 60)),
    "home": Category(HOMES),
    "sex": Category((1, 2)),
}


def people(count: int, seed: int = 1) -> pandas.DataFrame:
    draw = np.random.default_rng(seed)
    return pandas.DataFrame(
        {
            "age": draw.integers(0, 101, count).astype(np.int8),
            "home": draw.choice(HOMES, count),
            "sex": draw.integers(1, 3, count),
        }
    )


def test_some_rows_of_a_table_are_those_of_the_whole_matrix() -> None:
    frame = people(20_000)
    encoder = Encoder({**DECLARED, "both": Interaction("home", "age")})
    table = encoder.table(frame)
    assert isinstance(table, EncodedTable)
    whole = encoder.encode(frame)
    assert table.shape == whole.shape == (20_000, 6)
    some = np.random.default_rng(2).permutation(20_000)[:500]
    assert (table[some] == whole[some]).all()
    assert (table[15_000:] == whole[15_000:]).all()
    assert table.answers["age"].dtype == np.int8  # as it came
    assert table.answers["home"].dtype == np.uint8


MEASURED = """
import resource, sys
import numpy as np
import pandas
from murmuration import learn
def most(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
labels, count, columns = tuple("abcdefghij"), 150_000, 30
draw = np.random.default_rng(1)
codes = {f"c{i}": pandas.Categorical.from_codes(draw.integers(0, 10, count).astype(np.int8), labels)
         for i in range(columns)}
declared = {name: learn.Category(labels) for name in codes}
frame, target = pandas.DataFrame(codes), draw.uniform(-1, 1, count)
small = frame[:4000]
learn.LinearRegression(0.05, random_state=1, columns=declared).fit(small, target[:4000])
before = most()
model = learn.LinearRegression(0.05, random_state=1, columns=declared).fit(frame, target)
model.predict(frame)
print(most() - before)
"""


@pytest.mark.slow
def test_the_matrix_of_a_table_is_never_there() -> None:
    """150,000 people with 30 labels of 10: 309 MB as rows of numbers, all asked in one round."""
    ran = subprocess.run(
        [sys.executable, "-c", MEASURED], capture_output=True, text=True, check=True
    )
    assert float(ran.stdout) < 150


def test_names_units_and_attributes_of_interactions() -> None:
    encoder = Encoder(
        {
            **DECLARED,
            "a": Interaction("age", "home"),
            "b": Interaction("home", "sex"),
            "c": Interaction("age", "age"),
        }
    )
    assert encoder.names[4:] == (
        *("age x home=rent", "age x home=own"),
        *("home=rent x sex=1", "home=own x sex=1"),
        "age x age",
    )
    assert encoder.units == (0.05, 1, 1, 1, 0.05, 0.05, 1, 1, 0.05**2)
    found = [(one.first, one.width, one.labels) for one in encoder.attributes]
    assert found == [
        *((0, 1, False), (1, 2, True), (3, 1, True)),
        *((4, 1, False), (5, 1, False)),
        *((6, 2, True), (8, 1, False)),
    ]
    row = encoder.encode([(80, "own", 1)])[0].tolist()
    assert row == [2, 0, 1, 1, 0, 2, 0, 1, 4]
    assert Encoder(encoder.columns).fit(people(10)).n_features_in_ == 3


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"a": Interaction("age", "home")}, "one or more names"),
        ({**DECLARED, "a": Interaction("age", "wage")}, "a: .* there is no wage"),
        ({**DECLARED, "a": Interaction("home", "home")}, "a category with itself"),
        (
            {**DECLARED, "a": Interaction("age", "sex"), "b": Interaction("a", "age")},
            "b: .* there is no a",
        ),
        ({**DECLARED, "a": Interaction("age", "sex"), "b": Interaction("age", "sex")}, "same name"),
    ],
)
def test_interactions_of_what_is_not_there_are_refused(
    columns: dict[str, Any], message: str
) -> None:
    with pytest.raises(ParameterError, match=message):
        Encoder(columns)
    with pytest.raises(ParameterError, match="by their names"):
        Interaction("age", 3)  # type: ignore[arg-type]


def test_values_that_do_not_fit_are_refused_before_anybody_is_asked() -> None:
    frame = people(2000)
    frame.loc[1999, "age"] = 101
    model = learn.LinearRegression(columns=DECLARED, random_state=1)
    with pytest.raises(InputError, match=r"age: 1 of 2000 values .* position 1999"):
        model.fit(frame, np.zeros(2000))


@pytest.mark.slow
def test_an_interaction_is_learnt_where_there_is_one() -> None:
    """What age does depends on the home: without the interaction nothing can be told."""
    frame = people(60_000)
    y = np.clip((frame["age"] / 50 - 1) * np.where(frame["home"] == "own", 0.6, -0.3), -1, 1)
    plain = learn.LinearRegression(4.0, columns=DECLARED, random_state=1).fit(frame, y)
    columns = {**DECLARED, "age at home": Interaction("age", "home")}
    both = learn.LinearRegression(4.0, columns=columns, random_state=1).fit(frame, y)
    assert plain.score(frame, y) < 0.1
    assert both.score(frame, y) > 0.9
    rows = {row["name"]: row["value"] for row in both.coefficients()}
    assert rows["age x home=own"] == pytest.approx(0.9 / 50, rel=0.2)
