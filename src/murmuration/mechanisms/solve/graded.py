"""The unbiased report of least variance when the protection depends on the value.

[-1, 1] is cut into ranges. For x in the closed range g and x' in the closed range h the promise is
Q(y|x) <= exp(r[g][h]) Q(y|x'). An edge belongs to both its ranges, so a value that is rounded at
random to a neighbouring grid point keeps what its own range promises. The search is

    minimise t   subject to   sum_y Q[y,i] = 1,   sum_y a_y Q[y,i] = x_i,
        sum_y a_y^2 Q[y,i] - x_i^2 <= t   for every grid point x_i, and for every output y
        low[y,g] <= Q[y,i] <= high[y,g] for x_i in g,   high[y,g] <= exp(r[g][h]) low[y,h].

The values a_y are found as they are needed. With the duals w_i (square rows, sum 1), mu_i (mean
rows) and lam_i (sum rows) an output of value a is worth having if some column q with
sum w_i q_i = 1 that keeps the budgets has

    c(a) = a^2 - phi(a) < 0,   phi(a) = max_q sum_i (mu_i a + lam_i) q_i.

phi is convex, so chords bound it from above between values where it is known: that finds all
missing values, and proves a limit that no unbiased report can beat.

Inside this module values and inputs are in units of the range of the simplest one-bit report.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from murmuration.mechanisms.solve.linear import (
    MOST_OUTPUTS,
    SMALLEST_MASS,
    Attempt,
    Duals,
    Flags,
    Floats,
    Report,
    optimum,
)

GAP = 1e-3
# Good enough once a round gains next to nothing: the bound lags behind the objective.
LOOSE_GAP = 4e-3
# A table this large takes ten seconds a round, which must gain at least this share.
LARGE = 10_000
LARGE_GAIN = 0.02
MARGIN = 3e-6
ROUNDING_SHARE = 0.003
MOST_CELLS = 64
MOST_ROUNDS = 40
PRICING_ROUNDS = 12
FIRST_VALUES = 65
KEPT_VALUES = 17
# What the proof leaves for the solver's own rounding.
SAFETY = 1e-6
USED = 1e-9
# The interior point method is several times faster than the simplex on these sparse tables.
ATTEMPTS: tuple[Attempt, ...] = (("highs-ipm", True), ("highs-ds", True), ("highs-ds", False))

Numbers = Sequence[float] | Floats
Table = Sequence[Sequence[float]] | Floats


@dataclass(frozen=True)
class GradedChannel:
    """A finished channel: row i of ``channel`` is the law of the output at point i.

    ``worst`` is the largest variance over the points; no unbiased report is below ``bound``.
    """

    values: Floats
    channel: Floats
    worst: float
    bound: float


@dataclass(frozen=True)
class _Problem:
    """The grid in the module's units and, for every range, which points lie in it.

    ``cone`` times the numbers (q, low, high) of one output is at most 0.
    """

    inputs: Floats
    members: Flags
    cone: sparse.csr_matrix

    @property
    def size(self) -> int:
        """How many numbers an output has: a probability per point, low and high per range."""
        return len(self.inputs) + 2 * len(self.members)


@dataclass(frozen=True)
class _Master:
    """The best channel for given values: its table (outputs x points), objective and duals."""

    values: Floats
    table: Floats
    objective: float
    duals: Duals

    @property
    def used(self) -> Floats:
        """The values of outputs that are ever sent."""
        return np.asarray(self.values[self.table.max(axis=1) > USED])


@dataclass(frozen=True)
class _Hull:
    """phi at some places in ascending order, its slopes there, and its slopes at infinity."""

    places: Floats
    heights: Floats
    slopes: Floats
    ends: tuple[float, float]

    def vertices(self) -> tuple[Floats, Floats]:
        """Value and cost of the best output for each column found: c = a^2 - tangent, lowest."""
        offsets = self.heights - self.slopes * self.places
        return self.slopes / 2, -(self.slopes**2) / 4 - offsets

    @property
    def lowest(self) -> float:
        """A number that c is nowhere below, at most 0."""
        return min(0.0, float(self.floors()[0].min()))

    def floors(self) -> tuple[Floats, Floats]:
        """A lower bound of c on each piece between places and beyond them, and where it lies."""
        chords = np.diff(self.heights) / np.diff(self.places)
        lines = np.concatenate([[self.ends[0]], chords, [self.ends[1]]])
        low, high = np.append(-np.inf, self.places), np.append(self.places, np.inf)
        where = np.clip(lines / 2, low, high)
        start = np.append(0, np.arange(len(self.places)))
        above = self.heights[start] + lines * (where - self.places[start])
        return where**2 - above, where


def solve(
    edges: Numbers,
    budgets: Table,
    points: Numbers,
    margin: float | None = None,
    progress: Report | None = None,
) -> GradedChannel:
    """The best unbiased channel on ``points`` under the budgets r[g][h] between ranges.

    The channel keeps every budget minus ``margin`` (3e-6, or a thousandth of the smallest budget),
    which leaves room to round it to integers; the bound is for the budgets themselves. Worst and
    bound are within 0.4 %, except where all budgets are so large (5 and more) that closing the
    gap would take minutes: there the bound may be 10 % lower, and the channel 2 % from the best.
    """
    borders, pairs, grid = _checked(edges, budgets, points)
    smallest = float(pairs.min())
    margin = min(MARGIN, smallest / 1000) if margin is None else margin
    if not 0 <= margin < smallest / 2:
        raise ValueError(f"the margin must be below half the smallest budget, got {margin!r}")
    kept = pairs - margin
    inner = kept - min(1e-6, smallest / 4000)  # the last repair may use up this much
    unit = _one_bit_range(borders, inner)
    floor = two_point_bound(borders, inner) / unit**2
    master, proof = _generate(_problem(borders, inner, grid, unit), floor, progress)
    limit = unit**2 * _certified(_problem(borders, pairs, grid, unit), proof, master.used)
    table = _inside(master.table, _between_points(borders, inner, grid))
    values, channel = _finish(master.values * unit, table, grid)
    _require(channel, _between_points(borders, kept, grid))
    worst = float((channel @ values**2 - grid**2).max())
    if progress is not None:
        progress(1.0)
    return GradedChannel(values, channel, worst, max(limit, two_point_bound(borders, pairs)))


def grid_for(edges: Numbers, budgets: Table) -> Floats:
    """The edges and evenly spaced points inside each range, at least one.

    A value between points at distance d adds at most d^2/4 to the variance. That is kept below
    0.3 % of the least possible worst variance, unless it would take more than 64 cells or so:
    if all budgets are above 5 it can be several percent.
    """
    borders, pairs, _ = _checked(edges, budgets, edges)
    widest = math.sqrt(4 * ROUNDING_SHARE * two_point_bound(borders, pairs))
    widest = max(widest, 2 / MOST_CELLS)
    cells = np.maximum(2, np.ceil(np.diff(borders) / widest - 1e-9)).astype(np.intp)
    inside = [
        np.linspace(low, high, count, endpoint=False)
        for low, high, count in zip(borders[:-1], borders[1:], cells, strict=True)
    ]
    return np.append(np.concatenate(inside), borders[-1])


def two_point_bound(edges: Numbers, budgets: Table) -> float:
    """The limit that single pairs of values set: max (|x-x'|/2)^2 / sinh^2(r/2).

    Let P and P' be the laws at x and x', within e^r both ways, so |P-P'| <= tanh(r/2) (P+P').
    With c = (x+x')/2 the mean of the two variances V obeys, by Cauchy and Schwarz,

        (x-x')^2 = (sum (a-c)(P-P'))^2 <= 2 tanh^2(r/2) sum (a-c)^2 (P+P')
                                        = 2 tanh^2(r/2) (2V + (x-x')^2/2).

    The farthest and best protected values of two ranges are edges, so edges are enough.

    >>> round(two_point_bound([-1, 1], [[1.0]]), 3)
    3.683
    """
    borders, pairs, _ = _checked(edges, budgets, edges)
    first, second = np.triu_indices(len(borders), 1)
    loss = _between_points(borders, pairs, borders)[first, second]
    half = (borders[second] - borders[first]) / 2
    return float(np.max((half / np.sinh(loss / 2)) ** 2))


def _checked(edges: Numbers, budgets: Table, points: Numbers) -> tuple[Floats, Floats, Floats]:
    """The arguments as arrays, refused where the method has no meaning for them."""
    borders, pairs, grid = (np.asarray(x, dtype=np.float64) for x in (edges, budgets, points))
    if borders.ndim != 1 or len(borders) < 2 or not np.all(np.diff(borders) > 0):
        raise ValueError("edges must increase")
    if borders[0] != -1 or borders[-1] != 1:
        raise ValueError("edges must start at -1 and end at 1")
    if pairs.shape != (len(borders) - 1,) * 2 or not np.array_equal(pairs, pairs.T):
        raise ValueError("budgets must be a symmetric table with a row for each range")
    if not (np.all(np.isfinite(pairs)) and np.all(pairs > 0)):
        raise ValueError("budgets must be positive and finite")
    if grid.ndim != 1 or not np.all(np.diff(grid) > 0) or not np.all(np.isin(borders, grid)):
        raise ValueError("points must increase and contain every edge")
    if grid[0] != -1 or grid[-1] != 1:
        raise ValueError("points must start at -1 and end at 1")
    return borders, pairs, grid


def _members(borders: Floats, grid: Floats) -> Flags:
    """Which points (columns) lie in which closed range (rows)."""
    inside: Flags = (grid >= borders[:-1, None]) & (grid <= borders[1:, None])
    return inside


def _between_points(borders: Floats, pairs: Floats, grid: Floats) -> Floats:
    """What the budgets imply for each pair of points, also by way of other points."""
    members = _members(borders, grid)
    loss = np.full((len(grid), len(grid)), np.inf)
    for g, row in enumerate(members):
        for h, column in enumerate(members):
            where = np.ix_(row, column)
            loss[where] = np.minimum(loss[where], pairs[g, h])
    np.fill_diagonal(loss, 0.0)
    for middle in range(len(grid)):
        loss = np.minimum(loss, loss[:, [middle]] + loss[middle])
    return loss


def _one_bit_range(borders: Floats, pairs: Floats) -> float:
    """The least A for which the report +A with probability (1 + x/A)/2, else -A, is allowed.

    A + x <= e^r (A + x') for all pairs, and the same for the mirror image.
    """
    loss = _between_points(borders, pairs, borders)
    first, second = np.triu_indices(len(borders), 1)
    low, high, ratio = borders[first], borders[second], np.exp(loss[first, second])
    plus, minus = high - ratio * low, ratio * high - low
    return float(np.max(np.maximum(plus, minus) / np.expm1(loss[first, second])))


def _problem(borders: Floats, pairs: Floats, grid: Floats, unit: float) -> _Problem:
    """The grid in the module's units and the rows that keep one output inside the budgets."""
    members = _members(borders, grid)
    grades, points = np.nonzero(members)
    count, ranges = members.shape[1], len(members)
    first, second = np.indices((ranges, ranges)).reshape(2, -1)
    below = _differences(count + grades, points, np.ones(len(points)), count + 2 * ranges)
    above = _differences(points, count + ranges + grades, np.ones(len(points)), count + 2 * ranges)
    budget = np.exp(pairs[first, second])
    apart = _differences(count + ranges + first, count + second, budget, count + 2 * ranges)
    return _Problem(grid / unit, members, sparse.vstack([below, above, apart]).tocsr())


def _differences(
    plus: NDArray[np.intp], minus: NDArray[np.intp], factor: Floats, width: int
) -> sparse.csr_matrix:
    """Rows that say x[plus] - factor * x[minus]."""
    row = np.arange(len(plus))
    entries = np.concatenate([np.ones(len(plus)), -factor])
    places = (np.tile(row, 2), np.concatenate([plus, minus]))
    return sparse.csr_matrix((entries, places), shape=(len(plus), width))


def _generate(problem: _Problem, floor: float, progress: Report | None) -> tuple[_Master, Duals]:
    """Solve for the present values and add those it lacks, until bound and objective meet.

    Plus and minus 1 are a one-bit report, so there is always a solution. ``floor`` is a bound
    known beforehand; besides the solution the duals that prove the best bound are returned.
    """
    master = _solve_master(problem, np.linspace(-2.0, 2.0, FIRST_VALUES))
    bound, proof, before = -math.inf, master.duals, math.inf
    for _ in range(MOST_ROUNDS):
        slack = GAP / 4 * master.objective
        hull = _explored(problem, master.duals, master.used, slack)
        lower = master.duals.value(problem.inputs) + hull.lowest
        if lower > bound:
            bound, proof = lower, master.duals
        gap = 1 - max(bound, floor) / master.objective
        _tell(progress, gap)
        if gap < GAP or _settled(master, gap, before - master.objective):
            break
        before = master.objective
        master = _solve_master(problem, _exchange(master.used, hull, slack))
    return master, proof


def _settled(master: _Master, gap: float, gain: float) -> bool:
    """Whether a further round is not worth its time, to judge by what the last one gained."""
    enough = LARGE_GAIN if master.table.size > LARGE else GAP / 4
    return gain < enough * master.objective and (gap < LOOSE_GAP or master.table.size > LARGE)


def _tell(progress: Report | None, gap: float) -> None:
    """Report how far the gap has closed, on a logarithmic scale; the proof is the last tenth."""
    if progress is not None:
        progress(0.9 * min(max(math.log(max(gap, GAP)) / math.log(GAP), 0.0), 1.0))


def _solve_master(problem: _Problem, values: Floats) -> _Master:
    """The best channel for the given values. The last variable is t."""
    points, count = len(problem.inputs), len(values)
    pick = sparse.eye(points, problem.size)
    sums, means, squares = (sparse.kron(values[None] ** power, pick) for power in range(3))
    cones = sparse.kron(sparse.eye(count), problem.cone)
    zero, one = sparse.csr_matrix((cones.shape[0], 1)), np.ones((points, 1))
    upper = sparse.vstack([sparse.hstack([squares, -one]), sparse.hstack([cones, zero])])
    cap = np.concatenate([problem.inputs**2, np.zeros(cones.shape[0])])
    equal = sparse.hstack([sparse.vstack([sums, means]), sparse.csr_matrix((2 * points, 1))])
    goal = np.concatenate([np.ones(points), problem.inputs])
    cost = np.append(np.zeros(count * problem.size), 1.0)
    answer = optimum(ATTEMPTS, cost, upper.tocsr(), cap, equal.tocsr(), goal)
    square = np.maximum(-answer.ineqlin.marginals[:points], 0.0)
    total, mean = answer.eqlin.marginals[:points], answer.eqlin.marginals[points:]
    duals = Duals(square / square.sum(), mean, total)
    table = answer.x[:-1].reshape(count, problem.size)[:, :points]
    return _Master(values, np.maximum(table, 0.0), float(answer.fun), duals)


def _cheapest(problem: _Problem, weights: Floats, costs: Floats) -> Floats:
    """For each row of costs the column q of least cost with sum w_i q_i = 1 inside the budgets."""
    count, points = costs.shape
    padded = np.zeros((count, problem.size))
    padded[:, :points] = costs
    cones = sparse.kron(sparse.eye(count), problem.cone).tocsr()
    row = np.append(weights, np.zeros(problem.size - points))
    equal = sparse.kron(sparse.eye(count), row[None]).tocsr()
    program = (padded.ravel(), cones, np.zeros(cones.shape[0]), equal, np.ones(count))
    answer = optimum(ATTEMPTS, *program)
    return np.asarray(answer.x.reshape(count, problem.size)[:, :points])


def _explored(problem: _Problem, duals: Duals, places: Floats, slack: float) -> _Hull:
    """Compute phi well enough that c is nowhere more than ``slack`` below the lowest c found.

    New places are where neighbouring tangents meet: if phi is no higher there, it is known.
    """
    ends = _cheapest(problem, duals.square, np.array([duals.mean, -duals.mean])) @ duals.mean
    limits = (float(ends[0]), float(ends[1]))
    empty = np.empty(0)
    hull = _Hull(empty, empty, empty, limits)
    for _ in range(PRICING_ROUNDS):
        hull = _measured(problem, duals, hull, np.append(places, np.array(limits) / 2))
        floors, where = hull.floors()
        open_pieces = floors < min(0.0, float(hull.vertices()[1].min())) - slack
        places = _meeting(hull, where)[open_pieces]
        if not len(places):
            break
    return hull


def _measured(problem: _Problem, duals: Duals, hull: _Hull, places: Floats) -> _Hull:
    """The hull with phi computed at more places."""
    places = np.setdiff1d(places, hull.places)
    if not len(places):
        return hull
    costs = -(places[:, None] * duals.mean + duals.total)
    columns = _cheapest(problem, duals.square, costs)
    everywhere = np.append(hull.places, places)
    heights = np.append(hull.heights, -(columns * costs).sum(axis=1))
    slopes = np.append(hull.slopes, columns @ duals.mean)
    order = np.argsort(everywhere)
    return _Hull(everywhere[order], heights[order], slopes[order], hull.ends)


def _meeting(hull: _Hull, otherwise: Floats) -> Floats:
    """Where the tangents at neighbouring places meet; if they do not, where the floor lies."""
    offsets = hull.heights - hull.slopes * hull.places
    turn = np.diff(hull.slopes)
    with np.errstate(divide="ignore", invalid="ignore"):
        cross = -np.diff(offsets) / turn
    between = (cross > hull.places[:-1]) & (cross < hull.places[1:])
    inner = np.where(between, cross, otherwise[1:-1])
    return np.concatenate([otherwise[:1], inner, otherwise[-1:]])


def _exchange(used: Floats, hull: _Hull, slack: float) -> Floats:
    """The values in use and those worth adding, the best first, as many as a report can name.

    Some evenly spaced values stay, unused or not: without them the duals swing about.
    """
    fresh, costs = hull.vertices()
    fresh = fresh[np.argsort(costs)][: int((costs < -slack / 4).sum())]
    fresh = fresh[np.sort(np.unique(fresh.round(9), return_index=True)[1])]
    kept = np.union1d(used, np.linspace(-2.0, 2.0, KEPT_VALUES))
    return np.union1d(kept, fresh[: max(0, MOST_OUTPUTS - len(kept))])


def _certified(problem: _Problem, duals: Duals, places: Floats) -> float:
    """A lower bound on the worst variance of any unbiased report that keeps the budgets.

    Lowering every lam_i by w_i times -min c costs -min c and leaves no column worth having.
    """
    value = duals.value(problem.inputs)
    lowest = _explored(problem, duals, places, GAP / 10 * value).lowest
    return (value + lowest) * (1 - SAFETY)


def _inside(table: Floats, loss: Floats) -> Floats:
    """q_i = min_j e^(r_ij) q_j, which keeps the budgets whatever q was, and is q if q kept them."""
    return np.asarray(np.min(np.exp(loss) * table[:, None, :], axis=2))


def _finish(values: Floats, table: Floats, grid: Floats) -> tuple[Floats, Floats]:
    """The outputs in use, as rows per point, with exact sums and means.

    The tilt that mends them is about the solver's rounding, for which the program left room.
    """
    kept = table.min(axis=1) > SMALLEST_MASS
    values, channel = values[kept], table[kept].T
    for _ in range(4):
        channel = channel * _tilt(values, channel, grid)
    return values, channel


def _require(channel: Floats, loss: Floats) -> None:
    """Refuse a channel that breaks its budgets by more than the last digits of floats."""
    for row, limits in zip(channel, np.exp(loss), strict=True):
        if np.any(row > limits[:, None] * channel * (1 + 1e-12)):
            raise ArithmeticError("the linear program was not solved well enough for its budgets")


def _tilt(values: Floats, channel: Floats, grid: Floats) -> Floats:
    """Factors 1 + alpha_i + beta_i a_y that give every row the sum 1 and the mean x_i."""
    moments = [channel @ values**power for power in range(3)]
    lack, drift = 1 - moments[0], grid - moments[1]
    scale = moments[0] * moments[2] - moments[1] ** 2
    alpha = (lack * moments[2] - drift * moments[1]) / scale
    beta = (drift * moments[0] - lack * moments[1]) / scale
    return np.asarray(1 + alpha[:, None] + beta[:, None] * values)
