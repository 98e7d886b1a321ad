"""Devices against a real collector: charged before sent, same bytes on every try, counted once."""

from __future__ import annotations

import csv
import dataclasses
import json
import logging
import math
import os
import re
import signal
import textwrap
import traceback
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from murmuration import system_rng
from murmuration.definition import document as campaign_document
from murmuration.device import Client, Ledger, Patience, Receipt
from murmuration.device.sending import Link, outcomes
from murmuration.device.survey import SurveyReport
from murmuration.device.words import DeviceWords
from murmuration.errors import (
    BudgetError,
    FormatError,
    InputError,
    MurmurationError,
    ParameterError,
    PromiseError,
    SendError,
)
from murmuration.exact.keyed import Key
from murmuration.lab.fleet import Sent, send_all
from murmuration.wire import report
from murmuration.wire.address import Address
from murmuration.wire.http import Answer, connect
from murmuration.wire.ids import new_ids
from tests.support import warm
from tests.support.accounts import campaign_of
from tests.support.between import answering, cutting_proxy, free_port
from tests.support.collectors import Collection, Collector, running

LABELS = [f"model-{number}" for number in range(40)]
PHONES = f"""
name = "phones"
purpose = "Which phones to test on."
epsilon = 1.0
cohort = 100

[[attributes]]
name = "phone"
kind = "category"
labels = {json.dumps(LABELS)}
mechanism = "oue"

[[attributes]]
name = "age"
low = 18
high = 98
mechanism = "piecewise"
"""
PLANNED = re.sub("mechanism = .*", "", PHONES)
"""The same, where the planner chooses, which takes a moment."""
DAILY = """
name = "daily"
purpose = "How people feel, every day."
epsilon = 1.0
lifetime = 4.0

[repeat]
permanent = 2.0
rounds = 40
values = 2

[[attributes]]
name = "mood"
kind = "category"
labels = ["good", "bad", "neither"]
"""
LEVELED = """
name = "leveled"
purpose = "Ages at the level that people pick."
epsilon = 3.0
strategy = "split"

[levels]
high = "1/3"
low = 1.0

[[attributes]]
name = "age"
low = 18
high = 98
mechanism = "duchi"

[[attributes]]
name = "height"
low = 100
high = 220
outside = "refuse"
mechanism = "duchi"
"""
ANSWERS = {"phone": "model-3", "age": 44}
CANARY, NUMBER, TOKEN = "canary-in-a-coal-mine", 61.618033988, "murmur_" + "t0ken" * 6
STORED = json.dumps({"received": 1, "stored": 1, "failures": []}).encode()


GUARDED = PHONES.replace('"phones"', '"guarded"').replace("cohort = 100", 'upload = "token"')


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collector]:
    store = tmp_path_factory.mktemp("device") / "store.db"
    with running(store, PHONES, DAILY, LEVELED, GUARDED) as found:
        yield found


@pytest.fixture
def phones(collector: Collector) -> Collection:
    return collector.collection("phones")


@pytest.fixture
def daily(collector: Collector) -> Collection:
    return collector.collection("daily")


@pytest.fixture
def leveled(collector: Collector) -> Collection:
    return collector.collection("leveled")


@pytest.fixture
def guarded(collector: Collector) -> Collection:
    """Only devices with a token send there."""
    return collector.collection("guarded")


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.fixture
def document(tmp_path: Path) -> Path:
    """The published document of `phones`, in a file."""
    return published(tmp_path, PHONES)


def published(folder: Path, text: str) -> Path:
    path = folder / "document.json"
    path.write_bytes(campaign_document.publish(campaign_of(text)))
    return path


class Clock:
    """Waits without waiting, and remembers for how long."""

    def __init__(self) -> None:
        self.waits: list[float] = []

    def patience(self, **other) -> Patience:
        return Patience(sleep=self.waits.append, **other)


def problem(name: str, status: int = 0) -> bytes:
    return json.dumps({"type": f"/problems/{name}", "title": "x", "status": status}).encode()


# --- one report ------------------------------------------------------------------------------


def test_a_report_is_stored_and_counted_once(phones: Collection, ledger: Path) -> None:
    before = phones.status()
    client = Client(phones.url, ledger, lifetime=5.0)
    first = client.report(ANSWERS)
    assert (first.outcome, first.delivered, first.epsilon) == ("stored", True, 1.0)
    again = client.report({"phone": "model-9", "age": 20})  # asked once: answered once
    other = Client(phones.url, ledger).report(ANSWERS)
    assert first.new
    assert again == other == dataclasses.replace(first, new=False)  # and the receipt says so
    after = phones.status()
    assert after["received"] == before["received"] + 1
    assert after["people"] == before["people"] + 1
    assert after["balanced"]
    assert client.ledger.spent() == 1.0
    assert client.resend() == []


def test_from_a_document_and_from_a_campaign_file(phones: Collection, tmp_path: Path) -> None:
    toml = tmp_path / "campaign.toml"
    toml.write_text(PHONES)
    for source in (published(tmp_path, PHONES), toml):
        client = Client(source, tmp_path / f"{source.name}.db", send_to=phones.url + "/")
        assert client.report(ANSWERS).outcome == "stored"
    aimless = Client(toml, tmp_path / "aimless.db")
    with pytest.raises(ParameterError, match="send_to"):
        aimless.report(ANSWERS)
    with pytest.raises(ParameterError, match="send_to"):
        aimless.resend()
    assert aimless.ledger.entries() == []


@pytest.mark.filterwarnings("ignore::murmuration.errors.MisfitWarning")
def test_the_clamp_rule_is_applied_and_the_refuse_rule_refuses(
    phones: Collection, leveled: Collection, ledger: Path, tmp_path: Path
) -> None:
    assert Client(phones.url, ledger).report({"phone": "model-0", "age": 1e9}).delivered
    outside = {"age": 30, "height": 900}
    assert Client(leveled.url, tmp_path / "loud.db", level="low").report(outside).delivered
    before = leveled.received
    client = Client(leveled.url, tmp_path / "other.db", level="low", refuse_outside=True)
    for bad in ({"age": 30, "height": 900}, {"age": 30}, {"age": 30, "height": None}):
        with pytest.raises(InputError):
            client.report(bad)
    with pytest.raises(InputError):
        client.report({"age": 30, "height": 170, "weight": 70})
    assert client.ledger.entries() == []
    assert leveled.received == before


# --- lost answers ------------------------------------------------------------------------------


def test_a_lost_answer_is_asked_for_again_with_the_same_bytes(
    phones: Collection, ledger: Path
) -> None:
    before = phones.status()
    with cutting_proxy(phones.url, cuts=2) as seen:
        client = Client(seen.url, ledger)
        with pytest.raises(SendError, match="kept"):
            client.report(ANSWERS)
        assert len(client.ledger.pending()) == 1
        with pytest.raises(SendError):
            client.report({"phone": "model-1", "age": 90})
        (receipt,) = client.resend()
    assert receipt.outcome == "duplicate"  # it had arrived the first time
    assert receipt.delivered
    assert len(seen.bodies) == 3
    assert len(set(seen.bodies)) == 1
    after = phones.status()
    assert after["people"] == before["people"] + 1
    assert after["outcomes"]["duplicate"] == before["outcomes"].get("duplicate", 0) + 2
    assert client.ledger.spent() == 1.0
    assert client.ledger.pending() == []


def test_killed_between_charge_and_send(phones: Collection, ledger: Path) -> None:
    before = phones.status()
    dying = """
        import os, signal, sys
        from murmuration.device import Client, client
        client.deliver = lambda *given: os.kill(os.getpid(), signal.SIGKILL)
        Client(sys.argv[1], sys.argv[2]).report({"phone": "model-3", "age": 44})
    """
    done = warm.run(textwrap.dedent(dying), phones.url, ledger)
    assert done.returncode == -signal.SIGKILL
    assert phones.received == before["received"]
    (kept,) = Ledger(ledger).pending()
    receipt = Client(phones.url, ledger).report(ANSWERS)
    assert receipt.outcome == "stored"
    assert Ledger(ledger).entries()[0].report == kept.report
    assert receipt.report_id == kept.report_id.hex()
    assert phones.status()["people"] == before["people"] + 1
    assert Ledger(ledger).spent() == 1.0


def test_killed_between_send_and_acknowledge(phones: Collection, ledger: Path) -> None:
    before = phones.status()
    dying = """
        import os, signal, sys
        from murmuration.device import Client
        from murmuration.device.ledger import Session
        Session.acknowledge = lambda *given: os.kill(os.getpid(), signal.SIGKILL)
        Client(sys.argv[1], sys.argv[2]).report({"phone": "model-3", "age": 44})
    """
    done = warm.run(textwrap.dedent(dying), phones.url, ledger)
    assert done.returncode == -signal.SIGKILL
    (receipt,) = Client(phones.url, ledger).resend()
    assert receipt.outcome == "duplicate"
    assert phones.status()["people"] == before["people"] + 1
    assert Ledger(ledger).spent() == 1.0


def test_nobody_there(document: Path, ledger: Path) -> None:
    url = f"http://127.0.0.1:{free_port()}/v1/campaigns/phones"
    with pytest.raises(SendError, match="Connection refused"):
        Client(url, ledger)
    clock = Clock()
    client = Client(document, ledger, send_to=url, patience=clock.patience())
    with pytest.raises(SendError, match="Connection refused"):
        client.report(ANSWERS)
    assert clock.waits == []  # the network is not the collector: it is not tried again
    assert len(client.ledger.pending()) == 1


# --- fresh noise on a retry: the check, and the bug that it must see ---------------------------


def check_retries_send_the_same_bytes(kind: type[Client], document: Path, ledger: Path) -> None:
    """Whatever goes wrong ten times, all that ever leaves the device is one string of bytes."""
    ways = [(500, {}, problem("internal")), (503, {}, b""), (200, {}, b"nonsense"), (302, {}, b"")]
    with answering(lambda number, body: ways[number % 4] if number < 12 else (200, {}, STORED)) as (
        seen
    ):
        for _ in range(20):
            client = kind(document, ledger, send_to=seen.url, patience=Clock().patience(attempts=2))
            try:
                receipt = client.report(ANSWERS)
                break
            except SendError:
                continue
    assert receipt.outcome == "stored"
    assert len(seen.bodies) == 13
    assert len(set(seen.bodies)) == 1, "a retry sent other bytes"
    assert client.ledger.spent() == 1.0


class FreshNoiseOnRetry(Client):
    """The bug: the report is made again, with the same id, each time that it is sent."""

    def _encoded(self, answers, words):
        self.columns = super()._encoded(answers, words)
        return self.columns

    def _sent(self, session, entry):
        words = dataclasses.replace(self._words(session), key=Key.new())
        made = SurveyReport(self.campaign, words, session.record, "")
        rows, _ = made.drawn(self.columns, None)
        name = np.frombuffer(entry.report_id, dtype=np.uint8)[None]
        fresh = report.to_json(self.campaign.form, name, rows)
        return super()._sent(session, dataclasses.replace(entry, report=fresh))


def test_retries_send_the_same_bytes(document: Path, ledger: Path) -> None:
    check_retries_send_the_same_bytes(Client, document, ledger)


def test_fresh_noise_on_a_retry_is_caught(document: Path, ledger: Path) -> None:
    with pytest.raises(AssertionError, match="a retry sent other bytes"):
        check_retries_send_the_same_bytes(FreshNoiseOnRetry, document, ledger)


# --- budgets -----------------------------------------------------------------------------------


def test_overspending_is_refused_and_nothing_is_sent(
    phones: Collection, leveled: Collection, ledger: Path
) -> None:
    assert Client(phones.url, ledger, lifetime=3.5).report(ANSWERS).delivered
    before = leveled.received
    client = Client(leveled.url, ledger, level="low")
    with pytest.raises(BudgetError, match="lifetime") as refused:
        client.report({"age": 30, "height": 170})
    assert refused.value.reason == "lifetime"
    assert leveled.received == before
    assert client.ledger.spent() == 1.0
    assert client.ledger.pending() == []
    assert client.report({"age": 30, "height": 170}, level="high").epsilon == pytest.approx(1.0)


def test_a_lower_limit_is_kept_and_a_higher_one_is_not(document: Path, ledger: Path) -> None:
    shared = Ledger(ledger, lifetime=5.0)
    Client(document, shared, lifetime=2.0, per_collector=1.5, per_report=1.0)
    for higher in (shared, ledger):
        with pytest.warns(UserWarning, match="the lifetime limit stays 2, not 9: only the person"):
            Client(document, higher, lifetime=9.0)
    assert shared.limits() == {"report": 1.0, "collector": 1.5, "lifetime": 2.0}
    with pytest.raises(ParameterError, match="not twice"):
        Client(document, shared, secret=bytes(32))


def test_another_version_of_a_campaign_has_no_budget_of_its_own(
    phones: Collection, ledger: Path, tmp_path: Path
) -> None:
    """Published anew with another law, it is another collection under the same name's limit."""
    assert Client(phones.url, ledger).report(ANSWERS).delivered
    changed = published(tmp_path, PHONES.replace("epsilon = 1.0", "epsilon = 0.9"))
    before = phones.received
    with pytest.raises(BudgetError) as refused:
        Client(changed, ledger, send_to=phones.url).report(ANSWERS)
    assert refused.value.reason == "campaign"
    roomy = PHONES.replace("epsilon = 1.0", "epsilon = 0.9\nlifetime = 2.0")
    assert phones.received == before
    client = Client(published(tmp_path, roomy), ledger, send_to=phones.url)
    assert client.report(ANSWERS).outcome == "refused:unknown-digest"
    assert client.ledger.spent("phones") == 1.9  # it has left the device


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.1, 0.3, 0.7, 1.1])
@pytest.mark.parametrize("strategy", ["sample", "split"])
def test_a_budget_of_exactly_one_report_is_enough(
    tmp_path: Path, epsilon: float, strategy: str
) -> None:
    text = PLANNED.replace("epsilon = 1.0", f'epsilon = {epsilon}\nstrategy = "{strategy}"')
    away = {"send_to": "https://collector.example/v1/campaigns/phones"}
    client = Client(published(tmp_path, text), tmp_path / "l.db", lifetime=epsilon, **away)
    assert Fraction(0) < client.most <= Fraction(str(epsilon))
    with client.ledger.session() as session, session.deciding():
        words = client._words(session)
        made, _ = client._reserved(session, words, client._encoded(ANSWERS, words), None, "")
    assert made.cost == client.most


def test_an_infinite_loss_is_charged_as_such(tmp_path: Path) -> None:
    words = "an infinite loss where 1.0 is promised"
    text = f"""
        name = "broken"
        purpose = "to be compared with"
        epsilon = 1.0
        accept_loss = "{words}"
        [[attributes]]
        name = "age"
        low = 0
        high = 100
        mechanism = "dct"
    """
    document = published(tmp_path, text)
    with answering(lambda number, body: (200, {}, STORED)) as seen:
        with pytest.raises(PromiseError, match="an infinite loss"):
            Client(document, tmp_path / "a.db", send_to=seen.url)
        agreed = {"send_to": seen.url, "accept_loss": words}
        careful = Client(document, tmp_path / "a.db", **agreed)
        with pytest.raises(BudgetError):
            careful.report({"age": 3})
        assert seen.bodies == []
        ledger = Ledger(tmp_path / "b.db")
        for name in ledger.limits():
            ledger.raise_limit(name, math.inf)
        careless = Client(document, ledger, **agreed)
        assert careless.report({"age": 3}).epsilon == math.inf


def test_a_closed_campaign_and_a_missing_token_cost_nothing(tmp_path: Path, ledger: Path) -> None:
    with answering(lambda number, body: (200, {}, STORED)) as seen:
        for line in ("closes = 2001-01-01T00:00:00Z", 'upload = "token"'):
            text = PHONES.replace("cohort = 100", line)
            client = Client(published(tmp_path, text), ledger, send_to=seen.url)
            with pytest.raises(ParameterError, match="Nothing was sent"):
                client.report(ANSWERS)
        assert seen.bodies == []
    assert Ledger(ledger).entries() == []


def test_a_document_that_was_changed_is_refused(document: Path, ledger: Path) -> None:
    document.write_bytes(document.read_bytes().replace(b"model-7", b"model-x"))
    with pytest.raises(FormatError, match="digest"):
        Client(document, ledger)


# --- a busy collector --------------------------------------------------------------------------


def test_backs_off_with_jitter_and_sends_the_same_bytes(document: Path, ledger: Path) -> None:
    busy = [(503, {"Retry-After": "2"}, b""), (429, {}, b"<html>"), (503, {}, b""), (429, {}, b"")]

    def answer(number: int, body: bytes):
        return busy[number] if number < 4 else (200, {}, STORED)

    all_waits = []
    for turn in range(3):
        clock = Clock()
        with answering(answer) as seen:
            client = Client(
                document, f"{ledger}{turn}", send_to=seen.url, patience=clock.patience(first=1.0)
            )
            assert client.report(ANSWERS).outcome == "stored"
        assert len(seen.bodies) == 5
        assert len(set(seen.bodies)) == 1
        assert client.ledger.spent() == 1.0
        assert 2 <= clock.waits[0] <= 3  # what the collector asked for, and jitter on top
        assert all(0 <= w <= 2**n for n, w in enumerate(clock.waits) if n)
        all_waits.append(tuple(clock.waits))
    assert len(set(all_waits)) == 3


@pytest.mark.slow
def test_waits_for_real(document: Path, ledger: Path) -> None:
    with answering(
        lambda n, body: (200, {}, STORED) if n else (503, {"Retry-After": "1"}, b"")
    ) as (seen):
        Client(document, ledger, send_to=seen.url, patience=Patience(first=0.1)).report(ANSWERS)
    assert seen.times[1] - seen.times[0] >= 1


def test_gives_up_on_a_collector_that_stays_busy(document: Path, ledger: Path) -> None:
    clock = Clock()
    with answering(lambda number, body: (503, {}, problem("overloaded"))) as seen:
        client = Client(document, ledger, send_to=seen.url, patience=clock.patience(attempts=4))
        with pytest.raises(SendError, match="busy"):
            client.report(ANSWERS)
    assert len(seen.bodies) == 4
    assert len(clock.waits) == 3
    assert len(client.ledger.pending()) == 1
    with answering(lambda number, body: (429, {"Retry-After": "86400"}, b"")) as seen:
        client = Client(document, ledger, send_to=seen.url, patience=clock.patience())
        with pytest.raises(SendError, match="busy"):
            client.report(ANSWERS)  # told to come back tomorrow: it does not come back sooner
    assert len(seen.bodies) == 1


@pytest.mark.parametrize(
    ("status", "name"), [(400, "unreadable-body"), (422, "malformed"), (413, "too-large")]
)
def test_an_answer_about_the_report_is_final(
    document: Path, ledger: Path, status: int, name: str
) -> None:
    clock, ours = Clock(), {"Content-Type": "application/problem+json"}
    with answering(lambda number, body: (status, ours, problem(name, status))) as seen:
        client = Client(document, ledger, send_to=seen.url, patience=clock.patience())
        assert client.report(ANSWERS).outcome == f"refused:{name}"
        assert not client.report(ANSWERS).delivered
        assert client.resend() == []
    assert len(seen.bodies) == 1
    assert clock.waits == []


def test_reasons_are_taken_from_the_answer_only_if_they_are_names(
    document: Path, tmp_path: Path
) -> None:
    for place, body in enumerate(
        [b"<html>", problem("\x1b[31m evil"), b"[]", b"\xff", problem("")]
    ):
        with answering(lambda number, sent, body=body: (422, {}, body)) as seen:
            client = Client(document, tmp_path / f"{place}.db", send_to=seen.url)
            with pytest.raises(SendError, match=r"did not take it: http-422\."):
                client.report(ANSWERS)


def test_a_fault_that_is_not_about_the_report_leaves_it_pending(
    document: Path, ledger: Path
) -> None:
    """A wrong token, a wrong address, a proxy's or a collector's fault: not tried again by itself,
    and not lost either."""
    clock, away = Clock(), {"Location": "http://127.0.0.1:1/"}
    faults = [301, 401, 403, 404, 408, 500, 502, 504, 507]

    def answer(number: int, body: bytes):
        return (faults[number], away, problem("x")) if faults[number:] else (200, {}, STORED)

    with answering(answer) as seen:
        client = Client(document, ledger, send_to=seen.url, patience=clock.patience())
        for sent, _ in enumerate(faults, 1):
            with pytest.raises(SendError, match="did not take it: x"):
                client.report(ANSWERS)
            assert len(seen.bodies) == sent
        assert [receipt.outcome for receipt in client.resend()] == ["stored"]
    assert client.ledger.spent() == 1.0
    assert clock.waits == []


def test_the_collectors_own_refusal(tmp_path: Path, phones: Collection) -> None:
    changed = published(tmp_path, PHONES.replace("epsilon = 1.0", "epsilon = 0.8"))
    client = Client(changed, tmp_path / "l.db", send_to=phones.url)
    assert client.report(ANSWERS).outcome == "refused:unknown-digest"


def test_tokens(guarded: Collection, ledger: Path) -> None:
    before = guarded.status()
    with pytest.raises(SendError, match="unauthorized"):
        Client(guarded.url, ledger, token=TOKEN).report(ANSWERS)
    assert guarded.status() == before
    client = Client(guarded.url, ledger, token=guarded.admin)
    assert client.report(ANSWERS).outcome == "stored"
    assert guarded.status()["people"] == before["people"] + 1
    assert guarded.admin not in repr(client)
    with pytest.raises(ParameterError) as refused:
        Link(client.address, "secret\r\nHost: elsewhere")
    assert "secret" not in str(refused.value)


# --- addresses and answers -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        *("http://10.0.0.1/v1/campaigns/x", "http://collector.example/v1/campaigns/x"),
        *("ftp://localhost/x", "https:///x", "https://user:hunter2@host/x", "https://host/x?a=b"),
        *("https://host/x#y", "https://host/x y", "https://host:99999/x", "http://[::1/x"),
        "https://host/\r\nx",
    ],
)
def test_addresses_that_are_refused(url: str) -> None:
    with pytest.raises(ParameterError) as refused:
        Address.parse(url)
    assert "hunter2" not in str(refused.value)


def test_addresses() -> None:
    assert str(Address.parse("https://host/v1/campaigns/x/")) == "https://host/v1/campaigns/x"
    assert str(Address.parse("http://[::1]:8750/x")) == "http://[::1]:8750/x"
    assert Address.parse("http://10.0.0.1/x", allow_plain_http=True).port == 80
    assert connect(Address.parse("https://host/x"), 1.0).port == 443


@pytest.mark.parametrize(
    "data",
    [
        *({"received": 2, "stored": 2, "failures": []}, {"received": 1, "stored": 0}),
        {"received": 1, "stored": 0, "failures": []},
        {"received": 1, "stored": 1, "failures": [{"index": 0, "type": "/problems/x"}]},
        {"received": 1, "stored": -1, "failures": [{"index": n, "type": "x"} for n in (0, 1)]},
        {"received": 1, "stored": 0, "failures": [{"index": 0, "type": "x"}] * 2},
    ],
)
def test_an_answer_that_does_not_add_up_settles_nothing(data) -> None:
    with pytest.raises(SendError):
        outcomes(Answer(200, json.dumps(data).encode()), 1)


def test_retry_after_as_a_date(document: Path, ledger: Path) -> None:
    for text, fine in (("Wed, 21 Oct 2015 07:28:00 GMT", True), ("soon", True)):
        clock = Clock()
        busy = (503, {"Retry-After": text}, b"")
        with answering(lambda n, body, busy=busy: (200, {}, STORED) if n else busy) as seen:
            client = Client(
                document, f"{ledger}{text}", send_to=seen.url, patience=clock.patience()
            )
            assert client.report(ANSWERS).delivered is fine
        assert 0 <= clock.waits[0] <= 0.5


# --- levels and rounds ---------------------------------------------------------------------------


def test_levels(leveled: Collection, tmp_path: Path) -> None:
    answers = {"age": 30, "height": 170}
    costs = [
        Client(leveled.url, tmp_path / f"{n}.db").report(answers, level=level).epsilon
        for n, level in enumerate(["high", "low", {"age": "high", "height": "low"}])
    ]
    assert costs == pytest.approx([1.0, 3.0, 2.0])
    client = Client(leveled.url, tmp_path / "x.db")
    for bad in (None, "middle", {"age": "high"}):
        with pytest.raises(InputError):
            client.report(answers, level=bad)
    assert client.ledger.entries() == []
    assert leveled.status()["people"] >= 3


def test_a_level_where_there_is_none_and_a_round_where_there_is_none(
    phones: Collection, ledger: Path
) -> None:
    client = Client(phones.url, ledger)
    with pytest.raises(InputError, match="no levels"):
        client.report(ANSWERS, level="high")
    with pytest.raises(ParameterError, match="asked once"):
        client.report(ANSWERS, period="2")
    assert client.ledger.entries() == []


def test_a_permanent_answer_is_charged_once_for_thirty_rounds(
    daily: Collection, ledger: Path
) -> None:
    before = daily.received
    client = Client(daily.url, ledger, lifetime=10.0)
    costs = [client.report({"mood": "good"}, period=f"day {n}").epsilon for n in range(30)]
    assert costs == [2.0] + [0.0] * 29
    assert client.report({"mood": "bad"}, period="day 30").epsilon == 2.0
    assert client.report({"mood": "good"}, period="day 31").epsilon == 0.0
    with pytest.raises(BudgetError) as refused:  # the campaign's limit is 4: two values
        client.report({"mood": "neither"}, period="day 32")
    assert refused.value.reason == "campaign"
    assert daily.received == before + 32
    assert client.ledger.spent() == 4.0
    same = client.report({"mood": "neither"}, period="day 3")
    assert same.period == "day 3"  # made on that day: nothing new
    assert daily.received == before + 32


def test_the_reports_of_thirty_rounds_are_noise_on_one_answer(tmp_path: Path) -> None:
    """Enough rounds tell the permanent answer, and it is the one in the ledger: drawn once."""
    text = DAILY.replace("epsilon = 1.0", "epsilon = 1.9")
    told = []

    def answer(number: int, body: bytes):
        told.append(json.loads(body)["entries"][0][1])
        return 200, {}, STORED

    with answering(answer) as seen:
        client = Client(published(tmp_path, text), tmp_path / "l.db", send_to=seen.url)
        for n in range(40):
            client.report({"mood": "good"}, period=str(n))
    (law,) = client.campaign.frame.cells
    words = DeviceWords(client.ledger.key, client.address.origin, client.campaign.digest)
    kept = law.remember([0], words.permanent(0, law.domain.written(np.array([0]))))
    assert np.bincount(told).argmax() == kept[0]
    assert len(set(seen.bodies)) == 40


def test_a_device_answers_no_more_often_than_the_campaign_says(
    tmp_path: Path, ledger: Path
) -> None:
    document = published(tmp_path, DAILY.replace("rounds = 40", "rounds = 3"))
    with answering(lambda number, body: (200, {}, STORED)) as seen:
        client = Client(document, ledger, send_to=seen.url)
        for turn in "abcab":
            assert client.report({"mood": "good"}, period=turn).delivered
        with pytest.raises(BudgetError, match="3 times") as refused:
            client.report({"mood": "good"}, period="d")
    assert refused.value.reason == "max_reports"
    assert len(seen.bodies) == 3


def test_today_is_the_round_unless_told_otherwise(daily: Collection, ledger: Path) -> None:
    client = Client(daily.url, ledger)
    first = client.report({"mood": "good"})
    assert len(first.period) == len("2026-11-15")
    again = client.report({"mood": "good"}, period=first.period)
    assert (first.epsilon, again) == (2.0, dataclasses.replace(first, epsilon=0.0, new=False))
    assert len(client.ledger.entries()) == 1


# --- for the person ------------------------------------------------------------------------------


def test_a_preview_sends_charges_and_keeps_nothing(phones: Collection, ledger: Path) -> None:
    before = phones.received
    client = Client(phones.url, ledger, lifetime=5.0)
    texts = {client.preview(ANSWERS) for _ in range(20)}
    assert len(texts) > 1
    for part in ("Which phones to test on.", phones.url, "EXAMPLE", "thrown away", "1 of these"):
        assert all(part in text for text in texts)
    assert phones.received == before
    assert client.ledger.entries() == []
    client.report(ANSWERS)
    sent = client.ledger.entries()[0].report.decode()
    assert sent in client.preview(ANSWERS)
    assert "EXAMPLE" not in client.preview(ANSWERS)
    client.ledger.forget_sent()
    assert "nothing more is sent" in client.preview(ANSWERS)


def test_a_preview_of_a_repeated_question_draws_no_permanent_answer(
    daily: Collection, ledger: Path
) -> None:
    client = Client(daily.url, ledger)
    client.preview({"mood": "good"})
    assert client.ledger.permanent() == {}
    client.ledger.raise_limit("lifetime", math.inf)
    assert "Left for all campaigns: no limit" in client.preview({"mood": "good"})


# --- what must not be seen -----------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::murmuration.errors.MisfitWarning")
def test_no_value_and_no_token_in_errors_logs_or_files(tmp_path: Path, caplog) -> None:
    caplog.set_level(logging.DEBUG)
    text = DAILY.replace('"neither"', f'"{CANARY}"').replace("lifetime = 4.0", "lifetime = 2.0")
    numbers = LEVELED.replace('[levels]\nhigh = "1/3"\nlow = 1.0\n', "")
    document, other = published(tmp_path, text), tmp_path / "numbers.json"
    other.write_bytes(campaign_document.publish(campaign_of(numbers)))
    told, ways = [], [(503, {}, b""), (500, {}, b""), (422, {}, problem("x")), (200, {}, STORED)]

    def tried(act) -> None:
        try:
            told.append(repr(act()))
        except MurmurationError as failure:
            told.append("".join(traceback.format_exception(failure)) + repr(failure))

    with answering(lambda number, body: ways[number % 4]) as seen:
        given = {"send_to": seen.url, "token": TOKEN, "patience": Clock().patience(attempts=1)}
        moods = Client(document, tmp_path / "l.db", **given)
        for turn in range(8):
            tried(lambda turn=turn: moods.report({"mood": CANARY}, period=str(turn)))
        tried(lambda: moods.report({"mood": "good"}, period="9"))
        tried(lambda: moods.report({"mood": [CANARY]}, period="10"))
        tried(lambda: moods.report({"mood": CANARY + "x"}, period="11"))
        tried(lambda: moods.report({"mood": CANARY}, level=CANARY, period="12"))
        tall = Client(other, tmp_path / "l.db", **given)
        for height in (NUMBER, str(NUMBER), f"{NUMBER} cm", [NUMBER], {NUMBER: NUMBER}, math.nan):
            tried(lambda height=height: tall.report({"age": NUMBER, "height": height}))
        tried(lambda: tall.report({"age": NUMBER, "height": 180}))
    gone = free_port()
    absent = Client(document, tmp_path / "m.db", send_to=f"http://127.0.0.1:{gone}/x", token=TOKEN)
    tried(lambda: absent.report({"mood": CANARY}))
    tried(lambda: absent.resend())
    assert any("BudgetError" in text for text in told)
    assert any("SendError" in text for text in told)
    assert any("InputError" in text for text in told)
    files = b"".join(path.read_bytes() for path in tmp_path.glob("*.db*"))
    bodies = b"".join(seen.bodies)
    for secret in (CANARY, str(NUMBER), TOKEN):
        assert secret not in "".join(told) + caplog.text
        assert secret.encode() not in files
        assert secret.encode() not in bodies
    assert all(headers["Authorization"] == f"Bearer {TOKEN}" for headers in seen.headers)


# --- many devices --------------------------------------------------------------------------------


def crowd(people: int) -> tuple:
    campaign = campaign_of(PHONES)
    draw = np.random.default_rng(1)
    columns = campaign.encode(
        {"phone": draw.choice(LABELS, people).tolist(), "age": draw.uniform(18, 98, people)},
        system_rng(),
    )
    return campaign, new_ids(people), campaign.privatize(columns, system_rng())


@pytest.mark.parametrize("form", ["binary", "json"])
def test_a_fleet_is_counted_once(phones: Collection, form: str) -> None:
    before = phones.status()
    campaign, ids, rows = crowd(2500)
    steps: list[int] = []
    sent = send_all(
        phones.url,
        campaign.form,
        ids,
        rows,
        batch=300,
        progress=steps.append,
        form=form,
        connections=3,
    )
    assert (sent.stored, sent.duplicates, sent.refused, sent.unsent) == (2500, 0, {}, 0)
    assert sum(steps) == 2500
    assert sent.rate > 0
    again = send_all(phones.url, campaign.form, ids, rows, batch=1000, form=form)
    assert (again.stored, again.duplicates) == (0, 2500)
    assert (sent + again).answered == 5000
    after = phones.status()
    assert after["people"] == before["people"] + 2500
    assert after["balanced"]


def test_a_fleet_with_a_busy_collector_sends_the_same_bytes() -> None:
    campaign, ids, rows = crowd(50)
    clock, done = Clock(), json.dumps({"received": 10, "stored": 10, "failures": []}).encode()
    with answering(
        lambda n, body: (429 if n % 2 else 503, {}, b"") if n < 9 else (200, {}, done)
    ) as (seen):
        sent = send_all(
            *(seen.url, campaign.form, ids, rows),
            batch=10,
            connections=3,
            patience=clock.patience(attempts=20),
        )
    assert sent.stored == 50
    assert len(seen.bodies) == 14
    assert len(set(seen.bodies)) == 5
    assert len(clock.waits) == 9


def test_a_fleet_that_nobody_answers() -> None:
    campaign, ids, rows = crowd(50)
    url = f"http://127.0.0.1:{free_port()}/v1/campaigns/phones"
    sent = send_all(url, campaign.form, ids, rows, batch=10)
    assert (sent.unsent, sent.answered, sent.rate) == (50, 0, 0.0)
    assert "Connection refused" in sent.problem
    for wrong in ({"form": "xml"}, {"batch": 0}, {"batch": 20_000}, {"connections": 0}):
        with pytest.raises(ParameterError):
            send_all(url, campaign.form, ids, rows, **wrong)


def test_a_connection_that_was_closed_meanwhile_is_opened_again() -> None:
    with (
        answering(lambda number, body: (200, {}, STORED)) as seen,
        Link(Address.parse(seen.url)) as link,
    ):
        assert link.post(b"one", report.JSON).status == 200
        link._open.sock.shutdown(2)
        assert link.post(b"two", report.JSON).status == 200
    assert seen.bodies == [b"one", b"two"]


# --- the commands --------------------------------------------------------------------------------


def murmur(*arguments: str, code: int = 0, **more: str):
    done = warm.murmur(*arguments, env={**os.environ, "COLUMNS": "160", **more})
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done


def table(path: Path, header: list[str], rows: list) -> str:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return str(path)


@pytest.mark.slow
def test_send_plays_many_devices(phones: Collection, tmp_path: Path) -> None:
    rows = [[f"model-{n % 40}", 18 + n % 80, "x"] for n in range(2000)]
    rows += [["model-1", "", "x"], ["no such", 30, "x"], ["", 30, "x"], ["model-2"], []]
    rows += [[CANARY, 44, "x"], ["model-2", CANARY, "x"], ["model-3", 900, "x"]]
    data = table(tmp_path / "people.csv", ["phone", "age", "more"], rows)
    before = phones.status()
    done = murmur("send", phones.url, data, "--batch", "500", "--json")
    found = json.loads(done.stdout)
    assert (found["stored"], found["skipped"], found["refused"]) == (2003, 4, {})
    assert found["skipped_by"] == {"phone": 1, "age": 3}
    assert found["reports_per_second"] > 0
    assert "simulation" in done.stderr
    assert CANARY not in done.stdout + done.stderr
    after = phones.status()
    assert after["people"] == before["people"] + 2003
    toml = tmp_path / "campaign.toml"
    toml.write_text(PHONES)
    shown = murmur(
        *("send", str(toml), data, "--to", phones.url, "--format", "json", "--limit", "150")
    ).stdout
    assert "stored" in shown
    assert "150" in shown
    assert "reports/s" in shown
    assert phones.status()["people"] == before["people"] + 2153


@pytest.mark.slow
def test_send_from_parquet_and_with_levels(leveled: Collection, tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    people = {
        "age": [30.5, None, 40.0, 50.0, float("nan")],
        "height": [170, 180, 900, 160, 170],
        "level": ["high", "low", "low", "low", "low"],
    }
    path = tmp_path / "people.parquet"
    parquet.write_table(arrow.table(people), path)
    send = ("send", leveled.url, str(path), "--level-column", "level", "--json")
    assert json.loads(murmur(*send, code=2).stdout)["stored"] == 0  # 2 of 5 ages are missing
    found = json.loads(murmur(*send, "--allow-misfits", "0.4").stdout)
    assert (found["stored"], found["skipped"]) == (2, 3)
    assert "--level-column" in murmur("send", leveled.url, str(path), code=2).stderr
    text = tmp_path / "text.parquet"
    text.write_text("no parquet")
    murmur("send", leveled.url, str(text), "--level-column", "level", code=2)


@pytest.mark.slow
def test_send_says_what_is_wrong(phones: Collection, tmp_path: Path, document: Path) -> None:
    data = table(tmp_path / "people.csv", ["phone", "age"], [["model-1", 30]] * 5)
    assert "--to" in murmur("send", str(document), data, code=2).stderr
    murmur("send", phones.url, str(tmp_path / "none.csv"), code=2)
    murmur("send", str(tmp_path / "none.toml"), data, code=2)
    murmur("send", phones.url, data, "--level-column", "age", code=2)
    other = table(tmp_path / "other.csv", ["phone"], [["model-1"]])
    assert "'age'" in murmur("send", phones.url, other, code=2).stderr
    binary = tmp_path / "binary.csv"
    binary.write_bytes(b"phone,age\n\xff\xfe,3\n")
    murmur("send", phones.url, str(binary), code=2)
    url = f"http://127.0.0.1:{free_port()}/v1/campaigns/phones"
    lost = murmur("send", str(document), data, "--to", url, code=3)
    assert "nobody answered" in lost.stdout
    assert "Connection refused" in lost.stdout


def test_send_takes_a_token_from_the_environment(guarded: Collection, tmp_path: Path) -> None:
    data = table(tmp_path / "people.csv", ["phone", "age"], [["model-1", 30]] * 5)
    lost = murmur("send", guarded.url, data, code=3, MURMUR_TOKEN="")
    assert "unauthorized" in lost.stdout
    done = murmur("send", guarded.url, data, "--json", MURMUR_TOKEN=guarded.admin)
    assert json.loads(done.stdout)["stored"] == 5
    assert guarded.admin not in done.stdout + done.stderr


@pytest.mark.slow
def test_ledger_shows_what_was_spent_and_sent(
    phones: Collection, daily: Collection, ledger: Path
) -> None:
    Client(phones.url, ledger, lifetime=5.0).report(ANSWERS)
    Client(daily.url, ledger).report({"mood": "good"}, period="monday")
    shown = murmur("ledger", str(ledger)).stdout
    for part in ("phones", "Which phones to test on.", "monday", "stored", "0 of 5 is left"):
        assert part in shown
    assert "in the sum" in shown  # the permanent answer's cost is in no line
    found = json.loads(murmur("ledger", str(ledger), "--json").stdout)
    assert (found["spent"], found["remaining"]) == (3.0, 0.0)
    assert "2 is set aside for later reports" in shown
    assert found["limits"] == {"report": 4.0, "collector": 8.0, "lifetime": 5.0}
    origin = Address.parse(phones.url).origin
    assert found["campaigns"] == [
        {"collector": origin, "campaign": "daily", "spent": 2.0},
        {"collector": origin, "campaign": "phones", "spent": 1.0},
    ]
    assert [entry["outcome"] for entry in found["entries"]] == ["stored", "stored"]
    sent = Ledger(ledger).entries()[0].report.decode()
    assert found["entries"][0]["report"] == sent
    assert sent[:60] in murmur("ledger", str(ledger), "--reports").stdout


@pytest.mark.slow
def test_ledger_limits(document: Path, ledger: Path, tmp_path: Path) -> None:
    murmur("ledger", str(ledger), code=2)
    assert not ledger.exists()
    purpose = 'purpose = "[red]bold\\u001b[2J claims"'
    text = PHONES.replace('purpose = "Which phones to test on."', purpose)
    client = Client(published(tmp_path, text), ledger, send_to=f"http://127.0.0.1:{free_port()}/x")
    with pytest.raises(SendError):
        client.report(ANSWERS)
    shown = murmur("ledger", str(ledger)).stdout
    assert "not acknowledged" in shown
    assert "[red]bold" in shown
    assert "\x1b[2J" not in shown
    assert "15 of 16 is left (4 for one report, 8 for one collector)" in shown
    assert "1 of 2 is left" in murmur("ledger", str(ledger), "--limit", "lifetime=2").stdout
    assert "raise_limit" in murmur("ledger", str(ledger), "--limit", "lifetime=3", code=2).stderr
    assert "2 of 3 is left" in murmur("ledger", str(ledger), "--raise-limit", "lifetime=3").stdout
    shown = murmur("ledger", str(ledger), "--raise-limit", "lifetime=inf").stdout
    assert "no lifetime limit" in shown
    for wrong in ("lifetime", "lifetime=much", "monthly=3", "report=-1", "campaign=3"):
        assert "limit" in murmur("ledger", str(ledger), "--limit", wrong, code=2).stderr


def test_results_are_values() -> None:
    assert Sent() + Sent(unsent=2, problem="gone") == Sent(unsent=2, problem="gone")
    assert not Receipt("phones", "", "00", 1.0, "refused:malformed").delivered
