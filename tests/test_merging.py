"""Several collectors: whatever way tallies and reports take, each report counts once."""

from __future__ import annotations

from pathlib import Path

import pytest

from accounts import commute, made
from murmuration import collect, merge_stores, report
from murmuration.collect import Batch
from murmuration.errors import FormatError, MismatchError
from murmuration.merging import Sources
from murmuration.store import open_store


def collector(folder: Path, name: str, ids, rows):
    store = open_store(folder / f"{name}.db")
    served = collect.serve(store, commute())
    body = report.to_binary(served.campaign, ids, rows)
    collect.commit(store, [Batch(served, report.decode(served.campaign, body, report.BINARY))])
    return store, served


def people(store, served) -> int:
    return served.campaign.people(collect.total(store, served.campaign))


def test_a_third_collector_counts_absorbed_reports_once(tmp_path) -> None:
    ids, rows = made(commute(), 300)
    a, of_a = collector(tmp_path, "a", ids[:100], rows[:100])
    b, of_b = collector(tmp_path, "b", ids[100:200], rows[100:200])
    c, of_c = collector(tmp_path, "c", ids[200:], rows[200:])
    collect.merge_sources(c, of_c, collect.sources(b, of_b.campaign))
    assert people(c, of_c) == 200
    merge_stores.merge(a, b, "commute")
    assert people(a, of_a) == 200
    told = Sources.from_bytes(collect.sources(a, of_a.campaign).to_bytes(), of_a.campaign)
    collect.merge_sources(c, of_c, told)
    assert people(c, of_c) == 300
    assert collect.total(c, of_c.campaign) == of_c.campaign.tally(rows)
    with pytest.raises(MismatchError, match="one by one"):
        collect.merge_sources(c, of_c, collect.sources(b, of_b.campaign))
    with pytest.raises(MismatchError, match="count twice"):
        collect.merge_sources(b, of_b, told)
    assert people(b, of_b) == 100
    for store in (a, b, c):
        store.close()


def test_a_collector_cannot_be_absorbed_and_count(tmp_path) -> None:
    ids, rows = made(commute(), 10)
    store, served = collector(tmp_path, "a", ids, rows)
    name = store.collector_name()
    own = collect.sources(store, served.campaign)
    forged = Sources(served.campaign, own.parts, frozenset({name})).to_bytes()
    with pytest.raises(FormatError):
        Sources.from_bytes(forged, served.campaign)
    store.close()
