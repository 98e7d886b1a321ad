"""The command line as its users see it: real files, real exit codes.

Most commands run in this process (command.py); test_entry.py starts real ones.
"""

from __future__ import annotations

import csv
import json
import signal
import urllib.error
import urllib.request

import numpy as np
import pytest

from murmuration.mechanisms.number.base import Design, ramp
from murmuration.mechanisms.number.duchi import Duchi
from tests.support.cases import BROKEN
from tests.support.command import murmur, process


@pytest.mark.slow
def test_mechanisms_as_table_and_json() -> None:
    assert "three-output" in murmur("mechanisms").stdout
    rows = json.loads(murmur("mechanisms", "--epsilon", "2", "--json").stdout)
    assert {"duchi", "optimal", "square-wave"} <= {row["name"] for row in rows}
    kept = {row["name"] for row in rows if row["loss"] and 2 - 1e-5 < row["loss"] <= 2}
    assert {row["name"] for row in rows} - kept == BROKEN


def test_audit_says_kept() -> None:
    text = murmur("audit", "piecewise", "--epsilon", "1", "--set", "t=sub", "--empirical").stdout
    assert "kept" in text
    assert "agrees with the law" in text
    assert "rests on" in text  # a loss is that of a law: what a device sends rests on its words
    verdict = json.loads(murmur("audit", "duchi", "--epsilon", "0.5", "--json").stdout)
    assert verdict["passed"] is True
    assert verdict["sampler"]["disagreements"] == 0
    assert "HMAC-SHA-256" in verdict["rests_on"]
    assert verdict["ratio"][0] / verdict["ratio"][1] == pytest.approx(np.exp(0.5))


def test_audit_of_items_and_tuples() -> None:
    grr = json.loads(
        murmur("audit", "grr", "--epsilon", "1", "--set", "k=8", "--empirical", "--json").stdout
    )
    assert grr["passed"]
    assert 0.8 < grr["empirical"]["at_least"] <= 1
    text = murmur("audit", "duchi-multi-published", "--epsilon", "1", "--set", "d=4", code=1).stdout
    assert "1.788" in text
    assert "BROKEN" in text


def test_audit_of_labels_with_budgets(tmp_path) -> None:
    plot = tmp_path / "loss.svg"
    given = ("graded-items", "--epsilon", "2,2,0.5", "--set", "k=3", "--plot", str(plot))
    text = murmur("audit", *given).stdout
    assert "kept" in text
    assert "3: item 2" in text
    assert plot.stat().st_size > 1000


@pytest.mark.parametrize(
    ("epsilon", "design", "word"),
    [
        (0.987, ramp(1, 1.1 * 0.987), "BROKEN"),
        (0.986, Design(np.diag([2**52, 2**52]), np.array([-1.0, 1.0])), "infinite"),
    ],
    ids=["louder", "certain"],
)
def test_audit_exits_with_1_when_the_promise_is_broken(epsilon, design, word, monkeypatch) -> None:
    """Plant a bug in duchi: 1.1 times its epsilon, and none at all.

    Laws are kept by epsilon as long as the process runs, so these are nobody else's.
    """
    monkeypatch.setattr(Duchi, "build", lambda self: design)
    command = ("audit", "duchi", "--epsilon", epsilon, "--empirical")
    assert word in murmur(*command, code=1).stdout
    assert json.loads(murmur(*command, "--json", code=1).stdout)["passed"] is False


@pytest.mark.slow
def test_compare_on_a_named_crowd(tmp_path) -> None:
    few = ("--epsilon", "1,2", "--people", "300", "--runs", "20")
    assert "worst/limit" in murmur("compare", *few, folder=tmp_path).stdout
    assert not list(tmp_path.iterdir())  # a plot only when it is asked for
    murmur("compare", *few, "--plot", "out/compare.png", folder=tmp_path)
    assert (tmp_path / "out" / "compare.png").read_bytes().startswith(b"\x89PNG")


def test_compare_on_a_file(tmp_path) -> None:
    path = tmp_path / "people.csv"
    with path.open("w", newline="") as lines:
        writer = csv.writer(lines)
        writer.writerow(["name", "age"])
        writer.writerows([f"p{i}", 20 + i % 60] for i in range(500))
    arguments = ["compare", "--data", str(path), "--column", "age", "--low", "25", "--high", "70"]
    options = ["--epsilon", "1", "--runs", "200", "--mechanism", "duchi", "--json"]
    done = murmur(*arguments, *options)
    assert "clamped" in done.stderr
    (row,) = json.loads(done.stdout)
    assert abs(row["measured"] - row["predicted"]) < 4 * row["stderr"]
    assert row["limit"] < row["worst"]


@pytest.mark.slow
def test_demo(tmp_path) -> None:
    done = murmur("demo", "--people", "6000", "--port", "0", "--once", folder=tmp_path)
    assert "received 6,000 = stored 6,000" in done.stdout
    assert (tmp_path / "out" / "demo" / "demo.db").exists()


@pytest.mark.slow
def test_demo_for_machines(tmp_path) -> None:
    options = ["--people", "6000", "--port", "0", "--json", "--folder", str(tmp_path)]
    found = json.loads(murmur("demo", *options).stdout)
    assert found["sent"]["stored"] == 6000
    assert 1000 <= found["people"] <= 6000  # in figures, which change by a cohort of answers
    for figure in found["estimates"]:
        truth = found["truth"][figure["attribute"]][figure["item"]]
        assert abs(figure["value"] - truth) < 6 * figure["stderr"]  # fresh noise on every run


@pytest.mark.slow
def test_demo_leaves_the_collector_running(tmp_path) -> None:
    options = ("--people", "3000", "--port", "0", "--seconds", "1", "--folder", tmp_path)
    with process("demo", *options) as running:
        try:
            link = next(line for line in running.stdout if "/sign-in?code=" in line).split()[-1]
            browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
            with browser.open(link, timeout=30) as answer:  # on to the dashboard
                assert answer.url.endswith("/")
                assert b'class="dashboard"' in answer.read()
            line = next(line for line in running.stdout if "goes on at" in line)
            url = line.split("goes on at ")[1].split()[0]
            with urllib.request.urlopen(url, timeout=30) as answer:
                assert json.load(answer)["campaign"] == "commute"
        finally:
            running.send_signal(signal.SIGTERM)
            running.communicate(timeout=30)
        assert running.returncode == 0
    with pytest.raises(urllib.error.URLError, match="refused"):
        urllib.request.urlopen(url, timeout=5)


def test_tuples() -> None:
    options = ["--people", "20000", "--epsilon", "2", "--json"]
    rows = json.loads(murmur("tuples", *options).stdout)
    errors = {row["mechanism"]: row["categorical_rms"] for row in rows}
    assert set(errors) == {"harmony", "sampled", "hybrid-composition"}
    assert errors["harmony"] < 0.6 * errors["hybrid-composition"]
    assert all(row["covered"] > 0.85 and row["loss"] <= 2 for row in rows)
    text = murmur("tuples", "--categorical", "", "--numeric", "4", "--people", "2000").stdout
    assert "block" in text
    done = murmur("tuples", "--people", "2000", "--epsilon", "20")
    assert "left out: sampled" in done.stderr
    assert "harmony" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["audit", "magic", "--epsilon", "1"], "no mechanism is called 'magic'"),
        (["audit", "duchi", "--epsilon", "-1"], "epsilon must be 0.001 to 20"),
        (["audit", "duchi", "--epsilon", "nan"], "epsilon must be 0.001 to 20"),
        (["audit", "duchi", "--epsilon", "1", "--set", "t"], "NAME=VALUE"),
        (["audit", "duchi", "--epsilon", "1", "--set", "t=1"], "its parameters are epsilon"),
        (["audit", "piecewise", "--epsilon", "1", "--set", "t=0"], "a number above 0"),
        (["audit", "dithered", "--epsilon", "1", "--set", "thresholds=3"], "power of two"),
        (["audit", "duchi", "--epsilon", "1", "--set", "epsilon=2"], "given by --epsilon"),
        (["compare", "--epsilon", "one"], "numbers with commas"),
        (["compare", "--low", "1"], "go with a file"),
        (["tuples", "--categorical", "two"], "sizes such as"),
        (["tuples", "--categorical", "1"], "sizes such as"),
        (["tuples", "--epsilon", "0"], "epsilon must be"),
        (["tuples", "--categorical", "", "--numeric", "0"], "no mechanism takes"),
        (["mechanisms", "--epsilon", "0"], "epsilon must be"),
        (["audit", "grr", "--epsilon", "1", "--set", "k=4", "--set", "k=5"], "k twice"),
        (["tuples", "--mechanism", "magic"], "no tuple mechanism"),
        (["tuples", "--mechanism", "block"], "numbers only"),
        (["compare", "--plot", "/proc/x/y.png"], "cannot write to"),
        (["compare", "--plot", "plot.xyz"], ".png, .svg or .pdf"),
        (["compare", "--data", "nowhere.csv"], "neither a file nor"),
        (["compare", "--mechanism", "magic"], "no numeric mechanism"),
    ],
)
def test_mistakes_get_one_clear_line(arguments, message) -> None:
    done = murmur(*arguments, code=2)
    assert message in done.problem
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("age\n3\nold\n", [], "first on line 3"),
        ("age,size\n3,1\n,2\n", ["--column", "age"], "1 of 2 values"),
        ("age\n", [], "empty"),
        ("age\n3\n3\n", [], "is empty; give"),
        ("age,size\n3,4\n", [], "--column must be one of age, size"),
        ("age\n3\nnan\n", [], "are not numbers"),
    ],
)
def test_bad_files_get_one_clear_line(text, options, message, tmp_path) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(text)
    done = murmur("compare", "--data", str(path), *options, code=2)
    assert message in done.problem


def test_a_file_that_cannot_be_read_is_no_failed_audit(tmp_path) -> None:
    path = tmp_path / "latin.csv"
    path.write_bytes("age\nf\xfcnf\n".encode("latin-1"))
    assert "not UTF-8 text" in murmur("compare", "--data", path, code=2).problem
    murmur("compare", "--data", "/proc/self/mem", code=3)  # the machine refuses


def test_large_epsilon_leaves_out_what_cannot_be_built() -> None:
    done = murmur("mechanisms", "--epsilon", "15", "--json")
    assert "left out: optimal" in done.stderr
    assert "duchi" in {row["name"] for row in json.loads(done.stdout)}
    options = ["--runs", "5", "--mechanism", "duchi"]
    assert " - " in murmur("compare", "--epsilon", "15", *options).stdout


PAPER_LAYOUT = ("--set", "edges=-0.6,-0.2,0.2,0.6")


@pytest.mark.slow
def test_audit_of_a_graded_layout(tmp_path) -> None:
    budgets = ("--epsilon", "0.5,0.4,0.3,0.2,0.1")
    picture = tmp_path / "loss.png"
    done = murmur("audit", "hiera", *budgets, *PAPER_LAYOUT, "--plot", str(picture), code=1)
    assert "BROKEN" in done.stdout
    assert "!0.899" in done.stdout
    assert "x = -1 in range 1 against x = 1 in range 5" in done.stdout
    assert picture.stat().st_size > 10_000
    verdict = json.loads(murmur("audit", "graded-bit", *budgets, *PAPER_LAYOUT, "--json").stdout)
    assert verdict["passed"] is True
    assert verdict["accept_loss"] is None
    losses, allowed = np.array(verdict["pairwise"]), np.array(verdict["budgets"])
    assert losses.shape == (5, 5)
    assert (losses <= allowed).all()
    matrix = ("--epsilon", "1,0.5", "--set", "edges=0.3", "--set", "semantics=1,0.7;0.7,0.5")
    assert "kept" in murmur("audit", "graded-bit", *matrix).stdout


@pytest.mark.slow
def test_a_loss_is_accepted_only_in_the_audits_own_words() -> None:
    broken = ("audit", "dct", "--epsilon", "1")
    words = json.loads(murmur(*broken, "--json", code=1).stdout)["accept_loss"]
    assert words == "an infinite loss where 1.0 is promised"
    murmur(*broken, code=1)
    assert "accepted" in murmur(*broken, "--accept-loss", words).stderr
    json.loads(murmur(*broken, "--accept-loss", words, "--json").stdout)
    kept = murmur("audit", "duchi", "--epsilon", "1", "--accept-loss", "yes")
    assert "nothing to accept" in kept.stderr
    assert "not attacked" in murmur(*broken, "--empirical", code=1).stderr
    assert "accept_loss says" in murmur(*broken, "--accept-loss", "yes", code=2).stderr


@pytest.mark.slow
def test_audit_of_levels() -> None:
    levels = ("--levels", "high=1/3,medium=1/2,low=1")
    text = murmur("audit", "subset", "--epsilon", "1", "--set", "k=10", *levels).stdout
    assert text.count("kept") == 3
    found = json.loads(murmur("audit", "duchi", "--epsilon", "2", *levels, "--json").stdout)
    assert found["levels"]["medium"]["claimed"] == 1.0
    assert found["passed"] is True
    murmur("audit", "dct", "--epsilon", "1", *levels, code=1)
    for mistake in (["--empirical"], ["--set", "d=3"], ["--set", "k=1"]):
        murmur("audit", "subset", "--epsilon", "1", "--set", "k=4", *levels, *mistake, code=2)
    murmur("audit", "hiera", "--epsilon", "1", *levels, code=2)
    murmur("audit", "duchi", "--epsilon", "1,2", *levels, code=2)


GRADED_PLAN = ("--epsilon", "1,2", "--edges", "0", "--people", "9")
EDGE = ("--set", "edges=0")


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("audit", "hiera", "--epsilon", "1,0.5"), "edges"),
        (("audit", "duchi", "--epsilon", "1,0.5"), "one epsilon"),
        (("audit", "duchi", "--epsilon", "1", "--plot", "x.png"), "graded"),
        (("audit", "graded-bit", "--epsilon", "1,2", "--set", "edges=7"), "edges go"),
        (("audit", "graded-bit", "--epsilon", "1,two", "--set", "edges=0"), "numbers"),
        (("compare", "graded", "--grades", "5,-1", "--edges", "0"), "above 0"),
        (("compare", "graded", "--grades", "5,x"), "--grades takes numbers"),
        (("compare", "graded", "--semantics", "most"), "semantics"),
        (("plan", "graded", "--epsilon", "1,2", "--edges", "0,1", "--people", "9"), "edges"),
        (("plan", "--epsilon", "1"), "--people"),
        (("compare", "levels", "--levels", "high"), "high=1/3"),
        (("compare", "--mechanism", "hiera"), "compare graded"),
        (("compare", "--mechanism", "grr"), "no numeric mechanism"),
        (("compare", "graded", "--epsilon", ""), "--epsilon is empty"),
        (("audit", "duchi", "--epsilon", ""), "--epsilon is empty"),
        (("audit", "heira", "--epsilon", "1,2"), "no mechanism is called"),
        (("audit", "auto", "--epsilon", "1,2"), "one epsilon"),
        (("audit", "duchi", "--epsilon", "1", "--levels", "a=1e999999999"), "at most 1"),
        (("plan", "graded", *GRADED_PLAN, "--low", "0"), "go together"),
        (("compare", "graded", "--low", "0"), "go together"),
        (("plan", "graded", *GRADED_PLAN, "--wanted", "1e-200"), "wanted error"),
        (("audit", "graded-bit", "--epsilon", "1,x", "--set", "edges=0"), "numbers"),
        (("audit", "hiera", "--epsilon", "1,2", *EDGE, "--plot", "/proc/a.png"), "cannot write"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_mistakes_about_grades_and_levels_are_one_clear_line(arguments, word) -> None:
    assert word in murmur(*arguments, code=2).problem


@pytest.mark.slow
def test_compare_graded(tmp_path) -> None:
    few = ("--epsilon", "0.5", "--people", "2000", "--runs", "4")
    picture = tmp_path / "graded.png"
    text = murmur("compare", "graded", *few, "--plot", str(picture)).stdout
    assert "graded-optimal" in text
    assert picture.stat().st_size > 10_000
    rows = json.loads(murmur("compare", "graded", *few, "--json").stdout)
    kept = {row["label"] for row in rows if row["kept"]}
    assert {"graded-bit", "graded-optimal", "hiera, calibrated", "optimal, one budget"} == kept - {
        "duchi, one budget",
        "piecewise, one budget",
    }
    assert [row["mu"] for row in rows if row["mu"]] == [1, 2, 3, 4, 5]


def test_compare_graded_leaves_out_what_cannot_be_built() -> None:
    wide = ("--grades", "9,1", "--edges", "0", "--epsilon", "1", "--people", "500", "--runs", "2")
    done = murmur("compare", "graded", *wide)
    assert "left out: graded-optimal at epsilon 1: " in done.problem
    assert "graded-bit" in done.stdout


def test_dct_can_be_compared_by_name() -> None:
    few = ("--epsilon", "1", "--people", "200", "--runs", "3", "--json")
    (row,) = json.loads(murmur("compare", "--mechanism", "dct", *few).stdout)
    assert row["mechanism"] == "dct (promise broken)"
    assert row["worst"] < row["limit"] / 100  # below what any kept promise allows


@pytest.mark.slow
def test_compare_levels(tmp_path) -> None:
    few = ("--epsilon", "2", "--shift", "10", "--people", "500", "--runs", "3")
    picture = tmp_path / "levels.png"
    text = murmur("compare", "levels", *few, "--plot", str(picture)).stdout
    assert "OC" in text
    assert picture.stat().st_size > 10_000
    assert json.loads(murmur("compare", "levels", *few, "--json").stdout)


@pytest.mark.slow
def test_plan_graded() -> None:
    common = ("--edges", "-0.6,-0.2,0.2,0.6", "--people", "1000")
    pays = murmur("plan", "graded", "--epsilon", "0.5,0.4,0.3,0.2,0.1", *common).stdout
    assert "grading pays" in pays
    tails = ("--epsilon", "0.1,0.4,0.5,0.4,0.1")
    nothing = json.loads(murmur("plan", "graded", *tails, *common, "--json").stdout)
    assert nothing["advice"].startswith("grading buys nothing")
    assert "two ends of the domain" in nothing["advice"]
    assert nothing["limit"] < min(option["worst_variance"] for option in nothing["options"])
    income = ("--epsilon", "1,0.5", "--edges", "30000", "--low", "0", "--high", "125000")
    own = json.loads(murmur("plan", "graded", *income, "--people", "1000", "--json").stdout)
    best = own["options"][0]
    assert best["stderr"] == pytest.approx(62_500 * (best["worst_variance"] / 1000) ** 0.5)
    bounds = ("--prior", "4,3,2,1", "--between", "30000:60000", "--low", "0", "--high", "125000")
    chosen = ("--epsilon", "1,0.5", *bounds, "--people", "1000")
    assert json.loads(murmur("plan", "graded", *chosen, "--json").stdout)["edges"] == [60_000]
    assert "for this prior: 60000" in murmur("plan", "graded", *chosen).stdout
    large = murmur("plan", "graded", "--epsilon", "9,8", "--edges", "0", "--people", "10").stdout
    assert "graded-optimal" not in large


@pytest.mark.slow
def test_learn_from_simulated_people(tmp_path) -> None:
    picture = tmp_path / "curve.png"
    done = murmur("learn", "--people", "20000", "--epsilon", "4", "--plot", str(picture))
    assert "simulated" in done.stdout
    assert "kept" not in done.stdout
    assert picture.stat().st_size > 10_000
    for model in ("logistic", "svm"):
        few = ("--model", model, "--people", "20000", "--epsilon", "4", "--json")
        found = json.loads(murmur("learn", *few).stdout)
        assert found["error"] < found["without_model"] / 2
        assert (found["kept"], found["verdict"]) == (False, "simulated")


@pytest.mark.slow
def test_learn_from_a_file(tmp_path) -> None:
    draw = np.random.default_rng(1)
    path = tmp_path / "people.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["age", "home", "wage"])
        for _ in range(4000):
            age, home = draw.uniform(18, 98), draw.choice(["rent", "own"])
            writer.writerow([f"{age:.1f}", home, f"{400 * age + 9000 * (home == 'own'):.0f}"])
    columns = ("--number", "age=18:98", "--category", "home=rent|own")
    task = ("learn", "--data", str(path), *columns, "--epsilon", "8", "--json")
    found = json.loads(murmur(*task, "--target", "wage=0:60000").stdout)
    assert found["error"] < found["without_model"] / 3
    assert set(found["coefficients"]) == {"age", "home=rent"}
    both = (*task, "--target", "wage=0:60000", "--interaction", "age:home")
    found = json.loads(murmur(*both).stdout)
    assert set(found["coefficients"]) == {"age", "home=rent", "age x home=rent"}
    fewer = [part for part in task if part not in ("--category", "home=rent|own")]
    again = (*fewer, "--target", "home=rent|own", "--model", "svm")
    assert json.loads(murmur(*again).stdout)["verdict"] == "simulated"
    short = tmp_path / "short.csv"
    short.write_text("age,wage\n20,1\n")
    one = ("learn", "--data", str(short), "--number", "age=18:98", "--target", "wage=0:9")
    assert "1 rows" in murmur(*one, code=2).problem
    for mistake, word in (
        (("--target", "pay=0:9"), "no column"),
        ((), "--target"),
        (("--target", "home=0:9"), "one part"),
        (("--target", "wage=0:9", "--interaction", "age"), "age:home"),
        (("--target", "wage=0:9", "--interaction", "age:wage"), "no wage"),
        (("--target", "wage=a|b|c", "--model", "svm"), "two values"),
    ):
        assert word in murmur(*task, *mistake, code=2).problem


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("--model", "forest"), "--model is"),
        (("--schedule", "never"), "--schedule is"),
        (("--number", "age=1:2"), "describe --data"),
        (("--data", "nowhere.csv", "--number", "a=1:2", "--target", "b=0:1"), "no file"),
        (("--data", "nowhere.csv", "--number", "a=2:1", "--target", "b=0:1"), "low"),
        (("--mechanism", "grr", "--people", "200"), "gradients"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_mistakes_about_learning_are_one_clear_line(arguments, word) -> None:
    done = murmur("learn", *arguments, code=2)
    assert word in done.problem
