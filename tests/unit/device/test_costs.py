"""What a report costs in the record: permanent answers in full, all others within epsilon."""

from __future__ import annotations

from fractions import Fraction

from murmuration import mechanism
from murmuration.device.survey import cost_of
from tests.support.accounts import campaign_of

CAMPAIGN = """
name = "phones"
purpose = "Which phones to test on."
epsilon = 1.0
[[attributes]]
name = "phone"
kind = "category"
labels = ["android", "ios", "other"]
"""


def test_a_permanent_answer_costs_all_that_it_may_ever_cost_beside_any_other() -> None:
    campaign, once = campaign_of(CAMPAIGN), mechanism("grr", epsilon=0.5, k=3)
    again = mechanism("memoised", epsilon=0.5, k=3, permanent=2.0)
    assert cost_of(campaign, [once, once]) <= 1
    assert cost_of(campaign, [once, once, once]) == 1  # all entries together were audited to that
    assert cost_of(campaign, [once, again]) > Fraction(2)
    assert cost_of(campaign, []) == 0
