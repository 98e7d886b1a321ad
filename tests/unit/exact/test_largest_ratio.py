"""The largest ratio of two rows: weights of one, and ratios that doubles cannot tell apart."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from murmuration.exact.table import largest_ratio

WEIGHTS = st.integers(0, 4) | st.integers(2**51 - 3, 2**52)


@given(st.lists(st.tuples(WEIGHTS, WEIGHTS), min_size=1, max_size=6))
def test_it_is_the_largest_of_all(pairs: list[tuple[int, int]]) -> None:
    top = np.array([max(pair) for pair in pairs], dtype=np.int64)
    bottom = np.array([min(pair) for pair in pairs], dtype=np.int64)
    place = largest_ratio(top, bottom)
    if not (top > 0).any():
        return  # nothing is ever sent
    if ((bottom == 0) & (top > 0)).any():
        assert bottom[place] == 0
        assert top[place] > 0
        return
    ratios = [Fraction(int(t), int(b)) for t, b in zip(top, bottom, strict=True) if b]
    assert Fraction(int(top[place]), int(bottom[place])) == max(ratios)


def test_a_weight_of_one_is_a_weight() -> None:
    assert largest_ratio(np.array([9, 100]), np.array([1, 50])) == 0
