"""A report that was stored, and whose answer was lost: it counts, whenever it is sent again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from murmuration.campaign.survey import SurveyCampaign
from murmuration.collector.commit import OUTCOMES, Batch, commit
from murmuration.collector.publish import serve
from murmuration.collector.store import Store, open_store
from murmuration.wire import report
from murmuration.wire.ids import Ids, new_ids
from tests.support.accounts import audited, campaign_of
from tests.support.collectors import encoded, one, reports

PHONES = campaign_of(one("phones"))
FORMS = pytest.mark.parametrize("kind", [report.JSON, report.BINARY])


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with closing(open_store(tmp_path / "store.db")) as opened:
        yield opened


def batch(
    store: Store, made_for: SurveyCampaign, ids: Ids, kind: str, in_time: bool = True
) -> Batch:
    """Reports of one version, as they come to the version that is served."""
    served = serve(store, PHONES)
    body = encoded(made_for, ids, reports(made_for, len(ids))[1], kind)
    return Batch(served, report.decode(PHONES.form, body, kind, served.older), in_time=in_time)


def outcomes(one: Batch) -> list[str]:
    return [OUTCOMES[code] for code in one.problems.tolist()]


@FORMS
def test_what_was_stored_is_a_duplicate_after_closing(store: Store, kind: str) -> None:
    ids = new_ids(4)
    commit(store, [batch(store, PHONES, ids[1:3], kind)])
    late = batch(store, PHONES, ids[[3, 1, 0, 2, 1]], kind, in_time=False)
    commit(store, [late])
    again = ["outside-window", "duplicate", "outside-window", "duplicate", "duplicate"]
    assert outcomes(late) == again
    counts = audited(store, PHONES).counts
    assert counts == {"received": 7, "stored": 2, "duplicate": 3, "outside-window": 2}


@FORMS
def test_also_if_both_come_together(store: Store, kind: str) -> None:
    ids = new_ids(2)
    first = batch(store, PHONES, ids[:1], kind)
    late = batch(store, PHONES, ids, kind, in_time=False)
    commit(store, [late, first])
    assert (outcomes(first), outcomes(late)) == (["stored"], ["duplicate", "outside-window"])


@FORMS
def test_what_an_earlier_version_has_counted_is_a_duplicate(store: Store, kind: str) -> None:
    earlier, ids = campaign_of(one("phones", epsilon=2)), new_ids(3)
    served = serve(store, earlier)
    body = encoded(earlier, ids[:2], reports(earlier, 2)[1], kind)
    commit(store, [Batch(served, report.decode(earlier.form, body, kind))])
    for in_time in (True, False):
        again = batch(store, earlier, ids[[2, 1, 0]], kind, in_time)
        commit(store, [again])
        assert outcomes(again) == ["superseded", "duplicate", "duplicate"]
    counts = audited(store, PHONES, earlier).counts
    assert counts == {"received": 8, "stored": 2, "duplicate": 4, "superseded": 2}
