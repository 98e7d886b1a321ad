"""What a collector does with reports, however they came: count each once, durably.

`commit` takes a group of uploads and decides each report's fate in one transaction:

    received = stored + duplicate + refused(reason), at all times, crashes included.

Reports of a group are sorted by id, looked up, stored, counted into tallies and accounted for
together; when `commit` returns, all of it is on the disk. A report that was counted before is a
duplicate, also where it comes too late now: a device that sends it again, as its answer was lost,
has to know that it counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from murmuration.campaign.terms import ONE_DEVICE
from murmuration.collector.files.sink import ToFolder
from murmuration.collector.served import Intake
from murmuration.collector.store import Store
from murmuration.collector.store.runs import picked
from murmuration.exact.arrays import Ints
from murmuration.wire.ids import ID_BYTES, Ids, in_order
from murmuration.wire.report import (
    CODES,
    EARLY,
    FINE,
    REASONS,
    Codes,
    Incoming,
    Upload,
    joined,
)

DUPLICATE = CODES["duplicate"]
Mask = NDArray[np.bool_]
OUTCOMES = ("stored", *REASONS)
"""What can become of a report, by the code of its problem."""
UNTIMELY = [CODES[reason] for reason in ("outside-window", "wrong-period", EARLY)]


@dataclass
class Batch:
    """One upload on its way to the store."""

    intake: Intake
    """What it is for."""
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
        return len(self.incoming) * (ID_BYTES + self.intake.form.row_bytes)

    @property
    def goes_to(self) -> tuple[int, int]:
        """The campaign that it is for, and of a training the round."""
        return self.intake.key, self.intake.number


def commit(store: Store, group: Sequence[Batch], reports: ToFolder | None = None) -> None:
    """Decide the fate of every report of a group: one transaction, durable on return.

    With `reports`, rows of campaigns go there and not into the store; those of trainings stay.
    """
    by_intake: dict[tuple[int, int], list[Batch]] = {}
    for batch in sorted(group, key=lambda batch: batch.incoming.columns is not None):
        by_intake.setdefault(batch.goes_to, []).append(batch)
    checked = [_checked(batches) for batches in by_intake.values()]
    with store.transaction():
        if reports is not None:
            reports.begin(store)
        codes = [
            _commit_intake(store, batches, each, reports)
            for batches, each in zip(by_intake.values(), checked, strict=True)
        ]
        end = 0 if reports is None else reports.write(store)
    if reports is not None:
        reports.committed(end)
    # Only now is it true: a transaction that failed has made no report a duplicate.
    for batches, decided in zip(by_intake.values(), codes, strict=True):
        ends = np.cumsum([len(batch) for batch in batches])[:-1]
        for batch, problems in zip(batches, np.split(decided, ends), strict=True):
            batch.problems = problems


@dataclass(frozen=True)
class _Checked:
    """The uploads for one intake, put together and checked."""

    upload: Upload
    places: Ints
    """Which of all reports are refused for the time at which they came."""
    ids: Ids
    """Their ids."""


def _checked(batches: Sequence[Batch]) -> _Checked:
    """Put the uploads for one intake together and check them."""
    intake, incoming = batches[0].intake, [batch.incoming for batch in batches]
    whole = joined(intake.form, incoming, intake.older)
    upload = whole = whole.renaming("superseded", intake.outdated)
    for reason, which in _refusals(batches, whole):
        upload = upload.refusing(which, reason)
    fine = np.flatnonzero(whole.problems == FINE)
    refused = np.flatnonzero(np.isin(upload.problems[fine], UNTIMELY))
    return _Checked(upload, fine[refused], picked(whole.ids, refused))


def _refusals(batches: Sequence[Batch], upload: Upload) -> Iterator[tuple[str, Mask]]:
    """Yield reasons that follow from when and how reports came, and for which of all reports."""
    intake, sizes = batches[0].intake, [len(batch) for batch in batches]
    late = np.array([not batch.in_time for batch in batches])
    if late.any():
        yield "outside-window", np.repeat(late, sizes)
    if intake.campaign.terms.upload == ONE_DEVICE:
        alone = [bool(batch.token) and len(batch) == 1 for batch in batches]
        yield "token-used", ~np.repeat(alone, sizes)
    if intake.form.every is not None:
        yield from _outside_periods(intake, batches, upload)


def _outside_periods(
    intake: Intake, batches: Sequence[Batch], upload: Upload
) -> Iterator[tuple[str, Mask]]:
    """Yield reports of periods that were over when they arrived, or, for now, had not begun."""
    everything = range(1 << 32)
    windows = [everything if batch.periods is None else batch.periods for batch in batches]
    sizes = [len(batch) for batch in batches]
    first = np.repeat([window.start for window in windows], sizes)
    end = np.repeat([window.stop for window in windows], sizes)
    fine, periods = upload.problems == FINE, intake.form.periods_of(upload.rows)
    over, early = np.zeros((2, len(upload)), dtype=bool)
    over[fine], early[fine] = periods < first[fine], periods >= end[fine]
    yield "wrong-period", over
    yield EARLY, early


def _acknowledged(store: Store, intake: Intake, checked: _Checked, problems: Codes) -> Codes:
    """Say of reports that came too late, and are counted, that they are duplicates.

    Once the others of their group are stored: theirs may be among them.
    """
    past = np.flatnonzero(checked.upload.problems == CODES[intake.outdated])
    problems = problems.copy()
    for places, ids, keys in (
        (past, checked.upload.past, intake.keys_of_older),
        (checked.places, checked.ids, lambda _: [intake.key]),
    ):
        if len(ids):
            problems[places[_counted(store, keys(store), ids)]] = DUPLICATE
    return problems


def _counted(store: Store, keys: Sequence[int], ids: Ids) -> Mask:
    """Tell which ids are those of reports that are stored under one of several numbers."""
    order, first = in_order(ids)
    distinct, known = picked(ids, order[first]), np.zeros(len(ids), dtype=bool)
    for key in keys:
        known[order] |= store.known_reports(key, distinct)[np.cumsum(first) - 1]
    return known


def _commit_intake(
    store: Store, batches: Sequence[Batch], checked: _Checked, reports: ToFolder | None
) -> Codes:
    """Store the reports for one intake and account for them; return their problems and duplicates.

    What was found is left as it was: it may have to be tried again.
    """
    intake = batches[0].intake
    one_device = intake.campaign.terms.upload == ONE_DEVICE
    tokens = _tokens(batches, checked.upload) if one_device else []
    problems = intake.take(store, checked.upload, tokens, reports)
    problems = _acknowledged(store, intake, checked, problems)
    unreadable = sum(batch.unreadable for batch in batches)
    store.add_counts(intake.campaign.name, outcomes(problems, unreadable))
    return problems


def _tokens(batches: Sequence[Batch], upload: Upload) -> list[bytes]:
    """Return what the token of each report that may count is known by."""
    tokens = [batch.token for batch in batches for _ in range(len(batch))]
    return [tokens[place] for place in np.flatnonzero(upload.problems == FINE).tolist()]


def refuse(store: Store, campaign: str, reason: str) -> None:
    """Count a body that is refused as a whole: it counts as one report."""
    with store.transaction():
        store.add_counts(campaign, {reason: 1, "received": 1})


def outcomes(problems: Codes, unreadable: int) -> Counter[str]:
    """Count what became of reports; "received" is counted apart, so that it can be checked."""
    by_code = np.bincount(problems, minlength=len(OUTCOMES)).tolist()
    counts = Counter({outcome: n for outcome, n in zip(OUTCOMES, by_code, strict=True) if n})
    if unreadable:
        counts["malformed"] += unreadable
    counts["received"] = len(problems) + unreadable
    return counts
