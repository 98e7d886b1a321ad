"""Figures by period: coverage with permanent answers, changes, the test, and how they are read."""

from __future__ import annotations

import itertools
import json
import math
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import murmuration
from murmuration.analysis.estimates import Query, estimates, trend
from murmuration.analysis.periods import SAFE, SWINGS, Periods
from murmuration.campaign.form import ByPeriod
from murmuration.campaign.survey import SurveyCampaign
from murmuration.cli.estimate import people_in
from murmuration.collector.commit import Batch, commit
from murmuration.collector.publish import serve
from murmuration.collector.store import open_store
from murmuration.definition import load as campaign_file
from murmuration.errors import CohortError, ParameterError
from murmuration.exact.arrays import Rows
from murmuration.mechanisms.item.memoised import Memoised
from murmuration.mechanisms.number.memoised_bit import MemoisedBit
from murmuration.mechanisms.tally import Tally
from murmuration.statistics.score import normal_quantile
from murmuration.wire import report
from murmuration.wire.ids import Ids
from tests.support.accounts import made
from tests.support.places import ROOT

TEXT = """
name = "mood"
purpose = "How people are, week by week."
epsilon = 1.0
cohort = 100
[repeat]
permanent = 2.0
rounds = 52
every = "week"
[[attributes]]
name = "mood"
kind = "category"
labels = ["good", "so-so", "bad"]
"""
CAMPAIGN = campaign_file.parse(TEXT)
WEEK = CAMPAIGN.period_named("2026-W45")


@pytest.fixture
def experiments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "experiments"))


# --- coverage (experiments/periods.py has more) --------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("crowd", "about", "permanent"),
    [
        ("eager", "participants", 2.0),
        ("halves", "participants", 1.2),
        ("constant", "participants", 1.2),
        ("swinging", "population", 2.0),
    ],
)
def test_intervals_cover(experiments, crowd: str, about: str, permanent: float) -> None:
    """In 40 runs of fixed seeds: figures of a run hang together, so a run counts as one try."""
    del experiments
    from periods import study

    runs = 40
    found = study(crowd, runs, people=2000, periods=5, about=about, permanent=permanent)
    for what in ("period", "together", "change"):
        covered, tries = found[what]
        assert covered / tries > 0.95 - 3 * math.sqrt(0.95 * 0.05 / runs), what
    if crowd != "eager":
        assert found["test"][0] / runs <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / runs)


@pytest.mark.slow
def test_a_change_of_five_points_is_found(experiments) -> None:
    del experiments
    from periods import five_points

    found = five_points(runs=3)
    assert found == {"covered": (3, 3), "certain": (3, 3), "test": (3, 3)}


@pytest.mark.slow
def test_52_weeks_tell_no_more_than_is_declared_and_fresh_noise_would(experiments) -> None:
    del experiments
    from longrun import attacked, campaign, sent

    asked = campaign()
    (law,) = asked.frame.cells
    assert isinstance(law, Memoised)
    kept = attacked(law, sent(asked, 2000, 52, fresh=False, seed=1), fresh=False)
    fresh = attacked(law, sent(asked, 2000, 52, fresh=True, seed=1), fresh=True)
    assert kept.measured <= kept.declared <= law.permanent < fresh.measured
    assert kept.right < 1 / (1 + math.exp(-law.permanent)) < 0.99 < fresh.right


# --- what is said over several periods -----------------------------------------------------------


def reports_of(campaign: SurveyCampaign, n: int, period: int, seed: int = 0) -> tuple[Ids, Rows]:
    """Reports of n people about one period, whatever the time is."""
    ids, rows = made(campaign, n, seed)
    return ids, campaign.form.dated(rows[:, campaign.form.head_bytes :], period)


def tallies_of(campaign: SurveyCampaign, sizes: dict[int, int]) -> ByPeriod:
    found: dict[int, tuple[Tally, ...]] = {}
    for seed, (period, n) in enumerate(sizes.items()):
        found |= campaign.form.tallies(reports_of(campaign, n, period, seed)[1])
    return found


@pytest.fixture
def periods() -> Periods:
    return Periods(CAMPAIGN, tallies_of(CAMPAIGN, {WEEK: 400, WEEK + 1: 900, WEEK + 2: 50}))


def test_a_period_has_its_own_people_and_cohort(periods: Periods) -> None:
    assert [(p.name, p.people, p.shown) for p in periods.listed()] == [
        ("2026-W45", 400, True),
        ("2026-W46", 900, True),
        ("2026-W47", 0, False),
    ]
    assert {figure.period for figure in periods.reading(WEEK).figures} == {"2026-W45"}
    assert periods.reading(WEEK + 2).attributes[0].hidden
    assert periods.chosen("last") == WEEK + 1  # the last one that is shown
    first = periods.reading(WEEK).figures[0]
    assert (first.epsilon, first.permanent) == (1.0, 2.0)  # one report; all reports together


def test_together_each_period_weighs_as_its_people(periods: Periods) -> None:
    (one, *_), (other, *_) = (periods.reading(WEEK + t).figures for t in (0, 1))
    pooled = periods.pooled()
    first = pooled.figures[0]
    assert first.value == pytest.approx((400 * one.value + 900 * other.value) / 1300)
    assert first.stderr == pytest.approx((400 * one.stderr + 900 * other.stderr) / 1300)
    assert first.low == pytest.approx((400 * one.low + 900 * other.low) / 1300)
    assert (first.n, first.period) == (1300, "all")
    assert "counts in each" in first.note
    assert "1 of 3 periods" in pooled.attributes[0].note


def test_together_shows_figures_without_an_error(periods: Periods) -> None:
    """Of a figure with an endless interval nothing can be compared; pooled, it is still told."""
    for figures in (periods.reading(WEEK).figures, periods.reading(WEEK + 1).figures):
        figures[0] = replace(figures[0], stderr=math.inf, low=-math.inf, high=math.inf)
    assert len(periods.pooled().figures) == 3
    assert periods.pooled().figures[0].stderr == math.inf
    assert len(periods.changes(WEEK + 1)) == 2


def test_a_change_reaches_as_far_as_independent_periods_do(periods: Periods) -> None:
    (one, *_), (other, *_) = (periods.reading(WEEK + t).figures for t in (0, 1))
    change, *rest = periods.changes(WEEK + 1)
    assert len(rest) == 2
    assert (change.before, change.after, change.note) == ("2026-W45", "2026-W46", SAFE)
    assert change.value == pytest.approx(other.value - one.value)
    assert change.stderr == pytest.approx(math.hypot(one.stderr, other.stderr))
    reach = normal_quantile(0.95) * change.stderr
    assert change.high - change.low == pytest.approx(2 * reach, rel=0.05)
    assert [-c.value for c in periods.changes(WEEK, WEEK + 1)] == pytest.approx(
        [c.value for c in (change, *rest)]
    )
    assert periods.changes(WEEK) == []  # there is none before


def test_quotients_are_never_opposed_either() -> None:
    """What is read for two shares among those who answered: exactly, for every permanent answer."""
    campaign = campaign_file.parse(TEXT + "missing = true\n")
    found = Periods(campaign, tallies_of(campaign, {WEEK: 400, WEEK + 1: 900}))
    answered, first, *_ = found.changes(WEEK + 1)
    assert (answered.item, answered.note, first.note) == ("answered", SAFE, SAFE)
    errors = [found.reading(WEEK + t).figures[1].stderr for t in (0, 1)]
    assert first.stderr == pytest.approx(math.hypot(*errors))
    law = Memoised(1.0, 4, 2.0).memory
    truth, lie, whole = law.truth, law.lie, law.truth + 3 * law.lie
    for value in range(4):  # item 0 is looked at, item 3 is no answer
        chance = np.array([truth if value == item else lie for item in range(4)]) / whole
        for shares in itertools.product((0.0, 0.3, 1.0), repeat=2):
            reads = [np.array([1.0, 0.0, 0.0, share]) for share in shares]
            means = [float(chance @ read) for read in reads]
            assert chance @ (reads[0] * reads[1]) - means[0] * means[1] >= -1e-12


NUMBER = (
    TEXT[: TEXT.index("[[attributes]]")]
    + """
[[attributes]]
name = "hours"
low = 0
high = 40
"""
)


def test_a_number_may_go_from_end_to_end() -> None:
    """Then its change varies by more than if periods were independent: by what the law allows."""
    campaign = campaign_file.parse(NUMBER)
    found = Periods(campaign, tallies_of(campaign, {WEEK: 400, WEEK + 1: 900}))
    (change,) = found.changes(WEEK + 1)
    (law,) = campaign.frame.cells
    errors = [found.reading(WEEK + t).figures[0].stderr for t in (0, 1)]
    wanted = math.sqrt(errors[0] ** 2 + errors[1] ** 2 + 2 * 20**2 * law.opposition / 900)
    assert (change.note, change.stderr) == (SWINGS, pytest.approx(wanted))
    assert change.stderr < sum(errors)


def test_by_how_much_reports_of_a_number_are_opposed() -> None:
    """The covariance of the kept bits of any two values: least from one end to the other."""
    law = MemoisedBit(1.0, 2.0)
    lie = float(law.bits.memory.q)
    grid = np.linspace(-1, 1, 41)
    x, y = grid[:, None], grid
    between = np.abs(x - y) / 2  # how often the threshold lies between both
    least = ((1 - 2 * between) / (1 - 2 * lie) ** 2 - x * y).min()
    assert law.opposition == pytest.approx(-least)
    assert law.opposition > 0 == Memoised(1.0, 3, 2.0).opposition


@pytest.mark.slow
def test_other_people_who_report_are_no_change() -> None:
    """At epsilon 4 the test of those who reported said "changed" in 48 to 100% of such runs."""
    campaign = campaign_file.parse(
        TEXT.replace("epsilon = 1.0", "epsilon = 4.0").replace("permanent = 2.0", "permanent = 8.0")
    )
    (law,) = campaign.frame.cells
    draw, rng = np.random.default_rng(1), murmuration.seeded_rng(1)
    said = np.zeros(2)
    for _ in range(20):
        kept = law.remember(draw.choice(3, 2000, p=[0.5, 0.3, 0.2]), rng).astype(int)
        half = draw.permutation(2000) < 1000
        weeks = {WEEK + week: half if week < 2 else ~half for week in range(4)}
        tallies = {week: (law.tally(law.repeat(kept[who], rng)),) for week, who in weeks.items()}
        found = Periods(campaign, tallies).changed()
        assert found is not None
        assert found.reporters is not None
        assert (found.about, found.reporters.about) == ("population", "participants")
        said += found.changed, found.reporters.changed
    assert said[0] <= 3  # 5% at most: more than 3 of 20 happen once in 600 times
    assert said[1] >= 10


@pytest.mark.slow
def test_few_false_reports_are_no_change_of_those_who_reported() -> None:
    """The same people say the same each week: with normal tails 35% of such runs had changed."""
    labels = ", ".join(f'"{place}"' for place in range(60))
    text = TEXT.replace("epsilon = 1.0", "epsilon = 8.0").replace("2.0", "16.0")
    campaign = campaign_file.parse(text.replace('"good", "so-so", "bad"', labels))
    (law,) = campaign.frame.cells
    draw, rng, said = np.random.default_rng(2), murmuration.seeded_rng(2), 0
    shares = 1 / np.arange(1, 61)
    for _ in range(20):
        kept = law.remember(draw.choice(60, 1000, p=shares / shares.sum()), rng).astype(int)
        tallies = {WEEK + week: (law.tally(law.repeat(kept, rng)),) for week in range(6)}
        found = Periods(campaign, tallies).changed()
        assert found is not None
        assert found.reporters is not None
        said += found.reporters.changed
    assert said <= 3


def test_about_the_population_people_may_swing(periods: Periods) -> None:
    tallies = tallies_of(CAMPAIGN, {WEEK: 400, WEEK + 1: 900})
    wide = Periods(CAMPAIGN, tallies, about="population").changes(WEEK + 1)[0]
    noise = periods.changes(WEEK + 1)[0]
    own = [
        Periods(CAMPAIGN, tallies, about="population").reading(WEEK + t).figures[0].stderr
        for t in (0, 1)
    ]
    quiet = [periods.reading(WEEK + t).figures[0].stderr for t in (0, 1)]
    spread = sum(math.sqrt(a**2 - b**2) for a, b in zip(own, quiet, strict=True))
    assert wide.stderr == pytest.approx(math.hypot(noise.stderr, spread))


def test_reports_of_a_person_are_never_opposed() -> None:
    """The covariance of two reports about any two values, exactly: 0, or that of what is kept."""
    law = Memoised(1.0, 3, 2.0)
    swap, keep = law.swap, law.keep
    lie, truth = law.memory.lie, law.memory.truth
    whole = keep + 2 * swap
    for v in range(3):
        for item in range(3):
            kept = [truth if a == v else lie for a in range(3)]
            sends = [keep if a == item else swap for a in range(3)]
            once = sum(k * s for k, s in zip(kept, sends, strict=True))
            twice = sum(k * s * s for k, s in zip(kept, sends, strict=True))
            assert twice * whole >= once**2  # E[XY] >= E[X] E[Y], in integers


def test_the_test_names_the_clearest_difference() -> None:
    law = CAMPAIGN.frame.cells[0]
    draw = murmuration.seeded_rng(1)
    shares = {WEEK: 0.3, WEEK + 1: 0.3, WEEK + 2: 0.6}
    tallies = {
        period: (law.tally(law.privatize((np.arange(5000) >= 5000 * share).astype(int), draw)),)
        for period, share in shares.items()
    }
    found = Periods(CAMPAIGN, tallies).changed()
    assert found is not None
    assert found.changed
    assert found.p_value < 1e-6
    assert found.comparisons == 9
    assert "2026-W47" in (found.before, found.after)
    assert Periods(CAMPAIGN, {WEEK: tallies[WEEK]}).changed() is None


def test_periods_that_are_all_alike_have_not_changed() -> None:
    """Not even by chance: there is no clearest difference."""
    (tally,) = tallies_of(CAMPAIGN, {WEEK: 400})[WEEK]
    found = Periods(CAMPAIGN, {WEEK: (tally,), WEEK + 1: (tally,)}).changed()
    assert found is not None
    assert (found.changed, found.p_value) == (False, 1.0)
    assert (found.before, found.after) == ("2026-W45", "2026-W46")


def test_a_look_reads_again_only_what_has_changed(periods: Periods) -> None:
    before = Periods(CAMPAIGN, tallies_of(CAMPAIGN, {WEEK: 400, WEEK + 1: 900}))
    kept = before.reading(WEEK)
    before.reading(WEEK + 1)
    grown = tallies_of(CAMPAIGN, {WEEK: 400, WEEK + 1: 950})
    after = Periods(CAMPAIGN, grown, before=before)
    assert after.reading(WEEK) is kept
    assert after.reading(WEEK + 1).figures[0].n == 950


# --- as it is asked for --------------------------------------------------------------------------


def test_estimates_of_a_period_of_all_and_of_none() -> None:
    tallies = tallies_of(CAMPAIGN, {WEEK: 400, WEEK + 1: 900, WEEK + 2: 50})
    last = estimates(CAMPAIGN, tallies)
    assert (last.period, last.people, last.reports) == ("2026-W46", 900, 900)
    assert last.changes[0].before == "2026-W45"
    assert last.changed is not None
    named = estimates(CAMPAIGN, tallies, Query(period="2026-11-04"))
    assert (named.period, named.people, named.changes) == ("2026-W45", 400, [])
    both = estimates(CAMPAIGN, tallies, Query(period="all"))
    assert (both.period, both.people, both.reports) == ("all", 900, 1300)
    with pytest.raises(CohortError, match=r"in 2026-W47.*fewer than 100"):
        estimates(CAMPAIGN, tallies, Query(period="2026-W47"))
    with pytest.raises(CohortError, match="no period has answers of enough"):
        estimates(CAMPAIGN, {})
    plain = replace(CAMPAIGN, every=None)
    with pytest.raises(ParameterError, match="no periods"):
        estimates(plain, {}, Query(period="last"))
    lines = trend(CAMPAIGN, tallies)
    assert [one.period for one in lines.estimates[:2]] == ["2026-W45", "2026-W46"]
    assert [one.shown for one in lines.periods] == [True, True, False]


def test_a_trend_of_a_long_list_has_the_largest() -> None:
    labels = ", ".join(f'"{place}"' for place in range(40))
    campaign = campaign_file.parse(TEXT.replace('"good", "so-so", "bad"', labels))
    found = trend(campaign, tallies_of(campaign, {WEEK: 400, WEEK + 1: 900}))
    last = estimates(campaign, tallies_of(campaign, {WEEK: 400, WEEK + 1: 900}))
    largest = sorted(last.estimates, key=lambda one: -one.value)[:20]
    assert {one.item for one in found.estimates} == {one.item for one in largest}
    assert len(found.estimates) == 40


def test_pooled_people_are_said_as_what_they_are() -> None:
    """Where a device sends several reports, a collector knows the least and the most."""
    plain = campaign_file.parse(TEXT.replace('every = "week"', "").replace("52", "6"))
    _, rows = made(plain, 3000)
    found = estimates(plain, plain.form.tallies(rows))
    assert people_in(found) == "500 to 3,000 people, 3,000 reports"


@pytest.mark.slow
def test_a_store_is_opened_and_read_by_period(tmp_path: Path) -> None:
    with closing(open_store(tmp_path / "a.db")) as store:
        served = serve(store, CAMPAIGN)
        for period, n in {WEEK: 300, WEEK + 1: 400}.items():
            body = report.to_binary(CAMPAIGN.form, *reports_of(CAMPAIGN, n, period, seed=period))
            batch = Batch(served, report.decode(CAMPAIGN.form, body, report.BINARY))
            commit(store, [batch])
    opened = murmuration.open(tmp_path / "a.db")
    assert {one.period for one in opened.estimates()} == {"2026-W46"}
    assert {one.n for one in opened.estimates(period="2026-W45")} == {300}
    assert {one.n for one in opened.estimates(period="all")} == {700}
    changes = opened.changes()
    assert [one.item for one in changes] == ["good", "so-so", "bad"]
    assert changes.changed is not None
    assert changes.to_pandas().shape[0] == 3
    table = opened.trend()
    assert [one.period for one in table[:2]] == ["2026-W45", "2026-W46"]
    axis = table.plot()
    assert len(axis.lines) == 3
    assert [one.name for one in opened.status().periods] == ["2026-W45", "2026-W46"]
    assert json.loads(json.dumps(table.columns()["period"]))
