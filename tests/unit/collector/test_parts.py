"""Parts of collectors' tallies: which is later than which, which overlap, which no collector has.

Quick, on the functions that merging decides by; whole merges are in `test_merging.py`.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from murmuration.collector.merging import reports, tallies
from murmuration.collector.merging.known import Known
from murmuration.collector.merging.reports import NOBODY
from murmuration.collector.merging.tallies import merge_tallies, require_possible
from murmuration.collector.publish import serve
from murmuration.collector.store import open_store
from murmuration.counting.container import CampaignTallies, Part
from murmuration.counting.sketch import name_of, sketched
from murmuration.errors import MismatchError
from tests.support.accounts import campaign_of, made
from tests.support.collectors import one

KEY, OTHER_KEY = bytes(range(32)), bytes(32)
CAMPAIGN = campaign_of(one("merging"))
IDS, ROWS = made(CAMPAIGN, 400)
MINE, HERS, HIS = ("0123456789abcdef", "00112233445566ff", "ffeeddccbbaa9988")


def part(*people: slice) -> Part:
    """What a collector has counted that these people have sent their reports to."""
    ids = [IDS[some] for some in people]
    whole = CAMPAIGN.tally(np.concatenate([ROWS[some] for some in people]))
    return Part({0: whole}, sketched(ids, KEY))


def known(own: Part = NOBODY, counted: Part | None = None, held: Part | None = None) -> Known:
    """What a store knows that has counted `own`, and of another collector these parts."""
    return Known(
        *(CAMPAIGN, MINE, name_of(KEY), own),
        {} if counted is None else {HERS: counted},
        {} if held is None else {HERS: held},
    )


def test_a_later_part_has_more_and_all_that_is_here() -> None:
    ours = known(counted=part(slice(100)), held=part(slice(100)))
    more = reports._more_of(ours, HERS, part(slice(150)))
    assert more == Part({0: CAMPAIGN.tally(ROWS[100:150])}).tallies
    assert reports._more_of(ours, HERS, part(slice(100))) is None  # the same
    assert reports._more_of(ours, HERS, part(slice(60))) is None  # an earlier one
    assert reports._more_of(ours, HERS, part(slice(50, 200))) is None  # without some of these


def test_a_tally_is_told_on_only_where_no_reports_stand_for_it() -> None:
    whole, later = part(slice(100)), part(slice(150))
    assert reports._is_told(known(), known(counted=later), HERS)
    assert not reports._is_told(known(), known(counted=later, held=later), HERS)  # reports tell it
    reduced = known(counted=part(slice(50)), held=whole)
    assert not reports._is_told(reduced, known(counted=later), HERS)
    assert reports._is_told(known(counted=whole), known(counted=later), HERS)
    assert not reports._is_told(known(counted=later), known(counted=whole), HERS)


def test_only_what_is_here_report_by_report_may_overlap() -> None:
    """Of such no report counts twice, whatever their sketches say."""
    hers, his = part(slice(100)), part(slice(50, 150))
    both = replace(known(counted=hers, held=hers), counted={HERS: hers, HIS: his})
    with pytest.raises(MismatchError, match="count twice"):
        reports._require_fitting(both, [HERS])
    with pytest.raises(MismatchError, match="count twice"):
        reports._require_fitting(both, [HIS])
    reports._require_fitting(replace(both, held={HERS: hers, HIS: his}), [HERS, HIS])
    mine = known(own=his, counted=hers, held=hers)
    reports._require_fitting(mine, [HERS])
    with pytest.raises(MismatchError, match="count twice"):
        reports._require_fitting(replace(mine, held={}), [HERS])


def test_tallies_under_another_key_are_refused(tmp_path: Path) -> None:
    mine = part(slice(20))
    with closing(open_store(tmp_path / "store.db")) as store:
        served = serve(store, CAMPAIGN)
        brought = {key: CampaignTallies(CAMPAIGN, {HERS: mine}, HERS, key) for key in ("", "ab")}
        for told in brought.values():
            with pytest.raises(MismatchError, match="share a key"):
                merge_tallies(store, served, told)
        store.set_merge_secret(OTHER_KEY)
        for key in ("", name_of(KEY)):
            with pytest.raises(MismatchError, match="share a key"):
                merge_tallies(store, served, replace(brought[""], key=key))
        merged = merge_tallies(store, served, replace(brought[""], key=name_of(OTHER_KEY)))
        assert merged.news == 1


def test_a_store_is_behind_where_others_have_more_of_it() -> None:
    ours, own = known(), part(slice(100))
    assert tallies._is_more(ours, part(slice(150)), own)
    assert tallies._is_more(ours, part(slice(50), slice(100, 120)), own)  # fewer, and others
    assert not tallies._is_more(ours, part(slice(100)), own)
    assert not tallies._is_more(ours, part(slice(60)), own)


def test_what_is_brought_overlaps_with_nothing_else() -> None:
    hers, his = part(slice(100)), part(slice(50, 150))
    for news in ({HERS: hers}, {HIS: his}):  # names before and after that of what is known
        (other,) = {HERS, HIS} - news.keys()
        ours = replace(known(), counted={other: his if other == HIS else hers})
        with pytest.raises(MismatchError, match="count twice"):
            tallies._later_ones(ours, NOBODY, news, other)
    with pytest.raises(MismatchError, match="count twice"):
        tallies._later_ones(known(), NOBODY, {HERS: hers, HIS: his}, HERS)
    apart = {HERS: hers, HIS: part(slice(100, 150))}
    assert tallies._later_ones(known(), NOBODY, apart, HERS) == apart


def test_of_two_parts_of_one_collector_the_later_contains_the_earlier() -> None:
    ours, whole = known(), part(slice(100))
    tallies.require_contained(ours, whole, part(slice(150)))
    tallies.require_contained(ours, whole, whole)
    alike = ROWS[(ROWS[0] == ROWS).all(axis=1)][:90]
    for other in (
        part(slice(50), slice(100, 130)),  # ids that are not in the larger
        Part({0: CAMPAIGN.tally(alike)}, sketched([IDS[: len(alike)]], KEY)),  # other answers
    ):
        for pair in ((whole, other), (other, whole)):
            with pytest.raises(MismatchError, match="have parted"):
                tallies.require_contained(ours, *pair)


TWO = """
name = "two"
purpose = "Two of three attributes."
epsilon = 2
sample = 2
""" + "".join(
    f'[[attributes]]\nname = "{name}"\nkind = "category"\nlabels = ["x", "y"]\n' for name in "abc"
)


def test_entries_without_the_others_of_their_reports_are_refused() -> None:
    campaign = campaign_of(TWO)
    ids, rows = made(campaign, 90)
    cells, sketch = campaign.tally(rows), sketched([ids], KEY)
    require_possible(campaign, Part({0: cells}, sketch))
    for place, cell in enumerate(campaign.frame.cells):
        without = (*cells[:place], cell.empty(), *cells[place + 1 :])
        with pytest.raises(MismatchError, match="so many entries"):
            require_possible(campaign, Part({0: without}, sketch))
