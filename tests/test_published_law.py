"""What a collector and a published campaign rest on: which rows are valid, and the law as data."""

from __future__ import annotations

import numpy as np
import pytest

import murmuration
from cases import CASES, KEPT, PUBLISHED, SUMMED, TUPLES, fives
from checks import people
from murmuration import Mechanism, seeded_rng
from murmuration.errors import ReportError
from murmuration.frequency import FrequencyMechanism
from murmuration.learn.hiera import HieraGradient
from murmuration.tuples import TupleMechanism

MIXED = (0, 5, 0, 12, 300)
FEWER = {"bassily-smith": {"people": 2000}, "hybrid-composition": {"people": 2000}}


def of_items() -> list[Mechanism]:
    sizes = {name: [*rows, (1, 12)] for name, rows in SUMMED.items()}
    return [
        murmuration.mechanism(name, epsilon=epsilon, k=k, **FEWER.get(name, {}))
        for name, pairs in sizes.items()
        for epsilon, k in pairs
    ]


def of_tuples() -> list[Mechanism]:
    numbers = [(name, {"d": 10}) for name in TUPLES]
    mixed = [(name, {"domains": MIXED}) for name in ("harmony", "sampled", "hybrid-composition")]
    other = [
        ("sampled", {"domains": MIXED, "sample": 3, "numeric": "piecewise", "categorical": "olh"}),
        ("sampled", {"d": 3, "shares": (1.0, 2.0, 0.5), "numeric": "dct"}),
        ("sampled", {"d": 300, "numeric": "duchi", "sample": 2}),
        ("block", {"d": 10, "size": 4}),
        ("privunit", {"d": 20, "candidates": 64}),
    ]
    return [
        murmuration.mechanism(name, epsilon=2.0, **{**FEWER.get(name, {}), **parameters})
        for name, parameters in [*numbers, *mixed, *other]
    ]


def as_published() -> list[Mechanism]:
    graded = {"epsilon": (1.0, 0.5), "edges": (0.25,)}
    given = {"hiera": graded, "graded-laplace": graded, "dct": {"epsilon": 1.0}}
    assert set(given) == PUBLISHED
    more = [("hiera", {**graded, "factor": "calibrated"}), ("hiera", {**graded, "factor": 0.5})]
    return [murmuration.mechanism(name, **p) for name, p in [*given.items(), *more]]


NUMERIC = [*(case.at(e) for case in CASES for e in (0.5, 4.0)), *as_published()]
GRADED = [case.make() for case in KEPT]
NAMED = [*NUMERIC, *GRADED, *of_items(), *of_tuples()]
UNNAMED = [HieraGradient(epsilon=2.5, d=301, budgets=fives(0.5), edges=(-0.6, -0.2, 0.2, 0.6))]

every = pytest.mark.parametrize("mechanism", [*NAMED, *UNNAMED], ids=lambda m: m.name)


def answers(mechanism: Mechanism, n: int):
    """Values of n people that the mechanism can be asked about."""
    rng = np.random.default_rng(8)
    if isinstance(mechanism, FrequencyMechanism):
        return rng.integers(mechanism.k, size=n)
    if isinstance(mechanism, TupleMechanism):
        d = len(mechanism.attributes)
        return [
            rng.integers(k, size=n) if k else rng.uniform(-1, 1, size=n) / np.sqrt(d)
            for k in mechanism.attributes
        ]
    return people(n)


def sent(mechanism: Mechanism, n: int) -> bytes:
    """The bytes that n people's devices send, always the same."""
    return mechanism.pack(mechanism.privatize(answers(mechanism, n), seeded_rng(12)))


def rows_of(mechanism: Mechanism, n: int) -> np.ndarray:
    return np.frombuffer(sent(mechanism, n), np.uint8).reshape(-1, mechanism.report_bytes)


def unpacks(mechanism: Mechanism, row: np.ndarray) -> bool:
    try:
        return len(mechanism.unpack(row.tobytes())) == 1
    except ReportError:
        return False


# --- valid -------------------------------------------------------------------------------------


@every
def test_honest_rows_are_valid(mechanism: Mechanism) -> None:
    rows = rows_of(mechanism, 200)
    valid = mechanism.valid(rows)
    assert valid.shape == (200,)
    assert valid.dtype == np.bool_
    assert valid.all()
    assert mechanism.valid(rows[:0]).shape == (0,)


@every
def test_a_row_is_valid_when_unpack_takes_it(mechanism: Mechanism) -> None:
    """Random bytes; bytes with most bits clear, which come nearer; honest rows with a byte bent."""
    rng, width = np.random.default_rng(3), mechanism.report_bytes
    random = rng.integers(256, size=(150, width), dtype=np.uint8)
    sparse = random & rng.integers(256, size=(150, width), dtype=np.uint8) & 7
    bent = rows_of(mechanism, 200).copy()
    bent[np.arange(200), rng.integers(width, size=200)] ^= rng.integers(1, 256, 200, dtype=np.uint8)
    rows = np.concatenate([random, sparse, bent])
    assert mechanism.valid(rows).tolist() == [unpacks(mechanism, row) for row in rows]
    assert mechanism.valid(rows[::-3, :]).tolist() == mechanism.valid(rows)[::-3].tolist()


@every
def test_the_first_row_that_is_not_valid_is_why_all_are_refused(mechanism: Mechanism) -> None:
    rows = np.random.default_rng(4).integers(256, size=(100, mechanism.report_bytes), dtype="u1")
    good, bad = rows_of(mechanism, 5), rows[~mechanism.valid(rows)]
    if len(bad):  # for some, every byte is a report
        with pytest.raises(ReportError, match=r"report|attribute"):
            mechanism.unpack(np.concatenate([good, bad]).tobytes())


@every
def test_rows_of_another_shape_are_refused(mechanism: Mechanism) -> None:
    rows = rows_of(mechanism, 3)
    for wrong in (rows[0], rows[:, :-1], np.hstack([rows, rows]), rows.astype(np.int64)):
        with pytest.raises(ReportError, match="rows of"):
            mechanism.valid(wrong)


def test_what_is_wrong_with_a_tuple_is_said() -> None:
    sampled = murmuration.mechanism("sampled", epsilon=1.0, domains=(0, 5), numeric="duchi")
    for row, problem in {
        (2, 0): "report 1 names attributes that it cannot have",
        (0, 2): "of those on attribute 0, report 2 at position 1 is outside the alphabet 0..1",
        (1, 0xFF): "of those on attribute 1, report 0 of subset has more than 5 bits",
        (1, 0x00): "of those on attribute 1, report 0 has 0 items, not 1",
    }.items():
        with pytest.raises(ReportError, match=problem):
            sampled.unpack(bytes([0, 1, *row]))
    longer = murmuration.mechanism("sampled", epsilon=1.0, domains=(0, 12), numeric="duchi")
    with pytest.raises(ReportError, match="a report on attribute 0 is longer than it can be"):
        longer.unpack(bytes([0, 1, 1]))
