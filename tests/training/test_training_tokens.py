"""One-device tokens in a training: each counts once in all rounds, and only where a report does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import expect

from murmuration.collector.access.participants import (
    OWN_BYTES,
    close_periods,
    has_closed,
    new_batch,
    parsed,
    tokens_of,
)
from murmuration.collector.commit import OUTCOMES, Batch, commit
from murmuration.collector.publish import serve
from murmuration.collector.store import Store, open_store
from murmuration.collector.store import rounds as stored
from murmuration.collector.training.rounds import RoundIntake, advance, taking
from murmuration.collector.training.served import ServedTraining
from murmuration.wire import report
from tests.support import command
from tests.support.between import HOST
from tests.support.browser import chromium
from tests.support.collectors import running
from tests.support.training_cases import LOANS, People, fates, loans, open_round

NOW = 1_800_000_000.0
OWN = LOANS.replace("[[features]]", 'upload = "one-device"\n\n[[features]]', 1)
FEW = OWN.replace("people = 6000", "people = 2500")


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    with closing(open_store(store_url)) as opened:
        yield opened


def begun(store: Store) -> ServedTraining:
    served = serve(store, loans(OWN))
    advance(store, served, NOW)
    return served


def at(store: Store, served: ServedTraining) -> RoundIntake:
    found = taking(store, served)
    assert found is not None
    return found


def minted(store: Store, count: int) -> list[str]:
    return list(tokens_of(new_batch(store, "loans"), count))


def upload(where: RoundIntake, token: str, ids, rows) -> Batch:
    data = parsed(token)
    assert data is not None
    incoming = report.decode(where.form, report.to_json(where.form, ids, rows), report.JSON)
    return Batch(where, incoming, token=data[:OWN_BYTES])


def committed(store: Store, *batches: Batch) -> list[str]:
    commit(store, batches)
    return [OUTCOMES[code] for batch in batches for code in batch.problems.tolist()]


def used(store: Store) -> int:
    return int(store.execute("SELECT COUNT(*) FROM used_tokens")[0][0])


def filled(store: Store, where: RoundIntake, people: People, left: int) -> list[str]:
    """Fill a round, each report with a token of its own, but for some places."""
    missing = where.round.size - left
    ids, rows = people.reports(where.round, missing)
    tokens = minted(store, missing)
    batches = [
        upload(where, token, ids[i : i + 1], rows[i : i + 1]) for i, token in enumerate(tokens)
    ]
    assert set(committed(store, *batches)) == {"stored"}
    return tokens


def test_a_token_counts_once_over_all_rounds(store: Store) -> None:
    served, people = begun(store), People(loans(OWN))
    first = at(store, served)
    mine, other, third = minted(store, 3)
    ids, rows = people.reports(first.round, 6)
    one, two = (ids[:1], rows[:1]), (ids[1:2], rows[1:2])
    assert committed(store, upload(first, mine, *one)) == ["stored"]
    assert committed(store, upload(first, mine, *one)) == ["duplicate"], "tried again"
    assert committed(store, upload(first, mine, *two)) == ["token-used"]
    assert committed(store, upload(first, other, *one)) == ["duplicate"], "and uses nothing up"
    assert committed(store, upload(first, other, *two)) == ["stored"]
    assert used(store) == 2
    again = upload(first, third, *(ids[2:4], rows[2:4]))
    assert committed(store, again) == ["token-used"] * 2, "an upload with a token has one report"
    without = report.decode(first.form, report.to_json(first.form, *one), report.JSON)
    assert committed(store, Batch(first, without)) == ["token-used"]
    assert used(store) == 2
    filled(store, first, people, left=2)
    advance(store, served, NOW)
    second = at(store, served)
    assert second.number == 2
    late = people.reports(first.round, 1)
    assert committed(store, upload(first, third, *late)) == ["stale-round"]
    ids, rows = people.reports(second.round, 2)
    own = ids[:1], rows[:1]
    assert committed(store, upload(second, mine, *own)) == ["token-used"], "in any round"
    assert committed(store, upload(second, third, *own)) == ["stored"], "a stale one used nothing"
    counts = store.counts("loans")
    assert counts["received"] == sum(n for what, n in counts.items() if what != "received")


def test_a_full_round_uses_no_token_up(store: Store) -> None:
    """In one group, and one after another; a repeat is never told that it counts if it does not."""
    served, people = begun(store), People(loans(OWN))
    first = at(store, served)
    filled(store, first, people, left=1)
    mine, other = minted(store, 2)
    ids, rows = people.reports(first.round, 4)
    parts = [(ids[i : i + 1], rows[i : i + 1]) for i in range(4)]
    before = used(store)
    assert committed(
        store,
        *(upload(first, mine, *parts[0]), upload(first, mine, *parts[1])),
        *(upload(first, other, *parts[2]), upload(first, other, *parts[3])),
        *(upload(first, other, *parts[2]), upload(first, mine, *parts[0])),
    ) == [
        *("stored", "token-used"),
        *("round-full", "round-full"),  # no token is used up where there is no room
        *("round-full", "duplicate"),
    ]
    assert used(store) == before + 1
    assert committed(store, upload(first, other, *parts[3])) == ["round-full"]
    advance(store, served, NOW)
    second = at(store, served)
    ids, rows = people.reports(second.round, 1)
    assert committed(store, upload(second, other, ids, rows)) == ["stored"]


def test_a_repeat_in_one_group_is_no_duplicate_of_what_was_refused(store: Store) -> None:
    served, people = begun(store), People(loans(OWN))
    first = at(store, served)
    mine, other = minted(store, 2)
    ids, rows = people.reports(first.round, 2)
    assert committed(store, upload(first, mine, ids[:1], rows[:1])) == ["stored"]
    twice = [upload(first, token, ids[1:], rows[1:]) for token in (mine, mine)]
    assert committed(store, *twice) == ["token-used"] * 2
    assert committed(store, upload(first, other, ids[1:], rows[1:])) == ["stored"]


def test_hashes_are_deleted_when_training_is_over(store: Store) -> None:
    served = begun(store)
    first, people = at(store, served), People(loans(OWN))
    (mine,) = minted(store, 1)
    ids, rows = people.reports(first.round, 2)
    assert committed(store, upload(first, mine, ids[:1], rows[:1])) == ["stored"]
    assert not has_closed(store, served.campaign)
    assert close_periods(store, served.campaign) == 0
    assert used(store) == 1
    stored.finish(store, served.key, b"{}")  # training is over, the campaign has no `closes`
    assert has_closed(store, served.campaign)
    assert close_periods(store, served.campaign) == 1
    assert used(store) == 0
    assert not has_closed(store, served.campaign)
    assert committed(store, upload(first, mine, ids[:1], rows[:1])) == ["duplicate"]
    assert committed(store, upload(first, mine, ids[1:], rows[1:])) == ["outside-window"]


# --- over HTTP -----------------------------------------------------------------------------------


def test_tokens_of_a_training_over_http(tmp_path: Path) -> None:
    with running(tmp_path / "s.db", OWN) as collector:
        with closing(open_store(tmp_path / "s.db")) as opened:
            mine, other = minted(opened, 2)
        found = open_round(collector, loans(OWN))
        assert found is not None
        ids, rows = People(loans(OWN)).reports(found, 2)
        bodies = [report.to_json(found.form, ids[i : i + 1], rows[i : i + 1]) for i in range(2)]
        assert collector.send("loans", bodies[0]).status == 401
        assert collector.send("loans", bodies[0], token="murmur1_" + "A" * 54).status == 401
        assert fates(collector.send("loans", bodies[0], token=mine)) == ["stored"]
        assert fates(collector.send("loans", bodies[0], token=mine)) == ["duplicate"]
        assert fates(collector.send("loans", bodies[1], token=mine)) == ["token-used"]
        both = b"[" + b",".join(bodies) + b"]"
        assert fates(collector.send("loans", both, token=other)) == ["token-used"] * 2
        assert fates(collector.send("loans", bodies[1], token=other)) == ["stored"]
        status = collector.status("loans")
        assert status["balanced"]
        assert status["people"] == 2


def rows_of(people: int) -> str:
    draw = np.random.default_rng(5)
    age, home = draw.integers(18, 99, people), draw.choice(["rent", "own"], people)
    paid = np.where(draw.logistic((age - 58) / 20) > 0, "yes", "no")
    lines = [f"{a},{h},{p}" for a, h, p in zip(age, home, paid, strict=True)]
    return "\n".join(["age,home,paid", *lines]) + "\n"


@pytest.mark.slow
def test_murmur_train_plays_devices_with_tokens(tmp_path: Path) -> None:
    campaign, people = tmp_path / "loans.toml", tmp_path / "people.csv"
    campaign.write_text(FEW, encoding="utf-8")
    people.write_text(rows_of(2600), encoding="utf-8")
    tokens = tmp_path / "tokens.txt"
    with running(tmp_path / "s.db", FEW) as collector:
        train = ("train", campaign, "--devices", people)
        to = ("--collector", f"http://{HOST}:{collector.port}")
        missing = command.murmur(*train, *to, code=2)
        assert "--tokens FILE" in missing.problem
        with closing(open_store(tmp_path / "s.db")) as opened:
            tokens.write_text("\n".join(minted(opened, 2600)), encoding="utf-8")
        done = command.murmur(*train, *to, "--tokens", tokens, "--json")
        found = json.loads(done.stdout)
        assert found["over"], done.stderr
        assert found["refused"] == {}
        assert found["stored"] == collector.status("loans")["people"]
    own = command.murmur(*train, "--store", tmp_path / "own.db", "--port", "0", "--json")
    assert json.loads(own.stdout)["over"], own.stderr
    store = ("--store", tmp_path / "other.db")
    wrong = command.murmur(*train, "--tokens", tokens, *store, code=2)
    assert "leave --tokens out" in wrong.problem


@pytest.mark.slow
@pytest.mark.unmeasured
def test_the_page_of_a_training_takes_the_token_of_its_link(tmp_path: Path) -> None:
    with running(tmp_path / "s.db", OWN, measured=False) as collector, chromium() as browser:
        with closing(open_store(tmp_path / "s.db")) as opened:
            (mine,) = minted(opened, 1)
        home = f"http://{HOST}:{collector.port}/c/loans"
        for link, said in (
            (home, "needs a device's token"),
            (f"{home}#token={mine}", "Your answer counts."),
            (f"{home}#token={mine}", "token-used"),
        ):
            page = browser.new_context().new_page()  # a browser of its own, with an empty ledger
            page.goto(link)
            page.get_by_label("age").fill("44")
            page.get_by_label("home").select_option("own")
            page.get_by_label("paid").select_option("yes")
            assert page.url == home, "the token is out of the address"
            page.get_by_role("button", name="Take part").click()
            expect(page.get_by_text(said)).to_be_visible()
        assert collector.status("loans")["people"] == 1
