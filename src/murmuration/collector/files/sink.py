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
killed between the log and the store, and it is dropped. If there are more, an old copy of the store
was put in its place: the log is kept aside, and nothing in it is counted.
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
        check(path, {each.campaign.name: each.campaign.terms for each in served})
        self.path, self._name = path, store.collector_name()
        self._log: Log | None = None
        self._hour = 0
        self._doubtful = False
        """Whether it is not known if the last write counts."""
        self._places = {
            each.campaign.digest: folder.described(path, each.campaign, each.document)
            for each in served
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

    def _settle(self, store: Store, log_file: Log) -> None:
        """Drop what a transaction has left that failed; inside another, which comes after it."""
        log_file.drop()
        if self._doubtful:
            log_file.cut(store.log_end(log_file.name) or EMPTY)
            self._doubtful = False

    def _is_over(self, log_file: Log, now: datetime) -> bool:
        return log_file.end > MOST_BYTES or _hour(now) != self._hour

    def _put_away(self, log_file: Log) -> None:
        """Write no more to a log; it waits to be sealed, unless there is nothing in it."""
        self._log = None
        if log_file.is_empty:
            log_file.remove()
        else:
            self.sealing.append(log_file)

    # --- sealing ---------------------------------------------------------------------------------

    def rotate(self, store: Store, *, now: datetime | None = None, always: bool = False) -> None:
        """Let the log wait to be sealed, if its time is over; the next commit makes a new one."""
        log_file = self._log
        if log_file is None or not (always or self._is_over(log_file, now or utc_now())):
            return
        if self._doubtful:
            with store.transaction():  # it waits for a commit that is still on its way
                self._settle(store, log_file)
        self._put_away(log_file)

    def seal(self, log_file: Log) -> None:
        """Write a log's reports as parts; it is renamed when they are on the disk."""
        by_digest: dict[str, list[tuple[Ids, Rows]]] = {}
        for record in log_file.records():
            by_digest.setdefault(record.digest, []).append((record.ids, record.rows))
        for digest, parts in by_digest.items():
            ids, rows = (np.concatenate(columns) for columns in zip(*parts, strict=True))
            order, _ = in_order(ids)
            sorted_once = picked(ids, order), picked(rows, order)
            folder.write(self._places[digest], log_file.day, log_file.name, [sorted_once])
        log_file.rename(SEALED)

    def forget(self, store: Store, log_file: Log) -> None:
        """Remove a log that was sealed."""
        store.forget_log(log_file.name)
        self.sealing.remove(log_file)
        log_file.remove()

    def end(self, store: Store) -> None:
        """Seal what there is; what cannot be sealed now is left to the next start."""
        try:
            self.rotate(store, always=True)
            for log_file in [*self.sealing]:
                self.seal(log_file)
                self.forget(store, log_file)
        except (OSError, MurmurationError) as problem:
            log.error("a log of reports waits for the next start: %s", problem)
        for log_file in [*self.sealing, *filter(None, [self._log])]:
            log_file.close()

    # --- what others have left -------------------------------------------------------------------

    def _left_behind(self, store: Store) -> list[Log]:
        """Take over the logs of this store that nobody writes; return those to be sealed."""
        logs = self.path / FOLDER
        sweep(logs)
        for path in sorted(logs.glob(f"*{SEALED}")):
            if (log_file := self._taken(path)) is not None:
                store.forget_log(log_file.name)
                log_file.remove()
        left = [
            log_file for path in sorted(logs.glob(f"*{ENDING}")) if (log_file := self._taken(path))
        ]
        return [log_file for log_file in left if self._is_left(store, log_file)]

    def _taken(self, path: Path) -> Log | None:
        log_file = taken(path)
        if log_file is not None and log_file.store != self._name:
            log_file.close()
            return None
        return log_file

    def _is_left(self, store: Store, log_file: Log) -> bool:
        """Cut a log to what counts; return whether there is something to seal."""
        with store.transaction():  # it waits for a commit that is still on its way
            log_file.end = store.log_end(log_file.name) or EMPTY
        try:
            if log_file.is_short:
                raise FormatError("it ends before what was counted does")
            if (groups := log_file.beyond()) > 1:
                raise FormatError(
                    f"{groups} groups in it are not counted: the store is an older copy"
                )
            log_file.cut(log_file.end)
            for digest in {record.digest for record in log_file.records()}:
                self._know(store, digest)
        except FormatError as problem:
            log_file.rename(ASIDE)
            log.error("%s is kept, and its reports are in no part: %s", log_file.path, problem)
            log_file.close()
            return False
        if log_file.is_empty:
            log_file.remove()
        return not log_file.is_empty

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
        raise ParameterError(f"--reports is a folder; {path} is not one")
    folder.make(path / FOLDER, path)


def _hour(now: datetime) -> int:
    return int(now.timestamp()) // HOUR
