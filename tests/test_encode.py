"""Encoding: ends to ends, one column less than values, nothing measured, nothing repeated."""

from __future__ import annotations

import importlib
import importlib.metadata
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from murmuration.errors import InputError, ParameterError
from murmuration.learn.encode import Category, Encoder, Number

PEOPLE = Encoder({"age": Number(0, 100), "home": Category(("rent", "own", "else"))})
FINITE = st.floats(-1e300, 1e300)
SECRET = 987654321


@given(st.tuples(FINITE, FINITE, FINITE).filter(lambda t: min(t) < max(t)))
def test_numbers_stay_in_the_cube_and_ends_are_ends(three: tuple[float, ...]) -> None:
    low, value, high = sorted(three)
    found = Number(low, high).encode([low, value, high])[:, 0]
    assert found[0] == -1
    assert found[2] == 1
    assert -1 <= found[1] <= 1


@pytest.mark.slow
@given(st.lists(st.integers(-200, 200)))
def test_numbers_are_affine_and_clamped_only_when_told(values: list[int]) -> None:
    found = Number(-50, 150, clamp=True).encode(values)[:, 0]
    assert np.allclose(found, np.clip(values, -50, 150) / 100 - 0.5, atol=1e-15)


WORDS = st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0")), unique=True)


@pytest.mark.slow
@given(WORDS.filter(lambda words: len(words) > 1), st.data())
def test_a_category_is_one_hot_but_for_the_last(words: list[str], data: st.DataObject) -> None:
    drawn = data.draw(st.lists(st.sampled_from(words)))
    one_hot = np.array([[v == w for w in words[:-1]] for v in drawn]).reshape(-1, len(words) - 1)
    category = Category(tuple(words))
    assert (category.encode(drawn) == np.where(one_hot, 1, -1)).all()
    assert (replace(category, absent=0).encode(drawn) == one_hot).all()
    assert category.items(drawn).tolist() == [words.index(value) for value in drawn]


def test_whole_numbers_are_categories_too_in_the_declared_order() -> None:
    assert Category((9, -1, 4)).items(np.array([4, 9, -1], dtype=np.int8)).tolist() == [2, 0, 1]
    assert Category((9, -1, 4), other=True).items([5, 9]).tolist() == [2, 0]
    assert Category((9, 4)).items(np.array([9], dtype=np.uint64)).tolist() == [0]


def test_a_number_too_large_for_our_type_is_not_wrapped_onto_a_declared_one() -> None:
    wrapped = np.array([2**64 - 1], dtype=np.uint64)  # the bits of -1
    with pytest.raises(InputError):
        Category((-1, 4)).items(wrapped)


def test_longer_words_are_not_cut_to_declared_ones() -> None:
    with pytest.raises(InputError):
        Category(("a", "b")).items(["ab"])


def test_rows_columns_and_one_person_give_the_same() -> None:
    whole = PEOPLE.encode({"home": ["own", "else"], "age": [25, 50], "not asked": [0, 0]})
    assert whole.tolist() == [[-0.5, -1, 1], [0, -1, -1]]
    assert (PEOPLE.encode([(25, "own"), (50, "else")]) == whole).all()
    assert (PEOPLE.encode({"age": 25, "home": "own"}) == whole[:1]).all()
    assert (
        PEOPLE.encode({"age": [25], "home": np.array(["own"], dtype=object)}) == whole[:1]
    ).all()
    numbers = Encoder({"a": Number(0, 1), "b": Number(0, 2)})
    assert numbers.encode(np.array([[0.0, 2.0], [0.5, 1.0]])).tolist() == [[-1, 1], [0, 0]]


def test_nobody_is_a_matrix_of_the_right_width() -> None:
    assert PEOPLE.encode([]).shape == (0, 3)
    assert PEOPLE.encode({"age": [], "home": []}).shape == (0, 3)


def test_names_and_width() -> None:
    assert PEOPLE.names == ("age", "home=rent", "home=own")
    assert PEOPLE.width == 3


@pytest.mark.parametrize(
    ("column", "bad"),
    [
        (Number(0, 10), [1, SECRET]),
        (Number(0, 10), [1.0, np.nan]),
        (Number(0, 10), [True, False]),
        (Number(0, 10), [[1.0]]),
        (Number(0, 10), [[1.0], [1.0, 2.0]]),
        (Number(0, 10), [1, None]),
        (Number(0, 10), ["1", str(SECRET)]),
        (Number(0, 10), [1 + 1j]),
        (Number(0, 10), np.ma.masked_array([1.0, 2.0], [False, True])),
        (Number(0, 10, clamp=True), [np.nan]),
        (Category(("a", "b")), ["a", str(SECRET)]),
        (Category(("a", "b")), ["a", None]),
        (Category(("a", "b")), [SECRET]),
        (Category((1, 2)), [1, SECRET]),
        (Category((1, 2)), [1.0]),
        (Category((1, 2)), ["1"]),
        (Category((1, 2)), [True]),
    ],
)
def test_what_has_no_code_is_refused_and_not_repeated(
    column: Number | Category, bad: object
) -> None:
    with pytest.raises(InputError, match="answer") as caught:
        Encoder({"answer": column}).encode({"answer": bad})
    assert str(SECRET) not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    "bad",
    [
        {"age": [1]},
        {"age": [1], "home": ["own", "own"]},
        [(1,)],
        [(1, "own", 2)],
        [1, 2],
        [(1,), ()],
    ],
)
def test_tables_of_the_wrong_shape_are_refused(bad: object) -> None:
    with pytest.raises(InputError):
        PEOPLE.encode(bad)


@pytest.mark.parametrize("ends", [(1, 1), (2, 1), (0, np.inf), (np.nan, 1), (-1.7e308, 1.7e308)])
def test_ranges_without_a_width_are_refused(ends: tuple[float, float]) -> None:
    with pytest.raises(ParameterError):
        Number(*ends)


@pytest.mark.parametrize(
    "values", [(), ("a",), ("a", "a"), "ab", ("a", 1), (True, False), (1.5, 2), (1, 1 << 63)]
)
def test_lists_that_are_no_lists_of_values_are_refused(values: tuple[str, ...]) -> None:
    with pytest.raises(ParameterError):
        Category(values)


def test_columns_that_are_none_are_refused() -> None:
    with pytest.raises(ParameterError):
        Encoder({})
    with pytest.raises(ParameterError):
        Encoder({"age": (0, 100)})  # type: ignore[dict-item]
    with pytest.raises(ParameterError):
        Encoder({"a=b": Number(0, 1), "a": Category(("b", "c"))})
    with pytest.raises(ParameterError):
        Category(("a", "b"), absent=0.5)


def has_taxcalc() -> bool:
    return any(importlib.metadata.distributions(name="taxcalc"))


@pytest.mark.slow
@pytest.mark.skipif(not has_taxcalc(), reason="real data is in the extra `data`")
def test_the_real_households(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "experiments"))
    census = importlib.import_module("census_data")
    data = census.load()
    assert data.x.shape == (census.PEOPLE, data.encoder.width) == (280_005, 29)
    assert np.abs(data.x).max() == 1
    assert np.abs(data.wages).max() == 1
    assert set(np.unique(data.labels)) == {-1, 1}
    assert (data.x.min(axis=0) < data.x.max(axis=0)).all()
    assert ((data.wages >= 2 * census.THRESHOLD / 150_000 - 1) == (data.labels == 1)).all()
    assert len(census.STATES) == len(set(census.STATES)) == 51
