"""Tallies by period: what is taken out of others, and when nothing is left."""

from __future__ import annotations

import numpy as np
import pytest

from murmuration import Tally, mechanism
from murmuration.counting.periods import is_anything, minus, plus
from murmuration.errors import FormatError

LAW = mechanism("oue", epsilon=1.0, k=3)


def tally(n: int, *counts: int) -> tuple[Tally, ...]:
    return (Tally(LAW, np.array(counts), n),)


def test_people_whose_reports_support_nothing_are_counted() -> None:
    """Three reports without a bit: no counter has moved, and they are there."""
    assert is_anything(tally(3, 0, 0, 0))
    assert not is_anything(tally(0, 0, 0, 0))
    assert list(minus({1: tally(5, 2, 0, 0)}, {1: tally(2, 2, 0, 0)})) == [1]


def test_a_period_of_which_nothing_is_left_is_gone() -> None:
    whole = plus({1: tally(2, 1, 0, 1)}, {1: tally(1, 0, 1, 0), 2: tally(1, 1, 0, 0)})
    assert whole[1][0].counts.tolist() == [1, 1, 1]
    assert minus(whole, {2: tally(1, 1, 0, 0)}).keys() == {1}


@pytest.mark.parametrize("part", [{2: tally(1, 1, 0, 0)}, {1: tally(3, 1, 0, 0)}])
def test_what_is_not_part_of_others_is_refused(part: dict[int, tuple[Tally, ...]]) -> None:
    with pytest.raises(FormatError, match="not part of the first"):
        minus({1: tally(2, 1, 0, 1)}, part)
