"""Some of the random lives of tests/support/schedules.py, and the bugs that they must see."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from murmuration.device import Client
from murmuration.device import ledger as ledgers
from murmuration.device.secret import SecretFile
from murmuration.exact.keyed import Key
from tests.support import schedules


@pytest.mark.slow
def test_random_lives_of_devices() -> None:
    happened = schedules.run(40)
    assert happened["no answer"] > 0, happened
    for event in ("delivered", "lost", "restored", "lost ledgers", "killed"):
        assert happened[event] > 20, happened
    for limit in ("report", "collector", "lifetime", "campaign", "answered"):
        assert happened[f"refused: {limit}"] > 0, happened


class FreshWords(Client):
    """The bug: words that do not follow from the person's key."""

    def _words(self, session):
        return dataclasses.replace(super()._words(session), key=Key.new())


@pytest.mark.slow
def test_fresh_noise_after_a_restore_is_caught(monkeypatch) -> None:
    monkeypatch.setattr(schedules, "Client", FreshWords)
    with pytest.raises(AssertionError, match=r"two reports for one|a budget was lost"):
        schedules.run(60)


@pytest.mark.slow
def test_a_record_for_each_ledger_is_caught(monkeypatch) -> None:
    """The bug: two ledgers of one key that do not know of each other."""
    monkeypatch.setattr(ledgers.Secret, "of", lambda given, path: Apart(Path(given), path))
    with pytest.raises(AssertionError, match=r"two reports|beyond|less is noted"):
        schedules.run(60)


class Apart(SecretFile):
    """A key whose record lies beside the ledger."""

    def __init__(self, path: Path, ledger: Path) -> None:
        super().__init__(path)
        self._ledger = ledger

    may_be_new = True

    @property
    def record(self) -> Path:
        return Path(f"{self._ledger}.record")
