"""People as a census has them: numbers and categories that hang together, as a generator.

Each attribute has a latent score, half of it from four factors that all attributes share and half
its own. A number is a power of the score's rank, from uniform to skewed; total income is log-normal
and clamped at its 99.5% quantile; a category cuts the score where shares fall as 1/rank^0.9, in
random order. Everything is public and follows from the seed. The shapes are those of the extracts
that the four papers use (IPUMS, which nobody may pass on).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import ndtr, ndtri

from murmuration.errors import ParameterError
from murmuration.exact.arrays import Floats, Ints

FACTORS = 4
SHARED = 0.5
"""The part of a score's variance that comes from the factors."""
FALL = 0.9
"""Shares of categories fall as 1/rank to this power."""
INCOME_SPREAD, TOP_QUANTILE = 0.9, 0.995
LOADINGS_SEED = 2016


@dataclass(frozen=True)
class Shape:
    """How many numbers there are, total income among them, and the categories' sizes."""

    numbers: int
    sizes: tuple[int, ...]

    @property
    def domains(self) -> tuple[int, ...]:
        """0 for a number, k for one of k items: the order of `Census.tuples`."""
        return (0,) * self.numbers + self.sizes


SHAPES = {
    "us": Shape(6, (2, 2, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 8, 9, 13, 16)),
    "br": Shape(6, (2, 2, 2, 3, 4, 5, 6, 8, 10, 13, 20, 27)),
    "us-2010": Shape(5, (2, 4, 6, 9, 16)),
    "br-2010": Shape(4, (2, 3, 5, 6, 10, 27)),
    "br-90": Shape(6, (2, 2, 3, 4, 6, 8, 10, 13, 20, 27)),
    "mx-94": Shape(5, (2, 2, 2, 3, 3, 4, 5, 6, 7, 8, 10, 12, 15, 25)),
    "wisdm-43": Shape(3, (36, 6)),
}
"""us and br: Harmony's; us-2010 and br-2010: HierA's; br-90, mx-94 and wisdm-43: DCT's."""
AGES = (13.1, 13.8, 13.8, 13.0, 14.1, 13.6, 9.5, 5.4, 3.7)
"""Of a hundred people, how many are in each decade of life, 0 to 90: the United States in 2010."""
CODINGS = {"signs": -1.0, "bits": 0.0}
"""What a column of a category has where it is not 1."""


@dataclass(frozen=True, eq=False)
class Census:
    """People: numbers in [-1, 1], income last, and categories as numbers from 0 on."""

    shape: Shape
    numbers: Floats
    categories: tuple[Ints, ...]

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def income(self) -> Floats:
        """Total income, in [-1, 1]."""
        return np.asarray(self.numbers[:, -1])

    def tuples(self) -> list[Floats | Ints]:
        """Return a column for each attribute, numbers first."""
        return [*np.ascontiguousarray(self.numbers.T), *self.categories]

    def features(self, coding: str = "signs", every: bool = False) -> Floats:
        """Return columns to tell income by: all other numbers, then the categories.

        A category of k items has k - 1 columns (k with `every`), with 1 where it is the item and
        -1 (signs) or 0 (bits) elsewhere.
        """
        if coding not in CODINGS:
            raise ParameterError(f"a coding is one of {', '.join(CODINGS)}; got {coding!r}")
        other = CODINGS[coding]
        parts = [self.numbers[:, :-1]]
        for column, k in zip(self.categories, self.shape.sizes, strict=True):
            width = k if every else k - 1
            parts.append(np.where(column[:, None] == np.arange(width), 1.0, other))
        return np.ascontiguousarray(np.hstack(parts))


def census(shape: str | Shape, people: int, seed: int = 1) -> Census:
    """Return people of a shape, by name or as such.

    >>> people = census("us", 1000)
    >>> people.features().shape, float(abs(people.income).max()) <= 1
    ((1000, 85), True)
    """
    if isinstance(shape, str):
        if shape not in SHAPES:
            raise ParameterError(f"no shape is called {shape!r}; there are {', '.join(SHAPES)}")
        shape = SHAPES[shape]
    if isinstance(people, bool) or not isinstance(people, int) or people < 1:
        raise ParameterError(f"people is a whole number above 0; got {people!r}")
    draw = np.random.default_rng([seed, LOADINGS_SEED])
    loadings, orders = _public(shape)
    factors = draw.standard_normal((people, FACTORS))
    numbers = np.empty((people, shape.numbers))
    for place in range(shape.numbers):
        score = _score(factors, loadings[place], draw)
        numbers[:, place] = _income(score) if place == shape.numbers - 1 else _number(score, place)
    categories = []
    for place, (k, order) in enumerate(zip(shape.sizes, orders, strict=True)):
        score = _score(factors, loadings[shape.numbers + place], draw)
        shares = np.arange(1, k + 1) ** -FALL
        ends = np.cumsum(shares[order] / shares.sum())[:-1]
        categories.append(np.searchsorted(ndtri(ends), score).astype(np.int64))
    return Census(shape, numbers, tuple(categories))


def ages(draw: np.random.Generator, people: int) -> Floats:
    """Return whole years of age, 0 to 90, scaled to [-1, 1].

    >>> float(abs(ages(np.random.default_rng(1), 1000)).max()) <= 1
    True
    """
    shares = np.array(AGES) / sum(AGES)
    decades = draw.choice(len(AGES), people, p=shares)
    return np.asarray((10 * decades + draw.integers(0, 10, people)) / 45 - 1)


@lru_cache(maxsize=16)
def _public(shape: Shape) -> tuple[Floats, list[Ints]]:
    """Return what belongs to a shape: how attributes hang on factors, and the order of items."""
    draw = np.random.default_rng([LOADINGS_SEED, *shape.domains])
    loadings = draw.standard_normal((len(shape.domains), FACTORS))
    loadings /= np.linalg.norm(loadings, axis=1, keepdims=True)
    return loadings, [draw.permutation(k) for k in shape.sizes]


def _score(factors: Floats, loading: Floats, draw: np.random.Generator) -> Floats:
    own = draw.standard_normal(len(factors))
    return np.asarray(np.sqrt(SHARED) * (factors @ loading) + np.sqrt(1 - SHARED) * own)


def _number(score: Floats, place: int) -> Floats:
    """A power of the rank: uniform, then ever more skewed."""
    return np.asarray(2 * ndtr(score) ** (1 + place / 2) - 1)


def _income(score: Floats) -> Floats:
    top = np.exp(INCOME_SPREAD * ndtri(TOP_QUANTILE))
    return np.asarray(2 * np.minimum(np.exp(INCOME_SPREAD * score), top) / top - 1)
