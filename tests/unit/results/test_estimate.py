"""Estimates and distributions: units, wording, edge cases."""

from __future__ import annotations

import math

import numpy as np
import pytest

import murmuration
from murmuration import mechanism, seeded_rng
from murmuration.errors import ParameterError
from murmuration.results.estimate import About, Estimate

CROWD = 2 * np.random.default_rng(3).beta(5, 2, 200_000) - 1


def test_an_estimate_says_what_it_is_about() -> None:
    wave = mechanism("piecewise", epsilon=5.0)
    tally = wave.tally(wave.privatize(CROWD, seeded_rng(1)))
    people, population = wave.estimate(tally), wave.estimate(tally, about="population")
    assert people.about is About.PARTICIPANTS
    assert population.about is About.POPULATION
    assert people.stderr < population.stderr
    assert "participants" in str(people)
    expected = math.sqrt(wave.variance(CROWD).mean() / len(CROWD))
    assert people.stderr == pytest.approx(expected, rel=0.02)
    expected = math.sqrt((wave.variance(CROWD).mean() + CROWD.var()) / len(CROWD))
    assert population.stderr == pytest.approx(expected, rel=0.02)
    with pytest.raises(ParameterError, match="participants"):
        wave.estimate(tally, about="everybody")


def test_scaling_is_affine() -> None:
    estimate = Estimate(-0.5, 0.1, 10, 1.0, About.PARTICIPANTS).scaled(100, 200)
    assert (estimate.value, estimate.stderr) == (125.0, 5.0)
    for low, high in ((1, 1), (2, 1), (0, math.inf), (math.nan, 1)):
        with pytest.raises(ParameterError):
            estimate.scaled(low, high)
    for level in (0, 1, 95, math.nan):
        with pytest.raises(ParameterError):
            estimate.interval(level)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["square-wave", "dithered", "optimal"])
@pytest.mark.parametrize("method", ["em", "ems"])
def test_a_distribution_is_recovered(name: str, method: str) -> None:
    chosen = mechanism(name, epsilon=2.0)
    shape = chosen.distribution(chosen.tally(chosen.privatize(CROWD, seeded_rng(2))), method)
    assert shape.histogram.min() >= 0
    assert shape.histogram.sum() == pytest.approx(1)
    assert shape.mean == pytest.approx(CROWD.mean(), abs=0.01)
    assert shape.variance == pytest.approx(CROWD.var(), abs=0.01)
    grid = np.linspace(-0.9, 0.9, 19)
    truth = np.array([(x >= CROWD).mean() for x in grid])
    assert np.abs(shape.cdf(grid) - truth).max() < 0.015
    quartiles = np.quantile(CROWD, [0.25, 0.5, 0.75])
    assert np.abs(shape.quantile([0.25, 0.5, 0.75]) - quartiles).max() < 0.02


@pytest.mark.slow
def test_ems_is_at_least_as_good_as_the_published_figures() -> None:
    """Wasserstein error on beta(5,2), on [0, 1] (half of ours)."""
    limits = {0.5: 0.0083, 1.0: 0.0044, 2.0: 0.0025, 4.0: 0.0009}
    for epsilon, published in limits.items():
        wave = mechanism("square-wave", epsilon=epsilon)
        distances = []
        for seed in range(5):
            shape = wave.distribution(wave.tally(wave.privatize(CROWD, seeded_rng(seed))))
            grid = np.linspace(-1, 1, 2001)
            truth = np.searchsorted(np.sort(CROWD), grid, side="right") / len(CROWD)
            distances.append(np.abs(shape.cdf(grid) - truth).mean())
        assert np.mean(distances) < 1.2 * published


def test_a_distribution_in_other_units_and_bins() -> None:
    wave = mechanism("square-wave", epsilon=2.0)
    tally = wave.tally(wave.privatize(CROWD, seeded_rng(2)))
    shape = wave.distribution(tally, bins=16).scaled(0, 10)
    assert len(shape.edges) == 17
    assert shape.mean == pytest.approx(5 * (CROWD.mean() + 1), abs=0.05)
    assert float(shape.cdf(10)) == pytest.approx(1)
    for bins in (0, 1, 3, 1000, True):
        with pytest.raises(ParameterError, match="bins"):
            wave.distribution(tally, bins=bins)
    with pytest.raises(ParameterError, match="method"):
        wave.distribution(tally, "magic")
    with pytest.raises(ParameterError):
        shape.quantile(1.5)
    with pytest.raises(ParameterError):
        shape.scaled(1, 0)


def test_bad_parameters_are_refused() -> None:
    for epsilon in (0, -1, 1e-9, math.nan, math.inf, 21, "much", None, True):
        with pytest.raises(ParameterError, match="epsilon"):
            mechanism("duchi", epsilon=epsilon)
    for wrong in (
        lambda: mechanism("magic", epsilon=1),
        lambda: mechanism(["duchi"], epsilon=1),
        lambda: mechanism("duchi"),
        lambda: mechanism("duchi", epsilon=1, colour="red"),
        lambda: mechanism("piecewise", epsilon=1, t=-1),
        lambda: mechanism("piecewise", epsilon=1, t="best"),
        lambda: mechanism("dithered", epsilon=1, thresholds=1),
        lambda: mechanism("dithered", epsilon=1, thresholds=48),
        lambda: mechanism("dithered", epsilon=1, kappa=3),
        lambda: mechanism("optimal", epsilon=1, prior=[]),
        lambda: mechanism("optimal", epsilon=1, prior=[-1, 2]),
        lambda: mechanism("optimal", epsilon=1, prior="flat"),
        lambda: mechanism("optimal", epsilon=1, prior=3),
    ):
        with pytest.raises(ParameterError):
            wrong()


def test_numbers_of_other_kinds_are_accepted() -> None:
    duchi = mechanism("duchi", epsilon=np.float32(1))
    for values in (0, 0.5, [1, -1], np.array([0.25], dtype=np.float32), np.int8(1), []):
        reports = duchi.privatize(values, seeded_rng(1))
        assert len(reports) == np.size(values)
    for values in ("a", [None], [[0.1]], [1j], [True], np.ma.array([0.1], mask=[True])):
        with pytest.raises(murmuration.MurmurationError):
            duchi.privatize(values, seeded_rng(1))


def test_too_few_symbols_show_no_distribution() -> None:
    duchi = mechanism("duchi", 1.0)
    with pytest.raises(ParameterError, match="square-wave"):
        duchi.distribution(duchi.tally([0, 1]))


def test_a_fitted_quantile_has_no_interval() -> None:
    """It covered 0% of the time on real columns after EMS, where 95% was promised."""
    wave = mechanism("square-wave", epsilon=2.0)
    tally = wave.tally(wave.privatize(CROWD[:20_000], seeded_rng(1)))
    shape = wave.distribution(tally, replicates=3)
    with pytest.raises(ParameterError, match=r"estimate.*category"):
        shape.quantile_interval(0.5)
    low, high = shape.band(0.9)
    assert (low <= high).all()
    with pytest.raises(ParameterError, match="replicates"):
        wave.distribution(tally).band()


@pytest.mark.slow
def test_em_where_it_is_clearly_more_likely_than_ems() -> None:
    """A column with a peak, as real ones have, is not smoothed away; a smooth one is smoothed."""
    draw = np.random.default_rng(8)
    peaked = np.concatenate([np.full(60_000, -0.3), draw.uniform(-1, 1, 40_000)])
    grid = np.linspace(-1, 1, 2001)
    for crowd, epsilon, method in ((peaked, 2.0, "em"), (CROWD[:20_000], 0.5, "ems")):
        wave = mechanism("square-wave", epsilon=epsilon)
        tally = wave.tally(wave.privatize(crowd, seeded_rng(4)))
        found = wave.distribution(tally, bins=512)
        assert found.method == method
        truth = np.searchsorted(np.sort(crowd), grid, side="right") / len(crowd)
        em, ems = (
            np.abs(wave.distribution(tally, name, bins=512).cdf(grid) - truth).mean()
            for name in ("em", "ems")
        )
        if method == "em":
            assert em < ems / 1.5
        assert np.abs(found.cdf(grid) - truth).mean() == (em if method == "em" else ems)


def test_one_report_knows_next_to_nothing() -> None:
    """Whatever it says, both ends of the range are in the interval, or nearly."""
    duchi = mechanism("duchi", epsilon=1.0)
    one = duchi.tally(duchi.privatize(0.2, seeded_rng(1)))
    for about in ("participants", "population"):
        found = duchi.estimate(one, about)
        assert found.stderr == pytest.approx(math.sqrt(duchi.worst_variance()), rel=0.01)
        low, high = found.interval()
        assert low < -0.8
        assert high > 1
