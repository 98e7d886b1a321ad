"""Answers that do not fit: told to the app, counted beside the key, and never on the wire."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pytest

from murmuration.campaign.question import Question
from murmuration.cli.fit import Fit
from murmuration.definition import document as campaign_document
from murmuration.device import Client, Misfit
from murmuration.errors import AnswerError, InputError, MisfitWarning, ParameterError
from tests.support import command
from tests.support.accounts import campaign_of
from tests.support.between import answering

STORED = b'{"received": 1, "stored": 1, "failures": []}'
PHONES = """
name = "phones"
purpose = "Which phones to test on."
epsilon = 2.0
strategy = "split"
[[attributes]]
name = "phone"
kind = "category"
labels = ["android", "ios"]
mechanism = "grr"
{more}
[[attributes]]
name = "age"
low = 18
high = 98
mechanism = "duchi"
{age}
"""


@pytest.fixture
def host():
    with answering(lambda number, body: (200, {}, STORED)) as seen:
        yield seen


def client(folder: Path, url: str, more: str = "", age: str = "", **options) -> Client:
    document = folder / "phones.json"
    text = PHONES.format(more=more, age=age)
    document.write_bytes(campaign_document.publish(campaign_of(text)))
    return Client(document, folder / "ledger.db", send_to=url, secret=bytes(32), **options)


def test_a_typo_is_told_to_the_app_and_nobody_else(tmp_path: Path, host) -> None:
    device = client(tmp_path, host.url)
    with pytest.warns(MisfitWarning, match="phone: the answer is not one of the labels") as told:
        receipt = device.report({"phone": "iPhone", "age": 120})
    assert "age: the answer is outside the range 18 to 98" in str(told[0].message)
    assert "iPhone" not in str(told[0].message)
    assert "120" not in str(told[0].message)
    assert receipt.misfits == (Misfit("phone", "unknown"), Misfit("age", "outside"))
    assert set(json.loads(host.bodies[0])) == {"wire", "digest", "id", "entries"}
    with pytest.warns(MisfitWarning):  # each time
        assert device.report({"phone": "iPhone", "age": 20}).misfits
    counted = [row[2:] for row in device.ledger.misfits()]
    assert counted == [("age", "outside", 1), ("phone", "unknown", 1)]  # once, with the report
    shown = command.murmur("ledger", str(_file_ledger(tmp_path, host.url)))
    assert "1 answer to phone did not fit" in " ".join(shown.stdout.split())


def _file_ledger(folder: Path, url: str) -> Path:
    """The same with a key in a file, as the command reads it."""
    document, ledger = folder / "phones.json", folder / "other.db"
    with pytest.warns(MisfitWarning):
        Client(document, ledger, send_to=url).report({"phone": "iPhone", "age": 20})
    return ledger


def test_what_fits_is_not_told(tmp_path: Path, host) -> None:
    device = client(tmp_path, host.url, "missing = true")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert device.report({"age": " 98 "}).misfits == ()  # no answer is one here
    assert device.ledger.misfits() == []
    (tmp_path / "other").mkdir()
    other = client(tmp_path / "other", host.url, 'outside = "android"')
    assert other.report({"phone": "nokia", "age": 18}).misfits == ()  # the label for all others


def test_what_does_not_fit_is_no_answer_where_the_law_has_one(tmp_path: Path, host) -> None:
    sent = []
    for number, answer in enumerate(("iPhone", None)):
        folder = tmp_path / str(number)
        folder.mkdir()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MisfitWarning)
            client(folder, host.url, "missing = true").report({"phone": answer, "age": 20})
        sent.append(host.bodies[-1])
    assert sent[0] == sent[1]  # the same key: the same report as of somebody without an answer


@pytest.mark.parametrize(
    ("rule", "like"), [("", None), ('outside = "no answer"', None), ('outside = "clamp"', 98)]
)
def test_a_number_out_of_range_is_no_answer_unless_the_file_clamps(
    tmp_path: Path, host, rule: str, like: int | None
) -> None:
    sent = []
    for number, answer in enumerate((141, like)):
        folder = tmp_path / str(number)
        folder.mkdir()
        device = client(folder, host.url, age=f"missing = true\n{rule}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MisfitWarning)
            device.report({"phone": "ios", "age": answer})
        sent.append(host.bodies[-1])
    assert sent[0] == sent[1]


def test_check_says_what_becomes_of_an_answer_that_does_not_fit(tmp_path: Path) -> None:
    text = PHONES.format(more="", age="missing = true")
    (tmp_path / "campaign.toml").write_text(text)
    said = " ".join(command.murmur("check", folder=tmp_path).stdout.split())
    assert "age: a number outside 18 to 98, and what is no number, counts as no answer" in said
    assert "phone: a text that is not one of the labels counts as a label drawn at random" in said
    found = json.loads(command.murmur("check", "--json", folder=tmp_path).stdout)
    assert "as no answer" in found["attributes"][1]["misfit"]


@pytest.mark.parametrize(
    ("outside", "says"),
    [("refuse", "is not sent by a device that may be silent"), ("ios", "as the label 'ios'")],
)
def test_the_rule_of_labels_in_words(outside: str, says: str) -> None:
    assert says in Question("phone", "category", labels=("ios", "b"), outside=outside).rule


def test_what_is_no_number_is_said_so(tmp_path: Path, host) -> None:
    device = client(tmp_path, host.url)
    with pytest.raises(AnswerError, match="age: the answer is not a number"):
        device.preview({"phone": "ios", "age": "old"})
    with pytest.raises(AnswerError) as refused:
        device.report({"phone": "ios", "age": "old"})
    assert (refused.value.reason, host.bodies) == ("unknown", [])


@pytest.mark.parametrize(
    ("answers", "attribute", "reason"),
    [
        ({"phone": "iPhone", "age": 20}, "phone", "unknown"),
        ({"phone": "ios", "age": 99}, "age", "outside"),
    ],
)
def test_a_preview_raises(tmp_path: Path, host, answers, attribute: str, reason: str) -> None:
    with pytest.raises(AnswerError) as refused:
        client(tmp_path, host.url).preview(answers)
    assert (refused.value.attribute, refused.value.reason) == (attribute, reason)
    assert "iPhone" not in str(refused.value)
    assert "99" not in str(refused.value)
    assert isinstance(refused.value, InputError)


def test_an_error_needs_consent_to_be_silent(tmp_path: Path, host) -> None:
    with pytest.raises(ParameterError, match="refuse_outside=True"):
        client(tmp_path, host.url, misfit="error")
    with pytest.raises(ParameterError, match="misfit is"):
        client(tmp_path, host.url, misfit="ignore")
    device = client(tmp_path, host.url, misfit="error", refuse_outside=True)
    with pytest.raises(AnswerError, match="phone"):
        device.report({"phone": "iPhone", "age": 20})
    assert (host.bodies, device.ledger.spent()) == ([], 0.0)
    assert device.report({"phone": "ios", "age": 20}).delivered


def test_send_counts_against_answers() -> None:
    """59 of 5,215 answers, in a file of 60,000 rows that may be without one."""
    fit = Fit("income", missing=True, counts=np.array([5_215 - 59, 40, 19, 54_785]))
    assert f"{fit.misfits:.2%}" == "1.13%"
    strict = Fit("income", counts=np.array([90, 5, 2, 3]))
    assert strict.misfits == 0.1
