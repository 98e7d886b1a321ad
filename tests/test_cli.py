"""The command line as its users see it: a real process, real files, real exit codes."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cases import PUBLISHED

MURMUR = str(Path(sys.executable).with_name("murmur"))


def murmur(*arguments: str, folder: Path | None = None, code: int = 0):
    environment = {**os.environ, "COLUMNS": "100"}
    done = subprocess.run(
        [MURMUR, *arguments], capture_output=True, text=True, cwd=folder, env=environment
    )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done


def test_help_and_version() -> None:
    overview = murmur("--help").stdout
    for command in ("audit", "compare", "demo", "mechanisms", "plan", "tuples"):
        assert command in overview
        assert "--json" in murmur(command, "--help").stdout
    assert murmur("--version").stdout.startswith("murmur 0.")


def test_mechanisms_as_table_and_json() -> None:
    assert "three-output" in murmur("mechanisms").stdout
    rows = json.loads(murmur("mechanisms", "--epsilon", "2", "--json").stdout)
    assert {"duchi", "optimal", "square-wave"} <= {row["name"] for row in rows}
    kept = {row["name"] for row in rows if row["loss"] and 2 - 1e-5 < row["loss"] <= 2}
    assert {row["name"] for row in rows} - kept == {"duchi-multi-published", *PUBLISHED}


def test_audit_says_kept() -> None:
    text = murmur("audit", "piecewise", "--epsilon", "1", "--set", "t=sub", "--empirical").stdout
    assert "kept" in text
    assert "agrees with the law" in text
    verdict = json.loads(murmur("audit", "duchi", "--epsilon", "0.5", "--json").stdout)
    assert verdict["passed"] is True
    assert verdict["sampler"]["disagreements"] == 0
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


@pytest.mark.parametrize("extra", [["--json"], []])
def test_audit_exits_with_1_when_the_promise_is_broken(extra, tmp_path) -> None:
    """Plant a bug in the real command: duchi with 1.1 times its epsilon, and with none."""
    script = (
        "from murmuration.mechanisms import duchi; from murmuration.numeric import Design, ramp;"
        "import sys, numpy as np; {bug}; from murmuration.cli import main;"
        f"sys.argv = ['murmur', 'audit', 'duchi', '--epsilon', '1', '--empirical', *{extra!r}];"
        "main()"
    )
    louder = "duchi.Duchi.build = lambda self: ramp(1, 1.1 * self.epsilon)"
    certain = (
        "duchi.Duchi.build = lambda self: "
        "Design(np.array([[2**52, 0], [0, 2**52]]), np.array([-1.0, 1.0]))"
    )
    for bug, word in ((louder, "BROKEN"), (certain, "infinite")):
        done = subprocess.run(
            [sys.executable, "-c", script.format(bug=bug)], capture_output=True, text=True
        )
        assert done.returncode == 1, done.stderr
        if extra:
            assert json.loads(done.stdout)["passed"] is False
        else:
            assert word in done.stdout


def test_compare_on_a_named_crowd(tmp_path) -> None:
    done = murmur("compare", "--epsilon", "1,2", "--people", "300", "--runs", "20", folder=tmp_path)
    assert "worst/limit" in done.stdout
    assert (tmp_path / "out" / "compare.png").read_bytes().startswith(b"\x89PNG")


def test_compare_on_a_file(tmp_path) -> None:
    path = tmp_path / "people.csv"
    with path.open("w", newline="") as lines:
        writer = csv.writer(lines)
        writer.writerow(["name", "age"])
        writer.writerows([f"p{i}", 20 + i % 60] for i in range(500))
    arguments = ["compare", "--data", str(path), "--column", "age", "--low", "25", "--high", "70"]
    options = ["--epsilon", "1", "--runs", "200", "--mechanism", "duchi", "--no-plot", "--json"]
    done = murmur(*arguments, *options)
    assert "clamped" in done.stderr
    (row,) = json.loads(done.stdout)
    assert abs(row["measured"] - row["predicted"]) < 4 * row["stderr"]
    assert row["limit"] < row["worst"]


def test_demo(tmp_path) -> None:
    done = murmur("demo", "--people", "20000", folder=tmp_path)
    assert "missed the truth" in done.stdout
    for name in ("demo-intervals.png", "demo-distributions.png"):
        assert (tmp_path / "out" / name).exists()
    rows = json.loads(murmur("demo", "--people", "2000", "--json", folder=tmp_path).stdout)
    assert {row["attribute"] for row in rows} == {"age", "screen time", "commute"}


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
        (["demo", "--out", "/dev/null"], "cannot write to"),
        (["compare", "--data", "nowhere.csv"], "neither a file nor"),
        (["compare", "--mechanism", "magic"], "no numeric mechanism"),
    ],
)
def test_mistakes_get_one_clear_line(arguments, message) -> None:
    done = murmur(*arguments, code=2)
    assert message in done.stderr.replace("\n", " ")
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("age\n3\nold\n", [], "first on line 3"),
        ("age,size\n3,1\n,2\n", ["--column", "age"], "1 of 2 values"),
        ("age\n", [], "empty"),
        ("age\n3\n3\n", [], "is empty; give"),
        ("age,size\n3,4\n", [], "--column must be one of age, size"),
        ("age\n3\nnan\n", [], "are no numbers"),
    ],
)
def test_bad_files_get_one_clear_line(text, options, message, tmp_path) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(text)
    done = murmur("compare", "--data", str(path), *options, "--no-plot", code=2)
    assert message in done.stderr.replace("\n", " ")


def test_without_matplotlib_the_error_says_what_to_install() -> None:
    script = (
        "import sys; sys.modules['matplotlib'] = None; from murmuration.cli import main;"
        "sys.argv = ['murmur', 'compare', '--epsilon', '1', '--runs', '2']; main()"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 2
    assert "murmuration[plots]" in done.stderr


def test_a_file_that_cannot_be_read_is_no_failed_audit(tmp_path) -> None:
    path = tmp_path / "latin.csv"
    path.write_bytes("age\nf\xfcnf\n".encode("latin-1"))
    murmur("compare", "--data", str(path), "--no-plot", code=3)


def test_large_epsilon_leaves_out_what_cannot_be_built() -> None:
    done = murmur("mechanisms", "--epsilon", "15", "--json")
    assert "left out: optimal" in done.stderr
    assert "duchi" in {row["name"] for row in json.loads(done.stdout)}
    options = ["--runs", "5", "--mechanism", "duchi", "--no-plot"]
    assert " - " in murmur("compare", "--epsilon", "15", *options).stdout
