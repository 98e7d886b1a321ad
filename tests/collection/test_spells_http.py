"""Spells and numbers from devices to figures: a real collector, and a file that is played.

All periods are some weeks ago and stay open for long (`grace`): nothing depends on the moment.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from murmuration.campaign.periods import name_of, period_of, start_of
from murmuration.campaign.survey import utc_now
from murmuration.device import Client
from murmuration.errors import ParameterError
from tests.support.collectors import Collection, Collector, running
from tests.support.command import murmur

pytestmark = pytest.mark.slow

FIRST = period_of("week", utc_now()) - 6
WEEKS = [name_of("week", FIRST + week) for week in range(4)]
TEXT = f"""
name = "spells"
purpose = "How people are, and when that changes is their own."
epsilon = 4.0
cohort = 100
strategy = "split"
[repeat]
permanent = 8.0
rounds = 4
every = "week"
grace = 12
law = "spells"
changes = 1
first = {start_of("week", FIRST).isoformat()}
[[attributes]]
name = "mood"
kind = "category"
labels = ["good", "bad"]
[[attributes]]
name = "hours"
low = 0
high = 10
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collector]:
    with running(tmp_path_factory.mktemp("spells") / "store.db", TEXT) as collector:
        yield collector


@pytest.fixture
def url(server: Collector) -> str:
    return Collection(server, "spells").url


def test_a_device_over_two_spells(url: str, tmp_path: Path) -> None:
    client = Client(url, tmp_path / "ledger.db")
    for name in ("report", "collector", "lifetime"):
        client.ledger.raise_limit(name, 1000.0)
    costs = []
    for week, mood in zip(WEEKS, ("good", "bad", "bad", "good"), strict=True):
        receipt = client.report({"mood": mood, "hours": 5}, period=week)
        assert receipt.outcome == "stored"
        costs.append(receipt.epsilon)
    assert costs == [16.0, 0.0, 16.0, 0.0]
    after = name_of("week", FIRST + 4)
    with pytest.raises(ParameterError, match="takes no reports"):
        client.report({"mood": "good", "hours": 5}, period=after)


def test_figures_are_about_what_spells_began_with(server: Collector, url: str, tmp_path) -> None:
    """All turn bad, and to 9 hours, in the second week: that shows in the third, not before."""
    lines = ["who,week,mood,hours"]
    for week, (mood, hours) in zip(WEEKS, [("good", 1)] + [("bad", 9)] * 3, strict=True):
        lines += [f"{who},{week},{mood},{hours}" for who in range(400)]
    (tmp_path / "people.csv").write_text("\n".join(lines))
    words = ("--period-column", "week", "--device-column", "who", "--json")
    sent = json.loads(murmur("send", url, tmp_path / "people.csv", *words).stdout)
    assert sent["stored"] == 1600
    shown = []
    for week in WEEKS:
        found = server.about("spells", f"estimates?period={week}").json["estimates"]
        shown.append([found[0]["value"], found[-1]["value"]])
    for good, hours in shown[:2]:
        assert good > 0.8
        assert hours < 3
    for good, hours in shown[2:]:
        assert good < 0.2
        assert hours > 7
