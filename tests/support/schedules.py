"""Random lives of devices: collectors, versions, lost answers, restores, kills, races with limits.

    .venv/bin/python -m tests.support.schedules --schedules 10000

Each schedule is one person with one key and two ledgers, on one device or two, who talks to real
HTTP servers. Ledgers are restored from backups, or lost; a device is killed between any two steps.
Whatever happens, three things must hold:

    one report   for one collector, question and period there is one string of bytes, however often
    within limits   what was told costs no more than the person's limits, in all, at each collector
                    and each report by itself
    nothing lost    what was spent is the cost of what was told, or could have been

The key and its record are not restored (docs/threat-model.md says what is lost then).
tests/unit/device/test_schedules.py runs some of them, and tests/unit/device/test_interleavings.py
all short ones.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import shutil
import sqlite3
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest.mock import patch

from murmuration.definition import document as campaign_document
from murmuration.device import Client, Ledger, Patience, costs
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
OPEN = """
name = "open"
purpose = "Asked once; whoever must not spend more has no answer."
epsilon = 2.0
lifetime = 2.0
[[attributes]]
name = "answer"
kind = "category"
labels = ["a", "b", "c"]
missing = true
"""


class KilledError(BaseException):
    """A device that is killed: nothing is caught, nothing is tidied up."""


class Reaper:
    """Kills a device before or after a statement that begins or ends a transaction."""

    def __init__(self) -> None:
        self.left: int | None = None
        """So many beginnings and ends of transactions from now; None: never."""

    def reached(self) -> None:
        """Count one down."""
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                self.left = None
                raise KilledError

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch all SQLite files of devices."""
        reaper, connect = self, sqlite3.connect

        class Mortal(sqlite3.Connection):
            def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
                marks = sql in ("BEGIN IMMEDIATE", "COMMIT")
                if marks:
                    reaper.reached()
                done = super().execute(sql, *values)
                if marks:
                    reaper.reached()
                return done

        with patch("sqlite3.connect", lambda *a, **k: connect(*a, factory=Mortal, **k)):
            yield


def ports_as_hosts() -> AbstractContextManager[object]:
    """Take each port of this machine for a collector of its own, as tests have one machine."""
    return patch.object(costs, "collector_of", lambda origin: origin)


@dataclass
class World:
    """Collectors and campaigns: the same for all schedules."""

    hosts: list[Seen]
    documents: list[Path]
    reaper: Reaper = field(default_factory=Reaper)
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
        OPEN,
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
        stack.enter_context(found.reaper.watching())
        stack.enter_context(ports_as_hosts())
        yield found


@dataclass
class Life:
    """One person from their first day on."""

    world: World
    folder: Path
    dice: random.Random
    reports: dict[tuple[str, str, str], set[bytes]] = field(
        default_factory=lambda: defaultdict(set)
    )
    """What was seen for (origin, digest, period)."""
    costs: dict[tuple[str, ...], Fraction] = field(default_factory=dict)
    """What each different thing that was told has cost."""
    unseen: dict[tuple[str, ...], Fraction] = field(default_factory=dict)
    """The same of what a device was killed about: it may have been reserved."""
    happened: Counter[str] = field(default_factory=Counter)

    @property
    def ledgers(self) -> list[Path]:
        return [self.folder / "first.db", self.folder / "second.db"]

    @property
    def key(self) -> Path:
        return self.folder / "person.key"

    def live(self, steps: int) -> None:
        for ledger in self.ledgers:
            Ledger(ledger, secret=self.key)
        for _ in range(steps):
            act = self.dice.choice([self.answer, self.answer, self.answer, self.back, self.lose])
            act()
            self.check()

    def client(self, host: Seen, document: Path) -> Client:
        ledger, patience = self.dice.choice(self.ledgers), Patience(attempts=1)
        given: dict[str, Any] = {"send_to": host.url, "patience": patience, "secret": self.key}
        return Client(document, ledger, **given, **LIMITS)

    def answer(self) -> None:
        """Answer some question somewhere, or send again what waits; be killed now and then."""
        host, document = self.dice.choice(self.world.hosts), self.dice.choice(self.world.documents)
        self.world.failing[0] = self.dice.choice([0.0, 0.0, 0.6])
        client, answer = self.client(host, document), self.dice.choice("aaaabc")
        turn = self.dice.choice(["mon", "tue", "wed"]) if client.campaign.repeated else ""
        origin, digest = Address.parse(host.url).origin, client.campaign.digest
        known = client.ledger.find(origin, digest, turn)
        before, what = len(host.bodies), (origin, digest, turn, answer)
        self.world.reaper.left = self.dice.choice([None, None, self.dice.randrange(14)])
        try:
            receipt = client.report({"answer": answer}, period=turn)
            self.happened["no answer" if receipt.out_of_budget else "delivered"] += 1
        except BudgetError as refused:
            self.happened[f"refused: {refused.reason}"] += 1
        except SendError:
            self.happened["lost"] += 1
        except KilledError:
            self.happened["killed"] += 1
            self.unseen.update([self.cost(client, what)])
        self.world.reaper.left = None
        for body in host.bodies[before:]:
            seen = body in self.reports[origin, digest, turn]
            self.reports[origin, digest, turn].add(body)
            if known is None and not seen:  # two answers may make the same bytes
                self.costs.update([self.cost(client, what)])
            elif known is not None and body != known.report:
                raise AssertionError("a retry sent other bytes")
        with contextlib.suppress(SendError):
            client.resend()

    def cost(
        self, client: Client, what: tuple[str, str, str, str]
    ) -> tuple[tuple[str, ...], Fraction]:
        """What it costs to tell something; all reports about one permanent answer together."""
        origin, digest, turn, answer = what
        if client.campaign.repeated:
            return (origin, digest, answer), Fraction(1)
        made = client.ledger.find(origin, digest, turn)
        free = client.campaign.can_say_none and made is not None and not made.cost
        return (origin, digest, turn), Fraction(0 if free else str(client.campaign.epsilon))

    def back(self) -> None:
        """Keep a backup of a ledger, or restore one."""
        ledger = self.dice.choice(self.ledgers)
        backups = sorted(self.folder.glob(f"{ledger.stem}.backup*"))
        if ledger.exists() and (not backups or self.dice.random() < 0.5):
            shutil.copy(ledger, self.folder / f"{ledger.stem}.backup{len(backups)}")
        elif backups:
            shutil.copy(self.dice.choice(backups), ledger)
            self.happened["restored"] += 1

    def lose(self) -> None:
        """Lose a ledger."""
        ledger = self.dice.choice(self.ledgers)
        if ledger.exists() and self.dice.random() < 0.3:
            ledger.unlink()
            self.happened["lost ledgers"] += 1

    def check(self) -> None:
        assert all(len(bodies) == 1 for bodies in self.reports.values()), "two reports for one"
        told = sum(self.costs.values())
        assert told <= LIMITS["lifetime"], "beyond the lifetime limit"
        for host in self.world.hosts:
            origin = Address.parse(host.url).origin
            here = sum(cost for key, cost in self.costs.items() if key[0] == origin)
            assert here <= LIMITS["per_collector"], "beyond the collector's limit"
        assert max(self.costs.values(), default=0) <= LIMITS["per_report"], "beyond a report's"
        spent = Ledger(self.ledgers[0], secret=self.key).spent()
        assert told <= spent, "less is noted than was told"
        most = {what: max(cost, self.costs.get(what, cost)) for what, cost in self.unseen.items()}
        assert spent <= sum({**self.costs, **most}.values()), "a budget was lost"


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
