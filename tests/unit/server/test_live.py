"""Open dashboards: a state at once, another when something has changed, and one look for all."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from murmuration.analysis.estimates import estimates
from murmuration.campaign.survey import SurveyCampaign
from murmuration.collector.status import Status
from murmuration.collector.store import open_store
from murmuration.collector.survey import ServedSurvey, _arrived
from murmuration.counting.periods import pooled
from murmuration.definition.document import publish
from murmuration.exact.arrays import Rows
from murmuration.exact.randomness import seeded_rng
from murmuration.planning.choose import Attribute, plan
from murmuration.server import watch
from murmuration.server.live import Live
from murmuration.server.planner import planned
from murmuration.server.problems import Problem
from murmuration.server.watch import Watch
from tests.support.accounts import campaign_of, made
from tests.support.between import HOST
from tests.support.collectors import PETS, Collector, one, running, uploads

LIVE = "/v1/campaigns/pets/live"
FAST = {
    "murmuration.server.streams.TICK_SECONDS": 0.05,
    "murmuration.server.streams.BEAT_SECONDS": 0.4,
    "murmuration.server.access.REFRESH_SECONDS": 0.05,
}


class Stream:
    """An open dashboard."""

    def __init__(self, answer: http.client.HTTPResponse) -> None:
        self.answer = answer

    def next(self) -> tuple[str, Any]:
        """Return the next event and its data; a comment is an event without a name."""
        name, data = "", b""
        while (line := self.answer.readline().rstrip(b"\n")) or not (name or data):
            assert not self.answer.isclosed() or line, "the stream has ended"
            if line.startswith(b":"):
                data = line
            elif line.startswith(b"event: "):
                name = line[7:].decode()
            elif line.startswith(b"data: "):
                data = json.loads(line[6:])
        return name, data

    def state(self) -> dict[str, Any]:
        """Return the next state."""
        while (found := self.next())[0] != "state":
            pass
        return dict(found[1])


@contextmanager
def watching(server: Collector, token: str = "", source: str = HOST) -> Iterator[Stream]:
    line = http.client.HTTPConnection(HOST, server.port, timeout=30, source_address=(source, 0))
    headers = {"Authorization": f"Bearer {token or server.admin}", "Accept": "text/event-stream"}
    with closing(line):
        line.request("GET", LIVE, headers=headers)
        answer = line.getresponse()
        assert answer.status == 200, answer.read()
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["cache-control"] == "no-store"
        yield Stream(answer)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collector]:
    store = tmp_path_factory.mktemp("live") / "store.db"
    with running(store, PETS, constants=FAST, limits={"streams": 8}) as found:
        yield found


# --- the stream ----------------------------------------------------------------------------------


def test_a_dashboard_sees_reports_arrive(server: Collector) -> None:
    with watching(server) as stream:
        assert stream.next()[0] == "trail"
        before = stream.state()
        assert server.send("pets", uploads(campaign_of(PETS), 500)).json["stored"] == 500
        while (after := stream.state())["reports"] == before["reports"]:
            pass
        assert after["reports"] == before["reports"] + 500
        assert after["outcomes"]["stored"] == after["received"] == after["reports"]
        assert after["pace"]["per_hour"] > 0
        msgspec.convert(after, Live)
        server.send("pets", [{"wire": 1}])
        while (refused := stream.state())["received"] == after["received"]:
            pass
        assert sum(refused["outcomes"].values()) == refused["received"]
        assert refused["balanced"]


def test_all_dashboards_are_sent_the_same(server: Collector) -> None:
    """One look for all: to whoever watches, and to whoever asks once."""
    before = server.get(LIVE).json["received"]
    with watching(server) as some, watching(server) as others:
        server.send("pets", uploads(campaign_of(PETS), 300, seed=3))
        found = []
        for stream in (some, others):
            while (state := stream.state())["received"] == before:
                pass
            found.append((state["received"], state["at"], state["pace"]))
    assert found[0] == found[1]


def test_trails_are_sent_to_who_comes_later(server: Collector) -> None:
    server.send("pets", uploads(campaign_of(PETS), 300, seed=4))
    with watching(server) as stream:
        stream.state()
    with watching(server) as stream:
        name, found = stream.next()
    assert name == "trail"
    ages = [trail for trail in found["trails"] if trail["attribute"] == "age"]
    assert ages
    looks = ages[0]["looks"]
    assert [one["n"] for one in looks] == sorted({one["n"] for one in looks})


def test_nothing_new_is_a_heart_beat(server: Collector) -> None:
    with watching(server) as stream:
        stream.state()
        start = time.monotonic()
        stream.next()
        assert time.monotonic() - start < 5


def test_without_events_it_is_one_state(server: Collector) -> None:
    answer = server.get(LIVE)
    assert answer.headers["content-type"] == "application/json"
    assert answer.json["campaign"] == "pets"


def test_it_needs_an_analyst(server: Collector) -> None:
    for token in (None, server.token("device")):
        answer = server.ask("GET", LIVE, None, {"Accept": "text/event-stream"}, token)
        assert answer.status in (401, 403)


def test_a_stream_ends_with_its_token(server: Collector) -> None:
    token = server.token("analyst", "watcher")
    with watching(server, token) as stream:
        stream.state()
        with closing(open_store(server.store)) as store:
            store.expire_tokens("watcher")
        deadline = time.monotonic() + 10
        while stream.answer.readline():
            assert time.monotonic() < deadline


def test_streams_are_shared_out(server: Collector) -> None:
    """One address has half of them; another one still gets some."""
    with watching(server), watching(server), watching(server), watching(server):
        answer = server.ask("GET", LIVE, None, {"Accept": "text/event-stream"}, server.admin)
        assert answer.problem == "too-many-requests"
        with watching(server, source="127.0.0.9") as stream:
            assert stream.state()["campaign"] == "pets"
    deadline = time.monotonic() + 10
    while b"murmur_open_streams 0" not in server.get("/metrics").body:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_open_streams_do_not_hold_up_the_end(tmp_path: Path) -> None:
    with running(tmp_path / "store.db", PETS) as found, watching(found) as stream:
        stream.state()
        start = time.monotonic()
        found.stop()
        assert time.monotonic() - start < 5
        stream.answer.read()  # to its end, which is a whole one
        assert "ERROR" not in found.log


# --- the state -----------------------------------------------------------------------------------


def rows_of(campaign: SurveyCampaign, people: int) -> Rows:
    """Return reports; where there are levels, each is chosen by half of the people."""
    if campaign.levels is None:
        return made(campaign, people)[1]
    rng, phones = seeded_rng(9), ["android", "ios"] * (people // 2)
    levels = [*campaign.levels.names] * (people // len(campaign.levels))
    return campaign.privatize(campaign.encode({"phone": phones}, rng), rng, levels)


def state_of(text: str, people: int, truths: watch.Truths | None = None) -> tuple[Live, Any]:
    """Return the state of a campaign after so many people, and what `murmur estimate` says."""
    campaign = campaign_of(text)
    served = ServedSurvey(campaign, 1, publish(campaign), 1, frozenset())
    tallies = campaign.form.tallies(rows_of(campaign, people))
    status = Status(
        *(campaign.name, 1, campaign.digest, True, campaign.terms.cohort, campaign.terms.people),
        *(people, {"stored": people}, True, 0, people),
        reports=people,
        attributes=_arrived(campaign, pooled(campaign, tallies), pooled(campaign, tallies)),
    )
    return Watch(served, truths).state(status, tallies), estimates(campaign, tallies)


def test_a_state_has_the_figures_of_the_estimates() -> None:
    found, wanted = state_of(PETS, 4000, {"pet": {"cat": 0.25}})
    shown = {(card.name, one.item): one for card in found.attributes for one in card.figures}
    figures = {(one.attribute, one.item): one for one in wanted.estimates}
    assert set(shown) == {key for key, one in figures.items() if one.low is not None}
    for key, figure in shown.items():
        same = figures[key]
        assert (figure.value, figure.stderr, figure.low, figure.high) == (
            *(same.value, same.stderr, same.low, same.high),
        )
        assert figure.running is not None
        assert figure.running.low < figure.running.value < figure.running.high
        assert figure.running.high - figure.running.low > figure.high - figure.low
    bins = next(card for card in found.attributes if card.name == "sleep").bins
    assert [one.share for one in bins] == [one.value for one in wanted.estimates if one.low is None]
    assert (bins[0].low, bins[-1].high, len(bins)) == (0, 12, 16)
    assert shown["pet", "cat"].truth == 0.25
    assert found.demo


def test_raw_and_processed_shares_are_told_apart() -> None:
    found, _ = state_of(PETS, 4000)
    pet, age = (next(c for c in found.attributes if c.name == name) for name in ("pet", "age"))
    assert pet.steps == ["project_simplex"]
    assert sum(one.processed or 0.0 for one in pet.figures) == pytest.approx(1)
    assert age.steps == []
    assert age.figures[0].processed is None
    assert not found.demo


def test_what_too_few_have_answered_is_hidden() -> None:
    found, _ = state_of(PETS, 600)
    few, _ = state_of(PETS, 500)
    hidden = [card for card in few.attributes if card.hidden]
    for card in hidden:
        assert card.figures == [] == card.bins
        assert card.forecast.stderr is None
        assert card.answers < card.needed
    assert len(hidden) >= sum(card.hidden for card in found.attributes)


def test_the_forecast_is_what_comes_of_it() -> None:
    """The error at the planned people, from a quarter of them, is the one that they have then."""
    text = one("c", "people = 16000", epsilon=2)
    early, _ = state_of(text, 4000)
    late, _ = state_of(text, 16_000)
    forecast, then = early.attributes[0].forecast, late.attributes[0].forecast
    assert forecast.stderr == pytest.approx(then.stderr, rel=0.05)
    assert forecast.stderr < forecast.planned * 1.05
    assert forecast.half == pytest.approx(1.96 * forecast.stderr, rel=0.01)


def test_liars_move_it_as_far_as_the_planner_says() -> None:
    found, _ = state_of(one("c", "people = 16000"), 1000)
    liars, planned_row = found.attributes[0].liars, plan([Attribute("x", 3)], 1.0, 16_000).rows[0]
    assert planned_row.choice.mechanism.name == "grr"
    assert liars is not None
    assert liars.shift == pytest.approx(planned_row.malicious_shift)


LEVELS = one("c", "levels = { high = 0.5, low = 1 }", epsilon=4)


def test_levels_say_what_they_assume() -> None:
    found, _ = state_of(LEVELS, 2000)
    (card,) = found.attributes
    assert [(level.name, level.epsilon) for level in card.levels] == [("high", 2.0), ("low", 4.0)]
    assert sum(level.answers for level in card.levels) == card.answers
    assert "plain sum" in card.assumption
    assert "asked" in card.running_note


def test_of_many_labels_the_largest_are_sent() -> None:
    labels = json.dumps([f"city {place}" for place in range(5000)])
    text = f"""
name = "cities"
purpose = "Where."
epsilon = 4
cohort = 100
[[attributes]]
name = "city"
kind = "category"
labels = {labels}
"""
    found, _ = state_of(text, 2000)
    (card,) = found.attributes
    assert (card.labels, len(card.figures), card.left_out) == (5000, 20, 4980)
    values = [one.value for one in card.figures]
    assert values == sorted(values, reverse=True)
    assert "all at once" in card.figures[0].note
    assert len(msgspec.json.encode(found)) < 20_000


def test_tuples_have_figures_and_say_why_nothing_runs() -> None:
    text = PETS.replace('strategy = "sample"\nsample = 2', 'strategy = "harmony"')
    text = "\n".join(line for line in text.splitlines() if "mechanism" not in line)
    found, _ = state_of(text.replace('"distribution"', '"number"').replace("bins = 16", ""), 4000)
    for card in found.attributes:
        assert card.figures
        assert card.figures[0].running is None
        assert "together" in card.running_note


def test_trails_are_thinned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "MOST_LOOKS", 8)
    campaign = campaign_of(one("c"))
    served = ServedSurvey(campaign, 1, publish(campaign), 1, frozenset())
    seen, rows = Watch(served), made(campaign, 2000)[1]
    for n in range(200, 2000, 50):
        status = Status("c", 1, "", True, 100, 1000, n, {"stored": n}, True, 0, n, reports=n)
        seen.state(status, campaign.form.tallies(rows[:n]))
    looks = seen.trails().trails[0].looks
    assert 4 <= len(looks) <= 8
    assert (looks[0].n, looks[-1].n) == (200, 1950)


def test_distributions_are_fitted_in_turn() -> None:
    """One at a look, so that looks stay short; and each has its turn."""
    text = 'name = "c"\npurpose = "p"\nepsilon = 4\ncohort = 100\n' + "".join(
        f'[[attributes]]\nname = "{name}"\nkind = "distribution"\nlow = 0\nhigh = 1\nbins = 8\n'
        for name in ("first", "second")
    )
    campaign = campaign_of(text)
    seen = Watch(ServedSurvey(campaign, 1, publish(campaign), 1, frozenset()))
    rows, shapes = made(campaign, 1600)[1], []
    for n in (400, 800, 1200, 1600):
        status = Status("c", 1, "", True, 100, 1000, n, {"stored": n}, True, 0, n, reports=n)
        state = seen.state(status, campaign.form.tallies(rows[:n]))
        shapes.append([card.bins for card in state.attributes])
    changed = [
        [one != other for one, other in zip(before, after, strict=True)]
        for before, after in pairwise(shapes)
    ]
    assert changed == [[True, False], [False, True], [True, False]]


# --- the planner ---------------------------------------------------------------------------------


ASKED: dict[str, Any] = {
    "epsilon": 1.0,
    "people": 10_000,
    "name": "my-study",
    "attributes": [
        {"name": "age", "low": 18, "high": 98, "unit": "years"},
        {"name": "phone", "labels": ["android", "ios", "other"]},
    ],
}


def test_the_planner_says_what_murmur_plan_says() -> None:
    found = planned(json.dumps(ASKED).encode())
    wanted = plan([Attribute("age"), Attribute("phone", 3)], 1.0, 10_000).data()
    for row, same in zip(found.attributes, wanted["attributes"], strict=True):
        assert {name: getattr(row, name) for name in same} == same
    assert found.attributes[0].stderr_in_units == 40 * found.attributes[0].stderr
    campaign = campaign_of(found.file)
    assert (campaign.name, campaign.epsilon, campaign.terms.people) == ("my-study", 1.0, 10_000)
    assert [law.name for law in campaign.frame.cells] == [r.mechanism for r in found.attributes]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"epsilon": 0}, "epsilon"),
        ({"people": 0}, "people"),
        ({"attributes": []}, "length"),
        ({"attributes": [{"name": "x", "k": 1}]}, "2 to"),
        ({"attributes": [{"name": "x"}, {"name": "x"}]}, "different names"),
        ({"more": 1}, "more"),
        ({"sampling": "magic"}, "sampled by"),
    ],
)
def test_what_cannot_be_planned(change: dict[str, Any], said: str) -> None:
    with pytest.raises(Problem) as refused:
        planned(json.dumps({**ASKED, **change}).encode())
    assert refused.value.name == "bad-plan"
    assert said in refused.value.detail


def test_a_plan_without_a_file_says_why() -> None:
    found = planned(json.dumps({**ASKED, "name": "My Study!"}).encode())
    assert found.file == ""
    assert "name" in found.file_problem
    large = {**ASKED, "attributes": [{"name": "city", "k": 20_000}]}
    assert "10,000" in planned(json.dumps(large).encode()).file_problem
