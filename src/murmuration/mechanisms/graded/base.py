"""Privacy graded by value range: some values need more protection than others.

The domain [-1, 1] is cut into ranges, each with a budget of its own. What two values in
*different* ranges may cost has to be said too, because nothing follows from the two budgets:

    max       the larger one: a private value may be told from a public one as easily as two
              public ones from each other
    min       the smaller one: nobody can tell a private value from anything else
    a matrix  whatever the operator writes down

A promise is then Q(y|x) <= e^r(g,h) Q(y|x') for all x in range g, x' in range h and reports y.
`loss()` gives the exact matrix of what is kept.

Ranges are ranges of what the device knows, the integer X = (x+1)*2^51, rounded. A value on an edge,
or nearer to it than 2^-52, belongs to the range above. Mechanisms whose law does not jump at an
edge (graded-bit, graded-optimal) protect it as a value of both ranges.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np

from murmuration.errors import FormatError, ParameterError
from murmuration.exact.arrays import Floats, Ints
from murmuration.exact.grid import AnyGrid, fixed_point
from murmuration.exact.loss import PairwiseLoss, pairwise_loss
from murmuration.exact.randomness import HALF
from murmuration.mechanisms.base import checked_epsilon
from murmuration.mechanisms.domain import Domain, Graded
from murmuration.mechanisms.number.base import NumericMechanism

Matrix = tuple[tuple[float, ...], ...]

MOST_RANGES = 64
SEMANTICS = {"max": max, "min": min}


@dataclass(frozen=True)
class GradedMechanism(NumericMechanism):
    """A mechanism for one number, with a budget for each range: `epsilon` has one entry a range.

    `edges` are all k+1 ends of the ranges, -1 and 1 included, or only the k-1 inner ones.
    """

    takes: ClassVar[type[Domain]] = Graded
    even: ClassVar[bool] = False
    graded: ClassVar[bool] = True

    epsilon: tuple[float, ...]  # type: ignore[assignment]  # one for each range, not one for all
    edges: tuple[float, ...]
    semantics: str | Matrix = "max"

    def __post_init__(self) -> None:
        epsilon = checked_budgets(self.epsilon)
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "edges", checked_edges(self.edges, len(epsilon)))
        object.__setattr__(self, "semantics", checked_semantics(self.semantics, epsilon))

    @property
    def domain(self) -> Graded:
        """A number, with its ranges."""
        return Graded(self.edges)

    @property
    def k(self) -> int:
        """How many ranges there are."""
        return len(self.epsilon)

    @property
    def budgets(self) -> Matrix:
        """r(g, h): what a value of range g and one of range h may cost."""
        return pairwise_budgets(self.epsilon, self.semantics)

    @property
    def budget(self) -> float:
        """The largest entry of the matrix: what is promised about any two values."""
        return max(itertools.chain(*self.budgets))

    @property
    def least_budget(self) -> float:
        """The smallest entry of the matrix: an ordinary mechanism with it keeps all of them."""
        return min(itertools.chain(*self.budgets))

    def exact_loss(self) -> PairwiseLoss:
        """Return the exact loss between and inside ranges, against the matrix of budgets."""
        design = self.design
        return pairwise_loss(design.table, design.grid.reached, self.range_rows(), self.budgets)

    def with_law(self, law: Mapping[str, Any]) -> Self:
        """Return this mechanism with a published table, none of whose cells is in two ranges."""
        planted = super().with_law(law)
        try:
            planted.range_rows()
        except ParameterError as problem:
            raise FormatError(f"the published law of {self} cannot be used: {problem}") from None
        return planted

    def range_rows(self) -> list[Ints]:
        """Return for each range the rows that its values mix, those at both its ends included."""
        return range_rows(self.design.grid, self.edges)


def range_rows(grid: AnyGrid, edges: Sequence[float]) -> list[Ints]:
    """Return the rows that the values of each range mix; no cell may lie in two ranges."""
    low, borders = grid.low_rows, edge_points(edges)
    if not set(borders.tolist()) <= set(grid.points.tolist()):
        raise ParameterError("a cell of the grid lies in two ranges")
    middle = (grid.points[low] + grid.points[low + 1]) / 2
    owner = np.searchsorted(borders[1:-1], middle, side="right")
    return [np.unique([low[owner == g], low[owner == g] + 1]) for g in range(len(edges) - 1)]


def edge_points(edges: Sequence[float]) -> Floats:
    """Return the edges as the device knows them: in fixed point, to the nearest 2^-51."""
    return np.asarray(fixed_point(np.array(edges, dtype=np.float64)) / HALF - 1.0)


def checked_budgets(epsilon: Any) -> tuple[float, ...]:
    """Return one budget for each range, or say what is wrong with them."""
    if isinstance(epsilon, str | bytes) or not isinstance(epsilon, Sequence | np.ndarray):
        raise ParameterError(
            f"epsilon is a list, one budget for each range, such as [0.5, 0.1]; got {epsilon!r}"
        )
    if not len(epsilon):
        raise ParameterError("there is at least one range, with a budget")
    if len(epsilon) > MOST_RANGES:
        raise ParameterError(f"there are at most {MOST_RANGES} ranges; got {len(epsilon)}")
    return tuple(_of_range(place, budget) for place, budget in enumerate(epsilon))


def _of_range(place: int, budget: object) -> float:
    try:
        return checked_epsilon(budget)
    except ParameterError as problem:
        raise ParameterError(f"range {place + 1}: {problem}") from None


def checked_edges(edges: Any, k: int) -> tuple[float, ...]:
    """Return all k+1 edges of k ranges from -1 to 1, or say what is wrong with them.

    >>> checked_edges([0.5], 2)
    (-1.0, 0.5, 1.0)
    """
    single = isinstance(edges, Real)  # one inner edge, from the command line
    try:
        ends = tuple(float(edge) for edge in ([edges] if single else edges))
    except (TypeError, ValueError, OverflowError):
        raise ParameterError(f"edges are numbers from -1 to 1; got {edges!r}") from None
    if len(ends) == k - 1:
        ends = (-1.0, *ends, 1.0)
    if len(ends) != k + 1:
        raise ParameterError(
            f"{k} ranges have {k + 1} edges with -1 and 1, or {k - 1} between them; got {edges!r}"
        )
    if (ends[0], ends[-1]) != (-1.0, 1.0) or not all(-1 <= edge <= 1 for edge in ends):
        raise ParameterError(
            f"edges go from -1 to 1 (see murmuration.to_domain for other units); got {edges!r}"
        )
    if (np.diff(fixed_point(np.array(ends))) < 1 << 20).any():
        raise ParameterError(f"edges go up, by 1e-9 or more; got {edges!r}")
    return ends


def to_domain(numbers: Sequence[float], low: float, high: float) -> tuple[float, ...]:
    """Return edges (or values) in the attribute's own units as numbers in [-1, 1].

    >>> to_domain([30_000, 100_000], low=0, high=200_000)
    (-0.7, 0.0)
    """
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ParameterError(f"a range needs two finite ends, low < high; got [{low}, {high}]")
    return tuple(2 * (number - low) / (high - low) - 1 for number in numbers)


def checked_semantics(semantics: Any, epsilon: tuple[float, ...]) -> str | Matrix:
    """Return "max", "min" or a symmetric matrix of budgets whose diagonal is epsilon."""
    if isinstance(semantics, str):
        if semantics not in SEMANTICS:
            raise ParameterError(f"semantics is 'max', 'min' or a matrix; got {semantics!r}")
        return semantics
    try:
        rows = tuple(tuple(checked_epsilon(budget) for budget in row) for row in semantics)
    except TypeError:
        raise ParameterError(f"semantics is 'max', 'min' or a matrix; got {semantics!r}") from None
    size = len(epsilon)
    if len(rows) != size or any(len(row) != size for row in rows):
        raise ParameterError(f"{size} ranges need a {size} x {size} matrix of budgets")
    if rows != tuple(zip(*rows, strict=True)):
        raise ParameterError("the matrix of budgets is symmetric: a pair has one budget")
    if tuple(rows[g][g] for g in range(size)) != epsilon:
        raise ParameterError("the diagonal of the matrix is epsilon: the budget inside each range")
    return rows


def pairwise_budgets(epsilon: Sequence[float], semantics: str | Matrix) -> Matrix:
    """Return the matrix that a named semantics stands for.

    >>> pairwise_budgets((2.0, 1.0), "max")
    ((2.0, 2.0), (2.0, 1.0))
    """
    if not isinstance(semantics, str):
        return semantics
    choose = SEMANTICS[semantics]
    return tuple(tuple(choose(a, b) for b in epsilon) for a in epsilon)
