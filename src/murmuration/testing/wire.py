"""Checks of what travels: documents, reports as bytes, refusals, tallies."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np

from murmuration.audit.empirical import attack, wire
from murmuration.errors import EmptyError, FormatError, InputError, MismatchError, ReportError
from murmuration.exact.arrays import Rows
from murmuration.exact.randomness import seeded_rng, system_rng
from murmuration.mechanisms.base import Mechanism
from murmuration.mechanisms.registry import tuples
from murmuration.mechanisms.tally import Tally
from murmuration.testing.expected import accepted, crowd, expect, refused

OFTEN = 200
"""Reports that must all be valid."""
LARGEST = 1 << 53
"""From here on a browser does not read integers exactly."""
PRIVATE = ("31.4159", "31415926", "31,415,926")
"""How a refused value would look in a message."""


# --- documents -----------------------------------------------------------------------------------


def check_document(mechanism: Mechanism) -> None:
    """What is published makes the same mechanism, with integers that a browser reads exactly."""
    document = json.loads(json.dumps(mechanism.document(), allow_nan=False))
    again = _read(mechanism, document)
    same = (again, again.fingerprint, again.loss()) == (
        mechanism,
        mechanism.fingerprint,
        mechanism.loss(),
    )
    expect(
        same and again.document() == mechanism.document(),
        "its own document makes another mechanism: `with_law` must take what `law` returns, and "
        "every field must be in `parameters`",
    )
    values = crowd(mechanism, 100)
    sent = [law.pack(law.privatize(values, seeded_rng(12))) for law in (mechanism, again)]
    expect(sent[0] == sent[1], "the mechanism of its own document sends other reports")
    numbers = _numbers_in(document["law"])
    expect(bool(numbers), "`law` has no numbers: a device could not draw from it")
    wrong = [number for number in numbers if type(number) is not int or abs(number) >= LARGEST]
    expect(
        not wrong, f"`law` has {wrong[:1]}: it must be made of whole numbers below 2^53, or text"
    )


def _read(mechanism: Mechanism, document: dict[str, Any]) -> Mechanism:
    """Return the mechanism of a document, whether or not its name is registered."""
    given = {name: tuples(value) for name, value in document["parameters"].items()}
    fields = {field.name for field in dataclasses.fields(mechanism)}
    expect(set(given) == fields, f"the document has the parameters {[*given]}, not its fields")
    return type(mechanism)(**given).with_law(document["law"])


def _numbers_in(law: object) -> list[Any]:
    """Return all numbers of a law, but not those that the analyst reads symbols as."""
    if isinstance(law, dict):
        inner = [value for key, value in law.items() if key not in ("values", "parameters")]
        return [number for value in inner for number in _numbers_in(value)]
    if isinstance(law, list):
        return [number for value in law for number in _numbers_in(value)]
    return [] if isinstance(law, str) else [law]


def check_another_law(mechanism: Mechanism) -> None:
    """Row totals, alphabets, sizes: whichever number of a law is off by one, somebody notices."""
    law = json.loads(json.dumps(mechanism.law()))
    again = mechanism.with_law(law)
    expect(again.fingerprint == mechanism.fingerprint, "its own law makes another mechanism")
    for key in law:
        if law[key] != []:
            with refused((FormatError, MismatchError), f"a law whose {key!r} is changed"):
                mechanism.with_law({**law, key: _bent(law[key])})


def _bent(law: Any) -> Any:
    """Return the same law with one number changed, the last one."""
    if isinstance(law, dict):
        last = [*law][-1]
        return {**law, last: _bent(law[last])}
    if isinstance(law, list):
        return [*law[:-1], _bent(law[-1])]
    return law + "1" if isinstance(law, str) else law + 1


# --- reports -------------------------------------------------------------------------------------


def check_wire(mechanism: Mechanism) -> None:
    """Reports have one length, survive the wire, and tell no more than the budget."""
    n, width = 2000, mechanism.report_bytes
    reports = mechanism.privatize(crowd(mechanism, n), seeded_rng(3))
    data = mechanism.pack(reports)
    text = f"{n:,} reports take {len(data):,} bytes, not {n:,} times {width}: all have one length"
    expect(len(data) == n * width, text)
    again = bool((mechanism.unpack(data) == reports).all())
    alone = bool((mechanism.unpack(mechanism.pack(reports[7:8])) == reports[7:8]).all())
    expect(again and alone, "reports are other ones after `pack` and `unpack`")
    if not mechanism.broken:
        inputs = mechanism.domain.told_apart(mechanism.loss().inputs)
        evidence = attack(wire(mechanism, seeded_rng(4)), *inputs, n=20_000)
        expect(
            evidence.epsilon <= mechanism.budget,
            f"bytes on the wire tell answers {inputs} apart by {evidence.epsilon:.4g} or more, "
            f"above {mechanism.budget:g}: by the {evidence.feature}",
        )


def check_valid(mechanism: Mechanism) -> None:
    """A row is valid exactly when `unpack` takes it.

    Random bytes; bytes with most bits clear, which come nearer; honest rows with a byte bent.
    """
    honest = _rows_of(mechanism, OFTEN)
    expect(bool(mechanism.valid(honest).all()), "`possible` refuses reports that `respond` makes")
    expect(mechanism.valid(honest[:0]).shape == (0,), "`possible` must take no reports, too")
    rows = _tried_rows(honest, mechanism.report_bytes)
    valid = mechanism.valid(rows)
    taken = [_unpacks(mechanism, row) for row in rows]
    expect(valid.tolist() == taken, "`valid` and `unpack` must take the same rows of bytes")
    backwards = mechanism.valid(rows[::-3, :])
    expect(backwards.tolist() == valid[::-3].tolist(), "`possible` must look at each row alone")
    if not valid.all():  # for some, every byte is a report
        with refused(ReportError, "an upload with a row that is no report"):
            mechanism.unpack(np.concatenate([honest[:5], rows[~valid]]).tobytes())
    for wrong in (honest[0], honest[:, :-1], np.hstack([honest, honest]), honest.astype(int)):
        with refused(ReportError, f"an array of {wrong.dtype} of shape {wrong.shape}"):
            mechanism.valid(wrong)


def _rows_of(mechanism: Mechanism, n: int) -> Rows:
    return mechanism.to_rows(mechanism.privatize(crowd(mechanism, n), seeded_rng(12)))


def _tried_rows(honest: Rows, width: int) -> Rows:
    rng, n = np.random.default_rng(3), len(honest)
    random = rng.integers(256, size=(100, width), dtype=np.uint8)
    sparse = random & rng.integers(256, size=(100, width), dtype=np.uint8) & 7
    bent = honest.copy()
    bent[np.arange(n), rng.integers(width, size=n)] ^= rng.integers(1, 256, n, dtype=np.uint8)
    return np.concatenate([random, sparse, bent])


def _unpacks(mechanism: Mechanism, row: Rows) -> bool:
    try:
        return len(mechanism.unpack(row.tobytes())) == 1
    except ReportError:
        return False


def check_refusals(mechanism: Mechanism) -> None:
    """Bad values and bad reports are refused, and no private value is in the message."""
    law, domain = accepted(mechanism), mechanism.domain
    for bad in domain.unfit():
        try:
            law.privatize(bad, system_rng())
        except InputError as problem:
            told = any(private in str(problem) for private in PRIVATE)
            expect(not told, f"the message repeats a private value: {problem}")
        else:
            expect(False, f"the value {bad!r} must be refused with InputError; it was taken")
    values = crowd(mechanism, 3)
    nobody = law.privatize(domain.part(values, slice(0, 0)), system_rng())
    expect(len(nobody) == 0, f"no people sent {len(nobody)} reports")
    good = np.asarray(law.privatize(values, system_rng()))
    for wrong in _wrong_reports(mechanism, good):
        last = wrong.ravel()[-1]
        with refused(ReportError, f"{wrong.dtype} of shape {wrong.shape} that end with {last}"):
            mechanism.tally(wrong)
    if mechanism.report_bytes > 1:
        with refused(FormatError, "an upload whose last byte is cut off"):
            mechanism.unpack(mechanism.pack(good)[:-1])


def _wrong_reports(mechanism: Mechanism, good: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    """Return reports of another type, shape or size; and symbols that are not in the alphabet."""
    wrong = [good.astype(np.float64), good[..., None], np.full((2, 77), 255, dtype=np.uint8)]
    if good.ndim == 1:
        symbols = getattr(mechanism, "symbols", 10**8)
        wrong += [np.array([0, symbol]) for symbol in (symbols, -1, 10**9)]
    return wrong


# --- tallies -------------------------------------------------------------------------------------


def check_tallies(mechanism: Mechanism) -> None:
    """Tallies merge in any order, travel as bytes, and belong to one mechanism."""
    reports = mechanism.privatize(crowd(mechanism, 900), seeded_rng(2))
    whole = mechanism.tally(reports)
    parts = [mechanism.tally(reports[start::3]) for start in range(3)]
    merged = Tally.merge(parts[::-1]).to_bytes() == whole.to_bytes()
    text = "tallies of parts do not add up to that of all: `count` must be a sum over reports"
    expect(merged, text)
    expect(Tally.from_bytes(whole.to_bytes(), mechanism) == whole, "a tally changes as bytes")
    by_rows = mechanism.count(mechanism.from_rows(mechanism.to_rows(reports)))
    same = bool((by_rows == whole.counts).all())
    expect(same, "rows of bytes are counted otherwise than reports")
    kept = np.asarray(reports).copy()
    kept.setflags(write=False)
    untouched = mechanism.tally(kept) == whole and bool((kept == reports).all())
    expect(untouched, "`count` changes the reports that it is given")
    with refused(EmptyError, "an estimate from no reports"):
        mechanism.estimate(mechanism.empty())
    with refused(FormatError, "a tally with more than its people can have sent"):
        Tally(mechanism, whole.counts + 900 * mechanism.adds[1], whole.n)
