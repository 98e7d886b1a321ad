"""Several ledgers of one key, in processes of their own: one account for all.

A report opens each file once.
"""

from __future__ import annotations

import builtins
import shutil
import sqlite3
import textwrap
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from murmuration.definition import document as campaign_document
from murmuration.device import Client, Ledger, Patience
from murmuration.errors import BudgetError, SendError
from tests.support import warm
from tests.support.accounts import campaign_of
from tests.support.between import answering, free_port

STORED = b'{"received": 1, "stored": 1, "failures": []}'
PHONES = """
name = "{name}"
purpose = "Which phones to test on."
epsilon = 1.0
[[attributes]]
name = "age"
low = 18
high = 98
mechanism = "piecewise"
"""


@pytest.fixture
def key(tmp_path: Path) -> Path:
    return tmp_path / "person.key"


def documents(folder: Path, many: int) -> list[Path]:
    """So many campaigns that are asked once."""
    paths = [folder / f"{number}.json" for number in range(many)]
    for number, path in enumerate(paths):
        text = PHONES.format(name=f"phones{number}")
        path.write_bytes(campaign_document.publish(campaign_of(text)))
    return paths


REPORTING = """
    import sys, time
    from pathlib import Path
    from murmuration.device import Client, Patience
    from murmuration.errors import BudgetError
    document, ledger, key, url, age = sys.argv[1:]
    client = Client(document, ledger, secret=key, send_to=url, patience=Patience(attempts=1))
    Path(ledger + ".ready").touch()
    while not (Path(ledger).parent / "go").exists():
        time.sleep(0.001)
    try:
        print(client.report({"age": float(age)}).outcome)
    except BudgetError as refused:
        print(refused.reason)
"""


def race(folder: Path, key: Path, documents: list[Path], ages: list[int]) -> tuple[list, list]:
    """Eight processes with a ledger each, at once: what each of them says, and what was sent."""
    with answering(lambda number, body: (200, {}, STORED)) as seen, ExitStack() as stack:
        started = [
            stack.enter_context(
                warm.start(
                    textwrap.dedent(REPORTING),
                    *(document, folder / f"{number}.db", key, seen.url, age),
                    stdout=warm.PIPE,
                )
            )
            for number, (document, age) in enumerate(zip(documents, ages, strict=True))
        ]
        while len(list(folder.glob("*.ready"))) < len(started):
            assert all(process.poll() is None for process in started)
        (folder / "go").touch()
        said = [process.stdout.read().strip() for process in started]
    return said, seen.bodies


@pytest.mark.slow
def test_eight_processes_with_a_ledger_each_send_one_report(tmp_path: Path, key: Path) -> None:
    """Eight questions, and a budget for one."""
    Ledger(tmp_path / "first.db", lifetime=1.0, secret=key)
    said, bodies = race(tmp_path, key, documents(tmp_path, 8), [40] * 8)
    assert sorted(said) == ["lifetime"] * 7 + ["stored"]
    assert len(bodies) == 1
    assert Ledger(tmp_path / "first.db", secret=key).spent() == 1.0


@pytest.mark.slow
def test_eight_processes_with_an_answer_each_send_one_of_them(tmp_path: Path, key: Path) -> None:
    """One question, eight answers: whoever is first; the others are refused, or the same bytes."""
    Ledger(tmp_path / "first.db", secret=key)
    said, bodies = race(tmp_path, key, documents(tmp_path, 1) * 8, list(range(20, 100, 10)))
    assert set(said) == {"stored", "answered"}
    assert len(set(bodies)) == 1
    assert Ledger(tmp_path / "first.db", secret=key).spent() == 1.0


def test_a_limit_that_one_ledger_lowers_is_lower_for_all(tmp_path: Path, key: Path) -> None:
    first, second = (Ledger(tmp_path / f"{name}.db", secret=key) for name in ("a", "b"))
    copy = shutil.copy(tmp_path / "b.db", tmp_path / "copy.db")
    first.set_limit("lifetime", 2.0)
    second.lower(collector=3.0)
    shutil.copy(copy, tmp_path / "b.db")
    third = Ledger(tmp_path / "c.db", report=1.0, secret=key)
    for ledger in (first, second, third):
        assert ledger.limits() == {"report": 1.0, "collector": 3.0, "lifetime": 2.0}
    first.raise_limit("lifetime", 5.0)  # by the person
    assert second.lifetime == 5.0


def test_what_a_restored_record_loses(tmp_path: Path, key: Path) -> None:
    """The named loss: what was spent since, and an answer that the ledger does not have."""
    record = Path(f"{key}.record")
    documents(tmp_path, 1)
    with answering(lambda number, body: (200, {}, STORED)) as seen:

        def report(ledger: str, age: float) -> None:
            client = Client(tmp_path / "0.json", tmp_path / ledger, secret=key, send_to=seen.url)
            client.report({"age": age})

        Ledger(tmp_path / "a.db", secret=key)
        old = record.read_bytes()
        report("a.db", 20)
        record.write_bytes(old)
        assert Ledger(tmp_path / "a.db", secret=key).spent() == 0.0  # forgotten
        report("a.db", 90)  # this ledger has the answer: it is not given twice
        assert len(seen.bodies) == 1
        for age in range(30, 98, 10):  # another ledger knows nothing of it
            record.write_bytes(old)
            Path(tmp_path / "b.db").unlink(missing_ok=True)
            report("b.db", age)
        assert len(set(seen.bodies)) > 1


# --- one session for a report --------------------------------------------------------------------


def opened(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts how often files are opened, by SQLite or otherwise."""
    counts: Counter[str] = Counter()
    connect, plain = sqlite3.connect, builtins.open

    def counting(database: str, *more: Any, **options: Any) -> sqlite3.Connection:
        counts[Path(database.partition("?")[0]).name] += 1
        return connect(database, *more, **options)

    def opening(file: Any, *more: Any, **options: Any) -> Any:
        counts[Path(str(file)).name] += 1
        return plain(file, *more, **options)

    monkeypatch.setattr(sqlite3, "connect", counting)
    monkeypatch.setattr(builtins, "open", opening)
    return counts


@pytest.mark.parametrize("again", [False, True])
def test_one_report_opens_each_file_once(tmp_path: Path, monkeypatch, again: bool) -> None:
    (document,) = documents(tmp_path, 1)
    with answering(lambda number, body: (200, {}, STORED)) as seen:
        client = Client(document, tmp_path / "ledger.db", send_to=seen.url)
        if again:
            client.report({"age": 44})
        counts = opened(monkeypatch)
        assert client.report({"age": 44}).delivered
    assert {name: many for name, many in counts.items() if name.startswith("ledger.db")} == {
        "ledger.db": 1,
        "ledger.db.key": 1,
        "ledger.db.key.record": 1,
    }


def test_one_report_that_waits_is_sent_with_one_opening(tmp_path: Path, monkeypatch) -> None:
    (document,) = documents(tmp_path, 1)
    nobody = f"http://127.0.0.1:{free_port()}/v1/campaigns/phones0"
    client = Client(document, tmp_path / "ledger.db", send_to=nobody, patience=Patience(attempts=1))
    with pytest.raises(SendError):
        client.report({"age": 44})
    counts = opened(monkeypatch)
    with pytest.raises(SendError):
        client.resend()
    assert {counts[name] for name in counts if name.startswith("ledger.db")} == {1}


def test_nothing_is_opened_for_a_budget_twice(tmp_path: Path, monkeypatch) -> None:
    """A report that is refused opens no more than one that is sent."""
    (document,) = documents(tmp_path, 1)
    client = Client(document, tmp_path / "ledger.db", send_to="https://a.example/x", lifetime=0.5)
    counts = opened(monkeypatch)
    with pytest.raises(BudgetError):
        client.report({"age": 44})
    assert {counts[name] for name in counts if name.startswith("ledger.db")} == {1}
