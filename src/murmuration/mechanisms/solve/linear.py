"""The unbiased report of least variance, found by linear programming with column generation.

Inputs are the grid points x_i = -1 + 2i/cells. Every output column of an optimal channel has two
levels only: Q[i, y] = theta * (E if i in S else 1), E = e^epsilon, S being the favoured inputs.
Such a column is named by its value a and its pattern S, and the search for the best channel is

    minimise t   subject to, for every input i,
        sum theta q_i = 1,   sum theta a q_i = x_i,   sum theta a^2 q_i - x_i^2 <= t,   theta >= 0.

With a prior p and a cap c the second moments count, as where each person is asked some attributes:
minimise sum_i p_i sum theta a^2 q_i, subject to sum theta a^2 q_i <= c at every input.

Columns are found as they are needed. With duals w_i (square rows), mu_i (mean rows) and lam_i
(sum rows) let f_i(a) = w_i a^2 - mu_i a - lam_i. The cheapest pattern at the value a favours the
inputs with f_i(a) < 0, and its reduced cost is g(a) = sum_i (f_i if f_i >= 0 else E f_i).

Inside this module values and inputs are in units of B = coth(epsilon/2), so that the least
worst variance stays near 1 for small epsilon.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Report = Callable[[float], None]
Flags = NDArray[np.bool_]
Attempt = tuple[Literal["highs-ds", "highs-ipm"], bool]

GAP = 2e-5
COARSEST = 8
MOST_ROUNDS = 200
MOST_OUTPUTS = 256
MERGE_SHARE = 2e-5
SMALLEST_MASS = 1e-9
IDLE_ROUNDS = 3
# How far trial duals are pulled towards the best ones; the second pull only after a round
# that did not raise the bound.
PULLS: tuple[float, ...] = (0.5, 0.9)
TINY_WEIGHT = 1e-13
ROUNDING = 1e-9
SOLVER_TOLERANCE = 1e-9
# Presolve takes longer than it saves on these dense tables, so it waits for a failure.
ATTEMPTS: tuple[Attempt, ...] = (
    ("highs-ds", False),
    ("highs-ds", True),
    ("highs-ipm", True),
)


@dataclass(frozen=True)
class Channel:
    """A finished channel; row i of ``channel`` is the law of the output at input x_i."""

    values: Floats
    channel: Floats
    limit: float
    worst: float


@dataclass(frozen=True)
class _Problem:
    """The grid in units of B, the prior if there is one, and the fold by x -> -x if allowed.

    Rows are kept for the inputs ``near``; ``far`` are their mirror images and ``sign`` is what
    the mirror does to a value. Without a fold, far = near and sign = 1, which changes nothing.
    """

    ratio: float
    inputs: Floats
    prior: Floats | None
    near: NDArray[np.intp]
    far: NDArray[np.intp]
    sign: float
    cap: float | None = None
    """The most that a second moment may be, in units of B^2, where these count."""

    @property
    def folded(self) -> bool:
        """Whether each column stands for itself and its mirror image."""
        return self.sign < 0


@dataclass(frozen=True)
class _Columns:
    """Output columns: their values (n) and which inputs each favours (n x inputs)."""

    values: Floats
    inside: Flags

    def take(self, chosen: Flags) -> _Columns:
        """The chosen columns only."""
        return _Columns(self.values[chosen], self.inside[chosen])


@dataclass(frozen=True)
class Duals:
    """Prices of the square, mean and sum rows for all inputs (unfolded)."""

    square: Floats
    mean: Floats
    total: Floats

    def value(self, inputs: Floats, cap: float | None = None) -> float:
        """The dual objective: sum lam_i + mu_i x_i - w_i x_i^2.

        With a cap c: sum lam_i + mu_i x_i - c (w_i - p_i), where all p_i add up to 1.
        """
        bound = float(np.sum(self.total + self.mean * inputs))
        if cap is None:
            return bound - float(np.sum(self.square * inputs**2))
        return bound - cap * (float(self.square.sum()) - 1)


@dataclass(frozen=True)
class _Pieces:
    """g(a) cut at the roots of all f_i: the lowest point of each piece."""

    columns: _Columns
    costs: Floats
    masses: Floats
    interior: Flags


@dataclass(frozen=True)
class _Master:
    """The solved master problem: weights of the columns, objective and duals."""

    weights: Floats
    objective: float
    duals: Duals


@dataclass(frozen=True)
class _State:
    """What one grid hands to the next finer one: useful columns, best duals and best bound."""

    columns: _Columns
    weights: Floats
    centre: Duals | None
    bound: float


def cells_for(epsilon: float) -> int:
    """The smallest grid whose channel is within 0.3 % of the limit on all of [-1, 1].

    Rounding to the grid adds 1/cells^2 to the variance. Beyond epsilon = 6.25 that is more than
    0.3 % (1 % at 8), but finer tables take minutes to build.
    """
    return 32 if epsilon <= 3.0 else 64 if epsilon <= 4.5 else 128


def solve(
    epsilon: float,
    cells: int,
    prior: Sequence[float] | Floats | None = None,
    progress: Report | None = None,
    margin: float = 0.0,
    cap: float | None = None,
) -> Channel:
    """The best unbiased channel on the grid of ``cells`` cells (a power of two, at least 2).

    Without a prior the worst variance over the grid is made least, with one its prior mean. With a
    prior and a `cap`, in units of B^2, it is the mean second moment, and none is above the cap.
    Each grid starts from the columns and duals of the grid half as fine. The channel keeps
    epsilon - margin, which leaves room to round it to integers; the limit is for epsilon.
    """
    _check(epsilon, cells, prior)
    problems = [replace(one, cap=cap) for one in _ladder(epsilon - margin, cells, prior)]
    state = _start(problems[0])
    for step, problem in enumerate(problems):
        if step:
            state = _refined(problem, state)
        state = _generate(problem, state, _share(progress, step, len(problems)))
    columns, weights = _few_values(problems[-1], state)
    bound = _certify(replace(problems[-1], ratio=math.exp(epsilon)), _known(state.centre))
    finished = _finish(problems[-1], columns, weights, _unit(epsilon - margin), bound)
    if progress is not None:
        progress(1.0)
    return finished


def _known(duals: Duals | None) -> Duals:
    """The best duals; every solved master leaves some."""
    if duals is None:
        raise ArithmeticError("the linear program has no certificate")
    return duals


def _check(epsilon: float, cells: int, prior: Sequence[float] | Floats | None) -> None:
    """Refuse arguments the method has no meaning for."""
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise ValueError("epsilon must be positive and finite")
    if cells < 2 or cells & (cells - 1):
        raise ValueError("cells must be a power of two, at least 2")
    if prior is None:
        return
    weights = np.asarray(prior, dtype=np.float64)
    if weights.shape != (cells + 1,):
        raise ValueError("the prior needs one weight per grid point")
    if not (np.all(np.isfinite(weights)) and np.all(weights >= 0) and weights.sum() > 0):
        raise ValueError("prior weights must be finite, not negative and not all zero")


def _unit(epsilon: float) -> float:
    """B = (E + 1) / (E - 1) = coth(epsilon / 2)."""
    return 1.0 / math.tanh(epsilon / 2)


def _share(progress: Report | None, step: int, steps: int) -> Report:
    """Progress inside one grid as a share of the whole; each grid costs about 8 times the last."""
    whole = 8.0**steps - 1

    def report(fraction: float) -> None:
        if progress is not None:
            done = 8.0**step * (1 + 7 * min(max(fraction, 0.0), 1.0)) - 1
            progress(done / whole)

    return report


def _ladder(epsilon: float, cells: int, prior: Sequence[float] | Floats | None) -> list[_Problem]:
    """The same problem on ever finer grids, the asked one last."""
    weights = None if prior is None else np.asarray(prior, dtype=np.float64)
    problems: list[_Problem] = []
    while True:
        problems.append(_problem(epsilon, cells, weights))
        if cells <= COARSEST:
            return problems[::-1]
        cells //= 2
        weights = None if weights is None else _coarser_prior(weights)


def _problem(epsilon: float, cells: int, prior: Floats | None) -> _Problem:
    """One grid in units of B, folded when the mirror image of the problem is the problem."""
    inputs = np.linspace(-1.0, 1.0, cells + 1) / _unit(epsilon)
    weights = None if prior is None else _cleaned(prior)
    near, sign = np.arange(cells + 1), 1.0
    far = near
    if weights is None or np.allclose(weights, weights[::-1], rtol=1e-9, atol=0):
        near, sign = near[cells // 2 :], -1.0
        far = cells - near
        weights = None if weights is None else (weights + weights[::-1]) / 2
    return _Problem(math.exp(epsilon), inputs, weights, near, far, sign)


def _cleaned(weights: Floats) -> Floats:
    """Weights with sum 1; the tiniest become 0, as they would put roots of f_i near infinity."""
    kept: Floats = np.where(weights > TINY_WEIGHT * weights.max(), weights, 0.0)
    kept /= kept.sum()
    return kept


def _coarser_prior(prior: Floats) -> Floats:
    """Share each odd point's weight between its two even neighbours."""
    coarse = prior[::2].copy()
    coarse[:-1] += prior[1::2] / 2
    coarse[1:] += prior[1::2] / 2
    return coarse


def _start(problem: _Problem) -> _State:
    """All intervals of favoured inputs with evenly spaced values up to twice B.

    Value B with all half lines is Duchi's report, so the master has a solution.
    """
    size = len(problem.inputs)
    place = np.arange(size)
    intervals = [(place >= i) & (place < j) for i in range(size) for j in range(i + 1, size + 1)]
    levels = np.linspace(-2.0, 2.0, 33)
    values = np.repeat(levels, len(intervals))
    columns = _Columns(values, np.tile(np.array(intervals), (len(levels), 1)))
    if problem.folded:
        columns = columns.take(columns.values >= 0)
    return _State(columns, np.zeros(len(columns.values)), None, -math.inf)


def _refined(problem: _Problem, state: _State) -> _State:
    """Carry a coarse grid's result over to the grid twice as fine.

    A new input between two old ones joins the pattern in one copy and stays out in the other
    where the old ones differ: half of each copy is the old channel, linearly interpolated.
    """
    inside = np.concatenate([_halved(state.columns.inside, op) for op in (np.minimum, np.maximum)])
    columns = _Columns(np.tile(state.columns.values, 2), inside)
    weights = np.tile(state.weights / 2, 2)
    if state.centre is None:
        return _State(columns, weights, None, -math.inf)
    old = np.linspace(0.0, 1.0, len(state.centre.mean))
    new = np.linspace(0.0, 1.0, len(problem.inputs))
    duals = (state.centre.square, state.centre.mean, state.centre.total)
    square, mean, total = (np.interp(new, old, row) for row in duals)
    scale = square.sum() / state.centre.square.sum()
    if problem.prior is not None and problem.cap is None:
        square = problem.prior * scale
    centre = Duals(square / scale, mean / scale, total / scale)
    return _State(columns, weights, centre, _certify(problem, centre))


def _halved(inside: Flags, join: Callable[[Flags, Flags], Flags]) -> Flags:
    """Patterns on the finer grid; ``join`` decides for the new inputs from their neighbours."""
    finer = np.empty((len(inside), 2 * inside.shape[1] - 1), dtype=np.bool_)
    finer[:, ::2] = inside
    finer[:, 1::2] = join(inside[:, 1:], inside[:, :-1])
    return finer


def _generate(problem: _Problem, state: _State, report: Report) -> _State:
    """Solve the master and add the columns it lacks, until bound and objective meet."""
    columns, centre, bound = state.columns, state.centre, state.bound
    idle = np.zeros(len(columns.values), dtype=np.intp)
    pulls = PULLS[:1]
    for _ in range(MOST_ROUNDS):
        master = _solve_master(problem, columns)
        fresh, before = [], bound
        for duals in _trial_duals(master.duals, centre, pulls):
            lower = _certify(problem, duals)
            if lower > bound:
                bound, centre = lower, duals
            fresh.append(_missing(problem, duals))
        pulls = PULLS if bound <= before + GAP * abs(before) else PULLS[:1]
        gap = (master.objective - bound) / abs(bound)
        report(math.log(max(gap, GAP)) / math.log(GAP))
        used = master.weights > 0
        best = _State(columns.take(used), master.weights[used], centre, bound)
        if gap < GAP:
            break
        columns, idle = _exchange(problem, columns, np.where(used, 0, idle + 1), fresh)
    return best


def _exchange(
    problem: _Problem, columns: _Columns, idle: NDArray[np.intp], fresh: list[_Columns]
) -> tuple[_Columns, NDArray[np.intp]]:
    """Drop columns that stayed unused for long (if there are many) and append the new ones."""
    if len(idle) > 9 * len(problem.near):
        keep = idle < IDLE_ROUNDS
        columns, idle = columns.take(keep), idle[keep]
    values = np.concatenate([columns.values, *(new.values for new in fresh)])
    inside = np.concatenate([columns.inside, *(new.inside for new in fresh)])
    added = np.zeros(len(values) - len(idle), dtype=np.intp)
    return _Columns(values, inside), np.concatenate([idle, added])


def _trial_duals(current: Duals, centre: Duals | None, pulls: Sequence[float]) -> list[Duals]:
    """The current duals, and those pulled towards the best so far, which swing about less."""
    if centre is None:
        return [current]
    return [current, *(_between(current, centre, pull) for pull in pulls)]


def _between(start: Duals, end: Duals, share: float) -> Duals:
    """Duals at the given share of the way from one to the other."""
    return Duals(
        start.square + share * (end.square - start.square),
        start.mean + share * (end.mean - start.mean),
        start.total + share * (end.total - start.total),
    )


def _levels(problem: _Problem, inside: Flags) -> tuple[Floats, Floats]:
    """Column heights q_i scaled to mean 1 over the inputs, and the means they had before.

    Scaled so, a column's weight is its average probability and all weights add up to 1.
    """
    heights = np.where(inside, problem.ratio, 1.0)
    masses = heights.mean(axis=1)
    return heights / masses[:, None], masses


def _rows(problem: _Problem, columns: _Columns) -> tuple[Floats, Floats, Floats]:
    """Sum, mean and square rows of the master; folded, the mean of a column and its image."""
    heights, _ = _levels(problem, columns.inside)
    near, far = heights[:, problem.near].T, heights[:, problem.far].T
    sums = (near + far) / 2
    means = columns.values * (near + problem.sign * far) / 2
    return sums, means, columns.values**2 * sums


def _solve_master(problem: _Problem, columns: _Columns) -> _Master:
    """Best weights for the given columns. The last variable is t, which a prior leaves at 0."""
    sums, means, squares = _rows(problem, columns)
    inputs = problem.inputs[problem.near]
    equal = np.concatenate([sums, means])
    equal = np.hstack([equal, np.zeros((len(equal), 1))])
    goal = np.concatenate([np.ones(len(inputs)), inputs])
    cost, upper, cap = _objective(problem, columns, squares)
    answer = optimum(ATTEMPTS, cost, upper, cap, equal, goal)
    duals = _unfold(problem, -answer.ineqlin.marginals, answer.eqlin.marginals)
    return _Master(answer.x[:-1], answer.fun - _prior_square(problem), duals)


def optimum(attempts: Sequence[Attempt], *program: Any) -> Any:
    """What linprog answers for the program by the first attempt (method, presolve) that works."""
    from scipy.optimize import linprog  # here: it takes a third of a second

    for method, presolve in attempts:
        options = {"presolve": presolve, "primal_feasibility_tolerance": SOLVER_TOLERANCE}
        answer = linprog(*program, method=method, options=options)
        if answer.x is not None and answer.fun is not None:
            return answer
    raise ArithmeticError(f"the linear program was not solved: {answer.message}")


def _objective(
    problem: _Problem, columns: _Columns, squares: Floats
) -> tuple[Floats, Floats, Floats]:
    """Cost of the weights and of t, and the inequality rows with their right sides."""
    if problem.prior is None:
        cost = np.append(np.zeros(len(columns.values)), 1.0)
        upper = np.hstack([squares, np.full((len(squares), 1), -1.0)])
        return cost, upper, problem.inputs[problem.near] ** 2
    heights, _ = _levels(problem, columns.inside)
    cost = np.append(columns.values**2 * (heights @ problem.prior), 1.0)
    if problem.cap is None:
        return cost, np.zeros((1, len(cost))), np.zeros(1)
    upper = np.hstack([squares, np.zeros((len(squares), 1))])
    return cost, upper, np.full(len(squares), problem.cap)


def _prior_square(problem: _Problem) -> float:
    """The prior mean of x^2, which the prior objective has too much; 0 where it has not."""
    if problem.prior is None or problem.cap is not None:
        return 0.0
    return float(problem.prior @ problem.inputs**2)


def _unfold(problem: _Problem, square: Floats, equal: Floats) -> Duals:
    """Duals of the folded rows shared equally between each input and its mirror image.

    They price a column and its image alike, so what they certify holds without the fold too.
    """

    def spread(prices: Floats, sign: float) -> Floats:
        whole = np.zeros(len(problem.inputs))
        whole[problem.near] += prices / 2
        whole[problem.far] += sign * prices / 2
        return whole

    half = len(problem.near)
    mean, total = spread(equal[half:], problem.sign), spread(equal[:half], 1.0)
    if problem.prior is None:
        return Duals(_cleaned(spread(square, 1.0)), mean, total)
    if problem.cap is None:
        return Duals(problem.prior, mean, total)
    return Duals(problem.prior + np.maximum(spread(square, 1.0), 0.0), mean, total)


def _roots(duals: Duals) -> Floats:
    """All real roots of the f_i in ascending order, each by the formula without cancellation."""
    w, mu, lam = duals.square, duals.mean, duals.total
    inner = mu**2 + 4 * w * lam
    real = inner >= 0
    q = (mu + np.copysign(np.sqrt(np.maximum(inner, 0.0)), mu)) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        roots = np.concatenate([(q / w)[real], (-lam / q)[real], [0.0]])
    return np.sort(roots[np.isfinite(roots)])


def _pieces(problem: _Problem, duals: Duals) -> _Pieces:
    """The lowest point of g on every piece between roots, hence g's exact minimum over all reals.

    On a piece the pattern is fixed and g = W a^2 - M a - L, lowest at M / 2W or at an end.
    g bends downwards at the ends, so its local minima are the pieces with an interior vertex.
    """
    roots = _roots(duals)
    low, high = np.append(-np.inf, roots), np.append(roots, np.inf)
    middle = np.concatenate([[roots[0] - 1], (roots[1:] + roots[:-1]) / 2, [roots[-1] + 1]])
    inside = _favoured(duals, middle)
    heights = np.where(inside, problem.ratio, 1.0)
    big_w, big_m, big_l = (heights @ row for row in (duals.square, duals.mean, duals.total))
    vertex = big_m / (2 * big_w)
    values = np.clip(vertex, low, high)
    costs = big_w * values**2 - big_m * values - big_l
    interior = (vertex >= low) & (vertex <= high)
    return _Pieces(_Columns(values, inside), costs, heights.mean(axis=1), interior)


def _favoured(duals: Duals, values: Floats) -> Flags:
    """The cheapest pattern at each value: the inputs with f_i < 0."""
    a = values[:, None]
    favoured: Flags = duals.square * a**2 - duals.mean * a - duals.total < 0
    return favoured


def _certify(problem: _Problem, duals: Duals) -> float:
    """A lower bound on the objective of any channel, from any duals (w >= 0 with sum 1).

    Lowering every lam_i by c/m costs c of the dual value and raises the reduced cost of a
    pattern by c times its mean height. Repeat until none is negative (Newton's method on c).
    What may be left, min g < 0, counts fully: the floors theta of a channel add up to at most 1.
    """
    for _ in range(20):
        pieces = _pieces(problem, duals)
        lack = float(np.max(-pieces.costs / pieces.masses))
        if lack <= 1e-13:
            break
        duals = replace(duals, total=duals.total - lack / len(duals.total))
    pieces = _pieces(problem, duals)
    return duals.value(problem.inputs, problem.cap) + min(0.0, float(pieces.costs.min()))


def _missing(problem: _Problem, duals: Duals) -> _Columns:
    """The local minima of g below zero; folded, those with a value >= 0 stand for all."""
    pieces = _pieces(problem, duals)
    wanted = pieces.interior & (pieces.costs < 0)
    if problem.folded:
        wanted &= pieces.columns.values > -ROUNDING  # a minimum at 0 may come out below it
    return pieces.columns.take(wanted)


def _few_values(problem: _Problem, state: _State) -> tuple[_Columns, Floats]:
    """Rebuild the optimum on few output values, so that a report fits into few bits.

    The values found are gathered into clusters. Every column is offered at the two cluster
    values around its own (rounding at random between them keeps the mean), and patterns priced
    at the cluster values are added until none is worth having.
    """
    levels = _cluster_values(problem, state)
    columns = _bracket(state.columns, levels)
    master = _solve_master(problem, columns)
    for _ in range(MOST_ROUNDS):
        fresh = _missing_at(problem, master.duals, levels, GAP / 5 * abs(state.bound))
        if master.objective <= state.bound * (1 + GAP) or not len(fresh.values):
            break
        columns = _joined(columns.take(master.weights > 0), fresh)
        master = _solve_master(problem, columns)
    return columns, master.weights


def _cluster_values(problem: _Problem, state: _State) -> Floats:
    """Merge neighbouring values where it adds least to the second moment (Ward's rule).

    Merging values at distance d with masses p and q adds p q / (p + q) d^2. Merging goes on
    while the sum stays below a small share of the variance, or outputs are too many.
    """
    values = np.abs(state.columns.values) if problem.folded else state.columns.values
    order = np.argsort(values)
    levels, masses = values[order], state.weights[order]
    most = MOST_OUTPUTS // 2 - 1 if problem.folded else MOST_OUTPUTS - 2
    budget = MERGE_SHARE * abs(state.bound)
    while len(levels) > 2:
        pairs = masses[1:] + masses[:-1]
        costs = masses[1:] * masses[:-1] / pairs * np.diff(levels) ** 2
        k = int(np.argmin(costs))
        budget -= float(costs[k])
        if budget < 0 and len(levels) <= most:
            break
        levels[k] += masses[k + 1] / pairs[k] * (levels[k + 1] - levels[k])
        masses[k] = pairs[k]
        levels, masses = np.delete(levels, k + 1), np.delete(masses, k + 1)
    return _with_ends(problem, levels, values, MERGE_SHARE * abs(state.bound))


def _with_ends(problem: _Problem, levels: Floats, values: Floats, small: float) -> Floats:
    """Add the outermost values, so that levels lie on both sides of each value.

    Folded, add the mirror images too, and take a least level of negligible square as 0.
    """
    levels = np.append(levels, values.max())
    if not problem.folded:
        return np.unique(np.append(levels, values.min()))
    if levels[0] ** 2 < small:
        levels[0] = 0.0
    return np.unique(np.concatenate([-levels, levels]))


def _bracket(columns: _Columns, levels: Floats) -> _Columns:
    """Each column twice, at the level below its value and at the level above."""
    above = np.clip(np.searchsorted(levels, columns.values), 1, len(levels) - 1)
    values = np.concatenate([levels[above - 1], levels[above]])
    return _Columns(values, np.tile(columns.inside, (2, 1)))


def _missing_at(problem: _Problem, duals: Duals, levels: Floats, slack: float) -> _Columns:
    """The cheapest pattern at each level where it would lower the objective by over ``slack``."""
    inside = _favoured(duals, levels)
    heights, _ = _levels(problem, inside)
    a = levels[:, None]
    costs = (heights * (duals.square * a**2 - duals.mean * a - duals.total)).sum(axis=1)
    return _Columns(levels, inside).take(costs < -slack)


def _joined(first: _Columns, second: _Columns) -> _Columns:
    """Both sets of columns."""
    return _Columns(
        np.concatenate([first.values, second.values]),
        np.concatenate([first.inside, second.inside]),
    )


def _finish(
    problem: _Problem, columns: _Columns, weights: Floats, unit: float, bound: float
) -> Channel:
    """The channel in the caller's units with exact row sums and means, and its variance."""
    kept = _worth_sending(problem, columns, weights)
    columns, weights = columns.take(kept), weights[kept]
    weights = _polish(problem, columns, weights)
    values, channel = _gather(problem, columns, weights)
    inputs = np.linspace(-1.0, 1.0, len(problem.inputs))
    values = _exact_mean(values * unit, channel, inputs, problem.folded)
    variances = channel @ values**2
    if problem.cap is None:
        variances -= inputs**2
    worst = variances.max() if problem.prior is None else problem.prior @ variances
    return Channel(values, channel, bound * unit**2, float(worst))


def _worth_sending(problem: _Problem, columns: _Columns, weights: Floats) -> Flags:
    """Columns whose output has a floor that survives rounding to integer weights."""
    _, masses = _levels(problem, columns.inside)
    floors = weights / masses
    values = np.abs(columns.values) if problem.folded else columns.values
    _, which = np.unique(values, return_inverse=True)
    kept: Flags = (np.bincount(which, floors)[which] > SMALLEST_MASS) & (weights > 0)
    return kept


def _polish(problem: _Problem, columns: _Columns, weights: Floats) -> Floats:
    """Remove the solver's rounding: the least relative change that makes sums and means exact.

    Changing weights, unlike dividing rows, keeps every column at exactly two levels.
    """
    sums, means, _ = _rows(problem, columns)
    inputs = problem.inputs[problem.near]
    table = np.concatenate([sums, means])
    goal = np.concatenate([np.ones(len(inputs)), inputs])
    for _ in range(3):
        change = np.linalg.lstsq(table * weights, goal - table @ weights, rcond=1e-12)[0]
        weights = weights * np.maximum(1 + change, 0.0)
    return weights


def _gather(problem: _Problem, columns: _Columns, weights: Floats) -> tuple[Floats, Floats]:
    """Add up columns with the same value, after unfolding, and make each row sum to 1."""
    heights, _ = _levels(problem, columns.inside)
    table, values = heights * weights[:, None], columns.values
    if problem.folded:
        table = np.concatenate([table, table[:, ::-1]]) / 2
        values = np.concatenate([values, -values])
    levels, which = np.unique(values, return_inverse=True)
    channel = np.zeros((len(problem.inputs), len(levels)))
    np.add.at(channel.T, which, table)
    channel /= channel.sum(axis=1, keepdims=True)
    if problem.folded:
        channel = (channel + channel[::-1, ::-1]) / 2
    return levels, channel


def _exact_mean(values: Floats, channel: Floats, inputs: Floats, folded: bool) -> Floats:
    """The least change of the values that makes channel @ values = inputs."""
    for _ in range(2):
        change = np.linalg.lstsq(channel, inputs - channel @ values, rcond=1e-9)[0]
        values = values + change
        if folded:
            values = (values - values[::-1]) / 2
    return values
