"""The library in an analyst's hands: tables, notebooks, plots, own units, results in two lines."""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas
import pyarrow
import pytest

import murmuration
from murmuration import figures, mechanism, seeded_rng
from murmuration.collector.commit import Batch, commit
from murmuration.collector.files import export
from murmuration.collector.merging import known
from murmuration.collector.publish import serve, served
from murmuration.collector.store import Store, open_store
from murmuration.errors import (
    CohortError,
    FormatError,
    InputError,
    MismatchError,
    ParameterError,
)
from murmuration.mechanisms.domain import described
from murmuration.mechanisms.tally import Tally, sealed, unsealed
from murmuration.results import table
from murmuration.results.estimate import About, AnsweredEstimate, FrequencyEstimate
from murmuration.results.figure import Figure, Figures
from murmuration.wire import report
from murmuration.wire.ids import new_ids
from murmuration.wire.report import Incoming, Upload
from tests.support.collectors import BINARY, CAMPAIGNS, running
from tests.support.places import ROOT

NOTEBOOK = ROOT / "docs" / "notebook.ipynb"
EVIL = "<img src=x onerror=alert(1)>"
PHONES = ["android", "ios", EVIL]
SURVEY = """\
name = "survey"
purpose = "How people are"
epsilon = 2.0
people = 3000
cohort = 100

[[attributes]]
name = "age"
low = 18
high = 98
unit = "years"
mechanism = "duchi"

[[attributes]]
name = "phone"
kind = "category"
labels = ["android", "ios", "other"]
mechanism = "grr"
"""
COLUMNS = [
    *("attribute", "item", "value", "stderr", "low", "high"),
    *("n", "epsilon", "unit", "note", "period", "liars", "permanent"),
]


@pytest.fixture(autouse=True)
def _no_screen() -> None:
    mpl.use("Agg")


@pytest.fixture(scope="module")
def people() -> pandas.DataFrame:
    draw = np.random.default_rng(1)
    ages = draw.uniform(18, 98, 6000)
    return pandas.DataFrame({"id": range(6000), "phone": draw.choice(PHONES, 6000), "age": ages})


@pytest.fixture(scope="module")
def found(people: pandas.DataFrame) -> Any:
    both = mechanism("sampled", epsilon=2.0, units={"age": (18, 98), "phone": PHONES})
    return both.estimate(both.tally(both.privatize(people, seeded_rng(1))))


def shares(k: int) -> FrequencyEstimate:
    value = np.linspace(0, 2 / k, k)
    return FrequencyEstimate(value, np.full(k, 0.01), 1000, 1.0, About.PARTICIPANTS)


# --- tables --------------------------------------------------------------------------------------


def test_a_result_is_a_pandas_table_with_labels_as_rows(found: Any) -> None:
    frame = found.to_pandas()
    assert list(frame.columns) == COLUMNS
    assert list(frame["attribute"]) == ["age", "phone", "phone", "phone"]
    assert list(frame["item"]) == ["mean", *PHONES]
    assert frame.loc[0, "value"] == found["age"].value
    assert frame.loc[0, "n"] + frame.loc[1, "n"] == 6000
    low, high = found["phone"].interval(0.8)
    assert list(found.to_pandas(confidence=0.8)["low"][1:]) == low.tolist()
    assert list(found.to_pandas(confidence=0.8)["high"][1:]) == high.tolist()


def test_a_result_is_an_arrow_stream(found: Any) -> None:
    """What polars, Arrow and pandas take: `polars.DataFrame(result)` goes by the same method."""
    taken = pyarrow.table(found)
    assert taken.column_names == COLUMNS
    assert taken["item"].to_pylist() == ["mean", *PHONES]
    assert pyarrow.table(found["phone"])["value"].to_pylist() == found["phone"].value.tolist()
    rows = found.figures()
    for given in (found, rows):
        assert pandas.DataFrame.from_arrow(given).equals(found.to_arrow().to_pandas())
    assert pyarrow.table(rows[1:3])["item"].to_pylist() == PHONES[:2]
    assert list(rows[1:]) == rows[1:] != rows


def test_every_kind_of_result_is_a_table() -> None:
    age = mechanism("or-none", epsilon=1.0, units=(18, 98))
    ages = pandas.Series([58.0, None] * 5000)
    answered = age.estimate(age.tally(age.privatize(ages, seeded_rng(1))))
    assert list(answered.to_pandas()["item"]) == ["answered", "mean"]
    optimal = mechanism("optimal", epsilon=1.0, units=(18, 98))
    shape = optimal.distribution(
        optimal.tally(optimal.privatize(np.full(999, 58.0), seeded_rng(1)))
    )
    frame = shape.to_pandas()
    assert (frame["start"].iloc[0], frame["end"].iloc[-1]) == (18, 98)
    plan = murmuration.plan(
        [murmuration.Attribute("age"), murmuration.Attribute("x", k=4)], 1.0, 999
    )
    assert list(plan.to_pandas()["attribute"]) == ["age", "x"]
    assert {"mechanism", "stderr", "loss"} <= set(plan.to_pandas().columns)


def test_what_has_no_standard_error_is_nan_and_not_an_object() -> None:
    some = [("mean", 0.1, 0.0, 0.2), ("0 to 1", None, None, None)]
    rows = [Figure("a", item, 0.1, s, low, high, 100, 1.0) for item, s, low, high in some]
    frame = Figures(rows).to_pandas()
    assert frame["stderr"].dtype == float
    assert frame["low"].isna().tolist() == [False, True]


def test_a_library_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, found: Any) -> None:
    def absent(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(table, "import_module", absent)
    for ask, said in (
        (found.to_pandas, "pip install pandas"),
        (found.to_arrow, r"murmuration-ldp\[arrow\]"),
        (found.plot, r"murmuration-ldp\[plots\]"),
    ):
        with pytest.raises(ParameterError, match=said):
            ask()


def test_a_notebook_shows_labels_as_text(found: Any) -> None:
    page = found._repr_html_()
    assert EVIL not in page
    assert "&lt;img src=x onerror=alert(1)&gt;" in page
    assert "<th>attribute</th>" in page
    long = shares(5000)._repr_html_()
    assert long.count("<tr>") == 1 + table.MOST_ROWS
    assert "4,960 more rows" in long
    assert "<script>" not in Figures([], notes=["<script>"])._repr_html_()


def test_reprs_are_one_line(found: Any) -> None:
    age = mechanism("optimal", epsilon=1.0, units=(18, 98))
    tally = age.tally(age.privatize([58.0] * 200, seeded_rng(1)))
    ends = np.zeros(300)
    answered = AnsweredEstimate(ends, ends, 0.5, 0.1, ends, 100, 1.0, About.PARTICIPANTS)
    results = [found, found[0], found[1], shares(5000), answered, age, found.figures()]
    for result in [*results, age.distribution(tally)]:
        assert "\n" not in repr(result)
        assert len(repr(result)) < 300


# --- plots ---------------------------------------------------------------------------------------


def test_a_mean_is_drawn_on_its_own_scale_and_shares_as_bars(found: Any) -> None:
    age, phone = found.plot()
    low, high = age.get_xlim()
    assert 40 < low < found["age"].interval()[0] < found["age"].interval()[1] < high < 80
    assert len(phone.patches) == 3
    assert [label.get_text() for label in phone.get_yticklabels()] == PHONES
    assert phone.get_title(loc="left") == "phone"
    phone.figure.canvas.draw()


def test_a_plot_takes_and_returns_an_axis(found: Any) -> None:
    from matplotlib.figure import Figure as Picture

    ax = Picture().subplots()
    assert found["age"].plot(ax) is ax
    with pytest.raises(ParameterError, match="one axis is for one attribute"):
        found.plot(ax)
    with pytest.raises(ParameterError, match="no figures"):
        Figures().plot()
    assert found.figures().of("phone").plot().get_xlabel() == "share"


def test_five_thousand_labels_are_the_forty_largest() -> None:
    ax = shares(5000).plot()
    assert len(ax.patches) == 40
    assert ax.get_title(loc="left") == "the 40 largest of 5,000, intervals right all at once"
    assert ax.get_yticklabels()[0].get_text() == "4999"
    low, high = shares(5000).simultaneous()
    assert ax.lines[0].get_xdata() == pytest.approx([low[-1], high[-1]])


def test_what_has_no_ends_and_looks_like_a_formula_is_drawn() -> None:
    inf = float("inf")
    ax = Figures([Figure("$x_", "$^$", 0.1, inf, -inf, inf, 100, 1.0, "share")]).plot()
    ax.figure.canvas.draw()
    many = [Figure(f"a{i}", "mean", 0.1, 0.1, 0.0, 0.2, 100, 1.0) for i in range(41)]
    with pytest.raises(ParameterError, match="too many"):
        Figures(many).plot()


def test_a_distribution_is_drawn_as_steps() -> None:
    age = mechanism("optimal", epsilon=1.0, units=(18, 98))
    ax = age.distribution(age.tally(age.privatize([58.0] * 200, seeded_rng(1)))).plot()
    assert ax.get_xticklabels()[0].get_text() == "18 to 19.25"


# --- what goes in --------------------------------------------------------------------------------


def test_a_series_is_as_good_as_an_array() -> None:
    duchi, sampled = mechanism("duchi", epsilon=1.0), mechanism("sampled", epsilon=1.0, d=2)
    values = np.linspace(-1, 1, 50)
    expected = duchi.privatize(values, seeded_rng(1))
    for given in (
        pandas.Series(values),
        pandas.Series(values, dtype="Float64"),
        pyarrow.array(values),
    ):
        assert (duchi.privatize(given, seeded_rng(1)) == expected).all()
    rows = sampled.privatize([values, values], seeded_rng(1))
    frame = pandas.DataFrame({"a": values, "b": values})
    for given in ([pandas.Series(values), values], frame, pyarrow.table(frame), frame.to_numpy()):
        assert (sampled.privatize(given, seeded_rng(1)) == rows).all()
    items = mechanism("grr", epsilon=1.0, k=3)
    assert len(items.privatize(pandas.Series([0, 1, 2], dtype="Int64"), seeded_rng(1))) == 3


def test_a_campaign_takes_a_table(tmp_path: Path) -> None:
    campaign = loaded(tmp_path)
    answers = {"age": [18.0, 98.0], "phone": ["ios", "other"]}
    expected = campaign.encode(answers, seeded_rng(1))
    for given in (pandas.DataFrame(answers), pyarrow.table(answers)):
        columns = campaign.encode(given, seeded_rng(1))
        assert [column.tolist() for column in columns] == [c.tolist() for c in expected]
    with pytest.raises(InputError, match="got a list of 2"):
        campaign.encode([[18.0], ["ios"]], seeded_rng(1))


class Polars:
    """A frame with the methods of polars that are asked for; polars itself is not installed."""

    def __init__(self, frame: pandas.DataFrame) -> None:
        self.frame = frame
        self.columns = list(frame.columns)

    def get_columns(self) -> list[pandas.Series]:
        return [self.frame[name] for name in self.columns]


def test_a_frame_without_items_is_taken_by_its_columns(people: pandas.DataFrame) -> None:
    both = mechanism("sampled", epsilon=2.0, units={"age": (18, 98), "phone": PHONES})
    one, other = (both.privatize(p, seeded_rng(1)) for p in (people, Polars(people)))
    assert (one == other).all()


def test_an_error_says_what_came_and_what_fits() -> None:
    sampled = mechanism("sampled", epsilon=1.0, d=3)
    column = pandas.Series([0.1, 0.2])
    cases = [
        (sampled, [column, column], r"3 arrays or Series .* got a list of 2 \(Series of float64"),
        (sampled, pandas.DataFrame({"a": column}), "got a DataFrame of 1 columns"),
        (sampled, [[0.1], [0.1, 0.2]], r"got a list of 2 \(a list of 1; a list of 2\)"),
        (sampled, [column, column, column[:1]], "got lengths 1, 2"),
        (mechanism("duchi", 1.0), pandas.Series(["secret"]), r"real numbers .* got Series of"),
        (mechanism("duchi", 1.0), pandas.DataFrame({"a": column}), "got a DataFrame .* 2-d"),
        (mechanism("duchi", 1.0), [0.1, float("nan")], "1 of 2 values are missing"),
        (mechanism("grr", 1.0, k=3), [[1], [1, 2]], r"items 0 to 2; got a list of 2"),
        (mechanism("grr", 1.0, k=3), pandas.Series(["secret"]), "whole numbers, items 0 to 2"),
    ]
    for law, values, said in cases:
        with pytest.raises(InputError, match=said) as told:
            law.privatize(values, seeded_rng(1))
        assert "secret" not in str(told.value)
    assert described("secret") == "str"


def test_a_tuple_is_named_by_the_columns_of_a_table(people: pandas.DataFrame) -> None:
    law = mechanism("sampled", epsilon=2.0, d=2)
    frame = pandas.DataFrame({"a": people["age"] / 98, "b": people["age"] / 98})
    found = law.estimate(law.tally(law.privatize(frame, seeded_rng(1))))
    assert isinstance(found, murmuration.TupleEstimate)
    assert list(found.to_pandas()["attribute"]) == ["0", "1"]
    for names in (frame, pyarrow.table(frame), ["a", "b"]):
        named = found.named(names)
        assert (list(named.to_pandas()["attribute"]), named["b"]) == (["a", "b"], found[1])
    for wrong in (["a"], ["a", "a"], "ab"):
        with pytest.raises(ParameterError, match="names"):
            found.named(wrong)
    with pytest.raises(KeyError, match="names are a, b"):
        found.named(frame)["c"]
    with pytest.raises(ParameterError, match="3 items need 3 labels"):
        shares(3).labelled(["a"])


# --- own units -----------------------------------------------------------------------------------


def test_units_go_in_and_come_out_and_leave_the_law_alone() -> None:
    ages, law = mechanism("optimal", epsilon=1.0, units=(18, 98)), mechanism("optimal", epsilon=1.0)
    assert isinstance(ages, murmuration.InUnits)
    assert ages.mechanism == law
    assert ages.mechanism.fingerprint == law.fingerprint
    assert ages.loss() == law.loss()
    years = np.random.default_rng(1).uniform(18, 98, 20_000)
    reports = ages.privatize(years, seeded_rng(2))
    assert (reports == law.privatize(2 * ((years - 18) / 80) - 1, seeded_rng(2))).all()
    found = ages.estimate(ages.tally(reports))
    expected = law.estimate(law.tally(reports))
    assert isinstance(found, murmuration.Estimate)
    assert isinstance(expected, murmuration.Estimate)
    assert found == expected.scaled(18, 98)
    assert abs(found.value - years.mean()) < 4 * found.stderr


def test_what_is_outside_is_refused_or_clamped_and_counted() -> None:
    ages = mechanism("duchi", epsilon=1.0, units=(18, 98))
    with pytest.raises(
        InputError, match=r"values are 18 to 98; 2 of 3 are not .*position 1"
    ) as told:
        ages.privatize([18, 120.5, 7], seeded_rng(1))
    assert "120.5" not in str(told.value)
    clamped = mechanism("duchi", epsilon=1.0, units=(18, 98), outside="clamp")
    assert clamped.encode([18, 120.5, 7])[1] == {"": 2}
    with pytest.warns(UserWarning, match="2 of 3 values were not 18 to 98"):
        clamped.privatize([18, 120.5, 7], seeded_rng(1))
    both = mechanism("sampled", epsilon=1.0, units={"a": (0, 1), "b": (0, 1)}, outside="clamp")
    values, counts = both.encode({"a": [0, 2, 3], "b": [1, 1, -1]})
    assert ([v.tolist() for v in values], counts) == ([[-1, 1, 1], [1, 1, -1]], {"a": 2, "b": 1})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        both.privatize([[0, 2, 3], [1, 1, -1]], seeded_rng(1))
    assert [str(one.message)[:7] for one in caught] == ["a: 2 of", "b: 1 of"]
    with pytest.raises(InputError, match=r"1 of 2 values are missing"):
        clamped.privatize([18, float("nan")], seeded_rng(1))


def test_labels_are_units_of_items() -> None:
    phones = mechanism("auto", epsilon=2.0, units=PHONES)
    series = pandas.Series(PHONES * 2000, dtype="category")
    found = phones.estimate(phones.tally(phones.privatize(series, seeded_rng(1))))
    assert list(found.to_pandas()["item"]) == PHONES
    with pytest.raises(InputError, match="not among the 3 labels") as told:
        phones.privatize(["secret"], seeded_rng(1))
    assert "secret" not in str(told.value)


def test_edges_are_in_units_too() -> None:
    graded = mechanism("graded-bit", epsilon=(1.0, 0.5), edges=(100_000,), units=(0, 200_000))
    assert graded.mechanism == mechanism("graded-bit", epsilon=(1.0, 0.5), edges=(0.0,))


def test_no_answer_has_units_too() -> None:
    """Scaling S by N keeps Fieller's interval: that of the mean, in the same place."""
    age, law = mechanism("or-none", epsilon=1.0, units=(18, 98)), mechanism("or-none", epsilon=1.0)
    ages = pandas.Series([58, None, 98, None, 40] * 2000, dtype="Int64")
    tally = age.tally(age.privatize(ages, seeded_rng(1)))
    found, plain = age.estimate(tally), law.estimate(tally)
    assert isinstance(found, AnsweredEstimate)
    assert isinstance(plain, AnsweredEstimate)
    assert found.among == pytest.approx(58 + 40 * plain.among)
    for own, other in zip(found.among_interval(), plain.among_interval(), strict=True):
        assert own == pytest.approx(58 + 40 * other)
    assert found.among_stderr == pytest.approx(40 * plain.among_stderr)


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("optimal", {"units": (98, 18)}, "low < high"),
        ("optimal", {"units": (18, float("inf"))}, "finite"),
        ("optimal", {"units": "years"}, r"\(low, high\) or a list of labels"),
        ("optimal", {"units": (18, "x")}, r"\(low, high\) or a list of labels"),
        ("optimal", {"units": ["a", "b"]}, "parameters are"),
        ("grr", {"units": (18, 98), "k": 3}, "takes one of k items"),
        ("grr", {"units": ["a", "b"], "k": 3}, "takes one of k items"),
        ("sampled", {"units": (18, 98), "d": 2}, "takes several attributes"),
        ("sampled", {"units": {"a": (0, 1)}, "d": 2}, "takes several attributes"),
        ("privunit", {"units": {"a": (0, 1), "b": (0, 1)}, "d": 2}, "takes a vector"),
        ("auto", {"units": {"a": (0, 1)}}, "for one attribute"),
        ("optimal", {"units": (18, 98), "outside": "drop"}, "'refuse' or 'clamp'"),
        ("optimal", {"outside": "clamp"}, "give units"),
        ("graded-bit", {"units": ["a", "b"], "edges": (1,)}, "edges are those of a number"),
    ],
)
def test_units_that_are_none(name: str, given: dict[str, Any], said: str) -> None:
    with pytest.raises(ParameterError, match=said):
        mechanism(name, epsilon=1.0, **given)


def test_columns_are_found_by_their_names(people: pandas.DataFrame) -> None:
    both = mechanism("sampled", epsilon=2.0, units={"age": (18, 98), "phone": PHONES})
    with pytest.raises(InputError, match="no column is called phone"):
        both.privatize(people[["age"]], seeded_rng(1))
    with pytest.raises(InputError, match=r"columns age, phone, or a list of 2 .* got ndarray"):
        both.privatize(np.zeros((2, 2)), seeded_rng(1))
    with pytest.raises(InputError, match=r"^age: values are 18 to 98"):
        both.privatize(people.assign(age=7), seeded_rng(1))


def test_a_campaign_file_has_no_such_units(tmp_path: Path) -> None:
    """A law of a campaign is a mechanism: units there are low and high of the attribute."""
    file = tmp_path / "campaign.toml"
    file.write_text(SURVEY.replace('mechanism = "duchi"', 'mechanism = "duchi"\nunits = [18, 98]'))
    with pytest.raises(murmuration.MurmurationError, match="units"):
        murmuration.load(file)


# --- results in two lines ------------------------------------------------------------------------


def loaded(folder: Path) -> murmuration.SurveyCampaign:
    file = folder / "campaign.toml"
    file.write_text(SURVEY)
    return murmuration.load(file)


def sent(campaign: murmuration.SurveyCampaign, n: int) -> tuple[Any, Any]:
    answers = {"age": [58.0] * n, "phone": ["ios"] * n}
    rng = seeded_rng(1)
    return new_ids(n), campaign.privatize(campaign.encode(answers, rng), rng)


def filled(folder: Path, n: int = 1000) -> tuple[Path, murmuration.SurveyCampaign, Any, Any]:
    """A store with the reports of n people, closed."""
    campaign, where = loaded(folder), folder / "survey.db"
    ids, rows = sent(campaign, n)
    stored(where, campaign, ids, rows).close()
    return where, campaign, ids, rows


def stored(where: Path, campaign: murmuration.SurveyCampaign, ids: Any, rows: Any) -> Store:
    store = open_store(where)
    upload = Upload(ids, rows, np.zeros(len(ids), dtype=np.uint8))
    commit(store, [Batch(serve(store, campaign), Incoming([], upload))])
    return store


def test_the_estimates_of_a_store_in_two_lines(tmp_path: Path) -> None:
    where, campaign, _, rows = filled(tmp_path)
    found = murmuration.open(where).estimates()
    assert found == figures(campaign, campaign.tally(rows))
    assert isinstance(found, Figures)
    assert list(found.to_pandas()["item"]) == ["mean", "android", "ios", "other"]
    narrow = murmuration.open(str(where), "survey").estimates("population", confidence=0.5)
    assert narrow[0].high < found[0].high
    assert murmuration.open(f"sqlite:///{where}").status().people == 1000


def test_figures_are_chosen_by_name_and_printed_as_a_table(tmp_path: Path) -> None:
    where, *_ = filled(tmp_path, 1000)
    opened = murmuration.open(where)
    assert [one.item for one in opened.estimates(where="phone=ios")] == ["ios"]
    assert opened.estimates(where=["age"]).attributes == ["age"]
    with pytest.raises(ParameterError, match="no attribute or label is called 'agee'"):
        opened.estimates(where="agee")
    head, *rows = str(opened.estimates()).splitlines()
    assert head.split() == ["attribute", "item", "value", "low", "high", "n", "unit"]
    assert [row.split()[:2] for row in rows[:2]] == [["age", "mean"], ["phone", "android"]]
    with pytest.raises(ParameterError, match="has no periods"):
        opened.changes()


def test_what_is_hidden_is_said(tmp_path: Path) -> None:
    """Each of 190 people is asked about one of two attributes: 100 are not asked about both."""
    where, campaign, _, rows = filled(tmp_path, 190)
    found = murmuration.open(where).estimates()
    hidden = {"age", "phone"} - set(found.attributes)
    assert len(hidden) == 1
    note, waiting = found.notes
    assert (note,) == figures(campaign, campaign.tally(rows)).notes
    assert re.match("[0-9]+ more reports are stored and in no figure yet", waiting)
    assert note.startswith(f"{hidden.pop()}: hidden: ")
    assert note.endswith("fewer than 100 answers")
    assert note in repr(found)
    assert note in found._repr_html_()
    assert found.to_pandas().attrs["notes"] == (note, waiting)


def test_nothing_stays_open_and_nothing_is_written(tmp_path: Path) -> None:
    where, *_ = filled(tmp_path)
    before = where.read_bytes()
    opened = murmuration.open(where)
    opened.estimates()
    assert where.read_bytes() == before
    where.rename(tmp_path / "elsewhere.db")
    with pytest.raises(ParameterError, match="there is no store"):
        opened.estimates()


def test_what_cannot_be_opened_says_so_at_once(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="there is no store"):
        murmuration.open(tmp_path / "nowhere.db")
    where, *_ = filled(tmp_path, 20)
    with pytest.raises(CohortError):
        murmuration.open(where).estimates()
    secret = murmuration.open("http://127.0.0.1:9/v1/campaigns/x", token="murmur_secret")  # noqa: S106
    assert "murmur_secret" not in repr(secret)


def test_one_mechanisms_tally_is_a_file(tmp_path: Path) -> None:
    law, file = mechanism("subset", epsilon=1.0, k=5), tmp_path / "part.tally"
    tally = law.tally(law.privatize([0, 1, 2, 3, 4] * 100, seeded_rng(1)))
    file.write_bytes(tally.to_bytes())
    assert Tally.from_bytes(tally.to_bytes()) == tally
    assert murmuration.open(file).estimates() == law.estimate(tally).figures()
    with pytest.raises(ParameterError, match="has estimates, only"):
        murmuration.open(file).status()
    several = mechanism("sampled", epsilon=1.0, domains=(0, 3))
    both = several.tally(several.privatize([np.zeros(50), np.zeros(50, int)], seeded_rng(1)))
    assert Tally.from_bytes(both.to_bytes()) == both
    solved = mechanism("optimal", epsilon=1.0).empty().to_bytes()
    changed = solved.replace(b'"fingerprint": "', b'"fingerprint": "0')
    with pytest.raises(FormatError, match="checksum"):
        Tally.from_bytes(changed)
    for parameters in (None, 7, {"epsilon": []}, {"name": "duchi"}, {"epsilon": 1.0, "k": 1 << 40}):
        with pytest.raises((FormatError, ParameterError)):
            Tally.from_bytes(headed(tally, parameters))
    smith = mechanism("bassily-smith", epsilon=1.0, k=4, people=1000).empty()
    with pytest.raises(FormatError, match="cannot be made"):
        Tally.from_bytes(headed(smith, {"epsilon": 1.0, "k": 4, "people": 10**400}))
    with pytest.raises(MismatchError, match="not of"):
        Tally.from_bytes(headed(tally, {"epsilon": 2.0, "k": 5}))


def headed(tally: Tally, parameters: Any) -> bytes:
    """A tally whose head names other parameters, with a checksum that fits."""
    head, body = unsealed(tally.to_bytes())
    return sealed({**head, "parameters": parameters}, body)


def test_a_collectors_tallies_are_a_file(tmp_path: Path) -> None:
    where, campaign, _, rows = filled(tmp_path)
    store, file = open_store(where), tmp_path / "tallies"
    file.write_bytes(known.exported(store, campaign).to_bytes())
    store.close()
    expected = figures(campaign, campaign.tally(rows))
    assert murmuration.open(file, campaign=campaign).estimates() == expected
    assert murmuration.open(file).estimates() == expected
    other = tmp_path / "other.toml"
    other.write_text(SURVEY.replace("epsilon = 2.0", "epsilon = 1.0"))
    with pytest.raises(MismatchError, match="another campaign"):
        murmuration.open(file, campaign=murmuration.load(other)).estimates()


@pytest.mark.slow
def test_the_estimates_of_a_collector_in_two_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And its address for tallies, saved as it is, is the same figures once more."""
    campaign = loaded(tmp_path)
    with running(tmp_path / "survey.db", SURVEY) as collector:
        ids, rows = sent(campaign, 1000)
        answer = collector.send("survey", report.to_binary(campaign.form, ids, rows), BINARY)
        assert answer.status == 200
        expected = figures(campaign, campaign.tally(rows))
        url = collector.collection("survey").url
        for where in (url, url.partition("/v1")[0]):
            assert murmuration.open(where, token=collector.admin).estimates() == expected
        with pytest.raises(ParameterError, match="MURMUR_TOKEN"):
            murmuration.open(url).estimates()
        monkeypatch.setenv("MURMUR_TOKEN", collector.admin)
        assert murmuration.open(url).status().people == 1000
        saved = tmp_path / "tallies"
        saved.write_bytes(collector.get(f"{CAMPAIGNS}/survey/tally", collector.admin).body)
    assert murmuration.open(saved, campaign=campaign).estimates() == expected


# --- exports -------------------------------------------------------------------------------------


def test_an_export_is_read_as_columns(tmp_path: Path) -> None:
    where, campaign, ids, rows = filled(tmp_path)
    store, path = open_store(where, readonly=True), tmp_path / "out.parquet"
    export.write(store, served(store, "survey"), path)
    store.close()
    cells = list(export.read(path))
    assert [(cell.attribute, cell.mechanism.name) for cell in cells] == [
        ("age", "duchi"),
        ("phone", "grr"),
    ]
    counted = [cell.mechanism.tally(cell.reports) for cell in cells]
    assert counted == list(campaign.tally(rows))
    frame = pandas.concat([cell.to_pandas() for cell in cells])
    assert list(frame.columns) == ["id", "attribute", "level", "mechanism", "symbol"]
    assert sorted(frame["id"]) == sorted(bytes(one).hex() for one in ids)
    assert (frame["level"] == "").all()
    assert pyarrow.table(cells[1])["symbol"].to_pylist() == cells[1].reports.tolist()
    again = np.concatenate([part for _, part in export.rows(path)])
    assert list(campaign.tally(again)) == counted


def test_levels_and_rows_of_bits_are_columns_too(tmp_path: Path) -> None:
    file = tmp_path / "campaign.toml"
    text = SURVEY.replace('mechanism = "grr"', 'mechanism = "oue"')
    file.write_text(text + "[levels]\nopen = 1.0\nclose = 0.5\n")
    campaign = murmuration.load(file)
    rng = seeded_rng(1)
    answers = campaign.encode({"age": [58.0] * 400, "phone": ["ios"] * 400}, rng)
    rows = campaign.privatize(answers, rng, levels=["open", "close"] * 200)
    store = stored(tmp_path / "a.db", campaign, new_ids(400), rows)
    export.write(store, served(store, "survey"), tmp_path / "out.parquet")
    store.close()
    cells = list(export.read(tmp_path / "out.parquet"))
    assert {(c.attribute, c.level) for c in cells} == {
        (name, level) for name in ("age", "phone") for level in ("open", "close")
    }
    bits = next(cell for cell in cells if cell.attribute == "phone")
    assert pyarrow.table(bits)["report"].to_pylist() == bits.reports.tolist()
    assert "\n" not in repr(bits)


# --- the notebook --------------------------------------------------------------------------------


def test_the_notebook_runs_from_a_file_to_a_plot(tmp_path: Path, monkeypatch: Any) -> None:
    """Its code cells are run one after the other in one namespace: no Jupyter is needed."""
    monkeypatch.chdir(tmp_path)
    book = json.loads(NOTEBOOK.read_text())
    code = ["".join(cell["source"]) for cell in book["cells"] if cell["cell_type"] == "code"]
    made, *shown = code  # the first cell writes the file that the others go from
    assert "to_csv" in made
    assert len([line for cell in shown for line in cell.splitlines() if line]) <= 10
    assert not any(cell.get("outputs") for cell in book["cells"])
    space: dict[str, Any] = {"__name__": "notebook"}
    for number, cell in enumerate(code):
        exec(compile(cell, f"cell {number}", "exec"), space)  # noqa: S102
    found, truth = space["found"], pandas.read_csv("people.csv")
    assert abs(found["age"].value - truth["age"].mean()) < 4 * found["age"].stderr
    ios = found["phone"].labels.index("ios")
    error = found["phone"].value[ios] - (truth["phone"] == "ios").mean()
    assert abs(error) < 4 * found["phone"].stderr[ios]
    assert "<table>" in found._repr_html_()
    assert [len(ax.patches) for ax in space["axes"]] == [0, 3]
