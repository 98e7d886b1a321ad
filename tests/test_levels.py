"""Levels that people choose: the wire, the exact losses, the estimates, and planted bugs."""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
import pytest
import typer
from numpy.testing import assert_allclose
from typer.testing import CliRunner

from murmuration import mechanism, seeded_rng, system_rng
from murmuration.analysis import combine
from murmuration.audit import admission
from murmuration.audit.empirical import attack
from murmuration.campaign.file import load as campaign_file
from murmuration.campaign.levels import Leveled, Levels, Survey
from murmuration.cli.compare_levels import levels as command
from murmuration.errors import (
    EmptyError,
    InputError,
    MismatchError,
    ParameterError,
    PromiseError,
    ReportError,
    SourceError,
)
from murmuration.exact.exponential import exp_below, within
from murmuration.lab.levels import Setting, compare_levels
from murmuration.mechanisms.number.base import NumericMechanism
from murmuration.mechanisms.registry import list_mechanisms
from murmuration.mechanisms.tally import Tally
from murmuration.results.estimate import Estimate

LEVELS = Levels()
STANDARD_ERRORS = 4.5


def picked(n, seed=1):
    return np.random.default_rng(seed).integers(0, 3, n)


# --- the levels --------------------------------------------------------------------------------


def test_levels_are_read_from_the_command_line() -> None:
    assert Levels.parse("high=1/3,medium=1/2,low=1") == LEVELS
    assert Levels.parse(" a = 0.25 ,b=1") == Levels(("a", "b"), (0.25, 1.0))
    assert len(Levels(("only",), (0.5,))) == 1


@pytest.mark.parametrize(
    ("names", "factors"),
    [
        ((), ()),
        (("a", "a"), (1, 1)),
        (("", "b"), (1, 1)),
        ((" ", "b"), (1, 1)),
        ((1, "b"), (1, 1)),
        (("a", "b"), (1,)),
        (("a", "b"), (0, 1)),
        (("a", "b"), (-0.5, 1)),
        (("a", "b"), (1.01, 1)),
        (("a", "b"), (math.nan, 1)),
        (("a", "b"), (True, 1)),
        (("a", "b"), ("1", 1)),
        (tuple(map(str, range(257))), (1.0,) * 257),
    ],
)
def test_bad_levels_are_refused(names, factors) -> None:
    with pytest.raises(ParameterError, match=r"levels are|each of|levels have"):
        Levels(names, factors)


def test_bad_text_is_refused() -> None:
    for text in ("", "high", "high=", "high=x", "high=1/0", "=1", "a=1,a=1", "a=2"):
        with pytest.raises(ParameterError):
            Levels.parse(text)


def test_choices_are_numbers_or_names() -> None:
    assert LEVELS.indices(["low", "high", "medium"]).tolist() == [2, 0, 1]
    assert LEVELS.indices(np.array([2, 0], dtype=np.uint8)).tolist() == [2, 0]
    assert LEVELS.indices([]).tolist() == []
    for bad in ([3], [-1], [0.5], ["none"], [True], [None], ["low", ""]):
        with pytest.raises(InputError, match="a choice is one of high, medium, low"):
            LEVELS.indices(bad)


# --- privacy -----------------------------------------------------------------------------------


def at_every_kind():
    for name, kind in list_mechanisms().items():
        if not kind.keeps_promise or issubclass(kind, NumericMechanism):
            continue
        if hasattr(kind, "largest"):
            yield name, 12
    for name in ("optimal", "duchi", "piecewise"):
        yield name, None


@pytest.mark.parametrize(("name", "k"), list(at_every_kind()))
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.7])
def test_every_level_keeps_its_part_of_epsilon_exactly(name, k, epsilon) -> None:
    leveled = Leveled(epsilon, k, LEVELS, name)
    for loss, factor in zip(leveled.losses(), LEVELS.factors, strict=True):
        part = Fraction(epsilon) * Fraction(factor)  # of the very floats, without rounding
        assert loss.holds
        assert Fraction(loss.claimed) <= part
        assert loss.ratio <= exp_below(part)
        assert float(part) - 2e-5 < loss.epsilon
    whole = leveled.loss()
    assert whole.holds
    assert whole.claimed == epsilon
    assert whole.ratio == max(loss.ratio for loss in leveled.losses())


def check_survey_loss(survey) -> None:
    """The claim in rationals, worked out here from the levels' own laws."""
    worst = [max(loss.ratio for loss in attribute.losses()) for attribute in survey.attributes]
    total = max(worst) if survey.how == "sample" else math.prod(worst)
    loss = survey.loss()
    assert loss.ratio == total
    assert within(total, survey.epsilon)
    assert loss.holds
    assert survey.epsilon - 1e-4 < loss.epsilon <= survey.epsilon


@pytest.mark.parametrize("how", ["optimal", "cube_root", "equal", "sample"])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 6.0])
def test_a_survey_keeps_its_epsilon_exactly(how, epsilon) -> None:
    for name in ("sue", "subset"):
        check_survey_loss(Survey(epsilon, (5, 10, 15, 20, 25), mechanism=name, how=how))
    if how in ("equal", "sample"):
        check_survey_loss(Survey(epsilon, (0, 7, 0), how=how))


def test_reports_tell_no_more_than_their_level_may() -> None:
    """Attack the bytes of each level: all that is sent, padding too."""
    for k, ends in ((None, (-1.0, 1.0)), (12, (0, 1))):
        leveled = Leveled(2.0, k, LEVELS)
        for level, budget in enumerate(LEVELS.budgets(2.0)):
            evidence = attack(wire(leveled, level), *ends, n=20_000)
            assert evidence.epsilon <= budget


def wire(leveled, level):
    def send(value, n):
        rows = leveled.privatize(np.full(n, value), np.full(n, level), seeded_rng(4))
        return [row.tobytes() for row in rows]

    return send


# --- the wire ----------------------------------------------------------------------------------


def check_level_law(leveled, n=40_000) -> None:
    """What arrives under a level was made at that level's epsilon: the own item is as frequent."""
    for level, inner in enumerate(leveled.at_levels):
        rows = leveled.privatize(np.zeros(n, dtype=int), np.full(n, level), seeded_rng(7))
        assert (rows[:, 0] == level).all()
        tallies = leveled.tally(rows)
        assert [tally.n for tally in tallies] == [n * (place == level) for place in range(3)]
        own = inner.support(tallies[level])[0] / n
        p = float(
            Leveled(leveled.epsilon, leveled.k, leveled.levels, leveled.mechanism)
            .at_levels[level]
            .p
        )
        assert abs(own - p) < STANDARD_ERRORS * math.sqrt(p * (1 - p) / n)


def check_padding(leveled) -> None:
    """Nothing but zeros follows the level's own report."""
    n = 500
    values = np.arange(n) % leveled.k if leveled.k else np.linspace(-1, 1, n)
    rows = leveled.privatize(values, picked(n), seeded_rng(8))
    for level, inner in enumerate(leveled.at_levels):
        assert not rows[rows[:, 0] == level, 1 + inner.report_bytes :].any()


@pytest.mark.parametrize("name", ["subset", "sue", "grr", "olh"])
def test_levels_answer_by_their_own_law(name) -> None:
    check_level_law(Leveled(2.0, 6, LEVELS, name))
    check_padding(Leveled(2.0, 6, LEVELS, name))


def test_tallies_are_those_of_the_levels_alone() -> None:
    """The rows are the level's own reports behind its byte, and counting them is the same."""
    leveled, choices, items = Leveled(2.0, 9, LEVELS), picked(900), np.arange(900) % 9
    rows = leveled.privatize(items, choices, seeded_rng(3))
    assert rows.shape == (900, leveled.report_bytes)
    for level, (inner, tally) in enumerate(
        zip(leveled.at_levels, leveled.tally(rows), strict=True)
    ):
        mine = rows[choices == level, 1 : 1 + inner.report_bytes]
        assert tally == inner.tally(mine)
        assert tally.n == (choices == level).sum()
    halves = zip(leveled.tally(rows[:400]), leveled.tally(rows[400:]), strict=True)
    assert [a + b for a, b in halves] == list(leveled.tally(rows))
    nobody = leveled.privatize([], [], seeded_rng(1))
    assert nobody.shape == (0, leveled.report_bytes)
    assert [tally.n for tally in leveled.tally(nobody)] == [0, 0, 0]


def test_the_collector_is_strict() -> None:
    leveled = Leveled(2.0, 9, Levels(("a", "b"), (0.5, 1.0)))
    rows = leveled.privatize(np.arange(90) % 9, np.arange(90) % 2, seeded_rng(3))
    for place, value, message in (
        ((4, 0), 2, "report 4 names level 2"),
        ((4, 0), 255, "names level 255"),
        ((4, 2), 255, "more than 9 bits"),
        ((4, 1), 0, "items, not"),
    ):
        bad = rows.copy()
        bad[place] = value
        with pytest.raises(ReportError, match=message):
            leveled.tally(bad)
    for bad in (rows[:, :-1], rows.astype(int), rows[0], np.zeros((2, 9), np.uint8)):
        with pytest.raises(ReportError, match="rows of"):
            leveled.tally(bad)


def test_padding_must_be_zero() -> None:
    """A level with short reports beside one with long ones."""
    narrow, wide = mechanism("optimal", epsilon=1.0), mechanism("subset", epsilon=1.0, k=20)
    assert narrow.report_bytes < wide.report_bytes
    survey = Survey(1.0, (0, 20), how="sample")
    columns = [np.zeros(400), np.zeros(400, dtype=int)]
    rows = survey.privatize(columns, picked(400), seeded_rng(1))
    short = rows[:, 0] == 0
    assert 150 < short.sum() < 250
    assert not rows[short, 3 + narrow.report_bytes :].any()
    survey.tally(rows)
    bad = rows.copy()
    bad[np.flatnonzero(short)[0], -1] = 1
    with pytest.raises(ReportError, match="attribute 0 is longer than it can be"):
        survey.tally(bad)
    bad = rows.copy()
    bad[5, 1] = 1
    with pytest.raises(ReportError, match="report 5 names attribute"):
        survey.tally(bad)
    bad = rows.copy()
    bad[7, 2] = 9
    with pytest.raises(ReportError, match="of those on attribute"):
        survey.tally(bad)
    mixed = MixedLengths(1.0, 20, LEVELS)
    rows = mixed.privatize(np.arange(60) % 20, np.arange(60) % 3, seeded_rng(1))
    check_padding(mixed)
    assert [tally.n for tally in mixed.tally(rows)] == [20, 20, 20]
    rows[0, -1] = 1
    with pytest.raises(ReportError, match="longer than its level's"):
        mixed.tally(rows)


@dataclass(frozen=True)
class MixedLengths(Leveled):
    """The first level answers with one symbol, the others with a bit for each item."""

    @cached_property
    def at_levels(self):
        budgets = self.levels.budgets(self.epsilon)
        names = ("grr", "subset", "subset")
        pairs = zip(names, budgets, strict=True)
        return tuple(mechanism(name, epsilon=budget, k=self.k) for name, budget in pairs)


def test_devices_use_fresh_randomness_and_no_other_source() -> None:
    leveled, values = Leveled(1.0, 40, LEVELS), np.zeros(300, dtype=int)
    first, second = (leveled.privatize(values, picked(300), system_rng()) for _ in range(2))
    assert (first != second).any()
    with pytest.raises(SourceError):
        leveled.privatize(values, picked(300), np.random.default_rng(1))


# --- estimates ---------------------------------------------------------------------------------


def test_estimates_are_those_of_combine() -> None:
    leveled, items = Leveled(3.0, 6, LEVELS), np.arange(6000) % 6
    tallies = leveled.tally(leveled.privatize(items, picked(6000), seeded_rng(2)))
    for method in ("total", "optimal", "generalised"):
        for about in ("participants", "population"):
            ours = leveled.estimate(tallies, method, about)
            theirs = getattr(combine, method)(tallies, about)
            assert_allclose(ours.estimate.value, theirs.estimate.value)
            assert_allclose(ours.estimate.stderr, theirs.estimate.stderr)
            assert ours.estimate.epsilon == 3.0
    with pytest.raises(ParameterError, match="levels combine by"):
        leveled.estimate(tallies, "perturbed")
    with pytest.raises(MismatchError, match="not this attribute's"):
        leveled.estimate(tallies[::-1])
    with pytest.raises(MismatchError, match="not this attribute's"):
        Leveled(2.0, 6, LEVELS).estimate(tallies)


@pytest.mark.parametrize("how", ["optimal", "equal", "sample"])
@pytest.mark.parametrize("about", ["participants", "population"])
def test_a_survey_covers_the_truth(how, about) -> None:
    """All attributes' intervals, from the levels that people picked for each."""
    level, runs, n, sizes = 0.9, 60, 4000, (3, 8) if how == "optimal" else (3, 0, 8)
    survey, draw = Survey(6.0, sizes, how=how), np.random.default_rng(5)
    shares = {k: np.arange(k, 0, -1) / (k * (k + 1) / 2) for k in sizes if k}

    def people():
        return [draw.choice(k, n, p=shares[k]) if k else 2 * draw.beta(2, 4, n) - 1 for k in sizes]

    fixed, hits, count = people(), 0.0, 0
    for _ in range(runs):
        columns = fixed if about == "participants" else people()
        rows = survey.privatize(
            columns, draw.integers(0, 3, (n, len(sizes))), seeded_rng(int(draw.integers(1 << 30)))
        )
        for k, column, found in zip(
            sizes, columns, survey.estimate(survey.tally(rows), about=about), strict=True
        ):
            mine = np.bincount(column, minlength=k) / n if k else np.mean(column)
            truth = mine if about == "participants" else shares[k] if k else 2 / 3 - 1
            low, high = found.estimate.interval(level)
            hits += float(((low <= truth) & (truth <= high)).sum()) if k else low <= truth <= high
            count += k or 1
            assert isinstance(found.estimate, Estimate) == (k == 0)
    share = hits / count
    assert share > level - 4 * math.sqrt(level * (1 - level) / (runs * len(sizes)))
    assert share < 0.99


def test_one_choice_for_all_attributes() -> None:
    survey, choices = Survey(4.0, (4, 6), how="optimal"), picked(300)
    columns = [np.arange(300) % 4, np.arange(300) % 6]
    for given in (choices, np.stack([choices, choices], axis=1), np.array(LEVELS.names)[choices]):
        for own in survey.tally(survey.privatize(columns, given, seeded_rng(1))):
            assert [tally.n for tally in own] == np.bincount(choices, minlength=3).tolist()
    apart = np.stack([choices, 2 - choices], axis=1)
    first, second = survey.tally(survey.privatize(columns, apart, seeded_rng(1)))
    assert [tally.n for tally in first] == [tally.n for tally in second][::-1]


def test_sampling_asks_everybody_once_with_all_of_the_level() -> None:
    survey = Survey(2.0, (4, 0, 6), how="sample")
    columns = [np.zeros(3000, int), np.zeros(3000), np.zeros(3000, int)]
    tallies = survey.tally(survey.privatize(columns, picked(3000), seeded_rng(1)))
    asked = np.array([sum(tally.n for tally in own) for own in tallies])
    assert asked.sum() == 3000
    assert (np.abs(asked - 1000) < STANDARD_ERRORS * math.sqrt(3000 * 2 / 9)).all()
    assert survey.budgets == (2.0, 2.0, 2.0)
    assert sum(map(Fraction, Survey(2.0, (4, 6), how="optimal").budgets)) <= 2


def test_those_asked_are_a_sample_of_all_participants() -> None:
    """Their own spread counts, but for the part that they are of all: S (1/n_j - 1/n)."""
    survey, columns = (
        Survey(6.0, (4, 0), how="sample"),
        [np.arange(9000) % 4, np.linspace(-1, 1, 9000)],
    )
    tallies = survey.tally(survey.privatize(columns, picked(9000), seeded_rng(1)))
    for place, (own, found) in enumerate(zip(tallies, survey.estimate(tallies), strict=True)):
        asked = sum(tally.n for tally in own)
        inner, outer = (
            np.square(survey.attributes[place].estimate(own, about=about).estimate.stderr)
            for about in ("participants", "population")
        )
        expected = inner + (outer - inner) * (1 - asked / 9000)
        assert_allclose(np.square(found.estimate.stderr), expected)
        assert (expected > 1.05 * inner).all()
        assert_allclose((outer - inner) * asked, 3 / 16 if place == 0 else 1 / 3, rtol=0.15)


def test_mistakes_are_named() -> None:
    for arguments, message in (
        ({"epsilon": 0.0}, "epsilon must be"),
        ({"epsilon": 1.0, "k": 1}, "number of items"),
        ({"epsilon": 1.0, "k": 4, "mechanism": "duchi"}, "not a mechanism for one of"),
        ({"epsilon": 1.0, "mechanism": "grr"}, "is for items"),
        ({"epsilon": 1.0, "k": 4, "mechanism": "no"}, "no mechanism is called"),
        ({"epsilon": 0.002, "k": 4}, "epsilon must be"),
    ):
        with pytest.raises(ParameterError, match=message):
            Leveled(**arguments)
    for arguments, message in (
        ({"domains": (3, 1)}, "domains lists"),
        ({"domains": ()}, "domains lists"),
        ({"domains": (3, 0), "how": "optimal"}, "use equal or sample"),
        ({"domains": (3, 0), "how": "cube_root"}, "use equal or sample"),
        ({"domains": (3, 4), "how": "luck"}, "shared out by"),
    ):
        with pytest.raises(ParameterError, match=message):
            Survey(1.0, **arguments)
    leveled, survey, rng = Leveled(1.0, 4, LEVELS), Survey(2.0, (4, 3), how="sample"), seeded_rng(1)
    for values, choices, message in (
        ([0, 4], [0, 0], "items are 0 to 3"),
        ([0, 1], [0], "2 people make as many"),
        ([0, 1], [0, 3], "a choice is"),
    ):
        with pytest.raises(InputError, match=message):
            leveled.privatize(values, choices, rng)
    for columns, choices, message in (
        ([[0, 1]], [0, 0], "2 columns"),
        ([[0, 1], [0]], [0, 0], "one length"),
        ([[0, 1], [0, 3]], [0, 0], "items are 0 to 2"),
        ([[0, 1], [0, 2]], [0], "choices are one level a person"),
        ([[0, 1], [0, 2]], [[0], [1]], "choices are one level a person"),
    ):
        with pytest.raises(InputError, match=message):
            survey.privatize(columns, choices, rng)
    empty = tuple(tuple(m.empty() for m in a.at_levels) for a in survey.attributes)
    with pytest.raises(EmptyError, match="nobody has answered"):
        survey.estimate(empty)
    with pytest.raises(MismatchError, match="2 lists, one an attribute"):
        survey.estimate(empty[:1])


def test_very_many_items_are_not_sent_as_bits() -> None:
    assert Leveled(1.0, 1 << 15, LEVELS).mechanism == "subset"
    assert Leveled(1.0, (1 << 15) + 1, LEVELS).mechanism == "projective"
    assert Leveled(1.0).mechanism == "optimal"


# --- planted bugs ------------------------------------------------------------------------------


@dataclass(frozen=True)
class SwappedLevels(Leveled):
    """Writes one level on the report and answers at another."""

    def privatize(self, values, choices, rng):
        rows = super().privatize(values, 2 - self.levels.indices(choices), rng)
        rows[:, 0] = self.levels.indices(choices)
        return rows


@dataclass(frozen=True)
class EverybodyAtLow(Leveled):
    """Answers with all of epsilon whatever was picked."""

    @cached_property
    def at_levels(self):
        open_ = super().at_levels[-1]
        return (open_,) * len(self.levels)


@dataclass(frozen=True)
class PaddingTells(MixedLengths):
    """Leaves the value in the bytes that nobody reads."""

    def privatize(self, values, choices, rng):
        rows = super().privatize(values, choices, rng)
        rows[rows[:, 0] == 0, -1] = np.asarray(values)[rows[:, 0] == 0]
        return rows


@dataclass(frozen=True)
class SumsTwice(Survey):
    """Gives every attribute all of epsilon and answers them all."""

    @cached_property
    def budgets(self):
        return (self.epsilon,) * len(self.domains)


def test_planted_bugs_are_seen() -> None:
    with pytest.raises(ReportError, match="items, not"):  # sets of the other level's size
        check_level_law(SwappedLevels(2.0, 12, LEVELS, "subset"), n=2000)
    with pytest.raises(AssertionError):
        check_level_law(SwappedLevels(2.0, 6, LEVELS, "sue"))
    with pytest.raises(AssertionError):
        check_level_law(EverybodyAtLow(2.0, 6, LEVELS, "sue"))
    wrong = EverybodyAtLow(2.0, 6, LEVELS, "sue")
    budgets = LEVELS.budgets(2.0)
    assert [within(loss.ratio, b) for loss, b in zip(wrong.losses(), budgets, strict=True)] == [
        False,
        False,
        True,
    ]
    leaky = PaddingTells(2.0, 20, LEVELS)
    with pytest.raises(AssertionError):
        check_padding(leaky)
    with pytest.raises(ReportError, match="longer than its level's"):
        leaky.tally(leaky.privatize(np.full(9, 5), np.arange(9) % 3, seeded_rng(1)))
    assert attack(wire(leaky, 0), 3, 5, n=20_000).epsilon > budgets[0]
    with pytest.raises(AssertionError):
        check_survey_loss(SumsTwice(1.0, (5, 10), how="equal"))


def test_a_swapped_level_is_also_seen_by_the_analyst() -> None:
    """Read with the wrong law, the shares do not agree between levels, and the guard says so."""
    items, leveled = np.zeros(20_000, dtype=int), SwappedLevels(2.0, 6, LEVELS, "sue")
    found = leveled.estimate(leveled.tally(leveled.privatize(items, picked(20_000), seeded_rng(1))))
    assert found.fell_back


# --- the simulation and its command ------------------------------------------------------------


def test_levels_of_the_simulation_depend_on_the_data_only_by_the_shift() -> None:
    setting = Setting(people=60_000, data="zipf", sizes=(5, 10))
    columns = setting.columns()
    for shift in (0.0, 10.0):
        choices = setting.choices(columns, shift, np.random.default_rng([1, 1]))
        for place, k in enumerate(setting.sizes):
            head = columns[place] < max(1, k // 5)
            for group, moved in ((head, shift / 100), (~head, 0.0)):
                shares = np.bincount(choices[group, place], minlength=3) / group.sum()
                bound = STANDARD_ERRORS * math.sqrt(2 / 9 / group.sum())
                assert np.abs(shares - [1 / 3 - moved, 1 / 3, 1 / 3 + moved]).max() < bound
    with pytest.raises(ParameterError, match="percentage points"):
        setting.choices(columns, 40.0, np.random.default_rng(1))
    for arguments in ({"data": "moon"}, {"people": 0}, {"people": True}):
        with pytest.raises(ParameterError):
            Setting(**arguments)


def test_the_simulation_repeats_itself() -> None:
    setting = Setting(people=500, sizes=(4, 5), data="zipf")
    one, two = (
        list(compare_levels(setting, [2.0], 2, seeded_rng(1), [0.0, 5.0], oracle=True))
        for _ in range(2)
    )
    assert one == two
    assert [row.method for row in one].count("OP (oracle)") == 2
    assert {row.shift for row in one} == {0.0, 5.0}


def run(*arguments):
    app = typer.Typer()
    app.command()(command)
    return CliRunner().invoke(app, [*arguments, "--runs", "2", "--people", "300"])


def test_the_command_prints_a_table_and_json_and_draws(tmp_path) -> None:
    plot = tmp_path / "deep" / "levels.png"
    done = run("--epsilon", "2,4", "--shift", "10", "--plot", str(plot))
    assert done.exit_code == 0, done.output
    assert plot.stat().st_size > 10_000
    for word in ("BRR", "OC", "GLS + simplex", "sample 1 + subset", "percentage"):
        assert word in done.output
    done = run("--epsilon", "2", "--shift", "0", "--oracle", "--json", "--levels", "a=1/2,b=1")
    rows = json.loads(done.stdout)
    assert len(rows) == 8
    assert rows[-1]["method"] == "OP (oracle)"
    for arguments in (("--epsilon", "x"), ("--shift", "x"), ("--levels", "x"), ("--data", "x")):
        assert isinstance(run(*arguments).exception, ParameterError)


def test_a_tally_of_a_level_travels() -> None:
    leveled = Leveled(1.0, 5, LEVELS)
    for tally in leveled.tally(leveled.privatize([1, 2, 3], [0, 1, 1], seeded_rng(1))):
        assert Tally.from_bytes(tally.to_bytes(), tally.mechanism) == tally


def test_levels_can_be_given_as_text_or_names() -> None:
    shy = Levels(("shy", "open"), (0.25, 1.0))
    assert Leveled(1.0, 4, "shy=1/4,open=1").levels == shy
    assert Survey(1.0, (4, 3), {"shy": np.float64(0.25), "open": 1}).levels == shy
    for bad in (4, None, ["high"], 0.5):
        with pytest.raises(ParameterError, match="levels are a Levels"):
            Leveled(1.0, 4, bad)
    with pytest.raises(ParameterError, match="a list of each"):
        Levels(None, None)


def test_mistakes_name_the_level_and_the_choice() -> None:
    with pytest.raises(ParameterError, match="level high: epsilon must be"):
        Leveled(0.002, 4)
    with pytest.raises(ParameterError, match="takes no levels"):
        Leveled(1.0, mechanism="hiera")
    with pytest.raises(ParameterError, match="k is the number of items"):
        Leveled(1.0, "3")
    with pytest.raises(InputError, match="'lwo' at position 1"):
        Leveled(1.0, 4).privatize([0, 1], ["low", "lwo"], seeded_rng(1))
    with pytest.raises(InputError, match="level a person"):
        Leveled(1.0, 4).privatize([0, 1], [["low"], ["low", "high"]], seeded_rng(1))
    with pytest.raises(InputError):
        Survey(1.0, (4, 3)).privatize(5, ["low"], seeded_rng(1))


def test_tallies_of_two_collectors_add_up_level_by_level() -> None:
    leveled = Leveled(2.0, 5)
    rows = leveled.privatize(np.arange(900) % 5, picked(900), seeded_rng(3))
    east, west, whole = (leveled.tally(part) for part in (rows[:300], rows[300:], rows))
    merged = leveled.merge(east, west)
    assert [t.counts.tolist() for t in merged] == [t.counts.tolist() for t in whole]
    with pytest.raises(MismatchError):
        leveled.merge(east, west[:2])
    for wrong in (whole[::-1], whole[0], None, [1, 2, 3]):
        with pytest.raises(MismatchError):
            leveled.estimate(wrong)


def test_a_combination_reads_like_an_estimate() -> None:
    leveled = Leveled(2.0, 5)
    rows = leveled.privatize(np.arange(900) % 5, picked(900), seeded_rng(3))
    found = leveled.estimate(leveled.tally(rows))
    assert (found.value == found.estimate.value).all()
    assert (found.stderr == found.estimate.stderr).all()
    assert (found.interval(0.9)[0] == found.estimate.interval(0.9)[0]).all()
    assert "levels weigh" in str(found)


def test_a_broken_level_breaks_the_whole() -> None:
    """A level that spends more than its own part is seen, though the whole epsilon would do."""

    class Greedy(Leveled):
        @property
        def at_levels(self):
            return tuple(
                type(inner)(inner.epsilon if place else 0.9, inner.k)
                for place, inner in enumerate(super().at_levels)
            )

        def losses(self):
            budgets = self.levels.budgets(self.epsilon)
            pairs = zip(self.at_levels, budgets, strict=True)
            return tuple(dataclasses.replace(m.loss(), claimed=budget) for m, budget in pairs)

    assert Leveled(1.0, 4).loss().holds
    assert not Greedy(1.0, 4).loss().holds


def test_a_device_does_not_send_a_broken_law_at_any_level() -> None:
    broken = Leveled(1.0, mechanism="dct")
    assert not broken.loss().holds
    with pytest.raises(PromiseError):
        broken.privatize([0.3], ["low"], system_rng())
    with pytest.raises(PromiseError, match="Leveled is refused"):
        admission.require_kept(broken)
    survey = Survey(1.0, (0, 0), numeric="dct", how="equal")
    with pytest.raises(PromiseError, match="Survey is refused"):
        admission.require_kept(survey)
    assert admission.require_kept(Survey(1.0, (4, 3))).holds


def test_numbers_above_the_largest_table() -> None:
    assert Leveled(15.0).mechanism == "piecewise"


def test_a_distribution_is_not_read_from_a_level_below_the_cohort() -> None:
    campaign = campaign_file.parse(
        """
        name = "ages"
        purpose = "How old people are."
        epsilon = 4.0
        cohort = 1000
        levels = {shy = 0.01, open = 1.0}
        [[attributes]]
        name = "age"
        kind = "distribution"
        low = 0
        high = 100
        """
    )
    picked = np.zeros(2000, dtype=np.int64)
    for few in (20, 1000):
        picked[:few] = 1
        rows = campaign.privatize([np.full(2000, 0.3)], seeded_rng(1), picked)
        figures = campaign.read(campaign.tally(rows))
        assert figures[0].n == 2000
        assert len(figures) == 65
        assert min(figure.n for figure in figures) >= 1000
