"""What was acknowledged is there: after a power cut, a full disk, a lost database, a race.

Everything here happens to a real collector process over HTTP.
"""

import json
import os
import re
import shutil
import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path

import numpy as np
import psycopg
import pytest

from murmuration.analysis import read
from murmuration.collector.store import StoreFullError, open_store, postgres
from murmuration.counting.container import CampaignTallies
from murmuration.wire import report
from tests.support.accounts import COMMUTE, as_rows, audited_at, commute, made, outcomes_of
from tests.support.collectors import SECONDS, Answer, Collector, encoded, running
from tests.support.file_trace import TCP, Ack, Sync, Unlink, traced
from tests.support.postgres import USER
from tests.support.power_loss import cut_points, power_cuts, read_log, write_files
from tests.support.tools import small_disk
from tests.support.torture import SMALL, Load, Seen, compare

CUTS = 250
SQLITE = "murmuration.collector.store.sqlite"
POSTGRES = "murmuration.collector.store.postgres"


def together(threads: Iterable[threading.Thread]) -> None:
    started = list(threads)
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()


# ------------------------------------------------------------------------------- power cuts


class Recorded:
    """A collector that was recorded under load, and what its clients know about it."""

    def __init__(self, folder: Path, synchronous: str) -> None:
        self.campaign = commute()
        self._asked: dict[int, list[set[bytes]]] = {}
        data, log = folder / "data", folder / "strace.log"
        data.mkdir()
        collector = Collector(
            data / "store.db",
            [COMMUTE],
            constants={
                f"{SQLITE}.CHECKPOINT_PAGES": 20,
                f"{SQLITE}.SYNCHRONOUS": synchronous,
                **SMALL,
            },
            token=False,
            before=traced([], log),
        )
        try:
            for life, end in enumerate([collector.stop, collector.kill]):
                collector.start()
                clients = range(3 * life, 3 * life + 3)
                together(threading.Thread(target=self._send, args=(collector, c)) for c in clients)
                end()
        finally:
            collector.close()
        self.operations = read_log(log, data, [], TCP)

    def _send(self, collector: Collector, client: int, uploads: int = 12) -> None:
        ids, rows = made(self.campaign, 50 * uploads, client)
        with closing(collector.client()) as connection:
            for upload in range(uploads):
                mine = slice(50 * upload, 50 * upload + 1 + 13 * upload % 50)
                body = report.to_binary(self.campaign.form, ids[mine], rows[mine])
                answer = connection.send("commute", body, report.BINARY)
                assert (answer.status, answer.json["failures"]) == (200, [])
                asked = self._asked.setdefault(connection.local_port, [])
                asked.append({one.tobytes() for one in ids[mine]})

    @property
    def sent(self) -> set[bytes]:
        return set().union(*(ids for uploads in self._asked.values() for ids in uploads))

    def promised(self, cut: int) -> set[bytes]:
        """The ids whose answer had begun to be sent: on a connection, one answer an upload."""
        answers = Counter(
            operation.channel
            for operation in self.operations[:cut]
            if isinstance(operation, Ack) and b'{"received":' in operation.data
        )
        ports = {channel: int(channel.rstrip("]").rsplit(":", 1)[1]) for channel in answers}
        uploads = (self._asked[ports[channel]][:n] for channel, n in answers.items())
        return set().union(*(ids for some in uploads for ids in some))

    def lost(self, n: int, seed: int) -> Iterator[int]:
        """Cut the power n times; for each state that may be left, audit it and count the lost."""
        rng = np.random.default_rng(seed)
        cuts = cut_points(self.operations, n, rng)
        assert len(cuts) == n
        for cut, state in power_cuts(self.operations, cuts, rng):
            with tempfile.TemporaryDirectory() as folder:
                write_files(state, Path(folder))
                found = audited_at(f"{folder}/store.db", self.campaign)
            assert found.ids <= self.sent
            yield len(self.promised(cut) - found.ids)


@pytest.fixture
def quick_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody cuts the power of whoever looks at what is left, or sends reports there."""
    monkeypatch.setattr(f"{SQLITE}.SYNCHRONOUS", "OFF")


@pytest.mark.slow
@pytest.mark.usefixtures("quick_look")
def test_a_power_cut_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    recorded = Recorded(tmp_path, "FULL")
    assert recorded.promised(len(recorded.operations)) == recorded.sent
    kinds = Counter((type(op), getattr(op, "file", "")) for op in recorded.operations)
    assert kinds[Sync, "store.db"] > 5  # checkpoints
    assert kinds[Unlink, "store.db-wal"] == 1
    lost = list(recorded.lost(CUTS, seed=1))
    assert len(lost) > 1.5 * CUTS
    assert set(lost) == {0}


@pytest.mark.slow
@pytest.mark.usefixtures("quick_look")
def test_the_same_cuts_show_that_normal_would_lose(tmp_path: Path) -> None:
    assert any(Recorded(tmp_path, "NORMAL").lost(CUTS, seed=2))


# -------------------------------------------------------------------- the same at the same time


@pytest.mark.slow
def test_concurrent_retries_count_once(store_url: str) -> None:
    campaign, rounds, threads = commute(), 15, 8
    ids, rows = made(campaign, 40 * rounds)
    outcomes: list[list[str]] = []
    ready = threading.Barrier(threads)

    def send(collector: Collector, kind: str) -> None:
        with closing(collector.client()) as client:
            for start in range(0, len(ids), 40):
                mine = slice(start, start + 40)
                ready.wait()
                body = encoded(campaign, ids[mine], rows[mine], kind)
                answer = client.send("commute", body, kind)
                assert answer.status == 200
                outcomes.append(outcomes_of(answer.json, 40))

    with running(store_url, COMMUTE, measured=False) as collector:
        kinds = [report.JSON, report.BINARY] * (threads // 2)
        together(threading.Thread(target=send, args=(collector, kind)) for kind in kinds)
    found = audited_at(store_url, campaign)
    assert len(outcomes) == rounds * threads
    assert Counter(o for some in outcomes for o in some) == {
        "stored": len(ids),
        "duplicate": (threads - 1) * len(ids),
    }
    assert found.ids == {one.tobytes() for one in ids}
    assert found.counts["duplicate"] == (threads - 1) * len(ids)


# ------------------------------------------------------------------------------- a full disk


@pytest.mark.slow
def test_a_full_disk_answers_507_and_goes_on_by_itself() -> None:
    campaign = commute()
    ids, rows = made(campaign, 100_000)
    bodies = [
        (ids[start : start + 2000], rows[start : start + 2000])
        for start in range(0, len(ids), 2000)
    ]
    acknowledged: set[bytes] = set()

    def send(collector: Collector, which: int) -> Answer:
        mine, reports = bodies[which]
        body = report.to_binary(campaign.form, mine, reports)
        answer = collector.send("commute", body, report.BINARY)
        if answer.status == 200:
            acknowledged.update(one.tobytes() for one in mine)
        return answer

    with small_disk(12) as disk:
        ballast, store = disk / "ballast", str(disk / "store.db")
        ballast.write_bytes(bytes(6 << 20))
        with running(store, COMMUTE) as collector:
            sent = 0
            while (answer := send(collector, sent)).status == 200:
                sent += 1
            for _ in range(3):
                assert (answer.status, answer.problem) == (507, "store-full")
                assert int(answer.headers["retry-after"]) > 0
                assert collector.get("/health").status == 200
                assert collector.about("commute", "estimates").status == 200
                status = collector.about("commute", "status").json
                assert status["balanced"]
                assert status["people"] == len(acknowledged)
                answer = send(collector, sent)
            ballast.unlink()
            for which in range(sent, sent + 3):
                answer = send(collector, which)
                assert (answer.status, answer.json.get("failures")) == (200, [])
            collector.kill()
        found = audited_at(store, campaign)
    assert sent > 5
    assert found.ids == acknowledged
    assert found.counts == {"received": len(acknowledged), "stored": len(acknowledged)}


def test_a_disk_that_is_full_from_the_start_says_so() -> None:
    with small_disk(1) as disk:
        (disk / "ballast").write_bytes(bytes((1 << 20) - 8192))
        with pytest.raises(StoreFullError, match="disk is full"):
            open_store(disk / "store.db")


# ------------------------------------------------------------------------------- PostgreSQL


def test_a_lost_database_answers_503_and_goes_on_by_itself(postgres_url: str) -> None:
    campaign = commute()
    ids, rows = made(campaign, 500)
    body = report.to_binary(campaign.form, ids, rows)
    with running(postgres_url, COMMUTE) as collector:
        assert collector.send("commute", body, report.BINARY).json["stored"] == 500
        for _ in range(2):
            assert hang_up(postgres_url) > 0
            answer = collector.send("commute", body, report.BINARY)
            assert (answer.status, answer.problem) == (503, "store-unavailable")
            assert int(answer.headers["retry-after"]) > 0
            assert collector.get("/health").status == 200
            answer = collector.send("commute", body, report.BINARY)
            assert (answer.status, answer.json["stored"]) == (200, 0)
            assert {collector.get("/ready").status for _ in range(2)} >= {200}
        assert collector.about("commute", "status").json["balanced"]
    found = audited_at(postgres_url, campaign)
    assert found.counts == {"received": 1500, "stored": 500, "duplicate": 1000}


def hang_up(url: str) -> int:
    """End every other connection to this database; return how many there were."""
    sql = (
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    with psycopg.connect(url, autocommit=True) as connection:
        return connection.execute(sql).rowcount


@pytest.mark.slow
def test_a_lock_that_is_never_given_back_turns_uploads_away(postgres_url: str) -> None:
    """A session that does nothing holds the store: 503, not ready, and it can be ended."""
    campaign = commute()
    ids, rows = made(campaign, 200)
    bodies = [report.to_binary(campaign.form, ids[n:][:100], rows[n:][:100]) for n in (0, 100)]
    brief = {f"{POSTGRES}.LOCK_SECONDS": 1, f"{POSTGRES}.PROBE_SECONDS": 1}
    with (
        psycopg.connect(postgres_url) as idle,
        running(postgres_url, COMMUTE, constants=brief) as collector,
    ):
        assert collector.send("commute", bodies[0], report.BINARY).json["stored"] == 100
        assert collector.get("/ready").status == 200
        idle.execute(f"SELECT pg_advisory_xact_lock({postgres.LOCK})".encode())
        answer = collector.send("commute", bodies[1], report.BINARY)
        assert (answer.status, answer.problem) == (503, "store-unavailable")
        assert int(answer.headers["retry-after"]) > 0
        answer = collector.get("/ready")
        assert (answer.status, answer.problem) == (503, "store-unavailable")
        assert collector.get("/health").status == 200
        assert collector.about("commute", "status").json["people"] == 100
        idle.rollback()
        assert collector.send("commute", bodies[1], report.BINARY).json["stored"] == 100
        assert collector.get("/ready").status == 200
        idle.execute(f"SELECT pg_advisory_xact_lock({postgres.LOCK})".encode())
        sent = (collector.send, "commute", bodies[1], report.BINARY)
        with ThreadPoolExecutor(1) as threads:
            waiting = threads.submit(*sent)
            wait_until_waiting(postgres_url)
            collector.stop()  # SIGTERM
            assert waiting.result().status == 503
    found = audited_at(postgres_url, campaign)
    assert found.counts == {"received": 200, "stored": 200}


def wait_until_waiting(url: str) -> None:
    """Come back when some session waits for a lock."""
    deadline = time.monotonic() + SECONDS
    with psycopg.connect(url, autocommit=True) as connection:
        while not connection.execute("SELECT 1 FROM pg_locks WHERE NOT granted").fetchall():
            assert time.monotonic() < deadline


@pytest.mark.slow
def test_a_full_disk_of_the_database_answers_507_and_goes_on_by_itself(postgres_url: str) -> None:
    campaign = commute()
    ids, rows = made(campaign, 400_000)
    acknowledged = 0

    def send(collector: Collector, which: int) -> Answer:
        mine = slice(10_000 * which, 10_000 * (which + 1))
        body = report.to_binary(campaign.form, ids[mine], rows[mine])
        return collector.send("commute", body, report.BINARY)

    with small_disk(30) as disk, small_database(postgres_url, disk) as url:
        ballast = disk / "ballast"
        ballast.write_bytes(bytes(18 << 20))  # a merge of runs needs room, too
        with running(url, COMMUTE) as collector:
            while (answer := send(collector, acknowledged)).status == 200:
                acknowledged += 1
            for _ in range(3):
                assert (answer.status, answer.problem) == (507, "store-full")
                assert collector.get("/health").status == 200
                status = collector.about("commute", "status").json
                assert status["balanced"]
                assert status["people"] == 10_000 * acknowledged
                answer = send(collector, acknowledged)
            ballast.unlink()
            for which in range(acknowledged, acknowledged + 2):
                answer = send(collector, which)
                assert (answer.status, answer.json.get("stored")) == (200, 10_000)
            assert send(collector, 0).json["stored"] == 0
            assert collector.log == ""
            collector.kill()
        found = audited_at(url, campaign)
    assert acknowledged > 2
    assert found.ids == {one.tobytes() for one in ids[: 10_000 * (acknowledged + 2)]}


@contextmanager
def small_database(url: str, disk: Path) -> Iterator[str]:
    """A database whose tables lie on a small disk."""
    space, name = disk / "space", f"small_{os.getpid()}"
    space.mkdir()
    if os.geteuid() == 0:
        shutil.chown(space, USER)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE TABLESPACE {name} LOCATION '{space}'".encode())
        connection.execute(f"CREATE DATABASE {name} TABLESPACE {name}".encode())
        try:
            yield re.sub(r"/test_[0-9a-f]+", f"/{name}", url)
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())
            connection.execute(f"DROP TABLESPACE {name}".encode())


@pytest.mark.slow
def test_connections_lost_under_load_lose_nothing(postgres_url: str) -> None:
    with running(postgres_url, COMMUTE) as collector:
        load = Load(commute(), collector.port, seed=5)
        with load.running():
            for _ in range(20):
                time.sleep(0.05)
                hang_up(postgres_url)
                load.check()
        notes = load.notes
    found = audited_at(postgres_url, commute())
    compare(Seen.of(notes), found, notes)
    assert found.ids == notes.sent == notes.acknowledged
    assert len(notes.sent) > 500


@pytest.mark.slow
def test_two_collectors_and_two_workers_share_a_database(postgres_url: str) -> None:
    """Each upload goes to all of them at once; every report counts once."""
    campaign = commute()
    ids, rows = made(campaign, 1500)
    outcomes: list[list[str]] = []

    def send(collector: Collector, order: int) -> None:
        starts = range(0, len(ids), 100)
        for start in starts if order % 2 else reversed(starts):
            mine = slice(start, start + 100)
            body = report.to_binary(campaign.form, ids[mine], rows[mine])
            answer = collector.send("commute", body, report.BINARY)
            assert answer.status == 200
            outcomes.append(outcomes_of(answer.json, 100))

    with (
        running(postgres_url, COMMUTE, workers=2) as both,
        running(postgres_url, COMMUTE) as third,
    ):
        senders = [both, third, both, third, both, both]
        together(
            threading.Thread(target=send, args=(collector, order))
            for order, collector in enumerate(senders)
        )
        statuses = [each.about("commute", "status").json for each in (both, third)]
        replace_workers(both)
        send(both, 0)
    found = audited_at(postgres_url, campaign)
    assert Counter(o for some in outcomes for o in some) == {"stored": 1500, "duplicate": 9000}
    assert found.ids == {one.tobytes() for one in ids}
    assert found.counts == {"received": 10500, "stored": 1500, "duplicate": 9000}
    assert [status["outcomes"]["stored"] for status in statuses] == [1500, 1500]


def replace_workers(collector: Collector) -> None:
    """Kill every worker of a collector, and wait until there are new ones."""
    old = workers_of(collector.pid)
    assert len(old) == 2
    for worker in old:
        os.kill(worker, signal.SIGKILL)
    deadline = time.monotonic() + SECONDS
    while len(workers_of(collector.pid) - old) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    collector.wait_until_ready()


def workers_of(pid: int) -> set[int]:
    """The processes that a collector has started for its workers."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    commands = {int(child): Path(f"/proc/{child}/cmdline").read_bytes() for child in children}
    return {child for child, command in commands.items() if b"spawn_main" in command}


# ------------------------------------------------------------------- one truth in every place


def test_both_stores_and_the_library_agree_bit_for_bit(tmp_path: Path, postgres_url: str) -> None:
    campaign = commute()
    ids, rows = made(campaign, 3000)
    tallies, estimates = [], []
    for url in (str(tmp_path / "store.db"), postgres_url):
        with running(url, COMMUTE) as collector:
            for start in range(0, 3000, 300):
                kind = report.JSON if start % 600 else report.BINARY
                mine = slice(start, start + 350)  # 50 of them are sent twice
                body = encoded(campaign, ids[mine], rows[mine], kind)
                assert collector.send("commute", body, kind).status == 200
            found = CampaignTallies.from_bytes(collector.about("commute", "tally").body, campaign)
            tallies += [
                [tally.to_bytes() for tally in part.tallies[0]] for part in found.parts.values()
            ]
            asked = [f"estimates?confidence={level}&about={about}" for level, about in ASKED]
            estimates.append([collector.about("commute", one).body for one in asked])
        kept = audited_at(url, campaign).rows
        assert kept == {i.tobytes(): row.tobytes() for i, row in zip(ids, rows, strict=True)}
        assert campaign.tally(as_rows(campaign, list(kept.values()))) == campaign.tally(rows)
    library = campaign.tally(rows)
    assert tallies == [[tally.to_bytes() for tally in library]] * 2
    assert estimates[0] == estimates[1]
    for data, (level, about) in zip(estimates[0], ASKED, strict=True):
        figures = read.figures(campaign, library, about, level)
        assert json.loads(data)["estimates"] == [asdict(figure) for figure in figures]


ASKED = [(0.95, "participants"), (0.5, "participants"), (0.99, "population")]
