"""`[check_fit]`: a planned share of the devices says, privately, whether answers fitted."""

from __future__ import annotations

import csv
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest

from murmuration.analysis import read
from murmuration.campaign.review import review
from murmuration.campaign.survey import SurveyCampaign
from murmuration.definition import document as campaign_document
from murmuration.definition import load as campaign_file
from murmuration.errors import CampaignError, InputError
from murmuration.exact.randomness import seeded_rng
from tests.support import collectors, command

HEAD = """
name = "phones"
purpose = "Which phones to test on."
epsilon = {epsilon}
people = {people}
cohort = 100
{more}
"""
PHONE = """
[[attributes]]
name = "phone"
kind = "category"
labels = ["android", "ios"]
"""
AGE = """
[[attributes]]
name = "age"
low = 18
high = 98
"""
TOWN = """
[[attributes]]
name = "town"
kind = "category"
labels = ["a", "b", "c"]
missing = true
"""
CHECK = "[check_fit]\nerror = 0.02\n"


def parsed(text: str, people: int = 40_000, epsilon: float = 1.0, more: str = "") -> SurveyCampaign:
    head = HEAD.format(people=people, epsilon=epsilon, more=more)
    return campaign_file.parse(head + text, SurveyCampaign)


def test_left_out_it_changes_no_digest() -> None:
    plain = parsed(PHONE + AGE)
    assert "checks" not in plain.text
    assert (parsed(AGE).strategy.name, parsed(CHECK + AGE).strategy.name) == ("split", "sample")
    alone = parsed('strategy = "split"\n' + AGE)
    assert parsed(AGE).digest == alone.digest
    checked = parsed(CHECK + PHONE + AGE)
    assert checked.digest != plain.digest  # it changes what a device sends
    assert campaign_document.read(campaign_document.publish(checked)).digest == checked.digest


def test_only_what_is_clamped_or_spread_is_checked() -> None:
    campaign = parsed(CHECK + PHONE + AGE + TOWN)
    assert [one.checks for one in campaign.questions] == ["", "", "", "phone", "age"]
    assert [one.name for one in campaign.given] == ["phone", "age", "town"]


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
def test_the_share_is_planned_for_the_error_and_the_cohort(epsilon: float) -> None:
    campaign = parsed(CHECK + PHONE + AGE, people=60_000, epsilon=epsilon)
    asked = review(campaign).asked
    for one in asked[2:]:
        assert one.laws[0].stderr <= 0.02 * (1 + 1e-9)
        assert one.share * 60_000 > 100 + 3 * math.sqrt(100)
        enough = one.share * 60_000 < 100 + 5 * math.sqrt(100)
        assert enough or one.laws[0].stderr > 0.0199  # and no larger than it has to be


def test_the_loss_of_a_report_is_that_of_one_law() -> None:
    """No dearer than without it, and the other attributes lose that share of the devices alone."""
    plain, checked = parsed(AGE), parsed(CHECK + AGE)
    assert checked.loss().holds
    assert checked.loss().epsilon <= 1.0
    assert checked.charge == plain.charge
    share, own = checked.strategy.shares(2)
    assert share + own == 1
    (before,), (after, _) = review(plain).asked, review(checked).asked
    assert after.laws[0].stderr == pytest.approx(before.laws[0].stderr / math.sqrt(share), rel=0.05)


def test_an_attributes_own_budget_is_kept() -> None:
    campaign = parsed(CHECK + AGE + "epsilon = 0.5\n" + PHONE, people=200_000)
    assert [law.budget for law in campaign.frame.cells] == [0.5, 1.0, 0.5, 1.0]


def test_devices_say_by_themselves_whether_an_answer_fitted() -> None:
    campaign = parsed(CHECK + PHONE + AGE + 'missing = true\noutside = "clamp"\n')
    phone, age = (["ios", "iPhone", "android", "x"], [20, None, 141, "old"])
    columns = campaign.encode({"phone": phone, "age": age}, seeded_rng(1))
    assert columns[2].tolist() == [0, 1, 0, 1]
    assert columns[3].tolist() == [0, 2, 1, 1]
    with pytest.raises(InputError, match="no attribute phone: fit"):
        campaign.encode({"phone": phone, "age": age, "phone: fit": ["fitted"] * 4}, seeded_rng(1))


def test_a_label_for_all_others_fits() -> None:
    text = CHECK + PHONE + AGE.replace("low", 'outside = "refuse"\nlow')
    with pytest.raises(CampaignError, match="nothing to check"):
        parsed(text.replace('["android", "ios"]', '["android", "ios"]\noutside = "ios"'))


@pytest.mark.parametrize("missing", ["", 'missing = true\noutside = "clamp"\n'])
def test_the_figure_covers_the_share_that_did_not_fit(missing: str) -> None:
    """11% of those who answered, over many collections."""
    campaign, rng = parsed(CHECK + PHONE + AGE + missing, people=20_000), seeded_rng(2)
    n, covered, spread, looks = 20_000, 0, [], 40
    age = np.where(np.arange(n) % 100 < 11, 141.0, 40.0)
    columns = campaign.encode({"phone": ["ios", "android"] * (n // 2), "age": age}, rng)
    for _ in range(looks):
        tallies = campaign.tally(campaign.privatize(columns, rng))
        found = read.figures(campaign, tallies, about="population")
        (one,) = [row for row in found if (row.attribute, row.item) == ("age: fit", "did not fit")]
        assert one.low is not None
        assert one.high is not None
        covered += one.low <= 0.11 <= one.high
        spread.append(one.value - 0.11)
    assert covered >= looks - 6  # 40 looks at 95%: 7 misses or more in 0.3% of all runs
    assert np.std(spread) < 0.02 * 1.5
    assert any(
        note.startswith("age: ") and "of answers did not fit" in note for note in found.notes
    )


@pytest.mark.parametrize(
    ("text", "people", "words"),
    [
        (CHECK + PHONE + AGE, 4_000, "An error of 0.03[0-9]* can be met; or ask more people"),
        (CHECK + PHONE, 250, "with a cohort of 100 no error can be met"),
        (CHECK.replace("0.02", "0.7") + PHONE, 9_000, "above 0 and below 0.5"),
        (CHECK.replace("error", "eror") + PHONE, 9_000, "check_fit needs error"),
        ('strategy = "split"\n' + CHECK + PHONE + AGE, 9_000, "needs strategy"),
        ("sample = 2\n" + CHECK + PHONE + AGE, 9_000, "needs strategy"),
        (CHECK + TOWN, 9_000, "nothing to check"),
    ],
)
def test_what_cannot_be_met_is_refused(text: str, people: int, words: str) -> None:
    with pytest.raises(CampaignError, match=words):
        parsed(text, people=people)


def test_levels_and_periods_take_it() -> None:
    campaign = parsed(CHECK + '[levels]\nhigh = "1/2"\nlow = 1\n' + PHONE, people=100_000)
    assert [law.budget for law in campaign.frame.cells] == [0.5, 1.0, 0.5, 1.0]
    repeat = '[repeat]\npermanent = 2.0\nrounds = 9\nvalues = 3\nevery = "week"\n'
    again = parsed(CHECK + repeat + PHONE, people=100_000)
    assert again.repeated
    assert again.limit == 2.0 * (3 + 2)  # fitted and not: two more answers that are kept


@pytest.mark.parametrize("check", ["", CHECK])
def test_check_says_where_figures_do_not_show_misfits(tmp_path: Path, check: str) -> None:
    text = HEAD.format(people=40_000, epsilon=1.0, more="") + check + PHONE + AGE + TOWN
    (tmp_path / "campaign.toml").write_text(text)
    said = " ".join(command.murmur("check", folder=tmp_path).stdout.split())
    assert ("phone, age: figures do not show how many" in said) == (not check)
    assert ("phone: fit" in said) == bool(check)


@pytest.mark.slow
def test_the_operator_sees_how_many_answers_did_not_fit(tmp_path: Path) -> None:
    """From devices to `murmur estimate`, in words and as JSON, with its interval."""
    rows = [["iPhone" if i % 100 < 11 else "ios", 40] for i in range(6000)]
    with (tmp_path / "people.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["phone", "age"], *rows])
    text = HEAD.format(people=6000, epsilon=4.0, more="") + CHECK + PHONE + AGE
    with collectors.running(tmp_path / "store.db", text) as collector:
        url = collector.collection("phones").url
        refused = command.murmur("send", url, "people.csv", folder=tmp_path, code=2)
        assert "phone 11.00%" in refused.stderr
        command.murmur("send", url, "people.csv", "--allow-misfits", "0.2", folder=tmp_path)
    said = command.murmur("estimate", "store.db", folder=tmp_path).stdout
    assert re.search(r"phone: [0-9.]+% of answers did not fit \(standard error [0-9.]+%, int", said)
    found = json.loads(command.murmur("estimate", "store.db", "--json", folder=tmp_path).stdout)
    checks = {one["name"]: one["checks"] for one in found["attributes"]}
    assert checks["phone: fit"] == "phone"
    (share,) = [
        one
        for one in found["estimates"]
        if (one["attribute"], one["item"]) == ("phone: fit", "did not fit")
    ]
    assert abs(share["value"] - 0.11) < 4.5 * share["stderr"]
    assert share["stderr"] < 0.03
