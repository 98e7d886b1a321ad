"""Questions that are asked again and again: what T reports tell, and what they estimate."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest

from murmuration import mechanism, seeded_rng, system_rng
from murmuration.errors import InputError, ParameterError, PromiseError, SourceError
from murmuration.exact.randomness import WHOLE
from murmuration.mechanisms.item.grr import Grr
from murmuration.mechanisms.item.memoised import EXACT_REPORTS, Memoised
from murmuration.planning.choose import choose_frequency

BUDGETS = [(1.0, 2.0), (0.3, 4.0), (2.0, 2.1)]


def sequence_chances(m: Memoised, reports: int) -> np.ndarray:
    """P(sequence | value) for every sequence of reports: a row a value, in whole numbers."""
    answers = np.full((m.k, m.k), m.memory.lie, dtype=object)
    noise = np.full((m.k, m.k), m.swap, dtype=object)
    np.fill_diagonal(answers, m.memory.truth)
    np.fill_diagonal(noise, m.keep)
    columns = []
    for sequence in itertools.product(range(m.k), repeat=reports):
        given = [math.prod(noise[a][y] for y in sequence) for a in range(m.k)]
        columns.append([sum(answers[v][a] * given[a] for a in range(m.k)) for v in range(m.k)])
    return np.array(columns, dtype=object).T


@pytest.mark.parametrize(("epsilon", "permanent"), BUDGETS)
@pytest.mark.parametrize(("k", "longest"), [(2, 6), (3, 5), (4, 4), (5, 3)])
def test_no_sequence_tells_more_than_t_times_the_same(k, longest, epsilon, permanent) -> None:
    m = Memoised(epsilon, k, permanent)
    for reports in range(1, longest + 1):
        chances = sequence_chances(m, reports)
        assert set(chances.sum(axis=1)) == {WHOLE ** (reports + 1)}
        worst = max(
            Fraction(one, other)
            for column in chances.T
            for one, other in itertools.permutations(column.tolist(), 2)
        )
        assert worst == m.loss_of(reports).ratio


@pytest.mark.parametrize(("epsilon", "permanent"), BUDGETS)
@pytest.mark.parametrize("k", [2, 7, 1000])
def test_the_loss_goes_from_epsilon_to_permanent(k, epsilon, permanent) -> None:
    m = Memoised(epsilon, k, permanent)
    losses = [m.loss_of(reports) for reports in (1, 2, 5, 30, 64, 65, 66, 200, 10**4, 10**9)]
    assert losses[0].ratio == m.loss().ratio
    assert epsilon - 1e-5 < m.loss().epsilon <= epsilon
    assert all(a.ratio <= b.ratio for a, b in itertools.pairwise(losses))
    assert losses[-1].ratio == m.long_run().ratio
    assert permanent - 1e-5 < m.long_run().epsilon <= permanent
    assert all(loss.holds for loss in [*losses, m.loss(), m.long_run()])


def test_the_sheets_binary_law() -> None:
    m = Memoised(1.0, 2, 2.0)
    p1, wanted = (1 / (1 + math.exp(-eps)) for eps in (2.0, 1.0))
    assert m.memory.truth / WHOLE == pytest.approx(p1, rel=1e-12)
    assert m.keep / WHOLE == pytest.approx((wanted - (1 - p1)) / (2 * p1 - 1), rel=1e-12)
    assert float(m.p) == pytest.approx(wanted, rel=1e-12)


def test_long_powers_are_rounded_up_by_next_to_nothing() -> None:
    m = Memoised(0.01, 3, 3.0)
    for reports in (EXACT_REPORTS + 1, 100, 500):
        exact = m._ratio(Fraction(m.keep, m.swap) ** reports)
        above = m.loss_of(reports).ratio
        assert exact <= above < exact * (1 + Fraction(1, 10**50))


@pytest.mark.parametrize("k", [2, 3, 1 << 20])
@pytest.mark.parametrize(
    ("epsilon", "permanent"),
    [(1e-3, 20.0), (19.99, 20.0), (1.0, math.nextafter(1.0, 2)), (1e-3, math.nextafter(1e-3, 1))],
)
def test_at_the_ends(k, epsilon, permanent) -> None:
    m = Memoised(epsilon, k, permanent)
    assert m.loss().holds
    assert m.long_run().holds
    assert m.keep > m.swap >= 1
    assert m.p + (k - 1) * m.q == 1
    assert len(m.privatize([0, k - 1], system_rng())) == 2


def test_parameters() -> None:
    assert mechanism("memoised", epsilon=1.5, k=4).permanent == 3.0
    assert mechanism("memoised", epsilon=15.0, k=4).permanent == 20.0
    for permanent in (0, 0.5, 1.0, -2, 20.1, math.inf, math.nan, "much", True):
        with pytest.raises(ParameterError):
            mechanism("memoised", epsilon=1.0, k=4, permanent=permanent)
    m = Memoised(1.0, 4, 2.0)
    for reports in (0, -1, 1.5, True, 10**13):
        with pytest.raises(ParameterError, match="reports"):
            m.loss_of(reports)
    assert m.fingerprint != Memoised(1.0, 4, 2.5).fingerprint


def test_the_planner_does_not_choose_it_for_a_single_question() -> None:
    """Asked once it is as good as grr, to the last digits: it must not win by chance."""
    for epsilon, k in itertools.product((0.5, 1.0, 2.0, 4.0), (2, 3, 4, 8)):
        choice = choose_frequency(epsilon, k)
        assert "memoised" not in choice.mechanism.name + choice.reason


# --- the device ------------------------------------------------------------------------------


def test_values_answers_and_sources_are_checked() -> None:
    m = Memoised(1.0, 4, 2.0)
    for step in (m.remember, m.repeat):
        for bad in ([4], [-1], [0.5], ["a"]):
            with pytest.raises(InputError):
                step(bad, system_rng())
        with pytest.raises(SourceError):
            step([1], np.random.default_rng())
        assert len(step([], system_rng())) == 0


def test_privatize_is_remember_then_repeat() -> None:
    m, items = Memoised(1.0, 5, 2.0), np.arange(1000) % 5
    rng = seeded_rng(3)
    once = m.repeat(m.remember(items, rng), rng)
    assert (m.privatize(items, seeded_rng(3)) == once).all()


def test_repeats_keep_the_answer_and_renew_the_noise() -> None:
    """Given the answers, rounds are independent: each agrees with them as often as K says."""
    m, n, rounds = Memoised(1.0, 5, 3.0), 50_000, 4
    rng = seeded_rng(8)
    answers = m.remember(np.full(n, 2), rng)
    kept = np.array([m.repeat(answers, rng) == answers for _ in range(rounds)])
    keep = m.keep / WHOLE
    assert np.abs(kept.mean(axis=1) - keep).max() < 4.5 * math.sqrt(keep * (1 - keep) / n)
    both = (kept[0] & kept[1]).mean()
    assert abs(both - keep**2) < 4.5 * math.sqrt(keep**2 * (1 - keep**2) / n)


@pytest.mark.parametrize("k", [2, 6])
def test_rounds_with_the_same_answers_are_unbiased(k: int) -> None:
    """The average of T rounds errs by the answers' noise, and by the rounds' noise over T."""
    m, n, rounds, crowds = Memoised(0.8, k, 1.6), 4000, 6, 60
    items = np.minimum(np.random.default_rng(1).geometric(0.5, n) - 1, k - 1)
    truth = np.bincount(items, minlength=k) / n
    rng, errors = seeded_rng(12), []
    for _ in range(crowds):
        answers = m.remember(items, rng)
        tallies = [m.tally(m.repeat(answers, rng)) for _ in range(rounds)]
        each = [m.estimate(tally).value for tally in tallies]
        errors.append(np.mean(each, axis=0) - truth)
    # Var(average) = Var(memory part) + (Var(one round) - Var(memory part)) / T.
    memory, single = (one.variance(truth) / n for one in (m.memory, m))
    stderr = np.sqrt(memory + (single - memory) / rounds)
    assert (np.abs(np.mean(errors, axis=0)) < 4 * stderr / math.sqrt(crowds)).all()
    # The noise of the answers stays, however many rounds there are: neither less nor more.
    spread = np.mean(np.square(errors), axis=0) / stderr**2
    assert (np.abs(spread - 1) < 4.5 * math.sqrt(2 / crowds)).all()


# --- planted bugs ----------------------------------------------------------------------------


@dataclass(frozen=True)
class SwappedWeights(Memoised):
    """Sends the answer with the weight of another item, and others with the answer's."""

    @property
    def keep(self):
        return super().swap

    @property
    def swap(self):
        return (WHOLE - super().swap) // (self.k - 1)


@dataclass(frozen=True)
class KeepsTooMuch(Memoised):
    """The noise of a report as if the permanent answer had none worth counting."""

    @property
    def swap(self):
        return super().swap * 9 // 10


@dataclass(frozen=True)
class PermanentTimesOnePointOne(Memoised):
    @property
    def memory(self):
        return Grr(epsilon=1.1 * self.permanent, k=self.k)


@pytest.mark.parametrize("bug", [SwappedWeights, KeepsTooMuch, PermanentTimesOnePointOne])
@pytest.mark.parametrize("k", [3, 8])
def test_a_planted_law_is_caught(bug, k: int) -> None:
    m = bug(epsilon=1.0, k=k, permanent=2.0)
    promises = [m.loss(), m.long_run()]
    assert not all(loss.holds and loss.epsilon > loss.claimed - 1e-5 for loss in promises)


@pytest.mark.parametrize("bug", [KeepsTooMuch, PermanentTimesOnePointOne])
def test_nothing_is_sent_by_a_law_that_breaks_either_promise(bug) -> None:
    m = bug(epsilon=1.0, k=3, permanent=2.0)
    for step in (m.privatize, m.remember, m.repeat):
        with pytest.raises(PromiseError):
            step([1], system_rng())
