"""The census generator: the papers' shapes, everything in range, attributes that hang together."""

from __future__ import annotations

import numpy as np
import pytest

from murmuration.errors import ParameterError
from murmuration.lab.census import SHAPES, census
from murmuration.lab.levels import Setting

COLUMNS = {"us": 85, "br": 95, "br-90": 90, "mx-94": 94}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_shape_is_the_papers(shape: str) -> None:
    people = census(shape, 2000)
    assert len(people) == 2000
    for coding, every in (("signs", False), ("bits", True)):
        x = people.features(coding, every=every)
        assert np.abs(x).max() <= 1
        extra = len(SHAPES[shape].sizes) if every else 0
        assert x.shape[1] - extra == COLUMNS.get(shape, x.shape[1] - extra)
    for column, k in zip(people.categories, SHAPES[shape].sizes, strict=True):
        assert set(np.unique(column)) <= set(range(k))
    tuples = people.tuples()
    assert len(tuples) == len(SHAPES[shape].domains)


def test_people_follow_from_the_seed_and_the_law_of_a_shape_does_not() -> None:
    one, same, other = census("us", 50_000), census("us", 50_000), census("us", 50_000, seed=2)
    assert (one.numbers == same.numbers).all()
    assert (one.numbers != other.numbers).any()
    assert np.abs(one.numbers.mean(axis=0) - other.numbers.mean(axis=0)).max() < 0.02


def test_attributes_hang_together() -> None:
    people = census("us", 50_000)
    found = np.corrcoef(np.column_stack([people.features(), people.income]).T)
    np.fill_diagonal(found, 0)
    assert np.abs(found[-1]).max() > 0.15


def test_what_is_unknown_is_refused() -> None:
    with pytest.raises(ParameterError, match="no shape"):
        census("xx", 10)
    with pytest.raises(ParameterError, match="people"):
        census("us", 0)
    with pytest.raises(ParameterError, match="coding"):
        census("us", 10).features("words")


def test_levels_are_picked_by_the_shares_that_are_asked_for() -> None:
    setting = Setting(people=20_000, sizes=(2, 5), shares=(0.5, 0.3, 0.2))
    picked = setting.choices(setting.columns(), 0.0, np.random.default_rng(1))
    shares = np.bincount(picked.ravel(), minlength=3) / picked.size
    assert np.abs(shares - setting.shares).max() < 4 * np.sqrt(0.25 / picked.size)
    with pytest.raises(ParameterError, match="add up to 1"):
        Setting(shares=(0.5, 0.4))
