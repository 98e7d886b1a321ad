"""`murmur reproduce`: every id has a figure, runs are resumed, verdicts follow from the numbers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from murmuration.errors import ParameterError
from murmuration.exact.randomness import Rng
from murmuration.reproduce import registry, run
from murmuration.reproduce.curves import Curves, Mean, Point, mean_of
from murmuration.reproduce.figure import (
    FALSE,
    HOLDS,
    IN_PART,
    PAPERS,
    UNTOLD,
    Figure,
    Job,
    Panel,
    Scale,
    above,
    agrees,
    below,
    between,
    fact,
    verdict,
)
from murmuration.reproduce.report import page
from murmuration.reproduce.run import Run
from tests.support.command import murmur
from tests.support.places import ROOT


@pytest.mark.parametrize("name", registry.ids())
def test_every_id_has_a_figure(name: str) -> None:
    figure = registry.figure(name)
    assert figure.id == name
    assert figure.verdict in (HOLDS, IN_PART, FALSE, UNTOLD)
    for scale in ("sample", "quick", "full"):
        jobs = figure.jobs(Scale(scale))
        assert jobs
        assert all(job.runs >= 1 for job in jobs.values())


def test_unknown_papers_and_ids_are_refused() -> None:
    assert registry.ids("harmony")[0] == "H-ctr"
    for name in ("H-9", ""):
        with pytest.raises(ParameterError, match="no figure has the id"):
            registry.paper_of(name)
    with pytest.raises(ParameterError, match=f"there are {', '.join(PAPERS)}"):
        registry.ids("rappor")


# --- findings ------------------------------------------------------------------------------------


def test_a_finding_is_sure_by_three_standard_errors() -> None:
    near, far = Mean(0.9, 0.05, 9), Mean(0.5, 0.05, 9)
    assert below("", near, 1.0).holds is None
    assert below("", far, 1.0).holds is True
    assert above("", far, 1.0).holds is False
    assert between("", far, 0.2, 0.8).holds is True
    assert between("", near, 0.2, 0.95).holds is None
    assert agrees("", near, 1.0).holds is True
    assert agrees("", far, 1.0).holds is False


def test_a_verdict_needs_a_finding_that_is_decided() -> None:
    yes, no, open_ = fact("", True, ""), fact("", False, ""), below("", Mean(1, 1, 2), 1)
    assert verdict([yes, open_]) == HOLDS
    assert verdict([no, open_]) == FALSE
    assert verdict([yes, no]) == IN_PART
    assert verdict([open_]) == UNTOLD


def test_a_ratio_has_the_error_of_its_pairs() -> None:
    draw = np.random.default_rng(1)
    common = draw.normal(10, 1, 400)
    points = [Point("p", "b", 1, value, run) for run, value in enumerate(common)]
    points += [
        Point("p", "a", 1, value / 2 + noise, run)
        for run, (value, noise) in enumerate(zip(common, draw.normal(0, 0.01, 400), strict=True))
    ]
    ratio = Curves(points).ratio("p", "a", "b", 1)
    assert abs(ratio.value - 0.5) < 4 * ratio.stderr
    assert ratio.stderr < 1e-4  # what both have in common does not count
    unpaired = Curves(points[:399] + points[400:]).ratio("p", "a", "b", 1)
    assert unpaired.stderr > 10 * ratio.stderr


def test_an_exponent_is_the_slope_of_logarithms() -> None:
    points = [
        Point("p", "a", x, x**-0.5 * (1 + noise), run)
        for x in (1.0, 10.0, 100.0)
        for run, noise in enumerate((-0.01, 0.0, 0.01))
    ]
    slope = Curves(points).exponent("p", "a")
    assert abs(slope.value + 0.5) < 4 * slope.stderr + 1e-9
    with pytest.raises(ParameterError, match="nothing was measured"):
        Curves(points).at("p", "b", 1)
    assert mean_of(np.array([2.0])) == Mean(2.0, 0.0, 1)


# --- runs ----------------------------------------------------------------------------------------


class Toss:
    """Work that is counted."""

    done = 0

    def collect(self, rng: Rng, repetition: int) -> Sequence[Point]:
        Toss.done += 1
        return [Point("tosses", "coin", 1.0, float(rng.words(1)[0]), repetition)]


TOY = Figure(
    id="toy",
    where="nowhere",
    claim="a coin is <fair>",
    jobs=lambda scale: {("toss", 1.0): Job(Toss(), scale.pick(2, 4, 8))},
    judge=lambda curves: [fact("fair", True, f"{curves.at('tosses', 'coin', 1).runs} tosses")],
    verdict=HOLDS,
    panels=(Panel("tosses", "x", "y"), Panel("never drawn", "x", "y")),
    instead="a die",
    choices=("which coin",),
)


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "figure", lambda _: TOY)
    monkeypatch.setattr(registry, "paper_of", lambda _: "dct")
    run._jobs.cache_clear()
    Toss.done = 0


@pytest.mark.usefixtures("toy")
def test_what_is_done_is_not_done_again(tmp_path: Path) -> None:
    quick = Run("toy", Scale("quick"), 1, tmp_path)
    steps: list[int] = []
    first = quick.complete(1, steps.append)
    assert (Toss.done, sum(steps)) == (4, 4)
    text = quick.notes.read_text()
    quick.notes.write_text("\n".join(text.split("\n")[:2]) + "\n" + text.split("\n")[2][:10])
    again = Run("toy", Scale("quick"), 1, tmp_path).complete(1)
    assert Toss.done == 6  # the second half only; a line that was cut off counts for nothing
    assert again.curves.points == first.curves.points
    assert first.runs == 4
    other = Run("toy", Scale("quick"), 2, tmp_path).complete(1)
    assert other.curves.points != first.curves.points


@pytest.mark.usefixtures("toy")
def test_the_report_has_claim_verdict_plot_and_choices(tmp_path: Path) -> None:
    outcome = Run("toy", Scale("sample"), 1, tmp_path).complete(1)
    assert outcome.as_expected
    text = page([outcome], "sample", 1)
    for part in ("a coin is &lt;fair&gt;", "holds", "data:image/svg+xml", "a die", "which coin"):
        assert part in text


# --- the command ---------------------------------------------------------------------------------


def test_the_command_leaves_points_a_plot_verdicts_and_a_report(tmp_path: Path) -> None:
    arguments = ("reproduce", "harmony", "--figure", "H-ctr", "--report", "--json", "-o", tmp_path)
    (found,) = json.loads(murmur(*arguments).stdout)
    assert (found["id"], found["verdict"]) == ("H-ctr", HOLDS)
    assert [audit["kept"] for audit in found["audits"]] == [False, True]
    table = pq.read_table(tmp_path / "H-ctr.parquet")
    assert table.column_names == ["figure", "panel", "series", "x", "value", "run"]
    assert len(table) == 16
    assert (tmp_path / "H-ctr.svg").read_bytes().startswith(b"<?xml")
    assert json.loads((tmp_path / "verdicts.json").read_text()) == [found]
    assert "3 e^eps" in (tmp_path / "report.html").read_text()
    shown = murmur("reproduce", "--figure", "H-ctr", "-o", tmp_path).stdout
    assert "holds" in shown


def test_the_command_lists_ids_and_refuses_others(tmp_path: Path) -> None:
    listed = json.loads(murmur("reproduce", "--list", "--json").stdout)
    assert [one["id"] for one in listed] == registry.ids()
    assert "H-ctr" in murmur("reproduce", "harmony", "--list").stdout
    assert "no figure has the id" in murmur("reproduce", "--figure", "X", code=2).problem
    assert "no paper" in murmur("reproduce", "rappor", code=2).problem
    refused = murmur("reproduce", "--figure", "H-ctr", "--engine", "x", "-o", tmp_path, code=2)
    assert "local or spark" in refused.problem


# --- the page ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", registry.ids())
def test_the_page_has_the_verdict_of_each_figure(name: str) -> None:
    page = (ROOT / "docs/papers.md").read_text(encoding="utf-8")
    figure = registry.figure(name)
    assert f"| {name} | {figure.where} | {figure.verdict} |" in page


# --- samples of figures --------------------------------------------------------------------------

SAMPLED = ("H-L1..L5", "D-3", "M-4", "M-Th3", "A-3")


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLED)
def test_a_sample_of_a_figure_contradicts_no_verdict(name: str, tmp_path: Path) -> None:
    """Few runs leave more undecided, but what they decide is not the opposite."""
    outcome = Run(name, Scale("sample"), 1, tmp_path).complete(1)
    opposite = {HOLDS: FALSE, FALSE: HOLDS}.get(outcome.figure.verdict)
    assert outcome.verdict != opposite
    assert page([outcome], "sample", 1)
