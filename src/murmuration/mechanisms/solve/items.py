"""The table that tells items best apart when they have budgets of their own.

Items with the same budget are alike: a *class* g has n_g of them. A report is a set of items, of
some *kind*: m_g items of each class g. All sets of a kind that hold the own item (of class g) are
as likely as each other, a_g/N where N counts the sets of that kind; all others b_g/N. A set
supports the items that it holds. Then

    maximise    s
    subject to  P(supports the own item) - P(supports it | any other item) >= w_g s for its class g,
                sum over kinds of m_g/n_g a_g + (1 - m_g/n_g) b_g = 1,
                and in each kind any two of these numbers within e^r of their items

is a linear program. Sets of one item are the table of randomised response, sets of one kind that of
subset selection. Of several lists of kinds, and of several weights w, those of least summed error
are taken.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.optimize import linprog

from murmuration.exact.arrays import Floats

MARGIN = 3e-6
"""Tables are solved for budgets less this, so that rounding to integers cannot exceed them."""
MOST_FAMILIES, FINALISTS = 24, 2
"""Lists of kinds that are tried, and of these how many with other weights."""
WEIGHTS = 2.0 ** np.arange(-3, 4)
ROUNDS = 2
UNUSED = 1e-7
"""Kinds that come less often are left out."""
SINGULAR = 1e-6
"""A table that tells two items apart by no more than this part shows neither's share."""

Kind = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Classes:
    """Classes of items: how many each has, and what one of each and one of another may cost."""

    sizes: tuple[int, ...]
    budgets: Floats

    @property
    def many(self) -> int:
        """How many classes there are."""
        return len(self.sizes)

    def sets(self, kind: Kind) -> int:
        """How many sets of a kind there are."""
        pairs = zip(self.sizes, kind, strict=True)
        return math.prod(math.comb(size, some) for size, some in pairs)


@dataclass(frozen=True, eq=False)
class Family:
    """Sets of several kinds."""

    classes: Classes
    kinds: tuple[Kind, ...]

    def _in(self, kind: int, g: int) -> int:
        """The place of a_g of a kind among the numbers that are looked for; s is the last."""
        return 2 * (kind * self.classes.many + g)

    @property
    def unknown(self) -> int:
        """How many numbers are looked for, without s."""
        return 2 * len(self.kinds) * self.classes.many

    @cached_property
    def _private(self) -> Floats:
        """Rows that are at most 0: the budgets."""
        rows = []
        for number, kind in enumerate(self.kinds):
            sizes = enumerate(zip(self.classes.sizes, kind, strict=True))
            there = []
            for g, (size, some) in sizes:
                place = self._in(number, g)
                there += [(place, g)] * (some > 0) + [(place + 1, g)] * (some < size)
            for (one, g), (other, f) in itertools.permutations(there, 2):
                row = np.zeros(self.unknown + 1)
                row[one], row[other] = 1.0, -np.exp(self.classes.budgets[g, f] * (1 - MARGIN))
                rows.append(row)
        return np.array(rows)

    @cached_property
    def _sums(self) -> Floats:
        """Rows that are 1: what an item says adds up."""
        sums = np.zeros((self.classes.many, self.unknown + 1))
        for (number, kind), g in itertools.product(enumerate(self.kinds), range(len(sums))):
            part, place = kind[g] / self.classes.sizes[g], self._in(number, g)
            sums[g, place], sums[g, place + 1] = part, 1 - part
        return sums

    def _gap(self, g: int, h: int) -> Floats:
        """P(supports an item of class g | it) less that given another item, of class h."""
        row, sizes = np.zeros(self.unknown + 1), self.classes.sizes
        for number, kind in enumerate(self.kinds):
            held, place = kind[g] / sizes[g], self._in(number, h)
            row[self._in(number, g)] += held
            others, left = (sizes[h] - 1, kind[h] - 1) if g == h else (sizes[h], kind[h])
            both = held * max(left, 0) / others
            row[place] -= both
            row[place + 1] -= held - both
        return row

    @cached_property
    def _gaps(self) -> list[tuple[int, Floats]]:
        many, sizes = range(self.classes.many), self.classes.sizes
        pairs = [(g, h) for g in many for h in many if g != h or sizes[g] > 1]
        return [(g, self._gap(g, h)) for g, h in pairs]

    def widest(self, weights: Floats) -> Floats | None:
        """Return the table of the widest gaps, in proportion to weights: a row per item."""
        rows = []
        for g, gap in self._gaps:
            row = -gap
            row[-1] = weights[g]
            rows.append(row)
        above, goal = np.vstack([self._private, *rows]), np.zeros(self.unknown + 1)
        goal[-1] = -1.0
        ones = np.ones(self.classes.many)
        found = linprog(
            *(goal, above, np.zeros(len(above)), self._sums, ones),
            bounds=(0, None),
            method="highs-ds",
        )
        return self._table(found.x) if found.success else None

    def _table(self, numbers: Floats) -> Floats:
        """Write the numbers out; items of a class stand together."""
        sizes = self.classes.sizes
        member = np.repeat(np.arange(self.classes.many), sizes)
        parts = []
        for number, kind in enumerate(self.kinds):
            own = numbers[self._in(number, 0) : self._in(number + 1, 0)].reshape(-1, 2)[member]
            if own.max() < UNUSED:
                continue
            each = [
                [[int(item in chosen) for item in range(size)] for chosen in some]
                for size, some in (
                    (size, itertools.combinations(range(size), m))
                    for size, m in zip(sizes, kind, strict=True)
                )
            ]
            held = np.array([[*itertools.chain(*sets)] for sets in itertools.product(*each)]).T
            parts.append(np.where(held == 1, own[:, :1], own[:, 1:]) / self.classes.sets(kind))
        table = np.hstack(parts)
        return np.asarray(table / table.sum(axis=1, keepdims=True))


def solve(classes: Classes, most: int) -> Floats:
    """Return the table, a row per item, of at most so many numbers.

    Of all that are tried it is the one of least summed error.
    """
    ones = np.ones(classes.many)
    rough = [(family, *_tried(family, ones)) for family in _families(classes, most)]
    rough.sort(key=lambda one: one[2])
    found = [_improved(*one) for one in rough[:FINALISTS]]
    return min(found, key=lambda one: one[1])[0]


def _families(classes: Classes, most: int) -> list[Family]:
    """Return lists of kinds: of one item; and near every size that sets may well have."""
    items = sum(classes.sizes)
    one = tuple(tuple(int(g == h) for h in range(classes.many)) for g in range(classes.many))
    found = {one: None}
    for middle in itertools.product(*(_near(classes, g) for g in range(classes.many))):
        around = [
            [some for some in _around(m, classes.many) if 0 <= some <= size]
            for m, size in zip(middle, classes.sizes, strict=True)
        ]
        kinds = [kind for kind in itertools.product(*around) if 0 < sum(kind) < items]
        kinds.sort(key=lambda kind: sum(abs(a - b) for a, b in zip(kind, middle, strict=True)))
        ends = list(itertools.accumulate(classes.sets(kind) * items for kind in kinds))
        fit = tuple(sorted(kind for kind, end in zip(kinds, ends, strict=True) if end <= most))
        if fit:
            found[fit] = None
    return [Family(classes, kinds) for kinds in list(found)[: MOST_FAMILIES + 1]]


def _near(classes: Classes, g: int) -> list[int]:
    """Return how many items of a class a set may well have: about n_g / (e^r + 1) for some r."""
    size, own = classes.sizes[g], classes.budgets[g]
    wanted = {size / (math.exp(r) + 1) for r in (own.min(), min(2 * own.min(), own.max()))}
    return sorted({min(size, math.floor(one) + step) for one in wanted for step in (0, 1)})


def _around(middle: int, classes: int) -> range:
    """Return the numbers next to this one: fewer of them where there are many classes."""
    return range(middle - 1, middle + 2) if classes <= 2 else range(middle - 1, middle + 1)


def _improved(family: Family, table: Floats, least: float) -> tuple[Floats, float]:
    """Change one weight at a time until the error falls no more."""
    weights = np.ones(family.classes.many)
    for _ in range(ROUNDS if len(weights) > 1 else 0):
        before = least
        for g, factor in itertools.product(range(len(weights)), WEIGHTS):
            changed = weights.copy()
            changed[g] = factor
            other, error = _tried(family, changed)
            if error < least * (1 - 1e-9):
                table, least, weights = other, error, changed
        if least > before * (1 - 1e-3):
            break
    return table, least


def _tried(family: Family, weights: Floats) -> tuple[Floats, float]:
    table = family.widest(weights)
    return (np.zeros((1, 1)), math.inf) if table is None else (table, summed_error(table))


def readings_of(table: Floats) -> Floats:
    """Return what a symbol is read as, a column for each item: of least error at flat shares.

    R = (Q/P)^T ((Q/P) Q^T)^-1, where P is how likely each symbol is if all items are alike.
    """
    scaled = table / table.mean(axis=0)
    return np.asarray(scaled.T @ np.linalg.inv(scaled @ table.T), dtype=np.float64)


def summed_error(table: Floats) -> float:
    """Return n times the summed squared error of all shares, for a flat histogram.

    >>> p, q = np.e / (np.e + 3), 1 / (np.e + 3)
    >>> round(summed_error(np.full((4, 4), q) + np.eye(4) * (p - q)), 2)  # grr
    7.56
    """
    scaled = table / np.sqrt(table.mean(axis=0))
    sizes = np.linalg.svd(scaled, compute_uv=False)
    if table.shape[1] < len(table) or sizes[-1] < SINGULAR * sizes[0]:
        return math.inf
    return float(table.mean(axis=0) @ (readings_of(table) ** 2).sum(axis=1)) - 1.0
