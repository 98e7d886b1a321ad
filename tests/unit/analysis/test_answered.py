"""Figures among those who answered: covariances, and bounds of lies in the attribute's units."""

from __future__ import annotations

import numpy as np
import pytest

from murmuration import mechanism, seeded_rng
from murmuration.analysis import answered
from murmuration.analysis.liars import _quotients
from murmuration.campaign.question import Question
from murmuration.results.estimate import About, AnsweredEstimate


def test_all_labels_together_vary_with_the_share_that_answered() -> None:
    """Shares of all items add up to 1, so the covariances of labels add up to Var N."""
    law, n = mechanism("grr", epsilon=1.0, k=5), 40_000
    tally = law.tally(law.privatize(np.arange(n) % 5, seeded_rng(4)))
    for about in ("participants", "population"):
        part = answered.estimated([tally], about, n)
        assert len(part.covariances) == 4
        assert part.covariances.sum() == pytest.approx(part.share_variance, rel=1e-3)


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
