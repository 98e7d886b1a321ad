"""Collectors side by side: two on one PostgreSQL behind HAProxy, one in another region.

Devices send through the proxy and try again, the same bytes, until they are answered. One
collector is killed, one is drained, both come back. In the end every report counts once, and both
regions have the same figures: those of all reports together.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from murmuration.collector.commit import Batch, commit
from murmuration.collector.publish import serve
from murmuration.collector.store import open_store
from murmuration.device.sending import STORED, Link, Patience, deliver, outcomes
from murmuration.errors import SendError
from murmuration.wire import report
from murmuration.wire.address import Address
from tests.support import haproxy
from tests.support.accounts import COMMUTE, audited_at, commute, made, total_at
from tests.support.between import HOST
from tests.support.collectors import CAMPAIGNS, Client, Collector, running
from tests.support.command import murmur

pytestmark = pytest.mark.slow

NAME = "commute"
CAMPAIGN = commute()
BATCH = 10
IDS, ROWS = made(CAMPAIGN, 4000)
EAST, WEST = range(3000), range(3000, 4000)
"""Whose devices send where."""
TALLY = f"{CAMPAIGNS}/{NAME}/tally"
KEY = bytes(range(32))
SOON = Patience(attempts=200, first=0.01, most=0.1)


def bodies(people: range) -> list[tuple[int, bytes]]:
    """Uploads of a few reports each, and how many are in them."""
    parts = [slice(start, min(start + BATCH, people.stop)) for start in people[::BATCH]]
    return [
        (part.stop - part.start, report.to_json(CAMPAIGN.form, IDS[part], ROWS[part]))
        for part in parts
    ]


@dataclass
class Devices:
    """Devices that send at the same time, each over a connection of its own that it keeps."""

    port: int
    answered: Counter[str] = field(default_factory=Counter)
    unanswered: int = 0
    """Attempts to which nobody said anything about the reports."""

    def __post_init__(self) -> None:
        self._pool = ThreadPoolExecutor(8)
        self._own, self._lock = threading.local(), threading.Lock()
        self._links: list[Link] = []

    def send(self, uploads: Sequence[tuple[int, bytes]]) -> list[Future[None]]:
        return [self._pool.submit(self._until_answered, *upload) for upload in uploads]

    def _until_answered(self, count: int, body: bytes) -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                found = outcomes(deliver(self._link, body, report.JSON, SOON), count)
            except SendError:  # cut off, or the proxy's own page: nothing is known, so again
                with self._lock:
                    self.unanswered += 1
                time.sleep(0.02)
                continue
            with self._lock:
                self.answered.update(found)
            return
        raise TimeoutError("an upload was never answered")

    @property
    def _link(self) -> Link:
        if not hasattr(self._own, "link"):
            address = Address.parse(f"http://{HOST}:{self.port}{CAMPAIGNS}/{NAME}")
            self._own.link = Link(address, seconds=10)
            self._links.append(self._own.link)
        return self._own.link

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)
        for link in self._links:
            link.close()


def all_of(sent: list[Future[None]]) -> None:
    for one in sent:
        one.result(90)


def wait_for(sent: list[Future[None]], many: int) -> None:
    """Come back when so many are answered; the others are under way."""
    for one in sent[:many]:
        one.result(90)


@pytest.fixture
def pair(postgres_url: str) -> Iterator[tuple[Collector, Collector]]:
    """Two collectors on one PostgreSQL, behind a proxy."""
    start = partial(running, postgres_url, COMMUTE, forwarded=True, measured=False)
    with start() as one, start() as two:
        yield one, two


def test_nothing_is_lost_or_doubled_and_there_is_one_figure(
    pair: tuple[Collector, Collector], postgres_url: str, tmp_path: Path
) -> None:
    one, two = pair
    with (
        running(tmp_path / "west.db", COMMUTE, measured=False) as west,
        haproxy.in_front_of(one.port, two.port) as proxy,
    ):
        for region in (one, west):
            region.share(KEY)
        devices, far = Devices(proxy.port), Devices(west.port)
        try:
            elsewhere = far.send(bodies(WEST))
            _through_a_kill_and_a_drain(proxy, one, two, devices)
            all_of(elsewhere)
        finally:
            devices.close()
            far.close()
        assert devices.answered.total() == len(EAST)
        assert devices.answered[STORED] + devices.answered["duplicate"] == len(EAST)
        assert far.answered == {STORED: len(WEST)}
        _exchanged(one, west, proxy)
        for collector in (one, two, west):
            _has_figures_of_all(collector)
    for url in (postgres_url, str(tmp_path / "west.db")):
        assert total_at(url, CAMPAIGN) == CAMPAIGN.tally(ROWS)
    stored = audited_at(postgres_url, CAMPAIGN)  # adds up, each id once
    assert stored.ids == {bytes(one) for one in IDS[EAST.start : EAST.stop]}
    assert audited_at(str(tmp_path / "west.db"), CAMPAIGN).counts["stored"] == len(WEST)


def _through_a_kill_and_a_drain(
    proxy: haproxy.Proxy, one: Collector, two: Collector, devices: Devices
) -> None:
    """A third of the devices through each: a kill, a collector that comes back, a drain."""
    uploads, third = bodies(EAST), len(EAST) // BATCH // 3
    sent = devices.send(uploads[:third])
    wait_for(sent, third // 4)
    one.kill()
    all_of(sent)
    assert int(proxy.servers()["one"]["stot"]) > 0  # it had been asked, too
    assert two.status(NAME)["outcomes"]["stored"] >= third * BATCH
    sent = devices.send(uploads[third : 2 * third])
    one.start()
    proxy.wait_until("one", "UP")
    all_of(sent)
    sent = devices.send(uploads[2 * third :])
    proxy.drain("two")
    asked = proxy.servers()["two"]["stot"]
    two.stop()
    all_of(sent)
    assert proxy.servers()["two"]["stot"] == asked  # nobody was sent to it any more
    two.start()
    proxy.ready("two")


def _exchanged(one: Collector, west: Collector, proxy: haproxy.Proxy) -> None:
    """Each region tells the other its tallies; one address stands for the pair."""
    names = [one.name, west.name]
    to_east, to_west = (region.token("merge", sources=names) for region in (one, west))
    told, octets = west.get(TALLY).body, "application/octet-stream"
    with closing(Client(proxy.port, one.admin)) as east:  # whichever the proxy chooses
        assert east.post(TALLY, told, octets, to_east).json["merged"] == 1
        assert east.post(TALLY, told, octets, to_east).json["merged"] == 0  # again, nothing new
        assert west.post(TALLY, east.get(TALLY).body, octets, to_west).json["merged"] == 1


def _has_figures_of_all(collector: Collector) -> None:
    """But of those who came since the cohort before: figures wait for the next cohort."""
    assert collector.status(NAME)["people"] == len(ROWS)
    figures = collector.about(NAME, "estimates").json["estimates"]
    shown = {figure["attribute"]: figure["n"] for figure in figures}
    least = CAMPAIGN.terms.cohort
    assert len(ROWS) - 3 * len(shown) * least < sum(shown.values()) <= len(ROWS)


def test_a_file_moves_into_a_database(postgres_url: str, tmp_path: Path) -> None:
    """Some reports are in the old store, some in the new one, some in both: each counts once."""
    old = str(tmp_path / "old.db")
    for where, people in ((old, slice(0, 300)), (postgres_url, slice(200, 400))):
        body = report.to_binary(CAMPAIGN.form, IDS[people], ROWS[people])
        with closing(open_store(where)) as store:
            served = serve(store, CAMPAIGN)
            commit(store, [Batch(served, report.decode(CAMPAIGN.form, body, report.BINARY))])
    for _ in range(2):
        murmur("merge", postgres_url, old)
    assert total_at(postgres_url, CAMPAIGN) == CAMPAIGN.tally(ROWS[:400])
