"""kill -9 at random moments of live trainings: the same reports end in the same model, bit for bit.

    python -m tests.support.training_torture --kills 100 [--store postgresql://...] [--seed 1]

Devices send their reports in small uploads over several connections, and each upload, the same
bytes, again until it is answered. Meanwhile the collector is killed and started again. At the end
rounds, tallies and model are those of the same reports counted in one process without a collector.
"""

from __future__ import annotations

import argparse
import http.client
import random
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import cache

import numpy as np

from murmuration.collector.store import open_store
from murmuration.collector.store import rounds as stored
from murmuration.collector.training import model
from murmuration.collector.training.rounds import OVER, closed_tallies
from murmuration.collector.training.served import ServedTraining
from murmuration.training import round as round_document
from murmuration.training.round import Round
from murmuration.training.run import LiveTraining
from murmuration.wire import report
from tests.support.collectors import CAMPAIGNS, Answer, Client, Collector
from tests.support.training_cases import LOANS, People, loans

SENDERS = 3
UPLOAD = 40
"""Reports in one."""
LONGEST = 0.12
"""Seconds before a kill."""
SECONDS = 120.0
"""Without an answer somebody gives up."""
QUICK = {"murmuration.server.rounds.LOOK_SECONDS": 0.02}


@dataclass(frozen=True)
class Reference:
    """A training of the same reports, without a collector."""

    digests: tuple[str, ...]
    model: bytes


@cache
def reference(seed: int) -> Reference:
    people, live, digests = People(loans(), seed), LiveTraining(loans()), []
    counted = 0
    while (found := live.round) is not None:
        digests.append(found.digest)
        _, rows = people.reports(found, found.size)
        counted += found.size
        live.close(found.form.tally(rows))
    return Reference(tuple(digests), model.to_json(model.of(loans(), live.trained, counted)))


class Devices:
    """Everybody who takes part: round by round, over a collector that may be gone at any time."""

    def __init__(self, port: int, seed: int) -> None:
        self._port, self._people, self._gone = port, People(loans(), seed), threading.Event()
        self.fates: dict[str, int] = {}
        self._lock = threading.Lock()

    def play(self) -> None:
        """Answer every round until training is over."""
        last = ""
        while (found := self._next(last)) is not None:
            last = found.digest
            ids, rows = self._people.reports(found, found.size)
            starts = range(0, found.size, UPLOAD)
            bodies = [
                report.to_binary(found.form, ids[at : at + UPLOAD], rows[at : at + UPLOAD])
                for at in starts
            ]
            with ThreadPoolExecutor(SENDERS) as senders:
                for one in [senders.submit(self._send, body) for body in bodies]:
                    one.result()

    def _asked(self, method: str, path: str, body: bytes | None = None) -> Answer:
        """Ask until there is an answer."""
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            with (
                suppress(OSError, http.client.HTTPException),
                closing(Client(self._port, timeout=20)) as client,
            ):
                kind = {"Content-Type": report.BINARY} if body else {}
                answer = client.ask(method, path, body, kind)
                if answer.status < 500:
                    return answer
            time.sleep(0.005)
        raise TimeoutError("the collector does not answer")

    def _next(self, last: str) -> Round | None:
        while True:
            answer = self._asked("GET", f"{CAMPAIGNS}/loans/round")
            if answer.status == 200:
                found = round_document.read(answer.body, loans())
                if found.digest != last:
                    return found
            elif answer.json["detail"] == OVER:
                return None
            time.sleep(0.003)

    def _send(self, body: bytes) -> None:
        answer = self._asked("POST", f"{CAMPAIGNS}/loans/reports", body)
        receipt = answer.json
        reasons = [one["type"].removeprefix("/problems/") for one in receipt["failures"]]
        with self._lock:
            for fate in ["stored"] * receipt["stored"] + reasons:
                self.fates[fate] = self.fates.get(fate, 0) + 1


def train(store: str, kills: int, seed: int, people: int) -> int:
    """Run one training under fire; return how often the collector was killed. Asserts all of it."""
    chance = random.Random(f"{seed}/{people}")
    with closing(Collector(store, [LOANS], constants=QUICK, measured=False)) as collector:
        collector.start()
        devices, killed = Devices(collector.port, people), 0
        with ThreadPoolExecutor(1) as playing:
            over = playing.submit(devices.play)
            while killed < kills and not over.done():
                time.sleep(chance.uniform(0, LONGEST))
                if over.done():
                    break
                collector.kill()
                killed += 1
                collector.start()
            over.result()
        assert set(devices.fates) <= {"stored", "duplicate"}, devices.fates
        check(store, people, collector.status("loans"))
    return killed


def check(store: str, people: int, status: dict[str, object]) -> None:
    """The same rounds, the same tallies, the same model; nothing lost, nothing counted twice."""
    wanted = reference(people)
    with closing(open_store(store)) as opened:
        key = opened.key_of(loans().digest) or 0
        found = stored.rounds(opened, key)
        assert tuple(one.digest for one in found) == wanted.digests
        assert {one.state for one in found} == {stored.CLOSED}
        assert stored.finished(opened, key) == wanted.model
        tallies = closed_tallies(opened, ServedTraining(loans(), 1, b"", key))
        counted = sum(tally.n for one in tallies for tally in one)
        assert opened.report_count(key) == counted == opened.counts("loans")["stored"]
        assert [opened.report_count(one.own) for one in found] == [
            sum(tally.n for tally in one) for one in tallies
        ]
    assert status["balanced"]


def main(given: Sequence[str] | None = None) -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    options.add_argument("--kills", type=int, default=100)
    options.add_argument("--store", default="", help="A postgresql:// URL; a new file if left out.")
    options.add_argument("--seed", type=int, default=1)
    asked = options.parse_args(given)
    done, trainings, begun = 0, 0, time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        while done < asked.kills:
            trainings += 1
            where = asked.store or f"{folder}/{trainings}.db"
            done += train(where, asked.kills - done, asked.seed, trainings)
            print(f"{done} kills in {trainings} trainings: the same model each time")  # noqa: T201
            if asked.store:
                break  # a database has this training once
    seconds = time.monotonic() - begun
    print(f"{done} kill -9, {trainings} trainings, 0 differences, {seconds:.0f} s")  # noqa: T201
    return 0


if __name__ == "__main__":
    np.seterr(all="raise")
    sys.exit(main())
