"""A campaign file: every mistake has its line, and every kind of campaign works end to end."""

from __future__ import annotations

import json
import math
import tomllib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from murmuration.analysis import read
from murmuration.campaign.survey import SurveyCampaign
from murmuration.definition import document as campaign_document
from murmuration.definition.lines import Lines
from murmuration.definition.load import load, parse
from murmuration.errors import CampaignError, PromiseError
from murmuration.exact.randomness import seeded_rng, system_rng
from tests.support.accounts import campaign_of

FILE = """\
# [[attributes]]
name = "well-being"
purpose = "How people are"
epsilon = 1.0

[[attributes]]  # 6
name = "age"
low = 18
high = 98

[[attributes]]  # 11
name = "phone"
kind = "category"
labels = [
    "android",
    "ios",
]
"""
GRADED = """
[[attributes]]
name = "income"
kind = "graded"
low = 0
high = 100
edges = [50]
budgets = [1.0, 0.5]
"""


def changed(old: str, new: str, text: str = FILE) -> str:
    assert old in text
    return text.replace(old, new, 1)


def on_top(line: str) -> str:
    return changed("epsilon = 1.0\n", f"epsilon = 1.0\n{line}\n")


def mistake(text: str) -> CampaignError:
    with pytest.raises(CampaignError) as caught:
        parse(text)
    message = str(caught.value)
    assert message.startswith(f"campaign.toml, line {caught.value.line}: ")
    assert "`" not in message
    assert "\n" not in message
    return caught.value


MISTAKES = {
    "bad toml": (changed("epsilon = 1.0", "epsilon = = 1"), 4, "no TOML"),
    "unclosed": (FILE.removesuffix("]\n"), 16, "no TOML"),
    "twice": (on_top("epsilon = 2"), 5, "no TOML"),
    "number for text": (changed('"well-being"', "5"), 2, "name is text in quotes; this is a whole"),
    "text for number": (changed("low = 18", 'low = "18"'), 8, "low is a number; this is text"),
    "text in labels": (changed('"ios"', "2"), 16, "labels is text in quotes"),
    "one label": (changed('labels = [\n    "android",\n', "labels = [\n"), 14, "2 or more labels"),
    "same labels": (changed('"ios"', '"android"'), 14, "all different"),
    "no labels": (FILE[: FILE.index("labels")], 11, "2 or more labels"),
    "table for list": (changed("labels = [", "labels = 3 #") + "", 15, "no TOML"),
    "float people": (on_top("people = 1.5"), 5, "people is a whole number; this is a number"),
    "true people": (on_top("people = true"), 5, "people is a whole number; this is true or false"),
    "huge people": (on_top(f"people = {10**30}"), 5, "people"),
    "no people": (on_top("people = 0"), 5, "1 or more"),
    "unknown key": (on_top("epsilom = 1"), 5, "there is no key epsilom; epsilon is meant?"),
    "quite unknown key": (on_top("zzz = 1"), 5, "there is no key zzz; there are name, purpose"),
    "unknown key below": (changed("high = 98", "high = 98\nhi = 9"), 10, "there is no key hi"),
    "key in the wrong place": (FILE + "people = 1000\n", 18, "belongs above the first table"),
    "missing purpose": (changed('purpose = "How people are"\n', ""), 1, "needs purpose"),
    "one bracket": (changed("[[attributes]]  # 6", "[attributes]"), 6, "in two brackets"),
    "empty purpose": (changed("How people are", " "), 3, "plain words"),
    "missing name": (changed('name = "age"\n', ""), 6, "this attribute needs name"),
    "empty name": (changed('"age"', '" "'), 7, "an attribute has a name"),
    "name of two lines": (changed('"age"', '"a\\nge"'), 7, "one line of plain text"),
    "label of two lines": (changed('"ios"', '"i\\nos"'), 14, "one line of plain text"),
    "bad name": (changed("well-being", "Well being"), 2, "small letters"),
    "no attributes": (FILE[: FILE.index("[[", 5)], 1, "needs attributes"),
    "attributes not a list": (FILE[: FILE.index("[[", 5)] + "attributes = 1", 6, "is a list"),
    "empty attributes": (FILE[: FILE.index("[[", 5)] + "attributes = []", 6, "at least one"),
    "same names": (changed('"phone"', '"age"'), 12, "two attributes are called 'age'"),
    "low above high": (changed("low = 18", "low = 180"), 8, "low must be below high"),
    "low is nan": (changed("low = 18", "low = nan"), 8, "needs a range"),
    "no low": (changed("low = 18\n", ""), 6, "needs a range"),
    "no high": (changed("high = 98\n", ""), 6, "needs a range"),
    "labels for a number": (changed("high = 98", "high = 98\nlabels = ['a']"), 10, "not labels"),
    "range for a category": (FILE + "high = 3\n", 18, "not a range"),
    "bad kind": (changed('"category"', '"word"'), 13, "kind is one of number, category"),
    "bad outside": (changed("high = 98", "high = 98\noutside = 'drop'"), 10, "outside is 'clamp'"),
    "bad rest": (FILE + "outside = 'other'\n", 18, "the label that stands for all others"),
    "bins of a number": (changed("high = 98", "high = 98\nbins = 9"), 10, "for a distribution"),
    "bad bins": (changed("high = 98", "high = 98\nkind='distribution'\nbins = 0"), 11, "bins"),
    "bad strategy": (on_top("strategy = 'magic'"), 5, "strategy is auto, sample, split"),
    "privunit is no strategy": (on_top("strategy = 'privunit'"), 5, "strategy is auto"),
    "block of labels": (on_top("strategy = 'block'"), 5, "block"),
    "tuple with mechanism": (on_top("strategy = 'harmony'") + "mechanism='grr'", 19, "its own way"),
    "tuple with budgets": (
        on_top("strategy = 'harmony'") + "budgets = [1, 0.5]\n",
        19,
        "its own way",
    ),
    "tuple with levels": (on_top("strategy='harmony'\nlevels = {a = 1}"), 6, "takes no levels"),
    "split-optimal of numbers": (on_top("strategy = 'split-optimal'"), 5, "items only"),
    "bad sample": (on_top("sample = 3"), 5, "sample is 1 to the number of attributes, 2"),
    "sample and split": (on_top("strategy = 'split'\nsample = 2"), 6, "needs strategy = 'sample'"),
    "no epsilon": (changed("epsilon = 1.0\n", ""), 1, "epsilon is missing"),
    "large epsilon": (changed("1.0", "21"), 4, "epsilon must be 0.001 to 20"),
    "no privacy": (changed("1.0", "inf"), 4, "epsilon must be"),
    "zero epsilon": (changed("1.0", "0"), 4, "epsilon must be"),
    "zero epsilon below": (changed("high = 98", "high = 98\nepsilon = 0"), 10, "epsilon must be"),
    "own epsilon above": (changed("high = 98", "high = 98\nepsilon = 2"), 10, "cannot spend 2"),
    "own epsilons above": (
        on_top("strategy = 'split'").replace("high = 98", "high = 98\nepsilon = 0.7")
        + "epsilon = 0.5\n",
        4,
        "come to 1.2 of 1",
    ),
    "nothing left": (
        on_top("strategy = 'split'").replace("high = 98", "high = 98\nepsilon = 1"),
        4,
        "the others have none left",
    ),
    "two of sample": (on_top("sample=2") + "epsilon = 0.8\n", 19, "cannot spend 0.8 with 1 more"),
    "small cohort": (on_top("cohort = 99"), 5, "100 people or more"),
    "naive time": (on_top("opens = 2026-01-01T00:00:00"), 5, "time zone"),
    "date": (on_top("closes = 2026-01-01"), 5, "closes is a time with its zone"),
    "text as time": (on_top("closes = 'soon'"), 5, "closes is a time with its zone"),
    "closes first": (
        on_top("opens = 2026-01-02T00:00:00Z\ncloses = 2026-01-01T00:00:00Z"),
        6,
        "closes before it opens",
    ),
    "level above 1": (on_top("levels = { high = 2, low = 1 }"), 5, "above 0 and at most 1"),
    "level as words": (FILE + "[levels]\nhigh = 0.5\nlow = 'all'\n", 20, "low is 'all'"),
    "level as list": (FILE + "[levels]\nhigh = 0.5\nlow = [1]\n", 20, "this is a list"),
    "no level": (FILE + "[levels]\n", 18, "levels are 1 to"),
    "dotted level": (on_top("levels.high = 1\nlevels.low = 0"), 6, "low is 0"),
    "graded with levels": (FILE + GRADED + "[levels]\nhigh = 0.5\n", 21, "it takes no levels"),
    "graded without edges": (FILE + changed("edges = [50]\n", "", GRADED), 19, "edges are where"),
    "graded without budgets": (
        FILE + changed("budgets = [1.0, 0.5]\n", "", GRADED),
        24,
        "1 edges and 0 budgets",
    ),
    "edges outside": (FILE + changed("[50]", "[500]", GRADED), 24, "between 0 and 100"),
    "edges down": (
        FILE + changed("[50]", "[60, 50]", changed("0.5]", "0.5, 0.2]", GRADED)),
        24,
        "going up",
    ),
    "budgets above": (FILE + changed("[1.0, 0.5]", "[2.0, 0.5]", GRADED), 25, "cannot spend 2"),
    "budget of 0": (FILE + changed("[1.0, 0.5]", "[1.0, 0]", GRADED), 25, "range 2"),
    "graded with epsilon": (FILE + GRADED + "epsilon = 1\n", 26, "has budgets instead"),
    "bad semantics": (FILE + GRADED + "semantics = 'mean'\n", 26, "semantics"),
    "edges of a number": (
        changed("high = 98", "high = 98\nedges = [50]"),
        10,
        "are for a graded attribute",
    ),
    "graded by duchi": (FILE + GRADED + "mechanism = 'duchi'\n", 26, "not for a graded"),
    "no mechanism": (FILE + "mechanism = 'magic'\n", 18, "no such mechanism; there are auto"),
    "grr for a number": (
        changed("high = 98", "high = 98\nmechanism='grr'"),
        10,
        "not for a number",
    ),
    "duchi for labels": (FILE + "mechanism = 'duchi'\n", 18, "duchi is not for a category"),
    "harmony for labels": (FILE + "mechanism = 'harmony'\n", 18, "harmony is not for a category"),
    "memoised once": (FILE + "mechanism = 'memoised'\n", 18, "it needs [repeat]"),
    "duchi for a distribution": (
        changed("high = 98", "high = 98\nkind = 'distribution'\nmechanism = 'duchi'"),
        11,
        "too few symbols",
    ),
    "parameters of auto": (FILE + "parameters = { p = 1 }\n", 18, "need a mechanism by name"),
    "unknown parameters": (
        FILE + "mechanism='grr'\nparameters = { p = 1 }\n",
        19,
        "parameters are",
    ),
    "epsilon as parameter": (
        FILE + "mechanism='grr'\n[attributes.parameters]\nepsilon = 1\n",
        20,
        "but by keys of the file",
    ),
    "bad parameter": (
        changed("high = 98", "high = 98\nmechanism = 'piecewise'\nparameters.t = [1, 2]"),
        11,
        "age: ",
    ),
    "accept_loss for nothing": (on_top("accept_loss = 'all'"), 5, "none does"),
    "repeated budgets": (
        FILE + "budgets = [1, 0.5]\n[repeat]\npermanent = 2\nrounds = 9\n",
        18,
        "one budget for all of its labels",
    ),
    "repeated distribution": (
        FILE.replace("low = 18", "kind = 'distribution'\nlow = 18")
        + "[repeat]\npermanent = 2\nrounds = 9\n",
        8,
        "a category or a number",
    ),
    "infinite lifetime": (on_top("lifetime = inf"), 5, "above 0"),
    "short lifetime": (on_top("lifetime = 0.5"), 5, "this limit would allow none"),
    "bad upload": (on_top("upload = 'all'"), 5, "upload is one of open, token"),
    "origins as text": (on_top("origins = 'https://app.example'"), 5, "origins is a list"),
    "any origin": (on_top("origins = ['*']"), 5, "*: an origin is https://HOST"),
    "origin with a path": (on_top("origins = ['https://app.example/']"), 5, "without a path"),
    "origin in capitals": (on_top("origins = ['https://App.example']"), 5, "in small letters"),
    "origin with the port": (on_top("origins = ['https://a.example:443']"), 5, "leave the usual"),
    "plain origin": (
        on_top("origins = [\n'https://app.example',\n'http://app.example']"),
        7,
        "not encrypted",
    ),
    "odd host": (on_top("origins = ['https://-a.example']"), 5, "-a.example is not a valid host"),
    "odd address": (on_top("origins = ['https://1.2.3']"), 5, "1.2.3 is not a valid host"),
    "long label": (
        changed(
            "high = 98",
            "high = 98\n[[attributes]]\nname = 'x'\nkind = 'category'\nlabels = [\n'a',\n'"
            + "b" * 501
            + "']",
        ),
        15,
        "labels: it has 501 characters, and devices read 500 at most",
    ),
    "long name of a level": (FILE + f"[levels]\n{'x' * 501} = 1\n", 18, "500 characters at most"),
    "same origins": (
        on_top("origins = ['https://a.b', 'https://a.b']"),
        5,
        "must all be different",
    ),
}


@pytest.mark.parametrize(("text", "line", "words"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_has_its_line(text: str, line: int, words: str) -> None:
    found = mistake(text)
    assert (found.line, words in str(found)) == (line, True), found
    assert not found.also  # one mistake is one message
    assert not isinstance(found, PromiseError)


REPEATED = """\
name = "again"
purpose = "How people travel"
epsilon = 1.0
attributes = [{ name = "way", kind = "category", labels = ["bus", "bike", "foot"] }]
[repeat]
"""


@pytest.mark.parametrize(
    ("rest", "line", "words"),
    [
        ("", 5, "repeat needs permanent"),
        ("permanent = 1\nrounds = 9", 6, "more than epsilon"),
        ("permanent = 50\nrounds = 9", 6, "0.001 to 20"),
        ("permanent = 2\nrounds = 1", 7, "2 or more"),
        ("permanent = 2\nrounds = 9\nvalues = 0", 8, "1 or more"),
        ("permanent = 2\nvalue = 1", 7, "values is meant?"),
    ],
)
def test_mistakes_in_repeat(rest: str, line: int, words: str) -> None:
    found = mistake(REPEATED + rest)
    assert (found.line, words in str(found)) == (line, True), found


def test_a_broken_promise_is_refused_and_not_a_mistake() -> None:
    dct = changed("high = 98", "high = 98\nmechanism = 'dct'")
    found = mistake(dct)
    assert isinstance(found, PromiseError)
    assert found.line == 10
    sentence = str(found).partition('accept_loss = "')[2].removesuffix('"')
    wrong = mistake(changed("epsilon = 1.0", "epsilon = 1.0\naccept_loss = 'whatever'", dct))
    assert isinstance(wrong, PromiseError)
    assert wrong.line == 5
    accepted = parse(changed("epsilon = 1.0", f"epsilon = 1.0\naccept_loss = '{sentence}'", dct))
    rows = accepted.privatize(
        accepted.encode({"age": [30], "phone": ["ios"]}, system_rng()), system_rng()
    )
    assert accepted.form.valid(rows).all()
    assert np.isinf(accepted.loss().epsilon)


def test_a_broken_strategy_is_refused_at_its_line() -> None:
    numbers = on_top("strategy = 'duchi-multi-published'")
    numbers = numbers[: numbers.index("[[attributes]]  # 11")] + "[[attributes]]\n"
    found = mistake(numbers + "name = 'height'\nlow = 100\nhigh = 200\n")
    assert isinstance(found, PromiseError)
    assert found.line == 5


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            'attributes = [{ name = "a", low = 0, high = 1 },\n { name = "b", low = 2, high = 1 }]',
            6,
        ),
        ('attributes = [\n  { name = "a", low = 0, high = 1 }, # ]\n  { name = "b" }]', 7),
        ('[[attributes]]\nname = "[[attributes]]"\nlow = 0\nhigh = -1', 7),
        (
            '[[attributes]]\nname = "a"\nunit = """\n[[attributes]]\nlow = 1"""\nlow = 1\nhigh = 0',
            10,
        ),
        ("# [[attributes]]\n# low = 9\n[[attributes]]\nname='a'\n'low' = 1\nhigh = 0", 9),
        ('[[ attributes ]]\r\nname = "a"\r\n"low" = 1\r\nhigh = 0', 7),
        ("[[attributes]]\nname='a'\nunit='''a\n''' # low = 1\nlow = 1\nhigh = 0", 9),
    ],
)
def test_lines_are_found_however_it_is_written(text: str, line: int) -> None:
    found = mistake(f'name = "a"\npurpose = "b"\nepsilon = 1\n\n{text}')
    assert found.line == line, found


def test_no_text_file_and_no_file(tmp_path) -> None:
    path = tmp_path / "campaign.toml"
    with pytest.raises(CampaignError, match="no such file"):
        load(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(CampaignError, match="not a text file"):
        load(path)
    path.write_text("\ufeff" + FILE, encoding="utf-8")
    assert load(path).digest == campaign_of(FILE).digest


ODD = ("0", "-1", "1.5", "nan", "inf", "1e308", "9" * 30, "true", "''", "'x'", "[]", "[1]", "['a']")
ODD += ("[[1]]", "{}", "{ a = 1 }", "{ a = [1] }", "1979-05-27", "1979-05-27T07:32:00Z", "07:32:00")
WHOLE = """name = "a"
purpose = "b"
epsilon = 1.0
people = 1000
opens = 2026-01-01T00:00:00Z
closes = 2026-02-01T00:00:00Z
cohort = 100
lifetime = 2.0
strategy = "auto"
sample = 1
levels = { high = 0.5, low = 1 }
keep_reports = true
upload = "open"
accept_loss = "none"
repeat = { permanent = 2.0, rounds = 3 }

[[attributes]]
name = "n"
kind = "number"
low = 0
high = 1
unit = "u"
outside = "clamp"
mechanism = "piecewise"
parameters = { t = "sub" }
epsilon = 0.5
bins = 64
edges = [0.5]
budgets = [1, 0.5]
semantics = "max"
labels = ["a", "b"]
"""
BASES = {
    "number": ("labels", "edges", "budgets", "semantics", "levels", "repeat", "accept_loss"),
    "category": ("low", "high", "outside", "mechanism", "parameters", "edges", "budgets", "levels"),
    "graded": ("labels", "mechanism", "parameters", "epsilon", "levels", "repeat", "accept_loss"),
    "distribution": ("labels", "mechanism", "parameters", "edges", "budgets", "repeat"),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", BASES)
def test_nothing_but_a_mistake_comes_of_an_odd_value(kind: str) -> None:
    lines = WHOLE.replace('kind = "number"', f'kind = "{kind}"').splitlines()
    left_out = (*BASES[kind], "accept_loss") if kind != "graded" else BASES[kind]
    lines = [line for line in lines if line.partition(" = ")[0] not in left_out]
    if kind == "graded":
        lines = [line for line in lines if line != "epsilon = 0.5"]
        lines.insert(2, "epsilon = 1.0")
    parse("\n".join(lines))
    for place, line in enumerate(lines):
        key = line.partition(" = ")[0]
        for odd in ODD if " = " in line else ():
            text = "\n".join([*lines[:place], f"{key} = {odd}", *lines[place + 1 :]])
            if (problem := refusal(text)) is not None:
                assert problem.line is not None
                assert "`" not in str(problem)


def refusal(text: str) -> CampaignError | None:
    try:
        parse(text)
    except CampaignError as problem:
        return problem
    return None


KEYS = st.sampled_from(["a", "b", "c d", "low"])
VALUES = st.recursive(
    st.sampled_from(["1", '"x"', "'#'", '"""\n[a]\n"""', "1979-05-27T07:32:00Z", "'''\n'''"]),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda parts: "[\n" + ", # ]\n".join(parts) + "\n]"),
        st.lists(inner, max_size=2).map(
            lambda parts: "{" + ", ".join(f'"k{i}" = {p}' for i, p in enumerate(parts)) + "}"
        ),
    ),
    max_leaves=6,
)


@pytest.mark.slow
@given(st.lists(st.tuples(st.sampled_from(["", "[[t]]", "[[t.u]]"]), KEYS, VALUES), max_size=8))
def test_every_key_of_any_file_has_its_line(statements) -> None:
    text = ""
    for number, (header, key, value) in enumerate(statements):
        text += f'{header}\n"{key}{number}" = {value}\n'
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    lines = Lines(text)
    for path, key in leaves(data):
        assert f'"{key}" =' in text.splitlines()[lines.of(path) - 1]


def leaves(data, path=()):
    for key, value in data.items():
        if isinstance(value, list) and value and isinstance(value[0], dict) and key in "tu":
            for place, one in enumerate(value):
                yield from leaves(one, (*path, key, place))
        elif isinstance(value, dict) and key in "tu":
            yield from leaves(value, (*path, key))
        else:
            yield (*path, key), key


# --- every kind of campaign ----------------------------------------------------------------------

HEAD = 'name = "test"\npurpose = "A test"\npeople = 20000\n'
AGE = '[[attributes]]\nname = "age"\nlow = 18\nhigh = 98\nunit = "years"\n'
SCREEN = '[[attributes]]\nname = "screen"\nlow = 0\nhigh = 24\n'
PHONE = '[[attributes]]\nname = "phone"\nkind = "category"\nlabels = ["android", "ios", "other"]\n'
CITY = f"[[attributes]]\nname = 'city'\nkind = 'category'\nlabels = {[f'c{i}' for i in range(9)]}\n"
INCOME = GRADED
SHAPE = '[[attributes]]\nname = "shape"\nkind = "distribution"\nlow = -1\nhigh = 1\nbins = 16\n'
WIDE = 257  # attributes: one byte cannot name so many
MANY = "".join(f'[[attributes]]\nname = "n{i}"\nlow = 0\nhigh = 1\n' for i in range(WIDE))
LEVELS = "[levels]\nhigh = '1/3'\nlow = 1\n"

GOOD = {
    "one number": "epsilon = 1\n" + AGE,
    "sample": "epsilon = 2\n" + AGE + PHONE + CITY,
    "sample two": "epsilon = 4\nstrategy = 'sample'\nsample = 2\n" + AGE + PHONE + CITY + SCREEN,
    "split": "epsilon = 3\nstrategy = 'split'\n" + AGE + PHONE + CITY,
    "split-optimal": "epsilon = 3\nstrategy = 'split-optimal'\n" + PHONE + CITY,
    "own epsilons": AGE + "epsilon = 1\n" + PHONE + "epsilon = 0.5\n",
    "own and total": "epsilon = 3\nstrategy = 'split'\n" + AGE + "epsilon = 1\n" + PHONE + CITY,
    "block": "epsilon = 2\nstrategy = 'block'\n" + AGE + SCREEN,
    "harmony": "epsilon = 2\nstrategy = 'harmony'\n" + AGE + SCREEN + PHONE,
    "hybrid-composition": "epsilon = 4\nstrategy = 'hybrid-composition'\n" + AGE + SCREEN + PHONE,
    "levels": "epsilon = 3\n" + AGE + PHONE + LEVELS,
    "levels split": "epsilon = 3\nstrategy = 'split'\n" + AGE + PHONE + LEVELS,
    "levels of a distribution": "epsilon = 3\n" + SHAPE + LEVELS,
    "graded": "" + INCOME,
    "graded among others": "epsilon = 1.5\n" + AGE + INCOME,
    "graded matrix": changed("budgets", "semantics = [[1.0, 2.0], [2.0, 0.5]]\nbudgets", INCOME),
    "distribution": "epsilon = 2\n" + SHAPE,
    "repeat": "epsilon = 1\n" + PHONE + "[repeat]\npermanent = 2\nrounds = 9\nvalues = 3\n",
    "mechanisms": "epsilon = 2\n" + AGE + "mechanism = 'piecewise'\nparameters = {t = 'sub'}\n"
    "outside = 'refuse'\n" + CITY + "mechanism = 'olh'\noutside = 'c8'\n",
    "many": "epsilon = 2\n" + MANY,
}
PEOPLE = 20_000


def answers_of(campaign: SurveyCampaign, people: int) -> dict[str, object]:
    rng = np.random.default_rng(5)
    found: dict[str, object] = {}
    for question in campaign.questions:
        if question.k is None:
            low, high = question.range
            found[question.name] = low + (high - low) * rng.beta(2, 4, people)
        else:
            weights = np.arange(1.0, question.k + 1)
            labels = np.array(question.labels)
            found[question.name] = labels[rng.choice(question.k, people, p=weights / weights.sum())]
    return found


LONG = {"many", "levels split"}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(text, id=name, marks=[pytest.mark.slow] * (name in LONG))
        for name, text in GOOD.items()
    ],
)
def test_a_campaign_end_to_end(text: str) -> None:
    campaign = campaign_of(HEAD + text)
    assert campaign.loss().epsilon <= campaign.epsilon
    again = campaign_document.read(campaign_document.publish(campaign))
    assert again.digest == campaign.digest
    assert again.terms == campaign.terms
    answers = answers_of(campaign, PEOPLE)
    levels = np.random.default_rng(6).choice(["high", "low"], PEOPLE) if campaign.levels else None
    rows = again.privatize(again.encode(answers, seeded_rng(7)), seeded_rng(7), levels)
    assert rows.shape == (PEOPLE, campaign.form.row_bytes)
    assert campaign.form.valid(rows).all()
    tallies = campaign.tally(rows)
    assert campaign.frame.reports(tallies) == PEOPLE
    figures = read.figures(campaign, tallies, cohort=1)
    for figure in figures:
        if figure.stderr is not None:
            values = np.asarray(answers[figure.attribute])
            mean = values.mean() if figure.item == "mean" else (values == figure.item).mean()
            assert abs(figure.value - mean) < 5 * figure.stderr, figure
            assert figure.low < figure.value < figure.high
    assert {figure.attribute for figure in figures} == set(answers)


@pytest.mark.slow
def test_more_attributes_than_a_byte_can_name() -> None:
    assert campaign_of(HEAD + GOOD["many"]).frame.index_bytes == 2


def test_shapes() -> None:
    assert len(campaign_of(HEAD + GOOD["sample two"]).frame.widths) == 2
    assert campaign_of(HEAD + GOOD["repeat"]).limit == 6
    assert campaign_of(HEAD + GOOD["own epsilons"]).epsilon == 1.5
    assert campaign_of(HEAD + GOOD["graded matrix"]).epsilon == 2
    assert campaign_of(HEAD + GOOD["split"]).loss().epsilon == pytest.approx(3, abs=1e-4)
    bins = [f for f in shape_figures() if f.item != "mean"]
    assert sum(f.value for f in bins) == pytest.approx(1)


def shape_figures():
    campaign = campaign_of(HEAD + GOOD["levels of a distribution"])
    columns = campaign.encode({"shape": np.linspace(-1, 1, 2000)}, seeded_rng(1))
    rows = campaign.privatize(columns, seeded_rng(1), ["low"] * 2000)  # nobody picks high
    return read.figures(campaign, campaign.tally(rows))


CHANGES = {
    "name": changed("well-being", "other"),
    "epsilon": changed("1.0", "1.1"),
    "range": changed("98", "99"),
    "label": changed("ios", "iphone"),
    "attribute": changed('"age"', '"years"'),
    "unit": changed("high = 98", "high = 98\nunit = 'years'"),
    "clamp rule": changed("high = 98", "high = 98\noutside = 'refuse'"),
    "mechanism": changed("high = 98", "high = 98\nmechanism = 'piecewise'"),
    "strategy": on_top("strategy = 'split'"),
    "sample": on_top("sample = 2"),
    "levels": on_top("levels = { high = 0.5, low = 1 }"),
    "lifetime": on_top("lifetime = 3"),
}


@pytest.mark.slow
def test_what_affects_a_report_changes_the_digest() -> None:
    digests = [campaign_of(text).digest for text in (FILE, *CHANGES.values())]
    assert len(set(digests)) == len(digests)


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        changed("How people are", "Something else"),
        on_top("closes = 2030-01-01T00:00:00Z"),
        on_top("opens = 2020-01-01T00:00:00+02:00"),
        on_top("cohort = 5000"),
        on_top("keep_reports = false"),
        on_top("upload = 'token'"),
        on_top("origins = ['https://app.example', 'http://localhost:3000', 'https://[::1]']"),
        FILE + "# a comment\n",
    ],
)
def test_what_people_are_told_does_not(text: str) -> None:
    assert campaign_of(text).digest == campaign_of(FILE).digest


def test_origins_are_a_term_that_is_left_out_where_there_is_none() -> None:
    texts = FILE, on_top("origins = ['https://app.example']")
    plain, named = (campaign_of(text) for text in texts)
    documents = [json.loads(campaign_document.publish(one)) for one in (plain, named)]
    assert "origins" not in documents[0]
    assert documents[1].pop("origins") == ["https://app.example"]
    assert documents[0] == documents[1]
    again = campaign_document.read(campaign_document.publish(named))
    assert again.terms.origins == ("https://app.example",)


def test_repeated_intervals_allow_for_permanent_answers() -> None:
    """Everybody reports 9 times: errors of the pooled estimate are those that it states."""
    campaign = campaign_of(HEAD + GOOD["repeat"])
    law = campaign.frame.cells[0]
    k, people, missed, rng = law.k, 2000, 0, seeded_rng(5)
    items = np.arange(people) % k
    for _ in range(60):
        answers = law.remember(items, rng)
        rows = np.concatenate([_entry(law, answers, rng) for _ in range(campaign.max_reports)])
        part = read.parts(campaign, campaign.tally(rows))[0]
        low, high = part.interval(0.95)
        missed += int((low > 1 / k).sum() + (high < 1 / k).sum())
    # 5% expected; without the allowance it would be every second one.
    assert missed <= 0.05 * 60 * k + 4 * math.sqrt(0.05 * 0.95 * 60 * k), missed
    assert "up to 9 reports per person" in part.note


def _entry(law, answers, rng):
    octets = np.frombuffer(law.pack(law.repeat(answers, rng)), dtype=np.uint8)
    return np.stack([np.zeros_like(octets), octets], axis=1)
