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
from murmuration.analysis import combine, read
from murmuration.audit import admission
from murmuration.audit.empirical import attack
from murmuration.campaign.levels import Levels, Survey
from murmuration.cli.compare_levels import levels as command
from murmuration.definition import document
from murmuration.definition import load as campaign_file
from murmuration.errors import (
    EmptyError,
    InputError,
    MismatchError,
    MurmurationError,
    ParameterError,
    PromiseError,
    ReportError,
    SourceError,
)
from murmuration.exact.exponential import exp_below, within
from murmuration.lab.levels import Setting, compare_levels
from murmuration.mechanisms.domain import Items
from murmuration.mechanisms.registry import mechanisms_for
from murmuration.mechanisms.tally import Tally
from murmuration.results.estimate import Estimate
from murmuration.wire.ids import new_ids
from murmuration.wire.report import BINARY
from tests.support.collectors import encoded, running
from tests.support.command import murmur

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


def leveled(epsilon, k=None, levels=LEVELS, name="auto") -> Survey:
    """One attribute with levels: k items, or a number."""
    return Survey(epsilon, (k or 0,), levels, name, name)


def answered(survey, values, choices, rng):
    return survey.privatize([values], choices, rng)


def laws(survey) -> tuple:
    return survey.frame.groups[0]


def at_every_kind():
    for name in mechanisms_for(Items, kept=True):
        yield name, 12
    for name in ("optimal", "duchi", "piecewise"):
        yield name, None


@pytest.mark.slow
@pytest.mark.parametrize(("name", "k"), list(at_every_kind()))
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.7])
def test_every_level_keeps_its_part_of_epsilon_exactly(name, k, epsilon) -> None:
    asked = leveled(epsilon, k, LEVELS, name)
    for loss, factor in zip(asked.losses(), LEVELS.factors, strict=True):
        part = Fraction(epsilon) * Fraction(factor)  # of the very floats, without rounding
        assert loss.holds
        assert Fraction(loss.claimed) <= part
        assert loss.ratio <= exp_below(part)
        assert float(part) - 2e-5 < loss.epsilon
    whole = asked.loss()
    assert whole.holds
    assert whole.claimed == epsilon
    assert whole.ratio == max(loss.ratio for loss in asked.losses())


def check_survey_loss(survey) -> None:
    """The claim in rationals, worked out here from the levels' own laws."""
    d = len(survey.domains)
    worst = [max(loss.ratio for loss in survey.losses(attribute)) for attribute in range(d)]
    total = max(worst) if survey.how == "sample" else math.prod(worst)
    loss = survey.loss()
    assert loss.ratio == total
    assert within(total, survey.epsilon)
    assert loss.holds
    assert survey.epsilon - 1e-4 < loss.epsilon <= survey.epsilon


@pytest.mark.slow
@pytest.mark.parametrize("how", ["optimal", "cube_root", "equal", "sample"])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 6.0])
def test_a_survey_keeps_its_epsilon_exactly(how, epsilon) -> None:
    for name in ("sue", "subset"):
        check_survey_loss(Survey(epsilon, (5, 10, 15, 20, 25), mechanism=name, how=how))
    if how in ("equal", "sample"):
        check_survey_loss(Survey(epsilon, (0, 7, 0), how=how))


@pytest.mark.slow
def test_reports_tell_no_more_than_their_level_may() -> None:
    """Attack the bytes of each level: all that is sent, padding too."""
    for k, ends in ((None, (-1.0, 1.0)), (12, (0, 1))):
        for level, budget in enumerate(LEVELS.budgets(2.0)):
            evidence = attack(wire(leveled(2.0, k), level), *ends, n=20_000)
            assert evidence.epsilon <= budget


def wire(survey, level):
    def send(value, n):
        rows = answered(survey, np.full(n, value), np.full(n, level), seeded_rng(4))
        return [row.tobytes() for row in rows]

    return send


# --- the wire ----------------------------------------------------------------------------------


def check_level_law(survey, n=40_000) -> None:
    """What arrives under a level was made at that level's epsilon: the own item is as frequent."""
    (k,) = survey.domains
    honest = leveled(survey.epsilon, k, survey.levels, laws(survey)[0].name)
    for level, inner in enumerate(laws(survey)):
        rows = answered(survey, np.zeros(n, dtype=int), np.full(n, level), seeded_rng(7))
        assert (rows[:, 0] == level).all()
        (tallies,) = survey.tally(rows)
        assert [tally.n for tally in tallies] == [n * (place == level) for place in range(3)]
        own = inner.support(tallies[level])[0] / n
        p = float(laws(honest)[level].p)
        assert abs(own - p) < STANDARD_ERRORS * math.sqrt(p * (1 - p) / n)


def check_padding(survey) -> None:
    """Nothing but zeros follows the level's own report."""
    n, (k,) = 500, survey.domains
    rows = answered(survey, np.arange(n) % k, picked(n), seeded_rng(8))
    for level, inner in enumerate(laws(survey)):
        assert not rows[rows[:, 0] == level, 1 + inner.report_bytes :].any()


@pytest.mark.parametrize("name", ["subset", "sue", "grr", "olh"])
def test_levels_answer_by_their_own_law(name) -> None:
    check_level_law(leveled(2.0, 6, LEVELS, name))
    check_padding(leveled(2.0, 6, LEVELS, name))


def test_tallies_are_those_of_the_levels_alone() -> None:
    """The rows are the level's own reports behind its byte, and counting them is the same."""
    survey, choices, items = leveled(2.0, 9), picked(900), np.arange(900) % 9
    rows = answered(survey, items, choices, seeded_rng(3))
    assert rows.shape == (900, survey.frame.row_bytes)
    (tallies,) = survey.tally(rows)
    for level, (inner, tally) in enumerate(zip(laws(survey), tallies, strict=True)):
        mine = rows[choices == level, 1 : 1 + inner.report_bytes]
        assert tally == inner.tally(mine)
        assert tally.n == (choices == level).sum()
        assert Tally.from_bytes(tally.to_bytes(), tally.mechanism) == tally
    halves = zip(*(survey.tally(part)[0] for part in (rows[:400], rows[400:])), strict=True)
    assert [a + b for a, b in halves] == tallies
    nobody = answered(survey, [], [], seeded_rng(1))
    assert nobody.shape == (0, survey.frame.row_bytes)
    assert [tally.n for tally in survey.tally(nobody)[0]] == [0, 0, 0]


def test_the_collector_is_strict() -> None:
    survey = leveled(2.0, 9, Levels(("a", "b"), (0.5, 1.0)))
    rows = answered(survey, np.arange(90) % 9, np.arange(90) % 2, seeded_rng(3))
    for place, value, message in (
        ((4, 0), 2, "report 4 names attributes that it cannot have"),
        ((4, 0), 255, "report 4 names"),
        ((4, 2), 255, "more than 9 bits"),
        ((4, 1), 0, "items, not"),
    ):
        bad = rows.copy()
        bad[place] = value
        with pytest.raises(ReportError, match=message):
            survey.tally(bad)
    for bad in (rows[:, :-1], rows.astype(int), rows[0], np.zeros((2, 9), np.uint8)):
        with pytest.raises(ReportError, match="rows of"):
            survey.tally(bad)


def mixed_lengths() -> Survey:
    """The first level answers with one symbol, the others with a bit for each item."""
    survey = leveled(1.0, 20)
    first = mechanism("grr", epsilon=LEVELS.budgets(1.0)[0], k=20)
    return planted(survey, (first, *laws(survey)[1:]))


def planted(survey: Survey, group) -> Survey:
    """The survey with other laws."""
    other = dataclasses.replace(survey)
    other.__dict__["frame"] = dataclasses.replace(survey.frame, groups=(tuple(group),))
    return other


def test_padding_must_be_zero() -> None:
    """A level with short reports beside one with long ones; the same for attributes."""
    survey = Survey(1.0, (0, 20), how="sample")
    narrow, wide = (group[0].report_bytes for group in survey.frame.groups)
    assert narrow < wide
    columns = [np.zeros(400), np.zeros(400, dtype=int)]
    rows = survey.privatize(columns, picked(400), seeded_rng(1))
    short = rows[:, 0] < 3
    assert 150 < short.sum() < 250
    assert not rows[short, 1 + narrow :].any()
    survey.tally(rows)
    bad = rows.copy()
    bad[np.flatnonzero(short)[0], -1] = 1
    with pytest.raises(ReportError, match="attribute 0 is longer than it can be"):
        survey.tally(bad)
    bad = rows.copy()
    bad[5, 0] = 6
    with pytest.raises(ReportError, match="report 5 names"):
        survey.tally(bad)
    mixed = mixed_lengths()
    rows = answered(mixed, np.arange(60) % 20, np.arange(60) % 3, seeded_rng(1))
    check_padding(mixed)
    assert [tally.n for tally in mixed.tally(rows)[0]] == [20, 20, 20]
    rows[0, -1] = 1
    with pytest.raises(ReportError, match="longer than it can be"):
        mixed.tally(rows)


def test_devices_use_fresh_randomness_and_no_other_source() -> None:
    survey, values = leveled(1.0, 40), np.zeros(300, dtype=int)
    first, second = (answered(survey, values, picked(300), system_rng()) for _ in range(2))
    assert (first != second).any()
    with pytest.raises(SourceError):
        answered(survey, values, picked(300), np.random.default_rng(1))


# --- estimates ---------------------------------------------------------------------------------


def estimates(survey, tallies, about="participants"):
    everybody = survey.everybody(tallies)
    return [combine.generalised(own, about, everybody) for own in tallies]


@pytest.mark.slow
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
            sizes, columns, estimates(survey, survey.tally(rows), about), strict=True
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
    for place, (own, found) in enumerate(zip(tallies, estimates(survey, tallies), strict=True)):
        asked = sum(tally.n for tally in own)
        inner, outer = (
            np.square(combine.generalised(own, about).estimate.stderr)
            for about in ("participants", "population")
        )
        expected = inner + (outer - inner) * (1 - asked / 9000)
        assert_allclose(np.square(found.estimate.stderr), expected)
        assert (expected > 1.05 * inner).all()
        assert_allclose((outer - inner) * asked, 3 / 16 if place == 0 else 1 / 3, rtol=0.15)


def test_mistakes_are_named() -> None:
    for arguments, message in (
        ({"epsilon": 0.0}, "epsilon must be"),
        ({"epsilon": 1.0, "k": 1}, "domains lists"),
        ({"epsilon": 1.0, "k": 4, "name": "duchi"}, "not a mechanism for one of"),
        ({"epsilon": 1.0, "name": "grr"}, "not a mechanism for a number"),
        ({"epsilon": 1.0, "k": 4, "name": "no"}, "no mechanism is called"),
        ({"epsilon": 1.0, "name": "hiera"}, "takes no levels"),
        ({"epsilon": 0.002, "k": 4}, "level high: epsilon must be"),
        ({"epsilon": 1.0, "k": "3"}, "domains lists"),
    ):
        with pytest.raises(ParameterError, match=message):
            leveled(**arguments)
    for arguments, message in (
        ({"domains": (3, 1)}, "domains lists"),
        ({"domains": ()}, "domains lists"),
        ({"domains": (3, 0), "how": "optimal"}, "use equal or sample"),
        ({"domains": (3, 0), "how": "cube_root"}, "use equal or sample"),
        ({"domains": (3, 4), "how": "luck"}, "shared out by"),
    ):
        with pytest.raises(ParameterError, match=message):
            Survey(1.0, **arguments)
    survey, rng = Survey(2.0, (4, 3), how="sample"), seeded_rng(1)
    for columns, choices, message in (
        (5, ["low"], "2 columns"),
        ([[0, 1]], [0, 0], "2 columns"),
        ([[0, 1], [0]], [0, 0], "the same length"),
        ([[0, 1], [0, 3]], [0, 0], "items are 0 to 2"),
        ([[0, 1], [0, 2]], [0], "choices are one level per person"),
        ([[0, 1], [0, 2]], [[0], [1]], "choices are one level per person"),
        ([[0, 1], [0, 2]], [["low"], ["low", "high"]], "choices are one level per person"),
        ([[0, 1], [0, 2]], [0, 3], "a choice is"),
        ([[0, 1], [0, 2]], ["low", "lwo"], "'lwo' at position 1"),
    ):
        with pytest.raises(InputError, match=message):
            survey.privatize(columns, choices, rng)
    with pytest.raises(EmptyError, match="no reports at any level"):
        estimates(survey, survey.frame.by_group(survey.frame.empty()))
    with pytest.raises(MismatchError, match="not of these laws"):
        survey.frame.by_group(survey.frame.empty()[::-1])


def test_very_many_items_are_not_sent_as_bits() -> None:
    for epsilon, k, name in (
        (1.0, 1 << 15, "subset"),
        (1.0, (1 << 15) + 1, "projective"),
        (1.0, None, "optimal"),
        (15.0, None, "piecewise"),
    ):
        assert laws(leveled(epsilon, k))[0].name == name


# --- planted bugs ------------------------------------------------------------------------------


@dataclass(frozen=True)
class SwappedLevels(Survey):
    """Writes one level on the report and answers at another."""

    def privatize(self, columns, choices, rng):
        rows = super().privatize(columns, 2 - self.levels.indices(choices), rng)
        rows[:, 0] = self.levels.indices(choices)
        return rows


@dataclass(frozen=True)
class SumsTwice(Survey):
    """Gives every attribute all of epsilon and answers them all."""

    @cached_property
    def budgets(self):
        return (self.epsilon,) * len(self.domains)


def swapped(epsilon, k, name) -> Survey:
    return SwappedLevels(epsilon, (k,), LEVELS, name)


def test_planted_bugs_are_seen() -> None:
    with pytest.raises(ReportError, match="items, not"):  # sets of the other level's size
        check_level_law(swapped(2.0, 12, "subset"), n=2000)
    with pytest.raises(AssertionError):
        check_level_law(swapped(2.0, 6, "sue"))
    honest = leveled(2.0, 6, LEVELS, "sue")
    at_low = planted(honest, (laws(honest)[-1],) * 3)  # all of epsilon whatever was picked
    with pytest.raises(AssertionError):
        check_level_law(at_low)
    budgets = LEVELS.budgets(2.0)
    kept = [within(loss.ratio, b) for loss, b in zip(at_low.losses(), budgets, strict=True)]
    assert kept == [False, False, True]
    with pytest.raises(AssertionError):
        check_survey_loss(SumsTwice(1.0, (5, 10), how="equal"))


def test_padding_that_tells_is_seen() -> None:
    """The value left in the bytes that nobody reads."""
    mixed = mixed_lengths()

    def send(value, n):
        rows = answered(mixed, np.full(n, value), np.zeros(n, dtype=int), seeded_rng(4))
        rows[:, -1] = value
        return rows

    with pytest.raises(ReportError, match="longer than it can be"):
        mixed.tally(send(5, 9))
    found = attack(lambda value, n: [row.tobytes() for row in send(value, n)], 3, 5, n=20_000)
    assert found.epsilon > LEVELS.budgets(1.0)[0]


def test_a_swapped_level_is_also_seen_by_the_analyst() -> None:
    """Read with the wrong law, the shares do not agree between levels, and the guard says so."""
    items, survey = np.zeros(20_000, dtype=int), swapped(2.0, 6, "sue")
    (tallies,) = survey.tally(answered(survey, items, picked(20_000), seeded_rng(1)))
    assert combine.generalised(tallies).fell_back


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


@pytest.mark.slow
def test_the_simulation_repeats_itself() -> None:
    setting = Setting(people=500, sizes=(4, 5), data="zipf")
    one, two = (
        list(compare_levels(setting, [2.0], 2, [0.0, 5.0], with_oracle=True)) for _ in range(2)
    )
    assert one == two
    assert [row.method for row in one].count("OP (oracle)") == 2
    assert {row.shift for row in one} == {0.0, 5.0}


def run(*arguments):
    app = typer.Typer()
    app.command()(command)
    return CliRunner().invoke(app, [*arguments, "--runs", "2", "--people", "300"])


@pytest.mark.slow
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


def test_levels_can_be_given_as_text_or_names() -> None:
    shy = Levels(("shy", "open"), (0.25, 1.0))
    assert leveled(1.0, 4, "shy=1/4,open=1").levels == shy
    assert Survey(1.0, (4, 3), {"shy": np.float64(0.25), "open": 1}).levels == shy
    for bad in (4, None, ["high"], 0.5):
        with pytest.raises(ParameterError, match="levels must be a `Levels`"):
            leveled(1.0, 4, bad)
    with pytest.raises(ParameterError, match="a list of names and a list of factors"):
        Levels(None, None)


def test_a_combination_reads_like_an_estimate() -> None:
    survey = leveled(2.0, 5)
    rows = answered(survey, np.arange(900) % 5, picked(900), seeded_rng(3))
    found = combine.generalised(survey.tally(rows)[0])
    assert found.estimate.epsilon == 2.0
    assert (found.value == found.estimate.value).all()
    assert (found.stderr == found.estimate.stderr).all()
    assert (found.interval(0.9)[0] == found.estimate.interval(0.9)[0]).all()
    assert "levels weigh" in str(found)


def test_a_device_does_not_send_a_broken_law_at_any_level() -> None:
    broken = leveled(1.0, name="dct")
    assert not broken.loss().holds
    with pytest.raises(PromiseError):
        answered(broken, [0.3], ["low"], system_rng())
    survey = Survey(1.0, (0, 0), numeric="dct", how="equal")
    with pytest.raises(PromiseError, match="Survey is refused"):
        admission.require_kept(survey)
    assert admission.require_kept(Survey(1.0, (4, 3))).holds


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
        figures = read.figures(campaign, campaign.tally(rows))
        assert figures[0].n == (2000 if few == 1000 else 1980)  # a level below the cohort is hidden
        assert len(figures) == 65
        assert min(figure.n for figure in figures) >= 1000


# --- who chose the levels ------------------------------------------------------------------------

SURVEY = """
name = "survey"
purpose = "to see"
epsilon = 3
cohort = 100
[levels]
high = "1/3"
low = 1
{chosen}
[[attributes]]
name = "disease"
kind = "category"
labels = ["yes", "no", "unsure", "never asked"]
mechanism = "subset"
[[attributes]]
name = "age"
kind = "number"
low = 0
high = 10
mechanism = "piecewise"
"""


def asked(tmp_path, chosen=""):
    path = tmp_path / "survey.toml"
    path.write_text(SURVEY.format(chosen=chosen))
    return document.read(document.publish(campaign_file.load(path)))


def collected(campaign, disease, age, high, rng):
    """Return the tallies of people of whom some choose the high level, the others the low one."""
    answers = {"disease": np.array(["yes", "no", "unsure", "never asked"])[disease], "age": age}
    columns = campaign.encode(answers, rng)
    return campaign.tally(campaign.privatize(columns, rng, np.where(high, "high", "low")))


@pytest.mark.slow
@pytest.mark.parametrize("chosen", ["", "chosen = 'by lot'"])
def test_figures_cover_whoever_chose_the_levels(tmp_path, chosen) -> None:
    """Those with one answer choose one level: 56% were covered while levels were weighed freely.

    By lot the levels are read together, and that is narrower than the plain sum and than the
    lowest level alone.
    """
    campaign, n, runs, draw = asked(tmp_path, chosen), 3000, 80, np.random.default_rng(21)
    disease = draw.choice(4, n, p=[0.15, 0.5, 0.3, 0.05])
    age = np.where(disease == 0, 8.0, draw.uniform(0, 10, n))
    truth = np.array([*np.bincount(disease, minlength=4) / n, age.mean()])
    hits, named, widths = np.zeros(5), np.zeros(5), np.zeros((2, 5))
    for run in range(runs):
        by_value = (disease == 0) | (draw.random(n) < 0.3)
        high = draw.random(n) < 0.45 if chosen else by_value
        tallies = collected(campaign, disease, age, high, seeded_rng(run))
        own, other = (
            read.figures(campaign, tallies, combine=name)
            for name in ("", "total" if chosen else "generalised")
        )
        for found, count in ((own, hits), (other, named)):
            count += [f.low <= t <= f.high for f, t in zip(found, truth, strict=True)]
        widths += [[f.high - f.low for f in found] for found in (own, other)]
    bound = 0.95 - 4 * math.sqrt(0.95 * 0.05 / runs)
    assert (hits / runs).min() > bound
    if chosen:
        assert (widths[0] < 0.9 * widths[1]).all()
        assert "drawn by lot" in own[0].note
        lowest = campaign.frame.by_group(tallies)[1][1]
        everybody = campaign.frame.reports(tallies)
        alone = lowest.mechanism.estimate(lowest, "participants", everybody)
        assert own[4].stderr <= 5 * alone.stderr
    else:
        assert (named / runs).min() < bound  # the assumption matters, and the figure says so
        assert "whatever made people choose" in own[0].note
        assert "if nobody's level depends on the answer" in other[0].note


def test_a_number_by_name_is_never_wider_than_the_lowest_level_alone() -> None:
    draw, rng = np.random.default_rng(22), seeded_rng(22)
    for name in ("duchi", "piecewise", "optimal"):
        for n in (300, 6000):
            laws = [mechanism(name, epsilon=epsilon) for epsilon in (0.5, 1.0, 4.0)]
            values = draw.uniform(-0.5, 1, n)
            level = draw.integers(0, 3, n)
            tallies = [m.tally(m.privatize(values[level == t], rng)) for t, m in enumerate(laws)]
            for about in ("participants", "population"):
                found = combine.generalised(tallies, about)
                alone = laws[2].estimate(tallies[2], about, n)
                assert not found.fell_back
                assert found.stderr <= alone.stderr * (1 + 1e-12)
                assert found.stderr < combine.total(tallies, about).stderr


def test_chosen_is_in_the_digest_only_by_lot(tmp_path) -> None:
    freely, said, by_lot = (
        asked(tmp_path, chosen) for chosen in ("", "chosen = 'freely'", "chosen = 'by lot'")
    )
    assert freely.digest == said.digest != by_lot.digest
    assert not freely.levels.by_lot
    assert by_lot.levels.by_lot
    assert "chosen" not in freely.text
    assert by_lot.levels.names == ("high", "low")
    named = asked(tmp_path, "chosen = 0.5")  # a level may be called so
    assert named.levels.names == ("high", "low", "chosen")
    with pytest.raises(MurmurationError, match="'freely' or 'by lot'"):
        asked(tmp_path, "chosen = 'by dice'")
    with pytest.raises(ParameterError, match="'freely' or 'by lot'"):
        Levels(chosen="by dice")
    with pytest.raises(ParameterError, match="total or generalised"):
        read.figures(freely, freely.frame.empty(), combine="best")


@pytest.mark.slow
def test_a_combination_can_be_named_on_the_command_line_and_over_http(tmp_path) -> None:
    text, draw = SURVEY.format(chosen=""), np.random.default_rng(23)
    campaign, n = asked(tmp_path), 3000
    answers = {"disease": np.array(["yes", "no"] * (n // 2)), "age": draw.uniform(0, 10, n)}
    columns = campaign.encode(answers, seeded_rng(1))
    rows = campaign.privatize(columns, seeded_rng(2), draw.choice(["high", "low"], n))
    with running(tmp_path / "store.db", text) as collector:
        body = encoded(campaign, new_ids(n), rows, BINARY)
        assert collector.send(campaign.name, body, BINARY).status == 200
        there = collector.collection(campaign.name).url
        environment = {"MURMUR_TOKEN": collector.admin}
        for name, said in (("", combine.PLAIN), ("total", combine.PLAIN), ("generalised", "name")):
            expected = read.figures(campaign, campaign.tally(rows), combine=name)
            option = ("--combine", name) if name else ()
            for source in (there, tmp_path / "store.db"):
                done = murmur("estimate", source, *option, "--json", environment=environment)
                found = json.loads(done.stdout)["estimates"]
                assert [one["stderr"] for one in found] == [one.stderr for one in expected]
                assert all(said in one["note"] for one in found)
        shown = murmur("estimate", tmp_path / "store.db").stdout
        assert "whatever made people choose theirs" in " ".join(shown.split())
        refused = murmur("estimate", tmp_path / "store.db", "--combine", "best", code=2)
        assert "total or generalised" in refused.problem
