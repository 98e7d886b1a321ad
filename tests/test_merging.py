"""Several collectors: whatever way tallies and reports take, each report counts once."""

from __future__ import annotations

from pathlib import Path

import pytest

from accounts import commute, made
from murmuration.collector.commit import Batch, commit
from murmuration.collector.merge import merge, merge_tallies
from murmuration.collector.publish import serve
from murmuration.collector.store import open_store
from murmuration.collector.tallies import CollectorTallies, by_collector, total
from murmuration.errors import FormatError, MismatchError
from murmuration.wire import report


def collector(folder: Path, name: str, ids, rows):
    store = open_store(folder / f"{name}.db")
    served = serve(store, commute())
    body = report.to_binary(served.campaign, ids, rows)
    commit(store, [Batch(served, report.decode(served.campaign, body, report.BINARY))])
    return store, served


def people(store, served) -> int:
    return served.campaign.people(total(store, served.campaign))


def test_a_third_collector_counts_absorbed_reports_once(tmp_path) -> None:
    ids, rows = made(commute(), 300)
    a, of_a = collector(tmp_path, "a", ids[:100], rows[:100])
    b, of_b = collector(tmp_path, "b", ids[100:200], rows[100:200])
    c, of_c = collector(tmp_path, "c", ids[200:], rows[200:])
    merge_tallies(c, of_c, by_collector(b, of_b.campaign))
    assert people(c, of_c) == 200
    merge(a, b, "commute")
    assert people(a, of_a) == 200
    told = CollectorTallies.from_bytes(by_collector(a, of_a.campaign).to_bytes(), of_a.campaign)
    merge_tallies(c, of_c, told)
    assert people(c, of_c) == 300
    assert total(c, of_c.campaign) == of_c.campaign.tally(rows)
    with pytest.raises(MismatchError, match="one by one"):
        merge_tallies(c, of_c, by_collector(b, of_b.campaign))
    with pytest.raises(MismatchError, match="count twice"):
        merge_tallies(b, of_b, told)
    assert people(b, of_b) == 100
    for store in (a, b, c):
        store.close()


def test_a_collector_cannot_be_absorbed_and_count(tmp_path) -> None:
    ids, rows = made(commute(), 10)
    store, served = collector(tmp_path, "a", ids, rows)
    name = store.collector_name()
    own = by_collector(store, served.campaign)
    forged = CollectorTallies(served.campaign, own.parts, {name: name}).to_bytes()
    with pytest.raises(FormatError):
        CollectorTallies.from_bytes(forged, served.campaign)
    store.close()


def test_reports_in_anothers_tally_are_not_merged_one_by_one_too(tmp_path) -> None:
    ids, rows = made(commute(), 300)
    a, of_a = collector(tmp_path, "a", ids[:100], rows[:100])
    b, of_b = collector(tmp_path, "b", ids[100:200], rows[100:200])
    c, _ = collector(tmp_path, "c", ids[200:], rows[200:])
    merge(a, c, "commute")
    told = by_collector(a, of_a.campaign)
    for _ in range(2):  # again changes nothing
        merge_tallies(b, of_b, told)
        assert people(b, of_b) == 300
    with pytest.raises(MismatchError, match="count twice"):
        merge(b, c, "commute")
    assert people(b, of_b) == 300
    merge(b, a, "commute")  # with those of c among its own
    merge(b, c, "commute")
    assert total(b, of_b.campaign) == of_b.campaign.tally(rows)
    for store in (a, b, c):
        store.close()


def test_two_that_merged_the_same_store_do_not_add_up(tmp_path) -> None:
    ids, rows = made(commute(), 300)
    a, of_a = collector(tmp_path, "a", ids[:100], rows[:100])
    b, of_b = collector(tmp_path, "b", ids[100:200], rows[100:200])
    c, _ = collector(tmp_path, "c", ids[200:], rows[200:])
    merge_tallies(b, of_b, by_collector(a, of_a.campaign))
    for store in (a, b):
        merge(store, c, "commute")
    with pytest.raises(MismatchError, match="count twice"):
        merge_tallies(b, of_b, by_collector(a, of_a.campaign))
    assert people(b, of_b) == 300
    for store in (a, b, c):
        store.close()


def test_a_chain_of_stores_and_tallies_counts_once(tmp_path) -> None:
    ids, rows = made(commute(), 400)
    parts = [slice(start, start + 100) for start in range(0, 400, 100)]
    opened = [collector(tmp_path, n, ids[p], rows[p]) for n, p in zip("abcd", parts, strict=True)]
    (a, of_a), (b, of_b), (c, of_c), (d, _) = opened
    merge(a, d, "commute")
    merge_tallies(c, of_c, by_collector(a, of_a.campaign))
    merge(b, a, "commute")  # now those of a and d count in b's tally
    merge_tallies(c, of_c, by_collector(b, of_b.campaign))
    assert total(c, of_c.campaign) == of_c.campaign.tally(rows)
    for store, _ in opened:
        store.close()


def test_tallies_are_those_of_one_moment(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports that move from one collector's tally to another's while both are read count once."""
    ids, rows = made(commute(), 200)
    a, of_a = collector(tmp_path, "a", ids[:100], rows[:100])
    b, of_b = collector(tmp_path, "b", ids[100:], rows[100:])
    merge_tallies(a, of_a, by_collector(b, of_b.campaign))
    reader = a.reader()
    read = reader.tallies

    def read_then_merged(*given):
        found = read(*given)
        merge(a, b, "commute")
        return found

    monkeypatch.setattr(reader, "tallies", read_then_merged)
    assert people(reader, of_a) == 200
    monkeypatch.undo()
    assert people(reader, of_a) == 200
    for store in (reader, a, b):
        store.close()
