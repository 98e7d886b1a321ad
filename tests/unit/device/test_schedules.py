"""Some of the random lives of tests/support/schedules.py, and the bugs that they must see."""

from __future__ import annotations

import dataclasses

import pytest

from murmuration.device import Client
from murmuration.device.secret import SecretFile
from murmuration.exact.keyed import Key
from tests.support import schedules


@pytest.mark.slow
def test_random_lives_of_devices() -> None:
    happened = schedules.run(40)
    for event in ("delivered", "lost", "restored", "lost ledgers"):
        assert happened[event] > 20, happened
    for limit in ("report", "collector", "lifetime", "campaign"):
        assert happened[f"refused: {limit}"] > 0, happened


class FreshWords(Client):
    """The bug: words that do not follow from the person's key."""

    def _words(self):
        return dataclasses.replace(super()._words(), key=Key.new())


@pytest.mark.slow
def test_fresh_noise_after_a_restore_is_caught(monkeypatch) -> None:
    monkeypatch.setattr(schedules, "Client", FreshWords)
    with pytest.raises(AssertionError, match="two reports for one"):
        schedules.run(60)


@pytest.mark.slow
def test_a_total_that_is_lost_with_the_ledger_is_caught(monkeypatch) -> None:
    monkeypatch.setattr(SecretFile, "note", lambda self, *noted: None)
    with pytest.raises(AssertionError, match="beyond"):
        schedules.run(60)
