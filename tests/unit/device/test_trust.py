"""What surrounds a device's reports tells nothing: origins, limits, restores, hostile collectors.

docs/threat-model.md names these tests.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import shutil
import socket
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec
import numpy as np
import pytest

from murmuration.definition import document as campaign_document
from murmuration.device import Client, Ledger, Patience
from murmuration.device.costs import LIMITS
from murmuration.device.sending import Link
from murmuration.device.words import DeviceWords, answered
from murmuration.errors import (
    BudgetError,
    FormatError,
    LedgerError,
    MismatchError,
    MurmurationError,
    ParameterError,
    SendError,
)
from murmuration.exact.keyed import Key
from murmuration.wire.address import Address
from tests.support.accounts import campaign_of
from tests.support.between import Seen, answering

STORED = json.dumps({"received": 1, "stored": 1, "failures": []}).encode()
PHONES = """
name = "phones"
purpose = "Which phones to test on."
epsilon = 1.0
[[attributes]]
name = "phone"
kind = "category"
labels = ["android", "ios", "other", "none"]
mechanism = "grr"
[[attributes]]
name = "age"
low = 18
high = 98
mechanism = "duchi"
"""
AGE = PHONES.replace(PHONES[PHONES.index("[[") : PHONES.rindex("[[")], "").replace(
    '"duchi"', '"piecewise"'
)
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
ANSWERS = {"phone": "ios", "age": 44}


def published(text: str) -> bytes:
    return campaign_document.publish(campaign_of(text))


@contextmanager
def collector(document: bytes | Callable[[int], bytes]) -> Iterator[Seen]:
    """A collector that publishes what it likes and takes everything; it remembers all bodies."""
    with answering(lambda number, body: (200, {}, STORED), document) as seen:
        yield seen


@contextmanager
def collectors(count: int, document: bytes) -> Iterator[list[Seen]]:
    """As many at once, so that each has a port, and an origin, of its own."""
    with ExitStack() as stack:
        yield [stack.enter_context(collector(document)) for _ in range(count)]


def at(seen: Seen, name: str = "phones") -> str:
    return seen.url.rpartition("/v1/")[0] + f"/v1/campaigns/{name}"


def outcome(client: Client, answers: dict | None = None) -> str:
    """What became of a report, or which limit forbade it."""
    try:
        return client.report(answers or ANSWERS).outcome
    except BudgetError as refused:
        return refused.reason


def unlimited(ledger: Ledger) -> Ledger:
    """The ledger of a person who has taken the limits away."""
    for name in LIMITS:
        ledger.raise_limit(name, math.inf)
    return ledger


def entries_of(bodies: list[bytes]) -> list:
    return [json.loads(body)["entries"] for body in bodies]


# --- one collector's business is no other's ------------------------------------------------------


def test_a_namesake_learns_nothing_from_silence(tmp_path: Path) -> None:
    """Twelve devices, six of which took part in a study: its namesake gets twelve reports."""
    with collector(published(PHONES)) as study, collector(published(PHONES)) as spy:
        for device in range(12):
            ledger = tmp_path / f"{device}.db"
            if device % 2:
                assert Client(at(study), ledger).report(ANSWERS).delivered
            assert Client(at(spy), ledger).report(ANSWERS).delivered
        assert len(study.bodies) == 6
        assert len(spy.bodies) == 12


def test_a_report_goes_to_the_collector_that_it_was_made_for(tmp_path: Path) -> None:
    """The same digest at two hosts: two reports, two entries, each with its own outcome."""
    ledger = tmp_path / "l.db"
    with collector(published(PHONES)) as one, collector(published(PHONES)) as two:
        document = tmp_path / "phones.json"
        document.write_bytes(published(PHONES))
        with answering(lambda number, body: (500, {}, b"")) as down:
            lost = Client(document, ledger, send_to=at(down))
            with pytest.raises(SendError):
                lost.report(ANSWERS)
        first = Client(at(one), ledger)
        assert first.resend() == []  # what was made for another host stays there
        receipts = [first.report(ANSWERS), Client(at(two), ledger).report(ANSWERS)]
        assert [receipt.outcome for receipt in receipts] == ["stored", "stored"]
        assert [len(one.bodies), len(two.bodies)] == [1, 1]
        ids = {json.loads(body)["id"] for body in (*one.bodies, *two.bodies, *down.bodies)}
        assert len(ids) == 3
    assert Ledger(ledger).spent() == 3.0
    assert len(lost.ledger.pending()) == 1


@pytest.mark.slow
def test_words_of_two_collectors_have_nothing_in_common(tmp_path: Path) -> None:
    """The same question at two hosts is answered with independent noise: both count in full."""
    with collectors(2, published(PHONES)) as hosts:
        for device in range(60):
            secret = hashlib.sha256(b"%d" % device).digest()
            for host in hosts:
                Client(at(host), tmp_path / f"{device}.db", secret=secret).report(ANSWERS)
        told = [one == two for one, two in zip(*(entries_of(h.bodies) for h in hosts), strict=True)]
    assert sum(told) < 40  # the same attribute half of the time, and then not always one answer


# --- limits by default ---------------------------------------------------------------------------


def test_the_limits_of_a_new_ledger_are_printed(tmp_path: Path) -> None:
    document = tmp_path / "phones.json"
    document.write_bytes(published(PHONES))
    client = Client(document, tmp_path / "l.db")
    assert client.ledger.limits() == LIMITS == {"report": 4.0, "collector": 8.0, "lifetime": 16.0}
    assert "Left for all campaigns: 16." in client.preview(ANSWERS)


def test_a_report_that_costs_too_much_is_refused(tmp_path: Path) -> None:
    with collector(published(PHONES.replace("epsilon = 1.0", "epsilon = 8.0"))) as greedy:
        client = Client(at(greedy), tmp_path / "l.db")
        with pytest.raises(BudgetError, match="limit on a report is 4") as refused:
            client.report(ANSWERS)
        assert refused.value.reason == "report"
        assert greedy.bodies == []
        client.ledger.raise_limit("report", 8.0)  # in words, by the person
        assert client.report(ANSWERS).epsilon == 8.0


def test_one_address_under_many_names_gets_no_more_than_its_limit(tmp_path: Path) -> None:
    """A new name for each fetch, at the address that it names: eight reports, not eighty."""
    names = [f"phones{number}" for number in range(80)]
    with collector(lambda n: published(PHONES.replace('"phones"', f'"{names[n]}"'))) as host:
        told = [outcome(Client(at(host, name), tmp_path / "l.db")) for name in names]
        assert told == ["stored"] * 8 + ["collector"] * 72
        assert len(host.bodies) == 8


def test_a_collector_is_a_host_whatever_its_ports_are(tmp_path: Path) -> None:
    """Ten ports and names of one machine: eight reports, not ten; they are one limit."""
    with collectors(10, published(PHONES)) as hosts:
        names = ["127.0.0.1", "localhost"] * 5
        urls = [
            at(host).replace("127.0.0.1", name) for host, name in zip(hosts, names, strict=True)
        ]
        assert len({Address.parse(url).origin for url in urls}) == 10
        told = [outcome(Client(url, tmp_path / "l.db")) for url in urls]
    assert told == ["stored"] * 8 + ["collector"] * 2


def test_the_name_is_that_of_the_address(tmp_path: Path) -> None:
    with (
        collector(published(PHONES)) as host,
        pytest.raises(MismatchError, match="another name, 'phones'"),
    ):
        Client(at(host, "survey"), tmp_path / "l.db")


def test_everything_together_stays_within_the_lifetime(tmp_path: Path) -> None:
    with collectors(20, published(PHONES)) as hosts:
        Ledger(tmp_path / "l.db").raise_limit("collector", math.inf)  # all are this machine
        for number, host in enumerate(hosts):
            client = Client(at(host), tmp_path / "l.db")
            if number < 16:
                assert client.report(ANSWERS).delivered
            else:
                with pytest.raises(BudgetError, match="lifetime"):
                    client.report(ANSWERS)
    assert client.ledger.spent() == 16.0


# --- one document for everybody ------------------------------------------------------------------


def test_a_pinned_digest(tmp_path: Path) -> None:
    digest = campaign_of(PHONES).digest
    with collector(published(PHONES)) as host:
        assert Client(at(host), tmp_path / "a.db", digest=digest).report(ANSWERS).delivered
        with pytest.raises(MismatchError, match="was expected"):
            Client(at(host), tmp_path / "b.db", digest="0" * 64)


def test_a_witness_shows_the_same_digest(tmp_path: Path) -> None:
    other = PHONES.replace("high = 98", "high = 97")
    with (
        collector(published(PHONES)) as host,
        collector(published(PHONES)) as honest,
        collector(published(other)) as another,
    ):
        client = Client(at(host), tmp_path / "a.db", witness=at(honest))
        assert client.report(ANSWERS).delivered
        assert honest.bodies == []
        with pytest.raises(MismatchError, match="a campaign of its own"):
            Client(at(host), tmp_path / "b.db", witness=at(another))
        with pytest.raises(ParameterError, match="another collector"):
            Client(at(host), tmp_path / "b.db", witness=at(host))


def respelled(data: bytes, change: Callable[[str], str]) -> bytes:
    """The document with its collection written in another way, and the digest that goes with it."""
    table = msgspec.json.decode(data)
    table["collection"] = change(table["collection"])
    table["digest"] = hashlib.sha256(table["collection"].encode()).hexdigest()
    return msgspec.json.encode(table)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text + " ",
        lambda text: text.replace(",", ", ", 1),
        lambda text: text.replace('"epsilon":1.0', '"epsilon":1.00'),
        lambda text: text.replace('"epsilon":1.0', '"epsilon":1'),
        lambda text: text.replace("phone", "ph\\u006fne", 1),
        lambda text: text.replace('"wire":1,', "").replace("{", '{"wire":1,', 1) + "\n",
        lambda text: text[:-1] + ',"rounds":1}',
        lambda text: text.replace('"low":18.0', '"low":18'),
        lambda text: text.replace('"campaign":"phones",', "", 1)[:-1] + ',"campaign":"phones"}',
    ],
)
def test_another_spelling_of_a_document_is_refused(change: Callable[[str], str]) -> None:
    """Fifty devices, fifty digests of one campaign: not with trailing blanks, nor otherwise."""
    fine = published(PHONES)
    campaign_document.read(fine)
    with pytest.raises(FormatError, match="not written as it is published"):
        campaign_document.read(respelled(fine, change))


def test_zero_has_one_spelling() -> None:
    fine = published(PHONES.replace("low = 18", "low = 0"))
    assert campaign_document.read(fine).questions[1].low == 0.0
    for zero in ("-0.0", "0", "0e0"):
        changed = respelled(
            fine, lambda text, zero=zero: text.replace('"low":0.0', f'"low":{zero}')
        )
        with pytest.raises(FormatError, match="not written as it is published"):
            campaign_document.read(changed)


def test_a_collector_that_drips_holds_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte comes in time, all of them never would: the whole exchange has an end."""
    monkeypatch.setattr("murmuration.wire.http.MOST_STEPS", 1)
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def drip() -> None:
            there, _ = listening.accept()
            with there, contextlib.suppress(OSError):
                there.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
                while not ended.wait(0.05):
                    there.sendall(b" ")

        thread = threading.Thread(target=drip)
        thread.start()
        address = Address.parse(f"http://127.0.0.1:{listening.getsockname()[1]}/v1/campaigns/x")
        with Link(address, seconds=0.5) as link, pytest.raises(SendError):
            link.get(1 << 20)
        ended.set()
        thread.join()


def test_a_busy_collector_that_drips_holds_nobody(tmp_path: Path) -> None:
    """503 again and again, a byte at a time: one deadline ends the whole call."""
    document, ended = tmp_path / "phones.json", threading.Event()
    document.write_bytes(published(PHONES))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(0.1)

        def drip() -> None:
            while not ended.is_set():
                with contextlib.suppress(OSError):
                    there, _ = listening.accept()
                    with there:
                        there.sendall(b"HTTP/1.1 503 Busy\r\nContent-Length: 100000\r\n\r\n")
                        while not ended.wait(0.02):
                            there.sendall(b" ")

        thread = threading.Thread(target=drip)
        thread.start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/v1/campaigns/phones"
        client = Client(
            document, tmp_path / "l.db", send_to=url, patience=Patience(first=0.01, whole=0.6)
        )
        start = time.monotonic()
        with pytest.raises(SendError, match="kept"):
            client.report(ANSWERS)
        assert time.monotonic() - start < 10  # and not six exchanges of 300 seconds
        ended.set()
        thread.join()


@pytest.mark.parametrize("after", ["Mon, 01 Jan 0001 00:00:00 +2359", "9" * 400, "soon", "-1"])
def test_an_odd_header_loses_no_acknowledgement(tmp_path: Path, after: str) -> None:
    document = tmp_path / "phones.json"
    document.write_bytes(published(PHONES))
    with answering(lambda number, body: (200, {"Retry-After": after}, STORED)) as host:
        client = Client(document, tmp_path / "l.db", send_to=at(host))
        assert client.report(ANSWERS).delivered


def test_a_preview_has_no_control_codes(tmp_path: Path) -> None:
    document = tmp_path / "phones.json"
    odd = 'purpose = "red \\u001b[31m and \\u009b2J"'
    document.write_bytes(published(PHONES.replace('purpose = "Which phones to test on."', odd)))
    shown = Client(document, tmp_path / "l.db").preview(ANSWERS)
    assert "red" in shown
    assert not {c for c in shown if not c.isprintable()} - {"\n"}


def test_a_large_document_is_not_read(tmp_path: Path) -> None:
    """Refused by its size alone: nothing is parsed, no law is audited."""
    large = b'{"format":1,' + b" " * campaign_document.MOST_BYTES
    with pytest.raises(FormatError, match="8,388,608 at most"):
        campaign_document.read(large)
    with collector(large) as host, pytest.raises(SendError, match="longer than 8,388,608"):
        Client(at(host), tmp_path / "l.db")
    many = "".join(
        f'[[attributes]]\nname = "a{n}"\nlow = 0\nhigh = {n + 1}\nmechanism = "square-wave"\n'
        for n in range(40)
    )
    with pytest.raises(ParameterError, match="devices read 8,388,608 at most"):
        published('name = "large"\npurpose = "x"\nepsilon = 4.0\n' + many)


def test_a_document_with_many_laws_is_not_audited() -> None:
    """A law of 150 bytes takes a millisecond to audit: they are counted before any is looked at."""

    def many_cells(text: str) -> str:
        table = json.loads(text)
        table["cells"] *= 2000
        return json.dumps(table, separators=(",", ":"))

    def many_items(text: str) -> str:
        table = json.loads(text)
        table["attributes"][0]["labels"] = [str(n) for n in range(30_000)]
        table["cells"] = table["cells"][:1] * 10
        return json.dumps(table, separators=(",", ":"))

    for change, words in ((many_cells, "4,000 laws"), (many_items, "300,000 items")):
        with pytest.raises(FormatError, match=words):
            campaign_document.read(respelled(published(PHONES), change))


# --- restored, copied, stolen --------------------------------------------------------------------


def test_a_restored_ledger_sends_the_same_report(tmp_path: Path) -> None:
    """Forty restores of a ledger from before its first report: one report, one id."""
    ledger, backup = tmp_path / "l.db", tmp_path / "backup.db"
    roomy = PHONES.replace("epsilon = 1.0", "epsilon = 1.0\nlifetime = 100.0")
    with collector(published(roomy)) as host:
        unlimited(Ledger(ledger))
        shutil.copy(ledger, backup)
        for _ in range(40):
            shutil.copy(backup, ledger)
            Client(at(host), ledger).report(ANSWERS)
        assert len(host.bodies) == 40
        assert len(set(host.bodies)) == 1


def test_a_restored_ledger_gets_no_noise_on_another_answer(tmp_path: Path) -> None:
    """An answer that moved a little has other words: other bytes under the same id are refused."""
    ledger, backup = tmp_path / "l.db", tmp_path / "backup.db"
    with collector(published(AGE)) as host:
        secret = hashlib.sha256(b"somebody").digest()
        Client(at(host), ledger, secret=secret)
        shutil.copy(ledger, backup)
        told = []
        for number in range(6):
            shutil.copy(backup, ledger)
            client = Client(at(host), ledger, secret=secret)
            told.append(outcome(client, {"age": 44 + number * 1e-9}))
        assert told[0] == "stored"
        assert "answered" in told
        assert set(told) == {"stored", "answered"}  # by chance, some answers make the same bytes
        assert len(set(host.bodies)) == 1


def test_limits_that_the_person_has_lowered_stay_low(tmp_path: Path) -> None:
    """An old copy of the ledger, or none, does not raise them; nor does what an app asks for."""
    ledger, backup = tmp_path / "l.db", tmp_path / "backup.db"
    kept = Ledger(ledger)
    shutil.copy(ledger, backup)
    for name in LIMITS:
        kept.set_limit(name, 2.0)
    shutil.copy(backup, ledger)
    assert set(Ledger(ledger).limits().values()) == {2.0}
    ledger.unlink()
    with pytest.warns(UserWarning, match="stays 2, not 1000"):
        assert Ledger(ledger, lifetime=1000.0).limits()["lifetime"] == 2.0
    Ledger(ledger).raise_limit("lifetime", 3.0)
    assert Ledger(ledger).lifetime == 3.0


def test_a_restored_ledger_brings_back_no_budget(tmp_path: Path) -> None:
    """Another campaign after each restore: the total beside the key counts them all."""
    ledger, backup = tmp_path / "l.db", tmp_path / "backup.db"
    Ledger(ledger, lifetime=5.0)
    shutil.copy(ledger, backup)
    told = []
    with collectors(10, published(PHONES)) as hosts:
        for host in hosts:
            shutil.copy(backup, ledger)
            client = Client(at(host), ledger)
            told.append(outcome(client))
    assert told == ["stored"] * 5 + ["lifetime"] * 5
    assert (client.ledger.spent(), client.ledger.remaining()) == (5.0, 0.0)


def test_a_restored_ledger_brings_back_no_collectors_budget(tmp_path: Path) -> None:
    """New versions of one campaign after each restore: its limit, and the collector's, hold."""
    ledger, backup = tmp_path / "l.db", tmp_path / "backup.db"
    Ledger(ledger).raise_limit("lifetime", 50.0)
    shutil.copy(ledger, backup)
    roomy = "epsilon = 1.0\nlifetime = 100.0"
    versions = [
        published(PHONES.replace("high = 98", f"high = {90 + n}").replace("epsilon = 1.0", roomy))
        for n in range(12)
    ]
    told = []
    with collector(lambda n: versions[n]) as host:
        for _ in versions:
            shutil.copy(backup, ledger)
            told.append(outcome(Client(at(host), ledger)))
    assert told == ["stored"] * 8 + ["collector"] * 4


def test_a_lost_ledger_brings_back_no_budget(tmp_path: Path) -> None:
    ledger = tmp_path / "l.db"
    with collector(published(AGE)) as host:
        Client(at(host), ledger).report({"age": 44})
        told = set()
        for age in (20, 44, 60, 80, 97):
            ledger.unlink()
            client = Client(at(host), ledger)
            assert (client.ledger.spent(), client.ledger.remaining()) == (1.0, 15.0)
            told.add(outcome(client, {"age": age}))
        assert told == {"stored", "answered"}  # the same bytes once more, for nothing, or none
        assert client.ledger.spent() == 1.0
        assert len(set(host.bodies)) == 1


def test_without_its_key_a_device_sends_nothing(tmp_path: Path) -> None:
    ledger, key = tmp_path / "l.db", tmp_path / "l.db.key"
    with collector(published(PHONES)) as host:
        Client(at(host), ledger).report(ANSWERS)
        assert stat.S_IMODE(key.stat().st_mode) == 0o600
        kept = key.read_bytes()
        key.unlink()
        client = Client(at(host, "phones"), ledger)
        assert client.ledger.spent() == 1.0  # what it did can still be seen
        with pytest.raises(LedgerError, match="fresh noise"):
            client.report(ANSWERS)
        Ledger(tmp_path / "other.db")
        shutil.copy(tmp_path / "other.db.key", key)
        with pytest.raises(MismatchError, match="another key"):
            client.report(ANSWERS)
        key.write_bytes(kept)
        key.chmod(0o640)
        with pytest.raises(LedgerError, match="chmod 600"):
            client.report(ANSWERS)
        key.chmod(0o600)
        assert client.report(ANSWERS).delivered
        for damage in (b"", b"{}", kept[:40], kept.replace(b'"secret"', b'"other"')):
            key.write_bytes(damage)
            with pytest.raises(FormatError):
                client.report(ANSWERS)
        assert len(set(host.bodies)) == 1


def test_a_stolen_ledger_tells_no_value(tmp_path: Path) -> None:
    """Whoever has ledger and record but not the key cannot tell which values a person has had.

    The names of permanent answers and the marks of reports are all that follows from values, and
    under another key the same values have other names and other marks.
    """
    found = []
    for secret in (bytes(32), bytes([1]) * 32):
        ledger = tmp_path / f"{secret[0]}.db"
        with collector(published(DAILY)) as host:
            client = Client(at(host, "daily"), ledger, secret=secret)
            for day, mood in enumerate(["good", "good", "bad", "good"]):
                client.report({"mood": mood}, period=str(day))
        record = Path(f"{ledger}.record")
        names = {bytes(row[0]) for row in rows_of(record, "SELECT name FROM paid")}
        marks = {bytes(row[0]) for row in rows_of(record, "SELECT mark FROM reserved")}
        assert (len(names), len(marks)) == (2, 4)
        # Not when it changed, nor a row of reports that tells it.
        assert set(rows_of(ledger, "SELECT cost, report FROM entry")) == {("0", None)}
        assert set(rows_of(record, "SELECT cost FROM reserved")) == {("0",)}
        found.append(names | marks)
        assert b"good" not in ledger.read_bytes() + record.read_bytes()
    assert not found[0] & found[1]


def rows_of(path: Path, question: str) -> list:
    with contextlib.closing(sqlite3.connect(path)) as db:
        return db.execute(question).fetchall()


# --- silence -------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::murmuration.errors.MisfitWarning")
def test_an_unfit_answer_has_one_label_for_good(tmp_path: Path) -> None:
    """Drawn once per device and attribute: it never runs out of budget, and costs one value."""
    with collector(published(DAILY)) as host:
        client = Client(at(host, "daily"), tmp_path / "l.db")
        for day in range(10):
            assert client.report({"mood": f"no such {day}"}, period=str(day)).delivered
        assert client.ledger.spent() == 2.0
        assert len(host.bodies) == 10


SPEAKING = DAILY.replace("lifetime = 4.0\n", "").replace(
    'name = "mood"', 'name = "mood"\nmissing = true'
)


def test_out_of_budget_is_no_answer(tmp_path: Path) -> None:
    """Two values are paid for, and "no answer" from the start: a third value is none, for good."""
    with collector(published(SPEAKING)) as host:
        client = Client(at(host, "daily"), tmp_path / "l.db")
        assert client.campaign.limit == 6.0
        costs = [
            client.report({"mood": mood}, period=str(day)).epsilon
            for day, mood in enumerate(["good", "good", "bad", "neither", "neither", "good", None])
        ]
        assert costs == [4.0, 0.0, 2.0, 0.0, 0.0, 0.0, 0.0]
        (law,) = client.campaign.frame.cells
        none = np.array([3])
        words = DeviceWords(client.ledger.key, client.address.origin, client.campaign.digest)
        kept = law.remember(none, words.permanent(0, law.domain.written(none)))
        for day in range(7, 40):
            client.report({"mood": "neither"}, period=str(day))
        told = [json.loads(body)["entries"][0][1] for body in host.bodies[7:]]
        assert len(host.bodies) == 40  # never silent
        assert np.bincount(told, minlength=4).argmax() == kept[0]  # noise on one answer, not fresh
        assert client.ledger.spent() == 6.0


def test_no_answer_is_paid_for_at_every_level(tmp_path: Path) -> None:
    text = SPEAKING + '\n[levels]\nhigh = "1/2"\nlow = 1.0\n'
    with collector(published(text)) as host:
        client = Client(at(host, "daily"), unlimited(Ledger(tmp_path / "l.db")))
        words = client.preview({"mood": "good"}, level="low")
        assert "The first report costs 4 more, for “no answer” later on." in words
        assert client.report({"mood": "good"}, level="low", period="1").epsilon == 6.0
        for day, mood in enumerate(["bad", "neither", "good", "bad", "neither"]):
            level = "high" if day % 2 else "low"
            assert client.report({"mood": mood}, level=level, period=str(2 + day)).delivered
        assert client.ledger.spent() <= client.campaign.limit


def test_out_of_the_lifetime_is_no_answer(tmp_path: Path) -> None:
    """Spent elsewhere, the budget says nothing here: a new value is "no answer", never silence."""
    with collector(published(SPEAKING)) as host, collector(published(PHONES)) as other:
        client = Client(at(host, "daily"), tmp_path / "l.db", lifetime=5.0)
        assert client.report({"mood": "good"}, period="1").epsilon == 4.0
        assert Client(at(other), tmp_path / "l.db").report(ANSWERS).delivered
        assert client.report({"mood": "bad"}, period="2").delivered
        assert client.report({"mood": None}, period="3").delivered
        assert client.ledger.spent() == 5.0
        for number, most in enumerate((3.0, 1.0, 0.0)):  # from the start, whatever the values are
            poor = Client(at(host, "daily"), tmp_path / f"{number}.db", lifetime=most)
            receipt = poor.report({"mood": "good"}, period="1")
            assert (receipt.outcome, receipt.epsilon) == ("stored", 0.0)
            assert receipt.out_of_budget == "lifetime"
            assert poor.ledger.spent() == 0.0


def test_what_was_spent_elsewhere_silences_nobody_in_the_middle(tmp_path: Path) -> None:
    """All reports are set aside at first contact: whoever has told somebody else goes on."""
    with collector(published(DAILY)) as host, collector(published(PHONES)) as other:
        client = Client(at(host, "daily"), tmp_path / "l.db", lifetime=5.0)
        assert client.report({"mood": "good"}, period="1").epsilon == 2.0
        assert client.ledger.remaining() == 1.0  # of 5: the limit of 4 is set aside
        assert Client(at(other), tmp_path / "l.db").report(ANSWERS).delivered
        spender = Client(at(other, "phones"), Ledger(tmp_path / "l.db"))
        assert spender.ledger.remaining() == 0.0
        assert client.report({"mood": "bad"}, period="2").delivered
        assert client.ledger.spent() == 5.0
        poor = Client(at(host, "daily"), tmp_path / "m.db", lifetime=3.9)
        with pytest.raises(BudgetError, match="set aside") as refused:
            poor.report({"mood": "good"}, period="1")  # at first contact, or never
        assert refused.value.reason == "lifetime"
        assert poor.ledger.spent() == 0.0


def test_at_first_contact_a_spent_limit_shows(tmp_path: Path) -> None:
    """What remains: two hosts that ask for all of the lifetime see who has told a third."""
    assert two_hosts(tmp_path, PHONES) == [["stored", "stored"], ["stored", "lifetime"]]


def two_hosts(folder: Path, text: str) -> list[list[str]]:
    """What becomes of reports to two hosts that ask for all of a lifetime; with a third before."""
    told = []
    for elsewhere in (False, True):
        ledger = Ledger(folder / f"{elsewhere}.db", lifetime=2.0)
        with collectors(3, published(text)) as hosts:
            if elsewhere:
                assert outcome(Client(at(hosts[2]), ledger)) == "stored"
            told.append([outcome(Client(at(host), ledger)) for host in hosts[:2]])
    return told


MISSING = PHONES.replace("\n[[attributes]]", "\n[[attributes]]\nmissing = true")


def test_where_answers_may_be_missing_a_spent_limit_is_no_silence(tmp_path: Path) -> None:
    """Who has told a third one sends a report all the same; what it costs is in its law."""
    assert two_hosts(tmp_path, MISSING) == [["stored", "stored"]] * 2
    entries = []
    with collector(published(MISSING)) as host:
        for number in range(60):
            client = Client(at(host), tmp_path / f"{number}.db", lifetime=0.5)
            receipt = client.report({"phone": "ios", "age": 44})
            assert (receipt.epsilon, receipt.out_of_budget) == (0.0, "lifetime")
            words = DeviceWords(client.ledger.key, client.address.origin, client.campaign.digest)
            none = [question.no_answers(1) for question in client.campaign.questions]
            (asked,) = client.campaign.asked(none, words.which(""), None)
            said = answered(asked, client.campaign.frame.cells[asked.cell], words, "", None, None)
            entries.append([asked.cell, int(np.ravel(said)[0])])
    # By the words of a device, what it would say without answers: nothing of them is in it.
    assert [one for (one,) in entries_of(host.bodies)] == entries


def test_no_answer_is_said_again_when_a_ledger_is_restored(tmp_path: Path) -> None:
    path, key = tmp_path / "l.db", bytes(range(32))
    with collector(published(MISSING)) as host:
        for _ in range(2):
            client = Client(at(host), path, secret=key, lifetime=0.5)
            assert client.report(ANSWERS).outcome == "stored"
            path.unlink()
        assert Client(at(host), tmp_path / "other.db", secret=key).report(ANSWERS).epsilon == 1.0
        none, again, answers = host.bodies
        client = Client(at(host), path, secret=key)
        client.ledger.raise_limit("lifetime", 4.0)
        receipt = client.report(ANSWERS)  # there is a budget: the report that was made stands
        assert receipt.outcome == "stored"
        assert receipt.out_of_budget == ("" if answers == none else "answered")
        assert again == host.bodies[3] == none
        assert client.ledger.spent() == 0.0


@pytest.mark.filterwarnings("ignore::murmuration.errors.MisfitWarning")
@pytest.mark.parametrize("nothing", [None, math.nan, "", "n/a", 10**309])
def test_no_answer_is_sent_like_any_other(tmp_path: Path, nothing: object) -> None:
    text = PHONES.replace('name = "phone"', 'name = "phone"\nmissing = true')
    text = text.replace('name = "age"', 'name = "age"\nmissing = true')
    with collector(published(text)) as host:
        for number, answers in enumerate(({"phone": "ios", "age": nothing}, {"phone": nothing})):
            assert Client(at(host), tmp_path / f"{number}.db").report(answers).delivered
    lengths = {len(entry) for entries in entries_of(host.bodies) for entry in entries}
    assert lengths == {2}


def test_unfit_answers_are_spread_over_all_labels() -> None:
    """For each device its own: over 300 devices each label comes as often as any other."""
    campaign, counts = campaign_of(DAILY), np.zeros(3)
    for device in range(300):
        key = Key(hashlib.sha256(b"%d" % device).digest())
        spread = DeviceWords(key, "https://collector.example:443", campaign.digest).spread
        (column,) = campaign.encode({"mood": ["no such"]}, spread(["mood"]))
        counts[int(column[0])] += 1
    assert np.abs(counts - 100).max() < 4 * math.sqrt(300 * (1 / 3) * (2 / 3))


# --- errors ---------------------------------------------------------------------------------------


def test_no_error_names_an_answer(tmp_path: Path) -> None:
    with collector(published(PHONES)) as host:
        for ledger, answers in (
            (tmp_path / "a.db", {"phone": "ios", "age": None}),
            (tmp_path / "b.db", {"phone": "ios"}),
            (tmp_path / "c.db", {"phone": "ios", "age": "forty-four"}),
        ):
            with pytest.raises(MurmurationError) as refused:
                Client(at(host), ledger).report(answers)
            assert "ios" not in str(refused.value)
            assert "forty" not in str(refused.value)
