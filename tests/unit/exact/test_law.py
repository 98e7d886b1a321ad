"""Integer laws: rounding, drawing, comparing with e^epsilon; enumeration against the audit."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from murmuration.errors import ParameterError
from murmuration.exact.exponential import exp_below, exp_bounds, log_above, within
from murmuration.exact.grid import Grid, fixed_point
from murmuration.exact.loss import Loss
from murmuration.exact.randomness import WHOLE, ScriptedRng, seeded_rng
from murmuration.exact.table import Table
from murmuration.mechanisms.number.base import Design
from murmuration.mechanisms.number.piecewise import Piecewise

unit = st.floats(-1, 1)
word = st.integers(0, 2**64 - 1)


@pytest.mark.slow
@given(st.floats(1e-3, 20))
def test_exp_bounds_enclose_and_are_tight(epsilon: float) -> None:
    low, high = exp_bounds(Fraction(epsilon))
    assert low < high
    assert (high - low) / low < Fraction(1, 10**50)
    assert float(low) == pytest.approx(math.exp(epsilon), rel=1e-14)


@given(st.floats(1e-3, 20))
def test_within_and_log_agree(epsilon: float) -> None:
    below = exp_below(epsilon)
    assert within(below, epsilon)
    assert not within(below * (1 + Fraction(1, 10**20)), epsilon)
    assert log_above(below) <= epsilon


def test_log_is_never_understated() -> None:
    assert log_above(Fraction(3)) >= math.log(3)
    assert Fraction(log_above(Fraction(3))) != 0
    assert not within(Fraction(3), math.nextafter(log_above(Fraction(3)), 0))


@given(st.lists(unit, min_size=1))
def test_fixed_point_is_the_arithmetic_that_a_browser_does(values: list[float]) -> None:
    numbers = np.array(values)
    expected = [int(((value + 3) - 2) * 2**51) for value in values]
    assert fixed_point(numbers).tolist() == expected
    assert all(abs(x / 2**51 - 1 - v) <= 2**-52 for x, v in zip(expected, values, strict=True))


@given(unit, word, st.sampled_from([1, 2, 64, 512]))
def test_rounding_goes_to_a_neighbour(value: float, w: int, cells: int) -> None:
    index = int(Grid(cells).round(np.array([value]), np.array([w], dtype=np.uint64))[0])
    exact = Fraction(int(fixed_point(np.array([value]))[0]), 2**51) * cells / 2
    assert math.floor(exact) <= index <= math.ceil(exact)


@given(unit, st.sampled_from([1, 2, 64, 512]))
def test_rounding_is_exactly_unbiased(value: float, cells: int) -> None:
    """Goes up on the top words only, and on exactly (fraction of the cell) of all of them."""
    grid = Grid(cells)
    fixed = int(fixed_point(np.array([value]))[0])
    cell = WHOLE // cells
    fraction = fixed % cell  # must go up for exactly this many of the `cell` dithers
    shift = 64 - (cell.bit_length() - 1)
    for dither, up in ((cell - fraction - 1, 0), (cell - fraction, 1)):
        if 0 <= dither < cell:
            words = np.array([dither << shift], dtype=np.uint64)
            assert int(grid.round(np.array([value]), words)[0]) == fixed // cell + up


@st.composite
def tables(draw) -> np.ndarray:
    rows, symbols = draw(st.integers(1, 4)), draw(st.integers(2, 40))
    cuts = draw(
        st.lists(
            st.lists(st.integers(0, WHOLE), min_size=symbols - 1, max_size=symbols - 1),
            min_size=rows,
            max_size=rows,
        )
    )
    return np.array([np.diff([0, *sorted(cut), WHOLE]) for cut in cuts])


@pytest.mark.slow
@given(tables(), st.lists(word, min_size=1, max_size=50))
def test_draw_is_the_inverse_of_the_cumulative_weights(weights, words) -> None:
    table = Table(weights)
    drawn = np.array(words, dtype=np.uint64)
    for row in range(len(weights)):
        rows = np.full(len(words), row)
        expected = [sum(c <= (w >> 12) for c in np.cumsum(weights[row]).tolist()) for w in words]
        assert table.draw(rows, drawn).tolist() == expected


@pytest.mark.parametrize("beyond", [-1, 0, 1])
def test_a_crowd_draws_by_the_last_bit_as_one_person_does(beyond: int) -> None:
    """Weights that end next to where the first 12 bits of a word change."""
    cell, total = 1 << 40, 1 << 52
    ends = [place * cell + beyond for place in (1, 5, 4095)]
    table = Table(np.array([[end, total - end] for end in ends]))
    asked = [(row, end + step) for row, end in enumerate(ends) for step in (-2, -1, 0, 1)]
    rows, words = np.array(asked * 500).T
    drawn = table.draw(rows, words.astype(np.uint64) << np.uint64(12))
    assert (drawn == (words >= np.array(ends)[rows])).all()


@pytest.mark.slow
@given(tables())
def test_worst_ratio_is_the_largest_of_all(weights) -> None:
    ratio, rows, symbol = Table(weights).worst_ratio()
    ratios = [
        math.inf if not low else Fraction(high, low)
        for column in weights.T.tolist()
        for high in column
        for low in column
        if high
    ]
    assert (math.inf if ratio is None else ratio) == max(ratios)
    high, low = (int(weights[row, symbol]) for row in rows)
    assert (None if not low else Fraction(high, low)) == ratio


def test_a_table_refuses_bad_weights() -> None:
    wraps = [[(1 << 61) + 1] + [1 << 61] * 7]  # adds up to 1, modulo 2^64
    for weights in ([[1, 2]], [[-1, 5]], [[1, 3], [2, 1]], [[WHOLE, WHOLE]], [[0, 0]], wraps):
        with pytest.raises(ParameterError):
            Table(np.array(weights))
    with pytest.raises(ParameterError):
        Grid(3)


def test_infinite_loss_does_not_hold() -> None:
    assert not Loss(math.inf, 1.0, None, (0.0, 1.0), 0).holds


# --- brute force: every word of a narrow law, through the device, down to bytes ---------------

NARROW = 12


@dataclass(frozen=True)
class Narrow(Piecewise):
    """The piecewise law cut down to 12-bit words, so that every word can be tried."""

    keeps_promise = False  # cut down like this it is over epsilon, and the audit has to say so

    def build(self) -> Design:
        fine = super().build()
        rows = fine.weights[:: len(fine.weights) // 4]
        columns = np.add.reduceat(rows, np.arange(0, rows.shape[1], 20), axis=1)
        weights = columns >> (52 - NARROW)
        weights[:, 0] += (1 << NARROW) - weights.sum(axis=1)
        return Design(weights, np.linspace(-3, 3, weights.shape[1]))


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_loss_is_what_enumerating_every_word_shows(epsilon: float) -> None:
    mechanism = Narrow(epsilon=epsilon)
    every = np.arange(1 << NARROW, dtype=np.uint64) << np.uint64(64 - NARROW)
    seen = []
    for x in mechanism.design.grid.points:
        pairs = np.stack([seeded_rng(1).words(len(every)), every], axis=1)
        reports = mechanism.privatize(np.full(len(every), x), ScriptedRng(pairs.ravel()))
        data = mechanism.pack(reports)
        width = mechanism.report_bytes
        seen.append(Counter(data[i : i + width] for i in range(0, len(data), width)))
    outputs = set().union(*seen)
    worst = max(Fraction(a[o], b[o]) for o in outputs for a in seen for b in seen)
    assert mechanism.loss().ratio == worst
