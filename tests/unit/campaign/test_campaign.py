"""A campaign's intervals hold the truth as often as they say, whatever the strategy."""

from __future__ import annotations

import math

import numpy as np
import pytest

from murmuration.analysis import read
from murmuration.definition.load import parse
from murmuration.exact.randomness import seeded_rng

HEAD = 'name = "cover"\npurpose = "To be covered."\nepsilon = 2.0\npeople = 3000\ncohort = 100\n'
ATTRIBUTES = """
[[attributes]]
name = "age"
low = 18
high = 98
[[attributes]]
name = "phone"
kind = "category"
labels = ["android", "ios", "other", "none"]
"""
RUNS, PEOPLE = 150, 3000


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["sample", "split", "sampled", "harmony"])
def test_coverage(strategy: str) -> None:
    campaign = parse(f"{HEAD}strategy = '{strategy}'\n{ATTRIBUTES}")
    crowd = np.random.default_rng(1)
    phones = crowd.choice(4, PEOPLE, p=(0.6, 0.3, 0.08, 0.02))
    ages = 18 + 80 * crowd.beta(1.6, 2.6, PEOPLE)
    labels = np.array(campaign.questions[1].labels)
    columns = campaign.encode({"age": ages, "phone": labels[phones]}, seeded_rng(1))
    truth = {"mean": ages.mean(), **dict(zip(labels, np.bincount(phones) / PEOPLE, strict=True))}
    missed = np.zeros(5)
    for seed in range(RUNS):
        tallies = campaign.tally(campaign.privatize(columns, seeded_rng(seed)))
        figures = read.figures(campaign, tallies)
        missed += [not f.low <= truth[f.item] <= f.high for f in figures]
    # Each figure by itself; wider than it says is no fault here.
    assert (missed / RUNS < 0.05 + 4 * math.sqrt(0.05 * 0.95 / RUNS)).all(), missed / RUNS
