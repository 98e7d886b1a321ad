"""What a collector does with reports, however they came: count each once, durably.

`commit` takes a group of uploads and decides each report's fate in one transaction:

    received = stored + duplicate + refused(reason), at all times, crashes included.

Reports of a group are sorted by id, looked up, stored, counted into tallies and accounted for
together; when `commit` returns, all of it is on the disk.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from murmuration.campaign.survey import ONE_DEVICE, SurveyCampaign
from murmuration.collector.access.participants import counts_once
from murmuration.collector.files.sink import ToFolder
from murmuration.collector.publish import Served
from murmuration.collector.store import Store
from murmuration.collector.store.runs import picked
from murmuration.collector.training.rounds import Intake, take
from murmuration.exact.arrays import Ints
from murmuration.wire.ids import ID_BYTES, in_order
from murmuration.wire.report import (
    CODES,
    FINE,
    REASONS,
    Codes,
    Incoming,
    Upload,
    copy_first_outcome,
    joined,
)

DUPLICATE = CODES["duplicate"]
OUTCOMES = ("stored", *REASONS)
"""What can become of a report, by the code of its problem."""


@dataclass
class Batch:
    """One upload on its way to the store."""

    served: Served | Intake
    """The campaign that it is for, or the round of a training."""
    incoming: Incoming
    unreadable: int = 0
    """1 for a body that could not be read: it counts as one report, refused."""
    in_time: bool = True
    """Whether it arrived while the campaign was open."""
    periods: range | None = None
    """The periods that were open when it arrived; None: whatever they are."""
    token: bytes = b""
    """What the token that it came with is known by, where it is one for one device."""
    problems: Codes = field(default_factory=lambda: np.zeros(0, dtype=np.uint8))
    """After `commit`: what is wrong with each report, in the order of the upload; 0 is stored."""

    def __len__(self) -> int:
        return len(self.incoming)

    @property
    def weight(self) -> int:
        """Bytes of ids and rows, at most."""
        served = self.served
        form = served.round if isinstance(served, Intake) else served.campaign
        return len(self.incoming) * (ID_BYTES + form.row_bytes)

    @property
    def goes_to(self) -> tuple[int, int]:
        """The campaign that it is for, and of a training the round."""
        return self.served.key, self.served.number if isinstance(self.served, Intake) else 0


def commit(store: Store, group: Sequence[Batch], reports: ToFolder | None = None) -> None:
    """Decide the fate of every report of a group: one transaction, durable on return.

    With `reports`, rows of campaigns go there and not into the store; those of trainings stay.
    """
    by_campaign: dict[tuple[int, int], list[Batch]] = {}
    for batch in sorted(group, key=lambda batch: batch.incoming.columns is not None):
        by_campaign.setdefault(batch.goes_to, []).append(batch)
    uploads = [_checked(batches) for batches in by_campaign.values()]
    with store.transaction():
        if reports is not None:
            reports.begin(store)
        found = [
            _commit_campaign(store, batches, upload, reports)
            for batches, upload in zip(by_campaign.values(), uploads, strict=True)
        ]
        end = 0 if reports is None else reports.write(store)
    if reports is not None:
        reports.committed(end)
    # Only now is it true: a transaction that failed has made no report a duplicate.
    for batches, decided in zip(by_campaign.values(), found, strict=True):
        ends = np.cumsum([len(batch) for batch in batches])[:-1]
        for batch, problems in zip(batches, np.split(decided, ends), strict=True):
            batch.problems = problems


def _checked(batches: Sequence[Batch]) -> Upload:
    """Put one campaign's uploads together and check them."""
    served, incoming = batches[0].served, [batch.incoming for batch in batches]
    if isinstance(served, Intake):
        upload = served.marked(joined(served.round, incoming, served.past))
    else:
        upload = joined(served.campaign, incoming, served.older)
    late = np.array([not batch.in_time for batch in batches])
    if late.any():
        each = np.repeat(late, [len(batch) for batch in batches])
        upload = upload.refusing(each, "outside-window")
    if served.campaign.terms.upload == ONE_DEVICE:
        sizes = np.array([len(batch) for batch in batches])
        alone = np.array([bool(batch.token) for batch in batches]) & (sizes == 1)
        upload = upload.refusing(np.repeat(~alone, sizes), "token-used")
    if isinstance(served, Intake) or served.campaign.every is None:
        return upload
    return _of_open_periods(served.campaign, batches, upload)


def _of_open_periods(campaign: SurveyCampaign, batches: Sequence[Batch], upload: Upload) -> Upload:
    """Refuse reports of periods that were over, or had not begun, when they arrived."""
    everything = range(1 << 32)
    windows = [everything if one.periods is None else one.periods for one in batches]
    sizes = [len(batch) for batch in batches]
    first = np.repeat([window.start for window in windows], sizes)
    end = np.repeat([window.stop for window in windows], sizes)
    fine, periods = upload.problems == FINE, campaign.periods_of(upload.rows)
    wrong = np.zeros(len(upload), dtype=bool)
    wrong[fine] = (periods < first[fine]) | (periods >= end[fine])
    return upload.refusing(wrong, "wrong-period") if wrong.any() else upload


def _commit_campaign(
    store: Store, batches: Sequence[Batch], upload: Upload, reports: ToFolder | None
) -> Codes:
    """Store one campaign's reports and account for them; return their problems with duplicates.

    The upload is left as it was: it may have to be tried again.
    """
    served = batches[0].served
    owns = _owns(batches, upload) if served.campaign.terms.upload == ONE_DEVICE else []
    if isinstance(served, Intake):
        problems = take(store, served, upload, owns)
    else:
        problems = _take(store, served, upload, owns, reports)
    unreadable = sum(batch.unreadable for batch in batches)
    store.add_counts(served.campaign.name, outcomes(problems, unreadable))
    return problems


def _owns(batches: Sequence[Batch], upload: Upload) -> list[bytes]:
    """Return what the token of each report that may count is known by."""
    tokens = [batch.token for batch in batches for _ in range(len(batch))]
    return [tokens[place] for place in np.flatnonzero(upload.problems == FINE).tolist()]


def _take(
    store: Store, served: Served, upload: Upload, owns: Sequence[bytes], reports: ToFolder | None
) -> Codes:
    """Store a campaign's reports and add them to its tallies; return all problems."""
    problems, ids, rows = upload.problems.copy(), upload.ids, upload.rows
    fine = np.flatnonzero(problems == FINE)
    order, first = in_order(ids)
    chosen = order[first]
    if owns:
        chosen, refused = _once(store, served, owns, upload, chosen)
        for reason, which in refused.items():
            problems[fine[which]] = CODES[reason]
    elsewhere = reports is not None
    kept = rows if served.campaign.terms.keep_reports and not elsewhere else rows[:, :0]
    mine = picked(ids, chosen), picked(kept, chosen)
    new = chosen[store.add_reports(served.key, *mine, elsewhere=elsewhere)]
    counted = picked(rows, new)
    store.add_tallies(served.key, served.campaign.counted(counted))
    if reports is not None:
        reports.add(served.campaign, picked(ids, new), counted)
    if len(new):
        store.note_hour(served.key)
    again = problems[fine] == FINE
    again[new] = False
    problems[fine[again]] = DUPLICATE
    problems[fine] = copy_first_outcome(problems[fine], order, first)
    return problems


def _once(
    store: Store, served: Served, owns: Sequence[bytes], upload: Upload, chosen: Ints
) -> tuple[Ints, dict[str, Ints]]:
    """Leave the first report of each token in each period; say why others are refused.

    One that is stored already is a duplicate, and uses nothing up.
    """
    known = store.known_reports(served.key, picked(upload.ids, chosen))
    arrived = np.sort(chosen[~known])  # in this order: the first one counts
    campaign = served.campaign
    periods = np.zeros(len(arrived), dtype=np.int64)
    if campaign.every is not None:
        periods = campaign.periods_of(upload.rows[arrived])
    mine = [owns[place] for place in arrived.tolist()]
    first, closed = counts_once(store, served.key, mine, periods)
    late = "outside-window" if campaign.every is None else "wrong-period"
    kept = np.zeros(len(upload.ids), dtype=bool)
    kept[arrived[first]] = True
    refused = {late: arrived[closed], "token-used": arrived[~first & ~closed]}
    return chosen[kept[chosen]], refused


def refuse(store: Store, campaign: str, reason: str) -> None:
    """Count a body that is refused as a whole: it counts as one report."""
    with store.transaction():
        store.add_counts(campaign, {reason: 1, "received": 1})


def outcomes(problems: Codes, unreadable: int) -> Counter[str]:
    """Count what became of reports; "received" is counted apart, so that it can be checked."""
    found = np.bincount(problems, minlength=len(OUTCOMES)).tolist()
    counts = Counter({outcome: n for outcome, n in zip(OUTCOMES, found, strict=True) if n})
    if unreadable:
        counts["malformed"] += unreadable
    counts["received"] = len(problems) + unreadable
    return counts
