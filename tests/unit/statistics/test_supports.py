"""Intervals from supports: tails that are exact, coverage by enumeration instead of chance."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import beta, binom, hypergeom, norm

from murmuration import mechanism, seeded_rng
from murmuration.analysis import combine
from murmuration.exact.arrays import Floats
from murmuration.mechanisms.item.oue import Oue
from murmuration.mechanisms.tally import Tally
from murmuration.statistics.supports import Supports, SupportShape, root

CONFIDENCE = 0.95


def law_of_supports(n: int, holders: int, p: float, q: float) -> Floats:
    """Return P(supports) among n people of whom so many have the item."""
    own = binom.pmf(np.arange(holders + 1), holders, p)
    return np.convolve(own, binom.pmf(np.arange(n - holders + 1), n - holders, q))


def law_of_bits(epsilon: float, n: int) -> Oue:
    """A law of which one tally can hold every number of supports, 0 to n."""
    made = mechanism("oue", epsilon=epsilon, k=n + 1)
    assert isinstance(made, Oue)
    return made


def ends_by_support(
    law: Oue, n: int, about: str, confidence: float, everybody: int | None = None
) -> tuple[Floats, Floats]:
    """Return the interval of an item for each number of supports that it can have."""
    tally = Tally(law, np.arange(n + 1), n)
    return law.estimate(tally, about, everybody).interval(confidence)


def missed(law: Floats, ends: tuple[Floats, Floats], truth: float) -> float:
    """Return how often an interval misses the truth."""
    return float(law[(ends[0] > truth + 1e-12) | (ends[1] < truth - 1e-12)].sum())


# --- coverage ------------------------------------------------------------------------------------


@pytest.mark.parametrize("about", ["participants", "population"])
@pytest.mark.parametrize(("epsilon", "n"), [(4.0, 300), (6.0, 300), (8.0, 300), (6.0, 1000)])
def test_all_of_113_labels_at_once(epsilon: float, n: int, about: str) -> None:
    """By normal tails .74 to .93 were right at once; by Bonferroni the misses add up to .05."""
    law, k = law_of_bits(epsilon, n), 113
    shares = np.arange(1, k + 1) ** -1.2
    holders = np.round(n * shares / shares.sum()).astype(int)
    ends = ends_by_support(law, n, about, 1 - (1 - CONFIDENCE) / k)
    p, q = float(law.p), float(law.q)
    total = 0.0
    for own, many in zip(*np.unique(holders, return_counts=True), strict=True):
        if about == "participants":
            chances = law_of_supports(n, int(own), p, q)
        else:
            chances = binom.pmf(np.arange(n + 1), n, q + own / n * (p - q))
        total += many * missed(chances, ends, own / n)
    assert total < 1.02 * (1 - CONFIDENCE)


@pytest.mark.parametrize("epsilon", [1.0, 4.0, 8.0])
@pytest.mark.parametrize("n", [30, 100])
def test_no_share_is_covered_less_often_than_it_says(epsilon: float, n: int) -> None:
    """Of every number of people who can have an item; both ends rest on the tails themselves."""
    law = law_of_bits(epsilon, n)
    ends = ends_by_support(law, n, "participants", CONFIDENCE)
    worst = max(
        missed(law_of_supports(n, own, float(law.p), float(law.q)), ends, own / n)
        for own in range(n + 1)
    )
    assert worst < 1.05 * (1 - CONFIDENCE)


@pytest.mark.parametrize(("n", "everybody"), [(100, 200), (100, 600)])
def test_those_who_were_asked_stand_for_all(n: int, everybody: int) -> None:
    """Hypergeometric holders among those who are asked, and the noise of their reports."""
    law = law_of_bits(6.0, n)
    ends = ends_by_support(law, n, "participants", CONFIDENCE, everybody)
    p, q = float(law.p), float(law.q)
    laws = np.array([law_of_supports(n, own, p, q) for own in range(n + 1)])
    held = np.array(
        [
            missed(
                hypergeom.pmf(np.arange(n + 1), everybody, all_own, n) @ laws,
                ends,
                all_own / everybody,
            )
            for all_own in range(everybody + 1)
        ]
    )
    assert held.max() < 1.1 * (1 - CONFIDENCE)
    assert 0.02 < held.mean() < 0.05


# --- tails ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "holders", "p", "q"),
    [(20, 3, 0.5, 0.1), (50, 25, 0.73, 0.27), (300, 1, 0.5, 0.018), (300, 30, 0.9, 0.001)],
)
def test_tails_are_off_by_some_percent_at_most(n: int, holders: int, p: float, q: float) -> None:
    chances = law_of_supports(n, holders, p, q)
    upper = chances[::-1].cumsum()[::-1]
    counts = np.flatnonzero((upper > 1e-9) & (upper < 0.2))
    found = Supports(n, p, q, 0.0).deviation(counts.astype(float), np.array([holders / n]))
    assert_allclose(norm.sf(found), upper[counts], rtol=0.06)


def test_about_a_population_they_are_clopper_and_pearsons() -> None:
    n, p, q, seen = 400, 0.6, 0.1, np.array([0, 1, 80, 150, 210, 400])
    tail = (1 - CONFIDENCE) / 2
    low, high = SupportShape(seen, np.ones(6), n, p, q, unseen=1.0).ends(CONFIDENCE)
    assert_allclose(q + (p - q) * low[1:], beta.ppf(tail, seen[1:], n - seen[1:] + 1))
    assert_allclose(q + (p - q) * high[:-1], beta.ppf(1 - tail, seen[:-1] + 1, n - seen[:-1]))
    assert_allclose([q + (p - q) * low[0], q + (p - q) * high[-1]], [0, 1], atol=1e-12)
    nearly = SupportShape(seen, np.ones(6), n, p, q, unseen=1 - 1e-12).ends(CONFIDENCE)
    assert_allclose([nearly[0][2:5], nearly[1][2:5]], [low[2:5], high[2:5]], atol=1e-4)


@pytest.mark.parametrize("unseen", [0.0, 0.5, 1.0])
def test_ends_rise_with_the_count_and_hold_the_estimate(unseen: float) -> None:
    """Also far outside of what a share can be: no gap, no jump back."""
    for n, p, q in [(1, 0.9, 0.2), (7, 0.97, 3e-4), (250, 0.5, 0.27), (250, 1 - 1e-9, 1e-9)]:
        seen = np.arange(n + 1)
        shape = SupportShape(seen, np.ones(n + 1), n, p, q, unseen, whole=unseen == 0)
        for confidence in (0.3, 0.95, 1 - 1e-8):
            low, high = shape.ends(confidence)
            assert np.isfinite([low, high]).all()
            if unseen in (0, 1):  # between them one approximation follows another, at 1/2
                assert (np.diff(low) >= -1e-9).all()
                assert (np.diff(high) >= -1e-9).all()
            if confidence > 0.9:
                assert (low <= shape.value + 1e-9).all()
                assert (high >= shape.value - 1e-9).all()


def test_people_are_whole() -> None:
    """The ends of a figure about 300 people are shares of 300 people."""
    law = mechanism("grr", epsilon=6.0, k=5)
    items = np.arange(300) % 5
    low, high = law.estimate(law.tally(law.privatize(items, seeded_rng(1)))).interval()
    assert_allclose(300 * low, np.round(300 * low), atol=1e-6)
    assert_allclose(300 * high, np.round(300 * high), atol=1e-6)


def test_levels_add_up_errors_that_are_not_cut() -> None:
    """Cut to whole people, the error of each level would be too short in a sum of several."""
    rng = seeded_rng(2)
    laws = [mechanism("grr", epsilon=epsilon, k=5) for epsilon in (5.0, 6.0)]
    items = np.arange(150) % 5
    tallies = [law.tally(law.privatize(items, rng)) for law in laws]
    low, high = combine.total(tallies).interval()
    alone = [law.estimate(tally) for law, tally in zip(laws, tallies, strict=True)]
    cut = sum((one.interval()[1] - one.value) ** 2 for one in alone) ** 0.5 / 2
    assert (high - low > 0).all()
    assert (high - (low + high) / 2 >= cut / 2).all()


def test_the_root_of_a_step_is_where_it_steps() -> None:
    found = root(lambda x: np.where(x < 0.3, -1.0, 1.0), np.zeros(1), np.ones(1))
    assert_allclose(found, 0.3, atol=1e-6)


def test_an_end_that_is_the_truth_is_in_the_interval() -> None:
    """Ends about the people are whole numbers of them; no rounding may leave one out."""
    subset = mechanism("subset", epsilon=8.0, k=8)
    items = np.ones(20, dtype=int)
    estimate = subset.estimate(subset.tally(subset.privatize(items, seeded_rng(3))))
    low, high = estimate.interval()
    assert (low[np.arange(8) != 1] <= 0).all()
    assert (high >= 0).all()
    assert high[1] >= 1 >= low[1]
