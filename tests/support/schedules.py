"""Random lives of devices: collectors, versions, lost answers, restores, races with limits.

    .venv/bin/python -m tests.support.schedules --schedules 10000

Each schedule is one device with a real ledger that talks to real HTTP servers. Whatever happens to
it, two things must hold about what the collectors have seen:

    one report   for one (origin, digest, round, answer) there is one string of bytes, however often
    within limits   the reports that differ cost no more than the person's limits, in all, at each
                    collector and each by itself

A ledger is restored from a backup, or lost; the key beside it is not (who restores both gets the
same reports, but a total from before). tests/unit/device/test_schedules.py runs some of them.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import shutil
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from murmuration.definition import document as campaign_document
from murmuration.device import Client, Patience
from murmuration.errors import BudgetError, SendError
from murmuration.wire.address import Address
from tests.support.accounts import campaign_of
from tests.support.between import Seen, answering

STORED = json.dumps({"received": 1, "stored": 1, "failures": []}).encode()
LIMITS: dict[str, Any] = {"lifetime": 7.0, "per_collector": 5.0, "per_report": 2.0}
ONCE = """
name = "{name}"
purpose = "Asked once."
epsilon = {epsilon}
lifetime = {lifetime}
[[attributes]]
name = "answer"
kind = "category"
labels = ["a", "b", "c"]
mechanism = "{mechanism}"
"""
AGAIN = """
name = "{name}"
purpose = "Asked again and again."
epsilon = 0.5
lifetime = {lifetime}
[repeat]
permanent = 1.0
rounds = 6
values = 3
[[attributes]]
name = "answer"
kind = "category"
labels = ["a", "b", "c"]
"""


@dataclass
class World:
    """Collectors and campaigns: the same for all schedules."""

    hosts: list[Seen]
    documents: list[Path]
    failing: list[float] = field(default_factory=lambda: [0.0])
    """How often a collector hides that a report has arrived."""


@contextmanager
def world() -> Iterator[World]:
    texts = [
        ONCE.format(name="one", epsilon=1.0, lifetime=1.0, mechanism="grr"),
        ONCE.format(name="one", epsilon=1.0, lifetime=9.0, mechanism="subset"),  # another version
        ONCE.format(name="two", epsilon=2.0, lifetime=2.0, mechanism="olh"),
        ONCE.format(name="much", epsilon=3.0, lifetime=3.0, mechanism="grr"),  # beyond a report
        AGAIN.format(name="daily", lifetime=3.0),
        AGAIN.format(name="one", lifetime=2.0),  # a namesake
    ]
    with ExitStack() as stack, tempfile.TemporaryDirectory() as folder:
        found = World([], [])
        for number, text in enumerate(texts):
            path = Path(folder) / f"{number}.json"
            path.write_bytes(campaign_document.publish(campaign_of(text)))
            found.documents.append(path)

        def answer(number: int, body: bytes) -> tuple[int, dict[str, str], bytes]:
            del number, body
            lost = random.random() < found.failing[0]
            return (500, {}, b"") if lost else (200, {}, STORED)

        found.hosts = [stack.enter_context(answering(answer)) for _ in range(2)]
        yield found


@dataclass
class Life:
    """One device from its first day on."""

    world: World
    folder: Path
    dice: random.Random
    reports: dict[tuple[str, str, str, str], set[bytes]] = field(
        default_factory=lambda: defaultdict(set)
    )
    """What was seen for (origin, digest, round, answer)."""
    costs: dict[tuple[str, ...], Fraction] = field(default_factory=dict)
    """What each different thing that was told has cost."""
    happened: Counter[str] = field(default_factory=Counter)

    @property
    def ledger(self) -> Path:
        return self.folder / "ledger.db"

    def live(self, steps: int) -> None:
        for _ in range(steps):
            act = self.dice.choice([self.answer, self.answer, self.answer, self.back, self.lose])
            act()
            self.check()

    def client(self, host: Seen, document: Path) -> Client:
        patience = Patience(attempts=1)
        return Client(document, self.ledger, send_to=host.url, patience=patience, **LIMITS)

    def answer(self) -> None:
        """Answer some question somewhere, or send again what waits."""
        host, document = self.dice.choice(self.world.hosts), self.dice.choice(self.world.documents)
        self.world.failing[0] = self.dice.choice([0.0, 0.0, 0.6])
        client, answer = self.client(host, document), self.dice.choice("aaaabc")
        turn = self.dice.choice(["mon", "tue", "wed"]) if client.campaign.repeated else ""
        origin, digest = Address.parse(host.url).origin, client.campaign.digest
        known = client.ledger.find(origin, digest, turn)
        before = len(host.bodies)
        try:
            client.report({"answer": answer}, period=turn)
            self.happened["delivered"] += 1
        except BudgetError as refused:
            self.happened[f"refused: {refused.reason}"] += 1
        except SendError:
            self.happened["lost"] += 1
        if known is None:
            for body in host.bodies[before:]:
                self.told(client, (origin, digest, turn, answer), body)
        elif any(body != known.report for body in host.bodies[before:]):
            raise AssertionError("a retry sent other bytes")
        with contextlib.suppress(SendError):
            client.resend()

    def told(self, client: Client, what: tuple[str, str, str, str], body: bytes) -> None:
        origin, digest, turn, answer = what
        self.reports[what].add(body)
        if client.campaign.repeated:  # all reports about one value together
            self.costs[origin, digest, answer] = Fraction(1)
        else:
            self.costs[origin, digest, turn, answer] = Fraction(str(client.campaign.epsilon))

    def back(self) -> None:
        """Keep a backup of the ledger, or restore one."""
        backups = sorted(self.folder.glob("backup*"))
        if self.ledger.exists() and (not backups or self.dice.random() < 0.5):
            shutil.copy(self.ledger, self.folder / f"backup{len(backups)}")
        elif backups:
            shutil.copy(self.dice.choice(backups), self.ledger)
            self.happened["restored"] += 1

    def lose(self) -> None:
        """Lose the ledger."""
        if self.ledger.exists() and self.dice.random() < 0.3:
            self.ledger.unlink()
            self.happened["lost ledgers"] += 1

    def check(self) -> None:
        assert all(len(bodies) == 1 for bodies in self.reports.values()), "two reports for one"
        assert sum(self.costs.values()) <= LIMITS["lifetime"], "beyond the lifetime limit"
        for host in self.world.hosts:
            origin = Address.parse(host.url).origin
            here = sum(cost for key, cost in self.costs.items() if key[0] == origin)
            assert here <= LIMITS["per_collector"], "beyond the collector's limit"
        assert max(self.costs.values(), default=0) <= LIMITS["per_report"], "beyond a report's"


def run(schedules: int, first: int = 0, steps: int = 18, show: bool = False) -> Counter[str]:
    """Live so many lives; return what happened in them."""
    happened: Counter[str] = Counter()
    with world() as found:
        for seed in range(first, first + schedules):
            with tempfile.TemporaryDirectory() as folder:
                random.seed(seed)
                life = Life(found, Path(folder), random.Random(seed))
                life.live(steps)
            happened += life.happened
            for host in found.hosts:
                host.bodies.clear()
                host.headers.clear()
                host.times.clear()
            if show and (seed + 1) % 100 == 0:
                print(f"{seed + 1:,} schedules: {dict(happened)}", flush=True)  # noqa: T201
    return happened


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--schedules", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="the seed of the first one")
    asked = parser.parse_args()
    print(dict(run(asked.schedules, asked.first, show=True)))  # noqa: T201
    sys.exit(0)
