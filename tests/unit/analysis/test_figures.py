"""What analysts are shown: every attribute, long lists that say something, files of every kind."""

from __future__ import annotations

import csv
import io
import json
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from murmuration.analysis import select
from murmuration.analysis.figures import Estimates
from murmuration.analysis.read import bins, reading
from murmuration.campaign.survey import SurveyCampaign
from murmuration.cli.estimate import indistinct
from murmuration.cli.estimate_plot import draw
from murmuration.collector.commit import Batch, commit
from murmuration.collector.publish import serve
from murmuration.collector.store import base, open_store
from murmuration.definition import load as campaign_file
from murmuration.exact.arrays import Rows
from murmuration.exact.randomness import seeded_rng
from murmuration.sources.open import open_source
from murmuration.wire import parquet, report
from murmuration.wire.ids import new_ids
from murmuration.wire.report import Incoming, Upload
from tests.support import collectors
from tests.support.command import murmur

FEW = """
name = "few"
purpose = "How people are"
epsilon = 2.0
people = 1000
cohort = 300

[[attributes]]
name = "age"
low = 18
high = 98
unit = "years"

[[attributes]]
name = "phone"
kind = "category"
labels = ["android", "ios", "other"]

[[attributes]]
name = "shape"
kind = "distribution"
low = 0
high = 1
bins = 8
"""
TOWNS = 5000
LONG = f"""
name = "towns"
purpose = "Where people live"
epsilon = 4.0
people = 20000

[[attributes]]
name = "town"
kind = "category"
labels = {json.dumps([f"t{i:04d}" for i in range(TOWNS)])}
"""


@cache
def campaign(text: str) -> SurveyCampaign:
    return campaign_file.parse(text)


def reports(text: str, people: int, **answers: Any) -> Rows:
    asked = campaign(text)
    columns = asked.encode(answers, seeded_rng(1))
    assert len(columns[0]) == people
    return asked.privatize(columns, seeded_rng(2))


@cache
def few_reports() -> Rows:
    """Answers of 905 people: by chance 315 are asked their phone, and fewer than 300 the others."""
    people = 905
    rows = reports(FEW, people, age=[38] * people, phone=["ios"] * people, shape=[0.3] * people)
    counted = [tally.n for tally in campaign(FEW).tally(rows)]
    assert counted == [294, 315, 296]
    return rows


@cache
def long_reports() -> Rows:
    people = 20_000
    share = 1 / np.arange(1, TOWNS + 1)
    drawn = np.random.default_rng(3).choice(TOWNS, people, p=share / share.sum())
    return reports(LONG, people, town=[f"t{place:04d}" for place in drawn])


def collected(path: Path, text: str, rows: Rows, seed: int = 3) -> Path:
    """A store with these reports."""
    with closing(open_store(path)) as store:
        served = serve(store, campaign(text))
        fine = np.zeros(len(rows), dtype=np.uint8)
        upload = Upload(new_ids(len(rows), seeded_rng(seed)), rows, fine)
        commit(store, [Batch(served, Incoming([], upload))])
    return path


@pytest.fixture
def few(tmp_path: Path) -> Path:
    return collected(tmp_path / "few.db", FEW, few_reports())


@pytest.fixture
def long(tmp_path: Path) -> Path:
    return collected(tmp_path / "long.db", LONG, long_reports())


def words(text: str) -> str:
    """What is printed, without lines and breaks."""
    return " ".join("".join(" " if one in "│┃" else one for one in text).split())


# --- every attribute -----------------------------------------------------------------------------


def test_what_is_hidden_is_listed_with_what_it_has_and_needs(few: Path) -> None:
    text = words(murmur("estimate", few).stdout)
    assert "age (years) hidden fewer than 300" in text
    assert "shape hidden fewer than 300" in text
    assert "phone android" in text
    found = json.loads(murmur("estimate", few, "--json").stdout)
    listed = {
        one["name"]: (one["answers"], one["needed"], one["hidden"]) for one in found["attributes"]
    }
    assert listed == {
        "age": (0, 300, True),
        "phone": (315, 300, False),
        "shape": (0, 300, True),
    }
    assert {one["attribute"] for one in found["estimates"]} == {"phone"}


@pytest.mark.slow
def test_what_is_hidden_is_a_row_without_a_value(few: Path, tmp_path: Path) -> None:
    murmur("estimate", few, "-o", tmp_path / "out.csv", "-o", tmp_path / "out.parquet")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "out.csv").read_text())))
    age = next(row for row in rows if row["attribute"] == "age")
    assert (age["value"], age["stderr"], age["low"], age["n"]) == ("", "", "", "")
    assert age["note"] == "hidden: fewer than 300 answers"
    table = parquet.arrow().parquet.read_table(tmp_path / "out.parquet").to_pylist()
    assert [row["attribute"] for row in table] == [row["attribute"] for row in rows]
    assert [row["value"] for row in table][-2:] == [None, None]


def test_where_all_is_hidden_the_error_says_what_is_needed(tmp_path: Path) -> None:
    path = collected(tmp_path / "few.db", FEW, few_reports()[:200])
    told = murmur("estimate", path, code=2).problem
    assert "nothing is shown about fewer than 300, and an attribute needs as many" in told


def test_an_attribute_of_which_no_level_has_enough_is_hidden() -> None:
    text = FEW + "[levels]\nhigh = 0.5\nlow = 1.0\n"
    people, asked = 1500, campaign(text)
    answers = {"age": [38] * people, "phone": ["ios"] * people, "shape": [0.3] * people}
    columns = asked.encode(answers, seeded_rng(1))
    picked = np.array(["high", "low"])[np.arange(people) % 2]
    found = reading(asked, asked.tally(asked.privatize(columns, seeded_rng(2), picked)))
    shape = next(one for one in found.attributes if one.name == "shape")
    assert [one.item for one in found.figures if one.attribute == "shape"] == []
    assert shape.hidden
    assert shape.note == "no level has 300 answers"


@pytest.mark.slow
def test_a_collector_says_the_same_over_http(tmp_path: Path, few: Path) -> None:
    with collectors.running(tmp_path / "http.db", FEW) as collector:
        body = report.to_binary(campaign(FEW).form, new_ids(905, seeded_rng(3)), few_reports())
        path = "/v1/campaigns/few"
        kind = {"content-type": report.BINARY}
        assert collector.ask("POST", f"{path}/reports", body, kind).status == 200
        found = collector.get(f"{path}/estimates").json
        assert found == json.loads(murmur("estimate", few, "--json").stdout)
        rows = csv.DictReader(
            io.StringIO(collector.get(f"{path}/estimates?format=csv").body.decode())
        )
        assert [row["n"] for row in rows if row["value"] == ""] == ["", ""]
        at_once = collector.get(f"{path}/estimates?together=2").json["estimates"]
        assert "over all 3 labels (Bonferroni)" in at_once[0]["note"]
        assert at_once[0]["high"] > found["estimates"][0]["high"]
        for wrong in ("x", "-1", "", "1" * 10):
            assert collector.get(f"{path}/estimates?together={wrong}").problem == "bad-parameter"


# --- long lists ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_long_lists_are_cut_to_the_largest_and_the_rest_is_summed(long: Path) -> None:
    text = murmur("estimate", long).stdout
    assert "and 4,980 more" in words(text)
    assert "t0000" in text
    assert "over all 5,000 labels (Bonferroni)" in text
    assert "~ 0: not distinguishable from 0" in text
    every = json.loads(murmur("estimate", long, "--json").stdout)["estimates"]
    assert len(every) == TOWNS  # machines get all of them, unless they say how many
    assert not every[0]["note"]
    top = json.loads(murmur("estimate", long, "--json", "--top", "7").stdout)["estimates"]
    assert [one["item"] for one in top[7:]] == ["4,993 more"]
    values = [one["value"] for one in top]
    assert values[:7] == sorted((one["value"] for one in every), reverse=True)[:7]
    assert sum(values) == pytest.approx(sum(one["value"] for one in every))
    assert top[7]["low"] is None


def test_intervals_of_a_long_list_are_right_all_at_once(long: Path) -> None:
    asked = campaign(LONG)
    tallies = asked.tally(long_reports())
    (part,) = [tallies[0].mechanism.estimate(tallies[0])]
    low, high = part.simultaneous(0.95)  # type: ignore[union-attr]
    found = reading(asked, tallies, together=select.LONG).figures
    assert [one.low for one in found] == low.tolist()
    assert [one.high for one in found] == high.tolist()
    share = 1 / np.arange(1, TOWNS + 1)
    drawn = np.random.default_rng(3).choice(TOWNS, 20_000, p=share / share.sum())
    truth = np.bincount(drawn, minlength=TOWNS) / 20_000
    assert ((low <= truth) & (truth <= high)).all()
    alone = reading(asked, tallies).figures
    missed = [not one.low <= t <= one.high for one, t in zip(alone, truth, strict=True)]  # type: ignore[operator]
    assert any(missed)  # of 5,000 intervals, each 95%, some miss


def test_shares_that_could_be_nothing_are_marked() -> None:
    text = FEW.replace("cohort = 300", "cohort = 100")
    rows = reports(text, 905, age=[38] * 905, phone=["ios"] * 905, shape=[0.3] * 905)
    found = reading(campaign(text), campaign(text).tally(rows)).figures
    marks = {one.item: indistinct(one) for one in found if one.attribute == "phone"}
    assert marks == {"android": True, "ios": False, "other": True}
    assert not any(indistinct(one) for one in found if one.attribute != "phone")


@pytest.mark.slow
def test_a_plot_of_5000_labels_has_bars_that_can_be_read(long: Path, tmp_path: Path) -> None:
    done = murmur("estimate", long, "--plot", tmp_path / "out.png")
    assert "plot:" in done.stderr
    picture = export_image(tmp_path / "out.png")
    assert picture.shape[0] < 2000
    assert (picture.mean(axis=2) > 0.9).mean() > 0.7  # it is not black
    with closing(open_source(str(long))) as source:
        (axes,) = draw(select.largest(source.estimates("participants", 0.95))).axes
    assert len(axes.patches) == select.TOP
    assert axes.get_yticklabels()[0].get_text() == "t0000"
    assert "and 4,980 more labels" in axes.get_title()


def export_image(path: Path) -> np.ndarray[Any, Any]:
    from matplotlib.image import imread

    return np.asarray(imread(path))[:, :, :3]


# --- how they look -------------------------------------------------------------------------------


def found_of(text: str, people: int, **answers: Any) -> Estimates:
    asked = campaign(text)
    rows = reports(text, people, **answers)
    read = reading(asked, asked.tally(rows))
    head = (asked.name, 1, asked.digest, people, 0.95, "participants")
    return Estimates(*head, read.figures, read.attributes)


def test_means_are_drawn_on_their_own_scale_and_shares_in_percent() -> None:
    text = FEW.replace("cohort = 300", "cohort = 100")
    found = found_of(text, 905, age=[38] * 905, phone=["ios"] * 905, shape=[0.3] * 905)
    age, phone, shape = draw(found).axes
    low, high = age.get_xlim()
    assert low <= 18 < 98 <= high
    assert high - low < 1.2 * 80
    (mean,) = (one.value for one in found.estimates if one.attribute == "age")
    assert age.get_title().startswith(f"age\nmean {mean:.1f}")
    assert phone.xaxis.get_major_formatter()(0.25) == "25%"
    assert len(phone.patches) == 3
    assert shape.patches[0].get_data().edges[[0, -1]].tolist() == [0, 1]
    hidden = draw(found_of(FEW, 200, age=[38] * 200, phone=["ios"] * 200, shape=[0.3] * 200)).axes
    assert "300 answers on" in hidden[0].texts[0].get_text()


def test_decimals_follow_the_standard_error_and_shares_are_in_percentage_points(few: Path) -> None:
    phone = json.loads(murmur("estimate", few, "--json").stdout)["estimates"][0]
    text = words(murmur("estimate", few).stdout)
    assert 0.01 < phone["stderr"] < 0.1  # one to ten percentage points: one decimal has two digits
    half = (phone["high"] - phone["low"]) / 2
    assert f"{100 * phone['value']:.1f}% ± {100 * half:.1f} pp" in text
    assert f"{100 * phone['low']:.1f}% to {100 * phone['high']:.1f}%" in text


# --- selection, versions, files ------------------------------------------------------------------


def test_attributes_and_labels_are_chosen_by_name(few: Path) -> None:
    def items(*where: str) -> list[str]:
        names = [part for name in where for part in ("--where", name)]
        found = json.loads(murmur("estimate", few, "--json", *names).stdout)
        shown = [f"{one['attribute']}={one['item']}" for one in found["estimates"]]
        return shown + [one["name"] for one in found["attributes"] if one["hidden"]]

    assert items("phone") == ["phone=android", "phone=ios", "phone=other"]
    assert items("phone=i*", "phone=other") == ["phone=ios", "phone=other"]
    assert items("*=ios") == ["phone=ios", "age", "shape"]
    assert items("age") == ["age"]
    assert items("s*", "phone=ios") == ["phone=ios", "shape"]
    murmur("estimate", few, "--where", "phone=nokia", code=2)
    told = murmur("estimate", few, "--where", "fone", code=2).problem
    assert "no attribute or label is called 'fone'; there is age, phone, shape" in told


def test_earlier_versions_are_read_by_number(tmp_path: Path) -> None:
    path = collected(tmp_path / "few.db", FEW, few_reports())
    other = FEW.replace("98", "99")
    collected(path, other, reports(other, 10, age=[1] * 10, phone=["ios"] * 10, shape=[0] * 10), 4)
    assert "nothing is shown about fewer" in murmur("estimate", path, code=2).problem
    found = json.loads(murmur("estimate", path, "--version", "1", "--json").stdout)
    assert (found["version"], found["people"]) == (1, 315)
    told = murmur("estimate", path, "--version", "3", code=2).problem
    assert "few has no version 3; this store has 1, 2" in told
    address = "http://127.0.0.1:1/v1/campaigns/few"
    assert "read from its store" in murmur("estimate", address, "--version", "1", code=2).problem


def test_an_earlier_version_is_no_way_around_a_cohort_that_was_raised(tmp_path: Path) -> None:
    path = collected(tmp_path / "few.db", FEW, few_reports())
    with closing(open_store(path)) as store:
        serve(store, campaign(FEW.replace("cohort = 300", "cohort = 1000")))
    for version in ("1", "2"):
        told = murmur("estimate", path, "--version", version, code=2).problem
        assert "fewer than 1,000" in told


@pytest.mark.slow
def test_the_ending_of_a_file_says_its_form(few: Path, tmp_path: Path) -> None:
    names = ("json", "csv", "parquet", "png", "svg", "txt")
    options = [part for name in names for part in ("-o", tmp_path / "out" / f"f.{name}")]
    murmur("estimate", few, *options)
    out = {path.suffix: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    assert sorted(out) == sorted(f".{name}" for name in names)  # and nothing else is left there
    found = json.loads(out[".json"])
    assert found == json.loads(murmur("estimate", few, "--json").stdout)
    assert out[".csv"].decode() == murmur("estimate", few, "--csv", "-").stdout
    assert out[".png"].startswith(b"\x89PNG")
    assert b"<svg" in out[".svg"]
    assert out[".txt"].decode() == murmur("estimate", few).stdout
    for wrong, why in (
        ("x.doc", "the ending says in which form"),
        (".", "got ."),
        ("/proc/x/y.csv", "cannot write"),
    ):
        assert why in murmur("estimate", few, "-o", wrong, code=2).problem


def test_a_file_that_was_there_is_replaced_whole_or_not_at_all(few: Path, tmp_path: Path) -> None:
    there = tmp_path / "out.csv"
    there.write_text("before")
    murmur("estimate", few, "-o", there, "--where", "nothing", code=2)
    assert there.read_text() == "before"
    linked = tmp_path / "linked"
    linked.write_text("mine")
    there.unlink()
    there.symlink_to(linked)
    murmur("estimate", few, "-o", there)
    assert linked.read_text() == "mine"
    assert not there.is_symlink()


# --- status --------------------------------------------------------------------------------------


def test_status_says_how_far_each_attribute_is(few: Path) -> None:
    text = words(murmur("status", few).stdout)
    assert "age hidden from 300 on" in text
    assert "phone 315 yes" in text
    found = json.loads(murmur("status", few, "--json").stdout)
    assert [(one["attribute"], one["answers"], one["needed"]) for one in found["attributes"]] == [
        ("age", 0, 300),
        ("phone", 315, 300),
        ("shape", 0, 300),
    ]


def test_status_counts_by_level(tmp_path: Path) -> None:
    text = FEW + "[levels]\nhigh = 0.5\nlow = 1.0\n"
    asked, people = campaign(text), 6000
    answers = {"age": [38] * people, "phone": ["ios"] * people, "shape": [0.3] * people}
    picked = np.array(["high", "low", "low"])[np.arange(people) % 3]
    rows = asked.privatize(asked.encode(answers, seeded_rng(1)), seeded_rng(2), picked)
    path = collected(tmp_path / "levels.db", text, rows)
    found = json.loads(murmur("status", path, "--json").stdout)["attributes"]
    assert sum(one["levels"]["high"] for one in found) == 2000
    assert all(sum(one["levels"].values()) == one["answers"] for one in found)
    assert "attribute high low answers shown" in words(murmur("status", path).stdout).replace(
        "┃", ""
    )


def test_the_last_report_is_known_to_the_hour_and_no_finer(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, rows = campaign(FEW), few_reports()
    ids = new_ids(len(rows), seeded_rng(3))
    moment = 1_700_000_000 // 3600 * 3600

    def send(some: slice, at: float) -> None:
        monkeypatch.setattr(base.time, "time", lambda: at)
        body = report.to_binary(asked.form, ids[some], rows[some])
        with closing(open_store(store_url)) as store:
            served = serve(store, asked)
            commit(store, [Batch(served, report.decode(asked.form, body, report.BINARY))])

    def last() -> str:
        with closing(open_source(store_url)) as source:
            return source.status().last_report

    with closing(open_store(store_url)) as store:
        serve(store, asked)
    assert last() == ""
    send(slice(0, 10), moment + 1234.5)
    assert last() == "2023-11-14T22:00Z"
    send(slice(0, 10), moment + 3 * 3600)  # nothing that is new
    assert last() == "2023-11-14T22:00Z"
    send(slice(10, 20), moment + 7200 + 3599)
    assert last() == "2023-11-15T00:00Z"
    send(slice(20, 30), moment - 5000)  # a clock that went back
    assert last() == "2023-11-15T00:00Z"
    with closing(open_store(store_url)) as store:
        (hour,) = store.execute("SELECT last_hour FROM collections")[0]
    assert hour == moment // 3600 + 2


def test_a_distribution_is_read_from_the_level_that_tells_most() -> None:
    """Of n and epsilon: many at the low level, or few at the high one."""
    asked = campaign(f"{FEW}[levels]\nhigh = 1.0\nlow = 0.25\n")
    high, low = asked.laws_of(2)
    rng = seeded_rng(3)
    for many, few in ((3000, 500), (9000, 500)):
        tallies = [
            law.tally(law.privatize(np.full(n, 0.3), rng)) for law, n in ((low, many), (high, few))
        ]
        tells = max(tallies, key=lambda tally: tally.n * tally.mechanism.budget**2)
        assert {figure.n for figure in bins(asked.questions[2], tallies)} == {tells.n}
