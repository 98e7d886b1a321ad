"""The audit catches samplers that leave their law: planted ones, each wrong in its own way.

Every one of these keeps its integers, so its exact loss holds; only running it shows the leak.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from murmuration.audit.exact import audit, binomial, chi_square
from murmuration.exact.grid import Grid
from murmuration.exact.randomness import drawn, uniform
from murmuration.mechanisms.item.bassily_smith import BassilySmith, signs
from murmuration.mechanisms.item.grr import Grr
from murmuration.mechanisms.item.hadamard import Hadamard
from murmuration.mechanisms.item.memoised import Memoised
from murmuration.mechanisms.item.olh import Olh
from murmuration.mechanisms.item.projective import Projective
from murmuration.mechanisms.item.subset import Subset
from murmuration.mechanisms.item.sue import Sue
from murmuration.mechanisms.packing import integer_rows, pack_bits
from murmuration.mechanisms.vector.block import THRESHOLDS, Block
from murmuration.mechanisms.vector.duchi_multi import DuchiMulti
from murmuration.mechanisms.vector.harmony import Harmony
from murmuration.mechanisms.vector.privunit import PrivUnit
from murmuration.mechanisms.vector.sampled import Sampled


@dataclass(frozen=True)
class OneCoin(Sue):
    """One half word decides all bits: the own one alone names the item."""

    def respond(self, items, rng):
        coin = (rng.words(len(items)) >> np.uint64(32))[:, None]
        bits = np.repeat(coin < np.uint64(self.no), self.k, axis=1)
        bits[np.arange(len(items)), items] = coin[:, 0] < np.uint64(self.yes)
        return pack_bits(bits)


@dataclass(frozen=True)
class FewSets(Subset):
    """Of the sets without the own item only some are ever sent; each item is in as many."""

    def respond(self, items, rng):
        holds = drawn(rng.words(len(items))) < self.holds
        which = uniform(rng, len(items), 4)
        bits = np.zeros((len(items), 5), dtype=bool)
        for row, (item, own, place) in enumerate(zip(items, holds, which, strict=True)):
            others = [other for other in range(5) if other != item]
            chosen = [item, others[place]] if own else others[:2] if place < 2 else others[2:]
            bits[row, chosen] = True
        return pack_bits(bits)


@dataclass(frozen=True)
class PickedHash(Olh):
    """Only hash functions that put the own item into the first cell."""

    def respond(self, items, rng):
        a = uniform(rng, len(items), self.prime)
        b = (uniform(rng, len(items), int(self.edges[1])) - a * items) % self.prime
        answer = self.response.respond(np.zeros(len(items), dtype=np.int64), rng)
        return np.stack([a, b, answer], axis=1).astype(np.uint32)


@dataclass(frozen=True)
class TellingRow(BassilySmith):
    """The public row is not public: it names the item."""

    def respond(self, items, rng):
        half = uniform(rng, len(items), self.rows) >= self.rows // 2
        row = items + half * (self.rows // 2)
        lie = drawn(rng.words(len(items))) >= self.response.truth
        return (2 * row + (signs(self.seed, row, items) ^ lie)).astype(np.uint16)


@dataclass(frozen=True)
class TruthOfOneItem(Grr):
    def respond(self, items, rng):
        reports = super().respond(items, rng)
        return np.where(items == 3, items, reports).astype(reports.dtype)


@dataclass(frozen=True)
class OtherPlane(Projective):
    """Points off the own plane are always the same one."""

    def respond(self, items, rng):
        reports = super().respond(items, rng)
        on = self.coordinates[items] * self.coordinates[reports]
        outside = on.sum(axis=1) % self.space[0] != 0
        return np.where(outside, reports[outside][0], reports).astype(reports.dtype)


@dataclass(frozen=True)
class RemembersTheTruth(Memoised):
    def remember(self, items, rng):
        return np.asarray(items).astype(np.uint8)


@dataclass(frozen=True)
class RepeatsWithoutNoise(Memoised):
    def repeat(self, answers, rng):
        return np.asarray(answers).astype(np.uint8)


@dataclass(frozen=True)
class TruthInAFrame(Sampled):
    """The attribute is drawn honestly; what is written about it is the item itself."""

    def respond(self, columns, rng):
        asked = self.strategy.asked(len(self.inner), len(columns[0]), rng)[:, 0]
        return np.hstack([integer_rows(asked, 1), integer_rows(np.choose(asked, columns), 1)])


@dataclass(frozen=True)
class TruthInHarmony(Harmony):
    def _answered(self, columns, rng, coins):
        attributes, rows = self._public(len(columns[0]), coins)
        bits = np.zeros(len(attributes), dtype=bool)
        for attribute, inner in enumerate(self.inner):
            asked = np.flatnonzero(attributes == attribute)
            own = columns[attribute][asked]
            item = isinstance(inner, Hadamard)
            bits[asked] = np.bitwise_count(own & rows[asked]) & 1 if item else own > 0
        return self._assembled(attributes, rows, bits)


@dataclass(frozen=True)
class TellingThreshold(Block):
    """The threshold that is sent is the value itself."""

    def respond(self, columns, rng):
        reports = super().respond(columns, rng)
        rows = np.stack(columns, axis=1)
        start = reports[:, 0].astype(np.int64)
        values = rows[np.arange(len(rows))[:, None], self._members(start)]
        places = Grid(THRESHOLDS).round(values.ravel(), rng.words(values.size))
        reports[:, 2:-2] = np.minimum(places, THRESHOLDS - 1).reshape(values.shape)
        return reports


@dataclass(frozen=True)
class LastSignsDiffer(DuchiMulti):
    """As many signs agree as should, but always the first ones."""

    def respond(self, columns, rng):
        rows = super().respond(columns, rng)
        bits = np.unpackbits(rows, axis=1, count=self.bits, bitorder="little").astype(bool)
        signs = np.stack(columns, axis=1) > 0
        agree = (bits == signs).sum(axis=1)
        first = np.arange(self.bits) < agree[:, None]
        return pack_bits(np.where(first, signs, ~signs))


@dataclass(frozen=True)
class NearestOnly(PrivUnit):
    """Of the near candidates always the nearest."""

    def _ordered(self, seeds, aim):
        order = super()._ordered(seeds, aim).copy()
        order[:, : self.near] = order[:, :1]
        return order


PLANTED = [
    OneCoin(1.0, 8),
    FewSets(0.5, 5),
    PickedHash(1.0, 20),
    TellingRow(1.0, 16, people=1000),
    TruthOfOneItem(1.0, 16),
    OtherPlane(1.0, 13),
    RemembersTheTruth(1.0, 5),
    RepeatsWithoutNoise(1.0, 5),
    TruthInAFrame(1.0, domains=(4, 4), categorical="grr"),
    TruthInHarmony(1.0, domains=(0, 4)),
    TellingThreshold(1.0, d=3),
    TellingThreshold(4.0, d=8),
    LastSignsDiffer(1.0, d=6),
    LastSignsDiffer(1.0, d=15),
    NearestOnly(1.0, d=4),
]


@pytest.mark.parametrize("planted", PLANTED, ids=lambda m: f"{type(m).__name__}-{m.epsilon:g}")
def test_a_planted_sampler_is_caught(planted) -> None:
    assert planted.loss().holds  # the integers are right: only the sampler is not
    verdict = audit(planted)
    assert verdict.tried
    assert not verdict.passed
    assert "DISAGREES" in verdict.how or "FAILS" in verdict.how


@pytest.mark.slow
def test_a_leaking_sampler_at_larger_sizes_is_caught() -> None:
    """Where sets cannot be listed, and where few reports are looked at."""

    class Neighbours(Subset):
        """Without the own item, the set is one of neighbours."""

        def respond(self, items, rng):
            rows = super().respond(items, rng)
            bits = np.zeros((len(items), self.k), dtype=bool)
            start = uniform(rng, len(items), self.k)
            bits[np.arange(len(items))[:, None], (start[:, None] + np.arange(self.w)) % self.k] = 1
            own = bits[np.arange(len(items)), items]
            return np.where(own[:, None], rows, pack_bits(bits))

    assert not audit(Neighbours(1.0, 100)).passed


def test_what_the_law_cannot_produce_fails_and_rare_classes_do_not() -> None:
    chances = np.array([1e-6, 0.5, 0.5 - 1e-6])
    draw = np.random.default_rng(0)
    p_values = [chi_square(draw.multinomial(20_000, chances), chances, 20_000) for _ in range(2000)]
    assert min(p_values) > 1e-6
    assert np.mean(np.array(p_values) < 0.05) == pytest.approx(0.05, abs=0.025)
    nothing = np.array([0.0, 0.5, 0.5])
    assert chi_square(np.array([0, 0, 20_000]), nothing, 20_000) < 1e-6
    assert chi_square(np.array([1, 10_000, 9_999]), nothing, 20_000) == 0
    assert chi_square(np.array([0, 10_000, 9_000]), nothing, 20_000) == 0  # some are missing
    assert binomial(np.array([0]), np.array([0.5]), 1000) < 1e-9
    assert binomial(np.array([20_000]), np.array([0.5]), 20_000) < 1e-9


def test_no_number_is_a_failure() -> None:
    verdict = audit(Grr(1.0, 4))
    assert verdict.passed
    broken = verdict.tests[0]
    odd = type(verdict)(
        verdict.loss, True, 0, 0, (type(broken)(broken.mechanism, "", 1, float("nan")),)
    )
    assert not odd.passed
    assert not type(verdict)(verdict.loss, True, 0, 0, ()).passed  # nothing was tried
