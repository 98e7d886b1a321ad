"""Periods from devices to pages: real devices, a real collector, and what is read from it.

All periods are some weeks ago and stay open for long (`grace`), so that nothing depends on the
moment at which a test runs.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import murmuration
from murmuration.campaign.survey import utc_now
from murmuration.definition import load as campaign_file
from murmuration.device import Client
from murmuration.errors import BudgetError, ParameterError
from murmuration.wire import report
from murmuration.wire.ids import new_ids
from tests.support.collectors import Collection, Collector, running
from tests.support.command import murmur

pytestmark = pytest.mark.slow

TEXT = """
name = "mood"
purpose = "How people are, week by week."
epsilon = 2.0
cohort = 100
[repeat]
permanent = 4.0
rounds = 3
every = "week"
grace = 12
[[attributes]]
name = "mood"
kind = "category"
labels = ["good", "so-so", "bad"]
"""
CAMPAIGN = campaign_file.parse(TEXT)
LAST = (CAMPAIGN.period_at(utc_now()) or 0) - 2
WEEKS = [CAMPAIGN.name_of(LAST - back) for back in (4, 3, 2, 1, 0)]
SECRET = bytes(range(32))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collector]:
    with running(tmp_path_factory.mktemp("periods") / "store.db", TEXT) as collector:
        yield collector


@pytest.fixture
def url(server: Collector) -> str:
    return Collection(server, "mood").url


def test_a_device_reports_once_about_a_period(url: str, tmp_path: Path) -> None:
    client = Client(url, tmp_path / "ledger.db", secret=SECRET)
    first = client.report({"mood": "good"}, period=WEEKS[0])
    assert (first.outcome, first.period, first.new) == ("stored", WEEKS[0], True)
    again = client.report({"mood": "bad"}, period=WEEKS[0])
    assert (again.report_id, again.new) == (first.report_id, False)
    second = client.report({"mood": "good"}, period=WEEKS[1])
    assert second.outcome == "stored"
    assert second.report_id != first.report_id
    assert client.ledger.spent() == 4.0  # the permanent answer, once
    body = json.loads(
        client.preview({"mood": "good"}, period=WEEKS[2]).rpartition(": {")[2].join("{ ")
    )
    assert body["period"] == LAST - 2
    client.report({"mood": "good"}, period=WEEKS[2])
    with pytest.raises(BudgetError, match="3 times at most"):
        client.report({"mood": "good"}, period=WEEKS[3])
    assert [entry.period for entry in client.ledger.entries()] == WEEKS[:3]


def test_the_same_key_makes_the_same_reports(url: str, tmp_path: Path) -> None:
    """A ledger that was lost: the collector knows the report of that period, and only that one."""
    secret = bytes(reversed(SECRET))
    for place, expected in (("a", "stored"), ("b", "duplicate")):
        client = Client(url, tmp_path / f"{place}.db", secret=secret)
        assert client.report({"mood": "bad"}, period=WEEKS[0]).outcome == expected


def test_a_period_that_is_not_open_is_refused_before_anything_is_charged(url, tmp_path) -> None:
    client = Client(url, tmp_path / "ledger.db")
    for moment in ("2001-W01", "2400-01-01"):
        with pytest.raises(ParameterError, match="it is over, or has not begun"):
            client.report({"mood": "good"}, period=moment)
    assert client.ledger.entries() == []


def test_a_collector_refuses_periods_that_cannot_be(server: Collector) -> None:
    rng = murmuration.seeded_rng(1)
    columns = CAMPAIGN.encode({"mood": ["good"] * 3}, rng)
    rows = np.concatenate(
        [CAMPAIGN.privatize([columns[0][:1]], rng, period=LAST + shift) for shift in (-20, 0, 20)]
    )
    before = server.about("mood", "status").json["outcomes"].get("wrong-period", 0)
    for write, kind in ((report.to_json, report.JSON), (report.to_binary, report.BINARY)):
        answer = server.send("mood", write(CAMPAIGN.form, new_ids(3), rows), kind).json
        assert answer["stored"] == 1
        found = [(one["index"], one["type"]) for one in answer["failures"]]
        assert found == [(0, "/problems/wrong-period"), (2, "/problems/early-period")]
    after = server.about("mood", "status").json
    assert after["outcomes"]["wrong-period"] == before + 2
    assert after["balanced"]


def test_a_file_is_played_and_read_by_period(server: Collector, url: str, tmp_path: Path) -> None:
    draw = np.random.default_rng(2)
    lines = ["who,mood,week"]
    for week, well in zip(WEEKS, (0.7, 0.7, 0.7, 0.7, 0.2), strict=True):
        for who in range(400):
            mood = "good" if draw.random() < well else "bad"
            lines.append(f"{who},{mood},{week}")
    lines.append("x,good,no week")
    (tmp_path / "people.csv").write_text("\n".join(lines))
    done = murmur(
        *("send", url, tmp_path / "people.csv", "--period-column", "week"),
        *("--device-column", "who", "--json"),
    )
    sent = json.loads(done.stdout)
    assert (sent["stored"], sent["skipped_by"]) == (2000, {"week": 1})
    found = server.about("mood", f"estimates?period={WEEKS[0]}").json
    assert (found["period"], found["changes"]) == (WEEKS[0], [])
    last = server.about("mood", "estimates").json
    assert last["period"] == WEEKS[-1]
    assert last["changed"]["changed"]
    (good, *_) = last["changes"]
    assert good["high"] < 0
    everything = server.about("mood", "estimates?period=all").json
    assert everything["reports"] >= 2000 > everything["people"]
    lines = server.about("mood", "trend").json
    assert [one["period"] for one in lines["estimates"][:5]] == WEEKS
    status = server.about("mood", "status").json
    assert [one["name"] for one in status["periods"]] == WEEKS
    live = server.about("mood", "live").json
    assert (live["period"], live["people"]) == (WEEKS[-1], last["people"])
    (card,) = live["attributes"]
    assert [point["period"] for point in card["trend"][0]["points"]] == WEEKS
    table = server.about("mood", f"estimates?period={WEEKS[1]}&format=csv").body.decode()
    assert {line["period"] for line in csv.DictReader(table.splitlines())} == {WEEKS[1]}
    opened = murmuration.open(url, token=server.admin)
    assert [one.after for one in opened.changes(since=WEEKS[0])] == [WEEKS[-1]] * 3
    assert len(opened.trend()) == 15
    named = {"MURMUR_TOKEN": server.admin}
    shown = murmur("estimate", url, "--since", WEEKS[0], environment=named).stdout
    assert f"change from {WEEKS[0]} to {WEEKS[-1]}" in shown
    assert "Has anything changed? Yes" in shown


@pytest.mark.parametrize("asked", ["period=x", "since=2026-W99", "period=last&since=last"])
def test_what_names_no_period_is_a_bad_parameter(server: Collector, asked: str) -> None:
    answer = server.about("mood", f"estimates?{asked}")
    assert (answer.status, answer.problem) == (422, "bad-parameter")
