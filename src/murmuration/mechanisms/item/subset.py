"""Subset selection: a random set of items that holds the own one more often than not."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from itertools import combinations
from typing import Any, ClassVar

import numpy as np

from murmuration.errors import FormatError
from murmuration.exact.arrays import Bits, Ints, Reports, Rows
from murmuration.exact.coins import RATE_BITS, below, coin_rows
from murmuration.exact.exponential import exp_below, log_above
from murmuration.exact.loss import Loss
from murmuration.exact.randomness import FEW, WHOLE, Rng, drawn, uniform
from murmuration.mechanisms.item.base import BitMechanism
from murmuration.mechanisms.packing import BITS_PER_PASS, bit_of
from murmuration.mechanisms.trial import ChanceTrial, Trial, people_for, spread_over

PLACES = np.array(
    [([bit for bit in range(8) if octet >> bit & 1] + [0] * 8)[:8] for octet in range(256)]
)
"""Where the set bits of a byte are, first to last."""
MOST_SETS = 2048
"""Sets that the auditor lists one by one, at most."""
MOST_PAIRS = 64
DRAW_BYTES = 100
"""Drawing one item takes about as long as so many random bytes."""
SAFETY = 1.0
"""Sets start this many standard deviations too small: fewer draw again, but more is filled up."""


@dataclass(frozen=True)
class Subset(BitMechanism):
    """Send w of the k items; sets that hold the own item are e^eps times as likely as others.

    p = wE/(wE+k-w), q = (p(w-1) + (1-p)w)/(k-1), w near k/(E+1). The least summed error
    of all mechanisms here. The set travels as k bits, so its members have no order that could tell.

    epsilon: the budget of one report, 0.001 to 20
    k: how many items there are, 2 or more; an answer is 0 to k-1

    >>> subset = Subset(epsilon=1.0, k=16)
    >>> subset.w, round(subset.total_variance(), 1)
    (4, 51.0)
    """

    name: ClassVar[str] = "subset"
    paper: ClassVar[str] = "Ye, Barg 2018; Wang et al. 2016"
    summary: ClassVar[str] = "a random set of items that often holds the own one"

    @cached_property
    def w(self) -> int:
        """The size of the set: of the two next to k/(E+1), the one of least error."""
        ideal = self.k / (math.exp(self.epsilon) + 1)
        sizes = {min(self.k - 1, max(1, size)) for size in (math.floor(ideal), math.ceil(ideal))}
        return min(sizes, key=self._error)

    def _error(self, w: int) -> float:
        p = Fraction(self._holds(w), WHOLE)
        q = (p * (w - 1) + (1 - p) * w) / (self.k - 1)
        own, other = p * (1 - p), q * (1 - q)
        return float((own + (self.k - 1) * other) / (p - q) ** 2)

    def _holds(self, w: int) -> int:
        """The weight, out of 2^52, of a set that holds the own item; rounded down."""
        ratio = exp_below(self.epsilon)
        return int(WHOLE * w * ratio / (w * ratio + self.k - w))

    @cached_property
    def holds(self) -> int:
        """The weight of holding the own item."""
        return self._holds(self.w)

    @property
    def balanced(self) -> int:
        """A set has w items."""
        return self.k

    @property
    def p(self) -> Fraction:
        """The own item is in the set."""
        return Fraction(self.holds, WHOLE)

    @property
    def q(self) -> Fraction:
        """Another item is in the set."""
        return (self.p * (self.w - 1) + (1 - self.p) * self.w) / (self.k - 1)

    @property
    def blank_support(self) -> Fraction:
        """W of k."""
        return Fraction(self.w, self.k)

    def blank(self, reports: Reports, rng: Rng) -> Reports:
        """Any set of w items: what people with any item would send."""
        return self.by_place(uniform(rng, len(reports), self.k), rng)

    @property
    def people_per_pass(self) -> int:
        """More than other packed reports: the sets are filled up in rounds over all people."""
        return max(1, 16 * BITS_PER_PASS // self.k)

    def respond(self, items: Ints, rng: Rng) -> Reports:
        """Draw a set: by the words that devices use, or faster where that is no contract."""
        if rng.bulk and len(items) > FEW:
            return self.by_last(items, rng)
        return self.by_place(items, rng)

    def by_last(self, items: Ints, rng: Rng) -> Rows:
        """Draw w-1 of the other items, and a last one; send the own item or the last beside them.

        Everybody draws a last one, whether or not the own item takes its place. The first w-1 and
        the last are w others, uniformly, so the law is that of `by_place`; no place in the set
        has to be found.
        """
        rows, people, own = self._some(len(items), rng), np.arange(len(items)), bit_of(items)
        rows[people, items >> 3] |= own
        self._fill(rows, self.w - set_sizes(rows), rng)
        last = self._another(rows, rng)
        leaves = drawn(rng.words(len(items))) >= self.holds
        rows[people, items >> 3] ^= own * leaves
        rows[people, last >> 3] |= bit_of(last) * leaves
        return rows

    def _some(self, n: int, rng: Rng) -> Rows:
        """Return sets of coins with w-1 members at most; given how many, they are uniform."""
        kept: list[Rows] = []
        while n:
            rows = coin_rows(rng, n, self.k, self._quick_rate)
            rows = rows[set_sizes(rows) < self.w]
            kept.append(rows)
            n -= len(rows)
        return np.concatenate(kept)

    @cached_property
    def _quick_rate(self) -> int:
        """The coins' rate out of 2^32: few digits take few bytes, many leave less to fill up."""
        spread = math.sqrt(self.w * (1 - self.w / self.k))
        most = max(0.0, (self.w - SAFETY * spread) / self.k)
        rates = [(digits, int(most * (1 << digits))) for digits in range(1, 13)]
        costs = {
            level << (RATE_BITS - digits): digits * self.k / 8
            + DRAW_BYTES * (self.w - self.k * level / (1 << digits))
            for digits, level in reversed(rates)
        }
        return min(costs, key=costs.__getitem__)

    def _another(self, rows: Rows, rng: Rng) -> Ints:
        """Draw for each set an item that it does not have."""
        found = below(rng, len(rows), self.k)
        todo = np.flatnonzero(has_member(rows, np.arange(len(rows)), found))
        while len(todo):
            found[todo] = below(rng, len(todo), self.k)
            todo = todo[has_member(rows, todo, found[todo])]
        return found

    def by_place(self, items: Ints, rng: Rng) -> Rows:
        """Draw w of the other items, uniformly; to hold the own one, put it in another's place.

        Nothing treats one other item differently from another, so every set is exactly as likely
        as any other of its kind. Whether the own item is held decides nothing until the end:
        everybody draws as many words, and who is replaced is worked out for everybody.
        """
        holds = drawn(rng.words(len(items))) < self.holds
        rows = self._too_few(items, rng)
        self._fill(rows, self.w + 1 - set_sizes(rows), rng)
        people, own = np.arange(len(items)), bit_of(items)
        rows[people, items >> 3] ^= own
        other = member(rows, uniform(rng, len(items), self.w))
        rows[people, other >> 3] ^= np.where(holds, bit_of(other), 0)
        rows[people, items >> 3] ^= np.where(holds, own, 0)
        return rows

    def _too_few(self, items: Ints, rng: Rng) -> Rows:
        """Start from independent bits; anyone with more than wanted draws all again.

        The own item counts as a member all along, so that it is never drawn.
        """
        rows = self._coins(items, rng)
        todo = np.flatnonzero(set_sizes(rows) > self.w + 1)
        while len(todo):
            again = self._coins(items[todo], rng.only(todo))
            rows[todo] = again
            todo = todo[set_sizes(again) > self.w + 1]
        return rows

    def _coins(self, items: Ints, rng: Rng) -> Rows:
        """Toss a coin of rate `level` / 2^digits for each item; set the own item's bit.

        From the lowest binary digit of the rate up: "or" with fair bits takes a rate r to
        (1 + r)/2, "and" takes it to r/2. So few bytes do, and they stay packed.
        """
        level, digits = self._start
        n, width = len(items), self.report_bytes
        rows = np.zeros((n, width), dtype=np.uint8)
        for digit in range(digits):
            fair = rng.octets(n, width)
            combine = np.bitwise_or if level >> digit & 1 else np.bitwise_and
            combine(rows, fair, out=rows)
        rows[:, -1] &= 255 >> (8 * width - self.k)
        rows[np.arange(n), items >> 3] |= bit_of(items)
        return rows

    @cached_property
    def _start(self) -> tuple[int, int]:
        """The coins' rate: somewhat below what w of k needs, so that few are drawn again."""
        spread = math.sqrt(self.w * (1 - self.w / self.k))
        digits = 3 + self.k.bit_length() // 2
        level = int(max(0.0, self.w - SAFETY * spread) / self.k * (1 << digits))
        spare = (level & -level).bit_length() - 1 if level else digits
        return level >> spare, digits - spare

    def _fill(self, rows: Rows, missing: Ints, rng: Rng) -> None:
        """Draw as many items as are missing and add them; repeat for those that were there.

        Who misses most comes first: then those who take a j-th item are the first so many.
        """
        todo = np.flatnonzero(missing)
        while len(todo):
            todo = todo[longest_first(missing[todo])]
            left = missing[todo]
            takers = np.cumsum(np.bincount(left)[:0:-1])[::-1]
            turns = np.concatenate([todo[:many] for many in takers])
            if rng.bulk:
                items = below(rng, len(turns), self.k)
            else:
                items = uniform(rng.only(turns), len(turns), self.k)
            left -= add_members(rows, turns, items, takers)
            missing[todo] = left
            todo = todo[left > 0]

    def possible(self, reports: Reports) -> Bits:
        """Tell which sets have w members, all of them items."""
        sizes = set_sizes(self.to_rows(reports))
        return np.asarray(super().possible(reports) & (sizes == self.w))

    def complaint(self, reports: Reports, bad: int) -> str:
        """Every set has w members, all of them items."""
        if not super().possible(reports)[bad]:
            return super().complaint(reports, bad)
        size = int(set_sizes(self.to_rows(reports))[bad])
        return f"report {bad} has {size} items, not {self.w}"

    def checked_counts(self, counts: Ints, n: int) -> Ints:
        """Everybody's set has w members."""
        if int(counts.sum()) != self.w * n:
            raise FormatError(f"{n} sets of {self.w} cannot have {int(counts.sum())} members")
        return counts

    def trials(self) -> Iterator[Trial]:
        """Both ways to draw, each on its own: the second only where nobody asks for words again."""
        for trial in self._set_trials():
            yield trial
            if isinstance(trial, ChanceTrial):
                yield replace(trial, bulk=True)

    def _set_trials(self) -> Iterator[Trial]:
        """Every set, where they can be listed; else single items, and pairs of others."""
        if math.comb(self.k, self.w) > MOST_SETS:
            yield from super().trials()
            for item in spread_over(self.k, 3):
                yield self._pairs_trial(item)
            return
        sets = np.array([*combinations(range(self.k), self.w)])
        for item in range(self.k):
            holds = (sets == item).any(axis=1)
            inside = math.comb(self.k - 1, self.w - 1)
            p = float(self.p)
            chances = np.where(holds, p / inside, (1 - p) / (len(sets) - inside))
            people = max(20_000, 20 * len(sets))
            read = partial(self._by_set, sets)
            yield ChanceTrial(self, item, read, chances, "every report", people=people)

    def _by_set(self, sets: Ints, reports: Reports) -> Ints:
        """Count each of the listed sets."""
        rows = np.zeros((len(sets), self.report_bytes), dtype=np.uint8)
        for column in sets.T:
            rows[np.arange(len(sets)), column >> 3] |= bit_of(column)
        place = {row.tobytes(): number for number, row in enumerate(rows)}
        different, counts = np.unique(self.to_rows(reports), axis=0, return_counts=True)
        counted = np.zeros(len(sets), dtype=np.int64)
        counted[[place[row.tobytes()] for row in different]] = counts
        return counted

    def _pairs_trial(self, item: int) -> ChanceTrial:
        """Two other items are both members: of w others, or of w-1 beside the own one."""
        others = np.random.default_rng(item).permutation(self.k)
        others = others[others != item][: 2 * MOST_PAIRS]
        pairs = others[: len(others) // 2 * 2].reshape(-1, 2)
        p, w, rest = float(self.p), self.w, (self.k - 1) * (self.k - 2)
        both = (p * (w - 1) * (w - 2) + (1 - p) * w * (w - 1)) / rest
        people, read = people_for(8 * self.report_bytes), partial(self._both, pairs)
        chances = np.full(len(pairs), both)
        return ChanceTrial(
            self, item, read, chances, "pairs of others", exclusive=False, people=people
        )

    def _both(self, pairs: Ints, reports: Reports) -> Ints:
        rows = self.to_rows(reports)
        has = [rows[:, items >> 3] & bit_of(items) > 0 for items in pairs.T]
        return np.asarray((has[0] & has[1]).sum(axis=0, dtype=np.int64))

    def exact_loss(self) -> Loss:
        """A set with 0 and without 1: holds/C(k-1,w-1) against (1-holds)/C(k-1,w)."""
        odds = Fraction(self.holds, WHOLE - self.holds)
        ratio = odds * Fraction(self.k - self.w, self.w)
        return Loss(log_above(ratio), self.epsilon, ratio, (0, 1), "a set with 0 and without 1")

    def law(self) -> dict[str, Any]:
        """The weight, out of 2^52, the size, and the rate level / 2^digits of the first coins."""
        level, digits = self._start
        return {"holds": self.holds, "size": self.w, "level": level, "digits": digits}


def set_sizes(rows: Rows) -> Ints:
    """Return how many bits each row has set."""
    whole = rows.shape[1] // 8 * 8
    sizes: Ints = np.bitwise_count(rows[:, whole:]).sum(axis=1, dtype=np.int64)
    if whole:
        wide = np.ascontiguousarray(rows[:, :whole]).view(np.uint64)
        sizes += np.bitwise_count(wide).sum(axis=1, dtype=np.int64)
    return sizes


def member(rows: Rows, rank: Ints) -> Ints:
    """Return each row's set bit number `rank`, counted from 0.

    >>> member(np.array([[0b1010, 0b100]], dtype=np.uint8), np.array([2])).tolist()
    [10]
    """
    small = np.min_scalar_type(8 * rows.shape[1])  # small numbers add up faster
    upto = np.cumsum(np.bitwise_count(rows), axis=1, dtype=small)
    octet = (upto > rank[:, None].astype(small)).argmax(axis=1)
    people = np.arange(len(rows))
    before = upto[people, octet].astype(np.int64) - np.bitwise_count(rows[people, octet])
    return np.asarray(8 * octet + PLACES[rows[people, octet], rank - before])


def has_member(rows: Rows, people: Ints, items: Ints) -> Bits:
    """Tell which of these people's sets have the item."""
    return np.asarray((rows[people, items >> 3] & bit_of(items)) != 0)


def add_members(rows: Rows, people: Ints, items: Ints, takers: Ints) -> Ints:
    """Add items to sets, turn by turn: in each, so many people add one, the same ones first.

    Return how many each of them got that the set did not have yet.
    """
    flat, place, bit = rows.reshape(-1), people * rows.shape[1] + (items >> 3), bit_of(items)
    gained = np.zeros(takers[0], dtype=np.int64)
    start = 0
    for many in takers.tolist():
        at, one = place[start : start + many], bit[start : start + many]
        before = flat[at]
        flat[at] = before | one
        gained[:many] += (before & one) == 0
        start += many
    return gained


def longest_first(left: Ints) -> Ints:
    """Return the order of falling numbers; ties stay as they are. Small types sort fast."""
    most = left.max()
    return np.argsort((most - left).astype(np.min_scalar_type(most)), kind="stable")
