"""From counts to a distribution: expectation-maximisation on a known table of probabilities."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from murmuration.errors import ParameterError
from murmuration.exact.arrays import Floats, Ints
from murmuration.results import plot
from murmuration.results.figure import Figure
from murmuration.results.table import Columns, Table

METHODS = ("auto", "em", "ems")
CLEARLY = 3.0
"""By how much EM must exceed EMS in log-likelihood to be taken instead: smoothing blurs an edge."""
MAX_STEPS = 20_000
FINE = 512
"""EM works on this many bins; coarser ones are sums. Smoothing over fewer bins blurs too much."""


@dataclass(frozen=True, eq=False)
class Distribution(Table):
    """A histogram on [-1, 1] with what can be read from it; values spread evenly in each bin.

    Post-processed by nature: shares are non-negative and add up to one, so single shares are not
    unbiased. For a mean with an honest interval use the mechanism's `estimate`.
    """

    histogram: Floats
    n: int
    epsilon: float
    method: str
    """By which it was fitted: "em" or "ems"."""
    low: float = -1.0
    high: float = 1.0
    replicates: Floats | None = None
    """Histograms fitted to resampled counts, one a row, when they were asked for."""

    @cached_property
    def edges(self) -> Floats:
        """The bins' edges, one more than there are bins."""
        return np.linspace(self.low, self.high, len(self.histogram) + 1)

    @cached_property
    def _heights(self) -> Floats:
        heights = np.concatenate([[0.0], np.cumsum(self.histogram)])
        return np.asarray(heights / heights[-1])

    def cdf(self, x: ArrayLike) -> Floats:
        """Return the share of people at or below x."""
        return np.asarray(np.interp(np.asarray(x, dtype=np.float64), self.edges, self._heights))

    def quantile(self, share: ArrayLike) -> Floats:
        """Return the value below which that share of people lies."""
        shares = np.asarray(share, dtype=np.float64)
        if not ((shares >= 0) & (shares <= 1)).all():
            raise ParameterError("a quantile is asked for with shares between 0 and 1")
        return np.asarray(np.interp(shares, self._heights, self.edges))

    @property
    def mean(self) -> float:
        """The mean of the histogram."""
        return float(self.histogram @ (self.edges[:-1] + self.edges[1:]) / 2)

    @property
    def variance(self) -> float:
        """The variance of the histogram, the width of its bins included."""
        centres = (self.edges[:-1] + self.edges[1:]) / 2
        width = self.edges[1] - self.edges[0]
        return float(self.histogram @ (centres - self.mean) ** 2 + width**2 / 12)

    def quantile_interval(self, share: float, confidence: float = 0.95) -> tuple[float, float]:
        """Refuse: no interval of a fitted quantile is known that covers as often as it says.

        That of the replicates covered 0% of the time on real columns after EMS (60 to 88% after
        EM) where 95% was promised: smoothing moves the quantile, and no replicate shows that.
        """
        del share, confidence
        raise ParameterError(
            "a fitted quantile has no honest interval: take the mean, whose interval covers "
            "(`estimate`), or collect ranges as labels (a category), whose shares have intervals"
        )

    def band(self, confidence: float = 0.95) -> tuple[Floats, Floats]:
        """Return, for each bin, the middle `confidence` of the replicates' shares.

        It shows how far noise and chance reach. It is no interval for the true shares: the blur
        that smoothing adds is not in it.
        """
        if self.replicates is None:
            raise ParameterError("ask for replicates first: distribution(tally, replicates=200)")
        low, high = np.quantile(
            self.replicates, [(1 - confidence) / 2, (1 + confidence) / 2], axis=0
        )
        return low, high

    def columns(self) -> Columns:
        """Return where each bin starts and ends, and its share."""
        starts, ends = self.edges[:-1].tolist(), self.edges[1:].tolist()
        return {"start": starts, "end": ends, "share": self.histogram.tolist()}

    def plot(self, ax: Any = None) -> Any:
        """Draw the histogram; return the axis."""
        bins = zip(*self.columns().values(), strict=True)
        head = (None, None, None, self.n, self.epsilon, "share")
        rows = [Figure("", f"{start:g} to {end:g}", share, *head) for start, end, share in bins]
        return plot.figures(rows, ax)

    def __repr__(self) -> str:
        bins, ends = len(self.histogram), f"{self.low:g} to {self.high:g}"
        return (
            f"Distribution({bins} bins, {ends}, mean {self.mean:.4g}, n={self.n:,}, {self.method})"
        )

    def scaled(self, low: float, high: float) -> Distribution:
        """Return the same shares over the attribute's own range."""
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise ParameterError(f"a range needs two finite ends, low < high; got [{low}, {high}]")
        return dataclasses.replace(self, low=low, high=high)


def checked_bins(bins: int) -> int:
    """Return the number of bins to show, or say which are possible."""
    if isinstance(bins, bool) or bins not in (2, 4, 8, 16, 32, 64, 128, 256, FINE):
        raise ParameterError(f"bins must be a power of two from 2 to {FINE}; got {bins!r}")
    return bins


def fine_channel(probabilities: Floats) -> Floats:
    """Return the law of the symbol in each of the FINE bins, from its law at the grid points.

    Between grid points the law is linear, so its average over a bin is its value in the middle.
    """
    cells = len(probabilities) - 1
    place = (np.arange(FINE) + 0.5) * cells / FINE
    low = np.minimum(place.astype(np.int64), cells - 1)
    up = (place - low)[:, None]
    return np.asarray(probabilities[low] * (1 - up) + probabilities[low + 1] * up)


def fit(
    probabilities: Floats,
    counts: Ints,
    method: str,
    epsilon: float,
    bins: int,
    replicates: int = 0,
    none: Floats | None = None,
) -> Distribution:
    """Fit shares of bins to counts of symbols, from a uniform start.

    E-step and M-step in one: share <- share * sum_y P(y|bin) counts_y / expected_y / n. Method
    "ems" then averages each bin with its neighbours, (1, 2, 1)/4: less jagged, at the price of
    a bias towards smoothness. Stops when the log-likelihood gains less than 1e-3 a step
    (times e^epsilon for "em"), as Li et al. (2020) advise. "auto" is "ems" unless "em" explains
    the reports clearly better, by more than 3 in log-likelihood: then there are edges and peaks
    that smoothing would blur. The result's `method` says which it was.

    `none` is the law of the symbol for people without an answer, if there are any: one more share,
    beside the bins. The histogram is then that of the others.
    """
    if method not in METHODS:
        raise ParameterError(f"method must be one of {', '.join(METHODS)}; got {method!r}")
    shown, channel = checked_bins(bins), fine_channel(probabilities)
    if none is not None:
        channel = np.vstack([channel, none])
    fits = {
        name: _fitted(channel, counts[None], name, epsilon)
        for name in (("em", "ems") if method == "auto" else (method,))
    }
    chosen = _by_likelihood(fits, channel, counts)
    crowds = _resampled(counts, replicates)
    again = _fitted(channel, np.array(crowds), chosen, epsilon) if crowds else None
    others = None if again is None else _coarse(again, shown)
    shares = _coarse(fits[chosen], shown)[0]
    return Distribution(shares, int(counts.sum()), epsilon, chosen, replicates=others)


def _coarse(fine: Floats, bins: int) -> Floats:
    """Return the sums of neighbouring bins, crowd by crowd; of those who answered."""
    answered = fine[:, :FINE]
    if len(fine[0]) > FINE:
        answered = answered / answered.sum(axis=1, keepdims=True)
    return np.asarray(answered.reshape(len(fine), bins, -1).sum(axis=2))


def _fitted(channel: Floats, crowds: Ints, method: str, epsilon: float) -> Floats:
    """Return the fine shares of each crowd."""
    gain = 1e-3 * (math.exp(epsilon) if method == "em" else 1.0)
    return _maximise(channel, crowds, method == "ems", gain)


def _by_likelihood(fits: Mapping[str, Floats], channel: Floats, counts: Ints) -> str:
    """Return the method that was asked for; of both, "em" where it is clearly more likely."""
    if len(fits) == 1:
        return next(iter(fits))
    seen = counts > 0
    em, ems = (counts[seen] @ np.log((fits[name] @ channel)[0, seen]) for name in ("em", "ems"))
    return "em" if em - ems > CLEARLY else "ems"


def _resampled(counts: Ints, replicates: int) -> list[Ints]:
    """Draw the counts again, as a crowd of the same size and shape could have sent them."""
    rng, n = np.random.default_rng(0), int(counts.sum())
    return [rng.multinomial(n, counts / n) for _ in range(replicates)]


def _maximise(channel: Floats, crowds: Ints, smooth: bool, gain: float) -> Floats:
    """Repeat the EM step (and smoothing), all crowds at once, one row per crowd.

    A crowd is done when its log-likelihood gains less than `gain`.
    """
    seen, n = crowds.any(axis=0), crowds.sum(axis=1, keepdims=True)
    channel, observed = channel[:, seen], crowds[:, seen] / n
    shares = np.full((len(crowds), len(channel)), 1 / len(channel))
    before, least = np.full(len(crowds), -math.inf), gain / n[:, 0]
    todo = np.arange(len(crowds))
    for _ in range(MAX_STEPS):
        expected = shares[todo] @ channel
        likelihood = (observed[todo] * np.log(expected)).sum(axis=1)
        better = likelihood - before[todo] >= least[todo]
        before[todo] = likelihood
        todo, expected = todo[better], expected[better]
        if not len(todo):
            break
        step = shares[todo] * ((observed[todo] / expected) @ channel.T)
        shares[todo] = _smooth_bins(step) if smooth else step
    return shares


def _smooth_bins(shares: Floats) -> Floats:
    """Smooth the bins, and leave the share without an answer, where there is one, as it is."""
    if shares.shape[1] == FINE:
        return _smooth(shares)
    bins, none = shares[:, :FINE], shares[:, FINE:]
    return np.hstack([_smooth(bins) * bins.sum(axis=1, keepdims=True), none])


def _smooth(shares: Floats) -> Floats:
    """Average each share with its neighbours, (1, 2, 1)/4; the ends lean on themselves."""
    padded = np.pad(shares, ((0, 0), (1, 1)), mode="edge")
    smooth = (padded[:, :-2] + 2 * padded[:, 1:-1] + padded[:, 2:]) / 4
    return np.asarray(smooth / smooth.sum(axis=1, keepdims=True))
