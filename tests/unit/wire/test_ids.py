"""Ids of reports: they tell neither when they were made nor by whom."""

from __future__ import annotations

import numpy as np
import pytest

from murmuration.wire.ids import ID_BYTES, new_ids

CLOCKS = (0.0, 1.0e9, 1.7e9, 2.5e9)


def test_an_id_carries_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids began with the device's clock in seconds: 298 of 300 devices were linked by it.

    Devices whose clocks differ by decades make ids of one kind: every bit of them is a fair coin.
    """
    for clock in CLOCKS:
        monkeypatch.setattr("time.time", lambda clock=clock: clock)
        ids = new_ids(4000)
        assert ids.shape == (4000, ID_BYTES)
        ones = np.unpackbits(ids, axis=1).sum(axis=0, dtype=np.int64)
        assert (np.abs(ones - 2000) < 6 * np.sqrt(1000)).all(), clock


def test_devices_are_not_linked_by_their_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """300 devices, each with a clock of its own, in two campaigns: nearest ids are strangers'."""
    clocks = 1.7e9 + np.random.default_rng(1).uniform(-1e7, 1e7, 300)
    campaigns = []
    for _ in range(2):
        heads = []
        for clock in clocks:
            monkeypatch.setattr("time.time", lambda clock=clock: clock)
            heads.append(int.from_bytes(new_ids(1)[0, :4].tobytes(), "big"))
        campaigns.append(np.array(heads, dtype=np.int64))
    first, second = campaigns
    nearest = np.abs(first[:, None] - second).argmin(axis=1)
    assert (nearest == np.arange(300)).sum() < 8  # 1 expected by chance
