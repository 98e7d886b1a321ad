"""Where the edges of graded ranges should lie, for people spread as a declared prior says.

What is private is a decision of people, not of a planner: so they say which budgets there are, in
which order, and how far each edge may be moved (`between`) or how many of the people each range has
to hold at least (`shares`). Within that the edges are chosen for the least error of the mean.

The error is that of `graded-bit`, whose line follows from budgets and edges at once:

    n Var = E[(rho + x)(sigma - x)] over the prior.

Privacy and the absence of bias do not rest on the prior: only the choice does.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from murmuration.errors import ParameterError
from murmuration.exact.arrays import Floats
from murmuration.mechanisms.graded.base import (
    Matrix,
    checked_budgets,
    checked_semantics,
    pairwise_budgets,
)
from murmuration.mechanisms.number.optimal import checked_prior

PLACES = 129
"""Places between -1 and 1 where an edge may lie, besides the ends of what is allowed for it."""
MOST_TRIED = 20_000
"""Layouts up to which every one is tried; with more, one edge is moved at a time."""
FINE = 16
"""Points for each bin of a prior."""

Between = Sequence[Sequence[float]]


@dataclass(frozen=True)
class ChosenEdges:
    """The edges between ranges, and n Var of the mean over the prior, by graded-bit."""

    edges: tuple[float, ...]
    variance: float
    shares: tuple[float, ...]
    """How many of the people each range holds, by the prior."""


def choose_edges(
    epsilon: Sequence[float],
    prior: Sequence[float],
    between: Between | None = None,
    shares: Sequence[float] | None = None,
    semantics: str | Matrix = "max",
) -> ChosenEdges:
    """Return the edges of least error for people who are spread as the prior says.

    epsilon: one budget for each range, the lowest range first
    prior: the shares of people in equal bins from -1 to 1
    between: for each edge, the least and the largest place where it may lie
    shares: for each range, how many of the people it has to hold at least

    >>> few_above = [0.4, 0.3, 0.2, 0.1]
    >>> found = choose_edges([1.0, 0.1], few_above, shares=[0, 0.2])
    >>> found.edges, [round(share, 2) for share in found.shares]
    ((0.25,), [0.8, 0.2])
    """
    budgets = checked_budgets(epsilon)
    ratios = np.exp(np.array(pairwise_budgets(budgets, checked_semantics(semantics, budgets))))
    crowd = Crowd.of(prior)
    search = Search(crowd, ratios, _checked_shares(shares, len(budgets)))
    allowed = _checked_between(between, len(budgets) - 1, shares is not None)
    places = [within(low, high, search.tight(number)) for number, (low, high) in enumerate(allowed)]
    found = search.best(places)
    if found is None:
        raise ParameterError(
            "no edges keep all of this: ranges go up, and hold the shares that were asked for"
        )
    return ChosenEdges(found, search.variance(found), tuple(crowd.held(found).tolist()))


def within(low: float, high: float, tight: Floats) -> Floats:
    """Return the places to try from low to high: a grid, both ends, and where shares are tight."""
    grid = np.concatenate([np.linspace(-1, 1, PLACES)[1:-1], tight])
    return np.unique([low, high, *grid[(grid >= low) & (grid <= high)]])


@dataclass(frozen=True)
class Crowd:
    """People as a prior says, inside each bin evenly."""

    prior: tuple[float, ...]
    mean: float
    square: float

    @classmethod
    def of(cls, prior: Sequence[float]) -> Crowd:
        """Work out mean and mean square."""
        bins = checked_prior(prior)
        shares = np.repeat(np.array(bins) / sum(bins), FINE) / FINE
        x = (np.arange(len(shares)) + 0.5) / len(shares) * 2 - 1
        return cls(bins, float(shares @ x), float(shares @ x**2))

    @property
    def below(self) -> tuple[Floats, Floats]:
        """The ends of the bins, and the share of people below each."""
        ends = np.linspace(-1, 1, len(self.prior) + 1)
        return ends, np.concatenate([[0.0], np.cumsum(self.prior)]) / sum(self.prior)

    def held(self, edges: Sequence[float]) -> Floats:
        """Return the share of people in each range."""
        return np.diff(np.interp([-1.0, *edges, 1.0], *self.below))


@dataclass(frozen=True)
class Search:
    """The layouts of some ranges."""

    crowd: Crowd
    ratios: Floats
    least: Floats

    def tight(self, number: int) -> Floats:
        """Return the least and the largest place that an edge can have for the shares asked for."""
        ends, below = self.crowd.below
        least = self.least
        return np.asarray(
            np.interp([least[: number + 1].sum(), 1 - least[number + 1 :].sum()], below, ends)
        )

    def fits(self, edges: Sequence[float]) -> bool:
        """Whether ranges go up and hold enough people."""
        rising = (np.diff([-1.0, *edges, 1.0]) > 1e-6).all()
        return bool(rising and (self.crowd.held(edges) >= self.least - 1e-9).all())

    def variance(self, edges: Sequence[float]) -> float:
        """Return n Var of the mean by graded-bit: sigma rho + (sigma - rho) E x - E x^2."""
        rho, sigma = line(np.array([-1.0, *edges, 1.0]), self.ratios)
        crowd = self.crowd
        return float(rho * sigma + (sigma - rho) * crowd.mean - crowd.square)

    def best(self, places: Sequence[Floats]) -> tuple[float, ...] | None:
        """Return the layout of least error, or None if there is no layout."""
        if np.prod([len(own) for own in places], dtype=float) <= MOST_TRIED:
            return min(self._all(places), key=self.variance, default=None)
        starts = [found for share in (0.1, 0.5, 0.9) if (found := self._start(places, share))]
        return min((self._descend(places, one) for one in starts), key=self.variance, default=None)

    def _all(self, places: Sequence[Floats]) -> Iterator[tuple[float, ...]]:
        layouts = itertools.product(*(own.tolist() for own in places))
        return (edges for edges in layouts if self.fits(edges))

    def _start(self, places: Sequence[Floats], share: float) -> tuple[float, ...] | None:
        """Return a layout that fits: each edge as far left as it can be, or a part further."""
        edges: list[float] = []
        for number, own in enumerate(places):
            later = [part[-1] for part in places[number:]]
            fine = [x for x in own.tolist() if self._prefix(edges, x) and x <= min(later)]
            if not fine:
                return None
            edges.append(fine[int(share * (len(fine) - 1) / (len(places) - number))])
        return tuple(edges) if self.fits(edges) else None

    def _prefix(self, edges: list[float], x: float) -> bool:
        """Whether the range that ends at x is one, with enough people in it."""
        low = edges[-1] if edges else -1.0
        held = self.crowd.held([*edges, x])[len(edges)]
        return x > low + 1e-6 and held >= self.least[len(edges)] - 1e-9

    def _descend(self, places: Sequence[Floats], edges: tuple[float, ...]) -> tuple[float, ...]:
        """Move one edge at a time to its best place until none moves."""
        while True:
            before = edges
            for number, own in enumerate(places):
                moved = ((*edges[:number], place, *edges[number + 1 :]) for place in own.tolist())
                edges = min([edges, *filter(self.fits, moved)], key=self.variance)
            if edges == before:
                return edges


def line(ends: Floats, ratios: Floats) -> tuple[float, float]:
    """Return rho and sigma of `graded-bit`, as near as floating point is.

    >>> [round(one, 3) for one in line(np.array([-1.0, 0.0, 1.0]), np.full((2, 2), np.e))]
    [2.164, 2.164]
    """
    both = np.stack([ends[:-1], ends[1:]])  # of each range
    x, y = both[:, :, None, None], both[None, None]
    ratio = ratios[None, :, None, :]
    rho = np.max((x - ratio * y) / (ratio - 1))
    sigma = np.max((ratio * y - x) / (ratio - 1))
    return float(max(rho, 1.0)), float(max(sigma, 1.0))


def _checked_between(
    between: Between | None, edges: int, shared: bool
) -> list[tuple[float, float]]:
    """Return where each edge may lie, or say what is wrong with it."""
    if between is None:
        if not shared:
            raise ParameterError(
                "say how far edges may be moved (between) or how many people each range holds at "
                "least (shares): else the private ranges would vanish"
            )
        return [(-1.0, 1.0)] * edges
    pairs = [tuple(map(float, pair)) for pair in between]
    if len(pairs) != edges or not all(len(p) == 2 and -1 <= p[0] <= p[1] <= 1 for p in pairs):
        raise ParameterError(
            f"between has two places from -1 to 1 for each of {edges} edges; got {between!r}"
        )
    return [(pair[0], pair[1]) for pair in pairs]


def _checked_shares(shares: Sequence[float] | None, ranges: int) -> Floats:
    """Return the least share of each range; none is asked for where there are none."""
    least = np.zeros(ranges) if shares is None else np.asarray(shares, dtype=np.float64)
    if least.shape != (ranges,) or not (least >= 0).all() or least.sum() > 1 + 1e-9:
        raise ParameterError(
            f"shares are one for each of {ranges} ranges, 0 or more, at most 1 in all; "
            f"got {shares!r}"
        )
    return least
