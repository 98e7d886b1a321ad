"""Tallies add, travel as bytes, and refuse what is not theirs."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from murmuration import Tally, mechanism, seeded_rng
from murmuration.errors import EmptyError, FormatError, MismatchError, ReportError
from murmuration.mechanisms.tally import HEAD, MAGIC, VERSION

PIECEWISE = mechanism("piecewise", epsilon=1.0)
LAPLACE = mechanism("laplace", epsilon=1.0)
symbols = st.lists(st.integers(0, PIECEWISE.symbols - 1), max_size=60)


@pytest.mark.slow
@given(st.lists(symbols, min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_merging_in_any_order_is_counting_together(parts, shuffler) -> None:
    whole = PIECEWISE.tally(np.array([s for part in parts for s in part], dtype=np.int64))
    tallies = [PIECEWISE.tally(np.array(part, dtype=np.int64)) for part in parts]
    shuffler.shuffle(tallies)
    assert Tally.merge(tallies).to_bytes() == whole.to_bytes()
    assert whole.n == sum(map(len, parts))


@pytest.mark.slow
@given(symbols)
def test_the_empty_tally_changes_nothing(reports) -> None:
    tally = PIECEWISE.tally(np.array(reports, dtype=np.int64))
    assert tally + PIECEWISE.empty() == tally
    assert hash(tally) == hash(PIECEWISE.empty() + tally)


@given(symbols)
def test_bytes_and_back(reports) -> None:
    tally = PIECEWISE.tally(np.array(reports, dtype=np.int64))
    assert Tally.from_bytes(tally.to_bytes(), PIECEWISE) == tally


@pytest.mark.slow
@pytest.mark.parametrize("mech", [PIECEWISE, LAPLACE], ids=lambda m: m.name)
@given(data=st.data())
def test_reports_survive_the_wire(mech, data) -> None:
    reports = data.draw(st.lists(st.integers(0, mech.symbols - 1)))
    packed = mech.pack(np.array(reports, dtype=np.int64))
    assert len(packed) == mech.report_bytes * len(reports)
    assert mech.unpack(packed).tolist() == reports


@pytest.mark.slow
@given(symbols, st.data())
def test_damaged_bytes_are_refused(reports, data) -> None:
    good = PIECEWISE.tally(np.array(reports, dtype=np.int64)).to_bytes()
    cut = data.draw(st.integers(0, len(good) - 1))
    with pytest.raises(FormatError):
        Tally.from_bytes(good[:cut], PIECEWISE)
    flipped = bytearray(good)
    flipped[cut] ^= data.draw(st.integers(1, 255))
    with pytest.raises(FormatError):
        Tally.from_bytes(bytes(flipped), PIECEWISE)


@pytest.mark.parametrize("junk", [b"", b"PK\x03\x04" + b"x" * 100, b"MURMTLYS"])
def test_foreign_bytes_are_refused(junk) -> None:
    with pytest.raises(FormatError, match="not tallies"):
        Tally.from_bytes(junk, PIECEWISE)


def test_another_version_is_refused() -> None:
    data = bytearray(PIECEWISE.empty().to_bytes())
    data[8] = 9
    with pytest.raises(FormatError, match="format 9 is unknown"):
        Tally.from_bytes(bytes(data), PIECEWISE)


@pytest.mark.parametrize(
    "other",
    [mechanism("piecewise", epsilon=1.1), mechanism("piecewise", epsilon=1.0, t="sub"), LAPLACE],
    ids=str,
)
def test_tallies_of_another_mechanism_are_refused_everywhere(other) -> None:
    for wrong in (
        lambda: PIECEWISE.empty() + other.empty(),
        lambda: PIECEWISE.estimate(other.empty()),
        lambda: PIECEWISE.distribution(other.empty()),
        lambda: Tally.from_bytes(other.empty().to_bytes(), PIECEWISE),
    ):
        with pytest.raises(MismatchError, match=r"a tally of"):
            wrong()


def test_what_is_no_tally_is_refused() -> None:
    with pytest.raises(MismatchError):
        PIECEWISE.estimate(np.zeros(PIECEWISE.symbols))
    with pytest.raises(TypeError):
        PIECEWISE.empty() + 3
    one = np.eye(PIECEWISE.symbols, dtype=np.int64)[0]
    for counts, n in (
        (np.zeros(3, int), 0),
        (-one, 0),
        (one, 2),
        (1.0 * one, 1),
        (one << 62, 1 << 62),
    ):
        with pytest.raises(FormatError):
            Tally(PIECEWISE, counts, n)


def forged(header: bytes, length: int | None = None) -> bytes:
    size = len(header) if length is None else length
    return HEAD.pack(MAGIC, VERSION, size, zlib.crc32(header)) + header


@pytest.mark.parametrize(
    "data",
    [
        forged(b""),
        forged(b"{", 2**32 - 1),
        forged(b"\xff\xfe"),
        forged(b"[]"),
        forged(b"{}"),
        forged(b'{"mechanism": "piecewise", "n": null}'),
        forged(b'{"mechanism": "piecewise", "n": true}'),
        forged(b"[" * 100_000),
        forged(b'{"n": ' + b"9" * 5000 + b"}"),
        forged(PIECEWISE.empty().to_bytes()[HEAD.size : -8 * PIECEWISE.counters]),
    ],
    ids=range(10),
)
def test_forged_headers_are_refused(data) -> None:
    with pytest.raises(FormatError):
        Tally.from_bytes(data, PIECEWISE)


def test_adding_up_in_other_ways() -> None:
    tally = PIECEWISE.tally([1, 2])
    assert sum([tally, tally]).n == 4
    assert "n=2" in repr(tally)
    with pytest.raises(FormatError, match="nothing to merge"):
        Tally.merge([])
    with pytest.raises(MismatchError, match="list of tallies"):
        tally.merge(tally)
    with pytest.raises(FormatError, match="takes the bytes"):
        Tally.from_bytes(PIECEWISE, tally.to_bytes())


def test_counts_cannot_be_changed_in_place() -> None:
    with pytest.raises(ValueError, match="read-only"):
        PIECEWISE.empty().counts[0] = 1


def test_nobody_gives_no_estimate() -> None:
    for read in (PIECEWISE.estimate, PIECEWISE.distribution):
        with pytest.raises(EmptyError):
            read(PIECEWISE.empty())


def test_truncated_and_foreign_reports_are_refused() -> None:
    with pytest.raises(FormatError, match="2-byte"):
        LAPLACE.unpack(b"\x00\x01\x02")
    with pytest.raises(ReportError, match="outside the alphabet"):
        LAPLACE.unpack(b"\xff\xff")
    for bad in ([[0, 1]], [0.0], ["a"]):
        with pytest.raises(ReportError):
            PIECEWISE.tally(bad)
    assert PIECEWISE.tally([]).n == 0


def test_a_three_byte_alphabet_is_packed_in_three_bytes(monkeypatch) -> None:
    monkeypatch.setattr(type(PIECEWISE), "symbols", 1 << 20)
    reports = np.array([0, 1, 70_000, (1 << 20) - 1])
    assert len(PIECEWISE.pack(reports)) == 12
    assert PIECEWISE.unpack(PIECEWISE.pack(reports)).tolist() == reports.tolist()


def test_big_batches_are_counted_in_pieces() -> None:
    reports = PIECEWISE.privatize(np.zeros(600_000), seeded_rng(1))
    assert (
        PIECEWISE.tally(reports).counts.tolist()
        == np.bincount(reports, minlength=PIECEWISE.symbols).tolist()
    )
