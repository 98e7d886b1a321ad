"""A report is made once, so only a collector may end it: whatever stands between may not."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from murmuration import Client
from murmuration.device.sending import Patience, final, outcomes
from murmuration.errors import SendError
from murmuration.lab.fleet import send_all
from murmuration.server.problems import PROBLEMS
from murmuration.wire import report
from murmuration.wire.http import Answer
from murmuration.wire.report import EARLY, FINAL, REASONS
from tests.support import collectors
from tests.support.between import answering
from tests.support.collectors import PROBLEM, Collection, one

ANSWERS = {"phone": "ios"}
ONCE = Patience(attempts=1)
PAGE = b"<html><body>Request Entity Too Large</body></html>"


def described(name: str, status: int, **other: object) -> bytes:
    fields = {"type": f"/problems/{name}", "title": "x", "status": status}
    return json.dumps({**fields, **other}).encode()


NOT_OURS = [
    *((status, "text/html", PAGE) for status in (400, 409, 413, 415, 422)),
    *((status, PROBLEM, PAGE) for status in (400, 409, 413, 415, 422)),
    (413, "application/json", described("too-large", 413)),
    (413, "text/html", described("too-large", 413)),
    (400, PROBLEM, described("too-large", 413)),
    (413, PROBLEM, described("too-large", 400)),
    (413, PROBLEM, described("too-large", 413, type="https://proxy.example/problems/too-large")),
    (413, PROBLEM, described("too-large", 413, type="about:blank")),
    (413, PROBLEM, described("too-large", 413, title="")),
    (413, PROBLEM, b'{"type": "/problems/too-large"}'),
    (400, PROBLEM, described("bad-request", 400)),  # about HTTP, not about the report
    (422, PROBLEM, described("never-heard-of-it", 422)),
    (409, PROBLEM, described("mismatched-tally", 409)),
]


@pytest.fixture(scope="module")
def phones(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collection]:
    store = tmp_path_factory.mktemp("final") / "store.db"
    with collectors.running(store, one("phones")) as collector:
        yield collector.collection("phones")


def document_of(phones: Collection, folder: Path) -> Path:
    path = folder / "phones.json"
    path.write_bytes(phones.collector.get("/v1/campaigns/phones").body)
    return path


@pytest.mark.parametrize(("status", "kind", "body"), NOT_OURS)
def test_what_no_collector_says_leaves_the_report_pending(
    phones: Collection, tmp_path: Path, status: int, kind: str, body: bytes
) -> None:
    """And once the way is clear, the same bytes are sent and counted."""
    document, before = document_of(phones, tmp_path), phones.status()["people"]

    def answer(number: int, sent: bytes) -> tuple[int, dict[str, str], bytes]:
        if number == 0:
            return status, {"Content-Type": kind}, body
        found = phones.collector.send("phones", sent)
        return found.status, {"Content-Type": found.headers["content-type"]}, found.body

    with answering(answer) as proxy:
        client = Client(document, tmp_path / "l.db", send_to=proxy.url, patience=ONCE)
        with pytest.raises(SendError, match="did not take it"):
            client.report(ANSWERS)
        assert len(client.ledger.pending()) == 1
        assert [receipt.outcome for receipt in client.resend()] == ["stored"]
    assert len(set(proxy.bodies)) == 1
    assert phones.status()["people"] == before + 1


def test_many_devices_are_not_ended_by_a_proxy(phones: Collection) -> None:
    campaign = collectors.campaign_of(one("phones"))
    ids, rows = collectors.reports(campaign, 30)
    page = (413, {"Content-Type": "text/html"}, PAGE)
    with answering(lambda number, sent: page) as proxy:
        sent = send_all(proxy.url, campaign.form, ids, rows, batch=10, connections=1)
    assert (sent.unsent, sent.refused) == (30, {})
    assert "http-413" in sent.problem
    assert send_all(phones.url, campaign.form, ids, rows).stored == 30


@pytest.mark.parametrize("name", FINAL)
def test_what_a_collector_says_is_final(name: str) -> None:
    assert final(Answer(FINAL[name], described(name, FINAL[name]), None, PROBLEM)) == name


def test_the_list_of_final_problems_is_the_collectors(phones: Collection) -> None:
    assert {name: PROBLEMS[name][0] for name in FINAL} == FINAL
    assert set(REASONS) - {EARLY} < set(FINAL)


def test_a_period_that_has_not_begun_is_no_final_answer() -> None:
    """Clocks are off: the report is kept, and sent again as it is."""
    failure = {"index": 0, "type": f"/problems/{EARLY}", "title": "later"}
    data = json.dumps({"received": 1, "stored": 0, "failures": [failure]}).encode()
    with pytest.raises(SendError, match="has not begun"):
        outcomes(Answer(200, data), 1)


def test_a_collectors_own_refusals_of_whole_uploads_are_final(phones: Collection) -> None:
    for body, kind, name in (
        (b"nonsense", report.JSON, "unreadable-body"),
        (b"[]", "text/plain", "unsupported-type"),
        (b"[]" + b" " * (16 << 20), report.JSON, "too-large"),
    ):
        found = phones.collector.send("phones", body, kind)
        kind = re.split(";", found.headers["content-type"])[0]
        assert final(Answer(found.status, found.body, None, kind)) == name
