"""Items with budgets of their own: some labels need more protection than others."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from murmuration.errors import FormatError, ParameterError
from murmuration.exact.arrays import Bits, Floats, Ints, Reports, frozen
from murmuration.exact.loss import PairwiseLoss, pairwise_loss
from murmuration.exact.randomness import WHOLE, Rng
from murmuration.exact.table import Table
from murmuration.mechanisms.base import checked_epsilon
from murmuration.mechanisms.graded.base import Matrix, checked_semantics, pairwise_budgets
from murmuration.mechanisms.item.base import FrequencyMechanism
from murmuration.mechanisms.packing import SymbolReports
from murmuration.mechanisms.tally import Tally
from murmuration.mechanisms.trial import Trial, WordTrial, boundaries, spread_over
from murmuration.results.estimate import FrequencyEstimate
from murmuration.statistics.forgery import Evidence, Limits, Mixture
from murmuration.statistics.liars import Reach
from murmuration.statistics.score import QuadraticScore
from murmuration.statistics.sequence import Terms

MOST_GRADED = 32
"""Items of a table that is published row by row."""
MOST_CLASSES = 8
"""Different budgets."""
MOST_WEIGHTS = 1 << 15
"""Numbers in a published table."""


@dataclass(frozen=True)
class GradedItems(FrequencyMechanism, SymbolReports):
    """Say an item or a set of items, by a table in which every two items keep their own budget.

    Q(y|u) <= e^r(u,v) Q(y|v) for all items u, v and reports y. With "min" (ID-LDP: MinID) r is the
    smaller of the two items' budgets: nobody can tell a sensitive item from anything else by more
    than its own; then two others are apart by twice that at most. The table is found by linear
    programs, and of all that are tried it is the one of least summed error. With one budget for all
    it is `grr` or `subset`. Shares are read by R with Q R = 1, unbiased.

    epsilon: one budget for each item (in the order of the items), or one for all
    k: how many items there are, 2 to 32; an answer is 0 to k-1
    semantics: what two different items may cost: "min" (the smaller budget), "max" (the larger), or
        a symmetric matrix with epsilon on its diagonal

    >>> law = GradedItems(epsilon=(2.0, 2.0, 2.0, 0.5), k=4)
    >>> law.loss().holds, round(law.total_variance(), 1)
    (True, 20.9)
    """

    name: ClassVar[str] = "graded-items"
    paper: ClassVar[str] = "Gu et al. 2020 (ID-LDP); the table by a linear program"
    summary: ClassVar[str] = "the own item or another, with a budget for each pair of items"
    largest: ClassVar[int] = MOST_GRADED
    graded: ClassVar[bool] = True

    epsilon: Any
    semantics: str | Matrix = "min"

    def __post_init__(self) -> None:
        given = self.epsilon
        several = isinstance(given, list | tuple | np.ndarray)
        budgets = tuple(checked_epsilon(one) for one in (given if several else [given]))
        object.__setattr__(self, "epsilon", max(budgets, default=1.0))
        super().__post_init__()
        budgets = budgets if several else budgets * self.k
        if len(budgets) != self.k:
            raise ParameterError(f"{self.k} items have as many budgets; got {len(budgets)}")
        object.__setattr__(self, "epsilon", budgets)
        object.__setattr__(self, "semantics", checked_semantics(self.semantics, budgets))
        if len(self._classes) > MOST_CLASSES:
            raise ParameterError(
                f"items have up to {MOST_CLASSES} different budgets; got {len(self._classes)}"
            )

    # --- budgets -------------------------------------------------------------------------------

    @property
    def budgets(self) -> Matrix:
        """r(u, v): what two items may cost."""
        return pairwise_budgets(self.epsilon, self.semantics)

    @property
    def budget(self) -> float:
        """The largest budget of two different items."""
        return budget_of_pairs(self.epsilon, self.semantics)

    @property
    def least_budget(self) -> float:
        """The smallest budget of two items: an ordinary mechanism with it keeps all of them."""
        return min(map(min, self.budgets))

    @cached_property
    def _classes(self) -> list[list[int]]:
        """The items that are alike: of one budget, and of one with every other item."""
        if not isinstance(self.semantics, str):
            return [[item] for item in range(self.k)]
        kinds: dict[float, list[int]] = {}
        for item, own in enumerate(self.epsilon):
            kinds.setdefault(own, []).append(item)
        return list(kinds.values())

    # --- the law -------------------------------------------------------------------------------

    @cached_property
    def table(self) -> Table:
        """A row of weights for each item, out of 2^52."""
        return Table(_built(self))

    def build(self) -> Ints:
        """Solve the program, and round towards more noise: lies up, what is left is truth."""
        from murmuration.mechanisms.solve.items import Classes, solve  # here: devices never solve

        members = self._classes
        matrix = np.array(self.budgets)
        first = [own[0] for own in members]
        sizes = tuple(len(own) for own in members)
        found = solve(Classes(sizes, matrix[np.ix_(first, first)]), MOST_WEIGHTS)
        order = np.argsort([item for own in members for item in own])
        solved, blind = found[order], found.mean(axis=0)
        for spread in (0.0, *(2.0**power for power in range(-36, 0, 2))):
            weights = _whole((1 - spread) * solved + spread * blind)
            if weights.min() >= 0 and self._audited(Table(weights)).holds:
                return weights
        raise ParameterError(f"no table keeps the budgets {self.epsilon}")

    def _audited(self, table: Table) -> PairwiseLoss:
        """Return the exact loss of each pair of items; one item costs nothing against itself."""
        rows = [np.array([item]) for item in range(self.k)]
        items = np.arange(self.k, dtype=np.float64)
        return pairwise_loss(table, items, rows, self.budgets)

    def exact_loss(self) -> PairwiseLoss:
        """The largest ratio of any two items."""
        found = self._audited(self.table)
        return dataclasses.replace(found, claimed=self.budget)

    @property
    def symbols(self) -> int:
        """The table's columns."""
        return self.table.symbols

    @cached_property
    def probabilities(self) -> Floats:
        """Q: a row for each item."""
        return self.table.probabilities

    @cached_property
    def readings(self) -> Floats:
        """R: what a symbol is read as, a column for each item's share."""
        scaled = self.probabilities / self.probabilities.mean(axis=0)
        return frozen(np.asarray(scaled.T @ np.linalg.inv(scaled @ self.probabilities.T)))

    @cached_property
    def _supporters(self) -> Bits:
        """Whether a symbol is likelier of an item than it is of all on average."""
        return np.asarray(self.probabilities > self.probabilities.mean(axis=0))

    def channel(self) -> Floats:
        """The table itself."""
        return np.array(self.probabilities)

    @property
    def p(self) -> Fraction:
        """How often a report supports the own item, at least."""
        return min(self._support(item, item) for item in range(self.k))

    @property
    def q(self) -> Fraction:
        """How often a report supports another item, at most."""
        pairs = itertools.permutations(range(self.k), 2)
        return max(self._support(item, other) for item, other in pairs)

    def _support(self, item: int, other: int) -> Fraction:
        supporting = self.table.weights[item][self._supporters[other]]
        return Fraction(int(supporting.sum()), WHOLE)

    def support(self, tally: Tally) -> Ints:
        """How many reports support each item."""
        return np.asarray(self._supporters @ tally.counts)

    def law(self) -> dict[str, Any]:
        """The weights, a row for each item."""
        return {"weights": self.table.weights.tolist()}

    def with_law(self, law: Mapping[str, Any]) -> Self:
        """Return this mechanism with a published table, as solvers on two machines may differ."""
        if not isinstance(law, Mapping) or set(law) != {"weights"}:
            raise FormatError("a published law has weights and nothing else")
        rows = law["weights"]
        if not isinstance(rows, list | tuple) or len(rows) != self.k or not all(map(_row, rows)):
            raise FormatError(f"a published law of {self.name} has {self.k} rows that add to 2^52")
        if not 2 <= len(rows[0]) <= MOST_WEIGHTS // self.k or len({*map(len, rows)}) != 1:
            raise FormatError(f"a published law of {self.name} has up to {MOST_WEIGHTS:,} weights")
        table = Table(np.array(rows, dtype=np.int64))
        if not table.weights.max(axis=0).all() or np.linalg.matrix_rank(table.weights) < self.k:
            raise FormatError(f"the published law of {self} cannot be read")
        planted = dataclasses.replace(self)
        object.__setattr__(planted, "table", table)
        return planted

    # --- device --------------------------------------------------------------------------------

    def respond(self, items: Ints, rng: Rng) -> Reports:
        """One word a person, compared with the weights of the item's row."""
        return self.table.draw(items, rng.words(len(items)))

    # --- analyst -------------------------------------------------------------------------------

    def estimate(
        self, tally: Tally, about: str = "participants", everybody: int | None = None
    ) -> FrequencyEstimate:
        """Return all k frequencies; each item has an error of its own."""
        n, subject = self.subject(tally, about)
        unseen = subject.unseen(n, everybody)
        shares = tally.counts @ self.readings / n
        likely = (n * np.clip(shares, 0, 1) + 2 / self.k) / (n + 2)
        own, others = self._noise(likely / likely.sum())
        value = np.clip(shares, 0, 1)
        squares = others + value * (own - others) + unseen * value * (1 - value)
        errors = np.sqrt(np.maximum(squares, others / (n + 4)) / n)
        variance = (others, own - others + unseen, -unseen)
        jump = np.ptp(self.readings, axis=0)
        shape = QuadraticScore(shares, errors, n, variance, 0.0, 1.0, jump)  # type: ignore[arg-type]
        quiet = float(np.sqrt(others.mean() / n))
        return FrequencyEstimate(shares, errors, n, self.budget, subject, noise=quiet, shape=shape)

    def _noise(self, shares: Floats) -> tuple[Floats, Floats]:
        """Return n Var of each item's share: if all have it, and if none does, but these others."""
        squares = self.probabilities @ self.readings**2  # a row for each item that a person has
        own = np.diagonal(squares) - 1
        left = np.maximum(1 - shares, 1e-9)
        others = (shares @ squares - shares * np.diagonal(squares)) / left
        return np.asarray(own), np.asarray(others)

    def variance(self, x: ArrayLike) -> Floats:
        """Return n Var of the hardest item's share when its true one is x, and others are flat."""
        shares = np.asarray(x, dtype=np.float64)
        own, others = self._noise(np.full(self.k, 1 / self.k))
        found = np.multiply.outer(shares, own - others) + others
        return np.asarray(found.max(axis=-1))

    def squared_errors(self, shares: Floats, n: int) -> Floats:
        """Those of each item, where there is a share for each."""
        if np.shape(shares) != (self.k,):
            return super().squared_errors(shares, n)
        own, others = self._noise(shares)
        return np.asarray((others + shares * (own - others)) / n)

    def total_variance(self) -> float:
        """Return n times the summed squared error over all items, for a flat histogram."""
        own, others = self._noise(np.full(self.k, 1 / self.k))
        return float((others + (own - others) / self.k).sum())

    def terms(self) -> tuple[Terms, ...]:
        """Nothing: a symbol is read as something else for each item."""
        return ()

    def term_sums(self, tally: Tally) -> tuple[Floats, ...]:
        """Nothing."""
        del tally
        return ()

    def reach(self) -> Reach:
        """What a symbol is read as, of the item that one report moves most."""
        item = int(np.ptp(self.readings, axis=0).argmax())
        column = self.readings[:, item]
        return Reach(float(column.min()), float(column.max()), 0.0, 1.0)

    def evidence(self, tally: Tally) -> Iterator[Evidence]:
        """Every symbol, and all of them together."""
        law = self.probabilities
        yield Limits("symbol", tally.counts, tally.n, law.min(axis=0), law.max(axis=0))
        yield Mixture("all symbols", tally.counts, law)

    def without_none(self) -> Self:
        """Without the last item, which is no answer."""
        rows = self.semantics
        less = rows if isinstance(rows, str) else tuple(row[:-1] for row in rows[:-1])
        return dataclasses.replace(self, epsilon=self.epsilon[:-1], k=self.k - 1, semantics=less)

    def trials(self) -> Iterator[Trial]:
        """The words where the answer changes, then every report."""
        for item in spread_over(self.k):
            words, expected = boundaries(self.table.weights[item], WHOLE)
            yield WordTrial(self, np.full(len(words), item), words, expected)
        yield from super().trials()


def budget_of_pairs(epsilon: Sequence[float], semantics: str | Matrix) -> float:
    """Return the most that two different items may be told apart.

    >>> budget_of_pairs((2.0, 0.5, 1.0), "min")
    1.0
    """
    rows = enumerate(pairwise_budgets(epsilon, semantics))
    return max(one for u, row in rows for v, one in enumerate(row) if u != v)


@lru_cache(maxsize=64)
def _built(law: GradedItems) -> Ints:
    """Share one table between equal mechanisms."""
    return law.build()


def _row(row: object) -> bool:
    """Whether this is a row of weights."""
    return (
        isinstance(row, list | tuple)
        and all(type(weight) is int and 0 <= weight <= WHOLE for weight in row)
        and sum(row) == WHOLE
    )


def _whole(table: Floats) -> Ints:
    """Round to weights out of 2^52: up, and the most likely symbol of a row is what is left."""
    weights = np.ceil(table * WHOLE).astype(np.int64)
    rows, tops = np.arange(len(weights)), weights.argmax(axis=1)
    weights[rows, tops] += WHOLE - weights.sum(axis=1)
    return weights
