"""A short run of tests/support/training_torture.py, on every store."""

import pytest

from tests.support.training_torture import train


@pytest.mark.slow
@pytest.mark.unmeasured
def test_kills_change_nothing_in_a_training(store_url: str) -> None:
    assert train(store_url, kills=4, seed=7, people=3) > 0
