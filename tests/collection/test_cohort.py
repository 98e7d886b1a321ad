"""What a collector shows tells nothing about fewer people than the cohort, at any look.

A printed figure has one solution in whole numbers, so whoever knows how many answered at each level
knows what they sent. `solutions` is that attack. The others play two stores that differ in too few
reports to be told, and hold everything that anybody is shown against each other.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from murmuration import open as opened
from murmuration.analysis import figures as forms
from murmuration.analysis import read
from murmuration.analysis.estimates import Query
from murmuration.campaign.survey import SurveyCampaign
from murmuration.collector.commit import Batch, commit
from murmuration.collector.merging.key_file import take_key
from murmuration.collector.merging.known import exported, known
from murmuration.collector.merging.tallies import merge_tallies, remove
from murmuration.collector.publish import serve
from murmuration.collector.served import Served
from murmuration.collector.shown import shown
from murmuration.collector.store import Store, open_store
from murmuration.counting.cohort import needed
from murmuration.errors import CohortError
from murmuration.exact.arrays import Rows
from murmuration.exact.randomness import seeded_rng
from murmuration.mechanisms.tally import Tally
from murmuration.server.watch import Watch
from murmuration.sources.open import open_source
from murmuration.wire.ids import Ids, new_ids
from murmuration.wire.report import Incoming, Upload
from tests.support.accounts import campaign_of
from tests.support.collectors import running

LEVELS = """
name = "levels"
purpose = "Levels that people choose."
epsilon = 2
people = 2000
cohort = 100
[levels]
high = "1/4"
medium = "1/2"
low = 1
[[attributes]]
name = "phone"
kind = "category"
labels = ["android", "ios"]
mechanism = "grr"
"""
TOLD = [
    {"name": "low", "epsilon": 2.0, "answers": 300},
]
SEVERAL = """
name = "several"
purpose = "Attributes that are drawn by lot."
epsilon = 2
people = 2000
cohort = 100
[[attributes]]
name = "phone"
kind = "category"
labels = ["android", "ios"]
mechanism = "grr"
[[attributes]]
name = "work"
kind = "category"
labels = ["yes", "no"]
mechanism = "grr"
"""
WEEKS = """
name = "weeks"
purpose = "A question that comes back."
epsilon = 2
people = 2000
cohort = 100
[repeat]
every = "week"
permanent = 3
rounds = 4
[[attributes]]
name = "phone"
kind = "category"
labels = ["android", "ios"]
"""


def at_levels(campaign: SurveyCampaign, sizes: Sequence[int], seed: int = 1) -> Rows:
    """Reports of so many people at each level."""
    n, rng = sum(sizes), seeded_rng(seed)
    phones = np.random.default_rng(seed).choice(["android", "ios"], n)
    names = [*np.repeat(campaign.levels.names, sizes)] if campaign.levels else None
    return campaign.privatize(campaign.encode({"phone": phones}, rng), rng, names)


def add(store: Store, served: Served[SurveyCampaign], ids: Ids, rows: Rows) -> None:
    upload = Upload(ids, rows, np.zeros(len(ids), dtype=np.uint8))
    commit(store, [Batch(served, Incoming([], upload))])


# --- the attack ----------------------------------------------------------------------------------


def solutions(
    campaign: SurveyCampaign, printed: dict[str, Any], whole: Tally, sizes: Sequence[int]
) -> list[tuple[int, ...]]:
    """Which reports of the small levels fit what is printed, were those of the large one known.

    The attacker knows how many chose each level, and this program.
    """
    found = []
    for counts in product(*(range(n + 1) for n in sizes)):
        tallies = [
            Tally(law, np.array([c, n - c]), n)
            for law, n, c in zip(campaign.frame.cells, sizes, counts, strict=False)
        ]
        rows = read.figures(campaign, (*tallies, whole), **printed["query"])
        if [(row.item, row.value, row.stderr) for row in rows] == printed["rows"]:
            found.append(counts)
    return found


def test_no_reports_of_one_or_two_people_are_solved_from_what_is_printed(tmp_path: Path) -> None:
    campaign, sizes = campaign_of(LEVELS), (1, 2, 400)
    rows = at_levels(campaign, sizes)
    with closing(open_store(tmp_path / "a.db")) as store:
        served = serve(store, campaign)
        add(store, served, new_ids(len(rows), seeded_rng(1)), rows)
        tallies = campaign.tally(rows)
        assert [tally.n for tally in tallies] == [*sizes]
        estimates = open_source(str(tmp_path / "a.db")).asked(Query())
        state = json.dumps(everything(store, served))
    query = {"about": estimates.about, "confidence": estimates.confidence}
    found = [(row.item, row.value, row.stderr) for row in estimates.estimates]
    fitting = solutions(campaign, {"query": query, "rows": found}, tallies[2], sizes[:2])
    assert len(fitting) == 2 * 3, "nothing that is printed depends on what they sent"
    assert {row.n for row in estimates.estimates} == {400}
    assert "without level high, medium" in estimates.estimates[0].note
    # Nor how many they are: 403 have reported, and one level of 400 would tell the others.
    assert json.loads(state)["status"]["attributes"][0]["levels"] == {}


# --- two stores that must look the same ----------------------------------------------------------


def everything(store: Store, served: Served[SurveyCampaign]) -> dict[str, Any]:
    """All that is shown of a campaign, by every route: in JSON, as it is sent."""
    campaign = served.campaign
    watch = Watch(served)
    status, tallies = watch.look(store)
    state = watch.state(status, tallies)
    status = msgspec.structs.replace(status, collector="")
    seen: dict[str, Any] = {"status": status, "live": msgspec.structs.replace(state, at=0)}
    with closing(open_source(str(store.path))) as source:  # type: ignore[attr-defined]
        for about, confidence, combine in product(
            ("participants", "population"), (0.5, 0.95), ("", "total", "generalised")
        ):
            if combine and campaign.levels is None:
                continue
            query = Query(about, confidence, combine, period="all" if campaign.every else "")
            try:
                found = source.asked(query)
                seen[f"{query}"] = [forms.rendered(found, form) for form in forms.FORMATS]
            except CohortError as problem:
                seen[f"{query}"] = str(problem)
        if campaign.every:
            seen["trend"] = source.trend(Query())
    return dict(json.loads(msgspec.json.encode(seen)))


@dataclass
class Twin:
    """Two stores in which the same devices report at the same times."""

    campaign: SurveyCampaign
    stores: tuple[Store, Store]

    def __post_init__(self) -> None:
        self.served = [serve(store, self.campaign) for store in self.stores]

    def add(self, ids: Ids, rows: Rows, others: Rows) -> None:
        for store, served, mine in zip(self.stores, self.served, (rows, others), strict=True):
            add(store, served, ids, mine)

    @property
    def looks_the_same(self) -> bool:
        first, second = map(everything, self.stores, self.served)
        return first == second


@pytest.fixture
def twin(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Twin]:
    with (
        closing(open_store(tmp_path / "a.db")) as one,
        closing(open_store(tmp_path / "b.db")) as other,
    ):
        yield Twin(campaign_of(request.param), (one, other))


def other_answers(campaign: SurveyCampaign, rows: Rows) -> Rows:
    """Reports by the same laws that all say one label."""
    changed = rows.copy()
    changed[:, -1] = 0
    assert campaign.form.valid(changed).all()
    return changed


def reports_of(campaign: SurveyCampaign, n: int, seed: int) -> Rows:
    if campaign.levels is not None:
        rows = at_levels(campaign, (n // 20, n // 5, n - n // 20 - n // 5), seed)
        return seeded_order(rows, seed)
    rng, random = seeded_rng(seed), np.random.default_rng(seed)
    answers = {q.name: random.choice(q.labels, n) for q in campaign.questions}
    rows = campaign.privatize(campaign.encode(answers, rng), rng)
    if campaign.every is None:
        return rows
    weeks = np.sort(random.integers(2900, 2903, n)).astype("<u4")
    rows[:, :4] = weeks.view(np.uint8).reshape(n, 4)
    return rows


def seeded_order(rows: Rows, seed: int) -> Rows:
    return rows[np.random.default_rng(seed).permutation(len(rows))]


@pytest.mark.parametrize(
    "twin", [LEVELS, SEVERAL, WEEKS], indirect=True, ids=["levels", "lot", "weeks"]
)
def test_what_is_shown_does_not_depend_on_the_last_few_reports(twin: Twin) -> None:
    """After every group: what came since a law's sums were last shown may have been anything."""
    campaign, n = twin.campaign, 700
    ids, rows = new_ids(n, seeded_rng(5)), reports_of(campaign, n, 5)
    cells, periods = campaign.form.entries(rows)[0][0], campaign.form.periods_of(rows)
    at, steps = 0, np.random.default_rng(3).integers(1, 40, n)
    least, looks = needed(campaign), []
    for step in steps.tolist():
        end = min(at + step, n)
        before = counted(twin.stores[0], campaign)
        twin.add(ids[at:end], rows[at:end], rows[at:end])
        looks.append((counted(twin.stores[0], campaign), before))
        at = end
        if at == n:
            break
    shown_at_last = looks[-1][0]
    assert any(n >= least for n in shown_at_last.values())
    for now, before in looks:
        for cell, people in now.items():
            assert people == before.get(cell, 0) or people - before.get(cell, 0) >= least
    # All that came to a law after the reports that are shown.
    pending = np.zeros(n, dtype=bool)
    for cell, period in {*zip(cells.tolist(), periods.tolist(), strict=True)}:
        mine = np.flatnonzero((cells == cell) & (periods == period))
        pending[mine[shown_at_last.get((period, cell), 0) :]] = True
    assert 0 < pending.sum() < n
    again = Twin(
        campaign,
        tuple(open_store(Path(store.path).with_suffix(".again")) for store in twin.stores),  # type: ignore[arg-type,attr-defined]
    )
    changed = np.where(pending[:, None], other_answers(campaign, rows), rows)
    at = 0
    for step in steps.tolist():
        end = min(at + step, n)
        again.add(ids[at:end], rows[at:end], changed[at:end])
        at = end
        if at == n:
            break
    try:
        assert again.looks_the_same
        raw = [known(store, campaign).total() for store in again.stores]
        assert raw[0] != raw[1], "an admin's raw sums are the admin's"
    finally:
        for store in again.stores:
            store.close()


def counted(store: Store, campaign: SurveyCampaign) -> dict[tuple[int, int], int]:
    """How many reports of each period and cell are shown."""
    return {
        (period, cell): tally.n
        for period, own in shown(store, campaign).items()
        for cell, tally in enumerate(own)
    }


# --- looks ---------------------------------------------------------------------------------------


def test_one_more_report_changes_nothing_and_a_restart_neither(tmp_path: Path) -> None:
    campaign, path = campaign_of(SEVERAL), tmp_path / "a.db"
    rows, ids = reports_of(campaign, 1000, 2), new_ids(1000, seeded_rng(2))
    texts = []
    for end in range(300, 320):
        with closing(open_store(path)) as store:
            served = serve(store, campaign)
            start = 0 if end == 300 else end - 1
            add(store, served, ids[start:end], rows[start:end])
        texts.append(repr(list(opened(path).estimates())))
    assert len(set(texts)) == 1
    with closing(open_store(path)) as store:
        add(store, serve(store, campaign), ids[320:], rows[320:])
    assert repr(list(opened(path).estimates())) != texts[0]


def test_an_attribute_is_shown_when_it_has_the_cohort(tmp_path: Path) -> None:
    """One report at a time: none waits for more than a cohort of answers to its own attribute."""
    campaign, path = campaign_of(SEVERAL), tmp_path / "a.db"
    rows, ids = reports_of(campaign, 420, 2), new_ids(420, seeded_rng(2))
    cells = campaign.form.entries(rows)[0][0]
    with closing(open_store(path)) as store:
        served = serve(store, campaign)
        for end in range(1, 421):
            add(store, served, ids[end - 1 : end], rows[end - 1 : end])
            counts = np.bincount(cells[:end], minlength=2)
            in_figures = counted(store, campaign)
            assert [in_figures.get((0, cell), 0) for cell in range(2)] == [
                *(counts // 100 * 100).tolist()
            ]
        status = served.status(store)
    assert status.waiting == 420 - sum(in_figures.values())
    estimates = opened(path).estimates()
    assert f"{status.waiting} more reports are stored and in no figure yet" in estimates.notes[-1]


def test_nothing_waits_when_all_reports_are_in_the_figures(tmp_path: Path) -> None:
    campaign = campaign_of(SEVERAL)
    rows = reports_of(campaign, 420, 2)
    cells = campaign.form.entries(rows)[0][0]
    first = np.sort(np.concatenate([np.flatnonzero(cells == cell)[:100] for cell in range(2)]))
    with closing(open_store(tmp_path / "a.db")) as store:
        served = serve(store, campaign)
        add(store, served, new_ids(200, seeded_rng(2)), rows[first])
        status = served.status(store)
    assert (status.reports, status.waiting) == (200, 0)


def test_all_levels_that_are_shown_are_of_one_moment(tmp_path: Path) -> None:
    """Else a level that few choose would lag behind, and a figure would lean to the others."""
    campaign = campaign_of(LEVELS)
    rows = seeded_order(at_levels(campaign, (150, 300, 1050), 3), 3)
    ids, cells = new_ids(1500, seeded_rng(3)), campaign.form.entries(rows)[0][0]
    moments = {tuple(np.bincount(cells[:end], minlength=3).tolist()) for end in range(0, 1501, 10)}
    shown_levels = set()
    with closing(open_store(tmp_path / "a.db")) as store:
        served = serve(store, campaign)
        for end in range(10, 1501, 10):
            add(store, served, ids[end - 10 : end], rows[end - 10 : end])
            in_figures = counted(store, campaign)
            sizes = [in_figures.get((0, cell), 0) for cell in range(3)]
            shown_levels.add(sum(n > 0 for n in sizes))
            assert any(
                all(n in (0, whole) for n, whole in zip(sizes, moment, strict=True))
                for moment in moments
            ), sizes
    assert shown_levels >= {0, 1, 2}


def test_a_lower_cohort_shows_more_when_it_is_served(tmp_path: Path) -> None:
    lower = campaign_of(SEVERAL)
    rows = reports_of(lower, 300, 2)
    with closing(open_store(tmp_path / "a.db")) as store:
        add(store, serve(store, campaign_of(SEVERAL.replace("100", "200"))), new_ids(300), rows)
        assert shown(store, lower) == {}
        serve(store, lower)
        assert shown(store, lower) == {0: lower.tally(rows)}


def test_merged_tallies_follow_the_same_rules(tmp_path: Path) -> None:
    """Whether they come, grow or go: by a cohort at least, apart from what was counted here."""
    campaign = campaign_of(SEVERAL)
    rows, ids = reports_of(campaign, 1000, 4), new_ids(1000, seeded_rng(4))
    with (
        closing(open_store(tmp_path / "a.db")) as store,
        closing(open_store(tmp_path / "b.db")) as other,
    ):
        ours, theirs = serve(store, campaign), serve(other, campaign)
        for each in (store, other):
            take_key(each, bytes(32))
        sizes = []
        for start, end in ((0, 150), (150, 300), (300, 320), (320, 600)):
            add(other, theirs, ids[start:end], rows[start:end])
            merge_tallies(store, ours, exported(other, campaign))
            sizes.append(sum(tally.n for own in shown(store, campaign).values() for tally in own))
        assert sizes == [0, 300, 300, 600]
        add(store, ours, ids[600:700], rows[600:700])
        assert campaign.people(shown(store, campaign)[0]) == 600
        add(store, ours, ids[700:], rows[700:])
        assert campaign.people(shown(store, campaign)[0]) == 1000
        assert remove(store, campaign.name, other.collector_name()) == 600
        assert shown(store, campaign)[0] == campaign.tally(rows[600:])


@pytest.mark.slow
def test_every_route_of_a_collector_is_of_one_look(tmp_path: Path) -> None:
    """Over HTTP: 422 people, then one more, and all that an analyst is sent stays as it was."""
    campaign = campaign_of(LEVELS)
    rows, ids = at_levels(campaign, (2, 120, 301)), new_ids(423, seeded_rng(1))
    routes = [
        *(f"estimates?format={form}" for form in forms.FORMATS),
        "estimates?about=population&combine=generalised&confidence=0.5",
        "status",
        "live",
    ]
    with running(tmp_path / "a.db", LEVELS) as collector:
        from murmuration.wire import report

        def look() -> list[Any]:
            place = "/v1/campaigns/levels"
            answers = [collector.get(f"{place}/{route}", collector.admin) for route in routes]
            assert {answer.status for answer in answers} == {200}
            return [about_answers(answer.body) for answer in answers]

        def send(chosen: slice) -> None:
            body = report.to_binary(campaign.form, ids[chosen], rows[chosen])
            assert collector.send("levels", body, report.BINARY).status == 200

        send(slice(0, 422))
        before = look()
        send(slice(422, 423))
        assert look() == before
        levels = [answer["attributes"][0]["levels"] for answer in before[4:]]
        assert levels == [{"low": 300}, TOLD]


def about_answers(body: bytes) -> Any:
    """What an answer says of answers: not of when it is, and of how many reports arrived."""
    try:
        found = json.loads(body)
    except ValueError:
        return body.hex()
    found.pop("waiting", None)
    if "received" not in found:
        return found
    kept = ("attributes", "periods", "changes", "changed", "warnings", "cohort")
    return {key: found[key] for key in kept if key in found}
