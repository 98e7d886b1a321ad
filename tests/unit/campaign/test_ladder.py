"""An epsilon that each person sets: a ladder of levels, rounded down to."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from murmuration import Client, figures, seeded_rng
from murmuration.campaign.levels import Levels
from murmuration.campaign.survey import SurveyCampaign
from murmuration.definition import document, load
from murmuration.errors import CampaignError, InputError, ParameterError
from murmuration.exact.exponential import within

FILE = """
name = "own"
purpose = "For a test."
people = 5000
cohort = 100
epsilon = {}
[levels]
from = {}
[[attributes]]
name = "phone"
kind = "category"
labels = ["android", "ios", "other"]
mechanism = "grr"
"""


def campaign_of(epsilon: float, least: float) -> SurveyCampaign:
    return load.parse(FILE.format(epsilon, least), SurveyCampaign)


@pytest.mark.parametrize("epsilon", [2.0, 1.7, 3.3333333333333335])
def test_nobody_spends_more_than_the_number_that_they_set(epsilon: float) -> None:
    campaign = campaign_of(epsilon, 0.1)
    levels = campaign.levels
    assert levels is not None
    budgets = levels.budgets(epsilon)
    assert list(budgets) == sorted(budgets)
    assert (len(levels), budgets[-1]) == (len(levels.names), epsilon)
    for level, budget in enumerate(budgets):  # the exact loss of each step's own integers
        loss = campaign.loss(level)
        assert loss.ratio is not None
        assert within(loss.ratio, budget)
    for own in np.geomspace(budgets[0], 3 * epsilon, 200).tolist():
        name = levels.within(own, epsilon)
        spent = budgets[levels.names.index(name)]
        assert Fraction(spent) <= Fraction(own)
        assert spent == epsilon or 2 * spent > own or spent > 0.6 * own
    for step in (0.125, 0.25, 0.5, 1.0, 1.5):
        assert levels.within(step, epsilon) == f"epsilon {step:g}"
        assert math.isclose(budgets[levels.names.index(f"epsilon {step:g}")], step)


def test_what_is_published_is_levels_that_every_device_knows(tmp_path: Path) -> None:
    campaign = campaign_of(2.0, 0.25)
    data = document.publish(campaign)
    again = document.read(data, SurveyCampaign)
    assert again.digest == campaign.digest
    assert again.levels == Levels.ladder(0.25, 2.0)
    file = tmp_path / "own.json"
    file.write_bytes(data)
    client = Client(file, tmp_path / "device.db")
    assert client.level_within(0.7) == "epsilon 0.5"
    seen = client.preview({"phone": "ios"}, level=client.level_within(0.7))
    assert '"entries":[[2,' in seen  # the cell of that step
    steps = [law.epsilon for law in campaign.frame.cells]
    assert steps == [0.25, 0.375, 0.5, 0.75, 1.0, 1.5, 2.0]


def test_people_with_numbers_of_their_own_are_counted_together() -> None:
    campaign, rng = campaign_of(2.0, 0.25), seeded_rng(4)
    assert campaign.levels is not None
    own = np.random.default_rng(1).uniform(0.25, 2.5, 6000)
    levels = [campaign.levels.within(one, 2.0) for one in own.tolist()]
    items = np.arange(6000) % 3 // 2  # two thirds have the first label
    tallies = campaign.tally(campaign.privatize([items], rng, levels))
    assert sum(tally.n for tally in tallies) == 6000
    (share,) = [one for one in figures(campaign, tallies) if one.item == "android"]
    assert abs(share.value - 2 / 3) < 4.5 * share.stderr


def test_mistakes(tmp_path: Path) -> None:
    for epsilon, least, why in (
        (2.0, 2.0, "2 to 16 steps"),
        (2.0, 0.005, "2 to 16 steps"),
        (2.0, 0.0, "0.001 to 20"),
        (2.0, '"much"', "could not convert"),
    ):
        with pytest.raises(CampaignError, match=why):
            campaign_of(epsilon, least)  # type: ignore[arg-type]
    without = FILE.replace("epsilon = {}\n", "").format(0.25) + "epsilon = 1.0\n"
    with pytest.raises(CampaignError, match="says what people may set at most"):
        load.parse(without, SurveyCampaign)
    with pytest.raises(InputError, match="least spends"):
        Levels.ladder(0.25, 2.0).within(0.2, 2.0)
    plain = tmp_path / "plain.json"
    text = FILE.replace("[levels]\nfrom = {}\n", "").format(1.0)
    plain.write_bytes(document.publish(load.parse(text, SurveyCampaign)))
    with pytest.raises(InputError, match="no levels"):
        Client(plain, tmp_path / "device.db").level_within(1.0)
    with pytest.raises(ParameterError):
        Levels.ladder(math.nan, 2.0)
