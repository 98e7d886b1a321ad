"""One rule from a raw value to an answer: golden vectors, read by page and by library."""

from __future__ import annotations

import json
import math
import re
import unicodedata
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from murmuration.campaign.answers import BLANKS, FOLDS, NOTHING, UNKNOWN, Reading, folded, tidy
from murmuration.campaign.question import FITS, Question
from murmuration.definition import document
from murmuration.definition import load as campaign_file
from murmuration.errors import CampaignError, InputError, ParameterError
from murmuration.exact.randomness import seeded_rng
from murmuration.learn.columns import Category
from tests.support.vectors import VECTORS as FOLDER

GOLDEN = FOLDER / "answers" / "vectors.json"
VECTORS = json.loads(GOLDEN.read_text(encoding="utf-8"))
VALUES = json.loads((FOLDER / "answers" / "values.json").read_text(encoding="utf-8"))
ATTRIBUTES: dict[str, dict[str, Any]] = VECTORS["attributes"] | VALUES["attributes"]
RNG = seeded_rng(1)


def question(name: str) -> Question:
    table = {k: tuple(v) if isinstance(v, list) else v for k, v in ATTRIBUTES[name].items()}
    rule = {} if "labels" in table else {"outside": "clamp"}
    return Question(name, **{**rule, **table}, missing=True)


# --- docs/wire.md, section 2, once more, without the library ------------------------------------

BLANK_POINTS = [*range(0x9, 0xE), 0x20, 0xA0, 0x1680, *range(0x2000, 0x200B)]
BLANK_POINTS += [0x2028, 0x2029, 0x202F, 0x205F, 0x3000, 0xFEFF]
DIGITS = r"([+-]?)([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?"


def page_key(raw: str, case: str) -> str:
    text = unicodedata.normalize("NFC", raw).strip("".join(map(chr, BLANK_POINTS)))
    if case == "ignore":
        for first, last, step, more in VECTORS["folds"]:
            points = range(int(first, 16), int(last, 16) + 1, step)
            text = "".join(chr(ord(c) + more) if ord(c) in points else c for c in text)
    return text


def page_text(raw: bool | int | float) -> str:
    """How a value that is no text is written."""
    if isinstance(raw, bool):
        return "True" if raw else "False"
    number = float(raw)
    whole = abs(number) < 2**53 and number == int(number)
    return str(int(number)) if whole else repr(number)


def page(table: dict[str, Any], raw: Any) -> Any:
    """The answer of a raw JSON value: a place, an x, or why there is none."""
    if raw is None:
        return "no answer"
    case, labels = table.get("case", "exact"), table.get("labels", [])
    text = raw if isinstance(raw, str) else page_text(raw)
    if text in labels:
        return labels.index(text)
    key = page_key(text, case)
    keys = [page_key(label, case) for label in labels]
    marks = [page_key(marker, case) for marker in table.get("markers", [])]
    value = float(key) if re.fullmatch(DIGITS, key) else math.nan
    same = [float(one) if re.fullmatch(DIGITS, one) else math.nan for one in [*keys, *marks]]
    codes = any(re.match("[+-]?0[0-9]", one) for one in keys)
    if not key or key in marks:
        return "no answer"
    if keys.count(key) == 1:
        return keys.index(key)
    if not labels:
        value = float(raw) if isinstance(raw, int | float) else value
        if math.isnan(value) or value in same:
            return "no number" if math.isnan(value) else "no answer"
        inside = min(max(value, table["low"]), table["high"])
        return 2 * (inside - table["low"]) / (table["high"] - table["low"]) - 1
    if not codes and abs(value) < 2**53 and same.count(value) == 1:
        found = same.index(value)
        return found if found < len(keys) else "no answer"
    return "no label"


def ours(name: str, raw: Any) -> Any:
    """The same by the library."""
    asked = question(name)
    fit = FITS[int(asked.fits([raw])[0])]
    if fit == "missing":
        return "no answer"
    if fit == "unknown":
        return "no label" if asked.labels else "no number"
    return asked.encode([raw], RNG).tolist()[0]


@pytest.mark.parametrize(("name", "raw", "answer"), VECTORS["vectors"] + VALUES["vectors"])
def test_a_raw_value_is_the_answer_that_it_always_was(name: str, raw: Any, answer: Any) -> None:
    assert page(ATTRIBUTES[name], raw) == answer
    assert ours(name, raw) == answer


@pytest.mark.parametrize(("table", "raw", "answer"), VALUES["rules"])
def test_what_does_not_fit_counts_by_the_rule(table: dict[str, Any], raw: Any, answer: Any) -> None:
    """Also where a label has the name of the rule."""
    fields = {key: tuple(one) if isinstance(one, list) else one for key, one in table.items()}
    asked = Question("q", **fields).never_silent()
    drawn = [asked.encode([raw], seeded_rng(seed)).tolist()[0] for seed in range(40)]
    if answer == "by chance":
        assert set(drawn) == set(range(len(asked.labels)))
    else:
        shown = ["none" if isinstance(one, float) and math.isnan(one) else one for one in drawn]
        assert set(shown) == {answer}


@pytest.mark.parametrize("kind", [int, float, np.int64, np.float32, np.float64, Decimal])
def test_a_number_is_the_same_label_whatever_its_type(kind: Any) -> None:
    codes = Reading(("01", "2", "c"))
    assert codes.places([kind(2)]).tolist() == [1]
    assert codes.places(np.array([2, 1], dtype=object)).tolist() == [1, UNKNOWN]
    assert Reading(("1", "1.0")).places([kind(1)]).tolist() == [0]


def test_the_lists_are_those_of_the_vectors() -> None:
    assert sorted(BLANKS) == sorted(map(chr, BLANK_POINTS))
    assert [f"{ord(one):04X}" for one in BLANKS] == VECTORS["blanks"]
    assert [[f"{a:04X}", f"{b:04X}", step, more] for a, b, step, more in FOLDS] == VECTORS["folds"]


def test_folding_is_that_of_unicode_as_far_as_it_goes() -> None:
    for first, last, step, _ in FOLDS:
        for point in range(first, last + 1, step):
            assert folded(chr(point)) == chr(point).casefold(), hex(point)


TEXTS = st.text(
    st.sampled_from(" \u00a0\u0301\u0308eEéAa01.+-eßΣσς?") | st.characters(), max_size=6
)


@given(st.lists(TEXTS, min_size=2, max_size=5, unique=True), st.lists(TEXTS), st.booleans())
def test_page_and_library_agree_on_any_text(labels: list[str], raw: list[str], fold: bool) -> None:
    """Labels as any document may have them: of two that are alike neither is taken."""
    case = "ignore" if fold else "exact"
    places = Reading(tuple(labels), case=case).places([*labels, *raw])
    table = {"labels": labels, "case": case}
    told = {"no answer": NOTHING, "no label": UNKNOWN}
    found = [page(table, one) for one in [*labels, *raw]]
    assert places.tolist() == [told.get(one, one) for one in found]
    assert places[: len(labels)].tolist() == list(range(len(labels)))


@given(st.lists(st.floats() | st.integers() | st.none() | st.text("0123456789.e-_, inf")))
def test_numbers_one_by_one_and_together(values: list[Any]) -> None:
    asked = Question("x", low=-5, high=5, missing=True, markers=("-1", "inf"))
    together = asked.encode(values, RNG) if values else np.zeros(0)
    alone = [asked.encode([value], RNG)[0] for value in values]
    np.testing.assert_array_equal(together, np.array(alone, dtype=float))


# --- the device ----------------------------------------------------------------------------------


def test_before_every_one_of_these_was_spread_by_chance() -> None:
    """Issue 13: United-States was estimated at .019 where .896 is true."""
    country = Question("country", "category", labels=("United-States", "1", "Café"))
    raw = [" United-States", "United-States\t", "1.0", 1.0, "Cafe\u0301"]
    for seed in range(8):
        assert country.encode(raw, seeded_rng(seed)).tolist() == [0, 0, 1, 1, 2]


def test_the_case_is_told_by_the_file() -> None:
    exact = Question("town", "category", labels=("Rome", "Oslo"), outside="refuse")
    with pytest.raises(InputError):
        exact.encode(["rome"], RNG)
    told = Question("town", "category", labels=("Rome", "Oslo"), outside="refuse", case="ignore")
    assert told.encode(["rome", "OSLO"], RNG).tolist() == [0, 1]


def test_learning_reads_labels_by_the_same_rule() -> None:
    """Before, a blank was another word, and the person was refused."""
    assert Category(("rent", "own")).items([" rent", "own\u00a0"]).tolist() == [0, 1]


FILE = """
name = "towns"
purpose = "Where people live."
epsilon = 1.0
[[attributes]]
name = "town"
kind = "category"
labels = ["Rome", "Oslo"]
"""


def test_the_rule_is_published_and_old_digests_stay() -> None:
    plain = campaign_file.parse(FILE)
    assert "case" not in plain.text
    assert "markers" not in plain.text
    more = campaign_file.parse(f'{FILE}case = "ignore"\nmissing = true\nmarkers = ["?", "NA"]\n')
    assert '"missing":true,"case":"ignore","markers":["?","NA"]' in more.text
    again = document.read(document.publish(more))
    assert again == more
    assert again.digest == more.digest != plain.digest
    assert again.encode({"town": ["ROME", "na", "x"]}, RNG)[0].tolist() == [0, 2, 2]


@pytest.mark.parametrize(
    ("rest", "words"),
    [
        ('case = "upper"', "case is one of exact, ignore"),
        ('markers = ["?"]', "markers need missing = true"),
        ('missing = true\nmarkers = ["Rome "]', "both a label and a marker of no answer"),
        ('missing = true\nmarkers = ["?", " ?"]', "all different"),
        ('missing = true\nmarkers = [" "]', "not empty"),
    ],
)
def test_mistakes_about_the_rule(rest: str, words: str) -> None:
    with pytest.raises(CampaignError, match=words) as found:
        campaign_file.parse(f"{FILE}{rest}\n")
    assert found.value.line == FILE.count("\n") + 1 + rest.count("\n")


def test_labels_that_are_one_answer_are_refused_in_a_file() -> None:
    for labels, case in (('["Rome", " Rome"]', "exact"), ('["Rome", "ROME"]', "ignore")):
        text = FILE.replace('["Rome", "Oslo"]', labels) + f'case = "{case}"\n'
        with pytest.raises(CampaignError, match="two labels are one answer") as found:
            campaign_file.parse(text)
        assert found.value.line == 8
    with pytest.raises(ParameterError, match="for a category only"):
        Question("age", low=0, high=1, case="ignore")


def test_tidy_leaves_what_is_inside() -> None:
    assert tidy("\ufeff a  b\u3000") == "a  b"


# --- all mistakes at once ------------------------------------------------------------------------

WRONG = """\
name = "Towns"
purpose = ""
epsilom = 1.0
cohort = 3
strategy = "sampel"
[[attributes]]
name = "age"
low = "0"
high = 9
[[attributes]]
name = "town"
labels = ["Rome", "Oslo"]
[[attributes]]
name = "height"
low = 2
high = 1
[[attributes]]
name = "wage"
low = 0
high = 1
mechanism = "piecewice"
[levels]
high = 3
"""


def test_a_file_is_told_all_its_mistakes_in_one_run() -> None:
    """Before, the first one only: as many runs as mistakes."""
    with pytest.raises(CampaignError) as found:
        campaign_file.parse(WRONG)
    told = [found.value, *found.value.also]
    assert [one.line for one in told] == [1, 2, 3, 4, 5, 8, 12, 15, 21, 23]
    words = ["small letters", "plain words", "epsilon is meant?", "100 people", "sample is meant?"]
    words += ["low is a number", 'labels need kind = "category"', "low must be below high"]
    words += ["piecewise is meant?", "a part of epsilon"]
    for one, word in zip(told, words, strict=True):
        assert word in str(one)
