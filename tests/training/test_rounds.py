"""Trainings at the collector: rounds over HTTP, each report once, each step once, durably."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from murmuration.collector.commit import Batch, commit
from murmuration.collector.publish import serve
from murmuration.collector.store import Store, StoreError, open_store
from murmuration.collector.store import rounds as stored
from murmuration.collector.training import model, rounds
from murmuration.collector.training.rounds import advance, closed_tallies, is_due, taking
from murmuration.collector.training.rounds import counted as counted_in
from murmuration.collector.training.served import ServedTraining
from murmuration.exact.randomness import seeded_rng
from murmuration.training.round import Round
from murmuration.training.run import LiveTraining
from murmuration.wire import report
from tests.support.collectors import CAMPAIGNS, Collector, running
from tests.support.training_cases import LOANS, People, fates, loans, open_round, sent, trained

NOW = 1_800_000_000.0
HOUR = 3600
"""The deadline of a round."""


# --- over HTTP -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collector]:
    with running(tmp_path_factory.mktemp("rounds") / "store.db", LOANS) as found:
        yield found


def tallied(store: str) -> tuple[bytes, list[Any]]:
    """The model of a store as it is kept, and what its rounds have counted."""
    with closing(open_store(store, readonly=True)) as opened:
        key = opened.key_of(loans().digest) or 0
        served = ServedTraining(loans(), 1, b"", key)
        return stored.finished(opened, key) or b"", closed_tallies(opened, served)


@pytest.mark.slow
def test_a_training_over_http_is_what_its_tallies_say(store_url: str) -> None:
    with running(store_url, LOANS) as collector:
        found = trained(collector, People(loans()))
        status = collector.status("loans")
        document = collector.get(f"{CAMPAIGNS}/loans/round")
        assert (document.status, document.problem) == (404, "no-round")
        assert document.json["detail"] == "training is over"
        listed = collector.get(CAMPAIGNS).json["campaigns"]
        assert [one["open"] for one in listed] == [False]
    kept, tallies = tallied(store_url)
    assert msgspec.json.decode(kept) == found
    live = LiveTraining(loans(), tallies)
    assert live.round is None
    people = sum(tally.n for one in tallies for tally in one)
    assert model.to_json(model.of(loans(), live.trained, people)) == kept
    assert status["people"] == status["outcomes"]["stored"] == people == found["people"]
    for one in status["training"]["rounds"]:
        assert one["state"] == "closed"
        assert one["people"] == sum(one["asks"].values()) == one["size"]
    assert status["training"]["ended"]
    age, rent = found["coefficients"]
    assert age["value"] > 5 * age["stderr"]
    assert rent["value"] < -2 * rent["stderr"]
    assert 0.6 < found["score"]["value"] < 0.9


def test_reports_of_a_round(collector: Collector) -> None:
    """A duplicate in any round, a stale one, one too many, one for a round that is not there."""
    people = People(loans(), seed=2)
    first = open_round(collector, loans())
    assert first is not None
    ids, rows = people.reports(first, first.size + 5)
    assert set(fates(sent(collector, first, ids[:50], rows[:50]))) == {"stored"}
    assert set(fates(sent(collector, first, ids[:50], rows[:50]))) == {"duplicate"}
    many = fates(sent(collector, first, ids[50:], rows[50:]))
    assert many == ["stored"] * (first.size - 50) + ["round-full"] * 5
    second = other_round(collector, first)
    assert second.number == 2
    assert fates(sent(collector, first, ids[:2], rows[:2])) == ["duplicate"] * 2  # it does count
    assert fates(sent(collector, first, ids[-2:], rows[-2:])) == ["stale-round"] * 2
    own, answers = people.reports(second, 4)
    known = np.concatenate([ids[:1], own[:1]])
    assert fates(sent(collector, second, known, answers[:2])) == ["duplicate", "stored"]
    future = msgspec.structs.replace(
        msgspec.json.decode(
            report.to_json(second.form, own[1:2], answers[1:2]), type=report.Report
        ),
        digest="0" * 64,
    )
    answer = collector.send("loans", msgspec.json.encode(future))
    assert fates(answer) == ["unknown-digest"]
    mixed = [
        msgspec.json.decode(report.to_json(one.form, own[[n]], answers[[n]]))
        for one, n in ((second, 2), (first, 3))
    ]
    assert fates(collector.send("loans", msgspec.json.encode(mixed))) == ["stored", "stale-round"]
    earlier = collector.get(f"{CAMPAIGNS}/loans/rounds/1")
    assert earlier.json["digest"] == first.digest
    for name in ("3", "0", "x", "-1", "9" * 12):
        assert collector.get(f"{CAMPAIGNS}/loans/rounds/{name}").problem == "not-found"


def other_round(collector: Collector, last: Round) -> Round:
    """The round after another, once it is there."""
    while True:
        found = open_round(collector, loans())
        if found is not None and found.digest != last.digest:
            return found


def test_roles_that_there_are_not(collector: Collector) -> None:
    found = open_round(collector, loans())
    assert found is not None
    ids, rows = People(loans(), seed=3).reports(found, 2)
    entries = report.entries_of(found.form, rows[0])
    for cell in (len(found.questions), 200, -1):
        spoilt = [[cell, *entries[0][1:]]]
        body = {"wire": 1, "digest": found.digest, "id": ids[0].tobytes().hex(), "entries": spoilt}
        assert fates(collector.send("loans", body)) == ["bad-entries"]
    twice = {"wire": 1, "digest": found.digest, "id": "ab" * 16, "entries": entries * 2}
    assert fates(collector.send("loans", twice)) == ["bad-entries"]
    assert collector.send("loans", b"no report").problem == "unreadable-body"
    assert collector.status("loans")["balanced"]


def test_what_a_training_has_not(collector: Collector) -> None:
    for what in ("estimates", "tally"):
        assert collector.about("loans", what).problem == "is-training"
    answer = collector.post(
        f"{CAMPAIGNS}/loans/tally", b"", token=collector.token("merge", sources=["ab" * 8])
    )
    assert answer.problem == "is-training"
    assert collector.about("loans", "model").problem == "no-model"
    assert collector.get(f"{CAMPAIGNS}/loans/model", token=collector.token("device")).status == 403
    assert b'murmur_training_round{campaign="loans"}' in collector.get("/metrics").body


# --- in a store, with a clock of our own ---------------------------------------------------------


class Held:
    """A training in a store, whose time is what a test says."""

    def __init__(self, store: Store, text: str = LOANS) -> None:
        self.store, self.now = store, NOW
        self.served = serve(store, loans(text))
        self.people = People(loans(text))
        self.advance()

    def advance(self, seconds: float = 0) -> None:
        self.now += seconds
        if is_due(self.store, self.served, self.now):
            advance(self.store, self.served, self.now)

    @property
    def open(self) -> rounds.RoundIntake:
        found = taking(self.store, self.served)
        assert found is not None
        return found

    def come(self, n: int, at: rounds.RoundIntake | None = None, in_time: bool = True) -> list[str]:
        """Let n people answer a round; say what becomes of their reports."""
        goal = at or self.open
        return self.commit(goal, *self.people.reports(goal.round, n), in_time)

    def commit(
        self, goal: rounds.RoundIntake, ids: Any, rows: Any, in_time: bool = True
    ) -> list[str]:
        body = report.to_binary(goal.form, ids, rows)
        incoming = report.decode(goal.form, body, report.BINARY, goal.older)
        batch = Batch(goal, incoming, in_time=in_time)
        commit(self.store, [batch])
        return ["stored" if code == 0 else [*report.REASONS][code - 1] for code in batch.problems]

    def states(self) -> list[str]:
        return [one.state for one in stored.rounds(self.store, self.served.key)]

    def model(self) -> model.TrainedModel | None:
        found = stored.finished(self.store, self.served.key)
        return None if found is None else model.from_json(found)

    def play(self, rounds: int = 99) -> None:
        """Fill rounds."""
        for _ in range(rounds):
            if self.model() is not None:
                return
            self.come(self.open.round.size)
            self.advance(1)


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Held]:
    with closing(open_store(tmp_path / "store.db")) as store:
        yield Held(store)


def test_below_the_cohort_a_round_stays_open(held: Held) -> None:
    assert set(held.come(150)) == {"stored"}  # two roles: one has fewer than a hundred
    held.advance(HOUR + 1)
    assert held.states() == ["open"]
    held.advance(100 * HOUR)
    assert held.states() == ["open"]
    while min(held.served.status(held.store).training.rounds[0].asks.values()) < 100:  # type: ignore[union-attr]
        assert held.states() == ["open"]
        assert held.come(1) == ["stored"]
        held.advance()
    assert held.states() == ["closed", "open"]  # as soon as each role has a cohort
    assert held.open.number == 2


def test_a_deadline_closes_with_those_who_came(held: Held) -> None:
    size = held.open.round.size
    assert set(held.come(size - 1)) == {"stored"}
    held.advance(HOUR - 1)
    assert held.states() == ["open"]
    held.advance(1)
    assert held.states() == ["closed", "open"]
    assert held.come(
        1, at=taking(held.store, held.served, stored.rounds(held.store, held.served.key)[0].digest)
    ) == ["stale-round"]
    held.play()
    assert held.model() is not None
    assert held.model().people == sum(  # type: ignore[union-attr]
        tally.n for one in closed_tallies(held.store, held.served) for tally in one
    )


def test_a_deadline_that_passed_while_the_collector_was_down(tmp_path: Path) -> None:
    with closing(open_store(tmp_path / "store.db")) as store:
        held = Held(store)
        held.come(held.open.round.size - 1)
    with closing(open_store(tmp_path / "store.db")) as store:
        served = serve(store, loans())
        assert not is_due(store, served, NOW + HOUR - 1)
        assert is_due(store, served, NOW + 50 * HOUR)
        advance(store, served, NOW + 50 * HOUR)
        assert [one.state for one in stored.rounds(store, served.key)] == ["closed", "open"]
        assert rounds.deadline_of(stored.rounds(store, served.key)[1]) == datetime.fromtimestamp(
            NOW + 51 * HOUR, UTC
        )


def test_nothing_is_due_before_a_campaign_opens(tmp_path: Path) -> None:
    opens = datetime.fromtimestamp(NOW + HOUR, UTC).isoformat()
    with closing(open_store(tmp_path / "store.db")) as store:
        served = serve(store, loans(LOANS.replace("rounds = 12", f"rounds = 12\nopens = {opens}")))
        assert not is_due(store, served, NOW + HOUR - 1)
        advance(store, served, NOW + HOUR - 1)
        assert stored.rounds(store, served.key) == []
        assert is_due(store, served, NOW + HOUR)


def test_a_clock_that_steps_back_opens_nothing_again(held: Held) -> None:
    held.come(held.open.round.size - 1)
    held.advance(HOUR)
    before = stored.rounds(held.store, held.served.key)
    held.advance(-1000 * HOUR)
    assert stored.rounds(held.store, held.served.key) == before
    assert set(held.come(held.open.round.size)) == {"stored"}
    held.advance()  # full: whatever the clock says
    assert held.states() == ["closed", "closed", "open"]


CLOSING = LOANS.replace(
    "rounds = 12",
    f"rounds = 12\ncloses = {datetime.fromtimestamp(NOW + 10 * HOUR, UTC).isoformat()}",
)


@pytest.mark.parametrize(
    ("done", "more"), [(0, 0), (0, 150), (2, 20), (5, 50), (5, 10_000), (8, 30)]
)
def test_a_campaign_that_closes_ends_with_what_was_reached(
    tmp_path: Path, done: int, more: int
) -> None:
    with closing(open_store(tmp_path / "store.db")) as store:
        held = Held(store, CLOSING)
        held.play(done)
        if more:
            held.come(min(more, held.open.round.size - 1))
        enough = min(t.n for t in counted_in(store, held.open.kept, held.open.round))
        held.advance(11 * HOUR)
        counted = enough >= 100
        assert held.states() == ["closed"] * done + ["closed" if counted else "aside"]
        found = held.model()
        assert found is not None
        assert found.early
        assert found.score is None
        assert model.EARLY in found.notes
        assert found.rounds == done + counted
        assert found.people == sum(t.n for one in closed_tallies(store, held.served) for t in one)
        status = held.served.status(store)
        assert status.training is not None
        assert not status.open
        assert any("set aside" in note for note in status.training.notes) is not counted
        kept = stored.finished(store, held.served.key)
        held.advance(-20 * HOUR)  # a clock that steps back changes nothing
        assert stored.finished(store, held.served.key) == kept
        assert set(held.come(3)) == {"stale-round"}
        if done == 5:
            assert any(one.value for one in found.coefficients)
            assert all(one.stderr > 0 for one in found.coefficients)


def test_nothing_is_worked_out_from_a_role_below_the_cohort(held: Held) -> None:
    """A full round in which nearly everybody drew one role: the other counts for nobody."""
    at = held.open
    ids, rows = held.people.reports(at.round, 20 * at.round.size)
    ((roles, _),) = at.form.frame.entries(rows)
    some = np.concatenate([np.flatnonzero(roles == 0)[:60], np.flatnonzero(roles == 1)])
    some = some[: at.round.size]
    assert set(held.commit(at, ids[some], rows[some])) == {"stored"}
    held.advance()
    (tallies,) = closed_tallies(held.store, held.served)
    assert [tally.n for tally in tallies] == [0, at.round.size - 60, 0]
    held.play()
    assert held.model() is not None


def test_before_a_campaign_opens_there_is_no_round(tmp_path: Path) -> None:
    opens = datetime.fromtimestamp(NOW + HOUR, UTC).isoformat()
    with closing(open_store(tmp_path / "store.db")) as store:
        held = Held(store, LOANS.replace("rounds = 12", f"rounds = 12\nopens = {opens}"))
        assert held.states() == []
        held.advance(HOUR)
        assert held.states() == ["open"]


def test_reports_that_are_not_kept(tmp_path: Path) -> None:
    text = LOANS.replace("rounds = 12", "rounds = 12\nkeep_reports = false")
    with closing(open_store(tmp_path / "store.db")) as store:
        held = Held(store, text)
        held.play(2)
        assert set(held.come(5)) == {"stored"}
        assert store.execute("SELECT COALESCE(SUM(length(rows)), 0) FROM blocks") == [(0,)]
        own = [one.own for one in stored.rounds(store, held.served.key)]
        assert [store.report_count(key) for key in own] == [0, 0, 0]
        wal = tmp_path / "store.db-wal"
        assert not wal.exists() or wal.stat().st_size == 0  # no earlier state can be read again
    with closing(open_store(tmp_path / "kept.db")) as store:
        held = Held(store)
        held.play(1)
        (first, _) = stored.rounds(store, held.served.key)
        assert store.report_count(first.own) == rounds.size_of(first)


def test_the_same_reports_are_the_same_model(tmp_path: Path, held: Held) -> None:
    held.play()
    with closing(open_store(tmp_path / "other.db")) as store:
        other = Held(store)
        while other.model() is None:
            at = other.open
            ids, rows = other.people.reports(at.round, at.round.size)
            for some in np.array_split(np.arange(len(ids)), 7)[::-1]:  # in another order
                other.commit(at, ids[some], rows[some])
            other.advance(5)
        assert stored.finished(store, other.served.key) == stored.finished(
            held.store, held.served.key
        )
        mine = [one.digest for one in stored.rounds(held.store, held.served.key)]
        assert [one.digest for one in stored.rounds(store, other.served.key)] == mine


def test_a_round_that_another_release_published_stays_as_it_is(held: Held) -> None:
    held.play(3)
    before = stored.rounds(held.store, held.served.key)
    wrong = before[-1].document.replace(b'\\"reach\\":0.6', b'\\"reach\\":0.7')
    assert wrong != before[-1].document
    held.store.execute("UPDATE rounds SET document = ? WHERE round = ?", (wrong, before[-1].number))
    with pytest.raises(StoreError, match="another release"):
        advance(held.store, held.served, held.now + 2 * HOUR)
    assert held.states()[-1] == "open"


def test_a_changed_file_is_another_training(tmp_path: Path) -> None:
    with closing(open_store(tmp_path / "store.db")) as store:
        held = Held(store)
        held.play(2)
        again = serve(store, loans())
        assert again.key == held.served.key
        other = serve(store, loans(LOANS.replace("high = 98", "high = 90")))
        assert other.key != held.served.key
        advance(store, other, NOW)
        assert [one.number for one in stored.rounds(store, other.key)] == [1]
        assert held.states() == ["closed", "closed", "open"]


# --- several at once -----------------------------------------------------------------------------


def step(held: Held, mine: Store, start: threading.Barrier) -> None:
    """Close a round as soon as the others do."""
    start.wait()
    advance(mine, held.served, held.now + 1)


def test_of_several_workers_one_closes_a_round(store_url: str) -> None:
    with closing(open_store(store_url)) as store:
        held = Held(store)
        workers = [open_store(store_url) for _ in range(4)]
        for _ in range(3):
            at = held.open
            assert set(held.come(at.round.size)) == {"stored"}
            start = threading.Barrier(len(workers))
            with ThreadPoolExecutor(len(workers)) as pool:
                steps = [pool.submit(step, held, one, start) for one in workers]
                assert [one.result() for one in steps] == [None] * len(workers)
            assert held.open.number == at.number + 1
        assert held.states() == ["closed", "closed", "closed", "open"]
        for one in workers:
            one.close()


@pytest.mark.slow
def test_reports_that_arrive_while_a_round_closes(store_url: str) -> None:
    """Each counts in the round that was open when it was committed, or not at all."""
    with closing(open_store(store_url)) as store:
        held = Held(store)
        at = held.open
        ids, rows = held.people.reports(at.round, at.round.size + 400)
        held.commit(at, ids[: at.round.size - 100], rows[: at.round.size - 100])
        found: list[str] = []
        mine = open_store(store_url)

        def late() -> None:
            other = object.__new__(Held)
            other.store, other.served, other.people = mine, held.served, held.people
            for start in range(at.round.size - 100, len(ids), 20):
                found.extend(other.commit(at, ids[start : start + 20], rows[start : start + 20]))

        sending = threading.Thread(target=late)
        sending.start()
        while sending.is_alive():
            advance(store, held.served, held.now)
        sending.join()
        mine.close()
        assert found.count("stored") == 100
        assert set(found) <= {"stored", "round-full", "stale-round"}
        (tallies, *_) = closed_tallies(store, held.served)
        assert sum(tally.n for tally in tallies) == at.round.size


def test_seeded_people_are_the_same() -> None:
    """No test here is by luck: the reports follow from seeds alone."""
    one, other = People(loans()), People(loans())
    first = LiveTraining(loans()).round
    assert first is not None
    assert np.array_equal(one.reports(first, 10)[1], other.reports(first, 10)[1])
    assert seeded_rng(1).words(1) == seeded_rng(1).words(1)
