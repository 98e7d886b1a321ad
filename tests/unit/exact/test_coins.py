"""Coins by digits: the rate exact to the last of 32 digits, and the same law as by half words."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from murmuration import mechanism, seeded_rng
from murmuration.audit.exact import audit
from murmuration.exact import coins
from murmuration.exact.randomness import FEW, Rng, ScriptedRng, SeededRng, SystemRng
from murmuration.mechanisms.item import sue
from murmuration.mechanisms.item.oue import Oue
from murmuration.mechanisms.item.subset import Subset
from murmuration.mechanisms.trial import coin_words
from murmuration.testing.promise import check_loss
from tests.support.tools import mostly_slow

RATES = [1, 3, 1 << 24, (1 << 24) - 1, 0x44D8_0000, 0x44D9_7A3B, 1 << 30, (1 << 31) - 1, 1 << 31]


@pytest.mark.parametrize("rate", RATES)
def test_a_coin_is_set_exactly_below_its_rate(rate: int) -> None:
    near = [rate - 1, rate, rate + 1, 0, (1 << 32) - 1, rate & ~0xFFFFFF, rate | 0xFFFFFF]
    random = np.random.default_rng(rate).integers(0, 1 << 32, 64 * 8 - len(near))
    fractions = np.array([*near, *random.tolist()], dtype=np.uint32)
    found = coins.packed_coins(ScriptedRng(coin_words(fractions, rate)), 8, rate)
    bits = np.unpackbits(found.astype("<u8").view(np.uint8), bitorder="little")
    assert bits.tolist() == (fractions < rate).astype(int).tolist()


def test_every_word_of_the_script_is_used() -> None:
    fractions = np.full(128, 0x44D9_7A3B, dtype=np.uint32)
    words = coin_words(fractions, 0x44D9_7A3B)
    assert len(words) == coins.FIRST * 2 + 128  # all tie, so each draws the rest
    with pytest.raises(Exception, match="script"):
        coins.packed_coins(ScriptedRng(words[:-1]), 2, 0x44D9_7A3B)


def test_numbers_below_a_bound_are_uniform_to_the_last() -> None:
    bound = 3 << 29  # 2^32 mod bound is 2^30: a quarter is drawn again
    halves = np.array([0, 1 << 31, 2, 6], dtype="<u4")  # low halves 0, 0, above, just not
    again = [((1 << 32) - 1) << 32] * 2
    found = coins.below(ScriptedRng([*halves.view("<u8").tolist(), *again]), 4, bound)
    product = [int(half) * bound for half in (2**32 - 1, 2**32 - 1, 2, 6)]
    assert found.tolist() == [number >> 32 for number in product]
    counts = np.bincount(coins.below(seeded_rng(3), 60_000, 6), minlength=6)
    assert (abs(counts - 10_000) < 4.5 * np.sqrt(60_000 * 5 / 36)).all()


@pytest.mark.parametrize("name", ["oue", "sue", "subset"])
@pytest.mark.parametrize("k", mostly_slow([9, 2, 3, 64, 100]))
def test_the_auditor_tries_both_ways(name: str, k: int) -> None:
    check_loss(mechanism(name, epsilon=1.0, k=k))


@pytest.mark.parametrize("kind", [Oue, Subset])
def test_only_words_that_nobody_asks_for_again_are_used_the_fast_way(kind: type) -> None:
    chosen, items = kind(epsilon=1.0, k=40), np.arange(FEW + 1)
    assert SystemRng.bulk
    slow = chosen.by_half_words if kind is Oue else chosen.by_place
    fast = chosen.by_digits if kind is Oue else chosen.by_last
    same = np.array_equal
    assert same(chosen.privatize(items, SeededRng(5)), slow(items, SeededRng(5)))
    free = partial(SeededRng, 5, bulk=True)
    assert same(chosen.privatize(items, free()), fast(items, free()))
    assert same(chosen.privatize(items[:FEW], free()), slow(items[:FEW], free()))


def test_how_many_words_are_drawn_does_not_follow_from_the_own_item() -> None:
    chosen, items = Subset(epsilon=1.0, k=64), np.full(100, 7)
    held = Counted(SeededRng(2))
    chosen.by_last(items, held)
    always = Counted(SeededRng(2))
    Held(epsilon=1.0, k=64).by_last(items, always)
    assert held.drawn == always.drawn


class Counted(Rng):
    """Counts the words."""

    def __init__(self, inner: Rng) -> None:
        self._inner, self.drawn = inner, 0
        self.bulk = True

    def words(self, n: int):
        self.drawn += n
        return self._inner.words(n)


class Held(Subset):
    """The own item is always in the set."""

    holds = 1 << 52


# --- planted: the audit must see each ------------------------------------------------------------


def test_a_coin_of_eight_bits_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coins, "_refine", lambda rng, found, undecided, rest: None)
    assert audit(Oue(epsilon=1.0, k=16)).disagreements


def test_ties_that_are_all_set_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def all_set(rng, found, undecided, rest):
        found |= undecided

    monkeypatch.setattr(coins, "_refine", all_set)
    assert audit(Oue(epsilon=1.0, k=16)).disagreements


def test_a_rate_that_is_cut_to_eight_bits_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = coins.coin_rows
    monkeypatch.setattr(sue, "coin_rows", lambda rng, n, k, rate: rows(rng, n, k, rate >> 24 << 24))
    assert audit(Oue(epsilon=1.0, k=16)).disagreements


class LastIsFirst(Subset):
    """The last item is the lowest that the set does not have."""

    def _another(self, rows, rng):
        del rng
        bits = np.unpackbits(rows, axis=1, count=self.k, bitorder="little")
        return bits.argmin(axis=1)


class OwnCoinStays(Subset):
    """Takes the own item out only where the coins had put it in."""

    def _some(self, n, rng):
        return np.zeros_like(super()._some(n, rng)) | np.uint8(1)


@pytest.mark.parametrize("wrong", [LastIsFirst, OwnCoinStays])
@pytest.mark.parametrize("k", mostly_slow([8, 200]))
def test_a_set_that_is_not_uniform_is_seen(wrong: type, k: int) -> None:
    assert audit(wrong(epsilon=1.0, k=k)).failed
