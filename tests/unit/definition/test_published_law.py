"""What a collector and a published campaign rest on: which rows are valid, and the law as data."""

from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import pytest

import murmuration
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
from murmuration.mechanisms.number import optimal
from murmuration.mechanisms.number.base import NumericMechanism
from murmuration.mechanisms.number.duchi import Duchi
from murmuration.mechanisms.number.optimal import Optimal
from murmuration.mechanisms.registry import from_document, to_document
from murmuration.mechanisms.vector.sampled import Sampled
from murmuration.testing.expected import crowd
from tests.support.cases import GRADED, NUMBERS
from tests.support.checks import people


def rows_of(mechanism: Mechanism, n: int) -> np.ndarray:
    """The bytes that n people's devices send, always the same."""
    return mechanism.to_rows(mechanism.privatize(crowd(mechanism, n), seeded_rng(12)))


# --- valid -------------------------------------------------------------------------------------


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
        (0, 2): "report 1, on attribute 0: report 2 at position 0 is outside the alphabet 0..1",
        (1, 0xFF): "report 1, on attribute 1: report 0 of subset has more than 5 bits",
        (1, 0x00): "report 1, on attribute 1: report 0 has 0 items, not 1",
    }.items():
        with pytest.raises(ReportError, match=problem):
            sampled.unpack(bytes([0, 1, *row]))
    longer = murmuration.mechanism("sampled", epsilon=1.0, domains=(0, 12), numeric="duchi")
    with pytest.raises(ReportError, match="report 0 on attribute 0 is longer than it can be"):
        longer.unpack(bytes([0, 1, 1]))


# --- the law as data ---------------------------------------------------------------------------


def travelled(document: dict) -> dict:
    return json.loads(json.dumps(document, allow_nan=False))


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
    document = travelled(to_document(whole))
    document["parameters"]["epsilon"] = document["law"]["inner"][0]["parameters"]["epsilon"] = 1
    assert from_document(document).fingerprint == whole.fingerprint


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
        to_document(Sampled(epsilon=1.0, domains=(0, 0, 4))),
    ]
    documents[1]["parameters"]["epsilon"] = 0.7731
    documents[1]["law"]["inner"][0] = documents[0]
    items = murmuration.mechanism("subset", epsilon=0.7731, k=4)
    documents[1]["law"]["inner"][1] = to_document(items)

    def unsolvable(*_: object) -> None:
        raise AssertionError("a table was built")

    monkeypatch.setattr(optimal, "stored", unsolvable)
    for document in documents:
        mechanism = from_document(travelled(document))
        rows = rows_of(mechanism, 20)
        assert mechanism.valid(rows).all()
        mechanism.estimate(mechanism.tally(mechanism.unpack(rows.tobytes())))
        mechanism.privatize(crowd(mechanism, 2), system_rng())


def test_a_tuple_uses_the_published_tables_of_its_attributes() -> None:
    own = Sampled(epsilon=1.0, domains=(0, 0, 4))
    assert own.fingerprint  # what was computed before must not come along
    own.privatize(crowd(own, 3), system_rng())
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
        own.with_law(leaking).privatize(crowd(own, 3), system_rng())


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
    document = to_document(sampled)
    document["law"]["inner"][0]["law"] = law
    with pytest.raises(FormatError):
        from_document(document)


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


SAMPLED = to_document(Sampled(epsilon=2.0, d=2, numeric="duchi"))
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
        from_document({**SAMPLED, "law": {**SAMPLED["law"], **change}})


GRR = to_document(murmuration.mechanism("grr", epsilon=1.0, k=4))
BASSILY = to_document(murmuration.mechanism("bassily-smith", epsilon=1.0, k=4))


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
        from_document(document)


def test_what_has_no_name_is_not_published() -> None:
    @dataclasses.dataclass(frozen=True)
    class Copied(Duchi):
        pass

    with pytest.raises(ParameterError, match="has no name"):
        to_document(Copied(epsilon=1.0))


@pytest.mark.slow
def test_ordinary_grids_are_even_and_graded_ones_are_not() -> None:
    for mechanism in (made for case in [*NUMBERS, *GRADED] for made in case.all()):
        assert isinstance(mechanism, NumericMechanism)
        assert (mechanism.design.uneven is None) == mechanism.even
