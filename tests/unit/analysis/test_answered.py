"""Figures among those who answered: covariances, and bounds of lies in the attribute's units."""

from __future__ import annotations

import numpy as np
import pytest

from murmuration import mechanism, seeded_rng
from murmuration.analysis import answered
from murmuration.analysis.liars import _quotients
from murmuration.campaign.question import Question
from murmuration.mechanisms.tally import Tally
from murmuration.results.estimate import About, AnsweredEstimate


def test_all_labels_together_vary_with_the_share_that_answered() -> None:
    """Shares of all items add up to 1, so the covariances of labels add up to Var N."""
    law, n = mechanism("grr", epsilon=1.0, k=5), 40_000
    tally = law.tally(law.privatize(np.arange(n) % 5, seeded_rng(4)))
    for about in ("participants", "population"):
        part = answered.estimated([tally], about, n)
        assert len(part.covariances) == 4
        assert part.covariances.sum() == pytest.approx(part.share_variance, rel=1e-3)


def test_covariances_are_careful_where_hardly_anybody_is_silent() -> None:
    """Shares are looked at with two people more on either side, so that none is 0 or less."""
    law, n = mechanism("grr", epsilon=4.0, k=3), 50
    tally = Tally(law, np.array([25, 25, 0]), n)
    part, shares = answered.estimated([tally], "participants", n), law.estimate(tally).value
    likely = (n * np.clip(shares, 0, 1) + 2) / (n + 4)
    assert likely[-1] == 2 / 54
    expected = law.noise_covariance(likely[:-1], likely[-1])
    assert np.allclose(part.covariances, -expected / n, rtol=1e-12)


def test_bounds_of_lies_are_in_the_units_of_the_attribute() -> None:
    law, one = mechanism("or-none", epsilon=1.0), np.array([1e-4])
    part = AnsweredEstimate(
        np.array([0.1]), one, 0.8, 1e-4, np.zeros(1), 10_000, 1.0, About.PARTICIPANTS
    )
    plain, wide = (
        _quotients(part, [law], Question("x", low=low, high=high, missing=True), 100)
        for low, high in ((-1.0, 1.0), (0.0, 200.0))
    )
    assert wide["answered"] == plain["answered"]
    assert wide["mean"] == pytest.approx(100 * plain["mean"])
    assert 0.01 < plain["mean"] < 0.1  # 1% of lies, each of a report that is read as up to 4
