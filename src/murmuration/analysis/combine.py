"""Many privacy levels of one attribute into one estimate.

Each person picks a level (high, medium, low) and answers with that level's epsilon. Level t has
n_t reports, an unbiased estimate f_t and the noise V_t of one report. A combination is a weighted
average of the f_t with weights that add up to 1:

    total         the plain sum of all reports, w_t = n_t/n: right whatever level people pick
    optimal       OC of the MPLDP paper, w_t ~ n_t/V_t: the least noise
    generalised   w_t ~ n_t/(V_t + S), the least error, and guarded: it looks whether the levels
                  agree, and goes back to the plain sum if they do not
(OP of the paper needs the true histogram: `lab.oracle`.)

All but the plain sum rest on one assumption: that the choice of a level does not depend on the
value. If people with a certain disease pick "high" more often, f_high is about other people than
f_low, and weights other than n_t/n favour one group. More reports do not cure that. So the plain
sum is what a campaign's figures are (`of_campaign`), unless the levels were drawn by lot, or the
analyst asks for another by its name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import chdtrc, chdtri

from murmuration.errors import EmptyError, MismatchError, ParameterError
from murmuration.exact.arrays import Floats
from murmuration.mechanisms.domain import Items, Number
from murmuration.mechanisms.tally import Tally
from murmuration.results.estimate import About, Estimate, FrequencyEstimate
from murmuration.statistics.score import Shape, SumScore
from murmuration.statistics.supports import SupportShape

PLAIN = "plain sum of the levels: right whatever made people choose theirs"
NAMED = "levels combined by name (generalised): right if nobody's level depends on the answer"
BY_LOT = "levels combined (generalised): rests on the campaign's word that they are drawn by lot"
NAMES = ("total", "generalised")
"""What a combination may be asked for by; without a name, it is what the campaign allows."""
FELL_BACK = "the choice of level depends on the data: back to the plain sum of the levels"
"""How the note begins; how far back, and how sure it is, follows."""
UNLIKELY = 0.01
"""How often levels that agree are taken for levels that do not."""
Part = Estimate | FrequencyEstimate


def of_campaign(
    tallies: Sequence[Tally], about: str, everybody: int | None, name: str, *, by_lot: bool
) -> Part:
    """Return the estimate from all levels; its note says what it rests on.

    The plain sum, which assumes nothing, unless the campaign has levels drawn `by_lot`, or the
    combination is asked for by `name`.
    """
    if checked_name(name) == "total" or not (name or by_lot):
        return _noted(total(tallies, about, everybody), PLAIN)
    if not by_lot:
        return _noted(generalised(tallies, about, everybody), NAMED)
    combination = generalised(tallies, about, everybody, guard=False)
    unlike = (
        f"; yet they differ (p = {combination.p_value:.1g})"
        if combination.p_value < UNLIKELY
        else ""
    )
    return _noted(combination, f"{BY_LOT}{unlike}")


def checked_name(name: str) -> str:
    """Return a combination's name, or say which there are; none is the campaign's own."""
    if name not in ("", *NAMES):
        raise ParameterError(f"levels are combined by {' or '.join(NAMES)}; got {name!r}")
    return name


def _noted(combination: Combination, note: str) -> Part:
    """Return the estimate; a note that it fell back comes first."""
    return replace(combination.estimate, note="; ".join(filter(None, [combination.note, note])))


@dataclass(frozen=True, eq=False)
class Combination:
    """One estimate from all levels, and how it came about."""

    estimate: Part
    weights: tuple[float, ...]
    """One for each level, adding up to 1; 0 for a level that nobody chose."""
    p_value: float
    """How often levels that agree would differ by as much as these (Cochran's test)."""
    fell_back: bool = False
    """Whether the levels differ so much that only the plain sum can be trusted (see the note)."""
    note: str = ""

    @property
    def value(self) -> float | Floats:
        """The estimate's value."""
        return self.estimate.value

    @property
    def stderr(self) -> float | Floats:
        """The estimate's standard error."""
        return self.estimate.stderr

    def interval(self, level: float = 0.95) -> tuple[Any, Any]:
        """The estimate's interval."""
        return self.estimate.interval(level)

    def __str__(self) -> str:
        shares = ", ".join(f"{weight:.1%}" for weight in self.weights)
        return f"{self.estimate}, levels weigh {shares}"


def total(
    tallies: Sequence[Tally], about: str = "participants", everybody: int | None = None
) -> Combination:
    """Return the plain sum of all levels, w_t = n_t/n (BRR of the MPLDP paper).

    Unbiased about the participants whatever made them choose their levels, but the noisiest
    level decides the error: sum n_t V_t / n^2.

    >>> from murmuration import mechanism
    >>> careful, open_ = (mechanism("grr", epsilon=epsilon, k=2) for epsilon in (0.5, 2.0))
    >>> total([careful.tally([0, 1, 1]), open_.tally([1])]).weights
    (0.75, 0.25)
    """
    return LevelReadings.of(tallies).sum(about, everybody)


def optimal(
    tallies: Sequence[Tally], about: str = "participants", everybody: int | None = None
) -> Combination:
    """Return the combination of least noise, w_t ~ n_t/V_t (OC, Theorem 2 of the MPLDP paper).

    V_t is the noise of an item that nobody has; for symmetric unary encoding n_t/V_t is the
    paper's D_t = n_t (s-1)^2/s, s = e^(epsilon_t/2). For a number V_t is the worst variance.
    It trusts that nobody's level depends on the value; `generalised` does not.

    >>> from murmuration import mechanism
    >>> levels = [mechanism("sue", epsilon=epsilon, k=2) for epsilon in (1.0, 2.0)]
    >>> answers = np.array([[1], [2]], dtype=np.uint8)
    >>> [round(weight, 3) for weight in optimal([m.tally(answers) for m in levels]).weights]
    [0.19, 0.81]
    """
    levels = LevelReadings.of(tallies)
    return levels.combination(levels.least_noise, about, everybody)


def generalised(
    tallies: Sequence[Tally],
    about: str = "participants",
    everybody: int | None = None,
    *,
    alpha: float = UNLIKELY,
    guard: bool = True,
) -> Combination:
    """Return the combination of least error, w_t ~ n_t/(V_t + S), as far as the levels agree.

    *Weights.* The people of a level are a random part of all, so f_t differs from the population's
    f by noise V_t/n_t and by sampling S/n_t, S = f(1-f) averaged over items (for a number: the
    variance of the people). So Var = sum w_t^2 (V_t + S)/n_t about the population. About the
    participants, whose f is sum_t (n_t/n) f_t, the sampling error is that of
    sum_t (w_t - n_t/n) f_t, namely S sum (w_t - n_t/n)^2/n_t = S sum w_t^2/n_t - S/n. The two
    differ by S/n, which no weight changes: one set of weights is the best for both.

    *Guard.* With D = GLS - sum, C its covariance, lambda the largest eigenvalue of C and
    p = tr C/lambda (k-1 when all directions are alike), the estimate is

        sum + a D,   a = min(1, r(u)/u),   u = |D|^2/lambda,
        r(u) = p-2 up to the u that levels that agree exceed once in 1/`alpha` times, and
        r(u) = 2(p-2) x/(1+x), x = (u_0/u)^((p-2)/2), beyond that u_0.

    The errors of GLS and of D are uncorrelated (else a mixture would beat GLS), so Stein's
    identity gives the expected squared error of all items together: that of the plain sum less
    E[r(2(p-2) - r)/u + 4 r'] lambda at least, whatever the bias of GLS may be. Up to u_0 that is
    what Green and Strawderman (1991) gain; beyond, r falls as fast as it can without a loss, so
    that the bias left in single items vanishes too. Going over to the plain sum at once when a
    test rejects (the simpler guard) was measured up to 3% worse than the plain sum, this one never.
    Of what GLS gains over the sum, levels that agree keep nearly two thirds at k = 5 and 95% at
    k = 25.

    With 2 or 3 items nothing can promise that: the plain sum is admissible. There p-2 is replaced
    by 1: levels that agree keep two thirds of the gain; where levels differ by about what noise
    alone would make them, the squared error is up to 1.5 times the plain sum's. A number is GLS as
    a whole, or the plain sum where the test below rejects.

    `fell_back` is set, and the note says so, when Cochran's test rejects at `alpha`: then the
    choice of level depends on the data, and the standard errors are those of the plain sum. Else
    they are between those of GLS and of the sum, by Stein's estimate of the risk, and more for
    items that differ most (for a number: those of GLS, never above those of one level alone). They
    still rest on the assumption: a dependence that is too weak for the test can leave a bias that
    they do not cover: 56% instead of 95% was measured where people with one answer choose one
    level. `total` assumes nothing. `guard=False` is the pure GLS, for levels that are drawn by lot.

    >>> from murmuration import mechanism, seeded_rng
    >>> levels = [mechanism("subset", epsilon=epsilon, k=8) for epsilon in (0.5, 2.0)]
    >>> crowds, rng = (np.arange(4000) % 8, np.arange(4000) % 2), seeded_rng(1)
    >>> alike, apart = (
    ...     [m.tally(m.privatize(crowd, rng)) for m, crowd in zip(levels, pair, strict=True)]
    ...     for pair in ((crowds[0], crowds[0]), crowds)
    ... )
    >>> generalised(alike).fell_back, generalised(alike).weights[1] > 0.75
    (False, True)
    >>> generalised(apart).note
    'the choice of level depends on the data: back to the plain sum of the levels, 100% of the \
way (p = 6e-20)'
    """
    if not 0 < alpha < 1:
        raise ParameterError(f"alpha, of the test, is between 0 and 1, such as 0.01; got {alpha!r}")
    levels = LevelReadings.of(tallies)
    unlike = levels.p_value < alpha
    unseen = levels.unseen(about, everybody)
    if not guard or not (levels.items or unlike):
        squares = levels.least_squares(unseen)
        return levels.combination(levels.least_error, about, everybody, squares)
    if not levels.items:
        note = f"{FELL_BACK}, 100% of the way (p = {levels.p_value:.1g})"
        return levels.sum(about, everybody, note)
    kept, gained = levels.lean(alpha)
    weights = levels.plain + kept * (levels.least_error - levels.plain)
    note = ""
    if unlike:
        note = f"{FELL_BACK}, {1 - kept:.0%} of the way (p = {levels.p_value:.1g})"
    squares = levels.guarded(kept, 0 if note else gained, unseen)
    return levels.combination(weights, about, everybody, squares, note)


# --- what is read off the levels ---------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class LevelReadings:
    """The levels that somebody chose: a row each, one column per item (one for a number)."""

    tallies: tuple[Tally, ...]
    chosen: tuple[bool, ...]
    """Of all levels that were offered, which are among the rows."""
    parts: tuple[Part, ...]

    @classmethod
    def of(cls, tallies: Sequence[Tally]) -> LevelReadings:
        """Check that the tallies belong together, and estimate each level by itself."""
        _require_one_attribute(tallies)
        answered = tuple(tally for tally in tallies if tally.n)
        if not answered:
            raise EmptyError("no reports at any level yet: nothing to combine")
        return cls(
            answered, tuple(tally.n > 0 for tally in tallies), _parts(answered, "participants")
        )

    # --- the numbers ---

    @cached_property
    def people(self) -> Floats:
        """n_t, as a column of floats."""
        return np.array([float(tally.n) for tally in self.tallies])

    @property
    def items(self) -> int:
        """How many items there are; 0 for a number."""
        return self.tallies[0].mechanism.domain.items

    @property
    def epsilon(self) -> float:
        """The largest level's: what a person may have spent."""
        return max(tally.mechanism.budget for tally in self.tallies)

    @cached_property
    def values(self) -> Floats:
        """Each level's own estimate."""
        return np.array([np.atleast_1d(part.value) for part in self.parts])

    @cached_property
    def noise(self) -> Floats:
        """Squared standard errors of each level's own estimate, careful where reports are few."""
        return np.array([np.square(np.atleast_1d(part.stderr)) for part in self.parts])

    @cached_property
    def likely(self) -> Floats:
        """The shares by a first look, with two people more and two less, as in every estimate."""
        n = self.people.sum()
        return np.asarray((n * np.clip(self.least_noise @ self.values, 0, 1) + 2) / (n + 4))

    @cached_property
    def spread(self) -> Floats:
        """S: the variance of one person, for each item; for a number, that of the people."""
        if self.items:
            return np.asarray(self.likely * (1 - self.likely))
        return np.array([self._spread_of_numbers()])

    def _spread_of_numbers(self) -> float:
        """Spread beyond the noise, most trusted where the noise is small; 1 is the largest.

        Where a table cannot tell noise from spread, all counts as noise: then it is too low.
        """
        squares = self.drawn[:, 0] - self.noise[:, 0]
        trust = 1 / (self.people * self.noise[:, 0] ** 2)  # n over V^2, as V = n noise
        return float(np.clip(np.average(self.people * squares, weights=trust), 0, 1))

    @cached_property
    def drawn(self) -> Floats:
        """Squared standard errors of each level about a population that its people are drawn from.

        For levels that agree they are (V_t + S)/n_t, whatever part of it is noise.
        """
        parts = _parts(self.tallies, "population")
        return np.array([np.square(np.atleast_1d(part.stderr)) for part in parts])

    @cached_property
    def noise_if_alike(self) -> Floats:
        """Squared errors of the noise when all levels have the shares of the first look."""
        rows = [tally.mechanism.squared_errors(self.likely, tally.n) for tally in self.tallies]
        return np.array(rows)

    @cached_property
    def errors_if_alike(self) -> Floats:
        """sigma_t^2 = (V_t + S)/n_t: how far levels that agree are from the population."""
        if not self.items:
            return self.drawn
        return np.asarray(self.noise_if_alike + self.spread / self.people[:, None])

    def unseen(self, about: str, everybody: int | None) -> float:
        """How much of the people's own spread is in the error of an estimate about them."""
        return About.parse(about).unseen(int(self.people.sum()), everybody)

    # --- weights ---

    @cached_property
    def plain(self) -> Floats:
        """n_t/n."""
        return np.asarray(self.people / self.people.sum())

    @cached_property
    def least_noise(self) -> Floats:
        """n_t/V_t, scaled."""
        return _scaled(1 / self._quiet_errors())

    def _quiet_errors(self) -> Floats:
        """V_t/n_t: of an item that nobody has; for a number, of the worst value."""
        return np.array([tally.mechanism.quiet_error(tally.n) for tally in self.tallies])

    @cached_property
    def least_error(self) -> Floats:
        """n_t/(V_t + S), scaled."""
        return _scaled(1 / self.errors_if_alike.mean(axis=1))

    # --- the guard ---

    @cached_property
    def p_value(self) -> float:
        """Cochran's test: Q = sum (f_tv - f_v)^2/sigma_tv^2 over levels and items.

        Within a level the errors of subset, grr and sampling add up to 0 over the k items: k-1 of
        them are free, and each item's share of Q is k/(k-1) times what a free one would have. So
        Q (k-1)/k is compared with chi-square of (k-1)(T-1) degrees of freedom. Independent bits
        have the same mean and less variance: there the test is a little slow to reject.
        """
        precision = 1 / self.errors_if_alike
        centre = (precision * self.values).sum(axis=0) / precision.sum(axis=0)
        q = float((precision * (self.values - centre) ** 2).sum())
        free = max(self.items - 1, 1)
        freedom = free * (len(self.tallies) - 1)
        return float(chdtrc(freedom, q * free / max(self.items, 1))) if freedom else 1.0

    def lean(self, alpha: float) -> tuple[float, float]:
        """Return a, how much of D = GLS - sum to add, and what part of its variance that gains."""
        apart = self.least_error - self.plain
        variance = float((apart**2 @ self.errors_if_alike).sum())
        distance = float(np.square(apart @ self.values).sum())
        if variance == 0 or distance == 0:
            return 1.0, 1.0
        largest = min(self._largest_eigenvalue(apart), variance)
        p, u = variance / largest, distance / largest
        usual = float(chdtri(p, alpha))
        kept = min(1.0, _reach(u, usual, max(p - 2, 1.0)) / u)
        return kept, kept * max(p - 2, 0.0) / p if u < usual else 0.0

    def _largest_eigenvalue(self, apart: Floats) -> float:
        """Bound the largest variance of GLS - sum in any direction.

        Noise that adds up to 0 has k/(k-1) of an item's variance in its free directions, and
        diag(f) - f f^T, the sampling, has no eigenvalue above max f.
        """
        squares = apart**2
        if not self.items:
            return float((squares @ self.errors_if_alike).sum())
        noise = float((squares @ self.noise_if_alike).max()) * self.items / (self.items - 1)
        return noise + float((squares / self.people).sum() * self.likely.max())

    # --- the result ---

    def combination(
        self,
        weights: Floats,
        about: str,
        everybody: int | None = None,
        squares: Floats | None = None,
        note: str = "",
    ) -> Combination:
        """Return the estimate with these weights; `squares` replace their own squared errors.

        `everybody` is how many took part, where those of these levels were drawn from them.
        """
        if squares is None:
            squares = self.squared_errors(weights, self.unseen(about, everybody))
        own = (weights**2)[:, None] * self.noise
        rest = np.maximum(squares - own.sum(axis=0), 0.0)
        shape = SumScore(tuple(map(shape_in_a_sum, self.parts)), own, rest)
        return self._result(weights, about, squares, shape, note)

    def sum(self, about: str, everybody: int | None = None, note: str = "") -> Combination:
        """Return the plain sum: each level's own error, and that of who is in which level.

        About a population the people of all levels are one sample: what its levels differ by is a
        part of its spread.
        """
        weights, unseen = self.plain, self.unseen(about, everybody)
        parts = self.parts if unseen == 0 else self._parts_of_sample(about, everybody)
        own = np.array([np.square(np.atleast_1d(part.stderr)) for part in parts])
        own = (weights**2)[:, None] * own
        between = weights @ (self.values - weights @ self.values) ** 2
        rest = np.asarray(unseen * between / self.people.sum())
        shape = SumScore(tuple(map(shape_in_a_sum, parts)), own, rest)
        return self._result(weights, about, own.sum(axis=0) + rest, shape, note)

    def _parts_of_sample(self, about: str, everybody: int | None) -> tuple[Part, ...]:
        """Estimate each level where its people stand for all who would choose it."""
        if everybody is None or About.parse(about) is About.POPULATION:
            return _parts(self.tallies, about)
        share = everybody / self.people.sum()
        estimates = [
            tally.mechanism.estimate(tally, about, max(tally.n, round(tally.n * share)))
            for tally in self.tallies
        ]
        return tuple(part for part in estimates if isinstance(part, Estimate | FrequencyEstimate))

    def _result(
        self, weights: Floats, about: str, squares: Floats, shape: SumScore, note: str
    ) -> Combination:
        """Return the estimate with these weights, squared errors and shape of its interval."""
        value, stderr, subject = weights @ self.values, np.sqrt(squares), About.parse(about)
        n = int(self.people.sum())
        estimate: Part
        if self.items:
            noise = float(np.sqrt(weights**2 @ self._quiet_errors()))
            estimate = FrequencyEstimate(
                *(value, stderr, n, self.epsilon, subject), noise=noise, note=note, shape=shape
            )
        else:
            head = (float(value[0]), float(stderr[0]), n, self.epsilon, subject)
            score = SumScore(shape.parts, shape.squares[:, 0], float(shape.rest[0]))
            estimate = Estimate(*head, note=note, shape=score)
        return Combination(estimate, self.for_all(weights), self.p_value, bool(note), note)

    def squared_errors(self, weights: Floats, unseen: float = 0.0) -> Floats:
        """Noise, sampling as far as the weights are not n_t/n, and how far people stand for all.

        For a number the same, put so that no part is needed which a table cannot show: about the
        population it is the sum of w_t^2 (V_t + S)/n_t, about the participants less S/n.
        """
        apart = (weights - self.plain) ** 2 / self.people
        if self.items:
            sampling = apart.sum() + unseen / self.people.sum()
            return np.asarray(weights**2 @ self.noise + self.spread * sampling)
        less = (1 - unseen) * self.spread / self.people.sum()
        return np.asarray(np.maximum(weights**2 @ self.drawn - less, weights**2 @ self.noise))

    def least_squares(self, unseen: float) -> Floats:
        """Squared errors of GLS; for a number at most what one level has that stands for all."""
        squares = self.squared_errors(self.least_error, unseen)
        if self.items:
            return squares
        shares = unseen + (1 - unseen) * (1 - self.plain[:, None])
        alone = self.noise + shares * np.maximum(self.drawn - self.noise, 0.0)
        return np.asarray(np.minimum(squares, alone.min(axis=0)))

    def guarded(self, kept: float, gained: float, unseen: float) -> Floats:
        """Squared errors of sum + kept D: between those of the sum and of GLS, by what is gained.

        That is right for all items together. One item may have much of the bias: D^2 less its
        variance estimates the square of it, and that comes on top where it is above 0.
        """
        best, plain = (self.squared_errors(w, unseen) for w in (self.least_error, self.plain))
        apart = self.least_error - self.plain
        bias = np.maximum((apart @ self.values) ** 2 - apart**2 @ self.errors_if_alike, 0.0)
        return np.asarray(gained * best + (1 - gained) * plain + kept**2 * bias)

    def for_all(self, weights: Floats) -> tuple[float, ...]:
        """Return the weights of all levels that were offered, 0 where nobody is."""
        full = np.zeros(len(self.chosen))
        full[list(self.chosen)] = weights
        return tuple(full.tolist())


def _require_one_attribute(tallies: Sequence[Tally]) -> None:
    """Refuse what cannot be levels of one attribute."""
    listed = isinstance(tallies, Sequence) and all(isinstance(tally, Tally) for tally in tallies)
    if not listed:
        raise MismatchError("levels are combined from a list of tallies, one for each level")
    if not len(tallies):
        raise EmptyError("there are no levels to combine")
    for tally in tallies:
        if tally.mechanism.takes not in (Number, Items):
            raise MismatchError(
                f"{tally.mechanism.name} has no levels: combine its attributes one by one"
            )
    if len({tally.mechanism.domain for tally in tallies}) > 1:
        raise MismatchError(
            "levels of one attribute all ask for one of the same k items, or all for a number; got "
            + ", ".join(str(tally.mechanism) for tally in tallies)
        )


def _parts(tallies: tuple[Tally, ...], about: str) -> tuple[Part, ...]:
    """Estimate each level by itself."""
    estimates = [tally.mechanism.estimate(tally, about) for tally in tallies]
    return tuple(part for part in estimates if isinstance(part, Estimate | FrequencyEstimate))


def shape_in_a_sum(part: Part) -> Shape | None:
    """Return how far an interval reaches, not cut to whole people: errors of several add up."""
    shape = part.shape
    return replace(shape, whole=False) if isinstance(shape, SupportShape) else shape


def _reach(u: float, usual: float, most: float) -> float:
    """Return r(u): `most` while levels that agree may be this far apart, then falling to 0.

    r' = -r (2 most - r)/(4u), the fastest fall at which Stein's identity shows no loss.

    >>> _reach(5.0, 9.0, 3.0), _reach(9.0, 9.0, 3.0), round(_reach(900.0, 9.0, 3.0), 4)
    (3.0, 3.0, 0.006)
    """
    if u <= usual:
        return most
    share = float((usual / u) ** (most / 2))
    return 2 * most * share / (1 + share)


def _scaled(weights: Floats) -> Floats:
    """Return the weights, adding up to 1."""
    return np.asarray(weights / weights.sum())
