"""Privacy graded by value range: what keeps its promise, and what published mechanisms cost."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import murmuration
from murmuration import seeded_rng, system_rng
from murmuration.audit import admission
from murmuration.audit.exact import audit
from murmuration.errors import EmptyError, ParameterError, PromiseError
from murmuration.exact.exponential import within
from murmuration.exact.grid import UnevenGrid
from murmuration.exact.randomness import HALF
from murmuration.mechanisms.graded.base import GradedMechanism
from murmuration.mechanisms.graded.hiera import Hiera
from murmuration.mechanisms.number.dct import Dct
from murmuration.mechanisms.tally import Tally
from murmuration.results.likelihood import most_likely
from murmuration.testing.expected import STANDARD_ERRORS
from tests.support import checks
from tests.support.cases import GRADED, PAPER, fives

CROWDS = {
    "uniform": lambda rng, n: rng.uniform(-1, 1, n),
    "gaussian": lambda rng, n: np.clip(rng.normal(0.3, 0.2, n), -1, 1),
    "exponential": lambda rng, n: np.clip(rng.exponential(0.3, n), -1, 1),
}


def hiera(epsilon: float, **parameters) -> Hiera:
    return Hiera(fives(epsilon), PAPER, **parameters)


def simulated(mechanism: GradedMechanism, values: np.ndarray, runs: int, seed: int) -> list[Tally]:
    rng = seeded_rng(seed)
    return [mechanism.tally(mechanism.privatize(values, rng)) for _ in range(runs)]


# --- what keeps its promise --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epsilon", "worst"), [(0.1, 19.8), (0.25, 4.44), (0.5, 1.96), (1.0, 1.26)]
)
def test_graded_bit_has_the_variance_of_the_sheet(epsilon: float, worst: float) -> None:
    bit = murmuration.mechanism("graded-bit", epsilon=fives(epsilon), edges=PAPER)
    assert bit.worst_variance() == pytest.approx(worst, rel=0.005)


def test_one_range_is_duchi() -> None:
    bit = murmuration.mechanism("graded-bit", epsilon=[1.0], edges=[])
    duchi = murmuration.mechanism("duchi", epsilon=1.0)
    assert bit.worst_variance() == pytest.approx(duchi.worst_variance(), rel=1e-9)
    assert within(bit.loss().ratio, 1.0)


def test_graded_bit_is_the_steepest_line() -> None:
    """Any steeper line through the same budgets breaks one: checked at both ends of the bit."""
    bit = murmuration.mechanism("graded-bit", epsilon=fives(0.3), edges=PAPER)
    plus = bit.design.weights[:, 1]
    steeper = plus + (np.arange(len(plus)) - 2) * 2**30
    weights = np.stack([2**52 - steeper, steeper], axis=1)
    budgets = np.array(bit.budgets)
    worst = 0.0
    for g in range(5):
        for h in range(5):
            for column in weights.T:
                ratio = column[g : g + 2].max() / column[h : h + 2].min()
                worst = max(worst, math.log(ratio) / budgets[g, h])
    assert worst > 1


# --- layouts -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epsilon", "edges", "semantics", "word"),
    [
        (1.0, (0.0,), "max", "list"),
        ("1,2", (0.0,), "max", "list"),
        ([], (), "max", "at least one"),
        ([1.0, 0.0], (0.0,), "max", "epsilon must be"),
        ([1.0, 0.5], (0.0, 0.5), "max", "2 ranges have 3 edges"),
        ([1.0, 0.5], (1.5,), "max", "edges go"),
        ([1.0, 0.5, 0.1], (0.5, 0.2), "max", "edges go up"),
        ([1.0, 0.5], (math.nan,), "max", "edges go"),
        ([1.0, 0.5], "ab", "max", "numbers"),
        ([1.0, 0.5], (0.0,), "mean", "'max', 'min' or a matrix"),
        ([1.0, 0.5], (0.0,), 3, "'max', 'min' or a matrix"),
        ([1.0, 0.5], (0.0,), [[1.0, 0.5]], "2 x 2"),
        ([1.0, 0.5], (0.0,), [[1.0, 0.5], [0.6, 0.5]], "symmetric"),
        ([1.0, 0.5], (0.0,), [[1.0, 0.6], [0.6, 0.6]], "diagonal"),
    ],
)
def test_bad_layouts_are_refused_in_words(epsilon, edges, semantics, word) -> None:
    with pytest.raises(ParameterError, match=word):
        murmuration.mechanism("graded-bit", epsilon=epsilon, edges=edges, semantics=semantics)


def test_edges_may_be_given_with_or_without_the_ends() -> None:
    inner = murmuration.mechanism("graded-bit", epsilon=[1.0, 0.5], edges=[0.25])
    outer = murmuration.mechanism("graded-bit", epsilon=[1.0, 0.5], edges=[-1, 0.25, 1])
    assert inner == outer
    assert inner.fingerprint == outer.fingerprint


def test_other_edges_are_another_law() -> None:
    """The places decide a report, so they are in the fingerprint even where the weights agree."""
    one, other = (Hiera((1.0, 1.0), (edge,)) for edge in (0.25, 0.5))
    assert one.fingerprint != other.fingerprint


def test_a_distribution_is_refused() -> None:
    bit = murmuration.mechanism("graded-bit", epsilon=[1.0, 0.5], edges=[0.25])
    with pytest.raises(ParameterError, match="mean only"):
        bit.distribution(bit.tally([0, 1]))


# --- the uneven grid ---------------------------------------------------------------------------


def test_uneven_rounding_is_unbiased_and_stays_in_the_range() -> None:
    grid = UnevenGrid.at([-1.0, -0.6, 0.3, 0.31, 1.0], jumps=[0.3])
    values = np.array([-1.0, -0.9, -0.6, 0.1, 0.3 - 1e-14, 0.3, 0.305, 0.9, 1.0])
    n = 40_000
    for x in values:
        rows = grid.round(np.full(n, x), seeded_rng(5).words(n))
        found = grid.points[rows]
        assert abs(found.mean() - x) < STANDARD_ERRORS * found.std() / math.sqrt(n) + 1e-9
        assert (rows <= 2).all() if x < 0.3 else (rows >= 3).all()


def test_the_range_of_a_value_is_decided_on_what_the_device_knows() -> None:
    """An edge, and what rounds to it, belongs above; the last number before it belongs below."""
    mechanism = Hiera((0.1, 2.0), (0.3,), factor="calibrated")
    edge = float(mechanism.design.grid.points[1])
    law = mechanism.design.table.probabilities
    ratios = np.log(law[:2] / law[0])
    just_below = float(np.nextafter(edge, -1))
    for x, place in ((edge, 1), (just_below, 1), (edge - 2 / HALF, 0), (edge + 1e-9, 1)):
        assert mechanism.domain.range_of(float(x)) == place
        rows = mechanism.design.grid.round(np.full(100, x), seeded_rng(1).words(100))
        assert (rows <= 1).all() if place == 0 else (rows >= 2).all()
    assert np.abs(ratios).max() <= 0.1  # inside the private range, up to the last number


def test_where_the_loss_is_reached_a_device_can_be() -> None:
    """The two inputs are in ranges whose pair has that loss, and their own laws show it."""
    for mechanism in (hiera(0.1), hiera(1.0), Hiera((0.2, 1.0, 0.5), (-0.5, 0.4))):
        loss = mechanism.loss()
        g, h = (mechanism.domain.range_of(x) for x in loss.inputs)
        assert loss.pairwise[g, h] == loss.epsilon
        column = mechanism.design.table.probabilities[:, loss.output]
        high, low = mechanism.design.grid.interpolate(column, np.array(loss.inputs))
        assert math.log(high / low) == pytest.approx(loss.epsilon, abs=1e-9)


def test_one_person_and_many_are_rounded_alike() -> None:
    grid = UnevenGrid.at([-1.0, -0.6, 0.3, 0.31, 1.0], jumps=[0.3])
    values = np.random.default_rng(1).uniform(-1, 1, 200)
    values[:5] = grid.points[[0, 1, 2, 4, 5]]
    words = seeded_rng(2).words(200)
    alone = [int(grid.round(values[i : i + 1], words[i : i + 1])[0]) for i in range(200)]
    assert grid.round(values, words).tolist() == alone


@pytest.mark.parametrize("places", [(0,), (0, 5), (1, 2**52), (0, 9, 9, 2**52)])
def test_places_go_from_end_to_end(places) -> None:
    with pytest.raises(ParameterError):
        UnevenGrid(places)


def test_jumps_are_inner_places() -> None:
    with pytest.raises(ParameterError):
        UnevenGrid((0, 2**52), (0,))


# --- hiera: the truth about its promise --------------------------------------------------------


@pytest.mark.parametrize(
    ("epsilon", "worst", "inside"), [(0.1, 8.99, 1.22), (0.5, 7.89, 2.35), (1.0, 8.07, 3.42)]
)
def test_hieras_exact_loss(epsilon: float, worst: float, inside: float) -> None:
    loss = hiera(epsilon).loss()
    assert not loss.holds
    assert loss.epsilon / epsilon == pytest.approx(worst, abs=0.006)
    assert loss.pairwise[4, 4] / epsilon == pytest.approx(inside, abs=0.006)
    assert (loss.pairwise == loss.pairwise.T).all()
    assert audit(hiera(epsilon)).disagreements == 0


def test_hieras_law_is_the_papers() -> None:
    """Each row against the formula, and a crowd in the middle of a range against the mixture."""
    mechanism, e = hiera(0.4), np.array(fives(0.4))
    c = np.tanh(e / 2)
    for x in (-0.9, -0.3, 0.0, 0.5, 0.99):
        t = int(np.searchsorted(PAPER, x, side="right"))
        grade = np.where(np.arange(5) == t, math.exp(e[t]), 1.0) / (math.exp(e[t]) + 4)
        law = np.stack([grade * (1 - c * x) / 2, grade * (1 + c * x) / 2], axis=1).ravel()
        table = mechanism.design.table.probabilities
        found = [
            mechanism.design.grid.interpolate(table[:, y], np.array([x]))[0] for y in range(10)
        ]
        assert np.allclose(found, law, rtol=0, atol=1e-12)
        n = 200_000
        counts = mechanism.tally(mechanism.privatize(np.full(n, x), seeded_rng(3))).counts
        assert (np.abs(counts / n - law) < STANDARD_ERRORS * np.sqrt(law * (1 - law) / n)).all()


def test_the_order_of_ranges_does_not_matter_to_hiera() -> None:
    """Budgets in any order: the most private level is the one with the least budget."""
    mechanism = Hiera((0.2, 1.0, 0.5), (-0.5, 0.4))
    assert mechanism.order == [1, 2, 0]
    values = np.linspace(-0.9, 0.7, 50_000)
    tally = mechanism.tally(mechanism.privatize(values, seeded_rng(8)))
    for mu in (1, 2, 3):
        found = mechanism.aggregate(tally, mu, clip=False)
        assert abs(found.value - values.mean()) < STANDARD_ERRORS * found.stderr


@pytest.mark.slow
@pytest.mark.parametrize("mu", [1, 2, 3, 5])
def test_reuse_is_unbiased_and_only_adds_variance(mu: int) -> None:
    """Bits used again: the error is the sheet's formula, and never below that of mu = 1."""
    mechanism, n, runs = hiera(0.5), 4000, 900
    values = checks.people(n)
    errors = np.array(
        [
            mechanism.aggregate(tally, mu, clip=False, seed=run).value - values.mean()
            for run, tally in enumerate(simulated(mechanism, values, runs, 41))
        ]
    )
    c2 = 1 / mechanism.slopes**2
    table = mechanism.design.table.probabilities.reshape(10, 5, 2).sum(axis=2)
    shares = np.array(
        [mechanism.design.grid.interpolate(table[:, d], values).mean() for d in range(5)]
    )
    added = sum(shares[i] * (c2[j] - c2[i]) for i in range(5) for j in range(i + 1, min(5, i + mu)))
    predicted = mechanism.variance(values).mean() + added / mu**2
    assert mechanism.reused_variance(values, mu) == pytest.approx(predicted)
    assert abs(errors.mean()) < STANDARD_ERRORS * errors.std() / math.sqrt(runs)
    measured = n * (errors**2).mean()
    assert abs(measured - predicted) < STANDARD_ERRORS * predicted * math.sqrt(2 / runs)
    assert added >= 0


def test_everybody_counts_mu_times() -> None:
    """The compensation sets of step 5."""
    mechanism = hiera(0.5)
    counts = np.arange(10, 20, dtype=np.int64)
    tally = Tally(mechanism, counts, int(counts.sum()))
    for mu in range(1, 6):
        plus, minus = mechanism._converted(tally, mu, np.random.default_rng(1))
        assert plus.sum() + minus.sum() == mu * counts.sum()


@pytest.mark.slow
def test_reuse_coverage() -> None:
    mechanism, values, level, runs = hiera(0.5), checks.people(3000), 0.9, 400
    for mu in (2, 5):
        hits = 0
        for run, tally in enumerate(simulated(mechanism, values, runs, 43)):
            low, high = mechanism.aggregate(tally, mu, clip=False, seed=run).interval(level)
            hits += low <= values.mean() <= high
        assert abs(hits / runs - level) < 4 * math.sqrt(level * (1 - level) / runs)


@pytest.mark.slow
def test_clipping_is_biased_when_people_are_few() -> None:
    """The sheet's example: 500 people of gaussian(.3, .2) at epsilon .1 come out .079 too low."""
    mechanism = hiera(0.1)
    values = CROWDS["gaussian"](np.random.default_rng(3), 500)
    tallies = simulated(mechanism, values, 4000, 47)
    errors = {
        clip: np.array([mechanism.aggregate(t, 1, clip=clip).value for t in tallies])
        - values.mean()
        for clip in (True, False)
    }
    spread = {clip: e.std() / math.sqrt(len(e)) for clip, e in errors.items()}
    assert abs(errors[False].mean()) < STANDARD_ERRORS * spread[False]
    assert abs(errors[True].mean() + 0.079) < STANDARD_ERRORS * spread[True] + 0.01
    assert errors[True].mean() < -STANDARD_ERRORS * spread[True]


def test_mu_is_checked() -> None:
    mechanism = hiera(0.5)
    tally = mechanism.tally([0, 1])
    for bad in (0, 6, 1.5, True):
        with pytest.raises(ParameterError, match="mu"):
            mechanism.aggregate(tally, bad)


@pytest.mark.slow
@pytest.mark.parametrize("semantics", ["max", "min"])
@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_calibrated_is_the_largest_factor(epsilon: float, semantics: str) -> None:
    mechanism = hiera(epsilon, semantics=semantics, factor="calibrated")
    assert mechanism.loss().holds
    more = hiera(epsilon, semantics=semantics, factor=mechanism.factor * (1 + 1e-9))
    assert not more.loss().holds
    assert audit(mechanism).passed


def test_the_factor_is_checked() -> None:
    for bad in (0, -1, 1.5, "best", True, math.nan):
        with pytest.raises(ParameterError, match="factor"):
            hiera(0.5, factor=bad)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["graded-bit", "graded-optimal"])
def test_half_of_hieras_error_inside_the_budgets(name: str) -> None:
    """n = 1e5, five grades, budgets 5e..e, e = .1: on each of the three crowds."""
    mechanism, published = murmuration.mechanism(name, epsilon=fives(0.1), edges=PAPER), hiera(0.1)
    assert mechanism.loss().holds
    rng, n, runs = np.random.default_rng(17), 100_000, 60
    for crowd in CROWDS.values():
        values = crowd(rng, n)
        ours, theirs = (
            np.mean(
                [abs(m.estimate(t).value - values.mean()) for t in simulated(m, values, runs, 71)]
            )
            for m in (mechanism, published)
        )
        assert ours <= 0.5 * theirs
        expected = math.sqrt(2 / math.pi * mechanism.variance(values).mean() / n)
        assert abs(ours - expected) < STANDARD_ERRORS * 0.756 * expected / math.sqrt(runs)


# --- the likelihood reading --------------------------------------------------------------------


@pytest.mark.slow
def test_likelihood_needs_at_most_six_tenths_of_hieras_error() -> None:
    """On the same reports: n = 1e5, e = .1; mean absolute error over the three crowds."""
    mechanism, rng, n, runs = hiera(0.1), np.random.default_rng(11), 100_000, 100
    errors = np.zeros(2)
    for crowd in CROWDS.values():
        values = crowd(rng, n)
        for tally in simulated(mechanism, values, runs, 53):
            readings = mechanism.estimate(tally).value, mechanism.likelihood(tally).value
            errors += np.abs(np.array(readings) - values.mean())
    assert errors[1] / errors[0] <= 0.6


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.1, 0.5])
@pytest.mark.parametrize("name", CROWDS)
def test_likelihood_coverage(name: str, epsilon: float) -> None:
    mechanism, n, level, runs = hiera(epsilon), 20_000, 0.9, 100
    values = CROWDS[name](np.random.default_rng(13), n)
    hits = 0
    for tally in simulated(mechanism, values, runs, 59):
        low, high = mechanism.likelihood(tally).interval(level)
        hits += low <= values.mean() <= high
    assert hits / runs > level - 4 * math.sqrt(level * (1 - level) / runs)


@pytest.mark.slow
@pytest.mark.parametrize("x", [-1.0, -0.97, 1.0])
@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0])
def test_likelihood_coverage_at_the_ends_of_the_domain(x: float, epsilon: float) -> None:
    mechanism, level, runs = hiera(epsilon), 0.9, 80
    hits = 0
    for tally in simulated(mechanism, np.full(2000, x), runs, 67):
        low, high = mechanism.likelihood(tally).interval(level)
        hits += low <= x <= high
    assert hits / runs > level - 4 * math.sqrt(level * (1 - level) / runs)


def test_the_most_likely_mixture_is_the_most_likely() -> None:
    """The slope certifies it: no other mixture gains more than 1e-9 a report."""
    mechanism = hiera(0.3)
    law = mechanism.design.table.probabilities
    for tally in simulated(mechanism, checks.people(5000), 20, 61):
        observed = (tally.counts + 1e-9) / (tally.counts + 1e-9).sum()
        shares = most_likely(law, observed)
        assert shares.min() >= 0
        assert shares.sum() == pytest.approx(1)
        assert (law @ (observed / (shares @ law))).max() - 1 < 1e-8


def test_likelihood_of_extreme_counts() -> None:
    """All reports alike, or one person: an answer inside the domain, and an interval around it."""
    mechanism = hiera(0.5)
    for counts in (np.eye(10, dtype=np.int64)[9] * 1000, np.eye(10, dtype=np.int64)[0]):
        found = mechanism.likelihood(Tally(mechanism, counts, int(counts.sum())))
        low, high = found.interval()
        assert -1 <= low <= found.value <= high <= 1
        assert "likelihood" in str(found)
    with pytest.raises(EmptyError):
        mechanism.likelihood(mechanism.empty())


# --- graded laplace and dct: infinite ----------------------------------------------------------


def test_graded_laplace_is_infinite_across_and_finite_inside() -> None:
    mechanism = murmuration.mechanism("graded-laplace", epsilon=fives(0.5), edges=PAPER)
    losses = mechanism.loss().pairwise
    across = ~np.eye(5, dtype=bool)
    assert np.isinf(losses[across]).all()
    # Rounding to the grid at a range's ends adds a little to eps_g times half its width.
    assert np.allclose(losses.diagonal(), np.array(fives(0.5)) * 0.2, rtol=0.01)
    x = np.array([-0.8, -0.4, 0.0, 0.4, 0.8])
    assert np.allclose(mechanism.variance(x), 8 / np.array(fives(0.5)) ** 2, rtol=0.01)


def test_graded_laplace_with_equal_budgets_is_laplace() -> None:
    mechanism = murmuration.mechanism("graded-laplace", epsilon=[1.0, 1.0], edges=[0.3])
    assert mechanism.loss().holds
    assert mechanism.worst_variance() == pytest.approx(8, rel=0.001)


def test_graded_laplace_too_far_apart_is_refused() -> None:
    mechanism = murmuration.mechanism("graded-laplace", epsilon=[20.0, 0.001], edges=[0.3])
    with pytest.raises(ParameterError, match="too far apart"):
        mechanism.loss()


def published_dct(values: np.ndarray, epsilon: float, alpha: float, rng) -> np.ndarray:
    """The paper's Algorithm 3, line by line, in floats."""
    d = 1 / (alpha * epsilon)
    bit = rng.random(len(values)) < 0.5
    kept = rng.random(len(values)) < (math.exp(epsilon) - 1) / (math.exp(epsilon) + 1)
    bit = np.where(kept, bit, rng.random(len(values)) < 0.5)
    inner = rng.uniform(-d / 2, d / 2, len(values))
    outer = rng.uniform(d / 2, d, len(values)) * rng.choice([-1, 1], len(values))
    return values + np.where(bit, inner, outer)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_dct_is_uniform_noise(epsilon: float) -> None:
    """What the published steps send and what ours sends have one distribution (KS distance)."""
    n, x = 100_000, 0.3
    theirs = np.sort(published_dct(np.full(n, x), epsilon, 5, np.random.default_rng(3)))
    dct = Dct(epsilon)
    ours = np.sort(dct.design.values[dct.privatize(np.full(n, x), seeded_rng(4))])
    step = dct.design.grid.step
    for shift in (-step, step):  # ours is on a grid: it may be a step early or late
        below = np.searchsorted(ours, theirs + shift) / n - np.arange(n) / n
        assert (below.max() if shift < 0 else (-below).max()) < 2.2 * math.sqrt(2 / n)
    assert dct.worst_variance() == pytest.approx(dct.half_width**2 / 3, rel=0.01)


@pytest.mark.parametrize("alpha", [1.0, 5.0])
@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0, 10.0])
def test_dcts_loss_is_infinite(epsilon: float, alpha: float) -> None:
    loss = Dct(epsilon, alpha).loss()
    assert loss.ratio is None
    assert loss.epsilon == math.inf
    assert not loss.holds


def test_alpha_is_checked() -> None:
    for bad in (0, -1, "five", True, 1e9):
        with pytest.raises(ParameterError, match="alpha"):
            Dct(1.0, bad)


# --- who may collect ---------------------------------------------------------------------------


def somebody(mechanism) -> list:
    return [[0.5, 0.5, 0.5, 0.5]] if mechanism.answers == "vector" else [0.5]


@pytest.mark.parametrize(
    "mechanism",
    [
        hiera(0.1),
        Hiera((3.0, 1.0), (0.9,)),
        murmuration.mechanism("graded-laplace", epsilon=[1.0, 0.5], edges=[0.0]),
        Dct(2.0),
        murmuration.mechanism("duchi-multi-published", epsilon=1.0, d=4),
    ],
    ids=lambda m: m.name,
)
def test_a_broken_promise_is_refused_with_its_numbers(mechanism) -> None:
    loss = mechanism.loss()
    with pytest.raises(PromiseError) as refused:
        admission.admit(mechanism)
    words = admission.in_words(loss)
    assert f'accept_loss = "{words}"' in str(refused.value)
    assert ("infinite" in words) == (loss.ratio is None)
    with pytest.raises(PromiseError, match="nothing was sent"):
        mechanism.privatize(somebody(mechanism), system_rng())
    allowed = admission.admit(mechanism, words)
    assert allowed == mechanism
    assert len(allowed.privatize(somebody(mechanism), system_rng())) == 1
    with pytest.raises(PromiseError, match="nothing was sent"):
        mechanism.privatize(somebody(mechanism), system_rng())  # the other one was accepted
    for wrong in ("", "yes", words.replace("loss", "cost"), str(loss.epsilon)):
        with pytest.raises(PromiseError, match="accept_loss says"):
            admission.admit(mechanism, wrong)


@pytest.mark.slow
def test_what_keeps_its_promise_is_admitted_without_words() -> None:
    for mechanism in (made for case in GRADED if case.kept for made in case.all()):
        assert admission.admit(mechanism) is mechanism
    kept = admission.admit(hiera(0.1, factor="calibrated"))
    assert len(kept.privatize([0.5], system_rng())) == 1


# --- planted bugs ------------------------------------------------------------------------------


def test_a_bit_steeper_than_allowed_is_seen() -> None:
    from murmuration.mechanisms.graded.graded_bit import GradedBit
    from murmuration.mechanisms.number.base import Design

    class Steep(GradedBit):
        def build(self) -> Design:
            milder = GradedBit(tuple(1.1 * e for e in self.epsilon), self.edges)
            return milder.build()

    steep = Steep(fives(0.2), PAPER)
    assert not audit(steep).passed
    with pytest.raises(PromiseError):
        steep.privatize([0.0], seeded_rng(1))


def test_budgets_at_the_wrong_ranges_are_seen() -> None:
    from murmuration.mechanisms.graded.graded_bit import GradedBit
    from murmuration.mechanisms.number.base import Design

    class Swapped(GradedBit):
        def build(self) -> Design:
            return GradedBit(self.epsilon[::-1], self.edges).build()

    assert not audit(Swapped(fives(0.2), PAPER)).passed


def test_a_law_for_other_edges_is_seen() -> None:
    from murmuration.mechanisms.graded.graded_bit import GradedBit
    from murmuration.mechanisms.number.base import Design

    class Shifted(GradedBit):
        def build(self) -> Design:
            return GradedBit(self.epsilon, (-0.6, -0.2, 0.2, 0.7)).build()

    with pytest.raises(ParameterError, match="two ranges"):
        audit(Shifted(fives(0.2), PAPER))


def test_a_grid_that_leaks_across_a_jump_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A value looked up on the wrong side of an edge: the sampler disagrees with the law."""
    honest = UnevenGrid.locate

    def leaky(self, values):
        return honest(self, np.clip(values - 2 / HALF, -1, 1))

    monkeypatch.setattr(UnevenGrid, "locate", leaky)
    assert audit(hiera(0.1)).disagreements > 0


def test_the_exact_matrix_is_the_maximum_over_all_rows() -> None:
    """The quick matrix against every pair of rows and every symbol, in fractions."""
    mechanism = hiera(0.7)
    weights, rows = mechanism.design.weights.tolist(), mechanism.range_rows()
    loss = mechanism.loss()
    for g in range(5):
        for h in range(5):
            slow = max(
                max(Fraction(weights[a][y], weights[b][y]), Fraction(weights[b][y], weights[a][y]))
                for a in rows[g].tolist()
                for b in rows[h].tolist()
                for y in range(10)
            )
            assert loss.ratios[g][h] == slow


def test_step_5_as_printed_loses_what_was_converted_and_is_biased() -> None:
    law = Hiera((0.5, 0.4, 0.3, 0.2, 0.1), (-0.6, -0.2, 0.2, 0.6))
    tally = Tally(law, np.tile([300, 700], 5).astype(np.int64), 5000)
    meant, printed = (
        law.aggregate(tally, 2, clip=False, seed=1, as_printed=word).value for word in (False, True)
    )
    assert abs(meant - printed) > 0.05
    alone = (law.aggregate(tally, 1, clip=False, as_printed=word) for word in (False, True))
    assert len({one.value for one in alone}) == 1  # without reuse there is no step 5
