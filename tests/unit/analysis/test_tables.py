"""Tables of two attributes: cells, margins by least squares, association, shares given another."""

from __future__ import annotations

import math

import numpy as np
import pytest

from murmuration.analysis import read
from murmuration.analysis.margins import Margin, margins_of
from murmuration.analysis.tables import ASSOCIATION, ReadTable
from murmuration.campaign.survey import SurveyCampaign
from murmuration.counting.cohort import enough
from murmuration.definition import load as campaign_file
from murmuration.errors import ParameterError
from murmuration.exact.arrays import Floats, Ints
from murmuration.exact.randomness import Rng, seeded_rng
from murmuration.mechanisms.tally import Tally

TEXT = """
name = "phones"
purpose = "Which phones people of which region have."
epsilon = {epsilon}
people = 20000
cohort = 100
[[attributes]]
name = "phone"
kind = "category"
labels = ["android", "ios", "other"]
[[attributes]]
name = "region"
kind = "category"
labels = ["north", "south", "east"]
missing = true
[[tables]]
of = ["phone", "region"]
share = 0.6
"""
PHONE, REGION = np.array([0.5, 0.35, 0.15]), np.array([0.4, 0.3, 0.15, 0.15])
APART = np.array([[1, -1, 0, 0], [-0.5, 0.5, 0, 0], [-0.5, 0.5, 0, 0]])
"""The last column is no answer."""


def campaign_at(epsilon: float) -> SurveyCampaign:
    return campaign_file.parse(TEXT.format(epsilon=epsilon), SurveyCampaign)


def table_of(apart: float) -> Floats:
    return np.asarray(np.outer(PHONE, REGION) + apart * APART)


def people(table: Floats, n: int, rng: np.random.Generator) -> list[Ints]:
    cells = rng.choice(table.size, n, p=table.ravel())
    return [cells // 4, cells % 4, cells]


def looked(
    campaign: SurveyCampaign, table: Floats, n: int, runs: int, seed: int
) -> list[tuple[Tally, ...]]:
    rng, words = np.random.default_rng(seed), seeded_rng(seed + 1000)
    return [counted(campaign, table, n, rng, words) for _ in range(runs)]


def counted(
    campaign: SurveyCampaign, table: Floats, n: int, rng: np.random.Generator, words: Rng
) -> tuple[Tally, ...]:
    return campaign.tally(campaign.privatize(people(table, n, rng), words))


def read_one(campaign: SurveyCampaign, tallies: tuple[Tally, ...]) -> ReadTable:
    groups = campaign.frame.by_group(enough(tallies, 0))
    (question,) = campaign.tables
    everybody = campaign.frame.reports(tallies)
    return ReadTable.of(campaign, question, groups, "population", everybody)


def cramer(table: Floats) -> float:
    table = table / table.sum()
    product = np.outer(table.sum(axis=1), table.sum(axis=0))
    return math.sqrt(float((np.square(table - product) / product).sum()) / 2)


def missed(covered: int, looks: int) -> float:
    """How many standard errors below 95% a coverage is."""
    return (0.95 - covered / looks) / math.sqrt(0.95 * 0.05 / looks)


@pytest.mark.parametrize(("epsilon", "apart"), [(1.0, 0.0), (2.0, 0.06)])
def test_intervals_hold_about_cells_margins_given_shares_and_the_association(
    epsilon: float, apart: float
) -> None:
    campaign, table = campaign_at(epsilon), table_of(apart)
    both = table[:, :3]
    regions = ["north", "south", "east"]
    phones = ["android", "ios", "other"]
    truths = {("phone", p): v for p, v in zip(phones, PHONE, strict=True)}
    truths |= {("region", r): v / 0.85 for r, v in zip(regions, REGION[:3], strict=True)}
    truths["region", "answered"] = 0.85
    name, labels = "phone by region", campaign.questions[2].labels
    truths |= {(name, label): v for label, v in zip(labels, table.ravel(), strict=True)}
    truths[name, ASSOCIATION] = cramer(both)
    given = both / both.sum(axis=1, keepdims=True)
    truths |= {
        (name, f"{r} given {p}"): given[i, j]
        for i, p in enumerate(phones)
        for j, r in enumerate(regions)
    }
    hits, looks = dict.fromkeys(truths, 0), dict.fromkeys(truths, 0)
    runs = looked(campaign, table, 8000, 60, 11)
    for tallies in runs:
        for view in ("cells", "rows"):
            for one in read.figures(campaign, tallies, "population", tables=view):
                place = one.attribute, one.item
                if (
                    one.low is None
                    or one.high is None
                    or (view == "rows" and "given" not in one.item)
                ):
                    continue
                hits[place] += one.low <= truths[place] <= one.high
                looks[place] += 1
    for kind in (["phone", "region"], [name]):
        own = [place for place in truths if place[0] in kind]
        assert abs(missed(sum(hits[p] for p in own), sum(looks[p] for p in own))) < 4
    assert missed(hits[name, ASSOCIATION], looks[name, ASSOCIATION]) < 3
    assert hits[name, ASSOCIATION] > 0


def test_the_test_of_independence_is_right_in_one_of_twenty() -> None:
    """And finds real dependence."""
    for epsilon, n in ((1.0, 8000), (4.0, 2000)):
        campaign = campaign_at(epsilon)
        rejected = [
            read_one(campaign, one).dependence.p_value < 0.05
            for one in looked(campaign, table_of(0.0), n, 150, 5)
        ]
        assert abs(sum(rejected) - 7.5) < 4 * math.sqrt(150 * 0.05 * 0.95)
        found = looked(campaign, table_of(0.06), 20_000, 5, 6)
        assert sum(read_one(campaign, one).dependence.p_value < 0.05 for one in found) >= 4


def test_least_squares_is_unbiased_and_nearer_than_either_part() -> None:
    campaign, table = campaign_at(1.0), table_of(0.05)
    runs = looked(campaign, table, 8000, 80, 21)
    parts = np.array([part.value for part, *_ in (read.parts(campaign, one) for one in runs)])  # type: ignore[union-attr]
    errors = parts - PHONE
    stated = read.parts(campaign, runs[0], "population")[0].stderr  # type: ignore[union-attr]
    assert (np.abs(errors.mean(axis=0)) < 4 * errors.std(axis=0) / math.sqrt(80)).all()
    assert errors.std() / np.mean(stated) == pytest.approx(1, abs=4 / math.sqrt(2 * 240))
    alone = np.array([one[0].mechanism.estimate(one[0]).value for one in runs]) - PHONE  # type: ignore[union-attr]
    rows = np.array([_rows(campaign, one).shares for one in runs]) - PHONE
    assert errors.std() < min(alone.std(), rows.std())


def _rows(campaign: SurveyCampaign, tallies: tuple[Tally, ...]) -> Margin:
    groups = campaign.frame.by_group(tallies)
    return margins_of(campaign, campaign.questions[0], groups)[1]


def test_the_noise_of_margins_is_as_their_law_says() -> None:
    campaign, table = campaign_at(1.0), table_of(0.05)
    runs = looked(campaign, table, 8000, 150, 31)
    margins = [
        margins_of(campaign, campaign.questions[1], campaign.frame.by_group(t))[1] for t in runs
    ]
    shares, scale = np.array([one.shares for one in margins]), margins[0].n
    stated = margins[0].noise(REGION) + REGION * (1 - REGION)
    seen = scale * shares.var(axis=0)
    assert seen / stated == pytest.approx(np.ones(4), abs=4 * math.sqrt(2 / 150))
    covariance = margins[0].covariance(REGION[:3], REGION[3]) - REGION[:3] * REGION[3]
    crossed = scale * np.cov(shares.T)[3, :3]
    assert np.abs(crossed - covariance).max() < 4 * stated.max() / math.sqrt(150)


def test_a_smoothed_table_is_nearer_and_says_that_it_has_a_bias() -> None:
    campaign, table = campaign_at(1.0), table_of(0.04)
    found = [read_one(campaign, one) for one in looked(campaign, table, 20_000, 5, 41)]
    raw, smooth = (
        [abs(getattr(one, n) - table).sum() / 2 for one in found] for n in ("cells", "smoothed")
    )
    assert np.mean(smooth) < 0.8 * np.mean(raw)
    assert all(one.smoothed.min() >= 0 and one.smoothed.sum() == pytest.approx(1) for one in found)
    tallies = looked(campaign, table, 8000, 1, 42)[0]
    rows = read.figures(campaign, tallies, tables="smoothed").of("phone by region")[1:]
    assert all(one.low is None and one.stderr is None and "bias" in one.note for one in rows)


def test_liars_move_margins_no_further_than_their_bound() -> None:
    """Everybody lies alike, about the table: no report of another cell is worse."""
    campaign, n = campaign_at(2.0), 8000
    rng, words = np.random.default_rng(51), seeded_rng(1051)
    honest = people(table_of(0.0), n, rng)
    rows = campaign.privatize(honest, words)
    asked = np.flatnonzero(rows[:, 0] == 2)[: n // 100]
    before = read.figures(campaign, campaign.tally(rows))
    held = rows[asked]
    w = int(np.unpackbits(held[0, 1:]).sum())
    wanted = [0, 1, 2, 3][:w]
    lie = sum(1 << bit for bit in wanted)
    rows[asked, 1:] = np.frombuffer(lie.to_bytes(held.shape[1] - 1, "little"), dtype=np.uint8)
    after = read.figures(campaign, campaign.tally(rows))
    for one, other in zip(before.of("phone"), after.of("phone"), strict=True):
        assert one.liars is not None
        assert abs(one.value - other.value) < one.liars
    assert abs(before[0].value - after[0].value) > before[0].liars / 4  # type: ignore[operator]


def test_too_few_answers_show_no_table_and_an_unknown_view_is_refused() -> None:
    campaign = campaign_at(1.0)
    tallies = looked(campaign, table_of(0.0), 300, 1, 61)[0]
    found = read.figures(campaign, tallies, cohort=250)
    assert found.attributes == []
    with pytest.raises(ParameterError, match="tables are shown as cells, rows, columns, smoothed"):
        read.figures(campaign, tallies, tables="cell")
