"""The contract, as functions: each raises AssertionError when a mechanism breaks it.

`test_contract.py` runs them on every mechanism; `test_planted_bugs.py` shows that each planted
bug is caught by at least one of them. They know nothing about a mechanism but its domain.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from murmuration import Mechanism, Tally
from murmuration.audit.empirical import attack, wire
from murmuration.audit.exact import audit
from murmuration.errors import (
    EmptyError,
    FormatError,
    InputError,
    MismatchError,
    ReportError,
)
from murmuration.exact.keyed import Key, Keys
from murmuration.exact.loss import PairwiseLoss
from murmuration.exact.randomness import Rng, ScriptedRng, seeded_rng, system_rng
from murmuration.mechanisms.domain import (
    Ball,
    Box,
    Domain,
    Graded,
    Items,
    Number,
    NumberOrNone,
)
from murmuration.mechanisms.number.base import NumericMechanism
from murmuration.mechanisms.registry import from_document, to_document
from murmuration.mechanisms.vector.base import FramedMechanism, SampledTuple
from murmuration.mechanisms.vector.privunit import SEED_BYTES

STANDARD_ERRORS = 4.5  # a bound that 1 in 150,000 fair runs would cross; seeds are fixed anyway
OFTEN = 200
"""Reports that must all be valid."""


def people(n: int, seed: int = 5) -> np.ndarray:
    """Numbers of a skewed crowd with some at both ends and most between grid points."""
    return Number().crowd(n, np.random.default_rng(seed))


def crowd(mechanism: Mechanism, n: int, seed: int = 5) -> Any:
    """Values of n people that a mechanism can be asked about."""
    return mechanism.domain.crowd(n, np.random.default_rng(seed))


def truth(domain: Domain, values: Any) -> np.ndarray:
    """What an estimate is about, as one array: a mean, shares, or all of them."""
    if isinstance(domain, Number):
        return np.array([np.mean(values)])
    if isinstance(domain, NumberOrNone):
        return np.array([np.mean(np.nan_to_num(values)), np.mean(~np.isnan(values))])
    if isinstance(domain, Items):
        return np.bincount(values, minlength=domain.k) / len(values)
    if isinstance(domain, Ball):
        return np.asarray(np.mean(values, axis=0))
    assert isinstance(domain, Box)
    parts = zip(domain.parts, values, strict=True)
    return np.concatenate([truth(part, column) for part, column in parts])


def flat(numbers: Any) -> np.ndarray:
    """A number, an array, or a list of them as one array."""
    return np.concatenate(
        [np.atleast_1d(n) for n in (numbers if isinstance(numbers, list) else [numbers])]
    )


def ends(estimate: Any, level: float) -> tuple[np.ndarray, np.ndarray]:
    """The ends of all intervals of an estimate."""
    found = estimate.interval(level)
    pairs = found if isinstance(found, list) else [found]
    return flat([pair[0] for pair in pairs]), flat([pair[1] for pair in pairs])


def collected(mechanism: Mechanism, values: Any, rng: Rng, about: str = "participants") -> Any:
    return mechanism.estimate(mechanism.tally(mechanism.privatize(values, rng)), about)


# --- the law -----------------------------------------------------------------------------------


def check_loss(mechanism: Mechanism) -> None:
    """The exact loss is just within the budget, and the sampler draws from that law."""
    verdict = audit(mechanism)
    assert verdict.sampler_agrees, verdict.how
    if mechanism.broken:
        assert not verdict.passed
        return
    assert verdict.passed
    if isinstance(verdict.loss, PairwiseLoss):
        used = verdict.loss.pairwise / np.array(verdict.loss.budgets)
        assert 1 - 1e-4 < used.max() <= 1  # some budget is used up: nothing is given away
    else:
        assert mechanism.epsilon - 1e-5 < verdict.loss.epsilon <= mechanism.epsilon


def check_document(mechanism: Mechanism) -> None:
    """What is published makes the same mechanism, with integers that a browser reads exactly."""
    document = json.loads(json.dumps(to_document(mechanism), allow_nan=False))
    again = from_document(document)
    assert again == mechanism
    assert again.fingerprint == mechanism.fingerprint
    assert again.loss() == mechanism.loss()
    assert to_document(again) == to_document(mechanism)
    values = crowd(mechanism, 100)
    sent = [m.pack(m.privatize(values, seeded_rng(12))) for m in (mechanism, again)]
    assert sent[0] == sent[1]
    numbers = numbers_in(document["law"])
    assert numbers
    assert all(type(number) is int and abs(number) < 1 << 53 for number in numbers)


def numbers_in(law: object) -> list[Any]:
    """All numbers of a law, however deep, but not those that the analyst reads symbols as."""
    if isinstance(law, dict):
        inner = [value for key, value in law.items() if key not in ("values", "parameters")]
        return [number for value in inner for number in numbers_in(value)]
    if isinstance(law, list):
        return [number for value in law for number in numbers_in(value)]
    return [] if isinstance(law, str) else [law]


def bent(law: Any) -> Any:
    """The same law with one number changed, the last one."""
    if isinstance(law, dict):
        last = [*law][-1]
        return {**law, last: bent(law[last])}
    if isinstance(law, list):
        return [*law[:-1], bent(law[-1])]
    return law + "1" if isinstance(law, str) else law + 1


def check_another_law(mechanism: Mechanism) -> None:
    """Row totals, alphabets, sizes: whichever number is off by one, somebody notices."""
    law = json.loads(json.dumps(mechanism.law()))
    assert mechanism.with_law(law).fingerprint == mechanism.fingerprint
    for key in law:
        if law[key] != []:
            with pytest.raises((FormatError, MismatchError)):
                mechanism.with_law({**law, key: bent(law[key])})


# --- the wire ----------------------------------------------------------------------------------


def check_wire(mechanism: Mechanism) -> None:
    """Reports have one length, survive the wire, and tell no more than epsilon."""
    reports = mechanism.privatize(crowd(mechanism, 2000), seeded_rng(3))
    data = mechanism.pack(reports)
    assert len(data) == 2000 * mechanism.report_bytes
    assert (mechanism.unpack(data) == reports).all()
    one = mechanism.unpack(mechanism.pack(reports[7:8]))
    assert (one == reports[7:8]).all()
    if not mechanism.broken:
        inputs = mechanism.domain.told_apart(mechanism.loss().inputs)
        evidence = attack(wire(mechanism, seeded_rng(4)), *inputs, n=20_000)
        assert evidence.epsilon <= mechanism.budget, evidence


def rows_of(mechanism: Mechanism, n: int) -> np.ndarray:
    return mechanism.to_rows(mechanism.privatize(crowd(mechanism, n), seeded_rng(12)))


def unpacks(mechanism: Mechanism, row: np.ndarray) -> bool:
    try:
        return len(mechanism.unpack(row.tobytes())) == 1
    except ReportError:
        return False


def check_valid(mechanism: Mechanism) -> None:
    """A row is valid exactly when `unpack` takes it.

    Random bytes; bytes with most bits clear, which come nearer; honest rows with a byte bent.
    """
    rng, width = np.random.default_rng(3), mechanism.report_bytes
    honest = rows_of(mechanism, OFTEN)
    assert mechanism.valid(honest).all()
    assert mechanism.valid(honest[:0]).shape == (0,)
    random = rng.integers(256, size=(100, width), dtype=np.uint8)
    sparse = random & rng.integers(256, size=(100, width), dtype=np.uint8) & 7
    bent_rows = honest.copy()
    bent_rows[np.arange(OFTEN), rng.integers(width, size=OFTEN)] ^= rng.integers(
        1, 256, OFTEN, dtype=np.uint8
    )
    rows = np.concatenate([random, sparse, bent_rows])
    valid = mechanism.valid(rows)
    assert valid.tolist() == [unpacks(mechanism, row) for row in rows]
    assert mechanism.valid(rows[::-3, :]).tolist() == valid[::-3].tolist()
    if not valid.all():  # for some, every byte is a report
        with pytest.raises(ReportError, match="report"):
            mechanism.unpack(np.concatenate([honest[:5], rows[~valid]]).tobytes())
    for wrong in (honest[0], honest[:, :-1], np.hstack([honest, honest]), honest.astype(int)):
        with pytest.raises(ReportError, match="rows of"):
            mechanism.valid(wrong)


def check_each_person_alone(mechanism: Mechanism) -> None:
    """A batch is the same as its people one by one: nobody's report depends on another's value."""
    accepted = mechanism.accepting_its_loss() if mechanism.broken else mechanism
    values, domain = crowd(mechanism, 40), mechanism.domain
    keys = [Key(SECRET.name(str(person))) for person in range(40)]
    people = Keys(np.stack([np.frombuffer(SECRET.name(str(p)), np.uint8) for p in range(40)]))
    written = domain.written(domain.checked(values))
    rng = people.rng("answer", written, coins=people.rng("coin"))
    together = mechanism.to_rows(accepted.privatize(values, rng))
    for person, key in enumerate(keys):
        own = key.rng("answer", written[person].tobytes(), coins=key.rng("coin"))
        alone = accepted.privatize(domain.part(values, slice(person, person + 1)), own)
        assert mechanism.to_rows(alone).tobytes() == together[person].tobytes()


def check_public_coins(mechanism: Mechanism) -> None:
    """Coins that must not look at the answer do not; a report without any draws none in public."""
    accepted = mechanism.accepting_its_loss() if mechanism.broken else mechanism
    domain, key = mechanism.domain, SECRET
    for person in range(8):
        parts = []
        for answer in domain.extremes():
            coins = key.rng("coin", str(person)) if shown(mechanism) else ScriptedRng([])
            value = domain.repeated(answer, 1)
            own = key.rng("answer", domain.written(value)[0].tobytes(), str(person), coins=coins)
            parts.append(public_part(mechanism, accepted.privatize(value, own)))
        assert parts[0] == parts[1]


def shown(mechanism: Mechanism) -> bool:
    """Whether a report has a part that no answer decides."""
    sampled = isinstance(mechanism, SampledTuple)
    inner = mechanism.frame.cells if isinstance(mechanism, FramedMechanism) else ()
    return mechanism.name in PUBLIC or sampled or any(map(shown, inner))


def public_part(mechanism: Mechanism, reports: Any) -> list[Any]:
    """What one report shows that no answer decides: each mechanism's, in its own words."""
    if mechanism.name in PUBLIC:
        part: list[Any] = np.asarray(PUBLIC[mechanism.name](mechanism, reports)).tolist()
        return part
    if not isinstance(mechanism, FramedMechanism):
        return []
    frame, parts = mechanism.frame, []
    for (cell,), octets in frame.entries(mechanism.to_rows(reports)):
        law = frame.cells[cell]
        parts += [int(cell), public_part(law, law.from_rows(octets[:, : law.report_bytes]))]
    return parts


SECRET = Key(bytes(range(32)))
PUBLIC: dict[str, Callable[[Mechanism, Any], Any]] = {
    "olh": lambda m, reports: reports[:, :2],
    "hadamard": lambda m, reports: reports >> 1,
    "bassily-smith": lambda m, reports: reports >> 1,
    "privunit": lambda m, reports: reports[:, :SEED_BYTES],
    "block": lambda m, reports: reports[:, :-2],
    "hiera-gradient": lambda m, reports: reports[:, :2],
}
"""Mechanisms whose report has a part that no answer decides: which part it is."""


BAD_VALUES: dict[type[Domain], tuple[Any, ...]] = {
    Number: ([0.5, 1.0000001], [-1.5], [31.4159], [math.nan], [math.inf], [[0.5]], ["a"]),
    NumberOrNone: ([0.5, 1.0000001], [-1.5], [31.4159], [math.inf], [[0.5]], ["a"], [None]),
    Items: ([0, 31_415], [-1], [0.5], [[1]], ["a"], [True]),
    Box: (np.zeros((1, 2)), "abc", 0.5),
    Ball: (np.zeros((1, 2)), "abc", 0.5),
}


def check_refusals(mechanism: Mechanism) -> None:
    """Bad values and bad reports are refused, and no private value is in the message."""
    kind = Number if mechanism.takes is Graded else mechanism.takes
    accepted = mechanism.accepting_its_loss() if mechanism.broken else mechanism
    for bad in BAD_VALUES[kind]:
        with pytest.raises(InputError) as refused:
            accepted.privatize(bad, system_rng())
        assert "31.4159" not in str(refused.value)
        assert "31415" not in str(refused.value)
    columns = crowd(mechanism, 3)
    if kind in (Box, Ball):
        worse = [np.array(c, dtype=float) for c in (columns if kind is Box else columns.T)]
        for value in (1.5, math.nan):
            worse[0][1] = value
            with pytest.raises(InputError):
                accepted.privatize(worse, system_rng())
    empty = accepted.privatize(mechanism.domain.part(columns, slice(0, 0)), system_rng())
    assert len(empty) == 0
    if isinstance(mechanism, NumericMechanism):
        for bad in (mechanism.symbols, -1, 10**9):
            with pytest.raises(ReportError):
                mechanism.tally(np.array([0, bad]))
    good = np.asarray(accepted.privatize(columns, system_rng()))
    for bad in (good.astype(np.float64), good[..., None], np.full((2, 77), 255, dtype=np.uint8)):
        with pytest.raises(ReportError):
            mechanism.tally(bad)
    if mechanism.report_bytes > 1:
        with pytest.raises(FormatError):
            mechanism.unpack(mechanism.pack(good)[:-1])


def check_fresh_randomness(mechanism: Mechanism) -> None:
    """Two runs on the system's generator differ, whoever wrote the mechanism."""
    accepted = mechanism.accepting_its_loss() if mechanism.broken else mechanism
    values = mechanism.domain.repeated(mechanism.domain.extremes()[0], 4000)
    first, second = (accepted.privatize(values, system_rng()) for _ in range(2))
    assert (first != second).any()


def check_tallies(mechanism: Mechanism) -> None:
    """Tallies merge in any order, travel as bytes, and belong to one mechanism."""
    reports = mechanism.privatize(crowd(mechanism, 900), seeded_rng(2))
    whole = mechanism.tally(reports)
    parts = [mechanism.tally(reports[i::3]) for i in range(3)]
    assert Tally.merge(parts[::-1]).to_bytes() == whole.to_bytes()
    assert Tally.from_bytes(whole.to_bytes(), mechanism) == whole
    assert mechanism.tally_rows(mechanism.to_rows(reports)) == whole
    kept = np.asarray(reports).copy()
    kept.setflags(write=False)
    assert mechanism.tally(kept) == whole
    assert (kept == reports).all()
    with pytest.raises(EmptyError):
        mechanism.estimate(mechanism.empty())
    with pytest.raises(FormatError):
        Tally(mechanism, whole.counts + 900 * mechanism.adds[1], whole.n)


# --- estimates ---------------------------------------------------------------------------------


def check_unbiased(mechanism: Mechanism) -> None:
    """E[value | x] = x at every grid point, in rationals; and every estimate of a crowd."""
    if isinstance(mechanism, NumericMechanism):
        _check_grid_points(mechanism)
    values = crowd(mechanism, 60_000)
    estimate = collected(mechanism, values, seeded_rng(11))
    scores = (flat(estimate.value) - truth(mechanism.domain, values)) / flat(estimate.stderr)
    assert np.abs(scores).max() < STANDARD_ERRORS


def _check_grid_points(mechanism: NumericMechanism) -> None:
    design = mechanism.design
    assert design.unbiased  # every row, in floating point
    values = [Fraction(value) for value in design.values.tolist()]
    scale = max(1.0, float(np.abs(design.values).max()))
    rows = range(0, len(design.weights), max(1, len(design.weights) // 8))
    for row in [*rows, len(design.weights) - 1]:
        weights = design.weights[row].tolist()
        mean = sum(w * v for w, v in zip(weights, values, strict=True)) / sum(weights)
        assert abs(float(mean) - design.grid.points[row]) < 1e-13 * scale


def check_variance(mechanism: Mechanism) -> None:
    """The predicted variance is that of simulated reports, at and between grid points."""
    if not isinstance(mechanism, NumericMechanism):
        return  # the others' is checked by the width of their intervals, and in their own tests
    n = 50_000
    for x in (-1.0, -0.3, 0.0, 0.777, 1.0):
        reports = mechanism.privatize(np.full(n, x), seeded_rng(17))
        squares = (mechanism.design.values[reports] - x) ** 2
        predicted = float(mechanism.variance(x))
        stderr = squares.std() / math.sqrt(n)
        assert abs(squares.mean() - predicted) < STANDARD_ERRORS * stderr + 1e-9
        assert predicted <= mechanism.worst_variance() + 1e-12


def coverage(
    mechanism: Mechanism, about: str, runs: int, level: float, n: int = 1500
) -> np.ndarray:
    """The share of runs in which each interval covers what it is about."""
    rng, domain = seeded_rng(23), mechanism.domain
    population = crowd(mechanism, 30_000)
    draw = np.random.default_rng(29)
    fixed = domain.part(population, draw.integers(0, 30_000, n))
    hits = np.zeros(len(truth(domain, fixed)))
    everybody = truth(domain, fixed if about == "participants" else population)
    for _ in range(runs):
        drawn = domain.part(population, draw.integers(0, 30_000, n))
        low, high = ends(
            collected(mechanism, fixed if about == "participants" else drawn, rng, about), level
        )
        hits += (low <= everybody) & (everybody <= high)
    return hits / runs


def check_coverage(
    mechanism: Mechanism, *, tight: bool = True, runs: int = 500, people: int = 1500
) -> None:
    """Intervals cover as often as they say; and, where the reports can tell, not much more often.

    Over all figures together, which are nearly independent where there are many.
    """
    level = 0.9
    for about in ("participants", "population"):
        shares = coverage(mechanism, about, runs, level, people)
        slack = 4 * math.sqrt(level * (1 - level) / runs)
        worst = slack * (1 + 0.1 * math.log2(len(shares)))  # of many, one is further off
        assert shares.min() > level - worst, (about, shares)
        assert shares.mean() > level - slack, (about, shares)
        if tight or (about == "population" and mechanism.takes is Number):
            assert shares.mean() < level + slack, (about, shares)


def check_fork(rng: Rng) -> None:
    """A forked child never repeats its parent's words."""
    rng.words(4)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, rng.words(4).tobytes())
        os._exit(0)
    os.waitpid(child, 0)
    theirs = np.frombuffer(os.read(read, 64), dtype=np.uint64)
    os.close(read)
    os.close(write)
    assert (theirs != rng.words(4)).all()


MECHANISM_CHECKS = [
    check_loss,
    check_document,
    check_another_law,
    check_wire,
    check_valid,
    check_each_person_alone,
    check_public_coins,
    check_refusals,
    check_fresh_randomness,
    check_tallies,
    check_unbiased,
    check_variance,
]
