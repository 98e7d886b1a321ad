"""What was acknowledged is there: after a power cut, a full disk, a lost database, a race.

Everything here happens to a real collector process over HTTP.
"""

import tempfile
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import psycopg
import pytest

from accounts import COMMUTE, as_rows, audited_at, commute, made, outcomes_of
from file_trace import TCP, Ack, Sync, Unlink, traced
from murmuration import report
from murmuration.campaign import Campaign
from murmuration.store import open_store
from power_loss import cut_points, power_cuts, read_log, write_files
from serving import NAMED, Answer, Serving, serving
from tools import small_disk

CUTS = 400
REPORTS = f"{NAMED}commute/reports"


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
        collector = Serving(
            str(data / "store.db"),
            [COMMUTE],
            sqlite={"CHECKPOINT_PAGES": 20, "SYNCHRONOUS": synchronous},
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

    def _send(self, collector: Serving, client: int, uploads: int = 12) -> None:
        ids, rows = made(self.campaign, 50 * uploads, client)
        with closing(collector.client()) as connection:
            for upload in range(uploads):
                mine = slice(50 * upload, 50 * upload + 1 + 13 * upload % 50)
                body = report.to_binary(self.campaign, ids[mine], rows[mine])
                answer = connection.ask("POST", REPORTS, body, report.BINARY)
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
    monkeypatch.setattr("murmuration.store.sqlite.SYNCHRONOUS", "OFF")
    monkeypatch.setattr("murmuration.store.sqlite.MOST_ROWS", 1)


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


@pytest.mark.usefixtures("quick_look")
def test_the_same_cuts_show_that_normal_would_lose(tmp_path: Path) -> None:
    assert any(Recorded(tmp_path, "NORMAL").lost(CUTS, seed=2))
