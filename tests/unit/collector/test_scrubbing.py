"""`keep_reports = false`: nobody who has the files can tell one report from the sum of all."""

import re
from contextlib import closing
from pathlib import Path

import msgspec
import numpy as np
import pytest

from murmuration.campaign.survey import SurveyCampaign
from murmuration.collector.commit import Batch, commit
from murmuration.collector.publish import serve
from murmuration.collector.store import Merged, Store, open_store
from murmuration.exact.arrays import Rows
from murmuration.wire import report
from murmuration.wire.ids import Ids
from tests.support.accounts import COMMUTE, audited, audited_at, campaign_of, commute, made
from tests.support.collectors import running

SCRUBBED = "keep_reports = false\n" + COMMUTE
PEOPLE = 60
SURE = 20
"""From so many people on, a tally's bytes are not found in a file by chance."""


def images(campaign: SurveyCampaign, rows: Rows) -> list[list[bytes]]:
    """For each number of people, the bytes of the tallies that a store would hold."""
    return [
        [tally.counts.astype("<i8").tobytes() for tally in campaign.tally(rows[:n])]
        for n in range(len(rows) + 1)
    ]


def found_in(folder: Path, wanted: list[list[bytes]]) -> list[int]:
    """The numbers of people whose tallies, and no later ones, can be read from any file."""
    data = b"".join(path.read_bytes() for path in sorted(folder.iterdir()))
    *earlier, last = wanted
    return [
        n
        for n, cells in enumerate(earlier)
        if n >= SURE
        and any(cell in data for cell, now in zip(cells, last, strict=True) if cell != now)
    ]


def send_one_by_one(store: Store, campaign: SurveyCampaign, ids: Ids, rows: Rows) -> None:
    served = serve(store, campaign)
    for place in range(len(ids)):
        one = slice(place, place + 1)
        body = report.to_binary(campaign.form, ids[one], rows[one])
        commit(store, [Batch(served, report.decode(campaign.form, body, report.BINARY))])


@pytest.mark.slow
def test_no_earlier_tally_is_left_in_any_file(tmp_path: Path) -> None:
    """Single reports, over HTTP; after each answer, what lies on the disk is one tally."""
    campaign = campaign_of(SCRUBBED)
    ids, rows = made(campaign, PEOPLE)
    folder = tmp_path / "data"
    folder.mkdir()
    wanted = images(campaign, rows)
    with running(folder / "store.db", SCRUBBED) as collector:
        for n in range(1, PEOPLE + 1):
            one = slice(n - 1, n)
            body = report.to_json(campaign.form, ids[one], rows[one])
            assert collector.send("commute", body).json["stored"] == 1
            assert (folder / "store.db-wal").stat().st_size == 0
        assert found_in(folder, wanted) == []
        data = (folder / "store.db").read_bytes()
        assert all(cell in data for cell in wanted[-1])  # the test can see
        collector.kill()
    assert found_in(folder, wanted) == []
    assert audited_at(str(folder / "store.db"), campaign).counts["stored"] == PEOPLE


def test_where_reports_are_kept_the_log_stays(tmp_path: Path) -> None:
    """Cutting it costs time, and would hide nothing; so the test above can fail."""
    campaign = commute()
    ids, rows = made(campaign, PEOPLE)
    with closing(open_store(tmp_path / "store.db")) as store:
        send_one_by_one(store, campaign, ids, rows)
        assert found_in(tmp_path, images(campaign, rows)) == list(range(SURE, PEOPLE))


@pytest.mark.slow
def test_a_reader_delays_the_cut_until_the_next_group(tmp_path: Path) -> None:
    campaign = campaign_of(SCRUBBED)
    ids, rows = made(campaign, PEOPLE)
    path, wanted = tmp_path / "store.db", images(campaign, rows)
    with closing(open_store(path)) as store, closing(store.reader()) as reader:
        send_one_by_one(store, campaign, ids[:30], rows[:30])
        with reader.snapshot():
            reader.counts("commute")
            send_one_by_one(store, campaign, ids[30:-1], rows[30:-1])
            assert found_in(tmp_path, wanted[:-1])  # as long as somebody reads from the log
        send_one_by_one(store, campaign, ids[-1:], rows[-1:])
        assert found_in(tmp_path, wanted) == []


@pytest.mark.slow
def test_what_a_killed_collector_left_is_gone_when_the_store_is_opened(tmp_path: Path) -> None:
    campaign = campaign_of(SCRUBBED)
    ids, rows = made(campaign, PEOPLE)
    wanted, copy = images(campaign, rows), tmp_path / "copy"
    copy.mkdir()
    (tmp_path / "data").mkdir()
    with closing(open_store(tmp_path / "data" / "store.db")) as store:
        with closing(store.reader()) as reader, reader.snapshot():
            reader.counts("commute")
            send_one_by_one(store, campaign, ids, rows)
        for path in (tmp_path / "data").iterdir():
            (copy / path.name).write_bytes(path.read_bytes())
    assert found_in(copy, wanted)
    with closing(open_store(copy / "store.db")) as store:
        assert found_in(copy, wanted) == []
        assert audited(store, campaign).counts["stored"] == PEOPLE


def test_large_tallies_leave_nothing_in_free_pages(tmp_path: Path) -> None:
    """A tally of 4,000 counters lies on several pages, which change places."""
    labels = [f"place {number}" for number in range(4000)]
    text = re.sub(r"labels = .*", f"labels = {labels}\nmechanism = 'oue'", SCRUBBED)
    campaign = campaign_of(text)
    ids, rows = made(campaign, 40)
    with closing(open_store(tmp_path / "store.db")) as store:
        send_one_by_one(store, campaign, ids, rows)
        assert found_in(tmp_path, images(campaign, rows)) == []


def test_other_collectors_tallies_are_replaced_without_a_trace(tmp_path: Path) -> None:
    texts = [np.random.default_rng(n).bytes(40_000) for n in range(5)]
    with closing(open_store(tmp_path / "store.db")) as store:
        for n, text in enumerate(texts):
            with store.transaction():
                store.set_merged(1, Merged("0" * 16, n, text))
        data = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert [data.count(text[:64]) for text in texts] == [0, 0, 0, 0, 1]


def test_scrubbing_may_begin_later(tmp_path: Path) -> None:
    """Reports that were kept stay; from then on no earlier tally is left."""
    kept, (ids, rows) = commute(), made(commute(), PEOPLE)
    scrubbing = kept.with_terms(msgspec.structs.replace(kept.terms, keep_reports=False))
    with closing(open_store(tmp_path / "store.db")) as store:
        send_one_by_one(store, kept, ids[:30], rows[:30])
        send_one_by_one(store, scrubbing, ids[30:], rows[30:])
        assert found_in(tmp_path, images(kept, rows)) == []
        assert store.report_count(1) == PEOPLE
