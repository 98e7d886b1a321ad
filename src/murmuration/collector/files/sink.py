"""Reports that go straight to a folder: to a log with each commit, to Parquet parts later.

A commit writes the new reports of a group to a log (`log.py`), synced, and notes in its transaction
up to where the log counts; uploads are answered after both. What a failed commit has left in the
log is cut away before anything is added: the store says whether it counts, even if the answer to
COMMIT was lost.

A log is sealed when it is large, when its hour is over, or when the collector ends: its reports are
sorted by id and written as parts (`folder.py`), it is renamed, the store forgets it, and it is
removed. A part's name has the log's, so a log that is sealed again after a crash makes no part
twice. A collector that starts takes over the logs of its store that nobody holds.

Groups beyond what the store counts were never acknowledged: at most one, of a collector that was
killed between the log and the store, and it is dropped. If there are more, the store has gone back
(an old copy was put in its place): the log is kept aside, and nothing in it is counted.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

import numpy as np

from murmuration.campaign.survey import SurveyCampaign, utc_now
from murmuration.campaign.terms import Terms
from murmuration.collector.files import folder
from murmuration.collector.files.log import EMPTY, ENDING, FOLDER, SEALED, Log, sweep, taken
from murmuration.collector.served import Served
from murmuration.collector.store import Store, StoreError
from murmuration.collector.store.base import HOUR
from murmuration.collector.store.runs import picked
from murmuration.definition import document as campaign_document
from murmuration.errors import FormatError, MurmurationError, ParameterError
from murmuration.exact.arrays import Rows
from murmuration.wire import parquet
from murmuration.wire.ids import Ids, in_order

log = logging.getLogger("murmuration.collector")

MOST_BYTES = 64 << 20
"""A log that is larger is sealed."""
ASIDE = ".aside"
"""The ending of a log that is for its owner to look at."""


class ToFolder:
    """Where a collector's reports go, if not into its store. Used by the thread that commits.

    Only `seal` may run in another one, on a log that waits for it.
    """

    def __init__(self, path: Path, store: Store, served: Sequence[Served[SurveyCampaign]]) -> None:
        check(path, {one.campaign.name: one.campaign.terms for one in served})
        self.path, self._name = path, store.collector_name()
        self._log: Log | None = None
        self._hour = 0
        self._doubtful = False
        """Whether it is not known if the last write counts."""
        self._places = {
            one.campaign.digest: folder.described(path, one.campaign, one.document)
            for one in served
        }
        self.sealing = self._left_behind(store)
        """Logs that wait for `seal`."""

    # --- committing ------------------------------------------------------------------------------

    def begin(self, store: Store, now: datetime | None = None) -> None:
        """Inside a transaction: make sure that there is a log, which ends where the store says."""
        now = now or utc_now()
        if self._log is not None:
            self._settle(store, self._log)
            if self._is_over(self._log, now):
                self._put_away(self._log)
        if self._log is None:
            self._log, self._hour = Log.new(self.path / FOLDER, self._name, now), _hour(now)

    def add(self, digest: str, ids: Ids, rows: Rows) -> None:
        """Inside a transaction: take reports that are counted in it."""
        if len(ids):
            self._open().add(digest, ids, rows)

    def write(self, store: Store) -> int:
        """Inside a transaction, at its end: sync, and note up to where the log counts."""
        self._doubtful = True
        end = self._open().write()
        if end > self._open().end:
            store.note_log(self._open().name, end)
        return end

    def committed(self, end: int) -> None:
        """After the transaction."""
        self._open().counted(end)
        self._doubtful = False

    def _open(self) -> Log:
        if self._log is None:
            raise StoreError("there is no log of reports")
        return self._log

    def _settle(self, store: Store, one: Log) -> None:
        """Drop what a transaction has left that failed; inside another, which comes after it."""
        one.drop()
        if self._doubtful:
            one.cut(store.log_end(one.name) or EMPTY)
            self._doubtful = False

    def _is_over(self, one: Log, now: datetime) -> bool:
        return one.end > MOST_BYTES or _hour(now) != self._hour

    def _put_away(self, one: Log) -> None:
        """Write no more to a log; it waits to be sealed, unless there is nothing in it."""
        self._log = None
        if one.is_empty:
            one.remove()
        else:
            self.sealing.append(one)

    # --- sealing ---------------------------------------------------------------------------------

    def rotate(self, store: Store, *, now: datetime | None = None, always: bool = False) -> None:
        """Let the log wait to be sealed, if its time is over; the next commit makes a new one."""
        one = self._log
        if one is None or not (always or self._is_over(one, now or utc_now())):
            return
        if self._doubtful:
            with store.transaction():  # it waits for a commit that is still on its way
                self._settle(store, one)
        self._put_away(one)

    def seal(self, one: Log) -> None:
        """Write a log's reports as parts; it is renamed when they are on the disk."""
        by_digest: dict[str, list[tuple[Ids, Rows]]] = {}
        for record in one.records():
            by_digest.setdefault(record.digest, []).append((record.ids, record.rows))
        for digest, parts in by_digest.items():
            ids, rows = (np.concatenate(columns) for columns in zip(*parts, strict=True))
            order, _ = in_order(ids)
            sorted_once = picked(ids, order), picked(rows, order)
            folder.write(self._places[digest], one.day, one.name, [sorted_once])
        one.rename(SEALED)

    def forget(self, store: Store, one: Log) -> None:
        """Remove a log that was sealed."""
        store.forget_log(one.name)
        self.sealing.remove(one)
        one.remove()

    def end(self, store: Store) -> None:
        """Seal what there is; what cannot be sealed now is left to the next start."""
        try:
            self.rotate(store, always=True)
            for one in [*self.sealing]:
                self.seal(one)
                self.forget(store, one)
        except (OSError, MurmurationError) as problem:
            log.error("a log of reports waits for the next start: %s", problem)
        for one in [*self.sealing, *filter(None, [self._log])]:
            one.close()

    # --- what others have left -------------------------------------------------------------------

    def _left_behind(self, store: Store) -> list[Log]:
        """Take over the logs of this store that nobody writes; return those to be sealed."""
        logs = self.path / FOLDER
        sweep(logs)
        for path in sorted(logs.glob(f"*{SEALED}")):
            if (one := self._taken(path)) is not None:
                store.forget_log(one.name)
                one.remove()
        found = [one for path in sorted(logs.glob(f"*{ENDING}")) if (one := self._taken(path))]
        return [one for one in found if self._is_left(store, one)]

    def _taken(self, path: Path) -> Log | None:
        one = taken(path)
        if one is not None and one.store != self._name:
            one.close()
            return None
        return one

    def _is_left(self, store: Store, one: Log) -> bool:
        """Cut a log to what counts; return whether there is something to seal."""
        with store.transaction():  # it waits for a commit that is still on its way
            one.end = store.log_end(one.name) or EMPTY
        try:
            if one.is_short:
                raise FormatError("it ends before what was counted does")
            if (groups := one.beyond()) > 1:
                raise FormatError(f"{groups} groups in it are not counted: the store has gone back")
            one.cut(one.end)
            for digest in {record.digest for record in one.records()}:
                self._know(store, digest)
        except FormatError as problem:
            one.rename(ASIDE)
            log.error("%s is kept, and its reports are in no part: %s", one.path, problem)
            one.close()
            return False
        if one.is_empty:
            one.remove()
        return not one.is_empty

    def _know(self, store: Store, digest: str) -> None:
        """Look up a campaign that is served no more."""
        if digest in self._places:
            return
        if (document := store.document_with(digest)) is None:
            raise FormatError(f"the store does not know the campaign {digest[:16]}")
        campaign = campaign_document.read(document, SurveyCampaign)
        self._places[digest] = folder.described(self.path, campaign, document)


def check(path: Path, terms: Mapping[str, Terms]) -> None:
    """Refuse what cannot be: reports that are not kept, kept in a folder. Make the folder."""
    parquet.arrow()
    for name, own in terms.items():
        if not own.keep_reports:
            raise ParameterError(
                f"{name} tells people that their reports are not kept (keep_reports = false), and "
                f"--reports would keep them in {path}: leave one of the two out"
            )
    if path.exists() and not path.is_dir():
        raise ParameterError(f"--reports is a folder; {path} is none")
    folder.make(path / FOLDER, path)


def _hour(now: datetime) -> int:
    return int(now.timestamp()) // HOUR
