"""What a collector and a published campaign rest on: which rows are valid, and the law as data."""

from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import pytest

import murmuration
from cases import CASES, KEPT, PUBLISHED, SUMMED, TUPLES, fives
from checks import people
from murmuration import Mechanism, seeded_rng, system_rng
from murmuration.audit.exact import audit
from murmuration.errors import (
    FormatError,
    MismatchError,
    MurmurationError,
    ParameterError,
    PromiseError,
    ReportError,
)
from murmuration.exact.randomness import WHOLE, ScriptedRng
from murmuration.learn.hiera import HieraGradient
from murmuration.mechanisms.item.base import FrequencyMechanism
from murmuration.mechanisms.number import optimal
from murmuration.mechanisms.number.base import NumericMechanism
from murmuration.mechanisms.number.duchi import Duchi
from murmuration.mechanisms.number.optimal import Optimal
from murmuration.mechanisms.registry import publish, published
from murmuration.mechanisms.vector.base import TupleMechanism
from murmuration.mechanisms.vector.sampled import Sampled

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
named = pytest.mark.parametrize("mechanism", NAMED, ids=lambda m: m.name)


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


LAST_AND_BEYOND = [
    ("grr", {"k": 200}, [199], [200]),
    ("grr", {"k": 300}, [43, 1], [44, 1]),
    ("sue", {"k": 12}, [255, 15], [255, 16]),
    ("hadamard", {"k": 12}, [31], [32]),
    ("olh", {"k": 12}, [0xF0, 0xFF, 0xF0, 0xFF, 3], [0xF1, 0xFF, 0, 0, 0]),
    ("olh", {"k": 12}, [0, 0, 0, 0, 0], [0, 0, 0xF1, 0xFF, 0]),
    ("olh", {"k": 12}, [0, 0, 0, 0, 3], [0, 0, 0, 0, 4]),
    ("block", {"d": 5, "size": 2}, [4, 0, 63, 63, 3, 0], [5, 0, 0, 0, 0, 0]),
    ("block", {"d": 5, "size": 2}, [0, 0, 0, 0, 0, 0], [0, 0, 0, 64, 0, 0]),
    ("block", {"d": 5, "size": 2}, [0, 0, 0, 0, 3, 0], [0, 0, 0, 0, 4, 0]),
    ("privunit", {"d": 5, "candidates": 64}, [255, 255, 255, 255, 63], [0, 0, 0, 0, 64]),
    ("harmony", {"d": 5}, [4, 1], [5, 1]),
    ("harmony", {"d": 5}, [0, 1], [0, 2]),
    ("sampled", {"d": 3, "sample": 2, "numeric": "duchi"}, [0, 1, 2, 1], [2, 1, 0, 1]),
    ("sampled", {"d": 3, "sample": 2, "numeric": "duchi"}, [1, 0, 2, 0], [1, 0, 1, 0]),
]


@pytest.mark.parametrize(("name", "parameters", "last", "beyond"), LAST_AND_BEYOND)
def test_the_alphabet_ends_where_it_says(name, parameters, last, beyond) -> None:
    mechanism = murmuration.mechanism(name, epsilon=1.0, **parameters)
    assert mechanism.valid(np.array([last, beyond], dtype=np.uint8)).tolist() == [True, False]


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


# --- the law as data ---------------------------------------------------------------------------


def travelled(document: dict) -> dict:
    return json.loads(json.dumps(document, allow_nan=False))


def numbers_in(law: object) -> list:
    """All numbers of a law, however deep, but not those that the analyst reads symbols as."""
    if isinstance(law, dict):
        inner = [value for key, value in law.items() if key not in ("values", "parameters")]
        return [number for value in inner for number in numbers_in(value)]
    if isinstance(law, list):
        return [number for value in law for number in numbers_in(value)]
    return [] if isinstance(law, str) else [law]


@named
def test_a_published_mechanism_is_the_same_one(mechanism: Mechanism) -> None:
    again = published(travelled(publish(mechanism)))
    assert again == mechanism
    assert again.fingerprint == mechanism.fingerprint
    assert again.loss() == mechanism.loss()
    assert again.report_bytes == mechanism.report_bytes
    assert sent(again, 100) == sent(mechanism, 100)
    assert publish(again) == publish(mechanism)


@every
def test_every_number_of_a_law_is_one_that_a_browser_reads_exactly(mechanism: Mechanism) -> None:
    law = travelled(mechanism.law())
    assert law == mechanism.law()
    numbers = numbers_in(law)
    assert all(type(number) is int and abs(number) < 1 << 53 for number in numbers)
    assert numbers
    assert mechanism.with_law(law).fingerprint == mechanism.fingerprint


def bent(law: object) -> object:
    """The same law with one number changed, the last one."""
    if isinstance(law, dict):
        last = [*law][-1]
        return {**law, last: bent(law[last])}
    if isinstance(law, list):
        return [*law[:-1], bent(law[-1])]
    return law + "1" if isinstance(law, str) else law + 1


@every
def test_a_law_with_one_number_changed_is_refused(mechanism: Mechanism) -> None:
    """Row totals, alphabets, sizes: whichever number is off by one, somebody notices."""
    law = travelled(mechanism.law())
    for key in law:
        if law[key] == []:
            continue
        with pytest.raises((FormatError, MismatchError)):
            mechanism.with_law({**law, key: bent(law[key])})


def test_the_language_that_wrote_it_does_not_matter() -> None:
    grr = murmuration.mechanism("grr", epsilon=1.0, k=4)
    law = grr.law()
    assert grr.with_law({"lie": float(law["lie"]), "truth": law["truth"]}) == grr
    with pytest.raises(
        MismatchError, match=r"published law is not that of Grr\(epsilon=1.0, k=4\)"
    ):
        grr.with_law({**law, "truth": law["truth"] - 1})
    with pytest.raises(MismatchError):
        murmuration.mechanism("subset", epsilon=1.0, k=4).with_law(
            {**murmuration.mechanism("subset", epsilon=1.0, k=4).law(), "size": True}
        )
    whole = Sampled(epsilon=1.0, d=2, numeric="duchi")
    document = travelled(publish(whole))
    document["parameters"]["epsilon"] = document["law"]["inner"][0]["parameters"]["epsilon"] = 1
    assert published(document).fingerprint == whole.fingerprint


# --- another table -----------------------------------------------------------------------------


def another() -> dict:
    """The table of a smaller epsilon: it keeps the promise of a larger one, and is another one."""
    return travelled(Optimal(epsilon=0.5).law())


def test_a_device_draws_from_the_published_table() -> None:
    own, tighter = Optimal(epsilon=1.0), Optimal(epsilon=0.5)
    assert own.fingerprint  # what was computed before must not come along
    own.privatize([0.5], system_rng())
    planted = own.with_law(another())
    values, words = people(300), seeded_rng(6).words(600)
    reports = planted.privatize(values, ScriptedRng(words))
    assert reports.tolist() == tighter.privatize(values, ScriptedRng(words)).tolist()
    assert reports.tolist() != own.privatize(values, ScriptedRng(words)).tolist()
    assert (planted.symbols, planted.epsilon) == (tighter.symbols, 1.0)
    assert planted.loss().ratio == tighter.loss().ratio
    assert planted.worst_variance() == tighter.worst_variance()
    assert len({m.fingerprint for m in (own, planted, tighter)}) == 3
    assert audit(planted).disagreements == 0
    assert Optimal(epsilon=1.0).fingerprint == own.fingerprint  # nobody else sees the table
    assert planted.accepting_its_loss().fingerprint == planted.fingerprint
    planted.privatize([0.5], system_rng())
    with pytest.raises(MismatchError):
        own.estimate(planted.tally(reports))


def test_a_published_table_is_never_solved_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A device needs no linear program, not even for an attribute of a tuple."""
    documents = [
        {**Optimal(epsilon=0.7731).heading(), "law": another()},
        publish(Sampled(epsilon=1.0, domains=(0, 0, 4))),
    ]
    documents[1]["parameters"]["epsilon"] = 0.7731
    documents[1]["law"]["inner"][0] = documents[0]
    items = murmuration.mechanism("subset", epsilon=0.7731, k=4)
    documents[1]["law"]["inner"][1] = publish(items)

    def unsolvable(*_: object) -> None:
        raise AssertionError("a table was built")

    monkeypatch.setattr(optimal, "stored", unsolvable)
    for document in documents:
        mechanism = published(travelled(document))
        rows = rows_of(mechanism, 20)
        assert mechanism.valid(rows).all()
        mechanism.estimate(mechanism.tally(mechanism.unpack(rows.tobytes())))
        mechanism.privatize(answers(mechanism, 2), system_rng())


def test_a_tuple_uses_the_published_tables_of_its_attributes() -> None:
    own = Sampled(epsilon=1.0, domains=(0, 0, 4))
    assert own.fingerprint  # what was computed before must not come along
    own.privatize(answers(own, 3), system_rng())
    law = travelled(own.law())
    assert law["attributes"] == [0, 0, 1]
    law["inner"][0]["law"] = another()
    planted = own.with_law(law)
    assert {inner.fingerprint for inner in planted.inner[:2]} == {
        Optimal(epsilon=1.0).with_law(another()).fingerprint
    }
    assert planted.inner[0] is planted.inner[1]
    assert planted.fingerprint != own.fingerprint
    assert planted.loss().ratio == own.inner[2].loss().ratio  # the items' is now the largest
    assert travelled(planted.law()) == law
    leaking = travelled(own.law())
    leaking["inner"][0]["law"] = travelled(Optimal(epsilon=2.0).law())
    with pytest.raises(PromiseError, match="nothing was sent"):
        own.with_law(leaking).privatize(answers(own, 3), system_rng())


@pytest.mark.parametrize("rng", [system_rng(), seeded_rng(1)], ids=["system", "seeded"])
def test_a_published_table_that_leaks_sends_nothing(rng) -> None:
    leaking = Optimal(epsilon=1.0)
    assert leaking.loss().holds  # known, of its own table
    leaking.privatize([0.5], rng)
    leaking = leaking.with_law(travelled(Optimal(epsilon=2.0).law()))
    assert not leaking.loss().holds
    with pytest.raises(PromiseError, match="nothing was sent"):
        leaking.privatize([0.5], rng)


def test_a_broken_promise_that_was_accepted_is_not_accepted_for_another_table() -> None:
    hiera = murmuration.mechanism("hiera", epsilon=(1.0, 0.5), edges=(0.25,))
    accepted = hiera.accepting_its_loss()
    accepted.privatize([0.5], system_rng())
    with pytest.raises(PromiseError):
        accepted.with_law(hiera.law()).privatize([0.5], system_rng())


def test_a_graded_table_must_not_mix_ranges() -> None:
    layouts = [{"epsilon": (0.4, 0.2), "edges": (edge,)} for edge in (0.25, 0.75)]
    one, other = (murmuration.mechanism("graded-bit", **layout) for layout in layouts)
    with pytest.raises(FormatError, match="in two ranges"):
        one.with_law(other.law())


# --- what is not a law -------------------------------------------------------------------------

GOOD = {"weights": [[3, 1], [1, 3]], "values": [-2.0, 2.0]}
HUGE = 10**400
MALFORMED = {
    "nothing": None,
    "a list": [],
    "text": "weights",
    "empty": {},
    "a key too few": {"weights": GOOD["weights"]},
    "a key too many": {**GOOD, "places": [0, WHOLE]},
    "weights that are no list": {**GOOD, "weights": 3},
    "rows that are no lists": {**GOOD, "weights": [3, 1]},
    "no rows": {**GOOD, "weights": []},
    "one row": {**GOOD, "weights": [[3, 1]]},
    "three cells": {**GOOD, "weights": [[3, 1], [2, 2], [2, 2], [1, 3]]},
    "no symbols": {"weights": [[], []], "values": []},
    "ragged rows": {**GOOD, "weights": [[3, 1], [1, 2, 1]]},
    "deeper rows": {**GOOD, "weights": [[[3], [1]], [[1], [3]]]},
    "another total": {**GOOD, "weights": [[3, 1], [1, 4]]},
    "no power of two": {**GOOD, "weights": [[4, 1], [1, 4]]},
    "a float": {**GOOD, "weights": [[3.0, 1], [1, 3]]},
    "a truth value": {**GOOD, "weights": [[3, True], [1, 3]]},
    "a text": {**GOOD, "weights": [["3", 1], [1, 3]]},
    "negative": {**GOOD, "weights": [[5, -1], [1, 3]]},
    "a huge weight": {**GOOD, "weights": [[HUGE, 1], [1, 3]]},
    "weights that wrap": {**GOOD, "weights": [[2**63, 2**63 + 4], [1, 3]]},
    "a value too many": {**GOOD, "values": [-2.0, 2.0, 0.0]},
    "no number": {**GOOD, "values": [-2.0, math.nan]},
    "infinite": {**GOOD, "values": [-math.inf, 2.0]},
    "a huge value": {**GOOD, "values": [-2.0, HUGE]},
    "values that are true": {**GOOD, "values": [True, 2.0]},
    "values that are text": {**GOOD, "values": ["-2", 2.0]},
    "biased": {**GOOD, "values": [-2.0, 2.001]},
    "never sent": {"weights": [[3, 1, 0], [1, 3, 0]], "values": [-2.0, 2.0, 0.0]},
}


@pytest.mark.parametrize("law", MALFORMED.values(), ids=MALFORMED)
def test_what_is_not_a_table_is_refused(law: object) -> None:
    duchi = Duchi(epsilon=2.0)
    assert duchi.with_law(GOOD).design.table.total == 4
    with pytest.raises(FormatError):
        duchi.with_law(law)
    sampled = Sampled(epsilon=2.0, d=2, numeric="duchi")
    document = publish(sampled)
    document["law"]["inner"][0]["law"] = law
    with pytest.raises(FormatError):
        published(document)


@pytest.mark.parametrize(
    "change",
    [
        {"places": [0, 1]},
        {"places": [0.0, 1, WHOLE]},
        {"places": [0, WHOLE // 2, WHOLE // 4, WHOLE]},
        {"places": [0, HUGE, WHOLE]},
        {"jumps": [3]},
        {"jumps": None},
        {"places": [0, WHOLE]},
    ],
    ids=str,
)
def test_what_is_not_a_grid_is_refused(change: dict) -> None:
    bit = murmuration.mechanism("graded-bit", epsilon=(0.4, 0.2), edges=(0.25,))
    with pytest.raises(FormatError):
        bit.with_law({**bit.law(), **change})


SAMPLED = publish(Sampled(epsilon=2.0, d=2, numeric="duchi"))
ENTRY = SAMPLED["law"]["inner"][0]


@pytest.mark.parametrize(
    "change",
    [
        {"inner": None},
        {"inner": {}},
        {"inner": []},
        {"inner": ["duchi"]},
        {"inner": [ENTRY, ENTRY]},
        {"inner": [{"law": ENTRY["law"]}]},
        {"inner": [{**ENTRY, "mechanism": "dithered"}]},
        {"inner": [{**ENTRY, "parameters": {"epsilon": 3.0}}]},
        {"inner": [{"mechanism": "duchi", "parameters": {"epsilon": 2.0}}]},
        {"attributes": [0, 1]},
        {"sample": 2},
        {"ends": [1]},
        {"more": 1},
    ],
    ids=str,
)
def test_what_is_not_a_tuple_is_refused(change: dict) -> None:
    with pytest.raises((FormatError, MismatchError)):
        published({**SAMPLED, "law": {**SAMPLED["law"], **change}})


GRR = publish(murmuration.mechanism("grr", epsilon=1.0, k=4))
BASSILY = publish(murmuration.mechanism("bassily-smith", epsilon=1.0, k=4))


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        {},
        {**GRR, "more": 1},
        {**GRR, "mechanism": "auto"},
        {**GRR, "mechanism": ["grr"]},
        {**GRR, "mechanism": None},
        {**GRR, "parameters": None},
        {**GRR, "parameters": {"epsilon": 1.0}},
        {**GRR, "parameters": {"epsilon": 1.0, "k": 4, "name": "oue"}},
        {**GRR, "parameters": {"epsilon": HUGE, "k": 4}},
        {**GRR, "parameters": {"epsilon": 1.0, "k": 5}},
        {**GRR, "law": None},
        {**GRR, "law": {"truth": {1, 2}}},
        {**GRR, "law": {"truth": 1, 2: 3}},
        {**BASSILY, "parameters": {**BASSILY["parameters"], "people": HUGE}},
        {**BASSILY, "parameters": {**BASSILY["parameters"], "beta": "small"}},
    ],
    ids=repr,
)
def test_what_is_not_a_mechanism_is_refused(document: object) -> None:
    with pytest.raises(MurmurationError):
        published(document)


def test_what_has_no_name_is_not_published() -> None:
    @dataclasses.dataclass(frozen=True)
    class Copied(Duchi):
        pass

    for unnamed in (UNNAMED[0], Copied(epsilon=1.0)):
        with pytest.raises(ParameterError, match="has no name"):
            publish(unnamed)


def test_ordinary_grids_are_even_and_graded_ones_are_not() -> None:
    for mechanism in [*NUMERIC, *GRADED]:
        assert isinstance(mechanism, NumericMechanism)
        assert (mechanism.design.uneven is None) == mechanism.even
