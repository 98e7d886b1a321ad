"""Confidence sequences: right at all looks together, whatever the people are and in which order."""

from collections.abc import Sequence

import numpy as np
import pytest

from murmuration import mechanism
from murmuration.analysis.running import (
    ABOUT_ALL,
    ABOUT_ASKED,
    AGAIN,
    TOGETHER,
    Running,
    RunningFigures,
)
from murmuration.campaign.survey import SurveyCampaign
from murmuration.definition.load import parse
from murmuration.exact.randomness import seeded_rng
from murmuration.mechanisms.tally import Tally
from murmuration.statistics.score import normal_quantile
from murmuration.statistics.sequence import ConfidenceSequence, Terms
from tests.support.tools import mostly_slow

RUNS = 1000
LOOKS = np.unique(np.geomspace(1, 4000, 160).round().astype(int))
LEAST = 0.95 - 3 * (0.95 * 0.05 / RUNS) ** 0.5
"""What may come of 95% in so many runs: three standard errors less."""

CROWDS = {
    "all alike": lambda n: np.full(n, 0.3),
    "at an end": lambda n: np.full(n, 1.0),
    "at both ends": lambda n: np.where(np.arange(n) % 2, 1.0, -1.0),
    "changing": lambda n: np.where(np.arange(n) < n // 20, -1.0, 0.97),
}


def looks_covered(
    sequence: ConfidenceSequence, terms: np.ndarray, truth: np.ndarray, level: float = 0.95
) -> float:
    """Return in how many runs (a row each) the truth is inside at every look."""
    sums, truths = terms.cumsum(axis=1), truth.cumsum()
    right = np.ones(len(terms), dtype=bool)
    for n in LOOKS:
        low, high = sequence.interval(sums[:, n - 1] / n, [int(n)], level)
        mean = truths[n - 1] / n
        right &= (low <= mean) & (mean <= high)
    return float(right.mean())


@pytest.mark.parametrize("crowd", mostly_slow(CROWDS))
@pytest.mark.parametrize("name", mostly_slow(["duchi", "optimal"]))
def test_means_are_right_at_all_looks(name: str, crowd: str) -> None:
    law, n = mechanism(name, epsilon=2.0), int(LOOKS[-1])
    people = CROWDS[crowd](n)
    reports = law.privatize(np.tile(people, RUNS), seeded_rng(5)).reshape(RUNS, n)
    sequence = ConfidenceSequence(law.terms(), 1000)
    assert looks_covered(sequence, law.design.values[reports], people) >= LEAST


@pytest.mark.parametrize("share", mostly_slow([1.0, 0.25]))
@pytest.mark.parametrize("truth", mostly_slow([0.02, 0.0, 0.6]))
def test_shares_are_right_at_all_looks(truth: float, share: float) -> None:
    law, n = mechanism("grr", epsilon=3.0, k=8), int(LOOKS[-1])
    draws = np.random.default_rng(11)
    people = (np.arange(n) % 50 < 50 * truth).astype(float)
    supports = draws.random((RUNS, n)) < np.where(people, float(law.p), float(law.q))
    (own,) = law.terms()
    assert own is not None
    asked = draws.random((RUNS, n)) < share
    terms = np.where(asked, own.values[supports.astype(int)] / share, 0.0)
    sequence = ConfidenceSequence((own.asked(share),), 1000)
    assert looks_covered(sequence, terms, people) >= LEAST


def test_intervals_for_one_look_are_not_right_at_all_looks() -> None:
    """Why there are sequences: the usual interval, seen again and again, misses far more often."""
    law, n = mechanism("duchi", epsilon=2.0), int(LOOKS[-1])
    reports = law.privatize(np.zeros(RUNS * n), seeded_rng(6)).reshape(RUNS, n)
    sums = law.design.values[reports].cumsum(axis=1)
    late = [look for look in LOOKS if look >= 30]
    z, error = normal_quantile(0.95), law.worst_variance() ** 0.5
    right = np.all([np.abs(sums[:, k - 1]) <= z * error * k**0.5 for k in late], axis=0)
    assert right.mean() < 0.75


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_it_is_not_much_wider_than_an_interval_for_one_look(epsilon: float) -> None:
    law = mechanism("optimal", epsilon=epsilon)
    sequence = ConfidenceSequence(law.terms(), 100_000)
    for n, most in ((1000, 2.1), (10_000, 1.8), (100_000, 1.6), (1_000_000, 1.8)):
        low, high = sequence.interval(0.0, [n])
        single = 2 * normal_quantile(0.95) * (float(law.variance(np.zeros(1))[0]) / n) ** 0.5
        assert 1 < (high - low) / single < most


def test_ends_are_where_the_mixture_reaches_its_bound() -> None:
    """Newton's steps come from outside and arrive: the ends are the equation's own."""
    law = mechanism("grr", epsilon=1.0, k=5)
    sequence, n = ConfidenceSequence(law.terms(), 10_000), 3000
    low, _ = sequence.interval(0.1, [n])
    a, b = law.terms()[0].bounds(sequence._rates)
    parts = sequence._weights + n * (sequence._rates * (0.1 - float(low)) - a - b * float(low))
    assert np.log(np.exp(parts).sum()) == pytest.approx(np.log(40), abs=1e-6)


def test_the_bound_holds_between_grid_points() -> None:
    law = mechanism("piecewise", epsilon=2.0)
    (terms,), h = law.terms(), np.array([-0.5, 0.2, 1.0])
    most, slope = terms.bounds(h)
    assert not slope.any()
    grown = np.exp(np.outer(h, terms.values)) @ terms.law.T
    for x in np.linspace(-1, 1, 401):
        mixed = [np.interp(x, terms.points, row) for row in grown]
        assert (np.log(mixed) - h * x <= most + 1e-12).all()


# --- of campaigns --------------------------------------------------------------------------------

ATTRIBUTES = """
[[attributes]]
name = "age"
low = 0
high = 100
{age}
[[attributes]]
name = "pet"
kind = "category"
labels = ["cat", "dog", "none at all"]
{pet}
"""


def campaign(head: str = "", each: str = "") -> SurveyCampaign:
    text = f'name = "c"\npurpose = "p"\nepsilon = 4\npeople = 3000\n{head}\n'
    return parse(text + ATTRIBUTES.format(age=each, pet=each))


def running(asked: SurveyCampaign, tallies: Sequence[Tally], place: int) -> dict[str, Running]:
    own, reports = asked.frame.by_group(tallies)[place], asked.frame.reports(tallies)
    return RunningFigures(asked).of(place, own, reports, 0.95, 0.95)


def answers(n: int) -> dict[str, np.ndarray]:
    crowd = np.random.default_rng(3)
    age, pet = crowd.uniform(0, 60, n), np.array(["cat", "dog"])[crowd.integers(0, 2, n)]
    return {"age": age, "pet": pet}


@pytest.mark.slow
def test_a_campaigns_figures_are_right_at_all_looks() -> None:
    """Half are asked each attribute; the figures are about all who sent a report."""
    asked, people = campaign(), answers(1000)
    figures, runs, right = RunningFigures(asked), 100, 0
    rng = seeded_rng(17)
    assert figures.note(0) == ABOUT_ALL
    for _ in range(runs):
        rows, inside = asked.privatize(asked.encode(people, rng), rng), True
        for n in (50, 100, 200, 500, 1000):
            tallies = asked.tally(rows[:n])
            age = running(asked, tallies, 0)["mean"]
            inside &= age.low <= people["age"][:n].mean() <= age.high
            assert age.n == n
        right += inside
    assert right / runs >= 0.95 - 3 * (0.95 * 0.05 / runs) ** 0.5


def test_levels_are_about_those_who_were_asked() -> None:
    asked, people, rng = campaign("levels = { high = 0.5, low = 1 }"), answers(4000), seeded_rng(2)
    levels = np.array(["high", "low"])[np.arange(4000) % 2]
    rows = asked.privatize(asked.encode(people, rng), rng, levels)
    tallies, figures = asked.tally(rows), RunningFigures(asked)
    assert figures.note(1) == ABOUT_ASKED
    cat = running(asked, tallies, 1)["cat"]
    assert cat.n == sum(tally.n for tally in asked.frame.by_group(tallies)[1])
    assert cat.low < 0.5 < cat.high


def test_missing_answers_are_a_quotient() -> None:
    asked, people, rng = campaign(each="missing = true"), answers(20_000), seeded_rng(4)
    gone = np.arange(20_000) % 4 == 0
    people = {
        "age": np.where(gone, np.nan, people["age"]),
        "pet": np.where(gone, None, people["pet"]),
    }
    tallies = asked.tally(asked.privatize(asked.encode(people, rng), rng))
    age, pet = (running(asked, tallies, place) for place in (0, 1))
    assert age["answered"].low < 0.75 < age["answered"].high
    assert pet["answered"].low < 0.75 < pet["answered"].high
    assert age["mean"].low < np.nanmean(people["age"]) < age["mean"].high
    assert pet["cat"].low < 0.5 < pet["cat"].high
    few = asked.tally(asked.privatize(asked.encode({"age": [3.0], "pet": ["cat"]}, rng), rng))
    assert "mean" not in running(asked, few, 0)


def test_there_is_none_where_reports_do_not_stand_for_themselves() -> None:
    together = campaign('strategy = "harmony"')
    assert RunningFigures(together).note(0) == TOGETHER
    again = parse(
        'name = "c"\npurpose = "p"\nepsilon = 4\n[[attributes]]\nname = "pet"\n'
        'kind = "category"\nlabels = ["cat", "dog"]\n[repeat]\npermanent = 5.0\nrounds = 3\n'
    )
    figures = RunningFigures(again)
    assert figures.note(0) == AGAIN
    assert figures.of(0, [law.empty() for law in again.frame.cells], 0, 0.95, 0.95) == {}
    assert mechanism("bassily-smith", epsilon=1.0, k=4).terms() == ()


def test_terms_of_people_who_are_not_asked() -> None:
    (terms,) = mechanism("duchi", epsilon=1.0).terms()
    some = terms.asked(0.5)
    assert isinstance(some, Terms)
    assert np.allclose(some.law @ some.values, some.points)
    assert terms.asked(1.0) is terms
