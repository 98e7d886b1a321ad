"""The optimal table against the certified limit; priors; files that cannot be trusted."""

from __future__ import annotations

import io
import os
import subprocess
import sys

import numpy as np
import pytest

from murmuration import mechanism
from murmuration.errors import FormatError
from murmuration.mechanisms.number import optimal, optimal_sampled
from murmuration.mechanisms.solve import linear as linear_program
from murmuration.mechanisms.stored import Solution, cache_folder
from murmuration.planning.choose import choose_numeric
from murmuration.testing.figures import check_unbiased
from murmuration.testing.promise import check_loss

# Lower ends of the certified limit (another program's dual certificate).
CERTIFIED = {
    0.25: 64.00049,
    0.5: 16.00259,
    1: 3.99054,
    2: 0.86535,
    3: 0.30394,
    4: 0.12696,
    5: 0.05726,
}


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MURMUR_CACHE", str(tmp_path))
    optimal.solution.cache_clear()
    yield tmp_path
    optimal.solution.cache_clear()


@pytest.mark.parametrize("epsilon", CERTIFIED)
def test_within_half_a_percent_of_the_certified_limit(epsilon: float) -> None:
    assert mechanism("optimal", epsilon=epsilon).worst_variance() <= 1.005 * CERTIFIED[epsilon]


@pytest.mark.parametrize("epsilon", CERTIFIED)
def test_our_own_certificate_agrees(epsilon: float) -> None:
    """Ours comes from another grid, so either may be the sharper; they are 0.3% apart at most."""
    assert optimal.limit(epsilon) == pytest.approx(CERTIFIED[epsilon], rel=0.003)
    assert optimal.limit(epsilon) < mechanism("optimal", epsilon=epsilon).worst_variance()


def test_no_mechanism_beats_the_limit() -> None:
    for epsilon in (0.5, 1.0, 2.0, 4.0):
        for name in ("laplace", "duchi", "piecewise", "hybrid", "three-output", "dithered"):
            worst = mechanism(name, epsilon=epsilon).worst_variance()
            assert worst > optimal.limit(epsilon)


@pytest.mark.parametrize("epsilon", [0.25, 0.5])
def test_dithered_is_as_good_at_small_epsilon(epsilon: float) -> None:
    assert mechanism("dithered", epsilon=epsilon).worst_variance() < 1.001 * CERTIFIED[epsilon]


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.07, 1.7, 3.3])
def test_an_epsilon_that_is_not_shipped_is_built_and_kept(epsilon: float, cache) -> None:
    chosen = mechanism("optimal", epsilon=epsilon)
    assert chosen.worst_variance() <= 1.005 * optimal.limit(epsilon)
    check_loss(chosen)
    check_unbiased(chosen)
    (kept,) = cache.iterdir()
    assert kept.name == optimal.file_name(epsilon, None)
    optimal.solution.cache_clear()
    assert mechanism("optimal", epsilon=epsilon).fingerprint == chosen.fingerprint


def gauss(bins: int) -> tuple[float, ...]:
    centres = (np.arange(bins) + 0.5) / bins * 2 - 1
    return tuple(np.exp(-((centres / 0.25) ** 2) / 2))


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "sheet"), [(1.0, 3.55), (2.0, 0.610), (4.0, 0.0636)])
def test_a_prior_lowers_the_average_error(epsilon: float, sheet: float, cache) -> None:
    chosen = mechanism("optimal", epsilon=epsilon, prior=gauss(64))
    check_loss(chosen)
    check_unbiased(chosen)
    crowd = np.clip(np.random.default_rng(1).normal(0, 0.25, 200_000), -1, 1)
    assert chosen.variance(crowd).mean() == pytest.approx(sheet, rel=0.015)
    assert (
        chosen.variance(crowd).mean()
        < 0.95 * mechanism("optimal", epsilon=epsilon).variance(crowd).mean()
    )


def test_a_lopsided_prior_helps_on_its_own_side(cache) -> None:
    chosen = mechanism("optimal", epsilon=2.0, prior=(8, 4, 2, 1))
    check_loss(chosen)
    assert chosen.variance(-0.8) < chosen.variance(0.8)


def test_a_prior_on_the_grid_keeps_its_shape() -> None:
    on_grid = optimal.prior_on_grid((0.0, 1.0), 4)
    assert on_grid.sum() == pytest.approx(1)
    assert on_grid[:2].tolist() == [0, 0]
    assert on_grid @ np.linspace(-1, 1, 5) == pytest.approx(0.5)


@pytest.mark.slow
def test_a_damaged_or_leaking_file_is_built_again(cache) -> None:
    path = cache / optimal.file_name(0.07, None)
    whole = optimal.solution(2.0, None).to_bytes()
    for damage in (b"", b"not a table", whole[:200]):
        path.write_bytes(damage)
        optimal.solution.cache_clear()
        first = mechanism("optimal", epsilon=0.07)
        assert optimal.solution(0.07, None).limit > 700
    # A table of another epsilon under this name would leak: the audit on reading sees it.
    path.write_bytes(optimal.solution(2.0, None).to_bytes())
    optimal.solution.cache_clear()
    assert optimal.solution(0.07, None).design.weights.tolist() == first.design.weights.tolist()


def test_a_biased_file_is_refused() -> None:
    solution = optimal.solution(1.0, None)
    buffer = io.BytesIO()
    np.savez(buffer, weights=solution.design.weights, values=solution.design.values + 0.01, limit=1)
    with pytest.raises(FormatError, match="biased"):
        Solution.from_bytes(buffer.getvalue(), lambda design: optimal.audited(design, 1.0))


@pytest.mark.parametrize(
    "change",
    [
        {"values": "ghost", "weights": "ghost"},  # a symbol of no weight, worth very much
        {"weights": "float"},
        {"limit": "two"},
        {"limit": "boast"},
    ],
    ids=lambda change: "-".join(change.values()),
)
def test_a_tampered_file_is_refused(change) -> None:
    solution = optimal.solution(1.0, None)
    weights, values = solution.design.weights, solution.design.values
    other = {
        ("weights", "ghost"): np.hstack([weights, np.zeros((len(weights), 1), dtype=np.int64)]),
        ("values", "ghost"): np.append(values + 0.5, 1e12),
        ("weights", "float"): weights.astype(np.float64),
        ("limit", "two"): np.array([1.0, 2.0]),
        ("limit", "boast"): np.float64(5.0),
    }
    arrays = {"weights": weights, "values": values, "limit": np.float64(solution.limit)}
    arrays |= {name: other[name, kind] for name, kind in change.items()}
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    with pytest.raises(FormatError):
        Solution.from_bytes(buffer.getvalue(), lambda design: optimal.audited(design, 1.0))


def test_an_array_in_place_of_a_table_is_refused() -> None:
    buffer = io.BytesIO()
    np.save(buffer, np.zeros(3))
    with pytest.raises(FormatError):
        Solution.from_bytes(buffer.getvalue(), lambda design: optimal.audited(design, 1.0))


def test_a_read_only_cache_is_no_reason_to_fail(monkeypatch) -> None:
    monkeypatch.setenv("MURMUR_CACHE", "/dev/null/nowhere")
    optimal.solution.cache_clear()
    assert mechanism("optimal", epsilon=0.07).loss().holds
    optimal.solution.cache_clear()


def test_without_a_named_cache_the_users_own_is_taken(monkeypatch, tmp_path) -> None:
    monkeypatch.delenv("MURMUR_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "murmuration"


def test_the_solver_refuses_nonsense() -> None:
    for arguments in ((0.0, 32), (1.0, 3), (1.0, 32, [1.0]), (1.0, 2, [0.0, 0.0, 0.0])):
        with pytest.raises(ValueError, match=r"must|needs"):
            linear_program.solve(*arguments)


@pytest.mark.slow
def test_building_shows_progress_on_a_terminal(tmp_path) -> None:
    """A pseudo-terminal as standard error: the bar is drawn there."""
    primary, secondary = os.openpty()
    code = "import murmuration; murmuration.mechanism('optimal', epsilon=3.3).symbols"
    environment = {**os.environ, "MURMUR_CACHE": str(tmp_path), "TERM": "xterm"}
    subprocess.run([sys.executable, "-c", code], stderr=secondary, env=environment, check=True)
    os.close(secondary)
    assert b"building optimal-3.3" in os.read(primary, 65536)
    os.close(primary)


# --- where each person is asked some attributes --------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])
def test_second_moments_are_nowhere_far_above_those_of_one_bit(epsilon: float) -> None:
    bit = 1 / np.tanh(epsilon / 2) ** 2
    found = optimal_sampled.solution(epsilon, optimal_sampled.FLAT, optimal_sampled.CAP)
    x = np.linspace(-1, 1, 4001)
    moments = mechanism("optimal-sampled", epsilon=epsilon).variance(x) + x**2
    assert moments.max() <= 1.0201 * bit
    assert found.limit < moments.mean() < 1.003 * found.limit  # the rest is rounding to the grid


@pytest.mark.parametrize("epsilon", [1.0, 2.0, 4.0])
def test_no_cap_is_the_table_of_least_mean_square(epsilon: float) -> None:
    """A cap that nothing reaches changes nothing: the same program by another way."""
    prior = optimal.prior_on_grid(optimal_sampled.FLAT, 16)
    free = linear_program.solve(epsilon, 16, prior)
    loose = linear_program.solve(epsilon, 16, prior, cap=50.0)
    spread = float(prior @ np.linspace(-1, 1, 17) ** 2)
    assert loose.worst - spread == pytest.approx(free.worst, rel=1e-4)
    assert loose.limit - spread == pytest.approx(free.limit, rel=1e-4)
    tight = linear_program.solve(epsilon, 16, prior, cap=1.02)
    bit = 1 / np.tanh(epsilon / 2) ** 2
    assert (tight.channel @ tight.values**2).max() <= 1.02 * bit * (1 + 1e-6)
    assert free.worst + spread < tight.worst < bit


@pytest.mark.parametrize(("epsilon", "d"), [(1.0, 2), (1.0, 5), (2.0, 3), (2.0, 10)])
def test_columns_near_the_ends_are_as_good_as_by_one_bit(epsilon: float, d: int) -> None:
    """What the planner takes for one of d attributes; `optimal` was 3 to 6% worse there."""
    law, bit = choose_numeric(epsilon, 1 / d).mechanism, mechanism("duchi", epsilon=epsilon)
    assert law.name == "optimal-sampled"
    x = np.random.default_rng(1).uniform(0.95, 1, 1000)
    spread = (1 - 1 / d) * x.var()
    ratio = (law.variance(x).mean() + spread) / (bit.variance(x).mean() + spread)
    assert ratio < 1.0225  # a standard error that is 1.1% larger
    flat = np.linspace(-1, 1, 1001)
    assert (law.variance(flat) + flat**2).mean() < 0.95 * (bit.variance(flat) + flat**2).mean()
