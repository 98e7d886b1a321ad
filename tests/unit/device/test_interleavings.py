"""Two ledgers of one key: no interleaving of steps, kills and copies breaks what must hold.

`tests/support/interleavings.py` says what is visited and what must hold. Tests visit
states that few steps lead to; `python -m experiments.evidence interleavings` visits all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from murmuration.device import ledger as ledgers
from tests.support.interleavings import BOTH, ONE, SPELL, TWO, explore, fast_files

MOST = 200
"""States."""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with fast_files():
        yield tmp_path


@pytest.mark.slow
def test_two_ledgers_without_copies(folder: Path) -> None:
    happened = explore(replace(ONE, copies=False), folder)
    assert happened["refused: answered"] > 0
    assert happened["killed between the commits"] > 0


@pytest.mark.slow
def test_two_answers_to_one_question(folder: Path) -> None:
    happened = explore(ONE, folder, most=MOST)
    assert happened["refused: answered"] > 0
    assert happened["restored"] > 0


@pytest.mark.slow
def test_two_questions_and_a_limit_for_one(folder: Path) -> None:
    happened = explore(TWO, folder, most=MOST)
    assert happened["refused: lifetime"] > 0, happened


@pytest.mark.slow
def test_two_questions_one_with_two_answers(folder: Path) -> None:
    happened = explore(BOTH, folder, most=MOST)
    assert happened["refused: answered"] > 0, happened


@pytest.mark.slow
def test_a_spell_that_two_ledgers_begin(folder: Path) -> None:
    happened = explore(SPELL, folder, most=MOST)
    assert happened["states"] >= MOST


# --- planted bugs --------------------------------------------------------------------------------


def test_a_record_that_commits_first_is_caught(folder: Path) -> None:
    """The bug: a kill between the commits leaves a charge for bytes that are nowhere."""
    with pytest.raises(AssertionError, match="a report that cannot leave is charged"):
        explore(ONE, folder, first="record")


def test_bytes_that_are_not_looked_at_are_caught(folder: Path, monkeypatch) -> None:
    """The bug: whatever is reserved under an id lets other bytes leave, too."""
    real = ledgers.Record.reserve

    def reserve(record, charge, key):
        known = record.mark_of(charge.report_id)
        return real(record, charge, key) if known is None else Fraction(0)

    monkeypatch.setattr(ledgers.Record, "reserve", reserve)
    monkeypatch.setattr(ledgers.Session, "_reserved", lambda session, entry: True)
    with pytest.raises(AssertionError):
        explore(ONE, folder)


def test_drafts_that_are_sent_are_caught(folder: Path, monkeypatch) -> None:
    """The bug: what a killed device has left in its ledger is taken for a report."""
    monkeypatch.setattr(ledgers.Session, "_reserved", lambda session, entry: True)
    with pytest.raises(AssertionError):
        explore(ONE, folder)
