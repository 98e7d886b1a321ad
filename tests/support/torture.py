"""kill -9 at random moments under load: nothing acknowledged is lost, nothing counts twice.

    python -m tests.support.torture --kills 500 [--store postgresql://...]

Clients send uploads of every kind and repeat one, the same bytes, until it is answered. Each notes
what it has sent, and what it was answered to the last byte. After a kill, while nothing runs, the
database is compared with these notes.
"""

import argparse
import http.client
import random
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from murmuration.campaign.survey import SurveyCampaign
from murmuration.exact.arrays import Rows
from murmuration.wire import report
from murmuration.wire.ids import ID_BYTES, Ids, new_ids
from tests.support.accounts import COMMUTE, Accounts, audited_at, commute, made, outcomes_of
from tests.support.collectors import Client, Collector

CLIENTS = 4
POOL = 5000
KNOWN = 300
LONGEST = 0.15
"""Seconds under load before a kill: some dozens of commits."""
RUNS = "murmuration.collector.store.runs"
SMALL = {f"{RUNS}.BLOCK": 16, f"{RUNS}.TIERS": (32, 256, 2048), f"{RUNS}.MERGED": 4}
"""Runs are merged often."""
OFTEN = {
    "murmuration.collector.files.sink.MOST_BYTES": 30_000,
    "murmuration.server.app.SEAL_SECONDS": 0.02,
}
"""Logs are sealed often."""
PAUSE = 0.005


@dataclass(frozen=True)
class Body:
    """One upload: its bytes, and what is in it."""

    kind: str
    data: bytes
    ids: tuple[bytes, ...]
    """The id of each report that can be counted; b"" for one that is bad."""
    readable: bool = True


@dataclass
class Notes:
    """What was sent and what was answered. A sending is noted before, an answer after."""

    sent: set[bytes] = field(default_factory=set)
    acknowledged: set[bytes] = field(default_factory=set)
    stored: Counter[bytes] = field(default_factory=Counter)
    """How often each id was answered as newly stored."""
    answered: Counter[str] = field(default_factory=Counter)
    reports_sent: int = 0
    """In all attempts that found somebody listening: answered, or cut off by a kill."""
    uploads: int = 0
    cut_off: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def sending(self, body: Body) -> None:
        with self.lock:
            self.sent.update(filter(None, body.ids))
            self.reports_sent += max(1, len(body.ids))

    def heard(self, body: Body, outcomes: list[str]) -> None:
        with self.lock:
            pairs = list(zip(body.ids, outcomes, strict=True)) if body.readable else []
            self.acknowledged.update(each for each, _ in pairs if each)
            self.stored.update(each for each, outcome in pairs if outcome == "stored")
            self.answered.update(outcomes)
            self.answered["received"] += len(outcomes)
            self.uploads += 1

    def broken(self, body: Body, sent: bool) -> None:
        with self.lock:
            self.cut_off += sent
            self.reports_sent -= 0 if sent else max(1, len(body.ids))


class Bodies:
    """Uploads of every kind, from a pool of reports and fresh ids."""

    def __init__(self, campaign: SurveyCampaign, seed: int) -> None:
        self._campaign, self._random = campaign, random.Random(seed)
        _, self._rows = made(campaign, POOL, seed)
        self._known: list[bytes] = []

    def next(self) -> Body:
        """One upload: a report, a list, columns, or something that is no upload at all."""
        kind = self._random.choices(["one", "list", "columns", "nothing"], [5, 3, 4, 1])[0]
        if kind == "nothing":
            return Body(report.JSON, b'{"digest": ', (), readable=False)
        if kind == "columns":
            return self._columns(self._random.randint(1, 200))
        return self._listed(1 if kind == "one" else self._random.randint(2, 30))

    def _ids(self, n: int) -> list[bytes]:
        """Ids, most of them fresh; some were sent before, some are twice in one upload."""
        ids = [one.tobytes() for one in new_ids(n)]
        for place in range(n):
            if self._known and self._random.random() < 0.1:
                ids[place] = self._random.choice(self._known)
            elif place and self._random.random() < 0.02:
                ids[place] = ids[place - 1]
        self._known = [*self._known, *ids][-KNOWN:]
        return ids

    def _made(self, n: int) -> tuple[list[bytes], Rows]:
        start = self._random.randrange(POOL - n)
        return self._ids(n), self._rows[start : start + n].copy()

    def _columns(self, n: int) -> Body:
        ids, rows = self._made(n)
        bad = np.array([self._random.random() < 0.05 for _ in range(n)])
        rows[bad, 0] = 250  # there is no such cell
        data = report.to_binary(self._campaign.form, _octets(ids), rows)
        return Body(report.BINARY, data, _without(ids, bad.tolist()))

    def _listed(self, n: int) -> Body:
        ids, rows = self._made(n)
        reports = msgspec.json.decode(report.to_json(self._campaign.form, _octets(ids), rows))
        reports = [reports] if n == 1 else reports
        bad = [self._spoil(one) for one in reports]
        data = msgspec.json.encode(reports[0] if n == 1 and not bad[0] else reports)
        return Body(report.JSON, data, _without(ids, bad))

    def _spoil(self, one: dict[str, object]) -> bool:
        """Make a report bad, now and then."""
        field, value = self._random.choice(
            [("digest", "0" * 64), ("id", "none"), ("entries", [[0]]), ("wire", 9), ("id", 5)]
        )
        if self._random.random() < 0.1:
            one[field] = value
            return True
        return False


def _octets(ids: list[bytes]) -> Ids:
    return np.frombuffer(b"".join(ids), dtype=np.uint8).reshape(-1, ID_BYTES)


def _without(ids: list[bytes], bad: list[bool]) -> tuple[bytes, ...]:
    return tuple(b"" if wrong else each for each, wrong in zip(ids, bad, strict=True))


class Load:
    """Clients that send until they are told to stop; then they finish what they have begun."""

    def __init__(
        self, campaign: SurveyCampaign, port: int, seed: int, clients: int = CLIENTS
    ) -> None:
        self.notes, self._stopping = Notes(), threading.Event()
        self._name = campaign.name
        self._failures: list[BaseException] = []
        self._threads = [
            threading.Thread(target=self._run, args=(port, Bodies(campaign, seed * 100 + n)))
            for n in range(clients)
        ]

    @contextmanager
    def running(self) -> Iterator[None]:
        """Send while inside; at the end everything that was begun has been answered."""
        for thread in self._threads:
            thread.start()
        try:
            yield
        finally:
            self._stopping.set()
            for thread in self._threads:
                thread.join()
        self.check()

    def check(self) -> None:
        """Raise what stopped a client."""
        if self._failures:
            raise self._failures[0]

    def _run(self, port: int, bodies: Bodies) -> None:
        client = Client(port, timeout=20.0)
        try:
            while not self._stopping.is_set():
                self._deliver(client, bodies.next())
        except BaseException as failure:
            self._failures.append(failure)
        finally:
            client.close()

    def _deliver(self, client: Client, body: Body) -> None:
        """Send the same bytes until they are answered."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            self.notes.sending(body)
            try:
                answer = client.send(self._name, body.data, body.kind)
            except (OSError, http.client.HTTPException) as failure:
                self.notes.broken(body, sent=not isinstance(failure, ConnectionRefusedError))
                time.sleep(PAUSE)
                continue
            if answer.status == 200:
                self.notes.heard(body, outcomes_of(answer.json, len(body.ids)))
                return
            if answer.status == 400 and not body.readable:
                self.notes.heard(body, ["malformed"])
                return
            assert answer.status in (503, 507), answer
            time.sleep(PAUSE)
        raise TimeoutError("an upload was not answered")


@dataclass(frozen=True)
class Seen:
    """The notes at one moment, before the database is looked at."""

    acknowledged: frozenset[bytes]
    answered: Counter[str]

    @classmethod
    def of(cls, notes: Notes) -> "Seen":
        with notes.lock:
            return cls(frozenset(notes.acknowledged), Counter(notes.answered))


def compare(seen: Seen, accounts: Accounts, notes: Notes) -> None:
    """Assert that the database has what was acknowledged, and nothing that nobody sent."""
    lost = seen.acknowledged - accounts.ids
    assert not lost, f"{len(lost)} acknowledged reports are lost"
    with notes.lock:
        invented = accounts.ids - notes.sent
        double = [each for each, times in notes.stored.items() if times > 1]
        most = notes.reports_sent
    assert not invented, f"{len(invented)} reports were never sent"
    assert not double, f"{len(double)} reports were stored more than once"
    short = {o: n for o, n in seen.answered.items() if accounts.counts.get(o, 0) < n}
    assert not short, f"fewer are counted than were answered: {short}"
    assert accounts.counts.get("received", 0) <= most, "more is counted than was sent"


def torture(
    store: str,
    kills: int,
    seed: int = 1,
    every: int = 5,
    gently: bool = False,
    reports: Path | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> Notes:
    """Kill a collector so many times under load, and compare after every few kills.

    Nothing in a collector brings a lost report back or takes a double one away, so a comparison
    sees what went wrong in any of the kills before it. One kill in ten comes before the collector
    is ready. Gently: it is asked to end, not killed. `reports` is the folder that they go to.
    """
    campaign, chance = commute(), random.Random(seed)
    options: dict[str, Any] = {"constants": {**SMALL, **OFTEN}, "token": False, "measured": False}
    collector = Collector(store, [COMMUTE], reports=reports, **options)
    load = Load(campaign, collector.port, seed)
    try:
        with load.running():
            for kill in range(1, kills + 1):
                early = chance.random() < 0.1
                collector.fork()
                if not early:
                    collector.wait_until_ready()
                time.sleep(chance.uniform(0, LONGEST / 3 if early else LONGEST))
                collector.stop() if gently else collector.kill()
                load.check()
                if kill % every == 0:
                    seen = Seen.of(load.notes)
                    accounts = audited_at(store, campaign, reports=reports)
                    compare(seen, accounts, load.notes)
                    tell(f"{kill} kills: {told(load.notes, accounts)}")
            collector.start()
        collector.stop()
        notes, accounts = load.notes, audited_at(store, campaign, reports=reports)
        compare(Seen.of(notes), accounts, notes)
        assert accounts.ids == notes.sent == notes.acknowledged
        tell(f"the end: {told(notes, accounts)}")
        return notes
    finally:
        collector.close()


def told(notes: Notes, accounts: Accounts) -> str:
    """One line about where it stands."""
    return (
        f"{notes.uploads:,} uploads answered, {notes.cut_off:,} cut off; "
        f"{len(accounts.ids):,} reports stored, {accounts.counts.get('duplicate', 0):,} "
        "duplicates; 0 lost, 0 double"
    )


def main() -> None:
    """Read the command line, and say how it went."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--store", default="", help="default: a SQLite file in a temporary folder")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10_000))
    parser.add_argument("--every", type=int, default=5, help="kills between two comparisons")
    parser.add_argument("--reports", action="store_true", help="reports go to a folder")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        reports = Path(folder, "reports") if given.reports else None
        store = given.store or f"{folder}/store.db"
        print(f"{given.kills} kills, seed {given.seed}")  # noqa: T201
        torture(store, given.kills, given.seed, given.every, reports=reports, tell=_print)
    print(f"PASSED: {given.kills} kills, no acknowledged report lost, none counted twice")  # noqa: T201


def _print(line: str) -> None:
    print(line, flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
