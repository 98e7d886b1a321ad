"""A number or no answer: one more symbol around any table for numbers."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from murmuration.errors import FormatError, MismatchError, ParameterError
from murmuration.exact.arrays import Floats, Ints, Reports, frozen
from murmuration.exact.exponential import exp_below, log_above
from murmuration.exact.grid import Grid
from murmuration.exact.loss import Loss, PairwiseLoss, size
from murmuration.exact.randomness import WHOLE, WORD_BITS, Rng, Words, drawn
from murmuration.exact.table import Table, largest_ratio
from murmuration.mechanisms.base import Task
from murmuration.mechanisms.domain import Domain, NumberOrNone
from murmuration.mechanisms.graded.base import GradedMechanism
from murmuration.mechanisms.number.base import CROWD, FEWEST_SYMBOLS, Design, NumericMechanism
from murmuration.mechanisms.number.boundary import boundary_trials, random_trial
from murmuration.mechanisms.packing import SymbolReports
from murmuration.mechanisms.registry import mechanism
from murmuration.mechanisms.tally import Tally
from murmuration.mechanisms.trial import ChanceTrial, Trial, WordTrial, boundaries
from murmuration.results import distribution
from murmuration.results.answered import AnswerCounts, AnswerLaw, Quotient
from murmuration.results.distribution import Distribution
from murmuration.results.estimate import AnsweredEstimate
from murmuration.statistics.forgery import Evidence, Limits, Mixture
from murmuration.statistics.liars import Reach
from murmuration.statistics.sequence import Terms

WORDS_PER_PERSON = 3
LAST_WORD = (1 << 64) - 1
FINE = 1 << 256
"""What e^-B is counted in."""
OWN_LAW = ("hush", "none")
"""What the published law has besides the inner one's."""


@dataclass(frozen=True)
class OrNone(SymbolReports):
    """Say "none" with weight H out of W = 2^52 whatever the value, else what `inner` says.

    Who has no answer draws from one row F instead, which is as near to "none" as the loss allows:
    with T the inner table and B(r) what a value in range r and no answer may cost,

        F(y)    = ceil((W-H)/W max_r e^-B(r) max_{x in r} T(y|x))   the least that is allowed
        F(none) = W - sum_y F(y)                                    the rest
        H       = ceil((W-M) / (e^b - M/W)),   b = min_r B(r),   M = sum_y max_r e^-B(r) max T

    so that F(none) <= e^b H. All of the budget stays with the inner table: P(y|x)/P(y|x') is that
    of T. Around duchi this is randomised response on -, + and none. For a graded table no answer
    is protected as a value of the range with the smallest budget is.

    The analyst reads S, the mean of x over all people with 0 for no answer, and N, the share that
    answered, both without bias; the mean of those who answered is S/N (see `AnsweredEstimate`).

    epsilon: the budget of one report, 0.001 to 20; one for each range if `inner` is graded
    inner: the name of the mechanism for numbers
    settings: the parameters of that mechanism besides epsilon, as pairs of name and value

    >>> law = OrNone(epsilon=1.0, inner="duchi")
    >>> law.symbols, law.loss().holds, round(law.hush / 2**52 * (math.e + 2), 6)
    (3, True, 1.0)
    """

    name: ClassVar[str] = "or-none"
    answers: ClassVar[Task] = Task.MEAN
    takes: ClassVar[type[Domain]] = NumberOrNone
    paper: ClassVar[str] = "Warner 1965 on one more symbol (built for this project)"
    summary: ClassVar[str] = "a number or no answer, by any table for numbers"

    epsilon: Any
    inner: str = "duchi"
    settings: tuple[tuple[str, Any], ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "settings", _checked_settings(self.settings))
        own = tuple((name, getattr(self.inside, name)) for name, _ in self.settings)
        object.__setattr__(self, "settings", own)
        object.__setattr__(self, "epsilon", self.inside.epsilon)

    @classmethod
    def around(cls, inside: NumericMechanism) -> Self:
        """Return the law around a mechanism, with the very table that it has.

        >>> from murmuration import mechanism
        >>> OrNone.around(mechanism("piecewise", epsilon=1.0, t="sub"))
        OrNone(epsilon=1.0, inner='piecewise', settings=(('t', 'sub'),))
        """
        unusual = [
            (field.name, getattr(inside, field.name))
            for field in dataclasses.fields(inside)
            if field.name != "epsilon" and getattr(inside, field.name) != field.default
        ]
        made = cls(inside.epsilon, inside.name, tuple(unusual))
        object.__setattr__(made, "inside", inside)
        return made

    @property
    def title(self) -> str:
        """The mechanism inside, and that an answer may be missing."""
        return f"{self.inner} or none"

    def or_none(self) -> OrNone:
        """Itself."""
        return self

    def without_none(self) -> NumericMechanism:
        """The mechanism inside."""
        return self.inside

    @cached_property
    def inside(self) -> NumericMechanism:
        """The mechanism for those who answer."""
        if self.inner == self.name:
            raise ParameterError(f"{self.name} goes around a mechanism for numbers, not itself")
        made = mechanism(self.inner, epsilon=self.epsilon, **dict(self.settings))
        if not isinstance(made, NumericMechanism) or made.broken:
            raise ParameterError(
                f"{self.name} goes around a mechanism for numbers that keeps its promise; "
                f"{self.inner} is none"
            )
        return made

    @property
    def domain(self) -> NumberOrNone:
        """A number, or no answer."""
        inside = self.inside
        return NumberOrNone(inside.edges if isinstance(inside, GradedMechanism) else ())

    @property
    def budget(self) -> float:
        """That of the inner mechanism."""
        return self.inside.budget

    # --- the law -------------------------------------------------------------------------------

    @property
    def _design(self) -> Design:
        return self.inside.design

    @cached_property
    def _weights(self) -> Ints:
        """The inner table, its rows out of 2^52."""
        return frozen(self._design.weights * (WHOLE // self._design.table.total))

    @cached_property
    def _ranges(self) -> tuple[tuple[Ints, float], ...]:
        """The rows of each range, and what a value in it and no answer may cost."""
        inside = self.inside
        if not isinstance(inside, GradedMechanism):
            return ((np.arange(len(self._weights)), inside.budget),)
        return tuple(zip(inside.range_rows(), quiet_budgets(inside.budgets), strict=True))

    @cached_property
    def _least(self) -> list[int]:
        """m(y) = max_r e^-B(r) max_{x in r} T(y|x), out of 2^52 FINE; e^-B is rounded up."""
        tops = []
        for rows, budget in self._ranges:
            part = math.ceil(FINE / exp_below(budget))
            tops.append([part * top for top in self._weights[rows].max(axis=0).tolist()])
        return [max(column) for column in zip(*tops, strict=True)]

    @cached_property
    def hush(self) -> int:
        """H: how often, out of 2^52, somebody who has an answer says "none"; rounded up."""
        total = Fraction(sum(self._least), FINE)
        least = min(budget for _, budget in self._ranges)
        return math.ceil((WHOLE - total) / (exp_below(least) - total / WHOLE))

    @cached_property
    def none(self) -> Ints:
        """F: the row that no answer is drawn from; its last entry is "none"."""
        heard, scale = WHOLE - self.hush, WHOLE * FINE
        row = [-(-heard * weight // scale) for weight in self._least]
        return frozen(np.array([*row, WHOLE - sum(row)], dtype=np.int64))

    @cached_property
    def table(self) -> Table:
        """What the second word is compared with: the inner rows, and F below them."""
        rows = np.pad(self._weights, ((0, 0), (0, 1)))
        return Table(np.vstack([rows, self.none]))

    @cached_property
    def probabilities(self) -> Floats:
        """P(report | grid point), a row each; the last row is that of no answer."""
        heard = (WHOLE - self.hush) / WHOLE
        found = self.table.probabilities.copy()
        found[:-1] *= heard
        found[:-1, -1] = self.hush / WHOLE
        return frozen(found)

    @property
    def symbols(self) -> int:
        """Those of the inner table, and "none"."""
        return self.inside.symbols + 1

    def law(self) -> dict[str, Any]:
        """Return the inner law, `hush` (H) and `none` (F, "none" last)."""
        return {**self.inside.law(), "hush": self.hush, "none": self.none.tolist()}

    def law_bytes(self) -> bytes:
        """Return the inner law's bytes, H and F."""
        own = np.array([self.hush, *self.none.tolist()], dtype="<i8")
        return self.inside.law_bytes() + own.tobytes()

    def with_law(self, law: Mapping[str, Any]) -> Self:
        """Return this mechanism with a published inner table; H and F follow from that exactly."""
        if not isinstance(law, Mapping) or not set(OWN_LAW) <= set(law):
            raise FormatError(f"a published law of {self.name} has {' and '.join(OWN_LAW)}")
        inner = {key: value for key, value in law.items() if key not in OWN_LAW}
        planted = dataclasses.replace(self)
        object.__setattr__(planted, "inside", self.inside.with_law(inner))
        if not planted.inside.promise_kept:  # then there is no row for no answer
            raise FormatError(f"the published law of {self} breaks its promise")
        found = [law["hush"], *law["none"]] if isinstance(law["none"], list | tuple) else []
        wanted = [planted.hush, *planted.none.tolist()]
        if found != wanted or not all(type(weight) is int for weight in found):
            raise MismatchError(f"the published law is not that of {self}")
        return planted

    # --- device --------------------------------------------------------------------------------

    def respond(self, values: Floats, rng: Rng) -> Reports:
        """Person i uses words 3i to 3i+2, answer or not."""
        words = rng.words(WORDS_PER_PERSON * len(values))
        return self.decide(values, words.reshape(len(values), WORDS_PER_PERSON))

    def decide(self, values: Floats, words: Words) -> Reports:
        """Round by the first word, draw by the second; the third may hush who has an answer."""
        silent = np.isnan(values)
        rows = self._design.grid.round(np.where(silent, 0.0, values), words[:, 0])
        rows = np.where(silent, len(self._weights), rows)
        symbols = self.table.draw(rows, words[:, 1])
        hushed = (drawn(words[:, 2]) < self.hush) & ~silent
        return np.where(hushed, self.symbols - 1, symbols).astype(symbols.dtype)

    # --- analyst -------------------------------------------------------------------------------

    @cached_property
    def readings(self) -> Floats:
        """What each report is read as, for S (first row) and for N.

        N: c for a symbol, d for "none", so that E = 1 for any value and 0 for no answer. S: the
        inner value over 1-h, less what F is read as, by 1 - N.
        """
        hush, none = self.hush / WHOLE, float(self.none[-1]) / WHOLE
        answered = np.full(self.symbols, none / (none - hush))
        answered[-1] = -(1 - none) / (none - hush)
        value = np.append(self._design.values, 0.0) / (1 - hush)
        taken = float(self.none @ value) / WHOLE
        return frozen(np.stack([value - taken * (1 - answered), answered]))

    @cached_property
    def _law(self) -> AnswerLaw:
        """What reports say, and how they vary."""
        return AnswerLaw(self.probabilities, self.readings, self._design.grid)

    def terms(self) -> tuple[Terms, Terms]:
        """What single reports are read as, for S and for N."""
        cells = self._design.grid.low_rows
        of_s = Terms(self._law.targets[0], self.probabilities, self.readings[0], cells)
        quiet = np.array([self.none[-1], self.hush]) / WHOLE
        law = np.column_stack([1 - quiet, quiet])
        return of_s, Terms(np.array([0.0, 1.0]), law, self.readings[1][[0, -1]])

    def term_sums(self, tally: Tally) -> tuple[Floats, ...]:
        """Those of S and of N."""
        return tuple(np.atleast_1d(reading @ tally.counts) for reading in self.readings)

    def lies(self) -> Floats:
        """Every report."""
        return np.asarray(self.readings.T)

    def answer_counts(self, tally: Tally) -> AnswerCounts:
        """ANALYST. Return what a tally counts, to be read alone or with those of other levels."""
        self.answered(tally)
        return AnswerCounts(self._law, tally.counts)

    def estimate(
        self, tally: Tally, about: str = "participants", everybody: int | None = None
    ) -> AnsweredEstimate:
        """Return S and N with their errors; `mean` of it is that of those who answered."""
        n, subject = self.subject(tally, about)
        found = Quotient([self.answer_counts(tally)], subject.unseen(n, everybody))
        return found.estimate(self.budget, subject)

    def distribution(
        self, tally: Tally, method: str = "auto", bins: int = 64, replicates: int = 0
    ) -> Distribution:
        """Read the distribution among those who answered, by EM with one more input: no answer."""
        self.answered(tally)
        if not isinstance(self._design.grid, Grid):
            raise ParameterError(f"{self.inner} is read for its mean only")
        if self.inside.symbols < FEWEST_SYMBOLS:
            raise ParameterError(f"{self.inside.symbols} symbols cannot show a distribution")
        *law, none = self.probabilities
        return distribution.fit(
            np.array(law), tally.counts, method, self.budget, bins, replicates, none
        )

    # --- auditor -------------------------------------------------------------------------------

    def exact_loss(self) -> Loss:
        """Return the exact worst case over all pairs of values, and of a value and no answer."""
        inner = self.inside.loss()
        quiet = [self._quiet_loss(rows) for rows, _ in self._ranges]
        if isinstance(inner, PairwiseLoss):
            inner = self._bordered(inner, [loss.ratio for loss in quiet])
        if inner.ratio is None:  # then no ratio is larger
            return inner
        worst = max(quiet, key=size)
        if worst.ratio is None or worst.ratio <= inner.ratio:
            return inner
        return dataclasses.replace(
            inner,
            epsilon=worst.epsilon,
            ratio=worst.ratio,
            inputs=worst.inputs,
            output=worst.output,
        )

    def _quiet_loss(self, rows: Ints) -> Loss:
        """Return the largest ratio between no answer and these rows, either way.

        P(y|x) = (W-H) T(y|x)/W^2, P(none|x) = H/W, P(y|no answer) = F(y)/W.
        """
        heard, silent, none = WHOLE - self.hush, self.none[:-1], int(self.none[-1])
        table = self._weights[rows]
        high, low = table.max(axis=0), table.min(axis=0)
        up, down = largest_ratio(high, silent), largest_ratio(silent, low)
        last = self.symbols - 1
        return max(
            self._ratio(heard * int(high[up]), WHOLE * int(silent[up]), up, rows, False),
            self._ratio(WHOLE * int(silent[down]), heard * int(low[down]), down, rows, True),
            self._ratio(none, self.hush, last, rows, True),
            self._ratio(self.hush, none, last, rows, False),
            key=size,
        )

    def _ratio(self, above: int, below: int, symbol: int, rows: Ints, quiet: bool) -> Loss:
        """Return the loss by one report, of no answer against a value or the reverse."""
        row = int(rows[0])
        if symbol < len(self._design.values):
            column = self._weights[rows, symbol]
            row = int(rows[column.argmin() if quiet else column.argmax()])
        value = float(self._design.grid.reached[row])
        inputs = (math.nan, value) if quiet else (value, math.nan)
        if not below:
            return Loss(math.inf, self.budget, None, inputs, symbol)
        ratio = Fraction(above, below)
        return Loss(log_above(ratio), self.budget, ratio, inputs, symbol)

    def _bordered(self, inner: PairwiseLoss, quiet: Sequence[Fraction | None]) -> PairwiseLoss:
        """Return the matrix of losses with a last row and column: no answer."""
        budgets = [budget for _, budget in self._ranges]
        rows = [(*row, one) for row, one in zip(inner.ratios, quiet, strict=True)]
        tops = [(*row, one) for row, one in zip(inner.budgets, budgets, strict=True)]
        return dataclasses.replace(
            inner,
            ratios=(*rows, (*quiet, Fraction(1))),
            budgets=(*tops, (*budgets, min(budgets))),
        )

    def trials(self) -> Iterator[Trial]:
        """Every row's boundary words; the words that hush and that do not; all of it at random."""
        grid, inner = self._design.grid, self._design.table
        first_heard = self.hush << (64 - WORD_BITS)
        none = self.symbols - 1
        for trial in boundary_trials(self, grid, inner):
            pairs, values = trial.words.reshape(-1, 2), trial.values
            yield self._tried(values, pairs, LAST_WORD, trial.expected)
            yield self._tried(values[:1], pairs[:1], first_heard, trial.expected[:1])
            yield self._tried(values[:1], pairs[:1], first_heard - 1, np.array([none]))
        words, expected = boundaries(self.none, WHOLE)
        for coin in (0, LAST_WORD):
            pairs = np.stack([np.full_like(words, coin), words], axis=1)
            yield self._tried(np.full(len(words), math.nan), pairs, coin, expected)
        trial = random_trial(self, grid, inner)
        coins = np.random.default_rng(1).integers(0, LAST_WORD, len(trial.expected), np.uint64)
        hushed = drawn(coins) < self.hush
        yield self._tried(
            trial.values, trial.words.reshape(-1, 2), coins, np.where(hushed, none, trial.expected)
        )

    def _tried(
        self, values: Floats, pairs: Words, coins: int | Words, expected: Reports | Ints
    ) -> WordTrial:
        column = np.broadcast_to(np.asarray(coins, dtype=np.uint64), len(pairs))
        words = np.column_stack([pairs, column]).ravel()
        return WordTrial(self, values, words, expected)

    def chance_trials(self) -> Iterator[ChanceTrial]:
        """Every symbol of people at both ends, and of people without an answer."""
        points, law = self._design.grid.reached, self.probabilities
        people = max(20_000, 10 * self.symbols)
        for row, answer in ((0, float(points[0])), (-2, float(points[-1])), (-1, math.nan)):
            yield ChanceTrial(self, answer, self.count, law[row], "every report", people=people)

    # --- planner -------------------------------------------------------------------------------

    def variance(self, x: ArrayLike) -> Floats:
        """Return the variance of one report's S at x, which may be nan: no answer."""
        return self._interpolated(0, x)

    def _interpolated(self, which: int, x: ArrayLike) -> Floats:
        """Return an entry of the noise between grid points: its second moment is linear there."""
        numbers = NumberOrNone().checked(np.ravel(x)).reshape(np.shape(x))
        silent = np.isnan(numbers)
        inside = np.where(silent, 0.0, numbers)
        target = self._law.targets[[0, 0, 1]][which] * self._law.targets[[0, 1, 1]][which]
        moments = self._law.noise[which] + target
        own = (inside**2, inside, np.ones_like(inside))[which]
        found = self._design.grid.interpolate(moments[:-1], inside) - own
        return np.asarray(np.where(silent, self._law.noise[which, -1], found))

    def worst_variance(self) -> float:
        """The largest variance of S, of anybody."""
        return max(self._worst_of_values, float(self._law.noise[0, -1]))

    @cached_property
    def _worst_of_values(self) -> float:
        points = np.unique(np.concatenate([CROWD, self._design.grid.points]))
        return float(self.variance(points).max())

    def cost(self, share: float = 1.0) -> float:
        """Of the mean of those who answered, where all do: people at x, or at x and -x alike.

        People at x are read with S - x N, people at x and -x with S, whose mean is 0.
        """
        noise, mixed, counted = (self._interpolated(which, CROWD) for which in range(3))
        together = noise - 2 * CROWD * mixed + CROWD**2 * counted
        return float(max(together.max(), (noise + (1 - share) * CROWD**2).max()))

    def reach(self) -> Reach:
        """What a report is read as for S; how quotients move is in `analysis.liars`."""
        return Reach(float(self.readings[0].min()), float(self.readings[0].max()))

    def evidence(self, tally: Tally) -> Iterator[Evidence]:
        """Every symbol, and all of them together."""
        law = self.probabilities
        yield Limits("symbol", tally.counts, tally.n, law.min(axis=0), law.max(axis=0))
        yield Mixture("all symbols", tally.counts, law)


def quiet_budgets(budgets: Sequence[Sequence[float]]) -> tuple[float, ...]:
    """Return what no answer and a value of each range may cost: the row of the most private range.

    That is the one with the smallest budget (of several, the one whose row adds up to least). Its
    rows of the table show that such a law exists, whatever the matrix is.

    >>> quiet_budgets(((2.0, 2.0), (2.0, 1.0)))
    (2.0, 1.0)
    """
    own = [(row[place], sum(row), place) for place, row in enumerate(budgets)]
    return tuple(budgets[min(own)[-1]])


def _checked_settings(settings: Any) -> tuple[tuple[str, Any], ...]:
    """Return pairs of name and value in the order of names, epsilon not among them."""
    try:
        pairs = dict(settings)
    except (TypeError, ValueError):
        raise ParameterError("settings are pairs of a parameter's name and its value") from None
    if "epsilon" in pairs or not all(isinstance(name, str) for name in pairs):
        raise ParameterError("settings are the inner mechanism's parameters besides epsilon")
    return tuple(sorted(pairs.items()))
