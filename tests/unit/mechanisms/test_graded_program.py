"""The graded program reproduces the sheet's numbers, keeps its budgets and proves its limit."""

from itertools import pairwise

import numpy as np
import pytest

from murmuration.mechanisms.solve import graded as graded_program
from murmuration.mechanisms.solve import linear as linear_program
from murmuration.mechanisms.solve.graded import grid_for, solve, two_point_bound

EDGES = (-1.0, -0.6, -0.2, 0.2, 0.6, 1.0)
FALLING = np.array([5.0, 4.0, 3.0, 2.0, 1.0])
MIDDLE = np.array([5.0, 2.0, 1.0, 2.0, 5.0])
SEMANTICS = {"max": np.maximum.outer, "min": np.minimum.outer}


def broken(channel, edges, budgets, points):
    """The largest log ratio above its budget, over all pairs of ranges, read off the channel."""
    worst = -np.inf
    for g in range(len(budgets)):
        for h in range(len(budgets)):
            first = channel[(points >= edges[g]) & (points <= edges[g + 1])]
            second = channel[(points >= edges[h]) & (points <= edges[h + 1])]
            loss = np.log(first.max(axis=0) / second.min(axis=0)).max()
            worst = max(worst, loss - budgets[g][h])
    return worst


def check(found, edges, budgets, points, margin):
    assert found.channel.shape == (len(points), len(found.values))
    assert len(found.values) <= 256
    assert found.channel.min() > 0.9e-9
    assert np.abs(found.channel.sum(axis=1) - 1).max() < 1e-12
    scale = np.abs(found.values).max()
    assert np.abs(found.channel @ found.values - points).max() < 1e-12 * scale
    assert broken(found.channel, edges, budgets, points) <= -margin + 1e-12
    assert found.worst == pytest.approx((found.channel @ found.values**2 - points**2).max())
    assert two_point_bound(edges, budgets) <= found.bound <= found.worst <= 1.006 * found.bound


@pytest.mark.slow
@pytest.mark.parametrize(
    ("budgets", "semantics", "known"),
    [
        (FALLING * 0.1, "max", 17.8),
        (FALLING * 0.25, "max", 3.23),
        (FALLING * 0.5, "max", 0.904),
        (FALLING, "max", 0.210),
        (FALLING * 0.1, "min", 399.9),
        (FALLING * 0.25, "min", 63.9),
        (FALLING * 0.5, "min", 15.9),
        (FALLING, "min", 3.89),
        (MIDDLE * 0.1, "max", 36.1),
        (MIDDLE * 0.1, "min", 148.8),
    ],
)
def test_known_worst_variances(budgets, semantics, known):
    pairs = SEMANTICS[semantics](budgets, budgets)
    points = grid_for(EDGES, pairs)
    found = solve(EDGES, pairs, points)
    assert found.worst == pytest.approx(known, rel=0.01)
    check(found, EDGES, pairs, points, 3e-6)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.02, 0.5, 1.0, 2.0])
def test_equal_budgets_are_the_ungraded_program(epsilon):
    points = np.linspace(-1.0, 1.0, 17)
    plain = linear_program.solve(epsilon, 16)
    for edges in ([-1.0, 1.0], [-1.0, -0.5, 0.125, 1.0]):
        ranges = len(edges) - 1
        found = solve(edges, np.full((ranges, ranges), epsilon), points)
        assert found.worst == pytest.approx(plain.worst, rel=0.003)
        assert found.bound <= plain.worst


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_uneven_ranges_in_any_order(seed):
    rng = np.random.default_rng(seed)
    ranges = int(rng.integers(2, 6))
    edges = np.concatenate([[-1.0], np.sort(rng.uniform(-0.95, 0.95, ranges - 1)), [1.0]])
    budgets = rng.permutation(np.linspace(0.3, 1.8, ranges))
    pairs = SEMANTICS["max" if seed % 2 else "min"](budgets, budgets)
    points = grid_for(edges, pairs)
    check(solve(edges, pairs, points), edges, pairs, points, 3e-6)


def test_budgets_that_are_no_semantics():
    """Any symmetric table will do, also one where going by way of a third range is cheaper."""
    pairs = np.array([[1.0, 0.4, 3.0], [0.4, 0.5, 0.4], [3.0, 0.4, 1.0]])
    edges = (-1.0, -0.3, 0.4, 1.0)
    points = grid_for(edges, pairs)
    check(solve(edges, pairs, points), edges, pairs, points, 3e-6)


@pytest.mark.slow
def test_between_points_no_budget_is_exceeded_and_little_is_added():
    pairs = np.maximum.outer(FALLING, FALLING) / 2
    points = grid_for(EDGES, pairs)
    found = solve(EDGES, pairs, points)
    fine = np.union1d(points, np.linspace(-1.0, 1.0, 1001))
    rows = np.array([np.interp(fine, points, column) for column in found.channel.T]).T
    assert broken(rows, EDGES, pairs, fine) <= -3e-6 + 1e-12
    assert (rows @ found.values**2 - fine**2).max() < 1.005 * found.bound


@pytest.mark.slow
def test_margin_is_kept():
    pairs = np.array([[0.5, 0.8], [0.8, 0.7]])
    edges = (-1.0, 0.1, 1.0)
    points = grid_for(edges, pairs)
    for margin in (0.0, 1e-4):
        check(solve(edges, pairs, points, margin), edges, pairs, points, margin)


def test_progress_rises_to_one():
    told = []
    pairs = np.minimum.outer(FALLING, FALLING) / 2
    solve(EDGES, pairs, grid_for(EDGES, pairs), progress=told.append)
    assert told[-1] == 1.0
    assert all(0 <= part <= 1 for part in told)


def test_two_point_bound_is_met_by_the_best_report_of_two_values():
    """For x = -1 and 1 alone, Duchi's bit has variance 1/sinh^2(r/2): the bound is tight."""
    for epsilon in (0.1, 1.0, 4.0):
        bound = two_point_bound([-1.0, 1.0], [[epsilon]])
        assert bound == pytest.approx(1 / np.tanh(epsilon / 2) ** 2 - 1)
        found = solve([-1.0, 1.0], [[epsilon]], [-1.0, 1.0], margin=0.0)
        assert found.worst == pytest.approx(bound, rel=2e-3)
        assert bound <= found.bound


def test_two_point_bound_looks_inside_a_narrow_private_range():
    bound = two_point_bound([-1.0, 0.0, 0.1, 1.0], [[8, 8, 8], [8, 0.02, 8], [8, 8, 8]])
    assert bound == pytest.approx((0.05 / np.sinh(0.01)) ** 2)


@pytest.mark.parametrize("scale", [0.1, 0.5, 1.0, 3.0])
def test_grid_has_all_edges_and_is_fine_enough(scale):
    pairs = np.maximum.outer(FALLING, FALLING) * scale
    points = grid_for(EDGES, pairs)
    assert np.isin(EDGES, points).all()
    assert np.diff(points).min() > 0
    for low, high in pairwise(EDGES):
        assert ((points >= low) & (points <= high)).sum() >= 3
    rounding = np.diff(points).max() ** 2 / 4
    assert rounding < 0.003 * two_point_bound(EDGES, pairs) or len(points) > 64


@pytest.mark.parametrize(
    ("edges", "budgets", "points", "message"),
    [
        ([-1, 0, 0, 1], np.ones((3, 3)), [-1, 0, 1], "increase"),
        ([-1, 0], [[1.0]], [-1, 0], "end at 1"),
        ([-1, 0, 1], [[1.0, 2.0], [3.0, 1.0]], [-1, 0, 1], "symmetric"),
        ([-1, 1], [[0.0]], [-1, 1], "positive"),
        ([-1, 0, 1], np.ones((2, 2)), [-1, 0.5, 1], "every edge"),
        ([-1, 1], [[1.0]], [-2, -1, 1], "start at -1"),
    ],
)
def test_arguments_without_meaning_are_refused(edges, budgets, points, message):
    with pytest.raises(ValueError, match=message):
        solve(edges, budgets, points)


def test_margin_above_the_budgets_is_refused():
    with pytest.raises(ValueError, match="margin"):
        solve([-1, 1], [[1.0]], [-1, 1], margin=0.9)


def test_a_channel_outside_its_budgets_is_refused():
    with pytest.raises(ArithmeticError, match="budgets"):
        graded_program._require(np.array([[0.2, 0.8], [0.8, 0.2]]), np.array([[0, 1.0], [1, 0]]))
