"""Questions that come back, by period: from a device's clock to the tallies of each period."""

from __future__ import annotations

import hashlib
import json
from contextlib import closing
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import msgspec
import numpy as np
import pytest

from murmuration import seeded_rng
from murmuration.campaign.periods import EVERY, name_of, number_of, open_at, period_of, start_of
from murmuration.campaign.survey import SurveyCampaign
from murmuration.collector.commit import OUTCOMES, Batch, commit
from murmuration.collector.files import export
from murmuration.collector.merging.key_file import shared_key
from murmuration.collector.merging.known import by_period, exported, total
from murmuration.collector.merging.reports import merge
from murmuration.collector.merging.tallies import merge_tallies
from murmuration.collector.publish import serve
from murmuration.collector.served import Served
from murmuration.collector.store import Store, open_store
from murmuration.counting.container import CampaignTallies
from murmuration.definition import document as campaign_document
from murmuration.definition import load as campaign_file
from murmuration.errors import CampaignError, FormatError, MismatchError, ParameterError
from murmuration.exact.arrays import Rows
from murmuration.wire import parquet, report
from murmuration.wire.ids import Ids, new_ids
from tests.support.accounts import audited

TEXT = """
name = "mood"
purpose = "How people are, week by week."
epsilon = 1.0
cohort = 100

[repeat]
permanent = 2.0
rounds = 52
every = "week"

[[attributes]]
name = "mood"
kind = "category"
labels = ["good", "so-so", "bad"]
"""


def campaign_of(text: str = TEXT) -> SurveyCampaign:
    return campaign_file.parse(text)


CAMPAIGN = campaign_of()
WEEK = number_of("week", "2026-W47")


# --- what a period is ----------------------------------------------------------------------------


def test_periods_have_numbers_and_names() -> None:
    assert period_of("day", date(1970, 1, 1)) == period_of("month", date(1970, 1, 31)) == 0
    assert start_of("week", 0) == date(1969, 12, 29)
    assert period_of("week", date(1970, 1, 4)) == 0 == period_of("week", date(1970, 1, 5)) - 1
    assert name_of("week", number_of("week", "2024-12-31")) == "2025-W01"
    assert number_of("week", "2026-W53") == number_of("week", "2027-01-03")


@pytest.mark.parametrize("every", EVERY)
def test_each_period_follows_the_one_before(every: str) -> None:
    """Over 80 years, in which every kind of year begins on every day of the week."""
    days = [date(1980, 1, 1) + timedelta(days=n) for n in range(29_300)]
    numbers = [period_of(every, day) for day in days]
    assert set(np.diff(numbers).tolist()) <= {0, 1}
    for number in sorted(set(numbers))[1:-1]:
        assert period_of(every, start_of(every, number)) == number
        assert period_of(every, start_of(every, number) - timedelta(days=1)) == number - 1
        assert number_of(every, name_of(every, number)) == number


def test_a_moment_counts_by_utc() -> None:
    late = datetime.fromisoformat("2026-11-16T00:30:00+02:00")  # Sunday, in London
    assert name_of("week", period_of("week", late)) == "2026-W46"
    assert number_of("week", "2026-11-15T23:59:59Z") == WEEK - 1
    assert number_of("week", "2026-11-16T00:00:00") == WEEK


@pytest.mark.parametrize("text", ["", "2026-W54", "2027-W53", "2026-W00", "2026", "x", "1969-W01"])
def test_what_is_no_week_is_refused(text: str) -> None:
    with pytest.raises(ParameterError, match="2026-W47"):
        number_of("week", text)


def test_a_period_stays_open_for_a_while() -> None:
    now = datetime(2026, 11, 18, 12, tzinfo=UTC)
    assert list(open_at("day", now)) == [20774, 20775, 20776]  # clocks may be a day ahead
    assert [name_of("week", one) for one in open_at("week", now)] == ["2026-W46", "2026-W47"]
    assert open_at("week", now, opens=now - timedelta(days=1)) == range(WEEK, WEEK + 1)
    assert open_at("month", now, grace=3) == range(679, 683)


# --- the campaign --------------------------------------------------------------------------------


def test_a_campaign_says_its_periods() -> None:
    again = campaign_document.read(campaign_document.publish(CAMPAIGN))
    assert again == CAMPAIGN
    assert again.every == "week"
    assert '"every":"week"' in CAMPAIGN.text
    assert "every" not in campaign_of(TEXT.replace('every = "week"', "")).text


def test_grace_is_a_term_and_changes_no_digest() -> None:
    patient = campaign_of(TEXT.replace("rounds = 52", "rounds = 52\ngrace = 9"))
    assert (patient.terms.grace, CAMPAIGN.terms.grace) == (9, 1)
    assert patient.digest == CAMPAIGN.digest
    asked = [campaign_file.read(t).asked for t in (TEXT, TEXT.replace("52", "52\ngrace = 9"))]
    assert asked[0] == asked[1]
    assert b"grace" not in campaign_document.publish(CAMPAIGN)
    assert campaign_document.read(campaign_document.publish(patient)).terms.grace == 9


@pytest.mark.parametrize(
    ("change", "said"),
    [(('"week"', '"year"'), "day, week or month"), (('"rounds":52,', ""), "")],
)
def test_a_document_with_other_periods_is_refused(change: tuple[str, str], said: str) -> None:
    """But for a campaign that is asked once a period, and in one period only."""
    document = json.loads(campaign_document.publish(CAMPAIGN))
    text = document["collection"].replace(*change)
    assert text != document["collection"]
    digest = hashlib.sha256(text.encode()).hexdigest()
    data = json.dumps({**document, "collection": text, "digest": digest}).encode()
    if said:
        with pytest.raises(FormatError, match=said):
            campaign_document.read(data)
    else:
        assert campaign_document.read(data).max_reports == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (TEXT.replace('"week"', '"year"'), "every"),
        (TEXT.replace("rounds = 52", "rounds = 52\ngrace = -1"), "grace"),
        (TEXT.replace('every = "week"', "grace = 2"), "grace is for periods"),
    ],
)
def test_what_cannot_be_is_refused(text: str, said: str) -> None:
    with pytest.raises(CampaignError, match=said):
        campaign_of(text)


# --- the wire ------------------------------------------------------------------------------------


def rows_of(n: int, period: int = WEEK, seed: int = 1, campaign: SurveyCampaign = CAMPAIGN) -> Rows:
    answers = {"mood": ["good", "bad"] * (n // 2) + ["good"] * (n % 2)}
    rng = seeded_rng(seed)
    return campaign.privatize(campaign.encode(answers, rng), rng, period=period)


def test_a_row_begins_with_its_period() -> None:
    rows = rows_of(3)
    assert rows.shape == (3, CAMPAIGN.form.row_bytes) == (3, 4 + CAMPAIGN.frame.row_bytes)
    assert rows[:, :4].tolist() == [[*WEEK.to_bytes(4, "little")]] * 3
    assert CAMPAIGN.form.periods_of(rows).tolist() == [WEEK] * 3
    assert CAMPAIGN.form.valid(rows).all()
    rows[0, 3] = 255
    assert CAMPAIGN.form.valid(rows).tolist() == [False, True, True]


@pytest.mark.parametrize("kind", [report.JSON, report.BINARY])
def test_both_forms_carry_the_period(kind: str) -> None:
    ids, rows = new_ids(5), np.concatenate([rows_of(2), rows_of(3, WEEK + 1)])
    write = report.to_json if kind == report.JSON else report.to_binary
    found = report.read(CAMPAIGN.form, write(CAMPAIGN.form, ids, rows), kind)
    assert found.rows.tolist() == rows.tolist()
    assert not found.problems.any()


@pytest.mark.parametrize("period", [None, -1, 1 << 31, 1 << 70])
def test_a_report_without_a_period_that_can_be_is_refused(period: int | None) -> None:
    said = msgspec.json.decode(report.to_json(CAMPAIGN.form, new_ids(1), rows_of(1)))
    if period is None:
        del said["period"]
    else:
        said["period"] = period
    good = msgspec.json.decode(report.to_json(CAMPAIGN.form, new_ids(1), rows_of(1)))
    found = report.read(CAMPAIGN.form, msgspec.json.encode([said, good]), report.JSON)
    assert [OUTCOMES[code] for code in found.problems] == ["wrong-period", "stored"]


def test_a_period_where_there_are_none_is_refused() -> None:
    plain = campaign_of(TEXT.replace('every = "week"', ""))
    said = msgspec.json.decode(report.to_json(plain.form, new_ids(1), rows_of(1, campaign=plain)))
    assert "period" not in said
    found = report.read(plain.form, msgspec.json.encode({**said, "period": WEEK}), report.JSON)
    assert [OUTCOMES[code] for code in found.problems] == ["wrong-period"]


# --- the collector -------------------------------------------------------------------------------


def take(
    store: Store, served: Served, ids: Ids, rows: Rows, periods: range | None = None
) -> list[str]:
    body = report.to_binary(served.campaign.form, ids, rows)
    incoming = report.decode(served.campaign.form, body, report.BINARY)
    batch = Batch(served, incoming, periods=periods)
    commit(store, [batch])
    return [OUTCOMES[code] for code in batch.problems]


@pytest.fixture
def store(store_url: str):
    with closing(open_store(store_url)) as opened:
        yield opened


def test_reports_count_in_their_period(store: Store) -> None:
    served = serve(store, CAMPAIGN)
    rows = np.concatenate([rows_of(120), rows_of(80, WEEK + 1)])
    take(store, served, new_ids(200, seeded_rng(5)), rows)
    take(store, served, new_ids(30, seeded_rng(6)), rows_of(30, WEEK - 1))
    found = by_period(store, CAMPAIGN)
    assert {p: CAMPAIGN.frame.reports(own) for p, own in found.items()} == {
        WEEK - 1: 30,
        WEEK: 120,
        WEEK + 1: 80,
    }
    assert list(found) == [WEEK - 1, WEEK, WEEK + 1]
    assert CAMPAIGN.frame.reports(total(store, CAMPAIGN)) == 230
    audited(store, CAMPAIGN)


def test_periods_that_are_not_open_are_refused_and_counted(store: Store) -> None:
    served, now = serve(store, CAMPAIGN), datetime(2026, 11, 18, tzinfo=UTC)
    rows = np.concatenate([rows_of(1, WEEK + shift) for shift in (-2, -1, 0, 1)])
    found = take(store, served, new_ids(4), rows, CAMPAIGN.open_periods(now))
    assert found == ["wrong-period", "stored", "stored", "early-period"]
    counts = audited(store, CAMPAIGN).counts
    assert counts == {"received": 4, "stored": 2, "wrong-period": 1, "early-period": 1}


def test_what_was_stored_is_a_duplicate_once_its_period_is_over(store: Store) -> None:
    served, ids = serve(store, CAMPAIGN), new_ids(3)
    take(store, served, ids[:2], rows_of(2))
    found = take(store, served, ids, rows_of(3), range(WEEK + 1, WEEK + 2))
    assert found == ["duplicate", "duplicate", "wrong-period"]
    audited(store, CAMPAIGN)


def test_each_upload_goes_by_the_time_at_which_it_came(store: Store) -> None:
    """Uploads of both forms in one group, with other periods open for each."""
    served = serve(store, CAMPAIGN)
    batches = []
    for first, write, kind in (
        (WEEK, report.to_binary, report.BINARY),
        (WEEK + 1, report.to_json, report.JSON),
        (WEEK - 1, report.to_binary, report.BINARY),
    ):
        rows = np.concatenate([rows_of(1, WEEK), rows_of(1, WEEK + 1)])
        incoming = report.decode(CAMPAIGN.form, write(CAMPAIGN.form, new_ids(2), rows), kind)
        batches.append(Batch(served, incoming, periods=range(first, first + 2)))
    commit(store, batches)
    found = [[OUTCOMES[code] for code in batch.problems] for batch in batches]
    assert found == [["stored", "stored"], ["wrong-period", "stored"], ["stored", "early-period"]]
    audited(store, CAMPAIGN)


@pytest.mark.slow
def test_exported_reports_say_their_period_and_come_back(store: Store, tmp_path: Path) -> None:
    served = serve(store, CAMPAIGN)
    rows = np.concatenate([rows_of(20), rows_of(20, WEEK + 1)])
    take(store, served, new_ids(40), rows)
    export.write(store, served, tmp_path / "reports.parquet")
    parts = list(export.rows(tmp_path / "reports.parquet"))
    again = np.concatenate([sent for _, sent in parts])
    assert CAMPAIGN.form.tallies(again) == CAMPAIGN.form.tallies(rows) == by_period(store, CAMPAIGN)
    table = parquet.arrow().parquet.read_table(tmp_path / "reports.parquet")
    assert sorted(set(table["period"].to_pylist())) == [WEEK, WEEK + 1]


# --- other collectors ----------------------------------------------------------------------------


@pytest.fixture
def two(tmp_path: Path):
    with closing(open_store(tmp_path / "a.db")) as a, closing(open_store(tmp_path / "b.db")) as b:
        secret = shared_key(a)
        shared_key(b, secret)
        yield (a, serve(a, CAMPAIGN)), (b, serve(b, CAMPAIGN))


def test_tallies_of_each_period_travel_and_come_again(two) -> None:
    (a, ours), (b, theirs) = two
    take(a, ours, new_ids(50, seeded_rng(1)), rows_of(50))
    for turn, period in enumerate([WEEK, WEEK + 1]):
        take(b, theirs, new_ids(60, seeded_rng(2 + turn)), rows_of(60, period))
        told = exported(b, CAMPAIGN).to_bytes()
        for news in (1, 0):
            other = CampaignTallies.from_bytes(told, CAMPAIGN)
            assert other.to_bytes() == told
            assert merge_tallies(a, ours, other).news == news
    counted = {p: CAMPAIGN.frame.reports(own) for p, own in by_period(a, CAMPAIGN).items()}
    assert counted == {WEEK: 110, WEEK + 1: 60}


def test_the_same_sum_in_other_periods_is_no_later_tally(two) -> None:
    """Of a store that was copied, and both went on: the sums fit, the periods do not."""
    (a, ours), (b, theirs) = two
    take(b, theirs, new_ids(60, seeded_rng(2)), rows_of(60))
    merge_tallies(a, ours, exported(b, CAMPAIGN))
    told = exported(b, CAMPAIGN)
    (name, part), *_ = told.parts.items()
    moved = replace(part, tallies={WEEK + 1: part.tallies[WEEK]})
    with pytest.raises(MismatchError, match="have parted"):
        merge_tallies(a, ours, replace(told, parts={name: moved}))


@pytest.mark.parametrize("scrubs", [False, True])
def test_stores_merge_by_their_reports_period_by_period(two, scrubs: bool) -> None:
    (a, ours), (b, theirs) = two
    if scrubs:
        scrubbing = CAMPAIGN.with_terms(msgspec.structs.replace(CAMPAIGN.terms, keep_reports=False))
        theirs = replace(theirs, campaign=scrubbing)
    take(a, ours, new_ids(40, seeded_rng(1)), rows_of(40))
    rows = np.concatenate([rows_of(30), rows_of(20, WEEK + 1)])
    take(b, theirs, new_ids(50, seeded_rng(2)), rows)
    for new in (50, 0):
        assert merge(a, b, "mood").new == new
        counted = {p: CAMPAIGN.frame.reports(own) for p, own in by_period(a, CAMPAIGN).items()}
        assert counted == {WEEK: 70, WEEK + 1: 20}
    expected = CAMPAIGN.form.tallies(np.concatenate([rows_of(40), rows]))
    assert by_period(a, CAMPAIGN) == expected
