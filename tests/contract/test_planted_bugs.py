"""Bugs that real libraries have shipped, planted one by one: the checks must see each."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
import pytest

from murmuration import tour
from murmuration.audit.empirical import attack, wire
from murmuration.errors import ContractError, MismatchError, PromiseError
from murmuration.exact.randomness import WHOLE, Rng, SeededRng, SystemRng, seeded_rng
from murmuration.mechanisms.number.base import Design, ramp
from murmuration.mechanisms.number.dithered import Dithered
from murmuration.mechanisms.number.duchi import Duchi
from murmuration.mechanisms.number.piecewise import Piecewise
from murmuration.mechanisms.tally import Tally
from murmuration.testing.figures import check_coverage, check_unbiased
from murmuration.testing.promise import (
    check_budget_is_used,
    check_each_person_alone,
    check_fresh_randomness,
    check_loss,
)
from murmuration.testing.wire import check_refusals, check_wire
from tests.support.checks import check_fork


@dataclass(frozen=True)
class EightBitCoin(Dithered):
    def decide(self, values, words):
        return super().decide(values, words & np.uint64(0xFF << 56))


@dataclass(frozen=True)
class EpsilonTimesOnePointOne(Duchi):
    def build(self):
        return ramp(1, 1.1 * self.epsilon)


@dataclass(frozen=True)
class HalfOfEpsilon(Duchi):
    def build(self):
        return ramp(1, self.epsilon / 2)


@dataclass(frozen=True)
class SwappedForOneValue(Dithered):
    def build(self):
        design = super().build()
        weights = design.weights.copy()
        weights[5] = weights[5].reshape(-1, 2)[:, ::-1].ravel()
        return Design(weights, design.values)


@dataclass(frozen=True)
class CertainOutOfRange(Duchi):
    def privatize(self, values, rng):
        numbers = np.asarray(values)
        reports = super().privatize(np.clip(np.nan_to_num(numbers), -1, 1), rng)
        return np.where(numbers > 1, 1, reports).astype(np.uint8)


@dataclass(frozen=True)
class NeverSaysOneThing(Piecewise):
    """One symbol is impossible for one value: the loss is infinite."""

    def build(self):
        design = super().build()
        weights = design.weights.copy()
        weights[0, 10] += weights[0, -1]
        weights[0, -1] = 0
        return Design(weights, design.values)


@dataclass(frozen=True)
class SortedByValue(Piecewise):
    def privatize(self, values, rng):
        return super().privatize(values, rng)[np.argsort(values, kind="stable")]


@dataclass(frozen=True)
class Seeded(Piecewise):
    def privatize(self, values, rng):
        return super().privatize(values, SeededRng(42))


@dataclass(frozen=True)
class OneWordForTwoDraws(Dithered):
    def decide(self, values, words):
        return super().decide(values, words[:, [1, 1]])


@dataclass(frozen=True)
class TakesAnySymbol(Duchi):
    def checked_reports(self, reports):
        return np.asarray(reports) % self.symbols


@dataclass(frozen=True)
class LengthTellsTheValue(Piecewise):
    """Small symbols lose their leading byte, as in a text format."""

    def pack(self, reports):
        return b"".join(str(report).encode() for report in reports.tolist())


@dataclass(frozen=True)
class TooSure(Duchi):
    def estimate(self, tally: Tally, about="participants"):
        honest = super().estimate(tally, about)
        return dataclasses.replace(honest, stderr=0.8 * honest.stderr)


@dataclass(frozen=True)
class SilentlyClipped(Duchi):
    """Clips the estimate's values into the range, as one library does with its noise."""

    def build(self):
        design = super().build()
        return Design(design.weights, np.clip(design.values, -1, 1))


class BufferedRng(Rng):
    """Keeps words for later, and a fork keeps the same ones."""

    def __init__(self):
        self.buffer = SystemRng().words(64)

    def words(self, n):
        out, self.buffer = self.buffer[:n], self.buffer[n:]
        return out


CAUGHT_BY = {
    EightBitCoin: check_loss,
    EpsilonTimesOnePointOne: check_loss,
    HalfOfEpsilon: check_budget_is_used,
    NeverSaysOneThing: check_loss,
    SwappedForOneValue: check_unbiased,
    SilentlyClipped: check_unbiased,
    CertainOutOfRange: check_refusals,
    TakesAnySymbol: check_refusals,
    SortedByValue: check_each_person_alone,
    Seeded: check_fresh_randomness,
    OneWordForTwoDraws: check_loss,
    LengthTellsTheValue: check_wire,
    TooSure: check_coverage,
}


@pytest.mark.parametrize("bug", CAUGHT_BY, ids=lambda bug: bug.__name__)
def test_planted_bug_is_caught(bug) -> None:
    with pytest.raises(ContractError):
        CAUGHT_BY[bug](bug(epsilon=1.0))


@pytest.mark.slow
@pytest.mark.parametrize("bug", CAUGHT_BY, ids=lambda bug: bug.__name__)
def test_the_same_check_passes_without_the_bug(bug) -> None:
    CAUGHT_BY[bug](bug.__mro__[1](epsilon=1.0))


def test_words_repeated_after_a_fork_are_caught() -> None:
    with pytest.raises(AssertionError):
        check_fork(BufferedRng())
    check_fork(SystemRng())


# --- exhibits: mechanisms so wrong that they do not even fit the contract --------------------


def float_laplace(x: float, n: int) -> list[bytes]:
    """Textbook inverse-CDF Laplace noise on doubles: claimed epsilon 1."""
    uniform = np.random.default_rng(int(x * 8) + 99).random(n) - 0.5
    noisy = x - 2 * np.sign(uniform) * np.log1p(-2 * np.abs(uniform))
    return [value.tobytes() for value in noisy]


def truth_first(x: float, n: int) -> list[bytes]:
    """Subset selection that puts the true item first whenever it is in the subset."""
    rng = np.random.default_rng(int(x * 8) + 99)
    order = np.argsort(rng.random((n, 8)), axis=1).astype(np.uint8)
    item = 2 if x > 0 else 5
    subset = np.where(order == item, order[:, :1], order)
    subset[:, 0] = np.where(rng.random(n) < 0.73, item, subset[:, 0])
    return [row.tobytes() for row in subset[:, :3]]


def length_by_value(x: float, n: int) -> list[bytes]:
    """An honest coin written as text, with a minus sign for the private half."""
    coins = seeded_rng(3).words(n) >> np.uint64(63)
    return [b"-1" if coin and x < 0 else b"1" for coin in coins.tolist()]


@pytest.mark.slow
@pytest.mark.parametrize("exhibit", [float_laplace, truth_first, length_by_value])
def test_the_empirical_audit_sees_it(exhibit) -> None:
    assert attack(exhibit, 0.0 if exhibit is float_laplace else -1.0, 1.0, n=100_000).epsilon > 1.5


def test_the_weights_of_a_planted_law_still_add_up() -> None:
    assert (NeverSaysOneThing(epsilon=1.0).design.weights.sum(axis=1) == WHOLE).all()


@pytest.mark.parametrize("bug", [EpsilonTimesOnePointOne, NeverSaysOneThing])
def test_a_device_refuses_a_law_that_breaks_its_promise(bug) -> None:
    with pytest.raises(PromiseError, match="nothing was sent"):
        bug(epsilon=1.0).privatize([0.5], SystemRng())
    with pytest.raises(PromiseError):
        tour.run(bug(epsilon=1.0), [0.5], SystemRng())


@pytest.mark.slow
def test_the_attack_claims_nothing_where_there_is_nothing() -> None:
    """Random bytes of 16: many looks, and still no more false alarms than the confidence allows."""
    alarms = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        found = attack(lambda x, n, rng=rng: [rng.bytes(16) for _ in range(n)], 0, 1, 300, 0.9)
        alarms += found.epsilon > 0
    assert alarms <= 12


def test_lengths_are_seen_person_by_person() -> None:
    mechanism = LengthTellsTheValue(epsilon=3.0)
    found = attack(wire(mechanism, seeded_rng(2)), -1.0, 1.0, n=5000)
    assert found.epsilon > 0


def test_another_law_is_refused_by_the_collector() -> None:
    upload = tour.device(Duchi(epsilon=1.0), [0.5], SystemRng())
    with pytest.raises(MismatchError, match="another law"):
        tour.collector(Duchi(epsilon=1.1), [upload])
