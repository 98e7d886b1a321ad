"""Answers that do not fit: told to the app, counted beside the key, and never on the wire."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pytest

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
"""


@pytest.fixture
def host():
    with answering(lambda number, body: (200, {}, STORED)) as seen:
        yield seen


def client(folder: Path, url: str, more: str = "", **options) -> Client:
    document = folder / "phones.json"
    document.write_bytes(campaign_document.publish(campaign_of(PHONES.format(more=more))))
    return Client(document, folder / "ledger.db", send_to=url, secret=bytes(32), **options)


def test_a_typo_is_told_to_the_app_and_nobody_else(tmp_path: Path, host) -> None:
    device = client(tmp_path, host.url)
    with pytest.warns(MisfitWarning, match="phone is no label") as told:
        receipt = device.report({"phone": "iPhone", "age": 120})
    assert "iPhone" not in str(told[0].message)
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
