"""What all reports of one person tell: every law over time, enumerated over all histories."""

from __future__ import annotations

import itertools
import json
import math
from fractions import Fraction
from typing import Any

import pytest
from typer.testing import CliRunner

from murmuration import mechanism
from murmuration.campaign.spells import Spells
from murmuration.cli import app
from murmuration.errors import ParameterError
from murmuration.exact.randomness import WHOLE
from murmuration.mechanisms.base import Mechanism
from murmuration.mechanisms.item.memoised import Memoised
from murmuration.mechanisms.number.memoised_bit import MemoisedBit
from murmuration.planning.longitudinal import Fresh, InSpells, Permanent, added, compared

BUDGETS = [(1.0, 2.0), (0.3, 4.0), (2.0, 2.1)]
PLACES = (Fraction(-1), Fraction(-1, 2), Fraction(1, 4), Fraction(1))
"""Values of a number."""


# --- laws, written down a second time -------------------------------------------------------------


def noise(m: Memoised, answer: int, report: int) -> Fraction:
    return Fraction(m.keep if answer == report else m.swap, WHOLE)


def memory(m: Memoised, value: int, answer: int) -> Fraction:
    return Fraction(m.memory.truth if value == answer else m.memory.lie, WHOLE)


def said(m: Memoised, values: tuple[int, ...], reports: tuple[int, ...]) -> Fraction:
    """P(reports | values) where each value has a permanent answer of its own."""
    parts = [[r for v, r in zip(values, reports, strict=True) if v == one] for one in set(values)]
    chances = []
    for value, mine in zip(set(values), parts, strict=True):
        each = (memory(m, value, a) * math.prod(noise(m, a, r) for r in mine) for a in range(m.k))
        chances.append(sum(each, start=Fraction(0)))
    return math.prod(chances)


def bit_said(m: Memoised, values: tuple[Fraction, ...], reports: tuple[int, ...]) -> Fraction:
    """P(reports | values) of a number with one threshold and one lie, over all thresholds."""
    total, places = Fraction(0), sorted({Fraction(-1), *values, Fraction(1)})
    for low, high in itertools.pairwise(places):  # x > U holds for values above the interval of U
        bits = [int(value >= high) for value in values]
        for lie, weight in ((0, m.memory.truth), (1, m.memory.lie)):
            answers = [bit ^ lie for bit in bits]
            given = math.prod(noise(m, a, r) for a, r in zip(answers, reports, strict=True))
            total += (high - low) / 2 * Fraction(weight, WHOLE) * given
    return total


def in_spells(
    m: Memoised, values: tuple[int, ...], reports: tuple[int, ...], length: int
) -> Fraction:
    """P(reports | values) where a spell says what it began with."""
    starts = range(0, len(values), length)
    return math.prod(
        said(
            m,
            (values[start],) * len(reports[start : start + length]),
            reports[start : start + length],
        )
        for start in starts
    )


def worst(chances: Any, histories: list[Any], reports: list[tuple[int, ...]]) -> Fraction:
    """The largest ratio between any two histories, over all reports."""
    found = Fraction(0)
    for one in reports:
        each = [chances(history, one) for history in histories]
        found = max(found, max(each) / min(each))
    return found


def sequences(k: int, length: int) -> list[tuple[int, ...]]:
    return list(itertools.product(range(k), repeat=length))


# --- a number that is asked again -----------------------------------------------------------------


@pytest.mark.parametrize(("epsilon", "permanent"), BUDGETS)
def test_a_number_that_stays(epsilon: float, permanent: float) -> None:
    m = MemoisedBit(epsilon, permanent)
    for reports in range(1, 6):
        constant = [(value,) * reports for value in PLACES]
        found = worst(lambda h, r: bit_said(m.bits, h, r), constant, sequences(2, reports))
        assert found == m.loss_of(reports).ratio
        assert found <= m.long_run().ratio
    assert m.loss_of(1).ratio == m.loss().ratio


@pytest.mark.parametrize(("epsilon", "permanent"), BUDGETS)
def test_a_number_that_changes_over_all_pairs_of_histories(epsilon, permanent) -> None:
    m = MemoisedBit(epsilon, permanent)
    for reports in range(1, 5):
        histories = list(itertools.product(PLACES[::3] if reports > 3 else PLACES, repeat=reports))
        found = worst(lambda h, r: bit_said(m.bits, h, r), histories, sequences(2, reports))
        told = m.told_by_changes(reports)
        assert math.log(found) == pytest.approx(told, rel=1e-12)
        assert found <= Fraction(math.exp(told)) * (1 + Fraction(1, 10**12))


def test_histories_that_pass_the_threshold_together_hide_the_side() -> None:
    """Which side it was on is hidden by `permanent`, also where it is seen to change."""
    m = MemoisedBit(1.0, 2.0)
    pair = [(Fraction(-1), Fraction(1), Fraction(-1)), (Fraction(1), Fraction(-1), Fraction(1))]
    found = worst(lambda h, r: bit_said(m.bits, h, r), pair, sequences(2, 3))
    assert found <= m.long_run().ratio


def test_what_changes_tell_has_no_bound() -> None:
    for law in (MemoisedBit(1.0, 2.0), Memoised(1.0, 3, 2.0)):
        told = [law.told_by_changes(reports) for reports in (10, 100, 10_000, 10**9)]
        slope = math.log(
            law.bits.keep / law.bits.swap if law.by_value is False else law.keep / law.swap
        )
        assert told[-1] == pytest.approx(10**9 * slope / 2, rel=1e-6)
        assert told == sorted(told)
    for reports in (0, True, 1.5, 10**13):
        with pytest.raises(ParameterError, match="reports"):
            MemoisedBit(1.0).told_by_changes(reports)


@pytest.mark.parametrize(("epsilon", "permanent"), BUDGETS)
@pytest.mark.parametrize(("k", "longest"), [(2, 5), pytest.param(3, 4, marks=pytest.mark.slow)])
def test_what_changes_of_an_item_tell_is_reached(k, longest, epsilon, permanent) -> None:
    m = Memoised(epsilon, k, permanent)
    for reports in range(2, longest + 1):
        found = worst(lambda h, r: said(m, h, r), sequences(k, reports), sequences(k, reports))
        told = m.told_by_changes(reports)
        assert told <= math.log(found) * (1 + 1e-12)
        assert found <= Fraction(m.keep, m.swap) ** reports
        pairs = [tuple(int(t >= own) for t in range(reports)) for own in range(reports + 1)]
        ratios = [said(m, h, h) / said(m, (0,) * reports, h) for h in pairs]
        assert math.log(max(ratios)) >= told * (1 - 1e-12)


# --- spells ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("epsilon", "permanent"), BUDGETS)
@pytest.mark.parametrize(("k", "periods"), [(2, 4), (2, 5), (3, 3)])
@pytest.mark.parametrize("length", [1, 2, 3])
def test_spells_over_all_pairs_of_histories(k, periods, length, epsilon, permanent) -> None:
    """The loss between any two histories is the claimed one exactly: neither less nor more."""
    m = Memoised(epsilon, k, permanent)
    histories = sequences(k, periods)
    found = worst(lambda h, r: in_spells(m, h, r, length), histories, sequences(k, periods))
    sizes = list(Spells(0, length, periods).sizes())
    assert found == math.prod(m.loss_of(size).ratio for size in sizes)
    claimed = InSpells(m, length).changes(periods)
    assert math.log(found) == pytest.approx(claimed, rel=1e-12)
    assert claimed <= len(sizes) * permanent


def test_when_a_value_changes_in_a_spell_is_hidden_altogether() -> None:
    m = Memoised(1.0, 3, 2.0)
    for reports in sequences(3, 4):
        chances = {in_spells(m, (1, *rest), reports, 4) for rest in sequences(3, 3)}
        assert len(chances) == 1


def planted_anew(m: Memoised, values: tuple[int, ...], reports: tuple[int, ...]) -> Fraction:
    """The permanent answer is drawn anew in each period."""
    return math.prod(said(m, (v,), (r,)) for v, r in zip(values, reports, strict=True))


def planted_follows(m: Memoised, values: tuple[int, ...], reports: tuple[int, ...]) -> Fraction:
    """The device goes over to the present value in the middle of a spell."""
    return said(m, values, reports)


@pytest.mark.parametrize("planted", [planted_anew, planted_follows])
def test_a_planted_law_tells_more_than_spells_claim(planted) -> None:
    m = Memoised(1.0, 2, 2.0)
    found = worst(lambda h, r: planted(m, h, r), sequences(2, 5), sequences(2, 5))
    assert math.log(found) > InSpells(m, 5).changes(5) + 1


def test_spells_of_a_campaign() -> None:
    for periods, changes in itertools.product(range(2, 20), range(1, 12)):
        spells = Spells.allowing(changes, 100, periods)
        sizes = list(spells.sizes())
        assert sum(sizes) == periods
        assert len(sizes) == spells.number <= changes + 1
        assert set(sizes[:-1]) <= {spells.length}
        places = [spells.of(100 + place) for place in range(-1, periods + 1)]
        assert places[0] is places[-1] is None
        assert [places.count(one) for one in range(spells.number)] == sizes
    for bad in [(-1, 2, 4), (0, 0, 4), (0, 5, 4)]:
        with pytest.raises(ParameterError):
            Spells(*bad)


# --- the planner ----------------------------------------------------------------------------------


def test_fresh_noise_adds_up() -> None:
    law = mechanism("grr", epsilon=1.0, k=4)
    exact = law.loss().ratio ** 20
    assert Fresh(law).stays(20) >= math.log(exact) * (1 - 1e-15)
    assert Fresh(law).stays(20) == pytest.approx(20, rel=1e-9)
    assert added([0.1, 0.2]) >= 0.3


@pytest.mark.parametrize("k", [None, 2, 5])
def test_losses_never_fall_and_spells_are_between(k: int | None) -> None:
    found = compared(1.0, 2.0, k, 52, 10_000, [1, 3])
    fresh, permanent, long, short, dear = found.laws
    for law in found.laws:
        losses = [law.changes(count) for count in range(1, 53)]
        assert losses == sorted(losses)
        assert all(law.stays(count) <= law.changes(count) for count in range(1, 53))
    at = {law.name: law.changes(52) for law in found.laws}
    assert permanent.stays(52) <= 2 < at[long.name] <= 4 < at[short.name] <= 8 < at[fresh.name]
    assert at[dear.name] <= at[long.name]
    assert dear.stderr(10_000) > 5 * long.stderr(10_000)
    assert isinstance(permanent, Permanent)
    assert permanent.changes(52) > 30


def run(*words: str) -> Any:
    return CliRunner().invoke(app, list(words))


PLAN = ["plan", "repeat", "--epsilon", "1", "--permanent", "2", "--periods", "52"]


@pytest.mark.slow
def test_the_command_prints_and_draws(tmp_path) -> None:
    plot = tmp_path / "loss.svg"
    words = [*PLAN, "--people", "50000", "--changes", "3"]
    result = run(*words, "--plot", str(plot))
    assert result.exit_code == 0, result.output
    assert "spells of" in result.output
    assert plot.read_text().count("<path") > 5
    data = json.loads(run(*words, "--json").stdout)
    by_name = {law["law"]: law["loss"][-1] for law in data["laws"]}
    assert by_name["fresh noise"]["stays"] == pytest.approx(52, rel=1e-5)
    assert by_name["permanent"]["stays"] == pytest.approx(2, rel=1e-6)
    assert by_name["permanent"]["changes"] == pytest.approx(36.8, rel=1e-2)
    assert by_name["spells of 13"]["changes"] == pytest.approx(8, rel=1e-5)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--changes", "52"], "changes are 1 to 51"),
        (["--changes", "some"], "whole numbers"),
        (["--permanent", "0.5"], "more than epsilon"),
    ],
)
def test_the_command_says_what_is_wrong(more: list[str], message: str) -> None:
    result = run(*PLAN, "--people", "50", *more)
    assert result.exit_code != 0
    assert message in " ".join(str(result.exception or result.output).split())


def test_the_audit_says_what_many_reports_tell() -> None:
    words = ["audit", "memoised", "--epsilon", "1", "--set", "k=3", "--set", "permanent=2"]
    data = json.loads(run(*words, "--reports", "52", "--changes", "3", "--json").stdout)
    assert data["spells"] == InSpells(Memoised(1.0, 3, 2.0), 13).changes(52)
    assert data["stays"] <= 2 < data["spells"] <= 8 < data["changes"]
    assert "when is not hidden" in run(*words, "--reports", "52").output
    assert "fresh noise" in run("audit", "duchi", "--epsilon", "1", "--reports", "52").output
    assert run(*words, "--changes", "3").exit_code != 0
    assert run(*words, "--reports", "3", "--changes", "3").exit_code != 0


def test_a_law_for_asking_once_keeps_nothing() -> None:
    law: Mechanism = mechanism("duchi", epsilon=1.0)
    for ask in (law.loss_of, law.told_by_changes):
        with pytest.raises(ParameterError, match="asking once"):
            ask(3)
