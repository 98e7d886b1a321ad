"""The store against a few lines of Python that say what it must hold, over random histories."""

import shutil
import tempfile
from collections import Counter
from dataclasses import dataclass, field

import msgspec
import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from murmuration.campaign.survey import SurveyCampaign
from murmuration.collector.commit import OUTCOMES, Batch, commit
from murmuration.collector.merging.key_file import take_key
from murmuration.collector.merging.known import exported, total
from murmuration.collector.merging.tallies import merge_tallies
from murmuration.collector.publish import serve
from murmuration.collector.store import StoreError, open_store
from murmuration.counting.container import CampaignTallies, Part
from murmuration.counting.sketch import name_of, sketched
from murmuration.errors import MismatchError
from murmuration.mechanisms.tally import Tally
from murmuration.wire import report
from tests.support.accounts import COMMUTE, as_rows, audited, campaign_of, commute, made

CAMPAIGNS = (
    commute(),
    campaign_of(
        COMMUTE.replace("cohort = 100", "cohort = 200")
    ),  # another version, the same digest
    campaign_of(COMMUTE.replace("epsilon = 2.0", "epsilon = 1.0")),
    campaign_of(COMMUTE + "\n[[attributes]]\nname = 'cost'\nlow = 0\nhigh = 50\n"),
)
VERSIONS = tuple({campaign.digest: campaign for campaign in CAMPAIGNS}.values())
POOL = {campaign.digest: made(campaign, 400, seed) for seed, campaign in enumerate(VERSIONS)}
KEY = bytes(32)
SOURCES = {name: made(commute(), 50, seed)[0] for seed, name in ((8, "0" * 16), (9, "1" * 16))}
"""Other collectors, by name: the ids of their reports."""

SPOILED = {
    "malformed": {"entries": "no list"},
    "unknown-digest": {"digest": "0" * 64},
    "unknown-wire": {"wire": 7},
    "bad-id": {"id": "xyz"},
    "bad-entries": {"entries": [[0]]},
}
"""For each reason, what makes a report so."""


@dataclass
class Model:
    """What a collector must remember."""

    rows: dict[str, dict[bytes, bytes]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    merged: dict[tuple[str, str], int] = field(default_factory=dict)
    published: list[tuple[str, int]] = field(default_factory=list)
    """Digest and cohort of each version."""


kinds_of_report = st.sampled_from(["fresh", "fresh", "known", "known", "superseded", *SPOILED])
uploads = st.tuples(
    st.sampled_from(["list", "list", "columns", "columns", "old columns", "unreadable"]),
    st.lists(st.tuples(kinds_of_report, st.integers(0, 30)), max_size=12),
    st.booleans() | st.just(True),
)


class Ingest(RuleBasedStateMachine):
    """One collector and its store: groups of uploads, restarts, new versions, merges."""

    @initialize()
    def begin(self) -> None:
        self.patch = pytest.MonkeyPatch()
        for name, value in {"BLOCK": 3, "TIERS": (4, 16, 64), "MERGED": 3}.items():
            self.patch.setattr(f"murmuration.collector.store.runs.{name}", value)
        self.folder = tempfile.mkdtemp()
        self.model, self.fresh = Model(), 100
        self.store = open_store(f"{self.folder}/store.db")
        take_key(self.store, KEY)
        self.publish(0)

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            shutil.rmtree(self.folder)
            self.patch.undo()

    # --- what happens ----------------------------------------------------------------------------

    @rule(which=st.integers(0, len(CAMPAIGNS) - 1))
    def publish(self, which: int) -> None:
        campaign, published = CAMPAIGNS[which], self.model.published
        self.served = serve(self.store, campaign)
        if published[-1:] != [(campaign.digest, campaign.terms.cohort)]:
            published.append((campaign.digest, campaign.terms.cohort))
        assert self.served.version == len(published)
        assert self.served.older == {digest for digest, _ in published} - {campaign.digest}

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = open_store(f"{self.folder}/store.db")

    @rule(group=st.lists(uploads, min_size=1, max_size=4), fails=st.integers(0, 4))
    def commit(self, group: list[tuple[str, list[tuple[str, int]], bool]], fails: int) -> None:
        made = [self._batch(*upload) for upload in group]
        batches = [batch for batch, _ in made]
        if fails == 0:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(self.store, "add_counts", _fail)
                with pytest.raises(StoreError, match="a test"):
                    commit(self.store, batches)
            self.as_the_model_says()
        commit(self.store, batches)
        self._account(made)

    @rule(source=st.sampled_from(sorted(SOURCES)), people=st.integers(0, 50), again=st.booleans())
    def merge(self, source: str, people: int, again: bool) -> None:
        campaign, known = self.campaign, self.model.merged.get((self.campaign.digest, source))
        tallies = campaign.form.tallies(POOL[campaign.digest][1][:people])
        mine = self.store.collector_name()
        parts = {
            source: Part(tallies, sketched([SOURCES[source][:people]], KEY)),
            mine: exported(self.store, campaign).parts[mine],
        }
        told = CampaignTallies(campaign, parts, source, name_of(KEY))
        if known is not None and people < known:
            with pytest.raises(MismatchError, match="a later tally"):
                merge_tallies(self.store, self.served, told)
            return
        for news in (people != known, False) if again else (people != known,):
            sent = CampaignTallies.from_bytes(told.to_bytes(), campaign)
            assert merge_tallies(self.store, self.served, sent).news == news
        self.model.merged[campaign.digest, source] = people

    # --- uploads ---------------------------------------------------------------------------------

    @property
    def campaign(self) -> SurveyCampaign:
        return self.served.campaign

    def _batch(
        self, form: str, reports: list[tuple[str, int]], in_time: bool
    ) -> tuple[Batch, list[tuple[str, int]]]:
        """An upload, and for each report why it is refused ("": it is not), and its place."""
        if form == "unreadable":
            return Batch(self.served, report.Incoming([]), unreadable=1), []
        places = [self._place(kind, number) for kind, number in reports]
        if form == "list":
            body, expected = self._listed([kind for kind, _ in reports], places)
        else:
            body, expected = self._columns(form, [kind for kind, _ in reports], places)
        kind = report.JSON if form == "list" else report.BINARY
        incoming = report.decode(self.campaign.form, body, kind, self.served.older)
        late = [(reason or ("" if in_time else "outside-window"), p) for reason, p in expected]
        return Batch(self.served, incoming, in_time=in_time), late

    def _place(self, kind: str, number: int) -> int:
        """Where in the pool a report is: a new place, or one of the first, which come again."""
        if kind != "fresh":
            return number
        self.fresh += 1
        return 100 + self.fresh % 300

    def _listed(self, kinds: list[str], places: list[int]) -> tuple[bytes, list[tuple[str, int]]]:
        ids, rows = POOL[self.campaign.digest]
        found, expected = [], []
        for kind, place in zip(kinds, places, strict=True):
            one = slice(place, place + 1)
            sent = msgspec.json.decode(report.to_json(self.campaign.form, ids[one], rows[one]))
            spoiled = dict(SPOILED.get(kind, {}))
            reason = kind if kind in SPOILED else ""
            if kind == "superseded" and self.served.older:
                spoiled, reason = {"digest": min(self.served.older)}, "superseded"
            found.append({**sent, **spoiled})
            expected.append((reason, place))
        return msgspec.json.encode(found), expected

    def _columns(
        self, form: str, kinds: list[str], places: list[int]
    ) -> tuple[bytes, list[tuple[str, int]]]:
        """Columns are for one digest; a report in them can only be bad by its bytes."""
        ids, rows = POOL[self.campaign.digest]
        mine, bad = rows[places].copy(), np.array([kind in SPOILED for kind in kinds], dtype=bool)
        mine[bad, 0] = 200
        body = report.to_binary(self.campaign.form, ids[places], mine)
        reasons = np.where(bad, "bad-symbol", "").tolist()
        if form == "old columns" and self.served.older:
            old = bytes.fromhex(min(self.served.older))
            body = body.replace(bytes.fromhex(self.campaign.digest), old, 1)
            reasons = ["superseded"] * len(places)
        return body, list(zip(reasons, places, strict=True))

    def _account(self, made: list[tuple[Batch, list[tuple[str, int]]]]) -> None:
        """Compare what commit says with the model, then let the model follow."""
        ids, rows = POOL[self.campaign.digest]
        known = self.model.rows.setdefault(self.campaign.digest, {})
        stored: Counter[bytes] = Counter()
        fine: set[bytes] = set()
        in_time = {
            *known,
            *(
                ids[place].tobytes()
                for _, expected in made
                for reason, place in expected
                if not reason
            ),
        }
        for batch, expected in made:
            outcomes = [OUTCOMES[code] for code in batch.problems.tolist()]
            for outcome, (reason, place) in zip(outcomes, expected, strict=True):
                each = ids[place].tobytes()
                if reason:
                    counts = reason == "outside-window" and each in in_time
                    assert outcome == ("duplicate" if counts else reason)
                    continue
                fine.add(each)
                assert outcome in ("stored", "duplicate")
                stored[each] += outcome == "stored"
            self.model.counts.update([*outcomes, *["malformed"] * batch.unreadable])
            self.model.counts["received"] += len(expected) + batch.unreadable
        assert {each: stored[each] for each in fine} == {each: each not in known for each in fine}
        for place, each in enumerate(map(bytes, ids)):
            if stored[each]:
                known[each] = rows[place].tobytes()

    # --- what must hold --------------------------------------------------------------------------

    @invariant()
    def as_the_model_says(self) -> None:
        if not hasattr(self, "served"):
            return
        found = audited(self.store, *VERSIONS)
        assert +Counter(found.counts) == +self.model.counts
        for campaign in VERSIONS:
            mine = self.model.rows.get(campaign.digest, {})
            parts = [campaign.tally(as_rows(campaign, list(mine.values())))]
            parts += [
                campaign.tally(POOL[digest][1][:n])
                for (digest, _), n in self.model.merged.items()
                if digest == campaign.digest
            ]
            expected = tuple(Tally.merge(cell) for cell in zip(*parts, strict=True))
            assert total(self.store, campaign) == expected
        assert found.rows == {
            i: row for mine in self.model.rows.values() for i, row in mine.items()
        }


def _fail(*given: object) -> None:
    raise StoreError("this is a test")


Ingest.TestCase.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
TestIngest = pytest.mark.slow(Ingest.TestCase)
