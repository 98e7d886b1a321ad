"""What a new campaign file says about missing answers, and what it costs."""

from __future__ import annotations

import pytest

from murmuration.campaign.review import review
from murmuration.definition import load as campaign_file
from murmuration.definition.write import Draft, written
from murmuration.planning.choose import LITTLE, cost_of_missing

ASKED = [
    Draft("age", 18.0, 98.0),
    Draft("phone", labels=("android", "ios")),
    Draft("town", labels=tuple("abcdefgh")),
]


@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_answers_may_be_missing_where_that_costs_little(epsilon: float) -> None:
    text = written("new", "A new file.", epsilon, 100_000, ASKED)
    campaign = campaign_file.parse(text)
    little = [
        cost_of_missing(epsilon, len(one.labels) or None, 1 / 3, 100_000) <= LITTLE for one in ASKED
    ]
    assert [question.missing for question in campaign.questions] == little
    assert any(little)
    for question in campaign.questions:
        assert (question.outside == "no answer") == question.missing
    assert text.count("missing = true  #") == text.count("standard errors are") == len(ASKED)


def test_what_it_costs_is_what_check_says() -> None:
    """Written from one attribute, which everybody is asked, as check works it out."""
    text = written("new", "A new file.", 0.5, 100_000, ASKED[:1])
    (law,) = review(campaign_file.parse(text)).asked[0].laws
    assert law.with_none is not None
    assert f"errors are {law.with_none / law.stderr - 1:.0%} larger" in text
    (said,) = review(campaign_file.parse(text.replace("# missing", "missing"))).asked[0].laws
    assert said.with_none is None
    assert said.stderr == pytest.approx(law.with_none, rel=0.02)  # the planner's law for both


def test_a_label_that_is_reserved_keeps_answers_from_being_missing() -> None:
    labels = (*"abcdefgh", "no answer")
    text = written("new", "A new file.", 4.0, 100_000, [Draft("town", labels=labels)])
    assert not campaign_file.parse(text).questions[0].missing
