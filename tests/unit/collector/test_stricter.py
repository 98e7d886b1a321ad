"""Reports for people who may see less: what they tell is exact, and exports never add up."""

from __future__ import annotations

import json
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from murmuration import mechanism, seeded_rng
from murmuration.campaign.stricter import PURPOSE, Stricter
from murmuration.campaign.survey import SurveyCampaign
from murmuration.collector.commit import Batch, commit
from murmuration.collector.files import export
from murmuration.collector.merging.key_file import shared_key, take_key
from murmuration.collector.publish import serve
from murmuration.collector.store import open_store
from murmuration.errors import ParameterError
from murmuration.exact.arrays import Rows
from murmuration.exact.keyed import Key
from murmuration.exact.randomness import WHOLE
from murmuration.mechanisms.chain import CHAIN, step_below, way_down
from murmuration.mechanisms.number.converted_number import ConvertedNumber
from murmuration.wire.ids import Ids, new_ids
from murmuration.wire.report import Incoming, Upload
from tests.support.accounts import campaign_of
from tests.support.command import murmur

HEAD = 'name = "{}"\npurpose = "For a test."\nepsilon = 2.0\npeople = 5000\ncohort = 100\n'
ASKED = """
[[attributes]]
name = "minutes"
low = 0
high = 120
mechanism = "{}"
[[attributes]]
name = "mode"
kind = "category"
labels = ["walk", "bicycle", "bus", "car"]
mechanism = "{}"
"""
SAMPLED = HEAD.format("sampled") + ASKED.format("optimal", "grr")
SPLIT = HEAD.format("split") + 'strategy = "split"\n' + ASKED.format("duchi", "oue")
LEVELS = (
    HEAD.format("levels") + "[levels]\nhigh = 0.2\nlow = 1\n" + ASKED.format("piecewise", "subset")
)
TEXTS = {"sampled": SAMPLED, "split": SPLIT, "levels": LEVELS}
SECRET = bytes(range(32))


def made(campaign: SurveyCampaign, n: int, seed: int) -> tuple[Ids, Rows]:
    """Ids and reports of n people, half of them at each level."""
    rng = seeded_rng(seed)
    answers = {"minutes": [30.0] * n, "mode": (["bus", "car"] * n)[:n]}
    levels = None if campaign.levels is None else np.arange(n) % 2
    return new_ids(n, rng), campaign.privatize(campaign.encode(answers, rng), rng, levels)


def filled(url: str, text: str, n: int) -> None:
    campaign = campaign_of(text)
    ids, rows = made(campaign, n, 1)
    with closing(open_store(url)) as store:
        served = serve(store, campaign)
        commit(store, [Batch(served, Incoming([], Upload(ids, rows, np.zeros(n, np.uint8))))])


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_the_converted_campaign_is_audited_and_read_as_any_other(text: str, tmp_path: Path) -> None:
    filled(str(tmp_path / "a.db"), text, 4000)
    out = tmp_path / "out.parquet"
    done = murmur("export", str(tmp_path / "a.db"), str(out), "--at-most", "0.6", "--json")
    told = json.loads(done.stdout)
    campaign = export.campaign_of(out)
    assert (told["written"], told["epsilon"], told["digest"]) == (4000, 0.5, campaign.digest)
    assert 0.49 < told["loss"] <= 0.5
    assert campaign.loss().epsilon == told["loss"]
    assert all(law.loss().holds for law in campaign.frame.cells)
    read = list(export.rows(out))
    ids = np.concatenate([ids for ids, _ in read])
    assert [*map(bytes, ids)] == sorted(map(bytes, ids))
    tallies = campaign.tally(np.concatenate([rows for _, rows in read]))
    sent = campaign_of(text)
    before, after = made(sent, 4000, 1)
    assert not {*map(bytes, before)} & {*map(bytes, ids)}
    for law, tally, own in zip(campaign.frame.cells, tallies, sent.tally(after), strict=True):
        found, first = law.estimate(tally), own.mechanism.estimate(own)
        assert tally.n == own.n
        error = np.hypot(found.stderr, first.stderr)
        assert np.abs(np.asarray(found.value - first.value) / error).max() < 4.5


def test_levels_that_tell_less_already_stay() -> None:
    stricter = Stricter.at_most(campaign_of(LEVELS), 0.5)
    names = [law.name for law in stricter.converted.frame.cells]
    assert names == ["piecewise", "converted-number", "subset", "converted"]
    assert stricter.converted.levels is not None
    assert stricter.converted.levels.budgets(0.5) == (0.4, 0.5)


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_conversions_form_a_chain(text: str) -> None:
    """The one to .25 follows from the one to .5 alone, so both tell what that one tells."""
    campaign = campaign_of(text)
    ids, rows = made(campaign, 3000, 2)
    half, quarter = (Stricter.at_most(campaign, epsilon) for epsilon in (0.5, 0.25))
    first_ids, first = half.reports(SECRET, ids, rows)
    again_ids, again = half.reports(SECRET, ids[::-1], rows[::-1])
    assert (first == again[::-1]).all()  # the same again, whoever else is converted
    assert (first_ids == again_ids[::-1]).all()
    second_ids, second = quarter.reports(SECRET, ids, rows)
    assert not {*map(bytes, first_ids)} & {*map(bytes, second_ids)}
    assert (half.reports(bytes(32), ids, rows)[1] != first).any()
    steps = way_down(0.5, 0.25)[1:]
    assert steps == (0.375, 0.25)
    keys = Key(SECRET).each(PURPOSE, campaign.digest, ids)
    frame = quarter.converted.frame
    parts = zip(frame.entries(first), frame.entries(second), strict=True)
    for entry, ((cells, octets), (_, wanted)) in enumerate(parts):
        for cell in np.unique(cells).tolist():
            law, who = frame.cells[cell], np.flatnonzero(cells == cell)
            found = law.from_rows(octets[who, : law.report_bytes])
            taken = len(half.converted.frame.cells[cell].law().get("keep", []))
            for place, step in enumerate(steps, start=taken):
                rng = keys.only(who).rng("step", repr(step), str(entry))
                found = law.convert(found, place, rng)
            assert (law.to_rows(found) == wanted[who, : law.report_bytes]).all()


def test_two_exports_of_a_report_tell_what_one_tells() -> None:
    """Every pair of reports, counted: P(at .5, at .25 | x) / P(... | x') is that of the first."""
    law = ConvertedNumber.of(mechanism("piecewise", epsilon=1.0), (1.0, 0.75, 0.5))
    more = ConvertedNumber.of(mechanism("piecewise", epsilon=1.0), (1.0, 0.75, 0.5, 0.375, 0.25))
    assert more.walked[:2] == law.walked
    table, start, total = law.source.design.weights.tolist(), law.walked, WHOLE
    rows = [[Fraction(w, total) for w in row] for row in (table[0], table[-1])]
    for keep, blank in start:
        rows = [
            [Fraction(keep, WHOLE) * w + Fraction((WHOLE - keep) * b, WHOLE**2) for w, b in pair]
            for pair in (list(zip(row, blank, strict=True)) for row in rows)
        ]
    assert all(sum(row) == 1 for row in rows)
    worst = max(max(a / b, b / a) for a, b in zip(*rows, strict=True))
    assert worst == law.loss().ratio


def test_the_price_of_having_been_sent_at_a_larger_epsilon() -> None:
    for name, most in (("subset", 1.63), ("olh", 1.63), ("grr", 1.0001), ("oue", 1.0001)):
        law = mechanism("converted", epsilon=0.5, k=24, inner=name, steps=(2.0, 1.5, 1.0, 0.75))
        own = mechanism(name, epsilon=0.5, k=24)
        assert law.total_variance() / own.total_variance() < most
    numbers = {"inner": "optimal", "steps": (2.0, 1.5, 1.0, 0.75)}
    law, own = mechanism("converted-number", epsilon=0.5, **numbers), mechanism("optimal", 0.5)
    assert law.worst_variance() / own.worst_variance() < 1.25


def test_the_key_of_an_export_stays(tmp_path: Path) -> None:
    """Under another key the same report would get other noise, and two exports would average."""
    url = str(tmp_path / "a.db")
    filled(url, SAMPLED, 50)
    with closing(open_store(url)) as store:
        take_key(store, SECRET)
    murmur("export", url, str(tmp_path / "x.parquet"), "--at-most", "1")
    with closing(open_store(url)) as store:
        assert shared_key(store) == SECRET
        take_key(store, SECRET)
        with pytest.raises(ParameterError, match="averages out"):
            take_key(store, bytes(32))


def test_what_is_not_converted(tmp_path: Path) -> None:
    numbers = '[[attributes]]\nname = "a"\nlow = 0\nhigh = 1\n'
    again = HEAD.format("again") + "[repeat]\nrounds = 4\npermanent = 4.0\n" + numbers
    missing = HEAD.format("missing") + numbers + "missing = true\n"
    ranges = HEAD.format("ranges") + (
        '[[attributes]]\nname = "a"\nkind = "graded"\nlow = 0\nhigh = 1\nedges = [0.5]\n'
        "budgets = [2.0, 0.5]\n"
    )
    labels = HEAD.format("labels") + (
        '[[attributes]]\nname = "a"\nkind = "category"\nlabels = ["x", "y", "z"]\n'
        "budgets = [2.0, 2.0, 0.5]\n"
    )
    together = HEAD.format("tuple") + 'strategy = "harmony"\n' + ASKED.replace("mechanism", "#")
    for text, why in (
        (again, "asks again"),
        (missing, "cannot be converted"),
        (together, "cannot be converted"),
        (ranges, "budgets of their own"),
        (labels, "budgets of their own"),
    ):
        with pytest.raises(ParameterError, match=why):
            Stricter.at_most(campaign_of(text), 0.5)
    with pytest.raises(ParameterError, match="as they are"):
        Stricter.at_most(campaign_of(SAMPLED), 2)
    with pytest.raises(ParameterError, match=r"converted to 0\.00"):
        Stricter.at_most(campaign_of(SAMPLED), 0.0015)
    url = str(tmp_path / "a.db")
    filled(url, SAMPLED, 10)
    folder = murmur("export", url, str(tmp_path / "folder"), "--at-most", "1", code=2)
    assert "one file" in folder.stderr + folder.stdout
    empty = str(tmp_path / "b.db")
    with closing(open_store(empty)) as store:
        serve(store, campaign_of(SAMPLED))
    nothing = murmur("export", empty, str(tmp_path / "o.parquet"), "--at-most", "1", code=2)
    assert "no reports" in nothing.stderr + nothing.stdout


def test_the_chain() -> None:
    assert list(CHAIN) == sorted(CHAIN, reverse=True)
    assert [step_below(epsilon) for epsilon in (20, 0.6, 0.5, 1 / 512)] == [16, 0.5, 0.5, 1 / 512]
    for bad in ((0.4,), (1.0, 1.0), (1.0, 2.0), 3):
        with pytest.raises(ParameterError, match="steps"):
            mechanism("converted", epsilon=0.5, k=3, steps=bad)
