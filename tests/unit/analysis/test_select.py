"""Which figures are shown of a long list: the largest, and what the others are together."""

from __future__ import annotations

import math

import pytest

from murmuration.analysis.figures import Attribute, Estimates
from murmuration.analysis.select import largest
from murmuration.results.figure import Figure

SHARES = {"bus": 0.2, "car": 0.4, "foot": 0.1, "train": 0.25, "bike": 0.05}


def collected(**more: bool) -> Estimates:
    figures = [
        Figure("way", label, share, 0.01, share - 0.02, share + 0.02, 900, 1.0, "share")
        for label, share in SHARES.items()
    ]
    attribute = Attribute("way", "category", 900, 100, False, labels=len(SHARES), **more)
    return Estimates("x", 1, "d", 900, 0.95, "participants", figures, [attribute])


def test_the_largest_come_first_and_the_others_are_one_line() -> None:
    car, train, rest = largest(collected(), top=2).estimates
    assert [car.item, train.item] == ["car", "train"]
    assert math.isclose(rest.value, 0.35)
    assert (rest.stderr, rest.low, rest.high) == (None, None, None)


@pytest.mark.parametrize("top", [None, 5, 9])
def test_a_short_list_stays_as_it_is(top: int | None) -> None:
    assert [one.item for one in largest(collected(), top).estimates] == list(SHARES)
