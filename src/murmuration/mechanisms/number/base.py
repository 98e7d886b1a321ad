"""One sampler for every numeric mechanism: a grid, a table, and a value for each symbol.

A numeric mechanism is a `Design`. The device rounds the private value at random to a grid point,
then draws a symbol from that point's row of integer weights: two words per person. The
analyst replaces each symbol by its value; the average is the mean, without bias.

The other files in this folder only say which table. Two of the building blocks they share are here:
`window` (a high plateau that slides over a floor) and `ramp` (one bit whose odds are linear).
"""

from __future__ import annotations

import dataclasses
import math
import struct
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from murmuration.errors import FormatError, ParameterError
from murmuration.exact.arrays import Floats, Ints, Reports, frozen
from murmuration.exact.exponential import exp_below
from murmuration.exact.grid import AnyGrid, Grid, UnevenGrid
from murmuration.exact.loss import Loss, table_loss
from murmuration.exact.randomness import WHOLE, Rng, Words
from murmuration.exact.table import Table
from murmuration.mechanisms.base import Mechanism, Task
from murmuration.mechanisms.domain import Domain, Number, checked_values
from murmuration.mechanisms.number.boundary import boundary_trials, random_trial
from murmuration.mechanisms.packing import SymbolReports
from murmuration.mechanisms.tally import Tally
from murmuration.mechanisms.trial import ChanceTrial, Trial, spread_over
from murmuration.results import distribution
from murmuration.results.distribution import Distribution
from murmuration.results.estimate import Estimate
from murmuration.statistics.forgery import Evidence, Limits, Mixture
from murmuration.statistics.liars import Reach
from murmuration.statistics.score import (
    LIKELY,
    OFFSETS,
    Reading,
    Score,
    Tail,
    largest_moments,
    tail_of,
)
from murmuration.statistics.sequence import Terms

WORDS_PER_PERSON = 2
FEWEST_SYMBOLS = 8
"""A table with fewer symbols than this cannot show a distribution."""
MOST_ROWS = 9
"""Rows of a table that are read as fractions to find a bias."""
LARGEST_VALUE = 1 << 53
"""What a published symbol may be read as, at most: its square is still far from overflowing."""
FIXED_BITS, KEPT_BITS, UNSEEN, MOST_REFINED = 160, 64, 2.0**-120, 12
"""Bits after the point in `unbiased`, those of its results, the bias that does not show in these,
and in how many steps it goes at most."""
CROWD = np.linspace(-1, 1, 4097)
"""Where people may be, all over the domain, when the hardest crowd is looked for."""


@dataclass(frozen=True, eq=False)
class Design:
    """Integer weights (a row per grid point, a column per symbol) and the symbols' values.

    The grid is even unless one is given.
    """

    weights: Ints
    values: Floats
    uneven: UnevenGrid | None = None

    def __post_init__(self) -> None:
        frozen(self.weights)
        frozen(self.values)
        if len(self.weights) != len(self.grid.points):
            raise ParameterError("a design has one row of weights for each point of its grid")

    @cached_property
    def table(self) -> Table:
        """The law that is sampled and audited."""
        return Table(self.weights)

    @cached_property
    def grid(self) -> AnyGrid:
        """The points that values are rounded to; one row of weights each."""
        return Grid(len(self.weights) - 1) if self.uneven is None else self.uneven

    @cached_property
    def second_moments(self) -> Floats:
        """E[value^2] at each grid point."""
        return self.table.probabilities @ self.values**2

    @cached_property
    def unbiased(self) -> bool:
        """Whether E[value] is the point at every point, to 1e-10 of the values' size."""
        bias = self.table.probabilities @ self.values - self.grid.points
        size = math.sqrt(float(self.second_moments.max()))
        return bool(np.abs(bias).max() < 1e-10 * max(1.0, size))

    @property
    def all_in_use(self) -> bool:
        """Whether every symbol is ever sent."""
        return bool((self.weights.max(axis=0) > 0).all())

    @cached_property
    def noise_reading(self) -> Reading | None:
        """Numbers v with E[v(symbol)] = variance at every grid point: reads the noise off reports.

        The average of v over reports is the average noise variance of the very people who sent
        them. None where the table is too coarse to tell (then a bound is used).
        """
        probabilities = self.table.probabilities
        target = self.second_moments - self.grid.points**2
        # Weighted least norm: of all readings, the one that varies least from report to report.
        scale = np.sqrt(probabilities.mean(axis=0))
        scaled, *_ = np.linalg.lstsq(probabilities / scale, target, rcond=1e-10)
        reading = scaled / scale
        exact = np.allclose(probabilities @ reading, target, rtol=1e-6, atol=1e-9)
        return Reading.of(probabilities, reading) if exact else None

    @cached_property
    def _moments(self) -> Floats:
        """E[value^j] at each grid point, a row for each j from 0 to 4."""
        return np.array([self.table.probabilities @ self.values**power for power in range(5)])

    def square_reading(self, centre: float, n: int) -> Reading:
        """(value - centre)^2: noise and the people's own spread, and (mean - centre)^2."""
        c = centre
        means = np.array([c**2, -2 * c, 1.0]) @ self._moments[:3]
        squares = np.array([c**4, -4 * c**3, 6 * c**2, -4 * c, 1.0]) @ self._moments
        far = min(self.tail.jump(n, LIKELY) + 2.0, float(np.abs(self.values - c).max()))
        once = Tail(np.array([far**2]), np.zeros(1))
        return Reading.by_moments((self.values - c) ** 2, means, squares, once)

    @cached_property
    def tail(self) -> Tail:
        """How far off a report is, and how often."""
        return tail_of(self.table.probabilities, self.values, self.grid.points)

    @cached_property
    def most(self) -> tuple[Floats, Floats, Floats]:
        """Points m, and of all crowds with mean m the largest noise and the largest E[value^2]."""
        return largest_moments(self.grid, self.second_moments)


class NumericMechanism(SymbolReports):
    """A mechanism for one number in [-1, 1], given by its design."""

    answers: ClassVar[Task] = Task.MEAN
    takes: ClassVar[type[Domain]] = Number
    even: ClassVar[bool] = True
    """Whether its grid is even: not where the law depends on the value's range."""

    @property
    def domain(self) -> Number:
        """A number."""
        return Number()

    @abstractmethod
    def build(self) -> Design:
        """Return the integer table and the values, computed once."""

    @cached_property
    def design(self) -> Design:
        """The integer table and the values that everything below reads."""
        return _built(self)

    @property
    def symbols(self) -> int:
        """The size of the alphabet."""
        return self.design.table.symbols

    def law_bytes(self) -> bytes:
        """Return the weights, their shape and the values that the analyst reads them with.

        Values in single precision: their last digits come from a linear solver and may differ
        from one processor to another, which makes no difference to anybody.
        """
        weights, values = self.design.weights, self.design.values
        read_as = np.where(np.abs(values) < 1e-9, 0.0, values).astype("<f4")
        shape = struct.pack("<2q", *weights.shape)
        return shape + weights.astype("<i8").tobytes() + read_as.tobytes() + self._places()

    def law(self) -> dict[str, Any]:
        """Return the weights, one row per grid point, and the values that symbols are read as.

        For an uneven grid also its `places` and `jumps` in fixed point, (x+1) 2^51.
        """
        design = self.design
        law = {"weights": design.weights.tolist(), "values": design.values.tolist()}
        if design.uneven is None:
            return law
        return {**law, "places": [*design.uneven.places], "jumps": [*design.uneven.jumps]}

    def with_law(self, law: Mapping[str, Any]) -> Self:
        """Return this mechanism with a published table instead of its own, which is never built.

        Tables from a linear program differ from one processor to another: a device has to use
        the campaign's. What it costs is audited before anything is sent, as always.
        """
        design = design_of(law, even=self.even)
        if not design.unbiased:
            raise FormatError(f"the published law of {self} is biased")
        if self.keeps_promise and not design.all_in_use:
            raise FormatError(f"the published law of {self} has symbols that are never sent")
        planted = dataclasses.replace(self)  # without anything that was read off another table
        object.__setattr__(planted, "design", design)
        return planted

    def _places(self) -> bytes:
        """Return where an uneven grid's cells end and its law jumps; nothing for an even one."""
        grid = self.design.grid
        if isinstance(grid, Grid):
            return b""
        return np.array([*grid.places, *grid.jumps], dtype="<i8").tobytes()

    # --- device ---

    def respond(self, values: Floats, rng: Rng) -> Reports:
        """Person i uses words 2i and 2i+1."""
        words = rng.words(WORDS_PER_PERSON * len(values))
        return self.decide(values, words.reshape(len(values), WORDS_PER_PERSON))

    def decide(self, values: Floats, words: Words) -> Reports:
        """Return the reports that these words make of these values: no randomness but theirs."""
        rows = self.design.grid.round(values, words[:, 0])
        return self.design.table.draw(rows, words[:, 1])

    # --- analyst ---

    def read_each(self, reports: Reports) -> Floats:
        """Return what each report is read as: on average the value that it was made of.

        >>> from murmuration import mechanism, seeded_rng
        >>> duchi = mechanism("duchi", epsilon=1.0)
        >>> reports = duchi.privatize(np.array([1.0, -1.0]), seeded_rng(2))
        >>> duchi.read_each(reports).round(3).tolist()
        [2.164, -2.164]
        """
        return np.asarray(self.design.values[reports])

    def estimate(
        self, tally: Tally, about: str = "participants", everybody: int | None = None
    ) -> Estimate:
        """Return the mean: sum(counts * values) / n, unbiased, with its standard error."""
        n, subject = self.subject(tally, about)
        mean = float(tally.counts @ self.design.values) / n
        unseen = subject.unseen(n, everybody)
        inside = min(max(mean, -1.0), 1.0)
        points, variance = self._variances(tally.counts, n, inside, unseen)
        likely = n * inside / (n + 4)  # two people more at either end: agreement is not certainty
        stderr = math.sqrt(float(np.interp(likely, points, variance)) / n)
        apart = 2.0 if unseen else self.design.grid.step
        shape = Score(
            *(mean, stderr, n, points, variance, self.design.tail, apart),
            self.reach().influence + 1,
        )
        return Estimate(mean, stderr, n, self.budget, subject, self.caveat, shape)

    def _variances(
        self, counts: Ints, n: int, centre: float, unseen: float
    ) -> tuple[Floats, Floats]:
        """Return n Var of the mean for each true mean, at some points: what can be known of it.

        No crowd with that mean has more than the hulls of `Design.most` allow. Often these reports
        show that theirs has less: their mean square (and noise, where the table shows it), with
        what is uncertain about that added. Between grid points rounding adds up to step^2/4 to the
        noise that the points show.
        """
        places, noisiest, largest = self.design.most
        # Where few reports differ, all happens next to the estimate.
        near = np.clip(np.concatenate([centre - OFFSETS, centre + OFFSETS]), -1.0, 1.0)
        points = np.unique(np.concatenate([places, near]))
        noisiest, largest = (np.interp(points, places, most) for most in (noisiest, largest))
        least = float(self._point_variances.min())
        square = self.design.square_reading(centre, n).at_most(counts, n)
        lean = self._lean(counts, n) * (points - centre)
        whole = np.minimum(largest - points**2, square + lean - (points - centre) ** 2)
        whole = np.maximum(whole, least)
        noise = np.minimum(noisiest, whole)
        if self.design.noise_reading is not None:
            shown = self.design.noise_reading.at_most(counts, n) + self.design.grid.step**2 / 4
            noise = np.minimum(noise, max(shown, least))
        return points, np.asarray((1 - unseen) * noise + unseen * whole)

    def _lean(self, counts: Ints, n: int) -> float:
        """Return by how much reports spread more for each unit that their mean is higher.

        Where the spread is due to few people at one end (E[d^3]/E[d^2], d = value - mean), a crowd
        whose true mean is nearer to that end has more of them.
        """
        apart = self.design.values - float(counts @ self.design.values) / n
        square = float(counts @ apart**2)
        return float(counts @ apart**3) / square if square > 0 else 0.0

    def terms(self) -> tuple[Terms, ...]:
        """Each symbol's value; people between grid points mix two rows."""
        design = self.design
        if not design.unbiased:
            return ()
        law, points = design.table.probabilities, design.grid.points
        return (Terms(points, law, design.values, design.grid.low_rows),)

    def term_sums(self, tally: Tally) -> tuple[Floats, ...]:
        """The sum of the symbols' values."""
        return (np.atleast_1d(tally.counts @ self.design.values),)

    def or_none(self) -> Mechanism:
        """The same table with one more symbol around it."""
        from murmuration.mechanisms.number.or_none import OrNone  # which is built on this module

        return OrNone.around(self)

    def stricter(self, way: tuple[float, ...]) -> Mechanism:
        """Its reports, kept or made blank."""
        from murmuration.mechanisms.number.converted_number import ConvertedNumber

        return ConvertedNumber.of(self, way)

    def distribution(
        self, tally: Tally, method: str = "auto", bins: int = 64, replicates: int = 0
    ) -> Distribution:
        """Read the whole distribution from the same counts, by EM on the known table.

        `method` is "em" (maximum likelihood), "ems" (smoothed at each step), or "auto": "ems"
        unless "em" explains the reports clearly better; the result says which. With `replicates`
        (say 200) it has bands that show how far noise and chance reach.
        """
        self.answered(tally)
        if not isinstance(self.design.grid, Grid):
            raise ParameterError(f"{self.name} is read for its mean only")
        if self.symbols < FEWEST_SYMBOLS:
            raise ParameterError(
                f"{self.symbols} symbols cannot show a distribution; collect with square-wave, "
                "dithered or optimal"
            )
        probabilities = self.design.table.probabilities
        return distribution.fit(probabilities, tally.counts, method, self.budget, bins, replicates)

    # --- auditor and planner ---

    def exact_loss(self) -> Loss:
        """Return the exact worst-case loss of the weights."""
        return table_loss(self.design.table, self.design.grid.points, self.budget)

    def bias(self) -> float:
        """Of every row as floats; if these show nothing, of some rows as fractions."""
        table, values, points = self.design.table, self.design.values, self.design.grid.points
        size = max(1.0, float(np.abs(values).max()))
        if not self.design.unbiased:
            return float(np.abs(table.probabilities @ values - points).max()) / size
        exact, worst = [Fraction(value) for value in values.tolist()], 0.0
        for row in spread_over(len(points), MOST_ROWS):
            weights = self.design.weights[row].tolist()
            mean = sum(w * v for w, v in zip(weights, exact, strict=True)) / sum(weights)
            worst = max(worst, abs(float(mean) - float(points[row])) / size)
        return worst

    def trials(self) -> Iterator[Trial]:
        """Boundary words of every row, and random values and words next to a slow sampler."""
        yield from boundary_trials(self, self.design.grid, self.design.table)
        yield random_trial(self, self.design.grid, self.design.table)

    def chance_trials(self) -> Iterator[ChanceTrial]:
        """Every symbol of people at the ends and in the middle of the grid."""
        points, law = self.design.grid.reached, self.design.table.probabilities
        for row in spread_over(len(points), 3):
            people = max(20_000, 10 * self.symbols)
            answer = float(points[row])
            yield ChanceTrial(self, answer, self.count, law[row], "every report", people=people)

    def cost(self, share: float = 1.0) -> float:
        """The spread of a number is x^2, for people at x and -x alike.

        >>> from murmuration import mechanism
        >>> duchi = mechanism("duchi", epsilon=1.0)
        >>> round(duchi.cost(), 2), round(duchi.cost(0.0), 2)
        (4.68, 4.68)
        """
        if share == 1:
            return self.worst_variance()
        return float((self.variance(CROWD) + (1 - share) * CROWD**2).max())

    def reach(self) -> Reach:
        """The values of symbols; on average, between the means of the rows."""
        values = self.design.values
        means = self.design.table.probabilities @ values
        least, most = float(means.min()), float(means.max())
        return Reach(float(values.min()), float(values.max()), least, most)

    def evidence(self, tally: Tally) -> Iterator[Evidence]:
        """Every symbol, and all of them together: the rows between two points are mixtures.

        Nothing where a question is asked again: one person's reports share a permanent answer.
        """
        if self.memoised:
            return
        law = self.design.table.probabilities
        yield Limits("symbol", tally.counts, tally.n, law.min(axis=0), law.max(axis=0))
        yield Mixture("all symbols", tally.counts, law)

    def variance(self, x: ArrayLike) -> Floats:
        """Return Var(x) = E[value^2 | x] - x^2, rounding to the grid included, in x's shape."""
        numbers = checked_values(x).reshape(np.shape(x))
        return self.design.grid.interpolate(self.design.second_moments, numbers) - numbers**2

    @cached_property
    def _point_variances(self) -> Floats:
        return self.design.second_moments - self.design.grid.points**2

    def worst_variance(self) -> float:
        """Return the largest variance on [-1, 1], between grid points too.

        In a cell E[value^2|x] is a line, so Var is a parabola with its top at half the slope.
        """
        grid, moments = self.design.grid, self.design.second_moments
        low = grid.low_rows
        start, end = grid.points[low], grid.points[low + 1]
        slopes = (moments[low + 1] - moments[low]) / (end - start)
        tops = np.clip(slopes / 2, start, end)
        return float((moments[low] + slopes * (tops - start) - tops**2).max())


@lru_cache(maxsize=64)
def _built(mechanism: NumericMechanism) -> Design:
    """Share one design between equal mechanisms, so that nothing is computed twice."""
    return mechanism.build()


def design_of(law: object, *, even: bool) -> Design:
    """Return the design that a published law describes, or say what is wrong with it.

    >>> design_of({"weights": [[3, 1], [1, 3]], "values": [-2, 2]}, even=True).grid.points.tolist()
    [-1.0, 1.0]
    """
    names = ["weights", "values"] if even else ["weights", "values", "places", "jumps"]
    if not isinstance(law, Mapping) or set(law) != set(names):
        raise FormatError(f"a published law has {', '.join(names)} and nothing else")
    rows = [_whole(row) for row in _list(law["weights"])]
    values = _list(law["values"])
    if not rows or not values or any(len(row) != len(values) for row in rows):
        raise FormatError("a published law has rows of weights, one for each of its values")
    if not all(type(value) in (int, float) and abs(value) < LARGEST_VALUE for value in values):
        raise FormatError("a published law's values are numbers below 2^53")
    try:
        uneven = None if even else UnevenGrid(_whole(law["places"]), _whole(law["jumps"]))
        design = Design(np.array(rows), np.array(values, dtype=np.float64), uneven)
        Table(design.weights)  # one total for all rows
    except ParameterError as problem:
        raise FormatError(f"a published law cannot be used: {problem}") from None
    return design


def _list(numbers: object) -> list[Any] | tuple[Any, ...]:
    if not isinstance(numbers, list | tuple):
        raise FormatError(f"a published law is made of lists; got {type(numbers).__name__}")
    return numbers


def _whole(numbers: object) -> tuple[int, ...]:
    """Return whole numbers from 0 to 2^52: neither 1.0 nor true, which pass for 1 in Python."""
    listed = _list(numbers)
    if not all(type(number) is int and 0 <= number <= WHOLE for number in listed):
        raise FormatError("a published law's weights and places are whole numbers from 0 to 2^52")
    return tuple(listed)


# --- building blocks ---------------------------------------------------------------------------


def window(cells: int, width: Fraction, epsilon: float, total: int = WHOLE) -> Design:
    """Slide a plateau of weight hi and the given width (in bins) over a floor of weight lo.

    Row i covers `inner` whole bins and a fraction of one more on each side, so any width can be
    had, and the mean of row i is linear in i: unbiased by one scale factor, exactly. hi is
    floor(e^epsilon * lo), what is left of the total lies on the middle symbol of every row:
    rounding only ever adds noise.
    """
    inner = math.ceil(width) - 1
    inner = max(1, inner - 1 + inner % 2)  # odd, so that there is a middle symbol
    side = max(Fraction(1, 1 << 20), (width - inner) / 2)
    ratio = exp_below(epsilon)
    lo = int((total - 2) / (cells + (inner + 2 * side) * ratio))
    hi = int(ratio * lo)
    rise = int(side * (hi - lo))
    floor = np.full(cells + inner + 2, lo, dtype=np.int64)
    floor[[0, -1]] = math.ceil(side * lo)  # the end bins are as narrow as the part that is used
    return _slide(floor, cells, inner, (hi - lo, rise), total)


def _slide(floor: Ints, cells: int, inner: int, rises: tuple[int, int], total: int) -> Design:
    """Lay the plateau over the floor at each of its places and fix the total and the scale."""
    full, side = rises
    plateau = np.full(inner + 2, full, dtype=np.int64)
    plateau[[0, -1]] = side
    weights = np.tile(floor, (cells + 1, 1))
    for row, place in enumerate(weights):
        place[row : row + inner + 2] += plateau
    weights[:, len(floor) // 2] += total - weights[0].sum()
    # E[position | i] = (i - cells/2) * sum(plateau)/total, and x_i = (i - cells/2) * 2/cells.
    scale = 2 * total / (cells * int(plateau.sum()))
    positions = np.arange(len(floor), dtype=np.float64) - (len(floor) - 1) / 2
    return Design(weights, positions * scale)


def ramp(cells: int, epsilon: float, total: int = WHOLE) -> Design:
    """Give one bit odds that are linear in x: lie : truth at -1, truth : lie at +1.

    lie = ceil(total / (e^epsilon + 1)), rounded up further until truth - lie can be shared
    equally by the cells.
    """
    lie = math.ceil(total / (exp_below(epsilon) + 1))
    gap = (total - 2 * lie) // (2 * cells) * (2 * cells)
    if gap <= 0:
        raise ParameterError(f"epsilon {epsilon!r} is too small for {cells} cells")
    low = (total - gap) // 2 + np.arange(cells + 1, dtype=np.int64) * (gap // cells)
    bound = total / gap
    return Design(np.stack([total - low, low], axis=1), np.array([-bound, bound]))


def unbiased(weights: Ints, values: Floats, uneven: UnevenGrid | None = None) -> Design:
    """Return a design whose values are moved by the least-norm step that removes all bias.

    values + P^T y with y = (P P^T)^-1 (x - P values), P the realised probabilities. Processors
    differ in the last bits of sums of floats, so y is refined with whole numbers until no float's
    rounding shows, and values are rounded at the end: they are the same on every machine.
    """
    design = Design(weights, values, uneven)
    total = int(weights[0].sum())
    table, start = weights.astype(object), _fixed(values)
    goal, y = _fixed(design.grid.points) * total, np.zeros(len(weights), dtype=object)
    inverse = np.linalg.pinv(design.table.probabilities, rcond=1e-12)
    for _ in range(MOST_REFINED):
        moved = start + table.T @ y // total
        bias = ((goal - table @ moved) / (total << FIXED_BITS)).astype(np.float64)
        if np.abs(bias).max() < UNSEEN:
            break
        y = y + _fixed(inverse.T @ (inverse @ bias))
    rest = FIXED_BITS - KEPT_BITS
    kept = (moved + (1 << rest - 1)) >> rest
    return Design(weights, (kept / (1 << KEPT_BITS)).astype(np.float64), uneven)


def _fixed(numbers: Floats) -> NDArray[np.object_]:
    """Return numbers as whole multiples of 2^-FIXED_BITS."""
    return np.array([round(Fraction(n) * (1 << FIXED_BITS)) for n in numbers.tolist()], object)
