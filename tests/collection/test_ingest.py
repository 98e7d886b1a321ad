"""The queue before the store, on a real store: one upload that breaks takes no others along."""

from __future__ import annotations

import asyncio

from murmuration.collector.commit import Batch
from murmuration.collector.publish import serve
from murmuration.collector.store import open_store
from murmuration.server import ingest as queue
from murmuration.server.ingest import Ingest
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
            served.campaign,
            report.to_binary(served.campaign, ids[i : i + 10], rows[i : i + 10]),
            report.BINARY,
        )
        for i in range(0, 30, 10)
    ]
    # Its ids are too short for its rows: the group's arrays cannot be put together.
    wrong = uploads[1].columns
    uploads[1] = Incoming([], report.Upload(wrong.ids[:, :8], wrong.rows, wrong.problems))
    batches = [Batch(served, upload) for upload in uploads]

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


def test_clients_take_turns(tmp_path, monkeypatch) -> None:
    """Whoever sends one upload does not wait for all those that somebody else sent before."""
    monkeypatch.setattr(queue, "MOST_GROUP", 1)
    store = open_store(tmp_path / "store.db")
    served = serve(store, commute())
    ids, rows = made(served.campaign, 8)
    batches = [
        Batch(
            served,
            report.decode(
                served.campaign,
                report.to_binary(served.campaign, ids[i : i + 2], rows[i : i + 2]),
                report.BINARY,
            ),
        )
        for i in range(0, 8, 2)
    ]
    finished: list[str] = []

    async def send(ingest: Ingest, who: str, batch: Batch) -> None:
        await ingest.submit(batch, who)
        finished.append(who)

    async def run() -> None:
        ingest = Ingest(store)
        waiting = [
            asyncio.create_task(send(ingest, who, batch))
            for who, batch in zip("aaab", batches, strict=True)
        ]
        await asyncio.sleep(0)
        ingest.start()
        await asyncio.gather(*waiting)
        await ingest.stop()

    asyncio.run(run())
    store.close()
    assert finished == ["a", "b", "a", "a"]
