"""Tokens for one device each: one report per period counts, and nothing links two of a person's."""

from __future__ import annotations

import base64
import json
import random
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from murmuration import Client
from murmuration.campaign.survey import SurveyCampaign, utc_now
from murmuration.collector.access import participants
from murmuration.collector.access.participants import (
    OWN_BYTES,
    PREFIX,
    close_periods,
    is_genuine,
    new_batch,
    parsed,
    tokens_of,
)
from murmuration.collector.commit import OUTCOMES, Batch, commit
from murmuration.collector.publish import serve
from murmuration.collector.served import Served
from murmuration.collector.store import Store, Token, open_store
from murmuration.definition.load import parse
from murmuration.errors import CampaignError, ParameterError, SendError
from murmuration.wire import report
from murmuration.wire.ids import new_ids
from tests.support import collectors, command
from tests.support.accounts import campaign_of

ONE = collectors.one("phones", 'upload = "one-device"')
WEEKLY = """
name = "mood"
purpose = "How people are, week by week."
epsilon = 1.0
cohort = 100
upload = "one-device"

[repeat]
permanent = 2.0
rounds = 52
every = "week"

[[attributes]]
name = "mood"
kind = "category"
labels = ["good", "so-so", "bad"]
"""


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    with closing(open_store(store_url)) as opened:
        yield opened


def one_of(campaign: SurveyCampaign, seed: int = 1, period: int | None = None) -> bytes:
    """A new report, as JSON."""
    _, rows = collectors.reports(campaign, 1, seed)
    if period is not None:
        rows = rows.copy()
        rows[:, :4] = np.frombuffer(np.array([period], dtype="<u4").tobytes(), np.uint8)
    return report.to_json(campaign.form, new_ids(1), rows)


def upload(served: Served, token: str, *bodies: bytes) -> Batch:
    """One upload of some reports with a token."""
    data = parsed(token)
    assert data is not None
    body = bodies[0] if len(bodies) == 1 else b"[" + b",".join(bodies) + b"]"
    incoming = report.decode(served.campaign.form, body, report.JSON)
    return Batch(served, incoming, token=data[:OWN_BYTES])


def outcomes(batch: Batch) -> list[str]:
    return [OUTCOMES[code] for code in batch.problems.tolist()]


def committed(store: Store, *batches: Batch) -> list[str]:
    commit(store, batches)
    return [one for batch in batches for one in outcomes(batch)]


def minted(store: Store, campaign: str, count: int) -> list[str]:
    return list(tokens_of(new_batch(store, campaign), count))


# --- what a token is -----------------------------------------------------------------------------


def test_tokens_are_genuine_only_as_they_were_made(store) -> None:
    serve(store, campaign_of(ONE))
    batch = new_batch(store, "phones", days=1)
    (token,) = tokens_of(batch, 1)
    data = parsed(token)
    assert data is not None
    (kept,) = [one for one in store.tokens() if one.name == "participant"]
    assert kept == batch
    assert is_genuine(kept, data)
    assert "secret" not in repr(kept)
    for place in range(len(data)):
        bent = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
        assert not is_genuine(kept, bent)
    assert not is_genuine(replace(kept, role="device"), data)
    with pytest.raises(ParameterError, match="campaign"):
        new_batch(store, "nothing")


def test_a_token_has_one_text(store) -> None:
    serve(store, campaign_of(ONE))
    (token,) = minted(store, "phones", 1)
    last = token[-1]
    others = [
        *(token + end for end in ("=", "==", " ", "\n", "A")),
        *(
            token[:-1] + other
            for other in "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
            if other != last
        ),
    ]
    known = parsed(token)
    assert known is not None
    assert all(parsed(other) != known for other in others)
    for text in ("", PREFIX, "murmur_" + "a" * 43, PREFIX + "ü" * 54, PREFIX + "+" * 54):
        assert parsed(text) is None


def test_a_batch_of_many_is_one_row(store) -> None:
    serve(store, campaign_of(ONE))
    before = len(store.tokens())
    tokens = minted(store, "phones", 20_000)
    assert len(set(tokens)) == 20_000
    assert len(store.tokens()) == before + 1


def test_a_question_that_comes_back_without_periods_has_no_such_tokens() -> None:
    with pytest.raises((CampaignError, ParameterError), match="periods"):
        parse(WEEKLY.replace('every = "week"\n', ""))


# --- what counts ---------------------------------------------------------------------------------


def test_one_report_of_a_token_counts(store) -> None:
    served = serve(store, campaign_of(ONE))
    mine, other = minted(store, "phones", 2)
    first, second = one_of(served.campaign), one_of(served.campaign, 2)
    assert committed(store, upload(served, mine, first)) == ["stored"]
    assert committed(store, upload(served, mine, first)) == ["duplicate"], "tried again"
    assert committed(store, upload(served, mine, second)) == ["token-used"]
    assert committed(store, upload(served, other, first)) == ["duplicate"], "and uses nothing up"
    assert committed(store, upload(served, other, second)) == ["stored"]
    counts = store.counts("phones")
    assert counts == {"received": 5, "stored": 2, "duplicate": 2, "token-used": 1}
    assert store.report_count(served.key) == 2


def test_in_one_group_the_first_one_counts(store) -> None:
    served = serve(store, campaign_of(ONE))
    mine, other, third = minted(store, "phones", 3)
    reports = [one_of(served.campaign, seed) for seed in range(8)]
    assert committed(
        store,
        *(upload(served, mine, reports[0]), upload(served, mine, reports[1])),
        *(upload(served, mine, reports[0]), upload(served, other, *reports[2:4])),
        *(upload(served, other, reports[2]), upload(served, third, reports[2])),
    ) == [
        *("stored", "token-used", "duplicate"),
        *("token-used", "token-used"),  # an upload with a token has one report
        *("stored", "duplicate"),
    ]
    assert committed(store, upload(served, third, reports[5])) == ["stored"]


def test_without_a_token_nothing_counts(store) -> None:
    """The door is `server.access`; this is the lock behind it."""
    served = serve(store, campaign_of(ONE))
    incoming = report.decode(served.campaign.form, one_of(served.campaign), report.JSON)
    assert committed(store, Batch(served, incoming)) == ["token-used"]


def test_a_group_that_fails_uses_no_token_up(store, monkeypatch) -> None:
    served = serve(store, campaign_of(ONE))
    (mine,) = minted(store, "phones", 1)
    batch = upload(served, mine, one_of(served.campaign))
    with monkeypatch.context() as broken:
        broken.setattr(type(store), "add_counts", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            commit(store, [batch])
    assert store.execute("SELECT COUNT(*) FROM used_tokens")[0][0] == 0
    assert committed(store, batch) == ["stored"]


# --- periods -------------------------------------------------------------------------------------


def hashes(store: Store) -> list[bytes]:
    return [bytes(row[0]) for row in store.execute("SELECT hash FROM used_tokens")]


def test_periods_count_apart_and_leave_nothing_behind(store, monkeypatch) -> None:
    served = serve(store, campaign_of(WEEKLY))
    campaign = served.campaign
    now = datetime(2026, 11, 18, tzinfo=UTC)
    monkeypatch.setattr(participants, "utc_now", lambda: now)
    window = campaign.open_periods(now)
    assert window is not None
    last, this = window.start, window.start + 1
    (mine,) = minted(store, "mood", 1)
    for period in (last, this):
        assert committed(store, upload(served, mine, one_of(campaign, 1, period))) == ["stored"]
        again = upload(served, mine, one_of(campaign, 2, period))
        assert committed(store, again) == ["token-used"]
    assert len(set(hashes(store))) == 2, "nothing that both periods have in common"
    secrets = [bytes(row[0]) for row in store.execute("SELECT secret FROM period_secrets")]
    gone = [*hashes(store), *secrets]
    assert close_periods(store, campaign) == 0

    monkeypatch.setattr(participants, "utc_now", lambda: now + timedelta(days=7))
    assert participants.has_closed(store, campaign)
    assert close_periods(store, campaign) == 1
    assert len(hashes(store)) == 1
    monkeypatch.setattr(participants, "utc_now", lambda: now + timedelta(days=14))
    assert close_periods(store, campaign) == 1
    assert hashes(store) == []
    # A clock that steps back brings no period back: its hashes are gone, and it would count twice.
    late = upload(served, mine, one_of(campaign, 3, last))
    assert committed(store, late) == ["wrong-period"]
    if hasattr(store, "path"):
        files = [Path(f"{store.path}{end}") for end in ("", "-wal")]
        data = b"".join(file.read_bytes() for file in files if file.exists())
        assert not any(one in data for one in gone), "nor in the file, where they were"


def test_a_campaign_that_closed_stays_closed(store, monkeypatch) -> None:
    closes = (utc_now() + timedelta(days=1)).isoformat()
    served = serve(
        store, campaign_of(collectors.one("phones", f'upload = "one-device"\ncloses = {closes}'))
    )
    (mine,) = minted(store, "phones", 1)
    assert committed(store, upload(served, mine, one_of(served.campaign))) == ["stored"]
    monkeypatch.setattr(participants, "utc_now", lambda: utc_now() + timedelta(days=2))
    assert close_periods(store, served.campaign) == 1
    longer = serve(store, campaign_of(ONE))
    assert longer.key == served.key
    again = upload(longer, mine, one_of(longer.campaign, 2))
    assert committed(store, again) == ["outside-window"]


def test_hashes_are_kept_apart_from_reports(store) -> None:
    """In a table of their own without anything else, in an order that is not that of arrival."""
    served = serve(store, campaign_of(ONE))
    tokens = minted(store, "phones", 60)
    for token in tokens[:30]:
        committed(store, upload(served, token, one_of(served.campaign)))
    committed(store, *(upload(served, one, one_of(served.campaign)) for one in tokens[30:]))
    stored = store.execute("SELECT * FROM used_tokens")
    assert {len(row) for row in stored} == {3}
    assert {(row[0], row[1]) for row in stored} == {(served.key, 0)}
    if hasattr(store, "path"):  # PostgreSQL keeps rows as they come: see docs/threat-model.md
        assert hashes(store) == sorted(hashes(store))
    (secret,) = (bytes(row[0]) for row in store.execute("SELECT secret FROM period_secrets"))
    owns = [parsed(one)[:OWN_BYTES] for one in tokens]  # type: ignore[index]
    assert set(hashes(store)) == {participants.hmac.digest(secret, one, "sha256") for one in owns}


# --- over HTTP -----------------------------------------------------------------------------------


def tokens_for(
    collector: collectors.Collector, campaign: str, count: int, name: str = ""
) -> list[str]:
    with closing(open_store(collector.store)) as store:
        return list(tokens_of(new_batch(store, campaign, name), count))


@pytest.mark.slow
def test_only_participants_tokens_of_the_campaign_are_taken(tmp_path: Path) -> None:
    other = collectors.one("pets", 'upload = "one-device"')
    with collectors.running(tmp_path / "s.db", ONE, other) as collector:
        campaign = campaign_of(ONE)
        body = one_of(campaign)
        assert collector.send("phones", body).problem == "unauthorized"
        for role in ("device", "analyst", "admin"):
            token = collector.token(role)
            assert collector.send("phones", body, token=token).problem == "unauthorized"
        (foreign,) = tokens_for(collector, "pets", 1)
        assert collector.send("phones", body, token=foreign).problem == "forbidden"
        mine, unused = tokens_for(collector, "phones", 2, "first")
        forged = mine[:-2] + ("AA" if mine[-2:] != "AA" else "BA")
        assert collector.send("phones", body, token=forged).problem == "unauthorized"
        assert collector.send("phones", body, token=mine).json["stored"] == 1
        (failure,) = collector.send("phones", one_of(campaign, 2), token=mine).json["failures"]
        assert failure["type"] == "/problems/token-used"
        binary = report.to_binary(campaign.form, *collectors.reports(campaign, 2))
        answer = collector.send("phones", binary, collectors.BINARY, token=unused).json
        assert [one["type"] for one in answer["failures"]] == ["/problems/token-used"] * 2
        assert collector.get("/v1/campaigns/phones/status", token=unused).problem == "unauthorized"
        with closing(open_store(collector.store)) as store:
            assert store.expire_tokens("first") == 1
        assert collector.send("phones", one_of(campaign), token=unused).status in (200, 401)
        deadline = utc_now() + timedelta(seconds=20)
        while collector.send("phones", one_of(campaign), token=unused).status != 401:
            assert utc_now() < deadline, "tokens that were ended still work"
        found = collector.status("phones")["outcomes"]
        assert found["token-used"] >= 3
        said = collector.log + collector.dump()
        for token in (mine, unused, foreign):
            data = base64.urlsafe_b64decode(token.removeprefix(PREFIX) + "==")
            assert token not in said
            assert data[8:24].hex() not in said, "nor what it is known by"


def test_a_client_with_a_token(tmp_path: Path) -> None:
    with collectors.running(tmp_path / "s.db", ONE) as collector:
        url = collector.collection("phones").url
        (token,) = tokens_for(collector, "phones", 1)
        with pytest.raises(ParameterError, match="token"):
            Client(url, tmp_path / "a.db").report({"phone": "ios"})
        assert Client(url, tmp_path / "b.db", token=token).report({"phone": "ios"}).delivered
        second = Client(url, tmp_path / "c.db", token=token).report({"phone": "ios"})
        assert second.outcome == "refused:token-used"
        third = Client(url, tmp_path / "d.db", token="murmur1_none")  # noqa: S106
        with pytest.raises(SendError, match="unauthorized"):
            third.report({"phone": "ios"})


@pytest.mark.slow
def test_workers_on_one_database_count_a_token_once(postgres_url: str) -> None:
    with collectors.running(postgres_url, ONE, workers=2, measured=False) as collector:
        campaign, found = campaign_of(ONE), Counter[str]()
        tokens = tokens_for(collector, "phones", 40)

        def send(seed: int) -> None:
            with closing(collector.client()) as client:
                for token in random.Random(seed).sample(tokens, len(tokens)):
                    answer = client.send("phones", one_of(campaign, seed), token=token).json
                    found["stored"] += answer["stored"]

        threads = [threading.Thread(target=send, args=(seed,)) for seed in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found["stored"] == 40
        status = collector.status("phones")
        assert status["outcomes"] == {"stored": 40, "token-used": 200}
        assert status["people"] == 40


@pytest.mark.slow
def test_kill_9_counts_no_token_twice(tmp_path: Path) -> None:
    """Each device sends its report until it is answered; then another one with the same token."""
    campaign, coins = campaign_of(ONE), random.Random(7)
    collector = collectors.Collector(tmp_path / "s.db", [ONE], measured=False)
    with closing(collector):
        collector.start()
        tokens = tokens_for(collector, "phones", 120)
        outcome: dict[str, str] = {}

        def send(some: list[str]) -> None:
            for token in some:
                body = one_of(campaign)
                while token not in outcome:
                    with suppress(OSError, collectors.http.client.HTTPException):
                        answer = collector.send("phones", body, token=token)
                        if answer.status == 200:
                            failures = [one["type"] for one in answer.json["failures"]]
                            outcome[token] = failures[0] if failures else "stored"

        threads = [threading.Thread(target=send, args=(tokens[k::4],)) for k in range(4)]
        for thread in threads:
            thread.start()
        for _ in range(6):
            threads[0].join(timeout=coins.uniform(0.02, 0.15))
            collector.kill()
            collector.start()
        for thread in threads:
            thread.join()
        assert set(outcome.values()) <= {"stored", "/problems/duplicate"}
        for token in tokens:
            answer = collector.send("phones", one_of(campaign, 9), token=token).json
            assert [one["type"] for one in answer["failures"]] == ["/problems/token-used"]
        status = collector.status("phones")
        assert status["people"] == status["outcomes"]["stored"] == 120


# --- the command ---------------------------------------------------------------------------------


def test_tokens_for_a_crowd_are_written_for_their_owner_only(tmp_path: Path) -> None:
    place = tmp_path / "s.db"
    with closing(open_store(place)) as store:
        serve(store, campaign_of(ONE))
    file = tmp_path / "tokens.txt"
    said = command.murmur("token", "add", place, "participant", "--count", 1000, "-o", file)
    assert "murmur1_" not in said.stdout + said.problem
    assert file.stat().st_mode & 0o777 == 0o600
    tokens = file.read_text().splitlines()
    assert len(set(tokens)) == 1000
    with closing(open_store(place, readonly=True)) as store:
        (batch,) = [one for one in store.tokens() if one.role == "participant"]
        assert all(is_genuine(batch, parsed(one)) for one in tokens)  # type: ignore[arg-type]
    links = command.murmur(
        *(
            "token",
            "add",
            place,
            "participant",
            "--count",
            2,
            "--url",
            "https://c.example/",
            "--json",
        )
    )
    found = json.loads(links.stdout)
    assert all(
        one.startswith("https://c.example/c/phones#token=murmur1_") for one in found["tokens"]
    )
    listed = json.loads(command.murmur("token", "list", place, "--json").stdout)
    assert {one["role"] for one in listed} == {"participant"}
    assert all(not one["sources"] for one in listed)
    assert batch.secret.hex() not in json.dumps(listed)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("participant", "--campaign", "cars"), "phones"),
        (("participant", "--count", 0), "1 to 100,000,000"),
        (("device", "--count", 5), "for participants"),
        (("rumour",), "participant"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, given, message) -> None:
    with closing(open_store(tmp_path / "s.db")) as store:
        serve(store, campaign_of(ONE))
    said = command.murmur("token", "add", tmp_path / "s.db", *given, code=2)
    assert message in said.problem
    assert "Traceback" not in said.problem


def test_many_devices_are_played_with_a_token_each(tmp_path: Path) -> None:
    people, tokens = tmp_path / "people.csv", tmp_path / "tokens.txt"
    people.write_text("phone\n" + "ios\nandroid\n" * 60)
    with collectors.running(tmp_path / "s.db", ONE) as collector:
        url, place = collector.collection("phones").url, collector.store
        more = ("participant", "--count", 120, "-o", tokens, "--url", "http://127.0.0.1")
        command.murmur("token", "add", place, *more)
        asked = ("send", url, people, "--json", "--tokens", tokens)
        assert json.loads(command.murmur(*asked).stdout)["stored"] == 120
        again = json.loads(command.murmur(*asked, code=2).stdout)
        assert again["refused"] == {"token-used": 120}
        assert "--tokens FILE" in command.murmur("send", url, people, code=2).problem
        tokens.write_text("".join(tokens.read_text().splitlines(keepends=True)[:100]))
        assert "100 tokens and more devices" in command.murmur(*asked, code=2).problem


def test_rotating_participants_is_refused(tmp_path: Path) -> None:
    with closing(open_store(tmp_path / "s.db")) as store:
        serve(store, campaign_of(ONE))
        batch: Token = new_batch(store, "phones")
    said = command.murmur("token", "rotate", tmp_path / "s.db", batch.name, code=2)
    assert "participants" in said.problem
