"""The planner: never far from the best mechanism, and right about what will happen."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from murmuration import list_mechanisms, mechanism, seeded_rng
from murmuration.cli.plan import draw
from murmuration.cli.plan import plan as command
from murmuration.errors import ParameterError
from murmuration.mechanisms.domain import Number
from murmuration.mechanisms.item.base import FrequencyMechanism
from murmuration.mechanisms.number.optimal import limit
from murmuration.mechanisms.registry import mechanisms_for
from murmuration.planning.choose import Attribute, choose_frequency, choose_numeric, plan
from tests.support.command import murmur

FREQUENCY = [
    name
    for name, kind in list_mechanisms().items()
    if issubclass(kind, FrequencyMechanism) and not kind.graded
]
MEAN = [name for name, kind in mechanisms_for(Number, kept=True).items() if kind.answers == "mean"]
ALONE = SimpleNamespace(invoked_subcommand=None)
EPSILONS = [0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0]
SIZES = [2, 3, 4, 5, 7, 8, 10, 16, 24, 32, 62, 100, 128, 500, 1024, 2048, 4096]


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_no_mechanism_is_2_percent_better_for_items(epsilon) -> None:
    for k in SIZES:
        least = min(mechanism(n, epsilon=epsilon, k=k).total_variance() for n in FREQUENCY)
        choice = choose_frequency(epsilon, k)
        assert choice.n_mse <= 1.0011 * least
        assert choice.n_mse == choice.mechanism.total_variance()


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_no_mechanism_is_2_percent_better_for_a_mean(epsilon) -> None:
    choice = choose_numeric(epsilon)
    least = min(mechanism(name, epsilon=epsilon).worst_variance() for name in MEAN)
    assert choice.n_mse <= 1.0011 * least
    assert choice.n_mse <= 1.02 * limit(epsilon)


@pytest.mark.parametrize("share", [0.05, 0.3, 0.8])
@pytest.mark.parametrize("epsilon", [0.5, 2.0, 4.0])
def test_no_mechanism_is_2_percent_better_when_a_share_is_asked(epsilon, share) -> None:
    x = np.linspace(-1, 1, 1001)
    errors = []
    for name in MEAN:
        m = mechanism(name, epsilon=epsilon)
        errors.append((m.variance(x) + (1 - share) * x**2).max() / share)
    assert choose_numeric(epsilon, share).n_mse <= 1.0011 * min(errors)


@pytest.mark.parametrize(
    ("epsilon", "k", "people", "name", "words"),
    [
        (1.0, 4, 10**5, "grr", "equal"),
        (1.0, 16, 10**5, "subset", "next projective, +11.7%"),
        (3.0, 30_000, 10**5, "olh", "as good as subset within 0.1%, in 5 and not 3,750 bytes"),
        (2.0, 40_000, 10**5, "olh", "least error"),
        (0.25, 100_000, 10**9, "projective", "but its reports take 12,500 bytes"),
        (8.0, 500_000, 10**9, "projective", "but"),
    ],
)
def test_reasons(epsilon, k, people, name, words) -> None:
    choice = choose_frequency(epsilon, k, people=people)
    assert (choice.mechanism.name, words in choice.reason) == (name, True), choice.reason


def test_beyond_the_optimal_tables_another_mechanism_is_chosen() -> None:
    choice = choose_numeric(15.0)
    assert choice.mechanism.parameters == {"epsilon": 15.0, "t": "optimal"}


# --- what is predicted happens -----------------------------------------------------------------


def squared_errors(m, crowd, truth, share: float, runs: int):
    """Squared error of each item in each of many collections, times the number of people."""
    rng, coins = seeded_rng(11), np.random.default_rng(12)
    asked = coins.random((runs, len(crowd))) < share
    reports = m.privatize(np.tile(crowd, runs)[asked.ravel()], rng)
    parts = np.split(reports, np.cumsum(asked.sum(axis=1))[:-1])
    found = np.array([m.estimate(m.tally(part)).value for part in parts])
    return len(crowd) * (found - truth) ** 2


def assert_predicted(squares, items: int, row, n: int) -> None:
    """Within 3%, and within 4 of its own standard errors."""
    per_run = squares.reshape(len(squares), -1).mean(axis=1)
    measured = math.sqrt(per_run.mean() / n)
    slack = per_run.std() / math.sqrt(len(per_run)) / (2 * per_run.mean())
    ratio = measured / row.error(n)
    assert abs(ratio - 1) < min(0.03, 4 * slack + 0.003), ratio


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_the_error_of_a_mean_is_as_predicted(epsilon) -> None:
    n = 100
    (row,) = plan([Attribute("x")], epsilon, n).rows
    m = row.choice.mechanism
    x = np.linspace(-1, 1, 2001)
    worst = float(x[m.variance(x).argmax()])
    squares = squared_errors(m, np.full(n, worst), worst, 1.0, 10_000)
    assert_predicted(squares, 1, row, n)


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "k"), [(1.0, 4), (1.0, 64), (3.0, 300)])
def test_the_error_of_frequencies_is_as_predicted(epsilon, k) -> None:
    n = 200
    (row,) = plan([Attribute("x", k)], epsilon, n).rows
    crowd = np.minimum(np.random.default_rng(4).geometric(0.4, n) - 1, k - 1)
    truth = np.bincount(crowd, minlength=k) / n
    squares = squared_errors(row.choice.mechanism, crowd, truth, 1.0, 5000 if k < 10 else 1500)
    assert_predicted(squares, k, row, n)


@pytest.mark.slow
def test_the_errors_of_a_mixed_campaign_are_as_predicted() -> None:
    n = 600
    attributes = [Attribute("a"), Attribute("b"), Attribute("c", k=4), Attribute("d", k=12)]
    found = plan(attributes, 2.0, n)
    assert sum(row.share for row in found.rows) == pytest.approx(1)
    for row in found.rows:
        m, k = row.choice.mechanism, row.attribute.k
        if k is None:
            x = np.linspace(0, 1, 2001)
            far = float(x[(m.variance(x) + (1 - row.share) * x**2).argmax()])
            crowd, truth = np.resize([far, -far], n), 0.0
        else:
            crowd, truth = np.arange(n) % k, 1 / k
        squares = squared_errors(m, crowd, truth, row.share, 4000)
        assert_predicted(squares, row.attribute.items, row, n)


def test_enough_people_are_enough() -> None:
    attributes = [Attribute("a"), Attribute("b", k=20)]
    for row in plan(attributes, 1.0, 1000, wanted=0.02).rows:
        assert row.error(row.people_needed) <= 0.02 < row.error(row.people_needed - 1)
        assert row.stderr == row.error(1000)


@pytest.mark.parametrize(
    ("name", "k", "w"),
    [
        ("grr", 9, lambda e: (e + 9 - 2) / (e - 1)),
        ("oue", 9, lambda e: 2 * e / (e - 1)),
        ("hadamard", 9, lambda e: (e + 1) / (e - 1)),
        ("duchi", None, lambda e: (e + 1) / (e - 1)),
        ("piecewise", None, lambda e: (math.sqrt(e) + 1) / (math.sqrt(e) - 1)),
    ],
)
def test_influence_is_the_published_one(name, k, w) -> None:
    for epsilon in (0.5, 2.0):
        m = mechanism(name, epsilon=epsilon, **({} if k is None else {"k": k}))
        assert m.reach().influence == pytest.approx(w(math.exp(epsilon)), rel=0.02)


def test_liars_move_the_estimate_as_far_as_predicted() -> None:
    """1% send the report that is best for item 0, which nobody has; or the largest symbol."""
    n, liars = 20_000, 200
    (row,) = plan([Attribute("x", k=16)], 1.0, n).rows
    m = row.choice.mechanism
    crowd = m.tally(m.privatize(np.ones(n - liars, dtype=int), seeded_rng(1)))
    honest = m.privatize(np.zeros(20 * liars, dtype=int), seeded_rng(2))
    chosen = honest[(honest[:, 0] & 1).astype(bool)][:liars]  # sets that hold item 0
    both = crowd + m.tally(chosen)
    moved = m.estimate(both).value[0]
    assert abs(moved - row.malicious_shift) < 4 * row.stderr


def test_losses_are_exact_and_kept_and_shuffling_helps() -> None:
    attributes = [Attribute("a"), Attribute("b", k=5), Attribute("c", k=5000)]
    found = plan(attributes, 2.0, 10**6)
    for row in found.rows:
        assert 2 - 1e-5 < row.loss <= 2
        assert 0 < row.central_epsilon < 0.2
        assert row.people == math.floor(row.share * 10**6)
    assert found.advice == ""
    assert "ask each person" in plan(attributes[1:], 2.0, 1000).advice


def test_equal_sampling_asks_all_alike() -> None:
    attributes = [Attribute("a"), Attribute("b", k=500)]
    assert [row.share for row in plan(attributes, 1.0, 10, sampling="equal").rows] == [0.5, 0.5]
    first, second = plan(attributes, 1.0, 10).rows
    assert second.share > 5 * first.share


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: plan([], 1.0, 10), "at least one attribute"),
        (lambda: plan(["age"], 1.0, 10), "at least one attribute"),
        (lambda: plan([Attribute("a"), Attribute("a", k=3)], 1.0, 10), "a comes twice"),
        (lambda: plan([Attribute("a")], 0.0, 10), "epsilon must be"),
        (lambda: plan([Attribute("a")], 1.0, 0), "people are a whole number"),
        (lambda: plan([Attribute("a")], 1.0, 1.5), "people are a whole number"),
        (lambda: plan([Attribute("a")], 1.0, 10, wanted=0), "wanted standard error"),
        (lambda: plan([Attribute("a")], 1.0, 10, wanted=math.nan), "wanted standard error"),
        (lambda: plan([Attribute("a")], 1.0, 10, malicious=1.0), "liars"),
        (lambda: plan([Attribute("a")], 1.0, 10, delta=0.0), "delta must be"),
        (lambda: plan([Attribute("a")], 1.0, 10, sampling="luck"), "cost or equal"),
        (lambda: Attribute(""), "has a name"),
        (lambda: Attribute("a", k=1), "2 to 1,048,576"),
        (lambda: Attribute("a", k=2.0), "2 to 1,048,576"),
        (lambda: choose_frequency(1.0, 1), "2 to 1,048,576"),
        (lambda: choose_numeric(1.0, share=0.0), "share of people"),
        (lambda: choose_numeric(math.nan), "epsilon must be"),
    ],
)
def test_mistakes_are_named(call, message) -> None:
    with pytest.raises(ParameterError, match=message):
        call()


# --- the command -------------------------------------------------------------------------------

ASKED = ["--numeric", "age", "--categorical", "colour=5", "--categorical", "city=1000"]


@pytest.mark.slow
def test_command_prints_a_table_for_80_columns_and_draws(tmp_path) -> None:
    options = ["--epsilon", "1", "--people", "100000", "--plot", "out/p.png"]
    done = murmur("plan", *ASKED, *options, folder=tmp_path)
    for word in ("colour", "city", "1,000 items", "exact loss", "shuffled", "1% liars", "next oue"):
        assert word in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100
    tables = [line for line in done.stdout.splitlines() if line.startswith(("│", "┃"))]
    assert max(map(len, tables)) <= 80
    assert (tmp_path / "out" / "p.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_command_as_json() -> None:
    options = ["--epsilon", "1", "--people", "100000", "--wanted", "0.02", "--json"]
    data = json.loads(murmur("plan", *ASKED, *options).stdout)
    assert [one["name"] for one in data["attributes"]] == ["age", "colour", "city"]
    rows = plan(
        [Attribute("age"), Attribute("colour", k=5), Attribute("city", k=1000)],
        1.0,
        100_000,
        wanted=0.02,
    ).rows
    for one, row in zip(data["attributes"], rows, strict=True):
        assert one["mechanism"] == row.choice.mechanism.name
        assert one["stderr"] == row.stderr
        assert one["people_needed"] == row.people_needed
        assert one["loss"] <= 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "name what is asked"),
        ({"categorical": ["colour"]}, "NAME=K"),
        ({"categorical": ["=5"]}, "NAME=K"),
        ({"categorical": ["colour=many"]}, "NAME=K"),
        ({"categorical": ["colour=1"]}, "2 to 1,048,576"),
        ({"numeric": ["a", "a"]}, "a comes twice"),
        ({"numeric": ["a"], "sampling": "luck"}, "cost or equal"),
        ({"numeric": ["a"], "wanted": -1.0}, "wanted standard error"),
        ({"numeric": ["a"], "plot": Path("plan.xyz")}, ".png, .svg or .pdf"),
    ],
)
def test_command_mistakes_are_named(options, message, capsys) -> None:
    with pytest.raises(ParameterError, match=message):
        command(ALONE, 1.0, 10, **options)
    assert capsys.readouterr().out == ""


def test_command_mistakes_get_one_clear_line() -> None:
    done = murmur("plan", "--epsilon", "1", "--people", "10", "--categorical", "city", code=2)
    assert "takes NAME=K, such as city=50; got 'city'" in done.stderr.replace("\n", " ")


@pytest.mark.slow
def test_equal_curves_share_a_line() -> None:
    found = plan([Attribute("a"), Attribute("b"), Attribute("$c", k=5)], 1.0, 1000)
    (axes,) = draw(found).axes
    assert [text.get_text() for text in axes.get_legend().get_texts()] == [
        "a, b: optimal-sampled",
        r"\$c: grr",
    ]


def test_several_numbers_at_large_epsilon_are_better_asked_together() -> None:
    pair = [Attribute("a"), Attribute("b")]
    assert "block" in plan(pair, 5.0, 1000).advice
    assert plan(pair, 0.5, 1000).advice == ""
    both = [Attribute("a", k=2), Attribute("b", k=3)]
    assert "too little" in plan(both, 0.001, 3000).advice
