"""Items with budgets of their own: every pair of items keeps its budget, exactly."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from murmuration import mechanism, seeded_rng
from murmuration.campaign.survey import SurveyCampaign
from murmuration.definition import document, load
from murmuration.errors import CampaignError, FormatError, ParameterError, PromiseError
from murmuration.exact.exponential import within
from murmuration.exact.randomness import WHOLE
from murmuration.mechanisms.item.graded_items import GradedItems

HIV = (2.0, 2.0, 2.0, 0.5)
MATRIX = ((1.0, 0.6, 2.0), (0.6, 0.6, 0.9), (2.0, 0.9, 3.0))
FILE = """
name = "clinic"
purpose = "For a test."
people = 5000
cohort = 100
[[attributes]]
name = "illness"
kind = "category"
labels = ["none", "cold", "flu", "hiv"]
{}
"""


@pytest.mark.parametrize(
    ("epsilon", "semantics"),
    [(HIV, "min"), (HIV, "max"), ((2.0, 1.0, 0.5, 1.0, 2.0), "min"), ((1.0, 0.6, 3.0), MATRIX)],
)
def test_every_report_counted_no_pair_is_further_apart_than_its_budget(epsilon, semantics) -> None:
    law = GradedItems(epsilon=epsilon, k=len(epsilon), semantics=semantics)
    rows = [[Fraction(w, WHOLE) for w in row] for row in law.table.weights.tolist()]
    assert all(sum(row) == 1 for row in rows)
    found = law.loss()
    for u, v in itertools.permutations(range(law.k), 2):
        worst = max(max(a / b, b / a) for a, b in zip(rows[u], rows[v], strict=True))
        assert worst == found.ratios[u][v]
        assert within(worst, law.budgets[u][v])
    assert found.holds
    assert law.budget == found.claimed <= max(epsilon)
    assert found.ratio == max(max(r for r in row if r is not None) for row in found.ratios)


def test_means_are_right_and_errors_as_planned() -> None:
    law = mechanism("graded-items", epsilon=HIV, k=4)
    items = np.repeat(np.arange(4), [2000, 1000, 700, 300])
    truth, rng, misses = np.bincount(items) / len(items), seeded_rng(1), []
    for _ in range(300):
        found = law.estimate(law.tally(law.privatize(items, rng)))
        misses.append((found.value - truth) / found.stderr)
    assert np.abs(np.mean(misses, axis=0)).max() < 4.5 / np.sqrt(300)
    assert np.abs(np.std(misses, axis=0) - 1).max() < 4.5 * np.sqrt(0.5 / 300)


def test_what_the_table_is_worth() -> None:
    cases = (((2.0,) * 3 + (0.5,), 20.9, 36.8), ((2.0,) * 7 + (0.5,), 44.6, 95.1))
    for epsilon, error, single in cases:
        law = GradedItems(epsilon=epsilon, k=len(epsilon))
        assert law.total_variance() == pytest.approx(error, rel=0.01)
        other = mechanism("subset", epsilon=law.least_budget, k=law.k)
        assert other.total_variance() == pytest.approx(single, rel=0.01)
    plain = GradedItems(epsilon=1.0, k=5)
    assert plain.total_variance() == pytest.approx(
        mechanism("subset", epsilon=1.0, k=5).total_variance(), rel=1e-3
    )


def test_a_campaign_takes_the_table_or_one_budget_whichever_is_better() -> None:
    def law_of(text: str, epsilon: str = "") -> tuple[SurveyCampaign, str]:
        campaign = load.parse(epsilon + FILE.format(text), SurveyCampaign)
        return campaign, campaign.frame.cells[0].name

    campaign, name = law_of("budgets = [2.0, 2.0, 2.0, 0.5]")
    assert name == "graded-items"
    assert campaign.epsilon == 2.0  # two of the others may be told apart by that
    again = document.read(document.publish(campaign), SurveyCampaign)
    assert again.digest == campaign.digest
    assert again.frame.cells[0].loss().holds
    _, name = law_of("budgets = [0.5, 0.5, 0.5, 0.5]")
    assert name in {"grr", "subset", "graded-items"}
    many = FILE.format("budgets = [1.0" + ", 2.0" * 39 + "]").replace(
        '"none"', ", ".join(f'"l{i}"' for i in range(37))
    )
    one = load.parse(many, SurveyCampaign).frame.cells[0]
    assert (one.name, one.epsilon) == ("subset", 1.0)
    for text, why in (
        ("budgets = [1, 1]", "one for each of 4 labels"),
        ("budgets = [1, 1, 1, 1]\nmechanism = 'grr'", "one epsilon for all items"),
        ("budgets = [1, 1, 1, 1]\nepsilon = 1", "it has budgets instead"),
        ("semantics = 'min'", "with budgets"),
        ("budgets = [1, 1, 1, 1]\nsemantics = 'most'", "'max', 'min' or a matrix"),
        ("budgets = [1, 1, 1, 1]\n[levels]\nlow = 1", "takes no levels"),
        ("budgets = [1, 1, 1, 1]\nmissing = true", "and one for no answer"),
    ):
        with pytest.raises(CampaignError, match=why):
            law_of(text)


def test_mistakes_and_laws_of_others() -> None:
    for more, why in (
        ({"epsilon": HIV, "k": 3}, "as many budgets"),
        ({"epsilon": tuple(0.1 * i for i in range(1, 10)), "k": 9}, "different budgets"),
        ({"epsilon": 1.0, "k": 33}, "2 to 32"),
        ({"epsilon": HIV, "k": 4, "semantics": "most"}, "semantics"),
    ):
        with pytest.raises(ParameterError, match=why):
            GradedItems(**more)
    law = GradedItems(epsilon=HIV, k=4)
    rows = law.law()["weights"]
    for bad in (
        {"weights": rows[:3]},
        {"weights": [row[:-1] for row in rows]},
        {"weights": [[*row[:-2], float(row[-2]), row[-1]] for row in rows]},
        {"weights": [rows[0]] * 4},
        {"weights": [[WHOLE]] * 4},
        {"weights": [[*row, 0] for row in rows]},
        {"rows": rows},
        7,
    ):
        with pytest.raises(FormatError):
            law.with_law(bad)
    sharp = (np.eye(4, dtype=np.int64) * (WHOLE - 3) + (1 - np.eye(4, dtype=np.int64))).tolist()
    with pytest.raises(PromiseError, match="nothing was"):
        law.with_law({"weights": sharp}).privatize([3], seeded_rng(1))
