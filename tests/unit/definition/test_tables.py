"""`[[tables]]`: attributes that are asked together, as one more question of a campaign."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from murmuration import mechanism
from murmuration.campaign.question import Question
from murmuration.campaign.review import HOPELESS, review
from murmuration.campaign.survey import SurveyCampaign
from murmuration.campaign.table import Side, Sides
from murmuration.definition import document as campaign_document
from murmuration.definition import load as campaign_file
from murmuration.errors import CampaignError, ParameterError
from murmuration.exact.randomness import seeded_rng
from tests.support import collectors, command

HEAD = """
name = "phones"
purpose = "Which phones people of which age have."
epsilon = {epsilon}
people = {people}
cohort = 100
{more}
"""
AGE = """
[[attributes]]
name = "age"
low = 18
high = 98
bins = 4
missing = true
"""
PHONE = """
[[attributes]]
name = "phone"
kind = "category"
labels = ["android", "ios", "other"]
"""
TOWN = """
[[attributes]]
name = "town"
kind = "category"
labels = ["a", "b"]
missing = true
"""
TABLE = '[[tables]]\nof = ["age", "phone"]\n'
TOWNS = '[[tables]]\nof = ["phone", "town"]\n'


def parsed(text: str, people: int = 40_000, epsilon: float = 1.0, more: str = "") -> SurveyCampaign:
    head = HEAD.format(people=people, epsilon=epsilon, more=more)
    return campaign_file.parse(head + text, SurveyCampaign)


def refused(text: str, why: str, more: str = "", people: int = 40_000) -> int | None:
    with pytest.raises(CampaignError, match=re.escape(why)) as problem:
        parsed(text, people, more=more)
    return problem.value.line


def test_a_table_is_one_more_question_and_its_document_says_what_of() -> None:
    campaign = parsed(AGE + PHONE + TABLE)
    (table,) = campaign.tables
    assert (table.name, table.k) == ("age by phone", 15)
    assert table.labels[4] == "38 to 58, ios"
    assert "no answer, other" in table.labels
    published = json.loads(campaign.text)["attributes"][-1]
    cuts = [[38.0, 58.0, 78.0], []]
    assert published == {"name": "age by phone", "kind": "table", "of": ["age", "phone"]} | {
        "cuts": cuts
    }
    assert campaign_document.read(campaign_document.publish(campaign)) == campaign
    assert campaign.loss().holds


def test_a_device_makes_the_answer_from_those_to_both() -> None:
    campaign = parsed(AGE + PHONE + TOWN + TABLE + TOWNS)
    people = {"age": [18, 38, 98, None], "phone": ["ios", "android", "ios", "other"]}
    *_, first, second = campaign.encode({**people, "town": ["a", None, "b", "a"]}, seeded_rng(1))
    assert first.tolist() == [1, 3, 10, 14]
    assert second.tolist() == [3, 2, 4, 6]


def test_a_label_that_is_drawn_is_the_same_in_the_table() -> None:
    campaign = parsed(AGE + PHONE + TABLE)
    answers = {"age": [50.0] * 500, "phone": ["no phone"] * 500}
    _, phone, table = campaign.encode(answers, seeded_rng(1))
    assert set(phone.tolist()) == {0, 1, 2}
    assert (table == 3 + phone).all()


@pytest.mark.parametrize(
    ("text", "more", "why"),
    [
        (AGE + PHONE + TABLE, "sample = 2", "tables cannot be combined with sample above 1"),
        (AGE + PHONE + TABLE, 'strategy = "split"', "tables cannot be combined with this strategy"),
        (AGE + PHONE + TABLE + "[levels]\nhigh = 0.5\nlow = 1\n", "", "combined with levels"),
        (
            PHONE + TOWN + TOWNS + "[repeat]\npermanent = 2.0\nrounds = 5\n",
            "",
            "tables cannot be combined with [repeat]",
        ),
        (AGE + PHONE + '[[tables]]\nof = ["age"]\n', "", "of two different attributes"),
        (AGE + PHONE + '[[tables]]\nof = ["age", "x"]\n', "", "there is no attribute 'x'"),
        (AGE + PHONE + TABLE + TABLE, "", "two tables of age and phone"),
        (AGE + PHONE + TABLE + "share = 1.0\n", "", "share, how many of the people"),
        (
            AGE + PHONE + TOWN + TOWNS,
            "",
            "age: bins are for a distribution, or say where tables cut it: it is in none",
        ),
        (
            AGE.replace("bins = 4", "") + PHONE + TABLE,
            "",
            "age: a table needs to know where it is cut",
        ),
        (
            AGE.replace("bins = 4", "edges = [98]") + PHONE + TABLE,
            "",
            "age: cuts are numbers between 18 and 98, going up",
        ),
        (
            AGE.replace("bins = 4", "bins = 3\nedges = [30]") + PHONE + TABLE,
            "",
            "bins are for a distribution, or 2 to 64 of a number in tables",
        ),
        (
            AGE + PHONE + '[[attributes]]\nname = "age by phone"\nlow = 0\nhigh = 1\n' + TABLE,
            "",
            "an attribute has the name of this table",
        ),
        (
            '[[attributes]]\nname = "age"\nkind = "graded"\nlow = 0\nhigh = 9\nedges = [5]\n'
            "budgets = [1.0, 0.5]\n" + PHONE + TABLE,
            "",
            "no table has it",
        ),
    ],
)
def test_what_a_table_cannot_be_is_refused_with_its_line(text: str, more: str, why: str) -> None:
    assert refused(text, why, more) is not None


def test_no_document_has_a_table_of_labels_with_budgets_of_their_own() -> None:
    """A table tells up to epsilon about each label: a collector may not ask for it that way."""
    head = HEAD.format(epsilon=2.0, people=20_000, more="")
    campaign = campaign_file.parse(head + AGE + PHONE + TABLE)
    place = [question.name for question in campaign.questions].index("phone")
    items = campaign.laws_of(place)[0].domain.items
    law = mechanism("graded-items", epsilon=(0.5, *[2.0] * (items - 1)), k=items)
    groups = list(campaign.frame.groups)
    groups[place] = (law,)
    frame = replace(campaign.frame, groups=tuple(groups))
    with pytest.raises(ParameterError, match="which a table would not keep"):
        replace(campaign, frame=frame)


def test_a_table_that_too_few_are_asked_is_refused_before_anybody_is() -> None:
    refused(AGE + PHONE + TABLE, "nothing is shown about fewer than 100", people=300)


def test_shares_are_planned_or_as_the_file_says() -> None:
    planned = parsed(AGE + PHONE + TOWN + TABLE + TOWNS).strategy.shares(5)
    assert sum(planned) == pytest.approx(1)
    assert planned[3] == pytest.approx(planned[4], rel=0.2)  # equal errors of cells
    said = parsed(AGE + PHONE + TOWN + TABLE + "share = 0.5\n" + TOWNS).strategy.shares(5)
    assert said[3] == pytest.approx(0.5)
    much = parsed(AGE + PHONE + TOWN + TABLE + TOWNS, epsilon=4.0).strategy.shares(5)
    assert much[1] < planned[1] / 3  # shares of phone come from the tables
    assert much[0] > planned[0] / 2  # the mean of age does not


def test_check_says_what_comes_of_a_table_and_of_what_is_in_it() -> None:
    campaign = parsed(AGE + PHONE + TABLE + "share = 0.7\n")
    asked = {one.question.name: one for one in review(campaign).asked}
    assert "of all people is told from none" in asked["age by phone"].reason
    alone = parsed(PHONE, people=round(40_000 * asked["phone"].share))
    assert asked["phone"].laws[0].stderr < 0.95 * review(alone).asked[0].laws[0].stderr
    few = review(parsed(AGE + PHONE + TABLE, people=1000, epsilon=0.1)).asked[-1]
    assert f"hopeless at this epsilon with so few people: even a cell with {HOPELESS:.0%}" in (
        few.reason
    )


def test_sides_and_tables_refuse_what_they_are_not_for() -> None:
    age, phone = Question("age", low=0, high=10), Question("p", "category", labels=("a", "b"))
    for cuts in ((), (10.0,), (5.0, 5.0), (5,)):
        with pytest.raises(ParameterError, match="cuts are numbers"):
            Side(age, cuts)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="is not cut"):
        Side(phone, (1.0,))
    with pytest.raises(ParameterError, match="people answer"):
        Side(Sides(Side(age, (5.0,)), Side(phone)).question())
    near = Question("n", low=0.0, high=1e300)
    with pytest.raises(ParameterError, match="too near"):
        Side(near, (1.0, 1.0000001))
    long = Question("l", "category", labels=tuple(map(str, range(200))))
    with pytest.raises(ParameterError, match="32,768 cells at most"):
        Sides(Side(long), Side(Question("m", "category", labels=long.labels))).question()


def test_a_collector_counts_tables_and_shows_them_in_every_form(tmp_path: Path) -> None:
    text = HEAD.format(epsilon=4.0, people=3000, more="") + PHONE + TOWN + TOWNS
    rng = np.random.default_rng(4)
    with (tmp_path / "people.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["phone", "town"])
        for town in rng.integers(3, size=3000).tolist():
            phone = "ios" if rng.random() < (0.9 if town == 1 else 0.2) else "android"
            rows.writerow([phone, ["", "a", "b"][town]])
    with collectors.running(tmp_path / "store.db", text) as collector:
        url = collector.collection("phones").url
        command.murmur("send", url, "people.csv", folder=tmp_path)
    found = {
        view: json.loads(
            command.murmur(
                *("estimate", "store.db", "--json", "--tables", view), folder=tmp_path
            ).stdout
        )["estimates"]
        for view in ("cells", "rows", "columns", "smoothed")
    }
    named = {
        view: {one["item"]: one for one in rows if one["attribute"] == "phone by town"}
        for view, rows in found.items()
    }
    assert named["cells"]["ios, a"]["low"] < 0.33
    assert named["cells"]["ios, a"]["high"] > 0.27
    assert "not independent" in named["cells"]["association (V)"]["note"]
    given = named["rows"]["a given ios"]
    assert abs(given["value"] - 0.9 / 1.1) < 4 * given["stderr"]
    assert given["low"] < given["value"] < given["high"]
    given = named["columns"]["ios given a"]
    assert abs(given["value"] - 0.9) < 4 * given["stderr"]
    assert named["smoothed"]["ios, a"]["low"] is None
    assert "least squares" in next(one["note"] for one in found["cells"] if one["item"] == "ios")
