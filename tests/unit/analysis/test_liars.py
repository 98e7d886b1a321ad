"""What liars can do at most, beside every figure; and reports that honest devices never send."""

from __future__ import annotations

import csv
import itertools
import json
import math

import numpy as np
import pytest
from scipy.stats import binom

import murmuration
from murmuration import Mechanism, mechanism, seeded_rng
from murmuration.analysis.liars import vector_shift
from murmuration.analysis.periods import Periods
from murmuration.analysis.read import figures
from murmuration.campaign.alarms import alarms_of, warnings_by_period, warnings_of
from murmuration.campaign.survey import SurveyCampaign
from murmuration.definition.load import parse
from murmuration.errors import ParameterError
from murmuration.mechanisms.vector.base import TupleMechanism
from murmuration.mechanisms.vector.privunit import PrivUnit
from murmuration.statistics.forgery import FALSE_ALARM, Limits, Mixture, alarms
from murmuration.statistics.liars import Reach, concentrated, moved
from murmuration.wire import report
from murmuration.wire.ids import new_ids
from tests.support import collectors, command
from tests.support.cases import CASES

LAWS = [case.all()[-1] for case in CASES] + [case.all()[0] for case in CASES]
HEAD = 'name = "x"\npurpose = "y"\nepsilon = 2.0\ncohort = 100\n'
AGE = '[[attributes]]\nname = "age"\nlow = 18\nhigh = 98\nmechanism = "duchi"\n'
PHONE = (
    '[[attributes]]\nname = "phone"\nkind = "category"\nlabels = ["android", "ios", "other"]\n'
    'mechanism = "grr"\n'
)


def named(law: Mechanism) -> str:
    return f"{law.name}-{law.epsilon}"


def campaign(text: str) -> SurveyCampaign:
    return parse(text)


def same(law: Mechanism, answer: object, n: int):
    """n people with one answer."""
    if isinstance(law, PrivUnit):
        return np.tile(np.array(answer, dtype=np.float64), (n, 1))
    if isinstance(law, TupleMechanism):
        return [np.array([one] * n) for one in answer]  # type: ignore[attr-defined]
    return np.array([answer] * n)


# --- the reach of a report -----------------------------------------------------------------------


@pytest.mark.parametrize("law", LAWS, ids=named)
def test_no_report_is_read_as_more_than_its_reach(law) -> None:
    reach = law.reach()
    if reach is None:
        assert isinstance(law, TupleMechanism), "only tuples leave it to their attributes"
        return
    reports = law.privatize(law.domain.crowd(4, np.random.default_rng(1)), seeded_rng(2))
    for one in reports[:, None]:
        if law.name in ("block", "or-none", "dct"):
            continue  # not about all attributes, read as a quotient, or slow to read
        value = np.asarray(law.estimate(law.tally(one)).value)
        assert (value >= reach.low - 1e-9).all()
        assert (value <= reach.high + 1e-9).all()
    assert reach.low < reach.least <= reach.most < reach.high


def test_the_reach_of_a_number_and_of_an_item_is_attained() -> None:
    duchi, grr = mechanism("duchi", epsilon=1.0), mechanism("grr", epsilon=1.0, k=4)
    assert duchi.estimate(duchi.tally([1])).value == pytest.approx(duchi.reach().high)
    values = grr.estimate(grr.tally([2])).value
    assert values.max() == pytest.approx(grr.reach().high)
    assert values.min() == pytest.approx(grr.reach().low)


def test_lies_are_at_the_level_that_moves_most_and_at_no_more_than_there_are() -> None:
    strict, mild = Reach(-5.0, 5.0), Reach(-2.0, 2.0)
    assert moved([(mild, 90), (strict, 10)], 5) == pytest.approx(5 * 6 / 100)
    assert moved([(mild, 90), (strict, 10)], 20) == pytest.approx((10 * 6 + 10 * 3) / 100)
    assert moved([(Reach(-1.0, 3.0, 0.0, 1.0), 10)], 1) == pytest.approx(0.3)
    assert concentrated(0.01, 1.0) == pytest.approx(0.01)


# --- beside every figure -------------------------------------------------------------------------


def tallies_with_lies(asked: SurveyCampaign, honest, lies, seed: int = 3):
    """Tallies of honest answers by name, and of rows that somebody made up."""
    rng = seeded_rng(seed)
    rows = asked.privatize(asked.encode(honest, rng), rng)
    return asked.tally(np.concatenate([rows, lies])), asked.tally(rows)


def test_the_worst_lies_move_a_mean_by_the_bound_and_no_lies_by_more() -> None:
    asked, n, share = campaign(HEAD + AGE), 4000, 0.05
    lies = round(n * share)
    rows = np.zeros((lies, asked.form.row_bytes), dtype=np.uint8)
    rows[:, asked.frame.index_bytes] = 1  # the larger symbol
    both, honest = tallies_with_lies(asked, {"age": np.full(n - lies, 40.0)}, rows)
    (figure,) = figures(asked, both, liars=share)
    # What it would be if those who lie counted with their true answer, 18.
    law = asked.frame.cells[0]
    true_sum = float(honest[0].counts @ law.design.values) - lies
    instead = 58 + 40 * true_sum / n
    assert figure.liars == pytest.approx(figure.value - instead)
    assert figure.liars == pytest.approx(share * (law.reach().high + 1) * 40)


def test_liars_who_all_answer_one_attribute_are_bounded_too() -> None:
    asked, n = campaign(HEAD + AGE + PHONE), 20_000
    lies = n // 100
    rows = np.zeros((lies, asked.form.row_bytes), dtype=np.uint8)
    rows[:, asked.frame.index_bytes] = 1
    people = {"age": np.full(n - lies, 18.0), "phone": np.array(["ios"] * (n - lies))}
    both, _ = tallies_with_lies(asked, people, rows)
    mean = figures(asked, both)[0]
    assert 0.7 * mean.liars < mean.value - 18 < mean.liars + 4 * mean.stderr
    alone = 0.01 * asked.frame.cells[0].reach().most_moved * 40
    assert mean.liars > 1.5 * alone, "a device draws which attribute it answers: liars choose"


@pytest.mark.parametrize("kind", [AGE, PHONE])
def test_lies_about_answers_that_may_be_missing_stay_within_the_bound(kind) -> None:
    text = HEAD + kind.replace('mechanism = "duchi"\n', "") + "missing = true\n"
    asked, n, share = campaign(text), 6000, 0.02
    lies = round(n * share)
    law = asked.frame.cells[0]
    rng = np.random.default_rng(5)
    honest = (
        {"age": np.where(rng.random(n - lies) < 0.3, np.nan, 60.0)}
        if kind == AGE
        else {"phone": [None if one < 0.3 else "ios" for one in rng.random(n - lies)]}
    )
    for symbol in range(law.counters):
        rows = np.zeros((lies, asked.form.row_bytes), dtype=np.uint8)
        rows[:, asked.frame.index_bytes] = symbol
        both, before = tallies_with_lies(asked, honest, rows)
        got = {one.item: one for one in figures(asked, both, liars=share)}
        # Instead of each lie, the truth: no answer, which adds nothing to S and N.
        instead = {one.item: one for one in figures(asked, before)}
        for item, one in got.items():
            truth = instead[item].value
            if item == "answered":
                truth *= (n - lies) / n
            assert one.liars is not None
            assert abs(one.value - truth) <= one.liars + 1e-9, (symbol, item)


@pytest.mark.parametrize("ages", [(20.0, 35.0), (60.0, 30.0), (90.0, 96.0)])
def test_the_bound_of_a_mean_among_those_who_answered_is_its_worst_corner(ages) -> None:
    """Every lie in place of every truth, one by one: the largest move, in years."""
    asked = campaign(HEAD + AGE + "missing = true\n")
    (law,), people = asked.frame.cells, {"age": [*ages, math.nan] * 3000}
    nobody = np.zeros((0, asked.form.row_bytes), dtype=np.uint8)
    tallies, _ = tallies_with_lies(asked, people, nobody)
    part, (mean,) = law.estimate(tallies[0]), figures(asked, tallies, liars=0.02)[1:]
    worst = 0.0
    for lie, truth in itertools.product(law.lies(), [(-1, 1), (1, 1), (0, 0)]):
        sums, share = (0.02 * (sent - true) for sent, true in zip(lie, truth, strict=True))
        moved_to = (part.sums[0] - sums) / (part.share - share)
        worst = max(worst, 40 * abs(moved_to - part.among[0]))
    assert mean.liars == pytest.approx(worst, rel=1e-9)


def test_combinations_whose_weights_follow_from_reports_and_fits_have_no_bound() -> None:
    levels = "[levels]\nhigh = 1.0\nlow = 0.5\n"
    asked = campaign(HEAD + PHONE + levels)
    rng, n = seeded_rng(4), 2000
    columns = asked.encode({"phone": ["ios", "android"] * (n // 2)}, rng)
    chosen = np.array(["high", "low"] * (n // 2))[:, None]
    tallies = asked.tally(asked.privatize(columns, rng, chosen))
    plain = figures(asked, tallies)
    reaches = [(tally.mechanism.reach(), tally.n) for tally in tallies]
    assert plain[0].liars == pytest.approx(moved(reaches, n * 0.01))
    assert figures(asked, tallies, combine="generalised")[0].liars is None
    shaped = campaign(HEAD + AGE.replace('mechanism = "duchi"', 'kind = "distribution"'))
    rows = shaped.privatize(shaped.encode({"age": np.linspace(18, 98, n)}, rng), rng)
    first, *bins = figures(shaped, shaped.tally(rows))
    assert first.liars > 0
    assert {one.liars for one in bins} == {None}


WEEKLY = """
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


def test_figures_of_all_periods_are_bounded_wherever_the_lies_are() -> None:
    asked = campaign(WEEKLY)
    law, rng = asked.frame.cells[0], seeded_rng(3)
    sizes = {2966: 3000, 2967: 1000}
    counted = {
        week: (law.tally(law.privatize(np.zeros(n, dtype=int), rng)),) for week, n in sizes.items()
    }
    before = Periods(asked, counted, liars=0.05).pooled().figures
    lies = 200  # 5% of all reports, in the smaller week
    moved_week = law.tally(law.privatize(np.zeros(1000 - lies, dtype=int), rng)) + law.tally(
        np.full(lies, 2)
    )
    after = Periods(asked, {**counted, 2967: (moved_week,)}, liars=0.05).pooled().figures
    for one, other in zip(before, after, strict=True):
        assert other.liars == pytest.approx(0.05 * law.reach().most_moved)
        assert abs(other.value - one.value) < other.liars + 4 * other.stderr


def test_of_answers_that_may_be_missing_only_the_share_is_bounded_over_periods() -> None:
    asked = campaign(WEEKLY.replace("[[attributes]]", "[[attributes]]\nmissing = true"))
    law, rng = asked.frame.cells[0], seeded_rng(3)
    answers = np.arange(2000) % 4
    weeks = {week: (law.tally(law.privatize(answers, rng)),) for week in (2966, 2967)}
    pooled = Periods(asked, weeks, liars=0.05).pooled().figures
    bounded = {figure.item: figure.liars is not None for figure in pooled}
    assert bounded == {"answered": True, "good": False, "so-so": False, "bad": False}


def test_people_who_report_again_and_again_raise_no_alarm() -> None:
    """52 reports of each of 200 permanent answers: far from independent, but given the answers."""
    asked = campaign(WEEKLY)
    law, rng = asked.frame.cells[0], seeded_rng(5)
    answers = law.remember(np.zeros(200, dtype=int), rng)
    weeks = {week: (law.tally(law.repeat(answers, rng)),) for week in range(2900, 2952)}
    assert warnings_by_period(asked, weeks, weeks) == []
    whole = sum(own[0] for own in weeks.values())
    assert alarms_of(asked, (whole,)) == []
    liars = {**weeks, 2900: (law.tally(np.zeros(2000, dtype=int)),)}
    (said,) = {one.partition(":")[0] for one in warnings_by_period(asked, liars, liars)}
    assert said == f"{asked.name_of(2900)}, mood"


def test_a_share_of_liars_is_a_share() -> None:
    asked = campaign(HEAD + PHONE)
    for share in (0, 1, -0.1, math.nan, True, "1%"):
        with pytest.raises(ParameterError, match="share of liars"):
            figures(asked, asked.frame.empty(), liars=share)  # type: ignore[arg-type]


# --- rounds of a training ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "law",
    [
        mechanism("privunit", epsilon=2.0, d=20),
        mechanism("duchi-multi", epsilon=2.0, d=5),
        mechanism("block", epsilon=4.0, d=6),
        mechanism("sampled", epsilon=2.0, d=3, sample=1, numeric="duchi"),
    ],
    ids=named,
)
def test_no_report_moves_a_mean_vector_by_more_than_the_bound(law) -> None:
    bound = vector_shift(law, 0.25)
    reports = law.privatize(law.domain.crowd(400, np.random.default_rng(1)), seeded_rng(2))
    found = np.array([law.mean_vector(law.tally(one)) for one in reports[:, None]])
    assert (0.25 * (np.abs(found).max() + 1)) <= bound.coordinate + 1e-9
    assert 0.25 * (np.linalg.norm(found, axis=1).max() + 1) <= bound.length + 1e-9
    assert bound.coordinate <= bound.length + 1e-12


# --- what honest devices never send ---------------------------------------------------------------


def seen(law: Mechanism, tally) -> list[str]:
    return [str(one) for one in alarms(("", one) for one in law.evidence(tally))]


@pytest.mark.parametrize("law", LAWS, ids=named)
def test_no_crowd_raises_an_alarm(law) -> None:
    """Spread over the domain, and all at one end or the other: what comes nearest to the limits."""
    n = 3000
    low, high = law.domain.extremes()
    crowds = [law.domain.crowd(n, np.random.default_rng(1)), same(law, low, n), same(law, high, n)]
    for seed, crowd in enumerate(crowds):
        assert seen(law, law.tally(law.privatize(crowd, seeded_rng(seed)))) == []


@pytest.mark.parametrize("law", LAWS, ids=named)
def test_liars_who_all_send_one_report_are_seen(law) -> None:
    one = law.privatize(same(law, law.domain.extremes()[0], 1), seeded_rng(1))
    assert seen(law, law.tally(np.repeat(one, 20_000, axis=0)))


def test_lies_that_no_single_symbol_shows_are_seen() -> None:
    rng, n = seeded_rng(1), 40_000
    oue = mechanism("oue", epsilon=1.0, k=64)
    crowd = oue.tally(oue.privatize(np.arange(n) % 64, rng))
    all_set = oue.tally(np.full((n // 50, 8), 255, dtype=np.uint8))
    assert any("bits that are set" in one for one in seen(oue, crowd + all_set))
    olh = mechanism("olh", epsilon=1.0, k=64)
    crowd = olh.tally(olh.privatize(np.arange(n) % 64, rng))
    everything = olh.tally(np.tile(np.array([[0, 1, 0]], dtype=np.uint32), (n // 20, 1)))
    assert any("of all" in one for one in seen(olh, crowd + everything))
    square = mechanism("square-wave", epsilon=1.0)
    crowd = square.tally(square.privatize(np.linspace(-1, 1, n), rng))
    middle = np.full(n // 10, square.symbols // 2)
    found = seen(square, crowd + square.tally(middle))
    assert any("no honest answers explain" in one or "symbol" in one for one in found)


def test_liars_who_crowd_onto_one_attribute_are_seen() -> None:
    asked, n = campaign(HEAD + AGE + PHONE), 20_000
    rows = np.zeros((n // 10, asked.form.row_bytes), dtype=np.uint8)
    rows[: n // 20, asked.frame.index_bytes] = 1
    people = {"age": np.full(n, 40.0), "phone": np.array(["ios"] * n)}
    both, honest = tallies_with_lies(asked, people, rows)
    assert warnings_of(asked, honest, 100) == []
    assert any("reports about age" in one for one in warnings_of(asked, both, 100))
    assert warnings_of(asked, both, 10**6) == [], "nothing is said about fewer than the cohort"


# --- the level, by theory ------------------------------------------------------------------------


def test_the_bound_of_a_sum_is_never_below_its_true_chance() -> None:
    for n, rate in itertools.product((10, 100, 1000), (0.01, 0.3, 0.9)):
        totals = np.arange(n + 1)
        limits = Limits("x", totals, n, np.zeros(1), np.array([rate]))
        above = totals > n * rate
        true = binom.logsf(totals - 1, n, rate)
        assert (limits.log_chances()[above] >= true[above] - 1e-9).all()
        limits = Limits("x", totals, n, np.array([rate]), np.ones(1))
        below = totals < n * rate
        true = binom.logcdf(totals, n, rate)
        assert (limits.log_chances()[below] >= true[below] - 1e-9).all()


def test_mixtures_give_false_alarms_no_more_often_than_they_say() -> None:
    """Every outcome of 12 people, for crowds that differ, summed exactly."""
    law = np.array([[0.6, 0.3, 0.1], [0.1, 0.3, 0.6]])
    n, level = 12, 0.2
    alarmed = {
        counts
        for counts in itertools.product(range(n + 1), repeat=3)
        if sum(counts) == n and Mixture("x", np.array(counts), law).alarms(math.log(level))
    }
    assert alarmed, "something is an alarm, or nothing is tested"
    for first in range(n + 1):
        chances = {(0, 0, 0): 1.0}
        for person in range(n):
            row, after = law[int(person < first)], dict[tuple[int, ...], float]()
            for counts, chance in chances.items():
                for symbol in range(3):
                    then = tuple(c + (s == symbol) for s, c in enumerate(counts))
                    after[then] = after.get(then, 0.0) + chance * row[symbol]
            chances = after
        assert sum(chances[counts] for counts in alarmed) <= level


def test_false_alarms_of_honest_crowds_are_rarer_than_the_level_of_a_test() -> None:
    """At a level of 10% for all tests together, over 300 crowds at the limits: at most 10%."""
    law, false = mechanism("grr", epsilon=1.0, k=3), 0
    for seed in range(300):
        tally = law.tally(law.privatize(np.zeros(400, dtype=int), seeded_rng(seed)))
        false += bool(alarms((("", one) for one in law.evidence(tally)), false_alarm=0.1))
    assert false <= 30
    assert FALSE_ALARM == 1e-6


# --- shown ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_power_of_liars_and_what_no_crowd_sends_is_shown(tmp_path) -> None:
    """By every way to look: the command, its files, HTTP, the live state."""
    text = collectors.one("phones")
    asked = campaign(text)
    with collectors.running(tmp_path / "s.db", text) as collector:
        ids, rows = collectors.reports(asked, 3000)
        collector.send("phones", report.to_binary(asked.form, ids, rows), collectors.BINARY)
        honest = collector.about("phones", "estimates").json
        assert honest["warnings"] == collector.status("phones")["warnings"] == []
        one = honest["estimates"][0]["liars"]
        assert one == pytest.approx(0.01 * asked.frame.cells[0].reach().most_moved)
        more = collector.about("phones", "estimates?liars=0.05").json
        assert more["liars"] == 0.05
        assert more["estimates"][0]["liars"] == pytest.approx(5 * one)
        for wrong in ("0", "1", "x", "nan"):
            answer = collector.about("phones", f"estimates?liars={wrong}")
            assert answer.problem == "bad-parameter"
        lies = np.tile(rows[:1], (9000, 1))
        body = report.to_binary(asked.form, new_ids(len(lies)), lies)
        assert collector.send("phones", body, collectors.BINARY).json["stored"] == 9000
        found = collector.about("phones", "estimates").json
        assert found["warnings"], "9,000 of 12,000 reports are the same"
        assert found["warnings"] == collector.status("phones")["warnings"]
        assert collector.about("phones", "live").json["warnings"] == found["warnings"]
        assert found["people"] == 12_000, "nothing is removed"
    place = tmp_path / "s.db"
    said = command.murmur("estimate", place, "--liars", 0.05, "--csv", tmp_path / "f.csv").stdout
    assert "5% liars" in said
    assert "Not what honest devices send (nothing was removed)" in said
    first, *_ = csv.DictReader((tmp_path / "f.csv").read_text().splitlines())
    assert float(first["liars"]) == pytest.approx(5 * one)
    assert "Not what honest devices send" in command.murmur("status", place).stdout
    shown = json.loads(command.murmur("estimate", place, "--json").stdout)
    assert shown["liars"] == 0.01
    assert "share of liars" in command.murmur("estimate", place, "--liars", 2, code=2).problem
    notes = murmuration.open(place).estimates(liars=0.05).notes
    assert any("honest devices send no" in note for note in notes)
