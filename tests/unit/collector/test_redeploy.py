"""A collector that is started anew: what is published stays, and nobody is asked again."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib import resources
from pathlib import Path

import pytest

from murmuration.campaign.survey import SurveyCampaign
from murmuration.collector.merging.known import total
from murmuration.collector.publish import published, serve, served
from murmuration.collector.store import open_store
from murmuration.definition import document
from murmuration.definition import load as campaign_file
from murmuration.device.client import Client
from murmuration.mechanisms.number import base, optimal
from murmuration.wire import report
from tests.support.accounts import made
from tests.support.between import HOST, free_port
from tests.support.command import process

SOLVED = """
name = "pulse"
purpose = "How fast hearts beat."
epsilon = 1.37
cohort = 100

[[attributes]]
name = "beats"
low = 40
high = 180
mechanism = "optimal"
"""
PEOPLE = 150


class Machine:
    """A machine on which the linear program of SOLVED comes out in its own way.

    Its cache has a table that keeps the promise; that of another machine has another one.
    """

    def __init__(self, folder: Path, table: str, monkeypatch: pytest.MonkeyPatch) -> None:
        folder.mkdir()
        self.cache, self._patch = folder, monkeypatch
        shipped = resources.files("murmuration.mechanisms") / "tables" / f"optimal-{table}.npz"
        (folder / "optimal-1.37.npz").write_bytes(shipped.read_bytes())

    def use(self) -> None:
        """Be on that machine from now on."""
        self._patch.setenv("MURMUR_CACHE", str(self.cache))
        forget()

    def solves(self, text: str = SOLVED) -> SurveyCampaign:
        self.use()
        return campaign_file.parse(text)


@pytest.fixture
def machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Machine]]:
    yield [Machine(tmp_path / f"m{table}", table, monkeypatch) for table in ("1.25", "1.0")]
    forget()


def forget() -> None:
    """Forget the tables that this process has read."""
    optimal.solution.cache_clear()
    base._built.cache_clear()


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[str]:
    """`murmur serve` as a process of its own; yields the campaign's address."""
    port = free_port()
    running = process("serve", "campaign.toml", "--port", port, *options, folder=folder)
    try:
        address = f"http://{HOST}:{port}"
        _wait_for(f"{address}/ready", running)
        yield f"{address}/v1/campaigns/pulse"
    finally:
        running.terminate()
        said, problem = running.communicate(timeout=30)
        (folder / "said").write_text(said + problem)


def _wait_for(url: str, running) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and running.poll() is None:
        try:
            with urllib.request.urlopen(url):
                return
        except OSError:
            time.sleep(0.02)
    raise AssertionError("the collector did not start")


def _read(url: str) -> dict:
    with urllib.request.urlopen(url) as answer:
        return json.load(answer)


@pytest.mark.slow
def test_another_machine_serves_the_laws_that_were_published(tmp_path, machines) -> None:
    """Over real HTTP: the same digest, all people are counted, a device is not asked again."""
    one, other = machines
    assert one.solves().digest != other.solves().digest
    file = tmp_path / "campaign.toml"
    file.write_text(SOLVED)
    one.use()
    with serving(tmp_path) as address:
        before = _read(address)
        campaign = document.read(json.dumps(before).encode())
        body = report.to_binary(campaign.form, *made(campaign, PEOPLE))
        request = urllib.request.Request(
            f"{address}/reports", body, {"content-type": report.BINARY}
        )
        with urllib.request.urlopen(request) as answer:
            assert json.load(answer)["stored"] == PEOPLE
    assert before["digest"] == one.solves().digest
    other.use()
    file.write_text("# the same\n" + SOLVED.replace("1.37", "1.370  # of old"))
    with serving(tmp_path) as address:
        assert _read(address) == before
        with closing(open_store(tmp_path / "pulse.db", readonly=True)) as store:
            assert store.digests("pulse") == {before["digest"]}
            assert campaign.people(total(store, campaign)) == PEOPLE
        with urllib.request.urlopen(request := _again(request, address)) as answer:
            assert json.load(answer)["stored"] == 0  # all of them are known
    assert "laws as they are published" in (tmp_path / "said").read_text()
    with serving(tmp_path, "--new-laws") as address:
        assert _read(address)["digest"] == other.solves().digest
    assert "150 reports to other questions or laws" in (tmp_path / "said").read_text()


def _again(request: urllib.request.Request, address: str) -> urllib.request.Request:
    return urllib.request.Request(
        f"{address}/reports", request.data, {"content-type": report.BINARY}
    )


@pytest.mark.slow
def test_a_device_that_has_answered_is_not_asked_again(tmp_path, machines) -> None:
    (tmp_path / "campaign.toml").write_text(SOLVED)
    port = free_port()
    receipts = []
    for machine in machines:
        machine.use()
        running = process("serve", "campaign.toml", "--port", port, folder=tmp_path)
        try:
            _wait_for(f"http://{HOST}:{port}/ready", running)
            client = Client(f"http://{HOST}:{port}/v1/campaigns/pulse", tmp_path / "ledger.db")
            receipts.append(client.report({"beats": 71}))
        finally:
            running.terminate()
            running.communicate(timeout=30)
    assert [receipt.new for receipt in receipts] == [True, False]
    assert receipts[0].report_id == receipts[1].report_id
    with closing(open_store(tmp_path / "pulse.db", readonly=True)) as store:
        assert store.counts("pulse")["stored"] == 1


def test_terms_may_change_while_laws_stay(tmp_path, machines) -> None:
    one, other = machines
    one.use()
    with closing(open_store(tmp_path / "store.db")) as store:
        file = campaign_file.read(SOLVED)
        assert published(store, file) is None
        first = serve(store, file.campaign, file.asked)
        other.use()
        changed = SOLVED.replace("hearts beat", "hearts really beat").replace("= 100", "= 200")
        file = campaign_file.read(changed)
        found = published(store, file)
        assert found is not None
        assert found.digest == first.campaign.digest
        assert (found.terms.cohort, found.terms.purpose) == (200, "How fast hearts really beat.")
        second = serve(store, found, file.asked)
        assert (second.version, second.key, second.older) == (2, first.key, frozenset())
        assert served(store, "pulse").campaign.digest == first.campaign.digest
        assert "campaign" not in file.__dict__  # nothing was chosen or solved


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("1.37", "1.36"),
        ("180", "181"),
        ('"optimal"', '"piecewise"'),
        ('"beats"', '"pulse"'),
        ("epsilon = 1.37", "epsilon = 1.37\nlifetime = 3"),
    ],
)
def test_other_questions_are_published_anew(tmp_path, machines, old: str, new: str) -> None:
    with closing(open_store(tmp_path / "store.db")) as store:
        campaign, file = machines[0].solves(), campaign_file.read(SOLVED)
        serve(store, campaign, file.asked)
        shipped = resources.files("murmuration.mechanisms") / "tables" / "optimal-1.0.npz"
        (machines[0].cache / "optimal-1.36.npz").write_bytes(shipped.read_bytes())
        assert published(store, campaign_file.read(SOLVED.replace(old, new))) is None
        assert published(store, file) is not None


def test_what_a_file_asks_is_the_same_however_it_is_written() -> None:
    text = 'name = "a"\npurpose = "b"\nepsilon = 1\n[[attributes]]\nname = "c"\nlow = 0\nhigh = 2\n'
    same = [
        text.replace("epsilon = 1\n", "epsilon = 1.0  # one\n\n"),
        text.replace("low = 0\nhigh = 2", 'high = 2.0\nkind = "number"\nlow = 0'),
        text.replace('"b"', '"another purpose"').replace("epsilon", "people = 7\nepsilon"),
    ]
    asked = campaign_file.read(text).asked
    assert [campaign_file.read(one).asked for one in same] == [asked] * 3
    levels = text.replace("[[", "levels = {low = 0.5, high = 1}\n[[")
    turned = text.replace("[[", "levels = {high = 1, low = 0.5}\n[[")
    assert len({campaign_file.read(one).asked for one in (text, levels, turned)}) == 3
