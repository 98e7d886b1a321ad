"""The queue before the store, on a real store: one upload that breaks takes no others along."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from murmuration.collector.commit import Batch
from murmuration.collector.publish import Served, serve
from murmuration.collector.store import Store, open_store
from murmuration.server import ingest as queue
from murmuration.server.ingest import Arrived, Ingest
from murmuration.server.problems import Problem
from murmuration.wire import report
from murmuration.wire.report import Incoming
from tests.support.accounts import commute, made


def test_a_bug_in_one_upload_stops_that_one_only(tmp_path) -> None:
    store = open_store(tmp_path / "store.db")
    served = serve(store, commute())
    ids, rows = made(served.campaign, 30)
    uploads = [
        report.decode(
            served.campaign.form,
            report.to_binary(served.campaign.form, ids[i : i + 10], rows[i : i + 10]),
            report.BINARY,
        )
        for i in range(0, 30, 10)
    ]
    # Its ids are too short for its rows: the group's arrays cannot be put together.
    wrong = uploads[1].columns
    uploads[1] = Incoming([], report.Upload(wrong.ids[:, :8], wrong.rows, wrong.problems))
    batches = [Arrived(Batch(served, upload)) for upload in uploads]

    async def run() -> list[object]:
        ingest = Ingest(store)
        waiting = [asyncio.create_task(ingest.submit(batch)) for batch in batches]
        await asyncio.sleep(0)  # all of them wait before the first group is taken
        ingest.start()
        found = await asyncio.gather(*waiting, return_exceptions=True)
        await ingest.stop()
        return found

    first, second, third = asyncio.run(run())
    assert first is None
    assert isinstance(second, Problem)
    assert second.name == "internal"
    assert third is None
    assert store.counts("commute") == {"received": 20, "stored": 20}
    store.close()


def sent(served: Served, sizes: Sequence[int], kind: str = report.BINARY) -> list[Arrived]:
    """Uploads of so many reports each, as they come."""
    ids, rows = made(served.campaign, sum(sizes))
    ends = np.cumsum(sizes)
    pack = report.to_binary if kind == report.BINARY else report.to_json
    return [
        Arrived(
            Batch(served, Incoming([])),
            pack(served.campaign.form, ids[end - size : end], rows[end - size : end]),
            kind,
        )
        for end, size in zip(ends, sizes, strict=True)
    ]


def finished(store: Store, uploads: Sequence[tuple[str, Arrived]], **options: float) -> list[str]:
    """Put all of them into the queue, then write; return whose were answered, in that order."""
    found: list[str] = []

    async def send(ingest: Ingest, who: str, one: Arrived) -> None:
        await ingest.submit(one, who)
        found.append(who)

    async def run() -> None:
        ingest = Ingest(store, **options)
        waiting = [asyncio.create_task(send(ingest, *one)) for one in uploads]
        await asyncio.sleep(0)
        ingest.start()
        await asyncio.gather(*waiting)
        await ingest.stop()

    asyncio.run(run())
    return found


@pytest.mark.parametrize(
    ("senders", "sizes", "order"),
    [
        ("aaab", [2, 2, 2, 2], "abaa"),
        ("aaab", [9, 9, 9, 2], "baaa"),  # somebody's single report is first
        ("abbbb", [8, 2, 2, 2, 2], "babbb"),  # as much work, in smaller pieces
        ("aaaa", [3, 1, 2, 4], "aaaa"),
    ],
)
def test_clients_share_the_writer_by_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, senders: str, sizes: list[int], order: str
) -> None:
    """Whoever sends little does not wait for what somebody else sent before."""
    monkeypatch.setattr(queue, "MOST_GROUP_BYTES", 1)
    with closing(open_store(tmp_path / "store.db")) as store:
        served = serve(store, commute())
        assert "".join(finished(store, [*zip(senders, sent(served, sizes), strict=True)])) == order
        assert store.counts("commute") == {"received": sum(sizes), "stored": sum(sizes)}


def test_bodies_that_cannot_be_read_are_found_with_their_group(tmp_path: Path) -> None:
    """They count as one report each, refused; the others of the group are stored."""
    with closing(open_store(tmp_path / "store.db")) as store:
        served = serve(store, commute())
        uploads = sent(served, [3, 3, 1], report.JSON)
        uploads[1].body = uploads[1].body[:-1]

        async def run() -> list[object]:
            ingest = Ingest(store)
            ingest.start()
            found = await asyncio.gather(
                *(ingest.submit(one, "a") for one in uploads), return_exceptions=True
            )
            await ingest.stop()
            return found

        first, second, third = asyncio.run(run())
        assert (first, third) == (None, None)
        assert isinstance(second, Problem)
        assert second.name == "unreadable-body"
        assert store.counts("commute") == {"received": 5, "stored": 4, "malformed": 1}
