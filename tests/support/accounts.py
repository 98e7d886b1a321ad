"""What a store says it has, read in one transaction and checked: whatever happened, it adds up.

received = stored + duplicate + refused(reason)
stored   = the reports that are there, each id once
tallies  = those of the reports that are there, bit for bit
"""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from murmuration.campaign.question import Question
from murmuration.campaign.survey import SurveyCampaign
from murmuration.collector.commit import OUTCOMES
from murmuration.collector.files import folder, log
from murmuration.collector.merging.known import known
from murmuration.collector.store import Store, open_store
from murmuration.collector.store.sqlite import SqliteStore
from murmuration.counting.periods import pooled
from murmuration.definition import load as campaign_file
from murmuration.exact.arrays import Rows
from murmuration.exact.randomness import seeded_rng
from murmuration.mechanisms.tally import Tally
from murmuration.wire import parquet
from murmuration.wire.ids import Ids, new_ids

COMMUTE = """
name = "commute"
purpose = "How people get to work"
epsilon = 2.0
people = 20000
cohort = 100

[[attributes]]
name = "minutes"
low = 0
high = 120

[[attributes]]
name = "mode"
kind = "category"
labels = ["walk", "bicycle", "bus", "car"]
"""


@dataclass(frozen=True)
class Accounts:
    """A campaign's state, over all versions that are asked for."""

    rows: dict[bytes, bytes]
    """By id, as stored."""
    counts: dict[str, int]
    tallies: dict[str, tuple[Tally, ...]]
    """This collector's own, by digest."""

    @property
    def ids(self) -> set[bytes]:
        return set(self.rows)


def audited(store: Store, *versions: SurveyCampaign, reports: Path | None = None) -> Accounts:
    """Read everything about a campaign, in all its versions, and assert that it adds up.

    `reports` is the folder that its collector writes reports to, if not into the store.
    """
    with store.transaction():
        if isinstance(store, SqliteStore):
            assert store.execute("PRAGMA integrity_check") == [("ok",)]
        counts = store.counts(versions[0].name)
        found: list[tuple[bytes, bytes]] = []
        tallies = {}
        for campaign in versions:
            mine = _reports(store, campaign)
            if reports is not None:
                mine = _in_folder(store, campaign, reports, mine)
            tallies[campaign.digest] = _tallies(store, campaign, [row for _, row in mine])
            found += mine
    assert len({each for each, _ in found}) == len(found)
    rest = {outcome: n for outcome, n in counts.items() if outcome != "received"}
    assert set(rest) <= set(OUTCOMES)
    assert counts.get("received", 0) == sum(rest.values())
    assert counts.get("stored", 0) == len(found)
    return Accounts(dict(found), counts, tallies)


def audited_at(url: str, *versions: SurveyCampaign, reports: Path | None = None) -> Accounts:
    """The same, with a store that is opened for it."""
    with closing(open_store(url)) as store:
        return audited(store, *versions, reports=reports)


def total_at(url: str, campaign: SurveyCampaign) -> tuple[Tally, ...]:
    """All that a store counts of a campaign: its own reports, and what it was told."""
    with closing(open_store(url)) as store:
        return known(store, campaign).total()


def _in_folder(
    store: Store, campaign: SurveyCampaign, reports: Path, known: Sequence[tuple[bytes, bytes]]
) -> list[tuple[bytes, bytes]]:
    """The reports in parts and in logs: exactly those that the store counts, each of them once."""
    by_group: dict[str, dict[bytes, bytes]] = {}
    for path in folder.Place(folder.place_of(reports, campaign), campaign).parts().values():
        table = parquet.arrow().parquet.read_table(path, partitioning=None)
        mine = _pairs(*parquet.rows_of(campaign.form, table))
        assert [each for each, _ in mine] == sorted(each for each, _ in mine)
        group = by_group.setdefault(path.name.split("-")[1], {})
        assert not group.keys() & dict(mine).keys()
        group |= dict(mine)
    for path in (reports / log.FOLDER).glob(f"*{log.ENDING}"):
        end = store.log_end(path.stem) or log.EMPTY
        with path.open("rb") as file:
            records = [r for r in log.read(file.fileno(), end) if r.digest == campaign.digest]
        mine = [pair for record in records for pair in _pairs(record.ids, record.rows)]
        assert len(dict(mine)) == len(mine)
        sealed = by_group.get(path.stem, {})
        assert sealed.items() <= dict(mine).items()  # as far as it came before it was killed
        by_group[path.stem] = dict(mine)
    found = [pair for group in by_group.values() for pair in group.items()]
    assert sorted(each for each, _ in found) == [each for each, _ in known]
    return found


def _pairs(ids: Ids, rows: Rows) -> list[tuple[bytes, bytes]]:
    return list(zip(map(bytes, ids), map(bytes, rows), strict=True))


def _reports(store: Store, campaign: SurveyCampaign) -> list[tuple[bytes, bytes]]:
    key = store.key_of(campaign.digest)
    found: list[tuple[bytes, bytes]] = []
    for ids, rows, kept in store.kept_reports(key or 0, campaign.form.row_bytes):
        stored = dict(zip(kept.tolist(), map(bytes, rows), strict=True))
        found += [(bytes(one), stored.get(place, b"")) for place, one in enumerate(ids)]
    assert len(found) == store.report_count(key or 0)
    assert [one for one, _ in found] == sorted(one for one, _ in found)
    return found


def _tallies(store: Store, campaign: SurveyCampaign, kept: Sequence[bytes]) -> tuple[Tally, ...]:
    """The stored tallies, after comparing them with those of the stored reports."""
    by_period = store.tallies(campaign.digest, campaign.frame.cells)
    tallies = pooled(campaign, by_period)
    if campaign.terms.keep_reports:
        rows = as_rows(campaign, kept)
        assert by_period == campaign.form.tallies(rows)
        assert tallies == campaign.tally(rows)
    else:
        assert set(kept) <= {b""}
        assert campaign.people(tallies) == len(kept)
    return tallies


def as_rows(campaign: SurveyCampaign, kept: Sequence[bytes]) -> Rows:
    """Stored reports as the library takes them."""
    return np.frombuffer(b"".join(kept), dtype=np.uint8).reshape(-1, campaign.form.row_bytes)


def _range_of(question: Question) -> tuple[float, float]:
    """The least and the greatest answer of a number."""
    assert question.low is not None
    assert question.high is not None
    return question.low, question.high


def made(campaign: SurveyCampaign, n: int, seed: int = 0) -> tuple[Ids, Rows]:
    """Ids and reports of n people, the same ones for the same seed."""
    rng = seeded_rng(seed)
    people = np.random.default_rng(seed)
    answers = {
        question.name: people.choice(question.labels, n).tolist()
        if question.labels
        else people.uniform(*_range_of(question), n)
        for question in campaign.questions
    }
    rows = campaign.privatize(campaign.encode(answers, rng), rng)
    return new_ids(n, rng), rows


def outcomes_of(answer: dict[str, object], size: int) -> list[str]:
    """What became of each report of an upload, from its receipt."""
    found = ["stored"] * size
    failures = answer["failures"]
    assert isinstance(failures, list)
    for failure in failures:
        found[failure["index"]] = failure["type"].removeprefix("/problems/")
    assert answer["received"] == size
    assert answer["stored"] == found.count("stored")
    return found


@cache
def campaign_of(text: str) -> SurveyCampaign:
    """The campaign in a file's text; the same text is planned once."""
    return campaign_file.parse(text, SurveyCampaign)


def commute() -> SurveyCampaign:
    """The campaign of these tests."""
    return campaign_of(COMMUTE)
