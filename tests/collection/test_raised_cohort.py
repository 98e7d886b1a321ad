"""A cohort that was raised holds for all that is said from then on, of earlier versions too."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import murmuration
from murmuration.collector.publish import serve
from murmuration.collector.store import open_store
from murmuration.exact.randomness import seeded_rng
from murmuration.wire.ids import new_ids
from tests.collection.test_cohort import LEVELS, WEEKS, add, reports_of
from tests.support.accounts import campaign_of


def test_a_period_of_fewer_people_is_told_no_more(tmp_path: Path) -> None:
    campaign = campaign_of(WEEKS)
    with closing(open_store(tmp_path / "a.db")) as store:
        served = serve(store, campaign)
        add(store, served, new_ids(700, seeded_rng(1)), reports_of(campaign, 700, 2))
        assert all(period.people >= 100 for period in served.status(store).periods)
        raised = serve(store, campaign_of(WEEKS.replace("cohort = 100", "cohort = 1000")))
        status = raised.status(store)
        assert [period.people for period in status.periods] == [0, 0, 0]
        assert status.cohort == 1000


def test_the_status_of_an_earlier_version_goes_by_the_later_cohort(tmp_path: Path) -> None:
    campaign, path = campaign_of(LEVELS), tmp_path / "a.db"
    with closing(open_store(path)) as store:
        rows = reports_of(campaign, 700, 2)
        add(store, serve(store, campaign), new_ids(700, seeded_rng(1)), rows)
        serve(store, campaign_of(LEVELS.replace("cohort = 100", "cohort = 1000")))
    for version in (None, 1):
        status = murmuration.open(path, version=version).status()
        assert status.version == (version or 2)
        assert status.cohort == 1000
        assert [(each.answers, each.levels) for each in status.attributes] == [(0, {})]
